"""torch.sparse: tensors by the coordinates of what they hold, as graph networks use them, with gradients through their
values.
"""

from __future__ import annotations

from typing import Any

from ..core.device import sparse_csr
from ..core.dtype import float32, float64, int64
from ..core.tensor import Tensor
from ..ops.creation.convert import as_tensor
from ..ops.creation.fill import empty
from ..ops.creation.ranges import arange
from ..ops.shape.join import stack
from . import gradients, invariants
from .invariants import check_sparse_tensor_invariants
from .rules import addmm, log_softmax, product, softmax, sparse_mask, to_sparse, total
from .tensor import SparseTensor, place

_NOT_PINNED = "Cannot access accelerator device when none is available."


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """Values at the places that the columns of `indices` name; of a size alone, a tensor of zeros. That places lie inside
    is checked always; with `check_invariants` also that what is said to be coalesced is so."""
    if pin_memory:
        raise RuntimeError(_NOT_PINNED)
    if values is None:
        size = indices if size is None else size
        made = place(empty((len(size), 0), dtype=int64), empty((0,), dtype=dtype), size, True)
        return made.requires_grad_(requires_grad)
    places, held = as_tensor(indices).to(int64), as_tensor(values, dtype=dtype)
    if held.dim() == 0:
        held = held.reshape(1).expand(places.shape[-1])
    shape = _size(places, held, size)
    made = place(places, held.detach() if requires_grad else held, shape, bool(is_coalesced))
    if is_coalesced and invariants.wanted(check_invariants) and not invariants.rises(made._keys()):
        raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")
    return made.requires_grad_(requires_grad) if requires_grad else made


def _size(places: Any, held: Any, size: Any) -> list[int]:
    """The size, which all indices fit into."""
    if places.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(places.shape)}")
    if places.shape[1] != held.shape[0]:
        raise RuntimeError(
            "indices and values must have same nnz, but got nnz from indices: "
            f"{places.shape[1]}, nnz from values: {held.shape[0]}"
        )
    found = [int(n) + 1 for n in places.amax(1)] if places.shape[1] else [0] * places.shape[0]
    shape = [*found, *held.shape[1:]] if size is None else [int(n) for n in size]
    sparse_dim, dense_dim = places.shape[0], held.dim() - 1
    if len(shape) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, sparse_dim = {sparse_dim}, "
            f"dense_dim = {dense_dim}"
        )
    for dim, (needed, n) in enumerate(zip(found, shape, strict=False)):
        if places.shape[1] and int(places[dim].min()) < 0:
            raise RuntimeError(f"found negative index {int(places[dim].min())} for dim {dim}")
        if needed > n:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {n} but found index {needed - 1}"
            )
    return shape


def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:
    """A matrix by rows: where each begins among the values, and the column of each value."""
    if pin_memory:
        raise RuntimeError(_NOT_PINNED)
    starts, columns = as_tensor(crow_indices).to(int64), as_tensor(col_indices).to(int64)
    steps = starts.diff()
    if starts.dim() != 1 or columns.dim() != 1 or (starts[:1] != 0).any() or (steps < 0).any() or len(starts) < 1:
        raise RuntimeError("crow_indices must be one row of numbers that begins with 0 and does not fall")
    if int(starts[-1]) != columns.shape[0]:
        raise RuntimeError(f"crow_indices end with {int(starts[-1])}, but there are {columns.shape[0]} col_indices")
    rows = arange(starts.shape[0] - 1).repeat_interleave(steps)
    width = int(columns.max()) + 1 if len(columns) else 0
    size = (starts.shape[0] - 1, width) if size is None else size
    made = sparse_coo_tensor(stack([rows, columns]), values, size, dtype=dtype, requires_grad=requires_grad)
    if invariants.wanted(check_invariants) and not invariants.rises(made._keys()):
        raise RuntimeError(
            "`col_indices[..., crow_indices[..., i - 1]:crow_indices[..., i]] for all i = 1, ..., nrows are sorted and "
            "distinct along the last dimension values` is not satisfied."
        )
    return place(made._places, made._held, made.shape, True, sparse_csr)


def _typed(dtype: Any) -> Any:
    def make(indices: Any, values: Any = None, size: Any = None) -> SparseTensor:
        """The older way to make one."""
        return sparse_coo_tensor(indices, values, size, dtype=dtype)

    return make


FloatTensor, DoubleTensor, LongTensor = _typed(float32), _typed(float64), _typed(int64)


def mm(mat1: Any, mat2: Any, reduce: str = "sum") -> Any:
    """A product of a sparse matrix and a dense or sparse one."""
    if reduce != "sum":
        raise NotImplementedError(f"products of sparse matrices are sums here, got reduce={reduce!r}")
    return product(mat1, mat2)


spmm = mm


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """A sum over all, or over dimensions."""
    return total(input, dim, dtype=dtype)


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: Any = None) -> Tensor:
    """A dense tensor is dense already."""
    return self if dtype is None else self.to(dtype)


def _to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> SparseTensor:
    """Rows of a matrix, whose entries may be dense tensors of `dense_dim` dimensions."""
    rest = self.dim() - (dense_dim or 0)
    if rest != 2:
        raise NotImplementedError(
            f"a tensor by rows is a matrix here, but of {self.dim()} dimensions {dense_dim or 0} are dense; say dense_dim, or "
            "use to_sparse()"
        )
    return to_sparse(self, rest, layout=sparse_csr)


def bind() -> None:
    """Give Tensor the changes of layout."""
    Tensor.to_sparse = Tensor.to_sparse_coo = to_sparse  # type: ignore[attr-defined]
    Tensor.to_sparse_csr = _to_sparse_csr  # type: ignore[attr-defined]
    Tensor.sparse_mask = sparse_mask  # type: ignore[attr-defined]
    Tensor.to_dense = to_dense  # type: ignore[attr-defined]


__all__ = [
    "DoubleTensor",
    "FloatTensor",
    "LongTensor",
    "SparseTensor",
    "addmm",
    "check_sparse_tensor_invariants",
    "gradients",
    "log_softmax",
    "mm",
    "softmax",
    "sparse_coo_tensor",
    "sparse_csr_tensor",
    "spmm",
    "sum",
]
