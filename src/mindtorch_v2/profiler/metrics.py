"""What is derived from columns and nesting: self times, memory, FLOPs, forward threads and stacks per event.

Everything is an array over the events in display order (by start, outer first) and is computed when first asked for.
It does not make event objects.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _tap
from . import tree
from .capture import PYTHON_FUNCTION, Capture, Kind
from .columns import EventColumns, columns_of

Ints = NDArray[np.int64]

EMPTY_INPUTS = _tap.InputRecord([], [], [], [])


class Metrics:
    """Analysis of one capture. Rows are events as shown: `[memory]` marks included, lone echoes merged away."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self._inputs: dict[tuple[int, int], _tap.InputRecord] = {}

    def kind_of(self, number: int) -> Kind:
        found: Kind = self.capture.kinds[number]
        return found

    # Nesting

    @cached_property
    def columns(self) -> EventColumns:
        return columns_of(self.capture)

    @cached_property
    def nesting(self) -> tree.Nesting:
        """All regions, nested; places are those of `raw_*`."""
        columns, bounds = self.columns, self.columns.bounds
        parts = [
            tree.nest(columns.start_ns[low:high], columns.end_ns[low:high]) for low, high in itertools.pairwise(bounds)
        ]
        return tree.merge_threads(parts, bounds, columns.start_ns)

    @cached_property
    def _names(self) -> Ints:
        """A number per name for each event kind number; kinds of the same label share it."""
        kinds = np.flatnonzero(np.bincount(self.columns.kind)) if len(self.columns) else np.empty(0, np.int64)
        numbers: dict[str, int] = {}
        table = np.zeros(int(kinds[-1]) + 1 if len(kinds) else 1, np.int64)
        for number in kinds.tolist():
            table[number] = numbers.setdefault(self.kind_of(number).label, len(numbers))
        return table

    @cached_property
    def kept(self) -> NDArray[np.bool_]:
        """Which of the nested regions are shown."""
        return ~tree.lone_echoes(self.nesting.parent, self._names[self.columns.kind[self.nesting.order]])

    @cached_property
    def regions(self) -> Ints:
        """Places in the columns of the shown regions, by start."""
        return self.nesting.order[self.kept]

    @cached_property
    def marks(self) -> Ints:
        """Places in the memory columns of what happened outside of every region; shown as `[memory]` events."""
        memory, columns = self.columns.memory, self.columns
        loose = np.zeros(len(memory), bool)
        for number, (low, high) in enumerate(itertools.pairwise(columns.bounds)):
            mine = np.flatnonzero(memory.track == number)
            times = memory.time_ns[mine]
            begun = np.searchsorted(np.sort(columns.start_ns[low:high]), times, side="right")
            ended = np.searchsorted(np.sort(columns.end_ns[low:high]), times, side="left")
            loose[mine] = begun == ended
        return np.flatnonzero(loose)

    @cached_property
    def _mixed(self) -> Ints | None:
        """The display order of regions followed by marks, where there are marks."""
        if not len(self.marks):
            return None
        times = np.concatenate([self.columns.start_ns[self.regions], self.columns.memory.time_ns[self.marks]])
        return np.argsort(times, kind="stable")

    def _shown(self, regions: NDArray[Any], marks: NDArray[Any] | int) -> NDArray[Any]:
        """A column in display order from that of the regions and that of the marks."""
        if self._mixed is None:
            return regions
        filled = np.broadcast_to(np.asarray(marks, regions.dtype), len(self.marks))
        mixed: NDArray[Any] = np.concatenate([regions, filled])[self._mixed]
        return mixed

    @cached_property
    def parent(self) -> Ints:
        parent = tree.compact(tree.splice(self.nesting.parent, ~self.kept), self.kept)
        if self._mixed is None:
            return parent
        place = np.empty_like(self._mixed)
        place[self._mixed] = np.arange(len(place))
        return self._shown(np.where(parent >= 0, place[parent], -1), -1)

    @cached_property
    def share(self) -> Ints:
        return self._shown(self.nesting.share[self.kept], 0)

    @cached_property
    def children(self) -> tree.Children:
        return tree.children_of(self.parent)

    def __len__(self) -> int:
        return len(self.regions) + len(self.marks)

    # Facts in display order

    @cached_property
    def start_ns(self) -> Ints:
        return self._shown(self.columns.start_ns[self.regions], self.columns.memory.time_ns[self.marks])

    @cached_property
    def end_ns(self) -> Ints:
        return self._shown(self.columns.end_ns[self.regions], self.columns.memory.time_ns[self.marks])

    @cached_property
    def total_ns(self) -> Ints:
        return self.end_ns - self.start_ns

    @cached_property
    def kind(self) -> NDArray[np.int32]:
        return self._shown(self.columns.kind[self.regions], self.capture.memory_kind)

    @cached_property
    def is_mark(self) -> NDArray[np.bool_]:
        marks: NDArray[np.bool_] = self.kind == self.capture.memory_kind
        return marks

    @cached_property
    def seq(self) -> Ints:
        return self._shown(self.columns.seq[self.regions], -1)

    @cached_property
    def inputs(self) -> NDArray[np.int32]:
        return self._shown(self.columns.inputs[self.regions], 0)

    @cached_property
    def track(self) -> NDArray[np.int16]:
        return self._shown(self.columns.track[self.regions], self.columns.memory.track[self.marks])

    @cached_property
    def ids(self) -> Ints:
        """Ids in display order; Python functions have 0, `[memory]` events those after all others."""
        plain = ~self.is_python & ~self.is_mark
        first = self.capture.first_id
        marks = first + int(plain.sum()) - 1 + np.cumsum(self.is_mark)
        return np.where(plain, first - 1 + np.cumsum(plain), np.where(self.is_mark, marks, 0))

    @cached_property
    def is_python(self) -> NDArray[np.bool_]:
        return self.of_kinds(lambda kind: kind.category == PYTHON_FUNCTION)

    @cached_property
    def is_backward(self) -> NDArray[np.bool_]:
        """Events of autograd nodes themselves (scope BACKWARD_FUNCTION)."""
        return self.of_kinds(lambda kind: kind.scope == _tap.BACKWARD_FUNCTION)

    def of_kinds(self, test: Any) -> NDArray[np.bool_]:
        """For each event whether its kind passes a test."""
        if not len(self):
            return np.zeros(0, bool)
        table = np.zeros(int(self.kind.max()) + 1, bool)
        for number in np.flatnonzero(np.bincount(self.kind)).tolist():
            table[number] = test(self.kind_of(number))
        return table[self.kind]

    # Self values

    @cached_property
    def self_ns(self) -> Ints:
        return self.without_children(self.total_ns, self.share, self.parent)

    @staticmethod
    def without_children(total: Ints, share: Ints, parent: Ints) -> Ints:
        inner = parent >= 0
        taken = np.bincount(parent[inner], weights=share[inner], minlength=len(total))
        return np.maximum(total - taken.astype(np.int64), 0)

    @cached_property
    def memory(self) -> Ints:
        """Bytes allocated less bytes freed while each event ran, on its own thread."""
        memory, columns = self.columns.memory, self.columns
        usage = np.zeros(len(columns), np.int64)
        if len(memory):
            for number, (low, high) in enumerate(itertools.pairwise(columns.bounds)):
                mine = memory.track == number
                times = memory.time_ns[mine]
                sums = np.concatenate(([0], np.cumsum(memory.nbytes[mine])))
                before = np.searchsorted(times, columns.start_ns[low:high], side="left")
                after = np.searchsorted(times, columns.end_ns[low:high], side="right")
                usage[low:high] = sums[after] - sums[before]
        return self._shown(usage[self.regions], memory.nbytes[self.marks])

    @cached_property
    def self_memory(self) -> Ints:
        inner = self.parent >= 0
        taken = np.bincount(self.parent[inner], weights=self.memory[inner], minlength=len(self))
        return self.memory - taken.astype(np.int64)

    # Inputs and FLOPs

    def input_record(self, kind: int, inputs: int) -> _tap.InputRecord:
        """What the profiler shows of interned inputs."""
        if not inputs:
            return EMPTY_INPUTS
        found = self._inputs.get((kind, inputs))
        if found is None:
            describe = self.kind_of(kind).describe
            key = self.capture.inputs[inputs]
            found = self._inputs[kind, inputs] = describe(key) if describe is not None else key
        return found

    def _count_flops(self, formula: str) -> Ints:
        counts = np.zeros(len(self), np.int64)
        if not (self.capture.options.flops and len(self)):
            return counts
        counted = np.flatnonzero(self.of_kinds(lambda kind: getattr(kind, formula) is not None) & (self.inputs > 0))
        if not len(counted):
            return counts
        width = int(self.inputs.max()) + 1
        pairs, which = np.unique(self.kind[counted] * np.int64(width) + self.inputs[counted], return_inverse=True)
        values = np.zeros(len(pairs), np.int64)
        for place, pair in enumerate(pairs.tolist()):
            kind, inputs = divmod(pair, width)
            values[place] = getattr(self.kind_of(kind), formula)(self.input_record(kind, inputs))
        counts[counted] = values[which]
        return counts

    @cached_property
    def flops(self) -> Ints:
        """FLOPs as torch counts them: few ops, forward only."""
        return self._count_flops("flops")

    @cached_property
    def all_flops(self) -> Ints:
        """FLOPs of every op with a standard formula, backward included."""
        return self._count_flops("all_flops")

    # Forward and backward

    @cached_property
    def backward_root(self) -> Ints:
        """For each event the autograd node it runs in (itself, if it is one), else -1."""
        node = np.where(self.is_backward, np.arange(len(self)), -1)
        if self.is_backward.any():
            outer = tree.splice(self.parent, ~self.is_backward)
            node = np.where(self.is_backward, node, outer)
        return node

    @cached_property
    def _forward(self) -> tuple[Ints, Ints]:
        """Sequence numbers of forward events, sorted, and the first and last event that carries each."""
        forward = np.flatnonzero((self.seq >= 0) & (self.backward_root < 0) & ~self._evaluates)
        return self.seq[forward], forward

    @cached_property
    def _evaluates(self) -> NDArray[np.bool_]:
        return self.of_kinds(lambda kind: kind.name.startswith("autograd::engine::evaluate_function"))

    def _forward_of(self, events: Ints, last: bool) -> Ints:
        """For autograd events the first (or latest-started) forward event with their sequence number, else -1."""
        numbers, forward = self._forward
        order = np.argsort(numbers, kind="stable")
        numbers, forward = numbers[order], forward[order]
        wanted = self.seq[events]
        if last:
            place = np.searchsorted(numbers, wanted, side="right") - 1
        else:
            place = np.searchsorted(numbers, wanted, side="left")
        inside = (place >= 0) & (place < len(numbers))
        found = np.full(len(events), -1, np.int64)
        hit = np.flatnonzero(inside)
        hit = hit[numbers[place[hit]] == wanted[hit]]
        found[hit] = forward[place[hit]]
        return found

    @cached_property
    def forward_thread(self) -> Ints:
        """The logical id of the thread that ran the forward op, for autograd nodes; 0 for everything else."""
        threads = np.zeros(len(self), np.int64)
        nodes = np.flatnonzero((self.is_backward | self._evaluates) & (self.seq >= 0))
        if len(nodes):
            forward = self._forward_of(nodes, last=False)
            indexes = np.array([track.index for track in self.capture.tracks], np.int64)
            # Nodes of ops that ran before the window keep the thread that runs them.
            source = np.where(forward >= 0, forward, nodes)
            threads[nodes] = indexes[self.track[source]]
        return threads

    @cached_property
    def flows(self) -> tuple[Ints, Ints]:
        """Pairs of (forward event, autograd node): where arrows of a trace begin and end, in order of the nodes."""
        nodes = np.flatnonzero(self.is_backward & (self.seq >= 0))
        forward = self._forward_of(nodes, last=True)
        return forward[forward >= 0], nodes[forward >= 0]

    @cached_property
    def stack(self) -> NDArray[np.int32]:
        """The stack of each event; what runs in an autograd node has the stack of its forward op."""
        stacks = self._shown(self.columns.stack[self.regions], 0)
        inside = np.flatnonzero(self.backward_root >= 0)
        if len(inside) and stacks.any():
            nodes, which = np.unique(self.backward_root[inside], return_inverse=True)
            forward = self._forward_of(nodes, last=False)
            forward[self.seq[nodes] < 0] = -1
            borrowed = np.where(forward >= 0, stacks[forward], 0)
            stacks = stacks.copy()
            stacks[inside] = borrowed[which]
        return stacks

    def python_stack(self, place: int) -> list[str]:
        """Names of the Python functions around an event, innermost first."""
        names = []
        outer = int(self.parent[place])
        while outer >= 0:
            if self.is_python[outer]:
                names.append(self.kind_of(int(self.kind[outer])).name)
            outer = int(self.parent[outer])
        return names

    def stack_of(self, place: int) -> list[str]:
        if self.is_python[place]:
            return self.python_stack(place)
        return self.capture.stacks.read(int(self.stack[place]))

    @cached_property
    def python_ids(self) -> Ints:
        """Numbers of the Python functions from 1, in display order; -1 for other events."""
        return np.where(self.is_python, np.cumsum(self.is_python), -1)

    @cached_property
    def python_parents(self) -> Ints:
        """The number of the Python function around each event, -1 where there is none."""
        if not self.is_python.any():
            return np.full(len(self), -1, np.int64)
        outer = tree.splice(self.parent, ~self.is_python)
        return np.where(outer >= 0, self.python_ids[outer], -1)
