"""torch.sparse: matrices by coordinates, their products with dense ones, and what is said where they do not fit."""

from typing import Any

import pytest

import mindtorch_v2 as torch

PLACES = torch.tensor([[0, 1, 1, 0], [2, 0, 2, 2]])


def matrix(**options: Any) -> Any:
    return torch.sparse_coo_tensor(PLACES, torch.tensor([3.0, 4.0, 5.0, 1.0]), (2, 3), **options)


def test_values_at_one_place_add_up() -> None:
    assert matrix().to_dense().tolist() == [[0.0, 0.0, 4.0], [4.0, 0.0, 5.0]]
    joined = matrix().coalesce()
    assert joined.indices().tolist() == [[0, 1, 1], [2, 0, 2]]
    assert joined.values().tolist() == [4.0, 4.0, 5.0]
    assert (joined.is_coalesced(), matrix().is_coalesced(), matrix()._nnz()) == (True, False, 4)


@pytest.mark.parametrize(
    "product",
    [
        torch.spmm,
        torch.sparse.mm,
        torch.mm,
        torch.matmul,
        lambda a, b: a @ b,
        lambda a, b: a.mm(b),
    ],
)
def test_products_are_dense_and_carry_gradients(product: Any) -> None:
    dense = torch.arange(6.0).view(3, 2).requires_grad_()
    values = torch.tensor([3.0, 4.0, 5.0, 1.0], requires_grad=True)
    result = product(torch.sparse_coo_tensor(PLACES, values, (2, 3)), dense)
    assert result.tolist() == [[16.0, 20.0], [20.0, 29.0]]
    result.sum().backward()
    assert values.grad.tolist() == [9.0, 1.0, 9.0, 9.0]
    assert dense.grad.tolist() == [[4.0, 4.0], [0.0, 0.0], [9.0, 9.0]]


def test_a_product_with_a_vector() -> None:
    assert (matrix() @ torch.tensor([1.0, 1.0, 2.0])).tolist() == [8.0, 14.0]


def test_layouts_and_dtypes_change() -> None:
    dense = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    sparse = dense.to_sparse()
    assert (sparse.is_sparse, sparse.layout, sparse._nnz()) == (True, torch.sparse_coo, 1)
    assert torch.equal(sparse.to_dense(), dense)
    assert dense.to_dense() is dense
    assert sparse.double().dtype == torch.float64
    assert sparse.t().to_dense().tolist() == [[0.0, 0.0], [2.0, 0.0]]
    assert (2 * sparse / 4).to_dense().tolist() == [[0.0, 1.0], [0.0, 0.0]]


def test_the_size_follows_from_the_places() -> None:
    made = torch.sparse_coo_tensor([[0, 3], [1, 0]], [1.0, 2.0])
    assert (made.shape, made.dim(), made.size(0)) == ((4, 2), 2, 4)


def test_a_sparse_matrix_requires_grad_by_its_values() -> None:
    made = matrix(requires_grad=True)
    (made @ torch.ones(3, 1)).sum().backward()
    assert made.requires_grad
    assert made._values().grad.tolist() == [1.0, 1.0, 1.0, 1.0]
    assert not made.detach().requires_grad


def test_it_prints_as_torchs() -> None:
    assert repr(torch.eye(2).to_sparse()) == (
        "tensor(indices=tensor([[0, 1],\n                       [0, 1]]),\n"
        "       values=tensor([1., 1.]),\n       size=(2, 2), nnz=2, layout=torch.sparse_coo)"
    )


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: matrix().indices(), RuntimeError, "Cannot get indices on an uncoalesced tensor"),
        (lambda: torch.softmax(matrix(), 0), NotImplementedError, r"torch.softmax of a sparse tensor.*to_dense\(\)"),
        (lambda: matrix() @ matrix(), NotImplementedError, r"make the other one dense by to_dense\(\)"),
        (lambda: matrix() @ torch.ones(2, 2), RuntimeError, r"shapes cannot be multiplied \(2x3 and 2x2\)"),
        (lambda: torch.sparse_coo_tensor(PLACES, torch.ones(4), (1, 3)), RuntimeError, "do not fit into a tensor"),
        (lambda: torch.sparse_coo_tensor(PLACES, torch.ones(3)), RuntimeError, "a column for each value"),
    ],
)
def test_what_does_not_fit_is_explained(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
