"""Rows of functions of matrices and tensors as linear maps: exponentials, tensor equations, Vandermonde matrices, inner
products along a dimension, covariances."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ...core.errors import wrap_dim
from ...core.tensor import make
from ...dispatch.op import composite, op
from ...kernels.checks import type_name
from ...kernels.precision import widened
from ..meta import shapes
from ..pointwise.complex import complex as complex_row
from ..shape.join import cat
from ..shape.permute import movedim, t
from ..shape.view import expand, reshape, unsqueeze
from .base import mH, raise_failed, require_float, require_same_dtype, require_square
from .matmul import matmul
from .products import conj, mm
from .solve import inv_ex, solve

complex_of = complex_row.function

# --- exponentials -----------------------------------------------------------------------------------------------------

# Numerator of the diagonal Padé approximant of degree 13; the denominator has the same with alternating signs.
_PADE = tuple(
    math.factorial(26 - j) * math.factorial(13) / (math.factorial(26) * math.factorial(j) * math.factorial(13 - j))
    for j in range(14)
)
_PADE_RADIUS = 5.37  # up to this norm the approximant is exact to double precision


def _exponential(a: Any) -> Any:
    """Scaling and squaring: each matrix is halved until its norm is small, and the approximant squared back."""
    size = np.abs(a).sum(-2).max(-1)
    halvings = np.zeros(size.shape, np.int64)
    large = np.isfinite(size) & (size > _PADE_RADIUS)
    halvings[large] = np.ceil(np.log2(size[large] / _PADE_RADIUS)).astype(np.int64)
    x = a / np.exp2(halvings)[..., None, None]
    eye = np.eye(a.shape[-1], dtype=a.dtype)
    powers = [eye, x @ x]
    for _ in range(5):
        powers.append(powers[-1] @ powers[1])
    odd = x @ sum(_PADE[2 * i + 1] * powers[i] for i in range(7))
    even = sum(_PADE[2 * i] * powers[i] for i in range(7))
    result = np.linalg.solve(even - odd, even + odd)
    for step in range(int(halvings.max(initial=0))):
        result = np.where((halvings > step)[..., None, None], result @ result, result)
    return result


def _exponential_gradient(g: Any, self: Any) -> Any:
    """The derivative of the exponential stands in a corner of the exponential of a matrix of twice the size."""
    n = self._a.shape[-1]
    if self._a.size == 0:
        return g * 0
    adjoint = mH(self)
    top = cat([adjoint, g], -1)
    bottom = cat([adjoint.new_zeros(adjoint._a.shape), adjoint], -1)
    return matrix_exponential(cat([top, bottom], -2)).narrow(-2, 0, n).narrow(-1, n, n)


@op(
    "linalg_matrix_exp(Tensor self) -> Tensor",
    meta=shapes.like_nth(0),
    method=False,
    out=False,
    self=lambda g, self: _exponential_gradient(g, self),
)
@widened
def _matrix_exp(a: Any) -> Any:
    require_square(a, "linalg.matrix_exp")
    require_float(a, "linalg.matrix_exp")
    if a.size == 0:
        return a.copy()
    if not np.isfinite(a).all():
        return np.full_like(a, math.nan)
    with np.errstate(all="ignore"):
        return _exponential(a.astype(np.result_type(a.dtype, np.float64))).astype(a.dtype)


matrix_exponential = _matrix_exp.function
matrix_exp = composite("matrix_exp(Tensor self) -> Tensor")(lambda self: matrix_exponential(self)).function


linalg_matmul = composite("linalg_matmul(Tensor self, Tensor other) -> Tensor", method=False, out=True)(
    lambda self, other: matmul(self, other)
).function


# --- tensors as maps --------------------------------------------------------------------------------------------------


@composite("linalg_tensorinv(Tensor self, int ind=2) -> Tensor", autocast="float32", method=False, out=True)
def _tensorinv(self: Any, ind: int) -> Any:
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    shape = self._a.shape
    rows, columns = math.prod(shape[:ind]), math.prod(shape[ind:])
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{columns} != {rows}"
        )
    result, info = inv_ex(reshape(self, (columns, rows)))
    raise_failed(info._a, "inv")
    return reshape(result, (*shape[ind:], *shape[:ind]))


@composite(
    "linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor",
    autocast="float32",
    method=False,
    out=True,
)
def _tensorsolve(self: Any, other: Any, dims: Any) -> Any:
    if dims is not None:
        ndim = self._a.ndim
        moved = [wrap_dim(d, ndim) for d in dims]
        self = movedim(self, moved, list(range(ndim - len(moved), ndim)))
    shape, count = self._a.shape, other._a.ndim
    result = shape[count:]
    rows, columns = math.prod(shape[:count]), math.prod(result)
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but "
            f"got {columns} != {rows}"
        )
    return reshape(solve(reshape(self, (columns, rows)), other.flatten()), result)


# --- Vandermonde matrices and inner products --------------------------------------------------------------------------


@composite("linalg_vander(Tensor x, *, int? N=None) -> Tensor")
def _vander(x: Any, N: Any) -> Any:
    if x._a.dtype.kind == "b":
        raise RuntimeError("linalg.vander: boolean inputs are not supported; convert x to a number type first")
    shape = x._a.shape if x._a.ndim else (1,)
    count = shape[-1] if N is None else N
    if count <= 1:
        raise RuntimeError("N must be greater than 1.")
    column = unsqueeze(x if x._a.ndim else reshape(x, (1,)), -1)
    powers = expand(column, (*shape, count - 1)).cumprod(-1)
    return cat([powers.new_ones((*shape, 1)), powers], -1)


@composite("vander(Tensor x, int? N=None, bool increasing=False) -> Tensor", method=False)
def _old_vander(x: Any, N: Any, increasing: bool) -> Any:
    if x._a.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x._a.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    column = unsqueeze(x, -1)
    if x._a.dtype.kind in "iub":
        column = column.to(x.sum().dtype)
    ones = column.new_ones((x._a.shape[0], min(count, 1)))
    powers = ones if count <= 1 else cat([ones, expand(column, (x._a.shape[0], count - 1)).cumprod(-1)], -1)
    return powers if increasing else powers.flip(-1)


@composite("linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor", autocast="lower_precision", out=True)
def _vecdot(x: Any, y: Any, dim: int) -> Any:
    require_same_dtype(x._a, y._a, "linalg.vecdot", ("x", "y"))
    if x._a.ndim == y._a.ndim == 1:
        return x.vdot(y)
    return (conj(x) * y).sum(dim)


# --- covariances ------------------------------------------------------------------------------------------------------


def _check_weights(weights: Any, label: str, kinds: str, kind_name: str, observations: int) -> None:
    if weights is None:
        return
    w = weights._a
    if w.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {label} to have one or fewer dimensions but got {label} with {w.ndim} dimensions"
        )
    if w.dtype.kind not in kinds:
        raise RuntimeError(
            f"cov(): expected {label} to have {kind_name} dtype but got {label} with {type_name(w.dtype)} dtype"
        )
    if w.size != observations:
        raise RuntimeError(
            f"cov(): expected {label} to have the same numel as there are observations in the input but got {w.size} != "
            f"{observations}"
        )
    if w.size and w.min() < 0:
        raise RuntimeError(f"cov(): {label} cannot be negative")


@composite("cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor")
def _cov(self: Any, correction: int, fweights: Any, aweights: Any) -> Any:
    if self._a.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {self._a.ndim} dimensions"
        )
    if self._a.dtype.kind == "b":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows = reshape(self, (1, self._a.size)) if self._a.ndim < 2 else self
    observations = rows._a.shape[1]
    _check_weights(fweights, "fweights", "iu", "integral", observations)
    _check_weights(aweights, "aweights", "f", "floating point", observations)
    return _weighted_cov(rows, correction, fweights, aweights)


def _weighted_cov(rows: Any, correction: int, fweights: Any, aweights: Any) -> Any:
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    if weights is None:
        count: Any = make(np.asarray(rows._a.shape[1]))
        average = rows.sum(1) / count
    else:
        count = weights.sum()
        if weights._a.size and count._a == 0:
            raise RuntimeError("cov(): weights sum to zero, can't be normalized")
        average = (rows * weights).sum(1) / count
    norm = count - correction
    if aweights is not None and correction != 0:
        norm = count - correction * (weights * aweights).sum() / count
    if norm._a <= 0:
        warnings.warn("cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of "
                      "observations.", stacklevel=3)  # fmt: skip
        norm = norm * 0
    centred = rows - unsqueeze(average, 1)
    weighted = centred if weights is None else centred * weights
    return (mm(centred, t(conj(weighted))) / norm).squeeze()


cov = _cov.function


@composite("corrcoef(Tensor self) -> Tensor")
def _corrcoef(self: Any) -> Any:
    if self._a.ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{self._a.ndim} dimensions"
        )
    c = cov(self)
    if c._a.ndim == 0:
        return c / c
    variances = c.diagonal()
    deviation = (variances.real if c.is_complex() else variances).sqrt()
    c = c / unsqueeze(deviation, -1) / unsqueeze(deviation, 0)
    return _clipped(c) if c.is_complex() else c.clip(-1, 1)


def _clipped(c: Any) -> Any:
    """Both parts of complex coefficients within [-1, 1]."""
    return complex_of(c.real.clip(-1, 1), c.imag.clip(-1, 1))
