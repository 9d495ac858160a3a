"""Kernels of arithmetic that NumPy has no ufunc for, or has one with other rules: division of integers, powers of
numbers, signs, fused forms. Arrays come promoted to one dtype; ``out`` may be the first of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import F32, C, in_one_pass, in_one_sum, order_of, stand_in
from ..passes import FLOATS, NUMBERS, at_least, at_most, blocked, blocked_pair, blocked_triple, keep, number, settle

# Up to this many elements NumPy's own slow loops cost less than several passes of fast ones.
_FEW = 1024

_add, _subtract, _multiply, _divide = (stand_in(f) for f in (np.add, np.subtract, np.multiply, np.divide))
_maximum, _minimum = stand_in(np.maximum), stand_in(np.minimum)

# Quotients below this one of two float32, divided in float64, are cut to the same whole number as the true ones: the
# next whole number is more than a rounding away. Times the divisor they are exact, too.
_EXACT_QUOTIENT = float(1 << 22)
_DOUBLE = np.dtype(np.float64)
_I64 = NUMBERS[np.dtype(np.int64)]

# --- division ---------------------------------------------------------------------------------------------------------


def _refuse_zero(b: Any) -> None:
    if b.dtype.kind in "iu" and not (b.all() if b.ndim else b):
        raise RuntimeError("ZeroDivisionError")


def _is_long_float(a: Any, b: Any) -> bool:
    return a.dtype.kind == "f" and max(a.size, b.size) > _FEW


def floor_divide(a: Any, b: Any, out: Any = None) -> Any:
    """The quotient rounded towards minus infinity."""
    if _is_long_float(a, b):
        return _floor_divide(a, b, out=out)
    _refuse_zero(b)
    return np.floor_divide(a, b, out=out)


def _exact_quotient(a: Any, b: Any) -> Any:
    """``a / b`` of float32 in float64 if all of them are small enough to be cut to whole numbers, else None."""
    if a.dtype is not F32 or b.dtype is not F32:
        return None
    quotient = np.divide(a, b, dtype=_DOUBLE)
    low, high = np.minimum.reduce(quotient, None), np.maximum.reduce(quotient, None)
    return quotient if low > -_EXACT_QUOTIENT and high < _EXACT_QUOTIENT else None  # nan is neither


@blocked_pair
def _floor_divide(a: Any, b: Any, out: Any) -> Any:
    """By the exact remainder, as Python does it."""
    exact = _exact_quotient(a, b)
    if exact is not None:
        return settle(np.copysign(np.floor(exact), exact).astype(F32), out)
    rest = np.fmod(a, b)
    quotient = np.subtract(a, rest)
    quotient /= b
    quotient -= (rest != 0) & (np.signbit(rest) != np.signbit(b))
    floor = np.floor(quotient)
    floor += np.subtract(quotient, floor) > 0.5
    plain = np.divide(a, b)
    by_zero = np.equal(b, 0)
    if by_zero.any():
        floor = np.where(by_zero, plain, floor)
    return np.copysign(floor, plain, out=out)


def trunc_divide(a: Any, b: Any, out: Any = None) -> Any:
    """The quotient rounded towards zero."""
    if a.dtype.kind not in "iu":
        return np.trunc(np.true_divide(a, b, out=out), out=out)
    _refuse_zero(b)
    quotient = np.floor_divide(a, b)
    inexact = np.multiply(quotient, b) != a
    return np.add(quotient, inexact & ((a < 0) != (b < 0)), out=out)


def remainder(a: Any, b: Any, out: Any = None) -> Any:
    """What floor division leaves; it has the sign of the divisor."""
    if _is_long_float(a, b):
        return _remainder(a, b, out=out)
    _refuse_zero(b)
    return np.remainder(a, b, out=out)


def remainder_by(a: Any, divisor: int) -> Any:
    """``remainder`` of int64 and a number that is not 0."""
    return np.remainder(a, _I64[divisor])


@blocked_pair
def _remainder(a: Any, b: Any, out: Any) -> Any:
    rest = _long_fmod(a, b)
    other_side = (rest != 0) & (np.signbit(rest) != np.signbit(b))
    return np.add(rest, keep(b, other_side), out=out)


def fmod(a: Any, b: Any, out: Any = None) -> Any:
    """What division rounded towards zero leaves; it has the sign of the dividend."""
    if _is_long_float(a, b):
        return _fmod(a, b, out=out)
    _refuse_zero(b)
    return np.fmod(a, b, out=out)


@blocked_pair
def _fmod(a: Any, b: Any, out: Any) -> Any:
    return settle(_long_fmod(a, b), out)


def _long_fmod(a: Any, b: Any) -> Any:
    """NumPy has no vector loop for `fmod`; for float32 a product in float64 gives the same numbers."""
    whole = _exact_quotient(a, b)
    if whole is None:
        return np.fmod(a, b)
    np.trunc(whole, out=whole)
    whole *= b
    np.subtract(a, whole, out=whole)
    return np.copysign(whole.astype(F32), a)


# --- powers -----------------------------------------------------------------------------------------------------------


def power_of_integers(a: Any, exponent: int) -> Any:
    """`a ** exponent` of int64 and a number that is not negative."""
    return np.square(a) if exponent == 2 else np.power(a, _I64[exponent])


def power_of_number(a: Any, exponent: Any, out: Any = None) -> Any:
    """`a ** exponent` for one exponent; small ones need no logarithm."""
    if exponent == 2:
        return np.square(a, out=out)
    if exponent == 1:
        return np.positive(a, out=out)
    if a.dtype.kind in "iub":
        return np.power(a, exponent, out=out)
    if exponent == 0.5:
        return np.sqrt(a, out=out)
    if exponent == 3 and a.dtype.kind != "c":
        return cube(a, out=out)
    if exponent == -1:
        return np.reciprocal(a, out=out)
    if exponent == -0.5:
        return rsqrt(a, out=out)
    if exponent == -2:
        squared = np.square(a, out=out)
        return np.reciprocal(squared, out=squared if isinstance(squared, np.ndarray) else None)
    return np.power(a, np.asarray(exponent, a.dtype), out=out)


@in_one_sum
@blocked
def cube(a: Any, out: Any) -> Any:
    return np.multiply(np.square(a), a, out=out)


def power(a: Any, b: Any, out: Any = None) -> Any:
    """`a ** b`; integers to negative powers are 0, or ±1 where the base is."""
    if b.dtype.kind != "i" or not (b < 0).any():
        return np.power(a, b, out=out)
    result = np.power(a, np.maximum(b, 0))
    odd = np.where(b % 2, a, 1)
    return np.positive(np.where(b < 0, np.where(np.abs(a) == 1, odd, 0).astype(a.dtype), result), out=out)


@in_one_pass
def rsqrt(a: Any, out: Any = None) -> Any:
    root = np.sqrt(a, out=out)
    return np.reciprocal(root, out=root if isinstance(root, np.ndarray) else None)


# --- signs ------------------------------------------------------------------------------------------------------------


@in_one_pass
def sign(a: Any, out: Any = None) -> Any:
    """-1, 0 or 1; 0 for nan, where NumPy gives nan."""
    if a.dtype.kind == "b":
        return np.positive(a.view(np.uint8), out=None if out is None else out.view(np.uint8)).astype(bool)
    result = np.empty_like(a, order=order_of(a)) if out is None else out
    above, below = np.greater(a, 0), np.less(a, 0)
    return np.subtract(above.view(np.int8), below.view(np.int8), out=result, casting="unsafe")


def sgn(a: Any, out: Any = None) -> Any:
    """The direction of complex numbers, the sign of real ones."""
    if a.dtype.kind != "c":
        return sign(a, out=out)
    length = np.abs(a)
    return np.divide(a, np.where(length == 0, 1, length), out=out)


def heaviside(a: Any, values: Any, out: Any = None) -> Any:
    """0 below zero and at nan, 1 above, ``values`` at zero."""
    a, values = np.broadcast_arrays(a, values)
    result = np.where(a == 0, values, np.greater(a, 0).astype(a.dtype))
    return np.positive(result, out=out) if out is not None else result


# --- fused forms ------------------------------------------------------------------------------------------------------


@in_one_sum
@blocked_pair
def add_scaled(a: Any, b: Any, alpha: Any, out: Any) -> Any:
    """`a + alpha * b`"""
    return _add(a, _multiply(b, number(alpha, b.dtype)), out=out)


@blocked_pair
def subtract_scaled(a: Any, b: Any, alpha: Any, out: Any) -> Any:
    """`a - alpha * b`"""
    return _subtract(a, _multiply(b, number(alpha, b.dtype)), out=out)


@in_one_sum
@blocked_triple
def addcmul(a: Any, b: Any, c: Any, value: Any, out: Any) -> Any:
    """`a + value * b * c`"""
    product = _multiply(b, c)
    if value != 1:
        product = _multiply(product, number(value, product.dtype), out=product if product.ndim else None)
    return _add(a, product, out=out)


@in_one_sum
@blocked_triple
def addcdiv(a: Any, b: Any, c: Any, value: Any, out: Any) -> Any:
    """`a + value * b / c`"""
    if value != 1:
        b = _multiply(b, number(value, b.dtype))
    return _add(a, _divide(b, c), out=out)


@in_one_sum
@blocked_pair
def lerp(a: Any, end: Any, weight: Any, out: Any) -> Any:
    """From ``a`` to ``end`` by ``weight``, computed from the nearer side so that both ends are exact."""
    step = _subtract(end, a)
    near = abs(weight) < 0.5
    step = _multiply(step, number(weight if near else 1 - weight, a.dtype), out=step)
    return _add(a, step, out=out) if near else _subtract(end, step, out=out)


@blocked_triple
def lerp_by(a: Any, end: Any, weight: Any, out: Any) -> Any:
    """``lerp`` by a weight for each element."""
    step = np.subtract(end, a)
    near, far = a + step * weight, end - step * (1 - weight)
    return settle(np.where(np.abs(weight) < 0.5, near, far), out)


def clamp(a: Any, low: Any, high: Any, out: Any = None) -> Any:
    """At least ``low``, then at most ``high``; either may be None, or an array."""
    if low is None and high is None:
        raise ValueError("no bound")
    if a.size <= _FEW_BOUNDED and type(low) in _PLAIN and type(high) in _PLAIN and a.dtype in FLOATS:
        return _clamp_few(a, low, high, out, FLOATS[a.dtype])
    if low is not None:
        a = np.maximum(a, low, out=out) if _is_array(low) else at_least(a, low, out)
        out = a if isinstance(a, np.ndarray) else None  # the second step may overwrite the first
    if high is None:
        return a
    if not _is_array(high):
        return at_most(a, high, out)
    return np.minimum(a, high, out=out if out is not None and np.broadcast(a, high).shape == out.shape else None)


# NumPy's loops for an array and a number are slow; compiled ones are not.
_FEW_BOUNDED = 512 if C is None else 1 << 62
_PLAIN = frozenset((int, float, type(None)))


def _clamp_few(a: Any, low: Any, high: Any, out: Any, numbers: Any) -> Any:
    """Plain numbers, and few elements where nothing is compiled."""
    if low is None:
        return _minimum(a, numbers[high], out=out)
    if C is not None and high is not None and low == low and high == high:
        made = C.hardtanh(a, low, high, out)  # both bounds in one pass; nan is no bound there
        if made is not None:
            return made
    a = _maximum(a, numbers[low], out=out)
    return a if high is None else _minimum(a, numbers[high], out=a if isinstance(a, np.ndarray) else None)


def clamp_integers(a: Any, low: Any, high: Any) -> Any:
    """``clamp`` of int64 by Python integers, one of which may be None."""
    if low is None and high is None:
        raise ValueError("no bound")
    return _clamp_few(a, low, high, None, _I64)


def _is_array(bound: Any) -> bool:
    return isinstance(bound, np.ndarray) and bound.ndim > 0


# --- exponents --------------------------------------------------------------------------------------------------------


def ldexp(a: Any, b: Any, out: Any = None) -> Any:
    """`a * 2 ** b`"""
    return np.multiply(a, np.exp2(b), out=out)


def frexp(a: Any) -> tuple[Any, Any]:
    """Mantissa and exponent."""
    mantissa, exponent = np.frexp(a)
    return np.asarray(mantissa), np.asarray(exponent, np.int32)
