"""The commands that read files: table, report, convert, merge, info, diff."""

from __future__ import annotations

import contextlib
import csv
import errno
import gzip
import io
import json
import os
import pty
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from command_line import COMMAND, environment, mindtorch
from mindtorch_v2 import cli, nn, ones
from mindtorch_v2.cli.reporters.diff import percent
from mindtorch_v2.core import files as _files
from mindtorch_v2.profiler import profile
from mindtorch_v2.profiler.api.load import load
from mindtorch_v2.profiler.export import write
from synthetic_captures import COSTS_NS, NAMES, OPS, capture_of, durations


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces of runs, of equal ones, of some with a slower op; and of a small model."""
    place = tmp_path_factory.mktemp("traces")
    random = np.random.default_rng(3)
    write(capture_of(durations(random)), place / "before.json")
    write(capture_of(durations(random)), place / "equal.json")
    write(capture_of(durations(random, slower={7: 1.4})), place / "slower.json.gz")
    for number in range(2, 6):
        write(capture_of(durations(random)), place / f"before{number}.json")
        write(capture_of(durations(random)), place / f"equal{number}.json")
        write(capture_of(durations(random, slower={7: 1.4})), place / f"slower{number}.json.gz")
    write(capture_of(np.zeros((0, OPS)), steps=False), place / "empty.json")
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with profile(with_modules=True, with_stack=True, record_shapes=True, profile_memory=True) as recorded:
        model(ones(2, 4)).sum().backward()
    recorded.export_chrome_trace(place / "model.json")
    return place


def side(folder: Path, name: str, suffix: str = ".json") -> str:
    """Five runs, as a side of a comparison."""
    return ",".join(str(folder / f"{name}{number}{suffix}") for number in ("", 2, 3, 4, 5))


def sides(folder: Path) -> tuple[str, str]:
    return side(folder, "before"), side(folder, "slower", ".json.gz")


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = cli.main([str(argument) for argument in arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


# table


def test_a_table_is_sorted_filtered_and_limited(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(
        capsys, "table", folder / "before.json", "--filter", r"op1\d$", "--limit", "2", "--sort", "total"
    )
    names = [line.split()[0] for line in text.splitlines() if "synthetic::" in line]
    assert code == 0
    assert names == [NAMES[19], NAMES[18]]


def test_a_filtered_table_shows_shares_of_the_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = run(capsys, "table", folder / "before.json", "--filter", "op19$")
    line = next(line for line in text.splitlines() if NAMES[19] in line)
    expected = COSTS_NS[19] / COSTS_NS.sum() * 100
    assert float(line.split()[1].rstrip("%")) == pytest.approx(expected, rel=0.1)


def test_a_table_as_data(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = run(capsys, "table", folder / "before.json", "--json")
    by_name = {row["key"]: row for row in json.loads(text)}
    assert by_name[NAMES[3]]["count"] == 50
    _, text, _ = run(capsys, "table", folder / "before.json", "--csv", "--limit", "3")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["key"] for row in rows] == [NAMES[19], NAMES[18], NAMES[17]]
    _, text, _ = run(capsys, "table", folder / "before.json", "--markdown", "--limit", "1")
    assert text.splitlines()[1].startswith("| --- | ---: |")
    assert f"| `{NAMES[19]}` |" in text


def test_rows_by_module_and_what_is_inside_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = run(capsys, "table", folder / "model.json", "--by", "module", "--json")
    rows = {row["key"]: row for row in json.loads(text)}
    assert rows["Sequential.0"]["count"] == 1
    assert rows["Sequential"]["cpu_time_total"] >= rows["Sequential.0"]["cpu_time_total"]
    _, text, _ = run(capsys, "table", folder / "model.json", "--module", r"\.0$", "--json")
    names = {row["key"] for row in json.loads(text)}
    assert {"aten::linear", "aten::addmm", "AddmmBackward0", "aten::mm"} <= names
    assert not names & {"aten::relu", "ReluBackward0"}


def test_rows_by_shape_and_stack(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = run(capsys, "table", folder / "model.json", "--by", "shape", "--filter", "addmm")
    assert "[[4], [2, 4], [4, 4]" in text
    _, text, _ = run(capsys, "table", folder / "model.json", "--by", "stack", "--filter", "aten::addmm")
    assert "nn.Module: Linear_0" in text


def test_what_was_not_recorded_is_explained(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, errors = run(capsys, "table", folder / "before.json", "--by", "module")
    assert (code, text) == (2, "")
    assert "with_modules=True" in errors
    code, _, errors = run(capsys, "table", folder / "before.json", "--filter", "nosuchop")
    assert code == 0
    assert "no row matches" in errors


def test_data_goes_to_stdout_without_colours_and_stdin_is_read(folder: Path) -> None:
    content = gzip.compress((folder / "before.json").read_bytes())
    done = mindtorch("table", "-", "--limit", "1", stdin=content)
    assert NAMES[19] in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr == ""
    done = mindtorch("table", "-", stdin=b"")
    assert done.returncode == 2
    assert (
        done.stderr == "mindtorch: stdin is empty; pipe a Chrome trace (.json, .json.gz) of torch or of this package, "
        "or a spool (.mtspool) into the command\n"
    )


# info, convert, report, merge


def test_info(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = run(capsys, "info", folder / "before.json", "--json")
    facts = json.loads(text)
    assert facts["steps"] == 50
    assert facts["events"] == 50 * (OPS + 1)
    _, text, _ = run(capsys, "info", folder / "model.json")
    assert "shapes" in text
    assert "hottest" in text


def test_convert_goes_by_the_end_of_the_name(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "smaller.json.gz"
    code, text, errors = run(capsys, "convert", folder / "before.json", target)
    assert (code, text) == (0, "")
    assert f"wrote {target}" in errors
    assert sum(map(len, load(target).tracks)) == 50 * (OPS + 1)
    code, _, errors = run(capsys, "convert", folder / "before.json", tmp_path / "trace.docx")
    assert code == 2
    assert "end it with one of" in errors
    code, _, errors = run(capsys, "convert", folder / "before.json", tmp_path / "nowhere" / "trace.json")
    assert code == 2
    assert "no such folder" in errors


def test_a_format_whose_extra_is_missing_names_it(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, errors = run(capsys, "convert", folder / "before.json", tmp_path / "events.parquet")
    assert code == 2
    assert errors == "mindtorch: writing Parquet needs pyarrow: pip install 'mindtorch-v2[parquet]'\n"


def test_report_writes_one_file(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.html"
    code, _, errors = run(capsys, "report", folder / "model.json", "-o", path, "--before", folder / "model.json")
    assert code == 0
    assert f"report: {path}" in errors
    assert path.read_text().lower().startswith("<!doctype html>")


def test_merge_writes_one_trace_of_all(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "all.json"
    code, _, errors = run(capsys, "merge", folder / "before.json", folder / "slower.json.gz", "-o", target)
    assert code == 0
    assert "slower: 50 steps of" in errors
    assert "over the fastest" in errors
    merged = load(target)
    assert {track.pid for track in merged.tracks if len(track)} == {track.pid for track in merged.tracks}
    assert len({track.pid for track in merged.tracks}) == 2
    groups = [event for event in json.loads(target.read_text())["traceEvents"] if event["name"] == "process_name"]
    assert {event["args"]["name"] for event in groups} == {"before", "slower"}
    _, text, _ = run(capsys, "info", target)
    assert "before: " in text
    assert "slower: " in text
    code, _, errors = run(capsys, "merge", folder / "before.json", "-o", target, "--labels", "a,b")
    assert code == 2
    assert "2 labels for 1 files" in errors


# diff


def test_diff_names_what_got_slower(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(capsys, "diff", *sides(folder))
    assert code == 0
    slower = [line for line in text.splitlines() if line.startswith("slower")]
    assert [line.split()[1] for line in slower] == [NAMES[7]]
    code, text, _ = run(
        capsys, "diff", side(folder, "before"), side(folder, "equal"), "--json", "--smallest-effect", "5%"
    )
    assert {row["verdict"] for row in json.loads(text)["rows"]} <= {"same", "unclear"}


def test_one_run_a_side_makes_suspect_and_a_baseline_makes_sure(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, slower = folder / "before.json", folder / "slower.json.gz"
    _, text, _ = run(capsys, "diff", before, slower)
    assert "one run a side: how much runs differ is not known" in text
    assert [line.split()[1] for line in text.splitlines() if line.startswith("unclear ")] == [NAMES[7]]
    code, _, talk = run(capsys, "diff", before, slower, "--fail-over", "10%")
    assert code == 3
    assert "FAILED: one run a side" in talk
    kept = tmp_path / "baseline.json"
    code, _, talk = run(capsys, "diff", side(folder, "before"), slower, "--write-baseline", kept)
    assert (code, talk) == (0, f"mindtorch: baseline of 5 runs: {kept}\n")
    for baseline in (kept, side(folder, "equal")):
        code, text, talk = run(capsys, "diff", before, slower, "--baseline", baseline, "--fail-over", "10%")
        assert code == 1
        assert [line.split()[1] for line in text.splitlines() if line.startswith("slower")] == [NAMES[7]]
    code, _, talk = run(capsys, "diff", before, slower, "--baseline", before)
    assert code == 2
    assert "this is no baseline" in talk


def test_a_gate_passes_fails_and_fails_when_it_measured_nothing(folder: Path, tmp_path: Path) -> None:
    gate = ["--fail-over", "10%"]
    assert mindtorch("diff", side(folder, "before"), side(folder, "equal"), *gate).returncode == 0
    done = mindtorch("diff", *sides(folder), *gate, "--junit", tmp_path / "out.xml")
    assert done.returncode == 1
    assert f"FAILED: {NAMES[7]} is" in done.stderr
    suite = ET.parse(tmp_path / "out.xml").getroot()
    failed = [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None]
    assert failed == [NAMES[7]]
    assert suite.get("failures") == "1"
    done = mindtorch("diff", folder / "empty.json", folder / "empty.json", *gate)
    assert done.returncode == 3
    assert "nothing was measured" in done.stderr


def on_a_terminal(*arguments: str | Path, **more: str) -> str:
    """What the command shows on a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(COMMAND), *map(str, arguments)], stdout=theirs, stderr=theirs, env=environment(TERM="xterm", **more)
    )
    os.close(theirs)
    shown = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):
        # Reading from a terminal whose other end has gone is an error on Linux.
        while part := terminal.read(4096):
            shown += part
    assert process.wait(timeout=60) == 0
    return shown.decode()


def test_colours_are_for_terminals_whose_users_like_them(folder: Path) -> None:
    files = sides(folder)
    assert "\x1b[31mslower" in on_a_terminal("diff", *files, NO_COLOR="")
    assert "\x1b" not in on_a_terminal("diff", *files, NO_COLOR="1")


def test_diff_in_markdown_and_with_several_captures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, slower = sides(folder)
    code, text, _ = run(capsys, "diff", f"{before},{folder / 'equal.json'}", slower, "--markdown")
    assert code == 0
    assert "in 6 and 5 runs" in text
    assert f"| **slower** | `{NAMES[7]}` |" in text


def test_diff_by_module_and_stack(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = folder / "model.json"
    code, text, _ = run(capsys, "diff", model, model, "--by", "module", "--all")
    assert code == 0
    assert "Sequential.0" in text
    code, text, _ = run(capsys, "diff", model, model, "--by", "stack", "--all", "--json")
    assert any("aten::addmm < " in row["name"] for row in json.loads(text)["rows"])


HOSTILE = [
    '<script>"&|`\x01',
    "a\nb",
    "\x1b[31mred\x1b]0;title\x07",
    "\x9b31m",
    "\u202eturned",
    "\u2028",
    "\ud800 alone",
    "=HYPERLINK(1)",
    "]]>",
    "x" * 100_000,
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace whose names would like to be more than names."""
    path = tmp_path_factory.mktemp("hostile") / "hostile.json"
    capture = capture_of(np.full((10, len(HOSTILE)), 1000.0), HOSTILE)
    write(replace(capture, metadata={"\x1b[2J": "\x1b[2J"}), path)
    return path


def test_hostile_names_stay_text(hostile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(capsys, "diff", hostile, hostile, "--all", "--markdown", "--junit", tmp_path / "out.xml")
    assert code == 0
    assert "\\|'" in text
    assert all(line.startswith(("| ", "- ", "###")) for line in text.splitlines() if line)
    cases = {case.get("name") for case in ET.parse(tmp_path / "out.xml").iter("testcase")}
    assert {'<script>"&|`�', "]]>", "� alone"} <= cases


@pytest.mark.parametrize("arguments", [["table"], ["table", "--markdown"], ["info"], ["diff", "--all"]])
def test_no_name_steers_the_terminal(hostile: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    files = [hostile] * (2 if arguments[0] == "diff" else 1)
    code, text, talk = run(capsys, arguments[0], *files, *arguments[1:])
    assert code == 0
    assert {char for char in text + talk if ord(char) < 32 or 127 <= ord(char) < 160} == {"\n"}
    assert not set(text) & set("\u202e\u2028\ud800")
    assert max(map(len, text.splitlines())) < 400


def test_cells_of_csv_are_no_formulas(hostile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = run(capsys, "table", hostile, "--csv")
    names = [row[0] for row in csv.reader(io.StringIO(text, newline=""))]
    assert "'=HYPERLINK(1)" in names
    assert "a\nb" in names
    run(capsys, "convert", hostile, tmp_path / "events.csv")
    with open(tmp_path / "events.csv", newline="", encoding="utf-8") as file:
        assert not any(cell.startswith("=") for row in csv.reader(file) for cell in row)


@pytest.mark.parametrize("suffix", [".csv", ".collapsed", ".speedscope.json", ".pftrace", ".pb.gz", ".json"])
def test_every_format_takes_every_name(
    hostile: Path, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, talk = run(capsys, "convert", hostile, tmp_path / f"hostile{suffix}")
    assert (code, talk.count("\n")) == (0, 1)
    assert (tmp_path / f"hostile{suffix}").stat().st_size > 0


def test_output_that_knows_only_ascii_gets_ascii(folder: Path) -> None:
    done = mindtorch("diff", folder / "before.json", folder / "slower.json.gz", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert " ... " in done.stdout
    assert mindtorch("run", "--help", PYTHONIOENCODING="ascii").returncode == 0


def test_narrow_terminals_get_tables_that_fit(folder: Path) -> None:
    shown = on_a_terminal("table", folder / "model.json", "--by", "shape", COLUMNS="60", NO_COLOR="1")
    assert max(map(len, shown.splitlines())) <= 60
    assert "aten::addmm" in shown
    full = on_a_terminal("table", folder / "model.json", "--wide", COLUMNS="60", NO_COLOR="1")
    assert "CPU time avg" in full
    shown = on_a_terminal("diff", *sides(folder), COLUMNS="60", NO_COLOR="1")
    rows = [line for line in shown.splitlines() if line.startswith(("Verdict", "slower"))]
    assert max(map(len, rows)) <= 60
    assert NAMES[7] in rows[1]


def test_a_reader_that_has_seen_enough_is_no_error(folder: Path) -> None:
    process = subprocess.Popen(
        [str(COMMAND), "table", str(folder / "before.json"), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    process.stdout.close()
    _, talk = process.communicate(timeout=60)
    assert (process.returncode, talk) == (0, b"")


def test_modules_of_torchs_traces_nest_by_their_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = [("nn.Module: Outer_0", 0, 100), ("nn.Module: Linear_0", 10, 60), ("nn.Module: Linear_1", 80, 10)]
    events = [
        {"ph": "X", "cat": "python_function", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": length}
        | {"args": {"Python id": place + 1, "Python module id": place}}
        for place, (name, start, length) in enumerate(calls)
    ]
    events.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 20, "dur": 40, "args": {}})
    (tmp_path / "torch.json").write_text(json.dumps({"traceEvents": events}))
    _, text, _ = run(capsys, "table", tmp_path / "torch.json", "--by", "module", "--json")
    totals = {row["key"]: row["cpu_time_total"] for row in json.loads(text)}
    assert totals == {"Outer_0": 100, "Outer_0.Linear_0": 60, "Outer_0.Linear_1": 10}
    _, text, _ = run(capsys, "table", tmp_path / "torch.json", "--module", "Outer", "--json")
    assert [row["key"] for row in json.loads(text)] == ["aten::mm"]


def test_large_changes_are_shown_as_multiples() -> None:
    assert [percent(value) for value in (0.1, -0.5, 8.99, 887.28)] == ["+10.0%", "-50.0%", "+899.0%", "×888.3"]


# full disks


@pytest.mark.parametrize(
    "command",
    [
        ("convert", "model.json", "out.speedscope.json"),
        ("convert", "model.json", "out.json.gz"),
        ("merge", "before.json", "equal.json", "-o", "out.json"),
        ("report", "model.json", "-o", "out.html"),
        ("diff", "before.json", "equal.json", "--junit", "out.xml"),
    ],
)
def test_a_full_disk_leaves_the_old_file_and_is_told_in_one_line(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    def full(file: object, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    target = tmp_path / next(word for word in command if word.startswith("out"))
    target.write_text("old")
    words = [target if word == target.name else folder / word if "." in word else word for word in command]
    monkeypatch.setattr(_files._Named, "write", full)
    code, _, said = run(capsys, *words)
    assert code == 2
    assert said.splitlines()[-1].endswith(f"{target}: No space left on device; free some space or write elsewhere")
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == [target.name]
