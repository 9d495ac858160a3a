"""How much slower whole programs run while they are profiled, mode by mode, beside torch's own slowdown."""

import gc
import os
import statistics
import warnings
from types import ModuleType
from typing import Any

from harness import OURS, THEIRS, Case, Row, clock, packages, report
from programs import CNN, GPT, LSTM, MLP, VAE

os.environ["KINETO_LOG_LEVEL"] = "6"
warnings.simplefilter("ignore")

MODES: dict[str, dict[str, bool]] = {
    "plain": {},
    "shapes": {"record_shapes": True},
    "memory": {"profile_memory": True},
    "stacks": {"with_stack": True},
    "all": {"record_shapes": True, "profile_memory": True, "with_stack": True, "with_flops": True},
}
PROGRAMS = {"MLP": (MLP, 10), "tiny GPT": (GPT, 1), "LSTM": (LSTM, 1), "CNN": (CNN, 1), "VAE": (VAE, 3)}
ROUNDS = 15


def program(setup: str, package: ModuleType) -> Any:
    """The step of a program, warmed up."""
    names: dict[str, Any] = {"torch": package}
    exec(setup, names)
    for _ in range(3):
        names["step"]()
    return names["step"]


def time_of(step: Any, count: int) -> float:
    began = clock()
    for _ in range(count):
        step()
    return (clock() - began) / count


def slowdown(step: Any, count: int, package: ModuleType, options: dict[str, bool]) -> float:
    """Time of the same steps with and without a profiler; what happens after the last step does not count.

    They are taken without before and after, as the machine's speed may change meanwhile. Cycles that the last profile left
    are cleared away first (torch's results are in some): whoever comes next would pay for that.
    """
    gc.collect()
    before = time_of(step, count)
    with package.profiler.profile(**options):
        step()
        profiled = time_of(step, count)
    step()
    return 2 * profiled / (before + time_of(step, count))


def rows() -> list[Row]:
    found = []
    for name, (setup, count) in PROGRAMS.items():
        steps = {side: program(setup, package) for side, package in packages().items()}
        for mode, options in MODES.items():
            samples: dict[str, list[float]] = {side: [] for side in steps}
            for _ in range(ROUNDS):
                for side, package in packages().items():
                    samples[side].append(slowdown(steps[side], count, package, options))
            medians = {side: statistics.median(values) for side, values in samples.items()}
            case = Case(f"{name}, {mode}", "", bound=1.0)
            found.append(Row(case.name, medians[OURS], medians.get(THEIRS), "", case.bound))
    return found


def main() -> None:
    report("profiled_programs", rows(), "times as long")


if __name__ == "__main__":
    main()
