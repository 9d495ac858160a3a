"""What a thread was doing at each moment: stretches of time with the innermost event open in each. It adds nothing up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..metrics import Metrics
from .intervals import Ints


class Innermost(NamedTuple):
    """Stretches of one thread in order, without gaps; `event` is the innermost event of each, -1 for none."""

    start: Ints
    end: Ints
    event: Ints

    def cut(self, times: Ints) -> Innermost:
        """The same with a boundary at each of some times, which are sorted."""
        if not len(self.start):
            return self
        inside = times[(times > self.start[0]) & (times < self.end[-1])]
        start = np.union1d(self.start, inside)
        place = np.searchsorted(self.start, start, side="right") - 1
        return Innermost(start, np.concatenate((start[1:], self.end[-1:])), self.event[place])


def innermost(metrics: Metrics, track: int) -> Innermost:
    """From the first start to the last end of a thread."""
    mine = np.flatnonzero((metrics.track == track) & ~metrics.is_mark)
    if not len(mine):
        nothing = np.zeros(0, np.int64)
        return Innermost(nothing, nothing, nothing)
    # At a start the event itself becomes the innermost, at an end the one around it. At the same time ends come first,
    # inner ones before outer ones; starts are in display order, outer ones first.
    order = np.arange(len(mine))
    times = np.concatenate([metrics.end_ns[mine], metrics.start_ns[mine]])
    event = np.concatenate([metrics.parent[mine], mine])
    rank = np.concatenate([-order - 1, order])
    sequence = np.lexsort((rank, times))
    times, event = times[sequence], event[sequence]
    last = np.concatenate((times[1:] != times[:-1], [True]))
    times, event = times[last], event[last]
    return Innermost(times[:-1], times[1:], event[:-1])
