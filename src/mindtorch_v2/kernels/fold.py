"""Owns sliding windows over the trailing dimensions (views, unfold, fold) and padding in its four modes.

``windows`` and ``pad_constant`` are also the ground the convolution and pooling kernels stand on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

Array: TypeAlias = np.ndarray[Any, Any]
Shape: TypeAlias = tuple[int, ...]
Pairs: TypeAlias = tuple[tuple[int, int], ...]


class Geometry(NamedTuple):
    """How windows lie on the input; pads are (before, after) and may be negative, which crops."""

    stride: Shape
    pads: Pairs
    dilation: Shape
    groups: int


def trailing(slices: Iterable[slice]) -> tuple[Any, ...]:
    """Index of the last dimensions only."""
    return (..., *slices)


def strided(x: Array, shape: Shape, strides: Shape) -> Array:
    """View the memory of ``x`` from its first element on."""
    if x.flags.c_contiguous and x.dtype.isbuiltin == 1:
        return np.ndarray(shape, x.dtype, x, 0, strides)  # a tenth of what as_strided takes
    return as_strided(x, shape, strides)


def windows(x: Array, kernel: Shape, stride: Shape, dilation: Shape, space: Shape) -> Array:
    """View ``x`` ``(*lead, *size)`` as ``(*lead, *kernel, *space)``: tap by tap, the values under each window.

    The view overlaps itself where windows do; write through it only when they do not.
    """
    lead = x.ndim - len(kernel)
    steps = x.strides[lead:]
    taps = tuple(d * t for d, t in zip(dilation, steps))
    moves = tuple(s * t for s, t in zip(stride, steps))
    return strided(x, x.shape[:lead] + kernel + space, x.strides[:lead] + taps + moves)


def tap_slices(tap: Shape, stride: Shape, dilation: Shape, space: Shape) -> tuple[Any, ...]:
    """Index of the trailing dimensions that picks what ``tap`` sees of every window."""
    return trailing(slice(t * d, t * d + s * (n - 1) + 1, s) for t, s, d, n in zip(tap, stride, dilation, space))


def split_pads(x: Array, pads: Pairs) -> tuple[Array, Pairs]:
    """Crop the trailing dimensions of ``x`` (a view) by the negative ``pads`` and return the rest of the pads."""
    crop = trailing(slice(max(0, -lo), n + min(0, hi)) for (lo, hi), n in zip(pads, x.shape[-len(pads) :]))
    return x[crop], tuple((max(0, lo), max(0, hi)) for lo, hi in pads)


def pad_constant(x: Array, pads: Pairs, value: Any = 0) -> Array:
    """Pad the trailing dimensions of ``x`` by ``(before, after)`` with ``value``; negative pads crop.

    Without anything to pad the result is a view of ``x``.
    """
    x, pads = split_pads(x, pads)
    if not any(map(any, pads)):
        return x
    lead = x.ndim - len(pads)
    sizes = zip(x.shape[lead:], pads)
    out = np.full(x.shape[:lead] + tuple(n + lo + hi for n, (lo, hi) in sizes), value, x.dtype)
    out[interior(x, pads)] = x
    return out


def interior(x: Array, pads: Pairs) -> tuple[Any, ...]:
    """Where ``x`` lies inside itself padded by the non-negative ``pads``."""
    return trailing(slice(lo, lo + n) for (lo, _), n in zip(pads, x.shape[-len(pads) :]))
