"""Events summed up by key: the rows of `key_averages()`, from columns or from objects. It does not print."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..capture.capture import MEMORY_EVENT_NAME
from ..record.config import DeviceType
from . import tree
from .events import KNOWN_VALUES, FormattedTimesMixin, FunctionEvent, View, plain_shapes
from .metrics import Metrics

Ints = NDArray[np.int64]

_SUMMED = (
    "cpu_time_total",
    "device_time_total",
    "self_cpu_time_total",
    "self_device_time_total",
    "cpu_memory_usage",
    "device_memory_usage",
    "self_cpu_memory_usage",
    "self_device_memory_usage",
    "count",
)
_COPIED = (
    "key",
    "node_id",
    "is_async",
    "is_remote",
    "cpu_parent",
    "cpu_children",
    "overload_name",
    "input_shapes",
    "stack",
    "scope",
    "device_type",
    "is_legacy",
    "use_device",
    "is_user_annotation",
)


class FunctionEventAvg(FormattedTimesMixin):
    """Events of one key summed up. `row["count"]` reads the same as `row.count`."""

    __slots__ = ("_first",)

    # The event whose children the row has, until they are asked for.
    _first: FunctionEvent
    _known: Any = KNOWN_VALUES

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = 0
        self.node_id = 0
        self.is_async = False
        self.is_remote = False
        self.use_device: str | None = None
        self.cpu_time_total: float = 0
        self.device_time_total: float = 0
        self.self_cpu_time_total: float = 0
        self.self_device_time_total: float = 0
        self.input_shapes: Any = None
        self.overload_name: str | None = None
        self.stack: Any = None
        self.scope: int | None = None
        self.cpu_memory_usage = 0
        self.device_memory_usage = 0
        self.self_cpu_memory_usage = 0
        self.self_device_memory_usage = 0
        self.cpu_children: list[FunctionEvent] | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.device_type = DeviceType.CPU
        self.is_legacy = False
        self.flops: int | None = 0
        self.all_flops: int | None = 0

    is_user_annotation: bool | None

    def adopt_children_of(self, event: FunctionEvent) -> None:
        """Have the children of `event`, which are found when first asked for."""
        del self.cpu_children
        self._first = event

    def __getattr__(self, name: str) -> Any:
        if name != "cpu_children":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.cpu_children = self._first.cpu_children
        return self.cpu_children

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """All values by name."""
        known: dict[str, Any] = self._known
        known.setdefault("cpu_children", self.cpu_children)
        return known

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._known.update(state)

    def __getitem__(self, name: str) -> Any:
        if not isinstance(name, str) or name.startswith("_"):
            raise KeyError(name)
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None

    # Names are no positions: a row has no items to go through.
    __iter__ = None

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event or another sum with the same key."""
        if not isinstance(other, (FunctionEvent, FunctionEventAvg)):
            raise AssertionError(
                f"Expected other to be a FunctionEvent or FunctionEventAvg, got {type(other).__name__}"
            )
        if self.key is None:
            for name in _COPIED:
                setattr(self, name, getattr(other, name))
        if other.key != self.key:
            raise AssertionError(f"Expected keys to match, but got {other.key} vs {self.key}")
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flops = _sum_flops(self.flops, other.flops)
        self.all_flops = _sum_flops(self.all_flops, other.all_flops)
        return self

    def __iadd__(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        return self.add(other)

    def note(self, **values: Any) -> None:
        """Set what printing leaves on a row."""
        self._known.update(values)

    def __repr__(self) -> str:
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_{device}_time={self.self_device_time_total_str} "
            f"{device}_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} {device}_memory_usage={self.device_memory_usage}>"
        )


def _sum_flops(first: int | None, second: int | None) -> int | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


@dataclass(frozen=True)
class Grouping:
    """What beside the name tells rows apart."""

    shapes: bool = False
    stack_n: int = 0
    overloads: bool = False
    python: bool = False


def average_events(events: Iterable[Any], grouping: Grouping) -> list[FunctionEventAvg]:
    """Rows from event objects, in the order in which their keys first appear."""
    rows: dict[Hashable, FunctionEventAvg] = {}
    loose = FunctionEventAvg()
    for event in events:
        if event.is_python_function and not grouping.python:
            if _shown_parent(event) is None and event.self_cpu_memory_usage:
                _add_loose(loose, event.self_cpu_memory_usage)
            continue
        key = [event.key, event.node_id, event.device_type, event.is_legacy, event.is_user_annotation]
        key.append(event.overload_name if grouping.overloads else "")
        key.append(str(event.input_shapes) if grouping.shapes else "")
        key += event.stack[: grouping.stack_n] if grouping.stack_n > 0 else ()
        row = rows.setdefault(tuple(key), FunctionEventAvg())
        row.add(event)
        if not grouping.python:
            _take_over(row, event)
    return _with_loose([_finished(row, grouping) for row in rows.values()], loose, grouping)


def _shown_parent(event: Any) -> Any:
    """The nearest event around this one that is no Python function."""
    parent = event.cpu_parent
    while parent is not None and parent.is_python_function:
        parent = parent.cpu_parent
    return parent


def _take_over(row: FunctionEventAvg, event: Any) -> None:
    """Add to the row of `event` what the hidden Python functions in it did themselves."""
    if row.count == event.count:
        row.cpu_parent = _shown_parent(event)
    inside = list(event.cpu_children)
    if not any(child.is_python_function for child in inside):
        return
    spans = []
    while inside:
        child = inside.pop()
        if child.is_python_function:
            row.self_cpu_memory_usage += child.self_cpu_memory_usage
            row.self_device_memory_usage += child.self_device_memory_usage
            inside += child.cpu_children
        else:
            spans.append((child.time_range.start, child.time_range.end))
    own = event.cpu_time_total - _covered(spans)
    row.self_cpu_time_total += max(own, 0) - event.self_cpu_time_total


def _covered(spans: list[tuple[float, float]]) -> float:
    """How much time lies in one span at least."""
    covered, reach = 0.0, -math.inf
    for start, end in sorted(spans):
        covered += max(end - max(start, reach), 0)
        reach = max(reach, end)
    return covered


def _add_loose(loose: FunctionEventAvg, nbytes: int, count: int = 1) -> None:
    """Count bytes of hidden Python functions that lie in no shown event."""
    loose.count += count
    loose.cpu_memory_usage += nbytes
    loose.self_cpu_memory_usage += nbytes


def _with_loose(rows: list[FunctionEventAvg], loose: FunctionEventAvg, grouping: Grouping) -> list[FunctionEventAvg]:
    """The rows with `loose` added to that of `[memory]` events, as if the functions were not there at all."""
    if not loose.count:
        return rows
    loose.key, loose.node_id, loose.scope, loose.is_user_annotation = MEMORY_EVENT_NAME, -1, 0, False
    loose.input_shapes, loose.stack = [], []
    for row in rows:
        if row.key == MEMORY_EVENT_NAME and not row.is_user_annotation:
            row.add(loose)
            return rows
    return [*rows, _finished(loose, grouping)]


def _finished(row: FunctionEventAvg, grouping: Grouping) -> FunctionEventAvg:
    row.stack = (row.stack or [])[: grouping.stack_n]
    if not grouping.shapes:
        row.input_shapes = ""
    if not grouping.overloads:
        row.overload_name = ""
    return row


def average_views(views: list[View], grouping: Grouping) -> list[FunctionEventAvg]:
    """Rows from columns; those of several captures are added up."""
    rows: dict[Hashable, FunctionEventAvg] = {}
    loose = FunctionEventAvg()
    for view in views:
        if not grouping.python and len(view.metrics.memory_events) and view.metrics.is_function.any():
            nbytes = _loose_bytes(view.metrics)
            _add_loose(loose, int(nbytes.sum()), len(nbytes))
        for key, row in _average_view(view, grouping):
            known = rows.setdefault(key, row)
            if known is not row:
                known.add(row)
    return _with_loose(list(rows.values()), loose, grouping)


def _loose_bytes(metrics: Metrics) -> Ints:
    """Bytes that Python functions in no other event have allocated less freed themselves, where there are any."""
    outermost = metrics.is_function & (tree.splice(metrics.parent, metrics.is_function) < 0)
    nbytes: Ints = metrics.self_memory[outermost]
    return nbytes[nbytes != 0]


def _average_view(view: View, grouping: Grouping) -> Iterator[tuple[Hashable, FunctionEventAvg]]:
    metrics = view.metrics
    parent, self_ns, self_memory = metrics.parent, metrics.self_ns, metrics.self_memory
    shown = np.ones(len(metrics), bool) if grouping.python else ~metrics.is_function
    if not shown.all():
        # Times and bytes of hidden Python functions belong to the shown event around them.
        parent = tree.splice(parent, ~shown)
        self_ns = _with_hidden(self_ns, parent, shown) if metrics.nests else _own_times(metrics, shown)
        self_memory = _with_hidden(self_memory, parent, shown)
    total_ns = metrics.total_ns
    if metrics.use_device:
        total_ns, self_ns = (np.where(metrics.is_device, 0, times) for times in (total_ns, self_ns))
    places = np.flatnonzero(shown)
    group, keys, first = _groups(metrics, places, grouping)

    def sums(values: Ints) -> list[int]:
        if values.strides == (0,):
            # One value for all, which is how columns of zeros are kept.
            return [0] * len(keys)
        total = np.bincount(group, weights=values[places], minlength=len(keys))
        return [int(value) for value in total.tolist()]

    summed = {
        "count": np.bincount(group, minlength=len(keys)).tolist(),
        "cpu_time_total": [ns / 1000 for ns in sums(total_ns)],
        "self_cpu_time_total": [ns / 1000 for ns in sums(self_ns)],
        "cpu_memory_usage": sums(metrics.memory),
        "self_cpu_memory_usage": sums(self_memory),
        "flops": sums(metrics.flops),
        "all_flops": sums(metrics.all_flops),
    }
    if metrics.use_device:
        summed["device_time_total"] = [ns / 1000 for ns in sums(metrics.device_ns)]
        summed["device_memory_usage"] = sums(metrics.device_memory)
        summed["self_device_memory_usage"] = sums(_without_children(metrics.device_memory, parent, shown))
        summed["self_device_time_total"] = [ns / 1000 for ns in sums(metrics.self_device_ns)]
    for number, (key, place) in enumerate(zip(keys, first)):
        row = _first_row(view, place, int(parent[place]), grouping)
        row._known.update((name, values[number]) for name, values in summed.items())
        yield key, row


def _first_row(view: View, place: int, parent: int, grouping: Grouping) -> FunctionEventAvg:
    """A row with what it takes over from the first event of its key."""
    event = view.event(place)
    row = FunctionEventAvg()
    row.key = event.name
    row.node_id = event.node_id
    row.is_legacy = event.is_legacy
    row.use_device = event.use_device
    row.device_type = event.device_type
    row.scope = event.scope
    row.cpu_parent = view.event(parent) if parent >= 0 else None
    row.adopt_children_of(event)
    row.overload_name = event.overload_name if grouping.overloads else ""
    row.input_shapes = event.input_shapes if grouping.shapes else ""
    row.stack = event.stack[: grouping.stack_n] if grouping.stack_n else []
    row.is_user_annotation = event.is_user_annotation
    return row


def _with_hidden(own: Ints, parent: Ints, shown: NDArray[np.bool_]) -> Ints:
    """What each event has done itself, with what the hidden ones did that lie in it and in no other shown one."""
    inner = ~shown & (parent >= 0)
    taken = np.bincount(parent[inner], weights=own[inner], minlength=len(own))
    return own + taken.astype(np.int64)


def _own_times(metrics: Metrics, shown: NDArray[np.bool_]) -> Ints:
    """Self times of shown events where some cross. A hidden function may cross a shown event and lie in part in it, so
    that its own time says little: what counts is how much of an event other shown ones cover."""
    own = metrics.self_ns.copy()
    for number, track in enumerate(metrics.capture.tracks):
        if not track.device_type:
            inner_first = np.flatnonzero(shown & (metrics.track == number))[::-1]
            order, parent, share = tree.nest_any(metrics.start_ns[inner_first], metrics.end_ns[inner_first])
            places = inner_first[order]
            assert share is not None
            own[places] = metrics.without_children(metrics.total_ns[places], share, parent)
    return own


def _without_children(total: Ints, parent: Ints, shown: NDArray[np.bool_]) -> Ints:
    inner = (parent >= 0) & shown
    taken = np.bincount(parent[inner], weights=total[inner], minlength=len(total))
    return total - taken.astype(np.int64)


def _groups(metrics: Metrics, places: Ints, grouping: Grouping) -> tuple[Ints, list[Hashable], list[int]]:
    """For each event the number of its row; the key of each row and the first event in it, in order of appearance."""
    codes = metrics.kind[places].astype(np.int64)
    if grouping.shapes:
        codes = _pairs(codes, metrics.inputs[places])
    if grouping.stack_n > 0:
        codes = _pairs(codes, _stack_codes(metrics)[places])
    codes, first_of_code = _dense(codes)
    numbers: dict[Hashable, int] = {}
    first: list[int] = []
    table = np.empty(len(first_of_code), np.int64)
    for code in np.argsort(first_of_code, kind="stable").tolist():
        place = int(places[first_of_code[code]])
        table[code] = numbers.setdefault(_key(metrics, place, grouping), len(numbers))
        if table[code] == len(first):
            first.append(place)
    return table[codes], list(numbers), first


def _key(metrics: Metrics, place: int, grouping: Grouping) -> Hashable:
    number = int(metrics.kind[place])
    kind = metrics.kind_of(number)
    shapes = ""
    stack: tuple[str, ...] = ()
    if grouping.shapes:
        shapes = str(plain_shapes(metrics.input_record(number, int(metrics.inputs[place])).shapes))
    if grouping.stack_n > 0:
        stack = tuple(metrics.stack_of(place)[: grouping.stack_n])
    return kind.label, kind.category, kind.overload if grouping.overloads else "", shapes, stack


def _stack_codes(metrics: Metrics) -> Ints:
    """A number per stack. Python functions have none recorded; theirs follow from the function around them."""
    codes = metrics.stack.astype(np.int64)
    if not metrics.is_python.any():
        return codes
    mixed: Ints = np.where(metrics.is_python, codes.max() + 2 + metrics.python_parents, codes)
    return mixed


def _pairs(codes: Ints, others: NDArray[Any]) -> Ints:
    """One number for each pair of numbers."""
    codes, _ = _dense(codes)
    width = int(others.max()) + 1 if len(others) else 1
    pairs: Ints = codes * width + others
    return pairs


def _dense(codes: Ints) -> tuple[Ints, Ints]:
    """Codes renumbered without gaps, and where each first occurs."""
    count = len(codes)
    bound = int(codes.max()) + 1 if count else 0
    if bound <= 4 * count + 65536:
        seen = np.zeros(bound, bool)
        seen[codes] = True
        dense = (np.cumsum(seen) - 1)[codes]
        size = int(seen.sum())
    else:
        values, dense = np.unique(codes, return_inverse=True)
        size = len(values)
    first = np.empty(size, np.int64)
    first[dense[::-1]] = np.arange(count - 1, -1, -1)
    return dense, first
