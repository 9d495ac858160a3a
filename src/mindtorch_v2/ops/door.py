"""Fills the door through which the autograd engine sees operators."""

from __future__ import annotations

from typing import Any

from .. import _inputs, _tap
from .._dtype import FROM_NUMPY
from .._errors import shape_text
from .._inside import inside
from .._tensor import Tensor, make
from ..autograd.engine import door
from ..autograd.grad_mode import is_grad_enabled
from ..autograd.node import AccumulateGrad, Node
from ..kernels.reduce import sum as sum_array
from . import arithmetic, copies, creation, inner, join, part, view
from .convert import to_dtype
from .reduce import F32, _sum_dim

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
    if type(gradient) is Tensor and a.dtype is F32 and not _tap.NAMESPACE["HOOK"] and not is_grad_enabled():
        return make(sum_array(a, 0))  # where only values count
    return inner.view(_sum_over(gradient, (0,), True, None), a.shape[1:])


def _cast(gradient: Tensor, np_dtype: Any) -> Tensor:
    wanted = FROM_NUMPY[np_dtype]
    if gradient.dtype.is_complex and not wanted.is_complex:
        gradient = gradient.real
    return to_dtype(gradient, wanted)


def _copy_like(gradient: Tensor, node: AccumulateGrad) -> Tensor:
    """The gradient in memory of its own, dense."""
    made = creation.empty_like(gradient)
    made._a[...] = gradient._a
    return made


def _copy_strided(gradient: Tensor, shape: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
    """The gradient in memory of its own, laid out by strides."""
    blank = creation._empty_strided.function(shape, strides, dtype=gradient.dtype, device=gradient.device)
    return creation._copy_.function(blank, gradient)


door.add = arithmetic.add.function
door.add_ = arithmetic.add_.function
door.sum_to = _sum_to
door.cast = _cast
door.detach = copies._detach.function
door.clone = copies.clone
door.copy_like = _copy_like
door.copy_strided = _copy_strided
door.copy_ = creation._copy_.function
door.zero_ = creation.zero_
door.ones_like = creation.ones_like
door.zeros_like = creation.zeros_like
door.zeros = lambda shape, np_dtype: creation.zeros(shape, dtype=FROM_NUMPY[np_dtype])
door.stack = join.stack
door.as_strided = part.as_strided
door.intern_tensors = _inputs.intern_tensors
door.intern_arguments = _inputs.intern_arguments

if _tap.HELPER is not None:
    _tap.HELPER.connect_detach(copies._detach.event)
