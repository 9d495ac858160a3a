"""Programs that record into a spool and come to a bad end, each in a way of its own.

A victim counts its steps and, after each flush, writes into a ledger how many of them the spool holds from then on. Run
as a script it is a program of its own: `victims.py WAY FOLDER SEED`.
"""

import ctypes
import multiprocessing
import os
import random
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mindtorch_v2 as torch
from mindtorch_v2.core import files
from mindtorch_v2.profiler import profile, record_function, schedule
from mindtorch_v2.profiler.capture import spoolfile
from mindtorch_v2.profiler.record.recorder import RECORDER
from mindtorch_v2.utils.data import DataLoader, Dataset

SPOOL, LEDGER, EXPORT = "run.mtspool", "ledger", "trace.json"


class Victim:
    """The program: what it records and what it says of itself."""

    def __init__(self, folder: Path, seed: int, say_ready: Callable[[], object] = lambda: None) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.spool = folder / SPOOL
        self.say_ready = say_ready
        self._ledger = os.open(folder / LEDGER, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.steps = 0
        self.profilers: list[profile] = []
        self.x = torch.ones((4, 4), requires_grad=True)
        # As in a terminal, also where whoever runs this ignores them, as `nohup` and background jobs do.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def profile(self, **options: Any) -> profile:
        made = profile(record_shapes=True, profile_memory=True, spool=self.spool, **options)
        made.start()
        # One that nobody holds would stop.
        self.profilers.append(made)
        return made

    def work(self, steps: int) -> None:
        """Some steps, and what the spool holds of them."""
        for _ in range(steps):
            with record_function("step"), record_function("inner"):
                (self.x * self.x).sum().backward()
            self.steps += 1
            if self.steps % 3 == 0:
                self.flush()

    def flush(self) -> None:
        steps = self.steps
        sinks: list[Any] = [session.sink for session in RECORDER.sessions if session.sink is not None]
        for sink in sinks:
            sink.flush()
        if sinks and not any(sink.spool.failure for sink in sinks):
            self.note(f"held {os.getpid()} {steps}")

    def note(self, words: str) -> None:
        os.write(self._ledger, f"{words}\n".encode())

    def reopen_ledger(self) -> None:
        self._ledger = os.open(self.folder / LEDGER, os.O_WRONLY | os.O_APPEND)

    def forked(self, work: Callable[[], object]) -> int:
        """Do some work in a child of its own."""
        pid = os.fork()
        if pid == 0:
            self.steps = 0
            self.note(f"worker {os.getpid()}")
            try:
                work()
            finally:
                os._exit(0)
        return pid

    def forever(self) -> None:
        """Work until somebody puts an end to it."""
        self.work(3)
        self.say_ready()
        while True:
            self.work(1)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Way(NamedTuple):
    """How a victim ends: what it does itself, and the signals it is sent once it is ready."""

    inside: Callable[[Victim], object]
    signals: tuple[int, ...] = ()
    # Whether it needs an interpreter of its own, which ends as interpreters do.
    is_program: bool = False
    # Whether what was flushed may be gone: somebody else took it away.
    may_lose: bool = False


def forever(victim: Victim) -> None:
    victim.profile()
    with record_function("outermost"):
        victim.forever()


def at_step(end: Callable[[], object]) -> Callable[[Victim], None]:
    """Come to an end in the midst of a step."""

    def run(victim: Victim) -> None:
        victim.profile()
        with record_function("outermost"):
            victim.work(victim.random.randrange(3, 40))
            with record_function("step"):
                end()

    return run


def _segv() -> None:
    ctypes.string_at(0)


def _exec() -> None:
    os.execv("/bin/true", ["true"])


def _exit_thread() -> None:
    thread = threading.Thread(target=sys.exit)
    thread.start()
    thread.join()
    os._exit(1)


def _no_memory() -> None:
    bytearray(1 << 60)


def _recursion() -> None:
    _recursion()


def _raise() -> None:
    raise KeyError("the end")


def mid_write(partly: bool) -> Callable[[Victim], None]:
    """Die in some write of the spool, or right after it: between the chunks of one flush."""

    def run(victim: Victim) -> None:
        victim.profile()
        real, left = os.pwrite, [victim.random.randrange(1, 60)]

        def write(number: int, data: Any, offset: int) -> int:
            left[0] -= 1
            if left[0] > 0:
                return real(number, data, offset)
            real(number, data[: len(data) // 2] if partly else data, offset)
            die()
            return 0

        with record_function("outermost"):
            victim.work(3)
            spoolfile.os.pwrite = write  # type: ignore[attr-defined]
            victim.work(1000)

    return run


def during_stop(victim: Victim) -> None:
    made = victim.profile()
    with record_function("outermost"):
        victim.work(victim.random.randrange(3, 40))
        real, left = os.pwrite, [victim.random.randrange(1, 5)]

        def write(number: int, data: Any, offset: int) -> int:
            left[0] -= 1
            if not left[0]:
                die()
            return real(number, data, offset)

        spoolfile.os.pwrite = write  # type: ignore[attr-defined]
        made.stop()
        die()


def during_export(victim: Victim) -> None:
    made = victim.profile()
    victim.work(6)
    made.stop()
    real, left = files._Named.write, [victim.random.randrange(1, 10)]

    def write(file: Any, data: Any) -> int:
        left[0] -= 1
        if not left[0]:
            die()
        return real(file, data)

    files._BUFFER = 512
    files._Named.write = write  # type: ignore[method-assign]
    made.export(victim.folder / EXPORT)
    die()


def worker(victim: Victim) -> None:
    """One child dies, another ends in order."""
    made = victim.profile(workers=True)
    with record_function("outermost"):
        victim.work(3)
        doomed = victim.forked(victim.forever)
        fine = victim.forked(lambda: victim.work(6))
        time.sleep(victim.random.random() * 0.05)
        os.kill(doomed, signal.SIGKILL)
        for pid in (doomed, fine):
            os.waitpid(pid, 0)
        victim.work(3)
    made.stop()


def parent_of_workers(victim: Victim) -> None:
    victim.profile(workers=True)
    with record_function("outermost"):
        victim.work(3)
        for _ in range(2):
            victim.forked(lambda: (victim.work(30), time.sleep(0.05)))
        victim.forever()


def unrecorded_child(victim: Victim) -> None:
    """A fork without exec, of a profiler that does not record children."""
    victim.profile()
    pid = os.fork()
    if pid == 0:
        for _ in range(10):
            (victim.x * victim.x).sum().backward()
        os._exit(0)
    os.waitpid(pid, 0)
    with record_function("outermost"):
        victim.forever()


def double_fork(victim: Victim) -> None:
    made = victim.profile(workers=True)

    def middle() -> None:
        victim.work(3)
        inner = victim.forked(victim.forever)
        time.sleep(victim.random.random() * 0.05)
        os.kill(inner, signal.SIGKILL)
        os.waitpid(inner, 0)
        die()

    os.waitpid(victim.forked(middle), 0)
    victim.work(3)
    made.stop()


def while_children_start(victim: Victim) -> None:
    made = victim.profile(workers=True)
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            while True:
                (victim.x * victim.x).sum().backward()
        victim.note(f"worker {pid}")
        time.sleep(victim.random.choice([0, 0, 0.001, 0.003]))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    victim.work(3)
    made.stop()


def pool(victim: Victim) -> None:
    victim.profile(workers=True)
    workers = multiprocessing.get_context("fork").Pool(2)
    pids = workers.map(_pid, range(8), chunksize=1)
    for pid in sorted(set(pids)):
        victim.note(f"worker {pid}")
    # It may hold what the other one and the pool wait for, so the pool does not end in order.
    os.kill(pids[0], signal.SIGKILL)
    victim.work(3)
    die()


def _pid(number: int) -> int:
    time.sleep(0.01)
    with record_function("in a pool"):
        return os.getpid()


class _Ones(Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Any:
        return torch.ones(4) * os.getpid()


def loader(victim: Victim) -> None:
    victim.profile(workers=True)
    with record_function("outermost"):
        victim.work(3)
        batches = iter(DataLoader(_Ones(), batch_size=2, num_workers=2))
        pid = int(next(batches)[0, 0].item())
        victim.note(f"worker {pid}")
        os.kill(pid, signal.SIGKILL)
        victim.work(3)
        die()


def closed_descriptors(victim: Victim) -> None:
    victim.profile()
    with record_function("outermost"):
        victim.work(6)
        os.closerange(3, 256)
        victim.reopen_ledger()
        theirs = [os.open(victim.folder / "theirs", os.O_RDWR | os.O_CREAT) for _ in range(10)]
        victim.work(victim.random.randrange(3, 30))
        assert all(os.fstat(number).st_size == 0 for number in theirs)
        die()


def removed(victim: Victim) -> None:
    victim.profile()
    with record_function("outermost"):
        victim.work(6)
        victim.spool.unlink()
        victim.work(6)
        die()


def cut_short(victim: Victim) -> None:
    victim.profile()
    with record_function("outermost"):
        victim.work(9)
        os.truncate(victim.spool, victim.random.randrange(victim.spool.stat().st_size))
        victim.work(6)
        die()


def full_disk(victim: Victim) -> None:
    """A limit on the size of files, which says another thing than a full disk, and the same to whoever writes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    victim.profile()
    with record_function("outermost"):
        victim.work(6)
        size = victim.spool.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + victim.random.randrange(3000), resource.RLIM_INFINITY))
        victim.work(30)
        if victim.random.random() < 0.5:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            victim.work(6)
        victim.note(f"made {os.getpid()} {victim.steps}")
        die()


def two_profilers(victim: Victim) -> None:
    victim.profile()
    other = profile(spool=victim.folder / "other.mtspool", with_stack=True)
    other.start()
    victim.profilers.append(other)
    forever_in(victim)


def forever_in(victim: Victim) -> None:
    with record_function("outermost"):
        victim.forever()


def scheduled(victim: Victim) -> None:
    made = victim.profile(schedule=schedule(wait=0, warmup=1, active=1))
    for _ in range(victim.random.randrange(2, 8)):
        with record_function("step"):
            (victim.x * victim.x).sum().backward()
        made.step()
    die()


WAYS: dict[str, Way] = {
    **{name: Way(forever, (getattr(signal, name),)) for name in ("SIGKILL", "SIGTERM", "SIGHUP", "SIGABRT", "SIGSEGV")},
    "SIGINT": Way(forever, (signal.SIGINT,), is_program=True),
    "SIGSTOP, SIGKILL": Way(forever, (signal.SIGSTOP, signal.SIGKILL)),
    "os._exit": Way(at_step(lambda: os._exit(3))),
    "os.abort": Way(at_step(os.abort)),
    "segmentation fault": Way(at_step(_segv)),
    "exec": Way(at_step(_exec)),
    "sys.exit in a thread": Way(at_step(_exit_thread)),
    "sys.exit": Way(at_step(sys.exit), is_program=True),
    "MemoryError": Way(at_step(_no_memory), is_program=True),
    "recursion": Way(at_step(_recursion), is_program=True),
    "exception": Way(at_step(_raise), is_program=True),
    "in the midst of a write": Way(mid_write(partly=True)),
    "between two writes": Way(mid_write(partly=False)),
    "during stop": Way(during_stop),
    "during export": Way(during_export),
    "a worker": Way(worker),
    "the parent of workers": Way(parent_of_workers, (signal.SIGKILL,)),
    "fork without exec": Way(unrecorded_child, (signal.SIGKILL,)),
    "double fork": Way(double_fork),
    "while children start": Way(while_children_start),
    "a worker of a pool": Way(pool),
    "a worker of a data loader": Way(loader),
    "closed descriptors": Way(closed_descriptors),
    "spool removed": Way(removed),
    "spool cut short": Way(cut_short, may_lose=True),
    "full disk": Way(full_disk),
    "two profilers": Way(two_profilers, (signal.SIGKILL,)),
    "schedule": Way(scheduled),
}


def main() -> None:
    way, folder, seed = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    victim = Victim(Path(folder), int(seed), lambda: print("ready", flush=True))
    WAYS[way].inside(victim)


if __name__ == "__main__":
    main()
