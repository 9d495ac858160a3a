"""`mindtorch diff --run`: two programs in turns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindtorch_v2 import cli

PROGRAM = """
import sys
import torch
print("hidden")
weight = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(4):
    weight.sum().backward()
    optimizer.step()
raise SystemExit(int(sys.argv[1]))
"""


def test_both_run_in_turns_and_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    kept = tmp_path / "kept"
    same = f"{program} 0"
    assert cli.main(["diff", "--run", same, "--run", same, "--rounds", "2", "--keep", str(kept), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runs"] == [2, 2]
    assert found["overall_is_cpu_time"]
    assert found["wall"]["verdict"] in ("same", "unclear", "slower", "faster")
    assert found["differences"] == []
    assert sorted(path.name for path in kept.iterdir()) == ["A1", "A2", "B1", "B2"]
    began = [(kept / name / "trace.json").stat().st_mtime_ns for name in ("A1", "B1", "A2", "B2")]
    assert began == sorted(began)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--run", "a.py"], "--run is given twice, for A and for B, not 1 times"),
        (["--run", "a.py", "--run", "b.py", "--rounds", "1"], "--rounds 1 cannot tell how much runs differ"),
        (["--run", "a.py", "--run", "'"], "cannot read --run: No closing quotation"),
        (["--run", "a.py", "--run", ""], "--run names no program"),
        (["x", "y", "--run", "a.py", "--run", "b.py"], "--run makes both sides itself"),
        (
            ["--run", "nowhere.py", "--run", "b.py"],
            "nowhere.py ended with code 2: no such program",
        ),
    ],
)
def test_mistakes_are_told(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diff", *arguments]) == 2
    assert told in capsys.readouterr().err.replace("python -m mindtorch_v2.profiler: ", "")
