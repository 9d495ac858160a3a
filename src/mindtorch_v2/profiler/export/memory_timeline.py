"""Memory timelines as files: sums by category, the raw changes, or a page with a chart. It does not know what is in
them beyond names and numbers."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence

from ...core.files import write_text
from .files import open_binary
from .texts import json_text

# What is stacked from below, with its colour; torch's names and order.
LAYERS = (
    ("PARAMETER", "#3b7a3b"),
    ("OPTIMIZER_STATE", "#c9a227"),
    ("INPUT", "#333333"),
    ("TEMPORARY", "#8e44ad"),
    ("ACTIVATION", "#c0392b"),
    ("GRADIENT", "#2e6fb7"),
    ("AUTOGRAD_DETAIL", "#5dade2"),
    ("Unknown", "#9e9e9e"),
)
_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 1200, 480, 90, 40, 20, 50
# A screen shows no more points than this across.
_POINTS = 1200

Rows = Sequence[Sequence[int]]


def write_json(value: object, path: str | os.PathLike[str]) -> None:
    with open_binary(path) as file:
        file.write(json_text(value).encode())


def write_page(times_us: Sequence[int], sizes: Rows, path: str | os.PathLike[str], title: str) -> None:
    """A page with a stacked chart, complete in itself."""
    write_text(path, page(times_us, sizes, title))


def page(times_us: Sequence[int], sizes: Rows, title: str) -> str:
    peak, chart = max((sum(row) for row in sizes), default=0), _chart(times_us, sizes)
    largest = [max((row[1 + layer] for row in sizes), default=0) for layer in range(len(LAYERS))]
    rows = "".join(
        f'<tr><td><span style="background:{colour}"></span>{name}</td><td>{_bytes(most)}</td></tr>'
        for (name, colour), most in zip(LAYERS, largest)
    )
    return _PAGE.format(title=html.escape(title), peak=_bytes(peak), chart=chart, rows=rows)


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body{{font:14px sans-serif;margin:24px}}svg{{max-width:100%;height:auto}}table{{border-collapse:collapse}}
td{{padding:2px 12px}}td+td{{text-align:right}}span{{display:inline-block;width:12px;height:12px;margin-right:8px}}
</style></head><body><h1>{title}</h1><p>Peak: {peak}</p>
{chart}
<table><tr><th>category</th><th>most at one time</th></tr>{rows}</table></body></html>
"""


def _bytes(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if abs(count) < 1024 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def _chart(times_us: Sequence[int], sizes: Rows) -> str:
    """The chart as SVG: steps, as memory changes at once."""
    times, rows = _thinned(times_us, sizes)
    if not times:
        return "<p>No memory was recorded.</p>"
    span, peak = max(times[-1] - times[0], 1), max(max(sum(row) for row in rows), 1)
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    across = [_LEFT + wide * (time - times[0]) / span for time in times]
    heights = [[0.0] * len(rows)]
    for layer in range(len(LAYERS)):
        heights.append([below + row[1 + layer] for below, row in zip(heights[-1], rows)])

    def corners(level: list[float]) -> list[str]:
        ys = [_TOP + high * (1 - value / peak) for value in level]
        points = [f"{across[0]:.1f},{ys[0]:.1f}"]
        for place in range(1, len(ys)):
            points += [f"{across[place]:.1f},{ys[place - 1]:.1f}", f"{across[place]:.1f},{ys[place]:.1f}"]
        return points

    areas = [
        f'<polygon fill="{colour}" points="{" ".join(corners(upper) + corners(lower)[::-1])}"><title>{name}</title>'
        "</polygon>"
        for (name, colour), lower, upper in zip(LAYERS, heights, heights[1:])
        if upper != lower
    ]
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(areas)}{_axes(span, peak)}</svg>'


def _axes(span_us: float, peak: float) -> str:
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    marks = []
    for step in range(6):
        x, y = _LEFT + wide * step / 5, _TOP + high * (1 - step / 5)
        marks.append(
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_bytes(peak * step / 5)}</text>'
            f'<text x="{x:.1f}" y="{_HEIGHT - 25}" text-anchor="middle">{span_us * step / 5 / 1000:.2f} ms</text>'
            f'<line x1="{_LEFT}" x2="{_LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}" stroke="#0002"/>'
        )
    return f'<g font-size="12">{"".join(marks)}</g>'


def _thinned(times_us: Sequence[int], sizes: Rows) -> tuple[list[int], list[Sequence[int]]]:
    """So many rows as a screen can show; of those that fall together the one with the most memory."""
    if len(times_us) <= _POINTS:
        return list(times_us), list(sizes)
    span = max(times_us[-1] - times_us[0], 1)
    best: dict[int, int] = {}
    for place, time in enumerate(times_us):
        column = (time - times_us[0]) * (_POINTS - 1) // span
        if column not in best or sum(sizes[place]) > sum(sizes[best[column]]):
            best[column] = place
    chosen = sorted(best.values())
    return [times_us[place] for place in chosen], [sizes[place] for place in chosen]
