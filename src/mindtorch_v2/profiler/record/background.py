"""Files that are written while the program goes on. It does not know what is written."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

Path = str | os.PathLike[str]


class Export:
    """A file that a thread of its own is writing. The program does not end before the file is complete."""

    def __init__(self, path: Path, write: Callable[[Path], None]) -> None:
        self.path = os.fspath(path)
        self._write = write
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"export {os.path.basename(self.path)}", daemon=False)
        self._thread.start()

    def _run(self) -> None:
        # A recording that goes on may want to see all threads; this one would only be slower for it.
        sys.setprofile(None)
        try:
            self._write(self.path)
        except BaseException as error:
            self._error = error
            log.error("the export to %r failed: %s: %s", self.path, type(error).__name__, error)

    def done(self) -> bool:
        """Whether the file is complete, or has failed."""
        return not self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is done, so many seconds at most; whether it is."""
        self._thread.join(timeout)
        return self.done()

    def result(self, timeout: float | None = None) -> str:
        """The path of the complete file; raises what went wrong, or TimeoutError."""
        if not self.wait(timeout):
            raise TimeoutError(f"the export to {self.path!r} is not complete after {timeout} s: wait longer for it")
        if self._error is not None:
            raise self._error
        return self.path

    def __repr__(self) -> str:
        state = "running" if not self.done() else "failed" if self._error is not None else "complete"
        return f"<Export to {self.path!r}: {state}>"
