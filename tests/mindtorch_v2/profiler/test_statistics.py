"""Two-sample statistics on columns, against values worked out by hand or by SciPy."""

from __future__ import annotations

import numpy as np
import pytest

from mindtorch_v2.profiler.analyse import statistics


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float64)[:, None]


def test_a_location_leaves_out_both_ends() -> None:
    found = statistics.location(column(1, 2, 3, 4, 1000))
    assert found.mean[0] == 3
    assert found.number[0] == 5


def test_a_location_skips_what_is_absent_column_by_column() -> None:
    samples = np.array([[1.0, 5.0], [2.0, np.nan], [3.0, 7.0], [np.nan, 9.0], [np.nan, np.nan]])
    found = statistics.location(samples)
    assert found.mean.tolist() == [2.0, 7.0]
    assert found.number.tolist() == [3, 3]


def test_the_error_of_a_location_is_yuens() -> None:
    # scipy.stats.mstats.trimmed_mean_ci and Yuen (1974): winsorised sum of squares over h (h - 1).
    values = np.array([3.0, 5.0, 6.0, 8.0, 9.0, 11.0, 14.0, 15.0, 20.0, 90.0])
    clipped = np.clip(values, 6.0, 15.0)
    expected = np.sqrt(((clipped - clipped.mean()) ** 2).sum() / (6 * 5))
    assert statistics.location(values[:, None]).error[0] == pytest.approx(expected)


def test_ranks_share_ties() -> None:
    # scipy.stats.mannwhitneyu(after, before, method="asymptotic", alternative="greater")
    before, after = column(1, 2, 2, 3, 5), column(2, 4, 6, 7, 8)
    score = statistics.rank_test(before, after)
    assert statistics.tail_of_normal(score)[0] == pytest.approx(0.04534418308560208)


def test_equal_samples_score_nothing() -> None:
    same = column(1, 2, 3, 4)
    assert statistics.rank_test(same, same)[0] == 0


def test_a_rank_score_is_never_more_extreme_than_the_exact_test_allows() -> None:
    score = statistics.rank_test(column(*range(8)), column(*range(100, 108)))
    assert statistics.tail_of_normal(score)[0] >= 1 / 12870 * 0.95


@pytest.mark.parametrize(("p", "z"), [(0.025, 1.95996), (1e-3, 3.09023), (1e-6, 4.75342)])
def test_normal_scores_and_tails_are_inverse(p: float, z: float) -> None:
    assert statistics.tail_of_normal(np.array([z]))[0] == pytest.approx(p, rel=1e-4)
    assert statistics.normal_score(np.log(np.array([p])))[0] == pytest.approx(z, rel=0.05)


@pytest.mark.parametrize(("t", "freedom", "p"), [(2.0, 5.0, 0.05097), (5.0, 5.0, 0.00205), (3.0, 30.0, 0.00269)])
def test_student_t_becomes_a_normal_score(t: float, freedom: float, p: float) -> None:
    score = statistics.normal_of_student(np.array([t]), np.array([freedom]))
    assert statistics.tail_of_normal(score)[0] == pytest.approx(p, rel=0.1)
    assert statistics.student_quantile(float(score[0]), np.array([freedom]))[0] == pytest.approx(t)


def test_holm_multiplies_the_smallest_by_all() -> None:
    adjusted = statistics.holm(np.array([0.01, 0.04, 0.03, 0.005]))
    assert adjusted.tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_the_centre_of_most_ignores_the_rest() -> None:
    centre, width = statistics.centre_of_most(np.array([0.1, 0.11, 0.09, 0.1, 3.0, -2.0, np.nan]))
    assert centre == pytest.approx(0.1, abs=0.01)
    assert width == pytest.approx(0.02)


def test_spread_beyond_errors_is_measured_and_outliers_are_not() -> None:
    random = np.random.default_rng(2)
    errors = np.linspace(0.01, 0.05, 400)
    values = random.normal(0, errors)
    assert statistics.excess_spread(values, errors) < 0.01
    values += random.normal(0, 0.1, 400)
    values[:40] += 5
    assert statistics.excess_spread(values, errors) == pytest.approx(0.11, abs=0.03)


def test_runs_that_differ_more_than_their_samples_explain_are_noticed() -> None:
    random = np.random.default_rng(0)
    run = np.repeat([0, 1, 2, 3], 20)
    within = random.normal(0, 0.01, (80, 1))
    for spread, least, most in ((0.0, 0.0, 1e-5), (0.1, 1e-3, 1e-1)):
        samples = within + spread * np.array([-1.0, 1.0, -0.5, 0.5])[run][:, None]
        found = statistics.location(samples)
        variance, runs = statistics.between_runs(samples, run, found.error)
        assert runs == 4
        assert least <= variance[0] <= most


def test_the_lowest_samples_score_by_whose_they_are() -> None:
    # Of 20 samples the lowest 5 are all of the first side: hypergeometric mean 2.5, variance 5/4 · 15/19.
    before, after = column(*range(10)), column(*range(5, 15))
    score = statistics.low_test(before, after, 0.25)
    assert score[0] == pytest.approx((2.5 - 0.5) / np.sqrt(5 / 4 * 15 / 19))
    assert statistics.low_test(after, before, 0.25)[0] == -score[0]
    # What the highest samples do does not matter.
    after[-1] = 1e9
    assert statistics.low_test(before, after, 0.25)[0] == score[0]


def test_the_lowest_samples_of_nothing_score_nothing() -> None:
    assert statistics.low_test(column(1, 1, 1), column(1, 1, 1), 0.25)[0] == 0
    assert statistics.low_test(column(np.nan, np.nan), column(1, 2), 0.25)[0] == 0
