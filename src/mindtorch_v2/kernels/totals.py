"""Owns fast and accurate sums of float32, float64 and complex arrays over any set of axes.

Everything that adds up many floats goes through here; element types and argument checks are the caller's.
"""

from __future__ import annotations

import functools
import math
from typing import Any, TypeAlias

import numpy as np

from .compiled import C

Array: TypeAlias = np.ndarray[Any, Any]

# Below this many elements the set-up of the BLAS path costs more than it saves.
SMALL = 4096
# A product with ones is the fastest sum there is, but a running float32 sum loses digits as it grows. So BLAS adds up
# no more than this many elements, and the results are added up in float64. Along a row it keeps several sums anyway.
COLUMN_TERMS = 128
ROW_TERMS = 256
# einsum keeps more sums side by side, and takes a third of the time of the product for rows longer than that.
EINSUM_TERMS = 512
# BLAS goes through several rows at once. Of more elements than these, which come from memory, einsum takes a third of the
# time, as it goes straight through them; but it starts anew for each row, which costs more for short ones.
IN_CACHE = 1 << 21
SHORT = 16
# So many elements are folded into one matrix, whose columns' sums then stay in the cache.
SLAB = 1 << 20
ONES = {np.dtype(t): np.ones(ROW_TERMS, t) for t in (np.float32, np.float64)}


def reduced(
    ufunc: Any, a: Array, axes: tuple[int, ...] | None, keepdim: bool = False, dtype: np.dtype[Any] | None = None
) -> Array:
    """``ufunc.reduce``, whose result is an array even when it has no dimension."""
    return np.asarray(ufunc.reduce(a, axis=axes, dtype=dtype, keepdims=keepdim), order="C")


def total(a: Array, axes: tuple[int, ...] | None = None, keepdim: bool = False) -> Array:
    """Sum of ``a`` over ``axes`` (all when None) in the type of ``a``."""
    ones = ONES.get(a.dtype)
    if C is not None and ones is not None and axes and a.size > SMALL and max(axes) == len(axes) - 1:
        summed: Array | None = _sum_columns(a, axes, keepdim)
        if summed is not None:
            return summed
    if ones is not None and a.ndim <= 2 and a.size <= IN_CACHE and a.flags.c_contiguous:
        # One product with ones takes half the time of a call of ``reduce``.
        if a.ndim == 2 and axes == (1,) and a.shape[1] <= ROW_TERMS:
            summed = np.asarray(a.dot(ones[: a.shape[1]]))
            return summed.reshape(-1, 1) if keepdim else summed
        if a.ndim == 2 and axes == (0,) and a.shape[0] <= COLUMN_TERMS:
            summed = np.asarray(ones[: a.shape[0]].dot(a))
            return summed.reshape(1, -1) if keepdim else summed
        if not keepdim and a.size <= ROW_TERMS and (axes is None or len(axes) == a.ndim):
            return np.asarray(a.reshape(-1).dot(ones[: a.size]))
    if a.size <= SMALL or a.dtype.kind not in "fc":
        return reduced(np.add, a, axes, keepdim, a.dtype)
    if C is None and ones is not None and not keepdim and a.flags.c_contiguous:
        # The usual sums without the questions that the others need.
        if axes is None:
            return _sum_all(a.reshape(-1)).astype(a.dtype)
        if a.ndim == 2 and axes == (1,):
            return row_sums(a).astype(a.dtype, copy=False)
    if axes is None:
        axes = tuple(range(a.ndim))
    shape = reduced_shape(a.shape, axes, keepdim)
    if C is not None and a.size and min(axes, default=0) == a.ndim - len(axes):
        result = np.empty(shape, a.dtype)
        if C.sum_rows(a, result):
            return result
    if C is not None and a.size and a.flags.c_contiguous and a.ndim - 1 in axes:
        rows = _sum_last(a, axes)
        if rows is not None:
            return total(rows, tuple(axis for axis in axes if axis < rows.ndim)).reshape(shape)
    if a.dtype.kind == "c":
        pairs = np.ascontiguousarray(a)[..., None].view(a.real.dtype)
        return total(pairs, axes).view(a.dtype).reshape(shape)
    if not a.flags.c_contiguous:
        # Axes in the order they lie in memory, so that reshaping below need not copy.
        order = sorted(range(a.ndim), key=lambda axis: -abs(a.strides[axis]))
        if order != list(range(a.ndim)):
            back = [order.index(axis) for axis in range(a.ndim)]
            turned = _sum_runs(a.transpose(order), sorted(back[axis] for axis in axes))
            return np.ascontiguousarray(turned.transpose(back)).reshape(shape)
    return _sum_runs(a, sorted(axes)).reshape(shape)


def _sum_columns(a: Array, axes: tuple[int, ...], keepdim: bool) -> Array | None:
    """The sum over the first axes by the compiled loop; None where others are quicker: for few columns, and few rows."""
    rows = math.prod(a.shape[: len(axes)])
    if rows <= COLUMN_TERMS or not 32 * rows <= a.size <= 16 * rows * rows:
        return None
    result = np.empty(reduced_shape(a.shape, axes, keepdim), a.dtype)
    return result if C.sum_columns(a, result) else None


def _sum_last(a: Array, axes: tuple[int, ...]) -> Array | None:
    """The sum over those of ``axes`` that are the last ones, by the compiled loop; None where that does not take them."""
    outer = a.ndim
    while outer - 1 in axes:
        outer -= 1
    result = np.empty(a.shape[:outer], a.dtype)
    return result if C.sum_rows(a, result) else None


def sum_of_squares(a: Array, axes: tuple[int, ...] | None = None, keepdim: bool = False) -> Array:
    """Sum of the squares of ``a`` over ``axes``, without a temporary where the axes are the last ones."""
    if axes is None:
        axes = tuple(range(a.ndim))
    outer = a.ndim - len(axes)
    if a.flags.c_contiguous and a.size and sorted(axes) == list(range(outer, a.ndim)):
        rows = a.reshape(math.prod(a.shape[:outer]), -1)
        return dot_rows(rows, rows).reshape(reduced_shape(a.shape, axes, keepdim))
    return total(np.square(a), axes, keepdim)


def dot_rows(a: Array, b: Array) -> Array:
    """The inner product of each row of ``a`` with the same row of ``b``."""
    n = a.shape[1]
    part = n if n <= EINSUM_TERMS else row_part(n)
    if part == 0:
        return total(a * b, (1,))
    if part == n or not (a.flags.c_contiguous and b.flags.c_contiguous):
        return _dots(a, b)
    parts = _dots(a.reshape(-1, part), b.reshape(-1, part))
    return _sum_parts(parts.reshape(a.shape[0], -1)).astype(a.dtype, copy=False)


def _dots(a: Array, b: Array) -> Array:
    """Row by row; BLAS does floats, but takes the conjugate of complex numbers."""
    return np.asarray(np.vecdot(a, b) if a.dtype.kind == "f" else np.einsum("ij,ij->i", a, b))


def weighted_sum(weights: Array, rows: Array) -> Array:
    """``weights @ rows``: the rows of a matrix, each with its weight, added up."""
    n, width = rows.shape
    folds = n // COLUMN_TERMS
    if folds <= 1:
        return np.asarray(weights.dot(rows))
    whole = folds * COLUMN_TERMS
    parts = np.matmul(weights[:whole].reshape(folds, 1, COLUMN_TERMS), rows[:whole].reshape(folds, COLUMN_TERMS, width))
    summed = np.add.reduce(parts, axis=(0, 1), dtype=np.float64)
    if whole < n:
        summed += weights[whole:].dot(rows[whole:])
    return np.asarray(summed).astype(rows.dtype)


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """``shape`` without ``axes``, or with 1 in their places."""
    left = list(shape)
    for axis in sorted(axes, reverse=True):
        left[axis : axis + 1] = (1,) if keepdim else ()
    return tuple(left)


@functools.cache
def row_part(n: int) -> int:
    """The greatest length that divides a row of ``n`` and is short enough to add up at once; 0 if all are tiny."""
    return next((part for part in range(EINSUM_TERMS, EINSUM_TERMS // 16, -1) if n % part == 0), 0)


def _sum_runs(a: Array, axes: list[int]) -> Array:
    """Sum each run of adjacent axes at once, the innermost run first; summed axes keep the length 1."""
    while axes:
        stop = axes[-1] + 1
        start = axes.pop()
        while axes and axes[-1] == start - 1:
            start = axes.pop()
        before, run, after = a.shape[:start], a.shape[start:stop], a.shape[stop:]
        summed = _sum_middle(a.reshape(math.prod(before), math.prod(run), math.prod(after)))
        a = summed.astype(a.dtype, copy=False).reshape(before + (1,) * len(run) + after)
    return a


def _sum_middle(a: Array) -> Array:
    """``a.sum(1)`` of a three-dimensional array by products with ones; may come back in float64."""
    outer, n, inner = a.shape
    if n == 1:
        return a[:, 0].copy()  # callers may write into a sum
    if inner == 1 and outer > 1:
        return row_sums(a[:, :, 0])[:, None]
    ones = ONES[a.dtype]
    if outer == 1 and inner == 1 and a.strides[1] == a.itemsize:
        return _sum_all(a.reshape(-1)).reshape(1, 1, 1)
    if n <= COLUMN_TERMS:
        return np.asarray(ones[:n].dot(a[0])[None] if outer == 1 else np.matmul(ones[:n], a))
    # Folded so that one product adds up elements that lie far apart.
    width = n // COLUMN_TERMS
    whole = width * COLUMN_TERMS
    folded = a[:, :whole].reshape(outer, COLUMN_TERMS, width * inner)
    parts = ones[:COLUMN_TERMS].dot(folded[0]) if outer == 1 else np.matmul(ones[:COLUMN_TERMS], folded)
    summed = _sum_middle(parts.reshape(outer, width, inner).astype(np.float64))
    if whole < n:
        summed = summed + _sum_middle(a[:, whole:])
    return summed


def row_sums(a: Array) -> Array:
    """The sum of each row of a matrix of floats; it may come in float64."""
    rows, n = a.shape
    if n < SHORT or (n <= ROW_TERMS and a.size <= IN_CACHE):
        return np.asarray(a.dot(ONES[a.dtype][:n]))
    if a.strides[1] != a.itemsize:
        return np.asarray(np.add.reduce(a, axis=1))
    if n <= EINSUM_TERMS:
        return np.asarray(np.einsum("ij->i", a))
    part = row_part(n) if a.flags.c_contiguous else 0
    if part:
        return _sum_parts(np.einsum("ij->i", a.reshape(-1, part)).reshape(rows, -1))
    # Rows of a length without a good divisor: what is left over is added up apart.
    whole = n - n % EINSUM_TERMS
    summed = _sum_parts(np.einsum("ijk->ij", a[:, :whole].reshape(rows, -1, EINSUM_TERMS)))
    return summed + np.einsum("ij->i", a[:, whole:])


class RowSums:
    """Sums of the rows of a matrix that comes in blocks of rows. Those of parts of rows are added up once, at the end, as
    that costs as much for a few rows as for many."""

    def __init__(self, rows: int, n: int, dtype: np.dtype[Any]) -> None:
        self.part = next((part for part in range(ROW_TERMS, ROW_TERMS // 8, -1) if n % part == 0), n)
        self.sums = np.empty((rows, n // max(self.part, 1)), dtype)

    def add(self, part: slice, block: Array) -> None:
        """Take the rows in one part of the matrix."""
        if self.part <= ROW_TERMS:
            block.reshape(-1, self.part).dot(ONES[block.dtype][: self.part], out=self.sums[part].reshape(-1))
        else:
            self.sums[part, 0] = row_sums(block)

    def result(self) -> Array:
        """The sums, in the type of the rows."""
        if self.sums.shape[1] == 1:
            return self.sums[:, 0]
        return _sum_parts(self.sums).astype(self.sums.dtype)


def _sum_parts(parts: Array) -> Array:
    """Few sums for each row, added up in float64; ``reduce`` is slow along so short an axis."""
    if parts.shape[1] > ROW_TERMS:
        return np.asarray(np.add.reduce(parts, axis=1, dtype=np.float64))
    return np.asarray(parts.astype(np.float64).dot(ONES[np.dtype(np.float64)][: parts.shape[1]]))


def _sum_all(a: Array) -> Array:
    """Sum of a flat array of many elements, in float64: folded into a few rows, whose sum is a product with ones."""
    if a.size > SLAB:
        whole = a.size - a.size % SLAB
        slabs = sum(_sum_all(slab) for slab in a[:whole].reshape(-1, SLAB))
        return np.asarray(slabs + _sum_all(a[whole:]))
    ones, width = ONES[a.dtype], a.size // COLUMN_TERMS
    whole = width * COLUMN_TERMS
    summed = np.add.reduce(ones[:COLUMN_TERMS].dot(a[:whole].reshape(COLUMN_TERMS, width)), dtype=np.float64)
    return np.asarray(summed + a[whole:].dot(ones[: a.size - whole]))
