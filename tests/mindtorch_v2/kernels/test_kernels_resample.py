"""Resizing, grid sampling and shuffle kernels against references that compute one output at a time."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from mindtorch_v2.kernels.network import grid_sample, resample
from mindtorch_v2.kernels.network.axis_map import AxisMap, runs

MODES = ["nearest", "nearest-exact", "linear", "cubic", "linear-aa", "cubic-aa", "lanczos-aa", "area"]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def keys(d: float, a: float) -> float:
    d = abs(d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def lanczos(d: float) -> float:
    return float(np.sinc(d) * np.sinc(d / 3)) if abs(d) < 3 else 0.0


def row(n: int, size: int, i: int, mode: str, align: bool) -> np.ndarray:
    """Weights of the ``n`` inputs in output ``i`` of ``size``, from the definition of each mode."""
    weights = np.zeros(n)
    step = (n - 1) / (size - 1) if align else n / size
    at = step * i if align else (i + 0.5) * step - 0.5
    if mode == "area":
        start, end = i * n // size, math.ceil((i + 1) * n / size)
        weights[start:end] = 1 / (end - start)
    elif mode.startswith("nearest"):
        weights[min(n - 1, math.floor((i + 0.5 * (mode == "nearest-exact")) * step))] = 1
    elif mode == "linear":
        low = min(n - 1, math.floor(max(at, 0)))
        weights[low] += 1 - (max(at, 0) - low)
        weights[min(low + 1, n - 1)] += max(at, 0) - low
    elif mode == "cubic":
        for k in range(math.floor(at) - 1, math.floor(at) + 3):
            weights[min(max(k, 0), n - 1)] += keys(at - k, -0.75)
    else:
        shape, reach = {
            "linear-aa": (lambda d: max(0.0, 1 - abs(d)), 1),
            "cubic-aa": (lambda d: keys(d, -0.5), 2),
            "lanczos-aa": (lanczos, 3),
        }[mode]
        stretch, center = max(step, 1), (i + 0.5) * step
        for k in range(max(0, int(center - reach * stretch + 0.5)), min(n, int(center + reach * stretch + 0.5))):
            weights[k] = shape((k - center + 0.5) / stretch)
        weights /= weights.sum()
    return weights


def matrices(space, output_size, mode, align=False):
    return [np.array([row(n, o, i, mode, align) for i in range(o)]) for n, o in zip(space, output_size)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("space", "output_size"), [((5, 7), (10, 4)), ((8, 6), (3, 13)), ((4, 9), (4, 2))])
def test_resizing_is_a_weighted_sum_along_each_axis(mode, space, output_size):
    x = random(2, 3, *space)
    a, b = matrices(space, output_size, mode)
    got = resample.upsample_forward(x, output_size, mode)
    np.testing.assert_allclose(got, np.einsum("ph,qw,nchw->ncpq", a, b, x), atol=1e-12)
    grad = random(*got.shape)
    back = resample.upsample_backward(grad, x.shape, mode)
    np.testing.assert_allclose(back, np.einsum("ph,qw,ncpq->nchw", a, b, grad), atol=1e-12)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_aligned_corners_keep_their_values(mode):
    x = random(1, 2, 4, 5)
    got = resample.upsample_forward(x, (7, 9), mode, align_corners=True)
    a, b = matrices((4, 5), (7, 9), mode, align=True)
    np.testing.assert_allclose(got, np.einsum("ph,qw,nchw->ncpq", a, b, x), atol=1e-12)
    np.testing.assert_allclose(got[..., [0, 0, -1, -1], [0, -1, 0, -1]], x[..., [0, 0, -1, -1], [0, -1, 0, -1]])


@pytest.mark.parametrize(("space", "output_size"), [((6,), (9,)), ((3, 4, 5), (6, 2, 7))])
def test_any_number_of_dimensions_is_resized(space, output_size):
    x = random(1, 2, *space)
    expected = x
    for axis, matrix in enumerate(matrices(space, output_size, "linear"), start=2):
        expected = np.moveaxis(np.tensordot(matrix, expected, (1, axis)), 0, axis)
    np.testing.assert_allclose(resample.upsample_forward(x, output_size, "linear"), expected, atol=1e-12)


def test_a_scale_factor_counts_rather_than_the_ratio_of_sizes():
    x = np.arange(5.0).reshape(1, 1, 5)
    assert resample.output_space((5,), (1.5,)) == (7,)
    # Positions are (i + 0.5) / 1.5 - 0.5, where the sizes alone would give (i + 0.5) * 5 / 7 - 0.5.
    expected = ((np.arange(7) + 0.5) / 1.5 - 0.5).clip(0, 4)
    np.testing.assert_allclose(resample.upsample_forward(x, (7,), "linear", False, (1.5,))[0, 0], expected)


def test_blocks_of_one_plane_give_the_same_result(monkeypatch):
    x = random(2, 3, 5, 6)
    whole = resample.upsample_forward(x, (9, 4), "cubic")
    monkeypatch.setattr(resample, "BLOCK_BYTES", 1)
    np.testing.assert_array_equal(resample.upsample_forward(x, (9, 4), "cubic"), whole)


def test_bytes_are_rounded_and_kept_in_range():
    x = np.array([[[[0, 255], [255, 0]]]], np.uint8)
    out = resample.upsample_forward(x, (3, 3), "linear", align_corners=True)
    assert out.dtype == np.uint8
    assert out.tolist() == [[[[0, 128, 255], [128, 128, 128], [255, 128, 0]]]]
    assert resample.upsample_forward(x, (4, 4), "nearest").tolist()[0][0][0] == [0, 0, 255, 255]


def test_halves_are_interpolated_in_float32():
    x = random(1, 1, 4, 4).astype(ml_dtypes.bfloat16)
    out = resample.upsample_forward(x, (7, 7), "linear")
    wide = resample.upsample_forward(x.astype(np.float32), (7, 7), "linear")
    np.testing.assert_array_equal(out, wide.astype(ml_dtypes.bfloat16))


def test_an_infinity_touches_only_outputs_that_see_it():
    x = np.zeros((1, 1, 8))
    x[..., 0] = np.inf
    out = resample.upsample_forward(x[..., None], (3, 1), "linear-aa")
    assert np.isfinite(out).ravel().tolist() == [False, True, True]


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_batch_is_resized_to_an_empty_result(mode):
    x = np.zeros((0, 2, 4, 6))
    out = resample.upsample_forward(x, (3, 9), mode)
    assert out.shape == (0, 2, 3, 9)
    assert resample.upsample_backward(out, x.shape, mode).shape == x.shape


def test_sizes_that_do_not_fit_are_refused_in_torchs_words():
    with pytest.raises(RuntimeError) as caught:
        resample.upsample_forward(np.zeros((1, 2, 4, 4)), (0, 3), "nearest")
    assert str(caught.value) == (
        "Input and output sizes should be greater than 0, but got input (H: 4, W: 4) output (H: 0, W: 3)"
    )


def test_a_map_and_its_transpose_are_adjoint_and_merge_what_falls_together():
    places = np.array([[0, 0, 2, 3], [0, 1, 4, 3]])
    table = AxisMap(places, np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]), 4)
    dense = np.zeros((4, 4))
    for tap, o in np.ndindex(2, 4):
        if places[tap, o] < 4:
            dense[o, places[tap, o]] += table.weight[tap, o]
    x, g = random(3, 4), random(3, 4)
    np.testing.assert_allclose(table.apply(x, 1), x @ dense.T)
    np.testing.assert_allclose(table.transposed().apply(g, 1), g @ dense)


def test_runs_are_summed_even_when_empty():
    out = runs(np.array([0, 2, 3]), np.array([2, 2, 5]), 5).apply(np.arange(5.0), 0)
    assert out.tolist() == [1, 0, 7]


# ---------------------------------------------------------------------------------------------------- grids


def settle(at: float, n: int, padding: str, align: bool) -> float:
    """Where a place in pixels is looked up under a padding mode."""
    if padding == "reflection":
        low, high = (0, n - 1) if align else (-0.5, n - 0.5)
        while not low <= at <= high:
            if low == high:
                return 0
            at = 2 * low - at if at < low else 2 * high - at
    return at if padding == "zeros" else min(max(at, 0), n - 1)


def neighbours(coordinate: float, n: int, mode: str, padding: str, align: bool) -> list[tuple[int, float]]:
    at = (coordinate + 1) / 2 * (n - 1) if align else ((coordinate + 1) * n - 1) / 2
    if mode == "bicubic":
        low = math.floor(at)
        return [(round(settle(k, n, padding, align)), keys(at - k, -0.75)) for k in range(low - 1, low + 3)]
    at = settle(at, n, padding, align)
    if mode == "nearest":
        return [(round(at), 1.0)]
    return [(math.floor(at), 1 - at + math.floor(at)), (math.floor(at) + 1, at - math.floor(at))]


def sampled(x, grid, mode, padding, align):
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for at in np.ndindex(*grid.shape[:-1]):
        axes = [neighbours(c, n, mode, padding, align) for c, n in zip(grid[at][::-1], x.shape[2:])]
        for corner in itertools.product(*axes):
            if all(0 <= place < n for (place, _), n in zip(corner, x.shape[2:])):
                value = x[(at[0], slice(None), *(place for place, _ in corner))]
                out[(at[0], slice(None), *at[1:])] += value * math.prod(weight for _, weight in corner)
    return out


GRIDS = [
    ((2, 3, 4, 5), mode, padding, align)
    for mode, padding, align in itertools.product(
        ["bilinear", "nearest", "bicubic"], ["zeros", "border", "reflection"], [False, True]
    )
] + [((1, 2, 3, 4, 2), "bilinear", padding, False) for padding in ("zeros", "border", "reflection")]


@pytest.mark.parametrize("case", GRIDS)
def test_sampling_and_its_gradients(case):
    shape, *options = case
    ndim = len(shape) - 2
    x, grid = random(*shape), 1.3 * random(shape[0], *(3, 2, 2)[:ndim], ndim)
    out = grid_sample.grid_sample_forward(x, grid, *options)
    np.testing.assert_allclose(out, sampled(x, grid, *options), atol=1e-12)
    grad, step = random(*out.shape), 1e-6
    to_x, to_grid = grid_sample.grid_sample_backward(grad, x, grid, *options)
    probe = random(*shape[::-1]).reshape(shape)
    assert np.vdot(to_x, probe) == pytest.approx(np.vdot(grad, sampled(probe, grid, *options)))
    for at in list(np.ndindex(*grid.shape))[::3]:
        moved = np.zeros_like(grid)
        moved[at] = step
        change = sampled(x, grid + moved, *options) - sampled(x, grid - moved, *options)
        assert np.vdot(change, grad) / (2 * step) == pytest.approx(to_grid[at], abs=1e-6)


def test_only_the_gradient_that_is_needed_is_made():
    x, grid = random(1, 1, 3, 3), random(1, 2, 2, 2)
    both = grid_sample.grid_sample_backward(np.ones((1, 1, 2, 2)), x, grid)
    to_x, nothing = grid_sample.grid_sample_backward(np.ones((1, 1, 2, 2)), x, grid, grid_needed=False)
    assert nothing is None
    np.testing.assert_array_equal(to_x, both[0])
    nothing, to_grid = grid_sample.grid_sample_backward(np.ones((1, 1, 2, 2)), x, grid, input_needed=False)
    assert nothing is None
    np.testing.assert_array_equal(to_grid, both[1])


def test_what_is_outside_does_not_see_an_infinity_at_the_border():
    x = np.full((1, 1, 2, 2), np.inf)
    assert grid_sample.grid_sample_forward(x, np.full((1, 1, 1, 2), -3.0)).item() == 0


def test_grids_that_do_not_fit_are_refused_in_torchs_words():
    with pytest.raises(RuntimeError) as caught:
        grid_sample.grid_sample_forward(np.zeros((1, 2, 4, 4)), np.zeros((1, 3, 3, 3)))
    assert str(caught.value) == (
        "grid_sampler(): expected grid to have size 2 in last dimension, but got grid with sizes [1, 3, 3, 3]"
    )


def test_the_identity_names_the_centres_of_pixels():
    identity = np.array([[[1.0, 0, 0], [0, 1, 0]]])
    grid = grid_sample.affine_grid_forward(identity, (2, 4))
    np.testing.assert_allclose(grid[0, 0, :, 0], [-0.75, -0.25, 0.25, 0.75])
    np.testing.assert_allclose(grid[0, :, 0, 1], [-0.5, 0.5])
    corners = grid_sample.affine_grid_forward(identity, (2, 4), align_corners=True)
    assert corners[0, 0, 0].tolist() == [-1, -1]
    assert corners[0, -1, -1].tolist() == [1, 1]


@pytest.mark.parametrize("space", [(3, 4), (2, 3, 4)])
def test_the_gradient_of_an_affine_grid_is_its_adjoint(space):
    theta = random(2, len(space), len(space) + 1)
    grid = grid_sample.affine_grid_forward(theta, space)
    probe = random(*grid.shape)
    back = grid_sample.affine_grid_backward(probe)
    assert np.vdot(grid, probe) == pytest.approx(np.vdot(theta, back))


# ---------------------------------------------------------------------------------------------------- shuffles


def test_pixel_shuffle_deals_channels_into_squares_and_back():
    x = np.arange(8.0).reshape(1, 4, 1, 2)
    out = resample.pixel_shuffle(x, 2)
    assert out.tolist() == [[[[0, 2, 1, 3], [4, 6, 5, 7]]]]
    np.testing.assert_array_equal(resample.pixel_unshuffle(out, 2), x)


def test_channel_shuffle_deals_channels_out_by_groups():
    x = np.arange(6.0).reshape(1, 6, 1)
    assert resample.channel_shuffle(x, 2).ravel().tolist() == [0, 3, 1, 4, 2, 5]
    np.testing.assert_array_equal(resample.channel_shuffle(resample.channel_shuffle(x, 2), 3), x)


@pytest.mark.parametrize(
    ("call", "end"),
    [
        (lambda: resample.pixel_shuffle(np.zeros((3, 4, 4)), 2), "but input.size(-3)=3 is not divisible by 4"),
        (lambda: resample.pixel_unshuffle(np.zeros((1, 3, 4)), 2), "but input.size(-2)=3 is not divisible by 2"),
        (lambda: resample.channel_shuffle(np.zeros((1, 3, 4)), 2), "Got 3 channels and 2 groups."),
    ],
)
def test_shuffles_refuse_what_does_not_divide(call, end):
    with pytest.raises(RuntimeError) as caught:
        call()
    assert str(caught.value).endswith(end)
