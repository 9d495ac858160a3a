"""Convolution kernels beside torch: values, gradients through autograd, and error texts, over random geometries."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mindtorch_v2.kernels.network import conv

PLAIN = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def geometry(seed: int) -> dict:
    """A random geometry; about one in four does not fit together."""
    rng = random.Random(seed)
    ndim = rng.choice([1, 2, 2, 3])

    def axes(low: int, high: int) -> tuple[int, ...]:
        return tuple(rng.randint(low, high) for _ in range(ndim))

    depthwise = rng.random() < 0.3
    return {
        "ndim": ndim,
        "batch": rng.randint(1, 3),
        "groups": rng.randint(2, 5) if depthwise else rng.choice([1, 1, 2, 3]),
        "in_per_group": 1 if depthwise else rng.randint(1, 3),
        "out_per_group": rng.randint(1, 3),
        "space": axes(1, 9),
        "kernel": axes(1, 4),
        "stride": axes(1, 3),
        "padding": axes(0, 3),
        "dilation": axes(1, 3),
        "output_padding": axes(0, 2),
        "dtype": rng.choice([torch.float64, torch.float64, torch.float32, torch.complex128]),
    }


def arrays(g: dict, transposed: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    channels, outputs = g["in_per_group"] * g["groups"], g["out_per_group"] * g["groups"]
    w_lead = (channels, g["out_per_group"]) if transposed else (outputs, g["in_per_group"])
    shapes = (g["batch"], channels, *g["space"]), (*w_lead, *g["kernel"]), (outputs,)
    return tuple(torch.randn(shape, dtype=g["dtype"], requires_grad=True) for shape in shapes)


def as_array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().resolve_conj().numpy()


def assert_close(got: np.ndarray, expected: torch.Tensor) -> None:
    tolerance = 1e-4 if expected.dtype == torch.float32 else 1e-10
    torch.testing.assert_close(
        torch.from_numpy(np.ascontiguousarray(got)), expected.detach().resolve_conj(), rtol=tolerance, atol=tolerance
    )


def outcome(call):
    """The result, or the first line of the RuntimeError."""
    try:
        return call(), None
    except RuntimeError as error:
        return None, str(error).split("\n")[0]


@pytest.mark.parametrize("seed", range(300))
def test_plain(seed):
    g = geometry(seed)
    x, w, b = arrays(g, transposed=False)
    rest = (g["stride"], g["padding"], g["dilation"], g["groups"])
    expected, refusal = outcome(lambda: PLAIN[g["ndim"]](x, w, b, *rest))
    got, message = outcome(lambda: conv.conv_forward(as_array(x), as_array(w), *rest, as_array(b)))
    assert message == refusal
    if refusal:
        return
    assert_close(got, expected)
    grad = torch.randn_like(expected)
    grads = torch.autograd.grad(expected, (x, w, b), grad)
    assert_close(conv.conv_backward_input(as_array(grad), as_array(w), tuple(x.shape), *rest), grads[0])
    assert_close(conv.conv_backward_weight(as_array(grad), as_array(x), tuple(w.shape), *rest), grads[1])
    assert_close(conv.conv_backward_bias(as_array(grad)), grads[2])


@pytest.mark.parametrize("seed", range(300))
def test_transposed(seed):
    g = geometry(seed)
    x, w, b = arrays(g, transposed=True)
    rest = (g["stride"], g["padding"], g["dilation"], g["groups"])
    options = (*rest[:2], g["output_padding"], g["groups"], g["dilation"])
    expected, refusal = outcome(lambda: TRANSPOSED[g["ndim"]](x, w, b, *options))
    if g["dtype"] is torch.float32:
        # oneDNN refuses in words of its own and takes empty outputs; ATen, which runs doubles, is the one to match.
        _, refusal = outcome(lambda: TRANSPOSED[g["ndim"]](x.double(), w.double(), b.double(), *options))
    got, message = outcome(
        lambda: conv.conv_transpose_forward(
            as_array(x), as_array(w), *rest[:2], g["output_padding"], *rest[2:], as_array(b)
        )
    )
    assert message == refusal
    if refusal:
        return
    assert_close(got, expected)
    grad = torch.randn_like(expected)
    grads = torch.autograd.grad(expected, (x, w), grad)
    assert_close(conv.conv_transpose_backward_input(as_array(grad), as_array(w), tuple(x.shape), *rest), grads[0])
    assert_close(conv.conv_transpose_backward_weight(as_array(grad), as_array(x), tuple(w.shape), *rest), grads[1])


@pytest.mark.parametrize(
    ("x_shape", "w_shape", "options"),
    [
        ((1, 4, 8, 8), (4, 4, 3), {}),
        ((1, 4, 8, 8), (4, 4), {}),
        ((1, 4, 8, 8), (1, 2, 3, 3), {"groups": 2}),
        ((1, 4, 8, 8), (4, 3, 3, 3), {"groups": 2}),
        ((1, 4, 8, 8), (4, 4, 3, 3), {"groups": 0}),
        ((1, 4, 8, 8), (4, 4, 3, 3), {"stride": (0, 1)}),
        ((1, 4, 8, 8), (4, 4, 3, 3), {"dilation": (0, 1)}),
        ((1, 4, 8, 8), (4, 4, 3, 3), {"padding": (0, -1)}),
        ((1, 4, 8, 8), (4, 4, 3, 3), {"dilation": (1, 1, 1)}),
        ((2, 4, 0, 8), (4, 4, 1, 3), {"padding": (1, 1)}),
    ],
)
def test_refusals(x_shape, w_shape, options):
    x, w = torch.ones(x_shape), torch.ones(w_shape)
    given = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1} | options
    with pytest.raises(RuntimeError) as expected:
        F.conv2d(x, w, **given)
    with pytest.raises(RuntimeError) as caught:
        conv.conv_forward(x.numpy(), w.numpy(), **given)
    assert str(caught.value) == str(expected.value).split("\n")[0]


@pytest.mark.parametrize("shape", [(0, 4, 8, 8), (2, 0, 8, 8)])
def test_empty(shape):
    w = torch.ones(4, shape[1], 3, 3)
    expected = F.conv2d(torch.ones(shape), w)
    got = conv.conv_forward(np.ones(shape, np.float32), w.numpy(), (1, 1), (0, 0), (1, 1), 1)
    assert got.shape == tuple(expected.shape)
