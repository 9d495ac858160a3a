"""What the page is told of devices: the analyses with as many rows as are looked at, and series over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..analyse.devices.analysis import Analysis
from ..analyse.devices.intervals import covered_within, union
from ..analyse.devices.work import COMMUNICATION, COMPUTE
from ..analyse.metrics import Metrics

_PARTS = 240
_MOST_ROWS = 300
_LISTS = ("devices", "streams", "limits", "operators", "modules", "kernels", "copies", "launches", "critical_path", "idle",
          "memory", "sequences", "roofline")  # fmt: skip


def device_view(metrics: Metrics, begin: int, end: int) -> dict[str, Any] | None:
    """Everything of the page's view of devices, times of series from `begin` on; None where nothing ran on one."""
    analysis = Analysis(metrics.capture, metrics=metrics)
    if not len(analysis.work):
        return None
    found = analysis.as_dict()
    return {
        "answer": found["answer"],
        "cause": analysis.limits[0].cause,
        "unattributed_us": found["unattributed_us"],
        **{name: found[name][:_MOST_ROWS] for name in _LISTS},
        "series": _series(analysis, begin, end),
    }


def launch_arrows(metrics: Metrics) -> tuple[Any, Any]:
    """Launches and the work they launched, as places of events."""
    work = np.flatnonzero(metrics.links.is_work & (metrics.links.launch >= 0))
    return metrics.links.launch[work], work


def _series(analysis: Analysis, begin: int, end: int) -> list[dict[str, Any]]:
    """Lines over time, each with what it is about, its unit and points of time and value."""
    work = analysis.work
    edges = np.linspace(begin, end, _PARTS + 1).astype(np.int64)
    low, high = edges[:-1], np.maximum(edges[1:], edges[:-1] + 1)
    found = []
    for use in analysis.devices:
        mine = work.device == use.device
        lines = []
        for name, chosen in (
            ("compute", work.sort == COMPUTE),
            ("communication", work.sort == COMMUNICATION),
            ("copies", work.sort > COMMUNICATION),
        ):
            covered = union(work.start_ns[mine & chosen], work.end_ns[mine & chosen])
            if covered.length:
                shares = covered_within(covered, low, high) / (high - low)
                lines.append({"name": name, "points": _points(low - begin, np.round(shares, 4))})
        found.append({"title": f"Device {use.device}: part of the time in use", "unit": "share", "lines": lines})
    queues = [
        {"name": f"device {queue.device}, stream {queue.stream}", "points": [[t - begin, n] for t, n in queue.points()]}
        for queue in analysis.queues
        if queue.longest
    ]
    if queues:
        found.append({"title": "Launched and not begun", "unit": "count", "lines": queues})
    for memory in analysis.memory:
        step = max(1, len(memory.times) // (2 * _PARTS))
        points = _points(memory.times[::step] - begin, memory.allocated[::step])
        line = {"name": "given out", "points": points}
        found.append({"title": f"Memory of device {memory.device}", "unit": "bytes", "lines": [line]})
    return found


def _points(times: Any, values: Any) -> list[list[float]]:
    return [list(pair) for pair in zip(times.tolist(), values.tolist())]
