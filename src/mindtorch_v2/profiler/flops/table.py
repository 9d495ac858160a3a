"""The table of formulas by the name of an op, and how a formula reads recorded inputs.

An addition, a multiplication, a division, a comparison that selects (`relu`, `clamp`, `maximum`) and a function of an
element (`exp`, `tanh`, `sigmoid`) are one operation each, whatever the element type; a reduction takes one for each
element it reads; of two branches the longer one counts. Moving, making and drawing values, logic on bools and bits,
sorting and searching take none. A formula counts what an op does with everything inside of it: `Metrics.all_flops`
leaves an event what the events in it do not account for. No module here knows ops, or the column that torch counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..._tap import InputRecord

Formula = Callable[[InputRecord], int]
# What no event can hold: counts are columns of 64 bits.
_LIMIT = 1 << 63

FORMULAS: dict[str, Formula] = {}


def formula_of(event: str) -> Formula | None:
    """The formula for events of a name, `aten::` and all; ops that work in place have that of the plain one."""
    name = event.removeprefix("aten::")
    if name == event:
        return None
    plain = name if name in FORMULAS else name.removesuffix("_")
    single = plain.removeprefix("_foreach_")
    if single != plain and single in FORMULAS:
        formula = _for_each(FORMULAS[single])
    elif plain in FORMULAS:
        formula = FORMULAS[plain]
    else:
        return None
    return careful(lambda record: formula(record) if _says_something(record) else 0)


def careful(formula: Formula) -> Formula:
    """A formula that counts nothing for inputs such as no call of the op can have had."""

    def count(record: InputRecord) -> int:
        try:
            found = int(formula(record))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            return 0
        return found if 0 <= found < _LIMIT else 0

    return count


def _says_something(record: InputRecord) -> bool:
    """Whether the first input is known: a tensor without dimensions has a type, where nothing was recorded is none."""
    return bool(record.shapes) and (bool(record.shapes[0]) or bool(record.dtypes and record.dtypes[0]))


# --- what formulas read of a record -----------------------------------------------------------------------------------


def numel(record: InputRecord, place: int = 0) -> int:
    """Elements of the tensor at a place."""
    return math.prod(record.shapes[place])


def has(record: InputRecord, place: int) -> bool:
    """Whether an optional tensor was given."""
    return len(record.shapes) > place and bool(record.shapes[place])


def value(record: InputRecord, place: int, default: Any = None) -> Any:
    """What is no tensor, or a default where it was not given or not recorded."""
    found = record.concrete[place] if len(record.concrete) > place else None
    return default if found is None else found


def numbers(record: InputRecord, place: int, count: int, default: Any = None) -> list[int]:
    """A list of numbers, one for each dimension; a single one stands for all."""
    found = value(record, place, default)
    values = [int(value) for value in (found if isinstance(found, (list, tuple)) else [found])]
    if len(values) not in (1, count):
        raise ValueError(f"expected {count} numbers, got {len(values)}")
    return values * count if len(values) == 1 else values


def flags(record: InputRecord, place: int, count: int) -> list[bool]:
    """A mask of what is asked for; all of it where none was recorded."""
    found = value(record, place)
    return (
        [bool(flag) for flag in found] if isinstance(found, (list, tuple)) and len(found) == count else [True] * count
    )


def broadcast(shapes: Iterable[Sequence[int]]) -> int:
    """Elements of tensors of these shapes taken together."""
    result: list[int] = []
    for shape in shapes:
        backwards = [int(size) for size in reversed(shape)]
        result += [1] * (len(backwards) - len(result))
        for place, size in enumerate(backwards):
            result[place] = size if result[place] == 1 else result[place]
    return math.prod(result)


def is_not_one(record: InputRecord, place: int) -> bool:
    """Whether a factor changes anything."""
    return bool(value(record, place, 1) != 1)


def define(names: str, formula: Formula) -> None:
    """Say how to count ops of these names."""
    for name in names.split():
        if name in FORMULAS:
            raise ValueError(f"two formulas for {name}")
        FORMULAS[name] = formula


def _for_each(formula: Formula) -> Formula:
    """The formula of an op on lists of tensors, given that on one."""

    def at(values: Any, number: int) -> Any:
        return values[number] if values and isinstance(values[0], (list, tuple)) else values

    def count(record: InputRecord) -> int:
        amounts = range(len(record.shapes[0]))
        return sum(formula(record._replace(shapes=[at(s, number) for s in record.shapes])) for number in amounts)

    return count
