"""Segments of a dimension reduced, products of one-byte numbers, and the largest eigenvalues of a pencil."""

from __future__ import annotations

from typing import Any

import pytest

import mindtorch_v2 as torch


@pytest.mark.parametrize(
    ("reduce", "expected", "started"),
    [
        ("sum", [3.0, 0.0, 3.0], [8.0, 5.0, 8.0]),
        ("max", [2.0, -float("inf"), 3.0], [5.0, 5.0, 5.0]),
        ("min", [1.0, float("inf"), 3.0], [1.0, 5.0, 3.0]),
        ("prod", [2.0, 1.0, 3.0], [10.0, 5.0, 15.0]),
    ],
)
def test_segments_are_reduced(reduce: str, expected: list[float], started: list[float]) -> None:
    x, lengths = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2, 0, 1])
    assert torch.segment_reduce(x, reduce, lengths=lengths).tolist() == expected
    assert torch.segment_reduce(x, reduce, lengths=lengths, initial=5.0).tolist() == started
    offsets = torch.tensor([0, 2, 2, 3])
    assert torch.segment_reduce(x, reduce, offsets=offsets).tolist() == expected


def test_means_of_nothing_are_nan() -> None:
    made = torch.segment_reduce(torch.tensor([1.0, 2.0]), "mean", lengths=torch.tensor([2, 0]))
    assert made[0].item() == 1.5
    assert made[1].isnan()


def test_rows_have_lengths_of_their_own() -> None:
    x = torch.arange(12.0).reshape(2, 6)
    lengths = torch.tensor([[1, 2, 3], [3, 3, 0]])
    assert torch.segment_reduce(x, "sum", lengths=lengths, axis=1).tolist() == [[0.0, 3.0, 12.0], [21.0, 30.0, 0.0]]


def test_equal_extremes_share_the_gradient() -> None:
    x = torch.tensor([5.0, 5.0, 1.0, 3.0], requires_grad=True)
    torch.segment_reduce(x, "max", lengths=torch.tensor([2, 2])).sum().backward()
    assert x.grad.tolist() == [0.5, 0.5, 0.0, 1.0]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "Either lengths or offsets must be defined"),
        ({"lengths": torch.tensor([1, 1])}, "Expected all rows of lengths along axis to sum"),
        ({"lengths": torch.tensor([1, -1, 4])}, "lengths contains negative value"),
    ],
)
def test_wrong_segments_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        torch.segment_reduce(torch.ones(4), "sum", **given)


def test_products_of_one_byte_numbers() -> None:
    eights = torch.full((2, 3), 100, dtype=torch.int8)
    product = torch._int_mm(eights, eights.t())
    assert product.dtype is torch.int32
    assert product.tolist() == [[30000] * 2] * 2
    ones = torch.ones(4, 4).to(torch.float8_e4m3fn)
    scaled = torch._scaled_mm(ones, ones, torch.tensor(2.0), torch.tensor(3.0), out_dtype=torch.bfloat16)
    assert scaled.dtype is torch.bfloat16
    assert scaled.tolist() == [[24.0] * 4] * 4


@pytest.mark.parametrize("largest", [True, False])
def test_chosen_eigenvalues_of_a_pencil(largest: bool) -> None:
    a, b = torch.diag(torch.arange(1.0, 13.0)), torch.eye(12) * 2
    values, vectors = torch.lobpcg(a, k=2, B=b, largest=largest)
    assert values.tolist() == pytest.approx([6.0, 5.5] if largest else [0.5, 1.0])
    assert torch.allclose(a @ vectors, b @ vectors * values, atol=1e-5)
    with pytest.raises(ValueError, match="smaller than 3 x the number of requested eigenpairs"):
        torch.lobpcg(torch.eye(4), k=2)


def test_storages_print_their_elements() -> None:
    text = " 1\n 2\n[torch.storage.TypedStorage(dtype=torch.int64, device=cpu) of size 2]"
    assert repr(torch.tensor([1, 2]).storage()) == text
    assert repr(torch.zeros(2, dtype=torch.uint8).untyped_storage()).endswith("UntypedStorage(device=cpu) of size 2]")
