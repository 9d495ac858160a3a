"""Python code as the profiler sees it: readable stack entries, and the tracer that times Python functions.

It owns which code belongs to the framework itself and is left out. It does not know events or columns.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from collections.abc import Callable, Sequence
from types import CodeType, FrameType, ModuleType
from typing import Any

from ...core import tap
from ...core.fork import free_in_children
from ...core.machinery import PACKAGE, is_machinery
from .recorder import COLLECTION_NAME, RECORDER, PythonEvent, StackTable, ThreadLane, python_event

_HELPER = tap.HELPER
_COMMAND = os.path.join(os.path.dirname(PACKAGE), "mindtorch_cli", "__init__.py")
# What installers make of it.
_SCRIPTS = ("mindtorch", "mindtorch-script.py")

# What becomes of a frame. SHOWN frames are events; SKIPPED ones are not, but what they call may be;
# HIDDEN ones (op bodies) hide whatever they call, as a C++ kernel would.
SKIPPED, HIDDEN = 0, -1

_SKIPPED_FOLDERS = frozenset(("autograd", "profiler", "launch", "cli"))
# Of a folder that is seen, or is not, the files and functions that are otherwise.
_SKIPPED_FILES = frozenset(("nn/modules/module_hooks.py", "__main__.py"))
_SHOWN_FILES = frozenset(("autograd/functional.py", "autograd/gradcheck.py", "autograd/forward_ad.py"))
_CALLS_OF_MODULES = frozenset(("__call__", "_call_impl", "_wrapped_call_impl"))


def visibility(code: CodeType) -> int:
    """1 for code of the user and of the public layers, SKIPPED or HIDDEN for the machinery below them."""
    filename = code.co_filename
    if is_machinery(filename):
        return HIDDEN
    if not filename.startswith(PACKAGE + os.sep):
        return SKIPPED if filename == _COMMAND or os.path.basename(filename) in _SCRIPTS else 1
    inner = filename[len(PACKAGE) + 1 :].replace(os.sep, "/")
    first = inner.partition("/")[0]
    if inner in _SHOWN_FILES or (inner == "autograd/function.py" and code.co_name == "apply"):
        return 1
    if first in _SKIPPED_FOLDERS or inner in _SKIPPED_FILES:
        return SKIPPED
    is_module_call = inner == "nn/modules/module.py" and code.co_name in _CALLS_OF_MODULES
    return SKIPPED if is_module_call else 1


def short_path(filename: str) -> str:
    """A file's path below the longest entry of sys.path that holds it."""
    best = ""
    for entry in sys.path:
        prefix = os.path.abspath(entry or os.getcwd()).rstrip(os.sep) + os.sep
        if filename.startswith(prefix) and len(prefix) > len(best):
            best = prefix
    return filename[len(best) :]


def line_of(code: CodeType, lasti: int) -> int:
    """The source line an instruction belongs to."""
    for start, end, line in code.co_lines():
        if start <= lasti < end and line is not None:
            return line
    return code.co_firstlineno


class StackReader:
    """Turns interned stacks into lists of `file.py(12): name`, innermost first. Equal stacks share one list."""

    def __init__(self, table: StackTable) -> None:
        self._table = table
        self._stacks: dict[int, list[str]] = {}
        self._entries: dict[tuple[int, int], str] = {}
        self._paths: dict[str, str] = {}

    def read(self, stack: int) -> list[str]:
        found = self._stacks.get(stack)
        if found is None:
            found = self._stacks[stack] = self._resolve(self._table.keys[stack]) if stack else []
        return found

    def _resolve(self, key: Sequence[Any]) -> list[str]:
        chain, frames = key[0], key[1:]
        depth = len(frames) // 2
        modules = self._modules(chain)
        entries: list[str] = []
        for position in range(depth):
            entry = self._entry(frames[2 * position], frames[2 * position + 1])
            if entry:
                entries.append(entry)
            # Module calls whose caller is the next frame stand between the two.
            while modules and modules[-1][0] == depth - position - 1:
                entries.append(modules.pop()[1])
        return entries

    def _modules(self, chain: int) -> list[tuple[int, str]]:
        """The module calls of a chain, outermost first, with the number of frames below each."""
        found: list[tuple[int, str]] = []
        while chain:
            frame = self._table.chains[chain]
            found.append((frame.depth, frame.name))
            chain = frame.outer
        return found[::-1]

    def _entry(self, code: CodeType, lasti: int) -> str:
        # Equal codes may be of different files; the table of stacks keeps them all.
        found = self._entries.get((id(code), lasti))
        if found is None:
            found = ""
            if visibility(code) > 0:
                path = self._paths.get(code.co_filename)
                if path is None:
                    path = self._paths[code.co_filename] = short_path(code.co_filename)
                found = f"{path}({line_of(code, lasti)}): {code.co_name}"
            self._entries[id(code), lasti] = found
        return found


def _module_of(owner: Any) -> str:
    """The name of the module a builtin function belongs to; empty for methods."""
    return owner.__name__ if isinstance(owner, ModuleType) else ""


Callback = Callable[[FrameType, str, Any], None]

# Since Python 3.12 threads that are already running can be traced too; before that, those that start from now on.
_set_for_all: Callable[[Any], None] = getattr(threading, "setprofile_all_threads", threading.setprofile)


def _lane_of(callback: Any) -> Any:
    """The lane a profile function writes to, if it is one of ours; the helper's goes by its lane."""
    return callback if isinstance(callback, ThreadLane) else getattr(callback, "lane", None)


def _is_starting(frame: FrameType) -> bool:
    """Whether the calling thread is not yet among Python's, which would take it for one of unknown origin."""
    if threading.get_ident() in threading._active:  # type: ignore[attr-defined]
        return False
    outermost = frame
    while outermost.f_back is not None:
        outermost = outermost.f_back
    return outermost.f_code is threading.Thread._bootstrap.__code__  # type: ignore[attr-defined]


def _put_back(callback: Any) -> None:
    """Have whoever profiled before profile on; those written in C, such as cProfile's, are no functions."""
    if callback is None or callable(callback):
        sys.setprofile(callback)
    else:
        sys.setprofile(None)
        callback.enable()


def _let_go(lane: ThreadLane) -> None:
    """The thread of a lane is not traced any more."""
    lane.frames, lane.tracer, lane.active = [], None, None


class Tracer:
    """Times Python functions with `sys.setprofile` while somebody holds it, on the threads that are recorded."""

    def __init__(self) -> None:
        self._holders = 0
        self._all_threads = 0
        self._lock = free_in_children(threading.Lock())
        # By address: equal codes may be of different files, and hashing one takes long.
        self._codes: dict[int, int] = {}
        self._kept: list[CodeType] = []
        self._builtins: dict[tuple[Any, str], int] = {}
        self._previous: dict[int, Any] = {}

    @property
    def running(self) -> bool:
        return self._holders > 0

    def hold(self, all_threads: bool) -> None:
        with self._lock:
            self._holders += 1
            self._all_threads += all_threads
            if all_threads:
                own = sys.getprofile()
                _set_for_all(self._first_event)
                if _lane_of(own) is None:
                    _put_back(own)
        self._begin()

    def release(self, all_threads: bool) -> None:
        with self._lock:
            self._holders -= 1
            self._all_threads -= all_threads
            if all_threads and not self._all_threads:
                threading.setprofile(None)
        if not self.running:
            self._end_all()

    def quit(self) -> None:
        """Trace nothing any more, whoever holds it."""
        with self._lock:
            self._holders = self._all_threads = 0
        threading.setprofile(None)
        self._end_all()

    def _begin(self) -> None:
        lane = RECORDER.own_lane()
        current = sys.getprofile()
        if _lane_of(current) is lane:
            return
        self._previous[lane.ident] = current
        now = tap.clock()
        frames: list[int] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            shown = visibility(frame.f_code) > 0
            frames[:0] = (now, self._python_id(frame.f_code, frame.f_lineno) if shown else SKIPPED)
            frame = frame.f_back
        # The last entry is this function's own frame, whose return the callback will see.
        lane.frames = [*frames, now, SKIPPED]
        lane.hidden_depth = 0
        if _HELPER is not None:
            _HELPER.trace(lane)
            return
        lane.tracer = lane.active = self._callback(lane)
        sys.setprofile(self._starter(lane.tracer))

    def _starter(self, callback: Callback) -> Callback:
        """Puts the callback in place at the first event, which may be the end of `sys.setprofile` itself."""

        def starter(frame: FrameType, event: str, arg: Any) -> None:
            sys.setprofile(callback)
            if event != "c_return":
                callback(frame, event, arg)

        starter.lane = callback.lane  # type: ignore[attr-defined]
        # It replaces itself while it runs: somebody else has to hold it until it has returned.
        callback.starter = starter  # type: ignore[attr-defined]
        return starter

    def _end_all(self) -> None:
        self._end()
        # Other threads take their callback off themselves, at the next event it sees.
        if _HELPER is not None:
            RECORDER.stop_tracing()

    def _end(self) -> None:
        lane = RECORDER.own_lane()
        if _lane_of(sys.getprofile()) is lane:
            if _HELPER is not None:
                _HELPER.untrace(lane)
            _put_back(self._previous.pop(lane.ident, None))
            _let_go(lane)

    def _first_event(self, frame: FrameType, event: str, arg: Any) -> None:
        """What new threads start with: replaces itself with the callback of the thread's lane.

        Threads that are traced already may get it too: they go on where they were.
        """
        if _is_starting(frame):
            return
        # Threads of the profiler's own borrow their lanes, or are about to.
        is_own = frame.f_back is None and visibility(frame.f_code) <= 0
        if is_own or not self.running or (lane := RECORDER.own_lane()).ident != threading.get_ident():
            sys.setprofile(None)
            return
        is_traced = bool(lane.frames) and (lane.tracer is not None or _HELPER is not None)
        if not is_traced:
            lane.frames, lane.hidden_depth = [], 0
        callback = lane.tracer if is_traced and _HELPER is None else self._callback(lane)
        if event in ("call", "c_call") or lane.hidden_depth or _HELPER is None:
            if is_traced or event == "call":
                callback(frame, event, arg)
        elif is_traced:
            *outer, start, kind = lane.frames
            lane.frames = outer
            if kind > 0:
                lane.write((start, tap.clock(), kind, -1, 0, 0))
        if _HELPER is not None:
            _HELPER.trace(lane)
        else:
            lane.tracer = lane.active = callback
            sys.setprofile(callback)

    def _python_id(self, code: CodeType, line: int) -> int:
        return python_event(f"{short_path(code.co_filename)}({line}): {code.co_name}")

    def code_id(self, code: CodeType) -> int:
        found = self._codes.get(id(code))
        if found is None:
            shown = visibility(code)
            self._kept.append(code)
            found = self._codes[id(code)] = self._python_id(code, code.co_firstlineno) if shown > 0 else shown
        return found

    def builtin_id(self, function: Any) -> int:
        owner = getattr(function, "__self__", None)
        name = getattr(function, "__name__", "")
        is_method = owner is not None and type(owner) is not type(sys)
        key = (type(owner) if is_method else _module_of(owner), name)
        found = self._builtins.get(key)
        if found is None and _HELPER is not None and _HELPER.__name__ in (type(owner).__module__, _module_of(owner)):
            found = self._builtins[key] = SKIPPED
        if found is None:
            text = f"<built-in method {name} of {type(owner).__name__} object>" if is_method else repr(function)
            found = self._builtins[key] = python_event(text)
        return found

    def _callback(self, lane: ThreadLane) -> Callback:
        """The profile function of one thread. Frames in progress are on `lane.frames`; ended ones become rows."""
        codes, code_id, builtin_id = self._codes, self.code_id, self.builtin_id
        clock, here = tap.NAMESPACE["clock"], lane.here
        here.clear()

        def callback(frame: FrameType, event: str, arg: Any) -> None:
            if lane.active is None:  # in an op
                return
            hidden_depth = lane.hidden_depth
            if event == "call":
                if hidden_depth:
                    lane.hidden_depth = hidden_depth + 1
                    here.clear()
                    return
                kind = codes.get(id(frame.f_code))
                if kind is None:
                    kind = code_id(frame.f_code)
                if kind == HIDDEN:
                    # Most often an op: what it finds out about the frame that calls it stays true for the next one.
                    lane.hidden_depth = 1
                else:
                    here.clear()
                    lane.frames += (clock(), kind)
            elif event == "c_call":
                if not hidden_depth:
                    frames = lane.frames
                    hidden = not frames or frames[-1] == SKIPPED
                    lane.frames += (clock(), SKIPPED if hidden else builtin_id(arg))
            elif event == "return" and hidden_depth:
                lane.hidden_depth = hidden_depth - 1
                if hidden_depth > 1:
                    here.clear()
            elif not hidden_depth:
                if event == "return":
                    here.clear()
                frames = lane.frames
                if frames:
                    kind = frames.pop()
                    start = frames.pop()
                    if kind > 0:
                        out = lane.out
                        out += (start, clock(), kind, -1, 0, 0)
                if not self.running:
                    sys.setprofile(None)
                    _let_go(lane)

        callback.lane = lane  # type: ignore[attr-defined]
        return callback


TRACER = Tracer()

if _HELPER is not None:
    _HELPER.connect_frames(TRACER.code_id, TRACER.builtin_id)


class CollectionClock:
    """Times the garbage collections of the process as `Python GC` events, while somebody holds it."""

    def __init__(self) -> None:
        self._holders = 0
        self._region: tap.region | None = None

    def hold(self) -> None:
        self._holders += 1
        if self._holders == 1:
            gc.callbacks.append(self._collected)

    def release(self) -> None:
        self._holders -= 1
        if not self._holders:
            self.quit()

    def quit(self) -> None:
        """Time nothing any more, whoever holds it."""
        if self._collected in gc.callbacks:
            gc.callbacks.remove(self._collected)

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._region = tap.region(python_event(COLLECTION_NAME, PythonEvent("collection")))
            self._region.__enter__()
        elif self._region is not None:
            self._region.__exit__()
            self._region = None


COLLECTIONS = CollectionClock()


@atexit.register
def _quit() -> None:
    """The program ends with profilers still running. What comes now takes modules apart, those that trace it too."""
    if TRACER.running:
        TRACER.quit()
    COLLECTIONS.quit()
