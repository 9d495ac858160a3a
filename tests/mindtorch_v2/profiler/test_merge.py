"""Captures of several processes as one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mindtorch_v2.profiler.analyse.merge import merge, stragglers
from mindtorch_v2.profiler.analyse.metrics import Metrics
from mindtorch_v2.profiler.capture.capture import Capture
from synthetic_captures import NAMES, OPS, capture_of


def rank(epoch_ns: int = 10**18, factor: float = 1.0, steps: int = 3, pid: int = 40) -> Capture:
    capture = capture_of(np.full((steps, OPS), 1000.0 * factor))
    return replace(capture, epoch_ns=epoch_ns, pid=pid)


def test_each_capture_is_a_group_of_its_own() -> None:
    merged = merge([rank(pid=40), rank(pid=40), rank(pid=77)], ["rank 0", "rank 1", "rank 2"])
    assert [track.process_name for track in merged.tracks] == ["rank 0", "rank 1", "rank 2"]
    assert len({track.pid for track in merged.tracks}) == 3
    assert len({track.index for track in merged.tracks}) == 3
    assert merged.metadata["merged"] == ["rank 0", "rank 1", "rank 2"]


def test_names_and_nesting_survive() -> None:
    alone, merged = Metrics(rank()), Metrics(merge([rank(), rank()], ["a", "b"]))
    assert len(merged) == 2 * len(alone)
    assert {merged.kind_of(int(kind)).name for kind in merged.kind} >= set(NAMES)
    assert int((merged.parent >= 0).sum()) == 2 * int((alone.parent >= 0).sum())
    assert int(merged.self_ns.sum()) == 2 * int(alone.self_ns.sum())


def test_clocks_are_aligned_by_unix_time() -> None:
    merged = merge([rank(10**18 + 5000), rank(10**18)], ["late", "early"])
    late, early = merged.tracks
    assert int(late.start_ns[0] - early.start_ns[0]) == 5000
    assert merged.epoch_ns == 10**18
    assert merged.stop_ns - merged.start_ns == 5000 + rank().stop_ns


def test_steps_are_aligned_where_clocks_differ() -> None:
    second = rank(10**18 + 10**15)
    for track in second.tracks:
        track.start_ns, track.end_ns = track.start_ns + 700, track.end_ns + 700
    merged = merge([rank(), second], ["a", "b"], align="step")
    assert merged.tracks[0].start_ns[0] == merged.tracks[1].start_ns[0]


def test_without_a_common_step_another_alignment_is_named() -> None:
    without = capture_of(np.full((2, OPS), 1000.0), steps=False)
    with pytest.raises(ValueError, match="align by clock or start instead"):
        merge([rank(), without], ["a", "b"], align="step")


def test_sequence_numbers_and_addresses_do_not_collide() -> None:
    captures = [rank(), rank()]
    for capture in captures:
        track = capture.tracks[0]
        track.seq = np.arange(len(track))
        track.memory_ns, track.nbytes = np.array([10, 20]), np.array([64, -64])
        track.address = np.array([4096, 4096])
    merged = merge(captures, ["a", "b"])
    first, second = merged.tracks
    assert not set(first.seq.tolist()) & set(second.seq.tolist())
    assert not set(first.address.tolist()) & set(second.address.tolist())


def test_one_capture_merges_with_nothing() -> None:
    merged = merge([rank()], ["alone"])
    assert merged.tracks[0].process_name == "alone"
    assert len(Metrics(merged)) == len(Metrics(rank()))


def test_wrong_calls_say_what_is_needed() -> None:
    with pytest.raises(ValueError, match="at least one capture"):
        merge([], [])
    with pytest.raises(ValueError, match="got 1 for 2"):
        merge([rank(), rank()], ["a"])
    with pytest.raises(ValueError, match="one of clock, step, start, got 'moon'"):
        merge([rank()], ["a"], align="moon")


def test_who_lags_behind_comes_first() -> None:
    rows = stragglers([rank(), rank(factor=1.5)], ["quick", "slow"])
    assert [row.label for row in rows] == ["slow", "quick"]
    assert rows[0].steps == 3
    assert rows[0].behind == pytest.approx(0.4, abs=0.1)
    assert rows[1].behind == 0
