"""What distributions with one probability share: it is given as `probs` or as `logits`, and the other follows."""

from __future__ import annotations

from typing import Any

from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


def check_one_given(probs: Any, logits: Any) -> None:
    """Raise unless exactly one of the two is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class Odds(Distribution):
    """A distribution of a probability, or of its log-odds; `_param` is the one of the two that was given."""

    _param: Any

    def _take(self, probs: Any, logits: Any, *others: Any) -> tuple[Any, ...]:
        """Keep the parameter given, brought to one shape with `others`, which are returned."""
        check_one_given(probs, logits)
        *wide, self._param = broadcast_all(*others, probs if logits is None else logits)
        setattr(self, "probs" if logits is None else "logits", self._param)
        return tuple(wide)

    def _expanded(self, batch_shape: Any, _instance: Any, *names: str, **attributes: Any) -> Any:
        made = super()._expanded(batch_shape, _instance, "probs", "logits", *names, **attributes)
        made._param = made.__dict__["probs" if self._param is self.__dict__.get("probs") else "logits"]
        return made

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)

    @lazy_property
    def logits(self) -> Any:
        """Log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """The probability of success."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.size()


__all__ = ["Odds"]
