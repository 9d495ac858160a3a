"""The tap: the one place where the running program and a recorder meet.

It owns the namespace all generated code runs in (with the `HOOK` flag each op tests first), the table of event kinds,
and the per-thread lanes that finished regions are written to. It does not know ops, tensors or profilers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

# Scopes of events, numbered as torch.profiler.RecordScope.
FUNCTION, BACKWARD_FUNCTION, USER_SCOPE = 0, 1, 7

# What a recorder wants beside times; a bit set. Generated code is specialised on it.
SHAPES, STACKS, MEMORY, MODULES = 1, 2, 4, 8
# The bits that change what an op does; calls of modules are no business of ops.
OP_FLAGS = SHAPES | STACKS | MEMORY

# One finished region is a row of plain ints in its lane, appended when it ends:
# start_ns, end_ns, event id, sequence number (-1: none), inputs id (0: not recorded), stack id (0: not recorded).
ROW_WIDTH = 6
# A row that ends before inputs and stack.
LEAN_WIDTH = 4
# One allocation or free: time_ns, bytes (negative: free), a number that stands for the block while it lives.
MEMORY_WIDTH = 3

# Namespace of all generated code. HOOK: something (recorder, function mode, autocast) wants to see ops.
# SEQ: number of the next autograd node.
NAMESPACE: dict[str, Any] = {
    "__name__": "mindtorch_v2._generated",
    "HOOK": False,
    # Whether a recorder is all that wants to see ops.
    "RECORDING": False,
    "SEQ": 0,
    "clock": time.perf_counter_ns,
    # Whether the calling thread builds graphs; grad mode puts its own here.
    "GRAD": lambda: True,
}


class EventKind(NamedTuple):
    """What a row's event id stands for."""

    name: str  # "aten::add", "MulBackward0", "my block"
    overload: str  # "Tensor"
    scope: int
    is_annotation: bool  # record_function and friends, as opposed to ops and autograd nodes
    # Turns interned inputs into what the profiler shows; see InputRecord. None: inputs are InputRecords already.
    describe: Callable[[Any], InputRecord] | None
    # FLOPs from an input record as torch counts them, and the fuller count of ours.
    flops: Callable[[InputRecord], int] | None
    all_flops: Callable[[InputRecord], int] | None


class InputRecord(NamedTuple):
    """Inputs of one call, one entry per schema argument.

    shapes, strides: list of ints for a tensor, list of such lists for a tensor list, [] for everything else;
    dtypes: C++ type names as torch writes them ("float", "long int", "Scalar", "TensorList", "");
    concrete: Python values of scalars, bools, strings and number lists, None for the rest.
    """

    shapes: list[Any]
    strides: list[Any]
    dtypes: list[str]
    concrete: list[Any]


def describe_plain(key: Any) -> InputRecord:
    """Describes inputs that belong to no schema, such as those of autograd nodes. The op layer puts its own here."""
    raise TypeError(f"expected an InputRecord, got {key!r}")


EVENTS: list[EventKind] = []
_event_ids: dict[tuple[str, int, bool], int] = {}
# Re-entrant: a traced Python function may be given its event while another event is being made.
_lock = threading.RLock()


def register_event(
    name: str,
    overload: str = "",
    scope: int = FUNCTION,
    describe: Callable[[Any], InputRecord] | None = None,
    flops: Callable[[InputRecord], int] | None = None,
    all_flops: Callable[[InputRecord], int] | None = None,
) -> int:
    """A new event kind of its own (ops register themselves with this)."""
    with _lock:
        EVENTS.append(EventKind(name, overload, scope, False, describe, flops, all_flops))
        return len(EVENTS) - 1


def event_id(name: str, scope: int = FUNCTION, annotation: bool = False) -> int:
    """The interned event kind of a plain name (annotations, autograd nodes)."""
    key = (name, scope, annotation)
    found = _event_ids.get(key)
    if found is None:
        with _lock:
            found = _event_ids.get(key)
            if found is None:
                EVENTS.append(EventKind(name, "", scope, annotation, None, None, None))
                found = _event_ids[key] = len(EVENTS) - 1
    return found


# Interned inputs: key -> id (0 is kept for "not recorded"), and back by position.
INPUT_IDS: dict[Hashable, int] = {}
INPUT_KEYS: list[Any] = [None]


def intern_inputs(key: Hashable) -> int:
    """The id of an inputs key; equal keys share one."""
    found = INPUT_IDS.get(key)
    if found is None:
        with _lock:
            found = INPUT_IDS.get(key)
            if found is None:
                INPUT_KEYS.append(key)
                found = INPUT_IDS[key] = len(INPUT_KEYS) - 1
    return found


# The memory layouts of tensors, as (shape, strides in bytes, NumPy dtype); 0 is kept for "not known".
LAYOUT_IDS: dict[Hashable, int] = {}
LAYOUTS: list[Any] = [None]


def layout_id(array: Any) -> int:
    """The interned id of an array's layout."""
    key = (array.shape, array.strides, array.dtype)
    found = LAYOUT_IDS.get(key)
    if found is None:
        with _lock:
            found = LAYOUT_IDS.get(key)
            if found is None:
                LAYOUTS.append(key)
                found = LAYOUT_IDS[key] = len(LAYOUTS) - 1
    return found


class _Nowhere:
    """Takes the rows of a thread nobody listens to."""

    __slots__ = ()

    def __iadd__(self, row: Iterable[int]) -> _Nowhere:
        return self


NOWHERE = _Nowhere()


class Lane:
    """Where one thread writes its finished regions. `out` is what rows are added to, `lean_out` what rows without
    inputs and stack are added to (the first four ints alone), `marks` what allocations and frees are added to: the
    lists themselves, or `NOWHERE` while nobody listens to the thread."""

    __slots__ = (
        "rows", "out", "lean", "lean_out", "memory", "marks", "grad", "open", "ident", "native_id", "name", "index",
    )  # fmt: skip

    def __init__(self, index: int) -> None:
        self.rows: list[int] = []
        self.out: Any = self.rows
        self.lean: list[int] = []
        self.lean_out: Any = self.lean
        self.memory: list[int] = []
        self.marks: Any = self.memory
        # Whether the thread builds graphs. Whoever switches grad mode keeps this true; asking a ContextVar takes long.
        self.grad: bool = NAMESPACE["GRAD"]()
        # Regions that are still open, innermost last: [start_ns, event id, seq, inputs id, stack id].
        self.open: list[list[int]] = []
        thread = threading.current_thread()
        self.ident = threading.get_ident()
        global lanes_exist
        lanes_exist = True
        self.native_id = threading.get_native_id()
        self.name = thread.name
        self.index = index

    def listen(self, wanted: bool) -> None:
        """Keep (or drop) what the thread writes from now on. A dropping lane costs its thread no test."""
        self.out = self.rows if wanted else NOWHERE
        self.lean_out = self.lean if wanted else NOWHERE
        self.marks = self.memory if wanted else NOWHERE

    def write(self, row: tuple[int, ...]) -> None:
        """Add the row of a region that has ended, to the list that ops use at the time."""
        if SLOT.flags & (SHAPES | STACKS) or row[4] or row[5]:
            out = self.out
            out += row
        else:
            out = self.lean_out
            out += row[:LEAN_WIDTH]

    def note(self, mark: Iterable[int]) -> None:
        """Add an allocation or a free."""
        marks = self.marks
        marks += mark

    def take(self) -> tuple[list[int] | bytes, list[int] | bytes]:
        """What the thread has written, rows and memory, which leaves the lane; bytes are native 64-bit ints.

        One other thread at a time may call it while this one goes on writing.
        """
        rows, lean = _cut(self.rows), _cut(self.lean)
        if lean:
            rows = _merged(rows, _widened(lean)) if rows else _widened(lean)
        return rows, _cut(self.memory)


def _cut(flat: list[int]) -> list[int]:
    """Move out what a list holds now. Each step is atomic and rows come at the end only, so none is lost."""
    part = flat[:]
    del flat[: len(part)]
    return part


def _widened(lean: list[int]) -> list[int]:
    """Lean rows as full ones."""
    wide = [0] * (len(lean) // LEAN_WIDTH * ROW_WIDTH)
    for column in range(LEAN_WIDTH):
        wide[column::ROW_WIDTH] = lean[column::LEAN_WIDTH]
    return wide


def _merged(one: list[int], other: list[int]) -> list[int]:
    """The rows of both in the order in which they ended; needed only where the recorder's flags have changed."""
    rows = [flat[at : at + ROW_WIDTH] for flat in (one, other) for at in range(0, len(flat), ROW_WIDTH)]
    # Of regions that end together the one that began later is the inner one.
    rows.sort(key=lambda row: (row[1], -row[0]))
    return [value for row in rows for value in row]


# The calling thread's lane as attribute `lane`, once it has one. A plain `threading.local` reads fastest.
LANES = threading.local()
# Whether any thread ever had a lane.
lanes_exist = False


class Recorder:
    """What the tap needs of a recorder: the flags it asks for and where to find stacks, lanes and frees."""

    flags: int = 0

    def lane_for_thread(self) -> Lane:
        """A lane for the calling thread, which has none yet; a dropping one if the thread is not recorded."""
        raise NotImplementedError

    def stack(self) -> int:
        """The interned id of the calling thread's Python stack."""
        raise NotImplementedError

    def enter_op(self) -> int:
        """As `stack`, for an op that begins; nothing in it is traced until `leave_op`."""
        raise NotImplementedError

    def leave_op(self) -> None:
        raise NotImplementedError

    def allocated(self, nbytes: int, address: int) -> None:
        raise NotImplementedError

    def freed(self, nbytes: int, address: int) -> None:
        raise NotImplementedError

    def module(self, module: Any) -> region:
        """The region of one call of an nn.Module, for when `flags` has MODULES."""
        raise NotImplementedError


class _Slot:
    """The state of the tap; listeners are told when the recorder's flags change."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.flags = 0
        self.reasons: set[str] = set()
        self.listeners: list[Callable[[int], None]] = []
        # Called before a recorder with such flags is installed, outside of anybody's measurement.
        self.preparers: list[Callable[[int], None]] = []


SLOT = _Slot()


def set_reason(reason: str, active: bool) -> None:
    """Say that `reason` ("recorder", "modes", "autocast", …) does or does not want to see every op."""
    with _lock:
        (SLOT.reasons.add if active else SLOT.reasons.discard)(reason)
        NAMESPACE["RECORDING"] = SLOT.reasons == {"recorder"}
        NAMESPACE["HOOK"] = bool(SLOT.reasons)


def prepare(flags: int) -> None:
    """Have everything made that a recorder with these flags will need."""
    for preparer in SLOT.preparers:
        preparer(flags)


def install(recorder: Recorder | None) -> None:
    """Put a recorder into the slot (None takes it out). Generated code follows its flags."""
    flags = recorder.flags if recorder is not None else 0
    changed = flags != SLOT.flags or recorder is not SLOT.recorder
    SLOT.recorder, SLOT.flags = recorder, flags
    if changed:
        for listener in SLOT.listeners:
            listener(flags)
    set_reason("recorder", recorder is not None)


def set_clock(clock: Callable[[], int]) -> None:
    """Replace the nanosecond clock (tests inject one)."""
    NAMESPACE["clock"] = clock


def clock() -> int:
    """Now, in nanoseconds of the tap's clock."""
    now: int = NAMESPACE["clock"]()
    return now


def current_lane() -> Lane | None:
    """The lane the calling thread writes to now, or None when nothing records."""
    recorder = SLOT.recorder
    if recorder is None:
        return None
    lane: Lane | None = getattr(LANES, "lane", None)
    if lane is None:
        lane = LANES.lane = recorder.lane_for_thread()
    return lane


def set_lane_grad(mode: bool) -> None:
    """Tell the calling thread's lane, if it has one, that its grad mode has changed."""
    if lanes_exist:
        lane = getattr(LANES, "lane", None)
        if lane is not None:
            lane.grad = mode


def sequence_number(grad_enabled: bool) -> int:
    """What an op that starts now carries as its sequence number."""
    number: int = NAMESPACE["SEQ"] if grad_enabled else -1
    return number


class region:
    """A timed region that is not an op: `with region(id): ...`. Costs a slot read when nothing records.

    It stays on its lane's `open` list while it runs, so that a recorder that stops in between can tell it was open.
    """

    __slots__ = ("_event", "_seq", "_inputs", "_lane", "_entry")

    def __init__(self, event: int, seq: int = -1, inputs: int = 0) -> None:
        self._event = event
        self._seq = seq
        self._inputs = inputs
        self._lane: Lane | None = None
        self._entry: list[int] = []

    def __enter__(self) -> region:
        lane = self._lane = current_lane() if SLOT.recorder is not None else None
        if lane is not None:
            recorder = SLOT.recorder
            stack = recorder.stack() if recorder is not None and SLOT.flags & STACKS else 0
            self._entry = [clock(), self._event, self._seq, self._inputs, stack]
            lane.open.append(self._entry)
        return self

    def __exit__(self, *exc: object) -> None:
        lane = self._lane
        if lane is None:
            return
        self._lane = None
        entry = self._entry
        for position in range(len(lane.open) - 1, -1, -1):
            if lane.open[position] is entry:
                del lane.open[position]
                break
        if SLOT.recorder is not None:
            lane.write((entry[0], clock(), entry[1], entry[2], entry[3], entry[4]))
