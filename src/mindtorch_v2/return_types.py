"""torch.return_types: the named tuples of ops with several named results."""

from __future__ import annotations

from typing import Any

from .core.missing import message
from .dispatch.compute import result_type
from .dispatch.op import OPS


def _named() -> dict[str, Any]:
    return {op.schema.name: op for op in OPS.values() if op.schema.result_names and len(op.schema.returns) > 1}


def __getattr__(name: str) -> Any:
    found = _named().get(name.removesuffix("_out"))  # torch gives results in out= a type of the same fields
    if found is None:
        raise AttributeError(message(__name__, name, _named()))
    return result_type(found)


def __dir__() -> list[str]:
    return sorted(_named())
