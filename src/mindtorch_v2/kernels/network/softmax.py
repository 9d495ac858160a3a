"""Owns softmax and log-softmax along a dimension, and their gradients from the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...core.errors import wrap_dim
from .. import compiled
from ..checks import is_float, not_implemented
from ..compiled import by_rows
from ..floating import spreading
from ..precision import narrow, wide
from ..totals import SMALL, Array, RowSums, dot_rows, reduced, row_sums, total

# Sums of plain exponentials between these bounds lost nothing to overflow, and nothing that counts to underflow.
SAFE_SUMS = 1e-15, 1e26
# Values above this one in a sample say that the sums would not stay within the bounds.
SAFE_PEAK = 60.0
SAMPLE = 1 << 15
# Rows are taken so many elements at a time. The few passes need not stay in the second-level cache: a call of NumPy that
# spreads a column costs more than that gains.
BLOCK = 1 << 18


def softmax(a: Array, dim: int, *, dtype: np.dtype[Any] | None = None) -> Array:
    """``exp(a) / sum(exp(a))`` along ``dim``."""
    axis, x, out = _prepared("softmax", a, dim, dtype)
    fused = by_rows("softmax", x, axis=axis) if axis == x.ndim - 1 or x.size <= SMALL else None
    if fused is not None:
        return narrow(fused, out).reshape(a.shape)
    blocked = _in_blocks(x, _shared_out) if _is_plain(x, axis) else None
    if blocked is not None:
        return narrow(blocked, out).reshape(a.shape)
    exp, sums, _ = _exponentials(x, axis)
    if exp.size > SMALL:
        np.reciprocal(sums, out=sums)
        exp *= sums
    else:
        exp /= sums
    return narrow(exp, out).reshape(a.shape)


def log_softmax(a: Array, dim: int, *, dtype: np.dtype[Any] | None = None) -> Array:
    """``log(softmax(a))`` along ``dim``, without overflow."""
    axis, x, out = _prepared("log_softmax", a, dim, dtype)
    fused = by_rows("log_softmax", x, axis=axis) if axis == x.ndim - 1 or x.size <= SMALL else None
    if fused is not None:
        return narrow(fused, out).reshape(a.shape)
    blocked = _in_blocks(x, _logarithms) if _is_plain(x, axis) else None
    if blocked is not None:
        return narrow(blocked, out).reshape(a.shape)
    exp, sums, peak = _exponentials(x, axis)
    np.log(sums, out=sums)
    # Two subtractions keep the digits that the sum of a large peak and a small logarithm would lose.
    result = np.subtract(x, sums if peak is None else peak, out=exp)
    if peak is not None:
        result -= sums
    return narrow(result, out).reshape(a.shape)


def _prepared(name: str, a: Array, dim: int, dtype: np.dtype[Any] | None) -> tuple[int, Array, np.dtype[Any]]:
    """The axis, ``a`` in the type to compute in (with a dimension at least) and the result's type."""
    axis = wrap_dim(dim, a.ndim)
    out = dtype or a.dtype
    if not is_float(out):
        last = axis == max(a.ndim, 1) - 1
        raise not_implemented(f"{name}_lastdim_kernel_impl" if last else f"{name}_kernel_impl", out)
    x = wide(np.ascontiguousarray(a.astype(out, copy=False)))
    return axis, x if a.ndim else x.reshape(1), out


def _is_plain(x: Array, axis: int) -> bool:
    """Whether there are many rows, side by side, whose exponentials need no peaks subtracted, as far as a sample shows."""
    many = axis == x.ndim - 1 and x.size > SMALL and x.size >= 4 * x.shape[-1]
    return many and bool(np.maximum.reduce(x.reshape(-1)[:SAMPLE]) <= SAFE_PEAK)


def _are_safe(sums: Array) -> bool:
    low, high = SAFE_SUMS
    return bool(np.minimum.reduce(sums, axis=None) >= low and np.maximum.reduce(sums, axis=None) <= high)


def _blocks(rows: Array) -> Iterator[slice]:
    """Stretches of rows."""
    step = max(BLOCK // rows.shape[1], 1)
    return (slice(start, start + step) for start in range(0, len(rows), step))


def _in_blocks(x: Array, finish: Callable[[Array, Array, Array], Any]) -> Array | None:
    """The exponentials of rows, after ``finish(rows, exponentials, sums)`` has changed them in place; None where they are
    out of bounds, which shows in their sums."""
    rows = x.reshape(-1, x.shape[-1])
    result, sums = np.empty_like(rows), np.empty((len(rows), 1), x.dtype)
    for part in _blocks(rows):
        exp = np.exp(rows[part], out=result[part])
        sums[part, 0] = row_sums(exp)
        finish(rows[part], exp, sums[part])
    return result if _are_safe(sums) else None


def row_log_sums(x: Array) -> Array | None:
    """``logsumexp`` of each row of a matrix of many floats, whose exponentials never leave the cache; None where that is
    nothing for it."""
    if x.dtype.char not in "fd" or not x.flags.c_contiguous or not _is_plain(x, 1):
        return None
    n = x.shape[1]
    sums = RowSums(len(x), n, x.dtype)
    scratch = np.empty((max(BLOCK // n, 1), n), x.dtype)
    for part in _blocks(x):
        rows = x[part]
        sums.add(part, np.exp(rows, out=scratch[: len(rows)]))
    found = sums.result()
    return np.log(found, out=found) if _are_safe(found) else None


def _shared_out(rows: Array, exp: Array, sums: Array) -> None:
    with spreading(rows.shape[1]):
        exp *= np.reciprocal(sums)


def _logarithms(rows: Array, exp: Array, sums: Array) -> None:
    with spreading(rows.shape[1]):
        np.subtract(rows, np.log(sums), out=exp)


def _exponentials(x: Array, axis: int) -> tuple[Array, Array, Array | None]:
    """``exp(x - peak)``, its sums along ``axis`` and the peaks; None for peaks of zero."""
    if x.size == 0:
        return np.exp(x), np.ones_like(x[(slice(None),) * axis + (slice(0, 1),)]), None
    if x.size > SMALL and np.maximum.reduce(x.reshape(-1)[:SAMPLE]) <= SAFE_PEAK:
        # Without a pass for the peaks and one to subtract them; what is out of bounds shows in the sums.
        exp = compiled.exp(x)
        sums = total(exp, (axis,), True)
        if _are_safe(sums):
            return exp, sums, None
    peak = reduced(np.maximum, x, (axis,), True)
    exp = np.subtract(x, peak)
    compiled.exp(exp, out=exp)
    return exp, total(exp, (axis,), True), peak


def softmax_backward_data(grad: Array, output: Array, dim: int) -> Array:
    """Gradient of ``softmax`` from its ``output``."""
    axis = wrap_dim(dim, output.ndim)
    if output.ndim == 0:
        return np.zeros((), grad.dtype)
    g, y = wide(grad), wide(output)
    fused = by_rows("softmax_backward", g, y, axis=axis) if axis == y.ndim - 1 or y.size <= SMALL else None
    if fused is not None:
        return narrow(fused, grad.dtype)
    with spreading(g.shape[-1] if axis == g.ndim - 1 else 1):
        result = np.subtract(g, _sum_products(g, y, axis))
    result *= y
    return narrow(result, grad.dtype)


def log_softmax_backward_data(grad: Array, output: Array, dim: int) -> Array:
    """Gradient of ``log_softmax`` from its ``output``."""
    axis = wrap_dim(dim, output.ndim)
    if output.ndim == 0:
        return np.zeros((), grad.dtype)
    g, y = wide(grad), wide(output)
    fused = by_rows("log_softmax_backward", g, y, axis=axis) if axis == y.ndim - 1 or y.size <= SMALL else None
    if fused is not None:
        return narrow(fused, grad.dtype)
    if axis == y.ndim - 1 and y.size > SMALL and y.dtype is g.dtype and g.flags.c_contiguous and y.flags.c_contiguous:
        return narrow(_log_softmax_backward_in_blocks(g, y), grad.dtype)
    result = compiled.exp(y)
    result *= total(g, (axis,), True)
    return narrow(np.subtract(g, result, out=result), grad.dtype)


def _log_softmax_backward_in_blocks(g: Array, y: Array) -> Array:
    """``g - exp(y) * g.sum(-1)``, rows that stay in the cache at a time."""
    gs, ys = g.reshape(-1, g.shape[-1]), y.reshape(-1, y.shape[-1])
    result, sums = np.empty_like(ys), row_sums(gs).astype(y.dtype, copy=False)[:, None]
    for part in _blocks(ys):
        rows = np.exp(ys[part], out=result[part])
        with spreading(ys.shape[1]):
            rows *= sums[part]
        np.subtract(gs[part], rows, out=rows)
    return result.reshape(y.shape)


def _sum_products(a: Array, b: Array, axis: int) -> Array:
    """``(a * b).sum(axis, keepdims=True)``, without a temporary where ``axis`` is the last one."""
    if axis == a.ndim - 1 and a.size:
        n = a.shape[-1]
        return dot_rows(a.reshape(-1, n), b.reshape(-1, n)).reshape(*a.shape[:-1], 1)
    return total(a * b, (axis,), True)
