"""Backward passes: what runs and is freed, passes inside of passes, and long graphs."""

import copy
import pickle
import threading

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.autograd import deeper


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


def test_a_gradient_of_nothing_leaves_the_graph_as_it_is():
    x, w = leaf(1.0, 2.0), leaf(3.0)
    y = x.exp().sum()
    assert torch.autograd.grad(y, [w], allow_unused=True) == (None,)
    y.backward()
    assert torch.equal(x.grad, x.detach().exp())


def test_functions_off_the_way_to_the_inputs_do_not_run():
    ran = []

    class Noted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ran.append(1)
            return g * 2

    x, w = leaf(1.0), leaf(2.0)
    y = Noted.apply(x)
    torch.autograd.grad([(y * w).sum(), y.sum()], [w])
    assert not ran
    y.sum().backward()
    assert ran == [1]


def test_gradients_nobody_asks_for_are_not_computed():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = (x * w).sum()
    with torch.profiler.profile() as recorded:
        torch.autograd.grad(y, [w])
    assert [e.name for e in recorded.events()].count("aten::mul") == 1


def test_what_saved_no_tensors_can_run_again():
    x = leaf(1.0, 2.0)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2, 2]
    z = (x * x).sum()
    z.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        z.backward()


def test_the_other_name_of_a_gradient():
    p = torch.nn.Parameter(torch.ones(2))
    p._grad = torch.ones(2)
    assert p.grad is p._grad
    p.sum().backward()
    assert p._grad.tolist() == [2, 2]
    del p._grad
    assert p.grad is None


def nested(depth, record=None):
    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, left):
            ctx.left = left
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if record is not None:
                record.append((threading.get_ident(), torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
            if ctx.left:
                inner = torch.ones(2, requires_grad=True)
                with torch.enable_grad():
                    Again.apply(inner, ctx.left - 1).sum().backward()
                return inner.grad + g, None
            return g * 2, None

    x = torch.ones(2, requires_grad=True)
    Again.apply(x, depth).sum().backward()
    return x.grad


def test_passes_nest_deeper_than_the_interpreter_does():
    assert nested(300).tolist() == [302, 302]


def test_nested_passes_go_on_in_the_modes_they_began_in():
    record = []
    with torch.autocast("cpu"):
        nested(deeper.LEVELS + 1, record)
    threads = [thread for thread, _, _ in record]
    assert len(set(threads)) == 2
    assert threads[0] == threading.get_ident()
    assert {modes[1:] for modes in record} == {(False, True)}


def test_an_error_far_down_comes_up():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, left):
            ctx.left = left
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if not ctx.left:
                raise ValueError("at the bottom")
            with torch.enable_grad():
                Fails.apply(torch.ones(1, requires_grad=True), ctx.left - 1).sum().backward()
            return g, None

    with pytest.raises(ValueError, match="at the bottom"):
        Fails.apply(torch.ones(1, requires_grad=True), 2 * deeper.LEVELS).sum().backward()
    assert torch.is_grad_enabled()


def test_passes_that_nest_without_end_are_refused(monkeypatch):
    monkeypatch.setattr(deeper, "MOST", 100)
    with pytest.raises(RecursionError, match="nested more than 100 deep"):
        nested(1000)


def test_long_graphs_are_walked_and_dropped():
    x = leaf(1.0, 2.0)
    y = x
    for _ in range(20_000):
        y = y * 1.0
    assert repr(y.grad_fn).startswith("<MulBackward0 object at")
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(y)
    kept = pickle.loads(pickle.dumps(y))
    assert kept.is_leaf
    assert kept.requires_grad
    y.sum().backward()
    del y
    assert x.grad.tolist() == [1, 1]


def test_long_chains_of_views_of_other_types_are_remade():
    x = leaf(1.0, 2.0)
    y = torch.view_as_complex(x.clone())
    for _ in range(2_000):
        y = torch.view_as_complex(torch.view_as_real(y))
    y.mul_(2)
    torch.view_as_real(y).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_a_change_through_a_turned_view_of_memory_that_begins_later():
    """Offsets of views count from their base, whose gradient has memory of its own."""
    memory = torch.zeros(4, 3, dtype=torch.complex64)
    base = memory[1:3].detach().fill_(1 + 2j)
    assert base.storage_offset() == 3
    turned = torch.view_as_real(base).transpose(0, 1)
    scale = torch.arange(1.0, 13.0).reshape(3, 2, 2).requires_grad_()
    turned.mul_(scale)
    torch.view_as_real(base).sum().backward()
    assert scale.grad.tolist() == [[[1, 2]] * 2] * 3


def test_nodes_are_not_copied():
    node = (leaf(1.0) * 2).grad_fn
    for copier in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot pickle 'MulBackward0' object"):
            copier(node)


def test_a_copy_that_is_no_view():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    assert not (x * 2).t().reshape(-1)._is_view()
    assert (x * 2).reshape(-1)._is_view()


def test_autocast_on_meta_tensors():
    with torch.autocast("cpu"):
        assert torch.cat([torch.ones(2, device="meta")] * 2).dtype is torch.float32
        assert torch.mm(torch.ones(2, 2, device="meta"), torch.ones(2, 2, device="meta")).dtype is torch.float32
        out = torch.empty(2, 2)
        assert torch.mm(torch.ones(2, 2), torch.ones(2, 2), out=out).dtype is torch.float32


def test_an_option_whose_gradient_would_be_lost_is_refused():
    p = torch.ones(2, requires_grad=True).clone()
    p.grad = torch.ones(2)
    optimizer = torch.optim.RMSprop([p], lr=torch.tensor(0.1, requires_grad=True), differentiable=True)
    with pytest.raises(TypeError, match="must be Number, not Tensor"):
        optimizer.step()


def test_a_step_is_differentiable_with_respect_to_its_rate():
    rate = torch.tensor(0.1, requires_grad=True)
    for kind in (torch.optim.SGD, torch.optim.Adam):
        rate.grad = None
        p = torch.ones(2, requires_grad=True).clone()
        p.grad = torch.tensor([2.0, 4.0])
        kind([p], lr=rate, differentiable=True).step()
        p.sum().backward()
        assert rate.grad.item() == pytest.approx(-6 if kind is torch.optim.SGD else -2, rel=1e-4)
