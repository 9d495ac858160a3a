"""Say what limits a run on GPUs and other devices, and who asked for their time.

FILE is a trace of torch (CUDA, ROCm, XPU, MTIA) or of this package, plain or compressed, a spool or a folder; several files
are those of several ranks. First comes what limits the run, then tables: devices, streams, kernels, operators, modules,
launches, queues, copies, the critical path, idle time by stack, memory, sequences of small kernels and the roofline.
--json writes everything as one object; docs/analysis.md defines each figure.

examples:
  mindtorch analyze trace.json.gz
  mindtorch analyze rank0.json.gz rank1.json.gz --limit 20
  mindtorch analyze trace.json --table operators --csv > operators.csv
  mindtorch analyze trace.json --json | jq .devices
  mindtorch analyze trace.json --peaks our-devices.json --table roofline
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..profiler.analyse.devices.analysis import Analysis, joined
from .files import STDIN, read_capture
from .reporters.analyze import FORMATS, TABLES
from .terminal import OK, UserError, Working, add_formats


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="a trace, a spool, a folder, or - for stdin")
    parser.add_argument("--table", choices=TABLES, help="only this table (of CSV: operators)")
    parser.add_argument(
        "--limit", type=int, default=None, metavar="N", help="rows of a table (10; all for data formats)"
    )
    parser.add_argument("--peaks", metavar="JSON", help="peaks of devices of your own for the roofline")
    add_formats(parser, FORMATS)


def run(options: argparse.Namespace) -> int:
    if options.files.count(STDIN) > 1:
        raise UserError("stdin (-) can be one file only; save the others")
    peaks = None if options.peaks is None else _peaks(options.peaks)
    found = {}
    for path in options.files:
        capture = read_capture(path)
        with Working(f"analysing {path}"):
            try:
                found[path] = Analysis(capture, peaks).as_dict()
            except ValueError as error:
                raise UserError(str(error)) from error
    print(FORMATS[options.format](joined(found), options), end="")
    return OK


def _peaks(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except ValueError as error:
        raise UserError(f"{path} is no JSON: {error}; docs/analysis.md shows what peaks look like") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} holds no object of devices by name; docs/analysis.md shows what peaks look like")
    return found
