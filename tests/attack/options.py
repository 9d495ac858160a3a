"""What every attack is told: a seed, from which all its random choices come, and for how many seconds to go on."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path


def attack_parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser for the two; an attack may add options of its own."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=30.0)
    return parser


def repeat(name: str, seed: int, seconds: float, ways: Sequence[str], attempt: Callable[[str, int], str]) -> int:
    """Attempts in all ways, in turn, as long as there is time, and in each once at least; how many went wrong. An attempt is
    given its way and a seed of its own, and says what went wrong."""
    chance, deadline = random.Random(seed), time.monotonic() + seconds
    rounds = failures = 0
    while rounds < len(ways) or time.monotonic() < deadline:
        way, number = ways[rounds % len(ways)], chance.randrange(1 << 30)
        rounds += 1
        wrong = attempt(way, number)
        if wrong:
            failures += 1
            print(f"{name}: {way!r} with seed {number} went wrong: {wrong}", flush=True)
    print(f"{name}: {rounds} rounds in {len(ways)} ways from seed {seed}, {failures} went wrong", flush=True)
    return failures


def run_files(doc: str | None, main: Callable[[int, float, int | None], list[str]]) -> None:
    """The command of an attack that makes files by number, any of which can be tried again."""
    parser = attack_parser(doc)
    parser.add_argument("--only", type=int, default=None, metavar="N", help="try one file again")
    options = parser.parse_args()
    found = main(options.seed, options.seconds, options.only)
    print("\n\n".join(found))
    sys.exit(bool(found))


def calls_parser(doc: str) -> argparse.ArgumentParser:
    """A parser for an attack that makes calls by number, in a process that may end."""
    parser = argparse.ArgumentParser(description=doc.partition("\n\n")[0])
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=1 << 40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    return parser
