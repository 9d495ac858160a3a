"""The random number core against values that torch 2.13 drew from the same seed."""

import copy
import hashlib
import pickle
import threading
import zlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mindtorch_v2.kernels import random as R
from mindtorch_v2.kernels.pointwise import fma
from mindtorch_v2.kernels.random import engine, permutation

BF16 = np.dtype(ml_dtypes.bfloat16)


@pytest.fixture(autouse=True)
def states_are_arrays() -> Iterator[None]:
    """The core as it is by itself, whatever the tensor layer has it exchange."""
    previous = R.exchange_states_as(lambda state: state, lambda state: state)
    yield
    R.exchange_states_as(*previous)


def seeded(seed: int = 7) -> R.Generator:
    return R.Generator().manual_seed(seed)


def digest(values: np.ndarray) -> str:
    return hashlib.sha256(values.tobytes()).hexdigest()[:16]


def same(found: np.ndarray, expected: list[Any], rtol: float = 0.0) -> None:
    wide = found.astype(np.float64) if found.dtype.kind not in "biu" else found
    if rtol:
        np.testing.assert_allclose(wide, expected, rtol=rtol)
    else:
        np.testing.assert_array_equal(found, np.array(expected).astype(found.dtype))


# --- generator --------------------------------------------------------------------------------------------------------


def test_the_default_seed_is_torchs() -> None:
    assert R.Generator().initial_seed() == 67280421310721


def test_the_default_generator_is_seeded_by_chance() -> None:
    assert R.default_generator.initial_seed() != 67280421310721


def test_seeds_wrap_and_only_32_bits_count() -> None:
    assert seeded(-1).initial_seed() == 2**64 - 1
    same(
        R.random(3, "i8", generator=seeded(7 + 2**32)), [1407639518939636932, 5163590386780219894, 8087222774582268115]
    )


@pytest.mark.parametrize(
    ("seed", "error", "text"),
    [
        (2**64, ValueError, "Overflow when unpacking long long"),
        (-(2**63) - 1, ValueError, "Overflow when unpacking long long"),
        (1.5, RuntimeError, "manual_seed expected a long, but got float"),
        (True, RuntimeError, "manual_seed expected a long, but got bool"),
        (None, RuntimeError, "manual_seed expected a long, but got NoneType"),
    ],
)
def test_bad_seeds(seed: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        R.Generator().manual_seed(seed)


def test_seed_draws_a_new_one() -> None:
    generator = seeded()
    chosen = generator.seed()
    assert generator.initial_seed() == chosen != 7
    np.testing.assert_array_equal(generator.get_state(), seeded(chosen).get_state())


def test_the_state_is_torchs_byte_for_byte() -> None:
    generator = seeded()
    R.normal(3, "f4", generator=generator)
    R.uniform(5, "f4", generator=generator)
    state = generator.get_state()
    assert (state.dtype, state.shape) == (np.uint8, (5056,))
    assert zlib.crc32(state.tobytes()) == 1265186632


def test_a_state_brings_the_stream_back() -> None:
    generator = seeded()
    R.normal(3, "f4", generator=generator)
    state = generator.get_state()
    first = [R.normal(5, "f8", generator=generator), R.uniform(700, "f4", generator=generator)]
    generator.manual_seed(1).set_state(state)
    for values, again in zip(
        first, [R.normal(5, "f8", generator=generator), R.uniform(700, "f4", generator=generator)]
    ):
        np.testing.assert_array_equal(values, again)


def test_bad_states() -> None:
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        R.Generator().set_state(np.zeros(5056, np.uint8))
    with pytest.raises(RuntimeError, match="of size 5056 but found the input RNG state size to be 10"):
        R.Generator().set_state(np.zeros(10, np.uint8))
    with pytest.raises(TypeError, match=r"RNG state must be a torch\.ByteTensor"):
        R.Generator().set_state(np.zeros(5056))
    with pytest.raises(TypeError, match=r"expected a torch\.ByteTensor, but got list"):
        R.Generator().set_state([1])


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g)), R.Generator.clone_state]
)
def test_duplicates_continue_alike_and_alone(duplicate: Callable[[R.Generator], R.Generator]) -> None:
    generator = seeded()
    R.normal(3, "f4", generator=generator)
    twin = duplicate(generator)
    assert twin.initial_seed() == 7
    first = R.normal(3, "f4", generator=generator)
    np.testing.assert_array_equal(R.normal(3, "f4", generator=twin), first)


def test_states_can_be_exchanged_as_something_else() -> None:
    R.exchange_states_as(bytes, lambda state: np.frombuffer(state, np.uint8))
    state = seeded().get_state()
    assert isinstance(state, bytes)
    assert R.Generator().set_state(state).initial_seed() == 7


def test_a_generator_lives_on_the_cpu() -> None:
    assert str(R.Generator("cpu").device) == "cpu"
    with pytest.raises(RuntimeError, match="random numbers are drawn on 'cpu' only"):
        R.Generator("meta")
    with pytest.raises(RuntimeError, match="CPU Generator does not use offset"):
        R.Generator().get_offset()


def test_something_else_is_no_generator() -> None:
    with pytest.raises(TypeError, match=r"argument 'generator' must be torch\.Generator, not int"):
        R.uniform(3, "f4", generator=3)  # type: ignore[arg-type]


def test_threads_share_a_generator() -> None:
    generator, drawn = seeded(), []
    work = lambda: drawn.extend(R.bernoulli(100_000, "i8", 0.5, generator) for _ in range(5))  # noqa: E731
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = seeded()
    expected = [R.bernoulli(100_000, "i8", 0.5, alone) for _ in range(20)]
    np.testing.assert_array_equal(generator.get_state(), alone.get_state())
    assert sorted(map(digest, drawn)) == sorted(map(digest, expected))


# --- uniform and normal -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("f4", [0.53492254, 0.198803186, 0.659211695, 0.656890273]),
        ("f8", [0.279380429906404, 0.27369371365176565, 0.8620929614176255, 0.6566884305882014]),
        ("f2", [0.53515625, 0.1988525390625, 0.6591796875, 0.65673828125]),
        (BF16, [0.53515625, 0.19921875, 0.66015625, 0.65625]),
    ],
)
def test_uniform(dtype: Any, expected: list[float]) -> None:
    same(R.uniform(4, dtype, generator=seeded()), expected)


def test_uniform_complex() -> None:
    values = R.uniform((2, 1), "c8", generator=seeded())
    same(values.view("f4").ravel(), [0.53492254, 0.198803186, 0.659211695, 0.656890273])


def test_uniform_is_rounded_once() -> None:
    same(R.uniform(4, "f4", -0.1, 0.3, seeded()), [0.113969021, -0.0204787254, 0.163684681, 0.162756115])
    expected = [0.011752171962561599, 0.009477485460706259, 0.2448371845670502, 0.16267537223528056]
    same(R.uniform(4, "f8", -0.1, 0.3, seeded()), expected)


def test_uniform_in_bulk() -> None:
    assert digest(R.uniform(100_003, "f4", generator=seeded())) == "377b2523218e8f3c"
    assert digest(R.uniform(100_003, "f8", generator=seeded())) == "aad7b9d78ea51552"


SOME = [0, 1, 2, 3, 8, 15, 16, 17, 18]
FEW_NORMALS = [-0.1467950974849952, 0.7861412987235358, 0.9468216090039564]
NORMALS = {
    "f4": [-0.820134521, 0.395631164, 0.898908496, -0.330011725, -0.848908603, -1.35976899, -0.866701603, -0.564006686,
           -2.05646253],
    "f8": [0.06626753966449943, 0.04699155524392409, 1.8365386300294015, 1.6932749764073567, -1.3131496578292892,
           0.45257550210102954, -1.6677291342328766, -1.5870322969308357, 2.03026332869622],
    "f2": [-0.8203125, 0.395751953125, 0.89892578125, -1.5830078125, 0.7822265625, -2.060546875, 0.67431640625,
           -1.3232421875, -1.359375],
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "rtol"), [("f4", 1e-6), ("f8", 1e-14), ("f2", 1e-3), (BF16, 1e-2)])
def test_few_normals(dtype: Any, rtol: float) -> None:
    same(R.normal(3, dtype, generator=seeded()), FEW_NORMALS, rtol)


@pytest.mark.parametrize(("dtype", "rtol"), [("f4", 1e-6), ("f8", 1e-14), ("f2", 1e-3)])
def test_many_normals(dtype: str, rtol: float) -> None:
    same(R.normal(19, dtype, generator=seeded())[SOME], NORMALS[dtype], rtol)


def test_the_second_normal_of_a_pair_waits() -> None:
    generator = seeded()
    one_by_one = [R.normal((), "f8", generator=generator).item() for _ in range(3)]
    same(np.array(one_by_one), FEW_NORMALS, 1e-14)


def test_normal_of_arrays() -> None:
    values = R.normal_of(np.array([1, 2, 3], "f4"), np.array([0.1, 0, 10], "f4"), seeded())
    same(values, [0.985320508, 2.0, 12.4682159], 1e-6)


# --- other distributions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("u1", [175, 196, 25, 246]),
        ("i1", [47, 68, 25, 118]),
        ("i2", [28847, 25796, 16921, 10742]),
        ("i4", [327741615, 976413892, 1202242073, 1369975286]),
        ("i8", [1407639518939636932, 5163590386780219894, 8087222774582268115]),
        ("?", [True, False, True, False]),
        ("f2", [2016, 1873, 31, 1592]),
        (BF16, [52, 217, 57, 35]),
        ("f4", [8974492, 3335306, 11059538, 11020709]),
        ("f8", [2516435200042024, 2465213813629881, 7765043079597394, 5914923542589598]),
    ],
)
def test_random_without_bounds(dtype: Any, expected: list[int]) -> None:
    same(R.random(len(expected), dtype, generator=seeded()), expected)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 10, [5, 2, 1, 6, 3, 7, 7, 9]),
        (-5, 2**40, [752589289487, 108678733351, 291927467744]),
        (0, 2**28 - 1, [59306160, 171107527, 128500261]),
        (0, 2**28, [171107524, 27798006, 174903507]),
        (-(2**63), None, [1407639518939636932, -4059781650074555914, 8087222774582268115]),
    ],
)
def test_random_in_a_range(low: int, high: int | None, expected: list[int]) -> None:
    same(R.random(len(expected), "i8", low, high, seeded()), expected)


def test_random_warns_where_the_type_is_too_coarse() -> None:
    with pytest.warns(UserWarning, match=r"to - 1 is out of bounds \[-\(2\^24\), 2\^24\]"):
        R.random(3, "f4", 0, 2**30)


def test_bernoulli() -> None:
    same(R.bernoulli(16, "f4", 0.3, seeded()), [1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 0])
    p = np.linspace(0, 1, 12)
    same(R.bernoulli_of(p.astype("f4"), generator=seeded()), [0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 1, 1])
    same(R.bernoulli_of(p, generator=seeded()), [0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 1, 1])
    assert digest(R.bernoulli(100_003, "u1", 0.3, seeded())) == "e191c7381f5e82c0"


def test_dropout() -> None:
    third = np.float32(1.33333337)
    noise = R.dropout_noise(10, "f4", 0.25, seeded())
    same(noise, [third, third, 0, third, 0, 0, third, third, 0, 0])
    np.testing.assert_array_equal(R.dropout_mask(10, 0.25, seeded()), noise != 0)


@pytest.mark.parametrize(("p", "kept"), [(0.0, True), (1.0, False)])
def test_certain_dropout_draws_nothing(p: float, kept: bool) -> None:
    generator = seeded()
    assert (R.dropout_mask(10, p, generator) == kept).all()
    np.testing.assert_array_equal(generator.get_state(), seeded().get_state())


def test_rrelu_draws_for_the_negative_only() -> None:
    x = np.array([-1, 2, -3, 0, 5], "f4")
    same(R.rrelu_noise(x, 0.1, 0.3, seeded()), [0.155876085, 1.0, 0.154738754, 0.272418588, 1.0])


def test_formulas() -> None:
    same(R.exponential(3, "f4", 2.0, seeded()), [0.163821965, 0.159891739, 0.990587711], 1e-6)
    same(R.cauchy(3, "f4", 1.0, 2.0, seeded()), [-0.661111534, -0.722406089, 5.32378435], 1e-6)
    same(R.log_normal(3, "f4", 0.0, 0.5, seeded()), [0.929231346, 1.48152304, 1.60546076], 1e-6)
    same(R.geometric(6, "i8", 0.2, seeded()), [6, 6, 1, 2, 1, 1])


# --- filling ----------------------------------------------------------------------------------------------------------


def test_filling_follows_memory() -> None:
    transposed = np.empty((3, 2), "f4").T
    assert R.uniform_(transposed, generator=seeded()) is transposed
    same(transposed.ravel(), [0.53492254, 0.659211695, 0.232761562, 0.198803186, 0.656890273, 0.425061405])


def test_strided_normals_are_drawn_in_pairs() -> None:
    transposed = R.normal_(np.empty((8, 4), "f4").T, generator=seeded())
    same(transposed.ravel()[:4], [-0.146795094, 1.69079018, 0.138172656, 0.137324095], 1e-6)


def test_one_place_is_not_filled_twice() -> None:
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        R.uniform_(np.broadcast_to(np.empty(3), (2, 3)))


# --- permutations and samples -----------------------------------------------------------------------------------------


def test_randperm() -> None:
    same(R.randperm(10, generator=seeded()), [5, 0, 3, 4, 1, 7, 9, 6, 8, 2])
    thousand = R.randperm(1000, generator=seeded())
    same(thousand[:8], [615, 284, 599, 580, 347, 92, 383, 891])
    assert int((thousand * np.arange(1000)).sum()) == 251046965
    assert digest(R.randperm(100_003, generator=seeded())) == "e4805b9d20e72913"


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 40, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_swaps_at_once_are_swaps_in_turn(n: int, seed: int) -> None:
    targets = np.random.default_rng(seed).integers(np.arange(max(n - 1, 0)), n)
    expected = list(range(n))
    for i, target in enumerate(targets.tolist()):
        expected[i], expected[target] = expected[target], expected[i]
    same(permutation.apply_swaps(n, targets), expected)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 500])
def test_huge_permutations_are_shuffled_inside_out(n: int) -> None:
    """Torch takes this way from 214,748,364 elements on; here its steps are told apart by hand."""
    words = engine.Engine(7).words64(n).tolist()
    expected: list[int] = []
    for i, word in enumerate(words):
        expected.append(i)
        earlier = word % (i + 1)
        expected[i], expected[earlier] = expected[earlier], i
    same(permutation._inside_out(engine.Engine(7), n), expected)


def test_multinomial() -> None:
    p = np.array([1, 2, 3, 4, 0], "f4")
    same(R.multinomial(p, 3, False, seeded()), [1, 3, 0])
    same(R.multinomial(p, 6, True, seeded()), [1, 1, 3, 3, 3, 3])
    same(R.multinomial(np.broadcast_to(p, (4, 5)), 1, False, seeded()).ravel(), [1, 1, 3, 1])


def test_poisson() -> None:
    same(R.poisson(np.array([0.5, 4, 12, 40, 0, 300], "f4"), seeded()), [0, 7, 15, 27, 0, 253])
    same(R.poisson(np.full(40, 50, "f4"), seeded())[:8], [45, 59, 62, 45, 56, 36, 42, 62])
    same(R.poisson(np.full(8, 3, "f4"), seeded()), [3, 6, 1, 0, 2, 6, 6, 2])


def test_binomial() -> None:
    trials, chance = np.array([10, 10, 100, 1000, 5], "f4"), np.array([0.5, 0.9, 0.3, 0.7, 1], "f4")
    same(R.binomial(trials, chance, seeded()), [7, 8, 21, 738, 5])
    same(R.binomial(np.full(40, 100, "f4"), np.float32([0.4]), seeded())[:8], [37, 46, 48, 37, 44, 31, 34, 42])
    same(R.binomial(np.full(6, 12, "f4"), np.full(6, 0.25, "f4"), seeded()), [3, 6, 1, 1, 1, 5])


def test_alike_and_mixed_elements_take_the_same_from_the_stream() -> None:
    """Rounds for elements alike, and the loop for mixed ones, are two ways to one result."""
    rates = np.full(200, 50.0)
    alike = R.poisson(rates, seeded())
    rates[-1] = 51.0  # now the loop is taken
    same(R.poisson(rates, seeded())[:-1], alike[:-1].tolist())
    trials, chance = np.full(200, 100.0), np.full(200, 0.4)
    alike = R.binomial(trials, chance, seeded())
    chance[-1] = 0.41
    same(R.binomial(trials, chance, seeded())[:-1], alike[:-1].tolist())


def test_gamma_and_dirichlet() -> None:
    shapes = np.array([0.3, 1, 2.5, 50], "f4")
    same(R.standard_gamma(shapes, seeded()), [0.236346692, 3.91174102, 2.89123893, 44.8499756], 1e-6)
    shares = R.dirichlet(np.array([0.5, 1, 3], "f4"), seeded())
    same(shares, [0.0580974296, 0.49962157, 0.442281008], 1e-6)


# --- multiply and add, rounded once -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "shift"), [(1.4, 0.3), (0.2, -0.1), (3.0, -1.5), (1e-3, 1.0), (7.3, -1e-9), (-2.7, 5)]
)
def test_fma_is_exact(scale: float, shift: float) -> None:
    x = np.random.default_rng(0).random(2000)
    exact = [float(Fraction(v) * Fraction(scale) + Fraction(shift)) for v in x.tolist()]
    same(fma.fma64(x, scale, shift), exact)


@pytest.mark.parametrize("shift", [1.5, -1.5, 2.0**-20])
def test_fma32_decides_ties_by_what_rounding_took(shift: float) -> None:
    """x * scale + shift falls just beside the middle of two floats, by less than a double can tell."""
    x = np.float32([1 - 2.0**-24, 1 + 2.0**-23, 0.75])
    scale = np.float32(2.0**-24 * (1 + 2.0**-23))
    found = fma.fma32(x, scale, np.float32(shift))
    for value, got in zip(x.tolist(), found.tolist()):
        exact = Fraction(value) * Fraction(float(scale)) + Fraction(shift)
        neighbours = [np.nextafter(np.float32(got), np.float32(to)) for to in (-np.inf, np.inf)]
        assert all(abs(Fraction(got) - exact) <= abs(Fraction(float(n)) - exact) for n in neighbours)


@pytest.mark.parametrize("fill", [R.normal_, R.uniform_, R.random_])
def test_an_array_without_elements_is_filled(fill: Callable[..., Any]) -> None:
    empty = np.empty((0, 5, 0), np.float32)  # whose strides are 0, as those of elements that share memory
    assert fill(empty).shape == (0, 5, 0)


def test_an_interrupted_draw_leaves_a_state_to_save_and_draw_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the compiled stream, whose draws no interrupt comes amid."""
    monkeypatch.setattr(engine, "C", None)
    generator = seeded()
    stream = generator._engine
    read = engine.Engine._read
    for drawn in (3, 600, 700, 5):
        stream.words(drawn)

        def interrupted(self: Any, n: int) -> Any:
            read(self, n)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(engine.Engine, "_read", interrupted)
            with pytest.raises(KeyboardInterrupt):
                stream.words(650)
        again = R.Generator()
        again.set_state(generator.get_state())
        assert again._engine.words(1000).tolist() == stream.words(1000).tolist()
