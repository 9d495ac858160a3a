"""JSON read piece by piece: the fields of an object and the items of an array, without holding all of them at once.

It owns positions and the one error that malformed files give. It finds pieces; parsers that others keep read them. It
does not know what a trace is.
"""

from __future__ import annotations

import codecs
import gzip
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import IO, Any, NamedTuple

import numpy as np

from ...core.brief import brief_text

try:
    import zstandard
except ImportError:
    zstandard = None  # type: ignore[assignment]

# What is parsed at once: so little that it stays in the processor's cache while it is looked at.
_CHUNK = 1 << 16
# No trace has a value or as much white space as this, but a small compressed file can pretend to.
_LARGEST = 1 << 24
# Deflate packs traces to a twentieth of their size, those with long stacks to an eightieth. What is far smaller repeats
# itself in a way that no measured times do. It is known by what has been read so far, so that little has to be read.
_SMALLEST_PART, _SURELY_FINE = 200, 1 << 21
# Read at once from a compressed file, so that it is known how much of it has been unpacked.
_PACKED_CHUNK = 1 << 13
# No value has so many lists and objects in each other.
DEEPEST = 100
# A value is looked for in so much text first.
_FIRST_WINDOW = 1 << 12
# How many ends of a piece are tried before its items are read one by one, and how far apart items may lie.
_MOST_TRIES, _MOST_BRACES, _WIDEST_GAP = 4, 256, 64
_GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_DAMAGES = (EOFError, OSError, zlib.error, *(() if zstandard is None else (zstandard.ZstdError,)))
_REPLACED = "\ufffd"
_OTHER_ENCODINGS = {
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"{\0", b"\0{", b"[\0", b"\0["),
}
_without_texts = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL).sub
_without_bytes = re.compile("[\udc80-\udcff]").subn
_skip_space = re.compile(rb"[ \t\n\r]*").match
_skip_space_in_text = re.compile(r"[ \t\n\r]*").match
# Control characters in texts are let through: Kineto writes names as they come.
_LENIENT = json.JSONDecoder(strict=False)
_scan_once: Callable[[str, int], tuple[Any, int]] = _LENIENT.scan_once  # type: ignore[attr-defined]
_EXACT = json.JSONDecoder(strict=False, parse_float=Decimal)


# Gives the items of an array, or None for a text that it does not take.
Parser = Callable[[bytes], "list[Any] | None"]


class TraceError(ValueError):
    """A file that is not a trace, or only the beginning of one. `position` counts characters from 0."""

    def __init__(self, path: str, position: int, line: int, reason: str) -> None:
        super().__init__(f"{path}: line {line}, character {position}: {brief_text(reason, 1000)}")
        self.path = path
        self.position = position
        self.line = line
        self.reason = reason


class Piece(NamedTuple):
    """Some items of an array, whole, and their text as the file has it, from one item to the next comma or bracket."""

    items: list[Any]
    data: bytes

    def place_of(self, number: int) -> int:
        """Where an item begins in `data`."""
        text = _text(self.data)[0]
        place = 0
        for _ in range(number):
            place = _scan_once(text, place)[1]
            place = _skip_space_in_text(text, _skip_space_in_text(text, place).end() + 1).end()  # type: ignore[union-attr]
        return len(self.data.decode(errors="surrogateescape")[:place].encode(errors="surrogateescape"))

    def mappings(self, exact: bool = False) -> list[Any]:
        """The items as the standard library reads them, on demand with all digits that fractions have in the file."""
        decoder = _EXACT if exact else _LENIENT
        found: list[Any] = decoder.decode(f"[{_text(self.data)[0]}]")
        return found


class JsonStream:
    """A JSON file with a place in it. Of the bytes before that place nothing is kept."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._raw = open(self.path, "rb")  # noqa: SIM115
        try:
            self._file: Any = self._unpacked()
        except ImportError:
            self._raw.close()
            raise
        # Bytes that were no UTF-8, each of them read as U+FFFD.
        self.replaced = 0
        self._read = 0
        self._has_mark = False
        self._ended = False
        self.data = b""
        self.place = 0
        # Bytes before `data`.
        self._before = 0

    def _unpacked(self) -> Any:
        """The file's content: what the file is tells its beginning, whatever its name ends in."""
        magic = self._raw.read(4)
        self._raw.seek(0)
        if magic.startswith(_GZIP_MAGIC):
            pieces: Any = _InPieces(self._raw)
            return gzip.GzipFile(fileobj=pieces, mode="rb")
        if magic == _ZSTD_MAGIC:
            return _zstd_reader(_InPieces(self._raw), self.path)
        return self._raw

    def __enter__(self) -> JsonStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._raw.close()

    def error(self, reason: str, place: int | None = None) -> TraceError:
        """The error for a place in `data`, by default the present one."""
        position, line = self._where(self._before + (self.place if place is None else place))
        return TraceError(self.path, position, line + 1, reason)

    def _where(self, count: int) -> tuple[int, int]:
        """How many characters and ends of lines are in the first bytes of the file, which are read once more."""
        self._raw.seek(0)
        file, decoder = self._unpacked(), codecs.getincrementaldecoder("utf-8")("surrogateescape")
        characters = lines = 0
        count += len(codecs.BOM_UTF8) if self._has_mark else 0
        while count > 0:
            try:
                data = file.read(min(count, _CHUNK))
            except _DAMAGES:
                data = b""
            if not data:
                break
            count -= len(data)
            text = decoder.decode(data, count == 0)
            characters, lines = characters + len(text), lines + text.count("\n")
        return characters - self._has_mark, lines

    @property
    def position(self) -> int:
        """Bytes before the present place."""
        return self._before + self.place

    def refill(self) -> bool:
        """Drop what has been read and add more of the file; False at its end."""
        if self._ended:
            return False
        if len(self.data) - self.place > _LARGEST:
            raise self.error(f"a single value of more than {_LARGEST} characters")
        rest = self.data[self.place :]
        self._before += self.place
        self.data, self.place = rest, 0
        # A value that does not fit is tried again with twice as much text, so that trying stays linear.
        size = max(_CHUNK, 2 * len(rest))
        try:
            data = self._file.read(size)
        except _DAMAGES as error:
            raise self.error(f"the compressed file is damaged or cut short ({error})", len(rest)) from error
        if not self._read:
            # A mark in front is longer than the least that is read at once.
            data += self._file.read(4)
            self._expect_utf8(data)
            self._has_mark = data.startswith(codecs.BOM_UTF8)
            data = data.removeprefix(codecs.BOM_UTF8)
        self._ended = not data
        self._read += len(data)
        self.data = rest + data
        if self._read > max(self._raw.tell() * _SMALLEST_PART, _SURELY_FINE):
            raise self.error(f"the compressed file unpacks to more than {_SMALLEST_PART} times its size: no trace does")
        return True

    def _expect_utf8(self, begin: bytes) -> None:
        for name, marks in _OTHER_ENCODINGS.items():
            if begin.startswith(marks):
                raise self.error(f"the text is in {name}; write it in UTF-8, for example with iconv -f {name} -t UTF-8")

    def peek(self) -> str:
        """The next character that is not white space, which is where the place moves; "" at the end of the file."""
        begin = -1
        while True:
            self.place = place = _skip_space(self.data, self.place).end()  # type: ignore[union-attr]
            if place < len(self.data):
                return chr(self.data[place])
            begin = self.position if begin < 0 else begin
            if self.position - begin > _LARGEST:
                raise self.error(f"more than {_LARGEST} characters of white space")
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
        found, size = self._scan()
        self._pass(size)
        return found

    def _scan(self) -> tuple[Any, int]:
        """The value at the present place and its length in bytes; more of the file is read as far as it takes."""
        if not self.peek():
            raise self.error("expected a value, got the end of the file")
        window = _FIRST_WINDOW
        while True:
            text, replaced = _text(self.data[self.place : self.place + window])
            is_all = self.place + window >= len(self.data)
            problem: BaseException | None = None
            try:
                found, end = _scan_once(text, 0)
                # A number may go on after the window.
                if end < len(text) or (is_all and self._ended) or not isinstance(found, (int, float)):
                    break
            except (ValueError, StopIteration) as error:
                problem = error
            except RecursionError as error:
                raise self.error("values are nested too deeply") from error
            if not is_all:
                window *= 8
            elif self.refill():
                window = len(self.data)
            elif problem is not None:
                raise self._malformed(problem, text) from problem
        if _depth(text[:end]) > DEEPEST:
            raise self.error("values are nested too deeply")
        return found, self._size_of(text[:end], replaced)

    def _size_of(self, text: str, replaced: int) -> int:
        """The number of bytes at the present place that a text was read from, of which some may be no UTF-8."""
        if not replaced:
            return len(text.encode())
        raw = self.data[self.place : self.place + 4 * len(text)].decode(errors="surrogateescape")
        return len(raw[: len(text)].encode(errors="surrogateescape"))

    def _pass(self, size: int) -> None:
        """Go on after so many bytes that have been read as text."""
        data = self.data[self.place : self.place + size]
        self.replaced += 0 if data.isascii() else _text(data)[1]
        self.place += size

    def _malformed(self, problem: BaseException, text: str) -> TraceError:
        if isinstance(problem, json.JSONDecodeError):
            place, what = problem.pos, problem.msg
        elif isinstance(problem, StopIteration):
            place, what = problem.value, "expected a value"
        else:
            return self.error(f"not JSON that can be read: {problem}")
        replaced = _text(self.data[self.place :])[1]
        why = "; the file holds bytes that are not UTF-8" if replaced + self.replaced else ""
        return self.error(f"not JSON, or cut short: {what}{why}", self.place + self._size_of(text[:place], replaced))

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

    def pieces(self, decode: Parser | None = None) -> Iterator[Piece]:
        """The items of the array at the present place, many at once. While a piece is out, `place` is its begin.

        `decode` is a parser that is asked first; what it gives None for is read by the standard library.
        """
        parsers = (_parse,) if decode is None else (decode, _parse)
        self.expect("[")
        if self.peek() == "]":
            self.place += 1
            return
        while True:
            self.peek()
            while len(self.data) - self.place < _CHUNK and self.refill():
                pass
            piece = next(filter(None, map(self._parsed, parsers)), None) or self._one_by_one()
            yield piece
            self._pass(len(piece.data))
            if self.expect(",]") == "]":
                return

    def _parsed(self, parse: Parser) -> Piece | None:
        """The largest piece of `data` that a parser takes. That it takes it tells that its end is one."""
        begin = self.place
        finders = (
            (self._ends_of_array, self._ends_of_items) if self._ended else (self._ends_of_items, self._ends_of_array)
        )
        for ends in finders:
            for end in ends():
                data = self.data[begin:end]
                items = parse(b"[%b]" % data)
                if items:
                    return Piece(items, data)
        return None

    def _ends_of_items(self) -> Iterator[int]:
        """The last commas between two objects. They may lie in a text or in a list inside of an item."""
        data, end = self.data, len(self.data)
        tries = 0
        for _ in range(_MOST_BRACES):
            end = data.rfind(b"{", self.place, end)
            if end <= self.place or tries == _MOST_TRIES:
                return
            gap = data[max(end - _WIDEST_GAP, self.place) : end].rstrip()
            if gap.endswith(b",") and gap[:-1].rstrip().endswith(b"}"):
                yield max(end - _WIDEST_GAP, self.place) + len(gap) - 1
                tries += 1

    def _ends_of_array(self) -> Iterator[int]:
        """The last brackets after an object. They may lie in a text, inside of an item or after the array."""
        data, end = self.data, len(self.data)
        tries = 0
        for _ in range(_MOST_BRACES):
            end = data.rfind(b"]", self.place, end)
            if end <= self.place or tries == _MOST_TRIES:
                return
            if data[max(end - _WIDEST_GAP, self.place) : end].rstrip().endswith(b"}"):
                yield end
                tries += 1

    def _one_by_one(self) -> Piece:
        """All whole items of `data` at the present place, or the next one with as much more of the file as it takes."""
        text, replaced = _text(self.data[self.place :])
        items, place, end = [], 0, 0
        while place < len(text):
            try:
                found, place = _scan_once(text, place)
            except (ValueError, StopIteration, RecursionError):
                break
            if place == len(text) and isinstance(found, (int, float)):
                break
            items.append(found)
            end = place
            comma = _skip_space_in_text(text, end).end()  # type: ignore[union-attr]
            if text[comma : comma + 1] != ",":
                break
            place = _skip_space_in_text(text, comma + 1).end()  # type: ignore[union-attr]
        size = self._size_of(text[:end], replaced)
        if not items:
            found, size = self._scan()
            items = [found]
        return Piece(items, self.data[self.place : self.place + size])

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


def _parse(data: bytes) -> list[Any] | None:
    """What the standard library takes: control characters and NaN too, but no bytes that are no UTF-8."""
    try:
        found: list[Any] = _LENIENT.decode(data.decode())
    except (ValueError, RecursionError):
        return None
    return found


def _zstd_reader(file: Any, path: str) -> Any:
    if zstandard is None:
        raise ImportError(
            f"{path} is compressed with Zstandard, which needs zstandard: pip install 'mindtorch_v2[zst]'"
        )
    return zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file, read_across_frames=True)


def _text(data: bytes) -> tuple[str, int]:
    """The text of some bytes, and how many of them were no UTF-8 and are replaced, one by one."""
    try:
        return data.decode(), 0
    except UnicodeDecodeError:
        return _without_bytes(_REPLACED, data.decode(errors="surrogateescape"))


def _depth(text: str) -> int:
    """How many lists and objects of a JSON text lie in each other at most, or a number that is certainly small."""
    opened = text.count("[") + text.count("{")
    if opened <= DEEPEST:
        return opened
    marks = np.frombuffer(_without_texts("", text).encode("ascii", "replace"), np.uint8)
    opening, closing = ((marks == ord(first)) | (marks == ord(second)) for first, second in ("[{", "]}"))
    steps = opening.view(np.int8) - closing.view(np.int8)
    return int(np.cumsum(steps, dtype=np.int64).max())
