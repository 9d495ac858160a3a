"""Attention whose scores and masks are functions of places: `score_mod(score, b, h, q, kv)` and `mask_mod(b, h, q, kv)`.

Functions get all places at once, as index tensors that broadcast against each other, so they may use any elementwise op
and may look values up by index.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...core.dtype import bool_
from ...ops.creation.fill import ones
from ...ops.creation.ranges import arange
from ...ops.linalg.matmul import matmul
from .. import functional as F

Mask = Callable[[Any, Any, Any, Any], Any]

# How many rows and columns a block of a mask has; libraries read it under this name.
_DEFAULT_SPARSE_BLOCK_SIZE = 128


def _places(*sizes: int) -> list[Any]:
    """Index tensors of each dimension, shaped to broadcast to all of them."""
    shapes = [[n if i == j else 1 for j in range(len(sizes))] for i, n in enumerate(sizes)]
    return [arange(n).view(shape) for n, shape in zip(sizes, shapes, strict=True)]


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """Hides nothing."""
    return ones((), dtype=bool_).expand(1, 1, 1, 1)


def and_masks(*mask_mods: Mask) -> Mask:
    """What all masks let through."""

    def both(b: Any, h: Any, q: Any, kv: Any) -> Any:
        result = mask_mods[0](b, h, q, kv)
        for mod in mask_mods[1:]:
            result = result & mod(b, h, q, kv)
        return result

    return both


def or_masks(*mask_mods: Mask) -> Mask:
    """What any mask lets through."""

    def either(b: Any, h: Any, q: Any, kv: Any) -> Any:
        result = mask_mods[0](b, h, q, kv)
        for mod in mask_mods[1:]:
            result = result | mod(b, h, q, kv)
        return result

    return either


def create_mask(mod_fn: Mask, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None) -> Any:
    """A mask function at all places: True where attention is allowed."""
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    return mod_fn(*_places(*sizes)).expand(sizes)


class BlockMask:
    """A mask function and the sizes it is for."""

    def __init__(self, mask_mod: Mask, shape: tuple[int, int, int, int], block_size: Any = 128) -> None:
        self.mask_mod, self.shape, self.BLOCK_SIZE = mask_mod, shape, block_size

    @property
    def seq_lengths(self) -> tuple[int, int]:
        return self.shape[2], self.shape[3]

    def to_dense(self) -> Any:
        """The mask at all places."""
        return create_mask(self.mask_mod, *self.shape)

    def numel(self) -> int:
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """The share, in percent, of what is hidden."""
        return 100.0 * (1 - self.to_dense().float().mean().item())

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def create_block_mask(
    mask_mod: Mask, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None, BLOCK_SIZE: Any = 128,
    _compile: bool = False,
) -> BlockMask:  # fmt: skip
    """A mask for `flex_attention` from a function of places."""
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), BLOCK_SIZE)


class AuxRequest(NamedTuple):
    """What `flex_attention` is to return beside the output."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for, None for the rest."""

    lse: Any = None
    max_scores: Any = None


def flex_attention(
    query: Any, key: Any, value: Any, score_mod: Any = None, block_mask: BlockMask | None = None,
    scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False, kernel_options: Any = None, *,
    return_aux: AuxRequest | None = None,
) -> Any:  # fmt: skip
    """Attention with scores changed by a function and places hidden by a mask; rows without any place give zeros."""
    if enable_gqa and query.size(1) != key.size(1):
        repeats = query.size(1) // key.size(1)
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    factor = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    scores = matmul(query, key.transpose(-2, -1)) * factor
    places = _places(*scores.shape)
    if score_mod is not None:
        scores = score_mod(scores, *places)
    if block_mask is not None:
        scores = scores.masked_fill(block_mask.mask_mod(*places).logical_not(), -math.inf)
    hidden = (scores == -math.inf).all(-1, keepdim=True)
    weights = F.softmax(scores, -1).masked_fill(hidden, 0.0)
    output = matmul(weights, value)
    if return_aux is not None:
        sums = scores.logsumexp(-1) if return_aux.lse else None
        return output, AuxOutput(sums, scores.amax(-1) if return_aux.max_scores else None)
    return (output, scores.logsumexp(-1)) if return_lse else output


__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]
