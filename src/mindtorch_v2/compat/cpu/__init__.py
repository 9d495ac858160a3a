"""torch.cpu: the CPU asked as if it were an accelerator with one device."""

from __future__ import annotations

from typing import Any

from . import amp as amp


class Stream:
    """The one stream there is."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        pass

    def record_event(self) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass


class Event:
    """A mark in it, passed as soon as it is made."""

    def query(self) -> bool:
        return True

    def record(self, stream: Any = None) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass


class StreamContext:
    """`with torch.cpu.stream(s)` changes nothing."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        pass


_current = Stream()


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


def device_count() -> int:
    return 1


def current_device() -> str:
    return "cpu"


def set_device(device: Any) -> None:
    """There is only one."""


def synchronize(device: Any = None) -> None:
    """Every op has ended when it returns."""


def current_stream(device: Any = None) -> Stream:
    return _current


def stream(stream: Any) -> StreamContext:
    return StreamContext(stream)
