"""Uniform and normal numbers, and the distributions made from one of them by a formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core.errors import broadcast_error
from ..checks import is_float, not_implemented, type_name
from ..compiled import C
from ..floating import quiet as silence
from ..pointwise.fma import scale_shift32, scale_shift64
from .arrays import (
    DIGITS,
    FLOAT32,
    FLOAT64,
    INTEGERS,
    Array,
    Size,
    cpp_name,
    fill,
    from_int64,
    in_both_parts,
    largest,
    numel,
    quiet,
    rounded,
)
from .engine import CHUNK, Doubles, Engine, Floats, Generator, engine_of

_TWO_PI = 2.0 * math.pi
_EIGHT = np.dtype("V32")  # eight single precision numbers: moving them whole is faster than by strides
_ONE, _MINUS_TWO = np.array(1, np.float32), np.array(-2, np.float32)
_WHOLE_ANGLE = np.array(_TWO_PI, np.float32)
WIDEST = 1e38  # bounds up to here are neither too large nor too far apart for single precision
_FEW = 32  # below, plain floats are faster than arrays


def uniform(
    size: Size, dtype: npt.DTypeLike, low: float = 0.0, high: float = 1.0, generator: Generator | None = None
) -> Array:
    """Numbers from [low, high); a complex type gets them in both parts."""
    if (dtype is FLOAT32 or dtype is FLOAT64) and type(size) is tuple:
        made: Array = np.empty(size, dtype)
        if _filled_plainly(made, low, high, generator):
            return made
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        if numel(size) == 0:  # torch checks no bounds then
            return np.empty(size, dtype)
        return in_both_parts(size, dtype, lambda pairs, real: uniform(pairs, real, low, high, generator))
    plain = low == 0.0 and high == 1.0
    if not plain or not is_float(dtype):
        _check_uniform_bounds(dtype, low, high)
    engine, count = engine_of(generator), numel(size)
    with engine.lock:
        values: Array = engine.doubles(count) if dtype == FLOAT64 else engine.floats(count)
    if not plain:
        values = _stretched(values, low, high)
    if dtype != values.dtype:
        values = values.astype(dtype)
        plain = False
    if not plain:  # rounding may have reached the upper bound, where torch puts the lower one
        at_top = values == np.asarray(high).astype(dtype)
        if np.count_nonzero(at_top):
            values[at_top] = low
    return values.reshape(size)


def uniform_(out: Array, low: float = 0.0, high: float = 1.0, generator: Generator | None = None) -> Array:
    if (
        (out.dtype is FLOAT32 or out.dtype is FLOAT64)
        and out.flags.c_contiguous
        and _filled_plainly(out, low, high, generator)
    ):
        return out
    return fill(out, lambda size: uniform(size, out.dtype, low, high, generator))


def _filled_plainly(out: Array, low: float, high: float, generator: Generator | None) -> bool:
    """Fill a contiguous array of single or double precision at once; False, with nothing drawn, where more is to be done."""
    plain = low == 0.0 and high == 1.0
    if not plain and (C is None or not -WIDEST <= low <= high <= WIDEST):
        return False
    if out.dtype is FLOAT64 and (C is None or not plain):
        return False
    engine = engine_of(generator)
    with engine.lock:
        engine.fill_floats(out)
    return plain or bool(C.stretch(out, float(low), float(high)))


def _stretched(values: Array, low: float, high: float) -> Array:
    """Numbers from [0, 1) brought to [low, high), in their own precision."""
    if values.dtype == FLOAT64:
        return scale_shift64(values, high - low, low)
    start = np.float32(low)
    if values.size <= CHUNK:
        return scale_shift32(values, np.float32(high) - start, start)
    for begin in range(0, values.size, CHUNK):
        part = values[begin : begin + CHUNK]
        part[...] = scale_shift32(part, np.float32(high) - start, start)
    return values


def _check_uniform_bounds(dtype: np.dtype[Any], low: float, high: float) -> None:
    if not is_float(dtype):
        raise not_implemented("check_uniform_bounds", dtype)
    limit = largest(dtype)
    for name, bound in (("from", low), ("to", high)):
        if not -limit <= bound <= limit:
            raise RuntimeError(f"{name} is out of bounds for {cpp_name(dtype)}")
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    if high - low > limit:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{type_name(dtype)}>::max(), but found to={high:g} "
            f"and from={low:g} which result in to-from to exceed the limit"
        )


def normal(
    size: Size, dtype: npt.DTypeLike, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Array:
    """Normal numbers; a complex type gets them in both parts, with half the variance each."""
    if (dtype is FLOAT32 or (dtype is FLOAT64 and C is not None)) and type(size) is tuple and std >= 0.0:
        return _filled_normals(np.empty(size, dtype), mean, std, generator)
    return _normal(size, np.dtype(dtype), mean, std, generator, contiguous=True)


def _moved(values: Any, mean: float, std: float) -> Any:
    with silence():
        values *= std
        values += mean
    return values


def _filled_normals(out: Array, mean: float, std: float, generator: Generator | None) -> Array:
    """Fill a contiguous array of single precision, or of double precision where the stream is compiled."""
    engine, count = engine_of(generator), out.size
    if engine.pour_normal(out, float(mean), float(std)):
        return out
    with engine.lock:
        if count >= 16:
            _normal_blocks32(engine, out, mean, std, redraw=True)
        elif count:
            out.reshape(-1)[:] = [value * std + mean for value in _few_normals(engine, count)]
    return out


def normal_(out: Array, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Array:
    contiguous = out.flags.c_contiguous
    if contiguous and (out.dtype is FLOAT32 or (out.dtype is FLOAT64 and C is not None)) and std >= 0.0:
        return _filled_normals(out, mean, std, generator)
    if contiguous:
        return fill(out, lambda size: normal(size, out.dtype, mean, std, generator))
    return fill(out, lambda size: _normal(size, out.dtype, mean, std, generator, contiguous=contiguous))


@quiet()
def normal_of(mean: Array | float, std: Array | float, generator: Generator | None = None) -> Array:
    """Normal numbers with a mean or a deviation per element, in the type of `mean` (of `std`, if mean is a number)."""
    shape = _broadcast_shape(np.shape(mean), np.shape(std))
    if not isinstance(std, np.ndarray):
        if not isinstance(mean, np.ndarray):
            raise TypeError("normal_of() needs an array for mean or std; use normal() for two numbers")
        values = normal(shape, mean.dtype, 0.0, std, generator)
        return _stored(np.add(values, _operand(mean, values.dtype)), values.dtype)
    check_deviations(std)
    values = normal(shape, mean.dtype if isinstance(mean, np.ndarray) else std.dtype, 0.0, 1.0, generator)
    values = _stored(np.multiply(values, _operand(std, values.dtype)), values.dtype)
    return _stored(np.add(values, _operand(mean, values.dtype)), values.dtype)


def _normal(
    size: Size, dtype: np.dtype[Any], mean: float, std: float, generator: Generator | None, *, contiguous: bool
) -> Array:
    if not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if dtype.kind == "c":
        std /= math.sqrt(2)
        return in_both_parts(
            size, dtype, lambda pairs, real: _normal(pairs, real, mean, std, generator, contiguous=contiguous)
        )
    count = numel(size)
    if count == 0:
        return np.empty(size, dtype)
    if not is_float(dtype):
        raise not_implemented("normal_kernel_cpu", dtype)
    engine = engine_of(generator)
    with engine.lock:
        if count < 16 or not contiguous:
            values: Array = standard_normals(engine, count)
        elif dtype == FLOAT64:
            values = _normal_blocks64(engine, count)
        else:
            values = np.empty(count, np.float32)
            _normal_blocks32(engine, values, mean, std, redraw=dtype == FLOAT32)
            mean, std = 0.0, 1.0
    if std != 1.0 or mean != 0.0:
        values = _moved(values, mean, std)
    with silence():
        return rounded(values, dtype).reshape(size)


def _normal_blocks32(engine: Engine, out: Array, mean: float, std: float, *, redraw: bool) -> None:
    """Box-Muller on blocks of sixteen uniforms: eight for the radii, eight for the angles; into a contiguous array.

    The last sixteen values come from a block of their own when the size leaves a rest. Single and double
    precision have drawn a uniform for each element of the rest before (`redraw`); the narrow types draw whole blocks.
    """
    flat = out.reshape(-1)
    whole = flat[: flat.size - flat.size % 16]
    engine.fill_floats(flat if redraw else whole)
    _box_muller32(whole, mean, std)
    if flat.size % 16:
        engine.fill_floats(flat[-16:])
        _box_muller32(flat[-16:], mean, std)


def _box_muller32(uniform: Floats, mean: float, std: float) -> None:
    """Make whole blocks of uniforms normal, at their place."""
    if C is not None and C.normals(uniform, mean, std):
        return
    for start in range(0, uniform.size, CHUNK):
        groups = uniform[start : start + CHUNK].view(_EIGHT)
        radius, theta = groups[0::2].copy().view(np.float32), groups[1::2].copy().view(np.float32)
        np.subtract(_ONE, radius, out=radius)  # which is exact, and never zero
        np.log(radius, out=radius)
        radius *= _MINUS_TWO
        np.sqrt(radius, out=radius)
        theta *= _WHOLE_ANGLE
        cosine = np.cos(theta)
        cosine *= radius
        groups[0::2] = cosine.view(_EIGHT)
        np.sin(theta, out=theta)
        theta *= radius
        groups[1::2] = theta.view(_EIGHT)
    if std != 1.0 or mean != 0.0:
        _moved(uniform, mean, std)


def _normal_blocks64(engine: Engine, count: int) -> Doubles:
    """`_normal_blocks32` in double precision."""
    values = engine.doubles(count)
    _box_muller64(values[: count - count % 16])
    if count % 16:
        values[-16:] = engine.doubles(16)
        _box_muller64(values[-16:])
    return values


def _box_muller64(values: Doubles) -> None:
    blocks = values.reshape(-1, 2, 8)
    radius = np.sqrt(-2.0 * np.log(1.0 - blocks[:, 0]))
    theta = _TWO_PI * blocks[:, 1]
    np.multiply(radius, np.cos(theta), out=blocks[:, 0])
    np.multiply(radius, np.sin(theta), out=blocks[:, 1])


def check_deviations(std: Array) -> None:
    """Refuse standard deviations that are none."""
    if std.dtype.kind == "c":
        raise RuntimeError("normal expects standard deviation to be non-complex")
    if std.size and not std.min() >= 0:
        raise RuntimeError("normal expects all elements of std >= 0.0")


def _operand(value: Array | float, dtype: np.dtype[Any]) -> Array | np.generic:
    """Numbers and integer arrays take part in a float operation in the float's type."""
    array = np.asarray(value)
    return array if isinstance(value, np.ndarray) and array.dtype.kind not in "biu" else array.astype(dtype)


def _stored(values: Array, dtype: np.dtype[Any]) -> Array:
    return values.astype(dtype, copy=False)


def _broadcast_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        raise broadcast_error(a, b) from None


@quiet()
def exponential(size: Size, dtype: npt.DTypeLike, lambd: float = 1.0, generator: Generator | None = None) -> Array:
    dtype = np.dtype(dtype)
    if dtype is FLOAT32 or dtype is FLOAT64:
        made: Array = np.empty(size, dtype)
        if engine_of(generator).pour("random_waits", made, lambd):
            return made
    if not lambd > 0.0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    if numel(size) and not is_float(dtype):
        raise _not_continuous("Exponential", type_name(dtype))
    values = _doubles(size, generator)
    np.negative(values, out=values)
    np.log1p(values, out=values)
    values *= -1.0 / lambd
    return rounded(values, dtype).reshape(size)


def exponential_(out: Array, lambd: float = 1.0, generator: Generator | None = None) -> Array:
    return fill(out, lambda size: exponential(size, out.dtype, lambd, generator))


@quiet()
def geometric(size: Size, dtype: npt.DTypeLike, p: float, generator: Generator | None = None) -> Array:
    """The count of trials up to the first success."""
    dtype = np.dtype(dtype)
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    if numel(size) and dtype not in INTEGERS and dtype not in DIGITS:
        raise not_implemented("geometric_cpu", dtype)
    values = _doubles(size, generator)
    np.log(values, out=values)
    values /= math.log1p(-p)
    np.ceil(values, out=values)
    whole = from_int64(values.astype(np.int64), dtype) if dtype in INTEGERS else rounded(values, dtype)
    return whole.reshape(size)


def geometric_(out: Array, p: float, generator: Generator | None = None) -> Array:
    return fill(out, lambda size: geometric(size, out.dtype, p, generator))


@quiet()
def cauchy(
    size: Size, dtype: npt.DTypeLike, median: float = 0.0, sigma: float = 1.0, generator: Generator | None = None
) -> Array:
    dtype = np.dtype(dtype)
    if not sigma > 0.0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    if not is_float(dtype):
        raise _not_continuous("Cauchy", cpp_name(dtype))
    values = _doubles(size, generator)
    values -= 0.5
    values *= math.pi
    np.tan(values, out=values)
    values *= sigma
    values += median
    return rounded(values, dtype).reshape(size)


def cauchy_(out: Array, median: float = 0.0, sigma: float = 1.0, generator: Generator | None = None) -> Array:
    return fill(out, lambda size: cauchy(size, out.dtype, median, sigma, generator))


@quiet()
def log_normal(
    size: Size, dtype: npt.DTypeLike, mean: float = 1.0, std: float = 2.0, generator: Generator | None = None
) -> Array:
    dtype = np.dtype(dtype)
    if not std > 0.0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    count = numel(size)
    if count and not is_float(dtype):
        raise not_implemented("log_normal_cpu", dtype)
    engine = engine_of(generator)
    with engine.lock:
        values = standard_normals(engine, count)
    return rounded(np.exp(values * std + mean), dtype).reshape(size)


def log_normal_(out: Array, mean: float = 1.0, std: float = 2.0, generator: Generator | None = None) -> Array:
    return fill(out, lambda size: log_normal(size, out.dtype, mean, std, generator))


def standard_normals(engine: Engine, count: int) -> Doubles:
    """Box-Muller pair by pair in double precision; the second of a last pair waits in the engine for the next call."""
    if count < _FEW:
        return np.array(_few_normals(engine, count), np.float64)
    values = np.empty(count)
    start = 0
    if engine.next_normal is not None:
        values[0], engine.next_normal, start = engine.next_normal, None, 1
    uniforms = engine.doubles((count - start + 1) // 2 * 2)
    angles, radii = uniforms[0::2], uniforms[1::2]
    radius = np.sqrt(-2.0 * np.log1p(-radii))
    theta = _TWO_PI * angles
    values[start::2] = radius * np.cos(theta)
    values[start + 1 :: 2] = (radius * np.sin(theta))[: (count - start) // 2]
    if (count - start) % 2:
        engine.next_normal = normal_pair(float(angles[-1]), float(radii[-1]))[1]
    return values


def _few_normals(engine: Engine, count: int) -> list[float]:
    """`standard_normals` as a list."""
    values: list[float] = []
    if count and engine.next_normal is not None:
        values.append(engine.next_normal)
        engine.next_normal = None
    uniforms = engine.double_list((count - len(values) + 1) // 2 * 2)
    for first, second in zip(uniforms[0::2], uniforms[1::2]):
        values += normal_pair(first, second)
    if len(values) > count:
        engine.next_normal = values.pop()
    return values


def normal_pair(first: float, second: float) -> tuple[float, float]:
    """Two normals of two uniforms, by the C library's functions, which torch calls here as well."""
    radius = math.sqrt(-2.0 * math.log1p(-second))
    theta = _TWO_PI * first
    return radius * math.cos(theta), radius * math.sin(theta)


def _doubles(size: Size, generator: Generator | None) -> Doubles:
    engine = engine_of(generator)
    with engine.lock:
        return engine.doubles(numel(size))


def _not_continuous(name: str, given: str) -> RuntimeError:
    return RuntimeError(
        f"{name} distribution is a continuous probability distribution. dtype must be a floating point but you "
        f"specified {given}"
    )
