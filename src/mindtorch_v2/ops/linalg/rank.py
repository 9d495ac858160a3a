"""Rows that are made of spectra and solutions: pseudo-inverses, ranks, least squares."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.dtype import int64
from ...core.errors import shape_text
from ...core.tensor import Tensor, make
from ...dispatch.front import front
from ...dispatch.op import composite, explicit, op
from ...kernels.checks import type_name
from ...kernels.linalg import factor as kernels
from ...kernels.precision import is_half
from .. import flops
from ..indexing.mask import where
from ..meta import linalg as shapes_linalg
from ..pointwise.extremes import maximum as maximum_row
from ..shape.view import unsqueeze
from .base import chain, common_batch, mH, raise_failed, require_matrix, takes_vectors, total
from .matmul import matmul
from .spectral import eigh, eigvalsh, svd, svdvals

maximum = maximum_row.function

# --- tolerances -------------------------------------------------------------------------------------------------------


def _real_dtype(x: Any) -> Any:
    if x._a.dtype.kind not in "fc" or is_half(x._a.dtype):
        raise RuntimeError("This function doesn't handle types other than float and double")
    return x._a.real.dtype


def _tolerance(value: Any, real: Any, name: str, label: str) -> Any:
    """A tolerance as a tensor that broadcasts against the batch."""
    if not isinstance(value, Tensor):
        return make(np.asarray(value, real))
    if value.is_complex():
        raise RuntimeError(
            f"torch.linalg.{name}: {label} tensor of complex type is not supported. Got {type_name(value._a.dtype)}"
        )
    return value.detach()


def _tolerances(x: Any, atol: Any, rtol: Any, name: str) -> tuple[Any, Any]:
    """Both tolerances; the relative one is the dtype's precision times the larger size, unless an absolute one is given."""
    real = _real_dtype(x)
    absolute = _tolerance(0.0 if atol is None else atol, real, name, "atol")
    if rtol is None:
        default = float(np.finfo(real).eps) * max(x._a.shape[-2:])
        rtol = make(np.where(absolute._a > 0, 0, default).astype(real))
    relative = _tolerance(rtol, real, name, "rtol")
    return (absolute.to("meta"), relative.to("meta")) if x.is_meta else (absolute, relative)


def _threshold(largest: Any, absolute: Any, relative: Any) -> Any:
    return maximum(unsqueeze(absolute, -1), unsqueeze(relative, -1) * largest)


# --- pseudo-inverses --------------------------------------------------------------------------------------------------


def pinv_gradient(g: Any, A: Any, P: Any) -> Any:
    """Gradient of A in `P = A^+`: through the inverse itself and through both null spaces."""
    Ph, gh = mH(P), mH(g)
    inside = -chain(Ph, g, Ph)
    ghPPh = chain(gh, P, Ph)
    PhPgh = chain(Ph, P, gh)
    return inside + (ghPPh - chain(A, P, ghPPh)) + (PhPgh - chain(PhPgh, P, A))


def _pinv_body(self: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    m, n = self._a.shape[-2:]
    if self._a.size == 0:
        return self.new_zeros((*self._a.shape[:-2], n, m))
    absolute, relative = _tolerances(self, atol, rtol, "pinv")
    if hermitian:
        values, U = eigh(self)
        sizes = values.abs()
        largest, V = sizes.amax(-1, keepdim=True), U
    else:
        U, values, V = svd(self)
        sizes = values
        largest = values.narrow(-1, 0, 1)
    keep = sizes > _threshold(largest, absolute, relative)
    inverse = where(keep, values.reciprocal(), values.new_zeros(()))
    return matmul(V * unsqueeze(inverse, -2), mH(U))


_pinv_row = explicit(
    "linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor",
    method=False,
    out=True,
    self=lambda g, self, result: pinv_gradient(g, self, result),
)(_pinv_body)


def _overloads(row: Any, name: str, one: str, body: Any) -> dict[str, Any]:
    """The other overloads of an op with tolerances: one tolerance (a number or a tensor), or two numbers."""
    qualified, first, autocast = f"linalg_{name}", row.schema.arguments[0].name, row.autocast

    def by_numbers(self: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
        return _with_tolerances(row, self, atol, rtol, hermitian)

    two = "*, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor"
    given = {"": f"float {one}", f"{one}_tensor": f"Tensor {one}"}
    made = {
        overload: composite(
            f"{qualified}{overload and '.'}{overload}(Tensor {first}, {argument}, bool hermitian=False) -> Tensor",
            autocast=autocast,
            out_overload=f"out_{overload}" if overload else None,
            method=False,
            out=True,
        )(body)
        for overload, argument in given.items()
    }
    numbers = composite(
        f"{qualified}.atol_rtol_float(Tensor {first}, {two}", autocast=autocast, method=False, out=True
    )(by_numbers)
    return {"number": made[""], "tensor": made[f"{one}_tensor"], "numbers": numbers, "tensors": row}


def _by_one(rows: dict[str, Any], tolerance: Any) -> Any:
    return rows["tensor" if isinstance(tolerance, Tensor) else "number"]


def _by_two(rows: dict[str, Any], atol: Any, rtol: Any) -> Any:
    numbers = any(v is not None and not isinstance(v, Tensor) for v in (atol, rtol))
    return rows["numbers" if numbers else "tensors"]


_PINV = _overloads(
    _pinv_row, "pinv", "rcond", lambda self, rcond, hermitian: _with_tolerances(_pinv_row, self, 0.0, rcond, hermitian)
)


def _with_tolerances(row: Any, x: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    absolute, relative = _tolerances(x, atol, rtol, row.name.removeprefix("linalg_"))
    return row.function(x, atol=absolute, rtol=relative, hermitian=hermitian)


@front("linalg_pinv")
def linalg_pinv(
    input: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None, out: Any = None
) -> Any:
    """The pseudo-inverse: singular values up to the tolerance count as zero."""
    if isinstance(rcond, bool):
        rcond, hermitian = None, rcond
    a = input._a
    if a.ndim < 2 or a.dtype.kind not in "fc" or is_half(a.dtype):
        raise RuntimeError(
            f"linalg.pinv({type_name(a.dtype)}{{{shape_text(a.shape)}}}): expected a tensor with 2 or more dimensions of "
            "float, double, cfloat or cdouble types"
        )
    if rcond is not None:
        return _by_one(_PINV, rcond).function(input, rcond, hermitian, out=out)
    return _by_two(_PINV, atol, rtol).function(input, atol=atol, rtol=rtol, hermitian=hermitian, out=out)


@composite("pinverse(Tensor self, float rcond=1e-15) -> Tensor", autocast="float32")
def _pinverse(self: Any, rcond: float) -> Any:
    return linalg_pinv(self, rcond)


# --- ranks ------------------------------------------------------------------------------------------------------------


@composite(
    "linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> "
    "Tensor",
    autocast="float32",
    method=False,
    out=True,
)
def _matrix_rank(input: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    require_matrix(input._a, "torch.linalg.matrix_rank", "input")
    input = input.detach()
    if input._a.size == 0:
        return input.new_zeros(input._a.shape[:-2], dtype=int64)
    atol, rtol = _tolerances(input, atol, rtol, "matrix_rank")
    sizes = eigvalsh(input).abs() if hermitian else svdvals(input)
    largest = sizes.amax(-1, keepdim=True) if hermitian else sizes.narrow(-1, 0, 1)
    return (sizes > _threshold(largest, atol, rtol)).sum(-1)


_RANK = _overloads(
    _matrix_rank,
    "matrix_rank",
    "tol",
    lambda input, tol, hermitian: _with_tolerances(_matrix_rank, input, tol, 0.0, hermitian),
)


@front("linalg_matrix_rank")
def linalg_matrix_rank(
    input: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None, out: Any = None
) -> Any:
    """How many singular values are above the tolerance."""
    if isinstance(tol, bool):
        tol, hermitian = None, tol
    if tol is not None:
        if atol is not None or rtol is not None:
            raise TypeError(
                "linalg_matrix_rank() received an invalid combination of arguments: either tol or atol and rtol are accepted"
            )
    require_matrix(input._a, "torch.linalg.matrix_rank", "input")
    if tol is not None:
        return _by_one(_RANK, tol).function(input, tol, hermitian, out=out)
    return _by_two(_RANK, atol, rtol).function(input, atol=atol, rtol=rtol, hermitian=hermitian, out=out)


# --- least squares ----------------------------------------------------------------------------------------------------

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _lstsq_gradients(grads: Any, self: Any, b: Any, result0: Any, needs: Any) -> Any:
    gX, gR = grads[0], grads[1]
    vectors = takes_vectors(self._a.shape, b._a.shape)
    if vectors:
        b, result0 = unsqueeze(b, -1), unsqueeze(result0, -1)
        gX = None if gX is None else unsqueeze(gX, -1)
    gA = gB = None
    if gX is not None:
        P = linalg_pinv(self)
        gA = pinv_gradient(matmul(gX, mH(b)), self, P) if needs[0] else None
        gB = matmul(mH(P), gX)
    if gR is not None and gR._a.size:
        rest = (matmul(self, result0) - b) * unsqueeze(gR, -2) * 2
        gA = total(gA, matmul(rest, mH(result0)))
        gB = total(gB, -rest)
    return gA, (gB.squeeze(-1) if vectors and gB is not None else gB)


def _check_lstsq(a: Any, b: Any, driver: str) -> None:
    name = "torch.linalg.lstsq"
    if a.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if b.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got input's dtype {type_name(a.dtype)} and "
            f"other's dtype {type_name(b.dtype)}"
        )
    if driver not in _DRIVERS:
        raise RuntimeError(f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    if a.dtype.kind not in "fc" or is_half(a.dtype):
        raise RuntimeError("This function doesn't handle types other than float and double")


@op(
    "linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor solution, Tensor residuals, "
    "Tensor rank, Tensor singular_values)",
    all_flops=flops.least_squares,
    meta=shapes_linalg.lstsq,
    autocast="float32",
    method=False,
    nondiff=(2, 3),
    self__b=lambda grads, self, b, result0, needs: _lstsq_gradients(grads, self, b, result0, needs),
)
def _lstsq(a: Any, b: Any, rcond: Any, driver: Any) -> Any:
    driver = driver or "gelsy"
    _check_lstsq(a, b, driver)
    vectors = takes_vectors(a.shape, b.shape)
    right = b[..., None] if vectors else b
    if right.shape[-2] != a.shape[-2]:
        side = "-1" if vectors else "-2"
        raise RuntimeError(f"torch.linalg.lstsq: input.size(-2) should match other.size({side})")
    m, n = a.shape[-2:]
    batch = common_batch(a, right)
    x, values, rank = _least_squares(a, right, rcond)
    full = driver == "gels" or (driver != "gelsy" and bool((rank == n).all()))
    residuals = np.zeros(0, a.real.dtype)
    if m > n and full:
        gap = a @ x - right
        residuals = (gap.real**2 + gap.imag**2).sum(-2).astype(a.real.dtype).reshape(*batch, right.shape[-1])
    ranks = np.zeros(0, np.int64) if driver == "gels" else rank
    return (
        np.ascontiguousarray(x[..., 0] if vectors else x),
        residuals,
        ranks,
        values if driver in ("gelsd", "gelss") else np.zeros(0, a.real.dtype),
    )


def _least_squares(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any]:
    """The shortest solution, with the singular values and the rank."""
    m, n = a.shape[-2:]
    real = a.real.dtype
    limit = float(np.finfo(real).eps) * max(m, n) if rcond is None else float(rcond)
    if a.size == 0 or b.size == 0:
        shape = (*common_batch(a, b), n, b.shape[-1])
        return np.zeros(shape, a.dtype), np.zeros((*a.shape[:-2], min(m, n)), real), np.zeros(a.shape[:-2], np.int64)
    # LAPACK may iterate for ever on infinities.
    raise_failed((~np.isfinite(a).all((-1, -2))).astype(np.int32), "linalg.svd")
    U, s, Vh = np.linalg.svd(a, full_matrices=False)
    keep = s > limit * s[..., :1]
    inverse = np.where(keep, 1 / np.where(keep, s, 1), 0).astype(real)
    x = kernels.adjoint(Vh) @ (inverse[..., None] * (kernels.adjoint(U) @ b))
    return x, s, keep.sum(-1)
