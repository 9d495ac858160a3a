"""assert_close: whether tensors, numbers and nests of them are equal up to a tolerance, in torch's words if not."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import dtype
from ..core.dtype import dtype as DType
from ..core.tensor import Tensor
from ..ops.creation import convert

_TOLERANCES: dict[DType, tuple[float, float]] = {
    dtype.float16: (1e-3, 1e-5),
    dtype.bfloat16: (1.6e-2, 1e-5),
    dtype.float32: (1.3e-6, 1e-5),
    dtype.float64: (1e-7, 1e-7),
    dtype.complex64: (1.3e-6, 1e-5),
    dtype.complex128: (1e-7, 1e-7),
}


@dataclass(frozen=True)
class _Rules:
    """How strictly to compare."""

    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool
    allow_subclasses: bool

    def tolerances(self, *types: DType) -> tuple[float, float]:
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        found = [_TOLERANCES.get(d, (0.0, 0.0)) for d in types]
        return max(r for r, _ in found), max(a for _, a in found)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless `actual` and `expected` are close."""
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")
    rules = _Rules(
        rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride, allow_subclasses
    )  # fmt: skip
    try:
        _compare(actual, expected, rules, ())
    except _Different as error:
        text = str(error)
        raise AssertionError(msg(text) if callable(msg) else text if msg is None else msg) from None


class _Different(Exception):
    """What differs, in words."""

    def __init__(self, text: str, path: tuple[Any, ...]) -> None:
        where = "".join(f"[{part!r}]" for part in path)
        super().__init__(text + (f"\n\nThe failure occurred for item {where}" if path else ""))


# Relative and absolute tolerances of the older function, which are wider than `assert_close`'s.
_OLD_TOLERANCES = {"float16": (1e-3, 1e-3), "float32": (1e-4, 1e-5), "float64": (1e-5, 1e-8)}


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """The older `assert_close`: tolerances are wider, dtypes may differ."""
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. Please use "
        "`torch.testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    a = actual if isinstance(actual, Tensor) else convert.tensor(actual)
    e = expected if isinstance(expected, Tensor) else convert.tensor(expected, dtype=a.dtype)
    if rtol is None and atol is None:
        pairs = [_OLD_TOLERANCES.get(t.dtype.name, (0.0, 0.0)) for t in (a, e)]
        rtol, atol = max(r for r, _ in pairs), max(t for _, t in pairs)
    assert_close(a, e, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


def _compare(actual: Any, expected: Any, rules: _Rules, path: tuple[Any, ...]) -> None:
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        _compare_mappings(actual, expected, rules, path)
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            raise _Different(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", path)
        for index, (a, e) in enumerate(zip(actual, expected, strict=True)):
            _compare(a, e, rules, (*path, index))
    elif actual is None and expected is None:
        return
    elif isinstance(actual, (bool, np.bool_)) and isinstance(expected, (bool, np.bool_)):
        if actual is not expected and actual != expected:
            raise _Different(f"Booleans mismatch: {actual} is not {expected}", path)
    elif _is_number(actual) and _is_number(expected):
        _compare_numbers(actual, expected, rules, path)
    else:
        _compare_tensors(*_as_tensors(actual, expected, rules, path), rules, path)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Number) and not isinstance(value, (bool, Tensor))


def _compare_mappings(actual: Any, expected: Any, rules: _Rules, path: tuple[Any, ...]) -> None:
    missing, additional = set(expected) - set(actual), set(actual) - set(expected)
    if missing or additional:
        raise _Different(
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {sorted(missing, key=str)}\n"
            f"Additional keys in the actual mapping: {sorted(additional, key=str)}",
            path,
        )
    for key in actual:
        _compare(actual[key], expected[key], rules, (*path, key))


def _compare_numbers(actual: Any, expected: Any, rules: _Rules, path: tuple[Any, ...]) -> None:
    types = [dtype.int64 if isinstance(v, int) else dtype.float64 for v in (actual, expected)]
    types = [dtype.complex128 if isinstance(v, complex) else d for v, d in zip((actual, expected), types, strict=True)]
    if rules.check_dtype and type(actual) is not type(expected):
        raise _Different(f"The (d)types do not match: {type(actual)} != {type(expected)}.", path)
    rtol, atol = rules.tolerances(*types)
    if not np.isclose(actual, expected, rtol, atol, rules.equal_nan) and actual != expected:
        raise _Different(_number_text(actual, expected, rtol, atol), path)


def _number_text(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    equal = rtol == atol == 0
    difference = abs(actual - expected)
    relative = difference / abs(expected) if expected != 0 else float("inf")
    allowed = ("", "") if equal else (f" (up to {atol} allowed)", f" (up to {rtol} allowed)")
    return (
        f"Scalars are not {'equal' if equal else 'close'}!\n\nExpected {expected} but got {actual}.\n"
        f"Absolute difference: {difference}{allowed[0]}\nRelative difference: {relative}{allowed[1]}"
    )


def _as_tensors(actual: Any, expected: Any, rules: _Rules, path: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    tensors = isinstance(actual, Tensor) and isinstance(expected, Tensor)
    arrays = isinstance(actual, np.ndarray) and isinstance(expected, np.ndarray)
    related = rules.allow_subclasses or type(actual) is type(expected)
    if not related or not (tensors or arrays):
        raise TypeError(
            f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
            + (f"\n\nThe failure occurred for item {''.join(f'[{p!r}]' for p in path)}" if path else "")
        )
    return (actual, expected) if tensors else (convert.from_numpy(actual), convert.from_numpy(expected))


def _compare_tensors(actual: Tensor, expected: Tensor, rules: _Rules, path: tuple[Any, ...]) -> None:
    def check(name: str, a: Any, e: Any) -> None:
        if a != e:
            raise _Different(f"The values for attribute '{name}' do not match: {a} != {e}.", path)

    check("shape", actual.shape, expected.shape)
    if rules.check_layout:
        check("layout", actual.layout, expected.layout)
    if rules.check_device:
        check("device", actual.device, expected.device)
    if rules.check_dtype:
        check("dtype", actual.dtype, expected.dtype)
    if rules.check_stride:
        check("stride()", actual.stride(), expected.stride())
    if actual.is_meta or expected.is_meta:
        return
    rtol, atol = rules.tolerances(actual.dtype, expected.dtype)
    d = dtype.promote_types(actual.dtype, expected.dtype)
    a, e = (convert.to_dtype(t, d)._a for t in (actual.detach(), expected.detach()))
    _compare_arrays(a, e, d, rtol, atol, rules.equal_nan, path)


def _compare_arrays(a: Any, e: Any, d: DType, rtol: float, atol: float, equal_nan: bool, path: Any) -> None:
    if d.category >= 2:
        wide = np.complex128 if d.is_complex else np.float64
        a, e = a.astype(wide), e.astype(wide)
        close = np.isclose(a, e, rtol, atol, equal_nan)
    else:
        close = a == e if rtol == atol == 0 else np.isclose(a, e, rtol, atol)
        a, e = a.astype(object), e.astype(object)
    if close.all():
        return
    if a.ndim == 0:
        raise _Different(_number_text(a.item(), e.item(), rtol, atol), path)
    raise _Different(_array_text(a, e, close, rtol, atol), path)


def _array_text(a: Any, e: Any, close: Any, rtol: float, atol: float) -> str:
    equal = rtol == atol == 0
    if a.dtype == object:
        a, e = a.astype(np.int64), e.astype(np.int64)
    difference = np.abs(a - e)
    relative = difference / np.abs(e)
    difference, relative = (np.where(close, 0, x) for x in (difference, relative))
    count, bad = close.size, int((~close).sum())
    lines = [f"Tensor-likes are not {'equal' if equal else 'close'}!", ""]
    lines.append(f"Mismatched elements: {bad} / {count} ({bad / count:.1%})")
    for name, values, allowed in (("absolute", difference, atol), ("relative", relative, rtol)):
        index = np.unravel_index(int(np.argmax(values)), values.shape)
        place = f"({int(index[0])},)" if len(index) == 1 else str(tuple(int(i) for i in index))
        limit = "" if equal else f" (up to {allowed} allowed)"
        lines.append(f"Greatest {name} difference: {values[index].item()} at index {place}{limit}")
    return "\n".join(lines)
