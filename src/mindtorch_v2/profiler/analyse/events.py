"""Event objects with torch's attributes: made by hand, or as light views that read the metrics when asked.

It does not aggregate, print or export.
"""

from __future__ import annotations

import bisect
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..capture.capture import PYTHON_FUNCTION
from ..record.config import DeviceType
from .details import EventMetadata, event_metadata
from .metrics import Metrics, is_annotation
from .units import format_time

_DEVICES = (DeviceType.CUDA, DeviceType.PrivateUse1, DeviceType.MTIA, DeviceType.HPU, DeviceType.XPU)


def _formatted(name: str) -> property:
    return property(lambda self: format_time(getattr(self, name)), doc=f"`{name}` with its unit.")


def deprecated_name(old: str, new: str, message: str) -> property:
    """A property under its old name: warns, then reads the new one."""

    def read(self: Any) -> Any:
        warnings.warn(message, FutureWarning, stacklevel=2)
        return getattr(self, new)

    return property(read, doc=f"Deprecated name of `{new}`.")


class FormattedTimesMixin:
    """Averages and readable times for classes with `count` and `*_time_total`."""

    count: int
    cpu_time_total: float
    device_time_total: float

    cpu_time_str = _formatted("cpu_time")
    device_time_str = _formatted("device_time")
    cpu_time_total_str = _formatted("cpu_time_total")
    device_time_total_str = _formatted("device_time_total")
    self_cpu_time_total_str = _formatted("self_cpu_time_total")
    self_device_time_total_str = _formatted("self_device_time_total")

    @property
    def cpu_time(self) -> float:
        return 0.0 if self.count == 0 else 1.0 * self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        return 0.0 if self.count == 0 else 1.0 * self.device_time_total / self.count

    cuda_time = deprecated_name(
        "cuda_time", "device_time", "`cuda_time` is deprecated, please use `device_time` instead."
    )


# Finds the dictionary of an instance whose class gives `__dict__` another meaning.
KNOWN_VALUES: Any = vars(FormattedTimesMixin)["__dict__"]


class Interval:
    """A stretch of time in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        return self.end - self.start


class _NanosecondInterval(Interval):
    """An interval whose length does not suffer from the rounding of its ends."""

    def __init__(self, start_ns: int, end_ns: int) -> None:
        super().__init__(start_ns / 1000, end_ns / 1000)
        self._elapsed = (end_ns - start_ns) / 1000, self.start, self.end

    def elapsed_us(self) -> float:
        elapsed, start, end = self._elapsed
        return elapsed if start == self.start and end == self.end else self.end - self.start


class Kernel(NamedTuple):
    """Work that an event started on a device."""

    name: Any
    device: Any
    duration: Any


class FunctionEvent(FormattedTimesMixin):
    """One event. Made by hand it is a plain object; from a profile it reads its values from the metrics when asked."""

    __slots__ = ("_place", "_view")

    _view: View | None
    _place: int
    # The values known so far; `__dict__` has all of them.
    _known: Any = KNOWN_VALUES

    id: int
    name: str
    thread: int
    overload_name: str | None
    trace_name: str | None
    time_range: Interval
    fwd_thread: int | None
    kernels: list[Kernel]
    cpu_children: list[FunctionEvent]
    cpu_parent: FunctionEvent | None
    input_shapes: Any
    concrete_inputs: Any
    kwinputs: Any
    stack: Any
    scope: int
    cpu_memory_usage: int
    sequence_nr: int
    device_index: int
    device_resource_id: int
    flops: int | None
    all_flops: int | None
    is_user_annotation: bool | None
    is_python_function: bool
    activity_type: str | None
    flow_id: int | None
    flow_type: int | None
    flow_start: bool | None
    external_id: int
    structured_input_shapes: Any
    structured_input_strides: Any
    input_dtypes: Any
    python_id: int
    python_parent_id: int
    python_module_id: int

    # The same for every event of a profile.
    node_id: int = -1
    count: int = 1
    use_device: str | None = None
    device_memory_usage: int
    is_async: bool = False
    is_remote: bool = False
    device_type: DeviceType = DeviceType.CPU
    is_legacy: bool = False
    self_cpu_percent: Any = -1
    total_cpu_percent: Any = -1
    total_device_percent: Any = -1
    linked_correlation_id: int
    event_metadata: EventMetadata | None = None

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: Any = None,
        stack: Any = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: DeviceType = DeviceType.CPU,
        device_index: int = 0,
        device_resource_id: int | None = None,
        is_legacy: bool = False,
        flops: int | None = None,
        trace_name: str | None = None,
        concrete_inputs: Any = None,
        kwinputs: Any = None,
        is_user_annotation: bool | None = False,
        is_python_function: bool = False,
        activity_type: str | None = None,
        metadata_json: str | None = None,
        flow_id: int | None = None,
        flow_type: int | None = None,
        flow_start: bool | None = None,
        external_id: int = 0,
        linked_correlation_id: int = 0,
        extra_meta: dict[str, str] | None = None,
        structured_input_shapes: Any = None,
        structured_input_strides: Any = None,
        input_dtypes: Any = None,
        python_id: int = -1,
        python_parent_id: int = -1,
        python_module_id: int = -1,
    ) -> None:
        given = dict(locals())
        for passing in ("self", "start_us", "end_us", "metadata_json", "extra_meta"):
            del given[passing]
        given["time_range"] = Interval(start_us, end_us)
        given["device_resource_id"] = thread if device_resource_id is None else device_resource_id
        given["event_metadata"] = event_metadata(extra_meta) if extra_meta else None
        given.update(kernels=[], cpu_children=[], cpu_parent=None, all_flops=flops, _metadata_json=metadata_json)
        given.update(count=1, self_cpu_percent=-1, total_cpu_percent=-1, total_device_percent=-1)
        self.__setstate__(given)

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """All values by name, of which those not asked for yet are read now."""
        known: dict[str, Any] = self._known
        if self._view is not None:
            for name in (*READERS, *CONSTANTS):
                known.setdefault(name, getattr(self, name))
        return known

    def __getattr__(self, name: str) -> Any:
        # Other names first: of an event that is still being made nothing is set.
        if name not in READERS or (view := self._view) is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = self._known[name] = READERS[name](view, self._place)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(getattr(type(self), name, None), property):
            # What is worked out cannot be set, and says so.
            object.__setattr__(self, name, value)
        else:
            self._known[name] = value
        if self._view is not None:
            self._view.edit()

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *READERS})

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take all values from `state`: what is made by hand, copied or unpickled reads none from a profile."""
        object.__setattr__(self, "_view", None)
        self._known.update(state)

    def note(self, **values: Any) -> None:
        """Set what printing leaves on an event; not counted as a change of it."""
        self._known.update(values)

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        self._expect_cpu(event=self)
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Add a direct child; its time then is not this event's own."""
        self._expect_cpu(event=self, child=child)
        self.cpu_children.append(child)
        if self._view is not None:
            self._view.edit()

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        self._expect_cpu(event=self, parent=parent)
        self.cpu_parent = parent

    @staticmethod
    def _expect_cpu(**events: FunctionEvent) -> None:
        for role, event in events.items():
            if not isinstance(event, FunctionEvent):
                raise AssertionError(f"Expected {role} to be a FunctionEvent, got {type(event).__name__}")
            if event.device_type != DeviceType.CPU:
                raise AssertionError(f"Expected device_type to be CPU, got {event.device_type}")

    @property
    def _has_self_values(self) -> bool:
        return not self.is_async and self.device_type == DeviceType.CPU

    @property
    def key(self) -> str:
        return self.name

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        return self.time_range.elapsed_us() if self.device_type == DeviceType.CPU else 0

    @property
    def self_cpu_time_total(self) -> float:
        if not self._has_self_values:
            return 0
        view = self._view
        if view is not None and not view.edited:
            return int(view.metrics.self_ns[self._place]) / 1000
        own = self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)
        # What was measured is whole nanoseconds; children that cross each other may have more than there is.
        return max(0.0, round(own, 3)) if isinstance(self.time_range, _NanosecondInterval) else own

    @property
    def self_cpu_memory_usage(self) -> int:
        if not self._has_self_values:
            return 0
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        if not self._has_self_values:
            return 0
        return self.device_memory_usage - sum(child.device_memory_usage for child in self.cpu_children)

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        if self.is_async or not self.use_device:
            return 0
        if self.device_type != DeviceType.CPU:
            self._expect_device()
            return self.time_range.elapsed_us()
        own: float = sum(kernel.duration for kernel in self.kernels)
        # A legacy event's one kernel stands for all that ran in it.
        return own if self.is_legacy else own + sum(child.device_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:
        if self.is_async or not self.use_device:
            return 0
        if self.device_type != DeviceType.CPU:
            self._expect_device()
            return self.device_time_total
        return self.device_time_total - sum(child.device_time_total for child in self.cpu_children)

    def _expect_device(self) -> None:
        if self.device_type not in _DEVICES:
            names = ", ".join(device.name for device in _DEVICES)
            raise AssertionError(f"Expected device_type to be one of {names}, but got {self.device_type}")

    metadata_json = deprecated_name(
        "metadata_json", "_metadata_json", "`metadata_json` is deprecated. Use `event_metadata` instead."
    )
    cuda_time_total = deprecated_name(
        "cuda_time_total",
        "device_time_total",
        "`cuda_time_total` is deprecated. Use `device_time_total` instead.",
    )
    self_cuda_time_total = deprecated_name(
        "self_cuda_time_total",
        "self_device_time_total",
        "`self_cuda_time_total` is deprecated. Use `self_device_time_total` instead.",
    )
    self_cuda_memory_usage = deprecated_name(
        "self_cuda_memory_usage",
        "self_device_memory_usage",
        "`self_cuda_memory_usage` is deprecated. Use `self_device_memory_usage` instead.",
    )

    def __repr__(self) -> str:
        device = self.use_device
        parts = {
            "id": self.id,
            "name": self.name,
            "overload_name": self.overload_name,
            "device_type": self.device_type,
            "node_id": self.node_id,
            "cpu_time": self.cpu_time_str,
            "start_us": self.time_range.start,
            "end_us": self.time_range.end,
            "cpu_children": [child.id for child in self.cpu_children],
            f"{device}_time": self.device_time_str,
            " name": self.name,
            "thread": self.thread,
            "input_shapes": self.input_shapes,
            "cpu_memory_usage": self.cpu_memory_usage,
            f"{device}_memory_usage": self.device_memory_usage,
            "is_async": self.is_async,
            "is_remote": self.is_remote,
            "seq_nr": self.sequence_nr,
            "is_legacy": self.is_legacy,
        }
        return "<FunctionEvent " + " ".join(f"{name.strip()}={value}" for name, value in parts.items()) + ">"


class View:
    """The events of one capture as objects: each is made when first asked for, and then stays the same object."""

    def __init__(self, metrics: Metrics, expose_metadata: bool = False) -> None:
        self.metrics = metrics
        self.expose_metadata = expose_metadata
        # Whether somebody has changed an event since; then columns no longer tell the truth about all of them.
        self.edited = False
        # Events somebody holds, by place; and all of them, once they are asked for together. Events hold their view:
        # a view that held a few as well would stay, with all it stands for, until the next garbage collection.
        self._held: weakref.WeakValueDictionary[int, FunctionEvent] = weakref.WeakValueDictionary()
        self._all: list[FunctionEvent] | None = None
        self._flows: dict[int, tuple[int, bool]] | None = None

    def event(self, place: int) -> FunctionEvent:
        if self._all is not None:
            return self._all[place]
        found = self._held.get(place)
        if found is None:
            found = self._held[place] = self._make(place)
        return found

    def events(self) -> list[FunctionEvent]:
        if self._all is None:
            held, make = self._held.get, self._make
            self._all = [held(place) or make(place) for place in range(len(self.metrics))]
        return self._all

    def edit(self) -> None:
        """Somebody changes an event, which therefore stays."""
        if not self.edited:
            self.events()
            self.edited = True

    def _make(self, place: int) -> FunctionEvent:
        made: FunctionEvent = object.__new__(FunctionEvent)
        object.__setattr__(made, "_view", self)
        object.__setattr__(made, "_place", place)
        if self.metrics.use_device:
            made.note(use_device=self.metrics.use_device, device_type=DeviceType(self.track(place).device_type))
        return made

    def flow(self, place: int) -> tuple[int, bool] | None:
        """The number of the arrow that begins (True) or ends (False) at an event."""
        if self._flows is None:
            forward, backward = self.metrics.flows
            self._flows = {}
            for number, (first, second) in enumerate(zip(forward.tolist(), backward.tolist()), 1):
                self._flows[first] = (number, True)
                self._flows[second] = (number, False)
        return self._flows.get(place)

    # What readers need

    def kind(self, place: int) -> Any:
        return self.metrics.kind_of(int(self.metrics.kind[place]))

    def is_mark(self, place: int) -> bool:
        return bool(self.metrics.is_mark[place])

    def inputs(self, place: int) -> Any:
        metrics = self.metrics
        return metrics.input_record(int(metrics.kind[place]), int(metrics.inputs[place]))

    def track(self, place: int) -> Any:
        return self.metrics.capture.tracks[int(self.metrics.track[place])]


def nested_list(value: Any) -> Any:
    """Tuples as lists, all the way down."""
    return [nested_list(item) for item in value] if isinstance(value, (list, tuple)) else value


def plain_shapes(shapes: Sequence[Any]) -> list[list[int]]:
    """One list of sizes per input; a list of tensors counts as having none."""
    return [[] if shape and isinstance(shape[0], (list, tuple)) else list(shape) for shape in shapes]


Reader = Callable[[View, int], Any]

# Attributes of the class that are values of an event, too.
CONSTANTS = (
    *("node_id", "count", "use_device", "is_async", "is_remote", "device_type", "is_legacy", "event_metadata"),
    *("self_cpu_percent", "total_cpu_percent", "total_device_percent"),
)


def _of_regions(reader: Reader, mark: Any) -> Reader:
    """A reader for regions; `[memory]` events have one value for all."""
    return lambda view, place: mark if view.is_mark(place) else reader(view, place)


def _overload_name(view: View, place: int) -> str:
    overload: str = view.kind(place).overload
    return overload if view.metrics.capture.options.overload_names else ""


def _time_range(view: View, place: int) -> Interval:
    return _NanosecondInterval(int(view.metrics.start_ns[place]), int(view.metrics.end_ns[place]))


def _cpu_parent(view: View, place: int) -> FunctionEvent | None:
    parent = int(view.metrics.parent[place])
    return view.event(parent) if parent >= 0 else None


def _device_index(view: View, place: int) -> int:
    track = view.track(place)
    number: int = track.device_index if track.device_type else track.pid or view.metrics.capture.pid
    return number


def _kernels(view: View, place: int) -> list[Kernel]:
    if view.metrics.use_device is None:
        return []
    found = view.metrics.launched.of(place)
    return [Kernel(view.kind(work).name, view.track(work).device_index, _length_us(view, work)) for work in found]


def _length_us(view: View, place: int) -> float:
    return int(view.metrics.total_ns[place]) / 1000


def _linked_id(view: View, place: int) -> int:
    launcher = int(view.metrics.launcher[place]) if view.metrics.use_device else -1
    return int(view.metrics.ids[launcher]) if launcher >= 0 else 0


def _device_resource(view: View, place: int) -> int:
    track = view.track(place)
    number: int = track.index if view.is_mark(place) else track.native_id
    return number


def _metadata_json(view: View, place: int) -> str:
    """What a trace would tell of the event, as far as it is no field of its own."""
    if not view.expose_metadata or view.kind(place).category == PYTHON_FUNCTION:
        return ""
    return f'"Ev Idx": {int(view.metrics.ids[place]) - view.metrics.capture.first_id}'


def _flow_field(position: int, none: Any) -> Reader:
    def read(view: View, place: int) -> Any:
        flow = view.flow(place)
        return none if flow is None else flow[position]

    return _of_regions(read, None)


READERS: dict[str, Reader] = {
    "id": lambda view, place: int(view.metrics.ids[place]),
    "external_id": _of_regions(lambda view, place: int(view.metrics.ids[place]), 0),
    "name": lambda view, place: view.kind(place).label,
    "trace_name": _of_regions(lambda view, place: view.kind(place).name, None),
    "overload_name": _overload_name,
    "thread": lambda view, place: view.track(place).index,
    "fwd_thread": lambda view, place: (
        view.track(place).index if view.is_mark(place) else int(view.metrics.forward_thread[place])
    ),
    "time_range": _time_range,
    "kernels": _kernels,
    "linked_correlation_id": _linked_id,
    "cpu_children": lambda view, place: [view.event(child) for child in view.metrics.children.of(place)],
    "cpu_parent": _cpu_parent,
    "input_shapes": _of_regions(lambda view, place: plain_shapes(view.inputs(place).shapes), []),
    "structured_input_shapes": _of_regions(lambda view, place: nested_list(view.inputs(place).shapes), None),
    "structured_input_strides": _of_regions(lambda view, place: nested_list(view.inputs(place).strides), None),
    "input_dtypes": _of_regions(lambda view, place: list(view.inputs(place).dtypes), None),
    "concrete_inputs": _of_regions(lambda view, place: nested_list(view.inputs(place).concrete), None),
    "kwinputs": _of_regions(lambda view, place: dict(getattr(view.inputs(place), "keywords", ())), None),
    "stack": lambda view, place: list(view.metrics.stack_of(place)),
    "scope": lambda view, place: view.kind(place).scope,
    "cpu_memory_usage": lambda view, place: int(view.metrics.memory[place]),
    "device_memory_usage": lambda view, place: int(view.metrics.device_memory[place]),
    "sequence_nr": lambda view, place: int(view.metrics.seq[place]),
    "device_index": _of_regions(_device_index, 0),
    "device_resource_id": _device_resource,
    "flops": lambda view, place: int(view.metrics.flops[place]),
    "all_flops": lambda view, place: int(view.metrics.all_flops[place]),
    "is_user_annotation": lambda view, place: is_annotation(view.kind(place)),
    "is_python_function": lambda view, place: view.kind(place).is_function,
    "activity_type": _of_regions(lambda view, place: view.kind(place).category, None),
    "flow_id": _flow_field(0, 0),
    "flow_type": _of_regions(lambda view, place: int(view.flow(place) is not None), None),
    "flow_start": _flow_field(1, False),
    "python_id": lambda view, place: int(view.metrics.python_ids[place]) if view.kind(place).is_function else -1,
    "python_parent_id": lambda view, place: (
        int(view.metrics.python_parents[place]) if view.kind(place).is_function else -1
    ),
    "python_module_id": lambda view, place: view.kind(place).module_id,
    "_metadata_json": _of_regions(_metadata_json, None),
}


class StringTable(defaultdict[str, str]):
    """Names by themselves. Nothing is demangled: names here are never mangled."""

    def __missing__(self, key: str) -> str:
        if not isinstance(key, str):
            raise TypeError(f"StringTable expects a str as key, got {type(key).__name__}")
        self[key] = key
        return key


class MemRecordsAcc:
    """Finds the memory records of a stretch of time; records are sequences whose first item has `start_ns()`."""

    def __init__(self, mem_records: Sequence[Any]) -> None:
        self._mem_records = mem_records
        pairs = sorted((record[0].start_ns(), place) for place, record in enumerate(mem_records))
        self._start_nses = [start for start, _ in pairs]
        self._indices = [place for _, place in pairs]

    def in_interval(self, start_ns: int, end_ns: int) -> Iterator[Any]:
        """The records from `start_ns` to `end_ns`, both included, in order of time."""
        first = bisect.bisect_left(self._start_nses, start_ns)
        last = bisect.bisect_right(self._start_nses, end_ns)
        for position in range(first, last):
            yield self._mem_records[self._indices[position]]
