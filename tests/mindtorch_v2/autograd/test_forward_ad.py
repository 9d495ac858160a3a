"""Dual tensors: values that carry a tangent along."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.autograd import forward_ad


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda d: d * d, [0.0, 4.0]),
        (torch.sin, [1.0, 2 * math.cos(1.0)]),
        (lambda d: d + 1, [1.0, 2.0]),
        (lambda d: d.sum(), 3.0),
        (lambda d: d.max(), 2.0),
        (lambda d: d.view(2, 1) @ d.view(1, 2), [[0.0, 1.0], [1.0, 4.0]]),
    ],
)
def test_results_have_the_tangent_of_the_derivative(
    function: Callable[[torch.Tensor], torch.Tensor], expected: object
) -> None:
    x, direction = torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0])
    with forward_ad.dual_level():
        primal, tangent = forward_ad.unpack_dual(function(forward_ad.make_dual(x, direction)))
    assert torch.equal(primal, function(x))
    assert torch.allclose(tangent, torch.tensor(expected))


def test_tangents_of_two_inputs_add_up() -> None:
    with forward_ad.dual_level():
        a = forward_ad.make_dual(torch.tensor(2.0), torch.tensor(1.0))
        b = forward_ad.make_dual(torch.tensor(3.0), torch.tensor(10.0))
        assert forward_ad.unpack_dual(a * b).tangent.item() == 23.0
        assert forward_ad.unpack_dual(a).tangent.item() == 1.0


def test_what_comes_from_no_dual_tensor_has_no_tangent() -> None:
    x = torch.ones(2)
    with forward_ad.dual_level():
        forward_ad.make_dual(x, x)
        assert forward_ad.unpack_dual(x * 2).tangent is None
    assert forward_ad.unpack_dual(x).tangent is None


def test_what_is_no_dual_tensor_is_refused() -> None:
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(x, x)
    with forward_ad.dual_level():
        with pytest.raises(ValueError, match="Expected primal to be floating point or complex"):
            forward_ad.make_dual(x.long(), x)
        with pytest.raises(RuntimeError, match="different size than that of the original Tensor"):
            forward_ad.make_dual(x, torch.ones(3))


class Tripled(torch.autograd.Function):
    """A function whose jvp says something else than its backward, so that tests see which of them was asked."""

    @staticmethod
    def forward(ctx, x, factor, y):
        ctx.save_for_backward(y)
        ctx.save_for_forward(x)
        return x * factor, y * 1

    @staticmethod
    def backward(ctx, g, h):
        return g, None, h

    @staticmethod
    def jvp(ctx, x, factor, y):
        assert factor is None
        (value,) = ctx.saved_tensors
        return x * 3 + value, y


def test_tangents_of_a_custom_function_are_its_jvp() -> None:
    x, y = torch.tensor([1.0, 2.0]), torch.ones(2)
    with forward_ad.dual_level():
        first, second = Tripled.apply(forward_ad.make_dual(x, torch.tensor([10.0, 20.0])), 5, y)
        assert forward_ad.unpack_dual(first * 2).tangent.tolist() == [62, 124]
        assert forward_ad.unpack_dual(second).tangent.tolist() == [0, 0]
    _, tangents = torch.func.jvp(lambda a, b: Tripled.apply(a, 5, b), (x, y), (y, y * 7))
    assert [t.tolist() for t in tangents] == [[4, 5], [7, 7]]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ((torch.ones(2),), "invalid number of forward gradients \\(expected 2 but got 1\\)"),
        ((torch.ones(2), torch.ones(5)), "a forward gradient that has a different size"),
        ((3, None), "expected Variable or None \\(got int\\) for grad output 0"),
    ],
)
def test_what_a_jvp_returns_is_checked(result, text: str) -> None:
    class Off(Tripled):
        @staticmethod
        def jvp(ctx, *tangents):
            return result

    with forward_ad.dual_level(), pytest.raises(RuntimeError, match=text):
        forward_ad.unpack_dual(Off.apply(forward_ad.make_dual(torch.ones(2), torch.ones(2)), 1, torch.ones(2))[0])
