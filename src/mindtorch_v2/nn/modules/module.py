"""Module: registration, traversal and calling. State dicts live in `module_state`, hooks in `module_hooks`."""

from __future__ import annotations



from collections.abc import Callable, Iterator
from typing import Any

from ... import _device, _tap
from ..._dtype import dtype as DType
from ..._tensor import Tensor
from ...autograd.grad_mode import no_grad
from ..parameter import Buffer, is_parameter
from . import module_hooks, module_state

_SLOT = _tap.SLOT
_STORES = ("_parameters", "_buffers", "_modules")


class Module(module_state.StateMixin, module_hooks.HooksMixin):
    """Base of all layers and models: holds parameters, buffers and submodules, and is called like a function."""

    dump_patches = False
    training: bool
    call_super_init = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if self.call_super_init is False and (args or kwargs):
            got = f"keyword argument '{next(iter(kwargs))}'" if kwargs else f"positional argument {len(args)}"
            raise TypeError(f"{type(self).__name__}.__init__() got an unexpected {got}")
        set_ = super().__setattr__
        set_("training", True)
        set_("_parameters", {})
        set_("_buffers", {})
        set_("_non_persistent_buffers_set", set())
        set_("_modules", {})
        self._init_hooks()
        self._init_state_hooks()

    def forward(self, *input: Any) -> Any:
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    # --- attributes -----------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        for store in _STORES:
            found = self.__dict__.get(store)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(value, (Tensor, Module)):
            self._set_other(name, value)
        elif is_parameter(value):
            self._forget(name)
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._set_module(name, value)
        else:
            self._set_tensor(name, value)

    def _set_other(self, name: str, value: Any) -> None:
        """Values that are neither tensors nor modules; None may stand in for a registered one."""
        state = self.__dict__
        for store in _STORES:
            found = state.get(store)
            if found is not None and name in found:
                if value is not None:
                    kind = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "child module"}[store]
                    expected = {"_parameters": "torch.nn.Parameter or None", "_buffers": "torch.Tensor, torch.nn.Buffer or None",
                                "_modules": "torch.nn.Module or None"}[store]  # fmt: skip
                    raise TypeError(
                        f"cannot assign '{_type_text(value)}' as {kind} '{name}' ({expected} expected)"
                    )
                found[name] = None
                return
        super().__setattr__(name, value)

    def _set_module(self, name: str, value: Module) -> None:
        modules = self.__dict__.get("_modules")
        if modules is None:
            raise AttributeError("cannot assign module before Module.__init__() call")
        self._forget(name, keep=modules)
        for hook in module_hooks.GLOBAL.module_registration.values():
            replaced = hook(self, name, value)
            value = value if replaced is None else replaced
        modules[name] = value

    def _set_tensor(self, name: str, value: Tensor) -> None:
        state = self.__dict__
        if name in (state.get("_parameters") or ()):
            raise TypeError(
                f"cannot assign '{_type_text(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
            )
        if isinstance(value, Buffer):
            self._forget(name)
            self.register_buffer(name, value, value.persistent)
        elif name in (state.get("_buffers") or ()):
            for hook in module_hooks.GLOBAL.buffer_registration.values():
                replaced = hook(self, name, value)
                value = value if replaced is None else replaced
            state["_buffers"][name] = value
        elif name in (state.get("_modules") or ()):
            raise TypeError(
                f"cannot assign '{_type_text(value)}' as child module '{name}' (torch.nn.Module or None expected)"
            )
        else:
            super().__setattr__(name, value)

    def _forget(self, name: str, keep: Any = None) -> None:
        """Drop what has this name elsewhere."""
        state = self.__dict__
        state.pop(name, None)
        for store in _STORES:
            found = state.get(store)
            if found is not None and found is not keep:
                found.pop(name, None)
        if state.get("_non_persistent_buffers_set"):
            state["_non_persistent_buffers_set"].discard(name)

    def __delattr__(self, name: str) -> None:
        for store in _STORES:
            found = self.__dict__.get(store, {})
            if name in found:
                del found[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = set(dir(type(self))) | set(self.__dict__)
        for store in _STORES:
            names.update(self.__dict__.get(store, ()))
        return sorted(name for name in names if not name[0].isdigit())

    # --- registration ---------------------------------------------------------------------------------------------

    def _check_name(self, kind: str, name: Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_type_text(name)}")
        if "." in name:
            raise KeyError(f"{kind} name can't contain \".\"" + (f", got: {name}" if kind == "module" else ""))
        if name == "":
            raise KeyError(f"{kind} name can't be empty string \"\"")

    def register_parameter(self, name: str, param: Any) -> None:
        """Collect a parameter under a name (None reserves the name)."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name)
        if hasattr(self, name) and name not in self._parameters:
            raise KeyError(f"attribute '{name}' already exists")
        if param is not None:
            if not is_parameter(param):
                raise TypeError(
                    f"cannot assign '{_type_text(param)}' object to parameter '{name}' (torch.nn.Parameter or None "
                    "required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. "
                    f"To express '{name}' as a function of another Tensor, compute the value in the forward() method."
                )
            for hook in module_hooks.GLOBAL.parameter_registration.values():
                replaced = hook(self, name, param)
                param = param if replaced is None else replaced
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Collect a tensor that is state but not a parameter."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name)
        if hasattr(self, name) and name not in self._buffers:
            raise KeyError(f"attribute '{name}' already exists")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_type_text(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        for hook in module_hooks.GLOBAL.buffer_registration.values():
            replaced = hook(self, name, tensor)
            tensor = tensor if replaced is None else replaced
        self._buffers[name] = tensor
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module: Any) -> None:
        """Collect a submodule under a name."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{_type_text(module)} is not a Module subclass")
        self._check_name("module", name)
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        for hook in module_hooks.GLOBAL.module_registration.values():
            replaced = hook(self, name, module)
            module = module if replaced is None else replaced
        self._modules[name] = module

    register_module = add_module

    # --- calling --------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _SLOT.flags & _tap.MODULES and _SLOT.recorder is not None:
            with _SLOT.recorder.module(self):
                return self._call_impl(*args, **kwargs)
        if not self._has_call_hooks and not module_hooks.GLOBAL.any_call:
            return self.forward(*args, **kwargs)
        return module_hooks.call(self, args, kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if not self._has_call_hooks and not module_hooks.GLOBAL.any_call:
            return self.forward(*args, **kwargs)
        return module_hooks.call(self, args, kwargs)

    # --- traversal ------------------------------------------------------------------------------------------------

    def named_modules(self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:  # fmt: skip
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

    def modules(self) -> Iterator[Module]:
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        for _, module in self.named_children():
            yield module

    def _named_members(self, get: Callable[[Module], Any], prefix: str, recurse: bool, once: bool) -> Iterator[tuple[str, Any]]:
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=once) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in get(module):
                if value is None or id(value) in seen:
                    continue
                if once:
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:  # fmt: skip
        return self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:  # fmt: skip
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path."""
        module: Any = self
        for part in target.split(".") if target else ():
            if not hasattr(module, part):
                raise AttributeError(f"{type(module).__name__} has no attribute `{part}`")
            module = getattr(module, part)
            if not isinstance(module, Module):
                raise AttributeError(f"`{part}` is not an nn.Module")
        return module  # type: ignore[no-any-return]

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a dotted path."""
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        setattr(parent, name, module)

    def _get_member(self, target: str, store: str, kind: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        if name not in getattr(module, store):
            raise AttributeError(f"`{name}` is not {kind}")
        return getattr(module, name)

    def get_parameter(self, target: str) -> Any:
        return self._get_member(target, "_parameters", "an nn.Parameter")

    def get_buffer(self, target: str) -> Any:
        return self._get_member(target, "_buffers", "a buffer")

    # --- changes to the whole -------------------------------------------------------------------------------------

    def apply(self, fn: Callable[[Module], None]) -> Any:
        """Call `fn` on every submodule, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Replace the memory of every parameter, gradient and buffer by `fn` of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for param in self._parameters.values():
            if param is None:
                continue
            with no_grad():
                param.data = fn(param)
                if param.grad is not None:
                    gradient = fn(param.grad)
                    param.grad = None
                    param.grad = gradient
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Move or cast parameters and buffers; only floating point ones are cast."""
        dtype, device = _parse_to(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")

        def convert(t: Any) -> Any:
            cast = dtype if dtype is not None and (t.is_floating_point() or t.is_complex()) else None
            return t.to(device=device, dtype=cast) if cast is not None or device is not None else t

        return self._apply(convert)

    def type(self, dst_type: Any) -> Any:
        return self._apply(lambda t: t.type(dst_type))  # type: ignore[attr-defined,no-any-return]

    def _cast(self, method: str) -> Any:
        return self._apply(lambda t: getattr(t, method)() if t.is_floating_point() else t)

    def float(self) -> Any:
        return self._cast("float")

    def double(self) -> Any:
        return self._cast("double")

    def half(self) -> Any:
        return self._cast("half")

    def bfloat16(self) -> Any:
        return self._cast("bfloat16")

    def cpu(self) -> Any:
        return self._apply(lambda t: t.cpu())  # type: ignore[attr-defined,no-any-return]

    def cuda(self, device: Any = None) -> Any:
        return self._apply(lambda t: t.cuda(device))  # type: ignore[attr-defined,no-any-return]

    def to_empty(self, *, device: Any, recurse: bool = True) -> Any:
        """Fresh, uninitialised memory on a device."""
        return self._apply(lambda t: t.new_empty(t.shape, device=device), recurse)  # type: ignore[attr-defined,no-any-return]

    def train(self, mode: bool = True) -> Any:
        """Set training mode of this module and all below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Any:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters (or fill them with zeros)."""
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                param.grad.requires_grad_(False) if param.grad.grad_fn is None else param.grad.detach_()
                param.grad.zero_()

    def share_memory(self) -> Any:
        return self._apply(lambda t: t.share_memory_())  # type: ignore[attr-defined,no-any-return]

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """There is nothing to compile: modules run as they are."""

    # --- text -----------------------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return self.__class__.__name__

    def extra_repr(self) -> str:
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        children = [f"({name}): " + _indented(repr(module)) for name, module in self._modules.items()]
        lines = extra_lines + children
        text = self._get_name() + "("
        if lines:
            if len(extra_lines) == 1 and not children:
                text += extra_lines[0]
            else:
                text += "\n  " + "\n  ".join(lines) + "\n"
        return text + ")"


def _indented(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *("  " + line for line in rest)])


def _type_text(value: Any) -> str:
    kind = type(value)
    module = kind.__module__.replace("mindtorch_v2._tensor", "torch").replace("mindtorch_v2", "torch")
    return kind.__name__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[DType | None, Any]:
    dtype, device = kwargs.get("dtype"), kwargs.get("device")
    for value in args:
        if isinstance(value, Tensor):
            dtype, device = value.dtype, value.device
        elif isinstance(value, DType):
            dtype = value
        elif isinstance(value, (str, _device.device, int)) and not isinstance(value, bool):
            device = value
    return dtype, (None if device is None else _device.usable(device))
