"""torch.distributions beside torch's own: draws under one seed, densities, moments, gradients, divergences, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import mindtorch_v2

BOTH = (torch, mindtorch_v2)
Make = Callable[[Any, Any], Any]


# Each is made of a torch module and a function that gives its parameters, so that gradients can be asked of them.
CASES: dict[str, tuple[Make, list[Any]]] = {
    "Bernoulli": (lambda d, p: d.Bernoulli(p[0]), [[0.1, 0.5, 0.9]]),
    "Bernoulli logits": (lambda d, p: d.Bernoulli(logits=p[0]), [[-1.0, 0.3, 2.0]]),
    "Beta": (lambda d, p: d.Beta(p[0], p[1]), [[0.5, 2.0, 3.0], [1.5, 2.5, 0.7]]),
    "Binomial": (lambda d, p: d.Binomial(5, p[0]), [[0.1, 0.5, 0.9]]),
    "Binomial logits": (lambda d, p: d.Binomial(7, logits=p[0]), [[-1.0, 0.3, 2.0]]),
    "Categorical": (lambda d, p: d.Categorical(p[0]), [[[0.1, 0.5, 0.4], [1.0, 2.0, 3.0]]]),
    "Categorical logits": (lambda d, p: d.Categorical(logits=p[0]), [[[0.1, 0.5, 0.4], [1.0, 2.0, 3.0]]]),
    "Cauchy": (lambda d, p: d.Cauchy(p[0], p[1]), [[0.0, 1.0], [1.0, 2.0]]),
    "Chi2": (lambda d, p: d.Chi2(p[0]), [[0.7, 3.0, 12.0]]),
    "Dirichlet": (lambda d, p: d.Dirichlet(p[0]), [[[0.5, 2.0, 3.0], [5.0, 0.2, 1.0]]]),
    "Exponential": (lambda d, p: d.Exponential(p[0]), [[0.5, 2.0, 3.0]]),
    "FisherSnedecor": (lambda d, p: d.FisherSnedecor(p[0], p[1]), [[1.5, 3.0, 8.0], [1.0, 3.0, 9.0]]),
    "InverseGamma": (lambda d, p: d.InverseGamma(p[0], p[1]), [[0.9, 1.5, 4.0], [1.0, 2.0, 0.5]]),
    "Gamma": (lambda d, p: d.Gamma(p[0], p[1]), [[0.5, 2.0, 30.0], [1.0, 2.0, 0.5]]),
    "Geometric": (lambda d, p: d.Geometric(p[0]), [[0.1, 0.5, 0.9]]),
    "Gumbel": (lambda d, p: d.Gumbel(p[0], p[1]), [[0.0, 1.0], [1.0, 2.0]]),
    "HalfCauchy": (lambda d, p: d.HalfCauchy(p[0]), [[0.5, 2.0]]),
    "HalfNormal": (lambda d, p: d.HalfNormal(p[0]), [[0.5, 2.0]]),
    "Independent": (lambda d, p: d.Independent(d.Normal(p[0], p[1]), 1), [[0.0, 1.0], [1.0, 2.0]]),
    "Kumaraswamy": (lambda d, p: d.Kumaraswamy(p[0], p[1]), [[0.5, 2.0], [1.5, 3.0]]),
    "Laplace": (lambda d, p: d.Laplace(p[0], p[1]), [[0.0, 1.0], [1.0, 2.0]]),
    "LogNormal": (lambda d, p: d.LogNormal(p[0], p[1]), [[0.0, 1.0], [1.0, 0.5]]),
    "LogisticNormal": (lambda d, p: d.LogisticNormal(p[0], p[1]), [[0.0, 1.0], [1.0, 0.5]]),
    "LowRankMultivariateNormal": (
        lambda d, p: d.LowRankMultivariateNormal(p[0], p[1], p[2]),
        [[[1.0, -1.0, 0.0], [0.0, 2.0, 1.0]], [[1.0], [0.5], [-1.0]], [0.5, 1.0, 2.0]],
    ),
    "MixtureSameFamily": (
        lambda d, p: d.MixtureSameFamily(d.Categorical(p[0]), d.Normal(p[1], p[2])),
        [[0.3, 0.7], [-1.0, 2.0], [1.0, 0.5]],
    ),
    "Mixture of vectors": (
        lambda d, p: d.MixtureSameFamily(d.Categorical(p[0]), d.Independent(d.Normal(p[1], p[2]), 1)),
        [[0.3, 0.7], [[-1.0, 2.0, 0.0], [1.0, 1.0, 3.0]], [[1.0, 0.5, 1.0], [0.1, 1.0, 2.0]]],
    ),
    "Multinomial": (lambda d, p: d.Multinomial(6, p[0]), [[[0.1, 0.5, 0.4], [1.0, 2.0, 3.0]]]),
    "MultivariateNormal": (lambda d, p: d.MultivariateNormal(p[0], p[1]), [[1.0, -1.0], [[2.0, 0.5], [0.5, 1.0]]]),
    "MultivariateNormal precision": (
        lambda d, p: d.MultivariateNormal(p[0], precision_matrix=p[1]),
        [[[1.0, -1.0], [0.0, 2.0]], [[2.0, 0.5], [0.5, 1.0]]],
    ),
    "MultivariateNormal scale": (
        lambda d, p: d.MultivariateNormal(p[0], scale_tril=p[1]),
        [[1.0, -1.0], [[2.0, 0.0], [0.5, 1.0]]],
    ),
    "NegativeBinomial": (lambda d, p: d.NegativeBinomial(p[0], p[1]), [[3.0, 5.0], [0.3, 0.6]]),
    "Normal": (lambda d, p: d.Normal(p[0], p[1]), [[0.0, 1.0, -2.0], [1.0, 2.0, 0.1]]),
    "OneHotCategorical": (lambda d, p: d.OneHotCategorical(p[0]), [[[0.1, 0.5, 0.4], [1.0, 2.0, 3.0]]]),
    "StraightThrough": (lambda d, p: d.OneHotCategoricalStraightThrough(p[0]), [[[0.1, 0.5, 0.4], [1.0, 2.0, 3.0]]]),
    "Pareto": (lambda d, p: d.Pareto(p[0], p[1]), [[1.0, 2.0], [3.0, 2.5]]),
    "Poisson": (lambda d, p: d.Poisson(p[0]), [[0.5, 4.0, 30.0]]),
    "RelaxedBernoulli": (lambda d, p: d.RelaxedBernoulli(p[0], p[1]), [0.7, [0.1, 0.5, 0.9]]),
    "RelaxedOneHotCategorical": (lambda d, p: d.RelaxedOneHotCategorical(p[0], p[1]), [0.7, [0.1, 0.5, 0.4]]),
    "StudentT": (lambda d, p: d.StudentT(p[0], p[1], p[2]), [[0.9, 1.5, 5.0], [0.0, 1.0, 2.0], [1.0, 2.0, 0.5]]),
    "TransformedDistribution": (
        lambda d, p: d.TransformedDistribution(
            d.Normal(p[0], p[1]), [d.AffineTransform(1.0, -0.5), d.TanhTransform(), d.SigmoidTransform()]
        ),
        [[0.0, 1.0], [1.0, 0.5]],
    ),
    "Uniform": (lambda d, p: d.Uniform(p[0], p[1]), [[0.0, 1.0], [1.0, 3.0]]),
    "Weibull": (lambda d, p: d.Weibull(p[0], p[1]), [[1.0, 2.0], [0.8, 3.0]]),
}


def built(t: Any, name: str) -> tuple[Any, list[Any]]:
    make, values = CASES[name]
    parameters = [t.tensor(v, requires_grad=True) for v in values]
    return make(t.distributions, parameters), parameters


def arrays(found: Any) -> Any:
    return found.detach().numpy()


def close(ours: Any, theirs: Any, rtol: float = 2e-5, atol: float = 2e-6) -> None:
    assert tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(arrays(ours), arrays(theirs), rtol=rtol, atol=atol)


def asked(t: Any, question: Callable[[Any, Any], Any], distribution: Any) -> Any:
    """An answer, or the type of the refusal."""
    try:
        return question(t, distribution)
    except (NotImplementedError, ValueError, RuntimeError) as refusal:
        return type(refusal)


def same(question: Callable[[Any, Any], Any], name: str, **tolerances: float) -> None:
    theirs, ours = (asked(t, question, built(t, name)[0]) for t in BOTH)
    if isinstance(theirs, type) or isinstance(ours, type):
        assert ours is theirs
    else:
        close(ours, theirs, **tolerances)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("draw", ["sample", "rsample"])
def test_draws_under_one_seed(name: str, draw: str) -> None:
    def question(t: Any, distribution: Any) -> Any:
        t.manual_seed(3)
        return getattr(distribution, draw)((4, 2))

    same(question, name)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("fact", ["mean", "variance", "stddev", "mode"])
def test_moments(name: str, fact: str) -> None:
    if (name, fact) == ("Kumaraswamy", "mode"):
        pytest.skip("torch's formula gives NaN there; test_distributions.py holds the value")
    same(lambda t, distribution: getattr(distribution, fact), name)


@pytest.mark.parametrize("name", CASES)
def test_entropy(name: str) -> None:
    same(lambda t, distribution: distribution.entropy(), name)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("function", ["log_prob", "cdf"])
def test_functions_of_a_value(name: str, function: str) -> None:
    torch.manual_seed(5)
    value = built(torch, name)[0].sample((6,)).numpy()
    same(lambda t, distribution: getattr(distribution, function)(t.tensor(value)), name)


@pytest.mark.parametrize("name", CASES)
def test_icdf(name: str) -> None:
    same(lambda t, distribution: distribution.icdf(t.tensor([[0.01], [0.3], [0.5], [0.95]])), name)


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_log_prob(name: str) -> None:
    torch.manual_seed(7)
    value = built(torch, name)[0].sample((6,)).numpy()
    found = []
    for t in BOTH:
        distribution, parameters = built(t, name)
        distribution.log_prob(t.tensor(value)).sum().backward()
        found.append([p.grad for p in parameters])
    for theirs, ours in zip(*found):
        assert (theirs is None) == (ours is None)
        if theirs is not None:
            close(ours, theirs, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", [n for n in CASES if built(torch, n)[0].has_rsample])
def test_gradients_of_draws(name: str) -> None:
    found = []
    for t in BOTH:
        t.manual_seed(11)
        distribution, parameters = built(t, name)
        drawn = distribution.rsample((3,))
        weights = t.arange(drawn.numel(), dtype=t.float32).reshape(drawn.shape) % 5 - 2
        (drawn * weights).sum().backward()
        found.append([p.grad for p in parameters])
    for theirs, ours in zip(*found):
        assert (theirs is None) == (ours is None)
        if theirs is not None:
            close(ours, theirs, rtol=3e-3, atol=1e-4)  # torch approximates gamma's and Dirichlet's


@pytest.mark.parametrize("name", CASES)
def test_expand(name: str) -> None:
    found = []
    for t in BOTH:
        distribution = built(t, name)[0]
        wide = distribution.expand((3, *distribution.batch_shape))
        t.manual_seed(13)
        found.append((tuple(wide.batch_shape), tuple(wide.event_shape), repr(distribution), wide.sample()))
    theirs, ours = found
    assert ours[:3] == theirs[:3]
    close(ours[3], theirs[3])


@pytest.mark.parametrize("name", CASES)
def test_support_and_enumeration(name: str) -> None:
    theirs, ours = (built(t, name)[0] for t in BOTH)
    assert repr(ours.support) == repr(theirs.support)
    assert ours.support.event_dim == theirs.support.event_dim
    assert ours.has_enumerate_support == theirs.has_enumerate_support
    same(lambda t, distribution: distribution.enumerate_support(), name)


KL_PARAMETERS: dict[str, list[list[float]]] = {
    "Bernoulli": [[0.2, 0.7]],
    "Beta": [[2.0, 3.0], [1.5, 2.5]],
    "Cauchy": [[0.5, 1.0], [1.0, 2.0]],
    "Exponential": [[0.5, 2.0]],
    "Gamma": [[1.5, 2.0], [1.0, 2.0]],
    "Geometric": [[0.2, 0.7]],
    "Gumbel": [[0.5, 1.0], [1.0, 2.0]],
    "HalfNormal": [[0.5, 2.0]],
    "Laplace": [[0.5, 1.0], [1.0, 2.0]],
    "LogNormal": [[0.5, 1.0], [1.0, 2.0]],
    "Normal": [[0.5, 1.0], [1.0, 2.0]],
    "Pareto": [[1.0, 2.0], [3.0, 2.5]],
    "Poisson": [[0.5, 4.0]],
    "Uniform": [[0.1, 0.2], [0.7, 0.9]],
}


def divergence(t: Any, p: str, q: str) -> Any:
    one, other = (
        getattr(t.distributions, name)(*(t.tensor(v) * factor for v in KL_PARAMETERS[name]))
        for name, factor in ((p, 1.0), (q, 1.25))
    )
    return t.distributions.kl_divergence(one, other)


@pytest.mark.parametrize("p", KL_PARAMETERS)
@pytest.mark.parametrize("q", KL_PARAMETERS)
def test_divergence(p: str, q: str) -> None:
    theirs, ours = (asked(t, lambda t, _: divergence(t, p, q), None) for t in BOTH)
    if isinstance(theirs, type) or isinstance(ours, type):
        assert ours is theirs
    else:
        close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    ["Categorical", "Dirichlet", "Independent", "MultivariateNormal", "MultivariateNormal scale", "OneHotCategorical"],
)
def test_divergence_of_vectors(name: str) -> None:
    def question(t: Any, p: Any) -> Any:
        make, values = CASES[name]
        q = make(t.distributions, [t.tensor(v) * 1.5 + (0.1 if name != "MultivariateNormal" else 0.0) for v in values[:1]]
                 + [t.tensor(v) * 1.5 for v in values[1:]])  # fmt: skip
        return t.distributions.kl_divergence(p, q)

    same(question, name)


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "Affine": lambda t: t.distributions.AffineTransform(1.0, -2.0),
    "Affine of events": lambda t: t.distributions.AffineTransform(1.0, t.tensor([1.0, 2.0, 3.0]), event_dim=1),
    "Compose": lambda t: t.distributions.ComposeTransform(
        [t.distributions.AffineTransform(0.5, 2.0), t.distributions.SigmoidTransform()]
    ),
    "Compose with sticks": lambda t: t.distributions.ComposeTransform(
        [t.distributions.AffineTransform(0.5, 2.0), t.distributions.StickBreakingTransform()]
    ),
    "Cat": lambda t: t.distributions.CatTransform(
        [t.distributions.ExpTransform(), t.distributions.AffineTransform(1.0, 3.0)], dim=1, lengths=[1, 2]
    ),
    "CorrCholesky": lambda t: t.distributions.CorrCholeskyTransform(),
    "CumulativeDistribution": lambda t: t.distributions.CumulativeDistributionTransform(
        t.distributions.Normal(0.0, 1.0)
    ),
    "Exp": lambda t: t.distributions.ExpTransform(),
    "Reshape": lambda t: t.distributions.ReshapeTransform((3,), (3, 1)),
    "Stack": lambda t: t.distributions.StackTransform(
        [t.distributions.ExpTransform(), t.distributions.AffineTransform(1.0, 3.0)], dim=0
    ),
    "Independent": lambda t: t.distributions.IndependentTransform(t.distributions.ExpTransform(), 1),
    "Inverse": lambda t: t.distributions.SigmoidTransform().inv.inv,
    "Power": lambda t: t.distributions.ComposeTransform(
        [t.distributions.ExpTransform(), t.distributions.PowerTransform(0.5)]
    ),
    "Sigmoid": lambda t: t.distributions.SigmoidTransform(),
    "Softplus": lambda t: t.distributions.SoftplusTransform(),
    "StickBreaking": lambda t: t.distributions.StickBreakingTransform(),
    "Tanh": lambda t: t.distributions.TanhTransform(),
    "identity": lambda t: t.distributions.identity_transform,
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str) -> None:
    found = []
    for t in BOTH:
        transform = TRANSFORMS[name](t)
        x = t.tensor([[-1.5, 0.25, 1.0], [0.5, 2.0, -0.125]])
        y = transform(x)
        shapes = (tuple(transform.forward_shape(x.shape)), transform.domain.event_dim, transform.codomain.event_dim)
        found.append((shapes, transform.bijective, y, transform.inv(y), transform.log_abs_det_jacobian(x, y)))
    theirs, ours = found
    assert ours[:2] == theirs[:2]
    for mine, other in zip(ours[2:], theirs[2:]):
        close(mine, other, rtol=1e-4)


@pytest.mark.parametrize("name", ["LowerCholeskyTransform", "PositiveDefiniteTransform"])
def test_transforms_to_matrices(name: str) -> None:
    found = []
    for t in BOTH:
        transform = getattr(t.distributions, name)()
        y = transform(t.tensor([[0.5, 0.0], [1.5, -0.25]]))
        found.append((y, transform.inv(y)))
    for theirs, ours in zip(*found):
        close(ours, theirs)


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize(
    "constraint",
    [
        lambda c: c.real,
        lambda c: c.positive,
        lambda c: c.nonnegative,
        lambda c: c.greater_than(2.0),
        lambda c: c.greater_than_eq(2.0),
        lambda c: c.less_than(2.0),
        lambda c: c.unit_interval,
        lambda c: c.interval(-1.0, 3.0),
        lambda c: c.half_open_interval(-1.0, 3.0),
        lambda c: c.simplex,
        lambda c: c.independent(c.positive, 1),
        lambda c: c.corr_cholesky,
        lambda c: c.cat([c.positive, c.unit_interval], 0, [1, 2]),
        lambda c: c.stack([c.positive, c.unit_interval, c.real], 0),
    ],
)
def test_transforms_to_constraints(registry: str, constraint: Callable[[Any], Any]) -> None:
    theirs, ours = (
        getattr(t.distributions, registry)(constraint(t.distributions.constraints))(t.tensor([-1.0, 0.5, 2.0]))
        for t in BOTH
    )
    close(ours, theirs)


WRONG: list[Callable[[Any, Any], Any]] = [
    lambda t, d: d.Normal(t.tensor([0.0, float("nan")]), 1.0),
    lambda t, d: d.Normal(0.0, -1.0),
    lambda t, d: d.Normal([1.0], 2),
    lambda t, d: d.Normal(0.0, 1.0).log_prob(t.tensor(float("nan"))),
    lambda t, d: d.Normal(0.0, 1.0).log_prob(2),
    lambda t, d: d.Normal(t.zeros(2), 1.0).log_prob(t.zeros(3)),
    lambda t, d: d.Categorical(),
    lambda t, d: d.Categorical(t.tensor(1.0)),
    lambda t, d: d.Categorical(t.tensor([-1.0, 2.0])),
    lambda t, d: d.Categorical(logits=t.zeros(3)).log_prob(t.tensor(5)),
    lambda t, d: d.Uniform(1.0, 0.0),
    lambda t, d: d.Uniform(0.0, 1.0).log_prob(t.tensor(2.0)),
    lambda t, d: d.Bernoulli(t.tensor([2.0])),
    lambda t, d: d.Bernoulli(0.5, 0.5),
    lambda t, d: d.Beta(-1.0, 1.0),
    lambda t, d: d.Dirichlet(t.tensor(1.0)),
    lambda t, d: d.Dirichlet(t.ones(3)).log_prob(t.ones(3)),
    lambda t, d: d.Geometric(t.tensor([0.0, 0.5])),
    lambda t, d: d.Independent(d.Normal(0.0, 1.0), 1),
    lambda t, d: d.MultivariateNormal(t.zeros(2)),
    lambda t, d: d.MultivariateNormal(t.tensor(0.0), t.eye(2)),
    lambda t, d: d.MultivariateNormal(t.zeros(2), t.ones(2)),
    lambda t, d: d.MultivariateNormal(t.zeros(2), -t.eye(2)),
    lambda t, d: d.Multinomial(t.tensor([1, 2]), t.ones(2)),
    lambda t, d: d.MixtureSameFamily(d.Normal(0.0, 1.0), d.Normal(0.0, 1.0)),
    lambda t, d: d.MixtureSameFamily(d.Categorical(t.ones(3)), d.Normal(t.zeros(2), 1.0)),
    lambda t, d: d.TransformedDistribution(d.Normal(0.0, 1.0), 3),
    lambda t, d: d.TransformedDistribution(d.Normal(0.0, 1.0), d.StickBreakingTransform()),
    lambda t, d: d.kl_divergence(d.Normal(0.0, 1.0), d.Poisson(1.0)),
    lambda t, d: d.Poisson(1.0).rsample(),
    lambda t, d: d.ExpTransform(cache_size=2),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_errors(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    for t in BOTH:
        # torch's compiler switches it off for the whole process as soon as something imports it.
        monkeypatch.setattr(t.distributions.Distribution, "_validate_args", True)
        with pytest.raises(Exception) as error:
            WRONG[number](t, t.distributions)
        said.append((error.type, " ".join(str(error.value).split())))
    theirs, ours = said
    assert ours == theirs
