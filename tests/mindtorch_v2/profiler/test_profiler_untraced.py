"""Functions of ops run without the tracer of Python functions, and their stacks are those of the code that calls them."""

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.core import tap
from mindtorch_v2.nn import functional as F
from mindtorch_v2.profiler import profile
from mindtorch_v2.profiler.record.recorder import RECORDER

HERE = "test_profiler_untraced.py"


def lines_of(prof: profile, name: str) -> list[str]:
    """The innermost two entries of the stacks of ops of a name, without the file."""
    return ["<".join(entry.rpartition("(")[2] for entry in e.stack[:2]) for e in prof.events() if e.name == name]


def two_lines(x: torch.Tensor) -> None:
    x.view(4)
    x.view(4)


def numbered(function: Any, *lines: int) -> list[str]:
    first = function.__code__.co_firstlineno
    return [f"{first + line}): {function.__name__}" for line in lines]


def test_calls_of_one_op_on_two_lines_have_stacks_of_their_own() -> None:
    x = torch.ones(2, 2)
    with profile(with_stack=True) as prof:
        for _ in range(2):
            two_lines(x)
    assert [line.partition("<")[0] for line in lines_of(prof, "aten::view")] == numbered(two_lines, 1, 2) * 2


def through_a_function(x: torch.Tensor) -> None:
    for _ in range(2):
        F.relu(x)
    F.relu(x)


def test_the_caller_of_a_function_that_is_called_again_goes_on() -> None:
    x = torch.ones(2, 2)
    with profile(with_stack=True) as prof:
        through_a_function(x)
    assert [line.partition("<")[2] for line in lines_of(prof, "aten::relu")] == numbered(through_a_function, 2, 2, 3)


def given_one_by_one(x: torch.Tensor) -> Iterator[torch.Tensor]:
    while True:
        yield torch.neg(x)


def asked_on_two_lines(x: torch.Tensor) -> None:
    source = given_one_by_one(x)
    next(source)
    next(source)


def test_a_generator_that_goes_on_elsewhere_has_another_caller() -> None:
    x = torch.ones(2, 2)
    with profile(with_stack=True) as prof:
        asked_on_two_lines(x)
    assert [line.partition("<")[2] for line in lines_of(prof, "aten::neg")] == numbered(asked_on_two_lines, 2, 3)


def user_code(gradient: torch.Tensor) -> torch.Tensor:
    return torch.add(gradient, gradient)


def test_a_hook_inside_of_an_engine_that_is_not_traced_has_its_own_stack() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x * 1
    y.register_hook(user_code)
    with profile(with_stack=True) as prof:
        for _ in range(2):
            y.sum().backward(retain_graph=True)
    entries = [line.partition("<")[0] for line in lines_of(prof, "aten::add")]
    assert entries.count(numbered(user_code, 1)[0]) == 2


ON_PYTHON_3_11 = pytest.mark.skipif(
    tap.HELPER is None or not tap.HELPER.OPS_ARE_UNSEEN, reason="the interpreter evaluates ops itself"
)


@ON_PYTHON_3_11
def test_the_interpreter_evaluates_frames_itself_when_no_stacks_are_recorded() -> None:
    python = ctypes.pythonapi
    python.PyInterpreterState_Get.restype = ctypes.c_void_p
    python._PyInterpreterState_GetEvalFrameFunc.restype = ctypes.c_void_p
    interpreter = ctypes.c_void_p(python.PyInterpreterState_Get())
    usual = ctypes.cast(python._PyEval_EvalFrameDefault, ctypes.c_void_p).value
    found = []
    for options in ({}, {"with_stack": True}):
        with profile(**options):  # type: ignore[arg-type]
            found.append(python._PyInterpreterState_GetEvalFrameFunc(interpreter) == usual)
        found.append(python._PyInterpreterState_GetEvalFrameFunc(interpreter) == usual)
    assert found == [True, True, False, True]


@ON_PYTHON_3_11
def test_the_tracer_does_not_meet_ops_called_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    original = tap.NAMESPACE["WRAP"]
    x = torch.ones(2)
    torch.neg(x)

    def wrap(array: Any) -> Any:
        seen.append(RECORDER.own_lane().hidden_depth)
        return original(array)

    monkeypatch.setitem(tap.NAMESPACE, "WRAP", wrap)
    with profile(with_stack=True):
        torch.neg(x)
    assert seen == [0]


DEEP = """
import sys, threading
import mindtorch_v2 as torch
from mindtorch_v2.profiler import profile
x = torch.ones(1)
def deeper(calls):
    return deeper(calls - 1) if calls else torch.neg(x)
def work():
    for _ in range(2):
        with profile(with_stack=True) as prof:
            deeper(30_000)
        (found,) = [event for event in prof.events() if event.name == "aten::neg"]
        print(len(found.stack) > 30_000)
sys.setrecursionlimit(40_000)
threading.stack_size(1 << 20)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="every call takes from the C stack")
def test_calls_nest_deeper_than_the_stack_of_the_thread_would_let_them() -> None:
    done = subprocess.run([sys.executable, "-c", DEEP], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]
