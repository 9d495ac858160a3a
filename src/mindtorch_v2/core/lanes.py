"""Rows of ints in plain lists: what a thread's finished regions are written to where the compiled helper is not there.

It owns how rows are added and taken out while the thread goes on. It does not know what the ints mean.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# One finished region: start_ns, end_ns, event id, sequence number (-1: none), inputs id and stack id (0: not recorded).
ROW_WIDTH = 6
# A row that ends before inputs and stack.
LEAN_WIDTH = 4
# One allocation or free: time_ns, bytes (negative: free), a number that stands for the block while it lives.
MEMORY_WIDTH = 3


class _Nowhere:
    """Takes the rows of a thread nobody listens to."""

    __slots__ = ()

    def __iadd__(self, row: Iterable[int]) -> _Nowhere:
        return self


NOWHERE = _Nowhere()


class Rows:
    """What one thread writes. `out` is what rows are added to, `lean_out` what rows without inputs and stack are added
    to (the first four ints alone), `marks` what allocations and frees are added to: the lists themselves, or `NOWHERE`
    while nobody listens to the thread."""

    __slots__ = ("rows", "out", "lean", "lean_out", "memory", "marks", "grad")

    # Whether ops write full rows now; others do as they do.
    wide = False
    # How many rows there was no memory for. The compiled helper goes on without one; here the program hears of it.
    lost = 0

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.out: Any = self.rows
        self.lean: list[int] = []
        self.lean_out: Any = self.lean
        self.memory: list[int] = []
        self.marks: Any = self.memory
        # Whether the thread builds graphs.
        self.grad = True

    def listen(self, wanted: bool) -> None:
        """Keep (or drop) what the thread writes from now on. Dropping costs the thread no test."""
        self.out = self.rows if wanted else NOWHERE
        self.lean_out = self.lean if wanted else NOWHERE
        self.marks = self.memory if wanted else NOWHERE

    def write(self, row: tuple[int, ...]) -> None:
        """Add the row of a region that has ended."""
        if self.wide or row[4] or row[5]:
            out = self.out
            out += row
        else:
            out = self.lean_out
            out += row[:LEAN_WIDTH]

    def note(self, mark: tuple[int, ...]) -> None:
        """Add an allocation or a free."""
        marks = self.marks
        marks += mark

    def take(self) -> tuple[list[int] | bytes, list[int] | bytes]:
        """What the thread has written, rows and memory, which leaves the lists; bytes are native 64-bit ints.

        One other thread at a time may call it while this one goes on writing.
        """
        rows, lean = _cut(self.rows), _cut(self.lean)
        if lean:
            rows = _merged(rows, _widened(lean)) if rows else _widened(lean)
        return rows, _cut(self.memory)


def _cut(flat: list[int]) -> list[int]:
    """Move out what a list holds now. Each step is atomic and rows come at the end only, so none is lost."""
    part = flat[:]
    del flat[: len(part)]
    return part


def _widened(lean: list[int]) -> list[int]:
    """Lean rows as full ones."""
    wide = [0] * (len(lean) // LEAN_WIDTH * ROW_WIDTH)
    for column in range(LEAN_WIDTH):
        wide[column::ROW_WIDTH] = lean[column::LEAN_WIDTH]
    return wide


def _merged(one: list[int], other: list[int]) -> list[int]:
    """The rows of both in the order in which they ended; needed only where the recorder's flags have changed."""
    rows = [flat[at : at + ROW_WIDTH] for flat in (one, other) for at in range(0, len(flat), ROW_WIDTH)]
    # Of regions that end together the one that began later is the inner one.
    rows.sort(key=lambda row: (row[1], -row[0]))
    return [value for row in rows for value in row]
