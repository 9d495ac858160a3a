"""Random tensors and calls for the fuzz tests: the same call is made of torch and of mindtorch_v2 and compared.

Shapes have dimensions of size 0 and 1, tensors lie in memory plain, transposed, with gaps or expanded, and operands are
of any dtype. What torch refuses must be refused with an exception of the same type.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st

import mindtorch_v2

FLOATS = ("float32", "float64", "float16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
DTYPES = (*FLOATS, *INTEGERS, "bool", "complex64", "complex128")
LAYOUTS = ("plain", "transposed", "stepped", "expanded", "offset")
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.5, -3.0])


class TensorSpec(NamedTuple):
    """A tensor that can be made in either framework."""

    shape: tuple[int, ...]
    dtype: str
    layout: str
    seed: int
    special: bool = False

    def array(self, shape: tuple[int, ...]) -> np.ndarray:
        rng = np.random.default_rng(self.seed)
        if self.dtype == "bool":
            return rng.integers(0, 2, shape).astype(bool)
        if self.dtype in INTEGERS:
            return rng.integers(0 if self.dtype == "uint8" else -5, 6, shape).astype(self.dtype)
        values = np.round(rng.standard_normal(shape) * 3, 2)
        if self.special:
            values = np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, shape), values)
        if self.dtype.startswith("complex"):
            values = values + 1j * np.round(rng.standard_normal(shape), 2)
        return np.asarray(values).astype(self.dtype)

    def make(self, framework: Any) -> Any:
        shape = self.shape
        dtype = getattr(framework, self.dtype)

        def of(array: np.ndarray) -> Any:
            if not array.ndim:
                return framework.tensor(array.item(), dtype=dtype)
            return framework.from_numpy(np.ascontiguousarray(array))

        if not shape or self.layout == "plain":
            return of(self.array(shape))
        if self.layout == "transposed":
            return of(self.array(shape[::-1])).permute(*range(len(shape))[::-1])
        if self.layout == "stepped":
            return of(self.array((*shape[:-1], shape[-1] * 2)))[..., ::2]
        if self.layout == "expanded":
            return of(self.array((*shape[:-1], 1))).expand(*shape)
        return of(self.array((shape[0] + 1, *shape[1:])))[1:]


class Size(NamedTuple):
    """Marks a tuple that is passed as it is."""

    values: tuple[int, ...]


def made(value: Any, framework: Any) -> Any:
    """Arguments with their tensors and dtypes made in one framework."""
    match value:
        case TensorSpec():
            return value.make(framework)
        case Size():
            return value.values
        case str() if value.startswith("dtype:"):
            return getattr(framework, value.removeprefix("dtype:"))
        case list():
            return [made(v, framework) for v in value]
        case tuple():
            return tuple(made(v, framework) for v in value)
        case dict():
            return {k: made(v, framework) for k, v in value.items()}
        case slice():
            return value
    return value


# --- strategies -------------------------------------------------------------------------------------------------------

sizes = st.sampled_from([0, 1, 1, 2, 3, 4])
seeds = st.integers(0, 9)


def shapes(least: int = 0, most: int = 4) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(sizes, min_size=least, max_size=most).map(tuple)


def tensors(
    shape: st.SearchStrategy[tuple[int, ...]] | None = None,
    dtypes: tuple[str, ...] = DTYPES,
    special: bool = False,
    layouts: tuple[str, ...] = LAYOUTS,
) -> st.SearchStrategy[TensorSpec]:
    return st.builds(
        TensorSpec,
        shapes() if shape is None else shape,
        st.sampled_from(dtypes),
        st.sampled_from(layouts),
        seeds,
        st.just(special),
    )


@st.composite
def broadcastable(draw: Any, count: int, most: int = 3) -> list[tuple[int, ...]]:
    """Shapes that mostly broadcast: dimensions of a common shape are dropped or set to 1, now and then changed."""
    common = draw(shapes(0, most))
    found = []
    for _ in range(count):
        start = draw(st.integers(0, len(common)))
        shape = [1 if draw(st.integers(0, 3)) == 0 else n for n in common[start:]]
        if shape and draw(st.integers(0, 19)) == 0:
            shape[0] += 1
        found.append(tuple(shape))
    return found


numbers = st.one_of(
    st.sampled_from([0, 1, -1, 2, 3, 7]),
    st.sampled_from([0.5, -1.5, 2.0, 0.0, 3.7]),
    st.booleans(),
    st.sampled_from([1j, 2 - 0.5j]),
)


# --- comparing --------------------------------------------------------------------------------------------------------


def outcome(call: Callable[[Any], Any], framework: Any) -> tuple[Any, BaseException | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(framework), None
        except Exception as error:
            return None, error


def flat(result: Any) -> list[Any]:
    if isinstance(result, (list, tuple)) and not hasattr(result, "numel"):
        return [leaf for item in result for leaf in flat(item)]
    return [result]


def assert_same(want: Any, got: Any, what: str, rough: float = 1.0) -> None:
    wanted, gotten = flat(want), flat(got)
    assert len(wanted) == len(gotten), what
    for x, y in zip(wanted, gotten):
        if not isinstance(x, torch.Tensor):
            assert x == y or (x != x and y != y), f"{what}: {y} instead of {x}"
            continue
        assert tuple(x.shape) == tuple(y.shape), f"{what}: shape {tuple(y.shape)} instead of {tuple(x.shape)}"
        assert str(x.dtype) == str(y.dtype), f"{what}: {y.dtype} instead of {x.dtype}"
        a, b = x.detach().resolve_conj().resolve_neg().numpy(), y.detach().resolve_conj().resolve_neg().numpy()
        tolerance = {"float16": 4e-3, "float32": 2e-5, "complex64": 2e-5}.get(str(a.dtype), 1e-10) * rough
        if a.dtype.kind in "fc":
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance, err_msg=what)
        else:
            np.testing.assert_array_equal(b, a, err_msg=what)


def compare(call: Callable[[Any], Any], what: str, rough: float = 1.0) -> None:
    """Make one call of both frameworks and compare what they give or raise."""
    want, refusal = outcome(call, torch)
    got, error = outcome(call, mindtorch_v2)
    if refusal is not None:
        assert error is not None, (
            f"{what}: torch refuses ({type(refusal).__name__}: {str(refusal)[:200]}), we give {got}"
        )
        assert type(error).__name__ == type(refusal).__name__, f"{what}: {error!r} instead of {refusal!r}"
        return
    assert error is None, f"{what}: {error!r}, torch gives {want}"
    assert_same(want, got, what, rough)


def compare_call(name: str, args: Any, kwargs: Any = None, rough: float = 1.0) -> None:
    """Call a function, or a method where the name begins with a dot, of both frameworks."""

    def call(framework: Any) -> Any:
        given, named = made(list(args), framework), made(dict(kwargs or {}), framework)
        if name.startswith("."):
            return getattr(given[0], name[1:])(*given[1:], **named)
        function = framework
        for word in name.split("."):
            function = getattr(function, word)
        return function(*given, **named)

    compare(call, f"{name}(*{args}, **{kwargs or {}})", rough)
