"""Perfetto's own format (`.pftrace`): threads with nested slices, arguments, arrows from forward to backward, memory.

Slices of a thread are written as their begins and ends in the order in which they happened; names and arguments that
many events share are written once. The numbers of fields are those of Perfetto's published schema.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analyse import tree
from ..analyse.arrows import ends_of_arrows
from ..analyse.metrics import Metrics
from ..capture.capture import MEMORY_EVENT_NAME, MEMORY_MARK, Capture, Track
from .chrome import concrete_text
from .files import Writer, open_binary
from .protobuf import Messages, fixed64, message, number, text
from .texts import json_encoder

Ints = NDArray[np.int64]

_CHUNK = 8192
_json = json_encoder(default=str)
_SPAN = "PyTorch Profiler"

# Fields of TracePacket, TrackEvent, DebugAnnotation, InternedData and TrackDescriptor.
_PACKET = 1
_TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60
_CATEGORY, _ANNOTATION, _TYPE, _NAME, _TRACK, _COUNTER, _FLOW, _FLOW_END = 3, 4, 9, 10, 11, 30, 47, 48
_ANNOTATION_NAME, _INT_VALUE, _TEXT_VALUE = 1, 4, 17
_CATEGORIES, _NAMES, _ANNOTATION_NAMES, _ANNOTATION_TEXTS = 1, 2, 3, 29
_UUID, _TITLE, _PROCESS, _THREAD, _PARENT, _COUNTER_SORT = 1, 2, 3, 4, 5, 8
_BEGIN, _END, _INSTANT, _COUNT = 1, 2, 3, 4
_CLEARED, _NEEDED = 1, 2
_BYTES_UNIT = 3
# Numbers of tracks: of process p, of its memory, of thread t, of what crosses other slices, of the recording itself.
_PROCESSES, _MEMORIES, _THREADS, _CROSSINGS, _RECORDING = (place << 40 for place in range(1, 6))


def write_perfetto(capture: Capture, path: str | os.PathLike[str]) -> None:
    """Write a capture for ui.perfetto.dev and its SQL engine."""
    with open_binary(path) as file:
        _Writer(Metrics(capture).whole(), file).write()


def packet(*fields: bytes) -> bytes:
    """A packet of the one sequence all of them belong to."""
    return message(_PACKET, number(_SEQUENCE, 1), *fields)


class _Interned:
    """Texts by number, from 1."""

    def __init__(self, field: int) -> None:
        self._field = field
        self._numbers: dict[str, int] = {}
        self.new: list[bytes] = []

    def __getitem__(self, value: str) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self._numbers) + 1
            self.new.append(message(self._field, number(1, found), text(2, value)))
        return found


class _Writer:
    """The packets of one trace."""

    def __init__(self, metrics: Metrics, file: Writer) -> None:
        self.metrics = metrics
        self.file = file
        self.names = _Interned(_NAMES)
        self.categories = _Interned(_CATEGORIES)
        self.arguments = _Interned(_ANNOTATION_NAMES)
        self.texts = _Interned(_ANNOTATION_TEXTS)
        self._interned = (self.names, self.categories, self.arguments, self.texts)
        self._heads: dict[int, bytes] = {}
        self._ends: dict[int, bytes] = {}
        self._flows: dict[int, list[bytes]] = {}
        for flow, (first, last) in enumerate(zip(*(places.tolist() for places in metrics.flows)), 1):
            self._flows.setdefault(first, []).append(fixed64(_FLOW, flow))
            self._flows.setdefault(last, []).append(fixed64(_FLOW_END, flow))
        for place, flow, sort in ends_of_arrows(metrics):
            field = _FLOW_END if sort == "f" else _FLOW
            self._flows.setdefault(place, []).append(fixed64(field, len(metrics.flows[0]) + flow))

    def write(self) -> None:
        self.file.write(packet(number(_FLAGS, _CLEARED), message(_INTERNED)))
        for descriptor in self._descriptors():
            self.file.write(packet(message(_DESCRIPTOR, *descriptor)))
        for part in _in_chunks(self._slices()):
            self._flush(self._packets(*part))
        for data in self._memory():
            self._flush(data)
        self._flush(b"".join(self._recording()))

    def _flush(self, data: bytes) -> None:
        """Packets, after the texts they are the first to use."""
        new = [part for table in self._interned for part in table.new]
        for table in self._interned:
            table.new.clear()
        if new:
            self.file.write(packet(number(_FLAGS, _NEEDED), message(_INTERNED, *new)))
        self.file.write(data)

    # Tracks

    def _process(self, track: Track) -> int:
        return track.pid or self.metrics.capture.pid

    def _descriptors(self) -> Iterator[list[bytes]]:
        capture = self.metrics.capture
        named: dict[int, str] = {capture.pid: capture.process_name}
        for track in capture.tracks:
            if not track.device_type:
                named.setdefault(self._process(track), track.process_name)
        for pid, name in named.items():
            process = message(_PROCESS, number(1, pid & 0x7FFFFFFF), text(6, name or "python"))
            yield [number(_UUID, _PROCESSES + pid), process]
            memory = message(_COUNTER_SORT, number(3, _BYTES_UNIT))
            title = text(_TITLE, "Total Allocated")
            yield [number(_UUID, _MEMORIES + pid), number(_PARENT, _PROCESSES + pid), title, memory]
        yield [number(_UUID, _RECORDING), text(_TITLE, _SPAN)]
        for place, track in enumerate(capture.tracks):
            yield from self._thread(place, track)

    def _thread(self, place: int, track: Track) -> Iterator[list[bytes]]:
        pid, tid, uuid = self._process(track), track.native_id, number(_UUID, _THREADS + place)
        parent = number(_PARENT, _PROCESSES + pid)
        if track.device_type:
            yield [uuid, parent, text(_TITLE, f"Device {track.device_index}, stream {tid}")]
        elif not 0 <= tid < 1 << 31:
            yield [uuid, parent, text(_TITLE, track.name)]
        else:
            name = self.metrics.capture.process_name if tid == self.metrics.capture.main_thread else track.name
            thread = message(_THREAD, number(1, pid & 0x7FFFFFFF), number(2, tid), text(5, name))
            yield [uuid, parent, thread]

    # Slices

    def _slices(self) -> Iterator[tuple[Ints, NDArray[np.bool_], Ints]]:
        """Begins and ends of each thread's events in order: their places, which are begins, and on what tracks. Events
        that cross others get tracks of their own."""
        metrics = self.metrics
        regions = np.flatnonzero(~metrics.is_mark)
        regions = regions[np.argsort(metrics.track[regions], kind="stable")]
        bounds = np.searchsorted(metrics.track[regions], np.arange(len(metrics.capture.tracks) + 1)).tolist()
        for track, (low, high) in enumerate(itertools.pairwise(bounds)):
            # In the opposite of the display order, in which of equal events the outer one is the last.
            places = regions[low:high][::-1]
            start, end = metrics.start_ns[places], metrics.end_ns[places]
            crossing = tree.crossings(start, end)
            inside = ~crossing
            order, parent, _ = tree.nest(start[inside], end[inside])
            sequence, begins = _in_order(parent)
            shown = places[inside][order][sequence]
            yield shown, begins, np.full(len(shown), _THREADS + track)
            yield self._crossing(places[crossing], _THREADS + track, _CROSSINGS + (track << 24))

    def _crossing(self, places: Ints, parent: int, first: int) -> tuple[Ints, NDArray[np.bool_], Ints]:
        """Events on a track each, numbered from `first` on."""
        uuids = first + np.arange(len(places))
        for uuid, kind in zip(uuids.tolist(), self.metrics.kind[places].tolist()):
            title = text(_TITLE, "crossing " + self.metrics.kind_of(kind).name)
            self.file.write(packet(message(_DESCRIPTOR, number(_UUID, uuid), number(_PARENT, parent), title)))
        return places.repeat(2), np.tile([True, False], len(places)), uuids.repeat(2)

    def _packets(self, places: Ints, begins: NDArray[np.bool_], uuids: Ints) -> bytes:
        pieces: list[bytes] = [b""] * len(places)
        ended = places[~begins]
        closing = Messages(len(ended)).raw(number(_TYPE, _END)).number(_TRACK, uuids[~begins])
        for row, data in zip(np.flatnonzero(~begins).tolist(), self._timed(closing, self.metrics.end_ns[ended], 0)):
            pieces[row] = data
        for row, data in zip(np.flatnonzero(begins).tolist(), self._begins(places[begins], uuids[begins])):
            pieces[row] = data
        return b"".join(pieces)

    def _begins(self, places: Ints, uuids: Ints) -> Iterator[bytes]:
        metrics = self.metrics
        opening = Messages(len(places)).raw(number(_TYPE, _BEGIN)).number(_TRACK, uuids)
        python, function = metrics.is_python[places], metrics.is_function[places]
        for name, values, where in (
            ("External id", metrics.external_ids[places], ~python),
            ("Sequence number", metrics.seq[places], metrics.seq[places] >= 0),
            ("Fwd thread id", metrics.forward_thread[places], metrics.seq[places] >= 0),
            ("Python id", metrics.python_ids[places], function),
            ("Python parent id", metrics.python_parents[places], function & (metrics.python_parents[places] >= 0)),
        ):
            if where.any():
                opening.joined(self._annotations(name, np.maximum(values, 0), where))
        codes = metrics.kind[places].astype(np.int64) << 32 | metrics.inputs[places]
        shared = [self._ends.get(code) or self._end(code) for code in codes.tolist()]
        if metrics.capture.options.call_stacks:
            shared = [end + self._stack(place) for place, end in zip(places.tolist(), shared)]
        if self._flows:
            shared = [
                end + b"".join(self._flows[place]) if place in self._flows else end
                for place, end in zip(places.tolist(), shared)
            ]
        sizes = np.fromiter(map(len, shared), np.int64, len(shared))
        for head, end in zip(self._timed(opening, metrics.start_ns[places], sizes), shared):
            yield head + end

    def _annotations(self, name: str, values: Ints, where: NDArray[np.bool_]) -> Messages:
        """An argument that is a number of its own in each of some rows."""
        inner = Messages(len(values)).raw(number(_ANNOTATION_NAME, self.arguments[name])).number(_INT_VALUE, values)
        found = inner.inside(_ANNOTATION)
        return found.only(where)

    def _timed(self, events: Messages, time_ns: Ints, after: Ints | int) -> list[bytes]:
        """Packets of track events, of each of which `after` bytes are still to follow."""
        head = Messages(events.count).raw(number(_SEQUENCE, 1) + number(_FLAGS, _NEEDED))
        head.number(_TIMESTAMP, time_ns + self.metrics.capture.epoch_ns)
        return head.joined(events.inside(_EVENT, after)).inside(_PACKET, after).split()

    def _end(self, code: int) -> bytes:
        """What the begins of one kind with the same inputs share: name, category, arguments."""
        metrics = self.metrics
        kind = metrics.kind_of(code >> 32)
        overloaded = kind.overload and metrics.capture.options.overload_names
        name = f"{kind.name}.{kind.overload}" if overloaded else kind.name
        fields: dict[str, Any] = {}
        if kind.module_id >= 0:
            fields.update({"Python module id": kind.module_id, "Module path": kind.path})
        if inputs := code & 0xFFFFFFFF:
            record = metrics.input_record(code >> 32, inputs)
            fields.update(getattr(record, "keywords", ()))
            if record.shapes:
                fields["Concrete Inputs"] = [concrete_text(value) for value in record.concrete]
                fields["Input type"] = list(record.dtypes)
                fields["Input Strides"] = record.strides
                fields["Input Dims"] = record.shapes
        found = number(_NAME, self.names[name]) + number(_CATEGORY, self.categories[kind.category])
        found += b"".join(self._annotation(key, value) for key, value in fields.items())
        self._ends[code] = found
        return found

    def _annotation(self, name: str, value: Any) -> bytes:
        key = number(_ANNOTATION_NAME, self.arguments[name])
        if isinstance(value, int) and abs(value) < 1 << 63:
            return message(_ANNOTATION, key, number(_INT_VALUE, value))
        words = value if isinstance(value, str) else _json(value)
        return message(_ANNOTATION, key, number(_TEXT_VALUE, self.texts[words]))

    def _stack(self, place: int) -> bytes:
        stack = self.metrics.stack_of(place)
        return self._annotation("Call stack", ";".join(stack)) if stack else b""

    # Memory, and the recording itself

    def _memory(self) -> Iterator[bytes]:
        """Each allocation and free as an instant of its thread and as a value of its process's counter."""
        memory = self.metrics.memory_events
        tracks = self.metrics.capture.tracks
        processes = np.array([self._process(track) for track in tracks], np.int64)
        order = np.argsort(memory.time_ns, kind="stable")
        name = number(_NAME, self.names[MEMORY_EVENT_NAME]) + number(_CATEGORY, self.categories[MEMORY_MARK])
        for low in range(0, len(order), _CHUNK):
            part = order[low : low + _CHUNK]
            track, time, everywhere = memory.track[part], memory.time_ns[part], np.ones(len(part), bool)
            marks = Messages(len(part)).raw(number(_TYPE, _INSTANT) + name).number(_TRACK, track + np.int64(_THREADS))
            for title, values in (
                ("Bytes", memory.nbytes[part]),
                ("Addr", memory.address[part]),
                ("Total Allocated", memory.total[part]),
            ):
                marks.joined(self._annotations(title, values, everywhere))
            counts = Messages(len(part)).raw(number(_TYPE, _COUNT)).number(_TRACK, processes[track] + _MEMORIES)
            counts.number(_COUNTER, memory.total[part])
            yield b"".join(self._timed(marks, time, 0) + self._timed(counts, time, 0))

    def _recording(self) -> Iterator[bytes]:
        """The span of the recording, and the marks that Kineto sets at its ends."""
        capture = self.metrics.capture
        start, stop = capture.epoch_ns, capture.epoch_ns + capture.stop_ns - capture.start_ns
        category = number(_CATEGORY, self.categories["Trace"])
        for time, sort, name in (
            (start, _BEGIN, f"{_SPAN} (0)"),
            (start, _INSTANT, f"Iteration Start: {_SPAN}"),
            (stop, _INSTANT, "Record Window End"),
            (stop, _END, ""),
        ):
            named = number(_NAME, self.names[name]) + category if name else b""
            event = message(_EVENT, number(_TYPE, sort), number(_TRACK, _RECORDING), named)
            yield packet(number(_FLAGS, _NEEDED), number(_TIMESTAMP, time), event)


def _in_chunks(
    parts: Iterable[tuple[Ints, NDArray[np.bool_], Ints]],
) -> Iterator[tuple[Ints, NDArray[np.bool_], Ints]]:
    """Columns joined to some thousand rows at a time: short ones of many threads together, long ones piece by piece."""
    waiting: list[tuple[Ints, NDArray[np.bool_], Ints]] = []
    count = 0
    for part in parts:
        waiting.append(part)
        count += len(part[0])
        if count >= _CHUNK:
            yield from _pieces(waiting)
            waiting, count = [], 0
    if count:
        yield from _pieces(waiting)


def _pieces(parts: list[tuple[Ints, NDArray[np.bool_], Ints]]) -> Iterator[tuple[Ints, NDArray[np.bool_], Ints]]:
    places, begins, uuids = (np.concatenate(column) for column in zip(*parts))
    for low in range(0, len(places), _CHUNK):
        part = slice(low, low + _CHUNK)
        yield places[part], begins[part], uuids[part]


def _in_order(parent: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Nested events, given outer before inner, as a sequence of begins and ends: the places, and which are begins.

    Before an event begins, all earlier ones have begun and all of them but those around it have ended.
    """
    count = len(parent)
    depths, sizes = [0] * count, [1] * count
    outer = parent.tolist()
    for place, around in enumerate(outer):
        if around >= 0:
            depths[place] = depths[around] + 1
    for place in range(count - 1, -1, -1):
        if outer[place] >= 0:
            sizes[outer[place]] += sizes[place]
    depth, size = np.array(depths, np.int64), np.array(sizes, np.int64)
    first = np.arange(count)
    last = first + size - 1
    sequence = np.empty(2 * count, np.int64)
    begins = np.zeros(2 * count, bool)
    begins[2 * first - depth] = True
    sequence[2 * first - depth] = first
    sequence[2 * last + 1 - depth] = first
    return sequence, begins
