"""Module: registration, traversal and calling. State dicts live in `module_state`, hooks in `module_hooks`."""

from __future__ import annotations

import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from ...binding.aliases import share
from ...core import roles, tap
from ...core.tensor import FAST, Parameter, Tensor
from ...ops.creation.fill import empty_like
from ..parameter import Buffer
from . import conversion, module_hooks, module_state
from .module_hooks import (
    Hooks,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    registered,
)
from .module_state import _EXTRA as _EXTRA_STATE_KEY_SUFFIX
from .module_state import _IncompatibleKeys

# Hooks of every module, by occasion; `module_hooks` looks them up here.
_global_forward_pre_hooks: Hooks = OrderedDict()
_global_forward_hooks: Hooks = OrderedDict()
_global_forward_hooks_always_called: Hooks = OrderedDict()
_global_forward_hooks_with_kwargs: Hooks = OrderedDict()
_global_backward_pre_hooks: Hooks = OrderedDict()
_global_backward_hooks: Hooks = OrderedDict()
_global_is_full_backward_hook: bool | None = None  # which kind the backward hooks are, from the first one on
_global_module_registration_hooks: Hooks = OrderedDict()
_global_parameter_registration_hooks: Hooks = OrderedDict()
_global_buffer_registration_hooks: Hooks = OrderedDict()

_SLOT, _MODULES = tap.SLOT, tap.MODULES
_STORES = ("_parameters", "_buffers", "_modules")


class Module(module_state.StateMixin, module_hooks.HooksMixin):
    """Base of all layers and models: holds parameters, buffers and submodules, and is called like a function."""

    dump_patches = False
    training: bool
    call_super_init = False
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if self.call_super_init is False and kwargs:
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
            )
        if self.call_super_init is False and args:
            raise TypeError(
                f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
            )
        state = self.__dict__
        state["training"] = True
        for name in _STORES:
            state[name] = {}
        state["_non_persistent_buffers_set"] = set()
        self._init_hooks()
        self._init_state_hooks()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *input: Any) -> Any:
        """What the module computes; every subclass writes its own."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    # --- attributes -----------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        state = self.__dict__
        try:
            found = state["_parameters"]
            if name in found:
                return found[name]
            found = state["_buffers"]
            if name in found:
                return found[name]
            found = state["_modules"]
            if name in found:
                return found[name]
        except KeyError:
            pass  # Module.__init__ has not run yet
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        state = self.__dict__
        params, modules, buffers = state.get("_parameters"), state.get("_modules"), state.get("_buffers")
        if isinstance(value, Tensor) and isinstance(value, Parameter):  # the first test is the cheaper one
            if params is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_buffers", "_modules")
            self.register_parameter(name, value)
        elif params is not None and name in params:
            if value is not None:
                raise _cannot_assign(value, f"parameter '{name}' (torch.nn.Parameter or None expected)")
            self.register_parameter(name, None)
        elif isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_parameters", "_buffers")
            modules[name] = registered(_global_module_registration_hooks, self, name, value)
        elif modules is not None and name in modules:
            if value is not None:
                raise _cannot_assign(value, f"child module '{name}' (torch.nn.Module or None expected)")
            modules[name] = registered(_global_module_registration_hooks, self, name, None)
        elif (buffers is not None and name in buffers) or (isinstance(value, Tensor) and isinstance(value, Buffer)):
            self._set_buffer(name, value)
        else:
            super().__setattr__(name, value)

    def _set_buffer(self, name: str, value: Any) -> None:
        if value is not None and not _tensor_like(value):
            raise _cannot_assign(value, f"buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)")
        marked = isinstance(value, Buffer)
        persistent = value.persistent if marked else name not in self._non_persistent_buffers_set
        own = getattr(self.register_buffer, "__func__", None) is not Module.register_buffer
        if own and "persistent" not in inspect.signature(self.register_buffer).parameters:
            if not persistent:
                raise RuntimeError(
                    "Registering a non-persistent buffer on a Module subclass that implements register_buffer() "
                    "without the persistent argument is not allowed."
                )
            self.register_buffer(name, value)
        else:
            self.register_buffer(name, value, persistent)

    def _forget(self, name: str, *stores: str) -> None:
        """Drop what has this name elsewhere."""
        state = self.__dict__
        state.pop(name, None)
        for store in stores:
            state[store].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        for store in _STORES:
            found = self.__dict__[store]
            if name in found:
                del found[name]
                if store == "_buffers":
                    self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted(name for name in names if not name[0].isdigit())

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over pickled state; what older versions did not have is added."""
        fresh = Module()
        self.__dict__.update({k: v for k, v in fresh.__dict__.items() if k not in state and k != "training"})
        self.__dict__.update(state)

    # --- registration ---------------------------------------------------------------------------------------------

    def _check_name(self, kind: str, name: Any, store: str) -> None:
        if store not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."' + (f", got: {name}" if kind == "module" else ""))
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in self.__dict__[store] and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Any) -> None:
        """Collect a parameter under a name (None reserves the name)."""
        self._check_name("parameter", name, "_parameters")
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None "
                    "required)"
                )
            if param.grad_fn:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                    "explicitly. "
                    f"To express '{name}' as a function of another Tensor, compute the value in the forward() method."
                )
            param = registered(_global_parameter_registration_hooks, self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Collect a tensor that is state but not a parameter."""
        self._check_name("buffer", name, "_buffers")
        if tensor is not None and not _tensor_like(tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = registered(_global_buffer_registration_hooks, self, name, tensor)
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module: Any) -> None:
        """Collect a submodule under a name."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_name("module", name, "_modules")
        self._modules[name] = registered(_global_module_registration_hooks, self, name, module)

    def register_module(self, name: str, module: Any) -> None:
        """`add_module` by another name."""
        self.add_module(name, module)

    # --- calling --------------------------------------------------------------------------------------------------

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """Forward, with hooks if there are any; a region of its own where a recorder wants modules."""
        state = self.__dict__
        try:
            hooked = (
                state["_forward_hooks"] or state["_forward_pre_hooks"] or state["_backward_hooks"]
                or state["_backward_pre_hooks"] or _global_forward_hooks or _global_forward_pre_hooks
                or _global_backward_hooks or _global_backward_pre_hooks
            )  # fmt: skip
        except KeyError as error:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute {error}") from None
        if _SLOT.flags & _MODULES and (recorder := _SLOT.recorder) is not None:
            announce = roles.announce_call if roles.LISTENERS else None
            if recorder.call_module is not None and _SLOT.watcher is None:
                return recorder.call_module(self, args, kwargs, module_hooks.call if hooked else None, announce)
            with recorder.module(self):
                if announce is not None:
                    tap.call_untraced(announce, self, args, kwargs)
                return module_hooks.call(self, args, kwargs) if hooked else self.forward(*args, **kwargs)
        return module_hooks.call(self, args, kwargs) if hooked else self.forward(*args, **kwargs)

    __call__ = _call_impl

    # --- traversal ------------------------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, with their paths."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, each once, with their names."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules directly below."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in get_members_fn(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """All parameters with their paths."""
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        """All parameters, each once."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """All buffers with their paths."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        """All buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def _member(self, name: str) -> Any:
        if not hasattr(self, name):
            raise AttributeError(f"{self._get_name()} has no attribute `{name}`")
        return getattr(self, name)

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path."""
        module: Any = self
        for part in target.split(".") if target else ():
            module = module._member(part)
            if not isinstance(module, Module):
                raise AttributeError(f"`{part}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a dotted path."""
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if (strict or hasattr(parent, name)) and not isinstance(parent._member(name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Any:
        """The parameter at a dotted path."""
        path, _, name = target.rpartition(".")
        found = self.get_submodule(path)._member(name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Any:
        """The buffer at a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        found = module._member(name)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    # --- changes to the whole -------------------------------------------------------------------------------------

    def apply(self, fn: Callable[[Module], None]) -> Any:
        """Call `fn` on every submodule, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        """Replace the memory of every parameter, gradient and buffer by `fn` of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is not None:
                self._parameters[name] = self._converted(name, param, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _converted(self, name: str, param: Any, fn: Callable[[Any], Any]) -> Any:
        try:
            return conversion.moved(param, fn)
        except RuntimeError as error:
            if not conversion.get_swap_module_params_on_conversion():
                raise
            raise RuntimeError(f"_apply(): Couldn't swap {self._get_name()}.{name}") from error

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Move or cast parameters and buffers; only floating point ones are cast."""
        device, dtype, memory_format = conversion.parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warnings.warn(
                "Complex modules are a new feature under active development whose design may change, and some modules "
                "might not work as expected when using complex tensors as parameters or buffers.",
                stacklevel=2,
            )

        def convert(t: Any) -> Any:
            cast = dtype if t.is_floating_point() or t.is_complex() else None
            if memory_format is not None and t.dim() in (4, 5):
                return t.to(device=device, dtype=cast, memory_format=memory_format)
            return t.to(device=device, dtype=cast) if cast is not None or device is not None else t

        try:
            return self._apply(convert)
        except NotImplementedError as error:
            if str(error) != "Cannot copy out of meta tensor; no data!":
                raise
            raise NotImplementedError(
                f"{error} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module "
                "from meta to a different device."
            ) from None

    def type(self, dst_type: Any) -> Any:
        """Cast all parameters and buffers."""
        return self._apply(lambda t: t.type(dst_type))

    def _cast(self, method: str) -> Any:
        return self._apply(lambda t: getattr(t, method)() if t.is_floating_point() else t)

    def float(self) -> Any:
        """Cast floating point parameters and buffers to float32."""
        return self._cast("float")

    def double(self) -> Any:
        """Cast floating point parameters and buffers to float64."""
        return self._cast("double")

    def half(self) -> Any:
        """Cast floating point parameters and buffers to float16."""
        return self._cast("half")

    def bfloat16(self) -> Any:
        """Cast floating point parameters and buffers to bfloat16."""
        return self._cast("bfloat16")

    def cpu(self) -> Any:
        """Move everything to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Any:
        """There is no such device: an error, as in a torch without CUDA."""
        return self._apply(lambda t: t.cuda(device))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Any:
        """Fresh, uninitialised memory on a device."""
        return self._apply(lambda t: empty_like(t, device=device), recurse)

    def train(self, mode: bool = True) -> Any:
        """Set training mode of this module and all below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Any:
        """Leave training mode."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Whether autograd records what happens to the parameters."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters (or fill them with zeros)."""
        for param in self.parameters():
            gradient = param.grad
            if gradient is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                gradient.requires_grad_(False) if gradient.grad_fn is None else gradient.detach_()
                gradient.zero_()

    def share_memory(self) -> Any:
        """Move everything to memory that other processes see."""
        held = [t for p in self.parameters() for t in (p, p.grad)] + list(self.buffers())
        # All at once, as tensors on the same memory have to be looked for; the rest is for classes of their own.
        share([t for t in held if type(t) in FAST])
        return self._apply(lambda t: t.share_memory_())

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """There is nothing to compile: modules run as they are."""

    # --- text -----------------------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return self.__class__.__name__

    def extra_repr(self) -> str:
        """What stands between the brackets of `repr`."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        children = [f"({name}): " + _indented(repr(module)) for name, module in self._modules.items()]
        lines = extra_lines + children
        if not lines:
            return f"{self._get_name()}()"
        if len(extra_lines) == 1 and not children:
            return f"{self._get_name()}({extra_lines[0]})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


def _indented(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(f"  {line}" if line.strip() else "" for line in rest)])


def typename(value: Any) -> str:
    """The name of a value's type as error texts give it."""
    if isinstance(value, Tensor):
        return value.type()
    kind = type(value)
    module = kind.__module__.replace("mindtorch_v2", "torch")
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _cannot_assign(value: Any, expected: str) -> TypeError:
    return TypeError(f"cannot assign '{typename(value)}' as {expected}")


def _tensor_like(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(value, "__torch_function__")


__all__ = [
    "_EXTRA_STATE_KEY_SUFFIX",
    "Module",
    "_IncompatibleKeys",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
    "typename",
]  # fmt: skip
