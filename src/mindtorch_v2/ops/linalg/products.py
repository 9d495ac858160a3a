"""Rows of matrix products: vectors, matrices and batches of matrices.

`matmul` chooses among them; contractions by name or axis (einsum, tensordot) are in `contract`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...autograd import grad_mode, graph
from ...core import tap
from ...core.dtype import FROM_NUMPY
from ...core.errors import shape_text
from ...core.tensor import FAST, Tensor, make
from ...dispatch.inside import inside
from ...dispatch.op import composite, in_place, op
from ...kernels import result_layout
from ...kernels.checks import not_implemented, type_name
from ...kernels.compiled import C, stand_in
from ...kernels.linalg.products import FEW_ROWS, WORTH_TURNING, times, times_plus
from ...kernels.precision import cast, is_half, wide
from .. import flops
from ..creation.fill import empty_inside
from ..meta import shapes
from ..shape.permute import inner_t, t, transpose
from ..shape.view import expand, expand_row, reshape, type_text, unsqueeze

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
_plus = stand_in(np.add)


def conj(x: Tensor) -> Any:
    """The conjugate of a complex tensor; a real one as it is, without an event."""
    return x.conj() if x._a.dtype.kind == "c" else x


def scaled(x: Any, factor: Any) -> Any:
    """`x` times a number; `x` itself where that is 1."""
    return x if factor == 1 else x * (factor.conjugate() if isinstance(factor, complex) else factor)


def cpp_name(a: Any) -> str:
    return FROM_NUMPY[a.dtype].cpp_name


def graph_wanted(*tensors: Any) -> bool:
    for x in tensors:
        if (x._ag if x._view is None else graph.edge(x)) is not None:
            return grad_mode.is_grad_enabled()
    return False


# --- arrays -----------------------------------------------------------------------------------------------------------


def wide_product(a: Any, b: Any) -> Any:
    """The matrix product of arrays whose types agree; of 16-bit floats in float32."""
    if is_half(a.dtype):
        return np.matmul(cast(a, F32), cast(b, F32))
    if a.ndim == 2 == b.ndim:
        return times(a, b)
    return a.dot(b) if a.ndim < 3 and b.ndim < 3 and a.ndim and len(a) <= FEW_ROWS else np.matmul(a, b)


def product(a: Any, b: Any) -> Any:
    """The matrix product in the type of its operands."""
    return cast(wide_product(a, b), a.dtype) if is_half(a.dtype) else wide_product(a, b)


def sum_of(c: Any, ab: Any, beta: Any, alpha: Any) -> Any:
    """`beta * c + alpha * ab`; `c` does not count at all where beta is 0."""
    if is_half(c.dtype):
        return cast(sum_of(cast(c, F32), cast(ab, F32), beta, alpha), c.dtype)
    if alpha != 1:
        ab = ab * np.asarray(alpha).astype(ab.dtype)
    if beta == 0:
        return ab
    return ab + (c if beta == 1 else c * np.asarray(beta).astype(c.dtype))


def refuse_bool(name: str, a: Any) -> None:
    if a.dtype.kind == "b":
        raise not_implemented(name, a.dtype)


def _check_multiply(a: Any, b: Any) -> None:
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
        )


def check_expands(c: Any, target: tuple[int, ...]) -> None:
    """The error of `expand` unless `c` broadcasts to `target`."""
    if c.ndim > len(target):
        raise RuntimeError(
            f"expand({type_text(c)}{{{shape_text(c.shape)}}}, size={shape_text(target)}): the number of sizes provided "
            f"({len(target)}) must be greater or equal to the number of dimensions in the tensor ({c.ndim})"
        )
    lead = len(target) - c.ndim
    for i in range(c.ndim - 1, -1, -1):
        if c.shape[i] not in (1, target[lead + i]):
            raise RuntimeError(
                f"The expanded size of the tensor ({target[lead + i]}) must match the existing size ({c.shape[i]}) at "
                f"non-singleton dimension {lead + i}.  Target sizes: {shape_text(target)}.  Tensor sizes: "
                f"{shape_text(c.shape)}"
            )


# --- matrices ---------------------------------------------------------------------------------------------------------


def _column_major(sizes: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    return strides[0] == itemsize and strides[1] == sizes[0] * itemsize


def _are_unwatched(g: Any, other: Any) -> bool:
    """Whether only the values of products of these count: no event is to be recorded and no graph built."""
    d = other._a.dtype
    return (
        not tap.NAMESPACE["HOOK"]
        and type(g) is Tensor
        and type(other) in FAST
        and (d is F32 or d is F64)
        and g._a.dtype is d
        and not grad_mode.is_grad_enabled()
    )


def left_gradient(g: Any, mat2: Any, sizes: Any, strides: Any) -> Any:
    """Gradient of the left factor, laid out in memory as that is."""
    if _are_unwatched(g, mat2):
        if _column_major(sizes, strides, g._a.itemsize):
            return make(wide_product(mat2._a, g._a.T).T)
        return make(wide_product(g._a, mat2._a.T))
    conjugate = mat2._a.dtype.kind == "c"
    if _column_major(sizes, strides, g._a.itemsize):
        return inner_t(inner_mm(conj(mat2) if conjugate else mat2, inner_t(g)))
    return inner_mm(g, conj(inner_t(mat2)) if conjugate else inner_t(mat2))


def right_gradient(g: Any, mat1: Any, sizes: Any, strides: Any) -> Any:
    """Gradient of the right factor, laid out in memory as that is."""
    if _are_unwatched(g, mat1):
        if _column_major(sizes, strides, g._a.itemsize):
            return make(wide_product(g._a.T, mat1._a).T)
        return make(wide_product(mat1._a.T, g._a))
    conjugate = mat1._a.dtype.kind == "c"
    if _column_major(sizes, strides, g._a.itemsize):
        return inner_t(inner_mm(inner_t(g), conj(mat1) if conjugate else mat1))
    return inner_mm(conj(inner_t(mat1)) if conjugate else inner_t(mat1), g)


_ALIKE = "input._a.dtype is {0}._a.dtype and (input._a.dtype is F32 or input._a.dtype is F64) and "
_RANKS = _ALIKE.format("mat2") + "input._a.ndim == {0} and mat2._a.ndim == {0} and "
_PLAIN_MATRICES = _RANKS.format(2) + f"len(input._a) <= {FEW_ROWS} and mat2._a.size < {WORTH_TURNING}"
_PLAIN_BATCHES = _RANKS.format(3) + "len(input._a) == len(mat2._a) and input._a.size <= 4096"
_PLAIN_VECTORS = _ALIKE.format("tensor") + "input._a.ndim == 1 and input._a.shape == tensor._a.shape"


@op(
    "mm(Tensor self, Tensor mat2) -> Tensor",
    all_flops=flops.matrix_product,
    meta=shapes.shape_rule(shapes.matrix_product),
    autocast="lower_precision",
    asked=None if C is None else C.times,
    fast=(_PLAIN_MATRICES, np.ndarray.dot) if C is None else None,
    flops=lambda i: 2 * i.shapes[0][0] * i.shapes[0][1] * i.shapes[1][1],
    self=lambda g, mat2, self_sizes, self_strides: left_gradient(g, mat2, self_sizes, self_strides),
    mat2=lambda g, self, mat2_sizes, mat2_strides: right_gradient(g, self, mat2_sizes, mat2_strides),
)
def _mm(a: Any, b: Any) -> Any:
    if a.ndim != 2 or b.ndim != 2:
        raise RuntimeError(f"{'self' if a.ndim != 2 else 'mat2'} must be a matrix")
    _check_multiply(a, b)
    if a.dtype != b.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {cpp_name(a)} != {cpp_name(b)}")
    refuse_bool("addmm_impl_cpu_", a)
    return product(a, b)


mm = _mm.function
inner_mm = inside(_mm)


# The shape of a product, and whether there is one, in generated code.
_ROWS, _COLUMNS = "mat1._a.shape[0]", "mat2._a.shape[1]"
_FITS = "mat1._a.ndim == mat2._a.ndim == 2 and mat1._a.shape[1] == mat2._a.shape[0]"


def _addmm_expanded(self: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any) -> Any:
    """addmm with the expansion of its first argument as an op of its own; the sum is quicker without it."""
    if mat1._a.ndim == mat2._a.ndim == 2:
        target = (mat1._a.shape[0], mat2._a.shape[1])
        if self._a.shape != target and mat1._a.shape[1] == mat2._a.shape[0]:
            expand(self, target)
    return make(add_product(self._a, mat1._a, mat2._a, beta, alpha))


def add_product(c: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    """`beta * c + alpha * a @ b`."""
    if C is not None and (made := C.add_product(c, a, b, beta, alpha)) is not None:
        return made
    d = a.dtype
    if (d is F32 or d is F64) and b.dtype is d and c.dtype is d and a.ndim == 2 and b.ndim == 2:
        if beta == 1 and alpha == 1:
            try:
                return times_plus(a, b, c, _plus)
            except ValueError:
                pass
    return _addmm_checked(c, a, b, beta, alpha)


def _addmm_checked(c: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    for name, x in (("mat1", a), ("mat2", b)):
        if x.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {x.ndim}-D tensor")
    _check_multiply(a, b)
    for name, x in (("self", c), ("mat1", a)):
        if x.dtype != b.dtype:
            raise RuntimeError(
                f"{name} and mat2 must have the same dtype, but got {type_name(x.dtype)} and {type_name(b.dtype)}"
            )
    check_expands(c, (a.shape[0], b.shape[1]))
    refuse_bool("addmm_impl_cpu_", a)
    return sum_of(c, wide_product(a, b), beta, alpha)


addmm_row = op(
    "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    all_flops=flops.addmm,
    meta=shapes.shape_rule(lambda c, a, b, *rest: shapes.added_product(c, shapes.matrix_product(a, b))),
    autocast="lower_precision",
    asked=None if C is None else C.add_product,
    calls=_addmm_expanded,
    ahead=(
        expand_row,
        ("input", f"({_ROWS}, {_COLUMNS})", "False"),
        f"{_FITS} and input._a.shape != ({_ROWS}, {_COLUMNS})",
    ),
    quiet=False,
    flops=lambda i: 2 * i.shapes[1][0] * i.shapes[1][1] * i.shapes[2][1],
    self=lambda g, beta: scaled(g, beta),
    mat1=lambda g, mat2, mat1_sizes, mat1_strides, alpha: scaled(
        left_gradient(g, mat2, mat1_sizes, mat1_strides), alpha
    ),
    mat2=lambda g, mat1, mat2_sizes, mat2_strides, alpha: scaled(
        right_gradient(g, mat1, mat2_sizes, mat2_strides), alpha
    ),
)(add_product)
addmm = addmm_row.function
addmm_ = in_place(addmm_row)


# --- vectors ----------------------------------------------------------------------------------------------------------


def _by_vector(a: Any, x: Any) -> Any:
    """The product of a matrix or vector with a vector of its type."""
    return a.dot(x) if a.dtype is F32 or a.dtype is F64 else product(a, x)


def _mv_array(a: Any, x: Any) -> Any:
    d = a.dtype
    if (d is F32 or d is F64) and x.dtype is d and a.ndim == 2 and x.ndim == 1:
        try:
            return _by_vector(a, x)
        except ValueError:
            pass
    if a.ndim != 2 or x.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {a.ndim}, {x.ndim}")
    return _addmv_array(np.zeros(a.shape[0], x.dtype), a, x, 0, 1)


def _addmv_array(c: Any, a: Any, x: Any, beta: Any, alpha: Any) -> Any:
    if a.ndim != 2 or x.ndim != 1 or c.ndim > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {c.ndim}, {a.ndim}, {x.ndim}")
    if a.shape[1] != x.shape[0] or (c.ndim and c.shape[0] not in (1, a.shape[0])):
        raise RuntimeError(
            f"size mismatch, got input ({c.shape[0] if c.ndim else 1}), mat ({a.shape[0]}x{a.shape[1]}), "
            f"vec ({x.shape[0]})"
        )
    if not c.dtype == a.dtype == x.dtype:
        names = [type_name(v.dtype) for v in (c, a, x)]
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {names[0]}, {names[1]}, and {names[2]}"
        )
    refuse_bool("addmv_impl_cpu", a)
    return sum_of(c, _by_vector(a, x) if a.dtype in (F32, F64) else wide_product(a, x), beta, alpha)


addmv_row = op(
    "addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    all_flops=lambda record: 2 * flops.numel(record, 1) + flops.added(record, record.shapes[1][0]),
    meta=shapes.shape_rule(lambda c, a, b, *rest: shapes.added_product(c, shapes.vector_product(a, b))),
    self=lambda g, beta: scaled(g, beta),
    mat=lambda g, vec, alpha: scaled(ger(g, conj(vec)), alpha),
    vec=lambda g, mat, alpha: scaled(mv(t(conj(mat)), g), alpha),
)(_addmv_array)
addmv = addmv_row.function
addmv_ = in_place(addmv_row)


def _product_into(c: Any, a: Any, x: Any, beta: Any, alpha: Any) -> None:
    c[...] = _mv_array(a, x)


_addmv_inside = inside(addmv_, kernel=_product_into)  # where only the product counts


def _mv_calls(self: Any, vec: Any) -> Any:
    if self._a.ndim != 2 or vec._a.ndim != 1:
        return make(_mv_array(self._a, vec._a))
    return _addmv_inside(empty_inside((self._a.shape[0],), vec.dtype, None, self.device, False, None), self, vec, 0, 1)


mv = op(
    "mv(Tensor self, Tensor vec) -> Tensor",
    all_flops=flops.each(2, 1),
    meta=shapes.shape_rule(shapes.vector_product),
    calls=_mv_calls,
    self=lambda g, vec: ger(g, conj(vec)),
    vec=lambda g, self: mv(t(conj(self)), g),
)(_mv_array).function


def _check_dot(name: str, a: Any, b: Any) -> None:
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {type_name(a.dtype)} and {type_name(b.dtype)}"
        )
    if a.shape != b.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor {shape_text(a.shape)} and src {shape_text(b.shape)} to have "
            f"the same number of elements, but got {a.size} and {b.size} elements respectively"
        )
    refuse_bool(name, a)


@op(
    "dot(Tensor self, Tensor tensor) -> Tensor",
    all_flops=flops.each(2, 1),
    meta=shapes.single,
    fast=(_PLAIN_VECTORS, np.ndarray.dot),
    self=lambda g, tensor: g * conj(tensor),
    tensor=lambda g, self: g * conj(self),
)
def _dot(a: Any, b: Any) -> Any:
    if a.ndim != 1 or b.ndim != 1 or a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind not in "fc":
        _check_dot("dot", a, b)
    return product(a, b)


dot = _dot.function


def _vdot_calls(self: Any, other: Any) -> Any:
    if self._a.dtype.kind == "c":
        return make(_vdot_array(self._a, other._a))
    return dot(self, other)


def _vdot_array(a: Any, b: Any) -> Any:
    _check_dot("vdot", a, b)
    return np.vdot(a, b) if a.dtype.kind == "c" else _by_vector(a, b)


vdot = op(
    "vdot(Tensor self, Tensor other) -> Tensor",
    all_flops=flops.each(2, 1),
    meta=shapes.single,
    calls=_vdot_calls,
    self=lambda g, other: conj(g) * other,
    other=lambda g, self: g * self,
)(_vdot_array).function


@composite("outer(Tensor self, Tensor vec2) -> Tensor", out=True)
def _outer(self: Any, vec2: Any) -> Any:
    for name, x in (("self", self), ("vec2", vec2)):
        if x._a.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {x._a.ndim}-D")
    plain = type(self) in FAST and type(vec2) in FAST and not tap.NAMESPACE["HOOK"]
    if plain and self._a.dtype is vec2._a.dtype is F32 and not graph_wanted(self, vec2):
        return make(np.multiply(self._a[:, None], vec2._a))
    return reshape(self, (self._a.shape[0], 1)) * vec2


outer = _outer.function
ger = composite("ger(Tensor self, Tensor vec2) -> Tensor", out=True)(lambda self, vec2: outer(self, vec2)).function


def _addr_array(c: Any, x: Any, y: Any, beta: Any, alpha: Any) -> Any:
    for name, v in (("vec1", x), ("vec2", y)):
        if v.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {v.ndim}-D")
    check_expands(c, (x.shape[0], y.shape[0]))
    x, y = wide(x), wide(y)
    return sum_of(c, x[:, None] * y, beta, alpha)


addr_row = op(
    "addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    all_flops=flops.addr,
    meta=shapes.shape_rule(lambda c, a, b, *rest: shapes.added_product(c, (a.shape[0], b.shape[0]))),
    layout=lambda made, a, x, y, *rest: result_layout.elementwise(made, a, x.reshape(-1, 1), y),
    self=lambda g, beta: scaled(g, beta),
    vec1=lambda g, vec2, alpha: scaled(mv(g, conj(vec2)), alpha),
    vec2=lambda g, vec1, alpha: scaled(mv(t(g), conj(vec1)), alpha),
)(_addr_array)
addr = addr_row.function
addr_ = in_place(addr_row)


# --- batches ----------------------------------------------------------------------------------------------------------


def batches(a: Any, b: Any) -> Any:
    """The products of as many matrices, side by side: NumPy keeps the order in which dimensions before them lie."""
    made = None if C is None else C.product(a, b)
    if made is None:
        made = product(a, b)
    return made if made.flags.c_contiguous else made.copy()


def _check_batches(name: str, a: Any, b: Any) -> None:
    for label, x in (("batch1", a), ("batch2", b)):
        if x.ndim != 3:
            raise RuntimeError(f"{label} must be a 3D tensor")
    if b.shape[:2] != (a.shape[0], a.shape[2]):
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, {a.shape[2]}] but got: "
            f"[{b.shape[0]}, {b.shape[1]}]."
        )
    if a.dtype != b.dtype:
        raise RuntimeError(f"expected scalar type {type_name(a.dtype)} but found {type_name(b.dtype)}")
    refuse_bool(name, a)


@op(
    "bmm(Tensor self, Tensor mat2) -> Tensor",
    all_flops=flops.matrix_product,
    meta=shapes.shape_rule(shapes.batch_product),
    autocast="lower_precision",
    fast=(_PLAIN_BATCHES, batches),
    flops=lambda i: 2 * math.prod(i.shapes[0]) * i.shapes[1][2],
    self=lambda g, mat2: bmm(g, conj(transpose(mat2, 1, 2))),
    mat2=lambda g, self: bmm(conj(transpose(self, 1, 2)), g),
)
def _bmm(a: Any, b: Any) -> Any:
    if (
        a.ndim != 3
        or b.ndim != 3
        or a.dtype.kind not in "fc"
        or a.dtype != b.dtype
        or a.shape[0] != b.shape[0]
        or a.shape[2] != b.shape[1]
    ):
        _check_batches("bmm", a, b)
    return batches(a, b)


bmm = _bmm.function


def _baddbmm_array(c: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    _check_batches("baddbmm", a, b)
    if c.dtype != a.dtype:
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {cpp_name(c)}, batch1: {cpp_name(a)}, batch2: {cpp_name(b)}"
        )
    check_expands(c, (a.shape[0], a.shape[1], b.shape[2]))
    return sum_of(c, wide_product(a, b), beta, alpha)


def _baddbmm_expanded(self: Any, batch1: Any, batch2: Any, beta: Any, alpha: Any) -> Any:
    _check_batches("baddbmm", batch1._a, batch2._a)
    target = (*batch1._a.shape[:2], batch2._a.shape[2])
    c = self if self._a.shape == target else expand(self, target)
    return make(_baddbmm_array(c._a, batch1._a, batch2._a, beta, alpha))


baddbmm_row = op(
    "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    all_flops=flops.baddbmm,
    meta=shapes.shape_rule(lambda c, a, b, *rest: shapes.added_product(c, shapes.batch_product(a, b))),
    autocast="lower_precision",
    calls=_baddbmm_expanded,
    flops=lambda i: 2 * math.prod(i.shapes[1]) * i.shapes[2][2],
    self=lambda g, beta: scaled(g, beta),
    batch1=lambda g, batch2, alpha: scaled(bmm(g, conj(transpose(batch2, 1, 2))), alpha),
    batch2=lambda g, batch1, alpha: scaled(bmm(conj(transpose(batch1, 1, 2)), g), alpha),
)(_baddbmm_array)
baddbmm = baddbmm_row.function
baddbmm_ = in_place(baddbmm_row)


def _spread(g: Any, count: int) -> Any:
    return expand(unsqueeze(g, 0), (count, *g._a.shape))


def _addbmm_array(c: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    if a.ndim == b.ndim == 3 and a.shape[0] != b.shape[0]:
        raise RuntimeError(f"batch1 and batch2 must have same number of batches, got {a.shape[0]} and {b.shape[0]}")
    _check_batches("addbmm", a, b)
    check_expands(c, (a.shape[1], b.shape[2]))
    # All batches in one product: rows side by side against columns one below the other.
    rows = np.moveaxis(a, 0, 1).reshape(a.shape[1], -1)
    return sum_of(c, wide_product(rows, b.reshape(-1, b.shape[2])), beta, alpha)


addbmm_row = op(
    "addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    all_flops=flops.addbmm,
    meta=shapes.shape_rule(lambda c, a, b, *rest: shapes.added_product(c, shapes.batch_product(a, b)[1:])),
    autocast="lower_precision",
    self=lambda g, beta: scaled(g, beta),
    batch1=lambda g, batch2, alpha: scaled(bmm(_spread(g, batch2._a.shape[0]), conj(transpose(batch2, 1, 2))), alpha),
    batch2=lambda g, batch1, alpha: scaled(bmm(conj(transpose(batch1, 1, 2)), _spread(g, batch1._a.shape[0])), alpha),
)(_addbmm_array)
addbmm = addbmm_row.function
addbmm_ = in_place(addbmm_row)
