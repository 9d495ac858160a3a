"""Runs in turns, compared round by round: what a group takes undisturbed in each run, one side against the other.

Disturbances only ever add time, so the low quantile of a run's steps says most; what a round has in common for all groups is
the machine's. The few rounds there are say little of one group's scatter, which all groups together steady.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..capture.capture import Capture
from . import statistics
from .samples import Names, usage_of
from .statistics import Floats

# The part of a run's steps that counts as undisturbed, and how many steps it takes to tell.
_LOWEST, _LEAST_STEPS = 0.15, 8
LEAST_ROUNDS = 3
# The weight of what all groups have in common, in rounds.
_COMMON = 4.0
# The part of the rounds that must show a change each for itself.
_AGREEING = 0.8
_LEAST_DEVIATION = 0.004
_ENOUGH_GROUPS = 5
_NORMAL_95 = 1.959964


class Turns(NamedTuple):
    """The change of each group as a logarithm, how far it may be off 95 times in 100, how improbable it is between equal
    sides (corrected for the number of groups); NaN where there is too little."""

    effect: Floats
    reach: Floats
    p: Floats


def compare_rounds(
    before: Sequence[Capture],
    after: Sequence[Capture],
    by: str,
    names: list[str],
    share: Floats,
    smallest_share: float,
    margin: float,
) -> Turns | None:
    """Compare sides whose runs took turns; None if there are too few rounds or steps."""
    rounds, large = len(before), share >= smallest_share
    if rounds != len(after) or rounds < LEAST_ROUNDS:
        return None
    sides = [[_undisturbed(capture, by, names) for capture in side] for side in (before, after)]
    if any(part is None for side in sides for part in side):
        return None
    runs: Floats = np.stack(sides)  # type: ignore[arg-type]
    runs[~np.isfinite(runs)] = math.nan  # never ran
    known = np.isfinite(runs).all(axis=(0, 1)) & large
    if int(known.sum()) < _ENOUGH_GROUPS:
        return None
    change = runs[1] - runs[0]
    change = change - np.median(change[:, known], axis=1)[:, None]
    effect = change.mean(axis=0)
    # Without its own pace a run is as good as any other of its side, so that both sides tell how much runs scatter.
    steady = runs - np.median((runs - runs.mean(axis=1, keepdims=True))[:, :, known], axis=2)[:, :, None]
    variance = steady.var(axis=1, ddof=1).mean(axis=0)
    common = float(np.median(variance[known]))
    own = 2 * (rounds - 1)
    freedom = np.full(len(names), own + _COMMON)
    variance = np.maximum((variance * own + common * _COMMON) / freedom, _LEAST_DEVIATION**2)
    error = np.sqrt(2 * variance / rounds)
    with np.errstate(invalid="ignore"):
        t = np.maximum(np.abs(effect) - margin, 0) / error
        agreeing = (np.sign(effect) * change > margin).mean(axis=0) >= _AGREEING
    chance = 2 * statistics.tail_of_normal(statistics.normal_of_student(np.nan_to_num(t), freedom))
    # The larger a group's part of the time, the more of the permitted chance of a false alarm it is given.
    parts = (1 / known.sum() + share / share[known].sum()) / 2
    p = np.where(known & agreeing, np.minimum(chance / np.where(known, parts, 1), 1.0), 1.0)
    reach = error * statistics.student_quantile(_NORMAL_95, freedom)
    return Turns(np.where(known, effect, math.nan), np.where(known, reach, math.nan), p)


def _undisturbed(capture: Capture, by: str, names: list[str]) -> Floats | None:
    """The logarithm of what each group takes in an undisturbed step of a run."""
    numbers = Names()
    numbers.numbers.update({name: place for place, name in enumerate(names)})
    usage = usage_of(capture, by, numbers)
    if not usage.has_steps or len(usage.self_ns) < _LEAST_STEPS:
        return None
    with np.errstate(divide="ignore"):
        low: Floats = np.log(np.quantile(usage.self_ns[:, : len(names)], _LOWEST, axis=0))
    return low
