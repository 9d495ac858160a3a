"""Reductions and order statistics beside torch: values, indices, element types, gradients and refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from kernel_parity import (
    LARGE,
    NUMBERS,
    SHAPES,
    array,
    check,
    first,
    sample,
    variants,
    with_nan,
)
from mindtorch_v2.kernels.reduction import moments, rank, reduce

DIMS = [0, -1, 1, ()]
NORMS = [2, 0, 1, math.inf, -math.inf, 0.5, 3, -1]
pytestmark = [
    pytest.mark.filterwarnings("ignore:(var|std)(_mean)?\\(\\). degrees of freedom"),
    pytest.mark.filterwarnings("ignore:Casting complex values to real"),
]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def tolerance(dtype: torch.dtype, shape: tuple[int, ...]) -> float | None:
    """Sums of thousands of elements that cancel out differ by what rounding each of them adds."""
    if dtype is torch.float16:
        return 1e-2
    return 3e-4 if shape in LARGE and dtype in (torch.float32, torch.complex64) else None


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "nansum", "all", "any"])
def test_reduces_any_dims(name, dtype):
    kernel, reference = getattr(reduce, name), getattr(torch, name)
    large = LARGE if dtype in (torch.bool, torch.float16, torch.float32, torch.complex64) else []
    for shape in SHAPES + large:
        if dtype.is_complex and 0 in shape and name in ("amax", "amin"):
            continue
        for t in variants(shape, dtype):
            check(kernel, reference, t, tolerance=tolerance(dtype, shape))
            for dim, keepdim in itertools.product(DIMS, [False, True]):
                check(kernel, reference, t, dim, keepdim, tolerance=tolerance(dtype, shape))


@pytest.mark.parametrize("dtype", [torch.int32, torch.float16, torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_spread(name, dtype):
    for shape, dim, correction in itertools.product(SHAPES + LARGE, [None, 0, -1, (0, 1)], [0, 1, 2.5]):
        t = sample(shape, dtype)
        check(
            getattr(moments, name), getattr(torch, name), t, dim, correction=correction, keepdim=True,
            tolerance=tolerance(dtype, shape),
        )  # fmt: skip


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin", "aminmax"])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.bfloat16, torch.float32, torch.complex64])
def test_extremes_and_where_they_stand(name, dtype):
    along = getattr(reduce, f"{name}_dim" if name in ("max", "min") else name)
    for shape in SHAPES + LARGE[:2]:
        if dtype.is_complex and (0 in shape or not shape):
            continue
        for t in variants(shape, dtype):
            check(getattr(reduce, name), getattr(torch, name), t)
            for dim, keepdim in itertools.product([0, -1, 1], [False, True]):
                check(along, getattr(torch, name), t, dim=dim, keepdim=keepdim)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("p", NORMS)
def test_norm(p, dtype):
    for shape, dim in itertools.product(SHAPES + LARGE, [None, 0, -1, ()]):
        t = sample(shape, dtype, 0.5)
        limit = 1e-2 if dtype is torch.float16 else None
        check(reduce.norm, torch.linalg.vector_norm, t, p, dim, tolerance=limit)


@pytest.mark.parametrize("to", [torch.int32, torch.float16, torch.float32, torch.float64, torch.complex128])
def test_dtype_argument(to):
    for dtype, name in itertools.product([torch.bool, torch.int64, torch.float32], ["sum", "prod", "mean"]):
        check(getattr(reduce, name), getattr(torch, name), sample((3, 4), dtype), 0, dtype=to)
    for dtype in [torch.float32, torch.complex64]:
        check(reduce.norm, torch.linalg.vector_norm, sample((3, 4), dtype), dtype=to)


def test_logsumexp_and_count():
    for dtype, shape, dim in itertools.product([torch.int64, torch.float32, torch.complex128], SHAPES, [0, -1, 1]):
        t = sample(shape, dtype)
        check(reduce.logsumexp, torch.logsumexp, t, dim)
        check(reduce.count_nonzero, torch.count_nonzero, t, dim)
    for values in ([-math.inf, -math.inf], [math.inf, 1.0], [math.nan, 1.0]):
        check(reduce.logsumexp, torch.logsumexp, torch.tensor(values), 0)


# ---------------------------------------------------------------------------------------------------- order statistics


@pytest.mark.parametrize("dtype", [torch.bool, torch.int16, torch.int64, torch.float16, torch.float32, torch.float64])
def test_median_and_kthvalue(dtype):
    for shape in [*SHAPES, (70, 9), (2, 1025)]:
        t = sample(shape, dtype, 1000.0)
        for x in [t, with_nan(t)] if dtype.is_floating_point and t.numel() > 3 else [t]:
            check(rank.median, torch.median, x)
            check(rank.nanmedian, torch.nanmedian, x)
            for dim in (0, -1, 1):
                check(first(rank.median_dim), first(torch.median), x, dim)
                check(first(rank.nanmedian_dim), first(torch.nanmedian), x, dim)
                check(first(rank.kthvalue), first(torch.kthvalue), x, 2, dim)


def test_picked_indices_hold_the_picked_values():
    a = array(sample((40, 50), torch.int64, 4.0))
    for values, index in (rank.median_dim(a, 1), rank.kthvalue(a, 7, 1), rank.mode(a, 1)):
        np.testing.assert_array_equal(np.take_along_axis(a, index[:, None], 1)[:, 0], values)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32, torch.complex64])
def test_mode(dtype):
    for shape, dim in itertools.product([(5,), (3, 4), (0, 3), (3, 0), (2, 3, 4), (70, 80)], [0, -1, 2]):
        if not (dtype.is_complex and 0 in shape):
            check(first(rank.mode), first(torch.mode), sample(shape, dtype), dim)
