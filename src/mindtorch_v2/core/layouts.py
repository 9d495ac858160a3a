"""How results lie in memory: torch's rules for strides, as functions of the shapes and strides of operands.

Strides are in elements. It knows no arrays; `kernels/result_layout.py` puts arrays in the order that is found here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

Ints: TypeAlias = tuple[int, ...]
# An operand's shape and strides.
Geometry: TypeAlias = tuple[Ints, Ints]

_KEPT = 4096  # programs that go through more layouts than this gain nothing from looking them up


@lru_cache(_KEPT)
def in_elements(strides: Ints, itemsize: int) -> Ints:
    """Strides in bytes as those in elements."""
    return tuple([s // itemsize for s in strides])


@lru_cache(_KEPT)
def in_bytes(strides: Ints, itemsize: int) -> Ints:
    """Strides in elements as those in bytes."""
    return tuple([s * itemsize for s in strides])


@lru_cache(_KEPT)
def contiguous_strides(shape: Ints) -> Ints:
    """Row-major strides (dimensions of size 0 count as 1)."""
    return _in_order(shape, range(len(shape)))


@lru_cache(_KEPT)
def channels_last_strides(shape: Ints) -> Ints:
    """Strides of images, or volumes, whose channels lie side by side."""
    return _in_order(shape, [0, *range(2, len(shape)), 1])


def _in_order(shape: Sequence[int], order: Sequence[int]) -> Ints:
    """Strides of a shape whose dimensions lie in memory in `order`, outermost first."""
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def follows(shape: Sequence[int], strides: Sequence[int], expected: Sequence[int]) -> bool:
    """Whether strides come to the expected ones: those of dimensions of one element mean nothing."""
    return all(n == 1 or s == e for n, s, e in zip(shape, strides, expected, strict=True))


@lru_cache(_KEPT)
def viewed(shape: Ints, strides: Ints, size: Ints) -> Ints | None:
    """Strides of the same memory in another shape of as many elements, which are some; None where no strides do that. What
    follows the last dimension that is not the next one's multiple goes to the last new dimensions, and so on."""
    found: list[int] = []  # innermost first
    step, count, filled = strides[-1] if strides else 1, 1, 1
    for d in range(len(shape) - 1, -1, -1) if shape else (0,):
        count *= shape[d] if shape else 1
        if d > 0 and (shape[d - 1] == 1 or strides[d - 1] == count * step):
            continue
        while len(found) < len(size) and (filled < count or size[-1 - len(found)] == 1):
            n = size[-1 - len(found)]
            found.append(filled * step)
            filled *= n
        if filled != count:
            return None
        if d > 0:
            step, count, filled = strides[d - 1], 1, 1
    return tuple(found[::-1])


@lru_cache(_KEPT)
def is_dense(shape: Ints, strides: Ints) -> bool:
    """Whether elements fill memory without gaps, no two in one place, in whatever order of dimensions."""
    step = 1
    for s, n in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if s != step:
            return False
        step *= n
    return True


@lru_cache(_KEPT)
def suggests_channels_last(shape: Ints, strides: Ints) -> bool:
    """Whether results of ops on images and volumes are channels_last for an input like this, gaps or not: the strides of
    channels, then columns, rows and images never fall. Where sizes of one leave it open, it is not."""
    rank = len(shape)
    if rank not in (4, 5) or strides[1] == 0 or 0 in shape:
        return False
    least = 0
    for d in (1, *range(rank - 1, 1, -1), 0):
        if strides[d] < least or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * max(shape[d], 1)
    return True


@lru_cache(_KEPT)
def like(shape: Ints, strides: Ints) -> Ints:
    """Strides of a copy, or of a new tensor like one: the same without gaps, else in the same order."""
    return strides if is_dense(shape, strides) else _in_order(shape, _order(shape, (strides,)))


@lru_cache(_KEPT)
def elementwise(shape: Ints, operands: tuple[Geometry, ...]) -> Ints:
    """Strides of what an elementwise op makes of operands that are spread over `shape`: operands of one shape that all lie
    alike give their own; else dimensions go in the order of the first operand that tells them apart."""
    if all(given == shape for given, _ in operands):
        for strides in (contiguous_strides(shape), *((channels_last_strides(shape),) if len(shape) == 4 else ())):
            if all(follows(shape, own, strides) for _, own in operands):
                return strides
        first = operands[0][1]
        if is_dense(shape, first) and all(own == first for _, own in operands):
            return first
    return _in_order(shape, _order(shape, [_spread(shape, *operand) for operand in operands]))


def _spread(shape: Ints, own: Ints, strides: Ints) -> Ints:
    """The strides of an operand spread over a larger shape."""
    lead = len(shape) - len(own)
    spread = (0 if n == 1 and n != whole else s for n, s, whole in zip(own, strides, shape[lead:], strict=True))
    return (0,) * lead + tuple(spread)


def _order(shape: Ints, strides: Sequence[Ints]) -> list[int]:
    """Dimensions, outermost first: as they are numbered, unless an operand says otherwise. Found by insertion, as what
    cannot be told apart may stand anywhere."""
    order = list(range(len(shape)))[::-1]  # innermost first
    for i in range(1, len(order)):
        place = i
        for j in range(i - 1, -1, -1):
            verdict = _lies_outside(order[j], order[place], shape, strides)
            if verdict > 0:
                order[j], order[place] = order[place], order[j]
                place = j
            elif verdict < 0:
                break
    return order[::-1]


def _lies_outside(a: int, b: int, shape: Ints, strides: Sequence[Ints]) -> int:
    """1 if dimension a is to lie outside of b, -1 if it is not, 0 if no operand says."""
    for own in strides:
        if own[a] == 0 or own[b] == 0:
            continue
        if own[a] != own[b]:
            return 1 if own[a] > own[b] else -1
        if shape[a] > shape[b]:
            return 1
    return 0
