"""Memory over time and what was alive at its peak, for the memory view. It reads allocations, not tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..metrics import Metrics

Ints = NDArray[np.int64]

_MOST_SAMPLES = 20_000
_MOST_ALIVE = 50


class Lifetimes(NamedTuple):
    """Blocks in order of allocation. `freed_ns` is -1 for those that outlive the window."""

    time_ns: Ints
    freed_ns: Ints
    nbytes: Ints
    track: Ints
    row: Ints  # its place among the memory events


class Samples(NamedTuple):
    """Bytes in use at instants, in total and by category (a row each); the peak is always among the instants."""

    time_ns: Ints
    total: Ints
    by_category: list[Ints]
    peak: int


def lifetimes(metrics: Metrics) -> Lifetimes:
    """Each allocation with its free: the next thing that happens at its address."""
    memory = metrics.memory_events
    order = np.lexsort((memory.time_ns, memory.address))
    address, nbytes, time = memory.address[order], memory.nbytes[order], memory.time_ns[order]
    freed = np.full(len(order), -1, np.int64)
    ends = np.flatnonzero((address[1:] == address[:-1]) & (nbytes[1:] < 0))
    freed[ends] = time[ends + 1]
    born = np.flatnonzero(nbytes > 0)
    born = born[np.argsort(time[born], kind="stable")]
    rows = order[born]
    return Lifetimes(time[born], freed[born], nbytes[born], memory.track[rows].astype(np.int64), rows)


def sample(metrics: Metrics, category: NDArray[np.integer[Any]] | None, categories: int) -> Samples:
    """The course of memory; `category` has a number for each memory event."""
    memory = metrics.memory_events
    order = np.argsort(memory.time_ns, kind="stable")
    nbytes, time = memory.nbytes[order], memory.time_ns[order]
    total = np.cumsum(nbytes)
    kept = _instants(total)
    of = np.zeros(len(order), np.int64) if category is None else np.asarray(category, np.int64)[order]
    parts = [np.cumsum(np.where(of == number, nbytes, 0))[kept] for number in range(max(1, categories))]
    peak = int(np.argmax(total[kept])) if len(kept) else -1
    return Samples(time[kept], total[kept], parts, peak)


def _instants(total: Ints) -> Ints:
    """Which instants to keep where there are too many: of each stretch the highest and the last."""
    count = len(total)
    if count <= _MOST_SAMPLES:
        return np.arange(count)
    bounds = np.linspace(0, count, _MOST_SAMPLES // 2 + 1).astype(np.int64)
    stretch = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    by_height = np.lexsort((total, stretch))
    return np.unique(np.concatenate([by_height[bounds[1:] - 1], bounds[1:] - 1]))


def alive_at(found: Lifetimes, time_ns: int) -> Ints:
    """The blocks in use at an instant, largest first."""
    alive = np.flatnonzero((found.time_ns <= time_ns) & ((found.freed_ns < 0) | (found.freed_ns > time_ns)))
    return alive[np.argsort(-found.nbytes[alive], kind="stable")]


def biggest_at_peak(metrics: Metrics, found: Lifetimes, time_ns: int) -> list[dict[str, Any]]:
    """The largest blocks in use at an instant, each with the event that allocated it."""
    return [
        {
            "bytes": int(found.nbytes[block]),
            "start": int(found.time_ns[block]),
            "end": int(found.freed_ns[block]),
            "event": innermost_event(metrics, int(found.track[block]), int(found.time_ns[block])),
            "row": int(found.row[block]),
        }
        for block in alive_at(found, time_ns)[:_MOST_ALIVE].tolist()
    ]


def innermost_event(metrics: Metrics, track: int, time_ns: int) -> int:
    """The innermost event of a thread at an instant, -1 if nothing runs."""
    mine = np.flatnonzero((metrics.track == track) & ~metrics.is_mark)
    before = int(np.searchsorted(metrics.start_ns[mine], time_ns, side="right")) - 1
    place = int(mine[before]) if before >= 0 else -1
    while place >= 0 and metrics.end_ns[place] < time_ns:
        place = int(metrics.parent[place])
    return place
