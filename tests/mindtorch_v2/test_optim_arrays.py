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


def run(name: str, options: dict[str, Any], watched: bool) -> tuple[list[Any], Any]:
    torch.manual_seed(3)
    held = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    held.append(torch.nn.Parameter(torch.randn(4, 4, dtype=torch.float64)))
    optimizer = getattr(optim, name)(held, **options)
    for _ in range(3):
        for p in held:
            p.grad = torch.randn(p.shape, dtype=p.dtype)
        held[1].grad = torch.randn(4, 3).t()
        if watched:
            with torch.profiler.profile():
                optimizer.step()
        else:
            optimizer.step()
    return held, optimizer


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=[f"{name} {options}" for name, options in OPTIONS])
def test_a_step_is_the_same_seen_and_unseen(name: str, options: dict[str, Any]) -> None:
    plain, optimizer = run(name, options, watched=False)
    seen, watched = run(name, options, watched=True)
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
