"""Compare runs: what got slower, faster, appeared or went away, beyond noise.

A and B are traces of torch or of this package, spools, or folders that `mindtorch profile` wrote; several captures of a
side are joined by commas (or given with repeated --before and --after). A sample is the self time of an op, module or
stack in one step; without steps it is a capture, or a single call. What all of them share, the pace of the machine, is
taken out and reported by itself. A change counts when it exceeds --smallest-effect by more than chance explains
(rank test, Holm's correction), so that equal runs raise an alarm less than once in a hundred comparisons.
Where all captures have work on GPUs or other devices its time is compared, under the ops and modules that asked for it, with
the kernels of both sides below each op, so that devices of two vendors can be compared; --time cpu compares the host's.

--fail-over P makes it a gate: exit code 1 if anything is slower by P or more, or has appeared and takes P or more of the
time; 3 if there was nothing to measure. More steps or captures a side find smaller changes.

examples:
  mindtorch diff before after
  mindtorch diff before.json after.json --by module
  mindtorch diff a1.json,a2.json,a3.json b1.json,b2.json,b3.json
  mindtorch diff main.json branch.json --fail-over 10% --junit diff.xml --markdown >> "$GITHUB_STEP_SUMMARY"
"""

from __future__ import annotations

import argparse
import os

from ..core.files import write_text
from ..profiler.analyse.diff import Diff, Rules, compare
from ..profiler.analyse.samples import GROUPINGS, NothingRecorded
from ..profiler.capture.capture import Capture
from .files import STDIN, read_capture
from .reporters.diff import FORMATS, junit
from .terminal import FAILED, NOTHING_MEASURED, OK, UserError, Working, say


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="A", nargs="?", help="capture(s) before, joined by commas")
    parser.add_argument("after", metavar="B", nargs="?", help="capture(s) after, joined by commas")
    parser.add_argument(
        "--before", dest="more_before", action="append", default=[], metavar="FILE", help="one more of A"
    )
    parser.add_argument("--after", dest="more_after", action="append", default=[], metavar="FILE", help="one more of B")
    parser.add_argument("--by", default="op", choices=GROUPINGS, help="what is compared (op)")
    parser.add_argument(
        "--time",
        choices=("cpu", "device"),
        help="whose time is compared (that of devices where all captures have some)",
    )
    parser.add_argument("--fail-over", type=share, metavar="P", help="fail if anything is slower by P, as in 10%%")
    parser.add_argument(
        "--smallest-effect", type=share, default=Rules.smallest_effect, metavar="P", help="the least change (2%%)"
    )
    parser.add_argument(
        "--smallest-share", type=share, default=Rules.smallest_share, metavar="P", help="the least part of time (0.1%%)"
    )
    parser.add_argument("--all", action="store_true", help="show what did not change too")
    parser.add_argument("--limit", type=int, default=40, metavar="N", help="rows shown (40)")
    parser.add_argument("--junit", metavar="FILE", help="also write JUnit XML, a test case for each row")
    output = parser.add_mutually_exclusive_group()
    for name in FORMATS:
        if name != "text":
            output.add_argument(f"--{name}", dest="format", action="store_const", const=name, help=f"write {name}")
    parser.set_defaults(format="text")


def share(text: str) -> float:
    """A part of a whole: `10%` or `0.1`."""
    try:
        value = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share; write 10% or 0.1")
    return value


def run(options: argparse.Namespace) -> int:
    before = _side(options.before, options.more_before)
    after = _side(options.after, options.more_after)
    if not before or not after:
        raise UserError("two sides are needed; write `mindtorch diff A B`, each a file or files joined by commas")
    if (before + after).count(STDIN) > 1:
        raise UserError("stdin (-) can be one capture only; save the other to a file")
    found = _compare([read_capture(path) for path in before], [read_capture(path) for path in after], options)
    print(FORMATS[options.format](found, options), end="")
    failures = found.failures(options.fail_over) if options.fail_over is not None else {}
    if options.junit:
        write_text(options.junit, junit(found, failures, options))
        say(f"JUnit: {options.junit}")
    return OK if options.fail_over is None else _gate(found, failures, options.fail_over)


def _side(joined: str | None, more: list[str]) -> list[str]:
    """The files of a side; a name with a comma that exists is one file."""
    if joined is None:
        return more
    return [*([joined] if os.path.exists(joined) else [part for part in joined.split(",") if part]), *more]


def _compare(before: list[Capture], after: list[Capture], options: argparse.Namespace) -> Diff:
    rules = Rules(options.smallest_effect, smallest_share=options.smallest_share)
    with Working("comparing"):
        try:
            on_device = None if options.time is None else options.time == "device"
            return compare(before, after, by=options.by, rules=rules, on_device=on_device)
        except NothingRecorded as error:
            raise UserError(str(error)) from error


def _gate(found: Diff, failures: dict[int, str], limit: float) -> int:
    if failures:
        for failure in failures.values():
            say(f"FAILED: {failure} (limit {limit:.0%})")
        return FAILED
    if not found.judged:
        say("FAILED: nothing was measured; record at least 3 steps a side, of the same program")
        return NOTHING_MEASURED
    say(f"passed: nothing of {found.judged} is slower by {limit:.0%} or more")
    return OK
