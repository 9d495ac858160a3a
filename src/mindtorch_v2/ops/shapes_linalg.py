"""Shapes of the results of linear algebra on the meta device. Matrices stand in the last two dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._meta import meta
from .linalg_base import require_float, require_matrix, require_square
from .linalg_solve import takes_vectors
from .shapes import Shape, broadcast, complex_of, like, like_nth, plain, real, register

INT32 = np.dtype(np.int32)


def _square(a: Any, name: str) -> Shape:
    """The batch of square matrices; what is not square is refused as torch refuses it."""
    require_square(a, name)
    require_float(a, name)
    return a.shape[:-2]


def _tall(a: Any, name: str) -> tuple[Shape, int, int]:
    require_matrix(a, name)
    return a.shape[:-2], a.shape[-2], a.shape[-1]


def _factored(name: str) -> Any:
    """A factor like the matrix, and an error code for each."""
    return plain(lambda a, *rest: (meta((*_square(a, name), *a.shape[-2:]), a.dtype), meta(a.shape[:-2], INT32)))


register(_factored("linalg.cholesky"), "linalg_cholesky_ex")
register(_factored("linalg.inv"), "linalg_inv_ex")
register(like_nth(0), "cholesky cholesky_inverse linalg_matrix_exp linalg_householder_product")
register(plain(lambda a: meta(_square(a, "linalg.det"), a.dtype)), "linalg_det")
register(
    plain(lambda a: (meta(_square(a, "linalg.slogdet"), a.dtype), meta(a.shape[:-2], real(a.dtype)))), "linalg_slogdet"
)


# --- systems ----------------------------------------------------------------------------------------------------------


def _solved(a: Any, b: Any) -> Any:
    """The solutions of systems with matrices `a` and right sides `b`, both broadcast."""
    return meta((*broadcast(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), np.result_type(a.dtype, b.dtype))


def _solve(a: Any, b: Any, *rest: Any) -> Any:
    batch = _square(a, "linalg.solve")
    return (like(b) if takes_vectors(a.shape, b.shape) else _solved(a, b)), meta(batch, INT32)


register(plain(_solve), "linalg_solve_ex")
register(plain(lambda a, b, *rest: _solved(a, b)), "linalg_solve_triangular")
register(plain(lambda b, a, *rest: _solved(a, b)), "cholesky_solve")
register(plain(lambda lu, pivots, b, *rest: _solved(lu, b)), "linalg_lu_solve linalg_ldl_solve")


def _triangular(b: Any, a: Any, *rest: Any) -> Any:
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    return meta((*batch, *b.shape[-2:]), b.dtype), meta((*batch, *a.shape[-2:]), a.dtype)


def _least_squares(a: Any, b: Any, rcond: Any, driver: Any) -> Any:
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


register(plain(_triangular), "triangular_solve")
register(plain(_least_squares), "linalg_lstsq")


# --- factors ----------------------------------------------------------------------------------------------------------


def _lu_factor(a: Any, *rest: Any) -> Any:
    batch, m, n = _tall(a, "torch.lu_factor")
    return like(a), meta((*batch, min(m, n)), INT32), meta(batch, INT32)


def _lu_unpack(lu: Any, pivots: Any, unpack_data: bool, unpack_pivots: bool) -> Any:
    batch, m, n = lu.shape[:-2], lu.shape[-2], lu.shape[-1]
    k = min(m, n)
    permutation = meta((*batch, m, m) if unpack_pivots else (0,), lu.dtype)
    lower = meta((*batch, m, k) if unpack_data else (0,), lu.dtype)
    return permutation, lower, meta((*batch, k, n) if unpack_data else (0,), lu.dtype)


def _lu(a: Any, pivot: bool) -> Any:
    _tall(a, "linalg.lu")
    permutation, lower, upper = _lu_unpack(a, None, True, True)
    return (permutation if pivot else meta((0,), a.dtype)), lower, upper


def _ldl_factor(a: Any, *rest: Any) -> Any:
    batch = _square(a, "torch.linalg.ldl_factor_ex")
    return like(a), meta((*batch, a.shape[-1]), INT32), meta(batch, INT32)


def _svd(a: Any, full_matrices: bool, compute_uv: bool, driver: Any) -> Any:
    batch, m, n = _tall(a, "linalg.svd")
    k = min(m, n)
    values = meta((*batch, k), real(a.dtype))
    if not compute_uv:
        return meta((0,), a.dtype), values, meta((0,), a.dtype)
    left, right = (m, n) if full_matrices else (k, k)
    return meta((*batch, m, left), a.dtype), values, meta((*batch, right, n), a.dtype)


def _eigh(a: Any, UPLO: str, compute_v: bool) -> Any:
    batch = _square(a, "linalg.eigh")
    return meta((*batch, a.shape[-1]), real(a.dtype)), (like(a) if compute_v else meta((0,), a.dtype))


def _eigenvalues(a: Any) -> Any:
    return meta((*_square(a, "linalg.eig"), a.shape[-1]), complex_of(a.dtype))


def _qr(a: Any, mode: str) -> Any:
    batch, m, n = _tall(a, "linalg.qr")
    k = min(m, n)
    if mode == "r":
        return meta((0,), a.dtype), meta((*batch, k, n), a.dtype)
    columns = m if mode == "complete" else k
    return meta((*batch, m, columns), a.dtype), meta((*batch, columns, n), a.dtype)


register(plain(_lu_factor), "linalg_lu_factor_ex")
register(plain(_lu_unpack), "lu_unpack")
register(plain(_lu), "linalg_lu")
register(plain(_ldl_factor), "linalg_ldl_factor_ex")
register(plain(_svd), "_linalg_svd")
register(plain(_eigh), "_linalg_eigh")
register(plain(lambda a: (_eigenvalues(a), meta(a.shape, complex_of(a.dtype)))), "linalg_eig")
register(plain(_eigenvalues), "_linalg_eigvals")
register(plain(_qr), "linalg_qr")
register(plain(lambda a: (like(a), meta((*a.shape[:-2], min(a.shape[-2:])), a.dtype))), "geqrf")
register(like_nth(2), "ormqr")
