"""The text of tensors, literal by literal as torch writes it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mindtorch_v2
from mindtorch_v2.core.printing import (
    PARAMETER_HEADING,
    format_scalar,
    get_printoptions,
    printoptions,
    set_printoptions,
    tensor_repr,
)

DEFAULTS = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}


@pytest.fixture(autouse=True)
def _default_options() -> Iterator[None]:
    yield
    set_printoptions(profile="default")


def text(values: Any, dtype_name: str = "float32", **facts: Any) -> str:
    dtype = getattr(ml_dtypes, dtype_name, None) or np.dtype(dtype_name)
    return tensor_repr(np.asarray(values, dtype=dtype), dtype_name=dtype_name, **facts)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (1.5, "tensor(1.5000)"),
        ([1.0, 2.0], "tensor([1., 2.])"),
        ([1.0, -2.5], "tensor([ 1.0000, -2.5000])"),
        ([0.0, -0.0], "tensor([0., -0.])"),
        ([-0.0, 1.5], "tensor([-0.0000, 1.5000])"),
        ([1.0, math.nan, math.inf, -math.inf], "tensor([1., nan, inf, -inf])"),
        ([0.5, math.nan, -math.inf], "tensor([0.5000,    nan,   -inf])"),
        ([math.nan, math.nan], "tensor([nan, nan])"),
        ([1.0, 1001.0], "tensor([1.0000e+00, 1.0010e+03])"),
        ([1.0, 1000.0], "tensor([   1., 1000.])"),
        ([1e8], "tensor([100000000.])"),
        ([1e-4], "tensor([1.0000e-04])"),
        ([2e8, 1e8], "tensor([2.0000e+08, 1.0000e+08])"),
        ([9e-5, 0.0], "tensor([9.0000e-05, 0.0000e+00])"),
    ],
)
def test_float_notation(values: Any, expected: str) -> None:
    assert text(values) == expected


@pytest.mark.parametrize(
    ("values", "dtype_name", "expected"),
    [
        ([1, -20], "int64", "tensor([  1, -20])"),
        (3, "int64", "tensor(3)"),
        ([1, 2], "uint8", "tensor([1, 2], dtype=torch.uint8)"),
        ([2**64 - 1, 0], "uint64", "tensor([18446744073709551615,                    0], dtype=torch.uint64)"),
        ([True, False], "bool", "tensor([ True, False])"),
        ([1.1], "float16", "tensor([1.0996], dtype=torch.float16)"),
        ([1.1], "bfloat16", "tensor([1.1016], dtype=torch.bfloat16)"),
        ([1.5, 448], "float8_e4m3fn", "tensor([  1.5000, 448.0000], dtype=torch.float8_e4m3fn)"),
        ([1.1], "float64", "tensor([1.1000], dtype=torch.float64)"),
        ([1 + 2j, 3.5 - 1j], "complex64", "tensor([1.0000+2.j, 3.5000-1.j])"),
        (complex(-0.0, -0.0), "complex64", "tensor(-0.-0.j)"),
        ([1 + 2j], "complex128", "tensor([1.+2.j], dtype=torch.complex128)"),
        ([complex(math.nan, math.inf)], "complex64", "tensor([nan+infj])"),
    ],
)
def test_dtypes(values: Any, dtype_name: str, expected: str) -> None:
    assert text(values, dtype_name) == expected


@pytest.mark.parametrize(
    ("dtype_name", "default", "expected"),
    [
        ("float64", "float64", "tensor([1.])"),
        ("float32", "float64", "tensor([1.], dtype=torch.float32)"),
        ("complex128", "float64", "tensor([1.+0.j])"),
        ("complex64", "float64", "tensor([1.+0.j], dtype=torch.complex64)"),
        ("complex64", "bfloat16", "tensor([1.+0.j])"),
    ],
)
def test_default_dtype_is_not_shown(dtype_name: str, default: str, expected: str) -> None:
    assert text([1], dtype_name, default_dtype_name=default) == expected


@pytest.mark.parametrize(
    ("shape", "dtype_name", "expected"),
    [
        ((0,), "float32", "tensor([])"),
        ((0, 3), "float32", "tensor([], size=(0, 3))"),
        ((0,), "int64", "tensor([], dtype=torch.int64)"),
        ((2, 0), "bool", "tensor([], size=(2, 0), dtype=torch.bool)"),
    ],
)
def test_empty(shape: tuple[int, ...], dtype_name: str, expected: str) -> None:
    assert text(np.zeros(shape), dtype_name) == expected


@pytest.mark.parametrize(
    ("shape", "facts", "expected"),
    [
        ((2, 3), {}, "tensor(..., device='meta', size=(2, 3))"),
        ((), {"dtype_name": "int64"}, "tensor(..., device='meta', size=(), dtype=torch.int64)"),
        (
            (0, 3),
            {"dtype_name": "float16", "requires_grad": True},
            "tensor(..., device='meta', size=(0, 3), dtype=torch.float16,\n       requires_grad=True)",
        ),
    ],
)
def test_meta(shape: tuple[int, ...], facts: dict[str, Any], expected: str) -> None:
    assert tensor_repr(np.zeros(shape), device="meta", **{"dtype_name": "float32", **facts}) == expected


def test_other_devices_are_named_and_cpu_is_not() -> None:
    assert text([1.0], device="npu:0") == "tensor([1.], device='npu:0')"
    assert text([1.0], device="cpu:0") == "tensor([1.])"


def test_nested_brackets() -> None:
    assert text(np.arange(4).reshape(2, 2), "int64") == "tensor([[0, 1],\n        [2, 3]])"
    assert text(np.arange(4).reshape(2, 1, 2), "int64") == "tensor([[[0, 1]],\n\n        [[2, 3]]])"
    assert text(np.arange(2).reshape(2, 1, 1, 1), "int64") == "tensor([[[[0]]],\n\n\n        [[[1]]]])"


def test_long_rows_wrap() -> None:
    expected = (
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19, 20, 21, 22, 23, 24])"
    )
    assert text(np.arange(25), "int64") == expected


def test_large_tensors_show_their_edges() -> None:
    assert text(np.arange(1001), "int64") == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    expected = (
        "tensor([[   0,    1],\n"
        "        [   2,    3],\n"
        "        [   4,    5],\n"
        "        ...,\n"
        "        [1994, 1995],\n"
        "        [1996, 1997],\n"
        "        [1998, 1999]])"
    )
    assert text(np.arange(2000).reshape(1000, 2), "int64") == expected


def test_a_summary_chooses_its_notation_by_what_it_shows() -> None:
    values = np.ones(1001)
    values[500] = 1e-9
    assert text(values) == "tensor([1., 1., 1.,  ..., 1., 1., 1.])"


def test_no_edgeitems_leave_dots_and_a_size() -> None:
    set_printoptions(edgeitems=0, threshold=3)
    assert text([[1.0, 2.0], [3.0, 4.0]]) == "tensor([...], size=(2, 2))"
    assert text([1.0, 2.0]) == "tensor([1., 2.], size=(2,))"


def test_strided_arrays_print_in_index_order() -> None:
    assert tensor_repr(np.arange(4).reshape(2, 2).T[::-1], dtype_name="int64") == "tensor([[1, 3],\n        [0, 2]])"


def test_grad_suffixes() -> None:
    assert text([1.0], requires_grad=True) == "tensor([1.], requires_grad=True)"
    assert text([1.0], requires_grad=True, grad_fn_name="AddBackward0") == "tensor([1.], grad_fn=<AddBackward0>)"


def test_suffixes_wrap_when_the_line_is_full() -> None:
    facts = {"requires_grad": True, "dtype_name": "float64"}
    with printoptions(linewidth=55):
        assert text([0.5, 0.25], **facts) == "tensor([0.5000, 0.2500], dtype=torch.float64,\n       requires_grad=True)"
    with printoptions(linewidth=30):
        wrapped = "tensor([0.5000, 0.2500],\n       dtype=torch.float64,\n       requires_grad=True)"
        assert text([0.5, 0.25], **facts) == wrapped


def test_parameters_and_subclasses() -> None:
    assert text([[1.0], [2.0]], class_name="Named") == "Named([[1.],\n       [2.]])"
    assert text([1.0], class_name="Named", is_parameter=True) == "Parameter(Named([1.]))"
    plain = PARAMETER_HEADING + text([1.0], is_parameter=True, requires_grad=True)
    assert plain == "Parameter containing:\ntensor([1.], requires_grad=True)"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"precision": 2}, "tensor([ 0.12, 12.35])"),
        ({"precision": 0}, "tensor([ 0, 12])"),
        ({"profile": "short"}, "tensor([ 0.12, 12.35])"),
        ({"profile": "short", "precision": 1}, "tensor([ 0.1, 12.3])"),
        ({"sci_mode": True}, "tensor([1.2346e-01, 1.2346e+01])"),
    ],
)
def test_print_options(options: dict[str, Any], expected: str) -> None:
    set_printoptions(**options)
    assert text([0.123456, 12.3456]) == expected


def test_sci_mode_off() -> None:
    set_printoptions(sci_mode=False)
    assert text([1e-6, 1e6]) == "tensor([      0.0000, 1000000.0000])"


def test_full_profile_never_summarises() -> None:
    set_printoptions(profile="full")
    assert "..." not in text(np.arange(1001), "int64")


def test_get_printoptions_round_trips() -> None:
    assert get_printoptions() == DEFAULTS
    set_printoptions(precision=2, sci_mode=True)
    assert get_printoptions() == DEFAULTS | {"precision": 2, "sci_mode": True}
    set_printoptions(linewidth=100)
    assert get_printoptions() == DEFAULTS | {"precision": 2, "linewidth": 100}


def test_printoptions_restores_after_an_error() -> None:
    with pytest.raises(KeyError), printoptions(precision=1, sci_mode=True):
        raise KeyError
    assert get_printoptions() == DEFAULTS


def test_printoptions_hold_inside_the_block() -> None:
    with printoptions(precision=1, sci_mode=True):
        assert get_printoptions() == DEFAULTS | {"precision": 1, "sci_mode": True}


@pytest.mark.parametrize(
    ("value", "dtype_name", "spec", "expected"),
    [
        (1.5, "float32", ".2f", "1.50"),
        (1.1, "float32", "", "1.100000023841858"),
        (1.1, "bfloat16", "", "1.1015625"),
        (3, "int64", "05d", "00003"),
        (True, "bool", "", "True"),
        (True, "bool", ">4", "   1"),
        (1 + 2j, "complex64", ".2f", "1.00+2.00j"),
    ],
)
def test_format_scalar(value: Any, dtype_name: str, spec: str, expected: str) -> None:
    dtype = getattr(ml_dtypes, dtype_name, None) or np.dtype(dtype_name)
    assert format_scalar(np.asarray(value, dtype=dtype), spec, dtype_name=dtype_name) == expected


def test_a_thousand_elements_are_printed_in_full_and_one_more_is_not() -> None:
    assert "..." not in repr(mindtorch_v2.arange(1000))
    assert "..." in repr(mindtorch_v2.arange(1001))
