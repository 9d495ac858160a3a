"""Absolute values of a distribution that is symmetric around 0."""

from __future__ import annotations

import math
from typing import Any

from ..ops.creation.fill import zeros_like
from ..ops.indexing.mask import where
from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform


class Folded(TransformedDistribution):
    """One half of a symmetric distribution, twice as dense."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, whole: Any, validate_args: bool | None = None) -> None:
        super().__init__(whole, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Any:
        """The scale of both sides."""
        return self.base_dist.scale

    @property
    def mode(self) -> Any:
        """0."""
        return zeros_like(self.scale)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        log_prob = self.base_dist.log_prob(value) + math.log(2)
        return where(value >= 0, log_prob, -math.inf)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Any) -> Any:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)


__all__ = ["Folded"]
