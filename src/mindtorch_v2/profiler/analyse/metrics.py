"""What is derived from columns and nesting: self times, memory, FLOPs, forward threads and stacks per event.

Everything is an array over the events in display order (by start, outer first) and is computed when first asked for.
It does not make event objects.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core import tap
from ..capture.capture import GPU_USER_ANNOTATION, PYTHON_FUNCTION, USER_ANNOTATION, Capture, Kind
from ..record.config import DeviceType
from . import tree
from .columns import EventColumns, MemoryColumns, columns_of, memory_of
from .device_links import DeviceLinks, device_links

Ints = NDArray[np.int64]

_DEVICE_NAMES = {int(DeviceType.PrivateUse1): "privateuseone"}
# Stacks deeper than this are cut, and paths of frames end there: those of events nested in each other grow as a square.
DEEPEST_STACK = 1000
EMPTY_INPUTS = tap.InputRecord([], [], [], [])


def is_annotation(kind: Kind) -> bool:
    """Whether it is the user's own region, or what of it ran on a device."""
    return kind.category in (USER_ANNOTATION, GPU_USER_ANNOTATION)


class _Shown(NamedTuple):
    """What is shown, in display order."""

    columns: EventColumns
    parent: Ints
    # Shares of the parents' time; None where they are the lengths.
    share: Ints | None
    # Numbers from 1: of Python functions among themselves, of all other events, marks last.
    number: Ints
    # A row each: External id and correlation id; None where there are no devices.
    ties: Ints | None
    # Bytes of marks; empty where there are no marks.
    nbytes: Ints
    # Whether every two events of a thread are disjoint or one inside the other, and how many echoes are left out.
    nests: bool
    merged: int


class Metrics:
    """Analysis of one capture. Rows are events as shown: `[memory]` marks included, lone echoes merged away.

    With `echoes` those stay, as traces have it.
    """

    def __init__(self, capture: Capture, echoes: bool = False) -> None:
        self.capture = capture
        self._echoes = echoes
        self._inputs: dict[tuple[int, int], tap.InputRecord] = {}

    def kind_of(self, number: int) -> Kind:
        found: Kind = self.capture.kinds[number]
        return found

    # Nesting

    @cached_property
    def memory_events(self) -> MemoryColumns:
        return memory_of(self.capture)

    @cached_property
    def _shown(self) -> _Shown:
        regions = columns_of(self.capture)
        bounds = [0, *itertools.accumulate(len(track) for track in self.capture.tracks)]
        start, end = regions.start_ns, regions.end_ns
        parts = [tree.nest(start[low:high], end[low:high]) for low, high in itertools.pairwise(bounds)]
        nests = all(part.share is None for part in parts)
        ties = self._ties()
        if ties is not None:
            # Work on a device is a part of what launched it, not of what its stream does around it.
            parts = [
                part._replace(parent=np.full_like(part.parent, -1)) if track.device_type else part
                for part, track in zip(parts, self.capture.tracks)
            ]
        order, parent, share = tree.merge_threads(parts, bounds, start, end)
        in_order = bool((order[1:] > order[:-1]).all())
        columns = regions if in_order else regions.take(order)
        ties = None if ties is None else ties[order]
        number = self._numbers(columns.kind)
        kept = ~self._lone_echoes(parent, columns.kind)
        merged = 0 if self._echoes else int((~kept).sum())
        if merged:
            parent = tree.compact(tree.splice(parent, ~kept), kept)
            columns, share, number = columns.take(kept), None if share is None else share[kept], number[kept]
            ties = None if ties is None else ties[kept]
        return self._with_marks(_Shown(columns, parent, share, number, ties, np.zeros(0, np.int64), nests, merged))

    def _ties(self) -> Ints | None:
        tracks = self.capture.tracks
        if not any(track.device_type for track in tracks):
            return None
        parts = (
            [np.zeros(len(track), np.int64) if column is None else column for track, column in zip(tracks, columns)]
            for columns in ([track.link for track in tracks], [track.correlation for track in tracks])
        )
        return np.stack([np.concatenate(part) for part in parts], axis=1)

    def _lone_echoes(self, parent: Ints, kinds: NDArray[np.int32]) -> NDArray[np.bool_]:
        return tree.lone_echoes(parent, self._names(kinds)[kinds])

    @property
    def echoes(self) -> NDArray[np.bool_]:
        """Which rows are the only child of an event of the same name."""
        return self._lone_echoes(self.parent, self.kind)

    def _numbers(self, kinds: NDArray[np.int32]) -> Ints:
        table = self._kind_table(kinds, lambda kind: kind.category == PYTHON_FUNCTION)
        if not table.any():
            return np.arange(1, len(kinds) + 1)
        python = table[kinds]
        functions = np.cumsum(python)
        return np.where(python, functions, np.arange(1, len(kinds) + 1) - functions)

    def whole(self) -> Metrics:
        """The same with lone echoes in it, as traces have it."""
        return Metrics(self.capture, echoes=True) if self._shown.merged else self

    def _names(self, kinds: NDArray[np.int32]) -> Ints:
        """A number per name for each event kind number; kinds of the same label share it."""
        present = np.flatnonzero(np.bincount(kinds))
        table = np.zeros(int(present[-1]) + 1 if len(present) else 1, np.int64)
        numbers: dict[str, int] = {}
        for number in present.tolist():
            table[number] = numbers.setdefault(self.kind_of(number).label, len(numbers))
        return table

    def _with_marks(self, shown: _Shown) -> _Shown:
        """Add what happened to memory outside of every region, as events without length."""
        columns, share = shown.columns, shown.share
        marks = self._marks(columns)
        count = len(marks)
        if not count:
            return shown
        memory = self.memory_events
        time, nothing = memory.time_ns[marks], np.zeros(count, np.int32)
        kinds = np.full(count, self.capture.memory_kind, np.int32)
        rows = EventColumns(time, time, kinds, np.full(count, -1), nothing, nothing, memory.track[marks])
        everything = columns.joined(rows)
        order = np.argsort(everything.start_ns, kind="stable")
        parent = tree.renumbered(np.concatenate([shown.parent, np.full(count, -1)]), order)
        if share is not None:
            share = np.concatenate([share, np.zeros(count, np.int64)])[order]
        number = np.concatenate([shown.number, self._last_number(shown) + np.arange(1, count + 1)])[order]
        nbytes = np.concatenate([np.zeros(len(columns), np.int64), memory.nbytes[marks]])[order]
        ties = None if shown.ties is None else np.concatenate([shown.ties, np.zeros((count, 2), np.int64)])[order]
        return _Shown(everything.take(order), parent, share, number, ties, nbytes, shown.nests, shown.merged)

    def _last_number(self, shown: _Shown) -> int:
        """How many events there are that are no Python functions, echoes included."""
        kinds = columns_of(self.capture).kind
        return len(kinds) - int(self._kind_table(kinds, lambda kind: kind.category == PYTHON_FUNCTION)[kinds].sum())

    def _marks(self, columns: EventColumns) -> Ints:
        """Places in the memory columns of what happened outside of every region of its thread."""
        memory = self.memory_events
        loose = np.zeros(len(memory), bool)
        for number in range(len(self.capture.tracks) if len(memory) else 0):
            mine, regions = np.flatnonzero(memory.track == number), columns.track == number
            times = memory.time_ns[mine]
            begun = np.searchsorted(columns.start_ns[regions], times, side="right")
            ended = np.searchsorted(np.sort(columns.end_ns[regions]), times, side="left")
            loose[mine] = begun == ended
        return np.flatnonzero(loose)

    @property
    def columns(self) -> EventColumns:
        return self._shown.columns

    @property
    def parent(self) -> Ints:
        return self._shown.parent

    @property
    def share(self) -> Ints:
        share = self._shown.share
        return self.total_ns if share is None else share

    @cached_property
    def children(self) -> tree.Children:
        return tree.children_of(self.parent)

    def __len__(self) -> int:
        return len(self.columns)

    # Facts in display order

    @property
    def start_ns(self) -> Ints:
        return self.columns.start_ns

    @property
    def end_ns(self) -> Ints:
        return self.columns.end_ns

    @cached_property
    def total_ns(self) -> Ints:
        return self.end_ns - self.start_ns

    @property
    def kind(self) -> NDArray[np.int32]:
        return self.columns.kind

    @property
    def seq(self) -> Ints:
        return self.columns.seq

    @property
    def inputs(self) -> NDArray[np.int32]:
        return self.columns.inputs

    @property
    def track(self) -> NDArray[np.int16]:
        return self.columns.track

    @cached_property
    def is_mark(self) -> NDArray[np.bool_]:
        marks: NDArray[np.bool_] = self.kind == self.capture.memory_kind
        return marks

    @cached_property
    def ids(self) -> Ints:
        """Ids in display order; Python functions have 0, `[memory]` events those after all others."""
        return np.where(self.is_python, 0, self.capture.first_id - 1 + self._shown.number)

    @cached_property
    def is_python(self) -> NDArray[np.bool_]:
        return self.of_kinds(lambda kind: kind.category == PYTHON_FUNCTION)

    @cached_property
    def is_function(self) -> NDArray[np.bool_]:
        """Python functions proper: what averages leave out unless asked."""
        return self.of_kinds(lambda kind: kind.is_function)

    @cached_property
    def is_backward(self) -> NDArray[np.bool_]:
        """Events of autograd nodes themselves (scope BACKWARD_FUNCTION)."""
        return self.of_kinds(lambda kind: kind.scope == tap.BACKWARD_FUNCTION)

    def of_kinds(self, test: Any, dtype: Any = bool) -> NDArray[Any]:
        """For each event whether its kind passes a test, or what number it gives."""
        return self._kind_table(self.kind, test, dtype)[self.kind]

    def _kind_table(self, kinds: NDArray[np.int32], test: Any, dtype: Any = bool) -> NDArray[Any]:
        """By number of a kind, what a test says of it; good for the kinds that are given."""
        present = np.flatnonzero(np.bincount(kinds))
        table = np.zeros(int(present[-1]) + 1 if len(present) else 0, dtype)
        for number in present.tolist():
            table[number] = test(self.kind_of(number))
        return table

    @property
    def nests(self) -> bool:
        """Whether every two events of a thread are disjoint or one inside the other."""
        return self._shown.nests

    # Self values

    @cached_property
    def self_ns(self) -> Ints:
        return self.without_children(self.total_ns, self.share, self.parent)

    @staticmethod
    def without_children(total: Ints, share: Ints, parent: Ints) -> Ints:
        inner = parent >= 0
        if not inner.any():
            return total
        taken = np.bincount(parent[inner], weights=share[inner], minlength=len(total))
        return np.maximum(total - taken.astype(np.int64), 0)

    @cached_property
    def memory(self) -> Ints:
        """Bytes allocated less bytes freed while each event ran, on its own thread."""
        memory = self.memory_events
        if not len(memory):
            return np.broadcast_to(np.int64(0), len(self))
        mine = [memory.track == number for number in range(len(self.capture.tracks))]
        usage = self._usage([(memory.time_ns[rows], memory.nbytes[rows]) for rows in mine])
        nbytes = self._shown.nbytes
        return np.where(self.is_mark, nbytes, usage) if len(nbytes) else usage

    def _usage(self, moments: list[tuple[Ints, Ints]]) -> Ints:
        """Sums of bytes while each event ran, from the times and bytes of its thread."""
        usage = np.zeros(len(self), np.int64)
        for number, (times, nbytes) in enumerate(moments):
            events = self.track == number
            sums = np.concatenate(([0], np.cumsum(nbytes)))
            before = np.searchsorted(times, self.start_ns[events], side="left")
            after = np.searchsorted(times, self.end_ns[events], side="right")
            usage[events] = sums[after] - sums[before]
        return usage

    @cached_property
    def self_memory(self) -> Ints:
        if not len(self.memory_events):
            return self.memory
        inner = self.parent >= 0
        taken = np.bincount(self.parent[inner], weights=self.memory[inner], minlength=len(self))
        return self.memory - taken.astype(np.int64)

    # Devices

    @cached_property
    def use_device(self) -> str | None:
        """The kind of devices that something ran on, as torch names it."""
        found = next((track.device_type for track in self.capture.tracks if track.device_type), 0)
        return _DEVICE_NAMES.get(found, DeviceType(found).name.lower()) if found else None

    @cached_property
    def is_device(self) -> NDArray[np.bool_]:
        """Which events ran on a device."""
        devices = np.array([track.device_type != 0 for track in self.capture.tracks], bool)
        return devices[self.track]

    @property
    def ties(self) -> tuple[Ints, Ints]:
        """External id and correlation id of each event, 0 for none."""
        ties = self._shown.ties
        return (self._nothing, self._nothing) if ties is None else (ties[:, 0], ties[:, 1])

    @cached_property
    def links(self) -> DeviceLinks:
        """What the work of devices is tied to."""
        return device_links(self)

    @cached_property
    def launcher(self) -> Ints:
        """For each piece of work on a device the op, or the user's region, that asked for it; -1 for everything else."""
        return self.links.asked if self.use_device else np.full(len(self), -1, np.int64)

    @cached_property
    def launched(self) -> tree.Children:
        """The other way round: the work on devices that each event launched."""
        return tree.children_of(self.launcher)

    @cached_property
    def self_device_ns(self) -> Ints:
        """Time on devices: of an event there its length, of another one what it launched itself."""
        work = np.flatnonzero(self.launcher >= 0)
        lengths = self.total_ns[work].astype(np.float64)
        own = np.bincount(self.launcher[work], weights=lengths, minlength=len(self)).astype(np.int64)
        return np.where(self.is_device, self.total_ns, own)

    @cached_property
    def device_ns(self) -> Ints:
        """The same, with what the events inside launched."""
        total = np.where(self.is_device, self.total_ns, 0)
        work = np.flatnonzero(self.launcher >= 0)
        around = self.launcher[work]
        while len(work):
            np.add.at(total, around, self.total_ns[work])
            around = self.parent[around]
            work, around = work[around >= 0], around[around >= 0]
        return total

    @cached_property
    def device_memory(self) -> Ints:
        """Bytes allocated on devices less bytes freed there while each event ran, by its own thread."""
        rows = [track.device_memory for track in self.capture.tracks]
        if all(part is None for part in rows):
            return np.broadcast_to(np.int64(0), len(self))
        nothing = np.zeros((0, 2), np.int64)
        parts = [nothing if part is None else part for part in rows]
        return np.where(self.is_mark, 0, self._usage([(part[:, 0], part[:, 1]) for part in parts]))

    @cached_property
    def external_ids(self) -> Ints:
        """Ids as traces tell them: work on a device has that of the event which launched it."""
        return np.where(self.launcher >= 0, self.ids[self.launcher], self.ids) if self.use_device else self.ids

    # Inputs and FLOPs

    def input_record(self, kind: int, inputs: int) -> tap.InputRecord:
        """What the profiler shows of interned inputs."""
        if not inputs:
            return EMPTY_INPUTS
        found = self._inputs.get((kind, inputs))
        if found is None:
            describe = self.kind_of(kind).describe
            key = self.capture.inputs[inputs]
            found = self._inputs[kind, inputs] = describe(key) if describe is not None else key
        return found

    @property
    def _nothing(self) -> Ints:
        return np.broadcast_to(np.int64(0), len(self))

    def _count_flops(self, formula: str) -> Ints:
        if not len(self):
            return self._nothing
        counts = np.zeros(len(self), np.int64)
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
        return self._count_flops("flops") if self.capture.options.flops else self._nothing

    @cached_property
    def all_flops(self) -> Ints:
        """FLOPs of every op with a standard formula, backward included, each operation once."""
        return self.work if self.capture.options.flops else self._nothing

    @cached_property
    def work(self) -> Ints:
        """The same, whether or not it was asked for: shapes are all it takes."""
        return tree.own_counts(self._count_flops("all_flops"), self.parent)

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
        forward = np.flatnonzero((self.seq >= 0) & (self.backward_root < 0) & ~self.is_evaluation)
        return self.seq[forward], forward

    @cached_property
    def is_evaluation(self) -> NDArray[np.bool_]:
        """Events of the engine around its nodes."""
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
    def forward_op(self) -> Ints:
        """For each event that runs in an autograd node, or in the engine's call around one, the forward op; else -1."""
        engine = (self.is_backward | self.is_evaluation) & (self.seq >= 0)
        nodes = np.flatnonzero(engine)
        forward = np.full(len(self) + 1, -1, np.int64)
        forward[nodes] = self._forward_of(nodes, last=True)
        return forward[np.where(engine, np.arange(len(self)), tree.splice(self.parent, ~engine))]

    @cached_property
    def forward_thread(self) -> Ints:
        """The logical id of the thread that ran the forward op, for autograd nodes; 0 for everything else."""
        threads = np.zeros(len(self), np.int64)
        nodes = np.flatnonzero((self.is_backward | self.is_evaluation) & (self.seq >= 0))
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
        """The stack of each event. What runs in an autograd node has the stack of its forward op; where there is none, as
        for the node of a leaf, its own, which leads to the call of the engine."""
        stacks = self.columns.stack
        inside = np.flatnonzero(self.backward_root >= 0)
        if len(inside) and stacks.any():
            nodes, which = np.unique(self.backward_root[inside], return_inverse=True)
            forward = self._forward_of(nodes, last=False)
            forward[self.seq[nodes] < 0] = -1
            borrowed = np.where(forward >= 0, stacks[forward], 0)[which]
            stacks = stacks.copy()
            stacks[inside] = np.where(borrowed, borrowed, stacks[inside])
        return stacks

    def python_stack(self, place: int) -> list[str]:
        """Names of the Python functions around an event, innermost first."""
        names: list[str] = []
        around, kinds = self._python_chain
        outer = around[place]
        while outer >= 0 and len(names) < DEEPEST_STACK:
            names.append(self.kind_of(kinds[outer]).name)
            outer = around[outer]
        return names

    @cached_property
    def _python_chain(self) -> tuple[list[int], list[int]]:
        """By place: that of the Python function around the event, and the event's kind."""
        return self._python_outer.tolist(), self.kind.tolist()

    def stack_of(self, place: int) -> list[str]:
        if self.is_python[place]:
            return self.python_stack(place)
        return self.capture.stacks.read(int(self.stack[place]))

    @cached_property
    def python_ids(self) -> Ints:
        """Numbers of the Python functions from 1, in display order; -1 for other events."""
        return np.where(self.is_python, self._shown.number, -1)

    @cached_property
    def python_parents(self) -> Ints:
        """The number of the Python function around each event, -1 where there is none."""
        if not self.is_python.any():
            return np.full(len(self), -1, np.int64)
        outer = self._python_outer
        return np.where(outer >= 0, self.python_ids[outer], -1)

    @cached_property
    def _python_outer(self) -> Ints:
        """The place of the Python function around each event, -1 where there is none."""
        return tree.splice(self.parent, ~self.is_python)
