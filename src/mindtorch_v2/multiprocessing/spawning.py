"""`torch.multiprocessing.spawn`: several processes of one function, watched until all have ended or one has failed."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

_PATIENCE_S = 30.0  # for a process that was asked to end


class ProcessException(Exception):
    """A process ended badly."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process ended with an exception, whose traceback the message holds."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """A process ended with an exit code or by a signal."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _work(fn: Callable[..., Any], index: int, args: Sequence[Any], errors: Any) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        errors.put(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """The processes of one `start_processes`; `join` waits for them."""

    def __init__(self, processes: list[Any], error_queues: list[Any]) -> None:
        self.processes, self.error_queues = processes, error_queues
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for at least one process; True when all have ended well. If one failed, the others get `grace_period`
        seconds to end by themselves, then they are stopped, and its error is raised."""
        if not self.sentinels:
            return True
        ready = multiprocessing.connection.wait(list(self.sentinels), timeout=timeout)
        failed = None
        for sentinel in ready:
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        if grace_period is not None:
            self._wait(grace_period)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        self._wait(_PATIENCE_S if grace_period is None else grace_period)
        for process in self.processes:
            if process.is_alive():  # it does not listen
                process.kill()
            process.join()
        self._raise(failed)
        return False

    def _wait(self, seconds: float) -> None:
        """Wait until all have ended, but no longer than this."""
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))

    def _raise(self, index: int) -> None:
        process, errors = self.processes[index], self.error_queues[index]
        if not errors.empty():
            text = f"\n\n-- Process {index} terminated with the following error:\n{errors.get()}"
            raise ProcessRaisedException(text, index, process.pid)
        code = process.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            raise ProcessExitedException(
                f"process {index} terminated with signal {name}", index, process.pid, code, name
            )
        raise ProcessExitedException(f"process {index} terminated with exit code {code}", index, process.pid, code)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
    numa_options: Any = None,
) -> ProcessContext | None:
    """Run `fn(i, *args)` in `nprocs` processes; wait for them, or with join=False give their context."""
    made = multiprocessing.get_context(start_method)
    processes, queues = [], []
    for index in range(nprocs):
        errors = made.SimpleQueue()
        process = made.Process(target=_work, args=(fn, index, args, errors), daemon=daemon)  # type: ignore[attr-defined]
        process.start()
        processes.append(process)
        queues.append(errors)
    context = ProcessContext(processes, queues)
    if not join:
        return context
    while not context.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(i, *args)` in `nprocs` fresh processes."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
