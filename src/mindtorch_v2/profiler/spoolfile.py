"""An append-only file of checksummed chunks: how they are framed, written and found again, damage or not.

It does not know what the chunks hold.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import mmap
import os
import struct
import sys
import zlib
from collections.abc import Iterator
from typing import NamedTuple

if sys.platform != "win32":
    import fcntl

MAGIC = b"mtspool\x01"
# Starts each chunk, so that a reader finds the next one after a damaged one.
_MARK = b"\xf5MTC"
# Mark, sort, length of the payload, checksum of sort, length and payload.
_HEAD = struct.Struct("<4sBII")
_SEALED = struct.Struct("<BI")


# Above 5 KB zlib lets go of the interpreter lock, and to get it back from a busy thread may take 5 ms.
_AT_ONCE = 4096


def _checksum(sort: int, payload: bytes | memoryview) -> int:
    found = zlib.crc32(_SEALED.pack(sort, len(payload)))
    view = memoryview(payload)
    for low in range(0, len(view), _AT_ONCE):
        found = zlib.crc32(view[low : low + _AT_ONCE], found)
    return found


class SpoolFile:
    """A spool that is written. Every chunk goes to the operating system at once, hence outlives this process.

    Nobody else writes to the file meanwhile: a second one that wants to is told so.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = self._opened(os.O_CREAT)
        if os.fstat(self._fd).st_size:
            os.ftruncate(self._fd, 0)
        self.offset = 0

    def _opened(self, flags: int) -> int:
        descriptor = os.open(self.path, os.O_RDWR | flags | getattr(os, "O_BINARY", 0), 0o666)
        try:
            _lock(descriptor, self.path)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def start(self) -> None:
        self._write(MAGIC)

    def append(self, sort: bytes, *payloads: bytes) -> None:
        """Add chunks of one sort. If that fails the file ends with the chunk before them."""
        number = sort[0]
        heads = (_HEAD.pack(_MARK, number, len(payload), _checksum(number, payload)) for payload in payloads)
        self._write(b"".join(itertools.chain.from_iterable(zip(heads, payloads))))

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self.offset)
            raise
        self.offset += len(data)

    def close(self) -> None:
        if sys.platform != "win32":
            # Forked children may have the file open as well.
            with contextlib.suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        os.close(self._fd)

    def leave(self) -> None:
        """In a forked child, whose file it is not."""
        os.close(self._fd)

    def reopen(self) -> None:
        """Go on where the file ended."""
        self._fd = self._opened(os.O_APPEND)


def _lock(descriptor: int, path: str) -> None:
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        reason = "another profiler is writing its spool to this file: give each one its own, with the rank in its name"
        raise OSError(errno.EBUSY, reason, path) from None
    except OSError:
        # A file system without locks.
        return


class Frame(NamedTuple):
    """A chunk that was found: where, of which sort, and what it holds. `damage` says what is wrong before it."""

    offset: int
    sort: bytes
    payload: bytes
    damage: str = ""


def is_spool(path: str | os.PathLike[str]) -> bool:
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[mmap.mmap | bytes]:
    """The bytes of a spool; ValueError for files that are none."""
    with open(path, "rb") as file:
        begin = file.read(len(MAGIC))
        if begin != MAGIC:
            raise ValueError(
                f"{os.fspath(path)!r} is not a spool: expected it to begin with {MAGIC!r}, got {begin!r} at offset 0"
            )
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def frames(data: mmap.mmap | bytes, offset: int = len(MAGIC)) -> Iterator[Frame]:
    """All whole chunks from `offset` on. Damaged bytes are skipped and told; at the end with a frame of no sort."""
    damaged = -1
    while offset < len(data):
        found = _frame_at(data, offset)
        if found is None:
            damaged = offset if damaged < 0 else damaged
            following = data.find(_MARK, offset + 1)
            offset = len(data) if following < 0 else following
            continue
        damage = f"{offset - damaged} damaged bytes at offset {damaged} were skipped" if damaged >= 0 else ""
        damaged = -1
        yield found._replace(damage=damage)
        offset += _HEAD.size + len(found.payload)
    if damaged >= 0:
        yield Frame(damaged, b"", b"", f"the file ends with {len(data) - damaged} bytes of an unfinished chunk")


def _frame_at(data: mmap.mmap | bytes, offset: int) -> Frame | None:
    if offset + _HEAD.size > len(data):
        return None
    mark, sort, length, checksum = _HEAD.unpack_from(data, offset)
    begin = offset + _HEAD.size
    if mark != _MARK or begin + length > len(data):
        return None
    payload = bytes(data[begin : begin + length])
    return Frame(offset, bytes([sort]), payload) if _checksum(sort, payload) == checksum else None
