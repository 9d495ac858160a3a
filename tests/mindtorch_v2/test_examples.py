"""The examples are plain torch programs; run by the launcher they must give the losses torch 2.13 gives."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOSSES: dict[str, list[float]] = json.loads((Path(__file__).parent / "data" / "example_losses.json").read_text())


def launch(example: str, *options: str) -> str:
    command = [sys.executable, "-m", "mindtorch_v2", str(ROOT / "examples" / f"{example}.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses_in(output: str) -> list[float]:
    return [float(value) for value in re.findall(r"^step \d+ loss (\S+)$", output, re.MULTILINE)]


@pytest.mark.parametrize("example", sorted(LOSSES))
def test_losses_are_torchs(example: str) -> None:
    assert losses_in(launch(example)) == pytest.approx(LOSSES[example], rel=1e-3, abs=2e-4)


@pytest.mark.parametrize("example", sorted(LOSSES))
def test_profile_inside_an_example(example: str, tmp_path: Path) -> None:
    output = launch(example, "--steps", "2", "--profile", str(tmp_path))
    assert losses_in(output) == pytest.approx(LOSSES[example][:2], rel=1e-3, abs=2e-4)
    assert "Self CPU time total" in output
    names = {event.get("name") for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]}
    assert {"training step", "aten::linear"} <= names
    assert output.rstrip().endswith(f"report: {tmp_path / 'report.html'} (open it in a browser)")
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
