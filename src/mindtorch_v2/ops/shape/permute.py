"""Rows of views that change the order of dimensions: transposes, permutations, and moved or swapped dimensions."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.errors import shape_text, wrap_dim
from ...core.tensor import Tensor
from ...dispatch.front import front
from ...dispatch.inside import inside
from ...dispatch.op import composite, view
from ...kernels.compiled import C


def _transposed(a: Any, dim0: int, dim1: int) -> Any:
    try:
        return a.swapaxes(dim0, dim1)
    except np.exceptions.AxisError:
        wrap_dim(dim0, a.ndim)
        wrap_dim(dim1, a.ndim)
        return a


_transpose = view(
    "transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
    asked=None if C is None else C.swap,
    self=lambda g, dim0, dim1: inner_transpose(g, dim0, dim1),
)(_transposed)
transpose = _transpose.function


@view(
    "t(Tensor(a) self) -> Tensor(a)",
    asked=None if C is None else C.turn,
    calls=lambda self: transpose(self, 0, 0 if matrix_like("t", self._a).ndim < 2 else 1),
    inner=(_transpose, ("input", "0", "(0 if input._a.ndim < 2 else 1)")),
    self=lambda g: inner_t(g),
)
def _t(a: Any) -> Any:
    return matrix_like("t", a).T


t, inner_t, inner_transpose = _t.function, inside(_t), inside(_transpose)


def matrix_like(name: str, a: Any) -> Any:
    """`a`, unless it has more than two dimensions."""
    if a.ndim > 2:
        raise RuntimeError(f"{name}() expects a tensor with <= 2 dimensions, but self is {a.ndim}D")
    return a


@view("permute(Tensor(a) self, int[] dims) -> Tensor(a)", self=lambda g, dims: permute(g, inverse(dims)))
def _permute(a: Any, dims: tuple[int, ...]) -> Any:
    try:
        return a.transpose(dims)
    except (TypeError, ValueError):
        pass
    if len(dims) != a.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {a.ndim} is not equal to len(dims) = {len(dims)}"
        )
    wrapped = [wrap_dim(operator.index(d), a.ndim) for d in dims]
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return a.transpose(wrapped)


permute = _permute.function


def inverse(dims: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes another."""
    back = [0] * len(dims)
    for position, d in enumerate(dims):
        back[d % len(dims)] = position
    return tuple(back)


@composite("numpy_T(Tensor(a) self) -> Tensor(a)")
def _numpy_T(self: Tensor) -> Tensor:
    n = self._a.ndim
    if n != 2 and n:
        warnings.warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will "
            "throw an error in a future release. Consider `x.mT` to transpose batches of matrices or "
            "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.",
            stacklevel=3,
        )
    return permute(self, dims=tuple(range(n - 1, -1, -1)))


def _matrix_transposed(name: str, self: Tensor) -> Tensor:
    if not self._a.ndim:
        warnings.warn(f"Tensor.{name} is deprecated on 0-D tensors, where it gives the tensor itself.", stacklevel=4)
        return self
    if self._a.ndim < 2:
        raise RuntimeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got {self._a.ndim}-D tensor."
        )
    return transpose(self, -2, -1)


def _conjugated(self: Tensor) -> Tensor:
    return self.conj() if self._a.dtype.kind == "c" else self


@composite("mT(Tensor(a) self) -> Tensor(a)")
def _mT(self: Tensor) -> Tensor:
    return _matrix_transposed("mT", self)


@composite("mH(Tensor(a) self) -> Tensor(a)")
def _mH(self: Tensor) -> Tensor:
    return _conjugated(_matrix_transposed("mH", self))


@composite("matrix_H(Tensor(a) self) -> Tensor(a)")
def _matrix_H(self: Tensor) -> Tensor:
    n = self._a.ndim
    if n == 0:
        return _conjugated(self)
    if n != 2:
        hint = " For batches of matrices, consider using tensor.mH" if n > 2 else ""
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {n}-D tensor.{hint}")
    return _conjugated(transpose(self, 0, 1))


@composite("adjoint(Tensor(a) self) -> Tensor(a)")
def _adjoint(self: Tensor) -> Tensor:
    if self._a.ndim == 0:
        warnings.warn("adjoint() is deprecated on 0-D tensors. Consider using x.conj().", stacklevel=3)
        return _conjugated(self)
    return _conjugated(_matrix_transposed("adjoint()", self))


for _name, _row in (("T", _numpy_T), ("mT", _mT), ("H", _matrix_H), ("mH", _mH)):
    setattr(Tensor, _name, property(_row.function))


def _moved(self: Tensor, source: Any, destination: Any) -> Tensor:
    """Permute so that each source dimension stands at its destination, the others in their order."""
    if type(source) is int and type(destination) is int:
        return permute(self, dims=_order_with_one_moved(self._a.ndim, source, destination))
    return permute(self, dims=_order_with_some_moved(self._a.ndim, source, destination))


@functools.lru_cache(maxsize=256)
def _order_with_one_moved(n: int, source: int, destination: int) -> tuple[int, ...]:
    return _order_with_some_moved(n, source, destination)


def _order_with_some_moved(n: int, source: Any, destination: Any) -> tuple[int, ...]:
    from_, to = [list(d) if isinstance(d, (list, tuple)) else [d] for d in (source, destination)]
    if len(from_) != len(to):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({shape_text(from_)} dims) should contain the same "
            f"number of dims as destination ({shape_text(to)} dims)"
        )
    wrapped = [[wrap_dim(d, n) for d in dims] for dims in (from_, to)]
    for name, dims, distinct in (("source", from_, wrapped[0]), ("destination", to, wrapped[1])):
        if len(set(distinct)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({shape_text(dims)})")
    order = dict(zip(wrapped[1], wrapped[0], strict=True))
    rest = iter(d for d in range(n) if d not in order.values())
    return tuple(order[d] if d in order else next(rest) for d in range(n))


_movedim = composite("movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)")(_moved)
_movedims = composite("movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)")(_moved)


@front("movedim")
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Move dimensions to other places; the rest keeps its order."""
    row = _movedim if isinstance(source, int) else _movedims
    return row.function(input, source, destination)


_moveaxis = composite("moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)")(movedim)
_moveaxes = composite("moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)")(movedim)


@front("moveaxis")
def moveaxis(input: Tensor, source: Any, destination: Any) -> Tensor:
    """The same as `movedim`."""
    row = _moveaxis if isinstance(source, int) else _moveaxes
    return row.function(input, source, destination)


@composite("swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)")
def _swapaxes(self: Tensor, axis0: int, axis1: int) -> Tensor:
    return transpose(self, axis0, axis1)


@composite("swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)")
def _swapdims(self: Tensor, dim0: int, dim1: int) -> Tensor:
    return transpose(self, dim0, dim1)
