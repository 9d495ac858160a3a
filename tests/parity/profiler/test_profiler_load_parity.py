"""Traces that torch itself has written say the same once they are loaded as torch's own results do."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import torch_traces
from mindtorch_v2.profiler import load

NUMBERS = range(len(torch_traces.OPTIONS))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces")
    subprocess.run([sys.executable, torch_traces.__file__, str(path)], check=True)
    return path


def said_by_torch(trace: Path) -> dict[str, Any]:
    return json.loads(trace.with_name(f"{trace.name}.said").read_text())


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_averages_are_the_same(number: int, suffix: str, folder: Path) -> None:
    trace = folder / f"{number}.{suffix}"
    theirs = said_by_torch(trace)["averages"]
    ours = {row.key: row for row in load(trace).key_averages(include_python_functions=True)}
    assert list(ours) == list(theirs)
    for key, row in theirs.items():
        for name in torch_traces.SUMS:
            assert getattr(ours[key], name) == pytest.approx(row[name], abs=0.01), (key, name)
        # torch takes children that overlap in part from their parent twice, down to less than nothing.
        assert ours[key].self_cpu_time_total >= row["self_cpu_time_total"] - 0.01


@pytest.mark.parametrize("number", NUMBERS)
def test_events_are_the_same(number: int, folder: Path) -> None:
    options = torch_traces.OPTIONS[number]
    verbose = options.get("experimental_config") is not None and options.get("with_stack")
    trace = folder / f"{number}.json"
    for mine, other in zip(load(trace).events(), said_by_torch(trace)["events"], strict=True):
        assert (mine.name, mine.overload_name) == (other["name"], other["overload_name"])
        assert mine.time_range.elapsed_us() == pytest.approx(other["elapsed"], abs=0.002)
        assert mine.scope == other["scope"] or other["scope"] not in (0, 1, 7), mine.name
        assert mine.sequence_nr == other["sequence_nr"]
        assert mine.input_shapes == (other["input_shapes"] or [])
        assert mine.is_user_annotation == other["is_user_annotation"]
        if verbose and not mine.is_python_function:
            # torch leaves a few frames of its own out of the events, not out of the trace.
            assert [entry for entry in mine.stack if entry in other["stack"]] == other["stack"], mine.name
