"""Convolution kernels against a reference written as plain loops over outputs and taps."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from mindtorch_v2.kernels.network import conv

# x shape, w shape, stride, padding, dilation, groups
GEOMETRIES = {
    "1d": ((2, 3, 9), (4, 3, 3), (1,), (1,), (1,), 1),
    "1d-strided-dilated": ((2, 3, 11), (4, 3, 3), (2,), (2,), (3,), 1),
    "2d": ((2, 3, 5, 6), (4, 3, 3, 2), (1, 1), (1, 0), (1, 1), 1),
    "2d-strided": ((1, 2, 7, 8), (3, 2, 3, 3), (2, 3), (1, 2), (1, 1), 1),
    "2d-stride-shares-factor-with-dilation": ((1, 2, 11, 9), (3, 2, 3, 2), (2, 2), (1, 0), (2, 4), 1),
    "2d-pointwise": ((2, 3, 20, 20), (5, 3, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "2d-pointwise-strided": ((2, 3, 5, 5), (5, 3, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    "2d-patches": ((2, 2, 6, 7), (3, 2, 3, 3), (3, 3), (0, 0), (1, 1), 1),
    "2d-few-inputs-many-outputs": ((2, 1, 6, 6), (8, 1, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "2d-wide-padding": ((1, 2, 3, 3), (2, 2, 2, 2), (1, 1), (3, 3), (1, 1), 1),
    "2d-few-places-that-reach-far": ((2, 2, 5, 6), (3, 2, 5, 6), (1, 1), (0, 0), (1, 1), 1),
    "2d-groups": ((2, 4, 5, 5), (6, 2, 3, 3), (1, 2), (1, 1), (1, 1), 2),
    "2d-depthwise": ((2, 3, 6, 5), (3, 1, 3, 3), (1, 1), (1, 1), (1, 1), 3),
    "2d-depthwise-strided": ((2, 3, 7, 8), (6, 1, 3, 2), (2, 3), (1, 0), (2, 1), 3),
    "3d": ((1, 2, 4, 3, 5), (2, 2, 2, 2, 3), (1, 1, 2), (1, 0, 1), (1, 1, 1), 1),
    "3d-depthwise": ((1, 2, 4, 3, 5), (4, 1, 2, 2, 3), (1, 2, 1), (0, 1, 1), (1, 1, 2), 2),
}


def taps(x_shape, w_shape, stride, padding, dilation, groups):
    """Every product of a convolution, one at a time: (output index, input index, weight index)."""
    out_space = conv.conv_output_shape(x_shape, w_shape, stride, padding, dilation)[2:]
    per_group = w_shape[0] // groups
    for n, o in itertools.product(range(x_shape[0]), range(w_shape[0])):
        for q, c, k in itertools.product(np.ndindex(*out_space), range(w_shape[1]), np.ndindex(*w_shape[2:])):
            at = tuple(i * s + j * d - p for i, j, s, d, p in zip(q, k, stride, dilation, padding))
            if all(0 <= i < size for i, size in zip(at, x_shape[2:])):
                yield (n, o, *q), (n, o // per_group * w_shape[1] + c, *at), (o, c, *k)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


@pytest.fixture(params=list(GEOMETRIES), name="case")
def fixture_case(request):
    return GEOMETRIES[request.param]


def test_forward_sums_every_tap(case):
    x, w, rest = random(*case[0]), random(*case[1]), case[2:]
    expected = np.zeros(conv.conv_output_shape(x.shape, w.shape, *rest[:3]))
    for q, at, k in taps(*case):
        expected[q] += x[at] * w[k]
    np.testing.assert_allclose(conv.conv_forward(x, w, *rest), expected, atol=1e-12)


def test_backward_input_collects_every_tap(case):
    w, rest = random(*case[1]), case[2:]
    grad = random(*conv.conv_output_shape(case[0], case[1], *rest[:3]))
    expected = np.zeros(case[0])
    for q, at, k in taps(*case):
        expected[at] += grad[q] * w[k]
    np.testing.assert_allclose(conv.conv_backward_input(grad, w, case[0], *rest), expected, atol=1e-12)


def test_backward_weight_collects_every_tap(case):
    x, rest = random(*case[0]), case[2:]
    grad = random(*conv.conv_output_shape(case[0], case[1], *rest[:3]))
    expected = np.zeros(case[1])
    for q, at, k in taps(*case):
        expected[k] += grad[q] * x[at]
    np.testing.assert_allclose(conv.conv_backward_weight(grad, x, case[1], *rest), expected, atol=1e-12)


def test_blocks_of_any_size_give_the_same_result(case, monkeypatch):
    x, w, rest = random(*case[0]), random(*case[1]), case[2:]
    grad = random(*conv.conv_output_shape(x.shape, w.shape, *rest[:3]))

    def run():
        return (
            conv.conv_forward(x, w, *rest),
            conv.conv_backward_input(grad, w, x.shape, *rest),
            conv.conv_backward_weight(grad, x, w.shape, *rest),
        )

    whole = run()
    monkeypatch.setattr(conv, "BLOCK_BYTES", 1)
    monkeypatch.setattr(conv, "BLOCK_COLUMNS", 3)
    monkeypatch.setattr("mindtorch_v2.kernels.network.depthwise.BLOCK_BYTES", 1)
    for small, large in zip(run(), whole):
        np.testing.assert_allclose(small, large, atol=1e-12)


# Too many products to be summed tap by tap: planes are moved and added where that is compiled.
LARGE = {
    "1d": ((3, 5, 300), (9, 5, 7), (1,), (3,), (1,), 1),
    "1d-strided": ((2, 3, 700), (12, 3, 20), (6,), (0,), (1,), 1),
    "2d": ((3, 6, 21, 19), (15, 6, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "2d-unpadded": ((2, 6, 20, 20), (8, 6, 5, 5), (1, 1), (0, 0), (1, 1), 1),
    "2d-strided-dilated": ((2, 6, 25, 24), (7, 6, 3, 4), (2, 3), (2, 1), (3, 2), 1),
    "2d-narrow": ((2, 64, 5, 5), (16, 64, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "2d-few-places": ((2, 128, 4, 5), (8, 128, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "2d-groups": ((2, 12, 20, 20), (18, 4, 3, 3), (1, 1), (1, 1), (1, 1), 3),
    "2d-depthwise": ((2, 12, 30, 31), (12, 1, 5, 5), (1, 1), (2, 2), (1, 1), 12),
    "3d": ((2, 4, 7, 9, 10), (6, 4, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    "3d-strided": ((2, 4, 9, 11, 20), (6, 4, 3, 2, 3), (2, 1, 2), (1, 0, 1), (1, 2, 1), 1),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", LARGE.values(), ids=LARGE)
def test_large_convolutions_are_products_with_columns(case, dtype, monkeypatch):
    x, w, rest = random(*case[0]).astype(dtype), random(*case[1]).astype(dtype), case[2:]
    bias = random(len(w)).astype(dtype)
    grad = random(*conv.conv_output_shape(x.shape, w.shape, *rest[:3])).astype(dtype)

    def run():
        return (
            conv.conv_forward(x, w, *rest, bias),
            conv.conv_backward_input(grad, w, x.shape, *rest),
            conv.conv_backward_weight(grad, x, w.shape, *rest),
        )

    by_planes = run()
    monkeypatch.setattr(conv, "C", None)
    monkeypatch.setattr("mindtorch_v2.kernels.network.depthwise.C", None)
    for made, wanted in zip(by_planes, run()):
        np.testing.assert_allclose(made, wanted, atol=2e-3 if dtype is np.float32 else 1e-10)


def test_moves_that_leave_their_planes_are_refused():
    if conv.C is None:
        pytest.skip("the compiled kernels are not built")
    x, w, out = np.ones((1, 2, 40), np.float32), np.ones((3, 2, 2), np.float32), np.zeros((1, 3, 32), np.float32)
    far, near, behind = (np.array([0, last]) for last in (9, 8, -1))
    assert not any(conv.C.conv_direct(x, moves, w, None, out, (), 1) for moves in (far, behind))
    assert not any(conv.C.conv_weight_grad(x, moves, out, np.zeros_like(w), 1) for moves in (np.array([0, 39]), behind))
    assert conv.C.conv_direct(x, near, w, None, out, (), 1)
    assert (out == 4).all()


def test_bias_is_added_and_its_gradient_is_a_sum():
    x, w, b = random(2, 3, 5, 5), random(4, 3, 3, 3), random(4)
    geometry = ((1, 1), (1, 1), (1, 1), 1)
    out = conv.conv_forward(x, w, *geometry)
    np.testing.assert_allclose(conv.conv_forward(x, w, *geometry, b), out + b[:, None, None])
    np.testing.assert_allclose(conv.conv_backward_bias(out), out.sum((0, 2, 3)))


@pytest.mark.parametrize("output_padding", [(0, 0), (1, 1)])
def test_transposed_is_the_adjoint_of_the_plain_convolution(output_padding):
    x, w = random(2, 4, 4, 5), random(4, 3, 3, 3)
    stride, padding, dilation, groups = (2, 3), (1, 0), (1, 2), 1
    out = conv.conv_transpose_forward(x, w, stride, padding, output_padding, dilation, groups)
    probe = random(*out.shape)
    back = conv.conv_forward(probe, w, stride, padding, dilation, groups)
    assert np.vdot(out, probe) == pytest.approx(np.vdot(x, back))
    np.testing.assert_allclose(
        conv.conv_transpose_backward_input(probe, w, x.shape, stride, padding, dilation, groups), back
    )


def test_transposed_weight_gradient_is_the_derivative():
    x, w, step = random(2, 4, 4), random(4, 3, 3), 1e-6
    geometry = ((2,), (1,), (1,), (1,), 1)
    probe = random(*conv.conv_transpose_forward(x, w, *geometry).shape)
    got = conv.conv_transpose_backward_weight(probe, x, w.shape, (2,), (1,), (1,), 1)
    for k in np.ndindex(*w.shape):
        moved = w.copy()
        moved[k] += step
        change = conv.conv_transpose_forward(x, moved, *geometry) - conv.conv_transpose_forward(x, w, *geometry)
        assert np.vdot(change, probe) / step == pytest.approx(got[k], abs=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_halves_are_summed_in_float32_and_rounded_once(dtype):
    x, w = random(1, 8, 6, 6).astype(dtype), random(4, 8, 3, 3).astype(dtype)
    geometry = ((1, 1), (1, 1), (1, 1), 1)
    got = conv.conv_forward(x, w, *geometry)
    assert got.dtype == dtype
    exact = conv.conv_forward(x.astype(np.float32), w.astype(np.float32), *geometry)
    np.testing.assert_array_equal(got, exact.astype(dtype))


def test_integers_stay_integers():
    x, w = np.arange(8).reshape(1, 1, 8), np.array([[[1, 0, -1]]])
    out = conv.conv_forward(x, w, (1,), (0,), (1,), 1)
    assert out.dtype == np.int64
    assert out.tolist() == [[[-2] * 6]]


def test_complex_gradients_take_the_conjugate():
    x, w = random(1, 1, 4) + 1j * random(1, 1, 4)[..., ::-1], random(1, 1, 2) + 1j
    grad = conv.conv_forward(x, w, (1,), (0,), (1,), 1)
    expected = conv.conv_backward_input(grad, w.conj().conj(), x.shape, (1,), (0,), (1,), 1)
    direct = np.zeros_like(x)
    for i, k in itertools.product(range(3), range(2)):
        direct[0, 0, i + k] += grad[0, 0, i] * w[0, 0, k].conj()
    np.testing.assert_allclose(expected, direct)


def test_inputs_in_any_memory_order_are_taken():
    x, w = random(2, 3, 6, 6), random(4, 3, 3, 3)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    geometry = ((1, 1), (0, 0), (1, 1), 1)
    np.testing.assert_allclose(conv.conv_forward(last, w, *geometry), conv.conv_forward(x, w, *geometry))


def test_an_empty_batch_gives_an_empty_result_and_no_gradient():
    x, w = np.zeros((0, 3, 5, 5)), random(4, 3, 3, 3)
    geometry = ((1, 1), (1, 1), (1, 1), 1)
    out = conv.conv_forward(x, w, *geometry)
    assert out.shape == (0, 4, 5, 5)
    assert conv.conv_backward_input(out, w, x.shape, *geometry).shape == x.shape
    assert not conv.conv_backward_weight(out, x, w.shape, *geometry).any()


ERRORS = [
    (
        ((1, 4, 8, 8), (4, 3, 3, 3), None, (1, 1), (0, 0), (1, 1), 1),
        "Given groups=1, weight of size [4, 3, 3, 3], expected input[1, 4, 8, 8] to have 3 channels, ",
        "but got 4 channels instead",
    ),
    (
        ((1, 4, 8, 8), (4, 4, 3, 3), (3,), (1, 1), (0, 0), (1, 1), 1),
        "Given weight of size [4, 4, 3, 3], expected bias to be 1-dimensional with 4 elements, ",
        "but got bias of size [3] instead",
    ),
    (
        ((1, 4, 2, 3), (4, 4, 3, 3), None, (1, 1), (0, 0), (1, 1), 1),
        "Calculated padded input size per channel: (2 x 3). Kernel size: (3 x 3). ",
        "Kernel size can't be greater than actual input size",
    ),
    (
        ((1, 4, 8, 8), (3, 2, 3, 3), None, (1, 1), (0, 0), (1, 1), 2),
        "Given groups=2, expected weight to be divisible by 2 at dimension 0, ",
        "but got weight of size [[3, 2, 3, 3]] instead",
    ),
    (
        ((1, 4, 8, 8), (4, 4, 3, 3), None, (1, 1, 1), (0, 0), (1, 1), 1),
        "expected stride to be a single integer value or a list of 2 values to match the convolution dimensions, ",
        "but got stride=[1, 1, 1]",
    ),
    (((1, 4, 8, 8), (4, 4, 3, 3), None, (1, 1), (-1, 0), (1, 1), 1), "negative padding ", "is not supported"),
]


@pytest.mark.parametrize(("arguments", "begin", "end"), ERRORS)
def test_shapes_that_do_not_fit_are_refused_in_torchs_words(arguments, begin, end):
    with pytest.raises(RuntimeError) as caught:
        conv.check_conv(*arguments)
    assert str(caught.value) == begin + end


def test_output_padding_must_be_smaller_than_stride_or_dilation():
    message = (
        "output padding must be smaller than either stride or dilation, but got output_padding_height: 0 "
        "output_padding_width: 1 stride_height: 1 stride_width: 1 dilation_height: 1 dilation_width: 1"
    )
    with pytest.raises(RuntimeError) as caught:
        conv.conv_transpose_forward(random(1, 2, 4), random(2, 2, 3), (1,), (0,), (1,), (1,), 1)
    assert str(caught.value) == message


def test_the_number_of_dimensions_is_checked_by_name():
    with pytest.raises(RuntimeError, match=r"Expected 3D \(unbatched\) or 4D \(batched\) input to conv2d, but got"):
        conv.check_conv_input("conv2d", (1, 1, 4, 2, 2), 2)


def test_gradients_need_a_stride_too():
    x, w, grad = random(1, 2, 4), random(3, 2, 3), random(1, 3, 2)
    for gradient, other, shape in ((conv.conv_backward_input, w, x.shape), (conv.conv_backward_weight, x, w.shape)):
        with pytest.raises(RuntimeError, match="non-positive stride is not supported"):
            gradient(grad, other, shape, (0,), (0,), (1,), 1)
