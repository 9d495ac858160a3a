"""Hooks of modules: around forward, around backward, and those that hold for every module."""

from __future__ import annotations

import functools
import sys
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ...autograd.function import Function
from ...autograd.grad_mode import is_grad_enabled
from ...autograd.node import RemovableHandle, add_hook
from ...core.tensor import Tensor

Hooks = OrderedDict[int, Any]

# Hooks of every module are variables of this module, as in torch: programs read them there, and put others in their place.
_HOME = f"{__package__}.module"


def of_every(occasion: str) -> Any:
    """The hooks of every module for an occasion."""
    return getattr(sys.modules[_HOME], f"_global_{occasion}")


OWN = (
    "_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs",
)  # fmt: skip


class BoundHook:
    """A hook that is called with its module first. It does not keep the module alive, and follows it into copies."""

    def __init__(self, hook: Callable[..., Any], module: Any) -> None:
        functools.update_wrapper(self, hook)
        self.hook, self.module = hook, weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {"hook": self.hook, "module": self.module()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["module"] is None:
            raise RuntimeError("You are trying to revive the hook of a dead Module!")
        self.hook, self.module = state["hook"], weakref.ref(state["module"])


def registered(hooks: Hooks, module: Any, name: str, value: Any) -> Any:
    """What registration hooks make of a value."""
    for hook in hooks.values():
        replaced = hook(module, name, value)
        value = value if replaced is None else replaced
    return value


class HooksMixin:
    """The hook half of Module."""

    def _init_hooks(self) -> None:
        state = self.__dict__
        for name in OWN:
            state[name] = OrderedDict()
        state["_is_full_backward_hook"] = None

    def register_forward_pre_hook(
        self: Any, hook: Any, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """`hook(module, args)` before forward; may return other args."""
        handle = RemovableHandle(self._forward_pre_hooks, extra_dict=self._forward_pre_hooks_with_kwargs)
        _put(self._forward_pre_hooks, handle, hook, prepend)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(self: Any, hook: Any, *, prepend: bool = False, with_kwargs: bool = False,
                              always_call: bool = False) -> RemovableHandle:  # fmt: skip
        """`hook(module, args, output)` after forward; may return another output."""
        handle = RemovableHandle(
            self._forward_hooks, extra_dict=[self._forward_hooks_with_kwargs, self._forward_hooks_always_called]
        )
        _put(self._forward_hooks, handle, hook, prepend)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_pre_hook(self: Any, hook: Any, prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_output)` before the gradients of the inputs are computed."""
        handle = RemovableHandle(self._backward_pre_hooks)
        return _put(self._backward_pre_hooks, handle, hook, prepend)

    def register_full_backward_hook(self: Any, hook: Any, prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` when the gradients of the inputs are known."""
        self._want_backward_hooks(True)
        return _put(self._backward_hooks, RemovableHandle(self._backward_hooks), hook, prepend)

    def register_backward_hook(self: Any, hook: Any) -> RemovableHandle:
        """The old kind: sees the gradients of the last node of forward."""
        self._want_backward_hooks(False)
        return add_hook(self._backward_hooks, hook)

    def _want_backward_hooks(self: Any, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                "one of them."
            )
        self._is_full_backward_hook = full


def _put(hooks: Hooks, handle: RemovableHandle, hook: Any, prepend: bool) -> RemovableHandle:
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


# --- a call with hooks ------------------------------------------------------------------------------------------------


class _Call:
    """One call of a module with its hooks; keeps what has become of arguments and result when something fails."""

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        self.result: Any = None
        self.done: set[int] = set()

    def run(self) -> Any:
        module = self.module
        full, old = _backward_hooks(module)
        pre = [*of_every("backward_pre_hooks").values(), *module._backward_pre_hooks.values()]
        self._before()
        around = _BackwardHooks(module, full, pre) if full or pre else None
        if around is not None:
            self.args = around.watch_inputs(self.args)
        self.result = module.forward(*self.args, **self.kwargs)
        for key, hook in (*of_every("forward_hooks").items(), *module._forward_hooks.items()):
            self.done.add(key)
            self._after(key, hook)
        if around is not None:
            self.result = around.watch_outputs(self.result)
        if old:
            _old_backward_hooks(module, old, self.args, self.result)
        return self.result

    def _before(self) -> None:
        module = self.module
        for key, hook in (*of_every("forward_pre_hooks").items(), *module._forward_pre_hooks.items()):
            if key not in module._forward_pre_hooks_with_kwargs:
                changed = hook(module, self.args)
                if changed is not None:
                    self.args = changed if isinstance(changed, tuple) else (changed,)
                continue
            changed = hook(module, self.args, self.kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                )
            self.args, self.kwargs = changed

    def _after(self, key: int, hook: Any) -> None:
        if key in self.module._forward_hooks_with_kwargs or key in of_every("forward_hooks_with_kwargs"):
            changed = hook(self.module, self.args, self.kwargs, self.result)
        else:
            changed = hook(self.module, self.args, self.result)
        self.result = self.result if changed is None else changed

    def failed(self) -> None:
        """Call the hooks that want to be called always and were not yet; their own errors become warnings."""
        every = of_every("forward_hooks")
        always = [("global module", k, every[k]) for k in of_every("forward_hooks_always_called") if k in every]
        own = self.module._forward_hooks
        always += [("module", k, own[k]) for k in self.module._forward_hooks_always_called if k in own]
        for kind, key, hook in always:
            if key in self.done:
                continue
            try:
                self._after(key, hook)
            except Exception as error:
                warnings.warn(
                    f"{kind} forward hook with ``always_call=True`` raised an exception that was silenced as another "
                    f"error was raised in forward: {error}",
                    stacklevel=4,
                )


def call(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Forward of a module with all its hooks."""
    one = _Call(module, args, kwargs)
    try:
        return one.run()
    except Exception:
        one.failed()
        raise


def _backward_hooks(module: Any) -> tuple[list[Any], list[Any]]:
    """The full and the old backward hooks that apply to a module."""
    full: list[Any] = []
    old: list[Any] = []
    if every := of_every("backward_hooks"):
        (full if of_every("is_full_backward_hook") else old).extend(every.values())
    if module._backward_hooks:
        (full if module._is_full_backward_hook else old).extend(module._backward_hooks.values())
    return full, old


# --- full backward hooks ----------------------------------------------------------------------------------------------


class BackwardHookFunction(Function):
    """Hands tensors through; its node is where a module's gradients can be watched."""

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        ctx.mark_non_differentiable(*(t for t in tensors if not t.requires_grad))
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


def _spread(positions: list[int], values: Any, size: int) -> tuple[Any, ...]:
    """Values at their positions, None elsewhere."""
    found: list[Any] = [None] * size
    for position, value in zip(positions, values, strict=True):
        found[position] = value
    return tuple(found)


class _BackwardHooks:
    """Full backward hooks of one call: gradients of the outputs are seen first, then those of the inputs."""

    def __init__(self, module: Any, hooks: list[Any], pre_hooks: list[Any]) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.count = 0
        self.inputs: list[int] | None = None  # positions of watched inputs; None if none requires grad

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        passed, self.inputs, node = _pass(args)
        self.count = len(args)
        if node is not None:
            node.register_hook(self._at_inputs)
        return passed

    def watch_outputs(self, result: Any) -> Any:
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(result)}",
                stacklevel=5,
            )
        outputs = result if isinstance(result, tuple) else (result,)
        passed, positions, node = _pass(outputs)
        if node is not None:
            node.register_hook(lambda _, grads: self._at_outputs(positions, grads, len(outputs)))
        return passed if isinstance(result, tuple) else passed[0]

    def _at_inputs(self, grad_inputs: Any, _: Any) -> Any:
        if self.grad_outputs is None or self.inputs is None:
            return None
        grads = _spread(self.inputs, grad_inputs, self.count)
        for hook in self.hooks:
            changed = hook(self.module, grads, self.grad_outputs)
            if changed is None:
                continue
            if len(changed) != len(grads):
                raise RuntimeError(
                    f"Backward hook returned an invalid number of grad_input, got {len(changed)}, but expected "
                    f"{len(grads)}"
                )
            grads = changed
        self.grad_outputs = None
        return tuple(grads[i] for i in self.inputs)

    def _at_outputs(self, positions: Any, grad_outputs: Any, count: int) -> Any:
        grads = _spread(positions, grad_outputs, count)
        for hook in self.pre_hooks:
            changed = hook(self.module, grads)
            if changed is None:
                continue
            if len(changed) != len(grads):
                raise RuntimeError(
                    f"Backward pre hook returned an invalid number of grad_output, got {len(changed)}, but expected "
                    f"{len(grads)}"
                )
            grads = changed
        self.grad_outputs = grads
        if self.inputs is None:
            self._without_inputs(grads)
        return tuple(grads[i] for i in positions)

    def _without_inputs(self, grads: tuple[Any, ...]) -> None:
        """No input requires grad: hooks fire when the gradients of the outputs arrive."""
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
            "require gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
            "#torch.nn.Module.register_full_backward_hook for more details.",
            stacklevel=5,
        )
        for hook in self.hooks:
            changed = hook(self.module, (None,) * self.count, grads)
            if changed is not None and not (isinstance(changed, tuple) and all(c is None for c in changed)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    "all gradients."
                )
        self.grad_outputs = None


def _pass(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[int] | None, Any]:
    """Values with their tensors handed through one node, the tensors' positions, and that node; Nones if nothing
    requires grad."""
    positions = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
    if not (is_grad_enabled() and any(values[i].requires_grad for i in positions)):
        return values, None, None
    passed = BackwardHookFunction.apply(*(values[i] for i in positions))
    node = next(t.grad_fn for t in passed if t.grad_fn is not None)
    merged = list(values)
    for i, tensor in zip(positions, passed, strict=True):
        merged[i] = tensor
    return (tuple(merged) if type(values) is tuple else type(values)(*merged)), positions, node


# --- old backward hooks -----------------------------------------------------------------------------------------------


def _old_backward_hooks(module: Any, hooks: list[Any], args: tuple[Any, ...], result: Any) -> None:
    first = result
    while not isinstance(first, Tensor):
        first = next(v for v in first.values() if isinstance(v, Tensor)) if isinstance(first, dict) else first[0]
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(BoundHook(hook, module))
    what = _what_is_missed(args, result, node)
    if what:
        warnings.warn(f"Using {what}", FutureWarning, stacklevel=5)


def _what_is_missed(args: tuple[Any, ...], result: Any, node: Any) -> str | None:
    """Why an old hook does not see everything, if it does not."""
    gone = "is deprecated and will be removed in future versions. This hook will be missing some"
    remedy = "Please use register_full_backward_hook to get the documented behavior."
    outputs = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(r, Tensor) for r in outputs):
        return (
            "non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors "
            f"{gone.replace(' some', ' some of the')} grad_output. {remedy}"
        )
    if not all(isinstance(a, Tensor) for a in args):
        return (
            "non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of Tensors "
            f"{gone.replace(' some', ' some of the')} grad_input. {remedy}"
        )
    nodes = {r.grad_fn for r in outputs if r.grad_fn is not None}
    if not nodes or (len(nodes) == 1 and node not in nodes):
        return f"a non-full backward hook when outputs are nested in python data structure {gone} grad_output."
    if len(nodes) > 1:
        how = "outputs are generated by different autograd Nodes"
        return f"a non-full backward hook when {how} {gone} grad_output. {remedy}"
    if {a.grad_fn for a in args if a.grad_fn is not None} != {n for n, _ in node.next_functions}:
        return f"a non-full backward hook when the forward contains multiple autograd Nodes {gone} grad_input. {remedy}"
    return None


# --- hooks of every module --------------------------------------------------------------------------------------------


def register_module_forward_pre_hook(hook: Any) -> RemovableHandle:
    """A pre-hook of forward for every module."""
    return add_hook(of_every("forward_pre_hooks"), hook)


def register_module_forward_hook(hook: Any, *, with_kwargs: bool = False, always_call: bool = False) -> RemovableHandle:
    """A hook after forward for every module."""
    wants_kwargs, is_always_called = of_every("forward_hooks_with_kwargs"), of_every("forward_hooks_always_called")
    handle = RemovableHandle(of_every("forward_hooks"), extra_dict=[wants_kwargs, is_always_called])
    of_every("forward_hooks")[handle.id] = hook
    if with_kwargs:
        wants_kwargs[handle.id] = True
    if always_call:
        is_always_called[handle.id] = True
    return handle


def register_module_full_backward_pre_hook(hook: Any) -> RemovableHandle:
    """A hook before backward for every module."""
    return add_hook(of_every("backward_pre_hooks"), hook)


def register_module_full_backward_hook(hook: Any) -> RemovableHandle:
    """A hook after backward for every module."""
    _want_global(True)
    return add_hook(of_every("backward_hooks"), hook)


def register_module_backward_hook(hook: Any) -> RemovableHandle:
    """The old kind of backward hook, for every module."""
    _want_global(False)
    return add_hook(of_every("backward_hooks"), hook)


def _want_global(full: bool) -> None:
    if of_every("is_full_backward_hook") is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
            "one of them."
        )
    sys.modules[_HOME]._global_is_full_backward_hook = full  # type: ignore[attr-defined]


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, submodule)` whenever a submodule is registered."""
    return add_hook(of_every("module_registration_hooks"), hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, param)` whenever a parameter is registered."""
    return add_hook(of_every("parameter_registration_hooks"), hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, buffer)` whenever a buffer is registered."""
    return add_hook(of_every("buffer_registration_hooks"), hook)
