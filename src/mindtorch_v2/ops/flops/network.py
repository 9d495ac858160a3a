"""Formulas of ops of networks that are no products: normalisation, pooling, resampling, optimizers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...core.tap import InputRecord
from .inputs import Formula, flags, has, numbers, numel, value

# --- normalisation ----------------------------------------------------------------------------------------------------


def _normalised(record: InputRecord, groups: int, weight: int, bias: int) -> int:
    """Sum, difference, square and its sum, product with the inverse deviation; weight and bias; four a group.

    Those are two divisions, the epsilon and the inverse root.
    """
    return (5 + has(record, weight) + has(record, bias)) * numel(record) + 4 * groups


def layer_norm(record: InputRecord) -> int:
    """`native_layer_norm(input, normalized_shape, weight, bias, eps)`."""
    inner = math.prod(numbers(record, 1, len(value(record, 1))))
    return _normalised(record, numel(record) // max(inner, 1), 2, 3)


def rms_norm(record: InputRecord) -> int:
    """`_fused_rms_norm(input, normalized_shape, weight, eps)`: square, sum, product; three a row."""
    inner = math.prod(numbers(record, 1, len(value(record, 1))))
    return (3 + has(record, 2)) * numel(record) + 3 * (numel(record) // max(inner, 1))


def group_norm(record: InputRecord) -> int:
    """`native_group_norm(input, weight, bias, N, C, HxW, group, eps)`."""
    return _normalised(record, record.shapes[0][0] * int(value(record, 6)), 1, 2)


def batch_norm(record: InputRecord) -> int:
    """`native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)`.

    Each of the running estimates takes three more a channel; with them in place of the batch's own there are no sums.
    """
    channels = record.shapes[0][1]
    if value(record, 5, True):
        return _normalised(record, channels, 1, 2) + 6 * channels * has(record, 3)
    return (2 + has(record, 1) + has(record, 2)) * numel(record) + 2 * channels


def norm_backward(record: InputRecord, mask: int, weight: int, fixed: bool = False) -> int:
    """Gradients of input, weight and bias, as far as the mask at a place asks for them.

    The normalised input takes two operations an element; its product with the gradient and the sum of that, for the
    weight, two; the sum of gradients, for the bias, one; two such sums of the weighted gradient and four to put it
    together, for the input. Where mean and deviation are `fixed`, that one is a product alone.
    """
    for_input, for_weight, for_bias = flags(record, mask, 3)
    moving = for_input and not fixed
    each = 2 * (moving or for_weight) + 2 * for_weight + for_bias
    each += 7 + has(record, weight) if moving else int(for_input)
    return each * numel(record)


# --- pooling ----------------------------------------------------------------------------------------------------------


def _windows(sizes: Sequence[int], window: Sequence[int], stride: Sequence[int], padding: Sequence[int],
             dilation: Sequence[int], ceil: bool) -> int:  # fmt: skip
    """How many windows there are; with `ceil`, also those that begin in the input or its left padding and reach out."""
    found = 1
    for n, k, s, p, d in zip(sizes, window, stride, padding, dilation, strict=True):
        room = n + 2 * p - d * (k - 1) - 1
        count = (room + (s - 1 if ceil else 0)) // s + 1
        found *= count - (ceil and (count - 1) * s >= n + p)
    return found


def pool(ndim: int, after: int, dilation: int = -1) -> Formula:
    """One operation for each element in each window, and `after` for each window.

    Arguments are input, window, stride, padding, then for some a dilation, and whether to round up.
    """

    def formula(record: InputRecord) -> int:
        shape = record.shapes[0]
        window = numbers(record, 1, ndim)
        stride = numbers(record, 2, ndim, window) if value(record, 2) else window
        holes = numbers(record, dilation, ndim, 1) if dilation >= 0 else [1] * ndim
        ceil = bool(value(record, 4 if dilation < 0 else dilation + 1, False))
        places = _windows(shape[-ndim:], window, stride, numbers(record, 3, ndim, 0), holes, ceil)
        return math.prod(shape[:-ndim]) * places * (math.prod(window) + after)

    return formula


def avg_pool_backward(ndim: int) -> Formula:
    """`avg_pool2d_backward(grad_output, self, kernel_size, …)`: a quotient, added to each element of its window."""
    return lambda record: numel(record) * (1 + math.prod(numbers(record, 2, ndim)))


def adaptive_avg_pool_backward(record: InputRecord) -> int:
    return numel(record) + numel(record, 1)


def adaptive_pool(ndim: int, after: int) -> Formula:
    """Every element of the input is read once, but for those that two windows share."""

    def formula(record: InputRecord) -> int:
        return numel(record) + after * math.prod(record.shapes[0][:-ndim]) * math.prod(numbers(record, 1, ndim))

    return formula


def fractional_pool(ndim: int) -> Formula:
    """`fractional_max_pool2d(input, kernel_size, output_size, random_samples)`."""

    def formula(record: InputRecord) -> int:
        window, places = numbers(record, 1, ndim), numbers(record, 2, ndim)
        return math.prod(record.shapes[0][:-ndim]) * math.prod(window) * math.prod(places)

    return formula


# --- resampling -------------------------------------------------------------------------------------------------------


def resampled(ndim: int, taps: int) -> Formula:
    """A weighted sum of so many elements for each result; the result's sizes are given, or factors are."""

    def formula(record: InputRecord) -> int:
        shape = record.shapes[0]
        sizes = value(record, 1)
        if not isinstance(sizes, (list, tuple)):
            factors = [given for given in record.concrete if isinstance(given, (list, tuple))][-1]
            sizes = [int(size * factor) for size, factor in zip(shape[-ndim:], factors, strict=True)]
        return (2 * taps - 1) * math.prod(shape[:-ndim]) * math.prod(sizes)

    return formula


def resampled_backward(taps: int) -> Formula:
    return lambda record: 2 * taps * numel(record)


def affine_grid(record: InputRecord) -> int:
    """Every place of the result by the matrix of its sample: `affine_grid_generator(theta, size, align_corners)`."""
    return 2 * numel(record) * math.prod(numbers(record, 1, len(value(record, 1)))[2:])


# --- optimizers -------------------------------------------------------------------------------------------------------


def _parameters(record: InputRecord) -> int:
    return sum(math.prod(shape) for shape in record.shapes[0])


def adam(record: InputRecord) -> int:
    """Three for the first moment, four for the second, three for the divisor, three for the step, two for the decay."""
    return (13 + 2 * bool(value(record, 9, 0))) * _parameters(record)


def sgd(record: InputRecord) -> int:
    """Two for the step, two for the momentum, two for the decay."""
    return (2 + 2 * bool(value(record, 4, 0)) + 2 * bool(value(record, 3, 0))) * _parameters(record)
