"""Indexing, embedding and rearranging kernels beside torch: values, gradients and refusals."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from kernel_parity import FLOATS, array, arrays, assert_same, check, first, gradients, sample
from mindtorch_v2.kernels.indexing import embedding, gather_scatter

aten = torch.ops.aten
TYPES = [torch.bool, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex128]
# torch adds 16-bit floats up in 16 bits, these kernels in float32.
SUMS = {torch.float16: 5e-2, torch.bfloat16: 4e-1}
# input, index, dim; the later ones do not fit together
SCATTERS = [
    ((5, 4), (3, 4), 0),
    ((5, 4), (7, 2), 0),
    ((5, 4), (5, 9), -1),
    ((), (), 0),
    ((6,), (4,), 0),
    ((2, 3, 4), (2, 5, 3), 1),
    ((5, 4), (0, 4), 0),
    ((0, 4), (0, 2), 0),
    ((3, 0), (2, 0), 0),
    ((50, 40), (60, 40), 0),
    ((5, 4), (3, 4), 2),
    ((5, 4), (3, 5), 0),
    ((5, 4), (3,), 0),
]
# input, dim, how many indices
SLICES = [((5, 4), 0, 3), ((5, 4), 1, 7), ((2, 3, 40), 2, 100), ((2, 300, 4), 1, 1000), ((5,), 0, 3), ((), 0, 1),
          ((0, 3), 0, 0), ((20, 64), 0, 300), ((4, 64), -2, 300)]  # fmt: skip


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def along(shape: tuple[int, ...], dim: int) -> int:
    return max(shape[dim], 1) if -len(shape) <= dim < len(shape) else 1


# ---------------------------------------------------------------------------------------------------- gather, scatter


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", SCATTERS)
def test_gather_and_scatter(case, dtype):
    shape, index_shape, dim = case
    t, source = sample(shape, dtype), sample(tuple(n + 1 for n in index_shape), dtype)
    whole = torch.randint(0, along(shape, dim), index_shape)
    for index in (whole, whole.int(), whole.float(), whole + 1):
        check(gather_scatter.gather, torch.gather, t, dim, index)
        check(gather_scatter.scatter, torch.scatter, t, dim, index, 1.5)
        check(gather_scatter.scatter, torch.scatter, t, dim, index, 2, reduce="multiply", tolerance=SUMS.get(dtype))
        check(gather_scatter.scatter_add, torch.scatter_add, t, dim, index, source, tolerance=SUMS.get(dtype))


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(reduce, include_self):
    types = [torch.bool] * (reduce != "mean") + [torch.int64, torch.float64]
    for (shape, index_shape, dim), dtype in itertools.product(SCATTERS[:-3], types):
        t, source = sample(shape, dtype), sample(index_shape, dtype)
        index = torch.randint(0, along(shape, dim), index_shape)
        check(
            gather_scatter.scatter_reduce,
            torch.scatter_reduce,
            t,
            dim,
            index,
            source,
            reduce,
            include_self=include_self,
        )


def test_scatter_names_of_reductions():
    t, index, source = torch.zeros(2, 3), torch.tensor([[0, 1]]), torch.ones(1, 2)
    check(gather_scatter.scatter, torch.scatter, t, 0, index, 1.0, reduce="max")
    for name in ("max", "min", "median"):
        check(gather_scatter.scatter_reduce, torch.scatter_reduce, t, 0, index, source, name)


# ---------------------------------------------------------------------------------------------------- index_*


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", SLICES)
def test_index_slices(case, dtype):
    shape, dim, count = case
    t, whole = sample(shape, dtype), torch.randint(0, along(shape, dim), (count,))
    source = sample(tuple(count if d == dim % len(shape) else n for d, n in enumerate(shape)), dtype)
    alpha = 1 if dtype is torch.bool else 2
    for index in (whole, whole.int(), whole.float(), whole[None]):
        check(gather_scatter.index_select, torch.index_select, t, dim, index)
        check(gather_scatter.index_fill, torch.index_fill, t, dim, index, 1.5)
        if count < 100 or dtype not in SUMS:
            limit = SUMS.get(dtype)
            check(gather_scatter.index_add, torch.index_add, t, dim, index, source, alpha=alpha, tolerance=limit)
    once = whole.unique()
    part = source.narrow(dim, 0, once.numel()) if t.ndim else source
    check(gather_scatter.index_copy, torch.index_copy, t, dim, once, part)
    check(gather_scatter.index_copy, torch.index_copy, t, dim, once.int(), source)


@pytest.mark.parametrize(
    ("index", "source"),
    [
        (torch.tensor([0, 2]), torch.zeros(2, 3)),
        (torch.tensor([0]), torch.zeros(2, 3)),
        (torch.tensor([0, 1]), torch.zeros(2, 2)),
        (torch.tensor([[0, 1]]), torch.zeros(2, 3)),
        (torch.tensor([0, 1]), torch.zeros(2)),
        (torch.tensor([0, 1]), torch.zeros(2, 3).double()),
    ],
)
def test_index_copy_refusals(index, source):
    check(gather_scatter.index_copy, torch.index_copy, torch.zeros(2, 3), 0, index, source)


@pytest.mark.parametrize("dtype", TYPES)
def test_index_tuples(dtype):
    t = sample((5, 4, 6), dtype)
    i0, i1, i2 = torch.randint(-5, 5, (7,)), torch.randint(0, 4, (3, 7)), torch.randint(0, 6, (7,))
    plane, line = torch.rand(5, 4) > 0.5, torch.rand(6) > 0.5
    good = [[i0], [i0, i1], [None, i1], [i0, None, i2], [None, None, i2], [None, i1, i2], [i0, i1, i2], [plane],
            [None, None, line], [i0[0]], [i0[:0]]]  # fmt: skip
    for indices in [*good, [i0, i1[:, :2]], [i0.float()], [line], [i0] * 4]:
        check(gather_scatter.index, aten.index, t, indices)


# ---------------------------------------------------------------------------------------------------- take, put, masks


@pytest.mark.parametrize("dtype", TYPES)
def test_take_put_and_masks(dtype):
    t, values, ones = sample((5, 4, 6), dtype), sample((150,), dtype), torch.ones(200, dtype=dtype)
    whole = torch.randint(-120, 120, (3, 50))
    for index in (whole, whole * 9, whole.int()):
        check(gather_scatter.take, torch.take, t, index)
        check(gather_scatter.put, torch.put, t, index, values, True, tolerance=SUMS.get(dtype))
    for mask in (torch.rand(6) > 0.5, torch.rand(5, 4, 6) > 0.5, torch.rand(3) > 0.5, torch.ones(6).int()):
        check(gather_scatter.masked_select, torch.masked_select, t, mask)
        check(gather_scatter.masked_scatter, torch.masked_scatter, t, mask, ones)
    check(gather_scatter.masked_scatter, torch.masked_scatter, t, torch.ones(6).bool(), ones[:3])


def test_gradient_of_masked_scatter():
    t, mask = sample((4, 5), torch.float64), torch.rand(4, 5) > 0.5
    _, grad, (*_, wanted) = gradients(torch.masked_scatter, t, mask, sample((30,), torch.float64))
    assert_same(gather_scatter.masked_scatter_backward(array(grad), array(mask), (30,)), wanted)


# ---------------------------------------------------------------------------------------------------- embedding


@pytest.mark.parametrize("dtype", FLOATS)
def test_embedding(dtype):
    weight = sample((40, 33), dtype)
    good = [torch.randint(0, 40, (5, 7)), torch.randint(0, 40, (300,)), torch.tensor(3), torch.zeros(0).long()]
    for index in [*good, torch.tensor([40]), torch.tensor([-1]), torch.tensor([1.0]), torch.tensor([2]).int()]:
        check(embedding.embedding, torch.embedding, weight, index)
    check(embedding.embedding, torch.embedding, weight[0], good[0])
    for index, padding, scale in itertools.product(good, [-1, 3], [False, True]):
        _, grad, (wanted, *_) = gradients(torch.embedding, weight, index, padding, scale)
        got = embedding.embedding_dense_backward(array(grad), array(index), 40, padding, scale)
        assert_same(got, wanted, SUMS.get(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", [2.0, 1.0, math.inf, 3.0])
def test_renorm(dtype, p):
    t = sample((6, 7), dtype)
    for dim in (0, 1, -1):
        check(embedding.renorm, torch.renorm, t, p, dim, 9.0)
    index = torch.tensor([1, 5, 1])
    expected = torch.embedding_renorm_(t.clone(), index, 2.0, p)
    assert_same(embedding.embedding_renorm_(array(t).copy(), array(index), 2.0, p), expected)


@pytest.mark.parametrize(("p", "dim", "maxnorm"), [(-1, 0, 1.0), (0, 0, 1.0), (2, 0, -1.0), (2, 2, 1.0)])
def test_renorm_refusals(p, dim, maxnorm):
    check(embedding.renorm, torch.renorm, torch.ones(2, 3), p, dim, maxnorm)
    check(embedding.renorm, torch.renorm, torch.ones(3), p, dim, maxnorm)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("starts", [[0, 3, 3, 10, 28], [0, 10, 20], [0]])
def test_embedding_bag(mode, starts):
    def embedding_bag(weight, index, offsets, weights, last, padding):
        return torch.embedding_bag(weight, index, offsets, False, mode, False, weights, last, padding)

    cases = itertools.product([torch.float32, torch.float64], [False, True], [None, 2], [False, True])
    for dtype, last, padding, weighted in cases:
        if weighted and mode:
            continue
        weight, index = sample((6, 33), dtype), torch.randint(0, 6, (30,))
        offsets = torch.tensor(starts + [30] * last)
        weights = sample((30,), dtype) if weighted else None
        result, grad, wanted = gradients(embedding_bag, weight, index, offsets, weights, last, padding)
        own, skipped = arrays(weights), -1 if padding is None else padding
        got = embedding.embedding_bag(array(weight), array(index), array(offsets), mode, own, last, skipped)
        assert_same(got[0], result[0])
        back = embedding.embedding_bag_dense_backward(array(grad), array(index), *got[1:], 6, False, mode, own, skipped)
        assert_same(back, wanted[0])
        if weighted:
            back = embedding.embedding_bag_per_sample_weights_backward(
                array(grad), array(weight), array(index), got[1], skipped
            )
            assert_same(back, wanted[3])


@pytest.mark.parametrize(
    ("weight", "index", "offsets"),
    [
        (torch.ones(3, 2), torch.tensor([0, 1]), torch.tensor([0, 3])),
        (torch.ones(3, 2), torch.tensor([0, 3]), torch.tensor([0])),
        (torch.ones(3, 2), torch.tensor([0, -1]), torch.tensor([0])),
        (torch.ones(3, 2).long(), torch.tensor([0, 1]), torch.tensor([0])),
        (torch.ones(3, 2), torch.tensor([0.0, 1]), torch.tensor([0])),
    ],
)
def test_embedding_bag_refusals(weight, index, offsets):
    check(first(embedding.embedding_bag), first(torch.embedding_bag), weight, index, offsets)
