"""Rows put away in chunks: flat ints as a lane wrote them, or packed columns of a few bytes a row.

It owns how a column is packed, in memory and as bytes. It does not know what the columns mean or where bytes go.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# What a lane hands over: Python ints, or the same as native 64-bit ones.
Flat = list[int] | bytes
Ints = NDArray[np.int64]

# Rows packed in one go. Packing holds the interpreter lock for about 1.5 ms at this size, not longer than a thread
# switch takes anyway.
SLICE = 8192
# The same where it is more important to keep up: NumPy lets go of the lock in each of its calls, and to get it back from a
# busy thread may take 5 ms.
LONG_SLICE = 32 * SLICE

_WIDTHS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_MASK = (1 << 64) - 1
_HEAD, _COLUMN = struct.Struct("<IB"), struct.Struct("<qB")


class Column(NamedTuple):
    """One packed column: the smallest value, and how much each row is above it (None: nothing)."""

    base: int
    above: NDArray[Any] | None

    def unpacked(self, count: int) -> Ints:
        if self.above is None:
            return np.full(count, self.base, np.int64)
        # Unsigned sums wrap, so that columns may span all of 64 bits.
        return (self.above.astype(np.uint64) + np.uint64(self.base & _MASK)).view(np.int64)


def _packed(values: Ints, low: int, high: int, constant: bool) -> Column:
    span = high - low
    if span == 0 and constant:
        return Column(low, None)
    width = next(width for width in _WIDTHS if span < 1 << 8 * width)
    above = np.empty(len(values), _WIDTHS[width])
    np.subtract(values.view(np.uint64), np.uint64(low & _MASK), out=above, casting="unsafe")
    return Column(low, above)


class Packed(NamedTuple):
    """Some rows as packed columns."""

    size: int
    columns: tuple[Column, ...]

    def to_bytes(self) -> bytes:
        heads = [_COLUMN.pack(base, 0 if above is None else above.itemsize) for base, above in self.columns]
        bodies = [above.tobytes() for _, above in self.columns if above is not None]
        return b"".join((_HEAD.pack(self.size, len(self.columns)), *heads, *bodies))


def parts_of(packed: Packed, most: int = SLICE) -> Iterator[tuple[int, Packed]]:
    """The same rows in parts of at most so many, each with the place it begins at."""
    for low in range(0, packed.size, most):
        columns = (Column(base, None if above is None else above[low : low + most]) for base, above in packed.columns)
        yield low, Packed(min(most, packed.size - low), tuple(columns))


def pack(rows: Ints) -> Packed:
    """Pack a matrix of rows. The first column has a byte a row at least, so that bytes tell how many rows there are."""
    lows, highs = rows.min(axis=0).tolist(), rows.max(axis=0).tolist()
    spans = enumerate(zip(lows, highs))
    return Packed(len(rows), tuple(_packed(rows[:, place], *span, place > 0) for place, span in spans))


def unpack_bytes(data: bytes, offset: int, width: int) -> Packed:
    """The packed rows in `data` from `offset` on; ValueError for bytes that are none."""
    count, columns = _HEAD.unpack_from(data, offset)
    if columns != width:
        raise ValueError(f"expected rows of {width} columns, got {columns}")
    place = offset + _HEAD.size
    heads = [_COLUMN.unpack_from(data, place + number * _COLUMN.size) for number in range(width)]
    place += width * _COLUMN.size
    found = []
    for number, (base, size) in enumerate(heads):
        if size not in _WIDTHS and (size or not number):
            raise ValueError(f"expected a column of 1, 2, 4 or 8 bytes a row, got {size}")
        if place + size * count > len(data):
            raise ValueError(f"expected {size * count} bytes for a column of {count} rows, got {len(data) - place}")
        above = np.frombuffer(data, _WIDTHS[size], count, place) if size else None
        found.append(Column(base, above))
        place += size * count
    return Packed(count, tuple(found))


def matrices(parts: Sequence[Flat], width: int, most: int = SLICE) -> Iterator[Ints]:
    """Flat rows as matrices of at most so many rows each."""
    for part in parts:
        if isinstance(part, bytes):
            whole = np.frombuffer(part, np.int64).reshape(-1, width)
            for low in range(0, len(whole), most):
                yield whole[low : low + most]
            continue
        values = iter(part)
        count = len(part) // width
        for low in range(0, count, most):
            size = min(count - low, most)
            yield np.fromiter(values, np.int64, size * width).reshape(size, width)


class Chunk:
    """Rows of a lane from place `first` on: as written until somebody packs them."""

    __slots__ = ("count", "first", "_parts", "_slices", "_width")

    def __init__(self, first: int, parts: Sequence[Flat], width: int) -> None:
        self.first = first
        self.count = sum(flat_rows(part, width) for part in parts)
        self._parts: Sequence[Flat] = parts
        self._slices: list[Packed] | None = None
        self._width = width

    @classmethod
    def of_packed(cls, first: int, packed: Packed) -> Chunk:
        chunk = cls(first, (), len(packed.columns))
        chunk.count, chunk._slices = packed.size, [packed]
        return chunk

    @property
    def end(self) -> int:
        return self.first + self.count

    def pack(self, gently: bool = False) -> list[Packed]:
        """The rows as packed columns, worked out once; `gently` lets other threads run in between."""
        # In this order: parts go only after slices are there. Two threads that pack come to the same result.
        parts, slices = self._parts, self._slices
        if slices is None:
            slices = []
            for rows in matrices(parts, self._width, SLICE if gently else LONG_SLICE):
                slices.append(pack(rows))
                if gently:
                    time.sleep(0)
            self._slices = slices
            self._parts = ()
        return slices

    def read(self) -> Iterator[list[Ints]]:
        """The columns, some thousand rows at a time."""
        parts, slices = self._parts, self._slices
        if slices is None:
            for rows in matrices(parts, self._width):
                yield list(rows.T)
        else:
            for packed in slices:
                yield [column.unpacked(packed.size) for column in packed.columns]


def flat_rows(part: Flat, width: int) -> int:
    return len(part) // (8 * width if isinstance(part, bytes) else width)


class Stream:
    """All that a lane has written of one sort, by place: chunks, then what came since the last one was sealed.

    Places count from the lane's first row and stay, whatever has been dropped before them.
    """

    __slots__ = ("chunks", "count", "_first", "_tail", "_width")

    def __init__(self, width: int) -> None:
        self.chunks: list[Chunk] = []
        self.count = 0
        self._first = 0
        self._tail: list[Flat] = []
        self._width = width

    def add(self, flat: Flat) -> None:
        if flat:
            self._tail.append(flat)
            self.count += flat_rows(flat, self._width)

    @property
    def loose(self) -> int:
        """How many rows are in no chunk yet."""
        return self.count - self._first

    def seal(self) -> None:
        """Make a chunk of what has no chunk yet."""
        if self._tail:
            self.chunks.append(Chunk(self._first, self._tail, self._width))
            self._first, self._tail = self.count, []

    def since(self, place: int) -> list[Chunk]:
        """What holds the rows from `place` on; the first chunk may begin before it."""
        found = [chunk for chunk in self.chunks if chunk.end > place]
        if self._tail and self.count > place:
            found.append(Chunk(self._first, list(self._tail), self._width))
        return found

    def drop(self, place: int) -> None:
        """Forget chunks that end at or before `place`."""
        while self.chunks and self.chunks[0].end <= place:
            del self.chunks[0]


def columns_from(chunks: list[Chunk], place: int, types: Sequence[Any]) -> list[NDArray[Any]]:
    """The rows from `place` on as one array a column; the list of chunks is emptied on the way."""
    count = sum(chunk.end - max(chunk.first, place) for chunk in chunks)
    columns: list[NDArray[Any]] = [np.empty(count, kind) for kind in types]
    low = 0
    chunks.reverse()
    while chunks:
        chunk = chunks.pop()
        skip = max(place - chunk.first, 0)
        for part in chunk.read():
            size = len(part[0]) - skip
            if size > 0:
                for column, values in zip(columns, part):
                    column[low : low + size] = values[skip:]
                low += size
            skip = max(-size, 0)
    return columns
