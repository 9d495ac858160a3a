"""State dicts of modules: writing, reading, and the hooks around both."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from typing import Any

from ..._tensor import Tensor
from ...autograd.grad_mode import no_grad
from ...autograd.node import RemovableHandle, add_hook
from ..parameter import Parameter, is_lazy

_EXTRA = "_extra_state"


class _IncompatibleKeys(namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])):  # type: ignore[misc]
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
        set_ = super().__setattr__
        set_("_state_dict_hooks", OrderedDict())
        set_("_state_dict_pre_hooks", OrderedDict())
        set_("_load_state_dict_pre_hooks", OrderedDict())
        set_("_load_state_dict_post_hooks", OrderedDict())

    # --- writing --------------------------------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state: Any) -> None:
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

    def _load_from_state_dict(self: Any, state_dict: Any, prefix: str, local_metadata: Any, strict: bool,
                              missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str]) -> None:  # fmt: skip
        """Take this module's own entries out of a state dict."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        persistent = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        for name, current in {**self._parameters, **persistent}.items():
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

    def _load_extra(self: Any, state_dict: Any, prefix: str, strict: bool, missing: list[str], unexpected: list[str]) -> None:
        key = prefix + _EXTRA
        if type(self).set_extra_state is not StateMixin.set_extra_state:
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing.append(key)
        elif strict and key in state_dict:
            unexpected.append(key)

    def _find_unexpected(self: Any, state_dict: Any, prefix: str, unexpected: list[str]) -> None:
        known = {**self._parameters, **{k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}}
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

        def load(module: Any, local: Any, prefix: str) -> None:
            details = {} if metadata is None else dict(metadata.get(prefix[:-1], {}))
            if assign:
                details["assign_to_params_buffers"] = True
            module._load_from_state_dict(local, prefix, details, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    path = f"{prefix}{name}."
                    load(child, {k: v for k, v in local.items() if k.startswith(path)}, path)
            incompatible = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, incompatible) is not None:
                    raise RuntimeError("load_state_dict post-hook must return None; change missing/unexpected keys in place")

        load(self, own, "")
        if strict:
            if unexpected:
                errors.insert(0, "Unexpected key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in unexpected)))
            if missing:
                errors.insert(0, "Missing key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in missing)))
        if errors:
            raise RuntimeError(
                "Error(s) in loading state_dict for {}:\n\t{}".format(type(self).__name__, "\n\t".join(errors))
            )
        return _IncompatibleKeys(missing, unexpected)

    # --- hooks ----------------------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self: Any, hook: Any) -> RemovableHandle:
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self: Any, hook: Any) -> RemovableHandle:
        hook._from_public_api = True
        return add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self: Any, hook: Any) -> RemovableHandle:
        return add_hook(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self: Any, hook: Any) -> RemovableHandle:
        """`hook(module, state_dict, prefix, …)` before this module's entries are read."""
        return add_hook(self._load_state_dict_pre_hooks, lambda *args: hook(self, *args))

    def _register_load_state_dict_pre_hook(self: Any, hook: Any, with_module: bool = False) -> RemovableHandle:
        return add_hook(self._load_state_dict_pre_hooks, (lambda *args: hook(self, *args)) if with_module else hook)

    def register_load_state_dict_post_hook(self: Any, hook: Any) -> RemovableHandle:
        """`hook(module, incompatible_keys)` after this module's entries were read."""
        return add_hook(self._load_state_dict_post_hooks, hook)


def _load_one(module: Any, name: str, key: str, current: Any, given: Any, assign: bool) -> str | None:
    """Copy one entry into its place; the text of what is wrong, or None."""
    if not isinstance(given, Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint but '
            f"received {type(given)}"
        )
    lazy = is_lazy(current)
    if not lazy and len(current.shape) == 0 and len(given.shape) == 1 and given.numel() == 1:
        given = given[0]  # type: ignore[index]
    if not lazy and given.shape != current.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, the shape in current "
            f"model is {current.shape}."
        )
    if lazy and not is_lazy(given):
        with no_grad():
            current.materialize(given.shape)
    if assign:
        wanted = given
        if isinstance(current, Parameter) and not isinstance(given, Parameter):
            wanted = Parameter(given, requires_grad=current.requires_grad)  # type: ignore[call-arg]
        elif isinstance(current, Parameter):
            wanted.requires_grad_(current.requires_grad)  # type: ignore[attr-defined]
        setattr(module, name, wanted)
        return None
    with no_grad():
        current.copy_(given)
    return None
