"""Formulas of ops that multiply and add up: matrices, distances, convolutions, attention, recurrent layers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...core.tap import InputRecord
from .inputs import Formula, broadcast, flags, has, is_not_one, numbers, numel, value

# --- products of matrices ---------------------------------------------------------------------------------------------


def added(record: InputRecord, results: int, beta: int = 3, alpha: int = 4) -> int:
    """What it takes to add the first input to a product of so many results: `beta * self + alpha * product`."""
    scale = value(record, beta, 1)
    own = 0 if scale == 0 else 1 if scale == 1 else 2
    return (own + is_not_one(record, alpha)) * results


def matrix_product(record: InputRecord) -> int:
    """Of two matrices, or of two batches of them."""
    return 2 * numel(record) * record.shapes[1][-1]


def addmm(record: InputRecord) -> int:
    (rows, inner), columns = record.shapes[1], record.shapes[2][-1]
    return 2 * rows * inner * columns + added(record, rows * columns)


def baddbmm(record: InputRecord) -> int:
    (batch, rows, inner), columns = record.shapes[1], record.shapes[2][-1]
    return 2 * batch * rows * inner * columns + added(record, batch * rows * columns)


def addbmm(record: InputRecord) -> int:
    (batch, rows, inner), columns = record.shapes[1], record.shapes[2][-1]
    return 2 * batch * rows * inner * columns + added(record, rows * columns)


def addr(record: InputRecord) -> int:
    """An outer product, one operation an element, and the sum."""
    results = numel(record, 1) * numel(record, 2)
    return results + added(record, results)


def trilinear(record: InputRecord) -> int:
    """`_trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim)`: a product of two, summed over what the third has
    not, then that with the third."""
    first, second, third = (list(shape) for shape in record.shapes[:3])
    for shape, place in zip((first, second, third), (3, 4, 5)):
        for dim in sorted(value(record, place)):
            shape.insert(dim, 1)
    both = [max(sizes) for sizes in zip(first, second, strict=True)]
    early = [dim for dim in value(record, 6) if dim in value(record, 5)]
    late = len(value(record, 6)) > len(early)
    rest = [max(1 if dim in early else both[dim], size) for dim, size in enumerate(third)]
    return (1 + bool(early)) * math.prod(both) + (1 + late) * math.prod(rest)


# --- distances --------------------------------------------------------------------------------------------------------


def cdist(first: int) -> Formula:
    """Difference, power and sum for each pair of rows and each column; `first` is the place of the first rows."""

    def formula(record: InputRecord) -> int:
        rows, others = record.shapes[first : first + 2]
        return 3 * broadcast((rows[:-2], others[:-2])) * rows[-2] * others[-2] * rows[-1]

    return formula


def pdist(place: int) -> Formula:
    def formula(record: InputRecord) -> int:
        rows, columns = record.shapes[place]
        return 3 * (rows * (rows - 1) // 2) * columns

    return formula


# --- convolutions -----------------------------------------------------------------------------------------------------


def _space(sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
           dilation: Sequence[int]) -> int:  # fmt: skip
    """Places at which a kernel is put."""
    each = zip(sizes, kernel, stride, padding, dilation, strict=True)
    return math.prod((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in each)


def transposed_space(record: InputRecord, stride: int, padding: int, dilation: int, output_padding: int) -> int:
    sizes, kernel = record.shapes[0][2:], record.shapes[1][2:]
    steps, cut, holes, more = (numbers(record, at, len(sizes)) for at in (stride, padding, dilation, output_padding))
    each = zip(sizes, kernel, steps, cut, holes, more, strict=True)
    return math.prod((n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, d, o in each)


def convolution(bias: int, stride: int, padding: int, dilation: int = -1) -> Formula:
    """Every weight of a filter meets every place; the arguments are the places of those of the op."""

    def formula(record: InputRecord) -> int:
        (batch, _, *sizes), (filters, *weights) = record.shapes[0], record.shapes[1]
        steps, sides = (numbers(record, at, len(sizes)) for at in (stride, padding))
        holes = numbers(record, dilation, len(sizes)) if dilation >= 0 else [1] * len(sizes)
        results = batch * filters * _space(sizes, weights[1:], steps, sides, holes)
        return results * (2 * math.prod(weights) + has(record, bias))

    return formula


def any_convolution(record: InputRecord) -> int:
    """`_convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, …)`."""
    if not value(record, 6):
        return convolution(2, 3, 4, 5)(record)
    return transposed(record, 2, transposed_space(record, 3, 4, 5, 7), int(value(record, 8, 1)))


def transposed(record: InputRecord, bias: int, space: int, groups: int) -> int:
    """Every element of the input meets every weight of its channel's filters."""
    batch, filters = record.shapes[0][0], record.shapes[1][1] * groups
    return 2 * numel(record) * math.prod(record.shapes[1][1:]) + has(record, bias) * batch * filters * space


def transposed_convolution(record: InputRecord) -> int:
    """`slow_conv_transpose2d(self, weight, kernel_size, bias, stride, padding, output_padding, dilation)`."""
    return transposed(record, 3, transposed_space(record, 4, 5, 7, 6), 1)


def convolution_backward(mask: int, transposed: int = -1) -> Formula:
    """As much as forward for the input, and again for the weight; what the mask at a place does not ask for is not."""

    def formula(record: InputRecord) -> int:
        turned = transposed >= 0 and bool(value(record, transposed))
        for_input, for_weight, for_bias = flags(record, mask, 3)
        product = 2 * numel(record, 1 if turned else 0) * math.prod(record.shapes[2][1:])
        return product * (for_input + for_weight) + numel(record) * for_bias

    return formula


# --- attention --------------------------------------------------------------------------------------------------------


def attention(query: int, backward: bool = False, again: bool = False) -> Formula:
    """Products of queries and keys, of weights and values, and the softmax between; the queries are at a place.

    Backward of a product has two, of softmax four operations a score; scores that were not kept are computed again.
    """

    def formula(record: InputRecord) -> int:
        (*outer, length, width), (*_, keys, _), (*_, value_width) = record.shapes[query : query + 3]
        each = 4 * (width + value_width) + 4 if backward else 2 * (width + value_width) + 5
        return math.prod(outer) * length * keys * (each + again * (2 * width + 5))

    return formula


# --- recurrent layers -------------------------------------------------------------------------------------------------


def recurrent_layer(
    input: int, weight: int, operations: int, passes: int = 1, bias: int = -1, biased: int = 0
) -> Formula:
    """The gates of all steps, products of input and state by the weights from a place on, and what follows them.

    `operations` are those a step and hidden unit takes besides; `biased` more where there is a bias.
    """

    def formula(record: InputRecord) -> int:
        rows = math.prod(record.shapes[input][:-1])
        (gates, width), (_, hidden) = record.shapes[weight], record.shapes[weight + 1]
        each = operations + (biased if bias < 0 or has(record, bias) else 0)
        return rows * (2 * passes * gates * (width + hidden) + each * hidden)

    return formula


def onednn_layer(passes: int, operations: dict[int, int], mode: int) -> Formula:
    """torch's layer of its own on CPUs: input and weights come first, its mode tells the network."""

    def formula(record: InputRecord) -> int:
        each = operations[value(record, mode, 2)]
        bias = 0 if passes == 1 and not has(record, 3) else record.shapes[1][0] // record.shapes[2][1]
        return recurrent_layer(0, 1, each + bias, passes)(record)

    return formula


# Sum of input's and state's part and function for each gate; then five more for the cell and the state of an LSTM, six
# for the state of a GRU. Gradients: three for each function, the products that a gate is in, the sums.
