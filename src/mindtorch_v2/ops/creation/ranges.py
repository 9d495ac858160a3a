"""Rows of ranges: arange, linspace, logspace, eye; and memory in a given order of dimensions."""

from __future__ import annotations

import functools
import math
import warnings
from operator import index
from typing import Any

import numpy as np

from ...autograd.memory.resize import resize
from ...core import device as _device
from ...core import dtype as _dtype
from ...core import tap
from ...core.dtype import dtype as DType
from ...core.errors import check_size, refuse_overlap, shape_text
from ...core.meta import MetaArray, meta
from ...core.tensor import Tensor, bump, make, move_to
from ...dispatch.front import front
from ...dispatch.inside import inside
from ...dispatch.op import OPS, composite, op
from ...kernels.compiled import C
from .fill import _OPTIONS, _finish, checked_size, empty, empty_inside, np_dtype, quick_dtype

_INTS = frozenset((int,))


def range_dtype(dtype: Any, *values: Any) -> DType:
    """The dtype of a range where none is given: int64 unless a bound is a float."""
    if dtype is not None:
        return _dtype.as_dtype(dtype)
    if _INTS.issuperset(map(type, values)):
        return _dtype.int64
    return _dtype.get_default_dtype() if any(isinstance(v, (float, np.floating)) for v in values) else _dtype.int64


def range_length(start: Any, end: Any, step: Any, d: DType) -> int:
    """How many values arange gives."""
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (step > 0 and start > end) or (step < 0 and start < end):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if d is _dtype.int64:  # torch counts in integers here, and in floating point for all other types
        start, end, step = int(start), int(end), int(step)
        if step == 0:
            raise ValueError("step must be nonzero")
    if all(isinstance(v, (int, np.integer)) for v in (start, end, step)):
        return max(0, -((start - end) // step))
    return max(0, math.ceil((end - start) / step))


_MOST = 1 << 59  # elements; NumPy counts fewer than 2**63 bytes right


def arange_array(start: Any, end: Any, step: Any, d: DType) -> Any:
    """The values of arange, computed as torch does (start + i * step in the accumulation type)."""
    if d is _dtype.int64 and _INTS.issuperset(map(type, (start, end, step))) and 0 <= end - start < _MOST * step:
        try:
            return np.arange(start, end, step, dtype=np.int64)
        except OverflowError:
            pass  # bounds beyond 64 bits, between which there are few
    count = range_length(start, end, step, d)
    check_size((count,), 8)
    if d.category == 1:
        return np.arange(count, dtype=np.int64) * np.int64(step) + np.int64(start)
    if all(isinstance(v, (int, np.integer)) for v in (start, end, step)):
        return (np.arange(count) * step + start).astype(d.np)
    return (start + np.arange(count) * float(step)).astype(d.np)


@op(f"arange(Scalar end, {_OPTIONS}) -> Tensor", out=False,
    calls=lambda end, dtype, layout, device, pin_memory: _arange_call(0, end, 1, dtype, device))  # fmt: skip
def _arange(end: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
    return _ranged(0, end, 1, dtype, device)


@op(f"arange.start(Scalar start, Scalar end, {_OPTIONS}) -> Tensor", out=False,
    calls=lambda start, end, dtype, layout, device, pin_memory: _arange_call(start, end, 1, dtype, device))  # fmt: skip
def _arange_start(start: Any, end: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
    return _ranged(start, end, 1, dtype, device)


@op(f"arange.start_step(Scalar start, Scalar end, Scalar step=1, {_OPTIONS}) -> Tensor", out=False,
    calls=lambda start, end, step, dtype, layout, device, pin_memory: _arange_call(start, end, step, dtype, device))  # fmt: skip
def _arange_step(start: Any, end: Any, step: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
    return _ranged(start, end, step, dtype, device)


def _ranged(start: Any, end: Any, step: Any, dtype: Any, device: Any) -> Any:
    d = range_dtype(dtype, start, end, step)
    if _device.usable(device).type == "meta":
        return meta((range_length(start, end, step, d),), d.np)
    return arange_array(start, end, step, d).astype(d.np, copy=False)


@composite("arange.start_out(Scalar start, Scalar end, Scalar step=1, *, Tensor(a!) out) -> Tensor(a!)")
def _arange_out(start: Any, end: Any, step: Any, out: Tensor) -> Tensor:
    values = arange_array(start, end, step, out.dtype)
    if out._a.size and out._a.size != values.size:
        warnings.warn(
            f"The number of elements in the out tensor of shape {shape_text(out._a.shape)} is {out._a.size} which does not "
            f"match the computed number of elements {values.size}. Note that this may occur as a result of rounding error. "
            f"The out tensor will be resized to a tensor of shape ({values.size},).",
            stacklevel=2,
        )
    return _in_a_line(out, values)


def _in_a_line(out: Tensor, values: Any) -> Tensor:
    """`out` with values one after the other; it keeps its shape where that has as many elements."""
    if out._a.size != values.size:
        resize(out, values.shape)
    if type(out._a) is not MetaArray:
        refuse_overlap(out._a)
        np.copyto(out._a, values.reshape(out._a.shape), casting="unsafe")
    bump(out)
    return out


def _arange_call(start: Any, end: Any, step: Any, dtype: Any, device: Any) -> Tensor:
    made = empty_inside((0,), range_dtype(dtype, start, end, step), None, device, False, None)
    filled: Tensor = _arange_inside(start, end, step, made)
    return filled


def _arange_fresh(start: Any, end: Any, step: Any, out: Tensor) -> Tensor:
    """`_arange_out` into an empty tensor that nobody else has."""
    move_to(out, arange_array(start, end, step, out.dtype).astype(out._a.dtype, copy=False))
    return out


_arange_inside = inside(_arange_out, _arange_fresh)


def number(value: Any) -> Any:
    """A range bound as a Python number."""
    if value is None or type(value) in _NUMBERS:
        return value
    return value._a.item() if isinstance(value, Tensor) else value.item() if isinstance(value, np.generic) else value


_FEW = 4096


def _few_values(args: tuple[Any, ...], dtype: Any, device: Any) -> Any:
    """The values of a short rising range of Python numbers; None for all others, errors included."""
    np_type = quick_dtype(dtype, device)
    if np_type is None:
        return None
    if len(args) == 1 and type(args[0]) is int and 0 <= args[0] <= _FEW:
        made = np.arange(args[0])
    elif 1 <= len(args) <= 3 and _NUMBERS.issuperset(map(type, args)):
        start, end = (0, args[0]) if len(args) == 1 else args[:2]
        step = args[2] if len(args) == 3 else 1
        if not (step > 0 and start <= end < start + step * _FEW):
            return None
        if type(start) is type(end) is type(step) is int:
            made = np.arange(start, end, step)
        elif dtype is None:
            made = start + np.arange(math.ceil((end - start) / step)) * float(step)
            return made.astype(np_type)
        else:
            return None
    else:
        return None
    if dtype is None or np_type is made.dtype:
        return made
    return made.astype(np_type) if np_type.kind in "if" else None


_NUMBERS = frozenset((int, float))


@front("arange")
def arange(*args: Any, start: Any = None, end: Any = None, step: Any = None, out: Any = None, dtype: Any = None,
           layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Values from start (0) to end, without end, by step (1)."""
    if (layout is not None or pin_memory is not False) and out is None:
        _device.check_options("arange", layout, pin_memory, device)
    if not tap.NAMESPACE["HOOK"] and start is end is step is out and not requires_grad:
        few = _few_values(args, dtype, device)
        if few is not None:
            return make(few)
    given = [number(a) for a in args]
    if len(given) == 1 and end is None:
        end = given[0]
    else:
        for value in given:
            if start is None:
                start = value
            elif end is None:
                end = value
            else:
                step = value
    start, end, step = number(start), number(end), number(step)
    if end is None:
        raise TypeError('arange() missing 1 required positional arguments: "end"')
    if out is not None:
        return _arange_out.function(start or 0, end, 1 if step is None else step, out=out)
    if step is not None:
        t = _arange_step.function(0 if start is None else start, end, step, dtype=dtype, device=device)
    elif start is not None:
        t = _arange_start.function(start, end, dtype=dtype, device=device)
    else:
        t = _arange.function(end, dtype=dtype, device=device)
    return _finish(t, requires_grad)


def linspace_array(start: Any, end: Any, steps: int, d: DType) -> Any:
    """Evenly spaced values, from both ends towards the middle as torch computes them."""
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if d.category == 1:
        start, end = (whole_number(v, d) for v in (start, end))
    if steps == 0:
        return np.empty(0, d.np)
    if steps == 1:
        return np.asarray([start]).astype(d.np)
    if d is _dtype.float32 and steps <= _FEW and type(start) in _REAL and type(end) in _REAL:
        return _few_between(np.float32(start), np.float32(end), steps)
    work = d.np if d.category == 3 or d is _dtype.float64 else np.float64 if d.category < 2 else np.float32
    start, end = np.asarray(start).astype(work), np.asarray(end).astype(work)
    step = ((end - start) / np.asarray(steps - 1).astype(work)).astype(work)
    half = steps // 2
    result = np.empty(steps, d.np)
    result[:half] = start + step * np.arange(half, dtype=work)
    result[half:] = end - step * np.arange(steps - half, dtype=work)[::-1]
    return result


_FEW, _REAL = 1024, (int, float)


@functools.lru_cache(maxsize=64)
def _places(steps: int) -> Any:
    """The number of each step, up to the middle counted from the first, beyond from the last one backwards."""
    return np.concatenate([np.arange(steps // 2), np.arange(steps // 2 - steps + 1, 1)]).astype(np.float32)


def _few_between(start: np.float32, end: np.float32, steps: int) -> Any:
    """`linspace_array` of few single precision numbers."""
    values: Any = _places(steps) * ((end - start) / np.float32(steps - 1))
    values[: steps // 2] += start
    values[steps // 2 :] += end
    return values


def whole_number(value: Any, d: DType) -> int:
    """A bound as an integer of some type."""
    limits = np.iinfo(d.np)
    if not limits.min <= value <= limits.max:
        raise RuntimeError(f"value cannot be converted to type {d.name}_t without overflow")
    return int(value)


def _bound(name: str, value: Any, label: str) -> Any:
    if isinstance(value, Tensor) and value._a.ndim:
        raise RuntimeError(
            f"{name} only supports 0-dimensional start and end tensors, but got {label} with {value._a.ndim} dimension(s)."
        )
    return 0 if isinstance(value, Tensor) and value.is_meta else number(value)


def _linear_range(name: str, array: Any) -> None:
    """linspace and logspace: a functional row that calls the out= row, and a front for tensors as bounds."""
    base = ", float base=10.0" if name == "logspace" else ""

    @composite(f"{name}.out(Scalar start, Scalar end, int steps{base}, *, Tensor(a!) out) -> Tensor(a!)")
    def out_row(start: Any, end: Any, steps: int, *rest: Any) -> Tensor:
        out = rest[-1]
        return _in_a_line(out, array(start, end, steps, *rest[:-1], out.dtype))

    def call(start: Any, end: Any, steps: int, *rest: Any) -> Tensor:
        dtype, _, device, _ = rest[-4:]
        if steps < 0:
            raise RuntimeError("number of steps must be non-negative")
        made = empty((steps,), dtype=bounds_dtype(dtype, start, end), device=device)
        return out_row.function(start, end, steps, *rest[:-4], out=made)

    def kernel(start: Any, end: Any, steps: int, *rest: Any) -> Any:
        dtype, _, device, _ = rest[-4:]
        d = bounds_dtype(dtype, start, end)
        if _device.usable(device).type == "meta" and steps >= 0:
            return meta((steps,), d.np)
        return array(start, end, steps, *rest[:-4], d)

    row = op(f"{name}(Scalar start, Scalar end, int steps{base}, {_OPTIONS}) -> Tensor", out=False, calls=call)(kernel)

    def of_bounds(start: Any, end: Any, *rest: Any) -> Tensor:
        """With tensors as bounds: their numbers are read first."""
        dtype, _, device, _ = rest[-4:]
        bounds = (OPS["item"].function(v) if isinstance(v, Tensor) else v for v in (start, end))
        return row.function(*bounds, *rest[:-4], dtype=dtype, device=device)

    of_tensors = {
        (first == "Tensor", second == "Tensor"): composite(
            f"{name}.{first}_{second}({first} start, {second} end, int steps{base}, {_OPTIONS}) -> Tensor", method=False
        )(of_bounds)
        for first, second in (("Tensor", "Tensor"), ("Tensor", "Scalar"), ("Scalar", "Tensor"))
    }

    def public(start: Any, end: Any, steps: Any = None, base: float = 10.0, *, out: Any = None, dtype: Any = None,
               layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
        if (layout is not None or pin_memory is not False) and out is None:
            _device.check_options(name, layout, pin_memory, device)
        if name == "linspace" and type(steps) is int and 1 < steps <= _FEW and out is None and not requires_grad:
            if type(start) in _REAL and type(end) in _REAL and quick_dtype(dtype, device) is _dtype.float32.np:
                made = None if C is None else C.linspace(start, end, steps)
                return make(_few_between(np.float32(start), np.float32(end), steps) if made is None else made)
        if steps is None:
            raise TypeError(f'{name}() missing 1 required positional arguments: "steps"')
        if isinstance(steps, float):
            raise TypeError(f"{name}(): argument 'steps' must be int, not float")
        if any(isinstance(v, Tensor) and v.is_meta for v in (start, end)):
            device = _device.META
        bounds = _bound(name, start, "start"), _bound(name, end, "end")
        values = (*bounds, index(steps)) + ((base,) if name == "logspace" else ())
        if out is not None:
            return out_row.function(*values, out=out)
        by_tensors = of_tensors.get((isinstance(start, Tensor), isinstance(end, Tensor)))
        if by_tensors is not None and tap.SLOT.recorder is not None and device is not _device.META:
            made = by_tensors.function(start, end, *values[2:], dtype=dtype, device=device)
            return _finish(made, requires_grad)
        return _finish(row.function(*values, dtype=dtype, device=device), requires_grad)

    public.__name__ = public.__qualname__ = name
    front(name)(public)


def bounds_dtype(dtype: Any, start: Any, end: Any) -> DType:
    if dtype is not None:
        return _dtype.as_dtype(dtype)
    is_complex = isinstance(start, complex) or isinstance(end, complex)
    return _dtype.default_complex() if is_complex else _dtype.get_default_dtype()


def _logspace_array(start: Any, end: Any, steps: int, base: float, d: DType) -> Any:
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if d.category == 1:
        start, end = (whole_number(v, d) for v in (start, end))
    if steps == 1:
        return np.asarray([np.power(float(base), start)]).astype(d.np)
    work = _dtype.float64 if d.category < 3 else d
    return np.power(np.asarray(base, work.np), linspace_array(start, end, steps, work)).astype(d.np)


_linear_range("linspace", linspace_array)
_linear_range("logspace", _logspace_array)


def _write_eye(out: Tensor, n: int, m: int) -> Tensor:
    for name, count in (("n", n), ("m", m)):
        if count < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {count}")
    if out._a.shape != (n, m):
        resize(out, (n, m))
    if type(out._a) is not MetaArray:
        out._a[...] = 0
        np.einsum("ii->i", out._a[: min(n, m), : min(n, m)])[...] = 1  # where several elements share memory, too
    bump(out)
    return out


@composite("eye.out(int n, *, Tensor(a!) out) -> Tensor(a!)")
def _eye_square_out(n: int, out: Tensor) -> Tensor:
    return _write_eye(out, n, n)


@composite("eye.m_out(int n, int m, *, Tensor(a!) out) -> Tensor(a!)")
def _eye_out(n: int, m: int, out: Tensor) -> Tensor:
    return _write_eye(out, n, m)


@op(f"eye(int n, {_OPTIONS}) -> Tensor", out=False,
    calls=lambda n, dtype, layout, device, pin_memory: _eye_out.function(n, n, out=empty((0,), dtype=dtype, device=device)))  # fmt: skip
def _eye(n: int, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
    return _eye_array(n, n, dtype, device)


@op(f"eye.m(int n, int m, {_OPTIONS}) -> Tensor", out=False,
    calls=lambda n, m, dtype, layout, device, pin_memory: _eye_out.function(n, m, out=empty((0,), dtype=dtype, device=device)))  # fmt: skip
def _eye_m(n: int, m: int, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
    return _eye_array(n, m, dtype, device)


def _eye_array(n: int, m: int, dtype: Any, device: Any) -> Any:
    if n >= 0 <= m and _device.usable(device).type == "meta":
        return meta((n, m), np_dtype(dtype))
    return _ones_on_diagonal(n, m, np_dtype(dtype))


def _ones_on_diagonal(n: int, m: int, np_type: Any) -> Any:
    if n < 0 or m < 0:
        raise RuntimeError(f"n must be greater or equal to 0, got {min(n, m)}")
    made = np.zeros((n, m), np_type)
    made.reshape(-1)[: min(n, m) * m : m + 1] = 1
    return made


_FEW_ROWS = 64  # and columns, of a matrix that is made without further questions


@front("eye")
def eye(n: int, m: int | None = None, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
        pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Ones on the diagonal, zeros elsewhere."""
    if out is not None:
        return _eye_square_out.function(n, out=out) if m is None else _eye_out.function(n, m, out=out)
    if layout is not None or pin_memory is not False:
        _device.check_options("eye", layout, pin_memory, device)
    columns = n if m is None else m
    if type(n) is type(columns) is int and 0 < n <= _FEW_ROWS and 0 < columns <= _FEW_ROWS:
        np_type = quick_dtype(dtype, device)
        if np_type is not None:
            quick = np.zeros((n, columns), np_type)
            quick.reshape(-1)[: columns * columns : columns + 1] = 1
            return _finish(make(quick), requires_grad)
    if m is None:
        return _finish(_eye.function(n, dtype=dtype, device=device), requires_grad)
    return _finish(_eye_m.function(n, m, dtype=dtype, device=device), requires_grad)


@front("range")
def range_(start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None, layout: Any = None,
           device: Any = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Values from start to end, with end, by step; `arange` is what new programs use."""
    if end is None:
        start, end = 0, start
    warnings.warn("torch.range is deprecated: torch.arange leaves out the end, as Python's range does", stacklevel=2)
    d = _dtype.get_default_dtype() if dtype is None else dtype
    start, end, step = number(start), number(end), number(step)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (step > 0 and start > end) or (step < 0 and start < end):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = int((end - start) / step + 1)
    made = make(start + np.arange(count) * step).to(d)
    return _in_a_line(out, made._a) if out is not None else _finish(made.to(device), requires_grad)


@composite(f"empty_permuted(int[] size, int[] physical_layout, {_OPTIONS}) -> Tensor")
def _empty_permuted(size: Any, physical_layout: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Tensor:
    made = empty(tuple(size[d] for d in physical_layout), dtype=dtype, device=device)
    return made.permute(tuple(physical_layout.index(d) for d in range(len(physical_layout))))


@front("empty_permuted")
def empty_permuted(size: Any, physical_layout: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
                   pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Memory of some size, laid out so that dimension physical_layout[0] varies slowest."""
    if layout is not None or pin_memory is not False:
        _device.check_options("empty_permuted", layout, pin_memory, device)
    sizes, order = checked_size(size), [index(d) for d in physical_layout]
    if sorted(order) != list(range(len(sizes))):
        raise RuntimeError(
            f"empty_permuted: physical_layout must name each of {len(sizes)} dimensions once, got {order}"
        )
    return _finish(_empty_permuted.function(sizes, tuple(order), dtype=dtype, device=device), requires_grad)
