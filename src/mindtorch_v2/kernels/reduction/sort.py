"""Owns sorting, the largest or smallest k, unique elements and binary search, along a dimension or of all elements."""

from __future__ import annotations

import numpy as np

from ...core.errors import shape_text, wrap_dim
from ..checks import not_implemented, type_name
from ..compiled import C
from ..totals import Array
from .sort_keys import comparable, gather_last, stable_argsort, top_indices

INT64 = np.dtype(np.int64)
# ---------------------------------------------------------------------------------------------------- sorting


def sort(a: Array, dim: int = -1, descending: bool = False, stable: bool = False) -> tuple[Array, Array]:
    """Values in order along ``dim`` and where they come from; NaN counts as largest. Always stable."""
    axis = _sort_axis(a, dim)
    if a.ndim == 0:
        return a.copy(), np.zeros((), INT64)
    rows = np.ascontiguousarray(a.swapaxes(axis, -1))
    order = stable_argsort(rows, descending)
    return _back(gather_last(rows, order), axis), _back(order, axis)


def _sort_axis(a: Array, dim: int) -> int:
    axis = wrap_dim(dim, a.ndim)
    if a.dtype.kind == "c":
        raise RuntimeError(" Sort does not support complex dtypes on CPU")
    return axis


def _back(rows: Array, axis: int) -> Array:
    return np.ascontiguousarray(rows.swapaxes(axis, -1))


def topk(a: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Array, Array]:
    """The ``k`` largest (or smallest) values along ``dim`` and where they come from; NaN counts as largest.

    Among equal values the first ones are taken. The result is in order whether ``sorted`` is asked for or not.
    """
    axis = wrap_dim(dim, a.ndim)
    if not 0 <= k <= (a.shape[axis] if a.ndim else 1):
        raise RuntimeError("selected index k out of range")
    if a.dtype.kind == "c":
        raise RuntimeError(" topk does not support complex dtypes on CPU")
    if a.dtype.kind == "b":
        raise RuntimeError("topk does not support bool dtypes on CPU")
    if a.ndim == 0:
        return a.copy(), np.zeros((), INT64)
    rows = np.ascontiguousarray(a.swapaxes(axis, -1))
    selected = C.ordered(rows, -1, k, largest) if C is not None and k * 8 <= rows.shape[-1] else None
    if selected is not None:
        return _back(selected[0], axis), _back(selected[1], axis)
    index = np.ascontiguousarray(top_indices(rows, k, largest))
    return _back(gather_last(rows, index), axis), _back(index, axis)


# ---------------------------------------------------------------------------------------------------- unique


def unique(
    a: Array, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Array, Array, Array]:
    """Distinct values in order, the position of each element's value among them, and how often each occurs.

    What is not asked for comes back empty. Every NaN is distinct.
    """
    if a.dtype.kind == "c":
        raise not_implemented("unique", a.dtype)
    flat = comparable(a.reshape(-1))
    span = _dense_span(flat)
    if span is not None:
        values, inverse, counts = _unique_dense(flat, *span, return_inverse)
    else:
        values, inverse, counts = _unique_sorted(flat, return_inverse)
    inverse = inverse.reshape(a.shape) if return_inverse else _nothing()
    values = values.view(a.dtype) if a.dtype.kind == "b" else values.astype(a.dtype, copy=False)
    return values, inverse, counts if return_counts else _nothing()


def _nothing() -> Array:
    return np.zeros(0, INT64)


def _dense_span(flat: Array) -> tuple[int, int] | None:
    """Least and greatest value of integers that lie so close together that counting them beats sorting."""
    if flat.dtype.kind not in "iu" or flat.size == 0:
        return None
    low, high = int(flat.min()), int(flat.max())
    return (low, high) if high - low <= 4 * flat.size + 1024 else None


def _unique_dense(flat: Array, low: int, high: int, with_inverse: bool) -> tuple[Array, Array, Array]:
    # uint64 values may exceed int64, their distance from the least one does not.
    shifted = (flat - flat.dtype.type(low)).astype(INT64) if flat.dtype.kind == "u" else flat.astype(INT64) - low
    histogram = np.bincount(shifted, minlength=high - low + 1)
    present = np.flatnonzero(histogram)
    values = present.astype(flat.dtype) + flat.dtype.type(low)
    if not with_inverse:
        return values, _nothing(), histogram[present]
    place = np.empty(histogram.size, INT64)
    place[present] = np.arange(present.size)
    return values, place.take(shifted), histogram[present]


def _unique_sorted(flat: Array, with_inverse: bool) -> tuple[Array, Array, Array]:
    if not with_inverse:
        ordered = np.sort(flat)
        starts = _run_starts(ordered)
        return ordered[starts], _nothing(), _run_lengths(starts)
    order = stable_argsort(flat)
    ordered = flat.take(order)
    starts = _run_starts(ordered)
    inverse = np.empty(flat.size, INT64)
    inverse[order] = np.cumsum(starts) - 1
    return ordered[starts], inverse, _run_lengths(starts)


def _run_starts(ordered: Array) -> Array:
    """Mask of the elements (or rows) that differ from the one before."""
    starts = np.ones(ordered.shape[0], np.bool_)
    differs = ordered[1:] != ordered[:-1]
    starts[1:] = differs if ordered.ndim == 1 else differs.any(axis=1)
    return starts


def _run_lengths(starts: Array) -> Array:
    edges = np.append(np.flatnonzero(starts), starts.size)
    return np.diff(edges)


def unique_dim(
    a: Array, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Array, Array, Array]:
    """Distinct slices along ``dim`` in lexicographic order, with inverse and counts as ``unique`` gives them."""
    axis, rows = _unique_rows(a, dim)
    x = comparable(rows)
    order = np.lexsort(x.T[::-1]) if x.shape[1] else np.arange(x.shape[0])
    return _distinct_slices(a, axis, order, _run_starts(x[order]), return_inverse, return_counts)


def unique_consecutive(
    a: Array, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Array, Array, Array]:
    """The first of every run of equal elements (or slices along ``dim``), with inverse and run lengths."""
    if dim is None or (a.ndim == 1 and dim == 0):
        if a.dtype.kind == "c":
            raise not_implemented("unique", a.dtype)
        flat = a.reshape(-1)
        starts = _run_starts(comparable(flat))
        inverse = (np.cumsum(starts) - 1).reshape(a.shape) if return_inverse else _nothing()
        return flat[starts], inverse, _run_lengths(starts) if return_counts else _nothing()
    axis, rows = _unique_rows(a, dim)
    order = np.arange(rows.shape[0])
    return _distinct_slices(a, axis, order, _run_starts(comparable(rows)), return_inverse, return_counts)


def _unique_rows(a: Array, dim: int) -> tuple[int, Array]:
    """The wrapped dimension and ``a`` with one row for each slice along it."""
    if a.dtype.kind == "c":
        raise not_implemented("unique_dim", a.dtype)
    if a.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    axis = wrap_dim(dim, a.ndim)
    if a.size == 0 and (a.shape[axis] or a.shape.count(0) > 1):
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    width = a.size // a.shape[axis] if a.size else 0
    return axis, np.moveaxis(a, axis, 0).reshape(a.shape[axis], width)


def _distinct_slices(
    a: Array, axis: int, order: Array, starts: Array, return_inverse: bool, return_counts: bool
) -> tuple[Array, Array, Array]:
    inverse = _nothing()
    if return_inverse:
        inverse = np.empty(order.size, INT64)
        inverse[order] = np.cumsum(starts) - 1
    counts = _run_lengths(starts) if return_counts else _nothing()
    return np.ascontiguousarray(np.take(a, order[starts], axis=axis)), inverse, counts


# ---------------------------------------------------------------------------------------------------- binary search


def searchsorted(
    sorted_sequence: Array,
    values: Array,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Array | None = None,
) -> Array:
    """Where ``values`` belong in ``sorted_sequence`` along its last dimension, before equals unless ``right``."""
    _check_search(sorted_sequence, values, right, side, sorter)
    right = right or side == "right"
    sequence = np.ascontiguousarray(comparable(sorted_sequence))
    if sorter is not None:
        sequence = gather_last(sequence, sorter)
    x = comparable(values)
    if sequence.ndim == 1:
        found = np.asarray(np.searchsorted(sequence, x, side="right" if right else "left"))
    else:
        found = _bisect(sequence, x, right)
    return found.astype(np.int32 if out_int32 else INT64, copy=False)


def bucketize(values: Array, boundaries: Array, *, out_int32: bool = False, right: bool = False) -> Array:
    """``searchsorted`` in one-dimensional ``boundaries``."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, values, out_int32=out_int32, right=right)


def _bisect(sequence: Array, x: Array, right: bool) -> Array:
    """Binary search of all rows at once."""
    n = sequence.shape[-1]
    low = np.zeros(x.shape, INT64)
    high = np.full(x.shape, n, INT64)
    for _ in range(n.bit_length()):
        middle = (low + high) >> 1
        probe = gather_last(sequence, np.minimum(middle, n - 1))
        beyond = (low < high) & ~(probe > x if right else probe >= x)
        low = np.where(beyond, middle + 1, low)
        high = np.where(beyond, high, np.minimum(middle, high))
    return low


def _check_search(sequence: Array, values: Array, right: bool, side: str | None, sorter: Array | None) -> None:
    start = "torch.searchsorted(): "
    if side not in (None, "left", "right"):
        raise RuntimeError(f"{start}side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(f"{start}side and right can't be set to opposites, got side of left while right was True")
    if sequence.ndim == 0:
        raise RuntimeError(f"{start}boundaries tensor should have positive dimension, but got 0 dimension")
    if values.ndim == 0 and sequence.ndim != 1:
        raise RuntimeError(
            f"{start}input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries "
            f"tensor dim({sequence.ndim}) and input value's dim({values.ndim}) numel({values.size})"
        )
    if sequence.ndim > 1 and sequence.shape[:-1] != values.shape[:-1]:
        raise RuntimeError(
            f"{start}boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and "
            f"input value tensor must match, but we got boundaries tensor {shape_text(sequence.shape)} and input "
            f"value tensor {shape_text(values.shape)}"
        )
    if sorter is not None:
        if sorter.shape != sequence.shape:
            raise RuntimeError(
                f"{start}boundary and sorter must have the same size, but got boundary tensor "
                f"{shape_text(sequence.shape)}and got sorter tensor {shape_text(sorter.shape)}"
            )
        if sorter.dtype != INT64:
            raise RuntimeError(f"{start}sorter must be a tensor of long dtype but got dtype {type_name(sorter.dtype)}")
        if sorter.size and (sorter.min() < 0 or sorter.max() >= sequence.shape[-1]):
            raise RuntimeError(f"{start}sorter index out of range")
    if values.dtype.kind in "bc" and sequence.dtype == values.dtype:
        raise not_implemented("searchsorted_out_cpu", values.dtype)
