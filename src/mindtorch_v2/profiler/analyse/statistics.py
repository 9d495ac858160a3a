"""Robust two-sample statistics on columns: samples are rows, one test a column, absent samples are NaN.

Pure NumPy, everything linear in the samples but for sorting. It does not know what the numbers measure.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# The part of the samples that a location leaves out at either end.
TRIM = 0.2

# The median of the square of a standard normal value.
_MEDIAN_SQUARE = 0.45494

_erfc = np.vectorize(math.erfc, otypes=[np.float64])
_lgamma = np.vectorize(math.lgamma, otypes=[np.float64])


class Location(NamedTuple):
    """The trimmed mean of each column, its standard error, and how many samples there were."""

    mean: Floats
    error: Floats
    number: Ints


def location(samples: Floats) -> Location:
    """Trimmed means with the errors that winsorised variances give them (Yuen); NaN where there are too few."""
    ordered = np.sort(samples, axis=0)
    count = np.sum(~np.isnan(ordered), axis=0)
    cut = np.floor(TRIM * count).astype(np.int64)
    kept = np.maximum(count - 2 * cut, 0)
    place = np.arange(len(ordered))[:, None]
    inside = (place >= cut) & (place < count - cut)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(inside, ordered, 0).sum(axis=0) / kept
        columns = np.arange(ordered.shape[1])
        last = max(len(ordered) - 1, 0)
        low = ordered[np.minimum(cut, last), columns] if len(ordered) else np.full(len(columns), np.nan)
        high = ordered[np.clip(count - cut - 1, 0, last), columns] if len(ordered) else low
        clipped = np.clip(ordered, low, high)
        present = ~np.isnan(clipped)
        centre = np.where(present, clipped, 0).sum(axis=0) / count
        spread = np.where(present, (clipped - centre) ** 2, 0).sum(axis=0)
        # spread = (n - 1) s_w²; the error of a trimmed mean is sqrt((n - 1) s_w² / (h (h - 1))), h the samples kept.
        error = np.sqrt(spread / (kept * (kept - 1.0)))
    return Location(mean, np.where(kept >= 2, error, np.nan), count)


def tail_of_normal(z: Floats) -> Floats:
    """How probable a standard normal value above each of `z` is."""
    tail: Floats = 0.5 * _erfc(np.asarray(z, np.float64) / math.sqrt(2))
    return tail


def normal_of_student(t: Floats, freedom: Floats) -> Floats:
    """The normal value as improbable as a Student t value (Wallace's approximation, good to a few percent of p)."""
    freedom = np.maximum(freedom, 1e-9)
    scale = (8 * freedom + 1) / (8 * freedom + 3)
    found: Floats = np.sign(t) * scale * np.sqrt(freedom * np.log1p(t * t / freedom))
    return found


def student_quantile(z: float, freedom: Floats) -> Floats:
    """The t value as improbable as a normal value: the way back from `normal_of_student`."""
    freedom = np.maximum(freedom, 1.0)
    scale = (8 * freedom + 3) / (8 * freedom + 1)
    found: Floats = np.sqrt(freedom * np.expm1(np.minimum((z * scale) ** 2 / freedom, 50.0)))
    return found


def _ranks(samples: Floats) -> tuple[Floats, Floats]:
    """Ranks in each column, ties sharing their mean, and the sum of t³ - t over its ties. NaN ranks last."""
    size = len(samples)
    order = np.argsort(samples, axis=0, kind="stable")
    ordered = np.take_along_axis(samples, order, axis=0)
    place = np.broadcast_to(np.arange(size)[:, None], ordered.shape)
    starts = np.ones(ordered.shape, bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    ends = np.ones(ordered.shape, bool)
    ends[:-1] = starts[1:]
    first = np.maximum.accumulate(np.where(starts, place, 0), axis=0)
    last = np.minimum.accumulate(np.where(ends, place, size)[::-1], axis=0)[::-1]
    ranks = np.empty(ordered.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=0)
    tied = (last - first + 1).astype(np.float64)
    # Each of t tied values adds t² - 1, hence together t³ - t.
    return ranks, (tied * tied - 1).sum(axis=0)


def rank_test(before: Floats, after: Floats) -> Floats:
    """Wilcoxon's rank-sum test: a normal score for each column, positive where `after` is larger.

    A score is never more extreme than the exact test of so many samples could be.
    """
    samples = np.concatenate([before, after])
    absent = np.isnan(samples)
    ranks, ties = _ranks(samples)
    first = np.sum(~absent[: len(before)], axis=0).astype(np.float64)
    second = np.sum(~absent[len(before) :], axis=0).astype(np.float64)
    size = first + second
    total = np.where(absent[len(before) :], 0, ranks[len(before) :]).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = first * second / 12 * (size + 1 - ties / (size * (size - 1)))
        away = total - second * (size + 1) / 2
        score = np.sign(away) * np.maximum(np.abs(away) - 0.5, 0) / np.sqrt(variance)
    score = np.where((first > 0) & (second > 0) & (variance > 0), score, 0.0)
    most = _most_extreme(first, second)
    return np.clip(score, -most, most)


def low_test(before: Floats, after: Floats, part: float) -> Floats:
    """Whether the lowest samples of both sides together are of one side more than chance explains: a normal score for
    each column, positive where few of them are of `after`. Disturbances only ever add time, and leave these alone."""
    samples = np.concatenate([before, after])
    size = np.sum(~np.isnan(samples), axis=0)
    second = np.sum(~np.isnan(after), axis=0)
    columns = np.arange(samples.shape[1])
    bound = np.sort(samples, axis=0)[np.clip((part * size).astype(np.int64) - 1, 0, len(samples) - 1), columns]
    low = np.sum(samples <= bound, axis=0)
    share = second / np.maximum(size, 1)
    away = low * share - np.sum(after <= bound, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = low * share * (1 - share) * (size - low) / (size - 1)
        score = np.sign(away) * np.maximum(np.abs(away) - 0.5, 0) / np.sqrt(variance)
    return np.where(variance > 0, score, 0.0)


def _most_extreme(first: Floats, second: Floats) -> Floats:
    """The normal score of the least probable order of so many samples, 1 / C(n + m, n)."""
    log_ways = _lgamma(first + second + 1) - _lgamma(first + 1) - _lgamma(second + 1)
    return normal_score(-log_ways)


def normal_score(log_p: Floats) -> Floats:
    """The value that a standard normal exceeds with probability exp(log_p), for small ones; 0 from one half on."""
    square = np.maximum(-2 * log_p - math.log(2 * math.pi), 0.0)
    score = np.sqrt(square)
    for _ in range(8):
        # The tail is about density / score; a few rounds settle the score in it.
        score = np.sqrt(np.maximum(square - 2 * np.log(np.maximum(score, 1.0)), 0.0))
    return score


def student_test(first: Location, second: Location, margin: Floats, least_error: float) -> Floats:
    """Welch's test on locations for a difference of more than `margin` either way, as a normal score with its sign."""
    error_before, error_after = (
        np.maximum(side.error, least_error / np.sqrt(np.maximum(side.number, 1))) for side in (first, second)
    )
    error = np.hypot(error_before, error_after)
    effect = second.mean - first.mean
    t = np.sign(effect) * np.maximum(np.abs(effect) - margin, 0) / error
    score = normal_of_student(t, freedom_of(first, second))
    return np.where((first.number >= 2) & (second.number >= 2), score, 0.0)


def freedom_of(first: Location, second: Location) -> Floats:
    """Degrees of freedom of a difference of locations (the smaller side decides, which is careful)."""
    kept = np.minimum(
        first.number - 2 * np.floor(TRIM * first.number), second.number - 2 * np.floor(TRIM * second.number)
    )
    return np.maximum(kept - 1, 0) * 1.0


def holm(p: Floats) -> Floats:
    """P-values that may be compared with one level for all of them together (Holm's step-down)."""
    order = np.argsort(p, kind="stable")
    scaled = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0) if len(p) else scaled
    return adjusted


def centre_of_most(values: Floats) -> tuple[float, float]:
    """The middle and the width of the shortest stretch that holds half of the values: where most of them agree."""
    ordered = np.sort(values[~np.isnan(values)])
    if not len(ordered):
        return 0.0, math.inf
    half = len(ordered) // 2 + 1
    widths = ordered[half - 1 :] - ordered[: len(ordered) - half + 1]
    low = int(np.argmin(widths))
    return float(ordered[low : low + half].mean()), float(widths[low])


def excess_spread(values: Floats, errors: Floats) -> float:
    """The standard deviation that values have beyond their errors, judged from the middle ones of them."""
    away = (values - np.median(values)) ** 2
    low, high = 0.0, float(away.max())
    if np.median(away / np.maximum(errors**2, 1e-300)) <= _MEDIAN_SQUARE:
        return 0.0
    for _ in range(40):
        middle = (low + high) / 2
        if np.median(away / (errors**2 + middle)) > _MEDIAN_SQUARE:
            low = middle
        else:
            high = middle
    return math.sqrt(high)


def between_runs(samples: Floats, run: Ints, error: Floats) -> tuple[Floats, int]:
    """The variance of each column's location from run to run beyond what its samples explain, and how many runs."""
    numbers = np.unique(run)
    if len(numbers) < 2:
        return np.zeros(samples.shape[1]), len(numbers)
    means = np.stack([location(samples[run == number]).mean for number in numbers.tolist()])
    with np.errstate(invalid="ignore"):
        seen = np.sum(~np.isnan(means), axis=0)
        centre = np.where(np.isnan(means), 0, means).sum(axis=0) / np.maximum(seen, 1)
        spread = np.where(np.isnan(means), 0, (means - centre) ** 2).sum(axis=0) / np.maximum(seen - 1, 1)
        # `error` is that of all samples together; a run with its share of them has a larger one.
        explained = np.nan_to_num(error) ** 2 * len(numbers)
    return np.maximum(spread - explained, 0.0), len(numbers)
