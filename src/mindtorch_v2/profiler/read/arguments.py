"""The arguments of trace events read back: inputs with shapes, strides and types, each distinct set kept once."""

from __future__ import annotations

import marshal
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_INPUT_KEYS = ("Input Dims", "Input Strides", "Input type", "Concrete Inputs")


class Arguments(NamedTuple):
    """What an InputRecord holds, and whatever else a trace tells of an event."""

    shapes: list[Any]
    strides: list[Any]
    dtypes: list[str]
    concrete: list[Any]
    keywords: tuple[tuple[str, Any], ...] = ()


class InputTable(Sequence[Arguments]):
    """Arguments by number; number 0 is for none. Distinct ones are kept once, but for the numbers of launches."""

    def __init__(self) -> None:
        self.distinct = [Arguments([], [], [], [])]
        self._numbers: dict[bytes, int] = {}
        # By number: which of the distinct ones it is, and the correlation it has besides, 0 for none.
        self._which, self._correlations = array("q", [0]), array("q", [0])

    def __len__(self) -> int:
        return len(self._which)

    def __getitem__(self, number: Any) -> Any:
        found, correlation = self.distinct[self._which[number]], self._correlations[number]
        return found._replace(keywords=(*found.keywords, ("correlation", correlation))) if correlation else found

    def correlations(self, numbers: NDArray[np.int32]) -> NDArray[np.int64]:
        """The correlations of arguments, 0 for none."""
        return np.array(self._correlations, np.int64)[numbers]

    def _add(self, which: int, correlation: int) -> int:
        self._which.append(which)
        self._correlations.append(correlation)
        return len(self._which) - 1

    def correlated(self, number: int, correlation: int) -> int:
        """The number of arguments with a correlation among them."""
        return self._add(self._which[number], correlation)

    def intern(self, args: dict[str, Any]) -> int:
        """The number of these arguments; mappings that are equal share it."""
        if not args:
            return 0
        # Version 2 writes equal values as equal bytes, and much faster than JSON. Nothing is ever read from it.
        key = marshal.dumps(args, 2)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = self._add(len(self.distinct), 0)
            self.distinct.append(_arguments(args))
        return found


def _arguments(args: Mapping[str, Any]) -> Arguments:
    shapes, strides, dtypes, texts = (_listed(args.get(key)) for key in _INPUT_KEYS)
    count = max(map(len, (shapes, strides, dtypes, texts)))
    keywords = tuple((key, value) for key, value in args.items() if key not in _INPUT_KEYS)
    return Arguments(
        [_sizes(value) for value in _padded(shapes, count)],
        [_sizes(value) for value in _padded(strides, count)],
        [str(value or "") for value in _padded(dtypes, count)],
        [concrete_value(value) for value in _padded(texts, count)],
        keywords,
    )


def _padded(values: list[Any], count: int) -> list[Any]:
    return values + [None] * (count - len(values))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _sizes(value: Any) -> list[Any]:
    """Sizes of a tensor, or a list of them for a list of tensors; nothing for what can be neither."""
    sizes = _listed(value)
    if all(type(size) is int for size in sizes):
        return sizes
    return [[size for size in _listed(tensor) if type(size) is int] for tensor in sizes]


def concrete_value(text: Any, is_item: bool = False) -> Any:
    """A concrete input from the text that stands for it: numbers, bools and lists of them; other text stays text."""
    if not isinstance(text, str):
        return text
    if text.startswith("[") and text.endswith("]") and not is_item:
        return [concrete_value(item, True) for item in text[1:-1].split(", ")] if len(text) > 2 else []
    if text in ("", "True", "False"):
        return {"": None, "True": True, "False": False}[text]
    for number in (int, float, complex):
        try:
            return number(text)
        except ValueError:
            continue
    return text
