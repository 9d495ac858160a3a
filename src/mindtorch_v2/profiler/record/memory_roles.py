"""Which blocks of memory were parameters, gradients, optimizer state or inputs, and when: listens while a recording runs.

Kept are numbers only, never a tensor: one that is kept would not be freed. It does not sort memory itself.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...core import roles, step_hooks, tap
from ...core.storage import Storage, view_version
from .chunks import Chunk, Stream

# What is kept each time a role is seen: time, role, the number that memory events have for the block, its bytes and its version.
WIDTH = 5


class RoleLog:
    """Roles seen from `start` to `stop`, as chunks of rows."""

    def __init__(self) -> None:
        self._log: Any = _Log() if tap.HELPER is None else tap.HELPER.MemoryRoles(_block, roles.INPUT)
        self._written = Stream(WIDTH)

    def put_away(self) -> None:
        """Move what has been seen so far out of the way."""
        self._written.add(self._log.take())

    def seal(self, least: int = 1) -> list[Chunk]:
        """Make a chunk of what has none yet, if there are so many rows; the new one."""
        if self._written.loose < least:
            return []
        self._written.seal()
        return self._written.chunks[-1:]

    def take(self) -> list[Chunk]:
        """All that has been seen and not taken yet."""
        self.put_away()
        self.seal()
        found, self._written.chunks = self._written.chunks, []
        return found

    def start(self) -> None:
        roles.LISTENERS.append(self._log.see)
        step_hooks.LISTENERS.append(self._see_optimizer)

    def stop(self) -> None:
        if self._log.see in roles.LISTENERS:
            roles.LISTENERS.remove(self._log.see)
            step_hooks.LISTENERS.remove(self._see_optimizer)

    def _see_optimizer(self, source: Any, stepped: bool) -> None:
        groups = getattr(source, "param_groups", None)
        if stepped and groups is not None:
            tap.call_untraced(self._see_all, groups, source.state)

    def _see_all(self, groups: Any, states: dict[Any, Any]) -> None:
        parameters = [parameter for group in groups for parameter in group["params"]]
        self._log.see(roles.PARAMETER, parameters)
        self._log.see(roles.GRADIENT, [parameter.grad for parameter in parameters])
        for state in states.values():
            self._log.see(roles.OPTIMIZER_STATE, state.values() if isinstance(state, dict) else (state,))


class _Log:
    """What the compiled helper has as `MemoryRoles`: times, roles and blocks, one after the other."""

    def __init__(self) -> None:
        self._rows = array("q")

    def take(self) -> bytes:
        count = len(self._rows)
        rows = self._rows[:count].tobytes()
        # What another thread has seen meanwhile stays.
        del self._rows[:count]
        return rows

    def see(self, role: int, tensors: Iterable[Any]) -> None:
        now = tap.clock()
        for tensor in tensors:
            block = _block(role, tensor)
            if block is not None:
                self._rows.extend((now, role, *block))


def _block(role: int, tensor: Any) -> tuple[int, int, int] | None:
    """Number, bytes and version of a tensor's memory; None for what is no tensor, and for inputs that a graph's op made."""
    block = getattr(tensor, "_a", None)
    if not isinstance(block, np.ndarray) or (role == roles.INPUT and _is_made(tensor)):
        return None
    token = tensor._v
    if token is None:
        token = tensor._v = Storage()
    while isinstance(block.base, np.ndarray):
        block = block.base
    return id(token), block.nbytes, view_version(token)


def _is_made(tensor: Any) -> bool:
    in_graph = tensor._ag is not None or tensor._view is not None
    return in_graph and tensor.grad_fn is not None
