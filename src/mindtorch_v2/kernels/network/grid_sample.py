"""Owns sampling of images at the places a grid names, in two and three dimensions, and grids of affine transforms.

Inputs are ``(N, C, *space)``; a grid is ``(N, *positions, ndim)`` with the last spatial axis of the input first and
-1 to 1 spanning the input, as in torch.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ..compiled import C, densely_laid
from ..precision import widened
from .fold import Array, Shape
from .resample import cubic_weights

# So many values are sampled at once, of as many images as that takes.
TOGETHER = 1 << 14


def check_grid_sample(x_shape: Shape, grid_shape: Shape, mode: str) -> None:
    """Raise what torch raises for shapes that do not fit."""
    ndim = len(x_shape) - 2
    if x_shape[0] != grid_shape[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(x_shape)} and grid with sizes {list(grid_shape)}"
        )
    if grid_shape[-1] != ndim:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {ndim} in last dimension, "
            f"but got grid with sizes {list(grid_shape)}"
        )
    for dim in range(2, len(x_shape)):
        if x_shape[dim] == 0:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, "
                f"but input has sizes {list(x_shape)} with dimension {dim} being empty"
            )
    if ndim not in (2, 3) or len(grid_shape) != len(x_shape):
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, "
            f"but got input with sizes {list(x_shape)} and grid with sizes {list(grid_shape)}"
        )
    if ndim == 3 and mode == "bicubic":
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")


# ---------------------------------------------------------------------------------------------------- sampling


@widened
def grid_sample_forward(
    x: Array, grid: Array, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False
) -> Array:
    """Values of ``x`` at the places of ``grid``: ``(N, C, *positions)``."""
    check_grid_sample(x.shape, grid.shape, mode)
    if C is not None and mode == "bilinear" and padding_mode != "reflection":
        made = np.empty((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
        if C.sample(densely_laid(x), densely_laid(grid), bool(align_corners), padding_mode == "border", made):
            return made
    positions = math.prod(grid.shape[1:-1])
    out = np.zeros((*x.shape[:2], positions), x.dtype)
    padded, few = _with_zero(x), max(1, TOGETHER // max(positions * x.shape[1], 1))
    for start in range(0, len(x), few):
        part = slice(start, start + few)
        planes, target = padded[part], out[part]
        axes = _axis_taps(grid[part], x.shape[2:], mode, padding_mode, align_corners)
        for places, taps in _corners(axes, x.shape[2:]):
            shape = len(planes), positions
            places, weight = places.reshape(shape), _product(tap.weight for tap in taps).reshape(shape)
            if C is not None and C.add_sampled(planes, places, weight, target):
                continue
            value = _taken(planes, places)
            value *= weight[:, None]
            target += value
    return out.reshape(*x.shape[:2], *grid.shape[1:-1])


def _taken(planes: Array, places: Array) -> Array:
    """``planes[n, c, places[n]]`` of (images, channels, places)."""
    images, channels, size = planes.shape
    if images == 1:
        return planes[0].take(places[0], 1)[None]
    starts = np.arange(images * channels).reshape(images, channels, 1) * size
    return planes.reshape(-1).take(starts + places[:, None])


@widened
def grid_sample_backward(
    grad: Array,
    x: Array,
    grid: Array,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
    input_needed: bool = True,
    grid_needed: bool = True,
) -> tuple[Array | None, Array | None]:
    """Gradients of ``grid_sample_forward`` with respect to ``x`` and ``grid``; None for what is not needed."""
    space = x.shape[2:]
    planes = _with_zero(x) if grid_needed else None
    to_input = np.zeros((*x.shape[:2], math.prod(space) + 1), x.dtype) if input_needed else None
    to_grid = np.zeros(grid.shape, grid.dtype) if grid_needed else None
    flat = grad.reshape(*grad.shape[:2], math.prod(grad.shape[2:]))
    for n in range(x.shape[0]):
        axes = _axis_taps(grid[n], space, mode, padding_mode, align_corners)
        slopes = np.zeros((len(space), flat.shape[2]), grid.dtype)
        for places, taps in _corners(axes, space):
            if to_input is not None:
                _add_at(to_input[n], places, flat[n] * _product(tap.weight for tap in taps))
            if planes is not None:
                slopes += _slopes(taps) * np.einsum("cp,cp->p", flat[n], planes[n].take(places, 1))
        if to_grid is not None:
            # The grid names the last axis first.
            to_grid[n] = slopes[::-1].T.reshape(grid.shape[1:])
    return None if to_input is None else to_input[..., :-1].reshape(x.shape), to_grid


def _with_zero(x: Array) -> Array:
    """``x`` with flat planes and one more place, of zero, for what lies outside."""
    flat = np.zeros((*x.shape[:2], math.prod(x.shape[2:]) + 1), x.dtype)
    flat[..., :-1] = x.reshape(*x.shape[:2], flat.shape[2] - 1)
    return flat


def _add_at(planes: Array, places: Array, values: Array) -> None:
    """Add the columns of ``values`` to the columns ``places`` of ``planes``, as often as they are named."""
    for plane, row in zip(planes, values):
        plane += np.bincount(places, row, len(plane))


class _Tap(NamedTuple):
    """What one neighbour along one axis contributes at each position of the grid."""

    place: Array  # along the axis, or -1 outside
    weight: Array
    slope: Array  # of the weight, as the grid's coordinate moves


def _corners(axes: list[list[_Tap]], space: Shape) -> Iterator[tuple[Array, tuple[_Tap, ...]]]:
    """Yield each combination of neighbours, one per axis, and their flat places."""
    outside = math.prod(space)
    for taps in itertools.product(*axes):
        places = np.zeros(taps[0].place.shape, np.int64)
        missed = np.zeros(places.shape, bool)
        for tap, n in zip(taps, space):
            places = places * n + tap.place
            missed |= tap.place < 0
        places[missed] = outside
        yield places, taps


def _slopes(taps: tuple[_Tap, ...]) -> Array:
    """How the weight of a corner changes as the grid moves along each axis."""
    axes = range(len(taps))
    return np.stack([_product(tap.slope if i == axis else tap.weight for i, tap in enumerate(taps)) for axis in axes])


def _product(factors: Iterable[Array]) -> Array:
    return functools.reduce(np.multiply, factors)


def _axis_taps(grid: Array, space: Shape, mode: str, padding_mode: str, align_corners: bool) -> list[list[_Tap]]:
    """Neighbours of every position of the ``grid`` of some images, per axis of ``space``."""
    flat = grid.reshape(math.prod(grid.shape[:-1]), grid.shape[-1])
    build = {"bilinear": _linear_taps, "nearest": _nearest_taps, "bicubic": _cubic_taps}[mode]
    return [build(flat[:, -1 - i], n, padding_mode, align_corners) for i, n in enumerate(space)]


# ---------------------------------------------------------------------------------------------------- one axis


def _nearest_taps(coordinate: Array, n: int, padding_mode: str, align_corners: bool) -> list[_Tap]:
    at, _ = _inside(*_in_pixels(coordinate, n, align_corners), n, padding_mode, align_corners)
    ones = np.ones_like(at)
    return [_Tap(_place(np.rint(at), n), ones, np.zeros_like(at))]


def _linear_taps(coordinate: Array, n: int, padding_mode: str, align_corners: bool) -> list[_Tap]:
    at, slope = _inside(*_in_pixels(coordinate, n, align_corners), n, padding_mode, align_corners)
    low = np.floor(at)
    part = at - low
    return [_Tap(_place(low, n), 1 - part, -slope), _Tap(_place(low + 1, n), part, slope)]


def _cubic_taps(coordinate: Array, n: int, padding_mode: str, align_corners: bool) -> list[_Tap]:
    # Neighbours are taken first and brought inside one by one, so the slope knows nothing of the border.
    at, slope = _in_pixels(coordinate, n, align_corners)
    low = np.floor(at)
    part = at - low
    weights, slopes = cubic_weights(part), _cubic_slopes(part)
    taps = []
    for i in range(4):
        neighbour, _ = _inside(low + (i - 1), slope, n, padding_mode, align_corners)
        taps.append(_Tap(_place(neighbour, n), weights[i], slopes[i] * slope))
    return taps


def _cubic_slopes(part: Array) -> Array:
    """Derivative of ``cubic_weights``."""
    a = -0.75
    far = [(3 * a * d - 10 * a) * d + 8 * a for d in (1 + part, 2 - part)]
    near = [(3 * (a + 2) * d - 2 * (a + 3)) * d for d in (part, 1 - part)]
    return np.stack([far[0], near[0], -near[1], -far[1]])


def _in_pixels(coordinate: Array, n: int, align_corners: bool) -> tuple[Array, Array]:
    """A coordinate from -1 to 1 in pixels, and how fast it moves."""
    if align_corners:
        return (coordinate + 1) / 2 * (n - 1), np.full_like(coordinate, (n - 1) / 2)
    return ((coordinate + 1) * n - 1) / 2, np.full_like(coordinate, n / 2)


def _inside(at: Array, slope: Array, n: int, padding_mode: str, align_corners: bool) -> tuple[Array, Array]:
    """Bring places in pixels inside as ``padding_mode`` asks; zeros leaves them where they are."""
    if padding_mode == "zeros":
        return at, slope
    if padding_mode == "reflection":
        at, slope = _reflected(at, slope, n, align_corners)
    # fmax and fmin, because torch sends NaN to the border too.
    clipped = np.fmin(np.fmax(at, 0), n - 1).astype(at.dtype)
    return clipped, np.where((at <= 0) | (at >= n - 1), 0, slope).astype(slope.dtype)


def _reflected(at: Array, slope: Array, n: int, align_corners: bool) -> tuple[Array, Array]:
    """Reflect at the centres of the outer pixels, or at their outer edges, as often as it takes."""
    low, span = (0.0, n - 1) if align_corners else (-0.5, n)
    if span == 0:
        return np.zeros_like(at), np.zeros_like(slope)
    away = at - low
    distance = np.abs(away)
    times, rest = np.divmod(distance, at.dtype.type(span))
    even = times % 2 == 0
    turned = (away < 0) == even
    return np.where(even, rest + low, span - rest + low).astype(at.dtype), np.where(turned, -slope, slope)


def _place(at: Array, n: int) -> Array:
    """Whole places as integers, -1 for those outside (NaN among them)."""
    inside = (at >= 0) & (at < n)
    return np.where(inside, at, -1).astype(np.int64)


# ---------------------------------------------------------------------------------------------------- affine grids


@widened
def affine_grid_forward(theta: Array, space: Shape, align_corners: bool = False) -> Array:
    """Grids ``(N, *space, ndim)`` that the matrices ``theta`` ``(N, ndim, ndim + 1)`` map the output's places to."""
    base = _base_grid(space, theta.dtype.type, align_corners)
    grids: Array = np.matmul(base, theta.swapaxes(1, 2))
    return grids.reshape(theta.shape[0], *space, len(space))


@widened
def affine_grid_backward(grad: Array, align_corners: bool = False) -> Array:
    """Gradient of ``affine_grid_forward`` with respect to ``theta``."""
    space = grad.shape[1:-1]
    base = _base_grid(space, grad.dtype.type, align_corners)
    flat = grad.reshape(grad.shape[0], -1, len(space))
    matrices: Array = np.matmul(flat.swapaxes(1, 2), base)
    return matrices


def _base_grid(space: Shape, dtype: type[np.floating], align_corners: bool) -> Array:
    """The places of an output of ``space`` as rows ``(x, y, ..., 1)``."""
    axes = []
    for n in space:
        line = np.linspace(-1, 1, n, dtype=dtype) if n > 1 else np.zeros(1, dtype)
        axes.append(line if align_corners else line * dtype((n - 1) / n))
    mesh = np.meshgrid(*axes, indexing="ij")
    rows = np.ones((math.prod(space), len(space) + 1), dtype)
    for i, axis in enumerate(reversed(mesh)):
        rows[:, i] = axis.ravel()
    return rows
