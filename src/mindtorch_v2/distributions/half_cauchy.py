"""Absolute values of Cauchy's."""

from __future__ import annotations

import math
from typing import Any

from ..ops.creation.convert import as_tensor
from ..ops.creation.fill import full
from .cauchy import Cauchy
from .folded import Folded


class HalfCauchy(Folded):
    """Absolute values of Cauchy's."""

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, _instance=self._get_checked_instance(HalfCauchy, _instance))

    @property
    def mean(self) -> Any:
        """Infinite."""
        return full(self._extended_shape(), math.inf, dtype=self.scale.dtype, device=self.scale.device)

    @property
    def variance(self) -> Any:
        """Infinite."""
        return self.base_dist.variance

    def log_prob(self, value: Any) -> Any:
        return super().log_prob(as_tensor(value, dtype=self.scale.dtype, device=self.scale.device))


__all__ = ["HalfCauchy"]
