"""The formats a capture is written in, each decoded again by a few lines that know its published schema only."""

import csv
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.profiler import export, load, profile, record_function
from mindtorch_v2.profiler.api.trace import Trace
from protobuf_files import Perfetto, grouped, varint

MAIN, OTHER = 70, 71


def x(name: str, start: float, length: float, tid: int = MAIN, cat: str = "cpu_op", **args: Any) -> dict[str, Any]:
    args = {key.replace("_", " "): value for key, value in args.items()}
    return {"ph": "X", "cat": cat, "name": name, "pid": MAIN, "tid": tid, "ts": start, "dur": length, "args": args}


def memory(time: float, nbytes: int, address: int) -> dict[str, Any]:
    args = {"Bytes": nbytes, "Addr": address, "Device Type": 0}
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": MAIN,
        "tid": MAIN,
        "ts": time,
        "args": args,
    }


EVENTS = [
    x("train.py(3): step", 0, 100, cat="python_function"),
    x("aten::linear", 10, 40, External_id=1, Sequence_number=5, Fwd_thread_id=0),
    x("aten::addmm", 20, 10, External_id=2, Sequence_number=5, Fwd_thread_id=0, **{"Input Dims": [[2, 3]]}),
    x("aten::addmm", 30, 5, External_id=3),
    x("autograd::engine::evaluate_function: AddmmBackward0", 60, 30, OTHER, External_id=4, Sequence_number=5),
    x("AddmmBackward0", 60, 20, OTHER, External_id=5, Sequence_number=5, Fwd_thread_id=1),
    memory(25, 64, 4096),
    memory(45, -64, 4096),
]


def trace(tmp_path: Path, events: list[dict[str, Any]] = EVENTS) -> Trace:
    path = tmp_path / "source.json"
    path.write_text(json.dumps({"baseTimeNanoseconds": 1_000_000_000, "traceEvents": events}))
    return load(path)


def test_a_suffix_nobody_knows_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'.*run\.xyz' from its name: end it with one of .*\.json, .*\.pftrace"):
        export.write(trace(tmp_path), tmp_path / "run.xyz")


def test_the_longest_suffix_decides() -> None:
    assert export.format_of("a.speedscope.json").title.startswith("speedscope")
    assert export.format_of(Path("A.JSON.GZ")).title.startswith("Chrome")


def test_a_profile_exports_itself(tmp_path: Path) -> None:
    with profile() as prof, record_function("region"):
        pass
    prof.add_metadata("who", "me")
    prof.export(tmp_path / "a.json")
    prof.export(tmp_path / "a.csv")
    assert load(tmp_path / "a.json").metadata["who"] == "me"
    assert "region" in (tmp_path / "a.csv").read_text()


@pytest.mark.parametrize("suffix", [suffix for suffix in export.FORMATS if suffix != ".parquet"])
def test_every_format_writes_an_empty_recording(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"empty{suffix}"
    trace(tmp_path, []).export(path)
    assert path.exists()


# Perfetto


def test_perfetto_slices_nest_as_they_ran(tmp_path: Path) -> None:
    trace(tmp_path).export(tmp_path / "a.pftrace")
    found = Perfetto(tmp_path / "a.pftrace")
    slices = sorted((name, start - 1_000_000_000, length, depth) for _, name, start, length, depth in found.slices)
    assert slices == sorted(
        [
            ("train.py(3): step", 0, 100_000, 0),
            ("aten::linear", 10_000, 40_000, 1),
            ("aten::addmm", 20_000, 10_000, 2),
            ("aten::addmm", 30_000, 5_000, 2),
            ("autograd::engine::evaluate_function: AddmmBackward0", 60_000, 30_000, 0),
            ("AddmmBackward0", 60_000, 20_000, 1),
            ("PyTorch Profiler (0)", 0, 100_000, 0),
        ]
    )
    threads = {name: track for track, name, *_ in found.slices}
    assert threads["AddmmBackward0"] != threads["aten::linear"] == threads["train.py(3): step"]


def test_perfetto_has_arguments_flows_and_memory(tmp_path: Path) -> None:
    trace(tmp_path).export(tmp_path / "a.pftrace")
    found = Perfetto(tmp_path / "a.pftrace")
    assert found.arguments["aten::linear"] == {"External id": 1, "Sequence number": 5, "Fwd thread id": 0}
    assert found.arguments["AddmmBackward0"]["Fwd thread id"] == 1
    assert list(found.flows.values()) == [["aten::addmm", "AddmmBackward0"]]
    assert found.counts == [(1_000_025_000, 64), (1_000_045_000, 0)]
    assert found.instants[:2] == [("[memory]", 1_000_025_000), ("[memory]", 1_000_045_000)]


def test_perfetto_gives_crossing_slices_tracks_of_their_own(tmp_path: Path) -> None:
    trace(tmp_path, [x("first", 0, 10), x("second", 5, 10)]).export(tmp_path / "a.pftrace")
    slices = {name: (track, depth) for track, name, _, _, depth in Perfetto(tmp_path / "a.pftrace").slices}
    assert slices["first"][0] != slices["second"][0]
    assert slices["first"][1] == slices["second"][1] == 0


def test_perfetto_keeps_the_times_of_many_crossing_slices(tmp_path: Path) -> None:
    trace(tmp_path, [x(f"op{i}", 3 * i, 10) for i in range(40)]).export(tmp_path / "a.pftrace")
    slices = Perfetto(tmp_path / "a.pftrace").slices
    assert {name: length for _, name, _, length, _ in slices if name.startswith("op")} == {
        f"op{i}": 10_000 for i in range(40)
    }
    starts = sorted((int(name[2:]), start) for _, name, start, _, _ in slices if name.startswith("op"))
    assert [start - starts[0][1] for _, start in starts] == [3000 * i for i in range(40)]


# Flame graphs


def test_speedscope_weighs_paths_by_their_own_time(tmp_path: Path) -> None:
    trace(tmp_path).export(tmp_path / "a.speedscope.json")
    document = json.loads((tmp_path / "a.speedscope.json").read_text())
    frames = document["shared"]["frames"]
    assert frames[0] == {"name": "step", "file": "train.py", "line": 3}
    first, second = document["profiles"]
    weights = {
        tuple(frames[place]["name"] for place in sample): weight
        for sample, weight in zip(first["samples"], first["weights"])
    }
    assert weights == {
        ("step",): 60_000,
        ("step", "aten::linear"): 25_000,
        ("step", "aten::linear", "aten::addmm"): 15_000,
    }
    assert (first["endValue"], second["endValue"]) == (100_000, 30_000)


def test_collapsed_stacks_have_a_line_for_each_path(tmp_path: Path) -> None:
    trace(tmp_path).export(tmp_path / "a.collapsed")
    assert (tmp_path / "a.collapsed").read_text().splitlines()[:3] == [
        "train.py(3):_step 60",
        "train.py(3):_step;aten::linear 25",
        "train.py(3):_step;aten::linear;aten::addmm 15",
    ]


def test_recorded_stacks_stand_before_events_without_python_functions(tmp_path: Path) -> None:
    stack = {"Call stack": "b.py(2): inner;a.py(1): outer;"}
    trace(tmp_path, [x("aten::add", 0, 4, **stack), x("aten::empty", 1, 2, **stack)]).export(tmp_path / "a.folded")
    assert (tmp_path / "a.folded").read_text().splitlines() == [
        "a.py(1):_outer;b.py(2):_inner;aten::add 2",
        "a.py(1):_outer;b.py(2):_inner;aten::add;aten::empty 2",
    ]


def test_pprof_has_paths_with_time_counts_and_bytes(tmp_path: Path) -> None:
    trace(tmp_path).export(tmp_path / "a.pb.gz")
    profile = grouped(gzip.decompress((tmp_path / "a.pb.gz").read_bytes()))
    strings = [value.decode() for value in profile[6]]
    assert strings[0] == ""
    types = [grouped(data) for data in profile[1]]
    assert [strings[entry[1][0]] for entry in types] == ["samples", "cpu", "alloc_space"]
    names = {entry[1][0]: strings[entry[2][0]] for entry in map(grouped, profile[5])}
    places = {entry[1][0]: names[grouped(entry[4][0])[1][0]] for entry in map(grouped, profile[4])}
    samples = {}
    for entry in map(grouped, profile[2]):
        path, values = (list(numbers(entry[field][0])) for field in (1, 2))
        samples[tuple(places[place] for place in path)] = values
    assert samples["aten::addmm", "aten::linear", "step"] == [2, 15_000, 64]
    assert samples["step",] == [1, 60_000, 0]


def numbers(data: bytes) -> Iterator[int]:
    place = 0
    while place < len(data):
        value, place = varint(data, place)
        yield value


def test_times_of_every_format_add_up_to_the_averages(tmp_path: Path) -> None:
    """A recorded program: what each op took by itself, from the leaves of the flame graphs and from the rows."""
    x = torch.ones((3, 3), requires_grad=True)
    with profile() as prof:
        for _ in range(5):
            (x @ x).relu().sum().backward()
    for suffix in (".speedscope.json", ".pb.gz", ".csv"):
        prof.export(tmp_path / f"run{suffix}")
    expected = Counter({row.key: round(row.self_cpu_time_total * 1000) for row in prof.key_averages()})
    document = json.loads((tmp_path / "run.speedscope.json").read_text())
    frames, shown = document["shared"]["frames"], Counter[str]()
    for part in document["profiles"]:
        for sample, weight in zip(part["samples"], part["weights"]):
            shown[frames[sample[-1]]["name"]] += weight
    assert shown == expected
    pprof = grouped(gzip.decompress((tmp_path / "run.pb.gz").read_bytes()))
    strings = [value.decode() for value in pprof[6]]
    functions = {entry[1][0]: strings[entry[2][0]] for entry in map(grouped, pprof[5])}
    found = Counter[str]()
    for entry in map(grouped, pprof[2]):
        place, (_, cpu, _) = next(numbers(entry[1][0])), numbers(entry[2][0])
        found[functions[place]] += cpu
    assert found == expected
    rows = Counter[str]()
    with open(tmp_path / "run.csv", newline="") as file:
        for row in csv.DictReader(file):
            rows[row["name"]] += round(float(row["self_cpu_time_total"]) * 1000)
    assert rows == expected


# Tables


def test_csv_holds_what_the_event_list_holds(tmp_path: Path) -> None:
    source = trace(tmp_path)
    source.export(tmp_path / "a.csv")
    with open(tmp_path / "a.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [event.name for event in source.events()]
    for name in ("self_cpu_time_total", "cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage"):
        assert [float(row[name]) for row in rows] == [getattr(event, name) for event in source.events()]
    assert next(row["input_shapes"] for row in rows if row["input_shapes"]) == "[[2, 3]]"


def test_parquet_holds_the_same_columns_as_csv(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    source = trace(tmp_path)
    source.export(tmp_path / "a.parquet")
    table = parquet.read_table(tmp_path / "a.parquet").to_pydict()
    assert table["name"] == [event.name for event in source.events()]
    assert table["self_cpu_time_total"] == [event.self_cpu_time_total for event in source.events()]
