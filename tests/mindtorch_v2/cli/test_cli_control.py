"""Talking to running programs: top, attach, and who may."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mindtorch_v2 as torch
from command_line import mindtorch, started
from mindtorch_v2.cli import wire
from mindtorch_v2.cli.terminal import UserError
from mindtorch_v2.profiler import control, program
from mindtorch_v2.profiler.analyse.metrics import Metrics
from mindtorch_v2.profiler.api.load import load

# Works until its stdin is closed.
PROGRAM = """
import sys
import threading
import torch

closed = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), closed.set()), daemon=True).start()
x = torch.ones(16, 16)
print("ready", flush=True)
while not closed.wait(0.002):
    torch.tanh(x @ x)
print("done")
"""


@pytest.fixture
def runtime() -> Iterator[str]:
    """A folder for sockets with a short path, which sockets need."""
    with tempfile.TemporaryDirectory(prefix="mt") as folder:
        yield folder


@pytest.fixture
def running(tmp_path: Path, runtime: str) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "program.py").write_text(PROGRAM)
    process = started("run", "program.py", cwd=tmp_path, XDG_RUNTIME_DIR=runtime)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, output, errors) == (0, "done\n", "")


def test_a_running_program_is_watched_and_profiled(
    running: subprocess.Popen[str], runtime: str, tmp_path: Path
) -> None:
    pid = str(running.pid)

    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        return mindtorch(*arguments, cwd=tmp_path, XDG_RUNTIME_DIR=runtime)

    view = json.loads(ask("top", "--once", "--interval", "1", "--json").stdout)
    assert view["pid"] == running.pid
    assert not view["recording"]
    assert {"aten::tanh", "aten::mm"} <= {row["name"] for row in view["rows"]}
    assert ask("top", "--list").stdout == f"{pid} program.py\n"
    assert ask("attach", pid, "status").stdout == f"{pid}: program.py: not profiled\n"
    assert ask("attach", pid, "start", "--shapes", "-o", "out").returncode == 0
    shown = ask("top", pid, "--count", "3", "--interval", "0.5").stdout
    assert "being profiled" in shown.splitlines()[0]
    assert "aten::tanh" in shown
    done = ask("attach", pid, "stop")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == str(tmp_path / "out" / "trace.json")
    metrics = Metrics(load(tmp_path / "out" / "trace.json"))
    assert metrics.of_kinds(lambda kind: kind.name == "aten::tanh").any()
    assert not any(track.name.startswith("mindtorch-") for track in metrics.capture.tracks)
    done = ask("attach", pid, "stop")
    assert done.returncode == 2
    assert "is not being profiled from outside" in done.stderr


def test_the_end_of_the_program_waits_for_files_that_are_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trace of an attached profile is written before its report; a program that ends between the two must not."""
    control.answer({"do": "start", "folder": str(tmp_path / "out")})
    torch.ones(2)
    halfway, go_on, done = threading.Event(), threading.Event(), []

    def write_files(*arguments: Any) -> dict[str, str]:
        halfway.set()
        assert go_on.wait(60)
        return program.write_files(*arguments)

    monkeypatch.setattr(control, "write_files", write_files)
    request = threading.Thread(target=control.answer, args=({"do": "stop"},))
    request.start()
    assert halfway.wait(60)
    ending = threading.Thread(
        target=lambda: (control.finish(), done.append((tmp_path / "out" / "report.html").exists()))
    )
    ending.start()
    assert ending.is_alive()
    go_on.set()
    ending.join(60)
    request.join(60)
    assert done == [True]


def test_the_socket_is_for_its_owner_alone(running: subprocess.Popen[str], runtime: str) -> None:
    folder = Path(runtime) / "mindtorch"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / f"{running.pid}.sock").stat().st_mode) == 0o600


def test_a_program_that_wants_no_socket_has_none(tmp_path: Path, runtime: str) -> None:
    (tmp_path / "quiet.py").write_text("import threading\nprint([thread.name for thread in threading.enumerate()])\n")
    done = mindtorch("run", "quiet.py", cwd=tmp_path, XDG_RUNTIME_DIR=runtime, MINDTORCH_CONTROL="0")
    assert done.stdout == "['MainThread']\n"
    assert os.listdir(runtime) == []


def test_a_folder_others_can_enter_is_refused(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    os.mkdir(os.path.join(runtime, "mindtorch"), 0o755)
    with pytest.raises(UserError, match="not a folder of yours alone"):
        wire.request(1, {"do": "status"})


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="the system does not tell who is at the other end")
def test_another_user_gets_no_answer(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert wire._is_own_user(ours)
        monkeypatch.setattr(wire.os, "getuid", lambda: os.geteuid() + 1)
        assert not wire._is_own_user(ours)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    monkeypatch.setattr(wire, "_is_own_user", lambda connection: False)
    with wire.listening(lambda request: {"told": True}), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.path.join(runtime, "mindtorch", f"{os.getpid()}.sock"))
        assert connection.recv(1) == b""


def test_requests_and_failures_come_back(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)

    def answer(request: dict[str, int]) -> dict[str, int]:
        return {"twice": 2 * request["number"]}

    with wire.listening(answer):
        assert wire.programs() == [os.getpid()]
        assert wire.request(os.getpid(), {"number": 21}) == {"twice": 42}
        with pytest.raises(UserError, match="KeyError: 'number'"):
            wire.request(os.getpid(), {})
    assert wire.programs() == []
    with pytest.raises(UserError, match="cannot be reached"):
        wire.request(os.getpid(), {})
