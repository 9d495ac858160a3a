"""Shapes and dtypes of results on the meta device: what each row gives, found from its arguments alone.

A rule takes the row's kernel and arguments, and gives meta arrays. Elementwise rows, views and rows made of other rows
need none; what the dtype is, and which dtypes are refused, the kernel says for arrays of one element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._dtype import FROM_NUMPY, combine
from .._errors import broadcast_error, shape_text, wrap_dim
from .._meta import SHAPES, Rule, meta
from ..kernels import reduce
from ..kernels.totals import reduced_shape

Shape = tuple[int, ...]
INT64 = np.dtype(np.int64)


def register(rule: Rule, names: str) -> None:
    """Make a rule that of the rows of these names."""
    SHAPES.update(dict.fromkeys(names.split(), rule))


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


def own(kernel: Any, *args: Any) -> Any:
    """The kernel takes meta arrays itself."""
    return kernel(*args)


def like_nth(n: int) -> Rule:
    """The result is like the n-th argument."""
    return lambda kernel, *args: like(args[n])


def sized(n: int) -> Rule:
    """The result has the sizes the n-th argument says, and the dtype of the first."""
    return lambda kernel, *args: meta(tuple(args[n]), args[0].dtype)


def plain(rule: Callable[..., Any]) -> Rule:
    """A rule that does not ask the kernel."""
    return lambda kernel, *args: rule(*args)


def refused(kernel: Any, *args: Any) -> Any:
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


def asked(shapes: Callable[..., Any]) -> Rule:
    """A rule from one that gives the shape (or a list of shapes); dtypes are what the kernel says of one element."""

    def rule(kernel: Any, *args: Any) -> Any:
        shape = shapes(*args)
        results = kernel(*(one_element(a) for a in args))
        if isinstance(shape, list):
            return [meta(s, np.asarray(r).dtype) for s, r in zip(shape, results, strict=True)]
        return meta(shape, np.asarray(results).dtype)

    return rule


# --- elementwise, and rearranged --------------------------------------------------------------------------------------

register(own, "clone _to_copy empty_like ones_like zeros_like full_like rand_like randn_like randint_like")
register(own, "select_backward slice_backward narrow_copy diagonal_backward unfold_backward cat stack")
register(own, "scatter scatter_add scatter_reduce index_select index_add index_copy index_reduce take index.Tensor")
register(own, "gather tril triu repeat roll flip rot90 native_dropout masked_scatter_backward where")
register(own, "unsafe_split unsafe_split_with_sizes _conj _conj_physical _abs_into diag_embed")
register(refused, "masked_select nonzero _unique2 unique_dim unique_consecutive bincount _pack_padded_sequence")
register(like_nth(0), "bernoulli poisson _standard_gamma _sample_dirichlet native_channel_shuffle")
register(
    plain(lambda *arrays: meta(broadcast(*(a.shape for a in arrays[:-1])), np.bool_)),
    "_logical_and_into _logical_or_into _logical_xor_into _logical_not_into",
)
register(asked(lambda a, *rest: a.shape), "renorm logcumsumexp cumsum cumprod _softmax _log_softmax _safe_softmax")
register(asked(lambda a, *rest: [a.shape, a.shape]), "sort cummax cummin frexp")
register(asked(lambda *arrays: broadcast(*(a.shape for a in arrays if isinstance(a, np.ndarray)))), "binomial normal")
register(asked(lambda a, b, *rest: broadcast(a.shape, b.shape)), "_standard_gamma_grad masked_fill")
register(asked(lambda x, alpha, total: broadcast(x.shape, alpha.shape)), "_dirichlet_grad")
register(like_nth(1), "_softmax_backward_data _log_softmax_backward_data")
register(plain(lambda a, size, fill_value: meta((size, a.ndim), INT64)), "nonzero_static")
register(plain(lambda elements, *rest: meta(elements.shape, np.bool_)), "isin")


def _block_diagonal(arrays: Sequence[Any]) -> Any:
    rows = sum(a.shape[0] if a.ndim == 2 else 1 for a in arrays)
    columns = sum(a.shape[-1] if a.ndim else 1 for a in arrays)
    return meta((rows, columns), combine((1 if a.ndim == 0 else 2, FROM_NUMPY[a.dtype]) for a in arrays).np)


register(plain(_block_diagonal), "block_diag")


def _repeated(repeats: Any, output_size: int | None) -> Any:
    if output_size is None:
        return refused(None)
    return meta((output_size,), repeats.dtype)


register(plain(_repeated), "repeat_interleave")


# --- reductions -------------------------------------------------------------------------------------------------------


def reduced(a: Any, dim: Any, keepdim: bool) -> Shape:
    """The shape after reducing some dimensions, all for None and ()."""
    axes = reduce.reduction_axes(dim, a.ndim)
    return reduced_shape(a.shape, tuple(range(a.ndim)) if axes is None else axes, keepdim)


def _one(a: Any, *rest: Any) -> Shape:
    return ()


def _along(a: Any, dim: Any = None, keepdim: bool = False, *rest: Any) -> Shape:
    return reduced(a, dim, keepdim)


def _pair_along(a: Any, dim: Any, keepdim: bool = False) -> list[Shape]:
    return [reduced(a, dim, keepdim)] * 2


register(asked(_one), "sum mean prod max min all any median nanmedian trace dot vdot")
register(asked(_along), "sum.dim_IntList nansum mean.dim prod.dim_int amax amin argmax argmin all.dim all.dims any.dim")
register(asked(_along), "any.dims count_nonzero count_nonzero.dim_IntList logsumexp hash_tensor")
register(asked(_pair_along), "max.dim min.dim median.dim nanmedian.dim mode aminmax")
register(asked(lambda a, ord, dim, keepdim, dtype: reduced(a, dim, keepdim)), "linalg_vector_norm")


def _spread(kernel: Any, a: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    # One element has a variance only where nothing is taken off the count.
    return meta(reduced(a, dim, keepdim), kernel(one_element(a), dim, 0, keepdim).dtype)


def _spread_and_mean(kernel: Any, a: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    shape = reduced(a, dim, keepdim)
    return tuple(meta(shape, part.dtype) for part in kernel(one_element(a), dim, 0, keepdim))


def _kth(kernel: Any, a: Any, k: int, dim: int, keepdim: bool) -> Any:
    kernel(one_element(a), 1, dim, keepdim)
    shape = reduced(a, dim, keepdim)
    return meta(shape, a.dtype), meta(shape, INT64)


def _top(kernel: Any, a: Any, k: int, dim: int, *rest: Any) -> Any:
    axis = wrap_dim(dim, a.ndim)
    if k < 0 or k > (a.shape[axis] if a.ndim else 1):
        raise RuntimeError("selected index k out of range")
    shape = (*a.shape[:axis], k, *a.shape[axis + 1 :]) if a.ndim else ()
    return meta(shape, a.dtype), meta(shape, INT64)


register(_spread, "var std")
register(_spread_and_mean, "var_mean std_mean")
register(_kth, "kthvalue")
register(_top, "topk")


# --- products ---------------------------------------------------------------------------------------------------------


def _times(a: Shape, b: Shape) -> str:
    return f"{'x'.join(map(str, a))} and {'x'.join(map(str, b))}"


def _matrix(a: Any, b: Any, word: str = "mat") -> Shape:
    if a.ndim != 2 or b.ndim != 2:
        raise RuntimeError(f"{word}1 and {word}2 must be matrices, got {a.ndim}-D and {b.ndim}-D tensors")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({_times(a.shape, b.shape)})")
    return a.shape[0], b.shape[1]


def _batch(a: Any, b: Any) -> Shape:
    if a.ndim != 3 or b.ndim != 3:
        raise RuntimeError("batch1 and batch2 must be 3D tensors")
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, {a.shape[2]}] but got: "
            f"[{b.shape[0]}, {b.shape[1]}]."
        )
    return a.shape[0], a.shape[1], b.shape[2]


def _vector(matrix: Any, vector: Any) -> Shape:
    if matrix.ndim != 2 or vector.ndim != 1 or matrix.shape[1] != vector.shape[0]:
        raise RuntimeError(f"size mismatch, got input ({shape_text(matrix.shape)}), vec ({shape_text(vector.shape)})")
    return (matrix.shape[0],)


def _onto(start: Any, shape: Shape) -> Shape:
    """A product to which `start` is added."""
    if broadcast(start.shape, shape) != shape:
        raise RuntimeError(
            f"The expanded size of the tensor {shape_text(shape)} must match the existing size {shape_text(start.shape)}"
        )
    return shape


register(asked(_matrix), "mm _int_mm")
register(asked(_batch), "bmm")
register(asked(_vector), "mv")
register(asked(lambda c, a, b, *rest: _onto(c, _matrix(a, b))), "addmm")
register(asked(lambda c, a, b, *rest: _onto(c, _vector(a, b))), "addmv")
register(asked(lambda c, a, b, *rest: _onto(c, (a.shape[0], b.shape[0]))), "addr")
register(asked(lambda c, a, b, *rest: _onto(c, _batch(a, b))), "baddbmm")
register(asked(lambda c, a, b, *rest: _onto(c, _batch(a, b)[1:])), "addbmm")
register(plain(lambda a, b, dim: meta(broadcast(a.shape, b.shape), np.result_type(a.dtype, b.dtype))), "linalg_cross")


def _trilinear(a: Any, b: Any, c: Any, expand1: Any, expand2: Any, expand3: Any, sumdim: Any, *rest: Any) -> Any:
    shapes = []
    for x, places in ((a, expand1), (b, expand2), (c, expand3)):
        sizes = iter(x.shape)
        shapes.append(tuple(1 if d in places else next(sizes) for d in range(x.ndim + len(places))))
    whole = broadcast(*shapes)
    return meta(tuple(n for d, n in enumerate(whole) if d not in sumdim), a.dtype)


register(plain(_trilinear), "_trilinear")


# --- distances, transforms, counting ----------------------------------------------------------------------------------


def _pairs(a: Any, *rest: Any) -> Any:
    n = a.shape[0]
    return meta((n * (n - 1) // 2,), a.dtype)


def _cdist(a: Any, b: Any, *rest: Any) -> Any:
    return meta((*broadcast(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-2]), np.result_type(a.dtype, b.dtype))


register(plain(_pairs), "_pdist_forward")
register(like_nth(1), "_pdist_backward _cdist_backward")
register(plain(_cdist), "_cdist_forward")


def _half_spectrum(a: Any, dim: Any, normalization: int, onesided: bool) -> Any:
    shape = list(a.shape)
    if onesided:
        shape[dim[-1]] = shape[dim[-1]] // 2 + 1
    return meta(shape, complex_of(a.dtype))


def _from_spectrum(a: Any, dim: Any, normalization: int, last_dim_size: int) -> Any:
    shape = list(a.shape)
    shape[dim[-1]] = last_dim_size
    return meta(shape, real(a.dtype))


register(like_nth(0), "_fft_c2c")
register(plain(_half_spectrum), "_fft_r2c")
register(plain(_from_spectrum), "_fft_c2r")


def _places(values: Any, out_int32: bool) -> Any:
    return meta(values.shape if isinstance(values, np.ndarray) else (), np.int32 if out_int32 else INT64)


register(plain(lambda sequence, values, out_int32, *rest: _places(values, out_int32)), "searchsorted")
register(plain(lambda values, edges, out_int32, *rest: _places(values, out_int32)), "bucketize")
register(plain(lambda a, bins, *rest: meta((bins,), a.dtype)), "histc")
register(plain(lambda a, edges, *rest: (meta((edges.size - 1,), a.dtype), like(edges))), "histogram.bins_tensor")
register(plain(lambda a, bins, *rest: (meta((bins,), a.dtype), meta((bins + 1,), a.dtype))), "histogram.bin_ct")
register(plain(lambda a, bins, *rest: [meta((n + 1,), a.dtype) for n in bins]), "_histogramdd_bin_edges")
register(plain(lambda a, bins, *rest: meta(tuple(bins), a.dtype)), "_histogramdd_from_bin_cts")
register(plain(lambda a, bins, *rest: meta(tuple(e.size - 1 for e in bins), a.dtype)), "_histogramdd_from_bin_tensors")
register(plain(lambda a, count, *rest: meta((*a.shape[:-1], count), INT64)), "multinomial")
