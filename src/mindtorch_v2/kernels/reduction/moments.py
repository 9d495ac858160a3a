"""Owns variances and deviations, with the means they are taken around.

``dim`` is as for the other reductions, in ``reduce``.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ..compiled import C, stand_in
from ..passes import number
from ..precision import narrow, wide
from ..totals import COLUMN_TERMS, ONES, SMALL, Array, reduced_shape, sum_of_squares, total
from .reduce import FLOAT32, Dim, DType, added_up, average, plain_axis, reduction_axes, slice_size

_FEW = 4096  # up to this many elements the compiled loop finds variances
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_divide, _multiply, _square = stand_in(np.divide), stand_in(np.multiply), stand_in(np.square)


def var(a: Array, dim: Dim = None, correction: float = 1, keepdim: bool = False) -> Array:
    """Variance with divisor ``n - correction``; the variance of complex numbers is real."""
    _require_continuous("std and var", a)
    few = _spread_of_few(a, dim, correction, keepdim, False)
    return few if few is not None else _narrow_real(_moments("var", a, dim, correction, keepdim)[0], a.dtype)


def std(a: Array, dim: Dim = None, correction: float = 1, keepdim: bool = False) -> Array:
    """Square root of ``var``."""
    _require_continuous("std and var", a)
    few = _spread_of_few(a, dim, correction, keepdim, True)
    if few is not None:
        return few
    variance = _moments("std", a, dim, correction, keepdim)[0]
    return _narrow_real(np.sqrt(variance, out=variance), a.dtype)


def _spread_of_few(a: Array, dim: Dim, correction: float, keepdim: bool, root: bool) -> Any:
    """What the compiled loop for few elements finds, so that they have one value whichever way led here; or None."""
    if C is None or not 0 < a.size <= _FEW or not (a.dtype is _F32 or a.dtype is _F64):
        return None
    if isinstance(dim, (tuple, list)) and len(dim) == 1 and type(dim[0]) is int:
        dim = dim[0]
    return C.variance(a, dim, keepdim, correction, root) if dim is None or type(dim) is int else None


def var_mean(a: Array, dim: Dim = None, correction: float = 1, keepdim: bool = False) -> tuple[Array, Array]:
    """Variance and mean of the same slices."""
    _require_continuous("var_mean", a)
    variance, center = _moments("var_mean", a, dim, correction, keepdim)
    return _narrow_real(variance, a.dtype), narrow(center, a.dtype)


def std_mean(a: Array, dim: Dim = None, correction: float = 1, keepdim: bool = False) -> tuple[Array, Array]:
    """Standard deviation and mean of the same slices."""
    _require_continuous("std_mean", a)
    variance, center = _moments("std_mean", a, dim, correction, keepdim)
    return _narrow_real(np.sqrt(variance, out=variance), a.dtype), narrow(center, a.dtype)


def _require_continuous(name: str, a: Array) -> None:
    if a.dtype.kind in "biu":
        raise RuntimeError(f"{name} only support floating point and complex dtypes")


def _narrow_real(a: Array, dtype: DType) -> Array:
    return a if dtype.kind == "c" else narrow(a, dtype)


def _quick_moments(a: Array, dim: Dim, correction: float, keepdim: bool) -> tuple[Array, Array] | None:
    """Moments of all or along one dimension, by compiled loops; None where these do not take them."""
    if C is None or not a.size or not a.ndim:
        return None
    if a.dtype is not FLOAT32:
        return _few_moments(a, dim, correction, keepdim)
    shape, one = a.shape, (1,) if keepdim else ()
    if dim is None:
        n, kept = a.size, one * a.ndim
    elif dim == -1 or dim == a.ndim - 1:
        n, kept = shape[-1], shape[:-1] + one
    elif dim == 0:
        n, kept = shape[0], one + shape[1:]
    else:
        return _few_moments(a, dim, correction, keepdim)
    if n <= correction:
        return None
    center, squares = np.empty(kept, FLOAT32), np.empty(kept, FLOAT32)
    channels = (n, squares.size, 1) if dim == 0 and a.ndim > 1 else (1, squares.size, n)
    if not C.channel_moments(a.reshape(channels), center, squares):
        return None
    return _multiply(squares, number(n / (n - correction), FLOAT32), out=squares), center


def _few_moments(a: Array, dim: Dim, correction: float, keepdim: bool) -> tuple[Array, Array] | None:
    """Moments of a few floats of one type in two sums; None for more, and for what needs a warning."""
    whole = dim is None
    x, axis = (a.reshape(-1), 0) if whole else (a, plain_axis(a, dim, None))
    if axis is None or a.size > SMALL or not (a.dtype is _F32 or a.dtype is _F64):
        return None
    n = x.shape[axis]
    if n <= correction:
        return None
    center = added_up(x, axis, True)
    center = _divide(center, number(n, a.dtype), out=center)
    squares = added_up(_square(x - center), axis, keepdim)
    squares = _divide(squares, number(n - correction, a.dtype), out=squares)
    shape = (1,) * a.ndim if whole and keepdim else squares.shape if not whole else ()
    return squares.reshape(shape), center.reshape(shape)


def _column_moments(a: Array, correction: float, keepdim: bool) -> tuple[Array, Array]:
    """Moments of each column of a matrix that is not long."""
    n = len(a)
    ones = ONES[FLOAT32][:n]
    center = ones.dot(a)
    center = _divide(center, number(n, FLOAT32), out=center)
    squares = ones.dot(np.square(a - center))
    squares = _divide(squares, number(n - correction, FLOAT32), out=squares)
    return (squares.reshape(1, -1), center.reshape(1, -1)) if keepdim else (squares, center)


def _moments(name: str, a: Array, dim: Dim, correction: float, keepdim: bool) -> tuple[Array, Array]:
    """Variance (always real) and mean, both wide."""
    if (dim is None or type(dim) is int) and (dim != 0 or a.size <= SMALL):
        quick = _quick_moments(a, dim, correction, keepdim)
        if quick is not None:
            return quick
    if dim == 0 and a.ndim == 2 and a.dtype is FLOAT32 and correction < len(a) <= COLUMN_TERMS and a.flags.c_contiguous:
        return _column_moments(a, correction, keepdim)
    axes = reduction_axes(dim, a.ndim)
    x = wide(a)
    n = slice_size(x, axes)
    if n <= correction:
        warnings.warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
            "(input numel divided by output numel).",
            stacklevel=4,
        )
    elif (
        C is not None
        and x.dtype is FLOAT32
        and (axes is None or sorted(axes) == list(range(x.ndim - len(axes), x.ndim)))
    ):
        shape = reduced_shape(x.shape, tuple(range(x.ndim)) if axes is None else axes, keepdim)
        center, squares = np.empty(shape, x.dtype), np.empty(shape, x.dtype)
        if C.channel_moments(x.reshape(1, squares.size, n), center, squares):
            squares *= n / (n - correction)
            return squares, center
    center = average(x, axes, True)
    off = np.asarray(x - center)
    if off.dtype.kind == "c":
        squares = total(np.square(off.real) + np.square(off.imag), axes, keepdim)
    else:
        squares = sum_of_squares(off, axes, keepdim)
    if n == 0 or n <= correction:
        squares = np.where(squares > 0, squares.dtype.type(math.inf), squares.dtype.type(math.nan))
    else:
        squares /= n - correction
    return squares, center.reshape(squares.shape)
