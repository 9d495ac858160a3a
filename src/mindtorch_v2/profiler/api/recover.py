"""`recover(path)`: what a recording left on disk, also when its process was killed. How a spool is read is `stored`'s."""

from __future__ import annotations

import os

from ..capture.stored import Contents
from ..read.children import folder_of, with_children
from .trace import Trace


def recover(path: str | os.PathLike[str], window: int | None = None) -> Trace:
    """The capture that a spool holds: all windows that were recorded, or one of them (they count from 1).

    What comes back is a `Capture` with `events()`, `key_averages()` and `export()`. Its `notes` say whether the spool
    ended in order, up to when it reaches if not, and what was lost to damage. A file that is no spool gives a
    ValueError with the position.
    """
    contents = Contents(path)
    capture = contents.capture(window)
    if os.path.isdir(folder_of(path)):
        capture = with_children(capture, folder_of(path), contents.header, contents.has_ended(window))
    return Trace.of(capture)
