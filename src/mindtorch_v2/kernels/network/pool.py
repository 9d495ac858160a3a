"""Owns max, average, adaptive and fractional pooling in one to three dimensions, unpooling, and their gradients.

Inputs are ``(*lead, *space)``; every geometry argument is a tuple with one int per spatial dimension. Indices count
places in the flat plane of ``space``, as torch's do. What torch refuses is in ``pool_shape``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..compiled import C, densely_laid
from ..precision import widened
from .axis_map import runs
from .fold import Array, Pairs, Shape, tap_slices, trailing
from .pool_shape import check_adaptive, check_fractional, check_pool, check_unpool

# Planes are pooled so many bytes at a time, for all taps to find them in the cache.
BLOCK_BYTES = 1 << 18
# Up to here compiled loops from window to window are faster than passes over all of them.
FEW = 1 << 14


class _Pool(NamedTuple):
    kernel: Shape
    stride: Shape
    padding: Shape
    dilation: Shape
    space: Shape
    counts: Shape  # windows per axis

    @property
    def pads(self) -> Pairs:
        """Padding before, and as much after as the last window reaches, which in ceil mode may be more."""
        reaches = (
            (c - 1) * s + d * (k - 1) + 1 for c, s, d, k in zip(self.counts, self.stride, self.dilation, self.kernel)
        )
        return tuple((p, max(0, reach - n - p)) for p, n, reach in zip(self.padding, self.space, reaches))

    @property
    def apart(self) -> bool:
        """Whether no place belongs to two windows."""
        return all(s > d * (k - 1) for s, d, k in zip(self.stride, self.dilation, self.kernel))


@functools.lru_cache(maxsize=256)
def _max_geometry(
    shape: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
) -> _Pool:
    ndim = len(kernel)
    counts = check_pool(f"max_pool{ndim}d", shape, kernel, stride, padding, dilation, ceil_mode)
    return _Pool(kernel, stride, padding, dilation, shape[-ndim:], counts)


class Few(NamedTuple):
    """What the compiled loops are told of windows on a small input, and the shape of the result."""

    windows: tuple[Shape, Shape, Shape, Shape]
    shape: Shape


@functools.lru_cache(maxsize=256)
def few_maxima(shape: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool) -> Few:
    pool = _max_geometry(shape, kernel, stride, padding, dilation, ceil_mode)
    return Few(pool[:4], (*shape[: -len(kernel)], *pool.counts))


@functools.lru_cache(maxsize=256)
def few_means(
    shape: Shape, kernel: Shape, stride: Shape, padding: Shape, ceil_mode: bool, divisor_override: int | None
) -> Few:
    pool = _avg_geometry(shape, kernel, stride, padding, ceil_mode, divisor_override)
    return Few(pool[:4], (*shape[: -len(kernel)], *pool.counts))


# ---------------------------------------------------------------------------------------------------- max pooling


@widened
def max_pool_forward(
    x: Array, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool = False
) -> tuple[Array, Array]:
    """Largest value of each window and its place; the first of equals, but the last NaN."""
    pool = _max_geometry(x.shape, kernel, stride, padding, dilation, ceil_mode)
    if C is not None and x.size <= FEW:
        out: Array = np.empty((*x.shape[: -len(kernel)], *pool.counts), x.dtype)
        places: Array = np.empty(out.shape, np.int64)
        if C.max_pool(*pool[:4], x, out, places):
            return out, places
    return _max_with_indices(x, pool)


@widened
def max_pool_values(
    x: Array, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool = False
) -> Array:
    """``max_pool_forward`` without the places, for when nobody asks for them."""
    pool = _max_geometry(x.shape, kernel, stride, padding, dilation, ceil_mode)
    out = np.empty((*x.shape[: -len(kernel)], *pool.counts), x.dtype)
    if C is not None and x.size <= FEW and C.max_pool(*pool[:4], x, out, None):
        return out
    flat = _planes(out, pool.counts)
    for rows, source in _padded_planes(_planes(x, pool.space), pool.pads, _lowest(x.dtype)):
        _reduce_windows(np.maximum, source, pool, flat[rows])
    return out


@widened
def max_pool_backward(
    grad: Array,
    indices: Array,
    x_shape: Shape,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    ceil_mode: bool = False,
) -> Array:
    """Gradient of ``max_pool_forward`` with respect to its input of shape ``x_shape``."""
    pool = _Pool(kernel, stride, padding, dilation, x_shape[-len(kernel) :], grad.shape[-len(kernel) :])
    places = math.prod(pool.space)
    # With gaps between its elements a window may have padding alone, and name a place outside: it has no gradient.
    if max(dilation) > 1 and indices.size and indices.max() >= places:
        keep = indices < places
        return _scatter(np.where(keep, grad, 0), np.where(keep, indices, 0), x_shape, pool.space, apart=False)
    return _scatter(grad, indices, x_shape, pool.space, pool.apart)


@widened
def adaptive_max_pool_forward(x: Array, output_size: Shape) -> tuple[Array, Array]:
    """Largest value, and its place, of each of ``output_size`` windows that together cover the input."""
    ndim = len(output_size)
    check_adaptive(f"adaptive_max_pool{ndim}d", x.shape, output_size)
    space = x.shape[-ndim:]
    shape = (*x.shape[:-ndim], *output_size)
    if C is not None and _by_windows(x.size, math.prod(shape)):
        out: Array = np.empty(shape, x.dtype)
        where: Array = np.empty(shape, np.int64)
        if C.max_pool(*_covering(ndim), x, out, where):
            return out, where
    pool = _even_pool(space, output_size)
    if pool is not None:
        return _max_with_indices(x, pool)
    if 0 in shape:
        return np.empty(shape, x.dtype), np.empty(shape, np.int64)
    places = []
    for n, size in zip(space, output_size):
        starts, ends = _adaptive_windows(n, size)
        # Shorter windows see their last place again, which changes neither the maximum nor where it is.
        places.append(np.minimum(starts[:, None] + np.arange((ends - starts).max()), ends[:, None] - 1))
    planes = _planes(x, space)
    taps, at = [], []
    for tap in np.ndindex(*(axis.shape[1] for axis in places)):
        grid = np.ix_(*(axis[:, t] for axis, t in zip(places, tap)))
        taps.append(planes[(slice(None), *grid)])
        at.append(np.ravel_multi_index(grid, space))
    values, indices = _max_of_taps(taps, np.stack(at)[:, None])
    return values.reshape(shape), indices.reshape(shape)


@widened
def adaptive_max_pool_backward(grad: Array, indices: Array, x_shape: Shape, output_size: Shape) -> Array:
    """Gradient of ``adaptive_max_pool_forward`` with respect to its input of shape ``x_shape``."""
    space = x_shape[-len(output_size) :]
    return _scatter(grad, indices, x_shape, space, _even_pool(space, output_size) is not None)


@widened
def fractional_max_pool_forward(x: Array, kernel: Shape, output_size: Shape, samples: Array) -> tuple[Array, Array]:
    """Largest value and its place in windows whose steps are drawn by ``samples`` ``(N, C, ndim)`` in [0, 1)."""
    ndim = len(kernel)
    check_fractional(x.shape, kernel, output_size, samples.shape)
    space = x.shape[-ndim:]
    planes = _planes(x, space)
    samples = samples[: x.shape[0] if x.ndim == ndim + 2 else 1].reshape(len(planes), ndim)
    # In two dimensions torch draws the last axis first.
    draws = samples[:, ::-1] if ndim == 2 else samples
    starts = [_fractional_starts(draws[:, i], space[i], kernel[i], output_size[i]) for i in range(ndim)]
    grids = [start.reshape(len(planes), *(-1 if j == i else 1 for j in range(ndim))) for i, start in enumerate(starts)]
    plane = np.arange(len(planes)).reshape(-1, *(1,) * ndim)
    taps, at = [], []
    for tap in np.ndindex(*kernel):
        grid = tuple(axis + t for axis, t in zip(grids, tap))
        taps.append(planes[(plane, *grid)])
        at.append(np.ravel_multi_index(np.broadcast_arrays(*grid), space))
    values, indices = _max_of_taps(taps, np.stack(at))
    shape = (*x.shape[:-ndim], *output_size)
    return values.reshape(shape), indices.reshape(shape)


@widened
def fractional_max_pool_backward(grad: Array, indices: Array, x_shape: Shape, output_size: Shape) -> Array:
    """Gradient of ``fractional_max_pool_forward`` with respect to its input of shape ``x_shape``."""
    return _scatter(grad, indices, x_shape, x_shape[-len(output_size) :], apart=False)


def max_unpool_forward(x: Array, indices: Array, output_size: Shape) -> Array:
    """Zeros of ``output_size`` with the values of ``x`` at ``indices``; of several at one place the last stays."""
    lift = (1,) if len(output_size) == 1 else ()
    check_unpool(x.shape + lift, indices.shape + lift, output_size + lift)
    length = math.prod(output_size)
    bad = indices[(indices < 0) | (indices >= length)]
    if bad.size:
        volume = "x".join(map(str, output_size + lift))
        raise RuntimeError(f"Found an invalid max index: {bad[0]} (output volumes are of size {volume})")
    shape = (*x.shape[: -len(output_size)], *output_size)
    return _scatter(x, indices, shape, output_size, apart=True, adds=False)


# ---------------------------------------------------------------------------------------------------- average pooling


@widened
def avg_pool_forward(
    x: Array,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """Mean of each window, or its sum over ``divisor_override``."""
    pool = _avg_geometry(x.shape, kernel, stride, padding, ceil_mode, divisor_override)
    means = _means_of_few(x, pool, count_include_pad, divisor_override or 0)
    return _average(x, pool, _divisor(pool, count_include_pad, divisor_override)) if means is None else means


@widened
def avg_pool_backward(
    grad: Array,
    x_shape: Shape,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """Gradient of ``avg_pool_forward`` with respect to its input of shape ``x_shape``."""
    pool = _avg_geometry(x_shape, kernel, stride, padding, ceil_mode, divisor_override)
    if C is not None and math.prod(x_shape) <= FEW:
        out: Array = np.empty(x_shape, grad.dtype)
        if C.avg_pool_backward(*pool[:4], out, densely_laid(grad), count_include_pad, divisor_override or 0):
            return out
    return _average_backward(grad, x_shape, pool, _divisor(pool, count_include_pad, divisor_override))


@widened
def adaptive_avg_pool_forward(x: Array, output_size: Shape) -> Array:
    """Mean of each of ``output_size`` windows that together cover the input."""
    ndim = len(output_size)
    check_adaptive(f"adaptive_avg_pool{ndim}d", x.shape, output_size)
    shape = (*x.shape[:-ndim], *output_size)
    if C is not None and _by_windows(x.size, math.prod(shape)):
        out: Array = np.empty(shape, x.dtype)
        if C.avg_pool(*_covering(ndim), x, out, False, 0):
            return out
    pool = _even_pool(x.shape[-ndim:], output_size)
    if pool is not None:
        return _average(x, pool, math.prod(pool.kernel))
    for axis, size in enumerate(output_size, start=x.ndim - ndim):
        starts, ends = _adaptive_windows(x.shape[axis], size)
        x = runs(starts, ends, x.shape[axis]).apply(x, axis) / _along(axis, ends - starts, x)
    return x


@widened
def adaptive_avg_pool_backward(grad: Array, x_shape: Shape, output_size: Shape) -> Array:
    """Gradient of ``adaptive_avg_pool_forward`` with respect to its input of shape ``x_shape``."""
    ndim = len(output_size)
    if C is not None and _by_windows(math.prod(x_shape), grad.size):
        out: Array = np.empty(x_shape, grad.dtype)
        if C.avg_pool_backward(*_covering(ndim), out, densely_laid(grad), False, 0):
            return out
    pool = _even_pool(x_shape[-ndim:], output_size)
    if pool is not None:
        return _average_backward(grad, x_shape, pool, math.prod(pool.kernel))
    for axis, size in enumerate(output_size, start=grad.ndim - ndim):
        starts, ends = _adaptive_windows(x_shape[axis], size)
        grad = grad / _along(axis, ends - starts, grad)
        grad = runs(starts, ends, x_shape[axis]).transposed().apply(grad, axis)
    return grad


_LARGE_WINDOW = 16  # elements; NumPy takes a pass over memory for each row and column of such a window


def _by_windows(size: int, count: int) -> bool:
    """Whether loops that go window by window pay, for so many elements in so many windows side by side."""
    return size <= FEW or size >= _LARGE_WINDOW * count


@functools.cache
def _covering(ndim: int) -> tuple[Shape, Shape, Shape, Shape]:
    """How the compiled loops are told of windows that together cover the input: no stride."""
    ones, zeros = (1,) * ndim, (0,) * ndim
    return ones, zeros, zeros, ones


def _means_of_few(x: Array, pool: _Pool, count_include_pad: bool, divisor: int) -> Array | None:
    """The means of windows by the compiled loop; None where it does not take them."""
    if C is None or x.size > FEW:
        return None
    out: Array = np.empty((*x.shape[: -len(pool.space)], *pool.counts), x.dtype)
    return out if C.avg_pool(*pool[:4], x, out, count_include_pad, divisor) else None


@functools.lru_cache(maxsize=256)
def _avg_geometry(
    shape: Shape, kernel: Shape, stride: Shape, padding: Shape, ceil_mode: bool, divisor_override: int | None
) -> _Pool:
    ndim = len(kernel)
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    ones = (1,) * ndim
    counts = check_pool(f"avg_pool{ndim}d", shape, kernel, stride, padding, ones, ceil_mode)
    return _Pool(kernel, stride, padding, ones, shape[-ndim:], counts)


@functools.lru_cache(maxsize=32)
def _divisor(pool: _Pool, include_pad: bool, override: int | None) -> Any:
    """What the sums of windows are divided by: one number, or one for each window of a plane."""
    if override is not None:
        return override
    divisor: Any = 1
    uniform = 1
    for c, k, s, p, n in zip(pool.counts, pool.kernel, pool.stride, pool.padding, pool.space):
        starts = np.arange(c) * s - p
        # Overhang in ceil mode counts no more than the padding does.
        ends = np.minimum(starts + k, n + p)
        if not include_pad:
            starts, ends = np.maximum(starts, 0), np.minimum(ends, n)
        lengths = ends - starts
        divisor = np.multiply.outer(divisor, lengths)
        uniform = uniform * int(lengths[0]) if (lengths == lengths[0]).all() else 0
    return uniform or divisor


def _average(x: Array, pool: _Pool, divisor: Any) -> Array:
    out = np.empty((*x.shape[: -len(pool.space)], *pool.counts), x.dtype)
    flat = _planes(out, pool.counts)
    planes = _planes(x, pool.space)
    if math.prod(pool.counts) == 1 and pool.kernel == pool.space and not any(pool.padding) and x.dtype.kind == "f":
        # One window that is the whole plane: a product with ones is summed by BLAS.
        rows = planes.reshape(len(planes), math.prod(pool.space))
        flat[...] = (rows.dot(np.ones(rows.shape[1], x.dtype)) / divisor).reshape(flat.shape)
        return out
    for block, source in _padded_planes(planes, pool.pads, 0):
        target = flat[block]
        _reduce_windows(np.add, source, pool, target)
        if x.dtype.kind == "f":
            np.divide(target, divisor, out=target, casting="same_kind")
        else:
            target[...] = np.sign(target) * np.sign(divisor) * (np.abs(target) // np.abs(divisor))
    return out


def _average_backward(grad: Array, x_shape: Shape, pool: _Pool, divisor: Any) -> Array:
    out = np.empty(x_shape, grad.dtype)
    target, source = _planes(out, pool.space), _planes(grad, pool.counts)
    sizes = tuple(n + lo + hi for n, (lo, hi) in zip(pool.space, pool.pads))
    inner = trailing(slice(lo, lo + n) for n, (lo, _) in zip(pool.space, pool.pads))
    step = max(1, BLOCK_BYTES // (math.prod(sizes) * grad.itemsize))
    for start in range(0, len(source), step):
        block = np.divide(source[start : start + step], divisor, dtype=grad.dtype, casting="same_kind")
        # The last axis first: the strided writes go to the small arrays.
        for axis in reversed(range(len(sizes))):
            block = _spread_axis(block, axis + 1, pool.kernel[axis], pool.stride[axis], sizes[axis])
        target[start : start + step] = block[inner]
    return out


def _spread_axis(grad: Array, axis: int, k: int, s: int, size: int) -> Array:
    """Add each value along ``axis`` to the ``k`` places of its window among ``size``."""
    if k == s == 1 and size == grad.shape[axis]:
        return grad
    out = np.zeros((*grad.shape[:axis], size, *grad.shape[axis + 1 :]), grad.dtype)
    reach = s * (grad.shape[axis] - 1) + 1
    for tap in range(k):
        view = out[(*(slice(None),) * axis, slice(tap, tap + reach, s))]
        if s >= k:
            view[...] = grad
        else:
            view += grad
    return out


def _along(axis: int, values: Array, x: Array) -> Array:
    """``values`` shaped to broadcast along ``axis`` of ``x``, in its type."""
    return values.astype(x.dtype).reshape(-1, *(1,) * (x.ndim - axis - 1))


# ---------------------------------------------------------------------------------------------------- windows


def _planes(x: Array, space: Shape) -> Array:
    return x.reshape(math.prod(x.shape[: x.ndim - len(space)]), *space)


def _lowest(dtype: np.dtype[Any]) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _even_pool(space: Shape, output_size: Shape) -> _Pool | None:
    """Adaptive pooling as plain pooling, where the windows are all of one size and lie side by side."""
    if 0 in output_size or any(n % o for n, o in zip(space, output_size)):
        return None
    kernel = tuple(n // o for n, o in zip(space, output_size))
    ndim = len(space)
    return _Pool(kernel, kernel, (0,) * ndim, (1,) * ndim, space, output_size)


def _adaptive_windows(n: int, size: int) -> tuple[Array, Array]:
    places = np.arange(size)
    return places * n // max(size, 1), -(-(places + 1) * n // max(size, 1))


def _fractional_starts(samples: Array, n: int, k: int, size: int) -> Array:
    """Where the ``size`` windows of each plane start; the last one always ends with the input."""
    starts = np.full((len(samples), size), n - k)
    if size > 1:
        step = samples.dtype.type(n - k) / samples.dtype.type(size - 1)
        drawn = (np.arange(size - 1).astype(samples.dtype) + samples[:, None]) * step
        starts[:, :-1] = drawn.astype(np.int64) - (samples[:, None] * step).astype(np.int64)
    return starts


def _padded_planes(planes: Array, pads: Pairs, fill: Any) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of ``planes`` padded with ``fill``, in one reused buffer, with where they come from."""
    sizes = tuple(n + lo + hi for n, (lo, hi) in zip(planes.shape[1:], pads))
    step = max(1, BLOCK_BYTES // max(1, math.prod(sizes) * planes.itemsize))
    buffer = np.full((min(step, len(planes)), *sizes), fill, planes.dtype) if any(map(any, pads)) else None
    inner = trailing(slice(lo, lo + n) for n, (lo, _) in zip(planes.shape[1:], pads))
    for start in range(0, len(planes), step):
        source = planes[start : start + step]
        if buffer is not None:
            padded = buffer[: len(source)]
            padded[inner] = source
            source = padded
        yield slice(start, start + len(source)), source


def _reduce_windows(combine: np.ufunc, source: Array, pool: _Pool, out: Array) -> None:
    """Combine the values of each window of ``source`` ``(planes, *padded)`` into ``out``, one axis at a time."""
    last = len(pool.space)
    for axis, (k, s, d, c) in enumerate(zip(pool.kernel, pool.stride, pool.dilation, pool.counts), start=1):
        along = (slice(None),) * axis
        taps = [source[(*along, slice(t * d, t * d + s * (c - 1) + 1, s))] for t in range(k)]
        source = taps[0]
        for tap in taps[1:]:
            target = out if axis == last else source if source is not taps[0] else None
            source = combine(source, tap, out=target)
    if source is not out:
        out[...] = source


def _max_with_indices(x: Array, pool: _Pool) -> tuple[Array, Array]:
    ndim = len(pool.space)
    values = np.empty((*x.shape[:-ndim], *pool.counts), x.dtype)
    indices = np.empty(values.shape, np.int64)
    flat_values, flat_indices = _planes(values, pool.counts), _planes(indices, pool.counts)
    tables = _index_tables(pool)
    for rows, source in _padded_planes(_planes(x, pool.space), pool.pads, _lowest(x.dtype)):
        block, places = flat_values[rows], flat_indices[rows]
        _reduce_windows(np.maximum, source, pool, block)
        seen = [source[at] for at in tables.taps]
        np.take(tables.offsets, _first_equal(seen, block, tables.hidden), out=places, mode="clip")
        places += tables.corners
    return values, indices


class _IndexTables(NamedTuple):
    taps: list[tuple[Any, ...]]  # index of what each tap sees
    corners: Array  # flat place of each window's first tap
    offsets: Array  # from there to each tap
    hidden: list[Array | None]


@functools.lru_cache(maxsize=32)
def _index_tables(pool: _Pool) -> _IndexTables:
    taps = list(np.ndindex(pool.kernel))
    axes = [np.arange(c) * s - p for c, s, p in zip(pool.counts, pool.stride, pool.padding)]
    strides = [math.prod(pool.space[i + 1 :]) for i in range(len(pool.space))]
    corners = np.asarray(sum(axis * step for axis, step in zip(np.ix_(*axes), strides)))
    offsets = np.array([sum(t * d * step for t, d, step in zip(tap, pool.dilation, strides)) for tap in taps])
    # Padding before the input is never the maximum, even where all the window is as low as the padding.
    hidden = [_hidden(tap, pool, axes) for tap in taps]
    seen = [tap_slices(tap, pool.stride, pool.dilation, pool.counts) for tap in taps]
    return _IndexTables(seen, corners, offsets, hidden)


def _hidden(tap: Shape, pool: _Pool, axes: Sequence[Array]) -> Array | None:
    """Which windows have ``tap`` in the padding before the input; None when none has."""
    before = [axis + t * d < 0 for axis, t, d in zip(axes, tap, pool.dilation)]
    if not any(axis.any() for axis in before):
        return None
    mask = np.zeros(pool.counts, bool)
    for i, axis in enumerate(before, start=1):
        mask |= axis.reshape(-1, *(1,) * (len(before) - i))
    return mask


def _first_equal(taps: Sequence[Array], values: Array, hidden: Sequence[Array | None]) -> Array:
    """For each of ``values`` the number of the first of ``taps`` that is equal to it, or of the last that is NaN."""
    codes = np.zeros(values.shape, np.min_scalar_type(len(taps)))
    differ = np.empty(values.shape, bool)
    before = np.ones(values.shape, bool)
    for tap, mask in zip(taps, hidden):
        np.not_equal(tap, values, out=differ)
        if mask is not None:
            differ |= mask
        # The number is how many taps in a row, from the first on, differ.
        before &= differ
        codes += before.view(np.uint8)
    if values.dtype.kind == "f" and codes.size and codes.max() == len(taps):
        for number, tap in enumerate(taps):
            codes[np.isnan(tap)] = number
    return codes


def _max_of_taps(taps: Sequence[Array], places: Array) -> tuple[Array, Array]:
    """Elementwise maximum of ``taps`` and, from ``places`` ``(taps, ...)``, where it lies."""
    values = taps[0].copy()
    for tap in taps[1:]:
        np.maximum(values, tap, out=values)
    codes = _first_equal(taps, values, [None] * len(taps))
    places = np.broadcast_to(places, (len(taps), *values.shape))
    return values, np.take_along_axis(places, codes[None].astype(np.int64), 0)[0]


def _scatter(values: Array, indices: Array, shape: Shape, space: Shape, apart: bool, adds: bool = True) -> Array:
    """Add ``values`` at ``indices`` of their planes in zeros of ``shape``; or set them, where no two share a place or the
    last of those that do is to stay."""
    if C is not None and adds and math.prod(shape) > 0:
        summed: Array = np.empty(shape, values.dtype)
        if C.max_unpool(densely_laid(values), indices, summed, summed.size // math.prod(space)):
            return summed
    out = np.zeros(shape, values.dtype)
    if not out.size or not values.size:
        return out
    target = out.reshape(-1, math.prod(space))
    places, source = indices.reshape(len(target), -1), values.reshape(len(target), -1)
    step = max(1, BLOCK_BYTES // (target.shape[1] * target.itemsize))
    base = (np.arange(step) * target.shape[1])[:, None]
    for start in range(0, len(target), step):
        block = target[start : start + step]
        flat = places[start : start + step] + base[: len(block)]
        part = source[start : start + step]
        if apart:
            block.reshape(-1)[flat] = part
        else:
            block[...] = np.bincount(flat.reshape(-1), part.reshape(-1), block.size).reshape(block.shape)
    return out
