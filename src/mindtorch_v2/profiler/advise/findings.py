"""What could be saved in a run: each rule says what it found, where, and how much time could be saved.

It ranks; rules are in `rules_*`, each a function from a `Run` to findings. What could save less than half a percent is
left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..analyse import tree
from ..analyse.devices.analysis import Analysis
from ..analyse.devices.limits import COPIES, DEVICE, EXPOSED
from ..analyse.devices.work import COPY
from ..analyse.metrics import Metrics
from ..capture.capture import Kinds
from ..record import overhead, step_clock
from ..record.overhead import Overhead
from .code import Code
from .moduletree import ModuleTree, module_tree
from .parts import DATA, IDLE, LOADER, OPTIMIZER_REGION, Parts
from .places import Places, Spot
from .source import Sources
from .steps import Steps, find_steps
from .summary import Summary, summarise

HIGH, MEDIUM, LOW = "high", "medium", "low"
LEVELS = (HIGH, MEDIUM, LOW)
_HIGH_SHARE, _MEDIUM_SHARE, LEAST_SHARE = 0.15, 0.01, 0.005
# A machine is busy where a thread is put aside so often a second and does not run for so much of its steps.
_BUSY_SWITCHES, _BUSY_SHARE = 20, 0.05


class Finding(NamedTuple):
    """One thing worth knowing. `time_ns` is what could be saved at most, `share` the part that is of the time of all steps;
    of the run where it is about the run, or there are no steps, and of the device's time where it is `on_device`."""

    rule: str
    level: str
    title: str
    advice: str
    calls: int
    time_ns: int
    share: float
    spots: list[Spot]
    on_device: bool = False


class Run:
    """What rules look at."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        # Events that a finding has spoken of, stretches of a thread's time, and functions: others leave them out.
        self.spoken_of = np.zeros(len(metrics), bool)
        self.spans: list[tuple[int, int]] = []
        self.functions: set[str] = set()

    @cached_property
    def cost(self) -> Overhead | None:
        """What recording took: measured for a capture of this process, read from the file's metadata else."""
        capture = self.metrics.capture
        prices = overhead.stated_prices(capture.metadata)
        if prices is None and isinstance(capture.kinds, Kinds) and capture.pid == os.getpid():
            prices = overhead.prices(capture.options)
        window_s = (capture.stop_ns - capture.start_ns) / 1e9
        # Calls of Python functions are recorded at a fraction of an op's price, which nobody has measured: left out.
        events = int((~self.metrics.is_python).sum())
        return prices and prices.total(events, len(self.metrics.memory_events), window_s)

    @cached_property
    def devices(self) -> Analysis | None:
        """What the devices did, if the capture has any that worked."""
        if not any(track.device_type for track in self.metrics.capture.tracks):
            return None
        found = Analysis(self.metrics.capture, metrics=self.metrics)
        return found if found.limits else None

    @cached_property
    def moves(self) -> NDArray[np.bool_]:
        """The events that copy between the host and a device, on their own or by ops inside: neither casts nor clones."""
        found = np.zeros(len(self.metrics), bool)
        if self.devices is not None:
            work = self.devices.work
            place = np.unique(work.op[(work.sort == COPY) & (work.op >= 0)])
            while len(place):
                found[place] = True
                place = np.unique(self.metrics.parent[place])
                place = place[(place >= 0) & ~found[place]]
        return found

    @cached_property
    def modules(self) -> ModuleTree:
        return module_tree(self.metrics)

    @cached_property
    def summary(self) -> Summary:
        return summarise(self.metrics)

    @cached_property
    def steps(self) -> Steps:
        return find_steps(self.metrics)

    @cached_property
    def code(self) -> Code:
        return Code(self.metrics)

    @cached_property
    def places(self) -> Places:
        return Places(self.metrics, self.modules, self.code)

    @cached_property
    def parts(self) -> Parts:
        return Parts(self.metrics, self.code, self.steps, self.summary.main_track)

    @cached_property
    def sources(self) -> Sources:
        return Sources(self.metrics.capture)

    @cached_property
    def importing(self) -> NDArray[np.bool_]:
        """What the machinery that imports modules does, and the bodies of modules that it runs."""
        origins = self.code.origins
        loading = self.metrics.of_kinds(lambda kind: kind.is_function and origins.is_import(kind.name))
        found: NDArray[np.bool_] = loading | (tree.splice(self.metrics.parent, ~loading) >= 0)
        return found

    @cached_property
    def step_of(self) -> NDArray[np.int64]:
        """The step each event begins in, on whatever thread; -1 outside of all."""
        begin, end = self.parts.bounds()
        step = np.searchsorted(begin, self.metrics.start_ns, side="right") - 1
        inside = (step >= 0) & (self.metrics.start_ns < end[np.maximum(step, 0)])
        return np.where(inside, step, -1)

    @cached_property
    def called_by_user(self) -> NDArray[np.bool_]:
        """The outermost ops, outside of the engine and of optimizers, that the user's code calls itself."""
        metrics = self.metrics
        is_op = self.code.is_op
        outer = is_op & (tree.splice(metrics.parent, ~is_op) < 0) & (metrics.backward_root < 0)
        outer &= ~metrics.is_evaluation & ~self.parts.inside(OPTIMIZER_REGION) & ~self.parts.inside(LOADER)
        if not metrics.columns.stack.any():
            return outer
        present = np.unique(metrics.columns.stack)
        table = np.zeros(int(present.max()) + 1, bool)
        for stack in present.tolist():
            frames = metrics.capture.stacks.read(stack) if stack else []
            # In torch's own traces stacks end in the built-in function behind the op.
            caller = next((frame for frame in frames if not frame.startswith("<built-in")), "")
            table[stack] = self.code.origins.is_users(caller)
        return outer & table[metrics.columns.stack]

    def spoken_slices(self) -> NDArray[np.bool_]:
        """Which slices of time lie in what a finding has spoken of."""
        slices = self.code.slices
        found: NDArray[np.bool_] = self.spoken_of[slices.owner]
        if self.spans:
            spans = np.array(sorted(self.spans), np.int64)
            reach = np.maximum.accumulate(spans[:, 1])
            place = np.searchsorted(spans[:, 0], slices.start_ns, side="right") - 1
            inside = (place >= 0) & (slices.start_ns < reach[np.maximum(place, 0)])
            found = found | (inside & (self.metrics.track[slices.owner] == self.parts.track))
        return found

    def warm_until(self) -> int:
        """When what happens once is over: the first step, and those that warm up with it; 0 where there are no steps."""
        begin, _ = self.parts.bounds()
        warm = max(1, self.parts.warm_steps())
        return int(begin[warm]) if len(begin) > warm else 0

    def usual_slices(self) -> NDArray[np.bool_]:
        """Which slices lie in steps that do not warm up; all where there are no steps."""
        start = self.code.slices.start_ns
        begin, end = self.parts.bounds()
        if len(begin) < 2:
            return np.ones(len(start), bool)
        step = np.searchsorted(begin, start, side="right") - 1
        found: NDArray[np.bool_] = (start >= self.warm_until()) & (start < end[np.maximum(step, 0)])
        return found

    def ops(self, test: Callable[[str], bool]) -> NDArray[np.intp]:
        """The outermost events among those whose names pass a test."""
        chosen = self.metrics.of_kinds(lambda kind: test(kind.name))
        if not chosen.any():
            return np.zeros(0, np.intp)
        return np.flatnonzero(chosen & (tree.splice(self.metrics.parent, ~chosen) < 0))

    @cached_property
    def away(self) -> tuple[float, float]:
        """The part of the steps' time that the thread did not run, and how often a second it was put aside for others."""
        said = step_clock.stated(self.metrics.capture.metadata)
        wall = float(said["wall_ns"].sum()) if said else 0.0
        if wall <= 0:
            return 0.0, 0.0
        return max(0.0, 1 - float(said["thread_cpu_ns"].sum()) / wall), float(said["switches"].sum()) / wall * 1e9

    @cached_property
    def taken(self) -> float:
        """The part of the steps' time that other programs took; 0 where it is too little to speak of."""
        away, switches = self.away
        by_step = self.parts.by_step
        lost = away - float(by_step[:, [DATA, IDLE]].sum()) / max(float(by_step.sum()), 1.0)
        return 0.0 if switches < _BUSY_SWITCHES or lost < _BUSY_SHARE else lost

    @cached_property
    def _steps_ns(self) -> int:
        """What all steps take together, without what other programs took; the window where there are too few to speak of."""
        begin, end = self.parts.bounds()
        return int((end - begin).sum() * (1 - self.taken)) if len(begin) > 3 else self.summary.window_ns

    def share(self, time_ns: float, of_run: bool = False) -> float:
        """The part of the time of all steps, or of the run with its start-up."""
        whole = self.summary.window_ns if of_run else self._steps_ns
        return min(1.0, time_ns / whole) if whole else 0.0

    def time(self, events: NDArray[Any]) -> int:
        """What events take together, all at the length that those after warming up have."""
        total = self.metrics.total_ns[events]
        usual = total[self.metrics.start_ns[events] >= self.warm_until()]
        return int(usual.mean() * len(total)) if len(usual) else int(total.sum())

    def level(self, share: float, at_most: str = HIGH, high: float = _HIGH_SHARE, medium: float = _MEDIUM_SHARE) -> str:
        """How much a saving weighs."""
        level = HIGH if share >= high else MEDIUM if share >= medium else LOW
        return max(level, at_most, key=LEVELS.index)

    def amount(self, time_ns: float, of_run: bool = False) -> str:
        """`43 ms, 12% of the steps`."""
        share = self.share(time_ns, of_run)
        whole = "run" if of_run or len(self.steps.places) <= 3 else "steps"
        return f"{spoken(time_ns)}, {share:.{0 if share >= 0.095 else 1}%} of the {whole}"


Rule = Callable[[Run], Iterable[Finding]]


def spoken(time_ns: float) -> str:
    """A time in words of a sentence: three digits and a unit."""
    for size, unit in ((1e9, "s"), (1e6, "ms")):
        if time_ns >= size:
            return f"{time_ns / size:.3g} {unit}"
    return f"{time_ns / 1e3:.3g} µs"


def find(run: Run, rules: Iterable[Rule]) -> list[Finding]:
    """Everything worth knowing: what concerns the recording itself, then what weighs and saves most."""
    said = [finding for rule in rules for finding in rule(run)]
    notes = [finding for finding in said if not finding.time_ns]
    saving = [_beside_devices(run, finding) for finding in said if finding.time_ns]
    found = notes + [finding for finding in saving if finding.share >= LEAST_SHARE]
    return sorted(found, key=lambda finding: (finding.time_ns > 0, LEVELS.index(finding.level), -finding.time_ns))


def _beside_devices(run: Run, finding: Finding) -> Finding:
    """What the host does while a device works saves nothing: of a finding about the host, at most the time the device
    that limits the run was idle counts."""
    if run.devices is None or finding.on_device:
        return finding
    limits = run.devices.limits[0]
    idle = limits.span - sum(limits.by_cause[cause] for cause in (DEVICE, EXPOSED, COPIES))
    if finding.time_ns <= idle:
        return finding
    share = finding.share * idle / finding.time_ns
    return finding._replace(time_ns=idle, share=share, level=run.level(share, at_most=finding.level))
