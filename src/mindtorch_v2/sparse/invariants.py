"""What sparse tensors promise beyond what is always checked, and whether that is checked where nobody says so."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_enabled: list[bool] = [False]


class check_sparse_tensor_invariants:
    """Inside a `with` block or a decorated function, new sparse tensors are checked (or not) unless they say otherwise."""

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved_state: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        return _enabled[0]

    @staticmethod
    def enable() -> None:
        _enabled[0] = True

    @staticmethod
    def disable() -> None:
        _enabled[0] = False

    def __enter__(self) -> None:
        if self.saved_state is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context manager instance for context "
                "nesting."
            )
        self.saved_state, _enabled[0] = _enabled[0], self.state

    def __exit__(self, *error: object) -> None:
        assert self.saved_state is not None
        _enabled[0], self.saved_state = self.saved_state, None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked


def wanted(asked: bool | None) -> bool:
    """Whether to check, given what a call says."""
    return _enabled[0] if asked is None else asked


def rises(keys: Any) -> bool:
    """Whether each number is above the one before it."""
    return bool((keys.diff() > 0).all())
