"""Rows of orthogonal factors: QR, the reflectors it is made of, and products with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.meta import meta
from ...core.tensor import make
from ...dispatch.op import composite, op
from ...kernels.checks import type_name
from ...kernels.linalg import factor as kernels
from .. import flops
from ..meta import linalg as shapes_linalg
from ..meta import shapes
from ..shape.join import cat
from ..shape.view import unsqueeze
from .base import (
    diagonal_of,
    mH,
    named,
    require_float,
    require_lapack,
    require_matrix,
    total,
)
from .matmul import matmul
from .products import conj
from .solve import solve_triangular
from .triangle import diag_embed

# --- QR ---------------------------------------------------------------------------------------------------------------


def _tall_gradient(gQ: Any, gR: Any, Q: Any, R: Any) -> Any:
    """Gradient of A in `A = Q R` with a square R."""
    inner: Any = None if gR is None else matmul(gR, mH(R))
    if gQ is not None:
        inner = total(inner, -matmul(mH(Q), gQ))
    inner = inner.triu()
    both = inner + mH(inner)
    inner = both - diag_embed(diagonal_of(both)) / 2
    return solve_triangular(mH(R), total(gQ, matmul(Q, inner)), upper=False, left=False)


def _qr_gradient(grads: Any, Q: Any, R: Any, mode: str) -> Any:
    gQ, gR = grads
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, "
            "mode='reduced') if you are going to differentiate through linalg.qr."
        )
    m, n = Q._a.shape[-2], R._a.shape[-1]
    if mode == "complete" and m > n:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols")
    if gQ is None and gR is None:
        return None
    if m >= n:
        return _tall_gradient(gQ, gR, Q, R)
    if gR is None:
        left = _tall_gradient(gQ, None, Q, R.narrow(-1, 0, m))
        return cat([left, left.new_zeros((*left._a.shape[:-1], n - m))], -1)
    # A = [X, Y] with X = Q U and Y = Q V, where R = [U, V]: Q is X's, and V only depends on Y through it.
    gV, V = gR.narrow(-1, m, n - m), R.narrow(-1, m, n - m)
    left = _tall_gradient(total(gQ, matmul(matmul(Q, V), mH(gV))), gR.narrow(-1, 0, m), Q, R.narrow(-1, 0, m))
    return cat([left, matmul(Q, gV)], -1)


@op(
    'linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)',
    all_flops=flops.factored(lambda m, n: 2 * flops.qr(m, n)),
    meta=shapes_linalg.qr,
    autocast="float32",
    A=lambda grads, result0, result1, mode: _qr_gradient(grads, result0, result1, mode),
)
def _linalg_qr(a: Any, mode: str) -> Any:
    require_matrix(a, "linalg.qr")
    require_float(a, "linalg.qr")
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    require_lapack(a, "geqrf_cpu")
    return kernels.qr(a, mode)


linalg_qr = _linalg_qr.function


@composite("qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)", out_overload="Q", autocast="float32", out=True)
def _qr(self: Any, some: bool) -> Any:
    return named("qr", *linalg_qr(self, "reduced" if some else "complete"))


@op(
    "geqrf(Tensor self) -> (Tensor a, Tensor tau)",
    out_overload="a",
    all_flops=flops.factored(flops.qr),
    meta=shapes.result_rule(lambda a: (shapes.like(a), meta((*a.shape[:-2], min(a.shape[-2:])), a.dtype))),
    autocast="float32",
)
def _geqrf(a: Any) -> Any:
    if a.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    require_lapack(a, "geqrf_cpu")
    return kernels.raw_qr(a)


# --- products of reflectors -------------------------------------------------------------------------------------------


def _reflector(input: Any, j: int) -> Any:
    """The j-th reflector's vector: zeros, a one, and what column j holds below the diagonal."""
    m = input._a.shape[-2]
    head = np.zeros((m, 1), input._a.dtype)
    head[j] = 1
    return input.narrow(-1, j, 1).tril(-1 - j) + make(head)


def _reflect_gradients(g: Any, input: Any, tau: Any, other: Any, transposed: bool) -> Any:
    """Gradients of input, tau and other in `Q C` or `Q^H C`, one reflector after the other."""
    count, n = tau._a.shape[-1], input._a.shape[-1]
    if count == 0 or input._a.size == 0:
        return input * 0, tau * 0, g
    order = list(range(count)) if transposed else list(range(count - 1, -1, -1))
    vectors = {j: _reflector(input, j) for j in order}
    scales = {j: unsqueeze(tau.narrow(-1, j, 1), -1) for j in order}
    if transposed:
        scales = {j: conj(s) for j, s in scales.items()}
    states, state = {}, other
    for j in order:
        states[j] = state
        state = state - scales[j] * matmul(vectors[j], matmul(mH(vectors[j]), state))
    g_tau: dict[int, Any] = {}
    g_input: dict[int, Any] = {}
    for j in reversed(order):
        v, scale, before = vectors[j], scales[j], states[j]
        along, pulled = matmul(mH(v), before), matmul(mH(v), g)
        g_scale = -matmul(pulled, mH(along))
        g_tau[j] = (conj(g_scale) if transposed else g_scale).squeeze(-1)
        g_v = -conj(scale) * matmul(g, mH(along)) - scale * matmul(before, mH(pulled))
        g_input[j] = g_v.tril(-1 - j)
        g = g - conj(scale) * matmul(v, pulled)
    columns = [g_input[j] for j in range(count)]
    if n > count:
        columns.append(input.new_zeros((*input._a.shape[:-1], n - count)))
    return cat(columns, -1), cat([g_tau[j] for j in range(count)], -1), g


def _product_gradients(g: Any, input: Any, tau: Any) -> Any:
    m, n = input._a.shape[-2:]
    start = make(np.eye(m, n, dtype=input._a.dtype))
    return _reflect_gradients(g, input, tau, start, False)[:2]


def _require_reflectors(a: Any, tau: Any, name: str) -> None:
    if a.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if tau.dtype != a.dtype:
        raise RuntimeError(f"{name}: tau dtype {type_name(tau.dtype)} does not match input dtype {type_name(a.dtype)}")


def _product_array(a: Any, tau: Any) -> Any:
    name = "torch.linalg.householder_product"
    _require_reflectors(a, tau, name)
    for left, right, x, y in (("input.shape[-2]", "input.shape[-1]", a.shape[-2], a.shape[-1]),
                              ("input.shape[-1]", "tau.shape[-1]", a.shape[-1], tau.shape[-1])):  # fmt: skip
        if x < y:
            raise RuntimeError(f"{name}: {left} must be greater than or equal to {right}")
    if a.ndim - tau.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and "
            f"input.ndim is equal to {a.ndim}"
        )
    if tau.shape[:-1] != a.shape[:-2]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {list(tau.shape[:-1])}"
        )
    require_lapack(a, "orgqr_cpu")
    start = np.broadcast_to(np.eye(*a.shape[-2:], dtype=a.dtype), a.shape)
    return kernels.reflect(a, tau, start)


householder_product = op(
    "linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
    all_flops=flops.factored(flops.qr),
    meta=shapes.like_nth(0),
    autocast="float32",
    input__tau=lambda g, input, tau: _product_gradients(g, input, tau),
)(_product_array).function
orgqr = composite("orgqr(Tensor self, Tensor input2) -> Tensor", autocast="float32", out=True)(
    lambda self, input2: householder_product(self, input2)
).function


def _ormqr_gradients(g: Any, self: Any, input2: Any, input3: Any, left: bool, transpose: bool) -> Any:
    if left:
        return _reflect_gradients(g, self, input2, input3, transpose)
    # C Q is the adjoint of Q^H C^H.
    g_self, g_tau, g_other = _reflect_gradients(mH(g), self, input2, mH(input3), not transpose)
    return g_self, g_tau, mH(g_other)


@op(
    "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
    all_flops=flops.reflected,
    meta=shapes.like_nth(2),
    autocast="float32",
    self__input2__input3=lambda g, self, input2, input3, left, transpose: _ormqr_gradients(
        g, self, input2, input3, left, transpose
    ),
)
def _ormqr(a: Any, tau: Any, c: Any, left: bool, transpose: bool) -> Any:
    _require_reflectors(a, tau, "torch.ormqr")
    if c.ndim < 2:
        raise RuntimeError("torch.ormqr: other must have at least 2 dimensions.")
    side = -2 if left else -1
    if c.shape[side] < tau.shape[-1]:
        raise RuntimeError(f"torch.ormqr: other.shape[{side}] must be greater than or equal to tau.shape[-1]")
    if tau.shape[-1] != min(c.shape[side], a.shape[-1]):
        raise RuntimeError(f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])")
    if c.shape[side] != a.shape[-2]:
        raise RuntimeError(f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]")
    require_lapack(a, "ormqr_cpu")
    if left:
        return kernels.reflect(a, tau, c, transpose)
    return kernels.adjoint(kernels.reflect(a, tau, kernels.adjoint(c), not transpose))
