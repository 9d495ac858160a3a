"""gradcheck and gradgradcheck: each option finds what it is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.autograd import Function, GradcheckError, grad, gradcheck, gradgradcheck, jacobians


def double(*values: float) -> Any:
    return torch.tensor(values, dtype=torch.double, requires_grad=True)


def function(
    forward: Callable[..., Any], backward: Callable[..., Any], jvp: Callable[..., Any] | None = None, zeros: bool = True
) -> Callable[..., Any]:
    """A custom function; where `zeros` is false, it gets None for gradients that are not there."""

    class Made(Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            ctx.set_materialize_grads(zeros)
            return forward(*args)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return backward(*grads)

    if jvp is not None:
        Made.jvp = staticmethod(lambda ctx, *tangents: jvp(*tangents))  # type: ignore[method-assign]
    return Made.apply


def noise() -> Any:
    return torch.rand(2, dtype=torch.double) * 1e-7


RIGHT = function(lambda x: x * 2, lambda g: g * 2)
WRONG = function(lambda x: x * 2, lambda g: g * 3)
NOISY = function(lambda x: x * 2, lambda g: g * (2 + noise()))
X = double(0.3, 0.7)


def test_some_mode_has_to_be_on() -> None:
    with pytest.raises(AssertionError, match="at least one of check_forward_ad or check_backward_ad to be True"):
        gradcheck(RIGHT, X, check_backward_ad=False)
    with pytest.raises(AssertionError, match="check_batched_grad=True requires check_backward_ad"):
        gradcheck(RIGHT, X, check_backward_ad=False, check_forward_ad=True, check_batched_grad=True)
    with pytest.raises(AssertionError, match="check_batched_forward_grad=True requires check_forward_ad"):
        gradcheck(RIGHT, X, check_batched_forward_grad=True)
    with pytest.raises(AssertionError, match="at least one of check_fwd_over_rev or check_rev_over_rev"):
        gradgradcheck(RIGHT, X, check_rev_over_rev=False)
    with pytest.raises(AssertionError, match="check_undefined_grad=True requires check_rev_over_rev"):
        gradgradcheck(RIGHT, X, check_rev_over_rev=False, check_fwd_over_rev=True)


def test_inputs_that_overlap_are_refused() -> None:
    with pytest.raises(RuntimeError, match="0th input has a dimension with stride 0"):
        gradcheck(torch.sin, torch.rand(1, dtype=torch.double).expand(3).requires_grad_())


def test_sparse_tensors_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="gradcheck takes dense tensors"):
        gradcheck(lambda a: a.to_dense(), torch.eye(2, dtype=torch.double).to_sparse().requires_grad_())
    with pytest.raises(ValueError, match="Sparse output is not supported"):
        gradcheck(lambda a: a.to_sparse(), X)


def test_outputs_without_a_gradient_do_not_depend_on_the_inputs() -> None:
    assert gradcheck(lambda a: a.argmax(), X)
    assert gradcheck(lambda a: torch.ones(2, dtype=torch.double), X)
    for fast in (False, True):
        with pytest.raises(GradcheckError, match="Numerical gradient for function expected to be zero"):
            gradcheck(lambda a: a.detach() * 2, X, fast_mode=fast)


def test_a_report_shows_tensors() -> None:
    with pytest.raises(GradcheckError) as raised:
        gradcheck(WRONG, X)
    assert str(raised.value) == (
        "Jacobian mismatch for output 0 with respect to input 0,\n"
        "numerical:tensor([[2.0000, 0.0000],\n        [0.0000, 2.0000]], dtype=torch.float64)\n"
        "analytical:tensor([[3., 0.],\n        [0., 3.]], dtype=torch.float64)\n"
    )


def test_nan_is_near_to_nothing() -> None:
    assert not gradcheck(lambda a: a * float("nan"), X, raise_exception=False)


@pytest.mark.parametrize("fast", [False, True])
def test_backward_gives_the_same_twice(fast: bool) -> None:
    with pytest.raises(GradcheckError, match=r"Backward is not reentrant.*tolerance for nondeterminism was 0\.0"):
        gradcheck(NOISY, X, fast_mode=fast)
    assert gradcheck(NOISY, X, nondet_tol=1e-6, fast_mode=fast)


def test_backward_is_linear_in_what_it_is_given() -> None:
    constant = function(lambda x: x.sum(), lambda g: torch.ones(2, dtype=torch.double))
    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        gradcheck(constant, X)


def test_undefined_gradients_are_taken_for_zeros() -> None:
    def fails(g: Any) -> Any:
        if g is None:
            raise RuntimeError("no gradient")
        return g * 2

    made_up = function(lambda x: x * 2, lambda g: torch.ones(2) if g is None else g * 2, zeros=False)
    with pytest.raises(GradcheckError, match="Expected all input grads to be undefined or zero"):
        gradcheck(made_up, X)
    assert gradcheck(made_up, X, check_undefined_grad=False)
    failing = function(lambda x: x * 2, fails, zeros=False)
    with pytest.raises(GradcheckError, match=r"handle undefined output grads.*no gradient"):
        gradcheck(failing, X)
    assert gradcheck(failing, X, check_undefined_grad=False)


def test_each_of_several_outputs_may_be_undefined() -> None:
    def backward(a: Any, b: Any) -> Any:
        return sum((g * factor for g, factor in ((a, 2), (b, 3)) if g is not None), torch.zeros(2, dtype=torch.double))

    assert gradcheck(function(lambda x: (x * 2, x * 3), backward, zeros=False), X)


def test_functions_run_though_no_gradient_arrives() -> None:
    seen: list[Any] = []
    stop = function(lambda x: x * 1, lambda g: None)
    keep = function(lambda x: x * 1, lambda g: seen.append(g) or g, zeros=False)
    stop(keep(RIGHT(X))).sum().backward()
    assert seen == [None]
    assert X.grad.tolist() == [0, 0]
    X.grad = None


def test_gradients_have_the_inputs_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    # The engine casts gradients, so that a wrong one has to be made up.
    monkeypatch.setattr(jacobians, "grad", lambda *args, **kwargs: [g.float() for g in grad(*args, **kwargs)])
    assert gradcheck(RIGHT, X)
    with pytest.raises(GradcheckError, match="Gradient has dtype mismatch"):
        gradcheck(RIGHT, X, check_grad_dtypes=True)


def test_hooks_keep_the_dtype() -> None:
    x = double(1, 2)
    x.register_hook(lambda g: g.float())
    with pytest.raises(RuntimeError, match="hook '<lambda>' has changed the type of value"):
        x.sin().sum().backward()


@pytest.mark.parametrize("fast", [False, True])
def test_forward_mode(fast: bool) -> None:
    def check(func: Any, **options: bool) -> bool:
        return gradcheck(func, X, check_forward_ad=True, fast_mode=fast, **options)

    assert check(lambda x: (x.sin() * x, x.sum()))
    assert check(function(lambda x: x * 2, lambda g: g * 2, lambda t: t * 2))
    assert check(function(lambda x: x * 2, lambda g: g * 3, lambda t: t * 2), check_backward_ad=False)
    with pytest.raises(GradcheckError, match="Jacobian computed with forward mode mismatch for output 0"):
        check(function(lambda x: x * 2, lambda g: g * 2, lambda t: t * 3))
    with pytest.raises(NotImplementedError, match="You must implement the jvp function"):
        check(RIGHT)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("part", ["real", "imag"])
def test_complex_parts_are_checked_one_by_one(fast: bool, part: str) -> None:
    def skewed(t: Any) -> Any:
        return torch.complex(t.real * (3 if part == "real" else 2), t.imag * (3 if part == "imag" else 2))

    z = torch.tensor([1 + 2j, 0.5 - 1j], dtype=torch.complex128, requires_grad=True)
    word = {"real": "real", "imag": "imaginary"}[part]
    assert gradcheck(lambda a: a * a.conj() + a**2, z, check_forward_ad=True, fast_mode=fast)
    with pytest.raises(GradcheckError, match=f"While considering the {word} part of complex outputs only, Jacobian"):
        gradcheck(function(lambda a: a * 2, skewed), z, fast_mode=fast)
    with pytest.raises(GradcheckError, match=f"While considering the {word} part of complex inputs only, Jacobian"):
        gradcheck(function(lambda a: a * 2, lambda g: g * 2, skewed), z, check_forward_ad=True, fast_mode=fast)


def test_fast_mode_runs_the_function_a_fixed_number_of_times() -> None:
    calls: dict[int, list[int]] = {}
    for size in (2, 20):
        x = torch.rand(size, dtype=torch.double, requires_grad=True)
        counted = calls.setdefault(size, [])
        assert gradcheck(lambda a, counted=counted: counted.append(1) or a.sin(), x, fast_mode=True)
    assert len(calls[2]) == len(calls[20])


def test_fast_mode_reports_both_ways() -> None:
    with pytest.raises(
        GradcheckError, match=r"(?s)numerical:\d.*computed in fast mode.*Numerical:\ntensor\(\[\[2\.0000"
    ):
        gradcheck(WRONG, X, fast_mode=True)


def test_fast_mode_draws_from_numbers_of_its_own() -> None:
    before = torch.get_rng_state()
    assert gradcheck(torch.sin, X, fast_mode=True)
    assert torch.get_rng_state().equal(before)


def test_batched_gradients() -> None:
    calls: list[int] = []

    def worn(g: Any) -> Any:
        calls.append(1)
        return g * (2 if len(calls) <= 7 else 5)  # right for the Jacobians and one by one, wrong in the batch

    assert gradcheck(torch.sin, X, check_batched_grad=True)
    with pytest.raises(GradcheckError, match="While computing batched gradients"):
        gradcheck(function(lambda x: x * 2, worn), X, check_batched_grad=True)


def test_batched_tangents() -> None:
    calls: list[int] = []

    def worn(t: Any) -> Any:
        calls.append(1)
        return t * (2 if len(calls) <= 5 else 5)

    assert gradcheck(torch.sin, X, check_forward_ad=True, check_batched_forward_grad=True)
    with pytest.raises(GradcheckError, match="While computing batched gradients"):
        gradcheck(
            function(lambda x: x * 2, lambda g: g * 2, worn), X, check_forward_ad=True, check_batched_forward_grad=True
        )


def test_a_function_of_changing_shape_is_named() -> None:
    calls: list[int] = []
    with pytest.raises(AssertionError, match="outputs with the same shape when inputs are perturbed by 1e-06"):
        gradcheck(lambda a: calls.append(1) or a.repeat(len(calls)), X)


def test_second_derivatives_by_forward_mode() -> None:
    options = {"check_fwd_over_rev": True, "check_rev_over_rev": False, "check_undefined_grad": False}
    assert gradgradcheck(lambda a: a**3, X, **options)
    cut = function(lambda x: x**2, lambda g: g * 2 * X.detach())
    with pytest.raises(GradcheckError, match="Jacobian computed with forward mode mismatch"):
        gradgradcheck(lambda a: cut(a) + 0 * a**3, X, **options)


def test_gradients_to_start_from_may_have_gaps() -> None:
    strides: list[Any] = []

    class Looks(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            strides.append(g.stride())
            return g * 2

    x = torch.rand(2, 3, dtype=torch.double, requires_grad=True)
    assert gradgradcheck(Looks.apply, x, gen_non_contig_grad_outputs=True)
    assert (6, 2) in strides


def test_second_derivatives_take_all_options() -> None:
    assert gradgradcheck(lambda a: a**3, X, fast_mode=True, check_batched_grad=True, check_fwd_over_rev=True)
    noisy = function(lambda x: x * 2, lambda g: NOISY(g))
    with pytest.raises(GradcheckError, match="not reentrant"):
        gradgradcheck(noisy, X)
    assert gradgradcheck(noisy, X, nondet_tol=1e-5)


def test_make_tensor_leaves_gaps_where_torch_does() -> None:
    torch.manual_seed(0)
    made = torch.testing.make_tensor((2, 3), dtype=torch.double, device="cpu", low=-1, high=1, noncontiguous=True)
    assert made.stride() == (6, 2)
    assert made.flatten().tolist() == pytest.approx([0.4156, 0.8415, 0.5823, -0.2978, -0.4235, -0.6464], abs=1e-4)
