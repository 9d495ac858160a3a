"""Rows of `mindtorch table` as text, JSON, CSV or Markdown. Terminals too narrow for torch's table get a smaller one."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from ...profiler.analyse.units import format_memory, format_time_in, format_time_share
from ...profiler.api.lists import EventList
from ...profiler.export import rows as plain
from ...profiler.export.texts import json_encoder
from ...profiler.report.table import TableOptions, render
from ..terminal import BOLD, cut, harmless, paint, visible, width_of_terminal

_json = json_encoder(indent=1, default=str)
_ROWS = 100
# Names in Markdown end here: a page of text is read by nobody.
_LONGEST = 200
_NARROWEST = 40


def _limited(rows: EventList, options: argparse.Namespace) -> EventList:
    return rows if options.limit is None else rows._like(rows[: max(options.limit, 0)])


def text(rows: EventList, options: argparse.Namespace, whole: EventList) -> str:
    if not rows:
        return ""
    with_visible_names(rows)
    width = width_of_terminal()
    full = _full(rows, options, whole)
    if options.wide or width is None or width < _NARROWEST or len(full.partition("\n")[0].rstrip()) <= width:
        return full
    return narrow(rows, whole, width, _ROWS if options.limit is None else max(options.limit, 0), options.unit)


def with_visible_names(rows: EventList) -> None:
    """Make names harmless to terminals."""
    for row in rows:
        row.key = visible(row.key)
        row.overload_name = visible(row.overload_name or "")
        row.stack = [visible(entry) for entry in row.stack or ()]


def narrow(rows: EventList, whole: EventList, width: int, limit: int, unit: str | None = None) -> str:
    """The table for a terminal of so many columns: the figures that matter most, names last and cut."""
    whole_us = sum(row.self_cpu_time_total for row in whole)
    lines = [paint(f"{'Self':>10} {'Self %':>7} {'Total':>10} {'Calls':>8}  Name", BOLD)]
    for row in rows[:limit]:
        share = format_time_share(row.self_cpu_time_total, whole_us)
        times = [format_time_in(value, unit) for value in (row.self_cpu_time_total, row.cpu_time_total)]
        name = " ".join([row.key, str(row.input_shapes) if row.input_shapes else "", *row.stack[:1]]).strip()
        lines.append(cut(f"{times[0]:>10} {share:>7} {times[1]:>10} {row.count:>8}  {name}", width))
    lines.append(f"Self CPU time total: {format_time_in(whole_us, unit)}; --wide shows all columns")
    return "\n".join(lines) + "\n"


def _full(rows: EventList, options: argparse.Namespace, whole: EventList) -> str:
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
    return _json(plain.as_dicts(_limited(rows, options))) + "\n"


def as_csv(rows: EventList, options: argparse.Namespace, whole: EventList) -> str:
    return harmless(plain.as_csv(_limited(rows, options)))


def markdown(rows: EventList, options: argparse.Namespace, whole: EventList) -> str:
    whole_us = sum(row.self_cpu_time_total for row in whole) or 1

    def time(attribute: str) -> Callable[[Any], str]:
        return lambda row: format_time_in(getattr(row, attribute), options.unit)

    columns: list[tuple[str, Callable[[Any], str]]] = [
        ("Name", lambda row: code(_named(row))),
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


def code(text: str) -> str:
    """A name in a cell of a Markdown table: as it is, and nothing but text."""
    return "`" + cut(visible(text), _LONGEST).replace("|", "\\|").replace("`", "'") + "`"


def markdown_table(lines: list[tuple[str, ...]], text_columns: int = 1) -> str:
    """A Markdown table, columns of text first and to the left, numbers to the right."""
    rule = ("---",) * text_columns + ("---:",) * (len(lines[0]) - text_columns)
    return "".join("| " + " | ".join(line) + " |\n" for line in [lines[0], rule, *lines[1:]])


# Each takes the rows to write, the options, and all rows, of which shares are taken.
FORMATS: dict[str, Callable[[EventList, argparse.Namespace, EventList], str]] = {
    "text": text,
    "json": as_json,
    "csv": as_csv,
    "markdown": markdown,
}
