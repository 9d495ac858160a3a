"""The memory timeline: what blocks are to the program, and the files it is written to."""

import gc
import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import mindtorch_v2 as torch
from forked import exit_code, fork
from mindtorch_v2 import nn
from mindtorch_v2.core import roles
from mindtorch_v2.profiler import load, profile
from mindtorch_v2.profiler.analyse.memory import Action, Category, Change, categories, memory_roles_of, sums, timeline
from mindtorch_v2.profiler.analyse.merge import merge
from mindtorch_v2.profiler.analyse.metrics import Metrics
from mindtorch_v2.profiler.capture.capture import Capture
from mindtorch_v2.profiler.record.recorder import RECORDER
from mindtorch_v2.profiler.report.allocations import usage

FLAGS = ("record_shapes", "profile_memory", "with_stack")
PARAMETERS = 4 * (8 * 16 + 16 + 16 * 4 + 4)


def trained(steps: int = 1, **options: bool) -> profile:
    net, loss = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    y = torch.tensor([0, 1, 2, 3, 0])
    with profile(**(dict.fromkeys(FLAGS, True) | options)) as prof:
        for _ in range(steps):
            optimizer.zero_grad()
            loss(net(torch.randn(5, 8)), y).backward()
            optimizer.step()
    return prof


def capture_of(prof: profile) -> Capture:
    assert prof.profiler is not None
    return prof.profiler.newest_capture()


def bytes_of(prof: profile, *actions: Action) -> dict[Category, int]:
    found: Counter[Category] = Counter()
    for change in prof._memory_profile():
        if change.action in actions:
            found[Category(change.category)] += change.nbytes
    return dict(found)


@pytest.fixture(scope="module")
def step() -> profile:
    return trained()


def test_parameters_and_targets_were_there_before(step: profile) -> None:
    assert bytes_of(step, Action.PREEXISTING) == {Category.PARAMETER: PARAMETERS, Category.INPUT: 5 * 8}


def test_each_parameter_has_a_gradient_and_optimizer_state(step: profile) -> None:
    created = bytes_of(step, Action.CREATE)
    assert created[Category.GRADIENT] == PARAMETERS
    assert created[Category.OPTIMIZER_STATE] == 2 * PARAMETERS + 4 * 4


def test_data_made_apart_from_the_graph_is_input(step: profile) -> None:
    assert bytes_of(step, Action.CREATE)[Category.INPUT] == 5 * 8 * 4


def test_results_of_the_forward_pass_are_activations(step: profile) -> None:
    # linear, relu, linear, log_softmax, the loss, its weight, and the gradient that backward begins with
    assert bytes_of(step, Action.CREATE)[Category.ACTIVATION] == 4 * (5 * 16 + 5 * 16 + 5 * 4 + 5 * 4 + 1 + 1 + 1)


def test_the_engine_keeps_gradients_of_activations(step: profile) -> None:
    created, gone = bytes_of(step, Action.CREATE), bytes_of(step, Action.DESTROY)
    assert created[Category.AUTOGRAD_DETAIL] >= 4 * (5 * 16 + 5 * 4)
    assert gone[Category.AUTOGRAD_DETAIL] == -created[Category.AUTOGRAD_DETAIL]


def test_what_an_optimizer_needs_on_its_way_is_temporary(step: profile) -> None:
    created, gone = bytes_of(step, Action.CREATE), bytes_of(step, Action.DESTROY)
    assert created[Category.TEMPORARY] == -gone[Category.TEMPORARY] > 0
    assert Category.UNKNOWN not in created


def test_changes_in_place_make_new_versions() -> None:
    versions = [c for c in trained(2)._memory_profile() if c.action == Action.INCREMENT_VERSION]
    assert sum(change.nbytes for change in versions) == 0
    of_parameters = [c.nbytes for c in versions if c.category == Category.PARAMETER and c.nbytes > 0]
    assert sum(of_parameters) == 2 * PARAMETERS


def test_without_a_graph_nothing_is_guessed() -> None:
    with profile(**dict.fromkeys(FLAGS, True)) as prof:
        x = torch.ones(4)
        del x
    assert {change.category for change in prof._memory_profile()} == {Category.UNKNOWN}


def test_a_profiler_that_is_dropped_stops_listening() -> None:
    prof = profile(**dict.fromkeys(FLAGS, True))
    prof.start()
    assert roles.LISTENERS
    del prof
    gc.collect()
    assert not roles.LISTENERS


def test_sightings_are_kept_as_numbers(step: profile) -> None:
    memory_roles = capture_of(step).memory_roles
    assert memory_roles.dtype == "int64"
    assert len(memory_roles_of(capture_of(step))) == len(memory_roles) > 0


def test_sums_follow_the_changes() -> None:
    changes = [
        Change(-1, Action.PREEXISTING, 10, Category.PARAMETER),
        Change(5_000, Action.CREATE, 4, Category.INPUT),
        Change(5_999, Action.CREATE, 2, Category.ACTIVATION),
        Change(7_000, Action.DESTROY, -4, Category.INPUT),
    ]
    times, sizes = sums(changes)
    assert times == [5, 5, 7]
    assert sizes == [[0, 10, 0, 0, 0, 0, 0, 0, 0], [0, 10, 0, 4, 0, 2, 0, 0, 0], [0, 10, 0, 0, 0, 2, 0, 0, 0]]
    assert sums([]) == ([], [])


def exported(prof: profile, path: Path, device: str | None = None) -> Any:
    with pytest.warns(FutureWarning, match="export_memory_timeline"):
        prof.export_memory_timeline(path, device)
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def test_files_have_torchs_formats(step: profile, tmp_path: Path) -> None:
    times, sizes = exported(step, tmp_path / "timeline.json")
    assert len(times) == len(sizes)
    assert times == sorted(times)
    assert {len(row) for row in sizes} == {9}
    assert sizes[0][1] == PARAMETERS
    assert exported(step, tmp_path / "timeline.json.gz") == [times, sizes]
    raw = exported(step, tmp_path / "timeline.raw.json.gz")
    assert raw == [list(change) for change in step._memory_profile()]
    assert raw[0][:2] == [-1, 1]
    assert sum(row[2] for row in raw) == sum(sizes[-1])


def test_a_page_needs_no_other_package(step: profile, tmp_path: Path) -> None:
    path = tmp_path / "timeline.html"
    with pytest.warns(FutureWarning):
        step.export_memory_timeline(str(path))
    page = path.read_text()
    assert page.startswith("<!DOCTYPE html>")
    for name in ("PARAMETER", "ACTIVATION", "GRADIENT"):
        assert f"<title>{name}</title>" in page
    assert "http" not in page


def test_other_devices_have_no_memory(step: profile, tmp_path: Path) -> None:
    assert exported(step, tmp_path / "timeline.json", "cuda:0") == [[], []]
    with pytest.warns(FutureWarning):
        step.export_memory_timeline(tmp_path / "timeline.html", "cuda:0")
    assert "No memory was recorded" in (tmp_path / "timeline.html").read_text()


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    prof = trained(with_stack=False, profile_memory=False)
    message = "profile_memory=True, with_stack=True required for memory profiling."
    with pytest.raises(ValueError, match=message), pytest.warns(FutureWarning):
        prof.export_memory_timeline(tmp_path / "timeline.json")


def test_an_unwritable_path_is_an_error(step: profile, tmp_path: Path) -> None:
    with pytest.raises(OSError), pytest.warns(FutureWarning):
        step.export_memory_timeline(tmp_path / "none" / "timeline.json")


@pytest.mark.parametrize("options", [{}, dict.fromkeys(FLAGS, True) | {"with_modules": True}])
@pytest.mark.parametrize("name", ["run.mtspool", "run.json", "run.json.gz"])
def test_roles_survive_every_format_that_is_read(tmp_path: Path, name: str, options: dict[str, bool]) -> None:
    net = nn.Linear(8, 4)
    optimizer = torch.optim.Adam(net.parameters())
    with profile(**{"profile_memory": True, **options}, spool=tmp_path / "run.mtspool") as prof:  # type: ignore[arg-type]
        for _ in range(2):
            net(torch.randn(5, 8)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            for session in RECORDER.sessions:
                assert session.sink is not None
                session.sink.flush()
    if name != "run.mtspool":
        prof.export(tmp_path / name)
    live, found = capture_of(prof), load(tmp_path / name)
    assert found.memory_roles.tolist() == live.memory_roles.tolist()
    changes = timeline(Metrics(live))
    assert {change.category for change in changes} >= {Category.PARAMETER, Category.GRADIENT, Category.OPTIMIZER_STATE}
    assert timeline(Metrics(found)) == changes
    usages = [usage(Metrics(capture)) for capture in (live, found)]
    assert usages[0].names == usages[1].names
    assert [part.tolist() for part in usages[0].by_category] == [part.tolist() for part in usages[1].by_category]


def test_roles_of_several_captures_stay_apart() -> None:
    captures = [capture_of(trained()) for _ in range(2)]
    merged = merge(captures, ["one", "two"], align="start")
    assert len(merged.memory_roles) == sum(len(capture.memory_roles) for capture in captures)
    sums_before = [categories(Metrics(capture))[2] for capture in captures]
    assert categories(Metrics(merged))[2].tolist() == (sums_before[0] + sums_before[1]).tolist()


def test_a_child_has_roles_of_its_own() -> None:
    net = nn.Linear(8, 4)

    def step() -> None:
        net(torch.randn(5, 8)).sum().backward()

    with profile(profile_memory=True, workers=True) as prof:
        assert exit_code(fork(step)) == 0
    seen = {role_seen.role for role_seen in memory_roles_of(capture_of(prof))}
    assert Category.PARAMETER in seen


def test_traces_without_roles_are_read(tmp_path: Path, step: profile) -> None:
    path = tmp_path / "trace.json"
    step.export_chrome_trace(path)
    trace = json.loads(path.read_text())
    trace["traceEvents"] = [event for event in trace["traceEvents"] if event["name"] != "memory_roles"]
    path.write_text(json.dumps(trace))
    assert load(path).memory_roles.shape == (0, 5)
    assert timeline(Metrics(load(path)))


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ({"role": ["a", "b"]}, "whole numbers"),
        ({"role": [0, 1 << 70]}, "whole numbers"),
        ({"role": [0]}, ""),
        ({"role": [0, 9]}, "a role without a name"),
        ({"role": 5}, ""),
        ({"names": None}, ""),
    ],
)
def test_roles_that_make_no_sense_are_an_error(tmp_path: Path, args: dict[str, Any], reason: str) -> None:
    good = {"names": ["parameter"], "ns": [1, 2], "role": [0, 0], "address": [5, 6], "bytes": [8, 8], "version": [0, 0]}
    event = {"ph": "M", "name": "memory_roles", "ts": 1, "pid": 1, "tid": 0, "args": good | args}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [event]}))
    with pytest.raises(ValueError, match=f"makes no sense.*{reason}"):
        load(path)


def test_inputs_made_in_inference_mode_are_seen_like_others() -> None:
    with torch.inference_mode():
        x = torch.ones(2, 4)
    layer = torch.nn.Linear(4, 3)
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as prof, torch.no_grad():
        layer(x)
    inputs = [seen.nbytes for seen in memory_roles_of(capture_of(prof)) if seen.role == Category.INPUT]
    assert inputs == [32]
