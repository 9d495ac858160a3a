"""Recordings that go to a file while they are made: what a spool holds, and the sink that writes it.

A spool explains itself: kinds, inputs, threads and stacks are written out the first time that rows mention them, so
that whoever reads it needs neither this process nor its code. It does not know how a spool is read.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np

from ...core import tap
from ..record.chunks import SLICE, Chunk, Packed, matrices, pack
from ..record.frames import StackReader
from ..record.recorder import PYTHON_EVENTS, RECORDER, LaneRecord, Session
from .capture import MEMORY_KIND, Kinds
from .outbox import MEMORY, PLACE, ROLES, ROWS, Outbox, Rows
from .spoolfile import MAGIC, Changed, SpoolFile, framed

__all__ = ["MEMORY", "PLACE", "ROLES", "ROWS", "Spool", "SpoolWindow", "clock_facts", "main_thread_id"]

# Sorts of chunks that are JSON.
HEADER, BEGIN, STATE, END, CLOSE, STOPPED = b"H", b"W", b"O", b"E", b"C", b"X"
THREADS, KINDS, INPUTS, TEXTS, STACKS = b"T", b"K", b"I", b"F", b"S"
# Room at the beginning of the file for what is to be said when there is no room at its end.
_NOTE_SIZE = 512
_MOST_WORDS = 120
# Entries of a table that one chunk holds.
_MOST_ENTRIES = 2000

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
    is_own = tap.NAMESPACE["clock"] in (time.perf_counter_ns, getattr(tap.HELPER, "clock", None))
    return time.get_clock_info("perf_counter").implementation if is_own else "given"


def clock_facts() -> dict[str, Any]:
    """What this process's clock counts, and what it shows at a Unix time."""
    return {"clock": clock_name(), "clock_ns": tap.clock(), "unix_ns": time.time_ns()}


def main_thread_id() -> int:
    """What the operating system calls the main thread. After a fork Python remembers the number it had before."""
    main = threading.main_thread()
    return threading.get_native_id() if threading.current_thread() is main else main.native_id or 0


class Spool:
    """One file with all windows of a profiler."""

    def __init__(self, path: str | os.PathLike[str], process_name: Callable[[], str]) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.pid = os.getpid()
        self.lock = threading.RLock()
        # Why the file does not take what is recorded; empty while all is well.
        self.failure = ""
        # Whether it never will.
        self._given_up = False
        self._unsaid = ""
        self._outbox = Outbox(SpoolFile(self.path))
        self._closed = False
        self._windows = 0
        self._window: SpoolWindow | None = None
        self._names = Kinds()
        self._kinds: set[int] = set()
        self._inputs: set[tuple[int, int]] = set()
        self._texts: dict[str, int] = {}
        self._threads: set[int] = set()
        self._process_name = process_name
        self._said_name = ""
        self._outbox.put(MAGIC + _note({}))
        self.put(HEADER, self._header())
        self.send()
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
    def is_open(self) -> bool:
        """Whether chunks may be put in: not after a failure that lasts, nor in a forked child, whose file it is not."""
        return not self._given_up and not self._closed and self.pid == os.getpid()

    @property
    def offset(self) -> int:
        return self._outbox.file.offset

    def begin(self, session: Session, stacks: StackReader, trace_id: str, metadata: Mapping[str, str]) -> SpoolWindow:
        """A sink for the rows of a session. `metadata` holds JSON texts, and may be given more while it goes on."""
        with self.lock:
            self._windows += 1
            window = SpoolWindow(self, self._windows, session, stacks, metadata)
            options = asdict(session.options)
            times = {"start_ns": session.start_ns, "epoch_ns": session.epoch_ns}
            self.put(BEGIN, {"window": window.number, "trace_id": trace_id, "options": options, **times})
            self._window = window
            self.send()
        return window

    def reopen(self) -> None:
        """Go on with a file that was closed."""
        with self.lock:
            if self._closed and not self._given_up and self.pid == os.getpid():
                self._outbox.file.reopen()
                self._closed = False

    def leave(self) -> None:
        """In a forked child: let go of the file, which is its parent's."""
        if not self._closed:
            self._closed = True
            self._outbox.file.leave()

    def close(self) -> None:
        """The profiler ends in order."""
        with self.lock:
            if self.is_open:
                self.put(CLOSE, {"windows": self._windows})
                self.send()
            if not self._closed and self.pid == os.getpid():
                if self.failure:
                    self._leave_note(stopped=True)
                self._closed = True
                try:
                    self._outbox.file.close()
                except OSError as error:
                    self._warn(error, "It may lack its end.")
            if self._unsaid:
                # The warnings filter turned the warning into an error, which has to reach somebody.
                unsaid, self._unsaid = self._unsaid, ""
                warnings.warn(unsaid, RuntimeWarning, stacklevel=4)

    # What is written

    def put(self, sort: bytes, content: Any) -> None:
        """Have a chunk of JSON written."""
        if self.is_open:
            self._outbox.put(framed(sort, json.dumps(content, separators=(",", ":")).encode()))

    def send(self) -> None:
        """Write what has been put in. What cannot be written waits, and is tried again the next time."""
        if not self.is_open:
            return
        error = self._outbox.send()
        if error is None:
            if self.failure:
                self.failure = ""
                self._put_note({})
            return
        is_new, self.failure = not self.failure, f"{type(error).__name__}: {error}"
        self._leave_note()
        if isinstance(error, Changed):
            self._given_up = True
            self._warn(error, "What is recorded from now on stays in memory.")
        elif is_new:
            self._warn(
                error,
                "What is recorded meanwhile stays in memory and is written once that is possible: free some space, or "
                "choose another place for the next run.",
            )

    def _give_up(self, error: Exception, remedy: str) -> None:
        self._given_up, self.failure = True, f"{type(error).__name__}: {error}"
        self._leave_note()
        self._warn(error, f"It holds what was recorded before; the rest stays in memory. {remedy}")

    def _warn(self, error: Exception, outlook: str) -> None:
        message = f"the profiler cannot write to its spool {self.path!r} ({type(error).__name__}: {error}). {outlook}"
        try:
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        except RuntimeWarning:
            self._unsaid = message

    def _leave_note(self, stopped: bool = False) -> None:
        """Say in the file what is not in it."""
        window, waiting = self._window, self._outbox.rows()
        said: dict[str, Any] = {"why": _plain(self.failure[:_MOST_WORDS]), "stopped": stopped}
        for name, sort in (("rows", ROWS), ("memory", MEMORY)):
            said[name] = sum(rows.packed.size for rows in waiting if rows.sort == sort)
        if window is not None:
            session = window.session
            begin = min((rows.since_ns for rows in waiting), default=window.reached_ns)
            times = (begin, session.stop_ns or max(session.collected_ns, window.reached_ns))
            said["from_s"], said["to_s"] = ((time_ns - session.start_ns) / 1e9 for time_ns in times)
        self._put_note(said)

    def _put_note(self, said: dict[str, Any]) -> None:
        # Not every file system overwrites without room, and a disk that fails does not either.
        with contextlib.suppress(OSError):
            self._outbox.file.overwrite(_note(said), len(MAGIC))

    def put_rows(self, rows: Rows, window: SpoolWindow) -> None:
        """Have packed rows written, and before them what they mention for the first time."""
        if rows.sort == ROWS and not self._given_up:
            self._explain(rows.packed, window)
        self._outbox.put_rows(rows)

    def waiting(self, window: SpoolWindow) -> list[Rows]:
        """Rows of a window that are not in the file."""
        return self._outbox.rows(window.number)

    def put_threads(self, records: Iterable[LaneRecord]) -> None:
        fresh = [record for record in records if record.index not in self._threads]
        if fresh:
            self._threads.update(record.index for record in fresh)
            self._put_table(THREADS, [[record.index, record.native_id, record.name] for record in fresh])

    def put_name(self) -> None:
        """A process may get its name after it began to write."""
        name = self._process_name()
        if name != self._said_name:
            self._said_name = name
            self.put(HEADER, {"process_name": name})

    def put_tables_of(self, flat: list[int], window: SpoolWindow) -> None:
        """Explain rows that are not written as rows."""
        for rows in matrices([flat], tap.ROW_WIDTH):
            self._explain(pack(rows), window)

    def _explain(self, packed: Packed, window: SpoolWindow) -> None:
        try:
            self._put_tables(packed, window)
        except Exception as error:
            # Inputs that cannot be described concern whoever looks at them later, not the program that runs now.
            self._give_up(error, "Record without record_shapes.")

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
        self._put_table(KINDS, rows)

    def _put_table(self, sort: bytes, rows: list[Any]) -> None:
        for low in range(0, len(rows), _MOST_ENTRIES):
            self.put(sort, rows[low : low + _MOST_ENTRIES])

    def _put_inputs(self, pairs: Iterable[tuple[int, int]], with_flops: bool) -> None:
        fresh = [pair for pair in pairs if pair[1] and pair not in self._inputs]
        if not fresh:
            return
        self._inputs.update(fresh)
        rows = []
        for event, inputs in fresh:
            kind, key = self._names[event], tap.INPUT_KEYS[inputs]
            record = kind.describe(key) if kind.describe is not None else key
            counts = [0 if not (with_flops and count) else int(count(record)) for count in (kind.flops, kind.all_flops)]
            fields = (record.shapes, record.strides, record.dtypes, record.concrete, getattr(record, "keywords", ()))
            rows.append([event, inputs, [encoded(field) for field in fields], *counts])
        self._put_table(INPUTS, rows)

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
        texts = list(itertools.islice(self._texts, first, None))
        for low in range(0, len(texts), _MOST_ENTRIES):
            self.put(TEXTS, [first + low, texts[low : low + _MOST_ENTRIES]])
        for low in range(0, len(rows), _MOST_ENTRIES):
            self.put(STACKS, [window.number, rows[low : low + _MOST_ENTRIES]])


def _plain(words: str) -> str:
    """The words in letters that take a byte each in JSON, or two."""
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in words)


def _note(said: dict[str, Any]) -> bytes:
    """The chunk at the beginning of the file, always of one length."""
    return framed(STOPPED, json.dumps(said).encode().ljust(_NOTE_SIZE))


class Left(NamedTuple):
    """What a window holds that its file does not."""

    records: list[LaneRecord]
    # What was seen in a role.
    roles: list[Chunk]


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
        # How many rows of each sort it was given; how many regions the file holds, and up to when it holds everything.
        self.given = {sort.decode(): 0 for sort in (ROWS, MEMORY, ROLES)}
        self.written = 0
        self.reached_ns = session.start_ns
        # Why it does not, if it ended so.
        self.failure = ""

    def flush(self) -> None:
        """Write what was recorded up to now."""
        spool = self.spool
        with spool.lock:
            if not spool.is_open:
                self.session.sink = None
                return
            records = RECORDER.collect(self.session)
            self._put_rows(records)
            spool.put_name()
            spool.send()
            if spool.failure:
                return
            for record in records:
                spool.put_tables_of(record.open, self)
            spool.put(STATE, self._state(records))
            spool.send()
            if not spool.failure:
                self.reached_ns = self.session.collected_ns

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
            "given": self.given,
            "lanes": [record.index for record in records],
            "open": [[record.index, record.open] for record in records if record.open and not session.stop_ns],
        }

    def finish(self, records: list[LaneRecord]) -> Left:
        """Write the last rows and the end of the window; what is not in the file comes back."""
        spool = self.spool
        with spool.lock:
            late, roles = [], []
            if spool.is_open:
                self._put_rows(records)
                spool.put_name()
                spool.put(END, self._state(records))
                spool.send()
            else:
                self._see(records)
                late = [replace(record, first=(0, 0)) for record in records]
                roles = self._roles()
            waiting = spool.waiting(self)
            self.written = self.given[ROWS.decode()] - sum(rows.packed.size for rows in waiting if rows.sort == ROWS)
            self.end, self.failure = spool.offset, spool.failure
        left = [_record_of(rows) for rows in waiting if rows.sort != ROLES]
        seen = [Chunk.of_packed(rows.first, rows.packed) for rows in waiting if rows.sort == ROLES]
        return Left(left + late, seen + roles)

    def _roles(self) -> list[Chunk]:
        return [] if self.session.roles is None else self.session.roles.take()

    def _see(self, records: list[LaneRecord]) -> None:
        for record in records:
            self.lanes.setdefault(record.index, replace(record, first=(0, 0), rows=[], memory=[], open=[]))

    def _put_rows(self, records: list[LaneRecord]) -> None:
        self._see(records)
        self.spool.put_threads(records)
        everything: list[tuple[LaneRecord | None, bytes, list[Chunk]]] = [(None, ROLES, self._roles())]
        everything += [(record, ROWS, record.rows) for record in records]
        everything += [(record, MEMORY, record.memory) for record in records]
        parts = [part for record, sort, chunks in everything for part in self._parts(record, sort, chunks)]
        # In order of time, so that a file that ends in the midst of them holds all of a first stretch.
        for rows in sorted(parts, key=lambda rows: rows.since_ns):
            self.spool.put_rows(rows, self)
            self.given[rows.sort.decode()] += rows.packed.size

    def _parts(self, record: LaneRecord | None, sort: bytes, chunks: list[Chunk]) -> Iterator[Rows]:
        """Rows in portions: a process that dies while they are written loses only those that are not whole."""
        for chunk in chunks:
            first = chunk.first
            for packed in chunk.pack():
                yield from Rows(self.number, sort, record, first, packed).parts(SLICE)
                first += packed.size


def _record_of(rows: Rows) -> LaneRecord:
    """Rows that stay in memory."""
    assert rows.record is not None
    chunks = [Chunk.of_packed(rows.first, rows.packed)]
    parts = (chunks, []) if rows.sort == ROWS else ([], chunks)
    return replace(rows.record, first=(0, 0), rows=parts[0], memory=parts[1], open=[])


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
