"""Stacks of ops, Python functions as events, and calls of modules."""

import asyncio
import cProfile
import gc
import json
import pstats
import subprocess
import sys
import threading
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.autograd.profiler import emit_itt
from mindtorch_v2.core import tap
from mindtorch_v2.profiler import _ExperimentalConfig, profile, record_function
from mindtorch_v2.profiler.analyse import tree
from mindtorch_v2.profiler.record import frames
from profiler_clock import Clock, clock, op  # noqa: F401


def leaf() -> None:
    with op("aten::add"):
        pass


def caller() -> None:
    leaf()


LEAF_LINE = leaf.__code__.co_firstlineno + 1
CALLER_LINE = caller.__code__.co_firstlineno + 1
HERE = "test_profiler_stacks.py"


def ops_of(prof: profile) -> list[Any]:
    return [event for event in prof.events() if event.activity_type == "cpu_op"]


def nests_perfectly(prof: profile) -> bool:
    events = prof.events()
    start = np.array([event.time_range.start * 1000 for event in events]).round().astype(np.int64)
    end = np.array([event.time_range.end * 1000 for event in events]).round().astype(np.int64)
    return not tree.crossings(start, end).any()


def test_stacks_name_the_executing_line() -> None:
    with profile(with_stack=True) as prof:
        caller()
    (event,) = ops_of(prof)
    assert event.stack[:2] == [f"{HERE}({LEAF_LINE}): leaf", f"{HERE}({CALLER_LINE}): caller"]
    assert event.stack[2].endswith(": test_stacks_name_the_executing_line")


def test_stacks_tell_files_with_the_same_text_apart() -> None:
    copies: list[dict[str, Any]] = [{"leaf": leaf}, {"leaf": leaf}]
    for number, copy in enumerate(copies):
        exec(compile("def run():\n    leaf()\n", f"copy{number}.py", "exec"), copy)
    with profile(with_stack=True) as prof:
        for copy in copies:
            copy["run"]()
    callers = [event.stack[1] for event in ops_of(prof)]
    assert callers == ["copy0.py(2): run", "copy1.py(2): run"]
    functions = [event.name for event in prof.events() if event.name.startswith("copy")]
    assert functions == ["copy0.py(1): run", "copy1.py(1): run"]


def test_python_functions_are_events_named_by_their_definition() -> None:
    with profile(with_stack=True) as prof:
        caller()
    names = {event.name: event for event in prof.events() if event.is_python_function}
    inner = names[f"{HERE}({LEAF_LINE - 1}): leaf"]
    outer = names[f"{HERE}({CALLER_LINE - 1}): caller"]
    assert inner.cpu_parent is outer
    assert ops_of(prof)[0].cpu_parent is inner
    assert (inner.python_parent_id, inner.python_module_id) == (outer.python_id, -1)
    assert (inner.id, inner.activity_type) == (0, "python_function")
    assert nests_perfectly(prof)


def test_functions_that_were_already_running_count_from_the_start() -> None:
    def inside() -> None:
        with profile(with_stack=True) as prof:
            leaf()
        result.append(prof)

    result: list[profile] = []
    inside()
    top = [event for event in result[0].events() if event.name.endswith(": inside")]
    assert len(top) == 1
    assert top[0].cpu_children


def test_the_profilers_own_functions_are_not_shown() -> None:
    with profile(with_stack=True, schedule=lambda step: _record(step)) as prof:
        for _ in range(3):
            leaf()
            prof.step()
    shown = [event.name for event in prof.events() if event.is_python_function]
    assert not [name for name in shown if "profiler/" in name or "core/tap" in name]
    assert nests_perfectly(prof)
    steps = [event for event in prof.events() if event.name == "ProfilerStep*"]
    assert len(steps) == 4


def _record(step: int) -> Any:
    from_enum = sys.modules["mindtorch_v2.profiler"].ProfilerAction
    return from_enum.RECORD


def test_builtin_functions_are_events_too() -> None:
    with profile(with_stack=True) as prof:
        sorted([3, 1, 2])
        [].append(1)
    names = [event.name for event in prof.events()]
    assert "<built-in function sorted>" in names
    assert "<built-in method append of list object>" in names


def test_averages_leave_python_functions_out_unless_asked() -> None:
    with profile(with_stack=True) as prof:
        caller()
    assert [row.key for row in prof.key_averages()] == ["aten::add"]
    every = prof.key_averages(include_python_functions=True)
    assert f"{HERE}({LEAF_LINE - 1}): leaf" in [row.key for row in every]
    assert every.self_cpu_time_total == pytest.approx(prof.events().self_cpu_time_total)


def test_time_in_hidden_functions_is_the_time_of_the_event_around_them(clock: Clock) -> None:  # noqa: F811
    with profile(with_stack=True) as prof, record_function("block"):
        clock.advance(7)
        with op("aten::add"):
            clock.advance(3)
    rows = {row.key: row for row in prof.key_averages()}
    assert (rows["block"].cpu_time_total, rows["block"].self_cpu_time_total) == (10.0, 7.0)
    assert rows["block"].cpu_parent is None


def test_exceptions_and_generators_keep_the_nesting() -> None:
    def numbers() -> Iterator[int]:
        for number in range(3):
            leaf()
            yield number

    def failing() -> None:
        leaf()
        raise ValueError

    with profile(with_stack=True) as prof:
        with pytest.raises(ValueError):
            failing()
        assert sum(numbers()) == 3
        left = numbers()
        next(left)
    left.close()
    assert nests_perfectly(prof)
    assert sum(event.name.endswith(": numbers") for event in prof.events()) == 5


def test_deep_recursion_is_one_tree() -> None:
    def deeper(levels: int) -> None:
        if levels:
            deeper(levels - 1)
            leaf()

    with profile(with_stack=True) as prof:
        deeper(100)
    assert nests_perfectly(prof)
    assert len(ops_of(prof)) == 100
    assert len(ops_of(prof)[0].stack) > 100


def test_a_profile_function_of_somebody_else_is_put_back() -> None:
    def other(frame: Any, event: str, arg: Any) -> None:
        pass

    before = sys.getprofile()
    sys.setprofile(other)
    try:
        with profile(with_stack=True):
            leaf()
        assert sys.getprofile() is other
    finally:
        sys.setprofile(before)


def test_without_stacks_nothing_is_traced() -> None:
    before = sys.getprofile()
    with profile() as prof:
        assert sys.getprofile() is before
        leaf()
    assert prof.events()[0].stack == []
    assert len(prof.events()) == 1


def test_nested_profiles_with_and_without_stacks() -> None:
    with profile(with_stack=True) as outer:
        leaf()
        with profile() as plain:
            leaf()
        with profile(with_stack=True) as inner:
            leaf()
        leaf()
    assert (len(ops_of(outer)), len(ops_of(plain)), len(ops_of(inner))) == (4, 1, 1)
    assert all(event.stack for event in ops_of(outer) + ops_of(inner))
    assert plain.events()[0].stack == []
    assert nests_perfectly(outer)
    assert nests_perfectly(inner)
    assert not any(event.is_python_function for event in plain.events())


def test_a_profile_of_all_threads_inside_another_loses_no_frames_of_it() -> None:
    def around() -> None:
        with profile(with_stack=True, all_threads=True) as inner:
            leaf()
        assert len(ops_of(inner)) == 1
        leaf()

    with profile(with_stack=True) as outer:
        around()
        leaf()
    assert len(ops_of(outer)) == 3
    assert nests_perfectly(outer)
    parents = [event.cpu_parent.cpu_parent.name.rpartition(": ")[2] for event in ops_of(outer)]
    assert parents[:2] == ["around", "around"]
    assert sys.getprofile() is None


def test_other_threads_that_are_traced_go_on_where_they_were() -> None:
    here, there = threading.Barrier(2), threading.Barrier(2)
    found: list[profile] = []

    def around() -> None:
        here.wait(60)
        there.wait(60)
        leaf()

    def work() -> None:
        with profile(with_stack=True) as prof:
            around()
        found.append(prof)

    thread = threading.Thread(target=work)
    thread.start()
    here.wait(60)
    with profile(with_stack=True, all_threads=True):
        there.wait(60)
        thread.join()
    (event,) = ops_of(found[0])
    assert event.cpu_parent.name.endswith(": leaf")
    assert event.cpu_parent.cpu_parent.name.endswith(": around")
    assert nests_perfectly(found[0])


def test_pythons_own_profiler_goes_on_afterwards() -> None:
    other = cProfile.Profile()
    other.enable()
    try:
        with profile(with_stack=True) as prof:
            leaf()
        caller()
    finally:
        other.disable()
    assert len(ops_of(prof)) == 1
    assert "caller" in {name for _, _, name in pstats.Stats(other).stats}  # type: ignore[attr-defined]


@pytest.fixture
def _no_other_collections() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.usefixtures("_no_other_collections")
@pytest.mark.parametrize("with_stack", [False, True])
def test_garbage_collections_are_events_when_asked_for(with_stack: bool, tmp_path: Path) -> None:
    config = _ExperimentalConfig(record_python_gc_info=True)
    with profile(with_stack=with_stack, experimental_config=config) as prof:
        with record_function("before"):
            pass
        gc.collect()
        with record_function("after"):
            pass
    names = [event.name for event in prof.events()]
    place = names.index("Python GC")
    assert names.index("before") < place < names.index("after")
    pause = prof.events()[place]
    # Of the category of Python functions, but none of them: it is a row of its own in averages.
    assert (pause.activity_type, pause.is_python_function, pause.python_id) == ("python_function", False, -1)
    assert [row.key for row in prof.key_averages()] == ["before", "Python GC", "after"]
    prof.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    (written,) = [event for event in trace["traceEvents"] if event["name"] == "Python GC"]
    assert list(written["args"]) == ["Ev Idx"]
    with profile() as prof:
        gc.collect()
    assert prof.events() == []


class Module:
    """What the recorder needs of an nn.Module: a class name, named parts, and a call that goes through the tap."""

    def __init__(self, **parts: "Module") -> None:
        self.parts = parts

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, "Module"]]:
        yield prefix, self
        for name, part in self.parts.items():
            yield from part.named_modules(f"{prefix}.{name}" if prefix else name)

    def __call__(self) -> None:
        if tap.SLOT.flags & tap.MODULES:
            recorder = tap.SLOT.recorder
            assert recorder is not None
            with recorder.module(self):
                self.forward()
        else:
            self.forward()

    def forward(self) -> None:
        for part in self.parts.values():
            part()


class Linear(Module):
    def forward(self) -> None:
        leaf()


class Net(Module):
    pass


def test_modules_are_numbered_per_class_and_know_their_path() -> None:
    net = Net(first=Linear(), inner=Net(second=Linear()))
    with profile(with_modules=True) as prof:
        net()
        net()
    calls = [event for event in prof.events() if event.name.startswith("nn.Module: ")]
    names = ["Net_0", "Linear_0", "Net_1", "Linear_1"]
    assert [event.name for event in calls] == [f"nn.Module: {name}" for name in names * 2]
    assert [event.python_module_id for event in calls[:4]] == [0, 0, 1, 1]
    kinds = [prof.events()._views[0].kind(event._place).path for event in calls[:4]]
    assert kinds == ["Net", "Net.first", "Net.inner", "Net.inner.second"]
    assert calls[1].cpu_parent is calls[0]
    assert calls[1].cpu_children[0].name == "aten::add"
    assert not [event for event in prof.events() if event.is_python_function and "Module" not in event.name]


def test_modules_stand_in_stacks_between_caller_and_forward() -> None:
    net = Net(only=Linear())
    with profile(with_stack=True) as prof:
        net()
    (event,) = ops_of(prof)
    frames = [entry.partition(": ")[2] if entry.startswith(HERE) else entry for entry in event.stack]
    assert frames[:7] == [
        "leaf",
        "forward",
        "__call__",
        "nn.Module: Linear_0",
        "forward",
        "__call__",
        "nn.Module: Net_0",
    ]
    assert nests_perfectly(prof)


def test_steps_of_optimizers_hold_ops_alone() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    optimizer = torch.optim.Adam([weight])
    optimizer.step()
    with profile(with_stack=True) as prof:
        optimizer.step()
    step = next(event for event in prof.events() if event.name == "Optimizer.step#Adam.step")
    lerp = next(event for event in prof.events() if event.name == "aten::lerp_")
    inside = [e.name for e in prof.events() if step.time_range.start <= e.time_range.start <= step.time_range.end]
    assert [name.rpartition(": ")[2] for name in inside if ".py(" in name] == ["step"]
    assert any("adam.py" in entry and "_update_one" in entry for entry in lerp.stack)


def test_itt_records_nothing_to_look_at() -> None:
    with profile() as prof, emit_itt():
        leaf()
    assert len(prof.events()) == 1


def test_a_thread_that_python_does_not_know_yet_is_not_met() -> None:
    found: list[bool] = []

    def work() -> None:
        found.append(frames._is_starting(sys._getframe()))
        known = threading._active.pop(threading.get_ident())  # type: ignore[attr-defined]
        try:
            found.append(frames._is_starting(sys._getframe()))
        finally:
            threading._active[threading.get_ident()] = known  # type: ignore[attr-defined]

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False, True]


def test_a_program_at_the_end_of_its_stack_hears_of_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    x = torch.ones(1)

    def deeper(calls: int) -> None:
        if calls:
            return deeper(calls - 1)
        return endless()

    def endless() -> None:
        x.exp()
        return endless()

    for calls in range(2):
        with pytest.raises(RecursionError), profile(with_stack=True) as prof:
            deeper(calls)
        assert any(event.name == "aten::exp" for event in prof.events())
    assert told == []


def one_by_one(x: torch.Tensor) -> Iterator[torch.Tensor]:
    for _ in range(3):
        yield x + x


def in_turn(x: torch.Tensor) -> Iterator[torch.Tensor]:
    for _ in range(3):
        yield x + x


class Twice(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = x * x
            x = self.inner(x) - x
        return x


def calls_of_all_sorts() -> None:
    x = torch.ones(2, 2, requires_grad=True)
    for _ in range(3):
        for a, b in zip(one_by_one(x), in_turn(x), strict=True):
            (a * b).sum().backward()
    list(map(torch.neg, [x, x]))
    for _ in range(2):
        Twice()(x).std()
        x.chunk(2)[0].mul(2)
        with record_function("block"):
            sum([x + x, x + x], x)
    with pytest.raises(RuntimeError):
        x @ torch.ones(3, 3)
    x.detach().add_(x.detach())


def test_what_is_remembered_of_a_frame_is_never_another_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(dict[int, int]):
        def __setitem__(self, key: int, value: int) -> None:
            """Every stack is looked up anew."""

    runs = []
    for memory in ({}, Forgetful()):
        with profile():
            monkeypatch.setattr(tap.current_lane(), "here", memory)
        with profile(with_stack=True) as prof:
            calls_of_all_sorts()
        runs.append([(event.name, event.stack) for event in ops_of(prof)])
    assert runs[0] == runs[1]
    assert len({tuple(stack) for _, stack in runs[0]}) > 15


def test_every_op_of_a_training_step_has_a_stack() -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    earlier = model(torch.ones(1, 2)).exp()
    with profile(with_stack=True) as prof:
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()
        earlier.sum().backward()
        optimizer.step()
    assert [event.name for event in ops_of(prof) if not event.stack] == []


def busy_block() -> None:
    """A block whose Python function allocates, and a block of memory that lives and dies in a Python function."""

    def inside() -> None:
        torch.ones(10)

    def outside() -> None:
        kept = torch.ones(100)
        del kept

    with record_function("block"):
        inside()
    outside()


def rows_of(rows: Any) -> dict[str, tuple[Any, ...]]:
    return {
        row.key: (row.count, round(row.self_cpu_time_total, 3), row.self_cpu_memory_usage, row.cpu_parent is None)
        for row in rows
    }


def test_rows_of_edited_and_copied_events_are_those_of_the_profile() -> None:
    """Python functions that are hidden leave their times and bytes to the event around them, in every way to sum up."""
    with profile(with_stack=True, profile_memory=True) as prof:
        busy_block()
    expected = rows_of(prof.key_averages())
    assert rows_of(deepcopy(prof.events()).key_averages()) == expected
    prof.events()[0].name = prof.events()[0].name
    assert rows_of(prof.key_averages()) == expected


def test_rows_with_hidden_functions_lose_no_bytes() -> None:
    def rows(**options: bool) -> dict[str, int]:
        with profile(profile_memory=True, **options) as prof:
            busy_block()
        return {row.key: row.self_cpu_memory_usage for row in prof.key_averages()}

    assert rows(with_stack=True) == rows()
    assert rows()["[memory]"] == -400


def test_rows_of_tasks_that_overlap_have_no_negative_self_time(clock: Clock) -> None:  # noqa: F811
    async def task(name: str) -> None:
        with record_function(name):
            clock.advance(5)
            await asyncio.sleep(0)
            clock.advance(10)

    async def tasks() -> None:
        await asyncio.gather(task("first"), task("second"), task("third"))

    with profile(with_stack=True) as prof, record_function("outer"):
        asyncio.run(tasks())
    for row in prof.key_averages():
        assert 0 <= row.self_cpu_time_total <= row.cpu_time_total, row.key


def test_an_op_that_is_interrupted_before_it_begins_leaves_tracing_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any) -> int:
        raise KeyboardInterrupt

    x = torch.ones(2)
    with profile(with_stack=True) as prof:
        if tap.HELPER is None:
            with monkeypatch.context() as patch:
                patch.setitem(tap.NAMESPACE, "STACK", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    torch.neg(x)
        caller()
        torch.exp(x)
    names = [event.name for event in prof.events()]
    assert "aten::neg" not in names
    assert names.count("aten::exp") == 1
    assert sum(name.endswith(": caller") for name in names) == 1


STILL_RUNNING = """
import threading
import mindtorch_v2 as torch
from mindtorch_v2.profiler import _ExperimentalConfig, profile

prof = profile(with_stack=True, profile_memory=True, all_threads=True,
               experimental_config=_ExperimentalConfig(record_python_gc_info=True))
prof.start()
threading.kept = prof

class Late:
    def __del__(self):
        torch.ones(2)

late = Late()
"""


def test_a_program_may_end_while_its_profiler_runs() -> None:
    ended = subprocess.run([sys.executable, "-c", STILL_RUNNING], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_hidden_functions_that_cross_a_block_count_once(clock: Clock) -> None:  # noqa: F811
    block = record_function("block")

    def begin() -> None:
        clock.advance(5)
        block.__enter__()
        clock.advance(5)

    def end() -> None:
        clock.advance(5)
        block.__exit__(None, None, None)
        clock.advance(5)

    with profile(with_stack=True) as prof, record_function("outer"):
        begin()
        clock.advance(10)
        end()
    for rows in (prof.key_averages(), deepcopy(prof.events()).key_averages()):
        outer, inner = (next(row for row in rows if row.key == key) for key in ("outer", "block"))
        assert inner.self_cpu_time_total == pytest.approx(inner.cpu_time_total)
        assert outer.self_cpu_time_total + inner.cpu_time_total == pytest.approx(outer.cpu_time_total)


def test_ops_of_finalizers_leave_the_op_alone_whose_stack_is_being_kept() -> None:
    small, x = torch.ones(5), torch.ones(2, 2)

    class Late:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            small.mul(small)

    # Each line is a stack of its own, which is allocated while the op begins.
    program = compile("Late()\nx.add(x)\n" * 50, "many lines", "exec")
    before = gc.get_threshold()
    with profile(with_stack=True, record_shapes=True) as prof:
        gc.set_threshold(1)
        exec(program, {"Late": Late, "x": x})
        gc.set_threshold(*before)
    shapes = [event.input_shapes[:2] for event in prof.events() if event.name == "aten::add"]
    assert shapes == [[[2, 2], [2, 2]]] * 50
