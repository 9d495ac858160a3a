"""What the CPU did while a device had nothing to do, by what was open on the thread that launched the next work."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import tree
from ..metrics import DEEPEST_STACK, Metrics
from .busy import DeviceUse
from .intervals import Ints, gaps
from .timeline import innermost
from .work import Work

_MOST_ROWS = 50
NOTHING_OPEN = "(nothing recorded)"
UNKNOWN_THREAD = "(launched from nowhere in the trace)"


class IdleTime(NamedTuple):
    """Idle time of one device while its thread was in one place: names of what was open, outermost first."""

    device: int
    stack: list[str]
    time_ns: int


def idle_times(work: Work, uses: list[DeviceUse]) -> list[IdleTime]:
    """For each device the places where it was idle longest."""
    metrics, found = work.metrics, []
    path = _paths(metrics)
    for use in uses:
        idle = gaps(use.covered)
        mine = np.flatnonzero(work.device == use.device)
        # What ends a gap is the first work that begins then.
        launch = work.launch[mine[np.searchsorted(work.start_ns[mine], idle.end)]]
        track = np.where(launch >= 0, metrics.track[launch], -1)
        times = {-2: int((idle.end - idle.start)[track < 0].sum())}
        for number in np.unique(track[track >= 0]).tolist():
            for place, time in _within(metrics, path, number, idle.start[track == number], idle.end[track == number]):
                times[place] = times.get(place, 0) + time
        rows = [IdleTime(use.device, _stack(metrics, place), time) for place, time in times.items() if time]
        found += sorted(rows, key=lambda row: -row.time_ns)[:_MOST_ROWS]
    return found


def _paths(metrics: Metrics) -> Ints:
    """For each event the first one with the same names around it: what is in the same place of the program."""
    numbers: dict[str, int] = {}
    names = metrics.of_kinds(lambda kind: numbers.setdefault(kind.label, len(numbers)), np.int64)
    path = np.full(len(metrics) + 1, -1, np.int64)
    depth = tree.depths(metrics.parent)
    order = np.argsort(depth, kind="stable")
    width = int(names.max(initial=0)) + 1
    for level in np.split(order, np.cumsum(np.bincount(depth))[:-1]) if len(order) else ():
        _, first, which = np.unique(
            (path[metrics.parent[level]] + 1) * width + names[level], return_index=True, return_inverse=True
        )
        path[level] = level[first[which.reshape(-1)]]
    return path


def _within(metrics: Metrics, path: Ints, track: int, start: Ints, end: Ints) -> list[tuple[int, int]]:
    """The paths a thread was on in some stretches of time, with the time spent there; -1 where nothing was open."""
    open_then = innermost(metrics, track).cut(np.union1d(start, end))
    place = np.searchsorted(start, open_then.start, side="right") - 1
    inside = (place >= 0) & (open_then.start < end[np.maximum(place, 0)])
    length = (open_then.end - open_then.start)[inside]
    paths, which = np.unique(path[open_then.event[inside]], return_inverse=True)
    found = np.bincount(which.reshape(-1), weights=length, minlength=len(paths)).astype(np.int64)
    outside = int((end - start).sum() - length.sum())
    return [*zip(paths.tolist(), found.tolist()), (-1, outside)]


def _stack(metrics: Metrics, place: int) -> list[str]:
    if place < 0:
        return [NOTHING_OPEN if place == -1 else UNKNOWN_THREAD]
    names: list[str] = []
    while place >= 0 and len(names) < DEEPEST_STACK:
        names.append(metrics.kind_of(int(metrics.kind[place])).label)
        place = int(metrics.parent[place])
    return names[::-1]
