"""Rows of losses against class indices: negative log likelihood, cross entropy, multi-class margins, CTC.

`reduction` is 0 (none), 1 (mean) or 2 (sum).
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ...core import tap
from ...core.errors import shape_text
from ...core.meta import meta
from ...core.tensor import FAST, Tensor, make
from ...dispatch.front import front
from ...kernels.checks import is_float, type_name
from ...kernels.compiled import C
from ...kernels.network import ctc, small
from ...kernels.network import loss as kernels
from ...kernels.totals import SMALL
from .. import composed, flops
from ..creation.fill import zeros, zeros_like
from ..indexing.mask import where
from ..linalg.products import graph_wanted
from ..meta import network as shapes_network
from ..meta import shapes
from ..pointwise.arithmetic import over, plus, times
from ..shape.view import unsqueeze
from .decorators import composite, op
from .loss import MEAN, NONE, SUM, reduce_loss
from .softmax import _log_softmax, log_softmax

# --- negative log likelihood ------------------------------------------------------------------------------------------

_FORWARD = "(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index) -> (Tensor output, Tensor total_weight)"
_BACKWARD = (
    "(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index, "
    "Tensor total_weight) -> Tensor"
)
_PUBLIC = "(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100) -> Tensor"


@op(
    "nll_loss_backward" + _BACKWARD,
    all_flops=flops.elements_of(2),
    meta=shapes.like_nth(1),
    out=False,
    grad_output=lambda g, target, weight, reduction, ignore_index: nll_loss(g, target, weight, reduction, ignore_index),
)
def _nll_loss_backward(g: Any, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int, total: Any) -> Any:
    put = small.nll_loss_small_backward(g, x, target, weight, reduction, ignore_index, total) if x.ndim == 2 else None
    if put is not None:
        return put
    if _plain(x, target, weight, ignore_index):
        try:
            return small.nll_loss_backward(g, x, target, reduction)
        except (IndexError, ValueError):
            pass
    return kernels.nll_loss_backward(g, x, target, weight, reduction, ignore_index, total)


def _plain(x: Any, target: Any, weight: Any, ignore_index: int) -> bool:
    """Whether the kernel for small inputs may be tried."""
    return (
        weight is None
        and ignore_index < 0
        and small.is_small(x)
        and x.ndim == 2
        and target.ndim == 1
        and target.size == x.shape[0]
        and target.dtype == np.int64
    )


@op(
    "nll_loss_forward" + _FORWARD,
    all_flops=flops.nll_loss,
    meta=shapes_network.nll_loss,
    out=False,
    quiet=False,
    node="NllLossBackward0",
    nondiff=(1,),
    self=lambda g, self, target, weight, reduction, ignore_index, result1: _nll_loss_backward.function(
        g, self, target, weight, reduction, ignore_index, result1
    ),
)
def _nll_loss_forward(x: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    selected = small.nll_loss_small(x, target, weight, reduction, ignore_index) if x.ndim == 2 else None
    if selected is not None:
        return selected
    if _plain(x, target, weight, ignore_index):
        try:
            return small.nll_loss(x, target, reduction)
        except IndexError:
            pass
    return kernels.nll_loss(x, target, weight, reduction, ignore_index)


def _unseen_loss(row: Any, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    """The loss alone, where nobody sees the operator that makes it and the total weight."""
    if type(self) in FAST and type(target) in FAST and not graph_wanted(self):
        weights = None if weight is None else weight._a
        selected = small.nll_loss_small(self._a, target._a, weights, reduction, ignore_index)
        if selected is not None:
            return make(selected[0])
    return row.function(self, target, weight, reduction, ignore_index)[0]


@composite("nll_loss" + _PUBLIC, autocast="float32")
def _nll_loss(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    return _nll_loss_forward.function(self, target, weight, reduction, ignore_index)[0]


nll_loss = _nll_loss.function


@op(
    "nll_loss2d_backward" + _BACKWARD,
    all_flops=flops.elements_of(2),
    meta=shapes.like_nth(1),
    out=False,
    grad_output=lambda g, target, weight, reduction, ignore_index: nll_loss2d(
        g, target, weight, reduction, ignore_index
    ),
)
def _nll_loss2d_backward(
    g: Any, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int, total: Any
) -> Any:
    put = small.nll_loss_small_backward(g, x, target, weight, reduction, ignore_index, total) if x.ndim == 4 else None
    return kernels.nll_loss2d_backward(g, x, target, weight, reduction, ignore_index, total) if put is None else put


@op(
    "nll_loss2d_forward" + _FORWARD,
    all_flops=flops.nll_loss,
    meta=shapes_network.nll_loss,
    out=False,
    node="NllLoss2DBackward0",
    nondiff=(1,),
    self=lambda g, self, target, weight, reduction, ignore_index, result1: _nll_loss2d_backward.function(
        g, self, target, weight, reduction, ignore_index, result1
    ),
)
def _nll_loss2d_forward(x: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    selected = small.nll_loss_small(x, target, weight, reduction, ignore_index) if x.ndim == 4 else None
    return kernels.nll_loss2d(x, target, weight, reduction, ignore_index) if selected is None else selected


@composite("nll_loss2d" + _PUBLIC, autocast="float32")
def _nll_loss2d(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    return _nll_loss2d_forward.function(self, target, weight, reduction, ignore_index)[0]


nll_loss2d = _nll_loss2d.function


@composite("nll_loss_nd" + _PUBLIC)
def _nll_loss_nd(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    x, t = self._a.shape, target._a.shape
    if len(x) == 0:
        raise ValueError(f"Expected 1 or more dimensions (got {len(x)})")
    if len(x) != 1 and x[:1] != t[:1]:
        raise ValueError(f"Expected input batch_size ({x[0]}) to match target batch_size ({t[0] if t else 1}).")
    if len(x) <= 2:
        if len(x) == 2 and not tap.NAMESPACE["HOOK"]:
            return _unseen_loss(_nll_loss_forward, self, target, weight, reduction, ignore_index)
        return nll_loss(self, target, weight, reduction, ignore_index)
    if len(x) == 4:
        if not tap.NAMESPACE["HOOK"]:
            return _unseen_loss(_nll_loss2d_forward, self, target, weight, reduction, ignore_index)
        return nll_loss2d(self, target, weight, reduction, ignore_index)
    shape = (x[0], *x[2:])
    if t[1:] != x[2:]:
        raise RuntimeError(f"Expected target size {shape_text(shape)}, got {shape_text(t)}")
    # All places in one row.
    flat, labels = self.contiguous(), target.contiguous()
    positions = math.prod(x[2:])
    result = nll_loss2d(
        flat.view((x[0], x[1], 1, positions)), labels.view((x[0], 1, positions)), weight, reduction, ignore_index
    )
    return result.view(shape) if reduction == NONE else result


nll_loss_nd = _nll_loss_nd.function


# --- cross entropy ----------------------------------------------------------------------------------------------------


def _per_class(weight: Any, ndim: int, dim: int) -> Any:
    return weight.view(tuple(-1 if d == dim else 1 for d in range(ndim)))


def _probabilities(self: Any, target: Any, weight: Any, reduction: int, smoothing: float, dim: int) -> Any:
    """Cross entropy where the target gives a probability for each class."""
    if not is_float(target._a.dtype):
        raise RuntimeError(
            f"Expected floating point type for target with class probabilities, got {type_name(target._a.dtype)}"
        )
    classes = self._a.shape[dim]
    if weight is not None and weight._a.shape != (classes,):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {classes} classes or no classes but got "
            f"weight tensor of shape: {shape_text(weight._a.shape)}"
        )
    scores = log_softmax(self, dim, self.dtype)
    if smoothing > 0:
        target = plus(times(target, 1 - smoothing), smoothing / classes)
    product = scores * target
    if weight is not None:
        product = product * _per_class(weight, self._a.ndim, dim)
    if reduction == NONE:
        return -product.sum(dim)
    loss = -product.sum()
    count = self._a.size // classes if classes else 0
    return loss if reduction == SUM else over(loss, count) if count else loss * math.nan


def _smoothed(self: Any, target: Any, weight: Any, reduction: int, ignored: int, smoothing: float, dim: int) -> Any:
    """Cross entropy where each class has a share of the target's probability."""
    if smoothing > 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {smoothing:g}")
    scores = log_softmax(self, dim, self.dtype)
    loss = nll_loss_nd(scores, target, weight, reduction, ignored)
    weighted = scores if weight is None else scores * _per_class(weight, self._a.ndim, dim)
    hidden = target == ignored
    even = (-weighted.sum(dim)).masked_fill_(hidden, 0.0)
    if reduction == MEAN:
        kept = hidden.bitwise_not()
        if weight is None:
            even = even.sum() / kept.sum()
        else:
            even = even.sum() / weight.gather(0, target.masked_select(kept).flatten()).sum()
    elif reduction == SUM:
        even = even.sum()
    share = times(even, smoothing / self._a.shape[dim])
    return times(loss, 1 - smoothing) + share


@composite(
    "cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100, "
    "float label_smoothing=0.) -> Tensor",
    autocast="float32",
)
def _cross_entropy_loss(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int,
                        label_smoothing: float) -> Any:  # fmt: skip
    a, labels = self._a, target._a
    if a.ndim == 2 and labels.ndim == 1 and len(a) == len(labels) and not label_smoothing and not tap.NAMESPACE["HOOK"]:
        # Nobody sees the operators in between.
        plain = C is None and a.size > SMALL and type(self) is type(target) is Tensor and weight is None
        if plain and not graph_wanted(self):
            loss = kernels.cross_entropy(a, labels, None, reduction, ignore_index)
            if loss is not None:
                return make(loss)
        scores = _log_softmax.function(self, 1, False)
        return _unseen_loss(_nll_loss_forward, scores, target, weight, reduction, ignore_index)
    if self._a.ndim == 0 and target._a.ndim == 0:
        raise RuntimeError(f"Expected 1 or more dimensions (got {self._a.ndim})")
    dim = 0 if self._a.ndim == 1 else 1
    if self._a.shape == target._a.shape:
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _probabilities(self, target, weight, reduction, label_smoothing, dim)
    if label_smoothing > 0:
        return _smoothed(self, target, weight, reduction, ignore_index, label_smoothing, dim)
    unseen = is_float(a.dtype) and not tap.NAMESPACE["HOOK"]
    scores = _log_softmax.function(self, dim, False) if unseen else log_softmax(self, dim, self.dtype)
    return nll_loss_nd(scores, target, weight, reduction, ignore_index)


cross_entropy_loss = _cross_entropy_loss.function


# --- margins ----------------------------------------------------------------------------------------------------------


@op(
    "multi_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, Scalar p, Scalar margin, "
    "Tensor? weight=None, int reduction=1) -> Tensor",
    all_flops=flops.elements_of(1, 3),
    meta=shapes.like_nth(1),
    out=False,
)
def _multi_margin_loss_backward(g: Any, x: Any, target: Any, p: Any, margin: Any, weight: Any, reduction: int) -> Any:
    return kernels.multi_margin_loss_backward(g, x, target, p, margin, weight, reduction)


def _multi_margin_composed(x: Any, target: Any, p: Any, margin: Any, weight: Any, reduction: int) -> Any:
    rows = x if x._a.ndim == 2 else unsqueeze(x, 0)
    labels = target.view((-1, 1))
    others = zeros_like(rows).scatter(1, labels, 1.0) == 0
    gaps = (margin - rows.gather(1, labels) + rows).clamp(min=0) * others
    loss = gaps.pow(p).sum(1) / rows._a.shape[1]
    if weight is not None:
        loss = loss * weight.gather(0, labels.view((-1,)))
    return reduce_loss(loss if x._a.ndim == 2 else loss.view(()), reduction)


def _multi_margin_gradient(g: Any, x: Any, target: Any, p: Any, margin: Any, weight: Any, reduction: int) -> Any:
    if not composed.wanted():
        return _multi_margin_loss_backward.function(g, x, target, p, margin, weight, reduction)
    return composed.gradients(
        lambda a: _multi_margin_composed(a, target, p, margin, weight, reduction), (x,), g, (True,)
    )[0]


@op(
    "multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=1) "
    "-> Tensor",
    all_flops=flops.each(4, 1),
    meta=shapes.result_rule(
        lambda a, t, p, margin, weight, reduction: meta(t.shape if reduction == 0 else (), a.dtype)
    ),
    autocast="float32",
    self=lambda g, self, target, p, margin, weight, reduction: _multi_margin_gradient(
        g, self, target, p, margin, weight, reduction
    ),
)
def _multi_margin_loss(x: Any, target: Any, p: Any, margin: Any, weight: Any, reduction: int) -> Any:
    return kernels.multi_margin_loss(x, target, p, margin, weight, reduction)


multi_margin_loss = _multi_margin_loss.function


@op(
    "multilabel_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, "
    "Tensor is_target) -> Tensor",
    meta=shapes.like_nth(1),
    out=False,
    # The loss is piecewise linear: its slopes are what a gradient of ones gives.
    grad_output=lambda g, grad_output, self, target, reduction, is_target: _over_slopes(
        g, grad_output, self, target, reduction, is_target
    ),
)
def _multilabel_margin_loss_backward(g: Any, x: Any, target: Any, reduction: int, is_target: Any) -> Any:
    return kernels.multilabel_margin_loss_backward(g, x, target, reduction, is_target)


def _over_slopes(g: Any, given: Any, x: Any, target: Any, reduction: int, is_target: Any) -> Any:
    ones = given.new_ones(given._a.shape)
    product = g * _multilabel_margin_loss_backward.function(ones, x.detach(), target, reduction, is_target)
    return product.sum(-1) if given._a.ndim else product.sum()


@op(
    "multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor output, Tensor is_target)",
    meta=shapes_network.multilabel_margin_loss,
    out=False,
    node="MultilabelMarginLossBackward0",
    nondiff=(1,),
    self=lambda g, self, target, reduction, result1: _multilabel_margin_loss_backward.function(
        g, self, target, reduction, result1
    ),
)
def _multilabel_margin_loss_forward(x: Any, target: Any, reduction: int) -> Any:
    return kernels.multilabel_margin_loss(x, target, reduction)


@composite("multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", autocast="float32")
def _multilabel_margin_loss(self: Any, target: Any, reduction: int) -> Any:
    return _multilabel_margin_loss_forward.function(self, target, reduction)[0]


multilabel_margin_loss = _multilabel_margin_loss.function


# --- connectionist temporal classification ----------------------------------------------------------------------------


def _lengths(lengths: Any) -> list[int]:
    values = lengths._a.reshape(-1).tolist() if isinstance(lengths, Tensor) else lengths
    return [operator.index(n) for n in values]


@op(
    "_ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, "
    "Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity=False) -> Tensor",
    meta=shapes.like_nth(1),
    out=False,
)
def _ctc_loss_backward(g: Any, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, loss: Any,
                       log_alpha: Any, blank: int, zero_infinity: bool) -> Any:  # fmt: skip
    return ctc.ctc_loss_backward(
        g, log_probs, targets, input_lengths, target_lengths, loss, log_alpha, blank, zero_infinity
    )


def _ctc_gradient(*args: Any) -> Any:
    if composed.wanted():
        raise NotImplementedError("the derivative for '_ctc_loss_backward' is not implemented.")
    return _ctc_loss_backward.function(*args)


@op(
    "_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, "
    "bool zero_infinity=False) -> (Tensor, Tensor)",
    meta=shapes_network.ctc_loss,
    out=False,
    nondiff=(1,),
    log_probs=lambda g, log_probs, targets, input_lengths, target_lengths, result0, result1, blank, zero_infinity: (
        _ctc_gradient(g, log_probs, targets, input_lengths, target_lengths, result0, result1, blank, zero_infinity)
    ),
)
def _ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int,
              zero_infinity: bool) -> Any:  # fmt: skip
    return ctc.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank)


def _ctc(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int, reduction: int,
         zero_infinity: bool) -> Any:  # fmt: skip
    batched = log_probs._a.ndim == 3
    if not batched:
        log_probs = unsqueeze(log_probs, 1)
    inputs, goals = _lengths(input_lengths), _lengths(target_lengths)
    loss = _ctc_loss.function(log_probs, targets, inputs, goals, blank, zero_infinity)[0]
    if zero_infinity:
        loss = where(loss == math.inf, zeros((), dtype=loss.dtype), loss)
    if reduction == MEAN:
        return (loss / make(np.maximum(np.asarray(goals), 1)).to(loss.dtype)).mean()
    loss = reduce_loss(loss, reduction)
    return loss.squeeze(0) if reduction == NONE and not batched else loss


_CTC = "int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor"
_ctc_lists = composite(
    f"ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, {_CTC}",
    autocast="float32",
)(_ctc).function
_ctc_tensors = composite(
    f"ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, {_CTC}",
    autocast="float32",
)(_ctc).function


@front("ctc_loss")
def ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 1,
             zero_infinity: bool = False) -> Any:  # fmt: skip
    """Connectionist temporal classification loss; lengths are tensors or sequences of ints."""
    both = isinstance(input_lengths, Tensor) and isinstance(target_lengths, Tensor)
    if not both:
        input_lengths, target_lengths = _lengths(input_lengths), _lengths(target_lengths)
    row = _ctc_tensors if both else _ctc_lists
    return row(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)
