"""Python numbers that do not fit the elements they are to become are refused, as torch refuses them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.profiler import profile

FIRST = torch.tensor([0])
STORES: dict[str, Callable[[Any, Any], Any]] = {
    "index_fill": lambda x, value: x.index_fill(0, FIRST, value),
    "index_fill_": lambda x, value: x.index_fill_(0, FIRST, value),
    "scatter": lambda x, value: x.scatter(0, FIRST, value),
    "scatter_": lambda x, value: x.scatter_(0, FIRST, value),
    "where": lambda x, value: torch.where(x > 1, x, value),
    "where, first": lambda x, value: torch.where(x > 1, value, x),
    "pad": lambda x, value: torch.nn.functional.pad(x, (1, 1), value=value),
    "masked_fill": lambda x, value: x.masked_fill(x > 1, value),
    "full_like": lambda x, value: torch.full_like(x, value),
    "new_full": lambda x, value: x.new_full((2,), value),
    "full": lambda x, value: torch.full((2,), value, dtype=x.dtype),
    "fill_": lambda x, value: x.fill_(value),
    "assignment": lambda x, value: x.__setitem__(0, value),
}
REFUSED = [
    ("float32", 1e39, "float"),
    ("float32", -1e300, "float"),
    ("int32", 2**40, "int"),
    ("int8", 300, "int8_t"),
    ("uint8", -256, "uint8_t"),
]


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(("dtype", "value", "name"), REFUSED)
@pytest.mark.parametrize("store", STORES)
def test_a_number_that_does_not_fit_is_refused(store: str, dtype: str, value: Any, name: str, recorded: bool) -> None:
    x = torch.tensor([1, 2, 3], dtype=getattr(torch, dtype))
    refused = pytest.raises(RuntimeError, match=f"value cannot be converted to type {name} without overflow")
    with profile() if recorded else torch.enable_grad(), refused:
        STORES[store](x, value)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 3e38])
def test_infinities_and_nan_fit_floats(store: str, value: float) -> None:
    x = torch.tensor([1.0, 2.0, 3.0])
    made = STORES[store](x, value)
    assert str(value) in str(x.tolist() if made is None else made.tolist()) or value == 3e38


@pytest.mark.parametrize("store", [name for name in STORES if name not in ("where", "where, first", "pad")])
def test_nan_fits_no_integer(store: str) -> None:
    with pytest.raises(RuntimeError, match="value cannot be converted to type int64_t without overflow"):
        STORES[store](torch.tensor([1, 2, 3]), math.nan)


def test_negative_integers_wrap_around_in_unsigned_elements() -> None:
    assert torch.full((1,), -1, dtype=torch.uint8).item() == 255
    assert torch.zeros(1, dtype=torch.uint8).index_fill(0, FIRST, -255).item() == 1


def test_both_parts_of_a_complex_number_must_fit() -> None:
    with pytest.raises(RuntimeError, match="type c10::complex<float> without overflow"):
        torch.full((1,), complex(0, 1e39), dtype=torch.complex64)
    assert torch.full((1,), complex(2, 0), dtype=torch.int64).item() == 2


def test_integers_beyond_64_bits_are_refused_whatever_the_elements() -> None:
    with pytest.raises(OverflowError, match="int too big to convert"):
        torch.full((1,), 2**64, dtype=torch.float64)
    with pytest.raises(OverflowError, match="can't convert negative int to unsigned"):
        torch.zeros(1).fill_(-(2**70))


def test_no_tensor_of_integers_is_made_of_nan() -> None:
    with pytest.raises(RuntimeError, match="value cannot be converted to type int64 without overflow"):
        torch.tensor([1.0, math.nan], dtype=torch.int64)


def test_least_squares_of_infinities_end() -> None:
    a = torch.tensor([[0.4, 88.8, 1.0], [0.5, -0.3, 0.6], [math.inf, 0.2, 0.7], [0.5, 0.0, 0.03]])
    with pytest.raises(torch.linalg.LinAlgError, match="non-finite values"):
        torch.linalg.lstsq(a, a)
