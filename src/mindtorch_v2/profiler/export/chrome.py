"""The Chrome trace in Kineto's dialect: JSON that is valid whatever the names and metadata hold.

Texts that many events share are encoded once, numbers are written by the thousand; a trace goes to its file in pieces.
It reads metrics; it does not know profilers or event objects.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core import tap
from ...core.roles import NAMES
from ..analyse import tree
from ..analyse.arrows import SORTS
from ..analyse.metrics import Metrics
from ..capture.capture import (
    CPU_OP,
    MEMORY_EVENT_NAME,
    MEMORY_MARK,
    MEMORY_ROLES,
    PYTHON_FUNCTION,
    SEEN,
    USER_ANNOTATION,
    Track,
)
from ..record.config import DeviceType
from .digits import Lines
from .files import open_binary
from .texts import json_encoder, json_text

# Times are written from the start of a stretch of about three months, so that microseconds keep three decimals.
_BASE_STRETCH_NS = 7_889_238 * 10**9
_CHUNK = 8192
_SPAN = "PyTorch Profiler"
_ARROWS = (b',\n{"ph":"s","id":', b',\n{"ph":"f","id":')
_ARROW_ENDS = (b',"cat":"fwdbwd","name":"fwdbwd"}', b',"cat":"fwdbwd","name":"fwdbwd","bp":"e"}')
# What the arguments of an event hold anyway; loaded events may bring these along among their own.
_WRITTEN = frozenset({"External id", "Sequence number", "Fwd thread id", "Record function id", "Ev Idx"})
# Fields of a trace that are not anybody's metadata.
_OWN_FIELDS = ("displayTimeUnit", "baseTimeNanoseconds", "traceEvents", "traceName")

# What an execution trace knows of regions, by native thread id: when they were entered (nanoseconds of the tap's clock,
# rising), their kinds, and their ids.
RecordIds = Mapping[int, tuple[Sequence[int], Sequence[int], Sequence[int]]]

CATEGORIES = {
    "CPU_OP": CPU_OP,
    "USER_ANNOTATION": USER_ANNOTATION,
    "PYTHON_FUNCTION": PYTHON_FUNCTION,
    "CPU_INSTANT_EVENT": MEMORY_MARK,
}


def write_trace(
    metrics: Metrics,
    path: str | os.PathLike[str],
    trace_id: str = "",
    metadata: Mapping[str, str] | None = None,
    categories: Iterable[str] | None = None,
    record_ids: RecordIds | None = None,
) -> None:
    """Write the trace of a capture; `metadata` holds JSON texts. A path that ends in `.gz` is compressed."""
    name = os.fspath(path)
    trace = _Trace(metrics.whole(), categories, record_ids or {})
    with open_binary(name) as file:
        file.write(_head(trace, trace_id, metadata or {}).encode())
        for data in trace.chunks():
            file.write(data)
        file.write(f'\n  ],\n  "traceName": {json_text(name)}\n}}\n'.encode())


def valid_json(text: str) -> str:
    """The text itself, spaced as `json` does it, if it is JSON; else the text as a JSON string."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (TypeError, ValueError, RecursionError):
        return json_text(str(text))
    return json_text(value)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _head(trace: _Trace, trace_id: str, metadata: Mapping[str, str]) -> str:
    fields = {"schemaVersion": "1", "deviceProperties": "[]", "trace_id": json_text(trace_id)}
    fields.update((key, valid_json(value)) for key, value in metadata.items() if key not in _OWN_FIELDS)
    fields.setdefault("host_name", json_text(socket.gethostname()))
    fields["displayTimeUnit"] = '"ms"'
    fields["baseTimeNanoseconds"] = str(trace.base_ns)
    lines = [f"  {json_text(key)}: {value},\n" for key, value in fields.items()]
    return "{\n" + "".join(lines) + '  "traceEvents": [\n'


def _stamp(ns: int) -> str:
    """Nanoseconds as microseconds with three decimals."""
    return f"{ns // 1000}.{ns % 1000:03d}"


_json = json_encoder(separators=(",", ":"))


class _Texts:
    """Encoded texts of events that two of their columns decide; each text is made once."""

    def __init__(
        self, first: NDArray[np.integer], second: NDArray[np.integer], make: Callable[[int, int], str]
    ) -> None:
        width = int(second.max()) + 1 if len(second) else 1
        keys, self._numbers = _numbered(first.astype(np.int64) * width + second)
        self._texts = np.empty(len(keys), object)
        self._texts[:] = [make(*divmod(key, width)).encode() for key in keys.tolist()]

    def take(self, places: NDArray[np.int64]) -> list[bytes]:
        found: list[bytes] = self._texts[self._numbers[places]].tolist()
        return found


def _numbered(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The different values, sorted, and for each value its place among them."""
    most = int(values.max()) + 1 if len(values) else 0
    if most > 4 * len(values) + (1 << 20):
        return np.unique(values, return_inverse=True)
    # Faster than sorting.
    present = np.zeros(most, bool)
    present[values] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[values]


class _Arrows(NamedTuple):
    """Both ends of the arrows from forward ops to autograd nodes, by the places of their events, which rise."""

    place: NDArray[np.int64]
    number: NDArray[np.int64]
    # 0 where an arrow begins, 1 where it ends.
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, metrics: Metrics) -> _Arrows:
        first, last = metrics.flows
        place, number = np.concatenate([first, last]), np.tile(np.arange(1, len(first) + 1), 2)
        order = np.argsort(place, kind="stable")
        return cls(place[order], number[order], np.repeat([0, 1], len(first))[order])

    def at(self, part: NDArray[np.int64]) -> _Arrows:
        """Those of some events, given by their places, which rise."""
        near = slice(*np.searchsorted(self.place, [part[0], part[-1] + 1]))
        there = part[np.searchsorted(part, self.place[near])] == self.place[near]
        return _Arrows(*(column[near][there] for column in self))


class _Trace:
    """The events of one trace, as bytes."""

    def __init__(self, metrics: Metrics, categories: Iterable[str] | None, record_ids: RecordIds) -> None:
        capture = metrics.capture
        self.metrics = metrics
        self._record_ids = _record_ids(metrics, record_ids)
        self.base_ns = capture.epoch_ns // _BASE_STRETCH_NS * _BASE_STRETCH_NS
        self._origin_ns = capture.epoch_ns - self.base_ns
        self._wanted = None if categories is None else frozenset(categories)
        self._heads = _Texts(metrics.kind, metrics.track, self._head)
        self._ends = _Texts(metrics.kind, metrics.inputs, self._end)
        self._arrows = _Arrows.of(metrics)
        self._thread_texts = [f'"pid":{self._pid(t)},"tid":{t.native_id},"ts":'.encode() for t in capture.tracks]

    def chunks(self) -> Iterator[bytes]:
        """All events, some thousand at a time, with a comma between each two."""
        metrics = self.metrics
        yield ",\n".join(self._openings()).encode()
        python = metrics.is_python
        regions = ~python & ~metrics.is_mark
        crossing = self._crossings()
        yield from self._regions(np.flatnonzero(regions), 0, crossing, self._op_arguments)
        count = int(regions.sum())
        yield from self._roles()
        yield from self._memory(count)
        count += len(metrics.memory_events)
        lines = list(self._device_memory(count))
        yield "".join(lines).encode()
        count += len(lines)
        yield from self._regions(np.flatnonzero(python), count, crossing, self._python_arguments)
        yield "".join(self._other_arrows()).encode()
        yield "".join(f",\n{line}" for line in self._endings()).encode()

    def _is_wanted(self, category: str) -> bool:
        return self._wanted is None or category in self._wanted

    def _pid(self, track: Track) -> int:
        """Devices are processes of their own, with their place among the devices as number."""
        return track.pid or (track.device_index if track.device_type else self.metrics.capture.pid)

    def _openings(self) -> Iterator[str]:
        """The names of processes and threads."""
        capture = self.metrics.capture
        ts = _stamp(self._origin_ns)
        processes = {capture.pid: (capture.process_name, "CPU")}
        for track in capture.tracks:
            label = f"GPU {track.device_index}" if track.device_type else "CPU"
            processes.setdefault(self._pid(track), (track.process_name or capture.process_name, label))
        for pid, (name, label) in processes.items():
            head = f'"ts":{ts},"pid":{pid},"tid":0,"args":'
            yield f'{{"ph":"M","name":"process_name",{head}{_json({"name": name})}}}'
            yield f'{{"ph":"M","name":"process_labels",{head}{_json({"labels": label})}}}'
            yield f'{{"ph":"M","name":"process_sort_index",{head}{{"sort_index":{pid}}}}}'
        for track in capture.tracks:
            tid = track.native_id
            # torch calls the main thread by its program; of several programs each track has a name of its own.
            is_main = tid == capture.main_thread and "merged" not in capture.metadata
            name = capture.process_name if is_main else track.name
            head = f'"ts":{ts},"pid":{self._pid(track)},"tid":{tid},"args":'
            yield f'{{"ph":"M","name":"thread_name",{head}{_json({"name": f"thread {tid} ({name})"})}}}'
            yield f'{{"ph":"M","name":"thread_sort_index",{head}{{"sort_index":{tid}}}}}'

    def _crossings(self) -> NDArray[np.bool_]:
        """Events that cross another one of their thread; viewers lose slices that do not nest."""
        metrics = self.metrics
        crossing = np.zeros(len(metrics), bool)
        for number in range(0 if metrics.nests else len(metrics.capture.tracks)):
            mine = np.flatnonzero((metrics.track == number) & ~metrics.is_mark)
            crossing[mine] = tree.crossings(metrics.start_ns[mine], metrics.end_ns[mine])
        return crossing

    def _regions(
        self,
        places: NDArray[np.int64],
        first: int,
        crossing: NDArray[np.bool_],
        arguments: Callable[[NDArray[np.int64], Lines], list[bytes]],
    ) -> Iterator[bytes]:
        """Slices, each followed by its arrows; `Ev Idx` counts from `first`.

        A slice is a text that its kind and thread share, a line of numbers, and a text that `arguments` gives.
        """
        metrics = self.metrics
        if self._wanted is not None:
            shown = metrics.of_kinds(lambda kind: self._is_wanted(kind.category))
        for low in range(0, len(places), _CHUNK):
            part = places[low : low + _CHUNK]
            index = np.arange(first + low, first + low + len(part))
            if self._wanted is not None:
                part, index = part[shown[part]], index[shown[part]]
            if len(part):
                yield self._slices(part, index, crossing[part], arguments)

    def _slices(
        self,
        part: NDArray[np.int64],
        index: NDArray[np.int64],
        crossing: NDArray[np.bool_],
        arguments: Callable[[NDArray[np.int64], Lines], list[bytes]],
    ) -> bytes:
        metrics, count = self.metrics, len(part)
        lines = Lines(count).micros(metrics.start_ns[part] + self._origin_ns).text(',"dur":')
        ends = arguments(part, lines.micros(metrics.total_ns[part]).text(',"args":{'))
        lines.text('"Ev Idx":').number(index)
        pieces = [b""] * (3 * count)
        pieces[0::3] = self._heads.take(part)
        pieces[1::3] = lines.split()
        pieces[2::3] = ends
        self._add_arrows(part, pieces)
        for row in np.flatnonzero(crossing).tolist():
            pieces[3 * row : 3 * row + 3] = self._crossing_pieces(int(part[row]), pieces[3 * row : 3 * row + 3])
        for row in np.flatnonzero(self._instants[part]).tolist():
            pieces[3 * row : 3 * row + 3] = [self._instant(int(part[row]), int(index[row])), b"", b""]
        return b"".join(pieces)

    def _head(self, kind: int, number: int) -> str:
        """What the slices of one kind on one thread begin with."""
        row, track = self.metrics.kind_of(kind), self.metrics.capture.tracks[number]
        overloaded = row.overload and self.metrics.capture.options.overload_names
        name = f"{row.name}.{row.overload}" if overloaded else row.name
        return (
            f',\n{{"ph":"X","cat":{_json(row.category)},"name":{_json(name)},'
            f'"pid":{self._pid(track)},"tid":{track.native_id},"ts":'
        )

    @cached_property
    def _instants(self) -> NDArray[np.bool_]:
        """Which events are moments at which memory could not be had."""
        return self.metrics.of_kinds(lambda kind: kind.name == tap.OUT_OF_MEMORY)

    @cached_property
    def _allocations(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The times of all changes of memory, rising, and what was allocated before the first and after each."""
        memory = self.metrics.memory_events
        order = np.argsort(memory.time_ns, kind="stable")
        return memory.time_ns[order], np.concatenate(([0], np.cumsum(memory.nbytes[order])))

    def _instant(self, place: int, index: int) -> bytes:
        metrics = self.metrics
        track, start = metrics.capture.tracks[int(metrics.track[place])], int(metrics.start_ns[place])
        times, sums = self._allocations
        allocated = int(sums[np.searchsorted(times, start, side="right")])
        return (
            f',\n{{"ph":"i","cat":"{MEMORY_MARK}","s":"t","name":"{tap.OUT_OF_MEMORY}","pid":{self._pid(track)},'
            f'"tid":{track.native_id},"ts":{_stamp(start + self._origin_ns)},"args":{{"Total Reserved":0,'
            f'"Total Allocated":{allocated},"Bytes":{int(metrics.seq[place])},"Device Id":-1,"Device Type":0,'
            f'"finished":false,"Ev Idx":{index}}}}}'
        ).encode()

    def _crossing_pieces(self, place: int, pieces: list[bytes]) -> list[bytes]:
        """An event that nests in nothing: a begin and an end, joined by their id, on a line of their own in viewers."""
        metrics = self.metrics
        tid = metrics.capture.tracks[int(metrics.track[place])].native_id
        start, end = (int(times[place]) + self._origin_ns for times in (metrics.start_ns, metrics.end_ns))
        number = f'"id":"{tid}.{start}.{place}",'.encode()
        head, numbers, ending = pieces
        cut = head.index(b'"cat"')
        begin = head[:cut].replace(b"X", b"b") + number + head[cut:]
        finish = head[:cut].replace(b"X", b"e") + number + head[cut:]
        args = numbers[numbers.index(b',"args"') :]
        return [begin + _stamp(start).encode(), args + ending, finish + _stamp(end).encode() + b"}"]

    def _add_arrows(self, part: NDArray[np.int64], pieces: list[bytes]) -> None:
        """Put where arrows begin or end after the slices of `part`, whose places rise."""
        arrows, track = self._arrows.at(part), self.metrics.track
        columns = (np.searchsorted(part, arrows.place), arrows.number, arrows.ends, track[arrows.place])
        for row, number, end, on in zip(*(column.tolist() for column in columns)):
            # The line of numbers begins with the time.
            ts = pieces[3 * row + 1].partition(b",")[0]
            pieces[3 * row + 2] += b"%b%d,%b%b%b" % (_ARROWS[end], number, self._thread_texts[on], ts, _ARROW_ENDS[end])

    def _other_arrows(self) -> Iterator[str]:
        """Arrows that a loaded trace brought along."""
        for place, track in enumerate(self.metrics.capture.tracks):
            for time, number, sort, kind in track.arrows.tolist() if track.arrows is not None else ():
                row, bound = self.metrics.kind_of(kind), ',"bp":"e"' if SORTS[sort] == "f" else ""
                yield (
                    f',\n{{"ph":"{SORTS[sort]}","id":{number},{self._thread_texts[place].decode()}'
                    f'{_stamp(time + self._origin_ns)},"cat":{_json(row.category)},"name":{_json(row.name)}{bound}}}'
                )

    # Arguments

    def _op_arguments(self, part: NDArray[np.int64], lines: Lines) -> list[bytes]:
        metrics = self.metrics
        lines.text('"External id":').number(metrics.external_ids[part])
        sequence = metrics.seq[part]
        numbered = sequence >= 0
        if numbered.any():
            since = lines.width
            lines.text(',"Sequence number":').number(np.maximum(sequence, 0))
            lines.text(',"Fwd thread id":').number(metrics.forward_thread[part]).only(numbered, since)
        if self._record_ids is not None:
            lines.text(',"Record function id":').number(self._record_ids[part])
        lines.text(",")
        found = self._ends.take(part)
        if metrics.capture.options.call_stacks:
            found = [self._call_stack(place) + end for place, end in zip(part.tolist(), found)]
        return found

    def _end(self, kind: int, inputs: int) -> str:
        """What the slices of one kind with the same inputs end with."""
        row = self.metrics.kind_of(kind)
        if row.module_id >= 0:
            return f',"Python module id":{row.module_id},"Module path":{_json(row.path)}}}}}'
        number = ',"Record function id":0' if self._record_ids is None and row.category != PYTHON_FUNCTION else ""
        return f"{number}{self._input_arguments(kind, inputs) if inputs else ''}}}}}"

    def _input_arguments(self, kind: int, inputs: int) -> str:
        record = self.metrics.input_record(kind, inputs)
        fields = {key: value for key, value in getattr(record, "keywords", ()) if key not in _WRITTEN}
        if record.shapes:
            fields["Concrete Inputs"] = [concrete_text(value) for value in record.concrete]
            fields["Input type"] = list(record.dtypes)
            fields["Input Strides"] = record.strides
            fields["Input Dims"] = record.shapes
        return f",{_json(fields)[1:-1]}" if fields else ""

    def _python_arguments(self, part: NDArray[np.int64], lines: Lines) -> list[bytes]:
        metrics = self.metrics
        outer = metrics.python_parents[part]
        inside = outer >= 0
        begin = lines.width
        lines.text('"Python parent id":').texts(["null", ""], inside.view(np.uint8))
        since = lines.width
        lines.number(np.maximum(outer, 0)).only(inside, since)
        lines.text(',"Python id":').number(metrics.python_ids[part]).text(",")
        # Pauses of the garbage collector are no functions.
        lines.only(metrics.is_function[part], begin)
        found = self._ends.take(part)
        if metrics.capture.options.call_stacks:
            rows = zip(part.tolist(), metrics.track[part].tolist(), found)
            found = [f',"Python thread":{track}'.encode() + self._call_stack(place) + end for place, track, end in rows]
        return found

    def _call_stack(self, place: int) -> bytes:
        stack = self.metrics.stack_of(place)
        return f',"Call stack":{_json(";".join(stack) + ";")}'.encode() if stack else b""

    # What is no slice of a thread

    def _roles(self) -> Iterator[bytes]:
        """What blocks of memory were to the program, as data that viewers pass over. Times count from `ts` on."""
        capture = self.metrics.capture
        head = (
            f',\n{{"ph":"M","name":"{MEMORY_ROLES}","ts":{_stamp(self._origin_ns)},"pid":{capture.pid},"tid":0,"args":'
        )
        for low in range(0, len(capture.memory_roles) if self._is_wanted(MEMORY_MARK) else 0, _CHUNK):
            columns = capture.memory_roles[low : low + _CHUNK].T.tolist()
            yield f"{head}{_json({'names': NAMES, **dict(zip(SEEN, columns))})}}}".encode()

    def _memory(self, first: int) -> Iterator[bytes]:
        """All allocations and frees as instants, in order of time."""
        memory = self.metrics.memory_events
        if not self._is_wanted(MEMORY_MARK):
            return
        heads = [
            f',\n{{"ph":"i","cat":"{MEMORY_MARK}","s":"t","name":"{MEMORY_EVENT_NAME}",'
            f'"pid":{self._pid(track)},"tid":{track.native_id},"ts":'
            for track in self.metrics.capture.tracks
        ]
        order = np.argsort(memory.time_ns, kind="stable")
        for low in range(0, len(order), _CHUNK):
            part = order[low : low + _CHUNK]
            lines = Lines(len(part)).texts(heads, memory.track[part]).micros(memory.time_ns[part] + self._origin_ns)
            lines.text(',"args":{"Total Reserved":0,"Total Allocated":').signed(memory.total[part])
            lines.text(',"Bytes":').signed(memory.nbytes[part])
            lines.text(',"Device Id":-1,"Device Type":0,"Addr":').signed(memory.address[part])
            lines.text(',"finished":false,"Ev Idx":').number(np.arange(first + low, first + low + len(part)))
            yield lines.text("}}").data()

    def _device_memory(self, first: int) -> Iterator[str]:
        """The same of devices; only loaded traces have it."""
        tracks = self.metrics.capture.tracks
        device = next((track.device_type for track in tracks if track.device_type), int(DeviceType.CUDA))
        rows = [(track, row) for track in tracks if track.device_memory is not None for row in track.device_memory]
        for index, (track, row) in enumerate(rows if self._is_wanted(MEMORY_MARK) else (), first):
            time, nbytes, address, number, allocated, reserved = row.tolist()
            yield (
                f',\n{{"ph":"i","cat":"{MEMORY_MARK}","s":"t","name":"{MEMORY_EVENT_NAME}","pid":{self._pid(track)},'
                f'"tid":{track.native_id},"ts":{_stamp(time + self._origin_ns)},"args":{{"Total Reserved":{reserved},'
                f'"Total Allocated":{allocated},"Bytes":{nbytes},"Device Id":{number},"Device Type":{device},'
                f'"Addr":{address},"finished":false,"Ev Idx":{index}}}}}'
            )

    def _endings(self) -> Iterator[str]:
        capture = self.metrics.capture
        ts, dur = _stamp(self._origin_ns), _stamp(capture.stop_ns - capture.start_ns)
        end = _stamp(self._origin_ns + capture.stop_ns - capture.start_ns)
        yield (
            f'{{"ph":"X","cat":"Trace","name":"{_SPAN} (0)","pid":"Spans","tid":"{_SPAN}",'
            f'"ts":{ts},"dur":{dur},"args":{{"Op count":0}}}}'
        )
        yield (
            f'{{"ph":"M","name":"process_sort_index","ts":{ts},"pid":"Spans","tid":0,"args":{{"sort_index":536870912}}}}'
        )
        yield (f'{{"ph":"i","s":"g","name":"Iteration Start: {_SPAN}","pid":"Traces","tid":"Trace {_SPAN}","ts":{ts}}}')
        yield f'{{"ph":"i","s":"g","name":"Record Window End","pid":"","tid":"","ts":{end}}}'


def _record_ids(metrics: Metrics, known: RecordIds) -> NDArray[np.int64] | None:
    """The id of each event in an execution trace of the same run, 0 where there is none.

    A region is entered in the trace just before it begins in the recording, and before anything in it is.
    """
    if not known:
        return None
    found = np.zeros(len(metrics), np.int64)
    for number, track in enumerate(metrics.capture.tracks):
        times, kinds, ids = (np.array(column, np.int64) for column in known.get(track.native_id, ((), (), ())))
        mine = np.flatnonzero((metrics.track == number) & ~metrics.is_python & ~metrics.is_mark)
        places = np.searchsorted(times, metrics.start_ns[mine] + metrics.capture.start_ns, side="right") - 1
        mine, places = mine[places >= 0], places[places >= 0]
        same = kinds[places] == metrics.kind[mine]
        found[mine[same]] = ids[places[same]]
    return found


def concrete_text(value: Any) -> str:
    """A concrete input as Kineto writes it: `1`, `True`, `0.25`, `2.`, `[8, 16]`, `1.+2.j`; nothing for the rest."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, complex):
        sign = "" if value.imag < 0 else "+"
        return f"{_float_text(value.real)}{sign}{_float_text(value.imag)}j"
    if isinstance(value, (list, tuple)) and all(isinstance(item, (bool, int, float, complex)) for item in value):
        return "[" + ", ".join(concrete_text(item) for item in value) + "]"
    return ""


def _float_text(value: float) -> str:
    """17 significant digits; whole numbers end in a point."""
    text = f"{value:.17g}"
    return text + "." if text.lstrip("-").isdigit() else text
