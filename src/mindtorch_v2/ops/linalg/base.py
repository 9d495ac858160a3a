"""What the rows of linear algebra share: checks in torch's words, verdicts of factorizations turned into errors, and
small matrix expressions on tensors that gradient formulas are written in."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import LinAlgError, broadcast_error
from ...core.meta import MetaArray
from ...dispatch.compute import result_type
from ...dispatch.op import OPS
from ...kernels.checks import not_implemented, type_name
from ...kernels.precision import is_half
from ..shape.permute import transpose
from .matmul import matmul
from .products import conj
from .triangle import diag_embed

# --- checks on arrays -------------------------------------------------------------------------------------------------


def require_matrix(a: Any, name: str, label: str = "A") -> None:
    if a.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {label} must have at least 2 dimensions.")


def require_square(a: Any, name: str, label: str = "A") -> None:
    require_matrix(a, name, label)
    if a.shape[-1] != a.shape[-2]:
        raise RuntimeError(
            f"{name}: {label} must be batches of square matrices, but they are {a.shape[-2]} by {a.shape[-1]} matrices"
        )


def takes_vectors(a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> bool:
    """Whether the right side is a batch of vectors rather than of matrices."""
    return len(b_shape) == 1 or (len(a_shape) - 1 == len(b_shape) and a_shape[:-1] == b_shape)


def require_float(a: Any, name: str, low: bool = True) -> None:
    """A float or complex dtype; 16-bit ones only where `low` says so."""
    if is_half(a.dtype):
        if not low:
            raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {type_name(a.dtype)}")
    elif a.dtype.kind not in "fc":
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {type_name(a.dtype)}")


def require_lapack(a: Any, kernel: str) -> None:
    """One of the four dtypes that LAPACK computes in."""
    if a.dtype.kind not in "fc" or is_half(a.dtype):
        raise not_implemented(kernel, a.dtype)


def require_same_dtype(a: Any, b: Any, name: str, labels: tuple[str, str] = ("A", "B")) -> None:
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{name}: Expected {labels[0]} and {labels[1]} to have the same dtype, but found {labels[0]} of type "
            f"{type_name(a.dtype)} and {labels[1]} of type {type_name(b.dtype)} instead"
        )


def require_system(a: Any, b: Any, left: bool, name: str) -> None:
    """Matrices that fit as the two sides of `A X = B` or `X A = B`."""
    require_square(a, name)
    require_matrix(b, name, "B")
    if a.shape[-2] != b.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({a.shape[-2]}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})"
        )


def common_batch(a: Any, b: Any) -> tuple[int, ...]:
    """The batch dimensions of two stacks of matrices together."""
    try:
        return np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise broadcast_error(a.shape[:-2], b.shape[:-2]) from None


# --- verdicts ---------------------------------------------------------------------------------------------------------

_SINGULAR = (
    "The diagonal element {info} is zero, the inversion could not be completed because the input matrix is singular."
)
_VERDICTS = {
    "inv": _SINGULAR,
    "cholesky_inverse": _SINGULAR,
    "solve": "The solver failed because the input matrix is singular.",
    "cholesky": (
        "The factorization could not be completed because the input is not positive-definite (the leading minor of order "
        "{info} is not positive-definite)."
    ),
    "svd": "The algorithm failed to converge because the input matrix contained non-finite values.",
    "eigh": (
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
        "eigenvalues (error code: {info})."
    ),
    "lu_factor": (
        "U[{info},{info}] is zero and using it on lu_solve would result in a division by zero. If you still want to "
        "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
    ),
    "ldl_factor": "the block of D at {info} is zero; linalg.ldl_factor_ex gives the factors all the same.",
}
_PLAIN_ERRORS = ("lu_factor", "ldl_factor")  # torch raises a RuntimeError for these


def raise_failed(info: Any, name: str) -> None:
    """The error for the first matrix whose verdict is not 0; `name` ends in the name of the operator."""
    if type(info) is MetaArray or not info.any():
        return
    at = int(np.flatnonzero(info)[0])
    where = f"(Batch element {at}): " if info.ndim else ""
    kind = name.split(".")[-1]
    text = _VERDICTS[kind].format(info=int(info.ravel()[at]))
    raise (RuntimeError if kind in _PLAIN_ERRORS else LinAlgError)(f"{name}: {where}{text}")


def named(name: str, *tensors: Any) -> Any:
    """The named result of a composite row."""
    return result_type(OPS[name])(*tensors)


# --- expressions on tensors -------------------------------------------------------------------------------------------


def mH(x: Any) -> Any:
    """The conjugate transpose."""
    return conj(transpose(x, -2, -1))


def mT(x: Any) -> Any:
    return transpose(x, -2, -1)


def chain(*factors: Any) -> Any:
    """The product of several matrices, from the left."""
    result = factors[0]
    for factor in factors[1:]:
        result = matmul(result, factor)
    return result


def diagonal_of(x: Any) -> Any:
    return x.diagonal(0, -2, -1)


def with_diagonal(x: Any, values: Any) -> Any:
    """`x` with its diagonal replaced."""
    return x - diag_embed(diagonal_of(x)) + diag_embed(values)


def without_diagonal(x: Any) -> Any:
    return x - diag_embed(diagonal_of(x))


def imaginary(x: Any) -> Any:
    """`i Im x`, as a complex tensor."""
    return (x - conj(x)) / 2


def total(*parts: Any) -> Any:
    """The sum of the parts that are there, or None."""
    given = [p for p in parts if p is not None]
    result = given[0] if given else None
    for part in given[1:]:
        result = result + part
    return result


def require_phase_free(diagonal: Any, name: str, text: str) -> None:
    """Refuse a gradient that depends on the phases of complex vectors: it is not defined."""
    a = diagonal._a
    if a.dtype.kind != "c" or type(a) is MetaArray:
        return
    if not np.allclose(a.imag, 0, rtol=1e-2, atol=1e-2):
        raise RuntimeError(
            f"{name}: The {text} in the complex case are specified up to multiplication by e^{{i phi}}. The specified loss "
            "function depends on this phase term, making it ill-defined."
        )
