"""Operators with their time on the CPU and on devices side by side."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..metrics import Metrics
from ..modules import Modules
from .intervals import Ints
from .work import Work


class OperatorTime(NamedTuple):
    """An op by name, in nanoseconds: its own, and with the ops in it. What calls in calls take counts once."""

    name: str
    calls: int
    cpu_self: int
    cpu_total: int
    device_self: int
    device_total: int


def operator_times(work: Work) -> list[OperatorTime]:
    """A row for each name of an op, by their own time on devices and then on the CPU, longest first."""
    ops, metrics = work.ops, work.metrics
    own = np.bincount(work.op[work.op >= 0], weights=work.total_ns[work.op >= 0], minlength=len(metrics))
    launched = launched_time(work)
    rows = []
    for name, calls in ops.by_name:
        places = ops.place[calls]
        open_by_track = ops.open_by_track(calls)
        rows.append(
            OperatorTime(
                name,
                len(calls),
                int(metrics.self_ns[places].sum()),
                sum(stretches.length for _, stretches in open_by_track),
                int(own[places].sum()),
                sum(launched.within(track, stretches.start, stretches.end) for track, stretches in open_by_track),
            )
        )
    return sorted(rows, key=lambda row: (-row.device_self, -row.cpu_self, row.name))


class LaunchedTime:
    """Time on devices by the thread and the moment that it was launched."""

    def __init__(self, track: Ints, time_ns: Ints, length_ns: Ints) -> None:
        self._of_track: dict[int, tuple[Ints, Ints]] = {}
        for number in np.unique(track).tolist():
            mine = np.flatnonzero(track == number)
            mine = mine[np.argsort(time_ns[mine], kind="stable")]
            self._of_track[number] = time_ns[mine], np.concatenate(([0], np.cumsum(length_ns[mine])))

    def within(self, track: int, start_ns: Ints, end_ns: Ints) -> int:
        """What was launched by a thread in these stretches, their ends included."""
        if track not in self._of_track:
            return 0
        times, sums = self._of_track[track]
        before, after = np.searchsorted(times, start_ns, side="left"), np.searchsorted(times, end_ns, side="right")
        return int((sums[after] - sums[before]).sum())

    def of_events(self, metrics: Metrics) -> Ints:
        """What was launched by its own thread while each event was open."""
        found = np.zeros(len(metrics), np.int64)
        for track, (times, sums) in self._of_track.items():
            mine = metrics.track == track
            before = np.searchsorted(times, metrics.start_ns[mine], side="left")
            found[mine] = sums[np.searchsorted(times, metrics.end_ns[mine], side="right")] - sums[before]
        return found


def launched_time(work: Work) -> LaunchedTime:
    by = np.where(work.launch >= 0, work.launch, work.op)
    tied = np.flatnonzero(by >= 0)
    return LaunchedTime(work.metrics.track[by[tied]].astype(np.int64), work.asked_ns[tied], work.total_ns[tied])


class ModuleTime(NamedTuple):
    """A module by path, in nanoseconds: what its own code and ops took, and with the modules in it; backward included."""

    name: str
    calls: int
    cpu_self: int
    cpu_total: int
    device_self: int
    device_total: int


def module_times(work: Work) -> list[ModuleTime]:
    """A row for each module that was called, by its time on devices and then on the CPU, longest first."""
    modules = Modules(work.metrics)
    if not modules.calls.any():
        return []
    count, path = len(modules.names), modules.path
    host = np.flatnonzero(~work.metrics.is_device & ~work.metrics.is_mark)
    calls = np.bincount(path[modules.calls], minlength=count)
    cpu = np.bincount(path[host], weights=work.metrics.self_ns[host], minlength=count).astype(np.int64)
    tied = work.op >= 0
    device = np.bincount(path[work.op[tied]], weights=work.total_ns[tied], minlength=count).astype(np.int64)
    cpu_total, device_total = (_with_inner(modules.names, values.tolist()) for values in (cpu, device))
    rows = [
        ModuleTime(name, int(calls[n]), int(cpu[n]), cpu_total[n], int(device[n]), device_total[n])
        for n, name in enumerate(modules.names)
        if calls[n]
    ]
    return sorted(rows, key=lambda row: (-row.device_total, -row.cpu_total, row.name))


def _with_inner(names: list[str], values: list[int]) -> list[int]:
    """Sums over each module and those whose path begins with its own."""
    numbers = {name: number for number, name in enumerate(names)}
    totals = list(values)
    for name, value in zip(names, values):
        outer = name
        while "." in outer:
            outer = outer.rpartition(".")[0]
            if outer in numbers:
                totals[numbers[outer]] += value
    return totals
