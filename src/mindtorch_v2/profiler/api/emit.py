"""Context managers for outside tools (`emit_itt`, `emit_nvtx`) and readers of a tool long gone (nvprof)."""

from __future__ import annotations

import sqlite3
from types import TracebackType
from typing import Any, NoReturn

from ..capture.window import Window
from ..record.config import RecordOptions
from .lists import EventList


class emit_itt:
    """Would make each op an ITT range. Without an ITT library it only keeps torch's manners."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.entered = False
        self.record_shapes = record_shapes
        self._window: Window | None = None

    def __enter__(self) -> emit_itt | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("ITT annotation context manager is not reentrant")
        self.entered = True
        self._window = Window(RecordOptions(shapes=self.record_shapes))
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        if not self.enabled:
            return None
        if self._window is not None:
            self._window.stop()
            self._window = None
        return False


class emit_nvtx:
    """Would make each op an NVTX range; there is no CUDA here, so it works only when disabled."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.entered = False
        self.record_shapes = record_shapes

    def __enter__(self) -> emit_nvtx | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("NVTX annotation context manager is not reentrant")
        raise AssertionError("emit_nvtx() needs CUDA, which is not there: use emit_nvtx(enabled=False)")

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        return None


class EnforceUnique:
    """Raises when a key is seen twice."""

    def __init__(self) -> None:
        self.seen: set[tuple[Any, ...]] = set()

    def see(self, *key: Any) -> None:
        if key in self.seen:
            raise RuntimeError(f"duplicate key: {key}")
        self.seen.add(key)


def load_nvprof(path: str) -> EventList:
    """The events of an nvprof database."""
    return EventList(parse_nvprof_trace(path))


def parse_nvprof_trace(path: str) -> NoReturn:
    """Read an nvprof database as far as it can be one: its kernels ran on a GPU, of which nothing is known here."""
    with sqlite3.connect(path) as connection:
        names = [row[0] for row in connection.execute("SELECT value FROM StringTable")]
    raise RuntimeError(f"{path} is an nvprof database ({len(names)} names); GPU kernels cannot be read from it here")
