"""Programs on real torch under `mindtorch profile --torch`: steps, modules, windows, what is said of what was timed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import mindtorch_v2
from mindtorch_v2.cli import files, info
from mindtorch_v2.profiler.analyse.metrics import Metrics
from mindtorch_v2.profiler.analyse.modules import Modules
from mindtorch_v2.profiler.analyse.samples import step_intervals
from mindtorch_v2.profiler.capture.capture import Capture
from mindtorch_v2.profiler.program import Plan
from mindtorch_v2.profiler.read import torch_windows
from mindtorch_v2.profiler.record import step_clock
from mindtorch_v2.profiler.torch_control import MainThread, TorchControl
from mindtorch_v2.profiler.torch_program import TorchProfile

PROGRAM = """
import os, signal, sys
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

def train_step(net, optimizer):
    net(torch.ones(5, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(int(sys.argv[1])):
    train_step(net, optimizer)
    if step + 1 == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
print("trained on", torch.__version__)
"""


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 0:
            raise ValueError("empty")
        result: torch.Tensor = self.second(torch.relu(self.first(x)))
        return result


class Training:
    """A model and its optimizer; made while a profile is on, as a program does."""

    def __init__(self) -> None:
        self.net = Net()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def step(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.net(torch.ones(5, 8)).sum().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()


def finished(profiled: TorchProfile) -> Capture:
    capture = profiled.finish()
    assert capture is not None
    return capture


def names(capture: Capture) -> list[str]:
    return [capture.kinds[kind].name for track in capture.tracks for kind in track.kind.tolist()]


def mindtorch(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mindtorch_v2.profiler", *arguments]
    place = {**os.environ, "PYTHONPATH": str(Path(mindtorch_v2.__file__).parents[1])}
    return subprocess.run(command, cwd=folder, env=place, capture_output=True, text=True, timeout=120)


def test_a_program_runs_on_real_torch_and_leaves_table_trace_and_report(tmp_path: Path) -> None:
    done = mindtorch(tmp_path, "profile", "--torch", "-o", "out", "program.py", "4", "0")
    assert done.returncode == 0, done.stderr
    assert f"trained on {torch.__version__}" in done.stdout
    assert "aten::addmm" in done.stdout
    assert f"Timed: torch {torch.__version__}" in done.stdout
    assert done.stderr.startswith(f"mindtorch: timing torch {torch.__version__}\n")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"trace.json", "report.html", "windows"}
    facts = info.facts_of(files.read_capture(str(tmp_path / "out")), "")
    assert facts["steps"] == 4
    assert facts["timed"] == f"torch {torch.__version__}"


def test_a_killed_program_leaves_the_windows_that_had_ended(tmp_path: Path) -> None:
    windows = ("--wait", "1", "--active", "2", "--repeat", "0")
    done = mindtorch(tmp_path, "profile", "--torch", *windows, "-o", "out", "program.py", "20", "8")
    assert done.returncode == -signal.SIGKILL
    capture = files.read_capture(str(tmp_path / "out"))
    assert step_clock.stated(capture.metadata)["step"].tolist() == [1, 2, 4, 5]
    assert len(step_intervals(Metrics(capture))[0]) == 4


def test_steps_are_the_first_optimizers_and_the_one_under_way_is_none(tmp_path: Path) -> None:
    profiled = TorchProfile(torch, Plan(), str(tmp_path))
    profiled.start()
    torch.zeros(2)
    training = Training()
    training.step(3)
    Training().step(2)
    torch.ones(2)
    capture = finished(profiled)
    assert profiled.steps == 3
    assert [name for name in names(capture) if name.startswith("ProfilerStep#")] == [
        f"ProfilerStep#{n}" for n in range(3)
    ]
    clock = step_clock.stated(capture.metadata)
    assert clock["step"].tolist() == [0, 1, 2]
    assert (clock["wall_ns"] > 0).all()
    assert (clock["cpu_ns"] > 0).all()


def test_modules_are_there_with_their_paths_also_beside_torchs_own_events_of_them(tmp_path: Path) -> None:
    for with_stack in (False, True):
        profiled = TorchProfile(torch, Plan(), str(tmp_path), with_stack=with_stack)
        profiled.start()
        training = Training()
        training.step(2)
        with pytest.raises(ValueError, match="empty"):
            training.net(torch.ones(0, 8))
        training.step()
        metrics = Metrics(finished(profiled))
        modules = Modules(metrics)
        calls = {name: int((modules.path[modules.calls] == number).sum()) for number, name in enumerate(modules.names)}
        assert calls == {"(outside modules)": 0, "Net": 4, "Net.first": 3, "Net.second": 3}
        product = metrics.of_kinds(lambda kind: kind.name == "aten::mm")
        assert {modules.names[path] for path in modules.path[product].tolist()} == {"Net.first", "Net.second"}
        labels = [metrics.kind_of(int(kind)).name for kind in metrics.kind[modules.calls]]
        assert sorted(set(labels)) == ["nn.Module: Linear_0", "nn.Module: Linear_1", "nn.Module: Net_0"]


def test_shapes_memory_and_devices_are_recorded_when_asked_for(tmp_path: Path) -> None:
    profiled = TorchProfile(torch, Plan(), str(tmp_path), record_shapes=True, profile_memory=True)
    profiled.start()
    Training().step(2)
    capture = finished(profiled)
    assert capture.options.shapes
    assert capture.options.memory
    assert sum(len(track.nbytes) for track in capture.tracks) > 0
    said = capture.metadata["environment"]
    assert said["implementation"] == f"torch {torch.__version__}"
    assert said["devices"][0] == "cpu"
    assert said["threads"] == torch.get_num_threads()


def test_windows_become_one_capture_in_which_threads_and_gradients_go_on(tmp_path: Path) -> None:
    profiled = TorchProfile(torch, Plan(wait=1, warmup=1, active=2, repeat=2), str(tmp_path))
    profiled.start()
    Training().step(10)
    capture = finished(profiled)
    assert len(torch_windows.files(tmp_path)) == 2
    assert len(capture.tracks) == 1
    assert step_clock.stated(capture.metadata)["step"].tolist() == [2, 3, 6, 7]
    metrics = Metrics(capture)
    assert len(metrics.flows[0]) >= 4
    forward, nodes = metrics.flows
    assert (metrics.start_ns[nodes] > metrics.end_ns[forward]).all()
    starts = step_intervals(metrics)[0]
    step_of = [np.searchsorted(starts, metrics.start_ns[places], side="right") for places in (forward, nodes)]
    assert (step_of[0] == step_of[1]).all()


def test_a_long_run_without_a_plan_is_cut_at_ends_of_steps(tmp_path: Path) -> None:
    seconds = iter(range(0, 1000, 15))
    profiled = TorchProfile(torch, Plan(), str(tmp_path), clock=lambda: float(next(seconds)))
    profiled.start()
    Training().step(6)
    capture = finished(profiled)
    assert len(torch_windows.files(tmp_path)) > 2
    assert step_clock.stated(capture.metadata)["step"].tolist() == list(range(6))


def test_a_profiler_of_the_programs_own_gets_its_events_and_ours_makes_room(tmp_path: Path) -> None:
    profiled = TorchProfile(torch, Plan(), str(tmp_path))
    profiled.start()
    training = Training()
    training.step(2)
    with torch.profiler.profile() as own:
        torch.erf(torch.ones(3))
    training.step(2)
    capture = finished(profiled)
    assert "aten::erf" in {event.name for event in own.events()}
    assert "aten::erf" not in names(capture)
    assert any("of its own" in note for note in capture.notes)
    assert names(capture).count("Optimizer.step#SGD.step") == 4


def test_nothing_is_left_in_torch(tmp_path: Path) -> None:
    before = (torch.optim.Optimizer.__init__, torch.autograd.profiler.profile._prepare_trace)
    profiled = TorchProfile(torch, Plan(), str(tmp_path))
    profiled.start()
    profiled.finish()
    assert (torch.optim.Optimizer.__init__, torch.autograd.profiler.profile._prepare_trace) == before
    module = torch.nn.modules.module
    assert not module._global_forward_hooks
    assert not module._global_forward_pre_hooks


def test_a_program_that_waits_is_attached_to_on_its_main_thread(tmp_path: Path) -> None:
    profiled = TorchProfile(torch, Plan(wait=10**6), str(tmp_path / "none"))
    control = TorchControl(torch, profiled)
    profiled.start()
    training = Training()
    request = {"do": "start", "folder": str(tmp_path / "attached"), "options": {"record_shapes": True}}
    answers: list[dict[str, object]] = []

    def ask(what: dict[str, object]) -> None:
        asked = threading.Thread(target=lambda: answers.append(control.answer(what)))
        asked.start()
        while asked.is_alive():
            training.step()
        asked.join()

    ask(request)
    training.step(3)
    with pytest.raises(RuntimeError, match="is being profiled already"):
        control.answer(request)
    ask({"do": "stop"})
    assert profiled.finish() is None
    assert "other than the main one" in str(answers[0]["misses"])
    capture = files.read_capture(str(tmp_path / "attached"))
    assert len(step_intervals(Metrics(capture))[0]) >= 3
    assert capture.options.shapes


class Busy(MainThread):
    """A main thread that never comes to its next instruction."""

    def call(self, function: Callable[[], None]) -> bool:
        return False


def test_where_the_main_thread_is_busy_all_threads_are_recorded_and_what_is_missing_is_said(tmp_path: Path) -> None:
    profiled = TorchProfile(torch, Plan(wait=10**6), str(tmp_path / "none"))
    control = TorchControl(torch, profiled, Busy())
    profiled.start()
    started = control.answer({"do": "start", "folder": str(tmp_path / "attached")})
    working = threading.Thread(target=lambda: torch.erf(torch.ones(3)))
    working.start()
    working.join()
    control.answer({"do": "stop"})
    profiled.finish()
    assert "the main thread is busy" in started["misses"]
    assert "aten::erf" in names(files.read_capture(str(tmp_path / "attached")))


def test_attaching_to_a_program_that_is_recorded_says_when_it_can_be(tmp_path: Path) -> None:
    profiled = TorchProfile(torch, Plan(), str(tmp_path))
    profiled.start()
    with pytest.raises(RuntimeError, match="room for one profiler"):
        TorchControl(torch, profiled).answer({"do": "start", "folder": str(tmp_path / "attached")})
    profiled.finish()


def test_our_profiler_around_real_torchs_ops_says_that_it_records_none() -> None:
    told = r"recorded no op: it sees none of torch 2\.13.*mindtorch profile --torch"
    with pytest.warns(UserWarning, match=told), mindtorch_v2.profiler.profile():
        torch.ones(2) + 1


def test_our_profiler_around_our_ops_says_nothing() -> None:
    with mindtorch_v2.profiler.profile() as prof:
        mindtorch_v2.ones(2) + 1
    assert "aten::add" in {event.name for event in prof.events()}


def test_traces_of_torch_itself_say_that_nobody_knows_which_torch_they_timed(tmp_path: Path) -> None:
    with torch.profiler.profile() as prof:
        torch.ones(2)
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    facts = info.facts_of(files.read_capture(str(tmp_path / "trace.json")), "")
    assert facts["timed"] == "unknown: the file does not say"
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
