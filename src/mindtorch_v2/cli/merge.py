"""Put traces of several ranks or workers on one clock, in one file.

Each trace becomes a group of tracks of its own. They are aligned by Unix time, unless --align says to let the first
step all have in common, or the beginnings, coincide: use `step` where the machines' clocks differ. If the traces hold
steps, how the ranks keep up with each other is shown.

examples:
  mindtorch merge rank0.json rank1.json -o all.json
  mindtorch merge --align step --labels left,right a.json b.json -o both.json.gz
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from ..profiler.analyse.merge import ALIGNMENTS, CLOCK, Straggling, merge, stragglers
from ..profiler.analyse.units import format_time
from ..profiler.capture.capture import Capture
from .files import read_capture, write_capture
from .terminal import UserError, say


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="RANK", help="a trace, a spool or a folder of each rank")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="where to write; its end names the format")
    parser.add_argument("--align", choices=ALIGNMENTS, default=CLOCK, help="what is made to coincide (clock)")
    parser.add_argument("--labels", metavar="A,B,…", help="names of the groups (rank N, or the file's name)")


def run(options: argparse.Namespace) -> int:
    captures = [read_capture(path) for path in options.files]
    labels = options.labels.split(",") if options.labels else _labels(options.files, captures)
    if len(labels) != len(captures):
        raise UserError(f"{len(labels)} labels for {len(captures)} files; give as many, separated by commas")
    try:
        merged = merge(captures, labels, align=options.align)
    except ValueError as error:
        raise UserError(str(error)) from error
    write_capture(merged, options.output)
    for row in stragglers(captures, labels):
        say(_keeping_up(row))
    say(f"merged {len(captures)} captures: {options.output}")
    return 0


def _labels(files: list[str], captures: list[Capture]) -> list[str]:
    """`rank N` where a trace says which rank it is, else the file's name; no two the same."""
    labels = []
    for path, capture in zip(files, captures):
        rank = rank_of(capture.metadata)
        label = f"rank {rank}" if rank is not None else os.path.basename(os.path.normpath(path)).split(".")[0]
        labels.append(label if label not in labels else f"{label} ({path})")
    return labels


def rank_of(metadata: dict[str, Any]) -> int | None:
    """The rank a trace says it is of."""
    info = metadata.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else None
    return rank if isinstance(rank, int) else None


def _keeping_up(row: Straggling) -> str:
    behind = f", {row.behind:.1%} over the fastest" if row.behind else ""
    return f"{row.label}: {row.steps} steps of {format_time(row.median_ns / 1000)}{behind}"
