"""How busy devices and their streams were: unions of what ran there, and what idle streams waited for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .intervals import Stretches, shared, union
from .work import COMMUNICATION, COMPUTE, COPY, SET, Work

# A stream that had its next kernel already, and begins it within this time, only changes from one to the other.
KERNEL_WAIT_NS = 30_000


class DeviceUse(NamedTuple):
    """Times of one device in nanoseconds, from its first start to its last end."""

    device: int
    span: int
    busy: int
    compute: int
    communication: int
    copy: int
    # What of communication ran while compute kernels ran.
    overlap: int
    covered: Stretches

    @property
    def idle(self) -> int:
        return self.span - self.busy


class StreamUse(NamedTuple):
    """Times of one stream in nanoseconds. What it was idle between its first start and last end has three causes:

    the host launched the next piece of work only then; the next one was there and began within KERNEL_WAIT_NS; other.
    """

    device: int
    stream: int
    busy: int
    host_wait: int
    kernel_wait: int
    other: int

    @property
    def idle(self) -> int:
        return self.host_wait + self.kernel_wait + self.other


def device_uses(work: Work) -> list[DeviceUse]:
    """A row for each device, in order of number."""
    found = []
    for device in np.unique(work.device).tolist():
        mine = np.flatnonzero(work.device == device)
        start, end, sort = work.start_ns[mine], work.end_ns[mine], work.sort[mine]
        covered = union(start, end)
        compute, communication, copy = (
            union(start[chosen], end[chosen])
            for chosen in (sort == COMPUTE, sort == COMMUNICATION, (sort == COPY) | (sort == SET))
        )
        found.append(
            DeviceUse(
                device,
                int(end.max() - start.min()),
                covered.length,
                compute.length,
                communication.length,
                copy.length,
                shared(compute, communication),
                covered,
            )
        )
    return found


def stream_uses(work: Work) -> list[StreamUse]:
    """A row for each stream, in order of device and stream."""
    found = []
    for device, stream, mine in work.queues:
        start, end = work.start_ns[mine], work.end_ns[mine]
        reach = np.maximum.accumulate(end)
        later = np.flatnonzero(start[1:] > reach[:-1]) + 1
        gap, free = start[later] - reach[later - 1], reach[later - 1]
        by_host = work.asked_ns[mine[later]] > free
        by_kernel = ~by_host & (gap < KERNEL_WAIT_NS)
        waits = (int(gap[which].sum()) for which in (by_host, by_kernel, ~by_host & ~by_kernel))
        found.append(StreamUse(device, stream, union(start, end).length, *waits))
    return found
