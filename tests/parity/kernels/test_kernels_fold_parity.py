"""Unfold, fold and padding kernels beside torch: values, gradients and refusals over random arguments."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mindtorch_v2.kernels.network import fold


def outcome(call):
    """The result, or the type and first line of the error."""
    try:
        return call(), None
    except (RuntimeError, NotImplementedError) as error:
        return None, (type(error), str(error).split("\n")[0])


def random_input(rng: random.Random, ndim: int, low: int, high: int) -> torch.Tensor:
    lead = (rng.randint(1, 3) for _ in range(rng.choice([1, 2])))
    shape = (*lead, *(rng.randint(low, high) for _ in range(ndim)))
    return torch.arange(np.prod(shape), dtype=torch.float64).reshape(shape).requires_grad_()


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("seed", range(80))
def test_padding(mode, seed):
    rng = random.Random(seed)
    ndim = rng.choice([1, 2, 3])
    x = random_input(rng, ndim, 2, 5)
    # torch reads memory it has not written where it crops and wraps at once.
    pad = [rng.choice([0, 1, 2, 3] if mode == "circular" else [0, 1, 2, 3, 4, -1]) for _ in range(2 * ndim)]
    pads = fold.pad_pairs(pad)
    expected, refusal = outcome(lambda: F.pad(x, pad, mode=mode))
    a = x.detach().numpy()
    got, message = outcome(
        lambda: fold.pad_constant(a, pads) if mode == "constant" else fold.pad_forward(a, pads, mode)
    )
    assert message == refusal
    if refusal:
        return
    np.testing.assert_array_equal(got, expected.detach())
    if mode == "constant":
        return  # whose gradient is a padding the other way
    grad = torch.randn_like(expected)
    (back,) = torch.autograd.grad(expected, x, grad)
    np.testing.assert_allclose(fold.pad_backward(grad.numpy(), pads, mode), back, atol=1e-12)


@pytest.mark.parametrize("seed", range(100))
def test_unfold_and_fold(seed):
    rng = random.Random(seed)
    x = random_input(rng, 2, 1, 7)

    def pair(low: int, high: int) -> tuple[int, int]:
        return rng.randint(low, high), rng.randint(low, high)

    kernel, stride, padding, dilation = pair(1, 3), pair(1, 3), pair(0, 2), pair(1, 2)
    expected, refusal = outcome(lambda: F.unfold(x, kernel, dilation, padding, stride))
    got, message = outcome(lambda: fold.unfold_forward(x.detach().numpy(), kernel, stride, padding, dilation))
    assert message == refusal
    if refusal:
        return
    np.testing.assert_array_equal(got, expected.detach())
    columns, space = torch.randn_like(expected), tuple(x.shape[-2:])
    got = fold.fold_forward(columns.numpy(), space, kernel, stride, padding, dilation)
    np.testing.assert_allclose(got, F.fold(columns, space, kernel, dilation, padding, stride), atol=1e-12)


@pytest.mark.parametrize(
    ("shape", "output_size", "kernel", "options"),
    [
        ((3,), (3, 3), (2, 2), {}),
        ((1, 5, 4), (3, 3), (2, 2), {}),
        ((1, 4, 5), (3, 3), (2, 2), {}),
        ((1, 4, 4), (1, 1), (2, 2), {}),
        ((1, 0, 4), (3, 3), (2, 2), {}),
        ((1, 4, 4), (3, 3), (2, 2), {"stride": (0, 1)}),
        ((1, 4, 4), (3, 3), (2, 0), {}),
        ((1, 4, 4), (3, 3), (2, 2), {"dilation": (1, 0)}),
        ((1, 4, 4), (3, 3), (2, 2), {"padding": (1, -1)}),
    ],
)
def test_refusals_of_fold(shape, output_size, kernel, options):
    given = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)} | options
    with pytest.raises(RuntimeError) as expected:
        F.fold(torch.ones(shape), output_size, kernel, **given)
    with pytest.raises(RuntimeError) as caught:
        fold.fold_forward(np.ones(shape), output_size, kernel, **given)
    assert str(caught.value) == str(expected.value).split("\n")[0]
