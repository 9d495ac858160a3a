"""torch.linalg and the older names: factors multiply to the matrix, gradients agree with finite differences, errors are
torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.autograd.gradcheck import gradcheck, gradgradcheck

L = torch.linalg
DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
SHAPES = [(3, 3), (2, 4, 4), (5, 3), (3, 5), (2, 1, 4, 2), (0, 3), (3, 0), (0, 2, 2)]
SQUARE = [(3, 3), (2, 4, 4), (2, 0, 0), (0, 3, 3), (40, 40)]


def matrix(shape: tuple[int, ...], dtype: Any = np.float64, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return torch.from_numpy(values.astype(dtype))


def positive(n: int, dtype: Any = np.float64, batch: tuple[int, ...] = ()) -> Any:
    x = matrix((*batch, n, n), dtype)
    return x @ x.mH + torch.eye(n, dtype=x.dtype)


def close(a: Any, b: Any) -> None:
    a, b = (torch.as_tensor(x).resolve_conj() for x in (a, b))
    tolerance = 1e-3 if np.asarray(a).dtype.itemsize == (8 if np.asarray(a).dtype.kind == "c" else 4) else 1e-9
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


# --- factors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_lu_multiplies_to_the_matrix(shape: tuple[int, ...], dtype: Any) -> None:
    a = matrix(shape, dtype)
    P, low, high = L.lu(a)
    close(P @ low @ high, a)
    assert low.dtype is high.dtype is P.dtype is a.dtype


def test_lu_of_a_matrix_wider_than_a_panel() -> None:
    a = matrix((2, 70, 50))
    P, low, high = L.lu(a)
    close(P @ low @ high, a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("shape", SHAPES)
def test_qr_multiplies_to_the_matrix(shape: tuple[int, ...], mode: str, dtype: Any) -> None:
    a = matrix(shape, dtype)
    q, r = L.qr(a, mode)
    close(q @ r, a)
    close(q.mH @ q, np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], q.shape[-1], q.shape[-1])).astype(dtype))
    close(np.tril(r.numpy(), -1), np.zeros(r.shape, dtype))


def test_qr_without_q() -> None:
    a = matrix((4, 3))
    q, r = L.qr(a, mode="r")
    assert q.shape == (0,)
    close(r, L.qr(a).R)


def test_reflectors_make_q() -> None:
    a = matrix((2, 5, 3), np.complex128)
    packed, tau = torch.geqrf(a)
    q, r = L.qr(a)
    close(L.householder_product(packed, tau), q)
    close(packed.triu()[:, :3], r)
    other = matrix((2, 5, 2), np.complex128, seed=1)
    full = torch.ormqr(packed, tau, torch.eye(5, dtype=torch.complex128).expand(2, 5, 5))
    close(torch.ormqr(packed, tau, other), full @ other)
    close(torch.ormqr(packed, tau, other, transpose=True), full.mH @ other)
    close(torch.ormqr(packed, tau, other.mT, left=False), other.mT @ full)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_svd_multiplies_to_the_matrix(shape: tuple[int, ...], full: bool, dtype: Any) -> None:
    a = matrix(shape, dtype)
    U, S, Vh = L.svd(a, full_matrices=full)
    k = S.shape[-1]
    close((U[..., :k] * S.unsqueeze(-2)) @ Vh[..., :k, :], a)
    close(L.svdvals(a), S)
    assert S.dtype is (torch.float32 if np.dtype(dtype).itemsize // (2 if np.dtype(dtype).kind == "c" else 1) == 4
                       else torch.float64)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_multiplies_to_the_matrix(upper: bool, dtype: Any) -> None:
    a = positive(4, dtype, (2,))
    factor = L.cholesky(a, upper=upper)
    close(factor.mH @ factor if upper else factor @ factor.mH, a)
    close(torch.cholesky_inverse(factor, upper), L.inv(a))
    b = matrix((2, 4, 3), dtype)
    close(torch.cholesky_solve(b, factor, upper), L.solve(a, b))


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvectors_are_stretched_by_eigenvalues(dtype: Any) -> None:
    a = matrix((2, 4, 4), dtype)
    values, vectors = L.eig(a)
    close(a.to(vectors.dtype) @ vectors, vectors * values.unsqueeze(-2))
    a = a + a.mH
    for uplo in "LU":
        values, vectors = L.eigh(a, uplo)
        close(a @ vectors, vectors * values.unsqueeze(-2))
        close(L.eigvalsh(a, uplo), values)


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_ldl_solves(n: int, dtype: Any, hermitian: bool) -> None:
    a = matrix((3, n, n), dtype)
    a = a + (a.mH if hermitian else a.mT)
    a = a - torch.diag_embed(a.diagonal(0, -2, -1)) * 0.99  # small pivots: blocks of size 2 are needed
    b = matrix((3, n, 2), dtype, seed=1)
    factors, pivots = L.ldl_factor(a, hermitian=hermitian)
    close(a @ L.ldl_solve(factors, pivots, b, hermitian=hermitian), b)
    assert n < 5 or (pivots < 0).any()


# --- systems ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
def test_solve_broadcasts_batches(left: bool, dtype: Any) -> None:
    a = matrix((2, 1, 3, 3), dtype)
    b = matrix((4, 3, 3), dtype, seed=1)
    x = L.solve(a, b, left=left)
    assert x.shape == (2, 4, 3, 3)
    close(a @ x if left else x @ a, b.expand(2, 4, 3, 3))


def test_solve_takes_vectors() -> None:
    a = matrix((2, 3, 3))
    b = matrix((2, 3))
    close((a @ L.solve(a, b).unsqueeze(-1)).squeeze(-1), b)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("n", [3, 50])
def test_solve_triangular_reads_one_triangle(n: int, upper: bool, left: bool, unit: bool) -> None:
    a = matrix((n, n)) / n + torch.eye(n, dtype=torch.float64)
    triangle = a.triu() if upper else a.tril()
    if unit:
        triangle = triangle - torch.diag(triangle.diagonal()) + torch.eye(n, dtype=torch.float64)
    b = matrix((n, 2) if left else (2, n))
    x = L.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)
    close(triangle @ x if left else x @ triangle, b)


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_lu_solve(left: bool, adjoint: bool) -> None:
    a, b = matrix((2, 3, 3), np.complex128), matrix((3, 3), np.complex128, seed=1)
    x = L.lu_solve(*L.lu_factor(a), b, left=left, adjoint=adjoint)
    system = a.mH if adjoint else a
    close(system @ x if left else x @ system, b.expand(2, 3, 3))


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_lstsq(driver: str) -> None:
    a, b = matrix((2, 5, 3)), matrix((2, 5, 2), seed=1)
    found = L.lstsq(a, b, driver=driver)
    close(a.mT @ (a @ found.solution - b), np.zeros((2, 3, 2)))
    if driver != "gelsy":
        close(found.residuals, ((a @ found.solution - b) ** 2).sum(-2))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 3, 3), (0, 3)])
def test_pinv_fulfils_penrose(shape: tuple[int, ...]) -> None:
    a = matrix(shape, np.complex128)
    p = L.pinv(a)
    close(a @ p @ a, a)
    close(p @ a @ p, p)
    close((a @ p).mH, a @ p)


def test_det_and_slogdet_agree() -> None:
    a = matrix((2, 3, 3), np.complex128)
    sign, log = L.slogdet(a)
    close(sign * log.exp(), L.det(a))
    assert float(L.det(torch.zeros(0, 0))) == 1.0


# --- functions --------------------------------------------------------------------------------------------------------


def test_matrix_exp_follows_from_eigenvalues() -> None:
    a = matrix((2, 4, 4)) * 3
    a = a + a.mT
    values, vectors = L.eigh(a)
    expected = (vectors * values.exp().unsqueeze(-2)) @ vectors.mT
    np.testing.assert_allclose(L.matrix_exp(a).numpy(), expected.numpy(), rtol=1e-8)


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, float("inf"), float("-inf")])
def test_matrix_norm_is_numpys(order: Any) -> None:
    a = matrix((4, 3))
    np.testing.assert_allclose(L.matrix_norm(a, order).numpy(), np.linalg.norm(a.numpy(), order), rtol=1e-12)
    assert L.matrix_norm(matrix((2, 4, 3)), order, keepdim=True).shape == (2, 1, 1)


def test_cond_of_a_singular_matrix_is_infinite() -> None:
    assert float(L.cond(torch.zeros(2, 2), 1)) == float("inf")
    close(L.cond(matrix((3, 3))), np.linalg.cond(matrix((3, 3)).numpy()))


def test_matrix_rank_counts_what_is_above_the_tolerance() -> None:
    a = torch.diag(torch.tensor([1.0, 1e-3, 0.0]))
    assert L.matrix_rank(a).tolist() == 2
    assert L.matrix_rank(a, atol=1e-2).tolist() == 1
    assert L.matrix_rank(a, tol=torch.tensor([1e-2, 1e-4])).tolist() == [1, 2]
    assert L.matrix_rank(a, hermitian=True).tolist() == 2


def test_tensor_equations() -> None:
    a = matrix((2, 3, 6))
    x = L.tensorsolve(a, matrix((2, 3), seed=1))
    close(torch.tensordot(a, x, 1), matrix((2, 3), seed=1))
    close(torch.tensordot(L.tensorinv(a, ind=2), matrix((2, 3), seed=1), 2), x)


def test_vander_and_vecdot() -> None:
    x = torch.tensor([1, 2, 3])
    assert L.vander(x).tolist() == [[1, 1, 1], [1, 2, 4], [1, 3, 9]]
    assert torch.vander(x, 2).tolist() == [[1, 1], [2, 1], [3, 1]]
    z = torch.tensor([[1 + 1j, 2.0]])
    assert L.vecdot(z, z).tolist() == [6 + 0j]


def test_cov_is_numpys() -> None:
    a = matrix((3, 6))
    close(torch.cov(a), np.cov(a.numpy()))
    close(torch.corrcoef(a), np.corrcoef(a.numpy()))
    counts, weights = torch.arange(1, 7), torch.arange(6).double() / 3
    expected = np.cov(a.numpy(), ddof=1, fweights=counts.numpy(), aweights=weights.numpy())
    close(torch.cov(a, fweights=counts, aweights=weights), expected)


# --- gradients --------------------------------------------------------------------------------------------------------

GRADIENTS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "cholesky": (lambda a: L.cholesky(a @ a.mH + torch.eye(3, dtype=a.dtype)), (3, 3)),
    "cholesky upper": (lambda a: L.cholesky(a @ a.mH + torch.eye(3, dtype=a.dtype), upper=True), (3, 3)),
    "inv": (L.inv, (2, 3, 3)),
    "det": (L.det, (2, 3, 3)),
    "logabsdet": (lambda a: L.slogdet(a).logabsdet, (3, 3)),
    "sign": (lambda a: L.slogdet(a).sign, (2, 2)),
    "solve": (lambda a: L.solve(a, a[..., :2].sin()), (2, 3, 3)),
    "solve right": (lambda a: L.solve(a, a[..., :2, :].sin(), left=False), (3, 3)),
    "solve vector": (lambda a: L.solve(a, a[..., 0].sin()), (2, 3, 3)),
    "solve_triangular": (lambda a: L.solve_triangular(a, a[:, :2].sin(), upper=True), (3, 3)),
    "triangular_solve": (lambda a: torch.triangular_solve(a[:, :2].sin(), a, transpose=True)[0], (3, 3)),
    "cholesky_solve": (lambda a: torch.cholesky_solve(a[:, :2].sin(), a.tril()), (3, 3)),
    "cholesky_inverse": (lambda a: torch.cholesky_inverse(a.tril()), (3, 3)),
    "lu": (lambda a: L.lu(a)[1:], (3, 3)),
    "lu tall": (lambda a: L.lu(a)[1:], (4, 2)),
    "lu wide": (lambda a: L.lu(a)[1:], (2, 4)),
    "lu_factor": (lambda a: L.lu_factor(a).LU, (3, 3)),
    "lu_unpack": (lambda a: torch.lu_unpack(*L.lu_factor(a))[1:], (3, 2)),
    "lu_solve": (lambda a: L.lu_solve(*L.lu_factor(a), a[:, :2].sin(), adjoint=True), (3, 3)),
    "qr": (L.qr, (4, 3)),
    "qr wide": (L.qr, (2, 4)),
    "householder_product": (lambda a: L.householder_product(a, a[0].sin()), (4, 3)),
    "ormqr": (lambda a: torch.ormqr(a, a[0].sin(), a[:, :2].cos(), transpose=True), (4, 3)),
    "svdvals": (L.svdvals, (4, 3)),
    "svd projectors": (lambda a: (lambda u, s, v: (u @ v, u[:, :1] @ u[:, :1].mH))(*L.svd(a, False)), (4, 3)),
    "eigh projector": (lambda a: (lambda s, v: (s, v[:, :1] @ v[:, :1].mH))(*L.eigh(a + a.mH)), (3, 3)),
    "eigvals": (lambda a: L.eigvals(a + 3 * torch.diag(torch.arange(3.0, dtype=torch.float64))).real, (3, 3)),
    "eig sizes": (lambda a: L.eig(a + 3 * torch.diag(torch.arange(3.0, dtype=torch.float64)))[1].abs(), (3, 3)),
    "pinv": (L.pinv, (4, 2)),
    "lstsq": (lambda a: L.lstsq(a, a[:, :2].sin()).solution, (4, 3)),
    "matrix_exp": (L.matrix_exp, (3, 3)),
    "nuclear norm": (lambda a: L.matrix_norm(a, "nuc"), (2, 3, 2)),
    "cond": (lambda a: L.cond(a, "fro"), (3, 3)),
    "cov": (torch.cov, (2, 4)),
}


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_agree_with_differences(name: str, dtype: Any) -> None:
    function, shape = GRADIENTS[name]
    assert gradcheck(function, (matrix(shape, dtype).requires_grad_(),), atol=1e-4)


TWICE = """cholesky inv det solve lu qr householder_product svdvals pinv matrix_exp solve_triangular""".split()


@pytest.mark.parametrize("name", [*TWICE, "svd projectors", "eigh projector"])
def test_second_gradients_agree_with_differences(name: str) -> None:
    function, shape = GRADIENTS[name]
    assert gradgradcheck(function, (matrix(shape).requires_grad_(),), atol=1e-4)


def test_determinant_of_a_singular_matrix_has_a_gradient() -> None:
    a = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64, requires_grad=True)
    b = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    (L.det(a) + L.det(b)).backward()
    close(a.grad, np.array([[4.0, -2.0], [-2.0, 1.0]]))
    close(b.grad, np.zeros((3, 3)))


def test_gradients_that_depend_on_phases_are_refused() -> None:
    a = matrix((3, 3), np.complex128).requires_grad_()
    with pytest.raises(RuntimeError, match="specified up to multiplication by e"):
        L.svd(a).U.imag.sum().backward()


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: L.inv(torch.zeros(3, 3)), r"linalg.inv: The diagonal element 1 is zero"),
        (lambda: L.inv(torch.zeros(2, 3, 3)), r"linalg.inv: \(Batch element 0\): The diagonal element 1 is zero"),
        (lambda: L.solve(torch.zeros(3, 3), torch.zeros(3)), "torch.linalg.solve: The solver failed because"),
        (lambda: L.cholesky(-torch.eye(3)), "leading minor of order 1 is not positive-definite"),
        (lambda: L.svd(torch.full((2, 2), float("nan"))), "linalg.svd: The algorithm failed to converge"),
        (lambda: L.eigh(torch.full((2, 2), float("nan"))), "linalg.eigh: The algorithm failed to converge"),
    ],
)
def test_matrices_without_what_is_asked(call: Any, text: str) -> None:
    with pytest.raises(L.LinAlgError, match=text):
        call()


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: L.inv(torch.zeros(2, 3)), RuntimeError, "A must be batches of square matrices, but they are 2 by 3"),
        (lambda: L.det(torch.zeros(3)), RuntimeError, "linalg.det: The input tensor A must have at least 2 dim"),
        (lambda: L.qr(torch.ones(2, 2).long()), RuntimeError, "Expected a floating point or complex tensor"),
        (lambda: L.svd(torch.ones(2, 2).half()), NotImplementedError, "\"linalg_svd_cpu\" not implemented for 'Half'"),
        (lambda: L.lu_factor(torch.zeros(2, 2)), RuntimeError, r"U\[1,1\] is zero and using it on lu_solve"),
        (lambda: L.solve(torch.eye(3), torch.zeros(2, 2)), RuntimeError, r"equation AX = B \(3x3 and 2x2\)"),
        (lambda: L.matrix_norm(torch.eye(2), 3), RuntimeError, "linalg.matrix_norm: Order 3 not supported."),
        (lambda: L.eigh(torch.eye(2), "x"), RuntimeError, "Expected UPLO argument to be 'L' or 'U', but got x"),
        (lambda: L.cond(torch.eye(2), 3), RuntimeError, "linalg.cond got an invalid norm type: 3"),
        (lambda: torch.cov(torch.zeros(2, 2, 2)), RuntimeError, "two or fewer dimensions"),
    ],
)
def test_arguments_that_do_not_fit(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call()


def test_ex_forms_report_instead_of_raising() -> None:
    factor, info = L.cholesky_ex(torch.tensor([[1.0, 2.0], [2.0, 1.0]]))
    assert info.tolist() == 2
    assert factor.tolist() == [[1, 0], [2, -3]]
    assert L.inv_ex(torch.ones(2, 2)).info.tolist() == 2
    assert L.solve_ex(torch.ones(2, 2), torch.ones(2)).info.tolist() == 2


def test_results_are_named() -> None:
    assert type(L.slogdet(torch.eye(2))).__name__ == "linalg_slogdet"
    assert repr(L.eigh(torch.eye(2))).startswith("torch.return_types.linalg_eigh(\neigenvalues=")
    assert torch.svd(torch.eye(2))._fields == ("U", "S", "V")


def test_facade_has_every_name_it_lists() -> None:
    assert all(callable(getattr(L, name)) for name in L.__all__)


def test_low_rank_factors_are_those_of_a_low_rank_matrix() -> None:
    torch.manual_seed(0)
    a = torch.randn(12, 3) @ torch.randn(3, 9)
    U, S, V = torch.svd_lowrank(a, 5)
    assert torch.allclose(U @ torch.diag(S) @ V.mH, a, atol=1e-4)
    assert torch.allclose(S, torch.linalg.svdvals(a)[:5], atol=1e-4)
    centred = a - a.mean(0)
    U, S, V = torch.pca_lowrank(a, 4)
    assert torch.allclose(U @ torch.diag(S) @ V.mH, centred, atol=1e-4)


def test_cross_products_need_three_elements_on_both_sides() -> None:
    with pytest.raises(RuntimeError, match=r"must have length 3\. Got 3 and 1"):
        torch.linalg.cross(torch.ones(5, 3), torch.ones(5, 1))
