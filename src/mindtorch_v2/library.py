"""torch.library: operators that programs define, found under `torch.ops` and differentiable where they say how."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from .autograd.function import Function
from .ops.namespace import REGISTERED


def _split(qualname: str) -> tuple[str, str]:
    namespace, colons, name = qualname.partition("::")
    if not colons or not namespace or not name:
        raise ValueError(f"Expected the name of an operator as `namespace::name`, got {qualname!r}")
    return namespace, name.partition("(")[0].partition(".")[0]


class CustomOpDef:
    """An operator made from a Python function; its gradient, if it has one, is a Python function too."""

    def __init__(self, qualname: str, function: Callable[..., Any] | None = None) -> None:
        self._qualname = qualname
        self._function = function
        self._backward: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None
        namespace, self.__name__ = _split(qualname)
        REGISTERED.setdefault(namespace, {})[self.__name__] = self

    @property
    def default(self) -> CustomOpDef:
        """The one overload."""
        return self

    def _run(self, *args: Any) -> Any:
        if self._function is None:
            raise NotImplementedError(f"{self._qualname} has no kernel: register one by torch.library.impl")
        return self._function(*args)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs and self._function is not None:
            bound = inspect.signature(self._function).bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        return self._run(*args) if self._backward is None else self._differentiable().apply(*args)

    def _differentiable(self) -> type[Function]:
        definition = self

        class Registered(Function):
            @staticmethod
            def forward(ctx: Any, *args: Any) -> Any:
                output = definition._run(*args)
                if definition._setup is not None:
                    definition._setup(ctx, args, output)
                return output

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                assert definition._backward is not None
                return definition._backward(ctx, *grads)

        return Registered

    def register_kernel(self, device_types: Any, func: Any = None, /) -> Any:
        """The kernel of some device types; those of the CPU, or of all, are taken."""
        kinds = [device_types] if isinstance(device_types, str) or device_types is None else list(device_types)

        def take(function: Any) -> Any:
            if any(kind in (None, "cpu", "CPU", "default", "CompositeExplicitAutograd") for kind in kinds):
                self._function = function
            return function

        return take if func is None else take(func)

    def register_autograd(self, backward: Any, /, *, setup_context: Any = None) -> None:
        """How gradients are computed, and what is kept for that."""
        self._backward, self._setup = backward, setup_context

    def register_fake(self, fn: Any, /) -> Any:
        """Shapes for a compiler; nothing is compiled here."""
        return fn

    def register_vmap(self, func: Any = None, /) -> Any:
        return func if func is not None else lambda given: given

    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> None:
        """There is one kernel, always on."""


def _definition(op: Any) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    namespace, name = _split(op)
    found = REGISTERED.get(namespace, {}).get(name)
    if not isinstance(found, CustomOpDef):
        raise RuntimeError(
            f"operator {op} does not exist: define it by torch.library.custom_op or torch.library.define"
        )
    return found


def custom_op(
    name: str,
    fn: Any = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make an operator of a function; without one, a decorator."""
    return CustomOpDef(name, fn) if fn is not None else lambda given: CustomOpDef(name, given)


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Name an operator whose kernel comes later."""
    CustomOpDef(qualname)


def impl(qualname: str, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """The kernel of a defined operator."""
    return _definition(qualname).register_kernel(types, func)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    return _definition(op).register_kernel(device_types, func)


def register_autograd(op: Any, backward: Any, /, *, setup_context: Any = None, lib: Any = None) -> None:
    _definition(op).register_autograd(backward, setup_context=setup_context)


def register_fake(op: Any, func: Any = None, /, *, lib: Any = None, _stacklevel: int = 1, **options: Any) -> Any:
    """Shapes for a compiler; nothing is compiled here."""
    return func if func is not None else lambda given: given


impl_abstract = register_fake


class Library:
    """A namespace whose operators are defined and given kernels one by one."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}; it is one of DEF, IMPL, FRAGMENT")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        name = schema.partition("(")[0]
        define(f"{self.ns}::{name}", schema)
        return name

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> None:
        key = dispatch_key or self.dispatch_key or None
        name = op_name if isinstance(op_name, str) else op_name.__name__
        _definition(name if "::" in name else f"{self.ns}::{name}").register_kernel(key, fn)
