"""Pooling kernels against references that look at one window at a time."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mindtorch_v2.kernels.network import pool
from mindtorch_v2.kernels.network.pool_shape import pool_output_space

# shape, kernel, stride, padding, dilation, ceil_mode
WINDOWS = [
    ((2, 3, 9), (3,), (2,), (1,), (1,), False),
    ((2, 3, 10), (2,), (3,), (1,), (2,), True),
    ((2, 2, 6, 8), (2, 2), (2, 2), (0, 0), (1, 1), False),
    ((2, 7, 6), (3, 2), (2, 1), (1, 0), (1, 2), True),
    ((1, 2, 5, 4, 6), (2, 3, 2), (1, 2, 2), (1, 1, 0), (1, 1, 1), False),
]
# shape, output_size
ADAPTIVE = [
    ((2, 3, 7), (3,)),
    ((2, 2, 6, 8), (3, 2)),
    ((2, 5, 7), (2, 3)),
    ((1, 2, 3, 4), (5, 6)),
    ((2, 3, 4, 5), (2, 3, 1)),
    ((4, 3, 40, 41), (3, 2)),
]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def windows(space, counts, kernel, stride, padding, dilation):
    """For each output index, the input indices its window sees."""
    for q in np.ndindex(*counts):
        at = [
            tuple(i * s - p + t * d for i, s, p, t, d in zip(q, stride, padding, tap, dilation))
            for tap in np.ndindex(*kernel)
        ]
        yield q, [place for place in at if all(0 <= i < n for i, n in zip(place, space))]


def adaptive_windows(space, output_size):
    for q in np.ndindex(*output_size):
        spans = [range(i * n // o, -(-(i + 1) * n // o)) for i, n, o in zip(q, space, output_size)]
        yield q, [tuple(s[i] for s, i in zip(spans, at)) for at in np.ndindex(*map(len, spans))]


def largest(x, space, windows_of, counts):
    """Largest values and flat indices, window by window, of ``(*lead, *space)``."""
    lead = x.shape[: x.ndim - len(space)]
    values, indices = np.empty((*lead, *counts)), np.empty((*lead, *counts), np.int64)
    for plane in np.ndindex(*lead):
        for q, places in windows_of:
            best = max(places, key=lambda place: x[(*plane, *place)])
            values[(*plane, *q)] = x[(*plane, *best)]
            indices[(*plane, *q)] = np.ravel_multi_index(best, space)
    return values, indices


@pytest.mark.parametrize("case", WINDOWS)
@pytest.mark.parametrize("rounded", [False, True])
def test_max_pool_finds_the_first_largest(case, rounded):
    shape, kernel, stride, padding, dilation, ceil_mode = case
    x = np.round(random(*shape)) if rounded else random(*shape)
    space = shape[-len(kernel) :]
    counts = pool_output_space(space, kernel, stride, padding, dilation, ceil_mode)
    expected = largest(x, space, list(windows(space, counts, kernel, stride, padding, dilation)), counts)
    got = pool.max_pool_forward(x, kernel, stride, padding, dilation, ceil_mode)
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_array_equal(got[1], expected[1])
    np.testing.assert_array_equal(pool.max_pool_values(x, kernel, stride, padding, dilation, ceil_mode), expected[0])


@pytest.mark.parametrize("case", WINDOWS)
def test_max_pool_gradient_goes_to_the_largest(case):
    shape, *geometry = case
    ndim = len(geometry[0])
    values, indices = pool.max_pool_forward(random(*shape), *geometry)
    grad = random(*values.shape)
    expected = np.zeros((*shape[:-ndim], np.prod(shape[-ndim:])))
    for at in np.ndindex(*values.shape):
        expected[(*at[:-ndim], indices[at])] += grad[at]
    np.testing.assert_allclose(pool.max_pool_backward(grad, indices, shape, *geometry), expected.reshape(shape))


def test_a_nan_is_the_largest_and_the_last_one_is_named():
    x = np.array([[[1.0, np.nan, np.nan, 0.0, 2.0, 1.0]]])
    values, indices = pool.max_pool_forward(x, (3,), (3,), (0,), (1,))
    assert np.isnan(values[0, 0, 0])
    assert values[0, 0, 1] == 2
    assert indices.tolist() == [[[2, 4]]]


def test_padding_is_never_named_even_where_everything_is_lowest():
    x = np.full((1, 2, 2), -np.inf)
    values, indices = pool.max_pool_forward(x, (2, 2), (2, 2), (1, 1), (1, 1))
    assert (values == -np.inf).all()
    assert indices.tolist() == [[[0, 1], [2, 3]]]


def test_integers_are_pooled_as_they_are():
    x = np.arange(8, dtype=np.uint8).reshape(1, 2, 4)
    values, indices = pool.max_pool_forward(x, (2,), (2,), (1,), (1,))
    assert values.dtype == np.uint8
    assert values.tolist() == [[[0, 2, 3], [4, 6, 7]]]
    assert indices.tolist() == [[[0, 2, 3], [0, 2, 3]]]


@pytest.mark.parametrize("case", WINDOWS)
@pytest.mark.parametrize(("include_pad", "override"), [(True, None), (False, None), (True, 3)])
def test_average_pool_and_its_gradient(case, include_pad, override):
    shape, kernel, stride, padding, _, ceil_mode = case
    if len(kernel) == 1 and override:
        override = None
    x, ndim = random(*shape), len(kernel)
    space, ones = shape[-ndim:], (1,) * ndim
    counts = pool_output_space(space, kernel, stride, padding, ones, ceil_mode)
    grad = random(*shape[:-ndim], *counts)
    expected, back = np.zeros(grad.shape), np.zeros(shape)
    for q, places in windows(space, counts, kernel, stride, padding, ones):
        ends = [min(i * s - p + k, n + p) - (i * s - p) for i, s, p, k, n in zip(q, stride, padding, kernel, space)]
        divisor = override or (np.prod(ends) if include_pad else len(places))
        for place in places:
            expected[(..., *q)] += x[(..., *place)] / divisor
            back[(..., *place)] += grad[(..., *q)] / divisor
    options = (kernel, stride, padding, ceil_mode, include_pad, override)
    np.testing.assert_allclose(pool.avg_pool_forward(x, *options), expected, atol=1e-12)
    np.testing.assert_allclose(pool.avg_pool_backward(grad, shape, *options), back, atol=1e-12)


def test_integer_averages_are_cut_towards_zero():
    x = np.array([[-3, 0, 3, 0]])
    assert pool.avg_pool_forward(x, (2,), (2,), (0,)).tolist() == [[-1, 1]]


@pytest.mark.parametrize(("shape", "output_size"), ADAPTIVE)
def test_adaptive_pools_and_their_gradients(shape, output_size):
    x, ndim = random(*shape), len(output_size)
    space = shape[-ndim:]
    spans = list(adaptive_windows(space, output_size))
    grad = random(*shape[:-ndim], *output_size)
    mean, back = np.zeros(grad.shape), np.zeros(shape)
    for q, places in spans:
        for place in places:
            mean[(..., *q)] += x[(..., *place)] / len(places)
            back[(..., *place)] += grad[(..., *q)] / len(places)
    np.testing.assert_allclose(pool.adaptive_avg_pool_forward(x, output_size), mean, atol=1e-12)
    np.testing.assert_allclose(pool.adaptive_avg_pool_backward(grad, shape, output_size), back, atol=1e-12)
    values, indices = largest(x, space, spans, output_size)
    got = pool.adaptive_max_pool_forward(x, output_size)
    np.testing.assert_array_equal(got[0], values)
    np.testing.assert_array_equal(got[1], indices)
    routed = np.zeros((*shape[:-ndim], np.prod(space)))
    for at in np.ndindex(*grad.shape):
        routed[(*at[:-ndim], indices[at])] += grad[at]
    got = pool.adaptive_max_pool_backward(grad, indices, shape, output_size)
    np.testing.assert_allclose(got, routed.reshape(shape))


def test_an_infinity_stays_in_its_own_windows():
    x = np.zeros((1, 5))
    x[0, 0] = np.inf
    assert pool.adaptive_avg_pool_forward(x, (3,)).tolist() == [[np.inf, 0, 0]]


def test_fractional_windows_start_where_the_samples_say():
    x = np.arange(36.0).reshape(1, 1, 6, 6)
    # Steps of (6 - 2) / (3 - 1) = 2: columns start at 0, 2, 4 for the sample 0.3 and rows at 0, 2, 4 for 0.7.
    values, indices = pool.fractional_max_pool_forward(x, (2, 2), (3, 3), np.array([[[0.3, 0.7]]]))
    assert values.tolist() == [[[[7, 9, 11], [19, 21, 23], [31, 33, 35]]]]
    back = pool.fractional_max_pool_backward(np.ones_like(values), indices, x.shape, (3, 3))
    assert np.flatnonzero(back).tolist() == sorted(indices.ravel().tolist())


def test_unpooling_puts_values_back():
    x = random(2, 3, 4, 6)
    values, indices = pool.max_pool_forward(x, (2, 2), (2, 2), (0, 0), (1, 1))
    out = pool.max_unpool_forward(values, indices, (4, 6))
    np.testing.assert_array_equal(out[out != 0], x[out != 0])
    assert np.count_nonzero(out) == values.size


def test_unpooling_refuses_places_outside():
    with pytest.raises(RuntimeError, match=r"Found an invalid max index: 9 \(output volumes are of size 2x4\)"):
        pool.max_unpool_forward(np.ones((1, 1, 1)), np.array([[[9]]]), (2, 4))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_halves_are_averaged_in_float32(dtype):
    x = random(1, 8, 8).astype(dtype)
    out = pool.avg_pool_forward(x, (4, 4), (4, 4), (0, 0))
    assert out.dtype == dtype
    wide = pool.avg_pool_forward(x.astype(np.float32), (4, 4), (4, 4), (0, 0))
    np.testing.assert_array_equal(out, wide.astype(dtype))


def test_blocks_of_one_plane_give_the_same_result(monkeypatch):
    x = random(3, 2, 7, 6)
    geometry = ((3, 2), (2, 2), (1, 1), (1, 1), True)

    def run():
        values, indices = pool.max_pool_forward(x, *geometry)
        average = pool.avg_pool_forward(x, *geometry[:3])
        return values, indices, pool.max_pool_backward(values, indices, x.shape, *geometry), average

    whole = run()
    monkeypatch.setattr(pool, "BLOCK_BYTES", 1)
    for small, large in zip(run(), whole):
        np.testing.assert_array_equal(small, large)


@pytest.mark.parametrize("output_size", [(1, 1), (3, 3), (4, 5)])
def test_an_empty_batch_is_pooled_to_an_empty_result(output_size):
    x = np.zeros((0, 2, 6, 6))
    values, indices = pool.adaptive_max_pool_forward(x, output_size)
    average = pool.adaptive_avg_pool_forward(x, output_size)
    assert values.shape == indices.shape == average.shape == (0, 2, *output_size)
    assert pool.adaptive_max_pool_backward(values, indices, x.shape, output_size).shape == x.shape
    assert pool.adaptive_avg_pool_backward(average, x.shape, output_size).shape == x.shape
    geometry = ((3, 3), (2, 2), (1, 1))
    values, indices = pool.max_pool_forward(x, *geometry, (1, 1))
    assert values.shape == pool.avg_pool_forward(x, *geometry).shape == (0, 2, 3, 3)
    assert pool.max_pool_backward(values, indices, x.shape, *geometry, (1, 1)).shape == x.shape
    assert pool.avg_pool_backward(values, x.shape, *geometry).shape == x.shape


REFUSALS = [
    (
        lambda: pool.max_pool_forward(random(1, 4, 8, 8), (9, 9), (9, 9), (0, 0), (1, 1)),
        "Given input size: (4x8x8). Calculated output size: (4x0x0). Output size is too small",
    ),
    (
        lambda: pool.avg_pool_forward(random(1, 4, 8), (2,), (2,), (2,)),
        "pad should be at most half of effective kernel size, but got pad=2, kernel_size=2 and dilation=1",
    ),
    (lambda: pool.max_pool_forward(random(4, 8, 8), (2, 2), (0, 1), (0, 0), (1, 1)), "stride should not be zero"),
    (
        lambda: pool.max_pool_forward(random(4), (2, 2), (2, 2), (0, 0), (1, 1)),
        "non-empty 3D or 4D (batch mode) tensor expected for input",
    ),
    (
        lambda: pool.avg_pool_forward(random(4, 8, 8), (2, 2), (2, 2), (0, 0), False, True, 0),
        "divisor must be not zero",
    ),
    (
        lambda: pool.adaptive_avg_pool_forward(random(4), (2, 2)),
        "adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got [4]",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSALS)
def test_arguments_that_do_not_fit_are_refused_in_torchs_words(call, message):
    with pytest.raises(RuntimeError) as caught:
        call()
    assert str(caught.value) == message
