"""Modules whose parameters are not initialised."""

from __future__ import annotations

import inspect
from typing import Any

from ..modules.module import Module


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """An instance of a module class on memory that is left as it comes."""
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **{**kwargs, "device": "meta"}).to_empty(device=device)


__all__ = ["skip_init"]
