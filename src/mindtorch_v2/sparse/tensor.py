"""The sparse tensor: values at coordinates, zeros elsewhere.

To the rest of the package it is a Tensor of its shape and dtype without memory; functions reach it by
`__torch_function__`, which asks the rules of `rules`. Gradients flow through its values.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

from ..core.device import CPU, sparse_coo, sparse_csr
from ..core.dtype import bool_, float32, float64, int64
from ..core.meta import meta
from ..core.tensor import Tensor, new
from ..ops.creation.fill import zeros
from ..ops.shape.join import cat, stack

# What is done for a function of that name with a sparse tensor among its arguments; `rules` fills the table.
RULES: dict[str, Callable[..., Any]] = {}


def _grad(self: Any) -> Any:
    gradient = self._held.grad
    return None if gradient is None else place(self._places, gradient, self.shape, layout=self.layout)


def _set_grad(self: Any, value: Any) -> None:
    self._held.grad = None if value is None else value._held


def _turned(self: Any, name: str) -> Any:
    """The last two dimensions exchanged."""
    return RULES["transpose"](self, -2, -1) if self.dim() > 1 else _only_matrices(name, "or batches of matrices", self)


def _only_matrices(name: str, which: str, self: Any) -> Any:
    batches = " For batches of matrices, consider using tensor.mH" if self.dim() > 2 else ""
    raise RuntimeError(f"tensor.{name} is only supported on matrices {which}. Got {self.dim()}-D tensor.{batches}")


class SparseTensor(Tensor):
    """Values at the places that the columns of `_places` name; values at one place add up."""

    _places: Any
    _held: Any
    _coalesced: bool
    _layout: Any

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", str(func))
        rule = RULES.get(name)
        if rule is None:
            raise NotImplementedError(
                f"torch.{name} of a sparse tensor is not provided by mindtorch_v2; use tensor.to_dense() first"
            )
        return rule(*args, **(kwargs or {}))

    # --- what it is ---------------------------------------------------------------------------------------------------

    layout = property(lambda self: self._layout)
    device = property(lambda self: CPU)
    is_sparse = property(lambda self: self._layout is sparse_coo)
    is_sparse_csr = property(lambda self: self._layout is sparse_csr)
    is_cpu = property(lambda self: True)
    is_meta = property(lambda self: False)
    requires_grad = property(
        lambda self: self._held.requires_grad, lambda self, value: setattr(self._held, "requires_grad", value)
    )
    grad_fn = property(lambda self: self._held.grad_fn)
    is_leaf = property(lambda self: self._held.is_leaf)
    grad = property(_grad, _set_grad)
    T = property(lambda self: RULES["permute"](self, tuple(reversed(range(self.dim())))))
    mT = property(lambda self: _turned(self, "mT"))
    mH = property(lambda self: _turned(self, "mH").conj())
    H = property(
        lambda self: RULES["t"](self).conj() if self.dim() == 2 else _only_matrices("H", "(2-D tensors)", self)
    )
    data = property(lambda self: self.detach())

    def sparse_dim(self) -> int:
        return int(self._places.shape[0])

    def dense_dim(self) -> int:
        return int(self._held.dim()) - 1

    def _nnz(self) -> int:
        return int(self._held.shape[0])

    def _indices(self) -> Any:
        return self._places

    def _values(self) -> Any:
        return self._held

    def is_coalesced(self) -> bool:
        return self._coalesced

    def indices(self) -> Any:
        return self._of_coalesced("indices", self._places)

    def values(self) -> Any:
        return self._of_coalesced("values", self._held)

    def crow_indices(self) -> Any:
        """Where each row begins among the values, and where the last one ends."""
        ends = self._places[0].bincount(minlength=self.shape[0]).cumsum(0)
        return cat([ends.new_zeros(1), ends])

    def col_indices(self) -> Any:
        return self._places[1]

    def _of_coalesced(self, name: str, value: Any) -> Any:
        if not self._coalesced:
            raise RuntimeError(f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first")
        return value

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return False

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        def part(name: str, value: Any) -> str:
            return f"{name}={value!r}".replace("\n", "\n" + " " * (len(name) + 8))

        grad = ", requires_grad=True" if self.requires_grad and self.is_leaf else ""
        if self.grad_fn is not None:
            grad = f",\n       grad_fn=<{type(self.grad_fn).__name__}>"
        dtype = "" if self.dtype in (float32, int64) else f", dtype={self.dtype}"
        size = f"size={tuple(self.shape)}, nnz={self._nnz()}{dtype}"
        values = part("values", self._held.detach()).replace(dtype, "")  # said once, after the size
        if self.is_sparse_csr:
            rows, columns = part("crow_indices", self.crow_indices()), part("col_indices", self.col_indices())
            return f"tensor({rows},\n       {columns},\n       {values}, {size},\n       layout=torch.sparse_csr{grad})"
        places = part("indices", self._places).replace(", dtype=torch.int64", "")
        return f"tensor({places},\n       {values},\n       {size}, layout=torch.sparse_coo{grad})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    __array__: Any = numpy

    def item(self) -> Any:
        return self.to_dense().item()

    # --- layouts, dtypes, copies --------------------------------------------------------------------------------------

    def to_dense(self, dtype: Any = None, *, masked_grad: Any = None) -> Any:
        """The tensor with all its zeros."""
        if masked_grad is False and self.requires_grad:
            raise NotImplementedError(
                "gradients of a sparse tensor are those of the values it holds; masked_grad=False asks for those of its zeros "
                "too: use a dense tensor for that"
            )
        depth = self._places.shape[0]
        flat = zeros((math.prod(self.shape[:depth]), *self._held.shape[1:]), dtype=self.dtype)
        if self.dtype is bool_:
            flat[self._keys()] = self._held
        else:
            flat = flat.index_add(0, self._keys(), self._held)
        dense = flat.reshape(tuple(self.shape))
        return dense if dtype is None else dense.to(dtype)

    def _keys(self) -> Any:
        """The place of each value as one number."""
        keys = self._places.new_zeros(self._nnz())
        for index, n in zip(self._places, self.shape, strict=False):
            keys = keys * int(n) + index
        return keys

    def coalesce(self) -> SparseTensor:
        """Each place once, in order."""
        if self._coalesced:
            return self
        keys, order = self._keys().unique(return_inverse=True)
        held = zeros((keys.shape[0], *self._held.shape[1:]), dtype=self.dtype).index_add(0, order, self._held)
        return place(split_keys(keys, self.shape[: self.sparse_dim()]), held, self.shape, True)

    def with_values(self, values: Any) -> SparseTensor:
        """Other values at the same places."""
        return place(self._places, values, self.shape, self._coalesced, self._layout)

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        changed = self._held.to(*args, **kwargs)
        return self if changed is self._held else self.with_values(changed)

    def cpu(self) -> SparseTensor:
        return self

    def float(self) -> SparseTensor:
        return self.to(float32)

    def double(self) -> SparseTensor:
        return self.to(float64)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        if dtype is None:
            return self._held.type().replace("torch.", "torch.sparse.")
        return self.with_values(self._held.type(dtype))

    def detach(self) -> SparseTensor:
        return self.with_values(self._held.detach())

    def clone(self, *, memory_format: Any = None) -> SparseTensor:
        return self.with_values(self._held.clone())

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        self._held.requires_grad_(requires_grad)
        return self

    def to_sparse(self, *args: Any, layout: Any = None, **kwargs: Any) -> SparseTensor:
        wanted = layout or sparse_coo
        if wanted is self._layout:
            return self
        joined = self.coalesce()
        return place(joined._places, joined._held, joined.shape, True, wanted)

    to_sparse_coo = to_sparse

    def to_sparse_csr(self, dense_dim: int | None = None) -> SparseTensor:
        if dense_dim is not None:
            raise RuntimeError(
                "coo_to_sparse_csr: conversion from Sparse to SparseCsr with dense_dim argument given is not supported"
            )
        return self.to_sparse(layout=sparse_csr)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return place, (self._places, self._held, tuple(self.shape), self._coalesced, self._layout)

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        made = memo[id(self)] = self.with_values(copy.deepcopy(self._held, memo))
        return made


def place(
    places: Any, values: Any, size: Iterable[int], coalesced: bool = False, layout: Any = sparse_coo
) -> SparseTensor:
    """A sparse tensor on these indices and values, which nobody checks."""
    made: SparseTensor = new(SparseTensor)
    made._a = meta(tuple(int(n) for n in size), values._a.dtype)
    made._ag = made._v = made._view = None
    made._places, made._held, made._coalesced, made._layout = places, values, coalesced, layout
    return made


def split_keys(keys: Any, sizes: Any) -> Any:
    """Indices by dimension from the numbers of places."""
    rows: list[Any] = []
    for n in reversed(sizes):
        rows.insert(0, keys % int(n))
        keys = keys.div(int(n), rounding_mode="floor")
    return stack(rows)
