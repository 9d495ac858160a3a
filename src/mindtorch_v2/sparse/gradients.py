"""Gradients that hold values only where an op looked: of embeddings, bags of them, and `gather`.

The ops reach these functions through the engine's `door`, as they stand in a layer below sparse tensors.
"""

from __future__ import annotations

from typing import Any

from ..autograd.engine import door
from ..core.dtype import int64
from ..ops.creation.ranges import arange
from ..ops.shape.join import stack
from .tensor import SparseTensor, place

_SUM, _MEAN = 0, 1


def embedding_sparse_backward(
    grad: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> SparseTensor:
    """The gradient of a table: a row of `grad` at each index that is not the padding."""
    if scale_grad_by_freq:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    width = grad.shape[-1]
    if padding_idx != -1:
        counted = indices != padding_idx
        indices, grad = indices[counted], grad[counted]
    return place(indices.reshape(1, -1).to(int64), grad.reshape(-1, width), (num_weights, width))


def embedding_bag_sparse_backward(
    grad: Any, indices: Any, bag_of: Any, bag_size: Any, num_weights: int, scale_grad_by_freq: bool, mode: int,
    per_sample_weights: Any, padding_idx: int,
) -> SparseTensor:  # fmt: skip
    """The gradient of a table whose rows were added up in bags, or averaged."""
    count = bag_of.shape[0]
    rows = grad.index_select(0, bag_of)
    if mode == _MEAN:
        rows = rows / bag_size.index_select(0, bag_of).unsqueeze(1)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:count].unsqueeze(1)
    return embedding_sparse_backward(rows, indices[:count], num_weights, padding_idx, scale_grad_by_freq)


def gather_sparse_backward(grad: Any, size: Any, dim: int, index: Any) -> SparseTensor:
    """The gradient of what `gather` read: each value at the place that it was read from."""
    if not size:
        return place(index.reshape(1, -1)[:0], grad.reshape(-1), ())
    dim %= len(size)
    rows = []
    for position, n in enumerate(index.shape):
        if position == dim:
            rows.append(index.reshape(-1))
            continue
        shape = [n if i == position else 1 for i in range(index.dim())]
        rows.append(arange(n).reshape(shape).expand(index.shape).reshape(-1))
    return place(stack(rows) if rows else index.reshape(1, 1), grad.reshape(-1), size)


door.embedding_sparse_backward = embedding_sparse_backward
door.embedding_bag_sparse_backward = embedding_bag_sparse_backward
door.gather_sparse_backward = gather_sparse_backward
