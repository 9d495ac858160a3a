"""What ran on devices, as columns: kernels, copies and sets, each with the call that launched it and the op around that.

Ties are those of `device_links`; here work is told apart from the other rows of a device, and nothing is added up.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...capture.capture import Kind
from .. import device_links
from ..metrics import Metrics
from .intervals import Ints
from .ops import Ops

COMPUTE, COMMUNICATION, COPY, SET = range(4)
SORTS = ("compute", "communication", "copy", "set")
_SORTS = {device_links.KERNEL: COMPUTE, device_links.COPY: COPY, device_links.SET: SET}
_COMMUNICATION_MARKS = ("nccl", "rccl")


def sort_of(kind: Kind) -> int:
    """Which of SORTS a kind of event on a device is; -1 for what is no work, such as annotations and waits."""
    sort = _SORTS.get(device_links.sort_of(kind), -1)
    if sort == COMPUTE and any(mark in kind.name.lower() for mark in _COMMUNICATION_MARKS):
        return COMMUNICATION
    return sort


def is_launching(kind: Kind) -> bool:
    """Whether it is a call of a device's runtime or driver."""
    return device_links.is_launch(kind.category)


class Work:
    """Kernels, copies and sets of one capture in order of their start; each array has a value for each of them.

    Places are those of the events in `metrics`, -1 where there is none.
    """

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        links = metrics.links
        self.place = np.flatnonzero(links.is_work)
        self.start_ns, self.end_ns = metrics.start_ns[self.place], metrics.end_ns[self.place]
        self.kind, self.inputs = metrics.kind[self.place], metrics.inputs[self.place]
        self.sort = metrics.of_kinds(sort_of, np.int64)[self.place]
        # Where it ran, who launched it, and the op that asked for it.
        self.device, self.stream = links.device[self.place], links.stream[self.place]
        self.launch, self.op = links.launch[self.place], links.op[self.place]

    def __len__(self) -> int:
        return len(self.place)

    @cached_property
    def total_ns(self) -> Ints:
        return self.end_ns - self.start_ns

    @cached_property
    def asked_ns(self) -> Ints:
        """When it was asked for: at the start of its launch or, where only the op is known, of that; else long ago."""
        starts = np.append(self.metrics.start_ns, np.iinfo(np.int64).min)
        return starts[np.where(self.launch >= 0, self.launch, self.op)]

    @cached_property
    def queues(self) -> list[tuple[int, int, Ints]]:
        """Device, stream and the places in these columns of what ran there, in order of device and stream."""
        pairs, which = np.unique(np.stack([self.device, self.stream], axis=1), axis=0, return_inverse=True)
        order = np.argsort(which.reshape(-1), kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(which.reshape(-1), minlength=len(pairs)))[:-1])
        return [(device, stream, part) for (device, stream), part in zip(pairs.tolist(), parts)]

    @cached_property
    def ops(self) -> Ops:
        return Ops(self.metrics)

    def arguments(self, number: int) -> dict[str, object]:
        """What a trace tells of one of them beside times."""
        record = self.metrics.input_record(int(self.kind[number]), int(self.inputs[number]))
        return dict(getattr(record, "keywords", ()))
