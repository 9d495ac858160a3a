"""Which ops refuse to write where elements share memory, with each other or with what they read, as torch's kernels do.

torch looks at arrays without gaps, and at strides of 0; what else may share memory is the program's own business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from ..core.errors import refuse_overlap, refuse_shared
from ..core.meta import MetaArray
from ..core.tensor import Tensor

if TYPE_CHECKING:
    from .op import Op

# These write into expanded tensors too, given as `out=` or in place. The last element written at a place stays there.
_OUT_ANYWHERE = frozenset(
    """tril triu bmm mv sum nansum prod amax amin argmax argmin var std norm linalg_vector_norm cummax cummin threshold
    narrow_copy histc histogram.bins_tensor hash_tensor""".split()
)
_IN_PLACE_ANYWHERE = frozenset("tril triu addmv baddbmm threshold".split())
# Beside elementwise ops, these may write where an operand lies only if they lie there in the same way, element by element.
PARTLY = set(
    """where cumsum cumprod logcumsumexp sort topk addmm frexp addmv addr baddbmm addbmm renorm outer ger kron
    square""".split()
)
# These have one tensor for which that holds, and a source that has to lie apart.
_SOURCE_APART = frozenset("scatter scatter_add scatter_reduce index_add index_copy index_reduce".split())
# And these not even then.
_APART = frozenset(
    "cross linalg_cross stack hstack vstack dstack row_stack column_stack concat concatenate take_along_dim".split()
)
# These compute all before they write: no operand is read by the kernel that writes.
_OUT_IN_STEPS = frozenset("threshold mvlgamma".split())
_IN_PLACE_IN_STEPS = _OUT_IN_STEPS | {"ldexp", "addmm", "addmv", "addbmm", "baddbmm"}


def check_out(op: Op, outs: Iterable[Tensor], arguments: tuple[Any, ...]) -> None:
    """Refuse what torch's kernel of an op refuses to write into as `out=`."""
    name = op.name
    checked = name not in _OUT_ANYWHERE and op.qualified not in _OUT_ANYWHERE
    apart = bool(op.strict_out) or name in _APART
    for out in outs:
        if checked and type(out._a) is not MetaArray:
            refuse_overlap(out._a)
        if name in _SOURCE_APART:
            _refuse(out, arguments[0], False)
            _refuse(out, arguments[1:], True)
        elif apart or ((op.rule is not None or name in PARTLY) and name not in _OUT_IN_STEPS):
            _refuse(out, arguments, apart)


def check_in_place(base: Op, self: Tensor, rest: tuple[Any, ...]) -> None:
    """Refuse what torch's kernel refuses to change; `base` is the op that is not in place."""
    name = base.name
    if name not in _IN_PLACE_ANYWHERE and type(self._a) is not MetaArray:
        refuse_overlap(self._a)
    if (base.rule is not None or name in PARTLY) and name not in _IN_PLACE_IN_STEPS:
        _refuse(self, rest, False)


def _refuse(out: Tensor, value: Any, apart: bool) -> None:
    if isinstance(value, Tensor):
        if (value is not out or apart) and type(value._a) is not MetaArray and type(out._a) is not MetaArray:
            refuse_shared(out._a, value._a, apart)
    elif isinstance(value, (list, tuple)):
        for v in value:
            _refuse(out, v, apart)


def guarded(kernel: Callable[..., None], *, expanded: bool = False, apart: bool = True) -> Callable[..., None]:
    """A kernel that writes into its first array, and refuses one that is expanded, unless it may be, or that lies where
    another argument does, unless that is all the same to it."""

    @wraps(kernel)
    def checked(a: Any, *rest: Any) -> None:
        viewed = a.base is not None
        if viewed and not expanded and type(a) is ndarray:
            refuse_overlap(a)
        if apart:
            for value in rest:
                if type(value) is ndarray and (viewed or value.base is not None or value is a):
                    refuse_shared(a, value, True)
        kernel(a, *rest)

    return checked
