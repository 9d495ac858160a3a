"""Events as flat columns with the names that event lists use: what CSV and Parquet files hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analyse.metrics import Metrics, is_annotation
from ..capture.capture import PYTHON_FUNCTION, Kind
from ..record.config import DeviceType


def columns_of_events(metrics: Metrics) -> dict[str, Sequence[Any] | NDArray[Any]]:
    """A value for each event in each column; what only some events have is None in the others."""
    tracks = metrics.capture.tracks
    regions = ~metrics.is_mark
    inner = metrics.parent >= 0
    return {
        "id": metrics.ids,
        "name": _of_kinds(metrics, lambda kind: kind.label),
        "overload_name": _of_kinds(metrics, lambda kind: kind.overload),
        "activity_type": _of_kinds(metrics, lambda kind: kind.category),
        "scope": np.array(_of_kinds(metrics, lambda kind: kind.scope), np.int64),
        "process": _of_tracks(metrics, [track.pid or metrics.capture.pid for track in tracks]),
        "thread": _of_tracks(metrics, [track.index for track in tracks]),
        "device_type": _of_tracks(metrics, [DeviceType(track.device_type).name for track in tracks]),
        "start_us": metrics.start_ns / 1000,
        "end_us": metrics.end_ns / 1000,
        "cpu_time_total": np.where(metrics.is_device, 0, metrics.total_ns) / 1000,
        "self_cpu_time_total": np.where(metrics.is_device, 0, metrics.self_ns) / 1000,
        "device_time_total": metrics.device_ns / 1000,
        "self_device_time_total": metrics.self_device_ns / 1000,
        "cpu_memory_usage": metrics.memory,
        "self_cpu_memory_usage": metrics.self_memory,
        "flops": metrics.flops,
        "all_flops": metrics.all_flops,
        "sequence_nr": metrics.seq,
        "fwd_thread": metrics.forward_thread,
        "parent_id": [
            place if has else None for place, has in zip(metrics.ids[metrics.parent].tolist(), inner.tolist())
        ],
        "is_user_annotation": _of_kinds(metrics, is_annotation),
        "is_python_function": _of_kinds(metrics, lambda kind: kind.category == PYTHON_FUNCTION),
        "input_shapes": _of_inputs(metrics, regions, "shapes"),
        "input_dtypes": _of_inputs(metrics, regions, "dtypes"),
        "concrete_inputs": _of_inputs(metrics, regions, "concrete"),
        "stack": _stacks(metrics),
    }


def _of_kinds(metrics: Metrics, read: Callable[[Kind], Any]) -> list[Any]:
    kinds = metrics.kind.tolist()
    known = {number: read(metrics.kind_of(number)) for number in set(kinds)}
    return [known[number] for number in kinds]


def _of_tracks(metrics: Metrics, values: list[Any]) -> list[Any]:
    return [values[track] for track in metrics.track.tolist()]


def _of_inputs(metrics: Metrics, regions: NDArray[np.bool_], part: str) -> list[str | None]:
    """Text of one part of the inputs, made once for all events that share them."""
    known: dict[tuple[int, int], str | None] = {}
    found: list[str | None] = []
    for kind, inputs, is_region in zip(metrics.kind.tolist(), metrics.inputs.tolist(), regions.tolist()):
        if not (inputs and is_region):
            found.append(None)
            continue
        if (kind, inputs) not in known:
            values = getattr(metrics.input_record(kind, inputs), part)
            known[kind, inputs] = str(_listed(values)) if values else None
        found.append(known[kind, inputs])
    return found


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, (list, tuple)) else value


def _stacks(metrics: Metrics) -> list[str | None]:
    known: dict[int, str | None] = {0: None}
    found: list[str | None] = []
    for place, (number, is_python) in enumerate(zip(metrics.stack.tolist(), metrics.is_python.tolist())):
        if is_python:
            found.append(";".join(metrics.stack_of(place)) or None)
            continue
        if number not in known:
            known[number] = ";".join(metrics.stack_of(place)) or None
        found.append(known[number])
    return found
