"""The profiler beside torch's: the same calls on both, and what torch recorded through our tables and sums."""

import importlib
import itertools
import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity as TorchActivity

import mindtorch_v2

BOTH = (mindtorch_v2, torch)
OURS, THEIRS = (importlib.import_module(f"{package.__name__}.profiler") for package in BOTH)
UTIL = importlib.import_module("mindtorch_v2.autograd.profiler_util")
FIELDS = (
    "id name thread overload_name fwd_thread input_shapes stack scope use_device cpu_memory_usage is_async is_remote "
    "sequence_nr node_id device_index device_resource_id is_legacy flops trace_name is_user_annotation "
    "is_python_function activity_type"
).split()


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives: its value, or the type of its error."""
    try:
        return call()
    except Exception as error:
        return type(error)


def test_schedules_agree_on_a_grid_of_arguments() -> None:
    names = ("wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait")
    for values in itertools.product((0, 2), (0, 1), (1, 3), (0, 2), (0, 3), (0, 1)):
        arguments = dict(zip(names, values))
        ours, theirs = OURS.schedule(**arguments), THEIRS.schedule(**arguments)
        assert [ours(step).name for step in range(40)] == [theirs(step).name for step in range(40)], arguments


WRONG: dict[str, Callable[[Any], Any]] = {
    "no activities": lambda p: p.profile(activities=[]),
    "text": lambda p: p.profile(activities=["cpu"]),
    "text beside": lambda p: p.profile(activities=[p.ProfilerActivity.CPU, "cpu"]),
    "twice": lambda p: p.profile(activities=[p.ProfilerActivity.CPU] * 2),
    "enum and key": lambda p: p.profile(activities=[p.ProfilerActivity.CPU, {p.ProfilerActivity.CPU: []}]),
    "a number": lambda p: p.profile(activities=5),
    "positional": lambda p: p.profile([p.ProfilerActivity.CPU]),
    "unknown filter": lambda p: p.profile(activities=[{p.ProfilerActivity.CPU: ["cpu_op"]}]).start(),
    "cuda only": lambda p: p.profile(activities=[p.ProfilerActivity.CUDA]).start(),
    "timeout": lambda p: p.profile(post_processing_timeout_s=-1).start(),
    "schedule": lambda p: p.profile(schedule=5),
    "device stopped": lambda p: p.profile(schedule=lambda step: p.ProfilerAction.DEVICE_STOPPED),
    "events first": lambda p: p.profile().events(),
    "averages first": lambda p: p.profile().key_averages(),
    "stop first": lambda p: p.profile().stop(),
    "stacks first": lambda p: p.profile().export_stacks("x"),
    "trace first": lambda p: p.profile().export_chrome_trace("x"),
    "negative wait": lambda p: p.schedule(wait=-1, warmup=0, active=1),
    "no active": lambda p: p.schedule(wait=0, warmup=0, active=0),
    "negative step": lambda p: p.schedule(wait=0, warmup=1, active=1)(-1),
    "name": lambda p: p.record_function(5).__enter__(),
    "args": lambda p: p.record_function("a", 5).__enter__(),
    "exit": lambda p: p.record_function("a").__exit__(None, None, None),
    "metadata": lambda p: p.profile().add_metadata("key", 5),
    "json metadata": lambda p: p.profile().add_metadata_json("key", 5),
    "shapes": lambda p: p.profile(record_shapes="yes").start(),
    "memory": lambda p: p.profile(profile_memory=[]).start(),
    "trace id": lambda p: p.profile(custom_trace_id_callback=lambda: 5).start(),
    "mtia": lambda p: p.profile(activities=[p.ProfilerActivity.CPU, p.ProfilerActivity.MTIA]).start(),
    "empty filter": lambda p: p.profile(activities=[{}]),
    "filter of numbers": lambda p: p.profile(activities=[{p.ProfilerActivity.CPU: [1]}]).start(),
    "settings": lambda p: p._ExperimentalConfig(verbose="yes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_raises_the_same_errors(name: str) -> None:
    ours, theirs = outcome(lambda: WRONG[name](OURS)), outcome(lambda: WRONG[name](THEIRS))
    assert isinstance(theirs, type)
    assert ours is theirs


def program(package: Any) -> None:
    """A training step of a small network, written with functions both packages have."""
    weight, bias = package.ones(4, 3, requires_grad=True), package.ones(4, requires_grad=True)
    x = package.ones(2, 3)
    y = package.relu(package.add(package.mm(x, weight.t()), bias))
    (y * 2).sum().backward()


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "out": lambda t, x: t.add(x, x, out=t.empty(2, 3)),
    "out with dims": lambda t, x: t.sum(x, 0, out=t.empty(3)),
    "item": lambda t, x: x[0],
    "slice": lambda t, x: x[:, 1:],
    "index": lambda t, x: x[t.arange(2)],
    "copy": lambda t, x: t.zeros(2, 3).copy_(x),
    "norm": lambda t, x: x.norm(),
    "move": lambda t, x: x.to("cpu", t.float64),
    "contiguous": lambda t, x: x.t().contiguous(),
    "of two": lambda t, x: t.max(x, x),
    "new": lambda t, x: x.new_full((2,), 5),
    "permutation": lambda t, x: t.randperm(3),
    "normal": lambda t, x: t.normal(0.0, 1.0, (2,)),
}


@pytest.mark.parametrize("name", CALLS)
def test_top_level_events_tell_the_same_of_their_inputs(name: str) -> None:
    found = []
    for package, module in zip(BOTH, (OURS, THEIRS)):
        x = package.ones(2, 3)
        config = module._ExperimentalConfig(capture_overload_names=True)
        with module.profile(record_shapes=True, experimental_config=config) as prof:
            CALLS[name](package, x)
        top = [event for event in prof.events() if event.cpu_parent is None]
        found.append(
            [(e.name, e.overload_name, e.structured_input_shapes, e.input_dtypes, repr(e.concrete_inputs)) for e in top]
        )
    assert found[0] == found[1]


@pytest.mark.parametrize("options", [{}, {"record_shapes": True}, {"with_flops": True}])
def test_the_same_program_has_the_same_top_level_events(options: dict[str, bool]) -> None:
    found = []
    for package, module in zip(BOTH, (OURS, THEIRS)):
        program(package)
        with module.profile(activities=[module.ProfilerActivity.CPU], **options) as prof:
            program(package)
        top = [event for event in prof.events() if event.cpu_parent is None]
        found.append([(event.name, event.input_shapes, event.flops, event.scope) for event in top])
    assert found[0] == found[1]


def made(event: Any) -> Any:
    fields = {field: getattr(event, field) for field in FIELDS}
    return UTIL.FunctionEvent(start_us=event.time_range.start, end_us=event.time_range.end, **fields)


@pytest.mark.parametrize("mode", ["record_shapes", "profile_memory", "with_flops", "with_stack"])
def test_tables_of_what_torch_recorded(mode: str) -> None:
    config = torch.profiler._ExperimentalConfig(verbose=True)
    with THEIRS.profile(activities=[TorchActivity.CPU], experimental_config=config, **{mode: True}) as prof:
        program(torch)
    theirs = prof.events()
    options = {"profile_memory": mode == "profile_memory", "with_flops": mode == "with_flops"}
    ours = UTIL.EventList([made(event) for event in theirs], **options)
    ours._build_tree()
    for grouping in ({}, {"group_by_input_shapes": True}, {"group_by_stack_n": 2}):
        expected = theirs.key_averages(**grouping)
        rows = ours.key_averages(**grouping, include_python_functions=True)
        assert rows.table(sort_by="cpu_time_total") == expected.table(sort_by="cpu_time_total")
    assert ours.self_cpu_time_total == pytest.approx(theirs.self_cpu_time_total)
    assert ours.total_average().cpu_time_total == pytest.approx(theirs.total_average().cpu_time_total)


def test_random_hand_made_events_build_the_same_tree() -> None:
    dice = random.Random(0)
    for _ in range(20):
        spans = [(dice.randrange(50), dice.randrange(1, 30), dice.randrange(2), dice.choice("abc")) for _ in range(25)]
        found = []
        for package in BOTH:
            util = importlib.import_module(f"{package.__name__}.autograd.profiler_util")
            events = util.EventList(
                [
                    util.FunctionEvent(place, name, thread, start, start + length, stack=[])
                    for place, (start, length, thread, name) in enumerate(spans)
                ]
            )
            events._build_tree()
            found.append(
                [
                    (e.id, None if e.cpu_parent is None else e.cpu_parent.id, [c.id for c in e.cpu_children])
                    for e in events
                ]
            )
        assert found[0] == found[1]


def arguments_by_category(path: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for event in json.loads(path.read_text())["traceEvents"]:
        key = event.get("cat") or event["name"]
        found.setdefault(f"{event['ph']} {key}", set()).update(event.get("args", {}))
    return found


@pytest.mark.parametrize("mode", ["plain", "record_shapes", "profile_memory", "with_stack"])
def test_traces_have_torchs_categories_and_arguments(mode: str, tmp_path: Path) -> None:
    found = []
    for package, module in zip(BOTH, (OURS, THEIRS)):
        with module.profile(**({} if mode == "plain" else {mode: True})) as prof:
            program(package)
        path = tmp_path / f"{package.__name__}.json"
        prof.export_chrome_trace(str(path))
        found.append(arguments_by_category(path))
    ours, theirs = found
    # What blocks of memory were to the program, which torch does not write.
    assert ("M memory_roles" in ours) == (mode == "profile_memory")
    ours.pop("M memory_roles", None)
    assert set(ours) == set(theirs)
    assert ours == theirs


def test_trace_metadata_has_torchs_keys(tmp_path: Path) -> None:
    keys = []
    for package, module in zip(BOTH, (OURS, THEIRS)):
        options = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
        with module.profile(**dict.fromkeys(options, True)) as prof:
            program(package)
            prof.add_metadata("mine", "text")
        path = tmp_path / f"{package.__name__}.json"
        prof.export_chrome_trace(str(path))
        keys.append(set(json.loads(path.read_text())))
    assert keys[0] - {"environment"} == keys[1]


@pytest.mark.parametrize("kind", ["ProfilerActivity", "DeviceType", "RecordScope", "ProfilerAction"])
def test_enums_have_torchs_members(kind: str) -> None:
    ours, theirs = getattr(OURS, kind), getattr(THEIRS, kind)
    described = [
        {name: (str(member), repr(member), member.value) for name, member in enum.__members__.items()}
        for enum in (ours, theirs)
    ]
    assert described[0] == described[1]
