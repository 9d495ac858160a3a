"""Owns order statistics along one dimension: median, mode and k-th value with their indices,
and what may be asked of quantiles."""

from __future__ import annotations

import numpy as np

from ...core.errors import wrap_dim
from ...core.meta import MetaArray
from ..checks import not_implemented
from ..totals import Array
from .reduce import require_slice
from .sort_keys import comparable, gather_last, rank_index, stable_argsort

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _rows(a: Array, axis: int) -> Array:
    """``a`` as a contiguous array with ``axis`` last; a 0-dim array becomes one row of one."""
    return np.ascontiguousarray(np.moveaxis(a, axis, -1)) if a.ndim else a.reshape(1)


def _placed(reduced: Array, a: Array, axis: int, keepdim: bool) -> Array:
    """A result without ``axis`` in the shape ``keepdim`` asks for."""
    return np.expand_dims(reduced, axis) if keepdim and a.ndim else np.asarray(reduced)


def _picked(a: Array, rows: Array, index: Array, axis: int, keepdim: bool) -> tuple[Array, Array]:
    """Value and index, where ``index`` has one entry a row."""
    index = np.array(index)  # of its own: it may be a part of an order of all elements, which would stay with it
    values = gather_last(rows, index[..., None])[..., 0]
    return _placed(values, a, axis, keepdim), _placed(index, a, axis, keepdim)


def _require_ordered(kernel: str, a: Array, kinds: str = "bc") -> None:
    if a.dtype.kind in kinds:
        raise not_implemented(kernel, a.dtype)


# ---------------------------------------------------------------------------------------------------- median


def median(a: Array) -> Array:
    """Lower median of all elements; NaN when there is one, and of nothing."""
    return _median_of_all(a, ignore_nan=False)


def nanmedian(a: Array) -> Array:
    """Lower median of what is not NaN."""
    return _median_of_all(a, ignore_nan=True)


def _median_of_all(a: Array, ignore_nan: bool) -> Array:
    x = comparable(a.reshape(-1))
    floats = x.dtype.kind == "f"
    if floats and ignore_nan:
        x = x[~np.isnan(x)]
    if x.size == 0:
        # What converting NaN gives on common hardware: zero for the short integers.
        short = 0 if a.dtype.itemsize < 4 else np.iinfo(np.int64 if a.dtype.itemsize == 8 else np.int32).min
        return np.array(short if a.dtype.kind in "iu" else np.nan, a.dtype)
    _require_ordered("median_cpu", a)
    if floats and np.isnan(np.maximum.reduce(x)):
        return np.array(np.nan, a.dtype)
    middle = (x.size - 1) // 2
    return np.asarray(np.partition(x, middle)[middle]).astype(a.dtype, copy=False)


def median_dim(a: Array, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """Lower median along ``dim`` and its index; the first NaN where there is one."""
    axis, rows = _median_rows(a, dim)
    index = rank_index(rows, (rows.shape[-1] - 1) // 2)
    x = comparable(rows)
    if x.dtype.kind == "f" and x.size and np.isnan(np.maximum.reduce(x, axis=None)):
        nan = np.isnan(x)
        index = np.where(nan.any(-1), nan.argmax(-1), index)
    return _picked(a, rows, index, axis, keepdim)


def nanmedian_dim(a: Array, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """Lower median along ``dim`` of what is not NaN and its index; the first NaN where there is nothing else."""
    axis, rows = _median_rows(a, dim)
    x = comparable(rows)
    if x.dtype.kind != "f":
        return median_dim(a, dim, keepdim)
    valid = x.shape[-1] - np.count_nonzero(np.isnan(x), axis=-1)
    middle = np.maximum(valid - 1, 0) // 2
    index = gather_last(stable_argsort(rows), np.asarray(middle)[..., None])[..., 0]
    return _picked(a, rows, index, axis, keepdim)


def _median_rows(a: Array, dim: int) -> tuple[int, Array]:
    axis = wrap_dim(dim, a.ndim)
    require_slice("median", a, axis)
    _require_ordered("median_out", a)
    return axis, _rows(a, axis)


# ---------------------------------------------------------------------------------------------------- mode, k-th value


def mode(a: Array, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """Most frequent value along ``dim``, the smallest among equals, and the index of its last occurrence."""
    axis = wrap_dim(dim, a.ndim)
    require_slice("mode", a, axis)
    _require_ordered("mode_cpu", a, "c")
    rows = _rows(a, axis)
    order = stable_argsort(rows)
    x = gather_last(comparable(rows), order)
    place = np.arange(x.shape[-1])
    starts = np.zeros(x.shape, np.int64)
    np.multiply(x[..., 1:] != x[..., :-1], place[1:], out=starts[..., 1:])
    run_length = place - np.maximum.accumulate(starts, axis=-1)
    index = gather_last(order, run_length.argmax(-1)[..., None])[..., 0]
    return _picked(a, rows, index, axis, keepdim)


def kthvalue(a: Array, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """The ``k``-th smallest value along ``dim`` (counted from 1) and its index; NaN counts as largest."""
    axis = wrap_dim(dim, a.ndim)
    require_slice("kthvalue", a, axis)
    if not 1 <= k <= (a.shape[axis] if a.ndim else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {axis}")
    _require_ordered("kthvalue_cpu", a)
    rows = _rows(a, axis)
    return _picked(a, rows, np.asarray(rank_index(rows, k - 1)), axis, keepdim)


# ---------------------------------------------------------------------------------------------------- quantiles


def check_quantile(a: Array, q: Array | float, dim: int | None, interpolation: str) -> Array:
    """The points of ``q`` as a one-dimensional array of ``a``'s type."""
    if not isinstance(q, np.ndarray) and not 0 <= q <= 1:
        raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q:g}")
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
            f"{interpolation}"
        )
    if a.size == 0:
        raise RuntimeError("quantile() input tensor must be non-empty")
    if np.ndim(q) > 1:
        raise RuntimeError("quantile() q must be a scalar or 1D tensor")
    if a.dtype not in (np.float32, np.float64):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if dim is not None:
        wrap_dim(dim, a.ndim)
    if not isinstance(q, np.ndarray):
        return np.array([q], a.dtype)
    if q.dtype != a.dtype:
        raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    if type(q) is not MetaArray and not np.all((q >= 0) & (q <= 1)):
        raise RuntimeError("quantile() q values must be in the range [0, 1]")
    return q.reshape(-1)
