"""What a report is told of devices."""

import json
from pathlib import Path
from typing import Any

from device_runs import device_run
from device_traces import DeviceTrace, training_step
from mindtorch_v2.profiler import load
from mindtorch_v2.profiler.report.digest import Digest
from mindtorch_v2.profiler.report.pack import unpack


def packed(trace: DeviceTrace, path: Path) -> tuple[dict[str, Any], Any]:
    return unpack(Digest(load(trace.write(path / "trace.json"))).packed("a run"))


def test_the_page_is_told_what_limits_the_run(tmp_path: Path) -> None:
    header, _ = packed(device_run(), tmp_path)
    devices = header["devices"]
    assert devices["cause"] == "host"
    assert devices["answer"].startswith("The host limits the run")
    assert devices["kernels"][0]["name"].startswith("nccl")
    assert devices["roofline"][0]["rows"]


def test_a_run_without_devices_has_no_such_view(tmp_path: Path) -> None:
    trace = DeviceTrace()
    trace.op("aten::mul", 0.0, 10.0)
    assert packed(trace, tmp_path)[0]["devices"] is None


def test_arrows_lead_from_launches_to_their_work(tmp_path: Path) -> None:
    header, columns = packed(training_step(), tmp_path)
    names = [header["kinds"][header["calls"][call][0]][0] for call in columns["call"].tolist()]
    arrows = [(names[a], names[b]) for a, b in zip(columns["launch"].tolist(), columns["launched"].tolist())]
    assert ("cudaMemcpyAsync", "Memcpy HtoD (Pageable -> Device)") in arrows
    assert ("cudaGraphLaunch", "two") in arrows
    assert all(name != "early" for _, name in arrows)


def test_series_tell_use_queues_and_memory_over_time(tmp_path: Path) -> None:
    devices = packed(training_step(), tmp_path)[0]["devices"]
    use, queue, memory = devices["series"]
    assert [line["name"] for line in use["lines"]] == ["compute", "communication", "copies"]
    assert all(0 <= value <= 1 for line in use["lines"] for _, value in line["points"])
    step = use["lines"][0]["points"][1][0]
    # Shares times the length of a part are the time in use.
    assert abs(sum(value for _, value in use["lines"][0]["points"]) * step - 70_000) < 500
    assert max(length for _, length in queue["lines"][0]["points"]) == 2
    assert [value for _, value in memory["lines"][0]["points"]] == [1152, 1024]


def test_names_that_read_backwards_are_straightened(tmp_path: Path) -> None:
    trace = DeviceTrace()
    trace.launch("kernel", "\u202egnp.exe", 1.0, 5.0, 2.0, trace.op("evil\u202e", 0.0, 9.0))
    text = json.dumps(packed(trace, tmp_path)[0]["devices"])
    assert "\\u202e" not in text
    assert "gnp.exe" in text
