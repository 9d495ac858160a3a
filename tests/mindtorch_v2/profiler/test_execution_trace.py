"""Execution traces: the nodes of what ran, when the observer watches, and its place in a profile."""

import gc
import gzip
import json
import multiprocessing
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.core import tap
from mindtorch_v2.profiler import ExecutionTraceObserver, profile, record_function, schedule

PROCESS, THREAD = (f"[pytorch|profiler|execution_trace|{name}]" for name in ("process", "thread"))


@pytest.fixture
def observer() -> Iterator[ExecutionTraceObserver]:
    found = ExecutionTraceObserver()
    yield found
    found.unregister_callback()


def read(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return found


def nodes(path: Path) -> list[dict[str, Any]]:
    return list(read(path)["nodes"])


def named(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (node,) = (node for node in found if node["name"] == name)
    return node


def attributes(node: dict[str, Any]) -> dict[str, Any]:
    return {attribute["name"]: attribute["value"] for attribute in node["attrs"]}


def watched(observer: ExecutionTraceObserver, path: Path, run: Any) -> list[dict[str, Any]]:
    observer.register_callback(str(path))
    observer.start()
    run()
    observer.stop()
    observer.unregister_callback()
    return nodes(path)


def test_a_file_without_anything_run_has_its_process(observer: ExecutionTraceObserver, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    assert [node["name"] for node in watched(observer, path, lambda: None)] == [PROCESS]
    trace = read(path)
    assert list(trace) == ["schema", "pid", "time", "start_ts", "nodes", "finish_ts"]
    assert trace["schema"] == "1.1.1-chakra.0.0.4"


def test_an_op_shows_what_went_in_and_came_out(observer: ExecutionTraceObserver, tmp_path: Path) -> None:
    x = torch.ones(2, 3)
    found = watched(observer, tmp_path / "trace.json", lambda: torch.add(x.t(), 2.5, alpha=2))
    t, add, process = named(found, "aten::t"), named(found, "aten::add"), named(found, PROCESS)
    thread = named(found, THREAD)
    assert (process["id"], thread["id"], thread["ctrl_deps"], add["ctrl_deps"]) == (1, 2, 1, 2)
    assert found[0] is thread
    assert found[-1] is process
    ((tensor, storage, *layout),) = t["inputs"]["values"]
    assert layout == [0, 6, 4, "cpu"]
    ((view, same, *_),) = t["outputs"]["values"]
    assert view != tensor
    assert same == storage
    assert add["inputs"]["values"][0][:2] == [view, storage]
    assert add["inputs"]["values"][1:] == [2.5, 2]
    assert add["inputs"]["types"] == ["Tensor(float)", "Double", "Int"]
    assert (add["inputs"]["shapes"], add["inputs"]["strides"]) == ([[3, 2], [], []], [[1, 3], [], []])
    assert add["outputs"]["shapes"] == [[3, 2]]
    assert attributes(add)["op_schema"].startswith("aten::add.Tensor(Tensor self")
    assert list(attributes(add)) == (
        "rf_id fw_parent seq_id scope tid fw_tid op_schema kernel_backend kernel_file tensor_range".split()
    )


def test_lists_none_and_dtypes_are_described(observer: ExecutionTraceObserver, tmp_path: Path) -> None:
    x = torch.ones(2, 3)

    def run() -> None:
        torch.cat([x, x]).sum(dim=[0, 1])
        torch.split(x, 1)
        x.max(dim=1)
        torch.zeros(2, dtype=torch.int64)

    found = watched(observer, tmp_path / "trace.json", run)
    assert named(found, "aten::cat")["inputs"]["types"] == ["GenericList[Tensor(float),Tensor(float)]", "Int"]
    total = named(found, "aten::sum")["inputs"]
    assert total["values"][1:] == [[0, 1], False, "<None>"]
    assert total["types"][1:] == ["GenericList[Int,Int]", "Bool", "None"]
    assert total["shapes"][1:] == [[[], []], [], []]
    assert named(found, "aten::split")["outputs"]["types"] == ["GenericList[Tensor(float),Tensor(float)]"]
    assert named(found, "aten::max")["outputs"]["types"] == ["Tensor(float)", "Tensor(long int)"]
    zeros = named(found, "aten::zeros")["inputs"]
    assert (zeros["values"][:2], zeros["types"][:2]) == ([[2], 4], ["GenericList[Int]", "Int"])


def test_what_an_op_in_place_writes_to_is_marked(observer: ExecutionTraceObserver, tmp_path: Path) -> None:
    x = torch.ones(2)
    found = watched(observer, tmp_path / "trace.json", lambda: x.add_(x))
    schema = attributes(named(found, "aten::add_"))["op_schema"]
    assert schema == "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"


def test_ops_without_a_result_have_no_outputs(observer: ExecutionTraceObserver, tmp_path: Path) -> None:
    x = torch.ones(2)
    found = watched(observer, tmp_path / "trace.json", lambda: torch._foreach_mul_([x], 2.0))
    assert named(found, "aten::_foreach_mul_")["outputs"]["values"] == []
    assert x.tolist() == [2.0, 2.0]


def test_a_program_runs_the_same_and_every_event_has_its_node(observer: ExecutionTraceObserver, tmp_path: Path) -> None:
    def losses(**options: Any) -> tuple[list[float], list[str]]:
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 2))
        optimizer = torch.optim.AdamW(net.parameters())
        found = []
        with profile(**options) as prof:
            for _ in range(2):
                loss = net(torch.randn(3, 4)).square().mean()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
                optimizer.step()
                found.append(loss.item())
        return found, sorted(event.name for event in prof.events())

    observer.register_callback(tmp_path / "trace.json")
    alone = losses()
    assert losses(execution_trace_observer=observer) == alone
    names = sorted(node["name"] for node in nodes(tmp_path / "trace.json") if node["name"] not in (PROCESS, THREAD))
    assert names == alone[1]


def test_nodes_of_the_graph_are_in_the_trace(observer: ExecutionTraceObserver, tmp_path: Path) -> None:
    x = torch.ones(2, requires_grad=True)
    found = watched(observer, tmp_path / "trace.json", lambda: (x * 3).sum().backward())
    node = named(found, "MulBackward0")
    assert (attributes(node)["scope"], attributes(node)["fw_tid"]) == (1, 1)
    assert attributes(node)["seq_id"] == attributes(named(found, "SumBackward0"))["seq_id"] - 1
    assert node["inputs"]["shapes"] == [[2]]
    around = named(found, "autograd::engine::evaluate_function: MulBackward0")
    assert (node["ctrl_deps"], attributes(node)["fw_parent"]) == (around["id"], around["id"])
    assert attributes(around)["seq_id"] == -1


def test_annotations_hold_what_runs_in_them(observer: ExecutionTraceObserver, tmp_path: Path) -> None:
    def run() -> None:
        with record_function('a "block"'):
            torch.ones(2) + 1

    found = watched(observer, tmp_path / "trace.json", run)
    block = named(found, 'a "block"')
    assert attributes(block)["scope"] == 7
    assert named(found, "aten::add")["ctrl_deps"] == block["id"]
    assert block["inputs"]["values"] == []


def test_only_what_runs_between_start_and_stop_is_seen(observer: ExecutionTraceObserver, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    observer.start()
    assert not observer.is_running()
    assert observer.register_callback(str(path)) is observer
    for number in range(5):
        if number in (1, 3):
            observer.start()
            observer.start()
            assert observer.is_running()
        with record_function(f"loop {number}"):
            pass
        observer.stop()
    observer.unregister_callback()
    assert [node["name"] for node in nodes(path) if "loop" in node["name"]] == ["loop 1", "loop 3"]
    assert tap.SLOT.watcher is None
    assert tap.SLOT.recorder is None


def test_the_state_can_be_asked_for(observer: ExecutionTraceObserver, tmp_path: Path) -> None:
    assert (observer.is_registered, observer.is_running(), observer.get_output_file_path()) == (False, False, None)
    path = str(tmp_path / "trace.json")
    observer.register_callback(path)
    assert (observer.is_registered, observer.get_output_file_path()) == (True, path)
    observer.unregister_callback()
    observer.unregister_callback()
    assert (observer.is_registered, observer.get_output_file_path()) == (False, path)


def test_compressed_traces_are_read_back(observer: ExecutionTraceObserver, tmp_path: Path) -> None:
    path = tmp_path / "trace.et.json.gz"
    found = watched(observer, path, lambda: torch.ones(2) + 1)
    assert named(found, "aten::add")
    assert observer.get_output_file_path() == str(path)


def test_a_path_that_cannot_be_written_leaves_it_unregistered(observer: ExecutionTraceObserver, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="cannot be written"):
        observer.register_callback(str(tmp_path / "none" / "trace.json"))
    assert not observer.is_registered


def test_a_second_observer_sees_nothing(observer: ExecutionTraceObserver, tmp_path: Path) -> None:
    observer.register_callback(str(tmp_path / "first.json"))
    second = ExecutionTraceObserver()
    with pytest.warns(UserWarning, match="registered already"):
        second.register_callback(str(tmp_path / "second.json"))
    assert second.is_registered
    observer.start()
    second.start()
    torch.ones(2)
    second.unregister_callback()
    torch.zeros(2)
    observer.unregister_callback()
    assert {"aten::ones", "aten::zeros"} <= {node["name"] for node in nodes(tmp_path / "first.json")}
    assert not (tmp_path / "second.json").exists()


def test_an_observer_that_is_dropped_completes_its_file(tmp_path: Path) -> None:
    observer = ExecutionTraceObserver().register_callback(tmp_path / "trace.json")
    observer.start()
    torch.ones(2)
    del observer
    gc.collect()
    assert named(nodes(tmp_path / "trace.json"), "aten::ones")
    assert tap.SLOT.watcher is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_children_leave_the_file_alone(observer: ExecutionTraceObserver, tmp_path: Path) -> None:
    def run() -> None:
        child = multiprocessing.get_context("fork").Process(target=lambda: torch.zeros(2))
        child.start()
        child.join()
        assert child.exitcode == 0
        torch.ones(2)

    found = watched(observer, tmp_path / "trace.json", run)
    names = [node["name"] for node in found]
    assert "aten::ones" in names
    assert "aten::zeros" not in names


def test_threads_have_nodes_of_their_own(observer: ExecutionTraceObserver, tmp_path: Path) -> None:
    def run() -> None:
        torch.ones(2)
        thread = threading.Thread(target=lambda: torch.zeros(2))
        thread.start()
        thread.join()

    found = watched(observer, tmp_path / "trace.json", run)
    roots = {attributes(node)["tid"]: node["id"] for node in found if node["name"] == THREAD}
    assert set(roots) == {1, 2}
    assert (named(found, "aten::ones")["ctrl_deps"], named(found, "aten::zeros")["ctrl_deps"]) == (roots[1], roots[2])


def test_failing_ops_leave_the_observer_in_order(observer: ExecutionTraceObserver, tmp_path: Path) -> None:
    def run() -> None:
        with pytest.raises(RuntimeError):
            torch.ones(2, 3) @ torch.ones(2, 3)
        torch.relu(torch.ones(2))

    found = watched(observer, tmp_path / "trace.json", run)
    thread = named(found, THREAD)
    assert named(found, "aten::relu")["ctrl_deps"] == thread["id"]


def test_a_profile_and_its_observer_agree_on_ids(tmp_path: Path) -> None:
    observer = ExecutionTraceObserver().register_callback(str(tmp_path / "et.json"))
    traces: list[Path] = []

    def ready(prof: profile) -> None:
        traces.append(tmp_path / f"{len(traces)}.json")
        prof.export_chrome_trace(traces[-1])

    x = torch.ones(3, requires_grad=True)
    cycle = schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=1)
    with profile(schedule=cycle, on_trace_ready=ready, execution_trace_observer=observer, record_shapes=True) as prof:
        for step in range(6):
            with record_function(f"## LOOP {step} ##"):
                (x * step).sum().backward()
            prof.step()
    assert not observer.is_registered
    found = nodes(tmp_path / "et.json")
    assert [node["name"] for node in found if "LOOP" in node["name"]] == ["## LOOP 3 ##", "## LOOP 4 ##"]
    (trace,) = traces
    events = [e for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") in ("cpu_op", "user_annotation")]
    in_profile = {event["args"]["Record function id"]: event["name"] for event in events}
    in_trace = {attributes(node)["rf_id"]: node["name"] for node in found if node["name"] not in (PROCESS, THREAD)}
    assert in_profile == in_trace
    assert len(in_profile) == len(events)


def test_the_environment_can_ask_for_traces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert ExecutionTraceObserver.build_execution_trace_obs_from_env() is None
    assert profile().execution_trace_observer is None
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "1")
    with profile() as prof:
        torch.ones(2)
    observer = prof.execution_trace_observer
    assert isinstance(observer, ExecutionTraceObserver)
    path = Path(observer.get_output_file_path() or "")
    assert path.name.endswith(".et.json")
    assert named(nodes(path), "aten::ones")
    folder = Path(observer.get_resources_dir() or "")
    assert list(folder.iterdir()) == []
    assert folder.name == path.name.removesuffix(".json") + "_resources"
