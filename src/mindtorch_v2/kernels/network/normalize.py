"""Owns normalisation by mean and variance, over trailing dimensions, batches or groups.

Statistics are taken in float32 at least. Running statistics are the one thing written in place.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.errors import shape_text
from ..checks import is_float, not_implemented, type_name
from ..compiled import C, densely_laid
from ..floating import spreading
from ..precision import is_half, narrow, wide
from ..reduction.reduce import average
from ..totals import SMALL, Array, dot_rows, total, weighted_sum

FLOAT32 = np.dtype(np.float32)
# A mean of so many deviations is near zero: a difference of sums then loses next to no digits.
NEAR = 2.0
# Rows are multiplied by a row of weights in runs of so many elements, which stay in the first-level cache.
RUN_OF_ROWS = 1 << 11


# ---------------------------------------------------------------------------------------------------- checks, types


def _check_types(kernel: str, x: Array, *parameters: Array | None) -> np.dtype[Any]:
    """The type of the statistics: float32 where a 16-bit input meets float32 parameters, else the input's."""
    if not is_float(x.dtype):
        raise not_implemented(kernel, x.dtype)
    given = [p.dtype for p in parameters if p is not None]
    if not given or given[0] == x.dtype:
        for dtype in given:
            if dtype != x.dtype:
                raise RuntimeError(f"expected scalar type {type_name(x.dtype)} but found {type_name(dtype)}")
        return np.dtype(x.dtype)
    if any(dtype != FLOAT32 for dtype in given):
        raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
    if not is_half(x.dtype):
        raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")
    return FLOAT32


def _check_normalized_shape(
    x: Array, normalized_shape: Sequence[int], weight: Array | None, bias: Array | None, star: str
) -> int:
    """How many leading dimensions are not normalised over."""
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and parameter.shape != shape:
            shape = tuple(map(operator.index, shape))  # a TypeError for text
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{shape_text(parameter.shape)} and normalized_shape = {shape_text(shape)}"
            )
    lead = x.ndim - len(shape)
    if lead < 0 or x.shape[lead:] != shape:
        inner = shape_text(shape)[1:-1]
        raise RuntimeError(
            f"Given normalized_shape={shape_text(shape)}, expected input with shape [{star}{inner}], but got input of "
            f"size{shape_text(x.shape)}"
        )
    return lead


def _rows(x: Array, lead: int) -> Array:
    return densely_laid(wide(x)).reshape(math.prod(x.shape[:lead]), math.prod(x.shape[lead:]))


def _near_zero(x: Array, mean: Array, rstd: Array) -> tuple[Array, Array]:
    """``x`` and its mean as they are if the mean lies near zero, else ``x`` centred and zero.

    Sums of products with a far mean would lose their digits.
    """
    if np.all(np.abs(mean * rstd) <= NEAR):
        return x, mean
    return x - mean, np.zeros_like(mean)


# ---------------------------------------------------------------------------------------------------- layer_norm


def _normalized_rows(x: Array, eps: float) -> tuple[Array, Array, Array]:
    """Rows with mean 0 and variance 1, and the means and reciprocal deviations as columns."""
    n = max(x.shape[1], 1)
    mean = total(x, (1,), True)
    mean /= n
    with spreading(n):
        result = np.subtract(x, mean)
        rstd = dot_rows(result, result).reshape(-1, 1)
        rstd /= n
        rstd += x.dtype.type(eps)
        np.sqrt(rstd, out=rstd)
        np.divide(1, rstd, out=rstd)
        result *= rstd
    return result, mean, rstd


def _with_each_row(ufunc: Any, rows: Array, row: Array, out: Array) -> Array:
    """``ufunc`` of ``rows`` and ``row``; several rows at once, as NumPy starts anew for each it spreads ``row`` to."""
    together = 1
    if rows.size > SMALL and rows.flags.c_contiguous and out.flags.c_contiguous:
        together = math.gcd(len(rows), max(RUN_OF_ROWS // row.size, 1))
    if together == 1:
        ufunc(rows, row, out=out)
    else:
        shape = -1, together * row.size
        with spreading(together * row.size):
            ufunc(rows.reshape(shape), np.tile(row, together), out=out.reshape(shape))
    return out


def _scaled_rows(x: Array, weight: Array | None, bias: Array | None, eps: float) -> tuple[Array, Array, Array]:
    """``_normalized_rows``, times the weight and moved by the bias."""
    w, b = (None if p is None else wide(p).reshape(-1) for p in (weight, bias))
    if C is not None:
        parts = np.empty(x.shape, x.dtype), np.empty((len(x), 1), x.dtype), np.empty((len(x), 1), x.dtype)
        if C.layer_norm(x, w, b, float(eps), *parts):
            return parts
    result, mean, rstd = _normalized_rows(x, eps)
    if w is not None:
        _with_each_row(np.multiply, result, w, result)
    if b is not None:
        _with_each_row(np.add, result, b, result)
    return result, mean, rstd


def layer_norm(
    x: Array, normalized_shape: Sequence[int], weight: Array | None, bias: Array | None, eps: float = 1e-5
) -> tuple[Array, Array, Array]:
    """The normalised array, and mean and reciprocal deviation with 1 in place of the normalised dimensions."""
    lead = _check_normalized_shape(x, normalized_shape, weight, bias, "*, ")
    stat = _check_types("LayerNormKernelImpl", x, weight, bias)
    result, mean, rstd = _scaled_rows(_rows(x, lead), weight, bias, eps)
    shape = x.shape[:lead] + (1,) * (x.ndim - lead)
    return (
        np.ascontiguousarray(narrow(result, x.dtype)).reshape(x.shape),
        narrow(mean, stat).reshape(shape),
        narrow(rstd, stat).reshape(shape),
    )


def layer_norm_backward(
    grad: Array,
    x: Array,
    normalized_shape: Sequence[int],
    mean: Array,
    rstd: Array,
    weight: Array | None,
    bias: Array | None,
    output_mask: Sequence[bool] = (True, True, True),
) -> tuple[Array | None, Array | None, Array | None]:
    """Gradients with respect to input, weight and bias; None where ``output_mask`` or the forward call has none."""
    lead = x.ndim - len(normalized_shape)
    g, inverse = _rows(grad, lead), wide(rstd).reshape(-1)
    fused = _layer_norm_backward_in_one_pass(g, _rows(x, lead), mean, inverse, weight, bias, output_mask)
    if fused is not None:
        shapes = (x, weight, bias)
        made = (
            None if part is None or like is None else narrow(part, like.dtype).reshape(like.shape)
            for part, like in zip(fused, shapes)
        )
        by_x, by_weight, by_bias = made
        return by_x, by_weight, by_bias
    base, offset = _near_zero(_rows(x, lead), wide(mean).reshape(-1, 1), inverse[:, None])
    products = g * base
    grad_x = grad_weight = grad_bias = None
    if weight is not None and output_mask[1]:
        summed = weighted_sum(inverse, products) - weighted_sum(offset[:, 0] * inverse, g)
        grad_weight = narrow(summed, weight.dtype).reshape(weight.shape)
    if bias is not None and output_mask[2]:
        grad_bias = narrow(total(g, (0,)), bias.dtype).reshape(bias.shape)
    if output_mask[0]:
        result = _row_norm_backward(g, products, base, offset, inverse[:, None], weight)
        grad_x = narrow(result, x.dtype).reshape(x.shape)
    return grad_x, grad_weight, grad_bias


def _layer_norm_backward_in_one_pass(
    g: Array,
    x: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    bias: Array | None,
    output_mask: Sequence[bool],
) -> list[Array | None] | None:
    """The three gradients by the compiled loop; None where it does not take the arrays."""
    if C is None:
        return None
    n = x.shape[1]
    wanted = output_mask[0], weight is not None and output_mask[1], bias is not None and output_mask[2]
    made = [
        np.empty(shape, x.dtype) if want else None for shape, want in zip((x.shape, (n,), (n,)), wanted, strict=True)
    ]
    factors = None if weight is None else wide(weight).reshape(-1)
    done = C.layer_norm_backward(g, x, wide(mean).reshape(-1), rstd, factors, *made)
    return made if done else None


def _row_norm_backward(
    g: Array, products: Array, base: Array, offset: Array, rstd: Array, weight: Array | None
) -> Array:
    """Gradient through centring and scaling of rows: what moves a row's mean or deviation is taken out.

    ``products`` is ``g * base`` and gives its memory to the result.
    """
    n = max(g.shape[1], 1)
    factors = np.ones(g.shape[1], g.dtype) if weight is None else wide(weight).reshape(-1)
    level = g.dot(factors)[:, None]
    along = products.dot(factors)[:, None] - offset * level
    slope = along * rstd**3 / n
    result = _with_each_row(np.multiply, g, factors, products)
    with spreading(n):
        result *= rstd
        result -= base * slope
        result += offset * slope - rstd * level / n
    return result


# ---------------------------------------------------------------------------------------------------- rms_norm


# ---------------------------------------------------------------------------------------------------- batch_norm


def _channels(x: Array) -> Array:
    """``x`` as (batch, channels, everything else)."""
    return densely_laid(wide(x)).reshape(x.shape[0], x.shape[1], math.prod(x.shape[2:]))


def _column(a: Array) -> Array:
    """One value for each channel, to broadcast against (batch, channels, everything else)."""
    return wide(a).reshape(-1, 1)


def _dot_channels(a: Array, b: Array) -> Array:
    """``(a * b).sum((0, 2))``."""
    if a.shape[2] < 16:
        return total(a * b, (0, 2))
    return total(_dot_places(a, b), (0,))


def _dot_places(a: Array, b: Array) -> Array:
    """``(a * b).sum(2)``."""
    n, channels, positions = a.shape
    return dot_rows(a.reshape(n * channels, positions), b.reshape(n * channels, positions)).reshape(n, channels)


def _check_batch_norm(
    x: Array, weight: Array | None, bias: Array | None, mean: Array | None, var: Array | None, training: bool
) -> None:
    channels = x.shape[1] if x.ndim > 1 else 0
    named = (("running_mean", mean), ("running_var", var), ("weight", weight), ("bias", bias))
    for name, given in named:
        if given is not None:
            if given.size != channels:
                raise RuntimeError(f"{name} should contain {channels} elements not {given.size}")
        elif not training and name.startswith("running"):
            raise RuntimeError(f"{name} must be defined in evaluation mode")
    if x.ndim < 2:
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got 1)")


# Shorter runs of a channel are left to NumPy, which goes through all channels at once, unless all is in the calls; rows of
# features, where each run is one element, are not.
RUN = 16
FEW = 4096


def _in_runs(c: Array) -> bool:
    """Whether the compiled loops over channels are worth while."""
    return C is not None and (c.shape[2] >= RUN or c.shape[2] == 1 or c.size <= FEW)


def _channel_moments(c: Array, n: int) -> tuple[Array, Array, Array, Array]:
    """What to normalise, the means, what is yet to be taken off each channel, and the variances."""
    if _in_runs(c):
        mean, var = np.empty(c.shape[1], c.dtype), np.empty(c.shape[1], c.dtype)
        if C.channel_moments(c, mean, var):
            return c, mean, mean, var
    mean = average(c, (0, 2))
    var = _dot_channels(c, c) / c.dtype.type(n) - mean * mean
    if np.all(mean * mean <= NEAR**2 * var):
        return c, mean, mean, var
    c = np.subtract(c, mean[:, None])
    return c, mean, np.zeros_like(mean), _dot_channels(c, c) / c.dtype.type(n)


def _affine(c: Array, scale: Array, shift: Array) -> Array:
    """``c * scale + shift``, one of each for a channel."""
    if _in_runs(c):
        result = np.empty(c.shape, c.dtype)
        if C.channel_affine(c, scale, shift, result):
            return result
    with spreading(c.shape[2]):
        result = c * _column(scale)
        result += _column(shift)
    return result


def batch_norm(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[Array, Array, Array]:
    """``x`` normalised channel by channel, and the mean and reciprocal deviation used (empty when not training).

    Training takes the statistics from the batch and moves the running ones towards them, in place.
    """
    _check_batch_norm(x, weight, bias, running_mean, running_var, training)
    stat = _check_types("batch_norm", x, weight, bias, running_mean, running_var)
    if not training or x.size == 0:
        return _batch_norm_eval(x, weight, bias, running_mean, running_var, eps, stat)
    c = _channels(x)
    n = c.shape[0] * c.shape[2]
    c, mean, offset, var = _channel_moments(c, n)
    invstd = 1 / np.sqrt(var + c.dtype.type(eps))
    scale = invstd if weight is None else invstd * wide(weight)
    result = _affine(c, scale, -offset * scale if bias is None else wide(bias) - offset * scale)
    unbiased = var * (n / (n - 1)) if n > 1 else np.full_like(var, np.nan)
    _move(running_mean, mean, momentum)
    _move(running_var, unbiased, momentum)
    return narrow(result, x.dtype).reshape(x.shape), narrow(mean, stat), narrow(invstd, stat)


def _move(running: Array | None, batch: Array, momentum: float) -> None:
    """Move running statistics towards those of the batch."""
    if running is not None:
        running[...] = narrow(wide(running) * (1 - momentum) + batch.reshape(running.shape) * momentum, running.dtype)


def _batch_norm_eval(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    eps: float,
    stat: np.dtype[Any],
) -> tuple[Array, Array, Array]:
    nothing = np.zeros(0, stat)
    if x.size == 0 or running_mean is None or running_var is None:
        return x.copy(), nothing, nothing
    scale = 1 / np.sqrt(wide(running_var).reshape(-1) + eps)
    if weight is not None:
        scale = scale * wide(weight)
    shift = -wide(running_mean).reshape(-1) * scale
    if bias is not None:
        shift = shift + wide(bias)
    c = _channels(x)
    result = _affine(c, scale.astype(c.dtype, copy=False), shift.astype(c.dtype, copy=False))
    return narrow(result, x.dtype).reshape(x.shape), nothing, nothing


def _channel_products(g: Array, c: Array, mean: Array, invstd: Array) -> tuple[Array, Array, Array, Array]:
    """``c`` or ``c`` centred, what of the mean is yet to be taken off, and for each channel the sum of ``g`` and of ``g``
    times the centred ``c``."""
    if _in_runs(c):
        sums, along = np.empty(c.shape[1], c.dtype), np.empty(c.shape[1], c.dtype)
        if C.channel_products(g, c, mean, sums, along):
            return c, mean, sums, along
    base, column = _near_zero(c, _column(mean), _column(invstd))
    sums, offset = total(g, (0, 2)), column[:, 0]
    return base, offset, sums, _dot_channels(g, base) - offset * sums


def _mixed(g: Array, base: Array, offset: Array, scale: Array, slope: Array, level: Array) -> Array:
    """``g * scale - (base - offset) * slope - level``, one of each for a channel."""
    if _in_runs(g):
        result = np.empty(g.shape, g.dtype)
        if C.channel_mix(g, base, offset, scale, -slope, -level, result):
            return result
    with spreading(g.shape[2]):
        result = g * _column(scale)
        result -= base * _column(slope)
        result += _column(offset * slope - level)
    return result


def batch_norm_backward(
    grad: Array,
    x: Array,
    weight: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    save_mean: Array | None,
    save_invstd: Array | None,
    training: bool,
    eps: float = 1e-5,
    output_mask: Sequence[bool] = (True, True, True),
) -> tuple[Array | None, Array | None, Array | None]:
    """Gradients with respect to input, weight and bias; None where ``output_mask`` says so."""
    g, c = _channels(grad), _channels(x)
    if training and x.size:
        mean, invstd = wide(np.asarray(save_mean)), wide(np.asarray(save_invstd))
    elif running_mean is not None and running_var is not None:
        mean, invstd = wide(running_mean), (1 / np.sqrt(wide(running_var) + eps)).astype(g.dtype)
    else:
        mean, invstd = np.zeros(g.shape[1], g.dtype), np.ones(g.shape[1], g.dtype)
    base, offset, grad_bias, along = _channel_products(g, c, mean, invstd)
    grad_weight = along * invstd
    grad_x = None
    if output_mask[0]:
        scale = invstd if weight is None else invstd * wide(weight)
        if training and x.size:
            n = g.shape[0] * g.shape[2]
            result = _mixed(g, base, offset, scale, scale * invstd * grad_weight / n, scale * grad_bias / n)
        else:
            result = _affine(g, scale, np.zeros_like(scale))
        grad_x = narrow(result, x.dtype).reshape(x.shape)
    kind = next(p.dtype for p in (weight, running_mean, save_mean, x) if p is not None)
    return (
        grad_x,
        narrow(grad_weight, kind) if output_mask[1] else None,
        narrow(grad_bias, kind) if output_mask[2] else None,
    )


# ---------------------------------------------------------------------------------------------------- instance_norm


# ---------------------------------------------------------------------------------------------------- group_norm


def _check_group_norm(x: Array, num_groups: int, weight: Array | None, bias: Array | None) -> None:
    if x.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {x.ndim}")
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if x.shape[1] % num_groups:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{shape_text(x.shape)} and num_groups={num_groups}"
        )
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and given.shape != (x.shape[1],):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {shape_text(given.shape)} and input of shape {shape_text(x.shape)}"
            )


def group_norm(
    x: Array, num_groups: int, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5
) -> tuple[Array, Array, Array]:
    """``x`` normalised over groups of channels, and mean and reciprocal deviation of shape (batch, groups)."""
    _check_group_norm(x, num_groups, weight, bias)
    stat = _check_types("GroupNormKernelImpl", x, weight, bias)
    n, channels = x.shape[:2]
    space = math.prod(x.shape[2:])
    rows = wide(x).reshape(n * num_groups, channels // num_groups * space)
    fused = _groups_in_one_pass(rows, (n, channels, space), weight, bias, eps)
    result, mean, rstd = fused or _normalized_groups(rows, (n, channels, space), weight, bias, eps)
    shape = (n, num_groups)
    return (
        narrow(result, x.dtype).reshape(x.shape),
        narrow(mean, stat).reshape(shape),
        narrow(rstd, stat).reshape(shape),
    )


def _groups_in_one_pass(
    rows: Array, shape: tuple[int, int, int], weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array] | None:
    """Groups, a row each, by the compiled loops; None where they do not take the arrays."""
    if C is None:
        return None
    parts = np.empty(rows.shape, rows.dtype), np.empty(len(rows), rows.dtype), np.empty(len(rows), rows.dtype)
    if not C.layer_norm(rows, None, None, float(eps), *parts):
        return None
    if weight is not None or bias is not None:
        scale = np.ones(shape[1], rows.dtype) if weight is None else wide(weight)
        shift = np.zeros(shape[1], rows.dtype) if bias is None else wide(bias)
        channels = parts[0].reshape(shape)
        if not C.channel_affine(channels, scale, shift, channels):
            return None
    return parts


def _normalized_groups(
    rows: Array, shape: tuple[int, int, int], weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    n, channels, space = shape
    size = rows.dtype.type(max(rows.shape[1], 1))
    mean = total(rows, (1,)) / size
    offset, var = mean, dot_rows(rows, rows) / size - mean * mean
    if not np.all(mean * mean <= NEAR**2 * var):
        rows, offset = rows - mean[:, None], np.zeros_like(mean)
        var = dot_rows(rows, rows) / size
    rstd = 1 / np.sqrt(var + size.dtype.type(eps))
    spread = channels * n // max(len(rows), 1)
    scale = np.repeat(rstd, spread).reshape(n, channels)
    if weight is not None:
        scale = scale * wide(weight)
    shift = -np.repeat(offset, spread).reshape(n, channels) * scale
    if bias is not None:
        shift = shift + wide(bias)
    with spreading(space):
        result = rows.reshape(n, channels, space) * scale[..., None]
        result += shift[..., None]
    return result, mean, rstd


def group_norm_backward(
    grad: Array,
    x: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    num_groups: int,
    output_mask: Sequence[bool] = (True, True, True),
) -> tuple[Array | None, Array | None, Array | None]:
    """Gradients with respect to input, weight and bias; None where ``output_mask`` says so."""
    n, channels = x.shape[:2]
    spread, space = channels // num_groups, math.prod(x.shape[2:])
    # Every channel of every sample counts as one of a single sample, with the statistics of its group.
    g, c = (_channels(a).reshape(1, n * channels, space) for a in (grad, x))
    center, scale = (np.repeat(wide(s).reshape(-1), spread) for s in (mean, rstd))
    base, offset, level, along = _channel_products(g, c, center, scale)
    grad_x = grad_weight = grad_bias = None
    kind = x.dtype if weight is None else weight.dtype
    if output_mask[0]:
        factors = np.ones(n * channels, g.dtype) if weight is None else np.tile(wide(weight), n)
        levels, alongs = (_sum_groups(part * factors, spread) / max(spread * space, 1) for part in (level, along))
        result = _mixed(g, base, offset, scale * factors, alongs * scale**3, levels * scale)
        grad_x = narrow(result, x.dtype).reshape(x.shape)
    if output_mask[1]:
        grad_weight = narrow(total((along * scale).reshape(n, channels), (0,)), kind)
    if output_mask[2]:
        grad_bias = narrow(total(level.reshape(n, channels), (0,)), kind)
    return grad_x, grad_weight, grad_bias


def _sum_groups(values: Array, spread: int) -> Array:
    """For each channel the sum over its group of so many."""
    return np.repeat(values.reshape(-1, spread).sum(1), spread)
