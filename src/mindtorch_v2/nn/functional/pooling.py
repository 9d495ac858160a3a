"""Pooling with torch's signatures: `return_indices`, output sizes with None, random windows."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.front import FRONTS
from ...ops.network import pooling as rows
from ...ops.sizes import expanded

avg_pool1d = rows.avg_pool1d
adaptive_avg_pool1d = rows.adaptive_avg_pool1d


def _stride(stride: Any) -> Any:
    return () if stride is None else stride


@functools.lru_cache(maxsize=256, typed=True)  # 2.0 is no size
def _known_sizes(n: int, *given: Any) -> list[tuple[int, ...]]:
    return [expanded(value, n) for value in given]


def _sizes(n: int, kernel_size: Any, stride: Any, *rest: Any) -> list[tuple[int, ...]]:
    """Each once per dimension."""
    given = kernel_size, _stride(stride), *rest
    try:
        return _known_sizes(n, *given)
    except TypeError:  # lists are not kept
        return [expanded(value, n) for value in given]


def avg_pool2d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor_override: int | None = None) -> Any:  # fmt: skip
    """The mean of each window of a plane."""
    kernel = (kernel_size, kernel_size) if type(kernel_size) is int else expanded(kernel_size, 2)
    step = () if stride is None else expanded(stride, 2)
    around = (padding, padding) if type(padding) is int else expanded(padding, 2)
    return rows.avg_pool2d(input, kernel, step, around, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor_override: int | None = None) -> Any:  # fmt: skip
    """The mean of each window of a volume."""
    sizes = _sizes(3, kernel_size, stride, padding)
    return rows.avg_pool3d(input, *sizes, ceil_mode, count_include_pad, divisor_override)


# --- maxima -----------------------------------------------------------------------------------------------------------


def _max_pool(n: int, with_indices: Callable[..., Any], values: Callable[..., Any]) -> tuple[Any, Any]:
    """max_pool1d, 2d or 3d, and its form that always gives indices."""

    def both(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
             ceil_mode: bool = False, return_indices: bool = False) -> Any:  # fmt: skip
        """The maximum of each window and its place."""
        return with_indices(input, *_sizes(n, kernel_size, stride, padding, dilation), ceil_mode)

    def either(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False, return_indices: bool = False) -> Any:  # fmt: skip
        """The maximum of each window; with its place where `return_indices` is set."""
        row = with_indices if return_indices else values
        return row(input, *_sizes(n, kernel_size, stride, padding, dilation), ceil_mode)

    both.__name__ = both.__qualname__ = f"max_pool{n}d_with_indices"
    either.__name__ = either.__qualname__ = f"max_pool{n}d"
    return both, either


max_pool1d_with_indices, max_pool1d = _max_pool(1, rows.max_pool1d_with_indices, rows.max_pool1d)
max_pool2d_with_indices, max_pool2d = _max_pool(2, rows.max_pool2d_with_indices, rows.max_pool2d)
max_pool3d_with_indices, max_pool3d = _max_pool(3, rows.max_pool3d_with_indices, rows.max_pool3d)


def _full_size(input: Any, output_size: Any, n: int) -> tuple[int, ...]:
    """An output size with the input's own sizes in place of None."""
    if not isinstance(output_size, Sequence):
        return expanded(input.shape[-n:] if output_size is None else output_size, n)
    given = tuple(output_size) * (n if len(output_size) == 1 else 1)
    if len(input.shape) <= len(given):
        raise ValueError(f"Input dimension should be at least {len(given) + 1}")
    return tuple(
        have if want is None else operator.index(want) for want, have in zip(given, input.shape[-len(given) :])
    )


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """The mean of each of so many windows that cover a plane."""
    return rows.adaptive_avg_pool2d(input, _full_size(input, output_size, 2))


def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """The mean of each of so many windows that cover a volume."""
    return rows.adaptive_avg_pool3d(input, _full_size(input, output_size, 3))


def _adaptive_max_pool(n: int, row: Callable[..., Any]) -> tuple[Any, Any]:
    def both(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        """The maximum of each of so many windows that cover the input, and its place."""
        return row(input, _full_size(input, output_size, n))

    def either(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        """The maximum of each of so many windows that cover the input; with its place where asked for."""
        found = row(input, _full_size(input, output_size, n))
        return found if return_indices else found[0]

    both.__name__ = both.__qualname__ = f"adaptive_max_pool{n}d_with_indices"
    either.__name__ = either.__qualname__ = f"adaptive_max_pool{n}d"
    return both, either


adaptive_max_pool1d_with_indices, adaptive_max_pool1d = _adaptive_max_pool(1, rows.adaptive_max_pool1d)
adaptive_max_pool2d_with_indices, adaptive_max_pool2d = _adaptive_max_pool(2, rows.adaptive_max_pool2d)
adaptive_max_pool3d_with_indices, adaptive_max_pool3d = _adaptive_max_pool(3, rows.adaptive_max_pool3d)


def _fractional_max_pool(n: int, row: Callable[..., Any]) -> tuple[Any, Any]:
    name = f"fractional_max_pool{n}d"

    def size(input: Any, output_size: Any, output_ratio: Any) -> tuple[int, ...]:
        if output_size is not None:
            return expanded(output_size, n)
        if output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        ratios = output_ratio if isinstance(output_ratio, Sequence) else (output_ratio,) * n
        if len(ratios) > n:
            raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
        return tuple(int(have * ratio) for have, ratio in zip(input.shape[-n:], ratios))

    def both(input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
             return_indices: bool = False, _random_samples: Any = None) -> Any:  # fmt: skip
        """The maximum of windows of random steps, and its place."""
        sizes = size(input, output_size, output_ratio)
        if _random_samples is None:
            samples = 1 if input.dim() == n + 1 else input.size(0)
            _random_samples = FRONTS["rand"](samples, input.size(-n - 1), n, dtype=input.dtype)
        return row(input, expanded(kernel_size, n), sizes, _random_samples)

    def either(input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
               return_indices: bool = False, _random_samples: Any = None) -> Any:  # fmt: skip
        """The maximum of windows of random steps; with its place where asked for."""
        found = both(input, kernel_size, output_size, output_ratio, return_indices, _random_samples)
        return found if return_indices else found[0]

    both.__name__ = both.__qualname__ = f"{name}_with_indices"
    either.__name__ = either.__qualname__ = name
    return both, either


fractional_max_pool2d_with_indices, fractional_max_pool2d = _fractional_max_pool(2, rows.fractional_max_pool2d)
fractional_max_pool3d_with_indices, fractional_max_pool3d = _fractional_max_pool(3, rows.fractional_max_pool3d)


# --- unpooling --------------------------------------------------------------------------------------------------------


def _unpooled_size(input: Any, kernel: Any, stride: Any, padding: Any, output_size: Any) -> list[int]:
    """The size that was pooled: as asked for where that is possible, else the smallest."""
    n = len(kernel)
    default = [(have - 1) * s + k - 2 * p for have, k, s, p in zip(input.size()[-n:], kernel, stride, padding)]
    wanted = default
    if output_size is not None:
        wanted = list(output_size)[2:] if len(output_size) == n + 2 else list(output_size)
        if len(wanted) != n:
            raise ValueError(
                f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a length of "
                f"'{len(output_size)}'"
            )
        for d, (size, step) in enumerate(zip(default, stride)):
            if not size - step < wanted[d] < size + step:
                raise ValueError(
                    f'invalid output_size "{output_size}" (dim {d} must be between {size - step} and {size + step})'
                )
    for d, size in enumerate(wanted):
        if size < 0:
            raise ValueError(
                "max_unpooling: output_size must contain non-negative spatial dimensions, but got "
                f"output_size[{d}]={size}"
            )
    return wanted


def _geometry(n: int, kernel_size: Any, stride: Any, padding: Any) -> tuple[Any, Any, Any]:
    kernel = expanded(kernel_size, n)
    return kernel, kernel if stride is None else expanded(stride, n), expanded(padding, n)


def max_unpool1d(input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
                 output_size: Any = None) -> Any:  # fmt: skip
    """Put maxima back where they came from, zeros elsewhere."""
    size = _unpooled_size(input, *_geometry(1, kernel_size, stride, padding), output_size)
    plane = rows.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), (*size, 1))
    return plane.squeeze(-1)


def max_unpool2d(input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
                 output_size: Any = None) -> Any:  # fmt: skip
    """Put maxima back where they came from, zeros elsewhere."""
    size = _unpooled_size(input, *_geometry(2, kernel_size, stride, padding), output_size)
    return rows.max_unpool2d(input, indices, size)


def max_unpool3d(input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
                 output_size: Any = None) -> Any:  # fmt: skip
    """Put maxima back where they came from, zeros elsewhere."""
    kernel, step, pad = _geometry(3, kernel_size, stride, padding)
    return rows.max_unpool3d(input, indices, _unpooled_size(input, kernel, step, pad, output_size), step, pad)


# --- power averages ---------------------------------------------------------------------------------------------------


def _lp_pool(n: int, average: Callable[..., Any], input: Any, norm_type: float, kernel_size: Any, stride: Any,
             ceil_mode: bool) -> Any:  # fmt: skip
    kernel = expanded(kernel_size, n)
    count = functools.reduce(lambda a, b: a * b, kernel)
    mean = average(input.pow(norm_type), kernel, expanded(_stride(stride), n), (0,) * n, ceil_mode)
    return (mean.sign() * mean.abs().relu()).mul(count).pow(1.0 / norm_type)


def lp_pool1d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """The p-norm of each window of a line."""
    return _lp_pool(1, rows.avg_pool1d, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """The p-norm of each window of a plane."""
    return _lp_pool(2, rows.avg_pool2d, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """The p-norm of each window of a volume."""
    return _lp_pool(3, rows.avg_pool3d, input, norm_type, kernel_size, stride, ceil_mode)
