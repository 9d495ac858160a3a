"""torch.utils.checkpoint: compute parts of a model again in backward instead of keeping their activations."""

from __future__ import annotations

import contextlib
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from ..amp.autocast_mode import autocast, get_autocast_dtype, is_autocast_cache_enabled, is_autocast_enabled
from ..autograd.engine import is_whole
from ..autograd.entry import backward as _backward
from ..autograd.function import Function
from ..autograd.grad_mode import enable_grad, is_grad_enabled
from ..autograd.graph import saved_tensors_hooks
from ..core.tensor import Tensor
from ..ops.creation.seeds import get_rng_state, set_rng_state


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


# What `with` blocks say in place of the arguments of the same name, if they say anything.
_early_stop: ContextVar[bool | None] = ContextVar("_early_stop", default=None)
_debug: ContextVar[bool | None] = ContextVar("_debug", default=None)


@contextlib.contextmanager
def _chosen(choice: ContextVar[bool | None], value: bool | None) -> Iterator[None]:
    token = choice.set(value)
    try:
        yield
    finally:
        choice.reset(token)


def set_checkpoint_early_stop(enable: bool) -> Any:
    """For the calls of checkpoint inside: whether repetition ends with the last tensor that is needed."""
    return _chosen(_early_stop, enable)


def set_checkpoint_debug_enabled(enabled: bool | None) -> Any:
    """For the calls of checkpoint inside: whether a difference between forward and its repetition is shown at length."""
    return _chosen(_debug, enabled)


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


def _autocast_as_here() -> Callable[[], autocast]:
    """Makes contexts in which autocast is what it is now."""
    dtype, enabled, caching = get_autocast_dtype("cpu"), is_autocast_enabled("cpu"), is_autocast_cache_enabled()
    return lambda: autocast("cpu", dtype, enabled, caching)


class CheckpointFunction(Function):
    """The re-entrant kind: backward runs the function again and a backward pass of its own inside."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        ctx.run_function = run_function
        ctx.rng_state = get_rng_state() if preserve_rng_state else None
        ctx.autocast = _autocast_as_here()
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
        with _restored_rng(ctx.rng_state), enable_grad(), ctx.autocast():
            outputs = ctx.run_function(*detached)
        results = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
        pairs = [(o, g) for o, g in zip(results, grads, strict=True) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        _backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *(x.grad if isinstance(x, Tensor) else None for x in detached))


class CheckpointError(RuntimeError):
    """Forward gave something else when it was run again."""


class _Stop(Exception):
    """All that backward needs is there again."""


_METADATA = ("shape", "dtype", "device")
_CHECKS: dict[str, Callable[[Any], Any]] = {
    "default": lambda tensor: {name: getattr(tensor, name) for name in _METADATA},
    "none": lambda tensor: None,
}


class _Frame:
    """One checkpointed call: what backward asks for is found by running the function again."""

    def __init__(self, run: Callable[[], Any], describe: Callable[[Any], Any], early_stop: bool, debug: bool) -> None:
        self.run = run
        self.describe = describe
        self.early_stop = early_stop
        self.debug = debug
        self.saved: list[Any] = []  # of each tensor what is compared
        self.places: list[str] = []  # in debug mode, where it was saved
        self.found: dict[int, Any] = {}

    def pack(self, tensor: Tensor) -> int:
        self.saved.append(self.describe(tensor))
        if self.debug:
            self.places.append(_place(tensor))
        return len(self.saved) - 1

    def unpack(self, position: int) -> Any:
        if position not in self.found:
            self.repeat()
        # It is not kept: memory is what all this is for. A second pass through the graph repeats it once more.
        return self.found.pop(position)

    def repeat(self) -> None:
        again: list[Any] = []
        places: list[str] = []

        def keep(tensor: Any) -> Any:
            if len(again) == len(self.saved):
                if self.early_stop:
                    raise _Stop
                raise self.error(
                    "trying to save more tensors during recomputation than during the original forward pass."
                )
            again.append(tensor.detach())
            if self.debug:
                places.append(_place(tensor))
            if self.early_stop and len(again) == len(self.saved):
                raise _Stop
            return again[-1]

        with contextlib.suppress(_Stop), enable_grad(), saved_tensors_hooks(keep, lambda t: t):
            self.run()
        if len(again) != len(self.saved):
            raise self.error(
                "A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.saved)}\n"
                f"Number of tensors saved during recomputation: {len(again)}.",
                places,
            )
        self.compare([self.describe(t) for t in again], places)
        self.found = dict(enumerate(again))

    def compare(self, again: list[Any], places: list[str]) -> None:
        wrong = [
            f"tensor at position {position}:\nsaved metadata: {then}\nrecomputed metadata: {now}\n"
            for position, (then, now) in enumerate(zip(self.saved, again, strict=True))
            if then != now
        ]
        if wrong:
            raise self.error(
                "Recomputed values for the following tensors have different metadata than during the forward pass.\n"
                + "".join(wrong),
                places,
            )

    def error(self, text: str, places: list[str] | None = None) -> CheckpointError:
        if not self.debug:
            tip = "Tip: pass `debug=True` to checkpoint() to see where the tensors were saved."
            return CheckpointError(f"torch.utils.checkpoint: {text}\n\n{tip}")
        then, now = ("\n".join(found) or "(none)" for found in (self.places, places or []))
        return CheckpointError(
            f"torch.utils.checkpoint: {text}\n\nSaved in the original forward, each with its calls, the last one first:\n"
            f"{then}\n\nSaved in the recomputation:\n{now}\n"
        )


def _place(tensor: Any) -> str:
    """What is saved, and the lines of the user's that led there."""
    calls = (f for f in reversed(traceback.extract_stack()) if not f.filename.startswith(_PACKAGE))
    where = "".join(f"\n    {f.filename}:{f.lineno} {f.name}: {f.line}" for f in calls)
    return f"  {tensor.dtype} {list(tensor.shape)}{where}"


_PACKAGE = str(Path(__file__).parents[1])


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
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
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if not is_grad_enabled():
        return function(*args, **kwargs)
    stop_asked, debug_asked = _early_stop.get(), _debug.get()
    debug = debug if debug_asked is None else debug_asked
    if debug and context_fn is not noop_context_fn:
        raise ValueError("debug=True is incompatible with non-default context_fn")
    if determinism_check not in _CHECKS:
        raise ValueError(f"determinism_check should be one of {list(_CHECKS)}, but got {determinism_check}")
    state = get_rng_state() if preserve_rng_state else None
    as_here = _autocast_as_here()
    forward_context, again_context = context_fn()

    def again() -> Any:
        with _restored_rng(state), as_here(), again_context:
            return function(*args, **kwargs)

    frame = _Frame(again, _CHECKS[determinism_check], early_stop if stop_asked is None else stop_asked, debug)
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
