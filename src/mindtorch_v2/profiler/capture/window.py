"""Recordings in progress and just finished: windows on what the recorder writes, and the captures they become."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from ...core import tap
from ..record.chunks import Chunk
from ..record.config import RecordOptions
from ..record.frames import COLLECTIONS, TRACER, StackReader
from ..record.memory_roles import RoleLog
from ..record.recorder import PYTHON_EVENTS, RECORDER, LaneRecord, Session
from .capture import CPU_OP, MEMORY_KIND, Capture, Kinds, take_ids
from .spool import MEMORY, ROLES, ROWS, Spool, SpoolWindow, main_thread_id
from .stored import StoredRows, memory_roles_of, read_rows
from .tracks import bounds_of, track_of

# So many rows hold operators.
_MANY = 10_000


class Others(Protocol):
    """Whoever else recorded at the same time."""

    def join(self, capture: Capture) -> Capture: ...


class Recording:
    """A finished session whose rows are still in chunks; arrays are made when first asked for."""

    def __init__(
        self,
        session: Session,
        records: list[LaneRecord],
        roles: list[Chunk],
        stacks: StackReader,
        spooled: SpoolWindow | None = None,
        others: Others | None = None,
    ) -> None:
        self._session = session
        self._records = records
        self._roles = roles
        self._stacks = stacks
        self._spooled = spooled
        self._others = others
        self._capture: Capture | None = None
        self._lock = threading.Lock()
        self.pid = os.getpid()

    @property
    def start_ns(self) -> int:
        return self._session.start_ns

    @property
    def stop_ns(self) -> int:
        return self._session.stop_ns

    def capture(self) -> Capture:
        # An export in the background may ask at the same time.
        with self._lock:
            if self._capture is None:
                self._capture = self._read()
        return self._capture

    def has_ops(self) -> bool:
        """Whether any operator was recorded."""
        rows = sum(chunk.count for record in self._records for chunk in record.rows)
        if rows > _MANY or (self._spooled is not None and self._spooled.written > _MANY):
            return True
        capture = self.capture()
        return any(
            capture.kinds[kind].category == CPU_OP for track in capture.tracks for kind in set(track.kind.tolist())
        )

    def _read(self) -> Capture:
        session = self._session
        sorts = {event: detail.sort for event, detail in PYTHON_EVENTS.copy().items()}
        bounds = bounds_of(session, sorts)
        records, roles, notes = self._take()
        if session.lost:
            notes.append(f"{session.lost} events are missing, for which there was no memory")
        capture = Capture(
            session.options,
            session.start_ns,
            session.stop_ns,
            session.epoch_ns,
            [track_of(record, bounds) for record in records],
            Kinds(),
            tap.INPUT_KEYS,
            self._stacks,
            MEMORY_KIND,
            self.pid,
            process_name(),
            pauses=session.pauses,
            main_thread=main_thread_id(),
            notes=notes,
            memory_roles=memory_roles_of(roles, session.start_ns),
        )
        if self._others is not None:
            capture = self._others.join(capture)
        capture.first_id = take_ids(sum(len(track) + len(track.nbytes) for track in capture.tracks))
        return capture

    def _take(self) -> tuple[list[LaneRecord], list[Chunk], list[str]]:
        """What was recorded, out of the spool if there is one and out of memory; and what is to be said of it."""
        records, self._records = self._records, []
        roles, self._roles = self._roles, []
        window = self._spooled
        if window is None:
            return records, roles, []
        is_stored = window.end > window.begin
        stored = read_rows(window.spool.path, window.begin, window.end, window.number) if is_stored else StoredRows()
        merged = {lane: replace(record, rows=[], memory=[]) for lane, record in window.lanes.items()}
        for sort in (ROWS, MEMORY):
            for lane, chunks in stored.of[sort].items():
                if lane in merged:
                    (merged[lane].rows if sort == ROWS else merged[lane].memory).extend(chunks)
        for record in records:
            merged[record.index].rows += record.rows
            merged[record.index].memory += record.memory
        notes = _spool_notes(window, stored, records)
        return [merged[lane] for lane in sorted(merged)], [*stored.of[ROLES].get(0, ()), *roles], notes


def _spool_notes(window: SpoolWindow, stored: StoredRows, left: list[LaneRecord]) -> list[str]:
    """What is to be said of a window whose spool did not take everything, or does not have it any more."""
    kept = sum(chunk.count for record in left for chunk in record.rows)
    notes = []
    if window.failure:
        notes.append(f"the spool lacks a part ({window.failure}): {kept} rows of it were kept in memory")
    missing = window.written - sum(chunk.count for chunks in stored.of[ROWS].values() for chunk in chunks)
    if missing > 0:
        notes.append(f"{missing} rows are lost: somebody changed the spool {window.spool.path!r} after it was written")
    return notes


def process_name() -> str:
    return os.path.basename(sys.executable) or "python"


class Window:
    """A recording in progress."""

    def __init__(
        self,
        options: RecordOptions,
        spool: Spool | None = None,
        trace_id: str = "",
        metadata: Mapping[str, str] | None = None,
        others: Others | None = None,
    ) -> None:
        self._options = options
        self._others = others
        tap.prepare(options.flags | RECORDER.flags)
        if options.python_gc:
            COLLECTIONS.hold()
        self._session = RECORDER.start(options)
        self._stacks = StackReader(RECORDER.stacks)
        self._spooled: SpoolWindow | None = None
        if spool is not None:
            self._spooled = self._session.sink = spool.begin(
                self._session, self._stacks, trace_id, {} if metadata is None else metadata
            )
        if options.memory:
            self._session.roles = RoleLog()
            self._session.roles.start()
        if options.stacks:
            TRACER.hold(options.all_threads)

    @property
    def start_ns(self) -> int:
        return self._session.start_ns

    def pause(self, paused: bool) -> None:
        RECORDER.pause(self._session, paused)

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # Dropped without a stop, as when a notebook cell fails and is run again: nothing must go on recording. When the
        # interpreter ends, what a stop needs may be gone before.
        if not is_ending() and getattr(self, "_session", None) in RECORDER.sessions:
            self.stop()

    def stop(self) -> Recording:
        if self._session not in RECORDER.sessions:
            # A forked child has left the recording to its parent.
            return Recording(self._session, [], [], self._stacks)
        records = _close(self._session)
        for record in records:
            _add_open(record)
        if self._spooled is not None:
            records, roles = self._spooled.finish(records)
        else:
            roles = [] if self._session.roles is None else self._session.roles.take()
        return Recording(self._session, records, roles, self._stacks, self._spooled, self._others)


def _close(session: Session) -> list[LaneRecord]:
    records = RECORDER.stop(session)
    if session.roles is not None:
        session.roles.stop()
    if session.options.stacks:
        TRACER.release(session.options.all_threads)
    if session.options.python_gc:
        COLLECTIONS.release()
    return records


def leave_parent() -> None:
    """In a forked child that is recorded by itself: what the parent records goes on in the parent alone."""
    for session in [session for session in RECORDER.sessions if session.options.workers]:
        _close(session)
    RECORDER.own_lane().open.clear()


def _add_open(record: LaneRecord) -> None:
    """What was still running counts as ended when the window did."""
    if record.open:
        end = record.rows[-1].end if record.rows else record.first[0]
        record.rows.append(Chunk(end, [record.open], tap.ROW_WIDTH))
