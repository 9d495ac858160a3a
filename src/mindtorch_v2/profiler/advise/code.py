"""Which of the user's lines and functions a run's time belongs to: every nanosecond of every thread once.

The time of an op belongs to the line that called it, that of its backward too. What runs in Python between ops belongs to
the line of the next op of the same function; a long call without any op in it, to its function. It does not judge.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..analyse import tree
from ..analyse.metrics import Metrics
from ..capture.capture import CPU_OP
from .origins import Frame, Origins, frame_of

Ints = NDArray[np.int64]

# A call without ops in it that takes longer than this is looked at by itself, not as the way to the next op.
_LONG_NS = 100_000
_IN_PASSING = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<lambda>")


class Slices(NamedTuple):
    """Stretches of time in which one event was the innermost: their owner, beginning, length and node of the tree."""

    owner: Ints
    start_ns: Ints
    length_ns: Ints
    node: Ints


class CodeTree:
    """Nodes of calls: `parent[i]` is the node of the caller, `frames[i]` the line it is at. Node 0 is outside of it all."""

    def __init__(self) -> None:
        self.parent = [0]
        self.frames: list[Frame | None] = [None]
        self._known: dict[tuple[int, str, bool], int] = {}

    def child(self, parent: int, text: str, exact: bool) -> int:
        found = self._known.get((parent, text, exact))
        if found is None:
            found = self._known[parent, text, exact] = len(self.parent)
            self.parent.append(parent)
            self.frames.append(frame_of(text, exact))
        return found

    def around(self, node: int) -> list[int]:
        """The node and those around it, innermost first."""
        found = []
        while node:
            found.append(node)
            node = self.parent[node]
        return found


class Code:
    """The user's code in one capture."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.origins = Origins(metrics.capture)
        self.tree = CodeTree()

    # Functions

    @cached_property
    def is_users(self) -> NDArray[np.bool_]:
        """Which events are calls of the user's functions."""
        return self._metrics.of_kinds(lambda kind: kind.is_function and self.origins.is_users(kind.name))

    @cached_property
    def function(self) -> Ints:
        """The innermost call of a user's function around each event, itself included; -1 for none."""
        outer = tree.splice(self._metrics.parent, ~self.is_users)
        return np.where(self.is_users, np.arange(len(outer)), outer)

    @cached_property
    def activation(self) -> Ints:
        """The same, but what is written inside of a function (a comprehension, a lambda) counts as the function."""
        metrics = self._metrics
        passing = self.is_users & metrics.of_kinds(lambda kind: kind.name.endswith(_IN_PASSING))
        real = self.is_users & ~passing
        outer = tree.splice(metrics.parent, ~real)
        return np.where(real, np.arange(len(outer)), outer)

    @cached_property
    def depth(self) -> Ints:
        """How many calls of the user's functions are around each event, itself included."""
        calls = np.flatnonzero(self.is_users)
        place = np.full(len(self._metrics) + 1, -1, np.int64)
        place[calls] = np.arange(len(calls))
        outer = tree.splice(self._metrics.parent, ~self.is_users)[calls]
        depth = np.append(tree.depths(place[outer]) + 1, 0)
        return depth[place[self.function]]

    @cached_property
    def function_node(self) -> Ints:
        """The node of the user's function that each event runs in, known by the line where it begins."""
        metrics = self._metrics
        calls = np.flatnonzero(self.is_users)
        node = np.zeros(len(metrics) + 1, np.int64)
        outer = tree.splice(metrics.parent, ~self.is_users)
        depth = self.depth[calls]
        for level in range(1, int(depth.max(initial=0)) + 1):
            mine = calls[depth == level]
            pairs = node[outer[mine]] * (int(metrics.kind.max()) + 1) + metrics.kind[mine]
            distinct, which = np.unique(pairs, return_inverse=True)
            named = [divmod(pair, int(metrics.kind.max()) + 1) for pair in distinct.tolist()]
            made = [self.tree.child(parent, metrics.kind_of(kind).name, False) for parent, kind in named]
            node[mine] = np.array(made, np.int64)[which.reshape(-1)]
        return node[self.function]

    # Lines

    @cached_property
    def is_op(self) -> NDArray[np.bool_]:
        return self._metrics.of_kinds(lambda kind: kind.category == CPU_OP)

    @cached_property
    def _paths(self) -> tuple[Ints, Ints, Ints]:
        """By number of a stack: where its row is, and by row the nodes of its user's frames from the outermost on (the
        last repeated) and how many there are."""
        metrics = self._metrics
        present = np.unique(np.concatenate([metrics.stack, metrics.columns.stack]))
        rows = np.zeros(int(present.max(initial=0)) + 1, np.int64)
        rows[present] = np.arange(len(present))
        paths: list[list[int]] = []
        exact = not getattr(metrics.capture.stacks, "lines_of_definition", False)
        for stack in present.tolist():
            node, path = 0, []
            for text in reversed(metrics.capture.stacks.read(stack) if stack else []):
                if self.origins.is_users(text):
                    node = self.tree.child(node, text, exact)
                    path.append(node)
            paths.append(path)
        width = max(1, max(map(len, paths), default=1))
        table = np.zeros((len(paths), width), np.int64)
        for row, path in enumerate(paths):
            table[row, : len(path)] = path
            table[row, len(path) :] = path[-1] if path else 0
        return rows, table, np.array([len(path) for path in paths], np.int64)

    def _node_at(self, stack: NDArray[Any], depth: Ints) -> Ints:
        """The node of stacks, no deeper than so many frames."""
        rows, table, lengths = self._paths
        row = rows[stack]
        found = table[row, np.clip(depth - 1, 0, table.shape[1] - 1)]
        return np.where((lengths[row] > 0) & (depth > 0), found, 0)

    @cached_property
    def node(self) -> Ints:
        """For each event the line it was called from, its backward included; else the function it runs in."""
        rows, table, lengths = self._paths
        row = rows[self._metrics.stack]
        innermost = table[row, np.maximum(lengths[row] - 1, 0)]
        return np.where((lengths[row] > 0) & ~self._metrics.is_python, innermost, self.function_node)

    @cached_property
    def slices(self) -> Slices:
        """All time of all threads of processors, cut where events begin and end."""
        metrics = self._metrics
        kept = np.flatnonzero(~metrics.is_mark & ~metrics.is_device)
        parent = metrics.parent[kept]
        inner = parent >= 0
        child, around = kept[inner], parent[inner]
        order = np.lexsort((metrics.start_ns[child], around))
        child, around = child[order], around[order]
        first = np.ones(len(child), bool)
        first[1:] = around[1:] != around[:-1]
        before = np.empty(len(child), np.int64)
        before[1:] = metrics.end_ns[child[:-1]]
        before[first] = metrics.start_ns[around[first]]
        # What follows the last child of each event, or all of an event without any.
        tail_start = metrics.start_ns[kept].copy()
        place = np.full(len(metrics), -1, np.int64)
        place[kept] = np.arange(len(kept))
        last = np.append(first[1:], True) if len(first) else first
        tail_start[place[around[last]]] = metrics.end_ns[child[last]]
        owner = np.concatenate([around, kept])
        start = np.concatenate([before, tail_start])
        end = np.concatenate([metrics.start_ns[child], metrics.end_ns[kept]])
        real = end > start
        owner, start, end = owner[real], start[real], end[real]
        return Slices(owner, start, end - start, self._slice_nodes(owner, start, end - start))

    def _slice_nodes(self, owner: Ints, start: Ints, length: Ints) -> Ints:
        metrics = self._metrics
        found = self.node[owner]
        python = np.flatnonzero(~self.is_op[owner] & (self.depth[owner] > 0))
        if not metrics.columns.stack.any() or not len(python):
            return found
        has_ops = np.zeros(len(metrics) + 1, bool)
        ops = np.flatnonzero(self.is_op & (metrics.columns.stack > 0))
        has_ops[self._owners_of_ops(ops)] = True
        mine = owner[python]
        # Inside the event itself if it holds ops, else inside the function it is a short part of.
        inside = np.where(has_ops[mine] | (length[python] > _LONG_NS), mine, self.function[mine])
        op = self._nearest_op(ops, inside, start[python])
        known = op >= 0
        node = self._node_at(metrics.columns.stack[np.maximum(op, 0)], self.depth[mine])
        found[python] = np.where(known & (node > 0), node, found[python])
        return found

    def _owners_of_ops(self, ops: Ints) -> Ints:
        """Every event that an op runs in."""
        parent = self._metrics.parent
        seen = np.zeros(len(parent) + 1, bool)
        level = np.unique(parent[ops])
        while len(level) and (level >= 0).any():
            level = level[(level >= 0) & ~seen[level]]
            seen[level] = True
            level = np.unique(parent[level])
        return np.flatnonzero(seen)

    def _nearest_op(self, ops: Ints, inside: Ints, start: Ints) -> Ints:
        """The first op in an event from a time on, else the last one before; -1 where it holds none."""
        metrics = self._metrics
        found = np.full(len(inside), -1, np.int64)
        if not len(ops):
            return found
        for number in range(len(metrics.capture.tracks)):
            mine = ops[metrics.track[ops] == number]
            rows = np.flatnonzero((metrics.track[inside] == number) & (inside >= 0))
            if not len(mine) or not len(rows):
                continue
            begins, around = metrics.start_ns[mine], inside[rows]
            after = np.searchsorted(begins, start[rows], side="left")
            candidate = mine[np.minimum(after, len(mine) - 1)]
            good = (after < len(mine)) & (metrics.start_ns[candidate] < metrics.end_ns[around])
            earlier = mine[np.maximum(after - 1, 0)]
            fits = (after > 0) & (metrics.start_ns[earlier] >= metrics.start_ns[around])
            found[rows] = np.where(good, candidate, np.where(fits, earlier, -1))
        return found

    # Sums

    def hot_lines(self, tracks: NDArray[np.bool_]) -> list[tuple[Frame, int, int]]:
        """The user's lines with their own time and the time with all they call, the largest first."""
        return self._hot(tracks, lambda frame: frame)

    def hot_functions(self, tracks: NDArray[np.bool_]) -> list[tuple[Frame, int, int]]:
        """The same by function; the line is the first that was seen of it."""
        return self._hot(tracks, lambda frame: (frame.file, frame.name))

    def _hot(self, tracks: NDArray[np.bool_], key: Any) -> list[tuple[Frame, int, int]]:
        slices = self.slices
        mine = tracks[self._metrics.track[slices.owner]]
        own = np.bincount(slices.node[mine], weights=slices.length_ns[mine], minlength=len(self.tree.parent))
        sums: dict[Any, list[Any]] = {}
        for node in np.flatnonzero(own).tolist():
            seen = set()
            for depth, outer in enumerate(self.tree.around(node)):
                frame = self.tree.frames[outer]
                if frame is None or (name := key(frame)) in seen:
                    continue
                seen.add(name)
                row = sums.setdefault(name, [frame, 0, 0])
                row[0] = min(row[0], frame, key=lambda one: one.line)
                row[1] += int(own[node]) if depth == 0 else 0
                row[2] += int(own[node])
        return sorted(((frame, mine, total) for frame, mine, total in sums.values()), key=lambda row: -row[1])
