"""Ways to watch a program, and what is compared between a run that is watched and one that is not: everything that the
program can see, to the bit. A case is a function without arguments that gives what it has computed; `watched_cases` has
them for all ops, layers and optimizers."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import mindtorch_v2 as torch
from mindtorch_v2.overrides import TorchFunctionMode
from mindtorch_v2.profiler import ExecutionTraceObserver, profile

# Random arguments may make results of a gigabyte, whose gradients take minutes.
MOST_DIFFERENTIATED = 1 << 21

Case = Callable[[], Any]
Seen = tuple[Any, ...]


class Passing(TorchFunctionMode):
    """Sees every function and only calls it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _traced() -> Iterator[None]:
    """While an execution trace is written, with the inputs and outputs of every op."""
    with TemporaryDirectory() as folder:
        observer = ExecutionTraceObserver().register_callback(str(Path(folder) / "trace.json"))
        with profile(execution_trace_observer=observer):
            yield


@contextlib.contextmanager
def _all_at_once() -> Iterator[None]:
    with profile(record_shapes=True, profile_memory=True, with_stack=True, with_modules=True, with_flops=True):
        yield


@contextlib.contextmanager
def _recorded_under_a_mode() -> Iterator[None]:
    with profile(record_shapes=True), Passing():
        yield


RECORDED: dict[str, Callable[[], Any]] = {
    "recorded": profile,
    "with shapes": lambda: profile(record_shapes=True),
    "with memory": lambda: profile(profile_memory=True),
    "with stacks": lambda: profile(with_stack=True),
    "with modules": lambda: profile(with_modules=True),
    "with flops": lambda: profile(with_flops=True),
    "with everything": _all_at_once,
}

WAYS: dict[str, Callable[[], Any]] = {
    **RECORDED,
    "under a function mode": Passing,
    "recorded under a function mode": _recorded_under_a_mode,
    "with an execution trace": _traced,
    "with anomaly detection": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
}

# What a program may itself have around what it does; it is there with and without somebody who watches.
CIRCUMSTANCES: dict[str, Callable[[], Any]] = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "saved tensors hooks": lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
}


def bits(array: Any) -> str:
    """A digest of an array's values in the order of its elements; one NaN is as good as another."""
    plain = np.ascontiguousarray(array)
    if plain.dtype.kind in "fcV":
        real = plain.view(f"f{plain.itemsize // 2}") if plain.dtype.kind == "c" else plain
        empty = np.isnan(real)
        if empty.any():
            real = real.copy()
            real[empty] = np.nan
        plain = real
    return hashlib.sha256(plain.tobytes()).hexdigest()  # for which processors have instructions


def told(value: Any) -> Any:
    """All that a program can see of a value, as something that can be compared."""
    if isinstance(value, torch.Tensor):
        return _told_tensor(value)
    if isinstance(value, np.ndarray):
        return ("array", str(value.dtype), value.shape, bits(value))
    if isinstance(value, dict):
        return tuple((told(k), told(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *(told(v) for v in value))
    if isinstance(value, float):
        return value.hex()
    if value is None or isinstance(value, (bool, int, str, bytes, complex, torch.dtype)):
        return (type(value).__name__, repr(value))
    return type(value).__qualname__


def _told_tensor(t: Any) -> Any:
    if t.layout is not torch.strided:
        return ("sparse", str(t.layout), tuple(t.shape), told(t.detach().to_dense()))
    place = () if t.is_meta else (t.storage_offset(), bits(t._a))
    node = None if t.grad_fn is None else type(t.grad_fn).__name__
    about = (str(t.dtype), tuple(t.shape), t.stride(), t.is_conj(), t.is_neg())
    return (type(t).__name__, *about, *place, t.requires_grad, t.is_leaf, node, t.is_inference() or t._version)


def outcome(case: Case) -> Seen:
    """What a case gives or raises, warnings, and where it leaves the random numbers."""
    torch.manual_seed(1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", message="Error detected in")  # what anomaly detection adds to an error
        try:
            found: Any = told(case())
        except Exception as error:
            found = ("raised", type(error).__name__, str(error))
    # NumPy reports floating point flags as warnings; torch reports nothing there.
    spoken = sorted({f"{w.category.__name__}: {w.message}" for w in said if " encountered in " not in str(w.message)})
    return found, tuple(spoken), bits(torch.get_rng_state()._a)


def outcomes(cases: Iterable[tuple[str, Case]]) -> dict[str, Seen]:
    return {name: outcome(case) for name, case in cases}


def differences(cases: dict[str, Case], ways: dict[str, Callable[[], Any]]) -> list[str]:
    """What each way of watching changes, as lines to read; none where it changes nothing."""
    plain = outcomes(cases.items())
    found = []
    for way, watching in ways.items():
        with watching():
            watched = outcomes(cases.items())
        changed = (name for name in cases if plain[name] != watched[name])
        found += [f"{name}, {way}: {explained(plain[name], watched[name])}" for name in changed]
    return found


def explained(plain: Any, watched: Any, where: str = "") -> str:
    """The first place at which two outcomes differ."""
    if isinstance(plain, tuple) and isinstance(watched, tuple) and len(plain) == len(watched):
        for i, (a, b) in enumerate(zip(plain, watched, strict=True)):
            if a != b:
                return explained(a, b, f"{where}[{i}]")
    return f"{where} {plain!r} alone, {watched!r} watched"


# --- calls and their gradients ----------------------------------------------------------------------------------------


def leaves(value: Any) -> list[Any]:
    """The tensors in arguments and results."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in leaves(v)]
    return [t for v in value for t in leaves(v)] if isinstance(value, (list, tuple)) else []


@functools.lru_cache(16)
def _cosines(shape: tuple[int, ...]) -> Any:
    return np.asarray(np.cos(np.arange(math.prod(shape)) * 1.3).reshape(shape))


def cotangent(t: Any) -> Any:
    """Some gradient for a result, the same in every run."""
    return torch.from_numpy(_cosines(tuple(t.shape)).copy()).to(t.dtype)


def called(function: Callable[..., Any], args: Any, kwargs: Any = None) -> Any:
    """A call, then backward through what it gave: results, arguments as they are after it, gradients."""
    kwargs = kwargs or {}
    result = function(*args, **kwargs)
    shown = told(result)
    given = leaves([list(args), kwargs])
    after = told(given)
    ends = [t for t in leaves(result) if t.requires_grad and t.grad_fn is not None and t.numel() <= MOST_DIFFERENTIATED]
    if ends:
        torch.autograd.backward(ends, [cotangent(t) for t in ends])
    return shown, after, [t.grad for t in given if t.requires_grad and t.is_leaf]
