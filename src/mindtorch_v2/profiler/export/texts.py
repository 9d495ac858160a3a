"""Texts and values as files can hold them, whatever names and arguments a program or a trace brings along.

A text may hold halves of surrogate pairs, which no UTF-8 has; a number may be NaN or infinite, which JSON has no word for.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

_replace_halves = re.compile("[\ud800-\udfff]").sub
# How JSON of plain ASCII begins to write what may be half of a pair.
_MAY_BE_HALF = "\\ud"


def writable(text: str) -> str:
    """The text with � for what UTF-8 cannot hold."""
    return text if text.isascii() else _replace_halves("\ufffd", text)


def encoded(text: str) -> bytes:
    """The text in UTF-8."""
    return writable(text).encode()


def writable_value(value: Any) -> Any:
    """A value for JSON: texts as above, numbers that JSON cannot hold as texts."""
    if isinstance(value, str):
        return writable(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [writable_value(item) for item in value]
    if isinstance(value, dict):
        return {writable_value(key): writable_value(item) for key, item in value.items()}
    return value


def json_encoder(**options: Any) -> Callable[[Any], str]:
    """A function from values to JSON that is valid for every reader; the options are those of `json.JSONEncoder`."""
    encode = json.JSONEncoder(allow_nan=False, **options).encode

    def text_of(value: Any) -> str:
        try:
            text = encode(value)
        except ValueError:
            return encode(writable_value(value))
        return encode(writable_value(value)) if _MAY_BE_HALF in text else text

    return text_of


json_text = json_encoder()
