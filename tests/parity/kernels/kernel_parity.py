"""How a kernel is held beside torch: same values, shape and element type, or the same refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import torch

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
NUMBERS = [torch.bool, torch.uint8, torch.int32, torch.int64, *FLOATS, torch.complex64, torch.complex128]
SHAPES = [(), (0,), (5,), (1,), (3, 4), (0, 3), (3, 0), (2, 3, 4)]
# Sizes from which kernels take other paths than for small arrays.
LARGE = [(70, 80), (9001,), (3, 4097), (4097, 3)]
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 2e-2, torch.float32: 2e-5, torch.complex64: 1e-4}


def array(t: torch.Tensor) -> np.ndarray:
    t = t.detach()
    if t.dtype is torch.bfloat16:
        return t.contiguous().view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    return t.numpy()


def arrays(value: Any) -> Any:
    """Tensors as arrays and their types as NumPy's, inside lists and tuples too; everything else as it is."""
    if isinstance(value, torch.Tensor):
        return array(value)
    if isinstance(value, torch.dtype):
        return array(torch.empty(0, dtype=value)).dtype
    if type(value) in (list, tuple):
        return type(value)(arrays(part) for part in value)
    return value


def sample(shape: tuple[int, ...], dtype: torch.dtype, scale: float = 3.0) -> torch.Tensor:
    """Random numbers that repeat for integers and bools."""
    kind = torch.complex128 if dtype.is_complex else torch.float64
    return (torch.randn(shape, dtype=kind) * scale).to(dtype)


def with_nan(t: torch.Tensor) -> torch.Tensor:
    """A copy with NaN in two places."""
    t = t.clone().contiguous()
    t.view(-1)[[1, 3]] = torch.nan
    return t


def variants(shape: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
    """Plain, transposed and with NaN, as far as shape and type allow."""
    t = sample(shape, dtype)
    found = [t]
    if t.ndim == 2:
        found.append(t.T)
    if dtype.is_floating_point and t.numel() > 3:
        found.append(with_nan(t))
    return found


def assert_same(got: Any, expected: Any, tolerance: float | None = None) -> None:
    if isinstance(expected, (tuple, list)):  # named tuples too
        assert len(got) == len(expected)
        for mine, theirs in zip(got, expected):
            assert_same(mine, theirs, tolerance)
        return
    wanted = array(expected)
    assert type(got) is np.ndarray
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), (
        f"{got.shape} {got.dtype}, torch {wanted.shape} {wanted.dtype}"
    )
    if expected.is_floating_point() or expected.is_complex():
        limit = tolerance or TOLERANCE.get(expected.dtype, 1e-9)
        kind = np.complex128 if expected.is_complex() else np.float64
        np.testing.assert_allclose(got.astype(kind), wanted.astype(kind), rtol=limit, atol=limit)
    else:
        np.testing.assert_array_equal(got, wanted)


def outcome(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, tuple[type, str] | None]:
    """The result, or type and first line of the refusal."""
    try:
        return function(*args, **options), None
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        return None, (type(error), str(error).split("\n")[0])


def check(
    kernel: Callable[..., Any],
    reference: Callable[..., Any],
    *args: Any,
    tolerance: float | None = None,
    **options: Any,
) -> None:
    """Both give the same for the same arguments, or both refuse in the same words."""
    expected, refusal = outcome(reference, *args, **options)
    got, mine = outcome(kernel, *arrays(args), **{name: arrays(value) for name, value in options.items()})
    assert mine == refusal, f"{mine} where torch has {refusal}"
    if refusal is None:
        assert_same(got, expected, tolerance)


def first(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function's first result alone."""
    return lambda *args, **options: function(*args, **options)[0]


def gradients(function: Callable[..., Any], *args: Any) -> tuple[Any, torch.Tensor, list[torch.Tensor | None]]:
    """Torch's result, a random gradient for it (for its first part), and what each argument receives."""
    given = [arg.detach().clone().requires_grad_() if _is_float(arg) else arg for arg in args]
    result = function(*given)
    differentiated = result[0] if isinstance(result, tuple) else result
    grad = torch.randn_like(differentiated)
    differentiated.backward(grad)
    return result, grad, [getattr(arg, "grad", None) for arg in given]


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
