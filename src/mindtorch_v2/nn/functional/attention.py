"""Attention of several heads, from projections in to the projection out."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ...core.dtype import bool_
from ...ops.creation.fill import zeros, zeros_like
from ...ops.linalg.products import baddbmm, bmm
from ...ops.network.attention import scaled_dot_product_attention
from ...ops.network.linear import linear
from ...ops.network.padding import pad
from ...ops.shape.join import cat
from .activation import softmax
from .dropout import dropout


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


# --- what is given ----------------------------------------------------------------------------------------------------


def _is_batched(query: Any, key: Any, value: Any, padding_mask: Any, mask: Any, heads: int) -> bool:
    """Whether the inputs have a batch; their dimensions must agree on it."""
    ndim = query.dim()
    _require(ndim in (2, 3), f"query should be unbatched 2D or batched 3D tensor but received {ndim}-D query tensor")
    kind = "batched (3-D)" if ndim == 3 else "unbatched (2-D)"
    _require(
        key.dim() == ndim and value.dim() == ndim,
        f"For {kind} `query`, expected `key` and `value` to be {ndim}-D but found {key.dim()}-D and {value.dim()}-D "
        "tensors respectively",
    )
    if padding_mask is not None:
        _require(
            padding_mask.dim() == ndim - 1,
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {ndim - 1}-D but found "
            f"{padding_mask.dim()}-D tensor instead",
        )
    if mask is not None:
        _require(
            mask.dim() in (2, 3),
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {mask.dim()}-D tensor "
            "instead",
        )
        if ndim == 2 and mask.dim() == 3:
            wanted = (heads, query.shape[0], key.shape[0])
            _require(tuple(mask.shape) == wanted, f"Expected `attn_mask` shape to be {wanted} but got {mask.shape}")
    return bool(ndim == 3)


def _canonical_mask(mask: Any, mask_name: str, other_type: Any, other_name: str, target_type: Any,
                    check_other: bool = True) -> Any:  # fmt: skip
    """A mask as what is added to scores: minus infinity where a bool mask is True."""
    if mask is None:
        return None
    _require(
        mask.dtype is bool_ or mask.is_floating_point(),
        f"only bool and floating types of {mask_name} are supported",
    )
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=3,
        )
    if mask.is_floating_point():
        return mask
    return zeros_like(mask, dtype=target_type).masked_fill_(mask, -math.inf)


def _none_or_dtype(input: Any) -> Any:
    return None if input is None else input.dtype


# --- projections ------------------------------------------------------------------------------------------------------


def _apart(projected: Any, count: int, width: int) -> Any:
    """Projections computed as one, laid out one after another."""
    return projected.unflatten(-1, (count, width)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()


def _in_projection_packed(q: Any, k: Any, v: Any, w: Any, b: Any = None) -> tuple[Any, Any, Any]:
    """Query, key and value projected by weights packed into one; inputs that are the same are projected together."""
    width = q.size(-1)
    if k is v and q is k:
        both = _apart(linear(q, w, b), 3, width)
        return both[0], both[1], both[2]
    if k is v:
        w_q, w_kv = w.split([width, width * 2])
        b_q, b_kv = (None, None) if b is None else b.split([width, width * 2])
        query = linear(q, w_q, b_q)
        both = _apart(linear(k, w_kv, b_kv), 2, width)
        return query, both[0], both[1]
    w_q, w_k, w_v = w.chunk(3)
    b_q, b_k, b_v = (None, None, None) if b is None else b.chunk(3)
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def _in_projection(q: Any, k: Any, v: Any, weights: tuple[Any, Any, Any], bias: Any) -> tuple[Any, Any, Any]:
    """Query, key and value projected by weights of their own."""
    for name, weight in zip("qkv", weights):
        _require(weight is not None, f"use_separate_proj_weight is True but {name}_proj_weight is None")
    biases = (None, None, None) if bias is None else bias.chunk(3)
    projected = tuple(linear(x, w, b) for x, w, b in zip((q, k, v), weights, biases))
    return projected[0], projected[1], projected[2]


def _heads(x: Any, static: Any, name: str, heads: int, width: int) -> Any:
    """(length, batch * heads, width) with the heads first; or a given projection, checked."""
    if static is None:
        return x.view(x.shape[0], heads, width).transpose(0, 1)
    _require(static.size(0) == heads, f"expecting static_{name}.size(0) of {heads}, but got {static.size(0)}")
    _require(static.size(2) == width, f"expecting static_{name}.size(2) of {width}, but got {static.size(2)}")
    return static


# --- masks ------------------------------------------------------------------------------------------------------------


def _checked_mask(mask: Any, heads: int, target: int, source: int) -> Any:
    """The attention mask with three dimensions."""
    if mask is None:
        return None
    wanted = (target, source) if mask.dim() == 2 else (heads, target, source)
    if tuple(mask.shape) != wanted:
        raise RuntimeError(f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {wanted}.")
    return mask.unsqueeze(0) if mask.dim() == 2 else mask


def _longer(mask: Any) -> Any:
    """A mask with one more source, which is visible."""
    return None if mask is None else pad(mask, (0, 1))


def _merged(mask: Any, padding_mask: Any, batch: int, heads: int, source: int) -> Any:
    """The padding of keys, spread over the heads, added to the attention mask."""
    if padding_mask is None:
        return mask
    for dim, wanted in enumerate((batch, source)):
        _require(
            padding_mask.shape[dim] == wanted,
            f"Expected key_padded_mask.shape[{dim}] to be {wanted}, but got {padding_mask.shape[dim]}",
        )
    spread = padding_mask.view(batch, 1, 1, source).expand(-1, heads, -1, -1).reshape(batch * heads, 1, source)
    return spread if mask is None else mask + spread


# --- attention --------------------------------------------------------------------------------------------------------


def _weighted(q: Any, k: Any, v: Any, mask: Any, dropout_p: float) -> tuple[Any, Any]:
    """Values weighted by attention, and the weights."""
    scaled = q * math.sqrt(1.0 / float(q.shape[-1]))
    keys = k.transpose(-2, -1)
    scores = bmm(scaled, keys) if mask is None else baddbmm(mask, scaled, keys)
    weights: Any = softmax(scores, -1)
    if dropout_p > 0.0:
        weights = dropout(weights, dropout_p)
    return bmm(weights, v), weights


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """Attention of (length, batch, features), and its weights where they are needed."""
    batched = _is_batched(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    target, batch, width = query.shape
    attn_mask, key_padding_mask, is_causal = _settled(attn_mask, key_padding_mask, is_causal, need_weights, query.dtype)
    _check_widths(width, embed_dim_to_check, num_heads, key, value, use_separate_proj_weight)
    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        q, k, v = _in_projection(query, key, value, weights, in_proj_bias)
    else:
        _require(in_proj_weight is not None, "use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = _in_projection_packed(query, key, value, in_proj_weight, in_proj_bias)
    attn_mask = _checked_mask(attn_mask, batch * num_heads, target, key.shape[0])
    k, v, attn_mask, key_padding_mask = _with_bias(
        k, v, bias_k, bias_v, (static_k, static_v), batch, attn_mask, key_padding_mask
    )
    head = width // num_heads
    q = _heads(q, None, "q", batch * num_heads, head)
    k = _heads(k, static_k, "k", batch * num_heads, head)
    v = _heads(v, static_v, "v", batch * num_heads, head)
    if add_zero_attn:
        k, v = (cat([x, zeros((batch * num_heads, 1, head), dtype=x.dtype)], 1) for x in (k, v))
        attn_mask, key_padding_mask = _longer(attn_mask), _longer(key_padding_mask)
    attn_mask = _merged(attn_mask, key_padding_mask, batch, num_heads, k.size(1))
    if not training:
        dropout_p = 0.0
    shape = (batch, num_heads, target, k.size(1))
    if need_weights:
        attended, scores = _weighted(q, k, v, attn_mask, dropout_p)
        attended = attended.transpose(0, 1).reshape(target * batch, width)
        output = linear(attended, out_proj_weight, out_proj_bias)
        output = output.view(target, batch, output.size(1))
        scores = scores.view(shape)
        if average_attn_weights:
            scores = scores.mean(dim=1)
        return (output, scores) if batched else (output.squeeze(1), scores.squeeze(0))
    attended = _attended(q, k, v, attn_mask, dropout_p, is_causal, shape)
    output = linear(attended.permute(2, 0, 1, 3).reshape(batch * target, width), out_proj_weight, out_proj_bias)
    output = output.view(target, batch, output.size(1))
    return output if batched else output.squeeze(1), None


def _settled(mask: Any, padding_mask: Any, is_causal: bool, need_weights: bool, dtype: Any) -> tuple[Any, Any, bool]:
    """Both masks as what is added to scores, and whether the hint that they are causal is to be followed."""
    padding_mask = _canonical_mask(padding_mask, "key_padding_mask", _none_or_dtype(mask), "attn_mask", dtype)
    if is_causal and mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and padding_mask is None and not need_weights:
        return None, None, True  # the hint says it all
    mask = _canonical_mask(mask, "attn_mask", None, "", dtype, check_other=False)
    return mask, padding_mask, is_causal and padding_mask is None


def _check_widths(width: int, wanted: int, heads: int, key: Any, value: Any, separate: bool) -> None:
    _require(width == wanted, f"was expecting embedding dimension of {wanted}, but got {width}")
    _require(width // heads * heads == width, f"embed_dim {width} not divisible by num_heads {heads}")
    if separate:
        _require(
            key.shape[:2] == value.shape[:2],
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}",
        )
    else:
        _require(key.shape == value.shape, f"key shape {key.shape} does not match value shape {value.shape}")


def _with_bias(k: Any, v: Any, bias_k: Any, bias_v: Any, static: tuple[Any, Any], batch: int, mask: Any,
               padding_mask: Any) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Keys and values with a learnt one at the end."""
    if bias_k is None or bias_v is None:
        _require(bias_k is None, "bias_k is set but bias_v is None")
        _require(bias_v is None, "bias_v is set but bias_k is None")
        return k, v, mask, padding_mask
    _require(static[0] is None, "bias cannot be added to static key.")
    _require(static[1] is None, "bias cannot be added to static value.")
    k, v = cat([k, bias_k.repeat(1, batch, 1)]), cat([v, bias_v.repeat(1, batch, 1)])
    return k, v, _longer(mask), _longer(padding_mask)


def _attended(q: Any, k: Any, v: Any, mask: Any, dropout_p: float, is_causal: bool, shape: tuple[int, ...]) -> Any:
    """Attention without its weights: (batch, heads, target, width)."""
    batch, heads, target, source = shape
    if mask is not None:
        one_for_all = mask.size(0) == 1 and mask.dim() == 3
        mask = mask.unsqueeze(0) if one_for_all else mask.view(batch, heads, -1, source)
    q = q.view(batch, heads, target, q.size(-1))
    k, v = k.view(batch, heads, source, k.size(-1)), v.view(batch, heads, source, v.size(-1))
    return scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal)
