"""Chrome traces in Kineto's dialect, ours and torch's, turned into a capture.

It owns what the fields of such a file mean. It executes nothing of it and keeps no event, only columns.
"""

from __future__ import annotations

import gc
import itertools
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import tap
from ...core.brief import brief
from ...core.roles import NAMES
from ..analyse.arrows import SORTS, Arrows
from ..capture.capture import (
    CPU_OP,
    MEMORY_EVENT_NAME,
    MEMORY_ROLES,
    PYTHON_FUNCTION,
    SEEN,
    USER_ANNOTATION,
    Capture,
    Track,
)
from ..capture.flops import careful, formula_of
from ..record.config import TRACE_FLAGS, RecordOptions
from . import events as decoding
from .events import as_mapping, column, required
from .function_stacks import with_function_stacks
from .jsonstream import JsonStream, Piece
from .regions import (
    LIMIT_NS,
    CoarseTimeError,
    Regions,
    nanoseconds,
    nanoseconds_of,
    object_of,
    text_of,
    threads_of,
    wholes,
)

# What a trace says of itself, such as the properties of devices, is never as long and has never as many parts.
_MOST_SAID, _MOST_FIELDS = 1 << 26, 10_000
# No thread is in so many regions at once, and no trace says nothing for as many characters.
_MOST_OPEN, _MOST_IDLE = 100_000, 1 << 24
# What a trace says of its own form, not of the run.
_FORM_FIELDS = {"schemaVersion", "displayTimeUnit", "baseTimeNanoseconds", "traceName", *TRACE_FLAGS}
_REGIONS, _ARROWS, _INSTANTS = frozenset("X"), frozenset(SORTS), frozenset("iI")
# Events that are read many at once, and those that say something of the run.
_MANY = _REGIONS | _ARROWS | _INSTANTS
_USEFUL = _MANY | frozenset("BEbe")
# What time the whole trace takes: a category, and the name of a mark that may come after it.
_SPAN, _WINDOW_END = "Trace", "Record Window End"
_DEVICE_MEMORY = ("Device Id", "Total Allocated", "Total Reserved")
_FORWARD_TO_BACKWARD = "fwdbwd"
_NO_SENSE = (KeyError, TypeError, ValueError, AttributeError)
# A thread's own name in the title it has in traces.
_THREAD_TITLE = re.compile(r"thread \d+ \((.*)\)").fullmatch


def read_chrome(path: str | os.PathLike[str]) -> Capture:
    """The capture in a Chrome trace, plain or compressed; TraceError says where a file stops making sense."""
    collects = gc.isenabled()
    # Events are made and dropped in masses, none of them in a cycle.
    gc.disable()
    try:
        return _read(path)
    finally:
        if collects:
            gc.enable()


def _read(path: str | os.PathLike[str]) -> Capture:
    with JsonStream(path) as stream:
        reader = _Reader(stream)
        first = stream.peek()
        if first == "[":
            reader.read_events()
        elif first == "{":
            for key in stream.fields():
                if key == "traceEvents" and stream.peek() == "[":
                    reader.read_events()
                else:
                    reader.read_field(key)
        else:
            raise stream.error("a trace begins with { or [")
        stream.finish()
        if not reader.has_events:
            raise stream.error('there is no list of "traceEvents" in this file')
        return reader.capture()


def _with_exact_times(piece: Piece) -> list[dict[str, Any]]:
    """The events of a piece with all digits of their times."""
    pairs = zip(piece.mappings(), piece.mappings(exact=True))
    return [{**event, **{key: exact[key] for key in ("ts", "dur") if key in event}} for event, exact in pairs]


def _named(name: str, events: list[Any], names: list[Any]) -> list[dict[str, Any]]:
    """The events that go by a name, of which there are few if any."""
    return [as_mapping(event) for event, found in zip(events, names) if found == name] if name in names else []


def _number(value: Any) -> int:
    if type(value) is not int or abs(value) >= 1 << 63:
        raise ValueError(f"expected a whole number of 64 bits, got {brief(value)}")
    return value


class _Marks:
    """Rows of numbers by lane, as they come."""

    def __init__(self, width: int) -> None:
        self._rows = [np.zeros((0, width + 1), np.int64)]

    def add(self, lanes: list[int], *columns: Any) -> None:
        self._rows.append(np.array([lanes, *columns], np.int64).T)

    def tables(self, count: int) -> list[NDArray[np.int64]]:
        """The rows of each of the lanes, in order of time, which comes first."""
        rows = np.concatenate(self._rows)
        rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
        bounds = np.searchsorted(rows[:, 0], np.arange(count + 1)).tolist()
        return [rows[low:high, 1:].copy() for low, high in itertools.pairwise(bounds)]


@dataclass
class _Lane:
    """The rows of one thread or stream, in nanoseconds of the file's clock."""

    pid: Any
    tid: Any
    is_device: bool
    rows: dict[str, NDArray[Any]]
    # Time, bytes, address; on devices also the place of the device and what was then allocated and reserved there.
    memory: NDArray[np.int64]
    device_memory: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows["start"]) + len(self.memory) + len(self.device_memory)


class _Reader:
    """Collects events, then makes the capture."""

    def __init__(self, stream: JsonStream) -> None:
        self.stream = stream
        self.fields: dict[str, Any] = {}
        self.has_events = False
        self.regions = Regions()
        self.names: dict[tuple[str, Any, Any], str] = {}
        self.span: list[int] = []
        # Events that begin a region, by thread or by the name they end under.
        self._open: dict[Any, list[dict[str, Any]]] = {}
        self._asyncs: dict[Any, dict[str, Any]] = {}
        self.arrows = Arrows()
        self.notes: list[str] = []
        self.memory_roles = [np.zeros((0, len(SEEN)), np.int64)]
        self._memory, self._device_memory = _Marks(3), _Marks(6)
        self._said = self._field_count = 0
        # Where the last piece was that said something.
        self._useful = 0
        self._steps: dict[str, Callable[[dict[str, Any]], None]] = {
            "B": self._begin,
            "E": self._end,
            "b": self._begin_async,
            "e": self._end_async,
            "M": self._name,
        }

    def read_field(self, key: str) -> None:
        """What the trace says of itself under a key."""
        begin = self.stream.position
        self.fields[key] = self.stream.value()
        self._said += self.stream.position - begin
        self._field_count += 1
        if self._said > _MOST_SAID or self._field_count > _MOST_FIELDS:
            raise self.stream.error("far more that is no event than a trace says of itself")

    # Events

    def read_events(self) -> None:
        """All items of the array at the stream's place."""
        self.has_events = True
        self._useful = self.stream.position
        for piece in self.stream.pieces(decoding.decode):
            is_useful = self._add_piece(piece)
            if is_useful:
                self._useful = self.stream.position + len(piece.data)
            elif self.stream.position + len(piece.data) - self._useful > _MOST_IDLE:
                raise self.stream.error(f"{_MOST_IDLE} characters without one event that can be read")

    def _add_piece(self, piece: Piece) -> bool:
        """Add all events of a piece; whether one of them said something."""
        try:
            try:
                return self._add(piece.items)
            except CoarseTimeError:
                return self._add(_with_exact_times(piece))
        except _NO_SENSE:
            pass
        is_useful = False
        for number, event in enumerate(piece.mappings()):
            try:
                is_useful |= self._add([event])
            except _NO_SENSE as error:
                reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
                place = self.stream.place + piece.place_of(number)
                raise self.stream.error(f"an event that makes no sense: {reason}", place) from error
        return is_useful

    def _add(self, events: list[Any]) -> bool:
        """Add events; whether one of them said something. Those that many are of come first, many at once."""
        sorts = required(events, "ph")
        present = set(sorts)

        def of(wanted: frozenset[str]) -> list[Any]:
            if present.isdisjoint(wanted):
                return []
            return events if present <= wanted else [event for event, sort in zip(events, sorts) if sort in wanted]

        regions, instants = of(_REGIONS), of(_INSTANTS)
        categories, names = column(regions, "cat", CPU_OP), column(instants, "name", None)
        ends = [
            (nanoseconds_of(one["ts"]), nanoseconds_of(one.get("dur", 0))) for one in _named(_SPAN, regions, categories)
        ]
        if ends:
            regions = [event for event, category in zip(regions, categories) if category != _SPAN]
            categories = column(regions, "cat", CPU_OP)
        windows = [nanoseconds_of(event["ts"]) for event in _named(_WINDOW_END, instants, names)]
        arrows = self._arrow_columns(of(_ARROWS))
        marks = self._memory_columns([event for event, name in zip(instants, names) if name == MEMORY_EVENT_NAME])
        if regions:
            self.regions.add(regions, categories)
        # From here on nothing is wrong with events of which there are many.
        if arrows is not None:
            self.arrows.add(*arrows)
        if marks is not None:
            self._add_memory(*marks)
        for start, length in ends:
            self.span = [start, start + length]
        self.span[1:] = [max([end, *windows]) for end in self.span[1:]]
        if not present <= _MANY:
            for event, sort in zip(events, sorts):
                step = self._steps.get(sort)
                if step is not None:
                    step(as_mapping(event))
        return not present.isdisjoint(_USEFUL)

    def _begin(self, event: dict[str, Any]) -> None:
        opened = self._open.setdefault(threads_of([event])[0], [])
        opened.append(event)
        if len(opened) > _MOST_OPEN:
            raise ValueError(f"more than {_MOST_OPEN} regions of a thread are open at once")

    def _end(self, event: dict[str, Any]) -> None:
        opened = self._open.get(threads_of([event])[0])
        if opened:
            self._join(opened.pop(), event)

    def _begin_async(self, event: dict[str, Any]) -> None:
        self._asyncs[event.get("cat"), event.get("pid"), str(event.get("id"))] = event
        if len(self._asyncs) > _MOST_OPEN:
            raise ValueError(f"more than {_MOST_OPEN} regions are open at once")

    def _end_async(self, event: dict[str, Any]) -> None:
        begun = self._asyncs.pop((event.get("cat"), event.get("pid"), str(event.get("id"))), None)
        if begun is not None:
            self._join(begun, event)

    def _join(self, begun: dict[str, Any], ended: dict[str, Any]) -> None:
        """The region between two events that mark its ends."""
        start, end = nanoseconds_of(begun["ts"]), nanoseconds_of(ended["ts"])
        joined = {**begun, "ts": Decimal(start) / 1000, "dur": Decimal(end - start) / 1000}
        self.regions.add([joined], column([joined], "cat", CPU_OP))

    def _memory_columns(self, events: list[dict[str, Any]]) -> tuple[list[int], list[Any], list[bool]] | None:
        if not events:
            return None
        args = [object_of(own) for own in required(events, "args")]
        numbers = [[_number(own["Bytes"]) for own in args], [_number(own.get("Addr", 0)) for own in args]]
        rest = [wholes([own.get(name, 0) for own in args], 0) for name in _DEVICE_MEMORY]
        on_device = [own.get("Device Type", 0) != 0 for own in args]
        time = nanoseconds(required(events, "ts"))
        return self.regions.lane_numbers(events), [time, *numbers, *rest], on_device

    def _add_memory(self, lanes: list[int], columns: list[Any], on_device: list[bool]) -> None:
        for marks, wanted, width in ((self._memory, False, 3), (self._device_memory, True, 6)):
            chosen = [flag == wanted for flag in on_device]
            if any(chosen):
                marks.add(*(list(itertools.compress(column, chosen)) for column in (lanes, *columns[:width])))

    def _arrow_columns(self, events: list[dict[str, Any]]) -> tuple[Any, ...] | None:
        """What is kept of arrows. Those from forward ops to autograd nodes are found anew."""
        if not events:
            return None
        categories = column(events, "cat", None)
        wanted = [type(category) is str and category != _FORWARD_TO_BACKWARD for category in categories]
        if not any(wanted):
            return None
        events, categories = list(itertools.compress(events, wanted)), list(itertools.compress(categories, wanted))
        names = column(events, "name", None)
        titles = [category if name is None else name for name, category in zip(names, categories)]
        kinds = self.regions.kind_numbers(categories, titles)
        times = nanoseconds(required(events, "ts"))
        return threads_of(events), times, column(events, "id", None), required(events, "ph"), kinds

    def _see(self, event: dict[str, Any], args: dict[str, Any]) -> None:
        """What blocks of memory were to the program (see `Capture.memory_roles`); roles nobody knows are left out."""
        columns = [args[name] for name in SEEN]
        if not all(type(value) is int and abs(value) <= LIMIT_NS for column in columns for value in column):
            raise ValueError("expected lists of whole numbers of 61 bits")
        rows = np.array(columns, np.int64).T.reshape(-1, len(SEEN))
        numbers = np.array([NAMES.index(name) if name in NAMES else -1 for name in args["names"]], np.int64)
        if len(rows) and not (rows[:, 1].min() >= 0 and rows[:, 1].max() < len(numbers)):
            raise ValueError("a role without a name")
        rows[:, 0] += nanoseconds_of(event["ts"])
        rows[:, 1] = numbers[rows[:, 1]]
        self.memory_roles.append(rows[rows[:, 1] >= 0])

    def _name(self, event: dict[str, Any]) -> None:
        args = object_of(event.get("args"))
        if event["name"] == MEMORY_ROLES:
            self._see(event, args)
            return
        for name in ("name", "labels"):
            if isinstance(args.get(name), str):
                tid = event.get("tid") if event["name"] == "thread_name" else None
                self.names[text_of(event["name"]), event.get("pid"), tid] = args[name]

    # The capture

    def capture(self) -> Capture:
        """What has been read, as a capture."""
        self._close()
        named = {key: place for place, key in enumerate(self.names)}
        lanes = self._lanes()
        # In the order in which the file names them, so that a trace that is written again looks the same.
        lanes.sort(key=lambda lane: named.get(("thread_name", lane.pid, lane.tid), len(named)))
        start, stop = self._bounds(lanes)
        main = self._main_process(lanes)
        tracks = [self._track(lane, index, start, main) for index, lane in enumerate(lanes, 1)]
        self._name_backward()
        options = self._options(tracks)
        if options.stacks and not options.call_stacks:
            tracks = with_function_stacks(tracks, self.regions.kinds, self.regions.stacks)
        base = self._base()
        memory_roles = np.concatenate(self.memory_roles)
        memory_roles[:, 0] -= start
        links = np.concatenate([np.zeros(0, np.int64), *(track.link for track in tracks if track.link is not None)])
        return Capture(
            options,
            0,
            stop - start,
            start + base,
            tracks,
            self.regions.kinds,
            self.regions.inputs,
            self.regions.stacks,  # type: ignore[arg-type]
            0,
            main,
            self.names.get(("process_name", main, None), "python"),
            int(links[links > 0].min(initial=LIMIT_NS)) if (links > 0).any() else 1,
            main_thread=main,
            metadata={key: value for key, value in self.fields.items() if key not in _FORM_FIELDS},
            notes=self.notes,
            memory_roles=memory_roles,
        )

    def _lanes(self) -> list[_Lane]:
        """All threads and streams that have rows."""
        regions = self.regions
        count = len(regions.lanes)
        tables = (regions.tables(), self._memory.tables(count), self._device_memory.tables(count))
        rows, memory, device_memory = tables
        columns = zip(regions.lanes, regions.is_device, rows, memory, device_memory)
        lanes = [_Lane(pid, tid, *rest) for (pid, tid), *rest in columns]  # type: ignore[arg-type]
        return [lane for lane in lanes if len(lane)]

    def _main_process(self, lanes: list[_Lane]) -> int:
        """The first process that runs ops. Kineto gives 0 or the number of a device to some rows of threads, too."""
        processes = [lane for lane in lanes if not lane.is_device and isinstance(lane.pid, int)]
        is_op = np.array([kind.category in (CPU_OP, USER_ANNOTATION) for kind in self.regions.kinds])
        running = (lane.pid for lane in processes if is_op[lane.rows["kind"]].any())
        return next(running, processes[0].pid if processes else 0)

    def _base(self) -> int:
        """Nanoseconds from 1970 to where the times of the file count from."""
        base = self.fields.get("baseTimeNanoseconds", 0)
        if type(base) is int and 0 <= base < LIMIT_NS:
            return base
        self.notes.append(f"the time that the file counts from ({brief(base)}) makes no sense and is taken as 1970")
        return 0

    def _bounds(self, lanes: list[_Lane]) -> tuple[int, int]:
        """First and last time of all."""
        times = [np.array(self.span, np.int64)]
        for lane in lanes:
            times += [lane.rows["start"], lane.rows["end"], lane.memory[:, 0], lane.device_memory[:, 0]]
        ends = [(int(part.min()), int(part.max())) for part in times if len(part)]
        return min((low for low, _ in ends), default=0), max((high for _, high in ends), default=0)

    def _close(self) -> None:
        """Regions that never ended are lost, which a reader should know; so is what is left out."""
        unended = len(self._asyncs) + sum(map(len, self._open.values()))
        if unended:
            self.notes.append(f"{unended} regions had no end and are left out")
        if self.regions.negative:
            self.notes.append(f"{self.regions.negative} regions had a negative length, which is taken as none")
        if self.stream.replaced:
            self.notes.append(f"{self.stream.replaced} bytes in names or stacks were not UTF-8 and were replaced by �")

    def _track(self, lane: _Lane, index: int, origin: int, main: int) -> Track:
        rows, device_memory = lane.rows, lane.device_memory
        correlation = self.regions.inputs.correlations(rows["inputs"])
        link = rows["link"]
        # Kineto writes the correlation id as External id where it knows of no op.
        link[link == correlation] = 0
        time, nbytes, address = lane.memory.T.copy()
        device_memory[:, 0] -= origin
        title = self.names.get(("thread_name", lane.pid, lane.tid), "")
        if named := _THREAD_TITLE(title):
            title = named[1]
        elsewhere = not lane.is_device and lane.pid != main
        return Track(
            index,
            lane.tid if isinstance(lane.tid, int) else index,
            title or str(lane.tid),
            rows["start"] - origin,
            rows["end"] - origin,
            rows["kind"],
            rows["seq"],
            rows["inputs"],
            rows["stack"],
            time - origin,
            nbytes,
            address,
            (lane.pid if isinstance(lane.pid, int) else -1) if elsewhere else 0,
            self.names.get(("process_name", lane.pid, None), str(lane.pid)) if elsewhere or lane.is_device else "",
            int(self.regions.device_type) if lane.is_device else 0,
            lane.pid if lane.is_device and isinstance(lane.pid, int) else 0,
            link,
            correlation,
            device_memory if len(device_memory) else None,
            self.arrows.of((lane.pid, lane.tid), origin),
        )

    def _name_backward(self) -> None:
        """Kinds of autograd nodes: what the engine says it evaluates. Formulas for FLOPs come from the ops here."""
        kinds = self.regions.kinds
        for number, kind in enumerate(kinds):
            if kind.category == CPU_OP and kind.name in self.regions.backward:
                kinds[number] = kind._replace(scope=tap.BACKWARD_FUNCTION)
            elif kind.category == CPU_OP:
                flops = tap.FORMULAS.get(kind.name)
                kinds[number] = kind._replace(
                    flops=None if flops is None else careful(flops), all_flops=formula_of(kind.name)
                )

    def _options(self, tracks: list[Track]) -> RecordOptions:
        said = {option: bool(self.fields.get(flag)) for flag, option in TRACE_FLAGS.items()}
        said["shapes"] |= self.regions.inputs.has_shapes
        said["memory"] |= any(len(track.nbytes) for track in tracks)
        said["stacks"] |= any(kind.category == PYTHON_FUNCTION and kind.module_id < 0 for kind in self.regions.kinds)
        return RecordOptions(
            **said,
            all_threads=len(tracks) > 1,
            overload_names=any(kind.overload for kind in self.regions.kinds),
            call_stacks=len(self.regions.stacks) > 1,
        )
