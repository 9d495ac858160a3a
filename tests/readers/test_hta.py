"""Holistic Trace Analysis 0.5 parses our traces."""

import shutil
from collections import Counter
from pathlib import Path

from hta.trace_analysis import TraceAnalysis

from conftest import Run


def test_every_slice_is_parsed(run: Run, tmp_path: Path) -> None:
    shutil.copy(run.file(".json.gz"), tmp_path / "rank_0.json.gz")
    analysis = TraceAnalysis(trace_dir=str(tmp_path), include_last_profiler_step=True)
    assert list(analysis.t.traces) == [0]
    names = analysis.t.symbol_table.get_sym_table()
    parsed = Counter(names[number] for number in analysis.t.get_trace(0)["cat"])
    assert {category: parsed[category] for category in run.slices} == dict(run.slices)
