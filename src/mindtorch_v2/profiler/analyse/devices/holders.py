"""Memory of devices over time: the peak of each and who held it then."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .intervals import Ints
from .ops import Ops

# Columns of `Track.device_memory`.
_TIME, _BYTES, _ADDRESS, _DEVICE, _ALLOCATED, _RESERVED = range(6)
_MOST_HOLDERS = 20
BEFORE = "(before the recording)"


class DeviceMemory(NamedTuple):
    """One device: bytes given out and reserved at the peak, and what op had allocated how much of it."""

    device: int
    peak: int
    peak_ns: int
    reserved: int
    holders: list[tuple[str, int]]
    # Bytes given out over time.
    times: Ints
    allocated: Ints


def device_memory(ops: Ops) -> list[DeviceMemory]:
    """A row for each device that memory was recorded of."""
    tracks = ops.metrics.capture.tracks
    parts = [(number, track.device_memory) for number, track in enumerate(tracks) if track.device_memory is not None]
    if not parts:
        return []
    rows = np.concatenate([part for _, part in parts])
    track = np.repeat([number for number, _ in parts], [len(part) for _, part in parts])
    order = np.argsort(rows[:, _TIME], kind="stable")
    rows, track = rows[order], track[order]
    return [
        _of_device(ops, device, rows[mine], track[mine])
        for device in np.unique(rows[:, _DEVICE]).tolist()
        for mine in [rows[:, _DEVICE] == device]
    ]


def _of_device(ops: Ops, device: int, rows: NDArray[np.int64], track: Ints) -> DeviceMemory:
    allocated = rows[:, _ALLOCATED]
    if not allocated.any():
        # Not every allocator tells how much it has given out.
        allocated = np.cumsum(rows[:, _BYTES])
    peak = int(allocated.argmax())
    # The last that happened to each block up to the peak; blocks that were allocated then are held.
    until = rows[: peak + 1]
    _, last = np.unique(until[::-1, _ADDRESS], return_index=True)
    held = peak - last
    held = held[until[held, _BYTES] > 0]
    by_op: dict[str, int] = {}
    places = ops.innermost_at(track[held], until[held, _TIME])
    for place, nbytes in zip(places.tolist(), until[held, _BYTES].tolist()):
        name = ops.metrics.kind_of(int(ops.metrics.kind[place])).name if place >= 0 else "(outside of ops)"
        by_op[name] = by_op.get(name, 0) + nbytes
    older = int(allocated[peak]) - sum(by_op.values())
    if older > 0:
        by_op[BEFORE] = older
    holders = sorted(by_op.items(), key=lambda item: -item[1])[:_MOST_HOLDERS]
    reserved = int(until[-1, _RESERVED])
    return DeviceMemory(
        device, int(allocated[peak]), int(until[-1, _TIME]), reserved, holders, rows[:, _TIME], allocated
    )
