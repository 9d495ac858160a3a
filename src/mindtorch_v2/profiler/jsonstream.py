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

_CHUNK = 1 << 20
# No trace has a value as long as this, but a small compressed file can pretend to.
_LARGEST = 1 << 26
# A trace is packed to a twentieth of its size, hardly ever to less than a fiftieth.
_SMALLEST_PART, _SURELY_FINE = 200, 1 << 24
# No value has so many lists and objects in each other.
_DEEPEST = 100
_GZIP_MAGIC = b"\x1f\x8b"
_marks = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL).findall
_skip_space = re.compile(r"[ \t\n\r]*").match
_scan_once: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


class TraceError(ValueError):
    """A file that is not a trace, or only the beginning of one. `position` counts characters from 0."""

    def __init__(self, path: str, position: int, line: int, reason: str) -> None:
        super().__init__(f"{path}: line {line}, character {position}: {reason}")
        self.path = path
        self.position = position
        self.line = line
        self.reason = reason


class JsonStream:
    """A JSON file with a place in it. Of the text before that place nothing is kept."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._file = _open(self.path)
        self._left = max(os.path.getsize(self.path) * _SMALLEST_PART, _SURELY_FINE)
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
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
            self._ended = not data
            self._left -= len(data)
            self.text += self._decoder.decode(data, self._ended)
        except (EOFError, OSError, zlib.error) as error:
            raise self.error(f"the compressed file is damaged or cut short ({error})", len(self.text)) from error
        except UnicodeDecodeError as error:
            raise self.error(f"not UTF-8 text ({error.reason})", len(self.text)) from error
        if self._left < 0:
            raise self.error(f"the compressed file unpacks to more than {_SMALLEST_PART} times its size: no trace does")
        return True

    def peek(self) -> str:
        """The next character that is not white space, which is where the place moves; "" at the end of the file."""
        while True:
            self.place = _skip_space(self.text, self.place).end()  # type: ignore[union-attr]
            if self.place < len(self.text):
                return self.text[self.place]
            if not self.refill():
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
        if isinstance(problem, json.JSONDecodeError):
            return self.error(f"not JSON, or cut short: {problem.msg}", problem.pos)
        if isinstance(problem, StopIteration):
            return self.error("not JSON, or cut short: expected a value", problem.value)
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


def _depth(text: str, begin: int, end: int) -> int:
    """How many lists and objects of a JSON text lie in each other at most, or a number that is certainly small."""
    opened = text.count("[", begin, end) + text.count("{", begin, end)
    if opened <= _DEEPEST:
        return opened
    depth = deepest = 0
    for mark in _marks(text, begin, end):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(mark[0], 0)
        deepest = max(deepest, depth)
    return deepest


def _open(path: str) -> IO[bytes]:
    """The file's content, decompressed if it is a gzip file whatever its name is."""
    with open(path, "rb") as file:
        is_compressed = file.read(2) == _GZIP_MAGIC
    return gzip.open(path, "rb") if is_compressed else open(path, "rb")  # type: ignore[return-value]
