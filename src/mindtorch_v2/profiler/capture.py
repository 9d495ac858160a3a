"""A capture: everything one recording brought home, and the windows that recordings are taken through.

It owns the link between raw rows and what their numbers mean (event kinds, inputs, stacks). It does not analyse.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _tap
from .config import RecordOptions
from .frames import COLLECTIONS, TRACER, StackReader
from .recorder import PYTHON_EVENTS, RECORDER, LaneRecord, Session

CPU_OP, USER_ANNOTATION, PYTHON_FUNCTION = "cpu_op", "user_annotation", "python_function"
MEMORY_MARK = "cpu_instant_event"
STEP_PREFIX = "ProfilerStep#"
MEMORY_EVENT_NAME = "[memory]"
_MEMORY_KIND = _tap.event_id(MEMORY_EVENT_NAME)


class Kind(NamedTuple):
    """What events with the same number have in common."""

    name: str
    overload: str
    scope: int
    category: str
    describe: Callable[[Any], _tap.InputRecord] | None
    flops: Callable[[_tap.InputRecord], int] | None
    all_flops: Callable[[_tap.InputRecord], int] | None
    module_id: int
    path: str

    @property
    def label(self) -> str:
        """The name in event lists, where numbered steps share one."""
        return "ProfilerStep*" if self.name.startswith(STEP_PREFIX) else self.name


def _describe(key: Any) -> Any:
    """Inputs of a kind without a schema: records as they are, keys as the op layer reads them."""
    return key if hasattr(key, "shapes") else _tap.describe_plain(key)


def _kind(event: int) -> Kind:
    row = _tap.EVENTS[event]
    python = PYTHON_EVENTS.get(event)
    if python is not None:
        return Kind(row.name, "", row.scope, PYTHON_FUNCTION, None, None, None, python.module_id, python.path)
    category = MEMORY_MARK if event == _MEMORY_KIND else USER_ANNOTATION if row.is_annotation else CPU_OP
    describe = row.describe or _describe
    return Kind(row.name, row.overload, row.scope, category, describe, row.flops, row.all_flops, -1, "")


class Kinds:
    """The event kinds of the running process, looked up by number when asked for."""

    def __init__(self) -> None:
        self._known: dict[int, Kind] = {}

    def __getitem__(self, event: int) -> Kind:
        found = self._known.get(event)
        if found is None:
            found = self._known[event] = _kind(event)
        return found

    def __len__(self) -> int:
        return len(_tap.EVENTS)


@dataclass
class Track:
    """The rows of one thread as arrays, in the order in which the regions ended."""

    index: int
    native_id: int
    name: str
    rows: NDArray[np.int64]  # n × 6, as the tap defines a row
    memory: NDArray[np.int64]  # m × 3, as the tap defines it


@dataclass
class Capture:
    """One recording. Times are nanoseconds of the tap's clock; `epoch_ns` is the Unix time of `start_ns`."""

    options: RecordOptions
    start_ns: int
    stop_ns: int
    epoch_ns: int
    tracks: list[Track]
    kinds: Any  # number -> Kind
    inputs: Sequence[Any]
    stacks: StackReader
    # The number of the kind that stands for memory events outside of every region.
    memory_kind: int = _MEMORY_KIND
    pid: int = 0
    process_name: str = ""
    # First id of this capture's events; ids are unique in a process.
    first_id: int = 1
    pauses: list[list[int]] = field(default_factory=list)
    main_thread: int = 0

    @property
    def is_empty(self) -> bool:
        return all(not len(track.rows) for track in self.tracks)


class Recording:
    """A finished session whose rows are still flat lists; arrays are made when first asked for."""

    def __init__(self, session: Session, records: list[LaneRecord], stacks: StackReader) -> None:
        self._session = session
        self._records = records
        self._stacks = stacks
        self._capture: Capture | None = None
        self.pid = os.getpid()

    @property
    def start_ns(self) -> int:
        return self._session.start_ns

    @property
    def stop_ns(self) -> int:
        return self._session.stop_ns

    def capture(self) -> Capture:
        if self._capture is None:
            tracks = [_track(record, self._session) for record in self._records]
            self._records = []
            rows = sum(len(track.rows) for track in tracks)
            self._capture = Capture(
                self._session.options,
                self._session.start_ns,
                self._session.stop_ns,
                self._session.epoch_ns,
                tracks,
                Kinds(),
                _tap.INPUT_KEYS,
                self._stacks,
                _MEMORY_KIND,
                self.pid,
                os.path.basename(sys.executable) or "python",
                _take_ids(rows + sum(len(track.memory) for track in tracks)),
                self._session.pauses,
                threading.main_thread().native_id or 0,
            )
        return self._capture


_next_id = [1]
_id_lock = threading.Lock()


def _take_ids(count: int) -> int:
    """The first of `count` event ids nobody else has; every capture starts a new block of 512."""
    with _id_lock:
        first = _next_id[0]
        _next_id[0] = first + (count // 512 + 1) * 512
    return first


# Flat lists are turned into arrays from their end, so that memory is given back while it is taken.
_SLICE = 1 << 17


def _array(flat: list[int], width: int) -> NDArray[np.int64]:
    parts: list[NDArray[np.int64]] = []
    step = _SLICE * width
    while len(flat) > step:
        cut = (len(flat) - 1) // step * step
        parts.append(np.array(flat[cut:], dtype=np.int64).reshape(-1, width))
        del flat[cut:]
    parts.append(np.array(flat, dtype=np.int64).reshape(-1, width))
    flat.clear()
    return np.concatenate(parts[::-1]) if len(parts) > 1 else parts[0]


def _track(record: LaneRecord, session: Session) -> Track:
    rows = _array(record.rows, _tap.ROW_WIDTH)
    memory = _array(record.memory, _tap.MEMORY_WIDTH)
    start = rows[:, 0]
    early = start < session.start_ns
    if early.any():
        rows = _clip(rows, early, session.start_ns)
    if session.crowded:
        wanted = session.options.python_events
        unwanted = [event for event, detail in PYTHON_EVENTS.items() if detail.sort not in wanted]
        rows = rows[~np.isin(rows[:, 2], unwanted)]
    for begin, end in session.pauses:
        rows = rows[(rows[:, 0] < begin) | (rows[:, 0] >= (end or session.stop_ns))]
    times = memory[:, 0]
    return Track(
        record.index,
        record.native_id,
        record.name,
        rows,
        memory[(times >= session.start_ns) & (times <= session.stop_ns)],
    )


def _clip(rows: NDArray[np.int64], early: NDArray[np.bool_], start_ns: int) -> NDArray[np.int64]:
    """Drop what began before the window; Python frames that were already running count from its start."""
    python = np.isin(rows[:, 2], list(PYTHON_EVENTS)) & early & (rows[:, 1] > start_ns)
    rows = rows[~early | python]
    rows[:, 0] = np.maximum(rows[:, 0], start_ns)
    return rows


class Window:
    """A recording in progress."""

    def __init__(self, options: RecordOptions) -> None:
        self._options = options
        if options.python_gc:
            COLLECTIONS.hold()
        self._session = RECORDER.start(options)
        self._stacks = StackReader(RECORDER.stacks)
        if options.stacks:
            TRACER.hold(options.all_threads)

    @property
    def start_ns(self) -> int:
        return self._session.start_ns

    def pause(self, paused: bool) -> None:
        RECORDER.pause(self._session, paused)

    def __del__(self) -> None:
        # Dropped without a stop, as when a notebook cell fails and is run again: nothing must go on recording.
        if getattr(self, "_session", None) in RECORDER.sessions:
            self.stop()

    def stop(self) -> Recording:
        records = RECORDER.stop(self._session)
        if self._options.stacks:
            TRACER.release(self._options.all_threads)
        if self._options.python_gc:
            COLLECTIONS.release()
        return Recording(self._session, records, self._stacks)
