"""Hooks of modules: around forward, around backward, and the global ones."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..._tensor import Tensor
from ...autograd.function import Function
from ...autograd.grad_mode import is_grad_enabled
from ...autograd.node import RemovableHandle, add_hook, target


class _Hooks(OrderedDict[int, Any]):
    """Hooks in order of registration; weakly referable by their handles."""


class _Global:
    """Hooks for every module."""

    def __init__(self) -> None:
        self.forward_pre = _Hooks()
        self.forward = _Hooks()
        self.forward_always = _Hooks()
        self.forward_kwargs = _Hooks()
        self.backward_pre = _Hooks()
        self.backward = _Hooks()
        self.backward_is_full: bool | None = None
        self.module_registration = _Hooks()
        self.parameter_registration = _Hooks()
        self.buffer_registration = _Hooks()

    @property
    def any_call(self) -> bool:
        return bool(self.forward_pre or self.forward or self.backward or self.backward_pre)


GLOBAL = _Global()


class HooksMixin:
    """The hook half of Module."""

    def _init_hooks(self) -> None:
        set_ = super().__setattr__
        set_("_backward_pre_hooks", _Hooks())
        set_("_backward_hooks", _Hooks())
        set_("_is_full_backward_hook", None)
        set_("_forward_hooks", _Hooks())
        set_("_forward_hooks_with_kwargs", _Hooks())
        set_("_forward_hooks_always_called", _Hooks())
        set_("_forward_pre_hooks", _Hooks())
        set_("_forward_pre_hooks_with_kwargs", _Hooks())

    @property
    def _has_call_hooks(self) -> bool:
        state = self.__dict__
        return bool(
            state["_forward_hooks"]
            or state["_forward_pre_hooks"]
            or state["_backward_hooks"]
            or state["_backward_pre_hooks"]
        )

    def register_forward_pre_hook(self: Any, hook: Any, *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """`hook(module, args)` before forward; may return other args."""
        handle = RemovableHandle(self._forward_pre_hooks, extra_dict=self._forward_pre_hooks_with_kwargs)
        self._forward_pre_hooks[handle.id] = hook
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        if prepend:
            self._forward_pre_hooks.move_to_end(handle.id, last=False)
        return handle

    def register_forward_hook(self: Any, hook: Any, *, prepend: bool = False, with_kwargs: bool = False,
                              always_call: bool = False) -> RemovableHandle:  # fmt: skip
        """`hook(module, args, output)` after forward; may return another output."""
        handle = RemovableHandle(
            self._forward_hooks, extra_dict=[self._forward_hooks_with_kwargs, self._forward_hooks_always_called]
        )
        self._forward_hooks[handle.id] = hook
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        if prepend:
            self._forward_hooks.move_to_end(handle.id, last=False)
        return handle

    def register_full_backward_pre_hook(self: Any, hook: Any, prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_output)` before the gradients of the inputs are computed."""
        handle = add_hook(self._backward_pre_hooks, hook)
        if prepend:
            self._backward_pre_hooks.move_to_end(handle.id, last=False)
        return handle

    def register_full_backward_hook(self: Any, hook: Any, prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` when the gradients of the inputs are known."""
        self._want_backward_hooks(True)
        handle = add_hook(self._backward_hooks, hook)
        if prepend:
            self._backward_hooks.move_to_end(handle.id, last=False)
        return handle

    def register_backward_hook(self: Any, hook: Any) -> RemovableHandle:
        """The old kind: sees the gradients of the last node of forward."""
        self._want_backward_hooks(False)
        return add_hook(self._backward_hooks, hook)

    def _want_backward_hooks(self: Any, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only one "
                "of them."
            )
        object.__setattr__(self, "_is_full_backward_hook", full)


def call(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Forward of a module with all its hooks; hooks that want to be called always are, also after an error."""
    done: set[int] = set()
    result = None
    try:
        args, kwargs = _before(module, args, kwargs)
        around = _BackwardHooks.of(module)
        if around is not None:
            args = around.watch_inputs(args)
        result = module.forward(*args, **kwargs)
        for key, hook in (*GLOBAL.forward.items(), *module._forward_hooks.items()):
            done.add(key)
            with_kwargs = key in module._forward_hooks_with_kwargs or key in GLOBAL.forward_kwargs
            changed = hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)
            result = result if changed is None else changed
        if around is not None:
            result = around.watch_outputs(result)
        _old_backward_hooks(module, result)
        return result
    except Exception:
        for key in (*GLOBAL.forward_always, *module._forward_hooks_always_called):
            if key not in done:
                hook = GLOBAL.forward.get(key) or module._forward_hooks[key]
                if key in module._forward_hooks_with_kwargs:
                    hook(module, args, kwargs, result)
                else:
                    hook(module, args, result)
        raise


def _before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    for key, hook in (*GLOBAL.forward_pre.items(), *module._forward_pre_hooks.items()):
        if key in module._forward_pre_hooks_with_kwargs:
            changed = hook(module, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                    )
                args, kwargs = changed
        else:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
    return args, kwargs


class _Passing(Function):
    """Hands tensors through; its node is where a module's gradients can be watched."""

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        ctx.set_materialize_grads(False)
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


_Passing._backward_cls.__name__ = "BackwardHookFunctionBackward"


class _BackwardHooks:
    """Full backward hooks of one call: gradients of the outputs are seen first, then those of the inputs."""

    def __init__(self, module: Any, hooks: list[Any], pre_hooks: list[Any]) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs: Any = None
        self.inputs_watched = False

    @classmethod
    def of(cls, module: Any) -> _BackwardHooks | None:
        """The hooks of a module that apply to this call, if any."""
        full = module._is_full_backward_hook is True
        hooks = list(GLOBAL.backward.values()) if GLOBAL.backward_is_full is True else []
        hooks += list(module._backward_hooks.values()) if full else []
        pre = [*GLOBAL.backward_pre.values(), *module._backward_pre_hooks.values()]
        return cls(module, hooks, pre) if (hooks or pre) and is_grad_enabled() else None

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        passed, node = _pass(args)
        if node is not None and self.hooks:
            self.inputs_watched = True
            count = len(args)
            positions = [i for i, a in enumerate(args) if isinstance(a, Tensor)]

            def at_inputs(grad_inputs: Any, _: Any) -> Any:
                full: list[Any] = [None] * count
                for i, g in zip(positions, grad_inputs, strict=True):
                    full[i] = g
                return self._run(tuple(full), positions, grad_inputs)

            node.register_hook(at_inputs)
        return passed

    def _run(self, grads: tuple[Any, ...], positions: list[int], original: Any) -> Any:
        changed_any = False
        for hook in self.hooks:
            changed = hook(self.module, grads, self.grad_outputs)
            if changed is not None:
                grads = changed if isinstance(changed, tuple) else (changed,)
                changed_any = True
        self.grad_outputs = None
        return tuple(grads[i] for i in positions) if changed_any else None

    def watch_outputs(self, result: Any) -> Any:
        single = isinstance(result, Tensor)
        outputs = (result,) if single else tuple(result) if isinstance(result, (tuple, list)) else ()
        passed, node = _pass(outputs)
        if node is None:
            return result

        def at_outputs(grad_outputs: Any) -> Any:
            for hook in self.pre_hooks:
                changed = hook(self.module, grad_outputs)
                if changed is not None:
                    grad_outputs = changed if isinstance(changed, tuple) else (changed,)
            self.grad_outputs = grad_outputs
            if not self.inputs_watched:
                for hook in self.hooks:
                    hook(self.module, (), grad_outputs)
            return grad_outputs

        node.register_prehook(at_outputs)
        return passed[0] if single else type(result)(passed)


def _pass(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    """Values with their tensors handed through one node, and that node (None if nothing requires grad)."""
    tensors = [v for v in values if isinstance(v, Tensor)]
    if not any(t.requires_grad for t in tensors):  # type: ignore[attr-defined]
        return values, None
    passed = iter(_Passing.apply(*tensors))
    merged = tuple(next(passed) if isinstance(v, Tensor) else v for v in values)
    node = next(target(t._ag) for t in merged if isinstance(t, Tensor) and t._ag is not None)
    return merged, node


def _old_backward_hooks(module: Any, result: Any) -> None:
    hooks = list(GLOBAL.backward.values()) if GLOBAL.backward_is_full is False else []
    hooks += list(module._backward_hooks.values()) if module._is_full_backward_hook is False else []
    if not hooks:
        return
    first = result
    while not isinstance(first, Tensor):
        first = next(v for v in first.values() if isinstance(v, Tensor)) if isinstance(first, dict) else first[0]
    node = first.grad_fn  # type: ignore[attr-defined]
    if node is not None:
        for hook in hooks:
            node.register_hook(functools.partial(hook, module))


def _register_global(hooks: _Hooks, hook: Any) -> RemovableHandle:
    return add_hook(hooks, hook)


def register_module_forward_pre_hook(hook: Any) -> RemovableHandle:
    """A pre-hook of forward for every module."""
    return _register_global(GLOBAL.forward_pre, hook)


def register_module_forward_hook(hook: Any, *, with_kwargs: bool = False, always_call: bool = False) -> RemovableHandle:
    """A hook after forward for every module."""
    handle = RemovableHandle(GLOBAL.forward, extra_dict=[GLOBAL.forward_kwargs, GLOBAL.forward_always])
    GLOBAL.forward[handle.id] = hook
    if with_kwargs:
        GLOBAL.forward_kwargs[handle.id] = True
    if always_call:
        GLOBAL.forward_always[handle.id] = True
    return handle


def register_module_full_backward_pre_hook(hook: Any) -> RemovableHandle:
    """A hook before backward for every module."""
    return _register_global(GLOBAL.backward_pre, hook)


def register_module_full_backward_hook(hook: Any) -> RemovableHandle:
    """A hook after backward for every module."""
    _want_global(True)
    return _register_global(GLOBAL.backward, hook)


def register_module_backward_hook(hook: Any) -> RemovableHandle:
    """The old kind of backward hook, for every module."""
    _want_global(False)
    return _register_global(GLOBAL.backward, hook)


def _want_global(full: bool) -> None:
    if GLOBAL.backward_is_full is (not full) and GLOBAL.backward:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
            "one of them."
        )
    GLOBAL.backward_is_full = full


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, submodule)` whenever a submodule is registered."""
    return _register_global(GLOBAL.module_registration, hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, param)` whenever a parameter is registered."""
    return _register_global(GLOBAL.parameter_registration, hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, buffer)` whenever a buffer is registered."""
    return _register_global(GLOBAL.buffer_registration, hook)

