"""The Lewandowski-Kurowicka-Joe distribution of correlation matrices, by their Cholesky factors."""

from __future__ import annotations

import math
from typing import Any

from ...core.dtype import finfo
from ...ops.creation.ranges import arange
from ...ops.linalg.triangle import diag_embed
from ...ops.shape.join import cat
from ...special import multigammaln  # type: ignore[attr-defined]
from .. import constraints
from ..beta import Beta
from ..distribution import Distribution
from ..utils import broadcast_all, randn


class LKJCholesky(Distribution):
    """Cholesky factors of `dim` x `dim` correlation matrices; a concentration of one makes all matrices as likely."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        row = arange(dim - 1, dtype=self.concentration.dtype)
        row = cat([row.new_zeros((1,)), row])
        self._beta = Beta(row + 0.5, (self.concentration + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * row)
        super().__init__(self.concentration.size(), (dim, dim), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._get_checked_instance(LKJCholesky, _instance)
        made.dim, made._beta = self.dim, self._beta.expand((*batch_shape, self.dim))
        return self._expanded(batch_shape, made, "concentration")

    def sample(self, sample_shape: Any = ()) -> Any:
        """Rows of the factor by the onion method: directions on spheres, lengths by beta distributions."""
        length = self._beta.sample(sample_shape).unsqueeze(-1).sqrt()
        direction = randn(self._extended_shape(sample_shape), dtype=length.dtype).tril(-1)
        direction = direction / direction.norm(dim=-1, keepdim=True)
        direction[..., 0, :].fill_(0.0)
        rows = length * direction
        rest = (1 - (rows**2).sum(-1)).clamp(min=finfo(rows.dtype).tiny).sqrt()
        return rows + diag_embed(rest)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        power = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - arange(2, self.dim + 1)
        rest = self.dim - 1
        alpha = self.concentration + 0.5 * rest
        normalizer = 0.5 * rest * math.log(math.pi) + multigammaln(alpha - 0.5, rest) - alpha.lgamma() * rest
        return (power * diagonal.log()).sum(-1) - normalizer


__all__ = ["LKJCholesky"]
