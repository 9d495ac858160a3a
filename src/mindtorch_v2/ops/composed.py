"""Gradients that have gradients themselves, for ops whose backward is a kernel of its own.

Where a graph of the backward pass is wanted, such an op's gradient is taken from the op written as a composition of
differentiable ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autograd import grad_mode
from ..autograd.entry import grad
from .shape.view import expand

wanted: Callable[[], bool] = grad_mode.is_grad_enabled


def gradients(function: Callable[..., Any], inputs: Sequence[Any], g: Any, needs: Sequence[bool]) -> tuple[Any, ...]:
    """Gradients of `function(*inputs)`, one per input, None where it is not needed.

    `function` may give a tuple; `g` then is one too, of gradients or None.
    """
    # Stand-ins of the inputs: what they themselves depend on, each other for instance, is none of our business.
    stand_ins = [None if x is None else expand(x, x._a.shape) for x in inputs]
    results = function(*stand_ins)
    if isinstance(results, tuple):
        results, g = zip(*((r, each) for r, each in zip(results, g) if each is not None))
    found = iter(grad(results, [x for x, needed in zip(stand_ins, needs) if needed], g, None, True, True))
    return tuple(next(found) if needed else None for needed in needs)
