"""torch.masked: reductions and normalizations that leave out the elements a mask is False at, made of the plain ones.

What is left out counts as the operation's identity. MaskedTensor is not provided.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

from .core.dtype import float32, iinfo
from .core.dtype import int64 as _int64
from .core.errors import wrap_dim
from .core.tensor import Tensor
from .ops.creation.fill import full, ones
from .ops.indexing.mask import where
from .ops.network.softmax import log_softmax as _log_softmax
from .ops.network.softmax import softmax as _softmax
from .ops.pointwise.extremes import maximum as _maximum
from .ops.reduction.reduce import vector_norm

# --- masks ------------------------------------------------------------------------------------------------------------


def _fitted(input: Any, mask: Any) -> Any:
    """The mask as booleans in the shape of the input."""
    if mask.dim() > input.dim():
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    if tuple(mask.shape) != tuple(input.shape):
        mask = mask.expand(input.shape)
    return mask if mask.dtype.name == "bool" else mask.bool()


def _filled(input: Any, mask: Any, identity: Any) -> Any:
    """The input with `identity` where the mask is False."""
    if mask is None:
        return input
    return where(_fitted(input, mask), input, full((), identity, dtype=input.dtype))


def _dims(dim: Any, ndim: int) -> tuple[int, ...]:
    """The dimensions to reduce, counted from the front; None is all of them."""
    if dim is None:
        return tuple(range(ndim))
    found: list[int] = []
    for d in (dim,) if isinstance(dim, int) else dim:
        if wrap_dim(d, ndim) in found:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        found.append(wrap_dim(d, ndim))
    return tuple(found)


def _lowest(dtype: Any) -> Any:
    """What no element of a dtype is below."""
    if dtype.is_floating_point or dtype.is_complex:
        return -math.inf
    return False if dtype.name == "bool" else iinfo(dtype).min


def _highest(dtype: Any) -> Any:
    """What no element of a dtype is above."""
    if dtype.is_floating_point or dtype.is_complex:
        return math.inf
    return True if dtype.name == "bool" else iinfo(dtype).max


def _summed_dtype(input: Any, dtype: Any) -> Any:
    if dtype is not None:
        return dtype
    return input.dtype if input.dtype.is_floating_point or input.dtype.is_complex else _int64


# --- reductions -------------------------------------------------------------------------------------------------------


def sum(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Sum of the elements the mask keeps."""
    dtype = _summed_dtype(input, dtype)
    return _filled(input, mask, 0).sum(_dims(dim, input.dim()), keepdim=builtins.bool(keepdim), dtype=dtype)


def prod(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Product of the elements the mask keeps."""
    result = _filled(input, mask, 1)
    for d in sorted(_dims(dim, input.dim()), reverse=True):
        result = result.prod(d, keepdim=builtins.bool(keepdim))
    return result.to(_summed_dtype(input, dtype))


def amax(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Largest of the elements the mask keeps."""
    dtype = input.dtype if dtype is None else dtype
    kept = _filled(input, mask, _lowest(input.dtype))
    return kept.amax(_dims(dim, input.dim()), builtins.bool(keepdim)).to(dtype)


def amin(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Smallest of the elements the mask keeps."""
    dtype = input.dtype if dtype is None else dtype
    kept = _filled(input, mask, _highest(input.dtype))
    return kept.amin(_dims(dim, input.dim()), builtins.bool(keepdim)).to(dtype)


def argmax(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Where the largest of the elements the mask keeps is."""
    dtype = input.dtype if dtype is None else dtype
    return _filled(input, mask, _lowest(input.dtype)).argmax(dim, builtins.bool(keepdim)).to(dtype)


def argmin(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Where the smallest of the elements the mask keeps is."""
    dtype = input.dtype if dtype is None else dtype
    return _filled(input, mask, _highest(input.dtype)).argmin(dim, builtins.bool(keepdim)).to(dtype)


def _counted(input: Any, dim: Any, keepdim: bool, mask: Any) -> Any:
    kept = ones(input.shape, dtype=_int64, device=input.device) if mask is None else _fitted(input, mask)
    return kept.sum(_dims(dim, input.dim()), keepdim=keepdim)


def mean(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Mean of the elements the mask keeps; NaN where it keeps none."""
    source, found = ("Input", input.dtype) if dtype is None else ("Optional", dtype)
    if not (found.is_floating_point or found.is_complex):
        raise ValueError(
            f"mean(): Could not infer output dtype. {source} dtype must be either a floating point or complex dtype. "
            f"Got: {found}"
        )
    total = sum(input, dim, keepdim=keepdim, dtype=found, mask=mask)
    return total / _counted(input, dim, builtins.bool(keepdim), mask)


def median(input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Median of the elements the mask keeps; NaN where it keeps none."""
    dtype = input.dtype if dtype is None else dtype
    floating = input.is_floating_point()
    kept = _filled(input if floating else input.to(float32), mask, math.nan)
    result = kept.nanmedian(_dims(dim, input.dim())[0], keepdim)[0]
    if floating:
        return result
    if result.isnan().any():
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return result.to(dtype)


def logsumexp(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Logarithm of the sum of exponentials of the elements the mask keeps."""
    dtype = input.dtype if dtype is None else dtype
    kept = _filled(input, mask, _lowest(input.dtype))
    return kept.logsumexp(_dims(dim, input.dim()), keepdim).to(dtype)


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None
) -> Any:
    """Logarithm of the sum of two exponentials; what a mask leaves out adds nothing."""
    dtype = input.dtype if dtype is None else dtype
    left, right = _filled(input, input_mask, -math.inf), _filled(other, other_mask, -math.inf)
    return left.logaddexp(right).to(dtype)


def norm(
    input: Tensor, ord: Any = 2.0, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """Vector norm of the elements the mask keeps."""
    dtype = input.dtype if dtype is None else dtype
    order = 2.0 if ord is None else ord
    kept = _filled(input, mask, math.inf if order < 0 else 0)
    return vector_norm(kept, order, _dims(dim, input.dim()), builtins.bool(keepdim), dtype=dtype)


def _variance(input: Any, dim: Any, unbiased: Any, correction: Any, keepdim: bool, dtype: Any, mask: Any) -> Any:
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    if dtype is None:
        dtype = input.dtype if input.dtype.is_floating_point or input.dtype.is_complex else float32
    compute = dtype if dtype.is_floating_point or dtype.is_complex else float32
    count = _counted(input, dim, True, mask)
    gap = input - sum(input, dim, keepdim=True, dtype=dtype, mask=mask) / count
    total = sum(gap * gap.conj(), dim, keepdim=keepdim, dtype=compute, mask=mask)
    if not keepdim:
        count = count.reshape(total.shape)
    return (total / (count - correction).clamp(min=0)).to(dtype)


def var(
    input: Tensor, dim: Any = None, unbiased: Any = None, *, correction: Any = None, keepdim: bool = False,
    dtype: Any = None, mask: Any = None,
) -> Any:  # fmt: skip
    """Variance of the elements the mask keeps."""
    return _variance(input, dim, unbiased, correction, builtins.bool(keepdim), dtype, mask)


def std(
    input: Tensor, dim: Any = None, unbiased: Any = None, *, correction: Any = None, keepdim: bool = False,
    dtype: Any = None, mask: Any = None,
) -> Any:  # fmt: skip
    """Standard deviation of the elements the mask keeps."""
    return _variance(input, dim, unbiased, correction, builtins.bool(keepdim), dtype, mask).sqrt()


# --- running and normalizing ------------------------------------------------------------------------------------------


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Running sum of the elements the mask keeps."""
    dtype = input.dtype if dtype is None else dtype
    return _filled(input, mask, 0).cumsum(_dims(dim, input.dim())[0], dtype=dtype).to(dtype)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Running product of the elements the mask keeps."""
    dtype = input.dtype if dtype is None else dtype
    return _filled(input, mask, 1).cumprod(_dims(dim, input.dim())[0], dtype=dtype).to(dtype)


def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Softmax over the elements the mask keeps."""
    dtype = input.dtype if dtype is None else dtype
    return _softmax(_filled(input, mask, -math.inf), _dims(dim, input.dim())[0], dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Logarithm of the softmax over the elements the mask keeps."""
    dtype = input.dtype if dtype is None else dtype
    return _log_softmax(_filled(input, mask, -math.inf), _dims(dim, input.dim())[0], dtype=dtype)


def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Softmax of the negated elements the mask keeps."""
    dtype = input.dtype if dtype is None else dtype
    return _softmax(-_filled(input, mask, math.inf), _dims(dim, input.dim())[0], dtype=dtype)


def normalize(input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None) -> Any:
    """The elements the mask keeps, divided by their norm; zero elsewhere."""
    dtype = input.dtype if dtype is None else dtype
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(input, mask, 0) / _maximum.function(size, size.new_full((), eps))


__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip
