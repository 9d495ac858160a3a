"""What limits a run with devices: every moment of a device's span under one cause, and a sentence that says so.

| cause | moments |
|---|---|
| device | a compute kernel ran |
| communication | communication ran and no compute kernel (it is exposed) |
| copies | only copies or sets ran |
| input | the device was idle while the launching thread was in a DataLoader |
| synchronisation | the device was idle after a call of the host had waited for it |
| host | the device was idle otherwise: nothing was launched in time |
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from ..units import format_time
from .busy import DeviceUse
from .intervals import Stretches, covered_within, gaps, union
from .moments import waits_for_devices
from .work import COMMUNICATION, Work

DEVICE, EXPOSED, COPIES, INPUT, SYNCHRONISATION, HOST = CAUSES = (
    "device", "communication", "copies", "input", "synchronisation", "host"
)  # fmt: skip
_WORDS = {
    DEVICE: "The device limits the run: compute kernels run for",
    EXPOSED: "Communication limits the run: it runs without compute beside it for",
    COPIES: "Copies limit the run: nothing else runs on the device for",
    INPUT: "Input limits the run: the device waits for the DataLoader for",
    SYNCHRONISATION: "Synchronisation limits the run: the device is idle after the host waited for it for",
    HOST: "The host limits the run: the device has nothing to do for",
}
_LOADER = re.compile("DataLoader", re.IGNORECASE)


class Limits(NamedTuple):
    """Nanoseconds of a device's span by cause; together they are the span."""

    device: int
    name: str
    span: int
    by_cause: dict[str, int]

    @property
    def cause(self) -> str:
        return max(self.by_cause, key=lambda cause: self.by_cause[cause])

    @property
    def sentence(self) -> str:
        """What limits the run, with figures, and the next causes."""
        share = {cause: time / self.span if self.span else 0.0 for cause, time in self.by_cause.items()}
        time, span = (format_time(value / 1000) for value in (self.by_cause[self.cause], self.span))
        which = f"{self.name} (device {self.device})" if self.name else f"device {self.device}"
        text = f"{_WORDS[self.cause]} {share[self.cause]:.0%} of the time on {which}, {time} of {span}"
        rest = sorted((cause for cause in share if cause != self.cause), key=lambda cause: -share[cause])
        others = [f"{cause} {share[cause]:.0%}" for cause in rest if share[cause] >= 0.02]
        return f"{text}; besides {', '.join(others)}." if others else f"{text}."


def limits_of(work: Work, use: DeviceUse, name: str) -> Limits:
    """The causes of one device."""
    mine = np.flatnonzero(work.device == use.device)
    start, end, sort = work.start_ns[mine], work.end_ns[mine], work.sort[mine]
    exposed = union(start[sort <= COMMUNICATION], end[sort <= COMMUNICATION]).length - use.compute
    idle = gaps(use.covered)
    ends = np.unique(work.end_ns[waits_for_devices(work)[1]])
    after_wait = np.isin(idle.start, ends)
    synchronised = int((idle.end - idle.start)[after_wait].sum())
    loading = _loading(work)
    input_ns = int(covered_within(loading, idle.start, idle.end).sum())
    both = int(covered_within(loading, idle.start[after_wait], idle.end[after_wait]).sum())
    causes = {
        DEVICE: use.compute,
        EXPOSED: exposed,
        COPIES: use.busy - use.compute - exposed,
        INPUT: input_ns,
        SYNCHRONISATION: synchronised - both,
        HOST: use.idle - input_ns - synchronised + both,
    }
    return Limits(use.device, name, use.span, causes)


def _loading(work: Work) -> Stretches:
    """When a thread that launches work was in a DataLoader."""
    metrics = work.metrics
    threads = np.unique(metrics.track[work.launch[work.launch >= 0]])
    rows = metrics.of_kinds(lambda kind: _LOADER.search(kind.name) is not None) & np.isin(metrics.track, threads)
    return union(metrics.start_ns[rows], metrics.end_ns[rows])
