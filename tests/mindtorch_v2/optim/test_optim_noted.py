"""Updates whose operators are noted once and performed by the helper are recorded as those called one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.core import tap
from mindtorch_v2.optim import noted
from mindtorch_v2.profiler import profile

pytestmark = pytest.mark.skipif(tap.HELPER is None or noted.C is None, reason="needs the compiled parts")

OPTIMIZERS = {
    "adam": lambda ps: torch.optim.Adam(ps, lr=0.1),
    "decay": lambda ps: torch.optim.Adam(ps, lr=0.1, weight_decay=0.1),
    "adamw": lambda ps: torch.optim.AdamW(ps, lr=0.1, betas=(0.4, 0.9)),
    "maximize": lambda ps: torch.optim.AdamW(ps, lr=0.1, maximize=True),
    "rate": lambda ps: torch.optim.Adam(ps, lr=torch.tensor(0.1)),
    "rmsprop": lambda ps: torch.optim.RMSprop(ps, lr=0.1),
    "momentum": lambda ps: torch.optim.RMSprop(ps, lr=0.1, momentum=0.9),
    "adagrad": lambda ps: torch.optim.Adagrad(ps, lr=0.1, lr_decay=0.1),
    "sgd": lambda ps: torch.optim.SGD(ps, lr=0.1),
    "heavy": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.1),
    "nesterov": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True),
    "nadam": lambda ps: torch.optim.NAdam(ps, lr=0.1),
}
OTHERS = {
    "amsgrad": lambda ps: torch.optim.Adam(ps, lr=0.1, amsgrad=True),
    "centered": lambda ps: torch.optim.RMSprop(ps, lr=0.1, centered=True),
    "adadelta": lambda ps: torch.optim.Adadelta(ps),
    "radam": lambda ps: torch.optim.RAdam(ps, lr=0.1),
    "adamax": lambda ps: torch.optim.Adamax(ps, lr=0.1),
    "rprop": lambda ps: torch.optim.Rprop(ps, lr=0.1),
    "asgd": lambda ps: torch.optim.ASGD(ps, lr=0.1),
}
ROUND: tuple[Any, ...] = ([torch.ones(2)], [torch.ones(2)], [{}], [], [])  # of one parameter without state or numbers
EVERYTHING = {"record_shapes": True, "profile_memory": True, "with_stack": True}


def parameters(count: int = 6, dtype: Any = torch.float32) -> list[Any]:
    torch.manual_seed(3)
    made = [torch.nn.Parameter(torch.randn(3, k + 1, dtype=dtype)) for k in range(count)]
    for p in made:
        p.grad = torch.randn_like(p)
    return made


def recorded(optimizer: Any, **options: bool) -> list[Any]:
    """What the events of a second step look like, in order."""
    optimizer.step()
    with profile(**options) as prof:
        optimizer.step()
    return [
        (e.name, len(e.cpu_children), e.input_shapes, e.concrete_inputs, e.cpu_memory_usage, e.stack)
        for e in prof.events()
        if not e.is_user_annotation
    ]


def both_ways(make: Any, monkeypatch: pytest.MonkeyPatch, memory: bool = True, **options: Any) -> tuple[Any, Any]:
    """Events and parameters where operators are noted, and where each is called."""
    found, wanted = [], EVERYTHING | {"profile_memory": memory}
    for way in (noted.step, lambda *_: False):
        monkeypatch.setattr(noted, "step", way)
        params = parameters(**options)
        events = recorded(make(params), **wanted)
        found.append((events, [p.detach() for p in params]))
    return found[0], found[1]


@pytest.mark.parametrize("memory", [True, False])  # without it memory that is left over is used again
@pytest.mark.parametrize("name", [*OPTIMIZERS, *OTHERS])
def test_results_are_the_same_to_the_bit(name: str, memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    (_, performed), (_, called) = both_ways({**OPTIMIZERS, **OTHERS}[name], monkeypatch, memory)
    assert all(torch.equal(a, b) for a, b in zip(performed, called, strict=True))


@pytest.mark.parametrize("name", [n for n in OPTIMIZERS if n != "rate"])  # whose number is looked up once for all
def test_events_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (performed, _), (called, _) = both_ways(OPTIMIZERS[name], monkeypatch)
    assert [e[:5] for e in performed] == [e[:5] for e in called]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_operators_are_noted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    took = []
    step = noted.step
    monkeypatch.setattr(noted, "step", lambda *given: took.append(step(*given)) or took[-1])
    recorded(OPTIMIZERS[name](parameters()))
    assert took[-1:] == [True]  # the second step; nobody watches the first one, where momentum begins by operators


def test_stacks_lead_to_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    (performed, _), (called, _) = both_ways(OPTIMIZERS["adam"], monkeypatch)
    stacks = [[e[5] for e in events if e[0] == "aten::lerp_"] for events in (performed, called)]
    assert stacks[0]
    assert all(any("recorded" in entry for entry in stack) for stack in stacks[0])
    assert len(stacks[0]) == len(stacks[1])


def test_doubles_are_performed_as_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    (events, performed), (_, called) = both_ways(OPTIMIZERS["adam"], monkeypatch, dtype=torch.float64)
    assert all(torch.equal(a, b) for a, b in zip(performed, called, strict=True))
    assert sum(e[0] == "aten::lerp_" for e in events) == 6


def test_versions_count_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = []
    for way in (noted.step, lambda *_: False):
        monkeypatch.setattr(noted, "step", way)
        params = parameters()
        optimizer = OPTIMIZERS["adamw"](params)
        recorded(optimizer)
        state = optimizer.state[params[2]]
        versions.append([params[2]._version, *(t._version for t in state.values())])
    assert versions[0] == versions[1]


def unusual(kind: str) -> list[Any]:
    """Parameters of which one is not plain."""
    params = parameters()
    if kind == "turned":
        params[3].grad = torch.randn(4, 3).t()
    elif kind == "shared":
        params[3].grad = params[3].detach()
    elif kind == "mixed":
        params[3] = torch.nn.Parameter(params[3].detach().double())
        params[3].grad = torch.randn_like(params[3])
    elif kind == "scalar":
        params[3] = torch.nn.Parameter(torch.tensor(2.0))
        params[3].grad = torch.tensor(0.5)
    return params


@pytest.mark.parametrize("kind", ["turned", "shared", "mixed", "scalar"])
def test_what_is_not_plain_is_called(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for way in (noted.step, lambda *_: False):
        monkeypatch.setattr(noted, "step", way)
        params = unusual(kind)
        names = [e[0] for e in recorded(OPTIMIZERS["adam"](params), record_shapes=True)]
        results.append((names, [p.detach() for p in params]))
    assert results[0][0] == results[1][0]
    assert all(torch.equal(a, b) for a, b in zip(results[0][1], results[1][1], strict=True))


def test_parameters_at_different_steps_keep_their_own_corrections() -> None:
    results = []
    for record in (True, False):
        params = parameters()
        optimizer = OPTIMIZERS["adam"](params)
        params[0].grad, kept = None, params[0].grad
        optimizer.step()
        params[0].grad = kept
        if record:
            with profile():
                optimizer.step()
        else:
            optimizer.step()
        results.append([p.detach() for p in params])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize(
    "steps",
    [
        [(0, -1, None, None, 60, True, b"\x00", b"\x00")],
        [(0, -1, None, None, 16, False, b"\x00", b"\x00")],
        [(0, -1, None, None, 0, False, b"\x05", b"\x00")],
        [(0, -1, None, None, 0, False, b"\x00" * 6, b"\x00")],
        [(0, -1, None, None, 0, False, b"\x00", b"\x00")] * 40,
    ],
)
def test_steps_that_make_no_sense_are_refused(steps: list[Any]) -> None:
    with pytest.raises(ValueError):
        tap.HELPER.perform(steps, [torch.ones(2)], [torch.ones(2)], [{}], [], [1.0])


@pytest.mark.parametrize("memory", [True, False])
def test_what_was_made_is_written_over_where_no_memory_is_recorded(memory: bool) -> None:
    places = []

    def doubled(a: Any, out: Any) -> Any:
        result = a * 2 if out is None else np.multiply(a, 2, out=out)
        places.append(result.ctypes.data)
        return result

    event, x = noted.OPS["sqrt"].event, torch.ones(2)
    steps = [
        (event, -1, doubled, None, 48, True, b"\x00", b"\x00"),
        (event, -1, doubled, None, 49, True, b"\x30", b"\x30"),
        (event, -1, doubled, None, 0, False, b"\x31", b"\x31"),
    ]
    with profile(profile_memory=memory):
        assert tap.HELPER.perform(steps, [x], [torch.ones(2)], [{}], [], [])
    assert x.tolist() == [8.0, 8.0]
    assert len(set(places)) == (3 if memory else 2)


@pytest.mark.parametrize(
    ("grads", "states", "names", "error"),
    [([], [{}], [], TypeError), ([torch.ones(2)], [()], [], TypeError), ([torch.ones(2)], [], [], TypeError)],
)
def test_rounds_that_do_not_go_together_are_refused(grads: Any, states: Any, names: Any, error: Any) -> None:
    with pytest.raises(error):
        tap.HELPER.perform([], [torch.ones(2)], grads, states, names, [])


def test_a_state_without_the_name_is_left_to_others() -> None:
    assert tap.HELPER.perform([], [torch.ones(2)], [torch.ones(2)], [{}], ["step"], []) is False


def test_other_options_of_a_group_are_another_plan() -> None:
    for momentum in (0.0, 0.9):
        params = parameters()
        optimizer = torch.optim.SGD(params, lr=0.1, momentum=momentum)
        events = recorded(optimizer)
        optimizer.param_groups[0]["lr"] = 1.0  # another number, the same plan
        before = [p.detach().clone() for p in params]
        with profile() as prof:
            optimizer.step()
        assert [e.name for e in prof.events() if not e.is_user_annotation] == [e[0] for e in events]
        assert ("aten::mul_" in {e[0] for e in events}) is (momentum > 0)
        assert not any(torch.equal(p, b) for p, b in zip(params, before, strict=True))


def test_an_error_in_a_kernel_ends_its_event() -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("no")

    event = noted.OPS["sqrt"].event
    with profile() as prof:
        with pytest.raises(RuntimeError, match="no"):
            tap.HELPER.perform([(event, -1, fails, None, 48, True, b"\x00", b"\x00")], *ROUND)
        torch.ones(2).sqrt()
    roots = [e for e in prof.events() if e.name == "aten::sqrt"]
    assert len(roots) == 2
    assert all(e.cpu_parent is None for e in roots)
