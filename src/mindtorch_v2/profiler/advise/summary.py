"""Where the time of a run went: in ops, in autograd, in Python between them, or outside of everything recorded.

It adds up what the metrics hold; it does not judge it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core import tap
from ..analyse.metrics import Metrics
from ..analyse.modules import is_module
from ..capture.capture import CPU_OP, GPU_USER_ANNOTATION, PYTHON_FUNCTION, STEP_PREFIX, USER_ANNOTATION, Kind

# The sorts of events, in the order of the numbers they have in the page.
SORTS = ("op", "backward", "annotation", "step", "module", "python", "memory", "device")


class Summary(NamedTuple):
    """Nanoseconds of the busiest thread by where they went, and what each thread did."""

    window_ns: int
    main_track: int
    by_sort: dict[str, int]
    idle_ns: int
    tracks: list[dict[str, Any]]


def sort_of(kind: Kind) -> str:
    """What an event is, for whoever looks at it."""
    if is_module(kind):
        return "module"
    if kind.category == PYTHON_FUNCTION:
        return "python"
    if kind.category == USER_ANNOTATION:
        return "step" if kind.name.startswith(STEP_PREFIX) else "annotation"
    if kind.category == GPU_USER_ANNOTATION:
        # What of a user's region was seen on a device: the kernels in it are events of their own.
        return "annotation"
    if kind.category == CPU_OP:
        nodes = kind.scope == tap.BACKWARD_FUNCTION or kind.name.startswith("autograd::engine::")
        return "backward" if nodes else "op"
    return "memory" if kind.name.startswith("[memory") else "device"


def sorts_of(metrics: Metrics) -> NDArray[np.int64]:
    """The number of each event's sort."""
    if not len(metrics):
        return np.zeros(0, np.int64)
    table = np.zeros(int(metrics.kind.max()) + 1, np.int64)
    for number in np.flatnonzero(np.bincount(metrics.kind)).tolist():
        table[number] = SORTS.index(sort_of(metrics.kind_of(number)))
    return table[metrics.kind]


def window_of(metrics: Metrics) -> tuple[int, int]:
    """Where the window begins and ends; a loaded trace may hold events beyond what it says of itself."""
    capture = metrics.capture
    if not len(metrics):
        return 0, max(0, capture.stop_ns - capture.start_ns)
    last = int(metrics.end_ns.max())
    first = int(metrics.start_ns.min())
    return min(0, first), max(capture.stop_ns - capture.start_ns, last)


def summarise(metrics: Metrics) -> Summary:
    begin, finish = window_of(metrics)
    sorts = sorts_of(metrics)
    tracks = [_track_summary(metrics, sorts, number, finish - begin) for number in range(len(metrics.capture.tracks))]
    main = _main_track(metrics, tracks)
    mine: dict[str, Any] = tracks[main] if tracks else {"by_sort": {}, "idle_ns": finish - begin}
    return Summary(finish - begin, main, mine["by_sort"], mine["idle_ns"], tracks)


def _track_summary(metrics: Metrics, sorts: NDArray[np.int64], number: int, window_ns: int) -> dict[str, Any]:
    track = metrics.capture.tracks[number]
    mine = metrics.track == number
    own = np.bincount(sorts[mine], weights=metrics.self_ns[mine], minlength=len(SORTS))
    outermost = mine & (metrics.parent < 0)
    busy = _covered(metrics.start_ns[outermost], metrics.end_ns[outermost])
    return {
        "name": track.name,
        "events": int(mine.sum()),
        "by_sort": {name: int(own[i]) for i, name in enumerate(SORTS) if own[i]},
        "busy_ns": busy,
        "idle_ns": max(0, window_ns - busy),
    }


def _covered(start: NDArray[np.int64], end: NDArray[np.int64]) -> int:
    """How much time intervals sorted by their start cover together."""
    if not len(start):
        return 0
    reach = np.maximum.accumulate(end)
    gaps = np.maximum(start[1:] - reach[:-1], 0)
    return int(reach[-1] - start[0] - gaps.sum())


def _main_track(metrics: Metrics, tracks: list[dict[str, Any]]) -> int:
    """The thread that counts as the program: the main one if it did anything, else the busiest."""
    for number, track in enumerate(metrics.capture.tracks):
        if track.native_id == metrics.capture.main_thread and tracks[number]["events"]:
            return number
    busy = [track["busy_ns"] if metrics.capture.tracks[i].device_type == 0 else -1 for i, track in enumerate(tracks)]
    return busy.index(max(busy)) if busy else 0
