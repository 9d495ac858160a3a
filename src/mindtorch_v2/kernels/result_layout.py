"""Arrays in the order in memory that torch gives results: `laid` puts what a kernel makes into it.

The rules themselves are in `layouts`. A kernel may lay out its result as it likes: where an operand is not in plain
row-major order, its rule says how the result lies, and a result that lies otherwise is copied once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..core import device, layouts
from ..core.layouts import Ints
from ..core.meta import MetaArray, meta
from .compiled import STAND_INS, C, looked_at

Function = Callable[..., Any]
# A rule is a function of a kernel's results and of its arguments, and gives the results laid out.
Rule: TypeAlias = Callable[..., Any]


# The ranks of the formats that put channels last.
CHANNELS_LAST = {device.channels_last: 4, device.channels_last_3d: 5}


def strides_of(a: Any) -> Ints:
    """Strides in elements."""
    return layouts.in_elements(a.strides, a.dtype.itemsize)


def blank(shape: Ints, dtype: Any, strides: Ints, on_meta: bool = False) -> Any:
    """A new array with these strides, which leave no gaps."""
    if on_meta:
        return meta(shape, dtype, strides)
    if 0 in shape:
        return np.empty(shape, dtype)
    dtype = np.dtype(dtype)
    memory = np.empty(math.prod(shape), dtype)
    return looked_at(memory, shape, layouts.in_bytes(strides, dtype.itemsize))


def strides_in(a: Any, memory_format: Any) -> Ints:
    """The strides of something new like `a` in a memory format; without one, in the order that `a` has."""
    if memory_format is None or memory_format is device.preserve_format:
        return layouts.like(a.shape, strides_of(a))
    return format_strides(a.shape, memory_format)


def format_strides(shape: Ints, memory_format: Any) -> Ints:
    """The strides of a shape in a memory format."""
    rank = CHANNELS_LAST.get(memory_format)
    if rank is None:
        return layouts.contiguous_strides(shape)
    if len(shape) != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {memory_format.name} format")
    return layouts.channels_last_strides(shape)


def _is_row_major(a: Any) -> bool:
    return bool(a.flags.c_contiguous) and (1 not in a.shape or strides_of(a) == layouts.contiguous_strides(a.shape))


# Whether an array has row-major strides, in dimensions of one element too.
is_row_major: Any = _is_row_major if C is None else C.row_major


def in_strides(a: Any, strides: Ints) -> Any:
    """The memory of a new array, which leaves no gaps, with other strides that leave none."""
    if type(a) is MetaArray:
        return meta(a.shape, a.dtype, strides)
    return looked_at(a, a.shape, layouts.in_bytes(strides, a.dtype.itemsize)) if a.size else a


def arranged(a: Any, strides: Ints) -> Any:
    """`a` with these strides: itself, another look at its memory where only dimensions of one element differ, or a copy."""
    own = strides_of(a)
    if own == strides or 0 in a.shape:
        return a
    if type(a) is MetaArray or layouts.follows(a.shape, own, strides):
        return in_strides(a, strides)
    made = blank(a.shape, a.dtype, strides)
    np.copyto(made, a)
    return made


def is_in(a: Any, strides: Ints) -> bool:
    """Whether an array lies as these strides say."""
    return layouts.follows(a.shape, strides_of(a), strides)


def lies_as_leaf(gradient: Any, leaf: Any) -> bool:
    """Whether a gradient lies as that of a leaf is to: as the leaf itself, or in row-major order if that has gaps."""
    if leaf.flags.c_contiguous or not layouts.is_dense(leaf.shape, strides_of(leaf)):
        return bool(gradient.flags.c_contiguous)
    return is_in(gradient, strides_of(leaf))


def is_channels_last(a: Any) -> bool:
    """Whether an array suggests channels_last results."""
    return a.ndim in (4, 5) and layouts.suggests_channels_last(a.shape, strides_of(a))


def suggested_format(a: Any) -> Any:
    """The memory format that an array suggests."""
    if not is_channels_last(a):
        return device.contiguous_format
    return device.channels_last if a.ndim == 4 else device.channels_last_3d


# --- rules ------------------------------------------------------------------------------------------------------------


def elementwise(results: Any, *given: Any) -> Any:
    """As `layouts.elementwise` says of the arrays among the arguments."""
    if type(results) in (tuple, list):
        return type(results)([elementwise(r, *given) for r in results])
    if not isinstance(results, np.ndarray) or not results.ndim:
        return results
    first = next((a for a in given if isinstance(a, np.ndarray) and any(a.strides)), None)
    if first is not None and _lies_like(results, first):
        return results
    operands = tuple([(a.shape, strides_of(a)) for a in given if isinstance(a, np.ndarray)])
    return arranged(results, layouts.elementwise(results.shape, operands))


def _lies_like(made: Any, first: Any) -> bool:
    """Whether a new array lies as the first operand that lies in any order. Where that has no dimension of one element, it
    settles the order of all of them."""
    shape: Ints = first.shape
    if made.strides != first.strides or made.shape != shape or 1 in shape:
        return False
    return made.dtype is first.dtype and type(made) is type(first)


def second_first(results: Any, first: Any, second: Any, *others: Any) -> Any:
    """The same where the second argument counts before the first."""
    return elementwise(results, second, first)


def with_number(results: Any, *given: Any) -> Any:
    """The same for a tensor and a number, which counts as an operand without dimensions."""
    operands = tuple([(a.shape, strides_of(a)) if isinstance(a, np.ndarray) else ((), ()) for a in given])
    return arranged(results, layouts.elementwise(results.shape, operands))


def of_first_alone(results: Any, first: Any, *others: Any) -> Any:
    """The same where the first argument is the only operand, whatever numbers come with it."""
    return elementwise(results, first)


def as_first(results: Any, first: Any, *others: Any) -> Any:
    """Like copies of the first argument."""
    if type(results) in (tuple, list):
        return type(results)([as_first(r, first) for r in results])
    return arranged(results, layouts.like(first.shape, strides_of(first)))


def as_first_unless_reduced(results: Any, first: Any, *others: Any) -> Any:
    """The same for ops that may give a single number, too."""
    return as_first(results, first) if results.ndim else results


def suggested(results: Any, first: Any, *others: Any) -> Any:
    """In the memory format that the first argument suggests: channels_last or plain."""
    return in_format(results, is_channels_last(first))


def suggested_by(place: int) -> Rule:
    """In the memory format that the argument at a place suggests."""

    def rule(results: Any, *given: Any) -> Any:
        return in_format(results, is_channels_last(given[place]))

    return rule


def joined(results: Any, arrays: Any, *rest: Any) -> Any:
    """In the memory format that all of a list of arrays suggest."""
    return in_format(results, all(map(is_channels_last, arrays)))


def in_format(results: Any, channels_last: bool) -> Any:
    """Results of as many dimensions as formats have in one of the two; others plain."""
    if type(results) in (tuple, list):
        return type(results)([in_format(r, channels_last) for r in results])
    if not isinstance(results, np.ndarray):
        return results
    rule = layouts.channels_last_strides if channels_last and results.ndim in (4, 5) else layouts.contiguous_strides
    return arranged(results, rule(results.shape))


def plain(results: Any, *given: Any) -> Any:
    """In row-major order."""
    return in_format(results, False)


def as_made(results: Any, *given: Any) -> Any:
    """As the kernel lays them out."""
    return results


# --- kernels with their rule ------------------------------------------------------------------------------------------


def leave_open(given: Sequence[Any]) -> bool:
    """Whether arguments leave the order of results open: all arrays, in lists too, are in row-major order."""
    for a in given:
        if isinstance(a, np.ndarray):
            if not _is_row_major(a):
                return False
        elif isinstance(a, (list, tuple)) and not leave_open(a):
            return False
    return True


class _Laid:
    """A kernel and the rule of its results."""

    def __init__(self, kernel: Function, rule: Rule) -> None:
        self.kernel, self.rule = kernel, rule

    def __call__(self, *given: Any, **named: Any) -> Any:
        results = self.kernel(*given, **named)
        if (self.rule is not plain and leave_open(given)) or named.get("out") is not None:
            return results
        return self.rule(results, *given)


Laid: Any = _Laid if C is None else C.Laid


def laid(kernel: Any, rule: Rule | None) -> Any:
    """`kernel` with its results laid out by `rule`."""
    if rule is None or kernel is None:
        return kernel
    return Laid(kernel, rule) if C is None else C.Laid(kernel, rule, rule is elementwise, rule is plain)


def unlaid(kernel: Any) -> Any:
    """A kernel without the rule it was given."""
    return kernel.kernel if isinstance(kernel, Laid) else kernel


def rule_alone(rule: Rule) -> Rule:
    """A rule for generated code, which runs kernels without theirs: quicker where a result lies as it should."""
    return C.settle if C is not None and rule is elementwise else rule


# What lays out its results itself.
_KNOWING = () if C is None else (*STAND_INS.values(), C.exp, C.tanh)


def lays_itself(ufunc: Any, rule: Any) -> bool:
    """Whether generated code finds a ufunc that lays out its results; a kernel in Python is quicker called from there."""
    return C is not None and rule is elementwise and (isinstance(ufunc, np.ufunc) or ufunc in _KNOWING)


@functools.cache
def laid_ufunc(ufunc: Any) -> Any:
    """A ufunc, or what stands in for it and knows the rule itself, with results laid out as torch's elementwise ops do."""
    ufunc = STAND_INS.get(ufunc, ufunc)
    return ufunc if ufunc in _KNOWING else laid(ufunc, elementwise)


if C is not None:
    C.lay_out_by(elementwise)
