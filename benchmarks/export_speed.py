"""Writing a Chrome trace of 200 k events: seconds and bytes, plain and compressed, beside torch's exporter.

Both sides record the same loop anew for every round, since torch writes a trace only once, and take turns.
"""

import gc
import os
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from harness import OURS, THEIRS, Row, packages, report

os.environ["KINETO_LOG_LEVEL"] = "6"
warnings.simplefilter("ignore")

EVENTS = 200_000
# How a loop of ops is recorded, and how many events of the trace each op makes (its result comes and goes).
MODES: dict[str, tuple[dict[str, bool], int]] = {
    "plain": ({}, 1),
    "record_shapes": ({"record_shapes": True}, 1),
    "profile_memory": ({"profile_memory": True}, 3),
    "with_stack": ({"with_stack": True}, 2),
}
# By the end of the file's name: how much of torch's time ours may take, how many rounds, and in which modes.
BOUNDS = {".json": 0.5, ".json.gz": 0.25}
ROUNDS = {".json": 3, ".json.gz": 1}
CHOSEN = {".json": list(MODES), ".json.gz": ["plain", "record_shapes"]}


class Export(NamedTuple):
    seconds: float
    size: int


def double(x: Any) -> None:
    x + x


def recorded(package: ModuleType, options: dict[str, bool], ops: int) -> Any:
    x = package.ones((4, 4))
    prof = package.profiler.profile(**options)
    prof.start()
    if options.get("with_stack"):
        for _ in range(ops):
            double(x)
    else:
        for _ in range(ops):
            x + x
    prof.stop()
    return prof


def export(package: ModuleType, options: dict[str, bool], ops: int, path: Path) -> Export:
    """Thread CPU seconds from the end of a recording to the end of its file; what ours puts off until then counts."""
    prof = recorded(package, options, ops)
    began = time.thread_time()
    prof.export_chrome_trace(str(path))
    return Export(time.thread_time() - began, path.stat().st_size)


def measure(mode: str, suffix: str, folder: Path) -> dict[str, Export]:
    options, events_per_op = MODES[mode]
    found: dict[str, list[Export]] = {name: [] for name in packages()}
    for _ in range(ROUNDS[suffix]):
        for name, package in packages().items():
            path = folder / f"{name}{suffix}"
            found[name].append(export(package, options, EVENTS // events_per_op, path))
    return {
        name: Export(statistics.median(e.seconds for e in exports), round(statistics.median(e.size for e in exports)))
        for name, exports in found.items()
    }


def train(package: ModuleType, steps: int) -> None:
    nn = package.nn
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    loss, optimizer = nn.CrossEntropyLoss(), package.optim.SGD(net.parameters(), lr=0.1)
    x, y = package.ones((5, 8)), package.tensor([0, 1, 2, 3, 0])
    for _ in range(steps):
        optimizer.zero_grad()
        loss(net(x), y).backward()
        optimizer.step()


def training(options: dict[str, bool], path: Path) -> dict[str, float]:
    """Nanoseconds an event of a trace of training steps, with arrows, many names and many shapes in it."""
    found: dict[str, list[float]] = {name: [] for name in packages()}
    for _ in range(3):
        for name, package in packages().items():
            train(package, 3)
            prof = package.profiler.profile(**options)
            prof.start()
            train(package, 1500)
            prof.stop()
            gc.collect()  # torch's results are in cycles, and whoever is next would pay for clearing them away
            began = time.thread_time_ns()
            prof.export_chrome_trace(str(path))
            took = time.thread_time_ns() - began
            found[name].append(took / path.read_bytes().count(b'"ph"'))
    return {name: statistics.median(samples) for name, samples in found.items()}


EVERYTHING = {"record_shapes": True, "profile_memory": True, "with_stack": True}


def main() -> None:
    times, sizes = [], []
    with tempfile.TemporaryDirectory() as folder:
        for suffix, bound in BOUNDS.items():
            for mode in CHOSEN[suffix]:
                found = measure(mode, suffix, Path(folder))
                ours, theirs = found[OURS], found.get(THEIRS)
                name = f"{mode} {suffix}"
                times.append(Row(name, ours.seconds * 1e3, theirs and theirs.seconds * 1e3, bound=bound))
                sizes.append(Row(name, ours.size / 1e6, theirs and theirs.size / 1e6, bound=1.0))
        steps = []
        for title, options in (("plain", {}), ("shapes, memory and stacks", EVERYTHING)):
            both = training(options, Path(folder) / "training.json")
            steps.append(Row(f"training steps, {title}", both[OURS], both.get(THEIRS), bound=BOUNDS[".json"]))
    report("export_time", times, "ms")
    report("export_training", steps, "ns/event")
    report("export_size", sizes, "MB")


if __name__ == "__main__":
    main()
