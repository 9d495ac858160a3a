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


_PADDED = [b"%04d" % number for number in range(_GROUP)]
_BARE = [(b"%d" % number).rjust(4, b"\0") for number in range(_GROUP)]
# Groups of digits after nothing (no leading zeros), then after other digits; the last group shows a lone zero.
_INNER = _words([b"\0\0\0\0", *_BARE[1:], *_PADDED])
_LAST = _words([*_BARE, *_PADDED])
_DECIMALS = _words([b".%03d" % number for number in range(1000)])
_SIGNS = _words([b"\0\0\0\0", b"-\0\0\0"])


class Lines:
    """Lines under construction, from left to right; each call adds something to all of them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._columns: list[Words | int] = []

    def text(self, text: str) -> Lines:
        """The same text in every line."""
        data = text.encode()
        data += b"\0" * (-len(data) % 4)
        self._columns.extend(np.frombuffer(data, np.uint32).tolist())
        return self

    def texts(self, texts: list[str], which: NDArray[np.integer]) -> Lines:
        """In each line one of a few short texts."""
        width = max(4, *(len(text.encode()) for text in texts))
        width += -width % 4
        table = np.frombuffer(b"".join(text.encode().ljust(width, b"\0") for text in texts), np.uint32)
        self._columns.extend(table.reshape(len(texts), -1)[which].T)
        return self

    def number(self, values: Ints) -> Lines:
        """Numbers from 0 on."""
        self._columns.extend(_groups(values))
        return self

    def signed(self, values: Ints) -> Lines:
        self._columns.append(_SIGNS[(values < 0).view(np.uint8)])
        return self.number(np.abs(values))

    def micros(self, ns: Ints) -> Lines:
        """Nanoseconds from 0 on as microseconds with three decimals."""
        whole = ns // 1000
        self._columns.extend(_groups(whole))
        self._columns.append(_DECIMALS[ns - whole * 1000])
        return self

    def only(self, where: NDArray[np.bool_], since: int) -> Lines:
        """Take back what was added since `since` (a former `width`) in the lines that are not in `where`."""
        if not where.all():
            for place in range(since, len(self._columns)):
                self._columns[place] = np.where(where, self._columns[place], 0).astype(np.uint32, copy=False)
        return self

    @property
    def width(self) -> int:
        return len(self._columns)

    def data(self) -> bytes:
        """All lines, one after the other."""
        matrix = np.empty((self._count, len(self._columns)), np.uint32)
        matrix[:] = [column if isinstance(column, int) else 0 for column in self._columns]
        for place, column in enumerate(self._columns):
            if not isinstance(column, int):
                matrix[:, place] = column
        flat = matrix.reshape(-1).view(np.uint8)
        squeezed = flat[flat.astype(bool)]
        return squeezed.tobytes()

    def split(self) -> list[bytes]:
        """The lines one by one; a text with a newline in it would break them."""
        return self.text("\n").data().split(b"\n")[: self._count]


def _groups(values: Ints) -> list[Words]:
    """Words with the digits of numbers from 0 on, the first of them padded in front."""
    rest = values
    most = int(values.max()) if len(values) else 0
    numbers: list[Ints] = []
    leads: list[NDArray[np.bool_] | bool] = []
    while True:
        above = rest // _GROUP
        numbers.append(rest - above * _GROUP)
        most //= _GROUP
        if not most:
            leads.append(False)
            break
        leads.append(above > 0)
        rest = above
    found = []
    for place, (number, lead) in enumerate(zip(numbers, leads)):
        table = _INNER if place else _LAST
        found.append(table[number if lead is False else number + np.multiply(lead, _GROUP)])
    return found[::-1]
