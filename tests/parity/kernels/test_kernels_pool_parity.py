"""Pooling kernels beside torch: values, indices, gradients and refusals over random arguments."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import mindtorch_v2
from mindtorch_v2.kernels.network import pool

MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
ADAPTIVE_MAX = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}
ADAPTIVE_AVG = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
FRACTIONAL = {2: F.fractional_max_pool2d, 3: F.fractional_max_pool3d}


class Case:
    """A random input and geometry; about one in five does not fit together."""

    def __init__(self, seed: int, dimensions: tuple[int, ...] = (1, 2, 2, 3)):
        rng = self.rng = random.Random(seed)
        torch.manual_seed(seed)
        self.ndim = rng.choice(dimensions)
        lead = [rng.randint(1, 3) for _ in range(rng.choice([1, 2]))]
        self.space = self.axes(1, 9)
        self.kernel, self.stride, self.padding = self.axes(1, 4), self.axes(1, 4), self.axes(0, 2)
        self.dilation = self.axes(1, 3) if rng.random() < 0.4 else (1,) * self.ndim
        self.ceil_mode = rng.random() < 0.5
        x = torch.randn(*lead, *self.space, dtype=torch.float64)
        kind = rng.choice(["plain", "plain", "ties", "nan", "lowest"])
        if kind == "ties":
            x = (2 * x).round()
        elif kind == "nan":
            x[torch.rand(x.shape) < 0.2] = torch.nan
        elif kind == "lowest":
            x[torch.rand(x.shape) < 0.7] = -torch.inf
        self.x = x.requires_grad_()
        self.array = x.detach().numpy()

    def axes(self, low: int, high: int) -> tuple[int, ...]:
        return tuple(self.rng.randint(low, high) for _ in range(self.ndim))


def outcome(call):
    """The result, or the first line of the RuntimeError."""
    try:
        return call(), None
    except RuntimeError as error:
        return None, str(error).split("\n")[0]


def assert_same(got: np.ndarray, expected: torch.Tensor) -> None:
    assert got.dtype == expected.detach().numpy().dtype
    np.testing.assert_array_equal(got, expected.detach().numpy())


def gradient(out: torch.Tensor, x: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    grad = torch.randn_like(out)
    (back,) = torch.autograd.grad(out, x, grad)
    return grad.numpy(), back.numpy()


@pytest.mark.parametrize("seed", range(200))
def test_max_pool(seed):
    c = Case(seed)
    geometry = (c.kernel, c.stride, c.padding, c.dilation, c.ceil_mode)
    expected, refusal = outcome(lambda: MAX[c.ndim](c.x, *geometry, return_indices=True))
    got, message = outcome(lambda: pool.max_pool_forward(c.array, *geometry))
    assert message == refusal
    if refusal:
        return
    assert_same(got[0], expected[0])
    assert_same(got[1], expected[1])
    assert_same(pool.max_pool_values(c.array, *geometry), expected[0])
    # Windows that lie in the padding altogether name a place outside, where torch's gradient writes out of bounds.
    if got[1].max() < np.prod(c.space):
        grad, back = gradient(expected[0], c.x)
        got = pool.max_pool_backward(grad, got[1], tuple(c.x.shape), *geometry)
        np.testing.assert_allclose(got, back, atol=1e-12)


@pytest.mark.parametrize("seed", range(200))
def test_avg_pool(seed):
    c = Case(seed)
    include_pad = c.rng.random() < 0.5
    override = c.rng.choice([None, None, 3, -2]) if c.ndim > 1 else None
    options = {"divisor_override": override} if c.ndim > 1 else {}
    geometry = (c.kernel, c.stride, c.padding, c.ceil_mode, include_pad)
    expected, refusal = outcome(lambda: AVG[c.ndim](c.x, *geometry, **options))
    got, message = outcome(lambda: pool.avg_pool_forward(c.array, *geometry, override))
    assert message == refusal
    if refusal:
        return
    np.testing.assert_allclose(got, expected.detach(), atol=1e-12)
    grad, back = gradient(expected, c.x)
    got = pool.avg_pool_backward(grad, tuple(c.x.shape), *geometry, override)
    np.testing.assert_allclose(got, back, atol=1e-12)


@pytest.mark.parametrize("seed", range(150))
def test_adaptive(seed):
    c = Case(seed)
    size = c.axes(1, 7)
    if c.rng.random() < 0.3:
        size = tuple(c.rng.choice([d for d in range(1, n + 1) if n % d == 0]) for n in c.space)
    expected = ADAPTIVE_AVG[c.ndim](c.x, size)
    np.testing.assert_allclose(pool.adaptive_avg_pool_forward(c.array, size), expected.detach(), atol=1e-12)
    grad, back = gradient(expected, c.x)
    got = pool.adaptive_avg_pool_backward(grad, tuple(c.x.shape), size)
    np.testing.assert_allclose(got, back, atol=1e-12)
    expected, places = ADAPTIVE_MAX[c.ndim](c.x, size, return_indices=True)
    values, indices = pool.adaptive_max_pool_forward(c.array, size)
    assert_same(values, expected)
    assert_same(indices, places)
    grad, back = gradient(expected, c.x)
    got = pool.adaptive_max_pool_backward(grad, indices, tuple(c.x.shape), size)
    np.testing.assert_allclose(got, back, atol=1e-12)


@pytest.mark.parametrize("seed", range(150))
def test_fractional(seed):
    c = Case(seed, (2, 3))
    size = c.axes(1, 5)
    batch = c.x.shape[0] if c.x.ndim == c.ndim + 2 else 1
    samples = torch.rand(batch, c.x.shape[-c.ndim - 1], c.ndim, dtype=torch.float64)
    pool_torch = FRACTIONAL[c.ndim]
    expected, refusal = outcome(
        lambda: pool_torch(c.x, c.kernel, output_size=size, _random_samples=samples, return_indices=True)
    )
    got, message = outcome(lambda: pool.fractional_max_pool_forward(c.array, c.kernel, size, samples.numpy()))
    assert message == refusal
    if refusal:
        return
    assert_same(got[0], expected[0])
    assert_same(got[1], expected[1])
    grad, back = gradient(expected[0], c.x)
    got = pool.fractional_max_pool_backward(grad, got[1], tuple(c.x.shape), size)
    np.testing.assert_allclose(got, back, atol=1e-12)


@pytest.mark.parametrize(("ndim", "space"), [(1, (8,)), (2, (6, 8)), (3, (4, 6, 4))])
def test_unpool(ndim, space):
    unpool = {1: F.max_unpool1d, 2: F.max_unpool2d, 3: F.max_unpool3d}[ndim]
    values, indices = MAX[ndim](torch.randn(2, 3, *space), 2, return_indices=True)
    values.requires_grad_()
    expected = unpool(values, indices, 2, output_size=space)
    assert_same(pool.max_unpool_forward(values.detach().numpy(), indices.numpy(), space), expected)
    indices.view(-1)[5] = 1000
    _, refusal = outcome(lambda: unpool(values, indices, 2, output_size=space))
    _, message = outcome(lambda: pool.max_unpool_forward(values.detach().numpy(), indices.numpy(), space))
    assert message == refusal


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.float16, torch.bfloat16])
def test_other_types(dtype):
    x = (torch.randn(2, 3, 8, 8) * 10).abs().to(dtype)
    wide = x.float().numpy() if dtype.is_floating_point else x.numpy()
    expected, places = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    values, indices = pool.max_pool_forward(wide, (3, 3), (2, 2), (1, 1), (1, 1))
    np.testing.assert_array_equal(values, expected.float().numpy())
    np.testing.assert_array_equal(indices, places)


def test_long_average():
    x = torch.randint(-9, 9, (2, 3, 8, 8))
    got = pool.avg_pool_forward(x.numpy(), (3, 3), (2, 2), (1, 1))
    assert_same(got, F.avg_pool2d(x, 3, 2, 1))


EMPTY = [(4,), (0, 4, 8, 8), (1, 0, 8, 8), (1, 4, 0, 8), (4, 8, 0), (2, 1, 4, 8, 8, 1)]


@pytest.mark.parametrize("shape", EMPTY)
def test_empty_and_misshapen_inputs(shape):
    x = torch.zeros(shape)
    for torch_call, kernel_call in (
        (lambda: F.max_pool2d(x, 2), lambda: pool.max_pool_values(x.numpy(), (2, 2), (2, 2), (0, 0), (1, 1))),
        (lambda: F.adaptive_avg_pool2d(x, 2), lambda: pool.adaptive_avg_pool_forward(x.numpy(), (2, 2))),
        (
            lambda: F.adaptive_max_pool2d(x, 2, return_indices=True)[0],
            lambda: pool.adaptive_max_pool_forward(x.numpy(), (2, 2))[0],
        ),
    ):
        expected, refusal = outcome(torch_call)
        got, message = outcome(kernel_call)
        assert message == refusal
        assert refusal or got.shape == tuple(expected.shape)


@pytest.mark.parametrize(
    "arguments", [(0, 1, 0, 1), (2, 0, 0, 1), (2, -1, 0, 1), (2, 2, 2, 1), (2, 2, -1, 1), (2, 2, 0, 0), (9, 2, 0, 1)]
)
def test_refusals_of_max_pool1d_without_indices(arguments):
    with pytest.raises(RuntimeError) as expected:
        F.max_pool1d(torch.zeros(1, 4, 8), *arguments)
    with pytest.raises(RuntimeError) as caught:
        mindtorch_v2.nn.functional.max_pool1d(mindtorch_v2.zeros(1, 4, 8), *arguments)
    assert str(caught.value) == str(expected.value)
