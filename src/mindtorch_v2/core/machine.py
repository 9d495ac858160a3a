"""What a run depends on beside the program: the processor, how many of it the process may use, and with how many threads
it computes. It knows no kernels: whoever sets the number of threads says so here."""

from __future__ import annotations

import functools
import os
import platform


def default_threads() -> int:
    """What the environment asks for, else one thread for each processor this process may run on."""
    requested = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if requested.isdecimal() and int(requested) > 0:
        return int(requested)
    return processors()


def processors() -> int:
    """How many processors this process may run on."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


# With how many threads kernels compute now.
THREADS = [default_threads()]


@functools.cache
def processor_name() -> str:
    """The model of the processor, as the system calls it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        models = []
    return models[0] if models else platform.processor() or platform.machine()
