"""torch.utils.checkpoint: compute parts of a model again in backward instead of keeping their activations."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

from .._tensor import Tensor
from ..autograd.engine import is_whole
from ..autograd.entry import backward as _backward
from ..autograd.function import Function
from ..autograd.grad_mode import enable_grad, is_grad_enabled
from ..autograd.graph import saved_tensors_hooks
from ..ops.random import get_rng_state, set_rng_state


def detach_variable(inputs: Any) -> tuple[Any, ...]:
    """Inputs cut from their graph, requiring grad where they did."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    made = []
    for x in inputs:
        if isinstance(x, Tensor):
            made.append(x.detach().requires_grad_(x.requires_grad))
        else:
            made.append(x)
    return tuple(made)


def check_backward_validity(inputs: Any) -> None:
    """Warn where nothing that goes in requires grad."""
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=3)


def noop_context_fn() -> tuple[Any, Any]:
    """Contexts of forward and of its repetition that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Any:
    """Whether repetition ends with the last tensor that is needed; here it always runs to its end."""
    yield


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Any:
    """Whether a difference between forward and its repetition is explained at length; it is explained in short."""
    yield


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """The devices other than the CPU that arguments live on, and their random states: none."""
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """There is no such state to put back."""


@contextlib.contextmanager
def _restored_rng(state: Any) -> Any:
    """Random numbers as they were in forward, and afterwards as before."""
    if state is None:
        yield
        return
    before = get_rng_state()
    set_rng_state(state)
    try:
        yield
    finally:
        set_rng_state(before)


class CheckpointFunction(Function):
    """The re-entrant kind: backward runs the function again and a backward pass of its own inside."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        ctx.run_function = run_function
        ctx.rng_state = get_rng_state() if preserve_rng_state else None
        ctx.inputs = [None if isinstance(a, Tensor) else a for a in args]
        ctx.tensor_indices = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*(a for a in args if isinstance(a, Tensor)))
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if not is_whole():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        inputs = list(ctx.inputs)
        for i, t in zip(ctx.tensor_indices, ctx.saved_tensors, strict=True):
            inputs[i] = t
        detached = detach_variable(tuple(inputs))
        with _restored_rng(ctx.rng_state), enable_grad():
            outputs = ctx.run_function(*detached)
        results = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
        pairs = [(o, g) for o, g in zip(results, grads, strict=True) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        _backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *(x.grad if isinstance(x, Tensor) else None for x in detached))


class CheckpointError(RuntimeError):
    """Forward gave something else when it was run again."""


class _Frame:
    """One checkpointed call: what backward asks for is found by running the function again, once."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self.run = run
        self.count = 0
        self.found: list[Any] | None = None

    def pack(self, tensor: Tensor) -> int:
        self.count += 1
        return self.count - 1

    def unpack(self, position: int) -> Any:
        if self.found is None:
            found: list[Any] = []
            with enable_grad(), saved_tensors_hooks(lambda t: found.append(t.detach()) or t.detach(), lambda t: t):  # type: ignore[func-returns-value]
                self.run()
            if len(found) != self.count:
                raise CheckpointError(
                    "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                    f"recomputation. Number of tensors saved during forward: {self.count}. Number of tensors saved during "
                    f"recomputation: {len(found)}."
                )
            self.found = found
        value = self.found[position]
        return value


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    preserve_rng_state: bool = True,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Call a function without keeping what its backward needs; that is computed again when it is needed."""
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in PyTorch 2.9, "
            "calling checkpoint without use_reentrant will raise an exception. use_reentrant=False is recommended.",
            stacklevel=2,
        )
        use_reentrant = True
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if is_grad_enabled() and not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if not is_grad_enabled():
        return function(*args, **kwargs)
    state = get_rng_state() if preserve_rng_state else None
    forward_context, again_context = (
        context_fn() if context_fn is not None else (contextlib.nullcontext(), contextlib.nullcontext())
    )

    def again() -> Any:
        with _restored_rng(state), again_context:
            return function(*args, **kwargs)

    frame = _Frame(again)
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, preserve_rng_state: bool = True
) -> Any:
    """A sequence of modules, checkpointed in segments."""
    if use_reentrant is None:
        use_reentrant = True
    parts = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def run(start: int, end: int) -> Callable[[Any], Any]:
        def forward(x: Any) -> Any:
            for part in parts[start : end + 1]:
                x = part(x)
            return x

        return forward

    size = len(parts) // segments
    end = -1
    for start in range(0, size * (segments - 1), size):
        end = start + size - 1
        input = checkpoint(run(start, end), input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state)
    return run(end + 1, len(parts) - 1)(input)
