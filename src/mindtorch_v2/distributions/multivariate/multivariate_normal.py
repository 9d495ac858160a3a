"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

from ...core.size import Size
from ...linalg import cholesky, solve_triangular  # type: ignore[attr-defined]
from ...ops.creation.ranges import eye
from .. import constraints
from ..distribution import Centred
from ..utils import broadcast_shape, lazy_property, standard_normal

_MATRICES = ("covariance_matrix", "precision_matrix", "scale_tril")


def _precision_to_scale_tril(precision: Any) -> Any:
    """The Cholesky factor of a precision matrix's inverse, found by factoring the matrix read backwards."""
    backwards = cholesky(precision.flip((-2, -1)))
    inverse = backwards.flip((-2, -1)).mT
    unit = eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return solve_triangular(inverse, unit, upper=False)


def _batch_mahalanobis(factor: Any, difference: Any) -> Any:
    """The squared length of factor⁻¹ · difference."""
    shape = broadcast_shape(factor.shape[:-1], difference.shape)
    solved = solve_triangular(factor, difference.expand(shape).unsqueeze(-1), upper=False)
    return solved.squeeze(-1).pow(2).sum(-1)


class MultivariateNormal(Centred):
    """Normal vectors, given their mean and one of: covariance, its inverse, its Cholesky factor."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        matrices = dict(zip(_MATRICES, (covariance_matrix, precision_matrix, scale_tril)))
        given = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        name, matrix = given[0]
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = broadcast_shape(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        self.loc = loc.expand((*batch_shape, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        else:
            self._unbroadcasted_scale_tril = (
                cholesky(matrix) if name == "covariance_matrix" else _precision_to_scale_tril(matrix)
            )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        batch_shape = Size(batch_shape)
        square = batch_shape + self.event_shape + self.event_shape
        kept = {name: self.__dict__[name].expand(square) for name in _MATRICES if name in self.__dict__}
        return self._expanded(
            batch_shape,
            _instance,
            loc=self.loc.expand(batch_shape + self.event_shape),
            _unbroadcasted_scale_tril=self._unbroadcasted_scale_tril,
            **kept,
        )

    def _square(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """The covariance's Cholesky factor."""
        return self._square(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        return self._square(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The covariance's inverse."""
        return self._square(self._unbroadcasted_scale_tril.cholesky_inverse())

    @property
    def variance(self) -> Any:
        """The covariance's diagonal."""
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        eps = standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ eps.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def _half_log_det(self) -> Any:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def entropy(self) -> Any:
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return entropy.expand(self._batch_shape) if self._batch_shape else entropy


__all__ = ["MultivariateNormal"]
