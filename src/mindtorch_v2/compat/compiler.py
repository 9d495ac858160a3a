"""torch.compile and torch.compiler: compiling is the identity, ops run as they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    **more: Any,
) -> Any:
    """The model or function itself; without one, a decorator that gives back what it decorates."""
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if model is None:
        return lambda given: given
    if not callable(model):
        raise TypeError(f"torch.compile() takes a module or a function, got {type(model).__name__}")
    return model


def is_compiling() -> bool:
    return False


is_dynamo_compiling = is_exporting = is_compiling


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Nothing is compiled, so nothing needs to be kept from it."""
    return fn if fn is not None else lambda given: given


def allow_in_graph(fn: Any) -> Any:
    return fn


assume_constant_result = allow_in_graph


def reset() -> None:
    """No compiled code to forget."""


def list_backends(exclude_tags: Any = ()) -> list[str]:
    return []


def cudagraph_mark_step_begin() -> None:
    """No graphs are recorded."""


def set_stance(stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None) -> Any:
    """A decorator that changes nothing."""
    return lambda fn: fn


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    return fn
