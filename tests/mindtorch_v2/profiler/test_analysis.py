"""Analyses of devices, on traces whose figures are worked out by hand; times are microseconds."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from device_traces import DeviceTrace, training_step
from mindtorch_v2.profiler import load
from mindtorch_v2.profiler.analyse.devices.analysis import Analysis, joined
from mindtorch_v2.profiler.analyse.devices.intervals import Stretches, covered_within, gaps, shared, union
from mindtorch_v2.profiler.analyse.devices.kernels import family_of
from mindtorch_v2.profiler.analyse.devices.peaks import TABLE, peak_of


def analysed(trace: DeviceTrace, path: Path, **options: Any) -> Analysis:
    return load(trace.write(path / "trace.json")).analyze(**options)


def found_in(trace: DeviceTrace, path: Path, **options: Any) -> dict[str, Any]:
    return analysed(trace, path, **options).as_dict()


def by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in rows}


def random_stretches(seed: int, count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    start = random.integers(0, 200, count)
    return start, start + random.integers(0, 6, count)


# Sets of stretches


@pytest.mark.parametrize("seed", range(5))
def test_unions_gaps_and_intersections_are_those_of_single_moments(seed: int) -> None:
    one, other = (union(*random_stretches(seed + more)) for more in (0, 100))
    moments = [np.zeros(220, bool), np.zeros(220, bool)]
    for moment, first in zip(moments, (seed, seed + 100)):
        for begin, end in zip(*random_stretches(first)):
            moment[begin:end] = True
    assert one.length == moments[0].sum()
    assert shared(one, other) == (moments[0] & moments[1]).sum()
    assert gaps(one).length == one.end[-1] - one.start[0] - one.length
    within = covered_within(one, np.array([50]), np.array([120]))
    assert within.tolist() == [moments[0][50:120].sum()]


def test_a_union_of_nothing_is_nothing() -> None:
    nothing = np.zeros(0, np.int64)
    assert union(nothing, nothing).length == gaps(union(nothing, nothing)).length == 0
    assert shared(Stretches(nothing, nothing), union(np.array([1]), np.array([2]))) == 0


# Devices and streams


def test_a_device_is_busy_for_the_union_of_what_runs_there(tmp_path: Path) -> None:
    # The all-reduce from 230 to 270 runs beside the kernel that ends at 245.
    assert found_in(training_step(), tmp_path)["devices"] == [
        {"device": 0, "name": "NVIDIA H100", "span_us": 232.0, "busy_us": 116.0, "idle_us": 116.0, "compute_us": 70.0,
         "communication_us": 40.0, "copy_us": 21.0, "overlap_us": 15.0}
    ]  # fmt: skip


def test_idle_streams_wait_for_the_host_for_the_next_kernel_or_for_something_else(tmp_path: Path) -> None:
    trace = DeviceTrace()
    op = trace.op("aten::mul", 0.0, 200.0)
    for at, start in ((5.0, 10.0), (10.0, 22.0), (33.0, 40.0), (60.0, 100.0), (95.0, 135.0)):
        trace.launch("kernel", "k", at, start, 10.0, op)
    stream = found_in(trace, tmp_path)["streams"][0]
    # Launched in time and begun 2 us later; launched too late, twice; launched in time and begun 25 us later.
    assert stream == {"device": 0, "stream": 7, "busy_us": 50.0, "idle_us": 85.0, "host_wait_us": 8.0 + 50.0,
                      "kernel_wait_us": 2.0 + 25.0, "other_us": 0.0}  # fmt: skip


def test_a_stream_that_had_its_kernel_long_ago_waited_for_something_else(tmp_path: Path) -> None:
    trace = DeviceTrace()
    op = trace.op("aten::mul", 0.0, 200.0)
    for at, start in ((5.0, 10.0), (10.0, 80.0)):
        trace.launch("kernel", "k", at, start, 10.0, op)
    assert found_in(trace, tmp_path)["streams"][0]["other_us"] == 60.0


def test_devices_and_streams_are_apart(tmp_path: Path) -> None:
    trace = DeviceTrace()
    op = trace.op("aten::mul", 0.0, 100.0)
    trace.launch("kernel", "k", 1.0, 5.0, 10.0, op)
    trace.launch("kernel", "k", 2.0, 8.0, 10.0, op, stream=9)
    trace.device = 1
    trace.launch("kernel", "k", 3.0, 9.0, 10.0, op)
    found = found_in(trace, tmp_path)
    assert [(row["device"], row["busy_us"]) for row in found["devices"]] == [(0, 13.0), (1, 10.0)]
    assert [(row["device"], row["stream"]) for row in found["streams"]] == [(0, 7), (0, 9), (1, 7)]


# Who asked


@pytest.mark.parametrize("vendor", ["cuda", "rocm", "xpu", "privateuse1", "mtia"])
@pytest.mark.parametrize("external_ids", [True, False])
def test_operators_have_the_time_of_their_kernels(vendor: str, external_ids: bool, tmp_path: Path) -> None:
    found = found_in(training_step(vendor, external_ids), tmp_path)
    times = {row["name"]: (row["device_self_us"], row["device_total_us"]) for row in found["operators"]}
    assert times["aten::copy_"] == (20.0, 20.0)
    assert times["aten::to"] == (0.0, 20.0)
    assert times["aten::linear"] == (0.0, 30.0)
    assert times["aten::mm"] == (26.0, 26.0)
    assert times["AddmmBackward0"] == (0.0, 66.0)
    assert found["unattributed_us"] == 15.0


def test_an_op_inside_one_of_its_name_counts_once_in_totals(tmp_path: Path) -> None:
    trace = DeviceTrace()
    trace.op("aten::add", 0.0, 50.0)
    inner = trace.op("aten::add", 5.0, 30.0)
    trace.op("aten::empty", 40.0, 5.0)
    trace.launch("kernel", "k", 10.0, 20.0, 7.0, inner)
    row = by_name(found_in(trace, tmp_path)["operators"])["aten::add"]
    assert row == {"name": "aten::add", "calls": 2, "cpu_self_us": 50.0 - 30.0 - 5.0 + 28.0, "cpu_total_us": 50.0,
                   "device_self_us": 7.0, "device_total_us": 7.0}  # fmt: skip


def test_modules_have_the_time_of_their_kernels_backward_included(tmp_path: Path) -> None:
    row = by_name(found_in(training_step(), tmp_path)["modules"])["Linear_0"]
    assert (row["calls"], row["device_self_us"]) == (1, 30.0 + 26.0 + 40.0)


def test_kernels_tell_kind_family_and_operators(tmp_path: Path) -> None:
    rows = by_name(found_in(training_step(), tmp_path)["kernels"])
    assert sum(row["device_us"] for row in rows.values()) == 131.0
    gemm = {"name": "gemm", "kind": "compute", "family": "matmul", "calls": 1, "device_us": 30.0}
    assert rows["gemm"] == gemm | {"operators": ["aten::addmm"]}
    assert {row["kind"] for row in rows.values()} == {"compute", "communication", "copy", "set"}
    assert rows["one"]["operators"] == []


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "matmul"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64", "matmul"),
        ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64> >", "attention"),
        ("void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 128, true, 1>", "normalisation"),
        ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw", "convolution"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >", "elementwise"),
        ("triton_red_fused_add_mean_mul_pow_rsqrt_0", "reduction"),
        ("triton_poi_fused__unsafe_view_add_3", "elementwise"),
        ("void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_cta_per_row_1", "embedding"),
        ("my_kernel", "other"),
    ],
)
def test_names_of_kernels_tell_what_they_do(name: str, family: str) -> None:
    assert family_of(name) == family


def test_copies_have_direction_bytes_and_bandwidth(tmp_path: Path) -> None:
    trace = training_step()
    trace.launch("copy", "CopyDeviceToHost", 310.0, 400.0, 10.0, bytes=20_000)
    rows = {row["direction"]: row for row in found_in(trace, tmp_path)["copies"]}
    assert rows["HtoD"] == {"direction": "HtoD", "count": 1, "bytes": 4096, "us": 20.0, "gb_per_s": 0.2048,
                            "pageable_count": 1, "pageable_us": 20.0}  # fmt: skip
    assert (rows["DtoH"]["gb_per_s"], rows["DtoH"]["pageable_count"]) == (2.0, 0)


# Launches and queues


def test_launches_tell_delays_and_kernels_shorter_than_their_call(tmp_path: Path) -> None:
    trace = DeviceTrace()
    op = trace.op("aten::mul", 0.0, 100.0)
    for at, start, length in ((0.0, 5.0, 1.0), (10.0, 15.0, 30.0), (20.0, 47.0, 3.0)):
        trace.launch("kernel", "k", at, start, length, op)
    trace.graph(60.0, [("one", 70.0, 1.0), ("two", 80.0, 1.0)])
    row = found_in(trace, tmp_path)["launches"][0]
    # A graph's kernels have no launch of their own.
    assert (row["count"], row["call_total_us"], row["delay_median_us"]) == (3, 6.0, 3.0)
    assert (row["short_kernels"], row["short_kernels_us"]) == (1, 1.0)


def test_a_queue_grows_at_launches_and_shrinks_when_kernels_begin(tmp_path: Path) -> None:
    trace = DeviceTrace()
    op = trace.op("aten::mul", 0.0, 100.0)
    for at, start in ((0.0, 10.0), (4.0, 20.0), (8.0, 30.0)):
        trace.launch("kernel", "k", at, start, 10.0, op)
    row = found_in(trace, tmp_path)["queue"][0]
    assert row["points"] == [[0.0, 1], [4.0, 2], [8.0, 3], [10.0, 2], [20.0, 1], [30.0, 0]]
    assert (row["max"], row["full_us"]) == (3, 0.0)
    assert row["mean"] == pytest.approx((1 * 4 + 2 * 4 + 3 * 2 + 2 * 10 + 1 * 10) / 30)


def test_a_queue_of_1024_is_full(tmp_path: Path) -> None:
    trace = DeviceTrace()
    op = trace.op("aten::mul", 0.0, 5000.0)
    for number in range(1100):
        trace.launch("kernel", "k", float(number), 2000.0 + number, 1.0, op)
    assert found_in(trace, tmp_path)["queue"][0]["full_us"] == 2000.0 - 1023.0 + 76.0


# What limits it


def test_every_moment_of_a_device_has_one_cause(tmp_path: Path) -> None:
    row = found_in(training_step(), tmp_path)["limits"][0]
    assert row == {"device": 0, "device_us": 70.0, "communication_us": 25.0, "copies_us": 21.0, "input_us": 0.0,
                   "synchronisation_us": 0.0, "host_us": 116.0}  # fmt: skip


def starved(waiting: str) -> DeviceTrace:
    """A device that is idle for 800 of 1000 us: kernels of 100 us, the host does something else between them."""
    trace = DeviceTrace()
    for step in range(2):
        begin = step * 900.0
        op = trace.op("aten::mm", begin, 20.0)
        trace.launch("kernel", "gemm", begin + 5, begin + 10, 100.0, op)
        if waiting == "cudaStreamSynchronize":
            trace.call(waiting, begin + 30, 85.0)
        elif waiting:
            trace.annotation(waiting, begin + 100, 790.0)
    return trace


@pytest.mark.parametrize(
    ("waiting", "cause", "word"),
    [
        ("", "host", "The host limits"),
        ("cudaStreamSynchronize", "synchronisation", "Synchronisation limits"),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "input", "Input limits"),
    ],
)
def test_the_cause_of_idle_time_is_told(waiting: str, cause: str, word: str, tmp_path: Path) -> None:
    analysis = analysed(starved(waiting), tmp_path)
    assert analysis.limits[0].cause == cause
    assert analysis.answer.startswith(word)
    assert "NVIDIA H100" in analysis.answer


def test_a_run_without_devices_says_so(tmp_path: Path) -> None:
    trace = DeviceTrace()
    trace.op("aten::mul", 0.0, 10.0)
    found = found_in(trace, tmp_path)
    assert found["devices"] == found["queue"] == []
    assert found["critical_path"][0]["name"] == "aten::mul"
    assert found["answer"] == "Nothing of this recording ran on a device."
    assert found["operators"][0]["cpu_self_us"] == 10.0


def test_idle_time_is_told_by_what_was_open_on_the_launching_thread(tmp_path: Path) -> None:
    trace = DeviceTrace()
    trace.python("train.py(3): step", 0.0, 200.0, Python_id=1)
    first = trace.op("aten::mul", 0.0, 10.0)
    trace.launch("kernel", "k", 1.0, 5.0, 15.0, first)
    trace.python("train.py(9): prepare", 20.0, 60.0, Python_id=2, Python_parent_id=1)
    second = trace.op("aten::mul", 90.0, 10.0)
    trace.launch("kernel", "k", 95.0, 100.0, 15.0, second)
    rows = {tuple(row["stack"]): row["us"] for row in found_in(trace, tmp_path)["idle"]}
    assert rows["train.py(3): step", "train.py(9): prepare"] == 60.0
    assert rows["train.py(3): step",] == 10.0
    assert sum(rows.values()) == 80.0


# Critical path


def test_a_critical_path_covers_the_run_and_tells_what_would_gain(tmp_path: Path) -> None:
    trace = DeviceTrace()
    op = trace.op("aten::mm", 0.0, 20.0)
    trace.launch("kernel", "gemm", 5.0, 10.0, 100.0, op)
    trace.launch("kernel", "relu", 15.0, 112.0, 30.0, op)
    trace.call("cudaStreamSynchronize", 25.0, 120.0)
    path = analysed(trace, tmp_path).critical_path
    parts = {(part.sort, part.name): (part.time_ns / 1000, part.gain_ns) for part in path.parts}
    assert path.length_ns == 145_000
    assert sum(part.time_ns for part in path.parts) == 145_000
    assert parts["cpu", "aten::mm"][0] == 5.0
    assert parts["delay", "launch to start"][0] == 5.0
    assert parts["delay", "between kernels of a stream"][0] == 2.0
    assert parts["cpu", "cudaStreamSynchronize"][0] == 3.0
    # Without the first kernel the second one waits for nothing but its launch.
    assert parts["compute", "gemm"] == (100.0, 95_000)
    assert parts["compute", "relu"] == (30.0, 30_000)


def test_threads_that_wait_for_each_other_are_one_path(tmp_path: Path) -> None:
    trace = DeviceTrace()
    first = trace.op("aten::mm", 0.0, 100.0)
    trace.launch("kernel", "k", 90.0, 95.0, 5.0, first)
    second = trace.op("MmBackward0", 110.0, 300.0, tid=4001)
    trace.launch("kernel", "k", 120.0, 125.0, 5.0, second, tid=4001)
    last = trace.op("aten::add_", 420.0, 30.0)
    trace.launch("kernel", "k", 440.0, 445.0, 25.0, last)
    parts = {part.name: part.time_ns / 1000 for part in analysed(trace, tmp_path).critical_path.parts}
    assert parts["MmBackward0"] == 298.0
    assert parts["aten::mm"] == 98.0
    assert sum(parts.values()) == 470.0


# Memory, sequences, roofline


def test_memory_has_a_peak_and_holders(tmp_path: Path) -> None:
    row = found_in(training_step(), tmp_path)["memory"][0]
    assert (row["device"], row["peak_bytes"], row["reserved_bytes"]) == (0, 1152, 1 << 30)
    assert row["holders"] == [{"name": "(before the recording)", "bytes": 1024}, {"name": "aten::addmm", "bytes": 128}]


def test_sequences_of_small_kernels_are_found_without_overlaps(tmp_path: Path) -> None:
    trace = DeviceTrace()
    for step in range(6):
        begin = step * 100.0
        for place, (op, kernel, length) in enumerate(
            (("aten::mul", "mul", 2), ("aten::add", "add", 3), ("aten::mm", "gemm", 50))
        ):
            at = begin + place * 10
            trace.launch("kernel", kernel, at + 1, at + 4, float(length), trace.op(op, at, 5.0))
    rows = found_in(trace, tmp_path)["sequences"]
    assert [(row["kernels"], row["operators"], row["count"]) for row in rows] == [
        (["mul", "add"], ["aten::mul", "aten::add"], 6)
    ]
    assert (rows[0]["device_us"], rows[0]["between_us"]) == (30.0, 6 * 8.0)


def test_a_roofline_has_operations_and_bytes_from_shapes(tmp_path: Path) -> None:
    trace = DeviceTrace()
    dims = {"Input_Dims": [[512, 1024], [1024, 256]], "Input_type": ["c10::BFloat16", "c10::BFloat16"]}
    trace.launch("kernel", "gemm", 5.0, 10.0, 2.0, trace.op("aten::mm", 0.0, 20.0, **dims))
    part = found_in(trace, tmp_path)["roofline"][0]
    assert part["device"] == "H100 SXM"
    row = part["rows"][0]
    assert (row["dtype"], row["flops"]) == ("bf16", 2 * 512 * 1024 * 256)
    assert row["bytes"] == 2 * (512 * 1024 + 1024 * 256 + 512 * 256)
    assert row["flops_per_s"] == row["flops"] / 2e-6
    assert row["bound"] == "memory"
    assert row["roof_flops_per_s"] == pytest.approx(row["flops"] / row["bytes"] * 3.35e12)


def test_an_unknown_device_has_no_roofline_unless_the_user_knows_it(tmp_path: Path) -> None:
    trace = DeviceTrace("privateuse1")
    dims = {"Input_Dims": [[8, 8], [8, 8]], "Input_type": ["float", "float"]}
    trace.launch("kernel", "gemm", 5.0, 10.0, 2.0, trace.op("aten::mm", 0.0, 20.0, **dims))
    assert found_in(trace, tmp_path)["roofline"] == []
    ours = {"ours": {"match": "^accelerator$", "flops": {"fp32": 1e12}, "bytes_per_s": 1e11, "source": "its maker"}}
    assert found_in(trace, tmp_path, peaks=ours)["roofline"][0]["source"] == "its maker"
    with pytest.raises(ValueError, match="peaks of 'ours' make no sense"):
        found_in(trace, tmp_path, peaks={"ours": {"flops": {}}})


def test_every_peak_has_a_source_and_is_found_by_its_name() -> None:
    assert all(peak.source and peak.bytes_per_s > 1e11 and min(peak.flops.values()) > 1e12 for peak in TABLE)
    names = {
        "NVIDIA H100 80GB HBM3": "H100 SXM",
        "NVIDIA A100-SXM4-80GB": "A100 80GB",
        "Tesla V100-SXM2-16GB": "V100 SXM2",
    }
    names |= {"AMD Instinct MI300X": "MI300X", "AMD Instinct MI250X": "MI250X", "NVIDIA A100-PG509-200": "A100 40GB"}
    for name, found in names.items():
        peak = peak_of(name)
        assert peak is not None
        assert peak.name == found
    assert peak_of("AMD Radeon Graphics") is None


# Whatever comes


def odd(events: list[dict[str, Any]], path: Path) -> dict[str, Any]:
    (path / "odd.json").write_text(json.dumps(events))
    found = load(path / "odd.json").analyze().as_dict()
    json.dumps(found, allow_nan=False)
    return found


def test_rows_may_come_in_any_order(tmp_path: Path) -> None:
    events = training_step().events
    plain, turned = odd(events, tmp_path), odd(events[::-1], tmp_path)
    for key in ("devices", "streams", "operators", "kernels", "copies", "unattributed_us", "queue"):
        assert plain[key] == turned[key]


@pytest.mark.parametrize("lost", ["stream", "device", "correlation", "External id", "bytes"])
def test_arguments_may_be_missing(lost: str, tmp_path: Path) -> None:
    events = training_step().events
    for event in events:
        event.get("args", {}).pop(lost, None)
    device = odd(events, tmp_path)["devices"][0]
    assert (device["device"], device["busy_us"], device["overlap_us"]) == (0, 116.0, 15.0)


def test_a_trace_of_a_device_alone_attributes_nothing(tmp_path: Path) -> None:
    found = odd([event for event in training_step().events if event["pid"] == 0], tmp_path)
    assert found["unattributed_us"] == 131.0
    assert found["devices"][0]["busy_us"] == 116.0
    assert found["operators"] == []


def test_lengths_may_be_none_or_negative(tmp_path: Path) -> None:
    events = training_step().events
    for event in events:
        if event["ph"] == "X" and event["cat"] == "kernel":
            event["dur"] = -3.0 if event["name"] == "gemm" else 0.0
    device = odd(events, tmp_path)["devices"][0]
    assert (device["compute_us"], device["copy_us"]) == (0.0, 21.0)


def test_nothing_is_found_in_an_empty_trace(tmp_path: Path) -> None:
    found = odd([], tmp_path)
    assert found["answer"] == "Nothing was recorded."
    assert found["devices"] == found["operators"] == found["queue"] == []


# Several files


def test_files_of_several_ranks_are_one_object(tmp_path: Path) -> None:
    part = found_in(training_step(), tmp_path)
    both = joined({"a.json": part, "b.json": part})
    assert [row["file"] for row in both["devices"]] == ["a.json", "b.json"]
    assert by_name(both["operators"])["aten::mm"]["device_self_us"] == 52.0
    assert both["copies"][0]["gb_per_s"] == pytest.approx(part["copies"][0]["gb_per_s"])
    assert both["unattributed_us"] == 30.0
    assert joined({"a.json": part}) is part
