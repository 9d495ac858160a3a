"""What recording costs: the price of one event in the mode in use, measured on the spot.

It times the recorder on a lane of its own, outside of every session.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from .. import _tap
from .config import RecordOptions
from .recorder import RECORDER

_ROUNDS, _EVENTS = 5, 2000


class Overhead(NamedTuple):
    """An estimate of the profiler's own time in a window."""

    events: int
    per_event_ns: float
    total_ns: float
    window_ns: float

    @property
    def share(self) -> float:
        """The part of the window that recording took."""
        return self.total_ns / self.window_ns if self.window_ns else 0.0


def estimate(options: RecordOptions, events: int, memory_events: int, window_s: float) -> Overhead:
    per_event = _price(options)
    total = per_event * events + _memory_price() * memory_events
    return Overhead(events, per_event, total, window_s * 1e9)


def _price(options: RecordOptions) -> float:
    """Nanoseconds to record one event: two clock reads and a row, a key lookup for shapes, a walk for stacks."""
    clock = _tap.NAMESPACE["clock"]
    key = (((4, 4), (16, 4), "float"), ((4, 4), (16, 4), "float"), 1)
    known = {key: 1}
    best = float("inf")
    for _ in range(_ROUNDS):
        rows: list[int] = []
        began = time.perf_counter_ns()
        for _ in range(_EVENTS):
            inputs = known.get(key, 0) if options.shapes else 0
            stack = RECORDER.stack() if options.stacks else 0
            start = clock()
            rows.extend((start, clock(), 0, -1, inputs, stack))
        best = min(best, (time.perf_counter_ns() - began) / _EVENTS)
    return best


def _memory_price() -> float:
    clock = _tap.NAMESPACE["clock"]
    best = float("inf")
    for _ in range(_ROUNDS):
        rows: list[int] = []
        alive: dict[int, int] = {}
        began = time.perf_counter_ns()
        for address in range(_EVENTS):
            alive[address] = 64
            rows.extend((clock(), 64, address, 64))
        best = min(best, (time.perf_counter_ns() - began) / _EVENTS)
    return best
