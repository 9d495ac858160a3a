"""Owns the gradients of reductions that take more than an expand: products, extremes, spreads, norms.

``dim`` and ``keepdim`` are those of the forward call; ``grad`` and ``result`` have the forward result's shape.
"""

from __future__ import annotations

import math

import numpy as np

from .._errors import wrap_dim
from .precision import narrow, wide
from .reduce import INT64, Axes, Dim, average, reduction_axes, slice_size
from .totals import Array, reduced, reduced_shape, total


def restored(reduced: Array, shape: tuple[int, ...], axes: Axes) -> Array:
    """A reduction's result with 1 in place of the reduced axes, so that it broadcasts against the input."""
    every = tuple(range(len(shape))) if axes is None else axes
    return reduced.reshape(reduced_shape(shape, every, True))


def expand_reduced(grad: Array, shape: tuple[int, ...], dim: Dim = None) -> Array:
    """Gradient of ``sum``: a read-only view of ``grad`` spread over the input's ``shape``."""
    return np.broadcast_to(restored(grad, shape, reduction_axes(dim, len(shape))), shape)


def prod_backward(grad: Array, a: Array, result: Array, dim: int | None = None) -> Array:
    """Gradient of ``prod``; right also where the input has zeros."""
    axes = reduction_axes(dim, a.ndim)
    x, g = wide(a), restored(wide(grad), a.shape, axes)
    if np.all(x != 0):
        others = restored(wide(result), a.shape, axes) / x
    elif axes is None:
        others = _product_of_others(x.reshape(-1), 0).reshape(a.shape)
    else:
        others = _product_of_others(x, axes[0]) if axes else np.ones_like(x)
    return narrow(g * others.conj(), a.dtype)


def _product_of_others(x: Array, axis: int) -> Array:
    """For each element, the product of all the others along ``axis``: those before times those after."""
    x = np.moveaxis(x, axis, -1)
    before, after = np.ones_like(x), np.ones_like(x)
    np.multiply.accumulate(x[..., :-1], axis=-1, out=before[..., 1:])
    np.multiply.accumulate(x[..., :0:-1], axis=-1, out=after[..., -2::-1])
    return np.moveaxis(before * after, -1, axis)


def amax_backward(grad: Array, a: Array, result: Array, dim: Dim = None) -> Array:
    """Gradient of ``amax``, ``amin`` and ``aminmax``: shared evenly by the elements that equal the result."""
    axes = reduction_axes(dim, a.ndim)
    chosen = a == restored(result, a.shape, axes)
    return _shared(grad, chosen, axes)


def evenly_distribute_backward(grad: Array, a: Array, result: Array) -> Array:
    """Gradient of ``max()``, ``min()`` and ``median()`` of a whole array; a NaN result belongs to the NaNs."""
    x = wide(a)
    chosen = np.isnan(x) if x.dtype.kind == "f" and np.isnan(wide(result)) else a == result
    return _shared(grad, chosen, None)


def _shared(grad: Array, chosen: Array, axes: Axes) -> Array:
    g = wide(grad)
    count = reduced(np.add, chosen, axes, True, INT64)
    return narrow(restored(g, chosen.shape, axes) * chosen / count.astype(g.dtype), grad.dtype)


def select_backward(grad: Array, indices: Array, shape: tuple[int, ...], dim: int, keepdim: bool = False) -> Array:
    """Gradient of a reduction that picks one element along ``dim``, as ``max``, ``median`` and ``kthvalue`` do."""
    axis = wrap_dim(dim, len(shape))
    result = np.zeros(shape, grad.dtype)
    if not shape:
        result[...] = grad.reshape(())
        return result
    if not keepdim:
        grad, indices = np.expand_dims(grad, axis), np.expand_dims(indices, axis)
    np.put_along_axis(result, indices, grad, axis)
    return result


def var_backward(grad: Array, a: Array, dim: Dim = None, correction: float = 1) -> Array:
    """Gradient of ``var``."""
    axes = reduction_axes(dim, a.ndim)
    x, g = wide(a), restored(wide(grad), a.shape, axes)
    freedom = slice_size(x, axes) - correction
    off = np.asarray(x - average(x, axes, True))
    if freedom <= 0:
        return narrow(g * np.where(off == 0, x.dtype.type(math.nan), x.dtype.type(math.inf)), a.dtype)
    return narrow(np.multiply(off, g * (2 / freedom), out=off), a.dtype)


def std_backward(grad: Array, a: Array, result: Array, dim: Dim = None, correction: float = 1) -> Array:
    """Gradient of ``std``; nothing flows where the result is zero."""
    root = wide(result)
    scaled = np.where(root == 0, root.dtype.type(0), wide(grad) / (root * 2))
    return narrow(var_backward(scaled, wide(a), dim, correction), a.dtype)


def mean_backward(grad: Array, shape: tuple[int, ...], dim: Dim = None) -> Array:
    """Gradient of ``mean``, spread over the input's ``shape``."""
    axes = reduction_axes(dim, len(shape))
    n = math.prod(shape) if axes is None else math.prod(shape[axis] for axis in axes)
    return expand_reduced(narrow(wide(grad) / n if n else wide(grad), grad.dtype), shape, dim)


def var_mean_backward(
    grad_var: Array | None, grad_mean: Array | None, a: Array, dim: Dim = None, correction: float = 1
) -> Array:
    """Gradient of ``var_mean``; either incoming gradient may be missing."""
    result = np.zeros(a.shape, a.dtype) if grad_var is None else var_backward(grad_var, a, dim, correction)
    return result if grad_mean is None else result + mean_backward(grad_mean, a.shape, dim)


def std_mean_backward(
    grad_std: Array | None, grad_mean: Array | None, a: Array, std: Array, dim: Dim = None, correction: float = 1
) -> Array:
    """Gradient of ``std_mean``; either incoming gradient may be missing."""
    result = np.zeros(a.shape, a.dtype) if grad_std is None else std_backward(grad_std, a, std, dim, correction)
    return result if grad_mean is None else result + mean_backward(grad_mean, a.shape, dim)


def logsumexp_backward(grad: Array, a: Array, result: Array, dim: Dim) -> Array:
    """Gradient of ``logsumexp``."""
    axes = reduction_axes(dim, a.ndim)
    share = np.exp(wide(a) - restored(wide(result), a.shape, axes))
    return narrow(restored(wide(grad), a.shape, axes) * share.conj(), a.dtype)


def norm_backward(grad: Array, a: Array, p: float, result: Array, dim: Dim = None) -> Array:
    """Gradient of ``norm``; zero where the norm has a corner at zero."""
    axes = reduction_axes(dim, a.ndim)
    x = wide(a)
    g, n = restored(wide(grad), a.shape, axes), restored(wide(result), a.shape, axes)
    if p == 0:
        return np.zeros(a.shape, a.dtype)
    if p == 1:
        return narrow(_sign(x) * g, a.dtype)
    if p == 2:
        return narrow(x * np.where(n == 0, n.dtype.type(0), g / n), a.dtype)
    size = np.abs(x)
    if math.isinf(p):
        chosen = (size == n) | (np.isnan(size) & np.isnan(n))
        count = reduced(np.add, chosen, axes, True, INT64).astype(n.dtype)
        return narrow(_sign(x) * (g / count * chosen), a.dtype)
    if p < 1:
        slope = np.where(size == 0, x.dtype.type(0), _sign(x) * size ** (p - 1))
        return narrow(slope * (g * n ** (1 - p)), a.dtype)
    slope = _sign(x) * size ** (p - 1) if p < 2 else x * size ** (p - 2)
    return narrow(slope * np.where(n == 0, n.dtype.type(0), g / n ** (p - 1)), a.dtype)


def _sign(x: Array) -> Array:
    """The direction of each element, zero for NaN (torch's ``sgn``)."""
    if x.dtype.kind == "c":
        size = np.abs(x)
        return np.divide(x, size, out=np.zeros_like(x), where=size > 0)
    return (x > 0).astype(x.dtype) - (x < 0)


def nansum_backward(grad: Array, a: Array, dim: Dim = None) -> Array:
    """Gradient of ``nansum``: nothing flows into NaN."""
    return expand_reduced(grad, a.shape, dim) * ~np.isnan(wide(a))


def sum_to(grad: Array, shape: tuple[int, ...]) -> Array:
    """``grad`` summed to ``shape``, the inverse of broadcasting."""
    if grad.shape == shape:
        return grad
    lead = grad.ndim - len(shape)
    axes = tuple(range(lead)) + tuple(lead + i for i, n in enumerate(shape) if n == 1 and grad.shape[lead + i] != 1)
    return narrow(total(wide(grad), axes, True), grad.dtype).reshape(shape)
