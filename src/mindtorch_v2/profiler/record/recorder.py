"""The recorder that sits in the tap: sessions are windows on the lanes all threads write to.

It owns lanes, sessions, raw stacks and module names, and the thread that moves full lanes into chunks while recording
goes on. What it hands out at the end of a session is raw: chunks of ints. It does not resolve, nest or sum anything.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
import weakref
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NamedTuple, Protocol

from ...core import tap
from .chunks import SLICE, Chunk, Stream
from .config import RecordOptions
from .ticker import Ticker

_LANES, _NAMESPACE, _HELPER = tap.LANES, tap.NAMESPACE, tap.HELPER
_getframe = sys._getframe

# Lanes are looked after four times a second, and more often when one of them gets more rows than this in between.
_ROUND_S = 0.25
_FIRST_ROUND_S = 0.05
_ROUND_ROWS = 25_000
_SHORTEST_ROUND_S = 0.02


class PythonEvent(NamedTuple):
    """What makes an event kind a Python function: its sort (RecordOptions.python_events), and for calls of modules the
    number and path of the module."""

    sort: str = "function"
    module_id: int = -1
    path: str = ""


# Event kinds that are Python functions, by event id; and the way back from what they stand for.
PYTHON_EVENTS: dict[int, PythonEvent] = {}
_python_ids: dict[tuple[str, PythonEvent], int] = {}


_PLAIN = PythonEvent()
# What pauses of the garbage collector are called.
COLLECTION_NAME = "Python GC"


def python_event(name: str, detail: PythonEvent = _PLAIN) -> int:
    """The interned event kind of a Python function."""
    found = _python_ids.get((name, detail))
    if found is None:
        found = tap.register_event(name)
        PYTHON_EVENTS[found] = detail
        _python_ids[name, detail] = found
    return found


class ModuleFrame(NamedTuple):
    """One nn.Module call in progress: the calls around it, its name, and how many Python frames were below it."""

    outer: int
    name: str
    depth: int


# By the last instruction of a frame: its code, and the same for the frame around it. Where several codes have been at one
# instruction, all but the first are found by their identity, too. Where a stack ends, its id stands at _END.
_Steps = dict[Any, Any]
_END = "end"


class StackTable:
    """Interned Python stacks: the chain of module calls, then code and last instruction of each frame, innermost first.

    A stack is looked up frame by frame: each instruction leads to a code and to what can come around it. Codes are told
    apart by identity: hashing one takes long, and functions of two files may be equal.
    """

    def __init__(self) -> None:
        # By chain; see `_Steps`.
        self._first: dict[int, _Steps] = {}
        self.keys: list[tuple[Any, ...]] = [()]
        self.chain_ids: dict[tuple[int, str, int], int] = {}
        self.chains: list[ModuleFrame] = [ModuleFrame(0, "", 0)]

    def intern(self, chain: int, frame: FrameType) -> int:
        """The id of the stack that ends with `frame`."""
        outer: FrameType | None = frame
        try:
            steps = self._first[chain]
            while outer is not None:
                code, following = steps[outer.f_lasti]
                if code is not outer.f_code:
                    following = steps[outer.f_lasti, id(outer.f_code)][1]
                steps = following
                outer = outer.f_back
            found: int = steps[_END]
            return found
        except KeyError:
            return self._add(chain, frame)

    def _add(self, chain: int, frame: FrameType) -> int:
        # Two threads may add the same stack; both ids then stand for it.
        key: list[Any] = [chain]
        steps = self._first.setdefault(chain, {})
        outer: FrameType | None = frame
        while outer is not None:
            code, place = outer.f_code, outer.f_lasti
            key += (code, place)
            known = steps.setdefault(place, (code, {}))
            if known[0] is not code:
                known = steps.setdefault((place, id(code)), (code, {}))
            steps = known[1]
            outer = outer.f_back
        entry = tuple(key)
        self.keys.append(entry)
        found = len(self.keys) - 1
        while self.keys[found] is not entry:  # another thread has added one meanwhile
            found -= 1
        steps[_END] = found
        return found

    def add_chain(self, outer: int, name: str, depth: int) -> int:
        """The id of a new chain of module calls."""
        self.chains.append(ModuleFrame(outer, name, depth))
        found = self.chain_ids[outer, name, depth] = len(self.chains) - 1
        return found


def _fresh_stacks() -> StackTable:
    """A table without stacks, which the compiled helper fills where there is one."""
    stacks = StackTable()
    if tap.HELPER is not None:
        tap.HELPER.connect_stacks(stacks.keys)
    return stacks


_LANE_SLOTS = ("__weakref__", "chain", "frames", "is_recording", "hidden_depth", "noted", "root", "tracer", "written")


class ThreadLane(tap.Lane):
    """A lane with what the profiler tracks beside rows: module calls and traced Python frames in progress."""

    # The compiled helper's lanes have some of these already.
    __slots__ = tuple(name for name in _LANE_SLOTS if not hasattr(tap.Lane, name))

    def __init__(self, index: int) -> None:
        super().__init__(index)
        # The chain of module calls in progress, and the outermost of these modules.
        self.chain = 0
        self.root: Any = None
        # Python frames in progress, outermost first: start_ns and event id of each (id 0: not shown).
        self.frames: list[int] = []
        # The profile function that traces this thread, and how many frames run inside a hidden one.
        self.tracer: Any = None
        self.hidden_depth = 0
        self.listen(False)
        self.forget()

    def listen(self, wanted: bool) -> None:
        super().listen(wanted)
        self.is_recording = wanted

    def put_away(self) -> None:
        """Move what the thread has written so far out of its way."""
        rows, memory = self.take()
        self.written.add(rows)
        self.noted.add(memory)

    def seal(self, least: int = 1) -> list[Chunk]:
        """Make chunks of what has none yet, where there are so many rows; the new ones."""
        full = [stream for stream in (self.written, self.noted) if stream.loose >= least]
        for stream in full:
            stream.seal()
        return [stream.chunks[-1] for stream in full]

    @property
    def place(self) -> tuple[int, int]:
        """How many rows and memory events have been put away since the lane began to listen."""
        return self.written.count, self.noted.count

    def forget(self) -> None:
        self.take()
        # Regions and memory events that have left the lane.
        self.written, self.noted = Stream(tap.ROW_WIDTH), Stream(tap.MEMORY_WIDTH)


@dataclass
class LaneRecord:
    """What one thread wrote during a session: what `rows` and `memory` hold from place `first` on."""

    index: int
    native_id: int
    name: str
    first: tuple[int, int]
    rows: list[Chunk]
    memory: list[Chunk]
    # Rows of what is still running.
    open: list[int]


class Sink(Protocol):
    """Takes the rows of a session out of memory while it goes on."""

    def flush(self) -> None: ...


class Roles(Protocol):
    """Takes note of which blocks of memory are what to the program."""

    def put_away(self) -> None: ...

    def seal(self, least: int = 1) -> list[Chunk]: ...

    def take(self) -> list[Chunk]: ...

    def stop(self) -> None: ...


@dataclass(eq=False)
class Session:
    """One window on the lanes."""

    options: RecordOptions
    # The lane of the thread that opened it; threads' numbers are given again after their end, lanes are not.
    lane: ThreadLane
    start_ns: int = 0
    stop_ns: int = 0
    # Unix time that belongs to `start_ns`.
    epoch_ns: int = 0
    # Times between which the caller switched collection off; the last end is 0 while it is off.
    pauses: list[list[int]] = field(default_factory=list)
    # Whether other sessions had Python functions recorded that this one did not ask for.
    crowded: bool = False
    # The place from which on each lane's rows are this session's and not handed out yet; (0, 0) for later lanes.
    marks: dict[ThreadLane, tuple[int, int]] = field(default_factory=dict)
    sink: Sink | None = None
    roles: Roles | None = None
    # When rows were last handed out, while it goes on.
    collected_ns: int = 0
    # How many events there was no memory for; while it goes on, less those that lanes had lost before.
    lost: int = 0

    def wants(self, lane: ThreadLane) -> bool:
        return self.options.all_threads or lane is self.lane

    def place(self, lane: ThreadLane) -> tuple[int, int]:
        return self.marks.get(lane, (0, 0))

    @property
    def paused(self) -> bool:
        return bool(self.pauses) and self.pauses[-1][1] == 0


class Recorder(tap.Recorder):
    """The one recorder of the process. It is in the tap's slot while at least one session runs."""

    def __init__(self) -> None:
        self.flags = 0
        self.sessions: list[Session] = []
        self.stacks = _fresh_stacks()
        self._lock = threading.RLock()
        self._lanes: weakref.WeakSet[ThreadLane] = weakref.WeakSet()
        # Keeps the lanes of finished threads alive until their rows are taken.
        self._held: set[ThreadLane] = set()
        self._numbers = itertools.count(2)
        self._modules: dict[int, ModuleEvent] = {}
        self._module_counts: dict[str, int] = {}
        self._ticker = Ticker(self._drain, _FIRST_ROUND_S)
        if tap.HELPER is not None:
            tap.HELPER.connect_modules(self._modules, self._meet_module, lambda *call: self.stacks.add_chain(*call))
            self.call_module = tap.HELPER.call_module
        self._round_s = _FIRST_ROUND_S

    # Sessions

    def start(self, options: RecordOptions) -> Session:
        """Open a window: from now on the rows of the lanes it wants belong to it."""
        with self._lock:
            lane = self.own_lane()
            session = Session(options, lane)
            self.sessions.append(session)
            self._tune()
            for held in self._held:
                held.put_away()
                held.seal()
            session.marks = {held: held.place for held in self._held}
            session.lost = -self._lost(session)
            self._ticker.wake(lane)
            session.epoch_ns = time.time_ns()
            session.start_ns = tap.clock()
        return session

    def stop(self, session: Session) -> list[LaneRecord]:
        """Close a window and hand over what was written during it and not handed out yet."""
        with self._lock:
            session.stop_ns = tap.clock()
            if session not in self.sessions:
                return []
            records = self._take(session, session.stop_ns)
            session.lost += self._lost(session)
            self.sessions.remove(session)
            self._trim()
            self._tune()
        return records

    def collect(self, session: Session) -> list[LaneRecord]:
        """Hand over what was written up to now, which does not stay here unless other sessions need it."""
        with self._lock:
            if session not in self.sessions:
                return []
            session.collected_ns = tap.clock()
            records = self._take(session, session.collected_ns)
            self._trim()
        return records

    def _take(self, session: Session, now: int) -> list[LaneRecord]:
        records = []
        for lane in sorted((lane for lane in self._held if session.wants(lane)), key=lambda lane: lane.index):
            # What is open is looked up first: a region that ends in between is then there twice, not lost.
            still_open = _still_open(lane, now)
            lane.put_away()
            if session.sink is not None:
                lane.seal()
            rows, memory = first = session.place(lane)
            parts = lane.written.since(rows), lane.noted.since(memory)
            records.append(LaneRecord(lane.index, lane.native_id, lane.name, first, *parts, still_open))
            session.marks[lane] = lane.place
        return records

    def _lost(self, session: Session) -> int:
        return sum(lane.lost for lane in self._held if session.wants(lane))

    def _trim(self) -> None:
        """Let go of what no session needs any more."""
        for lane in self._held:
            places = [session.place(lane) for session in self.sessions if session.wants(lane)]
            lane.written.drop(min((place[0] for place in places), default=lane.written.count))
            lane.noted.drop(min((place[1] for place in places), default=lane.noted.count))

    def _drain(self) -> float:
        """One round of the background thread: seconds until the next, 0 if nothing records any more."""
        with self._lock:
            if not self.sessions:
                self._ticker.rest()
                self._round_s = _FIRST_ROUND_S
                return 0
            lanes = list(self._held)
            for lane in lanes:
                lane.put_away()
            fullest = max((lane.written.loose for lane in lanes), default=0)
            logs = [session.roles for session in self.sessions if session.roles is not None]
            for log in logs:
                log.put_away()
            chunks = [chunk for lane in lanes for chunk in lane.seal(SLICE)]
            chunks += [chunk for log in logs for chunk in log.seal(SLICE)]
            sinks = [session.sink for session in self.sessions if session.sink is not None]
        for chunk in chunks:
            # With much to do it is more important to keep up than to let others run.
            chunk.pack(gently=fullest < _ROUND_ROWS)
        for sink in sinks:
            sink.flush()
        fitting = self._round_s * _ROUND_ROWS / max(fullest, 1)
        self._round_s = min(max(fitting, _SHORTEST_ROUND_S), _ROUND_S)
        return self._round_s

    def pause(self, session: Session, paused: bool) -> None:
        """Switch collection for a session off or on again."""
        with self._lock:
            if paused and not session.paused:
                session.pauses.append([tap.clock(), 0])
            elif not paused and session.paused:
                session.pauses[-1][1] = tap.clock()
            self._tune()

    def _tune(self) -> None:
        """Make flags, lanes and the tap follow the sessions there are."""
        flags = 0
        python: set[str] = set()
        for session in self.sessions:
            flags |= session.options.flags
            python |= session.options.python_events
        for session in self.sessions:
            session.crowded |= python != session.options.python_events
        self.flags = flags
        for lane in list(self._lanes):
            self._tune_lane(lane)
        tap.install(self if self.sessions else None)
        if self.sessions and all(session.paused for session in self.sessions):
            # Ops take their plain path again; regions in progress still find the recorder when they end.
            tap.set_reason("recorder", False)
        if not self.sessions:
            self._rest()

    def _tune_lane(self, lane: ThreadLane) -> None:
        wanted = any(session.wants(lane) for session in self.sessions)
        if wanted != lane.is_recording:
            lane.listen(wanted)
        if wanted:
            self._held.add(lane)

    def _rest(self) -> None:
        """Forget what only sessions need, so that many short sessions leave nothing behind."""
        for lane in self._held:
            lane.forget()
            # What is still open began before any session to come.
            lane.open.clear()
            lane.here.clear()
            lane.listen(False)
        self._held = set()
        self.stacks = _fresh_stacks()
        self._modules.clear()
        self._module_counts.clear()

    # Lanes

    def own_lane(self) -> ThreadLane:
        lane = getattr(tap.LANES, "lane", None)
        if lane is None:
            lane = self.lane_for_thread()
            tap.settle(lane)
        assert isinstance(lane, ThreadLane)
        return lane

    def lane_for_thread(self) -> ThreadLane:
        is_main = threading.current_thread() is threading.main_thread()
        lane = ThreadLane(1 if is_main else next(self._numbers))
        with self._lock:
            self._lanes.add(lane)
            self._tune_lane(lane)
        return lane

    def after_fork(self) -> None:
        """In a forked child: locks may be held by threads that are gone, and this thread has a new id."""
        self._lock = threading.RLock()
        self._ticker.rest()
        lane = getattr(tap.LANES, "lane", None)
        self._lanes = weakref.WeakSet() if lane is None else weakref.WeakSet((lane,))
        self._held &= set(self._lanes)
        tap.after_fork()

    def stop_tracing(self) -> None:
        """Have every thread that times Python functions take its callback off, at the next event it sees."""
        for lane in list(self._lanes):
            lane.tracing = False  # type: ignore[attr-defined]

    # What ops and regions call

    def stack(self) -> int:
        if _HELPER is not None:
            found: int = _HELPER.stack()
            return found
        lane: ThreadLane = _LANES.lane
        return self.stacks.intern(lane.chain, _getframe(1)) if lane.is_recording else 0

    def stack_of_op(self, lane: Any, caller: FrameType, is_traced: bool) -> int:
        if not lane.is_recording:
            return 0
        found = self.stacks.intern(lane.chain, caller)
        if is_traced:
            lane.here[caller.f_lasti] = found
        return found

    def allocated(self, nbytes: int, address: int) -> None:
        try:
            lane = _LANES.lane
        except AttributeError:
            lane = self.own_lane()
        lane.note((_NAMESPACE["clock"](), nbytes, address))

    def module(self, module: Any) -> ModuleRegion:
        return ModuleRegion(self, module)

    def known_module(self, module: Any, root: Any) -> ModuleEvent:
        known = self._modules.get(id(module))
        return known if known is not None and known.module() is module else self._meet_module(module, root)

    def _meet_module(self, module: Any, root: Any) -> ModuleEvent:
        """`nn.Module: Linear_0` and its event: instances of a class are numbered in the order of their first calls."""
        kind = type(module).__name__
        number = self._module_counts.setdefault(kind, 0)
        following = number + 1
        name = f"nn.Module: {kind}_{number}"
        event = python_event(name, PythonEvent("module", number, _path_of(module, root)))
        known = self._modules[id(module)] = ModuleEvent(weakref.ref(module), name, event)
        self._module_counts[kind] = following  # last, when nothing can fail any more
        return known


class ModuleEvent(NamedTuple):
    """What the calls of one nn.Module are recorded as."""

    module: weakref.ref[Any]
    name: str
    event: int


class ModuleRegion(tap.region):
    """The call of an nn.Module as a region of its own; ops inside it find it in their stacks."""

    __slots__ = ("_module", "_outer", "_recorder")

    def __init__(self, recorder: Recorder, module: Any) -> None:
        super().__init__(0)
        self._recorder = recorder
        self._module = module
        self._outer = 0

    def __enter__(self) -> ModuleRegion:
        recorder, lane = self._recorder, self._recorder.own_lane()
        outer = self._outer = lane.chain
        if outer == 0:
            lane.root = self._module
        known = recorder.known_module(self._module, lane.root)
        self._event = known.event
        depth = _frames_below(sys._getframe(1)) if recorder.flags & tap.STACKS else 0
        super().__enter__()
        stacks = recorder.stacks
        lane.chain = stacks.chain_ids.get((outer, known.name, depth)) or stacks.add_chain(outer, known.name, depth)
        lane.here.clear()
        return self

    def __exit__(self, *exc: object) -> None:
        lane = self._recorder.own_lane()
        lane.chain = self._outer
        lane.here.clear()
        if self._outer == 0:
            lane.root = None
        super().__exit__(*exc)


def _frames_below(frame: FrameType) -> int:
    depth = 0
    outer = frame.f_back
    while outer is not None:
        depth += 1
        outer = outer.f_back
    return depth


def _path_of(module: Any, root: Any) -> str:
    """Where a module sits in the outermost module that is being called; that one's path is its class."""
    for name, child in root.named_modules():
        if child is module:
            return f"{type(root).__name__}.{name}" if name else type(root).__name__
    return type(module).__name__


def _still_open(lane: ThreadLane, now: int) -> list[int]:
    """Rows for what is still running at `now`: regions, then traced Python frames, innermost first."""
    frames = list(lane.frames)
    parts = [(start, now, event, -1, 0, 0) for start, event in zip(frames[::2], frames[1::2]) if event > 0]
    parts += [(entry[0], now, entry[1], entry[2], entry[3], entry[4]) for entry in list(lane.open)]
    # Other threads may have begun something since.
    parts = [part for part in parts if part[0] <= now]
    # Of regions begun at the same time the later one is the inner one.
    parts.reverse()
    parts.sort(key=lambda row: -row[0])
    return list(itertools.chain.from_iterable(parts))


RECORDER = Recorder()

if hasattr(os, "register_at_fork"):
    # Nobody is in the middle of moving rows while the process is copied.
    os.register_at_fork(
        before=lambda: RECORDER._lock.acquire(),
        after_in_parent=lambda: RECORDER._lock.release(),
        after_in_child=RECORDER.after_fork,
    )
