"""Steps of SGD and Adam straight on the arrays, for when nobody watches the operators they are otherwise made of.

Each does the arithmetic of those operators in their order, so results are the same to the bit; it only saves their
calls, and goes through large parameters block by block, so that what is reread stays in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core import tap
from ..core.tensor import FAST, Parameter, Tensor
from ..kernels.compiled import C
from ..kernels.passes import number
from .flat import count_changes

BLOCK = 1 << 18  # elements: beyond, what is reread leaves the cache; below, calls cost more than they save
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
_ONE = np.ones((), np.float32)

_add: Any = np.add
_subtract: Any = np.subtract
_multiply: Any = np.multiply
_divide: Any = np.divide


def unwatched(group: dict[str, Any]) -> bool:
    """Whether a step on this group may do without operators: none is seen, and the options ask for nothing else."""
    return not (tap.NAMESPACE["HOOK"] or group["differentiable"])


def _takes(p: Any) -> bool:
    """Whether a parameter is plain memory of floats."""
    a = p._a
    return type(p) in FAST and (a.dtype is F32 or a.dtype is F64) and a.ndim > 0 and a.flags.c_contiguous


def _fits(a: Any, t: Any) -> bool:
    """Whether a tensor is plain, and of the dtype and shape of the parameter's array."""
    if type(t) is not Tensor and type(t) is not Parameter:
        return False
    other = t._a
    return other.dtype is a.dtype and other.shape == a.shape


class _Scratch(dict[Any, Any]):
    """Two temporaries of one dtype for each shape."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def __missing__(self, shape: Any) -> Any:
        made = self[shape] = np.empty(shape, self.kind), np.empty(shape, self.kind)
        return made


def _pieces(arrays: list[Any]) -> Iterator[list[Any]]:
    """Large arrays, piece by piece; whole where they do not lie alike."""
    if not all(a.flags.c_contiguous for a in arrays):
        yield arrays
        return
    flat = [a.reshape(-1) for a in arrays]
    for start in range(0, flat[0].size, BLOCK):
        yield [a[start : start + BLOCK] for a in flat]


def _run(body: Any, arrays: list[Any], numbers: Any, scratch: Any) -> None:
    """``body(*arrays, first temporary, second temporary, numbers)`` on all of the arrays."""
    a = arrays[0]
    kept = scratch[0] if a.dtype is F32 else scratch[1]
    if a.size <= BLOCK:
        body(*arrays, *kept[a.shape], numbers)
        return
    for piece in _pieces(arrays):
        body(*piece, *kept[piece[0].shape], numbers)


# --- SGD --------------------------------------------------------------------------------------------------------------


def _counted(columns: list[list[Any]], changes: Sequence[int]) -> bool:
    """That the tensors of each column were changed as often as operators would have done."""
    for column, count in zip(columns, changes):
        for t in column:
            count_changes(t, count)
    return True


_SGD_CHANGES = (1, 2)  # of the parameter by add_, of its momentum by mul_ and add_


def _arrays(column: list[Any]) -> list[Any] | None:
    """The arrays of tensors; None if one of them is no plain tensor, or none at all."""
    return [t._a for t in column] if FAST.issuperset(map(type, column)) else None


class _Descent(NamedTuple):
    """What a step of SGD multiplies with, as arrays; None for what it leaves out."""

    rate: Any
    decay: Any
    momentum: Any
    fresh: Any  # the gradient's share in the momentum
    nesterov: bool
    maximize: bool


def sgd(params: list[Any], state: Any, group: dict[str, Any], rate: float, decay: float) -> bool:
    """A step of SGD; False, with nothing changed, if it is one for operators."""
    if not unwatched(group):
        return False
    momentum = group["momentum"]
    buffers = [state[p].get("momentum_buffer") for p in params] if momentum else []
    if C is not None and _sgd_in_one_pass(params, buffers, group, rate, decay):
        return True
    held = []
    for p in params:
        gradient = p.grad
        if not (_takes(p) and _fits(p._a, gradient)):
            return False
        tensors = [p]
        arrays = [p._a, gradient._a]
        if momentum:
            buffer = state[p].get("momentum_buffer")
            if buffer is None or not _fits(p._a, buffer):
                return False
            tensors.append(buffer)
            arrays.append(buffer._a)
        held.append((tensors, arrays))
    singles, doubles = (_descent(group, rate, decay, kind) for kind in (F32, F64))
    scratch = _Scratch(F32), _Scratch(F64)
    for tensors, arrays in held:
        numbers = singles if arrays[0].dtype is F32 else doubles
        _run(_momentum_descent if momentum else _decayed_descent, arrays, numbers, scratch)
        _counted([[t] for t in tensors], _SGD_CHANGES)
    return True


def _sgd_in_one_pass(params: list[Any], buffers: list[Any], group: dict[str, Any], rate: float, decay: float) -> bool:
    arrays, momenta = _arrays(params), _arrays(buffers) if group["momentum"] else None
    slopes = _arrays([p.grad for p in params])
    if arrays is None or slopes is None or (momenta is None and group["momentum"]):
        return False
    sign = -1 if group["maximize"] else 1
    numbers = sign, decay, group["momentum"], 1 - group["dampening"], group["nesterov"], rate
    return C.sgd(arrays, slopes, momenta, *numbers) and _counted([params, buffers], _SGD_CHANGES)


def _descent(group: dict[str, Any], rate: float, decay: float, kind: Any) -> _Descent:
    def optional(value: float, without: float) -> Any:
        return None if value == without else number(value, kind)

    fresh = optional(1 - group["dampening"], 1)
    momentum = optional(group["momentum"], 0)
    return _Descent(number(rate, kind), optional(decay, 0), momentum, fresh, group["nesterov"], group["maximize"])


def _plain_descent(a: Any, g: Any, one: Any, two: Any, numbers: _Descent) -> None:
    _multiply(g, numbers[0], two)
    _add(a, two, a)


def _decayed_descent(a: Any, g: Any, one: Any, two: Any, numbers: _Descent) -> None:
    _plain_descent(a, _decayed(a, g, one, two, numbers), one, two, numbers)


def _decayed(a: Any, g: Any, one: Any, two: Any, numbers: _Descent) -> Any:
    if numbers.maximize:
        g = np.negative(g, one)
    return g if numbers.decay is None else _add(g, _multiply(a, numbers.decay, two), one)


def _momentum_descent(a: Any, g: Any, buffer: Any, one: Any, two: Any, numbers: _Descent) -> None:
    g = _decayed(a, g, one, two, numbers)
    _multiply(buffer, numbers.momentum, buffer)
    _add(buffer, g if numbers.fresh is None else _multiply(g, numbers.fresh, two), buffer)
    g = _add(g, _multiply(buffer, numbers.momentum, two), one) if numbers.nesterov else buffer
    _plain_descent(a, g, one, two, numbers)


# --- Adam -------------------------------------------------------------------------------------------------------------


class _Rates(NamedTuple):
    """What a step of Adam multiplies with, as arrays; None for what it leaves out."""

    shrink: Any  # the parameter, for decoupled decay
    decay: Any  # the parameter, added to the gradient
    toward: Any  # the gradient's share in the mean
    keep: Any  # what stays of the mean of squares
    fresh: Any  # the square's share in it
    root: Any  # the correction of the root
    eps: Any
    rate: Any  # the corrected rate
    maximize: bool


def adam(params: list[Any], states: list[dict[str, Any]], group: dict[str, Any], rate: float, betas: Any) -> bool:
    """A step of Adam or AdamW; False, with nothing changed, if it is one for operators."""
    if not unwatched(group) or group["capturable"] or 1 - betas[0] >= 0.5:  # then lerp starts from the other end
        return False
    names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")
    if C is not None and _adam_in_one_pass(
        params, [[s[n] for s in states] for n in ("step", *names)], group, rate, betas
    ):
        return True
    held = []
    for p, state in zip(params, states, strict=True):
        a, gradient, step = p._a, p.grad, state["step"]
        kept = [state[name] for name in names]
        if not (_takes(p) and _fits(a, gradient) and type(step) is Tensor and step._a.dtype is F32):
            return False
        for t in kept:
            if not _fits(a, t):
                return False
        held.append(([p, step, *kept], [a, gradient._a, *(t._a for t in kept)]))
    body = _adam_with_top if group["amsgrad"] else _adam
    scratch = _Scratch(F32), _Scratch(F64)
    rates: dict[Any, _Rates] = {}
    for tensors, arrays in held:
        step = tensors[1]._a
        _add(step, _ONE, step)
        key = arrays[0].dtype.char, float(step)
        if key not in rates:
            rates[key] = _adam_rates(group, rate, betas, *key)
        _run(body, arrays, rates[key], scratch)
        _counted([[t] for t in tensors], _adam_changes(group))
    return True


def _adam_changes(group: dict[str, Any]) -> tuple[int, ...]:
    """How often operators change a parameter, its step, mean, mean of squares and the largest of those in a step."""
    decays = bool(group["decoupled_weight_decay"] and group["weight_decay"] != 0)
    return 1 + decays, 1, 1, 2, 1


def _adam_in_one_pass(
    params: list[Any], columns: list[list[Any]], group: dict[str, Any], rate: float, betas: Any
) -> bool:
    arrays, slopes = _arrays(params), _arrays([p.grad for p in params])
    steps, means, squares, *tops = (_arrays(column) for column in columns)
    if arrays is None or slopes is None or means is None or squares is None or None in tops:
        return False
    counters = None if steps is None else C.line_up(steps, None)
    if counters is None or counters.dtype is not F32:
        return False
    counters += _ONE
    step, *others = set(counters.tolist())
    if others:
        return False
    sign, decay = -1 if group["maximize"] else 1, group["weight_decay"]
    coupled = 0.0 if group["decoupled_weight_decay"] else decay
    numbers = sign, coupled, *_adam_numbers(group, rate, betas, step)
    if not C.adam(arrays, slopes, means, squares, tops[0] if tops else None, *numbers):
        return False
    C.lay_out(counters, steps)
    return _counted([params, *columns], _adam_changes(group))


def _adam_numbers(group: dict[str, Any], rate: float, betas: Any, step: float) -> tuple[float, ...]:
    """What the parameter, the difference from the mean, the mean of squares, the square, the root and the mean are
    multiplied with, eps among them before the last."""
    beta1, beta2 = betas
    shrink = 1 - rate * group["weight_decay"] if group["decoupled_weight_decay"] else 1
    root, corrected = math.sqrt(1 - beta2**step), -(rate / (1 - beta1**step))
    return shrink, 1 - beta1, beta2, 1 - beta2, root, group["eps"], corrected


def _adam_rates(group: dict[str, Any], rate: float, betas: Any, kind: str, step: float) -> _Rates:
    decay, decoupled, dtype = group["weight_decay"], group["decoupled_weight_decay"], np.dtype(kind)
    shrink, toward, keep, fresh, root, eps, corrected = (
        number(value, dtype) for value in _adam_numbers(group, rate, betas, step)
    )
    return _Rates(
        shrink=shrink if decay != 0 and decoupled else None,
        decay=number(decay, dtype) if decay != 0 and not decoupled else None,
        toward=toward,
        keep=keep,
        fresh=fresh,
        root=root,
        eps=eps,
        rate=corrected,
        maximize=group["maximize"],
    )


def _adam(a: Any, g: Any, mean: Any, square: Any, one: Any, two: Any, rates: _Rates) -> None:
    _move_moments(a, g, mean, square, one, two, rates)
    _adam_descent(a, mean, square, one, two, rates)


def _adam_with_top(a: Any, g: Any, mean: Any, square: Any, top: Any, one: Any, two: Any, rates: _Rates) -> None:
    _move_moments(a, g, mean, square, one, two, rates)
    np.maximum(top, square, out=top)
    _adam_descent(a, mean, top, one, two, rates)


def _move_moments(a: Any, g: Any, mean: Any, square: Any, one: Any, two: Any, rates: _Rates) -> None:
    shrink, decay, toward, keep, fresh, *_, maximize = rates
    if maximize:
        g = np.negative(g, one)
    if shrink is not None:
        _multiply(a, shrink, a)
    if decay is not None:
        g = _add(g, _multiply(a, decay, two), one)
    _subtract(g, mean, two)
    _multiply(two, toward, two)
    _add(mean, two, mean)
    _multiply(square, keep, square)
    _multiply(g, g, two)
    _multiply(two, fresh, two)
    _add(square, two, square)


def _adam_descent(a: Any, mean: Any, square: Any, one: Any, two: Any, rates: _Rates) -> None:
    np.sqrt(square, two)
    _divide(two, rates.root, two)
    _add(two, rates.eps, two)
    _multiply(mean, rates.rate, one)
    _divide(one, two, one)
    _add(a, one, a)
