"""Kernels of activation functions and their slopes, in one or two buffers and in blocks that stay in the cache.

Arrays come promoted to one floating point dtype; ``out`` may be the first of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..compiled import C, exp, in_one_pass, in_one_sum, order_of, pair_in_one_pass, stand_in, tanh
from ..passes import at_least, at_most, blocked, blocked_pair, choose, cut_to, keep, number, raise_to, settle
from ..special import error
from .smooth import log1p_positive

_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBE = 0.044715
_PDF_SCALE = 1 / math.sqrt(2 * math.pi)


# --- the rectifier and its kin ----------------------------------------------------------------------------------------


_ZERO = np.zeros((), np.float32)
_maximum, _greater, _absolute = stand_in(np.maximum), stand_in(np.greater), stand_in(np.absolute)
_add, _subtract, _multiply, _divide = (stand_in(f) for f in (np.add, np.subtract, np.multiply, np.divide))


def relu(x: Any, out: Any = None) -> Any:
    if x.size > 512:
        return _long_relu(x, out)
    zero = _ZERO if x.dtype is _ZERO.dtype else number(0, x.dtype)
    return _maximum(x, zero) if out is None else np.maximum(x, zero, out=out)


def _long_relu(x: Any, out: Any) -> Any:
    if C is not None and x.dtype is _ZERO.dtype:
        result = np.empty_like(x) if out is None else out
        if C.relu(x, result):
            return result
        if out is None and not x.flags.f_contiguous:  # parts of a larger array: beside one another first
            result = x.copy(order_of(x))
            if C.relu(result, result) or C.relu(result.T, result.T):
                return result
    return at_least(x, 0, out)


@in_one_sum
@blocked_pair
def threshold_backward(g: Any, x: Any, threshold: float, out: Any) -> Any:
    return keep(g, ~np.less_equal(x, number(threshold, x.dtype)), out)  # nan counts as above


@in_one_sum
@blocked
def threshold(x: Any, limit: float, value: float, out: Any) -> Any:
    return choose(np.less_equal(x, number(limit, x.dtype)), np.full_like(x, value), x, out)


@in_one_sum
@blocked
def leaky_relu(x: Any, slope: float, out: Any) -> Any:
    """The greater (for slopes above 1, the smaller) of x and slope * x."""
    scaled = np.multiply(x, number(slope, x.dtype))
    return (np.maximum if slope <= 1 else np.minimum)(x, scaled, out=out)


@in_one_sum
@blocked_pair
def leaky_relu_backward(g: Any, x: Any, slope: float, out: Any) -> Any:
    return choose(np.greater(x, number(0, x.dtype)), g, np.multiply(g, number(slope, g.dtype)), out)


@in_one_sum
def hardtanh(x: Any, low: float, high: float, out: Any = None) -> Any:
    raised = at_least(x, low, out)
    return at_most(raised, high, raised if isinstance(raised, np.ndarray) else None)


@in_one_sum
@blocked_pair
def hardtanh_backward(g: Any, x: Any, low: float, high: float, out: Any) -> Any:
    return keep(g, np.greater(x, number(low, x.dtype)) & np.less(x, number(high, x.dtype)), out)


@in_one_sum
@blocked
def hardsigmoid(x: Any, out: Any) -> Any:
    gate = np.add(x, number(3, x.dtype), out=out)
    raise_to(gate, 0, gate)
    cut_to(gate, 6, gate)
    return np.divide(gate, number(6, x.dtype), out=gate)


@in_one_sum
@blocked_pair
def hardsigmoid_backward(g: Any, x: Any, out: Any) -> Any:
    inside = np.greater(x, number(-3, x.dtype)) & np.less(x, number(3, x.dtype))
    return keep(np.divide(g, number(6, g.dtype)), inside, out)


@in_one_pass
@blocked
def hardswish(x: Any, out: Any) -> Any:
    gate = np.add(x, number(3, x.dtype))
    raise_to(gate, 0, gate)
    cut_to(gate, 6, gate)
    gate /= number(6, x.dtype)
    return np.multiply(x, gate, out=out)


@in_one_sum
@blocked_pair
def hardswish_backward(g: Any, x: Any, out: Any) -> Any:
    """0 up to -3, g from 3 on, g (x / 3 + 1/2) between."""
    inner = np.divide(x, number(3, x.dtype))
    inner += number(0.5, x.dtype)
    inner *= g
    above = np.greater_equal(x, number(3, x.dtype))
    middle = keep(inner, ~np.less_equal(x, number(-3, x.dtype)))
    return choose(above, g, middle, out)


@in_one_sum
@blocked
def hardshrink(x: Any, lambd: float, out: Any) -> Any:
    return keep(x, ~(np.greater_equal(x, -lambd) & np.less_equal(x, lambd)), out)  # nan stays nan


@in_one_sum
@blocked_pair
def hardshrink_backward(g: Any, x: Any, lambd: float, out: Any) -> Any:
    return keep(g, np.less(x, -lambd) | np.greater(x, lambd), out)


@in_one_sum
@blocked
def softshrink(x: Any, lambd: float, out: Any) -> Any:
    """x moved towards zero by ``lambd``, as far as zero; nan stays nan."""
    inside = raise_to(x, -lambd)
    cut_to(inside, lambd, inside)
    return np.subtract(x, inside, out=out)


# --- exponential ------------------------------------------------------------------------------------------------------


def _expm1_below_zero(x: Any) -> Any:
    """exp(x) - 1 for x <= 0, by tanh, which NumPy has in vectors: 2t / (1 - t) for t = tanh(x / 2)."""
    t = _multiply(x, number(0.5, x.dtype))
    tanh(t, out=t)
    slope = np.subtract(number(1, x.dtype), t)
    _add(t, t, out=t)
    return _divide(t, slope, out=t)


def elu(x: Any, alpha: float, scale: float, input_scale: float, out: Any = None) -> Any:
    made = C.elu(x, alpha * scale, scale, input_scale, out) if C is not None and input_scale > 0 else None
    return _elu(x, alpha, scale, input_scale, out=out) if made is None else made


@blocked
def _elu(x: Any, alpha: float, scale: float, input_scale: float, out: Any) -> Any:
    below = cut_to(x, 0)
    if input_scale != 1:
        below *= number(input_scale, x.dtype)
    below = _expm1_below_zero(below)
    if alpha * scale != 1:
        below *= number(alpha * scale, x.dtype)
    above = raise_to(x, 0, out)
    if scale != 1:
        above *= number(scale, x.dtype)
    return _add(above, below, out=above)


def elu_backward(
    g: Any, x: Any, alpha: float, scale: float, input_scale: float, is_result: bool, out: Any = None
) -> Any:
    made = None
    if C is not None and not is_result:
        made = C.elu_slope(g, x, alpha * scale * input_scale, scale, input_scale, out)
    return _elu_backward(g, x, alpha, scale, input_scale, is_result, out=out) if made is None else made


@blocked_pair
def _elu_backward(g: Any, x: Any, alpha: float, scale: float, input_scale: float, is_result: bool, out: Any) -> Any:
    """The slope is `scale` above zero; below it is that of the exponential, found from the input or the result."""
    if is_result:
        below = np.add(x, number(alpha * scale, x.dtype))
        below *= number(input_scale, x.dtype)
    else:
        below = cut_to(x, 0)
        below *= number(input_scale, x.dtype)
        exp(below, out=below)
        below *= number(alpha * scale * input_scale, x.dtype)
    below *= g
    return choose(np.greater(x, number(0, x.dtype)), np.multiply(g, number(scale, g.dtype)), below, out)


@in_one_sum
@blocked
def softplus(x: Any, beta: float, threshold: float, out: Any) -> Any:
    """log(1 + exp(beta x)) / beta, and x itself where beta x exceeds ``threshold``."""
    scaled = _multiply(x, number(beta, x.dtype)) if beta != 1 else x
    tail = _absolute(scaled)
    _multiply(tail, number(-1, x.dtype), out=tail)
    tail = log1p_positive(exp(tail, out=tail))
    tail = _add(tail, raise_to(scaled, 0), out=tail)
    if beta != 1:
        tail /= number(beta, x.dtype)
    high = _greater(scaled, number(threshold, x.dtype))
    if x.size <= 512 and not np.count_nonzero(high):
        return settle(tail, out)
    return choose(high, x, tail, out)


@in_one_sum
@blocked_pair
def softplus_backward(g: Any, x: Any, beta: float, threshold: float, out: Any) -> Any:
    scaled = np.multiply(x, number(beta, x.dtype))
    high = np.greater(scaled, number(threshold, x.dtype))
    np.negative(scaled, out=scaled)
    exp(scaled, out=scaled)
    scaled += number(1, x.dtype)
    slope = np.divide(g, scaled, out=scaled)
    return choose(high, g, slope, out)


@in_one_pass
@blocked
def log_sigmoid(x: Any, out: Any) -> Any:
    """min(x, 0) - log(1 + exp(-|x|))"""
    tail = _absolute(x)
    _multiply(tail, number(-1, x.dtype), out=tail)
    tail = log1p_positive(exp(tail, out=tail))
    return _subtract(cut_to(x, 0), tail, out=out)


def _sigmoid(x: Any) -> Any:
    s = np.negative(x)
    exp(s, out=s)
    one = number(1, x.dtype)
    s += one
    return np.divide(one, s, out=s)


@in_one_sum
@blocked_pair
def log_sigmoid_backward(g: Any, x: Any, out: Any) -> Any:
    slope = _sigmoid(np.negative(x))
    return np.multiply(g, slope, out=out)


@in_one_pass
@blocked
def silu(x: Any, out: Any) -> Any:
    gate = np.negative(x)
    exp(gate, out=gate)
    gate += number(1, x.dtype)
    return np.divide(x, gate, out=out)


@in_one_sum
@blocked_pair
def silu_backward(g: Any, x: Any, out: Any) -> Any:
    """g s (1 + x (1 - s))"""
    s = _sigmoid(x)
    one = number(1, x.dtype)
    slope = np.subtract(one, s)
    slope *= x
    slope += one
    slope *= s
    return np.multiply(g, slope if g.dtype.kind != "c" else np.conj(slope), out=out)


def _tanh_softplus(x: Any) -> Any:
    """tanh(log(1 + exp(x))), which is rational in exp(-|x|)."""
    e = np.abs(x)
    np.negative(e, out=e)
    exp(e, out=e)
    positive = np.greater_equal(x, number(0, x.dtype))
    # for x >= 0: (1 + 2e) / (1 + 2e + 2e²); for x < 0: e (e + 2) / (e (e + 2) + 2)
    twice, square = e + e, e * e
    top = twice + number(1, x.dtype)
    above = top / (top + square + square)
    product = square + twice
    return choose(positive, above, product / (product + number(2, x.dtype)))


@in_one_pass
@blocked
def mish(x: Any, out: Any) -> Any:
    return np.multiply(x, _tanh_softplus(x), out=out)


@blocked_pair
def mish_backward(g: Any, x: Any, out: Any) -> Any:
    t = _tanh_softplus(x)
    slope = _sigmoid(x)
    slope *= x
    slope *= number(1, x.dtype) - t * t
    slope += t
    return np.multiply(g, slope, out=out)


# --- gelu -------------------------------------------------------------------------------------------------------------


def _gelu_inner(x: Any) -> Any:
    """The argument of the tanh that stands for the error function."""
    inner = np.square(x)
    inner *= number(_TANH_CUBE * _TANH_SCALE, x.dtype)
    inner += number(_TANH_SCALE, x.dtype)
    inner *= x
    return inner


def _half_of_one_more(t: Any) -> None:
    t += number(1, t.dtype)
    t *= number(0.5, t.dtype)


@in_one_pass
@blocked
def gelu_tanh(x: Any, out: Any) -> Any:
    gate = _gelu_inner(x)
    tanh(gate, out=gate)
    _half_of_one_more(gate)
    return np.multiply(x, gate, out=out)


@in_one_pass
@blocked
def gelu(x: Any, out: Any) -> Any:
    gate = error.spread_erf(x)
    _half_of_one_more(gate)
    return np.multiply(x, gate, out=out)


@pair_in_one_pass
@blocked_pair
def gelu_tanh_backward(g: Any, x: Any, out: Any) -> Any:
    t = tanh(_gelu_inner(x))
    slope = np.square(x)
    slope *= number(1.5 * _TANH_SCALE * _TANH_CUBE, x.dtype)
    slope += number(0.5 * _TANH_SCALE, x.dtype)
    slope *= x
    slope *= number(1, x.dtype) - t * t
    _half_of_one_more(t)
    slope += t
    return np.multiply(g, slope, out=out)


@pair_in_one_pass
@blocked_pair
def gelu_backward(g: Any, x: Any, out: Any) -> Any:
    cdf = error.spread_erf(x)
    _half_of_one_more(cdf)
    pdf = np.square(x)
    pdf *= number(-0.5, x.dtype)
    exp(pdf, out=pdf)
    pdf *= x
    pdf *= number(_PDF_SCALE, x.dtype)
    cdf += pdf
    return np.multiply(g, cdf, out=out)


# --- with a learned or random slope -----------------------------------------------------------------------------------


_FEW = 4096  # up to so many elements a pass over memory costs less than a call


def prelu(x: Any, weight: Any, out: Any = None) -> Any:
    if C is not None and out is None and x.size <= _FEW and weight.ndim == x.ndim > 0:
        # One slope, or one for each place in the second dimension.
        made = C.prelu(x, weight) if weight.size == weight.shape[1 if x.ndim > 1 else 0] else None
        if made is not None:
            return made
    one = weight.size == 1 and weight.ndim <= x.ndim and weight.dtype is x.dtype
    if one and 0 <= (slope := weight.item()) <= 1:
        return leaky_relu(x, slope, out=out)
    if out is None and x.ndim and x.size <= _FEW and x.dtype is weight.dtype:
        few = np.multiply(x, weight)
        if few.shape == x.shape:
            np.copyto(few, x, where=np.greater(x, 0))
            return few
    return _prelu(x, weight, out=out)


@blocked_pair
def _prelu(x: Any, weight: Any, out: Any) -> Any:
    return choose(np.greater(x, 0), x, np.multiply(x, weight), out)


def prelu_backward(g: Any, x: Any, weight: Any) -> tuple[Any, Any]:
    """Gradients of the input and of the weight (in the input's shape)."""
    above = np.greater(x, 0)
    g, weight = np.broadcast_arrays(g, weight)
    return np.asarray(np.where(above, g, g * weight)), np.asarray(keep(g * x, ~above))
