"""Sets of stretches of time in arrays: merging them, their length, what two of them share. It knows nothing of events.

A set is two arrays, starts and ends, sorted and without overlap: what `union` gives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Stretches(NamedTuple):
    """Stretches of time that do not overlap, in order."""

    start: Ints
    end: Ints

    @property
    def length(self) -> int:
        return int((self.end - self.start).sum())


def union(start: Ints, end: Ints) -> Stretches:
    """The time that at least one of these stretches covers."""
    if not len(start):
        return Stretches(start[:0], end[:0])
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.concatenate(([True], start[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return Stretches(start[first], reach[last])


def gaps(covered: Stretches) -> Stretches:
    """What lies between the stretches of a set."""
    return Stretches(covered.end[:-1], covered.start[1:])


def covered_before(covered: Stretches, times: Ints) -> Ints:
    """For each time how much of the set lies before it."""
    if not len(covered.start):
        return np.zeros(len(times), np.int64)
    sums = np.concatenate(([0], np.cumsum(covered.end - covered.start)))
    place = np.searchsorted(covered.start, times, side="right") - 1
    inside = np.minimum(times, covered.end[place]) - covered.start[place]
    return np.where(place >= 0, sums[place] + inside, 0)


def covered_within(covered: Stretches, start: Ints, end: Ints) -> Ints:
    """For each stretch how much of it the set covers."""
    return covered_before(covered, end) - covered_before(covered, start)


def shared(one: Stretches, other: Stretches) -> int:
    """How much time two sets have in common."""
    return int(covered_within(one, other.start, other.end).sum())
