"""Owns torch's orthogonal polynomials: Chebyshev (four kinds, plain and shifted), Hermite, Laguerre, Legendre.

The degree is an array of its own: its fraction is dropped, and a polynomial of negative, infinite or nan degree is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ..blockwise import Array, Block, Function, Kernel, elementwise, fill

First: TypeAlias = Callable[[Block], Block]  # the polynomial of degree 1
Step: TypeAlias = Callable[[int, Block, Block, Block], Block]  # of degree k + 1, from k, x and those of k and k - 1
Closed: TypeAlias = Callable[[Block, Block], Block]  # of arccos(x) and the degree

_SOON, _HIGHEST = 1 << 16, 1 << 21  # steps after which degrees are looked at, and the highest that is worked out
_CLOSED_FROM = 9  # degrees from which a Chebyshev polynomial in -1 < x < 1 is cheaper by its cosines


def _polynomial(name: str, first: First, step: Step) -> Function:
    def kernel(x: Block, n: Block, out: Block) -> None:
        _recur(first, step, x, _degree(n), out)

    return _named(name, kernel)


def _chebyshev(name: str, first: First, inside: Closed, at_one: First, at_minus_one: First, shifted: bool) -> Function:
    """A Chebyshev polynomial: its values at ±1 are functions of the degree alone (there up to a sign (-1)^n)."""

    def kernel(x: Block, n: Block, out: Block) -> None:
        if shifted:
            x = 2.0 * x - 1.0
        n = _degree(n)
        high = n >= _CLOSED_FROM
        closed = high & (np.abs(x) <= 1.0)
        _recur(first, _chebyshev_step, x, np.where(closed, 0.0, n), out)
        fill(out, high & (np.abs(x) < 1.0), lambda x, n: inside(np.arccos(x), n), x, n)
        fill(out, high & (x == 1.0), at_one, n)
        fill(out, high & (x == -1.0), lambda n: np.where(n % 2 == 0, 1.0, -1.0) * at_minus_one(n), n)

    return _named(f"{'shifted_' if shifted else ''}{name}", kernel)


def _named(name: str, kernel: Kernel) -> Function:
    kernel.__name__ = kernel.__qualname__ = name
    return elementwise(kernel)


def _degree(n: Block) -> Block:
    return np.where(np.isfinite(n), np.trunc(n), -1.0)


def _recur(first: First, step: Step, x: Block, n: Block, out: Block) -> None:
    """Run the recurrence up to the highest degree, leaving each element's value on the way."""
    highest = int(n.max(initial=0))
    degrees = {int(degree) for degree in np.unique(n)} if n.min(initial=highest) < highest else {highest}
    out[...] = np.where(n == 0, 1.0, 0.0)
    last, value = np.ones_like(x), first(x)
    for k in range(1, highest + 1):
        if k in degrees:
            np.copyto(out, value, where=n == k)
        last, value = value, step(k, x, value, last)
        if k % 64 == 0 and np.isnan(value[n > k]).all():  # what is left of them stays nan, as torch has it
            out[n > k] = math.nan
            break
        if (
            k == _SOON and highest > _HIGHEST
        ):  # by then most have grown beyond all numbers, and the rest would go on for hours
            raise RuntimeError(f"polynomials are computed up to a degree of {_HIGHEST}, got {highest}")


def _chebyshev_step(k: int, x: Block, value: Block, last: Block) -> Block:
    return 2.0 * x * value - last


def _one(n: Array) -> Array:
    return np.ones_like(n)


def _twice_and_one(n: Array) -> Array:
    return 2.0 * n + 1.0


def _chebyshev_t(shifted: bool) -> Function:
    return _chebyshev("chebyshev_polynomial_t", np.copy, lambda t, n: np.cos(n * t), _one, _one, shifted)


def _chebyshev_u(shifted: bool) -> Function:
    def inside(t: Block, n: Block) -> Block:
        value: Block = np.sin((n + 1.0) * t) / np.sin(t)
        return value

    return _chebyshev(
        "chebyshev_polynomial_u", lambda x: 2.0 * x, inside, lambda n: n + 1.0, lambda n: n + 1.0, shifted
    )


def _chebyshev_v(shifted: bool) -> Function:
    def inside(t: Block, n: Block) -> Block:
        value: Block = np.cos((n + 0.5) * t) / np.cos(0.5 * t)
        return value

    return _chebyshev("chebyshev_polynomial_v", lambda x: 2.0 * x - 1.0, inside, _one, _twice_and_one, shifted)


def _chebyshev_w(shifted: bool) -> Function:
    def inside(t: Block, n: Block) -> Block:
        value: Block = np.sin((n + 0.5) * t) / np.sin(0.5 * t)
        return value

    return _chebyshev("chebyshev_polynomial_w", lambda x: 2.0 * x + 1.0, inside, _twice_and_one, _one, shifted)


chebyshev_polynomial_t = _chebyshev_t(False)
chebyshev_polynomial_u = _chebyshev_u(False)
chebyshev_polynomial_v = _chebyshev_v(False)
chebyshev_polynomial_w = _chebyshev_w(False)
shifted_chebyshev_polynomial_t = _chebyshev_t(True)
shifted_chebyshev_polynomial_u = _chebyshev_u(True)
shifted_chebyshev_polynomial_v = _chebyshev_v(True)
shifted_chebyshev_polynomial_w = _chebyshev_w(True)

hermite_polynomial_h = _polynomial(
    "hermite_polynomial_h", lambda x: 2.0 * x, lambda k, x, value, last: 2.0 * (x * value - k * last)
)
hermite_polynomial_he = _polynomial("hermite_polynomial_he", np.copy, lambda k, x, value, last: x * value - k * last)
laguerre_polynomial_l = _polynomial(
    "laguerre_polynomial_l",
    lambda x: 1.0 - x,
    lambda k, x, value, last: ((2 * k + 1 - x) * value - k * last) / (k + 1),
)
legendre_polynomial_p = _polynomial(
    "legendre_polynomial_p", np.copy, lambda k, x, value, last: ((2 * k + 1) * x * value - k * last) / (k + 1)
)
