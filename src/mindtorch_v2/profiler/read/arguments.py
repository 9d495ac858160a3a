"""The arguments of trace events read back: inputs with shapes, strides and types, each distinct set kept once."""

from __future__ import annotations

import marshal
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import itemgetter, or_
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .jsonstream import DEEPEST

_INPUT_KEYS = ("Input Dims", "Input Strides", "Input type", "Concrete Inputs")


class Arguments(NamedTuple):
    """What an InputRecord holds, and whatever else a trace tells of an event."""

    shapes: list[Any]
    strides: list[Any]
    dtypes: list[str]
    concrete: list[Any]
    keywords: tuple[tuple[str, Any], ...] = ()


# Arguments that differ from call to call; the others are kept once for all calls that share them.
_OWN_ARGUMENTS = frozenset(
    ("External id", "Sequence number", "Fwd thread id", "Record function id", "Ev Idx", "Call stack", "Python thread",
     "Python id", "Python parent id", "Python module id", "Module path", "finished", "correlation", "Profiler Event Index")
)  # fmt: skip
# What arguments may tell beside inputs, by a key that some of them have.
OF_STACKS, OF_MODULES, OF_LAUNCHES, OF_SEQUENCES, OF_OPS = (1 << place for place in range(5))
_FLAGS = {
    "Call stack": OF_STACKS,
    "Python module id": OF_MODULES,
    "Module path": OF_MODULES,
    "correlation": OF_LAUNCHES,
    "Sequence number": OF_SEQUENCES,
    "External id": OF_OPS,
}
# No trace has arguments in more forms; those of a made up one are not remembered.
_MOST_FORMS = 10_000
# A packed list or object is no smaller.
_LEAST_PACKED = 5


class Form(NamedTuple):
    """What arguments with the same keys in the same order have in common."""

    # What takes the values that are kept for all calls alike from a mapping; None for none.
    shared: Callable[[Mapping[str, Any]], Any] | None
    # Numbers by packed values.
    numbers: dict[bytes, int]
    # OF_STACKS and the like, where it has such arguments.
    flags: int
    keys: tuple[str, ...]


class InputTable(Sequence[Arguments]):
    """Arguments by number; number 0 is for none. Distinct ones are kept once, packed, but for the numbers of launches."""

    def __init__(self) -> None:
        # By keys.
        self.forms: dict[tuple[str, ...], Form] = {}
        # Of the distinct ones: form and values.
        self._packed: list[tuple[Form, bytes]] = [(Form(None, {}, 0, ()), b"")]
        # Distinct ones have even numbers, twice their place. Odd numbers are for those that have a correlation besides.
        self._which, self._correlations = array("i"), array("q")
        self.has_shapes = False

    def __len__(self) -> int:
        return 2 * max(len(self._packed), len(self._which))

    def __getitem__(self, number: Any) -> Any:
        place, is_launched = divmod(number, 2)
        if not is_launched:
            return self._unpacked(place)
        found = self._unpacked(self._which[place] // 2)
        return found._replace(keywords=(*found.keywords, ("correlation", self._correlations[place])))

    def _unpacked(self, which: int) -> Arguments:
        if not which:
            return Arguments([], [], [], [])
        form, packed = self._packed[which]
        values = marshal.loads(packed)
        return _arguments(dict(zip(form.keys, values if len(form.keys) > 1 else (values,))))

    def form_of(self, keys: tuple[str, ...], besides: tuple[str, ...] = ()) -> Form:
        """The form of arguments with these keys, which keeps some `besides` that are an event's own elsewhere."""
        found = self.forms.get(keys + besides)
        if found is None:
            kept = tuple(key for key in keys if key not in _OWN_ARGUMENTS or key in besides)
            flags = reduce(or_, (_FLAGS.get(key, 0) for key in keys), 0)
            found = Form(itemgetter(*kept) if kept else None, {}, flags, kept)
            if len(self.forms) < _MOST_FORMS:
                self.forms[keys + besides] = found
        return found

    def correlations(self, numbers: NDArray[np.int32]) -> NDArray[np.int64]:
        """The correlations of arguments, 0 for none."""
        found = np.zeros(len(numbers), np.int64)
        odd = (numbers & 1) == 1
        found[odd] = np.frombuffer(self._correlations, np.int64)[numbers[odd] >> 1]
        return found

    def correlated(self, numbers: NDArray[np.int32], correlations: NDArray[np.int64]) -> NDArray[np.int32]:
        """The numbers of arguments that have correlations among them."""
        first = len(self._which)
        self._which.frombytes(numbers.tobytes())
        self._correlations.frombytes(correlations.tobytes())
        return np.arange(2 * first + 1, 2 * len(self._which) + 1, 2, dtype=np.int32)

    def intern(self, arguments: Sequence[dict[str, Any]]) -> tuple[list[int], int]:
        """The numbers of these arguments, which equal ones share, and the flags of all their forms."""
        forms, pack = self.forms, marshal.dumps
        numbers, flags = [], 0
        for args in arguments:
            keys = tuple(args)
            shared, known, has, _ = form = forms.get(keys) or self.form_of(keys)
            flags |= has
            if shared is None:
                numbers.append(0)
                continue
            # Version 2 writes equal values as equal bytes, and much faster than JSON.
            packed = pack(shared(args), 2)
            found = known.get(packed)
            numbers.append(self.add(form, args, packed) if found is None else found)
        return numbers, flags

    def add(self, form: Form, args: Mapping[str, Any], packed: bytes) -> int:
        """The number of arguments that have not been met yet."""
        if len(packed) >= _LEAST_PACKED * DEEPEST and _is_deeper(args, DEEPEST - 1):
            raise ValueError("values are nested too deeply")
        number = form.numbers[packed] = 2 * len(self._packed)
        self._packed.append((form, packed))
        if not self.has_shapes:
            self.has_shapes = any(isinstance(args.get(name), list) and args[name] for name in _INPUT_KEYS)
        return number

    def intern_with(self, args: dict[str, Any], besides: tuple[str, ...]) -> int:
        """The number of arguments of which some are kept that are an event's own elsewhere."""
        form = self.form_of(tuple(args), besides)
        assert form.shared is not None
        packed = marshal.dumps(form.shared(args), 2)
        return form.numbers[packed] if packed in form.numbers else self.add(form, args, packed)


def _is_deeper(value: Any, depth: int) -> bool:
    """Whether more lists and objects lie in each other."""
    if not isinstance(value, (list, dict)):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(_is_deeper(item, depth - 1) for item in inside)


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
