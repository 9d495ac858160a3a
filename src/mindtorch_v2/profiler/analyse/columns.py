"""Events as columns: a struct of arrays over all threads of a capture. It holds facts only; nothing is derived here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..capture.capture import Capture


@dataclass
class MemoryColumns:
    """Allocations (positive) and frees (negative), thread after thread, each in order of time."""

    time_ns: NDArray[np.int64]
    nbytes: NDArray[np.int64]
    address: NDArray[np.int64]
    # Bytes allocated and not freed since the window began.
    total: NDArray[np.int64]
    track: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass
class EventColumns:
    """Regions (and marks in time), with the place of their thread in the capture. Times count from its start."""

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    kind: NDArray[np.int32]
    seq: NDArray[np.int64]
    inputs: NDArray[np.int32]
    stack: NDArray[np.int32]
    track: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.start_ns)

    def take(self, order: NDArray[Any]) -> EventColumns:
        """The rows in another order, or some of them."""
        return EventColumns(*(column[order] for column in vars(self).values()))

    def joined(self, other: EventColumns) -> EventColumns:
        """These rows followed by those of another."""
        pairs = zip(vars(self).values(), vars(other).values())
        return EventColumns(*(np.concatenate(pair).astype(pair[0].dtype, copy=False) for pair in pairs))


def columns_of(capture: Capture) -> EventColumns:
    """All regions, thread after thread, each in the order in which they ended."""
    tracks = capture.tracks
    return EventColumns(
        _joined([track.start_ns for track in tracks], np.int64),
        _joined([track.end_ns for track in tracks], np.int64),
        _joined([track.kind for track in tracks], np.int32),
        _joined([track.seq for track in tracks], np.int64),
        _joined([track.inputs for track in tracks], np.int32),
        _joined([track.stack for track in tracks], np.int32),
        _track_numbers([len(track) for track in tracks]),
    )


def memory_of(capture: Capture) -> MemoryColumns:
    """All allocations and frees but those of blocks that were there before."""
    tracks = capture.tracks
    time, nbytes, address = (
        _joined([getattr(track, name) for track in tracks], np.int64) for name in ("memory_ns", "nbytes", "address")
    )
    track = _track_numbers([len(track.nbytes) for track in tracks])
    if len(time):
        known = ~_frees_of_older_blocks(time, nbytes, address)
        time, nbytes, address, track = time[known], nbytes[known], address[known], track[known]
    by_time = np.argsort(time, kind="stable")
    total = np.empty(len(time), np.int64)
    total[by_time] = np.cumsum(nbytes[by_time])
    return MemoryColumns(time, nbytes, address, total, track)


def _joined(parts: list[NDArray[Any]], kind: type[np.signedinteger[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, kind), *parts])


def _track_numbers(lengths: list[int]) -> NDArray[np.int16]:
    if len(lengths) == 1:
        return np.broadcast_to(np.int16(0), lengths[0])
    return np.repeat(np.arange(len(lengths), dtype=np.int16), lengths)


def _frees_of_older_blocks(
    time: NDArray[np.int64], nbytes: NDArray[np.int64], address: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which rows free a block that was allocated before the window: the first thing that happens at its address."""
    order = np.lexsort((time, address))
    address = address[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = address[1:] != address[:-1]
    older = np.zeros(len(order), bool)
    older[order] = is_first & (nbytes[order] < 0)
    return older
