"""Products of matrices give the same whichever way round BLAS takes them, with rows side by side."""

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.kernels import products

SHAPES = [(16, 128, 1024), (20, 128, 512), (64, 784, 256), (3, 5, 4), (128, 64, 512), (16, 100, 4096)]


def factors(rows, inner, columns, dtype):
    random = np.random.default_rng(0)
    a = random.standard_normal((rows, inner)).astype(dtype)
    return a, random.standard_normal((columns, inner)).astype(dtype).T


def test_few_rows_against_many_columns_side_by_side_are_turned():
    turned = [shape for shape in SHAPES if products._is_quick_turned(*factors(*shape, np.float32))]
    assert turned == [(16, 128, 1024), (20, 128, 512), (64, 784, 256), (16, 100, 4096)]
    a, b = factors(64, 784, 256, np.float32)
    assert not products._is_quick_turned(a, np.ascontiguousarray(b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_agree_with_einsum(shape, dtype):
    a, b = factors(*shape, dtype)
    c = np.arange(shape[2], dtype=dtype)
    expected = np.einsum("ij,jk->ik", a.astype(np.float64), b.astype(np.float64))
    tolerance = 1e-4 if dtype is np.float32 else 1e-11
    for result, wanted in ((products.times(a, b), expected), (products.times_plus(a, b, c, np.add), expected + c)):
        assert result.dtype == dtype
        assert result.flags.c_contiguous
        np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)


def test_a_turned_product_in_which_nothing_fits_says_so():
    x, weight = torch.ones(64, 784), torch.ones(256, 784)
    with pytest.raises(RuntimeError, match=r"expand|size"):
        torch.nn.functional.linear(x, weight, torch.ones(255))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        torch.nn.functional.linear(torch.ones(64, 783), weight, torch.ones(256))
