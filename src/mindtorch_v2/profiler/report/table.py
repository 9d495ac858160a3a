"""The table of `EventList.table()`: columns are records, one list for header, width and cells alike.

It knows the attributes of events, not where they come from.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..analyse.units import flops_scale, format_memory, format_time_in, format_time_share
from ..record.config import DeviceType

_WIDTH = 12
_GAP = "  "
_TIMED_DEVICES = (DeviceType.CUDA, DeviceType.PrivateUse1, DeviceType.MTIA, DeviceType.XPU)


@dataclass(frozen=True)
class TableOptions:
    """What the caller of `table()` may choose."""

    sort_by: str | None = None
    row_limit: float | None = 100
    max_src_column_width: int | None = 75
    max_name_column_width: int | None = 55
    max_shapes_column_width: int | None = 80
    header: str | None = None
    top_level_events_only: bool = False
    time_unit: str | None = None
    with_memory: bool = False
    with_flops: bool = False


@dataclass(frozen=True)
class Column:
    """One column: what stands over it, how wide it is, and what stands in the cell of an event."""

    title: str
    width: int
    cell: Callable[[Any], Any]
    align: str = ">"

    def format(self, value: Any) -> str:
        return f"{value!s:{self.align}{self.width}}" + _GAP


def build_table(
    events: Sequence[Any],
    sort_by: str | None = None,
    header: str | None = None,
    row_limit: float | None = 100,
    max_src_column_width: int | None = 75,
    max_name_column_width: int | None = 55,
    max_shapes_column_width: int | None = 80,
    with_flops: bool = False,
    profile_memory: bool = False,
    top_level_events_only: bool = False,
    time_unit: str | None = None,
) -> str:
    """The table of events that lie in any list."""
    widths = max_src_column_width, max_name_column_width, max_shapes_column_width
    return render(
        events,
        TableOptions(sort_by, row_limit, *widths, header, top_level_events_only, time_unit, profile_memory, with_flops),
    )


def render(events: Sequence[Any], options: TableOptions, whole: Sequence[Any] | None = None) -> str:
    """The events (or averages) as a table; an empty string if there are none. Shares are those of `whole`."""
    if not events:
        return ""
    rows = _sorted(events, options.sort_by)
    totals = _Totals(rows if whole is None else list(whole))
    columns = _columns(rows, options, totals)
    rule = "".join("-" * column.width + _GAP for column in columns)
    double = "=" * (len(rule) - len(_GAP))
    lines = []
    if options.header is not None:
        lines += [double, options.header]
    if options.top_level_events_only:
        lines += [double, "This report only display top-level ops statistics"]
    lines += [rule, "".join(column.format(column.title) for column in columns), rule]
    source = next((column for column in columns if column.title == "Source Location"), None)
    for event in _limited(rows, options):
        lines += _lines(event, columns, source)
    lines += [rule, f"Self CPU time total: {format_time_in(totals.cpu, options.time_unit)}"]
    if totals.has_device_time:
        lines.append(f"Self {totals.device} time total: {format_time_in(totals.on_device, options.time_unit)}")
    return "\n".join(lines) + "\n"


def render_html(events: Sequence[Any], options: TableOptions) -> str:
    """The same table for notebooks: every cell escaped, names and shapes in full."""
    if not events:
        return "<p>No events were recorded.</p>"
    rows = _sorted(events, options.sort_by)
    totals = _Totals(rows)
    columns = _columns(rows, options, totals)
    shown = _limited(rows, options)
    lines = ["<table><thead><tr>", *(_html_cell("th", column, column.title) for column in columns), "</tr></thead>"]
    lines.append("<tbody>")
    for event in shown:
        lines += ["<tr>", *(_html_cell("td", column, column.cell(event)) for column in columns), "</tr>"]
    rest = f" · {len(rows) - len(shown):,} more rows" if len(shown) < len(rows) else ""
    total = html.escape(f"Self CPU time total: {format_time_in(totals.cpu, options.time_unit)}{rest}")
    return "".join([*lines, f"</tbody></table><p>{total}</p>"])


def _html_cell(tag: str, column: Column, value: Any) -> str:
    side = "left" if column.align == "<" or column.title in ("Name", "Overload Name", "Input Shapes") else "right"
    return f'<{tag} style="text-align:{side}">{html.escape(str(value))}</{tag}>'


def _sorted(events: Sequence[Any], sort_by: str | None) -> list[Any]:
    if sort_by is None:
        return list(events)
    attribute = sort_by.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device")
    return sorted(events, key=lambda event: getattr(event, attribute), reverse=True)


def _limited(rows: list[Any], options: TableOptions) -> list[Any]:
    if options.top_level_events_only:
        rows = [event for event in rows if event.cpu_parent is None]
    # A limit that is never met exactly (negative, None, a fraction, text) is none.
    limit = options.row_limit
    return rows[: int(limit)] if isinstance(limit, (int, float)) and limit in range(len(rows)) else rows


class _Totals:
    """Sums over all events that cells and footer refer to."""

    def __init__(self, events: list[Any]) -> None:
        self.has_device_time = any(event.self_device_time_total > 0 for event in events)
        device = events[0].use_device
        if not device and self.has_device_time:
            raise RuntimeError("use_device is None, but there is device performance data.")
        self.use_device = device
        self.device = device.upper() if device is not None else "None"
        self.cpu: float = 0
        self.on_device: float = 0
        for event in events:
            self.cpu += event.self_cpu_time_total
            on_cpu = event.device_type == DeviceType.CPU
            if event.is_legacy if on_cpu else event.device_type in _TIMED_DEVICES and not event.is_user_annotation:
                self.on_device += event.self_device_time_total


def _columns(events: list[Any], options: TableOptions, totals: _Totals) -> list[Column]:
    """The columns these events need, in torch's order."""
    unit = options.time_unit

    def time(attribute: str) -> Callable[[Any], str]:
        return lambda event: format_time_in(getattr(event, attribute), unit)

    columns = [_name_column("Name", "key", events, options)]
    if any(event.overload_name for event in events):
        columns.append(_name_column("Overload Name", "overload_name", events, options))
    columns += [
        Column("Self CPU %", _WIDTH, lambda event: _self_share(event, totals)),
        Column("Self CPU", _WIDTH, time("self_cpu_time_total")),
        Column("CPU total %", _WIDTH, lambda event: _total_share(event, totals)),
        Column("CPU total", _WIDTH, time("cpu_time_total")),
        Column("CPU time avg", _WIDTH, time("cpu_time")),
    ]
    device = totals.device
    if totals.has_device_time:
        columns += [
            Column(f"Self {device}", _WIDTH, time("self_device_time_total")),
            Column(f"Self {device} %", _WIDTH, lambda event: _device_share(event, totals)),
            Column(f"{device} total", _WIDTH, time("device_time_total")),
            Column(f"{device} time avg", _WIDTH, time("device_time")),
        ]
    if options.with_memory:
        columns += _memory_columns("CPU", "cpu")
        if totals.use_device and any(event.self_device_memory_usage > 0 for event in events):
            columns += _memory_columns(device, "device")
    columns.append(Column("# of Calls", _WIDTH, lambda event: event.count))
    if any(event.node_id != -1 for event in events):
        columns.append(Column("Node ID", _WIDTH, lambda event: event.node_id))
    columns += _shapes_column(events, options) + _source_column(events, options) + _flops_column(events, options)
    return columns


def _name_column(title: str, attribute: str, events: list[Any], options: TableOptions) -> Column:
    limit = options.max_name_column_width
    width = max(len(event.key) for event in events) + 4

    def cell(event: Any) -> str:
        name: str = getattr(event, attribute)
        return name[: limit - 3] + "..." if limit is not None and len(name) >= limit - 3 else name

    return Column(title, width if limit is None else min(width, limit), cell)


def _memory_columns(title: str, prefix: str) -> list[Column]:
    return [
        Column(f"{title} Mem", _WIDTH, lambda event: format_memory(getattr(event, f"{prefix}_memory_usage"))),
        Column(f"Self {title} Mem", _WIDTH, lambda event: format_memory(getattr(event, f"self_{prefix}_memory_usage"))),
    ]


def _shapes_column(events: list[Any], options: TableOptions) -> list[Column]:
    if not any(event.input_shapes for event in events):
        return []
    width = max(len(str(event.input_shapes)) for event in events) + 4
    if options.max_shapes_column_width is not None:
        width = min(width, options.max_shapes_column_width)
    return [Column("Input Shapes", width, lambda event: str(event.input_shapes)[:width])]


def _source_column(events: list[Any], options: TableOptions) -> list[Column]:
    stacks = [event.stack for event in events if event.stack]
    if not stacks:
        return []
    width = max(len(entry) for stack in stacks for entry in stack) + 4
    if options.max_src_column_width is not None:
        width = min(width, options.max_src_column_width)
    return [Column("Source Location", width, lambda event: _tail(event.stack[0], width) if event.stack else "", "<")]


def _tail(path: str, width: int) -> str:
    """The end of a path that is too long, marked by dots."""
    if len(path) > width:
        path = path[len(path) - width :]
        if len(path) > 3:
            path = "..." + path[3:]
    return path


def _flops_column(events: list[Any], options: TableOptions) -> list[Column]:
    counted = [event.flops for event in events if event.flops > 0] if options.with_flops else []
    if not counted:
        return []
    scale, unit = flops_scale(min(counted))
    return [
        Column(
            f"Total {unit}",
            _WIDTH,
            lambda event: "--" if event.flops <= 0 else f"{event.flops * scale:8.3f}",
        )
    ]


def _self_share(event: Any, totals: _Totals) -> str:
    share = format_time_share(event.self_cpu_time_total, totals.cpu)
    event.note(self_cpu_percent=share)
    return share


def _total_share(event: Any, totals: _Totals) -> Any:
    share = 0 if event.is_async else format_time_share(event.cpu_time_total, totals.cpu)
    event.note(total_cpu_percent=share)
    return share


def _device_share(event: Any, totals: _Totals) -> str:
    # Regions seen on a device, alone there, are a share of nothing.
    share = format_time_share(event.self_device_time_total if totals.on_device else 0, totals.on_device)
    event.note(total_device_percent=share)
    return share


def _lines(event: Any, columns: list[Column], source: Column | None) -> list[str]:
    """The line of an event; with a source column, one more for each further frame and a blank one."""
    lines = ["".join(column.format(column.cell(event)) for column in columns)]
    if source is not None:
        for entry in [*event.stack[1:], ""]:
            text = _tail(entry, source.width)
            lines.append("".join(column.format(text if column is source else "") for column in columns))
    return lines
