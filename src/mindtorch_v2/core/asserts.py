"""torch._assert and torch._check: conditions that libraries state; each failure is the exception that torch raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Message = Callable[[], object] | None


def _assert(condition: Any, message: object) -> None:
    """As the `assert` statement."""
    if not condition:
        raise AssertionError(message)


def _fail(error: type[Exception], cond: Any, message: Message) -> None:
    if cond:
        return
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    raise error(
        str(message())
        if message is not None
        else "Expected cond to be True, but got False. (Could this error message be "
        "improved? If so, please report an enhancement request to PyTorch.)"
    )


def _check(cond: Any, message: Message = None) -> None:
    _fail(RuntimeError, cond, message)


def _check_index(cond: Any, message: Message = None) -> None:
    _fail(IndexError, cond, message)


def _check_value(cond: Any, message: Message = None) -> None:
    _fail(ValueError, cond, message)


def _check_type(cond: Any, message: Message = None) -> None:
    _fail(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Message = None) -> None:
    _fail(NotImplementedError, cond, message)


def _check_is_size(i: int, message: Message = None, *, max: int | None = None) -> None:
    _fail(RuntimeError, i >= 0 and (max is None or i <= max), message)
