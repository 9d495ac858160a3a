"""Owns fast and accurate sums of float32, float64 and complex arrays over any set of axes.

Everything that adds up many floats goes through here; element types and argument checks are the caller's.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]

# Below this many elements the set-up of the BLAS path costs more than it saves.
SMALL = 4096
# A running float32 sum loses digits as it grows; sums of blocks are added up instead. Along a row BLAS keeps many
# partial sums, hence may go further.
ROW_BLOCK = 8192
COLUMN_BLOCK = 1024
_ONES = {np.dtype(t): np.ones(ROW_BLOCK, t) for t in (np.float32, np.float64)}


def reduced(
    ufunc: Any, a: Array, axes: tuple[int, ...] | None, keepdim: bool = False, dtype: np.dtype[Any] | None = None
) -> Array:
    """``ufunc.reduce``, whose result is an array even when it has no dimension."""
    return np.asarray(ufunc.reduce(a, axis=axes, dtype=dtype, keepdims=keepdim))


def total(a: Array, axes: tuple[int, ...] | None = None, keepdim: bool = False) -> Array:
    """Sum of ``a`` over ``axes`` (all when None) in the type of ``a``."""
    if a.size <= SMALL or a.dtype.kind not in "fc":
        return reduced(np.add, a, axes, keepdim)
    if axes is None:
        axes = tuple(range(a.ndim))
    shape = reduced_shape(a.shape, axes, keepdim)
    if a.dtype.kind == "c":
        pairs = np.ascontiguousarray(a)[..., None].view(a.real.dtype)
        return total(pairs, axes).view(a.dtype).reshape(shape)
    if not a.flags.c_contiguous:
        # Axes in the order they lie in memory, so that reshaping below need not copy.
        order = sorted(range(a.ndim), key=lambda axis: -abs(a.strides[axis]))
        if order != list(range(a.ndim)):
            back = [order.index(axis) for axis in range(a.ndim)]
            summed = _sum_runs(a.transpose(order), sorted(back[axis] for axis in axes))
            return np.ascontiguousarray(summed.transpose(back)).reshape(shape)
    return _sum_runs(a, sorted(axes)).reshape(shape)


def sum_of_squares(a: Array, axes: tuple[int, ...] | None = None, keepdim: bool = False) -> Array:
    """Sum of the squares of ``a`` over ``axes``, without a temporary where the axes are the last ones."""
    if axes is None:
        axes = tuple(range(a.ndim))
    outer = a.ndim - len(axes)
    if a.flags.c_contiguous and a.size and sorted(axes) == list(range(outer, a.ndim)):
        rows = a.reshape(math.prod(a.shape[:outer]), -1)
        shape = reduced_shape(a.shape, axes, keepdim)
        return np.asarray(np.einsum("ij,ij->i", rows, rows)).reshape(shape)
    return total(np.square(a), axes, keepdim)


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """``shape`` without ``axes``, or with 1 in their places."""
    if keepdim:
        return tuple(1 if axis in axes else n for axis, n in enumerate(shape))
    return tuple(n for axis, n in enumerate(shape) if axis not in axes)


def _sum_runs(a: Array, axes: list[int]) -> Array:
    """Sum each run of adjacent axes at once, the innermost run first; summed axes keep the length 1."""
    while axes:
        stop = axes[-1] + 1
        start = axes.pop()
        while axes and axes[-1] == start - 1:
            start = axes.pop()
        before, run, after = a.shape[:start], a.shape[start:stop], a.shape[stop:]
        summed = _sum_middle(a.reshape(math.prod(before), math.prod(run), math.prod(after)))
        a = summed.reshape(before + (1,) * len(run) + after)
    return a


def _sum_middle(a: Array) -> Array:
    """``a.sum(1)`` of a three-dimensional array by products with ones."""
    outer, n, inner = a.shape
    if n == 1:
        return a[:, 0].copy()  # callers may write into a sum
    block = ROW_BLOCK if inner == 1 else COLUMN_BLOCK
    if n > block:
        return _sum_blocks(a, block)
    ones = _ONES[a.dtype][:n]
    summed: Array
    if inner == 1:
        summed = a[:, :, 0].dot(ones)[:, None]
    elif outer == 1:
        summed = ones.dot(a[0])[None]
    else:
        summed = np.matmul(ones, a)
    return summed


def _sum_blocks(a: Array, block: int) -> Array:
    outer, n, inner = a.shape
    whole = n - n % block
    body = a[:, :whole].reshape(outer, whole // block, block, inner)
    ones = _ONES[a.dtype][:block]
    parts = np.matmul(body[..., 0], ones)[..., None] if inner == 1 else np.matmul(ones, body)
    summed = _sum_middle(parts)
    return summed + _sum_middle(a[:, whole:]) if whole < n else summed
