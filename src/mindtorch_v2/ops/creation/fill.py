"""Rows that make tensors: empty, filled, like others, ranges; and the in-place fills they are made of.

While a recorder is on they really run the ops they consist of (`empty`, `fill_`, …); otherwise one kernel does it.
"""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from ...autograd.memory.resize import resize
from ...core import device as _device
from ...core import dtype as _dtype
from ...core import tap
from ...core.dtype import dtype as DType
from ...core.errors import broadcast_error, no_memory, refuse_overlap, refuse_shared, shape_text
from ...core.meta import MetaArray, meta
from ...core.tensor import FAST, Tensor, bump, make, settle_class
from ...dispatch.front import front
from ...dispatch.inside import inside
from ...dispatch.op import composite, explicit, mutating, op
from ...kernels import result_layout
from ...kernels.compiled import C
from ...kernels.fitting import fitting, is_single
from ...kernels.result_layout import is_row_major
from ..meta import shapes

_OPTIONS = "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False"
_NAMESPACE = tap.NAMESPACE
_DOUBLE = np.dtype(np.float64)
_LIKE = f"Tensor self, {_OPTIONS}, MemoryFormat? memory_format=None"


def np_dtype(d: DType | None) -> Any:
    """The NumPy dtype of a dtype argument; the default floating point type for None."""
    if d is None:
        return _dtype.get_default_dtype().np
    found = _dtype.as_dtype(d)
    if isinstance(found, DType):
        return found.np
    raise TypeError(f"dtype must be torch.dtype (got {type(d).__name__}: {d!r})")


def checked_size(size: Any) -> tuple[int, ...]:
    """A size as plain ints; negative ones are an error."""
    sizes = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    sizes = tuple(index(n) for n in sizes)
    if any(n < 0 for n in sizes):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(sizes)}: {list(sizes)}")
    return sizes


def _check_size(name: str, size: Any) -> None:
    """TypeError, in torch's words, for what is no size."""
    if isinstance(size, (int, np.integer, Tensor)):
        return
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"{name}(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}")
    for position, n in enumerate(size, 1):
        if not isinstance(n, (int, np.integer, Tensor)) and not hasattr(n, "__index__"):
            raise TypeError(
                f"{name}(): argument 'size' failed to unpack the object at pos {position} with error \"type must be tuple "
                f'of ints,but got {type(n).__name__}"'
            )


def blank(size: Any, np_type: Any, device: Any) -> Any:
    """Memory (or none, on meta) of this size."""
    if (device is not None and device is not _device.CPU) or _device._default_stack:
        if _device.usable(device).type == "meta":
            return meta(checked_size(size), np_type)
    try:
        return np.empty(size, np_type)
    except (TypeError, ValueError):
        return np.empty(checked_size(size), np_type)


def _filled(a: Any, value: Any) -> Any:
    if type(a) is not MetaArray:
        a.fill(value)
    return a


@op(f"empty.memory_format(int[] size, {_OPTIONS}, MemoryFormat? memory_format=None) -> Tensor", out=False)
def _empty(size: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any, memory_format: Any) -> Any:
    np_type = _dtype._Default.real.np if dtype is None else dtype.np if type(dtype) is DType else np_dtype(dtype)
    made = blank(size, np_type, device)
    if memory_format is None or memory_format is _device.contiguous_format:
        return made
    if memory_format is _device.preserve_format:
        raise RuntimeError("unsupported memory format option Preserve")
    return result_layout.in_strides(made, result_layout.format_strides(made.shape, memory_format))


empty = _empty.function
empty_inside = inside(_empty)


@op(
    f"ones(int[] size, {_OPTIONS}) -> Tensor",
    out=False,
    calls=lambda size, dtype, layout, device, pin_memory: _fill_inside(
        empty_inside(size, dtype, None, device, False, None), 1.0
    ),
)
def _ones(size: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
    return _filled(blank(size, np_dtype(dtype), device), 1)


@op(
    f"zeros(int[] size, {_OPTIONS}) -> Tensor",
    out=False,
    calls=lambda size, dtype, layout, device, pin_memory: _zero_inside(
        empty_inside(size, dtype, None, device, False, None)
    ),
)
def _zeros(size: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
    return _filled(blank(size, np_dtype(dtype), device), 0)


def fill_dtype(value: Any, dtype: Any) -> DType:
    """The dtype of `full` where none is given: that of the value."""
    return _dtype.as_dtype(dtype) if dtype is not None else _dtype.number_type(value)


@op(
    f"full(int[] size, Scalar fill_value, {_OPTIONS}) -> Tensor",
    out=False,
    calls=lambda size, fill_value, dtype, layout, device, pin_memory: _fill_any(
        empty_inside(size, fill_dtype(fill_value, dtype), None, device, False, None), fill_value
    ),
)
def _full(size: Any, fill_value: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
    made = blank(size, fill_dtype(fill_value, dtype).np, device)
    return _filled(made, fitting(fill_value, made.dtype))


@op(f"scalar_tensor(Scalar s, {_OPTIONS}) -> Tensor", out=False)
def _scalar_tensor(s: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
    made = blank((), np_dtype(dtype), device)
    # 16-bit floats are made of doubles here.
    return _filled(made, fitting(s, made.dtype if made.dtype.itemsize > 2 or made.dtype.kind in "iub" else _DOUBLE))


def _blank_like(a: Any, dtype: Any, device: Any, memory_format: Any) -> Any:
    np_type = a.dtype if dtype is None else np_dtype(dtype)
    on_meta = type(a) is MetaArray if device is None else _device.usable(device).type == "meta"
    if memory_format is None and is_row_major(a):
        return meta(a.shape, np_type) if on_meta else np.empty(a.shape, np_type)
    return result_layout.blank(a.shape, np_type, result_layout.strides_in(a, memory_format), on_meta)


_LIKE_ITSELF = "dtype is None and device is None and memory_format is None"


def _empty_like_itself(a: Any, *rest: Any) -> Any:
    return np.empty(a.shape, a.dtype) if is_row_major(a) else _blank_like(a, None, None, None)


def _ones_like_itself(a: Any, *rest: Any) -> Any:
    made = _empty_like_itself(a)
    made.fill(1)
    return made


def _full_like_itself(a: Any, value: Any, *rest: Any) -> Any:
    made = _empty_like_itself(a)
    made.fill(fitting(value, a.dtype))
    return made


def _zeros_like_itself(a: Any, *rest: Any) -> Any:
    if a.size <= 4096 and is_row_major(a):
        return np.zeros(a.shape, a.dtype)
    made = _empty_like_itself(a)
    made.fill(0)
    return made


@op(
    f"empty_like({_LIKE}) -> Tensor",
    meta=shapes.by_kernel,
    out=False,
    fast=(_LIKE_ITSELF, _empty_like_itself),
    quiet=False,
    layout=result_layout.as_made,
)
def _empty_like(a: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any, memory_format: Any) -> Any:
    return _blank_like(a, dtype, device, memory_format)


empty_like = _empty_like.function
_empty_like_inside = inside(_empty_like)


@op(
    f"ones_like({_LIKE}) -> Tensor",
    meta=shapes.by_kernel,
    out=False,
    fast=(_LIKE_ITSELF, _ones_like_itself),
    layout=result_layout.as_made,
    quiet=False,
    calls=lambda self, dtype, layout, device, pin_memory, memory_format: _fill_inside(
        _empty_like_inside(self, dtype, None, device, False, memory_format), 1.0
    ),
)
def _ones_like(a: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any, memory_format: Any) -> Any:
    return _filled(_blank_like(a, dtype, device, memory_format), 1)


@op(
    f"zeros_like({_LIKE}) -> Tensor",
    meta=shapes.by_kernel,
    out=False,
    fast=(_LIKE_ITSELF, _zeros_like_itself),
    layout=result_layout.as_made,
    quiet=False,
    calls=lambda self, dtype, layout, device, pin_memory, memory_format: _zero_inside(
        _empty_like_inside(self, dtype, None, device, False, memory_format)
    ),
)
def _zeros_like(a: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any, memory_format: Any) -> Any:
    return _filled(_blank_like(a, dtype, device, memory_format), 0)


@op(
    f"full_like(Tensor self, Scalar fill_value, {_OPTIONS}, MemoryFormat? memory_format=None) -> Tensor",
    meta=shapes.by_kernel,
    out=False,
    fast=(_LIKE_ITSELF, _full_like_itself),
    layout=result_layout.as_made,
    quiet=False,
    calls=lambda self, fill_value, dtype, layout, device, pin_memory, memory_format: _fill_any(
        _empty_like_inside(self, dtype, None, device, False, memory_format), fill_value
    ),
)
def _full_like(
    a: Any, fill_value: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any, memory_format: Any
) -> Any:
    made = _blank_like(a, dtype, device, memory_format)
    return _filled(made, fitting(fill_value, made.dtype))


ones_like, zeros_like, full_like = _ones_like.function, _zeros_like.function, _full_like.function


@op(f"empty_strided(int[] size, int[] stride, {_OPTIONS}) -> Tensor", out=False)
def _empty_strided(size: Any, stride: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
    shape, strides = checked_size(size), tuple(index(s) for s in stride)
    extent = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    flat = blank((extent,), np_dtype(dtype), device)
    if type(flat) is MetaArray:
        return meta(shape, flat.dtype, strides)
    return np.lib.stride_tricks.as_strided(flat, shape, tuple(s * flat.itemsize for s in strides))


# --- public factories: the size as several ints, requires_grad, out= --------------------------------------------------


def _sizes(size: tuple[Any, ...]) -> Any:
    return size[0] if len(size) == 1 and not isinstance(size[0], (int, np.integer)) else size


def _finish(t: Tensor, requires_grad: bool) -> Tensor:
    return t.requires_grad_(requires_grad) if requires_grad else t


_INTS = frozenset((int,))


def _factory(name: str, row: Any, value: Any) -> Any:
    """The public function of a factory that takes only a size (None: memory is left as it is)."""
    function = row.function

    def make_filled(*size: Any, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
                    pin_memory: bool = False, requires_grad: bool = False, memory_format: Any = None,
                    names: Any = None, **kw: Any) -> Tensor:  # fmt: skip
        if (layout is not None or pin_memory is not False) and out is None:
            _device.check_options(name, layout, pin_memory, device)
        if not size and "size" in kw:
            size = (kw.pop("size"),)
        given = size != ()
        if len(size) == 1 and type(size[0]) is not int:
            size = tuple(size[0]) if type(size[0]) is list else size[0]
        if not (_NAMESPACE["HOOK"] or kw) and out is memory_format is None and type(size) is tuple and given:
            if dtype is device is None and not _device._default_stack:
                made = quick(size, _dtype._Default.real.np, value)
            else:
                made = quick(size, quick_dtype(dtype, device), value)
            if made is not None:
                return _finish(made, requires_grad) if requires_grad else made
        if not given:
            raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
        if type(size) is not tuple or not _INTS.issuperset(map(type, size)):
            _check_size(name, size)
        if kw:
            raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(kw))}'")
        if out is not None:
            return _OUT[name](size, out=out)
        if memory_format is None or "memory_format" not in row.arguments:
            t: Tensor = function(size, dtype=dtype, device=device)
        else:
            t = function(size, dtype=dtype, device=device, memory_format=memory_format)
        return _finish(t, requires_grad) if requires_grad else t

    make_filled.__name__ = make_filled.__qualname__ = name
    return front(name)(make_filled)


def quick(size: tuple[int, ...], np_type: Any, value: Any) -> Tensor | None:
    """A tensor of a size that NumPy takes, with every element `value` unless that is None; None if it does not."""
    if np_type is None:
        return None
    try:
        if value == 0 and type(value) is int:
            return make(np.zeros(size, np_type))
        made = np.empty(size, np_type)
        if value is not None:
            made.fill(value)
        return make(made)
    except (TypeError, ValueError, OverflowError):
        return None
    except MemoryError as error:
        raise no_memory(error) from None


def quick_dtype(dtype: Any, device: Any) -> Any:
    """The NumPy dtype of a new tensor where nobody records and it is plainly to live on the CPU; else None."""
    if _NAMESPACE["HOOK"] or (_device._default_stack if device is None else not _device.is_plain_cpu(device)):
        return None
    if dtype is None:
        return _dtype._Default.real.np
    return dtype.np if type(dtype) is DType else None


def into(out: Tensor, made: Tensor) -> Tensor:
    """Give `out` the shape and values of a fresh tensor."""
    if out._a.shape != made._a.shape:
        resize(out, made._a.shape)
    if type(out._a) is not MetaArray:
        np.copyto(out._a, made._a, casting="unsafe")
    bump(out)
    return out


ones = _factory("ones", _ones, 1)
zeros = _factory("zeros", _zeros, 0)
_public_empty = _factory("empty", _empty, None)


_FLOATS = frozenset((np.dtype(np.float32), np.dtype(np.float64)))
_QUICK_VALUES = {float: None, int: np.dtype(np.int64), bool: np.dtype(np.bool_)}


@front("full")
def full(size: Any, fill_value: Any, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
         pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor filled with one value."""
    if (layout is not None or pin_memory is not False) and out is None:
        _device.check_options("full", layout, pin_memory, device)
    if not _NAMESPACE["HOOK"] and out is None and type(size) is tuple and type(fill_value) in _QUICK_VALUES:
        np_type = quick_dtype(dtype, device)
        if dtype is None:
            np_type = np_type and (_QUICK_VALUES[type(fill_value)] or np_type)
        elif np_type is not _QUICK_VALUES[type(fill_value)] and not (type(fill_value) is float and np_type in _FLOATS):
            np_type = None
        if not is_single(fill_value):
            np_type = None  # the long way checks whether the value fits
        made = quick(size, np_type, fill_value)
        if made is not None:
            return _finish(made, requires_grad)
    value = fill_value._a.item() if isinstance(fill_value, Tensor) else fill_value
    sizes = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    if out is not None:
        return _OUT["full"](sizes, value, out=out)
    made = _full.function(sizes, value, dtype=dtype, device=device)
    return _finish(made, requires_grad)


def _out_row(name: str, arguments: str, fill: Any) -> Any:
    """The row of a factory that writes into a given tensor."""

    def write(size: Any, *given: Any) -> Tensor:
        out, shape = given[-1], checked_size(size)
        if out._a.shape != shape:
            resize(out, shape)
        return fill(out, *given[:-1])

    return composite(f"{name}.out(int[] size, {arguments}*, Tensor(a!) out) -> Tensor(a!)", method=False)(
        write
    ).function


_OUT = {
    "ones": _out_row("ones", "", lambda out: fill_(out, 1.0)),
    "zeros": _out_row("zeros", "", lambda out: zero_(out)),
    "full": _out_row("full", "Scalar fill_value, ", lambda out, value: fill_(out, value)),
    "empty": _out_row("empty", "", lambda out: out),
}


@front("scalar_tensor")
def scalar_tensor(s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
                  requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A 0-dim tensor of a number."""
    if layout is not None or pin_memory is not False:
        _device.check_options("scalar_tensor", layout, pin_memory, device)
    value = s._a.item() if isinstance(s, Tensor) else s
    return _finish(_scalar_tensor.function(value, dtype=dtype, device=device), requires_grad)


def _like_front(name: str, function: Any, value: int | None = None) -> Any:
    """`zeros_like` and its kind; `value` is what fills where no argument says."""

    def quickly(input: Tensor, dtype: Any, device: Any) -> Tensor | None:
        """A new tensor on the CPU that nobody records, of another dtype; else None."""
        known = quick_dtype(input.dtype if dtype is None else dtype, _device.CPU if device is None else device)
        if known is None or not input._a.flags.c_contiguous:
            return None
        if value == 0:
            return make(np.zeros(input._a.shape, known))
        made = np.empty(input._a.shape, known)
        if value is not None:
            made.fill(value)
        return make(made)

    def like(input: Tensor, *args: Any, dtype: Any = None, layout: Any = None, device: Any = None,
             pin_memory: bool = False, requires_grad: bool = False, memory_format: Any = None, **kw: Any) -> Tensor:  # fmt: skip
        if layout is not None or pin_memory is not False:
            _device.check_options(name, layout, pin_memory, input.device if device is None else device)
        if type(input) in FAST and not (kw or requires_grad) and dtype is device is memory_format is None:
            if not args:
                return function(input)
            if type(args[0]) in _QUICK_VALUES:
                return function(input, *args)
        elif (
            name != "full_like"
            and type(input) in FAST
            and not (args or kw or requires_grad or memory_format is not None)
        ):
            quick = quickly(input, dtype, device)
            if quick is not None:
                return quick
        if args:
            args = tuple([a._a.item() if isinstance(a, Tensor) else a for a in args])
        t = settle_class(function(input, *args, dtype=dtype, device=device, memory_format=memory_format, **kw))
        return _finish(t, requires_grad)

    like.__name__ = like.__qualname__ = name
    return front(name)(like)


for _name, _function, _value in (
    ("ones_like", ones_like, 1),
    ("zeros_like", zeros_like, 0),
    ("empty_like", empty_like, None),
    ("full_like", full_like, None),
):
    _like_front(_name, _function, _value)


@front("empty_strided")
def empty_strided(size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
                  requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Uninitialised memory looked at with given strides."""
    if layout is not None or pin_memory is not False:
        _device.check_options("empty_strided", layout, pin_memory, device)
    return _finish(_empty_strided.function(size, stride, dtype=dtype, device=device), requires_grad)


# --- fills in place ---------------------------------------------------------------------------------------------------


@mutating("zero_(Tensor(a!) self) -> Tensor(a!)", self=lambda g: zeros_like(g))
def _zero_(a: Any) -> None:
    if C is None or not C.clear(a):
        a[...] = 0


zero_ = _zero_.function
_zero_inside = inside(_zero_)


@mutating(
    "fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)", node="FillBackward2", self=lambda g: zeros_like(g)
)
def _fill_(a: Any, value: Any) -> None:
    a[...] = fitting(value, a.dtype)


_fill_inside = inside(_fill_)


def _fill_any(made: Tensor, value: Any) -> Any:
    """What the body of a recorded factory fills its memory with."""
    return (fill_ if isinstance(value, Tensor) else _fill_inside)(made, value)


@mutating(
    "fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)",
    node="FillBackward3",
    self=lambda g: zeros_like(g),
    value=lambda g: g.sum(),
)
def _fill_tensor_(a: Any, value: Any) -> None:
    if value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    refuse_overlap(a)
    np.copyto(a, value, casting="unsafe")


@front("fill_")
def fill_(input: Tensor, value: Any) -> Tensor:
    """Set every element to `value`."""
    return (_fill_tensor_ if isinstance(value, Tensor) else _fill_).function(input, value)


@explicit("fill.Scalar(Tensor self, Scalar value) -> Tensor", self=lambda g: zeros_like(g))
def _fill(self: Tensor, value: Any) -> Tensor:
    return fill_(empty_like(self), value)


@explicit(
    "fill.Tensor(Tensor self, Tensor value) -> Tensor",
    out_overload="Tensor_out",
    node="FillBackward1",
    self=lambda g: zeros_like(g),
    value=lambda g: g.sum(),
)
def _fill_tensor(self: Tensor, value: Tensor) -> Tensor:
    return fill_(empty_like(self), value)


@front("fill")
def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor of the same size with every element `value`."""
    return (_fill_tensor if isinstance(value, Tensor) else _fill).function(input, value)


@mutating(
    "copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
    node="CopyBackwards",
    self=lambda g: zeros_like(g),
    src=lambda g: g,
)
def _copy_(a: Any, src: Any, non_blocking: bool) -> None:
    if type(a) is MetaArray:
        return
    if type(src) is MetaArray:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if 0 in a.strides:
        refuse_overlap(a)
    if a.base is not None or src.base is not None:
        refuse_shared(a, src)
    if src.dtype.kind == "c" and a.dtype.kind != "c":
        src = src.real
    try:
        if src.ndim > a.ndim:
            raise ValueError  # NumPy would leave out dimensions of size 1
        np.copyto(a, src, casting="unsafe")
    except ValueError:
        try:
            together = np.broadcast_shapes(a.shape, src.shape)
        except ValueError:
            raise broadcast_error(a.shape, src.shape) from None
        raise RuntimeError(
            f"output with shape {shape_text(a.shape)} doesn't match the broadcast shape {shape_text(together)}"
        ) from None
