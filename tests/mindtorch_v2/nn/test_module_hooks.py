"""Hooks of modules: around forward, around backward, and those of every module."""

import copy
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.nn.modules import module as modules


class Scaled(nn.Module):
    def forward(self, x: Any, *, by: int = 1) -> Any:
        return x * by


def test_forward_hooks_change_arguments_and_results() -> None:
    net = Scaled()
    before = net.register_forward_pre_hook(lambda m, args: args[0] + 1)
    after = net.register_forward_hook(lambda m, args, out: out * 10)
    assert net(torch.ones(1)).item() == 20
    before.remove()
    after.remove()
    assert net(torch.ones(1)).item() == 1


def test_hooks_with_keywords() -> None:
    net = Scaled()
    seen: list[Any] = []
    net.register_forward_pre_hook(lambda m, args, kwargs: (args, {"by": kwargs["by"] + 1}), with_kwargs=True)
    net.register_forward_hook(lambda m, args, kwargs, out: seen.append(kwargs), with_kwargs=True)
    assert net(torch.ones(1), by=2).item() == 3
    assert seen == [{"by": 3}]


def test_prepended_hooks_come_first() -> None:
    net, seen = Scaled(), []
    net.register_forward_hook(lambda *_: seen.append("second"))
    net.register_forward_hook(lambda *_: seen.append("first"), prepend=True)
    net(torch.ones(1))
    assert seen == ["first", "second"]


def test_some_hooks_are_called_after_errors_too() -> None:
    class Failing(nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("no")

    net, seen = Failing(), []
    net.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    net.register_forward_hook(lambda *_: seen.append("never"))
    with pytest.raises(ValueError, match="no"):
        net(1)
    assert seen == [None]


def test_an_error_of_such_a_hook_becomes_a_warning() -> None:
    class Failing(nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("no")

    net = Failing()
    net.register_forward_hook(lambda *_: 1 / 0, always_call=True)
    with pytest.warns(UserWarning, match="was silenced as another error"), pytest.raises(ValueError, match="no"):
        net(1)


def test_full_backward_hooks_see_and_change_gradients() -> None:
    net, seen = nn.Linear(2, 1, bias=False), []
    with torch.no_grad():
        net.weight.fill_(3)
    net.register_full_backward_pre_hook(lambda m, grads: (grads[0] * 2,))
    net.register_full_backward_hook(lambda m, inputs, outputs: seen.append((inputs, outputs)) or (inputs[0] + 1,))
    x = torch.ones(1, 2, requires_grad=True)
    net(x).sum().backward()
    assert x.grad.tolist() == [[7, 7]]
    assert net.weight.grad.tolist() == [[2, 2]]
    assert seen[0][0][0].tolist() == [[6, 6]]
    assert seen[0][1][0].tolist() == [[2]]


def test_a_full_hook_fires_without_gradients_of_inputs() -> None:
    net, seen = nn.Linear(2, 1), []
    net.register_full_backward_hook(lambda m, inputs, outputs: seen.append(inputs))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        net(torch.ones(1, 2)).sum().backward()
    assert seen == [(None,)]


def test_a_hook_that_returns_too_many_gradients_is_an_error() -> None:
    net = nn.ReLU()
    net.register_full_backward_hook(lambda m, inputs, outputs: (inputs[0], None))
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 2, but expected 1"):
        net(torch.ones(1, requires_grad=True)).backward()


def test_old_and_full_hooks_do_not_mix() -> None:
    net = nn.ReLU()
    net.register_full_backward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full backward hooks"):
        net.register_backward_hook(lambda *_: None)


def test_old_hooks_see_the_last_node() -> None:
    net, seen = nn.ReLU(), []
    net.register_backward_hook(lambda m, inputs, outputs: seen.append(outputs[0].item()))
    net(torch.ones(1, requires_grad=True) * 2).backward()
    assert seen == [1]


def test_hooks_of_every_module() -> None:
    seen: list[str] = []
    handle = modules.register_module_forward_hook(lambda m, args, out: seen.append(type(m).__name__))
    nn.Sequential(nn.ReLU())(torch.ones(1))
    handle.remove()
    nn.ReLU()(torch.ones(1))
    assert seen == ["ReLU", "Sequential"]


def test_hooks_of_registration_replace_what_is_registered() -> None:
    with modules.register_module_module_registration_hook(lambda m, name, child: nn.Identity()):
        net = nn.Sequential(nn.ReLU())
    assert type(net[0]) is nn.Identity


def test_load_hooks_follow_a_copy() -> None:
    net, seen = nn.Linear(1, 1), []
    net.register_load_state_dict_pre_hook(lambda module, *rest: seen.append(module))
    other = copy.deepcopy(net)
    other.load_state_dict(other.state_dict())
    assert seen == [other]


def test_hooks_around_state_dicts() -> None:
    net, seen = nn.Linear(1, 1), []
    net.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append("writing"))
    net.register_state_dict_post_hook(lambda m, state, prefix, meta: seen.append("written"))
    net.register_load_state_dict_post_hook(lambda m, keys: seen.append("read"))
    net.load_state_dict(net.state_dict())
    assert seen == ["writing", "written", "read"]
