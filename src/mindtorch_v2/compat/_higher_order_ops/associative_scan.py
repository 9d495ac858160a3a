"""The scan that state space models ask for; nothing is compiled, so it is a plain loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ops.shape.join import stack
from ...utils._pytree import tree_flatten, tree_unflatten


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """Along a dimension, each slice combined with all before it (after it, in reverse); a loop does so in both modes."""
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    leaves, tree = tree_flatten(xs)
    slices = [list(leaf.unbind(dim)) for leaf in leaves]
    order = range(len(slices[0]))
    results: list[list[Any]] = []
    for i in reversed(order) if reverse else order:
        here = [row[i] for row in slices]
        if results:
            both = combine_fn(tree_unflatten(results[-1], tree), tree_unflatten(here, tree))
            here = tree_flatten(both)[0]
        results.append(here)
    if reverse:
        results.reverse()
    return tree_unflatten([stack(list(row), dim) for row in zip(*results, strict=True)], tree)


__all__ = ["associative_scan"]
