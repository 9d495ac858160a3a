"""The multivariate normal distribution whose covariance is a low-rank matrix and a diagonal."""

from __future__ import annotations

import math
from typing import Any

from ...core.size import Size
from ...linalg import cholesky, solve_triangular  # type: ignore[attr-defined]
from .. import constraints
from ..distribution import Centred
from ..utils import broadcast_shape, lazy_property, standard_normal


class LowRankMultivariateNormal(Centred):
    """Normal vectors of covariance cov_factor · cov_factorᵀ + diag(cov_diag)."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        batch = broadcast_shape(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc = loc.expand((*batch, -1))
        self.cov_factor = cov_factor.expand((*batch, -1, -1))
        self.cov_diag = cov_diag.expand((*batch, -1))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch, event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        wide = Size(batch_shape) + self.event_shape
        return self._expanded(
            batch_shape,
            _instance,
            loc=self.loc.expand(wide),
            cov_diag=self.cov_diag.expand(wide),
            cov_factor=self.cov_factor.expand(wide + self.cov_factor.shape[-1:]),
            _unbroadcasted_cov_factor=self._unbroadcasted_cov_factor,
            _unbroadcasted_cov_diag=self._unbroadcasted_cov_diag,
            _capacitance_tril=self._capacitance_tril,
        )

    @lazy_property
    def variance(self) -> Any:
        """The covariance's diagonal."""
        squares = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return squares.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        factor = self._unbroadcasted_cov_factor
        whole = factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed()
        return whole.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """The covariance's Cholesky factor."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        inner = scaled @ scaled.mT
        inner = inner + inner.new_ones(inner.shape[-1]).diag_embed()
        return (root * cholesky(inner)).expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The covariance's inverse, by Woodbury's identity."""
        inverse = self._unbroadcasted_cov_diag.reciprocal()
        scaled = self._unbroadcasted_cov_factor.mT * inverse.unsqueeze(-2)
        a = solve_triangular(self._capacitance_tril, scaled, upper=False)
        return (inverse.diag_embed() - a.mT @ a).expand(self._batch_shape + self._event_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        low = standard_normal(shape[:-1] + self.cov_factor.shape[-1:], self.loc.dtype, self.loc.device)
        own = standard_normal(shape, self.loc.dtype, self.loc.device)
        moved = (self._unbroadcasted_cov_factor @ low.unsqueeze(-1)).squeeze(-1)
        return self.loc + moved + self._unbroadcasted_cov_diag.sqrt() * own

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = self._distance(value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def _distance(self, difference: Any) -> Any:
        """The squared Mahalanobis distance, by Woodbury's identity."""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        projected = scaled @ difference.unsqueeze(-1)
        factor = self._capacitance_tril.expand((*projected.shape[:-2], -1, -1))
        solved = solve_triangular(factor, projected, upper=False).squeeze(-1)
        return (difference.pow(2) / self._unbroadcasted_cov_diag).sum(-1) - solved.pow(2).sum(-1)

    def _log_det(self) -> Any:
        """The logarithm of the covariance's determinant, by the matrix determinant lemma."""
        inner = self._capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return 2 * inner + self._unbroadcasted_cov_diag.log().sum(-1)

    def entropy(self) -> Any:
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return entropy.expand(self._batch_shape) if self._batch_shape else entropy


def _capacitance_tril(factor: Any, diagonal: Any) -> Any:
    """The Cholesky factor of I + Wᵀ D⁻¹ W."""
    inner = (factor.mT / diagonal.unsqueeze(-2)) @ factor
    return cholesky(inner + inner.new_ones(inner.shape[-1]).diag_embed())


__all__ = ["LowRankMultivariateNormal"]
