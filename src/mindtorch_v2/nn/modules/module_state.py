"""State dicts of modules: writing, reading, and the hooks around both."""

from __future__ import annotations

import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from typing import Any

from ...autograd.grad_mode import no_grad
from ...autograd.node import RemovableHandle, add_hook
from ...autograd.swapping import swap_tensors
from ...core.tensor import Tensor
from ..parameter import Parameter, is_lazy
from .conversion import get_swap_module_params_on_conversion
from .module_hooks import BoundHook

_EXTRA = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class StateMixin:
    """The state dict half of Module."""

    _version = 1

    def _init_state_hooks(self) -> None:
        state = self.__dict__
        for name in (
            "_state_dict_hooks",
            "_state_dict_pre_hooks",
            "_load_state_dict_pre_hooks",
            "_load_state_dict_post_hooks",
        ):
            state[name] = OrderedDict()

    # --- writing --------------------------------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        """State beside parameters and buffers that `state_dict` is to hold; subclasses that have some say which."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    def _save_to_state_dict(self: Any, destination: Any, prefix: str, keep_vars: bool) -> None:
        """This module's own entries, without those of its children."""
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not StateMixin.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def state_dict(self: Any, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Everything that makes up the state, by path."""
        if args:
            warnings.warn("Positional args are being deprecated, use kwargs instead.", FutureWarning, stacklevel=2)
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            changed = hook(self, destination, prefix, local)
            if not getattr(hook, "_from_public_api", False):
                destination = destination if changed is None else changed
            elif changed is not None:
                raise RuntimeError("state_dict post-hook must return None")
        return destination

    # --- reading --------------------------------------------------------------------------------------------------

    def _load_from_state_dict(
        self: Any, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Take this module's own entries out of a state dict."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, current in self._own_state():
            if current is None:
                continue
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            problem = _load_one(self, name, key, current, state_dict[key], assign)
            if problem:
                error_msgs.append(problem)
        self._load_extra(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            self._find_unexpected(state_dict, prefix, unexpected_keys)

    def _own_state(self: Any) -> list[tuple[str, Any]]:
        """Parameters and persistent buffers, without those of children."""
        kept = [(k, v) for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set]
        return [*self._parameters.items(), *kept]

    def _load_extra(
        self: Any, state_dict: Any, prefix: str, strict: bool, missing: list[str], unexpected: list[str]
    ) -> None:
        key = prefix + _EXTRA
        if type(self).set_extra_state is not StateMixin.set_extra_state:
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing.append(key)
        elif strict and key in state_dict:
            unexpected.append(key)

    def _find_unexpected(self: Any, state_dict: Any, prefix: str, unexpected: list[str]) -> None:
        known = {name for name, value in self._own_state() if value is not None}
        for key in state_dict:
            if key.startswith(prefix) and key != prefix + _EXTRA:
                first, _, rest = key[len(prefix) :].partition(".")
                if rest:
                    if first not in self._modules:
                        unexpected.append(key)
                elif first not in known:
                    unexpected.append(key)

    def load_state_dict(self: Any, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Take over a state dict; with `strict`, its keys must be exactly those of this module."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        own = OrderedDict(state_dict)
        if metadata is not None:
            own._metadata = metadata  # type: ignore[attr-defined]

        found = _IncompatibleKeys(missing, unexpected)
        _load_all(self, own, "", {} if metadata is None else metadata, assign, found, errors)
        if strict:
            if unexpected:
                errors.insert(
                    0, "Unexpected key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in unexpected))
                )
            if missing:
                errors.insert(0, "Missing key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in missing)))
        if errors:
            raise RuntimeError(
                "Error(s) in loading state_dict for {}:\n\t{}".format(type(self).__name__, "\n\t".join(errors))
            )
        return found

    # --- hooks ----------------------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self: Any, hook: Any) -> RemovableHandle:
        """`hook(module, prefix, keep_vars)` before this module's entries are written."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self: Any, hook: Any) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata)` after this module's entries were written."""
        hook._from_public_api = True
        return add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self: Any, hook: Any) -> RemovableHandle:
        """As `register_state_dict_post_hook`, but the hook may return another state dict."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return add_hook(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self: Any, hook: Any) -> RemovableHandle:
        """`hook(module, state_dict, prefix, …)` before this module's entries are read."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self: Any, hook: Any, with_module: bool = False) -> RemovableHandle:
        return add_hook(self._load_state_dict_pre_hooks, BoundHook(hook, self) if with_module else hook)

    def register_load_state_dict_post_hook(self: Any, hook: Any) -> RemovableHandle:
        """`hook(module, incompatible_keys)` after this module's entries were read."""
        return add_hook(self._load_state_dict_post_hooks, hook)


def _load_all(
    module: Any, state_dict: Any, prefix: str, metadata: Any, assign: bool, found: _IncompatibleKeys, errors: list[str]
) -> None:
    """Take the entries of a module and of all below it out of a state dict."""
    details = dict(metadata.get(prefix[:-1], {}))
    if assign:
        details["assign_to_params_buffers"] = True
    module._load_from_state_dict(state_dict, prefix, details, True, found.missing_keys, found.unexpected_keys, errors)
    for name, child in module._modules.items():
        if child is not None:
            path = f"{prefix}{name}."
            below = {k: v for k, v in state_dict.items() if k.startswith(path)}
            _load_all(child, below, path, metadata, assign, found, errors)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, found) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values, if "
                "incompatible_keys need to be modified, it should be done inplace."
            )


def _load_one(module: Any, name: str, key: str, current: Any, given: Any, assign: bool) -> str | None:
    """Copy one entry into its place; the text of what is wrong, or None."""
    if not (isinstance(given, Tensor) or hasattr(given, "__torch_function__")):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint '
            f"but received {type(given)}"
        )
    lazy = is_lazy(current)
    if not lazy and len(current.shape) == 0 and len(given.shape) == 1 and given.shape[0] == 1:
        given = given[0]  # saved by a version that had no 0-dim tensors
    if not lazy and given.shape != current.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, the shape in current "
            f"model is {current.shape}."
        )
    if current.is_meta and not given.is_meta and not assign:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, "
            "which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their "
            "corresponding key in the module instead of copying them in place?)",
            stacklevel=2,
        )
    swap = get_swap_module_params_on_conversion()
    try:
        with no_grad():
            if swap:
                swap_tensors(current, _as_kind_of(current, _new_content(current, given, assign)))
            elif assign:
                setattr(module, name, _as_kind_of(current, given))
            else:
                current.copy_(given)
    except Exception as error:
        return (
            f'While {"swapping" if swap else "copying"} the parameter named "{key}", whose dimensions in the model are '
            f"{current.size()} and whose "
            f"dimensions in the checkpoint are {given.size()}, an exception occurred : {error.args}."
        )
    return None


def _new_content(current: Any, given: Any, assign: bool) -> Any:
    """What `module_load` makes of an entry."""
    made = current.module_load(given, assign=assign)
    if made is given or made is current:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning one of the inputs in "
            "module_load"
        )
    return made


def _as_kind_of(current: Any, given: Any) -> Any:
    """A tensor that may take a registered one's place."""
    if not isinstance(current, Parameter):
        return given
    if isinstance(given, Parameter):
        return given.requires_grad_(current.requires_grad)
    return Parameter(given, requires_grad=current.requires_grad)
