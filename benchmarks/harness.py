"""Measures statements in mindtorch_v2 and, where it is installed, in torch beside it, in rounds taken in turn.

Times are thread CPU time of one thread, so neighbours on the machine matter little and ratios can be trusted.
A benchmark leaves importing the packages to this module, which first keeps their BLAS to one thread. With
BENCH_THREADS=2 in the environment both sides may use two threads, and the clock is the one on the wall.
"""

import datetime
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import timeit
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

# Fresh processes find bytecode as those of users do.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

THREADS = int(os.environ.get("BENCH_THREADS", "1"))
PURE = os.environ.get("MINDTORCH_PURE") == "1"
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = str(THREADS)

RESULTS = Path(__file__).parent / "results.json"
SUMMARY = Path(__file__).parent / "results.md"
OURS = "mindtorch_v2"
THEIRS = "torch"
ROUNDS = 15
clock = time.thread_time_ns if THREADS == 1 else time.perf_counter_ns
SETTLED_S = 0.02  # after a loop threads look for the next one for a while, and would take the core from the other side
ROUND_NS = 5_000_000  # a round is long enough for the clock, and short enough to be taken in turn


class Case(NamedTuple):
    """A statement to time; in `setup` and `statement` the name `torch` stands for the package being timed."""

    name: str
    statement: str
    setup: str = "pass"
    bound: float | None = None  # what the ratio to torch should not exceed


class Row(NamedTuple):
    """What a case took on both sides; None where a side is absent or has not got what the case needs."""

    name: str
    ours: float | None
    theirs: float | None
    note: str = ""
    bound: float | None = None

    @property
    def ratio(self) -> float | None:
        """Ours over torch's; None where a side is missing or too small to be told from noise."""
        if self.ours is None or self.theirs is None or self.ours <= 0 or self.theirs <= 0:
            return None
        return self.ours / self.theirs

    def scaled(self, factor: float) -> "Row":
        """The row in another unit."""
        ours, theirs = (None if side is None else side * factor for side in (self.ours, self.theirs))
        return self._replace(ours=ours, theirs=theirs)


class Sampler:
    """Times one statement in one package, a round at a time."""

    def __init__(self, case: Case, package: ModuleType) -> None:
        names = {"torch": package}
        self.timer = timeit.Timer(case.statement, case.setup, clock, names)
        self.loops = 1
        self.samples: list[float] = []
        self.timer.timeit(3)  # what is made at the first call does not count, nor mislead the choice of loops
        while (took := self.timer.timeit(self.loops)) < ROUND_NS:
            self.loops = max(self.loops * 2, int(self.loops * ROUND_NS / max(took, 1)))

    def round(self) -> None:
        if THREADS > 1:
            time.sleep(SETTLED_S)
            self.timer.timeit(1)
        self.samples.append(self.timer.timeit(self.loops) / self.loops)

    def median(self) -> float:
        return statistics.median(self.samples)


def packages() -> dict[str, ModuleType]:
    """Return ours, and torch kept to as many threads where it is installed."""
    found = {OURS: importlib.import_module(OURS)}
    try:
        found[THEIRS] = importlib.import_module(THEIRS)
    except ImportError:
        return found
    found[THEIRS].set_num_threads(THREADS)
    return found


def prepare(case: Case, package: ModuleType) -> Sampler | str:
    """Return a sampler, or the reason why the package cannot run the case."""
    try:
        return Sampler(case, package)
    except Exception as error:
        return f"{package.__name__}: {type(error).__name__}: {error}"


def compare(cases: list[Case]) -> list[Row]:
    """Time every case on both sides, in rounds A, B, A, B, …"""
    both = packages()
    rows = []
    for case in cases:
        prepared = {name: prepare(case, package) for name, package in both.items()}
        samplers = {name: sampler for name, sampler in prepared.items() if isinstance(sampler, Sampler)}
        for _ in range(ROUNDS):
            for sampler in samplers.values():
                sampler.round()
        medians = {name: sampler.median() for name, sampler in samplers.items()}
        note = "; ".join(reason for reason in prepared.values() if isinstance(reason, str))
        rows.append(Row(case.name, medians.get(OURS), medians.get(THEIRS), note, case.bound))
    return rows


def geometric_mean(rows: list[Row]) -> float | None:
    """Return the mean of the ratios there are, or None where there is none."""
    ratios = [row.ratio for row in rows if row.ratio is not None]
    return statistics.geometric_mean(ratios) if ratios else None


def table(rows: list[Row], unit: str) -> str:
    """Lay rows out for reading; a ratio below 1 means that ours is faster."""

    def number(value: float | None, digits: int) -> str:
        return "-" if value is None else f"{value:,.{digits}f}"

    width = max(len(row.name) for row in rows)
    lines = [f"{'':{width}}  {'ours ' + unit:>12}  {'torch ' + unit:>12}  {'ours/torch':>10}  {'bound':>5}"]
    for row in rows:
        cells = f"{number(row.ours, 1):>12}  {number(row.theirs, 1):>12}  {number(row.ratio, 2):>10}  {_bound(row):>5}"
        lines.append(f"{row.name:{width}}  {cells}  {row.note}".rstrip())
    mean, counted = geometric_mean(rows), sum(row.ratio is not None for row in rows)
    if mean is not None:
        lines.append(f"{'geometric mean':{width}}  {'':>12}  {'':>12}  {mean:>10.2f}  of {counted} of {len(rows)}")
    return "\n".join(lines)


def _bound(row: Row) -> str:
    """The bound of a row, marked where it is not kept."""
    if row.bound is None:
        return ""
    return f"{row.bound:g}{'!' if row.ratio is not None and row.ratio > row.bound else ''}"


OTHER_RUNS = {
    "without anything compiled": {"MINDTORCH_PURE": "1"},
    "on two threads, by the clock on the wall": {"BENCH_THREADS": "2"},
}


def named(benchmark: str) -> str:
    """The benchmark's name in results.json: what was switched on or off belongs to it."""
    threads = "" if THREADS == 1 else f"_{THREADS}_threads"
    return f"{benchmark}{threads}{'_pure' if PURE else ''}"


def run_otherwise(script: str, arguments: list[str]) -> None:
    """Run a benchmark again in processes of their own, without compiled parts and on two threads."""
    if THREADS > 1 or PURE:
        return
    for title, setting in OTHER_RUNS.items():
        print(f"\nthe same {title}", flush=True)
        subprocess.run([sys.executable, script, *arguments], env={**os.environ, **setting}, check=True)


def versions() -> dict[str, str]:
    """Say what was measured on."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in ("numpy", THEIRS):
        try:
            found[name] = importlib.import_module(name).__version__
        except ImportError:
            continue
    return found


def report(name: str, rows: list[Row], unit: str) -> None:
    """Print rows, and put them into results.json under the benchmark's name, beside what others put there."""
    print(table(rows, unit))
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results[name] = {
        "unit": unit,
        "versions": versions(),
        "date": datetime.date.today().isoformat(),
        "threads": THREADS,
        "geometric_mean": geometric_mean(rows),
        "rows": {
            row.name: {"ours": row.ours, "torch": row.theirs, "ratio": row.ratio, "bound": row.bound, "note": row.note}
            for row in rows
        },
    }
    RESULTS.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")


def write_summary() -> None:
    """Write what results.json holds as Markdown tables."""
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    lines = ["# Measured beside torch", "", "Written by `make bench`. A ratio below 1 means that ours is faster.", ""]
    for name, found in sorted(results.items()):
        if "rows" not in found:  # not times beside torch's, but counts
            lines += [
                f"## {name}",
                "",
                "| | |",
                "|---|---|",
                *(f"| {key} | {value} |" for key, value in found.items()),
                "",
            ]
            continue
        versions_text = ", ".join(f"{key} {value}" for key, value in sorted(found["versions"].items()))
        when = f"{found.get('date', 'undated')}, {found.get('threads', 1)} thread(s), {versions_text}"
        lines += [f"## {name}", "", when, "", f"| | ours {found['unit']} | torch {found['unit']} | ratio | bound | |"]
        lines += ["|---|---|---|---|---|---|", *(_summary_row(key, row) for key, row in found["rows"].items()), ""]
    SUMMARY.write_text("\n".join(lines))


def _summary_row(name: str, row: dict[str, Any]) -> str:
    def number(value: float | None, digits: int) -> str:
        return "" if value is None else f"{value:,.{digits}f}"

    bound = "" if row.get("bound") is None else f"{row['bound']:g}"
    cells = [name, number(row["ours"], 1), number(row["torch"], 1), number(row["ratio"], 2), bound, row["note"]]
    return f"| {' | '.join(cells)} |"
