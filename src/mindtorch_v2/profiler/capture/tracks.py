"""From the chunks of a lane to a track of a capture: columns, cut to the window they were recorded for.

It does not know whether the chunks come from memory or from a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..record.chunks import columns_from
from ..record.config import RecordOptions
from ..record.recorder import LaneRecord, Session
from .capture import Track

ROW_TYPES = (np.int64, np.int64, np.int32, np.int64, np.int32, np.int32)
MEMORY_TYPES = (np.int64, np.int64, np.int64)


@dataclass
class Bounds:
    """What decides whether a row belongs to a window; see Session for the fields."""

    options: RecordOptions
    start_ns: int
    stop_ns: int
    pauses: Sequence[Sequence[int]]
    crowded: bool
    # The sort of each event kind that is a Python function, by its number (see PythonEvent).
    python_sorts: Mapping[int, str]


def bounds_of(session: Session, python_sorts: Mapping[int, str]) -> Bounds:
    return Bounds(session.options, session.start_ns, session.stop_ns, session.pauses, session.crowded, python_sorts)


def track_of(record: LaneRecord, bounds: Bounds) -> Track:
    """The rows of a lane that belong to a window, with times from its start on; the record is used up."""
    columns = columns_from(record.rows, record.first[0], ROW_TYPES)
    start, end, kind = columns[:3]
    start -= bounds.start_ns
    end -= bounds.start_ns
    unwanted = _outside(start, end, kind, bounds)
    late = end > bounds.stop_ns - bounds.start_ns
    if late.any():
        _end_in_time(start, end, kind, late, unwanted, bounds.stop_ns - bounds.start_ns)
    if unwanted.any():
        columns = [column[~unwanted] for column in columns]
    np.maximum(columns[0], 0, out=columns[0])
    nothing = np.broadcast_to(np.int32(0), len(columns[0]))
    options = bounds.options
    if not (options.shapes or options.flops):
        columns[4] = nothing
    if not options.stacks:
        columns[5] = nothing
    start, end, kind, seq, inputs, stack = columns
    memory = _memory(record, bounds)
    return Track(record.index, record.native_id, record.name, start, end, kind, seq, inputs, stack, *memory)


def _end_in_time(
    start: NDArray[np.int64], end: NDArray[np.int64], kind: NDArray[np.int32], late: Any, unwanted: Any, length: int
) -> None:
    """Other threads go on while a window closes: what they end then was open at its end, and may be there as such."""
    unwanted |= start > length
    still_open = set(zip(start[end == length].tolist(), kind[end == length].tolist()))
    for place in np.flatnonzero(late & ~unwanted).tolist():
        unwanted[place] = (int(start[place]), int(kind[place])) in still_open
    end[late] = length


def _memory(record: LaneRecord, bounds: Bounds) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    memory = columns_from(record.memory, record.first[1], MEMORY_TYPES)
    time = memory[0]
    time -= bounds.start_ns
    inside = (time >= 0) & (time <= bounds.stop_ns - bounds.start_ns)
    inside &= memory[1] != 0  # an empty tensor and one on meta take nothing, so nothing happens
    if not bounds.options.memory:
        inside[:] = False
    memory = [column[inside] for column in memory]
    if (np.diff(memory[0]) < 0).any():
        # A free that a garbage collection makes on another thread may be noted a moment late.
        order = np.argsort(memory[0], kind="stable")
        memory = [column[order] for column in memory]
    return memory[0], memory[1], memory[2]


def _outside(
    start: NDArray[np.int64], end: NDArray[np.int64], kind: NDArray[np.int32], bounds: Bounds
) -> NDArray[np.bool_]:
    """What does not belong to the window: begun before it or in a pause, or asked for by another session only.

    Python functions that were already running at the start do belong to it; they count from there.
    """
    outside = start < 0
    if outside.any():
        outside &= ~(np.isin(kind, list(bounds.python_sorts)) & (end > 0))
    wanted = bounds.options.python_events
    # A thread may still be traced for a moment after the last session that wanted it.
    if bounds.crowded or (bounds.python_sorts and "function" not in wanted):
        outside |= np.isin(kind, [event for event, sort in bounds.python_sorts.items() if sort not in wanted])
    for begin, finish in bounds.pauses:
        outside |= (start >= begin - bounds.start_ns) & (start < (finish or bounds.stop_ns) - bounds.start_ns)
    return outside
