"""torch.autograd's public behaviour: gradients, graphs, modes, hooks, custom functions."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest

import mindtorch_v2 as torch
from leaves import close, leaf
from mindtorch_v2 import autograd
from mindtorch_v2.autograd import Function, grad

# --- backward and grad ------------------------------------------------------------------------------------------------


def test_the_newest_node_goes_first() -> None:
    x, order = leaf(1.0), []
    made = [x * factor for factor in (2, 3, 4)]
    for place, tensor in enumerate(made):
        tensor.register_hook(lambda g, place=place: order.append(place))
    (made[1] + made[2] + made[0]).backward()
    assert order == [2, 1, 0]


def test_backward_fills_grad_of_leaves() -> None:
    x, y = leaf(2.0), leaf(3.0)
    (x * y + x).sum().backward()
    assert close(x.grad, 4.0)
    assert close(y.grad, 2.0)


class Doubled(Function):
    """Twice its input. Notes where the gradient it makes lies, and holds on to it when asked to."""

    @staticmethod
    def forward(ctx: Any, x: Any, places: list[int], held: list[Any] | None) -> Any:
        ctx.places, ctx.held = places, held
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        made = g * 2
        ctx.places.append(made.data_ptr())
        if ctx.held is not None:
            ctx.held.append(made)
        return made, None, None


@pytest.mark.parametrize("held", [None, []], ids=["alone", "held"])
def test_a_leaf_takes_over_a_gradient_only_if_nobody_else_holds_it(held: list[Any] | None) -> None:
    x, places = leaf(1.0, 2.0, 3.0), []
    Doubled.apply(x, places, held).sum().backward()
    assert (x.grad.data_ptr() == places[0]) is (held is None)
    assert close(x.grad, 2.0, 2.0, 2.0)


def test_gradients_add_up_over_calls() -> None:
    x = leaf(1.0)
    for _ in range(3):
        (x * 2).sum().backward()
    assert close(x.grad, 6.0)


def test_broadcast_gradients_are_summed() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    bias = torch.ones(3, requires_grad=True)
    column = torch.ones(2, 1, requires_grad=True)
    (x + bias + column).sum().backward()
    assert bias.grad.tolist() == [2.0, 2.0, 2.0]
    assert column.grad.tolist() == [[3.0], [3.0]]


def test_backward_of_a_non_scalar_needs_a_gradient() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="implicitly created only for scalar"):
        (x * 2).backward()
    (x * 2).backward(torch.tensor([1.0, 10.0]))
    assert close(x.grad, 2.0, 20.0)


def test_a_gradient_of_another_shape_is_refused() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * 2).backward(torch.ones(3))


def test_backward_without_a_graph_is_refused() -> None:
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.ones(()).backward()


def test_a_freed_graph_cannot_be_walked_again() -> None:
    x = leaf(2.0)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_retain_graph_keeps_it() -> None:
    x = leaf(2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert close(x.grad, 8.0)


def test_backward_with_inputs_leaves_others_alone() -> None:
    x, y = leaf(2.0), leaf(3.0)
    (x * y).sum().backward(inputs=[x])
    assert close(x.grad, 3.0)
    assert y.grad is None


def test_grad_returns_without_accumulating() -> None:
    x = leaf(3.0)
    (found,) = grad((x * x).sum(), x)
    assert close(found, 6.0)
    assert x.grad is None


def test_grad_of_a_non_leaf() -> None:
    x = leaf(3.0)
    middle = x * 2
    (found,) = grad((middle * middle).sum(), middle)
    assert close(found, 12.0)


def test_only_inputs_is_accepted_and_has_no_effect() -> None:
    x = torch.ones(2, requires_grad=True)
    (g,) = torch.autograd.grad(x.sum(), x, only_inputs=True)
    assert g.tolist() == [1.0, 1.0]
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
        torch.autograd.grad(x.sum(), x, only_inputs=False)


def test_a_variable_is_a_leaf_on_the_same_memory() -> None:
    x = torch.ones(2)
    v = torch.autograd.Variable(x, requires_grad=True)
    v.data -= 1
    assert (v.requires_grad, x.requires_grad, x.tolist()) == (True, False, [0.0, 0.0])
    assert isinstance(x, torch.autograd.Variable)
    assert not isinstance(1, torch.autograd.Variable)
    assert not torch.autograd.Variable(v * 2).requires_grad
    assert torch.autograd.Variable().shape == (0,)


def test_a_variable_needs_a_tensor_and_volatile_is_gone() -> None:
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
        torch.autograd.Variable([1.0])
    with pytest.warns(UserWarning, match="volatile was removed"):
        torch.autograd.Variable(torch.ones(1), volatile=True)


def test_unused_inputs_are_an_error_unless_allowed() -> None:
    x, unused = leaf(1.0), leaf(1.0)
    with pytest.raises(RuntimeError, match="allow_unused"):
        grad((x * 2).sum(), [x, unused])
    assert grad((x * 2).sum(), [x, unused], allow_unused=True)[1] is None
    assert close(grad((x * 2).sum(), [x, unused], materialize_grads=True)[1], 0.0)


def test_create_graph_gives_second_derivatives() -> None:
    x = leaf(2.0)
    (first,) = grad((x**3).sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x, create_graph=True)
    (third,) = grad(second.sum(), x)
    assert close(first, 12.0)
    assert close(second, 12.0)
    assert close(third, 6.0)


def test_several_outputs_share_one_pass() -> None:
    x = leaf(1.0)
    autograd.backward([(x * 2).sum(), (x * 3).sum()])
    assert close(x.grad, 5.0)


def test_deep_graphs_neither_recurse_nor_slow_down() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y * 1.0
    y.sum().backward()
    assert close(x.grad, 1.0)


def test_a_shared_node_is_visited_once() -> None:
    x = leaf(1.0)
    calls = []
    y = x * 2
    y.register_hook(lambda g: calls.append(g.item()))
    (y + y + y).sum().backward()
    assert calls == [3.0]


def test_a_training_step_leaves_no_cycles() -> None:
    gc.collect()
    gc.disable()
    try:
        x = torch.ones(3, requires_grad=True)
        y = (x.exp() * x).tanh()
        node = weakref.ref(y.grad_fn)
        y.sum().backward()
        del y
        assert node() is None
    finally:
        gc.enable()


# --- leaves and requires_grad -----------------------------------------------------------------------------------------


def test_requires_grad_spreads_through_ops() -> None:
    x, plain = leaf(1.0), torch.ones(1)
    assert (x + plain).requires_grad
    assert not (plain + plain).requires_grad
    assert x.is_leaf
    assert not (x + 1).is_leaf


def test_only_floats_can_require_grad() -> None:
    with pytest.raises(RuntimeError, match="floating point"):
        torch.ones(2, dtype=torch.int64).requires_grad_()


def test_a_leaf_has_no_dict_of_its_own_which_would_slow_its_methods_down() -> None:
    for tensor in (
        torch.ones(2, requires_grad=True),
        torch.ones(2).requires_grad_(),
        torch.nn.Parameter(torch.ones(2)),
    ):
        assert not any(type(held) is dict for held in gc.get_referents(tensor))


def test_requires_grad_of_a_non_leaf_cannot_be_switched_off() -> None:
    y = leaf(1.0) * 2
    with pytest.raises(RuntimeError, match="leaf variables"):
        y.requires_grad_(False)


def test_detach_shares_memory_without_graph() -> None:
    x = leaf(1.0, 2.0)
    d = x.detach()
    assert not d.requires_grad
    with torch.no_grad():
        d[0] = 5.0
    assert x[0].item() == 5.0


def test_grad_of_a_non_leaf_warns_unless_retained() -> None:
    x = leaf(2.0)
    y = x * 3
    with pytest.warns(UserWarning, match="not a leaf"):
        assert y.grad is None
    y.retain_grad()
    (y * y).sum().backward()
    assert close(y.grad, 12.0)


def test_a_grad_of_another_shape_cannot_be_assigned() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="same size"):
        x.grad = torch.ones(3)


# --- in place and views -----------------------------------------------------------------------------------------------


def test_changing_a_leaf_in_place_is_refused() -> None:
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        x[0:1].mul_(2)


def test_changing_a_saved_tensor_is_noticed() -> None:
    x = leaf(1.0)
    y = x * 2
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_in_place_changes_take_part_in_the_graph() -> None:
    x = leaf(3.0)
    y = x * 2
    y.mul_(x)
    y.sum().backward()
    assert close(x.grad, 12.0)


def test_a_change_of_a_view_reaches_its_base() -> None:
    x, w = leaf(1.0, 2.0, 3.0), leaf(10.0)
    base = x * 1
    base[1:2].mul_(w)
    base.sum().backward()
    assert close(x.grad, 1.0, 10.0, 1.0)
    assert close(w.grad, 2.0)


def test_a_view_sees_a_later_change_of_its_base() -> None:
    x, w = leaf(1.0, 2.0), leaf(5.0, 6.0)
    base = x * 1
    view = base[0:1]
    base.mul_(w)
    view.sum().backward()
    assert close(x.grad, 5.0, 0.0)
    assert close(w.grad, 1.0, 0.0)


def test_views_of_views_see_each_other() -> None:
    x, w = torch.ones(2, 3).requires_grad_(), leaf(4.0)
    base = x * 1
    row = base[0]
    element = row[1:2]
    element.mul_(w)
    row.sum().backward()
    assert x.grad.tolist() == [[1.0, 4.0, 1.0], [0.0, 0.0, 0.0]]


def test_a_base_that_did_not_require_grad_comes_to_it_through_a_view() -> None:
    w = leaf(2.0)
    base = torch.zeros(3)
    base[1:2].add_(w)
    assert base.requires_grad
    (base * torch.tensor([1.0, 7.0, 1.0])).sum().backward()
    assert close(w.grad, 7.0)


def test_a_view_made_before_the_base_required_grad_follows() -> None:
    w = leaf(2.0, 3.0)
    base = torch.zeros(2)
    view = base[0:1]
    base.add_(w)
    assert view.requires_grad
    view.sum().backward()
    assert close(w.grad, 1.0, 0.0)


def test_versions_count_changes_and_are_shared_with_views() -> None:
    x = torch.ones(4)
    view = x[:2]
    assert x._version == 0
    x.add_(1)
    view.mul_(2)
    assert x._version == view._version == 2


# --- modes ------------------------------------------------------------------------------------------------------------


def test_no_grad_builds_nothing() -> None:
    x = leaf(1.0)
    with torch.no_grad():
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad
    assert torch.is_grad_enabled()


def test_modes_decorate_functions_and_generators() -> None:
    x = leaf(1.0)

    @torch.no_grad()
    def plain() -> Any:
        return x * 2

    @torch.no_grad
    def values() -> Any:
        for _ in range(2):
            yield torch.is_grad_enabled()

    assert not plain().requires_grad
    for enabled in values():
        assert not enabled
        assert torch.is_grad_enabled()


def test_set_grad_enabled_works_at_once_and_as_a_context() -> None:
    torch.set_grad_enabled(False)
    try:
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)
    with torch.set_grad_enabled(False):
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()


def test_inference_mode_builds_nothing() -> None:
    x = leaf(1.0)
    with torch.inference_mode():
        assert not (x * 2).requires_grad
        assert torch.is_inference_mode_enabled()
    assert not torch.is_inference_mode_enabled()


def test_modes_are_thread_local() -> None:
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


# --- hooks ------------------------------------------------------------------------------------------------------------


def test_tensor_hooks_see_and_change_gradients() -> None:
    x = leaf(1.0)
    handle = x.register_hook(lambda g: g * 10)
    (x * 2).sum().backward()
    assert close(x.grad, 20.0)
    handle.remove()
    x.grad = None
    (x * 2).sum().backward()
    assert close(x.grad, 2.0)


def test_hooks_need_a_tensor_that_requires_grad() -> None:
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        torch.ones(1).register_hook(lambda g: g)


def test_post_accumulate_hooks_run_after_grad_is_there() -> None:
    x = leaf(1.0)
    seen = []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.item()))
    (x * 3).sum().backward()
    assert seen == [3.0]


def test_node_hooks_get_both_sides() -> None:
    x = leaf(2.0)
    y = x * 3
    seen: list[Any] = []
    y.grad_fn.register_prehook(lambda outs: seen.append(("pre", outs[0].item())))
    y.grad_fn.register_hook(lambda ins, outs: seen.append(("post", ins[0].item(), outs[0].item())))
    y.sum().backward()
    assert seen == [("pre", 1.0), ("post", 3.0, 1.0)]


def test_the_graph_can_be_walked() -> None:
    x = leaf(1.0)
    y = (x * 2).exp()
    assert y.grad_fn.name() == "ExpBackward0"
    (inner, number) = y.grad_fn.next_functions[0]
    assert inner.name() == "MulBackward0"
    assert number == 0
    accumulate = inner.next_functions[0][0]
    assert accumulate.name() == "torch::autograd::AccumulateGrad"
    assert accumulate.variable is x


def test_saved_tensors_hooks_pack_and_unpack() -> None:
    packed = []
    x = leaf(2.0)
    with autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t.numpy(force=True), torch.from_numpy):
        y = x * x
    y.sum().backward()
    assert len(packed) == 2
    assert close(x.grad, 4.0)
