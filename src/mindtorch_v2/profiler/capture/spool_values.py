"""Values of the JSON in a spool, each checked for its type and size before anybody counts on it."""

from __future__ import annotations

import json
import struct
from typing import Any


def decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if isinstance(value, dict):
        if "tuple" in value:
            return tuple(decoded(item) for item in value["tuple"])
        return complex(*value["complex"]) if "complex" in value else None
    return value


# What reading JSON of any shape can end in.
MALFORMED = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
    struct.error,
)


def text_of(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"expected a text, got {type(value).__name__}")
    return value


def int_of(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"expected a whole number, got {type(value).__name__}")
    # Room is left for sums and differences of two.
    if not -LARGEST <= value <= LARGEST:
        raise ValueError("a number is too large")
    return value


LARGEST = 1 << 61
# A clock counts for eighteen years at most: sums and differences of times are those that every format takes.
LATEST_NS = 1 << 59


def time_of(value: Any) -> int:
    if not -LATEST_NS <= int_of(value) <= LATEST_NS:
        raise ValueError("a time is out of range")
    return int(value)


def json_value(text: str) -> Any:
    """What a metadata text says, or the text itself if it is no JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def header_int(header: dict[str, Any], key: str) -> int:
    found = header.get(key, 0)
    return found if isinstance(found, int) else 0
