"""torch.distributions: draws, densities and entropies torch 2.13 gives, and the rules that hold for all of them."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import distributions as D

t = torch.tensor

MAKE: dict[str, Callable[[], Any]] = {
    "Categorical": lambda: D.Categorical(t([0.1, 0.2, 0.7])),
    "Normal": lambda: D.Normal(t([0.0, 1.0]), t([1.0, 2.0])),
    "Bernoulli": lambda: D.Bernoulli(t([0.3, 0.8])),
    "Uniform": lambda: D.Uniform(t([0.0, 1.0]), t([1.0, 3.0])),
    "Beta": lambda: D.Beta(t([2.0, 0.5]), t([3.0, 1.5])),
    "Gamma": lambda: D.Gamma(t([2.0, 0.5]), t([3.0, 1.5])),
    "Poisson": lambda: D.Poisson(t([0.5, 4.0])),
    "Laplace": lambda: D.Laplace(t([0.0, 1.0]), t([1.0, 2.0])),
    "Exponential": lambda: D.Exponential(t([0.5, 2.0])),
    "StudentT": lambda: D.StudentT(t([3.0, 5.0])),
    "Gumbel": lambda: D.Gumbel(t([0.0, 1.0]), t([1.0, 2.0])),
    "LogNormal": lambda: D.LogNormal(t([0.0, 1.0]), t([1.0, 0.5])),
    "Dirichlet": lambda: D.Dirichlet(t([0.5, 2.0, 3.0])),
    "MultivariateNormal": lambda: D.MultivariateNormal(t([1.0, -1.0]), t([[2.0, 0.5], [0.5, 1.0]])),
    "Weibull": lambda: D.Weibull(t([1.0, 2.0]), t([0.8, 3.0])),
    "Geometric": lambda: D.Geometric(t([0.2, 0.7])),
    "Cauchy": lambda: D.Cauchy(t([0.0, 1.0]), t([1.0, 2.0])),
    "Binomial": lambda: D.Binomial(5, t([0.2, 0.7])),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(t([0.2, 0.5])),
    "GeneralizedPareto": lambda: D.GeneralizedPareto(t([0.0, 0.1]), t([1.0, 2.0]), t([0.4, -0.5])),
    "LKJCholesky": lambda: D.LKJCholesky(3, t(0.5)),
    "VonMises": lambda: D.VonMises(t([0.0, 1.0]), t([0.3, 8.0])),
    "Wishart": lambda: D.Wishart(t(4.0), t([[2.0, 0.5], [0.5, 1.0]])),
}

# Of torch 2.13 under seed 0: a draw, its log-probability, the entropy.
TORCH: dict[str, tuple[list[float], list[float], list[float] | None]] = {
    "Categorical": ([2], [-0.35667], [0.80182]),
    "Normal": ([1.541, 0.41314], [-2.10627, -1.65514], [1.41894, 2.11209]),
    "Bernoulli": ([0.0, 1.0], [-0.35667, -0.22314], [0.61086, 0.5004]),
    "Uniform": ([0.49626, 2.53644], [0.0, -0.69315], [0.0, 0.69315]),
    "Beta": ([0.67264, 0.21335], [-0.14505, 0.20084], [-0.23491, -0.54842]),
    "Gamma": ([1.51754, 0.00367], [-1.93831, 2.42801], [0.4786, -0.31486]),
    "Poisson": ([2.0, 5.0], [-2.57944, -1.85602], None),
    "Laplace": ([-0.00751, 2.53765], [-0.70066, -2.15512], [1.69315, 2.38629]),
    "Exponential": ([7.01665, 0.61519], [-4.20147, -0.53724], [1.69315, 0.30685]),
    "StudentT": ([9.31829, -0.26284], [-7.79951, -1.00979], [1.77348, 1.6275]),
    "Gumbel": ([0.35573, 3.66606], [-1.05639, -2.28985], [1.57722, 2.27036]),
    "LogNormal": ([4.66924, 2.34735], [-3.64727, -1.12213], [1.41894, 1.72579]),
    "Dirichlet": ([0.00022, 0.17692, 0.82286], [4.77868], [-1.91468]),
    "MultivariateNormal": ([3.1793, -0.72965], [-3.34807], [3.11768]),
    "Weibull": ([4.80148, 2.14311], [-4.04525, -0.6867], [1.07884, 0.97935]),
    "Geometric": ([3.0, 0.0], [-2.27887, -0.35667], [2.50201, 0.87266]),
    "Cauchy": ([10.59773, 2.52953], [-5.87487, -2.29838], [2.53102, 3.22417]),
    "Binomial": ([2.0, 2.0], [-1.58572, -2.02268], [1.24302, 1.41361]),
    "ContinuousBernoulli": ([0.3358, 0.76822], [0.14879, 0.0], [-0.07641, 0.0]),
    "GeneralizedPareto": ([0.78894, 2.17427], [-0.95996, -1.42413], [1.4, 1.19315]),
    "LKJCholesky": ([1.0, 0.0, 0.0, 0.20728, 0.97828, 0.0, -0.3881, -0.78273, 0.48654], [-1.81058], None),
    "VonMises": ([-0.42704, 0.78345], [-1.58719, -0.08282], None),
    "Wishart": ([1.7385, 1.74467, 1.74467, 2.64125], [-5.63246], [7.14081]),
}


def flat(tensor: Any) -> list[float]:
    return tensor.detach().flatten().tolist()


@pytest.mark.parametrize("name", MAKE)
def test_draw_and_log_prob_are_torchs(name: str) -> None:
    torch.manual_seed(0)
    distribution = MAKE[name]()
    drawn = distribution.sample()
    assert flat(drawn) == pytest.approx(TORCH[name][0], rel=1e-4, abs=1e-5)
    assert flat(distribution.log_prob(drawn)) == pytest.approx(TORCH[name][1], rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", [name for name in MAKE if TORCH[name][2] is not None])
def test_entropy_is_torchs(name: str) -> None:
    assert flat(MAKE[name]().entropy()) == pytest.approx(TORCH[name][2], abs=2e-5)


@pytest.mark.parametrize("name", MAKE)
def test_sample_shape_leads_batch_and_event(name: str) -> None:
    distribution = MAKE[name]()
    wanted = (4, 3, *distribution.batch_shape, *distribution.event_shape)
    drawn = distribution.sample((4, 3))
    assert tuple(drawn.shape) == wanted
    assert tuple(distribution.log_prob(drawn).shape) == (4, 3, *distribution.batch_shape)
    assert bool(distribution.support.check(drawn).all())


@pytest.mark.parametrize("name", MAKE)
def test_expand_keeps_the_distribution(name: str) -> None:
    distribution = MAKE[name]()
    wide = distribution.expand((3, *distribution.batch_shape))
    assert type(wide) is type(distribution)
    torch.manual_seed(0)
    value = distribution.sample()
    # NumPy's logarithm of repeated numbers may differ in the last place from that of numbers in a line.
    torch.testing.assert_close(wide.log_prob(value)[1], distribution.log_prob(value))


@pytest.mark.parametrize(
    "name",
    [
        "Normal",
        "Uniform",
        "Laplace",
        "Exponential",
        "Gumbel",
        "LogNormal",
        "Weibull",
        "Cauchy",
        "GeneralizedPareto",
        "ContinuousBernoulli",
    ],
)
def test_icdf_undoes_cdf(name: str) -> None:
    distribution = MAKE[name]()
    chances = t([0.25, 0.75])
    assert flat(distribution.cdf(distribution.icdf(chances))) == pytest.approx([0.25, 0.75], abs=1e-5)


def test_draws_carry_gradients_to_the_parameters() -> None:
    loc, scale = t(1.0, requires_grad=True), t(2.0, requires_grad=True)
    torch.manual_seed(0)
    drawn = D.Normal(loc, scale).rsample()
    drawn.backward()
    assert loc.grad.item() == 1.0
    assert scale.grad.item() == pytest.approx((drawn.item() - 1.0) / 2.0)


def test_sample_carries_none() -> None:
    assert not D.Normal(t(1.0, requires_grad=True), 1.0).sample().requires_grad


@pytest.mark.parametrize(
    ("alpha", "sample", "slope"),  # d sample / d alpha at fixed quantile, by differences of the inverse function
    [
        (0.1, 1e-3, 0.0649072),
        (0.5, 2.0, 2.5118894),
        (10.0, 25.0, 1.552244),
        (1000.0, 950.0, 0.974735),
        (2e4, 20300.0, 1.0074712),
    ],
)
def test_gamma_samples_move_with_their_shape(alpha: float, sample: float, slope: float) -> None:
    found = torch._standard_gamma_grad(t([alpha], dtype=torch.float64), t([sample], dtype=torch.float64))
    assert found.item() == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize(
    ("x", "a", "b", "slope"),
    [
        (0.3, 2.0, 3.0, 0.19929845),
        (0.95, 10.0, 0.1, 0.1019166),
        (0.02, 0.1, 5.0, 0.44500831),
        (0.6, 0.1, 5.0, 2.11057046),
    ],
)
def test_dirichlet_samples_move_with_their_concentration(x: float, a: float, b: float, slope: float) -> None:
    found = torch._dirichlet_grad(*(t([v], dtype=torch.float64) for v in (x, a, a + b)))
    assert found.item() == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize(("name", "draw"), [("gamma", torch._standard_gamma), ("dirichlet", torch._sample_dirichlet)])
def test_the_gradient_of_a_draw_has_none_of_its_own(name: str, draw: Any) -> None:
    alpha = torch.tensor([1.0, 2.0], requires_grad=True)
    (slope,) = torch.autograd.grad(draw(alpha)[0], alpha, create_graph=True)
    with pytest.raises(NotImplementedError, match=f"derivative for aten::_.*{name}_grad is not implemented"):
        slope.sum().backward()


def test_straight_through_has_the_probabilities_gradient() -> None:
    logits = t([0.0, 1.0, 2.0], requires_grad=True)
    distribution = D.OneHotCategoricalStraightThrough(logits=logits)
    drawn = distribution.rsample()
    assert sorted(drawn.detach().round().tolist()) == [0.0, 0.0, 1.0]
    (expected,) = torch.autograd.grad(distribution.probs[0], logits, retain_graph=True)
    (found,) = torch.autograd.grad(drawn[0], logits)
    assert flat(found) == pytest.approx(flat(expected))


@pytest.mark.parametrize(
    ("p", "q", "value"),
    [
        (lambda: D.Normal(0.0, 1.0), lambda: D.Normal(1.0, 2.0), 0.44315),
        (lambda: D.Gamma(2.0, 1.0), lambda: D.Gamma(3.0, 2.0), 0.19092),
        (lambda: D.Beta(2.0, 1.0), lambda: D.Beta(3.0, 2.0), 0.20824),
        (lambda: D.Normal(0.0, 1.0), lambda: D.Uniform(0.0, 1.0), math.inf),
        (lambda: D.ContinuousBernoulli(0.3), lambda: D.ContinuousBernoulli(0.6), 0.06451),
        (lambda: D.ContinuousBernoulli(0.3), lambda: D.Normal(0.0, 1.0), 1.08108),
        (lambda: D.ContinuousBernoulli(0.3), lambda: D.Exponential(2.0), 0.19668),
        (lambda: D.Uniform(0.2, 0.5), lambda: D.ContinuousBernoulli(0.3), 1.10661),
        (lambda: D.Uniform(-0.2, 0.5), lambda: D.ContinuousBernoulli(0.3), math.inf),
        (lambda: D.Normal(0.0, 1.0), lambda: D.ContinuousBernoulli(0.3), math.inf),
        (lambda: D.Wishart(t(4.0), torch.eye(2)), lambda: D.Wishart(t(5.0), torch.eye(2) * 2), 1.64156),
    ],
)
def test_divergences(p: Any, q: Any, value: float) -> None:
    assert D.kl_divergence(p(), q()).item() == pytest.approx(value, abs=1e-5)


def test_a_divergence_can_be_registered() -> None:
    class Mine(D.Normal):
        pass

    @D.register_kl(Mine, D.Poisson)
    def mine(p: Any, q: Any) -> str:
        return "mine"

    assert D.kl_divergence(Mine(0.0, 1.0), D.Poisson(1.0)) == "mine"
    assert D.kl_divergence(Mine(0.0, 1.0), D.Normal(0.0, 1.0)).item() == 0.0


def test_registering_for_no_distribution_is_refused() -> None:
    with pytest.raises(TypeError, match="Expected type_p to be a Distribution subclass"):
        D.register_kl(int, D.Normal)


def test_mode_of_kumaraswamy() -> None:
    assert D.Kumaraswamy(2.0, 3.0).mode.item() == pytest.approx(math.sqrt(1 / 5))


def test_invalid_parameters_name_the_constraint() -> None:
    with pytest.raises(
        ValueError, match=r"parameter scale .* to satisfy the constraint GreaterThan\(lower_bound=0.0\)"
    ):
        D.Normal(0.0, t([1.0, -1.0]))


def test_values_outside_the_support_are_refused_unless_told_not_to_look() -> None:
    with pytest.raises(ValueError, match="within the support"):
        D.Uniform(0.0, 1.0).log_prob(t(2.0))
    assert D.Uniform(0.0, 1.0, validate_args=False).log_prob(t(2.0)).item() == -math.inf


def test_validation_can_be_turned_off_for_all() -> None:
    try:
        D.Distribution.set_default_validate_args(False)
        assert D.Normal(0.0, -1.0).scale.item() == -1.0
    finally:
        D.Distribution.set_default_validate_args(True)


def test_a_subclass_with_its_own_init_must_say_how_to_expand() -> None:
    class Mine(D.Normal):
        def __init__(self) -> None:
            super().__init__(0.0, 1.0)

    with pytest.raises(NotImplementedError, match=r"Subclass Mine of Normal .* must also define a custom .expand\(\)"):
        Mine().expand((2,))


def test_probs_and_logits_follow_from_each_other() -> None:
    assert flat(D.Categorical(logits=t([0.0, math.log(3.0)])).probs) == pytest.approx([0.25, 0.75])
    assert flat(D.Bernoulli(t([0.5, 0.75])).logits) == pytest.approx([0.0, math.log(3.0)], abs=1e-6)


def test_independent_moves_batch_to_event() -> None:
    distribution = D.Independent(D.Normal(torch.zeros(2, 3), 1.0), 1)
    assert (tuple(distribution.batch_shape), tuple(distribution.event_shape)) == ((2,), (3,))
    assert tuple(distribution.log_prob(torch.zeros(2, 3)).shape) == (2,)


def test_cached_transform_gives_back_the_very_input() -> None:
    x = t([0.1, 0.2])
    cached = D.ExpTransform(cache_size=1)
    assert cached.inv(cached(x)) is x
    plain = D.ExpTransform()
    assert plain.inv(plain(x)) is not x


def test_transforms_compare_by_what_they_do() -> None:
    assert D.AffineTransform(0.0, 2.0) == D.AffineTransform(0.0, 2.0)
    assert D.AffineTransform(0.0, 2.0) != D.AffineTransform(0.0, 3.0)
    assert D.ExpTransform().inv != D.ExpTransform()


def test_constraints_check_events() -> None:
    c = D.constraints
    assert c.simplex.check(t([[0.5, 0.5], [0.5, 0.6]])).tolist() == [True, False]
    assert c.lower_cholesky.check(t([[1.0, 0.0], [2.0, 1.0]])).item() is True
    assert c.positive_definite.check(t([[1.0, 2.0], [2.0, 1.0]])).item() is False
    assert c.nonnegative_integer.check(t([0.0, 1.5, -1.0])).tolist() == [True, False, False]
    assert c.cat([c.positive, c.real], 0, [1, 2]).check(t([-1.0, -1.0, 0.0])).tolist() == [False, True, True]


def test_dependent_constraint_cannot_be_checked() -> None:
    assert D.constraints.is_dependent(D.Uniform.support)
    with pytest.raises(ValueError, match="Cannot determine validity of dependent constraint"):
        D.Uniform.support.check(t(0.0))


def test_triangles_become_vectors_and_back() -> None:
    vector = t([1.0, 2.0, 3.0])
    matrix = D.utils.vec_to_tril_matrix(vector)
    assert matrix.tolist() == [[1.0, 0.0], [2.0, 3.0]]
    assert D.utils.tril_matrix_to_vec(matrix).tolist() == vector.tolist()


@pytest.mark.parametrize("name", ["Normal", "Categorical", "Weibull", "LogNormal"])
def test_distributions_are_copied_and_pickled(name: str) -> None:
    distribution = MAKE[name]()
    value = distribution.sample()
    for other in (copy.deepcopy(distribution), pickle.loads(pickle.dumps(distribution))):
        assert torch.equal(other.log_prob(value), distribution.log_prob(value))


@pytest.mark.parametrize("cls", [D.Bernoulli, D.Geometric, D.Categorical])
@pytest.mark.parametrize("given", ["probs", "logits"])
def test_an_expanded_distribution_keeps_the_parameter_it_was_given(cls: Any, given: str) -> None:
    distribution = cls(**{given: t([0.25, 0.5])})
    other = getattr(distribution, "logits" if given == "probs" else "probs")  # computed, and kept from now on
    expanded = distribution.expand((3, *distribution.batch_shape))
    assert expanded._param is getattr(expanded, given)
    assert torch.equal(getattr(expanded, "logits" if given == "probs" else "probs")[0], other)


@pytest.mark.parametrize("cls", [D.HalfNormal, D.HalfCauchy])
def test_halves_have_no_density_below_zero(cls: Any) -> None:
    half = cls(t(2.0), validate_args=False)
    whole = half.base_dist.log_prob(t(1.0)).item()
    assert half.log_prob(t([-1.0, 1.0])).tolist() == pytest.approx([-math.inf, whole + math.log(2)])
