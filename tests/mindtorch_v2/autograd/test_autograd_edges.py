"""Corners of autograd where programs meet torch's exact behaviour: saved values, hooks, views of Functions, version
counters, memory that is read and written at once."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import autograd
from mindtorch_v2.autograd import engine, grad_mode, graph
from mindtorch_v2.autograd.mode_exit import leaving
from mindtorch_v2.core import tap
from mindtorch_v2.dispatch import functions
from mindtorch_v2.dispatch.op import OPS
from mindtorch_v2.profiler import profile
from mindtorch_v2.utils.checkpoint import checkpoint


def ones(*size: int) -> torch.Tensor:
    return torch.ones(*size, requires_grad=True)


# --- what nodes show --------------------------------------------------------------------------------------------------


def test_nodes_show_what_they_saved_under_torchs_names() -> None:
    x = torch.tensor([2.0], requires_grad=True)
    product = x * x
    assert product.grad_fn._saved_self is x
    assert product.exp().grad_fn._saved_result.item() == pytest.approx(54.598, rel=1e-4)
    assert x.expand(3).sum().grad_fn._saved_self_sym_sizes == (3,)
    assert {"_saved_self", "_saved_other"} <= set(dir(product.grad_fn))


def test_saved_values_are_gone_after_backward() -> None:
    y = ones(2).exp()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        _ = y.grad_fn._saved_result
    with pytest.raises(AttributeError, match="'ExpBackward0' object has no attribute 'elsewhere'"):
        _ = y.grad_fn.elsewhere


def test_engine_nodes_have_qualified_names_but_print_short() -> None:
    x = torch.zeros(4)
    x[:2] = ones(2)
    assert x.grad_fn.name() == "torch::autograd::CopySlices"
    assert repr(x).endswith("grad_fn=<CopySlices>)")


# --- hooks ------------------------------------------------------------------------------------------------------------


def test_hooks_of_a_leaf_run_in_torchs_order() -> None:
    x, calls = ones(2), []
    accumulate = x.view_as(x).grad_fn.next_functions[0][0]
    x.register_hook(lambda g: calls.append("tensor"))
    accumulate.register_hook(lambda *given: calls.append("post"))
    accumulate.register_prehook(lambda *given: calls.append("pre"))
    x.register_post_accumulate_grad_hook(lambda p: calls.append("accumulated"))
    (x * 2).sum().backward()
    assert calls == ["tensor", "pre", "accumulated", "post"]


def test_hooks_after_accumulation_return_nothing() -> None:
    x = torch.ones(2, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda leaf: leaf.grad)
    with pytest.raises(RuntimeError, match="post accumulate grad hooks should return None"):
        x.sum().backward()


@pytest.mark.parametrize(
    ("hook", "error", "text"),
    [
        (lambda grads, outs: grads[0], TypeError, "expected tuple, but hook returned 'Tensor'"),
        (lambda grads, outs: (grads[0],), RuntimeError, "got 1, but expected 2"),
        (lambda grads, outs: (grads[0].sum(), None), RuntimeError, "has changed the size of value"),
    ],
)
def test_node_hooks_return_what_they_were_given(hook: Any, error: type[Exception], text: str) -> None:
    y = ones(2) * 2
    y.grad_fn.register_hook(hook)
    with pytest.raises(error, match=text):
        y.sum().backward()


def test_a_hook_of_several_tensors_runs_once_with_all_gradients() -> None:
    x, y, calls = ones(2), ones(2), []
    handle = autograd.graph.register_multi_grad_hook([x, y], lambda grads: calls.append([g.tolist() for g in grads]))
    for _ in range(2):
        (x * 2 + y * 3).sum().backward()
    handle.remove()
    (x * y).sum().backward()
    assert calls == [[[2.0, 2.0], [3.0, 3.0]]] * 2


def test_a_hook_on_any_of_several_tensors_runs_for_the_first() -> None:
    x, y, calls = ones(2), ones(2), []
    autograd.graph.register_multi_grad_hook([x, y], lambda g: calls.append(g.tolist()), mode="any")
    (x * 2 + y * 2).sum().backward()
    (x * 2 + y * 2).sum().backward()
    assert calls == [[2.0, 2.0]] * 2


# --- saved-tensor hooks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [lambda x: x * x * x, torch.exp])
def test_unpacked_tensors_take_their_place_in_the_graph_again(function: Any) -> None:
    x = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)

    def second(y: torch.Tensor) -> float:
        (first,) = autograd.grad(y, x, create_graph=True)
        return float(autograd.grad(first, x)[0])

    with autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone().numpy(), torch.from_numpy):
        packed = function(x)
    assert second(packed) == second(function(x))


def test_hooks_on_saved_tensors_can_be_forbidden() -> None:
    with autograd.graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"):
        autograd.graph.save_on_cpu().__enter__()


def test_saved_tensors_may_change_where_that_is_allowed() -> None:
    x = torch.tensor([1.0], requires_grad=True)
    with autograd.graph.allow_mutation_on_saved_tensors():
        y = x.exp()
        z = y * y
        y.sin_()
        z.sum().backward()
    assert x.grad.item() == pytest.approx(2 * np.exp(2), rel=1e-6)


# --- Functions --------------------------------------------------------------------------------------------------------


class Handed(autograd.Function):
    """Returns its input as it is."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * 5


def test_a_function_that_returns_its_input_gives_a_view_of_it() -> None:
    x = ones(2) * 1
    y = Handed.apply(x)
    assert y is not x
    assert y._is_view()
    assert y._base is x
    with pytest.raises(RuntimeError, match="created inside a custom Function"):
        y.add_(1)


def test_a_function_hands_on_a_view_without_grad_too() -> None:
    x = torch.ones(2)
    y = Handed.apply(x)
    assert y is not x
    assert y._is_view()


def test_a_changed_base_forbids_the_functions_view() -> None:
    x = ones(2) * 1
    y = Handed.apply(x)
    x.add_(1)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        y.sum().backward()


def test_wrong_gradients_of_a_function_name_it() -> None:
    class Wrong(Handed):
        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            return torch.ones(5)

    with pytest.raises(
        RuntimeError, match=r"Function WrongBackward returned an invalid gradient at index 0 - got \[5\]"
    ):
        Wrong.apply(ones(2)).sum().backward()


# --- version counters -------------------------------------------------------------------------------------------------


def test_data_has_a_version_counter_of_its_own() -> None:
    x = ones(3)
    y = x**2
    x.data.add_(5)
    assert x._version == 0
    y.sum().backward()
    assert x.grad.tolist() == [12.0] * 3


def test_a_detached_tensor_shares_the_version_counter() -> None:
    x = ones(3)
    y = x**2
    x.detach().add_(5)
    with pytest.raises(RuntimeError, match=r"is at version 1; expected version 0"):
        y.sum().backward()


def test_versions_can_be_counted_by_hand() -> None:
    x = torch.ones(2)
    autograd.graph.increment_version(x)
    autograd.graph.increment_version([x, x])
    assert x._version == 3


# --- memory that is read and written ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[1:].add_(x[:-1]),
        lambda x: x.div_(x[0]),
        lambda x: x[1:].copy_(x[:-1]),
        lambda x: torch.add(x[1:], x[:-1], out=x[1:]),
        lambda x: torch.exp(x[:3], out=x[1:]),
        lambda x: x.view(2, 2).add_(x.view(2, 2).t()),
    ],
)
def test_operands_that_lie_partly_in_the_result_are_refused(change: Any) -> None:
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        change(torch.ones(4))


def test_operands_that_are_the_result_or_beside_it_are_fine() -> None:
    x = torch.arange(4.0)
    x.add_(x)
    x[:2].add_(x[2:])
    x[::2].copy_(x[1::2])
    assert x.tolist() == [8.0, 8.0, 6.0, 6.0]


# --- entries ----------------------------------------------------------------------------------------------------------


def test_numpy_asks_for_no_detach_where_no_graph_is_built() -> None:
    x = ones(2)
    with pytest.raises(RuntimeError, match="requires grad"):
        x.numpy()
    with torch.no_grad():
        assert x.numpy().tolist() == [1.0, 1.0]


def test_unused_inputs_are_named_by_their_place() -> None:
    x, y = ones(2), ones(2)
    with pytest.raises(RuntimeError, match="The differentiated Tensor at index 1 appears to not have been used"):
        autograd.grad(x.sum(), [x, y])


def test_a_tensor_outside_the_graph_is_said_to_be_so_first() -> None:
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
        torch.zeros(2).backward()


def test_reentrant_checkpoints_refuse_chosen_inputs() -> None:
    x = ones(2)
    with pytest.raises(RuntimeError, match=r"incompatible with \.grad\(\)"):
        autograd.grad(checkpoint(torch.exp, x, use_reentrant=True).sum(), x)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(torch.exp, torch.ones(2), use_reentrant=True)


def test_strict_derivatives_say_what_is_independent() -> None:
    with pytest.raises(RuntimeError, match="Output 0 of the user-provided function does not require gradients"):
        autograd.functional.jacobian(lambda x: x.detach(), torch.ones(2), strict=True)
    with pytest.raises(RuntimeError, match="Output 0 of the user-provided function is independent of input 1"):
        autograd.functional.jacobian(lambda x, y: x, (torch.ones(2), torch.ones(2)), strict=True)
    with pytest.raises(RuntimeError, match="the jacobian of the user-provided function with respect to input 0"):
        autograd.functional.hvp(lambda x: x.sum(), torch.ones(2), torch.ones(2), strict=True)


def test_an_expanded_tensor_is_not_changed_in_no_grad_either() -> None:
    x = ones(3) * 1
    spread = x.expand(2, 3)
    with torch.no_grad(), pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        spread.add_(1)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda x: x.squeeze_(), "SqueezeBackward3"),
        (lambda x: x.squeeze_(0), "SqueezeBackward4"),
        (lambda x: x.unsqueeze_(0), "UnsqueezeBackward1"),
        (lambda x: x.transpose_(0, 1), "TransposeBackward1"),
        (lambda x: x.as_strided_((2,), (1,)), "AsStridedBackward1"),
        (lambda x: x.fill_(1.0), "FillBackward2"),
    ],
)
def test_changes_in_place_have_kinds_of_nodes_of_their_own(change: Any, name: str) -> None:
    x = ones(1, 4) * 1
    change(x)
    assert x.grad_fn.name() == name
    x.sum().backward()


def test_sizes_that_do_not_fit_a_copy_are_named() -> None:
    with pytest.raises(
        RuntimeError, match=r"size of tensor a \(2\) must match the size of tensor b \(4\) .* dimension 0"
    ):
        torch.ones(2, 3).copy_(torch.ones(4, 3))
    with pytest.raises(RuntimeError, match=r"output with shape \[3\] doesn't match the broadcast shape \[2, 3\]"):
        torch.ones(3).copy_(torch.ones(2, 3))


FINALIZERS = """
import gc
from contextvars import ContextVar
from mindtorch_v2.autograd.grad_mode import is_grad_enabled, set_enabled

others = [ContextVar(str(number)) for number in range(3)]
for other in others:
    other.set(object())
kept = []

class Switch:
    def __init__(self):
        self.cycle = self

    def __del__(self):
        set_enabled(False)
        kept.append([b"x" * size for size in range(8, 200, 8) for _ in range(30)])

gc.set_threshold(20)
for number in range(72):
    set_enabled(True)
    gc.collect()
    gc.disable()
    Switch()
    held = [[] for _ in range(number % 24)]
    gc.enable()
    set_enabled(False)
    assert not is_grad_enabled() and gc.isenabled()
    set_enabled(True)
"""


def test_finalizers_may_switch_grad_mode_wherever_garbage_is_collected() -> None:
    """Whichever allocation sets off a collection: another process shows whether it survives all of them."""
    ended = subprocess.run([sys.executable, "-c", FINALIZERS], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def _recorded_composite() -> None:
    with profile():
        torch.nn.functional.relu(ones(2))


class _Twice(autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def _packed() -> None:
    with autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        ones(2).exp()


_BY_HELPER = pytest.mark.skipif(tap.HELPER is not None, reason="the helper switches it, and sees no signal there")


@pytest.mark.parametrize(
    "program",
    [
        lambda: ones(2).sum().backward(),
        lambda: torch.optim.Rprop([ones(2)]).step(),
        *(
            pytest.param(program, marks=_BY_HELPER)
            for program in (
                _recorded_composite,
                lambda: _Twice.apply(ones(2)),
                lambda: torch.cosine_similarity(ones(2, 3), ones(2, 3)),
                lambda: torch.nn.functional.embedding(torch.tensor([0]), ones(2, 3), max_norm=1.0),
                _packed,
            )
        ),
    ],
)
def test_an_interrupt_right_after_grad_mode_is_switched_leaves_it_as_it_was(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where signals are seen: between a call and whatever comes next."""
    switch = grad_mode.set_enabled

    def interrupted(mode: bool) -> None:
        switch(mode)
        if not mode:
            raise KeyboardInterrupt

    monkeypatch.setattr(grad_mode, "set_enabled", interrupted)
    monkeypatch.setitem(tap.NAMESPACE, "GRAD_SET", interrupted)
    with pytest.raises(KeyboardInterrupt):
        program()
    assert torch.is_grad_enabled()
    assert engine.current_run() == -1


class _Ends:
    """Switches grad mode, but for one call, which is interrupted before it does."""

    def __init__(self, failing: bool) -> None:
        self.failing, self.switch = failing, grad_mode.set_enabled

    def __call__(self, mode: bool) -> None:
        if mode is self.failing:
            self.failing = None  # type: ignore[assignment]
            raise KeyboardInterrupt
        self.switch(mode)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_an_interrupt_as_a_mode_is_entered_or_left_leaves_it_as_it_was(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for failing in (False, True) if tap.HELPER is None else (False,):  # there they are left in C
        with monkeypatch.context() as patch:
            patch.setattr(grad_mode, "set_enabled", _Ends(failing))
            with pytest.raises(KeyboardInterrupt), context():
                pass
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()
    assert tap.NAMESPACE["INFERRING"] == 0


def test_an_interrupt_as_grad_mode_is_switched_back_has_it_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grad_mode, "set_enabled", _Ends(True))
    with pytest.raises(KeyboardInterrupt):
        grad_mode.within(False, lambda: None)
    assert torch.is_grad_enabled()


@_BY_HELPER
def test_an_interrupt_after_the_body_of_a_recorded_op_leaves_grad_mode_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with profile():
        torch.ones(2)  # so that its function is there
        monkeypatch.setitem(tap.NAMESPACE, "GRAD_SET", _Ends(True))
        with pytest.raises(KeyboardInterrupt):
            torch.ones(2)
    assert torch.is_grad_enabled()


def test_an_interrupt_while_an_op_is_made_ready_leaves_it_to_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its functions are compiled when it is first called; half of them are of no use."""
    row = OPS["fmod.Tensor"]
    row.make_node = None
    with monkeypatch.context() as patch:
        patch.setattr(functions.codegen, "node_source", _Ends(failing=row))  # type: ignore[arg-type]
        with pytest.raises(KeyboardInterrupt):
            functions.materialize(row)
    assert row.make_node is None
    functions.materialize(row)
    x = torch.full((2,), 5.0, requires_grad=True)
    torch.fmod(x, torch.full((2,), 3.0)).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_an_interrupt_in_the_body_of_a_recorded_op_leaves_grad_mode_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []

    def body(*given: Any) -> Any:
        modes.append(torch.is_grad_enabled())
        raise KeyboardInterrupt

    with profile():
        torch.ones(2)  # so that its function is there
        monkeypatch.setitem(tap.NAMESPACE, "V_ones", body)
        with pytest.raises(KeyboardInterrupt):
            torch.ones(2)
    assert modes == [False]
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("hooked", [(), (0,), (1,), (2,), (0, 2)])
def test_leaves_get_their_gradients_in_order_whether_or_not_they_have_hooks(hooked: tuple[int, ...]) -> None:
    leaves = [torch.ones(2, requires_grad=True) for _ in range(3)]
    seen: list[int] = []
    for number in hooked:
        leaves[number].register_post_accumulate_grad_hook(
            lambda p, number=number: seen.append(sum(leaf.grad is not None for leaf in leaves))
        )
    torch.cat(leaves).sum().backward()
    assert seen == [number + 1 for number in hooked]


def test_a_gradient_that_two_leaves_share_is_kept_twice() -> None:
    a, b = (torch.ones(3, requires_grad=True) for _ in range(2))
    (a + b).sum().backward()
    a.grad.add_(1)
    assert a.grad.tolist() == [2.0] * 3
    assert b.grad.tolist() == [1.0] * 3


def test_a_gradient_that_the_program_holds_is_copied() -> None:
    x, given = torch.ones(3, requires_grad=True), torch.ones(3)
    x.backward(given)
    x.grad.add_(1)
    assert given.tolist() == [1.0] * 3


def test_an_error_in_a_recorded_node_ends_its_events() -> None:
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise ZeroDivisionError("on purpose")

    x = torch.ones(2, requires_grad=True)
    with torch.profiler.profile() as prof:
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            Fails.apply(x).sum().backward()
        x + 1
    (after,) = [e for e in prof.events() if e.name == "aten::add"]
    assert after.cpu_parent is None
    assert {e.name for e in prof.events()} >= {"FailsBackward", "autograd::engine::evaluate_function: FailsBackward"}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("recorded", [False, True])
def test_a_part_that_was_written_over_has_no_gradient(turned: bool, recorded: bool) -> None:
    x = torch.ones(3, 4, requires_grad=True)
    y = x.clone().t().clone(memory_format=torch.preserve_format) if turned else x.clone()
    part = y[1:, ::2]
    part.mul_(3)
    y[0] = 5.0
    with torch.profiler.profile() if recorded else contextlib.nullcontext():
        (y * 2).sum().backward()
    expected = torch.full(y.shape, 2.0)
    expected[1:, ::2] = 6.0
    expected[0] = 0.0
    assert x.grad.tolist() == (expected.t() if turned else expected).tolist()


def test_the_gradients_asked_for_are_found_beside_others() -> None:
    x, y, z = (torch.full((2,), value, requires_grad=True) for value in (2.0, 3.0, 4.0))
    middle = x * y
    dx, dm = torch.autograd.grad((middle * z).sum(), (x, middle))
    assert dx.tolist() == [12.0] * 2
    assert dm.tolist() == [4.0] * 2
    assert x.grad is y.grad is z.grad is None


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("record", [False, True])
def test_a_leaf_keeps_a_gradient_without_copying_unless_somebody_holds_it(held: bool, record: bool) -> None:
    made: list[Any] = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            result = gradient * 2
            made.append(result if held else result.data_ptr())
            return result

    leaf = torch.ones(3, requires_grad=True)
    y = Twice.apply(leaf)
    with torch.profiler.profile(record_shapes=True) if record else contextlib.nullcontext() as prof:
        y.backward(torch.ones(3))
    assert leaf.grad.tolist() == [2.0, 2.0, 2.0]
    assert leaf.grad.grad_fn is None
    place = made[0].data_ptr() if held else made[0]
    assert (leaf.grad.data_ptr() == place) is not held
    if record and not held:
        assert [e.input_shapes for e in prof.events() if e.name == "aten::detach"] == [[[3]]]


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_a_mode_that_was_not_entered_is_not_left(context: Any) -> None:
    with pytest.raises(RuntimeError, match="not entered"):
        context().__exit__(None, None, None)
    assert torch.is_grad_enabled()


class _Quiet(torch.overrides.TorchFunctionMode):
    """A mode that changes nothing."""


CONTEXTS: list[Any] = [
    torch.no_grad,
    torch.inference_mode,
    lambda: torch.autocast("cpu"),
    lambda: graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    lambda: graph.disable_saved_tensors_hooks("no"),
    _Quiet,
    torch._C.DisableTorchFunction,
    torch._C.DisableTorchFunctionSubclass,
]


@pytest.mark.skipif(tap.HELPER is None, reason="in Python an interrupt may come before the first line")
@pytest.mark.parametrize("context", CONTEXTS)
def test_modes_are_left_in_c_where_no_interrupt_comes_first(context: Any) -> None:
    called = []
    with context():
        sys.setprofile(lambda frame, event, arg: called.append(frame.f_code.co_filename))
    sys.setprofile(None)
    assert any("mindtorch_v2" in filename for filename in called)
    assert not any(filename.endswith("mode_exit.py") for filename in called)


def test_what_is_left_is_restored_once_more_where_an_interrupt_ends_that() -> None:
    calls = []

    class Context:
        def _restore(self) -> None:
            calls.append("restore")
            if len(calls) == 1:
                raise KeyboardInterrupt

        __exit__ = leaving(_restore, lambda self: calls.append("after"))

    with pytest.raises(KeyboardInterrupt):
        Context().__exit__(None, None, None)
    assert calls == ["restore", "restore", "after"]
