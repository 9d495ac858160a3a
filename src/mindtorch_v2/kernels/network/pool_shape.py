"""Owns the output sizes of pooling and what torch says of arguments that do not fit. It knows no values."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.errors import check_size
from .fold import Shape

# The letters torch's messages give to the axes of windows.
AXES = {2: "HW", 3: "THW"}


def pool_output_space(
    space: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
) -> Shape:
    """Number of windows along each axis; in ceil mode a window may overhang, but must not start in the padding."""
    counts = []
    for n, k, s, p, d in zip(space, kernel, stride, padding, dilation):
        count = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (count - 1) * s >= n + p:
            count -= 1
        counts.append(count)
    return tuple(counts)


def check_pool(
    name: str, shape: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
) -> Shape:
    """Raise what torch raises for arguments of ``name`` (``max_pool2d``, ``avg_pool3d``, ...) that do not fit.

    Returns the output space.
    """
    ndim = len(kernel)
    if len(shape) not in (ndim + 1, ndim + 2):
        raise RuntimeError(_wrong_dimensions(name, shape, ndim))
    _check_sizes(kernel, stride, padding, dilation)
    if ndim == 1:
        # torch pools one dimension as two of which the first is flat, and words its refusals so.
        flat = (*shape[:-1], 1, shape[-1])
        lifted = check_pool(name, flat, (1, *kernel), (1, *stride), (0, *padding), (1, *dilation), ceil_mode)
        return lifted[1:]
    _check_positive("kernel size", "k", kernel)
    _check_positive("stride", "d", stride)
    _check_positive("dilation", "dilation", dilation)
    _check_not_empty(name, shape, ndim)
    if name == "avg_pool3d":
        _check_image(shape[-3:], kernel)
    if any(2 * p > k for p, k in zip(padding, kernel)):
        raise RuntimeError(
            f"pad should be smaller than or equal to half of kernel size, but got {_pads(kernel, padding)}"
        )
    counts = pool_output_space(shape[-ndim:], kernel, stride, padding, dilation, ceil_mode)
    if min(counts) < 1:
        channels = shape[-ndim - 1]
        raise RuntimeError(
            f"Given input size: ({_times((channels, *shape[-ndim:]))}). "
            f"Calculated output size: ({_times((channels, *counts))}). Output size is too small"
        )
    return counts


def check_max_pool1d(shape: Shape, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> None:
    """Raise what torch's one-dimensional max pooling without indices (no gradient wanted) raises."""
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(_wrong_dimensions("max_pool1d", shape, 1))
    for label, value in (("kernel_size", kernel), ("stride", stride)):
        if value <= 0:
            raise RuntimeError(f"max_pool1d() {label} must be greater than zero, but got {value}")
    if padding < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {padding}")
    if 2 * padding > kernel:
        raise RuntimeError(
            "max_pool1d() padding should be at most half of kernel size, "
            f"but got padding={padding} and kernel_size={kernel}"
        )
    if dilation <= 0:
        raise RuntimeError(f"max_pool1d() dilation must be greater than zero, but got {dilation}")
    (count,) = pool_output_space(shape[-1:], (kernel,), (stride,), (padding,), (dilation,), ceil_mode)
    if count <= 0:
        raise RuntimeError(f"max_pool1d() Invalid computed output size: {count}")


def check_adaptive(name: str, shape: Shape, output_size: Sequence[int]) -> None:
    """Raise what torch raises for arguments of ``name`` (``adaptive_avg_pool2d``, ...) that do not fit."""
    ndim = len(output_size)
    average = "avg" in name
    if len(shape) not in (ndim + 1, ndim + 2):
        if ndim == 1:
            raise RuntimeError(_expected_dimensions(name, shape))
        colon = "" if average else ":"
        raise RuntimeError(f"{name}(): Expected {ndim + 1}D or {ndim + 2}D tensor, but got{colon} {list(shape)}")
    if average and ndim == 1:
        name, shape, output_size, ndim = "adaptive_avg_pool2d", (*shape[:-1], 1, shape[-1]), (1, *output_size), 2
    # An average in two dimensions is the one that takes inputs without channels.
    first = len(shape) - ndim - (0 if average and ndim == 2 else 1)
    for dim in range(first, len(shape)):
        if shape[dim] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, "
                f"but input has sizes {list(shape)} with dimension {dim} being empty"
            )
    if min(output_size) < 0:
        if average:
            listed = "{" + ", ".join(map(str, output_size[:2])) + "".join(f",{n}" for n in output_size[2:]) + "}"
            raise RuntimeError(
                f"{name}: elements of output_size must be greater than or equal to 0 but received {listed}"
            )
        lifted = (*shape[:-ndim], *((1,) if ndim == 1 else ()), *output_size)
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(output_size)}: {list(lifted)}")
    check_size((*shape[:-ndim], *output_size), 8)


def check_fractional(shape: Shape, kernel: Shape, output_size: Shape, samples: Shape) -> None:
    """Raise what torch raises for arguments of fractional max pooling of a batched input that do not fit."""
    ndim = len(kernel)
    name = "fractional_max_pool2d()" if ndim == 2 else "fractional_max_pool3d_out()"
    for dim in range(len(shape) - ndim - 1, len(shape)):
        if shape[dim] == 0:
            raise RuntimeError(
                f"{name}: Expected input to have non-zero size for non-batch dimensions, "
                f"but got{list(shape)} with dimension {dim} being empty."
            )
    axes = list(zip(("time", "height", "width")[-ndim:], shape[-ndim:], kernel, output_size))
    for axis, n, k, o in axes if ndim == 2 else (axes[0], axes[2], axes[1]):
        # In three dimensions torch wants a place to spare.
        if o + k - 1 > n - (ndim == 3):
            raise RuntimeError(f"{name}: pool {axis} {k} too large relative to input {axis} {n}")
    if len(samples) != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {len(samples)}")
    if samples[0] < (shape[0] if len(shape) == ndim + 2 else 1):
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if samples[1] != shape[-ndim - 1]:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if samples[2] != ndim:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {ndim}; got {samples[2]}.")


def check_unpool(shape: Shape, indices_shape: Shape, output_size: Shape) -> None:
    """Raise what torch raises for arguments of max unpooling that do not fit."""
    ndim = len(output_size)
    if len(shape) not in (ndim + 1, ndim + 2):
        raise RuntimeError(
            f"Input to max_unpooling{ndim}d should be a {ndim + 1}d or {ndim + 2}d Tensor, "
            f"but got a tensor with {len(shape)} dimensions."
        )
    if shape != indices_shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(shape)}) "
            f"but got indices tensor with shape: {list(indices_shape)}"
        )
    for dim in range(1 if len(shape) == ndim + 2 else 0, len(shape)):
        if shape[dim] == 0:
            raise RuntimeError(
                f"max_unpooling{ndim}d_forward_out_cpu(): Expected input to have non-zero size for non-batch "
                f"dimensions, but got {list(shape)} with dimension {dim} being empty."
            )


def _wrong_dimensions(name: str, shape: Shape, ndim: int) -> str:
    if name == "max_pool1d":
        return (
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, "
            f"but got:{list(shape)}"
        )
    if ndim == 1:
        return _expected_dimensions(name, shape)
    if name == "avg_pool2d":
        return f"Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:{list(shape)}"
    return f"non-empty {ndim + 1}D or {ndim + 2}D (batch mode) tensor expected for input"


def _expected_dimensions(name: str, shape: Shape) -> str:
    return (
        f"Expected 2 to 3 dimensions, but got {len(shape)}-dimensional tensor for argument #1 'self' "
        f"(while checking arguments for {name})"
    )


def _check_sizes(kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> None:
    for k, s, p, d in zip(kernel, stride, padding, dilation):
        if s == 0:
            raise RuntimeError("stride should not be zero")
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > ((k - 1) * d + 1) // 2:
            raise RuntimeError(
                "pad should be at most half of effective kernel size, "
                f"but got pad={p}, kernel_size={k} and dilation={d}"
            )


def _check_positive(name: str, letter: str, values: Shape) -> None:
    if min(values) <= 0:
        listed = " ".join(f"{letter}{axis}: {value}" for axis, value in zip(AXES[len(values)], values))
        raise RuntimeError(f"{name} should be greater than zero, but got {listed}")


def _check_not_empty(name: str, shape: Shape, ndim: int) -> None:
    if 0 not in shape[len(shape) - ndim - 1 :]:
        return
    if ndim == 2:
        raise RuntimeError(
            f"Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:{list(shape)}"
        )
    caller = "avg_pool3d()" if name == "avg_pool3d" else "max_pool3d_with_indices_out_cpu_template()"
    raise RuntimeError(
        f"{caller}: Expected input's non-batch dimensions to have positive length, "
        f"but input has a shape of {list(shape)} and non-batch dimension 0 has length zero!"
    )


def _check_image(space: Shape, kernel: Shape) -> None:
    if any(n < k for n, k in zip(space, kernel)):
        image = " ".join(f"{axis}: {n}" for axis, n in zip("THW", space))
        sizes = " ".join(f"k{axis}: {k}" for axis, k in zip("THW", kernel))
        raise RuntimeError(f"input image ({image}) smaller than kernel size ({sizes})")


def _pads(kernel: Shape, padding: Shape) -> str:
    if len(kernel) == 2:
        return f"padW = {padding[1]}, padH = {padding[0]}, kW = {kernel[1]}, kH = {kernel[0]}"
    return f"kT: {kernel[0]} kW: {kernel[2]} kH: {kernel[1]} padT: {padding[0]} padW: {padding[2]} padH: {padding[1]}"


def _times(values: Shape) -> str:
    return "x".join(map(str, values))
