"""Execution traces: every op, annotation and autograd node that ran, with the tensors that went in and came out.

It watches regions through the tap and writes nodes as they end. Tensors are told apart by number and never kept.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import os
import re
import tempfile
import threading
import time
import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core import tap
from ...core.device import device
from ...core.dtype import SCALAR_TYPE_NUMBERS, dtype
from ..export.files import Writer, open_binary
from ..record.config import RecordOptions
from ..record.recorder import PYTHON_EVENTS, RECORDER, Session

_SCHEMA = "1.1.1-chakra.0.0.4"
_PREFIX = "[pytorch|profiler|execution_trace|"
_PROCESS_ID = 1
# The trace of the observer that watches; others may be registered beside it and see nothing.
_ACTIVE: list[_Trace] = []


class _ITraceObserver(ABC):
    """What may be passed as `execution_trace_observer`."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def cleanup(self) -> None: ...


@dataclass
class _Values:
    """Values in the four lists an execution trace has for them."""

    values: list[Any] = field(default_factory=list)
    shapes: list[Any] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    strides: list[Any] = field(default_factory=list)


@dataclass
class _Node:
    """A region that runs."""

    id: int
    parent: int
    record_id: int
    event: int
    seq: int
    thread: int
    schema: str = ""
    inputs: _Values = field(default_factory=_Values)
    outputs: _Values = field(default_factory=_Values)


@dataclass
class _Thread:
    """What is known of a thread: its number, the id of its own node, and the regions it is in."""

    number: int
    root: int
    open: list[_Node] = field(default_factory=list)


class _Numbers:
    """Numbers for objects, for as long as they live; one that takes another's place in memory gets its own."""

    def __init__(self, counter: Iterable[int]) -> None:
        self._counter = iter(counter)
        self._known: dict[int, tuple[Any, int]] = {}

    def of(self, thing: Any) -> int:
        known = self._known.get(id(thing))
        if known is None or known[0]() is not thing:
            known = self._known[id(thing)] = _reference(thing), next(self._counter)
        return known[1]


def _reference(thing: Any) -> Any:
    try:
        return weakref.ref(thing)
    except TypeError:
        # It has to be kept then, or another that takes its place would be taken for it.
        return lambda: thing


class _Trace(tap.Watcher):
    """One trace and its file."""

    def __init__(self, path: str) -> None:
        self._pid = os.getpid()
        self._exits = ExitStack()
        # None once it could not be written: the program that is watched is not to know.
        self._file: Writer | None = self._exits.enter_context(open_binary(path))
        self._lock = threading.RLock()
        self._local = threading.local()
        self._ids = itertools.count(_PROCESS_ID + 1)
        self._record_ids = itertools.count(1)
        self._threads = itertools.count(1)
        self._tensors, self._storages = _Numbers(self._ids), _Numbers(self._ids)
        self._first = True
        # For each thread: when regions were entered, their events and their record ids.
        self.entered: dict[int, tuple[list[int], list[int], list[int]]] = {}
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        self._write(
            f'{{\n  "schema": "{_SCHEMA}", "pid": {os.getpid()}, "time": "{now}", "start_ts": {_milliseconds()},\n'
            '  "nodes": ['
        )

    def close(self) -> None:
        self._write_node(_Node(_PROCESS_ID, _PROCESS_ID, 0, -1, -1, 0), f"{_PREFIX}process]", tap.USER_SCOPE)
        self._write(f'\n  ],\n  "finish_ts": {_milliseconds()}\n}}\n')
        try:
            self._exits.close()
        except OSError as error:
            _warn_of(error)

    # What the tap calls

    def enter(self, event: int, seq: int) -> _Node | None:
        # A forked child has this trace too, but the file is not its own.
        if event in PYTHON_EVENTS or os.getpid() != self._pid:
            return None
        with self._lock:
            thread = self._thread()
            record_id = next(self._record_ids)
            parent = thread.open[-1].id if thread.open else thread.root
            node = _Node(next(self._ids), parent, record_id, event, seq, thread.number)
            thread.open.append(node)
            times, events, record_ids = self.entered.setdefault(threading.get_native_id(), ([], [], []))
            events.append(event)
            record_ids.append(record_id)
            times.append(tap.clock())
        return node

    def given(self, values: Iterable[Any], schema: str = "") -> None:
        node = self._innermost()
        if node is not None:
            with self._lock:
                node.schema, node.inputs = _with_alias(schema), self._described(values)

    def made(self, values: Iterable[Any]) -> None:
        node = self._innermost()
        if node is not None:
            with self._lock:
                node.outputs = self._described(values)

    def leave(self, node: _Node) -> None:
        thread = self._thread()
        if node not in thread.open:
            return
        # Regions may end out of order; the others go on.
        thread.open.remove(node)
        kind = tap.EVENTS[node.event]
        self._write_node(node, kind.name, kind.scope)

    def _innermost(self) -> _Node | None:
        """The region the calling thread is in, if it was entered in this trace."""
        thread: _Thread | None = getattr(self._local, "thread", None)
        return thread.open[-1] if thread is not None and thread.open and os.getpid() == self._pid else None

    def _thread(self) -> _Thread:
        """The calling thread; its own node is written when it is first seen."""
        thread: _Thread | None = getattr(self._local, "thread", None)
        if thread is None:
            with self._lock:
                thread = self._local.thread = _Thread(next(self._threads), next(self._ids))
            root = _Node(thread.root, _PROCESS_ID, 0, -1, -1, thread.number)
            self._write_node(root, f"{_PREFIX}thread]", tap.USER_SCOPE)
        return thread

    # Values

    def _described(self, values: Iterable[Any]) -> _Values:
        described = [self._value(value) for value in values]
        return _Values(*(list(column) for column in zip(*described))) if described else _Values()

    def _value(self, value: Any) -> tuple[Any, Any, str, Any]:
        """A value, its shape, its type's name and its strides."""
        if hasattr(value, "untyped_storage"):
            array = value._a  # a parameter without a shape yet has the memory of none
            shape, strides = list(array.shape), [step // array.itemsize for step in array.strides]
            return self._tensor(value), shape, f"Tensor({value.dtype.cpp_name})", strides
        if isinstance(value, (list, tuple)):
            parts = [self._value(item) for item in value]
            types = ",".join(part[2] for part in parts)
            return [p[0] for p in parts], [p[1] for p in parts], f"GenericList[{types}]", [p[3] for p in parts]
        if value is None:
            return "<None>", [], "None", []
        if isinstance(value, bool):
            return value, [], "Bool", []
        if isinstance(value, int):
            return value, [], "Int", []
        if isinstance(value, float):
            return (value if math.isfinite(value) else str(value)), [], "Double", []
        if isinstance(value, str):
            return value, [], "String", []
        if isinstance(value, device):
            return str(value), [], "Device", []
        if isinstance(value, dtype):
            name = str(value).removeprefix("torch.")
            return SCALAR_TYPE_NUMBERS.get(name, name), [], "Int", []
        return str(value), [], type(value).__name__, []

    def _tensor(self, tensor: Any) -> list[Any]:
        """Numbers of the tensor and its storage, its offset, elements and bytes an element, and its device."""
        number = self._tensors.of(tensor)
        storage = self._storages.of(_storage(tensor))
        itemsize = tensor.element_size()
        return [number, storage, tensor.storage_offset(), tensor._a.size, itemsize, str(tensor.device)]

    # The file

    def _write(self, text: str) -> None:
        if self._file is None:
            return
        try:
            self._file.write(text.encode())
        except OSError as error:
            self._file = None
            # What there was at the path stays there.
            self._exits.__exit__(type(error), error, error.__traceback__)
            _warn_of(error)

    def _write_node(self, node: _Node, name: str, scope: int) -> None:
        in_graph = scope == tap.BACKWARD_FUNCTION
        # The engine's regions around nodes carry no number of their own.
        seq = node.seq if node.schema or in_graph else -1
        attributes = (
            ("rf_id", "uint64", node.record_id),
            ("fw_parent", "uint64", node.parent if in_graph else 0),
            ("seq_id", "int64", seq),
            ("scope", "uint64", scope),
            ("tid", "uint64", node.thread),
            ("fw_tid", "uint64", node.thread if in_graph else 0),
            ("op_schema", "string", node.schema),
            ("kernel_backend", "string", ""),
            ("kernel_file", "string", ""),
            ("tensor_range", "string", ""),
        )
        text = json.dumps(
            {
                "id": node.id,
                "name": name,
                "ctrl_deps": node.parent,
                "inputs": vars(node.inputs),
                "outputs": vars(node.outputs),
                "attrs": [{"name": name, "type": kind, "value": value} for name, kind, value in attributes],
            }
        )
        with self._lock:
            self._write(("\n" if self._first else ",\n") + text)
            self._first = False


def _warn_of(error: OSError) -> None:
    warnings.warn(f"the execution trace cannot be written: {error}", stacklevel=2)


def _storage(tensor: Any) -> Any:
    """The array that owns a tensor's memory, which all tensors on it share."""
    owner = tensor._a
    while isinstance(getattr(owner, "base", None), np.ndarray):
        owner = owner.base
    return owner


@functools.cache
def _with_alias(schema: str) -> str:
    """An op's schema with what an op in place writes to marked as torch marks it."""
    name = schema.partition("(")[0].partition(".")[0]
    if not name.endswith("_") or name.endswith("__"):
        return schema
    return re.sub("-> Tensor$", "-> Tensor(a!)", schema.replace("(Tensor self", "(Tensor(a!) self", 1))


def _milliseconds() -> int:
    return time.monotonic_ns() // 1_000_000


class ExecutionTraceObserver(_ITraceObserver):
    """Writes an execution trace: `register_callback` opens its file, what runs between `start` and `stop` is in it.

    One observer watches at a time; one that is registered while another is gets nothing to see.
    """

    def __init__(self) -> None:
        self._registered = False
        self._execution_trace_running = False
        self._trace: _Trace | None = None
        self._session: Session | None = None
        self.extra_resources_collection = False
        self.resources_dir = ""
        self.output_file_path = ""

    def __del__(self) -> None:
        self.unregister_callback()

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """An observer that writes to a temporary file, if ENABLE_PYTORCH_EXECUTION_TRACE is 1."""
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        try:
            with tempfile.NamedTemporaryFile("w+t", suffix=".et.json", delete=False) as file:
                path = file.name
        except OSError as error:
            warnings.warn(
                f"Execution trace will not be recorded. Exception on creating default temporary file: {error}",
                stacklevel=2,
            )
            return None
        observer = ExecutionTraceObserver().register_callback(path)
        observer.set_extra_resource_collection(os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "0") == "1")
        return observer

    def register_callback(self, output_file_path: str | os.PathLike[str]) -> ExecutionTraceObserver:
        """Open the file, compressed if its name ends in `.gz`. One that cannot be opened leaves it unregistered."""
        if self._registered:
            return self
        self.output_file_path = os.fspath(output_file_path)
        if not _ACTIVE:
            try:
                self._trace = _Trace(self.output_file_path)
            except OSError as error:
                _warn_of(error)
                return self
            _ACTIVE.append(self._trace)
        else:
            warnings.warn(
                "an execution trace observer is registered already, and only that one sees what runs: "
                "unregister it first",
                stacklevel=2,
            )
        self._registered = True
        return self

    def unregister_callback(self) -> None:
        """Stop, and complete the file."""
        if not self._registered:
            return
        self.stop()
        self._registered = False
        if self._trace is not None:
            trace, self._trace = self._trace, None
            _ACTIVE.remove(trace)
            trace.close()

    @property
    def is_registered(self) -> bool:
        """Whether it has a place to write to."""
        return self._registered

    def is_running(self) -> bool:
        """Whether it watches now."""
        return self._execution_trace_running

    def start(self) -> None:
        """Watch from now on. Without a file this has no effect."""
        if not self._registered or self._execution_trace_running:
            return
        self._execution_trace_running = True
        if self._trace is not None:
            # Regions are made for a recorder only; this one's rows nobody asks for.
            self._session = RECORDER.start(RecordOptions())
            tap.watch(self._trace)

    def stop(self) -> None:
        """Watch no longer; `start` goes on in the same file."""
        if not self._execution_trace_running:
            return
        self._execution_trace_running = False
        if self._session is not None:
            session, self._session = self._session, None
            tap.watch(None)
            RECORDER.stop(session)

    def cleanup(self) -> None:
        """Complete the file; profilers call it when they are done."""
        self.unregister_callback()

    def get_output_file_path(self) -> str | None:
        """The file it writes to, or None before there is one."""
        return self.output_file_path or None

    @property
    def record_ids(self) -> dict[int, tuple[list[int], list[int], list[int]]]:
        """By native thread id: when regions were entered, their events, and their ids in the trace."""
        return {} if self._trace is None else self._trace.entered

    # Resources that replaying a trace may need; nothing here makes any

    def set_extra_resource_collection(self, val: bool) -> None:
        """Whether there is to be a folder for resources beside the trace."""
        self.extra_resources_collection = val
        if val:
            self.get_resources_dir(can_create=True)

    def get_resources_dir(self, can_create: bool = False) -> str | None:
        """The folder for resources, if one was asked for."""
        if not self.extra_resources_collection:
            return None
        if not self.resources_dir:
            self.resources_dir = self.get_resources_dir_for_et_path(self.output_file_path, can_create) or ""
        return self.resources_dir or None

    @staticmethod
    def get_resources_dir_for_et_path(trace_path: str | os.PathLike[str], create_dir: bool = False) -> str | None:
        """The folder for the resources of a trace: its name without the suffix, and `_resources`."""
        folder = os.path.splitext(os.fspath(trace_path))[0] + "_resources"
        if not os.path.exists(folder):
            if not create_dir:
                return None
            try:
                os.mkdir(folder)
            except OSError as error:
                warnings.warn(f"Execution trace exception when creating {folder}: {error}", stacklevel=2)
                return None
        return folder
