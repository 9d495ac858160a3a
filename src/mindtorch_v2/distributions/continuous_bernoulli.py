"""The continuous Bernoulli distribution on the unit interval."""

from __future__ import annotations

import math
from typing import Any

from ..autograd.grad_mode import no_grad
from ..nn.functional import binary_cross_entropy_with_logits
from ..ops.creation.fill import ones_like, zeros_like
from ..ops.indexing.mask import where
from . import constraints
from .exp_family import ExponentialFamily
from .odds import Odds, check_one_given
from .utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs, rand


class ContinuousBernoulli(Odds, ExponentialFamily):
    """Values in [0, 1] with a density that grows (or falls) as that of a Bernoulli variable jumps.

    Near a parameter of one half, between `lims`, formulas that divide by zero there give way to their series.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        check_one_given(probs, logits)
        if logits is None:
            (given,) = broadcast_all(probs)
            if validate_args is not None and not constraints.unit_interval.check(given).all():
                raise ValueError("The parameter probs has invalid values")
            probs = clamp_probs(given)
        self._take(probs, logits)
        self._lims = lims
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, _lims=self._lims)

    @lazy_property
    def probs(self) -> Any:
        """The parameter, inside the open unit interval."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    @property
    def _stable(self) -> Any:
        """Where the parameter is far enough from one half."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    @property
    def _cut(self) -> Any:
        """The parameter, kept away from one half."""
        return where(self._stable, self.probs, self._lims[0] * ones_like(self.probs))

    def _log_normalizing_constant(self) -> Any:
        p, x = self._cut, (self.probs - 0.5) ** 2
        low = p <= 0.5
        below, above = where(low, p, zeros_like(p)), where(low, ones_like(p), p)
        width = where(low, (-2.0 * below).log1p(), (2.0 * above - 1.0).log())
        exact = ((-p).log1p() - p.log()).abs().log() - width
        return where(self._stable, exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Any:
        """The mean."""
        p, x = self._cut, self.probs - 0.5
        exact = p / (2.0 * p - 1.0) + 1.0 / ((-p).log1p() - p.log())
        return where(self._stable, exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x**2) * x)

    @property
    def variance(self) -> Any:
        """The variance."""
        p, x = self._cut, (self.probs - 0.5) ** 2
        exact = p * (p - 1.0) / (1.0 - 2.0 * p) ** 2 + 1.0 / ((-p).log1p() - p.log()) ** 2
        return where(self._stable, exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.icdf(rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        unscaled = -binary_cross_entropy_with_logits(logits, value, reduction="none")
        return unscaled + self._log_normalizing_constant()

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        p = self._cut
        exact = (p**value * (1.0 - p) ** (1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        return where(self._stable, exact, value).clamp(0.0, 1.0)

    def icdf(self, value: Any) -> Any:
        p = self._cut
        rest = (-p).log1p()
        exact = ((-p + value * (2.0 * p - 1.0)).log1p() - rest) / (p.log() - rest)
        return where(self._stable, exact, value)

    def entropy(self) -> Any:
        zero, one = (-self.probs).log1p(), self.probs.log()
        return self.mean * (zero - one) - self._log_normalizing_constant() - zero

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:
        stable = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = where(stable, x, (self._lims[0] - 0.5) * ones_like(x))
        return where(stable, cut.expm1().abs().log() - cut.abs().log(), 0.5 * x + x**2 / 24.0 - x**4 / 2880.0)


__all__ = ["ContinuousBernoulli"]
