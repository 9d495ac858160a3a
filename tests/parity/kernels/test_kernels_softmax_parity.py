"""Softmax and normalisation kernels beside torch: values, statistics, gradients and refusals."""

from __future__ import annotations

import functools
import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from kernel_parity import FLOATS, LARGE, SHAPES, array, arrays, assert_same, check, first, gradients, sample
from mindtorch_v2.kernels.network import normalize, softmax

aten = torch.ops.aten
COARSE = {torch.float16: 2e-2, torch.bfloat16: 1e-1}
# Kernels centre first where the mean lies far from zero; 16-bit floats have no digits left there to compare.
MEANS = {dtype: [1.0] if dtype in COARSE else [1.0, 30.0] for dtype in FLOATS}
MODES = list(itertools.product([False, True], [False, True]))


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.complex64])
def test_softmax(name, dtype):
    for shape, dim in itertools.product([*SHAPES, *LARGE[:1]], [0, -1, 1, 3]):
        plain = sample(shape, dtype, 1.0)
        if plain.numel() == 0 and dtype not in FLOATS:
            continue
        inputs = [plain, plain * 200, plain - 90]
        if plain.numel() > 3 and dtype.is_floating_point:
            extreme = plain.clone()
            extreme.view(-1)[:3] = -math.inf
            broken = plain.clone()
            broken.view(-1)[[0, 2]] = torch.tensor([math.nan, math.inf], dtype=dtype)
            inputs += [extreme, broken]
        for t in inputs:
            check(getattr(softmax, name), getattr(torch, name), t, dim, tolerance=COARSE.get(dtype))


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax_gradient(name, dtype):
    for shape, dim in itertools.product([(), (5,), (3, 4), (2, 3, 4), (70, 80)], [0, -1]):
        result, grad, (wanted, _) = gradients(getattr(torch, name), sample(shape, dtype), dim)
        got = getattr(softmax, f"{name}_backward_data")(array(grad), array(result), dim)
        assert_same(got, wanted, COARSE.get(dtype))


def test_softmax_dtype_argument():
    check(softmax.softmax, torch.softmax, torch.tensor([1, 2]), 0, dtype=torch.float64)


# ---------------------------------------------------------------------------------------------------- rows


def parameters(size, dtype, has_weight, has_bias):
    return sample(size, dtype) if has_weight else None, sample(size, dtype) if has_bias else None


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("shape", "normalized"),
    [((5, 7), (7,)), ((2, 3, 4), (3, 4)), ((3,), (3,)), ((100, 700), (700,)), ((3000, 8), (8,))],
)
def test_layer_norm(dtype, shape, normalized):
    for (has_weight, has_bias), mean in itertools.product(MODES, MEANS[dtype]):
        x = sample(shape, dtype, 2.0) + mean
        weight, bias = parameters(normalized, dtype, has_weight, has_bias)
        result, grad, wanted = gradients(torch.native_layer_norm, x, normalized, weight, bias, 1e-5)
        got = normalize.layer_norm(array(x), normalized, arrays(weight), arrays(bias))
        assert_same(got[0], result[0], {**COARSE, torch.float32: 1e-4}.get(dtype))
        assert_same(got[1:], result[1:], COARSE.get(dtype))
        back = normalize.layer_norm_backward(
            array(grad), array(x), normalized, array(result[1]), array(result[2]), arrays(weight), arrays(bias)
        )
        for mine, theirs in zip(back, (wanted[0], *wanted[2:4])):
            assert (mine is None) == (theirs is None)
            if theirs is not None and dtype in (torch.float32, torch.float64):
                assert_same(mine, theirs, 2e-3 if dtype is torch.float32 else 1e-7)


def test_layer_norm_keeps_float_statistics_of_half_inputs():
    x, weight = sample((4, 6), torch.bfloat16), torch.rand(6)
    check(normalize.layer_norm, torch.native_layer_norm, x, (6,), weight, None, 1e-5, tolerance=2e-2)


@pytest.mark.parametrize(
    ("normalized", "weight", "bias"),
    [
        ((4,), None, None),
        ((), None, None),
        ((3,), torch.zeros(2), None),
        ((3,), None, torch.zeros(2)),
        ((3,), torch.zeros(3).double(), None),
        ((2, 3, 3), None, None),
    ],
)
def test_layer_norm_refusals(normalized, weight, bias):
    x = torch.zeros(2, 3)
    check(normalize.layer_norm, torch.native_layer_norm, x, normalized, weight, bias, 1e-5)


def test_layer_norm_refuses_integers():
    x = torch.zeros(2, 3).long()
    check(normalize.layer_norm, torch.native_layer_norm, x, (3,), None, None, 1e-5)


# ---------------------------------------------------------------------------------------------------- channels


def batch_norm_like(running_mean, running_var, training, x, weight, bias):
    return aten.native_batch_norm(x, weight, bias, running_mean, running_var, training, 0.1, 1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 7), (2, 3, 4, 5), (2, 3, 2, 2, 2)])
@pytest.mark.parametrize("training", [False, True])
def test_batch_norm(dtype, shape, training):
    for (has_weight, has_bias), mean in itertools.product(MODES, MEANS[dtype]):
        x = sample(shape, dtype, 2.0) + mean
        weight, bias = parameters((3,), dtype, has_weight, has_bias)
        running_mean, running_var = sample((3,), dtype), sample((3,), dtype).abs() + 0.1
        mine_mean, mine_var = array(running_mean).copy(), array(running_var).copy()
        batch_norm = functools.partial(batch_norm_like, running_mean, running_var, training)
        result, grad, wanted = gradients(batch_norm, x, weight, bias)
        got = normalize.batch_norm(array(x), arrays(weight), arrays(bias), mine_mean, mine_var, training)
        assert_same(got, result, {**COARSE, torch.float32: 1e-4}.get(dtype))
        assert_same((mine_mean, mine_var), (running_mean, running_var), COARSE.get(dtype))
        back = normalize.batch_norm_backward(
            array(grad), array(x), arrays(weight), mine_mean, mine_var, array(result[1]), array(result[2]), training
        )
        for mine, theirs in zip(back, wanted):
            if theirs is not None and dtype in (torch.float32, torch.float64):
                assert_same(mine, theirs, 2e-3 if dtype is torch.float32 else 1e-7)


@pytest.mark.parametrize(
    ("weight", "bias", "mean", "var", "training"),
    [
        (None, None, None, None, False),
        (None, None, torch.zeros(3), None, False),
        (None, None, torch.zeros(4), torch.zeros(3), False),
        (None, None, torch.zeros(3), torch.zeros(4), True),
        (torch.zeros(2), None, torch.zeros(3), torch.zeros(3), True),
        (None, torch.zeros(2), torch.zeros(3), torch.zeros(3), True),
        (torch.zeros(3).double(), None, torch.zeros(3), torch.zeros(3), True),
    ],
)
def test_batch_norm_refusals(weight, bias, mean, var, training):
    def batch_norm(x, weight, bias, mean, var, training):
        return F.batch_norm(x, mean, var, weight, bias, training)

    check(first(normalize.batch_norm), batch_norm, torch.zeros(2, 3), weight, bias, mean, var, training)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "groups"), [((2, 6), 3), ((2, 6, 5), 2), ((3, 4, 2, 3), 4), ((2, 4, 20, 20), 1)])
def test_group_norm(dtype, shape, groups):
    n, channels, space = shape[0], shape[1], math.prod(shape[2:])
    sizes = (n, channels, space, groups, 1e-5)
    # torch's gradient fails where there is a bias but no weight.
    modes = [(has_weight, has_bias) for has_weight, has_bias in MODES if has_weight or not has_bias]
    for (has_weight, has_bias), mean in itertools.product(modes, MEANS[dtype]):
        x = sample(shape, dtype, 2.0) + mean
        weight, bias = parameters((channels,), dtype, has_weight, has_bias)
        result, grad, wanted = gradients(torch.native_group_norm, x, weight, bias, *sizes)
        got = normalize.group_norm(array(x), groups, arrays(weight), arrays(bias))
        assert_same(got, result, {**COARSE, torch.float32: 1e-4}.get(dtype))
        back = normalize.group_norm_backward(
            array(grad), array(x), array(result[1]), array(result[2]), arrays(weight), groups
        )
        for mine, theirs in zip(back, wanted):
            if theirs is not None and dtype in (torch.float32, torch.float64):
                assert_same(mine, theirs, 5e-3 if dtype is torch.float32 else 1e-7)


@pytest.mark.parametrize(("groups", "weight", "bias"), [(3, None, None), (2, torch.zeros(3), None), (-1, None, None)])
def test_group_norm_refusals(groups, weight, bias):
    check(first(normalize.group_norm), torch.group_norm, torch.zeros(2, 4), groups, weight, bias)
