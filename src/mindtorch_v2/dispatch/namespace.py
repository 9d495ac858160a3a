"""What generated code calls by name, beside the kernels, formulas and node classes of its op."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

from ..autograd import grad_mode, graph
from ..autograd.node import FREED, AccumulateGrad, Node, Output, unpack, unpack_result
from ..core import tap
from ..core.device import device, layout, memory_format
from ..core.dtype import FROM_NUMPY, as_dtype, bfloat16, combine, dtype, float16, get_default_dtype
from ..core.errors import broadcast_error, no_memory
from ..core.storage import (
    CountedStorage,
    InferenceStorage,
    OneOfMany,
    Storage,
    Unwatched,
    View,
    mark_inference,
    next_version,
    view_version,
)
from ..core.tensor import FAST, Parameter, Tensor, make, new
from ..kernels.compiled import put
from ..kernels.passes import FLOATS, Numbers
from ..kernels.precision import cast
from ..kernels.result_layout import is_row_major
from ..kernels.result_layout import plain as plain_order
from .codegen import compile_function
from .compute import SIZED, attach_outputs, dense, lay_all, run_body
from .functions import materialize_and_call
from .inputs import freeze, input_argument, inputs_id, layout_of

NAMESPACE = tap.NAMESPACE
_COMMON: dict[Any, Any] = {}
_I64 = np.dtype(np.int64)
# Since Python 3.12 all code is instrumented anew when a profile function comes or goes. There it stays where it is, and
# learns from `lane.active` that there is nothing to tell.
_SWITCHES_QUICKLY = sys.version_info < (3, 12)


def _mixed(a: Any, b: Any) -> tuple[Any, Any]:
    """Two arrays in the dtype they are computed in, or (None, None) where that takes more than a cast."""
    key = a.dtype, b.dtype, a.ndim == 0, b.ndim == 0
    common = _COMMON.get(key)
    if common is None:
        found = combine((1 if x.ndim == 0 else 2, FROM_NUMPY[x.dtype]) for x in (a, b))
        common = _COMMON[key] = found.np if found not in (float16, bfloat16) else False
    if common is False:
        return None, None
    return _cast(a, common), _cast(b, common)


def _cast(a: Any, dtype: Any) -> Any:
    return a if a.dtype is dtype else cast(a, dtype)


def _mixed_numbers(a: Any, b: Any) -> tuple[Any, Any]:
    """As `_mixed`, for ops that refuse some bools."""
    return (None, None) if a.dtype.kind == "b" or b.dtype.kind == "b" else _mixed(a, b)


class _Integers(Numbers):
    """Of int64, which not every Python integer fits."""

    def __missing__(self, number: int) -> Any:
        try:
            return super().__missing__(number)
        except OverflowError:
            raise RuntimeError("value cannot be converted to type int64_t without overflow") from None


def _as_floats(a: Any, number: Any) -> tuple[Any, Any]:
    """Integers and a number that makes floats of them, in the default dtype; (None, None) for other arrays."""
    default = get_default_dtype().np
    if a.dtype is not _I64 or default not in FLOATS:
        return None, None
    return _cast(a, default), FLOATS[default][number]


def _as_numbers(a: Any, number: Any) -> tuple[Any, Any]:
    """As `_as_floats`, and truth values with an integer, which makes integers of them."""
    if a.dtype.kind != "b":
        return _as_floats(a, number)
    if type(number) is int:
        return cast(a, _I64), NAMESPACE["I64_NUMBERS"][number]
    return _as_floats(cast(a, _I64), number)


_FAST_OR_NONE = FAST | {type(None)}


def _all_plain(tensors: Any) -> bool:
    if type(tensors) is not list and not isinstance(tensors, (list, tuple)):
        return False
    for t in tensors:  # noqa: SIM110 - a generator takes longer
        if type(t) is not Tensor and type(t) is not Parameter:
            return False
    return True


def _plain_or_none(tensors: Any) -> bool:
    return isinstance(tensors, (list, tuple)) and _FAST_OR_NONE.issuperset(map(type, tensors))


def _row_major_all(tensors: Any) -> bool:
    """Whether all of a list of tensors, or an optional one, are in row-major order."""
    for t in tensors if isinstance(tensors, (list, tuple)) else (tensors,):
        if isinstance(t, Tensor) and not is_row_major(t._a):
            return False
    return True


def _fix(r: Any) -> Any:
    """A kernel's result as an array; meta arrays pass."""
    return r if isinstance(r, np.ndarray) else np.asarray(r)


def _broadcast(*arrays: Any) -> Exception:
    shapes = [a.shape for a in arrays]
    return broadcast_error(shapes[0], next((s for s in shapes[1:] if s != shapes[0]), shapes[-1]))


def _fits(a: Any, into: Any) -> bool:
    """Whether `a` broadcasts to the shape of `into`."""
    if a.ndim > into.ndim:
        return False
    return all(m == n or m == 1 for m, n in zip(reversed(a.shape), reversed(into.shape), strict=False))


def _lane() -> Any:
    """The lane of a thread that is not the one at home."""
    try:
        return tap.LANES.lane
    except AttributeError:
        return tap.current_lane()


# The end of a counted block of memory. Every one comes by here: generated code finds what it needs among its globals.
_END = """
def __del__(self):
    if AT_HOME():
        marks = HOME_MARKS
    else:
        lane = LANE()
        if lane is None:
            return
        marks = lane.marks
    marks += (clock(), -self.nbytes, id(self))
"""
# The same while Python functions are timed, of which this is none.
_UNTRACED_END = """
def __del__(self):
    lane = HOME if UNSEEN_AT_HOME() else LANE()
    if lane is None:
        return
    tracer = lane.active
    if tracer is not None:
        TRACE_NOTHING()
        lane.active = None
    marks = lane.marks
    marks += (clock(), -self.nbytes, id(self))
    if tracer is not None:
        lane.active = tracer
        TRACE_AGAIN(tracer)
"""


def _count_ends() -> None:
    """Have the ends of counted blocks noted in the way that costs least with what is recorded."""
    usual, untraced = (compile_function(text, "end of counted memory") for text in (_END, _UNTRACED_END))

    def choose(flags: int) -> None:
        CountedStorage.__del__ = untraced if flags & tap.STACKS else usual  # type: ignore[attr-defined]

    tap.SLOT.listeners.append(choose)
    choose(tap.SLOT.flags)


def _version(value: Any) -> int:
    return value._v.version if isinstance(value, Tensor) and value._v is not None else 0


def _sizes(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [v._a.shape for v in value]
    return value._a.shape if isinstance(value, Tensor) else ()


def fill() -> None:
    """Put everything in place; done once, when the first rows are read."""
    NAMESPACE.update(
        MATERIALIZE=materialize_and_call,
        MODES=False,
        SAVING=None,
        NEW=new,
        Tensor=Tensor,
        Parameter=Parameter,
        STORAGE=Storage,
        COUNTED=CountedStorage,
        View=View,
        ndarray=np.ndarray,
        F32=np.dtype(np.float32),
        F64=np.dtype(np.float64),
        I64=_I64,
        BOOL=np.dtype(np.bool_),
        F32_NUMBERS=Numbers(np.float32),
        F64_NUMBERS=Numbers(np.float64),
        AS_FLOATS=_as_floats,
        AS_NUMBERS=_as_numbers,
        I64_NUMBERS=_Integers(np.int64),
        ALL_PLAIN=_all_plain,
        PLAIN_OR_NONE=_plain_or_none,
        FIX=_fix,
        MAKE=make,
        BROADCAST=_broadcast,
        MIXED=_mixed,
        MIXED_NUMBERS=_mixed_numbers,
        FITS=_fits,
        PUT=put,
        LAY_ALL=lay_all,
        ROW_MAJOR=is_row_major,
        ROW_MAJOR_ALL=_row_major_all,
        LIVE=graph.live,
        COMPOSED=graph.composed,
        UNWATCHED=graph.unwatched,
        UNTRACKED=graph.untracked,
        BEFORE=graph.before_change,
        CLONED=graph.cloned_before_change,
        LEAF=AccumulateGrad,
        GEOMETRY=graph.Geometry,
        EDGE=graph.edge,
        EDGES=graph.edges,
        ATTACH=attach_outputs,
        DENSE=dense,
        RUN_BODY=run_body,
        NO_GRADIENT=frozenset("biu"),
        IN_ORDER=np.ascontiguousarray,
        SIZED=SIZED,
        ONE_OF_MANY=OneOfMany,
        UNPACK=unpack,
        UNPACK_RESULT=unpack_result,
        FREED=FREED,
        NO_MEMORY=no_memory,
        LANE=_lane,
        # Unseen by the profile function that it takes off.
        TRACE_NOTHING=functools.partial(sys.setprofile, None) if _SWITCHES_QUICKLY else bool,
        TRACE_AGAIN=sys.setprofile if _SWITCHES_QUICKLY else bool,
        GETFRAME=sys._getframe if _SWITCHES_QUICKLY else functools.partial(sys._getframe),
        INPUT_IDS=tap.INPUT_IDS,
        AS_DTYPE=as_dtype,
        MARK=mark_inference,
        INFERENCE=InferenceStorage,
        NEXT_VERSION=next_version,
        VIEW_VERSION=view_version,
        INTERN=tap.intern_inputs,
        INPUT=input_argument,
        FREEZE=freeze,
        LAYOUT=layout_of,
        VERSION=_version,
        SIZES=_sizes,
    )

    if tap.HELPER is None:
        _count_ends()
    else:
        _connect(tap.HELPER)


def _connect(helper: Any) -> None:
    """Hand the compiled helper what it looks at, and generated code what it does."""
    helper.connect(
        make_lane=tap.current_lane, inputs_id=inputs_id, constants=(dtype, device, layout, memory_format),
        tensor=Tensor, parameter=Parameter, ndarray=np.ndarray, node=Node, view=View, composed=graph.composed,
        view_version=view_version, leaf=AccumulateGrad, output=Output, unwatched=Unwatched, live=graph.live,
    )  # fmt: skip
    helper.connect_plain(plain_order)
    NAMESPACE.update(
        BEGIN=helper.begin, BEGIN_WITH=helper.begin_with, END=helper.end, COUNT=helper.count, NODE=helper.node,
        LAY=helper.lay, WRAP_LAID=helper.wrap_laid, LAY_PLAIN=helper.lay_plain, WRAP_PLAIN=helper.wrap_plain,
        WRAP=helper.wrap, WRAP_COUNTED=helper.wrap_counted, LOOK=helper.look, LOOK_AT_PARTS=helper.look_at_parts,
        LIVE=helper.live, OUTPUTS=helper.attach, ALL_PLAIN=helper.all_plain, WATCHED=helper.watched, SUSPEND=helper.suspend_tracing,
        RESUME=helper.resume_tracing, UNGRAPHED=grad_mode.without_graph,
    )  # fmt: skip
