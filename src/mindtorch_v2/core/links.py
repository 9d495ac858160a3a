"""Names of shared memory, for the strategy `file_system`: hard links, and who removes them.

A block of memory has as many names as there are processes that hold it and messages that carry it, each with one owner
who removes it; so nobody counts references across processes. The names of a process and of those forked from it begin
alike. A shell waits for the end of them all, however they end, and removes what is left; it has a session of its own, so
that what kills a whole group of processes does not reach it.
"""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from .fork import free_in_children, held_while_forking

_WATCH = r'trap "" HUP INT QUIT TERM; read -r line; printf "%s\0" "$1"* | xargs -0 rm -f --'
_lock = threading.Lock()
_numbers = itertools.count()
_watched: list[tuple[str, int]] = []  # how names begin, and the pipe whose other end the shell reads


class _Own(set[str]):
    """Names that this process is to remove when it ends."""

    pid = 0


_own = _Own()
_own_lock = free_in_children(threading.Lock())
held_while_forking(_lock)


def _folder() -> str:
    """Where names are: in memory if the system has such a place."""
    for folder in ("/dev/shm", os.environ.get("TMPDIR", ""), "/tmp"):
        if folder and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise RuntimeError("no folder for shared memory: neither /dev/shm nor TMPDIR nor /tmp can be written to")


def _beginning() -> str:
    """How the names of this process begin; from the first one on they are watched."""
    with _lock:
        if not _watched:
            beginning = os.path.join(_folder(), f"torch_{os.getpid()}_{os.urandom(4).hex()}_")
            _watched.append((beginning, _watch(beginning)))
        return _watched[0][0]


def _watch(beginning: str) -> int:
    """Start the shell that removes names once the returned descriptor is closed in every process."""
    reading, writing = os.pipe()
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    actions: list[Any] = [(os.POSIX_SPAWN_DUP2, reading, 0), *null]
    call: Any = (["sh", "-c", _WATCH, "sh", beginning], dict(os.environ))
    try:
        try:
            os.posix_spawn("/bin/sh", *call, file_actions=actions, setsid=True)
        except NotImplementedError:
            os.posix_spawn("/bin/sh", *call, file_actions=actions)
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    return writing


def _fresh(make: Callable[[str], Any]) -> tuple[str, Any]:
    """A new name, and what `make` returned for it."""
    beginning = _beginning()
    while True:
        path = f"{beginning}{os.getpid()}_{next(_numbers)}"
        try:
            return path, make(path)
        except FileExistsError:
            continue  # by a process of the same number that has ended


def create() -> tuple[str, int]:
    """A new empty file: its name, and it opened."""
    path, fd = _fresh(lambda path: os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    _keep(path)
    return path, int(fd)


def link(path: str) -> str:
    """A new name for what has one."""
    return _fresh(lambda new: os.link(path, new))[0]


def _keep(path: str) -> None:
    with _own_lock:
        if _own.pid != os.getpid():
            _own.clear()
            _own.pid = os.getpid()
            _at_exit(drop_all)
        _own.add(path)


def keep(path: str) -> str:
    """Say that a name is this process's to remove when it ends."""
    _keep(path)
    return path


def drop(path: str, pid: int) -> None:
    """Remove a name, in the process that owns it."""
    if pid == os.getpid():
        _own.discard(path)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass  # the watcher was quicker


def drop_all() -> None:
    """Remove all names this process owns."""
    for path in list(_own) if _own.pid == os.getpid() else ():
        drop(path, _own.pid)


def _at_exit(function: Callable[[], None]) -> None:
    """Have something called when the process ends. Children of multiprocessing end without Python's exit functions."""
    util: Any = sys.modules.get("multiprocessing.util")
    if util is None:
        atexit.register(function)
    else:
        util.Finalize(None, function, exitpriority=0)
