"""Files that exports are written to: plain, or compressed where the name says so. It does not know formats."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ...core.files import replaced

_GZIP = 16 + zlib.MAX_WBITS


class Writer(Protocol):
    """What can be written to."""

    def write(self, data: bytes, /) -> object: ...


class _Compressed:
    """Compresses what is written to it, piece by piece."""

    def __init__(self, file: Writer) -> None:
        self._file = file
        # Traces are rows that differ in few digits: short matches do not pay, which Z_FILTERED says. With it level 8
        # leaves files smaller than level 9 does without it, in half the time.
        self._compressor = zlib.compressobj(8, zlib.DEFLATED, _GZIP, zlib.DEF_MEM_LEVEL, zlib.Z_FILTERED)

    def write(self, data: bytes) -> None:
        self._file.write(self._compressor.compress(data))

    def finish(self) -> None:
        self._file.write(self._compressor.flush())


@contextmanager
def open_binary(path: str | os.PathLike[str]) -> Iterator[Writer]:
    """A file for writing bytes, compressed if its name ends in `.gz`; it is at its place once all is written."""
    with replaced(path) as file:
        if not os.fspath(path).endswith(".gz"):
            yield file
            return
        compressed = _Compressed(file)
        yield compressed
        compressed.finish()
