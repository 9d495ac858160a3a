"""The Poisson distribution."""

from __future__ import annotations

from typing import Any

from ..autograd.grad_mode import no_grad
from ..ops.creation.random import _poisson
from ..ops.pointwise.special import xlogy
from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all


class Poisson(ExponentialFamily):
    """How many events happen that happen at a rate."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "rate")

    @property
    def mean(self) -> Any:
        """The rate."""
        return self.rate

    @property
    def mode(self) -> Any:
        """The rate rounded down."""
        return self.rate.floor()

    @property
    def variance(self) -> Any:
        """The rate."""
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return _poisson.function(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return xlogy(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Any) -> Any:
        return x.exp()


__all__ = ["Poisson"]
