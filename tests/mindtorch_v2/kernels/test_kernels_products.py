"""Products of matrices give the same whichever way round BLAS takes them, with rows side by side."""

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.kernels.compiled import C
from mindtorch_v2.kernels.floating import quiet
from mindtorch_v2.kernels.linalg import products

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


FEW_FACTORS = 2048  # as in `products.h`


@pytest.mark.skipif(C is None, reason="the compiled kernels are not built here")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_compiled_products_are_those_of_numpy_to_the_last_bit(monkeypatch, shape, dtype):
    a, b = factors(*shape, dtype)
    c = np.arange(shape[2], dtype=dtype)
    with quiet():
        made, added = C.times(a, b), C.add_product(c, a, b, 1, 1)
        monkeypatch.setattr(products, "C", None)
        if a.size * b.shape[1] > FEW_FACTORS:
            np.testing.assert_array_equal(made, products.times(a, b), strict=True)
        else:  # by loops of their own
            np.testing.assert_allclose(made, products.times(a, b), rtol=4 * np.finfo(dtype).eps, strict=True)
        np.testing.assert_array_equal(added, products.times_plus(a, b, c, np.add), strict=True)
    assert made.flags.c_contiguous
    assert added.flags.c_contiguous


@pytest.mark.skipif(C is None, reason="the compiled kernels are not built here")
def test_compiled_products_refuse_what_does_not_fit():
    a, b, c = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32), np.ones(4, np.float32)
    assert C.times(a, a) is None
    assert C.times(a, b.astype(np.float64)) is None
    assert C.times(a, b[0]) is None
    assert C.times(a.astype(np.int64), b.astype(np.int64)) is None
    assert C.add_product(c[:3], a, b, 1, 1) is None
    assert C.add_product(c, a, b, 2, 1) is None
    assert C.add_product(c, a, b, 1, 10**30) is None
    assert C.add_product(c.astype(np.float64), a, b, 1, 1) is None


@pytest.mark.skipif(C is None, reason="the compiled kernels are not built here")
def test_products_of_many_rows_are_left_to_those_who_ignore_flags():
    a, b = np.ones((700, 3), np.float32), np.ones((3, 4), np.float32)
    assert C.times(a, b) is None
    with quiet():
        np.testing.assert_array_equal(C.times(a, b), np.full((700, 4), 3, np.float32), strict=True)


@pytest.mark.skipif(C is None, reason="the compiled kernels are not built here")
def test_a_few_factors_have_one_product_whether_as_a_matrix_or_as_several():
    a = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
    b = np.random.default_rng(1).standard_normal((5, 6)).astype(np.float32)
    several = C.product(a, b)
    np.testing.assert_array_equal(several.reshape(12, 6), C.times(a.reshape(12, 5), b))
    np.testing.assert_array_equal(several, C.product(a, np.broadcast_to(b, (3, 5, 6))))
