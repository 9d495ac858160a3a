"""Rows of random numbers: factories and samplers on the generators of `random`."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ...autograd import graph
from ...core import device as _device
from ...core import dtype as _dtype
from ...core import tap
from ...core.device import usable
from ...core.errors import broadcast_error
from ...core.meta import MetaArray, meta
from ...core.tensor import Tensor, make, settle_class
from ...dispatch.front import front
from ...dispatch.inside import inside
from ...dispatch.op import OPS, composite, op
from ...kernels import random, result_layout
from ...kernels.compiled import C
from ...kernels.result_layout import is_row_major
from ..meta import shapes
from . import fill as creation
from .fill import _OPTIONS, checked_size, empty, empty_like, into, np_dtype, zeros_like
from .random_fills import fitted, normal_, random_from, uniform_

_DEFAULT = _dtype._Default
_F32, _F64, _I64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
_NAMESPACE = tap.NAMESPACE
_GENERATOR = f"*, Generator? generator, {_OPTIONS[3:]}"
_LIKE_GENERATOR = f"{_GENERATOR}, MemoryFormat? memory_format=None"


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
    return _quick_draw(random.normal, size, dtype, device, mean, std, generator)


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
        lambda size, out: fill(fitted(out, size))
    )
    out_row_from = composite(
        f"{name}.generator_out(int[] size, *, Generator? generator, Tensor(a!) out) -> Tensor(a!)", method=False
    )(lambda size, generator, out: fill(fitted(out, size), generator=generator))

    def public(*size: Any, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
               device: Any = None, requires_grad: bool = False, pin_memory: bool = False, **kw: Any) -> Tensor:  # fmt: skip
        if (layout is not None or pin_memory is not False) and out is None:
            _device.check_options(name, layout, pin_memory, device)
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
                    return make(blank).requires_grad_(requires_grad) if requires_grad else make(blank)
                try:
                    blank = np.empty(plainly, np_type)
                except (TypeError, ValueError, MemoryError):
                    pass  # the long way says what is wrong
                else:
                    write(blank, 0.0, 1.0, generator)
                    made = make(blank)
                    return made.requires_grad_(requires_grad) if requires_grad else made
        sizes = size[0] if len(size) == 1 and not isinstance(size[0], (int, np.integer)) else size
        if out is not None:
            if generator is None:
                return out_row.function(sizes, out=out)
            return out_row_from.function(sizes, generator=generator, out=out)
        if generator is None:
            made = plain.function(sizes, dtype=dtype, device=device)
        else:
            made = given.function(sizes, generator=generator, dtype=dtype, device=device)
        return made.requires_grad_(requires_grad) if requires_grad else made

    public.__name__ = public.__qualname__ = name
    front(name)(public)


def _lay_out_like(made: Any, a: Any, *options: Any) -> Any:
    """Numbers in the memory format that the last option asks for."""
    return result_layout.arranged(made, result_layout.strides_in(a, options[-1]))


def _alike(name: str, fill: Any, draw: Any, quick: Any) -> None:
    """rand_like and randn_like, in the same way."""

    def like(input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
             pin_memory: bool = False, memory_format: Any = None, generator: Any = None) -> Tensor:  # fmt: skip
        if layout is not None or pin_memory is not False:
            _device.check_options(f"{name}_like", layout, pin_memory, input.device if device is None else device)
        if generator is not None:
            t = from_row.function(input, generator=generator, dtype=dtype, device=device, memory_format=memory_format)
        elif dtype is device is memory_format is None:
            t = like_row.function(input)
        else:
            t = like_row.function(input, dtype=dtype, device=device, memory_format=memory_format)
        return t.requires_grad_(requires_grad) if requires_grad else t

    def like_call(self: Tensor, dtype: Any, layout: Any, device: Any, pin_memory: Any, memory_format: Any) -> Tensor:
        return fill(empty_like(self, dtype=dtype, device=device, memory_format=memory_format))

    def like_kernel(a: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any, memory_format: Any) -> Any:
        made = creation._blank_like(a, dtype, device, memory_format)
        if type(made) is MetaArray:
            return made
        return draw(made.shape, made.dtype) if is_row_major(made) else fill(make(made))._a

    def like_itself(a: Any, *rest: Any) -> Any:
        made = None if quick is None else quick(a.shape, a.dtype, 0.0, 1.0)
        return draw(a.shape, a.dtype) if made is None else made

    like_row = op(
        f"{name}_like({creation._LIKE}) -> Tensor",
        meta=shapes.by_kernel,
        out=False,
        calls=like_call,
        fast=(f"{creation._LIKE_ITSELF} and input._a.flags.c_contiguous", like_itself),
        layout=_lay_out_like,
    )(like_kernel)
    from_row = composite(f"{name}_like.generator(Tensor self, {_LIKE_GENERATOR}) -> Tensor", method=False)(
        lambda self, generator, dtype, layout, device, pin_memory, memory_format: fill(
            empty_like(self, dtype=dtype, device=device, memory_format=memory_format), generator=generator
        )
    )
    like.__name__ = like.__qualname__ = f"{name}_like"
    front(like.__name__)(like)


_new_uniforms, _new_normals = (None, None) if C is None else (C.new_uniforms, C.new_normals)
_sized("rand", uniform_, random.uniform, random.uniform_, _new_uniforms)
_sized("randn", normal_, random.normal, random.normal_, _new_normals)
_alike("rand", uniform_, random.uniform, _new_uniforms)
_alike("randn", normal_, random.normal, _new_normals)


def _quick_integers(low: int, high: int, size: Any, dtype: Any, device: Any, generator: Any) -> Tensor | None:
    """Integers of a plain size on the CPU, each of one random word, that nobody records; else None."""
    if 0 < high - low < 1 << 28 and -(1 << 62) < low < 1 << 62 and creation.quick_dtype(dtype, device) is _I64:
        made = C.new_below(size, low, high - low) if generator is None and C is not None else None
        if made is not None:
            return make(made)
    return _quick_draw(random.randint, size, dtype, device, low, high, generator)


def _integers(low: int, high: int, size: Any, generator: Any, dtype: Any, layout: Any, device: Any, pin: Any) -> Any:
    d = dtype or _dtype.int64
    sizes = checked_size(size)
    if usable(device).type == "meta":
        return meta(sizes, d.np)
    return random.randint(sizes, d.np, low, high, generator)


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


def _range_arguments(name: str, args: tuple[Any, ...], low: Any, high: Any, size: Any) -> tuple[Any, Any, Any]:
    if low is high is size is None and 2 <= len(args) <= 3 and type(args[-1]) is tuple:
        if type(args[-2]) is type(args[0]) is int:
            return (args[0] if len(args) == 3 else None), args[-2], args[-1]
    values = [int(a) if isinstance(a, (np.integer, Tensor)) else a for a in args]
    if any(isinstance(v, str) for v in (*values, low, high, size)):
        raise TypeError(f"{name}(): bounds must be int and size tuple of ints, got {', '.join(map(repr, args))}")
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
    return random_from(fitted(out, size), low, high, generator=generator)


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
    if (layout is not None or pin_memory is not False) and out is None:
        _device.check_options("randint", layout, pin_memory, device)
    if not _NAMESPACE["HOOK"] and out is None and not requires_grad and (low is None or not args):
        requested = args if low is high is size is None else (*args, *[v for v in (low, high, size) if v is not None])
        first, last = (
            (0, requested[0]) if len(requested) == 2 else requested[:2] if len(requested) == 3 else (None, None)
        )
        if type(first) is type(last) is int and isinstance(requested[-1], tuple):
            quick = _quick_integers(first, last, requested[-1], dtype, device, generator)
            if quick is not None:
                return quick
    low, high, size = _range_arguments("randint", args, low, high, size)
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
    return made.requires_grad_(requires_grad) if requires_grad else made


def _like_integers(a: Any, low: int, high: int, dtype: Any, memory_format: Any) -> Any:
    if memory_format is not None or not is_row_major(a):
        return random_from(make(creation._blank_like(a, dtype, None, memory_format)), low, high)._a
    return random.randint(a.shape, a.dtype if dtype is None else dtype.np, low, high)


def _like_integers_call(self: Tensor, low: int, high: int, dtype: Any, memory_format: Any) -> Tensor:
    return random_from(empty_like(self, dtype=dtype, memory_format=memory_format), low, high)


_LIKE_OPTIONS = f"{_OPTIONS}, MemoryFormat? memory_format=None"
_randint_like = op(f"randint_like(Tensor self, int high, {_LIKE_OPTIONS}) -> Tensor", meta=shapes.by_kernel, out=False,
                   method=False, calls=lambda self, high, dtype, *r: _like_integers_call(self, 0, high, dtype, r[-1]),
                   layout=_lay_out_like)(
    lambda a, high, dtype, *r: _like_integers(a, 0, high, dtype, r[-1])
)  # fmt: skip
_randint_like_low = op(f"randint_like.low_dtype(Tensor self, int low, int high, {_LIKE_OPTIONS}) -> Tensor",
                       meta=shapes.by_kernel, out=False, method=False,
                       calls=lambda self, low, high, dtype, *r: _like_integers_call(self, low, high, dtype, r[-1]),
                       layout=_lay_out_like)(
    lambda a, low, high, dtype, *r: _like_integers(a, low, high, dtype, r[-1])
)  # fmt: skip


def _like_integers_from(
    self: Tensor,
    low: int,
    high: int,
    generator: Any,
    dtype: Any,
    layout: Any,
    device: Any,
    pin: Any,
    memory_format: Any,
) -> Tensor:
    return random_from(empty_like(self, dtype=dtype, memory_format=memory_format), low, high, generator=generator)


_randint_like_from = composite(
    f"randint_like.generator(Tensor self, int high, {_LIKE_GENERATOR}) -> Tensor", method=False
)(lambda self, high, *rest: _like_integers_from(self, 0, high, *rest))
_randint_like_low_from = composite(
    f"randint_like.low_generator_dtype(Tensor self, int low, int high, {_LIKE_GENERATOR}) -> Tensor", method=False
)(_like_integers_from)


@front("randint_like")
def randint_like(input: Tensor, *args: Any, low: Any = None, high: Any = None, dtype: Any = None, device: Any = None,
                 requires_grad: bool = False, memory_format: Any = None, layout: Any = None, pin_memory: bool = False,
                 generator: Any = None) -> Tensor:  # fmt: skip
    """Integers from [low, high) in the shape and dtype of another tensor."""
    if layout is not None or pin_memory is not False:
        _device.check_options("randint_like", layout, pin_memory, input.device if device is None else device)
    low, high, _ = _range_arguments("randint_like", args, low, high, ())
    if device is not None and usable(device) != input.device:
        input = settle_class(empty_like(input, device=device))
    if input.is_meta:
        made = settle_class(empty_like(input, dtype=dtype, memory_format=memory_format))
    elif generator is not None:
        row, bounds = (_randint_like_from, (high,)) if low is None else (_randint_like_low_from, (low, high))
        made = row.function(input, *bounds, generator=generator, dtype=dtype, memory_format=memory_format)
    elif low is None:
        made = _randint_like.function(input, high, dtype=dtype, memory_format=memory_format)
    else:
        made = _randint_like_low.function(input, low, high, dtype=dtype, memory_format=memory_format)
    return made.requires_grad_(requires_grad) if requires_grad else made


@composite("randperm.generator_out(int n, *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)")
def _randperm_out(n: int, generator: Any, out: Tensor) -> Tensor:
    return into(out, make(random.randperm(n, out._a.dtype, generator)))


def _permuted(n: int, generator: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
    if usable(device).type == "meta":
        return meta(checked_size(n), (dtype or _dtype.int64).np)
    return random.randperm(n, (dtype or _dtype.int64).np, generator)


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
    if (layout is not None or pin_memory is not False) and out is None:
        _device.check_options("randperm", layout, pin_memory, device)
    if out is None and type(n) is int and not requires_grad:
        np_type = creation.quick_dtype(dtype, device)
        if np_type is not None:
            return make(random.randperm(n, np_type, generator))
    if out is not None:
        return _randperm_out.function(operator.index(n), generator=generator, out=out)
    if generator is None:
        made = _randperm.function(operator.index(n), dtype=dtype, device=device)
    else:
        made = _randperm_from.function(operator.index(n), generator=generator, dtype=dtype, device=device)
    return made.requires_grad_(requires_grad) if requires_grad else made


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
    return normal_(fitted(out, size), mean, std, generator=generator)


@front("normal")
def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None, out: Any = None,
           dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None,
           pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Normal numbers; mean and std may be tensors, or numbers with a size."""
    if (layout is not None or pin_memory is not False) and out is None:
        _device.check_options("normal", layout, pin_memory, device)
    if type(size) is tuple and out is None and type(mean) is type(std) is float and not requires_grad:
        quick = _quick_normals(size, dtype, device, mean, std, generator)
        if quick is not None:
            return quick
    if size is None:
        row = _normal_row(mean, std)
        if out is not None:
            return _NORMAL_OUT[row].function(mean, std, generator=generator, out=out)
        return row.function(mean, std, generator=generator)
    if out is not None:
        return _normal_into.function(mean, std, tuple(size), generator=generator, out=out)
    made = _normal_sized.function(mean, std, tuple(size), generator=generator, dtype=dtype, device=device)
    return made.requires_grad_(requires_grad) if requires_grad else made


def _each(mean: Any, std: Any, generator: Any) -> Any:
    return random.normal_of(mean, std, generator)


# What was drawn does not depend on the parameters: their gradient is zero, as torch has it.
_NONE: dict[str, Any] = {name: lambda g: zeros_like(g) for name in ("mean", "std")}
_NORMAL = "*, Generator? generator=None) -> Tensor"


def _normal_each_into(mean: Any, std: Any, generator: Any, out: Tensor) -> Tensor:
    """Draws into a given tensor, which are then scaled and moved."""
    each = isinstance(std, Tensor)
    shapes = [v._a.shape for v in (mean, std, *(() if each else (out,))) if isinstance(v, Tensor)]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise broadcast_error(*shapes[:2]) from None
    if each:
        random.check_deviations(std._a)
    if out._a.shape != shape:
        graph.resize_out(out, meta(shape, out._a.dtype))
    normal_(out, 0.0, 1.0 if each else std, generator=generator)
    return (out.mul_(std) if each else out).add_(mean)


_NORMAL_MEANS = op(
    f"normal.Tensor_float(Tensor mean, float std=1.0, {_NORMAL}",
    meta=shapes.all_broadcast,
    method=False,
    out=False,
    node="NormalBackward1",
    mean=_NONE["mean"],
)(_each)
_NORMAL_DEVIATIONS = op(
    f"normal.float_Tensor(float mean, Tensor std, {_NORMAL}",
    meta=shapes.all_broadcast,
    method=False,
    out=False,
    node="NormalBackward2",
    std=_NONE["std"],
)(_each)
_NORMAL_BOTH = op(
    f"normal.Tensor_Tensor(Tensor mean, Tensor std, {_NORMAL}",
    meta=shapes.all_broadcast,
    method=False,
    out=False,
    node="NormalBackward3",
    **_NONE,
)(_each)


_NORMAL_OUT = {
    row: composite(
        f"normal.{row.overload}_out({first} mean, {second}, *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)",
        method=False,
    )(_normal_each_into)
    for row, first, second in (
        (_NORMAL_MEANS, "Tensor", "float std=1.0"),
        (_NORMAL_DEVIATIONS, "float", "Tensor std"),
        (_NORMAL_BOTH, "Tensor", "Tensor std"),
    )
}


def _normal_row(mean: Any, std: Any) -> Any:
    if isinstance(std, Tensor):
        return _NORMAL_BOTH if isinstance(mean, Tensor) else _NORMAL_DEVIATIONS
    if isinstance(mean, Tensor):
        return _NORMAL_MEANS
    raise TypeError("normal() received two numbers, a mean and a std; give a size, or a tensor for one of them")


@op(
    "multinomial(Tensor self, int num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor",
    meta=shapes.result_rule(lambda a, count, *rest: meta((*a.shape[:-1], count), shapes.INT64)),
    out="exact",
)
def _multinomial(a: Any, num_samples: int, replacement: bool, generator: Any) -> Any:
    return random.multinomial(a, num_samples, replacement, generator)


@op(
    "poisson(Tensor self, Generator? generator=None) -> Tensor",
    meta=shapes.like_nth(0),
    out=False,
    self=lambda g: zeros_like(g),
)
def _poisson(a: Any, generator: Any) -> Any:
    return random.poisson(a, generator)


@op("binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor", meta=shapes.all_broadcast, out=False,
    count=lambda g: zeros_like(g), prob=lambda g: zeros_like(g))  # fmt: skip
def _binomial(count: Any, prob: Any, generator: Any) -> Any:
    return random.binomial(count, prob, generator)
