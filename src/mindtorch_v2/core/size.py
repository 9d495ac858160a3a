"""The `Size` of a tensor: a tuple of ints that stays a `Size` when it is sliced, joined or repeated.

It knows nothing of tensors.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, SupportsIndex, final, overload

from . import tap

if TYPE_CHECKING or tap.HELPER is None:

    class _Extents(tuple[int, ...]):
        """A tuple whose slices are of its own class."""

        __slots__ = ()

        @overload
        def __getitem__(self, index: SupportsIndex) -> int: ...
        @overload
        def __getitem__(self, index: slice) -> Size: ...
        def __getitem__(self, index: SupportsIndex | slice) -> int | Size:
            item = tuple.__getitem__(self, index)
            return tuple.__new__(Size, item) if isinstance(item, tuple) else item

else:
    _Extents = tap.HELPER.Extents


@final
class Size(_Extents):
    """The extent of a tensor in each of its dimensions."""

    __slots__ = ()

    def __new__(cls, iterable: Iterable[SupportsIndex] = (), /) -> Size:
        if type(iterable) is tuple or type(iterable) is list:
            for entry in iterable:
                if type(entry) is not int:
                    break
            else:
                return tuple.__new__(cls, iterable)
        return tuple.__new__(cls, [_extent(position, entry) for position, entry in enumerate(iterable)])

    def numel(self) -> int:
        """Number of elements of a tensor of this size."""
        return math.prod(self)

    def __add__(self, other: Any) -> Size:
        return Size((*self, *other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any) -> Size:
        return Size((*other, *self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, count: Any) -> Size:
        try:
            repeats = operator.index(count)
        except TypeError:
            # Leaves the operation to the other operand: an array multiplies element by element.
            return NotImplemented
        return tuple.__new__(Size, tuple.__mul__(self, repeats))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def __reduce__(self) -> tuple[type[Size], tuple[tuple[int, ...]]]:
        return Size, (tuple(self),)


def _extent(position: int, entry: SupportsIndex) -> int:
    try:
        return operator.index(entry)
    except TypeError:
        found = type(entry).__name__
        raise TypeError(f"torch.Size() takes an iterable of 'int' (item {position} is '{found}')") from None


class SymInt:
    """A size that is not known yet, for isinstance: nothing is traced here, hence none is ever made."""


class SymFloat:
    """A number that is not known yet; as SymInt."""


class SymBool:
    """A truth that is not known yet; as SymInt."""


def sym_int(a: Any) -> int:
    """Numbers that might not be known yet are plain ones here, and so is arithmetic on them."""
    return int(a)


def sym_float(a: Any) -> float:
    return float(a)


def sym_not(a: Any) -> bool:
    return not a


def sym_max(a: Any, b: Any) -> Any:
    return max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    return min(a, b)


def sym_sqrt(a: Any) -> float:
    return math.sqrt(a)


def sym_sum(args: Any) -> Any:
    return sum(args)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    return t if b else f
