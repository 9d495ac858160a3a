"""Kernels that lay an expanded gradient out in memory before they use it, as ops that show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._compute import unwrap
from .._tensor import as_array, make


def densely(kernel: Callable[..., Any], takes: Callable[[Any], bool] | None = None) -> Callable[..., Any]:
    """The kernel of a backward row as what runs while a recorder is on: its copy of the gradient is an op.

    `takes` says of which arrays the kernel needs no copy; those that lie in memory in order if it is not given.
    """

    def calls(gradient: Any, *rest: Any) -> Any:
        dense = gradient if takes is not None and takes(gradient._a) else gradient.contiguous()
        results = kernel(dense._a, *[unwrap(v) for v in rest])
        return [make(a) for a in results] if isinstance(results, (tuple, list)) else make(as_array(results))

    return calls
