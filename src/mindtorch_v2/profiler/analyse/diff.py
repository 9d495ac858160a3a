"""Compares runs: which ops, modules or stacks got slower, faster, appeared or went away, beyond noise.

A sample is what a group took in one step, as a logarithm. From every step goes what all groups share (the pace of the
machine); a change is what is left between the sides. It counts if it is larger than the smallest effect that counts by
more than chance explains: a rank test against that effect, with Holm's correction over all groups. It does not print.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..capture.capture import Capture
from . import statistics
from .samples import CALL, CAPTURE, GROUPINGS, STEP, Names, Usage, has_device_work, kernels_by_op, usage_of
from .statistics import Floats, Ints, Location

SAME, SLOWER, FASTER, APPEARED, DISAPPEARED, UNCLEAR = "same", "slower", "faster", "appeared", "disappeared", "unclear"
VERDICTS = (SLOWER, APPEARED, FASTER, DISAPPEARED, UNCLEAR, SAME)

# The place of the whole among places of groups.
WHOLE = -1

# Steps (or captures) a side from which on they are the samples; with fewer, single calls are.
_ENOUGH = 3
# Samples a side from which on ranks decide; with fewer no order is improbable enough, and means decide.
_ENOUGH_FOR_RANKS = 8
# The part of the samples that counts as undisturbed; how many samples a side, and how far apart their quartiles, it takes
# to look at these alone.
_LOWEST, _ENOUGH_FOR_LOWEST, _UNSTEADY = 0.15, 40, 0.1
# Groups from which on what they share can be told from what one of them does.
_ENOUGH_FOR_PACE = 5
# The least noise assumed of a mean of few samples, the run-to-run drift of a whole program assumed where only one run
# a side is there, and how far apart most groups may lie to count as moving together (all relative).
_LEAST_NOISE, _DRIFT, _TOGETHER = 0.03, 0.05, 0.04
# How far apart they may lie where they moved very far.
_FAR_TOGETHER = 0.25
# The most that one op may be slowed more than others by a busy machine, and how many such errors rule it out.
_MOST_UNEVEN, _SURE = 0.1, 3.5
# The part of the smallest effect that unevenness may use up without widening it.
_FREE = 0.65
# Parts of a run whose paces are compared.
_PARTS = 4
_NORMAL_95 = 1.959964


@dataclass(frozen=True)
class Rules:
    """What counts as a change."""

    # Changes up to this factor (2 %) are of no interest; a change must be larger beyond chance.
    smallest_effect: float = 0.02
    # Chance of any false alarm in a comparison of equal runs.
    level: float = 0.01
    # Groups that take less than this part of the time on both sides are not judged.
    smallest_share: float = 0.001


@dataclass
class Side:
    """What groups took on one side, a value a group: medians of the samples, sums where calls are the samples."""

    count: Floats
    self_ns: Floats
    total_ns: Floats
    memory: Floats
    samples: int
    runs: int


@dataclass
class Change:
    """A relative change (0.1: ten percent slower) with the interval it lies in 95 times of 100, and a verdict."""

    change: float
    low: float
    high: float
    p: float
    verdict: str


@dataclass
class Diff:
    """A comparison. Arrays have a value a group; `change`, `low`, `high` are relative and without the common pace."""

    by: str
    per: str
    rules: Rules
    names: list[str]
    before: Side
    after: Side
    change: Floats
    low: Floats
    high: Floats
    # Chance of so large a change between equal runs, corrected for the number of groups.
    p: Floats
    share: Floats
    verdict: NDArray[np.str_]
    # How much slower everything ran together on the second side; taken out of `change`.
    pace: float
    overall: Change
    # Whether times are those of devices; then by op the kernels that it launched, with nanoseconds of each, a side each.
    on_device: bool = False
    kernels: tuple[dict[str, list[tuple[str, float]]], ...] = ({}, {})

    def __len__(self) -> int:
        return len(self.names)

    def of(self, *verdicts: str) -> list[int]:
        """Groups with such verdicts, those whose time changed most first."""
        found = np.flatnonzero(np.isin(self.verdict, verdicts))
        moved = np.abs(self.after.self_ns - self.before.self_ns)[found]
        return [int(place) for place in found[np.argsort(-moved, kind="stable")]]

    def kernels_of(self, place: int) -> tuple[list[tuple[str, float]], ...]:
        """The kernels of an op on both sides, longest first, with what each takes of the time of that side."""
        found = []
        for kernels, side in zip(self.kernels, (self.before, self.after)):
            rows = kernels.get(self.names[place], [])
            whole = sum(time for _, time in rows)
            found.append([(name, time * float(side.self_ns[place]) / whole) for name, time in rows if whole])
        return tuple(found)

    @property
    def judged(self) -> int:
        """Of how many groups something can be said."""
        return int(np.isin(self.verdict, (SAME, SLOWER, FASTER)).sum())

    @property
    def measured(self) -> int:
        """How many groups there were enough samples for on both sides."""
        return int(((self.before.count > 0) & (self.after.count > 0) & np.isfinite(self.change)).sum())

    @property
    def alarms(self) -> int:
        """How many changes of time were found, the one of the whole program included."""
        return len(self.of(SLOWER, FASTER)) + (self.overall.verdict in (SLOWER, FASTER))

    @property
    def recounted(self) -> list[int]:
        """Groups of both sides that are called more or less often than before, those whose time changed most first."""
        ran = (self.before.count > 0) & (self.after.count > 0)
        changed = ran & (self.before.count != self.after.count) & (self.share >= self.rules.smallest_share)
        return [place for place in self.of(*VERDICTS) if changed[place]]

    def failures(self, limit: float) -> dict[int, str]:
        """What is slower by `limit` (0.1: ten percent) or more, in words, by the group's place; WHOLE for the whole."""
        found: dict[int, str] = {}
        if self.overall.verdict == SLOWER and self.overall.change >= limit:
            found[WHOLE] = f"the whole is {self.overall.change:.1%} slower"
        for place in self.of(SLOWER):
            if self.change[place] >= limit:
                found[place] = f"{self.names[place]} is {self.change[place]:.1%} slower"
        before = float(self.before.self_ns.sum())
        for place in self.of(APPEARED):
            share = float(self.after.self_ns[place]) / before if before else 0.0
            if share >= limit:
                found[place] = f"{self.names[place]} appeared and takes {share:.1%} of the time before"
        return found


def compare(
    before: Sequence[Capture],
    after: Sequence[Capture],
    *,
    by: str = "op",
    rules: Rules | None = None,
    on_device: bool | None = None,
) -> Diff:
    """Compare captures of two sides, one or more each, by op, module or stack.

    Where all of them have work on devices its time is compared, under the ops that asked for it, unless `on_device` says
    otherwise.
    """
    if by not in GROUPINGS:
        raise ValueError(f"by should be one of {', '.join(GROUPINGS)}, got {by!r}")
    if not before or not after:
        raise ValueError("compare() needs at least one capture a side")
    names = Names()
    if on_device is None:
        on_device = all(has_device_work(capture) for capture in (*before, *after))
    both = [[usage_of(capture, by, names, on_device) for capture in side] for side in (before, after)]
    sides = [[usage.widened(len(names)) for usage in side] for side in both]
    found = _judge(by, list(names.numbers), _Samples(sides[0], sides[1]), rules or Rules())
    if not on_device:
        return found
    kernels = tuple(kernels_by_op(side[0]) for side in (before, after)) if by == "op" else ({}, {})
    return replace(found, on_device=True, kernels=kernels)


class _Samples:
    """The samples of both sides: logarithms of self times, rows are steps, captures or calls."""

    def __init__(self, before: list[Usage], after: list[Usage]) -> None:
        sides = (before, after)
        self.per = _sampling(sides)
        self.figures = [_figures(side, self.per) for side in sides]
        tables = [_table(side, self.per) for side in sides]
        self.runs: list[Ints] = [np.repeat(np.arange(len(table)), [len(part) for part in table]) for table in tables]
        with np.errstate(divide="ignore", invalid="ignore"):
            self.logs = [np.log(np.maximum(np.concatenate(table), 1.0)) for table in tables]
            if self.per == CALL:
                # Twice as many calls take twice as long, though each takes the same.
                more = np.log(self.figures[1].count / self.figures[0].count)
                self.logs[1] += np.where(np.isfinite(more), more, 0)
        # What a typical step (or capture) of each run took as a whole.
        self.wholes = [np.array([_figures([usage], self.per).self_ns.sum() for usage in side]) for side in sides]


def _sampling(sides: tuple[list[Usage], list[Usage]]) -> str:
    """What a sample is: a step, if there are enough on both sides; else a whole capture; else a call."""
    if all(usage.has_steps for side in sides for usage in side):
        if min(sum(len(usage.self_ns) for usage in side) for side in sides) >= _ENOUGH:
            return STEP
    return CAPTURE if min(map(len, sides)) >= _ENOUGH else CALL


def _table(side: list[Usage], per: str) -> list[Floats]:
    """Self times a capture, rows are samples; what did not run is NaN."""
    if per == CALL:
        return [usage.calls for usage in side]
    if per == CAPTURE:
        pairs = [(usage.self_ns.sum(axis=0)[None], usage.count.sum(axis=0)[None]) for usage in side]
    else:
        pairs = [(usage.self_ns, usage.count) for usage in side]
    return [np.where(count > 0, self_ns, np.nan) for self_ns, count in pairs]


def _figures(side: list[Usage], per: str) -> Side:
    """The plain numbers of a side: a typical step, or a typical capture."""

    def typical(field: str) -> Floats:
        tables = [getattr(usage, field) for usage in side]
        if per != STEP:
            tables = [table.sum(axis=0)[None] for table in tables]
        joined = np.concatenate(tables)
        if not len(joined):
            return np.zeros(joined.shape[1])
        # What runs in fewer than half of the steps has a median of nothing; its mean says more.
        middle = np.median(joined, axis=0)
        return np.where(middle == 0, joined.mean(axis=0), middle)

    rows = sum(len(usage.self_ns) for usage in side) if per == STEP else len(side)
    return Side(typical("count"), typical("self_ns"), typical("total_ns"), typical("memory"), rows, len(side))


def _judge(by: str, names: list[str], samples: _Samples, rules: Rules) -> Diff:
    before, after = samples.figures
    logs = [_without_steps_pace(log) if samples.per != CALL else log for log in samples.logs]
    sides = [statistics.location(log) for log in logs]
    share = np.maximum(_shares(before.self_ns), _shares(after.self_ns))
    margin = math.log1p(rules.smallest_effect)
    pace = _pace(sides, share >= rules.smallest_share)
    logs[1] = logs[1] - pace
    sides[1] = sides[1]._replace(mean=sides[1].mean - pace)
    between = _between_runs(logs, sides, samples.runs, share >= rules.smallest_share)
    # The smallest effect leaves room for a little unevenness; what is more widens it.
    needed = np.maximum(margin, _SURE * np.sqrt(np.maximum(between**2 - (_FREE * margin) ** 2, 0.0)))
    score, tests = _scores(logs, sides, needed)
    score, tests = _with_low_scores(score, tests, samples.logs, sides, needed, share >= rules.smallest_share)
    error = np.sqrt(sides[0].error ** 2 + sides[1].error ** 2 + between**2)
    effect = sides[1].mean - sides[0].mean
    enough = (np.minimum(sides[0].number, sides[1].number) >= 2) & (share >= rules.smallest_share)
    p = np.ones(len(names))
    p[enough] = statistics.holm(np.minimum(2 * (tests * statistics.tail_of_normal(np.abs(score)))[enough], 1.0))
    reach = error * statistics.student_quantile(_NORMAL_95, statistics.freedom_of(sides[0], sides[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        change, low, high = np.expm1(effect), np.expm1(effect - reach), np.expm1(effect + reach)
    return Diff(
        by,
        samples.per,
        rules,
        names,
        before,
        after,
        change,
        low,
        high,
        p,
        share,
        _verdicts(before, after, score, p, enough, share, rules),
        math.expm1(pace),
        _overall(samples, float(np.sqrt(np.nansum((share * error) ** 2))), rules, margin),
    )


def _shares(self_ns: Floats) -> Floats:
    whole = float(self_ns.sum())
    return self_ns / whole if whole else np.zeros_like(self_ns)


def _without_steps_pace(logs: Floats) -> Floats:
    """Samples of one side without what all groups of a step share: slow steps are slow for all."""
    rest: Floats = logs - _paces(logs)[:, None]
    return rest


def _paces(logs: Floats) -> Floats:
    """How slow each step of one side was for most groups, beside a typical step; nothing where there are few groups."""
    everywhere = ~np.isnan(logs).any(axis=0)
    if int(everywhere.sum()) < _ENOUGH_FOR_PACE or len(logs) < 2:
        return np.zeros(len(logs))
    steady = logs[:, everywhere]
    paces: Floats = np.median(steady - np.median(steady, axis=0), axis=1)
    return paces


def _drift(logs: Floats) -> float:
    """How far the pace may differ from run to run, judged from one: a machine that is unsteady within a run is so
    between runs."""
    if len(logs) < 2 * _PARTS:
        return _DRIFT
    parts = [float(np.median(part)) for part in np.array_split(_paces(logs), _PARTS)]
    return max(_DRIFT, 2 * float(np.std(parts, ddof=1)))


def _pace(sides: list[Location], large: NDArray[np.bool_]) -> float:
    """How much slower the second side is where most groups agree; nothing if they do not."""
    moved = (sides[1].mean - sides[0].mean)[large]
    moved = moved[~np.isnan(moved)]
    if len(moved) < _ENOUGH_FOR_PACE:
        return 0.0
    centre, width = statistics.centre_of_most(moved)
    noise = np.hypot(sides[0].error, sides[1].error)[large]
    typical = float(np.nanmedian(noise)) if np.isfinite(noise).any() else 0.0
    return centre if width <= max(_TOGETHER, 3 * typical, min(abs(centre) / 2, _FAR_TOGETHER)) else 0.0


def _scores(logs: list[Floats], sides: list[Location], margin: Floats) -> tuple[Floats, Floats]:
    """A normal score for each group being slower (positive) or faster by more than the margin; of how many tests."""
    slower = np.maximum(statistics.rank_test(logs[0], logs[1] - margin), 0)
    faster = np.minimum(statistics.rank_test(logs[0], logs[1] + margin), 0)
    by_rank = np.where(sides[1].mean > sides[0].mean, slower, faster)
    by_mean = statistics.student_test(sides[0], sides[1], margin, _LEAST_NOISE)
    few = np.minimum(sides[0].number, sides[1].number) < _ENOUGH_FOR_RANKS
    return np.nan_to_num(np.where(few, by_mean, by_rank)), np.ones(len(margin))


def _with_low_scores(
    score: Floats, tests: Floats, logs: list[Floats], sides: list[Location], margin: Floats, large: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """The scores, or those of the undisturbed samples alone where they say the same more clearly: of an unsteady op on a
    busy machine the lowest samples tell more than all of them. Needs many samples, and counts as a second test."""
    many = np.minimum(sides[0].number, sides[1].number) >= _ENOUGH_FOR_LOWEST
    if not many.any():
        return score, tests
    with warnings.catch_warnings():
        # Of groups that never ran there is nothing to say.
        warnings.simplefilter("ignore", RuntimeWarning)
        low, quarter, rest = np.stack([np.nanquantile(log, (_LOWEST, 0.25, 0.75), axis=0) for log in logs], axis=1)
    many &= (rest - quarter).min(axis=0) > _UNSTEADY
    moved = low[1] - low[0]
    pace = statistics.centre_of_most(moved[large])[0] if int(large.sum()) >= _ENOUGH_FOR_PACE else 0.0
    after = logs[1] - pace
    slower = np.maximum(statistics.low_test(logs[0], after - margin, _LOWEST), 0)
    faster = np.minimum(statistics.low_test(logs[0], after + margin, _LOWEST), 0)
    lowest = np.where(sides[1].mean > sides[0].mean, slower, faster)
    clearer = many & (np.abs(lowest) > np.abs(score))
    return np.where(clearer, lowest, score), np.where(many, tests + 1, tests)


def _between_runs(logs: list[Floats], sides: list[Location], runs: list[Ints], large: NDArray[np.bool_]) -> Floats:
    """The error of each group's change that steps of single runs do not show: how much more some groups are slowed by a
    busy machine than others. Several runs a side tell; so do the groups among themselves, most of which are unchanged."""
    extra = np.zeros(len(large))
    for log, side, run in zip(logs, sides, runs):
        variance, count = statistics.between_runs(log, run, side.error)
        seen = variance[side.number >= 2]
        # Two or three runs say little about one group; what groups have in common steadies it.
        usual = float(np.median(seen)) if len(seen) else 0.0
        extra += np.maximum(variance, usual) / max(count, 1)
    moved = sides[1].mean - sides[0].mean
    within = np.hypot(sides[0].error, sides[1].error)
    known = np.isfinite(moved) & np.isfinite(within) & large
    uneven = 0.0
    if int(known.sum()) >= _ENOUGH_FOR_PACE:
        uneven = min(statistics.excess_spread(moved[known], within[known]), _MOST_UNEVEN)
    return np.sqrt(np.maximum(extra, uneven**2))


def _verdicts(
    before: Side, after: Side, score: Floats, p: Floats, enough: NDArray[np.bool_], share: Floats, rules: Rules
) -> NDArray[np.str_]:
    found = p < rules.level
    cases = [
        (before.count == 0) & (after.count > 0),
        (before.count > 0) & (after.count == 0),
        found & (score > 0),
        found & (score < 0),
        ~enough & (share >= rules.smallest_share),
    ]
    return np.select(cases, [APPEARED, DISAPPEARED, SLOWER, FASTER, UNCLEAR], SAME)


def _overall(samples: _Samples, within: float, rules: Rules, margin: float) -> Change:
    """The sum of all groups in a typical step. The drift from run to run limits what can be told of it: it is measured
    where there are several runs a side, else assumed."""
    with np.errstate(divide="ignore"):
        wholes = [np.log(whole) for whole in samples.wholes]
    effect = float(wholes[1].mean() - wholes[0].mean())
    if not math.isfinite(effect):
        return Change(math.nan, math.nan, math.nan, 1.0, UNCLEAR)
    runs = [len(whole) for whole in wholes]
    measured = min(runs) > 1
    drifts = [
        max(float(whole.var(ddof=1)), (_DRIFT / 2) ** 2) if measured else _drift(log) ** 2
        for whole, log in zip(wholes, samples.logs)
    ]
    error = math.sqrt(within**2 + sum(drift / count for drift, count in zip(drifts, runs)))
    freedom = np.array([sum(runs) - 2.0 if measured else 1e6])
    t = math.copysign(max(abs(effect) - margin, 0) / error, effect)
    score = float(statistics.normal_of_student(np.array([t]), freedom)[0])
    p = min(1.0, 2 * float(statistics.tail_of_normal(np.array([abs(score)]))[0]))
    reach = error * float(statistics.student_quantile(_NORMAL_95, freedom)[0])
    verdict = SAME if p >= rules.level else SLOWER if effect > 0 else FASTER
    return Change(math.expm1(effect), math.expm1(effect - reach), math.expm1(effect + reach), p, verdict)
