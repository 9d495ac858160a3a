"""Chrome traces: what is in them, and that they are valid whatever happens."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mindtorch_v2.autograd.profiler import profile as autograd_profile
from mindtorch_v2.profiler import (
    ProfilerActivity,
    _ExperimentalConfig,
    profile,
    record_function,
    tensorboard_trace_handler,
)
from mindtorch_v2.profiler.export.chrome import concrete_text
from profiler_clock import Clock, allocate, clock, op  # noqa: F401

NASTY = 'quote " backslash \\ newline \n tab \t nul \0 ünïcode 名'


def traced(prof: profile, tmp_path: Path, name: str = "trace.json") -> dict[str, Any]:
    path = tmp_path / name
    prof.export_chrome_trace(path)
    text = gzip.decompress(path.read_bytes()).decode() if name.endswith(".gz") else path.read_text()
    found: dict[str, Any] = json.loads(text)
    return found


def slices(trace: dict[str, Any], category: str) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == "X" and event["cat"] == category]


def full_profile(clock: Clock, **options: Any) -> profile:  # noqa: F811
    with profile(record_shapes=True, profile_memory=True, with_stack=True, **options) as prof:
        clock.advance(1)
        with record_function("block"):
            clock.advance(1.5)
            with op("aten::mul", [(2, 3), ()], seq=7):
                clock.advance(2.25)
                allocate(24, 1)
                clock.advance(1)
        clock.advance(1)
        with op("autograd::engine::evaluate_function: MulBackward0", seq=7):
            clock.advance(1)
            with op("MulBackward0", [(2, 3)], seq=7, scope=1):
                clock.advance(1)
    return prof


def test_a_trace_is_valid_json_in_torchs_shape(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    trace = traced(full_profile(clock), tmp_path)
    keys = list(trace)
    assert keys[:3] == ["schemaVersion", "deviceProperties", "trace_id"]
    assert keys[-5:] == ["host_name", "displayTimeUnit", "baseTimeNanoseconds", "traceEvents", "traceName"]
    assert {"with_stack", "profile_memory", "record_shapes"} <= set(keys)
    assert (trace["schemaVersion"], trace["with_stack"], trace["displayTimeUnit"]) == (1, 1, "ms")
    assert trace["traceName"].endswith("trace.json")


def test_ops_carry_torchs_arguments(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    prof = full_profile(clock)
    mul, evaluate, node = slices(traced(prof, tmp_path), "cpu_op")
    assert mul["args"] == {
        "External id": prof.events()[[e.name for e in prof.events()].index("aten::mul")].id,
        "Record function id": 0,
        "Sequence number": 7,
        "Fwd thread id": 0,
        "Concrete Inputs": ["", ""],
        "Input type": ["float", "float"],
        "Input Strides": [[2, 3], []],
        "Input Dims": [[2, 3], []],
        "Ev Idx": 1,
    }
    assert mul["dur"] == 3.25
    assert node["args"]["Fwd thread id"] == evaluate["args"]["Fwd thread id"] == 1
    (block,) = slices(traced(prof, tmp_path), "user_annotation")
    assert set(block["args"]) == {"External id", "Record function id", "Ev Idx"}


def test_arrows_lead_from_forward_to_backward(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    events = traced(full_profile(clock), tmp_path)["traceEvents"]
    start, finish = (event for event in events if event.get("cat") == "fwdbwd")
    assert (start["ph"], finish["ph"], finish["bp"], start["id"], finish["id"]) == ("s", "f", "e", 1, 1)
    assert events[events.index(start) - 1]["name"] == "aten::mul"
    assert events[events.index(finish) - 1]["name"] == "MulBackward0"
    assert start["ts"] == events[events.index(start) - 1]["ts"]


def test_memory_is_shown_as_instants(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    (mark,) = (e for e in traced(full_profile(clock), tmp_path)["traceEvents"] if e.get("cat") == "cpu_instant_event")
    assert (mark["ph"], mark["s"], mark["name"]) == ("i", "t", "[memory]")
    assert (mark["args"]["Bytes"], mark["args"]["Total Allocated"], mark["args"]["Addr"]) == (24, 24, 1)
    assert (mark["args"]["Device Type"], mark["args"]["Device Id"]) == (0, -1)


def test_python_functions_know_their_callers(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    found = slices(traced(full_profile(clock), tmp_path), "python_function")
    by_id = {event["args"]["Python id"]: event for event in found}
    assert len(by_id) == len(found)
    for event in found:
        outer = event["args"]["Python parent id"]
        if outer is not None:
            assert by_id[outer]["ts"] <= event["ts"]
    assert found[0]["args"]["Python parent id"] is None


def test_the_window_holds_everything(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    events = traced(full_profile(clock), tmp_path)["traceEvents"]
    (span,) = (event for event in events if event.get("cat") == "Trace")
    (start,) = (event for event in events if event["name"] == "Iteration Start: PyTorch Profiler")
    (end,) = (event for event in events if event["name"] == "Record Window End")
    assert span["ts"] == start["ts"]
    for event in events:
        assert start["ts"] <= event["ts"] <= end["ts"]
        assert event["ts"] + event.get("dur", 0) <= end["ts"] + 1e-3


def test_times_are_unix_times(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    prof = full_profile(clock)
    trace = traced(prof, tmp_path)
    epoch = prof.profiler._recordings[0].capture().epoch_ns  # type: ignore[union-attr]
    (block,) = slices(trace, "user_annotation")
    assert trace["baseTimeNanoseconds"] % (7_889_238 * 10**9) == 0
    assert trace["baseTimeNanoseconds"] + round(block["ts"] * 1000) == pytest.approx(epoch + 1000, abs=1000)


def test_slices_of_a_thread_nest_perfectly_with_stacks(tmp_path: Path) -> None:
    def recursive(levels: int) -> None:
        with record_function("level"), op("aten::add"):
            if levels:
                recursive(levels - 1)

    with profile(with_stack=True, schedule=lambda step: _always(step)) as prof:
        for _ in range(3):
            recursive(3)
            prof.step()
    text = (tmp_path / "t.json").as_posix()
    prof.export_chrome_trace(text)
    found = [e for e in json.loads(Path(text).read_text())["traceEvents"] if e["ph"] == "X" and e["cat"] != "Trace"]
    assert {"ProfilerStep#1", "level"} <= {event["name"] for event in found}
    spans = sorted((round(e["ts"] * 1000), -round((e["ts"] + e["dur"]) * 1000)) for e in found)
    open_ends: list[int] = []
    for begin, end in spans:
        while open_ends and open_ends[-1] <= begin:
            open_ends.pop()
        assert not open_ends or -end <= open_ends[-1] + 1
        open_ends.append(-end)


def _always(step: int) -> Any:
    return profile.__init__.__globals__["ProfilerAction"].RECORD


def test_any_name_and_metadata_give_valid_json(tmp_path: Path) -> None:
    with profile(record_shapes=True) as prof:
        prof.add_metadata("text", NASTY)
        prof.add_metadata(NASTY, "value")
        prof.add_metadata_json("json", '{"a": [1, 2]}')
        prof.add_metadata_json("broken", "{not json")
        with record_function(NASTY, NASTY):
            pass
    trace = traced(prof, tmp_path)
    assert trace["text"] == NASTY
    assert trace[NASTY] == "value"
    assert trace["json"] == {"a": [1, 2]}
    assert trace["broken"] == "{not json"
    assert slices(trace, "user_annotation")[0]["name"] == NASTY


def test_metadata_that_is_almost_json_is_text(tmp_path: Path) -> None:
    with profile() as prof:
        prof.add_metadata_json("number", "NaN")
        prof.add_metadata_json("distributedInfo", '{"rank":1}')
        prof.add_metadata_json("traceEvents", "[]")
        with record_function("block"):
            pass
    trace = traced(prof, tmp_path)
    assert trace["number"] == "NaN"
    assert [event["name"] for event in slices(trace, "user_annotation")] == ["block"]
    # Holistic Trace Analysis looks for the rank with a space before it.
    assert '"rank": 1' in (tmp_path / "trace.json").read_text()


def test_traces_keep_calls_that_event_lists_merge(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    with profile() as prof, record_function("level"), record_function("level"), op("aten::add"):
        clock.advance(1)
    names = [event.name for event in prof.events()]
    outer, inner = slices(traced(prof, tmp_path), "user_annotation")
    assert names == ["level", "aten::add"]
    assert [event.id for event in prof.events()] == [outer["args"]["External id"], inner["args"]["External id"] + 1]


def test_events_that_cross_others_are_no_slices(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    first, second = record_function("first"), record_function("second")
    with profile() as prof:
        first.__enter__()
        clock.advance(1)
        second.__enter__()
        clock.advance(1)
        first.__exit__(None, None, None)
        clock.advance(1)
        second.__exit__(None, None, None)
    events = traced(prof, tmp_path)["traceEvents"]
    assert [event["name"] for event in events if event["ph"] == "X"] == ["first", "PyTorch Profiler (0)"]
    begin, end = (event for event in events if event["name"] == "second")
    assert (begin["ph"], end["ph"], begin["id"]) == ("b", "e", end["id"])
    assert (end["ts"] - begin["ts"], begin["args"]["Ev Idx"]) == (2.0, 1)


def test_long_traces_are_whole(tmp_path: Path) -> None:
    count = 20_000
    with profile(profile_memory=True) as prof:
        for number in range(count):
            with op("aten::mul", seq=number):
                allocate(8, number + 1)
        for number in reversed(range(count)):
            with op("MulBackward0", seq=number, scope=1):
                pass
    trace = traced(prof, tmp_path, "trace.json.gz")
    found = slices(trace, "cpu_op")
    assert [event["args"]["Sequence number"] for event in found] == [*range(count), *reversed(range(count))]
    arrows = [(event["ph"], event["id"]) for event in trace["traceEvents"] if event.get("cat") == "fwdbwd"]
    assert arrows == [("s", n) for n in range(count, 0, -1)] + [("f", n) for n in range(1, count + 1)]
    marks = [event["args"] for event in trace["traceEvents"] if event.get("cat") == "cpu_instant_event"]
    assert [mark["Total Allocated"] for mark in marks] == [8 * (n + 1) for n in range(count)]
    indexes = [event["args"]["Ev Idx"] for event in trace["traceEvents"] if "Ev Idx" in event.get("args", {})]
    assert indexes == list(range(3 * count))


def test_preset_metadata_is_in_every_trace(tmp_path: Path) -> None:
    prof = profile()
    prof.preset_metadata_json("preset", "[1]")
    with prof:
        pass
    assert traced(prof, tmp_path)["preset"] == [1]


def test_a_trace_can_be_exported_any_number_of_times(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    prof = full_profile(clock)
    plain = traced(prof, tmp_path)
    again = traced(prof, tmp_path, "again.json.gz")
    assert plain["traceEvents"] == again["traceEvents"]
    prof.events()
    assert traced(prof, tmp_path, "third.json")["traceEvents"] == plain["traceEvents"]


def test_there_is_one_exporter_whatever_is_asked_for(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    prof = full_profile(clock)
    expected = traced(prof, tmp_path)["traceEvents"]
    prof.export_chrome_trace(tmp_path / "asked.json", use_python_export=True)
    assert json.loads((tmp_path / "asked.json").read_text())["traceEvents"] == expected
    tensorboard_trace_handler(str(tmp_path / "folder"), use_gzip=True, use_python_export=True)(prof)
    (path,) = (tmp_path / "folder").iterdir()
    assert json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] == expected


def test_the_autograd_profiler_exports_the_same_trace(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    with autograd_profile() as prof, record_function("block"):
        clock.advance(2)
    prof.export_chrome_trace(tmp_path / "trace.json", {"mine": "[1]"}, use_python_export=True)
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["mine"] == [1]
    assert [(event["name"], event["dur"]) for event in slices(trace, "user_annotation")] == [("block", 2.0)]


def test_an_empty_profile_exports_a_skeleton(tmp_path: Path) -> None:
    with profile() as prof:
        pass
    trace = traced(prof, tmp_path)
    assert [event["ph"] for event in trace["traceEvents"]] == ["M"] * 5 + ["X", "M", "i", "i"]


def test_an_unwritable_path_is_an_error(tmp_path: Path) -> None:
    with profile() as prof:
        pass
    with pytest.raises(OSError):
        prof.export_chrome_trace(tmp_path / "no such folder" / "trace.json")


def test_filters_act_on_the_trace_only(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    with profile(activities=[{ProfilerActivity.CPU: ["CPU_OP"]}]) as prof, record_function("block"), op("aten::add"):
        clock.advance(1)
    assert len(prof.events()) == 2
    trace = traced(prof, tmp_path)
    assert len(slices(trace, "cpu_op")) == 1
    assert slices(trace, "user_annotation") == []


def test_call_stacks_are_written_when_asked_for(tmp_path: Path) -> None:
    with profile(with_stack=True, experimental_config=_ExperimentalConfig(verbose=True)) as prof, op("aten::add"):
        pass
    (event,) = slices(traced(prof, tmp_path), "cpu_op")
    assert event["args"]["Call stack"].endswith(";")
    assert "test_call_stacks_are_written_when_asked_for" in event["args"]["Call stack"]


def test_event_metadata_is_exposed_when_asked_for() -> None:
    with profile(experimental_config=_ExperimentalConfig(expose_kineto_event_metadata=True)) as prof, op("aten::add"):
        pass
    with pytest.warns(FutureWarning, match="metadata_json"):
        assert prof.events()[0].metadata_json == '"Ev Idx": 0'


def test_event_list_exports_a_plain_array(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    with profile() as prof, record_function(NASTY), op("aten::add"):
        clock.advance(4)
    path = tmp_path / "array.json"
    prof.events().export_chrome_trace(path)
    rows = json.loads(path.read_text())
    assert [row["name"] for row in rows] == [NASTY, "aten::add"]
    assert rows[1] == {
        "name": "aten::add",
        "ph": "X",
        "ts": 0.0,
        "dur": 4.0,
        "tid": 1,
        "pid": "CPU functions",
        "args": {},
    }
    with pytest.raises(AttributeError):
        prof.key_averages().export_chrome_trace(path)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (True, "True"),
        (1.0, "1."),
        (0.25, "0.25"),
        (-0.1, "-0.10000000000000001"),
        ([8, 16], "[8, 16]"),
        ([2.0, 2.0], "[2., 2.]"),
        (1 + 2j, "1.+2.j"),
        (None, ""),
        ("text", ""),
    ],
)
def test_concrete_inputs_are_written_as_kineto_does(value: Any, text: str) -> None:
    assert concrete_text(value) == text
