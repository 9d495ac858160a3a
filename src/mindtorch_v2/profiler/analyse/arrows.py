"""Arrows between slices that a trace brought along, such as those from launches to the work of a GPU.

They are kept as rows of their thread: time, number, sort (where an arrow begins, goes on, ends) and kind. Arrows from
forward ops to autograd nodes are no part of this: they follow from sequence numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .metrics import Metrics

SORTS = "stf"
# Numbers for arrows that a file tells apart by texts.
_FIRST_NUMBER = 1 << 40


class Arrows:
    """Collects arrows by thread."""

    def __init__(self) -> None:
        self._rows: dict[Any, array[int]] = {}
        self._numbers: dict[tuple[int, str], int] = {}

    def add(self, thread: Any, time_ns: int, name: Any, sort: str, kind: int) -> None:
        """Add an end of an arrow; `name` is what a file tells it by from others of its kind."""
        if type(name) is not int or not 0 <= name < _FIRST_NUMBER:
            name = self._numbers.setdefault((kind, str(name)), _FIRST_NUMBER + len(self._numbers))
        if thread not in self._rows:
            self._rows[thread] = array("q")
        self._rows[thread].extend((time_ns, name, SORTS.index(sort), kind))

    def of(self, thread: Any, origin_ns: int) -> NDArray[np.int64] | None:
        """The rows of a thread with times from `origin_ns` on."""
        rows = self._rows.get(thread)
        if rows is None:
            return None
        found = np.array(rows, np.int64).reshape(-1, 4)
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
