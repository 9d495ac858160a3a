"""The tap: the one place where the running program and a recorder meet.

It owns the namespace all generated code runs in (with the `HOOK` flag each op tests first), the table of event kinds,
and the per-thread lanes that finished regions are written to. It does not know ops, tensors or profilers.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from . import built, lanes
from .fork import free_in_children
from .lanes import MEMORY_WIDTH, ROW_WIDTH

# The compiled helper, which writes rows in C; None where there is none.
HELPER = built.compiled("helper")

if TYPE_CHECKING or HELPER is None:
    Rows = lanes.Rows
else:
    Rows = HELPER.Lane

__all__ = ["MEMORY_WIDTH", "ROW_WIDTH"]

# Scopes of events, numbered as torch.profiler.RecordScope.
FUNCTION, BACKWARD_FUNCTION, USER_SCOPE = 0, 1, 7

# What a recorder wants beside times; a bit set. Generated code is specialised on it.
SHAPES, STACKS, MEMORY, MODULES = 1, 2, 4, 8
# The bits that change what an op does; calls of modules are no business of ops.
OP_FLAGS = SHAPES | STACKS | MEMORY


# Namespace of all generated code. HOOK: something (recorder, function mode, autocast) wants to see ops.
# SEQ: number of the next autograd node.
NAMESPACE: dict[str, Any] = {
    "__name__": "mindtorch_v2._generated",
    "HOOK": False,
    "AUTOCASTING": False,  # autocast is the only one
    "INFERRING": 0,
    # Whether a recorder is all that wants to see ops.
    "RECORDING": False,
    "SEQ": 0,
    "clock": time.perf_counter_ns if HELPER is None else HELPER.clock,
    # Whether the calling thread is the one whose lane is HOME, and what ops need of it; see `_Resident`.
    "AT_HOME": bool,
    "UNSEEN_AT_HOME": bool,
    "HOME": None,
    "HOME_OUT": None,
    "HOME_LEAN": None,
    "HOME_MARKS": None,
    "HOME_GRAD": True,
    # Whether the calling thread builds graphs; grad mode puts its own here.
    "GRAD": lambda: True,
    # Whether autocast changes ops of the calling thread, and a call in which it does not; it puts its own here.
    "CASTING": lambda: False,
    "UNCAST": lambda function, *args: function(*args),
}


class EventKind(NamedTuple):
    """What a row's event id stands for."""

    name: str  # "aten::add", "MulBackward0", "my block"
    overload: str  # "Tensor"
    scope: int
    is_annotation: bool  # record_function and friends, as opposed to ops and autograd nodes
    # Turns interned inputs into what the profiler shows; see InputRecord. None: inputs are InputRecords already.
    describe: Callable[[Any], InputRecord] | None
    # FLOPs from an input record as torch counts them.
    flops: Callable[[InputRecord], int] | None


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


# FLOPs of ops by the name of their events, as torch counts them. The op layer fills it.
FORMULAS: dict[str, Callable[..., int]] = {}
# All floating point operations of ops, likewise.
ALL_FLOPS: dict[str, Callable[[InputRecord], int]] = {}

EVENTS: list[EventKind] = []
_event_ids: dict[tuple[str, int, bool], int] = {}
# Re-entrant: a traced Python function may be given its event while another event is being made.
_lock = free_in_children(threading.RLock())


def register_event(
    name: str,
    overload: str = "",
    scope: int = FUNCTION,
    describe: Callable[[Any], InputRecord] | None = None,
    flops: Callable[[InputRecord], int] | None = None,
) -> int:
    """A new event kind of its own (ops register themselves with this)."""
    with _lock:
        EVENTS.append(EventKind(name, overload, scope, False, describe, flops))
        return len(EVENTS) - 1


def event_id(name: str, scope: int = FUNCTION, annotation: bool = False) -> int:
    """The interned event kind of a plain name (annotations, autograd nodes)."""
    key = (name, scope, annotation)
    found = _event_ids.get(key)
    if found is None:
        with _lock:
            found = _event_ids.get(key)
            if found is None:
                EVENTS.append(EventKind(name, "", scope, annotation, None, None))
                found = _event_ids[key] = len(EVENTS) - 1
    return found


def _number(key: Hashable, ids: dict[Hashable, int], keys: list[Any]) -> int:
    """The number of a key in a table of interned ones; equal keys share one."""
    found = ids.get(key)
    if found is None:
        with _lock:
            found = ids.get(key)
            if found is None:
                keys.append(key)
                found = ids[key] = len(keys) - 1
    return found


# Interned inputs: key -> id (0 is kept for "not recorded"), and back by position.
INPUT_IDS: dict[Hashable, int] = {}
INPUT_KEYS: list[Any] = [None]


def intern_inputs(key: Hashable) -> int:
    """The id of an inputs key."""
    return _number(key, INPUT_IDS, INPUT_KEYS)


# The memory layouts of tensors, as (shape, strides in bytes, NumPy dtype); 0 is kept for "not known".
LAYOUT_IDS: dict[Hashable, int] = {}
LAYOUTS: list[Any] = [None]


def layout_id(array: Any) -> int:
    """The interned id of an array's layout."""
    return _number((array.shape, array.strides, array.dtype), LAYOUT_IDS, LAYOUTS)


class Lane(Rows):
    """Where one thread writes its finished regions."""

    __slots__ = ("open", "ident", "native_id", "name", "index", "active", "here")

    def __init__(self, index: int) -> None:
        super().__init__()
        # Whoever switches grad mode keeps this true; asking a ContextVar for each op takes long.
        self.grad = NAMESPACE["GRAD"]()
        # Regions that are still open, innermost last: [start_ns, event id, seq, inputs id, stack id].
        self.open: list[list[int]] = []
        # Where Python functions are timed without the helper: the profile function that is on now (None inside ops), and
        # the stacks of ops that the running frame has called, by its last instruction.
        self.active: Any = None
        self.here: dict[int, int] = {}
        thread = threading.current_thread()
        self.ident = threading.get_ident()
        self.native_id = threading.get_native_id()
        self.name = thread.name
        self.index = index
        self.listen(True)
        global lanes_exist
        lanes_exist = True

    def listen(self, wanted: bool) -> None:
        super().listen(wanted)
        _publish(self)


def _publish(lane: Lane) -> None:
    """Say what ops of the thread at home need as plain names, which generated code reads faster than attributes."""
    if HELPER is None and NAMESPACE["HOME"] is lane:
        NAMESPACE.update(HOME_OUT=lane.out, HOME_LEAN=lane.lean_out, HOME_MARKS=lane.marks, HOME_GRAD=lane.grad)


_NOBODY_AT_HOME = {"AT_HOME": bool, "UNSEEN_AT_HOME": bool, "HOME": None}

# The calling thread's lane as attribute `lane`, once it has one. A plain `threading.local` reads fastest.
LANES = threading.local()
# Whether any thread ever had a lane.
lanes_exist = False


class _Resident:
    """Says that a thread's lane is HOME, for as long as the thread lives and has one.

    To ask a lock whether the caller owns it takes a third of a look into thread-local storage. Only one thread can have
    this, the first that is recorded; AT_HOME answers True to no other, as nobody else ever has the lock.
    """

    def __init__(self, lane: Lane) -> None:
        lock = threading.RLock()
        lock.acquire()
        self._at_home = lock._is_owned  # type: ignore[attr-defined]
        # A name of its own: when the interpreter ends, those of modules go first.
        self._namespace, self._nobody = NAMESPACE, _NOBODY_AT_HOME
        # Profile functions are told of calls of built-in functions, but not of partial ones.
        NAMESPACE.update(HOME=lane, AT_HOME=self._at_home, UNSEEN_AT_HOME=functools.partial(self._at_home))
        _publish(lane)

    def __del__(self) -> None:
        if self._namespace["AT_HOME"] is self._at_home:
            self._namespace.update(self._nobody)


def settle(lane: Lane | None) -> None:
    """Make a lane the calling thread's own, or take it away."""
    if lane is None:
        LANES.__dict__.clear()
    else:
        if HELPER is not None and not hasattr(LANES, "keeper"):
            LANES.keeper = HELPER.Keeper()  # which lets go of the helper's lane when the thread ends
        LANES.lane = lane
        with _lock:
            if NAMESPACE["AT_HOME"]():
                NAMESPACE["HOME"] = lane
                _publish(lane)
            elif NAMESPACE["HOME"] is None and lane.ident == threading.get_ident():
                LANES.resident = _Resident(lane)
    if HELPER is not None:
        HELPER.adopt(lane)


def after_fork() -> None:
    """In a forked child: the thread at home may be gone."""
    NAMESPACE.update(_NOBODY_AT_HOME)
    lane = getattr(LANES, "lane", None)
    if lane is not None:
        lane.native_id = threading.get_native_id()
        settle(lane)


class Recorder:
    """What the tap needs of a recorder: the flags it asks for and where to find stacks, lanes and allocations."""

    flags: int = 0
    # Whether it goes on in the worker processes of a data loader.
    follows: bool = False
    # `module` and the call itself in one: (module, args, kwargs, what runs hooks or None, whom to tell of it or None).
    call_module: Callable[..., Any] | None = None

    def lane_for_thread(self) -> Lane:
        """A lane for the calling thread, which has none yet; a dropping one if the thread is not recorded."""
        raise NotImplementedError

    def stack(self) -> int:
        """The interned id of the calling thread's Python stack."""
        raise NotImplementedError

    def stack_of_op(self, lane: Any, caller: FrameType, is_traced: bool) -> int:
        """As `stack`, for an op that begins. Where `caller` is traced, `lane.here` may keep it."""
        raise NotImplementedError

    def allocated(self, nbytes: int, address: int) -> None:
        raise NotImplementedError

    def module(self, module: Any) -> region:
        """The region of one call of an nn.Module, for when `flags` has MODULES."""
        raise NotImplementedError


class Watcher:
    """What sees regions themselves, with the values that go into them and come out. Ops then take their slow path."""

    def enter(self, event: int, seq: int) -> Any:
        """A region begins; what is returned stands for it."""
        raise NotImplementedError

    def given(self, values: Iterable[Any], schema: str = "") -> None:
        """What goes into the region that the calling thread entered last."""
        raise NotImplementedError

    def made(self, values: Iterable[Any]) -> None:
        """What comes out of it."""
        raise NotImplementedError

    def leave(self, node: Any) -> None:
        raise NotImplementedError


class _Slot:
    """The state of the tap; listeners are told when the recorder's flags change."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.watcher: Watcher | None = None
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
        NAMESPACE["AUTOCASTING"] = SLOT.reasons == {"autocast"}


def watch(watcher: Watcher | None) -> None:
    """Have regions shown to a watcher (None: to nobody) while a recorder is there."""
    SLOT.watcher = watcher
    set_reason("watcher", watcher is not None)


def prepare(flags: int) -> None:
    """Have everything made that a recorder with these flags will need."""
    global _clock_chosen
    if not _clock_chosen and HELPER is not None and _counter_is_a_clock():
        HELPER.use_counter()
    _clock_chosen = True
    for preparer in SLOT.preparers:
        preparer(flags)


_clock_chosen = False


def _counter_is_a_clock() -> bool:
    """Whether the kernel itself trusts the CPU's time stamp counter."""
    try:
        with open("/sys/devices/system/clocksource/clocksource0/current_clocksource") as file:
            return file.read().strip() == "tsc"
    except OSError:
        return False


def install(recorder: Recorder | None) -> None:
    """Put a recorder into the slot (None takes it out). Generated code follows its flags."""
    flags = recorder.flags if recorder is not None else 0
    changed = flags != SLOT.flags or recorder is not SLOT.recorder
    SLOT.recorder, SLOT.flags = recorder, flags
    lanes.Rows.wide = bool(flags & (SHAPES | STACKS))
    if HELPER is not None:
        HELPER.set_recording(recorder is not None, flags)
    if changed:
        for listener in SLOT.listeners:
            listener(flags)
    set_reason("recorder", recorder is not None)


def set_clock(clock: Callable[[], int]) -> None:
    """Replace the nanosecond clock (tests inject one); `time.perf_counter_ns` is the usual one."""
    if HELPER is not None:
        usual = clock is time.perf_counter_ns or clock is HELPER.clock
        HELPER.set_clock(None if usual else clock)
        clock = HELPER.clock if usual else clock
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
        lane = recorder.lane_for_thread()
        settle(lane)
    return lane


def set_lane_grad(mode: bool) -> None:
    """Tell the calling thread's lane, if it has one, that its grad mode has changed."""
    if lanes_exist:
        lane = getattr(LANES, "lane", None)
        if lane is not None:
            lane.grad = mode
            _publish(lane)


def sequence_number(grad_enabled: bool) -> int:
    """What an op that starts now carries as its sequence number."""
    number: int = NAMESPACE["SEQ"] if grad_enabled else -1
    return number


OUT_OF_MEMORY = "[OutOfMemory]"
# Each is called with the bytes that could not be had.
OUT_OF_MEMORY_LISTENERS: list[Callable[[int], None]] = []


def note_out_of_memory(nbytes: int) -> None:
    """Record the instant at which memory could not be had; its row has the bytes in place of a sequence number."""
    lane = current_lane() if SLOT.flags & MEMORY else None
    if lane is not None:
        now = clock()
        lane.write((now, now, event_id(OUT_OF_MEMORY), nbytes, 0, 0))
    for listener in OUT_OF_MEMORY_LISTENERS:
        listener(nbytes)


class region:
    """A timed region that is not an op: `with region(id): ...`. Costs a slot read when nothing records.

    It stays on its lane's `open` list while it runs, so that a recorder that stops in between can tell it was open.
    """

    __slots__ = ("_event", "_seq", "_inputs", "_lane", "_entry", "_node")

    def __init__(self, event: int, seq: int = -1, inputs: int = 0) -> None:
        self._node: Any = None
        self._event = event
        self._seq = seq
        self._inputs = inputs
        self._lane: Lane | None = None
        self._entry: list[int] = []

    def __enter__(self) -> region:
        recorder = SLOT.recorder
        if recorder is not None:
            if HELPER is None or SLOT.watcher is not None or SLOT.flags & STACKS:
                call_untraced(self._begin, recorder)
            else:
                opened = HELPER.open_region(self._event, self._seq, self._inputs)
                # One by one: to unpack it asks for memory, and without it the region would never end.
                self._lane = opened[0]
                self._entry = opened[1]
        return self

    def _begin(self, recorder: Recorder) -> None:
        if SLOT.watcher is not None:
            self._node = SLOT.watcher.enter(self._event, self._seq)
        lane = self._lane = current_lane()
        if lane is not None:
            stack = recorder.stack() if SLOT.flags & STACKS else 0
            self._entry = [clock(), self._event, self._seq, self._inputs, stack]
            lane.open.append(self._entry)

    def __exit__(self, *exc: object) -> None:
        if self._lane is None and self._node is None:
            return
        if HELPER is None or self._node is not None or SLOT.flags & STACKS:
            call_untraced(self._end)
        else:
            lane, self._lane = self._lane, None
            HELPER.close_region(lane, self._entry)

    def _end(self) -> None:
        if self._node is not None:
            node, self._node = self._node, None
            if SLOT.watcher is not None:
                SLOT.watcher.leave(node)
        lane = self._lane
        if lane is None:
            return
        self._lane = None
        entry = self._entry
        running = lane.open
        if running and running[-1] is entry:
            running.pop()
        else:
            running[:] = [other for other in running if other is not entry]
        if SLOT.recorder is not None:
            lane.write((entry[0], clock(), entry[1], entry[2], entry[3], entry[4]))


def _call_traced(function: Callable[..., Any], *args: Any) -> Any:
    lane: Any = getattr(LANES, "lane", None)
    hidden_depth = getattr(lane, "hidden_depth", 0)
    if not hidden_depth:
        return function(*args)
    # In an op the profile function is off. Its own switches are not seen: what is hidden or not active comes first.
    tracer = lane.tracer if lane.active is None else None
    if tracer is not None:
        NAMESPACE["TRACE_AGAIN"](tracer)
        lane.active = tracer
    lane.hidden_depth = 0
    try:
        return function(*args)
    finally:
        lane.hidden_depth = hidden_depth
        if tracer is not None:
            lane.active = None
            NAMESPACE["TRACE_NOTHING"]()


def _call_untraced(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


def _nothing() -> None:
    """Without the helper the tracer itself tells whose code it sees."""


# Between `suspend_tracing` and `resume_tracing` the calling thread is not traced, but for calls made through `call_traced`.
suspend_tracing: Callable[[], None] = _nothing
resume_tracing: Callable[[], None] = _nothing
call_traced: Callable[..., Any] = _call_traced
# A call of what is no code of the user's, such as the engine: while Python functions are timed, not traced.
call_untraced: Callable[..., Any] = _call_untraced
if HELPER is not None:
    suspend_tracing, resume_tracing, call_traced, call_untraced = (
        HELPER.suspend_tracing,
        HELPER.resume_tracing,
        HELPER.call_traced,
        HELPER.call_untraced,
    )
