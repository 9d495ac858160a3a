"""torch.jit where nothing is compiled: scripting and tracing give back what they are given, and warn about it once."""

from __future__ import annotations

import contextlib
import typing
import warnings
from collections.abc import Iterator
from typing import Any, Final

from ..nn.modules.module import Module

_warned: set[str] = set()
_isinstance = isinstance


def _warn_once(name: str) -> None:
    if name not in _warned:
        _warned.add(name)
        warnings.warn(f"torch.jit.{name} gives back what it is given: mindtorch_v2 runs it as it is", stacklevel=3)


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """The module, function or class itself."""
    _warn_once("script")
    return obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **options: Any) -> Any:
    """The module or function itself."""
    _warn_once("trace")
    return func


def trace_module(mod: Any, inputs: Any, *args: Any, **options: Any) -> Any:
    """The module itself."""
    _warn_once("trace_module")
    return mod


def script_if_tracing(fn: Any) -> Any:
    return fn


# torch.jit.annotations gives the types of the typing module too.
Dict, List, Optional, Tuple, Union = dict, list, typing.Optional, tuple, typing.Union


class _BroadcastingList:
    """The type of `2` or `[2, 2]`, subscripted as in `BroadcastingList2[int]`."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()

# The names that libraries decorate with.
_script_if_tracing = _overload = _overload_method = script_if_tracing


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """A decorator, with or without arguments, that gives back what it decorates."""
    return drop if callable(drop) else lambda fn: fn


def unused(fn: Any) -> Any:
    return fn


def export(fn: Any) -> Any:
    return fn


def interface(obj: Any) -> Any:
    return obj


def is_scripting() -> bool:
    return False


def is_tracing() -> bool:
    return False


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """The module itself."""
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    return mod


def annotate(the_type: Any, the_value: Any) -> Any:
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    return _isinstance(obj, target_type)


def fork(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs the function here and now; `wait` gives its result."""
    return Future(func(*args, **kwargs))


def wait(future: Any) -> Any:
    return future.wait()


class Future:
    """The result of a fork, which has ended."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def wait(self) -> Any:
        return self._result

    def value(self) -> Any:
        return self._result

    def done(self) -> bool:
        return True


def enable_onednn_fusion(enabled: bool) -> None:
    """Nothing is fused."""


def set_fusion_strategy(strategy: Any) -> Any:
    """Nothing is fused."""
    return strategy


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    yield


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    yield


def _no_files(function: str) -> Any:
    raise RuntimeError(
        f"torch.jit.{function} needs TorchScript, which mindtorch_v2 does not provide; use torch.save with a state dict"
    )


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    _no_files("save")


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    _no_files("load")


class ScriptFunction:
    """What a compiled function would be; nothing is one."""


class ScriptModule(Module):
    """A module: subclasses of it run as modules do."""


class RecursiveScriptModule(ScriptModule):
    """What a compiled module would be; nothing is one."""


TracedModule = TopLevelTracedModule = RecursiveScriptModule


class Attribute:
    """A value with its type."""

    def __init__(self, value: Any, type: Any) -> None:
        self.value, self.type = value, type


class Error(RuntimeError):
    """An error inside compiled code."""


def script_method(fn: Any) -> Any:
    return fn


__all__ = ["Final", "ScriptModule", "export", "ignore", "is_scripting", "is_tracing", "script", "trace", "unused"]
