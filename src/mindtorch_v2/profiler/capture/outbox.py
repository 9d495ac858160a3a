"""Chunks on their way to a spool, one after the other: what the file cannot take waits in memory until it can.

It owns in what order and in what portions chunks are written. It does not know what they mean.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import NamedTuple

from ..record.chunks import Packed, parts_of
from ..record.recorder import LaneRecord
from .spoolfile import SpoolFile, framed

# Sorts of chunks that hold packed rows: regions, memory events, and blocks of memory seen in a role.
ROWS, MEMORY, ROLES = b"R", b"M", b"G"
# What these begin with: window, lane, and the place of the first row in the lane.
PLACE = struct.Struct("<IIQ")
# A disk that has no room for so few rows is full.
_FEWEST = 16


class Rows(NamedTuple):
    """Packed rows of a window. `record` tells their thread; what was seen in a role is nobody's."""

    window: int
    sort: bytes
    record: LaneRecord | None
    first: int
    packed: Packed

    def chunk(self) -> bytes:
        """The rows as they are in the file."""
        lane = 0 if self.record is None else self.record.index
        return framed(self.sort, PLACE.pack(self.window, lane, self.first) + self.packed.to_bytes())

    @property
    def since_ns(self) -> int:
        """When the first of them was written: regions are when they end."""
        return self.packed.columns[self.sort == ROWS].base

    def parts(self, most: int) -> list[Rows]:
        """The same in portions of at most so many rows."""
        return [self._replace(first=self.first + low, packed=part) for low, part in parts_of(self.packed, most)]


class Outbox:
    """What waits to be written to a file. The file always holds a beginning of all that was put in here."""

    def __init__(self, file: SpoolFile) -> None:
        self.file = file
        self._waiting: deque[bytes | Rows] = deque()

    def put(self, chunk: bytes) -> None:
        self._waiting.append(chunk)

    def put_rows(self, rows: Rows) -> None:
        self._waiting.append(rows)

    def send(self) -> OSError | None:
        """Write all that waits; if something cannot be written, why."""
        while self._waiting:
            chunk = self._waiting[0]
            try:
                self.file.append(chunk if isinstance(chunk, bytes) else chunk.chunk())
            except OSError as error:
                if isinstance(chunk, bytes) or chunk.packed.size <= _FEWEST:
                    return error
                # Some of the rows may still fit.
                self._waiting.popleft()
                self._waiting.extendleft(reversed(chunk.parts((chunk.packed.size + 1) // 2)))
                continue
            self._waiting.popleft()
        return None

    def rows(self, window: int | None = None) -> list[Rows]:
        """Rows that wait: of one window, or all."""
        return [chunk for chunk in self._waiting if isinstance(chunk, Rows) and window in (None, chunk.window)]
