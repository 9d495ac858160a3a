"""Which blocks of memory were parameters, gradients, optimizer state or inputs, and when: listens while a recording runs.

Kept are numbers only, never a tensor: one that is kept would not be freed. It does not sort memory itself.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from .. import _roles, _steps, _tap
from .._storage import Storage, view_version


class Sighting(NamedTuple):
    """A block of memory in one of its roles; `address` is the number that memory events have for it."""

    time_ns: int
    role: str
    address: int
    nbytes: int
    version: int


class RoleLog:
    """Sightings from `start` to `stop`."""

    def __init__(self) -> None:
        self._log: Any = _Log() if _tap.HELPER is None else _tap.HELPER.Sightings(_block, _roles.INPUT)

    @property
    def sightings(self) -> list[Sighting]:
        rows = np.frombuffer(self._log.rows(), np.int64).reshape(-1, len(Sighting._fields)).tolist()
        return [Sighting(time, _roles.NAMES[role], *block) for time, role, *block in rows]

    def start(self) -> None:
        _roles.LISTENERS.append(self._log.see)
        _steps.LISTENERS.append(self._see_optimizer)

    def stop(self) -> None:
        if self._log.see in _roles.LISTENERS:
            _roles.LISTENERS.remove(self._log.see)
            _steps.LISTENERS.remove(self._see_optimizer)

    def _see_optimizer(self, source: Any, stepped: bool) -> None:
        groups = getattr(source, "param_groups", None)
        if stepped and groups is not None:
            _tap.quietly(self._see_all, groups, source.state)

    def _see_all(self, groups: Any, states: dict[Any, Any]) -> None:
        parameters = [parameter for group in groups for parameter in group["params"]]
        self._log.see(_roles.PARAMETER, parameters)
        self._log.see(_roles.GRADIENT, [parameter.grad for parameter in parameters])
        for state in states.values():
            self._log.see(_roles.OPTIMIZER_STATE, state.values() if isinstance(state, dict) else (state,))


class _Log:
    """What the compiled helper has as `Sightings`: times, roles and blocks, one after the other."""

    def __init__(self) -> None:
        self._rows = array("q")

    def rows(self) -> bytes:
        return self._rows.tobytes()

    def see(self, role: int, tensors: Iterable[Any]) -> None:
        now = _tap.clock()
        for tensor in tensors:
            block = _block(role, tensor)
            if block is not None:
                self._rows.extend((now, role, *block))


def _block(role: int, tensor: Any) -> tuple[int, int, int] | None:
    """Number, bytes and version of a tensor's memory; None for what is no tensor, and for inputs that a graph's op made."""
    block = getattr(tensor, "_a", None)
    if not isinstance(block, np.ndarray) or (role == _roles.INPUT and _is_made(tensor)):
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
