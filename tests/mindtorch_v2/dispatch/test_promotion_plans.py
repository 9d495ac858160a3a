"""Elementwise ops remember what promotion comes to: the same results as the long way, which recorded ops take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import mindtorch_v2 as torch

EXPRESSIONS = """
i + 1|i * 2|i * 2.5|i / 2|u + 300|u - 1|b * 2.0|h + 1|h * h|k % 3|k // 2|k * True|m + 1|m * 2.0|x + i|x * d|x.add(y, alpha=0.5)
x.sub(y, alpha=2)|i.add(i, alpha=3)|k.clamp(0, 3)|x.clamp(-1, 1)|x.clamp(y, x)|x.div(y, rounding_mode="floor")
x.div(y, rounding_mode="trunc")|k == 1|x > i|i.pow(2)|zero + i|zero * k|x * zero|k.remainder(2.5)|torch.maximum(i, k)
torch.atan2(i, x)|i.sqrt()|h.exp()|b.relu()|torch.where(m, i, 2.5)|2 - i|1 / k|x.lerp(y, 0.25)|x ** 2|k.float() * 2
""".replace("\n", "|")


@pytest.fixture
def names() -> dict[str, Any]:
    x = torch.linspace(-3, 3, 8)
    return {
        "torch": torch, "x": x, "y": x.flip(0) + 0.25, "i": torch.arange(1, 9, dtype=torch.int32),
        "u": torch.arange(8, dtype=torch.uint8), "b": x.bfloat16(), "h": x.half(), "k": torch.arange(1, 9),
        "m": x > 0, "d": x.double(), "zero": torch.tensor(1.5, dtype=torch.float64),
    }  # fmt: skip


@pytest.mark.parametrize("expression", [e for e in EXPRESSIONS.split("|") if e])
def test_as_the_long_way(expression: str, names: dict[str, Any]) -> None:
    found = [eval(expression, names) for _ in range(3)]
    with torch.autograd.profiler.profile():
        expected = eval(expression, names)
    for result in found:
        assert result.dtype is expected.dtype
        assert torch.equal(result, expected)


def test_what_fails_fails_whenever_it_comes() -> None:
    k, i = torch.arange(4), torch.ones(4, dtype=torch.int32)
    for _ in range(2):
        assert (i + k).dtype is torch.int64
        with pytest.raises(RuntimeError, match="must match the size"):
            i + torch.arange(3)
        assert (i**2).tolist() == [1, 1, 1, 1]
        with pytest.raises(RuntimeError, match="negative integer powers"):
            i ** (-2)
        with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
            k.add(i, alpha=1.5)


@pytest.fixture
def same_default_afterwards() -> Iterator[None]:
    before = torch.get_default_dtype()
    yield
    torch.set_default_dtype(before)


@pytest.mark.usefixtures("same_default_afterwards")
def test_the_default_dtype_counts() -> None:
    i = torch.ones(2, dtype=torch.int32)
    assert (i * 2.5).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    assert (i * 2.5).dtype is torch.float64


def test_graphs_are_made() -> None:
    x, p = torch.ones(3), torch.ones(3, requires_grad=True)
    assert x.add(x, alpha=2).grad_fn is None
    x.add(p, alpha=2).sum().backward()
    assert p.grad.tolist() == [2, 2, 2]
    with torch.no_grad():
        assert not x.add(p, alpha=2).requires_grad
