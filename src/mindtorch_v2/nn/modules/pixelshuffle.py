"""Channels traded for pixels."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from .module import Module
from .utils import shown


class PixelShuffle(Module):
    """Fewer channels, larger images."""

    __constants__ = ["upscale_factor"]

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Any) -> Any:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return shown(self, "upscale_factor")


class PixelUnshuffle(Module):
    """More channels, smaller images."""

    __constants__ = ["downscale_factor"]

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Any) -> Any:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return shown(self, "downscale_factor")


__all__ = ["PixelShuffle", "PixelUnshuffle"]
