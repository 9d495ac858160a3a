"""torch._dynamo where nothing is compiled: its switches are remembered, its decorators give functions back."""

from __future__ import annotations

import contextlib
from typing import Any

from .compiler import allow_in_graph, assume_constant_result, disable, is_compiling, list_backends, reset
from .settings import Settings

config = Settings("torch._dynamo.config")


def optimize(*args: Any, **kwargs: Any) -> Any:
    """A decorator that gives back what it decorates."""
    return lambda given: given


def graph_break(msg: str = "") -> None:
    """There is no graph to break."""


def mark_dynamic(t: Any, index: Any, **kwargs: Any) -> None:
    """Every dimension is dynamic."""


mark_static = maybe_mark_dynamic = mark_dynamic


class OptimizedModule:
    """A compiled module; torch.compile gives modules back as they are, so none is one."""


__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "optimize",
    "reset",
]


def is_compile_supported(device_type: str) -> bool:
    """Whether code can be compiled for a device."""
    return False


class TransformGetItemToIndex(contextlib.AbstractContextManager[None]):
    """Inside it indexing by tensors could be captured; it works as it is."""

    def __exit__(self, *error: object) -> None:
        """Nothing to undo."""
