"""What a backward function promises beside being right: to be zero where nothing depends on the inputs, to be linear in
what it is given, to take undefined gradients, and to give for a batch what it gives one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from .engine import door
from .entry import grad as _grad
from .function import Function
from .jacobians import Array, every_direction, numerical, pushed
from .mismatch import Case, GradcheckError, Options, as_tuple, differentiable, printed


def check_constant(func: Callable[..., Any], inputs: tuple[Any, ...], options: Options) -> None:
    """Where no output requires a gradient, none may depend on the inputs."""

    def outputs() -> list[Any]:
        found = (o for o in as_tuple(func(*inputs)) if isinstance(o, Tensor))
        return [o for o in found if o.is_floating_point() or o.is_complex()]

    tolerance = options.nondet_tol if options.fast_mode else 0.0
    for x in (x for x in inputs if isinstance(x, Tensor) and x.requires_grad):
        found = numerical(outputs, x, every_direction(x), options.eps)
        if any((np.abs(jacobian) > tolerance).any() for jacobian in found):
            raise GradcheckError("Numerical gradient for function expected to be zero")


def _check_linear(outputs: Sequence[Any], watched: Sequence[Tensor]) -> None:
    """Gradients of zeros are zeros of the inputs' shape and dtype."""
    zeros = [door.zeros_like(o) for o in outputs]
    for g, x in zip(_grad(outputs, watched, zeros, retain_graph=True, allow_unused=True), watched, strict=True):
        if g is None:
            continue
        if g.to_dense()._a.any():
            raise GradcheckError("backward not multiplied by grad_output")
        if g.dtype is not x.dtype:
            raise GradcheckError(f"grad is incorrect dtype: {g.dtype} for an input of {x.dtype}")
        if g.shape != x.shape:
            raise GradcheckError(f"grad is incorrect size: {tuple(g.shape)} for an input of {tuple(x.shape)}")


class _Undefined(Function):
    """Lets values through, and no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return None


def _check_undefined(func: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    """An output that nobody used has no gradient, which backward has to take for zeros: of all outputs, and of each."""
    watched = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    count = len(differentiable(func(*inputs)))
    for without in [range(count), *([n] for n in range(count) if count > 1)]:
        outputs = differentiable(func(*inputs))
        ends = [_Undefined.apply(o) if n in without else o for n, o in enumerate(outputs)]
        try:
            found = _grad(ends, watched, [door.zeros_like(o) for o in ends], allow_unused=True)
        except RuntimeError as error:
            raise GradcheckError(
                "Expected backward function to handle undefined output grads: it takes None, where materializing "
                f"gradients is off, for zeros. It failed with: {error}"
            ) from error
        if any(g is not None and g.to_dense()._a.any() for g in found):
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero."
            )


# --- batches ----------------------------------------------------------------------------------------------------------


def _check_batched(case: Case, output: Any) -> None:
    """Gradients of a batch of vectors are those of each. A batch is a loop here, so that only what a backward function
    keeps from one call to the next can make a difference."""
    vectors = [_normal_like(output) for _ in range(2)]
    single = [_grad(output, case.watched, v, retain_graph=True, allow_unused=True) for v in vectors]
    together = _grad(output, case.watched, door.stack(vectors), retain_graph=True, allow_unused=True,
                     is_grads_batched=True)  # fmt: skip
    for number, batch in enumerate(together):
        if batch is not None:
            _compare_batch(np.stack([row[number]._a for row in single]), batch._a, number)


def check_batched_forward(func: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    """Tangents of a batch of directions, found in one level, are those of each."""

    def outputs(*args: Any) -> list[Any]:
        return differentiable(func(*args))

    places = [place for place, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    for number, place in enumerate(places):
        ways = [_normal_like(inputs[place])._a for _ in range(2)]
        single = [pushed(outputs, inputs, place, iter([way]))[0] for way in ways]
        pairs = zip(
            zip(*single, strict=True), zip(*pushed(outputs, inputs, place, iter(ways)), strict=True), strict=True
        )
        for one, batch in ((o, b) for o, b in pairs if o[0] is not None and b[0] is not None):
            _compare_batch(np.stack([t._a for t in one]), np.stack([t._a for t in batch]), number)


def _compare_batch(expected: Array, found: Array, number: int) -> None:
    if not np.allclose(found, expected, 1e-5, 1e-8):
        raise GradcheckError(
            f"While computing batched gradients, got different values for input {number}:\nbatched: {printed(found)}\n"
            f"one by one: {printed(expected)}\n"
        )


def _normal_like(t: Any) -> Any:
    return door.zeros_like(t.detach()).normal_()


def check_promises(func: Callable[..., Any], inputs: tuple[Any, ...], batched: bool, undefined: bool) -> None:
    """Raise where backward breaks a promise."""
    outputs = differentiable(func(*inputs))
    case = Case(func, inputs, [])
    if batched:
        for output in outputs:
            _check_batched(case, output)
    _check_linear(outputs, case.watched)
    if undefined:
        _check_undefined(func, inputs)
