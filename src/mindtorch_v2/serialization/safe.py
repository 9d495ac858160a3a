"""The unpickler for files nobody vouches for: it builds plain containers and tensors, and refuses everything else.

It reads from bytes, keeps its memo in a dict and bounds what is hashed, so that a damaged or hostile file ends in an
exception, never in foreign code, exhausted memory or a crash.
"""

from __future__ import annotations

import collections
import pickle
import struct
from collections.abc import Callable
from typing import Any

from .._device import device
from .._dtype import dtype as DType
from .._size import Size
from .._tensor import Parameter, Tensor
from . import names
from .rebuild import REBUILD, StorageType, _get_layout, _rebuild_from_type_v2

Persistent = Callable[[Any], Any]


class Refused(pickle.UnpicklingError):
    """Something in the file is not allowed, or makes no sense."""


def load(data: bytes | memoryview, start: int, persistent_load: Persistent) -> tuple[Any, int]:
    """The object pickled at `start`, and where its pickle ends."""
    machine = _Machine(data, start, persistent_load)
    return machine.run(), machine.at


# --- what may be hashed and called ------------------------------------------------------------------------------------

_PLAIN_KEYS = (str, int, float, bool, bytes, type(None), complex, DType, device)


def check_key(key: Any) -> Any:
    """`key` if hashing it is cheap; nested tuples could make it endless."""
    pending, seen = [key], 0
    while pending:
        part = pending.pop()
        seen += 1
        if isinstance(part, (tuple, frozenset)) and seen < 1000:
            pending.extend(part)
        elif not isinstance(part, _PLAIN_KEYS) or seen >= 1000:
            raise Refused(f"a key of type {type(part).__name__} is not allowed")
    return key


def _ordered_dict(*args: Any) -> Any:
    made: Any = collections.OrderedDict()
    for pair in args[0] if args else ():
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise Refused("OrderedDict takes pairs")
        made[check_key(pair[0])] = pair[1]
    return made


def _counter(*args: Any) -> Any:
    if args and not isinstance(args[0], dict):
        raise Refused("Counter takes a dict")
    return collections.Counter(*args[:1])


def _set(items: Any = ()) -> Any:
    if not isinstance(items, (list, tuple)):
        raise Refused("set takes a list")
    return {check_key(item) for item in items}


def _bytearray(data: Any = b"", encoding: Any = None) -> bytearray:
    if isinstance(data, bytes) and encoding is None:
        return bytearray(data)
    return bytearray(_encode(data, encoding))


def _encode(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise Refused("bytes are stored as text in latin1")
    return text.encode("latin1")


def _complex(real: Any, imag: Any) -> complex:
    if not isinstance(real, (int, float)) or not isinstance(imag, (int, float)):
        raise Refused("complex takes two numbers")
    return complex(real, imag)


def _size(values: Any = ()) -> Size:
    if not isinstance(values, (tuple, list)) or not all(type(v) is int for v in values):
        raise Refused("Size takes integers")
    return Size(values)


def _device(kind: Any, index: Any = None) -> device:
    if not isinstance(kind, str) or not (index is None or type(index) is int):
        raise Refused("device takes a name and an index")
    return device(kind) if index is None else device(kind, index)


def _layout(name: Any) -> Any:
    if not isinstance(name, str):
        raise Refused("a layout is stored by its name")
    return _get_layout(name)


def _parameter(data: Any = None, requires_grad: Any = True) -> Any:
    return REBUILD["_rebuild_parameter"](data, requires_grad, None)


def _from_type(function: Any, cls: Any, args: Any, state: Any) -> Any:
    """A tensor with attributes; its class is Tensor, Parameter, or one that users allowed."""
    if function not in REBUILD.values() or not isinstance(args, tuple):
        raise Refused("a tensor with attributes must name a function that rebuilds tensors")
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise Refused("a tensor with attributes must name a tensor class")
    return _rebuild_from_type_v2(function, cls, args, state)


_CALLS: dict[int, Callable[..., Any]] = {
    id(collections.OrderedDict): _ordered_dict,
    id(collections.Counter): _counter,
    id(set): _set,
    id(bytearray): _bytearray,
    id(complex): _complex,
    id(names.SAFE["_codecs.encode"]): _encode,
    id(Size): _size,
    id(device): _device,
    id(Parameter): _parameter,
    id(_get_layout): _layout,
    id(_rebuild_from_type_v2): _from_type,
    **{id(function): function for function in REBUILD.values()},
}
# Names of Python 2, which protocol 2 writes.
_OLD_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}


def _refusal(name: str) -> Refused:
    return Refused(
        f"Unsupported global: GLOBAL {name} was not an allowed global by default. Please use "
        f"`torch.serialization.add_safe_globals([{name}])` or the `torch.serialization.safe_globals([{name}])` context "
        "manager to allowlist this global if you trust this class/function."
    )


# --- the machine ------------------------------------------------------------------------------------------------------

_MARK = object()


class _Machine:
    """Runs the opcodes of one pickle."""

    def __init__(self, data: bytes | memoryview, start: int, persistent_load: Persistent) -> None:
        self.data, self.at, self.persistent_load = data, start, persistent_load
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
        piece = bytes(self.data[self.at : end])
        self.at = end
        return piece

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def line(self) -> str:
        end = self.at
        while end < len(self.data) and self.data[end] != 10:
            end += 1
        if end - self.at > 10_000:
            raise Refused("a line of the pickle is too long")
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
        call = function if id(function) in self.allowed else _CALLS.get(id(function))
        if call is None:
            raise Refused(f"calling {type(function).__name__} {function!r:.60} is not allowed")
        self.push(call(*args))

    def new_object(self) -> None:
        args, cls = self.pop(), self.pop()
        if not isinstance(args, tuple):
            raise Refused("arguments must be a tuple")
        if id(cls) in self.allowed and isinstance(cls, type):
            self.push(cls.__new__(cls, *args))
        elif cls in (collections.OrderedDict, collections.Counter) and not args:
            self.push(cls())
        else:
            raise Refused(f"making an object of {cls!r:.60} is not allowed")

    def build(self) -> None:
        state, target = self.pop(), self.top()
        if type(target) is collections.OrderedDict:
            if not isinstance(state, dict) or not all(isinstance(k, str) for k in state):
                raise Refused("the attributes of an OrderedDict must be a dict")
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
            target[check_key(key)] = value

    def add_items(self) -> None:
        items, target = self.pop_mark(), self.top()
        if type(target) is not set:
            raise Refused(f"adding to a {type(target).__name__} is not allowed")
        target.update(check_key(item) for item in items)

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
        m.push(tuple(reversed(items)))

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
        "t": lambda m: m.push(tuple(m.pop_mark())),
        "\x85": _tuple_of(1),
        "\x86": _tuple_of(2),
        "\x87": _tuple_of(3),
        "\x91": lambda m: m.push(frozenset(check_key(item) for item in m.pop_mark())),
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

__all__ = ["Refused", "StorageType", "check_key", "load"]
