"""Fills the door through which the autograd engine sees operators."""

from __future__ import annotations

from typing import Any

from .. import _inputs
from .._dtype import FROM_NUMPY
from .._errors import shape_text
from .._tensor import Tensor
from ..autograd.engine import door
from ..autograd.node import AccumulateGrad, Node
from . import arithmetic, creation, join, part, view
from .convert import to_dtype


def _sum_to(gradient: Tensor, shape: tuple[int, ...], node: Node, nr: int) -> Tensor:
    """A gradient in the shape of the input it is for; broadcasting is undone, anything else is an error."""
    have = gradient._a.shape
    lead = len(have) - len(shape)
    if lead < 0 or (have[lead:] != shape and any(n not in (1, have[lead + i]) for i, n in enumerate(shape))):
        raise RuntimeError(
            f"Function {node.name()} returned an invalid gradient at index {nr} - got {shape_text(have)} but expected "
            f"shape compatible with {shape_text(shape)}"
        )
    return view.sum_to_size(gradient, shape)


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
door.detach = view._detach.function
door.clone = view.clone
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
