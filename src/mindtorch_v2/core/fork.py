"""Locks and forked processes: a child is a copy with one thread only, so what another thread held is held for ever."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import threading

_Lock = TypeVar("_Lock", bound=Any)
_Result = TypeVar("_Result")

# Nobody waits for longer; see `one_at_a_time`.
_LONGEST_WAIT_S = 5.0


def free_in_children(lock: _Lock) -> _Lock:
    """The lock, which forked children will find free. For locks that guard one quick change each."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)
    return lock


def one_at_a_time(lock: threading.RLock, function: Callable[..., _Result], *args: Any) -> _Result:
    """Call a function while no other thread calls one under the same lock.

    A finalizer may run in the midst of anything, so also on a thread that holds another lock, which whoever is inside may
    be waiting for. Neither would get any further: after some seconds the function is called all the same.
    """
    is_held = lock.acquire(False) or lock.acquire(timeout=_LONGEST_WAIT_S)  # a limit takes longer than the lock itself
    try:
        return function(*args)
    finally:
        if is_held:
            lock.release()


def held_while_forking(lock: threading.Lock | threading.RLock) -> None:
    """Have forks wait until nobody holds the lock. For locks that guard what must not be copied half done."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
