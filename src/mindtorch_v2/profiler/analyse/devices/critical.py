"""The critical path of a run: the chain of CPU time, launches, kernels and waits that decided how long it took.

It leads back from the last moment of the run along what each moment waited for last. What a part of it would gain if it
took no time is found by letting the run happen again without it: then other chains may decide, so a gain is at most the
part's own time.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .intervals import Ints
from .moments import Moments, moments_of
from .timeline import innermost
from .work import SORTS, Work

_MOST_GAINS = 12
CPU, DELAY = "cpu", "delay"
# By what a piece of work waited for last: why it did not begin at once.
_DELAYS = ("launch to start", "between kernels of a stream", "between streams")
NOTHING = "(nothing recorded)"


class Part(NamedTuple):
    """Time on the critical path under one name. The sort is `cpu`, `delay`, or one of a piece of work.

    `gain_ns` is what the run would have taken less if all such time, on the path or not, had been none; None where that
    was not tried.
    """

    sort: str
    name: str
    times: int
    time_ns: int
    gain_ns: int | None


class CriticalPath:
    """The critical path of one capture."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._moments: Moments = moments_of(work)

    @cached_property
    def path(self) -> Ints:
        """The moments on it, the first one first."""
        moments, found = self._moments, []
        place = len(moments) - 1
        waits, last = moments.waits.tolist(), moments.last.tolist()
        while place >= 0:
            found.append(place)
            place = waits[place][last[place]] if last[place] >= 0 else -1
        return np.array(found[::-1], np.int64)

    @cached_property
    def length_ns(self) -> int:
        """From its first moment to the end of the run."""
        if not len(self.path):
            return 0
        first = self.path[0]
        return int(self._moments.time[-1] - self._moments.time[first] + self._moments.length[first])

    @cached_property
    def _pieces(self) -> tuple[list[tuple[str, str]], Ints, Ints, Ints]:
        """All time of all moments in pieces: labels, and for each piece its label, moment and length."""
        moments, work, metrics = self._moments, self._work, self._work.metrics
        labels: dict[tuple[str, str], int] = {}
        label, moment, length = [], [], []

        def add(names: list[tuple[str, str]], which: Ints, of: Ints, lengths: Ints) -> None:
            numbers = np.array([labels.setdefault(name, len(labels)) for name in names], np.int64)
            label.append(numbers[which])
            moment.append(of)
            length.append(lengths)

        ends = np.flatnonzero(moments.work >= 0)
        kinds, which = np.unique(work.kind[moments.work[ends]], return_inverse=True)
        sorts = dict(zip(work.kind.tolist(), work.sort.tolist()))
        names = [(SORTS[sorts[kind]], metrics.kind_of(kind).name) for kind in kinds.tolist()]
        add(names, which.reshape(-1), ends, moments.length[ends])
        late = ends[moments.last[ends] >= 0]
        add([(DELAY, name) for name in _DELAYS], moments.last[late], late, moments.delay[late])
        for track in np.unique(moments.thread[moments.thread >= 0]).tolist():
            mine = np.flatnonzero(moments.thread == track)
            stretches = innermost(metrics, track).cut(np.union1d(moments.ready[mine], moments.time[mine]))
            place = np.searchsorted(moments.time[mine], stretches.start, side="right")
            inside = place < len(mine)
            of = mine[np.minimum(place, len(mine) - 1)]
            inside &= stretches.start >= moments.ready[of]
            kinds, which = np.unique(
                np.where(stretches.event >= 0, metrics.kind[stretches.event], -1)[inside], return_inverse=True
            )
            names = [(CPU, metrics.kind_of(kind).label if kind >= 0 else NOTHING) for kind in kinds.tolist()]
            lengths = (stretches.end - stretches.start)[inside]
            add(names, which.reshape(-1), of[inside], lengths)
            known = np.bincount(of[inside], weights=lengths, minlength=len(moments)).astype(np.int64)
            # Before a thread's first event.
            add([(CPU, NOTHING)], np.zeros(len(mine), np.int64), mine, np.maximum(moments.delay - known, 0)[mine])
        return list(labels), np.concatenate(label), np.concatenate(moment), np.concatenate(length)

    @cached_property
    def parts(self) -> list[Part]:
        """The path by name, longest first."""
        if not len(self._moments):
            return []
        labels, label, moment, length = self._pieces
        on_path = np.zeros(len(self._moments), bool)
        on_path[self.path] = True
        chosen = on_path[moment] & (length > 0)
        times = np.bincount(label[chosen], weights=length[chosen], minlength=len(labels)).astype(np.int64)
        counts = np.bincount(label[chosen], minlength=len(labels))
        found = []
        for rank, number in enumerate(np.argsort(-times, kind="stable").tolist()):
            if times[number]:
                gain = self._gain(label == number) if rank < _MOST_GAINS else None
                found.append(Part(labels[number][0], labels[number][1], int(counts[number]), int(times[number]), gain))
        return found

    def _gain(self, without: NDArray[np.bool_]) -> int:
        """How much earlier the run ends if some pieces take no time."""
        moments = self._moments
        _, _, moment, length = self._pieces
        less = np.bincount(moment[without], weights=length[without], minlength=len(moments)).astype(np.int64)
        took = (moments.delay + moments.length - less).tolist()
        # What waits for nothing began when it did.
        began = np.where(moments.last < 0, moments.ready, np.iinfo(np.int64).min).tolist()
        times: list[int] = []
        # The time of a moment that is not there, at -1, is never the latest.
        never = np.iinfo(np.int64).min
        for (one, two, three), start, duration in zip(moments.waits.tolist(), began, took):
            ready = start
            if one >= 0 and times[one] > ready:
                ready = times[one]
            if two >= 0 and times[two] > ready:
                ready = times[two]
            if three >= 0 and times[three] > ready:
                ready = times[three]
            times.append(ready + duration if ready > never else duration)
        return int(moments.time.max()) - max(times)
