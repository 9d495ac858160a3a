"""Arrows between slices that a trace brought along, such as those from launches to the work of a GPU.

They are kept as rows of their thread: time, number, sort (where an arrow begins, goes on, ends) and kind. Arrows from
forward ops to autograd nodes are no part of this: they follow from sequence numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .metrics import Metrics

Ints = NDArray[np.int64]

SORTS = "stf"
_PLACES = {sort: place for place, sort in enumerate(SORTS)}
# Numbers for arrows that a file tells apart by texts.
_FIRST_NUMBER = 1 << 40


class Arrows:
    """Collects arrows by thread."""

    def __init__(self) -> None:
        self._threads: dict[Any, int] = {}
        # Rows as they come, with the number of their thread in front.
        self._rows = [np.zeros((0, 5), np.int64)]
        self._numbers: dict[tuple[int, str], int] = {}

    def add(
        self, threads: Iterable[Any], time_ns: Ints, names: list[Any], sorts: Iterable[str], kinds: list[int]
    ) -> None:
        """Add ends of arrows; `names` are what a file tells them by from others of their kind."""
        known = self._threads
        thread = [known.setdefault(thread, len(known)) for thread in threads]
        if set(map(type, names)) == {int} and min(names) >= 0 and max(names) < _FIRST_NUMBER:
            number = names
        else:
            number = [self._number(name, kind) for name, kind in zip(names, kinds)]
        columns = [thread, time_ns, number, [_PLACES[sort] for sort in sorts], kinds]
        self._rows.append(np.array(columns, np.int64).T)

    def _number(self, name: Any, kind: int) -> int:
        if type(name) is int and 0 <= name < _FIRST_NUMBER:
            return name
        return self._numbers.setdefault((kind, str(name)), _FIRST_NUMBER + len(self._numbers))

    def of(self, thread: Any, origin_ns: int) -> Ints | None:
        """The rows of a thread with times from `origin_ns` on."""
        if thread not in self._threads:
            return None
        if len(self._rows) > 1:
            rows = np.concatenate(self._rows)
            self._rows = [rows[np.argsort(rows[:, 0], kind="stable")]]
        low, high = np.searchsorted(self._rows[0][:, 0], [self._threads[thread], self._threads[thread] + 1])
        found = self._rows[0][low:high, 1:].copy()
        found[:, 0] -= origin_ns
        return found


def ends_of_arrows(metrics: Metrics) -> Iterator[tuple[int, int, str]]:
    """The event that each row belongs to (the innermost that it lies in), the arrow's number from 1, and the sort."""
    numbers: dict[tuple[int, int], int] = {}
    for place, track in enumerate(metrics.capture.tracks):
        if track.arrows is None:
            continue
        events = np.flatnonzero((metrics.track == place) & ~metrics.is_mark)
        before = np.searchsorted(metrics.start_ns[events], track.arrows[:, 0], side="right") - 1
        nearest = np.where(before >= 0, events[before], -1) if len(events) else before
        for (time, number, sort, kind), event in zip(track.arrows.tolist(), nearest.tolist()):
            # What holds a later time than an event's end holds the event as well.
            while event >= 0 and metrics.end_ns[event] < time:
                event = int(metrics.parent[event])
            if event >= 0:
                found = numbers.setdefault((kind, number), len(numbers) + 1)
                yield event, found, SORTS[sort]
