"""What may be said of a comparison: it takes back verdicts that one run a side does not support, calls "same" only what was
measured to be, tells how many steps the rest would need, and what else differs between the sides.

Compute is judged by the CPU time of the process, waiting by wall time. Statistics of single groups are `diff`'s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..capture.capture import Capture
from ..record import environment
from . import statistics
from .baseline import Baseline, typical_steps, unsteadiness
from .diff import FASTER, SAME, SLOWER, UNCLEAR, Change, Diff
from .statistics import Floats, Ints
from .turns import compare_rounds

_NORMAL_95 = 1.959964
# From this common change on the machine (or all of the program) is said to have changed.
_WHOLE_MACHINE = 0.05
# More steps than anybody would make.
MOST_STEPS = 1_000_000
# The least deviation from run to run: nothing is measured better than that.
_LEAST_DEVIATION = 0.002
_OPTIONS = {
    "shapes": "shapes",
    "stacks": "stacks",
    "memory": "memory",
    "modules": "modules",
    "all_threads": "all threads",
}
_FACTS = ("implementation", "python", "numpy", "platform", "processor", "processors", "threads", "devices", "clock")


@dataclass
class Settled:
    """A comparison with verdicts that hold. `more_steps` has a value a group: steps a side that an unclear one lacks, 0 for
    others; likewise for compute and wall."""

    diff: Diff
    # The CPU time of a typical step, where it was recorded; else the sum of all groups.
    compute: Change
    has_cpu_time: bool
    # The wall time of a typical step; None without steps.
    wall: Change | None
    more_steps: Ints
    # Groups that would have changed if single runs could tell.
    suspected: list[int]
    differences: list[str]
    # What is to be said of all groups together; '' for nothing.
    machine: str
    # What is to be said of single runs, and whether they allow no verdict on times at all.
    reason: str
    is_blind: bool

    def could_hide(self, limit: float) -> int:
        """How many unclear groups may be slower by that much for all that was measured."""
        unclear = (self.diff.verdict == UNCLEAR) & (self.diff.share >= self.diff.rules.smallest_share)
        return int((unclear & (self.diff.high >= limit)).sum())


def settle(
    diff: Diff,
    before: Sequence[Capture],
    after: Sequence[Capture],
    baseline: Baseline | None = None,
    in_turn: bool = False,
) -> Settled:
    """What may be said of a comparison of captures; `in_turn` if their runs took turns, in this order."""
    if diff.on_device:
        # The load of the host does not disturb a device's own clock.
        none = np.zeros(len(diff), np.int64)
        return Settled(diff, diff.overall, False, None, none, [], differences(before, after), "", "", False)
    single = len(before) == 1 or len(after) == 1
    typical = [np.log(np.array([typical_steps(capture) for capture in side])) for side in (before, after)]
    has_cpu_time = not any(np.isnan(side[:, 0]).any() for side in typical)
    wall = None
    if not any(np.isnan(side[:, 1]).any() for side in typical):
        known = None if baseline is None else max(baseline.wall, _unsteadier(before, after, "wall_ns"))
        wall = _change(typical[0][:, 1], typical[1][:, 1], known, baseline, diff)
    compute = diff.overall
    if has_cpu_time:
        known = None if baseline is None else max(baseline.compute, _unsteadier(before, after, "cpu_ns"))
        compute = _change(typical[0][:, 0], typical[1][:, 0], known, baseline, diff)
    elif single and baseline is None:
        compute = replace(compute, verdict=UNCLEAR)
    if single and abs(diff.pace) >= _WHOLE_MACHINE:
        # Separate runs cannot tell a machine that got slower from a program that did.
        compute = replace(compute, verdict=UNCLEAR)
        wall = None if wall is None else replace(wall, verdict=UNCLEAR)
    moved = wall is not None and wall.verdict in (SLOWER, FASTER)
    if moved and compute.verdict == SAME:
        compute = replace(compute, verdict=UNCLEAR)
    verdict = diff.verdict.copy()
    margin = math.log1p(diff.rules.smallest_effect)
    with np.errstate(invalid="ignore", divide="ignore"):
        effect = np.log1p(diff.change)
        reach = (np.log1p(diff.high) - np.log1p(diff.low)) / 2
    large = diff.share >= diff.rules.smallest_share
    if single:
        reach = np.hypot(reach, _take_back(diff, verdict, baseline))
    turns = None
    if in_turn:
        turns = compare_rounds(before, after, diff.by, diff.names, diff.share, diff.rules.smallest_share, margin)
    if turns is not None:
        # Steps of one run are no proof of a change between runs: where rounds can be compared, they alone decide.
        found = turns.p < diff.rules.level
        open_ = np.isfinite(turns.effect) & np.isin(verdict, (SAME, UNCLEAR, SLOWER, FASTER))
        verdict[open_] = np.where(found, np.where(turns.effect > 0, SLOWER, FASTER), SAME)[open_]
        effect, reach = np.where(open_, turns.effect, effect), np.where(open_, turns.reach, reach)
    if in_turn and abs(diff.pace) >= _WHOLE_MACHINE:
        # What all share is no machine's pace then but the program's own: only what is slower as it stands is called that.
        judged = np.isin(verdict, (SLOWER, FASTER))
        with np.errstate(invalid="ignore"):
            verdict[judged & (np.sign(effect) * (effect + math.log1p(diff.pace)) < margin)] = UNCLEAR
    with np.errstate(invalid="ignore"):
        inside = (np.abs(effect) + reach < margin) & (not moved)
    verdict[(verdict == SAME) & large & ~inside] = UNCLEAR
    lacking = np.where(verdict == UNCLEAR, _more_steps(effect, reach, diff.after.samples, margin), 0)
    low, high, change = np.expm1(effect - reach), np.expm1(effect + reach), np.expm1(effect)
    return Settled(
        replace(diff, verdict=verdict, overall=compute, change=change, low=low, high=high),
        compute,
        has_cpu_time,
        wall,
        np.nan_to_num(lacking, nan=MOST_STEPS, posinf=MOST_STEPS).astype(np.int64),
        [place for place in diff.of(SLOWER, FASTER) if verdict[place] == UNCLEAR],
        differences(before, after),
        _machine(diff, in_turn),
        _reason(single, baseline),
        single and baseline is None,
    )


def _change(before: Floats, after: Floats, known: float | None, baseline: Baseline | None, diff: Diff) -> Change:
    """The change of logarithms of typical steps, a value a run. How much runs differ is measured where there are several,
    in pairs where both sides have as many; a baseline tells it of single ones."""
    effect = float(after.mean() - before.mean())
    runs = min(len(before), len(after))
    margin = math.log1p(diff.rules.smallest_effect)
    if runs > 1 and len(before) == len(after):
        deviation, freedom = float((after - before).std(ddof=1)), runs - 1.0
        error = max(deviation, _LEAST_DEVIATION) / math.sqrt(runs)
    elif runs > 1:
        variances = [max(float(side.var(ddof=1)), _LEAST_DEVIATION**2) / len(side) for side in (before, after)]
        error, freedom = math.sqrt(sum(variances)), runs - 1.0
    elif known is not None and baseline is not None:
        error = max(known, _LEAST_DEVIATION) * math.sqrt(1 / len(before) + 1 / len(after))
        freedom = baseline.runs - 1.0
    else:
        return Change(math.expm1(effect), math.nan, math.nan, 1.0, UNCLEAR)
    t = math.copysign(max(abs(effect) - margin, 0) / error, effect)
    score = float(statistics.normal_of_student(np.array([t]), np.array([freedom]))[0])
    p = min(1.0, 2 * float(statistics.tail_of_normal(np.array([abs(score)]))[0]))
    reach = error * float(statistics.student_quantile(_NORMAL_95, np.array([freedom]))[0])
    verdict = UNCLEAR
    if p < diff.rules.level:
        verdict = SLOWER if effect > 0 else FASTER
    elif abs(effect) + reach < margin:
        verdict = SAME
    return Change(math.expm1(effect), math.expm1(effect - reach), math.expm1(effect + reach), p, verdict)


def _unsteadier(before: Sequence[Capture], after: Sequence[Capture], column: str) -> float:
    """How much steps differ within the first run of the side where they differ more."""
    return max(unsteadiness(side[0], column) for side in (before, after))


def _take_back(diff: Diff, verdict: Any, baseline: Baseline | None) -> Floats:
    """Leave of single runs' verdicts on times those that are beyond what runs of one program differ by. What that adds to
    the intervals; NaN where it is not known."""
    judged = np.isin(verdict, (SLOWER, FASTER))
    if baseline is None:
        verdict[judged] = UNCLEAR
        return np.full(len(verdict), np.nan)
    # Of a group that the baseline has not seen, nothing is known.
    known = np.array([baseline.groups.get(name, np.nan) for name in diff.names])
    error = np.maximum(known, _LEAST_DEVIATION) * math.sqrt(1 / diff.before.runs + 1 / diff.after.runs)
    freedom = np.full(len(error), baseline.runs - 1.0)
    margin = math.log1p(diff.rules.smallest_effect)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.maximum(np.abs(np.log1p(diff.change)) - margin, 0) / error
    scores = statistics.normal_of_student(np.nan_to_num(t), freedom)
    large = diff.share >= diff.rules.smallest_share
    p = np.ones(len(t))
    p[large] = statistics.holm(np.minimum(2 * statistics.tail_of_normal(scores[large]), 1.0))
    verdict[judged & (p >= diff.rules.level)] = UNCLEAR
    reach: Floats = error * statistics.student_quantile(_NORMAL_95, freedom)
    return reach


def _more_steps(effect: Floats, reach: Floats, samples: int, margin: float) -> Floats:
    """Steps a side that are lacking until an interval lies on one side of the smallest effect: it gets narrower with the
    root of their number."""
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = (reach / np.abs(margin - np.abs(effect))) ** 2
    lacking: Floats = np.clip(np.ceil(samples * np.maximum(factor - 1, 0.1)), 1, MOST_STEPS)
    return lacking


def lacking_steps(change: Change, samples: int, rules: Any) -> int:
    """The same for the change of the whole; 0 where nothing can be said."""
    if change.verdict != UNCLEAR or not math.isfinite(change.low):
        return 0
    effect, low, high = (np.array([math.log1p(value)]) for value in (change.change, change.low, change.high))
    return int(_more_steps(effect, (high - low) / 2, samples, math.log1p(rules.smallest_effect))[0])


def differences(before: Sequence[Capture], after: Sequence[Capture]) -> list[str]:
    """What was recorded, what was timed and where, as far as the sides differ in it."""
    found = []
    for field, title in _OPTIONS.items():
        sides = [{bool(getattr(capture.options, field)) for capture in side} for side in (before, after)]
        if sides[0] != sides[1] or len(sides[0]) > 1:
            found.append(f"{title} were recorded on one side only, which costs time")
    for fact in _FACTS:
        first, second = (_facts(side, fact) for side in (before, after))
        if first != second:
            found.append(f"{fact}: {' and '.join(first)} before, {' and '.join(second)} after")
        elif len(first) > 1:
            found.append(f"{fact} differs within a side: {' and '.join(first)}")
    return found


def _facts(side: Sequence[Capture], fact: str) -> list[str]:
    said = [environment.stated(capture.metadata).get(fact, "unknown") for capture in side]
    return list(dict.fromkeys(", ".join(map(str, value)) if isinstance(value, list) else str(value) for value in said))


def _machine(diff: Diff, in_turn: bool) -> str:
    if abs(diff.pace) < _WHOLE_MACHINE:
        return ""
    moved = f"all {diff.by}s moved together, by {diff.pace:+.1%}"
    if in_turn:
        return f"{moved}; the runs took turns, so this is the program (or its settings) as a whole, no single {diff.by}"
    return f"{moved}: a change of the whole machine or of how it is used, no single {diff.by}"


def _reason(single: bool, baseline: Baseline | None) -> str:
    if not single:
        return ""
    if baseline is None:
        return (
            "one run a side: how much runs differ is not known, so changes of time are unclear; compare in turns with --run "
            "and --rounds, or name a --baseline"
        )
    return f"one run a side: changes count beyond what the {baseline.runs} runs of the baseline differ by"
