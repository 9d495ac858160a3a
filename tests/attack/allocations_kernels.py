"""Lets every allocation of the compiled kernels fail, one after the other: each call then raises MemoryError, or does without.

    python tests/attack/allocations_kernels.py

`CASES` are calls by name, made as `kernels.py` makes those that are meant. An allocation fails by the interpreter's own means
(`_testcapi.set_nomemory`), which all memory of the C code comes from but for the elements of arrays, which are NumPy's.
"""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from kernels import functions
from maker import Maker
from meant import HANDED_OVER, MEANT, PAIRS, SINGLE
from mindtorch_v2.kernels.compiled import C

VARIANTS = 4  # calls of each function, of other types and sizes
FURTHEST = 16  # allocations of one call that are let fail; none of them makes more


def cases() -> list[tuple[str, Callable[[], Any]]]:
    """Calls of every function that takes arrays, by name."""
    made = []
    plain = np.ones((5, 7), np.float32)
    for name in functions():
        if name in ("setup", "draw_from", "Laid", *HANDED_OVER):  # done once, when the package is loaded
            continue
        if name in SINGLE.split() or name in PAIRS.split():
            # Only what is done here: NumPy's ufuncs themselves do not bear all failures (a NULL without an exception).
            given = (plain,) if name in SINGLE.split() else (plain, plain)
            made.append((name, functools.partial(getattr(C, name), *given)))
            made.append((f"{name} of a column", functools.partial(getattr(C, name), *given[:-1], plain[:, :1].copy())))
            continue
        for number in range(VARIANTS):
            given = MEANT[name](Maker(number, len(name)))
            made.append((f"{name} {number}", functools.partial(getattr(C, name), *given)))
    lists = [
        [np.ones(3000 * (k % 3 + 1), np.float32) for k in range(20)] for _ in range(5)
    ]  # more than fit on the stack
    made.append(("adam of many", functools.partial(C.adam, *lists, *[0.5] * 9)))
    rows, few = np.ones((70, 33)), np.ones(70)
    backward = (rows, rows.copy(), few, few.copy(), np.ones(33), np.empty((70, 33)), np.empty(33), np.empty(33))
    made.append(("layer_norm_backward of all", functools.partial(C.layer_norm_backward, *backward)))
    return made


def wrong_with(name: str, call: Callable[[], Any]) -> list[str]:
    """What came of a call other than a result or a MemoryError, by which allocation failed."""
    testing: Any = importlib.import_module("_testcapi")
    found: list[str] = []
    expected: type[BaseException] = MemoryError
    try:
        call()
    except Exception as raised:
        expected = type(raised)  # it is refused anyway
    with np.errstate(all="ignore"):
        for failing in range(FURTHEST):
            error: BaseException | None = None
            testing.set_nomemory(failing, failing + 1)
            try:
                call()
            except BaseException as raised:
                error = raised
            finally:
                testing.remove_mem_hooks()
            if error is not None and type(error) not in (MemoryError, expected):
                found.append(f"{name}, allocation {failing}: {type(error).__name__}: {error}")
    return found


def main(seed: int = 0, seconds: float = 0.0) -> int:
    """In a process of its own; how many findings. What is tried is always the same, and takes a few seconds."""
    ended = subprocess.run([sys.executable, "-X", "faulthandler", __file__, "--worker"], capture_output=True, text=True)
    sys.stdout.write(ended.stdout)
    if ended.returncode not in (0, 1):
        print(f"the process ended with {ended.returncode}\n{ended.stderr[:3000]}")
        return 1
    return sum(", allocation " in line for line in ended.stdout.splitlines())


def work() -> bool:
    found = []
    all_cases = cases()
    for name, call in all_cases:
        found += wrong_with(name, call)
    print(*found, f"allocations of kernels: {len(all_cases)} calls, {len(found)} findings", sep="\n")
    return bool(found)


if __name__ == "__main__":
    if C is None:
        sys.exit("the compiled kernels are not built, or not wanted")
    sys.exit(work() if "--worker" in sys.argv else main() > 0)
