"""Element types: torch's dtype objects, how they map to NumPy's, and the promotion rules between them."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np


class dtype:
    """One element type; there is exactly one object of each."""

    __slots__ = ("name", "np", "category", "is_floating_point", "is_complex", "is_signed", "itemsize", "cpp_name")

    def __init__(self, name: str, np_type: Any, category: int, cpp_name: str) -> None:
        self.name = name
        self.np: np.dtype[Any] = np.dtype(np_type)
        self.category = category  # 0 bool, 1 integer, 2 float, 3 complex
        self.is_floating_point = category == 2
        self.is_complex = category == 3
        self.is_signed = category > 1 or (category == 1 and self.np.kind == "i")
        self.itemsize = self.np.itemsize
        self.cpp_name = cpp_name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str | tuple[Any, ...]:
        return _by_name, (self.name,)

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: Any) -> dtype:
        return self

    def to_real(self) -> dtype:
        return {complex64: float32, complex128: float64}.get(self, self)

    def to_complex(self) -> dtype:
        if self.is_complex:
            return self
        return complex128 if self is float64 else complex64


uint8 = dtype("uint8", np.uint8, 1, "unsigned char")
int8 = dtype("int8", np.int8, 1, "signed char")
int16 = dtype("int16", np.int16, 1, "short int")
int32 = dtype("int32", np.int32, 1, "int")
int64 = dtype("int64", np.int64, 1, "long int")
uint16 = dtype("uint16", np.uint16, 1, "short unsigned int")
uint32 = dtype("uint32", np.uint32, 1, "unsigned int")
uint64 = dtype("uint64", np.uint64, 1, "long unsigned int")
float16 = dtype("float16", np.float16, 2, "c10::Half")
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16, 2, "c10::BFloat16")
float32 = dtype("float32", np.float32, 2, "float")
float64 = dtype("float64", np.float64, 2, "double")
float8_e4m3fn = dtype("float8_e4m3fn", ml_dtypes.float8_e4m3fn, 2, "c10::Float8_e4m3fn")
float8_e5m2 = dtype("float8_e5m2", ml_dtypes.float8_e5m2, 2, "c10::Float8_e5m2")
complex64 = dtype("complex64", np.complex64, 3, "c10::complex<float>")
complex128 = dtype("complex128", np.complex128, 3, "c10::complex<double>")
bool_ = dtype("bool", np.bool_, 0, "bool")

ALL: tuple[dtype, ...] = (
    uint8, int8, int16, int32, int64, uint16, uint32, uint64, float16, bfloat16, float32, float64,
    float8_e4m3fn, float8_e5m2, complex64, complex128, bool_,
)  # fmt: skip
ALIASES = {
    "float": float32, "double": float64, "half": float16, "short": int16, "int": int32, "long": int64,
    "cfloat": complex64, "cdouble": complex128,
}  # fmt: skip

# NumPy dtype -> dtype. Equal but distinct NumPy dtypes (C long and long long) find the same entry.
FROM_NUMPY: dict[np.dtype[Any], dtype] = {d.np: d for d in ALL}
_NAMES = {d.name: d for d in ALL}
# The numbers torch's schema values use for dtypes (ScalarType).
SCALAR_TYPE_NUMBERS = {
    "uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "float32": 6, "float64": 7,
    "complex64": 9, "complex128": 10, "bool": 11, "bfloat16": 15,
}  # fmt: skip


def _by_name(name: str) -> dtype:
    return _NAMES[name]


def from_numpy_dtype(np_dtype: np.dtype[Any]) -> dtype:
    """The dtype of a NumPy dtype; TypeError where torch has none, ValueError where its bytes lie the other way round."""
    found = FROM_NUMPY.get(np_dtype)
    if found is None and np_dtype.newbyteorder("=") in FROM_NUMPY:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is "
            "currently not supported. Give array.astype(array.dtype.newbyteorder('='))."
        )
    if found is None:
        raise TypeError(
            f"can't convert np.ndarray of type {np_dtype.type.__module__}.{np_dtype.type.__name__}. The only supported "
            "types are: float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, "
            "uint16, uint8, and bool."
        )
    return found


class _Default:
    """The default floating point type; process-wide, as torch's."""

    real = float32


def get_default_dtype() -> dtype:
    return _Default.real


def set_default_dtype(d: dtype) -> None:
    if not isinstance(d, dtype):
        raise TypeError(f"invalid dtype object: only floating-point types are supported as the default type, got {d!r}")
    if d not in (float16, bfloat16, float32, float64):
        raise TypeError("only floating-point types are supported as the default type")
    _Default.real = d


def default_complex() -> dtype:
    return complex128 if _Default.real is float64 else complex64


# Promotion within torch's lattice: rank inside a category; mixed categories take the higher one.
_INT_RANK = {uint8: (0, 1), int8: (1, 1), int16: (2, 2), int32: (3, 4), int64: (4, 8)}
_PROMOTED: dict[tuple[dtype, dtype], dtype] = {}


def promote_types(a: dtype, b: dtype) -> dtype:
    """The type both can be computed in, by torch's table (dimension plays no part here)."""
    if a is b:
        return a
    found = _PROMOTED.get((a, b))
    if found is None:
        found = _PROMOTED[a, b] = _PROMOTED[b, a] = _promote(a, b)
    return found


def _promote(a: dtype, b: dtype) -> dtype:
    if a.category > b.category:
        a, b = b, a
    if a.category < b.category:
        if b.category == 3 and a is float64:
            return complex128
        return b
    if a.category == 1:
        return _promote_integers(a, b)
    if a.category == 2:
        if {a, b} == {float16, bfloat16}:
            return float32
        if a.itemsize == b.itemsize == 1:
            raise RuntimeError(f"Promotion for Float8 Types is not supported, attempted to promote {a} and {b}")
        return a if a.itemsize > b.itemsize else b
    return complex128


def _promote_integers(a: dtype, b: dtype) -> dtype:
    if a in _INT_RANK and b in _INT_RANK:
        if {a, b} == {uint8, int8}:
            return int16
        return a if _INT_RANK[a] > _INT_RANK[b] else b
    raise RuntimeError(f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {a} and {b}")


def number_type(value: Any) -> dtype:
    """The type a Python number takes part in promotion with."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (int, np.integer)):
        return int64
    if isinstance(value, (float, np.floating)):
        return _Default.real
    if isinstance(value, (complex, np.complexfloating)):
        return default_complex()
    raise TypeError(f"expected a Python number, got {type(value).__name__}")


def combine(ranked: Iterable[tuple[int, dtype]]) -> dtype:
    """The result type of operands given as (rank, dtype); rank 2: tensors with dimensions, 1: 0-dim, 0: numbers.

    A lower rank only counts when its category is higher than that of all ranks above it.
    """
    best: list[dtype | None] = [None, None, None]
    for rank, d in ranked:
        seen = best[rank]
        best[rank] = d if seen is None else promote_types(seen, d)
    result: dtype | None = None
    for rank in (2, 1, 0):
        d2 = best[rank]
        if d2 is None:
            continue
        if result is None:
            result = d2
        elif result.category == 2 and d2.category == 3:
            result = result.to_complex()
        elif result.category < d2.category:
            result = promote_types(result, d2)
    if result is None:
        raise ValueError("at least one operand is needed to find a result type")
    return result


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether torch lets a result of one type be stored into another."""
    if from_.category > to.category:
        return False
    return not (from_.category == 1 and to.category == 1 and from_.is_signed and not to.is_signed and to is bool_)


# Python's own types, where a dtype is asked for.
PYTHON_TYPES: dict[Any, dtype] = {bool: bool_, int: int64, float: float64, complex: complex128}


def as_dtype(d: Any) -> Any:
    """A dtype argument with Python's types replaced by the dtypes they stand for; anything else as it is."""
    return PYTHON_TYPES[d] if type(d) is type and d in PYTHON_TYPES else d


@functools.cache
def _limits(d: dtype) -> tuple[int, float, float, float, float, float]:
    """Bits, epsilon, largest, lowest and least normal value, and the resolution in decimal digits."""
    limits: Any = ml_dtypes.finfo
    info = limits(d.np)
    resolution = 10.0 ** round(math.log10(float(info.resolution)))
    return d.itemsize * 8, float(info.eps), float(info.max), float(info.min), float(info.smallest_normal), resolution


_FINFO: dict[Any, finfo] = {}
_IINFO: dict[Any, iinfo] = {}


class finfo:
    """Machine limits of a floating point type."""

    __slots__ = ("dtype", "bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution")
    dtype: str
    bits: int
    eps: float
    max: float
    min: float
    tiny: float
    smallest_normal: float
    resolution: float

    def __new__(cls, type: Any = None) -> finfo:
        found = _FINFO.get(type)
        if found is not None:
            return found
        d = _Default.real if type is None else as_dtype(type)
        if d.is_complex:
            d = d.to_real()
        if not d.is_floating_point:
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'"
            )
        self = object.__new__(cls)
        self.dtype = d.name
        self.bits, self.eps, self.max, self.min, self.tiny, self.resolution = _limits(d)
        self.smallest_normal = self.tiny
        if type is not None:
            _FINFO[type] = self
        return self

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash(("finfo", self.dtype))


class iinfo:
    """Machine limits of an integer type."""

    __slots__ = ("dtype", "bits", "max", "min")
    dtype: str
    bits: int
    max: int
    min: int

    def __new__(cls, type: Any) -> iinfo:
        found = _IINFO.get(type)
        if found is not None:
            return found
        type = as_dtype(type)
        if type is bool_:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if type.category != 1:
            raise TypeError("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'")
        info = np.iinfo(type.np)
        self = _IINFO[type] = object.__new__(cls)
        self.dtype, self.bits, self.max, self.min = type.name, info.bits, int(info.max), int(info.min)
        return self

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash(("iinfo", self.dtype))

    def __reduce__(self) -> tuple[Any, ...]:
        return iinfo, (next(d for d in FROM_NUMPY.values() if d.name == self.dtype),)
