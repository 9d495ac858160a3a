"""Reduction and order-statistic kernels: small cases worked by hand, and sums against exact arithmetic."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from mindtorch_v2.kernels.reduction import moments, rank, reduce
from mindtorch_v2.kernels.totals import sum_of_squares, total, weighted_sum

NAN, INF = math.nan, math.inf
F32 = np.float32


def f32(*values) -> np.ndarray:
    return np.array(values, F32)


# ---------------------------------------------------------------------------------------------------- totals


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((9001,), None),
        ((3, 20000), (1,)),
        ((3, 20011), (1,)),  # prime
        ((9, 523), (1,)),
        ((1_200_011,), None),  # more than is folded at once
        ((20000, 3), (0,)),
        ((20000, 3), (1,)),
        ((7, 3000, 5), (1,)),
        ((6, 40, 50), (0, 2)),
        ((6, 40, 50), (0, 1)),
        ((5000, 1), (1,)),
        ((4, 5), None),
    ],
)
@pytest.mark.parametrize("layout", ["C", "F", "every second"])
def test_total_adds_up_to_the_last_digits(shape, axes, layout):
    a = np.random.default_rng(0).random(shape).astype(F32)
    if layout == "F":
        a = np.asfortranarray(a)
    elif layout == "every second":
        a = np.repeat(a, 2, axis=-1)[..., ::2]
    exact = a.astype(np.float64).sum(axis=axes)
    got = total(a, axes)
    assert got.dtype == F32
    np.testing.assert_allclose(got, exact, rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((3_000_000,), None), ((20, 4096), (1,)), ((4096, 20), (0,)), ((20, 3137), (1,)), ((9, 64, 3136), (0, 2))],
)
def test_total_of_equal_terms_does_not_drift(shape, axes):
    a = np.full(shape, 0.1, F32)
    np.testing.assert_allclose(total(a, axes), a.astype(np.float64).sum(axis=axes), rtol=5e-7)
    if axes in (None, (1,)):
        wanted = np.square(a.astype(np.float64)).sum(axis=axes)
        np.testing.assert_allclose(sum_of_squares(a, axes), wanted, rtol=2e-6)


@pytest.mark.parametrize("n", [700, 709, 4099])
def test_total_of_rows_that_do_not_lie_side_by_side(n):
    a = np.random.default_rng(0).random((30, n + 6)).astype(F32)[:, 3:-3]
    np.testing.assert_allclose(total(a, (1,)), a.astype(np.float64).sum(axis=1), rtol=5e-7)


def test_total_is_the_callers_to_write_into():
    a = np.ones((5000, 1), F32)
    total(a, (1,))[:] = 7
    assert a.max() == 1


def test_total_of_complex_and_of_infinities():
    a = np.full((5000, 2), 1 + 2j, np.complex64)
    np.testing.assert_array_equal(total(a, (0,)), [5000 + 10000j] * 2)
    a[0, 0] = complex(INF, 0)
    assert total(a, (0,))[0] == complex(INF, 9998)


def test_weighted_sum_is_a_product_with_a_row():
    rng = np.random.default_rng(0)
    weights, rows = rng.random(2500), rng.random((2500, 3))
    np.testing.assert_allclose(weighted_sum(weights, rows), weights @ rows)


# ---------------------------------------------------------------------------------------------------- sums, means


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int32, np.int64])
def test_integers_add_up_in_int64(dtype):
    a = np.ones((3, 4), dtype)
    assert reduce.sum(a).dtype == reduce.prod(a).dtype == np.int64
    np.testing.assert_array_equal(reduce.sum(a, 1), [4, 4, 4])
    assert reduce.sum(a) == 12


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_floats_add_up_in_float32(dtype):
    a = np.full(4096, 1.0, dtype)
    assert reduce.sum(a).dtype == dtype
    assert reduce.sum(a) == 4096  # a running sum in 16 bits stops at 2048 or 256
    assert reduce.mean(np.full(4, 60000.0, np.float16)) == 60000


def test_dtype_argument_converts_first():
    assert reduce.sum(f32(1.5, 2.7), dtype=np.dtype(np.int32)) == 3
    assert reduce.mean(np.array([1, 2]), dtype=np.dtype(F32)) == 1.5


@pytest.mark.parametrize(
    ("function", "value"), [(reduce.sum, 0), (reduce.prod, 1), (reduce.mean, NAN), (reduce.nansum, 0)]
)
def test_nothing_reduces_to_the_identity(function, value):
    np.testing.assert_array_equal(function(np.zeros((0, 3), F32), 0), np.full(3, value, F32))


def test_nan_is_left_out_where_asked():
    a = f32(1, NAN, 3)
    assert reduce.nansum(a) == 4
    assert np.isnan(reduce.sum(a))


def test_zero_dim_arrays_reduce_over_dim_zero():
    a = np.array(3.0, F32)
    for function in (reduce.sum, reduce.mean, reduce.amax, reduce.prod):
        assert function(a, 0).shape == function(a, -1).shape == ()
        assert function(a, 0) == 3
    with pytest.raises(IndexError, match=r"expected to be in range of \[-1, 0\], but got 1"):
        reduce.sum(a, 1)


def test_mean_refuses_integers_and_dims_count_once():
    with pytest.raises(RuntimeError, match=r"could not infer output dtype. Input dtype must be .* Got: Long"):
        reduce.mean(np.array([1, 2]))
    with pytest.raises(RuntimeError, match="dim 1 appears multiple times"):
        reduce.sum(np.ones((2, 3)), (1, -1))


# ---------------------------------------------------------------------------------------------------- extremes


def test_extremes_take_the_first_place_and_nan_wins():
    a = np.array([[1, 5, 5, 0], [2, NAN, NAN, 9]], F32)
    values, where = reduce.max_dim(a, 1)
    np.testing.assert_array_equal(values, f32(5, NAN))
    np.testing.assert_array_equal(where, [1, 1])
    np.testing.assert_array_equal(reduce.argmin(a, 1), [3, 1])
    np.testing.assert_array_equal(reduce.amax(a, (0, 1)), NAN)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [F32, np.int64, np.bool_, np.float16])
def test_large_arrays_find_the_same_places_as_small_ones(axis, dtype):
    a = np.random.default_rng(0).integers(0, 30, (90, 80, 3)).astype(dtype)
    if a.dtype.kind == "f":
        a[40:42, 7] = NAN
    wanted = a.astype(np.float64)
    np.testing.assert_array_equal(reduce.max_dim(a, axis)[1], wanted.argmax(axis))
    np.testing.assert_array_equal(reduce.min_dim(a, axis)[1], wanted.argmin(axis))


def test_bools_have_extremes_but_no_argmax():
    a = np.array([True, False])
    assert reduce.amax(a)
    assert not reduce.min(a)
    with pytest.raises(RuntimeError, match=r"argmax\(\): does not support bool input"):
        reduce.argmax(a)


@pytest.mark.parametrize("function", [reduce.max, reduce.min, reduce.amax, reduce.amin])
def test_nothing_has_no_extreme(function):
    with pytest.raises(RuntimeError, match=r"Expected reduction dim to be specified for input.numel"):
        function(np.zeros(0, F32))


# ---------------------------------------------------------------------------------------------------- spread, norms


def test_variance_and_its_correction():
    a = f32(1, 2, 4)
    assert moments.var(a) == pytest.approx(7 / 3)
    assert moments.var(a, correction=0) == pytest.approx(14 / 9)
    variance, mean = moments.var_mean(a)
    assert (variance, mean) == (pytest.approx(7 / 3), pytest.approx(7 / 3))
    assert moments.var(np.array([1j, 2], np.complex64)) == 2.5
    with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
        assert np.isnan(moments.std(f32(1)))


def test_variance_of_numbers_far_from_zero():
    a = (np.random.default_rng(0).standard_normal((300, 200)) + 1000).astype(F32)
    np.testing.assert_allclose(moments.var(a, 1), a.astype(np.float64).var(1, ddof=1), rtol=1e-4)


@pytest.mark.parametrize(
    ("p", "value"),
    [(2, 5), (1, 7), (0, 2), (INF, 4), (-INF, 0), (3, 91 ** (1 / 3)), (0.5, 7 + 4 * math.sqrt(3)), (-1, 0)],
)
def test_norm(p, value):
    a = f32(3, -4, 0)
    assert reduce.norm(a, p) == pytest.approx(value, rel=1e-6)


def test_norm_refusals():
    with pytest.raises(RuntimeError, match=r"Expected a floating point or complex tensor as input. Got Long"):
        reduce.norm(np.array([1]))
    with pytest.raises(RuntimeError, match="cannot compute the inf norm on an empty tensor"):
        reduce.norm(np.zeros(0, F32), INF)


@pytest.mark.parametrize(
    ("values", "result"), [((1000, 1000), 1000 + math.log(2)), ((-INF, -INF), -INF), ((INF, 1), INF), ((), -INF)]
)
def test_logsumexp(values, result):
    assert reduce.logsumexp(f32(*values), 0) == pytest.approx(result)


def test_truth_and_counts():
    a = np.array([[1, 0], [2, NAN]], F32)
    np.testing.assert_array_equal(reduce.all(a, 1), [False, True])
    np.testing.assert_array_equal(reduce.any(a, 0), [True, True])
    assert reduce.all(np.ones(2, np.uint8)).dtype == np.uint8
    np.testing.assert_array_equal(reduce.all(a, ()), a != 0)
    np.testing.assert_array_equal(reduce.count_nonzero(a, 0), [2, 1])


# ---------------------------------------------------------------------------------------------------- gradients


# ---------------------------------------------------------------------------------------------------- order statistics


def test_median_is_the_lower_one():
    values, where = rank.median_dim(f32(3, 1, 2, 4), 0)
    assert (values, where) == (2, 2)
    assert rank.median(np.array([3, 1, 2, 4])) == 2
    values, where = rank.median_dim(f32(3, NAN, 1, NAN), 0)
    assert np.isnan(values)
    assert where == 1
    assert rank.nanmedian(f32(3, NAN, 1, NAN)) == 1
    assert rank.nanmedian_dim(f32(NAN, 3, NAN, 1, 4, 5), 0)[1] == 1


def test_mode_is_the_smallest_of_the_most_frequent():
    values, where = rank.mode(np.array([[2, 1, 2, 1, 3], [5, 5, 1, 5, 5]]))
    np.testing.assert_array_equal(values, [1, 5])
    np.testing.assert_array_equal(where, [3, 4])


@pytest.mark.parametrize("n", [5, 3000])
def test_kthvalue(n):
    a = np.random.default_rng(0).permutation(n).astype(F32)
    values, where = rank.kthvalue(a, 4)
    assert values == 3
    assert a[where] == 3
    with pytest.raises(RuntimeError, match="selected number k out of range for dimension 0"):
        rank.kthvalue(a, n + 1)


@pytest.mark.parametrize(
    "kernel", [rank.median_dim, rank.nanmedian_dim, rank.mode, lambda a, *rest: rank.kthvalue(a, 2, *rest)]
)
@pytest.mark.parametrize("keepdim", [False, True])
def test_an_index_does_not_keep_the_order_it_was_found_in(kernel, keepdim) -> None:
    _, index = kernel(np.arange(600.0).reshape(3, 200), 1, keepdim)
    assert index.flags.c_contiguous
    assert index.base is None or index.base.nbytes == index.nbytes


@pytest.mark.parametrize("dim", [0, 1])
def test_a_kept_dimension_has_a_stride_as_any_other(dim: int) -> None:
    a = np.arange(24, dtype=F32).reshape(4, 6)
    for result in (total(a, (dim,), True), moments.var(a, dim, 1, True), reduce.sum(a, dim, True)):
        assert result.strides == np.empty(result.shape, F32).strides
