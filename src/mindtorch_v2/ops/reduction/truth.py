"""Rows of reductions to truth values and counts."""

from __future__ import annotations

from typing import Any

from ...dispatch.front import front
from ...dispatch.op import composite, op
from ...kernels.reduction import few
from ...kernels.reduction import reduce as kernels
from ..meta import shapes
from .reduce import settled


def _truth_rows(name: str, kernel: Any, quick: Any) -> None:
    whole = op(
        f"{name}(Tensor self) -> Tensor",
        out_overload="all_out",
        out_dtype="cast",
        meta=shapes.single,
        fast=(few.FOR_TRUTH, quick[0]),
    )(lambda a: kernel(a))
    one = op(
        f"{name}.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
        out_overload="out",
        out_dtype="cast",
        meta=shapes.along,
        fast=(few.FOR_TRUTH_DIM, quick[1]),
    )(lambda a, dim, keepdim: kernel(a, dim, keepdim))
    many = op(
        f"{name}.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", out_dtype="cast", meta=shapes.along
    )(lambda a, dim, keepdim: kernel(a, dim, keepdim))

    def public(input: Any, dim: Any = None, keepdim: bool = False, *, out: Any = None, axis: Any = None,
               keepdims: Any = None) -> Any:  # fmt: skip
        dim, keepdim = settled(dim, keepdim, axis, keepdims)
        if dim is None and not keepdim:
            return whole.function(input, out=out)
        return (one if isinstance(dim, int) else many).function(input, dim, keepdim, out=out)

    public.__name__ = public.__qualname__ = name
    front(name)(public)


_truth_rows("all", kernels.all, (few.all_of, few.all_dim))
_truth_rows("any", kernels.any, (few.any_of, few.any_dim))


@composite("_is_all_true(Tensor self) -> Tensor")
def _is_all_true(self: Any) -> Any:
    if self._a.dtype.kind != "b":
        raise RuntimeError(f"Expected a tensor of bools, got {self.dtype}")
    return self.all()


@composite("_is_any_true(Tensor self) -> Tensor")
def _is_any_true(self: Any) -> Any:
    if self._a.dtype.kind != "b":
        raise RuntimeError(f"Expected a tensor of bools, got {self.dtype}")
    return self.any()


is_all_true = _is_all_true.function


@op("count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor", meta=shapes.along, out=False)
def _count_nonzero_along(a: Any, dim: Any) -> Any:
    return kernels.count_nonzero(a, dim)


@op("count_nonzero(Tensor self, int? dim=None) -> Tensor", meta=shapes.along, out=False)
def _count_nonzero(a: Any, dim: Any) -> Any:
    return kernels.count_nonzero(a, dim)


@front("count_nonzero")
def count_nonzero(input: Any, dim: Any = None) -> Any:
    """How many elements are not zero, in all or along dimensions."""
    return (_count_nonzero_along if isinstance(dim, (list, tuple)) else _count_nonzero).function(input, dim)


@op("hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor", meta=shapes.along)
def _hash_tensor(a: Any, dim: Any, keepdim: bool, mode: int) -> Any:
    return kernels.hash_tensor(a, dim, keepdim, mode)
