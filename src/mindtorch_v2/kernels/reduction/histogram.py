"""Owns counting elements into bins: bincount, histc, and histograms in one or more dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.errors import shape_text
from ..checks import is_float, not_implemented
from ..precision import narrow, wide
from ..totals import Array, total

INT64 = np.dtype(np.int64)
C_NAMES = {np.dtype(np.float32): "float", np.dtype(np.float64): "double", INT64: "long int"}


def bincount(a: Array, weights: Array | None = None, minlength: int = 0) -> Array:
    """How often each non-negative integer occurs, or the sum of its weights."""
    if a.dtype.kind not in "iu":
        raise not_implemented("bincount_cpu", a.dtype)
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if a.ndim == 1 and a.size == 0:
        return np.zeros(minlength, INT64)
    if a.ndim != 1 or a.min() < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is None:
        return np.bincount(a, minlength=minlength)
    if weights.shape != a.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    counts = np.bincount(a, weights=weights.astype(np.float64, copy=False), minlength=minlength)
    return counts.astype(np.float32) if weights.dtype == np.float32 else counts


def histc(a: Array, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    """Counts in ``bins`` equal bins from ``min`` to ``max``, the range of the data where both are the same."""
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    if a.dtype.kind == "c":
        raise not_implemented("aminmax_cpu", a.dtype)
    if not is_float(a.dtype):
        raise not_implemented("histogram_cpu", a.dtype)
    x = wide(a).reshape(-1)
    low, high = x.dtype.type(min), x.dtype.type(max)
    if low == high and x.size:
        low, high = np.minimum.reduce(x), np.maximum.reduce(x)
    if low == high:
        low, high = low - 1, high + 1
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"torch.histc: range of [{_number(low)}, {_number(high)}] is not finite")
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    inside = x[(x >= low) & (x <= high)]
    place = ((inside - low) * bins / (high - low)).astype(INT64)
    return narrow(np.bincount(np.minimum(place, bins - 1), minlength=bins), a.dtype)


def _number(value: Any) -> str:
    return "nan" if math.isnan(value) else f"{float(value):g}"


def histogram(
    a: Array,
    bins: int | Array,
    *,
    range: Sequence[float] | None = None,
    weight: Array | None = None,
    density: bool = False,
) -> tuple[Array, Array]:
    """Counts (or weights) in bins given by number or by edges, and the edges; the last bin includes its end."""
    flat = a.reshape(-1, 1)
    given = None if weight is None else weight.reshape(-1)
    counts, edges = histogramdd(flat, [bins], range=range, weight=given, density=density)
    return counts, edges[0]


def histogramdd(
    a: Array,
    bins: Sequence[int | Array] | int,
    *,
    range: Sequence[float] | None = None,
    weight: Array | None = None,
    density: bool = False,
) -> tuple[Array, tuple[Array, ...]]:
    """Counts (or weights) of the points along the last dimension of ``a`` in a grid, and the grid's edges."""
    if a.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    dims = a.shape[-1]
    sizes: list[int | Array] = [bins] * dims if isinstance(bins, int) else list(bins)
    _check_sizes(a, sizes, range, weight)
    if a.dtype not in (np.float32, np.float64):
        raise not_implemented("histogramdd", a.dtype)
    points = a.reshape(-1, dims)
    edges = tuple(_edges(points, d, size, range) for d, size in enumerate(sizes))
    inside = np.ones(points.shape[0], np.bool_)
    place = np.zeros(points.shape[0], INT64)
    for d, edge in enumerate(edges):
        x = points[:, d]
        inside &= (x >= edge[0]) & (x <= edge[-1])
        found = np.minimum(np.searchsorted(edge, x, side="right") - 1, edge.size - 2)
        place = place * (edge.size - 1) + found
    shape = tuple(edge.size - 1 for edge in edges)
    weights = None if weight is None else weight.reshape(-1)[inside].astype(np.float64)
    counts = np.bincount(place[inside], weights=weights, minlength=math.prod(shape)).reshape(shape).astype(a.dtype)
    return (_density(counts, edges) if density else counts), edges


def _density(counts: Array, edges: tuple[Array, ...]) -> Array:
    """Counts over their total and the size of their bins."""
    result = counts / total(counts)
    for d, edge in enumerate(edges):
        result = result / np.diff(edge).reshape(-1, *(1,) * (len(edges) - d - 1))
    return np.asarray(result)


def _edges(points: Array, d: int, size: int | Array, span: Sequence[float] | None) -> Array:
    if isinstance(size, np.ndarray):
        return size
    if span is not None:
        low, high = span[2 * d], span[2 * d + 1]
    elif points.size:
        low, high = points[:, d].min(), points[:, d].max()
    else:
        low, high = 0.0, 1.0
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.histogramdd: dimension {d}'s range [{_number(low)}, {_number(high)}] is not finite")
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {_number(low)} max {_number(high)} for "
            f"dimension {d}"
        )
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, size + 1).astype(points.dtype)


def _check_sizes(a: Array, sizes: list[int | Array], span: Sequence[float] | None, weight: Array | None) -> None:
    start, dims = "torch.histogramdd: ", a.shape[-1]
    if len(sizes) != dims:
        if any(isinstance(size, np.ndarray) for size in sizes):
            raise RuntimeError(
                f"{start}expected {dims} sequences of bin edges for a {dims}-dimensional histogram but got {len(sizes)}"
            )
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    for d, size in enumerate(sizes):
        if isinstance(size, np.ndarray):
            _check_edges(a, size, d)
        elif size <= 0:
            raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {size} for dimension {d}")
    if span is not None and len(span) != 2 * dims:
        raise RuntimeError(
            f"{start}for a {dims}-dimensional histogram range should have {2 * dims} elements, but got {len(span)}"
        )
    if weight is None:
        return
    if weight.dtype != a.dtype:
        raise RuntimeError(
            f"{start}if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got "
            f"input({_c_name(a)}), and weight({_c_name(weight)})"
        )
    if weight.shape != a.shape[:-1]:
        raise RuntimeError(
            f"{start}if weight tensor is provided it should have the same shape as the input tensor excluding its "
            f"innermost dimension, but got input with shape {shape_text(a.shape)} and weight with shape "
            f"{shape_text(weight.shape)}"
        )


def _check_edges(a: Array, edges: Array, d: int) -> None:
    start = "torch.histogramdd: "
    if edges.dtype != a.dtype:
        raise RuntimeError(
            f"{start}input tensor and bins tensors should have the same dtype, but got input with dtype {_c_name(a)} "
            f"and bins for dimension {d} with dtype {_c_name(edges)}"
        )
    if edges.ndim != 1:
        raise RuntimeError(
            f"{start}bins tensor should have one dimension, but got {edges.ndim} dimensions in the bins tensor for "
            f"dimension {d}"
        )
    if edges.size == 0:
        raise RuntimeError(
            f"{start}bins tensor should have at least 1 element, but got 0 elements in the bins tensor for dimension "
            f"{d}"
        )


def _c_name(a: Array) -> str:
    return C_NAMES.get(a.dtype, str(a.dtype))
