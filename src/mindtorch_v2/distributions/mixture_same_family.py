"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any

from ..autograd.grad_mode import no_grad
from ..ops.network.softmax import log_softmax
from . import constraints
from .categorical import Categorical
from .distribution import Distribution


class MixtureSameFamily(Distribution):
    """A Categorical chooses which of the components, the last batch dimension, a sample is drawn from."""

    arg_constraints: dict[str, Any] = {}
    has_rsample = False

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        _check(mixture_distribution, component_distribution)
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(component_distribution.batch_shape[:-1], event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        count = self._component_distribution.batch_shape[-1]
        return self._expanded(
            batch_shape,
            _instance,
            _component_distribution=self._component_distribution.expand((*batch_shape, count)),
            _mixture_distribution=self._mixture_distribution.expand(batch_shape),
            _event_ndims=self._event_ndims,
        )

    @constraints.dependent_property
    def support(self) -> Any:
        """What every component's support holds."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """What chooses."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """What is chosen from."""
        return self._component_distribution

    def _weighted(self, values: Any) -> Any:
        return (self._pad_mixture_dimensions(self._mixture_distribution.probs) * values).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Any:
        """The components' means, weighted."""
        return self._weighted(self._component_distribution.mean)

    @property
    def variance(self) -> Any:
        """The components' variances and the variance of their means."""
        between = self._component_distribution.mean - self._pad(self.mean)
        return self._weighted(self._component_distribution.variance) + self._weighted(between.pow(2.0))

    def cdf(self, x: Any) -> Any:
        each = self._component_distribution.cdf(self._pad(x))
        return (each * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Any) -> Any:
        if self._validate_args:
            self._validate_sample(x)
        each = self._component_distribution.log_prob(self._pad(x))
        return (each + log_softmax(self._mixture_distribution.logits, dim=-1)).logsumexp(dim=-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            gather_dim = len(sample_shape) + len(self._batch_shape)
            ones = (1,) * (self._event_ndims + 1)
            index = chosen.reshape((*chosen.shape, *ones))
            index = index.repeat((1,) * (chosen.dim() + 1) + tuple(self._event_shape))
            return drawn.gather(gather_dim, index).squeeze(gather_dim)

    def _pad(self, x: Any) -> Any:
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Any) -> Any:
        return x.reshape(x.shape + (1,) * self._event_ndims)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution!r},\n  {self.component_distribution!r})"


def _check(mixture: Any, component: Any) -> None:
    if not isinstance(mixture, Categorical):
        raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
    if not isinstance(component, Distribution):
        raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
    pairs = zip(reversed(mixture.batch_shape), reversed(component.batch_shape[:-1]))
    if any(a not in (1, b) and b != 1 for a, b in pairs):
        raise ValueError(
            f"`mixture_distribution.batch_shape` ({mixture.batch_shape}) is not compatible with "
            f"`component_distribution.batch_shape`({component.batch_shape})"
        )
    choices, components = mixture.logits.shape[-1], component.batch_shape[-1]
    if choices != components:
        raise ValueError(
            f"`mixture_distribution component` ({choices}) does not equal `component_distribution.batch_shape[-1]` "
            f"({components})"
        )


__all__ = ["MixtureSameFamily"]
