"""Rows of losses that compare element by element, or vectors with each other: squared, absolute, cross entropy of
probabilities, divergences. Losses against class indices are in `nll_loss`, those with margins in `margin_loss`.

`reduction` is 0 (none), 1 (mean) or 2 (sum).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...core.dtype import FROM_NUMPY, combine
from ...core.errors import broadcast_error, shape_text
from ...core.meta import meta
from ...core.tensor import make
from ...dispatch.inside import by_ops, inside
from ...kernels import result_layout
from ...kernels.checks import not_implemented, type_name
from ...kernels.compiled import C, order_of, stand_in
from ...kernels.floating import quiet
from ...kernels.passes import FLOATS, at_least, number
from ...kernels.pointwise import activation
from ...kernels.pointwise.arithmetic import clamp
from ...kernels.pointwise.smooth import bent, log1p
from ...kernels.precision import is_half
from .. import composed, flops
from ..creation.fill import empty_like, zeros_like
from ..meta import network as shapes_network
from ..meta import shapes
from ..pointwise.arithmetic import plus, times
from ..reduction.reduce import _mean, _sum
from .decorators import composite, op
from .glu import log_sigmoid

NONE, MEAN, SUM = 0, 1, 2
_average: Any = _mean.kernel
_total: Any = _sum.kernel
_add, _subtract, _multiply, _negative = (stand_in(f) for f in (np.add, np.subtract, np.multiply, np.negative))


def reduce_loss(loss: Any, reduction: int) -> Any:
    """The loss of each element, or their mean or sum."""
    return loss.mean() if reduction == MEAN else loss.sum() if reduction == SUM else loss


_mean_inside, _sum_inside = inside(_mean), inside(_sum)


def _reduced_inside(loss: Any, reduction: int) -> Any:
    """The same in the body of a recorded loss."""
    if reduction == MEAN:
        return _mean_inside(loss, None)
    return _sum_inside(loss, None) if reduction == SUM else loss


def per_element(g: Any, count: int, reduction: int) -> Any:
    """The gradient of each element's loss from the gradient of the reduced one."""
    return g / count if reduction == MEAN else g


def reduced_array(loss: Any, reduction: int) -> Any:
    """`reduce_loss` of an array, by the kernels of those ops: recorded, they run themselves."""
    loss = np.asarray(loss)
    if reduction != MEAN and reduction != SUM:
        return loss
    return np.asarray((_average if reduction == MEAN else _total)(loss, None))


def _are_alike(arrays: tuple[Any, ...]) -> bool:
    """Whether arrays (some of which may be None) are of one shape, and all of single or all of double precision."""
    first = arrays[0]
    if first.dtype not in FLOATS:
        return False
    for a in arrays:  # noqa: SIM110 - a generator would take longer than the rest
        if a is not None and (a.dtype is not first.dtype or a.shape != first.shape):
            return False
    return True


def _as_one(x: Any, target: Any, *weights: Any) -> bool:
    """Whether a loss that is made of ops can be found in one go: none of them would round or promote, and the first two
    arrays, in whose places the ops write, lie alike."""
    alike = _are_alike((x, target)) and x.strides == target.strides
    return alike and all(w is None or w.dtype is x.dtype for w in weights)


def promoted(*arrays: Any) -> tuple[list[Any], Any]:
    """Arrays in the type they are computed in (float32 for 16-bit floats), and the type of the result."""
    if _are_alike(arrays):
        return list(arrays), arrays[0].dtype
    for a in arrays[1:]:
        if a is not None and a.shape != arrays[0].shape:
            check_broadcast(arrays[0].shape, a.shape)
    result = combine([(2 if a.ndim else 1, FROM_NUMPY[a.dtype]) for a in arrays if a is not None]).np
    wide = np.dtype(np.float32) if is_half(result) else result
    return [None if a is None else a.astype(wide, copy=False) for a in arrays], result


def check_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        raise broadcast_error(a, b) from None


# --- functions of a difference ----------------------------------------------------------------------------------------


class Curve(NamedTuple):
    """A loss as a function of input minus target, with one number that shapes it: value and slope of arrays, and of
    tensors the slope and its own slope."""

    name: str
    value: Callable[[Any, float], Any]
    slope: Callable[[Any, float], Any]
    tensor_slope: Callable[[Any, float], Any]
    curvature: Callable[[Any, float], Any]


SQUARE = Curve(
    "mse_cpu",
    value=lambda d, _: np.square(d),
    slope=lambda d, _: d * 2,
    tensor_slope=lambda d, _: d * 2,
    curvature=lambda d, _: 2,
)
SMOOTH = Curve(
    "smooth_l1_cpu",
    value=lambda d, beta: (bent(d, beta) / d.dtype.type(beta) if beta != 1 else bent(d, beta)) if beta else np.abs(d),
    slope=lambda d, beta: clamp(d / beta if beta != 1 else d, -1, 1) if beta else np.sign(d),
    tensor_slope=lambda d, beta: (d / beta).clamp(-1, 1) if beta else d.sign(),
    curvature=lambda d, beta: (d.abs() < beta) / beta if beta else 0,
)
HUBER = Curve(
    "huber_cpu",
    value=lambda d, delta: bent(d, delta),
    slope=lambda d, delta: clamp(d, -delta, delta),
    tensor_slope=lambda d, delta: d.clamp(-delta, delta),
    curvature=lambda d, delta: d.abs() < delta,
)


def _difference(x: Any, target: Any) -> tuple[Any, Any]:
    (x, target), result = promoted(x, target)
    return np.subtract(x, target), result


def _value(curve: Curve, x: Any, target: Any, reduction: int, number: float = 0.0) -> Any:
    (x, target), result = promoted(x, target)
    if result.kind in "biuc":
        raise not_implemented(curve.name, result)
    return reduced_array(curve.value(np.subtract(x, target), number).astype(result, copy=False), reduction)


def _value_calls(curve: Curve, x: Any, target: Any, reduction: int, number: float = 0.0) -> Any:
    """The same with the reduction as an op of its own."""
    return _reduced_inside(make(_value(curve, x._a, target._a, NONE, number)), reduction)


def _slope(curve: Curve, g: Any, x: Any, target: Any, reduction: int, number: float = 0.0) -> Any:
    d, result = _difference(x, target)
    factor = g.astype(d.dtype, copy=False)
    if reduction == MEAN:
        factor = factor / d.dtype.type(d.size)
    return (curve.slope(d, number) * factor).astype(result, copy=False)


def _by_gradient(curve: Curve, g: Any, x: Any, target: Any, reduction: int, number: float = 0.0) -> Any:
    """Gradient of `_slope` by the gradient it was given."""
    return reduce_loss(g * curve.tensor_slope(x - target, number), reduction)


def _by_input(curve: Curve, g: Any, given: Any, x: Any, target: Any, reduction: int, number: float = 0.0) -> Any:
    """Gradient of `_slope` by the input; by the target it is minus that."""
    return per_element(g * given * curve.curvature(x - target, number), x._a.size, reduction)


def _square_slope(g: Any, x: Any, target: Any, reduction: int) -> Any:
    """The slope in the type and the order of the input."""
    if x.dtype.kind in "biu":
        raise not_implemented("mse_backward_cpu", x.dtype)
    made = _slope(SQUARE, g, x, target, reduction)
    if made.shape != x.shape:
        raise RuntimeError(
            f"output with shape {shape_text(x.shape)} doesn't match the broadcast shape {shape_text(made.shape)}"
        )
    if made.dtype is x.dtype and made.strides == x.strides:
        return made
    laid_out = np.empty_like(x, order=order_of(x))
    laid_out[...] = made
    return laid_out


@composite(
    "mse_loss_backward.grad_input(Tensor grad_output, Tensor self, Tensor target, int reduction, *, "
    "Tensor(a!) grad_input) -> Tensor(a!)",
    all_flops=flops.each(3, 2, 1),
)
def _mse_loss_backward_into(grad_output: Any, self: Any, target: Any, reduction: int, grad_input: Any) -> Any:
    grad_input._a[...] = _square_slope(grad_output._a, self._a, target._a, reduction)
    return grad_input


_mse_loss_backward = op(
    "mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
    meta=shapes.result_rule(lambda g, a, target, reduction: meta(shapes.broadcast(a.shape, target.shape), a.dtype)),
    out=False,
    calls=lambda grad_output, self, target, reduction: _mse_loss_backward_into.function(
        grad_output, self, target, reduction, grad_input=zeros_like(self)
    ),
    grad_output=lambda g, self, target, reduction: _by_gradient(SQUARE, g, self, target, reduction),
    self=lambda g, grad_output, self, target, reduction: _by_input(SQUARE, g, grad_output, self, target, reduction),
    target=lambda g, grad_output, self, target, reduction: -_by_input(SQUARE, g, grad_output, self, target, reduction),
)(_square_slope)
mse_loss_backward = _mse_loss_backward.function

mse_loss = op(
    "mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    all_flops=flops.loss(2, 2),
    meta=shapes_network.loss(2),
    autocast="float32",
    layout=result_layout.elementwise,
    calls=lambda self, target, reduction: _value_calls(SQUARE, self, target, reduction),
    self=lambda g, self, target, reduction: mse_loss_backward(g, self, target, reduction),
    target=lambda g, self, target, reduction: mse_loss_backward(g, target, self, reduction),
)(lambda x, target, reduction: _value(SQUARE, x, target, reduction)).function

smooth_l1_loss_backward = op(
    "smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float beta) -> Tensor",
    all_flops=flops.each(4, 2, 1),
    meta=shapes.like_nth(1),
    out=False,
    grad_output=lambda g, self, target, reduction, beta: _by_gradient(SMOOTH, g, self, target, reduction, beta),
    self=lambda g, grad_output, self, target, reduction, beta: _by_input(
        SMOOTH, g, grad_output, self, target, reduction, beta
    ),
    target=lambda g, grad_output, self, target, reduction, beta: (
        -_by_input(SMOOTH, g, grad_output, self, target, reduction, beta)
    ),
)(lambda g, x, target, reduction, beta: _slope(SMOOTH, g, x, target, reduction, beta)).function


def _smooth_calls(self: Any, target: Any, reduction: int, beta: float) -> Any:
    if not beta > 0:
        if beta != 0:
            raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
        return l1_loss(self, target, reduction)
    return _value_calls(SMOOTH, self, target, reduction, beta)


def _smooth_array(x: Any, target: Any, reduction: int, beta: float) -> Any:
    if not beta >= 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    return _value(SMOOTH, x, target, reduction, beta)


smooth_l1_loss = op(
    "smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.0) -> Tensor",
    all_flops=flops.loss(6, 2),
    meta=shapes_network.loss(2),
    autocast="float32",
    layout=result_layout.elementwise,
    calls=_smooth_calls,
    self=lambda g, self, target, reduction, beta: smooth_l1_loss_backward(g, self, target, reduction, beta),
    target=lambda g, self, target, reduction, beta: smooth_l1_loss_backward(g, target, self, reduction, beta),
)(_smooth_array).function

huber_loss_backward = op(
    "huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float delta) -> Tensor",
    all_flops=flops.each(3, 2, 1),
    meta=shapes.like_nth(1),
    out=False,
    grad_output=lambda g, self, target, reduction, delta: _by_gradient(HUBER, g, self, target, reduction, delta),
    self=lambda g, grad_output, self, target, reduction, delta: _by_input(
        HUBER, g, grad_output, self, target, reduction, delta
    ),
    target=lambda g, grad_output, self, target, reduction, delta: (
        -_by_input(HUBER, g, grad_output, self, target, reduction, delta)
    ),
)(lambda g, x, target, reduction, delta: _slope(HUBER, g, x, target, reduction, delta)).function


def _huber_array(x: Any, target: Any, reduction: int, delta: float) -> Any:
    if not delta > 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    return _value(HUBER, x, target, reduction, delta)


huber_loss = op(
    "huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.0) -> Tensor",
    all_flops=flops.loss(5, 2),
    meta=shapes_network.loss(2),
    autocast="float32",
    layout=result_layout.as_first_unless_reduced,
    calls=lambda self, target, reduction, delta: _reduced_inside(
        make(_huber_array(self._a, target._a, NONE, delta)), reduction
    ),
    self=lambda g, self, target, reduction, delta: huber_loss_backward(g, self, target, reduction, delta),
    target=lambda g, self, target, reduction, delta: huber_loss_backward(g, target, self, reduction, delta),
)(_huber_array).function


@composite("l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", autocast="float32")
def _l1_loss(self: Any, target: Any, reduction: int) -> Any:
    return reduce_loss((self - target).abs(), reduction)


l1_loss = _l1_loss.function


# --- probabilities ----------------------------------------------------------------------------------------------------


@composite(
    "kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor", autocast="float32"
)
def _kl_div(self: Any, target: Any, reduction: int, log_target: bool) -> Any:
    if log_target:
        return reduce_loss((target - self) * target.exp(), reduction)
    product = target * self
    return reduce_loss(target.xlogy(target) - product, reduction)


kl_div = _kl_div.function

SMALLEST_LOG = -100  # what a logarithm of 0 counts as
SMALLEST_SLOPE = 1e-12


def _are_probabilities(x: Any) -> bool:
    if x.size > 4096:
        return bool(x.min() >= 0 and x.max() <= 1)
    flat = x.reshape(-1)  # of nan these are the places, where there is one
    return bool(flat[flat.argmin()] >= 0 and flat[flat.argmax()] <= 1)


def _cross_entropy_array(x: Any, target: Any, weight: Any, reduction: int) -> Any:
    for other in (target, weight):
        if other is not None and other.dtype != x.dtype:
            raise RuntimeError(f"Found dtype {type_name(other.dtype)} but expected {type_name(x.dtype)}")
    few = None if C is None else C.binary_losses(x, target)
    if few is not None:
        return reduced_array(few if weight is None else few * weight, reduction)
    (x, target, weight), result = promoted(x, target, weight)
    if x.size and not _are_probabilities(x):
        raise RuntimeError("all elements of input should be between 0 and 1")
    with quiet():
        right, wrong = at_least(np.log(x), SMALLEST_LOG), at_least(log1p(_negative(x)), SMALLEST_LOG)
    loss = _subtract(_multiply(_subtract(target, number(1, target.dtype)), wrong), _multiply(target, right))
    if weight is not None:
        loss = loss * weight
    return reduced_array(loss.astype(result, copy=False), reduction)


def _cross_entropy_slope(g: Any, x: Any, target: Any, weight: Any, reduction: int) -> Any:
    if C is not None and weight is None and g.ndim == 0 and g.dtype is x.dtype:
        made = C.binary_slope(x, target, float(g), SMALLEST_SLOPE, x.size if reduction == MEAN else 1, None)
        if made is not None:
            return made
    (g, x, target, weight), result = promoted(g, x, target, weight)
    slope = g * (x - target) / np.maximum((1 - x) * x, SMALLEST_SLOPE)
    if weight is not None:
        slope = slope * weight
    if reduction == MEAN:
        slope = slope / slope.dtype.type(x.size)
    return slope.astype(result, copy=False)


def weighted(loss: Any, weight: Any) -> Any:
    return loss if weight is None else loss * weight


def _spread_of(x: Any) -> Any:
    return ((1 - x) * x).clamp(min=SMALLEST_SLOPE)


def _probability_slope(g: Any, x: Any, target: Any, weight: Any, reduction: int) -> Any:
    return reduce_loss(weighted(g * (x - target) / _spread_of(x), weight), reduction)


def _probability_curve(g: Any, given: Any, x: Any, target: Any, weight: Any, reduction: int) -> Any:
    spread = _spread_of(x)
    curve = (x * x - 2 * x * target + target) / (spread * spread)
    return per_element(weighted(g * given * curve, weight), x._a.size, reduction)


def _probability_target(g: Any, given: Any, x: Any, weight: Any, reduction: int) -> Any:
    return per_element(weighted(-g * given / _spread_of(x), weight), x._a.size, reduction)


binary_cross_entropy_backward = op(
    "binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, "
    "int reduction=1) -> Tensor",
    all_flops=flops.each(6, 2, 1),
    meta=shapes.like_nth(1),
    out=False,
    grad_output=lambda g, self, target, weight, reduction: _probability_slope(g, self, target, weight, reduction),
    self=lambda g, grad_output, self, target, weight, reduction: _probability_curve(
        g, grad_output, self, target, weight, reduction
    ),
    target=lambda g, grad_output, self, weight, reduction: _probability_target(g, grad_output, self, weight, reduction),
)(_cross_entropy_slope).function

binary_cross_entropy = op(
    "binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
    all_flops=flops.loss(9, 3, weight=2),
    meta=shapes_network.loss(3),
    autocast="float32",
    layout=result_layout.as_first_unless_reduced,
    calls=lambda self, target, weight, reduction: _reduced_inside(
        make(_cross_entropy_array(self._a, target._a, None if weight is None else weight._a, NONE)), reduction
    ),
    self=lambda g, self, target, weight, reduction: binary_cross_entropy_backward(g, self, target, weight, reduction),
    target=lambda g, self, weight, reduction: per_element(
        weighted(((1 - self).log() - self.log()) * g, weight), self._a.size, reduction
    ),
)(_cross_entropy_array).function


def _logits_array(x: Any, target: Any, weight: Any, pos_weight: Any, reduction: int) -> Any:
    if target.dtype.kind in "biu":
        raise RuntimeError(
            f"result type {type_name(x.dtype)} can't be cast to the desired output type {type_name(target.dtype)}"
        )
    if not _as_one(x, target, weight, pos_weight):
        return _logits_by_ops(x, target, weight, pos_weight, reduction)
    # -log(sigmoid(x)), without overflow on either side.
    loss = _negative(activation.log_sigmoid(x))
    if pos_weight is not None:
        loss = loss * ((pos_weight - 1) * target + 1)
    loss = _add(_multiply(1 - target, x), loss)
    if weight is not None:
        loss = loss * weight
    return reduced_array(loss, reduction)


def _logits_calls(self: Any, target: Any, weight: Any, pos_weight: Any, reduction: int) -> Any:
    scores = log_sigmoid.function(self)
    if pos_weight is not None:
        scores = scores.mul_((pos_weight - 1).mul(target).add_(1))
    loss = empty_like(target).fill_(1).sub_(target).mul_(self).sub_(scores)
    if weight is not None:
        loss = loss.mul_(weight)
    return reduce_loss(loss, reduction)


_logits_by_ops = by_ops(_logits_calls)


def _logits_gradient(g: Any, x: Any, target: Any, weight: Any, pos_weight: Any, reduction: int) -> Any:
    in_place = not composed.wanted()
    if pos_weight is None:
        slope = x.sigmoid().sub_(target) if in_place else x.sigmoid() - target
    else:
        t = pos_weight * target
        slope = (t + 1 - target) * x.sigmoid() - t
    slope = slope.mul_(g) if in_place else slope * g
    slope = weighted(slope, weight)
    if reduction != MEAN:
        return slope
    return slope.div_(x._a.size) if in_place else slope / x._a.size


def _logits_target(g: Any, x: Any, weight: Any, pos_weight: Any, reduction: int) -> Any:
    if pos_weight is None:
        slope = -x
    else:
        slope = log_sigmoid.function(-x) - pos_weight * log_sigmoid.function(x)
    return per_element(weighted(slope * g, weight), x._a.size, reduction)


binary_cross_entropy_with_logits = op(
    "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, "
    "int reduction=1) -> Tensor",
    all_flops=flops.loss(9, 4, weight=2),
    meta=shapes_network.loss(4),
    autocast="float32",
    out=False,
    layout=lambda made, x, target, *rest: (
        result_layout.elementwise(made, target) if made.shape == target.shape else made
    ),
    calls=_logits_calls,
    self=lambda g, self, target, weight, pos_weight, reduction: _logits_gradient(
        g, self, target, weight, pos_weight, reduction
    ),
    target=lambda g, self, weight, pos_weight, reduction: _logits_target(g, self, weight, pos_weight, reduction),
)(_logits_array).function


@composite(
    "poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor",
    autocast="float32",
)
def _poisson_nll_loss(input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: int) -> Any:
    if log_input:
        product = target * input
        loss = input.exp() - product
    else:
        loss = input - target * plus(input, eps).log()
    if full:
        half_log = times(times(target, 2 * math.pi).log(), 0.5)
        stirling = target * target.log() - target + half_log
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduce_loss(loss, reduction)


poisson_nll_loss = _poisson_nll_loss.function
