"""Sorting, unique elements, binary search, scans and histograms beside torch: values, gradients and refusals."""

from __future__ import annotations

import functools
import itertools
import math

import pytest
import torch

from kernel_parity import NUMBERS, SHAPES, array, check, first, sample, variants, with_nan
from mindtorch_v2.kernels.reduction import histogram, scan, sort

SORTED_SHAPES = [*SHAPES, (70, 80), (3001,), (2, 1025)]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def stable_sort(t, dim=-1, descending=False):
    return torch.sort(t, dim=dim, descending=descending, stable=True)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable(dtype, descending):
    for shape, dim in itertools.product(SORTED_SHAPES, [0, -1, 1]):
        for t in variants(shape, dtype):
            if dtype.is_floating_point and t.numel() > 5:
                t = t.clone().contiguous()
                t.view(-1)[4:6] = torch.tensor([0.0, -0.0])
            check(sort.sort, stable_sort, t, dim, descending)


def test_sort_of_wide_integers():
    for low, high in [(-3, 3), (-(2**40), 2**40), (2**62, 2**62 + 9)]:
        check(sort.sort, stable_sort, torch.randint(low, high, (2000,)))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_topk_values(dtype):
    for shape in SORTED_SHAPES:
        for t in variants(shape, dtype):
            for dim, k, largest in itertools.product([0, -1, 1], [0, 1, 3, -1], [False, True]):
                check(first(sort.topk), first(torch.topk), t, k, dim, largest)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_unique(dtype):
    everything = {"return_inverse": True, "return_counts": True}
    for shape in SORTED_SHAPES:
        t = sample(shape, dtype)
        check(first(sort.unique), torch.unique, t)
        check(sort.unique, torch.unique, t, **everything)
        check(sort.unique_consecutive, torch.unique_consecutive, t, **everything)
        for dim in (0, -1, 1):
            check(sort.unique_dim, torch.unique, t, dim=dim, **everything)
            check(sort.unique_consecutive, torch.unique_consecutive, t, dim=dim, **everything)


def test_unique_keeps_every_nan_apart():
    t = torch.tensor([math.nan, 1.0, math.nan])
    check(first(sort.unique), torch.unique, t)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_searchsorted_and_bucketize(dtype):
    edges = torch.tensor([-2, 0, 1, 1, 4] if dtype.is_signed else [0, 0, 1, 1, 1]).to(dtype)
    values = torch.tensor([[1, 0, 3], [9, 1, 2]]).to(dtype)
    sequences = (edges, torch.stack([edges, edges]), edges[:0], edges[0], torch.stack([edges] * 3))
    for right, out_int32 in itertools.product([False, True], [False, True]):
        for sequence in sequences:
            check(sort.searchsorted, torch.searchsorted, sequence, values, right=right, out_int32=out_int32)
        check(sort.bucketize, torch.bucketize, values, edges, right=right)


@pytest.mark.parametrize(
    "options",
    [
        {"side": "right"},
        {"side": "left", "right": True},
        {"side": "middle"},
        {"sorter": torch.tensor([1, 2, 0])},
        {"sorter": torch.tensor([1, 2, 3])},
        {"sorter": torch.tensor([1, 2])},
        {"sorter": torch.tensor([1.0, 2, 0])},
    ],
)
def test_searchsorted_options(options):
    check(sort.searchsorted, torch.searchsorted, torch.tensor([5, 1, 3]), torch.tensor([3, 4]), **options)


# ---------------------------------------------------------------------------------------------------- scans


@pytest.mark.parametrize("dtype", [d for d in NUMBERS if not d.is_complex])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"])
def test_scan(name, dtype):
    limit = {torch.float16: 1e-2, torch.bfloat16: 4e-2, torch.float32: 1e-4}.get(dtype)
    shapes = SHAPES if name == "cumprod" else [*SHAPES, (70, 80), (3001,), (9, 1025)]
    for shape, dim in itertools.product(shapes, [0, -1, 1]):
        for t in variants(shape, dtype):
            check(getattr(scan, name), getattr(torch, name), t, dim, tolerance=limit)


def test_complex_logcumsumexp_up_to_full_turns():
    t = sample((3, 40), torch.complex128)
    got, wanted = torch.from_numpy(scan.logcumsumexp(array(t), 1)), torch.logcumsumexp(t, 1)
    torch.testing.assert_close(got.exp(), wanted.exp())


# ---------------------------------------------------------------------------------------------------- histograms


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_histc(dtype):
    t = sample((500,), dtype)
    for args in [(100,), (10, -1, 1), (7, 0, 0), (0,), (10, -50, 5)]:
        check(histogram.histc, torch.histc, t, *args)


def test_histc_of_special_values():
    for values in (with_nan(sample((9,), torch.float32)), torch.tensor([1.0, 1.0]), torch.zeros(0)):
        check(histogram.histc, torch.histc, values, 4, -3, 3)
    check(histogram.histc, torch.histc, torch.ones(3), 4)
    check(histogram.histc, torch.histc, torch.tensor([1.0, math.inf]), 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_histogram(dtype):
    t, weight = sample((500,), dtype), torch.rand(500).to(dtype)
    edges = torch.tensor([-1.0, 0, 0.3, 2]).to(dtype)
    for bins, given, density in itertools.product(
        [10, 0, edges, edges.reshape(2, 2), edges[:0]], [None, weight, weight[:3]], [False, True]
    ):
        check(histogram.histogram, torch.histogram, t, bins, weight=given, density=density)
    for span in [(-1.0, 1.0), (1.0, -1.0), (0.0, math.inf)]:
        check(histogram.histogram, torch.histogram, t, 10, range=span)


def flat(function):
    """The histogram and its edges side by side."""

    @functools.wraps(function)
    def call(*args, **options):
        counts, edges = function(*args, **options)
        return counts, *edges

    return call


def test_histogramdd():
    t = sample((300, 2), torch.float64)
    edges = [torch.tensor([-1.0, 0, 1]).double(), torch.tensor([-2.0, 0, 0.1, 3]).double()]
    for bins, density in itertools.product([[3, 4], 3, edges, [3], [0, 2], edges[:1]], [False, True]):
        check(flat(histogram.histogramdd), flat(torch.histogramdd), t, bins, density=density)
    check(flat(histogram.histogramdd), flat(torch.histogramdd), t[0], [2, 2])


@pytest.mark.parametrize(
    ("values", "weights", "minlength"),
    [
        (torch.tensor([1, 1, 3]), None, 0),
        (torch.tensor([1, 1, 3]), None, 6),
        (torch.tensor([1, 1, 3]), torch.tensor([0.5, 1, 2]), 0),
        (torch.tensor([1, 1, 3]), torch.tensor([1, 1, 2]), 0),
        (torch.tensor([1, 1, 3]), torch.tensor([1.0]), 0),
        (torch.tensor([1], dtype=torch.uint8), torch.tensor([1.0]).half(), 0),
        (torch.tensor([-1]), None, 0),
        (torch.tensor([1.0]), None, 0),
        (torch.tensor([[1]]), None, 0),
        (torch.zeros(0).long(), None, 3),
        (torch.tensor([1]), None, -1),
    ],
)
def test_bincount(values, weights, minlength):
    check(histogram.bincount, torch.bincount, values, weights, minlength)
