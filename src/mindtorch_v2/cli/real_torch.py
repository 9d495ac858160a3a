"""The installed torch for `mindtorch profile --torch`: finds it, loads it, and sees to it that nothing of this package changes
how it runs."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType

from ..launch.launcher import SHIM
from .terminal import UserError

_ALLOCATOR = "MINDTORCH_MALLOC"
# Kineto tells of the beginning and end of every window on stderr otherwise.
_KINETO_QUIET = ("KINETO_LOG_LEVEL", "6")


def installed() -> bool:
    """Whether there is a torch other than this package, which is not loaded to find out."""
    path, sys.path[:] = sys.path[:], [entry for entry in sys.path if entry != SHIM]
    try:
        return "torch" not in sys.modules and importlib.util.find_spec("torch") is not None
    except (ImportError, ValueError):
        return False
    finally:
        sys.path[:] = path


def restart_with_plain_allocator() -> None:
    """Start this command again with malloc as it is: this package has it keep freed memory, which would make real torch
    faster than it is."""
    if os.environ.get(_ALLOCATOR) != "0" and sys.platform.startswith("linux"):
        os.environ[_ALLOCATOR] = "0"
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def load() -> ModuleType:
    """The installed torch."""
    loaded = sys.modules.get("torch")
    if loaded is not None and loaded is sys.modules.get(__name__.partition(".")[0]):
        raise UserError(
            "torch is mindtorch_v2 in this process already; run `mindtorch profile --torch` in one of its own"
        )
    if loaded is None and not installed():
        raise UserError(
            f"no torch is installed for {sys.executable}; `pip install torch`, or leave out --torch to time mindtorch_v2"
        )
    os.environ.setdefault(*_KINETO_QUIET)
    return importlib.import_module("torch")
