"""What is said of devices, and what is not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from device_runs import device_run
from device_traces import DeviceTrace
from mindtorch_v2.profiler import load
from mindtorch_v2.profiler.advise.findings import Finding
from mindtorch_v2.profiler.advise.rules import advise

RULES = {
    "late_launches",
    "device_waits",
    "pageable_copies",
    "small_kernels",
    "exposed_communication",
    "device_casts",
}


def said_of(trace: DeviceTrace, path: Path) -> dict[str, Finding]:
    found = advise(load(trace.write(path / "trace.json")))
    return {finding.rule: finding for finding in found if finding.rule in RULES}


def busy(trace: DeviceTrace, launches: int = 200, length: float = 100.0, call: float = 2.0) -> DeviceTrace:
    """Kernels one after the other, launched well ahead."""
    for number in range(launches):
        op = trace.op("aten::mm", number * 10.0, 8.0)
        correlation = trace.call("cudaLaunchKernel", number * 10.0 + 1, call, op)
        trace.work("kernel", "gemm", 50.0 + number * length, length, correlation, op)
    return trace


def test_a_run_that_keeps_its_device_busy_has_nothing_to_be_told(tmp_path: Path) -> None:
    assert said_of(busy(DeviceTrace()), tmp_path) == {}


def test_late_launches_name_the_ops_after_the_gaps(tmp_path: Path) -> None:
    found = said_of(device_run(), tmp_path)["late_launches"]
    assert (found.level, found.time_ns) == ("high", 6_020_000)
    assert "41% of the device's time" in found.title


def test_waiting_for_the_device_counts_the_idle_time_after_it(tmp_path: Path) -> None:
    found = said_of(device_run(), tmp_path)["device_waits"]
    assert found.title.startswith("4 calls wait for the device")
    assert found.time_ns == 2_616_000


def test_waiting_that_leaves_the_device_busy_costs_nothing(tmp_path: Path) -> None:
    trace = busy(DeviceTrace())
    trace.call("cudaStreamSynchronize", 2001.0, 18_060.0)
    assert said_of(trace, tmp_path) == {}


def pageable(trace: DeviceTrace) -> None:
    trace.launch(
        "copy", "Memcpy HtoD (Pageable -> Device)", 2010.0, 20_050.0, 500.0, trace.op("aten::copy_", 2005.0, 20.0)
    )


def pinned(trace: DeviceTrace) -> None:
    trace.launch(
        "copy", "Memcpy HtoD (Pinned -> Device)", 2010.0, 20_050.0, 500.0, trace.op("aten::copy_", 2005.0, 20.0)
    )


def exposed(trace: DeviceTrace) -> None:
    op = trace.op("c10d::allreduce_", 2005.0, 20.0)
    trace.launch("kernel", "ncclDevKernel_AllReduce", 2010.0, 20_050.0, 800.0, op, stream=20)


def hidden(trace: DeviceTrace) -> None:
    op = trace.op("c10d::allreduce_", 2005.0, 20.0)
    trace.launch("kernel", "ncclDevKernel_AllReduce", 2010.0, 10_000.0, 800.0, op, stream=20)


def cast(trace: DeviceTrace) -> None:
    trace.op("aten::to", 2000.0, 30.0)
    trace.op("aten::_to_copy", 2002.0, 26.0)
    trace.launch("kernel", "copy_kernel", 2010.0, 20_050.0, 500.0, trace.op("aten::copy_", 2005.0, 20.0))


def moved(trace: DeviceTrace) -> None:
    """From the host to the device, which is no cast."""
    trace.op("aten::to", 2000.0, 30.0)
    trace.op("aten::_to_copy", 2002.0, 26.0)
    pinned(trace)


@pytest.mark.parametrize(
    ("more", "rules"),
    [
        (pageable, {"pageable_copies"}),
        (pinned, set()),
        (exposed, {"exposed_communication"}),
        (hidden, set()),
        (cast, {"device_casts"}),
        (moved, set()),
    ],
)
def test_what_is_said_and_what_is_not(more: Callable[[DeviceTrace], None], rules: set[str], tmp_path: Path) -> None:
    trace = busy(DeviceTrace())
    more(trace)
    assert set(said_of(trace, tmp_path)) == rules


def test_small_kernels_are_told_where_the_device_waits_for_them(tmp_path: Path) -> None:
    trace = DeviceTrace()
    for number in range(200):
        op = trace.op("aten::add", number * 10.0, 8.0)
        correlation = trace.call("cudaLaunchKernel", number * 10.0 + 1, 5.0, op)
        trace.work("kernel", "add", number * 10.0 + 7, 1.0, correlation, op)
    found = said_of(trace, tmp_path)
    assert set(found) == {"late_launches", "small_kernels"}
    assert found["small_kernels"].title == "200 of 200 kernels take less time than launching them"


def test_small_kernels_of_a_busy_device_cost_nothing(tmp_path: Path) -> None:
    assert said_of(busy(DeviceTrace(), length=4.0, call=6.0), tmp_path).keys() <= {"late_launches", "small_kernels"}
    trace = DeviceTrace()
    for number in range(200):
        op = trace.op("aten::add", number * 10.0, 8.0)
        correlation = trace.call("cudaLaunchKernel", number * 10.0 + 1, 8.0, op)
        trace.work("kernel", "add", 3000.0 + number * 5.0, 5.0, correlation, op)
    assert said_of(trace, tmp_path) == {}


def test_copies_to_a_device_are_neither_casts_nor_clones(tmp_path: Path) -> None:
    trace = busy(DeviceTrace(), launches=20)
    for number in range(20):
        at = 1000.0 + number * 100
        trace.op("aten::to", at, 90.0)
        trace.op("aten::_to_copy", at + 1, 88.0)
        op = trace.op("aten::copy_", at + 2, 80.0)
        trace.launch("copy", "Memcpy HtoD (Pinned -> Device)", at + 5, at + 8, 60.0, op)
    rules = {finding.rule for finding in advise(load(trace.write(tmp_path / "trace.json")))}
    assert not rules & {"casts", "copies"}


def test_the_host_can_save_no_more_than_the_time_its_device_is_idle(tmp_path: Path) -> None:
    trace = busy(DeviceTrace(), launches=20)
    for number in range(20):
        trace.op("aten::item", 300.0 + number * 80, 70.0)
    found = {finding.rule: finding for finding in advise(load(trace.write(tmp_path / "trace.json")))}
    assert "reads" not in found
