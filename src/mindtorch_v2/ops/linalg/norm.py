"""Rows of norms of matrices and of condition numbers, made of vector norms and singular values."""

from __future__ import annotations

import math
from typing import Any

from ...core.errors import shape_text, wrap_dims
from ...dispatch.front import front
from ...dispatch.op import composite
from ...kernels.checks import type_name
from ..reduction.reduce import vector_norm
from ..shape.permute import permute
from ..shape.view import unsqueeze
from .base import require_float, require_matrix, require_square
from .solve import inv_ex
from .spectral import svdvals

_SHAPE = "int[] dim=[-2,-1], bool keepdim=False, *, ScalarType? dtype=None"


# --- matrix norms -----------------------------------------------------------------------------------------------------


def _check_dims(a: Any, dim: Any, name: str = "linalg.matrix_norm") -> tuple[int, int]:
    require_matrix(a, name)
    if len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {', '.join(str(d) for d in dim)}")
    first, second = (wrap_dims(d, a.ndim)[0] for d in dim)
    if first == second:
        raise RuntimeError(f"{name}: dims must be different. Got ({dim[0]}, {dim[1]})")
    return first, second


def _check_dtype(a: Any, dtype: Any, name: str = "linalg.matrix_norm") -> None:
    if dtype is None:
        return
    given, wanted = type_name(a.dtype), type_name(dtype.np)
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{name}: dtype should be floating point or complex, but got {wanted}")
    if (a.dtype.kind == "c") != dtype.is_complex:
        kind = "complex" if a.dtype.kind == "c" else "real"
        raise RuntimeError(f"{name}: dtype should be {kind} for {kind} inputs, but got {wanted}")
    if dtype.np != a.dtype and dtype.np.itemsize <= a.dtype.itemsize:
        raise RuntimeError(
            f"{name}: the dtype of the input ({given}) should be convertible without narrowing to the specified dtype "
            f"({wanted})"
        )


def _spectral_norm(x: Any, order: Any, first: int, second: int, keepdim: bool) -> Any:
    """Norms of the singular values: their sum, the largest, the smallest."""
    rest = [d for d in range(x._a.ndim) if d not in (first, second)]
    values = svdvals(permute(x, (*rest, first, second)))
    if order == "nuc":
        result = values.sum(-1)
    elif values._a.shape[-1] == 0 and order > 0:
        result = values.sum(-1)  # of nothing: zero
    else:
        result = values.amax(-1) if order > 0 else values.amin(-1)
    if keepdim:
        for d in sorted((first, second)):
            result = unsqueeze(result, d)
    return result


def _sum_norm(x: Any, order: Any, first: int, second: int, keepdim: bool) -> Any:
    """The largest or smallest sum of a column (order 1) or of a row (infinity)."""
    over, along = (first, second) if abs(order) == 1 else (second, first)
    if not keepdim and over < along:
        along -= 1
    sums = vector_norm(x, 1.0, over, keepdim)
    if order > 0 and sums._a.shape[along] == 0:
        return sums.sum(along, keepdim=keepdim)  # of nothing: zero
    return sums.amax(along, keepdim=keepdim) if order > 0 else sums.amin(along, keepdim=keepdim)


@composite(f"linalg_matrix_norm(Tensor self, Scalar ord, {_SHAPE}) -> Tensor", method=False, out=True)
def _matrix_norm(self: Any, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    a = self._a
    require_matrix(a, "linalg.matrix_norm")
    if abs(ord) not in (1, 2, math.inf):
        text = f"{ord:g}" if isinstance(ord, float) else str(ord)
        raise RuntimeError(f"linalg.matrix_norm: Order {text} not supported.")
    require_float(a, "linalg.matrix_norm", low=abs(ord) != 2)
    first, second = _check_dims(a, dim)
    _check_dtype(a, dtype)
    x = self if dtype is None else self.to(dtype)
    return (_spectral_norm if abs(ord) == 2 else _sum_norm)(x, ord, first, second, keepdim)


@composite(f'linalg_matrix_norm.str_ord(Tensor self, str ord="fro", {_SHAPE}) -> Tensor', method=False, out=True)
def _matrix_norm_named(self: Any, ord: str, dim: Any, keepdim: bool, dtype: Any) -> Any:
    a = self._a
    require_matrix(a, "linalg.matrix_norm")
    if ord not in ("fro", "nuc"):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    require_float(a, "linalg.matrix_norm", low=ord != "nuc")
    first, second = _check_dims(a, dim)
    _check_dtype(a, dtype)
    if ord == "fro":
        return vector_norm(self, 2.0, (first, second), keepdim, dtype=dtype)
    return _spectral_norm(self if dtype is None else self.to(dtype), "nuc", first, second, keepdim)


@front("linalg_matrix_norm")
def linalg_matrix_norm(
    input: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Any:
    """A norm of matrices, by name or number."""
    if not isinstance(dim, (tuple, list)):
        raise TypeError(
            f"linalg_matrix_norm() received an invalid combination of arguments - got (dim={type(dim).__name__}); dim must "
            "be a tuple of ints"
        )
    row = _matrix_norm_named if isinstance(ord, str) else _matrix_norm
    return row.function(input, ord, tuple(dim), keepdim, dtype=dtype, out=out)


@composite("nuclear_norm(Tensor self, bool keepdim=False) -> Tensor", method=False, out=True)
def _nuclear_norm(self: Any, keepdim: bool) -> Any:
    return linalg_matrix_norm(self, "nuc", (-2, -1), keepdim)


@composite("nuclear_norm.dim(Tensor self, int[] dim, bool keepdim=False) -> Tensor", method=False, out=True)
def _nuclear_norm_dim(self: Any, dim: Any, keepdim: bool) -> Any:
    return linalg_matrix_norm(self, "nuc", tuple(dim), keepdim)


@composite(
    "frobenius_norm.dim(Tensor self, int[] dim, bool keepdim=False) -> Tensor",
    out_overload="out",
    method=False,
    out=True,
)
def _frobenius_norm(self: Any, dim: Any, keepdim: bool) -> Any:
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) > 2:
        raise RuntimeError(f"Expected at most 2 dimensions, but got {len(dims)} dimensions instead.")
    return vector_norm(self, 2.0, dims, keepdim)


# --- norms of either kind ---------------------------------------------------------------------------------------------

_ANY = "int[]? dim=None, bool keepdim=False, *, ScalarType? dtype=None"


def _either(self: Any, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    dims = (dim,) if isinstance(dim, int) else None if dim is None else tuple(dim)
    ndim = self._a.ndim
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {shape_text(dims)}")
    if ord is None:
        return vector_norm(self, 2.0, dims, keepdim, dtype=dtype)
    if dims is None and ndim not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {ndim}D.")
    if isinstance(ord, str) or len(dims if dims is not None else self._a.shape) == 2:
        return linalg_matrix_norm(self, ord, (-2, -1) if dims is None else dims, keepdim, dtype=dtype)
    return vector_norm(self, ord, dims, keepdim, dtype=dtype)


_norm = composite(f"linalg_norm(Tensor self, Scalar? ord=None, {_ANY}) -> Tensor", method=False, out=True)(_either)
_norm_named = composite(f"linalg_norm.ord_str(Tensor self, str ord, {_ANY}) -> Tensor", method=False, out=True)(_either)


@front("linalg_norm")
def linalg_norm(
    input: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Any:
    """A norm of vectors or matrices, by the number of dimensions."""
    row = _norm_named if isinstance(ord, str) else _norm
    return row.function(input, ord, dim, keepdim, dtype=dtype, out=out)


# --- condition numbers ------------------------------------------------------------------------------------------------


def _check_order(a: Any, p: Any) -> None:
    if a.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if p is None or p in ("fro", "nuc") or (not isinstance(p, str) and abs(p) in (1, 2, math.inf)):
        return
    text = f"{p:g}" if isinstance(p, float) else str(p)
    raise RuntimeError(f"linalg.cond got an invalid norm type: {text}")


def _cond_body(self: Any, p: Any) -> Any:
    a = self._a
    _check_order(a, p)
    if p is None or (not isinstance(p, str) and abs(p) == 2):
        values = svdvals(self)
        if values._a.shape[-1] == 0:
            return values.sum(-1)
        largest, smallest = values.narrow(-1, 0, 1), values.narrow(-1, -1, 1)
        return ((largest / smallest) if p != -2 else (smallest / largest)).squeeze(-1)
    name = p if isinstance(p, str) else f"{p:g}"
    require_square(a, f"linalg.cond(ord={name})")
    if a.size == 0:
        return self.abs().sum((-2, -1))
    inverse, info = inv_ex(self)
    if info._a.any():
        inverse = inverse.masked_fill(unsqueeze(unsqueeze(info > 0, -1), -1), math.inf)
    result = linalg_matrix_norm(self, p) * linalg_matrix_norm(inverse, p)
    return result.nan_to_num(math.inf, math.inf, -math.inf)


_cond = composite("linalg_cond(Tensor self, Scalar? p=None) -> Tensor", autocast="float32", method=False, out=True)(
    _cond_body
)
_cond_named = composite("linalg_cond.p_str(Tensor self, str p) -> Tensor", autocast="float32", method=False, out=True)(
    _cond_body
)


@front("linalg_cond")
def linalg_cond(input: Any, p: Any = None, *, out: Any = None) -> Any:
    """How much the solution of a system may grow an error, in a norm of choice."""
    return (_cond_named if isinstance(p, str) else _cond).function(input, p, out=out)
