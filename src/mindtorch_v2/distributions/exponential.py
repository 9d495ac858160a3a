"""The exponential distribution."""

from __future__ import annotations

from typing import Any

from ..ops.creation.fill import empty, zeros_like
from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all


class Exponential(ExponentialFamily):
    """Waiting times of events that happen at a rate."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "rate")

    @property
    def mean(self) -> Any:
        """1 / rate."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Any:
        """0."""
        return zeros_like(self.rate)

    @property
    def stddev(self) -> Any:
        """1 / rate."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Any:
        """1 / rate²."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        blank = empty(self._extended_shape(sample_shape), dtype=self.rate.dtype, device=self.rate.device)
        return blank.exponential_() / self.rate

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Any) -> Any:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Any:
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Any) -> Any:
        return -(-x).log()


__all__ = ["Exponential"]
