"""Steps that a user names by a function (`--step-on`), and windows that repeat."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from mindtorch_v2.core import step_hooks
from mindtorch_v2.launch.stepping import StepFunction, StepFunctionMissing
from mindtorch_v2.profiler.program import Plan

SOURCE = b"""
import functools

def twice(function):
    return functools.wraps(function)(lambda *args: (function(*args), function(*args)))

if True:
    def train_step(depth):
        return train_step(depth - 1) + 1 if depth else 0

class Trainer:
    @staticmethod
    def static():
        return "static"

    @twice
    def step(self):
        raise KeyError("kept")
"""


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    found: list[bool] = []
    monkeypatch.setattr(step_hooks, "LISTENERS", [lambda source, stepped: found.append(stepped)])
    return found


def run(name: str) -> tuple[StepFunction, dict[str, Any]]:
    step = StepFunction(name)
    names: dict[str, Any] = {}
    exec(step.compiled(SOURCE, "program.py"), names)
    return step, names


def test_a_step_is_an_outermost_call(heard: list[bool]) -> None:
    step, names = run("train_step")
    assert names["train_step"](3) == 3
    assert step.calls == 1
    assert heard == [False, True]


def test_a_method_is_named_by_its_class_whatever_decorates_it(heard: list[bool]) -> None:
    step, names = run("Trainer.static")
    assert names["Trainer"].static() == "static"
    assert names["Trainer"]().static() == "static"
    assert step.calls == 2


def test_a_call_that_fails_is_a_step_too_and_fails_as_ever(heard: list[bool]) -> None:
    _step, names = run("Trainer.step")
    with pytest.raises(KeyError, match="kept"):
        names["Trainer"]().step()
    assert heard == [False, True]


def test_lines_of_the_program_stay_where_they_are() -> None:
    _, names = run("train_step")
    assert names["train_step"].__wrapped__.__code__.co_firstlineno == 8


def test_a_name_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(
        StepFunctionMissing, match=r"no function 'trainstep' in program.py; it has twice, train_step, Tr"
    ):
        run("trainstep")


def test_a_function_of_a_module_is_counted_when_the_module_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: list[bool]
) -> None:
    (tmp_path / "stepping_sample.py").write_bytes(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    step = StepFunction("stepping_sample:Trainer.static")
    step.install()
    module = importlib.import_module("stepping_sample")
    assert module.Trainer.static() == "static"
    assert heard == [False, True]
    assert step not in sys.meta_path
    assert "def twice" in Path(module.__file__ or "").read_text()


def test_windows_repeat_as_often_as_asked() -> None:
    phases = {"wait": "-", "warmup": "w", "active": "A", "done": "."}

    def drawn(plan: Plan) -> str:
        return "".join(phases[plan.phase(step)] for step in range(10))

    assert drawn(Plan()) == "AAAAAAAAAA"
    assert drawn(Plan(1, 1)) == "-wAAAAAAAA"
    assert drawn(Plan(1, 1, 2)) == "-wAA......"
    assert drawn(Plan(1, 1, 2, 2)) == "-wAA-wAA.."
    assert drawn(Plan(1, 1, 2, 0)) == "-wAA-wAA-w"
