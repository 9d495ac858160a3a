"""Captures for the report's tests: empty, small, large and with hostile names. Made from arrays, without running ops."""

from typing import Any

import numpy as np

from mindtorch_v2.core import tap
from mindtorch_v2.profiler.capture.capture import CPU_OP, PYTHON_FUNCTION, USER_ANNOTATION, Capture, Kind, Track
from mindtorch_v2.profiler.record.config import RecordOptions

HOSTILE = [
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    "\"'><svg onload=window.hacked=1>",
    "javascript:window.hacked=1",
    "aten::${window.hacked=1}",
    "<!--<script>",
    "name\u2028with\u0000odd\ud800 characters",
    "=HYPERLINK(1)",
    "aten::\u202ebackwards",
    "x" * 100_000,
]


class Stacks:
    """Reads stacks from a list; stack 0 is none."""

    def __init__(self, stacks: list[list[str]]) -> None:
        self._stacks = [[], *stacks]

    def read(self, stack: int) -> list[str]:
        return self._stacks[stack]


class Builder:
    """Collects regions and memory events of threads and makes a capture of them."""

    def __init__(self, **options: bool) -> None:
        self.options = RecordOptions(**options)
        self.kinds: dict[int, Kind] = {0: Kind("[memory]", "", 0, "cpu_instant_event", None, None, None, -1, "")}
        self._numbers: dict[tuple[str, str], int] = {}
        self.rows: dict[int, list[tuple[int, ...]]] = {}
        self.memory: dict[int, list[tuple[int, int, int]]] = {}
        self.inputs: list[Any] = [None]
        self.stacks: list[list[str]] = []

    def kind(self, name: str, category: str = CPU_OP, scope: int = 0, path: str = "") -> int:
        key = (name, category)
        if key not in self._numbers:
            number = self._numbers[key] = len(self.kinds)
            module = 0 if name.startswith("nn.Module: ") else -1
            self.kinds[number] = Kind(name, "", scope, category, lambda key: key, None, None, module, path)
        return self._numbers[key]

    def shapes(self, *shapes: list[int]) -> int:
        count = len(shapes)
        self.inputs.append(tap.InputRecord(list(shapes), list(shapes), ["float"] * count, [None] * count))
        return len(self.inputs) - 1

    def cast(self, shape: list[int], source: str, target: int) -> int:
        """Inputs of a dtype cast."""
        self.inputs.append(tap.InputRecord([shape, []], [shape, []], [source, "Scalar"], [None, target]))
        return len(self.inputs) - 1

    def stack(self, *frames: str) -> int:
        self.stacks.append(list(frames))
        return len(self.stacks)

    def region(
        self, kind: int, start: int, end: int, *, thread: int = 0, seq: int = -1, inputs: int = 0, stack: int = 0
    ) -> None:
        self.rows.setdefault(thread, []).append((start, end, kind, seq, inputs, stack))

    def bytes(self, time: int, nbytes: int, address: int, thread: int = 0) -> None:
        self.memory.setdefault(thread, []).append((time, nbytes, address))

    def capture(self, stop: int | None = None) -> Capture:
        tracks = []
        for thread in sorted({0, *self.rows, *self.memory}):
            rows = np.array(self.rows.get(thread, []), np.int64).reshape(-1, 6)
            rows = rows[np.argsort(rows[:, 1], kind="stable")]
            memory = np.array(self.memory.get(thread, []), np.int64).reshape(-1, 3)
            columns = [rows[:, 0], rows[:, 1], rows[:, 2].astype(np.int32), rows[:, 3]]
            columns += [rows[:, 4].astype(np.int32), rows[:, 5].astype(np.int32), *memory.T]
            name = "MainThread" if not thread else f"worker {thread}"
            tracks.append(Track(thread + 1, 100 + thread, name, *columns))
        last = max((int(track.end_ns.max()) for track in tracks if len(track)), default=0)
        return Capture(
            self.options, 0, stop or last + 1000, 1_700_000_000_000_000_000, tracks, self.kinds, self.inputs,
            Stacks(self.stacks), 0, 42, "python", main_thread=100,
        )  # fmt: skip


def empty() -> Capture:
    return Builder().capture()


def small(slower: int = 1) -> Capture:
    """Three training steps of a two-layer model: forward, backward and optimizer, with shapes, stacks and memory."""
    made = Builder(shapes=True, stacks=True, memory=True, modules=True)
    model = made.kind("nn.Module: Model_0", PYTHON_FUNCTION, path="Model")
    layers = [made.kind(f"nn.Module: Linear_{i}", PYTHON_FUNCTION, path=f"Model.layer{i}") for i in range(2)]
    linear, addmm = made.kind("aten::linear"), made.kind("aten::addmm")
    evaluate = made.kind("autograd::engine::evaluate_function: AddmmBackward0", scope=0)
    node = made.kind("AddmmBackward0", scope=1)
    mm, item = made.kind("aten::mm"), made.kind("aten::item")
    optimizer = made.kind("Optimizer.step#SGD.step", USER_ANNOTATION)
    shape = made.shapes([8, 16], [16, 16], [16])
    stacks = [
        made.stack(f"model.py({20 + i}): forward", "train.py(9): train", "train.py(30): <module>") for i in (0, 1)
    ]
    loss = made.stack("train.py(12): train", "train.py(30): <module>")
    at = 0
    for step in range(3):
        begin = at
        made.region(made.kind(f"ProfilerStep#{step}", USER_ANNOTATION), begin, begin + 100_000 * slower)
        made.region(model, begin + 1000, begin + 41_000)
        for i, layer in enumerate(layers):
            low = begin + 2000 + 19_000 * i
            made.region(layer, low, low + 18_000)
            made.region(linear, low + 1000, low + 17_000, inputs=shape, stack=stacks[i])
            made.region(addmm, low + 2000, low + 16_000, seq=step * 2 + i, inputs=shape, stack=stacks[i])
            made.bytes(low + 3000, 4096 * (i + 1), 1000 + step * 10 + i)
        made.region(item, begin + 42_000, begin + 43_000, stack=loss)
        for i in (1, 0):
            low = begin + 45_000 + 20_000 * (1 - i)
            made.region(evaluate, low, low + 18_000, seq=step * 2 + i, stack=loss)
            made.region(node, low + 500, low + 17_500, seq=step * 2 + i, stack=stacks[i])
            made.region(mm, low + 1000, low + 17_000 * (slower if slower == 1 else 1), inputs=shape, stack=stacks[i])
            made.bytes(low + 17_800, -4096 * (i + 1), 1000 + step * 10 + i)
        made.region(optimizer, begin + 86_000, begin + 98_000)
        at = begin + 100_000 * slower
    made.region(made.kind("aten::sort"), 5000, 60_000, thread=1)
    return made.capture()


def priced() -> Capture:
    """A loaded capture that says what recording cost where it was made."""
    capture = small()
    capture.metadata["profiler_cost"] = {"event_ns": 100.0, "memory_event_ns": 50.0}
    return capture


def large(events: int = 300_000, seed: int = 0) -> Capture:
    """A long run: steps of modules, ops inside ops and backward nodes, with noise in every time."""
    random = np.random.default_rng(seed)
    made = Builder(shapes=True, stacks=True, memory=True, modules=True)
    ops = [made.kind(f"aten::op{i}") for i in range(60)]
    inner = [made.kind(f"aten::inner{i}") for i in range(40)]
    modules = [made.kind(f"nn.Module: Block_{i}", PYTHON_FUNCTION, path=f"Net.blocks.{i}") for i in range(24)]
    node = made.kind("MulBackward0", scope=1)
    inputs = [made.shapes([int(n), 64]) for n in random.integers(1, 500, 200)]
    stacks = [made.stack(f"net.py({i}): forward", f"net.py({i // 10}): run", "train.py(3): main") for i in range(300)]
    per_step = 3000
    lengths = random.lognormal(8.5, 1.0, events + per_step).astype(np.int64) + 200
    picks = random.integers(0, 1 << 30, events + per_step)
    at = made_events = step = 0
    while made_events < events:
        step_begin, count = at, 1
        at += 500
        for module in modules:
            module_begin = at
            at += 300
            for _ in range(40):
                place = made_events + count
                length, pick = int(lengths[place]), int(picks[place])
                shape, stack = inputs[pick % 200], stacks[pick % 300]
                made.region(inner[pick % 40], at + 60, at + 60 + length // 2, inputs=shape, stack=stack)
                made.region(ops[pick % 60], at, at + length, seq=place, inputs=shape, stack=stack)
                if pick % 8 == 0:
                    made.bytes(at + 70, 64 * (pick % 100 + 1), place)
                    made.bytes(at + length - 1, -64 * (pick % 100 + 1), place)
                at += length + 150
                count += 2
                if pick % 3 == 0:
                    made.region(node, at, at + length // 3 + 50, seq=place, stack=stack)
                    at += length // 3 + 120
                    count += 1
            made.region(module, module_begin, at)
            at += 100
            count += 1
        made.region(made.kind(f"ProfilerStep#{step}", USER_ANNOTATION), step_begin, at)
        at += 1000
        step += 1
        made_events += count
    return made.capture()


def hostile() -> Capture:
    """Names, paths, threads, modules and metadata that would run script if they were not escaped."""
    made = Builder(shapes=True, stacks=True, memory=True, modules=True)
    shape = made.shapes([2, 2])
    at = 0
    for step in range(2):
        begin = at
        for name in HOSTILE:
            stack = made.stack(f"{name}(3): {name}", f"{name}/train.py(1): <module>")
            made.region(made.kind(f"nn.Module: {name}", PYTHON_FUNCTION, path=name), at + 10, at + 5000)
            made.region(made.kind(name), at + 100, at + 4000, inputs=shape, stack=stack)
            made.bytes(at + 200, 1024, 1 + at)
            at += 6000
        made.region(made.kind(f"ProfilerStep#{step}{HOSTILE[1]}", USER_ANNOTATION), begin, at)
    capture = made.capture()
    capture.tracks[0].name = HOSTILE[0]
    capture.process_name = HOSTILE[1]
    capture.metadata.update({name[:80]: name for name in HOSTILE})
    capture.notes.append(HOSTILE[1])
    return capture


def workers() -> Capture:
    """A deep main thread and four workers, one of which sleeps in a function of its own."""
    made = Builder(stacks=True)
    for depth in range(40):
        made.region(made.kind(f"train.py({depth}): f{depth}", PYTHON_FUNCTION), depth, 1_000_000 - depth)
    made.region(made.kind("aten::mm"), 100, 900_000)
    for thread in range(1, 5):
        made.region(made.kind("loader.py(9): load", PYTHON_FUNCTION), 0, 1_000_000, thread=thread)
        made.region(made.kind("aten::stack"), 10, 300_000, thread=thread)
        made.region(made.kind("<built-in function sleep>", PYTHON_FUNCTION), 400_000, 900_000, thread=thread)
    return made.capture()


def long() -> Capture:
    """3,000 steps of varying length, three of them far out of line."""
    made = Builder()
    at = 0
    for step in range(3000):
        length = 50_000_000 if step % 1000 == 500 else 1_000_000 + (step * 7919 % 401) * 1000
        made.region(made.kind(f"ProfilerStep#{step}", USER_ANNOTATION), at, at + length)
        made.region(made.kind("aten::mm"), at + 10, at + length - 10)
        at += length
    return made.capture()
