"""Checks gradients against finite differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .._tensor import Tensor, make
from .engine import door
from .entry import grad as _grad


class GradcheckError(RuntimeError):
    """A gradient is not what finite differences say."""


def _outputs(value: Any) -> tuple[Any, ...]:
    values = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(v for v in values if isinstance(v, Tensor) and (v.is_floating_point() or v.is_complex()))


def _watched(inputs: tuple[Any, ...]) -> list[Tensor]:
    found = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    if not found:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    for position, x in enumerate(found):
        if x.dtype.name not in ("float64", "complex128"):
            warnings.warn(
                f"Input #{position} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex. ",
                stacklevel=3,
            )
    return found


def _numerical(fn: Callable[[], tuple[Any, ...]], x: Tensor, eps: float) -> list[np.ndarray[Any, Any]]:
    """Columns of the Jacobian with respect to one input: for each element, the change of every output."""
    a = x._a
    columns: list[list[Any]] = []
    steps = [eps, eps * 1j] if a.dtype.kind == "c" else [eps]
    for index in np.ndindex(a.shape):
        kept = a[index]
        for step in steps:
            a[index] = kept + step
            after = [o._a.copy() for o in fn()]
            a[index] = kept - step
            before = [o._a.copy() for o in fn()]
            a[index] = kept
            columns.append([(p - m) / (2 * eps) for p, m in zip(after, before, strict=True)])
    count = len(columns[0]) if columns else 0
    return [np.stack([c[i].reshape(-1) for c in columns]) for i in range(count)]


def _analytical(output: Any, inputs: list[Tensor]) -> list[np.ndarray[Any, Any]]:
    """For each input, the Jacobian of one output by backward: rows by input element, columns by output element."""
    n = output._a.size
    rows: list[list[Any]] = [[] for _ in inputs]
    units = (1.0, 1j) if output._a.dtype.kind == "c" else (1.0,)
    for j in range(n):
        for unit in units:
            one = np.zeros(n, output._a.dtype)
            one[j] = unit
            found = _grad(output, inputs, make(one.reshape(output._a.shape)), retain_graph=True, allow_unused=True)
            for row, g, x in zip(rows, found, inputs, strict=True):
                row.append(np.zeros(x._a.size, x._a.dtype) if g is None else g._a.reshape(-1))
    return [np.stack(r, 1) if r else np.zeros((x._a.size, 0)) for r, x in zip(rows, inputs, strict=True)]


def _close(a: Any, n: Any, atol: float, rtol: float) -> bool:
    return a.shape == n.shape and bool(np.allclose(a, n, rtol, atol, equal_nan=True))


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of func at inputs agree with finite differences."""
    given = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    try:
        _check(func, tuple(given), eps, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(func: Callable[..., Any], inputs: tuple[Any, ...], eps: float, atol: float, rtol: float) -> None:
    watched = _watched(inputs)
    outputs = _outputs(func(*inputs))
    numerical = [_numerical(lambda: _outputs(func(*inputs)), x, eps) for x in watched]
    for position, output in enumerate(outputs):
        if not output.requires_grad:
            continue
        analytical = _analytical(output, watched)
        for number, x in enumerate(watched):
            wanted, got = numerical[number][position], analytical[number]
            wanted, got = _comparable(wanted, got, x, output)
            if not _close(got, wanted, atol, rtol):
                raise GradcheckError(
                    f"Jacobian mismatch for output {position} with respect to input {number},\n"
                    f"numerical:{wanted}\nanalytical:{got}\n"
                )


def _comparable(numerical: Any, analytical: Any, x: Any, output: Any) -> tuple[Any, Any]:
    """Both Jacobians as real ones: rows by real input components, columns by real output components."""
    out_complex, in_complex = output._a.dtype.kind == "c", x._a.dtype.kind == "c"
    n = (
        np.stack([numerical.real, numerical.imag], -1).reshape(numerical.shape[0], -1)
        if out_complex
        else numerical.real
    )
    a = analytical
    if in_complex:
        a = np.stack([a.real, a.imag], 1).reshape(-1, a.shape[1])
    return n, a.real


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether the gradients of the gradients agree with finite differences."""
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    outputs = tuple(o for o in _outputs(func(*given)) if o.requires_grad)
    if grad_outputs is None:
        grads = tuple(_random_like(o) for o in outputs)
    else:
        grads = tuple(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else (grad_outputs,)
    count = len(grads)

    def first(*args: Any) -> Any:
        values, gs = args[:-count], args[-count:]
        watched = [x for x in values if isinstance(x, Tensor) and x.requires_grad]
        results = tuple(o for o in _outputs(func(*values)) if o.requires_grad)
        found = _grad(results, watched, gs, create_graph=True, allow_unused=True)
        return tuple(g if g is not None else door.zeros_like(x) for g, x in zip(found, watched, strict=True))

    return gradcheck(first, given + grads, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)


def _random_like(t: Any) -> Any:
    """A gradient to start from: between -1 and 1, drawn as torch draws it."""
    drawn = t.detach().clone()
    parts = drawn.view(drawn.dtype.to_real()) if drawn.is_complex() else drawn
    parts.uniform_(-1, 1)
    return drawn.requires_grad_()
