"""Absolute values of normal ones."""

from __future__ import annotations

import math
from typing import Any

from .folded import Folded
from .normal import Normal


class HalfNormal(Folded):
    """Absolute values of normal ones."""

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, _instance=self._get_checked_instance(HalfNormal, _instance))

    @property
    def mean(self) -> Any:
        """√(2 / π) scales."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.scale.pow(2) * (1 - 2 / math.pi)


__all__ = ["HalfNormal"]
