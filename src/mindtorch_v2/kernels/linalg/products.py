"""Products of two matrices, taken the way round in which BLAS is quick. It knows plain arrays of one type only."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import C

# Up to so many rows `dot` is used, whose calls are the quicker ones; but it fills its result with zeros beforehand.
FEW_ROWS = 64
# Fewer elements than these in the second factor are not worth a look at how it lies.
WORTH_TURNING = 1 << 14


def times(a: Any, b: Any) -> Any:
    """`a @ b`, its rows side by side in memory."""
    if C is not None and (made := C.times(a, b)) is not None:
        return made
    if b.size >= WORTH_TURNING and _is_quick_turned(a, b):
        return np.ascontiguousarray(b.T.dot(a.T).T)
    return a.dot(b) if len(a) <= FEW_ROWS else np.matmul(a, b)


def times_plus(a: Any, b: Any, c: Any, plus: Any) -> Any:
    """`a @ b + c`, where `c` fits it; `plus` adds, as `np.add` does."""
    if b.size >= WORTH_TURNING and _is_quick_turned(a, b):
        turned = b.T.dot(a.T).T
        return np.add(turned, c, out=np.empty(turned.shape, turned.dtype))  # puts rows side by side on the way
    result = a.dot(b) if len(a) <= FEW_ROWS else np.matmul(a, b)
    return plus(result, c, out=result)


def _is_quick_turned(a: Any, b: Any) -> bool:
    """Whether `(b.T @ a.T).T` and a copy are quicker: few rows and many columns, where `b` has its columns side by side.

    OpenBLAS packs the larger factor the slower way then, with AVX-512 above all: the other way round takes 0.5 to 0.9 of
    the time there, and as long on other machines.
    """
    rows, inner = a.shape
    return (
        rows >= 16
        and inner >= 6 * rows
        and b.shape[1] >= 4 * rows
        and b.strides[0] == b.itemsize
        and a.strides[1] == a.itemsize
    )
