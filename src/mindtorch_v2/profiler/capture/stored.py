"""What a spool holds, read back into a capture, whatever state its writer or its disk left it in.

It executes nothing of what it reads, and says in the capture's notes what is missing.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import operator
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.roles import NAMES as ROLE_NAMES
from ..record.chunks import Chunk, columns_from, unpack_bytes
from ..record.config import RecordOptions
from ..record.recorder import LaneRecord
from . import spool
from .capture import CPU_OP, MEMORY_EVENT_NAME, MEMORY_MARK, SEEN, Capture, Kind, Track
from .spool_values import LARGEST, LATEST_NS, MALFORMED, decoded, header_int, int_of, json_value, text_of, time_of
from .spoolfile import Frame, frames, opened
from .tracks import MEMORY_TYPES, ROW_TYPES, Bounds, track_of

Ints = NDArray[np.int64]


class StoredInputs(NamedTuple):
    """An input record with the FLOPs that were counted for it; see the tap's InputRecord."""

    shapes: Any
    strides: Any
    dtypes: Any
    concrete: Any
    keywords: Any
    flops: int
    all_flops: int


class StoredStacks:
    """Stacks as lists of entries, innermost first."""

    def __init__(self) -> None:
        self._stacks: list[list[str]] = [[]]

    def add(self, entries: list[str]) -> int:
        self._stacks.append(entries)
        return len(self._stacks) - 1

    def read(self, stack: int) -> list[str]:
        return self._stacks[stack]


@dataclass
class Window:
    """What the spool says of one window."""

    number: int
    options: RecordOptions
    start_ns: int
    epoch_ns: int
    stop_ns: int = 0
    pauses: list[list[int]] = field(default_factory=list)
    crowded: bool = False
    ended: bool = False
    lanes: list[int] = field(default_factory=list)
    # How many rows it was given when it last said so.
    given: int = 0
    open: dict[int, list[int]] = field(default_factory=dict)
    stacks: dict[int, list[int]] = field(default_factory=dict)
    # By lane.
    rows: dict[int, list[Chunk]] = field(default_factory=dict)
    memory: dict[int, list[Chunk]] = field(default_factory=dict)
    # Blocks of memory seen in a role, which are of no lane.
    roles: dict[int, list[Chunk]] = field(default_factory=dict)

    def of(self, sort: bytes) -> dict[int, list[Chunk]]:
        return {spool.ROWS: self.rows, spool.MEMORY: self.memory, spool.ROLES: self.roles}[sort]

    def missing(self) -> int:
        """How many rows were written and are not there."""
        chunks = [chunks for sort in _WIDTHS for chunks in self.of(sort).values()]
        between = sum(after.first - before.end for of_lane in chunks for before, after in itertools.pairwise(of_lane))
        found = sum(chunk.count for of_lane in chunks for chunk in of_lane)
        return max(between, self.given - found)

    def last_memory_ns(self) -> int:
        """When memory last came or went that is there."""
        last = [chunks[-1] for chunks in self.memory.values() if chunks]
        return max((int(columns[0].max(initial=0)) for chunk in last for columns in chunk.read()), default=0)

    def last_ns(self, lane: int) -> int:
        """When the last row of a lane that is there ended."""
        last = self.rows.get(lane, ())[-1:]
        return max((int(columns[1].max(initial=0)) for chunk in last for columns in chunk.read()), default=0)


class StoredRows:
    """By sort and lane, the rows of a window."""

    def __init__(self) -> None:
        self.of: dict[bytes, dict[int, list[Chunk]]] = {sort: {} for sort in _WIDTHS}


def read_rows(path: str, begin: int, end: int, window: int) -> StoredRows:
    """The rows of a window between two places of a spool; what somebody has changed since is not among them."""
    found = StoredRows()
    with opened(path) as data:
        for frame in frames(data, begin):
            if frame.offset >= end:
                break
            if frame.sort in _WIDTHS:
                number, lane, chunk = _chunk(frame)
                if number == window:
                    found.of[frame.sort].setdefault(lane, []).append(chunk)
    return found


_WIDTHS = {spool.ROWS: len(ROW_TYPES), spool.MEMORY: len(MEMORY_TYPES), spool.ROLES: len(SEEN)}


def _chunk(frame: Frame) -> tuple[int, int, Chunk]:
    window, lane, first = spool.PLACE.unpack_from(frame.payload)
    packed = unpack_bytes(frame.payload, spool.PLACE.size, _WIDTHS[frame.sort])
    return window, lane, Chunk.of_packed(first, packed)


def memory_roles_of(chunks: Sequence[Chunk], start_ns: int) -> Ints:
    """Blocks of memory seen in a role (see Capture), with times from a start on."""
    rows = columns_from(list(chunks), 0, (np.int64,) * len(SEEN))
    rows[0] -= start_ns
    return np.stack(rows, axis=1)


class Contents:
    """Everything a spool says, chunk by chunk."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.header: dict[str, Any] = {}
        self.windows: dict[int, Window] = {}
        self.notes: list[str] = []
        self.metadata: dict[str, Any] = {}
        self.trace_id = ""
        self.closed = False
        # What it says is not in it.
        self._missing: dict[str, Any] = {}
        self._threads: dict[int, tuple[int, str]] = {}
        self._kinds: dict[int, tuple[Kind, str]] = {}
        self._inputs: dict[tuple[int, int], StoredInputs] = {}
        self._texts: dict[int, str] = {}
        self._readers: dict[bytes, Callable[[Any], None]] = {
            spool.HEADER: self._read_header,
            spool.BEGIN: self._read_begin,
            spool.STATE: self._read_state,
            spool.END: self._read_end,
            spool.STOPPED: self._read_stopped,
            spool.THREADS: self._read_threads,
            spool.KINDS: self._read_kinds,
            spool.INPUTS: self._read_inputs,
            spool.TEXTS: self._read_texts,
            spool.STACKS: self._read_stacks,
        }
        with opened(path) as data:
            for frame in frames(data):
                self._read(frame)
        self._put_in_order()
        self._say_how_it_ended()

    # Chunks

    def _read(self, frame: Frame) -> None:
        if frame.damage:
            self.notes.append(frame.damage)
        if not frame.sort:
            return
        self.closed = frame.sort == spool.CLOSE
        reader = self._readers.get(frame.sort)
        try:
            if frame.sort in _WIDTHS:
                self._keep(frame)
            elif reader is not None:
                reader(json.loads(frame.payload))
            elif not self.closed:
                self.notes.append(f"a chunk of unknown sort {frame.sort!r} at offset {frame.offset} was skipped")
        except MALFORMED as error:
            raise ValueError(
                f"{self.path!r} is no spool that can be read: malformed chunk {frame.sort!r} at offset "
                f"{frame.offset}: {type(error).__name__}: {error}"
            ) from None

    def _keep(self, frame: Frame) -> None:
        number, lane, chunk = _chunk(frame)
        window = self.windows.get(number)
        if window is None:
            self.notes.append(f"{chunk.count} rows of window {number} have lost their window and were skipped")
            return
        window.of(frame.sort).setdefault(lane, []).append(chunk)

    def _read_header(self, said: Any) -> None:
        if said.get("version", 1) != 1:
            raise ValueError(f"expected version 1, got {said['version']}; read it with the release that wrote it")
        self.header.update(said)

    def _read_stopped(self, said: Any) -> None:
        self._missing = {"why": text_of(said.get("why", "")), "stopped": bool(said.get("stopped", False))}
        for name in ("rows", "memory"):
            self._missing[name] = int_of(said.get(name, 0))
        for name in ("from_s", "to_s"):
            if name in said:
                self._missing[name] = float(said[name])

    def _read_begin(self, said: Any) -> None:
        known = {entry.name for entry in dataclasses.fields(RecordOptions)}
        options = {name: bool(value) for name, value in said["options"].items() if name in known}
        window = Window(
            int_of(said["window"]),
            RecordOptions(**options),
            time_of(said["start_ns"]),
            int_of(said["epoch_ns"]),
        )
        if window.number in self.windows:
            self.notes.append(f"window {window.number} begins again in the file, which was skipped")
            return
        window.stop_ns = window.start_ns
        self.trace_id = text_of(said["trace_id"])
        # Each window has its own; the last one's stand for all.
        self.metadata = {}
        self.windows[window.number] = window

    def _read_state(self, said: Any) -> None:
        window = self.windows.get(said["window"])
        # One that lies behind a later one is older than what is known.
        if window is not None and time_of(said["now_ns"]) >= window.stop_ns and not window.ended:
            window.stop_ns = time_of(said["now_ns"])
            window.pauses = [[time_of(begin), time_of(end)] for begin, end in said["pauses"]]
            window.crowded = bool(said["crowded"])
            window.given = sum(int_of(count) for count in said.get("given", {}).values())
            window.lanes = [int_of(lane) for lane in said["lanes"]]
            window.open = {int_of(lane): [int_of(value) for value in rows] for lane, rows in said["open"]}
            self.metadata.update((key, json_value(text)) for key, text in said["metadata"].items())

    def _read_end(self, said: Any) -> None:
        self._read_state(said)
        window = self.windows.get(said["window"])
        if window is not None:
            window.ended = True

    def _read_threads(self, said: Any) -> None:
        for lane, native_id, name in said:
            self._threads[int_of(lane)] = (int_of(native_id), text_of(name))

    def _read_kinds(self, said: Any) -> None:
        for event, name, overload, scope, category, module_id, path, sort, counted, all_counted in said:
            for text in (name, overload, category, path, sort):
                text_of(text)
            formulas = (_FLOPS if counted else None, _ALL_FLOPS if all_counted else None)
            kind = Kind(name, overload, int_of(scope), category, None, *formulas, int_of(module_id), path)
            self._kinds[int_of(event)] = (kind, sort)

    def _read_inputs(self, said: Any) -> None:
        for event, number, fields, flops, all_flops in said:
            shapes, strides, dtypes, concrete, keywords = (decoded(value) for value in fields)
            for part in (shapes, strides, dtypes, concrete, keywords):
                if not isinstance(part, (list, tuple)):
                    raise ValueError(f"expected a list for inputs, got {type(part).__name__}")
            for key, _ in keywords:
                text_of(key)
            record = StoredInputs(shapes, strides, dtypes, concrete, keywords, int_of(flops), int_of(all_flops))
            self._inputs[int_of(event), int_of(number)] = record

    def _read_texts(self, said: Any) -> None:
        first, texts = said
        self._texts.update((int_of(first) + place, text_of(text)) for place, text in enumerate(texts))

    def _read_stacks(self, said: Any) -> None:
        window = self.windows.get(said[0])
        for stack, entries in said[1] if window is not None else ():
            assert window is not None
            window.stacks[int_of(stack)] = [int_of(entry) for entry in entries]

    def _put_in_order(self) -> None:
        """Chunks by their places in the lane, each place once, whatever order they have in the file."""
        again = 0
        for window in self.windows.values():
            for sort in _WIDTHS:
                for lane, chunks in window.of(sort).items():
                    kept: list[Chunk] = []
                    for chunk in sorted(chunks, key=lambda chunk: chunk.first):
                        if not kept or chunk.first >= kept[-1].end:
                            kept.append(chunk)
                        else:
                            again += chunk.count
                    window.of(sort)[lane] = kept
        if again:
            self.notes.append(f"{again} rows were in the file again, under places taken by others, and were skipped")

    def _say_how_it_ended(self) -> None:
        unfinished = [window for window in self.windows.values() if not window.ended]
        for window in unfinished:
            window.stop_ns = max(window.stop_ns, *map(window.last_ns, window.rows), window.last_memory_ns())
        windows = unfinished or list(self.windows.values())
        last = (windows[-1].stop_ns - windows[-1].start_ns) / 1e9 if windows else 0.0
        reach = f"recovered up to {last:.3f} s after the start of the window"
        if self._missing.get("why"):
            said = (
                f"the spool could not be written any more ({self._missing['why']}): {reach}; {self._what_is_missing()}"
            )
        elif unfinished:
            said = f"the process ended while it recorded: {reach}; what was recorded later is lost"
        elif self.closed:
            said = "the spool ended in order: nothing is missing at its end"
        else:
            said = "the program ended without stopping the profiler; every window that it had recorded is complete"
        self.notes.insert(0, said)

    def _what_is_missing(self) -> str:
        missing = self._missing
        if "to_s" not in missing:
            return "what was recorded later is not in it"
        count = missing["rows"] + missing["memory"]
        found = f"{count} rows recorded from {missing['from_s']:.3f} s to {missing['to_s']:.3f} s are not in it"
        return found if missing["stopped"] else f"{found}, nor is what was recorded later"

    def has_ended(self, number: int | None) -> bool:
        """Whether the end of a window, or of the last one, is known."""
        windows = [window for window in self.windows.values() if number in (None, window.number)]
        return bool(windows) and windows[-1].ended

    @property
    def is_short(self) -> bool:
        """Whether it says that it could not take everything."""
        return bool(self._missing.get("why"))

    def reaches(self, time_ns: int) -> bool:
        """Whether all that was recorded up to a time is there."""
        last = max((window.stop_ns for window in self.windows.values()), default=0)
        return self.closed or last >= time_ns

    # Capture

    def capture(self, number: int | None = None) -> Capture:
        if number is not None and number not in self.windows:
            known = ", ".join(map(str, self.windows)) or "none"
            raise ValueError(f"{self.path!r} has no window {number}; it has {known}")
        windows = [window for window in self.windows.values() if number in (None, window.number)]
        tables = Tables(self)
        parts = [tables.tracks(window, window.start_ns, window.stop_ns) for window in windows]
        origin = windows[0].start_ns if windows else 0
        tracks: dict[int, list[Track]] = {}
        for window, found in zip(windows, parts):
            for track in found:
                _shift(track, window.start_ns - origin)
                tracks.setdefault(track.index, []).append(track)
        gaps = [[before.stop_ns, after.start_ns] for before, after in itertools.pairwise(windows)]
        return Capture(
            windows[0].options if windows else RecordOptions(),
            origin,
            max((window.stop_ns for window in windows), default=origin),
            windows[0].epoch_ns if windows else header_int(self.header, "unix_ns"),
            [_joined(tracks[index]) for index in sorted(tracks)],
            tables.kinds,
            tables.inputs,
            tables.stacks,  # type: ignore[arg-type]
            tables.memory_kind,
            header_int(self.header, "pid"),
            str(self.header.get("process_name", "")),
            1,
            sorted([pause for window in windows for pause in window.pauses] + gaps),
            header_int(self.header, "main_thread"),
            metadata={"trace_id": self.trace_id, **self.metadata},
            notes=self.notes + tables.notes(),
            memory_roles=tables.memory_roles(windows, origin),
        )


_FLOPS, _ALL_FLOPS = operator.attrgetter("flops"), operator.attrgetter("all_flops")


# Columns number the tracks of a capture with 16 bits.
_MOST_LANES = 10_000


class Tables:
    """What the numbers in the rows of a capture mean, numbered anew and densely."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self.kinds: list[Kind] = []
        # What the file calls each of them, and the way back.
        self._events: list[int] = []
        self._numbers: dict[int, int] = {}
        self.inputs: list[Any] = [None]
        self._pairs: dict[tuple[int, int], int] = {}
        self.stacks = StoredStacks()
        self._stack_numbers: dict[tuple[int, int], int] = {}
        self._lost: dict[str, int] = {}
        memory_kind = header_int(contents.header, "memory_kind")
        if memory_kind not in contents._kinds:
            mark = Kind(MEMORY_EVENT_NAME, "", 0, MEMORY_MARK, None, None, None, -1, "")
            contents._kinds[memory_kind] = (mark, "")
        self.memory_kind = self._kind(memory_kind)

    def notes(self) -> list[str]:
        return [f"{count} {what}" for what, count in self._lost.items()]

    def _lose(self, what: str, count: int = 1) -> None:
        self._lost[what] = self._lost.get(what, 0) + count

    def tracks(self, window: Window, start_ns: int, stop_ns: int, pauses: Sequence[Sequence[int]] = ()) -> list[Track]:
        """The tracks of a window as far as they lie between two times, and outside of some pauses."""
        sorts = {event: sort for event, (_, sort) in self._contents._kinds.items() if sort}
        bounds = Bounds(window.options, start_ns, stop_ns, [*window.pauses, *pauses], window.crowded, sorts)
        lanes = sorted({*window.lanes, *window.rows, *window.memory, *window.open})
        if len(lanes) > _MOST_LANES:
            raise ValueError(f"{self._contents.path!r} is no spool that can be read: it has {len(lanes)} threads")
        if missing := window.missing():
            self._lose("rows were in damaged chunks and are lost", missing)
        return [self._track(window, lane, bounds) for lane in lanes]

    def memory_roles(self, windows: Iterable[Window], start_ns: int) -> Ints:
        """Blocks of memory seen in a role, with times from a start on."""
        chunks = [chunk for window in windows for of_lane in window.roles.values() for chunk in of_lane]
        found = memory_roles_of(chunks, start_ns)
        if ((found > LARGEST) | (found < -LARGEST)).any():
            raise ValueError(f"{self._contents.path!r} is no spool that can be read: roles of memory make no sense")
        known = (found[:, 1] >= 0) & (found[:, 1] < len(ROLE_NAMES))
        return found[known]

    def _track(self, window: Window, lane: int, bounds: Bounds) -> Track:
        native_id, name = self._contents._threads.get(lane, (lane, f"thread {lane}"))
        rows, memory = list(window.rows.get(lane, ())), list(window.memory.get(lane, ()))
        open_rows = _not_ended(window.open.get(lane, []), rows) if not window.ended else []
        if open_rows:
            # The process may have ended after it wrote rows and before it said again what was open. Rows are in the
            # order in which regions ended, so that what has no row lasted longer than all that have.
            last = window.last_ns(lane)
            open_rows[1 :: len(ROW_TYPES)] = [max(end, last) for end in open_rows[1 :: len(ROW_TYPES)]]
            rows.append(Chunk(rows[-1].end if rows else 0, [open_rows], len(ROW_TYPES)))
        track = track_of(LaneRecord(lane, native_id, name, (0, 0), rows, memory, []), bounds)
        late = any((abs(times) > 2 * LATEST_NS).any() for times in (track.start_ns, track.end_ns, track.memory_ns))
        if late or (track.end_ns < track.start_ns).any() or any((ids < 0).any() for ids in (track.inputs, track.stack)):
            raise ValueError(
                f"{self._contents.path!r} is no spool that can be read: rows of thread {lane} make no sense"
            )
        track.kind = _renumbered(track.kind.astype(np.int64), self._kind)
        width = int(track.inputs.max(initial=0)) + 1
        pairs = track.kind * np.int64(width) + track.inputs
        track.inputs = _renumbered(pairs, lambda pair: self._input(*divmod(pair, width)))
        track.stack = _renumbered(track.stack.astype(np.int64), lambda stack: self._stack(window, stack))
        return track

    def _kind(self, event: int) -> int:
        found = self._numbers.get(event)
        if found is None:
            if event not in self._contents._kinds:
                self._lose("names of events were in damaged chunks and are lost")
            lost = Kind(f"<lost name {event}>", "", 0, CPU_OP, None, None, None, -1, "")
            found = self._numbers[event] = len(self.kinds)
            self._events.append(event)
            self.kinds.append(self._contents._kinds.get(event, (lost, ""))[0])
        return found

    def _input(self, kind: int, number: int) -> int:
        if not number:
            return 0
        event = self._events[kind]
        found = self._pairs.get((event, number))
        if found is None:
            record = self._contents._inputs.get((event, number))
            if record is None:
                self._lose("records of inputs were in damaged chunks and are lost")
                found = 0
            else:
                self.inputs.append(record)
                found = len(self.inputs) - 1
            self._pairs[event, number] = found
        return found

    def _stack(self, window: Window, stack: int) -> int:
        if not stack:
            return 0
        found = self._stack_numbers.get((window.number, stack))
        if found is None:
            entries, texts = window.stacks.get(stack), self._contents._texts
            if entries is None or any(entry not in texts for entry in entries):
                self._lose("stacks were in damaged chunks and are lost")
                found = 0
            else:
                found = self.stacks.add([texts[entry] for entry in entries])
            self._stack_numbers[window.number, stack] = found
        return found


# Numbers below this are looked up in a table, which is much faster than sorting them.
_DENSE = 1 << 20


def _renumbered(numbers: Ints, new: Callable[[int], int]) -> NDArray[np.int32]:
    if not len(numbers):
        return numbers.astype(np.int32)
    low, high = int(numbers.min()), int(numbers.max())
    if low < 0 or high >= _DENSE:
        old, places = np.unique(numbers, return_inverse=True)
        return np.array([new(number) for number in old.tolist()], np.int32)[places]
    table = np.zeros(high + 1, np.int32)
    old = np.flatnonzero(np.bincount(numbers))
    table[old] = [new(number) for number in old.tolist()]
    return table[numbers]


def _not_ended(open_rows: list[int], rows: list[Chunk]) -> list[int]:
    """Regions that were open when the spool was last written, without those that ended at that very moment."""
    width = len(ROW_TYPES)
    wanted = {(open_rows[place], open_rows[place + 2]): place for place in range(0, len(open_rows) - width + 1, width)}
    starts = np.array([start for start, _ in wanted], np.int64)
    for chunk in rows:
        for columns in chunk.read():
            for place in np.flatnonzero(np.isin(columns[0], starts)).tolist():
                wanted.pop((int(columns[0][place]), int(columns[2][place])), None)
    return [value for place in wanted.values() for value in open_rows[place : place + width]]


def _shift(track: Track, by_ns: int) -> None:
    if by_ns:
        track.start_ns, track.end_ns, track.memory_ns = (
            times + by_ns for times in (track.start_ns, track.end_ns, track.memory_ns)
        )


_COLUMNS = ("start_ns", "end_ns", "kind", "seq", "inputs", "stack", "memory_ns", "nbytes", "address")


def _joined(parts: list[Track]) -> Track:
    """One thread's tracks of several windows as one."""
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
    return dataclasses.replace(parts[0], **columns)
