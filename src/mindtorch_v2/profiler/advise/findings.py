"""What is worth knowing about a run: each rule reads the metrics and says what it found, how much, and where.

It judges; it neither records nor draws. A rule is a function from a `Run` to a `Finding` or None, listed in RULES.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..analyse import tree
from ..analyse.metrics import Metrics
from ..analyse.modules import is_module
from .moduletree import ModuleTree
from .places import Places, Spot
from .steps import Steps
from .summary import SORTS, Summary, sorts_of

WARNING, INFO = "warning", "info"

TINY_NS = 20_000
_COPIES = frozenset(("aten::clone", "aten::copy_", "aten::contiguous"))
_CASTS = "aten::_to_copy"
_SYNCHRONISATIONS = frozenset(("aten::item", "aten::is_nonzero", "aten::_local_scalar_dense"))
_LOADER = "enumerate(DataLoader)"
# Numbers of dtypes in recorded arguments, by the names that input types have.
_DTYPES = {
    0: "unsigned char", 1: "signed char", 2: "short int", 3: "int", 4: "long int", 5: "c10::Half", 6: "float",
    7: "double", 9: "c10::complex<float>", 10: "c10::complex<double>", 11: "bool", 15: "c10::BFloat16",
}  # fmt: skip


class Finding(NamedTuple):
    """One thing worth knowing. `share` is the part of the window it concerns."""

    rule: str
    level: str
    title: str
    advice: str
    calls: int
    time_ns: int
    share: float
    spots: list[Spot]


@dataclass
class Run:
    """What rules look at."""

    metrics: Metrics
    modules: ModuleTree
    steps: Steps
    summary: Summary
    places: Places
    overhead_share: float = 0.0

    def ops(self, test: Callable[[str], bool]) -> NDArray[np.intp]:
        """The outermost events among those whose names pass a test."""
        chosen = self.metrics.of_kinds(lambda kind: test(kind.name))
        if not chosen.any():
            return np.zeros(0, np.intp)
        return np.flatnonzero(chosen & (tree.splice(self.metrics.parent, ~chosen) < 0))

    def share(self, time_ns: int) -> float:
        return time_ns / self.summary.window_ns if self.summary.window_ns else 0.0

    def time(self, events: NDArray[Any]) -> int:
        return int(self.metrics.total_ns[events].sum())


def _spoken(time_ns: float) -> str:
    """A time in words of a sentence: three digits and a unit."""
    for size, unit in ((1e9, "s"), (1e6, "ms")):
        if time_ns >= size:
            return f"{time_ns / size:.3g} {unit}"
    return f"{time_ns / 1e3:.3g} µs"


def find(run: Run) -> list[Finding]:
    """Everything worth knowing, what costs most first."""
    found = [finding for rule in RULES if (finding := rule(run)) is not None]
    return sorted(found, key=lambda finding: (finding.level != WARNING, -finding.share))


def tiny_ops(run: Run) -> Finding | None:
    """Many ops so short that calling them costs more than what they do."""
    metrics = run.metrics
    is_op = sorts_of(metrics) == SORTS.index("op")
    top = np.flatnonzero(is_op & (tree.splice(metrics.parent, ~is_op) < 0))
    tiny = top[metrics.total_ns[top] < TINY_NS]
    total, time = run.time(top), run.time(tiny)
    mostly = time >= 0.3 * total
    if not total or len(tiny) < 100 or not (mostly or (len(tiny) >= 0.6 * len(top) and time >= 0.05 * total)):
        return None
    title = (
        f"{len(tiny):,} of {len(top):,} ops take less than {_spoken(TINY_NS)} each, "
        f"together {time / total:.0%} of all op time"
    )
    advice = (
        "Most of such an op is the cost of calling it. Batch small tensors, vectorise loops over elements, "
        "or use fused functions and foreach optimizers."
    )
    level = WARNING if mostly else INFO
    return Finding("tiny_ops", level, title, advice, len(tiny), time, run.share(time), run.places.spots(tiny))


def copies(run: Run) -> Finding | None:
    """Data copied only to change its layout or its owner."""
    events = run.ops(lambda name: name in _COPIES)
    # contiguous() of what is contiguous copies nothing.
    inner = run.metrics.of_kinds(lambda kind: kind.name in ("aten::clone", "aten::copy_"))
    holds = np.zeros(len(run.metrics), bool)
    parents = run.metrics.parent[inner]
    holds[parents[parents >= 0]] = True
    events = events[inner[events] | holds[events]]
    cast = run.metrics.of_kinds(lambda kind: kind.name == _CASTS)
    parent = run.metrics.parent[events]
    events = events[~((parent >= 0) & cast[np.maximum(parent, 0)])]
    time = run.time(events)
    share = run.share(time)
    if len(events) < 3 or share < 0.01:
        return None
    title = f"{len(events):,} copies of tensors take {_spoken(time)}, {share:.1%} of the run"
    advice = (
        "clone(), contiguous() and reshape() of a transposed tensor copy all of its data. Keep layouts that need no "
        "copy, use view() where possible, and write into existing tensors with out=."
    )
    level = WARNING if share >= 0.05 else INFO
    return Finding("copies", level, title, advice, len(events), time, share, run.places.spots(events))


def casts(run: Run) -> Finding | None:
    """Tensors converted from one dtype to another, above all there and back again."""
    metrics = run.metrics
    events = run.ops(lambda name: name == _CASTS)
    pairs = {event: _cast(metrics, int(event)) for event in events.tolist()}
    events = events[np.array([source != target or not source for source, target in pairs.values()], bool)]
    time = run.time(events)
    share = run.share(time)
    seen = {pairs[event] for event in events.tolist()}
    both = sorted({tuple(sorted(pair)) for pair in seen if pair[0] and pair[::-1] in seen and pair[0] != pair[1]})
    if len(events) < 3 or (share < 0.01 and not both):
        return None
    back = f"; {both[0][0]} and {both[0][1]} go both ways" if both else ""
    title = f"{len(events):,} dtype casts take {_spoken(time)}, {share:.1%} of the run{back}"
    advice = "Convert once where data enters the program; constants of the right dtype need no conversion each step."
    level = WARNING if share >= 0.05 or both else INFO
    return Finding("casts", level, title, advice, len(events), time, share, run.places.spots(events))


def _cast(metrics: Metrics, event: int) -> tuple[str, str]:
    """From which dtype to which, as far as inputs were recorded."""
    record = metrics.input_record(int(metrics.kind[event]), int(metrics.inputs[event]))
    source = record.dtypes[0] if record.dtypes else ""
    code = record.concrete[1] if len(record.concrete) > 1 else None
    try:
        return source, _DTYPES.get(int(code), "another dtype") if code not in (None, "") else source and "another dtype"
    except (TypeError, ValueError):
        return source, "another dtype"


def synchronisations(run: Run) -> Finding | None:
    """Values of tensors read by the program, which has to wait for them."""
    events = run.ops(lambda name: name in _SYNCHRONISATIONS)
    steps = len(run.steps.places)
    if len(events) < max(2, steps):
        return None
    time = run.time(events)
    each = f", {len(events) / steps:.3g} a step" if steps else ""
    title = f"item() and truth tests read {len(events):,} values{each}"
    advice = (
        "Each read waits until its tensor is computed; on an accelerator that stalls the queue. "
        "Collect losses as tensors and read them rarely, and test no tensors in the loop."
    )
    level = WARNING if run.share(time) >= 0.01 or len(events) >= 10 * max(1, steps) else INFO
    return Finding(
        "synchronisations", level, title, advice, len(events), time, run.share(time), run.places.spots(events)
    )


def loader_waits(run: Run) -> Finding | None:
    """The loop waits for its next batch."""
    events = run.ops(lambda name: name.startswith(_LOADER))
    time = run.time(events)
    share = run.share(time)
    if share < 0.02:
        return None
    title = f"Waiting for the DataLoader takes {_spoken(time)}, {share:.1%} of the run"
    advice = "Raise num_workers or prefetch_factor, do less in __getitem__ and collate_fn, or cache what it makes."
    level = WARNING if share >= 0.1 else INFO
    return Finding("loader_waits", level, title, advice, len(events), time, share, run.places.spots(events))


def collections(run: Run) -> Finding | None:
    """Python's garbage collector at work."""
    events = run.ops(lambda name: name == "Python GC")
    time = run.time(events)
    if run.share(time) < 0.01:
        return None
    title = f"{len(events):,} garbage collections take {run.share(time):.1%} of the run"
    advice = "gc.freeze() after setting up, or collecting once a step, keeps collections out of the hot path."
    return Finding("collections", INFO, title, advice, len(events), time, run.share(time), run.places.spots(events))


def slow_first_step(run: Run) -> Finding | None:
    """A first step that takes longer than the others, and with them bends all averages."""
    steps = run.steps.places
    if len(steps) < 3:
        return None
    first, *rest = run.metrics.total_ns[steps].tolist()
    usual = float(np.median(rest))
    if first < 1.5 * usual or usual == 0:
        return None
    extra = int(first - usual)
    title = f"The first step takes {first / usual:.1f} times as long as the median of the others"
    advice = "Warm up before measuring: schedule(wait=1, warmup=1, active=…) leaves such steps out."
    spot = Spot(run.places.of(int(steps[0])), 1, int(first), int(steps[0]))
    return Finding("slow_first_step", INFO, title, advice, 1, extra, run.share(extra), [spot])


def between_ops(run: Run) -> Finding | None:
    """More time goes into Python between ops than into the ops."""
    sums = run.summary.by_sort
    ops = sums.get("op", 0) + sums.get("backward", 0)
    python = sum(sums.get(name, 0) for name in ("annotation", "step", "module", "python"))
    if python <= ops or run.share(python) < 0.4 or not ops:
        return None
    title = f"Python code between ops takes {run.share(python):.0%} of the run, the ops themselves {run.share(ops):.0%}"
    metrics = run.metrics
    code = np.isin(sorts_of(metrics), [SORTS.index(name) for name in ("annotation", "step", "module", "python")])
    events = np.flatnonzero(code & (metrics.self_ns > 0))
    heaviest = int(events[np.argmax(metrics.self_ns[events])]) if len(events) else -1
    advice = "Fewer, larger ops help; so does moving work that does not change out of the loop."
    if metrics.capture.options.stacks:
        advice += " Recording stacks slows Python code down more than ops: compare with a run without with_stack."
    spot = Spot(run.places.of(heaviest), 1, int(metrics.self_ns[heaviest]), heaviest)
    return Finding("between_ops", INFO, title, advice, len(events), python, run.share(python), [spot])


def profiler_cost(run: Run) -> Finding | None:
    """Recording slows the program down noticeably."""
    share = run.overhead_share
    if share < 0.1:
        return None
    options = run.metrics.capture.options
    flags = {"with_stack": options.stacks, "record_shapes": options.shapes, "profile_memory": options.memory}
    used = ", ".join(name for name, on in flags.items() if on)
    title = f"Recording itself takes about {share:.0%} of the run"
    advice = f"Short ops look longer than they are. Switch off what you do not need of {used}." if used else (
        "Short ops look longer than they are: judge them by their counts."
    )  # fmt: skip
    time = int(share * run.summary.window_ns)
    return Finding("profiler_cost", INFO, title, advice, 0, time, share, [])


def unused_flags(run: Run) -> Finding | None:
    """Something was recorded, and paid for, of which nothing came."""
    metrics, options = run.metrics, run.metrics.capture.options
    if not len(metrics):
        return None
    in_modules = metrics.of_kinds(is_module)
    came = {
        "record_shapes=True": not options.shapes or bool(metrics.inputs.any()),
        "profile_memory=True": not options.memory or bool(len(metrics.memory_events)),
        "with_flops=True": not options.flops or _has_flops(metrics),
        "with_stack=True": not options.stacks or bool(metrics.stack.any() or metrics.is_python.any()),
        "with_modules=True": not options.modules or bool(in_modules.any()),
    }
    unused = [flag for flag, used in came.items() if not used]
    if not unused:
        return None
    title = f"{' and '.join(unused)} recorded nothing"
    advice = "Leave out flags that the program gives nothing for; each of them costs time in every op."
    return Finding("unused_flags", INFO, title, advice, len(unused), 0, 0.0, [])


def _has_flops(metrics: Metrics) -> bool:
    """Whether FLOPs were counted, or could be by whoever has the formulas."""
    known = metrics.of_kinds(lambda kind: kind.flops is not None or kind.all_flops is not None)
    return bool(metrics.flops.any() or metrics.all_flops.any() or (metrics.inputs.any() and not known.any()))


def notes(run: Run) -> Finding | None:
    """What the capture says of itself: rows lost, a file cut short."""
    said = [note for note in run.metrics.capture.notes if "nothing is missing" not in note]
    if not said:
        return None
    title = "This recording is not complete" if len(said) > 1 else said[0]
    return Finding("notes", WARNING, title, " · ".join(said) if len(said) > 1 else "", len(said), 0, 0.0, [])


RULES: tuple[Callable[[Run], Finding | None], ...] = (
    notes,
    tiny_ops,
    copies,
    casts,
    synchronisations,
    loader_waits,
    collections,
    slow_first_step,
    between_ops,
    profiler_cost,
    unused_flags,
)
