"""Stacks with a metric, one line an event: what flame graph tools call collapsed stacks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ...core.files import replaced
from .texts import encoded

METRICS = [
    "self_cpu_time_total",
    "self_cuda_time_total",
    "self_xpu_time_total",
    "self_privateuse1_time_total",
]
_JOINED = str.maketrans(" ;\t\n\r", "_____")


def one_word(entry: str) -> str:
    """A frame as collapsed stacks have it, where spaces and semicolons stand between frames."""
    return entry.translate(_JOINED)


def write_stacks(events: Iterable[Any], path: str | os.PathLike[str], metric: str) -> None:
    """`frame;frame;frame N`, outermost first, for each event with a stack and a positive whole metric."""
    if metric not in METRICS:
        raise ValueError(f"metric should be one of: {METRICS}, got {metric!r}")
    attribute = metric.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device")
    with replaced(path) as file:
        for event in events:
            if not event.stack:
                continue
            value = int(getattr(event, attribute))
            if value > 0:
                frames = ";".join(one_word(entry) for entry in reversed(event.stack))
                file.write(encoded(f"{frames} {value}\n"))
