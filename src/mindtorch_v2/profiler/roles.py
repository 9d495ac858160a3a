"""Which blocks of memory were parameters, gradients, optimizer state or inputs, and when: listens while a recording runs.

Kept are numbers only, never a tensor: one that is kept would not be freed. It does not sort memory itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _roles, _steps, _tap
from .._fork import free_in_children
from .._storage import Storage, view_version


class Sighting(NamedTuple):
    """A block of memory in one of its roles; `address` is the number that memory events have for it."""

    time_ns: int
    role: str
    address: int
    nbytes: int
    version: int


_ROLES = (_roles.PARAMETER, _roles.OPTIMIZER_STATE, _roles.INPUT, _roles.GRADIENT)
_NUMBERS = {role: number for number, role in enumerate(_ROLES)}
_WIDTH = len(Sighting._fields)


class RoleLog:
    """Sightings from `start` to `stop`."""

    # So many ints are packed into an array, which takes a fifth of their memory.
    LOOSE = 100_000

    def __init__(self) -> None:
        self._loose: list[int] = []
        self._packed: list[NDArray[np.int64]] = []
        self._packing = free_in_children(threading.Lock())

    @property
    def sightings(self) -> list[Sighting]:
        self._pack()
        rows = (row for part in self._packed for row in part.tolist())
        return [Sighting(time, _ROLES[role], *rest) for time, role, *rest in rows]

    def _pack(self) -> None:
        """Move what came so far into an array; threads may go on adding meanwhile."""
        with self._packing:
            part = self._loose[:]
            del self._loose[: len(part)]
            if part:
                self._packed.append(np.array(part, np.int64).reshape(-1, _WIDTH))

    def start(self) -> None:
        _roles.LISTENERS.append(self._see)
        _steps.LISTENERS.append(self._see_optimizer)

    def stop(self) -> None:
        if self._see in _roles.LISTENERS:
            _roles.LISTENERS.remove(self._see)
            _steps.LISTENERS.remove(self._see_optimizer)

    def _see(self, role: str, tensors: Iterable[Any]) -> None:
        now, number, loose = _tap.clock(), _NUMBERS[role], self._loose
        for tensor in tensors:
            array = getattr(tensor, "_a", None)
            # What an op of a graph made is no input.
            if not isinstance(array, np.ndarray) or (role == _roles.INPUT and _is_made(tensor)):
                continue
            token = tensor._v
            if token is None:
                token = tensor._v = Storage()
            block = array
            while block.base is not None and isinstance(block.base, np.ndarray):
                block = block.base
            loose += (now, number, id(token), block.nbytes, view_version(token))
        if len(loose) > self.LOOSE:
            self._pack()

    def _see_optimizer(self, source: Any, stepped: bool) -> None:
        groups = getattr(source, "param_groups", None)
        if not stepped or groups is None:
            return
        parameters = [parameter for group in groups for parameter in group["params"]]
        self._see(_roles.PARAMETER, parameters)
        self._see(_roles.GRADIENT, [parameter.grad for parameter in parameters])
        for state in source.state.values():
            self._see(_roles.OPTIMIZER_STATE, state.values() if isinstance(state, dict) else (state,))


def _is_made(tensor: Any) -> bool:
    in_graph = tensor._ag is not None or tensor._view is not None
    return in_graph and tensor.grad_fn is not None
