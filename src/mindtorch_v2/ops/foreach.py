"""Composites over lists of tensors: `_foreach_add_` and its kin, each the plain op on every tensor of the list.

Optimizers and gradient clipping use them; an event of its own stands around the events of the ops.
"""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..dispatch.front import front
from ..dispatch.op import OPS, composite


def _pairs(tensors: Any, others: Any) -> Any:
    """Tensors with their second operands: one for all, or one for each."""
    if isinstance(others, (list, tuple)):
        if len(others) != len(tensors):
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {len(tensors)} and {len(others)}"
                if others and isinstance(others[0], Tensor)
                else f"Tensor list must have same number of elements as scalar list, got {len(tensors)} and {len(others)}"
            )
        return zip(tensors, others, strict=True)
    return ((t, others) for t in tensors)


def _check(tensors: Any) -> None:
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")


# What ATen runs for names that have no in-place form, or none that takes a number.
_RUNS = {"maximum": "clamp_min", "maximum_": "clamp_min_", "minimum": "clamp_max", "minimum_": "clamp_max_"}


def _call(name: str) -> Any:
    """The public function of an op, found when it is needed: overloads are joined after all rows are known."""
    return getattr(Tensor, _RUNS.get(name, name))


def _rows(name: str, schema: str, body: Any) -> None:
    """The functional and the in-place form of a composite over lists."""

    def fresh(self: Any, *rest: Any) -> Any:
        _check(self)
        return tuple(body(_call(name), self, *rest))

    def changing(self: Any, *rest: Any) -> None:
        _check(self)
        for _ in body(_call(f"{name}_"), self, *rest):
            pass

    overload = f".{schema.split('|')[0]}" if "|" in schema else ""
    arguments = schema.split("|")[-1]
    composite(f"_foreach_{name}{overload}({arguments}) -> Tensor[]", method=False)(fresh)
    composite(f"_foreach_{name}_{overload}({arguments}) -> Tensor[]", method=False)(changing)


def _unary(f: Any, tensors: Any) -> Any:
    return (f(t) for t in tensors)


def _binary(f: Any, tensors: Any, others: Any) -> Any:
    if not isinstance(others, (list, tuple)):
        return [f(t, others) for t in tensors]
    return (f(t, o) for t, o in _pairs(tensors, others))


def _scaled(f: Any, tensors: Any, others: Any, alpha: Any) -> Any:
    return (f(t, o, alpha=alpha) for t, o in _pairs(tensors, others))


def _ternary(f: Any, tensors: Any, first: Any, second: Any, value: Any) -> Any:
    values = value._a.tolist() if isinstance(value, Tensor) else value
    triples = zip(tensors, first, second, strict=True)
    return (f(t, a, b, value=v) for (t, a, b), v in _pairs(list(triples), values))


def _lerp(f: Any, tensors: Any, ends: Any, weights: Any) -> Any:
    return (f(t, e, w) for (t, e), w in _pairs(list(zip(tensors, ends, strict=True)), weights))


UNARY = """abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal
    round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc""".split()
BINARY = "add sub mul div clamp_min clamp_max maximum minimum pow".split()
THREE = "Tensor[] self, Tensor[] tensor1, Tensor[] tensor2"

for _name in UNARY:
    _rows(_name, "Tensor[] self", _unary)
for _name in BINARY:
    _alpha = ", *, Scalar alpha=1" if _name in ("add", "sub") else ""
    _rows(_name, "Scalar|Tensor[] self, Scalar scalar", _binary)
    _rows(_name, f"List|Tensor[] self, Tensor[] other{_alpha}", _scaled if _alpha else _binary)
    _rows(_name, "ScalarList|Tensor[] self, Scalar[] scalars", _binary)
_rows("add", "Tensor|Tensor[] self, Tensor other, *, Scalar alpha=1", _scaled)
for _name in ("mul", "div"):
    _rows(_name, "Tensor|Tensor[] self, Tensor other", _binary)
for _name in ("addcmul", "addcdiv"):
    _rows(_name, f"Scalar|{THREE}, Scalar value=1", _ternary)
    _rows(_name, f"ScalarList|{THREE}, Scalar[] scalars", _ternary)
    _rows(_name, f"Tensor|{THREE}, Tensor scalars", _ternary)
_rows("lerp", "List|Tensor[] self, Tensor[] tensors1, Tensor[] weights", _lerp)
_rows("lerp", "Scalar|Tensor[] self, Tensor[] tensors1, Scalar weight", _lerp)
_rows("lerp", "ScalarList|Tensor[] self, Tensor[] tensors1, Scalar[] weight", _lerp)


def _overload(operand: Any) -> str:
    """Which overload an operand asks for."""
    if isinstance(operand, Tensor):
        return "Tensor"
    if isinstance(operand, (list, tuple)):
        return "List" if operand and isinstance(operand[0], Tensor) else "ScalarList"
    return "Scalar"


def _public(name: str, position: int) -> None:
    """One function for all overloads of a name, told apart by the operand at `position`."""
    rows = {key.partition(".")[2]: op for key, op in OPS.items() if key.partition(".")[0] == name}

    def choose(*args: Any, **kwargs: Any) -> Any:
        named = (kwargs[k] for k in ("scalar", "other", "scalars", "value", "weight", "weights") if k in kwargs)
        operand = args[position] if len(args) > position else next(named, 1)
        kind = _overload(operand)
        if kind not in rows:
            raise TypeError(
                f"{name}() takes {', '.join(sorted(rows))} as operand {position}, got {type(operand).__name__}"
            )
        return rows[kind].function(*args, **kwargs)

    choose.__name__ = choose.__qualname__ = name
    front(name)(choose)


for _name in BINARY:
    _public(f"_foreach_{_name}", 1)
    _public(f"_foreach_{_name}_", 1)
for _name in ("addcmul", "addcdiv"):
    _public(f"_foreach_{_name}", 3)
    _public(f"_foreach_{_name}_", 3)
_public("_foreach_lerp", 2)
_public("_foreach_lerp_", 2)


@composite("_foreach_zero_(Tensor[] self) -> Tensor[]", method=False)
def _foreach_zero_(self: Any) -> None:
    _check(self)
    for t in self:
        t.zero_()


@composite("_foreach_copy_(Tensor[] self, Tensor[] src, bool non_blocking=False) -> Tensor[]", method=False)
def _foreach_copy_(self: Any, src: Any, non_blocking: bool) -> None:
    _check(self)
    for t, s in _pairs(self, src):
        t.copy_(s)


@composite("_foreach_norm.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]", method=False)
def _foreach_norm(self: Any, ord: Any, dtype: Any) -> Any:
    _check(self)
    norm = OPS["linalg_vector_norm"].function
    return tuple(norm(t, ord, None, False, dtype=dtype) for t in self)
