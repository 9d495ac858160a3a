"""The optional compiled kernels: the same as those in NumPy up to rounding, and absent without harm."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.kernels import compiled, result_layout, totals
from mindtorch_v2.kernels.compiled import C
from mindtorch_v2.kernels.indexing import accumulate, advanced, gather_scatter
from mindtorch_v2.kernels.linalg import packed
from mindtorch_v2.kernels.network import grid_sample, gru, loss, lstm, normalize, pool, small, softmax
from mindtorch_v2.kernels.pointwise import activation, arithmetic, smooth
from mindtorch_v2.kernels.random import continuous, permutation
from mindtorch_v2.kernels.reduction import few, moments, reduce, scan, sort
from mindtorch_v2.kernels.threads import default_threads
from mindtorch_v2.ops.network import loss as loss_rows

needs_compiled = pytest.mark.skipif(C is None, reason="the compiled kernels are not built")
F32 = np.float32
EDGES = np.array([0.0, -0.0, 1e-30, -1e-30, 90, -90, 1e30, -1e30, np.inf, -np.inf, np.nan, 88.7, -103.5, 1, -1], F32)
SHAPES = [(1, 1), (4, 4), (3, 33), (7, 512), (2, 3, 700), (1, 40_000)]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


def in_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the compiled kernels away from every module that holds them."""
    for module in (compiled, accumulate, advanced, gru, gather_scatter, lstm, normalize, packed, totals):
        monkeypatch.setattr(module, "C", None)
    monkeypatch.setattr(compiled, "exp", np.exp)


@needs_compiled
@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu", "log_sigmoid", "mish"])
def test_activations_at_the_edges(name: str) -> None:
    fused = getattr(activation, name)
    with np.errstate(all="ignore"):
        expected = fused.__wrapped__(EDGES.copy())
    np.testing.assert_allclose(fused(EDGES), expected, rtol=2e-6, atol=1e-30)


@needs_compiled
@pytest.mark.parametrize("name", ["gelu_backward", "gelu_tanh_backward", "silu_backward"])
def test_slopes(name: str) -> None:
    fused, g, x = getattr(activation, name), normal(50, 50), 3 * normal(50, 50, seed=1)
    np.testing.assert_allclose(fused(g, x), fused.__wrapped__(g, x), rtol=1e-5, atol=5e-6)


@needs_compiled
def test_stand_ins_of_ufuncs() -> None:
    x = np.concatenate([np.tile(EDGES, 200), 20 * normal(5000)])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(C.exp(x), np.exp(x), rtol=3e-7)
        sigmoid = 1 / (1 + np.exp(-x.astype(np.float64)))
    np.testing.assert_allclose(C.tanh(x), np.tanh(x), rtol=5e-7)
    np.testing.assert_allclose(smooth.sigmoid(x), sigmoid, rtol=1e-6, atol=1e-37)


@needs_compiled
def test_a_stand_in_passes_on_what_it_does_not_know() -> None:
    for x in (normal(3), normal(3000).astype(np.float64), normal(100, 100)[:, ::2], np.complex64(normal(3000))):
        np.testing.assert_array_equal(C.exp(x), np.exp(x))
    x = normal(5001)
    expected = np.exp(x[1:])
    np.testing.assert_array_equal(C.exp(x[1:], out=x[:-1]), expected)  # NumPy sees that they overlap
    out = np.empty_like(x)
    assert C.exp(x, out=out) is out


@needs_compiled
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    x, g = 5 * normal(*shape), normal(*shape, seed=1)
    fused = softmax.softmax(x, -1), softmax.log_softmax(x, -1)
    slopes = softmax.softmax_backward_data(g, fused[0], -1), softmax.log_softmax_backward_data(g, fused[1], -1)
    in_numpy(monkeypatch)
    for got, expected in zip(fused, (softmax.softmax(x, -1), softmax.log_softmax(x, -1)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(slopes[0], softmax.softmax_backward_data(g, fused[0], -1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(slopes[1], softmax.log_softmax_backward_data(g, fused[1], -1), rtol=1e-5, atol=2e-5)


@needs_compiled
@pytest.mark.parametrize("shape", [(32, 64), (31, 16), (70, 19), (3, 40, 20), (5, 4)])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_columns_is_that_of_rows(shape: tuple[int, ...], name: str) -> None:
    x = normal(*shape)
    x.flat[3], x.flat[5] = -np.inf, 200
    rows = np.ascontiguousarray(x.swapaxes(-1, -2))
    got = getattr(small, name)(x, len(shape) - 2)
    np.testing.assert_array_equal(got, getattr(small, name)(rows, -1).swapaxes(-1, -2))


def test_softmax_of_rows_with_nan_and_infinities() -> None:
    rows = np.array([[1, np.nan, 2], [-np.inf] * 3, [np.inf, 0, 0], [-np.inf, 0, 0]], F32)
    with np.errstate(all="ignore"):
        got = softmax.softmax(rows, 1)
    assert np.isnan(got[:3]).all()
    np.testing.assert_allclose(got[3], [0, 0.5, 0.5])


@needs_compiled
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scaled", [True, False])
def test_layer_norm(shape: tuple[int, ...], scaled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x, g, n = 3 + normal(*shape), normal(*shape, seed=1), shape[-1]
    w, b = (normal(n, seed=2), normal(n, seed=3)) if scaled else (None, None)
    fused = normalize.layer_norm(x, (n,), w, b)
    slopes = normalize.layer_norm_backward(g, x, (n,), fused[1], fused[2], w, b)
    in_numpy(monkeypatch)
    for got, expected in zip(fused, normalize.layer_norm(x, (n,), w, b), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=2e-4 if n > 1 else 1e-2)
    for got, expected in zip(slopes, normalize.layer_norm_backward(g, x, (n,), *fused[1:], w, b), strict=True):
        assert (got is None) == (expected is None)
        if got is not None:
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=2e-4 if n > 1 else 1)


@needs_compiled
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("scaled", [False, True])
def test_layer_norm_over_several_dimensions_in_one_pass(dims: int, scaled: bool) -> None:
    x = normal(2, 3, 4)
    shape = x.shape[-dims:]
    w, b = (normal(*shape, seed=1), normal(*shape, seed=2)) if scaled else (None, None)
    got = small.layer_norm_in_one_pass(x, list(shape), w, b, 1e-5)
    assert got is not None
    for one, expected in zip(got, normalize.layer_norm(x, shape, w, b), strict=True):
        np.testing.assert_array_equal(one, expected)
        assert one.shape == expected.shape


@pytest.mark.parametrize(
    ("shape", "weight"), [((4,), normal(2, 2)), ((3,), None), ((2, 3, 4, 1), None), ((), None), ((1, 4), None)]
)
def test_layer_norm_in_one_pass_leaves_what_does_not_fit(shape: tuple[int, ...], weight: Any) -> None:
    assert small.layer_norm_in_one_pass(normal(2, 3, 4), shape, weight, None, 1e-5) is None


@needs_compiled
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(3, 5, 6, 7), (60, 100)])
def test_batch_norm(shape: tuple[int, ...], training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x, g, n = 100 + normal(*shape), normal(*shape, seed=1), shape[1]
    w, b, mean, var = normal(n, seed=2), normal(n, seed=3), normal(n, seed=4), np.square(normal(n, seed=5)) + 1

    def run() -> list[np.ndarray]:
        running = mean.copy(), var.copy()
        y, *saved = normalize.batch_norm(x, w, b, *running, training)
        slopes = normalize.batch_norm_backward(g, x, w, *running, *saved, training)
        return [y, *saved, *running, *slopes]

    fused = run()
    in_numpy(monkeypatch)
    for got, expected in zip(fused, run(), strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-4)


@needs_compiled
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_gather_and_scatter(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    a, src = normal(6, 9).astype(kind), normal(6, 40, seed=1).astype(kind)
    index = np.random.default_rng(2).integers(0, 9, (6, 40))
    fused = gather_scatter.gather(a, 1, index), gather_scatter.scatter_add(a, -1, index, src)
    in_numpy(monkeypatch)
    np.testing.assert_array_equal(fused[0], gather_scatter.gather(a, 1, index))
    np.testing.assert_allclose(fused[1], gather_scatter.scatter_add(a, -1, index, src), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("wrong", [-1, 3])
def test_an_index_out_of_range_is_refused_and_nothing_written(wrong: int) -> None:
    index = np.array([[0, wrong, 1]])
    with pytest.raises(RuntimeError, match=f"index {wrong} is out of bounds for dimension 1 with size 3"):
        gather_scatter.gather(normal(1, 3), 1, index)
    target = normal(1, 3)
    before = target.copy()
    with pytest.raises(RuntimeError, match=f"index {wrong} is out of bounds for dimension 1 with size 3"):
        gather_scatter.scatter_add(target, 1, index, normal(1, 3), out=target)
    np.testing.assert_array_equal(target, before)


@needs_compiled
@pytest.mark.parametrize("count", [0, 1, 7, 40])
def test_places_inside_and_outside(count: int) -> None:
    index = np.arange(count) % 5
    assert C.inside(index, 5)
    assert C.inside(index, 1 << 62)
    assert C.inside(index, 0) is (count == 0)
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    for place in {0, count // 2, count - 1} if count else ():
        for wrong in (-1, 5, least, least + 4, most):
            other = index.copy()
            other[place] = wrong
            assert C.inside(other, 5) is False
    assert C.inside(index.astype(np.int32), 5) is None


@needs_compiled
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("places", [np.int64, np.int32])
def test_elements_are_added_with_repeats_counted(kind: type, places: type, monkeypatch: pytest.MonkeyPatch) -> None:
    index, values = np.random.default_rng(0).integers(-9, 9, (4, 20)).astype(places), normal(4, 20).astype(kind)

    def results() -> list[Any]:
        made = []
        for start in (np.zeros(9, kind), np.ones((9, 2), kind)[:, 0], np.ones((9, 1), kind)):
            for at in (index, np.abs(index) % 9):
                target = start.copy() if start.flags.c_contiguous else start
                advanced.put(target, (at,), values.reshape(4, 20, *target.shape[1:]), True)
                made.append(target.copy())
        return made

    before, fused = index.copy(), results()
    np.testing.assert_array_equal(index, before)
    in_numpy(monkeypatch)
    for got, wanted in zip(fused, results(), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-2 if kind is np.float16 else 1e-5, atol=1e-5)


@needs_compiled
def test_rows_are_added_with_repeats_counted() -> None:
    target, index, rows = normal(5, 8), np.array([1, 4, 1] * 10), normal(30, 8, seed=1)
    expected = target.copy()
    np.add.at(expected, index, rows)
    accumulate.add_rows(target, index, rows)
    np.testing.assert_allclose(target, expected, rtol=1e-5, atol=1e-5)


@needs_compiled
def test_lstm(monkeypatch: pytest.MonkeyPatch) -> None:
    x, h, c = normal(12, 5), normal(4, 3, seed=1), normal(4, 3, seed=2)
    weights = normal(12, 5, seed=3), normal(12, 3, seed=4), normal(12, seed=5)
    sizes = [4, 4, 3, 1]
    fused = lstm.forward(x, h, c, *weights, sizes, False)
    in_numpy(monkeypatch)
    for got, expected in zip(fused, lstm.forward(x, h, c, *weights, sizes, False), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@needs_compiled
@pytest.mark.parametrize("relu", [None, False, True])
def test_other_recurrent_layers(relu: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    x, h, sizes, gates = normal(12, 5), normal(4, 7, seed=1), [4, 4, 3, 1], 7 if relu is not None else 21
    weights = normal(gates, 5, seed=3), normal(gates, 7, seed=4)
    bias = normal(gates, seed=5)
    grad, grad_h = normal(12, 7, seed=6), normal(4, 7, seed=7)

    def results() -> list[Any]:
        if relu is None:
            made = gru.forward(x, h, *weights, bias, bias, sizes, False)
            return [*made, *gru.backward(grad, grad_h, x, h, *weights, made[0], *made[2:], sizes, False)]
        outputs, last = gru.plain_forward(x, h, *weights, bias, sizes, True, relu)
        return [outputs, last, *gru.plain_backward(grad, grad_h, x, h, *weights, outputs, sizes, True, relu)]

    fused = results()
    in_numpy(monkeypatch)
    for got, expected in zip(fused, results(), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


has_packed = pytest.mark.skipif(C is None or C.pack(normal(2, 2)) is None, reason="products are left to BLAS here")


@has_packed
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 6, 7, 16, 19])
@pytest.mark.parametrize("columns", [1, 15, 16, 33])
def test_products_with_a_packed_matrix(rows: int, columns: int) -> None:
    x, matrix = normal(rows, 40)[:, :9], normal(9, columns, seed=1)
    for given in (matrix, np.asfortranarray(matrix), np.repeat(matrix, 2, 1)[:, ::2]):
        panels = C.pack(given)
        for one in (x, x.copy()):
            product = C.times_packed(one, panels, columns)
            assert product.shape == (rows, columns)
            np.testing.assert_allclose(product, x @ matrix, rtol=1e-5, atol=1e-5)


@has_packed
def test_a_nan_stays_in_its_row_and_column() -> None:
    x, matrix = normal(7, 5), normal(5, 20, seed=1)
    x[2, 3], matrix[1, 17] = np.nan, np.inf
    product = C.times_packed(x, C.pack(matrix), 20)
    assert np.isnan(product[2]).all()
    np.testing.assert_array_equal(np.isfinite(product), np.isfinite(x @ matrix))


@has_packed
def test_matrices_that_do_not_fit_are_not_multiplied() -> None:
    panels = C.pack(normal(5, 20))
    assert C.times_packed(normal(3, 5), panels, 20) is not None
    for columns in (16, 33, -1, 1 << 70, 20.0):
        assert C.times_packed(normal(3, 5), panels, columns) is None
    for x in (normal(3, 4), normal(5), normal(3, 5).astype(float), normal(5, 3).T, normal(3, 10)[:, ::2], normal(0, 5)):
        assert C.times_packed(x, panels, 20) is None
    assert C.pack(normal(5)) is None
    assert C.pack(normal(5, 0)) is None
    assert C.pack(normal(5, 2).astype(float)) is None


@needs_compiled
def test_lstm_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    x, h, c = normal(12, 5), normal(4, 3, seed=1), normal(4, 3, seed=2)
    weights = normal(12, 5, seed=3), normal(12, 3, seed=4)
    sizes, grads = [4, 4, 3, 1], (normal(12, 3, seed=6), normal(4, 3, seed=7), normal(4, 3, seed=8))
    outputs, _, _, gates, cells = lstm.forward(x, h, c, *weights, normal(12, seed=5), sizes, False)
    fused = lstm.backward(*grads, x, h, c, *weights, outputs, gates, cells, sizes, False)
    in_numpy(monkeypatch)
    wanted = lstm.backward(*grads, x, h, c, *weights, outputs, gates, cells, sizes, False)
    for got, expected in zip(fused, wanted, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@needs_compiled
def test_what_is_not_plain_memory_is_not_taken() -> None:
    x = normal(8, 8)
    out = np.empty_like(x)
    assert C.softmax(x, out)
    assert not C.softmax(x.astype(np.float64), out)
    assert not C.softmax(x.astype(np.float16), out.astype(np.float16))
    assert not C.softmax(x, out, 2)
    assert not C.softmax(x[:, ::2], out[:, ::2])
    assert not C.softmax(x, out[:4])
    assert not C.softmax(x.tolist(), out)
    assert not C.softmax(np.empty((0, 8), F32), np.empty((0, 8), F32))
    frozen = np.empty_like(x)
    frozen.flags.writeable = False
    assert not C.softmax(x, frozen)
    assert not C.layer_norm(x, normal(7), None, 1e-5, out, np.empty((8, 1), F32), np.empty((8, 1), F32))


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("axis", [0, 1, 2, -2])
def test_loops_along_any_axis_are_those_along_the_last(axis: int, dtype: Any) -> None:
    x, y = (normal(3, 4, 5).astype(dtype) for _ in range(2))
    for name, given in {"softmax": (x,), "log_softmax_backward": (x, y), "cumsum": (x,), "cumprod": (x,)}.items():
        along, last = np.empty_like(x), np.empty_like(np.ascontiguousarray(x.swapaxes(axis, -1)))
        assert getattr(C, name)(*given, along, axis)
        assert getattr(C, name)(*(np.ascontiguousarray(a.swapaxes(axis, -1)) for a in given), last)
        np.testing.assert_array_equal(along, last.swapaxes(axis, -1))


@needs_compiled
def test_rows_of_doubles_are_as_exact_as_those_of_numpy() -> None:
    x, out = normal(4, 7).astype(np.float64), np.empty((4, 7))
    shares = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    assert C.softmax(x, out)
    np.testing.assert_allclose(out, shares, rtol=1e-14)
    assert C.log_softmax(x, out)
    np.testing.assert_allclose(out, np.log(shares), rtol=1e-13)


@needs_compiled
@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu", "hardswish", "log_sigmoid", "mish"])
def test_doubles_are_as_exact_as_those_of_numpy(name: str) -> None:
    x, out = np.linspace(-25.0, 25.0, 1024), np.empty(1024)
    assert getattr(C, name)(x, out)
    wanted = getattr(activation, name).__wrapped__(x)
    np.testing.assert_allclose(out, wanted, rtol=1e-13, atol=1e-14)


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_extremes_of_all_are_those_of_numpy(dtype: Any) -> None:
    x = (normal(5, 9) * 10).astype(dtype)
    assert C.extreme(x, None, False, False) == x.max()
    assert C.extreme(x, None, False, True) == x.min()
    assert C.extreme(x[:, ::2], None, False, True) is None
    if dtype is not np.int64:
        x[2, 3] = np.nan
        assert np.isnan(C.extreme(x, None, False, True))


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(400, 5), (200, 63), (200, 64), (200, 65), (150, 129), (3, 5, 1000), (20_001,)])
def test_extremes_of_long_rows_are_those_of_numpy(shape: tuple[int, ...], dtype: Any) -> None:
    x = normal(*shape).astype(dtype) - 9  # none is 0
    n = shape[-1]
    for row, place in enumerate((0, n // 2, n - 1)):
        part = x.reshape(-1, n)[row * (len(shape) > 1)]
        part[place] += 20
        part[-1 - place] -= 20
    for values in (x, np.where(x > 5, np.inf, x), np.where(x < -25, np.nan, x), np.full_like(x, -np.inf)):
        for axes in {(len(shape) - 1,), tuple(range(len(shape)))}:
            for ufunc, found in ((np.maximum, reduce.amax), (np.minimum, reduce.amin)):
                wanted = ufunc.reduce(values, axes)
                out = np.empty(wanted.shape, dtype)
                assert C.extreme_rows(values, ufunc is np.minimum, out)
                np.testing.assert_array_equal(out, wanted)
                np.testing.assert_array_equal(found(values, axes), wanted)
                assert found(values, axes, True).shape == ufunc.reduce(values, axes, keepdims=True).shape


@needs_compiled
@pytest.mark.parametrize("shape", [(1 << 18,), (300_001,), (3, 262_145), (9_000_000,)])
def test_rows_so_long_that_threads_share_them(shape: tuple[int, ...]) -> None:
    x, outer = normal(*shape), shape[:-1]
    x[..., -1], x[..., 70_000] = 50, -50
    try:
        for threads in (1, 2, 3):
            C.set_threads(threads)
            sums, largest, least = (np.empty(outer, F32) for _ in range(3))
            assert C.sum_rows(x, sums)
            assert C.extreme_rows(x, False, largest)
            assert C.extreme_rows(x, True, least)
            np.testing.assert_allclose(sums, x.sum(-1, dtype=np.float64), rtol=1e-6, atol=1e-3)
            assert (largest == 50).all()
            assert (least == -50).all()
            if threads == 1:
                alone = sums
            np.testing.assert_array_equal(sums, alone)
            twice = x.astype(np.float64)
            twice[..., 200_000] = np.nan
            assert C.extreme_rows(twice, False, (found := np.empty(outer)))
            assert np.isnan(found).all()
    finally:
        C.set_threads(default_threads())


@needs_compiled
def test_extremes_of_other_arrays_are_left_to_numpy() -> None:
    x, out = normal(200, 20), np.empty(200, F32)
    assert not C.extreme_rows(x[:, ::2], False, out)
    assert not C.extreme_rows(x.astype(np.float64), False, out)
    assert not C.extreme_rows(x, False, np.empty(300, F32))
    assert not C.extreme_rows(x[:0], False, out[:0])
    for part in (x[:, ::2], x.T, x.astype(np.float16)):
        for axis in (0, 1):
            np.testing.assert_array_equal(reduce.amax(part, axis), part.max(axis))
    np.testing.assert_array_equal(reduce.amax(x, 0), x.max(0))


def test_gradients_through_the_kernels_can_be_taken_twice() -> None:
    x = torch.randn(3, 5, requires_grad=True)
    for function in (torch.nn.functional.gelu, lambda t: torch.softmax(t, 1), torch.sigmoid, torch.exp, torch.tanh):
        (first,) = torch.autograd.grad(function(x).square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        assert second.shape == x.shape
        assert torch.isfinite(second).all()


def test_without_them_all_is_as_before() -> None:
    script = (
        "import mindtorch_v2 as torch, numpy as np; from mindtorch_v2.kernels import compiled; "
        "assert compiled.C is None and compiled.exp is np.exp; print(torch.softmax(torch.zeros(1, 4), 1).tolist())"
    )
    environment = {**os.environ, "MINDTORCH_PURE": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "[[0.25, 0.25, 0.25, 0.25]]"


@needs_compiled
def test_permutations_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(5)
    fused = torch.randperm(1000)
    monkeypatch.setattr(permutation, "C", None)
    torch.manual_seed(5)
    assert torch.equal(torch.randperm(1000), fused)


@needs_compiled
def test_running_sums_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal(3, 1000)
    fused = scan.cumsum(x, 1)
    in_numpy(monkeypatch)
    np.testing.assert_array_equal(fused, scan.cumsum(x, 1))


@needs_compiled
def test_the_largest_of_few() -> None:
    assert reduce.max(np.array([[3, -1], [7, np.inf]], F32)) == np.inf
    assert np.isnan(reduce.max(np.array([3, np.nan, 7], F32)))
    assert reduce.max(np.array([-np.inf, -3], F32)) == -3


@needs_compiled
@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
def test_joining(dim: int) -> None:
    a, b = normal(2, 3, 4), normal(2, 3, 4, seed=1)
    np.testing.assert_array_equal(C.cat([a, b], dim), np.concatenate([a, b], dim))
    np.testing.assert_array_equal(C.stack([a, b], dim), np.stack([a, b], dim))
    longer = np.concatenate([b, b], dim)
    np.testing.assert_array_equal(C.cat([a, longer], dim), np.concatenate([a, longer], dim))


@needs_compiled
def test_what_cannot_be_joined_plainly_is_not() -> None:
    a = normal(2, 3)
    for arrays, dim in (
        ([], 0), ([a, normal(2)], 0), ([a, a.astype(np.float64)], 0), ([a, a.T], 0), ([a, a], 2), ([a, a], -3),
        ([normal()], 0), ([a, normal(2, 4)], 0), ([a, a.tolist()], 0), ([a.astype(complex)] * 2, 0),
    ):  # fmt: skip
        assert C.cat(arrays, dim) is None
    assert C.stack([a, normal(3, 3)], 0) is None
    assert C.stack([a, a], 3) is None


@needs_compiled
def test_memory_that_overlaps_is_left_to_numpy() -> None:
    x = normal(1001)
    assert C.gelu(x, x)
    assert not C.gelu(x[1:], x[:-1])
    assert not C.silu_backward(x[1:], x[1:], x[:-1])
    assert not C.threshold_backward(x[1:], x[1:], 0, x[:-1])


# --- stand-ins for ufuncs ---------------------------------------------------------------------------------------------

KINDS = [np.float32, np.float64, np.int64, np.float16, ml_dtypes.bfloat16]


def assert_same(got: np.ndarray, wanted: np.ndarray) -> None:
    assert type(got) is np.ndarray
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got.astype(np.float64), wanted.astype(np.float64))


@needs_compiled
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ufunc", [u for u in compiled.STAND_INS if u.nin == 2], ids=lambda ufunc: ufunc.__name__)
def test_stand_ins_do_what_ufuncs_do(ufunc: np.ufunc, kind: type) -> None:
    a, b = (40 * normal(5, 37)).astype(kind), (40 * normal(5, 37, seed=1)).astype(kind)
    b[0, 0], number = a[0, 0], np.asarray(3, kind)
    stand_in = compiled.stand_in(ufunc)
    with np.errstate(all="ignore"):
        for x, y in ((a, b), (a, number), (a, a), (a[:, :1], b), (a.T, b.T), (a[:, ::2], b[:, ::2]), (a[:0], b[:0])):
            assert_same(stand_in(x, y), ufunc(x, y))
        assert_same(np.asarray(stand_in(number, number)), np.asarray(ufunc(number, number)))


SPREAD = [(), (1,), (4,), (1, 4), (3, 1), (3, 4), (2, 3, 4), (2, 1, 4), (2, 3, 1), (1, 3, 1), (0, 4), (3, 0)]


@needs_compiled
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SPREAD)
def test_stand_ins_spread_the_second_array_over_the_first(shape: tuple[int, ...], kind: type) -> None:
    x = (9 * normal(*shape)).astype(kind)
    for other in SPREAD:
        y = (9 * normal(*other, seed=1)).astype(kind)
        for ufunc in (np.subtract, np.less):
            try:
                wanted = np.asarray(ufunc(x, y))
            except ValueError:
                with pytest.raises(ValueError, match="broadcast"):
                    compiled.stand_in(ufunc)(x, y)
            else:
                assert_same(np.asarray(compiled.stand_in(ufunc)(x, y)), wanted)


MEETING = [
    (np.s_[:], np.s_[0, 0]),
    (np.s_[:, :, 0, None], np.s_[:, :1]),
    (np.s_[:, :1], np.s_[:, :, :1]),
    (np.s_[::2, :, 5:], np.s_[1, 2, 5:]),
    (np.s_[:, ::3, :700], np.s_[:, ::3, 20:720]),
    (np.s_[0, :, :1], np.s_[0, 1]),
    (np.s_[:, :, ::-1], np.s_[:]),
    (np.s_[::-1], np.s_[0]),
    (np.s_[:, :, :8], np.s_[0, 0, :8]),
    (np.s_[:, :, :7], np.s_[:, :1, :7]),
    (np.s_[:, 0, :, None], np.s_[0, 0, :5]),
]


@needs_compiled
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("here", "there"), MEETING)
def test_large_stand_ins_spread_either_array_and_take_parts_of_them(here: Any, there: Any, kind: type) -> None:
    a, b = (9 * normal(3, 9, 1100)).astype(kind), (9 * normal(3, 9, 1100, seed=1)).astype(kind)
    x, y = a[here], b[there]
    for ufunc in (np.subtract, np.less):
        for first, second in ((x, y), (y, x), (x.T, x.T)):
            made, wanted = compiled.stand_in(ufunc)(first, second), ufunc(first, second)
            assert_same(made, wanted)
            assert made.strides == result_layout.elementwise(wanted, first, second).strides


@needs_compiled
def test_what_is_spread_may_lie_in_the_memory_written_to() -> None:
    for part in (np.s_[:1], np.s_[1], np.s_[:, :1], np.s_[-1:, -1:]):
        a = np.arange(12.0).reshape(3, 4)
        wanted = a + a[part]
        compiled.stand_in(np.add)(a, a[part], out=a)
        assert_same(a, wanted)


@needs_compiled
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ufunc", [u for u in compiled.STAND_INS if u.nin == 1], ids=lambda ufunc: ufunc.__name__)
def test_stand_ins_for_ufuncs_of_one_array(ufunc: np.ufunc, kind: type) -> None:
    with np.errstate(all="ignore"):
        for x in (
            normal(4, 9).astype(kind),
            normal(4, 9).astype(kind)[:, ::2],
            np.asarray(2, kind),
            EDGES.astype(kind),
        ):
            assert_same(np.asarray(compiled.stand_in(ufunc)(x)), np.asarray(ufunc(x)))


@needs_compiled
@pytest.mark.parametrize("ufunc", [np.maximum, np.minimum])
def test_nan_is_the_larger_and_the_smaller(ufunc: np.ufunc) -> None:
    x, y = (a.reshape(-1).copy() for a in np.meshgrid(EDGES, EDGES))
    assert_same(compiled.stand_in(ufunc)(x, y), ufunc(x, y))
    assert_same(compiled.stand_in(ufunc)(x, np.asarray(np.nan, F32)), np.full_like(x, np.nan))


@needs_compiled
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply])
def test_stand_ins_write_where_they_are_told(ufunc: np.ufunc, kind: type) -> None:
    a, b = (9 * normal(4, 9)).astype(kind), (9 * normal(4, 9, seed=1)).astype(kind)
    stand_in, wanted = compiled.stand_in(ufunc), ufunc(a, b)
    for out in (np.empty_like(a), np.empty((4, 18), kind)[:, ::2], a.copy()):
        assert stand_in(a, b, out=out) is out
        assert_same(np.ascontiguousarray(out), wanted)
    first = a.copy()
    assert stand_in(first, b, out=first) is first
    assert_same(first, wanted)
    flat = a.reshape(-1)
    wanted = ufunc(flat[:-1], flat[1:])
    stand_in(flat[:-1], flat[1:], out=flat[1:])  # overlapping memory
    assert_same(flat[1:], wanted)


@needs_compiled
def test_stand_ins_leave_the_rest_to_numpy() -> None:
    assert compiled.stand_in(np.hypot) is np.hypot
    add = compiled.stand_in(np.add)
    a = np.arange(6.0).reshape(2, 3)
    assert_same(add(a, a, dtype=np.float32), np.add(a, a, dtype=np.float32))
    assert add(1, 2) == 3
    with pytest.raises(ValueError, match="broadcast"):
        add(a, np.zeros(4))
    with pytest.raises(TypeError):
        add(a)


@needs_compiled
@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_conversions_of_16_bits(kind: type) -> None:
    every = np.arange(1 << 16).astype(np.uint16).view(kind)
    wider = C.converted(every, np.dtype(F32))
    with np.errstate(all="ignore"):
        expected = every.astype(F32)
        np.testing.assert_array_equal(wider, expected)
        middles = ((expected[:-1].astype(np.float64) + expected[1:]) / 2).astype(F32)
        steps = [expected, middles, np.nextafter(middles, F32(0)), np.nextafter(middles, F32(np.inf)), -middles]
        values = np.concatenate([*steps, normal(1000) * F32(1e-6)])
        rounded = values.astype(kind)
    narrower = C.converted(values, np.dtype(kind))
    number = ~np.isnan(values)
    np.testing.assert_array_equal(narrower.view(np.uint16)[number], rounded.view(np.uint16)[number])
    assert np.isnan(narrower[~number].astype(F32)).all()
    assert C.converted(np.zeros(3), np.dtype(kind)) is None


@needs_compiled
@pytest.mark.parametrize("name", ["cumprod", "cummax", "cummin"])
def test_running_results(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.round(3 * normal(6, 50)) / 2
    x[1, 7], x[1, 20], x[2, 0], x[3, 4], x[4, 9] = np.nan, np.nan, np.nan, np.inf, -np.inf
    fused = getattr(scan, name)(x, 1)
    in_numpy(monkeypatch)
    monkeypatch.setattr(scan, "C", None)
    for got, wanted in zip(np.atleast_1d(fused), np.atleast_1d(getattr(scan, name)(x, 1)), strict=True):
        np.testing.assert_array_equal(got, wanted)


@needs_compiled
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_sampling(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, grid = normal(2, 3, 5, 6), normal(2, 4, 7, 2)  # some places lie outside
    fused = grid_sample.grid_sample_forward(x, grid, mode)
    monkeypatch.setattr(grid_sample, "C", None)
    np.testing.assert_allclose(fused, grid_sample.grid_sample_forward(x, grid, mode), rtol=1e-5, atol=1e-6)


@needs_compiled
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_sampling_at_and_beyond_the_border(padding: str, aligned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x, grid = normal(2, 3, 5, 6), 1.5 * normal(2, 30, 11, 2)  # more points than are done at a time
    corners = np.array([-1, 1, -0.999, 1.2, -5, 1e30, np.inf, -np.inf, np.nan, 0], F32)
    grid[0, :10, :10] = np.stack(np.meshgrid(corners, corners), -1)
    x[1, :, 0, 0] = np.inf  # nothing of it may show where it is not a neighbour

    def results() -> list[Any]:
        turned = np.asfortranarray(x), np.asfortranarray(grid)
        return [grid_sample.grid_sample_forward(*given, "bilinear", padding, aligned) for given in ((x, grid), turned)]

    with np.errstate(all="ignore"):
        fused = results()
        monkeypatch.setattr(grid_sample, "C", None)
        for got, wanted in zip(fused, results(), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@needs_compiled
def test_sampling_leaves_the_rest_to_numpy() -> None:
    x, grid, out = normal(2, 3, 5, 6), normal(2, 4, 7, 2), np.empty((2, 3, 4, 7), F32)
    assert C.sample(x, grid, False, False, out)
    assert not C.sample(x.astype(float), grid, False, False, out)
    assert not C.sample(x, grid[:, ::2], False, False, out[:, :, ::2])
    assert not C.sample(x, grid[:1].copy(), False, False, out)
    assert not C.sample(x, grid, False, False, out[:1])
    assert not C.sample(x, normal(2, 4, 7, 3), False, False, out)
    assert not C.sample(normal(2, 3, 5, 6, 7), normal(2, 4, 7, 2, 2), False, False, out)


@needs_compiled
@pytest.mark.parametrize("weighted", [(False, False), (True, False), (False, True), (True, True)])
def test_groups(weighted: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    x, (weight, bias) = normal(3, 6, 4, 5) + 2, (normal(6, seed=i) if yes else None for i, yes in enumerate(weighted))
    fused = normalize.group_norm(x, 2, weight, bias)
    in_numpy(monkeypatch)
    for got, wanted in zip(fused, normalize.group_norm(x, 2, weight, bias), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@needs_compiled
@pytest.mark.parametrize("dim", [None, 2, (1, 2), (0, 2), (2, 1), 0])
@pytest.mark.parametrize("correction", [0, 1, 2.5])
def test_variances(dim: Any, correction: float, monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal(3, 4, 5) + 3
    fused = [moments.var_mean(x, dim, correction, keepdim) for keepdim in (False, True)]
    in_numpy(monkeypatch)
    monkeypatch.setattr(reduce, "C", None)
    for got, keepdim in zip(fused, (False, True), strict=True):
        for a, b in zip(got, moments.var_mean(x, dim, correction, keepdim), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-5)


@needs_compiled
@pytest.mark.parametrize("kind", [F32, np.float64])
@pytest.mark.parametrize("size", [0, 3, 70_000])
@pytest.mark.parametrize("value", [1, 0.3, -0.7, 2])
@pytest.mark.parametrize("name", ["add_scaled", "addcmul", "addcdiv", "lerp"])
def test_sums_of_terms_are_those_of_numpy_to_the_last_bit(name: str, value: float, size: int, kind: type) -> None:
    fused = getattr(arithmetic, name)
    arrays = [normal(size, seed=seed).astype(kind) for seed in range(3 if name.startswith("addc") else 2)]
    wanted = fused.__wrapped__(*arrays, value, out=None)
    np.testing.assert_array_equal(fused(*arrays, value), wanted)
    assert fused(*arrays, value, out=arrays[0]) is arrays[0]
    np.testing.assert_array_equal(arrays[0], wanted)


@needs_compiled
def test_sums_of_terms_leave_the_rest_to_numpy() -> None:
    x, y = normal(4, 6), normal(4, 6, seed=1)
    np.testing.assert_array_equal(arithmetic.add_scaled(x[:, ::2], y[:, ::2], 2.0), x[:, ::2] + y[:, ::2] * F32(2))
    np.testing.assert_array_equal(arithmetic.add_scaled(x, y[0], 2.0), x + y[0] * F32(2))
    assert C.add_scaled(x, y, 1 << 2000, None) is None
    assert C.lerp(x, y, 1j, None) is None
    assert C.addcmul(x, y, y[:2], 1.0, None) is None
    whole = normal(9)
    assert C.add_scaled(whole[:-1], whole[:-1], 2.0, whole[1:]) is None  # would read what it has written


@needs_compiled
@pytest.mark.parametrize("size", [(4, 3), (2, 4, 3), (5, -1, 3), (4, -1), (0, 4, 3)])
def test_expanded_views(size: tuple[int, ...]) -> None:
    x = normal(4, 3)
    seen = C.expand(x, size)
    shape = tuple(n if want == -1 else want for want, n in zip(size, (*(1,) * (len(size) - 2), 4, 3), strict=True))
    np.testing.assert_array_equal(seen, np.broadcast_to(x, shape))
    assert seen.base is x
    assert seen.flags.writeable


@needs_compiled
@pytest.mark.parametrize("size", [(3,), (4, 5), (-1, 4, 3), (4.0, 3), [4, 3], (4, -2)])
def test_sizes_that_do_not_fit_are_not_expanded_to(size: Any) -> None:
    assert C.expand(normal(4, 3), size) is None


@needs_compiled
def test_swapped_views() -> None:
    x = normal(4, 3, 2)[::2]
    np.testing.assert_array_equal(C.swap(x, 0, -1), x.swapaxes(0, -1), strict=True)
    assert C.swap(x, 0, -1).strides == x.swapaxes(0, -1).strides
    assert C.swap(x, 1, 1).strides == x.strides
    assert C.swap(x, 0, 3) is C.swap(x, -4, 0) is C.swap(x, 0, True) is C.swap(x, 0, 1 << 80) is None
    np.testing.assert_array_equal(C.turn(x[0]), x[0].T, strict=True)
    assert C.turn(x[0]).base is x.base
    assert C.turn(x) is C.turn(x[0, 0]) is C.turn([[1.0]]) is None


@needs_compiled
def test_views_with_a_dimension_more() -> None:
    x = normal(4, 3)
    for dim in range(-3, 3):
        assert C.unsqueeze(x, dim).shape == np.expand_dims(x, dim).shape
    assert C.unsqueeze(x, 3) is C.unsqueeze(x, -4) is C.unsqueeze(x, 1.0) is None


@needs_compiled
def test_random_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    uniform = np.random.default_rng(0).integers(0, 1 << 24, (3, 32)).astype(F32) * F32(2**-24)
    normals, wanted, stretched = uniform.copy(), uniform.reshape(-1).copy(), uniform.copy()
    assert C.normals(normals, 2.0, 0.5)
    assert C.stretch(stretched, -1, 3.5)
    monkeypatch.setattr(continuous, "C", None)
    continuous._box_muller32(wanted, 2.0, 0.5)
    np.testing.assert_allclose(normals.reshape(-1), wanted, rtol=1e-6)
    np.testing.assert_array_equal(stretched.reshape(-1), continuous._stretched(uniform.reshape(-1), -1, 3.5))
    assert not C.normals(uniform[:, :7].copy(), 0.0, 1.0)
    assert not C.stretch(uniform, None, 1.0)


@needs_compiled
@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_batch_norm_of_few(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, bias = 3 + normal(*shape), normal(3, seed=1), normal(3, seed=2)
    running = [np.zeros(3, F32), np.ones(3, F32)]
    by_running = small.batch_norm_eval(x, weight, bias, *running, 1e-5)
    moved = [part.copy() for part in running]
    fused = small.batch_norm(x, weight, bias, *moved, 0.1, 1e-5)
    monkeypatch.setattr(small, "C", None)
    assert by_running is not None
    np.testing.assert_allclose(by_running[0], normalize.batch_norm(x, weight, bias, *running, False)[0], rtol=1e-5)
    for got, wanted in zip(fused, small.batch_norm(x, weight, bias, *running, 0.1, 1e-5), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(moved, running, rtol=1e-6)


@needs_compiled
def test_batch_norm_leaves_the_rest_to_numpy() -> None:
    x, out = normal(4, 3), np.empty((4, 3), F32)
    moments = np.empty(3, F32), np.empty(3, F32)
    assert not C.batch_norm(x.astype(float), None, None, None, None, 0.1, 1e-5, out, *moments)
    assert not C.batch_norm(x, normal(2), None, None, None, 0.1, 1e-5, out, *moments)
    assert not C.batch_norm(x, None, None, None, None, None, 1e-5, out, None, None)  # nothing to normalise by


WINDOWS = [
    ((2, 3, 8, 8), (2, 2), (2, 2), (0, 0), (1, 1), False),
    ((3, 7, 9), (3, 2), (2, 1), (1, 1), (1, 1), True),
    ((2, 3, 9, 7), (3, 3), (2, 3), (1, 1), (2, 1), False),
    ((2, 3, 11), (4,), (3,), (2,), (1,), True),
]


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "kernel", "stride", "padding", "dilation", "ceil"), WINDOWS)
def test_pooling(shape: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, dtype: Any,
                 monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    x = np.round(2 * normal(*shape)).astype(dtype)  # with equal values
    x.reshape(-1)[3:5] = np.nan
    windows = kernel, stride, padding, dilation, ceil
    averages = [
        (kernel, stride, padding, ceil, included, override) for included in (True, False) for override in (None, 3)
    ]
    y = np.nan_to_num(x)

    def results() -> list[Any]:
        values, places = pool.max_pool_forward(x, *windows)
        means = [pool.avg_pool_forward(y, *given) for given in averages]
        slopes = [pool.avg_pool_backward(mean, shape, *given) for mean, given in zip(means, averages, strict=True)]
        backward = pool.max_pool_backward(np.nan_to_num(values), places, shape, *windows)
        return [values, places, backward, pool.max_pool_values(x, *windows), *means, *slopes]

    fused = results()
    monkeypatch.setattr(pool, "C", None)
    for got, wanted in zip(fused, results(), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("shape", "size"), [((2, 3, 8, 8), (4, 2)), ((3, 7, 9), (3, 4)), ((2, 3, 11), (4,)), ((2, 5, 6), (7, 1))]
)
def test_adaptive_pooling(shape: Any, size: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.round(2 * normal(*shape)).astype(dtype)

    def results() -> list[Any]:
        values, places = pool.adaptive_max_pool_forward(x, size)
        means = pool.adaptive_avg_pool_forward(x, size)
        backward = pool.adaptive_max_pool_backward(values, places, shape, size)
        return [values, places, means, backward, pool.adaptive_avg_pool_backward(means, shape, size)]

    fused = results()
    monkeypatch.setattr(pool, "C", None)
    for got, wanted in zip(fused, results(), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layers_and_groups_of_either_precision(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, bias, g = (normal(*s, seed=i).astype(dtype) for i, s in enumerate([(6, 4, 5), (5,), (5,), (6, 4, 5)]))
    by_channel = weight[:4].copy(), bias[:4].copy()

    def results() -> list[Any]:
        layer = normalize.layer_norm(x, (5,), weight, bias)
        slopes = normalize.layer_norm_backward(g, x, (5,), *layer[1:], weight, bias)
        batch = normalize.batch_norm(x, *by_channel, None, None, True)
        others = normalize.batch_norm_backward(g, x, by_channel[0], None, None, *batch[1:], True)
        return [*layer, *slopes, *batch, *others, *normalize.group_norm(x, 2, *by_channel)]

    fused = results()
    monkeypatch.setattr(normalize, "C", None)
    for got, wanted in zip(fused, results(), strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-4 if dtype is np.float32 else 1e-12, atol=1e-5)


@needs_compiled
def test_pooling_leaves_the_rest_to_numpy() -> None:
    x, out, ones = normal(2, 4, 4), np.empty((2, 2, 2), F32), ((2, 2), (2, 2), (0, 0), (1, 1))
    assert not C.max_pool(*ones, x.astype(float), out, None)
    assert not C.max_pool(*ones, x[:, ::2], out, None)
    assert not C.max_pool((2, 2, 2), *ones[1:], x, out, None)
    assert not C.avg_pool(ones[0], (-1, 2), *ones[2:], x, out, True, 0)
    assert not C.max_unpool(out, np.full((2, 2, 2), 16), x, 2)  # beyond the plane


NUMBERS: list[tuple[str, tuple[float, ...]]] = [
    ("threshold", (0.5, -2.0)), ("leaky_relu", (0.1,)), ("leaky_relu", (2.0,)), ("leaky_relu", (-0.5,)),
    ("hardtanh", (-1, 2)), ("hardtanh", (2.0, 1.0)), ("hardsigmoid", ()), ("hardshrink", (0.5,)), ("softshrink", (0.5,)),
    ("elu", (1, 1, 1)), ("elu", (1.7, 1.05, 0.5)), ("softplus", (1, 20)), ("softplus", (2.0, 3.0)), ("softplus", (-1, 20)),
]  # fmt: skip
SLOPES: list[tuple[str, tuple[float, ...]]] = [
    ("threshold_backward", (0.5,)), ("leaky_relu_backward", (0.1,)), ("hardtanh_backward", (-1, 2)),
    ("hardsigmoid_backward", ()), ("hardswish_backward", ()), ("hardshrink_backward", (0.5,)),
    ("elu_backward", (1.7, 1.05, 0.5, False)), ("softplus_backward", (2.0, 3.0)), ("log_sigmoid_backward", ()),
    ("silu_backward", ()),
]  # fmt: skip


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "numbers"), NUMBERS + SLOPES)
def test_activations_by_numbers(name: str, numbers: tuple[float, ...], dtype: Any) -> None:
    fused = getattr(activation, name)
    in_passes = getattr(activation, f"_{name}", getattr(fused, "__wrapped__", None))
    edges = EDGES if name in ("threshold", "leaky_relu", "hardtanh") else EDGES[np.isfinite(EDGES)]
    x = np.concatenate([edges, 10 * normal(100)]).astype(dtype)
    given = (normal(x.size, seed=1).astype(dtype), x) if (name, numbers) in SLOPES else (x,)
    with np.errstate(all="ignore"):
        made, expected = fused(*given, *numbers), in_passes(*given, *numbers)
    assert made.dtype == dtype
    np.testing.assert_allclose(made, expected, rtol=3e-6 if dtype is np.float32 else 1e-13, atol=1e-30)


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["sigmoid_backward", "tanh_backward"])
def test_slopes_of_outputs_in_one_pass_and_of_columns(name: str, dtype: Any) -> None:
    fused = getattr(smooth, name)
    g, y = normal(5, 12).astype(dtype), np.tanh(normal(5, 12, seed=1)).astype(dtype)
    for columns in (slice(None), slice(4, 8)):
        made = fused(g[:, columns], y[:, columns])
        np.testing.assert_array_equal(made, fused.__wrapped__(g[:, columns].copy(), y[:, columns].copy()))
        assert made.flags.c_contiguous


@needs_compiled
def test_columns_are_changed_in_place_in_one_pass() -> None:
    x = normal(5, 12)
    before, wanted = x.copy(), smooth.sigmoid(x[:, 4:8].copy())
    smooth.sigmoid(x[:, 4:8], out=x[:, 4:8])
    np.testing.assert_array_equal(x[:, 4:8], wanted)
    np.testing.assert_array_equal(x[:, :4], before[:, :4])


@needs_compiled
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_slopes_of_probabilities_in_one_pass(reduction: int, monkeypatch: pytest.MonkeyPatch) -> None:
    p, target = np.random.default_rng(0).random((2, 50), F32), np.random.default_rng(1).random((2, 50), F32)
    p[0, :2] = 0, 1
    g = np.asarray(F32(0.7)) if reduction else normal(2, 50)
    made = loss_rows._cross_entropy_slope(g, p, target, None, reduction)
    monkeypatch.setattr(loss_rows, "C", None)
    np.testing.assert_array_equal(made, loss_rows._cross_entropy_slope(g, p, target, None, reduction))


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_values_are_put_at_their_places(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal(4, 8, 40, 40).astype(dtype)
    values, indices = pool.max_pool_forward(x, (3, 3), (2, 2), (1, 1), (1, 1))
    made = pool.max_pool_backward(values, indices, x.shape, (3, 3), (2, 2), (1, 1), (1, 1))
    monkeypatch.setattr(pool, "C", None)
    wanted = pool.max_pool_backward(values, indices, x.shape, (3, 3), (2, 2), (1, 1), (1, 1))
    np.testing.assert_allclose(made, wanted, rtol=1e-6 if dtype is np.float32 else 1e-14)


@needs_compiled
def test_losses_are_picked_at_every_place() -> None:
    x, target = normal(2, 3, 2, 2).astype(np.float32), np.array([[[0, 1], [2, -1]], [[2, 2], [1, 0]]])
    losses = np.empty((2, 2, 2), np.float32)
    assert C.nll_loss(x, target, -1, None, losses)
    for i, row, column in np.ndindex(2, 2, 2):
        label = target[i, row, column]
        assert losses[i, row, column] == (0 if label < 0 else -x[i, label, row, column])
    assert C.nll_loss_sum(x, target, -1, None, False)[0] == pytest.approx(losses.sum(), rel=1e-6)
    slopes = np.empty_like(x)
    assert C.nll_loss_grad(slopes, target, -1, None, 1.0)
    assert (slopes.sum(1) == (target >= 0)).all()
    assert C.nll_loss_sum(x, target[:, :1], -1, None, False) is None


@needs_compiled
def test_putting_needs_one_type_and_shape_and_no_gaps() -> None:
    x, out = normal(3, 4).astype(np.float32), np.zeros((3, 4), np.float32)
    assert C.put(out, x)
    np.testing.assert_array_equal(out, x)
    assert not C.put(out, x.astype(np.float64))
    assert not C.put(out, x[:2])
    assert not C.put(out[:, ::2], x[:, ::2])
    assert not C.put(out[:2], out[1:])


@needs_compiled
def test_reshaping_contiguous_memory() -> None:
    x = normal(2, 3, 4).astype(np.float32)
    for size in [(6, 4), (-1,), (2, -1, 2), (1, 24), (2, 3, 4, 1)]:
        made = C.reshape(x, size)
        assert made.base is x
        assert made.strides == x.reshape(size).strides
        np.testing.assert_array_equal(made, x.reshape(size))
    for size in [(5, -1), (-1, -1), (24, 2), (), (0, -1), (-2, 12), (6.0, 4), (1 << 70,)]:
        assert C.reshape(x, size) is None
    assert C.reshape(x.T, (24,)) is None
    assert C.reshape(x[:0], (0,)) is None


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("fused", "numbers"), [(arithmetic.cube, ()), (smooth.frac, ()), (smooth.bent, (1.0,)), (smooth.bent, (2.5,))]
)
def test_powers_fractions_and_bends_in_one_pass(fused: Any, numbers: tuple[float, ...], dtype: Any) -> None:
    x = np.concatenate([EDGES, 10 * normal(100)]).astype(dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(fused(x, *numbers), fused.__wrapped__(x, *numbers))


@pytest.mark.parametrize(("low", "high"), [(-1, 2.5), (2, 1), (float("nan"), 1), (0, float("nan")), (-np.inf, 0.5)])
def test_both_bounds_of_a_clamp(low: float, high: float) -> None:
    x = np.concatenate([EDGES, 10 * normal(100)]).astype(np.float32)
    wanted = np.minimum(np.maximum(x, np.float32(low)), np.float32(high))
    np.testing.assert_array_equal(arithmetic.clamp(x, low, high), wanted)
    np.testing.assert_array_equal(arithmetic.clamp(x, low, high, out=x), wanted)


@pytest.mark.parametrize("function", [activation.relu, activation.silu, activation.hardswish])
def test_parts_of_arrays_are_laid_side_by_side_first(function: Any) -> None:
    x = normal(40, 60)
    for part in (x[:, :37], x[::3], x.T[:, ::2], np.broadcast_to(x[0, :, None], (60, 50))):
        made = function(part)
        np.testing.assert_array_equal(made, function(np.ascontiguousarray(part)))
        assert made.flags.c_contiguous or made.flags.f_contiguous


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_picked_losses(dtype: Any) -> None:
    x, target = normal(5, 4).astype(dtype), np.array([1, -7, 3, 0, -7])
    losses, picked = np.empty(5, dtype), -x[[0, 2, 3], [1, 3, 0]]
    assert C.nll_loss(x, target, -7, None, losses)
    np.testing.assert_array_equal(losses[[0, 2, 3]], picked)
    np.testing.assert_array_equal(losses[[1, 4]], 0)
    total, count = C.nll_loss_sum(x, target, -7, None, False)
    assert count == 3
    assert total.dtype == count.dtype == dtype
    assert total == pytest.approx(picked.sum())
    assert C.nll_loss_sum(x, target, -7, None, True)[0] == pytest.approx(picked.mean())
    slopes = np.empty((5, 4), dtype)
    assert C.nll_loss_grad(slopes, target, -7, None, 0.5)
    assert [tuple(place) for place in np.argwhere(slopes == 0.5)] == [(0, 1), (2, 3), (3, 0)]
    assert C.nll_loss_sum(x, target, -8, None, False) is None
    assert C.nll_loss_sum(x, target, 1 << 70, None, False) is None
    assert C.nll_loss_sum(x, target.reshape(5, 1), -7, None, False) is None
    assert not C.nll_loss(x.astype(np.float16), target, -7, None, losses)
    assert not C.nll_loss(x, target, -100, normal(3).astype(dtype), losses)


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ignored", [-100, 2])
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_weighted_losses(ignored: int, reduction: int, dtype: Any) -> None:
    x, weight, target = normal(5, 4).astype(dtype), np.abs(normal(4, seed=1)).astype(dtype), np.array([1, 2, 3, 0, 2])
    fused = small.nll_loss_small(x, target, weight, reduction, ignored)
    wanted = loss.nll_loss(x, target, weight, reduction, ignored)
    assert fused is not None
    for got, expected in zip(fused, wanted, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    if reduction:
        grad = np.ones((), dtype)
        slopes = small.nll_loss_small_backward(grad, x, target, weight, reduction, ignored, wanted[1])
        expected = loss.nll_loss_backward(grad, x, target, weight, reduction, ignored, wanted[1])
        np.testing.assert_allclose(slopes, expected, rtol=1e-6)


@needs_compiled
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dim", [0, -1])
def test_short_rows_in_order(dim: int, descending: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.round(2 * normal(7, 9))
    x[1, ::3], x[2] = np.nan, [0.0, -0.0, np.inf, -np.inf, np.nan, 1, 1, -np.inf, np.inf]
    fused = *few.sort(x, dim, descending), *few.topk(x, 3, dim, descending, True)
    monkeypatch.setattr(sort, "C", None)
    for got, wanted in zip(fused, (*sort.sort(x, dim, descending), *sort.topk(x, 3, dim, descending)), strict=True):
        np.testing.assert_array_equal(got, wanted)


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(("k", "dim"), [(0, -1), (1, -1), (10, -1), (10, 0), (64, 1), (65, 1), (600, -1)])
def test_the_first_few_of_long_rows(k: int, dim: int, largest: bool, dtype: Any,
                                    monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    x = np.round(20 * normal(1201, 1201)) / 4  # with equal values
    x[:, 3] = np.linspace(-50, 50, 1201)  # each comes before all earlier ones, or after them
    if dtype is not np.int64:
        x[1, ::3], x[2, 50:] = np.nan, np.nan
        x[4], x[4, 700:720] = np.nan, [0.0, -0.0, np.inf, -np.inf] * 5
    x = x.astype(dtype)
    fused = sort.topk(x, k, dim, largest)
    assert k > 64 or C.ordered(x, -1, k, largest) is not None
    monkeypatch.setattr(sort, "C", None)
    for got, wanted in zip(fused, sort.topk(x, k, dim, largest), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


@needs_compiled
def test_the_first_few_of_other_arrays_are_left_to_numpy() -> None:
    x = normal(3, 2000)
    assert C.ordered(x, -1, 10, True) is not None
    assert C.ordered(x, -1, 65, True) is None
    assert C.ordered(x, -1, None, True) is None
    assert C.ordered(x[:, ::2], -1, 10, True) is None
    assert C.ordered(x.reshape(2000, 3), 0, 10, True) is None
    assert C.ordered(x.astype(np.float16), -1, 10, True) is None
    assert C.ranked(x, -1, False, 3, False) is None


@needs_compiled
@pytest.mark.parametrize("diagonal", [-9, -1, 0, 2, 9])
def test_triangles(diagonal: int) -> None:
    x, out = normal(2, 4, 5), np.empty((2, 4, 5), F32)
    for lower, wanted in ((True, np.tril(x, diagonal)), (False, np.triu(x, diagonal))):
        assert C.triangle(x, diagonal, lower, out)
        np.testing.assert_array_equal(out, wanted)
    assert not C.triangle(x[0, 0], diagonal, True, out[0, 0])


@pytest.mark.skipif(C is None, reason="nothing is compiled here")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4), (70, 300)])
def test_elements_are_chosen_by_a_mask(dtype: Any, shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(3)
    x, y = (np.asarray(generator.integers(-9, 9, shape)).astype(dtype) for _ in range(2))
    mask = np.asarray(generator.random(shape) > 0.5)
    found = C.chosen(mask, x, y)
    assert found.dtype is x.dtype
    np.testing.assert_array_equal(found, np.where(mask, x, y))


@pytest.mark.skipif(C is None, reason="nothing is compiled here")
def test_masks_and_arrays_that_do_not_match_are_left_to_numpy() -> None:
    x, mask = np.ones((2, 3), np.float32), np.ones((2, 3), np.bool_)
    assert C.chosen(mask, x, x.astype(np.float64)) is None
    assert C.chosen(mask, x, x[0]) is None
    assert C.chosen(mask[:, ::2], x[:, ::2], x[:, ::2]) is None
    assert C.chosen(x, x, x) is None


@needs_compiled
def test_axes_beyond_all_numbers_and_rows_of_nothing_are_not_taken() -> None:
    x = np.ones((4, 8), F32)
    assert C.extreme(x, 2**70, False, False) is None
    assert C.variance(x, 2**70, False, 1, True) is None
    assert C.ranked(x, 2**70, False, 0, False) is None
    assert not C.gather(np.ones((2, 0), F32), np.zeros((2, 1), np.int64), np.ones((2, 1), F32))


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (3, 40), (258, 33), (600, 1025), (1030, 512)])
def test_sums_of_columns(shape: tuple[int, int], dtype: Any) -> None:
    x = normal(*shape).astype(dtype)
    out = np.empty(shape[1], dtype)
    assert C.sum_columns(x, out)
    np.testing.assert_allclose(out, x.sum(0, dtype=np.float64), rtol=1e-4 if dtype is np.float32 else 1e-11, atol=1e-4)
    assert not C.sum_columns(x.astype(np.int64), out)


@needs_compiled
@pytest.mark.parametrize("keepdim", [False, True])
def test_sums_over_the_first_dimensions_take_the_loop_over_columns(
    keepdim: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = normal(20, 30, 6, 8)
    made = totals.total(x, (0, 1), keepdim)
    monkeypatch.setattr(totals, "_sum_columns", lambda *_: None)
    wanted = totals.total(x, (0, 1), keepdim)
    assert made.shape == wanted.shape
    np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-4)
    assert not np.array_equal(made, wanted)  # they add up in another order
