"""`torch.__future__` and `swap_tensors`: what a module's parameters become when it is cast or loaded."""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict
from collections.abc import Iterator

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.utils import swap_tensors


@pytest.fixture
def swapping() -> Iterator[None]:
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


def test_swapped_tensors_have_each_others_type_values_and_attributes() -> None:
    a, b = nn.Parameter(torch.ones(2)), torch.zeros(3)
    a.note = "of a"
    swap_tensors(a, b)
    assert type(a) is torch.Tensor
    assert type(b) is nn.Parameter
    assert a.shape == (3,)
    assert b.tolist() == [1.0, 1.0]
    assert b.note == "of a"
    assert not hasattr(a, "note")
    assert b.requires_grad
    assert not a.requires_grad


def test_gradients_arrive_at_the_tensor_that_was_swapped_in() -> None:
    a, b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.full((2,), 3.0))
    swap_tensors(a, b)
    (a * a).sum().backward()
    assert a.grad.tolist() == [6.0, 6.0]
    assert b.grad is None


def test_a_graph_from_before_the_swap_says_so_in_backward() -> None:
    a = nn.Parameter(torch.ones(2))
    loss = (a * 2).sum()
    swap_tensors(a, nn.Parameter(torch.zeros(2)))
    with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
        loss.backward()


def test_a_tensor_with_a_weak_reference_is_not_swapped() -> None:
    a, b = torch.ones(2), torch.zeros(2)
    kept = weakref.ref(a)
    with pytest.raises(RuntimeError, match="Cannot swap t1 because it has weakref"):
        swap_tensors(a, b)
    assert kept() is a
    assert a.tolist() == [1.0, 1.0]


def test_a_cast_swaps_parameters_that_stay_the_same_objects(swapping: None) -> None:
    layer = nn.Linear(2, 2)
    weight = layer.weight
    layer(torch.ones(1, 2)).sum().backward()
    layer.double()
    assert layer.weight is weight
    assert weight.dtype is torch.float64
    assert weight.grad.dtype is torch.float64


def test_a_cast_gives_new_parameters_where_programs_ask_for_them() -> None:
    layer = nn.Linear(2, 2)
    weight = layer.weight
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        layer.double()
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)
    assert layer.weight is not weight
    assert weight.dtype is torch.float32
    assert layer.weight.dtype is torch.float64


def test_loading_swaps_in_what_module_load_gives(swapping: None) -> None:
    class Doubling(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if func is torch.Tensor.module_load:
                return args[1].detach() * 2
            return super().__torch_function__(func, types, args, kwargs)

    layer = nn.Linear(2, 1, bias=False)
    weight = layer.weight
    layer.load_state_dict({"weight": torch.ones(1, 2).as_subclass(Doubling)})
    assert layer.weight is weight
    assert weight.tolist() == [[2.0, 2.0]]
    assert isinstance(weight, nn.Parameter)


def test_what_module_load_hands_through_is_refused(swapping: None) -> None:
    class Lazy(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if func is torch.Tensor.module_load:
                return args[1]
            return super().__torch_function__(func, types, args, kwargs)

    with pytest.raises(RuntimeError, match=r"While swapping the parameter named .*module_load returned one of self or"):
        nn.Linear(2, 1, bias=False).load_state_dict({"weight": torch.ones(1, 2).as_subclass(Lazy)})


def test_parameters_on_meta_are_swapped_for_real_ones(swapping: None) -> None:
    layer = nn.Linear(2, 1, bias=False, device="meta")
    layer.load_state_dict({"weight": torch.ones(1, 2)}, assign=True)
    assert layer.weight.device.type == "cpu"
    assert layer(torch.ones(2)).tolist() == [2.0]


def test_loading_leaves_no_cycle_of_references() -> None:
    layer = nn.Linear(2, 2)
    state = nn.Linear(2, 2).state_dict()
    gc.collect()
    layer.load_state_dict(state)
    assert gc.collect() == 0


def test_hooks_of_every_module_are_variables_that_programs_may_replace() -> None:
    home = nn.modules.module
    seen: list[str] = []
    nn.modules.module.register_module_forward_hook(lambda *_: seen.append("called"), always_call=True)
    assert len(home._global_forward_hooks) == len(home._global_forward_hooks_always_called) == 1
    nn.Identity()(1)
    home._global_forward_hooks = OrderedDict()
    home._global_forward_hooks_always_called = OrderedDict()
    nn.Identity()(1)
    assert seen == ["called"]
