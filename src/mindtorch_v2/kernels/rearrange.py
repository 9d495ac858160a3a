"""Owns moving elements without computing: triangles, diagonals, rolls, flips, repeats, one-hot, non-zero positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._errors import dim_error, shape_text, wrap_dim, wrap_dims
from .checks import not_implemented
from .precision import narrow, wide
from .totals import Array, total

INT64 = np.dtype(np.int64)


# ---------------------------------------------------------------------------------------------------- triangles


def tril(a: Array, diagonal: int = 0) -> Array:
    """The lower triangle of every matrix, zero above ``diagonal``."""
    return _triangle("tril", a, diagonal)


def triu(a: Array, diagonal: int = 0) -> Array:
    """The upper triangle of every matrix, zero below ``diagonal``."""
    return _triangle("triu", a, diagonal)


def _triangle(name: str, a: Array, diagonal: int) -> Array:
    if a.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
    result = a.copy(order="C")
    for i in range(a.shape[-2]):
        if name == "tril":
            result[..., i, max(i + diagonal + 1, 0) :] = 0
        else:
            result[..., i, : max(i + diagonal, 0)] = 0
    return result


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: np.dtype[Any] = INT64) -> Array:
    """Rows and columns of the lower triangle, row by row."""
    return _triangle_indices("tril", row, col, offset, dtype)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: np.dtype[Any] = INT64) -> Array:
    """Rows and columns of the upper triangle, row by row."""
    return _triangle_indices("triu", row, col, offset, dtype)


def _triangle_indices(name: str, row: int, col: int, offset: int, dtype: np.dtype[Any]) -> Array:
    if row < 0:
        raise RuntimeError(f"row must be non-negative, got{row}")
    if col < 0:
        raise RuntimeError(f"col must be non-negative, got{col}")
    if dtype.kind not in "iu":
        raise not_implemented(f"{name}_indices", dtype)
    below = np.tri(row, col, offset if name == "tril" else offset - 1, np.bool_)
    return np.stack(np.nonzero(below if name == "tril" else ~below)).astype(dtype, copy=False)


# ---------------------------------------------------------------------------------------------------- diagonals


def diagonal(a: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """A writable view of a diagonal of the planes ``dim1`` by ``dim2``, as the last dimension."""
    first, second = wrap_dim(dim1, a.ndim), wrap_dim(dim2, a.ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rows, columns = a.shape[first], a.shape[second]
    length = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    moved = np.moveaxis(a, (first, second), (-2, -1))
    if length == 0:
        return moved[..., :0].reshape(*moved.shape[:-2], 0)
    start = moved[..., max(-offset, 0) :, max(offset, 0) :]
    strides = (*start.strides[:-2], start.strides[-2] + start.strides[-1])
    return np.lib.stride_tricks.as_strided(start, (*start.shape[:-2], length), strides)


def diagonal_backward(grad: Array, shape: tuple[int, ...], offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """Gradient of ``diagonal`` with respect to its input of ``shape``."""
    result = np.zeros(shape, grad.dtype)
    diagonal(result, offset, dim1, dim2)[...] = grad
    return result


def diagonal_scatter(a: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """``a`` with a diagonal replaced by ``src``."""
    result = a.copy()
    line = diagonal(result, offset, dim1, dim2)
    if line.shape != src.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {shape_text(src.shape)}, slice size "
            f"= {shape_text(line.shape)}"
        )
    line[...] = src
    return result


def diag_embed(a: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """Matrices in dimensions ``dim1`` and ``dim2`` whose diagonal is the last dimension of ``a``."""
    ndim = a.ndim + 1
    first, second = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    side = a.shape[-1] + abs(offset)
    shape = list(a.shape[:-1])
    for axis in sorted((first, second)):
        shape.insert(axis, side)
    result = np.zeros(shape, a.dtype)
    diagonal(result, offset, first, second)[...] = a
    return result


def diag(a: Array, diagonal: int = 0) -> Array:
    """The diagonal of a matrix, or the matrix with a given diagonal."""
    if a.ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {a.ndim}D")
    return diag_embed(a, diagonal) if a.ndim == 1 else _diagonal_copy(a, diagonal)


def _diagonal_copy(a: Array, offset: int) -> Array:
    return diagonal(a, offset).copy()


# ---------------------------------------------------------------------------------------------------- order and repeats


def flip(a: Array, dims: int | Sequence[int]) -> Array:
    """``a`` read backwards along ``dims``."""
    axes = wrap_dims(dims, a.ndim)
    return np.flip(a, axes).copy() if a.ndim and axes else a.copy()


def roll(a: Array, shifts: int | Sequence[int], dims: int | Sequence[int] = ()) -> Array:
    """``a`` moved round by ``shifts`` along ``dims``, or flattened where no dimension is named."""
    by = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    along = (dims,) if isinstance(dims, int) else tuple(dims)
    if not by:
        raise RuntimeError("`shifts` required")
    if not along and len(by) == 1:
        return _roll_axis(a.reshape(-1), by[0], 0).reshape(a.shape)
    if len(by) != len(along):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(by)}, dims:{len(along)}")
    if a.ndim == 0:
        raise IndexError(f"Dimension specified as {along[0]} but tensor has no dimensions")
    if a.size == 0:
        return a.copy()
    for shift, axis in zip(by, along):
        a = _roll_axis(a, shift, wrap_dim(axis, a.ndim))
    return np.ascontiguousarray(a)


def _roll_axis(a: Array, shift: int, axis: int) -> Array:
    if a.size == 0:
        return a.copy()
    head, tail = np.split(a, [-shift % a.shape[axis]], axis=axis)
    return np.concatenate((tail, head), axis=axis)


def repeat_interleave(
    a: Array, repeats: Array | int, dim: int | None = None, *, output_size: int | None = None
) -> Array:
    """Each slice of ``a`` along ``dim`` (each element when None) as often as ``repeats`` says."""
    if dim is None:
        a, dim = a.reshape(-1), 0
    elif a.ndim == 0:
        if isinstance(repeats, np.ndarray):
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        raise dim_error(wrap_dim(dim, 0) + 1, 0)
    if isinstance(repeats, np.ndarray):
        counts = _check_repeats(a, repeats, dim)
    elif repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    else:
        counts = np.full(1, repeats)
    axis = wrap_dim(dim, a.ndim)
    result = np.repeat(a, int(counts[0]) if counts.size == 1 else counts, axis=axis)
    if output_size is not None and output_size != result.shape[axis]:
        raise RuntimeError("allocated size does not match required size")
    return result


def _check_repeats(a: Array, repeats: Array, dim: int) -> Array:
    if repeats.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    size = a.shape[wrap_dim(dim, a.ndim)]
    if repeats.ndim and repeats.size not in (1, size):
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {repeats.size} and "
            f"input.size({dim}) = {size}"
        )
    if repeats.dtype not in (INT64, np.int32):
        raise not_implemented("repeat_interleave_cpu", repeats.dtype)
    if repeats.size and repeats.min() < 0:
        raise RuntimeError("repeats can not be negative")
    return repeats.reshape(-1)


def repeat_counts(repeats: Array) -> Array:
    """Each position as often as ``repeats`` says there: ``repeat_interleave`` of an index alone."""
    if repeats.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if repeats.dtype not in (INT64, np.int32):
        raise not_implemented("repeat_interleave_cpu", repeats.dtype)
    if repeats.size and repeats.min() < 0:
        raise RuntimeError("repeats can not be negative")
    return np.repeat(np.arange(repeats.size, dtype=repeats.dtype), repeats)


def repeat_backward(grad: Array, repeats: Sequence[int], shape: tuple[int, ...]) -> Array:
    """Gradient of ``repeat`` (tiling) with respect to its input of ``shape``."""
    lead = len(repeats) - len(shape)
    summed = tuple(range(lead))
    split: list[int] = list(repeats[:lead])
    for times, n in zip(repeats[lead:], shape):
        summed += (len(split),)
        split += [times, n]
    if math.prod(repeats) == 0:
        return np.zeros(shape, grad.dtype)
    return narrow(total(wide(grad).reshape(split), summed), grad.dtype).reshape(shape)


# ---------------------------------------------------------------------------------------------------- positions


def nonzero(a: Array) -> Array:
    """One row of coordinates for every element that is not zero, in order."""
    x = wide(a)
    if a.ndim == 0:
        return np.zeros((int(bool(x)), 0), INT64)
    found = np.nonzero(x)
    result = np.empty((found[0].size, a.ndim), INT64)
    for axis, where in enumerate(found):
        result[:, axis] = where
    return result


def nonzero_tuple(a: Array) -> tuple[Array, ...]:
    """One array of positions for each dimension; a 0-dim array counts as having one."""
    return np.nonzero(np.atleast_1d(wide(a)))


def one_hot(a: Array, num_classes: int = -1) -> Array:
    """A last dimension of ``num_classes`` (the greatest value and one when -1) zeros with a one where ``a`` says."""
    if a.dtype != INT64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if a.size == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return np.zeros((*a.shape, num_classes), INT64)
    if a.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        num_classes = int(a.max()) + 1
    elif a.max() >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    result = np.zeros((a.size, num_classes), INT64)
    result[np.arange(a.size), a.reshape(-1)] = 1
    return result.reshape(*a.shape, num_classes)
