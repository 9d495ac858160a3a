"""An append-only file of checksummed chunks: how they are framed, written and found again, damage or not.

It does not know what the chunks hold.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
import sys
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from ...core.files import Descriptor

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
# No writer makes a longer chunk.
_LONGEST = 1 << 28
# Bytes that are read at once, and those that are read in vain at least before a reader gives up.
_WINDOW, _PATIENCE = 1 << 20, 1 << 26
# What a mark costs that no chunk follows.
_TRIED = 1 << 10
# A signal that comes again and again.
_MOST_INTERRUPTS = 100


def _checksum(sort: int, payload: bytes | memoryview) -> int:
    found = zlib.crc32(_SEALED.pack(sort, len(payload)))
    view = memoryview(payload)
    for low in range(0, len(view), _AT_ONCE):
        found = zlib.crc32(view[low : low + _AT_ONCE], found)
    return found


def framed(sort: bytes, payload: bytes) -> bytes:
    """A chunk as it is in the file."""
    return _HEAD.pack(_MARK, sort[0], len(payload), _checksum(sort[0], payload)) + payload


class Changed(OSError):
    """The file is no longer what was written: somebody put another in its place or cut it short."""


class SpoolFile:
    """A spool that is written. Every chunk goes to the operating system at once, hence outlives this process.

    Nobody else writes to the file meanwhile: a second one that wants to is told so.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = self._opened(os.O_CREAT)
        self.offset = 0
        try:
            if os.fstat(self._file.number).st_size:
                os.ftruncate(self._file.number, 0)
        except OSError:
            self.close()
            raise

    def _opened(self, flags: int) -> Descriptor:
        descriptor = os.open(self.path, os.O_RDWR | flags | getattr(os, "O_BINARY", 0), 0o666)
        try:
            _lock(descriptor, self.path)
            return Descriptor(descriptor)
        except OSError:
            os.close(descriptor)
            raise

    def append(self, data: bytes) -> None:
        """Add bytes at the end. If that fails the file ends where it did before."""
        number = self._number()
        try:
            self._put(number, data, self.offset)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(number, self.offset)
            raise
        self.offset += len(data)

    def overwrite(self, data: bytes, offset: int) -> None:
        """Put bytes in the place of others that have been written. This takes no room."""
        if offset + len(data) > self.offset:
            raise OSError(errno.EINVAL, "there is nothing to overwrite yet", self.path)
        self._put(self._number(), data, offset)

    @staticmethod
    def _put(number: int, data: bytes, offset: int) -> None:
        view = memoryview(data)
        interrupts = 0
        while view:
            try:
                written = _write_at(number, view, offset)
            except InterruptedError:
                interrupts += 1
                if interrupts == _MOST_INTERRUPTS:
                    raise
                continue
            if not written:
                raise OSError(errno.EIO, "nothing was written")
            view, offset = view[written:], offset + written

    def _number(self) -> int:
        """The descriptor, once it is certain that it is still this file's: a program may close what it did not open."""
        found = self._file.state()
        if found is None:
            self._file = self._same()
            found = os.fstat(self._file.number)
        if not found.st_nlink:
            self._file = self._copied()
            found = os.fstat(self._file.number)
        if found.st_size < self.offset and stat.S_ISREG(found.st_mode):
            why = f"somebody cut the file to {found.st_size} of {self.offset} bytes while it was written"
            raise Changed(errno.ESTALE, why, self.path)
        return self._file.number

    def _same(self) -> Descriptor:
        """The file opened anew, if it is still the one that was written."""
        try:
            found = self._opened(0)
        except FileNotFoundError:
            raise Changed(
                errno.ESTALE, "somebody removed the file and closed it while it was written", self.path
            ) from None
        if not self._file.is_of(os.fstat(found.number)):
            found.close()
            raise Changed(errno.ESTALE, "another file took its place while it was written", self.path)
        return found

    def _copied(self) -> Descriptor:
        """The content of a file that somebody removed, in a new one of the same name."""
        copy = self._opened(os.O_CREAT | os.O_EXCL)
        try:
            for place in range(0, self.offset, _WINDOW):
                self._put(copy.number, _read_at(self._file.number, min(_WINDOW, self.offset - place), place), place)
        except OSError:
            copy.close()
            os.unlink(self.path)
            raise
        self._file.close()
        return copy

    def close(self) -> None:
        if sys.platform != "win32" and self._file.state() is not None:
            # Forked children may have the file open as well.
            with contextlib.suppress(OSError):
                fcntl.flock(self._file.number, fcntl.LOCK_UN)
        self._file.close()

    def leave(self) -> None:
        """In a forked child, whose file it is not."""
        self._file.close()

    def reopen(self) -> None:
        """Go on where the file ended."""
        self._file = self._same()


def _write_at(number: int, data: memoryview, offset: int) -> int:
    if hasattr(os, "pwrite"):
        return os.pwrite(number, data, offset)
    os.lseek(number, offset, os.SEEK_SET)
    return os.write(number, data)


def _read_at(number: int, length: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(number, length, offset)
    os.lseek(number, offset, os.SEEK_SET)
    return os.read(number, length)


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


class Bytes:
    """The bytes of a file. They are read, not mapped: what is cut off or cannot be read meanwhile is then missing,
    where a mapping would end the process."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = os.fstat(file.fileno()).st_size
        self._first, self._held = 0, b""

    def __len__(self) -> int:
        return self.size

    def read(self, offset: int, length: int) -> bytes:
        """So many bytes from a place on; fewer where the file ends."""
        begin = self._hold(offset, length)
        return self._held[begin : begin + length]

    def find(self, wanted: bytes, offset: int) -> int:
        """The next place of some bytes from a place on; -1 if there is none."""
        while True:
            begin = self._hold(offset, len(wanted))
            found = self._held.find(wanted, begin)
            if found >= 0:
                return self._first + found
            end = self._first + len(self._held)
            if end >= self.size or len(self._held) < len(wanted):
                return -1
            offset = end - len(wanted) + 1

    def _hold(self, offset: int, length: int) -> int:
        """Have bytes at hand; says where they begin in what is held."""
        begin = offset - self._first
        if begin < 0 or begin + length > len(self._held):
            self._file.seek(offset)
            self._first, self._held = offset, self._file.read(max(length, _WINDOW))
            begin = 0
            if len(self._held) < length:
                # The file ends here, or has become shorter.
                self.size = min(self.size, offset + len(self._held))
        return begin


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Bytes]:
    """The bytes of a spool; ValueError for files that are none."""
    with open(path, "rb") as file:
        data = Bytes(file)
        begin = data.read(0, len(MAGIC))
        if begin != MAGIC:
            raise ValueError(
                f"{os.fspath(path)!r} is not a spool: expected it to begin with {MAGIC!r}, got {begin!r} at offset 0"
            )
        yield data


def frames(data: Bytes, offset: int = len(MAGIC)) -> Iterator[Frame]:
    """All whole chunks from `offset` on. Damaged bytes are skipped and told; at the end with a frame of no sort."""
    damaged = -1
    # Marks without a chunk may each claim the rest of the file: what is looked at in vain is limited.
    patience = _PATIENCE + 4 * len(data)
    while offset < len(data) and patience > 0:
        found = _frame_at(data, offset)
        if isinstance(found, int):
            patience -= found
            damaged = offset if damaged < 0 else damaged
            following = data.find(_MARK, offset + 1)
            offset = len(data) if following < 0 else following
            continue
        damage = f"{offset - damaged} damaged bytes at offset {damaged} were skipped" if damaged >= 0 else ""
        damaged = -1
        yield found._replace(damage=damage)
        offset += _HEAD.size + len(found.payload)
    if offset < len(data):
        yield Frame(damaged, b"", b"", f"too much is damaged: {len(data) - damaged} bytes at the end were skipped")
    elif damaged >= 0:
        yield Frame(damaged, b"", b"", f"the file ends with {len(data) - damaged} bytes of an unfinished chunk")


def _frame_at(data: Bytes, offset: int) -> Frame | int:
    """The chunk at a place or, if there is none, how many bytes had to be read to know."""
    head = data.read(offset, _HEAD.size)
    if len(head) < _HEAD.size:
        return _TRIED
    mark, sort, length, checksum = _HEAD.unpack(head)
    begin = offset + _HEAD.size
    if mark != _MARK or length > _LONGEST or begin + length > len(data):
        return _TRIED
    payload = data.read(begin, length)
    whole = len(payload) == length and _checksum(sort, payload) == checksum
    return Frame(offset, bytes([sort]), payload) if whole else length + _TRIED
