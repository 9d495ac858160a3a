"""Owns the pivoted factorization of symmetric and Hermitian matrices, `P A P^T = L D L^T` with blocks of size 1 and 2
in D (Bunch and Kaufman), stored as LAPACK stores it; and the solution of systems by it."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from .factor import INT32

Array: TypeAlias = np.ndarray[Any, Any]

GROWTH = (1 + 17**0.5) / 8  # the bound on the pivots' growth decides between blocks of size 1 and 2


def ldl(a: Array, hermitian: bool) -> tuple[Array, Array, Array]:
    """Factors of a stack of matrices read from their lower triangles: L below D in one matrix, exchanges (negative for
    blocks of size 2), and for each matrix 0 or the first block that is zero."""
    n = a.shape[-1]
    hermitian = hermitian and a.dtype.kind == "c"
    w = np.tril(a).reshape(int(np.prod(a.shape[:-2])), n, n)
    pivots = np.zeros((w.shape[0], n), INT32)
    info = np.zeros(w.shape[0], INT32)
    for i, matrix in enumerate(w):
        info[i] = _factor_one(matrix, pivots[i], hermitian)
    return w.reshape(a.shape), pivots.reshape(*a.shape[:-2], n), info.reshape(a.shape[:-2])


def _flip(x: Any, hermitian: bool) -> Any:
    return np.conj(x) if hermitian else x


def _size(x: Array) -> Array:
    return np.asarray(np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x))


def _choose(w: Array, k: int, hermitian: bool) -> tuple[int, int]:
    """The row to exchange with and the size of the block at `k`; size 0 says the column is zero."""
    n = w.shape[0]
    corner = float(abs(w[k, k].real) if hermitian else _size(w[k, k]))
    below = _size(w[k + 1 :, k])
    if not below.size:
        return k, (1 if corner else 0)
    at = int(below.argmax()) + k + 1
    largest = float(below[at - k - 1])
    if max(corner, largest) == 0 or corner != corner:
        return k, 0
    if corner >= GROWTH * largest:
        return k, 1
    row_largest = float(_size(w[at, k:at]).max())
    if at + 1 < n:
        row_largest = max(row_largest, float(_size(w[at + 1 :, at]).max()))
    if corner >= GROWTH * largest * (largest / row_largest):
        return k, 1
    other = float(abs(w[at, at].real) if hermitian else _size(w[at, at]))
    return (at, 1) if other >= GROWTH * row_largest else (at, 2)


def _exchange(w: Array, a: int, b: int, hermitian: bool) -> None:
    """Exchange rows and columns `a` < `b` of what is left to eliminate, within the lower triangle."""
    w[b + 1 :, [a, b]] = w[b + 1 :, [b, a]]
    middle = w[a + 1 : b, a].copy()
    w[a + 1 : b, a] = _flip(w[b, a + 1 : b], hermitian)
    w[b, a + 1 : b] = _flip(middle, hermitian)
    w[b, a] = _flip(w[b, a], hermitian)
    w[[a, b], [a, b]] = w[[b, a], [b, a]]


def _factor_one(w: Array, pivots: Array, hermitian: bool) -> int:
    n, k, info = w.shape[0], 0, 0
    while k < n:
        at, size = _choose(w, k, hermitian)
        if hermitian:
            w[k, k] = w[k, k].real
        if size == 0:
            info = info or k + 1
            pivots[k] = k + 1
            k += 1
            continue
        target = k + size - 1
        if at != target:
            _exchange(w, target, at, hermitian)
            if size == 2:
                w[[k + 1, at], k] = w[[at, k + 1], k]
        if size == 1:
            _eliminate_one(w, k, hermitian)
            pivots[k] = at + 1
        else:
            _eliminate_two(w, k, hermitian)
            pivots[k : k + 2] = -(at + 1)
        k += size
    return info


def _update(w: Array, start: int, change: Array, hermitian: bool) -> None:
    w[start:, start:] -= np.tril(change)
    if hermitian:
        at = np.arange(start, w.shape[0])
        w[at, at] = w[at, at].real


def _eliminate_one(w: Array, k: int, hermitian: bool) -> None:
    column = w[k + 1 :, k].copy()
    scaled = column / (w[k, k].real if hermitian else w[k, k])
    _update(w, k + 1, np.outer(scaled, _flip(column, hermitian)), hermitian)
    w[k + 1 :, k] = scaled


def _block(w: Array, k: int, hermitian: bool) -> Array:
    low = w[k + 1, k]
    return np.array([[w[k, k], _flip(low, hermitian)], [low, w[k + 1, k + 1]]], w.dtype)


def _eliminate_two(w: Array, k: int, hermitian: bool) -> None:
    if hermitian:
        w[k + 1, k + 1] = w[k + 1, k + 1].real
    columns = w[k + 2 :, k : k + 2].copy()
    scaled = np.linalg.solve(_block(w, k, hermitian).T, columns.T).T
    _update(w, k + 2, scaled @ _flip(columns, hermitian).T, hermitian)
    w[k + 2 :, k : k + 2] = scaled


def ldl_solve(factors: Array, pivots: Array, b: Array, hermitian: bool) -> Array:
    """Solve systems by their factors, matrix by matrix."""
    n = factors.shape[-1]
    hermitian = hermitian and factors.dtype.kind == "c"
    batch = np.broadcast_shapes(factors.shape[:-2], b.shape[:-2])
    count = int(np.prod(batch))
    x = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:]))).reshape(count, *b.shape[-2:])
    ws = np.broadcast_to(factors, (*batch, n, n)).reshape(count, n, n)
    ps = np.broadcast_to(pivots, (*batch, n)).reshape(count, n)
    with np.errstate(all="ignore"):
        for w, p, y in zip(ws, ps, x, strict=True):
            _solve_one(w, p, y, hermitian)
    return x.reshape(*batch, *b.shape[-2:])


def _solve_one(w: Array, pivots: Array, x: Array, hermitian: bool) -> None:
    """Forward through L and D with the exchanges, then back through the transposed L."""
    n, k = w.shape[0], 0
    starts = []
    while k < n:
        size = 1 if pivots[k] > 0 else 2
        target, other = k + size - 1, abs(int(pivots[k])) - 1
        x[[target, other]] = x[[other, target]]
        x[k + size :] -= w[k + size :, k : k + size] @ x[k : k + size]
        if size == 1:
            x[k] /= w[k, k]
        else:
            x[k : k + 2] = np.linalg.solve(_block(w, k, hermitian), x[k : k + 2])
        starts.append((k, size))
        k += size
    for k, size in reversed(starts):
        x[k : k + size] -= _flip(w[k + size :, k : k + size], hermitian).T @ x[k + size :]
        target, other = k + size - 1, abs(int(pivots[k])) - 1
        x[[target, other]] = x[[other, target]]
