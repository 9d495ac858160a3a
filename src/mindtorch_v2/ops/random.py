"""Rows of random numbers: factories, in-place fills and samplers on the generators of `_random`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _device, _dtype, _random, _tap
from .._device import usable
from .._front import front
from .._inside import inside
from .._meta import MetaArray, meta
from .._op import OPS, composite, mutating, op
from .._tensor import Tensor, make
from ..autograd import graph
from ..kernels.compiled import C
from . import creation
from .creation import _OPTIONS, checked_size, empty, empty_like, into, np_dtype, zeros_like

_DEFAULT = _dtype._Default
_F32, _F64, _I64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
_NAMESPACE = _tap.NAMESPACE
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

    def kernel(a: Any, *given: Any) -> None:
        if given[-1] is not None or not draw(None, a, *given[:-1]):
            fill(a, *given)

    return kernel


uniform_ = _fill_row(
    "uniform_(Tensor(a!) self, float from=0.0, float to=1.0, *, Generator? generator=None) -> Tensor(a!)",
    _random.uniform_,
    "random_uniforms",
)
normal_ = _fill_row(
    "normal_(Tensor(a!) self, float mean=0.0, float std=1.0, *, Generator? generator=None) -> Tensor(a!)",
    _random.normal_,
    "random_normals",
)
exponential_ = _fill_row(
    "exponential_(Tensor(a!) self, float lambd=1.0, *, Generator? generator=None) -> Tensor(a!)",
    _random.exponential_,
    "random_waits",
)
geometric_ = _fill_row(
    "geometric_(Tensor(a!) self, float p, *, Generator? generator=None) -> Tensor(a!)", _random.geometric_
)
cauchy_ = _fill_row(
    "cauchy_(Tensor(a!) self, float median=0.0, float sigma=1.0, *, Generator? generator=None) -> Tensor(a!)",
    _random.cauchy_,
)
log_normal_ = _fill_row(
    "log_normal_(Tensor(a!) self, float mean=1.0, float std=2.0, *, Generator? generator=None) -> Tensor(a!)",
    _random.log_normal_,
)


_EXACT = 1 << 24  # integers below it are floats of any width


def _from_to(a: Any, low: int, high: int | None, generator: Any) -> None:
    """Integers from [low, high), in one compiled call where a word each is enough."""
    if generator is None and C is not None and type(low) is type(high) is int and a.dtype is _I64:
        if -_NEAR < low < high < _NEAR and C.random_below(None, a, low, high - low):
            return
    if generator is None and C is not None and type(low) is type(high) is int and (a.dtype is _F32 or a.dtype is _F64):
        whole = np.empty(a.shape, _I64)
        if -_EXACT < low < high < _EXACT and C.random_below(None, whole, low, high - low):
            a[...] = whole
            return
    _random.random_(a, low, high, generator)


_random_plain = _fill_row(
    "random_(Tensor(a!) self, *, Generator? generator=None) -> Tensor(a!)",
    lambda a, generator: _random.random_(a, generator=generator),
    "random_whole",
)
_random_to = _fill_row(
    "random_.to(Tensor(a!) self, int to, *, Generator? generator=None) -> Tensor(a!)",
    lambda a, to, generator: _from_to(a, 0, to, generator),
)
_random_from = _fill_row(
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
    return _random_from(input, 0 if low is None else low, to, generator=generator)


_bernoulli_number = _fill_row(
    "bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)",
    _random.bernoulli_,
    "random_coins",
)
_bernoulli_each = _fill_row(
    "bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, Generator? generator=None) -> Tensor(a!)", _random.bernoulli_
)


@front("bernoulli_")
def bernoulli_(input: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with draws that are 1 with probability p."""
    row = _bernoulli_each if isinstance(p, Tensor) else _bernoulli_number
    return row(input, p, generator=generator)


@op("bernoulli(Tensor self, *, Generator? generator=None) -> Tensor", self=lambda g: zeros_like(g))
def _bernoulli(a: Any, generator: Any) -> Any:
    if generator is None and C is not None:
        coins = np.empty(a.shape, a.dtype)
        if C.random_coins_of(None, coins, a):
            return coins
    return _random.bernoulli_of(a, generator=generator)


@op(
    "bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor", out=False, self=lambda g: zeros_like(g)
)
def _bernoulli_p(a: Any, p: float, generator: Any) -> Any:
    return _random.bernoulli(a.shape, a.dtype, p, generator)


@front("bernoulli")
def bernoulli(input: Tensor, p: float | None = None, *, generator: Any = None, out: Any = None) -> Tensor:
    """Draws that are 1 with the probability each element gives (or with probability p)."""
    if p is None:
        return _bernoulli.function(input, generator=generator, out=out)
    return _bernoulli_p.function(input, p, generator=generator)


# --- factories --------------------------------------------------------------------------------------------------------


def _fitted(out: Tensor, size: Any) -> Tensor:
    """`out` with the size that is asked for."""
    shape = checked_size(size)
    if out._a.shape != shape:
        graph.resize(out, shape)
    return out


def _quick_draw(draw: Any, size: tuple[Any, ...], dtype: Any, device: Any, *given: Any) -> Tensor | None:
    """A new tensor of a plain size on the CPU that nobody records; else None."""
    np_type = creation.quick_dtype(dtype, device)
    if np_type is None:
        return None
    for n in size:
        if type(n) is not int or n < 0:
            return None
    return make(draw(size, np_type, *given))


def _quick_normals(size: tuple[Any, ...], dtype: Any, device: Any, mean: float, std: float, generator: Any) -> Any:
    """The same with normal numbers, in one compiled call where they are few."""
    if generator is None and C is not None:
        made = C.new_normals(size, creation.quick_dtype(dtype, device), mean, std)
        if made is not None:
            return make(made)
    return _quick_draw(_random.normal, size, dtype, device, mean, std, generator)


def _sized(name: str, fill: Any, draw: Any, write: Any, quick: Any) -> None:
    """rand and randn: rows made of `empty` and a fill, and their public function; `quick` makes small arrays at once."""

    def call(size: Any, generator: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Tensor:
        made: Tensor = fill_inside(creation.empty_inside(size, dtype, None, device, False, None), 0.0, 1.0, generator)
        return made

    fill_inside = inside(OPS[fill.__name__])

    def kernel(size: Any, generator: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
        sizes = checked_size(size)
        if usable(device).type == "meta":
            return meta(sizes, np_dtype(dtype))
        return draw(sizes, np_dtype(dtype), generator=generator)

    plain = op(
        f"{name}(int[] size, {_OPTIONS}) -> Tensor", out=False, calls=lambda size, *rest: call(size, None, *rest)
    )(lambda size, *rest: kernel(size, None, *rest))
    given = op(
        f"{name}.generator(int[] size, *, Generator? generator, {_OPTIONS[3:]}) -> Tensor", out=False, calls=call
    )(kernel)

    out_row = composite(f"{name}.out(int[] size, *, Tensor(a!) out) -> Tensor(a!)", method=False)(
        lambda size, out: fill(_fitted(out, size))
    )
    out_row_from = composite(
        f"{name}.generator_out(int[] size, *, Generator? generator, Tensor(a!) out) -> Tensor(a!)", method=False
    )(lambda size, generator, out: fill(_fitted(out, size), generator=generator))

    def public(*size: Any, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
               device: Any = None, requires_grad: bool = False, pin_memory: bool = False, **kw: Any) -> Tensor:  # fmt: skip
        if not size and "size" in kw:
            size = (kw.pop("size"),)
        if out is None and not kw and size:
            if dtype is device is None and not (_NAMESPACE["HOOK"] or _device._default_stack):
                np_type = _DEFAULT.real.np
            else:
                np_type = creation.quick_dtype(dtype, device)
            if np_type is _F32 or np_type is _F64:
                plainly = size[0] if len(size) == 1 and isinstance(size[0], tuple) else size
                blank = quick(plainly, np_type, 0.0, 1.0) if generator is None and quick is not None else None
                if blank is not None:
                    return make(blank).requires_grad_() if requires_grad else make(blank)
                try:
                    blank = np.empty(plainly, np_type)
                except (TypeError, ValueError, MemoryError):
                    pass  # the long way says what is wrong
                else:
                    write(blank, 0.0, 1.0, generator)
                    made = make(blank)
                    return made.requires_grad_() if requires_grad else made
        sizes = size[0] if len(size) == 1 and not isinstance(size[0], (int, np.integer)) else size
        if out is not None:
            if generator is None:
                return out_row.function(sizes, out=out)
            return out_row_from.function(sizes, generator=generator, out=out)
        if generator is None:
            made = plain.function(sizes, dtype=dtype, device=device)
        else:
            made = given.function(sizes, generator=generator, dtype=dtype, device=device)
        return made.requires_grad_() if requires_grad else made

    public.__name__ = public.__qualname__ = name
    front(name)(public)


def _alike(name: str, fill: Any, draw: Any, quick: Any) -> None:
    """rand_like and randn_like, in the same way."""

    def like(input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
             pin_memory: bool = False, memory_format: Any = None, generator: Any = None) -> Tensor:  # fmt: skip
        t = (
            like_row.function(input)
            if dtype is device is None
            else like_row.function(input, dtype=dtype, device=device)
        )
        return t.requires_grad_() if requires_grad else t

    def like_call(self: Tensor, dtype: Any, layout: Any, device: Any, pin_memory: Any, memory_format: Any) -> Tensor:
        return fill(empty_like(self, dtype=dtype, device=device))

    def like_kernel(a: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any, memory_format: Any) -> Any:
        made = creation._blank_like(a, dtype, device, memory_format)
        if type(made) is MetaArray:
            return made
        return draw(made.shape, made.dtype) if made.flags.c_contiguous else fill(make(made))._a

    def like_itself(a: Any, *rest: Any) -> Any:
        made = None if quick is None else quick(a.shape, a.dtype, 0.0, 1.0)
        return draw(a.shape, a.dtype) if made is None else made

    like_row = op(
        f"{name}_like({creation._LIKE}) -> Tensor",
        out=False,
        calls=like_call,
        fast=(f"{creation._LIKE_ITSELF} and input._a.flags.c_contiguous", like_itself),
    )(like_kernel)
    like.__name__ = like.__qualname__ = f"{name}_like"
    front(like.__name__)(like)


_new_uniforms, _new_normals = (None, None) if C is None else (C.new_uniforms, C.new_normals)
_sized("rand", uniform_, _random.uniform, _random.uniform_, _new_uniforms)
_sized("randn", normal_, _random.normal, _random.normal_, _new_normals)
_alike("rand", uniform_, _random.uniform, _new_uniforms)
_alike("randn", normal_, _random.normal, _new_normals)


def _quick_integers(low: int, high: int, size: Any, dtype: Any, device: Any, generator: Any) -> Tensor | None:
    """Integers of a plain size on the CPU, each of one random word, that nobody records; else None."""
    if 0 < high - low < 1 << 28 and -(1 << 62) < low < 1 << 62 and creation.quick_dtype(dtype, device) is _I64:
        made = C.new_below(size, low, high - low) if generator is None and C is not None else None
        if made is not None:
            return make(made)
    return _quick_draw(_random.randint, size, dtype, device, low, high, generator)


def _integers(low: int, high: int, size: Any, generator: Any, dtype: Any, layout: Any, device: Any, pin: Any) -> Any:
    d = dtype or _dtype.int64
    sizes = checked_size(size)
    if usable(device).type == "meta":
        return meta(sizes, d.np)
    return _random.randint(sizes, d.np, low, high, generator)


def _integers_call(
    low: int, high: int, size: Any, generator: Any, dtype: Any, layout: Any, device: Any, pin: Any
) -> Tensor:
    made = creation.empty_inside(size, dtype or _dtype.int64, None, device, False, None)
    filled: Tensor = _random_from_inside(made, low, high, generator)
    return filled


_random_from_inside = inside(OPS["random_.from"])


def _randint_row(overload: str, arguments: str, order: Any) -> Any:
    """One overload of randint; `order` brings its arguments into the order of `_integers`."""
    return op(f"randint{overload}({arguments}) -> Tensor", out=False, calls=lambda *a: _integers_call(*order(*a)))(
        lambda *a: _integers(*order(*a))
    ).function


_GENERATOR = f"*, Generator? generator, {_OPTIONS[3:]}"
_randint = _randint_row("", f"int high, int[] size, {_OPTIONS}", lambda high, size, *r: (0, high, size, None, *r))
_randint_low = _randint_row(
    ".low", f"int low, int high, int[] size, {_OPTIONS}", lambda low, high, size, *r: (low, high, size, None, *r)
)
_randint_generator = _randint_row(
    ".generator", f"int high, int[] size, {_GENERATOR}", lambda high, size, *r: (0, high, size, *r)
)
_randint_low_generator = _randint_row(
    ".low_generator", f"int low, int high, int[] size, {_GENERATOR}", lambda low, high, size, *r: (low, high, size, *r)
)


def _range_arguments(args: tuple[Any, ...], low: Any, high: Any, size: Any) -> tuple[Any, Any, Any]:
    if low is high is size is None and 2 <= len(args) <= 3 and type(args[-1]) is tuple:
        if type(args[-2]) is type(args[0]) is int:
            return (args[0] if len(args) == 3 else None), args[-2], args[-1]
    values = [int(a) if isinstance(a, (np.integer, Tensor)) else a for a in args]
    numbers = [v for v in values if isinstance(v, int)]
    sizes = [v for v in values if not isinstance(v, int)]
    if size is None and sizes:
        size = sizes[0]
    if len(numbers) == 2:
        low, high = numbers
    elif numbers:
        if high is None:
            high = numbers[0]
        else:
            low = numbers[0]
    return low, high, size


def _randint_into(*given: Any) -> Tensor:
    """Integers into a given tensor; as `_randint_out` declares them, one bound or two and a generator or none."""
    out, bounds = given[-1], [v for v in given if isinstance(v, int)]
    size = next(v for v in given if isinstance(v, (list, tuple)))
    generator = None if given[-2] is size else given[-2]
    low, high = bounds if len(bounds) == 2 else (0, bounds[0])
    return _random_from(_fitted(out, size), low, high, generator=generator)


_randint_out = {
    (bounds, generators): composite(
        f"randint.{'low_' * (bounds - 1)}{'generator_' * generators}out({'int low, ' * (bounds - 1)}int high, int[] size, *, "
        f"{'Generator? generator, ' * generators}Tensor(a!) out) -> Tensor(a!)",
        method=False,
    )(_randint_into).function
    for bounds in (1, 2)
    for generators in (0, 1)
}


@front("randint")
def randint(*args: Any, low: Any = None, high: Any = None, size: Any = None, generator: Any = None, out: Any = None,
            dtype: Any = _dtype.int64, layout: Any = None, device: Any = None, requires_grad: bool = False,
            pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Integers from [low, high); low is 0 where it is not given."""
    if not _NAMESPACE["HOOK"] and out is None and not requires_grad and (low is None or not args):
        asked = args if low is high is size is None else (*args, *[v for v in (low, high, size) if v is not None])
        first, last = (0, asked[0]) if len(asked) == 2 else asked[:2] if len(asked) == 3 else (None, None)
        if type(first) is type(last) is int and isinstance(asked[-1], tuple):
            quick = _quick_integers(first, last, asked[-1], dtype, device, generator)
            if quick is not None:
                return quick
    low, high, size = _range_arguments(args, low, high, size)
    if high is None or size is None:
        raise TypeError("randint() needs high and size: randint(high, size) or randint(low, high, size)")
    bounds = (high,) if low is None else (low, high)
    if out is not None:
        given = {} if generator is None else {"generator": generator}
        return _randint_out[len(bounds), len(given)](*bounds, size, **given, out=out)
    if generator is None:
        made = (_randint if low is None else _randint_low)(*bounds, size, dtype=dtype, device=device)
    else:
        row = _randint_generator if low is None else _randint_low_generator
        made = row(*bounds, size, generator=generator, dtype=dtype, device=device)
    return made.requires_grad_() if requires_grad else made


def _like_integers(a: Any, low: int, high: int, dtype: Any) -> Any:
    if not a.flags.c_contiguous:
        return _random_from(make(creation._blank_like(a, dtype, None, None)), low, high)._a
    return _random.randint(a.shape, a.dtype if dtype is None else dtype.np, low, high)


def _like_integers_call(self: Tensor, low: int, high: int, dtype: Any) -> Tensor:
    return _random_from(empty_like(self, dtype=dtype), low, high)


_LIKE_OPTIONS = f"{_OPTIONS}, MemoryFormat? memory_format=None"
_randint_like = op(f"randint_like(Tensor self, int high, {_LIKE_OPTIONS}) -> Tensor", out=False, method=False,
                   calls=lambda self, high, dtype, *r: _like_integers_call(self, 0, high, dtype))(
    lambda a, high, dtype, *r: _like_integers(a, 0, high, dtype)
)  # fmt: skip
_randint_like_low = op(f"randint_like.low_dtype(Tensor self, int low, int high, {_LIKE_OPTIONS}) -> Tensor", out=False,
                       method=False, calls=lambda self, low, high, dtype, *r: _like_integers_call(self, low, high, dtype))(
    lambda a, low, high, dtype, *r: _like_integers(a, low, high, dtype)
)  # fmt: skip


@front("randint_like")
def randint_like(input: Tensor, *args: Any, low: Any = None, high: Any = None, dtype: Any = None, device: Any = None,
                 requires_grad: bool = False, **kw: Any) -> Tensor:  # fmt: skip
    """Integers from [low, high) in the shape and dtype of another tensor."""
    low, high, _ = _range_arguments(args, low, high, ())
    if (device is not None and usable(device).type == "meta") or (device is None and input.is_meta):
        return empty_like(input, dtype=dtype, device="meta")
    if low is None:
        made = _randint_like.function(input, high, dtype=dtype)
    else:
        made = _randint_like_low.function(input, low, high, dtype=dtype)
    return made.requires_grad_() if requires_grad else made


@composite("randperm.generator_out(int n, *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)")
def _randperm_out(n: int, generator: Any, out: Tensor) -> Tensor:
    return into(out, make(_random.randperm(n, out._a.dtype, generator)))


def _permuted(n: int, generator: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
    return _random.randperm(n, (dtype or _dtype.int64).np, generator)


def _permuted_call(n: int, generator: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Tensor:
    return _randperm_out.function(n, generator=generator, out=empty((n,), dtype=dtype, device=device))


_randperm = op(f"randperm(int n, {_OPTIONS}) -> Tensor", out=False, calls=lambda n, *r: _permuted_call(n, None, *r))(
    lambda n, *r: _permuted(n, None, *r)
)
_randperm_from = op(f"randperm.generator(int n, {_GENERATOR}) -> Tensor", out=False, calls=_permuted_call)(_permuted)


@front("randperm")
def randperm(n: int, *, generator: Any = None, out: Any = None, dtype: Any = _dtype.int64, layout: Any = None,
             device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """The integers from 0 to n - 1 in random order."""
    if out is None and type(n) is int and not requires_grad:
        np_type = creation.quick_dtype(dtype, device)
        if np_type is not None:
            return make(_random.randperm(n, np_type, generator))
    if out is not None:
        return _randperm_out.function(int(n), generator=generator, out=out)
    if generator is None:
        made = _randperm.function(int(n), dtype=dtype, device=device)
    else:
        made = _randperm_from.function(int(n), generator=generator, dtype=dtype, device=device)
    return made.requires_grad_() if requires_grad else made


@composite(f"normal.float_float(float mean, float std, int[] size, *, Generator? generator=None, {_OPTIONS[3:]}) -> Tensor",
           method=False)  # fmt: skip
def _normal_sized(mean: float, std: float, size: Any, generator: Any, dtype: Any, layout: Any, device: Any,
                  pin_memory: Any) -> Tensor:  # fmt: skip
    return normal_(empty(size, dtype=dtype, device=device), mean, std, generator=generator)


@composite(
    "normal.float_float_out(float mean, float std, int[] size, *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)",
    method=False,
)
def _normal_into(mean: float, std: float, size: Any, generator: Any, out: Tensor) -> Tensor:
    return normal_(_fitted(out, size), mean, std, generator=generator)


@front("normal")
def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None, out: Any = None,
           dtype: Any = None, device: Any = None, requires_grad: bool = False, **kw: Any) -> Tensor:  # fmt: skip
    """Normal numbers; mean and std may be tensors, or numbers with a size."""
    if type(size) is tuple and out is None and type(mean) is type(std) is float and not (kw or requires_grad):
        quick = _quick_normals(size, dtype, device, mean, std, generator)
        if quick is not None:
            return quick
    if size is None:
        return _normal_row(mean, std).function(mean, std, generator=generator, out=out)
    if out is not None:
        return _normal_into.function(mean, std, tuple(size), generator=generator, out=out)
    made = _normal_sized.function(mean, std, tuple(size), generator=generator, dtype=dtype, device=device)
    return made.requires_grad_() if requires_grad else made


def _each(mean: Any, std: Any, generator: Any) -> Any:
    return _random.normal_of(mean, std, generator)


# What was drawn does not depend on the parameters: their gradient is zero, as torch has it.
_NONE: dict[str, Any] = {name: lambda g: zeros_like(g) for name in ("mean", "std")}
_NORMAL = "*, Generator? generator=None) -> Tensor"
_NORMAL_MEANS = op(
    f"normal.Tensor_float(Tensor mean, float std=1.0, {_NORMAL}",
    method=False,
    node="NormalBackward1",
    mean=_NONE["mean"],
)(_each)
_NORMAL_DEVIATIONS = op(
    f"normal.float_Tensor(float mean, Tensor std, {_NORMAL}", method=False, node="NormalBackward2", std=_NONE["std"]
)(_each)
_NORMAL_BOTH = op(
    f"normal.Tensor_Tensor(Tensor mean, Tensor std, {_NORMAL}", method=False, node="NormalBackward3", **_NONE
)(_each)


def _normal_row(mean: Any, std: Any) -> Any:
    if isinstance(std, Tensor):
        return _NORMAL_BOTH if isinstance(mean, Tensor) else _NORMAL_DEVIATIONS
    if isinstance(mean, Tensor):
        return _NORMAL_MEANS
    raise TypeError("normal() received two numbers, a mean and a std; give a size, or a tensor for one of them")


@op(
    "multinomial(Tensor self, int num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor",
    out="exact",
)
def _multinomial(a: Any, num_samples: int, replacement: bool, generator: Any) -> Any:
    return _random.multinomial(a, num_samples, replacement, generator)


@op("poisson(Tensor self, Generator? generator=None) -> Tensor", out=False, self=lambda g: zeros_like(g))
def _poisson(a: Any, generator: Any) -> Any:
    return _random.poisson(a, generator)


@op("binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor", out=False,
    count=lambda g: zeros_like(g), prob=lambda g: zeros_like(g))  # fmt: skip
def _binomial(count: Any, prob: Any, generator: Any) -> Any:
    return _random.binomial(count, prob, generator)
