"""Rows of padding in its four modes, and of sliding windows as columns (im2col) and back (col2im)."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.layouts import like
from ...kernels import result_layout
from ...kernels.fitting import fitting
from ...kernels.network import fold
from .. import flops
from ..meta import network as shapes_network
from ..meta import shapes
from ..shape.join import cat
from ..shape.slice import narrow
from ..sizes import expanded
from .decorators import composite, op

# --- constants --------------------------------------------------------------------------------------------------------


def _framed(a: Any, pad: Sequence[int], value: Any) -> Any:
    """Few elements with something around them; ValueError where the pads are not plain."""
    shape, inside = list(a.shape), [slice(None)] * a.ndim
    if len(pad) % 2 or len(pad) > 2 * a.ndim:
        raise ValueError
    if min(pad, default=0) < 0:
        return _cropped(a, pad)
    for k in range(len(pad) // 2):
        before, dim = pad[2 * k], a.ndim - 1 - k
        inside[dim] = slice(before, before + shape[dim])
        shape[dim] += before + pad[2 * k + 1]
    result = np.empty(shape, a.dtype)
    result.fill(fitting(value, a.dtype))
    result[tuple(inside)] = a
    return result


def _cropped(a: Any, pad: Sequence[int]) -> Any:
    """A copy without the edges that negative pads name; ValueError where there is anything to add, or nothing left."""
    inside = [slice(None)] * a.ndim
    for k in range(len(pad) // 2):
        before, after, dim = pad[2 * k], pad[2 * k + 1], a.ndim - 1 - k
        if before > 0 or after > 0 or a.shape[dim] + before + after < 1:
            raise ValueError
        inside[dim] = slice(-before, a.shape[dim] + after)
    return a[tuple(inside)].copy()


_OF_FEW_NUMBERS = (
    "(input._a.dtype is F32 or input._a.dtype is F64 or input._a.dtype is I64) and input._a.size <= 1024"
    " and type(value) in NUMBERS and value is not None and type(value) is not complex"
)


def _lay_out_padded(made: Any, a: Any, pad: Sequence[int], value: Any) -> Any:
    """In the format that the input suggests; a copy of a part where nothing is added."""
    if max(pad, default=0) > 0:
        return result_layout.suggested(made, a)
    return result_layout.arranged(made, like(made.shape, result_layout.strides_of(a)))


@op(
    "constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor",
    meta=shapes.result_rule(shapes_network.padded),
    out=False,
    fast=(_OF_FEW_NUMBERS, _framed),
    layout=_lay_out_padded,
    self=lambda g, pad: constant_pad_nd(g, [-p for p in pad], 0),
)
def _constant_pad_nd(a: Any, pad: Sequence[int], value: Any) -> Any:
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) > 2 * a.ndim:
        raise RuntimeError(
            "Length of pad should be no more than twice the number of dimensions of the input. Pad length is "
            f"{len(pad)} while the input has {a.ndim} dimensions."
        )
    return fold.pad_constant(a, fold.pad_pairs(pad), np.asarray(fitting(value, a.dtype)).astype(a.dtype))


constant_pad_nd = _constant_pad_nd.function


# --- values of the input ----------------------------------------------------------------------------------------------


_FEW, _FEW_ELEMENTS = 8, 2048  # pads, and elements that are picked one by one


def _mirrored(name: str, mode: str, ndim: int) -> Any:
    """Rows of reflection_pad or replication_pad in so many dimensions and of their gradients."""
    backward = op(
        f"{name}_backward(Tensor grad_output, Tensor self, int[] padding) -> Tensor",
        all_flops=flops.each(1, 1),
        meta=shapes.like_nth(1),
        out=False,
        layout=result_layout.suggested_by(1),
        grad_output=lambda g, padding: forward(g, padding),
    )(lambda g, x, padding: fold.pad_backward(g, fold.pad_pairs(padding), mode)).function

    def array(a: Any, padding: Any) -> Any:
        if len(padding) != 2 * ndim:
            raise RuntimeError(f"padding size is expected to be {2 * ndim}, but got: {len(padding)}")
        return fold.pad_forward(a, fold.pad_pairs(padding), mode)

    @functools.lru_cache(maxsize=128)
    def places(shape: tuple[int, ...], padding: tuple[int, ...]) -> Any:
        return array(np.arange(math.prod(shape)).reshape(shape), padding)

    def quickly(a: Any, padding: Any) -> Any:
        """Few elements from where they lie; ValueError where the pads are not plain, or far larger than the input."""
        if len(padding) != 2 * ndim or max(padding) > _FEW or min(padding) < 0:
            raise ValueError
        return a.take(places(a.shape, tuple(padding)))

    forward = op(
        f"{name}(Tensor self, int[] padding) -> Tensor",
        meta=shapes_network.mirrored(mode),
        autocast=None if name == "reflection_pad3d" else "float32",
        fast=(f"0 < input._a.size <= {_FEW_ELEMENTS} and input._a.flags.c_contiguous", quickly),
        layout=result_layout.suggested,
        self=lambda g, self, padding: backward(g, self, padding),
    )(array).function
    return forward


REFLECTION = {n: _mirrored(f"reflection_pad{n}d", "reflect", n) for n in (1, 2, 3)}
REPLICATION = {n: _mirrored(f"replication_pad{n}d", "replicate", n) for n in (1, 2, 3)}


@composite("_pad_circular(Tensor self, int[] pad) -> Tensor")
def _pad_circular(self: Any, pad: Any) -> Any:
    pairs = fold.pad_pairs(pad)
    fold.check_pad(self._a.shape, pairs, "circular")
    self = self.contiguous()  # the result is in row-major order
    for dim, (before, after) in enumerate(pairs, start=self._a.ndim - len(pairs)):
        cut = max(0, -before), max(0, -after)
        if any(cut):
            self = narrow(self, dim, cut[0], self._a.shape[dim] - sum(cut))
        length = self._a.shape[dim]
        parts = [self]
        if before > 0:
            parts.insert(0, narrow(self, dim, length - before, before))
        if after > 0:
            parts.append(narrow(self, dim, 0, after))
        if len(parts) > 1:
            self = cat(parts, dim)
    return self


pad_circular = _pad_circular.function


@composite('pad(Tensor self, int[] pad, str mode="constant", float? value=None) -> Tensor')
def _pad(self: Any, pad: Any, mode: str, value: Any) -> Any:
    if isinstance(value, complex):
        raise TypeError("pad(): argument 'value' (position 4) must be float, not complex")
    pad = [operator.index(p) for p in pad]
    ndim = self._a.ndim
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {ndim}"
        )
    if mode == "constant":
        return constant_pad_nd(self, pad, 0.0 if value is None else float(value))
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    count = len(pad) // 2
    if not 1 <= count <= 3 or ndim not in (count + 1, count + 2):
        raise NotImplementedError("Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now")
    if mode == "circular":
        return pad_circular(self, pad)
    return (REFLECTION if mode == "reflect" else REPLICATION)[count](self, pad)


pad = _pad.function


# --- windows ----------------------------------------------------------------------------------------------------------


def _pair(name: str, value: Any) -> tuple[int, int]:
    given = expanded(value, 2)
    if len(given) != 2:
        raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(given)}")
    return given[0], given[1]


@op(
    "im2col(Tensor self, int[] kernel_size, int[] dilation, int[] padding, int[] stride) -> Tensor",
    meta=shapes_network.im2col,
    self=lambda g, self_sizes, kernel_size, dilation, padding, stride: col2im(
        g, self_sizes[-2:], kernel_size, dilation, padding, stride
    ),
)
def _im2col(a: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    kernel, dilation, padding, stride = (
        _pair(n, v)
        for n, v in (("kernel_size", kernel_size), ("dilation", dilation), ("padding", padding), ("stride", stride))
    )
    return fold.unfold_forward(a, kernel, stride, padding, dilation)


@op(
    "col2im(Tensor self, int[] output_size, int[] kernel_size, int[] dilation, int[] padding, int[] stride) -> Tensor",
    all_flops=flops.each(1, 1),
    meta=shapes_network.col2im,
    self=lambda g, kernel_size, dilation, padding, stride: im2col(g, kernel_size, dilation, padding, stride),
)
def _col2im(a: Any, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    size, kernel, dilation, padding, stride = (
        _pair(n, v)
        for n, v in (
            ("output_size", output_size), ("kernel_size", kernel_size), ("dilation", dilation), ("padding", padding),
            ("stride", stride),
        )
    )  # fmt: skip
    return fold.fold_forward(a, size, kernel, stride, padding, dilation)


im2col, col2im = _im2col.function, _col2im.function
