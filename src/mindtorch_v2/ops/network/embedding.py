"""Rows of table lookups: embeddings and bags of embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.engine import door
from ...core.meta import meta
from ...core.tensor import make
from ...dispatch.inside import inside
from ...dispatch.overlap import guarded
from ...kernels.indexing import embedding as kernels
from .. import composed, flops
from ..creation.fill import _zeros
from ..indexing.gather import _index_select
from ..meta import network as shapes_network
from ..meta import shapes
from ..shape import inner
from ..shape.view import reshape, unsqueeze
from .decorators import composite, mutating, op

SUM, MEAN, MAX = 0, 1, 2

# --- embedding --------------------------------------------------------------------------------------------------------


def _dense_backward(
    g: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool, out: Any = None
) -> Any:
    rows = g.reshape(indices.size, g.shape[-1]) if g.ndim != indices.ndim + 1 else g
    return kernels.embedding_dense_backward(rows, indices, num_weights, padding_idx, scale_grad_by_freq, out)


def _dense_backward_calls(grad_output: Any, indices: Any, num_weights: int, padding_idx: int,
                          scale_grad_by_freq: bool) -> Any:  # fmt: skip
    width = grad_output._a.shape[-1]
    table = _zeros_inside((num_weights, width), grad_output.dtype, None, None, False)
    rows = inner.view(grad_output.contiguous(), (indices._a.size, width))
    _dense_backward(rows._a, indices._a, num_weights, padding_idx, scale_grad_by_freq, table._a)
    return table


_zeros_inside = inside(_zeros)


_embedding_dense_backward = op(
    "embedding_dense_backward(Tensor grad_output, Tensor indices, int num_weights, int padding_idx, "
    "bool scale_grad_by_freq) -> Tensor",
    all_flops=flops.each(1, 1),
    meta=shapes.result_rule(lambda g, indices, num_weights, *rest: meta((num_weights, g.shape[-1]), g.dtype)),
    out=False,
    calls=_dense_backward_calls,
    grad_output=lambda g, indices, padding_idx, scale_grad_by_freq: _unscattered(
        g, indices, padding_idx, scale_grad_by_freq
    ),
)(_dense_backward)


def _unscattered(g: Any, indices: Any, padding_idx: int, by_frequency: bool) -> Any:
    """Gradient of the scattering of rows: each row's own, shared out and silenced as those were."""
    result = reshape(g.index_select(0, reshape(indices, (-1,))), (*indices._a.shape, g._a.shape[-1]))
    if padding_idx >= 0:
        result = result.masked_fill(unsqueeze(indices == padding_idx, -1), 0)
    if by_frequency:
        flat = indices._a.reshape(-1)
        counts = np.bincount(flat)[flat].reshape(indices._a.shape).astype(g._a.dtype)
        result = result / unsqueeze(make(counts), -1)
    return result


@composite(
    "embedding_backward(Tensor grad, Tensor indices, int num_weights, int padding_idx, bool scale_grad_by_freq, "
    "bool sparse) -> Tensor"
)
def _embedding_backward(grad: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool,
                        sparse: bool) -> Any:  # fmt: skip
    if sparse:
        return door.embedding_sparse_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq)
    return _dense_backward_inside(grad, indices, num_weights, padding_idx, scale_grad_by_freq)


_dense_backward_inside = inside(_embedding_dense_backward)


def _embedding_calls(weight: Any, indices: Any, padding_idx: int, scale_grad_by_freq: bool, sparse: bool) -> Any:
    if weight._a.ndim != 2 or indices._a.dtype.kind not in "iu" or indices._a.size == 0:
        return make(_embedding_array(weight._a, indices._a, padding_idx, scale_grad_by_freq, sparse))
    if indices._a.ndim == 1:
        return _index_select_inside(weight, 0, indices)
    rows = _index_select_inside(weight, 0, inner.reshape(indices, (-1,)))
    return inner.view(rows, (*indices._a.shape, *weight._a.shape[1:]))


_index_select_inside = inside(_index_select)


def _embedding_array(weight: Any, indices: Any, padding_idx: int, scale_grad_by_freq: bool, sparse: bool) -> Any:
    return kernels.embedding(weight, indices)


embedding = op(
    "embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) "
    "-> Tensor",
    meta=shapes.result_rule(lambda weight, indices, *rest: meta(indices.shape + weight.shape[1:], weight.dtype)),
    out=False,
    calls=_embedding_calls,
    weight=lambda g, weight_sizes, indices, padding_idx, scale_grad_by_freq, sparse: _embedding_backward.function(
        g, indices, weight_sizes[0], padding_idx, scale_grad_by_freq, sparse
    ),
)(_embedding_array).function


@mutating("embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, float norm_type) -> Tensor(a!)")
@guarded
def _embedding_renorm_(weight: Any, indices: Any, max_norm: float, norm_type: float) -> None:
    kernels.embedding_renorm_(weight, indices, max_norm, norm_type)


embedding_renorm_ = _embedding_renorm_.function


# --- bags -------------------------------------------------------------------------------------------------------------


@op(
    "_embedding_bag_dense_backward(Tensor grad, Tensor indices, Tensor offset2bag, Tensor bag_size, "
    "Tensor maximum_indices, int num_weights, bool scale_grad_by_freq, int mode, Tensor? per_sample_weights, "
    "int padding_idx=-1) -> Tensor",
    all_flops=lambda record: flops.numel(record, 1) * record.shapes[0][1],
    meta=shapes.result_rule(
        lambda g, i, of, sizes, winners, num_weights, *rest: meta((num_weights, g.shape[-1]), g.dtype)
    ),
    out=False,
)
def _bag_backward(g: Any, indices: Any, offset2bag: Any, bag_size: Any, maximum_indices: Any, num_weights: int,
                  scale_grad_by_freq: bool, mode: int, per_sample_weights: Any, padding_idx: int) -> Any:  # fmt: skip
    return kernels.embedding_bag_dense_backward(
        g, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights,
        padding_idx,
    )  # fmt: skip


@op(
    "_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, Tensor offsets, "
    "Tensor offset2bag, int mode, int padding_idx=-1) -> Tensor",
    all_flops=lambda record: 2 * flops.numel(record, 2) * record.shapes[1][1],
    meta=shapes.result_rule(lambda g, weight, indices, *rest: meta(indices.shape, g.dtype)),
    out=False,
)
def _bag_weights_backward(g: Any, weight: Any, indices: Any, offsets: Any, offset2bag: Any, mode: int,
                          padding_idx: int) -> Any:  # fmt: skip
    return kernels.embedding_bag_per_sample_weights_backward(g, weight, indices, offset2bag, padding_idx)


def _bag_composed(weight: Any, scale: Any, indices: Any, bag_of: Any, sizes: Any, winners: Any, mode: int,
                  padding_idx: int) -> Any:  # fmt: skip
    """Bags made of differentiable ops, from what the forward call found out about them."""
    if mode == MAX:
        return weight.gather(0, winners).masked_fill(unsqueeze(sizes == 0, -1), 0)
    counted = indices.narrow(0, 0, bag_of._a.size)
    rows = weight.index_select(0, counted)
    if padding_idx >= 0:
        rows = rows.masked_fill(unsqueeze(counted == padding_idx, -1), 0)
    if scale is not None:
        rows = rows * unsqueeze(scale.narrow(0, 0, bag_of._a.size), -1)
    result = rows.new_zeros((sizes._a.size, weight._a.shape[1])).index_add(0, bag_of, rows)
    return result / unsqueeze(sizes.clamp(min=1), -1) if mode == MEAN else result


def _bag_gradients(g: Any, weight: Any, scale: Any, indices: Any, offsets: Any, found: tuple[Any, Any, Any],
                   by_frequency: bool, mode: int, padding_idx: int, needs: Any, sparse: bool) -> Any:  # fmt: skip
    bag_of, sizes, winners = found
    count = weight._a.shape[0]
    if sparse and needs[0]:
        by_weight = door.embedding_bag_sparse_backward(
            g, indices, bag_of, sizes, count, by_frequency, mode, scale, padding_idx
        )
        rest = (False, needs[1])
        dense = _bag_gradients(g, weight, scale, indices, offsets, found, False, mode, padding_idx, rest, False)
        return by_weight, dense[1]
    if not composed.wanted():
        by_weight = by_scale = None
        if needs[0]:
            by_weight = _bag_backward.function(
                g, indices, bag_of, sizes, winners, count, by_frequency, mode, scale, padding_idx
            )
        if needs[1]:
            by_scale = _bag_weights_backward.function(g, weight, indices, offsets, bag_of, mode, padding_idx)
        return by_weight, by_scale
    by_weight, by_scale = composed.gradients(
        lambda w, s: _bag_composed(w, s, indices, bag_of, sizes, winners, mode, padding_idx), (weight, scale), g, needs
    )
    if by_frequency and by_weight is not None:
        often = np.maximum(np.bincount(indices._a, minlength=count), 1).astype(g._a.dtype)
        by_weight = by_weight / unsqueeze(make(often), -1)
    return by_weight, by_scale


@op(
    "_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "
    "bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) "
    "-> (Tensor, Tensor, Tensor, Tensor)", all_flops=flops.embedding_bag, meta=shapes_network.embedding_bag,
    out=False,
    nondiff=(1, 2, 3),
    weight__per_sample_weights=lambda g, weight, per_sample_weights, indices, offsets, result1, result2, result3, scale_grad_by_freq, mode, sparse, padding_idx, needs: _bag_gradients(
        g, weight, per_sample_weights, indices, offsets, (result1, result2, result3), scale_grad_by_freq, mode,
        padding_idx, needs, sparse,
    ),
)  # fmt: skip
def _embedding_bag(weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool, mode: int, sparse: bool,
                   per_sample_weights: Any, include_last_offset: bool, padding_idx: int) -> Any:  # fmt: skip
    return kernels.embedding_bag(weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx)


@composite(
    "embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, "
    "int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, "
    "int? padding_idx=None) -> (Tensor, Tensor, Tensor, Tensor)"
)
def _embedding_bag_public(weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool, mode: int, sparse: bool,
                          per_sample_weights: Any, include_last_offset: bool, padding_idx: Any) -> Any:  # fmt: skip
    count = weight._a.shape[0]
    if padding_idx is None:
        padding_idx = -1
    elif not -count <= padding_idx < count:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, -{count} through {count - 1}, but got {padding_idx}"
        )
    else:
        padding_idx %= count
    return _embedding_bag.function(
        weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx
    )


embedding_bag = _embedding_bag_public.function
