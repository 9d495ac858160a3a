"""Owns lookups in a table of vectors, one by one or summed in bags, their gradients, and limiting vectors' norms."""

from __future__ import annotations

import numpy as np

from ...core.errors import wrap_dim
from ..checks import is_float, type_name
from ..compiled import C
from ..precision import narrow, wide
from ..reduction.reduce import norm
from ..totals import Array, total
from .accumulate import add_rows

INT64 = np.dtype(np.int64)
SUM, MEAN, MAX = 0, 1, 2


# ---------------------------------------------------------------------------------------------------- embedding


def _require_indices(name: str, indices: Array) -> None:
    if indices.dtype not in (INT64, np.int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"torch.{type_name(indices.dtype)}Tensor instead (while checking arguments for {name})"
        )


def embedding(weight: Array, indices: Array) -> Array:
    """The rows of ``weight`` that ``indices`` name, with the shape of ``indices`` in front."""
    if C is not None and weight.ndim == 2 and C.inside(indices, weight.shape[0]):
        found: Array = weight.take(indices, 0)
        return found
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    _require_indices("embedding", indices)
    if indices.size and (indices.min() < 0 or indices.max() >= weight.shape[0]):
        raise IndexError("index out of range in self")
    return weight.take(indices, axis=0)


def embedding_dense_backward(
    grad: Array,
    indices: Array,
    num_weights: int,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    out: Array | None = None,
) -> Array:
    """Gradient of ``embedding`` with respect to its table; nothing flows into row ``padding_idx``.

    It may be written into ``out``, which holds zeros.
    """
    flat = indices.reshape(-1)
    rows = wide(grad).reshape(flat.size, grad.shape[-1])
    if padding_idx >= 0:
        kept = flat != padding_idx
        if not kept.all():
            flat, rows = flat[kept], rows[kept]
    if scale_grad_by_freq:
        rows = rows / np.bincount(flat, minlength=num_weights)[flat].astype(rows.dtype)[:, None]
    has_place = out is not None and out.dtype == rows.dtype
    result = out if has_place else np.zeros((num_weights, grad.shape[-1]), rows.dtype)
    assert result is not None
    add_rows(result, flat, rows)
    if out is None:
        return narrow(result, grad.dtype)
    if not has_place:
        out[...] = narrow(result, grad.dtype)
    return out


def embedding_renorm_(weight: Array, indices: Array, max_norm: float, norm_type: float = 2.0) -> Array:
    """Scale down, in place, those of the named rows of ``weight`` whose norm exceeds ``max_norm``."""
    rows = np.unique(indices)
    chosen = wide(weight.take(rows, axis=0))
    sizes = norm(chosen, norm_type, 1)
    over = np.flatnonzero(sizes > max_norm)
    scale = (max_norm / (sizes[over] + 1e-7)).astype(chosen.dtype)
    weight[rows[over]] = narrow(chosen[over] * scale[:, None], weight.dtype)
    return weight


# ---------------------------------------------------------------------------------------------------- embedding_bag


def embedding_bag(
    weight: Array,
    indices: Array,
    offsets: Array,
    mode: int = SUM,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Array, Array, Array, Array]:
    """Rows of ``weight`` summed (0), averaged (1) or maximised (2) over bags that start at ``offsets``.

    Returns the result, the bag of each index, how many indices each bag counts, and for ``max`` the index that won
    in each place. Indices equal to ``padding_idx`` do not count. Empty bags give zeros.
    """
    _check_bag(weight, indices, offsets, mode, per_sample_weights, include_last_offset)
    bags = offsets.size - 1 if include_last_offset else offsets.size
    ends = np.append(offsets[1:], indices.size) if not include_last_offset else offsets[1:]
    lengths = (ends - offsets[:bags]).astype(INT64)
    bag_of = np.repeat(np.arange(bags), lengths)
    indices = indices[: bag_of.size]
    kept = np.arange(indices.size) if padding_idx < 0 else np.flatnonzero(indices != padding_idx)
    kept_bags = bag_of.take(kept)
    counts = np.bincount(kept_bags, minlength=bags)
    rows = wide(weight.take(indices.take(kept), axis=0))
    if mode == MAX:
        result, winners = _bag_max(rows, indices.take(kept).astype(INT64), counts)
        return narrow(result, weight.dtype), bag_of, counts, winners
    if per_sample_weights is not None:
        rows = rows * wide(per_sample_weights.take(kept))[:, None]
    length = int(counts[0]) if bags else 0
    if length and np.all(counts == length):
        result = total(rows.reshape(bags, length, rows.shape[1]), (1,))
    else:
        result = np.zeros((bags, weight.shape[1]), rows.dtype)
        add_rows(result, kept_bags, rows)
    if mode == MEAN:
        result /= np.maximum(counts, 1).astype(rows.dtype)[:, None]
    return narrow(result, weight.dtype), bag_of, counts, np.zeros(0, INT64)


def _bag_max(rows: Array, indices: Array, counts: Array) -> tuple[Array, Array]:
    """Maximum of each run of ``counts`` rows and the index that holds it: all first rows, then all second ones, ..."""
    starts = np.cumsum(counts) - counts
    result = np.zeros((counts.size, rows.shape[1]), rows.dtype)
    winners = np.zeros(result.shape, INT64)
    for nth in range(int(counts.max()) if counts.size else 0):
        bags = np.flatnonzero(counts > nth)
        where = starts.take(bags) + nth
        candidate = rows.take(where, axis=0)
        held = result.take(bags, axis=0)
        better = candidate > held if nth else np.ones(candidate.shape, np.bool_)
        result[bags] = np.where(better, candidate, held)
        winners[bags] = np.where(better, indices.take(where)[:, None], winners.take(bags, axis=0))
    return result, winners


def _check_bag(
    weight: Array, indices: Array, offsets: Array, mode: int, per_sample_weights: Array | None, include_last: bool
) -> None:
    _require_indices("embedding_bag", indices)
    _require_indices("embedding_bag", offsets)
    if not is_float(weight.dtype):
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, "
            f"Float, Double; but got torch.{type_name(weight.dtype)}Tensor instead (while checking arguments for "
            "embedding_bag)"
        )
    if offsets.size and offsets[0] != 0:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
            f"However, got {offsets[0]}"
        )
    if offsets.size and offsets[-1] > indices.size:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {indices.size} but got offsets[-1] of {offsets[-1]}"
        )
    if include_last and offsets.size < 1:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if per_sample_weights is not None:
        if mode != SUM:
            raise RuntimeError(
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum'"
            )
        if per_sample_weights.dtype != weight.dtype:
            raise RuntimeError(
                "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
                f"'per_sample_weights'; but type torch.{type_name(weight.dtype)}Tensor does not equal "
                f"torch.{type_name(per_sample_weights.dtype)}Tensor (while checking arguments for embedding_bag)"
            )
    bad = np.flatnonzero((indices < 0) | (indices >= weight.shape[0]))
    if bad.size:
        raise RuntimeError(
            f"Index {bad[0]} of input takes value {indices[bad[0]]} which is not in the valid range "
            f"[0, {weight.shape[0]})"
        )


def embedding_bag_dense_backward(
    grad: Array,
    indices: Array,
    offset2bag: Array,
    bag_size: Array,
    max_indices: Array,
    num_weights: int,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    per_sample_weights: Array | None = None,
    padding_idx: int = -1,
) -> Array:
    """Gradient of ``embedding_bag`` with respect to its table, from what the forward call returned."""
    g = wide(grad)
    if mode == MAX:
        return narrow(_bag_max_backward(g, bag_size, max_indices, num_weights), grad.dtype)
    if mode == MEAN:
        g = g / np.maximum(bag_size, 1).astype(g.dtype)[:, None]
    rows = g.take(offset2bag, axis=0)
    if per_sample_weights is not None:
        rows *= wide(per_sample_weights)[: rows.shape[0], None]
    counted = indices[: rows.shape[0]]
    return narrow(embedding_dense_backward(rows, counted, num_weights, padding_idx, scale_grad_by_freq), grad.dtype)


def _bag_max_backward(g: Array, bag_size: Array, max_indices: Array, num_weights: int) -> Array:
    width = g.shape[1]
    full = bag_size > 0
    where = max_indices[full] * width + np.arange(width)
    result = np.zeros(num_weights * width, g.dtype)
    np.add.at(result, where.reshape(-1), g[full].reshape(-1))
    return result.reshape(num_weights, width)


def embedding_bag_per_sample_weights_backward(
    grad: Array, weight: Array, indices: Array, offset2bag: Array, padding_idx: int = -1
) -> Array:
    """Gradient of a summing ``embedding_bag`` with respect to its per-sample weights."""
    n = offset2bag.size
    result = np.zeros(indices.size, wide(grad).dtype)
    rows, vectors = wide(grad).take(offset2bag, axis=0), wide(weight).take(indices[:n], axis=0)
    result[:n] = np.einsum("ij,ij->i", rows, vectors)
    if padding_idx >= 0:
        result[indices == padding_idx] = 0
    return narrow(result, grad.dtype)


# ---------------------------------------------------------------------------------------------------- renorm


def _renorm_parts(a: Array, p: float, dim: int, maxnorm: float) -> tuple[Array, Array, int]:
    """Wide ``a``, the norm of each of its slices along ``dim`` (broadcastable), and the wrapped dimension."""
    if isinstance(p, complex):
        raise RuntimeError("renorm: p must be real-valued")
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    if a.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {a.ndim} dimensions")
    axis = wrap_dim(dim, a.ndim)
    x = wide(a)
    return x, norm(x, p, tuple(d for d in range(a.ndim) if d != axis), True), axis


def renorm(a: Array, p: float, dim: int, maxnorm: float) -> Array:
    """``a`` with every slice along ``dim`` whose p-norm exceeds ``maxnorm`` scaled down to it."""
    x, sizes, _ = _renorm_parts(a, p, dim, maxnorm)
    scale = np.where(sizes > maxnorm, (maxnorm / (sizes + 1e-7)).astype(sizes.dtype), sizes.dtype.type(1))
    return np.ascontiguousarray(narrow(x * scale, a.dtype))
