"""Random permutations: torch's sequence of swaps, carried out for all positions at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..checks import not_implemented, type_name
from ..compiled import C
from .arrays import DIGITS, INTEGERS, Array, from_int64
from .engine import Engine, Generator, engine_of

Positions = npt.NDArray[np.intp]

_INT64 = np.dtype(np.int64)
_FEW = 400  # below, a plain loop over a list is the fastest
_MANY = (1 << 32) // 20  # from here on torch draws 64 bits a position, and shuffles the other way round
_LOW32 = np.uint64((1 << 32) - 1)


def randperm(n: int, dtype: npt.DTypeLike = np.int64, generator: Generator | None = None) -> Array:
    """The numbers 0 to n - 1 in random order."""
    engine = engine_of(generator)
    if dtype is _INT64 and 0 <= n < _MANY:
        made = np.empty(n, _INT64)
        if engine.pour_order(made):
            return made
    dtype = np.dtype(dtype)
    _check(n, dtype)
    with engine.lock:
        order = _forwards(engine, n) if n < _MANY else _inside_out(engine, n)
    return from_int64(order, dtype)


def _forwards(engine: Engine, n: int) -> npt.NDArray[np.int64]:
    """Swap each position but the last with itself or a later one."""
    steps = max(n - 1, 0)
    targets = engine.words32(steps) % np.arange(n, 1, -1, dtype=np.uint32) + np.arange(steps, dtype=np.uint32)
    return np.array(_swap_in_turn(n, targets.tolist()), np.int64) if n < _FEW else apply_swaps(n, targets)


def _inside_out(engine: Engine, n: int) -> npt.NDArray[np.int64]:
    """Swap each position with itself or an earlier one.

    Read backwards and from the far end, that is the sequence of swaps with later positions which undoes this one.
    """
    earlier = engine.words64(n) % np.arange(1, n + 1, dtype=np.uint64)
    undone = apply_swaps(n, (n - 1 - earlier.astype(np.int64))[::-1][:-1])
    order = np.empty(n, np.int64)
    order[n - 1 - undone] = np.arange(n - 1, -1, -1)
    return order


def _swap_in_turn(n: int, targets: list[int]) -> list[int]:
    order = list(range(n))
    for i, target in enumerate(targets):
        order[i], order[target] = order[target], order[i]
    return order


def apply_swaps(n: int, targets: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """What swapping position i with `targets[i]` >= i, for each i in turn, makes of 0, 1, ..., n - 1.

    A value that swap i moves up to position t stays there until the next swap into t fetches it, or until t's own
    turn moves it on. Sorting the swaps by target therefore tells, for every swap, whose value it fetches.
    """
    if C is not None:
        order = np.arange(n)
        if C.swap_in_turn(order, np.ascontiguousarray(targets, np.int64)):
            return order
    sources = np.flatnonzero(targets != np.arange(targets.size, dtype=targets.dtype))
    keys = targets.take(sources).astype(np.uint64) << np.uint64(32) | sources.astype(np.uint64)
    keys.sort()
    target, source = (keys >> np.uint64(32)).astype(np.intp), (keys & _LOW32).astype(np.intp)
    last = np.append(np.flatnonzero(target[1:] != target[:-1]), target.size - 1) if target.size else target
    held = _values_held(n, target.take(last), source.take(last))
    # The first to reach into a position finds the position's own number, a later one what the one before left there.
    found = target.copy()
    np.copyto(found[1:], held.take(source[:-1]), where=target[1:] == target[:-1])
    held[source] = found  # a position that swaps with itself keeps what it holds
    return held.astype(np.int64, copy=False)


def _values_held(n: int, target: Positions, source: Positions) -> Positions:
    """The value each position holds when its turn comes: its own, or what the last swap from `source` left there.

    What a source left is what it held itself, so the chains are followed to their ends, by doubling.
    """
    held = np.arange(n)
    held[target] = source
    while target.size:
        found = held.take(target)
        further = held.take(found)
        held[target] = further
        target = target.take(np.flatnonzero(further != found))
    return held


def _check(n: int, dtype: np.dtype[Any]) -> None:
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    if dtype in INTEGERS:
        if n - 1 > np.iinfo(dtype).max:
            raise RuntimeError(f"value cannot be converted to type {dtype}_t without overflow")
    elif dtype not in DIGITS:
        raise not_implemented("randperm", dtype)
    elif type_name(dtype) != "BFloat16" and n > (1 << DIGITS[dtype]) + 1:
        limit = "2049" if type_name(dtype) == "Half" else f"2^{DIGITS[dtype]}+1"
        raise RuntimeError(f"n cannot be greater than {limit} for {type_name(dtype)} type.")
