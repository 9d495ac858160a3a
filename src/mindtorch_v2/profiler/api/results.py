"""What torch's inner profiler calls `kineto_results`: every event as it was recorded, and their tree with all that happened
to memory in it. Thin views on event objects; what only Kineto knows (frames, pointers of inputs) is not there.
"""

from __future__ import annotations

import bisect
import enum
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...core.device import CPU, device
from ..analyse.events import FunctionEvent, View
from ..analyse.metrics import Metrics
from ..capture.capture import MEMORY_EVENT_NAME, MEMORY_MARK, PYTHON_FUNCTION, Capture
from ..record.config import RecordScope

__all__ = ["AllocationFields", "OpFields", "_EventType", "_KinetoEvent", "_ProfilerEvent", "_ProfilerResult"]


class _EventType(enum.Enum):
    """The sorts of nodes of a tree."""

    TorchOp = 0
    Backend = 1
    Vulkan = 2
    Allocation = 3
    OutOfMemory = 4
    PyCall = 5
    PyCCall = 6
    Kineto = 7

    def __repr__(self) -> str:
        return f"<_EventType.{self.name}: {self.value}>"


class OpFields(NamedTuple):
    """What an op or annotation has beside its times."""

    name: str
    scope: RecordScope
    sequence_number: int


class AllocationFields(NamedTuple):
    """An allocation (positive) or free (negative), and what was allocated since the window began."""

    alloc_size: int
    ptr: int
    total_allocated: int
    total_reserved: int
    device: device


def _reads(attribute: str) -> Callable[[Any], Any]:
    """A method that tells an attribute of the event object."""

    def read(self: Any) -> Any:
        return getattr(self._event, attribute)

    read.__doc__ = f"`FunctionEvent.{attribute}`"
    return read


class _KinetoEvent:
    """One event, asked by methods as torch's C++ object is. Times are nanoseconds of Unix time."""

    def __init__(self, node: _ProfilerEvent) -> None:
        self._node = node
        self._event = node._event

    def start_ns(self) -> int:
        return self._node.start_time_ns

    def end_ns(self) -> int:
        return self._node.end_time_ns

    def duration_ns(self) -> int:
        return self._node.duration_time_ns

    def name(self) -> str:
        return self._node.name

    def nbytes(self) -> int:
        """The bytes of a `[memory]` event."""
        return self._event.cpu_memory_usage if self._node.name == MEMORY_EVENT_NAME else 0

    def cuda_elapsed_us(self) -> int:
        """-1: what ran on a device is not measured by device events."""
        return -1

    privateuse1_elapsed_us = cuda_elapsed_us
    overload_name = _reads("overload_name")
    activity_type = _reads("activity_type")
    correlation_id = _reads("id")
    external_id = _reads("external_id")
    linked_correlation_id = _reads("linked_correlation_id")
    start_thread_id = _reads("thread")
    end_thread_id = _reads("thread")
    fwd_thread_id = _reads("fwd_thread")
    sequence_nr = _reads("sequence_nr")
    scope = _reads("scope")
    shapes = _reads("input_shapes")
    structured_input_shapes = _reads("structured_input_shapes")
    structured_input_strides = _reads("structured_input_strides")
    dtypes = _reads("input_dtypes")
    concrete_inputs = _reads("concrete_inputs")
    kwinputs = _reads("kwinputs")
    stack = _reads("stack")
    flops = _reads("flops")
    device_type = _reads("device_type")
    device_index = _reads("device_index")
    device_resource_id = _reads("device_resource_id")
    is_async = _reads("is_async")
    is_python_function = _reads("is_python_function")
    is_user_annotation = _reads("is_user_annotation")
    flow_id = _reads("flow_id")
    flow_type = _reads("flow_type")
    flow_start = _reads("flow_start")
    python_id = _reads("python_id")
    python_parent_id = _reads("python_parent_id")
    python_module_id = _reads("python_module_id")
    metadata_json = _reads("_metadata_json")


class _ProfilerEvent:
    """A node of the tree. `extra_fields` are those of an op or allocation; a Python function has none."""

    def __init__(
        self, event: FunctionEvent, start_ns: int, end_ns: int, fields: AllocationFields | None = None
    ) -> None:
        self._event = event
        self.start_time_ns = start_ns
        self.end_time_ns = end_ns
        self.parent: _ProfilerEvent | None = None
        self.children: list[_ProfilerEvent] = []
        self._allocation = fields

    def __repr__(self) -> str:
        return (
            f"<_ProfilerEvent {self.tag.name} {self.name} of {self.duration_time_ns} ns, {len(self.children)} children>"
        )

    @property
    def name(self) -> str:
        return self._event.trace_name or self._event.name

    @property
    def duration_time_ns(self) -> int:
        return self.end_time_ns - self.start_time_ns

    @property
    def overload_name(self) -> str:
        return self._event.overload_name or ""

    @property
    def correlation_id(self) -> int:
        return self._event.id

    @property
    def start_tid(self) -> int:
        return self._event.thread

    @property
    def id(self) -> int:
        return id(self)

    @property
    def tag(self) -> _EventType:
        if self._allocation is not None:
            return _EventType.Allocation
        if self._event.activity_type == PYTHON_FUNCTION:
            return _EventType.PyCCall if self.name.startswith("<built-in ") else _EventType.PyCall
        return _EventType.OutOfMemory if self._event.activity_type == MEMORY_MARK else _EventType.TorchOp

    @property
    def extra_fields(self) -> OpFields | AllocationFields | None:
        if self.tag is _EventType.TorchOp:
            return OpFields(self.name, RecordScope(self._event.scope), self._event.sequence_nr)
        return self._allocation

    @property
    def typed(self) -> tuple[_EventType, OpFields | AllocationFields | None]:
        return self.tag, self.extra_fields


class _ProfilerResult:
    """The newest recording of a profiler; `save` writes it as a Chrome trace."""

    def __init__(self, capture: Capture, save: Callable[[str], None]) -> None:
        self._capture = capture
        self.save = save

    def trace_start_ns(self) -> int:
        """The Unix time from which the times of event lists count."""
        return self._capture.epoch_ns

    def events(self) -> list[_KinetoEvent]:
        """All events as recorded, in order of their start; parents with a child of the same name keep it."""
        return [_KinetoEvent(node) for node in self._nodes]

    def experimental_event_tree(self) -> list[_ProfilerEvent]:
        """The events that lie in no other."""
        return [node for node in self._nodes if node.parent is None]

    @cached_property
    def _nodes(self) -> list[_ProfilerEvent]:
        metrics = Metrics(self._capture, echoes=True)
        view = View(metrics, self._capture.options.event_metadata)
        regions, epoch = {}, self._capture.epoch_ns
        for place in np.flatnonzero(metrics.kind != self._capture.memory_kind).tolist():
            start, end = int(metrics.start_ns[place]), int(metrics.end_ns[place])
            regions[place] = _ProfilerEvent(view.event(place), epoch + start, epoch + end)
        parents = [(node, int(metrics.parent[place])) for place, node in regions.items()]
        parents += _allocations(metrics)
        parents.sort(key=lambda pair: pair[0].start_time_ns)
        for node, parent in parents:
            if parent >= 0:
                node.parent = regions[parent]
                node.parent.children.append(node)
        return [node for node, _ in parents]


def _allocations(metrics: Metrics) -> list[tuple[_ProfilerEvent, int]]:
    """Everything that happened to memory, each with the place of the innermost region around it, or -1."""
    memory, capture = metrics.memory_events, metrics.capture
    starts, ends = metrics.start_ns, metrics.end_ns
    found = []
    for number, track in enumerate(capture.tracks):
        mine = np.flatnonzero((metrics.track == number) & (metrics.kind != capture.memory_kind))
        begun = starts[mine].tolist()
        for i in np.flatnonzero(memory.track == number).tolist():
            time, nbytes = int(memory.time_ns[i]), int(memory.nbytes[i])
            last = bisect.bisect_right(begun, time) - 1
            place = int(mine[last]) if last >= 0 else -1
            while place >= 0 and ends[place] < time:
                place = int(metrics.parent[place])
            fields = AllocationFields(nbytes, int(memory.address[i]), int(memory.total[i]), 0, CPU)
            at = capture.epoch_ns + time
            found.append((_ProfilerEvent(_memory_event(track, time, nbytes), at, at, fields), place))
    return found


def _memory_event(track: Any, time_ns: int, nbytes: int) -> FunctionEvent:
    return FunctionEvent(
        0, MEMORY_EVENT_NAME, track.index, time_ns / 1000, time_ns / 1000, overload_name="", fwd_thread=0,
        input_shapes=[], stack=[], cpu_memory_usage=nbytes, device_index=-1, device_resource_id=track.native_id, flops=0,
        trace_name=MEMORY_EVENT_NAME, concrete_inputs=[], kwinputs={}, activity_type=MEMORY_MARK, metadata_json="",
        flow_id=0, flow_type=0, flow_start=False, structured_input_shapes=[], structured_input_strides=[],
        input_dtypes=[],
    )  # fmt: skip
