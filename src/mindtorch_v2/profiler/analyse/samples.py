"""What each op, module or stack took in every step, on the CPU or on devices: the columns that a comparison of runs works on.

It sums; it does not test or judge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..capture.capture import STEP_PREFIX, Capture
from . import tree
from .devices.operators import launched_time
from .devices.work import Work
from .metrics import Metrics
from .modules import OUTSIDE, Modules

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

STEP, CAPTURE, CALL = "step", "capture", "call"
GROUPINGS = ("op", "module", "stack")
# Calls of one group that are looked at where calls are the samples; more tell nothing new.
_MOST_CALLS = 512
_STACK_DEPTH = 3
# What work on devices that no op asked for is called.
NO_OP = "(no operator)"
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


def steps_of_events(metrics: Metrics) -> tuple[Ints, int]:
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


def has_device_work(capture: Capture) -> bool:
    """Whether something ran on a device."""
    return any(track.device_type for track in capture.tracks) and len(Work(Metrics(capture))) > 0


def kernels_by_op(capture: Capture) -> dict[str, list[tuple[str, float]]]:
    """By op the kernels that it launched, with the nanoseconds of each, longest first."""
    work = Work(Metrics(capture))
    kinds = np.where(work.op >= 0, work.metrics.kind[work.op], -1)
    pairs, which = np.unique(np.stack([kinds, work.kind], axis=1), axis=0, return_inverse=True)
    times = np.bincount(which.reshape(-1), weights=work.total_ns, minlength=len(pairs))
    found: dict[str, list[tuple[str, float]]] = {}
    for number in np.argsort(-times, kind="stable").tolist():
        op, kernel = pairs[number].tolist()
        name = work.metrics.kind_of(op).label if op >= 0 else NO_OP
        found.setdefault(name, []).append((work.metrics.kind_of(kernel).name, float(times[number])))
    return found


def usage_of(capture: Capture, by: str, names: Names, on_device: bool = False) -> Usage:
    """Sum up a capture by step and group: time on the CPU, or that of devices by the ops that asked for it."""
    metrics = Metrics(capture)
    if not len(metrics):
        nothing = np.zeros((0, len(names)))
        return Usage(nothing, nothing, nothing, nothing, nothing, False)
    if on_device:
        return _device_usage(Work(metrics), by, names)
    group = _GROUPS[by](metrics, names)
    shown, parent, self_ns = ~metrics.is_python & ~metrics.is_mark, metrics.parent, metrics.self_ns
    if metrics.is_python.any():
        # Times of hidden Python functions belong to the shown event around them.
        parent = tree.splice(parent, metrics.is_python)
        self_ns = Metrics.without_children(metrics.total_ns, np.where(shown, metrics.total_ns, 0), parent)
    step, steps = steps_of_events(metrics)
    if not steps:
        step[:] = 0
    kept = np.flatnonzero(shown & (step >= 0))
    figures = (self_ns[kept], metrics.total_ns[kept], metrics.self_memory[kept])
    return _summed(step[kept], group[kept], figures, steps, len(names))


def _device_usage(work: Work, by: str, names: Names) -> Usage:
    """Ops that asked for work on devices with the time of it, and what nobody asked for as a group of its own."""
    metrics = work.metrics
    tied, loose = work.op >= 0, np.flatnonzero(work.op < 0)
    ops = np.unique(work.op[tied])
    local = Names()
    used, group = np.unique(_GROUPS[by](metrics, local)[ops], return_inverse=True)
    labels = list(local.numbers)
    group = np.array([names.number(labels[number]) for number in used.tolist()], np.int64)[group.reshape(-1)]
    own = np.bincount(work.op[tied], weights=work.total_ns[tied], minlength=len(metrics))[ops]
    total = launched_time(work).of_events(metrics)[ops]
    step, steps = steps_of_events(metrics)
    if not steps:
        step[:] = 0
    memory = metrics.device_memory[ops]
    nobody = np.full(len(loose), names.number(OUTSIDE if by == "module" else NO_OP)) if len(loose) else loose
    lost = work.total_ns[loose]
    rows = np.concatenate([step[ops], np.maximum(step[work.place[loose]], 0)])
    figures = (np.concatenate(pair) for pair in ((own, lost), (total, lost), (memory, 0 * lost)))
    group, kept = np.concatenate([group, nobody]), rows >= 0
    own, total, memory = (column[kept] for column in figures)
    return _summed(rows[kept], group[kept], (own, total, memory), steps, len(names))


def _summed(step: Ints, group: Ints, figures: tuple[NDArray[Any], ...], steps: int, width: int) -> Usage:
    """Self times, total times and bytes of calls as tables by step and group."""
    rows = max(steps, 1)
    cell = step * width + group

    def table(values: NDArray[Any] | None) -> Floats:
        return np.bincount(cell, weights=values, minlength=rows * width).astype(np.float64).reshape(rows, width)

    self_ns, total_ns, memory = figures
    return Usage(table(self_ns), table(total_ns), table(None), table(memory), _calls(group, self_ns, width), steps > 0)


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
