"""The command `mindtorch` on traces that torch itself wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch.profiler import profile, schedule

from mindtorch_v2 import cli

STEPS = 10


def record(path: Path, width: int, **options: bool) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    plan = schedule(wait=0, warmup=1, active=STEPS, repeat=1)
    with profile(schedule=plan, on_trace_ready=lambda p: p.export_chrome_trace(str(path)), **options) as running:
        for _ in range(STEPS + 1):
            model(torch.ones(64, width)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            running.step()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("torch-traces")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    record(place / "small.json", 32, record_shapes=True, profile_memory=True)
    record(place / "large.json", 512, record_shapes=True, profile_memory=True)
    record(place / "stacks.json", 32, with_stack=True, with_modules=True)
    torch.set_num_threads(threads)
    return place


def retimed(trace: Path, product: int) -> Path:
    """A trace whose clock goes on by a microsecond at each start and end of an event, and by `product` more at the end
    of a matrix product: what torch measured hangs on the load of the machine."""
    content = json.loads(trace.read_text())
    slices = [event for event in content["traceEvents"] if event.get("dur")]
    # What ends goes before what starts, outer ones start first and end last.
    starts = [(e["ts"], 1, -e["dur"]) for e in slices]
    ends = [(e["ts"] + e["dur"], 0, e["dur"]) for e in slices]
    products = {end for end, event in zip(ends, slices, strict=True) if event["name"] in ("aten::mm", "aten::addmm")}
    times, now = {}, 0
    for mark in sorted({*starts, *ends}):
        now += 1 + product * (mark in products)
        times[mark] = now
    for event, start, end in zip(slices, starts, ends, strict=True):
        event.update(ts=times[start], dur=times[end] - times[start])
    longer = trace.with_name(f"{product}-{trace.name}")
    longer.write_text(json.dumps(content))
    return longer


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert cli.main([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def test_a_table_counts_what_torch_recorded(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["key"]: row for row in json.loads(run(capsys, "table", folder / "small.json", "--json"))}
    assert rows["aten::addmm"]["count"] == 2 * STEPS
    assert rows["ProfilerStep*"]["count"] == STEPS
    assert rows["aten::addmm"]["self_cpu_memory_usage"] > 0
    shaped = json.loads(run(capsys, "table", folder / "small.json", "--by", "shape", "--filter", "addmm", "--json"))
    assert len([row for row in shaped if row["key"] == "aten::addmm"]) == 2


def test_info_sees_steps_and_options(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(run(capsys, "info", folder / "small.json", "--json"))
    assert facts["steps"] == STEPS
    assert {"shapes", "memory"} <= set(facts["recorded"])


def test_diff_finds_what_got_slower(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = retimed(folder / "small.json", 50), retimed(folder / "small.json", 80)
    before, after = f"{first},{first}", f"{second},{second}"
    found = json.loads(run(capsys, "diff", before, after, "--json"))
    verdicts = {row["name"]: row["verdict"] for row in found["rows"]}
    assert found["per"] == "step"
    assert verdicts["aten::mm"] == verdicts["aten::addmm"] == "slower"
    # Its times are as torch measured them: whether so few steps suffice for "same" is the machine's business.
    assert verdicts["aten::relu"] in ("same", "unclear")
    assert cli.main(["diff", str(before), str(after), "--fail-over", "10%"]) == 1


def test_diff_by_stack(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "diff", folder / "stacks.json", folder / "stacks.json", "--by", "stack", "--json")
    assert any("test_command_line.py: record" in row["name"] for row in json.loads(text)["rows"])


def test_merge_convert_and_report(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "merge", folder / "small.json", folder / "large.json", "-o", tmp_path / "both.json")
    facts = json.loads(run(capsys, "info", tmp_path / "both.json", "--json"))
    assert facts["processes"] == 2
    run(capsys, "convert", folder / "stacks.json", tmp_path / "stacks.speedscope.json")
    assert json.loads((tmp_path / "stacks.speedscope.json").read_text())["profiles"]
    run(capsys, "report", folder / "stacks.json", "-o", tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000
