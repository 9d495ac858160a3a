"""Rows of reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._bind import front
from .._errors import wrap_dims
from .._op import op
from .view import expand, unsqueeze


def spread(g: Any, sizes: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """The gradient of a reduction, given to every element that was reduced."""
    if not keepdim and sizes:
        for d in sorted(wrap_dims(dim, len(sizes)) if dim not in (None, ()) else range(len(sizes))):
            g = unsqueeze(g, d)
    return expand(g, sizes)


@op("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", out=False, self=lambda g, self_sizes: expand(g, self_sizes))
def _sum(a: Any, dtype: Any) -> Any:
    return np.add.reduce(a, None, None if dtype is None else dtype.np) if a.ndim else a.copy()


@op(
    "sum.dim_IntList(Tensor self, int[]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    node="SumBackward1",
    self=lambda g, self_sizes, dim, keepdim: spread(g, self_sizes, dim, keepdim),
)
def _sum_dim(a: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    axes = None if dim is None or dim == () else wrap_dims(dim, a.ndim)
    return np.add.reduce(a, axes, None if dtype is None else dtype.np, keepdims=keepdim)


@front("sum")
def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None, axis: Any = None, keepdims: Any = None) -> Any:
    """Sum of all elements, or over some dimensions."""
    if axis is not None:
        dim = axis
    if keepdims is not None:
        keepdim = keepdims
    if dim is None and out is None and not keepdim:
        return _sum.function(input, dtype=dtype)
    return _sum_dim.function(input, dim, keepdim, dtype=dtype, out=out)
