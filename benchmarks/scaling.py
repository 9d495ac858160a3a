"""How cost grows with events, nodes of a graph, parameters and workers, over three decades.

Ours alone: what one of them costs among a thousand times as many. The last column of the notes is the exponent of the
power law through the points, which is 1 where cost is linear.
"""

import gc
import importlib
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

from harness import OURS, Row, packages, report

ROUNDS = 3
LINEAR = (
    1.15  # exponents up to here are called linear: small counts are dear for their fixed costs, large ones for caches
)


def events(count: int) -> float:
    """Record ops and sum them up."""
    torch = packages()[OURS]
    x = torch.ones((4, 4))
    began = time.thread_time_ns()
    with torch.profiler.profile() as prof:
        for _ in range(count):
            x + x
    prof.key_averages()
    return time.thread_time_ns() - began


def nodes(count: int) -> float:
    """Build a chain of operations and go back through it."""
    torch = packages()[OURS]
    x = y = torch.ones((4, 4), requires_grad=True)
    began = time.thread_time_ns()
    for _ in range(count):
        y = y + x
    y.backward(x.detach())
    return time.thread_time_ns() - began


def parameters(count: int) -> float:
    """A step of Adam on so many small parameters, with its zero_grad."""
    torch = packages()[OURS]
    held = [torch.nn.Parameter(torch.ones((4, 4))) for _ in range(count)]
    optimizer = torch.optim.Adam(held)
    for p in held:
        p.grad = torch.ones((4, 4))
    optimizer.step()
    began = time.thread_time_ns()
    optimizer.step()
    optimizer.zero_grad()
    return time.thread_time_ns() - began


def workers(count: int) -> float:
    """Merge the recordings of so many workers into one, and bring it into columns."""
    torch = packages()[OURS]
    merge, columns = (importlib.import_module(f"{OURS}.profiler.{name}") for name in ("merge", "columns"))
    x = torch.ones((4, 4))
    with torch.profiler.profile() as prof:
        for _ in range(100):
            x + x
    captures = [prof._initialized("merging").newest_capture()] * count
    labels = [f"worker {number}" for number in range(count)]
    began = time.thread_time_ns()
    columns.columns_of(merge.merge(captures, labels))
    return time.thread_time_ns() - began


KINDS: dict[str, tuple[Callable[[int], float], list[int]]] = {
    "events recorded and summed up": (events, [1_000, 10_000, 100_000, 1_000_000]),
    "nodes built and gone back through": (nodes, [100, 1_000, 10_000, 100_000]),
    "workers' recordings merged": (workers, [1, 10, 100, 1_000]),
    "parameters stepped": (parameters, [10, 100, 1_000, 10_000]),
}


def measured(run: Callable[[int], float], count: int) -> float:
    """The median of a few runs, without the collector, whose passes are not ours to count."""
    gc.collect()
    gc.disable()
    try:
        return statistics.median(run(count) for _ in range(ROUNDS))
    finally:
        gc.enable()


def exponent(counts: list[int], costs: list[float]) -> float:
    """The slope of the line through the logarithms."""
    slope: Any = statistics.linear_regression([math.log(c) for c in counts], [math.log(c) for c in costs]).slope
    return float(slope)


def main() -> None:
    rows = []
    for title, (run, counts) in KINDS.items():
        run(counts[0])
        costs = [measured(run, count) for count in counts]
        power = exponent(counts, costs)
        note = f"exponent {power:.2f}" + ("" if power <= LINEAR else f", above {LINEAR}")
        rows += [Row(f"{title}, {n:,}", cost / n / 1e3, None, note) for n, cost in zip(counts, costs, strict=True)]
    report("scaling", rows, "us each")


if __name__ == "__main__":
    main()
