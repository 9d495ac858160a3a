"""Which event is inside which: nesting from times alone, in arrays. It does not know names other than as numbers."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Nesting(NamedTuple):
    """`order` sorts events by start, outer before inner; `parent[i]` is the place in it of the event around it, or -1.

    `share[i]` is what the event takes of its parent's time: its length, less what earlier siblings overlap. It is None
    where nothing overlaps.
    """

    order: Ints
    parent: Ints
    share: Ints | None


def nest(start: Ints, end: Ints) -> Nesting:
    """Nest the events of one thread, given in the order in which they ended.

    Events that overlap only in part are not nested: an event's parent is the latest one that holds all of it.
    """
    found = _nest_perfect(start, end)
    return found if found is not None else nest_any(start, end)


def _nest_perfect(start: Ints, end: Ints) -> Nesting | None:
    """Nesting where every two events are disjoint or one inside the other and none is without length; else None.

    An event's depth is the number of events begun before it less the number that have ended by then.
    """
    count = len(start)
    if (start[1:] >= end[:-1]).all() and (start < end).all():
        # One after the other, none inside another.
        return Nesting(np.arange(count), np.full(count, -1), None)
    order = np.argsort(start, kind="stable")
    begin, finish = start[order], end[order]
    if count and (begin >= finish).any():
        return None
    if count and (begin[1:] == begin[:-1]).any():
        # Begun at the same time, as Python functions are that run when a recording starts.
        order = _outer_first(start, end)
        finish = end[order]
    ends = end if (end[1:] >= end[:-1]).all() else np.sort(end)
    depth = np.arange(count) - np.searchsorted(ends, begin, side="right")
    if count and depth.min() < 0:
        return None
    parent = _parents(depth)
    inner = parent >= 0
    if (finish[parent[inner]] < finish[inner]).any():
        return None
    return Nesting(order, parent, None)


def _outer_first(start: Ints, end: Ints) -> Ints:
    """The order of events by start. Of events with the same times, the one that ended last is the outer one."""
    return np.lexsort((-np.arange(len(start)), -end, start))


def _parents(depth: Ints) -> Ints:
    """For each position the last one before it that is one level up."""
    count = len(depth)
    parent = np.full(count, -1, np.int64)
    if not count:
        return parent
    by_depth = np.argsort(depth.astype(np.int16) if depth.max() < 1 << 15 else depth, kind="stable")
    bounds = np.cumsum(np.bincount(depth))
    outer = by_depth[: bounds[0]]
    for low, high in itertools.pairwise(bounds.tolist()):
        level = by_depth[low:high]
        parent[level] = outer[np.searchsorted(outer, level) - 1]
        outer = level
    return parent


def nest_any(start: Ints, end: Ints) -> Nesting:
    """Nesting event by event."""
    count = len(start)
    order = _outer_first(start, end)
    begins, ends = start[order].tolist(), end[order].tolist()
    parent = [-1] * count
    share = [0] * count
    # Up to where the children of each event seen so far reach.
    reach = list(begins)
    stack: list[int] = []
    for position in range(count):
        begin, finish = begins[position], ends[position]
        while stack and (begin >= ends[stack[-1]] or finish > ends[stack[-1]]):
            stack.pop()
        share[position] = finish - begin
        if stack:
            outer = parent[position] = stack[-1]
            share[position] = max(0, finish - max(begin, reach[outer]))
            reach[outer] = max(reach[outer], finish)
        stack.append(position)
    return Nesting(order, np.array(parent, np.int64), np.array(share, np.int64))


def crossings(start: Ints, end: Ints) -> NDArray[np.bool_]:
    """Events of one thread that cross an earlier one; without them every two are disjoint or nested."""
    crossing = np.zeros(len(start), bool)
    if _nest_perfect(start, end) is not None:
        return crossing
    open_ends: list[int] = []
    for place in _outer_first(start, end).tolist():
        begin, finish = int(start[place]), int(end[place])
        while open_ends and open_ends[-1] <= begin:
            open_ends.pop()
        if open_ends and finish > open_ends[-1]:
            crossing[place] = True
        else:
            open_ends.append(finish)
    return crossing


def merge_threads(parts: list[Nesting], bounds: list[int], start: Ints, end: Ints) -> Nesting:
    """One nesting over the columns of several threads, sorted by start."""
    if len(parts) == 1:
        return parts[0]
    none = np.empty(0, np.int64)
    order = np.concatenate([none, *(part.order + low for part, low in zip(parts, bounds))])
    parent = np.concatenate([none, *(np.where(p.parent >= 0, p.parent + low, -1) for p, low in zip(parts, bounds))])
    lengths = (end - start)[order]
    pieces = [lengths[low : low + len(p.order)] if p.share is None else p.share for p, low in zip(parts, bounds)]
    share = np.concatenate([none, *pieces])
    again = np.argsort(start[order], kind="stable")
    return Nesting(order[again], renumbered(parent, again), share[again])


def renumbered(parent: Ints, order: Ints) -> Ints:
    """Parents of events that are put into another order."""
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    parent = parent[order]
    return np.where(parent >= 0, place[parent], -1)


def lone_echoes(parent: Ints, name: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Events that are the only child of an event of the same name; event lists show such a pair once."""
    inner = parent >= 0
    if not inner.any():
        return inner
    children = np.bincount(parent[inner], minlength=len(parent))
    around = np.where(inner, parent, 0)
    echoes: NDArray[np.bool_] = inner & (name[around] == name) & (children[around] == 1)
    return echoes


def splice(parent: Ints, dropped: NDArray[np.bool_]) -> Ints:
    """Parents once `dropped` events are gone: children move up to the nearest event that stays."""
    jump = np.where(dropped, parent, np.arange(len(parent)))
    while True:
        # Doubling: chains of dropped events shrink to half their length in each round.
        further = np.where(jump >= 0, jump[jump], -1)
        if (further == jump).all():
            break
        jump = further
    return np.where(parent >= 0, jump[parent], -1)


def own_counts(whole: Ints, parent: Ints) -> Ints:
    """What each event does itself, given what it does with everything in it, as far as that is known (0: it is not).

    Events may do more together than the one around them is known to do; it then has done nothing itself.
    """
    outer = np.where(whole > 0, splice(parent, whole <= 0), -1)
    total, inside = whole.copy(), np.zeros_like(whole)
    depth = depths(outer)
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(int(depth.max(initial=0)) + 2)).tolist()
    for low, high in itertools.pairwise(bounds[:0:-1]):
        # Events with the same number of known ones around them, the innermost first; `low` is the end of theirs.
        level = order[high:low]
        total[level] = np.maximum(total[level], inside[level])
        np.add.at(inside, outer[level], total[level])
    return np.maximum(total - inside, 0)


def depths(parent: Ints) -> Ints:
    """How many events are around each, found by doubling: as fast for deep nesting as for flat."""
    depth, jump = (parent >= 0).astype(np.int64), parent
    while (jump >= 0).any():
        depth = depth + np.where(jump >= 0, depth[jump], 0)
        jump = np.where(jump >= 0, jump[jump], -1)
    return depth


def climb(parent: Ints, end: Ints, place: Ints, time: Ints) -> Ints:
    """From each place up to the first event that has not ended before a time; -1 where all around it have.

    Events end no later than those around them, so that the way up is found by halving.
    """
    jumps = [parent]
    while (jumps[-1] >= 0).any():
        last = jumps[-1]
        jumps.append(np.where(last >= 0, last[last], -1))

    def has_ended(events: Ints) -> NDArray[np.bool_]:
        ended: NDArray[np.bool_] = (events >= 0) & (end[events] < time)
        return ended

    for jump in reversed(jumps):
        further = np.where(place >= 0, jump[place], -1)
        place = np.where(has_ended(place) & has_ended(further), further, place)
    return np.where(has_ended(place), parent[place], place)


def compact(parent: Ints, kept: NDArray[np.bool_]) -> Ints:
    """Parents of the kept events, in places among the kept ones."""
    place = np.cumsum(kept) - 1
    parent = parent[kept]
    return np.where(parent >= 0, place[parent], -1)


class Children(NamedTuple):
    """Children of all events in one array: those of event i are `child[bounds[i]:bounds[i + 1]]`."""

    child: Ints
    bounds: Ints

    def of(self, place: int) -> list[int]:
        found: list[int] = self.child[self.bounds[place] : self.bounds[place + 1]].tolist()
        return found


def children_of(parent: Ints) -> Children:
    inner = np.flatnonzero(parent >= 0)
    order = np.argsort(parent[inner], kind="stable")
    bounds = np.concatenate(([0], np.cumsum(np.bincount(parent[inner], minlength=len(parent)))))
    return Children(inner[order], bounds)
