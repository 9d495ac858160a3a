"""Shapes and dtypes of results on the meta device: what each row gives, found from its arguments alone.

A rule takes the row's kernel and arguments, and gives meta arrays. Elementwise rows, views and rows made of other rows
need none; what the dtype is, and which dtypes are refused, the kernel says for arrays of one element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.dtype import FROM_NUMPY, combine
from ...core.errors import broadcast_error, shape_text, wrap_dim
from ...core.meta import Rule, meta
from ...kernels.reduction import reduce
from ...kernels.totals import reduced_shape

Shape = tuple[int, ...]
INT64 = np.dtype(np.int64)


def like(a: Any) -> Any:
    return meta(a.shape, a.dtype)


def real(dtype: Any) -> Any:
    """The dtype of the parts of a complex number; a real one itself."""
    return np.zeros((), dtype).real.dtype


def complex_of(dtype: Any) -> Any:
    """The complex dtype with parts of this one."""
    return np.result_type(dtype, np.complex64)


def broadcast(*shapes: Shape) -> Shape:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        other = next((s for s in shapes[1:] if s != shapes[0]), shapes[-1])
        raise broadcast_error(shapes[0], other) from None


# --- kinds of rules ---------------------------------------------------------------------------------------------------


def by_kernel(kernel: Any, *args: Any) -> Any:
    """The kernel takes meta arrays itself."""
    return kernel(*args)


def like_nth(n: int) -> Rule:
    """The result is like the n-th argument."""
    return lambda kernel, *args: like(args[n])


def sized_by(n: int) -> Rule:
    """The result has the sizes the n-th argument says, and the dtype of the first."""
    return lambda kernel, *args: meta(tuple(args[n]), args[0].dtype)


def result_rule(rule: Callable[..., Any]) -> Rule:
    """A rule that does not ask the kernel."""
    return lambda kernel, *args: rule(*args)


def needs_values(kernel: Any, *args: Any) -> Any:
    """The shape depends on the values, and there are none."""
    raise NotImplementedError(
        "the shape of this result depends on the values of the input, and tensors on the meta device have none; "
        "move the input to another device first"
    )


def one_element(value: Any) -> Any:
    """Arrays as arrays of one element and as many dimensions: enough to ask a kernel for the dtype."""
    if isinstance(value, np.ndarray):
        return (np.ones if value.dtype.kind in "fcV" else np.zeros)((1,) * value.ndim, value.dtype)
    if isinstance(value, list) and any(isinstance(v, np.ndarray) for v in value):
        return [one_element(v) for v in value]
    return value


def shape_rule(shapes: Callable[..., Any]) -> Rule:
    """A rule from one that gives the shape (or a list of shapes); dtypes are what the kernel says of one element."""

    def rule(kernel: Any, *args: Any) -> Any:
        shape = shapes(*args)
        results = kernel(*(one_element(a) for a in args))
        if isinstance(shape, list):
            return [meta(s, np.asarray(r).dtype) for s, r in zip(shape, results, strict=True)]
        return meta(shape, np.asarray(results).dtype)

    return rule


# --- elementwise, and rearranged --------------------------------------------------------------------------------------

same_shape = shape_rule(lambda a, *rest: a.shape)
two_of_same_shape = shape_rule(lambda a, *rest: [a.shape, a.shape])
two_broadcast = shape_rule(lambda a, b, *rest: broadcast(a.shape, b.shape))
all_broadcast = shape_rule(lambda *args: broadcast(*(a.shape for a in args if isinstance(a, np.ndarray))))


@result_rule
def block_diag(arrays: Sequence[Any]) -> Any:
    rows = sum(a.shape[0] if a.ndim == 2 else 1 for a in arrays)
    columns = sum(a.shape[-1] if a.ndim else 1 for a in arrays)
    return meta((rows, columns), combine((1 if a.ndim == 0 else 2, FROM_NUMPY[a.dtype]) for a in arrays).np)


@result_rule
def repeat_interleave(repeats: Any, output_size: int | None) -> Any:
    if output_size is None:
        return needs_values(None)
    return meta((output_size,), repeats.dtype)


# --- reductions -------------------------------------------------------------------------------------------------------


def reduced(a: Any, dim: Any, keepdim: bool) -> Shape:
    """The shape after reducing some dimensions, all for None and ()."""
    axes = reduce.reduction_axes(dim, a.ndim)
    return reduced_shape(a.shape, tuple(range(a.ndim)) if axes is None else axes, keepdim)


@shape_rule
def single(a: Any, *rest: Any) -> Shape:
    return ()


@shape_rule
def along(a: Any, dim: Any = None, keepdim: bool = False, *rest: Any) -> Shape:
    return reduced(a, dim, keepdim)


@shape_rule
def pair_along(a: Any, dim: Any, keepdim: bool = False) -> list[Shape]:
    return [reduced(a, dim, keepdim)] * 2


def variance(kernel: Any, a: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    # One element has a variance only where nothing is taken off the count.
    return meta(reduced(a, dim, keepdim), kernel(one_element(a), dim, 0, keepdim).dtype)


def variance_and_mean(kernel: Any, a: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    shape = reduced(a, dim, keepdim)
    return tuple(meta(shape, part.dtype) for part in kernel(one_element(a), dim, 0, keepdim))


def kthvalue(kernel: Any, a: Any, k: int, dim: int, keepdim: bool) -> Any:
    kernel(one_element(a), 1, dim, keepdim)
    shape = reduced(a, dim, keepdim)
    return meta(shape, a.dtype), meta(shape, INT64)


def topk(kernel: Any, a: Any, k: int, dim: int, *rest: Any) -> Any:
    axis = wrap_dim(dim, a.ndim)
    if k < 0 or k > (a.shape[axis] if a.ndim else 1):
        raise RuntimeError("selected index k out of range")
    shape = (*a.shape[:axis], k, *a.shape[axis + 1 :]) if a.ndim else ()
    return meta(shape, a.dtype), meta(shape, INT64)


# --- products ---------------------------------------------------------------------------------------------------------


def _times(a: Shape, b: Shape) -> str:
    return f"{'x'.join(map(str, a))} and {'x'.join(map(str, b))}"


def matrix_product(a: Any, b: Any, word: str = "mat") -> Shape:
    if a.ndim != 2 or b.ndim != 2:
        raise RuntimeError(f"{word}1 and {word}2 must be matrices, got {a.ndim}-D and {b.ndim}-D tensors")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({_times(a.shape, b.shape)})")
    return a.shape[0], b.shape[1]


def batch_product(a: Any, b: Any) -> Shape:
    if a.ndim != 3 or b.ndim != 3:
        raise RuntimeError("batch1 and batch2 must be 3D tensors")
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, {a.shape[2]}] but got: "
            f"[{b.shape[0]}, {b.shape[1]}]."
        )
    return a.shape[0], a.shape[1], b.shape[2]


def vector_product(matrix: Any, vector: Any) -> Shape:
    if matrix.ndim != 2 or vector.ndim != 1 or matrix.shape[1] != vector.shape[0]:
        raise RuntimeError(f"size mismatch, got input ({shape_text(matrix.shape)}), vec ({shape_text(vector.shape)})")
    return (matrix.shape[0],)


def added_product(start: Any, shape: Shape) -> Shape:
    """A product to which `start` is added."""
    if broadcast(start.shape, shape) != shape:
        raise RuntimeError(
            f"The expanded size of the tensor {shape_text(shape)} must match the existing size {shape_text(start.shape)}"
        )
    return shape


@result_rule
def trilinear(a: Any, b: Any, c: Any, expand1: Any, expand2: Any, expand3: Any, sumdim: Any, *rest: Any) -> Any:
    shapes = []
    for x, positions in ((a, expand1), (b, expand2), (c, expand3)):
        sizes = iter(x.shape)
        shapes.append(tuple(1 if d in positions else next(sizes) for d in range(x.ndim + len(positions))))
    whole = broadcast(*shapes)
    return meta(tuple(n for d, n in enumerate(whole) if d not in sumdim), a.dtype)


# --- distances, transforms, counting ----------------------------------------------------------------------------------


@result_rule
def pdist(a: Any, *rest: Any) -> Any:
    n = a.shape[0]
    return meta((n * (n - 1) // 2,), a.dtype)


@result_rule
def cdist(a: Any, b: Any, *rest: Any) -> Any:
    return meta((*broadcast(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-2]), np.result_type(a.dtype, b.dtype))


@result_rule
def fft_r2c(a: Any, dim: Any, normalization: int, onesided: bool) -> Any:
    shape = list(a.shape)
    if onesided:
        shape[dim[-1]] = shape[dim[-1]] // 2 + 1
    return meta(shape, complex_of(a.dtype))


@result_rule
def fft_c2r(a: Any, dim: Any, normalization: int, last_dim_size: int) -> Any:
    shape = list(a.shape)
    shape[dim[-1]] = last_dim_size
    return meta(shape, real(a.dtype))


def positions(values: Any, out_int32: bool) -> Any:
    return meta(values.shape if isinstance(values, np.ndarray) else (), np.int32 if out_int32 else INT64)


searchsorted = result_rule(lambda sequence, values, out_int32, *rest: positions(values, out_int32))
bucketize = result_rule(lambda values, edges, out_int32, *rest: positions(values, out_int32))
