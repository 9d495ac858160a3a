"""Resizing, grid sampling and shuffle kernels beside torch: values, gradients and refusals over random arguments."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mindtorch_v2.kernels.network import grid_sample, resample

NAMES = {
    "nearest": ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
    "nearest-exact": ("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
    "linear": ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"),
    "cubic": (None, "upsample_bicubic2d", None),
    "linear-aa": (None, "_upsample_bilinear2d_aa", None),
    "cubic-aa": (None, "_upsample_bicubic2d_aa", None),
    "lanczos-aa": (None, "_upsample_lanczos2d_aa", None),
}


def outcome(call):
    """The result, or the first line of the RuntimeError."""
    try:
        return call(), None
    except RuntimeError as error:
        return None, str(error).split("\n")[0]


def upsample(x, size, mode, align_corners, scales):
    op = getattr(torch.ops.aten, NAMES[mode][len(size) - 1])
    corners = [] if mode.startswith("nearest") else [align_corners]
    return op(x, size, *corners, *(scales or [None] * len(size)))


def geometry(seed: int, mode: str):
    """Sizes and scales where torch's gradient belongs to its forward pass.

    It does not where a scale leaves a size as it is, nor, antialiased, where the width becomes one; and torch looks up
    float64 neighbours in float32 when it goes back.
    """
    rng = random.Random(seed)
    ndim = rng.choice([d for d in (1, 2, 3) if NAMES[mode][d - 1]])
    top = 40 if rng.random() < 0.2 else 9
    space = tuple(rng.randint(1, top) for _ in range(ndim))
    align = mode in ("linear", "cubic") and rng.random() < 0.4
    scales = None
    if rng.random() < 0.5:
        scales = tuple(rng.choice([0.5, 2.0, 1.5, 2.7, 3.0]) for _ in range(ndim))
        size = tuple(max(1, int(n * s)) for n, s in zip(space, scales))
        if any(n == o or (n == 1 and s < 1) for n, o, s in zip(space, size, scales)):
            scales = None
    else:
        size = tuple(rng.randint(1, 2 * top) for _ in range(ndim))
    if mode.endswith("aa") and size[-1] == 1:
        size = (*size[:-1], 2)
        scales = None
    dtype = torch.float32 if mode.startswith("nearest") else rng.choice([torch.float32, torch.float64])
    return (rng.randint(1, 2), rng.randint(1, 3), *space), size, align, scales, dtype


@pytest.mark.parametrize("mode", NAMES)
@pytest.mark.parametrize("seed", range(60))
def test_upsample(mode, seed):
    shape, size, align, scales, dtype = geometry(seed, mode)
    torch.manual_seed(seed)
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    expected = upsample(x, size, mode, align, scales)
    grad = torch.randn_like(expected)
    (back,) = torch.autograd.grad(expected, x, grad)
    tolerance = 1e-10 if dtype == torch.float64 else 1e-4
    got = resample.upsample_forward(x.detach().numpy(), size, mode, align, scales)
    assert got.dtype == expected.detach().numpy().dtype
    np.testing.assert_allclose(got, expected.detach(), atol=tolerance)
    got = resample.upsample_backward(grad.numpy(), shape, mode, align, scales)
    np.testing.assert_allclose(got, back, atol=tolerance)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear"])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_forward_where_a_scale_leaves_the_size(mode, ndim):
    x = torch.arange(4.0**ndim).reshape(1, 1, *(4,) * ndim)
    size, scales = (4,) * ndim, (1.1,) * ndim
    expected = upsample(x, size, mode, False, scales)
    got = resample.upsample_forward(x.numpy(), size, mode, False, scales)
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_area(ndim):
    x = torch.randn(2, 3, *(7, 6, 5)[:ndim])
    expected = F.interpolate(x, size=(3, 9, 4)[:ndim], mode="area")
    got = resample.upsample_forward(x.numpy(), (3, 9, 4)[:ndim], "area")
    np.testing.assert_allclose(got, expected, atol=1e-6)


@pytest.mark.parametrize(("mode", "name"), [("linear", "bilinear"), ("cubic", "bicubic")])
@pytest.mark.parametrize("antialias", [False, True])
def test_bytes_differ_by_one_at_most(mode, name, antialias):
    x = torch.randint(0, 256, (1, 3, 17, 23), dtype=torch.uint8)
    expected = F.interpolate(x, size=(9, 31), mode=name, antialias=antialias)
    got = resample.upsample_forward(x.numpy(), (9, 31), mode + "-aa" * antialias)
    # torch rounds between the axes, too.
    assert np.abs(got.astype(int) - expected.numpy().astype(int)).max() <= 1


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((1, 2, 4, 4), (0, 3)),
        ((1, 2, 0, 4), (2, 3)),
        ((1, 0, 4, 4), (2, 3)),
        ((2, 4, 4), (2, 3)),
        ((1, 2, 4), (0,)),
        ((1, 2, 4, 4, 4), (0, 1, 1)),
    ],
)
def test_refusals_of_upsample(shape, size):
    _, refusal = outcome(lambda: upsample(torch.zeros(shape), size, "nearest", False, None))
    _, message = outcome(lambda: resample.upsample_forward(np.zeros(shape), size, "nearest"))
    assert refusal
    assert message == refusal


@pytest.mark.parametrize("seed", range(200))
def test_grid_sample(seed):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    ndim = rng.choice([2, 3])
    mode = rng.choice(["bilinear", "nearest", "bicubic"] if ndim == 2 else ["bilinear", "nearest"])
    options = (mode, rng.choice(["zeros", "border", "reflection"]), rng.random() < 0.5)
    batch = rng.randint(1, 2)
    space, places = ([rng.randint(1, 6) for _ in range(ndim)] for _ in range(2))
    x = torch.randn(batch, rng.randint(1, 3), *space, dtype=torch.float64, requires_grad=True)
    grid = torch.randn(batch, *places, ndim, dtype=torch.float64) * rng.choice([0.5, 1, 3])
    if rng.random() < 0.3:
        grid = (4 * grid).round() / 4
    grid.requires_grad_()
    expected = F.grid_sample(x, grid, *options)
    grad = torch.randn_like(expected)
    to_x, to_grid = torch.autograd.grad(expected, (x, grid), grad)
    a, b = x.detach().numpy(), grid.detach().numpy()
    np.testing.assert_allclose(grid_sample.grid_sample_forward(a, b, *options), expected.detach(), atol=1e-9)
    got = grid_sample.grid_sample_backward(grad.numpy(), a, b, *options)
    np.testing.assert_allclose(got[0], to_x, atol=1e-9)
    np.testing.assert_allclose(got[1], to_grid, atol=1e-9)


@pytest.mark.parametrize(
    ("shape", "grid", "mode"),
    [
        ((1, 2, 4, 4), (1, 3, 3, 3), "bilinear"),
        ((1, 2, 4, 4), (2, 3, 3, 2), "bilinear"),
        ((1, 2, 4), (1, 3, 3, 2), "bilinear"),
        ((1, 2, 0, 4), (1, 3, 3, 2), "bilinear"),
        ((1, 2, 4, 4, 4), (1, 3, 3, 3, 3), "bicubic"),
    ],
)
def test_refusals_of_grid_sample(shape, grid, mode):
    _, refusal = outcome(lambda: F.grid_sample(torch.zeros(shape), torch.zeros(grid), mode, align_corners=False))
    _, message = outcome(lambda: grid_sample.grid_sample_forward(np.zeros(shape), np.zeros(grid), mode))
    assert refusal
    assert message == refusal


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("space", [(4, 5), (3, 2, 4)])
def test_affine_grid(space, align_corners):
    theta = torch.randn(2, len(space), len(space) + 1, dtype=torch.float64, requires_grad=True)
    expected = F.affine_grid(theta, (2, 1, *space), align_corners=align_corners)
    grad = torch.randn_like(expected)
    (back,) = torch.autograd.grad(expected, theta, grad)
    got = grid_sample.affine_grid_forward(theta.detach().numpy(), space, align_corners)
    np.testing.assert_allclose(got, expected.detach(), atol=1e-12)
    np.testing.assert_allclose(grid_sample.affine_grid_backward(grad.numpy(), align_corners), back, atol=1e-12)


SHUFFLES = [
    (F.pixel_shuffle, resample.pixel_shuffle),
    (F.pixel_unshuffle, resample.pixel_unshuffle),
    (F.channel_shuffle, resample.channel_shuffle),
]


@pytest.mark.parametrize(("torch_shuffle", "shuffle"), SHUFFLES)
@pytest.mark.parametrize(
    "shape", [(4, 4), (3, 4, 4), (2, 8, 4, 6), (1, 4, 3, 4), (1, 4, 4, 3), (2, 3, 4, 4, 4), (1, 0, 4, 4), (4,)]
)
@pytest.mark.parametrize("factor", [2, 0, -1])
def test_shuffles(torch_shuffle, shuffle, shape, factor):
    x = torch.arange(float(np.prod(shape))).reshape(shape)
    expected, refusal = outcome(lambda: torch_shuffle(x, factor))
    got, message = outcome(lambda: shuffle(x.numpy(), factor))
    assert message == refusal
    if not refusal:
        np.testing.assert_array_equal(got, expected)
