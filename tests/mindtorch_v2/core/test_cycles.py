"""What a training step made is gone when its last name is: nothing waits for the garbage collector."""

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.utils.checkpoint import checkpoint


@pytest.fixture(autouse=True)
def collector_off() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, _ = ctx.saved_tensors
        return g * 2 + 0 * x


def network() -> Any:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))


def plain(net: Any, x: Any) -> Any:
    return net(x)


def own_function(net: Any, x: Any) -> Any:
    return Twice.apply(net(x))


def hooked(net: Any, x: Any) -> Any:
    y = net(x)
    seen: list[Any] = []
    y.register_hook(seen.append)
    y.retain_grad()
    return y * 2


def hooked_modules(net: Any, x: Any) -> Any:
    handles = [
        net[0].register_forward_pre_hook(lambda module, inputs: None),
        net[0].register_forward_hook(lambda module, inputs, output: None),
        net[0].register_full_backward_hook(lambda module, before, after: None),
    ]
    y = net(x.requires_grad_())
    for handle in handles:
        handle.remove()
    return y


def kept_by_hooks(net: Any, x: Any) -> Any:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return net(x)


def recomputed(net: Any, x: Any) -> Any:
    return checkpoint(net, x, use_reentrant=False)


def recomputed_by_a_function(net: Any, x: Any) -> Any:
    return checkpoint(net, x.requires_grad_(), use_reentrant=True)


def changed_in_place(net: Any, x: Any) -> Any:
    y = net(x)
    y[0].mul_(2)
    y[:, 1] = 3
    return y.relu_()


def second_derivative(net: Any, x: Any) -> Any:
    x.requires_grad_()
    (g,) = torch.autograd.grad(net(x).tanh().sum(), x, create_graph=True)
    return g


def in_bfloat16(net: Any, x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return net(x)


STEPS: list[Callable[[Any, Any], Any]] = [
    plain, own_function, hooked, hooked_modules, kept_by_hooks, recomputed, recomputed_by_a_function, changed_in_place,
    second_derivative, in_bfloat16,
]  # fmt: skip


@pytest.mark.parametrize("forward", STEPS)
@pytest.mark.parametrize("goes_back", [True, False])
def test_results_and_their_graph_go_at_once(forward: Callable[[Any, Any], Any], goes_back: bool) -> None:
    x = torch.randn(3, 4)
    y = forward(network(), x)
    left = [weakref.ref(y), weakref.ref(y.grad_fn)]
    if goes_back:
        y.float().pow(2).sum().backward()
    del y
    assert [reference() for reference in left] == [None, None]


def trained(name: str) -> list[Any]:
    """Weak references to what one step of an optimizer made and used."""
    net = network()
    optimizer = getattr(torch.optim, name)(net.parameters(), lr=0.01)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = net(torch.randn(3, 4)).pow(2).sum()
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    return [weakref.ref(kept) for kept in (loss, optimizer, net[0].weight)]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "LBFGS"])
def test_an_optimizer_goes_with_its_network(name: str) -> None:
    assert [reference() for reference in trained(name)] == [None, None, None]


@pytest.mark.parametrize("options", [{}, {"profile_memory": True, "record_shapes": True, "with_stack": True}])
def test_a_profile_goes_with_all_it_recorded(options: dict[str, bool]) -> None:
    net = network()
    with torch.profiler.profile(**options) as prof:
        net(torch.randn(3, 4)).sum().backward()
    prof.key_averages().table()
    left = weakref.ref(prof)
    del prof
    assert left() is None
