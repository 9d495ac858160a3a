"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

from . import constraints
from .gamma import Gamma


class Chi2(Gamma):
    """Sums of `df` squared standard normal values."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "concentration", "rate")

    @property
    def df(self) -> Any:
        """Degrees of freedom."""
        return self.concentration * 2


__all__ = ["Chi2"]
