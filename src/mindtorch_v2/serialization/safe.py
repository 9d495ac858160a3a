"""The unpickler for files nobody vouches for: it builds plain containers and tensors, and refuses everything else.

It reads from bytes, keeps its memo in a dict and bounds what is hashed, so that a damaged or hostile file ends in an
exception, never in foreign code, exhausted memory or a crash.
"""

from __future__ import annotations

import collections
import struct
from collections.abc import Callable
from typing import Any

from ..core.brief import brief, brief_text
from . import names
from .calls import CALLS
from .limits import Limits, Refused

Persistent = Callable[[Any], Any]
# The name of a global is shorter.
_LONGEST_LINE = 10_000


def load(data: bytes, start: int, persistent_load: Persistent, file_size: int | None = None) -> tuple[Any, int]:
    """The object pickled at `start`, and where its pickle ends; `file_size` is that of all the file, storages included."""
    limits = Limits(len(data) - start, len(data) if file_size is None else file_size)
    machine = _Machine(data, start, persistent_load, limits)
    return machine.run(), machine.at


# Names of Python 2, which protocol 2 writes.
_OLD_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}


def _refusal(name: str) -> Refused:
    name = brief_text(name)
    return Refused(
        f"Unsupported global: GLOBAL {name} was not an allowed global by default. Please use "
        f"`torch.serialization.add_safe_globals([{name}])` or the `torch.serialization.safe_globals([{name}])` context "
        "manager to allowlist this global if you trust this class/function."
    )


# --- the machine ------------------------------------------------------------------------------------------------------

_MARK = object()


class _Machine:
    """Runs the opcodes of one pickle."""

    def __init__(self, data: bytes, start: int, persistent_load: Persistent, limits: Limits) -> None:
        self.data, self.at, self.persistent_load, self.limits = data, start, persistent_load, limits
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.allowed: set[int] = set()  # ids of what users allowed and this pickle names
        self.kept: list[Any] = []

    def run(self) -> Any:
        while True:
            code = self.take(1)[0]
            if code == 0x2E:  # STOP
                return self.pop()
            action = _ACTIONS.get(code)
            if action is None:
                raise Refused(f"opcode {bytes([code])!r} is not allowed")
            action(self)

    def take(self, count: int) -> bytes:
        end = self.at + count
        if count < 0 or end > len(self.data):
            raise EOFError("the pickle ends in the middle")
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def line(self) -> str:
        end = self.data.find(b"\n", self.at, self.at + _LONGEST_LINE)
        if end < 0:
            raise Refused("a line of the pickle is too long, or does not end")
        text = self.take(end - self.at).decode()
        self.take(1)
        return text

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            raise Refused("the pickle takes from an empty stack")
        return self.stack.pop()

    def top(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            raise Refused("the pickle looks at an empty stack")
        return self.stack[-1]

    def pop_mark(self) -> list[Any]:
        for position in range(len(self.stack) - 1, -1, -1):
            if self.stack[position] is _MARK:
                items = self.stack[position + 1 :]
                del self.stack[position:]
                return items
        raise Refused("the pickle has no mark to go back to")

    # Each action below is one opcode.

    def get(self, index: int) -> None:
        if index not in self.memo:
            raise Refused(f"the pickle has no memo {index}")
        self.push(self.memo[index])

    def find_global(self, module: str, name: str) -> None:
        full = f"{_OLD_MODULES.get(module, module)}.{name}"
        found = names.SAFE.get(full)
        if found is None:
            short = full.removeprefix("builtins.")
            found = names.user_safe(full)
            found = names.user_safe(short) if found is None else found
            if found is None:
                raise _refusal(short)
            self.allowed.add(id(found))
            self.kept.append(found)
        self.push(found)

    def stack_global(self) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise Refused("a global is named by two strings")
        self.find_global(module, name)

    def reduce(self) -> None:
        args, function = self.pop(), self.pop()
        if not isinstance(args, tuple):
            raise Refused("arguments must be a tuple")
        if id(function) in self.allowed:
            self.push(function(*args))
            return
        call = CALLS.get(id(function))
        if call is None:
            raise Refused(f"calling {brief(function)} is not allowed")
        self.push(call(self.limits, *args))

    def new_object(self) -> None:
        args, cls = self.pop(), self.pop()
        if not isinstance(args, tuple):
            raise Refused("arguments must be a tuple")
        if id(cls) in self.allowed and isinstance(cls, type):
            self.push(cls.__new__(cls, *args))
        elif (cls is collections.OrderedDict or cls is collections.Counter) and not args:
            self.push(cls())
        else:
            raise Refused(f"making an object of {brief(cls)} is not allowed")

    def build(self) -> None:
        state, target = self.pop(), self.top()
        if type(target) is collections.OrderedDict:
            self.limits.spend(len(state) if isinstance(state, dict) else 0)
            if not isinstance(state, dict) or not all(isinstance(k, str) for k in state):
                raise Refused(f"the attributes of an OrderedDict must be a dict with texts as keys, got {brief(state)}")
            target.__dict__.update(state)
        elif id(type(target)) in self.allowed:
            _set_state(target, state)
        else:
            raise Refused(f"setting the state of a {type(target).__name__} is not allowed")

    def append_all(self, items: list[Any]) -> None:
        target = self.top()
        if type(target) is not list:
            raise Refused(f"appending to a {type(target).__name__} is not allowed")
        target.extend(items)

    def set_items(self, items: list[Any]) -> None:
        target = self.top()
        if type(target) not in (dict, collections.OrderedDict, collections.Counter) or len(items) % 2:
            if id(type(target)) not in self.allowed or len(items) % 2:
                raise Refused(f"setting items of a {type(target).__name__} is not allowed")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[self.limits.check_key(key, target)] = value

    def add_items(self) -> None:
        items, target = self.pop_mark(), self.top()
        if type(target) is not set:
            raise Refused(f"adding to a {type(target).__name__} is not allowed")
        target.update(self.limits.check_key(item, target) for item in items)

    def frozen_set(self, items: list[Any]) -> frozenset[Any]:
        made: set[Any] = set()
        made.update(self.limits.check_key(item, made) for item in items)
        found: frozenset[Any] = self.limits.made_tuple(frozenset(made))
        return found

    def persistent(self) -> None:
        self.push(self.persistent_load(self.pop()))


def _set_state(target: Any, state: Any) -> None:
    own = getattr(target, "__setstate__", None)
    if own is not None:
        own(state)
    elif isinstance(state, dict):
        target.__dict__.update(state)
    else:
        raise Refused(f"the state of a {type(target).__name__} must be a dict")


def _pair(m: _Machine) -> list[Any]:
    value, key = m.pop(), m.pop()
    return [key, value]


def _tuple_of(count: int) -> Callable[[_Machine], None]:
    def action(m: _Machine) -> None:
        items = [m.pop() for _ in range(count)]
        m.push(m.limits.made_tuple(tuple(reversed(items))))

    return action


def _put(form: str) -> Callable[[_Machine], None]:
    def action(m: _Machine) -> None:
        m.memo[m.number(form)] = m.top()

    return action


def _text(form: str) -> Callable[[_Machine], None]:
    return lambda m: m.push(m.take(m.number(form)).decode("utf-8", "surrogatepass"))


def _long(form: str) -> Callable[[_Machine], None]:
    return lambda m: m.push(int.from_bytes(m.take(m.number(form)), "little", signed=True))


def _dict_of_mark(m: _Machine) -> None:
    items = m.pop_mark()
    m.push({})
    m.set_items(items)


def _memoize(m: _Machine) -> None:
    m.memo[len(m.memo)] = m.top()


_ACTIONS: dict[int, Callable[[_Machine], Any]] = {
    ord(code): action
    for code, action in {
        "\x80": lambda m: m.take(1),  # PROTO
        "\x95": lambda m: m.take(8),  # FRAME
        "(": lambda m: m.push(_MARK),
        "0": lambda m: m.pop(),
        "1": lambda m: m.pop_mark(),
        "N": lambda m: m.push(None),
        "\x88": lambda m: m.push(True),
        "\x89": lambda m: m.push(False),
        "J": lambda m: m.push(m.number("<i")),
        "K": lambda m: m.push(m.number("<B")),
        "M": lambda m: m.push(m.number("<H")),
        "\x8a": _long("<B"),
        "\x8b": _long("<i"),
        "G": lambda m: m.push(struct.unpack(">d", m.take(8))[0]),
        "X": _text("<I"),
        "\x8c": _text("<B"),
        "\x8d": _text("<Q"),
        "B": lambda m: m.push(m.take(m.number("<I"))),
        "C": lambda m: m.push(m.take(m.number("<B"))),
        "U": lambda m: m.push(m.take(m.number("<B")).decode("latin1")),
        "T": lambda m: m.push(m.take(m.number("<i")).decode("latin1")),
        "]": lambda m: m.push([]),
        "}": lambda m: m.push({}),
        ")": lambda m: m.push(()),
        "\x8f": lambda m: m.push(set()),
        "l": lambda m: m.push(m.pop_mark()),
        "d": _dict_of_mark,
        "t": lambda m: m.push(m.limits.made_tuple(tuple(m.pop_mark()))),
        "\x85": _tuple_of(1),
        "\x86": _tuple_of(2),
        "\x87": _tuple_of(3),
        "\x91": lambda m: m.push(m.frozen_set(m.pop_mark())),
        "a": lambda m: m.append_all([m.pop()]),
        "e": lambda m: m.append_all(m.pop_mark()),
        "s": lambda m: m.set_items(_pair(m)),
        "u": lambda m: m.set_items(m.pop_mark()),
        "\x90": lambda m: m.add_items(),
        "q": _put("<B"),
        "r": _put("<I"),
        "\x94": _memoize,
        "h": lambda m: m.get(m.number("<B")),
        "j": lambda m: m.get(m.number("<I")),
        "c": lambda m: m.find_global(m.line(), m.line()),
        "\x93": lambda m: m.stack_global(),
        "R": lambda m: m.reduce(),
        "\x81": lambda m: m.new_object(),
        "b": lambda m: m.build(),
        "Q": lambda m: m.persistent(),
    }.items()
}

__all__ = ["load"]
