"""The Wishart distribution of covariance matrices."""

from __future__ import annotations

import math
import warnings
from numbers import Number
from typing import Any

from ...core.dtype import finfo
from ...linalg import cholesky, slogdet  # type: ignore[attr-defined]
from ...ops.creation.convert import tensor
from ...ops.creation.ranges import arange, eye
from ...ops.linalg.solve import cholesky_solve
from ...ops.linalg.triangle import diag_embed, tril_indices
from ...special import multigammaln  # type: ignore[attr-defined]
from .. import constraints
from ..chi2 import Chi2
from ..exp_family import ExponentialFamily
from ..utils import broadcast_shape, lazy_property, randn
from .multivariate_normal import _precision_to_scale_tril

_LOG_2 = math.log(2)


class Wishart(ExponentialFamily):
    """Covariances of `df` draws of a normal distribution, not divided by their number."""

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """As `MultivariateNormal`'s, and `df` above the dimension less one."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        matrices = {
            "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril,
        }  # fmt: skip
        given = {name: matrix for name, matrix in matrices.items() if matrix is not None}
        if len(given) != 1:
            raise AssertionError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df_tensor = tensor(df, dtype=matrix.dtype) if isinstance(df, Number) else df
        batch_shape = broadcast_shape(matrix.shape[:-2], df_tensor.shape)
        self.df, size = df_tensor.expand(batch_shape), matrix.shape[-1]
        if self.df.le(size - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {size - 1}.")
        if self.df.lt(size).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        super().__init__(batch_shape, matrix.shape[-2:], validate_args=validate_args)
        factor = {"scale_tril": lambda m: m, "covariance_matrix": cholesky}
        self._unbroadcasted_scale_tril = factor.get(name, _precision_to_scale_tril)(matrix)
        self._prepare()

    def _prepare(self) -> None:
        """The distribution of squared diagonals in Bartlett's decomposition."""
        self._chi2 = Chi2(self.df.unsqueeze(-1) - arange(self._event_shape[-1], dtype=self.df.dtype))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._get_checked_instance(Wishart, _instance)
        whole = (*batch_shape, *self.event_shape)
        made._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril.expand(whole)
        made.df = self.df.expand(batch_shape)
        for name in ("covariance_matrix", "scale_tril", "precision_matrix"):
            if name in self.__dict__:
                setattr(made, name, self.__dict__[name].expand(whole))
        super(Wishart, made).__init__(batch_shape, self.event_shape, validate_args=False)
        made._validate_args = self._validate_args
        made._prepare()
        return made

    def _whole(self, matrix: Any) -> Any:
        return matrix.expand((*self._batch_shape, *self._event_shape))

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower triangular factor of the scale matrix."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The scale matrix."""
        factor = self._unbroadcasted_scale_tril
        return self._whole(factor @ factor.transpose(-2, -1))

    @lazy_property
    def precision_matrix(self) -> Any:
        """Its inverse."""
        factor = self._unbroadcasted_scale_tril
        return self._whole(cholesky_solve(eye(self._event_shape[-1], dtype=factor.dtype), factor))

    def _per_matrix(self, value: Any) -> Any:
        return value.view((*self._batch_shape, 1, 1))

    @property
    def mean(self) -> Any:
        """`df` times the scale matrix."""
        return self._per_matrix(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Any:
        """The likeliest matrix; none for few degrees of freedom."""
        factor = self.df - self._event_shape[-1] - 1
        factor[factor <= 0] = math.nan
        return self._per_matrix(factor) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        """The variance of each entry."""
        matrix = self.covariance_matrix
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        return self._per_matrix(self.df) * (matrix**2 + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett(self, sample_shape: Any) -> Any:
        size = self._event_shape[-1]
        roots = self._chi2.rsample(sample_shape).sqrt()
        noise = diag_embed(roots.clamp(min=finfo(roots.dtype).eps))
        row, column = tril_indices(size, size, offset=-1)
        below = (*sample_shape, *self._batch_shape, size * (size - 1) // 2)
        noise[..., row, column] = randn(below, dtype=noise.dtype)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.transpose(-2, -1)

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Any:
        """Draws, those that come out singular drawn again a few times."""
        self._bartlett(sample_shape)  # torch never returns its first draw
        sample = self._bartlett(sample_shape)
        batch_dims = [-(d + 1) for d in range(len(self._batch_shape))]
        for _ in range((10 if max_try_correction is None else max_try_correction) - 1):
            singular = self.support.check(sample).logical_not()
            singular = singular.amax(batch_dims) if batch_dims else singular
            if not singular.any():
                break
            sample[singular] = self._bartlett(singular[singular].shape)
        return sample

    def _log_determinant(self) -> Any:
        """Half that of the scale matrix, with the powers of two that go with it."""
        diagonal = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1)
        return self._event_shape[-1] * _LOG_2 / 2 + diagonal.log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        size = self._event_shape[-1]
        solved = cholesky_solve(value, self._unbroadcasted_scale_tril).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (
            -self.df * self._log_determinant()
            - multigammaln(self.df / 2, size)
            + (self.df - size - 1) / 2 * slogdet(value).logabsdet
            - solved / 2
        )

    def entropy(self) -> Any:
        size = self._event_shape[-1]
        half = self.df / 2
        digammas = (half.unsqueeze(-1) - arange(size, dtype=half.dtype) / 2).digamma().sum(-1)
        return (
            (size + 1) * self._log_determinant()
            + multigammaln(half, size)
            - (self.df - size - 1) / 2 * digammas
            + self.df * size / 2
        )

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        size = self._event_shape[-1]
        half = y + (size + 1) / 2
        return half * (-slogdet(-2 * x).logabsdet + _LOG_2 * size) + multigammaln(half, size)


__all__ = ["Wishart"]
