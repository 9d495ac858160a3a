"""Rows of losses that ask for a margin between similar and other vectors. `reduction` is 0 (none), 1 (mean) or 2 (sum)."""

from __future__ import annotations

from typing import Any

from ...dispatch.inside import by_ops
from ...kernels import result_layout
from ...kernels.compiled import exp
from ...kernels.pointwise.smooth import log1p
from .. import flops
from ..creation.fill import empty_like, zeros_like
from ..meta import network as shapes_network
from ..pointwise.arithmetic import minus, plus
from .decorators import composite, op
from .distance import pairwise_distance
from .loss import _as_one, per_element, reduce_loss, reduced_array


@composite(
    "hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) -> Tensor", autocast="float32"
)
def _hinge_embedding_loss(self: Any, target: Any, margin: float, reduction: int) -> Any:
    nothing = zeros_like(self)
    apart = empty_like(self).fill_(margin).sub_(self).clamp_min_(0)
    loss = apart.where(target != 1, nothing) + self.where(target != -1, nothing)
    return reduce_loss(loss, reduction)


hinge_embedding_loss = _hinge_embedding_loss.function


@composite(
    "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor",
    autocast="float32",
)
def _margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float, reduction: int) -> Any:
    return reduce_loss(plus((input1 - input2) * -target, margin).clamp_min_(0), reduction)


margin_ranking_loss = _margin_ranking_loss.function


def _check_cosine(input1: Any, input2: Any, target: Any) -> None:
    rank = target._a.ndim
    if rank > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input1._a.ndim != rank + 1 or input2._a.ndim != rank + 1:
        raise RuntimeError(
            f"{rank}D target tensor expects {rank + 1}D input tensors, but found inputs with sizes "
            f"{list(input1._a.shape)} and {list(input2._a.shape)}."
        )


@composite(
    "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor",
    autocast="float32",
)
def _cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float, reduction: int) -> Any:
    _check_cosine(input1, input2, target)
    dim = target._a.ndim
    product = (input1 * input2).sum(dim)
    sizes = [plus((x * x).sum(dim), 1e-12) for x in (input1, input2)]
    cosine = product / (sizes[0] * sizes[1]).sqrt()
    nothing = zeros_like(cosine)
    near = empty_like(cosine).fill_(1).sub_(cosine)
    apart = minus(cosine, margin).clamp_min_(0)
    loss = near.where(target == 1, nothing) + apart.where(target == -1, nothing)
    return reduce_loss(loss, reduction)


cosine_embedding_loss = _cosine_embedding_loss.function


@composite(
    "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., float p=2., float eps=1e-06, "
    "bool swap=False, int reduction=1) -> Tensor",
    autocast="float32",
)
def _triplet_margin_loss(anchor: Any, positive: Any, negative: Any, margin: float, p: float, eps: float, swap: bool,
                         reduction: int) -> Any:  # fmt: skip
    ranks = [x._a.ndim for x in (anchor, positive, negative)]
    if len(set(ranks)) > 1:
        raise RuntimeError(
            f"The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {ranks[0]}D, positive {ranks[1]}D, and negative {ranks[2]}D inputs"
        )
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = far.minimum(pairwise_distance(positive, negative, p, eps))
    return reduce_loss((plus(near, margin) - far).clamp_min(0), reduction)


triplet_margin_loss = _triplet_margin_loss.function


def _soft_margin_calls(self: Any, target: Any, reduction: int) -> Any:
    return reduce_loss((-target).to(self.dtype).mul_(self).exp_().log1p_(), reduction)


_soft_margin_by_ops = by_ops(_soft_margin_calls)


def _soft_margin_array(x: Any, target: Any, reduction: int) -> Any:
    if not _as_one(x, target):
        return _soft_margin_by_ops(x, target, reduction)
    return reduced_array(log1p(exp(-target * x)), reduction)


def _soft_margin_gradient(g: Any, x: Any, target: Any, reduction: int) -> Any:
    return per_element(-target * (-target * x).sigmoid() * g, x._a.size, reduction)


soft_margin_loss = op(
    "soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    all_flops=flops.loss(4, 2),
    meta=shapes_network.loss(2),
    autocast="float32",
    layout=result_layout.as_first_unless_reduced,
    calls=_soft_margin_calls,
    self=lambda g, self, target, reduction: soft_margin_loss_backward(g, self, target, reduction),
)(_soft_margin_array).function

soft_margin_loss_backward = composite(
    "soft_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor"
)(_soft_margin_gradient).function
