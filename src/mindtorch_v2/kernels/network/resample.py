"""Owns resizing of images by interpolation, plain and antialiased, and the shuffles between channels and space.

Inputs are ``(N, C, *space)``. ``scales`` are what ``scale_factor`` was, per axis, or None where only sizes count; how
a scale factor becomes an output size is ``output_space``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.errors import check_size
from ..precision import widened
from .axis_map import AxisMap
from .fold import Array, Shape
from .pool import adaptive_avg_pool_backward, adaptive_avg_pool_forward

# Planes are resized so many bytes at a time, for each axis to find the result of the one before in the cache.
BLOCK_BYTES = 1 << 20
SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


def output_space(space: Shape, scale_factors: Sequence[float]) -> Shape:
    """Sizes that ``scale_factor`` asks for."""
    return tuple(math.floor(float(n) * scale) for n, scale in zip(space, scale_factors))


def check_upsample(shape: Shape, output_size: Shape) -> None:
    """Raise what torch raises for sizes that do not fit."""
    ndim = len(output_size)
    if len(shape) != ndim + 2:
        raise RuntimeError(f"It is expected input_size equals to {ndim + 2}, but got size {len(shape)}")
    space = shape[2:]
    if min(*space, *output_size) <= 0:
        given, wanted = (
            ", ".join(f"{axis}: {n}" for axis, n in zip("DHW"[-ndim:], sizes)) for sizes in (space, output_size)
        )
        both = "and " if ndim == 1 else ""
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({given}) {both}output ({wanted})"
        )
    check_size((*shape[:2], *output_size), 8)
    if shape[1] == 0:
        raise RuntimeError(f"Non-empty {ndim + 2}D data tensor expected but got a tensor with sizes {list(shape)}")


# ---------------------------------------------------------------------------------------------------- interpolation


def upsample_forward(
    x: Array,
    output_size: Shape,
    mode: str,
    align_corners: bool = False,
    scales: Sequence[float | None] | None = None,
) -> Array:
    """Resize ``x`` to ``output_size``.

    ``mode`` is ``"nearest"``, ``"nearest-exact"``, ``"linear"``, ``"cubic"`` or ``"area"``, in as many dimensions as
    there are, or one of the antialiased ``"linear-aa"``, ``"cubic-aa"`` and ``"lanczos-aa"``.
    """
    check_upsample(x.shape, output_size)
    if mode == "area":
        return adaptive_avg_pool_forward(x, output_size)
    if mode.startswith("nearest"):
        return _resize(x, _maps(x.shape[2:], output_size, mode, align_corners, scales, x.dtype))
    if x.dtype == np.uint8:
        return _resize_bytes(x, _maps(x.shape[2:], output_size, mode, align_corners, scales, x.dtype))
    return _interpolate(x, output_size, mode, align_corners, scales)


@widened
def _interpolate(
    x: Array, output_size: Shape, mode: str, align_corners: bool, scales: Sequence[float | None] | None
) -> Array:
    return _resize(x, _maps(x.shape[2:], output_size, mode, align_corners, scales, x.dtype))


@widened
def upsample_backward(
    grad: Array,
    x_shape: Shape,
    mode: str,
    align_corners: bool = False,
    scales: Sequence[float | None] | None = None,
) -> Array:
    """Gradient of ``upsample_forward`` with respect to its input of shape ``x_shape``."""
    if mode == "area":
        return adaptive_avg_pool_backward(grad, x_shape, grad.shape[2:])
    maps = _maps(x_shape[2:], grad.shape[2:], mode, align_corners, scales, grad.dtype, transposed=True)
    return _resize(grad, maps)


def _resize(x: Array, maps: Sequence[AxisMap]) -> Array:
    space, sizes = x.shape[2:], tuple(axis.places.shape[1] for axis in maps)
    out = np.empty((*x.shape[:2], *sizes), x.dtype)
    planes = math.prod(x.shape[:2])
    source, target = x.reshape(planes, *space), out.reshape(planes, *sizes)
    # The last axis is the dear one: map it while there are few rows, after axes that shrink, before those that grow.
    order = _order(space, sizes)
    largest = max(math.prod(space), math.prod(sizes)) * x.itemsize
    step = max(1, BLOCK_BYTES // max(1, largest))
    for start in range(0, len(source), step):
        block = source[start : start + step]
        for i in order[:-1]:
            block = maps[i].apply(block, i + 1)
        maps[order[-1]].apply(block, order[-1] + 1, target[start : start + step])
    return out


@functools.lru_cache(maxsize=256)
def _order(space: Shape, sizes: Shape) -> list[int]:
    return sorted(range(len(sizes)), key=lambda i: (sizes[i] > space[i], -i if sizes[i] > space[i] else i))


def _resize_bytes(x: Array, maps: Sequence[AxisMap]) -> Array:
    """``_resize`` in float32 that is a byte again after each axis, the last one first, as torch has it."""
    wide = x.astype(np.float32)
    for i in reversed(range(len(maps))):
        wide = np.floor(maps[i].apply(wide, i + 2) + np.float32(0.5)).clip(0, 255)
    return wide.astype(np.uint8)


def _maps(
    space: Shape,
    output_size: Shape,
    mode: str,
    align_corners: bool,
    scales: Sequence[float | None] | None,
    dtype: np.dtype[Any],
    transposed: bool = False,
) -> list[AxisMap]:
    dtype = DOUBLE if dtype == DOUBLE else SINGLE
    return _known_maps(space, output_size, mode, align_corners, tuple(scales) if scales else None, dtype, transposed)


@functools.lru_cache(maxsize=64)
def _known_maps(
    space: Shape,
    output_size: Shape,
    mode: str,
    align_corners: bool,
    scales: Sequence[float | None] | None,
    dtype: np.dtype[Any],
    transposed: bool,
) -> list[AxisMap]:
    scales = scales or [None] * len(space)
    if mode == "nearest" and len(space) == 2:
        # In two dimensions torch sees sizes that stay, or double, before it looks at scales.
        scales = [None if size in (n, 2 * n) else scale for n, size, scale in zip(space, output_size, scales)]
    return [
        _axis_map(n, size, mode, align_corners, scale, dtype, transposed)
        for n, size, scale in zip(space, output_size, scales)
    ]


@functools.lru_cache(maxsize=64)
def _axis_map(
    n: int,
    size: int,
    mode: str,
    align_corners: bool,
    scale: float | None,
    dtype: np.dtype[Any],
    transposed: bool,
) -> AxisMap:
    if transposed:
        return _axis_map(n, size, mode, align_corners, scale, dtype, False).transposed()
    if n == size and (mode == "linear" or mode in FILTERS):
        return AxisMap(np.arange(n)[None], None, n)
    if mode.startswith("nearest"):
        return _nearest(n, _step(n, size, False, scale, dtype), size, mode == "nearest-exact")
    step = _step(n, size, align_corners, scale, dtype)
    if mode == "linear":
        return _linear(n, size, align_corners, step)
    if mode == "cubic":
        return _cubic(n, size, align_corners, step)
    return _antialiased(n, size, step, *FILTERS[mode])


# Positions are computed in the type of the data, as torch does: where float32 rounds, a nearest neighbour may change.


def _step(n: int, size: int, align_corners: bool, scale: float | None, dtype: np.dtype[Any]) -> Any:
    """Distance in the input between neighbours of the output."""
    if align_corners:
        return dtype.type(n - 1) / dtype.type(size - 1) if size > 1 else dtype.type(0)
    return dtype.type(1.0 / scale) if scale else dtype.type(n) / dtype.type(size)


def _positions(size: int, align_corners: bool, step: Any) -> Array:
    at = np.arange(size).astype(step.dtype)
    half = step.dtype.type(0.5)
    positions: Array = at * step if align_corners else (at + half) * step - half
    return positions


def _nearest(n: int, step: Any, size: int, exact: bool) -> AxisMap:
    at = np.arange(size).astype(step.dtype)
    if exact:
        at += step.dtype.type(0.5)
    return AxisMap(np.minimum((at * step).astype(np.int64), n - 1)[None], None, n)


def _linear(n: int, size: int, align_corners: bool, step: Any) -> AxisMap:
    at = np.maximum(_positions(size, align_corners, step), 0)
    low = np.minimum(at.astype(np.int64), n - 1)
    part = (at - low).clip(0, 1).astype(at.dtype)
    return AxisMap(np.stack([low, np.minimum(low + 1, n - 1)]), np.stack([1 - part, part]), n)


def _cubic(n: int, size: int, align_corners: bool, step: Any) -> AxisMap:
    at = _positions(size, align_corners, step)
    low = np.floor(at)
    part = (at - low).clip(0, 1)
    index = (low.astype(np.int64) + np.arange(-1, 3)[:, None]).clip(0, n - 1)
    return AxisMap(index, cubic_weights(part), n)


def cubic_weights(part: Array) -> Array:
    """Weights of the four neighbours of a place ``part`` of the way from the second to the third, with a = -0.75."""
    a = -0.75
    return np.stack([_far(1 + part, a), _near(part, a), _near(1 - part, a), _far(2 - part, a)])


def _near(distance: Array, a: float) -> Array:
    """Keys' cubic convolution filter of ``a`` for distances up to one."""
    return ((a + 2) * distance - (a + 3)) * distance * distance + 1


def _far(distance: Array, a: float) -> Array:
    """Keys' cubic convolution filter of ``a`` for distances from one to two."""
    return ((distance - 5) * distance + 8) * distance * a - 4 * a


def _cubic_filter(distance: Array) -> Array:
    d = np.abs(distance)
    return np.where(d < 1, _near(d, -0.5), np.where(d < 2, _far(d, -0.5), 0)).astype(d.dtype)


def _triangle_filter(distance: Array) -> Array:
    height: Array = np.maximum(1 - np.abs(distance), 0)
    return height


def _lanczos_filter(distance: Array) -> Array:
    return np.where(np.abs(distance) < 3, np.sinc(distance) * np.sinc(distance / 3), 0).astype(distance.dtype)


# Per antialiased mode: the filter, and how many inputs it spans where nothing shrinks.
FILTERS: dict[str, tuple[Callable[[Array], Array], int]] = {
    "linear-aa": (_triangle_filter, 2),
    "cubic-aa": (_cubic_filter, 4),
    "lanczos-aa": (_lanczos_filter, 6),
}


def _antialiased(n: int, size: int, step: Any, weigh: Callable[[Array], Array], span: int) -> AxisMap:
    """A filter stretched by the step where the output is smaller, cut at the borders and made to sum to one."""
    half = step.dtype.type(0.5)
    stretch = max(step, step.dtype.type(1))
    support = span * half * stretch
    centers = (np.arange(size).astype(step.dtype) + half) * step
    starts = np.maximum((centers - support + half).astype(np.int64), 0)
    lengths = np.minimum((centers + support + half).astype(np.int64), n) - starts
    lengths = lengths.clip(0, math.ceil(support) * 2 + 1)
    taps = np.arange(lengths.max())[:, None]
    inside = taps < lengths
    weight = np.where(inside, weigh((taps + starts - centers + half) * (1 / stretch)), 0)
    total = weight.sum(0)
    weight = weight / np.where(total == 0, 1, total)
    return AxisMap(np.where(inside, starts + taps, n), weight.astype(step.dtype), n)


# ---------------------------------------------------------------------------------------------------- shuffles


def pixel_shuffle(x: Array, upscale_factor: int) -> Array:
    """``(*, C * r * r, H, W)`` to ``(*, C, H * r, W * r)``: channels become pixels. Its gradient is the unshuffle."""
    r = upscale_factor
    _check_shuffle("pixel_shuffle", x, "upscale_factor", r)
    *lead, channels, height, width = x.shape
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    shape = (*lead, channels // (r * r), height * r, width * r)
    if not x.size:
        return np.empty(shape, x.dtype)
    parts = x.reshape(-1, channels // (r * r), r, r, height, width)
    return np.ascontiguousarray(parts.transpose(0, 1, 4, 2, 5, 3)).reshape(shape)


def pixel_unshuffle(x: Array, downscale_factor: int) -> Array:
    """``(*, C, H * r, W * r)`` to ``(*, C * r * r, H, W)``: pixels become channels. Its gradient is the shuffle."""
    r = downscale_factor
    _check_shuffle("pixel_unshuffle", x, "downscale_factor", r)
    *lead, channels, height, width = x.shape
    for name, dim, n in (("height", -2, height), ("width", -1, width)):
        if n % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, "
                f"but input.size({dim})={n} is not divisible by {r}"
            )
    if not x.size:
        return x.copy()  # torch leaves the shape of an empty input as it is
    parts = x.reshape(-1, channels, height // r, r, width // r, r).transpose(0, 1, 3, 5, 2, 4)
    return np.ascontiguousarray(parts).reshape(*lead, channels * r * r, height // r, width // r)


def channel_shuffle(x: Array, groups: int) -> Array:
    """Deal the channels of ``(N, C, *)`` out by ``groups``; its gradient is the shuffle by ``C / groups``."""
    if x.ndim < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(x.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    channels = x.shape[1]
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
        )
    parts = x.reshape(x.shape[0], groups, channels // groups, *x.shape[2:])
    return np.ascontiguousarray(parts.swapaxes(1, 2)).reshape(x.shape)


def _check_shuffle(name: str, x: Array, factor_name: str, factor: int) -> None:
    if x.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {x.ndim} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {factor_name}, but got {factor}")
