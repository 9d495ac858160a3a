"""Programs profiled from outside: which steps are recorded, and where they begin and end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mindtorch_v2.core import step_hooks, tap
from mindtorch_v2.profiler.analyse.metrics import Metrics
from mindtorch_v2.profiler.capture.capture import Capture, Track
from mindtorch_v2.profiler.program import Plan, ProgramProfile, nested_steps
from synthetic_captures import capture_of


@pytest.mark.parametrize(
    ("plan", "phases"),
    [
        (Plan(), "active active active"),
        (Plan(active=2), "active active done done"),
        (Plan(1, 1, 2), "wait warmup active active done"),
        (Plan(warmup=2), "warmup warmup active active"),
    ],
)
def test_a_plan_says_what_each_step_is_for(plan: Plan, phases: str) -> None:
    assert [plan.phase(step) for step in range(len(phases.split()))] == phases.split()


def capture(*rows: tuple[str, int, int]) -> Capture:
    """A capture of regions by name, start and end."""
    ordered = sorted(rows, key=lambda row: (row[2], -row[1]))
    kinds = [tap.event_id(name, tap.USER_SCOPE, True) for name, _, _ in ordered]
    times = np.array([row[1:] for row in ordered], np.int64)
    nothing, none = np.zeros(0, np.int64), np.zeros(len(rows), np.int32)
    track = Track(
        1, 1, "main", times[:, 0], times[:, 1], np.array(kinds, np.int32), np.full(len(rows), -1), none, none,
        nothing, nothing, nothing,
    )  # fmt: skip
    return replace(capture_of(np.ones((1, 1)), ["x"]), tracks=[track])


def steps(found: Capture) -> list[tuple[int, int]]:
    metrics = Metrics(found)
    places = np.flatnonzero(metrics.of_kinds(lambda kind: kind.name.startswith("ProfilerStep#")))
    return [(int(metrics.start_ns[place]), int(metrics.end_ns[place])) for place in places]


def test_a_step_lasts_until_the_functions_that_make_it_return() -> None:
    found = nested_steps(
        capture(("ProfilerStep#0", 10, 30), ("step()", 12, 34), ("ProfilerStep#1", 31, 60), ("step()", 40, 65))
    )
    assert steps(found) == [(10, 34), (34, 65)]


def test_a_step_begins_inside_functions_that_go_on() -> None:
    found = nested_steps(
        capture(("ProfilerStep#0", 10, 30), ("epoch()", 20, 90), ("ProfilerStep#1", 31, 60), ("op", 40, 50))
    )
    assert steps(found) == [(21, 30), (31, 60)]


def test_the_first_step_begins_after_what_set_it_up() -> None:
    found = nested_steps(capture(("make_optimizer()", 5, 15), ("ProfilerStep#0", 10, 30), ("op", 20, 25)))
    assert steps(found) == [(15, 30)]


def test_steps_that_cross_nothing_stay() -> None:
    rows = [("main()", 1, 99), ("ProfilerStep#0", 10, 30), ("op", 12, 20), ("ProfilerStep#1", 31, 60)]
    assert steps(nested_steps(capture(*rows))) == [(10, 30), (31, 60)]


class Optimizer:
    pass


def test_the_first_optimizer_that_steps_leads() -> None:
    profiled = ProgramProfile(Plan())
    profiled.start()
    first, second = Optimizer(), Optimizer()
    for optimizer in (first, second):
        step_hooks.announce(optimizer, False)
    for _ in range(3):
        step_hooks.announce(second, True)
        step_hooks.announce(first, True)
    found = profiled.finish()
    assert found is not None
    assert profiled.steps == 3
    assert len(steps(found)) == 3
    assert step_hooks.LISTENERS == []


def test_nothing_is_recorded_before_its_step() -> None:
    profiled = ProgramProfile(Plan(wait=2))
    profiled.start()
    step_hooks.announce(Optimizer(), True)
    assert profiled.finish() is None
