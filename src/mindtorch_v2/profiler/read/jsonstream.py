"""JSON read piece by piece: the fields of an object and the items of an array, without holding all of them at once.

It owns positions and the one error that malformed files give. It does not know what a trace is.
"""

from __future__ import annotations

import codecs
import gzip
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np

from ...core.brief import brief_text

_CHUNK = 1 << 20
# No trace has a value or as much white space as this, but a small compressed file can pretend to.
_LARGEST = 1 << 24
# Deflate packs traces to a twentieth of their size, those with long stacks to an eightieth. What is far smaller repeats
# itself in a way that no measured times do. It is known by what has been read so far, so that little has to be read.
_SMALLEST_PART, _SURELY_FINE = 200, 1 << 21
# Read at once from a compressed file, so that it is known how much of it has been unpacked.
_PACKED_CHUNK = 1 << 13
# No value has so many lists and objects in each other.
_DEEPEST = 100
_GZIP_MAGIC = b"\x1f\x8b"
_REPLACED = "\ufffd"
_OTHER_ENCODINGS = {
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"{\0", b"\0{", b"[\0", b"\0["),
}
_without_texts = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL).sub
_without_bytes = re.compile("[\udc80-\udcff]").subn
_skip_space = re.compile(r"[ \t\n\r]*").match
# Control characters in texts are let through: Kineto writes names as they come.
_scan_once: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(strict=False).scan_once  # type: ignore[attr-defined]


class TraceError(ValueError):
    """A file that is not a trace, or only the beginning of one. `position` counts characters from 0."""

    def __init__(self, path: str, position: int, line: int, reason: str) -> None:
        super().__init__(f"{path}: line {line}, character {position}: {brief_text(reason, 1000)}")
        self.path = path
        self.position = position
        self.line = line
        self.reason = reason


class JsonStream:
    """A JSON file with a place in it. Of the text before that place nothing is kept."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._raw = open(self.path, "rb")  # noqa: SIM115
        # What the file is, whatever its name ends in.
        is_compressed = self._raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        self._raw.seek(0)
        pieces: Any = _InPieces(self._raw)
        self._file: Any = gzip.GzipFile(fileobj=pieces, mode="rb") if is_compressed else self._raw
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        # Bytes that were no UTF-8, each of them read as U+FFFD.
        self.replaced = 0
        self._read = 0
        self._ended = False
        self.text = ""
        self.place = 0
        # Characters and line ends before `text`.
        self._before = 0
        self._lines = 0

    def __enter__(self) -> JsonStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._raw.close()

    def error(self, reason: str, place: int | None = None) -> TraceError:
        """The error for a place in `text`, by default the present one."""
        place = self.place if place is None else place
        line = self._lines + self.text.count("\n", 0, place) + 1
        return TraceError(self.path, self._before + place, line, reason)

    def error_at(self, position: int, reason: str) -> TraceError:
        """The error for a position in the file that has not been dropped yet."""
        return self.error(reason, position - self._before)

    @property
    def position(self) -> int:
        """Characters before the present place."""
        return self._before + self.place

    def refill(self) -> bool:
        """Drop what has been read and add more of the file; False at its end."""
        if self._ended:
            return False
        if len(self.text) - self.place > _LARGEST:
            raise self.error(f"a single value of more than {_LARGEST} characters")
        self._lines += self.text.count("\n", 0, self.place)
        self._before += self.place
        self.text = self.text[self.place :]
        self.place = 0
        # A value that does not fit is tried again with twice as much text, so that trying stays linear.
        size = max(_CHUNK, 2 * len(self.text))
        try:
            data = self._file.read(size)
        except (EOFError, OSError, zlib.error) as error:
            raise self.error(f"the compressed file is damaged or cut short ({error})", len(self.text)) from error
        if not self._read:
            self._expect_utf8(data)
        self._ended = not data
        self._read += len(data)
        self.text += self._decoded(data)
        if self._read > max(self._raw.tell() * _SMALLEST_PART, _SURELY_FINE):
            raise self.error(f"the compressed file unpacks to more than {_SMALLEST_PART} times its size: no trace does")
        return True

    def _expect_utf8(self, begin: bytes) -> None:
        for name, marks in _OTHER_ENCODINGS.items():
            if begin.startswith(marks):
                raise self.error(f"the text is in {name}; write it in UTF-8, for example with iconv -f {name} -t UTF-8")

    def _decoded(self, data: bytes) -> str:
        """The text of the next bytes; those that are no UTF-8 are replaced and counted."""
        before = self._decoder.getstate()
        try:
            return self._decoder.decode(data, self._ended)
        except UnicodeDecodeError:
            lenient = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
            lenient.setstate(before)
            text, count = _without_bytes(_REPLACED, lenient.decode(data, self._ended))
            self.replaced += count
            self._decoder.setstate(lenient.getstate())
            return text

    def peek(self) -> str:
        """The next character that is not white space, which is where the place moves; "" at the end of the file."""
        self.place = place = _skip_space(self.text, self.place).end()  # type: ignore[union-attr]
        return self.text[place] if place < len(self.text) else self._peek_on()

    def _peek_on(self) -> str:
        """The same where the text ends."""
        begin = self.position
        while self.refill():
            self.place = _skip_space(self.text, 0).end()  # type: ignore[union-attr]
            if self.place < len(self.text):
                return self.text[self.place]
            if self.position - begin > _LARGEST:
                raise self.error(f"more than {_LARGEST} characters of white space")
        return ""

    def expect(self, wanted: str) -> str:
        """Pass over one of the wanted characters and return it."""
        found = self.peek()
        if not found or found not in wanted:
            accepted = " or ".join(repr(character) for character in wanted)
            raise self.error(f"expected {accepted}, got {repr(found) if found else 'the end of the file'}")
        self.place += 1
        return found

    def value(self) -> Any:
        """The value at the present place, whole."""
        if not self.peek():
            raise self.error("expected a value, got the end of the file")
        while True:
            problem: BaseException | None = None
            try:
                found, end = _scan_once(self.text, self.place)
                # A number may go on in the next piece.
                if end < len(self.text) or self._ended or not isinstance(found, (int, float)):
                    break
            except (ValueError, StopIteration, RecursionError) as error:
                problem = error
                if isinstance(error, RecursionError):
                    raise self.error("values are nested too deeply") from error
            if not self.refill() and problem is not None:
                raise self._malformed(problem) from problem
        if _depth(self.text, self.place, end) > _DEEPEST:
            raise self.error("values are nested too deeply")
        self.place = end
        return found

    def _malformed(self, problem: BaseException) -> TraceError:
        why = "; the file holds bytes that are not UTF-8" if self.replaced else ""
        if isinstance(problem, json.JSONDecodeError):
            return self.error(f"not JSON, or cut short: {problem.msg}{why}", problem.pos)
        if isinstance(problem, StopIteration):
            return self.error(f"not JSON, or cut short: expected a value{why}", problem.value)
        return self.error(f"not JSON that can be read: {problem}")

    def fields(self) -> Iterator[str]:
        """The keys of the object at the present place; the caller reads each one's value before the next."""
        self.expect("{")
        if self.peek() == "}":
            self.place += 1
            return
        while True:
            if self.peek() != '"':
                raise self.error("expected a key in double quotes")
            key: str = self.value()
            self.expect(":")
            yield key
            if self.expect(",}") == "}":
                return

    def finish(self) -> None:
        """Nothing may follow."""
        if self.peek():
            raise self.error("more text after the end of the JSON value")


class _InPieces:
    """A file that gives a little at a time, so that its place tells how much of it has been unpacked."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        return self._file.read(min(size, _PACKED_CHUNK))


def _depth(text: str, begin: int, end: int) -> int:
    """How many lists and objects of a JSON text lie in each other at most, or a number that is certainly small."""
    opened = text.count("[", begin, end) + text.count("{", begin, end)
    if opened <= _DEEPEST:
        return opened
    marks = np.frombuffer(_without_texts("", text[begin:end]).encode("ascii", "replace"), np.uint8)
    opening, closing = ((marks == ord(first)) | (marks == ord(second)) for first, second in ("[{", "]}"))
    steps = opening.view(np.int8) - closing.view(np.int8)
    return int(np.cumsum(steps, dtype=np.int64).max())
