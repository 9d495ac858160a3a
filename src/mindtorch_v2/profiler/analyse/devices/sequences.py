"""Sequences of small kernels that come again and again: what could be fused into one kernel, or launched as one graph."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .intervals import Ints
from .work import COMPUTE, Work

# A kernel is small where launching it takes about as long as it does.
SMALL_NS = 10_000
_LENGTHS = range(8, 1, -1)
_LEAST_COUNT = 4
_MOST_ROWS = 8
# What comes again and again does so in the first of them.
_MOST_KERNELS = 100_000
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class Sequence(NamedTuple):
    """Kernels that run one after the other, how often they do, what they take and what passes between them."""

    kernels: list[str]
    operators: list[str]
    times: int
    device_ns: int
    between_ns: int


def small_sequences(work: Work) -> list[Sequence]:
    """The ones that would save most launches first. No kernel is in two of them."""
    found = [row for _, _, mine in work.queues for row in _of_stream(work, mine)]
    return sorted(found, key=lambda row: -(len(row.kernels) - 1) * row.times)[:_MOST_ROWS]


def _of_stream(work: Work, mine: Ints) -> list[Sequence]:
    mine = mine[:_MOST_KERNELS]
    start, end, kind = work.start_ns[mine], work.end_ns[mine], work.kind[mine]
    free = (work.sort[mine] == COMPUTE) & (end - start < SMALL_NS)
    rows: list[Sequence] = []
    while len(rows) < _MOST_ROWS:
        best: tuple[int, int, Ints] | None = None
        for length in _LENGTHS:
            places = _most_frequent(kind, free, length)
            saved = (length - 1) * len(places)
            if len(places) >= _LEAST_COUNT and (best is None or saved > best[0]):
                best = saved, length, places
        if best is None:
            break
        _, length, places = best
        members = places[:, None] + np.arange(length)
        free[members.reshape(-1)] = False
        between = start[members[:, 1:]] - end[members[:, :-1]]
        ops = work.op[mine[members[0]]]
        rows.append(
            Sequence(
                [work.metrics.kind_of(int(number)).name for number in kind[members[0]]],
                [work.metrics.kind_of(int(work.metrics.kind[op])).name if op >= 0 else "" for op in ops.tolist()],
                len(places),
                int((end - start)[members].sum()),
                int(np.maximum(between, 0).sum()),
            )
        )
    return rows


def _most_frequent(kind: NDArray[np.int32], free: NDArray[np.bool_], length: int) -> Ints:
    """Where the most frequent sequence of a length begins, without overlaps."""
    count = len(kind) - length + 1
    nothing = np.zeros(0, np.int64)
    if count < _LEAST_COUNT:
        return nothing
    code, whole = np.zeros(count, np.uint64), np.ones(count, bool)
    for step in range(length):
        code = code * _FACTOR + (kind[step : step + count].astype(np.uint64) + np.uint64(1))
        whole &= free[step : step + count]
    places = np.flatnonzero(whole)
    if not len(places):
        return nothing
    _, which, counts = np.unique(code[places], return_inverse=True, return_counts=True)
    places = places[which.reshape(-1) == counts.argmax()]
    if (np.diff(places) >= length).all():
        return places
    kept, last = [], -length
    for place in places.tolist():
        if place >= last + length:
            kept.append(place)
            last = place
    return np.array(kept, np.int64)
