"""Owns convolution in one to three spatial dimensions, plain and transposed, and its gradients.

Arrays are batched (``(N, C, *space)``) and every geometry argument is a tuple with one int per spatial dimension;
unbatched inputs and the padding words ``"same"`` and ``"valid"`` are the caller's to resolve.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..compiled import F32, F64, C, densely_laid
from ..precision import widened
from ..totals import total
from .depthwise import depthwise_correlate, depthwise_weight_gradient, is_depthwise
from .fold import Array, Geometry, Pairs, Shape, interior, split_pads, tap_slices, trailing, windows
from .planes import plane_blocks, plane_layout, tap_moves

# Columns are built in blocks that stay in the second-level cache, but never so narrow that a GEMM spends its time
# repacking the weight.
BLOCK_BYTES = 1 << 21
BLOCK_COLUMNS = 384
# Up to here all is in the calls.
FEW = 1 << 14
FEW_PRODUCTS = 1 << 16
FEW_PLACES, MANY_CHANNELS = 128, 128
GATHER, SPREAD, LEARN = 0, 1, 2


# ---------------------------------------------------------------------------------------------------- shapes and checks


@functools.lru_cache(maxsize=512)
def conv_output_shape(
    x_shape: Shape, w_shape: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> tuple[int, ...]:
    """Shape of ``conv_forward``'s result."""
    space = (
        (size + 2 * pad - dil * (taps - 1) - 1) // step + 1
        for size, taps, step, pad, dil in zip(x_shape[2:], w_shape[2:], stride, padding, dilation)
    )
    # torch gives inputs without channels an output without channels.
    return (x_shape[0], w_shape[0] if x_shape[1] else 0, *space)


def conv_transpose_output_shape(
    x_shape: Shape,
    w_shape: Shape,
    stride: Shape,
    padding: Shape,
    output_padding: Shape,
    dilation: Shape,
    groups: int,
) -> tuple[int, ...]:
    """Shape of ``conv_transpose_forward``'s result."""
    space = (
        (size - 1) * step - 2 * pad + dil * (taps - 1) + extra + 1
        for size, taps, step, pad, extra, dil in zip(
            x_shape[2:], w_shape[2:], stride, padding, output_padding, dilation, strict=True
        )
    )
    return (x_shape[0], w_shape[1] * groups, *space)


def check_conv_input(name: str, x_shape: Shape, ndim: int) -> None:
    """Raise unless ``x_shape`` is an unbatched or batched input of ``name`` (``conv2d``, ``conv_transpose1d``, ...)."""
    if len(x_shape) not in (ndim + 1, ndim + 2):
        raise RuntimeError(
            f"Expected {ndim + 1}D (unbatched) or {ndim + 2}D (batched) input to {name}, "
            f"but got input of size: {list(x_shape)}"
        )


@functools.lru_cache(maxsize=512)
def check_conv(
    x_shape: Shape,
    w_shape: Shape,
    bias_shape: Shape | None,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    *,
    transposed: bool = False,
    output_padding: Shape | None = None,
) -> None:
    """Raise what torch raises for shapes and geometry that do not fit together; ``x_shape`` is batched."""
    _check_geometry(w_shape, stride, padding, dilation, groups, output_padding)
    _check_groups(w_shape, groups)
    _check_channels(x_shape, w_shape, bias_shape, groups, transposed)
    if transposed:
        _check_transposed_output(x_shape, w_shape, stride, padding, output_padding, dilation, groups)
    else:
        _check_kernel_fits(x_shape, w_shape, padding, dilation)
    if 0 in x_shape[2:]:
        raise RuntimeError(
            f"Only zero batch or zero channel inputs are supported, but got input shape: {list(x_shape)}"
        )


def _check_geometry(
    w_shape: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int, output_padding: Shape | None
) -> None:
    if len(w_shape) < 3:
        raise RuntimeError("weight should have at least three dimensions")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    named = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding}
    for name, values in named.items():
        if values is not None and len(values) != len(w_shape) - 2:
            raise RuntimeError(
                f"expected {name} to be a single integer value or a list of {len(w_shape) - 2} values to match the "
                f"convolution dimensions, but got {name}={list(values)}"
            )
    if min(padding) < 0:
        raise RuntimeError("negative padding is not supported")
    if output_padding is not None and min(output_padding) < 0:
        raise RuntimeError("negative output_padding is not supported")
    if min(stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(dilation) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")


def _check_groups(w_shape: Shape, groups: int) -> None:
    if w_shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, "
            f"but got weight of size {list(w_shape)} instead"
        )
    if w_shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size [{list(w_shape)}] instead"
        )


def _check_channels(x_shape: Shape, w_shape: Shape, bias_shape: Shape | None, groups: int, transposed: bool) -> None:
    given = "Given transposed=1" if transposed else f"Given groups={groups}"
    channels = w_shape[0] if transposed else w_shape[1] * groups
    if x_shape[1] != channels:
        raise RuntimeError(
            f"{given}, weight of size {list(w_shape)}, expected input{list(x_shape)} to have {channels} channels, "
            f"but got {x_shape[1]} channels instead"
        )
    out_channels = w_shape[1] * groups if transposed else w_shape[0]
    if bias_shape is not None and tuple(bias_shape) != (out_channels,):
        given = "Given transposed=1, weight" if transposed else "Given weight"
        raise RuntimeError(
            f"{given} of size {list(w_shape)}, expected bias to be 1-dimensional with {out_channels} elements, "
            f"but got bias of size {list(bias_shape)} instead"
        )


def _check_kernel_fits(x_shape: Shape, w_shape: Shape, padding: Shape, dilation: Shape) -> None:
    padded = [size + 2 * pad for size, pad in zip(x_shape[2:], padding)]
    spans = [dil * (taps - 1) + 1 for taps, dil in zip(w_shape[2:], dilation)]
    if any(size < span for size, span in zip(padded, spans)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). "
            f"Kernel size: ({' x '.join(map(str, spans))}). Kernel size can't be greater than actual input size"
        )


def _check_transposed_output(
    x_shape: Shape,
    w_shape: Shape,
    stride: Shape,
    padding: Shape,
    output_padding: Shape | None,
    dilation: Shape,
    groups: int,
) -> None:
    output_padding = output_padding or (0,) * len(stride)
    space = conv_transpose_output_shape(x_shape, w_shape, stride, padding, output_padding, dilation, groups)[2:]
    # torch runs one-dimensional transposed convolutions as two-dimensional ones of height one, and reports them so.
    flat = len(stride) == 1
    if any(o >= s and o >= d for o, s, d in zip(output_padding, stride, dilation)):
        named = {"output_padding": output_padding, "stride": stride, "dilation": dilation}
        if flat:
            named = {name: (0 if name == "output_padding" else 1, *values) for name, values in named.items()}
        axes = ("height", "width") if flat else ("depth", "height", "width")[-len(stride) :]
        listed = (f"{name}_{axis}: {n}" for name, values in named.items() for axis, n in zip(axes, values))
        raise RuntimeError(f"output padding must be smaller than either stride or dilation, but got {' '.join(listed)}")
    if min(space) < 1:
        taken, made = (" x ".join(map(str, (1, *sizes) if flat else sizes)) for sizes in (x_shape[2:], space))
        raise RuntimeError(
            f"Given input size per channel: ({taken}). Calculated output size per channel: ({made}). "
            "Output size is too small"
        )


# ---------------------------------------------------------------------------------------------------- public kernels


@widened
def conv_forward(
    x: Array, w: Array, stride: Shape, padding: Shape, dilation: Shape, groups: int, bias: Array | None = None
) -> Array:
    """Cross-correlate ``x`` ``(N, C, *space)`` with ``w`` ``(O, C / groups, *kernel)`` and add ``bias`` ``(O,)``."""
    check_conv(x.shape, w.shape, None if bias is None else bias.shape, stride, padding, dilation, groups)
    shape = conv_output_shape(x.shape, w.shape, stride, padding, dilation)
    if C is None and _is_one_place(x, w, stride, padding, groups):
        # A window of one place: one product for each image, of the channels.
        planes = np.matmul(w.reshape(w.shape[:2]), x.reshape(*x.shape[:2], -1)).reshape(shape)
        return planes if bias is None else np.add(planes, _per_channel(bias, planes.ndim), out=planes)
    return _correlate(x, w, _geometry(stride, padding, dilation, groups), shape, bias)


@functools.lru_cache(maxsize=512)
def _few_outputs(
    x_shape: Shape,
    w_shape: Shape,
    bias_shape: Shape | None,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
) -> Shape | None:
    """The shape of ``conv_forward``'s result where it takes few products of lines or planes, else None."""
    check_conv(x_shape, w_shape, bias_shape, stride, padding, dilation, groups)
    shape = conv_output_shape(x_shape, w_shape, stride, padding, dilation)
    few = len(w_shape) <= 4 and 0 < math.prod(shape) * math.prod(w_shape[1:]) <= FEW_PRODUCTS
    return shape if few and all(type(n) is int for n in shape) else None


def conv_few(
    x: Array, w: Array, stride: Shape, padding: Shape, dilation: Shape, groups: int, bias: Array | None
) -> Array | None:
    """``conv_forward`` of few products with the fewest calls; None where no compiled loop takes the arrays."""
    shape = _few_outputs(x.shape, w.shape, None if bias is None else bias.shape, stride, padding, dilation, groups)
    if shape is None:
        return None
    out = np.empty(shape, x.dtype)
    return out if C.convolve(w.shape[2:], stride, padding, dilation, x, out, w, bias, groups, GATHER) else None


def _is_one_place(x: Array, w: Array, stride: Shape, padding: Shape, groups: int) -> bool:
    """Whether windows of a small input are of one place each."""
    plain = groups == 1 and 0 < x.size <= FEW and w.size > 0
    return plain and set(w.shape[2:]) == set(stride) == {1} and not any(padding)


@widened
def conv_backward_input(
    grad: Array, w: Array, x_shape: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Array:
    """Gradient of ``conv_forward`` with respect to ``x`` of shape ``x_shape``."""
    return _spread(grad, _conjugate(w), _geometry(stride, padding, dilation, groups), x_shape)


@widened
def conv_backward_weight(
    grad: Array, x: Array, w_shape: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Array:
    """Gradient of ``conv_forward`` with respect to ``w`` of shape ``w_shape``."""
    return _weight_gradient(grad, _conjugate(x), _geometry(stride, padding, dilation, groups), w_shape)


@widened
def conv_backward_bias(grad: Array) -> Array:
    """Gradient with respect to the bias: ``grad`` ``(N, O, *space)`` summed over batch and space."""
    return total(grad, (0, *range(2, grad.ndim)))


@widened
def conv_transpose_forward(
    x: Array,
    w: Array,
    stride: Shape,
    padding: Shape,
    output_padding: Shape,
    dilation: Shape,
    groups: int,
    bias: Array | None = None,
) -> Array:
    """Transposed convolution of ``x`` ``(N, C, *space)`` with ``w`` ``(C, O / groups, *kernel)``, plus ``bias``."""
    bias_shape = None if bias is None else bias.shape
    check_conv(
        x.shape, w.shape, bias_shape, stride, padding, dilation, groups, transposed=True, output_padding=output_padding
    )
    shape = conv_transpose_output_shape(x.shape, w.shape, stride, padding, output_padding, dilation, groups)
    return _spread(x, w, _geometry(stride, padding, dilation, groups), shape, bias)


@widened
def conv_transpose_backward_input(
    grad: Array, w: Array, x_shape: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Array:
    """Gradient of ``conv_transpose_forward`` with respect to ``x`` of shape ``x_shape``."""
    return _correlate(grad, _conjugate(w), _geometry(stride, padding, dilation, groups), x_shape)


@widened
def conv_transpose_backward_weight(
    grad: Array, x: Array, w_shape: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Array:
    """Gradient of ``conv_transpose_forward`` with respect to ``w`` of shape ``w_shape``."""
    return _weight_gradient(_conjugate(x), grad, _geometry(stride, padding, dilation, groups), w_shape)


# ---------------------------------------------------------------------------------------------------- the three sums


@functools.lru_cache(maxsize=512)
def _geometry(stride: Shape, padding: Shape, dilation: Shape, groups: int) -> Geometry:
    if min(stride) < 1:
        raise RuntimeError("non-positive stride is not supported")
    return Geometry(stride, tuple((pad, pad) for pad in padding), dilation, groups)


def _per_channel(bias: Array, ndim: int) -> Array:
    return bias.reshape(-1, *(1,) * (ndim - 2))


def _conjugate(x: Array) -> Array:
    return x.conj() if x.dtype.kind == "c" else x


def _correlate(x: Array, w: Array, geometry: Geometry, shape: Shape, bias: Array | None = None) -> Array:
    """``out[n, o, q] = bias[o] + sum over c, k of x[n, c, q * stride + k * dilation] * w[o, c, k]``, of ``shape``."""
    out = np.empty(shape, x.dtype)
    if not out.size or _tap_by_tap(GATHER, x, out, w, geometry, bias) or _conv_direct(x, w, geometry, out, bias):
        return out
    if is_depthwise(x, w, geometry):
        depthwise_correlate(x, w, geometry, out)
        if bias is not None:
            out += _per_channel(bias, out.ndim)
        return out
    groups = geometry.groups
    matrix = w.reshape(groups, w.shape[0] // groups, -1)
    flat = out.reshape(shape[0], groups, matrix.shape[1], -1)
    offset = None if bias is None else bias.reshape(groups, -1, 1)
    for images, positions, columns in _column_blocks(x, w.shape[2:], geometry, shape[2:]):
        target = flat[images, :, :, positions]
        block = np.matmul(matrix, columns, out=target[0] if len(target) == 1 else None)
        if offset is not None:
            block += offset
        if len(target) > 1:
            target[...] = block.reshape(*matrix.shape[:2], len(target), -1).transpose(2, 0, 1, 3)
    return out


def _moved_planes(x: Array, kernel: Shape, geometry: Geometry, space: Shape) -> Iterator[tuple[slice, Array]]:
    """Yield ``(images, planes)``: ``x`` ``(images, C, places)`` so that each tap sees all windows in one run."""
    layout = plane_layout(kernel, geometry, space)
    if layout.plane == math.prod(layout.sizes) and layout.sizes == x.shape[2:] and x.flags.c_contiguous:
        yield slice(None), x.reshape(*x.shape[:2], -1)
        return
    for images, _, planes in plane_blocks(x, geometry, layout, BLOCK_BYTES, all_channels=True):
        yield images, planes.reshape(*planes.shape[:2], -1)


def _sums_planes(x: Array, w: Array) -> bool:
    """Whether there is a compiled loop over moved planes for arrays like these, of several taps."""
    return C is not None and x.dtype in (F32, F64) and math.prod(w.shape[2:]) > 1 and w.size > 0 and x.size > 0


def _conv_direct(x: Array, w: Array, geometry: Geometry, out: Array, bias: Array | None) -> bool:
    """Whether a compiled loop has summed the planes of ``x``, moved and scaled, into ``out``: without columns."""
    kernel, space = w.shape[2:], out.shape[2:]
    if not _sums_planes(x, w):
        return False
    moves, sizes = tap_moves(kernel, geometry, space), plane_layout(kernel, geometry, space).sizes[1:]
    weight = densely_laid(w.reshape(*w.shape[:2], -1))
    return all(
        C.conv_direct(planes, moves, weight, bias, out[images], sizes, geometry.groups)
        for images, planes in _moved_planes(x, kernel, geometry, space)
    )


def _conv_weight_grad(grad: Array, x: Array, geometry: Geometry, out: Array) -> bool:
    """Whether a compiled loop has added the products of ``grad`` with the moved planes of ``x`` to ``out``."""
    kernel, space = out.shape[2:], grad.shape[2:]
    # Small planes of many channels are better off as columns: windows that overhang weigh more, and the weight is large.
    if not _sums_planes(x, out) or (math.prod(space) < FEW_PLACES and out.shape[1] >= MANY_CHANNELS):
        return False
    moves, layout = tap_moves(kernel, geometry, space), plane_layout(kernel, geometry, space)
    weight, slopes = out.reshape(*out.shape[:2], -1), np.empty(0, grad.dtype)
    for images, planes in _moved_planes(x, kernel, geometry, space):
        part = grad[images]
        if layout.sizes[1:] == space[1:] and part.flags.c_contiguous:
            flat = part.reshape(*part.shape[:2], -1)
        else:
            if slopes.shape[:1] != part.shape[:1]:
                slopes = np.zeros((*part.shape[:2], layout.length), grad.dtype)
            layout.cut(slopes)[...] = part
            flat = slopes
        if not C.conv_weight_grad(planes, moves, flat, weight, geometry.groups):
            return False
    return True


def _weight_gradient(grad: Array, x: Array, geometry: Geometry, w_shape: Shape) -> Array:
    """``out[o, c, k] = sum over n, q of grad[n, o, q] * x[n, c, q * stride + k * dilation]``, of shape ``w_shape``."""
    out = np.zeros(w_shape, grad.dtype)
    if (
        not out.size
        or not grad.size
        or _tap_by_tap(LEARN, x, grad, out, geometry)
        or _conv_weight_grad(grad, x, geometry, out)
    ):
        return out
    if is_depthwise(x, out, geometry):
        depthwise_weight_gradient(grad, x, geometry, out)
        return out
    groups = geometry.groups
    matrix = out.reshape(groups, w_shape[0] // groups, -1)
    flat = grad.reshape(grad.shape[0], groups, matrix.shape[1], -1)
    product = np.empty_like(matrix)
    for images, positions, columns in _column_blocks(x, w_shape[2:], geometry, grad.shape[2:]):
        block = flat[images, :, :, positions]
        rows = block[0] if len(block) == 1 else block.transpose(1, 2, 0, 3).reshape(*matrix.shape[:2], -1)
        matrix += np.matmul(rows, columns.swapaxes(1, 2), out=product)
    return out


def _tap_by_tap(what: int, x: Array, out: Array, w: Array, geometry: Geometry, bias: Array | None = None) -> bool:
    """Whether a compiled loop has done one of the three sums, of few products, into the array it makes."""
    if C is None or out.size * (w.size // w.shape[0]) > FEW_PRODUCTS or w.ndim > 4:
        return False
    stride, pads, dilation, groups = geometry
    before = tuple([lo for lo, _ in pads])
    x, out, w = densely_laid(x), densely_laid(out), densely_laid(w)
    return bool(min(before) >= 0 and C.convolve(w.shape[2:], stride, before, dilation, x, out, w, bias, groups, what))


def _spread(grad: Array, w: Array, geometry: Geometry, shape: Shape, bias: Array | None = None) -> Array:
    """``out[n, c, q * stride + k * dilation] += sum over o of grad[n, o, q] * w[o, c, k]``, of ``shape``, and ``bias``."""
    if grad.size and w.size and math.prod(shape):
        out = np.empty(shape, grad.dtype)
        if _tap_by_tap(SPREAD, out, grad, w, geometry, bias):
            return out
    out = _spread_by_products(grad, w, geometry, shape)
    return out if bias is None else np.add(out, _per_channel(bias, out.ndim), out=out)


def _spread_by_products(grad: Array, w: Array, geometry: Geometry, shape: Shape) -> Array:
    if not grad.size or not w.size:
        return np.zeros(shape, grad.dtype)
    stride, pads, dilation, groups = geometry
    kernel = w.shape[2:]
    apart = all(s > d * (k - 1) for s, d, k in zip(stride, dilation, kernel))
    # Scattering multiplies for each position of the gradient, gathering for each output: few positions that reach far.
    far = math.prod(shape[2:]) > 2 * math.prod(stride) * math.prod(grad.shape[2:])
    # Scattering moves C values per tap and position, gathering O: scatter where O is much the larger.
    if (apart and max(stride) > 1) or far or grad.shape[1] >= 4 * shape[1]:
        return _scatter(grad, w, geometry, shape)
    # The outputs of one residue class modulo the stride see every stride-th tap: a correlation of stride one.
    phases = [_axis_phases(*axis) for axis in zip(shape[2:], grad.shape[2:], kernel, stride, pads, dilation)]
    if max(stride) == 1:
        return _gather_phase(grad, w, groups, shape[:2], [axis[0] for axis in phases])
    out = np.empty(shape, grad.dtype)
    for axes in itertools.product(*phases):
        target = out[trailing(slice(axis.start, None, s) for axis, s in zip(axes, stride))]
        reached = all(axis.taps for axis in axes)
        target[...] = _gather_phase(grad, w, groups, shape[:2], axes) if reached else 0
    return out


class _Phase(NamedTuple):
    """The outputs ``start::stride`` of one axis of a transposed convolution, as a correlation of the gradient."""

    start: int
    outputs: int
    taps: range  # empty when no tap reaches these outputs
    dilation: int
    pads: tuple[int, int]


def _axis_phases(size: int, length: int, taps: int, s: int, pads: tuple[int, int], d: int) -> list[_Phase]:
    """Split ``size`` outputs by residue modulo ``s``; output ``i`` sums ``grad[(i + pad - k * d) / s] * w[k]``."""
    phases = []
    shared = math.gcd(s, d)
    for start in range(min(s, size)):
        count = -(-(size - start) // s)
        first = next((k for k in range(min(taps, s)) if (start + pads[0] - k * d) % s == 0), taps)
        selected = range(first, taps, s // shared)
        span = (len(selected) - 1) * (d // shared)
        origin = (start + pads[0] - first * d) // s - span
        phases.append(_Phase(start, count, selected, d // shared, (-origin, origin + count + span - length)))
    return phases


def _gather_phase(grad: Array, w: Array, groups: int, lead: Shape, axes: Sequence[_Phase]) -> Array:
    selected = w.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
    selected = selected[trailing(slice(a.taps.start, None, a.taps.step) for a in axes)]
    # A correlation takes the last tap first, hence the kernel backwards.
    selected = selected[trailing(slice(None, None, -1) for _ in axes)].reshape(
        lead[1], -1, *(len(a.taps) for a in axes)
    )
    geometry = Geometry((1,) * len(axes), tuple(a.pads for a in axes), tuple(a.dilation for a in axes), groups)
    return _correlate(grad, selected, geometry, (*lead, *(a.outputs for a in axes)))


def _scatter(grad: Array, w: Array, geometry: Geometry, shape: Shape) -> Array:
    """``_spread`` as one GEMM per block, its rows added to the places they reach (or laid there, windows apart)."""
    stride, pads, dilation, groups = geometry
    kernel, space = w.shape[2:], grad.shape[2:]
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel)]
    apart = all(s >= span or n == 1 for s, span, n in zip(stride, spans, space))
    covered = ((n - 1) * s + span for n, s, span in zip(space, stride, spans))
    sizes = (max(n + lo + hi, cover) for n, (lo, hi), cover in zip(shape[2:], pads, covered))
    padded = np.zeros((*shape[:2], *sizes), grad.dtype)
    matrix = w.reshape(groups, w.shape[0] // groups, -1).swapaxes(1, 2)
    flat = grad.reshape(grad.shape[0], groups, matrix.shape[2], *space)
    images, step = _block_extents(shape[0], space, shape[1] * math.prod(kernel) * grad.itemsize)
    for n, start in itertools.product(range(0, shape[0], images), range(0, space[0], step)):
        block = flat[n : n + images, :, :, start : start + step]
        target = padded[n : n + images, :, start * stride[0] :]
        taps = np.matmul(matrix, block.reshape(*block.shape[:3], -1))
        taps = taps.reshape(len(block), shape[1], *kernel, *block.shape[3:])
        if apart:
            windows(target, kernel, stride, dilation, block.shape[3:])[...] = taps
            continue
        for tap in np.ndindex(kernel):
            target[tap_slices(tap, stride, dilation, block.shape[3:])] += taps[(slice(None), slice(None), *tap)]
    inner = trailing(slice(lo, lo + n) for (lo, _), n in zip(pads, shape[2:]))
    return np.ascontiguousarray(padded[inner])


# ---------------------------------------------------------------------------------------------------- columns


def _column_blocks(x: Array, kernel: Shape, geometry: Geometry, space: Shape) -> Iterator[tuple[slice, slice, Array]]:
    """Yield ``(images, positions, columns)`` until every window of ``x`` has been a column once.

    A block is several whole images or a run of positions of one. ``columns`` is ``(groups, C / groups * taps,
    images * positions)``, in a buffer that the next step overwrites.
    """
    x, pads = split_pads(x, geometry.pads)
    length, rows = math.prod(space), x.shape[1] * math.prod(kernel)
    if length >= BLOCK_COLUMNS and _is_pointwise(x, rows, pads, space):
        for n in range(x.shape[0]):
            yield slice(n, n + 1), slice(0, length), x[n].reshape(geometry.groups, -1, length)
        return
    run = length // space[0]
    images, step = _block_extents(x.shape[0], space, rows * x.itemsize)
    buffer = np.empty(rows * images * step * run, x.dtype)
    order = (*range(1, 2 + len(kernel)), 0, *range(2 + len(kernel), 2 + 2 * len(kernel)))
    for n, source in _padded_blocks(x, pads, images):
        view = windows(source, kernel, geometry.stride, geometry.dilation, space).transpose(order)
        for start in range(0, space[0], step):
            part = view[trailing([slice(start, start + step), *[slice(None)] * (len(space) - 1)])]
            columns = buffer[: part.size].reshape(part.shape)
            np.copyto(columns, part)
            positions = slice(start * run, min(start + step, space[0]) * run)
            yield slice(n, n + len(source)), positions, columns.reshape(geometry.groups, rows // geometry.groups, -1)


def _block_extents(images: int, space: Shape, column_bytes: int) -> tuple[int, int]:
    """How many images, and how many places along the first axis of each, make a block of columns."""
    wanted = max(BLOCK_COLUMNS, BLOCK_BYTES // column_bytes)
    length = math.prod(space)
    if wanted >= length:
        return min(images, wanted // length), space[0]
    return 1, min(space[0], max(1, wanted * space[0] // length))


def _is_pointwise(x: Array, rows: int, pads: Pairs, space: Shape) -> bool:
    """Whether the images of ``x`` are their own columns: one tap, every position taken, nothing padded."""
    return rows == x.shape[1] and x.shape[2:] == space and not any(map(any, pads)) and bool(x.flags.c_contiguous)


def _padded_blocks(x: Array, pads: Pairs, images: int) -> Iterator[tuple[int, Array]]:
    """Yield ``x`` zero-padded, so many ``images`` at a time with the index of the first, in one reused buffer."""
    if not any(map(any, pads)):
        yield from ((n, x[n : n + images]) for n in range(0, x.shape[0], images))
        return
    sizes = (n + lo + hi for n, (lo, hi) in zip(x.shape[2:], pads))
    buffer = np.zeros((images, x.shape[1], *sizes), x.dtype)
    inner = buffer[interior(x, pads)]
    for n in range(0, x.shape[0], images):
        source = x[n : n + images]
        inner[: len(source)] = source
        yield n, buffer[: len(source)]
