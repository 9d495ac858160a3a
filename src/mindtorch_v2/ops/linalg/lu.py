"""Rows of LU and LDL factorizations: factors, their unpacking, and systems solved by them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import shape_text
from ...dispatch.front import front
from ...dispatch.op import composite, op
from ...kernels.checks import type_name
from ...kernels.linalg import factor as kernels
from ...kernels.linalg import ldl as ldl_kernels
from .. import flops
from ..meta import linalg as shapes_linalg
from ..meta import shapes
from ..shape.join import cat
from .base import (
    common_batch,
    mH,
    named,
    raise_failed,
    require_float,
    require_lapack,
    require_same_dtype,
    require_square,
    require_system,
    total,
)
from .matmul import matmul
from .solve import require_old_system, solve_triangular

# --- gradients --------------------------------------------------------------------------------------------------------


def _rows(x: Any, start: int, count: int) -> Any:
    return x.narrow(-2, start, count)


def _columns(x: Any, start: int, count: int) -> Any:
    return x.narrow(-1, start, count)


def _square_factors_gradient(gL: Any, gU: Any, L: Any, U: Any) -> Any:
    """Gradient of `L U` from those of its factors, before the rows are put back in order."""
    low = None if gL is None else matmul(mH(L), gL).tril(-1)
    high = None if gU is None else matmul(gU, mH(U)).triu()
    inner = total(low, high)
    inner = solve_triangular(mH(L), inner, upper=True, unitriangular=True)
    return solve_triangular(mH(U), inner, upper=False, left=False)


def _tall_factors_gradient(gL: Any, gU: Any, L: Any, U: Any, m: int, n: int) -> Any:
    if gL is None:
        top = _square_factors_gradient(None, gU, _rows(L, 0, n), U)
        return cat([top, top.new_zeros((*top._a.shape[:-2], m - n, n))], -2)
    bottom = solve_triangular(mH(U), _rows(gL, n, m - n), upper=False, left=False)
    gU = total(gU, -matmul(mH(_rows(L, n, m - n)), bottom).triu())
    return cat([_square_factors_gradient(_rows(gL, 0, n), gU, _rows(L, 0, n), U), bottom], -2)


def _wide_factors_gradient(gL: Any, gU: Any, L: Any, U: Any, m: int, n: int) -> Any:
    if gU is None:
        left = _square_factors_gradient(gL, None, L, _columns(U, 0, m))
        return cat([left, left.new_zeros((*left._a.shape[:-2], m, n - m))], -1)
    right = solve_triangular(mH(L), _columns(gU, m, n - m), upper=True, unitriangular=True)
    gL = total(gL, -matmul(right, mH(_columns(U, m, n - m))).tril(-1))
    return cat([_square_factors_gradient(gL, _columns(gU, 0, m), L, _columns(U, 0, m)), right], -1)


def factors_gradient(gL: Any, gU: Any, P: Any, L: Any, U: Any) -> Any:
    """Gradient of A in `A = P L U`."""
    if gL is None and gU is None:
        return None
    m, n = L._a.shape[-2], U._a.shape[-1]
    if m == n:
        inner = _square_factors_gradient(gL, gU, L, U)
    else:
        inner = (_tall_factors_gradient if m > n else _wide_factors_gradient)(gL, gU, L, U, m, n)
    return matmul(P, inner)


def _packed_gradient(grads: Any, LU: Any, pivots: Any) -> Any:
    g = grads[0]
    m, n = LU._a.shape[-2:]
    k = min(m, n)
    P, L, U = lu_unpack(LU, pivots)
    return factors_gradient(_columns(g, 0, k).tril(-1), _rows(g, 0, k).triu(), P, L, U)


# --- factors ----------------------------------------------------------------------------------------------------------


def _require_pivoting(pivot: bool) -> None:
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


def _require_stack(a: Any, name: str) -> None:
    if a.ndim < 2:
        raise RuntimeError(
            f"{name}: Expected tensor with 2 or more dimensions. Got size: {shape_text(a.shape)} instead"
        )


@op(
    "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)",
    all_flops=flops.factored(flops.lu),
    meta=shapes_linalg.lu_factor,
    nondiff=(1, 2),
    A=lambda grads, result0, result1: _packed_gradient(grads, result0, result1),
)
def _lu_factor_ex(a: Any, pivot: bool, check_errors: bool) -> Any:
    _require_stack(a, "torch.lu_factor")
    require_lapack(a, "lu_cpu")
    _require_pivoting(pivot)
    factors, pivots, info = kernels.lu(a)
    if check_errors:
        raise_failed(info, "torch.linalg.lu_factor")
    return factors, pivots, info


lu_factor_ex = _lu_factor_ex.function


@composite("linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)", out=True)
def _lu_factor(A: Any, pivot: bool) -> Any:
    factors, pivots, info = lu_factor_ex(A, pivot=pivot)
    raise_failed(info._a, "torch.linalg.lu_factor")
    return named("linalg_lu_factor", factors, pivots)


@composite(
    "_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, Tensor pivots, Tensor info)",
    all_flops=flops.factored(flops.lu),
    method=False,
)
def _lu_with_info(self: Any, pivot: bool, check_errors: bool) -> Any:
    return named("_lu_with_info", *lu_factor_ex(self, pivot=pivot, check_errors=check_errors))


@front("lu")
def lu(A: Any, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """LU factors in one matrix with the row exchanges; the older form of linalg.lu_factor_ex."""
    result = _lu_with_info.function(A, pivot, False)
    if out is not None:
        for target, source in zip(out, result, strict=False):
            target.resize_(source.shape).copy_(source)
        result = tuple(out)
    return result if get_infos else (result[0], result[1])


def _unpack_gradient(grads: Any, sizes: tuple[int, ...]) -> Any:
    _, gL, gU = grads
    m, n = sizes[-2:]
    k = min(m, n)
    low = None if gL is None else _columns(gL, 0, k).tril(-1)
    high = None if gU is None else _rows(gU, 0, k).triu()
    if low is not None and n > k:
        low = cat([low, low.new_zeros((*sizes[:-1], n - k))], -1)
    if high is not None and m > k:
        high = cat([high, high.new_zeros((*sizes[:-2], m - k, n))], -2)
    return total(low, high)


@op(
    "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, Tensor L, "
    "Tensor U)",
    meta=shapes.result_rule(shapes_linalg.lu_unpack),
    nondiff=(0,),
    LU_data=lambda grads, LU_data_sizes: _unpack_gradient(grads, LU_data_sizes),
)
def _lu_unpack(a: Any, pivots: Any, unpack_data: bool, unpack_pivots: bool) -> Any:
    _require_stack(a, "torch.lu_unpack")
    if unpack_pivots and pivots.dtype != kernels.INT32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n"
            "Note: this function is intended to be used with the output produced by torch.linalg.lu_factor"
        )
    P = L = U = np.zeros(0, a.dtype)
    m, n = a.shape[-2:]
    k = min(m, n)
    if unpack_data:
        L = np.tril(a[..., :k], -1)
        at = np.arange(k)
        L[..., at, at] = 1
        U = np.triu(a[..., :k, :])
    if unpack_pivots:
        if pivots.size and (pivots.min() < 1 or pivots.max() > m):
            raise RuntimeError(
                "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
                "Did you properly pass the result of lu_factor?"
            )
        P = kernels.permutation_matrix(pivots, m, a.dtype)
    return P, L, U


lu_unpack = _lu_unpack.function


@op(
    "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
    all_flops=flops.factored(flops.lu),
    meta=shapes_linalg.lu,
    nondiff=(0,),
    A=lambda grads, result0, result1, result2: factors_gradient(grads[1], grads[2], result0, result1, result2),
)
def _linalg_lu(a: Any, pivot: bool) -> Any:
    _require_stack(a, "linalg.lu")
    require_lapack(a, "lu_cpu")
    _require_pivoting(pivot)
    factors, pivots, _ = kernels.lu(a)
    return _lu_unpack.kernel(factors, pivots, True, True)


# --- systems ----------------------------------------------------------------------------------------------------------


def _matrix_gradient(gB: Any, X: Any, left: bool, adjoint: bool) -> Any:
    """Gradient of A where X solves `A X = B`, `X A = B` or either with the adjoint of A."""
    gA = matmul(gB, mH(X)) if left else matmul(mH(X), gB)
    return -mH(gA) if adjoint else -gA


def _lu_solve_gradients(g: Any, LU: Any, pivots: Any, result: Any, left: bool, adjoint: bool, needs: Any) -> Any:
    gB = linalg_lu_solve(LU, pivots, g, left=left, adjoint=not adjoint)
    if not needs[0]:
        return None, gB
    P, L, U = lu_unpack(LU, pivots)
    gA = matmul(mH(P), _matrix_gradient(gB, result, left, adjoint))
    return matmul(gA, mH(U)).tril(-1) + matmul(mH(L), gA).triu(), gB


@op(
    "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
    all_flops=flops.solved(0, 2, lambda n, k: 2 * n**2 * k),
    meta=shapes_linalg.lu_solve,
    LU__B=lambda g, LU, pivots, result, left, adjoint, needs: _lu_solve_gradients(
        g, LU, pivots, result, left, adjoint, needs
    ),
)
def _linalg_lu_solve(a: Any, pivots: Any, b: Any, left: bool, adjoint: bool) -> Any:
    require_float(a, "torch.linalg.lu_solve")
    if pivots.dtype != kernels.INT32:
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    require_square(a, "torch.linalg.lu_solve")
    require_same_dtype(a, b, "linalg.lu_solve", ("LU", "B"))
    require_system(a, b, left, "linalg.lu_solve")
    if a.shape[-1] != pivots.shape[-1]:
        raise RuntimeError("linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix")
    if a.shape[:-1] != pivots.shape:
        raise RuntimeError("linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with "
                           f"shape {shape_text(pivots.shape)} instead")  # fmt: skip
    common_batch(a, b)
    if left:
        return kernels.lu_solve(a, pivots, b, adjoint)
    # X A = B is A^H X^H = B^H.
    return kernels.adjoint(kernels.lu_solve(a, pivots, kernels.adjoint(b), not adjoint))


linalg_lu_solve = _linalg_lu_solve.function


@composite("lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor", autocast="float32", out=True)
def _lu_solve(self: Any, LU_data: Any, LU_pivots: Any) -> Any:
    return linalg_lu_solve(LU_data, LU_pivots, self)


# --- symmetric factors ------------------------------------------------------------------------------------------------


@op(
    "linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor pivots, "
    "Tensor info)",
    all_flops=flops.factored(lambda n, _: n**3 / 3),
    meta=shapes_linalg.ldl_factor,
    method=False,
)
def _ldl_factor_ex(a: Any, hermitian: bool, check_errors: bool) -> Any:
    require_square(a, "torch.linalg.ldl_factor_ex")
    require_float(a, "torch.linalg.ldl_factor_ex")
    require_lapack(a, "ldl_factor_kernel_cpu")
    factors, pivots, info = ldl_kernels.ldl(a, hermitian)
    if check_errors:
        raise_failed(info, "torch.linalg.ldl_factor")
    return factors, pivots, info


@composite(
    "linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)", method=False, out=True
)
def _ldl_factor(self: Any, hermitian: bool) -> Any:
    factors, pivots, info = _ldl_factor_ex.function(self, hermitian=hermitian)
    raise_failed(info._a, "torch.linalg.ldl_factor")
    return named("linalg_ldl_factor", factors, pivots)


@op(
    "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
    all_flops=flops.solved(0, 2, lambda n, k: 2 * n**2 * k),
    meta=shapes_linalg.lu_solve,
)
def _ldl_solve(a: Any, pivots: Any, b: Any, hermitian: bool) -> Any:
    require_square(a, "torch.linalg.ldl_solve")
    require_float(a, "torch.linalg.ldl_solve")
    if b.ndim < 2:
        raise RuntimeError(
            f"torch.linalg.ldl_solve: Expected B to have at least 2 dimensions, but it has {b.ndim} dimensions instead"
        )
    if a.shape[:-1] != pivots.shape:
        raise RuntimeError("torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots "
                           f"with shape {shape_text(pivots.shape)} instead")  # fmt: skip
    if pivots.dtype.kind not in "iu":
        raise RuntimeError(f"torch.linalg.ldl_solve: Expected pivots to be integers. Got {type_name(pivots.dtype)}")
    require_old_system(b, a, "torch.linalg.ldl_solve")
    common_batch(a, b)
    return ldl_kernels.ldl_solve(a, pivots, b, hermitian)
