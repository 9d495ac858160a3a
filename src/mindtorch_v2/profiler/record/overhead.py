"""What recording costs: the price of one event in the mode in use, measured on the spot.

It does on the side what the recorder does for an event, outside of every session.
"""

from __future__ import annotations

import sys
import time
from typing import Any, NamedTuple

from ...core import tap
from .config import RecordOptions
from .recorder import StackTable

# Short rounds of processor time, of which the shortest counts: other programs do not make recording dearer.
_ROUNDS, _EVENTS = 20, 250
# Under which a file says what recording cost where it was made.
METADATA = "profiler_cost"


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


class Prices(NamedTuple):
    """Nanoseconds that one event takes to record."""

    event_ns: float
    memory_event_ns: float

    def total(self, events: int, memory_events: int, window_s: float) -> Overhead:
        total = self.event_ns * events + self.memory_event_ns * memory_events
        return Overhead(events, self.event_ns, total, window_s * 1e9)


def prices(options: RecordOptions) -> Prices:
    """What events cost here and now."""
    return Prices(_price(options), _memory_price())


def stated_prices(metadata: dict[str, Any]) -> Prices | None:
    """The prices that a file states of the machine it comes from, if it does."""
    said = metadata.get(METADATA)
    if not isinstance(said, dict):
        return None
    found = [said.get(field) for field in Prices._fields]
    if not all(isinstance(value, (int, float)) and 0 <= value < 1e9 for value in found):
        return None
    return Prices(*map(float, found))  # type: ignore[arg-type]


def estimate(options: RecordOptions, events: int, memory_events: int, window_s: float) -> Overhead:
    return prices(options).total(events, memory_events, window_s)


def _price(options: RecordOptions) -> float:
    """Nanoseconds to record one event: two clock reads and a row, a key lookup for shapes, a walk for stacks."""
    clock = tap.NAMESPACE["clock"]
    key = (((4, 4), (16, 4), "float"), ((4, 4), (16, 4), "float"), 1)
    known = {key: 1}
    stacks = StackTable()
    best = float("inf")
    for _ in range(_ROUNDS):
        rows: list[int] = []
        began = time.thread_time_ns()
        for _ in range(_EVENTS):
            inputs = known.get(key, 0) if options.shapes else 0
            stack = stacks.intern(0, sys._getframe()) if options.stacks else 0
            start = clock()
            rows.extend((start, clock(), 0, -1, inputs, stack))
        best = min(best, (time.thread_time_ns() - began) / _EVENTS)
    return best


def _memory_price() -> float:
    clock = tap.NAMESPACE["clock"]
    best = float("inf")
    for _ in range(_ROUNDS):
        rows: list[int] = []
        alive: dict[int, int] = {}
        began = time.thread_time_ns()
        for address in range(_EVENTS):
            alive[address] = 64
            rows.extend((clock(), 64, address, 64))
        best = min(best, (time.thread_time_ns() - began) / _EVENTS)
    return best
