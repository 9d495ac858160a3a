"""Operator schemas: the one-line text of a row, parsed into names, types and defaults.

The grammar is the part of ATen's that the rows use: `name.overload(Type arg, Type arg=default, *, Type kw=…) -> Type`.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple


class Argument(NamedTuple):
    """One argument of a schema."""

    name: str  # "self", "other", "dim"
    type: str  # "Tensor", "Tensor?", "Tensor[]", "Scalar", "int", "int[]", "bool", "str", "ScalarType?", …
    has_default: bool
    default: Any
    kwarg_only: bool

    @property
    def is_tensor(self) -> bool:
        return self.type in ("Tensor", "Tensor?")

    @property
    def is_tensor_list(self) -> bool:
        return self.type in ("Tensor[]", "Tensor?[]")

    @property
    def python_name(self) -> str:
        """The name in a Python signature: torch says `input` where schemas say `self`."""
        return "input" if self.name == "self" else self.name + "_" if self.name in ("from", "lambda") else self.name


class Schema(NamedTuple):
    """A whole schema."""

    name: str
    overload: str
    arguments: tuple[Argument, ...]
    returns: tuple[tuple[str, str], ...]  # (type, name or "")
    text: str

    @property
    def qualified(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @property
    def returns_list(self) -> bool:
        return len(self.returns) == 1 and self.returns[0][0] == "Tensor[]"

    @property
    def result_names(self) -> tuple[str, ...]:
        """Field names of a named result, or ()."""
        return tuple(name for _, name in self.returns) if all(name for _, name in self.returns) else ()


_SCHEMA = re.compile(r"^\s*(\w+)(?:\.(\w+))?\((.*)\)\s*->\s*(.+?)\s*$", re.S)
_CONSTANTS = {"None": None, "True": True, "False": False, "Mean": 1, "Sum": 2, "contiguous_format": None}


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for position, char in enumerate(text):
        if char in "[(":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def _value(text: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text.startswith("["):
        return tuple(_value(part) for part in _split(text[1:-1]))
    if text[0] in "\"'":
        return text[1:-1]
    return float(text) if re.search(r"[.e]|inf", text) else int(text)


def parse(text: str) -> Schema:
    """Parse one schema; ValueError names the text that does not fit."""
    match = _SCHEMA.match(text)
    if match is None:
        raise ValueError(f"not an operator schema: {text!r}; expected 'name(Type arg, …) -> Type'")
    name, overload, inside, returns = match.groups()
    arguments, kwarg_only = [], False
    for part in _split(inside):
        if part == "*":
            kwarg_only = True
            continue
        declared, _, default = part.partition("=")
        kind, _, argument = declared.strip().rpartition(" ")
        kind = re.sub(r"\(.*?\)", "", kind).strip()
        if not kind:
            raise ValueError(f"argument {part!r} of schema {text!r} has no type")
        default = default.strip()
        arguments.append(Argument(argument, kind, bool(default), _value(default) if default else None, kwarg_only))
    outputs = returns[1:-1] if returns.startswith("(") else returns
    parsed = []
    for part in _split(outputs):
        kind, _, label = part.partition(" ")
        parsed.append((kind, label.strip()))
    return Schema(name, overload or "", tuple(arguments), tuple(parsed), text.strip())


def out_overload(name: str, overload: str) -> str:
    """The name of the overload of an op that writes into given tensors, unless its row says another."""
    if name.endswith("_backward"):
        return "grad_input"
    return "out" if overload in ("", "Tensor") else f"{overload}_out"
