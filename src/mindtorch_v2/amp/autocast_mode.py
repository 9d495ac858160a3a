"""autocast: inside, some ops get their inputs in a 16-bit float, some in float32, as torch's CPU autocast decides.

It tells the op layer how to run those ops; what they compute it does not know.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any

from ..autograd.deeper import carry
from ..autograd.mode_exit import leaving
from ..core import dtype as _dtype
from ..core import tap
from ..core.device import device as _Device
from ..core.dtype import dtype as DType
from ..core.fork import free_in_children
from ..core.tensor import Tensor
from ..dispatch.op import OPS, Op
from ..dispatch.slow_path import AUTOCAST, split_out
from ..ops.creation import convert

_SUPPORTED = (_dtype.bfloat16, _dtype.float16)


class _State(threading.local):
    """What autocast does in this thread."""

    enabled = False
    dtype: DType = _dtype.bfloat16
    caching = True
    depth = 0
    suspended = 0

    def __init__(self) -> None:
        # Lower-precision copies of parameters, by id; the parameter is kept so that the id stays its own.
        self.copies: dict[int, tuple[Tensor, Tensor]] = {}


_state = _State()
carry(_state)


def _uncast(function: Any, *args: Any) -> Any:
    """A call in which autocast changes no ops."""
    _state.suspended += 1
    try:
        return function(*args)
    finally:
        _state.suspended -= 1


tap.NAMESPACE.update(CASTING=lambda: _state.enabled and not _state.suspended, UNCAST=_uncast)
_lock = free_in_children(threading.Lock())
_users = 0


# --- how ops are run --------------------------------------------------------------------------------------------------


_NAMESPACE = tap.NAMESPACE
_to_copy = OPS["_to_copy"]


def _lives_here(value: Any) -> bool:
    """Whether it is a tensor on the device that autocast is for: those on meta are left as they are."""
    if isinstance(value, (list, tuple)):
        return any(_lives_here(v) for v in value)
    return isinstance(value, Tensor) and value.is_cpu


def _eligible(value: Any) -> bool:
    return (
        isinstance(value, Tensor) and value.is_floating_point() and value.dtype is not _dtype.float64 and value.is_cpu
    )


def _cast_tensor(t: Tensor, to: DType) -> Tensor:
    if t.dtype is to:
        return t
    # Outside a block nobody says when copies are out of date.
    lasting = _state.caching and _state.depth > 0
    keep = lasting and to is _state.dtype and t.dtype is _dtype.float32 and t.requires_grad and t.is_leaf
    if keep and id(t) in _state.copies:
        return _state.copies[id(t)][1]
    if _NAMESPACE["AUTOCASTING"]:  # nobody else looks on
        made: Tensor = _to_copy.unseen(t, to, None, None, None, False, None)
    else:
        made = convert.to_dtype(t, to)
    if keep:
        _state.copies[id(t)] = (t, made)
    return made


def _cast(value: Any, to: DType) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, to) for v in value) if any(_eligible(v) for v in value) else value
    return _cast_tensor(value, to) if _eligible(value) else value


def _widest(values: tuple[Any, ...]) -> DType:
    flat = [v for value in values for v in (value if isinstance(value, (list, tuple)) else (value,))]
    types = {v.dtype for v in flat if isinstance(v, Tensor) and v.is_floating_point() and v.is_cpu}
    return _dtype.float32 if types & {_dtype.float32, _dtype.float64} else _state.dtype


def _run(choose: Any) -> Any:
    """How an op of one list is run: inputs cast, then the op itself without autocast."""

    def run(op: Op, args: tuple[Any, ...], finish: Callable[[Op, tuple[Any, ...]], Any]) -> Any:
        if _state.suspended or not _state.enabled:
            return finish(op, args)
        given, out = split_out(op, args)
        if not _lives_here(given):
            return finish(op, args)
        to = choose(given)
        _state.suspended += 1
        try:
            if out is not None:
                return finish(op, args)
            values = [_cast(value, to) for value in given]
            if _NAMESPACE["AUTOCASTING"]:
                return op.unseen(*values)
            named = list(zip(op.schema.arguments, values, strict=True))
            positional = [v for a, v in named if not a.kwarg_only]
            return op.function(*positional, **{a.python_name: v for a, v in named if a.kwarg_only})
        finally:
            _state.suspended -= 1

    return run


# By what rows say: `autocast="lower_precision"`, …
_RULES = {
    "lower_precision": _run(lambda values: _state.dtype),
    "float32": _run(lambda values: _dtype.float32),
    "promote": _run(_widest),
}


def _use(change: int) -> None:
    """Count the contexts that are open anywhere; ops look for rules while there is one."""
    global _users
    with _lock:
        _users += change
        if _users:
            AUTOCAST.update(_RULES)
        else:
            AUTOCAST.clear()
        tap.set_reason("autocast", _users > 0)


# --- the public face --------------------------------------------------------------------------------------------------


class autocast:
    """A context manager and decorator: inside, ops choose their precision."""

    def __init__(
        self, device_type: str, dtype: DType | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = _Device(device_type).type
        if not is_autocast_available(self.device) and self.device not in ("cuda", "xpu", "mps", "hpu", "mtia"):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else dtype
        self._cache_enabled = _state.caching if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled) and self._possible()

    def _possible(self) -> bool:
        if self.device != "cpu":
            warnings.warn(
                f"User provided device_type of '{self.device}', but {self.device.upper()} is not available. Disabling",
                stacklevel=4,
            )
            return False
        if self.fast_dtype not in _SUPPORTED:
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\nCPU Autocast only "
                "supports dtype of torch.bfloat16, torch.float16 currently.",
                stacklevel=4,
            )
            return False
        return True

    def __enter__(self) -> autocast:
        if self.device == "cpu":
            _use(+1)  # before all else: an interrupt, which comes after a call, leaves nothing switched
            self._before = (_state.enabled, _state.dtype, _state.caching, _state.suspended)
            _state.enabled, _state.dtype, _state.caching = self._enabled, self.fast_dtype, self._cache_enabled
            _state.suspended = 0
            _state.depth += 1
        return self

    def _forget(self) -> None:
        if self.device == "cpu":
            if not _state.depth:
                _state.copies.clear()
            _use(-1)

    @functools.partial(leaving, after=_forget)
    def __exit__(self) -> None:
        if self.device == "cpu":
            _state.enabled, _state.dtype, _state.caching, _state.suspended = self._before
            _state.depth -= 1

    def __call__(self, func: Any) -> Any:
        @functools.wraps(func)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return inside


def is_autocast_available(device_type: str) -> bool:
    return device_type == "cpu"


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    return device_type == "cpu" and _state.enabled


def is_autocast_cpu_enabled() -> bool:
    return _state.enabled


def is_autocast_cache_enabled() -> bool:
    return _state.caching


def get_autocast_dtype(device_type: str) -> DType:
    return _state.dtype if device_type == "cpu" else _dtype.float16


def set_autocast_cache_enabled(enabled: bool) -> None:
    _state.caching = bool(enabled)


def get_autocast_gpu_dtype() -> DType:
    return _dtype.float16


def get_autocast_cpu_dtype() -> DType:
    return _state.dtype


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Turn autocast on or off outside a block; a single argument means CUDA, which changes nothing here."""
    if enabled is None or device_type != "cpu":
        return
    if enabled != _state.enabled:
        _use(+1 if enabled else -1)
    _state.enabled = enabled


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """The dtype of autocast outside a block."""
    if device_type == "cpu":
        _state.dtype = dtype


def set_autocast_cpu_enabled(enabled: bool) -> None:
    set_autocast_enabled("cpu", enabled)


def set_autocast_cpu_dtype(dtype: DType) -> None:
    set_autocast_dtype("cpu", dtype)


def clear_autocast_cache() -> None:
    _state.copies.clear()


def custom_fwd(fwd: Any = None, *, device_type: str = "cuda", cast_inputs: DType | None = None) -> Any:
    """Decorator of a custom Function's forward: remembers the state of autocast, or casts inputs and turns it off."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        args[0]._dtype = get_autocast_dtype(device_type)
        if cast_inputs is None or not is_autocast_enabled(device_type):
            args[0]._fwd_used_autocast = is_autocast_enabled(device_type)
            return fwd(*args, **kwargs)
        args[0]._fwd_used_autocast = False
        with autocast(device_type, enabled=False):
            return fwd(*(_cast(a, cast_inputs) for a in args), **{k: _cast(v, cast_inputs) for k, v in kwargs.items()})

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str = "cuda") -> Any:
    """Decorator of a custom Function's backward: it runs with the state of autocast that its forward had."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if not is_autocast_available(device_type):
            return bwd(*args, **kwargs)
        with autocast(device_type, args[0]._dtype, enabled=args[0]._fwd_used_autocast):
            return bwd(*args, **kwargs)

    return backward


NAMES: dict[str, Any] = {
    f.__name__: f
    for f in (
        autocast,
        is_autocast_enabled,
        is_autocast_cpu_enabled,
        is_autocast_cache_enabled,
        get_autocast_dtype,
        get_autocast_gpu_dtype,
        get_autocast_cpu_dtype,
        set_autocast_cache_enabled,
        set_autocast_cpu_dtype,
        set_autocast_cpu_enabled,
        set_autocast_dtype,
        set_autocast_enabled,
        clear_autocast_cache,
    )
}
