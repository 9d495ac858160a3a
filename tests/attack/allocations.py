"""Lets one memory allocation after the other fail, in calls that run compiled code, and sees what becomes of it.

A case is a call and what has to be the same after it whether or not memory was short. Each attempt is a process of its
own, forked off one where all is prepared: the interpreter's n-th allocation fails, and the call has to raise MemoryError,
or torch's error for it, or to do without. No attempt may crash, hang, raise anything else, give a
wrong value, lose an event without telling, or leave anything behind that later calls notice.

    python tests/attack/allocations.py --seconds 60 --seed 7 [--only NAME]

Whoever adds compiled code adds cases: a module with a list of them, named in MODULES.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import itertools
import json
import operator
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

try:
    import _testcapi
except ImportError:  # not every build has it
    _testcapi = None  # type: ignore[assignment]

FOLDER = Path(__file__).parent

# Where cases are found, each module with a list CASES.
MODULES = ["allocation_cases"]

# An attempt that takes longer hangs.
LONGEST_S = 20
# A case, which takes its time to be prepared, is attacked for so long at least.
LEAST_S = 1.0
# More allocations than any call makes.
FAR_OFF = 10**6
# How many problems of a case are shown, and how much of a value.
SHOWN, CUT = 3, 1000
# What torch says where there is no memory; else it is a MemoryError.
TORCHS_TEXT = "can't allocate memory"


class Attacked(NamedTuple):
    """A call, and what is asked once it is over: how things are since, and what is known of the call itself (None where
    somebody was told that it is not all, or where there is nothing to know). All are values that JSON knows and have to be
    those of an attempt in which nothing fails; what is known of the call, where it came to its end. `before` is what a
    forked process has to do first, such as to start a thread: that can fail in ways that are Python's own."""

    call: Callable[[], Any]
    after: Callable[[], tuple[Any, Any]] = lambda: (None, None)
    before: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Case:
    """`prepare` is called once, and what it gives attacked many times, each time as if it were the first."""

    name: str
    prepare: Callable[[], Attacked]


class Attempt(NamedTuple):
    """How one ended: with a problem or, where it is "", as it should."""

    done: bool
    value: Any
    since: Any
    known: Any
    problem: str


def unavailable() -> str:
    """Why nothing can be tried here; "" where it can."""
    if not hasattr(_testcapi, "set_nomemory"):
        return "this Python has no _testcapi.set_nomemory"
    return "" if hasattr(os, "fork") else "this system has no fork"


def load_cases() -> list[Case]:
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return [case for name in MODULES for case in importlib.import_module(name).CASES]


# One attempt, in a process of its own


def _attempt(attacked: Attacked, number: int) -> Attempt:
    """The allocation of this number fails while the call lasts. That all later ones fail is not tried: the interpreter then
    does not get out of an `except` itself."""
    attacked.before()
    told: list[bool] = []
    sys.unraisablehook = lambda unraisable: told.append(True)
    done, value, problem = False, None, ""
    errors: list[BaseException] = []
    _testcapi.set_nomemory(number, number + 1)
    try:
        value = attacked.call()
        done = True
    except BaseException as error:
        errors.append(error)
    finally:
        _testcapi.remove_mem_hooks()
    sys.unraisablehook = sys.__unraisablehook__
    if errors and not _is_shortage(errors[0]):
        problem = "".join(traceback.format_exception(errors[0]))
    errors.clear()
    since, known = attacked.after()
    return Attempt(done, value, since, None if told else known, problem)


def _is_shortage(error: BaseException) -> bool:
    """Whether an exception says that there was no memory. From 3.11 on an exception on its way is lost where there is none
    for the frame that it leaves, or that a profile function is told of, and the interpreter says so."""
    text = str(error)
    if isinstance(error, SystemError):
        own = ("error return without exception set", "Missing frame when calling profile function.")
        return text in own or (text.startswith("<function ") and "returned NULL" in text)
    return isinstance(error, MemoryError) or (type(error) is RuntimeError and TORCHS_TEXT in text)


def _count(attacked: Attacked) -> int:
    """How many allocations the call makes: as many more as there are until one fails that is far off are made here."""
    attacked.before()
    rest = itertools.repeat(None, FAR_OFF)
    _testcapi.set_nomemory(FAR_OFF, FAR_OFF + 1)
    try:
        attacked.call()
        for _ in rest:
            object()
    except MemoryError:
        pass
    finally:
        _testcapi.remove_mem_hooks()
    return operator.length_hint(rest) + 1


def forked(work: Callable[[], Any], limit: int = LONGEST_S) -> tuple[Any, str]:
    """What `work` gives in a forked process, and how that ended where it did not end well."""
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            try:
                os.dup2(errors.fileno(), 2)
                faulthandler.enable()
                if limit:
                    faulthandler.dump_traceback_later(limit - 1)
                signal.alarm(limit)
                os.write(answer.fileno(), json.dumps(work()).encode())
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        answer.seek(0)
        errors.seek(0)
        if status == 0:
            return json.loads(answer.read()), ""
        what = "hangs" if status == -signal.SIGALRM else f"ends with {status}"
        return None, f"{what}\n{errors.read().decode(errors='replace')}"


def attempt(attacked: Attacked, number: int) -> Attempt:
    found, problem = forked(lambda: _attempt(attacked, number))
    return Attempt(False, None, None, None, problem) if problem else Attempt(*found)


# All attempts on a case


def attack(case: Case, seconds: float = float("inf"), drawn: random.Random | None = None) -> tuple[int, list[str]]:
    """Attack a case, for so long at most; how many attempts there were, and what went wrong. With `drawn` the allocations
    that fail come in an order that it draws."""
    attacked = case.prepare()
    began, attempts, problems = time.monotonic(), 0, []
    usual = attempt(attacked, FAR_OFF)
    count, problem = forked(lambda: _count(attacked))
    if problem or usual.problem or not usual.done:
        return 1, [f"{case.name}: fails though nothing does: {usual.problem}{problem}"]
    numbers = list(range(count))
    if drawn is not None:
        drawn.shuffle(numbers)
    for number in numbers:
        if time.monotonic() - began > seconds:
            break
        found = attempt(attacked, number)
        attempts += 1
        problem = found.problem or _difference(found, usual)
        if problem:
            problems.append(f"{case.name}: allocation {number}: {problem}")
    return attempts, problems


def _difference(found: Attempt, usual: Attempt) -> str:
    if found.done and found.value != usual.value:
        return f"gives {_first_difference(found.value, usual.value)}"
    if found.since != usual.since:
        return f"leaves {_first_difference(found.since, usual.since)}"
    if found.done and found.known is not None and found.known != usual.known:
        return f"is known by {_first_difference(found.known, usual.known)}"
    return ""


def _first_difference(found: Any, usual: Any) -> str:
    if isinstance(found, list) and isinstance(usual, list) and len(found) == len(usual):
        return next(_first_difference(*pair) for pair in zip(found, usual, strict=True) if pair[0] != pair[1])
    return f"{str(found)[:CUT]} instead of {str(usual)[:CUT]}"


def _in_process(case: Case, seconds: float, seed: int | None) -> tuple[int, list[str]]:
    """Attack a case in a process of its own, so that none is prepared on top of another."""
    drawn = None if seed is None else random.Random(f"{seed} {case.name}")
    found, problem = forked(lambda: attack(case, seconds, drawn), limit=0)
    return (0, [f"{case.name}: {problem}"]) if problem else tuple(found)


def main(seed: int, seconds: float, only: str = "") -> int:
    """Attack cases in an order drawn by the seed, for `seconds` altogether (0: all of them, each allocation). How many
    problems were found."""
    reason = unavailable()
    if reason:
        print(f"allocations: not tried, as {reason}")
        return 0
    cases = [case for case in load_cases() if only in case.name]
    print(f"allocations: {len(cases)} cases, seed {seed}", flush=True)
    began, found, attempts, attacked = time.monotonic(), 0, 0, 0
    if seconds:
        random.Random(seed).shuffle(cases)
    for case in cases:
        if seconds and attacked and time.monotonic() - began > seconds:
            break
        share = max(seconds / len(cases), LEAST_S) if seconds else float("inf")
        tried, problems = _in_process(case, share, seed if seconds else None)
        attacked += 1
        attempts += tried
        found += len(problems)
        for problem in problems[:SHOWN]:
            print(problem, flush=True)
        if only or problems:
            print(f"{case.name}: {tried} attempts, {len(problems)} problems", flush=True)
    print(f"allocations: {attempts} attempts on {attacked} cases, {found} problems", flush=True)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60, help="0: until every allocation has failed once")
    parser.add_argument("--only", default="", help="cases whose names hold this")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    sys.exit(min(main(arguments.seed, arguments.seconds, arguments.only), 1))
