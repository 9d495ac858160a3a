"""Corners of single operators, found by comparing random calls with torch: odd dtypes, shared places, what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.profiler import profile

RECORDED: list[Callable[[], AbstractContextManager[Any]]] = [torch.enable_grad, profile]


# --- writing in place -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call", [lambda x: x.add_(1), lambda x: x.mul_(x.clone()), lambda x: x.cos_(), lambda x: x.logical_not_()]
)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad, profile])
def test_nothing_is_written_where_elements_share_a_place(call: Any, mode: Any) -> None:
    with mode():
        expanded = torch.ones(1).expand(5)
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            call(expanded)
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            call(expanded.detach())


@pytest.mark.parametrize("name", ["deg2rad_", "rad2deg_", "logit_", "cos_"])
@pytest.mark.parametrize("recorded", RECORDED)
def test_integers_do_not_become_floats_in_place(name: str, recorded: Any) -> None:
    x = torch.tensor([1, 0], dtype=torch.uint8)
    with (
        recorded(),
        pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Byte"),
    ):
        getattr(x, name)()


@pytest.mark.parametrize("recorded", RECORDED)
def test_complex_degrees_are_refused(recorded: Any) -> None:
    with recorded(), pytest.raises(RuntimeError, match="deg2rad is not supported for complex tensors"):
        torch.deg2rad(torch.ones(2, dtype=torch.complex64))


@pytest.mark.parametrize("recorded", RECORDED)
def test_celu_needs_a_scale(recorded: Any) -> None:
    with recorded(), pytest.raises(RuntimeError, match="alpha cannot be 0 for CELU"):
        torch.celu(torch.ones(2), 0.0)


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "most"), [(torch.float16, 65504.0), (torch.bfloat16, 3.3895313892515355e38)])
def test_infinities_become_the_greatest_number_of_their_type(dtype: torch.dtype, most: float) -> None:
    x = torch.tensor([math.inf, -math.inf, math.nan, 1.0], dtype=dtype)
    assert torch.nan_to_num(x).tolist() == [most, -most, 0.0, 1.0]


def test_tensordot_of_integers_keeps_their_type_where_a_dimension_is_summed_first() -> None:
    made = torch.tensordot(
        torch.ones(1, 1, 1, dtype=torch.uint8), torch.ones(2, 1, 2, dtype=torch.uint8), ([0, 1], [2, 0])
    )
    assert made.dtype is torch.uint8
    assert made.tolist() == [[4]]


def test_logspace_of_integers_has_whole_exponents_at_its_ends() -> None:
    assert torch.logspace(0, 1.2, 4, dtype=torch.int64).tolist() == [1, 2, 4, 10]


def test_quantiles_of_a_number_have_no_dimension_to_keep() -> None:
    x = torch.tensor(3.0)
    assert torch.quantile(x, torch.tensor([0.2, 0.5]), dim=0, keepdim=True).shape == (2,)
    assert torch.quantile(x, 0.2, dim=0, keepdim=True).shape == ()


@pytest.mark.parametrize("decimals", [400, -400])
def test_rounding_to_more_decimals_than_there_are_gives_nan(decimals: int) -> None:
    assert torch.round(torch.tensor([1.5]), decimals=decimals).isnan().all()


# --- recorded or not --------------------------------------------------------------------------------------------------


def _bits(call: Callable[..., Any], shapes: tuple[tuple[int, ...], ...], mode: Any) -> list[bytes]:
    """A result and the gradients of what it was made from, bit by bit."""
    torch.manual_seed(3)
    inputs = [torch.rand(*shape).add(0.01).requires_grad_() for shape in shapes]
    with mode():
        result = call(*inputs)
        result.backward(torch.full_like(result, 0.1))
    return [t.numpy().tobytes() for t in (result.detach(), *(x.grad for x in inputs if x.grad is not None))]


LOSSES: list[Callable[..., Any]] = [
    getattr(torch.nn.functional, name) for name in "mse_loss l1_loss huber_loss smooth_l1_loss soft_margin_loss".split()
]


@pytest.mark.parametrize("n", [14, 59, 300, 5000])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_losses_are_the_same_to_the_last_bit_while_recorded(loss: Any, reduction: str, n: int) -> None:
    def call(x: Any, y: Any) -> Any:
        return loss(x * 1.09, y.detach() * 0.99, reduction=reduction)

    assert _bits(call, ((n,), (n,)), profile) == _bits(call, ((n,), (n,)), torch.enable_grad)


@pytest.mark.parametrize("n", [14, 59, 300, 5000])
@pytest.mark.parametrize("shape", [(1,), (3,)])
def test_gradients_of_what_was_spread_are_the_same_to_the_last_bit_while_recorded(shape: tuple[int], n: int) -> None:
    shapes = ((n, 3), shape)
    assert _bits(torch.mul, shapes, profile) == _bits(torch.mul, shapes, torch.enable_grad)


@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("dim", [0, 1])
def test_deviations_are_the_same_to_the_last_bit_while_recorded(name: str, dim: int) -> None:
    def call(x: Any) -> Any:
        return getattr(x, name)(dim)

    assert _bits(call, ((17, 23),), profile) == _bits(call, ((17, 23),), torch.enable_grad)


@pytest.mark.parametrize("width", [3, 6])
def test_windows_of_padding_alone_have_no_gradient_to_give(width: int) -> None:
    x = torch.arange(6.0 * width).reshape(1, 2, 3, width).requires_grad_()
    largest = torch.nn.functional.max_pool2d(x, 2, stride=1, padding=1, dilation=4)
    assert (largest == -math.inf).all()
    largest.sum().backward()
    assert x.grad.count_nonzero() == 0


@pytest.mark.parametrize("name", ["max", "min"])
def test_nan_is_the_extreme_that_has_the_gradient(name: str) -> None:
    x = torch.tensor([math.nan, 1.0, math.nan], requires_grad=True)
    getattr(x, name)().backward()
    assert x.grad.tolist() == [0.5, 0.0, 0.5]


def test_an_infinite_log_sum_has_the_gradient_of_its_formula() -> None:
    x = torch.tensor([math.inf, 1.0, 2.0], requires_grad=True)
    x.logsumexp(0).backward()
    assert x.grad[0].isnan()
    assert x.grad[1:].tolist() == [0.0, 0.0]


def test_operands_are_rounded_to_sixteen_bits_before_they_are_added() -> None:
    x = torch.tensor([1.0, 2.5], dtype=torch.bfloat16)
    assert (x + torch.tensor([257, 1001])).tolist() == [256.0, 1004.0]
    assert (x - 257.3).tolist() == [-256.0, -256.0]
    assert (x * 257.3).tolist() == [258.0, 644.0]


def test_real_tensors_are_their_own_conjugates() -> None:
    assert torch.tensor([True]).conj_physical_().tolist() == [True]
