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

Best is to have the programs run here, in turns, so that the machine treats them alike: --run, twice, takes what `mindtorch
profile` takes, --rounds says how often. Compute is judged by CPU time, waiting by wall time. One run a side says nothing of
how much runs differ, so its changes of time are unclear; a baseline of several runs, written by --write-baseline, tells.
"same" is only what was measured to lie within --smallest-effect.

examples:
  mindtorch diff --run 'main.py --steps 50' --run 'branch.py --steps 50' --rounds 5 --fail-over 5%
  mindtorch diff --run '--torch old.py' --run '--torch new.py'
  mindtorch diff a1,a2,a3,a4,a5 b1 --write-baseline baseline.json
  mindtorch diff before after --baseline baseline.json
  mindtorch diff before.json after.json --by module
  mindtorch diff a1.json,a2.json,a3.json b1.json,b2.json,b3.json
  mindtorch diff main.json branch.json --fail-over 10% --junit diff.xml --markdown >> "$GITHUB_STEP_SUMMARY"
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import tempfile

from ..core.files import write_text
from ..profiler.analyse.baseline import Baseline, measure
from ..profiler.analyse.diff import Diff, Rules, compare
from ..profiler.analyse.samples import GROUPINGS, NothingRecorded
from ..profiler.analyse.settle import Settled, settle
from ..profiler.capture.capture import Capture
from ..profiler.export.texts import json_encoder
from . import rounds
from .files import STDIN, read_capture
from .reporters.diff import FORMATS, junit
from .terminal import FAILED, NOTHING_MEASURED, OK, UserError, Working, add_formats, say


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="A", nargs="?", help="capture(s) before, joined by commas")
    parser.add_argument("after", metavar="B", nargs="?", help="capture(s) after, joined by commas")
    parser.add_argument(
        "--before", dest="more_before", action="append", default=[], metavar="FILE", help="one more of A"
    )
    parser.add_argument("--after", dest="more_after", action="append", default=[], metavar="FILE", help="one more of B")
    parser.add_argument(
        "--run", action="append", default=[], metavar="PROGRAM", help="run A, then B, under the profiler"
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="how often each is run, in turns (5)")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the profiles of the rounds there")
    parser.add_argument(
        "--baseline", action="append", default=[], metavar="FILE", help="how much runs differ: a baseline, or its runs"
    )
    parser.add_argument("--write-baseline", metavar="FILE", help="write how much the runs of A differ")
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
    add_formats(parser, FORMATS)


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
    if options.run:
        return _run_rounds(options)
    before = _side(options.before, options.more_before)
    after = _side(options.after, options.more_after)
    if not before or not after:
        raise UserError(
            "two sides are needed; write `mindtorch diff A B`, each a file or files joined by commas, or give --run twice"
        )
    if (before + after).count(STDIN) > 1:
        raise UserError("stdin (-) can be one capture only; save the other to a file")
    return _compare_and_tell([read_capture(path) for path in before], [read_capture(path) for path in after], options)


def _run_rounds(options: argparse.Namespace) -> int:
    if options.before or options.after or options.more_before or options.more_after:
        raise UserError("--run makes both sides itself; leave out A and B")
    programs = rounds.check(options.run, options.rounds)
    with contextlib.ExitStack() as stack:
        folder = options.keep or stack.enter_context(tempfile.TemporaryDirectory())
        sides = rounds.run(programs, options.rounds, folder, stacks=options.by == "stack")
        before, after = ([read_capture(path) for path in side] for side in sides)
        return _compare_and_tell(before, after, options)


def _compare_and_tell(before: list[Capture], after: list[Capture], options: argparse.Namespace) -> int:
    if options.write_baseline:
        _write_baseline(before, options)
    raw = _compare(before, after, options)
    found = settle(raw, before, after, _baseline(options), in_turn=bool(options.run))
    print(FORMATS[options.format](found, options), end="")
    failures = found.diff.failures(options.fail_over) if options.fail_over is not None else {}
    if options.junit:
        write_text(options.junit, junit(found, failures, options))
        say(f"JUnit: {options.junit}")
    return OK if options.fail_over is None else _gate(found, failures, options.fail_over)


def _baseline(options: argparse.Namespace) -> Baseline | None:
    """How much runs differ, from a file that says so or from the runs themselves."""
    if not options.baseline:
        return None
    paths = [path for joined in options.baseline for path in _side(joined, [])]
    if len(paths) == 1 and os.path.isfile(paths[0]):
        try:
            with open(paths[0], encoding="utf-8", errors="replace") as file:
                return Baseline.of_json(json.load(file) if file.read(1) == "{" and not file.seek(0) else None)
        except ValueError as error:
            raise UserError(f"{paths[0]}: {error}; --write-baseline writes one") from error
    try:
        return measure([read_capture(path) for path in paths], options.by)
    except ValueError as error:
        raise UserError(f"{error}; name them with --baseline a,b,c") from error


def _write_baseline(captures: list[Capture], options: argparse.Namespace) -> None:
    try:
        found = measure(captures, options.by)
    except ValueError as error:
        raise UserError(f"{error}; give A as a,b,c or use --run and --rounds") from error
    write_text(options.write_baseline, json_encoder(indent=1)(found.as_json()) + "\n")
    say(f"baseline of {found.runs} runs: {options.write_baseline}")


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


def _gate(found: Settled, failures: dict[int, str], limit: float) -> int:
    if failures:
        for failure in failures.values():
            say(f"FAILED: {failure} (limit {limit:.0%})")
        return FAILED
    if not found.diff.measured:
        say("FAILED: nothing was measured; record at least 3 steps a side, of the same program")
        return NOTHING_MEASURED
    if found.is_blind:
        say(f"FAILED: {found.reason}")
        return NOTHING_MEASURED
    open_ = found.could_hide(limit)
    told = f"; {open_} could be by what was measured, more rounds tell" if open_ else ""
    say(f"passed: nothing of {found.diff.measured} is known to be slower by {limit:.0%} or more{told}")
    return OK
