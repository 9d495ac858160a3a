"""What profiling costs, per op while recording and when off, after the run and in memory; and whether it is true.

The last two tables have no torch column: they hold figures of ours against fixed bounds.
"""

import itertools
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from harness import OURS, Row, packages, report

os.environ["KINETO_LOG_LEVEL"] = "6"
warnings.simplefilter("ignore")

OPS = 4_000
ROUNDS = 50  # together 200 k ops in each mode; short ones, as the speed of a shared machine changes within one
MODES = {
    "plain": {},
    "record_shapes": {"record_shapes": True},
    "profile_memory": {"profile_memory": True},
    "with_stack": {"with_stack": True},
    "shapes, memory and stacks": {"record_shapes": True, "profile_memory": True, "with_stack": True},
    "all options": dict.fromkeys(("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules"), True),
}


def loop(x: Any, count: int) -> float:
    """Thread CPU nanoseconds per `x + x`."""
    began = time.thread_time_ns()
    for _ in range(count):
        x + x
    return (time.thread_time_ns() - began) / count


def at_depth(depth: int, call: Callable[[], float]) -> float:
    return at_depth(depth - 1, call) if depth else call()


def added(package: ModuleType, options: dict[str, bool]) -> tuple[float, float]:
    """One round: the loop without and with a profiler."""
    x = package.ones((4, 4))
    off = loop(x, OPS)
    with package.profiler.profile(**options):
        x + x
        on = loop(x, OPS)
    return off, on


def recording(modes: Iterable[str] = MODES, rounds: int = ROUNDS) -> list[Row]:
    """Nanoseconds that recording adds to an op, rounds of both packages taken in turn."""
    rows = []
    for mode in modes:
        options = MODES[mode]
        samples: dict[str, list[tuple[float, float]]] = {name: [] for name in packages()}
        for _ in range(rounds):
            for name, package in packages().items():
                samples[name].append(added(package, options))
        medians = {name: statistics.median(on - off for off, on in pairs) for name, pairs in samples.items()}
        rows.append(Row(f"added to x + x, {mode}", medians[OURS], medians.get("torch")))
    return rows


# Ways to call an op, beside `x + x`: by name, as a method, through a Python function, in a graph, backward.
FORMS = [
    "torch.add(x, y)", "x.add(y)", "torch.relu(x)", "F.relu(x)", "x.sum()", "x.view(16)", "x[0]", "x @ x", "x.mul_(1)",
    "F.linear(x, y, x[0])", "p + p", "torch.relu(p)", "F.linear(p, p, x[0])", "(p * p).sum().backward()",
]  # fmt: skip
FORM_OPS, FORM_ROUNDS = 1_000, 15
FORM_MODES = ("plain", "with_stack", "shapes, memory and stacks", "all options")
FORM_LOOP = """
def loop(torch, count):
    F, x, y, p = torch.nn.functional, torch.ones((4, 4)), torch.ones((4, 4)), torch.ones((4, 4), requires_grad=True)
    began = clock()
    for _ in range(count):
        {}
    return (clock() - began) / count
"""


def forms() -> list[Row]:
    """Nanoseconds that recording adds to other ways of calling ops, rounds of both packages taken in turn."""
    rows = []
    for form, mode in itertools.product(FORMS, FORM_MODES):
        names: dict[str, Any] = {"clock": time.thread_time_ns}
        exec(FORM_LOOP.format(form), names)
        loop = names["loop"]
        samples: dict[str, list[float]] = {name: [] for name in packages()}
        for _ in range(FORM_ROUNDS):
            for name, package in packages().items():
                off = loop(package, FORM_OPS)
                with package.profiler.profile(**MODES[mode]):
                    loop(package, 1)
                    samples[name].append(loop(package, FORM_OPS) - off)
        medians = {name: statistics.median(added) for name, added in samples.items()}
        rows.append(Row(f"added to {form}, {mode}", medians[OURS], medians.get("torch")))
    return rows


def after_the_run() -> list[Row]:
    """Seconds from stopping to `key_averages()` for 200 k ops; torch's `events()` is part of its way there."""
    times = {}
    for name, package in packages().items():
        x = package.ones((4, 4))
        prof = package.profiler.profile()
        prof.start()
        for _ in range(OPS * ROUNDS):
            x + x
        began = time.thread_time()
        prof.stop()
        prof.key_averages()
        times[name] = time.thread_time() - began
    return [Row("stop and key_averages() of 200 k ops", times[OURS], times.get("torch"))]


CHILD = """
import importlib, json, sys, time, warnings
warnings.simplefilter("ignore")
package = importlib.import_module(sys.argv[1])
profiler = importlib.import_module(sys.argv[1] + ".profiler")
count = int(sys.argv[2])
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
x = package.ones((4, 4))
with profiler.profile() as prof:
    x + x
prof.key_averages()
before = resident()
with profiler.profile() as prof:
    for _ in range(count):
        x + x
recorded = resident()
began = time.thread_time()
rows = prof.key_averages()
seconds = time.thread_time() - began
assert sum(row.count for row in rows) == count
print(json.dumps({"recorded": (recorded - before) / count, "after": (resident() - before) / count, "seconds": seconds}))
"""


def child(package: str, count: int) -> dict[str, float]:
    """Bytes an event, as the process grows, and seconds for `key_averages()`, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, package, str(count)], capture_output=True, text=True, check=True, env=os.environ
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def memory() -> list[Row]:
    both = {name: child(name, 200_000) for name in packages()}
    theirs = both.get("torch", {})
    return [Row("200 k events, after key_averages()", both[OURS]["after"], theirs.get("after"))]


def scale() -> tuple[list[Row], list[Row]]:
    """Ours alone, at sizes torch would take minutes for."""
    million, ten = child(OURS, 1_000_000), child(OURS, 10_000_000)
    seconds = [
        Row("key_averages() of 1 M events (bound 0.3)", million["seconds"], None),
        Row("key_averages() of 10 M events", ten["seconds"], None),
    ]
    sizes = [
        Row("1 M events, recorded (bound 200)", million["recorded"], None),
        Row("1 M events, after key_averages() (bound 200)", million["after"], None),
        Row("10 M events, recorded (bound 200)", ten["recorded"], None),
        Row("10 M events, after key_averages() (bound 200)", ten["after"], None),
    ]
    return seconds, sizes


def off_cost() -> list[Row]:
    """The same op generated with and without the line that looks for a recorder."""
    package = packages()[OURS]
    from_package = __import__("mindtorch_v2.dispatch.functions", fromlist=["_functions"])
    codegen = __import__("mindtorch_v2.dispatch.codegen", fromlist=["_codegen"])
    package.ones((4, 4)) + package.ones((4, 4))
    text = from_package.source(from_package.OPS["add.Tensor"])
    bare = "\n".join(line for line in text.splitlines() if "if HOOK:" not in line) + "\n"
    functions = {"with": codegen.compile_function(text, "with"), "without": codegen.compile_function(bare, "without")}
    x = package.ones((4, 4))
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(31):
        for name, function in functions.items():
            began = time.thread_time_ns()
            for _ in range(5_000):
                function(x, x)
            samples[name].append((time.thread_time_ns() - began) / 5_000)
    # Pair by pair, as the speed of a shared machine changes between rounds.
    cost = statistics.median(a - b for a, b in zip(samples["with"], samples["without"], strict=True))
    return [Row("added to add(x, x), no profiler (bound 10)", cost, None)]


def frames_to(depth: int) -> int:
    """How many calls of `at_depth` lead from the caller to a function that stands so deep."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        depth -= 1
        frame = frame.f_back
    return max(depth - 1, 0)


def stacks() -> list[Row]:
    """A stack of eight frames, walked and interned; and all that stacks add to an op there, Python functions timed."""
    package = packages()[OURS]
    recorder = __import__("mindtorch_v2.profiler.record.recorder", fromlist=["recorder"]).RECORDER
    x = package.ones((4, 4))

    def walk() -> float:
        began = time.thread_time_ns()
        for _ in range(OPS):
            recorder.stack()
        return (time.thread_time_ns() - began) / OPS

    calls = frames_to(8)
    with package.profiler.profile(with_stack=True):
        sys.setprofile(None)
        costs = [at_depth(calls, walk) for _ in range(ROUNDS)]
    differences = []
    for _ in range(ROUNDS):
        off = at_depth(calls - 1, lambda: loop(x, OPS))
        with package.profiler.profile(with_stack=True):
            on = at_depth(calls - 1, lambda: loop(x, OPS))
        differences.append(on - off)
    return [
        Row("one stack at depth 8 (bound 2000)", statistics.median(costs), None),
        Row("added to x + x at depth 8, with_stack (bound 2000)", statistics.median(differences), None),
    ]


def truth() -> list[Row]:
    """Summed self times of a known mix against a clock of our own around it, in percent of the window."""
    package = packages()[OURS]
    small, large = package.ones((16, 16)), package.ones((256, 256))
    for x in (small, large):
        x @ x
    with package.profiler.profile() as prof, package.profiler.record_function("mix"):
        began = time.perf_counter_ns()
        for _ in range(50):
            for _ in range(20):
                small + small
            large @ large
        outside = (time.perf_counter_ns() - began) / 1000
    inside = prof.key_averages().self_cpu_time_total
    overhead = prof.overhead()
    return [
        Row("self times against an outside clock (bound 2)", abs(inside - outside) / outside * 100, None),
        Row("the profiler's own share, as it reports it", overhead.share * 100, None),
    ]


def main() -> None:
    report("profiler_recording", recording(), "ns")
    report("profiler_forms", forms(), "ns")
    report("profiler_after_the_run", after_the_run(), "s")
    report("profiler_memory", memory(), "B/event")
    report("profiler_off_and_stacks", off_cost() + stacks(), "ns")
    report("profiler_truth", truth(), "%")
    seconds, sizes = scale()
    report("profiler_scale_time", seconds, "s")
    report("profiler_scale_memory", sizes, "B/event")


if __name__ == "__main__":
    main()
