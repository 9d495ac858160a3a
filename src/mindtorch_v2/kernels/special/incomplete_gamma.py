"""Owns the regularised incomplete gamma functions P(a, x) = gammainc and Q(a, x) = gammaincc = 1 - P.

Whichever of the two is the small one is computed, so that neither suffers from cancellation: by Temme's uniform
expansion where a is large and x close to it, by the power series left of a, by a continued fraction on the right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ..blockwise import Array, Block, elementwise, fill, ratio
from .error import scaled_erfc
from .gamma import lgamma1p, positive_lgamma, stirling
from .tables import LOG1PMX, TEMME

_UNIFORM_FROM = 20.0  # Temme's expansion is good to 1e-16 from this a on,
_UNIFORM_WIDTH = 0.3  # for x within this fraction of a
_FRACTION_FROM = 1.5  # left of this x the continued fraction is slow and a series for Q takes over
_STEPS = 8  # of a series or a fraction, between two looks at which elements have settled
_MOST_STEPS = 1000  # five times what the slowest element needs

State: TypeAlias = tuple[Block, Array, tuple[Block, ...]]  # values, which of them still change, what comes next

_TEMME: Block = np.array(TEMME).T  # [power of η, power of 1 / a]


@elementwise
def gammainc(a: Block, x: Block, out: Block) -> None:
    """The lower one, P(a, x); nan for negative arguments."""
    _incomplete(a, x, out, upper=False)


@elementwise
def gammaincc(a: Block, x: Block, out: Block) -> None:
    """The upper one, Q(a, x); nan for negative arguments."""
    _incomplete(a, x, out, upper=True)


def _incomplete(a: Block, x: Block, out: Block, upper: bool) -> None:
    out[...] = math.nan
    inside = (a > 0) & (x > 0) & (a < math.inf) & (x < math.inf)
    near = inside & (a >= _UNIFORM_FROM) & (np.abs(x - a) <= _UNIFORM_WIDTH * a)
    right = inside & ~near & np.where(x < 0.5, a * np.log(x) > -0.4, x >= a)  # where Q is the smaller one
    left = inside & ~near & ~right
    fill(out, near, lambda a, x: _uniform(a, x, upper), a, x)
    fill(out, left, lambda a, x: _either(_lower_series(a, x), upper), a, x)
    fill(out, right & (x < _FRACTION_FROM), lambda a, x: _either(_upper_series(a, x), not upper), a, x)
    fill(out, right & (x >= _FRACTION_FROM), lambda a, x: _either(_upper_fraction(a, x), not upper), a, x)
    _fill_edges(a, x, out, upper)


def _fill_edges(a: Block, x: Block, out: Block, upper: bool) -> None:
    """The arguments 0 and inf and the negative ones; torch asks in the opposite order, hence the last one wins."""
    none, all_ = (1.0, 0.0) if upper else (0.0, 1.0)
    out[x == math.inf] = all_
    out[a == math.inf] = none
    out[(a == math.inf) & (x == math.inf)] = math.nan
    out[x == 0] = none
    out[a == 0] = math.nan
    out[(a == 0) & (x > 0)] = all_
    out[(a < 0) | (x < 0)] = math.nan


def _either(value: Block, complement: bool) -> Block:
    return 1.0 - value if complement else value


# ----------------------------------------------------------------------------------------------------------- far from a


def _lower_series(a: Block, x: Block) -> Block:
    """P(a, x) for x < a: its prefactor times Σ x^n / ((a + 1) ... (a + n))."""

    def advance(n: int, a: Block, x: Block, term: Block, total: Block) -> State:
        for k in range(n, n + _STEPS):
            term = term * (x / (a + k))
            total = total + term
        return total, term > 1e-17 * total, (a, x, term, total)

    one = np.ones_like(x)
    return _times_prefactor(a, x, lambda a, x: _settle(advance, a, x, one[: x.size], one[: x.size]))


def _upper_fraction(a: Block, x: Block) -> Block:
    """Q(a, x) for x >= a: Legendre's continued fraction, as the quotient of two sequences of one recurrence."""

    def advance(n: int, a: Block, x: Block, top: Block, last_top: Block, bottom: Block, last_bottom: Block) -> State:
        before = top
        for k in range(n, n + _STEPS):
            factor, weight = x - a + (2 * k + 1), k * (a - k)
            top, last_top = factor * top + weight * last_top, top
            bottom, last_bottom = factor * bottom + weight * last_bottom, bottom
        # Scaled so that the quotient is `top` itself, and the sequences cannot overflow.
        top, last_top, last_bottom = top / bottom, last_top / bottom, last_bottom / bottom
        state = (a, x, top, last_top, np.ones_like(top), last_bottom)
        return top, np.abs(top - before) > 4e-16 * np.abs(top), state

    def fraction(a: Block, x: Block) -> Block:
        start = 1.0 / (x + 1.0 - a)
        return a * _settle(advance, a, x, start, np.zeros_like(x), np.ones_like(x), start)

    return _times_prefactor(a, x, fraction)


def _settle(advance: Callable[..., State], *state: Block) -> Block:
    """Advance a sequence by _STEPS at a time, keeping to the elements whose value still changes."""
    positions = np.arange(state[0].size)
    value = np.empty_like(state[0])
    for n in range(1, _MOST_STEPS, _STEPS):
        value[positions], moving, state = advance(n, *state)
        kept = np.flatnonzero(moving)
        if kept.size < positions.size:
            positions = positions[kept]
            state = tuple(part[kept] for part in state)
        if not kept.size:
            break
    return value


def _times_prefactor(a: Block, x: Block, formula: Callable[[Block, Block], Block]) -> Block:
    """The prefactor times what the formula says, which is not asked where the prefactor is 0 already."""
    value = _prefactor(a, x)
    fill(value, value > 0, lambda value, a, x: value * formula(a, x), value, a, x)
    return value


def _upper_series(a: Block, x: Block) -> Block:
    """Q(a, x) for x < 1.5: 1 less the series of P at -x, their leading parts subtracted on paper."""
    exponent = a * np.log(x) - lgamma1p(a)
    term = np.ones_like(x)
    total = np.zeros_like(x)
    for n in range(1, 24):
        term *= x / -n
        total += term / (a + n)
    return -np.expm1(exponent) - np.exp(exponent) * a * total


def _prefactor(a: Block, x: Block) -> Block:
    """x^a exp(-x) / Γ(a + 1); for large a through (x - a) / a, since its factors are huge and nearly cancel."""
    value = np.empty_like(x)
    fill(value, a < 9.0, lambda a, x: np.exp(a * np.log(x) - x - positive_lgamma(a + 1.0)), a, x)
    fill(value, a >= 9.0, lambda a, x: np.exp(-a * _excess(a, x) - stirling(a)) / np.sqrt(2.0 * math.pi * a), a, x)
    return value


def _excess(a: Block, x: Block) -> Block:
    """m - log(1 + m) for m = (x - a) / a."""
    m = (x - a) / a
    value = m - np.log(x / a)
    fill(value, (m > -0.5) & (m < 1.0), lambda m: m * m * ratio(m + 0.5, LOG1PMX), m)
    return value


# ----------------------------------------------------------------------------------------------------------- close to a


def _uniform(a: Block, x: Block, upper: bool) -> Block:
    """P or Q for x close to a large a, as Temme writes them: a normal tail and a correction."""
    m = (x - a) / a
    half_eta_squared = m * m * ratio(m + 0.5, LOG1PMX)
    eta = np.copysign(np.sqrt(2.0 * half_eta_squared), m)
    side = np.copysign(1.0, m)
    correction = np.polynomial.polynomial.polyval2d(eta, 1.0 / a, _TEMME) / np.sqrt(2.0 * math.pi * a)
    value = 0.5 * scaled_erfc(np.abs(eta) * np.sqrt(0.5 * a)) + side * correction
    value *= np.exp(-a * half_eta_squared)
    result: Block = np.where((side > 0) == upper, value, 1.0 - value)
    return result
