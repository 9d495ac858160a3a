"""Rows that choose by masks: where, masked_*, and the positions of what is true."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import tap
from ...core.device import contiguous_format
from ...core.dtype import FROM_NUMPY, combine, get_default_dtype
from ...core.errors import broadcast_error, refuse_overlap
from ...core.meta import MetaArray, meta
from ...core.tensor import Tensor, make
from ...dispatch.compute import operand_rank
from ...dispatch.front import front
from ...dispatch.inplace import type_name
from ...dispatch.inside import inside
from ...dispatch.op import composite, explicit, mutating, op
from ...kernels import result_layout
from ...kernels.compiled import C
from ...kernels.fitting import fitting, is_single
from ...kernels.indexing import advanced
from ...kernels.indexing import gather_scatter as kernels
from ...kernels.passes import FLOATS
from ...kernels.passes import where as choose
from ..creation import fill
from ..creation.convert import item
from ..meta import shapes
from ..shape.copies import _clone, clone
from ..shape.split import unbind
from ..shape.view import expand, reshape
from .index import warn_bytes

# --- where ------------------------------------------------------------------------------------------------------------


def _common_type(a: Any, b: Any) -> Any:
    """The NumPy dtype two arrays meet in; 0-dim ones count less."""
    if a.dtype is b.dtype or a.dtype == b.dtype:
        return a.dtype
    return combine((2 if x.ndim else 1, FROM_NUMPY[x.dtype]) for x in (a, b)).np


def _mask(condition: Any) -> Any:
    if condition.dtype.kind == "b":
        return condition
    if condition.dtype == np.uint8:
        warn_bytes()
        return condition.astype(np.bool_)
    raise RuntimeError(
        "where expected condition to be a boolean tensor, but got a tensor with dtype "
        f"{type_name(FROM_NUMPY[condition.dtype])}"
    )


@op(
    "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
    meta=shapes.by_kernel,
    layout=result_layout.elementwise,
    method=False,
    quiet=False,
    self=lambda g, condition: where(condition, g, 0),
    other=lambda g, condition: where(condition, 0, g),
)
def _where(condition: Any, a: Any, b: Any) -> Any:
    if C is not None and (found := C.chosen(condition, a, b)) is not None:
        return found
    if a.dtype is b.dtype and condition.shape == a.shape == b.shape and a.size < 2048 and _are_plain(condition, a, b):
        chosen = b.copy()
        np.putmask(chosen, condition, a)  # `np.where` takes a third longer
        return chosen
    dtype = _common_type(a, b)
    if a.dtype is not dtype:
        a = a.astype(dtype)
    if b.dtype is not dtype:
        b = b.astype(dtype)
    if MetaArray in (type(condition), type(a), type(b)):
        return np.where(condition, a, b)
    try:
        return choose(_mask(condition), a, b)
    except ValueError:
        shapes = (condition.shape, a.shape, b.shape)
        pairs = ((1, 2), (0, 1), (0, 2))
        clash = next((p for p in pairs if not _fit(shapes[p[0]], shapes[p[1]])), pairs[0])
        raise broadcast_error(shapes[clash[0]], shapes[clash[1]]) from None


def _are_plain(condition: Any, a: Any, b: Any) -> bool:
    """Whether a mask is one of bools on its own memory, and what it chooses from has memory, too."""
    return (
        condition.dtype.char == "?"
        and type(condition) is type(a) is type(b) is np.ndarray
        and condition.flags.c_contiguous
    )


def _fit(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b), strict=False))


# 0-dim arrays of numbers, remembered.
_NUMBERS: dict[Any, Any] = {
    np.dtype(np.float32): tap.NAMESPACE["F32_NUMBERS"],
    np.dtype(np.float64): tap.NAMESPACE["F64_NUMBERS"],
}


def _lifted(value: Any, other: Any) -> Tensor:
    """A number as a 0-dim tensor of the type it takes part with."""
    d = combine((operand_rank(value), operand_rank(other)))
    return fill._scalar_tensor.function(value, dtype=d)


@composite("where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor", method=False)
def _where_self(condition: Tensor, self: Any, other: Tensor) -> Tensor:
    return _where.function(condition, _lifted(self, other), other)


@composite("where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor", method=False)
def _where_other(condition: Tensor, self: Tensor, other: Any) -> Tensor:
    return _where.function(condition, self, _lifted(other, self))


@composite("where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor", method=False)
def _where_numbers(condition: Tensor, self: Any, other: Any) -> Tensor:
    if type(self) is type(other) is float and not tap.NAMESPACE["HOOK"] and type(condition) is Tensor:
        numbers = FLOATS.get(get_default_dtype().np)
        if numbers is not None:
            return make(_where.kernel(condition._a, numbers[self], numbers[other]))
    d = combine((operand_rank(self), operand_rank(other)))
    values = [fill._scalar_tensor.function(v, dtype=d) for v in (self, other)]
    return _where.function(condition, *values)


@composite("where(Tensor condition) -> Tensor[]", method=False)
def _where_true(condition: Tensor) -> Any:
    return _nonzero_numpy.function(condition)


_MISSING: Any = object()


@front("where")
def where(
    condition: Any, input: Any = _MISSING, other: Any = _MISSING, *, self: Any = _MISSING, out: Any = None
) -> Any:
    """Elements of `input` where `condition` holds, of `other` elsewhere; alone, the positions where it holds."""
    if type(input) is Tensor and type(condition) is Tensor:
        if type(other) is Tensor:
            return _where.function(condition, input, other, out=out)
        if (type(other) is float or type(other) is int) and out is None and not tap.NAMESPACE["HOOK"]:
            return _where.function(condition, input, _plain_number(other, input))
    if self is not _MISSING and input is _MISSING:
        input = self
    if input is _MISSING and other is _MISSING and isinstance(condition, Tensor):
        return _where_true.function(condition)
    if not isinstance(condition, Tensor) or not _is_operand(input) or not _is_operand(other):
        got = ", ".join(type(v).__name__ for v in (condition, input, other) if v is not _MISSING)
        raise TypeError(
            f"where() received an invalid combination of arguments - got ({got}), but expected one of:\n"
            " * (Tensor condition)\n * (Tensor condition, Tensor input, Tensor other, *, Tensor out = None)\n"
            " * (Tensor condition, Number self, Tensor other)\n * (Tensor condition, Tensor input, Number other)\n"
            " * (Tensor condition, Number self, Number other)\n"
        )
    if isinstance(input, Tensor) and isinstance(other, Tensor):
        return _where.function(condition, input, other, out=out)
    if out is not None:
        raise TypeError("where(): argument 'out' needs two tensors to choose from")
    if not tap.NAMESPACE["HOOK"]:
        # Without a recorder nobody sees the number become a tensor.
        if isinstance(input, Tensor):
            return _where.function(condition, input, _plain_number(other, input))
        if isinstance(other, Tensor):
            return _where.function(condition, _plain_number(input, other), other)
    if isinstance(input, Tensor):
        return _where_other.function(condition, input, other)
    return (_where_self if isinstance(other, Tensor) else _where_numbers).function(condition, input, other)


def _plain_number(value: Any, like: Tensor) -> Tensor:
    """A number as a 0-dim tensor beside `like`."""
    numbers = _NUMBERS.get(like._a.dtype) if type(value) in (int, float) and is_single(value) else None
    return _lifted(value, like) if numbers is None else make(numbers[value])


def _is_operand(value: Any) -> bool:
    return isinstance(value, (Tensor, int, float, complex, np.number, np.bool_))


def _where_method(self: Tensor, condition: Any, other: Any = _MISSING) -> Tensor:
    """This tensor's elements where `condition` holds, those of `other` elsewhere."""
    return where(condition, self, other)


_where_method.__name__ = _where_method.__qualname__ = "where"
Tensor.where = _where_method  # type: ignore[attr-defined]

# --- masked_fill ------------------------------------------------------------------------------------------------------


def _check_mask(mask: Any) -> None:
    if mask.dtype.kind != "b":
        raise RuntimeError(
            f"masked_fill_ only supports boolean masks, but got mask with dtype {FROM_NUMPY[mask.dtype].cpp_name}"
        )


def _fill_value(a: Any, value: Any) -> Any:
    """The number that fills, as a 0-dim array of the type it goes into."""
    if isinstance(value, np.ndarray):
        if value.ndim:
            raise RuntimeError(
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
        value = value.item() if value.dtype.kind != "V" else float(value)
    value = fitting(value, a.dtype)
    numbers = _NUMBERS.get(a.dtype)
    return np.asarray(value).astype(a.dtype) if numbers is None else numbers[value]


def _masked_fill_array(a: Any, mask: Any, value: Any) -> Any:
    _check_mask(mask)
    try:
        filled = choose(mask, _fill_value(a, value), a)
    except ValueError:
        raise broadcast_error(mask.shape, a.shape) from None
    return filled if filled.flags.c_contiguous else filled.copy()


def _filled_quickly(a: Any, mask: Any, value: Any) -> Any:
    """`_masked_fill_array` by the compiled loop, where that knows the arrays and the number."""
    made = C.filled(a, mask, value, False)
    return _masked_fill_array(a, mask, value) if made is None else made


def _filled_copy(a: Any, mask: Any, value: Any) -> Any:
    """`_masked_fill_array` with a mask of the same shape."""
    filled = a.copy()
    np.putmask(filled, mask, _fill_value(a, value))
    return filled


_OF_ONE_SHAPE = (
    "mask._a.dtype is BOOL and (input._a.dtype is F32 or input._a.dtype is F64) and input._a.size < 2048"
    " and mask._a.shape == input._a.shape and input._a.flags.c_contiguous"
)


_FILLED_COPY: Any = (_OF_ONE_SHAPE, _filled_copy) if C is None else ("input._a.flags.c_contiguous", _filled_quickly)


def _masked_fill_into(a: Any, mask: Any, value: Any) -> None:
    if C is not None and C.filled(a, mask, value, True) is not None:
        return
    _check_mask(mask)
    if a.size < 2048 and a.shape == mask.shape and type(a) is type(mask) is np.ndarray and a.flags.c_contiguous:
        np.putmask(a, mask, _fill_value(a, value))
        return
    if type(a) is MetaArray:
        return
    try:
        np.copyto(a, _fill_value(a, value), where=mask)
    except ValueError:
        if not _fit(a.shape, mask.shape):
            raise broadcast_error(a.shape, mask.shape) from None
        spread = np.broadcast_shapes(a.shape, mask.shape)
        raise RuntimeError(
            f"output with shape {list(a.shape)} doesn't match the broadcast shape {list(spread)}"
        ) from None


_KEEP: dict[str, Any] = {"self": lambda g, mask: masked_fill(g, mask, 0)}
_KEEP_VALUE: dict[str, Any] = {**_KEEP, "value": lambda g, mask: where(mask, g, 0).sum()}


_clone_inside = inside(_clone)


def _filled_by_item(self: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    _masked_fill_into(self._a, mask._a, value._a if value._a.ndim else item.function(value))
    return self


def _masked_fill_rows(overload: str, node: str, formulas: dict[str, Any]) -> tuple[Any, Any]:
    """The functional and the in-place row of one overload of masked_fill."""
    tail = f"Tensor mask, {overload} value) -> Tensor"
    calls = _filled_by_item if overload == "Tensor" else None
    in_place = mutating(f"masked_fill_.{overload}(Tensor(a!) self, {tail}(a!)", node=node, calls=calls, **formulas)(
        lambda a, mask, value: _masked_fill_into(a, mask, value)
    )

    def called(self: Tensor, mask: Tensor, value: Any) -> Tensor:
        _check_mask(mask._a)
        shape = self._a.shape
        if mask._a.shape != shape:
            if not _fit(shape, mask._a.shape):
                raise broadcast_error(mask._a.shape, shape)
            spread = np.broadcast_shapes(shape, mask._a.shape)
            self = self if spread == shape else expand(self, size=spread)
        filled: Tensor = in_place_inside(_clone_inside(self, contiguous_format), mask, value)
        return filled

    in_place_inside = inside(in_place)

    functional = op(
        f"masked_fill.{overload}(Tensor self, {tail}",
        meta=shapes.two_broadcast,
        node=node,
        out=False,
        calls=called,
        fast=_FILLED_COPY,
        **formulas,
    )(lambda a, mask, value: _masked_fill_array(a, mask, value))
    return functional, in_place


_BY_NUMBER = _masked_fill_rows("Scalar", "MaskedFillBackward0", _KEEP)
_BY_TENSOR = _masked_fill_rows("Tensor", "MaskedFillBackward1", _KEEP_VALUE)


def _fill_rows(value: Any, name: str, mask: Any) -> tuple[Any, Any]:
    if isinstance(value, Tensor):
        return _BY_TENSOR
    if not isinstance(value, (int, float, complex, np.number, np.bool_)):
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({type(mask).__name__}, "
            f"{type(value).__name__}), but expected one of:\n * (Tensor mask, Tensor value)\n * (Tensor mask, Number "
            "value)\n"
        )
    return _BY_NUMBER


@front("masked_fill")
def masked_fill(input: Tensor, mask: Any, value: Any) -> Tensor:
    """A copy with `value` where `mask` is true."""
    if type(value) is float or type(value) is int:
        return _BY_NUMBER[0].function(input, mask, value)
    return _fill_rows(value, "masked_fill", mask)[0].function(input, mask, value)


@front("masked_fill_")
def masked_fill_(input: Tensor, mask: Any, value: Any) -> Tensor:
    """Write `value` where `mask` is true."""
    if type(value) is float or type(value) is int:
        return _BY_NUMBER[1].function(input, mask, value)
    return _fill_rows(value, "masked_fill_", mask)[1].function(input, mask, value)


# --- masked_select, masked_scatter ------------------------------------------------------------------------------------


@op(
    "masked_select(Tensor self, Tensor mask) -> Tensor",
    meta=shapes.needs_values,
    out="exact",
    self=lambda g, self_sizes, mask: _select_gradient(g, self_sizes, mask),
)
def _masked_select(a: Any, mask: Any) -> Any:
    return kernels.masked_select(a, mask)


masked_select = _masked_select.function


def _select_gradient(g: Tensor, sizes: tuple[int, ...], mask: Tensor) -> Tensor:
    """What was selected, put back; the engine sums what broadcasting spread."""
    whole = fill._zeros.function(np.broadcast_shapes(sizes, mask._a.shape), dtype=g.dtype)
    return masked_scatter_(whole, mask, g)


_SCATTER: dict[str, Any] = {
    "self": lambda g, mask: masked_fill(g, mask, 0),
    "source": lambda g, mask, source_sizes: masked_scatter_backward(g, mask, source_sizes),
}


@mutating(
    "masked_scatter_(Tensor(a!) self, Tensor mask, Tensor source) -> Tensor(a!)",
    node="MaskedScatterBackward0",
    **_SCATTER,
)
def _masked_scatter_(a: Any, mask: Any, source: Any) -> None:
    if type(a) is MetaArray:
        return
    refuse_overlap(a)
    if mask.shape != a.shape:
        try:
            mask = np.broadcast_to(mask, a.shape)
        except ValueError:
            raise broadcast_error(a.shape, mask.shape) from None
    a[...] = kernels.masked_scatter(a, mask, source)


masked_scatter_ = _masked_scatter_.function


@explicit("masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", out=False, **_SCATTER)
def _masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    shape = np.broadcast_shapes(self._a.shape, mask._a.shape)
    spread = self if self._a.shape == shape else expand(self, size=shape)
    whole = clone(spread, memory_format=contiguous_format)
    return masked_scatter_(whole, mask, source)


@op(
    "masked_scatter_backward(Tensor grad_output, Tensor mask, int[] sizes) -> Tensor",
    meta=shapes.by_kernel,
    out=False,
    method=False,
    grad_output=lambda g, grad_output_sizes, mask: masked_scatter_(
        fill._zeros.function(grad_output_sizes, dtype=g.dtype), mask, reshape(g, shape=(-1,))
    ),
)
def _masked_scatter_backward(g: Any, mask: Any, sizes: tuple[int, ...]) -> Any:
    return meta(sizes, g.dtype) if type(g) is MetaArray else kernels.masked_scatter_backward(g, mask, sizes)


masked_scatter_backward = _masked_scatter_backward.function

# --- positions --------------------------------------------------------------------------------------------------------


def _lay_out_places(made: Any, a: Any) -> Any:
    """Indices of elements that do not lie in row-major order are found dimension by dimension."""
    return made if a.flags.c_contiguous else result_layout.arranged(made, (1, max(len(made), 1)))


@op("nonzero(Tensor self) -> Tensor", meta=shapes.needs_values, quiet=False, layout=_lay_out_places)
def _nonzero(a: Any) -> Any:
    if type(a) is MetaArray:
        raise NotImplementedError("the number of nonzero elements of a meta tensor is not known")
    if a.ndim == 0:
        return np.zeros((int(bool(a)), 0), np.int64)
    return advanced.nonzero(a).T


@composite("nonzero_numpy(Tensor self) -> Tensor[]")
def _nonzero_numpy(self: Tensor) -> Any:
    if self._a.ndim == 0:
        return _nonzero_numpy.function(reshape(self, shape=(1,)))
    return unbind(_nonzero.function(self), 1)


@front("nonzero")
def nonzero(input: Tensor, *, as_tuple: bool = False, out: Any = None) -> Any:
    """The positions of what is not zero: as rows, or as one tensor per dimension."""
    if not isinstance(as_tuple, bool):
        raise TypeError(f"nonzero(): argument 'as_tuple' must be bool, not {type(as_tuple).__name__}")
    return _nonzero_numpy.function(input) if as_tuple else _nonzero.function(input, out=out)


@composite("argwhere(Tensor self) -> Tensor")
def _argwhere(self: Tensor) -> Tensor:
    return _nonzero.function(self)


@op(
    "nonzero_static(Tensor self, *, int size, int fill_value=-1) -> Tensor",
    meta=shapes.result_rule(lambda a, size, fill_value: meta((size, a.ndim), shapes.INT64)),
)
def _nonzero_static(a: Any, size: int, fill_value: int) -> Any:
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    found = np.full((size, a.ndim), fill_value, np.int64)
    positions = np.argwhere(a)[:size]
    found[: len(positions)] = positions
    return found
