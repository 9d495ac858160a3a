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
