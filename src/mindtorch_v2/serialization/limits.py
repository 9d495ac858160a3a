"""How much a file may ask of whoever loads it: work and memory in proportion to its size, and keys that are cheap to hash.

A pickle can name one value many times in a few bytes each. So every step that copies or walks a value is paid for by its
length, and nested tuples are measured when they are made, before anything hashes or compares them.
"""

from __future__ import annotations

import pickle
from typing import Any

from ..core.brief import brief
from ..core.device import device
from ..core.dtype import dtype as DType

# What is free, and what is allowed beyond it: steps for each byte of the pickle, elements for each byte of the file.
_FREE, _STEPS_A_BYTE, _NUMBERS_A_BYTE = 1_000_000, 2, 8
# Copying a byte is this much less than making an item of a container.
_BYTES_A_STEP = 16
# No checkpoint nests its tuples as deeply, or has as many parts in a key.
_DEEPEST, _MOST_PARTS = 1000, 1000
# So many keys of one dict with the same hash are no accident: each new one is compared with all of them.
_MOST_ALIKE = 256

_PLAIN_KEYS = (str, int, float, bool, bytes, type(None), complex, DType, device)


class Refused(pickle.UnpicklingError):
    """Something in the file is not allowed, or makes no sense."""


class Hostile(Refused):
    """No checkpoint that anybody saved is like this, so trusting it is no remedy."""


class Limits:
    """What is left of the work that one file may cause."""

    def __init__(self, pickle_size: int, file_size: int) -> None:
        self._steps = _FREE + _STEPS_A_BYTE * pickle_size
        self._numbers = _FREE + _NUMBERS_A_BYTE * file_size
        self._largest = self._steps
        # By id: depth and number of parts of the tuples that hold others; those that do not are as long as they say.
        self._nested: dict[int, tuple[int, int]] = {}
        # By id of a container: the container, and how many of its keys have a hash.
        self._hashes: dict[int, tuple[Any, dict[int, int]]] = {}

    def spend(self, steps: int) -> None:
        """Pay for so many items that are copied or looked at."""
        self._steps -= steps
        if self._steps < 0:
            raise Hostile("the pickle asks for far more work than a checkpoint of its size needs")

    def spend_bytes(self, count: int) -> None:
        """Pay for so many bytes that are copied."""
        self.spend(count // _BYTES_A_STEP)

    def spend_numbers(self, count: int) -> None:
        """Pay for so many elements of tensors that are read or copied."""
        self._numbers -= count
        if self._numbers < 0:
            raise Hostile("tensors of far more elements than the file has bytes are to be copied")

    def made_tuple(self, items: Any) -> Any:
        """A new tuple or frozenset, measured."""
        depth, parts = 1, len(items)
        for item in items:
            if isinstance(item, (tuple, frozenset)):
                inner_depth, inner_parts = self._nested.get(id(item), (1, len(item)))
                depth, parts = max(depth, inner_depth + 1), parts + inner_parts
        if depth > _DEEPEST or parts > self._largest:
            raise Hostile("tuples are nested too deeply, or hold each other too often")
        if depth > 1:
            self._nested[id(items)] = (depth, parts)
        else:
            self._nested.pop(id(items), None)
        return items

    def check_key(self, key: Any, target: Any) -> Any:
        """`key` if it may be a key of `target`: made of few plain values, and not one of many with the same hash."""
        kind = type(key)
        if kind is str or kind is bytes or (kind is int and -(1 << 63) <= key < 1 << 64):
            return key
        pending, parts = [key], 0
        while pending:
            part = pending.pop()
            parts += 1
            if not isinstance(part, (tuple, frozenset)):
                if not isinstance(part, _PLAIN_KEYS):
                    raise Refused(f"a key of type {type(part).__name__} is not allowed")
            elif parts + len(pending) + len(part) <= _MOST_PARTS:
                pending.extend(part)
            else:
                raise Hostile(f"a key of more than {_MOST_PARTS} parts is not allowed")
        self.spend(parts)
        _, alike = self._hashes.setdefault(id(target), (target, {}))
        number = hash(key)
        alike[number] = alike.get(number, 0) + 1
        if alike[number] > _MOST_ALIKE:
            raise Hostile(f"more than {_MOST_ALIKE} keys have the same hash, the last of them {brief(key)}")
        return key
