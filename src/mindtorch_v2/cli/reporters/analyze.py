"""What `mindtorch analyze` found as text, JSON, CSV or Markdown. A table is a record: where its rows are, and its columns."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from ...profiler.analyse.units import format_memory, format_time
from ...profiler.export.rows import csv_lines, no_formula
from ...profiler.export.texts import json_encoder, writable
from ..terminal import BOLD, cut, harmless, paint, visible, width_of_terminal
from .table import code, markdown_table

_json = json_encoder(indent=1)
_ROWS = 10
_NAME_WIDTH, _LEAST_NAME_WIDTH = 60, 20


def _time(value: Any) -> str:
    return "-" if value is None else format_time(value)


def _bytes(value: Any) -> str:
    return format_memory(round(value))


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _rate(value: Any) -> str:
    return f"{value / 1e12:,.2f} T/s"


def _list(value: Any) -> str:
    return ", ".join(map(str, value))


def _innermost(value: Any) -> str:
    """The end of a stack, where the time went."""
    return " < ".join(reversed(value[-3:]))


def _chain(value: Any) -> str:
    return " → ".join(name.partition("<")[0].partition("(")[0].removeprefix("void ") for name in value)


class Column(NamedTuple):
    title: str
    key: str
    show: Callable[[Any], str] = str

    @property
    def is_text(self) -> bool:
        return self.show in (str, _list, _innermost, _chain)


class Table(NamedTuple):
    title: str
    columns: tuple[Column, ...]


def _times(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name.replace("_", " ").capitalize(), f"{name}_us", _time) for name in names)


_TIMED = (
    Column("Name", "name"),
    Column("Device self", "device_self_us", _time),
    Column("Device total", "device_total_us", _time),
    Column("CPU self", "cpu_self_us", _time),
    Column("CPU total", "cpu_total_us", _time),
    Column("Calls", "calls", _number),
)
_PLACE = (Column("Device", "device", _number), Column("Stream", "stream", _number))
# By the key in what was found; text columns come first.
TABLES = {
    "devices": Table("Devices", (
        Column("Name", "name"), Column("Device", "device", _number),
        *_times("span", "busy", "idle", "compute", "communication", "copy", "overlap"),
    )),
    "limits": Table("What limits the run", (
        Column("Device", "device", _number),
        *_times("device", "communication", "copies", "input", "synchronisation", "host"),
    )),
    "streams": Table("Streams", (*_PLACE, *_times("busy", "idle", "host_wait", "kernel_wait", "other"))),
    "families": Table("Kernels by family", (
        Column("Family", "family"), Column("Time", "device_us", _time), Column("Calls", "calls", _number),
    )),
    "kernels": Table("Kernels", (
        Column("Name", "name"), Column("Family", "family"), Column("Operators", "operators", _list),
        Column("Time", "device_us", _time), Column("Calls", "calls", _number),
    )),
    "operators": Table("Operators", _TIMED),
    "modules": Table("Modules", _TIMED),
    "launches": Table("Launches", (
        Column("Launches", "count", _number), Column("Call, median", "call_median_us", _time),
        Column("Calls, sum", "call_total_us", _time), Column("Delay, median", "delay_median_us", _time),
        Column("Delay, 90 %", "delay_p90_us", _time), Column("Kernels shorter than their call", "short_kernels", _number),
    )),
    "queue": Table("Queues", (
        *_PLACE, Column("Mean", "mean", _number), Column("Max", "max", _number), Column("Full", "full_us", _time),
    )),
    "copies": Table("Copies", (
        Column("Direction", "direction"), Column("Time", "us", _time), Column("Count", "count", _number),
        Column("Bytes", "bytes", _bytes), Column("GB/s", "gb_per_s", _number),
        Column("Of pageable memory", "pageable_us", _time),
    )),
    "critical_path": Table("Critical path", (
        Column("Kind", "kind"), Column("Name", "name"), Column("Time", "us", _time), Column("Times", "count", _number),
        Column("Gain without it", "gain_us", _time),
    )),
    "idle": Table("What the CPU did while the device was idle", (
        Column("Where, innermost first", "stack", _innermost), Column("Device", "device", _number),
        Column("Time", "us", _time),
    )),
    "memory": Table("Memory", (
        Column("Held by", "name"), Column("Device", "device", _number), Column("At the peak", "bytes", _bytes),
    )),
    "sequences": Table("Sequences of small kernels", (
        Column("Kernels", "kernels", _chain), Column("Operators", "operators", _list), Column("Times", "count", _number),
        Column("Time", "device_us", _time), Column("Between them", "between_us", _time),
    )),
    "roofline": Table("Roofline", (
        Column("Operator", "operator"), Column("Shapes", "shapes"), Column("Type", "dtype"), Column("Bound", "bound"),
        Column("Time", "us", _time), Column("Calls", "calls", _number), Column("Reached", "flops_per_s", _rate),
        Column("Roof", "roof_flops_per_s", _rate),
    )),
}  # fmt: skip


def rows_of(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The rows of a table."""
    if name == "families":
        return _families(found["kernels"])
    if name == "launches":
        return [row for row in found["launches"] if row]
    if name == "roofline":
        return [row for part in found["roofline"] if part for row in part["rows"]]
    if name == "memory":
        return [{**holder, "device": row["device"]} for row in found["memory"] for holder in row["holders"]]
    return list(found[name])


def _families(kernels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    sums: dict[str, dict[str, Any]] = {}
    for row in kernels:
        family = sums.setdefault(row["family"], {"family": row["family"], "device_us": 0.0, "calls": 0})
        family["device_us"] += row["device_us"]
        family["calls"] += row["calls"]
    return sorted(sums.values(), key=lambda row: -row["device_us"])


def _chosen(found: dict[str, Any], options: argparse.Namespace) -> list[tuple[Table, list[dict[str, Any]], int]]:
    """Tables that have rows, the rows to show, and how many there are."""
    names = [options.table] if options.table else list(TABLES)
    limit = _ROWS if options.limit is None else max(options.limit, 0)
    parts = [(TABLES[name], rows_of(found, name)) for name in names]
    return [(table, rows[:limit], len(rows)) for table, rows in parts if rows or options.table]


def _cells(table: Table, row: dict[str, Any]) -> list[str]:
    return [column.show(row[column.key]) for column in table.columns]


def text(found: dict[str, Any], options: argparse.Namespace) -> str:
    width = width_of_terminal()
    blocks = [] if options.table else [paint(visible(found["answer"]), BOLD)]
    for table, rows, count in _chosen(found, options):
        more = f" ({len(rows)} of {count:,})" if count > len(rows) else ""
        blocks.append("\n".join([paint(table.title + more, BOLD), *_lines(table, rows, width)]))
        if table is TABLES["operators"] and found["unattributed_us"]:
            blocks[-1] += (
                f"\n{format_time(found['unattributed_us'])} on devices that no operator of the trace asked for"
            )
    return "\n\n".join(blocks) + "\n"


def _lines(table: Table, rows: list[dict[str, Any]], width: int | None) -> list[str]:
    """Aligned columns; texts share what numbers leave of a terminal's width."""
    lines = [
        [column.title for column in table.columns],
        *([visible(cell) for cell in _cells(table, row)] for row in rows),
    ]
    texts = [place for place, column in enumerate(table.columns) if column.is_text]
    widths = [max(len(line[place]) for line in lines) for place in range(len(table.columns))]
    taken = sum(widths[place] + 2 for place in range(len(widths)) if place not in texts)
    room = _NAME_WIDTH if width is None else max((width - taken) // max(len(texts), 1) - 2, _LEAST_NAME_WIDTH)
    for place in texts:
        widths[place] = min(widths[place], room)
    return [
        "  ".join(
            f"{cut(cell, widths[place]):<{widths[place]}}" if place in texts else f"{cell:>{widths[place]}}"
            for place, cell in enumerate(line)
        ).rstrip()
        for line in lines
    ]


def markdown(found: dict[str, Any], options: argparse.Namespace) -> str:
    blocks = [] if options.table else [visible(found["answer"])]
    for table, rows, _ in _chosen(found, options):
        texts = sum(column.is_text for column in table.columns)
        lines = [tuple(column.title for column in table.columns)]
        for row in rows:
            cells = _cells(table, row)
            shown = zip(table.columns, cells)
            lines.append(tuple(code(cell) if column.is_text and cell else cell for column, cell in shown))
        blocks.append(f"### {table.title}\n\n{markdown_table(lines, texts)}".rstrip("\n"))
    return "\n\n".join(blocks) + "\n"


def as_csv(found: dict[str, Any], options: argparse.Namespace) -> str:
    """One table, its numbers in microseconds and bytes as they are in JSON."""
    name = options.table or "operators"
    rows = rows_of(found, name)
    rows = rows if options.limit is None else rows[: max(options.limit, 0)]
    keys = [column.key for column in TABLES[name].columns]
    if any("file" in row for row in rows):
        keys = ["file", *keys]
    return harmless(csv_lines([keys, *([_plain(row.get(key)) for key in keys] for row in rows)]))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        value = "; ".join(map(str, value))
    return no_formula(writable(value)) if isinstance(value, str) else value


def as_json(found: dict[str, Any], options: argparse.Namespace) -> str:
    return _json(found if options.table is None else {options.table: rows_of(found, options.table)}) + "\n"


FORMATS: dict[str, Callable[[dict[str, Any], argparse.Namespace], str]] = {
    "text": text,
    "json": as_json,
    "csv": as_csv,
    "markdown": markdown,
}
