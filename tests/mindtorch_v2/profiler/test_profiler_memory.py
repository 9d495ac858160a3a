"""Bytes: to which events they belong, and the ones that belong to none."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.profiler import profile, record_function
from profiler_clock import Clock, allocate, clock, free, op  # noqa: F401


def test_bytes_belong_to_the_events_that_ran(clock: Clock) -> None:  # noqa: F811
    """`with block: a = ones(100); b = a + a; del a`, then `del b`."""
    with profile(profile_memory=True) as prof:
        with record_function("blk"):
            clock.advance(1)
            with op("aten::ones"):
                clock.advance(1)
                with op("aten::empty"):
                    clock.advance(1)
                    allocate(400, 1)
                    clock.advance(1)
            clock.advance(1)
            with op("aten::add"):
                clock.advance(1)
                allocate(400, 2)
                clock.advance(1)
            clock.advance(1)
            free(400, 1)
            clock.advance(1)
        clock.advance(1)
        free(400, 2)
    found = [(e.name, e.cpu_memory_usage, e.self_cpu_memory_usage) for e in prof.events()]
    assert found == [
        ("blk", 400, -400),
        ("aten::ones", 400, 0),
        ("aten::empty", 400, 400),
        ("aten::add", 400, 400),
        ("[memory]", -400, -400),
    ]
    assert [(row.key, row.self_cpu_memory_usage) for row in prof.key_averages()] == [
        ("blk", -400),
        ("aten::ones", 0),
        ("aten::empty", 400),
        ("aten::add", 400),
        ("[memory]", -400),
    ]
    assert sum(row.self_cpu_memory_usage for row in prof.key_averages()) == 0


def test_memory_events_outside_of_everything(clock: Clock) -> None:  # noqa: F811
    with profile(profile_memory=True) as prof:
        clock.advance(1)
        allocate(12, 7)
        clock.advance(1)
        with op("aten::add"):
            clock.advance(1)
        clock.advance(1)
        free(12, 7)
    first, add, last = prof.events()
    assert (first.name, first.cpu_memory_usage, last.cpu_memory_usage) == ("[memory]", 12, -12)
    assert (first.trace_name, first.time_range.elapsed_us(), first.thread) == (None, 0.0, add.thread)
    assert (first.id, last.id) == (add.id + 1, add.id + 2)
    assert first.cpu_parent is None
    assert first.kwinputs is None


def test_blocks_from_before_are_not_counted_when_freed(clock: Clock) -> None:  # noqa: F811
    with profile(profile_memory=True) as prof:
        free(100, 3)
        clock.advance(1)
    assert prof.events() == []


def test_without_the_option_there_are_no_bytes(clock: Clock) -> None:  # noqa: F811
    with profile() as prof, op("aten::add"):
        clock.advance(1)
        allocate(8, 1)
        clock.advance(1)
    assert prof.events()[0].cpu_memory_usage == 0
    assert "CPU Mem" not in prof.key_averages().table()


def test_the_table_has_memory_columns(clock: Clock) -> None:  # noqa: F811
    with profile(profile_memory=True) as prof, op("aten::empty"):
        clock.advance(1)
        allocate(3 * 1024**2, 1)
        clock.advance(1)
    table = prof.key_averages().table(sort_by="self_cpu_memory_usage")
    assert "CPU Mem  Self CPU Mem" in table
    assert table.count("3.00 MB") == 2


def test_a_nested_profile_sees_its_own_bytes(clock: Clock) -> None:  # noqa: F811
    with profile(profile_memory=True) as outer:
        with op("first"):
            clock.advance(1)
            allocate(10, 1)
            clock.advance(1)
        with profile(profile_memory=True) as inner, op("second"):
            clock.advance(1)
            allocate(20, 2)
            clock.advance(1)
    assert [event.cpu_memory_usage for event in outer.events()] == [10, 20]
    assert [event.cpu_memory_usage for event in inner.events()] == [20]


@pytest.mark.parametrize("count", [1, 1000])
def test_many_blocks_add_up(count: int) -> None:
    with profile(profile_memory=True) as prof, op("aten::empty"):
        for address in range(count):
            allocate(8, address)
        for address in range(count):
            free(8, address)
    assert prof.events()[0].cpu_memory_usage == 0
    assert len(prof.events()) == 1


@pytest.mark.parametrize("ask", [lambda: torch.empty(10**14), lambda: torch.ones(2) + torch.ones(1).expand(10**13, 2)])
def test_memory_that_cannot_be_had_is_an_error_and_an_instant(ask: Any, tmp_path: Path) -> None:
    ask_for_nothing = torch.ones(1)
    with profile(profile_memory=True) as prof:
        with pytest.raises(RuntimeError, match=r"can't allocate memory: you tried to allocate \d+ bytes"):
            ask()
        ask_for_nothing + ask_for_nothing
    assert [event.name for event in prof.events()].count("[OutOfMemory]") == 1
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    found = [event for event in events if event["name"] == "[OutOfMemory]"]
    assert [(event["ph"], event["cat"]) for event in found] == [("i", "cpu_instant_event")]
    assert found[0]["args"]["Bytes"] in (4 * 10**14, 8 * 10**13)


def test_memory_of_others_is_not_counted() -> None:
    array = np.ones(1000, np.float32)
    with profile(profile_memory=True) as prof:
        tensor = torch.from_numpy(array)
        other = torch.frombuffer(bytearray(4000), dtype=torch.float32)
        shared = torch.as_tensor(array)
        del tensor, other, shared
    assert [(event.name, event.cpu_memory_usage) for event in prof.events()] == [("aten::to", 0)]
    with torch.inference_mode(), profile(profile_memory=True):
        assert torch.from_numpy(array).is_inference()


def test_tensors_without_memory_are_not_counted(tmp_path: Path) -> None:
    with profile(profile_memory=True) as prof:
        shapes_only = torch.ones(3, 3, device="meta")
        more, moved = shapes_only + shapes_only, torch.ones(2).to("meta")
        nothing = torch.empty(0)
        del shapes_only, more, moved, nothing
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [event["args"]["Bytes"] for event in events if event["name"] == "[memory]"] == [8, -8]


def test_a_tensor_on_meta_says_what_its_elements_would_take() -> None:
    x = torch.ones(3, 3, device="meta")
    assert (x.nbytes, x.untyped_storage().nbytes()) == (36, 36)


def test_memory_that_grows_is_counted_anew() -> None:
    x = torch.ones(1000)
    with profile(profile_memory=True) as prof:
        y = x.clone()
        y.resize_(2000)
        y.resize_(500)
        del y
    top = [(event.name, event.cpu_memory_usage) for event in prof.events() if event.cpu_parent is None]
    assert top == [("aten::clone", 4000), ("aten::resize_", 4000), ("aten::resize_", 0), ("[memory]", -8000)]


def _at_the_top(prof: Any) -> list[tuple[str, int]]:
    """Names and bytes of the events that lie in no other."""
    return [(event.name, event.cpu_memory_usage) for event in prof.events() if event.cpu_parent is None]


@pytest.mark.parametrize(
    ("call", "name", "nbytes"),
    [
        (lambda: torch.arange(10), "aten::arange", 80),
        (lambda: torch.eye(3), "aten::eye", 36),
        (lambda: torch.linspace(0, 1, 10), "aten::linspace", 40),
        (lambda: torch.randperm(10), "aten::randperm", 80),
        (lambda: torch.fft.fftfreq(4), "aten::fft_fftfreq", 16),
    ],
)
def test_memory_that_an_op_lays_out_itself_is_counted(call: Any, name: str, nbytes: int) -> None:
    with profile(profile_memory=True) as prof:
        made = call()
    assert _at_the_top(prof) == [(name, nbytes)]
    del made


def test_memory_of_an_op_that_runs_another_ahead_is_its_own() -> None:
    x, row = torch.ones(3, 3), torch.ones(3)
    with profile(profile_memory=True) as prof:
        made = torch.addmm(row, x, x)
    assert [(e.name, e.self_cpu_memory_usage) for e in prof.events()] == [("aten::addmm", 36), ("aten::expand", 0)]
    del made


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x, out: torch.exp(x, out=out), "aten::exp"),
        (lambda x, out: torch.ones(10, out=out), "aten::ones"),
        (lambda x, out: torch.arange(10, out=out), "aten::arange"),
        (lambda x, out: torch.rand(10, out=out), "aten::rand"),
    ],
)
def test_memory_of_a_result_that_grows_is_counted(call: Any, name: str) -> None:
    x = torch.ones(10)
    with profile(profile_memory=True) as prof:
        out = torch.empty(0)
        call(x, out)
        del out
    assert _at_the_top(prof) == [("aten::empty", 0), (name, 40), ("[memory]", -40)]


def test_gradients_are_freed_by_the_node_they_arrived_at() -> None:
    x = torch.ones(9, requires_grad=True)
    loss = x.exp().log().sum()
    with profile(profile_memory=True) as prof:
        loss.backward()
    found = {event.name.rpartition(" ")[2]: event.cpu_memory_usage for event in prof.events() if ": " in event.name}
    # The logarithm makes a gradient of 36 bytes; the exponential makes another, and frees that one.
    assert (found["LogBackward0"], found["ExpBackward0"]) == (36, 0)


@pytest.mark.parametrize(
    ("run", "peak"),
    [
        (lambda x: nn.functional.local_response_norm(x, 3), 3),
        (lambda x: nn.functional.normalize(x, dim=2), 1 + 1 / 8),
    ],
)
def test_functions_free_what_they_need_on_the_way_as_early_as_torch(run: Any, peak: float) -> None:
    x = torch.ones(2, 4, 8)
    with profile(profile_memory=True) as prof:
        run(x)
    changes = [event.cpu_memory_usage for event in prof.events() if event.cpu_parent is None]
    assert max(itertools.accumulate(changes)) == peak * 4 * x.numel()
