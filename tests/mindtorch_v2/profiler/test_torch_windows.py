"""Windows of a program on real torch as files, without torch: joining them, and what they say of modules and steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mindtorch_v2.profiler import load
from mindtorch_v2.profiler.analyse.metrics import Metrics
from mindtorch_v2.profiler.analyse.modules import Modules
from mindtorch_v2.profiler.read import torch_windows
from mindtorch_v2.profiler.record import environment, step_clock

BASE = 1_700_000_000_000_000_000


def event(name: str, start: int, length: int, category: str = "cpu_op", **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": 7, "ts": start, "dur": length, "args": args}


def write(path: Path, events: list[dict[str, Any]], steps: list[int], base: int = BASE) -> Path:
    clock = {name: [1] * len(steps) for name in step_clock.COLUMNS} | {"step": steps}
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        json.dumps({"baseTimeNanoseconds": base, "traceEvents": events, step_clock.METADATA: clock, "environment": {}})
    )
    return path


def window(first: int) -> list[dict[str, Any]]:
    return [
        event(f"ProfilerStep#{first}", 0, 50, "user_annotation"),
        event("nn.Module: Net_0 @ Net", 5, 30),
        event("nn.Module: Linear_3 @ Net.first", 10, 20, **{"External id": 3}),
        event("aten::addmm", 12, 10, **{"Sequence number": 4, "External id": 4}),
        event(f"ProfilerStep#{first + 1}", 60, 10, "user_annotation"),
    ]


def test_windows_follow_each_other_on_one_thread(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "windows" / f"{n:04}.json", window(10 * n), [10 * n], BASE + n * 1_000_000) for n in (0, 1)
    ]
    assert torch_windows.files(tmp_path) == paths
    capture = torch_windows.read(paths)
    assert len(capture.tracks) == 1
    products = [
        (int(start), int(seq))
        for start, kind, seq in zip(
            capture.tracks[0].start_ns, capture.tracks[0].kind, capture.tracks[0].seq, strict=True
        )
        if capture.kinds[kind].name == "aten::addmm"
    ]
    assert [start for start, _ in products] == [12_000, 1_012_000]
    assert products[0][1] != products[1][1]
    assert step_clock.stated(capture.metadata)["step"].tolist() == [0, 10]
    link = capture.tracks[0].link
    assert link is not None
    assert len(set(link[link > 0].tolist())) == 4


def test_a_step_that_was_under_way_is_none(tmp_path: Path) -> None:
    capture = torch_windows.read([write(tmp_path / "0000.json", window(0), [0])])
    names = {capture.kinds[kind].name for kind in capture.tracks[0].kind.tolist()}
    assert "ProfilerStep#0" in names
    assert "ProfilerStep#1" not in names


def test_annotations_of_modules_are_calls_of_modules_in_any_reader(tmp_path: Path) -> None:
    modules = Modules(Metrics(load(write(tmp_path / "trace.json", window(0), [0]))))
    assert modules.names == ["(outside modules)", "Net", "Net.first"]
    assert int(modules.calls.sum()) == 2


def test_a_file_that_says_nothing_of_what_it_timed_is_not_taken_for_ours() -> None:
    assert environment.implementation_of({}) == environment.UNKNOWN
    assert environment.implementation_of({"environment": "odd"}) == environment.UNKNOWN
    assert environment.implementation_of({}, live=True).startswith("mindtorch_v2 on NumPy")


def test_clocks_are_read_where_steps_begin_and_end() -> None:
    readings = iter([(0, 0, 0, 0), (10, 7, 5, 1), (100, 100, 100, 100)])
    clock = step_clock.StepClock(lambda: next(readings))
    clock.end(0)
    clock.begin()
    clock.end(1)
    clock.begin()
    clock.forget()
    clock.end(2)
    columns = step_clock.stated({step_clock.METADATA: json.loads(clock.text())})
    assert {name: values.tolist() for name, values in columns.items()} == {
        "step": [1], "wall_ns": [10], "cpu_ns": [7], "thread_cpu_ns": [5], "switches": [1],
    }  # fmt: skip


def test_clocks_of_a_hostile_file_are_none() -> None:
    good = {name: [1, 2] for name in step_clock.COLUMNS}
    for odd in ({**good, "step": [1]}, {**good, "cpu_ns": ["1", 2]}, {**good, "cpu_ns": [1, 1 << 70]}, [], None, {}):
        assert step_clock.stated({step_clock.METADATA: odd}) == {}
