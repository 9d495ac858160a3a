"""Rows of attention: in one piece where the inputs allow it, else op by op as the formula says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...autograd.grad_mode import is_grad_enabled
from ...core import tap
from ...core.dtype import bool_
from ...core.tensor import make
from ...dispatch.op import composite
from ...kernels import result_layout
from ...kernels.network import attention as kernels
from .. import composed, flops
from ..creation.fill import ones, scalar_tensor
from ..linalg.matmul import matmul
from ..linalg.products import cpp_name
from ..meta import network as shapes_network
from ..meta import shapes
from ..pointwise.arithmetic import refuse, times
from ..shape.permute import transpose
from .decorators import op
from .dropout import dropout
from .softmax import safe_softmax

# --- op by op ---------------------------------------------------------------------------------------------------------


def _additive(mask: Any, dtype: Any) -> Any:
    """A bool mask as what is added to scores: 0 where attention is allowed, minus infinity elsewhere."""
    if mask is None or mask.dtype is not bool_:
        return mask
    if type(mask._a) is np.ndarray and not tap.NAMESPACE["HOOK"]:  # nobody sees the operators
        return make(np.where(mask._a, *(np.asarray(n, dtype.np) for n in (0.0, -math.inf))))
    return scalar_tensor(0.0, dtype=dtype).where(mask, scalar_tensor(-math.inf, dtype=dtype))


def _causal(query: Any, key: Any) -> Any:
    """What is added to scores so that a query sees no later key."""
    return _additive(ones(query._a.shape[-2], key._a.shape[-2], dtype=bool_).tril(), query.dtype)


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
        attn_mask = _causal(query, key)
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


_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))

# --- in one piece -----------------------------------------------------------------------------------------------------


def _by_rows(a: Any) -> bool:
    """Whether products take an array as it is: the elements of a row lie side by side, and no row stands for others."""
    return a.strides[3] == a.itemsize and 0 not in a.strides


def _backward(g: Any, q: Any, k: Any, v: Any, weights: Any, scale: float) -> Any:
    return kernels.attention_backward(g if _by_rows(g) else np.ascontiguousarray(g), q, k, v, weights, scale)


_fused_backward = op(
    "_fused_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor weights, float scale) "
    "-> (Tensor, Tensor, Tensor)",
    all_flops=flops.attention(1, backward=True),
    meta=shapes.result_rule(lambda g, q, k, v, *rest: (shapes.like(q), shapes.like(k), shapes.like(v))),
    layout=result_layout.as_made,
    grad_out=refuse("_fused_attention_backward"),
    dense=_by_rows,
    out=False,
)(_backward)


def _gradients(grads: Any, query: Any, key: Any, value: Any, attn_bias: Any, is_causal: bool, scale: float,
               result1: Any, needs: Any) -> Any:  # fmt: skip
    if not composed.wanted():
        found = _fused_backward.function(grads[0], query, key, value, result1, scale)
        return tuple(f if needed else None for f, needed in zip(found, needs, strict=True))
    if is_causal:
        attn_bias = _causal(query, key) if attn_bias is None else _causal(query, key) + attn_bias
    return composed.gradients(
        lambda q, k, v: attention_math(q, k, v, attn_bias, scale=scale)[0], (query, key, value), grads[0], needs
    )


@op(
    "_fused_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool is_causal, float scale, "
    "bool keep_weights) -> (Tensor, Tensor)",
    all_flops=flops.attention(0),
    meta=shapes_network.attention,
    layout=result_layout.as_made,
    query__key__value=lambda grads, query, key, value, attn_bias, is_causal, scale, result1, needs: _gradients(
        grads, query, key, value, attn_bias, is_causal, scale, result1, needs
    ),
    nondiff=(1,),
    out=False,
)
def _fused(q: Any, k: Any, v: Any, bias: Any, is_causal: bool, scale: float, keep_weights: bool) -> Any:
    """The result and, if backward will need them, the weights."""
    return kernels.attention(q, k, v, bias, is_causal, scale, keep_weights)


# The ways to compute attention that are allowed, by torch's names. What is computed in one piece here counts as flash,
# what is computed op by op as math; the others are ways of devices.
WAYS = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def _suits(*tensors: Any) -> bool:
    """Whether query, key and value are of a kind that is computed in one piece."""
    q, k, v = [t._a for t in tensors]
    return (
        q.ndim == k.ndim == v.ndim == 4
        and q.dtype in _FLOATS
        and q.shape[:2] == k.shape[:2] == v.shape[:2]
        and q.shape[3] == k.shape[3] == v.shape[3]
        and k.shape[2] == v.shape[2]
        and 0 not in q.shape
        and 0 not in k.shape
        and q.strides[3] == q.itemsize == k.strides[3] == v.strides[3]
    )


def _suits_mask(mask: Any, query: Any, key: Any) -> bool:
    """Whether a mask is given for all scores, or for all of a batch or its heads at once, and has no gradient."""
    if mask is None:
        return True
    full = (*query._a.shape[:3], key._a.shape[2])
    shape = mask._a.shape
    suits = len(shape) in (2, 4) and all(n in (1, m) for n, m in zip(shape[::-1], full[::-1]))
    return suits and mask._a.dtype == query._a.dtype and not mask.requires_grad


def _needs_weights(*tensors: Any) -> bool:
    return is_grad_enabled() and any(t.requires_grad for t in tensors)


@composite(
    "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., "
    "bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
    autocast="lower_precision",
)
def _attention(query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool, scale: Any,
               enable_gqa: bool) -> Any:  # fmt: skip
    _check_attention(query, key, value)
    mask = _additive(attn_mask, query.dtype)
    whole = WAYS["flash"] and dropout_p == 0 and not enable_gqa
    if whole and _suits(query, key, value) and _suits_mask(mask, query, key):
        factor = 1 / math.sqrt(query._a.shape[-1]) if scale is None else float(scale)
        keep = _needs_weights(query, key, value)
        return _fused.function(query, key, value, mask, is_causal, factor, keep)[0]
    if not WAYS["math"]:
        raise RuntimeError(
            "No viable backend for scaled_dot_product_attention was found. This is likely due to turning off both the "
            "math kernel and the fused kernels."
        )
    return attention_math(query, key, value, mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)[0]


scaled_dot_product_attention = _attention.function
