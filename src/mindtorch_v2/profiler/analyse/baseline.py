"""How much runs of one program differ from each other: measured once over several runs, kept in a small file, and used to
tell what single runs cannot. It does not judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..capture.capture import Capture
from ..record import environment, step_clock
from .metrics import Metrics
from .samples import Names, step_intervals, usage_of

Floats = NDArray[np.float64]

# With fewer runs nothing can be said of how they differ.
LEAST_RUNS = 3
# What a file says that it is.
FORMAT = "mindtorch baseline 1"


@dataclass(frozen=True)
class Baseline:
    """Standard deviations from run to run, as logarithms: of the CPU time and the wall time of a typical step, and of each
    group's own time beside all others."""

    by: str
    runs: int
    compute: float
    wall: float
    groups: dict[str, float]
    environment: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **vars(self)}

    @staticmethod
    def of_json(said: Any) -> Baseline:
        """From what a file says; ValueError if it makes no sense."""
        try:
            if said["format"] != FORMAT:
                raise ValueError(f"expected {FORMAT!r}")
            groups = {str(name): _deviation(value) for name, value in said["groups"].items()}
            where = dict(said["environment"])
            return Baseline(
                str(said["by"]), int(said["runs"]), _deviation(said["compute"]), _deviation(said["wall"]), groups, where
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is no baseline: {error}") from error


def _deviation(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 100:
        raise ValueError(f"expected a deviation from 0 to 100, got {str(value)[:40]}")
    return float(value)


def typical_steps(capture: Capture) -> tuple[float, float]:
    """CPU time of the process and wall time of a typical step, in nanoseconds; NaN for what was not recorded."""
    clock = step_clock.stated(capture.metadata)
    if clock and len(clock["step"]):
        return float(np.median(clock["cpu_ns"])), float(np.median(clock["wall_ns"]))
    begin, end = step_intervals(Metrics(capture))
    return np.nan, float(np.median(end - begin)) if len(begin) else np.nan


def unsteadiness(capture: Capture, column: str) -> float:
    """How much steps of one run differ from each other, as the deviation of their middle half: a machine that is unsteady
    within a run is so between runs, whatever it was when a baseline was made."""
    took = step_clock.stated(capture.metadata).get(column)
    if took is None or len(took) < 4:
        return 0.0
    low, high = np.quantile(np.log(np.maximum(took, 1)), (0.25, 0.75))
    return float(high - low) / 1.349


def measure(captures: Sequence[Capture], by: str = "op") -> Baseline:
    """How much runs of one program differ."""
    if len(captures) < LEAST_RUNS:
        raise ValueError(f"a baseline takes {LEAST_RUNS} runs of one program or more, got {len(captures)}")
    names = Names()
    usages = [usage_of(capture, by, names) for capture in captures]
    table = np.stack([np.median(usage.widened(len(names)).self_ns, axis=0) for usage in usages])
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(table)
        steps = np.log([typical_steps(capture) for capture in captures])
    everywhere = np.asarray(np.isfinite(logs).all(axis=0))
    away = logs[:, everywhere] - logs[:, everywhere].mean(axis=0)
    # What all groups share is the pace of the machine, and no group's own.
    own = away - np.median(away, axis=1)[:, None] if everywhere.any() else away
    deviations = own.std(axis=0, ddof=1)
    # A few runs of one group say little; what groups have in common steadies it.
    usual = float(np.median(deviations)) if len(deviations) else 0.0
    groups = [name for name, kept in zip(names.numbers, everywhere.tolist()) if kept]
    compute, wall = (float(value) if np.isfinite(value) else 0.0 for value in steps.std(axis=0, ddof=1))
    return Baseline(
        by,
        len(captures),
        compute or wall,
        wall,
        {name: max(float(value), usual) for name, value in zip(groups, deviations)},
        environment.stated(captures[0].metadata),
    )
