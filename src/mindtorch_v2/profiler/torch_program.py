"""A whole program on real torch under torch's own profiler, from outside: finds its steps and modules by torch's global
hooks, and writes each window as it ends, so that a program that is killed leaves the earlier ones.

It does not know how the program is started. `torch` is the installed one, as a module object.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from ..core import step_hooks
from .advise.origins import LIBRARIES, SCRIPT, installed
from .capture.capture import STEP_PREFIX, Capture
from .program import REPORT, SPOOL, TRACE, Plan, nested_steps
from .read import torch_windows
from .record import environment
from .record.step_clock import METADATA as STEP_CLOCK
from .record.step_clock import StepClock

# Without a plan a window is closed, written and followed by the next one at the end of a step after so many seconds: what
# torch keeps of it in memory stays bounded, and a crash loses no more.
_LONGEST_WINDOW_S = 20.0


class TorchProfile:
    """Profiles the program that runs between `start` and `finish`."""

    def __init__(
        self,
        torch: ModuleType,
        plan: Plan,
        folder: str,
        *,
        all_threads: bool = False,
        step_on: str = "",
        script: str = "",
        clock: Callable[[], float] = time.monotonic,
        **wanted: bool,
    ) -> None:
        self.plan = plan
        self.steps = 0
        self.notes: list[str] = []
        self._clock = clock
        self._windows = Windows(torch, folder, all_threads, wanted)
        self._windows.script = script
        self._step_hooks = None if step_on else _StepHooks(torch, self._ready, self._stepped)
        # What was started from outside, while nothing is recorded here.
        self.attached: Windows | None = None
        self._phase = ""
        self._leader: Any = None
        self._thread = threading.get_ident()
        self._began = 0.0

    def start(self) -> None:
        clean(self._windows.folder)
        if self._step_hooks is not None:
            self._step_hooks.install()
        step_hooks.LISTENERS.append(self._announced)
        self._windows.install()
        self._enter(self.plan.phase(0))

    def finish(self) -> Capture | None:
        """The capture of all windows, or None if the program never came to what was to be recorded."""
        if self._step_hooks is not None:
            self._step_hooks.remove()
        step_hooks.LISTENERS.remove(self._announced)
        self._windows.forget_step()
        self._enter("done")
        self._windows.remove()
        paths = torch_windows.files(self._windows.folder)
        if not paths:
            return None
        capture = nested_steps(torch_windows.read(paths))
        capture.notes += self._windows.notes + self.notes
        return capture

    @property
    def is_recording(self) -> bool:
        return self._windows.is_open

    # Steps

    def _announced(self, source: Any, stepped: bool) -> None:
        """The function that the user has named as the one that makes steps begins or has returned."""
        (self._stepped if stepped else self._ready)(source)

    def _ready(self, source: Any) -> None:
        """The first step is under way when the optimizer is made: what came before was preparation."""
        for windows in self._steppable(source):
            if not windows.in_step:
                windows.begin_step(self.steps)

    def _stepped(self, source: Any) -> None:
        """An optimizer has made a step; the first one that does leads."""
        self._leader = self._leader or source
        if source is not self._leader:
            return
        if threading.get_ident() != self._thread and not self._windows.all_threads:
            self._note("steps are made on a thread that is not recorded; --all-threads records every thread")
            return
        for windows in self._steppable(source):
            windows.end_step(self.steps)
        self.steps += 1
        self._enter(self.plan.phase(self.steps))
        for windows in self._steppable(source):
            windows.begin_step(self.steps)

    def _steppable(self, source: Any) -> list[Windows]:
        """The windows in which a step of `source` on this thread is one."""
        if self._leader not in (None, source):
            return []
        own = threading.get_ident() == self._thread
        return [found for found in (self._windows, self.attached) if found is not None and (own or found.all_threads)]

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # Windows

    def _enter(self, phase: str) -> None:
        """Close and open windows for the phase that begins."""
        is_long = self._phase == "active" and self._clock() - self._began > _LONGEST_WINDOW_S and not self.plan.active
        if phase == self._phase and not is_long:
            return
        if self._phase in ("warmup", "active"):
            self._windows.close(keep=self._phase == "active")
        self._phase = phase
        if phase in ("warmup", "active") and self.attached is not None:
            self._note("steps to be recorded are missing: the program was being profiled from outside")
        elif phase in ("warmup", "active"):
            self._windows.open()
            self._began = self._clock()


class Windows:
    """torch's profiler, one window after the other, each written to a file of its own when it ends."""

    def __init__(self, torch: ModuleType, folder: str, all_threads: bool, wanted: dict[str, bool]) -> None:
        self.folder = folder
        self.all_threads = all_threads
        self.script = ""
        self.notes: list[str] = []
        self._torch = torch
        self._wanted = wanted
        self._modules = _ModuleHooks(torch)
        self._profile: Any = None
        self._clock = StepClock()
        self._mark: Any = None
        self._number = 0
        self._guest = _GuestProfilers(torch, self._make_room, self._come_back)
        self._makes_room = False

    def install(self) -> None:
        self._guest.install()

    def remove(self) -> None:
        self._guest.remove()

    @property
    def is_open(self) -> bool:
        return self._profile is not None

    @property
    def in_step(self) -> bool:
        return self._mark is not None

    def begin_step(self, number: int) -> None:
        if self._profile is not None:
            self._mark = self._torch.autograd.profiler.record_function(f"{STEP_PREFIX}{number}")
            self._mark.__enter__()
            self._clock.begin()

    def end_step(self, number: int) -> None:
        if self._mark is not None:
            self._clock.end(number)
            self._mark.__exit__(None, None, None)
            self._mark = None

    def forget_step(self) -> None:
        """What follows the last step is none. torch leaves out annotations that have no end."""
        self._clock.forget()
        self._mark = None

    def open(self) -> None:
        torch = self._torch
        config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True) if self.all_threads else None
        self._profile = torch.profiler._KinetoProfile(experimental_config=config, **self._wanted)
        self._clock = StepClock()
        with self._guest.let_in():
            self._profile.prepare_trace()
            self._profile.start_trace()
        self._modules.install()

    def close(self, keep: bool = True) -> None:
        """End the window that is open, if one is, and write it."""
        profile, self._profile = self._profile, None
        if profile is None:
            return
        self._modules.remove()
        profile.add_metadata_json(environment.METADATA, json.dumps(environment_of(self._torch)))
        profile.add_metadata_json(STEP_CLOCK, self._clock.text())
        profile.add_metadata_json(LIBRARIES, json.dumps(installed()))
        profile.add_metadata_json(SCRIPT, json.dumps(self.script))
        with self._guest.let_in():
            profile.stop_trace()
        if keep:
            self._write(profile)

    def _write(self, profile: Any) -> None:
        folder = Path(self.folder, torch_windows.FOLDER)
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / "unfinished.json"
        profile.export_chrome_trace(str(unfinished))
        os.replace(unfinished, folder / f"{self._number:04}.json")
        self._number += 1

    # Profilers of the program's own

    def _make_room(self) -> None:
        """The program starts a torch.profiler of its own, beside which there can be no other."""
        self._makes_room = self.is_open
        if self._makes_room:
            self.forget_step()
            self.close()
            self.notes.append("the program has used a torch.profiler of its own; what it recorded is not in here")

    def _come_back(self) -> None:
        if self._makes_room and not self.is_open:
            self.open()
        self._makes_room = False


class _StepHooks:
    """Tells of optimizers that are made and of steps that they make."""

    def __init__(self, torch: ModuleType, ready: Callable[[Any], None], stepped: Callable[[Any], None]) -> None:
        self._optimizer = torch.optim.Optimizer
        self._register = sys.modules[self._optimizer.__module__].register_optimizer_step_post_hook
        self._ready, self._stepped = ready, stepped
        self._made: Any = None
        self._handle: Any = None

    def install(self) -> None:
        self._handle = self._register(lambda optimizer, args, kwargs: self._stepped(optimizer))
        made = self._made = self._optimizer.__init__
        ready = self._ready

        @functools.wraps(made)
        def make(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            made(optimizer, *args, **kwargs)
            ready(optimizer)

        self._optimizer.__init__ = make

    def remove(self) -> None:
        self._handle.remove()
        self._optimizer.__init__ = self._made


class _ModuleHooks:
    """Records calls of modules as annotations that say where the module sits, by hooks that all modules have."""

    def __init__(self, torch: ModuleType) -> None:
        self._torch = torch
        self._region = torch._C._profiler._RecordFunctionFast
        self._is_compiling = torch.compiler.is_compiling
        self._names: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._counts: dict[str, int] = {}
        self._paths: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._threads = threading.local()
        self._handles: list[Any] = []

    def install(self) -> None:
        module = self._torch.nn.modules.module
        self._handles = [
            module.register_module_forward_pre_hook(self._before),
            module.register_module_forward_hook(self._after, always_call=True),
        ]
        self._threads = threading.local()

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        for _, region in reversed(getattr(self._threads, "open", [])):
            region.__exit__(None, None, None)

    def _before(self, module: Any, args: Any) -> None:
        if self._is_compiling():
            return
        calls = self._threads.__dict__.setdefault("open", [])
        known = self._names.get(id(module))
        if known is None or known[0]() is not module:
            known = self._meet(module, calls[0][0] if calls else module)
        region = self._region(known[1])
        region.__enter__()
        calls.append((module, region))

    def _after(self, module: Any, args: Any, result: Any) -> None:
        if self._is_compiling():
            return
        calls = self._threads.__dict__.setdefault("open", [])
        while any(open_module is module for open_module, _ in calls):
            # Inner calls that an exception has left are closed with the one around them.
            innermost, region = calls.pop()
            region.__exit__(None, None, None)
            if innermost is module:
                return

    def _meet(self, module: Any, root: Any) -> tuple[weakref.ref[Any], str]:
        """`nn.Module: Linear_0 @ Net.first`: instances of a class are numbered in the order of their first calls."""
        kind = type(module).__name__
        number = self._counts.get(kind, 0)
        self._counts[kind] = number + 1
        name = torch_windows.annotation(kind, number, self._path(module, root))
        known = self._names[id(module)] = (weakref.ref(module), name)
        return known

    def _path(self, module: Any, root: Any) -> str:
        found = self._paths.get(id(module))
        if found is None or found[0]() is not module:
            title = type(root).__name__
            for path, part in root.named_modules():
                self._paths[id(part)] = (weakref.ref(part), f"{title}.{path}" if path else title)
            found = self._paths.get(id(module))
        return found[1] if found is not None and found[0]() is module else type(module).__name__


class _GuestProfilers:
    """Tells when the program starts and stops a profiler of its own: torch has room for one at a time."""

    def __init__(self, torch: ModuleType, begins: Callable[[], None], ended: Callable[[], None]) -> None:
        self._profile = torch.autograd.profiler.profile
        self._begins, self._ended = begins, ended
        self._originals: tuple[Any, Any] | None = None
        self._is_ours = False

    @contextlib.contextmanager
    def let_in(self) -> Iterator[None]:
        """What is started or stopped meanwhile is no guest."""
        self._is_ours = True
        try:
            yield
        finally:
            self._is_ours = False

    def install(self) -> None:
        prepare, leave = self._originals = (self._profile._prepare_trace, self._profile.__exit__)

        @functools.wraps(prepare)
        def prepare_trace(profile: Any) -> None:
            if not self._is_ours:
                self._begins()
            prepare(profile)

        @functools.wraps(leave)
        def exit_trace(profile: Any, *exc: Any) -> Any:
            result = leave(profile, *exc)
            if not self._is_ours:
                self._ended()
            return result

        self._profile._prepare_trace, self._profile.__exit__ = prepare_trace, exit_trace

    def remove(self) -> None:
        if self._originals is not None:
            self._profile._prepare_trace, self._profile.__exit__ = self._originals
            self._originals = None


def environment_of(torch: ModuleType) -> dict[str, Any]:
    """What was timed: real torch, its threads and the devices it has."""
    devices = ["cpu"]
    for name in ("cuda", "xpu", "mps"):
        backend = getattr(torch, name, None)
        if backend is not None and backend.is_available():
            count = backend.device_count() if hasattr(backend, "device_count") else 1
            titles = getattr(backend, "get_device_name", str)
            devices += [f"{name}:{number} {titles(number)}" for number in range(count)]
    return environment.environment(f"torch {torch.__version__}", torch.get_num_threads(), devices)


def clean(folder: str) -> None:
    """Take away what an earlier profile has left in a folder, so that nobody reads it as this one's."""
    for path in (*(Path(folder, name) for name in (TRACE, REPORT, SPOOL)), *torch_windows.files(folder)):
        path.unlink(missing_ok=True)
