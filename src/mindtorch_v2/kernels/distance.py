"""Owns distances between rows: each of one set to each of another (cdist), and within one set (pdist).

Distances are p-norms of differences. Rows are the last two dimensions; leading ones are batches and broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from .precision import widened

Array: TypeAlias = np.ndarray[Any, Any]

# Differences are formed for a few rows at a time: this many elements.
BLOCK = 1 << 20


def _blocks(rows: int, others: int, columns: int) -> Iterator[slice]:
    step = max(1, BLOCK // max(1, others * columns))
    for start in range(0, rows, step):
        yield slice(start, start + step)


def _norm(differences: Array, p: float) -> Array:
    """The p-norm along the last axis; overwrites its argument."""
    np.abs(differences, out=differences)
    if p == 0:
        return np.asarray((differences != 0).sum(-1), differences.dtype)
    if p == 1:
        return np.asarray(differences.sum(-1))
    if p == 2:
        return np.asarray(np.sqrt(np.einsum("...i,...i->...", differences, differences)))
    if math.isinf(p):
        return np.asarray(differences.max(-1, initial=0))
    return np.asarray(np.power(np.power(differences, p).sum(-1), 1 / p))


@widened
def cdist_forward(x1: Array, x2: Array, p: float) -> Array:
    """Distances ``(*batch, P, R)`` of the rows of ``x1`` ``(*batch, P, M)`` from those of ``x2`` ``(*batch, R, M)``."""
    batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    out = np.zeros((*batch, x1.shape[-2], x2.shape[-2]), x1.dtype)
    if x1.shape[-1]:
        for rows in _blocks(x1.shape[-2], math.prod(batch) * x2.shape[-2], x1.shape[-1]):
            out[..., rows, :] = _norm(x1[..., rows, None, :] - x2[..., None, :, :], p)
    return out


def _slope(differences: Array, distances: Array, p: float) -> Array:
    """Derivative of the p-norm by each component of the difference; 0 where there is none."""
    if p == 0:
        return np.zeros_like(differences)
    if p == 1:
        return np.asarray(np.sign(differences))
    if math.isinf(p):
        return np.asarray(np.sign(differences) * (np.abs(differences) == distances))
    with np.errstate(divide="ignore", invalid="ignore"):
        if p == 2:
            slope = differences / distances
        else:
            slope = np.sign(differences) * np.power(np.abs(differences) / distances, p - 1)
    if p < 1:
        slope[differences == 0] = 0
    return np.asarray(np.where(distances == 0, 0, slope).astype(differences.dtype, copy=False))


@widened
def cdist_backward(grad: Array, x1: Array, x2: Array, p: float, distances: Array) -> Array:
    """Gradient of ``cdist_forward`` with respect to ``x1``, in the shape batches broadcast to."""
    batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    out = np.zeros((*batch, *x1.shape[-2:]), x1.dtype)
    for rows in _blocks(x1.shape[-2], math.prod(batch) * x2.shape[-2], x1.shape[-1]):
        differences = x1[..., rows, None, :] - x2[..., None, :, :]
        slope = _slope(differences, distances[..., rows, :, None], p)
        slope *= grad[..., rows, :, None]
        out[..., rows, :] = slope.sum(-2)
    return out


def pairs(n: int) -> tuple[Array, Array]:
    """The row numbers of each pair among ``n`` rows, in the order of pdist."""
    first, second = np.triu_indices(n, 1)
    return first, second


@widened
def pdist_forward(x: Array, p: float) -> Array:
    """Distances of each pair of rows of ``x`` ``(N, M)``."""
    first, second = pairs(x.shape[0])
    if not x.shape[1]:
        return np.zeros(len(first), x.dtype)
    return _norm(x.take(first, 0) - x.take(second, 0), p)


@widened
def pdist_backward(grad: Array, x: Array, p: float, distances: Array) -> Array:
    """Gradient of ``pdist_forward`` with respect to ``x``."""
    first, second = pairs(x.shape[0])
    both = np.zeros((2, x.shape[0], x.shape[0]), x.dtype)
    for matrix, values in zip(both, (grad, distances)):
        matrix[first, second] = matrix[second, first] = values
    return cdist_backward(both[0], x, x, p, both[1])
