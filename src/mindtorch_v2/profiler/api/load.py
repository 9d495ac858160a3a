"""`load(path)`: a recording read back from a file, whoever wrote it. It does not know what the formats look like."""

from __future__ import annotations

import os

from ..capture.spoolfile import is_spool
from ..read.kineto import read_chrome
from ..read.torch_windows import with_modules
from .recover import recover
from .trace import Trace


def load(path: str | os.PathLike[str]) -> Trace:
    """Read a Chrome trace of this package or of torch 2.x, plain or gzipped, or a spool of ours.

    What comes back is a `Capture` with `events()`, `key_averages()` and `export()`. A file that cannot be understood
    gives a TraceError with the position; `notes` say what was left out.
    """
    return recover(path) if is_spool(path) else Trace.of(with_modules(read_chrome(path)))
