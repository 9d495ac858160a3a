"""The regions of a trace as columns: what the fields of an event mean, checked and numbered for many events at once.

It knows no file. Events that make no sense are a ValueError, a TypeError or a KeyError, and leave nothing behind.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import tap
from ...core.brief import brief
from ..analyse.device_links import is_launch
from ..capture.capture import CPU_OP, MEMORY_EVENT_NAME, MEMORY_MARK, USER_ANNOTATION, Kind
from ..record.config import DeviceType
from .arguments import OF_LAUNCHES, OF_MODULES, OF_OPS, OF_SEQUENCES, OF_STACKS, InputTable
from .events import column, required
from .function_stacks import StackTexts

Ints = NDArray[np.int64]

DEVICE_CATEGORIES = frozenset(
    ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync", "hpu_op", "mtia_ccp_events")
)
LIMIT_NS = 1 << 61
# Beyond it a fraction of a microsecond has no room beside the digits before it.
_COARSE_US = (1 << 53) / 1000
_LARGEST_THREAD = 1 << 62
# Events tell their thread by a number of 16 bits.
_MOST_LANES = (1 << 15) - 1
_EVALUATE = "autograd::engine::evaluate_function: "
_DEVICE_TYPES = {
    "xpu": DeviceType.XPU,
    "mtia": DeviceType.MTIA,
    "hpu": DeviceType.HPU,
    "privateuse1": DeviceType.PrivateUse1,
}
_NO_MODULE = (-1, "")
_COLUMNS = {
    "start": np.int64,
    "end": np.int64,
    "seq": np.int64,
    "link": np.int64,
    "kind": np.int32,
    "inputs": np.int32,
    "stack": np.int32,
    "lane": np.int16,
}


class CoarseTimeError(ValueError):
    """Times have more digits than a float holds."""


# What single fields say


def nanoseconds_of(microseconds: Any) -> int:
    """Exact for times below 2**53 ns, which is why traces count from a base, and for those of all digits."""
    is_number = isinstance(microseconds, (int, float, Decimal)) and not isinstance(microseconds, bool)
    if not is_number or microseconds != microseconds:
        raise ValueError(f"expected a time in microseconds, got {brief(microseconds)}")
    if abs(microseconds) >= LIMIT_NS // 1000:
        raise ValueError("a time out of range")
    return microseconds * 1000 if isinstance(microseconds, int) else round(microseconds * 1000)


def nanoseconds(microseconds: list[Any]) -> Ints:
    """Times in nanoseconds."""
    types = set(map(type, microseconds))
    if types == {float}:
        times = np.array(microseconds, np.float64)
        if (np.abs(times) < _COARSE_US).all():
            return np.rint(times * 1000).astype(np.int64)
    elif types == {int} and min(microseconds) > -(LIMIT_NS // 1000) and max(microseconds) < LIMIT_NS // 1000:
        return np.array(microseconds, np.int64) * 1000
    found = np.array([nanoseconds_of(time) for time in microseconds], np.int64)
    if any(type(time) is float and abs(time) >= _COARSE_US for time in microseconds):
        raise CoarseTimeError
    return found


def text_of(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a text, got {brief(value)}")
    return value


def object_of(value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"expected an object as arguments, got {brief(value)}")
    return value or {}


def whole(value: Any, otherwise: int) -> int:
    """A whole number of 64 bits; `otherwise` for anything that is none."""
    return value if type(value) is int and abs(value) < 1 << 63 else otherwise


def wholes(values: list[Any], otherwise: int) -> Ints:
    if set(map(type, values)) == {int}:
        try:
            return np.array(values, np.int64)
        except OverflowError:
            pass
    return np.array([whole(value, otherwise) for value in values], np.int64)


def threads_of(events: list[Any]) -> list[tuple[int | str, int | str]]:
    """The process and thread of events. Python takes true for 1 and 1.0 for 1; only the latter are the same number."""
    parts = []
    for key in ("pid", "tid"):
        values = column(events, key, 0)
        if set(map(type, values)) != {int}:
            values = [_thread_part(value) for value in values]
        parts.append(values)
    return list(zip(*parts))


def _thread_part(value: Any) -> int | str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) or (type(value) is int and abs(value) < _LARGEST_THREAD):
        return value
    raise ValueError(f"expected a number of 62 bits or a text as pid and tid, got {brief(value)}")


class Regions:
    """Collects regions, and numbers for what they share."""

    def __init__(self) -> None:
        # By process and thread, the number of the lane and whether it is one of a device.
        self.lanes: dict[tuple[Any, Any], int] = {}
        self.is_device: list[bool] = []
        self.kinds: list[Kind] = [Kind(MEMORY_EVENT_NAME, "", 0, MEMORY_MARK, None, None, None, -1, "")]
        self._kind_numbers: dict[tuple[Any, ...], int] = {}
        self.inputs = InputTable()
        self.stacks = StackTexts()
        self.device_type = DeviceType.CUDA
        self.backward: set[str] = set()
        self.negative = 0
        self._columns: dict[str, list[NDArray[Any]]] = {name: [] for name in _COLUMNS}

    def add(self, events: list[Any], categories: list[Any]) -> None:
        """Add events that are regions of these categories, in the order of the file."""
        start = nanoseconds(required(events, "ts"))
        length = nanoseconds(column(events, "dur", 0))
        args = column(events, "args", None)
        if set(map(type, args)) != {dict}:
            args = [object_of(value) for value in args]
        numbers, flags = self.inputs.intern(args)
        inputs = np.array(numbers, np.int32)
        if flags & OF_LAUNCHES:
            self._correlate(inputs, args)
        modules = list(map(_module_of, args)) if flags & OF_MODULES else None
        kind = self.kind_numbers(categories, required(events, "name"), modules)
        lane = self.lane_numbers(events, categories, args)
        nothing: Any = np.zeros(len(events), np.int32)
        link = wholes([own.get("External id", 0) for own in args], 0) if flags & OF_OPS else nothing
        seq = wholes([own.get("Sequence number", -1) for own in args], -1) if flags & OF_SEQUENCES else nothing - 1
        stack = self._stack_numbers(args) if flags & OF_STACKS else nothing
        for category in set(categories):
            if is_launch(category):
                self.device_type = _DEVICE_TYPES.get(category.partition("_")[0], self.device_type)
        negative = length < 0
        if negative.any():
            self.negative += int(negative.sum())
            length[negative] = 0
        found = (start, start + length, seq, link, kind, inputs, stack, lane)
        for (name, dtype), values in zip(_COLUMNS.items(), found):
            self._columns[name].append(np.asarray(values, dtype))

    def _correlate(self, inputs: NDArray[np.int32], args: list[dict[str, Any]]) -> None:
        """Give events that tell a correlation id numbers of inputs with that id."""
        correlation = [own.get("correlation") for own in args]
        correlations = wholes([0 if value is None else value for value in correlation], 0)
        launched = np.flatnonzero(correlations)
        inputs[launched] = self.inputs.correlated(inputs[launched], correlations[launched])
        if len(launched) + correlation.count(None) < len(args):
            # What is no number of a launch stays among the arguments.
            for place in np.flatnonzero(correlations == 0).tolist():
                if "correlation" in args[place]:
                    inputs[place] = self.inputs.intern_with(args[place], ("correlation",))

    def _stack_numbers(self, args: list[dict[str, Any]]) -> Any:
        texts = [own.get("Call stack", "") for own in args]
        if texts.count("") == len(texts):
            return np.zeros(len(texts), np.int32)
        return [self.stacks.intern(text) if isinstance(text, str) else 0 for text in texts]

    def kind_numbers(
        self, categories: list[Any], names: list[Any], modules: list[tuple[int, str]] | None = None
    ) -> list[int]:
        """The kinds of events by category, name, and module with its path."""
        known = self._kind_numbers
        keys: list[Any] = list(zip(categories, names) if modules is None else zip(categories, names, modules))
        try:
            return [known[key] for key in keys]
        except KeyError:
            return [known[key] if key in known else self._kind(key) for key in keys]

    def _kind(self, key: tuple[Any, ...]) -> int:
        category, name = text_of(key[0]), text_of(key[1])
        module, path = key[2] if len(key) > 2 else _NO_MODULE
        plain = (category, name) if (module, path) == _NO_MODULE else key
        if plain in self._kind_numbers:
            return self._kind_numbers.setdefault(key, self._kind_numbers[plain])
        found = self._kind_numbers[plain] = self._kind_numbers[key] = len(self.kinds)
        overload, scope = "", tap.FUNCTION
        if category == CPU_OP and name.startswith("aten::"):
            name, _, overload = name.partition(".")
        if category == USER_ANNOTATION:
            scope = tap.USER_SCOPE
        if name.startswith(_EVALUATE):
            self.backward.add(name.removeprefix(_EVALUATE))
        self.kinds.append(Kind(name, overload, scope, category, None, None, None, module, path))
        return found

    def lane_numbers(
        self,
        events: list[dict[str, Any]],
        categories: list[Any] | None = None,
        args: list[dict[str, Any]] | None = None,
    ) -> list[int]:
        """The numbers of the lanes of events; the first event of a lane tells whether it is one of a device."""
        lanes = self.lanes
        keys = threads_of(events)
        try:
            return [lanes[key] for key in keys]
        except KeyError:
            pass
        for place, key in enumerate(keys):
            if key not in lanes:
                key = _thread_part(key[0]), _thread_part(key[1])
                if len(lanes) == _MOST_LANES:
                    raise ValueError(f"more than {_MOST_LANES} threads")
                lanes[key] = len(lanes)
                is_device = args is not None and "stream" in args[place] and "device" in args[place]
                self.is_device.append(is_device or (categories is not None and categories[place] in DEVICE_CATEGORIES))
        return [lanes[key] for key in keys]

    def tables(self) -> list[dict[str, NDArray[Any]]]:
        """The columns of each lane, in the order in which its regions ended; of equal ones the first in the file is the
        outer one. What was collected is used up."""
        whole = {name: np.concatenate([np.zeros(0, kind), *self._columns[name]]) for name, kind in _COLUMNS.items()}
        self._columns.clear()
        lane = whole.pop("lane")
        order = np.lexsort((-np.arange(len(lane)), -whole["start"], whole["end"], lane))
        bounds = np.searchsorted(lane[order], np.arange(len(self.lanes) + 1))
        for name in whole:
            whole[name] = whole[name][order].astype(_COLUMNS[name], copy=False)
        pairs = zip(bounds[:-1].tolist(), bounds[1:].tolist())
        return [{name: column[low:high] for name, column in whole.items()} for low, high in pairs]


def _module_of(args: dict[str, Any]) -> tuple[int, str]:
    if "Python module id" not in args and "Module path" not in args:
        return _NO_MODULE
    module, path = whole(args.get("Python module id"), -1), args.get("Module path")
    return module if module < 1 << 31 else -1, path if isinstance(path, str) else ""
