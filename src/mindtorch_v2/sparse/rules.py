"""What functions do with sparse tensors, a rule each under the function's name. It does not know how tensors are made
from users' arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..core.device import sparse_coo
from ..core.tensor import Tensor
from ..ops.creation.fill import zeros
from ..ops.creation.ranges import arange
from ..ops.reduction.search import searchsorted
from ..ops.shape.join import cat as dense_cat
from .tensor import RULES, SparseTensor, place, split_keys


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function the rule for these names."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return keep


def is_sparse(value: Any) -> bool:
    return isinstance(value, SparseTensor)


# --- value by value ---------------------------------------------------------------------------------------------------


def _on_values(name: str, joined: bool) -> None:
    def apply(input: SparseTensor, *args: Any, **kwargs: Any) -> SparseTensor:
        input = input.coalesce() if joined else input
        return input.with_values(getattr(input._held, name)(*args, **kwargs))

    RULES[name] = apply


# Those that leave zeros alone. Only linear ones may go before values at one place are added up.
for _name in (
    "neg",
    "clone",
    "detach",
    "conj",
    "resolve_conj",
    "float",
    "double",
    "half",
    "bfloat16",
    "int",
    "long",
    "type_as",
):
    _on_values(_name, False)
for (
    _name
) in """abs sqrt sin sinh asin asinh tan tanh atan atanh sign sgn floor ceil round trunc frac expm1 log1p erf erfinv
    relu square isnan isinf deg2rad rad2deg""".split():
    _on_values(_name, True)


@rule("pow")
def power(input: SparseTensor, exponent: Any) -> SparseTensor:
    input = input.coalesce()
    return input.with_values(input._held.pow(exponent))


@rule("add", "__add__", "__radd__")
def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    if not is_sparse(other):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if not is_sparse(input):
        return input.add(other.to_dense(), alpha=alpha)
    _same_size(input, other)
    scaled = other._held if alpha == 1 else other._held * alpha
    compact = input._held.is_contiguous() and other._held.is_contiguous()
    if compact and input._places.shape == other._places.shape and bool((input._places == other._places).all()):
        return input.with_values(input._held + scaled)
    places = dense_cat([input._places, other._places], 1)
    made = place(places, dense_cat([input._held, scaled]), input.shape, False)
    # What is added to again and again, as momentum is, holds no more values than there are places.
    full = made._nnz() > math.prod(made.shape[: made.sparse_dim()])
    return made.coalesce() if full or (input.is_coalesced() and other.is_coalesced()) else made


@rule("sub", "__sub__")
def subtract(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    return add(input, other, alpha=-alpha)


@rule("mul", "__mul__", "__rmul__", "multiply")
def multiply(input: Any, other: Any) -> SparseTensor:
    if not is_sparse(input):
        input, other = other, input
    if not isinstance(other, Tensor) or other.dim() == 0:
        return input.with_values(input._held * other)
    if is_sparse(other):
        _same_size(input, other)
        mine, theirs = input.coalesce(), other.coalesce()
        one, two = pairs(mine._keys(), theirs._keys())
        held = mine._held[one] * theirs._held[two]
        return place(mine._places[:, one], held, input.shape, True)
    input = input.coalesce()
    picked = other.expand(tuple(input.shape))[tuple(input._places)]
    return input.with_values(input._held * picked)


@rule("div", "true_divide", "__truediv__", "divide")
def divide(input: Any, other: Any) -> SparseTensor:
    if not is_sparse(input) or (isinstance(other, Tensor) and other.dim() > 0):
        shape = list(getattr(other, "shape", ()))
        raise RuntimeError(
            f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {shape} for divisor)"
        )
    return input.with_values(input._held / other)


@rule("add_", "__iadd__")
def add_(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    if not is_sparse(input):
        return _add_to_dense(input, other, alpha)
    return _become(input, add(input, other, alpha=alpha))


def _add_to_dense(input: Any, other: SparseTensor, alpha: Any) -> Any:
    """Add values to the places of a dense tensor, without going over the rest of it."""
    if input.shape != other.shape or not input.is_contiguous() or input.dtype != other.dtype:
        return input.add_(other.to_dense(), alpha=alpha)
    depth = other.sparse_dim()
    input.view(-1, *input.shape[depth:]).index_add_(0, other._keys(), other._held, alpha=alpha)
    return input


@rule("zero_")
def zero_(input: SparseTensor) -> SparseTensor:
    return _become(input, zeros_like(input))


@rule("mul_", "__imul__")
def multiply_(input: SparseTensor, other: Any) -> SparseTensor:
    return _become(input, multiply(input, other))


@rule("div_", "__itruediv__")
def divide_(input: SparseTensor, other: Any) -> SparseTensor:
    return _become(input, divide(input, other))


def _become(input: SparseTensor, other: SparseTensor) -> SparseTensor:
    input._places, input._held, input._coalesced = other._places, other._held, other._coalesced
    return input


def _same_size(input: Any, other: Any) -> None:
    if input.shape != other.shape:
        raise RuntimeError(
            f"expected sparse tensors of one size, but got {list(input.shape)} and {list(other.shape)}: sizes do not match"
        )


# --- shapes -----------------------------------------------------------------------------------------------------------


@rule("t")
def turn(input: SparseTensor) -> SparseTensor:
    if input.sparse_dim() > 2 or input.dense_dim():
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {input.sparse_dim()} sparse and "
            f"{input.dense_dim()} dense dimensions"
        )
    return transpose(input, 0, 1) if input.dim() > 1 else input


@rule("transpose", "swapaxes", "swapdims")
def transpose(input: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    first, second = _wrapped(input, dim0), _wrapped(input, dim1)
    depth = input.sparse_dim()
    if first != second and max(first, second) >= depth:
        raise RuntimeError(
            f"sparse transpose: transposed dimensions must be sparse Got sparse_dim: {depth}, d0: {first}, d1: {second}"
        )
    order = list(range(input.dim()))
    order[first], order[second] = order[second], order[first]
    return permute(input, order)


@rule("permute")
def permute(input: SparseTensor, *dims: Any) -> SparseTensor:
    """Dimensions in another order; those that coordinates count stay in front of the others."""
    order = [_wrapped(input, d) for d in (dims[0] if isinstance(dims[0], (tuple, list)) else dims)]
    if len(order) != input.dim():
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {input.dim()} is not equal to len(dims) = {len(order)}"
        )
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    depth = input.sparse_dim()
    if any(d >= depth for d in order[:depth]):
        raise RuntimeError(
            "permute(sparse_coo): transpositions between sparse and dense dimensions are not allowed.Only transpositions "
            "within sparse and dense dimensions are supported."
        )
    held = input._held.permute(0, *(d - depth + 1 for d in order[depth:])) if input.dense_dim() else input._held
    size = [input.shape[i] for i in order]
    return place(input._places[order[:depth]], held, size, input._coalesced and order[:depth] == list(range(depth)))


def _wrapped(input: SparseTensor, dim: int) -> int:
    n = max(input.dim(), 1)
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    return dim % n


@rule("unsqueeze")
def unsqueeze(input: SparseTensor, dim: int) -> SparseTensor:
    dim %= input.dim() + 1
    places = input._places
    places = dense_cat([places[:dim], places.new_zeros(1, places.shape[1]), places[dim:]])
    return place(places, input._held, (*input.shape[:dim], 1, *input.shape[dim:]), False)


@rule("cat", "concat", "concatenate")
def cat(tensors: Any, dim: int = 0) -> SparseTensor:
    """Tensors one after the other; the dimension is one that coordinates count."""
    dim %= tensors[0].dim()
    places, start = [], 0
    for t in tensors:
        shifted = t._places.clone()
        shifted[dim] += start
        places.append(shifted)
        start += int(t.shape[dim])
    size = [start if i == dim else n for i, n in enumerate(tensors[0].shape)]
    return place(dense_cat(places, 1), dense_cat([t._held for t in tensors]), size)


@rule("stack")
def stack(tensors: Any, dim: int = 0) -> SparseTensor:
    return cat([unsqueeze(t, dim) for t in tensors], dim)


@rule("index_select")
def index_select(input: SparseTensor, dim: int, index: Any) -> SparseTensor:
    dim %= input.dim()
    wanted, entry = pairs(index, input._places[dim])
    places = input._places[:, entry].clone()
    places[dim] = wanted
    size = [int(index.shape[0]) if i == dim else n for i, n in enumerate(input.shape)]
    return place(places, input._held[entry], size)


@rule("select", "__getitem__")
def select(input: SparseTensor, dim: int, index: int | None = None) -> Any:
    """One entry of a dimension, the first one where only an index is given."""
    if index is None:
        dim, index = 0, dim
    if not isinstance(index, int):
        raise NotImplementedError(f"a sparse tensor is indexed by a number, got {index!r}; use tensor.to_dense() first")
    dim %= input.dim()
    entry = (input._places[dim] == index % input.shape[dim]).nonzero().squeeze(1)
    keep = [i for i in range(input.sparse_dim()) if i != dim]
    if not keep:
        return input._held[entry].sum(0)
    size = [n for i, n in enumerate(input.shape) if i != dim]
    return place(input._places[:, entry][keep], input._held[entry], size)


@rule("zeros_like")
def zeros_like(input: SparseTensor, **options: Any) -> SparseTensor:
    dtype = options.get("dtype") or input.dtype
    held = zeros((0, *input._held.shape[1:]), dtype=dtype)
    return place(input._places[:, :0], held, input.shape, True)


def pairs(left: Any, right: Any) -> tuple[Any, Any]:
    """Positions in `left` and `right` of all pairs of equal numbers, in the order of `left`."""
    ordered, order = right.sort(stable=True)
    low = searchsorted(ordered, left.contiguous())
    counts = searchsorted(ordered, left.contiguous(), right=True) - low
    one = arange(left.shape[0]).repeat_interleave(counts)
    before = (counts.cumsum(0) - counts)[one]
    return one, order[low[one] + arange(one.shape[0]) - before]


# --- sums and softmax -------------------------------------------------------------------------------------------------


@rule("sum")
def total(input: SparseTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """A sum over all, which is dense, or over dimensions, which is sparse while coordinates are left."""
    if dtype is not None:
        input = input.to(dtype)
    if dim is None or dim == ():
        return input._held.sum()
    dims = {d % input.dim() for d in ([dim] if isinstance(dim, int) else dim)}
    depth = input.sparse_dim()
    inner = [d - depth + 1 for d in dims if d >= depth]
    held = input._held.sum(inner) if inner else input._held
    keep = [i for i in range(depth) if i not in dims]
    if not keep:
        return held.sum(0)
    size = [n for i, n in enumerate(input.shape) if i not in dims]
    return place(input._places[keep], held, size).coalesce()


@rule("norm", "linalg_vector_norm")
def norm(input: SparseTensor, p: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if dim is not None:
        raise NotImplementedError("the norm of a sparse tensor is one over all of it; use tensor.to_dense() first")
    return input.coalesce()._held.norm(p)


def _grouped(input: SparseTensor, dim: int) -> tuple[SparseTensor, Any, int]:
    """A coalesced tensor, for each value the number of its group along `dim`, and how many groups there are."""
    input, dim = input.coalesce(), dim % input.dim()
    if dim >= input.sparse_dim():
        raise NotImplementedError("softmax of a sparse tensor goes along a dimension that coordinates count")
    keys = input._places.new_zeros(input._nnz())
    for i, index in enumerate(input._places):
        if i != dim:
            keys = keys * int(input.shape[i]) + index
    return input, keys, math.prod(n for i, n in enumerate(input.shape[: input.sparse_dim()]) if i != dim)


def log_softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """log_softmax among the values that are there."""
    input, groups, count = _grouped(input if dtype is None else input.to(dtype), dim)
    held = input._held
    start = held.detach().new_full((count, *held.shape[1:]), -math.inf)
    shifted = held - start.index_reduce(0, groups, held.detach(), "amax")[groups]
    sums = zeros((count, *held.shape[1:]), dtype=held.dtype).index_add(0, groups, shifted.exp())
    return input.with_values(shifted - sums.log()[groups])


def softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """softmax among the values that are there."""
    made = log_softmax(input, dim, dtype=dtype)
    return made.with_values(made._held.exp())


# --- products ---------------------------------------------------------------------------------------------------------


@rule("mm", "matmul", "mv", "spmm", "bmm", "__matmul__", "__rmatmul__")
def product(input: Any, other: Any) -> Any:
    """A product of matrices: sparse if both are, else dense."""
    if input.shape[-1] != other.shape[-2 if other.dim() > 1 else 0]:
        shapes = f"({'x'.join(map(str, input.shape))} and {'x'.join(map(str, other.shape))})"
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied {shapes}")
    if not is_sparse(input):
        return product(transpose(other, 0, 1), input.t()).t()
    if is_sparse(other):
        return _sparse_product(input, other)
    if input.dim() not in (2, 3) or other.dim() > input.dim():
        raise NotImplementedError(
            f"a sparse tensor of {input.dim()} dimensions times a dense one of {other.dim()}; use tensor.to_dense() first"
        )
    *batch, rows, columns = input._places
    picked = other[(*batch, columns)]
    held = input._held if other.dim() == 1 else input._held.unsqueeze(1)
    if batch:
        rows = batch[0] * int(input.shape[1]) + rows
    count = math.prod(input.shape[:-1])
    flat = zeros((count, *picked.shape[1:]), dtype=picked.dtype).index_add(0, rows, held * picked)
    return flat.reshape(*input.shape[:-1], *picked.shape[1:])


def _sparse_product(input: SparseTensor, other: SparseTensor) -> SparseTensor:
    if input.dim() != 2 or other.dim() != 2:
        raise NotImplementedError("a product of two sparse tensors is one of matrices; use tensor.to_dense() first")
    one, two = pairs(input._places[1], other._places[0])
    width = int(other.shape[1])
    keys = input._places[0][one] * width + other._places[1][two]
    size = input.shape[0], other.shape[1]
    return place(split_keys(keys, size), input._held[one] * other._held[two], size).coalesce()


@rule("addmm", "sparse.addmm")
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return beta * input + alpha * product(mat1, mat2)


@rule("linear")
def linear(input: SparseTensor, weight: Any, bias: Any = None) -> Any:
    made = product(input, weight.t())
    return made if bias is None else made + bias


# --- from dense ones --------------------------------------------------------------------------------------------------


@rule("to_sparse", "to_sparse_coo")
def to_sparse(self: Tensor, sparse_dim: int | None = None, *, layout: Any = None, **kwargs: Any) -> SparseTensor:
    """What a dense tensor holds beside zeros, by coordinates of its first `sparse_dim` dimensions."""
    rest = self.dim() if sparse_dim is None else sparse_dim
    seen = self.detach() != 0
    places = (seen.flatten(rest).any(-1) if rest < self.dim() else seen).nonzero().t()
    return place(places, self[tuple(places)], self.shape, True, layout or sparse_coo)


@rule("sparse_mask")
def sparse_mask(self: Any, mask: SparseTensor) -> SparseTensor:
    """The values of a dense tensor at the places of a sparse one."""
    return mask.with_values(self[tuple(mask._places)])
