"""Parametrisations: a parameter computed from others by modules, whenever it is read."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...autograd.grad_mode import no_grad
from ...core.tensor import Tensor
from ..modules.container import ModuleDict, ModuleList
from ..parameter import Parameter


class _Cache:
    """Values kept while `cached()` is open, by module and name."""

    depth = 0
    values: dict[tuple[int, str], Any] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Inside, each parametrised tensor is computed once."""
    _Cache.depth += 1
    try:
        yield
    finally:
        _Cache.depth -= 1
        if not _Cache.depth:
            _Cache.values = {}


def _register(module: Any, name: str, value: Any) -> None:
    (module.register_parameter if isinstance(value, Parameter) else module.register_buffer)(name, value)


def _take_over(old: Any, new: Any) -> None:
    """Let a tensor look at the memory of another; it stays what it is to autograd and optimizers."""
    old.data = new.detach()


def _inverted(modules: Any, value: Any, strict: bool) -> Any:
    """A value taken back through modules; those without an inverse are passed over unless `strict`."""
    for module in reversed(list(modules)):
        if hasattr(module, "right_inverse"):
            try:
                value = module.right_inverse(value)
            except NotImplementedError:
                if strict:
                    raise
        elif strict:
            raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
    return value


class ParametrizationList(ModuleList):
    """The modules that make a tensor, and what they make it from: `original`, or `original0`, `original1`, …"""

    def __init__(self, modules: Sequence[Any], original: Any, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with no_grad():
            given = _inverted(self, original, strict=False)
        if not isinstance(given, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                f"{type(given).__name__}"
            )
        self.is_tensor = isinstance(given, Tensor)
        self.ntensors = 1 if self.is_tensor else len(given)
        if self.is_tensor:
            self._keep_one(original, given)
        else:
            self._keep_several(original, given)
        if not unsafe:
            _check_like(self(), shape, dtype, "`unsafe` flag", "unparametrized", "parametrized")

    def _keep_one(self, original: Any, given: Any) -> None:
        for what in ("dtype", "device"):
            if getattr(original, what) != getattr(given, what):
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {what}.\noriginal.{what}: "
                    f"{getattr(original, what)}\nright_inverse(original).{what}: {getattr(given, what)}"
                )
        _take_over(original, given)
        _register(self, "original", original)

    def _keep_several(self, original: Any, given: Any) -> None:
        for i, part in enumerate(given):
            if not isinstance(part, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element "
                    f"{i} of the sequence with type {type(part).__name__}."
                )
            if isinstance(original, Parameter):
                part = Parameter(part, original.requires_grad)
            part.requires_grad_(original.requires_grad)
            _register(self, f"original{i}", part)

    def right_inverse(self, value: Any) -> None:
        """Set the originals so that the tensor becomes `value`, as far as the modules can."""
        with no_grad():
            value = _inverted(self, value, strict=True)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
                if value.dtype != self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` has dtype "
                        f"{self.original.dtype}"
                    )
                _take_over(self.original, value)
                return
            if not isinstance(value, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
            if len(value) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of "
                    f"length {len(value)}."
                )
            for i, part in enumerate(value):
                self._set_part(i, part)

    def _set_part(self, i: int, part: Any) -> None:
        original = getattr(self, f"original{i}")
        if not isinstance(part, Tensor):
            raise ValueError(
                f"`right_inverse` must return a sequence of tensors. Got element {i} of type {type(part).__name__}"
            )
        if original.dtype != part.dtype:
            raise ValueError(
                f"Tensor {i} returned by `right_inverse` has dtype {part.dtype} while `original{i}` has dtype "
                f"{original.dtype}"
            )
        _take_over(original, part)

    def forward(self) -> Any:
        modules = list(self)
        if self.is_tensor:
            x = modules[0](self.original)
        else:
            x = modules[0](*(getattr(self, f"original{i}") for i in range(self.ntensors)))
        for module in modules[1:]:
            x = module(x)
        return x


def _check_like(value: Any, shape: Any, dtype: Any, flag: str, before: str, after: str) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
    for what, wanted in (("dtype", dtype), ("shape", shape)):
        if getattr(value, what) != wanted:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless {flag} is enabled.\n"
                f"{before} {what}: {wanted}\n{after} {what}: {getattr(value, what)}"
            )


# --- the class of a parametrised module -------------------------------------------------------------------------------


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    made = memo.get(id(self))
    if made is None:
        made = memo[id(self)] = self.__new__(type(self))
        made.__dict__ = copy.deepcopy(self.__dict__, memo)
    return made


def _getstate(self: Any) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _inject_new_class(module: Any) -> None:
    """Give a module a class of its own, on which properties can be put."""
    cls = type(module)
    body: dict[str, Any] = {"__getstate__": _getstate}
    if not hasattr(cls, "__deepcopy__"):
        body["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), body)


def _inject_property(module: Any, name: str) -> None:
    """Let a tensor be computed when it is read, and its originals be set when it is written."""

    def get(self: Any) -> Any:
        parametrization = self.parametrizations[name]
        if not _Cache.depth:
            return parametrization()
        key = (id(self), name)
        if key not in _Cache.values:
            _Cache.values[key] = parametrization()
        return _Cache.values[key]

    def put(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


# --- registration -----------------------------------------------------------------------------------------------------


def register_parametrization(module: Any, tensor_name: str, parametrization: Any, *, unsafe: bool = False) -> Any:
    """Let a parameter or buffer be what a module makes of it; several are applied one after the other."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_next(module, tensor_name, parametrization)
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        made = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def _check_next(module: Any, name: str, parametrization: Any) -> None:
    """Errors unless one more parametrisation keeps shape and dtype, both ways."""
    now = getattr(module, name)
    then = parametrization(now)
    _check_like(then, now.shape, now.dtype, "the `unsafe` flag", f"module.{name}", f"parametrization(module.{name})")
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(then)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    for what in ("dtype", "shape"):
        if getattr(back, what) != getattr(now, what):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as module.{name}, "
                f"unless the `unsafe` flag is enabled.\nmodule.{name}.{what}: {getattr(now, what)}\nreturned {what}: "
                f"{getattr(back, what)}"
            )


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrised tensors, or one of this name."""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Make a tensor a plain parameter or buffer again: with the value it has, or with that of its original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with no_grad():
                _take_over(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Any) -> Any:
    """The class a module had before it was parametrised."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Any, to_module: Any, tensor_name: str | None = None) -> Any:
    """Give a module the parametrisations and originals of another."""
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source = from_module.parametrizations[name]
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        names = ["original"] if source.is_tensor else [f"original{i}" for i in range(source.ntensors)]
        for original in names:
            setattr(to_module.parametrizations[name], original, getattr(source, original))
    return to_module


__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "transfer_parametrizations_and_params", "type_before_parametrizations",
]  # fmt: skip
