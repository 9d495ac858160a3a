"""A thread of the profiler's own that does some work again and again while there is any. It does not know which."""

from __future__ import annotations

import _thread
import time
from collections.abc import Callable

from ...core import tap


class Ticker:
    """Calls `work` after `first` seconds; `work` says after how many it wants to be called again (0: not any more).

    The thread is a bare one: it holds no exit up, nothing traces it, and nobody finds it among their threads.
    `wake`, and `rest` out of `work`, are called under a lock of the owner's.
    """

    def __init__(self, work: Callable[[], float], first: float) -> None:
        self._work = work
        self._first = first
        self._running = False

    def wake(self, lane: tap.Lane) -> None:
        """Have the thread run. What a garbage collection on it frees is noted in `lane`."""
        if not self._running:
            self._running = True
            _thread.start_new_thread(self._run, (lane,))

    def rest(self) -> None:
        """The thread is ending, or is gone since a fork."""
        self._running = False

    def _run(self, lane: tap.Lane) -> None:
        tap.settle(lane)
        delay = self._first
        while delay:
            time.sleep(delay)
            delay = self._work()
