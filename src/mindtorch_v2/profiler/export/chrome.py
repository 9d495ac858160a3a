"""The Chrome trace in Kineto's dialect: JSON that is valid whatever the names and metadata hold.

It reads metrics; it does not know profilers or event objects.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..capture import CPU_OP, PYTHON_FUNCTION, USER_ANNOTATION
from ..metrics import Metrics

# Times are written from the start of a stretch of about three months, so that microseconds keep three decimals.
_BASE_STRETCH_S = 7_889_238
_CHUNK = 8192
_SPAN = "PyTorch Profiler"


def write_trace(
    metrics: Metrics,
    path: str | os.PathLike[str],
    trace_id: str = "",
    metadata: Mapping[str, str] | None = None,
    categories: Iterable[str] | None = None,
) -> None:
    """Write the trace of a capture; `metadata` holds JSON texts. A path that ends in `.gz` is compressed."""
    name = os.fspath(path)
    trace = _Trace(metrics, categories)
    with open_text(name) as file:
        file.write(_head(metrics, trace, trace_id, metadata or {}))
        separator = "\n"
        for chunk in trace.chunks():
            file.write(separator + ",\n".join(chunk))
            separator = ",\n"
        file.write(f'\n  ],\n  "traceName": {json.dumps(name)}\n}}\n')


def open_text(path: str) -> IO[str]:
    """A file for writing text, compressed if its name ends in `.gz`."""
    if path.endswith(".gz"):
        return gzip.open(path, "wt", compresslevel=1, encoding="utf-8")
    return open(path, "w", encoding="utf-8")


def valid_json(text: str) -> str:
    """The text itself if it is JSON, else the text as a JSON string."""
    try:
        json.loads(text)
    except (TypeError, ValueError):
        return json.dumps(str(text))
    return text


def _head(metrics: Metrics, trace: _Trace, trace_id: str, metadata: Mapping[str, str]) -> str:
    fields = {"schemaVersion": "1", "deviceProperties": "[]", "trace_id": json.dumps(trace_id)}
    fields.update((key, valid_json(value)) for key, value in metadata.items())
    fields["host_name"] = json.dumps(socket.gethostname())
    fields["displayTimeUnit"] = '"ms"'
    fields["baseTimeNanoseconds"] = str(trace.base_ns)
    lines = [f"  {json.dumps(key)}: {value},\n" for key, value in fields.items()]
    return "{\n" + "".join(lines) + '  "traceEvents": ['


def _stamp(ns: int) -> str:
    """Nanoseconds as microseconds with three decimals."""
    return f"{ns // 1000}.{ns % 1000:03d}"


class _Trace:
    """The lines of one trace."""

    def __init__(self, metrics: Metrics, categories: Iterable[str] | None) -> None:
        capture = metrics.capture
        self.metrics = metrics
        self.base_ns = capture.epoch_ns // (_BASE_STRETCH_S * 10**9) * (_BASE_STRETCH_S * 10**9)
        self.origin_ns = capture.epoch_ns - self.base_ns
        self._wanted = None if categories is None else frozenset(categories)
        self._heads: dict[int, str] = {}
        self._arguments: dict[tuple[int, int], str] = {}
        self._tids = [track.native_id for track in capture.tracks]
        self._flows: dict[int, tuple[int, str]] = {}
        for number, (first, second) in enumerate(zip(*(places.tolist() for places in metrics.flows)), 1):
            self._flows[first] = (number, "s")
            self._flows[second] = (number, "f")

    def chunks(self) -> Iterator[list[str]]:
        """All lines of the trace, some thousand at a time."""
        metrics = self.metrics
        yield list(self._openings())
        python = metrics.is_python
        crossing = self._crossings()
        yield from self._regions(np.flatnonzero(~python & ~metrics.is_mark), 0, crossing, self._op_arguments)
        regions = int((~python & ~metrics.is_mark).sum())
        yield from self._memory(regions)
        first = regions + len(metrics.memory_events)
        yield from self._regions(np.flatnonzero(python), first, crossing, self._python_arguments)
        yield list(self._endings())

    def _is_wanted(self, category: str) -> bool:
        return self._wanted is None or category in self._wanted

    def _openings(self) -> Iterator[str]:
        capture = self.metrics.capture
        ts = _stamp(self.origin_ns)
        pid = capture.pid
        process = [
            ("process_name", {"name": capture.process_name}),
            ("process_labels", {"labels": "CPU"}),
            ("process_sort_index", {"sort_index": pid}),
        ]
        for name, args in process:
            yield f'  {{"ph": "M", "name": "{name}", "ts": {ts}, "pid": {pid}, "tid": 0, "args": {json.dumps(args)}}}'
        for track in capture.tracks:
            tid = track.native_id
            title = {"name": f"thread {tid} ({capture.process_name if tid == capture.main_thread else track.name})"}
            head = f'"ts": {ts}, "pid": {pid}, "tid": {tid}, "args":'
            yield f'  {{"ph": "M", "name": "thread_name", {head} {json.dumps(title)}}}'
            yield f'  {{"ph": "M", "name": "thread_sort_index", {head} {{"sort_index": {tid}}}}}'

    def _crossings(self) -> NDArray[np.bool_]:
        """Events that cross another one of their thread; viewers lose slices that do not nest."""
        metrics = self.metrics
        crossing = np.zeros(len(metrics), bool)
        for number in range(len(metrics.capture.tracks)):
            mine = np.flatnonzero((metrics.track == number) & ~metrics.is_mark)
            crossing[mine] = tree.crossings(metrics.start_ns[mine], metrics.end_ns[mine])
        return crossing

    def _regions(
        self,
        places: NDArray[np.int64],
        first: int,
        crossing: NDArray[np.bool_],
        arguments: Callable[[NDArray[np.int64]], Iterator[str]],
    ) -> Iterator[list[str]]:
        """Lines of events, each followed by its arrow; `Ev Idx` counts from `first`."""
        metrics, flows, tids = self.metrics, self._flows, self._tids
        for low in range(0, len(places), _CHUNK):
            part = places[low : low + _CHUNK]
            starts = metrics.start_ns[part] + self.origin_ns
            columns = (part, starts, metrics.total_ns[part], metrics.kind[part], metrics.track[part], crossing[part])
            rows = zip(*(column.tolist() for column in columns), arguments(part))
            lines: list[str] = []
            for index, (place, start, length, kind, track, crosses, args) in enumerate(rows, first + low):
                head = self._heads.get(kind)
                if head is None:
                    head = self._head(kind)
                if not head:
                    continue
                ts = f"{start // 1000}.{start % 1000:03d}"
                if crosses:
                    lines += self._crossing_lines(head, tids[track], start, length, f'{args}, "Ev Idx": {index}')
                else:
                    lines.append(
                        f'  {{"ph": "X", {head}, "tid": {tids[track]}, "ts": {ts}, '
                        f'"dur": {length // 1000}.{length % 1000:03d}, "args": {{{args}, "Ev Idx": {index}}}}}'
                    )
                if place in flows:
                    lines.append(self._flow_line(place, tids[track], start))
            if lines:
                yield lines

    def _head(self, kind: int) -> str:
        """What the lines of a kind begin with; empty for kinds that are filtered out."""
        found = self._heads.get(kind)
        if found is None:
            row = self.metrics.kind_of(kind)
            overloaded = row.overload and self.metrics.capture.options.overload_names
            name = f"{row.name}.{row.overload}" if overloaded else row.name
            pid = self.metrics.capture.pid
            found = f'"cat": "{row.category}", "name": {json.dumps(name)}, "pid": {pid}'
            found = self._heads[kind] = found if self._is_wanted(row.category) else ""
        return found

    def _crossing_lines(self, head: str, tid: int, start: int, length: int, args: str) -> list[str]:
        number = f'"id": "{tid}.{start}"'
        return [
            f'  {{"ph": "b", {head}, "tid": {tid}, "ts": {_stamp(start)}, {number}, "args": {{{args}}}}}',
            f'  {{"ph": "e", {head}, "tid": {tid}, "ts": {_stamp(start + length)}, {number}}}',
        ]

    def _flow_line(self, place: int, tid: int, start: int) -> str:
        number, phase = self._flows[place]
        pid = self.metrics.capture.pid
        ending = ', "bp": "e"' if phase == "f" else ""
        return (
            f'  {{"ph": "{phase}", "id": {number}, "pid": {pid}, "tid": {tid}, "ts": {_stamp(start)}, '
            f'"cat": "fwdbwd", "name": "fwdbwd"{ending}}}'
        )

    def _op_arguments(self, part: NDArray[np.int64]) -> Iterator[str]:
        metrics, known = self.metrics, self._arguments
        columns = (metrics.ids, metrics.seq, metrics.forward_thread, metrics.kind, metrics.inputs)
        rows = zip(part.tolist(), *(column[part].tolist() for column in columns))
        with_stacks = metrics.capture.options.call_stacks
        for place, number, sequence, thread, kind, inputs in rows:
            args = f'"External id": {number}, "Record function id": 0'
            if sequence >= 0:
                args += f', "Sequence number": {sequence}, "Fwd thread id": {thread}'
            if inputs:
                args += known.get((kind, inputs)) or self._input_arguments(kind, inputs)
            yield args + self._call_stack(place) if with_stacks else args

    def _python_arguments(self, part: NDArray[np.int64]) -> Iterator[str]:
        metrics = self.metrics
        columns = (metrics.python_parents, metrics.python_ids, metrics.kind, metrics.track)
        with_stacks = metrics.capture.options.call_stacks
        for place, outer, number, kind, track in zip(part.tolist(), *(column[part].tolist() for column in columns)):
            args = f'"Python parent id": {outer if outer >= 0 else "null"}, "Python id": {number}'
            row = metrics.kind_of(kind)
            if row.module_id >= 0:
                args += f', "Python module id": {row.module_id}, "Module path": {json.dumps(row.path)}'
            if with_stacks:
                args += f', "Python thread": {track}' + self._call_stack(place)
            yield args

    def _call_stack(self, place: int) -> str:
        stack = self.metrics.stack_of(place)
        return f', "Call stack": {json.dumps(";".join(stack) + ";")}' if stack else ""

    def _input_arguments(self, kind: int, inputs: int) -> str:
        found = self._arguments.get((kind, inputs))
        if found is None:
            record = self.metrics.input_record(kind, inputs)
            fields = dict(getattr(record, "keywords", ()))
            if record.shapes:
                fields["Concrete Inputs"] = [concrete_text(value) for value in record.concrete]
                fields["Input type"] = list(record.dtypes)
                fields["Input Strides"] = record.strides
                fields["Input Dims"] = record.shapes
            found = "".join(f", {json.dumps(key)}: {json.dumps(value)}" for key, value in fields.items())
            self._arguments[kind, inputs] = found
        return found

    def _memory(self, first: int) -> Iterator[list[str]]:
        """All allocations and frees as instants, in order of time."""
        memory = self.metrics.memory_events
        if not self._is_wanted("cpu_instant_event"):
            return
        order = np.argsort(memory.time_ns, kind="stable")
        pid = self.metrics.capture.pid
        for low in range(0, len(order), _CHUNK):
            part = order[low : low + _CHUNK]
            columns = (memory.time_ns + self.origin_ns, memory.nbytes, memory.address, memory.total, memory.track)
            rows = zip(*(column[part].tolist() for column in columns))
            yield [
                f'  {{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": {pid}, '
                f'"tid": {self._tids[track]}, "ts": {_stamp(time)}, "args": {{"Total Reserved": 0, '
                f'"Total Allocated": {total}, "Bytes": {nbytes}, "Device Id": -1, "Device Type": 0, '
                f'"Addr": {address}, "Ev Idx": {first + low + index}}}}}'
                for index, (time, nbytes, address, total, track) in enumerate(rows)
            ]

    def _endings(self) -> Iterator[str]:
        capture = self.metrics.capture
        ts, dur = _stamp(self.origin_ns), _stamp(capture.stop_ns - capture.start_ns)
        end = _stamp(self.origin_ns + capture.stop_ns - capture.start_ns)
        yield (
            f'  {{"ph": "X", "cat": "Trace", "name": "{_SPAN} (0)", "pid": "Spans", "tid": "{_SPAN}", '
            f'"ts": {ts}, "dur": {dur}, "args": {{"Op count": 0}}}}'
        )
        yield (
            f'  {{"ph": "M", "name": "process_sort_index", "ts": {ts}, "pid": "Spans", "tid": 0, '
            '"args": {"sort_index": 536870912}}'
        )
        yield (
            f'  {{"ph": "i", "s": "g", "name": "Iteration Start: {_SPAN}", "pid": "Traces", '
            f'"tid": "Trace {_SPAN}", "ts": {ts}}}'
        )
        yield f'  {{"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": {end}}}'


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


CATEGORIES = {
    "CPU_OP": CPU_OP,
    "USER_ANNOTATION": USER_ANNOTATION,
    "PYTHON_FUNCTION": PYTHON_FUNCTION,
    "CPU_INSTANT_EVENT": "cpu_instant_event",
}
