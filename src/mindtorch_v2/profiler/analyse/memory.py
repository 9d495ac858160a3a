"""The memory timeline: every block that came or went, sorted by what it was to the program.

Parameters, gradients, optimizer state and what modules were given are known by sight (`memory_roles`). All else follows from
the recorded graph: which op made a block, whether that op added to the autograd graph, whether the engine ran it, and
how long the block lived. It does not write files.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core import roles as _roles
from ..capture.capture import CPU_OP, Capture
from . import tree
from .metrics import Metrics

Ints = NDArray[np.int64]
_FOREVER = np.iinfo(np.int64).max


class Category(IntEnum):
    """What a block of memory is to the program, numbered as in torch's raw timelines."""

    PARAMETER = 0
    OPTIMIZER_STATE = 1
    INPUT = 2
    TEMPORARY = 3
    ACTIVATION = 4
    GRADIENT = 5
    AUTOGRAD_DETAIL = 6
    UNKNOWN = 7


class Action(IntEnum):
    """What happens to a block of memory, numbered as in torch's raw timelines."""

    PREEXISTING = 1
    CREATE = 2
    INCREMENT_VERSION = 3
    DESTROY = 4


# A block with several roles is the first of these.
_ROLES = {
    "parameter": Category.PARAMETER,
    "optimizer state": Category.OPTIMIZER_STATE,
    "gradient": Category.GRADIENT,
    "input": Category.INPUT,
}


class Change(NamedTuple):
    """One row of a timeline. Unix time, -1 for what was there before; bytes are negative where memory goes."""

    time_ns: int
    action: int
    nbytes: int
    category: int


class Blocks:
    """Blocks of memory that came within the recording. Times count from its start; `end_ns` is _FOREVER for some."""

    def __init__(self, metrics: Metrics) -> None:
        memory = metrics.memory_events
        order = np.lexsort((memory.time_ns, memory.address))
        time, nbytes = memory.time_ns[order], memory.nbytes[order]
        self.address, self.track = memory.address[order], memory.track[order]
        # A block ends with what happens next at its address.
        follows = np.zeros(len(order), bool)
        follows[:-1] = (self.address[1:] == self.address[:-1]) & (nbytes[1:] <= 0)
        end = np.where(follows, np.concatenate([time[1:], [0]])[: len(time)], _FOREVER)
        came = nbytes > 0
        self.start_ns, self.end_ns, self.nbytes = time[came], end[came], nbytes[came]
        self.address, self.track = self.address[came], self.track[came]

    def __len__(self) -> int:
        return len(self.start_ns)

    def find(self, address: int, time_ns: int) -> int:
        """The place of the block that lives at an address at a time, or -1."""
        low = bisect.bisect_left(self.address, address)
        high = bisect.bisect_right(self.address, address)
        place = low + int(np.searchsorted(self.start_ns[low:high], time_ns, side="right")) - 1
        return place if place >= low and time_ns < self.end_ns[place] else -1


class RoleSeen(NamedTuple):
    """A block of memory in one of its roles; `address` is the number that memory events have for it."""

    time_ns: int
    role: Category
    address: int
    nbytes: int
    version: int


def memory_roles_of(capture: Capture) -> list[RoleSeen]:
    """What was seen while a capture was recorded."""
    roles = [_ROLES[name] for name in _roles.NAMES]
    return [RoleSeen(time, roles[role], *block) for time, role, *block in capture.memory_roles.tolist()]


def timeline(metrics: Metrics) -> list[Change]:
    """All changes of memory in order of time, what was there before first."""
    capture, blocks = metrics.capture, Blocks(metrics)
    sorts = sort_blocks(metrics, blocks).tolist()
    old: dict[int, tuple[int, int]] = {}
    moments: list[tuple[int, int, int, int]] = []
    # Blocks that are no part of the recording go by their address, negated to be told from places.
    seen = [(s, blocks.find(s.address, s.time_ns)) for s in memory_roles_of(capture)]
    for role_seen, place in seen:
        role = role_seen.role
        if place >= 0:
            sorts[place] = _stronger(role, sorts[place])
        else:
            nbytes, known = old.get(role_seen.address, (role_seen.nbytes, role))
            old[role_seen.address] = nbytes, _stronger(role, known)
    versions: dict[int, int] = {}
    for role_seen, place in seen:
        key = place if place >= 0 else -1 - role_seen.address
        if role_seen.version > versions.setdefault(key, role_seen.version):
            sort = sorts[place] if place >= 0 else old[role_seen.address][1]
            moments.append((role_seen.time_ns, Action.INCREMENT_VERSION, role_seen.nbytes, sort))
            versions[key] = role_seen.version
    for start, end, nbytes, sort in zip(
        blocks.start_ns.tolist(), blocks.end_ns.tolist(), blocks.nbytes.tolist(), sorts
    ):
        moments.append((start, Action.CREATE, nbytes, sort))
        if end != _FOREVER:
            moments.append((end, Action.DESTROY, nbytes, sort))
    moments.sort(key=lambda moment: moment[0])
    before = [Change(-1, Action.PREEXISTING, nbytes, sort) for nbytes, sort in old.values()]
    return before + [change for moment in moments for change in _changes(*moment, capture.epoch_ns)]


def categories(metrics: Metrics) -> tuple[Blocks, Ints, Ints]:
    """The blocks of a recording, the category of each, and bytes by category of what was seen and there before."""
    blocks = Blocks(metrics)
    sorts = sort_blocks(metrics, blocks)
    old: dict[int, tuple[int, int]] = {}
    for role_seen in memory_roles_of(metrics.capture):
        role, place = role_seen.role, blocks.find(role_seen.address, role_seen.time_ns)
        if place >= 0:
            sorts[place] = _stronger(role, int(sorts[place]))
        else:
            nbytes, known = old.get(role_seen.address, (role_seen.nbytes, int(role)))
            old[role_seen.address] = nbytes, _stronger(role, known)
    before = np.zeros(len(Category), np.int64)
    for nbytes, sort in old.values():
        before[sort] += nbytes
    return blocks, sorts, before


def _changes(time_ns: int, action: int, nbytes: int, sort: int, epoch_ns: int) -> list[Change]:
    """A new version is the old one gone and the new one there."""
    gone, there = (Change(time_ns + epoch_ns, int(action), sign * nbytes, sort) for sign in (-1, 1))
    return {Action.CREATE: [there], Action.DESTROY: [gone]}.get(Action(action), [gone, there])


def _stronger(one: int, other: int) -> int:
    """Of two categories the one that a role gives, the first of `_ROLES` if both do."""
    ranks = {int(category): rank for rank, category in enumerate(_ROLES.values())}
    return min(one, other, key=lambda category: ranks.get(category, len(ranks)))


def sums(changes: Sequence[Change]) -> tuple[list[int], list[list[int]]]:
    """Microseconds, and at each of them the bytes of each category, after a zero. What was there before is there at
    the first time."""
    if not changes:
        return [], []
    rows = np.array(changes, np.int64)
    times = rows[:, 0]
    first = int(times[times >= 0].min()) // 1000 if (times >= 0).any() else -1
    moments = np.where(times < 0, -1, times // 1000)
    sizes = np.zeros((len(rows), 1 + len(Category)), np.int64)
    sizes[np.arange(len(rows)), 1 + rows[:, 3]] = rows[:, 2]
    last = np.flatnonzero(np.append(moments[1:] != moments[:-1], True))
    return np.where(moments[last] < 0, first, moments[last]).tolist(), np.cumsum(sizes, axis=0)[last].tolist()


# Sorting by the recorded graph


def sort_blocks(metrics: Metrics, blocks: Blocks) -> Ints:
    """The category of each block as far as the graph tells it."""
    sorts = np.full(len(blocks), int(Category.UNKNOWN), np.int64)
    maker = _makers(metrics, blocks)
    made = np.flatnonzero(maker >= 0)
    if not len(made):
        return sorts
    graph = _Graph(metrics)
    inner, end = maker[made], blocks.end_ns[made]
    outer = graph.outermost(inner)
    in_op = outer >= 0
    place = np.where(in_op, outer, inner)
    passing = end <= metrics.end_ns[np.where(graph.in_engine[inner], inner, place)]
    growth, backward = graph.next_growth(metrics.start_ns[place]), graph.next_backward(metrics.start_ns[place])
    # The first rule that holds decides.
    rules = [
        (Category.TEMPORARY, passing & (in_op | graph.in_engine[inner])),
        (Category.AUTOGRAD_DETAIL, graph.in_engine[inner]),
        (Category.ACTIVATION, in_op & graph.grows[place]),
        # Made apart from the graph, and there when it grows.
        (Category.INPUT, in_op & (growth < backward) & (end > growth)),
        # Made once the graph is complete, as the gradient that a backward pass begins with.
        (Category.ACTIVATION, in_op & (backward < growth) & (end > backward)),
        (Category.TEMPORARY, in_op & (end != _FOREVER) & graph.exists),
    ]
    conditions, categories = [rule[1] for rule in rules], [int(rule[0]) for rule in rules]
    sorts[made] = np.select(conditions, categories, int(Category.UNKNOWN))
    return sorts


def _makers(metrics: Metrics, blocks: Blocks) -> Ints:
    """For each block the innermost event that ran when it came, or -1."""
    found = np.full(len(blocks), -1, np.int64)
    for number in range(len(metrics.capture.tracks)):
        mine = np.flatnonzero(blocks.track == number)
        events = np.flatnonzero((metrics.track == number) & ~metrics.is_mark)
        if not len(mine) or not len(events):
            continue
        times = blocks.start_ns[mine]
        latest = np.searchsorted(metrics.start_ns[events], times, side="right") - 1
        place = np.where(latest >= 0, events[latest], -1)
        while True:
            over = (place >= 0) & (metrics.end_ns[place] < times)
            if not over.any():
                break
            place = np.where(over, metrics.parent[place], place)
        found[mine] = place
    return found


class _Graph:
    """What events have to do with autograd."""

    def __init__(self, metrics: Metrics) -> None:
        engine = metrics.is_backward | metrics.is_evaluation
        self.in_engine = engine | (tree.splice(metrics.parent, ~engine) >= 0)
        is_op = metrics.of_kinds(lambda kind: kind.category == CPU_OP) & ~self.in_engine
        self._is_op = is_op
        self._around = tree.splice(metrics.parent, ~is_op)
        tops = np.flatnonzero(is_op & (self._around < 0) & (metrics.seq >= 0))
        self.grows = self._growing(metrics, tops)
        self._growths = np.append(np.sort(metrics.start_ns[tops][self.grows[tops]]), _FOREVER)
        self._backwards = np.append(np.sort(metrics.start_ns[engine]), _FOREVER)
        self.exists = len(self._growths) + len(self._backwards) > 2

    @staticmethod
    def _growing(metrics: Metrics, tops: Ints) -> NDArray[np.bool_]:
        """Which outermost ops added nodes to the graph: the next op finds a higher sequence number, or one of the
        numbers in between is that of a node that ran."""
        grows = np.zeros(len(metrics), bool)
        nodes = np.unique(metrics.seq[metrics.is_backward & (metrics.seq >= 0)])
        for number in range(len(metrics.capture.tracks)):
            mine = tops[metrics.track[tops] == number]
            numbers = metrics.seq[mine]
            grows[mine[:-1]] = numbers[1:] > numbers[:-1]
            if len(mine):
                grows[mine[-1]] = len(nodes) > 0 and bool(nodes[-1] >= numbers[-1])
        return grows

    def outermost(self, places: Ints) -> Ints:
        """The outermost op that each event runs in, itself included, or -1."""
        found = np.where(self._is_op[places], places, self._around[places])
        while True:
            around = np.where(found >= 0, self._around[found], -1)
            if (around < 0).all():
                return found
            found = np.where(around >= 0, around, found)

    def next_growth(self, times: Ints) -> Ints:
        """When the graph grows next after each time; _FOREVER where it does not."""
        return self._growths[np.searchsorted(self._growths[:-1], times, side="right")]

    def next_backward(self, times: Ints) -> Ints:
        """When the engine next runs a node after each time."""
        return self._backwards[np.searchsorted(self._backwards[:-1], times, side="right")]
