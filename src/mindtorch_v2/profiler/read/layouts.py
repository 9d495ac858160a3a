"""The events most of a trace consists of, read without a JSON parser, as torch and this package lay them out.

What many events share (all before their times, all after the numbers that are their own) is parsed once and known by its
text from then on. Anything in another layout, escapes included, is left to the JSON parser.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ..analyse.device_links import is_launch
from ..capture.capture import CPU_OP, MEMORY_EVENT_NAME, MEMORY_MARK, PYTHON_FUNCTION, USER_ANNOTATION

# A region: times, sequence number, what launched it, kind, inputs, stack. A change of memory: time, bytes, address.
ROW, MEMORY_ROW = struct.Struct("=4q3i"), struct.Struct("=3q")
_pack, _pack_memory = ROW.pack, MEMORY_ROW.pack

DEVICE_CATEGORIES = frozenset(
    "kernel gpu_memcpy gpu_memset gpu_user_annotation cuda_sync hpu_op mtia_ccp_events".split()
)
FORWARD_TO_BACKWARD = "fwdbwd"
_REGIONS = frozenset((CPU_OP, USER_ANNOTATION, PYTHON_FUNCTION, *DEVICE_CATEGORIES))
_REGION_KEYS, _MEMORY_KEYS = {"ph", "cat", "name", "pid", "tid"}, {"ph", "cat", "s", "name", "pid", "tid"}
# Arguments that are numbers of an event's own, first those that are kept.
_KEPT = ("External id", "Sequence number", "correlation")
_PASSED = ("Fwd thread id", "Record function id", "Python id", "Python parent id", "Python thread")
_OWN = frozenset((*_KEPT, *_PASSED, "Ev Idx"))
# No event begins with more than this before its time.
_FAR = 1 << 12

# Layouts: a space after punctuation stands for any white space, also before a comma; # for a number, @ for a time.
_TIMES = '"ts": @, "dur": @, "args": { '
_ARGUMENT = r'"([^"\\]*)": (-?[0-9]+|null)(?:, |\s*(?=}))'
_MEMORY = (
    '"ts": @, "args": { (?:"Ev Idx": [0-9]+, )?"Total Reserved": [0-9]+, "Total Allocated": -?[0-9]+, "Bytes": #, '
    r'"Device Id": -1, "Device Type": 0, "Addr": #(?:, "finished": (?:true|false))?(?:, "Ev Idx": [0-9]+)?\s*} } ,'
)
_ARROW = (
    r'\s*{ "ph": "([sf])", "id": #, "pid": #, "tid": #, "ts": @, "cat": "([a-z0-9]+)", "name": "([a-z0-9]+)"'
    r'(?:, "bp": "e")?\s*} ,'
)
_CLOSE = r'(?:"Ev Idx": [0-9]+\s*)?} } ,'
_SPACED = {"{ ": r"\{\s*", "} ": r"\}\s*", ", ": r"\s*,\s*", '": ': r'":\s*'}
# Microseconds up to the year 2033, also since 1970; what is longer is out of range.
_DIGITS = "(?:1[0-9]{15}|[0-9]{1,15})"
_NUMBER, _TIME, _FINE_TIME = "(-?[0-9]{1,18})", rf"({_DIGITS}(?:\.[0-9]{{3}})?)", rf"({_DIGITS}\.[0-9]{{3}})"
_OWN_NEXT = rf'"(?:{"|".join(_KEPT + _PASSED)})":\s*[0-9nul]+\s*[,}}]'
_MOST_FORMS = 64
# An event has each of its own numbers once; what has more is left to the JSON parser.
_MOST_PIECES = 64

Match = Callable[[str, int], "re.Match[str] | None"]
# Kind, inputs and stack.
Known = tuple[int, int, int]


def _compiled(layout: str) -> Match:
    for mark, pattern in _SPACED.items():
        layout = layout.replace(mark, pattern)
    return re.compile(layout.replace("#", _NUMBER).replace("@", _TIME)).match


_times, _argument, _memory, _arrow, _close = map(_compiled, (_TIMES, _ARGUMENT, _MEMORY, _ARROW, _CLOSE))


class _Form(NamedTuple):
    """The exact text of a region from its times to the last of its own numbers, which may be any."""

    match: Match
    # Those of start, length and the numbers that are kept.
    groups: tuple[int, ...]

    @classmethod
    def at(cls, text: str, place: int) -> _Form | None:
        """The form of the region whose times begin at a place; None if it is in another layout."""
        times = _times(text, place)
        if times is None:
            return None
        pieces = [
            re.escape(text[place : times.start(1)]) + (_FINE_TIME if "." in times[1] else _TIME),
            re.escape(text[times.end(1) : times.start(2)]) + (_FINE_TIME if "." in times[2] else _TIME),
            re.escape(text[times.end(2) : times.end()]),
        ]
        kept: list[str] = []
        place = written = times.end()
        while found := _argument(text, place):
            key, place = found[1], found.end()
            if key in kept or len(pieces) > _MOST_PIECES:
                return None
            if key in _OWN:
                is_kept = key in _KEPT and found[2] != "null"
                kept += [key] * is_kept
                number = _NUMBER if is_kept else "null" if found[2] == "null" else "-?[0-9]+"
                pieces += [re.escape(text[written : found.start(2)]), number, re.escape(text[found.end(2) : place])]
                written = place
        # What follows must be none of these arguments, lest the form match the beginning of a longer one.
        pattern = "".join(pieces) + rf"(?!{_OWN_NEXT})()"
        groups = (3 + kept.index(key) if key in kept else 3 + len(kept) for key in _KEPT)
        return cls(re.compile(pattern).match, (1, 2, *groups))


_NO_FORM = _Form(re.compile("(?!)").match, ())


class Lane(Protocol):
    """Where packed rows go."""

    rows: bytearray
    memory: bytearray


class Reader(Protocol):
    """What gives numbers to what is read."""

    def lane_of(self, pid: int, tid: int, category: str) -> Lane: ...

    def kind_of(self, category: str, name: str, args: dict[str, Any]) -> Known: ...

    def correlated(self, category: str, external: int, correlation: int, inputs: int) -> tuple[int, int]: ...

    def add_arrow(self, thread: Any, time_ns: int, name: Any, sort: str, category: str, title: str) -> None: ...


class _Head:
    """What events that begin with the same text share: where they go and, of regions, their ends by form and text."""

    __slots__ = ("category", "end", "ends", "form", "forms", "name", "rows", "size")

    def __init__(self, size: int, category: str, name: str, rows: bytearray) -> None:
        self.size = size
        self.category = category
        self.name = name
        self.rows = rows
        self.forms: dict[_Form, dict[str, Known]] = {}
        # Those of the last region, which the next is likely to have too.
        self.take(_NO_FORM)

    def take(self, form: _Form) -> None:
        """Expect regions in this form from now on."""
        self.form = form
        self.ends = self.forms.setdefault(form, {})
        # At first a text that no region has.
        self.end = "}"


class CommonEvents:
    """Reads events in the common layouts for a reader."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._heads: dict[str, _Head | None] = {}
        self._forms: list[_Form] = []

    def read(self, text: str, place: int) -> int:
        """Read events from a place on, each with the comma after it; the place of the first that is none of these."""
        while True:
            head = self._head_at(text, place)
            if head is None:
                if not (arrow := _arrow(text, place)):
                    return place
                self._add_arrow(*arrow.groups())
                place = arrow.end()
                continue
            is_memory = head.category == MEMORY_MARK
            end = _add_memory(head, text, place) if is_memory else self._add_region(head, text, place)
            if not end:
                return place
            place = end

    def _head_at(self, text: str, place: int) -> _Head | None:
        """The head of the event at a place; None if it is of no common sort."""
        middle = text.find('"ts":', place, place + _FAR)
        if middle < 0:
            return None
        begin = text[place:middle]
        head = self._heads.get(begin)
        # What has a number of its own before its time is met only once.
        if head is None and begin not in self._heads and '"id"' not in begin:
            head = self._heads[begin] = self._parsed_head(begin)
        return head

    def _add_region(self, head: _Head, text: str, place: int) -> int:
        """The place after the region at a place, which has this head; 0 if it is in another layout."""
        numbers = head.form.match(text, place + head.size) or self._in_other_form(head, text, place + head.size)
        if numbers is None:
            return 0
        low = numbers.end()
        closed = _close(text, low + len(head.end)) if text.startswith(head.end, low) else None
        if closed is None:
            closed = self._other_end(head, text, numbers)
            if closed is None:
                return 0
        start, length, external, sequence, correlation = numbers.group(*head.form.groups)
        begin = int(start.replace(".", "")) if "." in start else int(start) * 1000
        end = begin + (int(length.replace(".", "")) if "." in length else int(length) * 1000)
        kind, inputs, stack = head.ends[head.end]
        link = int(external) if external else 0
        if correlation:
            link, inputs = self._reader.correlated(head.category, link, int(correlation), inputs)
        head.rows += _pack(begin, end, int(sequence) if sequence else -1, link, kind, inputs, stack)
        return closed.end()

    def _in_other_form(self, head: _Head, text: str, place: int) -> re.Match[str] | None:
        for form in self._forms:
            if found := form.match(text, place):
                head.take(form)
                return found
        # The text may end here. A file in which every event is laid out in another way is left to the JSON parser.
        is_whole = text.find("}", place) >= 0
        form_here = _Form.at(text, place) if is_whole and len(self._forms) < _MOST_FORMS else None
        if form_here is None:
            return None
        found = form_here.match(text, place)
        if found is not None:
            self._forms.append(form_here)
            head.take(form_here)
        return found

    def _other_end(self, head: _Head, text: str, numbers: re.Match[str]) -> re.Match[str] | None:
        """Find the end of a region's arguments after its own numbers, and note it in the head."""
        low = numbers.end()
        high = text.find("}", low)
        last = text.rfind('"Ev Idx":', low, high)
        closed = _close(text, last) if last >= 0 else None
        shared = text[low:last] if closed is not None else text[low:high]
        closed = closed or (_close(text, high) if high >= 0 else None)
        if closed is None:
            return None
        if shared not in head.ends and not self._parse_end(head, shared, numbers[0], text[low:high]):
            return None
        head.end = shared
        return closed

    def _parse_end(self, head: _Head, shared: str, before: str, rest: str) -> bool:
        """Note what regions share that end with the same text; False if that is no JSON after all."""
        args, ending = _parsed(before[before.index("{") :] + rest + "}"), _parsed("{" + rest + "}")
        if not isinstance(args, dict) or not isinstance(ending, dict) or not ending.keys().isdisjoint(_KEPT):
            return False
        if "stream" in args and "device" in args and head.category not in DEVICE_CATEGORIES:
            return False
        head.ends[shared] = self._reader.kind_of(head.category, head.name, args)
        return True

    def _parsed_head(self, begin: str) -> _Head | None:
        """What an event begins with, up to its time; None if that is no event of a common sort."""
        event = _parsed(begin + '"":0}')
        if not isinstance(event, dict) or not all(type(event.get(key)) is int for key in ("pid", "tid")):
            return None
        event.pop("", None)
        category, name, sort = event.get("cat"), event.get("name"), event.get("ph")
        if not isinstance(name, str) or not isinstance(category, str) or max(map(abs, _thread(event))) >> 62:
            return None
        if sort == "X" and (category in _REGIONS or is_launch(category)) and event.keys() == _REGION_KEYS:
            return _Head(len(begin), category, name, self._reader.lane_of(*_thread(event), category).rows)
        if sort == "i" and name == MEMORY_EVENT_NAME and category == MEMORY_MARK and event.keys() == _MEMORY_KEYS:
            return _Head(len(begin), category, name, self._reader.lane_of(*_thread(event), category).memory)
        return None

    def _add_arrow(self, sort: str, name: str, pid: str, tid: str, time: str, category: str, title: str) -> None:
        # Arrows from forward ops to autograd nodes are found anew.
        if category != FORWARD_TO_BACKWARD:
            self._reader.add_arrow((int(pid), int(tid)), _nanoseconds(time), int(name), sort, category, title)


def _add_memory(head: _Head, text: str, place: int) -> int:
    """The place after the change of memory at a place, which has this head; 0 if it is in another layout."""
    found = _memory(text, place + head.size)
    if found is None:
        return 0
    time, nbytes, address = found.groups()
    head.rows += _pack_memory(_nanoseconds(time), int(nbytes), int(address))
    return found.end()


def _thread(event: dict[str, Any]) -> tuple[int, int]:
    return event["pid"], event["tid"]


def _nanoseconds(microseconds: str) -> int:
    return int(microseconds.replace(".", "")) if "." in microseconds else int(microseconds) * 1000


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
