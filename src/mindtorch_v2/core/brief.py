"""Short text of values that nobody vouches for, as error messages show what a file held.

A value from a file may be nested so deeply, or share so many parts with itself, that writing it out would take for ever.
Here only its first few parts are looked at, and none of its own methods runs.
"""

from __future__ import annotations

import itertools
from types import BuiltinFunctionType, FunctionType
from typing import Any

# How many characters of a text and how many items of a container are shown, and how many levels of containers.
_CHARACTERS, _ITEMS, _LEVELS = 60, 8, 2
# Python refuses to write out numbers of more than 4,300 digits, and takes long for fewer.
_BITS = 256
_BRACKETS: dict[type, tuple[str, str]] = {
    tuple: ("(", ")"),
    list: ("[", "]"),
    set: ("{", "}"),
    frozenset: ("{", "}"),
    dict: ("{", "}"),
}


def brief(value: Any, levels: int = _LEVELS) -> str:
    """The value in at most a few hundred characters, all of them printable."""
    kind = type(value)
    if value is None or kind is bool or kind is float or kind is complex:
        return repr(value)
    if kind is int:
        return repr(value) if value.bit_length() <= _BITS else f"a number of {value.bit_length()} bits"
    if kind is str or kind is bytes or kind is bytearray:
        return repr(value[:_CHARACTERS]) + ("…" if len(value) > _CHARACTERS else "")
    if kind in _BRACKETS:
        return _container(value, levels) if levels else f"{kind.__name__} of {len(value)}"
    named = value if isinstance(value, (type, FunctionType, BuiltinFunctionType)) else kind
    return brief_text(named.__name__)


def _container(value: Any, levels: int) -> str:
    is_dict = type(value) is dict
    shown = []
    for item in itertools.islice(value.items() if is_dict else value, _ITEMS):
        parts = item if is_dict else (item,)
        shown.append(": ".join(brief(part, levels - 1) for part in parts))
    if len(value) > _ITEMS:
        shown.append(f"… {len(value)} in all")
    left, right = _BRACKETS[type(value)]
    return left + ", ".join(shown) + ("," if type(value) is tuple and len(value) == 1 else "") + right


def brief_text(text: str, limit: int = 200) -> str:
    """A text of others' making without quotes: its first characters, those that are not printable written as escapes."""
    cut = text[:limit] + ("…" if len(text) > limit else "")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut)
