"""Write a trace in another format, chosen by the end of the file's name.

IN is a trace of torch or of this package, a spool, a folder that `mindtorch profile` wrote, or - for stdin.

examples:
  mindtorch convert trace.json trace.json.gz
  mindtorch convert torch_trace.json profile.speedscope.json
  mindtorch convert - trace.json < capture.mtspool
"""

from __future__ import annotations

import argparse

from ..profiler.export import FORMATS
from .files import read_capture, write_capture
from .terminal import say


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="IN", help="a trace, a spool, a folder, or - for stdin")
    parser.add_argument("target", metavar="OUT", help="where to write; its end names the format")
    lines = [f"  {suffix:<20} {form.title}" for suffix, form in sorted(FORMATS.items())]
    parser.epilog = "formats:\n" + "\n".join(lines)


def run(options: argparse.Namespace) -> int:
    write_capture(read_capture(options.source), options.target)
    say(f"wrote {options.target}")
    return 0
