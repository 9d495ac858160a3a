"""Kernels that lay an expanded gradient out in memory before they use it, as ops that show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._compute import unwrap
from .._tensor import as_array, make


def densely(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of a backward row as what runs while a recorder is on: its copy of the gradient is an op."""

    def calls(gradient: Any, *rest: Any) -> Any:
        results = kernel(gradient.contiguous()._a, *[unwrap(v) for v in rest])
        return [make(a) for a in results] if isinstance(results, (tuple, list)) else make(as_array(results))

    return calls
