"""The flight recorder: what makes it write, and that it leaves everything as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.core import errors
from mindtorch_v2.profiler import flight, load
from mindtorch_v2.profiler.record.recorder import RECORDER


class Clock:
    """Every step takes what is said, by this clock."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def steps(times: list[float], clock: Clock) -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for took in times:
        clock.now += took
        weight.exp().sum().backward()
        optimizer.step()


def test_a_slow_step_is_written_with_the_steps_before_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with flight(100, tmp_path, clock=clock) as recorder:
        steps([1.0] * 30 + [2.9, 3.5] + [1.0] * 5, clock)
    assert len(recorder.files) == 1
    assert "slow step: 3500 ms where 1000 ms are usual" in capsys.readouterr().err
    names = [event.name for event in load(recorder.files[0]).events()]
    assert names.count("aten::exp") == 32
    assert names.count("ProfilerStep*") == 31


def test_old_windows_are_dropped(tmp_path: Path) -> None:
    with flight(100, tmp_path) as recorder:
        for _ in range(4):
            torch.ones(2).exp()
            recorder.turn()
            assert len(RECORDER.sessions) == 2
        torch.ones(2).sin()
        path = recorder.write("asked for")
    names = [event.name for event in load(path).events()]
    assert (names.count("aten::exp"), names.count("aten::sin")) == (1, 1)
    assert load(path).metadata["flight"] == "asked for"
    assert RECORDER.sessions == []


def test_exceptions_memory_and_signals_are_written_and_all_is_as_before(tmp_path: Path) -> None:
    before = sys.excepthook, threading.excepthook, signal.getsignal(signal.SIGUSR2)
    recorder = flight(100, tmp_path / "raised")
    with pytest.raises(ZeroDivisionError), recorder:
        raise ZeroDivisionError
    assert len(recorder.files) == 1
    with flight(100, tmp_path / "told", most=2) as recorder:
        errors.no_memory(MemoryError())
        assert len(recorder.files) == 1
        os.kill(os.getpid(), signal.SIGUSR2)
        assert len(recorder.files) == 2
        assert recorder.write("one too many") == ""
    assert (sys.excepthook, threading.excepthook, signal.getsignal(signal.SIGUSR2)) == before


def test_the_environment_starts_it_and_an_uncaught_exception_ends_as_ever(tmp_path: Path) -> None:
    program = "import mindtorch_v2 as torch; torch.ones(2).exp(); raise KeyError('gone')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "MINDTORCH_FLIGHT": str(tmp_path / "flown")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.endswith("KeyError: 'gone'\n")
    (written,) = (tmp_path / "flown").iterdir()
    assert "aten::exp" in [event.name for event in load(written).events()]


def test_senseless_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="expected seconds > 0"):
        flight(0)
