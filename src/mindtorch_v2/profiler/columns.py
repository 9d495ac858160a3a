"""Events as columns: a struct of arrays over all threads of a capture. It holds facts only; nothing is derived here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .capture import Capture


@dataclass
class MemoryColumns:
    """Allocations (positive) and frees (negative), thread after thread, each in order of time."""

    time_ns: NDArray[np.int64]
    nbytes: NDArray[np.int64]
    address: NDArray[np.int64]
    total: NDArray[np.int64]
    track: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass
class EventColumns:
    """Regions, thread after thread, each in the order in which they ended. Times count from the capture's start."""

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    kind: NDArray[np.int32]
    seq: NDArray[np.int64]
    inputs: NDArray[np.int32]
    stack: NDArray[np.int32]
    track: NDArray[np.int16]
    # Where each thread's events begin, and one past the last.
    bounds: list[int]
    memory: MemoryColumns

    def __len__(self) -> int:
        return len(self.start_ns)


def columns_of(capture: Capture) -> EventColumns:
    """The columns of a capture; what its options did not ask for is left out."""
    options, origin = capture.options, capture.start_ns
    tracks = capture.tracks
    bounds = [0, *np.cumsum([len(track.rows) for track in tracks], dtype=np.int64).tolist()]
    count = bounds[-1]

    def column(position: int, dtype: type[np.signedinteger[Any]]) -> NDArray[Any]:
        out = np.empty(count, dtype)
        for number, track in enumerate(tracks):
            out[bounds[number] : bounds[number + 1]] = track.rows[:, position]
        return out

    zeros = np.zeros(count, np.int32)
    columns = EventColumns(
        column(0, np.int64) - origin,
        column(1, np.int64) - origin,
        column(2, np.int32),
        column(3, np.int64),
        column(4, np.int32) if options.shapes or options.flops else zeros,
        column(5, np.int32) if options.stacks else zeros,
        np.repeat(np.arange(len(tracks), dtype=np.int16), np.diff(bounds)),
        bounds,
        _memory_columns(capture),
    )
    return columns


def _memory_columns(capture: Capture) -> MemoryColumns:
    tracks = capture.tracks if capture.options.memory else []
    rows = np.concatenate([np.empty((0, 3), np.int64), *(track.memory for track in tracks)])
    track = np.repeat(np.arange(len(tracks), dtype=np.int16), [len(track.memory) for track in tracks])
    known = ~_frees_of_older_blocks(rows)
    rows, track = rows[known], track[known]
    by_time = np.argsort(rows[:, 0], kind="stable")
    total = np.empty(len(rows), np.int64)
    total[by_time] = np.cumsum(rows[by_time, 1])
    return MemoryColumns(rows[:, 0] - capture.start_ns, rows[:, 1], rows[:, 2], total, track)


def _frees_of_older_blocks(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which rows free a block that was allocated before the window: the first thing that happens at its address."""
    order = np.lexsort((rows[:, 0], rows[:, 2]))
    address = rows[order, 2]
    is_first = np.ones(len(rows), bool)
    is_first[1:] = address[1:] != address[:-1]
    older = np.zeros(len(rows), bool)
    older[order] = is_first & (rows[order, 1] < 0)
    return older
