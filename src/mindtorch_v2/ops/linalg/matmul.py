"""The row of `matmul`, which chooses among the products of vectors, matrices and batches, and folds or expands for them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...autograd import graph
from ...core import tap
from ...core.errors import broadcast_error
from ...core.tensor import Tensor, bump, make
from ...dispatch.op import composite
from ...kernels.compiled import C
from ...kernels.linalg.products import times
from ..shape.permute import t
from ..shape.view import expand, reshape, unsafe_view, unsqueeze, view_array
from .products import F32, F64, batches, bmm, dot, graph_wanted, mm, mv


@composite(
    "matmul(Tensor self, Tensor other) -> Tensor",
    autocast="lower_precision",
    out=True,
    fast=("input._a.ndim == 2 and other._a.ndim == 2", mm),
)
def _matmul(self: Any, other: Any) -> Any:
    m, n = self._a.ndim, other._a.ndim
    if m == 2 and n == 2:
        return mm(self, other)
    if m == 0 or n == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {m}D and {n}D")
    if n == 1 and m < 3:
        return dot(self, other) if m == 1 else mv(self, other)
    unseen = not tap.NAMESPACE["HOOK"] and not graph_wanted(self, other)
    if unseen and n == 2 < m and C is not None and (made := C.product(self._a, other._a)) is not None:
        return make(made)  # a few factors, which `mm` and `bmm` multiply alike
    unseen = unseen and _multiplies(self._a, other._a)
    if m == 1 and n == 2:
        if unseen:
            made = make(times(self._a[None], other._a)[0])
            bump(made)  # as `squeeze_` does
            return made
        return mm(unsqueeze(self, 0), other).squeeze_(0)
    if unseen and n == 2 and (self._a.flags.c_contiguous or _folds(self, other)):
        return make(_folded_arrays(self._a, other._a))
    if _folds(self, other):
        return _folded(self, other)
    return make(_batched_arrays(self._a, other._a)) if unseen else _batched(self, other)


matmul = _matmul.function


def _folds(self: Tensor, other: Tensor) -> bool:
    """Whether the larger operand becomes one matrix: without a copy, or with one where the smaller requires grad (its
    gradient would else be spread over all batches first)."""
    self_larger = self._a.ndim >= other._a.ndim
    large, small = (self._a, other) if self_larger else (other._a.swapaxes(-1, -2), self)
    if large.ndim < 3 or small._a.ndim > 2:
        return False
    if graph.edge(small) is not None:
        return True
    if self._a.ndim == 2:
        return False
    shape, strides = large.shape, large.strides
    return large.size == 0 or all(strides[i] == strides[i + 1] * shape[i + 1] for i in range(large.ndim - 2))


def _folded_arrays(a: Any, b: Any) -> Any:
    """`_folded` by a matrix, where only values count."""
    lead, columns = a.shape[:-1], b.shape[1:]
    return times(a.reshape(math.prod(lead), a.shape[-1]), b).reshape(lead + columns)


def _folded(self: Any, other: Any) -> Any:
    flipped = other._a.ndim > self._a.ndim
    large = other.mT if flipped else self
    small = other if not flipped else t(self) if self._a.ndim == 2 else self
    *lead, last = large._a.shape
    rows = reshape(large, (math.prod(lead), last))
    if small._a.ndim == 1:
        return unsafe_view(mv(rows, small), tuple(lead))
    result = unsafe_view(mm(rows, small), (*lead, small._a.shape[1]))
    return result.mT.contiguous() if flipped else result


def _multiplies(a: Any, b: Any) -> bool:
    """Whether arrays can be multiplied without further questions: types and sizes agree."""
    return (
        (a.dtype is F32 or a.dtype is F64)
        and a.dtype is b.dtype
        and a.shape[-1] == b.shape[-2 if b.ndim > 1 else -1]
        and (a.shape[:-2] == b.shape[:-2] or a.ndim < 3 or b.ndim < 3)
    )


def _batched_arrays(a: Any, b: Any) -> Any:
    """`_batched` where only values count: copies are made where its ops make them, so that the products are the same."""
    if a.ndim == b.ndim == 3 and len(a) == len(b):
        return batches(a, b)
    batch = a.shape[:-2] or b.shape[:-2]
    rows = a if a.ndim > 1 else a[None]
    columns = b if b.ndim > 1 else b[:, None]
    left, right = _side_by_side(rows, batch), _side_by_side(columns, batch)
    return batches(left, right).reshape(*batch, *a.shape[-2:-1], *b.shape[-1:][: b.ndim - 1])


def _side_by_side(a: Any, batch: tuple[int, ...]) -> Any:
    """As many matrices as there are batches, along one dimension."""
    shape, count = (*batch, *a.shape[-2:]), (math.prod(batch), *a.shape[-2:])
    whole = a if a.shape == shape else np.broadcast_to(a, shape)
    # A product depends on strides, those of dimensions of one element too: they are those `reshape` gives.
    viewed = view_array(whole, count)
    return np.ascontiguousarray(whole).reshape(count) if viewed is None else viewed


def _batched(self: Any, other: Any) -> Any:
    a, b = self._a.shape, other._a.shape
    rows = a[-2:-1] or (1,)
    batch_a, batch_b = a[:-2], b[:-2]
    if len(a) == len(b) == 3 and a[0] != b[0]:
        if a[0] == 1 and graph.edge(self) is not None:
            return matmul(self.squeeze(0), other)
        if b[0] == 1 and graph.edge(other) is not None:
            return matmul(self, other.squeeze(0))
    batch = batch_a
    if batch_a != batch_b:
        try:
            batch = np.broadcast_shapes(batch_a, batch_b)
        except ValueError:
            raise broadcast_error(batch_a, batch_b) from None
    count = math.prod(batch)
    if not tap.NAMESPACE["HOOK"] and len(b) > 1 and batch_a == batch_b:  # nothing to expand, and nobody to see it
        left, right = self, other
        if len(a) != 3:
            left, right = reshape(self, (count, *a[-2:])), reshape(other, (count, *b[-2:]))
        return unsafe_view(bmm(left, right), (*batch, a[-2], b[-1]))
    left = reshape(expand(self, (*batch, *rows, a[-1])), (count, *rows, a[-1]))
    if len(b) == 1:
        column = unsqueeze(reshape(expand(other, (*batch, b[0])), (count, b[0])), 2)
        return unsafe_view(bmm(left, column).squeeze(-1), (*batch, *rows))
    right = reshape(expand(other, (*batch, *b[-2:])), (count, *b[-2:]))
    return unsafe_view(bmm(left, right), (*batch, *a[-2:-1], b[-1]))
