"""Rows of matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._op import composite, op
from .view import t


@op(
    "mm(Tensor self, Tensor mat2) -> Tensor",
    flops=lambda i: 2 * i.shapes[0][0] * i.shapes[0][1] * i.shapes[1][1],
    self=lambda g, mat2: mm(g, t(mat2)),
    mat2=lambda g, self: mm(t(self), g),
)
def _mm(a: Any, b: Any) -> Any:
    try:
        return a.dot(b)
    except ValueError:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
        ) from None


mm = _mm.function


@composite("matmul(Tensor self, Tensor other) -> Tensor")
def _matmul(self: Any, other: Any) -> Any:
    return mm(self, other)


__all__ = ["np"]
