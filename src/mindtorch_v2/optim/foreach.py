"""`foreach=True`: the update of an optimizer on lists of tensors, one `_foreach_` op for all parameters of a kind.

An update is written once, for one parameter; run on `TensorLists` it does the same arithmetic for many. It does not know
the optimizers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..autograd.grad_mode import is_grad_enabled
from ..dispatch.front import FRONTS
from ..dispatch.op import OPS
from .flat import Flat
from .noted import Noted


def _listed(value: Any) -> Any:
    return value.tensors if isinstance(value, TensorLists) else value


def _method(name: str) -> Callable[..., Any]:
    full = f"_foreach_{name}"
    function = FRONTS[full] if full in FRONTS else OPS[full].function
    in_place = name.endswith("_")

    def call(self: TensorLists, *args: Any, **kwargs: Any) -> TensorLists:
        result = function(self.tensors, *map(_listed, args), **kwargs)
        return self if in_place else TensorLists(result)

    call.__name__ = name
    return call


class TensorLists:
    """Tensors that go through each op side by side; methods are those of Tensor that have a `_foreach_` form."""

    __slots__ = ("tensors",)

    def __init__(self, tensors: Iterable[Any]) -> None:
        self.tensors = list(tensors)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Each method of `_METHODS`."""

    def item(self) -> Any:
        """The one number that all of them hold."""
        return self.tensors[0].item()

    def __truediv__(self, other: Any) -> Any:
        return self.div(other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.reciprocal().mul_(other)

    def __mul__(self, other: Any) -> Any:
        return self.mul(other)


_METHODS = """abs abs_ add add_ addcdiv addcdiv_ addcmul addcmul_ div div_ lerp lerp_ maximum_ mul mul_ neg reciprocal sqrt sqrt_
    sub sub_""".split()
for _name in _METHODS:
    setattr(TensorLists, _name, _method(_name))


def maximum_(target: Any, other: Any) -> None:
    """Take the larger element of each pair into `target`, a tensor or several."""
    if isinstance(target, (TensorLists, Flat, Noted)):
        target.maximum_(other)
    elif is_grad_enabled():
        target.copy_(OPS["maximum"].function(target.clone(), other))
    else:
        OPS["maximum"].function(target, other, out=target)


def update(update_one: Any, params: list[Any], grads: list[Any], states: list[dict[str, Any]], group: Any) -> None:
    """`update_one(p, gradient, state, group)` for all parameters at once; those at another step come in another round."""
    by_step: dict[float, list[int]] = {}
    for position, state in enumerate(states):
        by_step.setdefault(float(state["step"]._a), []).append(position)
    for positions in by_step.values():
        joined = {name: TensorLists(states[i][name] for i in positions) for name in states[positions[0]]}
        update_one(TensorLists(params[i] for i in positions), TensorLists(grads[i] for i in positions), joined, group)
