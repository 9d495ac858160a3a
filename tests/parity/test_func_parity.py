"""torch.func beside torch's own: the same values, the same structure, the same say on requires_grad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.func
from torch.utils import _pytree

import mindtorch_v2
from mindtorch_v2.utils import _pytree as ours_pytree

X = [1.0, 2.0, 3.0]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch")  # of torch itself


def _through_closure(t: Any, f: Any) -> Any:
    w = t.tensor(X, requires_grad=True)
    g = f.grad(lambda x: (w * x**2).sum())(t.tensor(X))
    g.sum().backward()
    return g, w.grad


def _through_argument(t: Any, f: Any) -> Any:
    x = t.tensor(X, requires_grad=True)
    g = f.grad(lambda x: (x**3).sum())(x)
    g.sum().backward()
    return g, x.grad


def _in_no_grad(t: Any, f: Any) -> Any:
    x = t.tensor(X, requires_grad=True)
    with t.no_grad():
        return f.grad(lambda x: (x**3).sum())(x)


def _ensemble(t: Any, f: Any) -> Any:
    t.manual_seed(0)
    models = [t.nn.Linear(3, 2) for _ in range(3)]
    p, b = f.stack_module_state(models)
    call = f.vmap(lambda p, b, x: f.functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))
    return p, call(p, b, t.ones(4, 3))


def _sample_by_sample(t: Any, f: Any) -> Any:
    t.manual_seed(0)
    layer = t.nn.Linear(3, 2)
    p = {name: v.detach() for name, v in layer.named_parameters()}
    loss = f.grad(lambda p, x: f.functional_call(layer, p, (x,)).sum() ** 2)
    return f.vmap(loss, in_dims=(None, 0))(p, t.arange(6.0).reshape(2, 3))


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda t, f: f.grad(lambda x: (x**3).sum())(t.tensor(X)),
    "third derivative": lambda t, f: f.grad(f.grad(f.grad(lambda x: x.sin())))(t.tensor(2.0)),
    "aux": lambda t, f: f.grad_and_value(lambda x, y: ((x * y).sum(), {"a": x}), argnums=(0, 1), has_aux=True)(
        t.tensor(X), t.tensor(X)
    ),
    "dictionary": lambda t, f: f.grad(lambda p: (p["w"] * p["b"]).sum())({"w": t.tensor(X), "b": t.tensor(X)}),
    "vjp": lambda t, f: f.vjp(lambda x: (x.sin(), x * 2), t.tensor(X))[1]((t.tensor(X), t.tensor(X))),
    "jvp": lambda t, f: f.jvp(lambda x: (x.sin(), x * 2), (t.tensor(X),), (t.tensor(X),)),
    "linearize": lambda t, f: f.linearize(lambda x: x.sin(), t.tensor(X))[1](t.tensor(X)),
    "jacrev": lambda t, f: f.jacrev(lambda x: x.sin())(t.tensor(X)),
    "jacfwd": lambda t, f: f.jacfwd(lambda x, y: (x * y, x.sum()), argnums=(0, 1))(t.tensor(X), t.tensor(X)),
    "hessian": lambda t, f: f.hessian(lambda x, y: (x * y * y).sum(), argnums=(0, 1))(t.tensor(X), t.tensor(X)),
    "jvp of grad": lambda t, f: f.jvp(f.grad(lambda x: (x**3).sum()), (t.tensor(X),), (t.tensor(X),)),
    "grad of jvp": lambda t, f: f.grad(lambda x: f.jvp(lambda y: y**3, (x,), (t.tensor(1.0),))[1])(t.tensor(2.0)),
    "grad inside grad": lambda t, f: f.grad(lambda x: (f.grad(lambda y: (y * x).sum())(t.tensor(X)) ** 2).sum())(
        t.tensor(X)
    ),
    "vmap": lambda t, f: f.vmap(lambda x, y: (x + y, {"k": x * y}), in_dims=(1, None), out_dims=1)(
        t.arange(12.0).reshape(3, 4), t.ones(3)
    ),
    "vmap from the end": lambda t, f: f.vmap(lambda x: x * 2, in_dims=-1, out_dims=-1)(t.arange(12.0).reshape(3, 4)),
    "vmap of vmap": lambda t, f: f.vmap(f.vmap(lambda x: x * 2))(t.arange(12.0).reshape(3, 4)),
    "vmap of grad": lambda t, f: f.vmap(f.grad(lambda x: (x**2).sum()))(t.arange(12.0).reshape(3, 4)),
    "vmap of a dictionary": lambda t, f: f.vmap(lambda x, d: x * d["a"], in_dims=(0, {"a": 0}))(
        t.ones(2, 3), {"a": t.tensor([1.0, 2.0])}
    ),
    "vmap of keywords": lambda t, f: f.vmap(lambda x, y: x * y)(t.ones(2, 3), y=t.tensor(X)),
    "through a closure": _through_closure,
    "through an argument": _through_argument,
    "in no_grad": _in_no_grad,
    "ensemble": _ensemble,
    "sample by sample": _sample_by_sample,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    theirs = _pytree.tree_leaves(PROGRAMS[name](torch, torch.func))
    ours = ours_pytree.tree_leaves(PROGRAMS[name](mindtorch_v2, mindtorch_v2.func))
    assert [t.requires_grad for t in ours] == [t.requires_grad for t in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert tuple(mine.shape) == tuple(other.shape)
        np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol=1e-5, atol=1e-6)
