"""Intel's instrumentation ranges (ITT). There is no ITT library here, and the functions say so."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Whether an ITT library can be used: never."""
    return False


def _fail() -> NoReturn:
    raise RuntimeError("ITT functions not installed. Are you sure you have a ITT build?")


def range_push(msg: str) -> int:
    """Open a range."""
    _fail()


def range_pop() -> int:
    """Close the innermost range."""
    _fail()


def mark(msg: str) -> None:
    """Mark an instant."""
    _fail()


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range around a block; further arguments are formatted into the message."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
