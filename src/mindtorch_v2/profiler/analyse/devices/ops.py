"""The ops of a capture by thread: which of them is open at a time, and for how long ops of a name were open.

It looks at ops alone, so that Python functions and the runtime's calls, whose ends are often rounded, do not matter.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...capture.capture import CPU_OP
from .. import tree
from ..metrics import Metrics
from .intervals import Stretches, union

Ints = NDArray[np.int64]


class Ops:
    """Ops in order of start, thread after thread. `place` are their places in `metrics`."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        chosen = np.flatnonzero(metrics.of_kinds(lambda kind: kind.category == CPU_OP))
        # Within a thread display order stays: by start, the outer before the inner.
        self.place = chosen[np.argsort(metrics.track[chosen], kind="stable")]
        self.track = metrics.track[self.place]
        self.start_ns, self.end_ns = metrics.start_ns[self.place], metrics.end_ns[self.place]

    def of_track(self, track: int) -> slice:
        low, high = np.searchsorted(self.track, [track, track + 1]).tolist()
        return slice(low, high)

    @cached_property
    def _parent(self) -> Ints:
        """For each op the latest one of its thread that holds all of it, as a place in these columns."""
        parent = np.full(len(self.place), -1, np.int64)
        for track in np.unique(self.track).tolist():
            mine = self.of_track(track)
            start, end = self.start_ns[mine], self.end_ns[mine]
            # Nesting wants the order in which they ended; of equal ones the outer one ended last.
            ended = np.lexsort((-np.arange(len(start)), end))
            found = tree.nest(start[ended], end[ended])
            inner = np.flatnonzero(found.parent >= 0)
            here = ended[found.order]
            parent[mine.start + here[inner]] = mine.start + here[found.parent[inner]]
        return parent

    def innermost_at(self, track: Ints, time_ns: Ints) -> Ints:
        """For each time the place in `metrics` of the innermost op then open on a thread, -1 for none."""
        found = np.full(len(time_ns), -1, np.int64)
        for number in np.unique(track).tolist():
            wanted, mine = np.flatnonzero(track == number), self.of_track(number)
            if mine.start == mine.stop:
                continue
            times = time_ns[wanted]
            op = mine.start + np.searchsorted(self.start_ns[mine], times, side="right") - 1
            op[op < mine.start] = -1
            # What is open later than an op that has ended holds the whole op.
            while (ended := (op >= 0) & (self.end_ns[op] < times)).any():
                op[ended] = self._parent[op[ended]]
            found[wanted] = np.where(op >= 0, self.place[op], -1)
        return found

    @cached_property
    def by_name(self) -> list[tuple[str, Ints]]:
        """Names of ops with the places in these columns of their calls."""
        kinds = self.metrics.kind[self.place]
        names: dict[str, int] = {}
        present = np.unique(kinds)
        of_kind = np.array([names.setdefault(self.metrics.kind_of(int(k)).name, len(names)) for k in present], np.int64)
        number = of_kind[np.searchsorted(present, kinds)] if len(kinds) else kinds
        order = np.argsort(number, kind="stable")
        bounds = np.cumsum(np.bincount(number, minlength=len(names)))[:-1]
        return list(zip(names, np.split(order, bounds))) if names else []

    def open_by_track(self, calls: Ints) -> list[tuple[int, Stretches]]:
        """When at least one of these calls was open, on each thread that made some. Calls in calls count once."""
        track = self.track[calls]
        return [
            (number, union(self.start_ns[mine], self.end_ns[mine]))
            for number in np.unique(track).tolist()
            for mine in [calls[track == number]]
        ]
