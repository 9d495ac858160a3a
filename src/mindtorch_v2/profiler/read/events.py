"""Events of a trace as a parser gives them: records where the extra `fast` is installed, else mappings.

Both are read by `column`, many at once. A record has the fields that readers ask for; what has values of other types
there is refused by the parser, and read as mappings.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any

try:
    import msgspec
except ImportError:
    msgspec = None  # type: ignore[assignment]

# Stands for a text that is not there.
MISSING = "\0missing"

decode: Callable[[bytes], list[Any] | None] | None = None

if msgspec is not None:

    class Event(msgspec.Struct, gc=False):
        """An event. Defaults are what a field means that is not there; None and MISSING that it has to be there."""

        ph: str
        cat: str = MISSING
        name: str = MISSING
        pid: int | str = 0
        tid: int | str = 0
        ts: int | float | None = None
        dur: int | float = 0
        id: Any = None
        args: dict[str, Any] | None = None

    _decode = msgspec.json.Decoder(list[Event]).decode

    def decode_events(data: bytes) -> list[Any] | None:
        """The events of an array; None where the parser refuses what others let through."""
        try:
            return _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None

    decode = decode_events


def column(events: list[Any], key: str, otherwise: Any) -> list[Any]:
    """The values of a field."""
    if not events or type(events[0]) is dict:
        try:
            return list(map(itemgetter(key), events))
        except KeyError:
            return [event.get(key, otherwise) for event in events]
    values = list(map(attrgetter(key), events))
    return [otherwise if value is MISSING else value for value in values] if MISSING in values else values


def required(events: list[Any], key: str) -> list[Any]:
    """The values of a field that every event has; KeyError where one has not."""
    if not events or type(events[0]) is dict:
        return list(map(itemgetter(key), events))
    values = list(map(attrgetter(key), events))
    if MISSING in values or None in values:
        raise KeyError(key)
    return values


def as_mapping(event: Any) -> dict[str, Any]:
    """An event as a mapping of what it has."""
    if type(event) is dict:
        return event
    found: dict[str, Any] = msgspec.structs.asdict(event)
    return {key: value for key, value in found.items() if value is not MISSING and value is not None}
