"""Unfold, fold and padding kernels against plain loops and numpy.pad."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mindtorch_v2.kernels.network import fold

# x shape, kernel, stride, padding, dilation
WINDOWS = [
    ((2, 3, 7), (3,), (2,), (1,), (2,)),
    ((2, 3, 5, 6), (2, 3), (1, 2), (0, 1), (2, 1)),
    ((3, 5, 6), (2, 3), (1, 2), (0, 1), (2, 1)),
    ((1, 2, 3, 4, 3), (2, 2, 1), (1, 2, 1), (1, 0, 1), (1, 2, 1)),
]
MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def numbered(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float64).reshape(shape)


@pytest.mark.parametrize("case", WINDOWS)
def test_unfold_lists_what_each_window_sees(case):
    shape, kernel, stride, padding, dilation = case
    x, ndim = numbered(*shape), len(kernel)
    padded = np.pad(x, [(0, 0)] * (x.ndim - ndim) + [(p, p) for p in padding])
    space = fold.unfold_space(shape[-ndim:], kernel, stride, padding, dilation)
    expected = [
        [padded[(..., *(q * s + k * d for q, s, k, d in zip(at, stride, tap, dilation)))] for at in np.ndindex(*space)]
        for tap in np.ndindex(*kernel)
    ]
    lead = shape[:-ndim]
    expected = np.moveaxis(np.array(expected), (0, 1), (-2, -1)).reshape(*lead[:-1], -1, np.prod(space))
    np.testing.assert_array_equal(fold.unfold_forward(x, kernel, stride, padding, dilation), expected)


@pytest.mark.parametrize("case", WINDOWS)
def test_fold_is_the_adjoint_of_unfold(case):
    shape, *geometry = case
    x = np.random.default_rng(0).standard_normal(shape)
    columns = fold.unfold_forward(x, *geometry)
    probe = np.random.default_rng(1).standard_normal(columns.shape)
    space = shape[-len(geometry[0]) :]
    folded = fold.fold_forward(probe, space, *geometry)
    assert folded.shape == shape
    assert np.vdot(columns, probe) == pytest.approx(np.vdot(x, folded))


def test_fold_counts_how_many_windows_see_each_place():
    columns = np.ones((1, 4, 4))
    out = fold.fold_forward(columns, (3, 3), (2, 2), (1, 1), (0, 0), (1, 1))
    assert out.tolist() == [[[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]]


def test_folded_halves_are_summed_in_float32():
    columns = np.full((1, 4, 4), 0.1).astype(ml_dtypes.bfloat16)
    out = fold.fold_forward(columns, (3, 3), (2, 2), (1, 1), (0, 0), (1, 1))
    assert out.dtype == ml_dtypes.bfloat16
    assert out[0, 0, 1, 1] == ml_dtypes.bfloat16(4 * np.float32(columns[0, 0, 0]))


def test_torchs_flat_pad_names_the_last_dimension_first():
    assert fold.pad_pairs([1, 2, 3, 4]) == ((3, 4), (1, 2))
    with pytest.raises(RuntimeError, match="Padding length must be divisible by 2"):
        fold.pad_pairs([1])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("shape", "pads"), [((2, 4), ((3, 2),)), ((1, 2, 3, 4), ((2, 0), (1, 3))), ((2, 3, 4, 5), ((1, 1), (2, 3), (0, 4)))]
)
def test_padding_agrees_with_numpy(mode, shape, pads):
    x = numbered(*shape)
    expected = np.pad(x, [(0, 0)] * (x.ndim - len(pads)) + list(pads), mode=MODES[mode])
    np.testing.assert_array_equal(fold.pad_forward(x, pads, mode), expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pads", [((2, 1), (1, 3)), ((-1, 2), (0, -2)), ((0, 0), (1, 1))])
def test_the_gradient_of_padding_is_its_adjoint(mode, pads):
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5))
    out = fold.pad_forward(x, pads, mode)
    probe = np.random.default_rng(1).standard_normal(out.shape)
    back = fold.pad_backward(probe, pads, mode)
    assert back.shape == x.shape
    assert np.vdot(out, probe) == pytest.approx(np.vdot(x, back))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("pads", [((1, 2), (2, 1)), ((0, 3), (3, 0)), ((2, 0), (0, 0)), ((4, 4), (1, 3), (2, 2))])
def test_pads_all_around_are_those_of_one_axis_after_the_other(pads, mode):
    x = numbered(2, 5, 5, 4)
    expected = x
    for axis, (lo, hi) in enumerate(pads, start=4 - len(pads)):
        expected = fold._pad_axis(expected, axis, lo, hi, mode)
    np.testing.assert_array_equal(fold.pad_forward(x, pads, mode), expected)
    probe = back = numbered(*expected.shape) % 7
    for axis, (lo, hi) in enumerate(pads, start=4 - len(pads)):
        back = fold._unpad_axis(back, axis, lo, hi, mode)
    np.testing.assert_array_equal(fold.pad_backward(probe, pads, mode), back)


def test_reflection_looks_at_what_was_cropped_but_wrapping_does_not():
    x = numbered(1, 4)
    assert fold.pad_forward(x, ((-2, 2),), "reflect").tolist() == [[2, 3, 2, 1]]
    assert fold.pad_forward(x, ((-2, 2),), "circular").tolist() == [[2, 3, 2, 3]]


def test_constant_padding_pads_and_crops():
    x = numbered(2, 3)
    out = fold.pad_constant(x, ((0, 1), (-1, 2)), 9)
    assert out.tolist() == [[1, 2, 9, 9], [4, 5, 9, 9], [9, 9, 9, 9]]


@pytest.mark.parametrize("pads", [(), ((0, 0),)])
def test_padding_by_nothing_still_makes_a_new_array(pads):
    x = numbered(2, 3)
    assert not np.shares_memory(fold.pad_constant(x, pads), x)
    assert not np.shares_memory(fold.pad_forward(x, ((0, 0),), "reflect"), x)


REFUSALS = [
    (
        lambda: fold.pad_forward(numbered(1, 3, 4), ((4, 1),), "reflect"),
        RuntimeError,
        "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding (4, 1) at ",
        "dimension 2 of input [1, 3, 4]",
    ),
    (
        lambda: fold.pad_forward(numbered(1, 3, 4), ((5, 0),), "circular"),
        RuntimeError,
        "Padding value causes wrapping around ",
        "more than once.",
    ),
    (
        lambda: fold.pad_forward(numbered(1, 3, 4), ((-3, -1),), "replicate"),
        RuntimeError,
        "input (W: 4) is too small. ",
        "Calculated output W: 0",
    ),
    (
        lambda: fold.pad_forward(numbered(2, 3, 4, 4), ((1, 1),), "reflect"),
        NotImplementedError,
        "Padding size 2 is not supported ",
        "for 4D input tensor.",
    ),
    (
        lambda: fold.unfold_forward(numbered(1, 3, 3, 3), (5, 5), (1, 1), (0, 0), (1, 1)),
        RuntimeError,
        "Given input with spatial size (3, 3), kernel_size=(5, 5), dilation=(1, 1), padding=(0, 0), calculated shape ",
        "of the array of sliding blocks as (-1, -1), but its components must be at least one.",
    ),
    (
        lambda: fold.fold_forward(numbered(1, 4, 5), (3, 3), (2, 2), (1, 1), (0, 0), (1, 1)),
        RuntimeError,
        "Given output_size=(3, 3), kernel_size=(2, 2), dilation=(1, 1), padding=(0, 0), stride=(1, 1), expected size ",
        "of input's dimension 2 to match the calculated number of sliding blocks 2 * 2 = 4, but got input.size(2)=5.",
    ),
    (
        lambda: fold.unfold_forward(numbered(1, 3, 3, 3), (2, 2), (0, 1), (0, 0), (1, 1)),
        RuntimeError,
        "stride should be greater than zero, ",
        "but got stride_height: 0 stride_width: 1",
    ),
]


@pytest.mark.parametrize(("call", "error", "begin", "end"), REFUSALS)
def test_arguments_that_do_not_fit_are_refused_in_torchs_words(call, error, begin, end):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == begin + end
