"""Owns the special functions that are short formulas of exp and log: expit, logit, entropy, sinc, log-sums.

They are computed in the dtype they are wanted in, as torch computes them; 16-bit floats in float32.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..blockwise import Array, Block, Function, Kernel, fill, horner, ratio, run, with_single
from ..compiled import C
from .tables import LOG1P, LOG1P_SINGLE


def _native(kernel: Kernel) -> Function:
    return with_single(kernel, kernel)


@_native
def expit(x: Block, out: Block) -> None:
    """The logistic function 1 / (1 + exp(-x))."""
    np.negative(x, out)
    np.exp(out, out)
    out += 1.0
    np.reciprocal(out, out)


def logit(x: Array, eps: float | None = None, out: Array | None = None) -> Array:
    """log(x / (1 - x)), with x clamped to [eps, 1 - eps] unless eps is None or negative."""

    def kernel(x: Block, out: Block) -> None:
        if eps is not None and eps >= 0:
            low = x.dtype.type(eps)
            high = 1 - low
            # Not np.clip: with eps above ½ torch lets the lower bound win.
            x = np.where(x < low, low, np.where(x > high, high, x))
        np.log(np.divide(x, 1.0 - x, out), out)
        # The quotient is close to 1 here, and its logarithm would have its rounding error only.
        fill(out, (x > 0.25) & (x < 0.75), lambda x: np.log1p((2.0 * x - 1.0) / (1.0 - x)), x)

    kernel.__name__ = "logit"
    return run(kernel, x, out=out, single=kernel)


@_native
def entr(x: Block, out: Block) -> None:
    """-x log(x): 0 at 0, -inf on the left."""
    zero, left = x == 0, x < 0
    np.multiply(np.log(x), -x, out)
    out[zero] = 0.0
    out[left] = -math.inf


@_native
def _xlogy(x: Block, y: Block, out: Block) -> None:
    """x log(y), and 0 where x is 0 unless y is nan."""
    zero = (x == 0) & (y == y)
    np.multiply(x, np.log(y), out)
    out[zero] = 0.0


def xlogy(x: Any, y: Any, out: Any = None) -> Any:
    """x log(y), and 0 where x is 0 unless y is nan; of few floats by one compiled loop."""
    few = None if C is None or out is not None else C.x_log_y(x, y)
    return _xlogy(x, y, out=out) if few is None else few


@_native
def xlog1py(x: Block, y: Block, out: Block) -> None:
    """x log(1 + y), and 0 where x is 0 unless y is nan."""
    zero = (x == 0) & (y == y)
    np.multiply(x, np.log1p(y), out)
    out[zero] = 0.0


@_native
def sinc(x: Block, out: Block) -> None:
    """sin(πx) / (πx), and 1 at 0."""
    zero = x == 0
    angle = x * math.pi
    np.divide(np.sin(angle), angle, out)
    out[zero] = 1.0


def _log1pexp(x: Block, out: Block) -> None:
    """log(1 + exp(x)), which is softplus, without overflow."""
    np.add(np.maximum(x, 0.0), _tail(np.abs(x)), out)


def _logaddexp(a: Block, b: Block, out: Block) -> None:
    """log(exp(a) + exp(b)), without overflow."""
    top = np.maximum(a, b)
    equal = a == b  # equal infinities have no difference
    np.add(top, _tail(np.abs(a - b)), out)
    fill(out, equal, lambda top: top + math.log(2.0), top)


def _tail(distance: Block) -> Block:
    """log(1 + exp(-distance)), by a table several times faster than np.log1p."""
    np.negative(distance, distance)
    x: Block = np.exp(distance, distance)
    value = ratio(x, LOG1P) if x.dtype == np.float64 else horner(x, LOG1P_SINGLE)
    value *= x
    return value


log1pexp = _native(_log1pexp)
logaddexp = _native(_logaddexp)
