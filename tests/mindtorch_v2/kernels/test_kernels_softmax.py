"""Softmax and normalisation kernels against their definitions in float64, gradients against slopes."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from mindtorch_v2.kernels.network import normalize, softmax

F32 = np.float32


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def slope(function, a: np.ndarray, grad: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Central differences of ``sum(function(a) * grad)``."""
    result = np.zeros_like(a)
    for at in np.ndindex(*a.shape):
        up, down = a.copy(), a.copy()
        up[at] += step
        down[at] -= step
        result[at] = ((function(up) - function(down)) * grad).sum() / (2 * step)
    return result


# ---------------------------------------------------------------------------------------------------- softmax


@pytest.mark.parametrize("offset", [0, -300, 300])
@pytest.mark.parametrize("shape", [(5, 6), (70, 90)])
@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_at_any_height(offset, shape, dim):
    a = random(*shape)
    exp = np.exp(a)
    wanted = exp / exp.sum(dim, keepdims=True)
    got = softmax.softmax((a + offset).astype(F32), dim)
    np.testing.assert_allclose(got, wanted, rtol=1e-4)
    np.testing.assert_allclose(softmax.log_softmax((a + offset).astype(F32), dim), np.log(wanted), atol=1e-4)


def test_rows_of_any_height_side_by_side():
    a = np.zeros((2, 5000), F32)
    a[0], a[1] = 50, -200
    np.testing.assert_allclose(softmax.softmax(a, 1), np.full(a.shape, 1 / 5000), rtol=1e-6)


@pytest.mark.parametrize("height", [-400.0, 70.0, 400.0, -math.inf, math.inf, math.nan])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_row_far_from_the_others(height, dtype):
    a = random(100, 1000).astype(dtype)
    a[-1, 10:] = height
    want = [softmax.softmax(row, 0) for row in a]
    np.testing.assert_allclose(softmax.softmax(a, 1), want, rtol=1e-5)
    logarithms = [softmax.log_softmax(row, 0) for row in a]
    np.testing.assert_allclose(softmax.log_softmax(a, 1), logarithms, rtol=1e-5, atol=1e-5)


def test_softmax_of_infinities():
    inf = math.inf
    np.testing.assert_array_equal(softmax.softmax(np.array([-inf, 0.0, 0]), 0), [0, 0.5, 0.5])
    assert np.isnan(softmax.softmax(np.array([-inf, -inf]), 0)).all()
    assert np.isnan(softmax.log_softmax(np.array([inf, 0]), 0)).any()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_floats_are_rounded_once(dtype):
    a = random(9, 300).astype(dtype)
    exact = softmax.softmax(a.astype(np.float64), 1)
    np.testing.assert_array_equal(softmax.softmax(a, 1), exact.astype(F32).astype(dtype))


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_gradients_are_slopes(name, dim):
    a, grad = random(3, 4), random(4, 3).T
    function = getattr(softmax, name)
    got = getattr(softmax, f"{name}_backward_data")(grad, function(a, dim), dim)
    np.testing.assert_allclose(got, slope(lambda x: function(x, dim), a, grad), rtol=1e-5, atol=1e-8)


def test_softmax_refuses_integers_unless_told_a_type():
    with pytest.raises(NotImplementedError, match="\"softmax_lastdim_kernel_impl\" not implemented for 'Long'"):
        softmax.softmax(np.array([1, 2]), 0)
    assert softmax.softmax(np.array([1, 2]), 0, dtype=np.dtype(np.float64)).sum() == pytest.approx(1)


# ---------------------------------------------------------------------------------------------------- rows


@pytest.mark.parametrize("offset", [0, 1000])
def test_layer_norm_by_its_definition(offset):
    x, weight, bias = random(54, 300) + offset, random(300), random(300)
    wanted = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * weight + bias
    out, mean, rstd = normalize.layer_norm(x.astype(F32), (300,), weight.astype(F32), bias.astype(F32))
    np.testing.assert_allclose(out, wanted, atol=2e-3 if offset else 1e-5)
    np.testing.assert_allclose(mean[:, 0], x.mean(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(rstd[:, 0], 1 / np.sqrt(x.var(1) + 1e-5), rtol=1e-3)


@pytest.mark.parametrize("offset", [0, 50])
def test_row_gradients_are_slopes(offset):
    x, weight, bias, grad = random(3, 5) + offset, random(5), random(5) + 1, random(5, 3).T

    def forward(x, weight, bias):
        return normalize.layer_norm(x, (5,), weight, bias)

    _, *stats = forward(x, weight, bias)
    got = normalize.layer_norm_backward(grad, x, (5,), *stats, weight, bias)
    np.testing.assert_allclose(got[2], grad.sum(0))
    np.testing.assert_allclose(got[0], slope(lambda v: forward(v, weight, bias)[0], x, grad), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got[1], slope(lambda v: forward(x, v, bias)[0], weight, grad), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray])
def test_many_rows_have_the_gradients_of_single_ones(layout):
    x, weight, bias, grad = random(64, 128), random(128), random(128), layout(random(128, 64).T)
    _, *stats = normalize.layer_norm(x, (128,), weight, bias)
    got, *_ = normalize.layer_norm_backward(grad, x, (128,), *stats, weight, bias)
    for row in range(0, 64, 9):
        one = slice(row, row + 1)
        wanted, *_ = normalize.layer_norm_backward(grad[one], x[one], (128,), *(s[one] for s in stats), weight, bias)
        np.testing.assert_allclose(got[one], wanted, rtol=1e-9, atol=1e-12)


def test_layer_norm_refusals():
    x = np.zeros((2, 3), F32)
    with pytest.raises(RuntimeError, match=r"Given normalized_shape=\[4\], expected input with shape \[\*, 4\]"):
        normalize.layer_norm(x, (4,), None, None)
    with pytest.raises(RuntimeError, match="mixed dtype"):
        normalize.layer_norm(x, (3,), np.zeros(3), None)


# ---------------------------------------------------------------------------------------------------- channels


@pytest.mark.parametrize("offset", [0, 1000])
@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 50)])
def test_batch_norm_trains_and_evaluates(offset, shape):
    x = random(*shape) + offset
    axes = (0, *range(2, x.ndim))
    mean, var = x.mean(axes), x.var(axes)
    n = x.size // 3
    running_mean, running_var = np.zeros(3), np.ones(3)
    out, save_mean, invstd = normalize.batch_norm(x, None, None, running_mean, running_var, True)
    column = (3, *(1,) * (x.ndim - 2))
    np.testing.assert_allclose(out, (x - mean.reshape(column)) / np.sqrt(var + 1e-5).reshape(column), atol=1e-7)
    np.testing.assert_allclose(save_mean, mean)
    np.testing.assert_allclose(invstd, 1 / np.sqrt(var + 1e-5))
    np.testing.assert_allclose(running_mean, 0.1 * mean)
    np.testing.assert_allclose(running_var, 0.9 + 0.1 * var * n / (n - 1))
    out, *_ = normalize.batch_norm(x, None, None, mean, var, False)
    np.testing.assert_allclose(out, (x - mean.reshape(column)) / np.sqrt(var + 1e-5).reshape(column), atol=1e-7)


@pytest.mark.parametrize("offset", [0, 50])
@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_gradients_are_slopes(training, offset):
    x, weight, grad = random(3, 2, 4) + offset, random(2), random(4, 3, 2).transpose(1, 2, 0)
    running = np.array([0.3, -0.2]), np.array([1.5, 0.7])

    def forward(x, weight):
        return normalize.batch_norm(x, weight, None, running[0].copy(), running[1].copy(), training)

    _, mean, invstd = forward(x, weight)
    got = normalize.batch_norm_backward(grad, x, weight, *running, mean, invstd, training)
    np.testing.assert_allclose(got[0], slope(lambda v: forward(v, weight)[0], x, grad), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[1], slope(lambda v: forward(x, v)[0], weight, grad), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[2], grad.sum((0, 2)))


@pytest.mark.parametrize("offset", [0, 50])
def test_group_norm_is_layer_norm_of_groups(offset):
    x, weight, grad = random(2, 6, 5) + offset, random(6), random(5, 2, 6).transpose(1, 2, 0)
    out, mean, rstd = normalize.group_norm(x, 3, weight)
    rows, *_ = normalize.layer_norm(x.reshape(6, 10), (10,), None, None)
    np.testing.assert_allclose(out, rows.reshape(x.shape) * weight[:, None], atol=1e-8)
    got = normalize.group_norm_backward(grad, x, mean, rstd, weight, 3)
    np.testing.assert_allclose(
        got[0], slope(lambda v: normalize.group_norm(v, 3, weight)[0], x, grad), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(
        got[1], slope(lambda v: normalize.group_norm(x, 3, v)[0], weight, grad), rtol=1e-4, atol=1e-6
    )


def test_channel_refusals():
    x = np.zeros((2, 4), F32)
    with pytest.raises(RuntimeError, match="running_mean should contain 4 elements not 3"):
        normalize.batch_norm(x, None, None, np.zeros(3, F32), np.zeros(4, F32), True)
    with pytest.raises(RuntimeError, match="running_mean must be defined in evaluation mode"):
        normalize.batch_norm(x, None, None, None, None, False)
    with pytest.raises(RuntimeError, match="divisible by num_groups"):
        normalize.group_norm(x, 3)
