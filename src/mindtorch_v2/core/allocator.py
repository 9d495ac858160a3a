"""Keeps large temporaries from going back to the operating system after every operation.

glibc hands big blocks out by mmap and takes them back at once, so that each temporary pays for fresh pages; NumPy then
spends most of its time there. Two settings at import let the process keep freed memory and use it again. The price is
that memory once used stays with the process; `MINDTORCH_MALLOC=0` in the environment leaves the allocator alone.
"""

from __future__ import annotations

import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE = 1 << 30


def keep_freed_memory() -> bool:
    """Tune glibc's malloc; False where that is not wanted or not glibc."""
    if os.environ.get("MINDTORCH_MALLOC") == "0" or not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGE) and mallopt(_M_TRIM_THRESHOLD, _LARGE))
