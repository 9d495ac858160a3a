"""Memory over time by category and what was alive at its peak, for the memory view. It reads blocks, not tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..analyse.memory import Blocks, Category, categories
from ..analyse.metrics import Metrics

Ints = NDArray[np.int64]

_MOST_INSTANTS = 20_000
_MOST_ALIVE = 50
# From the bottom of the chart to its top: what stays longest first.
_ORDER = (
    Category.PARAMETER,
    Category.OPTIMIZER_STATE,
    Category.GRADIENT,
    Category.ACTIVATION,
    Category.INPUT,
    Category.AUTOGRAD_DETAIL,
    Category.TEMPORARY,
    Category.UNKNOWN,
)


class Usage(NamedTuple):
    """Bytes in use at instants, by category; the peak is always among the instants."""

    names: list[str]
    time_ns: Ints
    by_category: list[Ints]
    peak: int
    blocks: Blocks
    # For each block the place of its category among the names; bytes of each that were there before.
    category: Ints
    before: Ints


def usage(metrics: Metrics) -> Usage:
    """The course of memory. Categories nothing belongs to are left out."""
    blocks, sorts, before = categories(metrics)
    used = [sort for sort in _ORDER if before[sort] or (sorts == sort).any()]
    place = np.zeros(len(Category), np.int64)
    place[used] = np.arange(len(used))
    category, before = place[sorts], before[used]
    ended = blocks.end_ns <= metrics.memory_events.time_ns.max(initial=0)
    time = np.concatenate([blocks.start_ns, blocks.end_ns[ended]])
    nbytes = np.concatenate([blocks.nbytes, -blocks.nbytes[ended]])
    order = np.argsort(time, kind="stable")
    time, nbytes, of = time[order], nbytes[order], np.concatenate([category, category[ended]])[order]
    kept = _instants(np.cumsum(nbytes))
    # What was there before is there from the first instant on.
    first = min(0, int(time[0])) if len(time) else 0
    course = [np.cumsum(np.where(of == number, nbytes, 0))[kept] + before[number] for number in range(len(used))]
    course = [np.concatenate([[before[number]], values]) for number, values in enumerate(course)]
    total = np.sum(course, axis=0) if course else np.zeros(1, np.int64)
    names = [sort.name.capitalize().replace("_", " ") for sort in used]
    times = np.concatenate([[first], time[kept]])
    return Usage(names, times, course, int(np.argmax(total)), blocks, category, before)


def _instants(total: Ints) -> Ints:
    """Which instants to keep where there are too many: of each stretch the highest and the last."""
    count = len(total)
    if count <= _MOST_INSTANTS:
        return np.arange(count)
    bounds = np.linspace(0, count, _MOST_INSTANTS // 2 + 1).astype(np.int64)
    stretch = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    by_height = np.lexsort((total, stretch))
    return np.unique(np.concatenate([by_height[bounds[1:] - 1], bounds[1:] - 1]))


def alive_at(blocks: Blocks, time_ns: int) -> Ints:
    """The blocks in use at an instant, largest first."""
    alive = np.flatnonzero((blocks.start_ns <= time_ns) & (blocks.end_ns > time_ns))
    return alive[np.argsort(-blocks.nbytes[alive], kind="stable")]


def biggest(metrics: Metrics, found: Usage) -> list[dict[str, Any]]:
    """The largest blocks in use at the peak, each with the event that allocated it; -1 stands for none."""
    blocks, last = found.blocks, metrics.memory_events.time_ns.max(initial=0)
    rows = [
        {
            "bytes": int(blocks.nbytes[block]),
            "start": int(blocks.start_ns[block]),
            "end": int(blocks.end_ns[block]) if blocks.end_ns[block] <= last else -1,
            "event": innermost_event(metrics, int(blocks.track[block]), int(blocks.start_ns[block])),
            "category": int(found.category[block]),
        }
        for block in alive_at(blocks, int(found.time_ns[found.peak]))[:_MOST_ALIVE].tolist()
    ]
    older = [
        {"bytes": int(nbytes), "start": -1, "end": -1, "event": -1, "category": number}
        for number, nbytes in enumerate(found.before)
        if nbytes
    ]
    return sorted(rows + older, key=lambda row: -row["bytes"])


def innermost_event(metrics: Metrics, track: int, time_ns: int) -> int:
    """The innermost event of a thread at an instant, -1 if nothing runs."""
    mine = np.flatnonzero((metrics.track == track) & ~metrics.is_mark)
    before = int(np.searchsorted(metrics.start_ns[mine], time_ns, side="right")) - 1
    place = int(mine[before]) if before >= 0 else -1
    while place >= 0 and metrics.end_ns[place] < time_ns:
        place = int(metrics.parent[place])
    return place
