"""Owns the gamma function's logarithm and its derivatives: lgamma, digamma, polygamma, the Hurwitz zeta function, beta.

The real line falls into three parts: a rational function near the zeros, another up to where Stirling's series begins,
and the series; what lies left of zero is reflected.
"""

from __future__ import annotations

import math

import numpy as np

from ..blockwise import Array, Block, elementwise, fill, horner, ratio, run
from .tables import (
    DIGAMMA_FAR,
    DIGAMMA_MID,
    DIGAMMA_NEAR,
    DIGAMMA_ZERO,
    LGAMMA_MID,
    LGAMMA_NEAR,
    STIRLING,
    TRIGAMMA_FAR,
    TRIGAMMA_NEAR,
)

_FAR = 9.0  # where the asymptotic series begin
_LOG_PI = math.log(math.pi)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)

# The Euler-Maclaurin sum of the zeta function: so many plain terms, then B_2k / (2k)! for the correction.
_ZETA_TERMS = 10
_ZETA_CORRECTION = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000, 43867 / 5109094217170944000, -174611 / 802857662698291200000,
)  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- lgamma


@elementwise
def lgamma(x: Block, out: Block) -> None:
    """log|Γ(x)|: inf at the poles and at ±inf."""
    out[...] = x
    fill(out, x > 0, positive_lgamma, x)
    fill(out, x <= 0, _reflected_lgamma, x)


def positive_lgamma(x: Block) -> Block:
    """log Γ(x) for x > 0."""
    value = np.empty_like(x)
    fill(value, x < 3.0, _lgamma_near, x)
    fill(value, (x >= 3.0) & (x < _FAR), lambda x: (x - 2.0) * ratio(x - 3.0, LGAMMA_MID), x)
    fill(value, x >= _FAR, _lgamma_far, x)
    return value


def lgamma1p(t: Block) -> Block:
    """log Γ(1 + t) for 0 <= t <= 2, exact in relative terms at both its zeros."""
    value = t * (t - 1.0)
    value *= ratio(t, LGAMMA_NEAR)
    value += 0.0  # log Γ(1) is 0, not -0
    return value


def stirling(x: Block) -> Block:
    """What Stirling's formula leaves out of log Γ(x), for x >= 9."""
    return horner(1.0 / (x * x), STIRLING) / x


def _lgamma_near(x: Block) -> Block:
    below = x < 1.0
    value = lgamma1p(np.where(below, x, x - 1.0))
    fill(value, below, lambda value, x: value - np.log(x), value, x)
    return value


def _lgamma_far(x: Block) -> Block:
    # Written as a product so that infinity stays infinity.
    value = np.log(x)
    value -= 1.0
    value *= x - 0.5
    value += stirling(x)
    value += _LOG_SQRT_2PI - 0.5
    return value


def _reflected_lgamma(x: Block) -> Block:
    value: Block = _LOG_PI - np.log(np.abs(np.sin(math.pi * _to_nearest(x)))) - positive_lgamma(1.0 - x)
    value[x == np.floor(x)] = math.inf
    return value


def _to_nearest(x: Block) -> Block:
    """The signed distance from the nearest integer, which is exact, hence sines of π x are good for any x."""
    distance: Block = x - np.rint(x)
    return distance


# ----------------------------------------------------------------------------------------------- digamma and polygamma


@elementwise
def digamma(x: Block, out: Block) -> None:
    """The derivative of lgamma: ∓inf at ±0, nan at the other poles."""
    out[...] = x
    fill(out, x > 0, _positive_digamma, x)
    fill(out, x < 0, _reflected_digamma, x)
    fill(out, x == 0, lambda x: -1.0 / x, x)


def _positive_digamma(x: Block) -> Block:
    value = np.empty_like(x)
    fill(value, x < 3.0, _digamma_near, x)
    fill(value, (x >= 3.0) & (x < _FAR), lambda x: ratio(x - 3.0, DIGAMMA_MID), x)
    fill(value, x >= _FAR, _digamma_far, x)
    return value


def _digamma_near(x: Block) -> Block:
    below = x < 1.0
    t = np.where(below, x, x - 1.0)
    value = ratio(t, DIGAMMA_NEAR)
    value *= (t - (DIGAMMA_ZERO[0] - 1.0)) - DIGAMMA_ZERO[1]
    fill(value, below, lambda value, x: value - 1.0 / x, value, x)
    return value


def _digamma_far(x: Block) -> Block:
    inverse = 1.0 / x
    square = inverse * inverse
    value: Block = np.log(x)
    value -= 0.5 * inverse + square * horner(square, DIGAMMA_FAR)
    return value


def _reflected_digamma(x: Block) -> Block:
    value: Block = _positive_digamma(1.0 - x) - math.pi / np.tan(math.pi * _to_nearest(x))
    value[x == np.floor(x)] = math.nan
    return value


@elementwise
def trigamma(x: Block, out: Block) -> None:
    """The derivative of digamma: inf at the poles."""
    out[...] = x
    fill(out, x > 0, _positive_trigamma, x)
    fill(out, x <= 0, lambda x: (math.pi / np.sin(math.pi * _to_nearest(x))) ** 2 - _positive_trigamma(1.0 - x), x)


def _positive_trigamma(x: Block) -> Block:
    value = np.empty_like(x)
    fill(value, x < 1.0, lambda x: ratio(x, TRIGAMMA_NEAR) + 1.0 / (x * x), x)
    fill(value, (x >= 1.0) & (x < 4.0), lambda x: ratio(x - 1.0, TRIGAMMA_NEAR), x)
    fill(value, x >= 4.0, lambda x: ratio(1.0 / x, TRIGAMMA_FAR) / x, x)
    return value


def polygamma(n: int, x: Array, out: Array | None = None) -> Array:
    """The n-th derivative of digamma."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n < 2:
        return (trigamma if n else digamma)(x, out=out)
    scale = float(math.factorial(n)) if n <= 170 else math.inf
    order = np.array(n + 1.0)

    def kernel(x: Block, out: Block) -> None:
        _zeta(np.broadcast_to(order, x.shape), x, out)
        out *= scale if n % 2 else -scale

    kernel.__name__ = "polygamma"
    return run(kernel, x, out=out)


# Terms of a sum that are worked out at a time, and how many bytes of them there may be: some ten seconds are spent on these.
_TERMS, _MOST_TERM_BYTES = 4096, 1 << 28


def mvlgamma(x: Array, p: int, out: Array | None = None) -> Array:
    """The multivariate lgamma of dimension p."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if 8 * x.size * p > _MOST_TERM_BYTES:
        raise MemoryError(f"the {p} terms of each of {x.size} elements take {8 * x.size * p} bytes; use a smaller p")

    def kernel(x: Block, out: Block) -> None:
        out[...] = 0.25 * p * (p - 1) * _LOG_PI
        step = max(_TERMS // x.size, 1) if p > 64 else 1
        for start in range(0, p, step):
            shifts = 0.5 * np.arange(start, min(start + step, p))
            shifted = (x - shifts[:, None]).reshape(-1)
            part = shifted.copy()
            fill(part, shifted > 0, positive_lgamma, shifted)
            fill(part, shifted <= 0, _reflected_lgamma, shifted)
            out += part.reshape(len(shifts), -1).sum(axis=0)

    kernel.__name__ = "mvlgamma"
    return run(kernel, x, out=out)


# --------------------------------------------------------------------------------------------------------------- zeta


def _zeta(s: Block, q: Block, out: Block) -> None:
    """The Hurwitz zeta function Σ (q + k)^-s: inf at its poles, nan for s < 1, and for q < 0 unless s is whole."""
    out[...] = math.nan
    whole = q == np.floor(q)
    fill(out, (q > 0) & (q < math.inf), _positive_zeta, s, q)
    fill(out, (q < 0) & ~whole & (s == np.floor(s)), _reflected_zeta, s, q)
    out[(q <= 0) & whole] = math.inf
    out[s < 1] = math.nan
    out[s == 1] = math.inf


zeta = elementwise(_zeta)


def _positive_zeta(s: Block, q: Block) -> Block:
    total = np.zeros_like(q)
    for k in range(_ZETA_TERMS):
        total += np.power(q + k, -s)
    start = q + _ZETA_TERMS
    power = np.power(start, -s)
    rest = power * start / (s - 1.0) + 0.5 * power
    factor = s * power / start
    for k, weight in enumerate(_ZETA_CORRECTION):
        rest += weight * factor
        factor *= (s + (2 * k + 1)) / start * ((s + (2 * k + 2)) / start)
    # Where nothing of the tail is left in floats its formula can still say 0 * inf.
    total += np.where(power > 0, rest, 0.0)
    return total


def _reflected_zeta(s: Block, q: Block) -> Block:
    """The sum over all integers less what it has too much, with the fraction of q in place of q."""
    above, below = q - np.floor(q), np.ceil(q) - q
    sign = np.where(s % 2 == 0, 1.0, -1.0)
    return _positive_zeta(s, above) + sign * (_positive_zeta(s, below) - _positive_zeta(s, 1.0 - q))


# --------------------------------------------------------------------------------------------------------------- beta


@elementwise
def betaln(a: Block, b: Block, out: Block) -> None:
    """log B(a, b) for positive a and b, without the cancellation of lgamma(a) + lgamma(b) - lgamma(a + b)."""
    small, large = np.minimum(a, b), np.maximum(a, b)
    out[...] = math.nan
    fill(out, (small > 0) & (large < _FAR), _betaln_near, small, large)
    fill(out, (small > 0) & (small < _FAR) & (large >= _FAR), _betaln_mixed, small, large)
    fill(out, (small >= _FAR), _betaln_far, small, large)
    out[small == 0] = math.inf


def _betaln_near(a: Block, b: Block) -> Block:
    return positive_lgamma(a) + positive_lgamma(b) - positive_lgamma(a + b)


def _betaln_mixed(a: Block, b: Block) -> Block:
    """lgamma(b) - lgamma(a + b) by Stirling's formula, whose large terms cancel on paper."""
    shift = -(b - 0.5) * np.log1p(a / b) - a * (np.log(a + b) - 1.0)
    return positive_lgamma(a) + shift + (stirling(b) - stirling(a + b))


def _betaln_far(a: Block, b: Block) -> Block:
    ratio_ = a / b
    value = -(b - 0.5) * np.log1p(ratio_) - 0.5 * np.log(b) + _LOG_SQRT_2PI
    value += (a - 0.5) * (np.log(ratio_) - np.log1p(ratio_)) - 0.5 * np.log1p(ratio_)
    return value + (stirling(a) + stirling(b) - stirling(a + b))
