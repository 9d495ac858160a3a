"""Hand-written public functions for names that have several overloads, or none of the table's own making."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FRONTS: dict[str, Any] = {}


def front(name: str) -> Callable[[Any], Any]:
    """Make the decorated function the public one of `name`."""

    def register(function: Any) -> Any:
        FRONTS[name] = function
        function.__module__ = "mindtorch_v2"
        return function

    return register
