"""How a recorded child process comes to its end: whatever ends it, what it recorded last is brought home before.

It owns what is done about `os._exit` and SIGTERM in a child, and about Ctrl-C while files are written. It does not know
what is recorded or where it goes.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ...core import tap

_exit = os._exit
_NUMBER = signal.SIGTERM


class Watch:
    """Sees SIGTERM for a main thread that may never run Python again.

    Python acts on a signal once its main thread is back from C. One that comes just before a call that waits is seen
    when the call returns, which in a worker that waits for its next task is never. The default action, in whose place
    the profiler's handler stands, does not wait either. So Python tells a pipe as well, and a thread reads that.
    """

    def __init__(self, finish: Callable[[], None], outer: Watch | None) -> None:
        self._finish = finish
        self._told = False
        self._ears, self._voice = os.pipe()
        os.set_blocking(self._voice, False)
        # Whoever was told before is still told of the signals that are no business of this.
        self._next = signal.set_wakeup_fd(self._voice, warn_on_full_buffer=False)
        if outer is not None:
            # Of the process that forked this one: what comes here must not be heard there.
            self._next = outer._next if self._next == outer._voice else self._next
            os.close(outer._ears)
            os.close(outer._voice)
        signal.signal(_NUMBER, self.tell)

    def listen(self) -> None:
        """Have Python tell this one of signals, again, if it tells nobody."""
        there = signal.set_wakeup_fd(self._voice, warn_on_full_buffer=False)
        if there not in (-1, self._voice):
            signal.set_wakeup_fd(there, warn_on_full_buffer=False)

    def start(self, lane: tap.Lane) -> None:
        _thread.start_new_thread(self._run, (lane,))

    def tell(self, number: int, frame: object) -> None:
        """The handler: it only tells the thread, since what it interrupts may hold what the thread needs.

        A handler of the program's own may call it as the one that was there before.
        """
        self._told = True
        with contextlib.suppress(BlockingIOError):
            os.write(self._voice, bytes((number,)))

    def _run(self, lane: tap.Lane) -> None:
        tap.settle(lane)
        while numbers := os.read(self._ears, 1):
            if numbers[0] == _NUMBER and (self._told or signal.getsignal(_NUMBER) == self.tell):
                self._end()
            elif self._next >= 0:
                with contextlib.suppress(OSError):
                    os.write(self._next, numbers)

    def _end(self) -> None:
        """Die of the signal as if nobody had handled it, with everything written."""
        try:
            self._finish()
        finally:
            # `signal.signal` is for the main thread alone.
            ctypes.pythonapi.PyOS_setsig(_NUMBER.value, None)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {_NUMBER})
            os.kill(os.getpid(), _NUMBER)


_watch: Watch | None = None
_finish: Callable[[], None] | None = None
# Handlers that stand in the profiled process where it would have none. Its children are to have none.
_guests: list[Any] = []


@contextlib.contextmanager
def guest_handler(handler: Callable[..., object]) -> Iterator[None]:
    """SIGTERM goes to `handler` in this process, while its children start out with the default action."""
    signal.signal(_NUMBER, handler)
    _guests.append(handler)
    try:
        yield
    finally:
        _guests.remove(handler)
        if signal.getsignal(_NUMBER) is handler:
            signal.signal(_NUMBER, signal.SIG_DFL)


@contextlib.contextmanager
def interrupts_held(reason: str) -> Iterator[None]:
    """Ctrl-C waits for the end of the block, and says why; a second one does not wait. For files that are of use only
    when all of them are there. On other threads, or with a handler of the program's own, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return
    came: list[int] = []

    def hold(number: int, frame: object) -> None:
        came.append(number)
        signal.signal(number, before)
        sys.stderr.write(f"mindtorch: {reason}; Ctrl-C once more gives it up\n")

    try:
        signal.signal(signal.SIGINT, hold)
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def leave_guests() -> None:
    """In a forked child: the program's own handlers, or none."""
    if signal.getsignal(_NUMBER) in _guests:
        signal.signal(_NUMBER, signal.SIG_DFL)


def foresee(finish: Callable[[], None], lane: tap.Lane) -> None:
    """In a forked child: whatever ends it, `finish` is called before. A program's own handler of SIGTERM stays."""
    global _watch, _finish
    if _finish is None:
        atexit.register(finish)
    _finish = finish
    os._exit = _last_words  # type: ignore[assignment]
    handler = signal.getsignal(_NUMBER)
    outer = _watch if _watch is not None and handler == _watch.tell else None
    if handler is signal.SIG_DFL or outer is not None:
        _watch = Watch(finish, outer)
        _watch.start(lane)


def _last_words(status: int) -> None:
    """`os._exit` of a recorded child: what it recorded since the last flush is written first."""
    try:
        if _finish is not None:
            _finish()
    finally:
        _exit(status)


# While a process is copied SIGTERM waits: until the copy has a watch of its own it would be heard by the original's.
_masks: dict[int, set[Any]] = {}
_after_asyncio = False


def _listen_again() -> None:
    """In a forked child, after all others had their say."""
    if _watch is not None:
        _watch.listen()


def hold_signal() -> None:
    global _after_asyncio
    if not _after_asyncio and "asyncio.events" in sys.modules:
        # Since Python 3.12 asyncio takes the wakeup descriptor away in children. What is registered later runs later.
        os.register_at_fork(after_in_child=_listen_again)
        _after_asyncio = True
    _masks[_thread.get_ident()] = set(signal.pthread_sigmask(signal.SIG_BLOCK, {_NUMBER}))


def release_signal() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.pop(_thread.get_ident()))
