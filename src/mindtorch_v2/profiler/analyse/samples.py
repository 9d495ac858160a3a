"""What each op, module or stack took, once for every step: the columns that a comparison of runs works on.

It sums; it does not test or judge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..capture.capture import STEP_PREFIX, Capture
from . import tree
from .metrics import Metrics
from .modules import Modules

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

STEP, CAPTURE, CALL = "step", "capture", "call"
GROUPINGS = ("op", "module", "stack")
# Calls of one group that are looked at where calls are the samples; more tell nothing new.
_MOST_CALLS = 512
_STACK_DEPTH = 3
_LINE = re.compile(r"\(\d+\)")


class NothingRecorded(ValueError):
    """A capture lacks what a grouping needs; the message says how to record it."""


@dataclass
class Usage:
    """What one capture's groups took: rows are steps (or the capture as a whole), columns are groups."""

    self_ns: Floats
    total_ns: Floats
    count: Floats
    memory: Floats
    # Self times of single calls, at most `_MOST_CALLS` of each group, absent ones NaN.
    calls: Floats
    has_steps: bool

    def widened(self, width: int) -> Usage:
        """The same with room for groups that only later captures have."""

        def wider(table: Floats, empty: float) -> Floats:
            more = np.full((len(table), width - table.shape[1]), empty)
            return np.concatenate([table, more], axis=1)

        return Usage(
            wider(self.self_ns, 0),
            wider(self.total_ns, 0),
            wider(self.count, 0),
            wider(self.memory, 0),
            wider(self.calls, np.nan),
            self.has_steps,
        )


def step_intervals(metrics: Metrics, track: NDArray[np.bool_] | None = None) -> tuple[Ints, Ints]:
    """Where the steps of a capture (or of some of its tracks) begin and end, in order."""
    marks = metrics.of_kinds(lambda kind: kind.name.startswith(STEP_PREFIX))
    if track is not None:
        marks &= track[metrics.track]
    places = np.flatnonzero(marks)
    if len(places):
        # Of marks inside a mark only the outer one counts.
        outer = tree.splice(metrics.parent, ~marks)
        places = places[outer[places] < 0]
    start, end = metrics.start_ns[places], metrics.end_ns[places]
    order = np.argsort(start, kind="stable")
    return start[order], end[order]


def _steps_of_events(metrics: Metrics) -> tuple[Ints, int]:
    """For each event the number of its step (-1: outside), and how many steps there are. Processes step on their own."""
    step = np.full(len(metrics), -1, np.int64)
    pids = np.array([track.pid for track in metrics.capture.tracks], np.int64)
    most = 0
    for pid in np.unique(pids).tolist():
        mine = pids == pid
        begin, end = step_intervals(metrics, mine)
        if not len(begin):
            continue
        events = np.flatnonzero(mine[metrics.track])
        place = np.searchsorted(begin, metrics.start_ns[events], side="right") - 1
        inside = (place >= 0) & (metrics.start_ns[events] < end[np.maximum(place, 0)])
        step[events[inside]] = place[inside]
        most = max(most, len(begin))
    return step, most


class Names:
    """Numbers for the names of groups, the same in every capture of a comparison."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def __len__(self) -> int:
        return len(self.numbers)


def _by_op(metrics: Metrics, names: Names) -> Ints:
    table = np.zeros(int(metrics.kind.max()) + 1 if len(metrics) else 1, np.int64)
    shown = ~metrics.is_python & ~metrics.is_mark
    for kind in np.flatnonzero(np.bincount(metrics.kind[shown])).tolist():
        table[kind] = names.number(metrics.kind_of(kind).label)
    return table[metrics.kind]


def _by_module(metrics: Metrics, names: Names) -> Ints:
    modules = Modules(metrics)
    if not modules.calls.any():
        raise NothingRecorded(
            "no module calls in the capture: record with `mindtorch profile` or with profile(with_modules=True)"
        )
    table = np.array([names.number(name) for name in modules.names], np.int64)
    return table[modules.path]


def _by_stack(metrics: Metrics, names: Names) -> Ints:
    stacks = metrics.stack.astype(np.int64)
    if not stacks.any():
        raise NothingRecorded(
            "no stacks in the capture: record with `mindtorch profile --stacks` or with profile(with_stack=True)"
        )
    op_names = Names()
    ops = _by_op(metrics, op_names)
    labels = list(op_names.numbers) or [""]
    width = int(stacks.max()) + 1
    pairs, which = np.unique(ops * width + stacks, return_inverse=True)
    table = np.empty(len(pairs), np.int64)
    for place, pair in enumerate(pairs.tolist()):
        op, stack = divmod(pair, width)
        table[place] = names.number(_stack_name(labels[op], metrics.capture.stacks.read(stack)))
    return table[which]


def _stack_name(op: str, stack: Sequence[str]) -> str:
    """`op < caller < its caller`, without line numbers, which move when code is edited."""
    return " < ".join([op, *(_LINE.sub("", entry, count=1) for entry in stack[:_STACK_DEPTH])])


_GROUPS: dict[str, Callable[[Metrics, Names], Ints]] = {"op": _by_op, "module": _by_module, "stack": _by_stack}


def usage_of(capture: Capture, by: str, names: Names) -> Usage:
    """Sum up a capture by step and group."""
    metrics = Metrics(capture)
    if not len(metrics):
        nothing = np.zeros((0, len(names)))
        return Usage(nothing, nothing, nothing, nothing, nothing, False)
    group = _GROUPS[by](metrics, names)
    shown, parent, self_ns = ~metrics.is_python & ~metrics.is_mark, metrics.parent, metrics.self_ns
    if metrics.is_python.any():
        # Times of hidden Python functions belong to the shown event around them.
        parent = tree.splice(parent, metrics.is_python)
        self_ns = Metrics.without_children(metrics.total_ns, np.where(shown, metrics.total_ns, 0), parent)
    step, steps = _steps_of_events(metrics)
    if not steps:
        step[:] = 0
    kept = np.flatnonzero(shown & (step >= 0))
    rows, width = max(steps, 1), len(names)
    cell = step[kept] * width + group[kept]

    def table(values: NDArray[np.generic] | None) -> Floats:
        weights = None if values is None else values[kept]
        return np.bincount(cell, weights=weights, minlength=rows * width).astype(np.float64).reshape(rows, width)

    calls = _calls(group[kept], self_ns[kept], width)
    return Usage(table(self_ns), table(metrics.total_ns), table(None), table(metrics.self_memory), calls, steps > 0)


def _calls(group: Ints, self_ns: Ints, width: int) -> Floats:
    """Self times of single calls, a column a group; of many calls, evenly spaced ones."""
    count = np.bincount(group, minlength=width)
    order = np.argsort(group, kind="stable")
    first = np.concatenate(([0], np.cumsum(count)[:-1]))
    place = np.arange(len(group)) - first[group[order]]
    stride = np.maximum(1, -(-count // _MOST_CALLS))[group[order]]
    taken = place % stride == 0
    rows = (place // stride)[taken]
    table = np.full((int(rows.max()) + 1 if len(rows) else 0, width), np.nan)
    table[rows, group[order][taken]] = self_ns[order][taken]
    return table
