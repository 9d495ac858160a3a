"""Runs the measuring scripts beside this file and holds their figures against the floors in floors.json.

    python tests/parity/measure.py [--package mindtorch_v2] [--raise-floors]

Ends with 1 when a figure is below its floor or a script breaks down, so a figure once reached is not lost unseen.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
FLOORS = HERE / "floors.json"
PROCESSES = 2
# The longest come first, so that the processes end together.
COMMANDS = [
    *(("measure_operators.py", "--part", f"{k}/{PROCESSES}") for k in range(PROCESSES)),
    ("measure_operators.py", "--dtype", "float64"),
    ("measure_second.py",),
    ("measure_meta.py",),
    ("measure_operators.py", "--dtype", "complex64"),
    ("measure_trees.py",),
    ("measure_operators.py", "--dtype", "int64"),
    ("measure_operators.py", "--dtype", "bool"),
    ("measure_errors.py",),
    ("measure_surface.py",),
]
ONE_THREAD_EACH = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Figure(NamedTuple):
    reached: int
    of: int

    def __str__(self) -> str:
        return f"{self.reached}/{self.of}"


def run(command: tuple[str, ...], package: str) -> dict[str, Figure]:
    """Run one measuring script in a process of its own, and return its figures; none when it breaks down."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "out.json"
        script, *arguments = command
        full = [sys.executable, str(HERE / script), *arguments, "--package", package, "--json", str(out)]
        code = subprocess.run(full, env=os.environ | ONE_THREAD_EACH, stdout=subprocess.DEVNULL).returncode
        if code != 0:
            print(f"{' '.join(command)} broke down with exit code {code}", file=sys.stderr)
            return {}
        return {name: Figure(*figure) for name, figure in json.loads(out.read_text())["figures"].items()}


def total(parts: Iterable[dict[str, Figure]]) -> dict[str, Figure]:
    """Add up the figures of the same name."""
    sums: dict[str, Figure] = {}
    for part in parts:
        for name, figure in part.items():
            before = sums.get(name, Figure(0, 0))
            sums[name] = Figure(before.reached + figure.reached, before.of + figure.of)
    return sums


def shortfalls(figures: dict[str, Figure], floors: dict[str, int]) -> list[str]:
    """Say which figures are missing or below their floor."""
    wrong = [f"{name} was not measured" for name in floors if name not in figures]
    wrong += [f"{name} has no floor in {FLOORS.name}" for name in figures if name not in floors]
    wrong += [
        f"{name} is {figure.reached}, below its floor of {floors[name]}"
        for name, figure in figures.items()
        if figure.reached < floors.get(name, 0)
    ]
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure parity with torch 2.13 and hold it against the floors.")
    parser.add_argument("--package", default="mindtorch_v2")
    parser.add_argument("--raise-floors", action="store_true", help="lift each floor to the figure reached now")
    options = parser.parse_args()

    with ThreadPoolExecutor(PROCESSES) as pool:
        parts = list(pool.map(lambda command: run(command, options.package), COMMANDS))
    figures, floors = total(parts), json.loads(FLOORS.read_text())
    for name, figure in sorted(figures.items()):
        print(f"{name:20} {figure!s:>9}   floor {floors.get(name, 'none')}")
    wrong = shortfalls(figures, floors)
    print("".join(f"parity: {line}\n" for line in wrong), end="", file=sys.stderr)
    broken = not all(parts)
    if options.raise_floors and not broken:
        raised = {name: max(figure.reached, floors.get(name, 0)) for name, figure in sorted(figures.items())}
        FLOORS.write_text(json.dumps(raised, indent=2) + "\n")
    return 1 if wrong or broken else 0


if __name__ == "__main__":
    sys.exit(main())
