"""Operators of networks beside torch: values, gradients, gradients of gradients, random draws and error texts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import mindtorch_v2 as mt


def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape)


# What is called with the package and its tensors, and the shapes of those.
CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "addmm": (lambda m, c, a, b: m.addmm(c, a, b, beta=0.3, alpha=1.7), [(4,), (2, 3), (3, 4)]),
    "matmul, vector by batch": (lambda m, a, b: m.matmul(a, b), [(3,), (2, 3, 4)]),
    "matmul, broadcast batches": (lambda m, a, b: m.matmul(a, b), [(2, 1, 3, 4), (5, 4, 2)]),
    "linear": (lambda m, x, w, b: m.nn.functional.linear(x, w, b), [(2, 5, 3), (4, 3), (4,)]),
    "bilinear": (lambda m, *a: m.nn.functional.bilinear(*a), [(2, 3), (2, 4), (5, 3, 4), (5,)]),
    "einsum": (lambda m, a, b, c: m.einsum("bi,ij,bj->b", a, b, c), [(2, 3), (3, 4), (2, 4)]),
    "einsum, ellipsis": (lambda m, a, b: m.einsum("i...,i...->...", a, b), [(2, 3), (2, 3)]),
    "multi_dot": (lambda m, *a: m.chain_matmul(*a), [(2, 5), (5, 3), (3, 4)]),
    "matrix_power": (lambda m, a: m.matrix_power(a, 5), [(3, 3)]),
    "cdist by a product": (lambda m, a, b: m.cdist(a, b, compute_mode="use_mm_for_euclid_dist"), [(3, 2), (4, 2)]),
    "attention": (
        lambda m, q, k, v: m.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3),
        [(2, 3, 4), (2, 3, 4), (2, 3, 5)],
    ),
    "layer_norm": (lambda m, x, w, b: m.nn.functional.layer_norm(x, (3, 2), w, b), [(4, 3, 2), (3, 2), (3, 2)]),
    "group_norm": (lambda m, x, w, b: m.nn.functional.group_norm(x, 2, w, b), [(2, 4, 3), (4,), (4,)]),
    "batch_norm": (
        lambda m, x, w, b: m.nn.functional.batch_norm(x, None, None, w, b, True),
        [(3, 2, 4), (2,), (2,)],
    ),
    "local_response_norm": (lambda m, x: m.nn.functional.local_response_norm(x, 3), [(2, 4, 3, 3)]),
    "conv2d": (
        lambda m, x, w, b: m.nn.functional.conv2d(x, w, b, stride=2, padding=1, dilation=2, groups=2),
        [(2, 4, 7, 7), (6, 2, 3, 3), (6,)],
    ),
    "conv2d, same": (lambda m, x, w: m.nn.functional.conv2d(x, w, padding="same"), [(1, 2, 5, 5), (3, 2, 2, 3)]),
    "conv_transpose1d": (
        lambda m, x, w: m.nn.functional.conv_transpose1d(x, w, stride=3, output_padding=1),
        [(2, 2, 4), (2, 3, 3)],
    ),
    "max_pool3d": (lambda m, x: m.nn.functional.max_pool3d(x, 2, 1, ceil_mode=True), [(1, 2, 3, 4, 4)]),
    "adaptive_max_pool2d": (lambda m, x: m.nn.functional.adaptive_max_pool2d(x, (3, None)), [(2, 2, 5, 4)]),
    "lp_pool2d": (lambda m, x: m.nn.functional.lp_pool2d(x, 2, 2), [(1, 2, 4, 4)]),
    "bicubic": (
        lambda m, x: m.nn.functional.interpolate(x, scale_factor=1.7, mode="bicubic", align_corners=True),
        [(1, 2, 4, 5)],
    ),
    "antialiased": (
        lambda m, x: m.nn.functional.interpolate(x, (2, 3), mode="bilinear", antialias=True),
        [(1, 2, 6, 7)],
    ),
    "grid_sample": (
        lambda m, x, g: m.nn.functional.grid_sample(x, g, padding_mode="reflection", align_corners=True),
        [(2, 2, 4, 4), (2, 3, 3, 2)],
    ),
    "cosine_embedding_loss": (
        lambda m, a, b: m.nn.functional.cosine_embedding_loss(a, b, m.tensor([1, -1]), 0.2),
        [(2, 3), (2, 3)],
    ),
    "poisson_nll_loss": (
        lambda m, x: m.nn.functional.poisson_nll_loss(x, m.tensor([1.0, 2.0, 5.0]).double(), full=True),
        [(2, 3)],
    ),
    "triplet_margin_loss": (lambda m, *a: m.nn.functional.triplet_margin_loss(*a, swap=True), [(2, 3)] * 3),
    "weighted mse": (lambda m, x, y, w: m.nn.functional.mse_loss(x, y, weight=w), [(2, 3)] * 3),
}


def both(name: str) -> list[tuple[Any, Any, list[Any]]]:
    """The case run by torch and by us: (package, result, inputs)."""
    run, shapes = CASES[name]
    ran = []
    for package in (torch, mt):
        rng = np.random.default_rng(7)
        inputs = [package.from_numpy(draw(rng, shape)).requires_grad_() for shape in shapes]
        ran.append((package, run(package, *inputs), inputs))
    return ran


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), rtol=1e-7, atol=1e-9)


@pytest.mark.filterwarnings("ignore:torch.chain_matmul is deprecated", "ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("name", CASES)
def test_values_and_two_orders_of_gradients_agree(name: str) -> None:
    orders = []
    for package, result, inputs in both(name):
        cotangent = package.from_numpy(draw(np.random.default_rng(1), tuple(result.shape))).reshape(result.shape)
        first = package.autograd.grad(result, inputs, cotangent, create_graph=True)
        rng = np.random.default_rng(2)
        paths = [(g, package.from_numpy(draw(rng, tuple(g.shape)))) for g in first if g.requires_grad]
        second = (None,) * len(inputs)
        if paths:
            total = sum((g * c).sum() for g, c in paths)
            second = package.autograd.grad(total, inputs, allow_unused=True)
        orders.append([result, *first, *second])
    expected, got = orders
    assert len(expected) == len(got)
    for e, g in zip(expected, got, strict=True):
        if e is None or g is None:
            assert e is None or not e.detach().numpy().any()
            assert g is None or not g.detach().numpy().any()
            continue
        close(g, e)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_heads_and_its_gradients_agree(masked: bool, causal: bool) -> None:
    found = []
    for m in (torch, mt):
        rng = np.random.default_rng(3)
        given = [m.from_numpy(draw(rng, (2, 3, places, 4))).requires_grad_() for places in (6, 5, 5)]
        mask = m.arange(30).reshape(6, 5) % 7 > 1 if masked else None
        result = m.nn.functional.scaled_dot_product_attention(*given, attn_mask=mask, is_causal=causal)
        found.append([result, *m.autograd.grad((result * result).sum(), given)])
    for expected, got in zip(*found, strict=True):
        close(got, expected)


@pytest.mark.parametrize(
    "run",
    [
        lambda m, x: m.nn.functional.dropout(x, 0.3),
        lambda m, x: m.nn.functional.dropout2d(x, 0.3),
        lambda m, x: m.nn.functional.alpha_dropout(x, 0.3, True),
        lambda m, x: m.nn.functional.feature_alpha_dropout(x, 0.3, True),
        lambda m, x: m.nn.functional.gumbel_softmax(x, hard=True),
        lambda m, x: m.nn.functional.fractional_max_pool2d(x, 2, output_size=(3, 2)),
        lambda m, x: m.nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.4),
    ],
)
def test_random_draws_are_torchs(run: Callable[..., Any]) -> None:
    results = []
    for package in (torch, mt):
        package.manual_seed(11)
        x = package.from_numpy(np.random.default_rng(0).standard_normal((2, 3, 6, 5)).astype(np.float32))
        results.append(run(package, x).numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-6)


# Calls that are refused; `m` is the package, `F` its functions, `R` a tensor of ones.
REFUSED = """
    m.mm(R(2, 3), R(4, 5))
    m.mm(R(2), R(4, 5))
    m.bmm(R(2, 3, 4), R(2, 3, 4))
    m.baddbmm(R(5).double(), R(2, 3, 4), R(2, 4, 5))
    m.addmm(R(1, 2, 5), R(2, 3), R(3, 5))
    m.mv(R(2, 3), R(4))
    m.dot(R(3), R(3).double())
    m.matmul(R(2, 3, 4), R(2, 5, 6))
    m.tensordot(R(2, 3), R(4, 5), 1)
    m.einsum("ij,jk->ik", R(2, 3), R(4, 5))
    m.chain_matmul(R(2, 3), R(4, 5))
    m.matrix_power(R(2, 3), 2)
    F.linear(R(2, 3).double(), R(4, 3), R(4))
    F.bilinear(R(2, 3), R(2, 4), R(5, 3, 5))
    F.conv2d(R(2, 3, 8, 8), R(4, 3, 3, 3), stride=(1, 2, 3))
    F.conv2d(R(2, 3, 8, 8), R(4, 3, 3, 3), padding="same", stride=2)
    F.conv2d(R(2, 3, 8, 8), R(4, 3, 3, 3), R(4).double())
    F.pad(R(2, 3), (1, 1), mode="reflect", value=3.0)
    F.pad(R(2, 3), (1, 1, 1, 1, 1, 1))
    F.cross_entropy(R(2, 3), m.tensor([0, 5]))
    F.cross_entropy(R(2, 3), m.tensor([0, 1, 2]))
    F.cross_entropy(R(2, 3), m.tensor([0, 1]), label_smoothing=2.0)
    F.cross_entropy(R(2, 3), m.tensor([0, 1]), reduction="most")
    F.mse_loss(R(2, 3).long(), R(2, 3).long())
    F.binary_cross_entropy(R(2, 3) * 5, R(2, 3))
    F.binary_cross_entropy_with_logits(R(2, 3), R(2, 2))
    F.batch_norm(R(1, 3), m.zeros(3), m.ones(3), training=True)
    F.layer_norm(R(2, 3), (4,))
    F.group_norm(R(2, 3), 2)
    F.embedding(m.tensor([0, 5]), R(4, 3))
    F.embedding_bag(m.tensor([0, 1]), R(4, 3))
    F.interpolate(R(2, 3, 4, 4), size=(4, 4, 4))
    F.grid_sample(R(2, 3, 4, 4), R(2, 4, 4, 3), align_corners=False)
    F.pixel_shuffle(R(2, 3, 4, 4), 2)
    F.max_pool2d(R(2, 3, 4, 4), 2, padding=2)
    F.max_unpool2d(R(2, 3, 4, 4), m.zeros(2, 3, 4, 4).long(), 2, output_size=(20, 20))
    F.dropout1d(R(2, 3, 4, 5))
    F.scaled_dot_product_attention(R(2, 3), R(2, 3).double(), R(2, 3))
    F.gaussian_nll_loss(R(2, 3), R(2, 3), -R(2, 3))
    F.margin_ranking_loss(R(2), R(2), R(2, 2))
    F.nll_loss(R(2, 3), m.tensor([0, 1]), R(3).requires_grad_())
    F.cross_entropy(R(2, 3), m.tensor([0, 1]), R(3).requires_grad_())
    F.binary_cross_entropy(R(2, 3), R(2, 3), R(3).requires_grad_())
    F.soft_margin_loss(R(2, 3), R(2, 3).requires_grad_())
"""


@pytest.mark.parametrize("call", REFUSED.split("\n    ")[1:])
def test_refusals_are_worded_as_torchs(call: str) -> None:
    errors = []
    for package in (torch, mt):
        names = {"m": package, "F": package.nn.functional, "R": package.ones}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(Exception) as caught:
                eval(call.strip(), names)
        errors.append((type(caught.value), str(caught.value).partition("\nException raised from")[0]))
    assert errors[1] == errors[0]
