"""Rows of `mindtorch table` as text, JSON, CSV or Markdown."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from ...profiler.export import rows as plain
from ...profiler.lists import EventList
from ...profiler.units import format_memory, format_time_in

_ROWS = 100


def _limited(rows: EventList, options: argparse.Namespace) -> EventList:
    return rows if options.limit is None else rows._like(rows[: max(options.limit, 0)])


def text(rows: EventList, options: argparse.Namespace) -> str:
    if not rows:
        return ""
    limit = _ROWS if options.limit is None else options.limit
    widths: dict[str, Any] = {"max_name_column_width": None, "max_src_column_width": None} if options.wide else {}
    return rows.table(row_limit=limit, time_unit=options.unit, **widths)


def as_json(rows: EventList, options: argparse.Namespace) -> str:
    return json.dumps(plain.as_dicts(_limited(rows, options)), indent=1, default=str) + "\n"


def as_csv(rows: EventList, options: argparse.Namespace) -> str:
    return plain.as_csv(_limited(rows, options))


def markdown(rows: EventList, options: argparse.Namespace) -> str:
    shown = _limited(rows, options)
    whole = sum(row.self_cpu_time_total for row in rows) or 1
    cells: list[tuple[str, ...]] = [("Name", "Self CPU", "Self %", "CPU total", "Avg", "Calls")]
    extra = any(row.self_cpu_memory_usage for row in rows)
    if extra:
        cells[0] += ("Self memory",)
    for row in shown:
        times = (row.self_cpu_time_total, row.cpu_time_total, row.cpu_time)
        own, total, average = (format_time_in(value, options.unit) for value in times)
        line = (_cell(_named(row)), own, f"{row.self_cpu_time_total / whole:.1%}", total, average, str(row.count))
        cells.append((*line, format_memory(row.self_cpu_memory_usage)) if extra else line)
    return markdown_table(cells)


def _named(row: Any) -> str:
    """The name with what else tells the row apart."""
    parts = [row.key, str(row.input_shapes) if row.input_shapes else "", *(row.stack or [])[:1]]
    return " ".join(part for part in parts if part)


def _cell(text: str) -> str:
    return "`" + text.replace("|", "\\|").replace("`", "'").replace("\n", " ") + "`"


def markdown_table(lines: list[tuple[str, ...]]) -> str:
    """A Markdown table, the first column to the left, numbers to the right."""
    rule = ("---", *["---:"] * (len(lines[0]) - 1))
    return "".join("| " + " | ".join(line) + " |\n" for line in [lines[0], rule, *lines[1:]])


FORMATS: dict[str, Callable[[EventList, argparse.Namespace], str]] = {
    "text": text,
    "json": as_json,
    "csv": as_csv,
    "markdown": markdown,
}
