"""Finds everything in the process that looks at one block of memory.

torch has storages with one pointer. Here tensors hold arrays, so all that share a storage token are found: tensors,
`x.data` with a version of its own, nodes that saved a result, and storages in users' hands. Arrays handed out by
`numpy()` are not found, nor are arrays that tensors were made from.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Iterable
from typing import Any

from ...core.fork import held_while_forking
from ...core.storage import OwnVersion, Storage
from ...core.tensor import Tensor
from ..node import Node

LOCK = threading.RLock()
held_while_forking(LOCK)  # a child with half of a family moved would share with nobody


class StorageBase:
    """What users hold of a storage: the array that owns the memory, and the token that its tensors share."""

    _owner: Any
    _token: Any


def root_of(token: Any) -> Any:
    """The token that stands for the memory itself."""
    return token.shared if type(token) is OwnVersion else token


# --- who holds a token ------------------------------------------------------------------------------------------------


def _tokens_of(holder: Any) -> list[Any]:
    """The tokens that something holds, as often as it does."""
    if isinstance(holder, Tensor):
        return [holder._v]
    if isinstance(holder, OwnVersion):
        return [holder.shared]
    if isinstance(holder, Node):
        return [item for item in _flat(holder.saved) if isinstance(item, Storage)]
    return [holder._token]


def _flat(saved: Any) -> Iterable[Any]:
    """What a node saved, without the tuples it is wrapped in."""
    for item in saved or ():
        if type(item) is tuple:
            yield from _flat(item)
        else:
            yield item


class _Index(dict[int, list[Any]]):
    """Weak references to the holders of each token, by the token's id, as they were when it was made."""

    def look_around(self) -> None:
        """Find the holders of all tokens."""
        self.clear()
        frozen = gc.get_freeze_count()
        if frozen:  # by `gc.freeze()`, which hides what is alive
            gc.unfreeze()
        try:
            candidates = gc.get_objects()
        finally:
            if frozen:
                gc.freeze()
        kinds: dict[type, bool] = {}
        for candidate in candidates:
            kind = type(candidate)
            is_holder = kinds.get(kind)
            if is_holder is None:
                is_holder = kinds[kind] = issubclass(kind, (Tensor, OwnVersion, Node, StorageBase))
            if is_holder:
                self._add(candidate)

    def _add(self, holder: Any) -> None:
        try:
            tokens = _tokens_of(holder)
        except AttributeError:
            return  # one that is just being made
        for token in {id(token): token for token in tokens if token is not None}.values():
            self.setdefault(id(token), []).append(weakref.ref(holder))

    def holders(self, token: Any) -> list[Any]:
        """Those of them that still hold it."""
        alive = [reference() for reference in self.get(id(token), ())]
        return [holder for holder in alive if holder is not None and any(t is token for t in _tokens_of(holder))]


_index = _Index()


class Family:
    """Everything that looks at one block of memory by its token: `tokens` has the memory's own first, `members` the rest.

    No other variable holds a token while references are counted.
    """

    def __init__(self, first: Any) -> None:
        self.members = {id(first): first}
        self.tokens = [root_of(_tokens_of(first)[0])]
        place = 0
        while place < len(self.tokens):
            for holder in _index.holders(self.tokens[place]):
                self._join(holder)
            place += 1
        if type(_tokens_of(first)[0]) is OwnVersion:
            self._join(_tokens_of(first)[0])

    def _join(self, holder: Any) -> None:
        if self.members.setdefault(id(holder), holder) is holder and type(holder) is OwnVersion:
            if not any(token is holder for token in self.tokens):
                self.tokens.append(holder)

    def _held(self) -> dict[int, int]:
        """How often members hold each token, by its id."""
        held: dict[int, int] = {}
        for member in self.members.values():
            for number in map(id, _tokens_of(member)):
                held[number] = held.get(number, 0) + 1
        return held

    def is_complete(self) -> bool:
        """Whether nobody else has a reference to one of the tokens."""
        held = self._held()
        return all(
            sys.getrefcount(self.tokens[i]) == _IN_A_LIST + held[number] + (number in self.members)
            for i, number in enumerate(map(id, self.tokens))
        )


def _in_a_list(tokens: list[Any]) -> int:
    return sys.getrefcount(tokens[0])


_IN_A_LIST = _in_a_list([Storage()])  # references that are counted for a token which only a list has


def look_around() -> None:
    """Have families known that came up since the last time. This takes long."""
    _index.look_around()
