"""Rows of convolution: plain and transposed, in one to three dimensions, and its gradients.

The arithmetic is in `kernels.network.conv`. While a recorder is on, the ops that torch's own composition has are run one inside
the other; otherwise the kernel is called at once.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.dtype import FROM_NUMPY
from ...core.layouts import channels_last_strides
from ...core.tensor import make
from ...dispatch.front import front
from ...dispatch.inplace import type_name
from ...dispatch.inside import inside
from ...kernels import result_layout
from ...kernels.checks import not_implemented
from ...kernels.compiled import C, unsqueezed
from ...kernels.network import conv
from ...kernels.network.fold import Shape
from .. import flops
from ..linalg.products import cpp_name
from ..meta import network as shapes_network
from ..meta import shapes
from ..reduction.reduce import _sum_dim
from ..shape import inner
from ..shape.permute import permute
from ..shape.view import unsqueeze
from ..sizes import expanded
from .decorators import composite, explicit, op
from .padding import constant_pad_nd

# --- the general operator ---------------------------------------------------------------------------------------------


def _check_types(x: Any, weight: Any, bias: Any) -> None:
    if bias is not None and bias.dtype != x.dtype:
        raise RuntimeError(f"Input type ({cpp_name(x)}) and bias type ({cpp_name(bias)}) should be the same")
    if x.dtype != weight.dtype:
        have, given = (type_name(FROM_NUMPY[a.dtype]) for a in (x, weight))
        raise RuntimeError(f"expected scalar type {have} but found {given}")
    if x.dtype.kind == "b":
        raise not_implemented("slow_conv2d_cpu", x.dtype)


def _convolved(x: Any, weight: Any, bias: Any, stride: Shape, padding: Shape, dilation: Shape, transposed: bool,
               output_padding: Shape, groups: int) -> Any:  # fmt: skip
    _check_types(x, weight, bias)
    if C is not None and not transposed and x.ndim == weight.ndim and type(stride) is type(padding) is tuple:
        made = conv.conv_few(x, weight, stride, padding, dilation, groups, bias) if type(dilation) is tuple else None
        if made is not None:
            return made
    sizes = [expanded(v, weight.ndim - 2) for v in (stride, padding, dilation, output_padding)]
    stride, padding, dilation, output_padding = sizes
    if transposed:
        return conv.conv_transpose_forward(x, weight, stride, padding, output_padding, dilation, groups, bias)
    return conv.conv_forward(x, weight, stride, padding, dilation, groups, bias)


def _uses_channels_last(x: Any, weight: Any, groups: int) -> bool:
    """A convolution is channels_last if its input is, or its weight. In one dimension the weight alone counts, looked at
    as images of one row; volumes are always plain in doubles, and one by one."""
    if x.ndim == 3:
        return not weight.flags.c_contiguous and result_layout.is_channels_last(unsqueezed(weight, 2))
    takes_it = x.ndim == 4 or (x.dtype.itemsize < 8 and (x.shape[0] > 1 or groups > 1))
    return takes_it and (result_layout.is_channels_last(x) or result_layout.is_channels_last(weight))


def _in_format(made: Any, channels_last: bool) -> Any:
    if made.ndim != 3 or not channels_last:
        return result_layout.in_format(made, channels_last)
    strides = channels_last_strides((*made.shape[:2], 1, *made.shape[2:]))
    return result_layout.arranged(made, (*strides[:2], strides[3]))


def _lay_out(made: Any, x: Any, weight: Any, *rest: Any) -> Any:
    return _in_format(made, _uses_channels_last(x, weight, rest[-1]))


def _lay_out_without_groups(made: Any, x: Any, weight: Any, *rest: Any) -> Any:
    return _in_format(made, _uses_channels_last(x, weight, 1))


def _lay_out_gradients(made: Any, g: Any, x: Any, weight: Any, *rest: Any) -> Any:
    channels_last = _uses_channels_last(x, weight, rest[-2])
    return [_in_format(part, channels_last) for part in made]


def _gradients(g: Any, x: Any, weight: Any, stride: Shape, padding: Shape, dilation: Shape, transposed: bool,
               groups: int, wanted: Sequence[bool]) -> list[Any]:  # fmt: skip
    """Arrays of the gradients of input, weight and bias; empty ones where they are not wanted."""
    stride, padding, dilation = (expanded(v, weight.ndim - 2) for v in (stride, padding, dilation))
    by_input = conv.conv_transpose_backward_input if transposed else conv.conv_backward_input
    by_weight = conv.conv_transpose_backward_weight if transposed else conv.conv_backward_weight
    nothing = np.empty(0, g.dtype)
    return [
        by_input(g, weight, x.shape, stride, padding, dilation, groups) if wanted[0] else nothing,
        by_weight(g, x, weight.shape, stride, padding, dilation, groups) if wanted[1] else nothing,
        conv.conv_backward_bias(g) if wanted[2] else nothing,
    ]


_convolved_and_laid = result_layout.laid(_convolved, _lay_out)
_gradients_laid = result_layout.laid(_gradients, _lay_out_gradients)


def _backward_gradients(grads: Any, given: Any, input: Any, weight: Any, geometry: tuple[Any, ...], needs: Any) -> Any:
    """Gradients of the gradients. A convolution is linear in its input and in its weight, so they are convolutions."""
    by_input, by_weight, by_bias = grads
    by_given = by_x = by_w = None
    if needs[0]:
        parts = [
            convolution(a, b, None, *geometry)
            for a, b in ((by_input, weight), (input, by_weight))
            if a is not None and b is not None
        ]
        if by_bias is not None:
            parts.append(by_bias.view((1, -1) + (1,) * (input._a.ndim - 2)).expand(given._a.shape))
        by_given = parts[0] if parts else None
        for part in parts[1:]:
            by_given = by_given + part
    if needs[1] and by_weight is not None:
        by_x = convolution_backward(given, input, by_weight, None, *geometry, (True, False, False))[0]
    if needs[2] and by_input is not None:
        by_w = convolution_backward(given, by_input, weight, None, *geometry, (False, True, False))[1]
    return by_given, by_x, by_w


_BACKWARD = (
    "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, int[]? bias_sizes, int[] stride, "
    "int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups, bool[] output_mask) "
    "-> (Tensor, Tensor, Tensor)"
)


def _backward_array(g: Any, x: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any, dilation: Any,
                    transposed: bool, output_padding: Any, groups: int, output_mask: Any) -> Any:  # fmt: skip
    return _gradients(g, x, weight, stride, padding, dilation, transposed, groups, output_mask)


def _backward_calls(grad_output: Any, input: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any,
                    dilation: Any, transposed: bool, output_padding: Any, groups: int, output_mask: Any) -> Any:  # fmt: skip
    plain = not transposed and groups == 1 and set(dilation) == {1}
    if weight._a.ndim == 3 and plain:
        grads = _backward_calls(
            inner.unsqueeze(grad_output, 2), inner.unsqueeze(input, 2), inner.unsqueeze(weight, 2), bias_sizes, (1, *stride),
            (0, *padding), (1, *dilation), transposed, (0, *output_padding), groups, output_mask,
        )  # fmt: skip
        return [inner.squeeze(g, 2) if g._a.ndim == 4 else g for g in grads]
    if weight._a.ndim == 4 and plain:
        return _slow_conv2d_backward_inside(
            grad_output, input, weight, weight._a.shape[2:], stride, padding, output_mask
        )
    arrays = _gradients_laid(
        grad_output.contiguous()._a, input._a, weight._a, stride, padding, dilation, transposed, groups, output_mask
    )
    return [make(a) for a in arrays]


convolution_backward = op(
    _BACKWARD,
    all_flops=flops.convolution_backward(mask=10, transposed=7),
    meta=shapes_network.convolution_backward,
    out=False,
    layout=_lay_out_gradients,
    calls=_backward_calls,
    grad_output__input__weight=lambda grads, grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups, needs: (
        _backward_gradients(
            grads, grad_output, input, weight, (stride, padding, dilation, transposed, output_padding, groups), needs
        )
    ),
)(_backward_array).function


def _asked(parts: Sequence[Any], needs: Sequence[bool]) -> tuple[Any, ...]:
    return tuple(part if needed else None for part, needed in zip(parts, needs))


def _convolution_calls(input: Any, weight: Any, bias: Any, *geometry: Any) -> Any:
    return _convolution_inside(input, weight, bias, *geometry, False, False, False, True)


convolution = op(
    "convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
    "bool transposed, int[] output_padding, int groups) -> Tensor", meta=shapes.result_rule(shapes_network.convolution),
    out=False,
    layout=_lay_out,
    calls=_convolution_calls,
    input__weight__bias=lambda g, input, weight, stride, padding, dilation, transposed, output_padding, groups, needs: (
        _asked(
            convolution_backward(
                g, input, weight, (g._a.shape[1],) if needs[2] else None, stride, padding, dilation, transposed,
                output_padding, groups, needs,
            ),
            needs,
        )
    ),
)(_convolved).function  # fmt: skip


# --- what it is made of -----------------------------------------------------------------------------------------------


@composite(
    "_convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
    "bool transposed, int[] output_padding, int groups, bool benchmark, bool deterministic, bool cudnn_enabled, "
    "bool allow_tf32) -> Tensor",
    all_flops=flops.any_convolution,
    autocast="lower_precision",
)
def _convolution(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
                 output_padding: Any, groups: int, benchmark: bool, deterministic: bool, cudnn_enabled: bool,
                 allow_tf32: bool) -> Any:  # fmt: skip
    arrays = (input._a, weight._a, None if bias is None else bias._a)
    _check_types(*arrays)
    sizes = [expanded(v, weight._a.ndim - 2) for v in (stride, padding, dilation, output_padding)]
    stride, padding, dilation, output_padding = sizes
    conv.check_conv(
        input._a.shape, weight._a.shape, None if bias is None else bias._a.shape, stride, padding, dilation, groups,
        transposed=transposed, output_padding=output_padding if transposed else None,
    )  # fmt: skip
    if weight._a.ndim == 3:
        # One dimension is computed as two, the first of size 1.
        sizes = [(lead, *v) for lead, v in zip((1, 0, 1, 0), sizes)]
        made = _by_backend(inner.unsqueeze(input, 2), inner.unsqueeze(weight, 2), bias, sizes, transposed, groups)
        return inner.squeeze(made, 2)
    return _by_backend(input, weight, bias, sizes, transposed, groups)


_convolution_inside = inside(_convolution)


def _by_backend(input: Any, weight: Any, bias: Any, sizes: list[Shape], transposed: bool, groups: int) -> Any:
    stride, padding, dilation, output_padding = sizes
    kernel = weight._a.shape[2:]
    flat = len(kernel) == 2
    if groups == 1 and input._a.size:
        if transposed:
            row = _slow_conv_transpose2d if flat else _slow_conv_transpose3d
            return row.function(input, weight, kernel, bias, stride, padding, output_padding, dilation)
        if set(dilation) != {1}:
            row = _slow_conv_dilated2d if flat else _slow_conv_dilated3d
            return row.function(input, weight, kernel, bias, stride, padding, dilation)
        if flat:
            return _thnn_conv2d_inside(input, weight, kernel, bias, stride, padding)
        return _slow_conv3d.function(input, weight, kernel, bias, stride, padding)
    arrays = (input._a, weight._a, None if bias is None else bias._a)
    return make(_convolved_and_laid(*arrays, stride, padding, dilation, transposed, output_padding, groups))


@explicit(
    "_slow_conv2d_forward(Tensor self, Tensor weight, int[] kernel_size, Tensor? bias, int[] stride, int[] padding) "
    "-> Tensor",
    all_flops=flops.convolution(3, stride=4, padding=5),
    out=False,
)
def _slow_conv2d_forward(self: Any, weight: Any, kernel_size: Any, bias: Any, stride: Any, padding: Any) -> Any:
    """Columns of the input times the weight as a matrix, with the bias spread over them."""
    shape = weight._a.shape
    inner.view(weight.contiguous(), (shape[0], math.prod(shape[1:])))
    if bias is not None:
        inner.reshape(bias, (1, -1, 1, 1))
    arrays = (self._a, weight._a, None if bias is None else bias._a)
    return make(_convolved_and_laid(*arrays, stride, padding, (1, 1), False, (0, 0), 1))


_slow_conv2d_inside = inside(_slow_conv2d_forward)


@composite(
    "thnn_conv2d(Tensor self, Tensor weight, int[] kernel_size, Tensor? bias=None, int[] stride=1, int[] padding=0) "
    "-> Tensor",
    all_flops=flops.convolution(3, stride=4, padding=5),
)
def _thnn_conv2d(self: Any, weight: Any, kernel_size: Any, bias: Any, stride: Any, padding: Any) -> Any:
    return _slow_conv2d_forward.function(self, weight, kernel_size, bias, expanded(stride, 2), expanded(padding, 2))


_thnn_conv2d_inside = inside(_thnn_conv2d, _slow_conv2d_inside)


@explicit(
    "_slow_conv2d_backward.output_mask(Tensor grad_output, Tensor self, Tensor weight, int[] kernel_size, "
    "int[] stride, int[] padding, bool[] output_mask) -> (Tensor, Tensor, Tensor)",
    all_flops=flops.convolution_backward(mask=6),
    out=False,
)
def _slow_conv2d_backward(grad_output: Any, self: Any, weight: Any, kernel_size: Any, stride: Any, padding: Any,
                          output_mask: Any) -> Any:  # fmt: skip
    bias = (
        _sum_inside(grad_output, (0, 2, 3), False, None) if output_mask[2] else make(np.empty(0, grad_output._a.dtype))
    )
    shape = weight._a.shape
    inner.view(weight.contiguous(), (shape[0], math.prod(shape[1:])))
    g, wanted = grad_output.contiguous()._a, (*output_mask[:2], False)
    arrays = _gradients_laid(g, self._a, weight._a, stride, padding, (1, 1), False, 1, wanted)
    return make(arrays[0]), make(arrays[1]), bias


_slow_conv2d_backward_inside = inside(_slow_conv2d_backward)
_sum_inside = inside(_sum_dim, lambda grad, dim, keepdim, dtype: make(conv.conv_backward_bias(grad._a)))


def _backend(schema: str, transposed: bool, all_flops: Any) -> Any:
    """Row of a convolution without groups, computed by the kernel."""

    def array(x: Any, weight: Any, kernel_size: Any, bias: Any, stride: Any, padding: Any, *rest: Any) -> Any:
        ndim = len(kernel_size)
        sizes = [expanded(v, ndim) for v in (stride, padding, *rest)]
        if transposed:
            stride, padding, output_padding, dilation = sizes
            return conv.conv_transpose_forward(x, weight, stride, padding, output_padding, dilation, 1, bias)
        stride, padding, dilation = (*sizes, (1,) * ndim)[:3]
        return conv.conv_forward(x, weight, stride, padding, dilation, 1, bias)

    rule = shapes_network.one_group(transposed)
    return op(f"{schema} -> Tensor", meta=rule, all_flops=all_flops, out=False, layout=_lay_out_without_groups)(array)


_ARGUMENTS = "Tensor self, Tensor weight, int[] kernel_size, Tensor? bias=None, int[] stride=1, int[] padding=0"
_slow_conv3d = _backend(f"slow_conv3d({_ARGUMENTS})", False, flops.convolution(3, stride=4, padding=5))
_DILATED = flops.convolution(3, stride=4, padding=5, dilation=6)
_slow_conv_dilated2d = _backend(f"slow_conv_dilated2d({_ARGUMENTS}, int[] dilation=1)", False, _DILATED)
_slow_conv_dilated3d = _backend(f"slow_conv_dilated3d({_ARGUMENTS}, int[] dilation=1)", False, _DILATED)
_TRANSPOSED = f"{_ARGUMENTS}, int[] output_padding=0, int[] dilation=1"
_slow_conv_transpose2d = _backend(f"slow_conv_transpose2d({_TRANSPOSED})", True, flops.transposed_convolution)
_slow_conv_transpose3d = _backend(f"slow_conv_transpose3d({_TRANSPOSED})", True, flops.transposed_convolution)


# --- by number of dimensions ------------------------------------------------------------------------------------------


def _batched(name: str, ndim: int, input: Any, compute: Callable[[Any], Any]) -> Any:
    """`compute` of a batch; an input without one becomes a batch of one."""
    conv.check_conv_input(name, input._a.shape, ndim)
    if input._a.ndim == ndim + 2:
        return compute(input)
    return compute(unsqueeze(input, 0)).squeeze(0)


@composite(
    "_convolution_mode(Tensor input, Tensor weight, Tensor? bias, int[] stride, str padding, int[] dilation, "
    "int groups) -> Tensor"
)
def _convolution_mode(input: Any, weight: Any, bias: Any, stride: Any, padding: str, dilation: Any, groups: int) -> Any:
    ndim = weight._a.ndim - 2
    nothing = (0,) * ndim
    if padding == "valid":
        return convolution(input, weight, bias, stride, nothing, dilation, False, nothing, groups)
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    totals = [d * (k - 1) for d, k in zip(dilation, weight._a.shape[2:])]
    # What both sides share is padding of the convolution; an odd one goes to the end.
    odd = [n % 2 for n in totals]
    if any(odd):
        warnings.warn(
            "Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy of the input "
            "be created",
            stacklevel=4,
        )
        input = constant_pad_nd(input, [side for n in reversed(odd) for side in (0, n)], 0)
    return convolution(input, weight, bias, stride, tuple(n // 2 for n in totals), dilation, False, nothing, groups)


def _flops(inputs: Any) -> int:
    """Two operations per multiplication of a weight, for batches only."""
    x, weight = inputs.shapes[0], inputs.shapes[1]
    stride, padding, dilation, groups = inputs.concrete[3:7]
    if len(x) != 4 or len(weight) != 4 or not isinstance(padding, (list, tuple, int)):
        return 0
    sizes = zip(x[2:], weight[2:], *(expanded(v, 2) for v in (stride, padding, dilation)))
    space = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes]
    return 2 * x[0] * math.prod(space) * weight[0] * x[1] // groups * math.prod(weight[2:])


def _conv_rows(ndim: int) -> Any:
    """The two overloads of conv1d, conv2d or conv3d and the function that chooses."""
    name = f"conv{ndim}d"
    ones, nothing, no_more = [1] * ndim, [0] * ndim, (0,) * ndim

    def body(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
        if input._a.ndim == ndim + 2:
            return convolution(input, weight, bias, stride, padding, dilation, False, no_more, groups)
        return _batched(
            name, ndim, input,
            lambda x: convolution(x, weight, bias, stride, padding, dilation, False, no_more, groups),
        )  # fmt: skip

    def mode_body(input: Any, weight: Any, bias: Any, stride: Any, padding: str, dilation: Any, groups: int) -> Any:
        return _batched(
            name, ndim, input, lambda x: _convolution_mode.function(x, weight, bias, stride, padding, dilation, groups)
        )

    first = f"Tensor input, Tensor weight, Tensor? bias=None, int[] stride={ones}"
    last = f"int[] dilation={ones}, int groups=1) -> Tensor"
    flops = _flops if ndim == 2 else None

    def batch(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
        """`body` where the input is a batch."""
        return convolution(input, weight, bias, stride, padding, dilation, False, no_more, groups)

    schema = f"{name}({first}, int[] padding={nothing}, {last}"
    row = composite(schema, autocast="lower_precision", flops=flops, fast=(f"input._a.ndim == {ndim + 2}", batch))(
        body
    ).function
    mode_row = composite(f'{name}.padding({first}, str padding="valid", {last}', autocast="lower_precision")(
        mode_body
    ).function

    def convolve(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                 groups: int = 1) -> Any:  # fmt: skip
        """Convolve an input with a weight; `padding` may be "valid" or "same"."""
        stride, dilation = expanded(stride, ndim), expanded(dilation, ndim)
        if isinstance(padding, str):
            return mode_row(input, weight, bias, stride, padding, dilation, groups)
        return row(input, weight, bias, stride, expanded(padding, ndim), dilation, groups)

    convolve.__name__ = convolve.__qualname__ = name
    return front(name)(convolve)


def _conv_transpose_rows(ndim: int) -> Any:
    name = f"conv_transpose{ndim}d"

    def body(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int,
             dilation: Any) -> Any:  # fmt: skip
        return _batched(
            name, ndim, input,
            lambda x: convolution(x, weight, bias, stride, padding, dilation, True, output_padding, groups),
        )  # fmt: skip

    row = composite(
        f"{name}{'' if ndim == 1 else '.input'}(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, "
        "int[] padding=0, int[] output_padding=0, int groups=1, int[] dilation=1) -> Tensor",
        autocast="lower_precision",
    )(body).function

    def convolve(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
                 groups: int = 1, dilation: Any = 1) -> Any:  # fmt: skip
        """The transpose of a convolution: each input value spreads the weight over the output."""
        sizes = [expanded(v, ndim) for v in (stride, padding, output_padding, dilation)]
        return row(input, weight, bias, *sizes[:3], groups, sizes[3])

    convolve.__name__ = convolve.__qualname__ = name
    return front(name)(convolve)


conv1d, conv2d, conv3d = (_conv_rows(n) for n in (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = (_conv_transpose_rows(n) for n in (1, 2, 3))


@composite("conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor", autocast="lower_precision")
def _conv_tbc(self: Any, weight: Any, bias: Any, pad: int) -> Any:
    """Convolution over time of (time, batch, channel) with (taps, channel in, channel out)."""
    if self._a.ndim != 3 or weight._a.ndim != 3:
        raise RuntimeError(
            f"conv_tbc: input and weight must be 3-D (time, batch, channels), got {self._a.ndim}-D and {weight._a.ndim}-D"
        )
    result = conv1d(permute(self, (1, 2, 0)), permute(weight, (2, 1, 0)), bias, padding=pad)
    return permute(result, (2, 0, 1))


conv_tbc = _conv_tbc.function
