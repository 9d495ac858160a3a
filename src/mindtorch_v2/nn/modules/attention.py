"""Attention of several heads as a layer."""

from __future__ import annotations

from typing import Any

from ...autograd.grad_mode import is_grad_enabled
from ...autograd.overrides import overloaded
from ...core.tap import NAMESPACE
from ...ops.creation.fill import empty
from ...ops.network.multihead import native_multi_head_attention
from .. import functional as F
from ..functional.attention import _canonical_mask, _none_or_dtype
from ..init import constant_, xavier_normal_, xavier_uniform_
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module


def untracked(tensors: Any) -> bool:
    """Whether nothing stands in the way of computing tensors as one: no graph, no subclass, no autocast."""
    if overloaded(tensors) or NAMESPACE["CASTING"]():  # modes only look on
        return False
    return not (is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors))


class MultiheadAttention(Module):
    """Scaled dot products of queries and keys, by head, weigh the values."""

    __constants__ = ["batch_first"]

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self._make_weights(options)
        self.register_parameter("in_proj_bias", Parameter(empty((3 * embed_dim,), **options)) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **options)
        self.bias_k = Parameter(empty((1, 1, embed_dim), **options)) if add_bias_kv else None
        self.bias_v = Parameter(empty((1, 1, embed_dim), **options)) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _make_weights(self, options: dict[str, Any]) -> None:
        """One weight for queries, keys and values, or three where their sizes differ."""
        sizes = {"q_proj_weight": self.embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = Parameter(empty((3 * self.embed_dim, self.embed_dim), **options))
            for name in sizes:
                self.register_parameter(name, None)
        else:
            for name, size in sizes.items():
                setattr(self, name, Parameter(empty((self.embed_dim, size), **options)))
            self.register_parameter("in_proj_weight", None)

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            xavier_uniform_(self.in_proj_weight)
        else:
            for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            constant_(self.in_proj_bias, 0.0)
            constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            xavier_normal_(self.bias_k)
        if self.bias_v is not None:
            xavier_normal_(self.bias_v)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"_qkv_same_embed_dim": True, **state})

    def forward(
        self, query: Any, key: Any, value: Any, key_padding_mask: Any = None, need_weights: bool = True,
        attn_mask: Any = None, average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Any, Any]:  # fmt: skip
        float_mask = any(m is not None and m.is_floating_point() for m in (attn_mask, key_padding_mask))
        batched = query.dim() == 3
        key_padding_mask = _canonical_mask(
            mask=key_padding_mask, mask_name="key_padding_mask", other_type=_none_or_dtype(attn_mask),
            other_name="attn_mask", target_type=query.dtype,
        )  # fmt: skip
        attn_mask = _canonical_mask(
            mask=attn_mask, mask_name="attn_mask", other_type=None, other_name="", target_type=query.dtype,
            check_other=False,
        )  # fmt: skip
        if not float_mask and query is key and key is value and self._all_at_once(query):
            return self._attend_at_once(query, attn_mask, key_padding_mask, need_weights, average_attn_weights)
        if self.batch_first and batched:
            query, key, value = _transposed(query, key, value)
        separate = {} if self._qkv_same_embed_dim else {
            "use_separate_proj_weight": True, "q_proj_weight": self.q_proj_weight, "k_proj_weight": self.k_proj_weight,
            "v_proj_weight": self.v_proj_weight,
        }  # fmt: skip
        output, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=self.training, key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            average_attn_weights=average_attn_weights, is_causal=is_causal, **separate,
        )  # fmt: skip
        return (output.transpose(1, 0) if self.batch_first and batched else output), weights

    def _all_at_once(self, query: Any) -> bool:
        """Whether self-attention runs as one operator: in inference, with the usual options."""
        if self.training or query.dim() != 3 or not self.batch_first or self.num_heads % 2 or self.add_zero_attn:
            return False
        if self.in_proj_weight is None or self.in_proj_bias is None or self.bias_k is not None:
            return False
        tensors = (query, self.in_proj_weight, self.in_proj_bias, self.out_proj.weight, self.out_proj.bias)
        return query.dtype == self.in_proj_weight.dtype == self.in_proj_bias.dtype and untracked(tensors)

    def _attend_at_once(self, x: Any, attn_mask: Any, padding: Any, need_weights: bool, average: bool) -> Any:
        """Self-attention as one operator, to which all that a mask has beside zeros is hidden."""
        mask, mask_type = self.merge_masks(attn_mask, padding, x)
        return native_multi_head_attention(
            x, x, x, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.out_proj.weight,
            self.out_proj.bias, mask, need_weights, average, mask_type,
        )  # fmt: skip

    def merge_masks(self, attn_mask: Any, key_padding_mask: Any, query: Any) -> tuple[Any, int | None]:
        """Both masks as one, and which kind it is: 1 for padding alone, 2 for attention."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length, _ = query.shape
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return merged, 2


def _transposed(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    """Time before batch; the same tensor stays the same."""
    if key is value:
        if query is key:
            query = query.transpose(1, 0)
            return query, query, query
        query, key = query.transpose(1, 0), key.transpose(1, 0)
        return query, key, key
    return query.transpose(1, 0), key.transpose(1, 0), value.transpose(1, 0)
