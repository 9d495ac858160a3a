"""Rows that contract tensors by name or by axis: einsum, tensordot, kron, chains and powers of matrices.

They arrange their operands and leave the arithmetic to the products in `products`.
"""

from __future__ import annotations

import functools
import math
import operator
import string
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.errors import shape_text, wrap_dims
from ...core.tensor import Tensor, make
from ...dispatch.front import front
from ...dispatch.op import composite
from ...kernels.compiled import stand_in
from ..shape.permute import permute
from ..shape.view import reshape, unsafe_view, unsqueeze
from .matmul import matmul
from .products import batches, bmm, dot, graph_wanted, mm

# --- einsum -----------------------------------------------------------------------------------------------------------

LETTERS = string.ascii_uppercase + string.ascii_lowercase
ELLIPSIS = "..."


def _labels(text: str, start: int, who: str) -> list[str]:
    """The subscripts of one operand (or of the output), the ellipsis as one label."""
    found: list[str] = []
    position = 0
    while position < len(text):
        letter = text[position]
        if letter == ".":
            if ELLIPSIS in found:
                raise RuntimeError(f"einsum(): found '.' for {who} for which an ellipsis was already found")
            if text[position : position + 3] != ELLIPSIS:
                raise RuntimeError(f"einsum(): found '.' for {who} that is not part of any ellipsis")
            found.append(ELLIPSIS)
            position += 3
            continue
        if letter != " ":
            if letter not in LETTERS:
                raise RuntimeError(
                    f"einsum(): invalid subscript given at index {start + position} in the equation string, subscripts "
                    "must be in [a-zA-Z]"
                )
            found.append(letter)
        position += 1
    return found


def _parse(equation: str, count: int) -> tuple[list[list[str]], list[str] | None]:
    """Labels of each operand, and of the output where the equation names it."""
    left, arrow, right = equation.partition("->")
    inputs, start = [], 0
    for number, text in enumerate(left.split(",")):
        inputs.append(_labels(text, start, f"operand {number}"))
        start += len(text) + 1
    if len(inputs) > count:
        raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
    if len(inputs) < count:
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    return inputs, _labels(right, len(left) + 2, "output") if arrow else None


def _spelled_out(inputs: list[list[str]], ndims: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """Ellipses replaced by labels of their own, one per dimension they stand for; and the longest such run."""
    run: list[str] = []
    spelled = []
    for number, (labels, ndim) in enumerate(zip(inputs, ndims)):
        spare = ndim - len(labels) + (1 if ELLIPSIS in labels else 0)
        if (ELLIPSIS in labels and spare < 0) or (ELLIPSIS not in labels and spare != 0):
            more = "is greater than" if ELLIPSIS in labels else "does not match"
            tail = "" if ELLIPSIS in labels else " and no ellipsis was given"
            named = len(labels) - (1 if ELLIPSIS in labels else 0)
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) {more} the number of dimensions "
                f"({ndim}) for operand {number}{tail}"
            )
        dims = [f"{ELLIPSIS}{back}" for back in range(spare, 0, -1)]  # counted from the right, where they align
        if ELLIPSIS in labels and spare > len(run):
            run = dims
        at = labels.index(ELLIPSIS) if ELLIPSIS in labels else len(labels)
        spelled.append([*labels[:at], *(dims if ELLIPSIS in labels else []), *labels[at + 1 :]])
    return spelled, run


def _output_labels(given: list[str] | None, counts: Counter[str], run: list[str]) -> list[str]:
    if given is None:
        return run + [letter for letter in LETTERS if counts[letter] == 1]
    for label in given:
        if label != ELLIPSIS and counts[label] == 0:
            raise RuntimeError(
                f"einsum(): output subscript {label} does not appear in the equation for any input operand"
            )
        if given.count(label) > 1:
            raise RuntimeError(f"einsum(): output subscript {label} appears more than once in the output")
    return [each for label in given for each in (run if label == ELLIPSIS else [label])]


@functools.lru_cache(maxsize=256)
def _plan(equation: str, ndims: tuple[int, ...]) -> tuple[list[list[str]], list[str], list[str]]:
    """Labels of each operand's dimensions, of the output's, and all of them in the order operands are brought into."""
    inputs, given = _parse(equation, len(ndims))
    spelled, run = _spelled_out(inputs, ndims)
    counts = Counter(label for labels in spelled for label in labels)
    output = _output_labels(given, counts, run)
    return spelled, output, output + [x for x in (*run, *LETTERS) if counts[x] and x not in output]


def _aligned(operand: Any, labels: list[str], order: list[str], number: int) -> Any:
    """An operand with one dimension per label of `order`: repeated labels on the diagonal, missing ones of size 1."""
    seen: list[str] = []
    for label in labels:
        if label not in seen:
            seen.append(label)
            continue
        at, here = seen.index(label), len(seen)
        shape = operand._a.shape
        if shape[at] != shape[here]:
            raise RuntimeError(
                f"einsum(): subscript {label} is repeated for operand {number} but the sizes don't match, "
                f"{shape[here]} != {shape[at]}"
            )
        operand = operand.diagonal(0, at, here).movedim(-1, at)
    for label in order:
        if label not in seen:
            seen.append(label)
            operand = unsqueeze(operand, operand._a.ndim)
    return permute(operand, tuple(seen.index(label) for label in order))


def _check_sizes(operands: Sequence[Any], order: list[str]) -> None:
    for position, label in enumerate(order):
        size = 1
        for number, operand in enumerate(operands):
            n = operand._a.shape[position]
            if n != 1 and size != 1 and n != size:
                name = f"subscript {label}" if label in LETTERS else "an ellipsis dimension"
                raise RuntimeError(
                    f"einsum(): {name} has size {n} for operand {number} which does not broadcast with previously seen "
                    f"size {size}"
                )
            size = n if size == 1 else size


def _pair(left: Any, right: Any, kept: int, left_over: list[Any]) -> Any:
    """Two operands multiplied, the dimensions from `kept` on that no other operand has summed."""
    contracted, left_only, right_only = [], [], []
    for dim in range(kept, left._a.ndim):
        if any(x._a.shape[dim] != 1 for x in left_over):
            continue
        in_left, in_right = left._a.shape[dim] != 1, right._a.shape[dim] != 1
        if in_left and in_right:
            contracted.append(dim)
        elif in_left:
            left_only.append(dim)
        elif in_right:
            right_only.append(dim)
    if left_only:
        left = left.sum(tuple(left_only), keepdim=True)
    if right_only:
        right = right.sum(tuple(right_only), keepdim=True)
    return sumproduct_pair(left, right, contracted) if contracted else left * right


def sumproduct_pair(left: Any, right: Any, summed: list[int]) -> Any:
    """Multiply with broadcasting and sum over some dimensions (which stay, of size 1), by one batched product."""
    a, b = left._a.shape, right._a.shape
    both: list[int] = []
    lefts: list[int] = []
    rights: list[int] = []
    for dim in range(len(a)):
        if dim in summed:
            continue
        (both if a[dim] != 1 and b[dim] != 1 else lefts if a[dim] != 1 else rights).append(dim)

    def size(shape: tuple[int, ...], dims: list[int]) -> int:
        return math.prod(shape[d] for d in dims)

    batch, inner = size(a, both), size(a, summed)
    left = reshape(permute(left, (*both, *lefts, *summed, *rights)), (batch, size(a, lefts), inner))
    right = reshape(permute(right, (*both, *summed, *rights, *lefts)), (batch, inner, size(b, rights)))
    shape = [*(a[d] for d in both), *(a[d] for d in lefts), *(1 for _ in summed), *(b[d] for d in rights)]
    order = [*both, *lefts, *summed, *rights]
    return permute(bmm(left, right).view(shape), tuple(order.index(d) for d in range(len(a))))


@functools.lru_cache(maxsize=256)
def _product_plan(equation: str, ndims: tuple[int, int]) -> tuple[tuple[int, ...], ...] | None:
    """How two operands become batches of matrices and their product the result: the order of each one's dimensions, how
    many are of the batch, of the left alone and summed; None where that takes more than one product."""
    (left, right), output, order = _plan(equation, ndims)
    shared = set(left) & set(right)
    alone = set(left) ^ shared | set(right) ^ shared
    if len({*left}) != len(left) or len({*right}) != len(right) or not alone <= set(output):
        return None
    batch = [label for label in output if label in shared]
    lefts, rights = ([label for label in output if label in alone and label in side] for side in (left, right))
    summed = [label for label in order if label in shared and label not in output]
    made = [*batch, *lefts, *rights]
    return (
        tuple(left.index(label) for label in (*batch, *lefts, *summed)),
        tuple(right.index(label) for label in (*batch, *summed, *rights)),
        tuple(made.index(label) for label in output),
        (len(batch), len(lefts), len(summed)),
    )


def _einsum_quickly(equation: str, tensors: Sequence[Any], path: Any) -> Any:
    """One product of arrays where that is all there is to do and nobody sees the steps."""
    left, right = tensors[0]._a, tensors[1]._a
    plan = _product_plan(equation, (left.ndim, right.ndim))
    if plan is None or left.dtype is not right.dtype or left.dtype.kind != "f" or graph_wanted(*tensors):
        return _contracted(equation, tensors, path)
    a, b = left.transpose(plan[0]), right.transpose(plan[1])
    batch, alone, summed = plan[3]
    before, inner, after = a.shape[: batch + alone], a.shape[batch + alone :], b.shape[batch + summed :]
    in_order = a.flags.c_contiguous and b.flags.c_contiguous and plan[2] == tuple(sorted(plan[2]))
    if not summed and (batch or not in_order):
        return _contracted(equation, tensors, path)
    if 1 in a.shape or 1 in b.shape or b.shape[: batch + summed] != before[:batch] + inner:
        return _contracted(equation, tensors, path)
    n, k = math.prod(before[:batch]), math.prod(inner)
    if not summed:
        made = stand_in(np.multiply)(a.reshape(-1, 1), b.reshape(1, -1))
    else:
        made = batches(a.reshape(n, math.prod(before[batch:]), k), b.reshape(n, k, math.prod(after)))
    return make(made.reshape(before + after).transpose(plan[2]))


@composite(
    "einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
    fast=("len(tensors) == 2 and path is None", _einsum_quickly),
)
def _einsum(equation: str, tensors: Sequence[Any], path: Any) -> Any:
    return _contracted(equation, tensors, path)


def _contracted(equation: str, tensors: Sequence[Any], path: Any) -> Any:
    spelled, output, order = _plan(equation, tuple(x._a.ndim for x in tensors))
    aligned = [_aligned(x, labels, order, i) for i, (x, labels) in enumerate(zip(tensors, spelled))]
    _check_sizes(aligned, order)
    if len(aligned) == 1:
        dims = tuple(range(len(output), len(order)))
        return aligned[0].sum(dims) if dims else aligned[0]
    steps = iter(path or ())
    while len(aligned) > 1:
        i, j = sorted((next(steps, 0), next(steps, 1)))
        right, left = aligned.pop(j), aligned.pop(i)
        aligned.append(_pair(left, right, len(output), aligned))
    result = aligned[0]
    return result.view(result._a.shape[: len(output)]) if len(order) > len(output) else result


def _from_sublists(args: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """`einsum(x, [0, 1], y, [1, 2], [0, 2])` as an equation."""

    def text(labels: Sequence[Any]) -> str:
        for label in labels:
            if label is not Ellipsis and not 0 <= label < len(LETTERS):
                raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")
        return "".join(ELLIPSIS if label is Ellipsis else LETTERS[label] for label in labels)

    equation = ",".join(text(labels) for labels in args[1::2])
    if len(args) % 2:
        equation = ",".join(text(labels) for labels in args[1:-1:2]) + "->" + text(args[-1])
        return equation, list(args[: len(args) - 1 : 2])
    return equation, list(args[::2])


@front("einsum")
def einsum(*args: Any) -> Any:
    """Sums of products over named dimensions: `einsum("ij,jk->ik", a, b)`."""
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    if isinstance(args[0], Tensor):
        equation, operands = _from_sublists(args)
    else:
        equation, operands = args[0], list(args[1:])
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        return einsum(equation, *operands[0])
    return _einsum.function(equation, operands)


# --- by axis ----------------------------------------------------------------------------------------------------------


@composite("tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor", out=True, method=False)
def _tensordot(self: Any, other: Any, dims_self: Any, dims_other: Any) -> Any:
    if len(dims_self) != len(dims_other):
        raise RuntimeError("both dimension lists should have same length")
    if self.dtype != other.dtype:
        raise RuntimeError("both inputs should have same dtype")
    mine, others = (wrap_dims(tuple(d), x._a.ndim) for d, x in ((dims_self, self), (dims_other, other)))
    for i, (m, n) in enumerate(zip(mine, others)):
        a, b = self._a.shape[m], other._a.shape[n]
        if b == 1 and a != 1:
            self = self.sum(m, keepdim=True, dtype=self.dtype)
        elif a == 1 and b != 1:
            other = other.sum(n, keepdim=True, dtype=other.dtype)
        elif a != b:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a} in dim {dims_self[i]} and second has "
                f"size {b} in dim {dims_other[i]}"
            )
    free_a = [d for d in range(self._a.ndim) if d not in mine]
    free_b = [d for d in range(other._a.ndim) if d not in others]
    if self._a.ndim and not free_a and not free_b:
        flat_a, flat_b = permute(self, mine).flatten(), permute(other, others).flatten()
        return reshape(dot(flat_a, flat_b), ())
    inner = math.prod(self._a.shape[d] for d in mine)
    shape_a, shape_b = [self._a.shape[d] for d in free_a], [other._a.shape[d] for d in free_b]
    left = reshape(permute(self, (*free_a, *mine)), (math.prod(shape_a), inner))
    right = reshape(permute(other, (*others, *free_b)), (inner, math.prod(shape_b)))
    return reshape(mm(left, right), (*shape_a, *shape_b))


@front("tensordot")
def tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Any:
    """Contract the last dimensions of `a` with the first of `b`, or the given ones of each."""
    if isinstance(dims, (tuple, list)):
        dims_a, dims_b = dims
    elif isinstance(dims, Tensor) and dims.numel() > 1:
        dims_a, dims_b = dims.tolist()
    else:
        if isinstance(dims, str):
            raise RuntimeError(f"tensordot expects dims to be int or a pair of lists of ints, but got dims={dims!r}")
        count = int(dims)
        if count < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={count}")
        if count > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={count}")
        dims_a, dims_b = list(range(-count, 0)), list(range(count))
    dims_a, dims_b = ([d] if isinstance(d, int) else list(d) for d in (dims_a, dims_b))
    return _tensordot.function(a, b, dims_a, dims_b, out=out)


@composite("inner(Tensor self, Tensor other) -> Tensor", out=True)
def _inner(self: Any, other: Any) -> Any:
    if self._a.ndim == 0 or other._a.ndim == 0:
        return self * other
    if self._a.shape[-1] != other._a.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{shape_text(self._a.shape)} and {shape_text(other._a.shape)}"
        )
    return _tensordot.function(self, other, [-1], [-1])


@composite("kron(Tensor self, Tensor other) -> Tensor", out=True)
def _kron(self: Any, other: Any) -> Any:
    ndim = max(self._a.ndim, other._a.ndim)
    a = (1,) * (ndim - self._a.ndim) + self._a.shape
    b = (1,) * (ndim - other._a.ndim) + other._a.shape
    left = unsafe_view(self, tuple(n for m in a for n in (m, 1)))
    right = unsafe_view(other, tuple(n for m in b for n in (1, m)))
    return unsafe_view(left * right, tuple(m * n for m, n in zip(a, b)))


# --- chains and powers ------------------------------------------------------------------------------------------------


def _cheapest(sizes: list[int], count: int) -> list[list[int]]:
    """For each run of matrices i..j the place where splitting it costs the fewest multiplications."""
    cost = [[0] * count for _ in range(count)]
    split = [[0] * count for _ in range(count)]
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = [cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)]
            cost[i][j] = min(options)
            split[i][j] = i + options.index(cost[i][j])
    return split


def _check_chain(tensors: Sequence[Any]) -> None:
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    last = len(tensors) - 1
    for i, x in enumerate(tensors):
        if x._a.ndim != 2 and not (i in (0, last) and x._a.ndim == 1):
            which = {0: "the first tensor must be 1D or 2D", last: "the last tensor must be 1D or 2D"}.get(
                i, f"tensor {i} must be 2D"
            )
            raise RuntimeError(f"multi_dot(): {which} but got {x._a.ndim}D")
        if i and tensors[i - 1]._a.shape[-1] != x._a.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i - 1} and {i} with shapes {shape_text(tensors[i - 1]._a.shape)} and "
                f"{shape_text(x._a.shape)} cannot be multiplied"
            )


@composite("linalg_multi_dot(Tensor[] tensors) -> Tensor", out=True)
def _multi_dot(tensors: Sequence[Any]) -> Any:
    _check_chain(tensors)
    chain = list(tensors)
    shape = [*chain[0]._a.shape[:-1], *chain[-1]._a.shape[1:]]
    if chain[0]._a.ndim == 1:
        chain[0] = unsqueeze(chain[0], 0)
    if chain[-1]._a.ndim == 1:
        chain[-1] = unsqueeze(chain[-1], -1)
    sizes = [*(x._a.shape[0] for x in chain), chain[-1]._a.shape[1]]
    split = _cheapest(sizes, len(chain))

    def multiply(i: int, j: int) -> Any:
        return chain[i] if i == j else mm(multiply(i, split[i][j]), multiply(split[i][j] + 1, j))

    return multiply(0, len(chain) - 1).view(shape)


multi_dot = _multi_dot.function


@composite("chain_matmul(Tensor[] matrices) -> Tensor", out=True)
def _chain_matmul(matrices: Sequence[Any]) -> Any:
    for i, x in enumerate(matrices):
        if x._a.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {x._a.ndim}, expected 2 instead.")
        if i and matrices[i - 1]._a.shape[1] != x._a.shape[0]:
            _check_chain(matrices)
    if len(matrices) == 1:
        return matrices[0].clone()
    chain = list(matrices)
    split = _cheapest([*(x._a.shape[0] for x in chain), chain[-1]._a.shape[1]], len(chain))

    def multiply(i: int, j: int) -> Any:
        return chain[i] if i == j else mm(multiply(i, split[i][j]), multiply(split[i][j] + 1, j))

    result = multiply(0, len(chain) - 1)
    return result.view(result._a.shape)


@front("chain_matmul")
def chain_matmul(*matrices: Any, out: Any = None) -> Any:
    """The product of several matrices, in the cheapest order."""
    warnings.warn(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot "
        "instead, which accepts a list of two or more tensors rather than multiple parameters.",
        stacklevel=2,
    )
    return _chain_matmul.function(list(matrices), out=out)


def _power(self: Any, n: int) -> Any:
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError(f"matrix_power(): argument 'n' must be int, not {type(n).__name__}") from None
    if self._a.ndim < 2 or self._a.shape[-1] != self._a.shape[-2]:
        if self._a.ndim < 2:
            raise RuntimeError("linalg.matrix_power: The input tensor A must have at least 2 dimensions.")
        raise RuntimeError(
            f"linalg.matrix_power: A must be batches of square matrices, but they are {self._a.shape[-2]} by "
            f"{self._a.shape[-1]} matrices"
        )
    if n == 0:
        size = self._a.shape[-1]
        return self.clone().copy_(make(np.eye(size, dtype=self._a.dtype)))
    if n < 0:
        self, n = self.inverse(), -n
    if n == 1:
        return self.clone()
    result, square = None, None
    while n:
        square = self if square is None else matmul(square, square)
        n, odd = divmod(n, 2)
        if odd:
            result = square if result is None else matmul(result, square)
    return result


matrix_power = composite("matrix_power(Tensor self, int n) -> Tensor", out=True)(_power).function
linalg_matrix_power = composite("linalg_matrix_power(Tensor self, int n) -> Tensor", out=True, method=False)(
    _power
).function
