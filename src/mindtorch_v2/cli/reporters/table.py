"""Rows of `mindtorch table` as text, JSON, CSV or Markdown."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from ...profiler.export import rows as plain
from ...profiler.lists import EventList
from ...profiler.table import TableOptions, render
from ...profiler.units import format_memory, format_time_in

_ROWS = 100


def _limited(rows: EventList, options: argparse.Namespace) -> EventList:
    return rows if options.limit is None else rows._like(rows[: max(options.limit, 0)])


def text(rows: EventList, options: argparse.Namespace, whole: EventList) -> str:
    if not rows:
        return ""
    widths: dict[str, Any] = {"max_name_column_width": None, "max_src_column_width": None} if options.wide else {}
    chosen = TableOptions(
        row_limit=_ROWS if options.limit is None else max(options.limit, 0),
        time_unit=options.unit,
        with_memory=rows._profile_memory,
        with_flops=rows._with_flops,
        **widths,
    )
    return render(rows, chosen, whole)


def as_json(rows: EventList, options: argparse.Namespace, whole: EventList) -> str:
    return json.dumps(plain.as_dicts(_limited(rows, options)), indent=1, default=str) + "\n"


def as_csv(rows: EventList, options: argparse.Namespace, whole: EventList) -> str:
    return plain.as_csv(_limited(rows, options))


def markdown(rows: EventList, options: argparse.Namespace, whole: EventList) -> str:
    whole_us = sum(row.self_cpu_time_total for row in whole) or 1

    def time(attribute: str) -> Callable[[Any], str]:
        return lambda row: format_time_in(getattr(row, attribute), options.unit)

    columns: list[tuple[str, Callable[[Any], str]]] = [
        ("Name", lambda row: _cell(_named(row))),
        ("Self CPU", time("self_cpu_time_total")),
        ("Self %", lambda row: f"{row.self_cpu_time_total / whole_us:.1%}"),
        ("CPU total", time("cpu_time_total")),
        ("Avg", time("cpu_time")),
        ("Calls", lambda row: str(row.count)),
    ]
    if any(row.self_device_time_total for row in rows):
        columns.append(("Self device", time("self_device_time_total")))
    if any(row.self_cpu_memory_usage for row in rows):
        columns.append(("Self memory", lambda row: format_memory(row.self_cpu_memory_usage)))
    titles = tuple(title for title, _ in columns)
    return markdown_table([titles, *(tuple(cell(row) for _, cell in columns) for row in _limited(rows, options))])


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


# Each takes the rows to write, the options, and all rows, of which shares are taken.
FORMATS: dict[str, Callable[[EventList, argparse.Namespace, EventList], str]] = {
    "text": text,
    "json": as_json,
    "csv": as_csv,
    "markdown": markdown,
}
