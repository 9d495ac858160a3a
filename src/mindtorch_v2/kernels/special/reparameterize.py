"""How a gamma or Dirichlet sample moves with its parameter at a fixed quantile: -(dF/dα) / pdf, by power series of the
distribution function differentiated term by term.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .gamma import digamma

_MANY_TERMS = 100_000
_NORMAL_FROM = 1e4  # shapes from here on: the quantile's expansion in powers of 1/√α is exact to double precision


def gamma_gradient(alpha: Any, x: Any) -> Any:
    """dx/dα of standard gamma samples x."""
    a, x64 = (np.asarray(v, np.float64) for v in np.broadcast_arrays(alpha, x))
    made = np.where(np.isnan(a) | np.isnan(x64), np.nan, 0.0)
    large = a >= _NORMAL_FROM
    small = (a > 0) & ~large & (x64 > 0)
    made[large] = _gamma_normal(a[large], x64[large])
    made[small] = _gamma_series(a[small], x64[small])
    return made.astype(np.result_type(alpha, x))


def _gamma_series(a: Any, x: Any) -> Any:
    """P(a, x) is xᵃ e⁻ˣ / Γ(a+1) times the sum of xⁿ / ((a+1)…(a+n))."""
    total, weighted = _sums(lambda n: x / (a + n), lambda n: -1 / (a + n), a.shape)
    with np.errstate(all="ignore"):
        return -x / a * ((np.log(x) - _digamma(a + 1)) * total + weighted)


def _gamma_normal(a: Any, x: Any) -> Any:
    """By Cornish and Fisher: x = a + z√a + (z²-1)/3 + (z³-7z)/(36√a), differentiated at fixed z."""
    root = np.sqrt(a)
    z = (x - a) / root
    for _ in range(4):
        z = (x - a - (z * z - 1) / 3 - (z**3 - 7 * z) / (36 * root)) / root
    return 1 + z / (2 * root) - (z**3 - 7 * z) / (72 * a * root) + (3 * z**4 + 7 * z**2 - 16) / (810 * a * a)


def dirichlet_gradient(x: Any, alpha: Any, total: Any) -> Any:
    """dx/dα / (1 - x) of samples x of Beta(α, total - α)."""
    parts = [np.asarray(v, np.float64) for v in np.broadcast_arrays(x, alpha, total)]
    x64, a, t = parts
    made = np.zeros(x64.shape)
    below = np.where(x64 * t <= a, x64 <= 0.9, x64 < 0.1)
    made[below] = _beta_below(*(v[below] for v in parts))
    made[~below] = _beta_above(*(v[~below] for v in parts))
    return made.astype(np.result_type(x, alpha, total))


def _beta_below(x: Any, a: Any, t: Any) -> Any:
    """I(x; a, b) is xᵃ (1-x)ᵇ / (a B(a, b)) times the sum of (a+b)ₙ / (a+1)ₙ xⁿ."""
    total, weighted = _sums(lambda n: x * (t + n - 1) / (a + n), lambda n: 1 / (t + n - 1) - 1 / (a + n), x.shape)
    with np.errstate(all="ignore"):
        return -x / a * ((np.log(x) - _digamma(a + 1) + _digamma(t)) * total + weighted)


def _beta_above(x: Any, a: Any, t: Any) -> Any:
    """The same series for 1 - x, whose second parameter α is."""
    b, y = t - a, 1 - x
    total, weighted = _sums(lambda n: y * (t + n - 1) / (b + n), lambda n: 1 / (t + n - 1), x.shape)
    with np.errstate(all="ignore"):
        return x / b * ((np.log(x) - _digamma(a) + _digamma(t)) * total + weighted)


def _sums(ratio: Callable[[int], Any], slope: Callable[[int], Any], shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The sum of the terms whose quotients are `ratio(n)`, and of the terms times the sums of `slope(1…n)`."""
    term, slopes = np.ones(shape), np.zeros(shape)
    total, weighted = np.ones(shape), np.zeros(shape)
    with np.errstate(all="ignore"):
        for n in range(1, _MANY_TERMS):
            quotient = ratio(n)
            term = term * quotient
            slopes = slopes + slope(n)
            total = total + term
            weighted = weighted + term * slopes
            if not np.any((term > 1e-17 * total) | (quotient >= 1)):
                break
    return total, weighted


def _digamma(x: Any) -> Any:
    return digamma(np.asarray(x))
