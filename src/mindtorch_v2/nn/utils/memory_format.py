"""Weights of convolutions in another memory format."""

from __future__ import annotations

from typing import Any

from ..modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d


def _convert(module: Any, kinds: tuple[type, ...], memory_format: Any) -> Any:
    for child in module.modules():
        if isinstance(child, kinds):
            child.weight.data = child.weight.detach().clone(memory_format=memory_format)  # type: ignore[attr-defined]
    return module


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """The same module, its Conv2d and ConvTranspose2d weights laid out anew."""
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """The same module, its Conv3d and ConvTranspose3d weights laid out anew."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)


__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]
