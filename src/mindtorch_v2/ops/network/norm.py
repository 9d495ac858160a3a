"""Rows of normalisation: layers, batches, groups, instances, root mean square, and weights by their norm.

The gradients have kernels of their own. Where a graph of the gradient is wanted (double backward), they are composed of
ops that have gradients instead.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd import grad_mode
from ...core.errors import shape_text
from ...core.tensor import make
from ...kernels import result_layout
from ...kernels.network import normalize, small
from ...kernels.precision import is_half
from ...kernels.result_layout import suggested_format
from .. import composed, flops
from ..meta import network as shapes_network
from ..pointwise.arithmetic import plus_
from ..shape.copies import contiguous
from ..shape.permute import transpose
from ..shape.view import reshape
from .decorators import composite, op


def _filled(parts: Sequence[Any], like: Any) -> tuple[Any, ...]:
    """Results of a backward kernel, an empty array for each that was not asked for."""
    return tuple(np.empty(0, like.dtype) if part is None else part for part in parts)


def _asked(parts: Sequence[Any], needs: Sequence[bool]) -> tuple[Any, ...]:
    return tuple(part if needed else None for part, needed in zip(parts, needs))


def _spread(parameter: Any, ndim: int) -> Any:
    """One value per channel, to broadcast against (batch, channels, …)."""
    return None if parameter is None else parameter.view((1, -1) + (1,) * (ndim - 2))


def _normalized(x: Any, eps: float, shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """`x`, looked at in `shape`, with mean 0 and variance 1 over `axes`; its mean and reciprocal deviation before."""
    folded = reshape(x, shape)
    mean = folded.mean(axes, keepdim=True)
    centered = folded - mean
    rstd = ((centered * centered).mean(axes, keepdim=True) + eps).rsqrt()
    return reshape(centered * rstd, x._a.shape), mean, rstd


def _scaled(x: Any, weight: Any, bias: Any) -> Any:
    if weight is not None:
        x = x * weight
    return x if bias is None else x + bias


# --- layer_norm -------------------------------------------------------------------------------------------------------


def _layer_norm_backward(g: Any, x: Any, normalized_shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any,
                         output_mask: Any) -> Any:  # fmt: skip
    if g.dtype is x.dtype and _plain(x, normalized_shape, weight, bias):
        return small.layer_norm_backward(g, x, mean, rstd, weight, output_mask)
    return _filled(normalize.layer_norm_backward(g, x, normalized_shape, mean, rstd, weight, bias, output_mask), x)


def _plain(x: Any, normalized_shape: Any, weight: Any, bias: Any) -> bool:
    """Whether the kernel for small inputs does it."""
    shape = x.shape[-1:]
    return (
        small.is_small(x)
        and x.ndim > 0
        and tuple(normalized_shape) == shape
        and (weight is None or (weight.shape == shape and weight.dtype is x.dtype))
        and (bias is None or (bias.shape == shape and bias.dtype is x.dtype))
    )


_native_layer_norm_backward = op(
    "native_layer_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor mean, Tensor rstd, "
    "Tensor? weight, Tensor? bias, bool[] output_mask) -> (Tensor, Tensor, Tensor)",
    all_flops=lambda record: flops.norm_backward(record, 7, 5),
    meta=shapes_network.layer_norm_backward,
    out=False,
    dense=True,
)(_layer_norm_backward)


def _layer_norm_gradients(grads: Any, input: Any, normalized_shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any,
                          eps: float, needs: Any) -> Any:  # fmt: skip
    g = grads[0]
    if g is None:
        return (None,) * 3
    if not composed.wanted():
        row = _native_layer_norm_backward.function
        return _asked(row(g, input, normalized_shape, mean, rstd, weight, bias, needs), needs)
    shape = input._a.shape
    axes = tuple(range(len(shape) - len(normalized_shape), len(shape)))
    return composed.gradients(
        lambda x, w, b: _scaled(_normalized(x, eps, shape, axes)[0], w, b), (input, weight, bias), g, needs
    )


@op(
    "native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) "
    "-> (Tensor, Tensor, Tensor)",
    all_flops=flops.layer_norm,
    meta=shapes_network.layer_norm,
    out=False,
    nondiff=(1, 2),
    input__weight__bias=lambda grads, input, normalized_shape, result1, result2, weight, bias, eps, needs: (
        _layer_norm_gradients(grads, input, normalized_shape, result1, result2, weight, bias, eps, needs)
    ),
)
def _native_layer_norm(x: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    fused = small.layer_norm_in_one_pass(x, normalized_shape, weight, bias, eps)
    if fused is not None:
        return fused
    if _plain(x, normalized_shape, weight, bias):
        return small.layer_norm(x if x.flags.c_contiguous else x.copy(), weight, bias, eps)
    return normalize.layer_norm(x, normalized_shape, weight, bias, eps)


native_layer_norm = _native_layer_norm.function


# The conditions, in generated code, that an input takes part in no graph, and that none is built.
_APART = "({0} is None or ({0}._ag is None and {0}._view is None))"
_NO_GRAPH = f"(not GRAD() or ({' and '.join(_APART.format(name) for name in ('input', 'weight', 'bias'))}))"


def _layer_norm_quickly(input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float, *_: Any) -> Any:
    """Without the moments, which nobody asks for."""
    arrays = input._a, normalized_shape, None if weight is None else weight._a, None if bias is None else bias._a
    made = small.layer_norm_in_one_pass(*arrays, eps)
    return native_layer_norm(input, normalized_shape, weight, bias, eps)[0] if made is None else make(made[0])


@composite(
    "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, "
    "bool cudnn_enable=True) -> Tensor",
    fast=(_NO_GRAPH, _layer_norm_quickly),
)
def _layer_norm(input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float, cudnn_enable: bool) -> Any:
    return native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


layer_norm = _layer_norm.function


# --- batch_norm and instance_norm -------------------------------------------------------------------------------------


@op(
    "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, "
    "Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[] output_mask) "
    "-> (Tensor, Tensor, Tensor)",
    all_flops=lambda record: flops.norm_backward(record, 9, 2, not flops.value(record, 7, True)),
    meta=shapes_network.channel_gradients,
    out=False,
    layout=result_layout.suggested_by(1),
)
def _native_batch_norm_backward(g: Any, x: Any, weight: Any, running_mean: Any, running_var: Any, save_mean: Any,
                                save_invstd: Any, train: bool, eps: float, output_mask: Any) -> Any:  # fmt: skip
    return _filled(
        normalize.batch_norm_backward(
            g, x, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask
        ),
        x,
    )


def _batch_norm_gradients(grads: Any, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, mean: Any,
                          invstd: Any, training: bool, eps: float, needs: Any) -> Any:  # fmt: skip
    g = grads[0]
    if g is None:
        return (None,) * 3
    if not composed.wanted():
        row = _native_batch_norm_backward.function
        return _asked(row(g, input, weight, running_mean, running_var, mean, invstd, training, eps, needs), needs)
    ndim, shape = input._a.ndim, input._a.shape

    def forward(x: Any, w: Any, b: Any) -> Any:
        if training:
            x = _normalized(x, eps, shape, (0, *range(2, ndim)))[0]
        else:
            x = (x - _spread(running_mean, ndim)) * _spread((running_var + eps).rsqrt(), ndim)
        return _scaled(x, _spread(w, ndim), _spread(b, ndim))

    return composed.gradients(forward, (input, weight, bias), g, needs)


@op(
    "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
    "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    all_flops=flops.batch_norm,
    meta=shapes_network.batch_norm,
    out=False,
    nondiff=(1, 2),
    layout=result_layout.suggested,
    input__weight__bias=lambda grads, input, weight, bias, running_mean, running_var, result1, result2, training, eps, needs: (
        _batch_norm_gradients(
            grads, input, weight, bias, running_mean, running_var, result1, result2, training, eps, needs
        )
    ),
)
def _native_batch_norm(x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
                       momentum: float, eps: float) -> Any:  # fmt: skip
    if small.is_small(x) and x.ndim > 1 and x.size > x.shape[1]:
        channels = (x.shape[1],)
        for p in (weight, bias, running_mean, running_var):
            if p is not None and (p.shape != channels or p.dtype is not x.dtype):
                break
        else:
            if training:
                return small.batch_norm(x, weight, bias, running_mean, running_var, momentum, eps)
            known = small.batch_norm_eval(x, weight, bias, running_mean, running_var, eps)
            if known is not None:
                return known
    return normalize.batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps)


native_batch_norm = _native_batch_norm.function


@composite(
    "_batch_norm_impl_index(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
    "bool training, float momentum, float eps, bool cudnn_enabled) -> (Tensor, Tensor, Tensor, Tensor, int)"
)
def _batch_norm_impl_index(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
                           momentum: float, eps: float, cudnn_enabled: bool) -> Any:  # fmt: skip
    if input._a.size == 0:
        # Nothing to normalise; weight and bias keep their place in the graph.
        result = input.clone()
        if weight is not None:
            result = result * weight[0]
        return result if bias is None else result + bias[0], None, None, None, 0
    # As in torch, moving the running statistics is no in-place change that autograd counts.
    return (*native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps), None, 0)


_BATCH_NORM = (
    "(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool {mode}, "
    "float momentum, float eps, bool cudnn_enabled) -> Tensor"
)


def _batch_norm_alone(*arguments: Any) -> Any:
    return native_batch_norm(*arguments[:-1])[0]


@composite("batch_norm" + _BATCH_NORM.format(mode="training"), fast=("input._a.size", _batch_norm_alone))
def _batch_norm(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
                momentum: float, eps: float, cudnn_enabled: bool) -> Any:  # fmt: skip
    return _batch_norm_impl_index.function(
        input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled
    )[0]


batch_norm = _batch_norm.function


@composite("instance_norm" + _BATCH_NORM.format(mode="use_input_stats"))
def _instance_norm(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, use_input_stats: bool,
                   momentum: float, eps: float, cudnn_enabled: bool) -> Any:  # fmt: skip
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    samples, channels, *space = input._a.shape
    parameters: list[Any] = [
        None if p is None else p.repeat(samples) for p in (weight, bias, running_mean, running_var)
    ]
    # Every channel of every sample becomes a channel of one sample.
    flat = input.contiguous().view((1, samples * channels, *space))
    result = batch_norm(flat, *parameters, use_input_stats, momentum, eps, cudnn_enabled)
    for running, moved in ((running_mean, parameters[2]), (running_var, parameters[3])):
        if running is not None and use_input_stats:
            running.detach().copy_(moved.view((samples, channels)).mean(0))
    return result.view(input._a.shape)


instance_norm = _instance_norm.function


# --- group_norm -------------------------------------------------------------------------------------------------------


@op(
    "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, int N, int C, "
    "int HxW, int group, bool[] output_mask) -> (Tensor, Tensor, Tensor)",
    all_flops=lambda record: flops.norm_backward(record, 9, 4),
    meta=shapes_network.channel_gradients,
    out=False,
    layout=result_layout.suggested_by(1),
)
def _native_group_norm_backward(g: Any, x: Any, mean: Any, rstd: Any, weight: Any, N: int, C: int, HxW: int,
                                group: int, output_mask: Any) -> Any:  # fmt: skip
    made = small.group_norm_backward(g, x, mean, rstd, weight, group, output_mask)
    if made is None:
        made = normalize.group_norm_backward(g, x, mean, rstd, weight, group, output_mask)
    return _filled(made, x)


def _group_norm_gradients(grads: Any, input: Any, weight: Any, bias: Any, mean: Any, rstd: Any, sizes: tuple[int, int, int],
                          group: int, eps: float, needs: Any) -> Any:  # fmt: skip
    g = grads[0]
    # mean and deviation are results as well, and may have gradients of their own.
    if not composed.wanted() and grads[1] is None and grads[2] is None:
        row = _native_group_norm_backward.function
        return _asked(row(g.contiguous(), input, mean, rstd, weight, *sizes, group, needs), needs)
    ndim = input._a.ndim
    samples, channels, positions = sizes

    def forward(x: Any, w: Any, b: Any) -> Any:
        shape = (samples, group, channels // group * positions)
        normal, middle, scale = _normalized(x, eps, shape, (2,))
        result = _scaled(normal, _spread(w, ndim), _spread(b, ndim))
        return result, middle.view(mean._a.shape), scale.view(rstd._a.shape)

    return grad_mode.within(True, composed.gradients, forward, (input, weight, bias), grads, needs)


@op(
    "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, float eps) "
    "-> (Tensor, Tensor, Tensor)",
    all_flops=flops.group_norm,
    meta=shapes_network.group_norm,
    out=False,
    layout=result_layout.suggested,
    input__weight__bias=lambda grads, input, weight, bias, result1, result2, N, C, HxW, group, eps, needs: (
        _group_norm_gradients(grads, input, weight, bias, result1, result2, (N, C, HxW), group, eps, needs)
    ),
)
def _native_group_norm(x: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float) -> Any:
    fused = small.group_norm_in_one_pass(x, group, weight, bias, eps)
    return normalize.group_norm(x, group, weight, bias, eps) if fused is None else fused


native_group_norm = _native_group_norm.function


@composite(
    "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, "
    "bool cudnn_enabled=True) -> Tensor"
)
def _group_norm(input: Any, num_groups: int, weight: Any, bias: Any, eps: float, cudnn_enabled: bool) -> Any:
    x = input._a
    normalize._check_group_norm(x, num_groups, *[None if p is None else p._a for p in (weight, bias)])
    return native_group_norm(input, weight, bias, *x.shape[:2], math.prod(x.shape[2:]), num_groups, eps)[0]


group_norm = _group_norm.function


# --- rms_norm ---------------------------------------------------------------------------------------------------------


def _check_rms(input: Any, normalized_shape: Any, weight: Any) -> None:
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    if weight is not None and weight._a.shape != shape:
        shape = tuple(map(operator.index, shape))  # a TypeError for text
        raise RuntimeError(
            f"Expected weight to be of same shape as normalized_shape, but got weight of shape "
            f"{shape_text(weight._a.shape)} and normalized_shape = {shape_text(shape)}"
        )
    if input._a.shape[input._a.ndim - len(shape) :] != shape:
        raise RuntimeError(
            f"Given normalized_shape={shape_text(shape)}, expected input with shape [*{', '.join(map(str, shape))}], "
            f"but got input of size{shape_text(input._a.shape)}"
        )


@composite(
    "_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
    all_flops=flops.rms_norm,
)
def _fused_rms_norm(input: Any, normalized_shape: Any, weight: Any, eps: Any) -> Any:
    x = input.float() if is_half(input._a.dtype) else input
    if eps is None:
        eps = float(np.finfo(x._a.dtype).eps)
    axes = tuple(range(x._a.ndim - len(normalized_shape), x._a.ndim))
    scale = x.pow(2).mean(axes, keepdim=True)
    scale = plus_(scale, eps).rsqrt()
    result = x * scale
    if weight is not None:
        result = result * weight
    result = result.type_as(input)
    return contiguous(result, suggested_format(result._a)), scale


@composite("rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor")
def _rms_norm(input: Any, normalized_shape: Any, weight: Any, eps: Any) -> Any:
    _check_rms(input, normalized_shape, weight)
    return _fused_rms_norm.function(input, normalized_shape, weight, eps)[0]


rms_norm = _rms_norm.function


# --- weight_norm ------------------------------------------------------------------------------------------------------


@composite("norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor")
def _norm_except_dim(v: Any, pow: int, dim: int) -> Any:
    ndim = v._a.ndim
    if dim == -1:
        return v.norm(pow)
    if dim == 0:
        return v.contiguous().view((v._a.shape[0], -1)).norm(pow, 1).view((v._a.shape[0],) + (1,) * (ndim - 1))
    if dim == ndim - 1:
        return v.contiguous().view((-1, v._a.shape[-1])).norm(pow, 0).view((1,) * (ndim - 1) + (v._a.shape[-1],))
    return transpose(norm_except_dim(transpose(v, 0, dim), pow, 0), 0, dim)


norm_except_dim = _norm_except_dim.function


@composite("_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor")
def _weight_norm(v: Any, g: Any, dim: int) -> Any:
    return v * (g / norm_except_dim(v, 2, dim))


weight_norm = _weight_norm.function
