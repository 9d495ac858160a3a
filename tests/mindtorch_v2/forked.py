"""Children that tests fork: what they do, and how they end."""

import os
import signal
import threading
from collections.abc import Callable


def fork(work: Callable[[], object]) -> int:
    """Do some work in a child; its process number."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return pid


def exit_code(pid: int) -> int:
    """How a child ended; one that does not end is killed after a while, so that the test fails instead of hanging."""
    guard = threading.Timer(60, os.kill, (pid, signal.SIGKILL))
    guard.start()
    status = os.waitpid(pid, 0)[1]
    guard.cancel()
    guard.join()
    return os.waitstatus_to_exitcode(status)
