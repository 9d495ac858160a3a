"""Losses with torch's signatures: reductions by name, and the older `size_average` and `reduce`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd.grad_mode import is_grad_enabled, no_grad
from ...core import tap
from ...core.tensor import Tensor
from ...dispatch.inside import inside
from ...ops.creation.fill import ones_like
from ...ops.network import glu, margin_loss
from ...ops.network import loss as rows
from ...ops.network import nll_loss as class_loss
from ...ops.network.distance import pairwise_distance
from ...ops.network.linear import linear
from ...ops.shape.view import _broadcast_tensors, broadcast_tensors
from .. import _reduction

_NONE = 0


def _number(reduction: str, size_average: bool | None, reduce: bool | None) -> int:
    """What loss operators take for a reduction."""
    if size_average is not None or reduce is not None:
        return _reduction.legacy_get_enum(size_average, reduce)
    return _reduction.get_enum(reduction)


def _name(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    if size_average is not None or reduce is not None:
        return _reduction.legacy_get_string(size_average, reduce)
    return reduction


def _reduced(loss: Any, reduction: str, total: Any = None) -> Any:
    """A weighted loss, reduced; its mean is over `total` where that is given."""
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    if reduction == "mean":
        return loss.mean() if total is None else loss.sum() / total
    raise ValueError(f"Invalid reduction mode: {reduction}. Expected one of 'none', 'mean', 'sum'.")


def _constant(function: str, argument: str, given: Any) -> None:
    """Refuse to differentiate by an argument that has no gradient."""
    if given is not None and given.requires_grad and is_grad_enabled():
        raise RuntimeError(
            f"The function '{function}' is not differentiable with respect to argument '{argument}'. This input cannot "
            "have requires_grad True."
        )


# --- element by element -----------------------------------------------------------------------------------------------


def _same_size(input: Any, target: Any) -> tuple[Any, Any]:
    """Input and target in one shape; a warning where that takes broadcasting."""
    if target._a.shape != input._a.shape:
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )
    elif not tap.NAMESPACE["HOOK"]:
        return input, target
    else:
        alike: tuple[Any, Any] = _broadcast_alike((input, target))
        return alike
    return broadcast_tensors(input, target)


# Of tensors that have one shape already.
_broadcast_alike = inside(_broadcast_tensors, lambda tensors: tensors)


def _check_weight(weight: Any, input: Any) -> None:
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")


def mse_loss(input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
             reduction: str = "mean", weight: Any = None) -> Any:  # fmt: skip
    """The squared difference."""
    reduction = _name(reduction, size_average, reduce)
    expanded_input, expanded_target = _same_size(input, target)
    if weight is None:
        return rows.mse_loss(expanded_input, expanded_target, _reduction.get_enum(reduction))
    _check_weight(weight, input)
    loss = (expanded_input - expanded_target).pow(2) * weight
    return loss.sum() / weight.sum() if reduction == "mean" else _reduced(loss, reduction)


def l1_loss(input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
            reduction: str = "mean", weight: Any = None) -> Any:  # fmt: skip
    """The absolute difference."""
    reduction = _name(reduction, size_average, reduce)
    expanded_input, expanded_target = _same_size(input, target)
    if weight is None:
        return rows.l1_loss(expanded_input, expanded_target, _reduction.get_enum(reduction))
    _check_weight(weight, input)
    loss = (expanded_input - expanded_target).abs() * weight
    return loss.sum() / weight.sum() if reduction == "mean" else _reduced(loss, reduction)


def smooth_l1_loss(input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
                   reduction: str = "mean", beta: float = 1.0) -> Any:  # fmt: skip
    """Squared below `beta`, absolute above."""
    number = _number(reduction, size_average, reduce)
    expanded_input, expanded_target = _same_size(input, target)
    if beta == 0.0:
        return rows.l1_loss(expanded_input, expanded_target, number)
    return rows.smooth_l1_loss(expanded_input, expanded_target, number, beta)


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Any:
    """Squared below `delta`, absolute times `delta` above."""
    expanded_input, expanded_target = _same_size(input, target)
    if weight is None:
        return rows.huber_loss(expanded_input, expanded_target, _reduction.get_enum(reduction), delta)
    _check_weight(weight, input)
    return _reduced(rows.huber_loss(expanded_input, expanded_target, _NONE, delta) * weight, reduction)


def kl_div(input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
           reduction: str = "mean", log_target: bool = False) -> Any:  # fmt: skip
    """The Kullback-Leibler divergence; the input holds log-probabilities."""
    reduction = _name(reduction, size_average, reduce)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' divides "
            "only by the batch size, and aligns with the KL div math definition. 'mean' will be changed to behave the "
            "same as 'batchmean' in the next major release.",
            stacklevel=2,
        )
    number = _reduction.get_enum("sum" if reduction == "batchmean" else reduction)
    loss = rows.kl_div(input, target, number, log_target=log_target)
    return loss / input.size()[0] if reduction == "batchmean" and input.dim() != 0 else loss


def binary_cross_entropy(input: Any, target: Any, weight: Any = None, size_average: bool | None = None,
                         reduce: bool | None = None, reduction: str = "mean") -> Any:  # fmt: skip
    """Cross entropy of probabilities."""
    number = _number(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is "
            "deprecated. Please ensure they have the same size."
        )
    if weight is not None:
        weight = weight.expand(np.broadcast_shapes(target._a.shape, weight._a.shape))
        _constant("binary_cross_entropy", "weight", weight)
    return rows.binary_cross_entropy(input, target, weight, number)


def binary_cross_entropy_with_logits(input: Any, target: Any, weight: Any = None, size_average: bool | None = None,
                                     reduce: bool | None = None, reduction: str = "mean",
                                     pos_weight: Any = None) -> Any:  # fmt: skip
    """Cross entropy of the sigmoid of logits."""
    number = _number(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    _constant("binary_cross_entropy_with_logits", "weight", weight)
    _constant("binary_cross_entropy_with_logits", "pos_weight", pos_weight)
    return rows.binary_cross_entropy_with_logits(input, target, weight, pos_weight, number)


def poisson_nll_loss(input: Any, target: Any, log_input: bool = True, full: bool = False,
                     size_average: bool | None = None, eps: float = 1e-8, reduce: bool | None = None,
                     reduction: str = "mean") -> Any:  # fmt: skip
    """Negative log likelihood of counts under a Poisson distribution."""
    number = _number(reduction, size_average, reduce)
    return rows.poisson_nll_loss(input, target, log_input, full, eps, number)


def gaussian_nll_loss(input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6,
                      reduction: str = "mean") -> Any:  # fmt: skip
    """Negative log likelihood under a normal distribution."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * ones_like(input)
    elif (var < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif input.ndim != var.ndim or [n for m, n in zip(input.size(), var.size()) if m != n] != [1]:
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    floored = var.clone()
    with no_grad():
        floored.clamp_(min=eps)
    loss = 0.5 * (floored.log() + (input - target) ** 2 / floored)
    if full:
        loss += 0.5 * math.log(2 * math.pi)
    return _reduced(loss, reduction)


# --- against class indices --------------------------------------------------------------------------------------------


def nll_loss(input: Any, target: Any, weight: Any = None, size_average: bool | None = None, ignore_index: int = -100,
             reduce: bool | None = None, reduction: str = "mean") -> Any:  # fmt: skip
    """Negative log likelihood; the input holds log-probabilities."""
    _constant("nll_loss_forward", "weight", weight)
    return class_loss.nll_loss_nd(input, target, weight, _number(reduction, size_average, reduce), ignore_index)


def cross_entropy(input: Any, target: Any, weight: Any = None, size_average: bool | None = None,
                  ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> Any:  # fmt: skip
    """Cross entropy of the softmax of logits, with class indices or class probabilities."""
    if weight is not None and input._a.shape != target._a.shape:
        _constant("nll_loss_forward", "weight", weight)
    number = _number(reduction, size_average, reduce)
    return class_loss.cross_entropy_loss(input, target, weight, number, ignore_index, label_smoothing)


def linear_cross_entropy(input: Any, linear_weight: Any, target: Any, *, linear_bias: Any = None, weight: Any = None,
                         reduction: str = "mean", ignore_index: int | None = None, label_smoothing: float = 0.0,
                         options: Any = None) -> Any:  # fmt: skip
    """Cross entropy of a linear layer's outputs. `options` would save memory by chunks; the result is the same."""
    _check_linear(input, linear_weight, linear_bias)
    samples, features = input.shape[:-1], input.shape[-1]
    classes, *space = linear_weight.shape[:-1]
    shape = (*samples, classes, *space)
    if tuple(target.shape) == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    if space:
        linear_weight = linear_weight.reshape((math.prod(space) * classes, features))
        linear_bias = None if linear_bias is None else linear_bias.reshape(math.prod(space) * classes)
    logits = linear(input, linear_weight, linear_bias).reshape(shape)
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )


def _check_linear(input: Any, weight: Any, bias: Any) -> None:
    if not 1 <= input.dim() <= 2:
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {weight.dim()}")
    if input.shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {weight.shape[-1]}, respectively"
        )
    if bias is not None and tuple(bias.shape) != tuple(weight.shape[:-1]):
        raise RuntimeError(f"expected linear_bias shape {tuple(weight.shape[:-1])}, got {tuple(bias.shape)}")
    if weight.dim() > 2 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(weight.shape)} requires batched input, "
            f"(N, {input.shape[-1]}), got unbatched input with shape {tuple(input.shape)}"
        )


def multi_margin_loss(input: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None,
                      size_average: bool | None = None, reduce: bool | None = None,
                      reduction: str = "mean") -> Any:  # fmt: skip
    """How far other classes come within a margin of the right one."""
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    _constant("multi_margin_loss", "weight", weight)
    return class_loss.multi_margin_loss(input, target, p, margin, weight, _number(reduction, size_average, reduce))


def multilabel_margin_loss(input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
                           reduction: str = "mean") -> Any:  # fmt: skip
    """How far other classes come within a margin of any of the right ones."""
    return class_loss.multilabel_margin_loss(input, target, _number(reduction, size_average, reduce))


def multilabel_soft_margin_loss(input: Any, target: Any, weight: Any = None, size_average: bool | None = None,
                                reduce: bool | None = None, reduction: str = "mean") -> Any:  # fmt: skip
    """Cross entropy of each label's sigmoid, averaged over the labels."""
    reduction = _name(reduction, size_average, reduce)
    log_sigmoid = glu.log_sigmoid.function
    loss = -(target * log_sigmoid(input) + (1 - target) * log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    dim = input.dim() - 1
    loss = loss.sum(dim) / input.size(dim)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    return _reduced(loss, reduction)


def ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0,
             reduction: str = "mean", zero_infinity: bool = False) -> Any:  # fmt: skip
    """Connectionist temporal classification."""
    number = _reduction.get_enum(reduction)
    return class_loss.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, number, zero_infinity)


# --- margins of similarity --------------------------------------------------------------------------------------------


def soft_margin_loss(input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
                     reduction: str = "mean") -> Any:  # fmt: skip
    """log(1 + exp(-target * input))."""
    _constant("soft_margin_loss", "target", target)
    return margin_loss.soft_margin_loss(input, target, _number(reduction, size_average, reduce))


def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, size_average: bool | None = None,
                         reduce: bool | None = None, reduction: str = "mean") -> Any:  # fmt: skip
    """A distance where the target is 1, what it lacks of a margin where it is -1."""
    return margin_loss.hinge_embedding_loss(input, target, margin, _number(reduction, size_average, reduce))


def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0, size_average: bool | None = None,
                        reduce: bool | None = None, reduction: str = "mean") -> Any:  # fmt: skip
    """What the first input lacks of exceeding the second (or the other way round) by a margin."""
    number = _number(reduction, size_average, reduce)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return margin_loss.margin_ranking_loss(input1, input2, target, margin, number)


def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float = 0, size_average: bool | None = None,
                          reduce: bool | None = None, reduction: str = "mean") -> Any:  # fmt: skip
    """How dissimilar vectors are that should be similar, and the other way round."""
    return margin_loss.cosine_embedding_loss(input1, input2, target, margin, _number(reduction, size_average, reduce))


def triplet_margin_loss(anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
                        swap: bool = False, size_average: bool | None = None, reduce: bool | None = None,
                        reduction: str = "mean") -> Any:  # fmt: skip
    """How much farther the positive is from the anchor than the negative, plus a margin."""
    number = _number(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return margin_loss.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, number)


def triplet_margin_with_distance_loss(anchor: Any, positive: Any, negative: Any, *,
                                      distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
                                      margin: float = 1.0, swap: bool = False, reduction: str = "mean") -> Any:  # fmt: skip
    """`triplet_margin_loss` with any distance."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance: Any = pairwise_distance if distance_function is None else distance_function
    ranks = (anchor.ndim, positive.ndim, negative.ndim)
    if len(set(ranks)) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {ranks[0]}D, positive {ranks[1]}D, and negative {ranks[2]}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return _reduced((margin + near - far).clamp_min(0), reduction)
