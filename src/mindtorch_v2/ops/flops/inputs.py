"""What formulas read of recorded inputs.

An addition, a multiplication, a division, a comparison that selects (`relu`, `clamp`, `maximum`) and a function of an
element (`exp`, `tanh`, `sigmoid`) are one operation each, whatever the element type; a reduction takes one for each
element it reads; of two branches the longer one counts. Moving, making and drawing values, logic on bools and bits,
sorting and searching take none. A formula counts what an op does with everything inside of it: `Metrics.all_flops`
leaves an event what the events in it do not account for. Rows have their formula as `all_flops=`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...core.tap import InputRecord

Formula = Callable[[InputRecord], int]


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
