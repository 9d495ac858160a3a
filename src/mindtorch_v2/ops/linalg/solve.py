"""Rows of systems of equations: inverses, determinants, Cholesky factors, square and triangular systems."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.meta import meta
from ...core.tensor import make
from ...dispatch.op import OPS, composite, op
from ...kernels.checks import type_name
from ...kernels.linalg import factor as kernels
from .. import flops
from ..indexing.mask import where
from ..meta import linalg as shapes_linalg
from ..meta import shapes
from ..shape.view import expand, unsqueeze
from .base import (
    chain,
    common_batch,
    diagonal_of,
    imaginary,
    mH,
    mT,
    named,
    raise_failed,
    require_float,
    require_lapack,
    require_same_dtype,
    require_square,
    require_system,
    takes_vectors,
    total,
)
from .matmul import matmul
from .products import conj
from .triangle import diag_embed

INT32 = kernels.INT32


def zeros_info(a: Any) -> Any:
    return np.zeros(a.shape[:-2], INT32)


# --- Cholesky ---------------------------------------------------------------------------------------------------------


def _cholesky_gradient(g: Any, factor: Any, upper: bool) -> Any:
    """Half the lower triangle of `L^H gL` on both sides, between the inverses of L."""
    L, gL = (mH(factor), mH(g)) if upper else (factor, g)
    inner = matmul(mH(L), gL).tril()
    inner = (inner + mH(inner) - diag_embed(conj(diagonal_of(inner)))) / 2
    return solve_triangular(L, solve_triangular(mH(L), inner, upper=True), upper=False, left=False)


def _cholesky_array(a: Any, upper: bool) -> Any:
    require_lapack(a, "cholesky_cpu")
    L, info = kernels.cholesky(kernels.adjoint(a) if upper else a)
    return (kernels.adjoint(L) if upper else L), info


@op(
    "linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
    out_overload="L",
    all_flops=flops.factored(lambda n, _: n**3 / 3),
    meta=shapes_linalg.factored("linalg.cholesky"),
    autocast="float32",
    method=False,
    nondiff=(1,),
    self=lambda grads, result0, upper: _cholesky_gradient(grads[0], result0, upper),
)
def _cholesky_ex(a: Any, upper: bool, check_errors: bool) -> Any:
    require_square(a, "linalg.cholesky")
    require_float(a, "linalg.cholesky")
    L, info = _cholesky_array(a, upper)
    if check_errors:
        raise_failed(info, "linalg.cholesky")
    return L, info


@composite("linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor", autocast="float32", method=False, out=True)
def _linalg_cholesky(self: Any, upper: bool) -> Any:
    L, info = _cholesky_ex.function(self, upper=upper)
    raise_failed(info._a, "linalg.cholesky")
    return L


@op(
    "cholesky(Tensor self, bool upper=False) -> Tensor",
    all_flops=flops.factored(lambda n, _: n**3 / 3),
    meta=shapes.like_nth(0),
    autocast="float32",
    self=lambda g, result, upper: _cholesky_gradient(g, result, upper),
)
def _cholesky(a: Any, upper: bool) -> Any:
    require_square(a, "cholesky")
    L, info = _cholesky_array(a, upper)
    raise_failed(info, "cholesky")
    return L


def _by_factor(b: Any, factor: Any, upper: bool) -> Any:
    """`A^-1 b` from the Cholesky factor of A."""
    other = kernels.adjoint(factor)
    low, high = (other, factor) if upper else (factor, other)
    return kernels.solve_triangular(high, kernels.solve_triangular(low, b, upper=False), upper=True)


def _factor_gradient(inverse_side: Any, factor: Any, upper: bool) -> Any:
    both = inverse_side + mH(inverse_side)
    return -matmul(factor, both) if upper else -matmul(both, factor)


def _cholesky_solve_gradients(g: Any, result: Any, input2: Any, upper: bool, needs: Any) -> Any:
    gb = cholesky_solve(g, input2, upper)
    return gb, _factor_gradient(matmul(gb, mH(result)), input2, upper) if needs[1] else None


@op(
    "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
    all_flops=flops.solved(1, 0, lambda n, k: 2 * n**2 * k),
    meta=shapes.result_rule(lambda b, a, *rest: shapes_linalg.solved(a, b)),
    autocast="float32",
    self__input2=lambda g, result, input2, upper, needs: _cholesky_solve_gradients(g, result, input2, upper, needs),
)
def _cholesky_solve(b: Any, a: Any, upper: bool) -> Any:
    for x, label in ((b, "b"), (a, "u")):
        if x.ndim < 2:
            raise RuntimeError(f"{label} should have at least 2 dimensions, but has {x.ndim} dimensions instead")
    require_old_system(b, a, "cholesky_solve")
    require_lapack(b, "cholesky_solve_cpu")
    common_batch(a, b)
    return _by_factor(b, a, upper)


def require_old_system(b: Any, a: Any, name: str) -> None:
    """The checks of the operators that are older than torch.linalg."""
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {type_name(b.dtype)} and A of type "
            f"{type_name(a.dtype)} instead."
        )
    if a.shape[-1] != a.shape[-2]:
        raise RuntimeError(
            f"A must be batches of square matrices, but they are {a.shape[-2]} by {a.shape[-1]} matrices"
        )
    if a.shape[-2] != b.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {a.shape[-2]} by {a.shape[-1]} but each b matrix is "
            f"{b.shape[-2]} by {b.shape[-1]}"
        )


cholesky_solve = _cholesky_solve.function


@op(
    "cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
    all_flops=flops.factored(lambda n, _: 2 * n**3 / 3),
    meta=shapes.like_nth(0),
    autocast="float32",
    self=lambda g, self, result, upper: _factor_gradient(chain(result, g, result), self, upper),
)
def _cholesky_inverse(a: Any, upper: bool) -> Any:
    require_square(a, "cholesky_inverse")
    require_lapack(a, "cholesky_inverse_out_cpu")
    diagonal = a.diagonal(0, -2, -1)
    raise_failed(
        np.where((diagonal == 0).any(-1), (diagonal == 0).argmax(-1) + 1 if a.size else 0, 0), "cholesky_inverse"
    )
    return _by_factor(np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape), a, upper)


# --- inverses ---------------------------------------------------------------------------------------------------------


def solve_array(a: Any, b: Any) -> tuple[Any, Any]:
    """`A^-1 B` and for each A 0 or the first pivot that is zero."""
    try:
        with np.errstate(all="ignore"):
            return np.linalg.solve(a, b), zeros_info(a)
    except np.linalg.LinAlgError:
        factors, pivots, info = kernels.lu(a)
        return kernels.lu_solve(factors, pivots, b, False), info


@op(
    "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
    out_overload="inverse",
    all_flops=flops.factored(lambda n, _: 2 * n**3),
    meta=shapes_linalg.factored("linalg.inv"),
    autocast="float32",
    nondiff=(1,),
    A=lambda grads, result0: -chain(mH(result0), grads[0], mH(result0)),
)
def _inv_ex(a: Any, check_errors: bool) -> Any:
    require_square(a, "linalg.inv")
    require_float(a, "linalg.inv", low=False)
    inverse, info = solve_array(a, np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape))
    if check_errors:
        raise_failed(info, "linalg.inv")
    return inverse, info


inv_ex = _inv_ex.function


@composite("linalg_inv(Tensor A) -> Tensor", autocast="float32", out=True)
def _inv(A: Any) -> Any:
    inverse, info = inv_ex(A)
    raise_failed(info._a, "linalg.inv")
    return inverse


inv = _inv.function
inverse = composite("inverse(Tensor self) -> Tensor", autocast="float32", out=True)(lambda self: inv(self)).function


# --- determinants -----------------------------------------------------------------------------------------------------


def _others(s: Any) -> Any:
    """For each entry of the last dimension the product of all others."""
    n = s._a.shape[-1]
    rows = expand(unsqueeze(s, -2), (*s._a.shape, n))
    return rows.masked_fill(make(np.eye(n, dtype=bool)), 1).prod(-1)


def _adjugate(A: Any) -> Any:
    """The conjugate transpose of the adjugate: what the gradient of a determinant is where A has no inverse."""
    U, s, Vh = OPS["_linalg_svd"].function(A, False)
    scale = unsqueeze(unsqueeze(conj(det(U) * det(Vh)), -1), -1)
    return scale * matmul(U * unsqueeze(_others(s), -2), Vh)


def _det_gradient(g: Any, A: Any, result: Any) -> Any:
    if (result._a == 0).any():
        return unsqueeze(unsqueeze(g, -1), -1) * _adjugate(A)
    scale = g * conj(result)
    return mH(inv_ex(A)[0]) * unsqueeze(unsqueeze(scale, -1), -1)


@op(
    "linalg_det(Tensor A) -> Tensor",
    all_flops=flops.factored(flops.lu),
    meta=shapes.result_rule(lambda a: meta(shapes_linalg.square_batch(a, "linalg.det"), a.dtype)),
    A=lambda g, A, result: _det_gradient(g, A, result),
)
def _det(a: Any) -> Any:
    require_square(a, "linalg.det")
    require_float(a, "linalg.det")
    require_lapack(a, "lu_cpu")
    return np.asarray(np.linalg.det(a)).astype(a.dtype, copy=False)


linalg_det = _det.function
det = composite("det(Tensor self) -> Tensor")(lambda self: linalg_det(self)).function


def _slogdet_gradient(grads: Any, A: Any, sign: Any) -> Any:
    g_sign, g_log = grads
    if A.is_complex():
        turn = None if g_sign is None else -imaginary(conj(g_sign) * sign)
        g_log = total(g_log, turn)
    if g_log is None:
        return None
    return mH(inv_ex(A)[0]) * unsqueeze(unsqueeze(g_log, -1), -1)


def _slogdet_array(a: Any, name: str) -> Any:
    require_square(a, name)
    require_float(a, name, low=False)
    return tuple(np.linalg.slogdet(a))


@op(
    "linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)",
    all_flops=flops.factored(flops.lu),
    meta=shapes.result_rule(
        lambda a: (
            meta(shapes_linalg.square_batch(a, "linalg.slogdet"), a.dtype),
            meta(a.shape[:-2], shapes.real(a.dtype)),
        )
    ),
    A=lambda grads, A, result0: _slogdet_gradient(grads, A, result0),
)
def _slogdet(a: Any) -> Any:
    return _slogdet_array(a, "linalg.slogdet")


linalg_slogdet = _slogdet.function
slogdet = composite("slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)", out=True)(
    lambda self: named("slogdet", *linalg_slogdet(self))
).function


@composite("logdet(Tensor self) -> Tensor")
def _logdet(self: Any) -> Any:
    require_square(self._a, "logdet")
    require_float(self._a, "logdet", low=False)
    sign, logabsdet = linalg_slogdet(self)
    if self.is_complex():
        return sign.log() + logabsdet
    return where(sign == -1, math.nan, logabsdet)


# --- square systems ---------------------------------------------------------------------------------------------------


def _solve_gradients(g: Any, A: Any, B_sizes: Any, result: Any, left: bool, needs: Any) -> Any:
    vectors = takes_vectors(A._a.shape, B_sizes)
    gB = linalg_solve_ex(mH(A), g, left=left)[0]
    if not needs[0]:
        return None, gB
    if vectors:
        return -matmul(unsqueeze(gB, -1), mH(unsqueeze(result, -1))), gB
    return (-matmul(gB, mH(result)) if left else -matmul(mH(result), gB)), gB


@op(
    "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)",
    all_flops=flops.solved(0, 1, lambda n, k: 2 * n**3 / 3 + 2 * n**2 * k),
    meta=shapes_linalg.solve,
    nondiff=(1,),
    A__B=lambda grads, A, B_sizes, result0, left, needs: _solve_gradients(grads[0], A, B_sizes, result0, left, needs),
)
def _solve_ex(a: Any, b: Any, left: bool, check_errors: bool) -> Any:
    require_square(a, "linalg.solve")
    require_same_dtype(a, b, "linalg.solve")
    vectors = takes_vectors(a.shape, b.shape)
    if vectors and not left:
        raise RuntimeError("linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In "
                           "this case linalg.solve is equivalent to B / A.squeeze(-1)")  # fmt: skip
    right = b[..., None] if vectors else b
    require_system(a, right, left, "linalg.solve")
    require_float(a, "linalg.solve", low=False)
    common_batch(a, right)
    if left:
        x, info = solve_array(a, right)
    else:
        x, info = solve_array(np.swapaxes(a, -1, -2), np.swapaxes(right, -1, -2))
        x = np.swapaxes(x, -1, -2)
    if check_errors:
        raise_failed(info, "torch.linalg.solve")
    return (x[..., 0] if vectors else x), info


linalg_solve_ex = _solve_ex.function


@composite("linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", autocast="float32", out=True)
def _solve(A: Any, B: Any, left: bool) -> Any:
    result, info = linalg_solve_ex(A, B, left=left)
    raise_failed(info._a, "torch.linalg.solve")
    return result


solve = _solve.function


# --- triangular systems -----------------------------------------------------------------------------------------------


def _triangle(x: Any, upper: bool, unit: bool) -> Any:
    return x.triu(1 if unit else 0) if upper else x.tril(-1 if unit else 0)


def _triangular_gradients(
    g: Any, self: Any, result: Any, upper: bool, left: bool, unitriangular: bool, needs: Any
) -> Any:
    gB = solve_triangular(mH(self), g, upper=not upper, left=left, unitriangular=unitriangular)
    if not needs[0]:
        return None, gB
    gA = matmul(gB, mH(result)) if left else matmul(mH(result), gB)
    return -_triangle(gA, upper, unitriangular), gB


@op(
    "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor",
    all_flops=flops.solved(0, 1, lambda n, k: n**2 * k),
    meta=shapes.result_rule(lambda a, b, *rest: shapes_linalg.solved(a, b)),
    method=False,
    self__B=lambda g, self, result, upper, left, unitriangular, needs: _triangular_gradients(
        g, self, result, upper, left, unitriangular, needs
    ),
)
def _solve_triangular(a: Any, b: Any, upper: bool, left: bool, unitriangular: bool) -> Any:
    require_system(a, b, left, "linalg.solve_triangular")
    require_lapack(a, "triangular_solve_cpu")
    common_batch(a, b)
    return kernels.solve_triangular(a, b, upper=upper, left=left, unit=unitriangular).astype(a.dtype, copy=False)


solve_triangular = _solve_triangular.function


def _old_triangular_gradients(
    grads: Any, A: Any, result0: Any, upper: bool, transpose: bool, unitriangular: bool, needs: Any
) -> Any:
    g, g_copy = grads
    if g is None:
        return None, (g_copy if needs[1] else None)
    gb = triangular_solve(g, conj(A), upper, not transpose, unitriangular)[0]
    if not needs[1]:
        return gb, None
    gA = -matmul(conj(result0), mT(gb)) if transpose else -matmul(gb, mH(result0))
    return gb, total(_triangle(gA, upper, unitriangular), g_copy)


@op(
    "triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor "
    "solution, Tensor cloned_coefficient)",
    out_overload="X",
    all_flops=flops.solved(1, 0, lambda n, k: n**2 * k),
    meta=shapes_linalg.triangular_solve,
    autocast="float32",
    self__A=lambda grads, A, result0, upper, transpose, unitriangular, needs: _old_triangular_gradients(
        grads, A, result0, upper, transpose, unitriangular, needs
    ),
)
def _old_triangular_solve(b: Any, a: Any, upper: bool, transpose: bool, unitriangular: bool) -> Any:
    for x, label in ((b, "b"), (a, "A")):
        if x.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {label} to have at least 2 dimensions, but it has {x.ndim} dimensions "
                "instead"
            )
    require_old_system(b, a, "triangular_solve")
    require_lapack(a, "triangular_solve_cpu")
    batch = common_batch(a, b)
    matrix = np.swapaxes(a, -1, -2) if transpose else a
    x = kernels.solve_triangular(matrix, b, upper=upper != transpose, unit=unitriangular)
    return x, np.array(np.broadcast_to(a, (*batch, *a.shape[-2:])))


triangular_solve = _old_triangular_solve.function
