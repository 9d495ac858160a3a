"""Traces read back: our own and those of real torch, with GPU rows, and files that are no traces."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.profiler import TraceError, load, profile, record_function
from mindtorch_v2.profiler.analyse.merge import merge
from mindtorch_v2.profiler.api.trace import Trace
from mindtorch_v2.profiler.read import jsonstream, regions
from protobuf_files import Perfetto

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1.0, "dur": 1.0, "args": {}}
TORCH_TRACE = Path(__file__).parents[1] / "data" / "torch_2_13_trace.json.gz"


def train(**options: Any) -> profile:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    with profile(**options) as prof, record_function('step "one" é'):
        model(torch.ones(3, 4)).sum().backward()
    return prof


def write_json(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


def facts(event: Any) -> tuple[Any, ...]:
    span = event.time_range
    return (
        event.name,
        event.trace_name,
        event.id,
        round(span.elapsed_us() * 1000),
        event.sequence_nr,
        event.fwd_thread,
        event.scope,
        event.input_shapes,
        event.structured_input_strides,
        event.input_dtypes,
        event.concrete_inputs,
        event.cpu_memory_usage,
        event.self_cpu_memory_usage,
        event.flops,
        event.flow_id,
        event.is_user_annotation,
        event.python_module_id,
        None if event.cpu_parent is None else event.cpu_parent.name,
    )


OPTIONS = [
    {},
    {"record_shapes": True, "profile_memory": True, "with_flops": True},
    {"with_modules": True},
    {"with_stack": True, "profile_memory": True},
]


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
@pytest.mark.parametrize("options", OPTIONS)
def test_our_own_trace_comes_back_with_the_same_events(tmp_path: Path, options: dict[str, bool], suffix: str) -> None:
    prof = train(**options)
    prof.export_chrome_trace(tmp_path / f"a.{suffix}")
    back = load(tmp_path / f"a.{suffix}")
    assert [facts(event) for event in back.events()] == [facts(event) for event in prof.events()]
    assert back.key_averages().table() == prof.key_averages().table()


def test_a_trace_written_from_a_loaded_one_is_the_same(tmp_path: Path) -> None:
    train(record_shapes=True, profile_memory=True, with_stack=True).export_chrome_trace(tmp_path / "a.json")
    load(tmp_path / "a.json").export(tmp_path / "b.json")
    first, second = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    assert first["traceEvents"] == second["traceEvents"]
    assert {**first, "traceEvents": 0, "traceName": 0} == {**second, "traceEvents": 0, "traceName": 0}


@pytest.mark.parametrize(
    "args",
    [
        '"External id": 7,"Record function id": 0, "Sequence number": 4, "Fwd thread id": 0, "Ev Idx": 2',
        '"External id": 7,"Sequence number": 4, "Fwd thread id": 0, "Record function id": 0, "Ev Idx": 2',
        '"Ev Idx": 2, "Sequence number": 4, "External id": 7',
        '"External id":7,"Sequence number":4,"Fwd thread id":0,"Ev Idx":2,"Record function id":0',
    ],
)
def test_arguments_are_found_in_any_order(tmp_path: Path, args: str) -> None:
    event = '{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1.000, "dur": 1.000, "args": {' + args
    (tmp_path / "a.json").write_text(f"[{event}}}}},\n{event}}}}}]")
    assert [event.sequence_nr for event in load(tmp_path / "a.json").events()] == [4]
    assert load(tmp_path / "a.json").first_id == 7


def test_threads_keep_their_order(tmp_path: Path) -> None:
    def thread(tid: int) -> dict[str, Any]:
        return {
            "ph": "M",
            "name": "thread_name",
            "pid": 1,
            "tid": tid,
            "args": {"name": f"thread {tid} (worker {tid})"},
        }

    events = [thread(8), thread(9), {**EVENT, "tid": 9, "ts": 1.0}, {**EVENT, "tid": 8, "ts": 2.0}]
    back = load(write_json(tmp_path / "a.json", events))
    assert [(track.native_id, track.name) for track in back.tracks] == [(8, "worker 8"), (9, "worker 9")]


HEAD = '"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, '
COMMON = f'{{{HEAD}"ts": 1.000, "dur": 1.000, "args": {{"External id": 5,"Sequence number": 6, "Ev Idx": 2}}}}'


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (COMMON, (1000, 5, 6)),
        (COMMON.replace("1.000", "1"), (1000, 5, 6)),
        (COMMON.replace("1.000", "1.5"), (1500, 5, 6)),
        (COMMON.replace(": ", ":"), (1000, 5, 6)),
        (COMMON.replace(", ", "\n   ,"), (1000, 5, 6)),
        (COMMON.replace('"External id": 5,', ""), (1000, 0, 6)),
        (COMMON.replace('"External id": 5,', '"External id": 5, "External id": 7,'), (1000, 7, 6)),
        (COMMON.replace(' "Ev Idx": 2', ' "Record function id": 0, "External id": 8'), (1000, 8, 6)),
        (COMMON.replace('"Ev Idx": 2', '"Call stack": "}", "Ev Idx": 2'), (1000, 5, 6)),
        (COMMON.replace("6, ", 'null, "Fwd thread id": 0, '), (1000, 5, -1)),
    ],
)
def test_events_in_any_layout_say_the_same(tmp_path: Path, event: str, expected: tuple[int, ...]) -> None:
    """Each is read twice, and among others: the common layouts are read by other means than the rest."""
    (tmp_path / "a.json").write_text(f"[{COMMON}, {event}, {COMMON},\n{event},\n{COMMON}]")
    (track,) = load(tmp_path / "a.json").tracks
    rows = list(zip((track.end_ns - track.start_ns).tolist(), track.link.tolist(), track.seq.tolist()))
    assert sorted(rows) == sorted([(1000, 5, 6)] * 3 + [expected] * 2)


def test_a_trace_in_which_every_event_is_laid_out_in_another_way(tmp_path: Path) -> None:
    events = [COMMON.replace(': 5,"', ": 5," + " " * number + '"') for number in range(40)]
    (tmp_path / "a.json").write_text(f"[{','.join(events * 2)}]")
    (track,) = load(tmp_path / "a.json").tracks
    assert track.seq.tolist() == [6] * 80


GPU_LAYOUT = """
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9,
    "ts": {0}0.125, "dur": 2.000,
    "args": {{
      "External id": {0}, "cbid": 211, "correlation": 1{0}
    }}
  }},
  {{
    "ph": "s", "id": 1{0}, "pid": 9, "tid": 9, "ts": {0}0.125,
    "cat": "ac2g", "name": "ac2g"
  }},
  {{
    "ph": "X", "cat": "kernel", "name": "sgemm", "pid": 0, "tid": 7,
    "ts": {0}4.500, "dur": 3.250,
    "args": {{
      "External id": {0}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": 1{0},
      "registers per thread": 32, "blocks per SM": 0.5, "grid": [1, 2, 3]
    }}
  }},
  {{
    "ph": "f", "id": 1{0}, "pid": 0, "tid": 7, "ts": {0}4.500,
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }},
  {{
    "ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 7,
    "ts": {0}8.500, "dur": 1.000,
    "args": {{
      "device": 0, "context": 1, "stream": 7, "correlation": 0, "bytes": {0}
    }}
  }}"""


def everything(trace: Trace) -> list[Any]:
    """All that is known of a trace, in words."""
    found: list[Any] = []
    for track in trace.tracks:
        columns = [
            getattr(track, name).tolist() for name in ("start_ns", "end_ns", "seq", "link", "memory_ns", "nbytes")
        ]
        kinds = [trace.kinds[number][:4] for number in track.kind.tolist()]
        inputs = [trace.inputs[number] for number in track.inputs.tolist()]
        said = [(args[:4], sorted(args.keywords, key=repr)) for args in inputs]
        stacks = [trace.stacks.read(number) for number in track.stack.tolist()]
        arrows = [] if track.arrows is None else track.arrows[:, :3].tolist()
        found.append((track.native_id, track.device_type, columns, kinds, said, stacks, arrows))
    return found


def gpu_text() -> str:
    return '{"traceEvents": [' + ",".join(GPU_LAYOUT.format(number) for number in range(1, 30)) + "]}"


@pytest.mark.parametrize("text", [gzip.decompress(TORCH_TRACE.read_bytes()).decode(), gpu_text()], ids=["cpu", "gpu"])
def test_what_is_read_does_not_depend_on_the_layout(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    document = json.loads(text)
    document["traceEvents"] = [dict(reversed(event.items())) for event in document["traceEvents"]]
    first, second = load(tmp_path / "a.json"), load(write_json(tmp_path / "b.json", document))
    assert everything(first) == everything(second)


def test_kernels_in_torchs_layout(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(gpu_text())
    events = load(tmp_path / "a.json").events()
    kernels = [event for event in events if event.name == "sgemm"]
    assert len(kernels) == 29
    assert kernels[4].kwinputs == {
        "queued": 0,
        "device": 0,
        "context": 1,
        "stream": 7,
        "registers per thread": 32,
        "blocks per SM": 0.5,
        "grid": [1, 2, 3],
        "correlation": 15,
    }
    memset = next(event for event in events if event.name.startswith("Memset"))
    assert memset.kwinputs["correlation"] == 0


def test_absolute_times_keep_their_nanoseconds(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    first, second = ('{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 17' + "0" * 11 + f"{tail}, "
                     '"dur": 0.001, "args": {"External id": 1, "Ev Idx": 1}},' for tail in ("001.001", "001.004"))  # fmt: skip
    path.write_text(f"[{first}{second}{json.dumps({**EVENT, 'ts': 17 * 10**14})}]")
    starts = sorted(event.time_range.start for event in load(path).events())
    assert starts == [0, 1.001, 1.004]


def test_stacks_come_from_the_python_functions_of_the_file(tmp_path: Path) -> None:
    prof = train(with_stack=True)
    prof.export_chrome_trace(tmp_path / "a.json")
    back = load(tmp_path / "a.json")
    linear = next(event for event in back.events() if event.name == "aten::linear")
    assert linear.stack[0].endswith(": forward")
    assert any(entry.startswith("nn.Module: Linear_0") for entry in linear.stack)
    back.export_stacks(tmp_path / "a.txt")
    assert "nn.Module:_Linear_0" in (tmp_path / "a.txt").read_text()


def test_call_stacks_of_the_file_are_kept(tmp_path: Path) -> None:
    args = {"External id": 1, "Call stack": "a.py(1): f;b.py(2): g;"}
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1.5, "dur": 2.25, "args": args}
    back = load(write_json(tmp_path / "a.json", {"traceEvents": [event]}))
    assert back.events()[0].stack == ["a.py(1): f", "b.py(2): g"]
    assert back.key_averages(group_by_stack_n=1)[0].stack == ["a.py(1): f"]


@pytest.mark.parametrize(("dims", "flops"), [([[2, 3], [3, 4]], 48), ([[2], "x"], 0), ([], 0)])
def test_flops_come_from_the_shapes_of_the_file(tmp_path: Path, dims: list[Any], flops: int) -> None:
    event = {**EVENT, "name": "aten::mm", "args": {"Input Dims": dims}}
    back = load(write_json(tmp_path / "a.json", {"with_flops": 1, "traceEvents": [event]}))
    assert back.events()[0].flops == flops


def test_a_real_trace_of_torch(tmp_path: Path) -> None:
    back = load(TORCH_TRACE)
    events = back.events()
    addmm = next(event for event in events if event.name == "aten::addmm")
    assert addmm.input_shapes[1] == [5, 8]
    assert addmm.input_dtypes[:3] == ["float"] * 3
    assert addmm.concrete_inputs[3:] == [1, 1]
    assert any(entry.startswith("nn.Module: Linear_0") for entry in addmm.stack)
    assert addmm.cpu_memory_usage == 320
    node = next(event for event in events if event.name == "AddmmBackward0")
    assert node.scope == 1
    assert node.flow_start is False
    assert {"my_fwd", "aten::addmm"} <= {row.key for row in back.key_averages()}
    back.export(tmp_path / "again.json.gz")
    again = load(tmp_path / "again.json.gz")
    assert [facts(event) for event in again.events()] == [facts(event) for event in events]


def gpu_trace() -> list[dict[str, Any]]:
    def x(cat: str, name: str, pid: int, tid: int, ts: float, dur: float, **args: Any) -> dict[str, Any]:
        named = {key.replace("_", " "): value for key, value in args.items()}
        return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": named}

    return [
        {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
        x("user_annotation", "step", 9, 9, 100.0, 100.0, External_id=1),
        x("cpu_op", "aten::linear", 9, 9, 110.0, 50.0, External_id=2),
        x("cpu_op", "aten::addmm", 9, 9, 115.0, 40.0, External_id=3),
        x("cuda_runtime", "cudaLaunchKernel", 9, 9, 120.0, 5.0, External_id=3, correlation=77),
        x("cuda_runtime", "cudaMemcpyAsync", 9, 9, 170.0, 5.0, External_id=1, correlation=78),
        x("kernel", "sgemm", 0, 7, 130.0, 30.0, External_id=3, correlation=77, stream=7, device=0, grid=[1, 1, 1]),
        x("gpu_memcpy", "Memcpy DtoH", 0, 7, 180.0, 4.0, correlation=78, stream=7, device=0, bytes=64),
        x("gpu_user_annotation", "step", 0, 7, 130.0, 54.0, External_id=1, stream=7, device=0),
        {"ph": "s", "id": 77, "pid": 9, "tid": 9, "ts": 120.0, "cat": "ac2g", "name": "ac2g"},
        {"ph": "f", "id": 77, "pid": 0, "tid": 7, "ts": 130.0, "cat": "ac2g", "name": "ac2g", "bp": "e"},
    ]


def test_work_of_a_gpu_counts_for_the_ops_that_launched_it(tmp_path: Path) -> None:
    back = load(write_json(tmp_path / "gpu.json", {"traceEvents": gpu_trace()}))
    rows = {(row.key, row.device_type.name): row for row in back.key_averages()}
    addmm, linear, kernel = rows["aten::addmm", "CPU"], rows["aten::linear", "CPU"], rows["sgemm", "CUDA"]
    assert (addmm.self_device_time_total, linear.self_device_time_total) == (30, 0)
    assert (addmm.device_time_total, linear.device_time_total, rows["step", "CPU"].device_time_total) == (30, 30, 34)
    assert (kernel.self_device_time_total, kernel.self_cpu_time_total, kernel.cpu_time_total) == (30, 0, 0)
    assert addmm.self_cpu_time_total == 35
    table = back.key_averages().table(sort_by="self_cuda_time_total")
    assert "Self CUDA time total: 34.000us" in table
    event = next(event for event in back.events() if event.name == "aten::addmm")
    assert [tuple(work) for work in event.kernels] == [("sgemm", 0, 30)]
    assert back.events().key_averages().table() == back.key_averages().table()


def test_a_loaded_trace_makes_a_report(tmp_path: Path) -> None:
    back = load(write_json(tmp_path / "gpu.json", gpu_trace()))
    back.report(tmp_path / "a.html", before=back, title="GPU")
    assert "<title>GPU" in (tmp_path / "a.html").read_text()
    assert back.report() is not None


def test_gpu_rows_survive_another_export(tmp_path: Path) -> None:
    load(write_json(tmp_path / "a.json", gpu_trace())).export(tmp_path / "b.json")
    back = load(tmp_path / "b.json")
    kernel = next(event for event in back.events() if event.name == "sgemm")
    assert (kernel.device_type.name, kernel.device_index, kernel.device_resource_id) == ("CUDA", 0, 7)
    assert kernel.kwinputs["correlation"] == 77
    assert {row.key: row.self_device_time_total for row in back.key_averages()}["aten::addmm"] == 30


def arrows(path: Path) -> list[tuple[Any, ...]]:
    events = json.loads(path.read_text())["traceEvents"]
    found = [event for event in events if event["ph"] in "stf"]
    return sorted((e["cat"], e["ph"], e["id"], e["pid"], e["tid"], e["ts"], e.get("bp")) for e in found)


def test_arrows_to_a_gpu_survive_another_export(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"traceEvents": gpu_trace()})
    back = load(tmp_path / "a.json")
    back.export_chrome_trace(tmp_path / "b.json")
    expected = [("ac2g", "f", 77, 0, 7, 130.0, "e"), ("ac2g", "s", 77, 9, 9, 120.0, None)]
    assert arrows(tmp_path / "a.json") == arrows(tmp_path / "b.json") == expected
    back.export(tmp_path / "b.pftrace")
    assert list(Perfetto(tmp_path / "b.pftrace").flows.values()) == [["cudaLaunchKernel", "sgemm"]]


def test_arrows_of_merged_traces_stay_apart(tmp_path: Path) -> None:
    one = load(write_json(tmp_path / "a.json", {"traceEvents": gpu_trace()}))
    Trace.of(merge([one, one], ["first", "second"], align="start")).export(tmp_path / "b.json")
    found = arrows(tmp_path / "b.json")
    assert len({number for _, _, number, *_ in found}) == 2
    assert [sort for _, sort, *_ in found] == ["f", "f", "s", "s"]


def test_arrows_that_a_file_tells_apart_by_texts(tmp_path: Path) -> None:
    ends = [
        {"ph": sort, "cat": "dataflow", "name": "n", "id": f"0x{number}", "pid": 1, "tid": 1, "ts": 1.5}
        for number in (1, 2)
        for sort in "stf"
    ]
    load(write_json(tmp_path / "a.json", [EVENT, *ends])).export(tmp_path / "b.json")
    found = arrows(tmp_path / "b.json")
    assert len({number for _, _, number, *_ in found}) == 2
    assert [(category, sort) for category, sort, *_ in found] == [("dataflow", sort) for sort in "ffsstt"]


def test_memory_of_a_gpu_is_counted_apart(tmp_path: Path) -> None:
    def memory(ts: float, nbytes: int, device: int) -> dict[str, Any]:
        args = {
            "Bytes": nbytes,
            "Addr": 64,
            "Device Id": 0,
            "Device Type": device,
            "Total Allocated": 9,
            "Total Reserved": 10,
        }
        return {"ph": "i", "name": "[memory]", "pid": 9, "tid": 9, "ts": ts, "args": args}

    events = [*gpu_trace(), memory(112.0, 100, 1), memory(116.0, 1024, 1), memory(117.0, 7, 0), memory(150.0, -24, 1)]
    first = load(write_json(tmp_path / "a.json", events))
    first.export(tmp_path / "b.json")
    for back in (first, load(tmp_path / "b.json")):
        rows = {row.key: row for row in back.key_averages() if row.device_type.name == "CPU"}
        addmm, linear = rows["aten::addmm"], rows["aten::linear"]
        assert (addmm.device_memory_usage, addmm.cpu_memory_usage) == (1000, 7)
        assert (linear.device_memory_usage, linear.self_device_memory_usage) == (1100, 100)
        assert "Self CUDA Mem" in back.key_averages().table()
        assert back.events().key_averages().table() == back.key_averages().table()


def test_regions_given_by_their_ends(tmp_path: Path) -> None:
    ends = [
        {"ph": "B", "cat": "cpu_op", "name": "outer", "pid": 1, "tid": 1, "ts": 1},
        {"ph": "b", "cat": "cpu_op", "name": "crossing", "id": "x", "pid": 1, "tid": 1, "ts": 2},
        {"ph": "E", "pid": 1, "tid": 1, "ts": 5},
        {"ph": "e", "cat": "cpu_op", "name": "crossing", "id": "x", "pid": 1, "tid": 1, "ts": 9},
        {"ph": "B", "cat": "cpu_op", "name": "endless", "pid": 1, "tid": 1, "ts": 10},
    ]
    back = load(write_json(tmp_path / "a.json", ends))
    assert {event.name: event.time_range.elapsed_us() for event in back.events()} == {"outer": 4, "crossing": 7}
    assert back.notes == ["1 regions had no end and are left out"]


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("", 0, "begins with"),
        ("hello", 0, "begins with"),
        ('{"a": 1}', 8, "traceEvents"),
        ('{"traceEvents": [{"ph": "X"', 27, "cut short"),
        ('{"traceEvents": [{"ph": "X"}]}', 17, "'ts'"),
        ('{"traceEvents": [3]}', 17, "no sense"),
        ('{"traceEvents": []} x', 20, "more text"),
        ('{"traceEvents": [' + "[" * 200_000, 17, "too deeply"),
        ('{"traceEvents": [' + json.dumps({**EVENT, "ts": float("nan")}) + "]}", 17, "microseconds"),
        ('{"traceEvents": [' + json.dumps({**EVENT, "ts": 1e300}) + "]}", 17, "out of range"),
        ('{"traceEvents": [' + json.dumps({**EVENT, "name": 5}) + "]}", 17, "expected a text"),
        ('{"traceEvents": [' + json.dumps({**EVENT, "tid": [1]}) + "]}", 17, "as pid and tid"),
        ('{"a": ' + "9" * 5000 + "}", 6, "digits"),
        (f"[{json.dumps(EVENT)},]", 106, "expected a value"),
        ("[" + json.dumps({**EVENT, "ts": 10**400}) + "]", 1, "out of range"),
        ("[" + json.dumps({**EVENT, "pid": 10**30}) + "]", 1, "62 bits"),
        ("[" + json.dumps({**EVENT, "args": [1]}) + "]", 1, "expected an object"),
        ('{"a": ' + "[" * 300 + "]" * 300 + "}", 6, "too deeply"),
    ],
)
def test_what_is_no_trace_is_refused_with_the_place(tmp_path: Path, text: str, position: int, reason: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(TraceError, match=reason) as caught:
        load(path)
    assert caught.value.position == position
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf[" + json.dumps(EVENT).encode() + b"]",
        json.dumps({"traceEvents": [EVENT], "a": 1}).encode().replace(b'"a": 1', b'"a": 1, "a": 2'),
        gzip.compress(json.dumps([EVENT]).encode(), mtime=0),
        gzip.compress(b"[", mtime=0) + gzip.compress(json.dumps(EVENT).encode() + b"]", mtime=0),
        json.dumps([{**EVENT, "args": {"x": float("nan"), "Sequence number": 10**30, "External id": -1}}]).encode(),
        json.dumps(
            [{**EVENT, "args": {"Input Dims": [[1, [2]], {}], "Input type": 5, "Concrete Inputs": "x"}}]
        ).encode(),
        json.dumps([{key: EVENT[key] for key in ("ph", "name", "ts", "dur")}]).encode(),
        json.dumps([{**EVENT, "pid": "host", "tid": "main", "args": None}]).encode(),
    ],
)
def test_odd_but_readable_files_are_read_and_written_again(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    back = load(tmp_path / "a.txt")
    assert [event.name for event in back.events()] == ["aten::add"]
    for suffix in (".json", ".pftrace", ".csv", ".speedscope.json"):
        back.export(tmp_path / f"b{suffix}")
    assert [event.name for event in load(tmp_path / "b.json").events()] == ["aten::add"]


def test_a_damaged_gzip_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": [EVENT] * 1000}).encode())[:-20])
    with pytest.raises(TraceError, match="cut short"):
        load(path)


def test_a_small_file_cannot_ask_for_much_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonstream, "_LARGEST", 1 << 19)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b'{"a": "' + b"a" * (1 << 23) + b'", "traceEvents": []}'))
    assert path.stat().st_size < 1 << 14
    with pytest.raises(TraceError, match="a single value of more than 524288 characters"):
        load(path)


def test_a_file_that_unpacks_to_far_more_than_itself_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonstream, "_SURELY_FINE", 1 << 10)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(json.dumps([EVENT] * 30_000).encode()))
    with pytest.raises(TraceError, match="more than 200 times its size"):
        load(path)


def test_too_many_threads_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "_MOST_LANES", 3)
    events = [{**EVENT, "tid": tid} for tid in range(5)]
    with pytest.raises(TraceError, match="more than 3 threads"):
        load(write_json(tmp_path / "a.json", events))


def test_bytes_that_are_no_text_between_values_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bytes.json"
    path.write_bytes(b'{"traceEvents": [\xff\xfe]}')
    with pytest.raises(TraceError, match="UTF-8"):
        load(path)


def test_the_line_of_an_error_is_told(tmp_path: Path) -> None:
    path = tmp_path / "lines.json"
    path.write_text('{\n"traceEvents": [\n' + json.dumps(EVENT) + ",\n" + '{"ph": "X", "ts": "soon"}\n]}')
    with pytest.raises(TraceError, match="line 4"):
        load(path)


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.json")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)


def test_allocations_that_no_number_can_sum_up_are_refused(tmp_path: Path) -> None:
    mark = {"ph": "i", "s": "t", "name": "[memory]", "cat": "cpu_instant_event", "pid": 1, "tid": 1, "ts": 1}
    events = [mark | {"args": {"Bytes": 1 << 61, "Addr": address}} for address in range(2)]
    with pytest.raises(ValueError, match=r"allocations and frees of 4.61e\+18 bytes in all"):
        load(write_json(tmp_path / "a.json", events))
    assert [track.nbytes.tolist() for track in load(write_json(tmp_path / "b.json", events[:1])).tracks] == [[1 << 61]]
