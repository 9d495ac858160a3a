"""Small calls by spellings that go the fast way too: `axis=`, and results for tensors that are there."""

from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import _tap


def refused(*args: Any) -> Any:
    raise AssertionError("the slow path was taken")


@pytest.mark.parametrize(
    ("ident", "call"),
    [
        ("cat", lambda x, **dim: torch.cat((x, x), **dim)),
        ("stack", lambda x, **dim: torch.stack((x, x), **dim)),
        ("argmax", lambda x, **dim: x.argmax(**dim)),
        ("index_select", lambda x, **dim: torch.index_select(x, index=torch.tensor([1, 0]), **dim)),
        ("amax", lambda x, **dim: x.amax(**dim)),
    ],
)
def test_numpys_spellings_take_the_fast_path(ident: str, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    wanted = call(x, dim=1)
    monkeypatch.setitem(_tap.NAMESPACE, f"S_{ident}", refused)
    assert torch.equal(call(x, axis=1), wanted)


OUTS = [
    lambda x, y, **out: torch.add(x, y, **out),
    lambda x, y, **out: torch.mul(x, y, **out),
    lambda x, y, **out: torch.div(x, y, **out),
    lambda x, y, **out: torch.log(x, **out),
    lambda x, y, **out: torch.clamp(x, 0, 1, **out),
    lambda x, y, **out: torch.matmul(x, y, **out),
    lambda x, y, **out: torch.cat((x, y), **out),
    lambda x, y, **out: torch.softmax(x, 1, **out),
    lambda x, y, **out: torch.cumsum(x, 0, **out),
    lambda x, y, **out: torch.cumsum(x, axis=0, **out),
    lambda x, y, **out: torch.gt(x, y, **out),
]


@pytest.mark.parametrize("call", OUTS)
def test_results_for_tensors_that_are_there(call: Any) -> None:
    x, y = torch.tensor([[-1.0, 0.5], [2.0, 3.0]]), torch.tensor([[0.0, 2.0], [1.0, 3.0]])
    wanted = call(x, y)
    out = torch.zeros_like(wanted)
    version, held = out._version, out.numpy()
    assert call(x, y, out=out) is out
    assert np.array_equal(out.numpy(), wanted.numpy(), equal_nan=True)
    assert held is out.numpy() or np.shares_memory(held, out.numpy())
    assert out._version > version
    # A view, and a tensor of another shape or layout.
    rows = torch.zeros(3, *wanted.shape, dtype=wanted.dtype)
    call(x, y, out=rows[1])
    assert np.array_equal(rows[1].numpy(), wanted.numpy(), equal_nan=True)
    assert not rows[0].any()
    assert not rows[2].any()
    turned = torch.zeros(wanted.shape[::-1], dtype=wanted.dtype).t()
    call(x, y, out=turned)
    assert np.array_equal(turned.numpy(), wanted.numpy(), equal_nan=True)
    resized = torch.empty(0, dtype=wanted.dtype)
    call(x, y, out=resized)
    assert np.array_equal(resized.numpy(), wanted.numpy(), equal_nan=True)
    if wanted.dtype is torch.bool:
        return
    # Nothing that is differentiated.
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        call(x.clone().requires_grad_(), y, out=out)
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        call(x, y, out=torch.zeros(wanted.shape, requires_grad=True))


def test_results_on_an_operand() -> None:
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
    assert torch.mul(x, y, out=x) is x
    assert x.tolist() == [3, 10]
    torch.sub(y, x.detach(), out=x)
    assert x.tolist() == [0, -5]
    square = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    torch.matmul(square, square, out=square)
    assert square.tolist() == [[7, 10], [15, 22]]
    memory = np.arange(3.0)
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.exp(torch.from_numpy(memory[:2]), out=torch.from_numpy(memory[1:]))


def test_results_of_another_dtype() -> None:
    x = torch.tensor([1.5, 2.5])
    assert torch.add(x, x, out=torch.zeros(2, dtype=torch.float64)).tolist() == [3, 5]
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.add(x, x, out=torch.zeros(2, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        torch.mm(x[None], x[:, None], out=torch.zeros(1, 1, dtype=torch.float64))
