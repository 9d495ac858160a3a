"""Sorting, unique, search, scan and histogram kernels: small cases worked by hand, large ones against plain NumPy."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from mindtorch_v2.kernels.reduction import histogram, scan, sort
from mindtorch_v2.kernels.reduction.sort_keys import rank_index, stable_argsort, top_indices

NAN = math.nan
TYPES = [
    np.bool_,
    np.uint8,
    np.int16,
    np.int32,
    np.int64,
    np.uint64,
    np.float16,
    ml_dtypes.bfloat16,
    np.float32,
    np.float64,
]


def repeating(dtype, shape=(40, 90)) -> np.ndarray:
    """Numbers that repeat often; floats with zeros of both signs and NaNs of both signs."""
    a = np.random.default_rng(0).integers(-9, 9, shape)
    if np.dtype(dtype).kind in "ub":
        return np.abs(a).astype(dtype)
    a = a.astype(dtype)
    if np.dtype(dtype).kind in "fV":
        a[0, :4] = np.array([0.0, -0.0, NAN, -NAN]).astype(dtype)
    return a


# ---------------------------------------------------------------------------------------------------- sorting


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("descending", [False, True])
def test_sorting_is_stable_in_both_directions(dtype, descending):
    a = repeating(dtype)
    key = a.astype(np.float64)
    key = np.where(np.isnan(key), np.inf, key) + 0.0
    wanted = np.argsort(-key if descending else key, axis=-1, kind="stable")
    np.testing.assert_array_equal(stable_argsort(a, descending), wanted)
    np.testing.assert_array_equal(stable_argsort(a[:2, :9], descending)[1], stable_argsort(a[1, :9], descending))


@pytest.mark.parametrize("low", [-3, -(2**40), 2**62])
def test_integers_beyond_32_bits_sort(low):
    a = np.random.default_rng(0).integers(low, low + 2**36, 5000)
    np.testing.assert_array_equal(stable_argsort(a), np.argsort(a, kind="stable"))


def test_sort_along_any_dim():
    a = np.array([[3, 1], [2, 2], [1, 3]], np.float32)
    values, where = sort.sort(a, 0)
    np.testing.assert_array_equal(values, [[1, 1], [2, 2], [3, 3]])
    np.testing.assert_array_equal(where, [[2, 0], [1, 1], [0, 2]])


@pytest.mark.parametrize("k", [1, 5, 60])
@pytest.mark.parametrize("largest", [False, True])
def test_topk_takes_the_first_of_equals(k, largest):
    a = repeating(np.float32)
    np.testing.assert_array_equal(top_indices(a, k, largest), stable_argsort(a, largest)[:, :k])
    values, where = sort.topk(a, k, largest=largest)
    np.testing.assert_array_equal(values, np.take_along_axis(a, where, 1))


def _few_of_many(kind):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((40, 1003)).astype(np.float32)
    if kind == "ties":
        return np.round(x, 1)
    if kind == "special":
        x[rng.random(x.shape) < 0.3] = -0.0
        x[rng.random(x.shape) < 0.3] = 0.0
        x[0, ::400] = math.inf
        x[1, ::400] = -math.inf
    elif kind == "nan":
        x[2, 17] = math.nan
    elif kind == "nan at the end":
        x[2, -1] = x[3, -2] = math.nan
    elif kind == "integers":
        return (x * 1e6).astype(np.int64)
    elif kind == "wide":
        return x.astype(np.float64)
    elif kind == "turned":
        return np.asfortranarray(x)
    elif kind == "equal":
        x[...] = 1
    return x


@pytest.mark.parametrize(
    "kind", ["plain", "ties", "special", "nan", "nan at the end", "integers", "wide", "turned", "equal"]
)
@pytest.mark.parametrize("k", [1, 7, 31])
@pytest.mark.parametrize("largest", [True, False])
def test_few_of_many_are_those_of_the_whole_order(kind, k, largest):
    x = _few_of_many(kind)
    wanted = stable_argsort(x, descending=largest)[..., :k]
    np.testing.assert_array_equal(top_indices(x, k, largest), wanted)
    np.testing.assert_array_equal(top_indices(x.reshape(4, 10, -1), k, largest), wanted.reshape(4, 10, k))


@pytest.mark.parametrize("n", [33, 63, 64, 65])
@pytest.mark.parametrize("largest", [True, False])
def test_the_first_of_short_rows_is_that_of_the_whole_order(n, largest):
    x = np.random.default_rng(6).permutation(100 * n).reshape(100, n).astype(np.int32)
    np.testing.assert_array_equal(top_indices(x, 1, largest), stable_argsort(x, descending=largest)[..., :1])


def test_rank_index_agrees_with_sorting():
    a = repeating(np.int32)
    for rank in (0, 44, 89):
        np.testing.assert_array_equal(rank_index(a, rank), stable_argsort(a)[:, rank])


def test_topk_refusals():
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        sort.topk(np.zeros(3), 4)
    with pytest.raises(RuntimeError, match="does not support bool"):
        sort.topk(np.zeros(3, np.bool_), 1)


# ---------------------------------------------------------------------------------------------------- unique


@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.uint64, np.float16, np.float32])
@pytest.mark.parametrize("n", [9, 4000])
def test_unique_counts_and_rebuilds(dtype, n):
    a = np.random.default_rng(0).integers(0, 30, n).astype(dtype)
    values, inverse, counts = sort.unique(a, True, True, True)
    assert values.dtype == dtype
    assert np.all(values[1:] > values[:-1])
    np.testing.assert_array_equal(values[inverse], a)
    np.testing.assert_array_equal(counts, np.bincount(inverse))


def test_unique_of_integers_far_apart_and_of_nan():
    values, inverse, _ = sort.unique(np.array([2**60, -5, 2**60]), True, True)
    np.testing.assert_array_equal(values, [-5, 2**60])
    np.testing.assert_array_equal(inverse, [1, 0, 1])
    assert sort.unique(np.array([NAN, 1.0, NAN]))[0].size == 3


def test_unique_slices():
    a = np.array([[3, 1], [0, 2], [3, 1]])
    values, inverse, counts = sort.unique_dim(a, 0, True, True, True)
    np.testing.assert_array_equal(values, [[0, 2], [3, 1]])
    np.testing.assert_array_equal(inverse, [1, 0, 1])
    np.testing.assert_array_equal(counts, [1, 2])


def test_unique_consecutive():
    values, inverse, counts = sort.unique_consecutive(np.array([1, 1, 2, 1]), True, True)
    np.testing.assert_array_equal(values, [1, 2, 1])
    np.testing.assert_array_equal(inverse, [0, 0, 1, 2])
    np.testing.assert_array_equal(counts, [2, 1, 1])


# ---------------------------------------------------------------------------------------------------- binary search


@pytest.mark.parametrize(("right", "wanted"), [(False, [1, 2, 0, 3]), (True, [2, 2, 0, 3])])
def test_searchsorted(right, wanted):
    sequence, values = np.array([1, 3, 5]), np.array([3, 4, 0, 9])
    np.testing.assert_array_equal(sort.searchsorted(sequence, values, right=right), wanted)
    rows = sort.searchsorted(np.stack([sequence] * 2), np.stack([values] * 2), right=right, out_int32=True)
    np.testing.assert_array_equal(rows, [wanted] * 2)
    assert rows.dtype == np.int32


def test_searchsorted_with_sorter_and_its_refusals():
    sequence, values = np.array([5, 1, 3]), np.array([3, 4])
    np.testing.assert_array_equal(sort.searchsorted(sequence, values, sorter=np.array([1, 2, 0])), [1, 2])
    with pytest.raises(RuntimeError, match="sorter index out of range"):
        sort.searchsorted(sequence, values, sorter=np.array([1, 2, 3]))
    with pytest.raises(RuntimeError, match="side and right can't be set to opposites"):
        sort.searchsorted(sequence, values, right=True, side="left")
    with pytest.raises(RuntimeError, match=r"boundaries tensor must be 1 dimension, but got dim\(2\)"):
        sort.bucketize(values, sequence[None])


# ---------------------------------------------------------------------------------------------------- scans


@pytest.mark.parametrize("shape", [(7, 5), (40, 300), (3, 40, 300)])
@pytest.mark.parametrize("dim", [0, -1])
def test_scans_against_plain_numpy(shape, dim):
    a = np.random.default_rng(0).integers(-3, 4, shape).astype(np.float32)
    np.testing.assert_array_equal(scan.cumsum(a, dim), np.cumsum(a, dim))
    np.testing.assert_allclose(scan.logcumsumexp(a, dim), np.log(np.cumsum(np.exp(a), dim)), rtol=1e-4, atol=1e-5)
    values, where = scan.cummax(a, dim)
    np.testing.assert_array_equal(values, np.maximum.accumulate(a, dim))
    np.testing.assert_array_equal(np.take_along_axis(a, where, dim), values)


def test_running_extremes_point_to_the_latest():
    values, where = scan.cummin(np.array([1, 2, 1, 1, 0]), 0)
    np.testing.assert_array_equal(values, [1, 1, 1, 1, 0])
    np.testing.assert_array_equal(where, [0, 0, 2, 3, 4])
    values, where = scan.cummax(np.array([1.0, NAN, 2, NAN, 3]), 0)
    np.testing.assert_array_equal(where, [0, 1, 1, 3, 3])


def test_running_sums_keep_their_digits_and_widen_integers():
    assert scan.cumsum(np.full(200_000, 0.1, np.float32), 0)[-1] == pytest.approx(20_000, rel=1e-6)
    assert scan.cumsum(np.ones(3, np.bool_), 0).dtype == np.int64
    assert scan.cumprod(np.full(2, 100, np.int8), 0)[-1] == 10_000


# ---------------------------------------------------------------------------------------------------- histograms


def test_histc_closes_the_last_bin_and_leaves_nan_out():
    a = np.array([1, 2, 3, NAN, 9], np.float32)
    np.testing.assert_array_equal(histogram.histc(a, 4, 0, 3), [0, 1, 1, 1])
    np.testing.assert_array_equal(histogram.histc(np.ones(2), 4), [0, 0, 2, 0])
    with pytest.raises(RuntimeError, match=r"torch.histc: max must be larger than min"):
        histogram.histc(a, 4, 3, 1)


def test_histogram_by_edges_with_weights():
    a, weight = np.array([1.0, 2, 3]), np.array([1.0, 2, 3])
    counts, edges = histogram.histogram(a, np.array([0.0, 1, 2.5]), weight=weight)
    np.testing.assert_array_equal(counts, [0, 3])
    np.testing.assert_array_equal(edges, [0, 1, 2.5])
    counts, _ = histogram.histogram(a, np.array([0.0, 1, 2.5]), weight=weight, density=True)
    np.testing.assert_allclose(counts, [0, 2 / 3])


def test_histogramdd():
    counts, edges = histogram.histogramdd(np.array([[1.0, 2], [2, 3]]), [2, 2])
    np.testing.assert_array_equal(counts, [[1, 0], [0, 1]])
    np.testing.assert_array_equal(edges[1], [2, 2.5, 3])


def test_bincount():
    np.testing.assert_array_equal(histogram.bincount(np.array([1, 1, 3]), minlength=5), [0, 2, 0, 1, 0])
    weighted = histogram.bincount(np.array([1, 1]), np.array([0.5, 1], np.float32))
    assert weighted.dtype == np.float32
    np.testing.assert_array_equal(weighted, [0, 1.5])
    with pytest.raises(RuntimeError, match="1-d non-negative integral"):
        histogram.bincount(np.array([-1]))
