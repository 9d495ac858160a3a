"""Rows of resampling: interpolation to another size, sampling at the places of a grid, affine grids, shuffles of pixels
and channels."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.meta import meta
from ...kernels import result_layout
from ...kernels.network import grid_sample, resample
from .. import composed, flops
from ..meta import network as shapes_network
from ..meta import shapes
from .decorators import composite, explicit, op

# --- interpolation ----------------------------------------------------------------------------------------------------


def _output_size(shape: tuple[int, ...], output_size: Any, factors: Any) -> tuple[int, ...]:
    if (output_size is None) == (factors is None):
        raise RuntimeError("Must specify exactly one of output_size and scale_factors")
    if output_size is None:
        return resample.output_space(shape[2:], factors)
    return tuple(operator.index(n) for n in output_size)


def _upsample(name: str, mode: str) -> Any:
    """An interpolation without align_corners."""

    def backward_array(g: Any, size: Any, shape: Any, factors: Any) -> Any:
        return resample.upsample_backward(g, tuple(shape), mode, False, factors)

    backward = op(
        f"{name}_backward.vec(Tensor grad_output, int[]? output_size, int[] input_size, float[]? scale_factors) -> Tensor",
        all_flops=flops.each(1, 1),
        meta=shapes.sized_by(2),
        out=False,
        dense=True,
        layout=result_layout.plain if name.endswith("3d") else result_layout.suggested,
        grad_output=lambda g, output_size, scale_factors: row(g, output_size, scale_factors),
    )(backward_array).function

    def array(x: Any, output_size: Any, factors: Any) -> Any:
        return resample.upsample_forward(x, _output_size(x.shape, output_size, factors), mode, False, factors)

    row = op(
        f"{name}.vec(Tensor input, int[]? output_size, float[]? scale_factors) -> Tensor",
        meta=shapes_network.upsampled,
        out=False,
        layout=result_layout.suggested,
        input=lambda g, input_sizes, output_size, scale_factors: backward(g, output_size, input_sizes, scale_factors),
    )(array).function
    return row


def _upsample_aligned(name: str, mode: str, ndim: int = 0, taps: int = 0) -> Any:
    """An interpolation that can align the centres of the corners. `taps` are the elements a result is made of."""

    def backward_array(g: Any, size: Any, shape: Any, corners: bool, factors: Any) -> Any:
        return resample.upsample_backward(g, tuple(shape), mode, corners, factors)

    backward = op(
        f"{name}_backward.vec(Tensor grad_output, int[]? output_size, int[] input_size, bool align_corners, "
        "float[]? scale_factors) -> Tensor",
        meta=shapes.sized_by(2),
        all_flops=flops.resampled_backward(taps) if taps else None,
        out=False,
        dense=True,
        layout=result_layout.suggested if mode.startswith("linear") else result_layout.plain,
        grad_output=lambda g, output_size, align_corners, scale_factors: row(
            g, output_size, align_corners, scale_factors
        ),
    )(backward_array).function

    def array(x: Any, output_size: Any, corners: bool, factors: Any) -> Any:
        return resample.upsample_forward(x, _output_size(x.shape, output_size, factors), mode, corners, factors)

    row = op(
        f"{name}.vec(Tensor input, int[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
        meta=shapes_network.upsampled,
        all_flops=flops.resampled(ndim, taps) if taps else None,
        out=False,
        layout=result_layout.suggested,
        input=lambda g, input_sizes, output_size, align_corners, scale_factors: backward(
            g, output_size, input_sizes, align_corners, scale_factors
        ),
    )(array).function
    return row


NEAREST = {n: _upsample(f"upsample_nearest{n}d", "nearest") for n in (1, 2, 3)}
NEAREST_EXACT = {n: _upsample(f"_upsample_nearest_exact{n}d", "nearest-exact") for n in (1, 2, 3)}
upsample_linear1d = _upsample_aligned("upsample_linear1d", "linear", 1, 2)
upsample_bilinear2d = _upsample_aligned("upsample_bilinear2d", "linear", 2, 4)
upsample_trilinear3d = _upsample_aligned("upsample_trilinear3d", "linear", 3, 8)
upsample_bicubic2d = _upsample_aligned("upsample_bicubic2d", "cubic", 2, 16)
upsample_bilinear2d_aa = _upsample_aligned("_upsample_bilinear2d_aa", "linear-aa")
upsample_bicubic2d_aa = _upsample_aligned("_upsample_bicubic2d_aa", "cubic-aa")
upsample_lanczos2d_aa = _upsample_aligned("_upsample_lanczos2d_aa", "lanczos-aa")


# --- sampling at places -----------------------------------------------------------------------------------------------

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


def _inside(at: Any, n: int, padding: str, corners: bool) -> Any:
    """Places in pixels, brought inside as the padding asks."""
    if padding == "reflection":
        low, span = (0.0, n - 1) if corners else (-0.5, n)
        if span == 0:
            return at * 0
        away = (at - low).abs()
        times = (away / span).floor()
        rest = away - times * span
        at = rest.where(times % 2 == 0, span - rest) + low
    return at if padding == "zeros" else at.clamp(0, n - 1)


def _neighbours(coordinate: Any, n: int, mode: str, padding: str, corners: bool) -> list[tuple[Any, Any]]:
    """Along one axis: each neighbour's place and weight, differentiable by the coordinate."""
    at = (coordinate + 1) / 2 * (n - 1) if corners else ((coordinate + 1) * n - 1) / 2
    if mode == "bicubic":
        low = at.detach().floor()
        part = at - low
        a = -0.75
        distances = (1 + part, part, 1 - part, 2 - part)
        weights = [((a + 2) * d - (a + 3)) * d * d + 1 if i in (1, 2) else ((d - 5) * d + 8) * d * a - 4 * a
                   for i, d in enumerate(distances)]  # fmt: skip
        return [(_inside(low + (i - 1), n, padding, corners), w) for i, w in enumerate(weights)]
    at = _inside(at, n, padding, corners)
    if mode == "nearest":
        return [(at.detach().round(), at * 0 + 1)]
    low = at.detach().floor()
    return [(low, 1 - (at - low)), (low + 1, at - low)]


def _sampled(input: Any, grid: Any, mode: str, padding: str, corners: bool) -> Any:
    """`grid_sampler` made of differentiable ops."""
    samples, channels, *space = input._a.shape
    positions = math.prod(grid._a.shape[1:-1])
    flat = input.reshape((samples, channels, -1))
    axes = [
        _neighbours(grid.select(-1, len(space) - 1 - i).reshape((samples, 1, positions)), n, mode, padding, corners)
        for i, n in enumerate(space)
    ]
    result = None
    for taps in itertools.product(*axes):
        index: Any = 0
        weight: Any = 1
        for (place, share), n in zip(taps, space):
            within = ((place >= 0) & (place <= n - 1)).detach()
            index = index * n + place.detach().clamp(0, n - 1)
            weight = weight * share * within
        found = flat.gather(2, index.long().expand((samples, channels, positions))) * weight
        result = found if result is None else result + found
    assert result is not None
    return result.reshape((samples, channels, *grid._a.shape[1:-1]))


def _grid_sampler(n: int) -> Any:
    """Rows of grid_sampler_2d or grid_sampler_3d and of its gradient."""
    name = f"grid_sampler_{n}d"
    arguments = "int interpolation_mode, int padding_mode, bool align_corners"

    @op(
        f"{name}_backward(Tensor grad_output, Tensor input, Tensor grid, {arguments}, bool[] output_mask) "
        "-> (Tensor, Tensor)",
        meta=shapes_network.grid_gradients,
        out=False,
    )
    def backward(g: Any, x: Any, grid: Any, mode: int, padding: int, corners: bool, wanted: Sequence[bool]) -> Any:
        parts = grid_sample.grid_sample_backward(g, x, grid, MODES[mode], PADDINGS[padding], corners, *wanted)
        return result_layout.plain(tuple(np.empty(0, x.dtype) if part is None else part for part in parts))

    def gradients(g: Any, input: Any, grid: Any, mode: int, padding: int, corners: bool, needs: Any) -> Any:
        if composed.wanted():
            return composed.gradients(
                lambda x, at: _sampled(x, at, MODES[mode], PADDINGS[padding], corners), (input, grid), g, needs
            )
        parts = backward.function(g, input, grid, mode, padding, corners, needs)
        return tuple(part if needed else None for part, needed in zip(parts, needs))

    @op(
        f"{name}(Tensor input, Tensor grid, {arguments}) -> Tensor",
        meta=shapes_network.grid_sampler,
        out=False,
        input__grid=lambda g, input, grid, interpolation_mode, padding_mode, align_corners, needs: gradients(
            g, input, grid, interpolation_mode, padding_mode, align_corners, needs
        ),
    )
    def forward(x: Any, grid: Any, mode: int, padding: int, corners: bool) -> Any:
        return grid_sample.grid_sample_forward(x, grid, MODES[mode], PADDINGS[padding], corners)

    return forward.function


grid_sampler_2d, grid_sampler_3d = _grid_sampler(2), _grid_sampler(3)


@composite(
    "grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
    autocast="float32",
)
def _grid_sampler_any(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    ndim = input._a.ndim
    if ndim not in (4, 5) or grid._a.ndim != ndim:
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes "
            f"{list(input._a.shape)} and grid with sizes {list(grid._a.shape)}"
        )
    row = grid_sampler_2d if ndim == 4 else grid_sampler_3d
    return row(input, grid, interpolation_mode, padding_mode, align_corners)


grid_sampler = _grid_sampler_any.function


@op(
    "affine_grid_generator_backward(Tensor grad, int[] size, bool align_corners) -> Tensor",
    all_flops=lambda record: 2 * flops.numel(record) * (record.shapes[0][-1] + 1),
    meta=shapes.result_rule(lambda g, size, align_corners: meta((size[0], len(size) - 2, len(size) - 1), g.dtype)),
    out=False,
    grad=lambda g, size, align_corners: affine_grid_generator(g, size, align_corners),
)
def _affine_grid_generator_backward(g: Any, size: Any, align_corners: bool) -> Any:
    return grid_sample.affine_grid_backward(g, align_corners)


@op(
    "affine_grid_generator(Tensor theta, int[] size, bool align_corners) -> Tensor",
    all_flops=flops.affine_grid,
    meta=shapes_network.affine_grid,
    out=False,
    theta=lambda g, size, align_corners: _affine_grid_generator_backward.function(g, size, align_corners),
)
def _affine_grid_generator(theta: Any, size: Any, align_corners: bool) -> Any:
    if len(size) not in (4, 5):
        raise RuntimeError(
            f"AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs, but got a size of length {len(size)}"
        )
    return grid_sample.affine_grid_forward(theta, tuple(operator.index(n) for n in size)[2:], align_corners)


affine_grid_generator = _affine_grid_generator.function


# --- shuffles ---------------------------------------------------------------------------------------------------------


@op(
    "pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
    meta=shapes_network.pixel_shuffle,
    out=False,
    layout=result_layout.suggested,
    self=lambda g, upscale_factor: pixel_unshuffle(g, upscale_factor),
)
def _pixel_shuffle(a: Any, upscale_factor: int) -> Any:
    return resample.pixel_shuffle(a, upscale_factor)


@op(
    "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
    meta=shapes_network.pixel_unshuffle,
    out=False,
    layout=result_layout.suggested,
    self=lambda g, downscale_factor: pixel_shuffle(g, downscale_factor),
)
def _pixel_unshuffle(a: Any, downscale_factor: int) -> Any:
    return resample.pixel_unshuffle(a, downscale_factor)


pixel_shuffle, pixel_unshuffle = _pixel_shuffle.function, _pixel_unshuffle.function


@op(
    "native_channel_shuffle(Tensor self, int groups) -> Tensor",
    meta=shapes.like_nth(0),
    out=False,
    layout=result_layout.suggested,
    self=lambda g, self_sizes, groups: native_channel_shuffle(g, self_sizes[1] // groups),
)
def _native_channel_shuffle(a: Any, groups: int) -> Any:
    return resample.channel_shuffle(a, groups)


native_channel_shuffle = _native_channel_shuffle.function
channel_shuffle = explicit(
    "channel_shuffle(Tensor self, int groups) -> Tensor",
    out=False,
    layout=result_layout.suggested,
    self=lambda g, self_sizes, groups: channel_shuffle(g, self_sizes[1] // groups),
)(lambda self, groups: native_channel_shuffle(self, groups)).function
