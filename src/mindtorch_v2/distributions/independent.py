"""A distribution whose last batch dimensions count as part of the event."""

from __future__ import annotations

from typing import Any

from ..core.size import Size
from . import constraints
from .distribution import Distribution, _owner
from .utils import sum_rightmost


class Independent(Distribution):
    """The base distribution with `reinterpreted_batch_ndims` batch dimensions made event dimensions."""

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(base_distribution.batch_shape)}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = len(base_distribution.batch_shape) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._get_checked_instance(_owner(type(self), "expand"), _instance)
        made.base_dist = self.base_dist.expand(Size(batch_shape) + self.event_shape[: self.reinterpreted_batch_ndims])
        made.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        Distribution.__init__(made, Size(batch_shape), self.event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """As the base has."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """As the base has, unless dimensions are reinterpreted."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        """The base's support, of more dimensions."""
        support = self.base_dist.support
        more = self.reinterpreted_batch_ndims
        return constraints.independent(support, more) if more else support

    @property
    def mean(self) -> Any:
        """The base's."""
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        """The base's."""
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        """The base's."""
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


__all__ = ["Independent"]
