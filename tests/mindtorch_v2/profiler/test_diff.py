"""Comparisons of runs: what is found, what is not, and how often that is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import synthetic_captures as synthetic
from device_traces import DeviceTrace
from mindtorch_v2.profiler import load
from mindtorch_v2.profiler.analyse import diff
from mindtorch_v2.profiler.analyse.diff import Diff, Rules, compare
from mindtorch_v2.profiler.analyse.samples import NothingRecorded
from mindtorch_v2.profiler.capture.capture import Capture
from synthetic_captures import COSTS_NS, NAMES, OPS, capture_of, durations

PAIRS = 200


def pair(random: np.random.Generator, slower: dict[int, float] | None = None) -> Diff:
    return compare([capture_of(durations(random))], [capture_of(durations(random, slower=slower))])


def steady(steps: int = 10, factors: dict[int, float] | None = None) -> np.ndarray:
    """A run without any noise."""
    costs = COSTS_NS.copy()
    for op, factor in (factors or {}).items():
        costs[op] *= factor
    return np.tile(costs, (steps, 1))


def verdict(found: Diff, op: int) -> str:
    return str(found.verdict[found.names.index(NAMES[op])])


def test_equal_runs_raise_at_most_two_alarms_in_two_hundred() -> None:
    random = np.random.default_rng(20)
    alarms = sum(pair(random).alarms > 0 for _ in range(PAIRS))
    assert alarms <= 2


def test_ten_percent_of_one_op_in_twenty_is_found_in_190_of_200() -> None:
    random = np.random.default_rng(21)
    found = false = 0
    for _ in range(PAIRS):
        op = int(random.integers(OPS))
        result = pair(random, {op: 1.1})
        slower = [result.names[place] for place in result.of(diff.SLOWER)]
        found += NAMES[op] in slower
        false += any(name != NAMES[op] for name in slower)
    assert found >= 190
    assert false <= 2


def test_several_runs_a_side_find_what_drifts_hide() -> None:
    random = np.random.default_rng(5)
    before = [capture_of(durations(random)) for _ in range(5)]
    after = [capture_of(durations(random) * 1.3) for _ in range(5)]
    found = compare(before, after)
    assert found.overall.verdict == diff.SLOWER
    assert found.before.runs == found.after.runs == 5
    assert found.overall.low < 0.3 < found.overall.high


def test_the_same_drift_of_single_runs_is_no_alarm() -> None:
    random = np.random.default_rng(6)
    found = compare([capture_of(durations(random))], [capture_of(durations(random) * 1.05)])
    assert found.alarms == 0
    assert found.pace > 0.02


def test_a_busy_machine_that_slows_some_ops_more_than_others_is_no_alarm() -> None:
    random = np.random.default_rng(8)
    before = durations(random)
    uneven = durations(random) * 1.4 * np.exp(random.normal(0, 0.08, OPS))
    found = compare([capture_of(before)], [capture_of(uneven)])
    assert found.of(diff.SLOWER, diff.FASTER) == []
    uneven[:, 5] *= 4
    found = compare([capture_of(before)], [capture_of(uneven)])
    assert [found.names[place] for place in found.of(diff.SLOWER)] == [NAMES[5]]


def test_an_op_that_others_disturb_is_judged_by_its_calm_samples() -> None:
    random = np.random.default_rng(12)

    def disturbed(factor: float) -> np.ndarray:
        """Most samples of one op take up to three times as long as it does alone."""
        took = durations(random, steps=200)
        took[:, 9] *= factor * np.where(random.random(200) < 0.6, random.uniform(1.2, 3, 200), 1)
        return took

    found = compare([capture_of(disturbed(1.0))], [capture_of(disturbed(1.12))])
    assert [found.names[place] for place in found.of(diff.SLOWER)] == [NAMES[9]]
    alarms = sum(compare([capture_of(disturbed(1.0))], [capture_of(disturbed(1.0))]).alarms > 0 for _ in range(6))
    assert alarms == 0


def test_twice_as_slow_as_a_whole_is_an_alarm_even_of_single_runs() -> None:
    found = compare([capture_of(steady())], [capture_of(steady() * 2)])
    assert found.overall.verdict == diff.SLOWER
    assert found.failures(0.5) == {diff.WHOLE: "the whole is 99.9% slower"}


def test_a_change_is_measured_with_its_interval() -> None:
    random = np.random.default_rng(7)
    found = pair(random, {3: 1.3})
    place = found.names.index(NAMES[3])
    assert found.change[place] == pytest.approx(0.3, abs=0.05)
    assert found.low[place] < 0.3 < found.high[place]
    assert found.low[place] > 0.15


def test_what_appears_and_disappears_is_named() -> None:
    before = capture_of(steady()[:, :10], NAMES[:10])
    after = capture_of(steady()[:, 5:15], NAMES[5:15])
    found = compare([before], [after])
    assert {found.names[place] for place in found.of(diff.APPEARED)} == set(NAMES[10:15])
    assert {found.names[place] for place in found.of(diff.DISAPPEARED)} == set(NAMES[:5])
    assert any("appeared and takes" in failure for failure in found.failures(0.1).values())


def test_what_is_called_more_often_is_named_whatever_its_time() -> None:
    took = steady()[:, :6]
    before = capture_of(took, NAMES[:6])
    after = capture_of(np.concatenate([took, took[:, 5:]], axis=1), [*NAMES[:6], NAMES[5]])
    found = compare([before], [after])
    assert [found.names[place] for place in found.recounted] == [NAMES[5]]
    assert compare([before], [before]).recounted == []


def test_faster_is_no_failure() -> None:
    found = compare([capture_of(steady())], [capture_of(steady(factors={4: 0.5}))])
    assert verdict(found, 4) == diff.FASTER
    assert found.failures(0.1) == {}


def test_changes_below_the_smallest_effect_do_not_count() -> None:
    before, after = capture_of(steady(40)), capture_of(steady(40, {4: 1.04}))
    assert verdict(compare([before], [after]), 4) == diff.SLOWER
    assert verdict(compare([before], [after], rules=Rules(smallest_effect=0.05)), 4) == diff.SAME


def test_what_takes_too_little_time_is_not_judged() -> None:
    before, after = capture_of(steady(40)), capture_of(steady(40, {0: 1.5}))
    assert verdict(compare([before], [after]), 0) == diff.SLOWER
    assert verdict(compare([before], [after], rules=Rules(smallest_share=0.01)), 0) == diff.SAME


def test_few_steps_find_large_changes_only() -> None:
    random = np.random.default_rng(9)
    runs = [durations(random, steps=4) for _ in range(2)]
    runs[1][:, 12] *= 4
    found = compare([capture_of(runs[0])], [capture_of(runs[1])])
    assert verdict(found, 12) == diff.SLOWER
    assert found.alarms == 1


def test_without_steps_single_calls_are_the_samples() -> None:
    random = np.random.default_rng(10)
    before = capture_of(durations(random), steps=False)
    after = capture_of(durations(random, slower={6: 1.5}), steps=False)
    found = compare([before], [after])
    assert found.per == "call"
    assert [found.names[place] for place in found.of(diff.SLOWER)] == [NAMES[6]]


def test_twice_as_many_calls_take_twice_as_long() -> None:
    before = capture_of(np.full((30, 1), 1000.0), ["synthetic::often"], steps=False)
    after = capture_of(np.full((60, 1), 1000.0), ["synthetic::often"], steps=False)
    found = compare([before], [after])
    assert found.change[0] == pytest.approx(1.0)
    assert found.verdict[0] == diff.SLOWER


def test_captures_are_the_samples_where_there_are_no_steps_but_several_runs() -> None:
    random = np.random.default_rng(11)
    sides = [[capture_of(durations(random), steps=False) for _ in range(4)] for _ in range(2)]
    assert compare(*sides).per == "capture"


def test_an_empty_capture_measures_nothing() -> None:
    empty = capture_of(np.zeros((0, OPS)), steps=False)
    found = compare([empty], [empty])
    assert found.judged == 0
    assert found.overall.verdict == diff.UNCLEAR


def test_a_grouping_that_was_not_recorded_says_how_to_record_it() -> None:
    capture = capture_of(steady())
    with pytest.raises(NothingRecorded, match="with_modules=True"):
        compare([capture], [capture], by="module")
    with pytest.raises(NothingRecorded, match="with_stack=True"):
        compare([capture], [capture], by="stack")
    with pytest.raises(ValueError, match="one of op, module, stack, got 'colour'"):
        compare([capture], [capture], by="colour")


def test_noise_of_the_synthetic_runs_is_what_it_says() -> None:
    """The two rates above mean something only if the runs are noisy."""
    random = np.random.default_rng(1)
    runs = np.log(np.stack([durations(random) for _ in range(40)]))
    within = np.median(np.abs(runs - np.median(runs, axis=1, keepdims=True)), axis=(0, 1)) * 1.4826
    assert within.min() > 0.025
    assert within.max() > 0.065
    between = np.median(runs, axis=(1, 2)).std()
    assert 0.02 < between < 0.06
    assert synthetic.STEPS == 50


def device_side(path: Path, vendor: str, length: float, steps: int) -> Capture:
    """Steps of two ops; kernels of the second one, named after the vendor, take `length` and a little more or less."""
    trace = DeviceTrace(vendor)
    for step in range(steps):
        begin = step * 1000.0
        trace.annotation(f"ProfilerStep#{step}", begin, 900.0)
        copy = trace.op("aten::copy_", begin + 10, 20.0)
        trace.launch("kernel", f"{vendor}_copy", begin + 15, begin + 20, 50.0 + step % 3, copy)
        mm = trace.op("aten::mm", begin + 100, 20.0)
        trace.launch("kernel", f"{vendor}_gemm", begin + 105, begin + 110, length + step % 3, mm)
    trace.work("kernel", "early", 1.0, 5.0, 1)
    return load(trace.write(path / f"{vendor}.json"))


def test_devices_of_two_vendors_are_compared_by_op_with_steps_as_samples(tmp_path: Path) -> None:
    found = compare([device_side(tmp_path, "cuda", 100.0, 12)], [device_side(tmp_path, "rocm", 200.0, 12)])
    assert (found.on_device, found.per) == (True, "step")
    mm = found.names.index("aten::mm")
    assert (found.verdict[mm], found.before.self_ns[mm], found.after.self_ns[mm]) == ("slower", 101_000, 201_000)
    assert found.kernels_of(mm) == ([("cuda_gemm", 101_000.0)], [("rocm_gemm", 201_000.0)])
    assert found.verdict[found.names.index("aten::copy_")] == "same"
    assert set(found.names) == {"aten::mm", "aten::copy_", "(no operator)"}


def test_time_of_the_host_is_compared_where_it_is_asked_for(tmp_path: Path) -> None:
    sides = [device_side(tmp_path, "cuda", 100.0, 12)], [device_side(tmp_path, "rocm", 200.0, 12)]
    found = compare(*sides, on_device=False)
    assert not found.on_device
    mm = found.names.index("aten::mm")
    assert found.before.self_ns[mm] == found.after.self_ns[mm] == 18_000
