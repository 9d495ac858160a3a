"""Recordings that go to a file while they are made: what a spool holds, and the sink that writes it.

A spool explains itself: kinds, inputs, threads and stacks are written out the first time that rows mention them, so
that whoever reads it needs neither this process nor its code. It does not know how a spool is read.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import struct
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np

from .. import _tap
from .capture import MEMORY_KIND, Kinds
from .chunks import Chunk, Packed, matrices, pack, parts_of
from .frames import StackReader
from .recorder import PYTHON_EVENTS, RECORDER, LaneRecord, Session
from .spoolfile import SpoolFile

# Sorts of chunks. All but rows and memory are JSON.
HEADER, BEGIN, STATE, END, CLOSE, STOPPED = b"H", b"W", b"O", b"E", b"C", b"X"
THREADS, KINDS, INPUTS, TEXTS, STACKS = b"T", b"K", b"I", b"F", b"S"
ROWS, MEMORY = b"R", b"M"
# What rows and memory begin with: window, lane, and the place of the first row in the lane.
PLACE = struct.Struct("<IIQ")

# Places of kind, inputs and stack in a row.
_KIND, _INPUTS, _STACK = 2, 4, 5


def encoded(value: Any) -> Any:
    """A value of an input record as JSON can hold it; tuples and complex numbers survive."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [encoded(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [encoded(item) for item in value]}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, np.generic):
        return encoded(value.item())
    return {"repr": repr(value)}


def clock_name() -> str:
    """What the tap's clock counts; processes of one machine that count the same share their times."""
    is_own = _tap.NAMESPACE["clock"] in (time.perf_counter_ns, getattr(_tap.HELPER, "clock", None))
    return time.get_clock_info("perf_counter").implementation if is_own else "given"


def clock_facts() -> dict[str, Any]:
    """What this process's clock counts, and what it shows at a Unix time."""
    return {"clock": clock_name(), "clock_ns": _tap.clock(), "unix_ns": time.time_ns()}


def main_thread_id() -> int:
    """What the operating system calls the main thread. After a fork Python remembers the number it had before."""
    main = threading.main_thread()
    return threading.get_native_id() if threading.current_thread() is main else main.native_id or 0


class _Piece(NamedTuple):
    """Packed rows on their way to the file."""

    record: LaneRecord
    sort: bytes
    first: int
    packed: Packed


class Spool:
    """One file with all windows of a profiler."""

    def __init__(self, path: str | os.PathLike[str], process_name: Callable[[], str]) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.pid = os.getpid()
        self.lock = threading.RLock()
        # Why nothing is written any more; empty while all is well.
        self.failure = ""
        self._unsaid = ""
        self._file = SpoolFile(self.path)
        self._closed = False
        self._windows = 0
        self._names = Kinds()
        self._kinds: set[int] = set()
        self._inputs: set[tuple[int, int]] = set()
        self._texts: dict[str, int] = {}
        self._threads: set[int] = set()
        self._process_name = process_name
        self._said_name = ""
        self._write(self._file.start)
        self.put(HEADER, self._header())
        _spools.add(self)

    def _header(self) -> dict[str, Any]:
        self._said_name = self._process_name()
        return {
            "version": 1,
            "pid": self.pid,
            "process_name": self._said_name,
            "main_thread": main_thread_id(),
            "memory_kind": MEMORY_KIND,
            **clock_facts(),
            "python": sys.version.split()[0],
        }

    @property
    def writable(self) -> bool:
        """Whether chunks still go to the file: not after a failure, nor in a forked child, whose file it is not."""
        return not self.failure and not self._closed and self.pid == os.getpid()

    @property
    def offset(self) -> int:
        return self._file.offset

    def begin(self, session: Session, stacks: StackReader, trace_id: str, metadata: Mapping[str, str]) -> SpoolWindow:
        """A sink for the rows of a session. `metadata` holds JSON texts, and may be given more while it goes on."""
        with self.lock:
            self._windows += 1
            window = SpoolWindow(self, self._windows, session, stacks, metadata)
            options = asdict(session.options)
            times = {"start_ns": session.start_ns, "epoch_ns": session.epoch_ns}
            self.put(BEGIN, {"window": window.number, "trace_id": trace_id, "options": options, **times})
        return window

    def reopen(self) -> None:
        """Go on with a file that was closed."""
        with self.lock:
            if self._closed and not self.failure and self.pid == os.getpid():
                self._file.reopen()
                self._closed = False

    def leave(self) -> None:
        """In a forked child: let go of the file, which is its parent's."""
        if not self._closed:
            self._closed = True
            self._file.leave()

    def close(self) -> None:
        """The profiler ends in order."""
        with self.lock:
            if self.writable:
                self.put(CLOSE, {"windows": self._windows})
            if not self._closed and self.pid == os.getpid():
                self._closed = True
                self._file.close()
            if self._unsaid:
                # The warnings filter turned the warning into an error, which has to reach somebody.
                unsaid, self._unsaid = self._unsaid, ""
                warnings.warn(unsaid, RuntimeWarning, stacklevel=4)

    # What is written

    def put(self, sort: bytes, content: Any) -> bool:
        """Write a chunk of JSON."""
        payload = json.dumps(content, separators=(",", ":")).encode()
        return self._write(self._file.append, sort, payload)

    def _write(self, write: Callable[..., None], *arguments: Any) -> bool:
        """Whether it went well; if not, there is a warning and the spool ends here."""
        if not self.writable:
            return False
        try:
            write(*arguments)
        except OSError as error:
            self._fail(error, "Free some space or choose another place for the next run.")
            return False
        return True

    def _fail(self, error: Exception, remedy: str) -> None:
        self.failure = f"{type(error).__name__}: {error}"
        # A disk that has no room for rows may have some for a few words.
        with contextlib.suppress(OSError):
            self._file.append(STOPPED, json.dumps({"why": self.failure}).encode())
        message = (
            f"the profiler cannot write to its spool {self.path!r} any more ({self.failure}). It holds what was "
            f"recorded before; the rest stays in memory. {remedy}"
        )
        try:
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        except RuntimeWarning:
            self._unsaid = message

    def put_piece(self, piece: _Piece, window: SpoolWindow) -> bool:
        """Write packed rows, and before them what they mention for the first time."""
        record = piece.record
        if piece.sort == ROWS and not self._explain(piece.packed, window):
            return False
        # In parts, as a process that dies while they are written loses only those that are not whole.
        payloads = [
            PLACE.pack(window.number, record.index, piece.first + low) + part.to_bytes()
            for low, part in parts_of(piece.packed)
        ]
        return self._write(self._file.append, piece.sort, *payloads)

    def put_threads(self, records: Iterable[LaneRecord]) -> None:
        fresh = [record for record in records if record.index not in self._threads]
        if fresh:
            self._threads.update(record.index for record in fresh)
            self.put(THREADS, [[record.index, record.native_id, record.name] for record in fresh])

    def put_name(self) -> None:
        """A process may get its name after it began to write."""
        name = self._process_name()
        if name != self._said_name:
            self._said_name = name
            self.put(HEADER, {"process_name": name})

    def put_tables_of(self, flat: list[int], window: SpoolWindow) -> None:
        """Explain rows that are not written as rows."""
        for rows in matrices([flat], _tap.ROW_WIDTH):
            self._explain(pack(rows), window)

    def _explain(self, packed: Packed, window: SpoolWindow) -> bool:
        try:
            self._put_tables(packed, window)
        except Exception as error:
            # Inputs that cannot be described concern whoever looks at them later, not the program that runs now.
            self._fail(error, "Record without record_shapes.")
            return False
        return True

    def _put_tables(self, packed: Packed, window: SpoolWindow) -> None:
        kinds = packed.columns[_KIND].unpacked(packed.size)
        self._put_kinds(np.flatnonzero(np.bincount(kinds)).tolist())
        options = window.session.options
        if options.shapes or options.flops:
            inputs = packed.columns[_INPUTS].unpacked(packed.size)
            width = int(inputs.max()) + 1
            pairs = np.unique(kinds * width + inputs).tolist()
            self._put_inputs([divmod(pair, width) for pair in pairs], options.flops)
        if options.stacks:
            stacks = packed.columns[_STACK].unpacked(packed.size)
            self._put_stacks(np.flatnonzero(np.bincount(stacks)).tolist(), window)

    def _put_kinds(self, events: Iterable[int]) -> None:
        fresh = [event for event in events if event not in self._kinds]
        if not fresh:
            return
        self._kinds.update(fresh)
        rows = []
        for event in fresh:
            kind, python = self._names[event], PYTHON_EVENTS.get(event)
            counted = [kind.flops is not None, kind.all_flops is not None]
            sort = "" if python is None else python.sort
            rows.append(
                [event, kind.name, kind.overload, kind.scope, kind.category, kind.module_id, kind.path, sort, *counted]
            )
        self.put(KINDS, rows)

    def _put_inputs(self, pairs: Iterable[tuple[int, int]], with_flops: bool) -> None:
        fresh = [pair for pair in pairs if pair[1] and pair not in self._inputs]
        if not fresh:
            return
        self._inputs.update(fresh)
        rows = []
        for event, inputs in fresh:
            kind, key = self._names[event], _tap.INPUT_KEYS[inputs]
            record = kind.describe(key) if kind.describe is not None else key
            counts = [0 if not (with_flops and count) else int(count(record)) for count in (kind.flops, kind.all_flops)]
            fields = (record.shapes, record.strides, record.dtypes, record.concrete, getattr(record, "keywords", ()))
            rows.append([event, inputs, [encoded(field) for field in fields], *counts])
        self.put(INPUTS, rows)

    def _put_stacks(self, stacks: Iterable[int], window: SpoolWindow) -> None:
        fresh = [stack for stack in stacks if stack and stack not in window.stacks_known]
        if not fresh:
            return
        window.stacks_known.update(fresh)
        first = len(self._texts)
        rows = []
        for stack in fresh:
            entries = window.stacks.read(stack)
            rows.append([stack, [self._texts.setdefault(entry, len(self._texts)) for entry in entries]])
        if len(self._texts) > first:
            self.put(TEXTS, [first, list(self._texts)[first:]])
        self.put(STACKS, [window.number, rows])


class SpoolWindow:
    """The sink of one session: its rows in the file, and those the file could not take."""

    def __init__(
        self, spool: Spool, number: int, session: Session, stacks: StackReader, metadata: Mapping[str, str]
    ) -> None:
        self.spool = spool
        self.number = number
        self.session = session
        self.stacks = stacks
        self.stacks_known: set[int] = set()
        self._metadata = metadata
        self._said: dict[str, str] = {}
        # Where in the file the window lies.
        self.begin = spool.offset
        self.end = 0
        # The threads that have been seen, by lane.
        self.lanes: dict[int, LaneRecord] = {}
        self._left: list[LaneRecord] = []

    def flush(self) -> None:
        """Write what was recorded up to now."""
        spool = self.spool
        with spool.lock:
            if not spool.writable:
                self.session.sink = None
                return
            records = RECORDER.collect(self.session)
            self._put_rows(records)
            spool.put_name()
            for record in records:
                spool.put_tables_of(record.open, self)
            spool.put(STATE, self._state(records))

    def _state(self, records: list[LaneRecord]) -> dict[str, Any]:
        """Where the window stands, for a reader that finds no end."""
        session = self.session
        metadata = dict(self._metadata)
        changes = {key: text for key, text in metadata.items() if self._said.get(key) != text}
        self._said = metadata
        return {
            "window": self.number,
            "now_ns": session.stop_ns or session.collected_ns,
            "pauses": session.pauses,
            "crowded": session.crowded,
            "metadata": changes,
            "lanes": [record.index for record in records],
            "open": [[record.index, record.open] for record in records if record.open and not session.stop_ns],
        }

    def finish(self, records: list[LaneRecord]) -> list[LaneRecord]:
        """Write the last rows and the end of the window; what is not in the file comes back."""
        spool = self.spool
        with spool.lock:
            if spool.writable:
                self._put_rows(records)
                spool.put_name()
                spool.put(END, self._state(records))
            else:
                self._see(records)
                self._left += [replace(record, first=(0, 0)) for record in records]
            self.end = spool.offset
            left, self._left = self._left, []
        return left

    def _see(self, records: list[LaneRecord]) -> None:
        for record in records:
            self.lanes.setdefault(record.index, replace(record, first=(0, 0), rows=[], memory=[], open=[]))

    def _put_rows(self, records: list[LaneRecord]) -> None:
        self._see(records)
        self.spool.put_threads(records)
        pieces = [piece for record in records for piece in _pieces(record)]
        for place, piece in enumerate(pieces):
            if not self.spool.put_piece(piece, self):
                self._left += [_record_of(piece) for piece in pieces[place:]]
                break


def _pieces(record: LaneRecord) -> Iterable[_Piece]:
    for sort, chunks in ((ROWS, record.rows), (MEMORY, record.memory)):
        for chunk in chunks:
            first = chunk.first
            for packed in chunk.pack():
                yield _Piece(record, sort, first, packed)
                first += packed.size


def _record_of(piece: _Piece) -> LaneRecord:
    """Rows that stay in memory."""
    chunks = [Chunk.of_packed(piece.first, piece.packed)]
    parts = (chunks, []) if piece.sort == ROWS else ([], chunks)
    return replace(piece.record, first=(0, 0), rows=parts[0], memory=parts[1], open=[])


_spools: weakref.WeakSet[Spool] = weakref.WeakSet()


def _leave() -> None:
    """In a forked child, where a thread that held a lock is no more, and which is not to write."""
    for spool in list(_spools):
        spool.lock = threading.RLock()
        spool.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave)


@atexit.register
def flush_all() -> None:
    """Bring what is recorded home when the program ends without stopping its profilers."""
    for session in list(RECORDER.sessions):
        if session.sink is not None:
            session.sink.flush()
