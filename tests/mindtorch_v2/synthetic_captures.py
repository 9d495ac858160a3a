"""Captures made from numbers: a program of twenty ops, step after step, with the noise that real machines have."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mindtorch_v2.core import tap
from mindtorch_v2.profiler.capture.capture import Capture, Kinds, Track
from mindtorch_v2.profiler.record.config import RecordOptions
from mindtorch_v2.profiler.record.frames import StackReader
from mindtorch_v2.profiler.record.recorder import StackTable

OPS = 20
STEPS = 50
NAMES = [f"synthetic::op{number}" for number in range(OPS)]
# What the ops take in a step: from 20 us to some ms.
COSTS_NS = np.geomspace(20e3, 2e6, OPS)
# How unsteady they are: 2 % to 7 % from step to step.
NOISE = np.linspace(0.02, 0.07, OPS)


def durations(
    random: np.random.Generator, steps: int = STEPS, slower: dict[int, float] | None = None
) -> NDArray[np.float64]:
    """A run: lognormal noise of each op, slow steps, outliers, and a drift of the whole run and a little of each op."""
    costs = COSTS_NS.copy()
    for op, factor in (slower or {}).items():
        costs[op] *= factor
    logs = np.log(costs) + random.normal(0, NOISE, (steps, OPS))
    logs += random.normal(0, 0.02, (steps, 1))
    logs += random.normal(0, 0.04) + random.normal(0, 0.005, OPS)
    outliers = random.random((steps, OPS)) < 0.03
    return np.exp(logs) * np.where(outliers, random.uniform(1.5, 6, (steps, OPS)), 1)


def capture_of(took_ns: NDArray[np.float64], names: list[str] = NAMES, steps: bool = True) -> Capture:
    """A capture with one step a row of `took_ns` and, one after the other, one op a column."""
    count, ops = took_ns.shape
    kinds = np.array([tap.event_id(name) for name in names], np.int32)
    ends = np.cumsum(np.rint(np.concatenate([took_ns, np.full((count, 1), 5000.0)], axis=1)).astype(np.int64) + 1)
    ends = ends.reshape(count, ops + 1)
    starts = ends[:, :-1] - np.rint(took_ns).astype(np.int64)
    start, end, kind = starts, ends[:, :-1], np.broadcast_to(kinds, (count, ops))
    if steps:
        marks = [tap.event_id(f"ProfilerStep#{number}", tap.USER_SCOPE, True) for number in range(count)]
        start = np.concatenate([start, starts[:, :1] - 1], axis=1)
        end = np.concatenate([end, ends[:, -1:]], axis=1)
        kind = np.concatenate([kind, np.array(marks, np.int32)[:, None]], axis=1)
    size = start.size
    nothing, none = np.zeros(0, np.int64), np.zeros(size, np.int32)
    track = Track(
        1, 1, "main", start.ravel(), end.ravel(), kind.ravel().astype(np.int32), np.full(size, -1), none, none,
        nothing, nothing, nothing,
    )  # fmt: skip
    stop = int(ends[-1, -1]) if count else 0
    return Capture(RecordOptions(), 0, stop, 10**18, [track], Kinds(), [None], StackReader(StackTable()))
