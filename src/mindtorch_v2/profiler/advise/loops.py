"""Loops in Python over rows or elements of tensors, found by what they leave behind: one line that indexes, unpacks or
reads tensors again and again while a function runs once. It finds and measures them; it does not judge."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..analyse import tree
from ..analyse.modules import is_module
from .findings import Run
from .origins import Frame

Ints = NDArray[np.int64]

READS = frozenset(("aten::item", "aten::is_nonzero", "aten::_local_scalar_dense"))
_INDEXING = frozenset(("aten::select", "aten::index", "aten::index_put_", "aten::narrow"))
_UNPACKING = "aten::unbind"
# Steps of a recurrence depend on each other; no op takes them all at once.
_RECURRENT = ("cell", "rnn", "gru", "lstm")
_PRODUCTS = frozenset(("aten::mm", "aten::addmm", "aten::linear", "aten::matmul", "aten::bmm", "aten::conv2d"))
_LEAST_TURNS = 24
# Where ops take longer than this on average, what they do counts, not how often they are called.
_LONG_OP_NS = 30_000


@dataclass
class Loop:
    """A loop by the lines that run in it: how often it turned, where in time it ran, and what it did."""

    function: str
    lines: dict[Frame, int] = field(default_factory=dict)
    spans: list[tuple[int, int]] = field(default_factory=list)
    turns: int = 0
    reads: int = 0
    track: int = 0
    first_event: int = -1
    warm_until: int = 0

    @property
    def time_ns(self) -> int:
        """All of them, at the length that those after warming up have."""
        usual = [end - start for start, end in self.spans if start >= self.warm_until]
        return int(np.mean(usual) * len(self.spans)) if usual else sum(end - start for start, end in self.spans)


def find_loops(run: Run) -> list[Loop]:
    """The loops of the program, the longest first; those inside another one are a part of it."""
    if not run.code.is_users.any():
        return []
    kept: list[Loop] = []
    for loop in sorted(_joined(run, _repeats(run)), key=lambda one: -one.time_ns):
        around = next((other for other in kept if _is_inside(loop, other)), None)
        if around is not None:
            around.lines.update(loop.lines)
            around.reads += loop.reads
        elif _is_small_work(run, loop):
            kept.append(loop)
    return kept


@dataclass
class _Repeat:
    """A line that ran often in one call of a function, within one step."""

    activation: int
    frame: Frame
    turns: int
    reads: int
    start: int
    end: int
    event: int


def _repeats(run: Run) -> list[_Repeat]:
    metrics, code = run.metrics, run.code
    ops = np.flatnonzero(run.called_by_user & (code.activation >= 0) & (code.node > 0))
    if not len(ops):
        return []
    group = code.activation[ops] * (len(run.parts.bounds()[0]) + 1) + run.step_of[ops] + 1
    _, group = np.unique(group, return_inverse=True)
    kind = metrics.kind[ops].astype(np.int64)
    # A turn is one call of one op from one line.
    keys = (group * (int(code.node.max()) + 1) + code.node[ops]) * (int(kind.max()) + 1) + kind
    _, first, which, count = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    which = which.reshape(-1)
    reads = metrics.of_kinds(lambda kind: kind.name in READS)[ops]
    telling = reads | metrics.of_kinds(lambda kind: kind.name in _INDEXING)[ops]
    unpacked = np.zeros(int(group.max()) + 1, bool)
    unpacked[group[metrics.of_kinds(lambda kind: kind.name == _UNPACKING)[ops]]] = True
    often = (count >= _LEAST_TURNS) & (telling[first] | unpacked[group[first]])
    start = np.full(len(count), np.iinfo(np.int64).max)
    end = np.zeros(len(count), np.int64)
    np.minimum.at(start, which, metrics.start_ns[ops])
    np.maximum.at(end, which, metrics.end_ns[ops])
    found = []
    for place in np.flatnonzero(often).tolist():
        event = int(ops[first[place]])
        frame = code.tree.frames[int(code.node[event])]
        if frame is not None:
            turns = int(count[place])
            row = (turns, turns if reads[first[place]] else 0, int(start[place]), int(end[place]), event)
            found.append(_Repeat(int(code.activation[event]), frame, *row))
    return found


def _joined(run: Run, repeats: list[_Repeat]) -> list[Loop]:
    """Lines that turn at the same time in one call are one loop, in every call of that function."""
    metrics = run.metrics
    together: dict[tuple[int, Frame], tuple[int, Frame]] = {}

    def root(key: tuple[int, Frame]) -> tuple[int, Frame]:
        while together.setdefault(key, key) != key:
            key = together[key]
        return key

    by_call: dict[int, list[_Repeat]] = defaultdict(list)
    for repeat in repeats:
        by_call[repeat.activation].append(repeat)
    spans: list[tuple[tuple[int, Frame], int, int, list[_Repeat]]] = []
    for activation, mine in by_call.items():
        kind = int(metrics.kind[activation])
        mine.sort(key=lambda repeat: repeat.start)
        run_of: list[_Repeat] = []
        reach = -1
        for repeat in mine:
            if repeat.start >= reach and run_of:
                spans.append(((kind, run_of[0].frame), run_of[0].start, reach, run_of))
                run_of, reach = [], -1
            run_of.append(repeat)
            reach = max(reach, repeat.end)
            together[root((kind, repeat.frame))] = root((kind, run_of[0].frame))
        spans.append(((kind, run_of[0].frame), run_of[0].start, reach, run_of))
    warm = run.warm_until()
    loops: dict[tuple[int, Frame], Loop] = {}
    for key, start, end, rows in spans:
        loop = loops.setdefault(
            root(key), Loop(metrics.kind_of(key[0]).name, first_event=rows[0].event, warm_until=warm)
        )
        loop.track = int(metrics.track[rows[0].event])
        loop.spans.append((start, end))
        loop.turns += rows[0].turns
        loop.reads += sum(row.reads for row in rows)
        for frame in {row.frame for row in rows}:
            most = max(row.turns for row in rows if row.frame == frame)
            loop.lines[frame] = loop.lines.get(frame, 0) + most
    return list(loops.values())


def _is_inside(loop: Loop, other: Loop) -> bool:
    if loop.track != other.track:
        return False
    starts = np.array([start for start, _ in sorted(other.spans)])
    ends = np.array([end for _, end in sorted(other.spans)])
    begin = np.array([start for start, _ in loop.spans])
    place = np.searchsorted(starts, begin, side="right") - 1
    inside = (place >= 0) & (begin < ends[np.maximum(place, 0)])
    return bool(inside.mean() > 0.5)


def events_in(run: Run, loop: Loop) -> NDArray[np.bool_]:
    """What runs while the loop does, on its thread."""
    metrics = run.metrics
    spans = sorted(loop.spans)
    starts = np.array([start for start, _ in spans])
    ends = np.array([end for _, end in spans])
    place = np.searchsorted(starts, metrics.start_ns, side="right") - 1
    inside = (place >= 0) & (metrics.end_ns <= ends[np.maximum(place, 0)]) & (metrics.track == loop.track)
    found: NDArray[np.bool_] = inside & ~metrics.is_mark
    return found


def _is_small_work(run: Run, loop: Loop) -> bool:
    """Whether a loop does little in each turn that an op could do for all turns at once."""
    metrics = run.metrics
    inside = events_in(run, loop)
    is_op = run.code.is_op
    top = inside & is_op & (tree.splice(metrics.parent, ~is_op) < 0)
    names = {metrics.kind_of(kind).name.lower() for kind in np.unique(metrics.kind[inside]).tolist()}
    if any(word in name for name in names for word in _RECURRENT if name.startswith(("nn.module", "aten::"))):
        return False
    modules = metrics.of_kinds(is_module)
    in_module = bool((tree.splice(metrics.parent, ~modules)[loop.first_event]) >= 0)
    calls_modules = bool((inside & modules).sum() >= loop.turns)
    # A loop in a module whose turns multiply matrices is most often a recurrence, one that decides by what it read a game.
    if calls_modules and (in_module or loop.reads):
        return False
    if in_module and names & _PRODUCTS and _carries(run, loop):
        return False
    return bool(top.any()) and float(metrics.total_ns[top].mean()) < _LONG_OP_NS


def _carries(run: Run, loop: Loop) -> bool:
    return run.sources.carries(max(loop.lines, key=lambda frame: loop.lines[frame]))


def backward_ns(run: Run, loop: Loop) -> int:
    """What the backward passes of the loop's lines take."""
    metrics, code, slices = run.metrics, run.code, run.code.slices
    frames = set(loop.lines)
    under = np.zeros(len(code.tree.parent), bool)
    for node in range(1, len(under)):
        under[node] = code.tree.frames[node] in frames or under[code.tree.parent[node]]
    mine = under[slices.node] & ((metrics.backward_root[slices.owner] >= 0) | metrics.is_evaluation[slices.owner])
    return int(slices.length_ns[mine].sum())
