"""Events and averages as plain data: dicts, CSV, JSON, a pandas frame, and the plain Chrome array."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...core import files
from .texts import json_encoder, json_text, writable

AVERAGE_FIELDS = (
    "key count overload_name cpu_time cpu_time_total self_cpu_time_total device_time device_time_total "
    "self_device_time_total cpu_memory_usage self_cpu_memory_usage device_memory_usage self_device_memory_usage "
    "flops all_flops node_id scope is_user_annotation input_shapes stack"
).split()
EVENT_FIELDS = (
    "id name overload_name activity_type scope thread start_us end_us cpu_time_total self_cpu_time_total "
    "cpu_memory_usage self_cpu_memory_usage flops all_flops sequence_nr fwd_thread parent_id is_user_annotation "
    "is_python_function input_shapes input_dtypes concrete_inputs stack"
).split()

_json = json_encoder(default=str)

# How formulas begin.
_FORMULA = frozenset("=+-@\t\r")

_DERIVED: dict[str, Callable[[Any], Any]] = {
    "start_us": lambda event: event.time_range.start,
    "end_us": lambda event: event.time_range.end,
    "parent_id": lambda event: None if event.cpu_parent is None else event.cpu_parent.id,
}


def fields_of(events: Sequence[Any]) -> list[str]:
    """The fields that suit what is in the list."""
    return EVENT_FIELDS if events and hasattr(events[0], "time_range") else AVERAGE_FIELDS


def row_of(event: Any, fields: Iterable[str]) -> dict[str, Any]:
    return {field: _DERIVED[field](event) if field in _DERIVED else getattr(event, field, None) for field in fields}


def as_dicts(events: Sequence[Any]) -> list[dict[str, Any]]:
    fields = fields_of(events)
    return [row_of(event, fields) for event in events]


def no_formula(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula, behind an apostrophe; everything else as it is."""
    return f"'{value}" if isinstance(value, str) and value[:1] in _FORMULA else value


class _Lines(io.StringIO):
    """Takes lines that end in CR and LF, and ends them in LF."""

    def write(self, line: str) -> int:
        return super().write(line[:-2] + "\n")


def csv_lines(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as lines of CSV."""
    text = _Lines()
    # A text with a CR in it is quoted only where lines end in one.
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue()


def as_csv(events: Sequence[Any]) -> str:
    fields = fields_of(events)
    lines: list[Iterable[Any]] = [fields]
    for event in events:
        row = row_of(event, fields)
        row["stack"] = ";".join(row["stack"] or ())
        lines.append(map(no_formula, row.values()))
    return csv_lines(lines)


def as_json(events: Sequence[Any]) -> str:
    return _json(as_dicts(events))


def as_frame(events: Sequence[Any]) -> Any:
    """A pandas.DataFrame; needs pandas."""
    try:
        import pandas  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("to_pandas() needs pandas: pip install pandas") from error
    return pandas.DataFrame(as_dicts(events), columns=fields_of(events))


def write_text(text: str, path: str | os.PathLike[str] | None) -> str | None:
    """The text itself, or None once it is in the file at `path`."""
    if path is None:
        return text
    files.write_text(path, writable(text))
    return None


def write_event_array(events: Iterable[Any], path: str | os.PathLike[str], device: str) -> None:
    """The plain Chrome array of an event list: one slice an event, an arrow for each kernel it started."""
    rows: list[str] = []
    flow = 0
    for event in events:
        if event.trace_name is None:
            continue
        tid = f" node_id:{event.node_id}, thread_id:{event.thread} " if event.is_remote else event.thread
        head = {"name": event.trace_name, "ph": "X", "ts": event.time_range.start}
        tail: dict[str, Any] = {"tid": tid, "pid": "CPU functions", "args": {}}
        rows.append(json_text({**head, "dur": event.time_range.elapsed_us(), **tail}))
        for _ in event.kernels:
            rows.append(json_text({**head, "ph": "s", **tail, "id": flow, "cat": f"cpu_to_{device}"}))
            flow += 1
    files.write_text(path, "[" + ", ".join(rows) + "]")
