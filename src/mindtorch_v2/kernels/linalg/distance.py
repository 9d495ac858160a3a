"""Owns distances between all pairs of vectors (cdist, pdist) for any p-norm, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...core.errors import broadcast_error
from ..checks import is_float, not_implemented, type_name
from ..totals import Array, sum_of_squares, total

# Differences of this many elements are held at once.
BLOCK = 1 << 20
# From this many vectors on, Euclidean distances come from a matrix product.
MATMUL_ROWS = 25


def cdist(x1: Array, x2: Array, p: float = 2.0, compute_mode: int | None = None) -> Array:
    """p-norm distance between every row of ``x1`` and every row of ``x2``; leading dimensions broadcast.

    ``compute_mode`` 1 always uses a matrix product for p = 2, 2 never does, otherwise it does for many rows.
    """
    a, b = _checked_pair(x1, x2, p)
    if a.shape[-2] == 0 or b.shape[-2] == 0:
        return np.zeros((*a.shape[:-1], b.shape[-2]), a.dtype)
    many = max(a.shape[-2], b.shape[-2]) > MATMUL_ROWS
    if p == 2 and (compute_mode == 1 or (compute_mode != 2 and many)):
        return _euclidean(a, b)
    parts = [_norms(difference, p) for _, difference in _row_blocks(a, b)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-2)


def _checked_pair(x1: Array, x2: Array, p: float) -> tuple[Array, Array]:
    for name, x in (("X1", x1), ("X2", x2)):
        if not is_float(x.dtype):
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {type_name(x.dtype)}")
    for name, x in (("X1", x1), ("X2", x2)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    try:
        batch = () if x1.ndim == x2.ndim == 2 else np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    except ValueError:
        raise broadcast_error(x1.shape[:-2], x2.shape[:-2]) from None
    if x1.dtype != x2.dtype:
        raise RuntimeError(f"expected scalar type {type_name(x1.dtype)} but found {type_name(x2.dtype)}")
    if x1.dtype.itemsize < 4:
        raise not_implemented("cdist", x1.dtype)
    if not batch:
        return x1, x2
    return np.broadcast_to(x1, batch + x1.shape[-2:]), np.broadcast_to(x2, batch + x2.shape[-2:])


def _euclidean(a: Array, b: Array) -> Array:
    """``|a|² + |b|² - 2ab``, whose rounding errors may fall below zero."""
    result: Array = np.matmul(a, np.swapaxes(b, -1, -2))
    result *= -2
    result += sum_of_squares(a, (a.ndim - 1,), True)
    result += np.swapaxes(sum_of_squares(b, (b.ndim - 1,), True), -1, -2)
    np.maximum(result, 0, out=result)
    return np.asarray(np.sqrt(result, out=result))


def _norms(difference: Array, p: float) -> Array:
    """p-norms over the last axis; may write into ``difference``."""
    last = (difference.ndim - 1,)
    if p == 2:
        return np.asarray(np.sqrt(sum_of_squares(difference, last)))
    if p == 0:
        return total((difference != 0).astype(difference.dtype), last)
    np.abs(difference, out=difference)
    if p == 1:
        return total(difference, last)
    if math.isinf(p):
        return np.asarray(np.maximum.reduce(difference, axis=-1, initial=0))
    np.power(difference, p, out=difference)
    return np.asarray(total(difference, last) ** (1 / p))


def _row_blocks(a: Array, b: Array) -> Iterator[tuple[slice, Array]]:
    """The differences of all pairs, some rows of ``a`` at a time to bound the memory."""
    step = max(1, BLOCK // max(1, b.size))
    for i in range(0, a.shape[-2], step):
        rows = slice(i, i + step)
        yield rows, a[..., rows, None, :] - b[..., None, :, :]


def cdist_backward(grad: Array, x1: Array, x2: Array, p: float, result: Array) -> Array:
    """Gradient of ``cdist`` with respect to ``x1``, in its broadcast shape.

    For ``x2`` exchange the two inputs and transpose the last two dimensions of ``grad`` and ``result``.
    """
    a, b = _checked_pair(x1, x2, p)
    if p == 0 or a.size == 0 or b.size == 0:
        return np.zeros(a.shape, a.dtype)
    if p == 2:
        share = np.divide(grad, result, out=np.zeros_like(result), where=result != 0)
        return np.asarray(a * total(share, (share.ndim - 1,), True) - np.matmul(share, b))
    parts = []
    for rows, difference in _row_blocks(a, b):
        slopes = _slopes(difference, result[..., rows, :, None], p)
        parts.append(total(slopes * grad[..., rows, :, None], (a.ndim - 1,)))
    return np.concatenate(parts, axis=-2)


def _slopes(difference: Array, distance: Array, p: float) -> Array:
    """Derivative of each distance with respect to each difference."""
    sign = np.sign(difference)
    if p == 1:
        return np.asarray(sign)
    size = np.abs(difference)
    if math.isinf(p):
        return np.asarray(sign * (size == distance))
    smooth = (distance != 0) & ((difference != 0) if p < 1 else True)
    one = difference.dtype.type(1)
    power = np.where(smooth, size, one) ** (p - 1) / np.where(distance != 0, distance, one) ** (p - 1)
    return np.asarray(np.where(smooth, sign * power, difference.dtype.type(0)))


# ---------------------------------------------------------------------------------------------------- pdist


def pdist(x: Array, p: float = 2.0) -> Array:
    """p-norm distance between every pair of rows of a matrix, each pair once."""
    _check_pdist(x, p)
    n = x.shape[0]
    if n < 2:
        return np.zeros(0, x.dtype)
    return np.concatenate([_norms(x[i + 1 :] - x[i], p) for i in range(n - 1)])


def pdist_backward(grad: Array, x: Array, p: float, result: Array) -> Array:
    """Gradient of ``pdist``."""
    _check_pdist(x, p)
    n = x.shape[0]
    if n < 2:
        return np.zeros(x.shape, x.dtype)
    pairs = np.triu_indices(n, 1)
    square = np.zeros((2, n, n), x.dtype)
    for full, part in zip(square, (grad, result)):
        full[pairs] = part
        full += full.T
    return cdist_backward(square[0], x, x, p, square[1])


def _check_pdist(x: Array, p: float) -> None:
    if x.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {x.ndim}D")
    if not is_float(x.dtype):
        raise RuntimeError("pdist only supports floating-point dtypes")
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    if x.dtype.itemsize < 4:
        raise not_implemented("pdist", x.dtype)
