"""Owns the factorizations of stacks of matrices that NumPy lacks: LU, triangular systems, reflectors, Cholesky with a
verdict for each matrix. Every function takes arrays of shape (..., m, n); it knows no tensor."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]

INT32 = np.dtype(np.int32)
PANEL = 32  # columns that are eliminated one by one before the rest is updated by one product


def adjoint(a: Array) -> Array:
    """The conjugate transpose."""
    return np.conj(np.swapaxes(a, -1, -2))


# --- LU ---------------------------------------------------------------------------------------------------------------


def lu(a: Array) -> tuple[Array, Array, Array]:
    """`P A = L U` by partial pivoting: both factors in one matrix, row exchanges counted from 1, and for each matrix 0
    or the first pivot that is zero."""
    m, n = a.shape[-2:]
    rank = min(m, n)
    batch = a.shape[:-2]
    w = np.array(a, order="C").reshape(int(np.prod(batch)), m, n)
    pivots = np.zeros((w.shape[0], rank), INT32)
    info = np.zeros(w.shape[0], INT32)
    with np.errstate(all="ignore"):
        for start in range(0, rank, PANEL):
            stop = min(start + PANEL, rank)
            _eliminate_panel(w, pivots, info, start, stop)
            if stop < n:
                corner = w[:, start:stop, start:stop]
                w[:, start:stop, stop:] = solve_triangular(corner, w[:, start:stop, stop:], upper=False, unit=True)
                w[:, stop:, stop:] -= w[:, stop:, start:stop] @ w[:, start:stop, stop:]
    return w.reshape(a.shape), pivots.reshape(*batch, rank), info.reshape(batch)


def _size(x: Array) -> Array:
    """How LAPACK compares the size of pivots: complex numbers by the sum of their parts."""
    return np.asarray(np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x))


def _eliminate_panel(w: Array, pivots: Array, info: Array, start: int, stop: int) -> None:
    each = np.arange(w.shape[0])
    for j in range(start, stop):
        chosen = _size(w[:, j:, j]).argmax(1) + j
        pivots[:, j] = chosen + 1
        row = w[each, chosen]
        w[each, chosen] = w[:, j]
        w[:, j] = row
        pivot = w[:, j, j]
        zero = pivot == 0
        info[zero & (info == 0)] = j + 1
        w[:, j + 1 :, j] /= np.where(zero, 1, pivot)[:, None]
        w[:, j + 1 :, j + 1 : stop] -= w[:, j + 1 :, j, None] * w[:, j, None, j + 1 : stop]


def permutation(pivots: Array, rows: int) -> Array:
    """The order of rows that a sequence of exchanges leaves, for each matrix."""
    flat = pivots.reshape(int(np.prod(pivots.shape[:-1])), pivots.shape[-1])
    order = np.tile(np.arange(rows), (flat.shape[0], 1))
    each = np.arange(flat.shape[0])
    for j in range(flat.shape[1]):
        other = flat[:, j] - 1
        moved = order[each, other]
        order[each, other] = order[:, j]
        order[:, j] = moved
    return order.reshape(*pivots.shape[:-1], rows)


def permutation_matrix(pivots: Array, rows: int, dtype: Any) -> Array:
    """`P` with `A = P L U`."""
    order = permutation(pivots, rows)
    return np.asarray((order[..., None, :] == np.arange(rows)[:, None]).astype(dtype))


def lu_solve(factors: Array, pivots: Array, b: Array, adjointed: bool) -> Array:
    """Solve `A X = B` (or `A^H X = B`) where `A = P L U`."""
    n = factors.shape[-1]
    order = permutation(pivots, n)
    if not adjointed:
        batch = np.broadcast_shapes(order.shape[:-1], b.shape[:-2])
        rows = np.broadcast_to(order, (*batch, n))[..., None]
        y = np.take_along_axis(np.broadcast_to(b, (*batch, *b.shape[-2:])), rows, -2)
        y = solve_triangular(factors, y, upper=False, unit=True)
        return solve_triangular(factors, y, upper=True)
    y = solve_triangular(adjoint(factors), b, upper=False)
    y = solve_triangular(adjoint(factors), y, upper=True, unit=True)
    back = np.broadcast_to(np.argsort(order, -1), (*y.shape[:-2], n))[..., None]
    return np.asarray(np.take_along_axis(y, back, -2))


# --- triangular systems -----------------------------------------------------------------------------------------------


def solve_triangular(a: Array, b: Array, *, upper: bool, left: bool = True, unit: bool = False) -> Array:
    """Solve `A X = B` (or `X A = B`) for triangular `A`; the other triangle is not read."""
    if not left:
        turned = solve_triangular(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2), upper=not upper, unit=unit)
        return np.swapaxes(turned, -1, -2)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:])), dtype=np.result_type(a, b))
    with np.errstate(all="ignore"):
        _substitute(a, x, upper, unit)
    return x


def _substitute(a: Array, x: Array, upper: bool, unit: bool) -> None:
    """Replace `x` by the solution; large systems are halved so that most of the work is products."""
    n = a.shape[-1]
    if n <= PANEL:
        _substitute_rows(a, x, upper, unit)
        return
    h = n // 2
    first, second = (slice(h, n), slice(0, h)) if upper else (slice(0, h), slice(h, n))
    _substitute(a[..., first, first], x[..., first, :], upper, unit)
    x[..., second, :] -= a[..., second, first] @ x[..., first, :]
    _substitute(a[..., second, second], x[..., second, :], upper, unit)


def _substitute_rows(a: Array, x: Array, upper: bool, unit: bool) -> None:
    n = a.shape[-1]
    for j in range(n - 1, -1, -1) if upper else range(n):
        if not unit:
            x[..., j, :] /= a[..., j, j, None]
        rest = slice(0, j) if upper else slice(j + 1, n)
        x[..., rest, :] -= a[..., rest, j, None] * x[..., j, None, :]


# --- Cholesky ---------------------------------------------------------------------------------------------------------


def cholesky(a: Array) -> tuple[Array, Array]:
    """The lower factor, read from the lower triangle, and for each matrix 0 or the order of the first leading minor
    that is not positive; such a factor is left where elimination stopped."""
    try:
        return np.linalg.cholesky(a), np.zeros(a.shape[:-2], INT32)
    except np.linalg.LinAlgError:
        pass
    factors = np.tril(a).reshape(-1, *a.shape[-2:])
    info = np.zeros(factors.shape[0], INT32)
    for i, factor in enumerate(factors):
        info[i] = _cholesky_columns(factor)
    return factors.reshape(a.shape), info.reshape(a.shape[:-2])


def _cholesky_columns(w: Array) -> int:
    n = w.shape[0]
    for j in range(n):
        row = w[j, :j]
        pivot = (w[j, j] - row @ row.conj()).real
        w[j, j] = pivot
        if not pivot > 0:
            return j + 1
        w[j, j] = root = np.sqrt(pivot)
        w[j + 1 :, j] = (w[j + 1 :, j] - w[j + 1 :, :j] @ row.conj()) / root
    return 0


# --- reflectors -------------------------------------------------------------------------------------------------------


def reflect(a: Array, tau: Array, c: Array, transposed: bool = False) -> Array:
    """`Q C` (or `Q^H C`) for the product `Q` of the reflectors that the columns of `a` below its diagonal hold."""
    x = np.array(c)
    count = tau.shape[-1]
    for j in range(count) if transposed else range(count - 1, -1, -1):
        v = a[..., j:, j].copy()
        v[..., 0] = 1
        scale = tau[..., j, None, None]
        along = np.conj(v)[..., None, :] @ x[..., j:, :]
        x[..., j:, :] -= (np.conj(scale) if transposed else scale) * v[..., None] * along
    return x


def raw_qr(a: Array) -> tuple[Array, Array]:
    """LAPACK's geqrf: R above the reflectors, and the reflectors' scales."""
    rank = min(a.shape[-2:])
    if a.size == 0:
        return a.copy(), np.zeros((*a.shape[:-2], rank), a.dtype)
    h, tau = np.linalg.qr(a, mode="raw")
    return np.ascontiguousarray(np.swapaxes(h, -1, -2)).astype(a.dtype, copy=False), tau.astype(a.dtype, copy=False)


def qr(a: Array, mode: str) -> tuple[Array, Array]:
    """`A = Q R`; mode r leaves Q empty."""
    m, n = a.shape[-2:]
    rank = m if mode == "complete" else min(m, n)
    if a.size == 0:
        q = np.zeros((*a.shape[:-2], m, rank), a.dtype)
        q[..., :, :] = np.eye(m, rank, dtype=a.dtype)
        return (np.zeros(0, a.dtype) if mode == "r" else q), np.zeros((*a.shape[:-2], rank, n), a.dtype)
    if mode == "r":
        triangle: Any = np.linalg.qr(a, mode="r")
        return np.zeros(0, a.dtype), triangle
    q, r = np.linalg.qr(a, mode=mode)  # type: ignore[call-overload]
    return q, r
