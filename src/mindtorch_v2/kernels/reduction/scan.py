"""Owns running results along a dimension: cumulative sums, products, extremes and log-sum-exps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import wrap_dim
from ..checks import not_implemented
from ..compiled import C, by_rows
from ..precision import narrow, wide
from ..totals import Array
from .sort_keys import comparable

INT64 = np.dtype(np.int64)
# Rows of this many elements are worth a call of their own.
LONG_ROW = 256
FEW = 4096
DOUBLE = {np.dtype(np.float32): np.dtype(np.float64), np.dtype(np.complex64): np.dtype(np.complex128)}


def _running(ufunc: np.ufunc, a: Array, dim: int, dtype: np.dtype[Any] | None) -> Array:
    """``ufunc.accumulate``; single precision runs in double, as a running result keeps every rounding error."""
    axis = wrap_dim(dim, a.ndim)
    out = dtype or (INT64 if a.dtype.kind in "biu" else a.dtype)
    x = wide(a.astype(out, copy=False))
    if a.ndim == 0:
        return narrow(x.copy(), out)
    if axis == a.ndim - 1 or x.size <= FEW:
        fused = by_rows("cumsum" if ufunc is np.add else "cumprod", x, axis=axis)
        if fused is not None:
            return narrow(fused, out)
    running = accumulated(ufunc, x.astype(DOUBLE.get(x.dtype, x.dtype), copy=False), axis)
    return np.ascontiguousarray(narrow(running, out))


def accumulated(ufunc: np.ufunc, x: Array, axis: int) -> Array:
    """``ufunc.accumulate``, which is slow across rows: long rows are combined one after another instead."""
    if axis == x.ndim - 1 or x.size < LONG_ROW * max(x.shape[axis], 1):
        return ufunc.accumulate(x, axis=axis)
    result = np.empty_like(x)
    source, target = x.swapaxes(0, axis), result.swapaxes(0, axis)
    target[0] = source[0]
    for before, row, out in zip(target, source[1:], target[1:]):
        ufunc(before, row, out=out)
    return result


def cumsum(a: Array, dim: int, *, dtype: np.dtype[Any] | None = None) -> Array:
    """Running sum; integers and bools add up in int64."""
    return _running(np.add, a, dim, dtype)


def cumprod(a: Array, dim: int, *, dtype: np.dtype[Any] | None = None) -> Array:
    """Running product; integers and bools multiply in int64."""
    return _running(np.multiply, a, dim, dtype)


def logcumsumexp(a: Array, dim: int) -> Array:
    """Running ``logsumexp``."""
    axis = wrap_dim(dim, a.ndim)
    if a.dtype.kind in "biu":
        raise not_implemented("logcumsumexp_out_cpu", a.dtype)
    if a.ndim == 0:
        return a.copy()
    x = wide(a)
    x = x.astype(DOUBLE.get(x.dtype, x.dtype), copy=False)
    if x.dtype.kind == "c":
        return narrow(_complex_logcumsumexp(x, axis), a.dtype)
    return narrow(accumulated(np.logaddexp, x, axis), a.dtype)


def _complex_logcumsumexp(x: Array, axis: int) -> Array:
    """Adds the smaller to the larger by real part, so that nothing overflows and the larger keeps its phase."""
    rows = np.moveaxis(x, axis, 0)
    out = np.empty_like(rows)
    for i, row in enumerate(rows):
        if i == 0:
            out[0] = row
            continue
        before = out[i - 1]
        less = row.real < before.real
        low, high = np.where(less, row, before), np.where(less, before, row)
        equal = (low.real == high.real) & ~np.isfinite(low.real)
        grown = np.log1p(np.exp(low - np.where(equal, 0, high))) + high
        both = np.where(low.real < 0, low, np.log(np.exp(low) + np.exp(high)))
        out[i] = np.where(equal, both, grown)
    return np.moveaxis(out, 0, axis)


def cummax(a: Array, dim: int) -> tuple[Array, Array]:
    """Running maximum and the index of its latest occurrence; once there is a NaN, NaN stays."""
    return _running_extreme("cummax", np.maximum, a, dim)


def cummin(a: Array, dim: int) -> tuple[Array, Array]:
    """Running minimum and the index of its latest occurrence; once there is a NaN, NaN stays."""
    return _running_extreme("cummin", np.minimum, a, dim)


def _running_extreme(name: str, ufunc: np.ufunc, a: Array, dim: int) -> tuple[Array, Array]:
    if a.ndim == 0 and dim not in (0, -1):
        raise IndexError(f"{name}(): Expected reduction dim -1 or 0 for scalar but got {dim}")
    # torch lets any dim pass for an empty input.
    axis = wrap_dim(dim, a.ndim) if a.size else 0
    if a.dtype.kind == "c" and a.ndim:
        raise not_implemented(f"{name}_cpu", a.dtype)
    if a.ndim == 0 or a.size == 0:
        return a.copy(), np.zeros(a.shape, INT64)
    x = comparable(a)
    if C is not None and axis == a.ndim - 1:
        values, index = np.empty(x.shape, x.dtype), np.empty(x.shape, INT64)
        if C.running_extremes(x, ufunc is np.minimum, values, index):
            return narrow(values, a.dtype), index
    values = accumulated(ufunc, x, axis)
    here = x == values
    if x.dtype.kind == "f":
        here |= np.isnan(x)
    place = np.arange(a.shape[axis]).reshape(-1, *(1,) * (a.ndim - axis - 1))
    index = accumulated(np.maximum, np.multiply(here, place), axis)
    values = values.view(np.bool_) if a.dtype.kind == "b" else values.astype(a.dtype, copy=False)
    return np.ascontiguousarray(values), np.ascontiguousarray(index)


# ---------------------------------------------------------------------------------------------------- gradients
