"""A flight recorder: keeps the last seconds of what a program does, and writes them when something goes wrong.

It owns when windows turn and what makes it write. It does not know what is recorded in them.
"""

from __future__ import annotations

import atexit
import os
import signal
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from types import FrameType, TracebackType
from typing import Any

from ..core import step_hooks, tap
from .api import run
from .export import write
from .program import StepMark, nested_steps, with_metadata, without_own_threads

VARIABLE = "MINDTORCH_FLIGHT"
# Steps before which nothing is known of what is usual, and how many are remembered.
_ENOUGH_STEPS, _REMEMBERED = 20, 100


class Flight:
    """Records until `stop`, two overlapping windows at a time: the older one holds the last `seconds` or up to twice that."""

    def __init__(
        self, seconds: float, folder: str | os.PathLike[str], slow: float, most: int, clock: Callable[[], float]
    ) -> None:
        self.files: list[str] = []
        self._seconds, self._folder, self._slow, self._most, self._clock = seconds, os.fspath(folder), slow, most, clock
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._is_writing = False
        self._windows: list[run.profile] = []
        self._ended = threading.Event()
        self._took: deque[float] = deque(maxlen=_REMEMBERED)
        self._leader: Any = None
        self._thread = self._steps = 0
        self._begun = self._quiet_until = 0.0
        self._mark: StepMark | None = None
        self._told: BaseException | None = None
        self._hooks = sys.excepthook, threading.excepthook
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Flight:
        return self

    def __exit__(
        self, sort: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._raised(error)
        self.stop()

    def _start(self) -> Flight:
        self.turn()
        step_hooks.LISTENERS.append(self._announced)
        tap.OUT_OF_MEMORY_LISTENERS.append(self._out_of_memory)
        sys.excepthook, threading.excepthook = self._uncaught, self._uncaught_in_thread
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGUSR2", "SIGTERM"):
                number = getattr(signal, name, None)
                # A handler of the program's own stays.
                if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                    self._handlers[number] = signal.signal(number, self._signalled)
        threading.Thread(target=self._run, name="mindtorch-flight", daemon=True).start()
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """End recording, and leave hooks and signals as they were."""
        if self._ended.is_set() or os.getpid() != self._pid:
            return
        self._ended.set()
        atexit.unregister(self.stop)
        step_hooks.LISTENERS.remove(self._announced)
        tap.OUT_OF_MEMORY_LISTENERS.remove(self._out_of_memory)
        if sys.excepthook == self._uncaught:
            sys.excepthook = self._hooks[0]
        if threading.excepthook == self._uncaught_in_thread:
            threading.excepthook = self._hooks[1]
        for number, handler in self._handlers.items():
            if signal.getsignal(number) == self._signalled:
                signal.signal(number, handler)
        with self._lock:
            while self._windows:
                self._windows.pop()._stop_trace()

    # Windows

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            self.turn()

    def turn(self) -> None:
        """Begin a window, and drop the one before the last."""
        with self._lock:
            if self._ended.is_set():
                return
            window = run.profile(use_kineto=True, all_threads=True)
            window._prepare_trace()
            window._start_trace()
            self._windows.append(window)
            if len(self._windows) > 2:
                self._windows.pop(0)._stop_trace()

    def write(self, reason: str) -> str:
        """Write the last seconds; where, or '' if as many files as are allowed have been written."""
        with self._lock:
            if self._is_writing or self._ended.is_set() or os.getpid() != self._pid or len(self.files) >= self._most:
                return ""
            self._is_writing = True
            try:
                return self._written(reason)
            finally:
                self._is_writing = False

    def _written(self, reason: str) -> str:
        if len(self._windows) < 2:
            self.turn()
        window = self._windows.pop(0)
        window._stop_trace()
        capture = with_metadata(window.newest_capture(), window.trace_id, window.metadata)
        capture = replace(capture, metadata={**capture.metadata, "flight": reason})
        os.makedirs(self._folder, exist_ok=True)
        path = os.path.join(self._folder, f"{time.strftime('%Y%m%d-%H%M%S')}-{self._pid}-{len(self.files) + 1}.json.gz")
        write(nested_steps(without_own_threads(capture)), path)
        self.files.append(path)
        sys.stderr.write(f"mindtorch: {reason}; the flight recorder wrote {path}\n")
        return path

    # What goes wrong

    def _announced(self, source: Any, stepped: bool) -> None:
        if not stepped or os.getpid() != self._pid:
            return
        if self._leader is None:
            self._leader, self._thread = source, threading.get_ident()
        if source is not self._leader or threading.get_ident() != self._thread:
            return
        now = self._clock()
        if self._mark is not None:
            self._mark.__exit__()
            self._judge(now - self._begun, now)
        self._steps += 1
        self._mark = StepMark(self._steps)
        self._mark.__enter__()
        self._begun = self._clock()

    def _judge(self, took: float, now: float) -> None:
        usual = statistics.median(self._took) if len(self._took) >= _ENOUGH_STEPS else 0.0
        self._took.append(took)
        if usual and took > self._slow * usual and now >= self._quiet_until:
            self._quiet_until = now + self._seconds
            self.write(f"slow step: {took * 1e3:.4g} ms where {usual * 1e3:.4g} ms are usual")

    def _out_of_memory(self, nbytes: int) -> None:
        self.write(f"out of memory: {nbytes} bytes could not be had")

    def _raised(self, error: BaseException) -> None:
        if error is not self._told and not isinstance(error, (SystemExit, KeyboardInterrupt, GeneratorExit)):
            self._told = error
            self.write(f"uncaught {type(error).__name__}")

    def _uncaught(self, sort: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self._raised(error)
        self._hooks[0](sort, error, trace)

    def _uncaught_in_thread(self, arguments: Any) -> None:
        if arguments.exc_value is not None:
            self._raised(arguments.exc_value)
        self._hooks[1](arguments)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self.write(f"signal {signal.Signals(number).name}")
        if number == signal.SIGTERM:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def flight(
    seconds: float = 10.0,
    folder: str | os.PathLike[str] = "flight",
    *,
    slow: float = 3.0,
    most: int = 10,
    clock: Callable[[], float] = time.perf_counter,
) -> Flight:
    """Keep the last `seconds` (up to twice that) of what runs, until `stop` or the end of a `with` block.

    They are written as traces into `folder`, at most `most` of them: when a step takes `slow` times as long as is usual, when
    an exception is not caught, on SIGUSR2 and SIGTERM (where the program does not handle them itself), when memory cannot be
    had, and by `write(reason)`.
    """
    if not seconds > 0 or not slow > 1 or most < 1:
        raise ValueError(f"expected seconds > 0, slow > 1 and most >= 1, got {seconds}, {slow} and {most}")
    return Flight(float(seconds), folder, slow, most, clock)._start()


def of_environment() -> None:
    """Start one where the environment asks for it: 1, or the folder to write to."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "0"):
        flight(folder="flight" if wanted == "1" else wanted)
