"""The multinomial distribution."""

from __future__ import annotations

from typing import Any

from ...core.size import Size
from ...ops.creation.convert import tensor
from ...ops.creation.fill import ones_like, zeros
from .. import constraints
from ..binomial import Binomial
from ..categorical import Categorical, OfCategorical
from ..utils import broadcast_all


class Multinomial(OfCategorical):
    """How often each choice comes up in `total_count` choices."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(
            batch_shape,
            _instance,
            total_count=self.total_count,
            _categorical=self._categorical.expand(batch_shape),
            _binomial=self._binomial.expand((*batch_shape, *self.event_shape)),
        )

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts that add up to `total_count`."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Any:
        """n p."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        """n p (1 - p)."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        sample_shape = Size(sample_shape)
        chosen = self._categorical.sample(Size((self.total_count,)) + sample_shape)
        chosen = chosen.permute(*range(1, chosen.dim()), 0)
        counts = zeros(self._extended_shape(sample_shape), dtype=chosen.dtype, device=chosen.device)
        counts.scatter_add_(-1, chosen, ones_like(chosen))
        return counts.type_as(self.probs)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.clone()
        choices = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        logits[(value == 0) & (logits == -float("inf"))] = 0
        return choices + (logits * value).sum(-1)

    def entropy(self) -> Any:
        n = tensor(self.total_count)
        counts = self._binomial.enumerate_support(expand=False)[1:]
        expected = (self._binomial.log_prob(counts).exp() * (counts + 1).lgamma()).sum([0, -1])
        return n * self._categorical.entropy() - (n + 1).lgamma() + expected


__all__ = ["Multinomial"]
