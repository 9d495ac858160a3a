"""Indexing, embedding and rearranging kernels: small cases worked by hand, sums against one addition at a time."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mindtorch_v2.kernels.indexing import embedding, gather_scatter
from mindtorch_v2.kernels.indexing.accumulate import add_rows

F32 = np.float32


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


# ---------------------------------------------------------------------------------------------------- adding up


@pytest.mark.parametrize("width", [1, 5, 40])
@pytest.mark.parametrize(("places", "count"), [(7, 300), (1000, 300), (2, 500), (3, 0)])
def test_add_rows_counts_repeated_places(width, places, count):
    index = np.random.default_rng(1).integers(0, places, count)
    rows, target = random(count, width), random(places, width)
    wanted = target.copy()
    for place, row in zip(index, rows):
        wanted[place] += row
    add_rows(target, index, rows)
    np.testing.assert_allclose(target, wanted, atol=1e-12)


def test_add_rows_of_bools_is_or():
    target = np.zeros((2, 40), np.bool_)
    add_rows(target, np.zeros(200, np.int64), np.ones((200, 40), np.bool_))
    assert target[0].all()
    assert not target[1].any()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_floats_are_added_in_float32(dtype):
    got = gather_scatter.index_add(np.zeros((1, 2), dtype), 0, np.zeros(4096, np.int64), np.ones((4096, 2), dtype))
    np.testing.assert_array_equal(got.astype(F32), [[4096, 4096]])


# ---------------------------------------------------------------------------------------------------- gather, scatter


def test_gather():
    a = np.array([[1, 2], [3, 4]])
    np.testing.assert_array_equal(gather_scatter.gather(a, 1, np.array([[0, 0], [1, 0]])), [[1, 1], [4, 3]])
    np.testing.assert_array_equal(gather_scatter.gather(a, 0, np.array([[1]])), [[3]])
    with pytest.raises(RuntimeError, match="index 2 is out of bounds for dimension 0 with size 2"):
        gather_scatter.gather(a, 0, np.array([[0, 2]]))
    with pytest.raises(RuntimeError, match="index -1 is out of bounds"):
        gather_scatter.gather(a, 0, np.array([[-1]]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("index_type", [np.int64, np.int32])
@pytest.mark.parametrize("shape", [(300, 170), (3, 40, 511), (1, 70_000)])
def test_many_indices_along_rows(shape, index_type, dtype):
    rng = np.random.default_rng(2)
    a, src = ((rng.standard_normal(shape) * 4).round().astype(dtype) for _ in range(2))
    index = rng.integers(0, shape[-1], shape).astype(index_type)
    rows = list(np.ndindex(shape[:-1]))
    picked = gather_scatter.gather(a, -1, index)
    added = gather_scatter.scatter_add(a, -1, index, src)
    assert picked.dtype == added.dtype == a.dtype
    for row in rows:
        assert (picked[row] == a[row][index[row]]).all()
        wanted = a[row].astype(np.float64)
        np.add.at(wanted, index[row], src[row].astype(np.float64))
        assert (added[row].astype(np.float64) == wanted.astype(dtype).astype(np.float64)).all()
    turned = a.swapaxes(0, -1), index.swapaxes(0, -1), src.swapaxes(0, -1)
    assert (gather_scatter.gather(turned[0], 0, turned[1]).swapaxes(0, -1) == picked).all()
    assert (gather_scatter.scatter_add(turned[0], 0, *turned[1:]).swapaxes(0, -1) == added).all()


@pytest.mark.parametrize("bad", [-1, 170])
def test_many_indices_are_looked_at(bad):
    a, index = random(300, 170), np.zeros((300, 170), np.int64)
    index[299, 169] = bad
    for refused in (lambda: gather_scatter.gather(a, 1, index), lambda: gather_scatter.scatter_add(a, 1, index, a)):
        with pytest.raises(RuntimeError, match=f"index {bad} is out of bounds for dimension 1 with size 170"):
            refused()


def test_scatter_writes_adds_and_multiplies():
    a, index = np.ones((2, 3), F32), np.array([[0, 1, 0], [0, 0, 1]])
    src = np.array([[1, 2, 3], [4, 5, 6]], F32)
    np.testing.assert_array_equal(gather_scatter.scatter(a, 0, index, src), [[4, 5, 3], [1, 2, 6]])
    np.testing.assert_array_equal(gather_scatter.scatter(a, 0, index, 7.0), [[7, 7, 7], [1, 7, 7]])
    np.testing.assert_array_equal(gather_scatter.scatter_add(a, 0, index, src), [[6, 6, 4], [1, 3, 7]])
    np.testing.assert_array_equal(gather_scatter.scatter(a, 0, index, 2, reduce="multiply"), [[4, 2, 2], [1, 2, 2]])
    assert a.max() == 1  # the input is left alone


@pytest.mark.parametrize(
    ("reduce", "with_self", "without"),
    [("sum", 16, 15), ("prod", 96, 96), ("mean", 4, 5), ("amax", 8, 8), ("amin", 1, 3)],
)
def test_scatter_reduce(reduce, with_self, without):
    a, src, index = np.array([1.0, 2]), np.array([3.0, 4, 8]), np.zeros(3, np.int64)
    np.testing.assert_array_equal(gather_scatter.scatter_reduce(a, 0, index, src, reduce), [with_self, 2])
    got = gather_scatter.scatter_reduce(a, 0, index, src, reduce, include_self=False)
    np.testing.assert_array_equal(got, [without, 2])


def test_integer_means_round_down():
    got = gather_scatter.scatter_reduce(np.array([1]), 0, np.zeros(3, np.int64), np.array([3, 4, -19]), "mean")
    np.testing.assert_array_equal(got, [-3])


def test_scatter_refusals():
    a = np.zeros((2, 3), F32)
    with pytest.raises(RuntimeError, match=r"Expected self.dtype to be equal to src.dtype"):
        gather_scatter.scatter(a, 0, np.array([[0]]), np.zeros((1, 1)))
    with pytest.raises(RuntimeError, match=r"Expected index \[1, 4\] to be no larger than self \[2, 3\]"):
        gather_scatter.scatter_add(a, 0, np.zeros((1, 4), np.int64), np.zeros((1, 4), F32))


# ---------------------------------------------------------------------------------------------------- index_*


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_index_slices_along_every_dim(dim):
    a = random(3, 4, 5)
    index = np.array([2, 0, 2])
    shape = tuple(3 if d == dim else n for d, n in enumerate(a.shape))
    source = random(*shape)
    np.testing.assert_array_equal(gather_scatter.index_select(a, dim, index), np.take(a, index, dim))
    wanted = np.moveaxis(a.copy(), dim, 0)
    for i, piece in zip(index, np.moveaxis(source, dim, 0)):
        wanted[i] += 2 * piece
    np.testing.assert_allclose(gather_scatter.index_add(a, dim, index, source, alpha=2), np.moveaxis(wanted, 0, dim))
    filled = np.moveaxis(gather_scatter.index_fill(a, dim, np.array([0, -1]), 9), dim, 0)
    assert (filled[[0, -1]] == 9).all()
    copied = np.moveaxis(gather_scatter.index_copy(a, dim, np.array([2, 0, 1]), source), dim, 0)
    np.testing.assert_array_equal(copied[[2, 0, 1]], np.moveaxis(source, dim, 0))


def test_index_refusals():
    a = np.zeros((2, 3), F32)
    with pytest.raises(IndexError, match="index out of range in self"):
        gather_scatter.index_select(a, 0, np.array([2]))
    with pytest.raises(RuntimeError, match=r"self \(Float\) and source \(Double\) must have the same scalar type"):
        gather_scatter.index_add(a, 0, np.array([0]), np.zeros((1, 3)))
    with pytest.raises(IndexError, match="Number of indices"):
        gather_scatter.index_copy(a, 0, np.array([0]), np.zeros((2, 3), F32))


def test_index_tuples_read():
    a = np.arange(24.0).reshape(2, 3, 4)
    rows, columns = np.array([0, 1, 1]), np.array([3, 0, 0])
    np.testing.assert_array_equal(gather_scatter.index(a, (rows, None, columns)), a[rows, :, columns])
    np.testing.assert_array_equal(gather_scatter.index(a, (a[:, :, 0] > 4,)), a[a[:, :, 0] > 4])
    with pytest.raises(IndexError, match="index 2 is out of bounds for dimension 0 with size 2"):
        gather_scatter.index(a, (np.array([0, 2]),))


def test_take_and_put_count_in_flat_order():
    a = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(gather_scatter.take(a, np.array([[0, -1]])), [[0, 5]])
    np.testing.assert_array_equal(
        gather_scatter.put(a, np.array([1, 1]), np.array([10.0, 5]), True), [[0, 16, 2], [3, 4, 5]]
    )
    with pytest.raises(IndexError, match="tried to access index 6 on a tensor of 6 elements"):
        gather_scatter.take(a, np.array([6]))


def test_masks():
    a, mask = np.arange(6.0).reshape(2, 3), np.array([True, False, True])
    np.testing.assert_array_equal(gather_scatter.masked_select(a, mask), [0, 2, 3, 5])
    np.testing.assert_array_equal(
        gather_scatter.masked_scatter(a, mask, np.arange(10.0, 20)), [[10, 1, 11], [12, 4, 13]]
    )
    with pytest.raises(RuntimeError, match="Number of elements of source < number of ones in mask"):
        gather_scatter.masked_scatter(a, mask, np.arange(3.0))


# ---------------------------------------------------------------------------------------------------- embedding


def test_embedding_and_its_gradient():
    weight, index = random(5, 3), np.array([[0, 4], [4, 2]])
    np.testing.assert_array_equal(embedding.embedding(weight, index), weight[index])
    grad = np.ones((2, 2, 3))
    np.testing.assert_array_equal(embedding.embedding_dense_backward(grad, index, 5)[:, 0], [1, 0, 1, 0, 2])
    np.testing.assert_array_equal(embedding.embedding_dense_backward(grad, index, 5, 2)[:, 0], [1, 0, 0, 0, 2])
    scaled = embedding.embedding_dense_backward(grad, index, 5, scale_grad_by_freq=True)
    np.testing.assert_array_equal(scaled[:, 0], [1, 0, 1, 0, 1])
    with pytest.raises(IndexError, match="index out of range in self"):
        embedding.embedding(weight, np.array([5]))


@pytest.mark.parametrize(
    ("mode", "wanted"), [(0, [[0, 0], [6, 9], [0, 1]]), (1, [[0, 0], [2, 3], [0, 1]]), (2, [[0, 0], [4, 5], [0, 1]])]
)
def test_embedding_bag(mode, wanted):
    weight = np.arange(6.0).reshape(3, 2)
    result, bag_of, counts, winners = embedding.embedding_bag(weight, np.array([0, 1, 2, 0]), np.array([0, 0, 3]), mode)
    np.testing.assert_array_equal(result, wanted)
    np.testing.assert_array_equal(bag_of, [1, 1, 1, 2])
    np.testing.assert_array_equal(counts, [0, 3, 1])
    if mode == 2:
        np.testing.assert_array_equal(winners, [[0, 0], [2, 2], [0, 0]])


def test_embedding_bag_gradients():
    weight, index, offsets = random(4, 3), np.array([0, 1, 2, 1]), np.array([0, 3])
    weights = np.array([1.0, 2, 3, 4])
    _, bag_of, counts, winners = embedding.embedding_bag(weight, index, offsets, 0, weights)
    grad = random(2, 3)
    got = embedding.embedding_bag_dense_backward(grad, index, bag_of, counts, winners, 4, False, 0, weights)
    np.testing.assert_allclose(got, [grad[0], 2 * grad[0] + 4 * grad[1], 3 * grad[0], np.zeros(3)])
    got = embedding.embedding_bag_per_sample_weights_backward(grad, weight, index, bag_of)
    np.testing.assert_allclose(got, [grad[b] @ weight[i] for b, i in zip(bag_of, index)])


def test_renorm_shrinks_only_what_is_too_long():
    a = np.array([[3.0, 4], [0.3, 0.4]])
    np.testing.assert_allclose(embedding.renorm(a, 2, 0, 1), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)
    weight = a.copy()
    embedding.embedding_renorm_(weight, np.array([0, 0, 1]), 1.0)
    np.testing.assert_allclose(weight, [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)


# ---------------------------------------------------------------------------------------------------- rearranging
