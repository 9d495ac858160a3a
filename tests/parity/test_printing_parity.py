"""`tensor_repr`, `format_scalar` and `Size` against torch, character by character."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import torch._tensor_str as torch_str

from mindtorch_v2.core import printing as ours
from mindtorch_v2.core.size import Size

REAL = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz]
COMPLEX = [torch.complex64, torch.complex128]
SIGNED = [torch.int8, torch.int16, torch.int32, torch.int64]
UNSIGNED = [torch.uint8, torch.uint16, torch.uint32, torch.uint64]

SHAPES = [
    (),
    (1,),
    (7,),
    (40,),
    (3, 4),
    (1, 1),
    (2, 30),
    (2, 3, 4),
    (1, 2, 1, 3),
    (2, 1, 2, 2, 2),
    (1001,),
    (7, 150),
    (300, 4),
    (9, 8, 7, 3),
    (5, 1, 8, 6, 7),
]
EMPTY_SHAPES = [(0,), (0, 3), (3, 0), (2, 0, 4), (0, 0), (1, 0, 1, 0, 1)]

OPTIONS: list[dict[str, Any]] = [
    {"profile": "default"},
    {"profile": "short"},
    {"profile": "full"},
    {"precision": 0},
    {"precision": 10},
    {"threshold": 0},
    {"threshold": 5, "edgeitems": 1},
    {"threshold": 10, "edgeitems": 0},
    {"edgeitems": 0},
    {"edgeitems": 10},
    {"linewidth": 20},
    {"linewidth": 3},
    {"linewidth": 200},
    {"sci_mode": True},
    {"sci_mode": False},
    {"profile": "short", "sci_mode": True, "linewidth": 50},
    {"profile": "full", "precision": 1},
    {"profile": "unknown", "precision": 3},
]


@pytest.fixture(autouse=True)
def _default_options() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)
    for module in (torch_str, ours):
        module.set_printoptions(profile="default")


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def array_of(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    tensor = tensor.detach()
    if tensor.is_meta:
        return np.broadcast_to(np.float32(0), tuple(tensor.shape))
    if tensor.dtype == torch.complex32:
        return torch.view_as_real(tensor).float().numpy().view(np.complex64)[..., 0]
    name = name_of(tensor.dtype)
    if not hasattr(ml_dtypes, name):
        return tensor.numpy()
    bits = torch.int16 if tensor.dtype.itemsize == 2 else torch.uint8
    return tensor.view(bits).numpy().view(getattr(ml_dtypes, name))


def our_repr(tensor: torch.Tensor) -> str:
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    text = ours.tensor_repr(
        array_of(tensor),
        dtype_name=name_of(tensor.dtype),
        default_dtype_name=name_of(torch.get_default_dtype()),
        requires_grad=tensor.requires_grad,
        grad_fn_name=tensor.grad_fn and type(tensor.grad_fn).__name__,
        device=str(tensor.device),
        class_name="tensor" if plain else type(tensor).__name__,
        is_parameter=isinstance(tensor, torch.nn.Parameter),
    )
    return ours.PARAMETER_HEADING + text if issubclass(type(tensor), torch.nn.Parameter) else text


def assert_same(tensor: torch.Tensor) -> None:
    assert our_repr(tensor) == repr(tensor)


def set_both(**options: Any) -> None:
    torch_str.set_printoptions(**options)
    ours.set_printoptions(**options)


def spread(shape: tuple[int, ...], low: float, high: float) -> torch.Tensor:
    """Random signs and magnitudes from 10**low to 10**high."""
    exponents = torch.rand(shape, dtype=torch.float64) * (high - low) + low
    signs = torch.randint(0, 2, shape) * 2 - 1
    return signs * 10**exponents


def sprinkle(tensor: torch.Tensor, *specials: float) -> torch.Tensor:
    """Replace about a third of the elements by special values."""
    for special in specials:
        chosen = torch.rand(tensor.shape) < 0.33 / len(specials)
        tensor = torch.where(chosen, torch.tensor(special, dtype=tensor.dtype), tensor)
    return tensor


def float_values(shape: tuple[int, ...]) -> Iterator[torch.Tensor]:
    for low, high in [(-1, 1), (-10, 10), (-3, -1), (-6, -4), (0, 3), (2, 5), (4, 8), (7, 10), (-4.01, -3.99)]:
        yield spread(shape, low, high)
    yield spread(shape, 0, 2.5).round()
    yield spread(shape, 0, 6).round()
    yield spread(shape, 7.9, 8.1).round()
    yield torch.zeros(shape, dtype=torch.float64)
    yield -torch.zeros(shape, dtype=torch.float64)
    yield torch.full(shape, math.nan, dtype=torch.float64)
    yield sprinkle(spread(shape, -1, 1), 0.0, -0.0)
    yield sprinkle(spread(shape, 0, 2).round(), math.nan, math.inf, -math.inf)
    yield sprinkle(spread(shape, -2, 1), math.nan, math.inf, -math.inf, -0.0)
    yield sprinkle(spread(shape, -8, 8), math.nan, math.inf, -math.inf, 0.0)


@pytest.mark.parametrize("dtype", REAL, ids=name_of)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_floats(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    for values in float_values(shape):
        assert_same(values.to(dtype))


@pytest.mark.parametrize("dtype", FLOAT8, ids=name_of)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (30, 40)], ids=str)
def test_float8(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    for values in float_values(shape):
        assert_same(values.float().to(dtype))


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (30, 40)], ids=str)
def test_powers_of_two(shape: tuple[int, ...]) -> None:
    # Nan and the smallest number are left out: torch takes them for a finite number and for zero.
    for low, high in [(-1, 1), (-10, 10), (-3, -1), (0, 3), (7, 10)]:
        assert_same(spread(shape, low, high).abs().float().to(torch.float8_e8m0fnu))


@pytest.mark.parametrize("dtype", COMPLEX, ids=name_of)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_complex(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    parts = list(float_values(shape))
    for real, imag in zip(parts, parts[3:] + parts[:3], strict=True):
        assert_same(torch.complex(real, imag).to(dtype))


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_complex32() -> None:
    for real, imag in [(1.0, 2.0), (1.5, -1.0), (math.nan, -0.0), (1e-3, 1e3)]:
        assert_same(torch.tensor([[complex(real, imag), 1 + 1j]], dtype=torch.complex32))


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED, ids=name_of)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_integers(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    rng = np.random.default_rng(0)
    numpy_dtype = getattr(np, name_of(dtype))
    for low, high in [(0, 9), (0, 100), (max(limits.min, -120), 120), (limits.min, limits.max)]:
        assert_same(torch.from_numpy(np.asarray(rng.integers(low, high, shape, numpy_dtype, endpoint=True))))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bools(shape: tuple[int, ...]) -> None:
    for values in (torch.rand(shape) < 0.5, torch.ones(shape, dtype=torch.bool), torch.zeros(shape, dtype=torch.bool)):
        assert_same(values)


@pytest.mark.parametrize(
    "dtype", [*REAL, *FLOAT8, torch.float8_e8m0fnu, *COMPLEX, *SIGNED, *UNSIGNED, torch.bool], ids=name_of
)
def test_empty_and_meta(dtype: torch.dtype) -> None:
    for default in (torch.float32, torch.float64, torch.bfloat16):
        torch.set_default_dtype(default)
        for shape in EMPTY_SHAPES:
            assert_same(torch.empty(shape, dtype=dtype))
        for shape in [*EMPTY_SHAPES, *SHAPES]:
            assert_same(torch.empty(shape, dtype=dtype, device="meta"))


@pytest.mark.parametrize("default", REAL, ids=name_of)
@pytest.mark.parametrize("dtype", [*REAL, *COMPLEX, torch.int32, torch.int64, torch.bool], ids=name_of)
def test_default_dtype(dtype: torch.dtype, default: torch.dtype) -> None:
    torch.set_default_dtype(default)
    for shape in [(), (3,), (2, 3)]:
        assert_same(torch.ones(shape, dtype=dtype))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_print_options(options: dict[str, Any]) -> None:
    set_both(**options)
    for shape in [(), (3,), (60,), (12, 11), (4, 2, 3), (3, 1, 2, 2, 9), (1100,), (0, 2)]:
        values = list(float_values(shape))
        for value in values[::2]:
            assert_same(value.float())
        assert_same(torch.complex(values[0], values[9]))
        assert_same(values[9].int())
        assert_same(values[0] > 0)
        assert_same(values[1].bfloat16().requires_grad_())
        assert_same(torch.empty(shape, device="meta", dtype=torch.half))


def test_options_accumulate_as_in_torch() -> None:
    for options in OPTIONS:
        set_both(**options)
        assert ours.get_printoptions() == torch_str.get_printoptions()
        with torch_str.printoptions(precision=7, sci_mode=True), ours.printoptions(precision=7, sci_mode=True):
            assert ours.get_printoptions() == torch_str.get_printoptions()
        assert ours.get_printoptions() == torch_str.get_printoptions()


@pytest.mark.parametrize("width", range(30, 121))
def test_suffixes_wrap_at_the_same_column(width: int) -> None:
    set_both(linewidth=width)
    leaf = torch.linspace(0, 1, 5, dtype=torch.float16)
    assert_same(leaf.requires_grad_())
    assert_same(leaf * 2)
    assert_same(leaf.expand(2, 5))
    assert_same(leaf.sum())
    assert_same(torch.empty(2, 3, device="meta", dtype=torch.float64, requires_grad=True))
    assert_same(torch.empty(0, 3, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("count", range(1, 60, 3))
def test_suffixes_follow_a_row_of_any_length(count: int) -> None:
    for dtype in (torch.float32, torch.float64, torch.int8):
        assert_same(torch.arange(count).to(dtype))
    assert_same(torch.rand(count, requires_grad=True))
    assert_same(torch.rand(count, requires_grad=True).neg())


class Named(torch.Tensor):
    """A subclass, whose name stands where "tensor" would."""


class NamedParameter(torch.nn.Parameter):
    """A subclass of Parameter."""


def test_parameters_and_subclasses() -> None:
    data = torch.randn(3, 30)
    for dtype in (torch.float32, torch.float64):
        plain, named = data.to(dtype), data.to(dtype).as_subclass(Named)
        for tensor in (named, torch.nn.Parameter(plain), torch.nn.Parameter(plain, False), NamedParameter(plain)):
            assert_same(tensor)
        # A parameter made of a subclass keeps its class and so the `__repr__` of `Tensor`.
        parameter = torch.nn.Parameter(named)
        assert our_repr(parameter) == repr(parameter)


def outcome(write: Callable[..., str], *arguments: Any, **facts: Any) -> tuple[str, str]:
    """What a call returns or how it refuses, as text."""
    try:
        return "text", write(*arguments, **facts)
    except ValueError as error:
        return "ValueError", str(error)


@pytest.mark.parametrize("spec", ["", ".2f", ".3e", "8", ">12", "<12.3f", "+", "05d", "g", ".0%", "x", "n", "s", "q"])
@pytest.mark.parametrize("dtype", [*REAL, torch.complex64, torch.int64, torch.uint8, torch.bool], ids=name_of)
def test_format_of_a_scalar(dtype: torch.dtype, spec: str) -> None:
    for number in (0, 1, 2.75, 100):
        tensor = torch.tensor(number).to(dtype)
        mine = outcome(ours.format_scalar, array_of(tensor), spec, dtype_name=name_of(dtype))
        assert mine == outcome(format, tensor, spec)


SIZES = [(), (2,), (2, 3), (0, 4), (1, 2, 3, 4, 5)]


@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_size(shape: tuple[int, ...]) -> None:
    mine, theirs = Size(shape), torch.Size(shape)
    assert (repr(mine), str(mine), mine.numel(), hash(mine)) == (
        repr(theirs),
        str(theirs),
        theirs.numel(),
        hash(theirs),
    )
    assert mine == theirs
    for index in (slice(None), slice(1, 3), slice(None, None, -1), slice(5, 9)):
        assert repr(mine[index]) == repr(theirs[index])
    for other in SIZES:
        assert repr(mine + other) == repr(theirs + other)
        assert repr(other + mine) == repr(other + theirs)
    for count in (-1, 0, 1, 3, True):
        assert repr(mine * count) == repr(theirs * count)
        assert repr(count * mine) == repr(count * theirs)


@pytest.mark.parametrize("argument", [5, None, [1.0], ["a"], "23", [1, None], [[1]], 1.5], ids=repr)
def test_size_refuses_what_torch_refuses(argument: Any) -> None:
    with pytest.raises(TypeError) as theirs:
        torch.Size(argument)
    with pytest.raises(TypeError) as mine:
        Size(argument)
    assert str(mine.value) == str(theirs.value)
