"""Choices among a finite number: Categorical and its one-hot forms."""

from __future__ import annotations

import math
from typing import Any

from ..core.dtype import finfo, int64
from ..core.size import Size
from ..ops.creation.fill import full
from ..ops.creation.random import _multinomial
from ..ops.creation.ranges import arange
from ..ops.shape.view import broadcast_tensors
from . import constraints
from .distribution import Distribution
from .odds import check_one_given
from .utils import lazy_property, logits_to_probs, probs_to_logits


class Categorical(Distribution):
    """The numbers 0 … K-1, with probabilities along the parameters' last dimension."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        check_one_given(probs, logits)
        name, given = ("probs", probs) if logits is None else ("logits", logits)
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if logits is None:
            self.probs = given / given.sum(-1, keepdim=True)
        else:
            self.logits = given - given.logsumexp(dim=-1, keepdim=True)
        self._param = self.probs if logits is None else self.logits
        self._num_events = self._param.size()[-1]
        super().__init__(self._param.size()[:-1], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        shape = Size((*batch_shape, self._num_events))
        made: dict[str, Any] = {
            name: self.__dict__[name].expand(shape) for name in ("probs", "logits") if name in self.__dict__
        }
        given = "probs" if self._param is self.__dict__.get("probs") else "logits"
        return self._expanded(batch_shape, _instance, _num_events=self._num_events, _param=made[given], **made)

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The numbers 0 … K-1."""
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Any:
        """Log-probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Any:
        """Probabilities."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.size()

    @property
    def mean(self) -> Any:
        """NaN: the numbers are names."""
        return full(self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mode(self) -> Any:
        """The likeliest number."""
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Any:
        """NaN: the numbers are names."""
        return full(self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device)

    def sample(self, sample_shape: Any = ()) -> Any:
        rows = self.probs.reshape(-1, self._num_events)
        count = Size(sample_shape).numel()
        return _multinomial.function(rows, count, True).T.reshape(self._extended_shape(Size(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value = value.to(int64).unsqueeze(-1)
        value, logits = broadcast_tensors(value, self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)  # 0 · -inf would be NaN
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = arange(self._num_events, dtype=int64, device=self._param.device)
        return self._for_batch(values, expand)


class OfCategorical(Distribution):
    """A distribution made of a Categorical, whose parameters are its own."""

    _categorical: Categorical

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._categorical._new(*args, **kwargs)

    @property
    def logits(self) -> Any:
        """Log-probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Any:
        """Probabilities."""
        return self._categorical.probs

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._categorical.param_shape


__all__ = ["Categorical"]
