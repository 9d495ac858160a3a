"""Categorical choices as one-hot vectors."""

from __future__ import annotations

from typing import Any

from ..nn.functional import one_hot
from ..ops.creation.ranges import eye
from . import constraints
from .categorical import Categorical, OfCategorical


class OneHotCategorical(OfCategorical):
    """One-hot vectors of the choices of a Categorical."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, _categorical=self._categorical.expand(batch_shape))

    @property
    def _param(self) -> Any:
        return self._categorical._param

    @property
    def mean(self) -> Any:
        """`probs`."""
        return self._categorical.probs

    @property
    def mode(self) -> Any:
        """The likeliest choice."""
        return one_hot(self._categorical.mode, num_classes=self.probs.shape[-1]).to(self.probs)

    @property
    def variance(self) -> Any:
        """p (1 - p)."""
        return self._categorical.probs * (1 - self._categorical.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        chosen = self._categorical.sample(sample_shape)
        return one_hot(chosen, self._categorical._num_events).to(self.probs)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        n = self.event_shape[0]
        values = eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n, *self.batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot samples with the gradient of the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]
