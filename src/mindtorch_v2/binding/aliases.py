"""Moves memory that tensors look at to shared memory: torch swaps the pointer of a storage, here all that `holders` finds is
let look elsewhere. Arrays handed out by `numpy()` stay where they are, as do arrays that tensors were made from."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..autograd.memory.holders import LOCK, Family, StorageBase, look_around, root_of
from ..autograd.node import AccumulateGrad, Node
from ..core import segments, tap
from ..core.meta import MetaArray
from ..core.segments import Block, Segment, bounds, segment_of
from ..core.storage import CountedStorage, InferenceStorage, OwnVersion, Storage
from ..core.tensor import Tensor, address, in_memory, make, memory_owner, storage_of

_array_slot: Any = Tensor.__dict__["_a"]


class _Move:
    """Of the memory of one array to a segment."""

    def __init__(self, owner: Any, old: Any) -> None:
        self.owner, self.old = owner, old
        self.low, high = bounds(owner)
        self.segment = segments.create(high - self.low)
        self.target = self.segment.array()
        self.token = _new_token(self.target, old)
        self.segment.token = weakref.ref(self.token)
        np.copyto(self.target, np.asarray(Block(self.low, high - self.low, owner)))

    def array(self, a: Any) -> Any:
        """The array on the new memory that looks as `a` does on the old; other arrays as they are."""
        if type(a) is not np.ndarray or memory_owner(a) is not self.owner:
            return a
        return np.ndarray(a.shape, a.dtype, self.target, address(a) - self.low if a.size else 0, a.strides)

    def item(self, item: Any) -> Any:
        """Something saved for backward."""
        if type(item) is tuple:
            return tuple(map(self.item, item))
        return self.token if item is self.old else self.array(item)

    def take(self, holder: Any) -> None:
        """Let one that looks at the memory look at the new one."""
        if isinstance(holder, Tensor):
            array = self.array(_array_slot.__get__(holder))
            _array_slot.__set__(holder, array)
            holder._k = None
            if type(holder._ag) is AccumulateGrad:
                holder._ag.array = array
            if holder._v is self.old or holder._v is None:
                holder._v = self.token
        elif isinstance(holder, OwnVersion):
            holder.shared = self.token
        elif isinstance(holder, Node):
            holder.saved = self.item(holder.saved)
        else:
            holder._owner = self.target if holder._owner is self.owner else self.array(holder._owner)
            holder._token = self.token


def _new_token(array: Any, old: Any) -> Any:
    """The token of new memory in place of old; a recorder of memory hears of the one, and of the end of the other."""
    if type(old) is InferenceStorage:
        return InferenceStorage()
    token: Any = CountedStorage(array) if tap.SLOT.flags & tap.MEMORY else Storage()
    token.version = old.version
    return token


def share(holders: Iterable[Any]) -> None:
    """Move the memory of tensors and storages to shared memory, with everything that looks at it."""
    with LOCK:
        looked = False
        for first in holders:
            a = first._owner if isinstance(first, StorageBase) else in_memory(first)._a
            if isinstance(a, MetaArray):
                raise RuntimeError(f"{_METHODS[segments.strategy()]}: only available on CPU")
            owner = memory_owner(a)
            segment = segment_of(owner)
            if segment is not None and not segment.private:
                continue
            if isinstance(first, Tensor):
                storage_of(first)
            family = Family(first)
            if not looked and not family.is_complete():
                look_around()
                looked = True
                family = Family(first)
            _move(owner, family)


def _move(owner: Any, family: Family) -> None:
    move = _Move(owner, family.tokens[0])
    try:
        for member in family.members.values():
            move.take(member)
    except BaseException:  # an interrupt: with half of them moved they would no longer share
        for member in family.members.values():
            move.take(member)
        raise


_METHODS = {"file_descriptor": "_share_fd_", "file_system": "_share_filename_"}


def token_on(segment: Segment) -> Any:
    """The token of the memory of a segment, made if there is none yet."""
    with LOCK:
        token = None if segment.token is None else segment.token()
        if token is None:
            token = storage_of(make(segment.array()))
            segment.token = weakref.ref(token)
        return token


def beside(token: Any) -> Any:
    """A token for one more tensor on memory that has a token; its changes are counted apart."""
    return token if type(token) is InferenceStorage else OwnVersion(root_of(token))
