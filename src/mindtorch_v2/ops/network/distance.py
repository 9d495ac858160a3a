"""Rows of distances and similarities between vectors: cdist, pdist, pairwise_distance, cosine_similarity."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...autograd import grad_mode
from ...core.dtype import promote_types
from ...core.errors import broadcast_error
from ...core.tensor import make
from ...dispatch.front import front
from ...dispatch.op import composite, explicit
from ...kernels.checks import is_float, type_name
from ...kernels.linalg import distance
from .. import composed, flops
from ..linalg.matmul import matmul
from ..meta import shapes
from ..pointwise.arithmetic import plus
from ..reduction.reduce import norm_along, vector_norm
from ..shape.join import cat
from ..shape.view import broadcast_tensors, expand, unsqueeze
from .decorators import op

# --- between two sets -------------------------------------------------------------------------------------------------


@op(
    "_cdist_backward(Tensor grad, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor",
    all_flops=flops.cdist(1),
    meta=shapes.like_nth(1),
    out=False,
)
def _cdist_backward(grad: Any, x1: Any, x2: Any, p: float, cdist: Any) -> Any:
    return distance.cdist_backward(grad, x1, x2, p, cdist)


def _cdist_gradients(g: Any, x1: Any, x2: Any, p: float, result: Any, needs: Any) -> Any:
    if composed.wanted():
        return composed.gradients(
            lambda a, b: vector_norm(unsqueeze(a, -2) - unsqueeze(b, -3), p, (-1,)), (x1, x2), g, needs
        )
    row = _cdist_backward.function
    return (
        row(g.contiguous(), x1, x2, p, result) if needs[0] else None,
        row(g.mT.contiguous(), x2, x1, p, result.mT.contiguous()) if needs[1] else None,
    )


@op(
    "_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor",
    all_flops=flops.cdist(0),
    meta=shapes.cdist,
    out=False,
    node="CdistBackward0",
    x1__x2=lambda g, x1, x2, p, result, needs: _cdist_gradients(g, x1, x2, p, result, needs),
)
def _cdist_forward(x1: Any, x2: Any, p: float, compute_mode: Any) -> Any:
    return distance.cdist(x1, x2, p, 2)


def _euclidean_gradients(g: Any, x1: Any, x2: Any, result: Any, needs: Any) -> Any:
    ratio = (g / result).masked_fill(result == 0, 0)
    return (
        x1 * ratio.sum(-1, keepdim=True) - matmul(ratio, x2) if needs[0] else None,
        x2 * unsqueeze(ratio.sum(-2), -1) - matmul(ratio.mT, x1) if needs[1] else None,
    )


@explicit(
    "_euclidean_dist(Tensor x1, Tensor x2) -> Tensor",
    out=False,
    x1__x2=lambda g, x1, x2, result, needs: _euclidean_gradients(g, x1, x2, result, needs),
)
def _euclidean_dist(x1: Any, x2: Any) -> Any:
    """By one matrix product: |a|² - 2ab + |b|²."""
    norm1, norm2 = x1.pow(2).sum(-1, keepdim=True), x2.pow(2).sum(-1, keepdim=True)
    left = cat([x1.mul(-2), norm1, norm1.new_ones(norm1._a.shape)], -1)
    right = cat([x2, norm2.new_ones(norm2._a.shape), norm2], -1)
    return matmul(left, right.mT).clamp_min_(0).sqrt_()


MODES = {"use_mm_for_euclid_dist_if_necessary": None, "use_mm_for_euclid_dist": 1, "donot_use_mm_for_euclid_dist": 2}
WORTH_A_PRODUCT = 25  # rows


def _check_cdist(x1: Any, x2: Any, p: float) -> tuple[int, ...]:
    for name, x in (("X1", x1), ("X2", x2)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
        if not is_float(x.dtype):
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {type_name(x.dtype)}")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if x1.ndim == x2.ndim == 2:
        return ()
    try:
        return np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    except ValueError:
        raise broadcast_error(x1.shape[:-2], x2.shape[:-2]) from None


@composite("cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor", autocast="float32")
def _cdist(x1: Any, x2: Any, p: float, compute_mode: Any) -> Any:
    batch = _check_cdist(x1._a, x2._a, p)
    rows, others, columns = x1._a.shape[-2], x2._a.shape[-2], x1._a.shape[-1]
    large = max(rows, others) > WORTH_A_PRODUCT
    if p == 2 and (compute_mode == 1 or (compute_mode is None and large)) and columns and rows and others:
        count = math.prod(batch)
        left = expand(x1, (*batch, rows, columns)).reshape((count, rows, columns))
        right = expand(x2, (*batch, others, columns)).reshape((count, others, columns))
        if not batch:
            left, right = left.view((rows, columns)), right.view((others, columns))
        return _euclidean_dist.function(left, right).view((*batch, rows, others))
    return _cdist_forward.function(x1, x2, p, compute_mode)


@front("cdist")
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Any:
    """The p-norm distance of every row of x1 from every row of x2."""
    if compute_mode not in MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return _cdist.function(x1, x2, p, MODES[compute_mode])


# --- within one set ---------------------------------------------------------------------------------------------------


@op(
    "_pdist_backward(Tensor grad, Tensor self, float p, Tensor pdist) -> Tensor",
    all_flops=flops.pdist(1),
    meta=shapes.like_nth(1),
    out=False,
)
def _pdist_backward(grad: Any, a: Any, p: float, pdist: Any) -> Any:
    return distance.pdist_backward(grad, a, p, pdist)


def _pdist_gradient(g: Any, x: Any, p: float, result: Any) -> Any:
    if not composed.wanted():
        return _pdist_backward.function(g, x, p, result)
    first, second = (make(i) for i in np.triu_indices(x._a.shape[0], 1))
    return composed.gradients(
        lambda a: vector_norm(a.index_select(0, first) - a.index_select(0, second), p, (-1,)), (x,), g, (True,)
    )[0]


@op(
    "_pdist_forward(Tensor self, float p=2.) -> Tensor",
    all_flops=flops.pdist(0),
    meta=shapes.pdist,
    out=False,
    node="PdistBackward0",
    self=lambda g, self, p, result: _pdist_gradient(g, self, p, result),
)
def _pdist_forward(a: Any, p: float) -> Any:
    return distance.pdist(a, p)


@composite("pdist(Tensor self, float p=2.) -> Tensor", method=False)
def _pdist(self: Any, p: float) -> Any:
    if self._a.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {self._a.ndim}D")
    if not is_float(self._a.dtype):
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    return _pdist_forward.function(self.contiguous(), float(p))


pdist = _pdist.function


# --- row by row -------------------------------------------------------------------------------------------------------


@composite("pairwise_distance(Tensor x1, Tensor x2, float p=2, float eps=1e-06, bool keepdim=False) -> Tensor")
def _pairwise_distance(x1: Any, x2: Any, p: float, eps: float, keepdim: bool) -> Any:
    dim = max(x1._a.ndim, x2._a.ndim) - 1
    return norm_along(plus(x1 - x2, eps), p, dim, keepdim)


pairwise_distance = _pairwise_distance.function


@composite("cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor")
def _cosine_similarity(x1: Any, x2: Any, dim: int, eps: float) -> Any:
    common = promote_types(x1.dtype, x2.dtype)
    if not common.is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {type_name(common.np)}")
    x1, x2 = x1.to(common), x2.to(common)
    if x1._a.shape != x2._a.shape:
        x1, x2 = broadcast_tensors(x1, x2)
    norms = [vector_norm(x, 2, (dim,), True).clone() for x in (x1, x2)]
    # The floor takes no part in the gradient.
    for norm in norms:
        grad_mode.without_graph(norm.clamp_min_, eps)
    return ((x1 / norms[0]) * (x2 / norms[1])).sum(dim)


cosine_similarity = _cosine_similarity.function
