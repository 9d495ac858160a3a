"""What may be said of comparisons: single runs, baselines, rounds, what else differs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mindtorch_v2.profiler.analyse.baseline import Baseline, measure
from mindtorch_v2.profiler.analyse.diff import FASTER, SAME, SLOWER, UNCLEAR, compare
from mindtorch_v2.profiler.analyse.settle import Settled, settle
from mindtorch_v2.profiler.capture.capture import Capture
from mindtorch_v2.profiler.record import environment, step_clock
from synthetic_captures import NAMES, OPS, capture_of, durations


def clocked(capture: Capture, cpu_ns: float, wall_ns: float, **where: Any) -> Capture:
    """With clocks of ten equal steps, and what is said of where it was made."""
    columns = dict.fromkeys(step_clock.COLUMNS, [0] * 10) | {
        "cpu_ns": [int(cpu_ns)] * 10,
        "wall_ns": [int(wall_ns)] * 10,
    }
    said = {**environment.environment(), **where}
    return replace(capture, metadata={step_clock.METADATA: columns, environment.METADATA: said})


def runs(
    random: np.random.Generator, count: int, factor: float = 1.0, slower: dict[int, float] | None = None
) -> list[Capture]:
    return [capture_of(durations(random, slower=slower) * factor) for _ in range(count)]


def settled(
    before: list[Capture], after: list[Capture], baseline: Baseline | None = None, in_turn: bool = True
) -> Settled:
    return settle(compare(before, after), before, after, baseline, in_turn)


def verdict(found: Settled, op: int) -> str:
    return str(found.diff.verdict[found.diff.names.index(NAMES[op])])


def clocks(factors: list[float], cpu: float = 1.0, wall: float = 1.0, **where: Any) -> list[Capture]:
    capture = capture_of(np.tile(np.full(OPS, 1e5), (10, 1)))
    return [clocked(capture, 1e7 * factor * cpu, 2e7 * factor * wall, **where) for factor in factors]


STEADY = [1.0, 1.002, 0.999, 1.001, 1.0]


def test_single_runs_give_no_verdict_on_times_but_name_what_is_suspect() -> None:
    random = np.random.default_rng(3)
    found = settled(runs(random, 1), runs(random, 1, slower={7: 1.4}), in_turn=False)
    assert found.diff.of(SLOWER, FASTER) == []
    assert (found.diff.share[found.diff.of(SAME)] < found.diff.rules.smallest_share).all()
    assert [found.diff.names[place] for place in found.suspected] == [NAMES[7]]
    assert found.compute.verdict == UNCLEAR
    assert "--rounds" in found.reason


def test_a_baseline_tells_single_runs_apart() -> None:
    random = np.random.default_rng(4)
    baseline = measure(runs(random, 10))
    false = found = 0
    for _ in range(40):
        false += bool(settled(runs(random, 1), runs(random, 1), baseline).diff.of(SLOWER, FASTER))
        found += verdict(settled(runs(random, 1), runs(random, 1, slower={15: 1.4}), baseline), 15) == SLOWER
    assert false == 0
    assert found >= 38


def test_what_a_baseline_has_not_seen_stays_unclear() -> None:
    random = np.random.default_rng(4)
    known = measure(runs(random, 10))
    blind = replace(known, groups={name: value for name, value in known.groups.items() if name != NAMES[7]})
    assert verdict(settled(runs(random, 1), runs(random, 1, slower={7: 2.0}), blind), 7) == UNCLEAR


def test_a_baseline_goes_through_a_file_and_bad_ones_are_refused() -> None:
    known = measure(runs(np.random.default_rng(4), 4))
    assert Baseline.of_json(known.as_json()) == known
    for odd in (None, [], {}, {**known.as_json(), "compute": "much"}, {**known.as_json(), "groups": {"x": -1}}):
        with pytest.raises(ValueError, match=r"no baseline|deviation"):
            Baseline.of_json(odd)
    with pytest.raises(ValueError, match="3 runs of one program or more, got 2"):
        measure(runs(np.random.default_rng(4), 2))


def test_rounds_of_equal_programs_are_no_alarm_and_ten_percent_of_a_fifth_is_found() -> None:
    random = np.random.default_rng(11)
    alarms = found = 0
    for _ in range(40):
        equal = settled(runs(random, 5), runs(random, 5))
        alarms += bool(equal.diff.of(SLOWER, FASTER)) or equal.compute.verdict in (SLOWER, FASTER)
        found += verdict(settled(runs(random, 5), runs(random, 5, slower={18: 1.1})), 18) == SLOWER
    assert alarms <= 1
    assert found >= 38


def test_same_is_only_what_was_measured_to_be() -> None:
    random = np.random.default_rng(12)
    found = settled(runs(random, 5), runs(random, 5))
    margin = found.diff.rules.smallest_effect
    for place in range(len(found.diff)):
        inside = found.diff.low[place] > -margin and found.diff.high[place] < margin
        if found.diff.verdict[place] == SAME:
            assert inside or found.diff.share[place] < found.diff.rules.smallest_share
        else:
            assert found.more_steps[place] > 0


def test_compute_is_judged_by_cpu_time_and_waiting_by_wall_time() -> None:
    found = settled(clocks(STEADY), clocks(STEADY, wall=1.5))
    assert found.wall is not None
    assert (found.compute.verdict, found.wall.verdict) == (UNCLEAR, SLOWER)
    assert found.compute.change == pytest.approx(0, abs=0.001)
    found = settled(clocks(STEADY), clocks(STEADY, cpu=1.3))
    assert found.wall is not None
    assert (found.compute.verdict, found.wall.verdict) == (SLOWER, SAME)
    assert settled(clocks(STEADY), clocks(STEADY)).compute.verdict == SAME


def test_rounds_that_scatter_are_unclear_not_same() -> None:
    found = settled(clocks([1.0, 1.4, 0.8, 1.2, 0.9]), clocks([1.3, 0.8, 1.2, 0.9, 1.1]))
    assert found.compute.verdict == UNCLEAR


def test_what_differs_beside_the_times_is_said_first() -> None:
    first, second = clocks(STEADY[:2]), clocks(STEADY[:2], implementation="torch 2.13.0", threads=7)
    second = [replace(capture, options=replace(capture.options, stacks=True)) for capture in second]
    told = settled(first, second).differences
    assert told[0] == "stacks were recorded on one side only, which costs time"
    assert any(
        line.startswith("implementation: mindtorch_v2 on NumPy") and "torch 2.13.0 after" in line for line in told
    )
    assert any(line.startswith("threads: ") and line.endswith("7 after") for line in told)
    assert settled(first, first).differences == []


def test_a_change_of_everything_is_called_that() -> None:
    random = np.random.default_rng(5)
    apart = settled(runs(random, 1), runs(random, 1, factor=1.5), in_turn=False)
    assert "a change of the whole machine" in apart.machine
    in_turn = settled(runs(random, 5), runs(random, 5, factor=1.5))
    assert "the program (or its settings) as a whole" in in_turn.machine
    assert settled(runs(random, 5), runs(random, 5)).machine == ""
