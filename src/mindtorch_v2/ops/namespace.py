"""torch.ops: operators by namespace, name and overload (`torch.ops.aten.add.Tensor`); `aten` is the op table, other
namespaces hold what programs register. It does not know how a registered operator is made.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NoReturn

from .._front import FRONTS
from .._op import OPS

# What programs registered: namespace → name → callable.
REGISTERED: dict[str, dict[str, Callable[..., Any]]] = {}


class OpOverloadPacket:
    """All overloads of one operator of the table; calling it picks one."""

    def __init__(self, namespace: str, name: str, rows: list[Any]) -> None:
        self._qualified = f"{namespace}::{name}"
        self._rows = {row.qualified.partition(".")[2] or "default": row for row in rows}
        self._call = FRONTS.get(name) or (rows[0].public if len(rows) > 1 else rows[0].function)
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def overloads(self) -> list[str]:
        return list(self._rows)

    def __getattr__(self, name: str) -> Any:
        if name not in self._rows:
            raise AttributeError(
                f"The underlying op of '{self._qualified}' has no overload name '{name}'; it has {', '.join(self._rows)}"
            )
        return self._rows[name].function

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._qualified.replace('::', '.')}')>"


class OpNamespace:
    """The operators of one namespace."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _names(self) -> set[str]:
        return {row.name for row in OPS.values()} if self.name == "aten" else set(REGISTERED.get(self.name, ()))

    def __dir__(self) -> list[str]:
        return sorted(self._names())

    def __getattr__(self, name: str) -> Any:
        registered = REGISTERED.get(self.name, {}).get(name)
        if registered is not None:
            return registered
        rows = [row for row in OPS.values() if row.name == name] if self.name == "aten" else []
        if not rows:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        return OpOverloadPacket(self.name, name, rows)

    def __repr__(self) -> str:
        return f"<torch.ops.{self.name}>"


def load_library(path: str | os.PathLike[str]) -> NoReturn:
    """Extensions compiled for torch cannot be loaded; OSError is what a library that does not fit raises."""
    raise OSError(f"{os.fspath(path)} cannot be loaded: it is compiled for torch, and mindtorch_v2 runs on NumPy")
