"""torch.sparse: matrices by the coordinates of what they hold, enough to multiply by them as graph networks do.

A sparse matrix is an object of its own beside Tensor: it takes part in products, changes of layout and of dtype; any
other function refuses it and says how to go on.
"""

from __future__ import annotations

from typing import Any

from ._device import sparse_coo
from ._dtype import float32, float64, int64
from ._size import Size
from ._tensor import Tensor
from .ops.convert import as_tensor
from .ops.creation import zeros


class SparseTensor:
    """Values at coordinates, zeros elsewhere; values at one place add up. Gradients reach the values."""

    is_sparse, is_sparse_csr, is_cuda, layout = True, False, False, sparse_coo

    def __init__(self, indices: Any, values: Any, size: Any, coalesced: bool = False) -> None:
        self._places, self._held, self.shape, self._coalesced = indices, values, Size(size), coalesced

    # --- what it is ---------------------------------------------------------------------------------------------------

    dtype = property(lambda self: self._held.dtype)
    device = property(lambda self: self._held.device)
    requires_grad = property(lambda self: self._held.requires_grad)
    ndim = property(lambda self: len(self.shape))

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        return len(self.shape)

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

    def _of_coalesced(self, name: str, value: Any) -> Any:
        if not self._coalesced:
            raise RuntimeError(f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first")
        return value

    def __repr__(self) -> str:
        indices = repr(self._places).replace("\n", "\n" + " " * 15)
        values = repr(self._held.detach()).replace("\n", "\n" + " " * 14)
        dtype = "" if self.dtype in (float32, int64) else f", dtype={self.dtype}"
        size = f"size={tuple(self.shape)}, nnz={self._nnz()}{dtype}, layout=torch.sparse_coo"
        return f"tensor(indices={indices},\n       values={values},\n       {size})"

    # --- layouts and dtypes -------------------------------------------------------------------------------------------

    def to_dense(self, dtype: Any = None, *, masked_grad: Any = None) -> Any:
        """The matrix with all its zeros."""
        rest = self._held.shape[1:]
        strides = [1]
        for n in reversed(self.shape[1 : self._places.shape[0]]):
            strides.insert(0, strides[0] * int(n))
        places = (self._places * as_tensor(strides).unsqueeze(1)).sum(0)
        count = 1
        for n in self.shape[: self._places.shape[0]]:
            count *= int(n)
        flat = zeros((count, *rest), dtype=self.dtype).index_add(0, places, self._held)
        dense = flat.reshape(tuple(self.shape))
        return dense if dtype is None else dense.to(dtype)

    def coalesce(self) -> SparseTensor:
        """Each place once, in order."""
        if self._coalesced:
            return self
        places, order = self._places.unique(dim=1, return_inverse=True)
        held = zeros((places.shape[1], *self._held.shape[1:]), dtype=self.dtype).index_add(0, order, self._held)
        return SparseTensor(places, held, self.shape, True)

    def _with(self, values: Any) -> SparseTensor:
        return SparseTensor(self._places, values, self.shape, self._coalesced)

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        return self._with(self._held.to(*args, **kwargs))

    def cpu(self) -> SparseTensor:
        return self

    def float(self) -> SparseTensor:
        return self.to(float32)

    def double(self) -> SparseTensor:
        return self.to(float64)

    def detach(self) -> SparseTensor:
        return self._with(self._held.detach())

    def clone(self) -> SparseTensor:
        return self._with(self._held.clone())

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        self._held.requires_grad_(requires_grad)
        return self

    def to_sparse(self) -> SparseTensor:
        return self

    def t(self) -> SparseTensor:
        """The matrix turned over."""
        return SparseTensor(self._places.flip(0), self._held, reversed(self.shape))

    T = property(t)

    # --- arithmetic ---------------------------------------------------------------------------------------------------

    def matmul(self, dense: Any) -> Any:
        """A product with a dense matrix or vector, which is dense."""
        if not isinstance(dense, Tensor) or self.ndim != 2 or dense.dim() not in (1, 2):
            raise NotImplementedError(
                "a sparse matrix is multiplied by a dense matrix or vector; make the other one dense by to_dense()"
            )
        if self.shape[1] != dense.shape[0]:
            shapes = f"({self.shape[0]}x{self.shape[1]} and {'x'.join(map(str, dense.shape))})"
            raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied {shapes}")
        rows, columns = self._places
        picked = dense[columns]
        held = self._held if dense.dim() == 1 else self._held.unsqueeze(1)
        return zeros((self.shape[0], *dense.shape[1:]), dtype=picked.dtype).index_add(0, rows, held * picked)

    mm = spmm = __matmul__ = matmul

    def __mul__(self, other: Any) -> SparseTensor:
        return self._with(self._held * other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> SparseTensor:
        return self._with(self._held / other)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", str(func))
        if name in ("mm", "matmul", "mv", "spmm") and isinstance(args[0], SparseTensor):
            return args[0].matmul(args[1])
        raise NotImplementedError(
            f"torch.{name} of a sparse tensor is not provided: mindtorch_v2 multiplies sparse matrices by dense ones. Use "
            "tensor.to_dense() for the rest"
        )


def sparse_coo_tensor(
    indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """Values at the places that the columns of `indices` name."""
    places, held = as_tensor(indices).to(int64), as_tensor(values, dtype=dtype)
    if places.dim() != 2 or places.shape[1] != held.shape[0]:
        raise RuntimeError(
            "indices must have a column for each value, got indices of shape "
            f"{list(places.shape)} and values of shape {list(held.shape)}"
        )
    found = [int(n) + 1 for n in places.amax(1)] if places.shape[1] else [0] * places.shape[0]
    shape = [*found, *held.shape[1:]] if size is None else [int(n) for n in size]
    if len(shape) != places.shape[0] + held.dim() - 1 or any(a > b for a, b in zip(found, shape, strict=False)):
        raise RuntimeError(f"indices of up to {[n - 1 for n in found]} do not fit into a tensor of size {shape}")
    made = SparseTensor(places, held.detach() if requires_grad else held, shape, bool(is_coalesced))
    return made.requires_grad_() if requires_grad else made


def _typed(dtype: Any) -> Any:
    def make(indices: Any, values: Any, size: Any = None) -> SparseTensor:
        """The older way to make one."""
        return sparse_coo_tensor(indices, values, size, dtype=dtype)

    return make


FloatTensor, DoubleTensor, LongTensor = _typed(float32), _typed(float64), _typed(int64)


def mm(mat1: SparseTensor, mat2: Any) -> Any:
    """A sparse matrix times a dense one."""
    return mat1.matmul(mat2)


spmm = mm


def to_sparse(self: Tensor, *args: Any, **kwargs: Any) -> SparseTensor:
    """What a dense tensor holds beside zeros, by coordinates."""
    places = self.nonzero().t()
    return SparseTensor(places, self[tuple(places)], self.shape, True)


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: Any = None) -> Tensor:
    """A dense tensor is dense already."""
    return self if dtype is None else self.to(dtype)


def bind() -> None:
    """Give Tensor the changes of layout."""
    Tensor.to_sparse = Tensor.to_sparse_coo = to_sparse  # type: ignore[attr-defined]
    Tensor.to_dense = to_dense  # type: ignore[attr-defined]


__all__ = ["DoubleTensor", "FloatTensor", "LongTensor", "SparseTensor", "mm", "sparse_coo_tensor", "spmm"]
