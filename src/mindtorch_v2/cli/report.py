"""Write a report: one HTML file that opens anywhere, offline.

It holds an overview with warnings worth knowing, a timeline, flame graphs, the operator table, the module tree, memory
over time and a comparison of steps; with --before also what changed since.

examples:
  mindtorch report trace.json -o report.html
  mindtorch report after/trace.json --before before/trace.json -o change.html
"""

from __future__ import annotations

import argparse
import os

from ..profiler.report import write_report
from .files import STDIN, read_capture
from .terminal import UserError, Working, say


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a trace, a spool, a folder, or - for stdin")
    parser.add_argument("-o", "--output", default="report.html", metavar="FILE", help="where to write (report.html)")
    parser.add_argument("--before", metavar="FILE", help="an earlier capture to compare with")
    parser.add_argument("--title", help="the heading (the file's name)")


def run(options: argparse.Namespace) -> int:
    folder = os.path.dirname(options.output) or "."
    if not os.path.isdir(folder):
        raise UserError(f"no such folder: {folder}; make it first")
    capture = read_capture(options.file)
    before = read_capture(options.before) if options.before else None
    name = "stdin" if options.file == STDIN else os.path.basename(os.path.normpath(options.file))
    with Working("writing the report"):
        write_report(capture, options.output, before=before, title=options.title or name)
    say(f"report: {options.output}")
    return 0
