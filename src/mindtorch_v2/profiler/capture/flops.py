"""Floating point operations of an op from its recorded inputs: `formula_of` the name of an event.

Formulas stand on the rows of ops, which put them into `tap.ALL_FLOPS`. Nothing here knows ops, or the column that torch
counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core import tap
from ...core.tap import InputRecord

Formula = Callable[[InputRecord], int]
# What no event can hold: counts are columns of 64 bits.
_LIMIT = 1 << 63


def formula_of(event: str) -> Formula | None:
    """The formula for events of a name, `aten::` and all; ops that work in place have that of the plain one."""
    name = event.removeprefix("aten::")
    if name == event:
        return None
    plain = name if event in tap.ALL_FLOPS else name.removesuffix("_")
    formula = tap.ALL_FLOPS.get(f"aten::{plain}")
    if plain.startswith("_foreach_"):
        single = tap.ALL_FLOPS.get(f"aten::{plain.removeprefix('_foreach_')}")
        formula = formula if single is None else _for_each(single)
    if formula is None:
        return None
    counted = formula
    return careful(lambda record: counted(record) if _says_something(record) else 0)


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


def _for_each(formula: Formula) -> Formula:
    """The formula of an op on lists of tensors, given that on one."""

    def at(values: Any, number: int) -> Any:
        return values[number] if values and isinstance(values[0], (list, tuple)) else values

    def count(record: InputRecord) -> int:
        amounts = range(len(record.shapes[0]))
        return sum(formula(record._replace(shapes=[at(s, number) for s in record.shapes])) for number in amounts)

    return count
