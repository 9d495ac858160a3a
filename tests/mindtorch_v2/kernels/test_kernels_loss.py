"""Loss, CTC and distance kernels: small cases worked by hand, CTC against all alignments, gradients against slopes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from mindtorch_v2.kernels.linalg import distance
from mindtorch_v2.kernels.network import ctc, loss
from mindtorch_v2.kernels.network.softmax import log_softmax

NONE, MEAN, SUM = 0, 1, 2


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def slope(function, a: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Central differences of a number."""
    result = np.zeros_like(a)
    for at in np.ndindex(*a.shape):
        up, down = a.copy(), a.copy()
        up[at] += step
        down[at] -= step
        result[at] = (function(up) - function(down)) / (2 * step)
    return result


@pytest.mark.parametrize("classes", [40, 700, 1009])
@pytest.mark.parametrize("reduction", [NONE, MEAN, SUM])
def test_cross_entropy_of_many_rows_is_the_loss_of_their_log_softmax(classes: int, reduction: int) -> None:
    x, target = random(150, classes) * 4, np.arange(150) % classes
    target[7] = 3
    weight = np.linspace(0.5, 2, classes)
    for w in (None, weight):
        found = loss.cross_entropy(x, target, w, reduction, 3)
        assert found is not None
        wanted = loss.nll_loss(log_softmax(x, 1), target, w, reduction, 3)[0]
        np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("value", [math.inf, math.nan, 1e4])
def test_cross_entropy_leaves_sums_out_of_bounds_to_log_softmax(value: float) -> None:
    x = random(150, 40)
    x[149, 0] = value
    assert loss.cross_entropy(x, np.zeros(150, np.int64), None, MEAN, -100) is None
    with pytest.raises(IndexError, match="Target 40 is out of bounds"):
        loss.cross_entropy(random(150, 40), np.full(150, 40), None, MEAN, -100)


ONE = np.array(1.0)


# ---------------------------------------------------------------------------------------------------- nll


def test_nll_loss_weighs_and_ignores():
    x = np.array([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]])
    target, weight = np.array([0, 2, -100]), np.array([1.0, 2, 3])
    np.testing.assert_array_equal(loss.nll_loss(x, target, weight, NONE)[0], [-1, -18, 0])
    value, weights = loss.nll_loss(x, target, weight, MEAN)
    assert (value, weights) == (-19 / 4, 4)
    assert loss.nll_loss(x, target, None, SUM)[0] == -7
    assert np.isnan(loss.nll_loss(x, np.full(3, -100))[0])
    assert loss.nll_loss(x[0], np.array(1), reduction=NONE)[0].shape == ()


@pytest.mark.parametrize("reduction", [MEAN, SUM])
@pytest.mark.parametrize("name", ["nll_loss", "nll_loss2d"])
def test_nll_gradients_are_slopes(name, reduction):
    x = random(3, 4) if name == "nll_loss" else random(2, 4, 2, 3)
    target = np.array([0, 3, -100]) if name == "nll_loss" else np.arange(12).reshape(2, 2, 3) % 4
    weight = np.array([1.0, 2, 3, 4])
    forward = getattr(loss, name)
    _, weights = forward(x, target, weight, reduction)
    got = getattr(loss, f"{name}_backward")(ONE, x, target, weight, reduction, -100, weights)
    np.testing.assert_allclose(got, slope(lambda v: forward(v, target, weight, reduction)[0], x), atol=1e-8)


def test_nll_refusals():
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        loss.nll_loss(x, np.array([0, 3]))
    with pytest.raises(RuntimeError, match="expected target dtype to be Long or Byte, but got Int"):
        loss.nll_loss(x, np.array([0, 1], np.int32))
    with pytest.raises(RuntimeError, match="multi-target not supported"):
        loss.nll_loss(x, np.array([[0, 1]]))


# ---------------------------------------------------------------------------------------------------- margins


@pytest.mark.parametrize("p", [1, 2])
def test_multi_margin_loss_by_its_definition(p):
    x, target, weight = random(3, 4), np.array([1, 0, 3]), np.array([1.0, 2, 3, 4])
    wanted = [
        weight[t] * sum(max(0, 0.5 - row[t] + row[c]) ** p for c in range(4) if c != t) / 4 for row, t in zip(x, target)
    ]
    np.testing.assert_allclose(loss.multi_margin_loss(x, target, p, 0.5, weight, NONE), wanted)
    got = loss.multi_margin_loss_backward(ONE, x, target, p, 0.5, weight)
    np.testing.assert_allclose(got, slope(lambda v: loss.multi_margin_loss(v, target, p, 0.5, weight), x), atol=1e-8)


def test_multilabel_margin_loss_by_its_definition():
    x, target = random(2, 4), np.array([[3, 0, -1, 1], [2, -1, 0, 0]])
    labels = [[3, 0], [2]]
    wanted = [
        sum(max(0, 1 - row[t] + row[c]) for t in own for c in range(4) if c not in own) / 4
        for row, own in zip(x, labels)
    ]
    value, is_target = loss.multilabel_margin_loss(x, target, NONE)
    np.testing.assert_allclose(value, wanted)
    np.testing.assert_array_equal(is_target, [[1, 0, 0, 1], [0, 0, 1, 0]])
    got = loss.multilabel_margin_loss_backward(ONE, x, target, MEAN, is_target)
    np.testing.assert_allclose(got, slope(lambda v: loss.multilabel_margin_loss(v, target)[0], x), atol=1e-8)


# ---------------------------------------------------------------------------------------------------- ctc


def alignments(log_probs: np.ndarray, target: tuple[int, ...], blank: int) -> float:
    """Log likelihood by visiting every path."""
    likelihood = 0.0
    for path in itertools.product(range(log_probs.shape[1]), repeat=log_probs.shape[0]):
        merged = [label for label, _ in itertools.groupby(path)]
        if tuple(label for label in merged if label != blank) == target:
            likelihood += math.exp(sum(log_probs[t, label] for t, label in enumerate(path)))
    return -math.log(likelihood) if likelihood else math.inf


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("flat", [False, True])
def test_ctc_loss_sums_over_all_alignments(blank, flat):
    log_probs = log_softmax(random(5, 4, 3), 2)
    a, b = (c for c in range(3) if c != blank)
    targets = [(a, b), (a, a), (), (b,)]
    lengths, inputs = [len(t) for t in targets], [5, 4, 5, 1]
    padded = np.array([[*t, *[a] * (2 - len(t))] for t in targets])
    given = np.array([c for t in targets for c in t]) if flat else padded
    value, _ = ctc.ctc_loss(log_probs, given, inputs, lengths, blank)
    wanted = [alignments(log_probs[:n, i], t, blank) for i, (n, t) in enumerate(zip(inputs, targets))]
    np.testing.assert_allclose(value, wanted)


def test_ctc_gradient_is_the_slope_through_log_softmax():
    x, targets = random(6, 2, 4), np.array([[1, 1, 3], [2, 0, 0]])
    inputs, lengths = [6, 4], [3, 1]

    def forward(x):
        return ctc.ctc_loss(log_softmax(x, 2), targets, inputs, lengths)

    value, alpha = forward(x)
    # Each time step's gradient with respect to log_probs is already taken through the softmax, as torch does.
    got = ctc.ctc_loss_backward(np.ones(2), log_softmax(x, 2), targets, inputs, lengths, value, alpha)
    np.testing.assert_allclose(got, slope(lambda v: forward(v)[0].sum(), x), atol=1e-7)


def test_ctc_unreachable_targets():
    log_probs, targets = np.zeros((2, 1, 3)), np.array([[1, 1]])
    value, alpha = ctc.ctc_loss(log_probs, targets, [2], [2])
    assert value == math.inf
    args = (np.ones(1), log_probs, targets, [2], [2], value, alpha)
    assert np.isnan(ctc.ctc_loss_backward(*args)).all()
    assert not ctc.ctc_loss_backward(*args, zero_infinity=True).any()


def test_ctc_refusals():
    with pytest.raises(RuntimeError, match="Expected input_lengths to have value at most 4, but got value 5"):
        ctc.ctc_loss(np.zeros((4, 1, 3)), np.array([[1, 2]]), [5], [2])
    with pytest.raises(RuntimeError, match="blank must be in label range"):
        ctc.ctc_loss(np.zeros((4, 1, 3)), np.array([[1, 2]]), [4], [2], 3)


# ---------------------------------------------------------------------------------------------------- distances


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("rows", [4, 40])
def test_cdist_by_its_definition(p, rows):
    a, b = random(rows, 3), random(5, 3)
    difference = np.abs(a[:, None] - b[None])
    if p == 0:
        wanted = (difference != 0).sum(-1)
    else:
        wanted = difference.max(-1) if p == math.inf else (difference**p).sum(-1) ** (1 / p)
    np.testing.assert_allclose(distance.cdist(a, b, p), wanted, rtol=1e-7)
    np.testing.assert_allclose(distance.pdist(a, p), distance.cdist(a, a, p, 2)[np.triu_indices(rows, 1)])


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_distance_gradients_are_slopes(p):
    a, b, grad = random(3, 2), random(4, 2), random(4, 3).T
    got = distance.cdist_backward(grad, a, b, p, distance.cdist(a, b, p))
    np.testing.assert_allclose(got, slope(lambda v: (distance.cdist(v, b, p) * grad).sum(), a), rtol=1e-5, atol=1e-6)
    weights = random(6)
    got = distance.pdist_backward(weights, b, p, distance.pdist(b, p))
    np.testing.assert_allclose(got, slope(lambda v: (distance.pdist(v, p) * weights).sum(), b), rtol=1e-5, atol=1e-6)


def test_equal_points_have_no_gradient():
    a = np.zeros((2, 3))
    for p in (0.5, 1.0, 1.5, 2.0, 3.0):
        assert not distance.cdist_backward(np.ones((2, 2)), a, a, p, distance.cdist(a, a, p)).any()


def test_distance_refusals():
    with pytest.raises(RuntimeError, match=r"X1 and X2 must have the same number of columns. X1: 3 X2: 4"):
        distance.cdist(np.zeros((2, 3)), np.zeros((2, 4)))
    with pytest.raises(RuntimeError, match="pdist only supports 2D tensors, got: 1D"):
        distance.pdist(np.zeros(3))
