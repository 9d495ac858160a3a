"""Kernels of activation functions and their slopes, in one or two buffers and in blocks that stay in the cache.

Arrays come promoted to one floating point dtype; ``out`` may be the first of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import special_erf
from .passes import BLOCK, at_least, blocked, blocked_pair, choose, keep

_ZEROS = {np.dtype(t): np.zeros((), t) for t in (np.float32, np.float64)}
_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBE = 0.044715
_SQRT_HALF = math.sqrt(0.5)
_PDF_SCALE = 1 / math.sqrt(2 * math.pi)


# --- the rectifier and its kin ----------------------------------------------------------------------------------------


def relu(x: Any, out: Any = None) -> Any:
    zero = _ZEROS.get(x.dtype)
    if zero is None or x.size > BLOCK:
        return at_least(x, 0, out)
    return np.maximum(x, zero, out=out)


@blocked_pair
def threshold_backward(g: Any, x: Any, threshold: float, out: Any) -> None:
    keep(g, ~np.less_equal(x, threshold), out)  # nan counts as above


@blocked
def threshold(x: Any, limit: float, value: float, out: Any) -> None:
    choose(np.less_equal(x, limit), np.full_like(x, value), x, out)


@blocked
def leaky_relu(x: Any, slope: float, out: Any) -> None:
    """The greater (for slopes above 1, the smaller) of x and slope * x."""
    scaled = np.multiply(x, np.asarray(slope, x.dtype))
    (np.maximum if slope <= 1 else np.minimum)(x, scaled, out=out)


@blocked_pair
def leaky_relu_backward(g: Any, x: Any, slope: float, out: Any) -> None:
    choose(np.greater(x, 0), g, np.multiply(g, np.asarray(slope, g.dtype)), out)


def hardtanh(x: Any, low: float, high: float, out: Any = None) -> Any:
    low, high = np.asarray(low, x.dtype), np.asarray(high, x.dtype)
    return np.minimum(np.maximum(x, low, out=out), high, out=out)


@blocked_pair
def hardtanh_backward(g: Any, x: Any, low: float, high: float, out: Any) -> None:
    keep(g, np.greater(x, low) & np.less(x, high), out)


@blocked
def hardsigmoid(x: Any, out: Any) -> None:
    np.add(x, 3, out=out)
    np.maximum(out, 0, out=out)
    np.minimum(out, 6, out=out)
    np.divide(out, 6, out=out)


@blocked_pair
def hardsigmoid_backward(g: Any, x: Any, out: Any) -> None:
    keep(np.divide(g, 6), np.greater(x, -3) & np.less(x, 3), out)


@blocked
def hardswish(x: Any, out: Any) -> None:
    gate = np.add(x, 3)
    np.maximum(gate, 0, out=gate)
    np.minimum(gate, 6, out=gate)
    np.multiply(x, gate, out=out)
    np.divide(out, 6, out=out)


@blocked_pair
def hardswish_backward(g: Any, x: Any, out: Any) -> None:
    """0 up to -3, g from 3 on, g (x / 3 + 1/2) between."""
    inner = np.divide(x, 3)
    inner += 0.5
    inner *= g
    above = np.greater_equal(x, 3)
    middle = keep(inner, ~np.less_equal(x, -3))
    choose(above, g, middle, out)


@blocked
def hardshrink(x: Any, lambd: float, out: Any) -> None:
    keep(x, ~(np.greater_equal(x, -lambd) & np.less_equal(x, lambd)), out)  # nan stays nan


@blocked_pair
def hardshrink_backward(g: Any, x: Any, lambd: float, out: Any) -> None:
    keep(g, np.less(x, -lambd) | np.greater(x, lambd), out)


@blocked
def softshrink(x: Any, lambd: float, out: Any) -> None:
    """x moved towards zero by ``lambd``, as far as zero; nan stays nan."""
    inside = np.maximum(x, np.asarray(-lambd, x.dtype))
    np.minimum(inside, np.asarray(lambd, x.dtype), out=inside)
    np.subtract(x, inside, out=out)


# --- exponential ------------------------------------------------------------------------------------------------------


def _expm1_below_zero(x: Any) -> Any:
    """exp(x) - 1 for x <= 0, by tanh, which NumPy has in vectors: 2t / (1 - t) for t = tanh(x / 2)."""
    t = np.multiply(x, 0.5)
    np.tanh(t, out=t)
    slope = np.subtract(1, t)
    t += t
    t /= slope
    return t


def _log1p_positive(u: Any) -> Any:
    """log(1 + u) for u >= 0, by log, which NumPy has in vectors, and what the sum lost."""
    w = np.add(u, 1)
    lost = np.subtract(w, 1)
    np.subtract(u, lost, out=lost)
    lost /= w
    np.log(w, out=w)
    w += lost
    return w


@blocked
def elu(x: Any, alpha: float, scale: float, input_scale: float, out: Any) -> None:
    below = np.minimum(x, 0)
    if input_scale != 1:
        below *= input_scale
    below = _expm1_below_zero(below)
    below *= alpha * scale
    above = np.maximum(x, 0, out=out)
    if scale != 1:
        above *= scale
    above += below


@blocked_pair
def elu_backward(
    g: Any, x: Any, alpha: float, scale: float, input_scale: float, is_result: bool, out: Any
) -> None:
    """The slope is `scale` above zero; below it is that of the exponential, found from the input or the result."""
    if is_result:
        below = np.add(x, alpha * scale)
        below *= input_scale
    else:
        below = np.exp(np.minimum(x, 0) * input_scale)
        below *= alpha * scale * input_scale
    below *= g
    choose(np.greater(x, 0), np.multiply(g, np.asarray(scale, g.dtype)), below, out)


@blocked
def softplus(x: Any, beta: float, threshold: float, out: Any) -> None:
    """log(1 + exp(beta x)) / beta, and x itself where beta x exceeds ``threshold``."""
    scaled = np.multiply(x, np.asarray(beta, x.dtype))
    tail = np.abs(scaled)
    np.negative(tail, out=tail)
    tail = _log1p_positive(np.exp(tail, out=tail))
    tail += np.maximum(scaled, 0)
    tail /= beta
    choose(np.greater(scaled, threshold), x, tail, out)


@blocked_pair
def softplus_backward(g: Any, x: Any, beta: float, threshold: float, out: Any) -> None:
    scaled = np.multiply(x, np.asarray(beta, x.dtype))
    high = np.greater(scaled, threshold)
    np.negative(scaled, out=scaled)
    np.exp(scaled, out=scaled)
    scaled += 1
    slope = np.divide(g, scaled, out=scaled)
    choose(high, g, slope, out)


@blocked
def log_sigmoid(x: Any, out: Any) -> None:
    """min(x, 0) - log(1 + exp(-|x|))"""
    tail = np.abs(x)
    np.negative(tail, out=tail)
    tail = _log1p_positive(np.exp(tail, out=tail))
    np.minimum(x, 0, out=out)
    np.subtract(out, tail, out=out)


def _sigmoid(x: Any) -> Any:
    s = np.negative(x)
    np.exp(s, out=s)
    s += 1
    return np.reciprocal(s, out=s)


@blocked_pair
def log_sigmoid_backward(g: Any, x: Any, out: Any) -> None:
    slope = _sigmoid(np.negative(x))
    np.multiply(g, slope, out=out)


@blocked
def silu(x: Any, out: Any) -> None:
    gate = np.negative(x)
    np.exp(gate, out=gate)
    gate += 1
    np.divide(x, gate, out=out)


@blocked_pair
def silu_backward(g: Any, x: Any, out: Any) -> None:
    """g s (1 + x (1 - s))"""
    s = _sigmoid(x)
    slope = np.subtract(1, s)
    slope *= x
    slope += 1
    slope *= s
    np.multiply(g, slope if g.dtype.kind != "c" else np.conj(slope), out=out)


def _tanh_softplus(x: Any) -> Any:
    """tanh(log(1 + exp(x))), which is rational in exp(-|x|)."""
    e = np.abs(x)
    np.negative(e, out=e)
    np.exp(e, out=e)
    positive = np.greater_equal(x, 0)
    # for x >= 0: (1 + 2e) / (1 + 2e + 2e²); for x < 0: e (e + 2) / (e (e + 2) + 2)
    twice = e + e
    square = e * e
    above = (1 + twice) / (1 + twice + 2 * square)
    product = square + twice
    return choose(positive, above, product / (product + 2))


@blocked
def mish(x: Any, out: Any) -> None:
    np.multiply(x, _tanh_softplus(x), out=out)


@blocked_pair
def mish_backward(g: Any, x: Any, out: Any) -> None:
    t = _tanh_softplus(x)
    slope = _sigmoid(x)
    slope *= x
    slope *= 1 - t * t
    slope += t
    np.multiply(g, slope, out=out)


# --- gelu -------------------------------------------------------------------------------------------------------------


def _gelu_inner(x: Any) -> Any:
    """The argument of the tanh that stands for the error function."""
    inner = np.square(x)
    inner *= _TANH_CUBE
    inner += 1
    inner *= x
    inner *= _TANH_SCALE
    return inner


@blocked
def gelu_tanh(x: Any, out: Any) -> None:
    gate = _gelu_inner(x)
    np.tanh(gate, out=gate)
    gate += 1
    gate *= 0.5
    np.multiply(x, gate, out=out)


@blocked
def gelu(x: Any, out: Any) -> None:
    gate = special_erf.erf(np.multiply(x, np.asarray(_SQRT_HALF, x.dtype)))
    gate += 1
    gate *= 0.5
    np.multiply(x, gate, out=out)


@blocked_pair
def gelu_tanh_backward(g: Any, x: Any, out: Any) -> None:
    t = np.tanh(_gelu_inner(x))
    slope = np.square(x)
    slope *= 3 * _TANH_CUBE
    slope += 1
    slope *= x
    slope *= 0.5 * _TANH_SCALE
    slope *= 1 - t * t
    t += 1
    t *= 0.5
    slope += t
    np.multiply(g, slope, out=out)


@blocked_pair
def gelu_backward(g: Any, x: Any, out: Any) -> None:
    cdf = special_erf.erf(np.multiply(x, np.asarray(_SQRT_HALF, x.dtype)))
    cdf += 1
    cdf *= 0.5
    pdf = np.square(x)
    pdf *= -0.5
    np.exp(pdf, out=pdf)
    pdf *= x
    pdf *= _PDF_SCALE
    cdf += pdf
    np.multiply(g, cdf, out=out)


# --- with a learned or random slope -----------------------------------------------------------------------------------


@blocked_pair
def prelu(x: Any, weight: Any, out: Any) -> None:
    choose(np.greater(x, 0), x, np.multiply(x, weight), out)


def prelu_backward(g: Any, x: Any, weight: Any) -> tuple[Any, Any]:
    """Gradients of the input and of the weight (in the input's shape)."""
    above = np.greater(x, 0)
    g, weight = np.broadcast_arrays(g, weight)
    return np.asarray(np.where(above, g, g * weight)), np.asarray(keep(g * x, ~above))
