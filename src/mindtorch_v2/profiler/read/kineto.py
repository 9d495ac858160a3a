"""Chrome traces in Kineto's dialect, ours and torch's, turned into a capture.

It owns what the fields of such a file mean. It executes nothing of it and keeps no event, only columns.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import tap
from ...core.brief import brief
from ...core.roles import NAMES
from ..analyse import tree
from ..analyse.arrows import SORTS, Arrows
from ..analyse.device_links import is_launch
from ..analyse.metrics import DEEPEST_STACK
from ..capture.capture import (
    CPU_OP,
    MEMORY_EVENT_NAME,
    MEMORY_MARK,
    MEMORY_ROLES,
    PYTHON_FUNCTION,
    SEEN,
    USER_ANNOTATION,
    Capture,
    Kind,
    Track,
)
from ..capture.flops import careful, formula_of
from ..record.config import TRACE_FLAGS, DeviceType, RecordOptions
from .arguments import InputTable
from .jsonstream import JsonStream, TraceError
from .layouts import DEVICE_CATEGORIES, FORWARD_TO_BACKWARD, MEMORY_ROW, ROW, CommonEvents

# Events tell their thread by a number of 16 bits.
_MOST_LANES = (1 << 15) - 1
_EVALUATE = "autograd::engine::evaluate_function: "
_LIMIT_NS = 1 << 61
_LARGEST_THREAD = 1 << 62
# What a trace says of itself, such as the properties of devices, is never as long and has never as many parts.
_MOST_SAID, _MOST_FIELDS = 1 << 26, 10_000
# No thread is in so many regions at once, and no trace says nothing for as many characters.
_MOST_OPEN, _MOST_IDLE = 100_000, 1 << 24
_DEVICE_MEMORY_ROW = struct.Struct("=6q")
_ROW_TYPE = np.dtype("i8,i8,i8,i8,i4,i4,i4")
# What a trace says of its own form, not of the run.
_FORM_FIELDS = {"schemaVersion", "displayTimeUnit", "baseTimeNanoseconds", "traceName", *TRACE_FLAGS}
_DEVICE_TYPES = {
    "xpu": DeviceType.XPU,
    "mtia": DeviceType.MTIA,
    "hpu": DeviceType.HPU,
    "privateuse1": DeviceType.PrivateUse1,
}
# Arguments that differ from call to call; the others are worth keeping once for all calls that share them.
_OWN_ARGUMENTS = frozenset(
    ("External id", "Sequence number", "Fwd thread id", "Record function id", "Ev Idx", "Call stack", "Python thread",
     "Python id", "Python parent id", "Python module id", "Module path", "finished")
)  # fmt: skip


# A thread's own name in the title it has in traces.
_THREAD_TITLE = re.compile(r"thread \d+ \((.*)\)").fullmatch


def read_chrome(path: str | os.PathLike[str]) -> Capture:
    """The capture in a Chrome trace, plain or gzipped; TraceError says where a file stops making sense."""
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


@dataclass
class _Lane:
    """The regions of one thread or stream as they come, in nanoseconds of the file's clock."""

    pid: Any
    tid: Any
    is_device: bool
    # Packed rows of regions (times, sequence number, link, kind, inputs, stack) and of memory (time, bytes, address).
    rows: bytearray = field(default_factory=bytearray)
    memory: bytearray = field(default_factory=bytearray)
    device_memory: bytearray = field(default_factory=bytearray)
    open: list[dict[str, Any]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows) + len(self.memory) + len(self.device_memory)

    def columns(self) -> NDArray[Any]:
        return np.frombuffer(self.rows, _ROW_TYPE)

    def memory_columns(self) -> NDArray[np.int64]:
        return np.frombuffer(self.memory, np.int64).reshape(-1, 3)

    def device_memory_rows(self) -> NDArray[np.int64]:
        """In order of time."""
        rows = np.frombuffer(self.device_memory, np.int64).reshape(-1, 6)
        return rows[np.argsort(rows[:, 0], kind="stable")]


class StackTexts:
    """Stacks by number. Each is a text from a file, or another stack with one more entry inside of it."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {"": 0}
        self._stacks: list[Any] = [""]
        # Whether lines are where functions begin, as all that a trace tells, not the ones that ran.
        self.lines_of_definition = False

    def intern(self, stack: str | tuple[int, str]) -> int:
        found = self._numbers.get(stack)
        if found is None:
            found = self._numbers[stack] = len(self._stacks)
            self._stacks.append(stack)
        return found

    def read(self, stack: int) -> list[str]:
        """Entries, innermost first."""
        entries: list[str] = []
        while stack and len(entries) < DEEPEST_STACK:
            found = self._stacks[stack]
            if isinstance(found, str):
                return entries + [entry for entry in found.split(";") if entry]
            stack, entry = found
            entries.append(entry)
        return entries

    def __len__(self) -> int:
        return len(self._stacks)


def _nanoseconds(microseconds: Any) -> int:
    """Exact for times below 2**53 ns, which is why traces count from a base."""
    if isinstance(microseconds, bool) or not isinstance(microseconds, (int, float)) or microseconds != microseconds:
        raise ValueError(f"expected a time in microseconds, got {brief(microseconds)}")
    if abs(microseconds) >= _LIMIT_NS // 1000:
        raise ValueError("a time out of range")
    return microseconds * 1000 if isinstance(microseconds, int) else round(microseconds * 1000)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a text, got {brief(value)}")
    return value


def _object(value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"expected an object as arguments, got {brief(value)}")
    return value or {}


def _number(value: Any) -> int:
    if type(value) is not int or abs(value) >= 1 << 63:
        raise ValueError(f"expected a whole number of 64 bits, got {brief(value)}")
    return value


def _thread(event: dict[str, Any]) -> tuple[int | str, int | str]:
    """The process and thread of an event. Python takes true for 1 and 1.0 for 1; only the latter are the same number."""
    return _thread_part(event.get("pid", 0)), _thread_part(event.get("tid", 0))


def _thread_part(value: Any) -> int | str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) or (type(value) is int and abs(value) < _LARGEST_THREAD):
        return value
    raise ValueError(f"expected a number of 62 bits or a text as pid and tid, got {brief(value)}")


def _whole(value: Any, otherwise: int) -> int:
    """A whole number of 64 bits; `otherwise` for anything that is none."""
    return value if type(value) is int and abs(value) < 1 << 63 else otherwise


class _Reader:
    """Collects events, then makes the capture."""

    def __init__(self, stream: JsonStream) -> None:
        self.stream = stream
        self.fields: dict[str, Any] = {}
        self.has_events = False
        self.lanes: dict[tuple[Any, Any], _Lane] = {}
        self.kinds: list[Kind] = [Kind(MEMORY_EVENT_NAME, "", 0, MEMORY_MARK, None, None, None, -1, "")]
        self._kind_numbers: dict[tuple[str, str, int, str], int] = {}
        self.inputs = InputTable()
        self.stacks = StackTexts()
        self.names: dict[tuple[str, Any, Any], str] = {}
        self.span: list[int] = []
        self.asyncs: dict[Any, dict[str, Any]] = {}
        self.arrows = Arrows()
        self.device_type = DeviceType.CUDA
        self.backward: set[str] = set()
        self.notes: list[str] = []
        self.memory_roles = [np.zeros((0, len(SEEN)), np.int64)]
        self._negative = 0
        self._said = self._field_count = 0
        # Where the last event was that said something.
        self._useful = 0
        self._steps: dict[str, Callable[[dict[str, Any]], None]] = {
            "X": self._region,
            "B": self._begin,
            "E": self._end,
            "b": self._begin_async,
            "e": self._end_async,
            "i": self._instant,
            "I": self._instant,
            "M": self._name,
            **dict.fromkeys(SORTS, self._arrow),
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
        stream = self.stream
        stream.expect("[")
        if stream.peek() == "]":
            stream.place += 1
            return
        common = CommonEvents(self).read
        self._useful = stream.position
        while True:
            place = stream.place
            stream.place = common(stream.text, place)
            if stream.place > place:
                self._useful = stream.position
            stream.peek()
            begin = stream.position
            self._read_other(stream.value(), begin)
            if stream.expect(",]") == "]":
                return

    def lane_of(self, pid: int, tid: int, category: str) -> _Lane:
        """The lane of a thread or stream that has events of a category."""
        key = (pid, tid)
        return self.lanes[key] if key in self.lanes else self._new_lane(key, category in DEVICE_CATEGORIES)

    def kind_of(self, category: str, name: str, args: dict[str, Any]) -> tuple[int, int, int]:
        """Kind, inputs and stack of regions with these arguments."""
        inputs, stack, module, path = self._shared_arguments(args)
        return self._kind(category, name, module, path), inputs, stack

    def _read_other(self, event: Any, begin: int) -> None:
        try:
            step = self._steps.get(event["ph"])
            if step is not None:
                step(event)
            if step is not None and step != self._name:
                self._useful = begin
            elif begin - self._useful > _MOST_IDLE:
                raise self.stream.error_at(begin, f"{_MOST_IDLE} characters without one event that can be read")
        except TraceError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, struct.error) as error:
            reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise self.stream.error_at(begin, f"an event that makes no sense: {reason}") from error

    def _lane(self, event: dict[str, Any], is_device: bool = False) -> _Lane:
        key = _thread(event)
        return self.lanes[key] if key in self.lanes else self._new_lane(key, is_device)

    def _new_lane(self, key: tuple[Any, Any], is_device: bool) -> _Lane:
        if len(self.lanes) == _MOST_LANES:
            raise self.stream.error(f"more than {_MOST_LANES} threads")
        lane = self.lanes[key] = _Lane(*key, is_device)
        return lane

    def _region(self, event: dict[str, Any]) -> None:
        category = _text(event.get("cat", CPU_OP))
        start, length = _nanoseconds(event["ts"]), _nanoseconds(event.get("dur", 0))
        if category == "Trace":
            self.span = [start, start + length]
            return
        if length < 0:
            self._negative += 1
            length = 0
        args = _object(event.get("args"))
        inputs, stack, module, path = self._shared_arguments(args)
        is_device = category in DEVICE_CATEGORIES or ("stream" in args and "device" in args)
        link, correlation = (_whole(args.get(key), 0) for key in ("External id", "correlation"))
        if correlation:
            link, inputs = self.correlated("kernel" if is_device else category, link, correlation, inputs)
        number = self._kind(category, _text(event["name"]), module, path)
        sequence = _whole(args.get("Sequence number"), -1)
        row = ROW.pack(start, start + length, sequence, link, number, inputs, stack)
        self._lane(event, is_device).rows += row

    def correlated(self, category: str, external: int, correlation: int, inputs: int) -> tuple[int, int]:
        """The External id of an event, and its inputs with the correlation among them."""
        if is_launch(category):
            self.device_type = _DEVICE_TYPES.get(category.partition("_")[0], self.device_type)
        return external, self.inputs.correlated(inputs, correlation)

    def _shared_arguments(self, args: Mapping[str, Any]) -> tuple[int, int, int, str]:
        shared = {key: value for key, value in args.items() if key not in _OWN_ARGUMENTS}
        if _whole(shared.get("correlation"), 0):
            del shared["correlation"]
        inputs = self.inputs.intern(shared)
        stack = args.get("Call stack")
        module = _whole(args.get("Python module id"), -1)
        path = args.get("Module path")
        return (
            inputs,
            self.stacks.intern(stack) if isinstance(stack, str) else 0,
            module if module < 1 << 31 else -1,
            path if isinstance(path, str) else "",
        )

    def _kind(self, category: str, name: str, module: int, path: str) -> int:
        key = (category, name, module, path)
        found = self._kind_numbers.get(key)
        if found is None:
            found = self._kind_numbers[key] = len(self.kinds)
            overload, scope = "", tap.FUNCTION
            if category == CPU_OP and name.startswith("aten::"):
                name, _, overload = name.partition(".")
            if category == USER_ANNOTATION:
                scope = tap.USER_SCOPE
            if name.startswith(_EVALUATE):
                self.backward.add(name.removeprefix(_EVALUATE))
            self.kinds.append(Kind(name, overload, scope, category, None, None, None, module, path))
        return found

    def _begin(self, event: dict[str, Any]) -> None:
        lane = self._lane(event)
        lane.open.append(event)
        if len(lane.open) > _MOST_OPEN:
            raise ValueError(f"more than {_MOST_OPEN} regions of a thread are open at once")

    def _end(self, event: dict[str, Any]) -> None:
        lane = self._lane(event)
        if lane.open:
            self._join(lane.open.pop(), event)

    def _begin_async(self, event: dict[str, Any]) -> None:
        self.asyncs[event.get("cat"), event.get("pid"), str(event.get("id"))] = event
        if len(self.asyncs) > _MOST_OPEN:
            raise ValueError(f"more than {_MOST_OPEN} regions are open at once")

    def _end_async(self, event: dict[str, Any]) -> None:
        begun = self.asyncs.pop((event.get("cat"), event.get("pid"), str(event.get("id"))), None)
        if begun is not None:
            self._join(begun, event)

    def _join(self, begun: dict[str, Any], ended: dict[str, Any]) -> None:
        """The region between two events that mark its ends."""
        start, end = _nanoseconds(begun["ts"]), _nanoseconds(ended["ts"])
        self._region({**begun, "ts": start / 1000, "dur": (end - start) / 1000})

    def _instant(self, event: dict[str, Any]) -> None:
        name = event.get("name")
        if name == MEMORY_EVENT_NAME:
            args = _object(event["args"])
            row = (_nanoseconds(event["ts"]), _number(args["Bytes"]), _number(args.get("Addr", 0)))
            if args.get("Device Type", 0) == 0:
                self._lane(event).memory += MEMORY_ROW.pack(*row)
            else:
                rest = (_whole(args.get(name), 0) for name in ("Device Id", "Total Allocated", "Total Reserved"))
                self._lane(event).device_memory += _DEVICE_MEMORY_ROW.pack(*row, *rest)
        elif name == "Record Window End" and self.span:
            self.span[1] = max(self.span[1], _nanoseconds(event["ts"]))

    def _arrow(self, event: dict[str, Any]) -> None:
        category = event.get("cat")
        if isinstance(category, str) and category != FORWARD_TO_BACKWARD:
            thread, time_ns = _thread(event), _nanoseconds(event["ts"])
            self.add_arrow(thread, time_ns, event.get("id"), event["ph"], category, _text(event.get("name", category)))

    def add_arrow(self, thread: Any, time_ns: int, name: Any, sort: str, category: str, title: str) -> None:
        """Keep an end of an arrow."""
        self.arrows.add(thread, time_ns, name, sort, self._kind(category, title, -1, ""))

    def _see(self, event: dict[str, Any], args: dict[str, Any]) -> None:
        """What blocks of memory were to the program (see `Capture.memory_roles`); roles nobody knows are left out."""
        columns = [args[name] for name in SEEN]
        if not all(type(value) is int and abs(value) <= _LIMIT_NS for column in columns for value in column):
            raise ValueError("expected lists of whole numbers of 61 bits")
        rows = np.array(columns, np.int64).T.reshape(-1, len(SEEN))
        numbers = np.array([NAMES.index(name) if name in NAMES else -1 for name in args["names"]], np.int64)
        if len(rows) and not (rows[:, 1].min() >= 0 and rows[:, 1].max() < len(numbers)):
            raise ValueError("a role without a name")
        rows[:, 0] += _nanoseconds(event["ts"])
        rows[:, 1] = numbers[rows[:, 1]]
        self.memory_roles.append(rows[rows[:, 1] >= 0])

    def _name(self, event: dict[str, Any]) -> None:
        args = _object(event.get("args"))
        if event["name"] == MEMORY_ROLES:
            self._see(event, args)
            return
        for name in ("name", "labels"):
            if isinstance(args.get(name), str):
                tid = event.get("tid") if event["name"] == "thread_name" else None
                self.names[_text(event["name"]), event.get("pid"), tid] = args[name]

    # The capture

    def capture(self) -> Capture:
        """What has been read, as a capture."""
        self._close()
        named = {key: place for place, key in enumerate(self.names)}
        lanes = [lane for lane in self.lanes.values() if len(lane)]
        # In the order in which the file names them, so that a trace that is written again looks the same.
        lanes.sort(key=lambda lane: named.get(("thread_name", lane.pid, lane.tid), len(named)))
        start, stop = self._bounds(lanes)
        main = self._main_process(lanes)
        tracks = [self._track(lane, index, start, main) for index, lane in enumerate(lanes, 1)]
        self._name_backward()
        options = self._options(tracks)
        if options.stacks and not options.call_stacks:
            self._stacks_from_functions(tracks)
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
            self.kinds,
            self.inputs,
            self.stacks,  # type: ignore[arg-type]
            0,
            main,
            self.names.get(("process_name", main, None), "python"),
            int(links[links > 0].min(initial=_LIMIT_NS)) if (links > 0).any() else 1,
            main_thread=main,
            metadata={key: value for key, value in self.fields.items() if key not in _FORM_FIELDS},
            notes=self.notes,
            memory_roles=memory_roles,
        )

    def _main_process(self, lanes: list[_Lane]) -> int:
        """The first process that runs ops. Kineto gives 0 or the number of a device to some rows of threads, too."""
        processes = [lane for lane in lanes if not lane.is_device and isinstance(lane.pid, int)]
        is_op = np.array([kind.category in (CPU_OP, USER_ANNOTATION) for kind in self.kinds])
        running = (lane.pid for lane in processes if is_op[lane.columns()["f4"]].any())
        return next(running, processes[0].pid if processes else 0)

    def _base(self) -> int:
        """Nanoseconds from 1970 to where the times of the file count from."""
        base = self.fields.get("baseTimeNanoseconds", 0)
        if type(base) is int and 0 <= base < _LIMIT_NS:
            return base
        self.notes.append(f"the time that the file counts from ({brief(base)}) makes no sense and is taken as 1970")
        return 0

    def _bounds(self, lanes: list[_Lane]) -> tuple[int, int]:
        """First and last time of all."""
        times = [np.array(self.span, np.int64)]
        for lane in lanes:
            rows = lane.columns()
            times += [rows["f0"], rows["f1"], lane.memory_columns()[:, 0], lane.device_memory_rows()[:, 0]]
        ends = [(int(part.min()), int(part.max())) for part in times if len(part)]
        return min((low for low, _ in ends), default=0), max((high for _, high in ends), default=0)

    def _close(self) -> None:
        """Regions that never ended are lost, which a reader should know; so is what is left out."""
        unended = len(self.asyncs) + sum(len(lane.open) for lane in self.lanes.values())
        if unended:
            self.notes.append(f"{unended} regions had no end and are left out")
        if self._negative:
            self.notes.append(f"{self._negative} regions had a negative length, which is taken as none")
        if self.stream.replaced:
            self.notes.append(f"{self.stream.replaced} bytes in names or stacks were not UTF-8 and were replaced by �")

    def _track(self, lane: _Lane, index: int, origin: int, main: int) -> Track:
        rows, memory = lane.columns(), lane.memory_columns()
        # The order in which they ended; of equal ones the first in the file is the outer one.
        order = np.lexsort((-np.arange(len(rows)), -rows["f0"], rows["f1"]))
        start, end, seq, link, kind, inputs, stack = (rows[name][order] for name in rows.dtype.names or ())
        correlation = self.inputs.correlations(inputs)
        # Kineto writes the correlation id as External id where it knows of no op.
        link[link == correlation] = 0
        time, nbytes, address = memory[np.argsort(memory[:, 0], kind="stable")].T.copy()
        device_memory = lane.device_memory_rows()
        device_memory[:, 0] -= origin
        title = self.names.get(("thread_name", lane.pid, lane.tid), "")
        if named := _THREAD_TITLE(title):
            title = named[1]
        elsewhere = not lane.is_device and lane.pid != main
        return Track(
            index,
            lane.tid if isinstance(lane.tid, int) else index,
            title or str(lane.tid),
            start - origin,
            end - origin,
            kind,
            seq,
            inputs,
            stack,
            time - origin,
            nbytes,
            address,
            (lane.pid if isinstance(lane.pid, int) else -1) if elsewhere else 0,
            self.names.get(("process_name", lane.pid, None), str(lane.pid)) if elsewhere or lane.is_device else "",
            int(self.device_type) if lane.is_device else 0,
            lane.pid if lane.is_device and isinstance(lane.pid, int) else 0,
            link,
            correlation,
            device_memory if len(device_memory) else None,
            self.arrows.of((lane.pid, lane.tid), origin),
        )

    def _name_backward(self) -> None:
        """Kinds of autograd nodes: what the engine says it evaluates. Formulas for FLOPs come from the ops here."""
        for number, kind in enumerate(self.kinds):
            if kind.category == CPU_OP and kind.name in self.backward:
                self.kinds[number] = kind._replace(scope=tap.BACKWARD_FUNCTION)
            elif kind.category == CPU_OP:
                flops = tap.FORMULAS.get(kind.name)
                self.kinds[number] = kind._replace(
                    flops=None if flops is None else careful(flops), all_flops=formula_of(kind.name)
                )

    def _options(self, tracks: list[Track]) -> RecordOptions:
        said = {option: bool(self.fields.get(flag)) for flag, option in TRACE_FLAGS.items()}
        said["shapes"] |= any(record.shapes for record in self.inputs.distinct)
        said["memory"] |= any(len(track.nbytes) for track in tracks)
        said["stacks"] |= any(kind.category == PYTHON_FUNCTION and kind.module_id < 0 for kind in self.kinds)
        return RecordOptions(
            **said,
            all_threads=len(tracks) > 1,
            overload_names=any(kind.overload for kind in self.kinds),
            call_stacks=len(self.stacks) > 1,
        )

    def _stacks_from_functions(self, tracks: list[Track]) -> None:
        """Where a file holds no call stacks, those of events are the Python functions around them."""
        self.stacks.lines_of_definition = True
        is_python = np.array([kind.category == PYTHON_FUNCTION for kind in self.kinds])
        for track in tracks:
            if track.device_type == 0 and is_python[track.kind].any():
                track.stack = self._stacks_of(track, is_python)

    def _stacks_of(self, track: Track, is_python: NDArray[np.bool_]) -> NDArray[np.int32]:
        order, parent, _ = tree.nest(track.start_ns, track.end_ns)
        python = is_python[track.kind[order]]
        outer = tree.splice(parent, ~python)
        # The stack that what is directly in a Python function has.
        inside = np.zeros(len(order) + 1, np.int32)
        kinds = track.kind[order]
        for place in np.flatnonzero(python).tolist():
            entry = self.kinds[kinds[place]].name
            inside[place] = self.stacks.intern((int(inside[outer[place]]), entry))
        stacks = np.zeros(len(order), np.int32)
        stacks[order] = np.where(python, 0, inside[outer])
        return stacks
