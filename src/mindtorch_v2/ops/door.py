"""Fills the door through which the autograd engine sees operators."""

from __future__ import annotations

from typing import Any

from ..autograd.engine import door
from ..autograd.grad_mode import is_grad_enabled
from ..autograd.node import AccumulateGrad, Node
from ..core import tap
from ..core.device import contiguous_format
from ..core.dtype import FROM_NUMPY
from ..core.errors import shape_text
from ..core.layouts import is_dense
from ..core.tensor import Tensor, make
from ..dispatch import inputs
from ..dispatch.inside import inside
from ..kernels.reduction.reduce import sum as sum_array
from ..kernels.result_layout import is_row_major, strides_of
from .creation import fill, new
from .creation.convert import to_dtype
from .pointwise import arithmetic
from .reduction.reduce import F32, _sum_dim
from .shape import copies, inner, join, slice, view

_sum_over = inside(_sum_dim)


def _sum_to(gradient: Tensor, shape: tuple[int, ...], node: Node, nr: int) -> Tensor:
    """A gradient in the shape of the input it is for; broadcasting is undone, anything else is an error."""
    have = gradient._a.shape
    lead = len(have) - len(shape)
    if lead == 1 and have[1:] == shape and shape:
        return _rows_added_up(gradient)
    if lead < 0 or any(n not in (1, have[lead + i]) for i, n in enumerate(shape)):
        raise RuntimeError(
            f"Function {node.name()} returned an invalid gradient at index {nr} - got {shape_text(have)} but expected "
            f"shape compatible with {shape_text(shape)}"
        )
    return view.sum_to_size(gradient, shape)


def _rows_added_up(gradient: Tensor) -> Tensor:
    """The gradient of a row that went to all of them, as a bias does."""
    a = gradient._a
    if type(gradient) is Tensor and a.dtype is F32 and not tap.NAMESPACE["HOOK"] and not is_grad_enabled():
        return make(sum_array(a, 0))  # where only values count
    return inner.view(_sum_over(gradient, (0,), True, None), a.shape[1:])


def _cast(gradient: Tensor, np_dtype: Any) -> Tensor:
    wanted = FROM_NUMPY[np_dtype]
    if gradient.dtype.is_complex and not wanted.is_complex:
        gradient = gradient.real
    return to_dtype(gradient, wanted)


def _copy_like(gradient: Tensor, node: AccumulateGrad) -> Tensor:
    """The gradient in memory of its own, which lies as the leaf does; in row-major order for one with gaps."""
    if _is_turned(node):
        return _clone_like(gradient, node)
    made = fill.empty_like(gradient, memory_format=contiguous_format)
    made._a[...] = gradient._a
    return made


def _is_turned(node: AccumulateGrad) -> bool:
    """Whether a leaf without gaps is in another order than the row-major one."""
    leaf = node.array
    return not is_row_major(leaf) and is_dense(leaf.shape, strides_of(leaf))


def _clone_like(gradient: Tensor, node: AccumulateGrad) -> Tensor:
    """The same by ops that a graph can know of."""
    if not _is_turned(node):
        return copies.clone(gradient, memory_format=contiguous_format)
    leaf = node.array
    return fill._copy_.function(new.new_empty_strided(gradient, leaf.shape, strides_of(leaf)), gradient)


def _copy_strided(gradient: Tensor, shape: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
    """The gradient in memory of its own, laid out by strides."""
    blank = fill._empty_strided.function(shape, strides, dtype=gradient.dtype, device=gradient.device)
    return fill._copy_.function(blank, gradient)


door.add = arithmetic.add.function
door.add_ = arithmetic.add_.function
door.sum_to = _sum_to
door.cast = _cast
door.detach = copies._detach.function
door.clone = copies.clone
door.copy_like = _copy_like
door.clone_like = _clone_like
door.copy_strided = _copy_strided
door.copy_ = fill._copy_.function
door.zero_ = fill.zero_
door.ones_like = fill.ones_like
door.zeros_like = fill.zeros_like
door.zeros = lambda shape, np_dtype: fill.zeros(shape, dtype=FROM_NUMPY[np_dtype])
door.stack = join.stack
door.as_strided = slice.as_strided
door.intern_tensors = inputs.intern_tensors
door.intern_arguments = inputs.intern_arguments

if tap.HELPER is not None:
    tap.HELPER.connect_detach(copies._detach.event)
