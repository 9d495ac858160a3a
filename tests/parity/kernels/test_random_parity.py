"""The random number core against torch: values, and the generator's state after each call."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from mindtorch_v2.kernels import random as R
from mindtorch_v2.kernels.compiled import C

F32 = np.dtype(np.float32)
SIZES = [0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 100, 1000, 1023, 1024, 1025, 1_000_003]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
COMPLEX = ["complex64", "complex128"]


@pytest.fixture(autouse=True)
def states_are_arrays() -> Iterator[None]:
    """The core as it is by itself, whatever the tensor layer has it exchange."""
    previous = R.exchange_states_as(lambda state: state, lambda state: state)
    yield
    R.exchange_states_as(*previous)


def np_type(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def torch_type(name: str) -> torch.dtype:
    return getattr(torch, name)


def array(tensor: torch.Tensor) -> np.ndarray:
    """A tensor as an array that can be compared; bfloat16 by its bits."""
    if tensor.dtype is torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def tensor(values: np.ndarray) -> torch.Tensor:
    if values.dtype == np_type("bfloat16"):
        return torch.from_numpy(values.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(values)


class Twins:
    """A generator of each kind, in the same state; `agree` draws from both and compares."""

    def __init__(self, seed: int = 1234) -> None:
        self.theirs = torch.Generator().manual_seed(seed)
        self.ours = R.Generator().manual_seed(seed)

    def agree(self, theirs: Callable[[Any], Any], ours: Callable[[Any], Any], rtol: float = 0, atol: float = 0) -> None:
        expected, found = array(theirs(self.theirs)), ours(self.ours)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        if rtol or atol:
            wide = np.complex128 if expected.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(found.astype(wide), expected.astype(wide), rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(found, expected)
        self.same_state()

    def same_state(self) -> None:
        np.testing.assert_array_equal(self.ours.get_state(), self.theirs.get_state().numpy())


@pytest.fixture
def twins() -> Twins:
    return Twins()


def empty(n: Any, name: str) -> torch.Tensor:
    return torch.empty(n, dtype=torch_type(name))


def close(name: str) -> dict[str, float]:
    """How near normals are: the narrow types may fall to the other side of a rounding."""
    return {
        "float16": {"rtol": 1e-3, "atol": 1e-5},
        "bfloat16": {"rtol": 8e-3, "atol": 1e-5},
        "float32": {"rtol": 1e-6, "atol": 1e-6},
        "float64": {"rtol": 1e-12, "atol": 1e-13},
    }[name.replace("complex64", "float32").replace("complex128", "float64")]


# --- generator --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 42, 67280421310721, 2**32, 2**32 + 7, 2**63, 2**64 - 1, -1, -5, -(2**63)])
def test_seeding(seed: int) -> None:
    twins = Twins(seed)
    twins.same_state()
    assert twins.ours.initial_seed() == twins.theirs.initial_seed()
    twins.agree(lambda g: empty(5, "int64").random_(generator=g), lambda g: R.random(5, np.int64, generator=g))


def test_a_new_generator_starts_alike() -> None:
    np.testing.assert_array_equal(R.Generator().get_state(), torch.Generator().get_state().numpy())


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1, 1.5, "1", None, True])
def test_bad_seeds(seed: Any) -> None:
    with pytest.raises((ValueError, RuntimeError)) as theirs:
        torch.Generator().manual_seed(seed)
    with pytest.raises(theirs.type, match=f"^{theirs.value}$"):
        R.Generator().manual_seed(seed)


@pytest.mark.parametrize("words", [0, 1, 5, 623, 624, 625, 1248, 3000])
def test_states_go_both_ways(words: int) -> None:
    theirs, ours = torch.Generator().manual_seed(9), R.Generator().manual_seed(8)
    torch.rand(words, generator=theirs)
    torch.randn(1, generator=theirs)
    ours.set_state(theirs.get_state().numpy())
    other = torch.Generator()
    other.set_state(torch.from_numpy(ours.get_state()))
    assert torch.equal(other.get_state(), theirs.get_state())
    np.testing.assert_array_equal(R.normal(40, "f8", generator=ours), R.normal(40, "f8", generator=twin(other)))
    np.testing.assert_array_equal(
        R.uniform(700, "f4", generator=ours), R.uniform(700, "f4", generator=ours.clone_state().set_state(after(other)))
    )


def twin(theirs: torch.Generator) -> R.Generator:
    return R.Generator().set_state(theirs.get_state().numpy())


def after(theirs: torch.Generator) -> np.ndarray:
    """The state of `theirs` once it has drawn what the test drew from ours."""
    torch.randn(40, dtype=torch.float64, generator=theirs)
    return theirs.get_state().numpy()


@pytest.mark.parametrize("state", [np.zeros(5056, np.uint8), np.zeros(10, np.uint8)], ids=["zeros", "short"])
def test_bad_states(state: np.ndarray) -> None:
    with pytest.raises(RuntimeError) as theirs:
        torch.Generator().set_state(torch.from_numpy(state))
    with pytest.raises(RuntimeError, match=str(theirs.value)):
        R.Generator().set_state(state)


# --- uniform and normal -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FLOATS + COMPLEX)
@pytest.mark.parametrize("n", SIZES)
def test_uniform(twins: Twins, n: int, name: str) -> None:
    twins.agree(lambda g: empty(n, name).uniform_(generator=g), lambda g: R.uniform(n, np_type(name), generator=g))


BOUNDS = [
    (0, 3),
    (-1, 1),
    (0.3, 1.7),
    (-0.1, 0.1),
    (-3.3, 12.9),
    (1e-3, 1e3),
    (5, 5),
    (0, 0),
    (-7, 0),
    (100, 103),
    (-0.05, 0),
]


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_uniform_bounds(twins: Twins, name: str, low: float, high: float) -> None:
    twins.agree(
        lambda g: empty(20000, name).uniform_(low, high, generator=g),
        lambda g: R.uniform(20000, np_type(name), low, high, g),
    )


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(20))
def test_uniform_random_bounds(seed: int, name: str) -> None:
    low, width = np.random.default_rng(seed).standard_normal(2) * 10.0 ** (seed - 10)
    Twins(seed).agree(
        lambda g: empty(5000, name).uniform_(low, low + abs(width), generator=g),
        lambda g: R.uniform(5000, np_type(name), low, low + abs(width), g),
    )


@pytest.mark.parametrize(("low", "high"), [(-1e308, 0.7e308), (-1e300, 1e307)])
def test_uniform_extreme_bounds(twins: Twins, low: float, high: float) -> None:
    twins.agree(
        lambda g: empty(1000, "float64").uniform_(low, high, generator=g), lambda g: R.uniform(1000, "f8", low, high, g)
    )


@pytest.mark.parametrize("name", FLOATS + COMPLEX)
@pytest.mark.parametrize("n", SIZES)
def test_normal(twins: Twins, n: int, name: str) -> None:
    ours = lambda g: R.normal(n, np_type(name), generator=g)  # noqa: E731
    twins.agree(lambda g: empty(n, name).normal_(generator=g), ours, **close(name))


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("n", [3, 15, 16, 100])
@pytest.mark.parametrize(("mean", "std"), [(0, 0), (2, 0.5), (-3, 10), (1e-3, 7)])
def test_normal_mean_std(twins: Twins, n: int, name: str, mean: float, std: float) -> None:
    twins.agree(
        lambda g: empty(n, name).normal_(mean, std, generator=g),
        lambda g: R.normal(n, np_type(name), mean, std, g),
        **close(name) | {"atol": 1e-5},
    )


def test_single_precision_normals_are_nearer_than_1e_6(twins: Twins) -> None:
    theirs = torch.randn(1_000_000, generator=twins.theirs).numpy()
    assert np.abs(R.normal(1_000_000, "f4", generator=twins.ours) - theirs).max() < 1e-6


@pytest.mark.skipif(C is None, reason="the compiled kernels are not built")
@pytest.mark.skipif("AVX" not in torch.backends.cpu.get_cpu_capability(), reason="torch computes otherwise there")
@pytest.mark.parametrize("n", [16, 100, 100_000])
@pytest.mark.parametrize(("mean", "std"), [(0, 1), (2, 0.5), (-3, 10), (1e-3, 0.02)])
def test_compiled_normals_are_those_of_torch_to_the_last_bit(twins: Twins, n: int, mean: float, std: float) -> None:
    twins.agree(
        lambda g: empty(n, "float32").normal_(mean, std, generator=g), lambda g: R.normal((n,), F32, mean, std, g)
    )


def test_the_second_of_a_pair_waits_in_the_generator(twins: Twins) -> None:
    for n in [1, 1, 3, 2, 5, 16, 1, 7, 20, 1]:
        for name in ("float64", "float32"):
            theirs = lambda g: empty(n, name).normal_(generator=g)  # noqa: B023, E731
            twins.agree(theirs, lambda g: R.normal(n, np_type(name), generator=g), **close(name))  # noqa: B023


MEANS = {
    "array, number": (np.linspace(-3, 3, 40, dtype="f4").reshape(4, 10), 1.5),
    "number, array": (1.25, np.linspace(0, 3, 40, dtype="f4").reshape(4, 10)),
    "arrays": (np.linspace(-3, 3, 40, dtype="f4").reshape(4, 10), np.linspace(0, 3, 10, dtype="f4")),
    "few": (np.zeros((2, 1), "f8"), np.array([0.5, 2.0])),
    "mixed types": (np.zeros(40, "f2"), np.linspace(0, 3, 40, dtype="f4")),
    "integers": (np.zeros(40, "f4"), np.arange(40)),
    "double": (np.arange(40.0), np.arange(40.0)),
    "none": (np.zeros((0, 3), "f4"), 1.0),
}


@pytest.mark.parametrize("case", MEANS)
def test_normal_of_arrays(twins: Twins, case: str) -> None:
    mean, std = MEANS[case]
    given = [tensor(x) if isinstance(x, np.ndarray) else x for x in (mean, std)]
    twins.agree(lambda g: torch.normal(*given, generator=g), lambda g: R.normal_of(mean, std, g), rtol=2e-3, atol=2e-6)


# --- formulas of uniforms and normals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 33, 1000, 100_003])
@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("exponential", (1.0,)),
        ("exponential", (0.3,)),
        ("geometric", (0.3,)),
        ("geometric", (0.001,)),
        ("cauchy", (0.0, 1.0)),
        ("cauchy", (2.0, 0.5)),
        ("log_normal", (1.0, 2.0)),
        ("log_normal", (0.0, 0.3)),
    ],
)
def test_formulas(twins: Twins, method: str, args: tuple[float, ...], n: int, name: str) -> None:
    theirs = lambda g: getattr(empty(n, name), method + "_")(*args, generator=g)  # noqa: E731
    ours = lambda g: getattr(R, method)(n, np_type(name), *args, g)  # noqa: E731
    exact = method == "geometric"
    twins.agree(theirs, ours, **({} if exact else close(name)))


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("p", [0.9, 0.3, 0.01, 0.0001])
def test_geometric_integers(twins: Twins, name: str, p: float) -> None:
    twins.agree(
        lambda g: empty(5000, name).geometric_(p, generator=g), lambda g: R.geometric(5000, np_type(name), p, g)
    )


# --- integers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS, "bool"])
@pytest.mark.parametrize("n", [0, 1, 7, 1000, 1025, 100_003])
def test_random_without_bounds(twins: Twins, n: int, name: str) -> None:
    twins.agree(lambda g: empty(n, name).random_(generator=g), lambda g: R.random(n, np_type(name), generator=g))


RANGES = [
    (0, 1), (0, 2), (0, 10), (-5, 5), (3, 128), (0, 100), (-128, 127), (0, 2048), (0, 2049), (0, 65504), (-3000, 5000),
    (0, 2**24), (0, 2**24 + 5), (7, 2**28 + 6), (7, 2**28 + 7), (0, 2**31 - 1), (0, 2**31), (0, 2**32 - 1), (0, 2**32),
    (-(2**31), 2**31 - 1), (-(2**40), 2**50), (0, 2**53 + 3), (0, 2**63 - 1), (-(2**63), 2**63 - 1), (2**62, 2**63 - 1),
    (-(2**63) + 1, -(2**62)), (5, None), (-100, None), (-(2**63), None), (0, None), (2**20, None),
    (2**24 - 2, 2**24 + 2), (300, None), (5, 5), (9, 4), (1, 3),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*out of bounds")
@pytest.mark.parametrize("name", [*INTEGERS, "uint16", "uint32", "uint64", *FLOATS, "bool", "complex64"])
@pytest.mark.parametrize(("low", "high"), RANGES)
def test_random_in_a_range(twins: Twins, low: int, high: int | None, name: str) -> None:
    theirs = lambda g: empty(1500, name).random_(low, high, generator=g)  # noqa: E731
    ours = lambda g: R.random(1500, np_type(name), low, high, g)  # noqa: E731
    refused = error_of(lambda: theirs(torch.Generator()))
    if refused is None:
        twins.agree(theirs, ours)
    else:
        assert error_of(lambda: ours(None)) == refused


def error_of(call: Callable[[], Any]) -> tuple[type[Exception], str] | None:
    """What a call raises: type and first line."""
    try:
        call()
    except (RuntimeError, NotImplementedError) as error:
        return type(error), str(error).split("\n")[0]
    return None


def test_random_warns_about_precision() -> None:
    with pytest.warns(UserWarning, match="out of bounds") as theirs:
        torch.empty(2).random_(-(2**30), 2**30)
    with pytest.warns(UserWarning, match="out of bounds") as ours:
        R.random(2, "f4", -(2**30), 2**30)
    assert [str(w.message).split(" (Triggered")[0] for w in theirs] == [str(w.message) for w in ours]


# --- bernoulli and what uses it ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS, "bool"])
@pytest.mark.parametrize("n", SIZES[:-1])
def test_bernoulli(twins: Twins, n: int, name: str) -> None:
    for p in (0.5, 0.1, 0, 1, 1 / 3):
        twins.agree(
            lambda g: empty(n, name).bernoulli_(p, generator=g),  # noqa: B023
            lambda g: R.bernoulli(n, np_type(name), p, g),  # noqa: B023
        )


def test_bernoulli_of_a_million(twins: Twins) -> None:
    twins.agree(
        lambda g: empty(1_000_003, "float32").bernoulli_(0.3, generator=g),
        lambda g: R.bernoulli(1_000_003, "f4", 0.3, g),
    )


@pytest.mark.parametrize("name", ["float32", "bool", "int64", "bfloat16"])
@pytest.mark.parametrize("p_name", FLOATS)
def test_bernoulli_of_probabilities(twins: Twins, name: str, p_name: str) -> None:
    p = np.linspace(0, 1, 3000).reshape(30, 100).astype(np_type(p_name))
    twins.agree(
        lambda g: empty((30, 100), name).bernoulli_(tensor(p), generator=g),
        lambda g: R.bernoulli_of(p, dtype=np_type(name), generator=g),
    )
    twins.agree(
        lambda g: empty((5, 30, 100), name).bernoulli_(tensor(p), generator=g),
        lambda g: R.bernoulli_of(p, (5, 30, 100), np_type(name), g),
    )


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_dropout(name: str, p: float) -> None:
    torch.manual_seed(3)
    expected = torch.dropout(torch.ones(500, dtype=torch_type(name)), p, True)
    generator = R.Generator().manual_seed(3)
    np.testing.assert_array_equal(R.dropout_noise(500, np_type(name), p, generator), array(expected))
    np.testing.assert_array_equal(generator.get_state(), torch.get_rng_state().numpy())


@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16"])
def test_rrelu(name: str) -> None:
    x = np.random.default_rng(0).standard_normal((20, 30)).astype(np_type(name))
    torch.manual_seed(3)
    noise = torch.zeros(20, 30, dtype=torch_type(name))
    torch._C._nn.rrelu_with_noise(tensor(x), noise, 0.1, 0.35, True)
    generator = R.Generator().manual_seed(3)
    np.testing.assert_array_equal(R.rrelu_noise(x, 0.1, 0.35, generator), array(noise))
    np.testing.assert_array_equal(generator.get_state(), torch.get_rng_state().numpy())


# --- filling in place -------------------------------------------------------------------------------------------------

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(0, 2) if isinstance(x, torch.Tensor) else x.transpose(2, 1, 0),
    "rotated": lambda x: x.permute(1, 2, 0) if isinstance(x, torch.Tensor) else x.transpose(1, 2, 0),
    "spread": lambda x: x[:, ::2, 1::3],
    "row": lambda x: x[1],
    "column": lambda x: x[:, 2, 3],
    "element": lambda x: x[1, 1, 1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("uniform_", (0.1, 0.7)),
        ("normal_", (1.0, 2.0)),
        ("random_", (0, 100)),
        ("bernoulli_", (0.4,)),
        ("exponential_", (2.0,)),
        ("geometric_", (0.2,)),
        ("cauchy_", (0.0, 1.0)),
        ("log_normal_", (0.0, 0.5)),
    ],
)
def test_filling_any_layout(twins: Twins, layout: str, method: str, args: tuple[float, ...]) -> None:
    base = np.zeros((4, 6, 9), "f8")
    theirs = LAYOUTS[layout](torch.from_numpy(base.copy()))
    if layout == "element":
        target = base[1:2, 1, 1].reshape(())
    else:
        target = LAYOUTS[layout](base)
    twins.agree(
        lambda g: getattr(theirs, method)(*args, generator=g),
        lambda g: getattr(R, method)(target, *args, g),
        rtol=1e-12,
    )
    np.testing.assert_allclose(base.sum(), theirs.sum().item() if base.sum() else 0, rtol=1e-9)


def test_filling_by_probabilities_in_a_transposed_layout(twins: Twins) -> None:
    p = np.linspace(0, 1, 12).reshape(3, 4)
    twins.agree(
        lambda g: torch.zeros(4, 3).t().bernoulli_(tensor(p), generator=g),
        lambda g: R.bernoulli_(np.zeros((4, 3), "f4").T, p, g),
    )


def test_an_expanded_array_cannot_be_filled() -> None:
    with pytest.raises(RuntimeError) as theirs:
        torch.empty(1, 3).expand(2, 3).uniform_()
    with pytest.raises(RuntimeError) as ours:
        R.uniform_(np.broadcast_to(np.empty((1, 3)), (2, 3)))
    assert str(ours.value) == str(theirs.value)


# --- permutations and samples -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 3, 10, 100, 399, 400, 401, 1000, 4096, 100_003, 1_000_003])
def test_randperm(twins: Twins, n: int) -> None:
    twins.agree(lambda g: torch.randperm(n, generator=g), lambda g: R.randperm(n, generator=g))


@pytest.mark.parametrize("seed", range(30))
def test_randperm_seeds(seed: int) -> None:
    Twins(seed).agree(
        lambda g: torch.randperm(400 + 37 * seed, generator=g), lambda g: R.randperm(400 + 37 * seed, generator=g)
    )


@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
def test_randperm_types(twins: Twins, name: str) -> None:
    twins.agree(
        lambda g: torch.randperm(128, dtype=torch_type(name), generator=g), lambda g: R.randperm(128, np_type(name), g)
    )


@pytest.mark.parametrize(
    ("n", "name"),
    [(-1, "int64"), (257, "uint8"), (129, "int8"), (2**15 + 1, "int16"), (2050, "float16"), (2**24 + 2, "float32"),
     (3, "bool"), (3, "uint16"), (3, "complex64")],
)  # fmt: skip
def test_randperm_refuses(n: int, name: str) -> None:
    with pytest.raises((RuntimeError, NotImplementedError)) as theirs:
        torch.randperm(n, dtype=torch_type(name))
    with pytest.raises(theirs.type) as ours:
        R.randperm(n, np_type(name))
    assert str(ours.value) == str(theirs.value).split("\n")[0]


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize(
    ("shape", "n"),
    [((5,), 1), ((5,), 5), ((300,), 7), ((4, 20), 1), ((4, 20), 20), ((3, 1000), 10), ((1,), 1), ((0, 4), 2)],
)
def test_multinomial(twins: Twins, name: str, replacement: bool, shape: tuple[int, ...], n: int) -> None:
    p = np.random.default_rng(1).random(shape).astype(name)
    for _ in range(5):
        twins.agree(
            lambda g: torch.multinomial(tensor(p), n, replacement, generator=g),
            lambda g: R.multinomial(p, n, replacement, g),
        )


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_multinomial_narrow_types(twins: Twins, name: str) -> None:
    p = np.random.default_rng(1).random((3, 12)).astype(np_type(name))
    for n, replacement in [(1, False), (4, True), (1, True)]:
        twins.agree(
            lambda g: torch.multinomial(tensor(p), n, replacement, generator=g),  # noqa: B023
            lambda g: R.multinomial(p, n, replacement, g),  # noqa: B023
        )


BAD_PROBABILITIES = {
    "negative": [1.0, 2, -1], "infinite": [1.0, math.inf], "nan": [1.0, math.nan], "zero": [0.0, 0, 0],
    "zero row": [[1.0, 1], [0, 0]], "number": 1.0, "deep": [[[1.0]]],
}  # fmt: skip


@pytest.mark.parametrize(("n", "replacement"), [(1, False), (2, False), (1, True), (2, True), (9, False), (0, True)])
@pytest.mark.parametrize("case", BAD_PROBABILITIES)
def test_multinomial_refuses(case: str, n: int, replacement: bool) -> None:
    p = np.array(BAD_PROBABILITIES[case], "f4")
    with pytest.raises(RuntimeError) as theirs:
        torch.multinomial(torch.tensor(BAD_PROBABILITIES[case]), n, replacement)
    with pytest.raises(RuntimeError) as ours:
        R.multinomial(p, n, replacement)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("rate", [0.0, 0.1, 3.0, 9.9, 10.0, 50.0, 1000.0])
@pytest.mark.parametrize("n", [1, 20, 3000])
def test_poisson(twins: Twins, name: str, rate: float, n: int) -> None:
    rates = np.full(n, rate).astype(np_type(name))
    twins.agree(lambda g: torch.poisson(tensor(rates), generator=g), lambda g: R.poisson(rates, g))


@pytest.mark.parametrize("seed", range(5))
def test_poisson_of_mixed_rates(seed: int) -> None:
    rates = np.random.default_rng(seed).exponential(12, (50, 40)).astype("f4")
    rates[::7] = 0
    Twins(seed).agree(lambda g: torch.poisson(tensor(rates), generator=g), lambda g: R.poisson(rates, g))


def test_poisson_of_huge_rates(twins: Twins) -> None:
    for rates in (np.array([1e10, 1e20, math.inf]), np.full(100, 1e20), np.full(100, 1e6)):
        twins.agree(lambda g: torch.poisson(tensor(rates), generator=g), lambda g: R.poisson(rates, g))  # noqa: B023


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize(
    ("count", "prob"),
    [(10, 0.5), (10, 0.01), (10, 0.9), (100, 0.5), (1000, 0.3), (1000, 0.77), (100000, 0.001), (5, 0), (5, 1), (0, 0.5),
     (-1, 0.5), (7, math.nan), (19, 0.6)],
)  # fmt: skip
@pytest.mark.parametrize("n", [1, 31, 2000])
def test_binomial(twins: Twins, name: str, count: float, prob: float, n: int) -> None:
    trials, chance = np.full(n, count, name), np.full(n, prob, name)
    twins.agree(
        lambda g: torch.binomial(tensor(trials), tensor(chance), generator=g), lambda g: R.binomial(trials, chance, g)
    )


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_binomial_of_mixed_chances(twins: Twins, name: str) -> None:
    rng = np.random.default_rng(0)
    trials, chance = rng.integers(0, 200, (20, 30)).astype(name), rng.random((20, 30)).astype(name)
    twins.agree(
        lambda g: torch.binomial(tensor(trials), tensor(chance), generator=g), lambda g: R.binomial(trials, chance, g)
    )


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("alpha", [0.0, 0.001, 0.1, 0.5, 1.0, 1.5, 10.0, 1000.0, -1.0])
@pytest.mark.parametrize("n", [1, 7, 2000])
def test_standard_gamma(twins: Twins, name: str, alpha: float, n: int) -> None:
    shapes = np.full(n, alpha, name)
    twins.agree(
        lambda g: torch._standard_gamma(tensor(shapes), generator=g),
        lambda g: R.standard_gamma(shapes, g),
        rtol=1e-6 if name == "float32" else 1e-13,
    )


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_dirichlet(twins: Twins, name: str) -> None:
    alpha = np.random.default_rng(0).exponential(1, (50, 6)).astype(name)
    alpha[0] = 0
    twins.agree(
        lambda g: torch._sample_dirichlet(tensor(alpha), generator=g), lambda g: R.dirichlet(alpha, g), rtol=1e-6
    )


# --- errors and sequences ---------------------------------------------------------------------------------------------

nan, inf = math.nan, math.inf
REFUSED = [
    ("uniform", "int64", ()), ("uniform", "bool", ()), ("uniform", "float32", (2, 1)), ("uniform", "float16", (0, 1e6)),
    ("uniform", "float32", (-3e38, 3e38)), ("uniform", "float32", (nan, 1)), ("uniform", "float64", (0, inf)),
    ("uniform", "bfloat16", (-3e38, 3e38)), ("uniform", "complex64", (2, 1)), ("normal", "int64", ()),
    ("normal", "float32", (0, -1)), ("normal", "float32", (0, nan)), ("normal", "complex64", (0, -1.5)),
    ("exponential", "int64", ()), ("exponential", "float32", (0,)), ("exponential", "float32", (-0.25,)),
    ("exponential", "complex64", ()), ("geometric", "float32", (0,)), ("geometric", "float32", (1,)),
    ("geometric", "bool", (0.5,)), ("geometric", "uint16", (0.5,)), ("cauchy", "float32", (0, 0)),
    ("cauchy", "int64", ()), ("cauchy", "complex64", ()), ("log_normal", "float32", (0, 0)),
    ("log_normal", "int64", ()),
    ("log_normal", "float32", (0, nan)), ("bernoulli", "float32", (2,)), ("bernoulli", "float32", (-0.1,)),
    ("bernoulli", "float32", (nan,)), ("bernoulli", "uint16", (0.5,)), ("bernoulli", "complex64", (0.5,)),
    ("random", "uint16", ()), ("random", "complex64", ()),
]  # fmt: skip


@pytest.mark.parametrize(("method", "name", "args"), REFUSED)
@pytest.mark.parametrize("n", [0, 3])
def test_refusals(method: str, name: str, args: tuple[float, ...], n: int) -> None:
    refused = error_of(lambda: getattr(empty(n, name), method + "_")(*args))
    assert error_of(lambda: getattr(R, method)(n, np_type(name), *args)) == refused


ONES = np.ones(9, "f4")
CALLS: list[tuple[Callable[[Any], Any], Callable[[Any], Any], float]] = [
    (lambda g: torch.rand(7, generator=g), lambda g: R.uniform(7, "f4", generator=g), 0),
    (lambda g: torch.rand(3, 5, dtype=torch.float64, generator=g), lambda g: R.uniform((3, 5), "f8", generator=g), 0),
    (lambda g: torch.randn(5, generator=g), lambda g: R.normal(5, "f4", generator=g), 1e-6),
    (lambda g: torch.randn(50, generator=g), lambda g: R.normal(50, "f4", generator=g), 1e-6),
    (lambda g: torch.randn(33, dtype=torch.float64, generator=g), lambda g: R.normal(33, "f8", generator=g), 1e-12),
    (lambda g: torch.randint(0, 10, (9,), generator=g), lambda g: R.randint(9, "i8", 0, 10, g), 0),
    (lambda g: torch.randint(0, 2**40, (3,), generator=g), lambda g: R.randint(3, "i8", 0, 2**40, g), 0),
    (lambda g: torch.randperm(12, generator=g), lambda g: R.randperm(12, generator=g), 0),
    (lambda g: torch.randperm(500, generator=g), lambda g: R.randperm(500, generator=g), 0),
    (lambda g: torch.empty(700).bernoulli_(0.2, generator=g), lambda g: R.bernoulli(700, "f4", 0.2, g), 0),
    (lambda g: torch.poisson(torch.full((3,), 4.0), generator=g), lambda g: R.poisson(np.full(3, 4.0, "f4"), g), 0),
    (lambda g: torch._standard_gamma(torch.ones(3), generator=g), lambda g: R.standard_gamma(ONES[:3], g), 1e-6),
    (lambda g: torch.empty(9).log_normal_(generator=g), lambda g: R.log_normal(9, "f4", generator=g), 1e-6),
    (lambda g: torch.empty(9).exponential_(generator=g), lambda g: R.exponential(9, "f4", generator=g), 1e-6),
    (lambda g: torch.multinomial(torch.ones(9), 3, generator=g), lambda g: R.multinomial(ONES, 3, False, g), 0),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
def test_sequences_of_mixed_calls(seed: int) -> None:
    twins = Twins(seed)
    for i in np.random.default_rng(seed).integers(0, len(CALLS), 60).tolist():
        theirs, ours, near = CALLS[i]
        twins.agree(theirs, ours, rtol=near, atol=near)
