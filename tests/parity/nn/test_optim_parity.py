"""Optimizers beside torch's: parameters after some steps, state, options, signatures, and gradients through a step."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import numpy as np
import pytest
import torch

import mindtorch_v2

CASES: dict[str, list[dict[str, Any]]] = {
    "ASGD": [{}, {"weight_decay": 0.1}, {"t0": 2}],
    "Adadelta": [{}, {"weight_decay": 0.1}],
    "Adafactor": [{}, {"weight_decay": 0.1}, {"maximize": True}],
    "Adagrad": [{}, {"weight_decay": 0.1}, {"lr_decay": 0.1}, {"initial_accumulator_value": 0.5}],
    "Adam": [{}, {"amsgrad": True}, {"weight_decay": 0.1}, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "AdamW": [{}, {"amsgrad": True}, {"maximize": True}],
    "Adamax": [{}, {"weight_decay": 0.1}, {"maximize": True}],
    "Muon": [{}, {"nesterov": False}, {"adjust_lr_fn": "match_rms_adamw"}],
    "NAdam": [{}, {"weight_decay": 0.1, "decoupled_weight_decay": True}, {"momentum_decay": 0.1}],
    "RAdam": [{}, {"weight_decay": 0.1}, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "RMSprop": [{}, {"centered": True}, {"momentum": 0.9, "weight_decay": 0.1}, {"momentum": 0.9, "centered": True}],
    "Rprop": [{}, {"maximize": True}],
    "SGD": [{}, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, {"momentum": 0.9, "dampening": 0.3}],
}
STEPPED = [
    pytest.param(name, options, foreach, id=f"{name}-{'-'.join(options)}-{foreach}")
    for name, cases in CASES.items()
    for options in cases
    for foreach in ((None,) if name == "Muon" else (False, True))
]


def _stepped(library: Any, name: str, options: dict[str, Any], foreach: bool | None) -> tuple[list[Any], Any]:
    draws = np.random.default_rng(0)
    shapes = [(3, 4), (4, 5)] if name == "Muon" else [(3, 4), (5,)]
    params = [library.tensor(draws.standard_normal(s, dtype=np.float32), requires_grad=True) for s in shapes]
    how = {} if foreach is None else {"foreach": foreach}
    optimizer = getattr(library.optim, name)(params, **options, **how)
    for _ in range(6):
        for p in params:
            p.grad = library.tensor(draws.standard_normal(tuple(p.shape), dtype=np.float32))
        optimizer.step()
    return params, optimizer


def _described(optimizer: Any) -> dict[str, Any]:
    """The state dict with shapes and dtypes in place of tensors, in its order."""
    saved = optimizer.state_dict()
    state = {
        key: [(name, tuple(value.shape), str(value.dtype).split(".")[-1]) for name, value in entries.items()]
        for key, entries in saved["state"].items()
    }
    return {"state": state, "groups": [list(group.items()) for group in saved["param_groups"]]}


@pytest.mark.parametrize(("name", "options", "foreach"), STEPPED)
def test_parameters_state_and_options_are_those_of_torch(name: str, options: Any, foreach: bool | None) -> None:
    theirs, their_optimizer = _stepped(torch, name, options, foreach)
    ours, our_optimizer = _stepped(mindtorch_v2, name, options, foreach)
    tolerance = 1e-2 if name == "Muon" else 1e-6  # Muon multiplies in bfloat16
    for p, q in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=0, atol=tolerance)
    assert _described(our_optimizer) == _described(their_optimizer)
    assert repr(our_optimizer) == repr(their_optimizer)


@pytest.mark.parametrize("name", CASES)
def test_constructors_take_what_torch_takes(name: str) -> None:
    def parameters(library: Any) -> list[tuple[str, Any, Any]]:
        found = inspect.signature(getattr(library.optim, name)).parameters.values()
        return [(p.name, p.kind, p.default) for p in found]

    assert parameters(mindtorch_v2) == parameters(torch)


def _through(library: Any, name: str, options: dict[str, Any]) -> list[np.ndarray]:
    """Gradients, through two steps, of what the steps' gradients came from and of the start."""
    start = library.tensor([1.0, 2.0, 3.0], dtype=library.float64, requires_grad=True)
    source = library.tensor([0.3, -0.2, 0.9], dtype=library.float64, requires_grad=True)
    p = start.clone()
    optimizer = getattr(library.optim, name)([p], lr=0.1, differentiable=True, **options)
    for factor in (1.0, 2.0):
        p.grad = factor * source * source + p.clone() * source
        optimizer.step()
    (p * p).sum().backward()
    return [source.grad.numpy(), start.grad.numpy()]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ASGD", {}),
        ("Adadelta", {}),
        ("Adagrad", {}),
        ("Adam", {"weight_decay": 0.1}),
        ("AdamW", {}),
        ("NAdam", {"eps": 1e-3}),
        ("RAdam", {"eps": 1e-3}),
        ("RMSprop", {"eps": 1e-3}),
        ("SGD", {"momentum": 0.9, "weight_decay": 0.1}),
    ],
)
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_gradients_flow_through_a_differentiable_step(name: str, options: Any) -> None:
    for ours, theirs in zip(_through(mindtorch_v2, name, options), _through(torch, name, options), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3)  # torch corrects Adam in float32 here


@pytest.mark.parametrize("name", ["Adagrad", "Adam", "SGD"])
@pytest.mark.parametrize("options", [{"fused": True, "differentiable": True}, {"fused": True, "foreach": True}])
def test_steps_that_exclude_each_other(name: str, options: Any) -> None:
    raised = []
    for library in (torch, mindtorch_v2):
        with pytest.raises(RuntimeError) as error:
            getattr(library.optim, name)([library.zeros(2, requires_grad=True)], **options)
        raised.append(str(error.value))
    assert raised[0] == raised[1]


def _averaged(library: Any, kind: str) -> list[Any]:
    """Parameters and batch statistics of an averaged model, the rates on the way, and its keys."""
    swa = library.optim.swa_utils
    draws = np.random.default_rng(1)
    model = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.BatchNorm1d(4))
    with library.no_grad():
        for p in model.parameters():
            p.copy_(library.tensor(draws.standard_normal(tuple(p.shape), dtype=np.float32)))
    how = {
        "swa": {},
        "ema": {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.9)},
        "one": {"avg_fn": swa.get_ema_avg_fn(0.5)},
    }
    averaged = swa.AveragedModel(model, **how[kind])
    optimizer = library.optim.SGD(model.parameters(), lr=0.02)
    schedule = swa.SWALR(optimizer, swa_lr=0.005, anneal_epochs=3)
    rates, data = [], [library.tensor(draws.standard_normal((8, 3), dtype=np.float32)) for _ in range(4)]
    for x in data:
        optimizer.zero_grad()
        (model(x) ** 2).sum().backward()
        optimizer.step()
        averaged.update_parameters(model)
        schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
    swa.update_bn(data, averaged)
    found = [*averaged.parameters(), *averaged.buffers()]
    return [[t.detach().numpy() for t in found], rates, list(averaged.state_dict())]


@pytest.mark.parametrize("kind", ["swa", "ema", "one"])
def test_averaged_models_are_those_of_torch(kind: str) -> None:
    (ours, our_rates, our_keys), (theirs, their_rates, their_keys) = (
        _averaged(lib, kind) for lib in (mindtorch_v2, torch)
    )
    for mine, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-4, atol=1e-5)
    assert our_rates == pytest.approx(their_rates)
    assert our_keys == their_keys


def test_hooks_of_all_optimizers_run_around_each_step() -> None:
    def order(library: Any) -> list[str]:
        seen: list[str] = []
        module = sys.modules[library.optim.Optimizer.__module__]
        before = module.register_optimizer_step_pre_hook(lambda o, args, kwargs: seen.append("all before"))
        after = module.register_optimizer_step_post_hook(lambda o, args, kwargs: seen.append("all after"))
        optimizer = library.optim.SGD([library.zeros(2, requires_grad=True)])
        optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("own before"))
        optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("own after"))
        optimizer.step()
        before.remove()
        after.remove()
        optimizer.step()
        return seen

    assert order(mindtorch_v2) == order(torch)
