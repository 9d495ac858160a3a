"""Two captures side by side, as the page shows them: the rows of a diff by op, module and stack.

What counts as a change is decided in `profiler.analyse.diff`; this only picks and orders.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..analyse.diff import Diff
from ..analyse.diff import compare as judge
from ..analyse.samples import GROUPINGS, NothingRecorded
from ..analyse.settle import settle
from ..capture.capture import Capture

_MOST_ROWS = 2000


def compare(before: Capture, after: Capture) -> dict[str, Any]:
    """A table for each grouping that both captures have data for; for the others why there is none."""
    tables: dict[str, Any] = {}
    for by in GROUPINGS:
        try:
            found = settle(judge([before], [after], by=by), [before], [after])
            said = [*(f"differs: {line}" for line in found.differences), *filter(None, (found.machine, found.reason))]
            tables[by] = {**_table(found.diff), "said": said}
        except NothingRecorded as reason:
            tables[by] = {"missing": str(reason)}
    return tables


def _table(diff: Diff) -> dict[str, Any]:
    """Rows of name, verdict, relative change with its interval, then count, self, total and bytes before and after."""
    moved = np.abs(diff.after.self_ns - diff.before.self_ns)
    rows = []
    for place in np.argsort(-moved, kind="stable")[:_MOST_ROWS].tolist():
        sides = [_figures(side, place) for side in (diff.before, diff.after)]
        change = [float(values[place]) for values in (diff.change, diff.low, diff.high)]
        known = [round(value, 4) for value in change] if np.isfinite(change).all() else None
        rows.append([diff.names[place], str(diff.verdict[place]), known, *sides])
    overall = diff.overall
    finite = bool(np.isfinite([overall.change, overall.low, overall.high]).all())
    return {
        "per": diff.per,
        "samples": [diff.before.samples, diff.after.samples],
        "pace": diff.pace,
        "overall": {
            "verdict": overall.verdict,
            "change": [overall.change, overall.low, overall.high] if finite else None,
        },
        "rows": rows,
    }


def _figures(side: Any, place: int) -> list[float]:
    columns = (side.count, side.self_ns, side.total_ns, side.memory)
    return [round(float(column[place]), 2) for column in columns]
