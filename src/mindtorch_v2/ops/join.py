"""Rows that put tensors together and take them apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._errors import wrap_dim
from .._op import composite, op, view
from .view import slice_, unsqueeze


def _cat_gradients(g: Any, tensors_sizes: Any, dim: int, needs: Any) -> list[Any]:
    dim = wrap_dim(dim, g._a.ndim)
    gradients, start = [], 0
    for sizes, needed in zip(tensors_sizes, needs, strict=True):
        if sizes == (0,) and g._a.ndim != 1:
            gradients.append(None)
            continue
        end = start + sizes[dim]
        gradients.append(narrow(g, dim, start, end - start) if needed else None)
        start = end
    return gradients


@op("cat(Tensor[] tensors, int dim=0) -> Tensor", tensors=_cat_gradients)
def _cat(arrays: Any, dim: int) -> Any:
    if not arrays:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    kept = [a for a in arrays if a.shape != (0,)] or arrays[:1]
    ndim = kept[0].ndim
    if any(a.ndim == 0 for a in arrays):
        raise RuntimeError(f"zero-dimensional tensor (at position {[a.ndim for a in arrays].index(0)}) cannot be concatenated")
    dim = wrap_dim(dim, ndim)
    for position, a in enumerate(kept):
        if a.ndim != ndim:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {ndim} and {a.ndim}")
        for d in range(ndim):
            if d != dim and a.shape[d] != kept[0].shape[d]:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {kept[0].shape[d]} but got "
                    f"size {a.shape[d]} for tensor number {position} in the list."
                )
    return np.concatenate(kept, dim)


cat = _cat.function


@composite("stack(Tensor[] tensors, int dim=0) -> Tensor")
def _stack(tensors: Any, dim: int) -> Any:
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    dim = dim % (tensors[0]._a.ndim + 1)
    return cat([unsqueeze(t, dim) for t in tensors], dim)


stack = _stack.function


@composite("narrow(Tensor(a) self, int dim, int start, int length) -> Tensor(a)")
def _narrow(self: Any, dim: int, start: int, length: int) -> Any:
    return slice_(self, dim, start, start + length, 1)


narrow = _narrow.function


@view("unbind.int(Tensor(a) self, int dim=0) -> Tensor[]", self=lambda grads, dim: stack(list(grads), dim))
def _unbind(a: Any, dim: int) -> Any:
    moved = a.swapaxes(0, dim) if dim == 0 else np.moveaxis(a, dim, 0)
    return [moved[i : i + 1].reshape(()) if moved.ndim == 1 else moved[i] for i in range(moved.shape[0])]


unbind = _unbind.function
