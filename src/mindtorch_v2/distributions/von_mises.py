"""The von Mises distribution of angles."""

from __future__ import annotations

import math
from typing import Any

from ..autograd.grad_mode import no_grad
from ..core.dtype import float64
from ..ops.creation.fill import empty, zeros
from ..ops.indexing.mask import where
from ..special import i0e, i1e  # type: ignore[attr-defined]
from . import constraints
from .distribution import Centred
from .utils import broadcast_all, lazy_property, rand


class VonMises(Centred):
    """Angles around `loc`, the closer to it the higher `concentration`."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "loc", "concentration")

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        return k * (value - self.loc).cos() - math.log(2 * math.pi) - (i0e(k).log() + k)

    @lazy_property
    def _proposal(self) -> Any:
        """The parameter of the wrapped Cauchy distribution that draws are proposed from; in double precision, since
        rejection would not end for small concentrations otherwise."""
        k = self.concentration.to(float64)
        tau = 1 + (1 + 4 * k * k).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        return where(k < 1e-5, 1 / k + k, (1 + rho * rho) / (2 * rho))

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            angle, done = empty(shape, dtype=float64), zeros(shape).bool()
            k, r = self.concentration.to(float64), self._proposal
            while not done.all():
                first, second, third = rand((3, *shape), dtype=float64).unbind()
                z = (math.pi * first).cos()
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                taken = (c * (2 - c) > second) | ((c / second).log() + 1 - c >= 0)
                angle = where(taken, (third - 0.5).sign() * f.acos(), angle)
                done = done | taken
            around = (angle + math.pi + self.loc.to(float64)) % (2 * math.pi) - math.pi
            return around.to(self.loc.dtype)

    @lazy_property
    def variance(self) -> Any:
        """One less the length of the mean of unit vectors."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)


__all__ = ["VonMises"]
