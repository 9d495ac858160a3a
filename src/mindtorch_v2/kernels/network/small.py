"""Owns the plain forms of a few kernels for small arrays, where calling NumPy costs more than the arithmetic.

Each does what the kernel of its name does elsewhere, for float32 and float64 alone, with the fewest calls. What it
cannot take it refuses with ValueError or IndexError; the general kernel then does it, or says why not.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from ..compiled import C, by_rows, densely_laid, exp

Array: TypeAlias = np.ndarray[Any, Any]

# Above this many elements passes over memory cost more than calls.
SMALL = 4096
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)

_add: Any = np.add.reduce
_maximum: Any = np.maximum.reduce


def is_small(a: Array) -> bool:
    """Whether the kernels here take ``a``."""
    return 0 < a.size <= SMALL and (a.dtype is F32 or a.dtype is F64)


# ---------------------------------------------------------------------------------------------------- softmax


def softmax(a: Array, dim: int, half_to_float: bool = False) -> Array:
    if C is not None:
        fused = np.empty(a.shape, a.dtype)
        if C.softmax(a, fused, dim):
            return fused
    result: Array = np.subtract(a, _maximum(a, dim, None, None, True))
    exp(result, out=result)
    result /= _add(result, dim, None, None, True)
    return result


def log_softmax(a: Array, dim: int, half_to_float: bool = False) -> Array:
    if C is not None:
        fused = np.empty(a.shape, a.dtype)
        if C.log_softmax(a, fused, dim):
            return fused
    result: Array = np.subtract(a, _maximum(a, dim, None, None, True))
    result -= np.log(_add(exp(result), dim, None, None, True))
    return result


def softmax_backward(grad: Array, output: Array, dim: int) -> Array:
    fused = by_rows("softmax_backward", grad, output, axis=dim)
    if fused is not None:
        return np.asarray(fused)
    result: Array = grad * output
    result -= output * _add(result, dim, None, None, True)
    return result


def log_softmax_backward(grad: Array, output: Array, dim: int) -> Array:
    fused = by_rows("log_softmax_backward", grad, output, axis=dim)
    if fused is not None:
        return np.asarray(fused)
    result: Array = exp(output)
    result *= _add(grad, dim, None, None, True)
    return np.subtract(grad, result, result)


# ---------------------------------------------------------------------------------------------------- nll_loss


def nll_loss_small(
    x: Array, target: Array, weight: Array | None, reduction: int, ignored: int
) -> tuple[Array, Array] | None:
    """``nll_loss`` for any number of rows, by a compiled loop; None for what it does not take."""
    if C is None:
        return None
    if reduction == 0:
        each = np.empty(target.shape, x.dtype)
        return (each, np.zeros((), x.dtype)) if C.nll_loss(x, target, ignored, weight, each) else None
    both: tuple[Array, Array] | None = C.nll_loss_sum(x, target, ignored, weight, reduction == 1)
    return both


def nll_loss(x: Array, target: Array, reduction: int) -> tuple[Array, Array]:
    """``nll_loss`` of (batch, classes) without weights, where no target is to be ignored."""
    if _lowest(target) < 0:
        raise IndexError
    selected = x[np.arange(target.size), target]
    if reduction == 0:
        return np.negative(selected), np.zeros((), x.dtype)
    total = -_add(selected)
    count = x.dtype.type(target.size)
    return np.asarray(total / count if reduction == 1 else total), np.asarray(count)


def nll_loss_small_backward(
    grad: Array, x: Array, target: Array, weight: Array | None, reduction: int, ignored: int, total: Array
) -> Any:
    """``nll_loss_backward`` for any number of rows, by a compiled loop; None for what it does not take."""
    if C is None or grad.ndim or not (reduction == 2 or total):
        return None
    result: Array = np.empty(x.shape, x.dtype)
    value = -float(grad) / float(total) if reduction == 1 else -float(grad)
    return result if C.nll_loss_grad(result, target, ignored, weight, value) else None


def nll_loss_backward(grad: Array, x: Array, target: Array, reduction: int) -> Array:
    if _lowest(target) < 0:
        raise IndexError
    result = np.zeros(x.shape, x.dtype)
    result[np.arange(target.size), target] = grad / -x.dtype.type(target.size) if reduction == 1 else -grad
    return result


def _lowest(target: Array) -> Any:
    return np.minimum.reduce(target)


# ---------------------------------------------------------------------------------------------------- layer_norm


def layer_norm_in_one_pass(
    x: Array, normalized_shape: Any, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array] | None:
    """``layer_norm`` over any last dimensions, by the compiled loop; None for what it does not take."""
    shape = tuple(normalized_shape)
    lead = x.ndim - len(shape)
    if C is None or lead < 0 or not shape or x.shape[lead:] != shape:
        return None
    if (weight is not None and weight.shape != shape) or (bias is not None and bias.shape != shape):
        return None
    column = x.shape[:lead] + (1,) * len(shape)
    parts = np.empty(x.shape, x.dtype), np.empty(column, x.dtype), np.empty(column, x.dtype)
    return parts if C.layer_norm(x, weight, bias, float(eps), *parts) else None


def layer_norm(x: Array, weight: Array | None, bias: Array | None, eps: float) -> tuple[Array, Array, Array]:
    """``layer_norm`` over the last dimension."""
    if C is not None:
        column = (*x.shape[:-1], 1)
        parts = np.empty(x.shape, x.dtype), np.empty(column, x.dtype), np.empty(column, x.dtype)
        if C.layer_norm(x, weight, bias, float(eps), *parts):
            return parts
    scale = x.dtype.type(1 / x.shape[-1])
    mean = _add(x, -1, None, None, True)
    mean *= scale
    result = np.subtract(x, mean)
    rstd = _add(result * result, -1, None, None, True)
    rstd *= scale
    rstd += x.dtype.type(eps)
    np.sqrt(rstd, rstd)
    np.reciprocal(rstd, rstd)
    result *= rstd
    if weight is not None:
        result *= weight
    if bias is not None:
        result += bias
    return result, mean, rstd


def layer_norm_backward(
    grad: Array, x: Array, mean: Array, rstd: Array, weight: Array | None, wanted: Any
) -> tuple[Array, Array, Array]:
    """Gradients of input, weight and bias; empty arrays where they are not wanted."""
    nothing = np.empty(0, x.dtype)
    if C is not None:
        shapes = x.shape, x.shape[-1:], x.shape[-1:]
        made = [np.empty(shape, x.dtype) if want else None for shape, want in zip(shapes, wanted)]
        if C.layer_norm_backward(densely_laid(grad), x, mean, rstd, weight, *made):
            by_x, by_weight, by_bias = (nothing if part is None else part for part in made)
            return by_x, by_weight, by_bias
    xhat = np.subtract(x, mean)
    xhat *= rstd
    outer = tuple(range(x.ndim - 1))
    by_weight = _add(grad * xhat, outer) if wanted[1] else nothing
    by_bias = _add(grad, outer) if wanted[2] else nothing
    if not wanted[0]:
        return nothing, by_weight, by_bias
    scale = x.dtype.type(1 / x.shape[-1])
    result = grad * weight if weight is not None else grad.copy()
    along = _add(result * xhat, -1, None, None, True)
    along *= scale
    xhat *= along
    middle = _add(result, -1, None, None, True)
    middle *= scale
    result -= middle
    result -= xhat
    result *= rstd
    return result, by_weight, by_bias


def group_norm_backward(
    grad: Array, x: Array, mean: Array, rstd: Array, weight: Array | None, groups: int, wanted: Any
) -> tuple[Array | None, Array | None, Array | None] | None:
    """Gradients of input, weight and bias of a small ``group_norm``: that of the input is ``layer_norm``'s, a group a row.

    None where no compiled loop takes the arrays.
    """
    if C is None or not is_small(x) or (weight is not None and weight.dtype is not x.dtype):
        return None
    samples, channels = x.shape[:2]
    planes, lines = (samples, channels, -1), (samples * groups, -1)
    g, rows = grad.reshape(planes), x.reshape(lines)
    by_x = by_weight = by_bias = None
    if wanted[0]:
        by_x = np.empty(x.shape, x.dtype)
        given = (g if weight is None else g * weight[:, None]).reshape(lines)
        if not C.layer_norm_backward(
            given, rows, mean.reshape(-1), rstd.reshape(-1), None, by_x.reshape(lines), None, None
        ):
            return None
    if wanted[1]:
        normal = (rows - mean.reshape(-1, 1)) * rstd.reshape(-1, 1)
        by_weight = _add(g * normal.reshape(planes), (0, 2))
    if wanted[2]:
        by_bias = _add(g, (0, 2))
    return by_x, by_weight, by_bias


def group_norm_in_one_pass(
    x: Array, groups: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array] | None:
    """``group_norm``, by the compiled loops; None for what they do not take."""
    if C is None or x.ndim < 2 or groups < 1 or x.shape[1] % groups:
        return None
    samples, channels = x.shape[:2]
    parts = np.empty(x.shape, x.dtype), np.empty((samples, groups), x.dtype), np.empty((samples, groups), x.dtype)
    if not C.layer_norm(x, None, None, float(eps), *parts):
        return None
    if weight is not None or bias is not None:
        scale = np.ones(channels, x.dtype) if weight is None else weight
        shift = np.zeros(channels, x.dtype) if bias is None else bias
        if not C.channel_affine(parts[0], scale, shift, parts[0]):
            return None
    return parts


# ---------------------------------------------------------------------------------------------------- batch_norm


def batch_norm(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array]:
    """``batch_norm`` while training, of more than one value per channel."""
    if C is not None:
        channels = (x.shape[1],)
        parts = np.empty(x.shape, x.dtype), np.empty(channels, x.dtype), np.empty(channels, x.dtype)
        if C.batch_norm(x, weight, bias, running_mean, running_var, momentum, eps, *parts):
            return parts
    axes = (0, *range(2, x.ndim))
    column = (1, -1) + (1,) * (x.ndim - 2)
    count = x.size // x.shape[1]
    scale = x.dtype.type(1 / count)
    mean = _add(x, axes, None, None, True)
    mean *= scale
    result = np.subtract(x, mean)
    var = _add(result * result, axes)
    var *= scale
    invstd = var + x.dtype.type(eps)
    np.sqrt(invstd, invstd)
    np.reciprocal(invstd, invstd)
    result *= (invstd if weight is None else invstd * weight).reshape(column)
    if bias is not None:
        result += bias.reshape(column)
    mean = mean.reshape(-1)
    for running, batch, stretch in ((running_mean, mean, 1.0), (running_var, var, count / (count - 1))):
        if running is not None:
            running *= running.dtype.type(1 - momentum)
            running += batch * batch.dtype.type(momentum * stretch)
    return result, mean, invstd


def batch_norm_eval(
    x: Array, weight: Array | None, bias: Array | None, mean: Array, var: Array, eps: float
) -> tuple[Array, Array, Array] | None:
    """``batch_norm`` by running moments, by the compiled loop; None where it does not take them."""
    result: Array = np.empty(x.shape, x.dtype)
    if C is None or not C.batch_norm(x, weight, bias, mean, var, None, eps, result, None, None):
        return None
    return result, np.zeros(0, x.dtype), np.zeros(0, x.dtype)


# ---------------------------------------------------------------------------------------------------- pooling


def _tiles(x: Array, kernel: tuple[int, ...]) -> Array:
    """``x`` with each of the last dimensions split into windows and places in them."""
    lead = x.ndim - len(kernel)
    split = [n for size, k in zip(x.shape[lead:], kernel) for n in (size // k, k)]
    return x.reshape(*x.shape[:lead], *split)


def tiles_evenly(x: Array, kernel: tuple[int, ...]) -> bool:
    """Whether windows of this size lie side by side without a rest."""
    return x.ndim > len(kernel) and all(k > 0 and n % k == 0 for n, k in zip(x.shape[-len(kernel) :], kernel))


def max_pool(x: Array, kernel: tuple[int, ...]) -> Array:
    """Maxima of windows that tile ``x``."""
    tiles = _tiles(x, kernel)
    return np.asarray(_maximum(tiles, tuple(range(tiles.ndim - 2 * len(kernel) + 1, tiles.ndim, 2))))


def avg_pool(x: Array, kernel: tuple[int, ...]) -> Array:
    """Means of windows that tile ``x``."""
    tiles = _tiles(x, kernel)
    result = np.asarray(_add(tiles, tuple(range(tiles.ndim - 2 * len(kernel) + 1, tiles.ndim, 2))))
    result *= x.dtype.type(1 / math.prod(kernel))
    return result
