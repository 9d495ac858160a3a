"""Rows of self-attention of several heads in inference, where projections, scores and output are one operator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dispatch.op import composite, op
from ...kernels.network import softmax as kernels
from .. import flops
from ..linalg.products import addmm, bmm, mm
from ..meta import network as shapes_network
from ..meta import shapes
from ..shape.permute import t, transpose
from ..shape.view import reshape, unsafe_view
from .softmax import _softmax

PADDING_MASK = 1  # (batch, key) hides keys; the others are (query, key) or (batch, head, query, key)


@op(
    "_transform_bias_rescale_qkv(Tensor qkv, Tensor qkv_bias, int num_heads) -> (Tensor, Tensor, Tensor)",
    all_flops=lambda record: flops.numel(record) + flops.numel(record) // 3,
    meta=shapes_network.heads,
    method=False,
    out=False,
)
def _transform_bias_rescale_qkv(qkv: Any, bias: Any, num_heads: int) -> Any:
    """Projections by head, the queries scaled by the root of the size of a head."""
    batch, length, width = qkv.shape
    size = width // 3 // num_heads
    parts = (qkv + bias).reshape(batch, length, 3, num_heads, size).transpose(2, 0, 3, 1, 4)
    q, k, v = np.ascontiguousarray(parts)
    q *= np.asarray(1 / math.sqrt(size), q.dtype)
    return q, k, v


@op(
    "_masked_softmax(Tensor self, Tensor mask, int? dim=None, int? mask_type=None) -> Tensor",
    all_flops=flops.reduction(5),
    meta=shapes.like_nth(0),
    method=False,
    out=False,
)
def _masked_softmax(a: Any, mask: Any, dim: Any, mask_type: Any) -> Any:
    """softmax of what is not hidden; no numbers where everything is, as a sum of nothing is divided by."""
    hidden = mask != 0
    if mask_type == PADDING_MASK:
        hidden = hidden[:, None, None, :]
    hidden = np.broadcast_to(hidden, a.shape)
    axis = a.ndim - 1 if dim is None else dim
    return kernels.softmax(np.where(hidden, -np.inf, a).astype(a.dtype, copy=False), axis)


def _projected(x: Any, weight: Any) -> Any:
    batch, length, width = x._a.shape
    rows = mm(reshape(x, (batch * length, width)), t(weight))
    return unsafe_view(rows, (batch, length, weight._a.shape[0]))


@composite(
    "_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, "
    "Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? mask=None, "
    "bool need_weights=True, bool average_attn_weights=True, int? mask_type=None) -> (Tensor, Tensor)",
    method=False,
)
def _native_multi_head_attention(query: Any, key: Any, value: Any, embed_dim: int, num_head: int, qkv_weight: Any,
                                 qkv_bias: Any, proj_weight: Any, proj_bias: Any, mask: Any, need_weights: bool,
                                 average_attn_weights: bool, mask_type: Any) -> Any:  # fmt: skip
    batch, length, width = query._a.shape
    q, k, v = _transform_bias_rescale_qkv.function(_projected(query, qkv_weight), qkv_bias, num_head)
    flat = (batch * num_head, length, width // num_head)
    square = (batch, num_head, length, length)
    scores = bmm(q.view(flat), transpose(k.view(flat), 1, 2)).view(square)
    if mask is None:
        weights = _softmax.function(scores, 3, False)
    else:
        weights = _masked_softmax.function(scores, mask, 3, mask_type)
    heads = bmm(weights.view((batch * num_head, length, length)), v.view(flat)).view(q._a.shape)
    rows = heads.permute(0, 2, 1, 3).contiguous().view((batch, length, width)).view((batch * length, width))
    output = addmm(proj_bias, rows, t(proj_weight)).view((batch, length, width))
    if not need_weights:
        return output, None
    return output, weights.sum(1).div_(num_head) if average_attn_weights else weights


native_multi_head_attention = _native_multi_head_attention.function
