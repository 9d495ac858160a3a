"""Files that exports are written to: plain, or compressed where the name says so. It does not know formats."""

from __future__ import annotations

import gzip
import os
from typing import IO, Any, cast

try:
    from isal import igzip
except ImportError:
    igzip = None

# The lowest level: a trace repeats itself so much that higher ones take long and gain little.
_LEVEL = 1


def open_binary(path: str | os.PathLike[str]) -> IO[bytes]:
    """A file for writing bytes, compressed if its name ends in `.gz` (by isal where it is installed)."""
    name = os.fspath(path)
    if not name.endswith(".gz"):
        return open(name, "wb")
    compressor: Any = gzip if igzip is None else igzip
    return cast("IO[bytes]", compressor.open(name, "wb", compresslevel=_LEVEL))
