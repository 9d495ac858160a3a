"""Steps of an optimizer on all of its small parameters at once, as one array, for when nobody watches the operators.

The update is the one written for a parameter; it runs on `Flat`, whose methods are the kernels of the operators of their
names, so results are the same to the bit. It does not know the optimizers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import tap
from ..core.storage import Storage
from ..core.tensor import FAST
from ..kernels.compiled import C, stand_in
from ..kernels.passes import BLOCK, number
from ..kernels.pointwise import arithmetic

_add, _subtract, _multiply, _divide = (stand_in(f) for f in (np.add, np.subtract, np.multiply, np.divide))
_sqrt, _absolute, _reciprocal, _maximum = (stand_in(f) for f in (np.sqrt, np.absolute, np.reciprocal, np.maximum))


class Flat:
    """Elements of several tensors in a row; methods are those of Tensor that updates are made of."""

    __slots__ = ("a", "changes")

    def __init__(self, a: Any) -> None:
        self.a = a
        self.changes = 0  # how often it was changed in place

    def _of(self, other: Any) -> Any:
        return other.a if type(other) is Flat else number(other, self.a.dtype)

    def _changed(self) -> Flat:
        self.changes += 1
        return self

    def item(self) -> float:
        """The one number that all of them hold."""
        return float(self.a[0])

    def clone(self) -> Flat:
        return Flat(self.a.copy())

    def copy_(self, other: Any) -> Flat:
        self.a[...] = other.a if type(other) is Flat else other._a
        return self._changed()

    def neg(self) -> Flat:
        return Flat(np.negative(self.a))

    def abs(self) -> Flat:
        return Flat(_absolute(self.a))

    def sqrt(self) -> Flat:
        return Flat(_sqrt(self.a))

    def sqrt_(self) -> Flat:
        _sqrt(self.a, out=self.a)
        return self._changed()

    def sign(self) -> Flat:
        return Flat(arithmetic.sign(self.a))

    def add(self, other: Any, alpha: float = 1) -> Flat:
        return Flat(self._sum(other, alpha, None))

    def add_(self, other: Any, alpha: float = 1) -> Flat:
        self._sum(other, alpha, self.a)
        return self._changed()

    def _sum(self, other: Any, alpha: float, out: Any) -> Any:
        if alpha != 1:
            return arithmetic.add_scaled(self.a, other.a, alpha, out=out)
        return _add(self.a, self._of(other), out=out)

    def sub(self, other: Flat) -> Flat:
        return Flat(_subtract(self.a, other.a))

    def mul(self, other: Any) -> Flat:
        return Flat(_multiply(self.a, self._of(other)))

    def mul_(self, other: Any) -> Flat:
        _multiply(self.a, self._of(other), out=self.a)
        return self._changed()

    def div(self, other: Any) -> Flat:
        return Flat(_divide(self.a, self._of(other)))

    def div_(self, other: Any) -> Flat:
        _divide(self.a, self._of(other), out=self.a)
        return self._changed()

    __mul__, __truediv__ = mul, div

    def __rtruediv__(self, other: float) -> Flat:
        return Flat(_reciprocal(self.a)).mul_(other)

    def addcmul(self, one: Flat, two: Flat, value: float = 1) -> Flat:
        return Flat(arithmetic.addcmul(self.a, one.a, two.a, value, out=None))

    def addcmul_(self, one: Flat, two: Flat, value: float = 1) -> Flat:
        arithmetic.addcmul(self.a, one.a, two.a, value, out=self.a)
        return self._changed()

    def addcdiv_(self, one: Flat, two: Flat, value: float = 1) -> Flat:
        arithmetic.addcdiv(self.a, one.a, two.a, value, out=self.a)
        return self._changed()

    def lerp_(self, end: Flat, weight: float) -> Flat:
        arithmetic.lerp(self.a, end.a, weight, out=self.a)
        return self._changed()

    def maximum_(self, other: Flat) -> Flat:
        _maximum(self.a, other.a, out=self.a)
        return self._changed()

    def clamp_(self, low: float, high: float) -> Flat:
        arithmetic.clamp(self.a, low, high, out=self.a)
        return self._changed()

    def gt(self, bound: float) -> Any:
        return np.greater(self.a, number(bound, self.a.dtype))

    def lt(self, bound: float) -> Any:
        return np.less(self.a, number(bound, self.a.dtype))

    def eq(self, bound: float) -> Any:
        return np.equal(self.a, number(bound, self.a.dtype))

    def __setitem__(self, mask: Any, value: float) -> None:
        np.copyto(self.a, number(value, self.a.dtype), where=mask)
        self._changed()


def lined_up(columns: list[list[Any]]) -> list[Any] | None:
    """A row for each column of tensors, the first of which holds the parameters; None if they cannot go together.

    Counters, which have no dimension, have to be equal: one number stands for all of them.
    """
    shapes, rows = [t._a for t in columns[0]], []
    if sum([a.size for a in shapes]) > BLOCK or not all(a.ndim for a in shapes):
        return None
    for column in columns:
        if not FAST.issuperset(map(type, column)):
            return None
        arrays = [t._a for t in column]
        counts = arrays[0].ndim == 0
        row = C.line_up(arrays, None if counts else shapes)
        if row is None or (counts and len(set(row.tolist())) > 1):
            return None
        rows.append(row)
    return rows


def laid_out(rows: list[Flat], columns: list[list[Any]]) -> None:
    """Put rows back into the tensors they were made of, and count the changes that operators would have made to each."""
    for row, column in zip(rows, columns, strict=True):
        if row.changes:
            C.lay_out(row.a, [t._a for t in column])
            for t in column:
                count_changes(t, row.changes)


def count_changes(t: Any, count: int) -> None:
    """That a tensor was changed in place so many times."""
    storage = t._v
    if storage is None:
        storage = t._v = Storage()
    storage.version += count


def step(update: Callable[..., None], params: list[Any], states: list[dict[str, Any]], group: dict[str, Any]) -> bool:
    """``update(parameter, gradient, state, group)`` for all parameters; False, with nothing changed, if it is one for
    operators."""
    if C is None or not params or tap.NAMESPACE["HOOK"] or group["differentiable"] or group.get("capturable"):
        return False
    names = list(states[0])
    if any(list(state) != names for state in states):
        return False
    changed = [params, *([state[name] for state in states] for name in names)]
    rows = lined_up([*changed, [p.grad for p in params]])
    if rows is None:
        return False
    *held, gradient = map(Flat, rows)
    update(held[0], gradient.neg() if group.get("maximize") else gradient, dict(zip(names, held[1:])), group)
    laid_out(held, changed)
    return True
