"""Distributions of an exponential family: their entropy follows from the log normalizer by differentiation."""

from __future__ import annotations

from typing import Any

from ..autograd.entry import grad
from ..autograd.grad_mode import enable_grad
from .distribution import Distribution
from .utils import sum_rightmost


class ExponentialFamily(Distribution):
    """A distribution whose density is exp(⟨natural parameters, statistics⟩ - log normalizer + carrier measure)."""

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Any:
        """The entropy, by Bregman's divergence of the log normalizer."""
        result = -self._mean_carrier_measure
        with enable_grad():
            parameters = [p.detach().requires_grad_() for p in self._natural_params]
            normalizer = self._log_normalizer(*parameters)
            gradients = grad(normalizer.sum(), parameters, create_graph=True)
        result = result + normalizer
        for p, g in zip(parameters, gradients):
            result = result - sum_rightmost(p * g, len(self._event_shape))
        return result


__all__ = ["ExponentialFamily"]
