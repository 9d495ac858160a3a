"""gradcheck and gradgradcheck: derivatives against finite differences (`mismatch`), and what else a backward function
promises (`promises`). It owns the options and what inputs are fit to be checked."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..core.device import strided
from ..core.tensor import Tensor
from .entry import grad as _grad
from .mismatch import GradcheckError, Options, as_tuple, check_derivatives, differentiable
from .promises import check_batched_forward, check_constant, check_promises


def _check_inputs(inputs: tuple[Any, ...]) -> None:
    watched = [(place, x) for place, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not watched:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    for place, x in watched:
        if x.layout is not strided:
            raise NotImplementedError(
                f"gradcheck takes dense tensors, but input {place} has layout {x.layout}; check a function of its values "
                "that builds the sparse tensor itself"
            )
        if x.dtype.name not in ("float64", "complex128"):
            warnings.warn(
                f"Input #{place} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex. ",
                stacklevel=4,
            )
        if any(step == 0 and size > 1 for step, size in zip(x.stride(), x.shape, strict=True)):
            raise RuntimeError(
                f"The {place}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous on "
                "the input before passing it to gradcheck."
            )


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
    """Whether the gradients of func at inputs agree with finite differences. `masked` is about sparse inputs, which are
    refused."""
    _require(check_forward_ad or check_backward_ad, "Expected at least one of check_forward_ad or check_backward_ad")
    _require(check_backward_ad or not check_batched_grad, "Setting check_batched_grad=True requires check_backward_ad")
    _require(
        check_forward_ad or not check_batched_forward_grad,
        "Setting check_batched_forward_grad=True requires check_forward_ad",
    )
    options = Options(eps, atol, rtol, nondet_tol, check_grad_dtypes, fast_mode)
    given = as_tuple(inputs)
    _check_inputs(given)
    try:
        if not differentiable(func(*given)):
            check_constant(func, given, options)
            return True
        check_derivatives(func, given, options, check_forward_ad, check_backward_ad)
        if check_batched_forward_grad:
            check_batched_forward(func, given)
        if check_backward_ad:
            check_promises(func, given, check_batched_grad, check_undefined_grad)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _require(met: bool, text: str) -> None:
    if not met:
        raise AssertionError(f"{text} to be True")


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
    _require(
        check_fwd_over_rev or check_rev_over_rev, "Expected at least one of check_fwd_over_rev or check_rev_over_rev"
    )
    for name, wanted in (("check_undefined_grad", check_undefined_grad), ("check_batched_grad", check_batched_grad)):
        _require(check_rev_over_rev or not wanted, f"Setting {name}=True requires check_rev_over_rev")
    given = as_tuple(inputs)
    if grad_outputs is None:
        outputs = differentiable(func(*given))
        grads = tuple(_uniform_like(o, gen_non_contig_grad_outputs) for o in outputs)
    else:
        grads = as_tuple(grad_outputs)
    places = [place for place, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]

    def first(*args: Any) -> Any:
        values, vectors = args[: len(given)], args[len(given) :]
        results = differentiable(func(*values))
        found = _grad(results, [values[p] for p in places], vectors, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        first, given + grads, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode, masked=masked,
    )  # fmt: skip


def _uniform_like(t: Any, noncontiguous: bool) -> Any:
    """A gradient to start from: between -1 and 1, drawn as torch draws it (every second number to leave gaps)."""
    gaps = noncontiguous and t.numel() > 1
    drawn = t.detach().new_empty((*t.shape[:-1], 2 * t.shape[-1]) if gaps else t.shape)
    parts = drawn.view(drawn.dtype.to_real()) if drawn.is_complex() else drawn
    parts.uniform_(-1, 1)
    return (drawn[..., 1::2] if gaps else drawn).requires_grad_()
