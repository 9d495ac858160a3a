"""Special functions beside torch.special over wide ranges, and beside SciPy where it is installed.

Where torch itself is off by more than rounding (J and Y beyond 2.5, Airy's wave, the left tail of ndtr, the incomplete
gamma functions around x = a) its error sets the tolerance here; SciPy, where there, is held to the tighter one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from mindtorch_v2.kernels import special

Array = np.ndarray[Any, Any]
COUNT = 4000
EDGES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, -3.0, 40.0, -40.0, 800.0, -800.0, -2.5]


def uniform(low: float, high: float) -> Callable[[np.random.Generator], Array]:
    return lambda generator: generator.uniform(low, high, COUNT)


def powers(low: float, high: float) -> Callable[[np.random.Generator], Array]:
    return lambda generator: 10.0 ** generator.uniform(low, high, COUNT)


class Case(NamedTuple):
    name: str
    points: Callable[[np.random.Generator], Array]
    rtol: float = 1e-13
    atol: float = 0.0
    rtol_single: float = 2e-6
    atol_single: float = 1e-37


CASES = [
    Case("erf", uniform(-7, 7)),
    Case("erf", powers(-300, 0)),
    Case("erfc", uniform(-7, 26)),
    Case("erfcx", uniform(-20, 50), rtol_single=2e-5),
    Case("erfcx", powers(0, 30)),
    Case("erfinv", uniform(-1, 1), rtol=1e-12),
    Case("ndtr", uniform(-37, 10), atol=1e-16, atol_single=1e-7),
    Case("ndtri", uniform(0, 1), atol=1e-14, atol_single=1e-6),
    Case("ndtri", powers(-300, -1)),
    Case("log_ndtr", uniform(-100, 10), rtol_single=1e-5),
    Case("lgamma", uniform(0, 200), atol=1e-14, atol_single=1e-6),
    Case("lgamma", powers(-300, 300)),
    Case("lgamma", uniform(-100, 0), rtol=1e-12, atol=1e-12, rtol_single=1e-5, atol_single=2e-5),
    Case("digamma", uniform(0, 200), atol=1e-14, atol_single=1e-5),
    Case("digamma", powers(-20, 15), atol=1e-14, atol_single=1e-5),
    Case("i0", uniform(-80, 80)),
    Case("i0e", uniform(-1000, 1000)),
    Case("i1", uniform(-80, 80)),
    Case("i1e", uniform(-1000, 1000)),
    Case("modified_bessel_i0", uniform(-80, 80)),
    Case("modified_bessel_i1", uniform(-80, 80)),
    Case("bessel_j0", uniform(-50, 50), rtol=0, atol=1e-6, rtol_single=0, atol_single=1e-5),
    Case("bessel_j1", uniform(-50, 50), rtol=0, atol=1e-6, rtol_single=0, atol_single=1e-5),
    Case("bessel_y0", uniform(0, 50), rtol=0, atol=1e-6, rtol_single=1e-5, atol_single=1e-5),
    Case("bessel_y1", uniform(0, 50), atol=2e-6, rtol_single=1e-5, atol_single=1e-5),
    Case("modified_bessel_k0", uniform(0, 80), rtol_single=1e-5),
    Case("modified_bessel_k1", uniform(0, 80), rtol_single=1e-5),
    Case("scaled_modified_bessel_k0", powers(-10, 5)),
    Case("scaled_modified_bessel_k1", powers(-10, 5)),
    Case("spherical_bessel_j0", uniform(-50, 50), rtol=0, atol=1e-14, rtol_single=0, atol_single=1e-6),
    Case("airy_ai", uniform(-2, 8), rtol=1e-12, rtol_single=2e-5),
    Case("airy_ai", uniform(-10, -2), rtol=0, atol=5e-6, rtol_single=0, atol_single=1e-5),
    Case("expit", uniform(-80, 80)),
    Case("logit", uniform(0, 1), atol=1e-15, atol_single=2e-7),
    Case("entr", uniform(0, 10), atol=1e-14, atol_single=1e-6),
    Case("sinc", uniform(-20, 20), rtol=0, atol=1e-15, rtol_single=0, atol_single=2e-7),
]


def names_of(cases: list[Case]) -> list[str]:
    return [f"{case.name}-{i}" for i, case in enumerate(cases)]


@pytest.mark.parametrize("case", CASES, ids=names_of(CASES))
def test_double_precision(case: Case) -> None:
    x = case.points(np.random.default_rng(0))
    expected = reference(case.name)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(getattr(special, case.name)(x), expected, rtol=case.rtol, atol=case.atol)


@pytest.mark.parametrize("case", CASES, ids=names_of(CASES))
def test_single_precision(case: Case) -> None:
    with np.errstate(over="ignore", under="ignore"):
        x = case.points(np.random.default_rng(1)).astype(np.float32)
    x = x[np.isfinite(x) & ((np.abs(x) > 1e-30) & (np.abs(x) < 1e30))]
    expected = reference(case.name)(torch.from_numpy(x)).numpy()
    actual = getattr(special, case.name)(x)
    assert actual.dtype == np.float32
    # Above the largest float divided by e torch's factors overflow before the result does.
    representable = np.isfinite(expected)
    np.testing.assert_allclose(
        actual[representable], expected[representable], rtol=case.rtol_single, atol=case.atol_single
    )


def reference(name: str) -> Callable[..., torch.Tensor]:
    return getattr(torch.special, {"lgamma": "gammaln"}.get(name, name))  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", sorted({case.name for case in CASES}))
def test_edges(name: str) -> None:
    x = np.array(EDGES)
    actual, expected = getattr(special, name)(x), reference(name)(torch.from_numpy(x)).numpy()
    rtol = {"airy_ai": 1e-5, "bessel_j0": 1e-10, "bessel_j1": 1e-10}.get(name, 1e-12)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-15)
    zeros = (expected == 0) & (actual == 0)
    assert np.array_equal(np.signbit(actual[zeros]), np.signbit(expected[zeros]))


# ------------------------------------------------------------------------------------------------------- two arguments


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_incomplete_gamma(name: str) -> None:
    generator = np.random.default_rng(2)
    a = 10.0 ** generator.uniform(-2, 4, COUNT)
    x = a * 10.0 ** generator.uniform(-1, 1, COUNT)
    expected = getattr(torch.special, name)(torch.from_numpy(a), torch.from_numpy(x)).numpy()
    actual = getattr(special, name)(a, x)
    normal = expected > 1e-250
    np.testing.assert_allclose(actual[normal], expected[normal], rtol=5e-9)
    assert np.all(actual[~normal] < 1e-249)


def test_incomplete_gamma_around_its_bend() -> None:
    generator = np.random.default_rng(3)
    a = 10.0 ** generator.uniform(1, 8, COUNT)
    x = np.abs(a + np.sqrt(a) * generator.normal(0, 3, COUNT))
    expected = torch.special.gammainc(torch.from_numpy(a), torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(special.gammainc(a, x), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "xlogy", "xlog1py"])
def test_edges_of_two_arguments(name: str) -> None:
    points = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 1e300]
    a, b = (part.ravel() for part in np.meshgrid(points, points))
    expected = getattr(torch.special, name)(torch.from_numpy(a), torch.from_numpy(b)).numpy()
    np.testing.assert_allclose(getattr(special, name)(a, b), expected, rtol=1e-13)


def test_zeta() -> None:
    generator = np.random.default_rng(4)
    s, q = generator.uniform(1.01, 30, COUNT), generator.uniform(0.01, 30, COUNT)
    expected = torch.special.zeta(torch.from_numpy(s), torch.from_numpy(q)).numpy()
    np.testing.assert_allclose(special.zeta(s, q), expected, rtol=1e-13)


def test_zeta_left_of_zero() -> None:
    q = np.random.default_rng(5).uniform(-20, 0, COUNT)
    for s in (2.0, 3.0, 4.0, 7.0):
        expected = torch.special.zeta(torch.full((COUNT,), s, dtype=torch.float64), torch.from_numpy(q)).numpy()
        np.testing.assert_allclose(special.zeta(s, q), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 10])
def test_polygamma(n: int) -> None:
    generator = np.random.default_rng(6)
    x = np.concatenate([10.0 ** generator.uniform(-3, 3, COUNT), generator.uniform(-4.9, 0, 200)])
    expected = torch.special.polygamma(n, torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(special.polygamma(n, x), expected, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("p", [1, 2, 5])
def test_multigammaln(p: int) -> None:
    x = np.random.default_rng(7).uniform(p, 50, COUNT)
    expected = torch.special.multigammaln(torch.from_numpy(x), p).numpy()
    np.testing.assert_allclose(special.multigammaln(x, p), expected, rtol=1e-13, atol=1e-13)


def test_logaddexp_and_softplus() -> None:
    generator = np.random.default_rng(8)
    for dtype, rtol in ((np.float64, 1e-14), (np.float32, 1e-6)):
        a, b = generator.uniform(-80, 80, (2, COUNT)).astype(dtype)
        tensors = torch.from_numpy(a), torch.from_numpy(b)
        np.testing.assert_allclose(special.logaddexp(a, b), torch.logaddexp(*tensors).numpy(), rtol=rtol)
        zero = torch.zeros_like(tensors[0])
        np.testing.assert_allclose(special.log1pexp(a), torch.logaddexp(tensors[0], zero).numpy(), rtol=rtol)


@pytest.mark.parametrize("eps", [None, 0.1, 1e-6, 0.7, -1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logit_with_eps(eps: float | None, dtype: Any) -> None:
    x = np.array([np.nan, 0.0, 1.0, -1.0, 2.0, 0.5, 0.05, np.inf, 0.2, 0.8], dtype)
    expected = torch.special.logit(torch.from_numpy(x), eps=eps).numpy()
    np.testing.assert_allclose(special.logit(x, eps), expected, rtol=1e-6 if dtype is np.float32 else 1e-14)


POLYNOMIALS = [name for name in special.__all__ if "polynomial" in name]


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str) -> None:
    generator = np.random.default_rng(9)
    x, n = generator.uniform(-1.5, 1.5, COUNT), generator.uniform(-2, 60, COUNT)
    expected = getattr(torch.special, name)(torch.from_numpy(x), torch.from_numpy(n)).numpy()
    scale = np.maximum(1.0, np.abs(expected))
    np.testing.assert_allclose(getattr(special, name)(x, n) / scale, expected / scale, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", POLYNOMIALS)
@pytest.mark.parametrize("n", [-1.0, 0.0, 1.0, 2.7, 7.0, 10.0, 30.0, np.nan, np.inf])
def test_edges_of_polynomials(name: str, n: float) -> None:
    x = np.array([np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0])  # for nan torch leaves what was in memory
    expected = getattr(torch.special, name)(torch.from_numpy(x), torch.full((len(x),), n, dtype=torch.float64)).numpy()
    np.testing.assert_allclose(getattr(special, name)(x, n), expected, rtol=1e-13, atol=1e-14)


# --------------------------------------------------------------------------------------------------- the second oracle

SCIPY = {
    "lgamma": "gammaln",
    "digamma": "psi",
    "bessel_j0": "j0",
    "bessel_j1": "j1",
    "bessel_y0": "y0",
    "bessel_y1": "y1",
    "modified_bessel_k0": "k0",
    "modified_bessel_k1": "k1",
    "scaled_modified_bessel_k0": "k0e",
    "scaled_modified_bessel_k1": "k1e",
}


@pytest.mark.parametrize("case", CASES, ids=names_of(CASES))
def test_scipy_agrees(case: Case) -> None:
    scipy_special = pytest.importorskip("scipy.special")
    function = getattr(scipy_special, SCIPY.get(case.name, case.name), None)
    if case.name == "airy_ai":
        function = lambda x: scipy_special.airy(x)[0]  # noqa: E731
    if function is None or case.name == "sinc":
        pytest.skip("SciPy does not have it, or counts in other units")
    x = case.points(np.random.default_rng(10))
    np.testing.assert_allclose(getattr(special, case.name)(x), function(x), rtol=5e-13, atol=2e-14)


def test_scipy_agrees_on_incomplete_gamma() -> None:
    scipy_special = pytest.importorskip("scipy.special")
    generator = np.random.default_rng(11)
    a = 10.0 ** generator.uniform(-2, 5, COUNT)  # SciPy loses digits beyond
    x = np.abs(a + np.sqrt(a) * generator.normal(0, 3, COUNT))
    np.testing.assert_allclose(special.gammainc(a, x), scipy_special.gammainc(a, x), rtol=2e-12)
    np.testing.assert_allclose(special.gammaincc(a, x), scipy_special.gammaincc(a, x), rtol=2e-12)
