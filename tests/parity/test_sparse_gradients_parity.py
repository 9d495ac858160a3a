"""Sparse gradients beside torch: the places and values of embeddings' gradients, and what optimizers make of them."""

from typing import Any

import numpy as np
import pytest
import torch

import mindtorch_v2

BOTH = (mindtorch_v2, torch)


def parts(gradient: Any) -> tuple[Any, ...]:
    if not gradient.is_sparse:
        return (gradient.tolist(),)
    return gradient._indices().tolist(), gradient._values().tolist(), gradient.is_coalesced(), tuple(gradient.shape)


def embedded(t: Any, **options: Any) -> Any:
    weight = t.arange(15.0).view(5, 3).requires_grad_()
    out = t.nn.functional.embedding(t.tensor([[1, 2], [1, 4]]), weight, sparse=True, **options)
    (out * t.arange(12.0).view(2, 2, 3)).sum().backward()
    return weight.grad


def bagged(t: Any, mode: str, **options: Any) -> Any:
    weight = t.arange(15.0).view(5, 3).requires_grad_()
    indices, offsets = t.tensor([1, 2, 1, 4, 0]), t.tensor([0, 2])
    out = t.nn.functional.embedding_bag(indices, weight, offsets, mode=mode, sparse=True, **options)
    (out * t.arange(6.0).view(2, 3)).sum().backward()
    return weight.grad


def gathered(t: Any, shape: tuple[int, ...], dim: int, index: Any) -> Any:
    x = t.arange(float(t.zeros(shape).numel())).view(shape).requires_grad_()
    t.gather(x, dim, t.tensor(index), sparse_grad=True).sum().backward()
    return x.grad


CASES = {
    "embedding": lambda t: embedded(t),
    "padding": lambda t: embedded(t, padding_idx=2),
    "bag sum": lambda t: bagged(t, "sum"),
    "bag mean": lambda t: bagged(t, "mean"),
    "bag padding": lambda t: bagged(t, "mean", padding_idx=2),
    "bag weights": lambda t: bagged(t, "sum", per_sample_weights=t.tensor([1.0, 2, 3, 4, 5])),
    "gather": lambda t: gathered(t, (2, 3), 1, [[0, 0], [1, 2]]),
    "gather first": lambda t: gathered(t, (2, 3), 0, [[0, 0, 1]]),
    "gather back": lambda t: gathered(t, (2, 2, 3), -1, [[[2], [0]]]),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_have_torchs_places_and_values(name: str) -> None:
    (places, values, *rest), (expected_places, expected_values, *expected_rest) = (parts(CASES[name](t)) for t in BOTH)
    assert (places, rest) == (expected_places, expected_rest)
    assert np.asarray(values) == pytest.approx(np.asarray(expected_values), rel=1e-6)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("SGD", {}),
        ("SGD", {"momentum": 0.9, "dampening": 0.5}),
        ("SGD", {"momentum": 0.9, "nesterov": True}),
        ("SGD", {"maximize": True, "foreach": True}),
        ("SparseAdam", {}),
        ("SparseAdam", {"betas": (0.5, 0.6), "eps": 1e-3, "maximize": True}),
        ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.5}),
        ("Adagrad", {"foreach": True}),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_optimizers_make_torchs_steps(kind: str, options: dict[str, Any]) -> None:
    found = []
    for t in BOTH:
        weight = (t.arange(15.0).view(5, 3) / 10).requires_grad_()
        optimizer = getattr(t.optim, kind)([weight], lr=0.1, **options)
        for step in range(4):
            optimizer.zero_grad()
            rows = t.nn.functional.embedding(t.tensor([1, 2, step, 1]), weight, sparse=True)
            (rows**2).sum().backward()
            optimizer.step()
        found.append(weight.detach().flatten().tolist())
    assert found[0] == pytest.approx(found[1], rel=1e-5)
