"""Factors of low rank by random projection: the singular values that matter of matrices too large for all of them."""

from __future__ import annotations

from typing import Any

from ...dispatch.front import FRONTS, front
from .base import mH
from .matmul import matmul
from .qr import linalg_qr
from .solve import _linalg_cholesky, solve_triangular
from .spectral import eigh, linalg_svd


def _basis(a: Any, q: int, niter: int) -> Any:
    """An orthonormal basis of nearly the range of `a`: that of random combinations, sharpened by power iteration."""
    start = FRONTS["randn"](a._a.shape[-1], q, dtype=a.dtype, device=a.device)
    found = linalg_qr(matmul(a, start))[0]
    for _ in range(niter):
        found = linalg_qr(matmul(mH(a), found))[0]
        found = linalg_qr(matmul(a, found))[0]
    return found


@front("svd_lowrank")
def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> tuple[Any, Any, Any]:
    """The singular value decomposition of A (less M, where given), approximated with rank q."""
    a = A if M is None else A - M
    basis = _basis(a, 6 if q is None else q, 2 if niter is None else niter)
    U, S, Vh = linalg_svd(matmul(mH(basis), a), False)
    return matmul(basis, U), S, mH(Vh)


@front("pca_lowrank")
def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Any, Any, Any]:
    """Principal components: the approximate singular value decomposition of A with the mean of its columns taken off."""
    m, n = A._a.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if not (A.is_floating_point() or A.is_complex()):
        raise ValueError(f"input must be a floating point or complex tensor, not {A.dtype}")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


@front("lobpcg")
def lobpcg(A: Any, k: int | None = None, B: Any = None, X: Any = None, n: int | None = None, iK: Any = None,
           niter: int | None = None, tol: float | None = None, largest: bool | None = None, method: str | None = None,
           tracker: Any = None, ortho_iparams: Any = None, ortho_fparams: Any = None,
           ortho_bparams: Any = None) -> tuple[Any, Any]:  # fmt: skip
    """The k largest (or smallest) eigenvalues of a symmetric positive-definite A, or of the pair A and B, with their
    eigenvectors. They are picked from all of them, so nothing is iterated: what steers the iteration is not used."""
    if tracker is not None:
        raise NotImplementedError(
            "lobpcg finds eigenvalues without iterating here, so there is nothing to call `tracker` with; leave it out"
        )
    a = A.to_dense() if A.is_sparse else A
    wanted = (1 if X is None else X._a.shape[-1]) if k is None else k
    m = a._a.shape[-1]
    block = wanted if n is None else n
    if m < 3 * block:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the number of "
            f"requested eigenpairs (={block})"
        )
    if B is None:
        values, vectors = eigh(a)
    else:
        lower = _linalg_cholesky.function(B.to_dense() if B.is_sparse else B)
        half = solve_triangular(lower, a, upper=False)
        values, vectors = eigh(solve_triangular(lower, mH(half), upper=False))
        vectors = solve_triangular(mH(lower), vectors, upper=True)
    if largest is None or largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    return values[..., :wanted], vectors[..., :wanted]
