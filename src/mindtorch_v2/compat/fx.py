"""torch.fx where no program is captured as a graph: what makes one says so, names used at import time do nothing."""

from __future__ import annotations

from typing import Any, NoReturn

from ..nn.modules.module import Module

_REMEDY = (
    "mindtorch_v2 runs modules as they are written and captures no graph of them. Call the module itself, read its parts "
    "by named_modules(), watch them by register_forward_hook(), see its operators by torch.profiler; to hand it to a program "
    "that wants a graph, save its state_dict() and load that in PyTorch"
)


def no_graph(name: str) -> NoReturn:
    """The error of what would need a graph of a program."""
    raise NotImplementedError(f"{name} is not provided: {_REMEDY}")


def symbolic_trace(root: Any, concrete_args: Any = None) -> NoReturn:
    """Says what to do instead."""
    no_graph("torch.fx.symbolic_trace")


def wrap(fn_or_name: Any) -> Any:
    """A function that tracing keeps whole; there is no tracing, hence the function itself."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    return fn_or_name


class _Unmade:
    """What a capture would be made of: a class for isinstance, never made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        no_graph(f"torch.fx.{type(self).__name__}")


class Graph(_Unmade):
    """The operators of a program."""


class Node(_Unmade):
    """One operator of a graph."""


class Proxy(_Unmade):
    """A value while a program is traced."""


class Tracer(_Unmade):
    """Runs a program with proxies for values."""


class Interpreter(_Unmade):
    """Runs a graph."""


class Transformer(Interpreter):
    """Rewrites a graph."""


class GraphModule(Module):
    """A module made from a graph: a class for isinstance, never made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        no_graph("torch.fx.GraphModule")


__all__ = [
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "Tracer",
    "Transformer",
    "symbolic_trace",
    "wrap",
]
