"""Launches of work on devices: how long they take, how long the work waits after them, and how many wait in a queue."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .intervals import Ints
from .work import COMPUTE, Work

# So many launches wait on a stream of CUDA before the next one blocks.
FULL_QUEUE = 1024
_MOST_POINTS = 200


class LaunchStatistics(NamedTuple):
    """Of launches whose kernel is known, in nanoseconds; delays are from a call's end to its kernel's start, at least 0."""

    launches: int
    call_median: float
    call_total: int
    delay_median: float
    delay_p90: float
    # Kernels that took less time than the call that launched them.
    short_kernels: int
    short_kernels_ns: int


class Queue(NamedTuple):
    """Launched and not begun on one stream, over time: from `times[i]` on there were `lengths[i]`."""

    device: int
    stream: int
    times: Ints
    lengths: Ints

    @property
    def longest(self) -> int:
        return int(self.lengths.max(initial=0))

    @property
    def mean(self) -> float:
        """Over time."""
        span = int(self.times[-1] - self.times[0]) if len(self.times) else 0
        return float((self.lengths[:-1] * np.diff(self.times)).sum()) / span if span else 0.0

    @property
    def full(self) -> int:
        """Nanoseconds with FULL_QUEUE or more."""
        return int(np.diff(self.times)[self.lengths[:-1] >= FULL_QUEUE].sum())

    def points(self, most: int = _MOST_POINTS) -> list[tuple[int, int]]:
        """Times and lengths; where there are more than so many, of each of some equal parts the longest and the last."""
        if len(self.times) <= most:
            return list(zip(self.times.tolist(), self.lengths.tolist()))
        parts = most // 2
        part = (self.times - self.times[0]) * parts // (int(self.times[-1] - self.times[0]) + 1)
        first = np.flatnonzero(np.concatenate(([True], part[1:] != part[:-1])))
        last = np.concatenate((first[1:], [len(part)])) - 1
        times = np.stack([self.times[first], self.times[last]], axis=1).reshape(-1)
        lengths = np.stack([np.maximum.reduceat(self.lengths, first), self.lengths[last]], axis=1).reshape(-1)
        return list(zip(times.tolist(), lengths.tolist()))


def launch_statistics(work: Work) -> LaunchStatistics | None:
    """Of all kernels with a launch of their own; None where there is none. A graph's launch is that of many."""
    metrics = work.metrics
    tied = np.flatnonzero((work.launch >= 0) & (work.sort == COMPUTE))
    _, first, count = np.unique(work.launch[tied], return_index=True, return_counts=True)
    tied = tied[first[count == 1]]
    if not len(tied):
        return None
    call = metrics.total_ns[work.launch[tied]]
    delay = np.maximum(work.start_ns[tied] - metrics.end_ns[work.launch[tied]], 0)
    length = work.total_ns[tied]
    short = length < call
    return LaunchStatistics(
        len(tied),
        float(np.median(call)),
        int(call.sum()),
        float(np.median(delay)),
        float(np.percentile(delay, 90)),
        int(short.sum()),
        int(length[short].sum()),
    )


def queues(work: Work) -> list[Queue]:
    """The queue of each stream that something was launched on: one more at a launch's start, one less at a kernel's."""
    found = []
    for device, stream, mine in work.queues:
        mine = mine[work.launch[mine] >= 0]
        if not len(mine):
            continue
        times = np.concatenate([work.asked_ns[mine], work.start_ns[mine]])
        change = np.repeat([1, -1], len(mine))
        # At the same time a launch comes first, so that the length is never below zero.
        order = np.lexsort((-change, times))
        times, lengths = times[order], np.cumsum(change[order])
        last = np.concatenate((times[1:] != times[:-1], [True]))
        found.append(Queue(device, stream, times[last], np.maximum(lengths[last], 0)))
    return found
