"""Protocol buffers written by hand: single fields as bytes, and thousands of messages of one form at once.

It knows the encoding, not what any message means.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from .texts import encoded

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_WIDEST = 10


def varint(value: int) -> bytes:
    """A whole number; negative ones in two's complement of 64 bits."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def tag(number: int, wire: int = _VARINT) -> bytes:
    return varint(number << 3 | wire)


def number(field: int, value: int) -> bytes:
    return tag(field) + varint(value)


def fixed64(field: int, value: int) -> bytes:
    return tag(field, _FIXED64) + value.to_bytes(8, "little")


def message(field: int, *parts: bytes) -> bytes:
    """A field that holds other fields, or bytes."""
    content = b"".join(parts)
    return tag(field, _BYTES) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    return message(field, encoded(value))


def packed(field: int, values: Iterable[int]) -> bytes:
    """Many numbers in one field."""
    return message(field, *map(varint, values))


def _varint_sizes(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How many bytes each number takes."""
    sizes = np.ones(len(values), np.int64)
    for place in range(1, _WIDEST):
        sizes += values >= np.uint64(1 << 7 * place)
    return sizes


class Messages:
    """The contents of messages of one form, one a row: fields are added to all rows at once."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.sizes = np.zeros(count, np.int64)
        self._parts: list[tuple[NDArray[np.uint8], NDArray[np.int64]]] = []

    def _add(self, part: NDArray[np.uint8], sizes: NDArray[np.int64]) -> Messages:
        self._parts.append((part, sizes))
        self.sizes = self.sizes + sizes
        return self

    def raw(self, data: bytes) -> Messages:
        """The same bytes in all rows."""
        part = np.broadcast_to(np.frombuffer(data, np.uint8), (self.count, len(data)))
        return self._add(part, np.full(self.count, len(data)))

    def varint(self, values: NDArray[np.integer]) -> Messages:
        """A number of its own in each row."""
        rest = np.asarray(values, np.int64).astype(np.uint64)
        sizes = _varint_sizes(rest)
        widest = int(sizes.max()) if len(sizes) else 1
        part = np.empty((self.count, widest), np.uint8)
        for place in range(widest):
            part[:, place] = (rest & np.uint64(0x7F)).astype(np.uint8)
            part[:, place] |= np.where(place + 1 < sizes, 0x80, 0).astype(np.uint8)
            rest >>= np.uint64(7)
        return self._add(part, sizes)

    def number(self, field: int, values: NDArray[np.integer]) -> Messages:
        return self.raw(tag(field)).varint(values)

    def inside(self, field: int, after: NDArray[np.int64] | int = 0) -> Messages:
        """These contents as one field of new messages; `after` bytes of the field are still to follow each."""
        outer = Messages(self.count).raw(tag(field, _BYTES)).varint(self.sizes + after)
        outer._parts += self._parts
        outer.sizes = outer.sizes + self.sizes
        return outer

    def joined(self, other: Messages) -> Messages:
        """These contents followed by those of others."""
        self._parts += other._parts
        self.sizes = self.sizes + other.sizes
        return self

    def only(self, where: NDArray[np.bool_]) -> Messages:
        """Nothing at all in the other rows."""
        self._parts = [(part, np.where(where, sizes, 0)) for part, sizes in self._parts]
        self.sizes = np.where(where, self.sizes, 0)
        return self

    def split(self) -> list[bytes]:
        """The contents, row by row."""
        matrix = np.concatenate([part for part, _ in self._parts], axis=1)
        kept = np.concatenate([np.arange(part.shape[1]) < sizes[:, None] for part, sizes in self._parts], axis=1)
        data = matrix[kept].tobytes()
        ends = np.cumsum(self.sizes).tolist()
        return [data[low:high] for low, high in zip([0, *ends], ends)]
