"""The base of all optimizers: parameter groups, state, hooks, and the events a profiler sees."""

from __future__ import annotations

import functools
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from ..autograd import grad_mode
from ..autograd.node import RemovableHandle, add_hook
from ..core import step_hooks, tap
from ..core.tensor import Tensor
from .foreach import TensorLists


class _Required:
    """Marks a parameter group option that must be given."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer:
    """Holds parameters in groups and changes them by their gradients; subclasses write `_update(group)`."""

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self._prepare_hooks()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{params.type()}"
            )
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(dict(group))
        self._warned_step_order = True
        step_hooks.announce(self, False)

    def _prepare_hooks(self) -> None:
        self._optimizer_step_pre_hooks: dict[int, Any] = {}
        self._optimizer_step_post_hooks: dict[int, Any] = {}
        self._optimizer_state_dict_pre_hooks: dict[int, Any] = {}
        self._optimizer_state_dict_post_hooks: dict[int, Any] = {}
        self._optimizer_load_state_dict_pre_hooks: dict[int, Any] = {}
        self._optimizer_load_state_dict_post_hooks: dict[int, Any] = {}
        self._name_events()

    def _name_events(self) -> None:
        name = type(self).__name__
        self._step_event = f"Optimizer.step#{name}.step"
        self._zero_grad_event = f"Optimizer.zero_grad#{name}.zero_grad"

    # Every subclass's `step` becomes an event and runs the hooks, however it was written.
    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__ and not getattr(cls.__dict__["step"], "hooked", False):
            cls.step = cls.profile_hook_step(cls.__dict__["step"])  # type: ignore[method-assign]

    @staticmethod
    def profile_hook_step(function: Any) -> Any:
        """`step` as a region of its own, between the step hooks."""

        @functools.wraps(function)
        def step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
            if self.__dict__.get("_stepping"):  # an overriding step that calls the one it overrides
                return function(self, *args, **kwargs)
            self.__dict__["_stepping"] = True
            try:
                result = around(self, args, kwargs)
            finally:
                del self.__dict__["_stepping"]
            if step_hooks.LISTENERS:
                step_hooks.announce(self, True)
            return result

        def around(self: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            hooks = _global_pre_hooks or _global_post_hooks
            if "_optimizer_step_pre_hooks" not in self.__dict__:  # one that wraps another and was never set up itself
                return function(self, *args, **kwargs)
            if not (hooks or self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks or tap.SLOT.recorder):
                return function(self, *args, **kwargs)
            event = tap.event_id(self._step_event, tap.USER_SCOPE, True) if tap.SLOT.recorder is not None else 0
            with tap.region(event):
                for hook in chain(_global_pre_hooks.values(), self._optimizer_step_pre_hooks.values()):
                    changed = hook(self, args, kwargs)
                    if changed is not None:
                        if not isinstance(changed, tuple) or len(changed) != 2:
                            raise RuntimeError(
                                f"{function} must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                            )
                        args, kwargs = changed
                result = function(self, *args, **kwargs)
                for hook in chain(self._optimizer_step_post_hooks.values(), _global_post_hooks.values()):
                    hook(self, args, kwargs)
            return result

        step.hooked = True  # type: ignore[attr-defined]
        return step

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters once. A closure computes the loss again first."""
        loss = None
        if closure is not None:
            with grad_mode.enable_grad():
                loss = closure()
        tap.call_untraced(grad_mode.within, bool(self.defaults.get("differentiable")), self._update_all)
        return loss

    def _update_all(self) -> None:
        for group in self.param_groups:
            self._update(group)

    def _update(self, group: dict[str, Any]) -> None:
        raise NotImplementedError(f"{type(self).__name__} writes neither step() nor _update()")

    def _step_sparse(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Move a parameter by a sparse gradient, where the optimizer can."""
        raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients (or fill them with zeros)."""
        if "_zero_grad_event" not in self.__dict__:
            self._prepare_hooks()
        event = tap.event_id(self._zero_grad_event, tap.USER_SCOPE, True) if tap.SLOT.recorder is not None else 0
        with tap.region(event):
            traced = tap.SLOT.flags & tap.STACKS
            if traced:
                tap.suspend_tracing()
            try:
                for group in self.param_groups:
                    for p in group["params"]:
                        if p.grad is None:
                            continue
                        if set_to_none:
                            p.grad = None
                            continue
                        if p.grad.grad_fn is not None:
                            p.grad.detach_()
                        else:
                            p.grad.requires_grad_(False)
                        p.grad.zero_()
            finally:
                if traced:
                    tap.resume_tracing()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take in another group of parameters, with options of its own."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, Tensor):
            param_group["params"] = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
                "will change between runs. Please use a list instead."
            )
        else:
            param_group["params"] = list(params)
        self._take_names(param_group)
        for p in param_group["params"]:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not (self.defaults.get("differentiable") or p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        params = param_group["params"]
        if len(params) != len({id(p) for p in params}):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=3,
            )
        known = {id(p) for group in self.param_groups for p in group["params"]}
        if any(id(p) in known for p in params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    @staticmethod
    def _take_names(param_group: dict[str, Any]) -> None:
        """Parameters given as (name, tensor) pairs."""
        params = param_group["params"]
        if params and all(isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in params):
            param_group["param_names"] = [name for name, _ in params]
            param_group["params"] = [p for _, p in params]

    # --- state dicts ----------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """State by position of the parameters, and the groups with positions in place of tensors."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        positions: dict[int, int] = {}

        def packed(group: dict[str, Any]) -> dict[str, Any]:
            for p in group["params"]:
                positions.setdefault(id(p), len(positions))
            rest = {k: v for k, v in group.items() if k != "params"}
            return {**rest, "params": [positions[id(p)] for p in group["params"]]}

        groups = [packed(group) for group in self.param_groups]
        state = {(positions[id(k)] if isinstance(k, Tensor) else k): v for k, v in self.state.items()}
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the state and options of another optimizer on the same parameters."""
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        saved = deepcopy(state_dict["param_groups"])
        if len(self.param_groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(self.param_groups, saved, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        ids = chain.from_iterable(group["params"] for group in saved)
        params = chain.from_iterable(group["params"] for group in self.param_groups)
        by_id = dict(zip(ids, params, strict=True))
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            param = by_id.get(key)
            state[key if param is None else param] = value if param is None else _adopted(param, value)
        for old, new_group in zip(self.param_groups, saved, strict=True):
            new_group["params"] = old["params"]
            for name, value in old.items():
                new_group.setdefault(name, value)
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            self._prepare_hooks()
        self._name_events()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = [type(self).__name__ + " ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines.extend(f"    {key}: {group[key]}" for key in sorted(group) if key != "params")
        return "\n".join([*lines, ")"])

    # --- hooks ----------------------------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Any) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` before each step."""
        return add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Any) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` after each step."""
        return add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        return _add_in_order(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        return _add_in_order(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        return _add_in_order(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        return _add_in_order(self._optimizer_load_state_dict_post_hooks, hook, prepend)


Optimizer.step = Optimizer.profile_hook_step(Optimizer.step)  # type: ignore[method-assign]

_global_pre_hooks: dict[int, Any] = {}
_global_post_hooks: dict[int, Any] = {}


def register_optimizer_step_pre_hook(hook: Any) -> RemovableHandle:
    """A hook before each step of every optimizer."""
    return add_hook(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Any) -> RemovableHandle:
    """A hook after each step of every optimizer."""
    return add_hook(_global_post_hooks, hook)


def _add_in_order(hooks: dict[int, Any], hook: Any, prepend: bool) -> RemovableHandle:
    handle = add_hook(hooks, hook)
    if prepend:
        rest = {k: v for k, v in hooks.items() if k != handle.id}
        mine = hooks[handle.id]
        hooks.clear()
        hooks[handle.id] = mine
        hooks.update(rest)
    return handle


def _adopted(param: Tensor, value: Any, key: str = "") -> Any:
    """State from a state dict in the dtype of its parameter (step counters stay as they are)."""
    if isinstance(value, Tensor):
        if key == "step" or not param.is_floating_point():
            return value.clone()
        return value.to(param.dtype).clone()
    if isinstance(value, dict):
        return {k: _adopted(param, v, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_adopted(param, v, key) for v in value)
    return value


def with_gradients(optimizer: Optimizer, group: dict[str, Any]) -> list[Any]:
    """The parameters of a group that have a dense gradient. Those with a sparse one are moved by the optimizer's
    `_step_sparse`, each for itself."""
    found: list[Any] = []
    sparse: list[Any] = []
    for p in group["params"]:
        gradient = p.grad
        if gradient is None:
            continue
        if type(gradient) is Tensor or not gradient.is_sparse:
            found.append(p)
        else:
            sparse.append(p)
    for p in sparse:
        optimizer._step_sparse(p, p.grad.neg() if group.get("maximize") else p.grad, optimizer.state[p], group)
    return found


def gradients(params: list[Any], group: dict[str, Any]) -> list[Any]:
    """Their gradients, turned round where the group climbs."""
    grads = [p.grad for p in params]
    if not group.get("maximize"):
        return grads
    return TensorLists(grads).neg().tensors if group.get("foreach") and grads else [g.neg() for g in grads]


def check_options(**ranges: tuple[Any, Callable[[Any], bool]]) -> None:
    """ValueError for an option outside its range."""
    for name, (value, fits) in ranges.items():
        number = value.item() if isinstance(value, Tensor) else value
        if not fits(number):
            raise ValueError(f"Invalid {name.replace('_', ' ')}: {value}")


def check_fused(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """RuntimeError for what a fused step cannot be as well."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def number(value: Any) -> Any:
    """An option as a Python number (lr may be a 0-dim tensor)."""
    return value.item() if isinstance(value, Tensor) else value


def is_asked(value: Any) -> bool:
    """Whether a step is to be differentiable with respect to an option."""
    return isinstance(value, Tensor) and value.requires_grad and grad_mode.is_grad_enabled()


def setting(value: Any) -> Any:
    """An option as a number; as the tensor it is where the step is to be differentiable with respect to it."""
    return value if is_asked(value) else number(value)


def fixed(value: Any) -> Any:
    """An option as a number, where the update knows no gradient with respect to it."""
    if is_asked(value):
        raise TypeError(
            "the options of this update must be Number, not Tensor, where they require grad: it cannot be differentiated "
            "with respect to them. SGD and Adam can by lr and weight_decay, Adam by betas too; or give option.detach()"
        )
    return number(value)


ParamsT = Iterable[Any]
