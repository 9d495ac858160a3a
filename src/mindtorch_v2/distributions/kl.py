"""Kullback-Leibler divergences of pairs of distributions, by their types."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from ..autograd.entry import grad
from ..autograd.grad_mode import enable_grad
from ..nn.functional import softplus
from ..ops.creation.fill import full_like
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .laplace import Laplace
from .multivariate.dirichlet import Dirichlet
from .multivariate.multivariate_normal import MultivariateNormal, _batch_mahalanobis
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import euler_constant, sum_rightmost

Divergence = Callable[[Any, Any], Any]

_REGISTRY: dict[tuple[type, type], Divergence] = {}
_FOUND: dict[tuple[type, type], Any] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Divergence], Divergence]:
    """A decorator: the function is the divergence of distributions of these types and of types derived from them."""
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not (isinstance(kind, type) and issubclass(kind, Distribution)):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def register(function: Divergence) -> Divergence:
        _REGISTRY[type_p, type_q] = function
        _FOUND.clear()
        return function

    return register


def _find(type_p: type, type_q: type) -> Any:
    """The function for the nearest types there is one for: nearest for p first, and for q first if that differs."""
    matches = [(p, q) for p, q in _REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return None

    def far(pair: tuple[type, type]) -> tuple[int, int]:
        return type_p.__mro__.index(pair[0]), type_q.__mro__.index(pair[1])

    by_p, by_q = min(matches, key=far), min(matches, key=lambda pair: far(pair)[::-1])
    if _REGISTRY[by_p] is not _REGISTRY[by_q]:
        names = [kind.__name__ for kind in (*by_p, type_p, type_q)]
        warnings.warn(
            "Ambiguous kl_divergence({2}, {3}). Please register_kl({0}, {1})".format(*names),
            RuntimeWarning,
            stacklevel=3,
        )
    return _REGISTRY[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """The divergence of p from q, one for each element of the batch."""
    pair = type(p), type(q)
    if pair not in _FOUND:
        _FOUND[pair] = _find(*pair)
    function = _FOUND[pair]
    if function is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {pair[0].__name__} and q type {pair[1].__name__}"
        )
    return function(p, q)


def _infinite_like(t: Any) -> Any:
    return full_like(t, math.inf)


def _xlogx(t: Any) -> Any:
    return t.xlogy(t)


# --- of one family ----------------------------------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    ones = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    ones[q.probs == 0] = math.inf
    ones[p.probs == 0] = 0
    zeros = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    zeros[q.probs == 1] = math.inf
    zeros[p.probs == 1] = 0
    return ones + zeros


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    p1, p0, q1, q0 = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    total_p, total_q = p1 + p0, q1 + q0
    norm = q1.lgamma() + q0.lgamma() + total_p.lgamma() - (p1.lgamma() + p0.lgamma() + total_q.lgamma())
    slopes = (p1 - q1) * p1.digamma() + (p0 - q0) * p0.digamma() + (total_q - total_p) * total_p.digamma()
    return norm + slopes


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    more = p.total_count > q.total_count
    kl[more] = math.inf
    return kl


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    terms = p.probs * (p.logits - q.logits)
    terms[(q.probs == 0).expand_as(terms)] = math.inf
    terms[(p.probs == 0).expand_as(terms)] = 0
    return terms.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    apart = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return apart - (4 * p.scale * q.scale).log()


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    norm = a.sum(-1).lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return norm + ((a - b) * (a.digamma() - a.sum(-1, True).digamma())).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    away = (p.loc - q.loc) / q.scale
    return -ratio.log() + away + ratio * euler_constant + (-away + (1 + ratio).lgamma()).exp() - (1 + euler_constant)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    distance = (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    n = p.event_shape[0]
    tril_p, tril_q = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    whitened = tril_q.inverse() @ tril_p  # a triangle of n columns: its squares add up to the trace
    trace = whitened.pow(2).sum((-2, -1))
    return q._half_log_det() - p._half_log_det() + 0.5 * (trace + _batch_mahalanobis(tril_q, q.loc - p.loc) - n)


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    kl = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    kl[p.support.lower_bound < q.support.lower_bound] = math.inf
    return kl


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    kl = ((q.high - q.low) / (p.high - p.low)).log()
    kl[(q.low > p.low) | (q.high < p.high)] = math.inf
    return kl


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Any:
    """By Bregman's divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman divergences"
        )
    with enable_grad():
        own = [t.detach().requires_grad_() for t in p._natural_params]
        normalizer = p._log_normalizer(*own)
        slopes = grad(normalizer.sum(), own, create_graph=True)
    others = q._natural_params
    kl = q._log_normalizer(*others) - normalizer
    for mine, other, slope in zip(own, others, slopes):
        kl = kl - sum_rightmost((other - mine) * slope, len(q.event_shape))
    return kl


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            f"the divergence of {type(p).__name__} from {type(q).__name__} is known for equal transforms and event "
            "shapes only"
        )
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "the divergence of two Independents is known for equal reinterpreted_batch_ndims only, got "
            f"{p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}"
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# --- of two families --------------------------------------------------------------------------------------------------


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, Exponential)
def _beta_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * (p.concentration1 / (p.concentration1 + p.concentration0))


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Any:
    total = p.concentration1 + p.concentration0
    log_mean = p.concentration1.digamma() - total.digamma()
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    return -p.entropy() + norm - (q.concentration - 1) * log_mean + q.rate * p.concentration1 / total


@register_kl(Beta, Normal)
def _beta_normal(p: Any, q: Any) -> Any:
    mean, variance = p.mean, q.scale.square()
    square = p.variance + mean.square()
    norm = 0.5 * (variance * 2 * math.pi).log()
    return -p.entropy() + norm + (square * 0.5 - mean * q.loc + q.loc.square() * 0.5) / variance


@register_kl(Beta, Uniform)
def _beta_uniform(p: Any, q: Any) -> Any:
    kl = -p.entropy() + (q.high - q.low).log()
    kl[(q.low > p.support.lower_bound) | (q.high < p.support.upper_bound)] = math.inf
    return kl


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    c = q.concentration
    return -c * ratio.log() + ratio + c.lgamma() + c * euler_constant - (1 + euler_constant)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Any:
    product, shift = p.rate * q.scale, q.loc / q.scale
    return product.log() - 1 + product.reciprocal() - shift + shift.exp() * product / (product + 1)


@register_kl(Exponential, Normal)
def _exponential_normal(p: Any, q: Any) -> Any:
    variance, rate = q.scale.pow(2), p.rate
    spread = 0.5 * (rate.pow(2) * variance * 2 * math.pi).log()
    return spread - 1 + (rate.pow(-2) - q.loc / rate + 0.5 * q.loc.pow(2)) / variance


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Any:
    product, shift, c = p.rate * q.scale, q.loc / q.scale, p.concentration
    own = (c - 1) * c.digamma() - c.lgamma() - c
    return own + product.log() + c / product - shift + shift.exp() * (1 + product.reciprocal()).pow(-c)


@register_kl(Gamma, Normal)
def _gamma_normal(p: Any, q: Any) -> Any:
    variance, c = q.scale.pow(2), p.concentration
    own = 0.5 * (p.rate.pow(2) * variance * 2 * math.pi).log() - c - c.lgamma() + (c - 1) * c.digamma()
    return (
        own
        + 0.5 * (c.pow(2) + c) / p.rate.pow(2) / variance
        - q.loc * c / p.rate / variance
        + 0.5 * q.loc.pow(2) / variance
    )


@register_kl(Gumbel, Normal)
def _gumbel_normal(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    spread = (ratio / math.sqrt(2 * math.pi)).log()
    away = ((p.loc + p.scale * euler_constant - q.loc) / q.scale).pow(2) * 0.5
    return -spread + (math.pi * ratio * 0.5).pow(2) / 3 + away - (euler_constant + 1)


@register_kl(Laplace, Normal)
def _laplace_normal(p: Any, q: Any) -> Any:
    variance = q.scale.pow(2)
    ratio = p.scale.pow(2) / variance
    distance = 0.5 * p.loc.pow(2) - p.loc * q.loc + 0.5 * q.loc.pow(2)
    return -0.5 * (2 * ratio / math.pi).log() + ratio + distance / variance - 1


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Any:
    mean, spread, shift = p.loc / q.scale, (p.scale / q.scale).pow(2), q.loc / q.scale
    own = -(p.scale / q.scale * math.sqrt(2 * math.pi)).log()
    return own + mean - shift + (-mean + 0.5 * spread + shift).exp() - 0.5


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Any:
    away = p.loc - q.loc
    scaled = away / p.scale
    mean = math.sqrt(2 / math.pi) * p.scale * (-0.5 * scaled.pow(2)).exp() + away * (math.sqrt(0.5) * scaled).erf()
    return -(p.scale / q.scale).log() + mean / q.scale - (0.5 * math.log(2 * math.pi) + 0.5 - math.log(2))


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Any:
    kl = (p.alpha / (p.scale * q.rate)).log() - p.alpha.reciprocal() + p.alpha * p.scale * q.rate / (p.alpha - 1) - 1
    kl[p.alpha <= 1] = math.inf
    return kl


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Any:
    log_mean = p.scale.log() + p.alpha.reciprocal()
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    power = (1 - q.concentration) * log_mean
    kl = p.alpha.log() - log_mean + norm + power + q.rate * p.alpha * p.scale / (p.alpha - 1) - 1
    kl[p.alpha <= 1] = math.inf
    return kl


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Any:
    variance, above = 2 * q.scale.pow(2), p.alpha - 1
    own = (math.sqrt(2 * math.pi) * q.scale * p.alpha / p.scale).log() - p.alpha.reciprocal()
    spread = p.alpha * p.scale.pow(2) / (above.pow(2) * (p.alpha - 2))
    kl = own + (spread + (p.alpha * p.scale / above - q.loc).pow(2)) / variance - 1
    kl[p.alpha <= 2] = math.inf
    return kl


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Any:
    width = p.high - p.low
    a, b = q.concentration1, q.concentration0
    ones = (a - 1) * (_xlogx(p.high) - _xlogx(p.low) - width) / width
    zeros = (b - 1) * (_xlogx(1 - p.high) - _xlogx(1 - p.low) + width) / width
    kl = a.lgamma() + b.lgamma() - (a + b).lgamma() - width.log() - ones + zeros
    kl[(p.high > q.support.upper_bound) | (p.low < q.support.lower_bound)] = math.inf
    return kl


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Any:
    kl = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    kl[p.low < q.support.lower_bound] = math.inf
    return kl


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Any:
    width, c = p.high - p.low, q.concentration
    log_mean = (1 - c) * (_xlogx(p.high) - _xlogx(p.low) - width) / width
    kl = -width.log() + c.lgamma() - c * q.rate.log() + log_mean + q.rate * (p.high + p.low) / 2
    kl[p.low < q.support.lower_bound] = math.inf
    return kl


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Any:
    ratio = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return ratio.log() + 0.5 * (high + low) - ratio * ((-high).exp() - (-low).exp())


@register_kl(Uniform, Normal)
def _uniform_normal(p: Any, q: Any) -> Any:
    width = p.high - p.low
    away = ((p.high + p.low - 2 * q.loc) / 2).pow(2)
    return (math.sqrt(math.pi * 2) * q.scale / width).log() + (width.pow(2) / 12 + away) / (2 * q.scale.pow(2))


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Any:
    width = p.high - p.low
    log_mean = (_xlogx(p.high) - _xlogx(p.low) - width) / width
    kl = log_mean * (q.alpha + 1) - (q.alpha * q.scale.pow(q.alpha) * width).log()
    kl[p.low < q.support.lower_bound] = math.inf
    return kl


# Where p reaches beyond what q holds possible: p's type, the parameter whose shape the divergence has, and q's types.
_BEYOND: list[tuple[type, str, tuple[type, ...]]] = [
    (Beta, "concentration1", (Pareto,)),
    (ContinuousBernoulli, "probs", (Pareto,)),
    (Exponential, "rate", (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gamma, "concentration", (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gumbel, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Laplace, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Normal, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Pareto, "scale", (Beta, ContinuousBernoulli, Uniform)),
    (Poisson, "rate", (Bernoulli, Binomial)),
]


def _register_beyond(type_p: type, parameter: str, others: tuple[type, ...]) -> None:
    for other in others:
        register_kl(type_p, other)(lambda p, q: _infinite_like(getattr(p, parameter)))


for _row in _BEYOND:
    _register_beyond(*_row)


# --- the continuous Bernoulli distribution ----------------------------------------------------------------------------


def _to_continuous_bernoulli(p: Any, q: Any) -> Any:
    """From a distribution on the unit interval: what its density is expected to be under q, less its entropy."""
    return -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._log_normalizing_constant()


register_kl(Beta, ContinuousBernoulli)(_to_continuous_bernoulli)
register_kl(ContinuousBernoulli, ContinuousBernoulli)(_to_continuous_bernoulli)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Any, q: Any) -> Any:
    kl = _to_continuous_bernoulli(p, q)
    return kl.masked_fill((p.high >= 1.0) | (p.low <= 0.0), math.inf)


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p: Any, q: Any) -> Any:
    kl = -p.entropy() + (q.high - q.low).log()
    return kl.masked_fill((q.low >= 0.0) | (q.high <= 1.0), math.inf)


@register_kl(ContinuousBernoulli, Exponential)
def _continuous_bernoulli_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(ContinuousBernoulli, Normal)
def _continuous_bernoulli_normal(p: Any, q: Any) -> Any:
    spread = (p.variance + (p.mean - q.loc) ** 2) / q.scale**2
    return -p.entropy() + 0.5 * (math.log(2 * math.pi) + spread) + q.scale.log()


__all__ = ["kl_divergence", "register_kl"]
