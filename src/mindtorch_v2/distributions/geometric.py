"""The geometric distribution."""

from __future__ import annotations

from typing import Any

from ..autograd.grad_mode import no_grad
from ..core.dtype import finfo
from ..nn.functional import binary_cross_entropy_with_logits
from ..ops.creation.fill import empty, zeros_like
from . import constraints
from .odds import Odds
from .utils import broadcast_all


class Geometric(Odds):
    """How many tries fail before the first that succeeds."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)
        if self._validate_args and logits is None and not (self.probs > 0).all():
            raise ValueError(
                "Expected parameter probs "
                f"({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) "
                f"of distribution {self!r} "
                f"to be positive but found invalid values:\n{self.probs[~(self.probs > 0)]}"
            )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance)

    @property
    def mean(self) -> Any:
        """1 / p - 1."""
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        """0."""
        return zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        """(1 / p - 1) / p."""
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Any:
        blank = empty(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
        with no_grad():
            u = blank.uniform_(finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.clone()
        probs[(probs == 1) & (value == 0)] = 0
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Any:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


__all__ = ["Geometric"]
