"""Locks and forked processes: a child is a copy with one thread only, so what another thread held is held for ever."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import threading

_Lock = TypeVar("_Lock", bound=Any)


def free_in_children(lock: _Lock) -> _Lock:
    """The lock, which forked children will find free. For locks that guard one quick change each."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)
    return lock


def held_while_forking(lock: threading.Lock) -> None:
    """Have forks wait until nobody holds the lock. For locks that guard what must not be copied half done."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
