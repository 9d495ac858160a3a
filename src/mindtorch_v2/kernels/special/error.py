"""Owns the error function and its kin: erf, erfc, erfcx, their inverses, and the standard normal distribution.

Everything rests on three tables: erf near zero, erfcx on the right, and the inverse in w = -log(1 - x²).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..blockwise import Block, constants, elementwise, fill, horner, ratio, with_single
from ..compiled import C, exp, in_one_pass
from .tables import ERF, ERF_SINGLE, ERFCX, ERFINV_0, ERFINV_5, ERFINV_15, ERFINV_FAR

_SQRT2 = math.sqrt(2.0)
_SQRT_HALF = np.array(math.sqrt(0.5))
_SQRT_PI = math.sqrt(math.pi)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)

# From here on erf rounds to 1, and so does its table there (an approximation could as well fall one bit short).
_ERF_TOP = np.array(5.98)
# erfcx(x) (1 + x / 2) in 1 / (1 + x / 2), 0 <= x <= 10.5, for float32; off by 2e-7 at most.
_ERFCX_SINGLE = constants(
    0.2820855677127838,
    0.2823900580406189,
    0.24299661815166473,
    0.20310990512371063,
    -0.0276233721524477,
    0.279512494802475,
    -0.4884607791900635,
    0.28518277406692505,
    -0.05919332057237625,
    dtype=np.float32,
)
_ONE_SINGLE = np.ones((), np.float32)
_TAIL_TOP_SINGLE = np.float32(10.5)  # erfc is 0 in float32 a little earlier
_HALF_DIGITS = np.int32(-4096)
_EXP_TOP = 40.0  # exp(±x²) is 0 or inf long before
_ERFCX_TOP = 1e20  # erfcx is 1 / (x sqrt(π)) long before, and its table overflows a little later


def _erf(x: Block, out: Block) -> None:
    """erf(x)."""
    x = np.minimum(np.maximum(x, -_ERF_TOP), _ERF_TOP)  # np.clip takes longer than both on small blocks
    square = x * x
    horner(square, ERF[0], out)
    out *= x
    out /= horner(square, ERF[1])
    np.minimum(np.maximum(out, -1.0, out=out), 1.0, out=out)


def _erf_single(x: Block, out: Block) -> None:
    # The compiled loop has a table of its own: integers and halves, which come here, are to give what float32 gives.
    if C is None or not C.erf(x, out):
        _tanh_of(x, ERF_SINGLE, out)


def _tanh_of(x: Block, coefficients: tuple[Any, ...], out: Block) -> None:
    """tanh(x p(x²)): one polynomial only, and a tanh that NumPy has in vectors and that never exceeds 1. The last
    coefficient is positive, so that whatever is too far out for the table becomes ±1 as well."""
    horner(x * x, coefficients, out)
    out *= x
    np.tanh(out, out)


erf = in_one_pass(with_single(_erf, _erf_single))

# ERF_SINGLE in x / sqrt(2), which spares gelu a pass.
_ERF_OF_HALF_SQUARE = constants(
    *(float(c) * math.sqrt(0.5) * 0.5**k for k, c in enumerate(ERF_SINGLE)), dtype=np.float32
)


def spread_erf(x: Block) -> Block:
    """erf(x / sqrt(2)) of a block of float32 or float64, which is 2 ndtr(x) - 1."""
    out = np.empty_like(x)
    if x.dtype == np.float64:
        _erf(x * _SQRT_HALF, out)
    else:
        _tanh_of(x, _ERF_OF_HALF_SQUARE, out)
    return out


def _erfc(x: Block, out: Block) -> None:
    """1 - erf(x), without cancellation on the right."""
    tail = _right_tail(np.abs(x), 1.0)
    sign = np.copysign(1.0, x)
    np.multiply(tail, sign, out)
    out += 1.0 - sign


def _erfc_single(x: Block, out: Block) -> None:
    tail = _right_tail_single(np.abs(x), 1.0)
    sign = np.copysign(_ONE_SINGLE, x)
    np.multiply(tail, sign, out)
    out += _ONE_SINGLE - sign


erfc = in_one_pass(with_single(_erfc, _erfc_single))


@elementwise
def erfcx(x: Block, out: Block) -> None:
    """exp(x²) erfc(x)."""
    out[...] = scaled_erfc(np.abs(x))
    fill(out, x < 0, lambda left, right: 2.0 * _exp_square(left, 1.0) - right, x, out)


@elementwise
def erfinv(x: Block, out: Block) -> None:
    """The inverse of erf: infinite at ±1, nan beyond."""
    np.multiply(_inverse_factor((1.0 - x) * (1.0 + x)), x, out)


def _ndtr(x: Block, out: Block) -> None:
    """The standard normal distribution function, exact in relative terms on the left."""
    tail = _right_tail(np.abs(x), 0.5)
    tail *= 0.5
    sign = np.copysign(1.0, x)
    np.multiply(tail, -sign, out)
    out += (sign + 1.0) * 0.5


def _ndtr_single(x: Block, out: Block) -> None:
    tail = _right_tail_single(np.abs(x), 0.5)
    tail *= 0.5
    sign = np.copysign(_ONE_SINGLE, x)
    np.multiply(tail, -sign, out)
    sign += 1.0
    sign *= 0.5
    out += sign


ndtr = in_one_pass(with_single(_ndtr, _ndtr_single))


@elementwise
def ndtri(p: Block, out: Block) -> None:
    """The inverse of ndtr: ±inf at 0 and 1, nan outside."""
    np.multiply(_inverse_factor(4.0 * p * (1.0 - p)), 2.0 * p - 1.0, out)
    out *= _SQRT2


@elementwise
def log_ndtr(x: Block, out: Block) -> None:
    """log(ndtr(x)), finite far on the left."""
    out[...] = x
    fill(out, x < -1, lambda x: np.log(0.5 * scaled_erfc(x / -_SQRT2)) - 0.5 * x * x, x)
    fill(out, x >= -1, _log_ndtr_right, x)


@elementwise
def normal_pdf(x: Block, out: Block) -> None:
    """The density of the standard normal distribution."""
    np.multiply(_exp_square(x, -0.5), 1.0 / math.sqrt(2.0 * math.pi), out)


@elementwise
def normal_logpdf(x: Block, out: Block) -> None:
    """log(normal_pdf(x))."""
    np.multiply(x, x, out)
    out *= -0.5
    out -= _LOG_SQRT_2PI


def _right_tail(x: Block, half: float) -> Block:
    """erfc(sqrt(half) x) for x >= 0; half is 1 or ½."""
    tail = _exp_square(x, -half)
    tail *= scaled_erfc(x * math.sqrt(half))
    return tail


def _right_tail_single(x: Block, half: float) -> Block:
    """The same in float32. The square of x cut to half its digits is exact; exp of the small rest is taken apart."""
    x = np.minimum(x, _TAIL_TOP_SINGLE / np.float32(math.sqrt(half)))
    high = (x.view(np.int32) & _HALF_DIGITS).view(np.float32)
    rest = (high - x) * (high + x)
    rest *= half
    high *= high
    high *= -half
    tail = exp(high, out=high)
    tail *= exp(rest, out=rest)
    x *= 0.5 * math.sqrt(half)
    x += 1.0
    t = np.divide(_ONE_SINGLE, x, x)  # np.reciprocal takes twice as long
    tail *= t
    tail *= horner(t, _ERFCX_SINGLE)
    return tail


def _log_ndtr_right(x: Block) -> Block:
    tail = _right_tail(np.abs(x), 0.5)
    tail *= 0.5
    fill(tail, x < 0, lambda tail: 1.0 - tail, tail)
    return np.log1p(np.negative(tail, tail), tail)


def scaled_erfc(x: Block) -> Block:
    """erfcx(x) for x >= 0."""
    value = ratio(x, ERFCX)
    fill(value, x > _ERFCX_TOP, lambda x: 1.0 / (_SQRT_PI * x), x)
    return value


def _exp_square(x: Block, scale: float) -> Block:
    """exp(scale x²) for scale ±1 or ±½.

    Rounding x² would cost up to 700 units in the last place; the square of x in float32 is exact, and exp of the small
    rest is a short series.
    """
    x = np.clip(x, -_EXP_TOP, _EXP_TOP)
    high = x.astype(np.float32).astype(np.float64)
    rest = (x - high) * (x + high) * scale
    high *= high
    high *= scale
    value = np.exp(high, high)
    value *= horner(rest, (1.0, 1.0, 1.0 / 2.0, 1.0 / 6.0))
    return value


def _inverse_factor(product: Block) -> Block:
    """erfinv(x) / x, given (1 - x)(1 + x)."""
    w = -np.log(product)
    factor = w.copy()  # inf at ±1, nan beyond
    fill(factor, w < 5.0, lambda w: ratio(w, ERFINV_0), w)
    fill(factor, (w >= 5.0) & (w < 15.0), lambda w: ratio(w - 5.0, ERFINV_5), w)
    fill(factor, (w >= 15.0) & (w < 37.0), lambda w: ratio(w - 15.0, ERFINV_15), w)
    fill(factor, (w >= 37.0) & (w < math.inf), lambda w: ratio(np.sqrt(w) - 6.0, ERFINV_FAR), w)
    return factor
