"""torch.sparse: matrices by coordinates, their products with dense ones, and what is said where they do not fit."""

import copy
import io
import pickle
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
        (lambda: matrix() @ torch.ones(3, 2, 2), RuntimeError, "cannot be multiplied"),
        (lambda: matrix() + torch.ones(2, 3), RuntimeError, r"add\(sparse, dense\) is not supported"),
        (lambda: matrix() / torch.ones(2, 3), RuntimeError, "Sparse division requires a scalar"),
        (lambda: matrix().numpy(), TypeError, "can't convert Sparse layout tensor to numpy"),
        (lambda: torch.sparse_coo_tensor([[-1]], [1.0], (3,)), RuntimeError, "found negative index -1"),
        (lambda: matrix() @ torch.ones(2, 2), RuntimeError, r"shapes cannot be multiplied \(2x3 and 2x2\)"),
        (
            lambda: torch.sparse_coo_tensor(PLACES, torch.ones(4), (1, 3)),
            RuntimeError,
            "size is inconsistent with indices",
        ),
        (lambda: torch.sparse_coo_tensor(PLACES, torch.ones(3)), RuntimeError, "must have same nnz"),
    ],
)
def test_what_does_not_fit_is_explained(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


FIRST, SECOND = [[0.0, 0.0, 4.0], [4.0, 0.0, 5.0]], [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda a, d: a + a, [[0.0, 0.0, 8.0], [8.0, 0.0, 10.0]]),
        (lambda a, d: d + a, [[0.0, 1.0, 6.0], [7.0, 4.0, 10.0]]),
        (lambda a, d: a - a.coalesce(), [[0.0] * 3] * 2),
        (lambda a, d: a * a, [[0.0, 0.0, 16.0], [16.0, 0.0, 25.0]]),
        (lambda a, d: a * d, [[0.0, 0.0, 8.0], [12.0, 0.0, 25.0]]),
        (lambda a, d: d[0] * a, [[0.0, 0.0, 8.0], [0.0, 0.0, 10.0]]),
        (lambda a, d: -a, [[0.0, 0.0, -4.0], [-4.0, 0.0, -5.0]]),
        (lambda a, d: a.pow(2), [[0.0, 0.0, 16.0], [16.0, 0.0, 25.0]]),
        (lambda a, d: torch.sparse.mm(a, a.t()), [[16.0, 20.0], [20.0, 41.0]]),
        (lambda a, d: d.t() @ a, [[12.0, 0.0, 15.0], [16.0, 0.0, 24.0], [20.0, 0.0, 33.0]]),
        (lambda a, d: torch.sparse.addmm(torch.ones(2, 2), a, d.t(), beta=2.0), [[10.0, 22.0], [12.0, 39.0]]),
        (lambda a, d: torch.nn.functional.linear(a, d), [[8.0, 20.0], [10.0, 37.0]]),
        (lambda a, d: torch.sparse.sum(a), 13.0),
        (lambda a, d: torch.sparse.sum(a, 1), [4.0, 9.0]),
        (lambda a, d: a.sum((0, 1)), 13.0),
        (lambda a, d: a.index_select(0, torch.tensor([1, 1])), [[4.0, 0.0, 5.0]] * 2),
        (lambda a, d: a[1], [4.0, 0.0, 5.0]),
        (lambda a, d: torch.cat([a, a], 1), [[0.0, 0.0, 4.0] * 2, [4.0, 0.0, 5.0] * 2]),
        (lambda a, d: torch.stack([a, a]), [FIRST] * 2),
        (lambda a, d: d.sparse_mask(a.coalesce()), [[0.0, 0.0, 2.0], [3.0, 0.0, 5.0]]),
        (lambda a, d: a.clone().mul_(2), [[0.0, 0.0, 8.0], [8.0, 0.0, 10.0]]),
        (lambda a, d: torch.zeros_like(a), [[0.0] * 3] * 2),
        (lambda a, d: torch.bmm(torch.stack([a, a]), torch.stack([d.t(), d.t()])), [[[8.0, 20.0], [10.0, 37.0]]] * 2),
        (lambda a, d: d.to_sparse_csr() @ d.t(), [[5.0, 14.0], [14.0, 50.0]]),
        (lambda a, d: torch.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [4.0, 4.0, 5.0], (2, 3)), FIRST),
        (lambda a, d: d.to_sparse(1), SECOND),
        (lambda a, d: torch.sparse_coo_tensor((2, 3)), [[0.0] * 3] * 2),
    ],
)
def test_arithmetic_is_that_of_the_dense_tensor(call: Any, expected: Any) -> None:
    result = call(matrix(), torch.tensor(SECOND))
    assert result.to_dense().tolist() == expected


def test_rows_are_those_of_the_compressed_layout() -> None:
    rows = torch.tensor(SECOND).to_sparse_csr()
    assert (rows.crow_indices().tolist(), rows.col_indices().tolist()) == ([0, 2, 5], [1, 2, 0, 1, 2])
    assert (rows.layout, rows.is_sparse_csr, rows.is_sparse) == (torch.sparse_csr, True, False)
    assert repr(rows).endswith("size=(2, 3), nnz=5,\n       layout=torch.sparse_csr)")


def test_softmax_is_among_the_values_that_are_there() -> None:
    values = torch.tensor([3.0, 4.0, 5.0, 1.0], requires_grad=True)
    made = torch.sparse.softmax(torch.sparse_coo_tensor(PLACES, values, (2, 3)), 1)
    assert made.to_dense()[1].tolist() == pytest.approx([0.268941, 0.0, 0.731059], abs=1e-6)
    made.to_dense()[1, 2].backward()
    assert values.grad.tolist() == pytest.approx([0.0, -0.196612, 0.196612, 0.0], abs=1e-6)


def test_it_is_a_tensor_that_modules_keep_copy_and_save() -> None:
    module = torch.nn.Module()
    module.register_buffer("adjacency", matrix().coalesce())
    twin = copy.deepcopy(module)
    file = io.BytesIO()
    torch.save(twin.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file)["adjacency"]
    assert isinstance(loaded, torch.Tensor)
    assert loaded.is_coalesced()
    assert loaded.to_dense().tolist() == FIRST
    assert pickle.loads(pickle.dumps(loaded)).to_dense().tolist() == FIRST


def test_custom_functions_keep_it() -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, values: Any, dense: Any) -> Any:
            sparse = torch.sparse_coo_tensor(PLACES, values, (2, 3))
            ctx.save_for_backward(sparse, dense)
            return sparse @ dense

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            sparse, _ = ctx.saved_tensors
            return None, sparse.t() @ gradient

    dense = torch.ones(3, 1, requires_grad=True)
    Product.apply(torch.tensor([3.0, 4.0, 5.0, 1.0]), dense).sum().backward()
    assert dense.grad.tolist() == [[4.0], [0.0], [9.0]]


@pytest.mark.parametrize(
    ("starts", "text"),
    [([0, 2, 1], "does not fall"), ([1, 2, 3], "begins with 0"), ([0, 1, 9], "end with 9, but there")],
)
def test_rows_that_are_no_rows_are_refused(starts: list[int], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        torch.sparse_csr_tensor(starts, [0, 1, 2], [1.0, 2.0, 3.0], (2, 3))


def test_transposed_batches_of_matrices_change_their_last_dimensions() -> None:
    s = torch.sparse_coo_tensor(torch.tensor([[0, 0], [0, 1], [2, 0]]), torch.tensor([3.0, 4.0]), (2, 2, 3))
    for turned in (s.mT, s.mH, s.transpose(-1, -2), s.permute(0, 2, 1)):
        assert turned.shape == (2, 3, 2)
        assert torch.equal(turned.to_dense(), s.to_dense().mT)
    assert torch.equal(s.T.to_dense(), s.to_dense().permute(2, 1, 0))


def test_dense_dimensions_are_permuted_among_themselves() -> None:
    s = torch.sparse_coo_tensor(torch.tensor([[0, 1]]), torch.arange(24.0).view(2, 3, 4), (2, 3, 4))
    assert torch.equal(s.permute(0, 2, 1).to_dense(), s.to_dense().permute(0, 2, 1))
    with pytest.raises(RuntimeError, match="transpositions between sparse and dense dimensions are not allowed"):
        s.permute(2, 1, 0)
    with pytest.raises(RuntimeError, match="transposed dimensions must be sparse Got sparse_dim: 1, d0: 0, d1: 1"):
        s.transpose(0, 1)


@pytest.mark.parametrize("name", ["mT", "mH"])
def test_a_row_has_no_matrix_to_transpose(name: str) -> None:
    with pytest.raises(RuntimeError, match=rf"tensor\.{name} is only supported on matrices or batches of matrices"):
        getattr(torch.ones(2).to_sparse(), name)


def test_adding_to_a_dense_tensor_in_place() -> None:
    s = torch.sparse_coo_tensor(torch.tensor([[0, 1, 0], [2, 0, 2]]), torch.tensor([3.0, 4.0, 5.0]), (2, 3))
    for dense in (torch.ones(2, 3), torch.ones(3, 2).t()):
        dense.add_(s, alpha=2)
        assert torch.equal(dense, torch.ones(2, 3) + 2 * s.to_dense())
