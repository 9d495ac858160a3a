"""Numbers as text, many rows at a time: a byte matrix with one row a line, whose padding is squeezed out at the end.

It does not know what the text means.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Words = NDArray[np.uint32]

_GROUP = 10_000  # four digits at a time: one word of the matrix


def _words(texts: list[bytes]) -> Words:
    """Texts of four bytes as words."""
    return np.frombuffer(b"".join(texts), np.uint32).copy()


_FULL = [b"%04d" % number for number in range(_GROUP)]
_BARE = [(b"%d" % number).rjust(4, b"\0") for number in range(_GROUP)]
_PADDED = _words(_FULL)
# Groups of digits after nothing (no leading zeros), then after other digits; the last group shows a lone zero.
_INNER = _words([b"\0\0\0\0", *_BARE[1:], *_FULL])
_LAST = _words([*_BARE, *_FULL])
_DECIMALS = _words([b".%03d" % number for number in range(1000)])
_SIGNS = _words([b"\0\0\0\0", b"-\0\0\0"])


# Stands between lines; JSON escapes it, so that no text has it.
_END = "\x01"


class Lines:
    """Lines under construction, from left to right; each call adds something to all of them."""

    def __init__(self, count: int) -> None:
        self._count = count
        # What all lines have in common, with zeros where they differ; and there the words, each at its place.
        self._common = bytearray()
        self._words: dict[int, Words] = {}
        self._taken_back: list[tuple[slice, NDArray[np.bool_]]] = []

    def text(self, text: str) -> Lines:
        """The same text in every line."""
        self._common += text.encode()
        return self

    def texts(self, texts: list[str], which: NDArray[np.integer]) -> Lines:
        """In each line one of a few short texts."""
        if len(texts) == 1:
            return self.text(texts[0])
        width = max(4, *(len(text.encode()) for text in texts))
        width += -width % 4
        table = np.frombuffer(b"".join(text.encode().ljust(width, b"\0") for text in texts), np.uint32)
        return self._add(*table.reshape(len(texts), -1)[which].T)

    def number(self, values: Ints) -> Lines:
        """Numbers from 0 on."""
        common, words = _digits(values)
        return self.text(common)._add(*words)

    def signed(self, values: Ints) -> Lines:
        return self._add(_SIGNS[(values < 0).view(np.uint8)]).number(np.abs(values))

    def micros(self, ns: Ints) -> Lines:
        """Nanoseconds from 0 on as microseconds with three decimals."""
        whole = ns // 1000
        return self.number(whole)._add(_DECIMALS[ns - whole * 1000])

    def only(self, where: NDArray[np.bool_], since: int) -> Lines:
        """Take back what was added since `since` (a former `width`) in the lines that are not in `where`."""
        self._taken_back.append((slice(since, self.width), ~where))
        return self

    @property
    def width(self) -> int:
        return len(self._common)

    def _add(self, *words: Words) -> Lines:
        for word in words:
            self._words[len(self._common)] = word
            self._common += bytes(4)
        return self

    def data(self) -> bytes:
        """All lines, one after the other."""
        matrix = np.empty((self._count, len(self._common)), np.uint8)
        matrix[:] = np.frombuffer(self._common, np.uint8)
        for place, words in self._words.items():
            matrix[:, place : place + 4].view(np.uint32)[:, 0] = words
        for columns, rows in self._taken_back:
            matrix[rows, columns] = 0
        flat = matrix.reshape(-1)
        return flat[flat.astype(bool)].tobytes()

    def split(self) -> list[bytes]:
        """The lines one by one."""
        return self.text(_END).data().split(_END.encode())[: self._count]


def _digits(values: Ints) -> tuple[str, list[Words]]:
    """The digits that numbers from 0 on begin with in common, and words with the others of each."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if low < 0:
        raise ValueError(f"expected numbers from 0 on, got {low}")
    scale, count = 1, 0
    while low // scale != high // scale:
        scale, count = scale * _GROUP, count + 1
    common = low // scale
    if not common and count:
        return "", _groups(values, count)
    rest, found = values - common * scale, []
    for _ in range(count):
        above = rest // _GROUP
        found.append(_PADDED[rest - above * _GROUP])
        rest = above
    return str(common), found[::-1]


def _groups(values: Ints, count: int) -> list[Words]:
    """Words with the digits of numbers from 0 on, the first of them padded in front."""
    found = []
    for place in range(count):
        above = values // _GROUP
        number, table = values - above * _GROUP, _INNER if place else _LAST
        found.append(table[number if place == count - 1 else number + _GROUP * (above > 0)])
        values = above
    return found[::-1]
