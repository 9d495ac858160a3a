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
    """The regions of one thread as columns, in the order in which they ended. Times count from the capture's start."""

    index: int
    native_id: int
    name: str
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    kind: NDArray[np.int32]
    seq: NDArray[np.int64]
    inputs: NDArray[np.int32]
    stack: NDArray[np.int32]
    # Allocations and frees.
    memory_ns: NDArray[np.int64]
    nbytes: NDArray[np.int64]
    address: NDArray[np.int64]
    # The process of the thread where it is another than the capture's own (0): a worker, a child, a rank.
    pid: int = 0
    process_name: str = ""
    # What ran the regions: torch's numbers of device types (0: the CPU) and the place among devices of the type.
    device_type: int = 0
    device_index: int = 0

    def __len__(self) -> int:
        return len(self.start_ns)


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
    # What else a trace said of itself, by key (values as JSON has them).
    metadata: dict[str, Any] = field(default_factory=dict)
    # What a reader should know of this capture: rows lost, a file cut short.
    notes: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not any(len(track) for track in self.tracks)


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
            events = sum(len(track) + len(track.nbytes) for track in tracks)
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
                _take_ids(events),
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


_ROW_TYPES = (np.int64, np.int64, np.int32, np.int64, np.int32, np.int32)
_MEMORY_TYPES = (np.int64, np.int64, np.int64)
_SLICE = 1 << 15


def _read(flat: list[int], types: Sequence[Any]) -> list[NDArray[Any]]:
    """A flat list of rows as columns; the list is emptied."""
    width = len(types)
    count = len(flat) // width
    columns: list[NDArray[Any]] = [np.empty(count, kind) for kind in types]
    values = iter(flat)
    for low in range(0, count, _SLICE):
        high = min(count, low + _SLICE)
        part = np.fromiter(values, np.int64, (high - low) * width).reshape(-1, width)
        for place, column in enumerate(columns):
            column[low:high] = part[:, place]
    flat.clear()
    return columns


def _track(record: LaneRecord, session: Session) -> Track:
    columns = _read(record.rows, _ROW_TYPES)
    start, end, kind = columns[:3]
    start -= session.start_ns
    end -= session.start_ns
    unwanted = _outside(start, end, kind, session)
    if unwanted.any():
        columns = [column[~unwanted] for column in columns]
    np.maximum(columns[0], 0, out=columns[0])
    nothing = np.broadcast_to(np.int32(0), len(columns[0]))
    options = session.options
    if not (options.shapes or options.flops):
        columns[4] = nothing
    if not options.stacks:
        columns[5] = nothing
    memory = _read(record.memory, _MEMORY_TYPES)
    memory[0] -= session.start_ns
    inside = (memory[0] >= 0) & (memory[0] <= session.stop_ns - session.start_ns)
    if not options.memory:
        inside[:] = False
    return Track(record.index, record.native_id, record.name, *columns, *(column[inside] for column in memory))


def _outside(
    start: NDArray[np.int64], end: NDArray[np.int64], kind: NDArray[np.int32], session: Session
) -> NDArray[np.bool_]:
    """What does not belong to the window: begun before it or in a pause, or asked for by another session only.

    Python functions that were already running at the start do belong to it; they count from there.
    """
    outside = start < 0
    if outside.any():
        outside &= ~(np.isin(kind, list(PYTHON_EVENTS)) & (end > 0))
    if session.crowded:
        wanted = session.options.python_events
        outside |= np.isin(kind, [event for event, detail in PYTHON_EVENTS.items() if detail.sort not in wanted])
    for begin, finish in session.pauses:
        outside |= (start >= begin - session.start_ns) & (start < (finish or session.stop_ns) - session.start_ns)
    return outside


class Window:
    """A recording in progress."""

    def __init__(self, options: RecordOptions) -> None:
        self._options = options
        _tap.prepare(options.flags | RECORDER.flags)
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
