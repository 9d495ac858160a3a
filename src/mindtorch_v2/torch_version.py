"""A version that is a string and compares as a version: `torch.__version__ >= (2, 1)`, `torch.__version__ < "1.10"`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

# The pieces that stand before a release of the same number, in their order.
_BEFORE = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "rc": -1, "c": -1}
_PIECES = re.compile(r"\d+|[a-z]+")


def _key(version: Any) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """The release numbers without trailing zeros, what comes before or after that release, and the local part."""
    text = (
        ".".join(map(str, version)) if not isinstance(version, str) and isinstance(version, Iterable) else str(version)
    )
    public, _, local = text.lower().strip().removeprefix("v").partition("+")
    pieces = _PIECES.findall(public)
    if not pieces or not pieces[0].isdigit():
        raise ValueError(f"Invalid version: {text!r}; a version begins with a number, as in 2.13.0")
    count = next((i for i, piece in enumerate(pieces) if not piece.isdigit()), len(pieces))
    release = [int(piece) for piece in pieces[:count]]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    suffix = tuple(int(p) if p.isdigit() else _BEFORE.get(p, 1) for p in pieces[count:])
    return tuple(release), suffix or (0,), local


class TorchVersion(str):
    """`str` whose comparisons take versions, strings and tuples of numbers; anything else compares as a string."""

    __slots__ = ()

    def _compare(self, other: Any, operation: str) -> Any:
        try:
            keys = _key(str(self)), _key(other)
        except ValueError:
            keys = str(self), other  # type: ignore[assignment]
        return getattr(keys[0], operation)(keys[1])

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, "__lt__")

    def __le__(self, other: Any) -> Any:
        return self._compare(other, "__le__")

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, "__gt__")

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, "__ge__")

    def __eq__(self, other: Any) -> Any:
        return self._compare(other, "__eq__")

    def __ne__(self, other: Any) -> Any:
        return self._compare(other, "__ne__")

    __hash__ = str.__hash__
