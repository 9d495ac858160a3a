"""Runs all attacks side by side, each for its share of the time, and says which found something.

    python tests/attack/run.py [--seconds 600] [--seed N] [--jobs 2] [NAME ...]

An attack is a file of this folder that takes `--seed` and `--seconds`, prints what it found, and ends with another code
than 0 if that is anything. It repeats by its seed: `python tests/attack/NAME.py --seed N --seconds S`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent

# Each attack and its share of the time.
SHARES = {
    "allocations": 3,
    "allocations_kernels": 1,
    "bits": 2,
    "calls": 3,
    "checkpoints": 1,
    "disks": 1,
    "interrupts": 2,
    "kernels": 2,
    "kills": 4,
    "pools": 1,
    "spools": 1,
    "threads": 3,
    "traces": 2,
}
# What an attack may take beyond its share to begin, and to end what it is at.
GRACE_S = 180.0


class Ended(NamedTuple):
    name: str
    code: int
    seconds: float
    output: str


def attack(name: str, seed: int, seconds: float) -> Ended:
    command = [sys.executable, str(HERE / f"{name}.py"), "--seed", str(seed), "--seconds", f"{seconds:.0f}"]
    begun = time.monotonic()
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds + GRACE_S,
            errors="backslashreplace", check=False,
        )  # fmt: skip
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        code, output = -1, f"{error.stdout or ''}\nwas still running {GRACE_S:.0f} s after its time"
    return Ended(name, code, time.monotonic() - begun, output)


def attacks(names: list[str], seed: int, seconds: float, jobs: int) -> Iterator[Ended]:
    """All of them, the longest first, so many at a time."""
    whole = sum(SHARES[name] for name in names)
    lengths = {name: max(seconds * jobs * SHARES[name] / whole, 1.0) for name in names}
    with ThreadPoolExecutor(jobs) as pool:
        order = sorted(names, key=lambda name: -lengths[name])
        yield from pool.map(lambda name: attack(name, seed, lengths[name]), order)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which (all): {', '.join(SHARES)}")
    parser.add_argument("--seed", type=int, default=None, help="what random choices are made from (another each time)")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long in all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in SHARES]
    if unknown:
        parser.error(f"no attack {', '.join(unknown)}; there are {', '.join(SHARES)}")
    seed = int.from_bytes(os.urandom(4), "little") if options.seed is None else options.seed
    print(f"attacks with seed {seed}", flush=True)
    failed = []
    for name, code, seconds, output in attacks(options.names or list(SHARES), seed, options.seconds, options.jobs):
        lines = output.rstrip().splitlines()
        print(f"{'ok' if code == 0 else 'FOUND':5} {name} in {seconds:.0f} s: {lines[-1] if lines else ''}", flush=True)
        if code:
            failed.append(name)
            print("\n".join("      " + line for line in lines[-60:]), flush=True)
    print(f"{len(options.names or SHARES) - len(failed)} passed, {len(failed)} failed", flush=True)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main() > 0)
