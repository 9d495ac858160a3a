"""torch.library: operators that programs define, found under `torch.ops` and differentiable where they say how."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import Any

from .autograd import grad_mode
from .autograd.function import Function
from .core import tap
from .core.tensor import Tensor, storage_of
from .dispatch.inputs import describe_inputs, inputs_id
from .dispatch.schema import Argument, parse
from .ops.namespace import REGISTERED, ByName

# What an operator says of itself; a compiler would read it.
Tag = IntEnum(
    "Tag",
    """core cudagraph_unsafe data_dependent_output dynamic_output_shape flexible_layout generated inplace inplace_view
    maybe_aliasing_or_mutating needs_contiguous_strides needs_exact_strides needs_fixed_stride_order
    nondeterministic_bitwise nondeterministic_seeded out out_variant pointwise pt2_compliant_tag reduction view_copy""",
    start=0,
)


def _split(qualname: str) -> tuple[str, str, str]:
    namespace, colons, name = qualname.partition("::")
    if not colons or not namespace or not name:
        raise ValueError(f"Expected the name of an operator as `namespace::name`, got {qualname!r}")
    name, _, overload = name.partition("(")[0].partition(".")
    return namespace, name, overload or "default"


def _signature(schema: str) -> inspect.Signature | None:
    """What a schema says about arguments; None for one that is written in types the op table does not use."""
    try:
        arguments = parse(schema).arguments
        kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        parameters = [
            inspect.Parameter(
                a.name, kinds[a.kwarg_only], default=a.default if a.has_default else inspect.Parameter.empty
            )
            for a in arguments
        ]
        return inspect.Signature(parameters)
    except ValueError:
        return None


def _described(key: Any) -> tap.InputRecord:
    """Inputs of an operator that programs define: each is of the type of what is given."""
    return describe_inputs(tuple(Argument("input", _type_of(part), False, None, False) for part in key), key)


def _type_of(part: Any) -> str:
    if type(part) is int:
        return "Tensor"
    if part[0] == "list":
        return "Tensor[]" if any(type(entry) is int for entry in part[1:]) else "Scalar[]"
    return str(part[1].__name__)


class CustomOpPacket(ByName):
    """All overloads of an operator that a program defines; calling it picks the first that fits."""

    def __init__(self, namespace: str, name: str) -> None:
        self.__name__ = name
        self._path = f"{namespace}.{name}"
        self._overloads: dict[str, CustomOpDef] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = [overload for overload in self._overloads.values() if overload.fits(args, kwargs)]
        return (found or list(self._overloads.values()))[0](*args, **kwargs)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._path}')>"

    def overloads(self) -> list[str]:
        return list(self._overloads)

    def __getattr__(self, name: str) -> Any:
        overloads = self.__dict__.get("_overloads", {})
        if name not in overloads:
            raise AttributeError(
                f"operator {self.__dict__.get('__name__')} has no overload {name!r}; it has {list(overloads)}"
            )
        return overloads[name]


_OWN_KINDS = {None, "cpu", "CPU", "default", "CompositeExplicitAutograd"}
_COMPOSED_KINDS = {"CompositeImplicitAutograd", "Autograd", "AutogradCPU"}


class CustomOpDef(ByName):
    """An operator made from a Python function; its gradient, if it has one, is a Python function too.

    An opaque one is differentiated by that alone. Of others autograd sees the ops that their function calls.
    """

    def __init__(
        self, qualname: str, function: Callable[..., Any] | None = None, schema: str = "", *, opaque: bool = False,
        mutated: Iterable[str] = (), tags: Any = (),
    ) -> None:  # fmt: skip
        self._qualname = qualname
        self._function = function
        self._opaque = opaque
        self._mutated = frozenset(mutated)
        self.tags = list(tags) if isinstance(tags, (tuple, list)) else [tags]
        self._functions: dict[tuple[int | None, ...], type[Function]] = {}
        self._backward: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None
        namespace, self.__name__, overload = _split(qualname)
        self._names = namespace, self.__name__, overload
        self._path = ".".join(self._names)
        known = REGISTERED.setdefault(namespace, {})
        packet: Any = known.setdefault(self.__name__, CustomOpPacket(namespace, self.__name__))
        packet._overloads[overload] = self
        self._arguments = _signature(schema) if schema else None
        self._event = 0

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    @property
    def path(self) -> str:
        """How it is found under torch.ops."""
        return ".".join(self._names[:2])

    @property
    def default(self) -> CustomOpDef:
        """The one overload."""
        return self

    def fits(self, args: Any, kwargs: Any) -> bool:
        """Whether these can be its arguments."""
        return self._bound(args, kwargs) is not None

    def _bound(self, args: Any, kwargs: Any) -> tuple[Any, ...] | None:
        """The arguments in order, with those that were left out; None if they do not fit."""
        signature = self._arguments
        if signature is None and self._function is not None:
            signature = inspect.signature(self._function)
        if signature is None:
            return (*args, *kwargs.values())
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return None
        bound.apply_defaults()
        return tuple(bound.arguments.values())

    def _region(self, args: Any, kwargs: Any) -> tap.region:
        """What a call is recorded as."""
        if not self._event:
            namespace, name, overload = self._names
            name_of_overload = "" if overload == "default" else overload
            self._event = tap.register_event(f"{namespace}::{name}", name_of_overload, describe=_described)
        seq = tap.NAMESPACE["SEQ"] if grad_mode.is_grad_enabled() else -1
        shown = self._bound(args, kwargs) if tap.SLOT.flags & tap.SHAPES else None
        return tap.region(self._event, seq, inputs_id(shown, True) if shown else 0)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        if self._function is None:
            raise NotImplementedError(f"{self._qualname} has no kernel: register one by torch.library.impl")
        return self._function(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if tap.SLOT.recorder is None:
            return self._call(args, kwargs)
        with self._region(args, kwargs):
            return self._call(args, kwargs)

    def _call(self, args: Any, kwargs: Any) -> Any:
        if self._backward is None and not self._opaque:
            return self._run(*args, **kwargs)
        if self._mutated:
            return self._change(args, kwargs)
        if kwargs and self._function is not None:
            bound = inspect.signature(self._function).bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        flat = [part for arg in args for part in _parts(arg)]
        if not grad_mode.is_grad_enabled() or not any(isinstance(p, Tensor) and p.requires_grad for p in flat):
            with grad_mode.no_grad():
                return self._run(*args)
        lengths = tuple(len(arg) if isinstance(arg, (list, tuple)) else None for arg in args)
        if lengths not in self._functions:
            self._functions[lengths] = self._differentiable(lengths)
        return self._functions[lengths].apply(*flat)

    def _change(self, args: Any, kwargs: Any) -> Any:
        """Run an operator that writes into its arguments, which is news for whoever has saved them."""
        assert self._function is not None
        with grad_mode.no_grad():
            result = self._run(*args, **kwargs)
        given = inspect.signature(self._function).bind(*args, **kwargs).arguments
        for name in self._mutated & given.keys():
            for part in _parts(given[name]):
                if isinstance(part, Tensor):
                    storage_of(part).version += 1
        return result

    def _differentiable(self, lengths: tuple[int | None, ...]) -> type[Function]:
        """The function with its gradient, on arguments whose lists, of these lengths, are laid out."""

        def forward(ctx: Any, *flat: Any) -> Any:
            parts = iter(flat)
            args = tuple(next(parts) if n is None else [next(parts) for _ in range(n)] for n in lengths)
            output = self._run(*args)
            if self._setup is not None:
                self._setup(ctx, args, output)
            return output

        def backward(ctx: Any, *grads: Any) -> Any:
            if self._backward is None:
                raise RuntimeError(
                    f"Trying to backward through {'.'.join(self._names)} but no autograd formula was registered. Please "
                    "use register_autograd to add one."
                )
            found = self._backward(ctx, *grads)
            if all(n is None for n in lengths):
                return found
            found = found if isinstance(found, tuple) else (found,)
            pairs = zip(found, lengths, strict=True)
            return tuple(g for f, n in pairs for g in ([f] if n is None else [None] * n if f is None else f))

        name = f"GeneratedBackwardFor_{'_'.join(self._names)}"
        return type(name, (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})

    def register_kernel(self, device_types: Any, func: Any = None, /) -> Any:
        """The kernel of some device types; those of the CPU, or of all, are taken, and where there is none, those that
        are made of other operators."""
        kinds = [device_types] if isinstance(device_types, str) or device_types is None else list(device_types)

        def take(function: Any) -> Any:
            if _OWN_KINDS & {*kinds} or (self._function is None and _COMPOSED_KINDS & {*kinds}):
                self._function = function
            return function

        return take if func is None else take(func)

    def register_autograd(self, backward: Any, /, *, setup_context: Any = None) -> None:
        """How gradients are computed, and what is kept for that."""
        if self._mutated:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} which changes its arguments "
                f"{sorted(self._mutated)}. Please create a functional operator and register an autograd formula for that."
            )
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
    namespace, name, overload = _split(op)
    packet: Any = REGISTERED.get(namespace, {}).get(name)
    found = packet._overloads.get(overload) if isinstance(packet, CustomOpPacket) else None
    if found is None:
        raise RuntimeError(
            f"operator {op} does not exist: define it by torch.library.custom_op or torch.library.define"
        )
    return found


def _parts(value: Any) -> Iterator[Any]:
    """The entries of a list, or what is none."""
    if isinstance(value, (list, tuple)):
        yield from value
    else:
        yield value


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
    """Make an operator of a function; without one, a decorator. `mutates_args` names the arguments it writes into, or is
    "unknown" for any of them."""
    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(
            "mutates_args must either be a sequence of the names of the arguments that are mutated or the string "
            f"'unknown', got {mutates_args!r}."
        )
    anything = mutates_args == "unknown"
    named = frozenset[str]() if anything else frozenset(mutates_args)

    def make(function: Any) -> CustomOpDef:
        own = inspect.signature(function).parameters.keys()
        if not named <= own:
            raise ValueError(
                f"infer_schema(func): {set(named - own)} in mutates_args were not found in the custom op's signature. "
                f"mutates_args should contain the names of all args that the custom op mutates, or just the string "
                f"'unknown' if you don't know. Got func with signature {inspect.signature(function)})"
            )
        written = "" if schema is None else f"{_split(name)[1]}{schema}"
        mutated = own if anything else named
        return CustomOpDef(name, function, written, opaque=True, mutated=mutated, tags=tags or ())

    return make if fn is None else make(fn)


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Name an operator whose kernel comes later."""
    CustomOpDef(qualname, schema=f"{_split(qualname)[1]}{schema}" if schema.startswith("(") else schema, tags=tags)


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
        define(f"{self.ns}::{name}", schema, tags=tags)
        return name

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> None:
        key = dispatch_key or self.dispatch_key or None
        if isinstance(op_name, CustomOpDef):
            op_name.register_kernel(key, fn)
            return
        name = op_name if isinstance(op_name, str) else op_name.__name__
        _definition(name if "::" in name else f"{self.ns}::{name}").register_kernel(key, fn)
