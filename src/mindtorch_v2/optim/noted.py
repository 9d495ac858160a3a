"""Steps of an optimizer while they are recorded: the operators that the update of one parameter is made of are noted once,
and the compiled helper performs them on every parameter, each an event as if it had been called from here.

The update is the one written for a parameter; it runs on `Noted`, which stands for a tensor. It does not know the optimizers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from .. import _tap
from .._errors import no_memory
from .._floating import quiet
from .._op import OPS
from .._tensor import FAST
from ..kernels.compiled import C
from ..kernels.passes import number

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_NAMESPACE = _tap.NAMESPACE
_ITEM, _READ = OPS["item"], OPS["_local_scalar_dense"]
_OUT = ("out",)  # by which loops that stand for a ufunc take their result; others take it as their last argument


_FEW = 4  # to note an update takes about as long as to call its operators for so many parameters


class CannotNote(Exception):
    """An update asks for more than can be noted of it."""


class Notes:
    """The operators that an update has called, in terms of registers: first come the tensors of a round (parameter, gradient,
    state), from NUMBERS on numbers, from MADE on what operators make."""

    NUMBERS, MADE = 16, 48

    def __init__(self) -> None:
        # (event; that of an op right inside or -1; loop; name of its result or None; register of the result, -1 for none;
        # whether that is new; registers of what is recorded; of what the loop gets)
        self.steps: list[tuple[Any, ...]] = []
        self.numbers: list[Any] = []
        self.made = self.MADE

    def register(self, value: Any) -> int:
        """Where a tensor or a number is."""
        if type(value) is Noted:
            return value.register
        self.numbers.append(value)
        return self.NUMBERS - 1 + len(self.numbers)


class Noted:
    """Stands for a tensor; methods are those of Tensor that updates are made of. Of a counter, the number is known."""

    __slots__ = ("_notes", "register", "_dtype", "_counter")

    def __init__(self, notes: Notes, register: int, dtype: Any, counter: Any = None) -> None:
        self._notes, self.register, self._dtype, self._counter = notes, register, dtype, counter

    def _note(self, name: str, loop: Any, names: Any, given: tuple[Any, ...], operands: tuple[Any, ...]) -> Noted:
        """One more operator, whose name says whether it is one in place."""
        notes, fresh, result = self._notes, not (name.endswith("_") or "_." in name), self
        if fresh:
            result = Noted(notes, notes.made, self._dtype)
            notes.made += 1
        recorded = bytes([self.register, *map(notes.register, given)])
        used = recorded if operands is given else bytes([self.register, *map(notes.register, operands)])
        notes.steps.append((OPS[name].event, -1, loop, names, result.register, fresh, recorded, used))
        return result

    def _by_loop(self, name: str, loop: Any, *given: Any) -> Noted:
        if self._counter is not None:
            raise CannotNote(f"{name} of a counter")
        return self._note(name, loop, None, given, given)

    def _by_ufunc(self, name: str, ufunc: Any, other: Any, *rest: Any) -> Noted:
        operand = other if type(other) is Noted else number(other, self._dtype)
        if self._counter is not None:
            if operand is other or "_." not in name:
                raise CannotNote(f"{name} of a counter")
            ufunc(self._counter, operand, out=self._counter)
        return self._note(name, ufunc, _OUT, (other, *rest), (operand,))

    def item(self) -> Any:
        """The number of a counter, which each round looks up for itself as well."""
        if self._counter is None:
            raise CannotNote("a number that is not known yet")
        here = bytes([self.register])
        self._notes.steps.append((_ITEM.event, _READ.event, np.ndarray.item, None, -1, False, here, here))
        return self._counter.item()

    def sqrt(self) -> Noted:
        if self._counter is not None:
            raise CannotNote("the root of a counter")
        return self._note("sqrt", C.sqrt, _OUT, (), ())

    def mul(self, other: Any) -> Noted:
        return self._by_ufunc("mul.Tensor", C.multiply, other)

    def mul_(self, other: Any) -> Noted:
        return self._by_ufunc("mul_.Tensor", C.multiply, other)

    def div(self, other: Any) -> Noted:
        return self._by_ufunc("div.Tensor", C.divide, other)

    __mul__, __truediv__ = mul, div

    def add(self, other: Any, *, alpha: Any = 1) -> Noted:
        return self._sum("add.Tensor", other, alpha)

    def add_(self, other: Any, *, alpha: Any = 1) -> Noted:
        return self._sum("add_.Tensor", other, alpha)

    def _sum(self, name: str, other: Any, alpha: Any) -> Noted:
        if alpha == 1:
            return self._by_ufunc(name, C.add, other, alpha)
        return self._by_loop(name, C.add_scaled, other, alpha)

    def addcmul_(self, one: Noted, two: Noted, *, value: Any = 1) -> Noted:
        return self._by_loop("addcmul_", C.addcmul, one, two, value)

    def addcdiv_(self, one: Noted, two: Noted, *, value: Any = 1) -> Noted:
        return self._by_loop("addcdiv_", C.addcdiv, one, two, value)

    def lerp_(self, end: Noted, weight: Any) -> Noted:
        return self._by_loop("lerp_.Scalar", C.lerp, end, weight)

    def __getattr__(self, name: str) -> NoReturn:
        raise CannotNote(name)

    def _cannot(self, other: Any) -> NoReturn:
        raise CannotNote("an operator that is none of these")

    __add__ = __radd__ = __sub__ = __rsub__ = __rmul__ = __rtruediv__ = _cannot


def _noted(update: Callable[..., None], names: list[str], columns: list[list[Any]], group: dict[str, Any]) -> Notes:
    """What an update does to the first parameter; the helper finds out whether all others are like it."""
    notes, held = Notes(), []
    for register, column in enumerate(columns):
        array = column[0]._a
        held.append(Noted(notes, register, array.dtype, None if array.ndim else array.copy()))
    update(held[0], held[1], dict(zip(names, held[2:], strict=True)), group)
    return notes


def step(
    update: Callable[..., None],
    params: list[Any],
    grads: list[Any],
    states: list[dict[str, Any]],
    group: dict[str, Any],
) -> bool:
    """``update(parameter, gradient, state, group)`` for all parameters; False, with nothing changed, if it cannot be noted."""
    if C is None or _tap.HELPER is None or not _NAMESPACE["RECORDING"] or _NAMESPACE["INFERRING"]:
        return False
    if len(params) <= _FEW:
        return False
    names, dtype = list(states[0]), params[0]._a.dtype
    columns = [params, grads, *([state.get(name) for state in states] for name in names)]
    if group["differentiable"] or group.get("capturable") or dtype not in _FLOATS:
        return False
    if {*map(len, states)} != {len(names)} or not all(type(column[0]) in FAST for column in columns):
        return False
    try:
        notes = _noted(update, names, columns, group)
        with quiet():
            done: bool = _tap.HELPER.perform(notes.steps, columns, notes.numbers)
    except CannotNote:
        return False
    except MemoryError as error:
        raise no_memory(error) from None
    return done
