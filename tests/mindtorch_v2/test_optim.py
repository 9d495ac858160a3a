"""Optimizers, schedules and their state; the reference weights were computed with torch 2.13."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import optim
from mindtorch_v2.optim import lr_scheduler

# Optimizer, options, and the weights after six steps on the problem in `minimize`.
REFERENCE: list[tuple[str, dict[str, Any], list[float]]] = [
    ("SGD", {"lr": 0.05}, [0.473219, -0.645675, -0.24174]),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}, [0.004641, 2.480043, -1.101871]),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1}, [0.421236, -1.969087, -0.084837]),
    ("Adam", {"lr": 0.1, "amsgrad": True}, [0.42156, -1.975842, -0.08515]),
    ("AdamW", {"lr": 0.1}, [0.41755, -1.973009, -0.086594]),
    ("NAdam", {"lr": 0.1}, [0.568734, -1.939264, 0.063575]),
    ("RAdam", {"lr": 0.1}, [0.129724, 0.693166, -0.87558]),
    ("Adamax", {"lr": 0.1}, [0.468374, -1.947804, -0.014384]),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}, [0.7055, -1.940445, 0.211817]),
    ("Adadelta", {"lr": 0.5}, [0.990057, -1.990563, 0.490111]),
    ("RMSprop", {"lr": 0.05, "momentum": 0.5, "centered": True}, [0.410646, 0.262911, -1.048203]),
    ("Rprop", {"lr": 0.1}, [0.25584, -1.925, -0.492992]),
    ("ASGD", {"lr": 0.05, "t0": 3}, [0.473211, -0.645659, -0.241737]),
    ("Adafactor", {"lr": 0.1}, [0.447723, -1.952933, -0.120426]),
    ("LBFGS", {"lr": 0.05, "max_iter": 2}, [0.935327, -1.950899, 0.416245]),
    ("LBFGS", {"max_iter": 3, "line_search_fn": "strong_wolfe"}, [0.333389, 0.550985, -1.144042]),
]
IDS = [f"{name} {options}" for name, options, _ in REFERENCE]


def minimize(name: str, options: dict[str, Any], steps: int = 6) -> tuple[Any, Any]:
    w = torch.tensor([1.0, -2.0, 0.5], requires_grad=True)
    optimizer = getattr(optim, name)([w], **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = ((w - torch.tensor([0.5, 1.0, -1.0])) ** 2).sum() + (w * w * w).sin().sum()
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return w, optimizer


@pytest.mark.parametrize(("name", "options", "weights"), REFERENCE, ids=IDS)
def test_weights_are_torchs(name: str, options: dict[str, Any], weights: list[float]) -> None:
    w, _ = minimize(name, options)
    np.testing.assert_allclose(w.detach().numpy(), weights, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(("name", "options", "weights"), REFERENCE, ids=IDS)
def test_state_dict_continues_where_it_was_taken(name: str, options: dict[str, Any], weights: list[float]) -> None:
    w, optimizer = minimize(name, options, steps=3)
    saved = copy.deepcopy(optimizer.state_dict())
    fresh = torch.tensor(w.tolist(), requires_grad=True)
    again = getattr(optim, name)([fresh], **options)
    again.load_state_dict(saved)
    for parameter, one in ((w, optimizer), (fresh, again)):
        for _ in range(2):
            one.zero_grad()

            def closure(parameter: Any = parameter, one: Any = one) -> Any:
                one.zero_grad()
                loss = (parameter**2).sum()
                loss.backward()
                return loss

            one.step(closure)
    np.testing.assert_allclose(w.detach().numpy(), fresh.detach().numpy(), rtol=1e-6)


MATRICES: list[tuple[str, dict[str, Any], list[float]]] = [
    ("Adafactor", {"lr": 0.05}, [0.7038, -1.7211, 0.2086, 0.0495, -0.7767, 2.696]),
    ("Muon", {"lr": 0.05}, [0.8738, -1.8907, 0.2671, 0.1183, -0.9114, 2.8173]),
    (
        "Muon",
        {"lr": 0.05, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"},
        [0.9507, -1.9406, 0.43, 0.209, -0.9593, 2.907],
    ),
]


@pytest.mark.parametrize(("name", "options", "weights"), MATRICES)
def test_optimizers_of_matrices_give_torchs_weights(name: str, options: dict[str, Any], weights: list[float]) -> None:
    w = torch.tensor([[1.0, -2.0], [0.5, 0.25], [-1.0, 3.0]], requires_grad=True)
    optimizer = getattr(optim, name)([w], **options)
    for _ in range(4):
        optimizer.zero_grad()
        (w.pow(2).sum() + w.prod()).backward()
        optimizer.step()
    np.testing.assert_allclose(w.detach().numpy().reshape(-1), weights, atol=2e-3)


# --- foreach ----------------------------------------------------------------------------------------------------------

JOINED: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"momentum": 0.9, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"maximize": True}),
    ("NAdam", {"weight_decay": 0.1}),
    ("RAdam", {}),
    ("Adamax", {}),
    ("Adagrad", {"weight_decay": 0.1}),
    ("Adadelta", {}),
    ("RMSprop", {"centered": True, "momentum": 0.5}),
]


def train_several(name: str, options: dict[str, Any], foreach: bool) -> tuple[list[list[float]], set[str]]:
    """The weights after a few steps on parameters of which one joins late, and the names of the joined ops seen."""
    torch.manual_seed(0)
    weights = [torch.randn(shape, requires_grad=True) for shape in ((3,), (2, 2), (4,))]
    optimizer = getattr(optim, name)(weights, lr=0.05, foreach=foreach, **options)
    with torch.profiler.profile() as seen:
        for step in range(7):
            optimizer.zero_grad()
            sum(w.pow(3).sum() for w in weights[: 2 if step < 2 else 3]).backward()
            optimizer.step()
    return [w.flatten().tolist() for w in weights], {e.name for e in seen.events() if "_foreach_" in e.name}


@pytest.mark.parametrize(("name", "options"), JOINED)
def test_foreach_joins_parameters_and_changes_no_number(name: str, options: dict[str, Any]) -> None:
    alone, none = train_several(name, options, foreach=False)
    joined, names = train_several(name, options, foreach=True)
    assert alone == joined
    assert not none
    assert "aten::_foreach_add_" in names


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_foreach_extremes_take_lists_and_numbers(name: str) -> None:
    tensors = [torch.tensor([1.0, 3.0])]
    limit = {"maximum": [2.0, 3.0], "minimum": [1.0, 2.0]}[name]
    assert getattr(torch, f"_foreach_{name}")(tensors, 2.0)[0].tolist() == limit
    getattr(torch, f"_foreach_{name}_")(tensors, [torch.tensor([2.0, 2.0])])
    assert tensors[0].tolist() == limit


def test_step_returns_the_loss_of_the_closure() -> None:
    w = torch.ones(1, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)
    assert optimizer.step(lambda: torch.tensor(3.0)).item() == 3.0
    assert optimizer.step() is None


def test_parameters_without_gradient_stay() -> None:
    used, unused = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    optimizer = optim.Adam([used, unused], lr=0.5)
    (used * 2).sum().backward()
    optimizer.step()
    assert unused.item() == 1.0
    assert used.item() != 1.0
    assert unused not in optimizer.state


def test_zero_grad_forgets_or_fills() -> None:
    w = torch.ones(2, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)
    (w * 2).sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert w.grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert w.grad is None


def test_groups_have_options_of_their_own() -> None:
    a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    optimizer = optim.SGD([{"params": [a]}, {"params": [b], "lr": 1.0}], lr=0.1)
    (a + b).sum().backward()
    optimizer.step()
    assert a.item() == pytest.approx(0.9)
    assert b.item() == pytest.approx(0.0)


def test_maximize_climbs() -> None:
    w = torch.ones(1, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1, maximize=True)
    w.sum().backward()
    optimizer.step()
    assert w.item() == pytest.approx(1.1)


def test_hooks_run_around_a_step() -> None:
    w = torch.ones(1, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)
    order: list[str] = []
    optimizer.register_step_pre_hook(lambda *args: order.append("before"))
    handle = optimizer.register_step_post_hook(lambda *args: order.append("after"))
    optimizer.step()
    handle.remove()
    optimizer.step()
    assert order == ["before", "after", "before"]


def test_repr_lists_the_options() -> None:
    text = repr(optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1))
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0\n")
    assert "    lr: 0.1\n" in text


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: optim.SGD([], lr=0.1), ValueError, "empty parameter list"),
        (lambda: optim.SGD(torch.ones(1), lr=0.1), TypeError, "iterable of Tensors or dicts"),
        (lambda: optim.SGD([1.0], lr=0.1), TypeError, "can only optimize Tensors"),
        (lambda: optim.SGD([torch.ones(1, requires_grad=True) * 2], lr=0.1), ValueError, "non-leaf"),
        (lambda: optim.SGD([torch.ones(1, requires_grad=True)], lr=-1.0), ValueError, "Invalid learning rate"),
        (lambda: optim.SGD([torch.ones(1)], nesterov=True), ValueError, "Nesterov"),
        (lambda: optim.Adam([torch.ones(1)], betas=(1.0, 0.9)), ValueError, "beta parameter at index 0"),
    ],
)
def test_bad_input_is_refused(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def test_a_state_dict_of_another_shape_is_refused() -> None:
    one, two = (optim.SGD([torch.ones(1, requires_grad=True) for _ in range(n)], lr=0.1) for n in (1, 2))
    with pytest.raises(ValueError, match="doesn't match the size"):
        one.load_state_dict(two.state_dict())


def rates(scheduler: Any, steps: int = 6) -> list[float]:
    found = []
    for _ in range(steps):
        found.append(scheduler.get_last_lr()[0])
        scheduler.optimizer.step()
        scheduler.step()
    return found


def optimizer_at(lr: float) -> Any:
    return optim.SGD([torch.ones(1, requires_grad=True)], lr=lr, momentum=0.9)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda o: lr_scheduler.StepLR(o, 2, 0.1), [1.0, 1.0, 0.1, 0.1, 0.01, 0.01]),
        (lambda o: lr_scheduler.MultiStepLR(o, [1, 3], 0.5), [1.0, 0.5, 0.5, 0.25, 0.25, 0.25]),
        (lambda o: lr_scheduler.ExponentialLR(o, 0.5), [1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125]),
        (lambda o: lr_scheduler.LambdaLR(o, lambda e: 1 / (e + 1)), [1.0, 0.5, 1 / 3, 0.25, 0.2, 1 / 6]),
        (lambda o: lr_scheduler.ConstantLR(o, 0.5, 2), [0.5, 0.5, 1.0, 1.0, 1.0, 1.0]),
        (lambda o: lr_scheduler.LinearLR(o, 0.5, 1.0, 2), [0.5, 0.75, 1.0, 1.0, 1.0, 1.0]),
        (lambda o: lr_scheduler.PolynomialLR(o, 4), [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, 2), [1.0, 0.5, 0.0, 0.5, 1.0, 0.5]),
        (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2), [1.0, 0.5, 1.0, 0.5, 1.0, 0.5]),
        (lambda o: lr_scheduler.CyclicLR(o, 0.0, 1.0, 2), [0.0, 0.5, 1.0, 0.5, 0.0, 0.5]),
        (lambda o: lr_scheduler.MultiplicativeLR(o, lambda e: 0.5), [1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125]),
    ],
)
def test_schedules(make: Any, expected: list[float]) -> None:
    assert rates(make(optimizer_at(1.0))) == pytest.approx(expected, abs=1e-9)


def test_one_cycle_goes_up_and_far_down() -> None:
    found = rates(lr_scheduler.OneCycleLR(optimizer_at(1.0), 1.0, total_steps=10, div_factor=10.0), 10)
    assert found[0] == pytest.approx(0.1)
    assert max(found) == pytest.approx(1.0)
    assert found[-1] < 1e-4


def test_plateau_waits_for_its_patience() -> None:
    optimizer = optimizer_at(1.0)
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=1)
    seen = []
    for metric in (1.0, 1.0, 1.0, 1.0, 0.5):
        scheduler.step(metric)
        seen.append(optimizer.param_groups[0]["lr"])
    assert seen == pytest.approx([1.0, 1.0, 0.1, 0.1, 0.1])


def test_stepping_a_schedule_first_warns() -> None:
    scheduler = lr_scheduler.StepLR(optimizer_at(1.0), 2)
    with pytest.warns(UserWarning, match=r"before `optimizer.step\(\)`"):
        scheduler.step()


def test_a_schedules_state_can_be_saved() -> None:
    one = lr_scheduler.StepLR(optimizer_at(1.0), 2)
    rates(one, 3)
    two = lr_scheduler.StepLR(optimizer_at(1.0), 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        two.load_state_dict(one.state_dict())
    assert two.last_epoch == 3


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_gradients_flow_through_a_differentiable_step() -> None:
    rate = torch.tensor(3.0, requires_grad=True)
    start = torch.tensor([1.0, 2.0], requires_grad=True)
    p = start.clone()
    optimizer = optim.SGD([p], lr=0.5, weight_decay=0.1, differentiable=True)
    p.grad = rate * torch.tensor([1.0, -1.0])
    optimizer.step()
    p.sum().backward()
    assert rate.grad.item() == 0  # one goes up as the other goes down
    np.testing.assert_allclose(start.grad.numpy(), [0.95, 0.95])


def test_a_plain_step_is_no_part_of_the_graph() -> None:
    w = torch.tensor([1.0], requires_grad=True)
    w.grad = torch.tensor([2.0], requires_grad=True)
    optim.SGD([w], lr=0.5).step()
    assert w.is_leaf
    assert w.item() == 0


@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD"]
)
def test_complex_parameters_move_as_pairs_of_real_numbers(name: str) -> None:
    whole = torch.tensor([1 + 2j, -0.5 + 0.25j], requires_grad=True)
    pairs = torch.view_as_real(whole.detach().clone()).requires_grad_()
    optimizers = getattr(optim, name)([whole], lr=0.1), getattr(optim, name)([pairs], lr=0.1)
    for slope in ([[0.3, -2.0], [1.0, 0.5]], [[0.1, 1.0], [-0.2, 0.5]]):
        pairs.grad = torch.tensor(slope)
        whole.grad = torch.view_as_complex(pairs.grad.clone())
        for optimizer in optimizers:
            optimizer.step()
    assert torch.equal(torch.view_as_real(whole.detach()), pairs.detach())


def test_an_optimizer_that_wraps_another_needs_no_set_up_of_its_own() -> None:
    class Every(optim.Optimizer):
        def __init__(self, inner: Any) -> None:  # as wrappers do, without the base class's
            self.inner, self.param_groups, self.calls = inner, inner.param_groups, 0

        def step(self, closure: Any = None) -> None:
            self.calls += 1
            self.inner.step(closure)

    w = torch.ones(1, requires_grad=True)
    wrapper = Every(optim.SGD([w], 0.5))
    w.sum().backward()
    wrapper.step()
    wrapper.zero_grad()
    assert (w.item(), wrapper.calls, w.grad) == (0.5, 1, None)


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW, optim.Adagrad])
def test_fused_steps_end_where_others_do(kind: Any) -> None:
    ends = []
    for fused in (True, False):
        p = torch.nn.Parameter(torch.linspace(-1, 1, 7))
        optimizer = kind([p], lr=0.1, weight_decay=0.01, fused=fused)
        for _ in range(3):
            optimizer.zero_grad()
            (p**3).sum().backward()
            optimizer.step()
        ends.append(p.tolist())
    assert ends[0] == ends[1]
