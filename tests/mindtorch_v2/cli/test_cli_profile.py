"""`mindtorch profile`: unmodified programs, their steps, their exit codes, and what is left of them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from command_line import mindtorch, started
from mindtorch_v2.profiler.analyse.metrics import Metrics
from mindtorch_v2.profiler.analyse.samples import step_intervals
from mindtorch_v2.profiler.api.load import load

TRAINING = """
import sys
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)
    def forward(self, x):
        return self.second(self.first(x).relu())

def train_step(model, optimizer):
    loss = model(torch.ones(2, 8)).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(int(sys.argv[1])):
    train_step(model, optimizer)
print("trained")
sys.exit(7)
"""


def steps_of(path: Path) -> list[int]:
    trace = json.loads(path.read_text())
    names = [event["name"] for event in trace["traceEvents"] if event.get("ph") == "X"]
    return sorted(int(name.removeprefix("ProfilerStep#")) for name in names if name.startswith("ProfilerStep#"))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "training.py"
    path.write_text(TRAINING)
    return path


def test_a_program_is_profiled_as_it_is(program: Path, tmp_path: Path) -> None:
    done = mindtorch("profile", "--shapes", "--memory", "--flops", "-o", "out", program, "4", cwd=tmp_path)
    assert done.returncode == 7
    assert done.stdout.startswith("trained\n")
    assert "aten::addmm" in done.stdout
    assert "trace: out/trace.json" in done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"trace.json", "report.html", "capture.mtspool"}
    assert steps_of(tmp_path / "out" / "trace.json") == [0, 1, 2, 3]
    from_spool = load(tmp_path / "out" / "capture.mtspool")
    assert from_spool.options.shapes
    assert from_spool.options.memory
    trace = json.loads((tmp_path / "out" / "trace.json").read_text())
    assert trace["trace_id"]
    # What recording costs is known to whoever opens the files later.
    assert trace["profiler_cost"] == from_spool.metadata["profiler_cost"]
    assert trace["profiler_cost"]["event_ns"] > 0


def test_only_the_steps_asked_for_are_recorded_and_nest_with_functions(program: Path, tmp_path: Path) -> None:
    options = ["--wait", "2", "--warmup", "1", "--steps", "3", "--stacks", "--no-report"]
    done = mindtorch("profile", *options, "-o", "out", program, "8", cwd=tmp_path)
    assert done.returncode == 7
    assert steps_of(tmp_path / "out" / "trace.json") == [3, 4, 5]
    metrics = Metrics(load(tmp_path / "out" / "trace.json"))
    begin, _ = step_intervals(metrics)
    functions = metrics.of_kinds(lambda kind: kind.name.endswith(": train_step"))
    starts = np.sort(metrics.start_ns[functions & (metrics.total_ns > 0)])
    # From the second step on each holds the whole function that makes it.
    assert (starts[-2:] > begin[-2:]).all()
    assert not metrics.of_kinds(lambda kind: "_launcher" in kind.name or "cli/" in kind.name).any()


def test_nothing_recorded_is_said(program: Path, tmp_path: Path) -> None:
    done = mindtorch("profile", "--wait", "9", "-o", "out", program, "2", cwd=tmp_path)
    assert done.returncode == 7
    assert "nothing was recorded: the program made 2 steps" in done.stderr
    (tmp_path / "plain.py").write_text("print('no torch')\n")
    done = mindtorch("profile", "--no-report", "plain.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "no torch\n")
    assert "nothing was recorded: the program called no operator of torch" in done.stderr


OWN_PROFILER = """
import torch
from torch.profiler import profile, schedule

weight = torch.ones(4, 4, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
seen = []
with profile(schedule=schedule(wait=1, warmup=1, active=2), on_trace_ready=lambda p: seen.append(len(p.events()))) as own:
    for _ in range(4):
        (weight @ weight).sum().backward()
        optimizer.step()
        own.step()
print(len(seen), seen[0] > 10)
"""


def test_a_program_that_profiles_itself_keeps_its_events_and_its_steps_count(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN_PROFILER)
    done = mindtorch("profile", "--no-report", "own.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 True\n")
    assert steps_of(tmp_path / "own.profile" / "trace.json") == [0, 1, 2, 3, 4]


def test_an_error_is_the_programs_own(tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text("import torch\ntorch.ones(2) + torch.ones(3)\n")
    done = mindtorch("profile", "--no-report", "fails.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "RuntimeError: The size of tensor a (2) must match" in done.stderr
    assert "cli" not in done.stderr.split("Traceback")[1]
    assert (tmp_path / "fails.profile" / "trace.json").exists()


# Large products, so that little is recorded however long the signal takes to come.
ENDLESS = """
import sys
import torch
x = torch.ones(400, 400)
x @ x
print("ready", flush=True)
while True:
    x @ x
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_end_the_program_and_keep_the_profile(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    running = started("profile", "--no-report", "endless.py", cwd=tmp_path)
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    running.send_signal(number)
    try:
        output, errors = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode == -number
    assert "aten::mm" in output
    assert "trace: endless.profile/trace.json" in errors
    assert len(Metrics(load(tmp_path / "endless.profile" / "trace.json"))) > 0


def test_a_programs_own_handler_of_sigterm_is_its_own(tmp_path: Path) -> None:
    handles = "import os, signal, sys, torch\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
    (tmp_path / "handles.py").write_text(handles + "torch.ones(2).exp()\nos.kill(os.getpid(), signal.SIGTERM)\n")
    done = mindtorch("profile", "--no-report", "handles.py", cwd=tmp_path)
    assert done.returncode == 5
    assert "aten::exp" in done.stdout


def test_a_forked_worker_dies_of_sigterm_as_ever(tmp_path: Path) -> None:
    forks = """
import os, signal, torch
ready, says = os.pipe()
child = os.fork()
if not child:
    os.write(says, b"!")
    while True:
        pass
os.read(ready, 1)  # a signal that comes while a process forks is lost
os.kill(child, signal.SIGTERM)
print(os.waitpid(child, 0)[1])
"""
    (tmp_path / "forks.py").write_text(forks)
    done = mindtorch("profile", "--no-report", "forks.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{int(signal.SIGTERM)}\n")


# Ends, without a word to anybody, once enough of it is on disk.
KILLED = """
import os
import torch
x = torch.ones(8, 8)
while os.path.getsize("killed.profile/capture.mtspool") < 100_000:
    x @ x
os._exit(9)
"""


def test_of_a_killed_program_the_spool_is_recovered(tmp_path: Path) -> None:
    (tmp_path / "killed.py").write_text(KILLED)
    done = mindtorch("profile", "killed.py", cwd=tmp_path)
    assert done.returncode == 9
    assert not (tmp_path / "killed.profile" / "trace.json").exists()
    done = mindtorch("recover", "killed.profile/capture.mtspool", "-o", "rescued.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "note:" in done.stderr
    assert sum(map(len, load(tmp_path / "rescued.json").tracks)) > 1000


def test_the_profiler_runs_as_a_module(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text("import torch\ntorch.ones(2).exp()\n")
    command = [sys.executable, "-m", "mindtorch_v2.profiler", "--no-report", "small.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "aten::exp" in done.stdout
    assert (tmp_path / "small.profile" / "trace.json").exists()


def test_a_module_is_profiled(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text("import sys, torch\ntorch.ones(2).exp()\nprint(sys.argv[1:])\n")
    done = mindtorch("profile", "--no-report", "-m", "package", "--own", "option", cwd=tmp_path)
    assert done.stdout.startswith("['--own', 'option']\n")
    assert "aten::exp" in done.stdout
    assert (tmp_path / "package.profile" / "trace.json").exists()
