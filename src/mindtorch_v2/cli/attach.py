"""Start or stop profiling a program that is running.

The program was started by `mindtorch run` or `mindtorch profile`, by the same user; nothing else has to run, and nobody
else can reach it. `stop` writes trace, report and spool into the folder named at `start`.

examples:
  mindtorch attach 4242 start --shapes -o slow-hour
  mindtorch attach 4242 stop
  mindtorch attach 4242 status
"""

from __future__ import annotations

import argparse
import os

from . import wire
from .profile import RECORDED, add_recorded
from .terminal import OK, Working, say, visible

_STOP_PATIENCE_S = 600.0


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pid", type=int, metavar="PID", help="the process")
    parser.add_argument("action", choices=("start", "stop", "status"), help="what to do")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="where to write (PID.profile)")
    add_recorded(parser)


def run(options: argparse.Namespace) -> int:
    if options.action == "status":
        found = wire.request(options.pid, {"do": "status"})
        state = (
            f"profiled into {found['folder']}"
            if found["attached"]
            else ("profiled" if found["recording"] else "not profiled")
        )
        print(visible(f"{options.pid}: {' '.join(found['program'])}: {state}"))
    elif options.action == "start":
        # Its own folder is not this one's.
        folder = os.path.abspath(options.output or f"{options.pid}.profile")
        wanted = {name: getattr(options, flag) for flag, name in RECORDED.items()}
        started = wire.request(
            options.pid, {"do": "start", "folder": folder, "options": {**wanted, "with_modules": True}}
        )
        if started.get("misses"):
            say(f"not recorded: {visible(started['misses'])}")
        say(f"profiling process {options.pid}; `mindtorch attach {options.pid} stop` writes {folder}")
    else:
        with Working("writing"):
            found = wire.request(options.pid, {"do": "stop"}, _STOP_PATIENCE_S)
        for path in found["files"].values():
            print(path)
        say(f"recorded {found['events']:,} events")
    return OK
