"""Steps of an optimizer while they are recorded: the operators that the update of one parameter is made of are noted once,
and the compiled helper performs them on every parameter, each an event as if it had been called from here.

The update is the one written for a parameter; it runs on `Noted`, which stands for a tensor. It does not know the optimizers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..core import tap
from ..core.errors import no_memory
from ..core.tensor import FAST
from ..dispatch.op import OPS
from ..kernels.compiled import C
from ..kernels.floating import quiet
from ..kernels.passes import number

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_NAMESPACE = tap.NAMESPACE
_ITEM, _READ = OPS["item"], OPS["_local_scalar_dense"]
_OUT = ("out",)  # by which loops that stand for a ufunc take their result; others take it as their last argument


_FEW = 4  # to note an update takes about as long as to call its operators for so many parameters


class CannotNote(Exception):
    """An update asks for more than can be noted of it."""


class Notes:
    """What an update has called, as little as tells it from others: the names of operators and the registers of what they
    are given, -1 for a number. First come the tensors of a round (parameter, gradient, state), from NUMBERS on numbers, from
    MADE on what operators make."""

    NUMBERS, MADE = 16, 48

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.numbers: list[Any] = []
        self.dtypes: list[Any] = []  # of what each number goes with
        self.made = self.MADE


class Plan(NamedTuple):
    """What the helper is to do where an update has said so."""

    # (event; that of an op right inside or -1; loop; name of its result or None; register of the result, -1 for none;
    # whether that is new; registers of what is recorded; of what the loop gets)
    steps: list[tuple[Any, ...]]
    converted: list[int]  # which numbers loops get as arrays: these lie behind the others


class Noted:
    """Stands for a tensor; methods are those of Tensor that updates are made of. Of a counter, the number is known."""

    __slots__ = ("_notes", "register", "_dtype", "_counter")

    def __init__(self, notes: Notes, register: int, dtype: Any, counter: Any = None) -> None:
        self._notes, self.register, self._dtype, self._counter = notes, register, dtype, counter

    def _note(self, name: str, fresh: bool, *given: Any) -> Noted:
        """One more operator, and whether it makes a tensor."""
        notes = self._notes
        said = notes.said
        said += (name, self.register)
        for value in given:
            if type(value) is Noted:
                said.append(value.register)
            else:
                said.append(-1)
                notes.numbers.append(value)
                notes.dtypes.append(self._dtype)
        if self._counter is not None:
            self._count(name, *given)
        if not fresh:
            return self
        notes.made += 1
        return Noted(notes, notes.made - 1, self._dtype)

    def _count(self, name: str, *given: Any) -> None:
        """The same to the number of a counter, for the numbers that depend on it."""
        ufunc = _COUNTED.get(name)
        if ufunc is None or type(given[0]) is Noted or given[1:] not in ((), (1,)):
            raise CannotNote(f"{name} of a counter")
        ufunc(self._counter, number(given[0], self._dtype), out=self._counter)

    def item(self) -> Any:
        """The number of a counter, which each round looks up for itself as well."""
        if self._counter is None:
            raise CannotNote("a number that is not known yet")
        self._notes.said += ("item", self.register)
        return self._counter.item()

    def sqrt(self) -> Noted:
        return self._note("sqrt", True)

    def mul(self, other: Any) -> Noted:
        return self._note("mul.Tensor", True, other)

    def mul_(self, other: Any) -> Noted:
        return self._note("mul_.Tensor", False, other)

    def div(self, other: Any) -> Noted:
        return self._note("div.Tensor", True, other)

    __mul__, __truediv__ = mul, div

    def add(self, other: Any, *, alpha: Any = 1) -> Noted:
        return self._note("add.Tensor" if alpha == 1 else "add.Tensor, scaled", True, other, alpha)

    def add_(self, other: Any, *, alpha: Any = 1) -> Noted:
        return self._note("add_.Tensor" if alpha == 1 else "add_.Tensor, scaled", False, other, alpha)

    def addcmul_(self, one: Noted, two: Noted, *, value: Any = 1) -> Noted:
        return self._note("addcmul_", False, one, two, value)

    def addcdiv_(self, one: Noted, two: Noted, *, value: Any = 1) -> Noted:
        return self._note("addcdiv_", False, one, two, value)

    def lerp_(self, end: Noted, weight: Any) -> Noted:
        return self._note("lerp_.Scalar", False, end, weight)

    def __getattr__(self, name: str) -> NoReturn:
        raise CannotNote(name)

    def _cannot(self, other: Any) -> NoReturn:
        raise CannotNote("an operator that is none of these")

    __add__ = __radd__ = __sub__ = __rsub__ = __rmul__ = __rtruediv__ = _cannot


if C is not None:
    # The loop of each operator; whether that stands for a ufunc, which takes its result by name and numbers as arrays.
    _LOOPS: dict[str, tuple[Any, bool]] = {
        "sqrt": (C.sqrt, True), "mul.Tensor": (C.multiply, True), "mul_.Tensor": (C.multiply, True),
        "div.Tensor": (C.divide, True), "add.Tensor": (C.add, True), "add_.Tensor": (C.add, True),
        "add.Tensor, scaled": (C.add_scaled, False), "add_.Tensor, scaled": (C.add_scaled, False),
        "addcmul_": (C.addcmul, False), "addcdiv_": (C.addcdiv, False), "lerp_.Scalar": (C.lerp, False),
    }  # fmt: skip
    _COUNTED = {"mul_.Tensor": C.multiply, "add_.Tensor": C.add}

# By what an update has said; there are few updates, and few ways through each.
_plans: dict[tuple[Any, ...], Plan] = {}


def _plan(said: tuple[Any, ...], numbers: int) -> Plan:
    """What is to be done where an update has said this, with so many numbers."""
    steps: list[tuple[Any, ...]] = []
    converted: list[int] = []
    place, made, taken = 0, Notes.MADE, 0
    while place < len(said):
        name, register = said[place : place + 2]
        place += 2
        if name == "item":
            here = bytes([register])
            steps.append((_ITEM.event, _READ.event, np.ndarray.item, None, -1, False, here, here))
            continue
        row, (loop, by_name) = OPS[name.partition(",")[0]], _LOOPS[name]
        recorded, used = [register], [register]
        while place < len(said) and type(said[place]) is int:
            given = said[place]
            place += 1
            if given >= 0:
                recorded.append(given)
                used.append(given)
                continue
            recorded.append(Notes.NUMBERS + taken)
            if by_name and len(used) == 1:
                used.append(Notes.NUMBERS + numbers + len(converted))
                converted.append(taken)
            elif not by_name:
                used.append(Notes.NUMBERS + taken)
            taken += 1
        fresh = row.kind == "kernel"
        result, made = (made, made + 1) if fresh else (register, made)
        steps.append((row.event, -1, loop, _OUT if by_name else None, result, fresh, bytes(recorded), bytes(used)))
    return Plan(steps, converted)


def _noted(
    update: Callable[..., None], names: list[str], first: list[Any], group: dict[str, Any]
) -> tuple[Plan, list[Any]]:
    """What an update does to the first parameter, and its numbers; the helper finds out whether all others are like it."""
    notes, held = Notes(), []
    for register, tensor in enumerate(first):
        array = tensor._a
        held.append(Noted(notes, register, array.dtype, None if array.ndim else array.copy()))
    update(held[0], held[1], dict(zip(names, held[2:], strict=True)), group)
    said, numbers = tuple(notes.said), notes.numbers
    plan = _plans.get(said)
    if plan is None:
        plan = _plans[said] = _plan(said, len(numbers))
    return plan, numbers + [number(numbers[k], notes.dtypes[k]) for k in plan.converted]


def step(
    update: Callable[..., None],
    params: list[Any],
    grads: list[Any],
    states: list[dict[str, Any]],
    group: dict[str, Any],
) -> bool:
    """``update(parameter, gradient, state, group)`` for all parameters; False, with nothing changed, if it cannot be noted."""
    if C is None or tap.HELPER is None or not _NAMESPACE["RECORDING"] or _NAMESPACE["INFERRING"]:
        return False
    if len(params) <= _FEW:
        return False
    names, dtype = list(states[0]), params[0]._a.dtype
    if group["differentiable"] or group.get("capturable") or dtype not in _FLOATS:
        return False
    first = [params[0], grads[0], *states[0].values()]
    if {*map(len, states)} != {len(names)} or not FAST.issuperset(map(type, first)):
        return False
    try:
        plan, numbers = _noted(update, names, first, group)
        with quiet():
            done: bool = tap.HELPER.perform(plan.steps, params, grads, states, names, numbers)
    except CannotNote:
        return False
    except MemoryError as error:
        raise no_memory(error) from None
    return done
