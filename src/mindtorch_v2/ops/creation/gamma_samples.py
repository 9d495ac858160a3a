"""Rows of gamma and Dirichlet samples, with the gradients of reparameterized draws."""

from __future__ import annotations

from typing import Any

from ...dispatch.op import op
from ...kernels import random
from ...kernels.special import reparameterize
from ..meta import shapes
from ..pointwise.arithmetic import refuse


@op(
    "_standard_gamma_grad(Tensor self, Tensor output) -> Tensor",
    meta=shapes.two_broadcast,
    out=False,
    self=refuse("_standard_gamma_grad"),
)
def _gamma_gradient(a: Any, output: Any) -> Any:
    return reparameterize.gamma_gradient(a, output)


@op("_standard_gamma(Tensor self, Generator? generator=None) -> Tensor", meta=shapes.like_nth(0), out=False,
    self=lambda g, self, result: g * _gamma_gradient.function(self, result))  # fmt: skip
def _standard_gamma(a: Any, generator: Any) -> Any:
    return random.standard_gamma(a, generator)


@op("_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor", meta=shapes.two_broadcast, method=False, out=False,
    x__alpha__total=refuse("_dirichlet_grad"))  # fmt: skip
def _dirichlet_gradient(x: Any, alpha: Any, total: Any) -> Any:
    return reparameterize.dirichlet_gradient(x, alpha, total)


def _sample_gradient(g: Any, self: Any, result: Any) -> Any:
    total = self.sum(-1, True).expand(self.shape)
    moved = _dirichlet_gradient.function(result, self, total)
    return moved * (g - (result * g).sum(-1, True))


@op("_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor", meta=shapes.like_nth(0), out=False,
    self=lambda g, self, result: _sample_gradient(g, self, result))  # fmt: skip
def _sample_dirichlet(a: Any, generator: Any) -> Any:
    return random.dirichlet(a, generator)


standard_gamma, sample_dirichlet = _standard_gamma.function, _sample_dirichlet.function
