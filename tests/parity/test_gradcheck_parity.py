"""gradcheck: the same cases, right and wrong, end alike here and in torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import mindtorch_v2


def function(m: Any, forward: Any, backward: Any, jvp: Any = None, zeros: bool = True) -> Callable[..., Any]:
    class Made(m.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            ctx.set_materialize_grads(zeros)
            return forward(*args)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return backward(*grads)

    if jvp is not None:
        Made.jvp = staticmethod(lambda ctx, *tangents: jvp(*tangents))
    return Made.apply


def two(x: Any) -> Any:
    return x * 2


def three(x: Any) -> Any:
    return x * 3


def real(m: Any) -> Any:
    return m.tensor([0.3, 0.7], dtype=m.float64, requires_grad=True)


def imaginary(m: Any) -> Any:
    return m.tensor([1 + 2j, 0.5 - 1j], dtype=m.complex128, requires_grad=True)


def skewed(m: Any) -> Any:
    return function(m, two, lambda g: m.complex(g.real * 3, g.imag * 2))


FAST, FORWARD = {"fast_mode": True}, {"check_forward_ad": True}
CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "right": (lambda m: m.sin, real, {}),
    "wrong": (lambda m: function(m, two, three), real, {}),
    "wrong, fast": (lambda m: function(m, two, three), real, FAST),
    "complex": (lambda m: lambda z: z * z.abs(), imaginary, FORWARD),
    "complex, fast": (lambda m: lambda z: z * z.abs(), imaginary, FAST | FORWARD),
    "complex, wrong": (skewed, imaginary, {}),
    "complex, wrong, fast": (skewed, imaginary, FAST),
    "complex tangents": (lambda m: function(m, two, two, three), imaginary, FORWARD),
    "tangents": (lambda m: function(m, two, two, two), real, FORWARD),
    "wrong tangents": (lambda m: function(m, two, two, three), real, FORWARD),
    "wrong tangents, fast": (lambda m: function(m, two, two, three), real, FORWARD | FAST),
    "no tangents": (lambda m: function(m, two, two), real, FORWARD),
    "not linear": (lambda m: function(m, m.sum, lambda g: m.ones(2, dtype=m.float64)), real, {}),
    "undefined": (lambda m: function(m, two, lambda g: m.ones(2) if g is None else g * 2, zeros=False), real, {}),
    "undefined, a TypeError": (lambda m: function(m, two, two, zeros=False), real, {}),
    "detached": (lambda m: lambda x: x.detach(), real, {}),
    "detached, fast": (lambda m: lambda x: x.detach(), real, FAST),
    "constant": (lambda m: lambda x: m.ones(2), real, {}),
    "partly detached": (lambda m: lambda x: (x.detach(), x * 2), real, {}),
    "integers": (lambda m: lambda x: x.argmax(), real, {}),
    "no tensor": (lambda m: lambda x: (x, 1), real, {}),
    "overlapping": (lambda m: m.sin, lambda m: m.rand(1).double().expand(3).requires_grad_(), {}),
    "no gradient": (lambda m: m.sin, lambda m: m.rand(2), {}),
    "nan": (lambda m: lambda x: x * float("nan"), real, {}),
    "empty": (lambda m: m.sin, lambda m: m.rand(0).double().requires_grad_(), FAST | FORWARD),
    "batched": (lambda m: m.sin, real, {"check_batched_grad": True}),
    "nothing to check": (lambda m: m.sin, real, {"check_backward_ad": False}),
}


def outcome(m: Any, name: str) -> str:
    func, inputs, options = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return str(m.autograd.gradcheck(func(m), inputs(m), **options))
        except Exception as error:
            return f"{type(error).__name__}: {error}"


def beginning(text: str) -> str:
    """The first sentence: what follows are figures along a random direction, or advice."""
    return text.split("\n")[0].split(". ")[0].rstrip(".")


@pytest.mark.parametrize("name", CASES)
def test_a_check_ends_as_torchs(name: str) -> None:
    ours, theirs = outcome(mindtorch_v2, name), outcome(torch, name)
    assert beginning(ours) == beginning(theirs)


@pytest.mark.parametrize("name", ["wrong", "complex, wrong", "wrong tangents", "complex tangents"])
def test_a_report_reads_as_torchs(name: str) -> None:
    assert outcome(mindtorch_v2, name) == outcome(torch, name)
