"""What large arrays take in place of the plain way, compared with the plain way: piece by piece, or by its formula."""

from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.kernels import passes, totals
from mindtorch_v2.kernels.linalg.packed import multiplier
from mindtorch_v2.kernels.network import depthwise, grid_sample, normalize, softmax
from mindtorch_v2.kernels.pointwise import arithmetic, smooth
from mindtorch_v2.kernels.pointwise.activation import hardswish, prelu
from mindtorch_v2.kernels.reduction import reduce
from mindtorch_v2.kernels.totals import dot_rows, total

F32 = np.float32
SPECIAL = (0.0, -0.0, 6.0, -6.0, 1e30, np.inf, -np.inf, np.nan)


def numbers(count, seed=0, scale=10.0):
    return (np.random.default_rng(seed).standard_normal(count) * scale).astype(F32)


def with_special(count, seed=0):
    x = numbers(count, seed)
    x[: len(SPECIAL)] = SPECIAL
    return x


def in_pieces(function, *arrays):
    """The same by short pieces, which take the plain way."""
    with np.errstate(all="ignore"):
        pieces = [function(*(a[i : i + 500] for a in arrays)) for i in range(0, arrays[0].size, 500)]
    return np.concatenate(pieces)


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
@pytest.mark.parametrize("make", [numbers, with_special])
def test_division_of_many_numbers_is_that_of_few(name, make):
    function = getattr(arithmetic, name)
    a, b = make(70_000), numbers(70_000, 1, 1.0)
    with np.errstate(all="ignore"):
        found = function(a, b)
    np.testing.assert_array_equal(found, in_pieces(function, a, b))


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
@pytest.mark.parametrize("divisor", [0.3, -0.7, 7.0])
def test_division_by_a_number(name, divisor):
    function, b = getattr(arithmetic, name), np.array(divisor, F32)
    a = numbers(5000)
    np.testing.assert_array_equal(function(a, b), in_pieces(lambda part: function(part, b), a))


def test_logaddexp_of_many_numbers():
    a, b = with_special(70_000), with_special(70_000, 1)[::-1].copy()
    with np.errstate(all="ignore"):
        found = smooth.logaddexp(a, b)
    np.testing.assert_allclose(found, in_pieces(np.logaddexp, a, b), rtol=3e-7, atol=1e-7)


def test_logaddexp_of_equal_infinities():
    a = np.full(5000, np.inf, F32)
    with np.errstate(all="ignore"):
        assert (smooth.logaddexp(a, a) == np.inf).all()
        assert (smooth.logaddexp(-a, -a) == -np.inf).all()


@pytest.mark.parametrize("shape", [(70_001,), (100, 777)])
def test_product_of_many_factors(shape):
    factors = (1 + numbers(int(np.prod(shape)), scale=1e-3)).reshape(shape)
    expected = np.multiply.reduce(factors.astype(np.float64), None)
    np.testing.assert_allclose(reduce.prod(factors), expected, rtol=3e-4)  # a rounding for each factor
    assert reduce.prod(factors, keepdim=True).shape == (1,) * len(shape)
    for axis in range(len(shape)):
        expected = np.multiply.reduce(factors.astype(np.float64), axis)
        np.testing.assert_allclose(reduce.prod(factors, axis), expected, rtol=3e-4)


def test_many_numbers_are_spaced_from_both_ends():
    made, steps = torch.linspace(-3, 5, 5001).numpy(), np.arange(5001)
    step = np.float32(8) / np.float32(5000)
    lower, upper = F32(-3) + step * steps.astype(F32), F32(5) - step * (5000 - steps).astype(F32)
    np.testing.assert_array_equal(made, np.where(steps < 2500, lower, upper))


def test_nansum_with_and_without_nan():
    x = numbers(10_000)
    np.testing.assert_array_equal(reduce.nansum(x), reduce.sum(x))
    x[::7] = np.nan
    np.testing.assert_allclose(reduce.nansum(x), np.nansum(x.astype(np.float64)), rtol=1e-5)


def test_nan_to_num_of_finite_numbers_is_a_copy():
    x = numbers(100)
    found = smooth.nan_to_num(x, None, None, None)
    np.testing.assert_array_equal(found, x)
    assert not np.shares_memory(found, x)


@pytest.mark.parametrize("knee", [1.0, 0.3])
def test_bent_is_half_a_square_and_then_straight(knee):
    d = numbers(70_000, scale=1.0)
    knee = F32(knee)
    expected = np.where(np.abs(d) <= knee, F32(0.5) * d * d, knee * (np.abs(d) - F32(0.5) * knee))
    np.testing.assert_array_equal(smooth.bent(d, float(knee)), expected)


@pytest.mark.parametrize("weight", [0.25, 1.5, -2.0])
def test_prelu_with_one_slope(weight):
    x = numbers(70_000).reshape(70, 1000)
    np.testing.assert_array_equal(prelu(x, np.full((1, 1), weight, F32)), np.where(x > 0, x, x * F32(weight)))


def test_hardswish_of_many_numbers():
    x = with_special(70_000)
    with np.errstate(all="ignore"):
        expected = x * np.clip(x + F32(3), F32(0), F32(6)) / F32(6)
        np.testing.assert_allclose(hardswish(x), expected, rtol=3e-7)


def test_add_scaled_fresh_and_in_place():
    a, b = numbers(5000), numbers(5000, 1)
    expected = a + F32(0.3) * b
    np.testing.assert_allclose(arithmetic.add_scaled(a, b, 0.3), expected, rtol=1e-6, atol=1e-6)
    assert arithmetic.add_scaled(a, b, 0.3, out=a) is a
    np.testing.assert_allclose(a, expected, rtol=1e-6, atol=1e-6)


def test_add_scaled_into_overlapping_memory():
    memory = numbers(5001)
    a, b = memory[1:], memory[:-1]
    expected = a + F32(2) * b
    np.testing.assert_array_equal(arithmetic.add_scaled(a, b, 2, out=a), expected)


def test_add_scaled_into_the_second():
    a, b = numbers(5000), numbers(5000, 1)
    expected = a + F32(0.5) * b
    np.testing.assert_array_equal(arithmetic.add_scaled(a, b, 0.5, out=b), expected)


@pytest.mark.parametrize("n", [257, 512, 513, 1000, 4099])
def test_sums_of_rows(n):
    a = numbers(40 * n).reshape(40, n)
    wide = a.astype(np.float64)
    np.testing.assert_allclose(total(a, (1,)), wide.sum(1), rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(dot_rows(a, a), (wide * wide).sum(1), rtol=2e-6)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_many_images_are_sampled_as_one_by_one(mode, padding):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 3, 6, 5)).astype(F32)
    grid = (rng.random((50, 4, 7, 2)) * 2.4 - 1.2).astype(F32)
    together = grid_sample.grid_sample_forward(x, grid, mode, padding)
    alone = [grid_sample.grid_sample_forward(x[i : i + 1], grid[i : i + 1], mode, padding) for i in range(50)]
    np.testing.assert_array_equal(together, np.concatenate(alone))


@pytest.mark.parametrize("kernel", [(3, 3), (1, 5), (3,)])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("outputs", [1, 2])
def test_depthwise_convolution_by_the_compiled_loop(monkeypatch, kernel, stride, dilation, padding, outputs):
    torch.manual_seed(0)
    x, w = torch.randn(2, 3, *(11, 12)[: len(kernel)]), torch.randn(3 * outputs, 1, *kernel)
    convolve = torch.nn.functional.conv2d if len(kernel) == 2 else torch.nn.functional.conv1d
    found = convolve(x, w, None, stride, padding, dilation, 3)
    monkeypatch.setattr(depthwise, "C", None)
    expected = convolve(x, w, None, stride, padding, dilation, 3)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [8, 100])
@pytest.mark.parametrize("turned", [False, True])
def test_gradients_of_a_product_with_and_without_a_graph(rows, turned):
    torch.manual_seed(0)
    x = torch.randn(rows, 20, requires_grad=True)
    w = torch.randn(30, 20, requires_grad=True) if turned else torch.randn(20, 30, requires_grad=True)
    g = torch.randn(rows, 30)

    def gradients(create_graph):
        product = x @ (w.t() if turned else w)
        return torch.autograd.grad(product, (x, w), g, create_graph=create_graph)

    for plain, built in zip(gradients(False), gradients(True)):
        assert built.requires_grad
        assert not plain.requires_grad
        np.testing.assert_allclose(plain.numpy(), built.detach().numpy(), rtol=1e-6, atol=1e-6)
        assert plain.stride() == built.stride()


def test_a_gradient_spread_out_is_summed_with_and_without_a_graph():
    x = torch.randn(1, 7, requires_grad=True)
    y = torch.randn(50, 7)
    (plain,) = torch.autograd.grad((x * y).sum(), x)
    (built,) = torch.autograd.grad((x * y).sum(), x, create_graph=True)
    np.testing.assert_allclose(plain.numpy(), built.detach().numpy(), rtol=1e-6, atol=1e-6)
    assert plain.shape == (1, 7)


@pytest.mark.parametrize("rows", [[], [3], range(64)])
def test_a_mask_of_rows_chooses_whole_rows(rows: Any) -> None:
    x, y = np.zeros((), F32), np.arange(64 * 100, dtype=F32).reshape(64, 100)
    mask = np.zeros((64, 1), bool)
    mask[list(rows)] = True
    chosen = passes.where(mask, x, y)
    np.testing.assert_array_equal(chosen, np.where(mask, x, y))
    assert not np.shares_memory(chosen, y)


@pytest.mark.parametrize("rows", [1, 2, 16, 64, 65])
def test_linear_of_few_rows_is_the_product_and_lies_row_by_row(rows):
    x, w, b = numbers(rows * 300, 1, 1.0), numbers(300 * 200, 2, 1.0), numbers(200, 3, 1.0)
    x, w = x.reshape(rows, 300), w.reshape(200, 300)
    wanted = x.astype(np.float64) @ w.T.astype(np.float64) + b
    found = torch.nn.functional.linear(torch.from_numpy(x), torch.from_numpy(w), torch.from_numpy(b))
    assert found.is_contiguous()
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-4)
    square = torch.addmm(torch.from_numpy(wanted.astype(F32)), torch.from_numpy(x), torch.from_numpy(w).t())
    np.testing.assert_allclose(square.numpy(), 2 * wanted - b, rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError, match="expanded size"):
        torch.addmm(torch.zeros(3, 200), torch.from_numpy(x[:, :]), torch.from_numpy(w).t()[:, :199])


@pytest.mark.parametrize(
    ("hidden", "batch", "count"), [(200, 16, 1), (200, 3, 20), (40, 16, 20), (200, 16, 20), (40, 2, 2)]
)
def test_products_of_recurrent_steps_are_the_same_in_whatever_order(hidden, batch, count):
    w, h = (
        numbers(4 * hidden * hidden, 1, 1.0).reshape(-1, hidden),
        numbers(batch * hidden, 2, 1.0).reshape(batch, hidden),
    )
    wanted = h.astype(np.float64) @ w.T.astype(np.float64)
    np.testing.assert_allclose(multiplier(w.T, [batch] * count)(h), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(4, 3, 900), (9, 5, 256), (6, 700, 2), (3, 4, 900), (4, 2, 9000)])
def test_affine_of_channels(shape):
    c = numbers(int(np.prod(shape))).reshape(shape)
    scale, shift = numbers(shape[1], 1), numbers(shape[1], 2)
    wanted = c * scale[:, None] + shift[:, None]
    np.testing.assert_allclose(normalize._affine(c, scale, shift), wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3000, 2), (70, 90), (4, 5, 300), (1, 5000)])
def test_extremes_of_rows(shape, dtype):
    x = with_special(int(np.prod(shape))).astype(dtype).reshape(shape)
    rows = x.reshape(-1, shape[-1]).tolist()
    for function, pick in ((reduce.amax, max), (reduce.amin, min)):
        wanted = [np.nan if any(v != v for v in row) else pick(row) for row in rows]
        np.testing.assert_array_equal(function(x, -1).reshape(-1), wanted)
        assert function(x, -1, True).shape == (*shape[:-1], 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("count", [513, 2048, 2049, 70_000])
def test_bounds_hold_for_every_element_of_rows_and_of_what_is_left_over(dtype, count):
    x = numbers(count).astype(dtype)
    np.testing.assert_array_equal(passes.at_least(x, 2), np.where(x < 2, 2, x))
    np.testing.assert_array_equal(passes.at_most(x, 2), np.where(x > 2, 2, x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_block_of_bounds_begins_where_a_line_of_the_cache_does(dtype):
    block = passes._bound(1.5, np.empty(1000, dtype))
    assert block.ctypes.data % 64 == 0
    np.testing.assert_array_equal(block, np.full(1000, 1.5, dtype))


@pytest.mark.parametrize("width", [3, 20, 256, 300, 1000, 1021])
@pytest.mark.parametrize("limit", [0, 1 << 21])
def test_rows_in_the_cache_and_out_of_it_have_the_same_sums(width, limit, monkeypatch):
    monkeypatch.setattr(totals, "IN_CACHE", limit)
    x = numbers(40 * width, scale=1.0).reshape(40, width)
    np.testing.assert_allclose(totals.row_sums(x), x.astype(np.float64).sum(1), rtol=1e-5, atol=1e-4)


def test_gradients_of_log_softmax_by_blocks_of_rows_are_those_of_each_row(monkeypatch):
    monkeypatch.setattr(softmax, "BLOCK", 1 << 12)
    y, g = numbers(5 * 2000, scale=1.0).reshape(5, 2000), numbers(5 * 2000, 1, 1.0).reshape(5, 2000)
    found = softmax._log_softmax_backward_in_blocks(g, y)
    np.testing.assert_allclose(found, g - np.exp(y) * g.sum(1, keepdims=True), rtol=1e-5, atol=1e-4)
