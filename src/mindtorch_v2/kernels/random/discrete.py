"""Integers, coins and permutations: what torch draws by remainders and comparisons of raw words."""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from ..checks import is_float, not_implemented
from ..passes import NUMBERS
from .arrays import (
    BOOL,
    DIGITS,
    FLOAT16,
    FLOAT64,
    INT64,
    INTEGERS,
    Array,
    Size,
    cpp_name,
    fill,
    from_int64,
    largest,
    memory_order,
    numel,
    quiet,
    rounded,
    shape_of,
)
from .engine import CHUNK, Engine, Generator, engine_of

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_MASK53 = np.array((1 << 53) - 1, np.uint64)
_NUMBERS = NUMBERS[INT64]
_FEW = 256
_SAFE = 1 << 27  # the distance between numbers of less than this needs less than 28 bits
_UNSIGNED = frozenset(np.dtype(t) for t in (np.uint16, np.uint32, np.uint64))
_LIMITS = [np.iinfo(t.name) for t in INTEGERS | _UNSIGNED]
_RANGES = {BOOL: (0, 1)} | {limits.dtype: (int(limits.min), int(limits.max)) for limits in _LIMITS}


def randint(size: Size, dtype: npt.DTypeLike, low: int, high: int, generator: Generator | None = None) -> Array:
    """Integers from [low, high) in any real type."""
    return random(size, dtype, low, high, generator)


def random(
    size: Size,
    dtype: npt.DTypeLike,
    low: int | None = None,
    high: int | None = None,
    generator: Generator | None = None,
) -> Array:
    """Integers from [low, high) as `Tensor.random_` draws them.

    Without `high` they reach to the largest value of the type (2**digits for floats), without both from 0 to there;
    `high` alone means [0, high).
    """
    engine = engine_of(generator)
    if dtype is INT64 and type(low) is type(high) is int and -_SAFE < low < high < _SAFE:
        few: npt.NDArray[np.int64] = np.empty(size, INT64)
        if engine.pour_integers(few, low, high - low):
            return few
        if few.size <= CHUNK:
            return _few_integers(engine, few.size, low, high).reshape(size)
    dtype, count = np.dtype(dtype), numel(size)
    if low is None and high is None:
        if count == 0:
            return np.empty(size, dtype)
        with engine.lock:
            return _random_default(engine, count, dtype).reshape(size)
    base = 0 if low is None else low
    if high is None and base == _INT64_MIN:
        if count == 0:
            return np.empty(size, dtype)
        with engine.lock:
            return _random_64_bits(engine, count, dtype).reshape(size)
    base, span = _checked_range(dtype, base, high)
    with engine.lock:
        values = _below(engine, count, span)
    if base:
        values += np.uint64(base % (1 << 64))  # wraps, as two's complement addition does
    return from_int64(values.view(np.int64), dtype).reshape(size)


def _few_integers(engine: Engine, count: int, low: int, high: int) -> npt.NDArray[np.int64]:
    """Of a range so small that one word an element is enough, and that nothing wraps."""
    with engine.lock:
        values: npt.NDArray[np.int64] = np.remainder(engine.words(count), _NUMBERS[high - low])
    if low:
        values += low
    return values


def random_(out: Array, low: int | None = None, high: int | None = None, generator: Generator | None = None) -> Array:
    return fill(out, lambda size: random(size, out.dtype, low, high, generator))


def _random_default(engine: Engine, count: int, dtype: np.dtype[Any]) -> Array:
    """All non-negative values of an integer type, 0 to 2**digits of a float."""
    if dtype in DIGITS:
        span, wide = (1 << DIGITS[dtype]) + 1, dtype == FLOAT64
    elif dtype == BOOL:
        span, wide = 2, False
    elif dtype in INTEGERS:
        span, wide = _RANGES[dtype][1] + 1, dtype == INT64
    else:
        raise not_implemented("random_kernel_cpu", dtype)
    values = _remainder(engine.words64(count) if wide else engine.words32(count), span)
    return from_int64(values.astype(np.int64, copy=False), dtype)


def _random_64_bits(engine: Engine, count: int, dtype: np.dtype[Any]) -> Array:
    """Any 64 bits, read as an int64."""
    if (dtype not in INTEGERS and dtype not in DIGITS) or dtype == FLOAT16:
        raise not_implemented("random_full_64_bits_range_kernel_cpu", dtype)
    if dtype in INTEGERS and dtype != INT64:
        raise RuntimeError("random_full_64_bits_range_kernel_cpu handles only int64, double, float and bfloat16")
    return from_int64(engine.words64(count).view(np.int64), dtype)


def _below(engine: Engine, count: int, span: int) -> npt.NDArray[np.uint64]:
    """Words modulo `span`; from 2**28 on two words each keep the skew small."""
    if span >= 1 << 28:
        return _remainder(engine.words64(count), span)
    values = np.empty(count, np.uint64)
    for start in range(0, count, CHUNK):
        part = values[start : start + CHUNK]
        part[...] = _remainder(engine.words32(part.size), span)
    return values


def _remainder(words: npt.NDArray[Any], span: int) -> npt.NDArray[Any]:
    """words % span, by way of the quotient: NumPy divides by a scalar without dividing, but has no such remainder."""
    if span & (span - 1) == 0:
        words &= np.array(span - 1, words.dtype)
        return words
    divisor = np.array(span, words.dtype)
    quotient = words // divisor
    quotient *= divisor
    words -= quotient
    return words


def _checked_range(dtype: np.dtype[Any], low: int, high: int | None) -> tuple[int, int]:
    """(first, count) of the integers to draw from, after torch's checks and its corrections for floats."""
    if high is not None and low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if dtype in DIGITS:
        low, last = _float_range(dtype, low, high)
    elif high is not None:
        last = high - 1
    elif dtype in _RANGES:
        last = _RANGES[dtype][1]
    else:
        raise RuntimeError("random_from_to_impl handles only integral, floating-point and boolean types")
    _check_in_range(dtype, low, last)
    return low, last - low + 1


def _float_range(dtype: np.dtype[Any], low: int, high: int | None) -> tuple[int, int]:
    """(first, last), moved inwards to where rounding to the type cannot leave the range."""
    digits = DIGITS[dtype]
    above = _rounded_int(low + 1, dtype)
    if above < low:
        low = above + (1 << (abs(low + 1).bit_length() - digits))
    if high is None:
        last = 1 << digits
        if low >= last:
            raise RuntimeError(
                "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype, "
                f"but got from={low} > to_inc={last}"
            )
        return low, last
    below = _rounded_int(high - 1, dtype)
    if below >= high:
        high = below - (1 << (abs(high - 1).bit_length() - digits))
    if low >= high:
        raise RuntimeError(
            "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, "
            f"but got from={low} >= to={high}"
        )
    return low, high - 1


@functools.lru_cache(256)
def _rounded_int(value: int, dtype: np.dtype[Any]) -> int:
    """`value` rounded to the type and back to int64, as x86 converts: what does not fit becomes the smallest."""
    with quiet():
        nearest = float(from_int64(np.array(value, np.int64), dtype))
    return int(nearest) if abs(nearest) < 2.0**63 else _INT64_MIN


def _check_in_range(dtype: np.dtype[Any], low: int, last: int) -> None:
    first: float
    final: float
    if dtype in DIGITS:
        first, final = -largest(dtype), largest(dtype)
    elif dtype in _RANGES:
        first, final = _RANGES[dtype][0], min(_RANGES[dtype][1], _INT64_MAX)
    else:
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")
    for name, bound in (("from", low), ("to - 1", last)):
        if not first <= bound <= final:
            raise RuntimeError(f"{name} is out of bounds for {cpp_name(dtype)}")
    if dtype in DIGITS:
        _warn_about_precision(dtype, low, last)


def _warn_about_precision(dtype: np.dtype[Any], low: int, last: int) -> None:
    digits = DIGITS[dtype]
    for name, bound in (("from", low), ("to - 1", last)):
        if abs(bound) > 1 << digits:
            warnings.warn(
                f"{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations {cpp_name(dtype)} "
                "can support discrete uniform distribution only within this range. This warning will become an error "
                "in version 1.7 release, please fix the code in advance",
                UserWarning,
                stacklevel=5,
            )


def bernoulli(size: Size, dtype: npt.DTypeLike, p: float = 0.5, generator: Generator | None = None) -> Array:
    """Ones with probability `p`."""
    dtype = np.dtype(dtype)
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    count = numel(size)
    if count and not _holds_booleans(dtype):
        raise not_implemented("bernoulli_scalar_cpu_", dtype)
    return _coins(engine_of(generator), count, p).astype(dtype, copy=False).reshape(size)


def bernoulli_of(
    p: Array, size: Size | None = None, dtype: npt.DTypeLike | None = None, generator: Generator | None = None
) -> Array:
    """Ones with a probability per element; by default in the shape and type of `p`."""
    dtype, shape = np.dtype(dtype or p.dtype), shape_of(p.shape if size is None else size)
    if 0 in shape:
        return np.empty(shape, dtype)
    if not _holds_booleans(dtype):
        raise not_implemented("bernoulli_tensor_cpu_self_", dtype)
    if not is_float(p.dtype):
        raise not_implemented("bernoulli_tensor_cpu_p_", p.dtype)
    if not ((p >= 0) & (p <= 1)).all():
        raise RuntimeError(
            f"Expected p_in >= 0 && p_in <= 1 to be true, but got false. p ranges from {p.min()} to {p.max()}"
        )
    engine, count = engine_of(generator), numel(shape)
    with engine.lock:
        chance = engine.doubles(count) if p.dtype == FLOAT64 else engine.floats(count)
    return (chance.reshape(shape) < np.broadcast_to(p, shape).astype(chance.dtype)).astype(dtype)


def bernoulli_(out: Array, p: float | Array = 0.5, generator: Generator | None = None) -> Array:
    if not isinstance(p, np.ndarray):
        chance: float = p
        return fill(out, lambda size: bernoulli(size, out.dtype, chance, generator))
    try:
        wide = np.broadcast_to(p, out.shape)
    except ValueError:
        raise RuntimeError(f"probabilities of shape {list(p.shape)} do not expand to {list(out.shape)}") from None
    order = memory_order(out)
    return fill(out, lambda size: bernoulli_of(wide.transpose(order), size, out.dtype, generator))


def dropout_mask(size: Size, p: float = 0.5, generator: Generator | None = None) -> npt.NDArray[np.bool_]:
    """True where dropout with probability `p` keeps an element; nothing is drawn where the answer is certain."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    if p in (0, 1):
        return np.full(size, p == 0)
    return _coins(engine_of(generator), numel(size), 1 - p).reshape(size)


def dropout_noise(size: Size, dtype: npt.DTypeLike, p: float = 0.5, generator: Generator | None = None) -> Array:
    """What dropout multiplies its input with: 0, or 1 / (1 - p)."""
    dtype = np.dtype(dtype)
    keep = dropout_mask(size, p, generator)
    wide = np.float64 if dtype == FLOAT64 else np.float32
    noise: Array = keep.astype(dtype)
    if p < 1:
        noise *= np.asarray(1 / wide(1 - p)).astype(dtype)
    return noise


def rrelu_noise(x: Array, lower: float, upper: float, generator: Generator | None = None) -> Array:
    """The slopes of a randomised leaky ReLU: from [lower, upper) where x <= 0, else 1. Only the former are drawn."""
    if x.dtype != FLOAT64:
        lower, upper = float(np.float32(lower)), float(np.float32(upper))
    noise = np.ones(x.shape, x.dtype)
    leaky = x <= 0
    engine = engine_of(generator)
    with engine.lock:
        slopes = engine.doubles(int(np.count_nonzero(leaky)))
    noise[leaky] = rounded(slopes * (upper - lower) + lower, x.dtype)
    return noise


def _coins(engine: Engine, count: int, p: float) -> npt.NDArray[np.bool_]:
    """Whether a double from [0, 1) is below `p`; many are compared as the integers they are made from."""
    if count <= _FEW:
        with engine.lock:
            return engine.doubles(count) < p
    bound = np.int64(math.ceil(p * 2.0**53))
    heads = np.empty(count, np.bool_)
    with engine.lock:
        for start in range(0, count, CHUNK):
            part = heads[start : start + CHUNK]
            words = engine.words64(part.size)
            words &= _MASK53
            np.less(words.view(np.int64), bound, out=part)
    return heads


def _holds_booleans(dtype: np.dtype[Any]) -> bool:
    return dtype in DIGITS or dtype in INTEGERS or dtype == BOOL
