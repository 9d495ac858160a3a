"""Get back what a killed program had recorded.

A profile with a spool writes to it while it records; whatever ends the program, what was written so far is in the file.
What was lost is said on stderr. OUT's end names the format; without it a Chrome trace is written beside the spool.

examples:
  mindtorch recover out/capture.mtspool
  mindtorch recover out/capture.mtspool -o rescued.json.gz
"""

from __future__ import annotations

import argparse
import os

from ..profiler.api.recover import recover
from ..profiler.capture.capture import Capture
from .files import write_capture
from .terminal import UserError, Working, say


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spool", metavar="SPOOL", help="the spool of the program that was killed")
    parser.add_argument("-o", "--output", metavar="OUT", help="where to write (the spool's name with .json)")


def run(options: argparse.Namespace) -> int:
    capture = _recovered(options.spool)
    output = options.output or f"{options.spool.removesuffix('.mtspool')}.json"
    write_capture(capture, output)
    for note in capture.notes:
        say(f"note: {note}")
    say(f"recovered {sum(map(len, capture.tracks)):,} events: {output}")
    return 0


def _recovered(path: str) -> Capture:
    if not os.path.exists(path):
        raise UserError(f"no such file: {path}; give the .mtspool of a program that was killed")
    with Working(f"reading {path}"):
        try:
            return recover(path)
        except ValueError as error:
            raise UserError(f"cannot recover {path}: {error}; give a spool that `mindtorch profile` wrote") from error
