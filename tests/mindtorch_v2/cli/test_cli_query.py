"""A capture as tables: what queries and Arrow readers get."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import cli
from mindtorch_v2.profiler import load, profile, record_function
from mindtorch_v2.profiler.analyse.metrics import Metrics
from mindtorch_v2.profiler.export.tables import TABLES

DOCS = Path(__file__).parents[3] / "docs" / "query.md"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two steps of a small model."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    with profile(profile_memory=True, with_modules=True) as prof:
        for number in range(2):
            with record_function(f"ProfilerStep#{number}"):
                model(torch.ones(2, 4)).sum().backward()
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    return path


def test_every_column_is_described_and_none_else() -> None:
    with profile() as prof:
        torch.ones(2)
    metrics = Metrics(prof._initialized("it").newest_capture())
    parts = re.split(r"^\*\*(\w+)\*\*", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    described = {
        name: {
            word
            for line in text.splitlines()
            if line.startswith("| `")
            for word in re.findall(r"`(\w+)`", line.split("|")[1])
        }
        for name, text in zip(parts[::2], parts[1::2])
    }
    assert described == {name: set(make(metrics)) for name, make in TABLES.items()}


def test_rows_of_all_tables_are_of_one_length_and_belong_together(trace: Path) -> None:
    metrics = Metrics(load(trace))
    tables = {name: make(metrics) for name, make in TABLES.items()}
    for columns in tables.values():
        assert len({len(column) for column in columns.values()}) == 1
    events, steps, modules, memory = (tables[name] for name in ("events", "steps", "modules", "memory"))
    assert list(steps["step"]) == [0, 1]
    by_id = dict(zip(events["id"], zip(events["name"], events["step"], events["module"])))
    for number, name in zip(steps["id"], steps["name"]):
        assert by_id[number][0] == "ProfilerStep*"
        assert name.startswith("ProfilerStep#")
    assert [path.rpartition(".")[2] for path in modules["path"]] == ["Sequential", "0", "1"] * 2
    for number, step, path in zip(modules["id"], modules["step"], modules["path"]):
        assert by_id[number][1:] == (step, path)
    taken = [row for row, name in zip(zip(events["step"], events["module"]), events["name"]) if name == "aten::addmm"]
    assert [step for step, _ in taken] == [0, 1]
    assert all(module.endswith(".0") for _, module in taken)
    assert sum(memory["nbytes"]) > 0
    assert "gradient" in memory["category"]


def test_a_query_without_duckdb_names_the_extra(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert cli.main(["query", str(trace), "select 1"]) == 2
    assert "pip install 'mindtorch-v2[query]'" in capsys.readouterr().err


def test_a_query_is_answered(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    asked = "select e.name, count(*) n from events e join steps s using (step) where e.name = 'aten::addmm' group by 1"
    assert cli.main(["query", str(trace), asked, "--csv"]) == 0
    assert capsys.readouterr().out == "name,n\naten::addmm,2\n"
    assert cli.main(["query", str(trace), "select nothing from steps"]) == 2
    assert "tables: events, steps, modules, memory, kernels" in capsys.readouterr().err
    assert cli.main(["query", str(trace), "--csv"]) == 0
    assert "kernels,op_id,BIGINT" in capsys.readouterr().out


def test_arrow_readers_get_the_events(trace: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    read = load(trace)
    table = pyarrow.table(read)
    assert table.num_rows == len(Metrics(read))
    assert table.column("name").to_pylist() == TABLES["events"](Metrics(read))["name"]
    assert set(read.tables()) == set(TABLES)
