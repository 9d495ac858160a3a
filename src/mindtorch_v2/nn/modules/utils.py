"""Numbers given once for all dimensions, pieces of `repr`, and prefixes of state dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that gives `n` equal numbers for one, and leaves several as they are."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Iterable[Any], n: int) -> tuple[Any, ...]:
    """Paddings by dimension as `pad` takes them: last dimension first, each `n` times."""
    return tuple(x for x in reversed(tuple(t)) for _ in range(n))


def shown(module: Any, *names: str) -> str:
    """`name=value` of attributes, as layers print them."""
    return ", ".join(f"{name}={getattr(module, name)}" for name in names)


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix (as `module.`) off the keys of a state dict, in place and in their order."""
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    for key in list(metadata or ()):
        if key and (key == prefix.replace(".", "") or key.startswith(prefix)):
            metadata[key[len(prefix) :]] = metadata.pop(key)  # type: ignore[index,union-attr]


__all__ = ["consume_prefix_in_state_dict_if_present"]
