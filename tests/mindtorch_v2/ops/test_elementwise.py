"""Elementwise operators: values and derivatives against recorded ones, dtypes, in-place, out=, numbers, errors.

data/elementwise.json holds what torch gave (tests/parity/record_elementwise.py wrote it).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch

ROWS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "elementwise.json").read_text())
POINTS = {
    "LINE": [-1.5, -0.5, 0.25, 0.75, 2.0],
    "ACTIVATION": [-1.5, -0.5, 0.25, 0.75, 2.0],
    "POSITIVE": [0.1, 0.4, 1.3, 2.7, 5.0],
    "UNIT": [-0.9, -0.3, 0.1, 0.5, 0.8],
    "OPEN": [0.05, 0.3, 0.45, 0.6, 0.95],
}
OTHER = [1.25, -0.75, 0.5, -2.0, 1.5]


def evaluate(name: str, dtype: Any = torch.float64, requires_grad: bool = False) -> tuple[Any, list[Any]]:
    """The result of a recorded expression and the tensors it was made of."""
    row = ROWS[name]
    x = torch.tensor(POINTS[row["points"]], dtype=dtype, requires_grad=requires_grad)
    other = OTHER if row["points"] != "POSITIVE" else np.abs(OTHER).tolist()
    y = torch.tensor(other, dtype=dtype, requires_grad=requires_grad)
    count = len(row.get("gradient", [0]))
    result = eval(name, {"torch": torch, "F": torch.nn.functional, "x": x, "y": y})
    return result, [x, y][:count]


def close(got: Any, want: Any, tolerance: float = 1e-8) -> None:
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ROWS)
def test_values(name: str) -> None:
    result, _ = evaluate(name)
    close(result, ROWS[name]["value"])


# Where half precision is elsewhere, in torch too: its 0.4 is a little less, and the remainder jumps.
HALF_VALUES = {"x%0.4": {4: 0.00048828125}}


@pytest.mark.parametrize("name", ROWS)
def test_float32_and_float16_are_as_close_as_they_can_be(name: str) -> None:
    want = np.array(ROWS[name]["value"])
    single, _ = evaluate(name, torch.float32)
    close(single, want, 2e-5)
    half, _ = evaluate(name, torch.float16)
    for place, value in HALF_VALUES.get(name, {}).items():
        want[place] = value
    np.testing.assert_allclose(half.detach().numpy(), want, rtol=4e-2, atol=1e-2)


@pytest.mark.parametrize("name", [n for n in ROWS if "gradient" in ROWS[n]])
def test_first_and_second_derivatives(name: str) -> None:
    result, leaves = evaluate(name, requires_grad=True)
    first = torch.autograd.grad(result.sum(), leaves, create_graph=True, allow_unused=True)
    for got, want in zip(first, ROWS[name]["gradient"], strict=True):
        close(got if got is not None else torch.zeros(5), want if want is not None else np.zeros(5))
    total = sum(g.sum() for g in first if g is not None)
    second = torch.autograd.grad(total, leaves, allow_unused=True) if total.requires_grad else [None] * len(leaves)
    for got, want in zip(second, ROWS[name]["second"], strict=True):
        close(got if got is not None else torch.zeros(5), want if want is not None else np.zeros(5))


# --- dtypes -----------------------------------------------------------------------------------------------------------

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
SHORT = dict(zip("b u i8 i16 i32 i64 h bf f d c cd".split(), DTYPES, strict=True))
# One row for each dtype of the left operand, one column for each of the right.
ADDED = """
b   u   i8  i16 i32 i64 h   bf  f   d   c   cd
u   u   i16 i16 i32 i64 h   bf  f   d   c   cd
i8  i16 i8  i16 i32 i64 h   bf  f   d   c   cd
i16 i16 i16 i16 i32 i64 h   bf  f   d   c   cd
i32 i32 i32 i32 i32 i64 h   bf  f   d   c   cd
i64 i64 i64 i64 i64 i64 h   bf  f   d   c   cd
h   h   h   h   h   h   h   f   f   d   c   cd
bf  bf  bf  bf  bf  bf  f   bf  f   d   c   cd
f   f   f   f   f   f   f   f   f   d   c   cd
d   d   d   d   d   d   d   d   d   d   cd  cd
c   c   c   c   c   c   c   c   c   cd  c   cd
cd  cd  cd  cd  cd  cd  cd  cd  cd  cd  cd  cd
"""
PROMOTED = {
    (a, b): SHORT[short]
    for a, line in zip(DTYPES, ADDED.split("\n")[1:-1], strict=True)
    for b, short in zip(DTYPES, line.split(), strict=True)
}


def ones(dtype: str, *shape: int) -> Any:
    return torch.ones(shape, dtype=getattr(torch, dtype))


@pytest.mark.parametrize("left", DTYPES)
@pytest.mark.parametrize("right", DTYPES)
def test_tensors_are_promoted(left: str, right: str) -> None:
    want = getattr(torch, PROMOTED[left, right])
    assert (ones(left, 2) * ones(right, 2)).dtype is want
    assert (ones(left, 2) == ones(right, 2)).dtype is torch.bool
    assert (ones(left, 2) / ones(right, 2)).dtype is (
        want if want.is_floating_point or want.is_complex else torch.float32
    )


@pytest.mark.parametrize(
    ("dtype", "number", "want"),
    [
        ("bool", True, "bool"),
        ("bool", 2, "int64"),
        ("uint8", 2, "uint8"),
        ("int32", 2.5, "float32"),
        ("float16", 2, "float16"),
        ("bfloat16", 2.5, "bfloat16"),
        ("float64", 2.5, "float64"),
        ("int64", 1j, "complex64"),
        ("float32", 1j, "complex64"),
        ("float64", 1j, "complex128"),
    ],
)
def test_numbers_change_the_kind_only(dtype: str, number: Any, want: str) -> None:
    assert (ones(dtype, 2) + number).dtype is getattr(torch, want)
    assert (number * ones(dtype, 2)).dtype is getattr(torch, want)


def test_0_dim_tensors_count_as_numbers_of_their_kind() -> None:
    assert (ones("float32", 2) * ones("float64")).dtype is torch.float32
    assert (ones("int32", 2) * ones("float64")).dtype is torch.float64
    assert (ones("float32", 2) * ones("complex128")).dtype is torch.complex64
    assert (ones("int8") * ones("int64")).dtype is torch.int64


def test_the_default_dtype_is_what_integers_turn_into() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.arange(3).exp().dtype is torch.float64
        assert (torch.arange(3) / 2).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_integers_wrap_around() -> None:
    assert (torch.tensor([200], dtype=torch.uint8) + 100).item() == 44
    assert (-torch.tensor([1], dtype=torch.uint8)).item() == 255
    assert (torch.tensor([2**62]) * 4).item() == 0


# --- values where kinds or edges matter -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("torch.tensor([7, -7]) // 2", [3, -4]),
        ("torch.tensor([7, -7]) % 3", [1, 2]),
        ("torch.fmod(torch.tensor([7, -7]), 3)", [1, -1]),
        ("torch.div(torch.tensor([7, -7]), 2, rounding_mode='trunc')", [3, -3]),
        ("torch.tensor([7., -7.]) // 2", [3, -4]),
        ("torch.tensor([7., -7.]) % -3", [-2, -1]),
        ("7 // torch.tensor([2, 3])", [3, 2]),
        ("7 % torch.tensor([4, 3])", [3, 1]),
        ("torch.tensor([2, -1, 1]) ** torch.tensor([-1, -3, -2])", [0, -1, 1]),
        ("2 ** torch.arange(4)", [1, 2, 4, 8]),
        ("torch.sign(torch.tensor([float('nan'), -2., 0., 3.]))", [0, -1, 0, 1]),
        ("torch.heaviside(torch.tensor([-1., 0., 2.]), torch.tensor([5., 5., 5.]))", [0, 5, 1]),
        ("torch.clamp(torch.tensor([-1., 0.5, 2.]), 1, 0)", [0, 0, 0]),
        ("torch.arange(3).clamp(0.5)", [0.5, 1, 2]),
        ("torch.arange(3).clamp(1, torch.tensor(1.5))", [1, 1, 1.5]),
        ("torch.add(torch.ones(2), torch.ones(2), alpha=torch.tensor(0.5))", [1.5, 1.5]),
        ("torch.ones(2).addcmul(torch.ones(2), torch.ones(2), value=torch.tensor(2.0))", [3, 3]),
        ("torch.zeros(2).normal_(3.0, torch.tensor(0.0))", [3, 3]),
        ("torch.round(torch.tensor([0.5, 1.5, 2.5, -0.5]))", [0, 2, 2, 0]),
        ("torch.round(torch.tensor([1234.567]), decimals=-2)", [1200]),
        ("torch.bitwise_left_shift(torch.tensor([1, 1]), torch.tensor([3, 64]))", [8, 0]),
        ("torch.tensor([-8, 8]) >> 70", [-1, 0]),
        ("1 << torch.arange(3)", [1, 2, 4]),
        ("~torch.tensor([0, 5])", [-1, -6]),
        ("torch.tensor([6, 5]) & 3", [2, 1]),
        ("3 ^ torch.tensor([6, 5])", [5, 6]),
        ("torch.gcd(torch.tensor([12, 18]), torch.tensor([8, 27]))", [4, 9]),
        ("torch.xlogy(torch.zeros(2), torch.tensor([0., 5.]))", [0, 0]),
        ("torch.nan_to_num(torch.tensor([float('nan'), 1.]), nan=3.)", [3, 1]),
        ("torch.frexp(torch.tensor([6.]))[0]", [0.75]),
        ("torch.frexp(torch.tensor([6.]))[1]", [3]),
        ("torch.angle(torch.tensor([1j, -1 + 0j]))", [np.pi / 2, np.pi]),
        ("torch.polar(torch.tensor([2.]), torch.tensor([0.])).real", [2]),
        ("(torch.tensor([3 + 4j])).abs()", [5]),
        ("torch.sgn(torch.tensor([3 + 4j])).imag", [0.8]),
        ("torch.logical_xor(torch.tensor([1, 0, 2]), torch.tensor([1., 1., 0.]))", [False, True, True]),
        (
            "torch.isclose(torch.tensor([1., 2., float('inf')]), torch.tensor([1. + 1e-9, 2.1, float('inf')]))",
            [1, 0, 1],
        ),
        ("torch.isfinite(torch.tensor([1., float('inf'), float('nan')]))", [1, 0, 0]),
        ("torch.nn.functional.relu(torch.tensor([-1, 2]))", [0, 2]),
    ],
)
def test_values_of_other_kinds(expression: str, want: Any) -> None:
    close(eval(expression), want, 1e-6)


def test_large_arrays_agree_with_small_ones() -> None:
    """Large arrays run in blocks, by other loops than small ones."""
    x = torch.from_numpy(np.linspace(-6, 6, 100_001).astype(np.float32))
    y = torch.from_numpy(np.roll(x.numpy(), 777) + np.float32(0.1))
    functions = [
        torch.sigmoid, torch.expm1, torch.nn.functional.gelu, torch.nn.functional.elu, torch.nn.functional.softplus,
        torch.nn.functional.hardswish, lambda t: t.clamp(-1, 2), torch.relu, lambda t: t % 1.7, lambda t: t // 0.7,
        lambda t: t**3, lambda t: torch.log1p(t.abs()), torch.nn.functional.mish,
    ]  # fmt: skip
    for function in functions:
        parts = torch.cat([function(part) for part in x.split(1000)])
        np.testing.assert_allclose(function(x).numpy(), parts.numpy(), rtol=1e-6, atol=1e-7)
    for function in (
        torch.remainder,
        torch.maximum,
        lambda a, b: torch.lerp(a, b, 0.3),
        lambda a, b: a.add(b, alpha=2),
    ):
        parts = torch.cat([function(a, b) for a, b in zip(x.split(1000), y.split(1000), strict=True)])
        np.testing.assert_allclose(function(x, y).numpy(), parts.numpy(), rtol=1e-6, atol=1e-6)


def test_strided_arrays_agree_with_contiguous_ones() -> None:
    x = torch.from_numpy(np.linspace(-3, 3, 240 * 240).astype(np.float32).reshape(240, 240))
    for function in (torch.sigmoid, torch.nn.functional.gelu, torch.relu, torch.expm1, lambda t: t.clamp(0, 1)):
        np.testing.assert_allclose(function(x.t()).numpy(), function(x.t().contiguous()).numpy(), rtol=1e-6)


# --- operands, in place, out= -----------------------------------------------------------------------------------------


class Metres:
    """Something else that knows what to do with a tensor."""

    def __radd__(self, other: Any) -> str:
        return "radd"

    def __eq__(self, other: object) -> Any:
        return "eq"

    __hash__ = None  # type: ignore[assignment]


def test_foreign_operands_get_their_turn() -> None:
    x = torch.ones(2)
    assert x + Metres() == "radd"
    assert (x == Metres()) == "eq"
    assert (x == None) is False  # noqa: E711
    assert (x != "a") is True
    numbers = [1, 2]
    for operation in (lambda: x + numbers, lambda: x < "a", lambda: x @ 2, lambda: [1] - x, lambda: x**None):
        with pytest.raises(TypeError):
            operation()


def test_numpy_numbers_and_arrays_beside_tensors() -> None:
    x = torch.ones(2)
    assert (x + np.float32(2)).tolist() == [3, 3]
    assert (np.float64(2) * x).dtype is torch.float32
    assert (x + np.ones(2)).dtype is torch.float64


@pytest.mark.parametrize(
    ("statement", "want"),
    [
        ("x += 1", [2, 3]),
        ("x -= y", [-2, -2]),
        ("x *= y", [3, 8]),
        ("x /= 2", [0.5, 1]),
        ("x //= 2", [0, 1]),
        ("x %= 2", [1, 0]),
        ("x **= 2", [1, 4]),
        ("x.add_(y, alpha=2)", [7, 10]),
        ("x.clamp_(min=1.5)", [1.5, 2]),
        ("x.lerp_(y, 0.5)", [2, 3]),
        ("x.addcmul_(y, y, value=2)", [19, 34]),
        ("x.pow_(y)", [1, 16]),
        ("x.gt_(1)", [0, 1]),
        ("x.exp_().log_()", [1, 2]),
        ("torch.relu_(x.neg_())", [0, 0]),
        ("torch.nn.functional.elu(x, inplace=True)", [1, 2]),
    ],
)
def test_in_place(statement: str, want: list[float]) -> None:
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    names = {"x": x, "y": y, "torch": torch}
    exec(statement, names)
    assert names["x"] is x
    close(x, want, 1e-6)
    assert x._version > 0


def test_in_place_keeps_what_backward_needs() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.mul_(y.detach().clone())
    y.exp_()
    y.sum().backward()
    inner = np.array([4.0, 16.0])  # (2x)², whose other factor is a constant
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.array([2.0, 4.0]) * np.exp(inner), rtol=1e-5)


def test_what_was_saved_must_not_change() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("call", ["add(x, 1", "exp(x", "pow(x, 2", "clamp(x, 0, 1", "multiply(x, x", "lerp(x, x, 0.5"])
def test_out(call: str) -> None:
    names = {"torch": torch, "x": torch.tensor([0.5, 2.0]), "o": torch.empty(2, dtype=torch.float64)}
    assert eval(f"torch.{call}, out=o)", names) is names["o"]
    close(names["o"], eval(f"torch.{call})", names).numpy(), 1e-7)


def test_out_is_resized_with_a_warning() -> None:
    o = torch.empty(3)
    with pytest.warns(UserWarning, match="was resized"):
        torch.add(torch.ones(2), 1, out=o)
    assert o.shape == (2,)


def test_0_dim_and_empty() -> None:
    for function in (torch.exp, torch.relu, torch.sigmoid, torch.nn.functional.gelu, lambda t: t + t, lambda t: t % 2):
        assert function(torch.tensor(0.5)).shape == ()
        assert function(torch.empty(0, 3)).shape == (0, 3)
    assert (torch.ones(2, 0, 1) * torch.ones(1, 4)).shape == (2, 0, 4)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "kind", "text"),
    [
        ("torch.ones(2) + torch.ones(3)", RuntimeError, "The size of tensor a (2) must match the size of tensor b (3)"),
        ("b - b", RuntimeError, "with two bool tensors is not supported"),
        ("1 - b", RuntimeError, "with a bool tensor is not supported"),
        ("-b", RuntimeError, "Negation, the `-` operator, on a bool tensor is not supported"),
        ("b // b", NotImplementedError, "\"div_floor_cpu\" not implemented for 'Bool'"),
        ("i // 0", RuntimeError, "ZeroDivisionError"),
        ("i ** -1", RuntimeError, "Integers to negative integer powers are not allowed."),
        ("i.add(i, alpha=1.5)", RuntimeError, "argument alpha must not be a floating point number"),
        ("i.div_(2)", RuntimeError, "result type Float can't be cast to the desired output type Long"),
        ("x.add_(torch.ones(2, 2))", RuntimeError, "doesn't match the broadcast shape [2, 2]"),
        ("x & x", NotImplementedError, "\"bitwise_and_cpu\" not implemented for 'Float'"),
        ("~x", TypeError, "only implemented on integer and Boolean-type tensors"),
        ("x.clamp()", RuntimeError, "At least one of 'min' or 'max' must not be None"),
        ("c < c", NotImplementedError, "\"lt_cpu\" not implemented for 'ComplexFloat'"),
        ("torch.maximum(x, 2)", TypeError, "maximum(): argument 'other' (position 2) must be Tensor, not int"),
        ("torch.exp(2)", TypeError, "exp(): argument 'input' (position 1) must be Tensor, not int"),
        ("torch.relu(b)", RuntimeError, "Boolean inputs not supported for relu"),
        ("F.gelu(i)", NotImplementedError, "\"GeluKernelImpl\" not implemented for 'Long'"),
        ("F.smooth_l1_loss(c, c)", NotImplementedError, "\"smooth_l1_cpu\" not implemented for 'ComplexFloat'"),
        ("F.mse_loss(x, c)", NotImplementedError, "\"mse_cpu\" not implemented for 'ComplexFloat'"),
        ("F.huber_loss(b, b)", NotImplementedError, "\"huber_cpu\" not implemented for 'Bool'"),
        ("F.gelu(x, approximate='no')", RuntimeError, "approximate argument must be either none or tanh."),
        ("F.glu(torch.ones(3))", RuntimeError, "Halving dimension must be even, but dimension 0 is size 3"),
        ("F.celu(x, 0)", RuntimeError, "alpha cannot be 0 for CELU"),
        ("x.lerp(x.double(), 0.5)", RuntimeError, "expected dtype float for `end` but got dtype double"),
        ("torch.addcdiv(i, i, i)", RuntimeError, "Integer division with addcdiv is no longer supported"),
        ("torch.div(x, 2, rounding_mode='up')", RuntimeError, "one of None, 'trunc', or 'floor' but found 'up'"),
        ("torch.polygamma(-1, x)", RuntimeError, "does not support negative n"),
        ("torch.complex(i, i)", RuntimeError, "Half, Float or Double tensors but got Long and Long"),
        ("torch.isclose(x, x.double())", RuntimeError, "Float did not match Double"),
        ("torch.add(x.requires_grad_(), 1, out=torch.empty(2))", RuntimeError, "don't support automatic"),
    ],
)
def test_errors(expression: str, kind: type[Exception], text: str) -> None:
    names = {"torch": torch, "F": torch.nn.functional, "x": torch.ones(2), "i": torch.arange(2),
             "b": torch.tensor([True, False]), "c": torch.ones(2, dtype=torch.complex64)}  # fmt: skip
    with pytest.raises(kind) as caught:
        eval(expression, names)
    assert text in str(caught.value)


def test_no_derivative_is_said_when_asked_for() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x // 2
    assert y.requires_grad
    with pytest.raises(NotImplementedError, match="derivative for aten::floor_divide is not implemented"):
        y.sum().backward()
