"""Resizing, sampling and padding of images with torch's signatures, and windows as columns."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from typing import Any

from ...kernels.network.resample import output_space
from ...ops.network import padding as pads
from ...ops.network import resample as rows
from ...ops.sizes import expanded
from .pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

pixel_shuffle = rows.pixel_shuffle
pixel_unshuffle = rows.pixel_unshuffle
channel_shuffle = rows.channel_shuffle
native_channel_shuffle = rows.native_channel_shuffle

# --- interpolation ----------------------------------------------------------------------------------------------------

_AREA: dict[int, Any] = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}
# Mode and number of spatial dimensions it is for -> the plain operator and the antialiased one.
_ALIGNED: dict[str, tuple[int, Any, Any]] = {
    "linear": (1, rows.upsample_linear1d, None),
    "bilinear": (2, rows.upsample_bilinear2d, rows.upsample_bilinear2d_aa),
    "bicubic": (2, rows.upsample_bicubic2d, rows.upsample_bicubic2d_aa),
    "trilinear": (3, rows.upsample_trilinear3d, None),
    "lanczos": (2, None, rows.upsample_lanczos2d_aa),
}


def _per_axis(value: Any, input: Any, what: str, form: str, of: str) -> list[Any]:
    """One value for all axes of space, or one each."""
    n = input.dim() - 2
    if not isinstance(value, (list, tuple)):
        return [value] * n
    if len(value) != n:
        raise ValueError(
            f"Input and {what} must have the same number of spatial dimensions, but got input with spatial dimensions "
            f"of {list(input.shape[2:])} and {of} {value}. Please provide input tensor in (N, C, d1, d2, ...,dK) "
            f"format and {form} format."
        )
    return list(value)


def _sizes(size: Any, input: Any) -> list[int] | None:
    if size is None:
        return None
    return [
        operator.index(n) for n in _per_axis(size, input, "output", "output size in (o1, o2, ...,oK)", "output size of")
    ]


def _factors(factor: Any, input: Any) -> list[float] | None:
    if factor is None:
        return None
    if isinstance(factor, str) or (isinstance(factor, (list, tuple)) and any(isinstance(f, str) for f in factor)):
        raise TypeError(f"interpolate(): argument 'scale_factor' must be float or tuple of floats, got {factor!r}")
    form = "scale_factor in (s1, s2, ...,sK)"
    return [float(f) for f in _per_axis(factor, input, "scale_factor", form, "scale_factor of shape")]


def interpolate(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
                antialias: bool = False) -> Any:  # fmt: skip
    """Resize to `size` or by `scale_factor`."""
    align_corners = _corners(mode, align_corners)
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    output_size, factors = _sizes(size, input), _factors(scale_factor, input)
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if factors is not None and (recompute_scale_factor or mode == "area"):
        output_size, factors = list(output_space(tuple(input.shape[2:]), factors)), None
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and input.ndim == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    return _resized(input, output_size, factors, mode, align_corners, antialias)


def _corners(mode: str, align_corners: Any) -> bool:
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
                "trilinear"
            )
        return False
    if not isinstance(align_corners, (bool, type(None))):
        kind = type(align_corners).__name__
        raise TypeError(f"interpolate(): argument 'align_corners' must be bool, not {kind}")
    return bool(align_corners)


def _resized(input: Any, size: Any, factors: Any, mode: str, align_corners: bool, antialias: bool) -> Any:
    n = input.dim() - 2
    if 1 <= n <= 3:
        if mode == "nearest":
            return rows.NEAREST[n](input, size, factors)
        if mode == "nearest-exact":
            return rows.NEAREST_EXACT[n](input, size, factors)
        if mode == "area":
            return _AREA[n](input, size)
        if mode in _ALIGNED:
            wanted, plain, smooth = _ALIGNED[mode]
            if wanted == n:
                if mode == "lanczos":
                    _check_lanczos(align_corners, antialias)
                return (smooth if antialias else plain)(input, size, align_corners, factors)
            if mode in ("linear", "bilinear", "trilinear"):
                raise NotImplementedError(f"Got {n + 2}D input, but {mode} mode needs {wanted + 2}D input")
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {n + 2}D) for the modes: nearest | linear | "
        f"bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got {mode})"
    )


def _check_lanczos(align_corners: bool, antialias: bool) -> None:
    if align_corners:
        raise ValueError("Lanczos mode does not support align_corners=True")
    if not antialias:
        raise ValueError("Lanczos mode requires antialias=True")


def upsample(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
             align_corners: bool | None = None) -> Any:  # fmt: skip
    """`interpolate`, by its older name."""
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """`interpolate` to the nearest neighbour, by its older name."""
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """`interpolate` with bilinear weights and aligned corners, by its older name."""
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# --- grids ------------------------------------------------------------------------------------------------------------

GRID_SAMPLE_INTERPOLATION_MODES = {mode: number for number, mode in enumerate(rows.MODES)}
GRID_SAMPLE_PADDING_MODES = {mode: number for number, mode in enumerate(rows.PADDINGS)}


def grid_sample(input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: bool | None = None) -> Any:  # fmt: skip
    """The input at the places a grid names, from -1 to 1 along each axis."""
    if mode not in GRID_SAMPLE_INTERPOLATION_MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in GRID_SAMPLE_PADDING_MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    if align_corners is None:
        _warn_corners()
    numbers = GRID_SAMPLE_INTERPOLATION_MODES[mode], GRID_SAMPLE_PADDING_MODES[padding_mode]
    return rows.grid_sampler(input, grid, *numbers, False if align_corners is None else align_corners)


def _warn_corners() -> None:
    warnings.warn(
        "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
        "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details.",
        stacklevel=3,
    )


def affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Any:
    """The grid that an affine map gives for an output of this size."""
    if align_corners is None:
        _warn_corners()
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size "
            f"{size}."
        )
    n = len(size) - 2
    if theta.dim() != 3 or tuple(theta.shape[-2:]) != (n, n + 1):
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {size}. Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return rows.affine_grid_generator(theta, tuple(size), False if align_corners is None else align_corners)


# --- padding and windows ----------------------------------------------------------------------------------------------


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """Pad the last dimensions, the last of them first."""
    return pads.pad(input, pad, mode, value)


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Sliding windows as columns."""
    return pads.im2col(input, *(expanded(v, 2) for v in (kernel_size, dilation, padding, stride)))


def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Columns added up where their windows lie."""
    return pads.col2im(input, *(expanded(v, 2) for v in (output_size, kernel_size, dilation, padding, stride)))
