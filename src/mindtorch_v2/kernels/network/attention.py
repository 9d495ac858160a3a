"""Owns attention in one piece: scores, their softmax and the weighted values, and the gradients of all three inputs.

Arrays are (batch, heads, places, width), widths side by side in memory. Results lie there in the order of what they
belong to, so that heads that were taken apart are joined again without a copy.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..compiled import C
from . import softmax

Array = np.ndarray[Any, Any]

# So many scores at a time stay in the cache until they are used again.
BLOCK = 1 << 18
# Up to so many products plain loops are faster than calls for matrices.
FEW = 1 << 14


def attention(q: Array, k: Array, v: Array, mask: Array | None, causal: bool, scale: float, keep: bool) -> Any:
    """Weighted values, and the weights if they are to be kept; else an array of none."""
    batch, heads, queries, _ = q.shape
    keys = k.shape[2]
    out = np.empty_like(q)
    if C is not None and keys * q.size <= FEW and (mask is None or mask.shape == (queries, keys)):
        weights = np.empty((batch, heads, queries, keys), q.dtype)
        if C.attention(q, k, v, mask, causal, scale, out, weights):
            return out, weights if keep else np.empty(0, q.dtype)
    parts = list(_parts(batch, heads * queries * keys))
    weights = np.empty((batch if keep else parts[0].stop, heads, queries, keys), q.dtype)
    turned = k.swapaxes(2, 3)
    for part in parts:
        own = weights[part] if keep else weights[: part.stop - part.start]
        np.matmul(q[part], turned[part], out=own)
        _weigh(own, mask if mask is None or mask.ndim < 4 or len(mask) == 1 else mask[part], causal, scale)
        np.matmul(own, v[part], out=out[part])
    return out, weights if keep else np.empty(0, q.dtype)


def attention_backward(g: Array, q: Array, k: Array, v: Array, weights: Array, scale: float) -> tuple[Array, ...]:
    """Gradients of queries, keys and values."""
    batch, heads, queries, keys = weights.shape
    dq, dk, dv = found = np.empty_like(q), np.empty_like(k), np.empty_like(v)
    turned, across = v.swapaxes(2, 3), weights.swapaxes(2, 3)
    parts = list(_parts(batch, heads * queries * keys))
    room = np.empty((parts[0].stop, heads, queries, keys), weights.dtype)
    for part in parts:
        scores = room[: part.stop - part.start]
        np.matmul(across[part], g[part], out=dv[part])
        np.matmul(g[part], turned[part], out=scores)
        _weigh_backward(scores, weights[part], scale)
        np.matmul(scores, k[part], out=dq[part])
        np.matmul(scores.swapaxes(2, 3), q[part], out=dk[part])
    return found


def _parts(batch: int, scores: int) -> Iterator[slice]:
    """Stretches of a batch whose scores, so many for each member, fit into a block."""
    step = min(max(BLOCK // scores, 1), batch)
    return (slice(start, min(start + step, batch)) for start in range(0, batch, step))


@functools.lru_cache(maxsize=8)
def _hidden(queries: int, keys: int) -> Array:
    """Where a query may not look yet."""
    return ~np.tri(queries, keys, dtype=bool)


def _weigh(scores: Array, mask: Array | None, causal: bool, scale: float) -> None:
    """Turn scores into weights, in place. A query that may look nowhere has weights of zero."""
    if mask is not None:
        scores *= scale
        scores += mask
        scale = 1.0
    if C is not None and C.attention_weights(scores, scale, causal):
        return
    scores *= scale
    if causal:
        np.copyto(scores, -np.inf, where=_hidden(*scores.shape[2:]))
    lost = None
    if mask is not None:
        lost = np.isneginf(scores).all(-1, keepdims=True)
    scores[...] = softmax.softmax(scores, -1)
    if lost is not None and lost.any():
        np.copyto(scores, 0.0, where=lost)


def _weigh_backward(grads: Array, weights: Array, scale: float) -> None:
    """Turn gradients of weights into those of unscaled scores, in place."""
    if C is not None and C.attention_weights_backward(grads, weights, scale):
        return
    grads -= np.einsum("...i,...i->...", grads, weights)[..., None]
    grads *= weights
    grads *= scale
