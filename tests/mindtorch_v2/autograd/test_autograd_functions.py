"""Custom autograd functions, and what checks and computes gradients for users."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from leaves import close, leaf
from mindtorch_v2 import autograd
from mindtorch_v2.autograd import Function, grad, gradcheck, gradgradcheck
from mindtorch_v2.autograd import functional as AF
from mindtorch_v2.autograd.function import once_differentiable
from mindtorch_v2.utils.checkpoint import checkpoint

# --- custom functions -------------------------------------------------------------------------------------------------


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


def test_custom_functions_differentiate_twice() -> None:
    x = leaf(2.0)
    (first,) = grad(Cube.apply(x).sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    assert close(first, 12.0)
    assert close(second, 12.0)
    assert Cube.apply(x).grad_fn.name() == "CubeBackward"


def test_setup_context_style() -> None:
    class Scale(Function):
        @staticmethod
        def forward(x: Any, factor: float = 2.0) -> Any:
            return x * factor

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.factor, None

    x = leaf(1.0)
    Scale.apply(x, 5.0).sum().backward()
    assert close(x.grad, 5.0)


def test_needs_input_grad_and_non_differentiable_outputs() -> None:
    seen = []

    class Split(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            sign = (x > 0).float()
            ctx.mark_non_differentiable(sign)
            return x * y, sign

        @staticmethod
        def backward(ctx: Any, g: Any, g_sign: Any) -> Any:
            seen.append(ctx.needs_input_grad)
            return g, None

    x = leaf(1.0)
    product, sign = Split.apply(x, torch.ones(1))
    assert not sign.requires_grad
    product.sum().backward()
    assert seen == [(True, False)]


def test_mark_dirty_changes_the_input() -> None:
    class AddOne(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = leaf(1.0)
    y = x * 1
    z = AddOne.apply(y)
    assert z is y
    z.sum().backward()
    assert close(x.grad, 2.0)


def test_once_differentiable_refuses_a_second_time() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2 * ctx.saved_tensors[0]

    x = leaf(3.0)
    (first,) = grad((Once.apply(x) * x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_a_wrong_number_of_gradients_is_named() -> None:
    class Bad(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x + y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        Bad.apply(leaf(1.0), leaf(1.0)).sum().backward()


# --- checks and helpers -----------------------------------------------------------------------------------------------


def double(*shape: int) -> Any:
    values = np.sin(np.arange(1, int(np.prod(shape)) + 1)).reshape(shape)
    return torch.from_numpy(values).requires_grad_()


def test_gradcheck_accepts_right_and_rejects_wrong_gradients() -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    assert gradcheck(lambda x, y: (x * y).tanh(), (double(2, 2), double(2, 2)))
    assert gradgradcheck(lambda x: (x**3).sin(), (double(3),))
    assert not gradcheck(Wrong.apply, (double(2),), raise_exception=False)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        gradcheck(Wrong.apply, (double(2),))


def test_gradgradcheck_draws_as_torchs() -> None:
    torch.manual_seed(0)
    assert torch.autograd.gradgradcheck(torch.sin, torch.ones(2, dtype=torch.double, requires_grad=True))
    assert torch.rand(2).tolist() == pytest.approx([0.3074, 0.6341], abs=1e-4)


def test_detect_anomaly_names_the_forward() -> None:
    class Fails(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise ValueError("broken")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with autograd.detect_anomaly(), pytest.raises(ValueError, match="broken"):
            Fails.apply(leaf(1.0)).sum().backward()
    assert any("Error detected in FailsBackward" in str(w.message) for w in caught)


def test_detect_anomaly_finds_nan() -> None:
    x = leaf(0.0)
    with autograd.set_detect_anomaly(True):
        y = (x * 0).sqrt() * 0
        with (
            pytest.warns(UserWarning, match="Error detected in"),
            pytest.raises(RuntimeError, match="returned nan values"),
        ):
            y.sum().backward()


def test_functional_products_and_matrices() -> None:
    def f(x: Any) -> Any:
        return x**3

    x = torch.tensor([1.0, 2.0])
    assert AF.jacobian(f, x).tolist() == [[3.0, 0.0], [0.0, 12.0]]
    assert AF.hessian(lambda v: (v**3).sum(), x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert AF.vjp(f, x, torch.ones(2))[1].tolist() == [3.0, 12.0]
    assert AF.jvp(f, x, torch.tensor([1.0, 0.0]))[1].tolist() == [3.0, 0.0]
    assert AF.hvp(lambda v: (v**3).sum(), x, torch.tensor([0.0, 1.0]))[1].tolist() == [0.0, 12.0]


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_computes_again_with_the_same_random_numbers(reentrant: bool) -> None:
    calls = []

    def block(x: Any) -> Any:
        calls.append(1)
        return (x * torch.rand(3)).tanh()

    torch.manual_seed(0)
    x = torch.ones(3, requires_grad=True)
    checkpoint(block, x, use_reentrant=reentrant).sum().backward()
    torch.manual_seed(0)
    y = torch.ones(3, requires_grad=True)
    (y * torch.rand(3)).tanh().sum().backward()
    assert len(calls) == 2
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-6)


def test_a_view_made_in_no_grad_mode_says_what_its_base_says() -> None:
    leaf = torch.ones(2, 2, requires_grad=True)
    with torch.no_grad():
        views = [leaf.view(-1), leaf[0], leaf.t(), (leaf * 1).view(-1), leaf.detach().view(-1)]
    assert [view.requires_grad for view in views] == [True, True, True, False, False]
    assert all(view.grad_fn is None and view.is_leaf for view in views)


@pytest.mark.parametrize("materialize", [True, False])
def test_gradients_of_unused_outputs_are_zeros_unless_a_function_wants_none(materialize: bool) -> None:
    seen: list[Any] = []

    class Twice(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(materialize)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            seen.append(second)
            return first * 2

    x = leaf(1.0, 2.0)
    Twice.apply(x)[0].sum().backward()
    assert close(x.grad, 2.0, 2.0)
    assert close(seen[0], 0.0, 0.0) if materialize else seen == [None]
