"""How often `mindtorch diff` is right on real runs: alarms between equal runs, and finds of one op made 10 % slower.

A small model of twenty ops of about the same cost runs in two versions, step by step in turn, so that the machine
treats both alike; in half of the comparisons the second version has one op, drawn at random, work on so many more
numbers that it takes 10 % longer. Times are CPU time of the thread, unless --wall is given.

python benchmarks/diff_power.py [--pairs N] [--steps N] [--wall]
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

import harness  # keeps BLAS to one thread
import mindtorch_v2 as torch
from mindtorch_v2.core import tap
from mindtorch_v2.profiler import profile, schedule
from mindtorch_v2.profiler.analyse.diff import SLOWER, compare
from mindtorch_v2.profiler.capture.capture import Capture, Track

NAMES = "exp exp2 log log2 log10 sin cos tan tanh sqrt asin acos atan sinh cosh asinh atanh log1p expm1 reciprocal"
OP_NS = 60_000
# A tensor stays in the cache: what memory does is noise of another kind.
MOST_NUMBERS = 40_000
SLOWDOWN = 1.1

Version = list[tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]]


Sizes = dict[str, tuple[int, int]]


def cost_ns(op: Callable[[torch.Tensor], torch.Tensor], counts: list[int], rounds: int) -> list[float]:
    """What an op takes on so many numbers, undisturbed: measured in turn, a low quartile of each."""
    tensors = [torch.linspace(0.1, 0.9, count) for count in counts]
    took = np.zeros((rounds, len(counts)))
    for line in took:
        for place, tensor in enumerate(tensors):
            began = time.thread_time_ns()
            op(tensor)
            line[place] = time.thread_time_ns() - began
    return [float(value) for value in np.quantile(took, 0.25, axis=0)]


def sizes() -> Sizes:
    """On how many numbers each op takes about as long as the others, and on how many it takes 10 % longer: a call has a
    cost of its own, hence more than 10 % more numbers."""
    found = {}
    for name in NAMES.split():
        op = getattr(torch, name)
        (rough,) = cost_ns(op, [MOST_NUMBERS // 2], 50)
        count = min(MOST_NUMBERS, max(1000, round(MOST_NUMBERS // 2 * OP_NS / rough)))
        short, plain, long = cost_ns(op, [round(count * 0.7), count, round(count * 1.3)], 200)
        each = max(long - short, 0.3 * plain) / (0.6 * count)
        found[name] = count, round(count + (SLOWDOWN - 1) * plain / each)
    return found


def inputs(numbers: Sizes) -> dict[str, torch.Tensor]:
    """What the ops work on. Both versions share it: where a tensor lies in memory matters more than 10 %."""
    return {name: torch.linspace(0.1, 0.9, more) for name, (_, more) in numbers.items()}


def version(tensors: dict[str, torch.Tensor], numbers: Sizes, slowed: str | None = None) -> Version:
    return [
        (getattr(torch, name), tensor if name == slowed else tensor[: numbers[name][0]])
        for name, tensor in tensors.items()
    ]


def in_turn(versions: list[Version], steps: int) -> list[Capture]:
    """Run the versions under the profiler, a step of one after a step of the other; a capture of each."""
    count = steps * len(versions)
    with profile(schedule=schedule(wait=0, warmup=1, active=count, repeat=1)) as prof:
        for step in range(count + 1):
            for op, tensor in versions[(step - 1) % len(versions)]:
                op(tensor)
            prof.step()
    assert prof.profiler is not None
    whole = prof.profiler.newest_capture()
    return [part(whole, number, len(versions)) for number in range(len(versions))]


def part(capture: Capture, number: int, parts: int) -> Capture:
    """Every so-many-th step of a capture."""
    (track,) = capture.tracks
    is_step = np.array([capture.kinds[kind].name.startswith("ProfilerStep#") for kind in track.kind.tolist()])
    starts = np.sort(track.start_ns[is_step])
    step = np.searchsorted(starts, track.start_ns, side="right") - 1
    return replace(capture, tracks=[rows(track, step % parts == number)])


def rows(track: Track, kept: np.ndarray) -> Track:
    names = ("start_ns", "end_ns", "kind", "seq", "inputs", "stack")
    return replace(track, **{name: getattr(track, name)[kept] for name in names})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--wall", action="store_true", help="wall clock instead of CPU time")
    options = parser.parse_args()
    if not options.wall:
        tap.set_clock(time.thread_time_ns)
    random = np.random.default_rng(0)
    numbers = sizes()
    tensors = inputs(numbers)
    plain = version(tensors, numbers)
    in_turn([plain], 10)
    alarms = found = others = 0
    for _ in range(options.pairs):
        first, second = in_turn([plain, plain], options.steps)
        alarms += compare([first], [second]).alarms > 0
        slowed = str(random.choice(NAMES.split()))
        first, second = in_turn([plain, version(tensors, numbers, slowed)], options.steps)
        result = compare([first], [second])
        seen = [result.names[place].removeprefix("aten::") for place in result.of(SLOWER)]
        found += slowed in seen
        others += any(name != slowed for name in seen)
    report(options, alarms, found, others)


def report(options: argparse.Namespace, alarms: int, found: int, others: int) -> None:
    result = {
        "clock": "wall" if options.wall else "thread CPU time",
        "pairs": options.pairs,
        "steps a side": options.steps,
        "alarms between equal runs": alarms,
        "10 % slower op found": found,
        "other ops called slower": others,
    }
    print("\n".join(f"{key:28} {value}" for key, value in result.items()))
    results = json.loads(harness.RESULTS.read_text()) if harness.RESULTS.exists() else {}
    results["diff_power"] = {**result, "versions": harness.versions()}
    harness.RESULTS.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
