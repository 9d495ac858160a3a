"""Owns sliding windows over the trailing dimensions (views, unfold, fold) and padding in its four modes.

Geometry arguments are tuples with one int per spatial dimension. ``windows``, ``Geometry`` and the indexing functions
are also the ground the convolution and pooling kernels stand on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..precision import widened

Array: TypeAlias = np.ndarray[Any, Any]
Shape: TypeAlias = tuple[int, ...]
Pairs: TypeAlias = tuple[tuple[int, int], ...]


class Geometry(NamedTuple):
    """How windows lie on the input; pads are (before, after) and may be negative, which crops."""

    stride: Shape
    pads: Pairs
    dilation: Shape
    groups: int


# ---------------------------------------------------------------------------------------------------- views


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


def interior(x: Array, pads: Pairs) -> tuple[Any, ...]:
    """Where ``x`` lies inside itself padded by the non-negative ``pads``."""
    return trailing(slice(lo, lo + n) for (lo, _), n in zip(pads, x.shape[-len(pads) :]))


# ---------------------------------------------------------------------------------------------------- unfold and fold


def unfold_space(space: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Shape:
    """How many windows lie along each axis of ``space``."""
    sizes = zip(space, kernel, stride, padding, dilation)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes)


def unfold_forward(x: Array, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Array:
    """Columns ``(N, C * taps, windows)`` of ``x`` ``(N, C, *space)``, or unbatched without N."""
    space = check_unfold(x.shape, kernel, stride, padding, dilation)
    if any(padding):
        x = pad_constant(x, tuple((p, p) for p in padding))
    lead = x.shape[: -len(kernel)]
    columns = windows(x, kernel, stride, dilation, space)
    return columns.reshape(*lead[:-1], lead[-1] * math.prod(kernel), math.prod(space))


@widened
def fold_forward(
    columns: Array, output_size: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Array:
    """Add up ``columns`` ``(N, C * taps, windows)`` where they come from in ``(N, C, *output_size)``."""
    space = check_fold(columns.shape, output_size, kernel, stride, padding, dilation)
    lead = (*columns.shape[:-2], columns.shape[-2] // math.prod(kernel))
    taps = columns.reshape(*lead, *kernel, *space)
    padded = np.zeros((*lead, *(n + 2 * p for n, p in zip(output_size, padding))), columns.dtype)
    for tap in np.ndindex(kernel):
        at = (*(slice(None) for _ in lead), *tap)
        padded[tap_slices(tap, stride, dilation, space)] += taps[at]
    return np.ascontiguousarray(padded[trailing(slice(p, p + n) for n, p in zip(output_size, padding))])


def check_unfold(shape: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Shape:
    """Raise what torch raises for arguments of unfold that do not fit, else return the windows per axis."""
    _check_window(kernel, stride, padding, dilation)
    if not _is_batch(shape, len(kernel)):
        raise RuntimeError(
            f"Expected {len(kernel) + 1}D or {len(kernel) + 2}D (batch mode) tensor with possibly 0 batch size and "
            f"other non-zero dimensions for input, but got: {list(shape)}"
        )
    space = shape[-len(kernel) :]
    counts = unfold_space(space, kernel, stride, padding, dilation)
    if min(counts) < 1:
        raise RuntimeError(
            f"Given input with spatial size {_tuple(space)}, kernel_size={_tuple(kernel)}, "
            f"dilation={_tuple(dilation)}, padding={_tuple(padding)}, calculated shape of the array of sliding blocks "
            f"as {_tuple(counts)}, but its components must be at least one."
        )
    return counts


def check_fold(
    shape: Shape, output_size: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Shape:
    """Raise what torch raises for arguments of fold that do not fit, else return the windows per axis."""
    _check_window(kernel, stride, padding, dilation)
    if len(shape) not in (2, 3) or 0 in shape[len(shape) - 2 :]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {list(shape)}"
        )
    rows, length = shape[-2:]
    if rows % math.prod(kernel):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={rows} and kernel_size={_tuple(kernel)}."
        )
    counts = unfold_space(output_size, kernel, stride, padding, dilation)
    given = (
        f"Given output_size={_tuple(output_size)}, kernel_size={_tuple(kernel)}, dilation={_tuple(dilation)}, "
        f"padding={_tuple(padding)}, stride={_tuple(stride)}, "
    )
    if length != math.prod(counts):
        raise RuntimeError(
            f"{given}expected size of input's dimension 2 to match the calculated number of sliding blocks "
            f"{' * '.join(map(str, counts))} = {math.prod(counts)}, but got input.size(2)={length}."
        )
    if min(counts) < 1:
        raise RuntimeError(
            f"{given}calculated shape of the array of sliding blocks as {_tuple(counts)}, which is too small "
            "(non-positive)"
        )
    return counts


def _check_window(kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> None:
    axes = ("depth", "height", "width")[-len(kernel) :]
    for name, label, values in (
        ("kernel size", "kernel", kernel),
        ("dilation", "dilation", dilation),
        ("padding", "pad", padding),
        ("stride", "stride", stride),
    ):
        padded = name == "padding"
        if min(values) < (0 if padded else 1):
            wanted = "non-negative" if padded else "greater than zero"
            listed = " ".join(f"{label}_{axis}: {value}" for axis, value in zip(axes, values))
            raise RuntimeError(f"{name} should be {wanted}, but got {listed}")


def _is_batch(shape: Shape, ndim: int) -> bool:
    """Whether ``shape`` is ``(C, *space)`` or ``(N, C, *space)`` with nothing but N empty."""
    return len(shape) - ndim in (1, 2) and 0 not in shape[len(shape) - ndim - 1 :]


def _tuple(values: Sequence[int]) -> str:
    return f"({', '.join(map(str, values))})"


# ---------------------------------------------------------------------------------------------------- padding


def pad_pairs(pad: Sequence[int]) -> Pairs:
    """torch's flat pad (last dimension first) as (before, after) per trailing dimension, in their order."""
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    return _pairs(tuple(pad))


@functools.lru_cache(maxsize=256)
def _pairs(pad: Shape) -> Pairs:
    return tuple((pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2))


def pad_constant(x: Array, pads: Pairs, value: Any = 0) -> Array:
    """Pad the trailing dimensions of ``x`` with ``value``; negative pads crop."""
    if any(n + min(0, lo) + min(0, hi) < 0 for n, (lo, hi) in zip(x.shape[x.ndim - len(pads) :], pads)):
        raise RuntimeError("narrow(): length must be non-negative.")
    if not pads:
        return x.copy()
    x, pads = split_pads(x, pads)
    lead = x.ndim - len(pads)
    sizes = (n + lo + hi for n, (lo, hi) in zip(x.shape[lead:], pads))
    out = np.full((*x.shape[:lead], *sizes), value, x.dtype)
    out[interior(x, pads)] = x
    return out


def pad_forward(x: Array, pads: Pairs, mode: str) -> Array:
    """Pad the trailing dimensions of ``x`` by ``mode``: ``"reflect"``, ``"replicate"`` or ``"circular"``."""
    check_pad(x.shape, pads, mode)
    if min(map(min, pads)) >= 0:
        return _framed(x, pads, mode)
    out = x
    for axis, (lo, hi) in enumerate(pads, start=x.ndim - len(pads)):
        if lo or hi:
            out = _pad_axis(out, axis, lo, hi, mode)
    return out.copy() if out is x else out


@widened
def pad_backward(grad: Array, pads: Pairs, mode: str) -> Array:
    """Gradient of ``pad_forward``: each padded value's gradient goes to where the value came from."""
    if min(map(min, pads)) >= 0:
        return _unframed(grad, grad.ndim - len(pads), pads, mode)
    out = grad
    for axis, (lo, hi) in enumerate(pads, start=grad.ndim - len(pads)):
        if lo or hi:
            out = _unpad_axis(out, axis, lo, hi, mode)
    return out.copy() if out is grad else out


def _framed(x: Array, pads: Pairs, mode: str) -> Array:
    """``x`` copied once, then its edges from what lies inside, the last axis first."""
    lead = x.ndim - len(pads)
    sizes = [n + lo + hi for n, (lo, hi) in zip(x.shape[lead:], pads)]
    out = np.empty((*x.shape[:lead], *sizes), x.dtype)
    inside = (slice(None),) * lead + tuple(slice(lo, lo + n) for n, (lo, _) in zip(x.shape[lead:], pads))
    out[inside] = x
    for axis in reversed(range(lead, x.ndim)):
        lo, hi = pads[axis - lead]
        for edge, source in _edges(x.shape[axis], lo, hi, mode):
            values = out[(*inside[:axis], slice(source.start + lo, source.stop + lo))]
            out[(*inside[:axis], edge)] = np.flip(values, axis) if mode == "reflect" else values
    return out


def _unframed(grad: Array, axis: int, pads: Pairs, mode: str) -> Array:
    """What lies inside of ``grad`` from ``axis`` on, with what its edges hold added to where that came from."""
    if axis == grad.ndim:
        return grad.copy()
    lo, hi = pads[axis - grad.ndim]
    along = (slice(None),) * axis
    n = grad.shape[axis] - lo - hi
    out = _unframed(grad[(*along, slice(lo, lo + n))], axis + 1, pads, mode)
    for edge, source in _edges(n, lo, hi, mode):
        shares = _unframed(grad[(*along, edge)], axis + 1, pads, mode)
        if mode == "replicate":
            shares = shares.sum(axis, keepdims=True)
        out[(*along, source)] += np.flip(shares, axis) if mode == "reflect" else shares
    return out


def _edges(n: int, lo: int, hi: int, mode: str) -> Iterator[tuple[slice, slice]]:
    """The edges of an axis of ``n`` positions between ``lo`` and ``hi`` more, and from which of the ``n`` their values come; the
    other way round where they reflect."""
    if mode == "reflect":
        sources = slice(1, lo + 1), slice(n - 1 - hi, n - 1)
    elif mode == "replicate":
        sources = slice(0, 1), slice(n - 1, n)
    else:
        sources = slice(n - lo, n), slice(0, hi)
    for edge, source in zip((slice(0, lo), slice(lo + n, lo + n + hi)), sources):
        if edge.start < edge.stop:
            yield edge, source


def _pad_axis(x: Array, axis: int, lo: int, hi: int, mode: str) -> Array:
    source, kept, inner = _pad_source(x.shape[axis], lo, hi, mode)
    out = np.empty((*x.shape[:axis], len(source), *x.shape[axis + 1 :]), x.dtype)
    along = (slice(None),) * axis
    out[(*along, inner)] = x[(*along, kept)]
    for side in (slice(0, inner.start), slice(inner.stop, None)):
        out[(*along, side)] = x.take(source[side], axis)
    return out


def _unpad_axis(grad: Array, axis: int, lo: int, hi: int, mode: str) -> Array:
    n = grad.shape[axis] - lo - hi
    source, kept, inner = _pad_source(n, lo, hi, mode)
    out = np.zeros((*grad.shape[:axis], n, *grad.shape[axis + 1 :]), grad.dtype)
    along = (slice(None),) * axis
    out[(*along, kept)] = grad[(*along, inner)]
    for place in (*range(inner.start), *range(inner.stop, len(source))):
        out[(*along, source[place])] += grad[(*along, place)]
    return out


def _pad_source(n: int, lo: int, hi: int, mode: str) -> tuple[Array, slice, slice]:
    """For each place along an axis padded from ``n``, where its value comes from; and the run that is a plain copy.

    The run is given twice: as places of the unpadded axis and of the padded one.
    """
    positions = np.arange(-lo, n + hi)
    first, stop = max(0, -lo), n + min(0, hi)
    if mode == "reflect":
        source = (n - 1) - np.abs((n - 1) - np.abs(positions))
    elif mode == "replicate":
        source = positions.clip(0, n - 1)
    else:
        # What is cropped on one side does not come back on the other.
        source = first + (positions - first) % max(stop - first, 1)
    before = min(max(0, lo), len(positions))
    return source, slice(first, max(first, stop)), slice(before, before + max(0, stop - first))


@functools.lru_cache(maxsize=256)
def check_pad(shape: Shape, pads: Pairs, mode: str) -> None:
    """Raise what torch raises for pads that do not fit ``shape`` in a mode other than constant."""
    ndim = len(pads)
    if not 1 <= ndim <= 3 or len(shape) not in (ndim + 1, ndim + 2):
        raise NotImplementedError(f"Padding size {2 * ndim} is not supported for {len(shape)}D input tensor.")
    space = shape[-ndim:]
    sizes = tuple(n + lo + hi for n, (lo, hi) in zip(space, pads))
    if mode == "circular":
        for n, size, (lo, hi) in zip(space, sizes, pads):
            if max(lo, hi) > n:
                raise RuntimeError("Padding value causes wrapping around more than once.")
            # Without anything left to wrap around, only an empty result makes sense.
            if size < 0 or (size and n + min(0, lo) + min(0, hi) <= 0):
                raise RuntimeError("Negative padding value is resulting in an empty dimension")
        return
    if not _is_batch(shape, ndim):
        raise RuntimeError(
            f"Expected {ndim + 1}D or {ndim + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(shape)}"
        )
    if mode == "reflect":
        _check_reflection(shape, pads)
    if max(sizes) < 1:
        given = ("W: {}", "H: {}, W: {}", "D: {} H: {}, W: {}")[ndim - 1].format(*space)
        made = " ".join(f"{axis}: {n}" for axis, n in zip("DHW"[-ndim:], sizes))
        raise RuntimeError(f"input ({given}) is too small. Calculated output {made}")
    if min(sizes) < 0:
        negative = next(n for n in sizes if n < 0)
        raise RuntimeError(f"Trying to create tensor with negative dimension {negative}: {[*shape[:-ndim], *sizes]}")


def _check_reflection(shape: Shape, pads: Pairs) -> None:
    for i, (lo, hi) in enumerate(reversed(pads)):
        dim = len(shape) - 1 - i
        if lo >= shape[dim] or hi >= shape[dim]:
            raise RuntimeError(
                f"Argument #{4 + 2 * i}: Padding size should be less than the corresponding input dimension, "
                f"but got: padding ({lo}, {hi}) at dimension {dim} of input {list(shape)}"
            )
