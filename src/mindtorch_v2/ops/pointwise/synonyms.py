"""Rows of second names: torch records `multiply` as an event of its own that runs `mul`."""

from __future__ import annotations

from typing import Any

from ...dispatch.front import front
from ...dispatch.op import OPS, Op, composite
from ...dispatch.overlap import PARTLY
from . import compare as _compare  # their rows come first
from . import special as _special
from . import transcendental as _transcendental
from .arithmetic import by_operand
from .ternary import clamp, clamp_

# name -> the row (or rows, by overload) it runs
_SYNONYMS = {
    "absolute": "abs", "negative": "neg", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan", "arctanh": "atanh", "fix": "trunc",
}  # fmt: skip
_BINARY = {
    "subtract": "sub.Tensor", "multiply": "mul.Tensor", "true_divide": "div.Tensor", "arctan2": "atan2",
    "greater": "gt.Tensor", "greater_equal": "ge.Tensor", "less": "lt.Tensor", "less_equal": "le.Tensor",
    "not_equal": "ne.Tensor",
}  # fmt: skip
_SPECIAL = {
    "expit": "sigmoid", "exp2": "exp2", "expm1": "expm1", "log1p": "log1p", "erf": "erf", "erfc": "erfc",
    "erfinv": "erfinv", "psi": "digamma", "digamma": "digamma", "gammaln": "lgamma", "sinc": "sinc", "i0": "i0",
    "logit": "logit", "logsumexp": "logsumexp", "multigammaln": "mvlgamma", "polygamma": "polygamma", "gammainc": "igamma",
    "gammaincc": "igammac",
}  # fmt: skip


def synonym(name: str, row: Op, method: bool = True, overload: str | None = None) -> Op:
    """A row of another name that runs `row`."""
    overload = row.schema.overload if overload is None else overload
    text = row.schema.text
    positional = sum(not a.kwarg_only for a in row.schema.arguments)
    keywords = [a.python_name for a in row.schema.arguments if a.kwarg_only]
    function = row.function

    def body(*args: Any, out: Any = None) -> Any:
        named = dict(zip(keywords, args[positional:], strict=True))
        if out is not None:
            named["out"] = out
        return function(*args[:positional], **named)

    schema = name + (f".{overload}" if overload else "") + text[text.index("(") :]
    out_overload = row.out_overload if overload == row.schema.overload else None
    made = composite(schema, out=row.has_out, out_overload=out_overload, method=method)(body)
    if row.rule is not None:
        PARTLY.add(name)
    made.takes_numbers = row.takes_numbers
    return made


for _name, _row in {**_SYNONYMS, **_BINARY}.items():
    synonym(_name, OPS[_row])
    _base, _dot, _overload = _row.partition(".")
    synonym(_name + "_", OPS[f"{_base}_{_dot}{_overload}"])
for _name, _row in _SPECIAL.items():
    synonym(f"special_{_name}", OPS[_row], method=False)


def _normalising(name: str, keyword_only: str) -> None:
    """`special.softmax` and its logarithm, which take no `out`."""

    def body(self: Any, dim: int, dtype: Any) -> Any:
        return OPS[f"{name}.int"].function(self, dim, dtype)

    schema = f"special_{name}(Tensor self, int dim, {keyword_only}ScalarType? dtype=None) -> Tensor"
    composite(schema, method=False)(body)


_normalising("softmax", "")
_normalising("log_softmax", "*, ")

divide = synonym("divide", OPS["div.Tensor"])
divide_mode = synonym("divide", OPS["div.Tensor_mode"])
divide_, divide_mode_ = synonym("divide_", OPS["div_.Tensor"]), synonym("divide_", OPS["div_.Tensor_mode"])


def _divide(name: str, plain: Op, rounded: Op) -> None:
    def function(input: Any, other: Any, *, rounding_mode: Any = None, **out: Any) -> Any:
        if rounding_mode is None:
            return plain.function(input, other, **out)
        return rounded.function(input, other, rounding_mode=rounding_mode, **out)

    function.__name__ = function.__qualname__ = name
    front(name)(function)


_divide("divide", divide, divide_mode)
_divide("divide_", divide_, divide_mode_)


def _clip(name: str, function: Any) -> Op:
    row = OPS["clamp" if not name.endswith("_") else "clamp_"]
    text = row.schema.text

    def body(self: Any, min: Any, max: Any, out: Any = None) -> Any:
        return function(self, min, max) if out is None else function(self, min, max, out=out)

    return composite(name + text[text.index("(") :].replace("Scalar?", "Any?"), out=row.has_out)(body)


clip, clip_ = _clip("clip", clamp), _clip("clip_", clamp_)


@composite("special_round(Tensor self, *, int decimals=0) -> Tensor", out=True, method=False)
def special_round(self: Any, decimals: int, out: Any = None) -> Any:
    return OPS["round.decimals"].function(self, decimals=decimals, out=out)


special_xlogy = by_operand(
    "special_xlogy",
    synonym("special_xlogy", OPS["xlogy.Tensor"], method=False, overload=""),
    synonym("special_xlogy", OPS["xlogy.Scalar_Other"], method=False, overload="other_scalar"),
    synonym("special_xlogy", OPS["xlogy.Scalar_Self"], method=False, overload="self_scalar"),
)

__all__ = ["_compare", "_special", "_transcendental", "synonym"]
