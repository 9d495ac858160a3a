"""Rows of spectra: singular values and vectors, eigenvalues and eigenvectors of general and of Hermitian matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import grad_mode, graph
from ...core.meta import MetaArray, meta
from ...dispatch.op import composite, op
from ...kernels.checks import type_name
from .. import flops
from ..meta import linalg as shapes_linalg
from ..meta import shapes
from ..shape.view import unsqueeze
from .base import (
    chain,
    diagonal_of,
    imaginary,
    mH,
    named,
    raise_failed,
    require_float,
    require_lapack,
    require_matrix,
    require_phase_free,
    require_square,
    total,
    with_diagonal,
    without_diagonal,
)
from .matmul import matmul
from .products import conj
from .solve import solve
from .triangle import diag_embed


def wants_graph(x: Any) -> bool:
    """Whether backward may ask for the vectors of this matrix."""
    return grad_mode.is_grad_enabled() and graph.edge(x) is not None


# --- singular values --------------------------------------------------------------------------------------------------


def _gaps(values: Any) -> Any:
    """The differences `x_j - x_i`, with ones on the diagonal where nothing is divided."""
    return with_diagonal(unsqueeze(values, -2) - unsqueeze(values, -1), values * 0 + 1)


def _skew(x: Any) -> Any:
    return x - mH(x)


def _svd_gradient(grads: Any, U: Any, S: Any, Vh: Any) -> Any:
    """Gradient of A in `A = U S V^H`: within the singular vectors' spaces, and out of them where A is not square."""
    k = S._a.shape[-1]
    gU, gS, gVh = grads
    U, Vh = U.narrow(-1, 0, k), Vh.narrow(-2, 0, k)
    if gU is None and gVh is None:
        return None if gS is None else matmul(U, unsqueeze(gS, -1) * Vh)
    gU = None if gU is None else gU.narrow(-1, 0, k)
    gV = None if gVh is None else mH(gVh.narrow(-2, 0, k))
    m, n = U._a.shape[-2], Vh._a.shape[-1]
    inU = None if gU is None else _skew(matmul(mH(U), gU))
    inV = None if gV is None else _skew(matmul(Vh, gV))
    together = diagonal_of(total(inU, inV))
    require_phase_free(together, "svd_backward", "singular vectors")
    gaps = _gaps(S * S)
    left = None if inU is None else without_diagonal(inU / gaps) * unsqueeze(S, -2)
    right = None if inV is None else unsqueeze(S, -1) * without_diagonal(inV / gaps)
    diagonal = gS
    if U.is_complex() and inU is not None:
        diagonal = total(gS, diagonal_of(inU) / (S * 2))
    inner = total(left, right, None if diagonal is None else diag_embed(diagonal))
    result = chain(U, inner, Vh)
    if m > k and gU is not None:
        scaled = gU / unsqueeze(S, -2)
        result = result + matmul(scaled - matmul(U, matmul(mH(U), scaled)), Vh)
    if n > k and gV is not None:
        scaled = mH(gV / unsqueeze(S, -2))
        result = result + matmul(U, scaled - matmul(matmul(scaled, mH(Vh)), Vh))
    return result


def _empty_svd(a: Any, full: bool) -> Any:
    m, n = a.shape[-2:]
    real = a.real.dtype
    k = min(m, n)
    U = np.zeros((*a.shape[:-2], m, m if full else k), a.dtype)
    Vh = np.zeros((*a.shape[:-2], n if full else k, n), a.dtype)
    U[...] = np.eye(*U.shape[-2:], dtype=a.dtype)
    Vh[...] = np.eye(*Vh.shape[-2:], dtype=a.dtype)
    return U, np.zeros((*a.shape[:-2], k), real), Vh


@op(
    "_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, Tensor S, "
    "Tensor Vh)",
    all_flops=flops.svd,
    meta=shapes_linalg.svd,
    A=lambda grads, result0, result1, result2: _svd_gradient(grads, result0, result1, result2),
)
def _svd_row(a: Any, full_matrices: bool, compute_uv: bool, driver: Any) -> Any:
    require_matrix(a, "linalg.svd")
    require_float(a, "linalg.svd")
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )
    require_lapack(a, "linalg_svd_cpu")
    if a.size == 0:
        U, S, Vh = _empty_svd(a, full_matrices)
        return (U, S, Vh) if compute_uv else (np.zeros(0, a.dtype), S, np.zeros(0, a.dtype))
    raise_failed((~np.isfinite(a).all((-1, -2))).astype(np.int32), "linalg.svd")
    if not compute_uv:
        return np.zeros(0, a.dtype), np.linalg.svd(a, compute_uv=False), np.zeros(0, a.dtype)
    return tuple(np.linalg.svd(a, full_matrices))


svd_row = _svd_row.function


@composite(
    "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
    out_overload="U",
    autocast="float32",
    out=True,
)
def _linalg_svd(A: Any, full_matrices: bool, driver: Any) -> Any:
    return named("linalg_svd", *svd_row(A, full_matrices, True, driver=driver))


linalg_svd = _linalg_svd.function


@composite("linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor", autocast="float32", out=True)
def _svdvals(A: Any, driver: Any) -> Any:
    return svd_row(A, False, wants_graph(A), driver=driver)[1]


svdvals = _svdvals.function


@composite(
    "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
    out_overload="U",
    autocast="float32",
    out=True,
)
def _svd(self: Any, some: bool, compute_uv: bool) -> Any:
    if self._a.ndim < 2:
        raise RuntimeError(
            f"linalg.svd: input should have at least 2 dimensions, but has {self._a.ndim} dimensions instead"
        )
    if compute_uv:
        U, S, Vh = linalg_svd(self, not some)
        return named("svd", U, S, mH(Vh))
    m, n = self._a.shape[-2:]
    batch = self._a.shape[:-2]
    return named("svd", self.new_zeros((*batch, m, m)), svdvals(self), self.new_zeros((*batch, n, n)))


svd = _svd.function


# --- Hermitian matrices -----------------------------------------------------------------------------------------------


def _eigh_gradient(grads: Any, values: Any, V: Any) -> Any:
    gL, gV = grads
    if gV is None:
        return None if gL is None else matmul(V * unsqueeze(gL, -2), mH(V))
    turned = matmul(mH(V), gV)
    require_phase_free(diagonal_of(turned), "linalg_eigh_backward", "eigenvectors")
    # Only the skew part turns the vectors; keeping to it makes the gradient Hermitian, as A is.
    inner = without_diagonal(_skew(turned) / 2 / _gaps(values))
    if gL is not None:
        inner = inner + diag_embed(gL)
    return chain(V, inner, mH(V))


def _hermitian_values(a: Any, uplo: Any, vectors: bool) -> Any:
    try:
        values, V = np.linalg.eigh(a, uplo) if vectors else (np.linalg.eigvalsh(a, uplo), np.zeros(0, a.dtype))
    except np.linalg.LinAlgError:
        values, V = np.full(a.shape[:-1], np.nan), None
    # LAPACK's own code is not known here: 1 stands for any.
    raise_failed((~np.isfinite(values).all(-1)).astype(np.int32), "linalg.eigh")
    return values, V


@op(
    '_linalg_eigh(Tensor A, str UPLO="L", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)',
    all_flops=flops.eigh,
    meta=shapes_linalg.eigh,
    A=lambda grads, result0, result1: _eigh_gradient(grads, result0, result1),
)
def _eigh_row(a: Any, UPLO: str, compute_v: bool) -> Any:
    require_square(a, "linalg.eigh")
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    require_lapack(a, "linalg_eigh_cpu")
    return _hermitian_values(a, UPLO.upper(), compute_v)


eigh_row = _eigh_row.function


@composite(
    'linalg_eigh(Tensor self, str UPLO="L") -> (Tensor eigenvalues, Tensor eigenvectors)',
    out_overload="eigvals",
    autocast="float32",
    method=False,
    out=True,
)
def _eigh(self: Any, UPLO: str) -> Any:
    return named("linalg_eigh", *eigh_row(self, UPLO, True))


eigh = _eigh.function


@composite('linalg_eigvalsh(Tensor self, str UPLO="L") -> Tensor', autocast="float32", method=False, out=True)
def _eigvalsh(self: Any, UPLO: str) -> Any:
    return eigh_row(self, UPLO, wants_graph(self))[0]


eigvalsh = _eigvalsh.function


# --- general matrices -------------------------------------------------------------------------------------------------


def _eig_gradient(grads: Any, values: Any, V: Any) -> Any:
    gL, gV = grads
    if gL is None and gV is None:
        return None
    if gV is None:
        return solve(mH(V), unsqueeze(gL, -1) * mH(V))
    turned = matmul(mH(V), gV)
    along = diagonal_of(turned)
    require_phase_free(along, "linalg_eig_backward", "eigenvectors")
    inner = turned - matmul(mH(V), V) * unsqueeze(along - imaginary(along), -2)
    inner = without_diagonal(inner / conj(_gaps(values)))
    if gL is not None:
        inner = inner + diag_embed(gL)
    return solve(mH(V), matmul(inner, mH(V)))


def _require_complex(a: Any, name: str) -> Any:
    require_square(a, name)
    if a.dtype.kind in "iub":
        raise RuntimeError(f"Unknown Complex ScalarType for {type_name(a.dtype)}")
    require_lapack(a, "linalg_eig_out_cpu")
    if type(a) is not MetaArray and not np.isfinite(a).all():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    return np.result_type(a.dtype, np.complex64)


@op(
    "linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)",
    all_flops=flops.factored(lambda n, _: 25 * n**3),
    meta=shapes.result_rule(lambda a: (shapes_linalg.eigenvalues(a), meta(a.shape, shapes.complex_of(a.dtype)))),
    autocast="float32",
    method=False,
    self=lambda grads, result0, result1: _eig_gradient(grads, result0, result1),
)
def _eig(a: Any) -> Any:
    dtype = _require_complex(a, "linalg.eig")
    values, vectors = np.linalg.eig(a)
    return values.astype(dtype), vectors.astype(dtype)


eig = _eig.function


@op(
    "_linalg_eigvals(Tensor self) -> Tensor",
    all_flops=flops.factored(lambda n, _: 10 * n**3),
    meta=shapes.result_rule(shapes_linalg.eigenvalues),
    method=False,
    out=False,
)
def _eigvals_row(a: Any) -> Any:
    return np.linalg.eigvals(a).astype(_require_complex(a, "linalg.eigvals"))


@composite(
    "linalg_eigvals(Tensor self) -> Tensor",
    all_flops=flops.factored(lambda n, _: 10 * n**3),
    autocast="float32",
    method=False,
    out=True,
)
def _eigvals(self: Any) -> Any:
    _require_complex(self._a, "linalg.eigvals")
    return eig(self)[0] if wants_graph(self) else _eigvals_row.function(self)
