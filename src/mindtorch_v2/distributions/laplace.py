"""The Laplace distribution."""

from __future__ import annotations

from typing import Any

from ..core.dtype import finfo
from ..ops.creation.fill import empty
from . import constraints
from .distribution import Centred
from .utils import broadcast_all


class Laplace(Centred):
    """The Laplace distribution around `loc`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "loc", "scale")

    @property
    def variance(self) -> Any:
        """Twice the squared scale."""
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Any:
        """√2 scales."""
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Any = ()) -> Any:
        blank = empty(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        u = blank.uniform_(finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 - 0.5 * (value - self.loc).sign() * (-(value - self.loc).abs() / self.scale).expm1()

    def icdf(self, value: Any) -> Any:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Any:
        return 1 + (2 * self.scale).log()


__all__ = ["Laplace"]
