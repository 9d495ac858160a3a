"""Which code is machinery: what runs inside of operators, of which users see nothing in stacks, profiles and tracebacks."""

from __future__ import annotations

import os

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Generated functions have names of files that begin so.
GENERATED = "<mindtorch_v2"
FOLDERS = frozenset(
    ("core", "kernels", "dispatch", "ops", "binding", "autograd/memory", "profiler/record", "profiler/capture")
)


def is_machinery(filename: str) -> bool:
    if filename.startswith(GENERATED):
        return True
    if not filename.startswith(PACKAGE + os.sep):
        return False
    inner = filename[len(PACKAGE) + 1 :].replace(os.sep, "/")
    return inner.partition("/")[0] in FOLDERS or inner.rpartition("/")[0] in FOLDERS
