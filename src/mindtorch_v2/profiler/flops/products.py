"""Formulas of ops that multiply and add up: matrices, distances, convolutions, attention, recurrent layers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..._tap import InputRecord
from .table import Formula, broadcast, define, flags, has, is_not_one, numbers, numel, value

# --- products of matrices ---------------------------------------------------------------------------------------------


def _added(record: InputRecord, results: int, beta: int = 3, alpha: int = 4) -> int:
    """What it takes to add the first input to a product of so many results: `beta * self + alpha * product`."""
    scale = value(record, beta, 1)
    own = 0 if scale == 0 else 1 if scale == 1 else 2
    return (own + is_not_one(record, alpha)) * results


def _addmm(record: InputRecord) -> int:
    (rows, inner), columns = record.shapes[1], record.shapes[2][-1]
    return 2 * rows * inner * columns + _added(record, rows * columns)


def _baddbmm(record: InputRecord) -> int:
    (batch, rows, inner), columns = record.shapes[1], record.shapes[2][-1]
    return 2 * batch * rows * inner * columns + _added(record, batch * rows * columns)


def _addbmm(record: InputRecord) -> int:
    (batch, rows, inner), columns = record.shapes[1], record.shapes[2][-1]
    return 2 * batch * rows * inner * columns + _added(record, rows * columns)


def _addr(record: InputRecord) -> int:
    """An outer product, one operation an element, and the sum."""
    results = numel(record, 1) * numel(record, 2)
    return results + _added(record, results)


def _trilinear(record: InputRecord) -> int:
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


define("mm bmm _int_mm", lambda record: 2 * numel(record) * record.shapes[1][-1])
define("mv dot vdot", lambda record: 2 * numel(record))
define("addmm", _addmm)
define("baddbmm", _baddbmm)
define("addbmm", _addbmm)
define("addmv", lambda record: 2 * numel(record, 1) + _added(record, record.shapes[1][0]))
define("addr", _addr)
define("_trilinear", _trilinear)


# --- distances --------------------------------------------------------------------------------------------------------


def _cdist(first: int) -> Formula:
    """Difference, power and sum for each pair of rows and each column; `first` is the place of the first rows."""

    def formula(record: InputRecord) -> int:
        rows, others = record.shapes[first : first + 2]
        return 3 * broadcast((rows[:-2], others[:-2])) * rows[-2] * others[-2] * rows[-1]

    return formula


def _pdist(place: int) -> Formula:
    def formula(record: InputRecord) -> int:
        rows, columns = record.shapes[place]
        return 3 * (rows * (rows - 1) // 2) * columns

    return formula


define("_cdist_forward", _cdist(0))
define("_cdist_backward", _cdist(1))
define("_pdist_forward", _pdist(0))
define("_pdist_backward", _pdist(1))


# --- convolutions -----------------------------------------------------------------------------------------------------


def _space(sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
           dilation: Sequence[int]) -> int:  # fmt: skip
    """Places at which a kernel is put."""
    each = zip(sizes, kernel, stride, padding, dilation, strict=True)
    return math.prod((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in each)


def _transposed_space(record: InputRecord, stride: int, padding: int, dilation: int, output_padding: int) -> int:
    sizes, kernel = record.shapes[0][2:], record.shapes[1][2:]
    steps, cut, holes, more = (numbers(record, at, len(sizes)) for at in (stride, padding, dilation, output_padding))
    each = zip(sizes, kernel, steps, cut, holes, more, strict=True)
    return math.prod((n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, d, o in each)


def _convolution(bias: int, stride: int, padding: int, dilation: int = -1) -> Formula:
    """Every weight of a filter meets every place; the arguments are the places of those of the op."""

    def formula(record: InputRecord) -> int:
        (batch, _, *sizes), (filters, *weights) = record.shapes[0], record.shapes[1]
        steps, sides = (numbers(record, at, len(sizes)) for at in (stride, padding))
        holes = numbers(record, dilation, len(sizes)) if dilation >= 0 else [1] * len(sizes)
        results = batch * filters * _space(sizes, weights[1:], steps, sides, holes)
        return results * (2 * math.prod(weights) + has(record, bias))

    return formula


def _any_convolution(record: InputRecord) -> int:
    """`_convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, …)`."""
    if not value(record, 6):
        return _convolution(2, 3, 4, 5)(record)
    return _transposed(record, 2, _transposed_space(record, 3, 4, 5, 7), int(value(record, 8, 1)))


def _transposed(record: InputRecord, bias: int, space: int, groups: int) -> int:
    """Every element of the input meets every weight of its channel's filters."""
    batch, filters = record.shapes[0][0], record.shapes[1][1] * groups
    return 2 * numel(record) * math.prod(record.shapes[1][1:]) + has(record, bias) * batch * filters * space


def _convolution_backward(mask: int, transposed: int = -1) -> Formula:
    """As much as forward for the input, and again for the weight; what the mask at a place does not ask for is not."""

    def formula(record: InputRecord) -> int:
        turned = transposed >= 0 and bool(value(record, transposed))
        for_input, for_weight, for_bias = flags(record, mask, 3)
        product = 2 * numel(record, 1 if turned else 0) * math.prod(record.shapes[2][1:])
        return product * (for_input + for_weight) + numel(record) * for_bias

    return formula


define("_convolution", _any_convolution)
define("mkldnn_convolution", _convolution(2, stride=4, padding=3, dilation=5))
define("thnn_conv2d _slow_conv2d_forward slow_conv3d slow_conv3d_forward", _convolution(3, stride=4, padding=5))
define("slow_conv_dilated2d slow_conv_dilated3d", _convolution(3, stride=4, padding=5, dilation=6))
define(
    "slow_conv_transpose2d slow_conv_transpose3d",
    lambda record: _transposed(record, 3, _transposed_space(record, 4, 5, 7, 6), 1),
)
define("convolution_backward", _convolution_backward(mask=10, transposed=7))
define("_slow_conv2d_backward", _convolution_backward(mask=6))


# --- attention --------------------------------------------------------------------------------------------------------


def _attention(query: int, backward: bool = False, again: bool = False) -> Formula:
    """Products of queries and keys, of weights and values, and the softmax between; the queries are at a place.

    Backward of a product has two, of softmax four operations a score; scores that were not kept are computed again.
    """

    def formula(record: InputRecord) -> int:
        (*outer, length, width), (*_, keys, _), (*_, value_width) = record.shapes[query : query + 3]
        each = 4 * (width + value_width) + 4 if backward else 2 * (width + value_width) + 5
        return math.prod(outer) * length * keys * (each + again * (2 * width + 5))

    return formula


define("_fused_attention", _attention(0))
define("_fused_attention_backward", _attention(1, backward=True))
_FLASH = "flash_attention_for_cpu flash_attention efficient_attention cudnn_attention"
for _kind in _FLASH.split():
    define(f"_scaled_dot_product_{_kind}", _attention(0))
    define(f"_scaled_dot_product_{_kind}_backward", _attention(1, backward=True, again=True))
define("_transform_bias_rescale_qkv", lambda record: numel(record) + numel(record) // 3)


# --- recurrent layers -------------------------------------------------------------------------------------------------


def _layer(input: int, weight: int, operations: int, passes: int = 1, bias: int = -1, biased: int = 0) -> Formula:
    """The gates of all steps, products of input and state by the weights from a place on, and what follows them.

    `operations` are those a step and hidden unit takes besides; `biased` more where there is a bias.
    """

    def formula(record: InputRecord) -> int:
        rows = math.prod(record.shapes[input][:-1])
        (gates, width), (_, hidden) = record.shapes[weight], record.shapes[weight + 1]
        each = operations + (biased if bias < 0 or has(record, bias) else 0)
        return rows * (2 * passes * gates * (width + hidden) + each * hidden)

    return formula


def _onednn_layer(passes: int, operations: dict[int, int], mode: int) -> Formula:
    """torch's layer of its own on CPUs: input and weights come first, its mode tells the network."""

    def formula(record: InputRecord) -> int:
        each = operations[value(record, mode, 2)]
        bias = 0 if passes == 1 and not has(record, 3) else record.shapes[1][0] // record.shapes[2][1]
        return _layer(0, 1, each + bias, passes)(record)

    return formula


# Sum of input's and state's part and function for each gate; then five more for the cell and the state of an LSTM, six
# for the state of a GRU. Gradients: three for each function, the products that a gate is in, the sums.
define("_lstm_layer", _layer(0, 3, 13, bias=5, biased=4))
define("_gru_layer", _layer(0, 2, 10, bias=4, biased=6))
define("_rnn_layer", _layer(0, 2, 2, bias=4, biased=1))
define("_lstm_layer_backward", _layer(3, 6, 23, passes=2, biased=4))
define("_gru_layer_backward", _layer(2, 4, 17, passes=2, biased=6))
define("_rnn_layer_backward", _layer(2, 4, 4, passes=2, biased=1))
define("mkldnn_rnn_layer", _onednn_layer(1, {2: 13, 3: 10}, 9))
define("mkldnn_rnn_layer_backward", _onednn_layer(2, {2: 23, 3: 17}, 14))
