"""torch.ops: operators by namespace, name and overload (`torch.ops.aten.add.Tensor`); `aten` is the op table, other
namespaces hold what programs register. It does not know how a registered operator is made.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, NoReturn

from ..dispatch.front import FRONTS
from ..dispatch.op import OPS

# What programs registered: namespace → name → callable.
REGISTERED: dict[str, dict[str, Callable[..., Any]]] = {}


class ByName:
    """There is one of each, found by its path under `torch.ops`: a copy is the object itself, a pickle is its path.

    Subclasses have a `__getattr__`, which must not ask for an attribute of their own that an unfinished object lacks.
    """

    _path: str

    def __copy__(self) -> ByName:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ByName:
        return self

    def __reduce__(self) -> Any:
        return find, (self._path,)


def find(path: str) -> Any:
    """What `torch.ops` has under a path: `aten`, `aten.add`, `aten.add.Tensor`."""
    namespace, *names = path.split(".")
    return functools.reduce(getattr, names, namespace_of(namespace))


class OpOverloadPacket(ByName):
    """All overloads of one operator of the table; calling it picks one."""

    def __init__(self, namespace: str, name: str, rows: list[Any]) -> None:
        self._path = f"{namespace}.{name}"
        self._rows = {row.qualified.partition(".")[2] or "default": row for row in rows}
        self._call = FRONTS.get(name) or (rows[0].public if len(rows) > 1 else rows[0].function)
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def overloads(self) -> list[str]:
        return list(self._rows)

    def __getattr__(self, name: str) -> Any:
        rows = self.__dict__.get("_rows", {})
        if name not in rows:
            path = self.__dict__.get("_path")
            raise AttributeError(
                f"The underlying op of '{path}' has no overload name '{name}'; it has {', '.join(rows)}"
            )
        return rows[name].function

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._rows]

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._path}')>"


class OpNamespace(ByName):
    """The operators of one namespace."""

    def __init__(self, name: str) -> None:
        self.name = self._path = name
        self._packets: dict[str, OpOverloadPacket] = {}

    def _names(self) -> set[str]:
        return {row.name for row in OPS.values()} if self.name == "aten" else set(REGISTERED.get(self.name, ()))

    def __dir__(self) -> list[str]:
        return sorted(self._names())

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__.get("_path", "")
        registered = REGISTERED.get(own, {}).get(name)
        if registered is not None:
            return registered
        if own != "aten":
            rows: list[Any] = []
        elif name in self._packets:
            return self._packets[name]
        else:
            rows = [row for row in OPS.values() if row.name == name]
        if not rows:
            raise AttributeError(f"'_OpNamespace' '{own}' object has no attribute '{name}'")
        packet = self._packets[name] = OpOverloadPacket(own, name, rows)
        return packet

    def __repr__(self) -> str:
        return f"<torch.ops.{self.name}>"


_NAMESPACES: dict[str, OpNamespace] = {}


def namespace_of(name: str) -> OpNamespace:
    """The one namespace of that name."""
    found = _NAMESPACES.get(name)
    if found is None:
        found = _NAMESPACES[name] = OpNamespace(name)
    return found


def load_library(path: str | os.PathLike[str]) -> NoReturn:
    """Extensions compiled for torch cannot be loaded; OSError is what a library that does not fit raises."""
    raise OSError(f"{os.fspath(path)} cannot be loaded: it is compiled for torch, and mindtorch_v2 runs on NumPy")
