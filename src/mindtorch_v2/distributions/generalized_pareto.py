"""The generalized Pareto distribution of excesses over a threshold."""

from __future__ import annotations

import math
from typing import Any

from ..ops.creation.fill import ones_like
from ..ops.indexing.mask import where
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, rand


class GeneralizedPareto(Distribution):
    """Values above `loc`; heavy tails for a positive `concentration`, an end for a negative one."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "loc", "scale", "concentration")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, end)

    @property
    def _exponential(self) -> Any:
        """Where the concentration is as good as zero."""
        return self.concentration.abs() <= 1e-8

    @property
    def _divisor(self) -> Any:
        """The concentration, or one where nothing may be divided by it."""
        return where(self._exponential, ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.icdf(rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device))

    def _scaled(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return (value - self.loc) / self.scale

    def log_prob(self, value: Any) -> Any:
        z, k = self._scaled(value), self._divisor
        power = 1 / k + 1
        tail = where(power == 0, power, power * (k * z).log1p())
        return -self.scale.log() - where(self._exponential, z, tail)

    def log_survival_function(self, value: Any) -> Any:
        """The log-probability of more than `value`."""
        z, k = self._scaled(value), self._divisor
        return where(self._exponential, -z, -(k * z).log1p() / k)

    def log_cdf(self, value: Any) -> Any:
        """The log-probability of at most `value`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Any) -> Any:
        return self.log_cdf(value).exp()

    def icdf(self, value: Any) -> Any:
        rest, k = (-value).log1p(), self._divisor
        tail = self.loc + self.scale / k * (-k * rest).expm1()
        return where(self._exponential, self.loc - self.scale * rest, tail)

    @property
    def mean(self) -> Any:
        """The mean; none from a concentration of one on."""
        finite = self.concentration < 1
        return where(finite, self.loc + self.scale / (1 - where(finite, self.concentration, 0.5)), math.nan)

    @property
    def mode(self) -> Any:
        """The threshold."""
        return self.loc

    @property
    def variance(self) -> Any:
        """The variance; none from a concentration of one half on."""
        finite = self.concentration < 0.5
        k = where(finite, self.concentration, 0.25)
        return where(finite, self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k)), math.nan)

    def entropy(self) -> Any:
        return (self.scale.log() + self.concentration + 1).expand(self._batch_shape)


__all__ = ["GeneralizedPareto"]
