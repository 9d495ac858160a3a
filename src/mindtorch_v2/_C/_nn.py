"""torch._C._nn: functions of nn.functional under the names torch's core has for them, and how `to` reads its arguments."""

from __future__ import annotations

from typing import Any

from ..nn.functional import (
    adaptive_avg_pool2d,
    avg_pool2d,
    binary_cross_entropy,
    elu,
    gelu,
    glu,
    hardswish,
    hardtanh,
    leaky_relu,
    linear,
    mish,
    mse_loss,
    one_hot,
    pad,
    relu6,
    scaled_dot_product_attention,
    silu,
    softplus,
)
from ..nn.modules.conversion import parse_to as _destination
from ..nn.utils.rnn import pad_sequence

__all__ = [
    "_parse_to",
    "adaptive_avg_pool2d",
    "avg_pool2d",
    "binary_cross_entropy",
    "elu",
    "gelu",
    "glu",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "linear",
    "mish",
    "mse_loss",
    "one_hot",
    "pad",
    "pad_sequence",
    "relu6",
    "scaled_dot_product_attention",
    "silu",
    "softplus",
]


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Device, dtype, whether to wait, and memory format, from the arguments of `to`."""
    device, dtype, memory_format = _destination(*args, **kwargs)
    return device, dtype, bool(kwargs.get("non_blocking", False)), memory_format
