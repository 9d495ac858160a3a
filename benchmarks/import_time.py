"""What importing costs beyond NumPy's own import: user CPU time of fresh processes, taken in turn."""

import importlib.util
import os
import statistics
import subprocess
import sys

from harness import OURS, THEIRS, Row, report

ROUNDS = 9
BASE = "numpy"


def user_ms(statement: str) -> float:
    """Run a statement in a fresh process, and return the user CPU time the process took."""
    process = subprocess.Popen([sys.executable, "-c", statement])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{statement!r} failed in a fresh process with exit code {process.returncode}")
    return usage.ru_utime * 1e3


def main() -> None:
    installed = [name for name in (BASE, OURS, THEIRS) if importlib.util.find_spec(name)]
    statements = {name: f"import {BASE}, {name}" for name in installed}
    for statement in statements.values():  # once unmeasured, so that bytecode is cached and files are in memory
        user_ms(statement)
    samples: dict[str, list[float]] = {name: [] for name in installed}
    for _ in range(ROUNDS):
        for name, statement in statements.items():
            samples[name].append(user_ms(statement))
    medians = {name: statistics.median(values) for name, values in samples.items()}
    beyond = {name: medians[name] - medians[BASE] for name in installed}
    note = f"NumPy itself: {medians[BASE]:.0f} ms"
    report("import_time", [Row("import beyond NumPy", beyond.get(OURS), beyond.get(THEIRS), note)], "ms")


if __name__ == "__main__":
    main()
