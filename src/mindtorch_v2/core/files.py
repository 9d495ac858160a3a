"""Files that are written whole or not at all, and descriptors that somebody else may close.

What is written lies beside its final place until it is complete. It does not know what is written.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from io import FileIO
from typing import Any, BinaryIO

_BUFFER = 1 << 20
# Names of what is open already, be it a file: whoever opened it goes on writing to it.
_OPEN_ALREADY = ("/proc/", "/dev/fd/")
_MOST_LINKS = 40
_BINARY = getattr(os, "O_BINARY", 0)
# What a folder or a file system says that takes no new names, or lets go of none.
_NOT_HERE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV)


@contextlib.contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file for writing bytes that is at `path` once the block ends, in the place of what was there.

    If anything fails, what was there stays, and an OSError names the path. A link stays a link, a file with other names
    or without content the same file; devices and pipes are written to directly.
    """
    name = os.fsdecode(path)
    target = _final(name)
    if target is None:
        with _writing(name, name) as file:
            yield file
        return
    with _named(name):
        there = _state(target)
        number, beside = _beside(target, there)
    # Whoever has an empty file open, such as a temporary one, looks for the content in it.
    stays = there is not None and (not beside or there.st_nlink > 1 or not there.st_size)
    try:
        # A second descriptor, as the first one's errors are to be known before anything is changed.
        with open(os.dup(number), "rb") as written:
            with _writing(number, name) as file:
                yield file
            if stays:
                _fill(target, written, name)
        if not stays:
            _move(beside, target, name)
    finally:
        if beside:
            with contextlib.suppress(OSError):
                os.unlink(beside)


def _move(beside: str, target: str, name: str) -> None:
    """Put a complete file in the place of another. Some stay: another user's, or one that a container brought in."""
    with _named(name):
        try:
            os.replace(beside, target)
            return
        except OSError as error:
            if error.errno not in _NOT_HERE or not os.path.exists(target):
                raise
    with open(beside, "rb") as file:
        _fill(target, file, name)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Put a text into a file, as UTF-8; what that has no bytes for becomes a question mark."""
    with replaced(path) as file:
        file.write(text.encode("utf-8", "replace"))


class _Named(FileIO):
    """A file whose errors name the path that was asked for."""

    shown = ""

    def write(self, data: Any) -> int:
        with _named(self.shown):
            return super().write(data)

    def close(self) -> None:
        with _named(self.shown):
            super().close()


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror or os.strerror(error.errno), name) from None


@contextlib.contextmanager
def _writing(file: str | int, shown: str) -> Iterator[Any]:
    """A file for writing, by path or number; of one that failed, nothing more is written."""
    raw = _Named(file, "w+b" if isinstance(file, int) else "wb")
    raw.shown = shown
    buffered: Any = (io.BufferedRandom if raw.readable() else io.BufferedWriter)(raw, _BUFFER)
    try:
        yield buffered
        buffered.flush()
    except BaseException:
        with contextlib.suppress(OSError):
            raw.close()
        raise
    raw.close()


def _final(name: str) -> str | None:
    """The path behind links; None for what is no file, or is open already under that name."""
    for _ in range(_MOST_LINKS):
        if os.path.abspath(name).startswith(_OPEN_ALREADY):
            return None
        if not os.path.islink(name):
            break
        name = os.path.join(os.path.dirname(name), os.readlink(name))
    try:
        is_file = stat.S_ISREG(os.stat(name).st_mode)
    except FileNotFoundError:
        return name
    except OSError:
        return None
    return name if is_file else None


def _state(target: str) -> os.stat_result | None:
    """What is known of the file at a path, which has to be writable; None if there is none."""
    try:
        number = os.open(target, os.O_WRONLY | _BINARY)
    except FileNotFoundError:
        return None
    try:
        return os.fstat(number)
    finally:
        os.close(number)


def _beside(target: str, there: os.stat_result | None) -> tuple[int, str]:
    """A new file in the folder of another, and its name; a nameless one elsewhere where the folder takes no new files."""
    beside = os.path.join(os.path.dirname(target), f".{os.getpid()}-{os.urandom(6).hex()}.part")
    try:
        number = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
    except OSError as error:
        if there is None or error.errno not in _NOT_HERE:
            raise
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno()), ""
    if there is not None:
        with contextlib.suppress(OSError, AttributeError):
            os.fchmod(number, stat.S_IMODE(there.st_mode))
            os.fchown(number, there.st_uid, there.st_gid)
    return number, beside


def _fill(target: str, source: BinaryIO, name: str) -> None:
    """Put what is in a file into another one, which stays the same file; if that fails it gets back what it held."""
    with _named(name), tempfile.TemporaryFile() as before:
        with open(target, "rb") as file:
            shutil.copyfileobj(file, before)
        try:
            _overwrite(target, source, name)
        except BaseException:
            _overwrite(target, before, name)
            raise


def _overwrite(target: str, source: Any, name: str) -> None:
    source.seek(0)
    with _writing(os.open(target, os.O_RDWR | _BINARY), name) as file:
        shutil.copyfileobj(source, file, _BUFFER)
        file.truncate()


class Descriptor:
    """A descriptor with the file it stands for: the number may be closed, and given to another file, by anybody."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._identity = _identity(os.fstat(number))

    def state(self) -> os.stat_result | None:
        """What is known of the file; None if the number does not stand for it any more."""
        try:
            found = os.fstat(self.number)
        except OSError:
            return None
        return found if self.is_of(found) else None

    def is_of(self, file: os.stat_result) -> bool:
        return _identity(file) == self._identity

    def close(self) -> None:
        """Close it, unless somebody did."""
        if self.state() is not None:
            os.close(self.number)


def _identity(file: os.stat_result) -> tuple[int, int]:
    return file.st_dev, file.st_ino
