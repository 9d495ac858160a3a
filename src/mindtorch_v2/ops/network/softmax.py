"""Rows of softmax and log-softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dispatch.op import composite
from ...kernels.compiled import densely_laid
from ...kernels.network import small
from ...kernels.network import softmax as kernels
from .. import flops
from ..creation.convert import to_dtype
from ..creation.fill import scalar_tensor
from ..meta import shapes
from .decorators import op

# What the plain kernels take, as generated code asks for it.
_SMALL = (
    f"type(input._a) is ndarray and 0 < input._a.size <= {small.SMALL} and input._a.ndim and input._a.flags.c_contiguous "
    "and (input._a.dtype is F32 or input._a.dtype is F64)"
)

# --- softmax ----------------------------------------------------------------------------------------------------------


def _softmax_gradient(grad: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    if small.is_small(output) and grad.dtype is output.dtype and input_dtype.np is grad.dtype and grad.ndim:
        return small.softmax_backward(grad, output, dim)
    return kernels.softmax_backward_data(np.ascontiguousarray(grad), output, dim).astype(input_dtype.np, copy=False)


softmax_backward_data = op(
    "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
    all_flops=flops.reduction(4),
    meta=shapes.like_nth(1),
    out=False,
    dense=True,
    grad_output=lambda g, output, dim, input_dtype: softmax_backward_data(g, output, dim, input_dtype),
    output=lambda g, grad_output, output, dim: (
        g * (grad_output - (grad_output * output).sum(dim, keepdim=True))
        - grad_output * (g * output).sum(dim, keepdim=True)
    ),
)(_softmax_gradient).function


@op(
    "_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
    all_flops=flops.reduction(5),
    meta=shapes.same_shape,
    fast=(_SMALL, small.softmax),
    self=lambda g, result, dim, self_dtype: softmax_backward_data(g, result, dim, self_dtype),
)
def _softmax(a: Any, dim: int, half_to_float: bool) -> Any:
    return kernels.softmax(densely_laid(a), dim)


@composite("softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", out=True)
def _softmax_int(self: Any, dim: int, dtype: Any) -> Any:
    return _softmax.function(self if dtype is None else to_dtype(self, dtype), dim, False)


softmax = _softmax_int.function


def _log_softmax_gradient(grad: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    if small.is_small(output) and grad.dtype is output.dtype and input_dtype.np is grad.dtype and grad.ndim:
        return small.log_softmax_backward(grad, output, dim)
    dense = np.ascontiguousarray(grad)
    return kernels.log_softmax_backward_data(dense, output, dim).astype(input_dtype.np, copy=False)


log_softmax_backward_data = op(
    "_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
    all_flops=flops.reduction(4),
    meta=shapes.like_nth(1),
    out=False,
    dense=True,
    grad_output=lambda g, output, dim: g - (g * output.exp()).sum(dim, keepdim=True),
    output=lambda g, grad_output, output, dim: -g * output.exp() * grad_output.sum(dim, keepdim=True),
)(_log_softmax_gradient).function


@op(
    "_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
    all_flops=lambda record: 5 * flops.numel(record) + flops.lines(record),
    meta=shapes.same_shape,
    fast=(_SMALL, small.log_softmax),
    self=lambda g, result, dim, self_dtype: log_softmax_backward_data(g, result, dim, self_dtype),
)
def _log_softmax(a: Any, dim: int, half_to_float: bool) -> Any:
    return kernels.log_softmax(densely_laid(a), dim)


@composite("log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", out=True)
def _log_softmax_int(self: Any, dim: int, dtype: Any) -> Any:
    return _log_softmax.function(self if dtype is None else to_dtype(self, dtype), dim, False)


log_softmax = _log_softmax_int.function


def _safe_calls(self: Any, dim: int, dtype: Any) -> Any:
    result = softmax(self, dim, dtype)
    hidden = self.isneginf().all(dim, keepdim=True)
    return scalar_tensor(0.0, dtype=result.dtype).where(hidden, result)


def _safe_array(a: Any, dim: int, dtype: Any) -> Any:
    """softmax, but zeros instead of NaN for rows of nothing but minus infinity."""
    if a.dtype.kind == "c":
        raise TypeError("complex numbers are not ordered")
    x = densely_laid(a if dtype is None else a.astype(dtype.np))
    result = small.softmax(x, dim) if small.is_small(x) and x.ndim else kernels.softmax(x, dim)
    if result.size and np.isnan(result.min()):
        result = np.where(np.isneginf(a).all(dim, keepdims=True), np.zeros((), result.dtype), result)
    return result


safe_softmax = op(
    "_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    all_flops=flops.reduction(5),
    meta=shapes.same_shape,
    out=False,
    calls=_safe_calls,
    self=lambda g, result, dim, self_dtype: softmax_backward_data(g, result, dim, self_dtype),
)(_safe_array).function
