"""Exchanging two tensors, so that whoever holds one has what the other was."""

from __future__ import annotations

import sys
import weakref
from typing import Any

from ..core.tensor import Tensor
from .node import AccumulateGrad

_SLOTS = ("_a", "_ag", "_v", "_view", "_k", "__dict__")
_set_class = object.__dict__["__class__"].__set__  # also where a class says that it is another
# What refers to a leaf's node where no graph does: the leaf's slot, a local variable and the argument of `getrefcount`.
_ALONE = 3


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange two tensors: whoever holds one has what the other was from then on, its type and attributes included."""
    for name, tensor in (("t1", t1), ("t2", t2)):
        own = getattr(tensor._ag, "ref", None)
        if any(reference is not own for reference in weakref.getweakrefs(tensor)):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    for tensor in (t1, t2):
        _end_in_error(tensor)
    first_class, second_class = type(t1), type(t2)
    _set_class(t1, second_class)
    _set_class(t2, first_class)
    missing = object()
    for slot in _SLOTS:
        first, second = getattr(t1, slot, missing), getattr(t2, slot, missing)
        _set_slot(t1, slot, second, second is missing)
        _set_slot(t2, slot, first, first is missing)
    for tensor in (t1, t2):
        if isinstance(tensor._ag, AccumulateGrad):
            tensor._ag.ref = weakref.ref(tensor)


def _set_slot(tensor: Tensor, slot: str, value: Any, is_missing: bool) -> None:
    if is_missing:
        if hasattr(tensor, slot):
            delattr(tensor, slot)
    else:
        setattr(tensor, slot, value)


def _end_in_error(tensor: Tensor) -> None:
    """Let a graph that a leaf is part of say at its end that the leaf is another one now."""
    node = tensor._ag
    if isinstance(node, AccumulateGrad) and sys.getrefcount(node) > _ALONE:
        node.register_prehook(_refuse)


def _refuse(grads: Any) -> None:
    raise RuntimeError(
        "Trying to execute AccumulateGrad node that was poisoned by swap_tensors this can happen when you try to run "
        "backward on a tensor that was swapped. For a module m with "
        "`torch.__future__.set_swap_module_params_on_conversion(True)` you should not change the device or dtype of the "
        "module (e.g. `m.cpu()` or `m.half()`) between running forward and backward. To resolve this, please only change "
        "the device/dtype before running forward (or after both forward and backward)."
    )
