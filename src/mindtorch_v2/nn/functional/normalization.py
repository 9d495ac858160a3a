"""Normalisation with torch's signatures and checks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...ops.network import norm as rows
from ...ops.network.padding import pad
from ...ops.network.pooling import avg_pool2d, avg_pool3d
from ...ops.pointwise.arithmetic import divide as div
from ...ops.reduction.reduce import vector_norm


def _require_values(size: Sequence[int]) -> None:
    """Refuse (batch, channels, …) with a single value per channel: it has no variance."""
    if math.prod((size[0], *size[2:])) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def batch_norm(input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
               training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Any:  # fmt: skip
    """Normalise each channel over the batch, or by running statistics."""
    if training:
        _require_values(input.size())
    return rows.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


def instance_norm(input: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None,
                  use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5) -> Any:  # fmt: skip
    """Normalise each channel of each sample on its own."""
    if use_input_stats and math.prod(input.size()[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    return rows.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


def layer_norm(input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None,
               eps: float = 1e-5) -> Any:  # fmt: skip
    """Normalise over the last dimensions."""
    return rows.layer_norm(input, normalized_shape, weight, bias, eps, True)


def rms_norm(input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    """Divide by the root mean square of the last dimensions."""
    return rows.rms_norm(input, normalized_shape, weight, eps)


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Normalise over groups of channels."""
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    samples, channels, *space = input.size()
    if num_groups > 0:
        _require_values([samples * channels // num_groups, num_groups, *space])
    return rows.group_norm(input, num_groups, weight, bias, eps, True)


def local_response_norm(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    """Divide by what neighbouring channels hold at the same place."""
    ndim = input.dim()
    if ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality                          input (got {ndim} dimensions)")
    if input.numel() == 0:
        return input
    scale = input.mul(input)  # one name for all that follows from it, so that each is freed when the next is there
    pads = (0, 0, size // 2, (size - 1) // 2)
    if ndim == 3:
        scale = pad(scale.unsqueeze(1), pads)
        scale = avg_pool2d(scale, (size, 1), (1, 1), (0, 0)).squeeze(1)
    else:
        shape = input.size()
        scale = pad(scale.view(shape[0], 1, shape[1], shape[2], -1), (0, 0, *pads))
        scale = avg_pool3d(scale, (size, 1, 1), (1, 1, 1), (0, 0, 0)).squeeze(1)
        scale = scale.view(shape)
    scale = scale.mul(alpha).add(k).pow(beta)
    return input / scale


def normalize(input: Any, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12, out: Any = None) -> Any:
    """Divide by the p-norm along a dimension."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    size = vector_norm(input, p, dims, True)
    if out is None:
        size = size.clamp_min(eps)
        return input / size.expand_as(input)
    return div(input, size.clamp_min_(eps).expand_as(input), out=out)
