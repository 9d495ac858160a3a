"""Losses against classes, connectionist temporal classification and distances beside torch."""

from __future__ import annotations

import functools
import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from kernel_parity import FLOATS, array, arrays, assert_same, check, first, gradients, sample
from mindtorch_v2.kernels.linalg import distance
from mindtorch_v2.kernels.network import ctc, loss

aten = torch.ops.aten
DOUBLES = [torch.float32, torch.float64]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


NLL = [
    ((5, 4), torch.tensor([0, 3, -100, 1, 2])),
    ((4,), torch.tensor(2)),
    ((2, 4), torch.tensor([-100, -100])),
    ((4,), torch.tensor([1])),
    ((0, 4), torch.zeros(0).long()),
    ((5, 4), torch.tensor([0, 3, 1, 1, 2], dtype=torch.uint8)),
    ((5, 4), torch.tensor([0, 4, 1, 1, 1])),
    ((5, 4), torch.tensor([0, 1, 2])),
    ((5, 4), torch.tensor([[0]])),
    ((5, 4), torch.tensor([0.0, 1, 2, 3, 1])),
    ((5, 4, 2), torch.tensor([1])),
]
PLACES = torch.tensor([[[0, 1], [2, 3], [-100, 1]], [[3, 3], [0, 1], [2, 1]]])


def weights(size: int | None, dtype: torch.dtype) -> torch.Tensor | None:
    return None if size is None else sample((size,), dtype).abs()


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64])
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_nll_loss(dtype, reduction):
    for (shape, target), size in itertools.product(NLL, [None, 4, 3]):
        args = (sample(shape, dtype), target, weights(size, dtype), reduction, -100)
        check(first(loss.nll_loss), first(aten.nll_loss_forward), *args)


@pytest.mark.parametrize("dtype", DOUBLES)
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_nll_loss_gradient(dtype, reduction):
    cases = [(*case, "nll_loss") for case in NLL[:3]] + [((2, 4, 3, 2), PLACES, "nll_loss2d")]
    for (shape, target, name), size in itertools.product(cases, [None, 4]):
        x, weight = sample(shape, dtype), weights(size, dtype)
        forward = functools.partial(
            getattr(aten, f"{name}_forward"), weight=weight, reduction=reduction, ignore_index=-100
        )
        result, grad, (wanted, _) = gradients(forward, x, target)
        got = getattr(loss, name)(array(x), array(target), arrays(weight), reduction)
        assert_same(got[0], result[0])
        if reduction:
            assert_same(got[1], result[1])
        back = getattr(loss, f"{name}_backward")(
            array(grad), array(x), array(target), arrays(weight), reduction, -100, got[1]
        )
        assert_same(back, wanted)


@pytest.mark.parametrize(
    ("shape", "target"),
    [((2, 4, 3, 2), (2, 3, 3)), ((2, 4, 3, 2), (2, 3)), ((2, 4, 3), (2, 3, 2)), ((0, 4, 3, 2), (0, 3, 2))],
)
def test_nll_loss2d_refusals(shape, target):
    for weight in (None, torch.ones(3)):
        args = (sample(shape, torch.float32), torch.zeros(target).long(), weight, 1, -100)
        check(first(loss.nll_loss2d), first(aten.nll_loss2d_forward), *args)


MARGIN = [
    ((5, 4), torch.tensor([0, 3, 2, 1, 2])),
    ((4,), torch.tensor(2)),
    ((4,), torch.tensor([1])),
    ((), torch.tensor(0)),
    ((5, 4), torch.tensor([0, 4, 1, 1, 1])),
    ((5, 4), torch.tensor([0, 1, 2])),
    ((5, 0), torch.tensor([0, 1, 2, 1, 1])),
    ((5, 4), torch.tensor([0, 1, 2, 1, 1]).int()),
]


@pytest.mark.parametrize("dtype", [*DOUBLES, torch.float16])
@pytest.mark.parametrize(("p", "margin"), [(1, 1.0), (2, 0.3), (3, 1.0)])
def test_multi_margin_loss(dtype, p, margin):
    for (shape, target), size, reduction in itertools.product(MARGIN, [None, 4, 3], [0, 1, 2]):
        args = (sample(shape, dtype), target, p, margin, weights(size, dtype), reduction)
        check(loss.multi_margin_loss, aten.multi_margin_loss, *args)


@pytest.mark.parametrize(("p", "margin"), [(1, 1.0), (2, 0.3)])
def test_multi_margin_loss_gradient(p, margin):
    for (shape, target), size, reduction in itertools.product(MARGIN[:3], [None, 4], [0, 1, 2]):
        x, rest = sample(shape, torch.float64), (target, p, margin, weights(size, torch.float64), reduction)
        _, grad, (wanted, *_) = gradients(functools.partial(_margin, rest), x)
        assert_same(loss.multi_margin_loss_backward(array(grad), array(x), *arrays(rest)), wanted)


def _margin(rest, x):
    return aten.multi_margin_loss(x, *rest)


LABELS = [
    ((2, 4), torch.tensor([[0, 3, -1, 1], [1, -1, -1, 0]])),
    ((2, 4), torch.tensor([[-1, 3, -1, 1], [1, 2, 0, 3]])),
    ((4,), torch.tensor([1, 2, -1, 0])),
    ((), torch.tensor(0)),
    ((2, 4), torch.tensor([[0, 4, -1, 1], [1, -1, -1, 0]])),
    ((2, 4), torch.tensor([0, 1, 2, 3])),
    ((2, 0), torch.zeros(2, 0).long()),
    ((2, 4), torch.tensor([[0, 3, -1, 1], [1, -1, -1, 0.0]])),
]


@pytest.mark.parametrize("dtype", [*DOUBLES, torch.float16])
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_multilabel_margin_loss(dtype, reduction):
    for shape, target in LABELS:
        check(loss.multilabel_margin_loss, aten.multilabel_margin_loss_forward, sample(shape, dtype), target, reduction)
    for shape, target in LABELS[:3] if dtype is not torch.float16 else []:
        x = sample(shape, dtype)
        result, grad, (wanted, *_) = gradients(aten.multilabel_margin_loss_forward, x, target, reduction)
        back = loss.multilabel_margin_loss_backward(array(grad), array(x), array(target), reduction, array(result[1]))
        assert_same(back, wanted)


# ---------------------------------------------------------------------------------------------------- ctc


@pytest.mark.parametrize(
    ("steps", "batch", "classes", "longest"), [(10, 3, 5, 4), (4, 2, 3, 2), (50, 4, 20, 15), (3, 2, 3, 3)]
)
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc_loss(steps, batch, classes, longest, flat, zero_infinity):
    for blank, dtype in itertools.product([0, classes - 1], DOUBLES):
        log_probs = torch.randn(steps, batch, classes, dtype=dtype).log_softmax(-1)
        lengths = torch.randint(0, longest + 1, (batch,))
        inputs = torch.randint(steps // 2, steps + 1, (batch,))
        lengths[0], inputs[0] = longest, steps
        labels = torch.randint(0, classes - 1, (batch, longest)) + (blank == 0)
        targets = torch.cat([row[:n] for row, n in zip(labels, lengths)]) if flat else labels
        args = (inputs.tolist(), lengths.tolist())
        result = aten._ctc_loss(log_probs, targets, *args, blank, zero_infinity)
        got = ctc.ctc_loss(array(log_probs), array(targets), *args, blank)
        assert_same(got[0], result[0], 1e-4 if dtype is torch.float32 else None)
        grad = torch.randn(batch, dtype=dtype)
        wanted = aten._ctc_loss_backward(grad, log_probs, targets, *args, *result, blank, zero_infinity)
        back = ctc.ctc_loss_backward(array(grad), array(log_probs), array(targets), *args, *got, blank, zero_infinity)
        assert_same(back, wanted, 1e-4 if dtype is torch.float32 else 1e-8)


@pytest.mark.parametrize(
    ("log_probs", "targets", "inputs", "lengths", "blank"),
    [
        (torch.zeros(4, 1, 3), torch.tensor([[1, 2]]), [0], [2], 0),
        (torch.zeros(4, 1, 3), torch.tensor([[1, 2]]), [0], [0], 0),
        (torch.zeros(4, 1, 3), torch.tensor([[1, 2]]), [4], [0], 0),
        (torch.zeros(4, 1, 3), torch.tensor([[1, 2]]), [5], [2], 0),
        (torch.zeros(4, 1, 3), torch.tensor([[1, 2]]), [4], [3], 0),
        (torch.zeros(4, 1, 3), torch.tensor([[1, 2]]), [4, 4], [2], 0),
        (torch.zeros(4, 1, 3), torch.tensor([[1, 2]]), [4], [2, 2], 0),
        (torch.zeros(4, 1, 3), torch.tensor([[1, 2]]), [4], [2], 3),
        (torch.zeros(4, 1, 3), torch.tensor([1, 2]), [4], [3], 0),
        (torch.zeros(4, 2, 3), torch.tensor([[1, 2]]), [4, 4], [2, 2], 0),
        (torch.zeros(4, 1, 3).long(), torch.tensor([[1, 2]]), [4], [2], 0),
        (torch.zeros(4, 1, 3), torch.tensor([[1, 2]]), [-1], [2], 0),
        (torch.zeros(4, 1, 3), torch.tensor([[1, 2]]), [4], [-2], 0),
        (torch.zeros(0, 1, 3), torch.tensor([[1, 2]]), [0], [2], 0),
    ],
)
def test_ctc_loss_edges_and_refusals(log_probs, targets, inputs, lengths, blank):
    check(first(ctc.ctc_loss), first(aten._ctc_loss), log_probs, targets, inputs, lengths, blank)


# ---------------------------------------------------------------------------------------------------- distances

PAIRS = [((4, 3), (5, 3)), ((2, 4, 3), (2, 5, 3)), ((2, 1, 4, 3), (3, 5, 3)), ((40, 3), (30, 3)), ((0, 3), (4, 3)),
         ((2, 0), (3, 0)), ((4, 3), (5, 4)), ((4, 3), (3,)), ((2, 2, 3), (3, 2, 3))]  # fmt: skip


# As torch.cdist, with the mode as the number the kernel takes.
cdist = torch._C._VariableFunctions.cdist


@pytest.mark.parametrize("p", [2.0, 1.0, 0.0, 0.5, 1.5, 3.0, math.inf, -1.0])
@pytest.mark.parametrize("dtype", DOUBLES)
def test_cdist(p, dtype):
    for (left, right), mode in itertools.product(PAIRS, [None, 1, 2]):
        limit = 1e-3 if dtype is torch.float32 else None
        check(distance.cdist, cdist, sample(left, dtype), sample(right, dtype), p, mode, tolerance=limit)


@pytest.mark.parametrize("p", [2.0, 1.0, 0.5, 1.5, 3.0, math.inf])
def test_cdist_gradient(p):
    for left, right in [*PAIRS[:2], PAIRS[3]]:
        a, b = sample(left, torch.float64), sample(right, torch.float64)
        b[..., 0, :] = a[..., 0, :]
        b[..., -1, 0] = a[..., 1, 0]
        result, grad, (wanted, wanted_other, *_) = gradients(cdist, a, b, p, 2)
        g, r = array(grad), array(result)
        assert_same(distance.cdist_backward(g, array(a), array(b), p, r), wanted)
        swapped = distance.cdist_backward(g.swapaxes(-1, -2), array(b), array(a), p, r.swapaxes(-1, -2))
        assert_same(swapped, wanted_other)


@pytest.mark.parametrize("p", [2.0, 1.0, 0.0, 0.5, 1.5, 3.0, math.inf, -1.0])
def test_pdist(p):
    for shape in ((4, 3), (0, 3), (1, 3), (3, 0), (3,), (30, 7)):
        check(distance.pdist, F.pdist, sample(shape, torch.float64), p)
    for dtype in (torch.int64, torch.float16):
        check(distance.pdist, F.pdist, torch.ones(3, 2).to(dtype))


@pytest.mark.parametrize("p", [2.0, 1.0, 0.5, 1.5, 3.0, math.inf])
def test_pdist_gradient(p):
    t = sample((6, 3), torch.float64)
    result, grad, (wanted, _) = gradients(F.pdist, t, p)
    assert_same(distance.pdist_backward(array(grad), array(t), p, array(result)), wanted)
