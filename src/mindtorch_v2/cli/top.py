"""Watch a running program: its hottest operators of the last seconds.

The program was started by `mindtorch run` or `mindtorch profile`, by the same user. Without PID the newest is taken.
On a terminal the view is redrawn until Ctrl-C; elsewhere one view follows the other. Watching records what runs
meanwhile, which costs the program a few hundred nanoseconds an operator.

examples:
  mindtorch top
  mindtorch top 4242 --interval 5
  mindtorch top --once --json
  mindtorch top --list
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from ..profiler.analyse.units import format_time
from ..profiler.export.texts import json_text
from . import wire
from .terminal import BOLD, OK, UserError, cut, paint, say, visible, width_of_terminal

_PATIENCE_S = 30.0


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pid", type=int, nargs="?", metavar="PID", help="the process to watch (the newest)")
    parser.add_argument("--interval", type=_seconds, default=2.0, metavar="S", help="seconds a view covers (2)")
    parser.add_argument("--count", type=int, default=0, metavar="N", help="stop after N views (never)")
    parser.add_argument("--once", dest="count", action="store_const", const=1, help="one view")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="operators shown (20)")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each view")
    parser.add_argument("--list", action="store_true", help="list the programs that can be watched")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 60:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.01 to 60")
    return value


def run(options: argparse.Namespace) -> int:
    if options.list:
        for pid in wire.programs():
            print(pid, visible(" ".join(wire.request(pid, {"do": "status"})["program"])))
        return OK
    pid = options.pid if options.pid is not None else newest()
    views = 0
    redraw = sys.stdout.isatty() and not options.json
    while True:
        try:
            requested = {"do": "hot", "seconds": options.interval, "limit": options.limit}
            found = wire.request(pid, requested, options.interval + _PATIENCE_S)
        except UserError:
            if not views:
                raise
            say(f"process {pid} has ended")
            return OK
        if options.json:
            print(json_text(found), flush=True)
        else:
            print(("\x1b[H\x1b[J" if redraw else "") + view(found), end="\n" if not redraw else "", flush=True)
        views += 1
        if views == options.count:
            return OK


def newest() -> int:
    """The program that was started last."""
    found = wire.programs()
    if not found:
        raise UserError("no program to watch; start one with `mindtorch run` or `mindtorch profile`")
    return found[0]


def view(found: dict[str, Any]) -> str:
    """One view as text."""
    window_us = found["seconds"] * 1e6
    program = " ".join([os.path.basename(found["program"][0]), *found["program"][1:]]) if found["program"] else ""
    state = "being profiled" if found["recording"] else "not being profiled"
    width = width_of_terminal() or sys.maxsize
    head = (
        f"{visible(program)} (process {found['pid']}, {state}): {found['events']:,} events in {found['seconds']:.1f} s"
    )
    lines = [
        cut(head, width),
        "",
        paint(f"{'Self':>10}  {'Self %':>7}  {'Total':>10}  {'Calls/s':>9}  Name", BOLD),
    ]
    for row in found["rows"]:
        share = row["self_us"] / window_us if window_us else 0
        rate = row["count"] / found["seconds"] if found["seconds"] else 0
        times = f"{format_time(row['self_us']):>10}  {share:>7.1%}  {format_time(row['total_us']):>10}"
        lines.append(cut(f"{times}  {rate:>9,.1f}  {visible(row['name'])}", width))
    if not found["rows"]:
        lines.append("nothing ran")
    return "\n".join(lines) + "\n"
