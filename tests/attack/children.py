"""Work in forked processes: what an attack does there may crash or hang, and is told of."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 20  # nothing may take longer


class Failure(AssertionError):
    """Something that must not happen did."""


def forked(work: Callable[[], object], words: Path) -> int:
    """Do some work in a process group of its own; its number. What it says goes to a file."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        out = os.open(words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def waited(pid: int, seconds: float = PATIENCE_S) -> int:
    """How a process ended; one that does not is killed, with its group."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise Failure(f"it did not end within {seconds} s")


def outcome(work: Callable[[], object], words: Path, seconds: float = PATIENCE_S) -> str:
    """Why work in a process of its own went wrong, with what it said; or nothing."""
    try:
        status = waited(forked(work, words), seconds)
    except Failure as error:
        return f"{error}\n{words.read_text()[-3000:]}"
    return f"status {status}\n{words.read_text()[-3000:]}" if status else ""
