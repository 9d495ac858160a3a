"""The keys of traces beside torch 2.13's: one training step in nine modes, as torch wrote them (data/torch_trace_keys.json)."""

import json
from pathlib import Path
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.profiler import _ExperimentalConfig, profile, record_function, schedule

TORCH = json.loads((Path(__file__).parents[1] / "data" / "torch_trace_keys.json").read_text())
FLAGS = ("record_shapes", "profile_memory", "with_stack", "with_modules", "with_flops")
MODES: dict[str, dict[str, Any]] = {
    "plain": {},
    "shapes": {"record_shapes": True},
    "mem": {"profile_memory": True},
    "stack": {"with_stack": True},
    "stackverbose": {"with_stack": True, "experimental_config": _ExperimentalConfig(verbose=True)},
    "flops": {"with_flops": True},
    "modules": {"with_modules": True},
    "all": dict.fromkeys(FLAGS, True),
    "sched": {"schedule": schedule(wait=1, warmup=1, active=2)},
}
# What ours has on purpose and torch has not: the calls of modules without stacks, where a module sits, what blocks of
# memory were to the program, and what was timed where.
MORE_METADATA = {"environment"}
MORE_EVENTS = {"modules": {"X python_function"}, "mem": {"M memory_roles"}, "all": {"M memory_roles"}}
MORE_ARGUMENTS = {"X python_function": {"Module path"}}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        return self.second(torch.relu(self.first(x)))


def train(prof: profile, steps: int) -> None:
    net, loss = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = torch.randn(5, 8), torch.tensor([0, 1, 2, 3, 0])
    for _ in range(steps):
        optimizer.zero_grad()
        with record_function("my_fwd", "args"):
            out = net(x)
        loss(out, y).backward()
        optimizer.step()
        prof.step()


@pytest.fixture(scope="module", params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def trace(mode: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("traces") / "trace.json"
    with profile(**MODES[mode]) as prof:
        train(prof, 4 if mode == "sched" else 1)
    prof.export_chrome_trace(path)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def arguments(trace: dict[str, Any]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for event in trace["traceEvents"]:
        key = f"{event['ph']} {event.get('cat') or event['name']}"
        found.setdefault(key, set()).update(event.get("args", {}))
    return found


def test_the_nine_modes_are_torchs() -> None:
    assert set(MODES) == set(TORCH)


def test_metadata_has_torchs_keys(mode: str, trace: dict[str, Any]) -> None:
    assert sorted(set(trace) - MORE_METADATA) == sorted(TORCH[mode]["metadata"])


def test_events_have_torchs_categories(mode: str, trace: dict[str, Any]) -> None:
    assert set(arguments(trace)) - MORE_EVENTS.get(mode, set()) == set(TORCH[mode]["arguments"])


def test_events_have_torchs_arguments(mode: str, trace: dict[str, Any]) -> None:
    ours = arguments(trace)
    for category, keys in TORCH[mode]["arguments"].items():
        assert ours[category] - MORE_ARGUMENTS.get(category, set()) == set(keys), category
