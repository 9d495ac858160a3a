"""Tensors from Python data: dtypes found and asked for, elements that are tensors, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch


@pytest.mark.parametrize(
    ("data", "dtype", "values"),
    [
        ([torch.tensor(1.0), torch.tensor(2)], torch.float32, [1.0, 2.0]),
        ([1.5, torch.tensor(2)], torch.float32, [1.5, 2.0]),
        ([[torch.tensor(1.0), 2], [3, 4]], torch.float32, [[1.0, 2.0], [3.0, 4.0]]),
        ([torch.tensor([1.0])], torch.float32, [1.0]),
        ([torch.tensor(1.0, dtype=torch.float64)], torch.float64, [1.0]),
        ([torch.tensor(1 + 2j), 1], torch.complex64, [1 + 2j, 1]),
    ],
)
def test_tensors_among_the_elements_count_as_numbers(data: Any, dtype: Any, values: Any) -> None:
    made = torch.tensor(data)
    assert made.dtype is dtype
    assert made.tolist() == values


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        ([torch.tensor([1.0, 2.0])], ValueError, "only one element tensors"),
        (["a"], ValueError, "too many dimensions 'str'"),
        ("a", TypeError, "invalid data type 'str'"),
        ([1, "a"], TypeError, "invalid data type 'str'"),
        ([1, None], RuntimeError, "Could not infer dtype of NoneType"),
        ([[1, 2], 3], TypeError, "not a sequence"),
        ([1, [2]], TypeError, "'list' object cannot be interpreted as an integer"),
        ([1.0, [2]], TypeError, "must be real number, not list"),
        ([[1, 2], [3]], ValueError, r"expected sequence of length 2 at dim 1 \(got 1\)"),
        ([[[1]], [[2, 3]]], ValueError, r"expected sequence of length 1 at dim 2 \(got 2\)"),
        ([2**63], ValueError, "Overflow when unpacking long long"),
        ([2**70], ValueError, "Overflow when unpacking long long"),
    ],
)
def test_data_that_makes_no_tensor_is_refused(data: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        torch.tensor(data)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(300, torch.uint8), (-300, torch.uint8), (300, torch.int8), (40000, torch.int16), (1e30, torch.int64)],
)
def test_numbers_without_room_in_the_dtype_are_refused(value: float, dtype: Any) -> None:
    with pytest.raises(RuntimeError, match=f"value cannot be converted to type {dtype.name} without overflow"):
        torch.tensor([value], dtype=dtype)


def test_complex_numbers_are_not_cut_to_real_ones() -> None:
    with pytest.raises(TypeError, match="must be real number, not complex"):
        torch.tensor([1 + 1j], dtype=torch.float32)
    assert torch.tensor([-1], dtype=torch.uint8).tolist() == [255]


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.zeros(2, dtype=d),
        lambda d: torch.empty(2, dtype=d),
        lambda d: torch.full((2,), 1, dtype=d),
        lambda d: torch.arange(3, dtype=d),
        lambda d: torch.eye(2, dtype=d),
        lambda d: torch.tensor([1], dtype=d),
        lambda d: torch.as_tensor([1], dtype=d),
        lambda d: torch.ones(2).to(d),
        lambda d: torch.ones(2).to(dtype=d),
        lambda d: torch.zeros_like(torch.ones(2), dtype=d),
        lambda d: torch.ones(2).new_zeros(2, dtype=d),
        lambda d: torch.ones(2).sum(dtype=d),
    ],
)
@pytest.mark.parametrize(("given", "dtype"), [(float, torch.float64), (int, torch.int64)])
def test_pythons_types_stand_for_dtypes(make: Any, given: type, dtype: Any) -> None:
    assert make(given).dtype is dtype


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: torch.zeros(), "missing 1 required positional arguments"),
        (lambda: torch.zeros("a"), r"zeros\(\): argument 'size' \(position 1\) must be tuple of ints, not str"),
        (lambda: torch.ones(2.5), r"ones\(\): argument 'size' \(position 1\) must be tuple of ints, not float"),
        (lambda: torch.zeros((2, 2.5)), "failed to unpack the object at pos 2"),
    ],
)
def test_sizes_are_ints(call: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call()
    assert torch.zeros(()).shape == torch.zeros(size=()).shape == ()


@pytest.mark.parametrize("number", [int, float, complex])
def test_only_one_element_makes_a_number(number: type) -> None:
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
        number(torch.zeros(5))


def test_limits_print_as_torchs_do() -> None:
    assert repr(torch.iinfo(torch.int64)) == "iinfo(min=-9.22337e+18, max=9.22337e+18, dtype=int64)"
    assert torch.finfo(torch.float16).resolution == 0.001
    assert torch.finfo(torch.bfloat16).resolution == 0.01
    with pytest.raises(TypeError, match="is not supported by"):
        torch.iinfo(torch.bool)


def test_a_0_dim_tensor_has_no_other_elements() -> None:
    x = torch.tensor(1.0)
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        x[0]
    with pytest.raises(IndexError, match="index 1 is out of bounds for dimension 0 with size 0"):
        x[1]
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 0"):
        x[0,]


@pytest.mark.parametrize("make", [torch.tensor, torch.as_tensor, torch.asarray])
def test_arrays_keep_the_order_in_which_they_lie(make: Any) -> None:
    assert make(np.ones((2, 3)).T).stride() == (1, 3)
    assert make(np.ones((2, 3)).T, dtype=torch.float16).stride() == (1, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int32, torch.bool])
def test_a_spread_tensor_is_converted_to_one_without_gaps(dtype: Any) -> None:
    x = torch.ones(3).expand(2, 3)
    assert x.to(dtype, copy=True).stride() == (3, 1)
    assert x.to(dtype, copy=True).view(-1).tolist() == [1] * 6


@pytest.mark.parametrize("make", [torch.tensor, torch.as_tensor, torch.asarray, torch.from_numpy])
@pytest.mark.parametrize(
    ("array", "text"),
    [(np.ones(3)[::-1], "stride in the given numpy array is negative"), (np.ones(3, ">f4"), "byte order")],
)
def test_arrays_no_tensor_can_look_at_are_refused(make: Any, array: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make(array)


# --- out= -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda out: torch.mm(torch.ones(2, 2), torch.ones(2, 2), out=out),
        lambda out: torch.addmm(torch.ones(2), torch.ones(2, 2), torch.ones(2, 2), out=out),
        lambda out: torch.tril(torch.ones(2, 2), out=out),
        lambda out: torch.max(torch.ones(3, 2, 2), 0, out=(out, torch.zeros(2, 2, dtype=torch.int64))),
    ],
)
def test_out_of_another_dtype_is_refused(call: Any) -> None:
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got double instead"):
        call(torch.zeros(2, 2, dtype=torch.float64))


def test_indices_are_long() -> None:
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype long int, but got float instead"):
        torch.sort(torch.ones(3), out=(torch.zeros(3), torch.zeros(3)))


@pytest.mark.parametrize("function", [torch.sum, torch.prod, torch.cumsum, torch.cumprod])
def test_sums_and_products_compute_in_the_dtype_of_out(function: Any) -> None:
    x = torch.full((2, 3), 1.5)
    out = torch.zeros((2, 3) if function in (torch.cumsum, torch.cumprod) else (3,), dtype=torch.int64)
    assert function(x, 0, out=out).tolist() == function(x, 0, dtype=torch.int64).tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda x, out: torch.std(x, out=out),
        lambda x, out: torch.std(x, 0, out=out),
        lambda x, out: torch.matmul(x, x, out=out),
        lambda x, out: torch.hstack([x, x], out=out),
        lambda x, out: torch.linalg.svdvals(x, out=out),
    ],
)
def test_out_takes_no_part_in_a_graph(call: Any) -> None:
    x, out = torch.eye(3), torch.empty(0)
    assert call(x, out) is out
    for given, written in ((x.clone().requires_grad_(), out), (x, torch.empty(0).requires_grad_())):
        with pytest.raises(RuntimeError, match=r"functions with out=\.\.\. arguments don't support automatic diff"):
            call(given, written)


def test_out_is_a_tensor() -> None:
    for call in (torch.exp, torch.matmul):
        with pytest.raises(TypeError, match="argument 'out' must be Tensor, not int"):
            call(*[torch.eye(2)] * (1 + (call is torch.matmul)), out=3)
