"""Kernels of smooth functions that NumPy has no ufunc for: sigmoid and its slopes, rounding to decimals, sinc, angles.

Arrays come promoted to one dtype; ``out`` may be the first of them.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from ..compiled import exp, in_one_pass, in_one_sum, stand_in
from ..passes import blocked, blocked_pair, cut_to, number, settle

# Up to this many elements NumPy's own slow loops cost less than several passes of fast ones.
_FEW = 1024
_finfo: Any = ml_dtypes.finfo  # which knows bfloat16

_add, _subtract, _divide = stand_in(np.add), stand_in(np.subtract), stand_in(np.divide)


@in_one_pass
@blocked
def sigmoid(x: Any, out: Any) -> Any:
    """1 / (1 + exp(-x)); tanh would be faster and lose every digit of small results."""
    value = np.negative(x, out=out)
    exp(value, out=value)
    one = number(1, value.dtype)
    np.add(value, one, out=value)
    return np.divide(one, value, out=value)  # np.reciprocal takes twice as long


@in_one_sum
@blocked_pair
def sigmoid_backward(g: Any, y: Any, out: Any) -> Any:
    slope = np.subtract(number(1, y.dtype), y)
    slope *= y
    return np.multiply(g, slope if y.dtype.kind != "c" else np.conj(slope), out=out)


@in_one_sum
@blocked_pair
def tanh_backward(g: Any, y: Any, out: Any) -> Any:
    slope = np.square(y)
    np.subtract(number(1, y.dtype), slope, out=slope)
    return np.multiply(g, slope if y.dtype.kind != "c" else np.conj(slope), out=out)


def expm1(x: Any, out: Any = None) -> Any:
    """exp(x) - 1; NumPy has exp and log in vectors, expm1 not."""
    if x.size <= _FEW or x.dtype.kind != "f":
        return np.expm1(x, out=out)
    return _expm1(x, out=out)


@blocked
def _expm1(x: Any, out: Any) -> Any:
    x = np.maximum(x, number(-40, x.dtype))  # -1 from here on; further down exp(x) would have no logarithm
    u = exp(x)
    value = np.subtract(u, number(1, x.dtype))
    np.log(u, out=u)
    value *= x
    value /= u
    _repair(value, np.expm1, x)
    return settle(value, out)


def log1p(x: Any, out: Any = None) -> Any:
    """log(1 + x) by log and what the sum lost."""
    if x.size <= _FEW or x.dtype.kind != "f":
        return np.log1p(x, out=out)
    return _log1p(x, out=out)


@blocked
def _log1p(x: Any, out: Any) -> Any:
    one = number(1, x.dtype)
    w = np.add(x, one)
    lost = np.subtract(w, one)
    np.subtract(x, lost, out=lost)
    lost /= w
    np.log(w, out=w)
    w += lost
    _repair(w, np.log1p, x)
    return settle(w, out)


def _repair(value: Any, exact: Any, x: Any) -> None:
    """Compute anew what a short cut made nan or infinite, rightly or not."""
    wrong = ~np.isfinite(value)
    if wrong.any():
        value[wrong] = exact(x[wrong])


@in_one_sum
@blocked
def bent(d: Any, knee: float, out: Any) -> Any:
    """Half the square of ``d`` up to ``knee`` in size, and straight on from there."""
    size = np.abs(d)
    low = cut_to(size, knee)
    value = np.multiply(low, number(-0.5, low.dtype))
    value += size
    value *= low
    return settle(value, out)


def logit_slope(x: Any, eps: Any) -> Any:
    """The derivative of ``logit``: beyond ``eps`` it is 0, beyond 0 and 1 (without ``eps``) it is nan."""
    low, high, beyond = (0.0, 1.0, np.nan) if eps is None else (eps, 1.0 - eps, 0.0)
    slope = np.reciprocal(x * (1 - x))
    return np.where((x < low) | (x > high), np.asarray(beyond, x.dtype), slope)


@in_one_sum
@blocked
def frac(x: Any, out: Any) -> Any:
    return np.subtract(x, np.trunc(x), out=out)


def round_to(x: Any, decimals: int, out: Any = None) -> Any:
    """Rounded to so many decimals, halves to even."""
    if decimals == 0:
        return np.rint(x, out=out)
    scale = np.asarray(10.0 ** abs(decimals) if abs(decimals) <= 308 else math.inf).astype(x.dtype)
    if decimals > 0:
        return np.divide(np.rint(np.multiply(x, scale)), scale, out=out)
    return np.multiply(np.rint(np.divide(x, scale)), scale, out=out)


def sinc(x: Any, out: Any = None) -> Any:
    """sin(πx) / (πx), 1 at zero."""
    scaled = np.multiply(x, np.asarray(np.pi, x.dtype))
    at_zero = np.equal(scaled, 0)
    value = np.divide(np.sin(scaled), np.where(at_zero, np.asarray(1, x.dtype), scaled), out=out)
    value = np.asarray(value)
    np.copyto(value, 1, where=at_zero)
    return value


def nan_to_num(x: Any, nan: Any, posinf: Any, neginf: Any, out: Any = None) -> Any:
    """Finite numbers in place of nan and the infinities."""
    result = x.copy() if out is None else out
    if out is not None and out is not x:
        np.copyto(out, x)
    if x.dtype.kind == "c":
        for part in (result.real, result.imag):
            nan_to_num(part, nan, posinf, neginf, out=part)
        return result
    if x.dtype.kind in "biu":
        return result
    if np.isfinite(result).all():
        return result
    info = _finfo(x.dtype)
    isnan, above, below = np.isnan(result), np.equal(result, np.inf), np.equal(result, -np.inf)
    np.copyto(result, 0.0 if nan is None else nan, where=isnan, casting="unsafe")
    np.copyto(result, info.max if posinf is None else posinf, where=above, casting="unsafe")
    np.copyto(result, info.min if neginf is None else neginf, where=below, casting="unsafe")
    return result


def logaddexp(a: Any, b: Any, out: Any = None) -> Any:
    """log(exp(a) + exp(b)), of complex numbers too."""
    if a.dtype.kind != "c":
        if max(a.size, b.size) <= _FEW or a.dtype.kind != "f":
            return np.logaddexp(a, b, out=out)
        return _logaddexp(a, b, out=out)
    a, b = np.broadcast_arrays(a, b)
    swap = np.less(a.real, b.real)
    high, low = np.where(swap, b, a), np.where(swap, a, b)
    return np.add(high, np.log1p(np.exp(low - high)), out=out)


@blocked_pair
def _logaddexp(a: Any, b: Any, out: Any) -> Any:
    """The larger, and log(1 + exp) of minus the distance, which is between 0 and 1."""
    distance = np.subtract(a, b)
    np.abs(distance, out=distance)
    np.negative(distance, out=distance)
    value = log1p_positive(exp(distance, out=distance))
    value += np.maximum(a, b)
    wrong = ~np.isfinite(value)
    if wrong.any():
        value[wrong] = np.logaddexp(*(np.broadcast_to(side, value.shape)[wrong] for side in (a, b)))
    return settle(value, out)


def log1p_positive(u: Any) -> Any:
    """log(1 + u) for u >= 0, by log, which NumPy has in vectors, and what the sum lost."""
    one = number(1, u.dtype)
    w = _add(u, one)
    lost = _subtract(w, one)
    _subtract(u, lost, out=lost)
    _divide(lost, w, out=lost)
    np.log(w, out=w)
    return _add(w, lost, out=w)


def angle(x: Any, out: Any = None) -> Any:
    """The argument of a complex number; for real ones 0, or π if negative."""
    if x.dtype.kind == "c":
        return np.arctan2(x.imag, x.real, out=out)
    zero, half_turn = np.zeros((), x.dtype), np.asarray(np.pi, x.dtype)
    return np.positive(np.where(np.isnan(x), x, np.where(x < 0, half_turn, zero)), out=out)
