"""Python code of the user's is traced also where machinery that is not traced calls it."""

import cProfile
import pstats
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.autograd import engine
from mindtorch_v2.profiler import profile


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return written_by_the_user(gradient)


def written_by_the_user(x: Any) -> Any:
    return x * 2


def custom_function(x: Any) -> None:
    Doubled.apply(x).sum().backward()


def tensor_hook(x: Any) -> None:
    y = x * 1
    y.register_hook(written_by_the_user)
    y.sum().backward()


def hook_of_a_leaf(x: Any) -> None:
    x.register_post_accumulate_grad_hook(lambda leaf: written_by_the_user(leaf) and None)
    x.sum().backward()


def packing_hook(x: Any) -> None:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: written_by_the_user(t) and t, lambda t: t):
        x.exp().sum().backward()


def saved_tensor_hook(x: Any) -> None:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: written_by_the_user(t) / 2):
        y = x.exp().sum()
    y.backward()


def callback_at_the_end(x: Any) -> None:
    def ask(gradient: Any) -> None:
        engine.queue_callback(lambda: written_by_the_user(x))

    x.register_hook(ask)
    x.sum().backward()


def closure(x: Any) -> None:
    torch.optim.SGD([x]).step(lambda: written_by_the_user(x))


def attribute(x: Any) -> None:
    subclass(x, lambda told: told.T)


def subclass(x: Any, call: Any = torch.exp) -> None:
    class Told(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with torch._C.DisableTorchFunctionSubclass():
                return written_by_the_user(func(*args, **(kwargs or {})))

    call(x.detach().view(1, 1).as_subclass(Told))


CASES = (
    custom_function, tensor_hook, hook_of_a_leaf, packing_hook, saved_tensor_hook, callback_at_the_end, closure, attribute,
    subclass,
)  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_user_code_that_machinery_calls_is_traced(case: Any) -> None:
    x = torch.ones(1, requires_grad=True)
    with profile(with_stack=True) as prof:
        case(x)
    (own,) = [event for event in prof.events() if event.name.endswith(": written_by_the_user")]
    assert [child.name for child in own.cpu_children] == ["aten::mul"]


def test_what_the_engine_calls_for_itself_is_no_event() -> None:
    x = torch.ones(1, requires_grad=True)
    with profile(with_stack=True) as prof:
        (x * 2).sum().backward()
    assert not [e.name for e in prof.events() if "autograd/engine.py" in e.name]


def test_ops_of_an_op_have_its_stack() -> None:
    x, w = torch.ones(2, 2), torch.ones(2, 2)
    with profile(with_stack=True) as prof:
        torch.nn.functional.linear(x, w)
    stacks = {e.name: e.stack for e in prof.events() if e.name.startswith("aten::")}
    assert stacks["aten::transpose"] == stacks["aten::t"] == stacks["aten::linear"]
    assert "test_ops_of_an_op_have_its_stack" in stacks["aten::linear"][0]


def test_other_profilers_see_the_machinery() -> None:
    x = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([x], momentum=0.9)
    x.sum().backward()
    watch = cProfile.Profile()
    with watch, profile():
        x.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    seen = {name for _, _, name in pstats.Stats(watch).stats}  # type: ignore[attr-defined]
    assert {"_run_task", "_update", "zero_grad"} <= seen


def test_attributes_that_are_read_are_no_events() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    with profile(with_stack=True) as prof:
        x.shape, x.dtype, x.grad, x.requires_grad, x.T  # noqa: B018
        x.grad = None
    assert not [event.name for event in prof.events() if "mindtorch_v2/" in event.name]
