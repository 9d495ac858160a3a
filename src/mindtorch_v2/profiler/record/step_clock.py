"""What each step of a program took by the clock and of the processors: wall time, CPU time of the process and of the thread
that steps, and how often that thread was put aside. Recordings carry it as columns; it does not know what a step is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

# The key that traces and spools have the columns under.
METADATA = "step_clock"
COLUMNS = ("step", "wall_ns", "cpu_ns", "thread_cpu_ns", "switches")

Reading = tuple[int, ...]


def read() -> Reading:
    """Wall time, CPU time of the process and of this thread, and the thread's involuntary context switches."""
    usage = getattr(resource, "RUSAGE_THREAD", None)
    switches = resource.getrusage(usage).ru_nivcsw if usage is not None else 0
    return time.perf_counter_ns(), time.process_time_ns(), time.thread_time_ns(), switches


class StepClock:
    """Reads the clocks where steps begin and end, on the thread that makes them."""

    def __init__(self, reader: Callable[[], Reading] = read) -> None:
        self._reader = reader
        self._begun: Reading | None = None
        self.rows: list[tuple[int, ...]] = []

    def begin(self) -> None:
        self._begun = self._reader()

    def end(self, step: int) -> None:
        if self._begun is not None:
            self.rows.append((step, *(now - then for now, then in zip(self._reader(), self._begun))))
            self._begun = None

    def forget(self) -> None:
        """The step that has begun is none."""
        self._begun = None

    def text(self) -> str:
        """The columns as JSON."""
        return json.dumps({name: [row[place] for row in self.rows] for place, name in enumerate(COLUMNS)})


def stated(metadata: dict[str, Any]) -> dict[str, NDArray[np.int64]]:
    """The columns that a recording carries, all of one length; none if it has none that make sense."""
    said = metadata.get(METADATA)
    if not isinstance(said, dict) or not all(isinstance(said.get(name), list) for name in COLUMNS):
        return {}
    whole = all(type(value) is int and abs(value) < 1 << 62 for name in COLUMNS for value in said[name])
    if not whole or len({len(said[name]) for name in COLUMNS}) != 1:
        return {}
    return {name: np.array(said[name], np.int64) for name in COLUMNS}


def joined(parts: list[dict[str, Any]]) -> dict[str, list[int]]:
    """The columns of several recordings, one after the other."""
    found = [stated(part) for part in parts]
    return {name: [int(value) for part in found if part for value in part[name]] for name in COLUMNS}
