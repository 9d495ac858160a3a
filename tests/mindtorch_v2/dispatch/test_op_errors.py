"""Wrong calls of operators: what is refused, with torch's exception types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mindtorch_v2 as torch

x = torch.arange(6.0)
index = torch.tensor([0, 1, 2])

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "two numbers": (lambda: torch.bitwise_and(2, 3), TypeError, "at least one of them must be a Tensor"),
    "an operator of no tensor": (lambda: torch.Tensor.__rand__(2, index), TypeError, "called on a int"),
    "out= with overlap in itself": (
        lambda: torch.add(x, 1, out=torch.zeros(1).expand(6)),
        RuntimeError,
        "more than one element of the written-to tensor",
    ),
    "out= of another dtype": (
        lambda: torch.gather(x, 0, index, out=torch.empty(3, dtype=torch.float64)),
        RuntimeError,
        "Expected out tensor to have dtype float, but got double instead",
    ),
    "out= in the memory of the input": (
        lambda: torch.take(x, index, out=x[:3]),
        RuntimeError,
        "some elements of the input tensor",
    ),
    "None among tensors": (lambda: torch.cat([x, None]), TypeError, "expected Tensor as element 1"),
    "a step that is no integer": (lambda: torch.arange(0, 5, 0.5, dtype=torch.int64), ValueError, "must be nonzero"),
    "steps that are no integer": (lambda: torch.linspace(0, 1, 3.0), TypeError, "must be int"),
    "bounds that are no numbers": (lambda: torch.linspace(x, 1, 3), RuntimeError, "0-dimensional"),
    "bounds that do not fit": (lambda: torch.linspace(-3, 3, 3, dtype=torch.uint8), RuntimeError, "without overflow"),
    "a split by text": (lambda: torch.hsplit(torch.zeros(4, 4), "ab"), TypeError, "not str"),
    "a window of halves": (lambda: torch.signal.windows.hann(3, dtype=torch.float16), ValueError, "float32 or float64"),
    "a centre of a symmetric window": (
        lambda: torch.signal.windows.exponential(3, center=1),
        ValueError,
        "Center must be None",
    ),
    "two output sizes": (
        lambda: torch.nn.functional.adaptive_avg_pool1d(torch.zeros(1, 2, 3), ()),
        RuntimeError,
        "should contain one int",
    ),
    "a gradient along a short dimension": (lambda: torch.gradient(torch.zeros(1)), RuntimeError, "at least edge_order"),
    "a norm that is not positive": (lambda: torch.renorm(torch.zeros(2, 2), 0, 0, 1.0), RuntimeError, "non-positive"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        call()


def test_out_may_lie_beside_the_input() -> None:
    both = torch.zeros(2, 6)
    both[0] = x
    assert torch.take(both[0], index, out=both[1, :3]).tolist() == [0.0, 1.0, 2.0]
