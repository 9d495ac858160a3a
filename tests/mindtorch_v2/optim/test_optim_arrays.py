"""Steps straight on the arrays: the same as steps made of operators, to the bit, and left out where they do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import optim
from mindtorch_v2.optim import arrays

# Small ones, and one larger than a block.
SHAPES = [(5,), (3, 4), (70_001,)]
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.05}),
    ("SGD", {"lr": 0.05, "weight_decay": 0.1, "maximize": True}),
    ("SGD", {"lr": 0.05, "momentum": 0.9}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("Adam", {}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {"lr": 0.1}),
]

# These go together where all parameters are small.
TOGETHER: list[tuple[str, dict[str, Any]]] = [
    *OPTIONS,
    ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "maximize": True, "fused": True}),
    ("Adam", {"betas": (0.3, 0.9), "foreach": True}),
    ("AdamW", {"amsgrad": True, "maximize": True, "fused": True}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("Adamax", {"weight_decay": 0.1}),
    ("Adamax", {"maximize": True}),
    ("NAdam", {"weight_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"betas": (0.9, 0.8), "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"foreach": True}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1}),
    ("Adadelta", {"weight_decay": 0.1, "maximize": True}),
    ("RMSprop", {"centered": True, "momentum": 0.9}),
    ("RMSprop", {"weight_decay": 0.1}),
    ("Rprop", {}),
    ("Rprop", {"maximize": True}),
    ("ASGD", {"weight_decay": 0.1}),
    ("ASGD", {"t0": 1}),
]


def run(
    name: str, options: dict[str, Any], watched: bool, shapes: Any = SHAPES, dtype: Any = None
) -> tuple[list[Any], Any]:
    torch.manual_seed(3)
    held = [torch.nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in shapes]
    if dtype is None:
        held.append(torch.nn.Parameter(torch.randn(4, 4, dtype=torch.float64)))
    optimizer = getattr(optim, name)(held, **options)
    for _ in range(3):
        for p in held:
            p.grad = torch.randn(p.shape, dtype=p.dtype)
        if dtype is None:
            held[1].grad = torch.randn(4, 3).t()
        if watched:
            with torch.profiler.profile():
                optimizer.step()
        else:
            optimizer.step()
    return held, optimizer


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=[f"{name} {options}" for name, options in OPTIONS])
def test_a_step_is_the_same_seen_and_unseen(name: str, options: dict[str, Any]) -> None:
    compare(run(name, options, watched=False), run(name, options, watched=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("name", "options"), TOGETHER, ids=[f"{name} {options}" for name, options in TOGETHER])
def test_small_parameters_that_go_together_go_as_each_would(name: str, options: dict[str, Any], dtype: Any) -> None:
    shapes = [(5,), (3, 4), (17,)]
    compare(run(name, options, False, shapes, dtype), run(name, options, True, shapes, dtype))


def test_parameters_at_different_steps_keep_their_own() -> None:
    one, two = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3))
    for make in (optim.Adam, optim.Adamax):
        optimizer = make([one, two])
        one.grad, two.grad = torch.ones(3), None
        optimizer.step()
        two.grad = torch.ones(3)
        optimizer.step()
        assert [optimizer.state[p]["step"].item() for p in (one, two)] == [2.0, 1.0]


def test_parameters_of_the_same_memory_go_one_after_the_other() -> None:
    memory = torch.ones(4)
    one, two = torch.nn.Parameter(memory), torch.nn.Parameter(memory[2:])
    one.grad, two.grad = torch.ones(4), torch.ones(2)
    optim.SGD([one, two], lr=0.25).step()
    assert memory.tolist() == [0.75, 0.75, 0.5, 0.5]


def compare(unseen: tuple[list[Any], Any], with_events: tuple[list[Any], Any]) -> None:
    (plain, optimizer), (seen, watched) = unseen, with_events
    for p, q in zip(plain, seen, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())
        assert p._version >= 3
        for key, value in optimizer.state[p].items():
            np.testing.assert_array_equal(value.numpy(), watched.state[q][key].numpy())


def test_a_parameter_of_another_dtype_is_left_to_the_operators() -> None:
    w = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    w.grad = torch.ones(3, dtype=torch.bfloat16)
    assert not arrays.sgd([w], {}, optim.SGD([w]).param_groups[0], -0.5, 0)
    optim.SGD([w], lr=0.5).step()
    assert w.tolist() == [0.5, 0.5, 0.5]


def test_nothing_is_changed_by_a_refusal() -> None:
    w, odd = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3, dtype=torch.float16))
    for p in (w, odd):
        p.grad = torch.ones_like(p)
    assert not arrays.sgd([w, odd], {}, optim.SGD([w, odd]).param_groups[0], -0.5, 0)
    assert w.tolist() == [1.0, 1.0, 1.0]


def test_a_changed_parameter_that_backward_needs_is_an_error() -> None:
    w = torch.nn.Parameter(torch.ones(3))
    optimizer = optim.SGD([w], lr=0.1)
    (w * w).sum().backward()
    y = (w * w).sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
