"""Operators of networks against finite differences, against known values and against their own general forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
from mindtorch_v2.autograd import grad, gradcheck, gradgradcheck
from mindtorch_v2.kernels.network import loss, normalize, pool, small, softmax


def D(*shape: int, start: int = 1, scale: float = 1.0, shift: float = 0.0) -> Any:
    """Doubles that repeat from run to run and do not repeat among themselves; they require grad."""
    values = np.sin(np.arange(start, start + int(np.prod(shape))) * 1.7).reshape(shape) * scale + shift
    return torch.from_numpy(values).requires_grad_()


def P(*shape: int) -> Any:
    """The same between 0 and 1."""
    return D(*shape, scale=0.4, shift=0.5)


def L(*values: Any) -> Any:
    return torch.tensor(values)


GEOMETRY = {"stride": 2, "padding": 1}

# What is differentiated, and the tensors it is differentiated by.
DIFFERENTIABLE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "mm": (torch.mm, (D(2, 3), D(3, 4, start=9))),
    "mm of transposed": (lambda a, b: torch.mm(a.t(), b.t()), (D(3, 2), D(4, 3, start=9))),
    "bmm": (torch.bmm, (D(2, 2, 3), D(2, 3, 2, start=9))),
    "addmm": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), (D(4), D(2, 3), D(3, 4, start=9))),
    "addmv": (torch.addmv, (D(2), D(2, 3), D(3, start=9))),
    "addr": (torch.addr, (D(2, 3), D(2), D(3, start=9))),
    "addbmm": (torch.addbmm, (D(2, 4), D(2, 2, 3), D(2, 3, 4, start=9))),
    "baddbmm": (torch.baddbmm, (D(2, 1, 4), D(2, 2, 3), D(2, 3, 4, start=9))),
    "dot": (torch.dot, (D(3), D(3, start=9))),
    "matmul of batches": (torch.matmul, (D(2, 1, 2, 3), D(2, 3, 2, start=9))),
    "matmul by a vector": (torch.matmul, (D(2, 2, 3), D(3, start=9))),
    "linear": (F.linear, (D(2, 2, 3), D(4, 3, start=9), D(4, start=30))),
    "bilinear": (F.bilinear, (D(2, 3), D(2, 2, start=9), D(2, 3, 2, start=20), D(2, start=40))),
    "einsum": (lambda a, b: torch.einsum("bij,bkj->bik", a, b), (D(2, 2, 3), D(2, 2, 3, start=20))),
    "einsum diagonal": (lambda a: torch.einsum("ii->i", a), (D(3, 3),)),
    "tensordot": (lambda a, b: torch.tensordot(a, b, 2), (D(2, 3, 2), D(3, 2, 2, start=20))),
    "kron": (torch.kron, (D(2, 2), D(2, 1, start=9))),
    "cross": (torch.cross, (D(2, 3), D(2, 3, start=9))),
    "cdist": (torch.cdist, (D(2, 3), D(3, 3, start=20))),
    "cdist p=1": (lambda a, b: torch.cdist(a, b, p=1.5), (D(2, 3), D(3, 3, start=20))),
    "pdist": (F.pdist, (D(3, 2),)),
    "cosine_similarity": (F.cosine_similarity, (D(2, 3), D(2, 3, start=20))),
    "softmax": (lambda x: F.softmax(x, 1), (D(2, 3),)),
    "log_softmax": (lambda x: F.log_softmax(x, 0), (D(2, 3),)),
    "attention": (F.scaled_dot_product_attention, (D(2, 3, 2), D(2, 4, 2, start=20), D(2, 4, 3, start=40))),
    "mse_loss": (F.mse_loss, (D(2, 3), D(2, 3, start=20))),
    "smooth_l1_loss": (lambda x, y: F.smooth_l1_loss(x, y, beta=0.7), (D(2, 3), D(2, 3, start=20))),
    "huber_loss": (lambda x, y: F.huber_loss(x, y, "sum", 0.7), (D(2, 3), D(2, 3, start=20))),
    "binary_cross_entropy": (F.binary_cross_entropy, (P(2, 3), D(2, 3, start=20, scale=0.4, shift=0.5))),
    "binary_cross_entropy_with_logits": (F.binary_cross_entropy_with_logits, (D(2, 3), P(2, 3))),
    "soft_margin_loss": (lambda x: F.soft_margin_loss(x, L([1.0, -1.0], [-1.0, 1.0]).double()), (D(2, 2),)),
    "nll_loss": (lambda x: F.nll_loss(x, L(0, 2, 1)), (D(3, 3),)),
    "cross_entropy": (lambda x: F.cross_entropy(x, L(0, 2, 1), label_smoothing=0.1), (D(3, 3),)),
    "cross_entropy of probabilities": (F.cross_entropy, (D(3, 3), P(3, 3))),
    "multi_margin_loss": (lambda x: F.multi_margin_loss(x, L(0, 2, 1), p=2), (D(3, 3),)),
    "multilabel_margin_loss": (lambda x: F.multilabel_margin_loss(x, L([0, 2, -1], [1, -1, 0])), (D(2, 3),)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (3,), w, b), (D(2, 3), D(3, start=9), D(3, start=20))),
    "batch_norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
        (D(3, 2, 2), D(2, start=20), D(2, start=30)),
    ),
    "batch_norm in evaluation": (
        lambda x, w, b: F.batch_norm(x, L(0.1, 0.2).double(), L(1.0, 2.0).double(), w, b),
        (D(3, 2), D(2, start=20), D(2, start=30)),
    ),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), (D(2, 4, 2), D(4, start=20), D(4, start=30))),
    "instance_norm": (lambda x: F.instance_norm(x), (D(2, 2, 3),)),
    "rms_norm": (lambda x, w: F.rms_norm(x, (3,), w), (D(2, 3), D(3, start=9))),
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, **GEOMETRY), (D(2, 2, 5), D(2, 2, 3, start=30), D(2, start=60))),
    "conv2d in groups": (lambda x, w: F.conv2d(x, w, groups=2), (D(1, 2, 3, 3), D(2, 1, 2, 2, start=30))),
    "conv_transpose2d": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2),
        (D(1, 2, 2, 2), D(2, 2, 2, 2, start=30), D(2, start=60)),
    ),
    "pad": (lambda x: F.pad(x, (1, 2, 0, -1)), (D(2, 3),)),
    "pad by reflection": (lambda x: F.pad(x, (1, 2), "reflect"), (D(1, 2, 4),)),
    "pad in a circle": (lambda x: F.pad(x, (1, 2), "circular"), (D(1, 2, 4),)),
    "unfold": (lambda x: F.unfold(x, 2), (D(1, 2, 3, 3),)),
    "fold": (lambda x: F.fold(x, (3, 3), 2), (D(1, 8, 4),)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2, **GEOMETRY), (D(1, 2, 4, 4),)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2, **GEOMETRY), (D(1, 2, 4, 4),)),
    "lp_pool1d": (lambda x: F.lp_pool1d(x, 2, 2), (D(1, 2, 4),)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (D(1, 2, 4, 4),)),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 3), (D(1, 2, 4),)),
    "max_unpool1d": (lambda x: F.max_unpool1d(x, L([[1, 2]]), 2), (D(1, 1, 2),)),
    "bilinear interpolation": (lambda x: F.interpolate(x, (3, 5), mode="bilinear"), (D(1, 1, 2, 3),)),
    "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=False), (D(1, 2, 3, 3), D(1, 2, 2, 2, scale=0.7))),
    "affine_grid": (lambda t: F.affine_grid(t, (1, 1, 2, 3), align_corners=False), (D(1, 2, 3),)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (D(1, 4, 2, 2),)),
    "embedding": (lambda w: F.embedding(L([0, 2], [2, 1]), w), (D(3, 2),)),
    "embedding_bag": (
        lambda w, s: F.embedding_bag(L(0, 2, 2), w, L(0, 1), mode="sum", per_sample_weights=s),
        (D(3, 2), D(3, start=20)),
    ),
    "embedding_bag of means": (lambda w: F.embedding_bag(L([0, 2], [2, 1]), w), (D(3, 2),)),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    function, inputs = DIFFERENTIABLE[name]
    assert gradcheck(function, inputs)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_have_gradients(name: str) -> None:
    function, inputs = DIFFERENTIABLE[name]
    value = function(*inputs)
    first = grad(value, inputs, torch.ones_like(value), create_graph=True)
    if not any(g.requires_grad for g in first):
        return  # linear: there is nothing to check twice
    assert gradgradcheck(function, inputs, atol=1e-4)


def test_the_gradient_of_ctc_says_that_it_has_none() -> None:
    scores = D(4, 1, 3).log_softmax(2)
    value = F.ctc_loss(scores, L([1, 2]), (4,), (2,))
    with pytest.raises(NotImplementedError, match="_ctc_loss_backward"):
        grad(value, scores, create_graph=True)


# --- products ---------------------------------------------------------------------------------------------------------


def test_the_gradient_of_a_weight_is_laid_out_as_the_weight() -> None:
    weight = torch.ones(4, 3, requires_grad=True)
    F.linear(torch.ones(2, 3), weight).sum().backward()
    assert weight.grad.is_contiguous()


@pytest.mark.parametrize(
    ("function", "shapes", "message"),
    [
        (torch.mm, [(2, 3), (4, 5)], r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x5\)"),
        (torch.mm, [(3,), (3, 4)], "self must be a matrix"),
        (torch.bmm, [(2, 3, 4), (3, 4, 5)], r"to be: \[2, 4\] but got: \[3, 4\]"),
        (torch.dot, [(3,), (4,)], "inconsistent tensor size, expected tensor"),
        (torch.matmul, [(), (3,)], "both arguments to matmul need to be at least 1D, but they are 0D and 1D"),
        (torch.matmul, [(2, 3, 4), (3, 4, 5)], "must match the size of tensor b"),
        (F.linear, [(2, 3), (4, 5)], "shapes cannot be multiplied"),
        (torch.addmm, [(3, 3), (2, 3), (3, 5)], r"The expanded size of the tensor \(5\) must match"),
        (torch.cdist, [(2, 3), (2, 4)], "X1 and X2 must have the same number of columns"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit_are_named(function: Any, shapes: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        function(*(torch.ones(shape) for shape in shapes))


def test_types_that_differ_are_named() -> None:
    with pytest.raises(RuntimeError, match="same dtype, but got: float != double"):
        torch.mm(torch.ones(2, 2), torch.ones(2, 2).double())
    with pytest.raises(NotImplementedError, match="\"addmm_impl_cpu_\" not implemented for 'Bool'"):
        torch.mm(torch.ones(2, 2).bool(), torch.ones(2, 2).bool())


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("ij,jk", "fewer operands"),
        ("ij->ijk", "output subscript k does not appear"),
        ("i", r"number of subscripts in the equation \(1\) does not match the number of dimensions \(2\)"),
        ("i.j", "not part of any ellipsis"),
        ("i1", "invalid subscript given at index 1"),
    ],
)
def test_einsum_explains_equations_that_do_not_fit(equation: str, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        torch.einsum(equation, torch.ones(2, 3))


def test_einsum_takes_lists_of_numbers_and_ellipses() -> None:
    a, b = D(2, 3).detach(), D(2, 3, 4).detach()
    expected = (a.numpy()[:, None] @ b.numpy())[:, 0]
    np.testing.assert_allclose(torch.einsum(a, [0, 1], b, [0, 1, 2], [0, 2]).numpy(), expected)
    np.testing.assert_allclose(torch.einsum("...j,...jk->...k", a, b).numpy(), expected)


# --- small kernels and general ones -----------------------------------------------------------------------------------

ROWS = np.sin(np.arange(24.0) * 1.7).reshape(4, 6).astype(np.float32)
CLASSES = np.array([0, 5, 2, 2])
IMAGE = np.sin(np.arange(64.0) * 1.7).reshape(1, 2, 4, 8).astype(np.float32)
WEIGHT = np.linspace(0.5, 1.5, 6).astype(np.float32)
SHAPE = (2, 4), (2, 4), (0, 0)

PAIRS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "softmax": (lambda: small.softmax(ROWS, 1), lambda: softmax.softmax(ROWS, 1)),
    "log_softmax": (lambda: small.log_softmax(ROWS, 0), lambda: softmax.log_softmax(ROWS, 0)),
    "softmax_backward": (
        lambda: small.softmax_backward(ROWS, small.softmax(ROWS, 1), 1),
        lambda: softmax.softmax_backward_data(ROWS, small.softmax(ROWS, 1), 1),
    ),
    "log_softmax_backward": (
        lambda: small.log_softmax_backward(ROWS, ROWS, 1),
        lambda: softmax.log_softmax_backward_data(ROWS, ROWS, 1),
    ),
    "nll_loss": (lambda: small.nll_loss(ROWS, CLASSES, 1), lambda: loss.nll_loss(ROWS, CLASSES)),
    "nll_loss_backward": (
        lambda: small.nll_loss_backward(np.float32(3), ROWS, CLASSES, 1),
        lambda: loss.nll_loss_backward(np.array(3, "f4"), ROWS, CLASSES, None, 1, -100, np.array(4, "f4")),
    ),
    "layer_norm": (
        lambda: small.layer_norm(ROWS, WEIGHT, WEIGHT, 1e-5),
        lambda: normalize.layer_norm(ROWS, (6,), WEIGHT, WEIGHT, 1e-5),
    ),
    "layer_norm_backward": (
        lambda: small.layer_norm_backward(ROWS * 2, ROWS, *STATISTICS, WEIGHT, (True, True, True)),
        lambda: normalize.layer_norm_backward(ROWS * 2, ROWS, (6,), *STATISTICS, WEIGHT, WEIGHT),
    ),
    "batch_norm": (
        lambda: (*small.batch_norm(ROWS, WEIGHT, WEIGHT, MOVED[0], MOVED[1], 0.3, 1e-5), *MOVED[:2]),
        lambda: (*normalize.batch_norm(ROWS, WEIGHT, WEIGHT, MOVED[2], MOVED[3], True, 0.3, 1e-5), *MOVED[2:]),
    ),
    "batch_norm of images": (
        lambda: small.batch_norm(IMAGE, None, None, None, None, 0.1, 1e-5),
        lambda: normalize.batch_norm(IMAGE, None, None, None, None, True),
    ),
    "max_pool": (
        lambda: small.max_pool(IMAGE, (2, 4)),
        lambda: pool.max_pool_values(IMAGE, *SHAPE, (1, 1)),
    ),
    "avg_pool": (lambda: small.avg_pool(IMAGE, (2, 4)), lambda: pool.avg_pool_forward(IMAGE, *SHAPE)),
}
MOVED = np.ones((4, 6), np.float32)
STATISTICS = normalize.layer_norm(ROWS, (6,), None, None, 1e-5)[1:]


@pytest.mark.parametrize("name", PAIRS)
def test_small_kernels_do_what_the_general_ones_do(name: str) -> None:
    for got, expected in zip(*(_parts(kernel()) for kernel in PAIRS[name]), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def _parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def test_large_and_small_inputs_meet_the_same_errors() -> None:
    for rows in (2, small.SMALL):
        with pytest.raises(IndexError, match=r"Target 3 is out of bounds\."):
            F.nll_loss(torch.ones(rows, 3), torch.full((rows,), 3))
        with pytest.raises(IndexError, match="Dimension out of range"):
            F.softmax(torch.ones(rows, 3), 2)


# --- what is kept from call to call -----------------------------------------------------------------------------------


def test_running_statistics_move_towards_those_of_the_batch() -> None:
    mean, var = torch.zeros(2), torch.ones(2)
    x = torch.tensor([[1.0, 4.0], [3.0, 8.0]])
    F.batch_norm(x, mean, var, training=True, momentum=0.5)
    assert mean.tolist() == [1.0, 3.0]
    assert var.tolist() == [1.5, 4.5]


def test_nothing_flows_into_the_row_of_padding() -> None:
    weight = torch.ones(3, 2, requires_grad=True)
    F.embedding(torch.tensor([0, 2, 2]), weight, padding_idx=2).sum().backward()
    assert weight.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]


def test_dropout_draws_once_and_scales_what_it_keeps() -> None:
    torch.manual_seed(3)
    x = torch.ones(1000)
    kept = F.dropout(x, 0.25)
    assert set(kept.unique().tolist()) == {0.0, float(np.float32(1) / np.float32(0.75))}
    assert 650 < int((kept > 0).sum()) < 850
    assert F.dropout(x, 0.25, training=False) is x
    with pytest.raises(ValueError, match=r"has to be between 0 and 1, but got 1\.5"):
        F.dropout(x, 1.5)


def test_a_row_of_nothing_but_minus_infinity_attends_to_nothing() -> None:
    q = torch.ones(1, 2, 3)
    mask = torch.tensor([[True, True], [False, False]])
    attended = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    assert attended.tolist() == [[[1.0] * 3, [0.0] * 3]]


def test_weights_of_attention_sum_to_one() -> None:
    x = D(3, 2, 4).detach()
    weight, bias = D(12, 4, start=50).detach(), D(12, start=5).detach()
    output, weights = F.multi_head_attention_forward(
        x, x, x, 4, 2, weight, bias, None, None, False, 0.0, torch.eye(4).double(), None
    )
    assert output.shape == (3, 2, 4)
    np.testing.assert_allclose(weights.sum(-1).numpy(), np.ones((2, 3)))


def test_interpolation_by_none_of_size_and_factor_is_refused() -> None:
    x = torch.ones(1, 1, 2, 2)
    with pytest.raises(ValueError, match="either size or scale_factor should be defined"):
        F.interpolate(x)
    with pytest.raises(NotImplementedError, match="Got 4D input, but linear mode needs 3D input"):
        F.interpolate(x, 4, mode="linear")
    assert F.interpolate(x, scale_factor=math.sqrt(5)).shape == (1, 1, 4, 4)


def test_the_bias_of_linear_gives_rows_apart_neither_its_dtype_nor_its_shape() -> None:
    x, weight = torch.arange(24.0).reshape(2, 3, 4).transpose(0, 1).requires_grad_(), torch.ones(2, 4)
    made = F.linear(x, weight, torch.ones(2, dtype=torch.float64))
    assert made.dtype is torch.float32
    assert made[0].tolist() == [[7.0, 7.0], [55.0, 55.0]]
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        F.linear(x, weight, torch.ones(5, 1, 1, 2))


def test_a_size_of_windows_is_no_float_though_it_equals_an_integer() -> None:
    x = torch.ones(1, 1, 4, 4)
    assert F.max_pool2d(x, 2).shape == (1, 1, 2, 2)
    with pytest.raises(TypeError):
        F.max_pool2d(x, 2.0)


def test_a_mean_over_a_dimension_that_is_not_there_is_refused_by_its_range() -> None:
    for dim in (2, -3):
        with pytest.raises(
            IndexError, match=rf"Dimension out of range \(expected to be in range of \[-2, 1\], but got {dim}"
        ):
            torch.ones(2, 3).mean(dim)
    assert torch.tensor(3.0).mean(-1).item() == 3.0


def test_hardtanh_of_integers_is_the_same_while_it_is_recorded():
    x = torch.arange(-3, 4)
    with torch.profiler.profile():
        result = F.hardtanh(x, -1.5, 2.0)
        with pytest.raises(RuntimeError, match="Bool inputs not supported for hardtanh"):
            F.hardtanh(x > 0)
    assert result.dtype is torch.int64
    assert result.tolist() == F.hardtanh(x, -1.5, 2.0).tolist() == [-1, -1, -1, 0, 1, 2, 2]
