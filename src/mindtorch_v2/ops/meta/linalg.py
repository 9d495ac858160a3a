"""Shapes of the results of linear algebra on the meta device. Matrices stand in the last two dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.meta import meta
from ..linalg.base import require_float, require_matrix, require_square, takes_vectors
from .shapes import Shape, broadcast, complex_of, like, real, result_rule

INT32 = np.dtype(np.int32)


def square_batch(a: Any, name: str) -> Shape:
    """The batch of square matrices; what is not square is refused as torch refuses it."""
    require_square(a, name)
    require_float(a, name)
    return a.shape[:-2]


def tall_batch(a: Any, name: str) -> tuple[Shape, int, int]:
    require_matrix(a, name)
    return a.shape[:-2], a.shape[-2], a.shape[-1]


def factored(name: str) -> Any:
    """A factor like the matrix, and an error code for each."""
    return result_rule(
        lambda a, *rest: (meta((*square_batch(a, name), *a.shape[-2:]), a.dtype), meta(a.shape[:-2], INT32))
    )


# --- systems ----------------------------------------------------------------------------------------------------------


def solved(a: Any, b: Any) -> Any:
    """The solutions of systems with matrices `a` and right sides `b`, both broadcast."""
    return meta((*broadcast(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), np.result_type(a.dtype, b.dtype))


@result_rule
def solve(a: Any, b: Any, *rest: Any) -> Any:
    batch = square_batch(a, "linalg.solve")
    return (like(b) if takes_vectors(a.shape, b.shape) else solved(a, b)), meta(batch, INT32)


@result_rule
def triangular_solve(b: Any, a: Any, *rest: Any) -> Any:
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    return meta((*batch, *b.shape[-2:]), b.dtype), meta((*batch, *a.shape[-2:]), a.dtype)


@result_rule
def lstsq(a: Any, b: Any, rcond: Any, driver: Any) -> Any:
    vectors = takes_vectors(a.shape, b.shape)
    right = b.shape[:-1] if vectors else b.shape[:-2]
    batch = broadcast(a.shape[:-2], right[: len(right) - 1] if vectors else right)
    m, n = a.shape[-2:]
    columns: Shape = () if vectors else (b.shape[-1],)
    solution = meta((*batch, n, *columns), a.dtype)
    residuals = meta((*batch, *columns) if m > n and driver != "gelsy" and driver else (0,), real(a.dtype))
    ranks = meta((0,) if driver == "gels" else a.shape[:-2], np.int64)
    values = meta((*a.shape[:-2], min(m, n)) if driver in ("gelsd", "gelss") else (0,), real(a.dtype))
    return solution, residuals, ranks, values


# --- factors ----------------------------------------------------------------------------------------------------------


@result_rule
def lu_factor(a: Any, *rest: Any) -> Any:
    batch, m, n = tall_batch(a, "torch.lu_factor")
    return like(a), meta((*batch, min(m, n)), INT32), meta(batch, INT32)


def lu_unpack(lu: Any, pivots: Any, unpack_data: bool, unpack_pivots: bool) -> Any:
    batch, m, n = lu.shape[:-2], lu.shape[-2], lu.shape[-1]
    k = min(m, n)
    permutation = meta((*batch, m, m) if unpack_pivots else (0,), lu.dtype)
    lower = meta((*batch, m, k) if unpack_data else (0,), lu.dtype)
    return permutation, lower, meta((*batch, k, n) if unpack_data else (0,), lu.dtype)


@result_rule
def lu(a: Any, pivot: bool) -> Any:
    tall_batch(a, "linalg.lu")
    permutation, lower, upper = lu_unpack(a, None, True, True)
    return (permutation if pivot else meta((0,), a.dtype)), lower, upper


@result_rule
def ldl_factor(a: Any, *rest: Any) -> Any:
    batch = square_batch(a, "torch.linalg.ldl_factor_ex")
    return like(a), meta((*batch, a.shape[-1]), INT32), meta(batch, INT32)


@result_rule
def svd(a: Any, full_matrices: bool, compute_uv: bool, driver: Any) -> Any:
    batch, m, n = tall_batch(a, "linalg.svd")
    k = min(m, n)
    values = meta((*batch, k), real(a.dtype))
    if not compute_uv:
        return meta((0,), a.dtype), values, meta((0,), a.dtype)
    left, right = (m, n) if full_matrices else (k, k)
    return meta((*batch, m, left), a.dtype), values, meta((*batch, right, n), a.dtype)


@result_rule
def eigh(a: Any, UPLO: str, compute_v: bool) -> Any:
    batch = square_batch(a, "linalg.eigh")
    return meta((*batch, a.shape[-1]), real(a.dtype)), (like(a) if compute_v else meta((0,), a.dtype))


def eigenvalues(a: Any) -> Any:
    return meta((*square_batch(a, "linalg.eig"), a.shape[-1]), complex_of(a.dtype))


@result_rule
def qr(a: Any, mode: str) -> Any:
    batch, m, n = tall_batch(a, "linalg.qr")
    k = min(m, n)
    if mode == "r":
        return meta((0,), a.dtype), meta((*batch, k, n), a.dtype)
    columns = m if mode == "complete" else k
    return meta((*batch, m, columns), a.dtype), meta((*batch, columns, n), a.dtype)


lu_solve = result_rule(lambda lu, pivots, b, *rest: solved(lu, b))
