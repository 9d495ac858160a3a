"""What a program on real torch can be asked from outside while it runs: the same as `control`, through torch's profiler.

torch's profiler records the thread it is started on, so it is started and stopped on the main thread, between two
instructions of the program. Where that thread is busy in one long call, it is started for all threads from here.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .capture.capture import Capture
from .control import hot_rows, seconds_of
from .program import nested_steps, write_files
from .read import torch_windows
from .record import endings
from .torch_program import TorchProfile, Windows, clean

# How long the main thread may take to come to the next instruction.
_PATIENCE_S = 3.0


class MainThread:
    """Runs functions on the main thread, between two instructions of what it is doing."""

    def __init__(self, patience_s: float = _PATIENCE_S) -> None:
        self._patience_s = patience_s
        # Python does not keep what it is to call.
        self._kept: list[Any] = []

    def call(self, function: Callable[[], None]) -> bool:
        """Whether the function has run; if not it never will. Its exception is raised here."""
        done, lock = threading.Event(), threading.Lock()
        state: dict[str, Any] = {"given up": False, "error": None}

        def run(_: Any) -> int:
            with lock:
                if not state["given up"]:
                    try:
                        function()
                    except Exception as error:  # must not reach the program
                        state["error"] = error
                    done.set()
            return 0

        callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(run)
        self._kept.append(callback)
        ctypes.pythonapi.Py_AddPendingCall(callback, None)
        done.wait(self._patience_s)
        with lock:
            state["given up"] = not done.is_set()
        if state["error"] is not None:
            raise state["error"]
        return done.is_set()


class TorchControl:
    """Answers requests of the command line about one program."""

    def __init__(self, torch: ModuleType, program: TorchProfile, main: MainThread | None = None) -> None:
        self._torch = torch
        self._program = program
        self._main = main or MainThread()
        self._lock = threading.Lock()
        self._answers: dict[Any, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "status": self._status,
            "start": self._start,
            "stop": self._stop,
            "hot": self._hot,
        }

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        requested = request.get("do")
        if requested not in self._answers:
            raise ValueError(f"cannot {requested!r}; known: {', '.join(self._answers)}")
        return self._answers[requested](request)

    def finish(self) -> None:
        """The program ends: what is being profiled from outside is written all the same."""
        with endings.interrupts_held("the profile is being written"), self._lock:
            if self._program.attached is not None:
                self._stop_and_write()

    def _status(self, request: dict[str, Any]) -> dict[str, Any]:
        attached = self._program.attached
        return {
            "pid": os.getpid(),
            "program": sys.argv,
            "recording": self._program.is_recording or attached is not None,
            "attached": attached is not None,
            "folder": attached.folder if attached is not None else "",
        }

    def _start(self, request: dict[str, Any]) -> dict[str, Any]:
        wanted = {name: bool(value) for name, value in dict(request.get("options", {})).items()}
        folder = os.path.abspath(str(request["folder"]))
        with self._lock:
            os.makedirs(folder, exist_ok=True)
            clean(folder)
            self._program.attached = self._opened(folder, wanted)
        return {"folder": folder, "misses": self._misses(self._program.attached)}

    def _opened(self, folder: str, wanted: dict[str, bool]) -> Windows:
        """A window that has been opened on the main thread or, where that is busy, on all threads."""
        if self._program.attached is not None:
            raise RuntimeError(f"is being profiled already, into {self._program.attached.folder}; stop that first")
        if self._program.is_recording:
            raise RuntimeError(
                "is being recorded by `mindtorch profile` now, and torch has room for one profiler at a time; attach while "
                "it waits (--wait) or when it is done (--active)"
            )
        windows = Windows(self._torch, folder, False, wanted)
        if not self._main.call(windows.open):
            windows = Windows(self._torch, folder, True, wanted)
            windows.open()
        return windows

    @staticmethod
    def _misses(windows: Windows) -> str:
        if windows.all_threads:
            return (
                "the main thread is busy in one call, so all threads are recorded from the middle of what they do: calls "
                "and modules that were under way are missing, and so are stacks of threads other than this one"
            )
        return "ops of threads other than the main one and its backward passes, and forked workers"

    def _stop(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            return self._stop_and_write()

    def _stop_and_write(self) -> dict[str, Any]:
        windows = self._program.attached
        if windows is None:
            raise RuntimeError("is not being profiled from outside; start it with `mindtorch attach PID start`")
        self._close(windows)
        self._program.attached = None
        capture = _read(windows.folder)
        capture.notes.append(f"attached while it ran; missing: {self._misses(windows)}")
        files = write_files(capture, windows.folder, os.path.basename(sys.argv[0]) or "program")
        return {"files": files, "events": sum(map(len, capture.tracks))}

    def _close(self, windows: Windows) -> None:
        """A window that the main thread has opened can be closed by that alone."""

        def close() -> None:
            windows.forget_step()
            windows.close()

        if windows.all_threads or threading.current_thread() is threading.main_thread():
            close()
        elif not self._main.call(close):
            raise RuntimeError("is busy in one long call on its main thread, which alone can stop; try again later")

    def _hot(self, request: dict[str, Any]) -> dict[str, Any]:
        """The hottest ops of the seconds that follow, in a short window."""
        seconds = seconds_of(request)
        with self._lock, tempfile.TemporaryDirectory() as folder:
            windows = self._opened(folder, {})
            threading.Event().wait(seconds)
            self._close(windows)
            return {"recording": False, "seconds": seconds, **hot_rows(_read(folder), request)}


def _read(folder: str) -> Capture:
    return nested_steps(torch_windows.read(torch_windows.files(folder)))
