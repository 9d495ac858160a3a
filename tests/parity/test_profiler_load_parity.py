"""Traces that torch itself has written say the same once they are loaded as torch's own results do."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import _ExperimentalConfig, profile, record_function

from mindtorch_v2.profiler import load

OPTIONS: list[dict[str, Any]] = [
    {},
    {"record_shapes": True, "profile_memory": True, "with_flops": True},
    {"with_stack": True, "profile_memory": True},
    {"with_stack": True, "experimental_config": _ExperimentalConfig(verbose=True)},
    {"experimental_config": _ExperimentalConfig(capture_overload_names=True)},
]
SUMS = ("count", "cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "overload_name", "flops")


def recorded(options: dict[str, Any]) -> profile:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.Adam(model.parameters())
    with profile(**options) as prof:
        for _ in range(2):
            with record_function("forward"):
                loss = torch.nn.functional.cross_entropy(model(torch.randn(5, 8)), torch.randint(0, 4, (5,)))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return prof


# Frames of the test runner run on several threads; torch gives the memory of one thread to all of them.
RUNNER = ("execnet/", "threading.py", "xdist/")


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_averages_are_the_same(options: dict[str, Any], suffix: str, tmp_path: Path) -> None:
    prof = recorded(options)
    theirs = {row.key: row for row in prof.key_averages()}
    prof.export_chrome_trace(str(tmp_path / f"a.{suffix}"))
    ours = {row.key: row for row in load(tmp_path / f"a.{suffix}").key_averages(include_python_functions=True)}
    assert list(ours) == list(theirs)
    for key, row in theirs.items():
        if key.startswith(RUNNER):
            continue
        for name in SUMS:
            assert getattr(ours[key], name) == pytest.approx(getattr(row, name), abs=0.01), (key, name)
        # torch takes children that overlap in part from their parent twice, down to less than nothing.
        assert ours[key].self_cpu_time_total >= row.self_cpu_time_total - 0.01


@pytest.mark.parametrize("options", OPTIONS)
def test_events_are_the_same(options: dict[str, Any], tmp_path: Path) -> None:
    prof = recorded(options)
    theirs = prof.events()
    prof.export_chrome_trace(str(tmp_path / "a.json"))
    ours = load(tmp_path / "a.json").events()
    verbose = options.get("experimental_config") is not None and options.get("with_stack")
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine.name, mine.overload_name) == (other.name, other.overload_name)
        assert mine.time_range.elapsed_us() == pytest.approx(other.time_range.elapsed_us(), abs=0.002)
        assert mine.scope == other.scope or other.scope not in (0, 1, 7), mine.name
        assert mine.sequence_nr == other.sequence_nr
        assert mine.input_shapes == (other.input_shapes or [])
        assert mine.is_user_annotation == other.is_user_annotation
        if verbose and not mine.is_python_function:
            # torch leaves a few frames of its own out of the events, not out of the trace.
            assert [entry for entry in mine.stack if entry in other.stack] == other.stack, mine.name
