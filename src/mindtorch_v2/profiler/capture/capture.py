"""A capture: everything one recording brought home.

It owns the link between rows and what their numbers mean (event kinds, inputs, stacks). It does not know how rows are
recorded or where they come from, and it does not analyse.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core import tap
from ...core.fork import free_in_children
from ..record.config import RecordOptions
from ..record.frames import StackReader
from ..record.recorder import COLLECTION_NAME, PYTHON_EVENTS
from .flops import formula_of

CPU_OP, USER_ANNOTATION, PYTHON_FUNCTION = "cpu_op", "user_annotation", "python_function"
GPU_USER_ANNOTATION = "gpu_user_annotation"
MEMORY_MARK = "cpu_instant_event"
STEP_PREFIX = "ProfilerStep#"
MEMORY_EVENT_NAME = "[memory]"
# What traces call the list of blocks of memory that were seen in a role.
MEMORY_ROLES = "memory_roles"
# And its columns.
SEEN = ("ns", "role", "address", "bytes", "version")
MEMORY_KIND = tap.event_id(MEMORY_EVENT_NAME)


# Bookkeeping of torch's that its event lists leave out.
_LEFT_OUT = frozenset(
    (MEMORY_EVENT_NAME, tap.OUT_OF_MEMORY, "profiler::_record_function_enter", "profiler::_record_function_enter_new",
     "profiler::_record_function_exit", "aten::is_leaf", "aten::output_nr", "aten::_version")
)  # fmt: skip
# Frames of the machinery: a part of the file's path, and the function.
_MACHINERY = (
    ("autograd/__init__", "_make_grads"), ("autograd/__init__", "backward"), ("torch/tensor", "backward"),
    ("_internal/common_utils", "prof_callable"), ("_internal/common_utils", "prof_func_call"),
    ("_internal/common_utils", "prof_meth_call"),
)  # fmt: skip


def filter_name(name: str) -> bool:
    """Whether torch leaves events of that name out of its lists."""
    return name in _LEFT_OUT


def filter_stack_entry(entry: str) -> bool:
    """Whether a stack entry is kept: it belongs to no machinery of torch's."""
    return not any(file in entry and function in entry for file, function in _MACHINERY)


def rewrite_name(name: str, with_wildcard: bool = False) -> str:
    """The name in event lists, where numbered steps share one if asked to."""
    return "ProfilerStep*" if with_wildcard and name.startswith(STEP_PREFIX) else name


class Kind(NamedTuple):
    """What events with the same number have in common."""

    name: str
    overload: str
    scope: int
    category: str
    describe: Callable[[Any], tap.InputRecord] | None
    # FLOPs from an input record: as torch counts them, and of all that has a standard formula.
    flops: Callable[[tap.InputRecord], int] | None
    all_flops: Callable[[tap.InputRecord], int] | None
    module_id: int
    path: str

    @property
    def label(self) -> str:
        """The name in event lists, where numbered steps share one."""
        return rewrite_name(self.name, with_wildcard=True)

    @property
    def is_function(self) -> bool:
        """Whether it is a Python function; pauses of the garbage collector are of that category without being one."""
        return self.category == PYTHON_FUNCTION and self.name != COLLECTION_NAME


def _describe(key: Any) -> Any:
    """Inputs of a kind without a schema: records as they are, keys as the op layer reads them."""
    return key if hasattr(key, "shapes") else tap.describe_plain(key)


def _kind(event: int) -> Kind:
    row = tap.EVENTS[event]
    python = PYTHON_EVENTS.get(event)
    if python is not None:
        return Kind(row.name, "", row.scope, PYTHON_FUNCTION, None, None, None, python.module_id, python.path)
    is_mark = event == MEMORY_KIND or row.name == tap.OUT_OF_MEMORY
    category = MEMORY_MARK if is_mark else USER_ANNOTATION if row.is_annotation else CPU_OP
    describe = row.describe or _describe
    all_flops = formula_of(row.name) if category == CPU_OP else None
    return Kind(row.name, row.overload, row.scope, category, describe, row.flops, all_flops, -1, "")


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
        return len(tap.EVENTS)


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
    # What ties work on a device to its process (see `device_links`), 0 for none: the External id is that of an op, work
    # has the correlation id of the call that launched it.
    link: NDArray[np.int64] | None = None
    correlation: NDArray[np.int64] | None = None
    # Allocations and frees on devices that the thread asked for, a row each: time, bytes, address, place of the device,
    # and what the device's allocator then had given out and reserved.
    device_memory: NDArray[np.int64] | None = None
    # Ends of arrows to and from other threads, a row each: time, number of the arrow, sort and kind (see `arrows`).
    arrows: NDArray[np.int64] | None = None

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
    memory_kind: int = MEMORY_KIND
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
    # Blocks of memory seen in a role, a row each: time, place of the role among `roles.NAMES`, address, bytes, version.
    memory_roles: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, len(SEEN)), np.int64))

    @property
    def is_empty(self) -> bool:
        return not any(len(track) for track in self.tracks)


_next_id = [1]
_id_lock = free_in_children(threading.Lock())


def take_ids(count: int) -> int:
    """The first of `count` event ids nobody else has; every capture starts a new block of 512."""
    with _id_lock:
        first = _next_id[0]
        _next_id[0] = first + (count // 512 + 1) * 512
    return first
