"""Calls every function of the compiled kernels with odd arguments: other layouts, types, shapes and numbers than they are meant
for, objects that raise or change the arrays while they are read, too few and too many.

    python tests/attack/kernels.py --seed 1 --seconds 30

A call may return or raise an ordinary exception. It may not end the process, hang, leave a SystemError, write outside of
the arrays it was given or into those that are read-only. Calls are made in a process of its own; each is made from the seed
and its number alone, so `--seed S --first N --rounds 1` makes one of them again.
"""

from __future__ import annotations

import faulthandler
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from maker import Boom, Changing, Maker
from meant import HANDED_OVER, MEANT, PAIRS, SINGLE
from mindtorch_v2.kernels.compiled import C
from options import calls_parser

ORDINARY = (TypeError, ValueError, RuntimeError, IndexError, ArithmeticError, MemoryError, AttributeError, BufferError)
HANG_S = 20.0


def functions() -> list[str]:
    """The names of all functions of the module."""
    return sorted(name for name in dir(C) if callable(getattr(C, name)) and not name.startswith("_"))


def arguments(m: Maker, name: str) -> list[Any]:
    """Arguments as they are meant, mostly with some replaced, left out or added."""
    given = list(MEANT[name](m))
    if m.chance(3):
        return given
    for _ in range(m.pick((1, 1, 2, 3))):
        change = int(m.rng.integers(10))
        if change == 0 and given:
            given.pop(int(m.rng.integers(len(given))))
        elif change == 1 and name not in HANDED_OVER:
            given.insert(int(m.rng.integers(len(given) + 1)), m.anything())
        elif given:
            at = int(m.rng.integers(len(given)))
            arrays = [a for a in given if type(a) is np.ndarray]
            if change in (2, 3, 4, 5) and type(given[at]) is np.ndarray:
                given[at] = m.pick(arrays) if change == 2 else m.another(given[at])
            else:
                given[at] = m.anything()
    if name == "look":  # whose caller answers for the memory
        return [a if i == 0 else m.anything() if m.chance(2) and i else () for i, a in enumerate(given)]
    return given


def attack(seed: int, number: int) -> tuple[str, str]:
    """Make one call; its name, and what was wrong with it."""
    m = Maker(seed, number)
    name = m.pick(functions())
    given = arguments(m, name)
    for one in given:
        if isinstance(one, Changing):
            one.others = given
    keywords = {}
    if name in (*SINGLE.split(), *PAIRS.split()) and m.chance(3):
        keywords["out"] = m.pick((None, given[0] if given else None, m.anything(), m.real_of(*m.shape())))
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            getattr(C, name)(*given, **keywords)
    except (Boom, *ORDINARY):
        pass
    except BaseException as error:
        return name, f"{name} raised {type(error).__name__}: {error}"
    return name, "; ".join(sorted({g.damage() for g in m.guarded} - {""}))


def work(seed: int, first: int, rounds: int, seconds: float, log: Path) -> None:
    """Make calls until rounds or seconds are over. The log names the call under way."""
    found, until = 0, time.monotonic() + seconds
    with log.open("w") as now:
        for number in range(first, first + rounds):
            if time.monotonic() > until:
                break
            now.seek(0)
            now.write(f"{number:12d}\n")
            now.flush()
            faulthandler.dump_traceback_later(HANG_S, exit=True)
            name, wrong = attack(seed, number)
            faulthandler.cancel_dump_traceback_later()
            if wrong:
                found += 1
                print(f"call {number} ({name}): {wrong}", flush=True)
    print(f"{number - first + 1} calls, {found} findings")


def main(seed: int, seconds: float, rounds: int = 1 << 40, first: int = 0) -> int:
    """Attack in a process of its own; how many findings there were. A process that ends is one, and another goes on."""
    found, until = 0, time.monotonic() + seconds
    end = first + rounds
    print(f"kernels: seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "now"
        while first < end and (left := until - time.monotonic()) > 0:
            given = ["--seed", seed, "--first", first, "--rounds", end - first, "--seconds", left, "--worker", log]
            command = [sys.executable, "-X", "faulthandler", __file__, *map(str, given)]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=left + 3 * HANG_S)
            sys.stdout.write(ended.stdout)
            if ended.returncode == 0:
                return found + sum(line.startswith("call ") for line in ended.stdout.splitlines())
            at = int(log.read_text())
            found += 1 + sum(line.startswith("call ") for line in ended.stdout.splitlines())
            print(f"call {at}: the process ended with {ended.returncode}\n{ended.stderr[:4000]}", flush=True)
            first = at + 1
    return found


if __name__ == "__main__":
    parser = calls_parser(__doc__)
    args = parser.parse_args()
    if C is None:
        sys.exit("the compiled kernels are not built, or not wanted")
    if args.worker:
        work(args.seed, args.first, args.rounds, args.seconds, args.worker)
        sys.exit()
    sys.exit(main(args.seed, args.seconds, args.rounds, args.first) > 0)
