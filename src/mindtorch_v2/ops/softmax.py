"""Rows of softmax, log-softmax and attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._dtype import bool_
from .._op import composite
from ..kernels import small
from ..kernels import softmax as kernels
from .arithmetic import times
from .creation import ones, scalar_tensor
from .dense import densely
from .dropout import dropout
from .matrix import cpp_name, matmul
from .network import op
from .view import transpose

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
    out=False,
    calls=densely(_softmax_gradient),
    grad_output=lambda g, output, dim, input_dtype: softmax_backward_data(g, output, dim, input_dtype),
    output=lambda g, grad_output, output, dim: (
        g * (grad_output - (grad_output * output).sum(dim, keepdim=True))
        - grad_output * (g * output).sum(dim, keepdim=True)
    ),
)(_softmax_gradient).function


@op(
    "_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
    fast=(_SMALL, small.softmax),
    self=lambda g, result, dim, self_dtype: softmax_backward_data(g, result, dim, self_dtype),
)
def _softmax(a: Any, dim: int, half_to_float: bool) -> Any:
    return kernels.softmax(a, dim)


@composite("softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", out=True)
def _softmax_int(self: Any, dim: int, dtype: Any) -> Any:
    return _softmax.function(self if dtype is None else self.to(dtype), dim, False)


softmax = _softmax_int.function


def _log_softmax_gradient(grad: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    if small.is_small(output) and grad.dtype is output.dtype and input_dtype.np is grad.dtype and grad.ndim:
        return small.log_softmax_backward(grad, output, dim)
    dense = np.ascontiguousarray(grad)
    return kernels.log_softmax_backward_data(dense, output, dim).astype(input_dtype.np, copy=False)


log_softmax_backward_data = op(
    "_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
    out=False,
    calls=densely(_log_softmax_gradient),
    grad_output=lambda g, output, dim: g - (g * output.exp()).sum(dim, keepdim=True),
    output=lambda g, grad_output, output, dim: -g * output.exp() * grad_output.sum(dim, keepdim=True),
)(_log_softmax_gradient).function


@op(
    "_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
    fast=(_SMALL, small.log_softmax),
    self=lambda g, result, dim, self_dtype: log_softmax_backward_data(g, result, dim, self_dtype),
)
def _log_softmax(a: Any, dim: int, half_to_float: bool) -> Any:
    return kernels.log_softmax(a, dim)


@composite("log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", out=True)
def _log_softmax_int(self: Any, dim: int, dtype: Any) -> Any:
    return _log_softmax.function(self if dtype is None else self.to(dtype), dim, False)


log_softmax = _log_softmax_int.function


def _safe_calls(self: Any, dim: int, dtype: Any) -> Any:
    result = softmax(self, dim, dtype)
    hidden = self.isneginf().all(dim, keepdim=True)
    return scalar_tensor(0.0, dtype=result.dtype).where(hidden, result)


def _safe_array(a: Any, dim: int, dtype: Any) -> Any:
    """softmax, but zeros instead of NaN for rows of nothing but minus infinity."""
    x = a if dtype is None else a.astype(dtype.np)
    result = small.softmax(x, dim) if small.is_small(x) and x.ndim else kernels.softmax(x, dim)
    if result.size and np.isnan(result.min()):
        result = np.where(np.isneginf(a).all(dim, keepdims=True), np.zeros((), result.dtype), result)
    return result


safe_softmax = op(
    "_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    out=False,
    calls=_safe_calls,
    self=lambda g, result, dim, self_dtype: softmax_backward_data(g, result, dim, self_dtype),
)(_safe_array).function


# --- attention --------------------------------------------------------------------------------------------------------


def _additive(mask: Any, dtype: Any) -> Any:
    """A bool mask as what is added to scores: 0 where attention is allowed, minus infinity elsewhere."""
    if mask is None or mask.dtype is not bool_:
        return mask
    return scalar_tensor(0.0, dtype=dtype).where(mask, scalar_tensor(-math.inf, dtype=dtype))


def _check_attention(query: Any, key: Any, value: Any) -> None:
    q, k, v = query._a, key._a, value._a
    if not q.dtype == k.dtype == v.dtype:
        raise RuntimeError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {cpp_name(q)} key.dtype: "
            f"{cpp_name(k)} and value.dtype: {cpp_name(v)} instead."
        )
    if q.ndim < 2 or k.ndim < 2 or v.ndim < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{q.ndim} key.dim: {k.ndim} and value.dim: {v.ndim} instead."
        )


def _grouped(query: Any, key: Any, value: Any) -> tuple[Any, Any]:
    """Key and value heads repeated so that each query head has its own."""
    heads, key_heads, value_heads = (x._a.shape[-3] for x in (query, key, value))
    if heads % key_heads or heads % value_heads:
        raise RuntimeError(
            "Number of heads in key and value must divide the number of heads in query, got "
            f"query: {heads}, key: {key_heads}, value: {value_heads}"
        )
    return key.repeat_interleave(heads // key_heads, -3), value.repeat_interleave(heads // value_heads, -3)


@composite(
    "_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
    "float dropout_p=0., bool is_causal=False, Tensor? dropout_mask=None, *, float? scale=None, "
    "bool enable_gqa=False) -> (Tensor, Tensor)"
)
def _attention_math(query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool,
                    dropout_mask: Any, scale: Any, enable_gqa: bool) -> Any:  # fmt: skip
    if scale is None:
        scale = 1 / math.sqrt(query._a.shape[-1])
    # Half of the factor on each side: products of unscaled operands might overflow.
    root = math.sqrt(abs(scale))
    query = times(query, -root if scale < 0 else root)
    if is_causal:
        if attn_mask is not None:
            raise RuntimeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
            )
        attn_mask = _additive(ones(query._a.shape[-2], key._a.shape[-2], dtype=bool_).tril(), query.dtype)
    if enable_gqa:
        key, value = _grouped(query, key, value)
    scores = matmul(query, times(transpose(key, -2, -1), root))
    if attn_mask is not None:
        scores = scores.add_(attn_mask)
    weights = safe_softmax(scores, -1)
    if dropout_p > 0:
        if dropout_mask is not None:
            kept = weights.masked_fill(dropout_mask.logical_not(), 0.0)
            return matmul(kept, times(value, 1 / (1 - dropout_p))), kept
        weights = dropout(weights, dropout_p, True)
    return matmul(weights, value), weights


attention_math = _attention_math.function


@composite(
    "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., "
    "bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor"
)
def _attention(query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool, scale: Any,
               enable_gqa: bool) -> Any:  # fmt: skip
    _check_attention(query, key, value)
    mask = _additive(attn_mask, query.dtype)
    return attention_math(query, key, value, mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)[0]


scaled_dot_product_attention = _attention.function
