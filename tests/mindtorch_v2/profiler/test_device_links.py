"""Work of devices is tied to launches, ops, regions and forward ops, whoever wrote the trace."""

from pathlib import Path

import numpy as np
import pytest

from device_traces import BACKWARD_THREAD, DeviceTrace, training_step
from mindtorch_v2.profiler import load
from mindtorch_v2.profiler.analyse.device_links import ANNOTATION, COPY, KERNEL, SET, DeviceLinks
from mindtorch_v2.profiler.analyse.merge import merge
from mindtorch_v2.profiler.analyse.metrics import Metrics
from mindtorch_v2.profiler.analyse.tree import climb

VENDORS = ["cuda", "rocm", "xpu", "privateuse1", "mtia"]
ASKED = {
    "early": None,
    "gemm": "aten::addmm",
    "gemm_t": "aten::mm",
    "Memset (Device)": "aten::mm",
    "one": None,
    "two": None,
}


def read(trace: DeviceTrace, path: Path) -> tuple[Metrics, DeviceLinks]:
    metrics = Metrics(load(trace.write(path / "a.json")))
    return metrics, metrics.links


def names(metrics: Metrics, rows: np.ndarray) -> list[str | None]:
    return [metrics.kind_of(int(metrics.kind[row])).name if row >= 0 else None for row in rows.tolist()]


@pytest.mark.parametrize("external_ids", [True, False])
@pytest.mark.parametrize("vendor", VENDORS)
def test_every_piece_of_work_finds_its_op(tmp_path: Path, vendor: str, external_ids: bool) -> None:
    metrics, links = read(training_step(vendor, external_ids), tmp_path)
    work = np.flatnonzero(links.is_work)
    found = dict(zip(names(metrics, work), names(metrics, links.op[work])))
    assert {name: found[name] for name in ASKED} == ASKED
    assert len(work) == 8
    assert links.unattributed_ns(metrics.total_ns) == 15_000
    assert metrics.use_device == {"rocm": "cuda", "privateuse1": "privateuseone"}.get(vendor, vendor)


@pytest.mark.parametrize("vendor", VENDORS)
def test_backward_work_leads_to_the_forward_op(tmp_path: Path, vendor: str) -> None:
    metrics, links = read(training_step(vendor), tmp_path)
    forward = dict(zip(names(metrics, np.arange(len(metrics))), names(metrics, links.forward)))
    assert (forward["gemm_t"], forward["Memset (Device)"], forward["gemm"]) == ("aten::addmm", "aten::addmm", None)


def test_a_graph_is_one_launch_of_many_kernels_in_a_region(tmp_path: Path) -> None:
    metrics, links = read(training_step(), tmp_path)
    rows = [row for row, name in enumerate(names(metrics, np.arange(len(metrics)))) if name in ("one", "two")]
    assert names(metrics, links.launch[rows]) == ["cudaGraphLaunch"] * 2
    assert names(metrics, links.annotation[rows]) == names(metrics, links.asked[rows]) == ["ProfilerStep#1"] * 2


def test_rows_of_devices_tell_where_they_ran_and_what_they_are(tmp_path: Path) -> None:
    metrics, links = read(training_step(), tmp_path)
    device = np.flatnonzero(metrics.is_device)
    assert links.sort[device].tolist().count(KERNEL) == 6
    assert [links.sort[device].tolist().count(sort) for sort in (COPY, SET, ANNOTATION)] == [1, 1, 1]
    assert set(links.device[device].tolist()) == {0}
    assert set(links.stream[device].tolist()) == {7, 20}
    assert (links.stream[~metrics.is_device] == -1).all()


def test_the_correlation_id_in_place_of_an_ops_id_is_no_op(tmp_path: Path) -> None:
    """An op may well have the number by chance."""
    trace = DeviceTrace(external_ids=False, _last_correlation=1)
    trace.op("aten::mm", 0.0, 10.0)
    trace.op("aten::add", 20.0, 5.0)
    trace.launch("kernel", "gemm", 1.0, 3.0, 4.0)
    metrics, links = read(trace, tmp_path)
    assert names(metrics, links.op[links.is_work]) == ["aten::mm"]


def test_work_of_an_echo_belongs_to_the_op_that_is_shown(tmp_path: Path) -> None:
    trace = DeviceTrace()
    trace.op("aten::mm", 0.0, 10.0)
    inner = trace.op("aten::mm", 1.0, 8.0)
    trace.launch("kernel", "gemm", 2.0, 12.0, 4.0, inner)
    metrics, links = read(trace, tmp_path)
    assert len(metrics) == 3
    (op,) = links.op[links.is_work].tolist()
    assert (names(metrics, np.array([op])), int(metrics.total_ns[op])) == (["aten::mm"], 10_000)


def test_ops_of_other_threads_do_not_ask(tmp_path: Path) -> None:
    trace = DeviceTrace()
    trace.op("aten::mm", 0.0, 10.0, BACKWARD_THREAD)
    trace.launch("kernel", "gemm", 2.0, 12.0, 4.0)
    _, links = read(trace, tmp_path)
    assert links.op[links.is_work].tolist() == [-1]


def test_ranks_with_the_same_numbers_stay_apart(tmp_path: Path) -> None:
    captures = [load(training_step().write(tmp_path / f"{rank}.json")) for rank in range(2)]
    metrics = Metrics(merge(captures, ["rank 0", "rank 1"]))
    links = metrics.links
    work = np.flatnonzero(links.is_work & (links.op >= 0))
    pids = np.array([track.pid for track in metrics.capture.tracks])[metrics.track]
    assert len(work) == 10
    assert (pids[work] == pids[links.op[work]]).all()


def test_the_way_up_is_found_by_halving() -> None:
    # A chain of a thousand events, each ending one later than the one inside.
    parent, end = np.arange(-1, 999), 2000 - np.arange(1000)
    time = np.array([0, 1001, 1500, 2000, 2001])
    assert climb(parent, end, np.full(5, 999), time).tolist() == [999, 999, 500, 0, -1]
