"""Borders around sequences, images and volumes."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from .module import Module
from .utils import _ntuple, shown


class _Pad(Module):
    """What all paddings share: how wide on each side, last dimension first, and what is put there."""

    __constants__ = ["padding"]
    _sides = 2  # two for each padded dimension
    _mode: str

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = _ntuple(self._sides)(padding)

    def forward(self, input: Any) -> Any:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _CircularPadNd(_Pad):
    _mode = "circular"

    def _check_input_dim(self, input: Any) -> None:
        dims = self._sides // 2
        if input.dim() not in (dims + 1, dims + 2):
            raise ValueError(f"expected {dims + 1}D or {dims + 2}D input (got {input.dim()}D input)")

    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        return super().forward(input)


class _ReflectionPadNd(_Pad):
    _mode = "reflect"


class _ReplicationPadNd(_Pad):
    _mode = "replicate"


class _ConstantPadNd(_Pad):
    __constants__ = ["padding", "value"]

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Any) -> Any:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return shown(self, "padding", "value")


class CircularPad1d(_CircularPadNd):
    """The other end goes on."""


class CircularPad2d(_CircularPadNd):
    """The other end goes on."""

    _sides = 4


class CircularPad3d(_CircularPadNd):
    """The other end goes on."""

    _sides = 6


class ConstantPad1d(_ConstantPadNd):
    """One value."""


class ConstantPad2d(_ConstantPadNd):
    """One value."""

    _sides = 4


class ConstantPad3d(_ConstantPadNd):
    """One value."""

    _sides = 6


class ReflectionPad1d(_ReflectionPadNd):
    """A mirror image."""


class ReflectionPad2d(_ReflectionPadNd):
    """A mirror image."""

    _sides = 4


class ReflectionPad3d(_ReflectionPadNd):
    """A mirror image."""

    _sides = 6


class ReplicationPad1d(_ReplicationPadNd):
    """The edge goes on."""


class ReplicationPad2d(_ReplicationPadNd):
    """The edge goes on."""

    _sides = 4


class ReplicationPad3d(_ReplicationPadNd):
    """The edge goes on."""

    _sides = 6


class ZeroPad1d(ConstantPad1d):
    """Zeros."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Zeros."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Zeros."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip
