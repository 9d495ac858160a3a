"""Rows that fill tensors with random numbers, on the generators of `random`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.memory.resize import resize
from ...core.meta import MetaArray
from ...core.tensor import Tensor
from ...dispatch.front import front
from ...dispatch.op import composite, mutating, op
from ...kernels import random
from ...kernels.compiled import C
from ..meta import shapes
from .fill import checked_size, zeros_like

_F32, _F64, _I64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
_NEAR = 1 << 27  # the distance between numbers of less than this needs less than 28 bits


def _quiet(function: Any) -> Any:
    """A fill that leaves meta arrays alone and takes numbers from tensors of one element too."""

    def kernel(a: Any, *args: Any) -> None:
        for value in args:
            if isinstance(value, Tensor):
                args = tuple([v.item() if isinstance(v, Tensor) else v for v in args])
        if type(a) is not MetaArray:
            function(a, *args)

    return kernel


def _fill_row(schema: str, function: Any, loop: str = "") -> Any:
    """The row of a fill; `loop` is what may do it at once, for the usual generator."""
    kernel = _quiet(function)
    if C is not None and loop:
        kernel = (_with_two if schema.count("float ") == 2 else _with_given)(kernel, getattr(C, loop))
    return mutating(schema, self=lambda g: zeros_like(g))(kernel).function


def _with_two(fill: Any, draw: Any) -> Any:
    """`fill` with two numbers, in one compiled call where that takes the array."""

    def kernel(a: Any, first: Any, second: Any, generator: Any) -> None:
        if generator is not None or not draw(None, a, first, second):
            fill(a, first, second, generator)

    return kernel


def _with_given(fill: Any, draw: Any) -> Any:
    """The same with whatever else it takes, generator last."""

    def kernel(a: Any, *arguments: Any) -> None:
        if arguments[-1] is not None or not draw(None, a, *arguments[:-1]):
            fill(a, *arguments)

    return kernel


uniform_ = _fill_row(
    "uniform_(Tensor(a!) self, float from=0.0, float to=1.0, *, Generator? generator=None) -> Tensor(a!)",
    random.uniform_,
    "random_uniforms",
)
normal_ = _fill_row(
    "normal_(Tensor(a!) self, float mean=0.0, float std=1.0, *, Generator? generator=None) -> Tensor(a!)",
    random.normal_,
    "random_normals",
)
exponential_ = _fill_row(
    "exponential_(Tensor(a!) self, float lambd=1.0, *, Generator? generator=None) -> Tensor(a!)",
    random.exponential_,
    "random_waits",
)
geometric_ = _fill_row(
    "geometric_(Tensor(a!) self, float p, *, Generator? generator=None) -> Tensor(a!)", random.geometric_
)
cauchy_ = _fill_row(
    "cauchy_(Tensor(a!) self, float median=0.0, float sigma=1.0, *, Generator? generator=None) -> Tensor(a!)",
    random.cauchy_,
)
log_normal_ = _fill_row(
    "log_normal_(Tensor(a!) self, float mean=1.0, float std=2.0, *, Generator? generator=None) -> Tensor(a!)",
    random.log_normal_,
)


_EXACT = 1 << 24  # integers below it are floats of any width


def _from_to(a: Any, low: int, high: int | None, generator: Any) -> None:
    """Integers from [low, high), in one compiled call where a word each is enough."""
    if generator is None and C is not None and type(low) is type(high) is int and a.dtype is _I64:
        if -_NEAR < low < high < _NEAR and C.random_below(None, a, low, high - low):
            return
    floats = (a.dtype is _F32 or a.dtype is _F64) and a.flags.c_contiguous
    if generator is None and C is not None and type(low) is type(high) is int and floats:
        whole = np.empty(a.shape, _I64)
        if -_EXACT < low < high < _EXACT and C.random_below(None, whole, low, high - low):
            a[...] = whole
            return
    random.random_(a, low, high, generator)


_random_plain = _fill_row(
    "random_(Tensor(a!) self, *, Generator? generator=None) -> Tensor(a!)",
    lambda a, generator: random.random_(a, generator=generator),
    "random_whole",
)
_random_to = _fill_row(
    "random_.to(Tensor(a!) self, int to, *, Generator? generator=None) -> Tensor(a!)",
    lambda a, to, generator: _from_to(a, 0, to, generator),
)
random_from = _fill_row(
    "random_.from(Tensor(a!) self, int from, int? to, *, Generator? generator=None) -> Tensor(a!)", _from_to
)


@front("random_")
def random_(input: Tensor, from_: Any = None, to: Any = None, *, generator: Any = None, **kw: Any) -> Tensor:
    """Fill with integers from [from, to)."""
    low = kw.pop("from", from_)
    if low is None and to is None:
        return _random_plain(input, generator=generator)
    if to is None:
        return _random_to(input, low, generator=generator)
    return random_from(input, 0 if low is None else low, to, generator=generator)


_bernoulli_number = _fill_row(
    "bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)",
    random.bernoulli_,
    "random_coins",
)
_bernoulli_each = _fill_row(
    "bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, Generator? generator=None) -> Tensor(a!)", random.bernoulli_
)


@front("bernoulli_")
def bernoulli_(input: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with draws that are 1 with probability p."""
    row = _bernoulli_each if isinstance(p, Tensor) else _bernoulli_number
    return row(input, p, generator=generator)


@op(
    "bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
    meta=shapes.like_nth(0),
    out=False,
    self=lambda g: zeros_like(g),
)
def _bernoulli(a: Any, generator: Any) -> Any:
    if generator is None and C is not None:
        coins = np.empty(a.shape, a.dtype)
        if C.random_coins_of(None, coins, a):
            return coins
    return random.bernoulli_of(a, generator=generator)


@op(
    "bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor",
    meta=shapes.like_nth(0),
    out=False,
    self=lambda g: zeros_like(g),
)
def _bernoulli_p(a: Any, p: float, generator: Any) -> Any:
    return random.bernoulli(a.shape, a.dtype, p, generator)


def fitted(out: Tensor, size: Any) -> Tensor:
    """`out` with the size that is asked for."""
    shape = checked_size(size)
    if out._a.shape != shape:
        resize(out, shape)
    return out


@composite("bernoulli.out(Tensor self, *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)", method=False)
def _bernoulli_out(self: Tensor, generator: Any, out: Tensor) -> Tensor:
    return _bernoulli_each(fitted(out, self._a.shape), self, generator=generator)


@front("bernoulli")
def bernoulli(input: Tensor, p: float | None = None, *, generator: Any = None, out: Any = None) -> Tensor:
    """Draws that are 1 with the probability each element gives (or with probability p)."""
    if out is not None:
        return _bernoulli_out.function(input, generator=generator, out=out)
    if p is None:
        return _bernoulli.function(input, generator=generator)
    return _bernoulli_p.function(input, p, generator=generator)
