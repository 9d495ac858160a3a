"""A comparison of runs as text, Markdown, JSON or JUnit XML."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from ...profiler.analyse.diff import APPEARED, DISAPPEARED, FASTER, SAME, SLOWER, UNCLEAR, VERDICTS, WHOLE, Change, Diff
from ...profiler.analyse.samples import CALL
from ...profiler.analyse.settle import MOST_STEPS, Settled, lacking_steps
from ...profiler.analyse.units import format_memory, format_time
from ...profiler.export.texts import json_encoder
from ..terminal import BOLD, DIM, GREEN, RED, YELLOW, cut, paint, visible, width_of_terminal
from .table import code, markdown_table

_COLOURS = {SLOWER: RED, APPEARED: YELLOW, FASTER: GREEN, DISAPPEARED: GREEN, UNCLEAR: YELLOW, SAME: DIM}
_TITLES = ("Verdict", "Name", "Self before", "Self after", "Change", "95 %", "Total before", "Total after", "Calls")
_NAME_WIDTH, _LEAST_NAME_WIDTH = 60, 24
# What a narrow terminal does without, first to last.
_DISPENSABLE = ("Total before", "Total after", "Memory", "95 %", "Calls")
# From this factor on a change is shown as a multiple.
_MULTIPLE = 10
# Kernels shown of each side of an op.
_KERNELS = 3
_json = json_encoder(indent=1)
# What XML 1.0 cannot hold.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _chosen(found: Settled, options: argparse.Namespace) -> list[int]:
    """The rows to show, by verdict, those that moved most first; then what single runs make suspect, and what is only
    called more or less often."""
    diff = found.diff
    wanted = VERDICTS if options.all else tuple(verdict for verdict in VERDICTS if verdict not in (SAME, UNCLEAR))
    rows = [place for verdict in wanted for place in diff.of(verdict)]
    if diff.on_device and diff.per == CALL:
        # Calls of an op differ by their shapes, so that few changes of one run of each device are sure: show what there is.
        large = diff.share >= diff.rules.smallest_share
        rows += [place for place in diff.of(UNCLEAR, SAME) if large[place] and place not in rows]
    rows += [place for place in dict.fromkeys((*found.suspected, *diff.recounted)) if place not in rows]
    return rows[: max(options.limit, 0)]


def _cells(diff: Diff, place: int, memory: bool) -> tuple[str, ...]:
    before, after = diff.before, diff.after
    cells = (
        str(diff.verdict[place]),
        diff.names[place],
        _time(before.self_ns[place], before.count[place]),
        _time(after.self_ns[place], after.count[place]),
        percent(diff.change[place]),
        _interval(diff.low[place], diff.high[place]),
        _time(before.total_ns[place], before.count[place]),
        _time(after.total_ns[place], after.count[place]),
        _counts(before.count[place], after.count[place]),
    )
    return (*cells, f"{_bytes(before.memory[place])} → {_bytes(after.memory[place])}") if memory else cells


def _time(ns: float, count: float) -> str:
    return format_time(ns / 1000) if count else "-"


def _bytes(value: float) -> str:
    return format_memory(round(value))


def percent(value: float) -> str:
    """A change: `+12.0%`, large ones as a multiple, `×88.6`."""
    if not math.isfinite(value):
        return "-"
    return f"{value:+.1%}" if value < _MULTIPLE - 1 else f"×{1 + value:,.1f}"


def _interval(low: float, high: float) -> str:
    return f"{percent(low)} … {percent(high)}" if math.isfinite(low) and math.isfinite(high) else "-"


def _counts(before: float, after: float) -> str:
    first, second = f"{before:g}", f"{after:g}"
    return first if first == second else f"{first} → {second}"


def _has_memory(diff: Diff) -> bool:
    return bool(diff.before.memory.any() or diff.after.memory.any())


def summary(found: Settled) -> list[str]:
    """What a reader must know before the rows."""
    diff = found.diff
    first, second = diff.before, diff.after
    what = f"{len(diff)} {diff.by}s with time on devices" if diff.on_device else f"{len(diff)} {diff.by}s"
    lines = [f"differs: {visible(line)}" for line in found.differences]
    lines.append(
        f"{what}; samples: {first.samples} and {second.samples} {diff.per}s in {first.runs} and {second.runs} runs"
        if diff.per != "call"
        else f"{what}; samples: single calls, as there are fewer than 3 steps a side"
    )
    title = "compute (CPU time of a step)" if found.has_cpu_time else "the whole"
    lines.append(f"{title}: {_told(found.compute, second.samples, diff)}")
    if found.wall is not None:
        lines.append(f"wall time of a step, waiting included: {_told(found.wall, second.samples, diff)}")
    if found.machine:
        lines.append(f"{found.machine}; changes are beyond that")
    elif abs(diff.pace) >= 0.001:
        pace = "slower" if diff.pace > 0 else "faster"
        lines.append(
            f"everything ran {percent(abs(diff.pace)).lstrip('+')} {pace} on the second side; changes are beyond that"
        )
    if found.reason:
        lines.append(found.reason)
    counts = [f"{len(diff.of(verdict))} {verdict}" for verdict in VERDICTS if diff.of(verdict)]
    if diff.recounted:
        counts.append(f"{len(diff.recounted)} called more or less often")
    lines.append(", ".join(counts) if counts else "nothing to compare")
    return lines


def _told(change: Change, samples: int, diff: Diff) -> str:
    lacking = lacking_steps(change, samples, diff.rules)
    return f"{percent(change.change)} ({_interval(change.low, change.high)}), {change.verdict}{_needs(lacking)}"


def _needs(steps: int) -> str:
    if not steps:
        return ""
    return ", needs far more steps" if steps >= MOST_STEPS else f", needs about {_round(steps):,} more steps"


def _round(steps: int) -> int:
    """Two digits say as much as is known."""
    unit = 10 ** max(len(str(steps)) - 2, 0)
    return -(-steps // unit) * unit


def text(found: Settled, options: argparse.Namespace) -> str:
    diff = found.diff
    rows = _chosen(found, options)
    lines = [*summary(found), ""]
    if not rows:
        return "\n".join(lines[:-1]) + "\n"
    memory = _has_memory(diff)
    table = [_TITLES + (("Memory",) if memory else ()), *(_cells(diff, place, memory) for place in rows)]
    table = _fitting([(cells[0], cut(visible(cells[1]), _NAME_WIDTH), *cells[2:]) for cells in table])
    widths = [max(map(len, column)) for column in zip(*table)]
    for number, cells in enumerate(table):
        padded = [
            f"{cell:<{width}}" if place < 2 else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(cells, widths))
        ]
        line = "  ".join(padded).rstrip()
        lines.append(paint(line, BOLD if number == 0 else _COLOURS[cells[0]]))
        if number and diff.on_device:
            indent = " " * (widths[0] + 4)
            lines += [paint(f"{indent}{line}", DIM) for line in _kernels(diff, rows[number - 1])]
    return "\n".join(lines) + "\n"


def _kernels(diff: Diff, place: int) -> list[str]:
    """The longest kernels of an op on both sides, as lines."""
    marks = ("before", "after")
    rows = [(mark, *row) for mark, side in zip(marks, diff.kernels_of(place)) for row in side[:_KERNELS]]
    width = (width_of_terminal() or 120) - 34
    return [
        f"{mark:<6}  {format_time(time / 1000):>10}  {cut(visible(name), max(width, 20))}" for mark, name, time in rows
    ]


def _fitting(table: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The table for the terminal it is shown on: names cut, if that is not enough without some columns."""
    width = width_of_terminal()
    if width is None:
        return table
    columns = list(zip(*table))
    for title in ("", *_DISPENSABLE):
        columns = [column for column in columns if column[0] != title]
        rest = sum(2 + max(map(len, column)) for column in columns) - max(map(len, columns[1])) - 2
        if width - rest >= _LEAST_NAME_WIDTH:
            break
    columns[1] = tuple(cut(name, max(width - rest, _LEAST_NAME_WIDTH)) for name in columns[1])
    return list(zip(*columns))


def markdown(found: Settled, options: argparse.Namespace) -> str:
    diff = found.diff
    memory = _has_memory(diff)
    lines = [_TITLES + (("Memory",) if memory else ())]
    for place in _chosen(found, options):
        cells = _cells(diff, place, memory)
        verdict = f"**{cells[0]}**" if cells[0] in (SLOWER, APPEARED) else cells[0]
        lines.append((verdict, code(cells[1]), *cells[2:]))
    head = "".join(f"- {line}\n" for line in summary(found))
    return f"### Profile comparison\n\n{head}\n" + (markdown_table(lines, 2) if len(lines) > 1 else "")


def as_json(settled: Settled, options: argparse.Namespace) -> str:
    diff = settled.diff
    rows = [place for verdict in VERDICTS for place in diff.of(verdict)]
    found: dict[str, Any] = {
        "differences": settled.differences,
        "machine": settled.machine,
        "reason": settled.reason,
        "by": diff.by,
        "per": diff.per,
        "time": "device" if diff.on_device else "cpu",
        "samples": [diff.before.samples, diff.after.samples],
        "runs": [diff.before.runs, diff.after.runs],
        "pace": diff.pace,
        "overall": {name: _number(value) for name, value in vars(settled.compute).items()},
        "overall_is_cpu_time": settled.has_cpu_time,
        "wall": None if settled.wall is None else {name: _number(value) for name, value in vars(settled.wall).items()},
        "rows": [{**_row(diff, place), "more_steps": int(settled.more_steps[place])} for place in rows],
    }
    return _json(found) + "\n"


def _row(diff: Diff, place: int) -> dict[str, Any]:
    row: dict[str, Any] = {"name": diff.names[place], "verdict": str(diff.verdict[place])}
    for name in ("change", "low", "high", "p", "share"):
        row[name] = _number(getattr(diff, name)[place])
    for side in ("before", "after"):
        for field in ("count", "self_ns", "total_ns", "memory"):
            row[f"{field}_{side}"] = _number(getattr(getattr(diff, side), field)[place])
    if diff.on_device and diff.by == "op":
        for side, kernels in zip(("before", "after"), diff.kernels_of(place)):
            row[f"kernels_{side}"] = [{"name": name, "ns": time} for name, time in kernels]
    return row


def _number(value: Any) -> Any:
    """What JSON has: no NaN, no NumPy."""
    if isinstance(value, str):
        return value
    return float(value) if math.isfinite(value) else None


def junit(found: Settled, failures: dict[int, str], options: argparse.Namespace) -> str:
    """A test suite with a case for each row and one for the whole; what fails the gate is a failure there."""
    diff = found.diff
    broken = dict(failures)
    if options.fail_over is not None and not failures and not diff.measured:
        broken[WHOLE] = "nothing was measured"
    cases = [_case("the whole", diff.by, broken.get(WHOLE), f"{diff.overall.verdict}: " + "\n".join(summary(found)))]
    for place in [place for verdict in VERDICTS for place in diff.of(verdict)]:
        detail = f"{diff.verdict[place]}: {' '.join(_cells(diff, place, False)[2:])}"
        cases.append(_case(diff.names[place], diff.by, broken.get(place), detail))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuite name="mindtorch diff" tests="{len(cases)}" failures="{len(broken)}" errors="0" skipped="0">\n'
        + "".join(cases)
        + "</testsuite>\n"
    )


def _case(name: str, by: str, failure: str | None, detail: str) -> str:
    attributes = f"classname={_attribute(f'mindtorch.diff.{by}')} name={_attribute(name)}"
    inner = "" if failure is None else f"    <failure message={_attribute(failure)}>{_plain(detail)}</failure>\n"
    return f"  <testcase {attributes}>\n{inner}    <system-out>{_plain(detail)}</system-out>\n  </testcase>\n"


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("�", text))


def _plain(text: str) -> str:
    return escape(_NOT_XML.sub("�", text))


FORMATS: dict[str, Callable[[Settled, argparse.Namespace], str]] = {"text": text, "markdown": markdown, "json": as_json}
