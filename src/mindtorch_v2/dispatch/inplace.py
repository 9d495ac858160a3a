"""What changes tensors that are there already: `out=`, and ops in place under autograd."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..autograd import grad_mode, graph
from ..autograd.engine import door
from ..autograd.node import version_of
from ..core import tap
from ..core.dtype import FROM_NUMPY, can_cast, dtype
from ..core.errors import shape_text
from ..core.meta import MetaArray
from ..core.storage import InferenceStorage, Storage
from ..core.tensor import LAZY, Tensor, as_array, bump, in_memory, make, storage_of, write_lazily
from ..kernels.compiled import put
from .codegen import requires_dtype
from .compute import REFUSALS, any_edge, compute, elementwise_types, result_type, run_body, unwrap
from .overlap import check_in_place, check_out

if TYPE_CHECKING:
    from .op import Op


def evaluate_out(op: Op, args: tuple[Any, ...], out: Any) -> Any:
    outs = _written(op, out)
    _refuse_graph(op, any_edge(op, args), outs)
    check_out(op, outs, args)
    if op.out_dtype == "compute":
        args = tuple(
            outs[0].dtype if a.name == "dtype" and v is None else v
            for a, v in zip(op.schema.arguments, args, strict=True)
        )
    results = compute(op, args)
    arrays = [as_array(a) for a in ([results] if len(op.schema.returns) == 1 else results)]
    if requires_dtype(op):
        _require_dtypes(outs, arrays)
    for o, a in zip(outs, arrays, strict=True):
        write_out(o, a)
    if len(outs) == 1:
        return outs[0]
    return result_type(op)(*outs) if op.schema.result_names else tuple(outs)


def _written(op: Op, out: Any) -> list[Tensor]:
    """The tensors of an `out=`."""
    outs = list(out) if isinstance(out, (list, tuple)) else [out]
    for o in outs:
        if not isinstance(o, Tensor):
            raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type(o).__name__}")
    return outs


def _refuse_graph(op: Op, has_edges: bool, outs: list[Tensor]) -> None:
    if grad_mode.is_grad_enabled() and (has_edges or any(o._ag is not None for o in outs)):
        raise RuntimeError(
            f"{op.name}(): functions with out=... arguments don't support automatic differentiation, but one of "
            "the arguments requires grad."
        )


def _require_dtypes(outs: list[Tensor], arrays: Iterable[Any]) -> None:
    """Refuse `out=` tensors that are not of the dtypes of the results."""
    for o, a in zip(outs, arrays, strict=True):
        if o._a.dtype != a.dtype:
            names = (FROM_NUMPY[x.dtype].cpp_name for x in (a, o._a))
            raise RuntimeError("Expected out tensor to have dtype {}, but got {} instead".format(*names))


def write_result(out: Tensor, made: Tensor, strict: bool) -> Tensor:
    """`out` with the result of an op on tensors whose memory it does not share; `strict` asks for its dtype."""
    if put(out._a, made._a):
        bump(out)
        return out
    if strict:
        _require_dtypes([out], [made._a])
    write_out(out, made._a)
    return out


def composite_out(op: Op, args: tuple[Any, ...], result: Any, out: Any) -> Any:
    results, outs = _written(op, result), _written(op, out)
    _refuse_graph(op, any(r._ag is not None for r in results), outs)
    check_out(op, outs, args)
    for o, r in zip(outs, results, strict=True):
        write_out(o, r._a)
    return out


def write_out(out: Tensor, array: Any) -> None:
    """Store a result into `out`, resizing it as torch does."""
    to, from_ = out.dtype, FROM_NUMPY[array.dtype]
    if not can_cast(from_, to):
        raise RuntimeError(f"result type {type_name(from_)} can't be cast to the desired output type {type_name(to)}")
    if out._a.shape != array.shape:
        graph.resize_out(out, array)
    if type(out) in LAZY:
        write_lazily(out, array)
    elif type(out._a) is not MetaArray:
        np.copyto(out._a, array, casting="unsafe")
    bump(out)


_TYPE_NAMES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "uint8": "Byte", "int8": "Char",
    "int16": "Short", "int32": "Int", "int64": "Long", "bool": "Bool", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}  # fmt: skip


def type_name(d: dtype) -> str:
    """`Float`, `Long`, … as torch's messages say."""
    return _TYPE_NAMES.get(d.name, d.name)


def mutate(op: Op, args: tuple[Any, ...]) -> Tensor:
    """Run an in-place op, with its part in the graph."""
    self: Tensor = args[0]
    building = grad_mode.is_grad_enabled() and (any_edge(op, args) or graph.is_watched(self))
    if not building:
        run_in_place(op, args)
        return self
    graph.check_in_place(self)
    original = self
    if _saves_self(op, args):
        original = grad_mode.without_graph(door.clone, self)
        original._ag = graph.edge(self)
    before = graph.edge(self)
    run_in_place(op, args)
    stand_in = original
    if original is self:
        stand_in = graph.shared(self._a, storage_of(self))
        stand_in._ag = before
    result = graph.shared(self._a, storage_of(self))
    others = [_stale(v) if isinstance(v, Tensor) and v._v is self._v else v for v in args[1:]]
    node = op.make_node(stand_in, *others, result) if op.differentiable else None
    for v, stale in zip(args[1:], others, strict=True):
        if stale is not v:
            bump(stale)
    graph.rebase(self, node)
    return self


def _stale(t: Tensor) -> Tensor:
    """A stand-in for an operand that lies in the memory an in-place op has just changed: saving it counts, using it
    in backward is an error."""
    storage = Storage()
    storage.version = version_of(t) - 1
    stand_in = graph.shared(t._a, storage)
    stand_in._ag = graph.edge(t)
    return stand_in


def _saves_self(op: Op, args: tuple[Any, ...]) -> bool:
    """Whether backward needs the tensor as it was before an in-place op changes it."""
    first = op.schema.arguments[0].name
    by_name = {a.name: v for a, v in zip(op.schema.arguments, args, strict=True)}
    return any(
        first in parameters and any(graph.edge(by_name[name]) is not None for name in names.split())
        for names, parameters in op.formula_parameters.items()
    )


def _require_cast(from_: dtype, to: dtype) -> None:
    if not can_cast(from_, to):
        raise RuntimeError(f"result type {type_name(from_)} can't be cast to the desired output type {type_name(to)}")


def _check_in_place(base: Op, args: tuple[Any, ...]) -> None:
    """Refuse what the ops that an in-place op consists of would do, but it does not."""
    check_in_place(base, args[0], args[1:])
    result = elementwise_types(base, args)[2]
    if base.rule != "compare":
        _require_cast(result, args[0].dtype)


def version_before(t: Tensor) -> int:
    """The version of a tensor that ops are about to change."""
    storage = storage_of(t)
    return 0 if type(storage) is InferenceStorage else storage.version


def count_one_change(t: Tensor, before: int) -> None:
    """That ops have changed a tensor, which counts as one change since."""
    storage_of(t).version = before
    bump(t)


tap.NAMESPACE.update(VERSION_BEFORE=version_before, ONE_CHANGE=count_one_change)


def run_in_place(op: Op, args: tuple[Any, ...]) -> None:
    """Change the first argument, and count that as one change, however many ops it takes."""
    self = args[0]
    if type(self) in LAZY:
        if op.base is not None:
            check_in_place(op.base, in_memory(self), args[1:])
        values = make(self._a)
        run_in_place(op, (values, *args[1:]))
        write_lazily(self, values._a)
        bump(self)
        return
    if op.calls is not None and tap.SLOT.recorder is None:
        try:
            _run_kernel_in_place(op, args)
            return
        except REFUSALS:  # the ops say what is wrong
            pass
    if op.calls is not None:
        if op.base is not None and op.rule is not None:
            _check_in_place(op.base, args)
        before = version_before(self)
        run_body(op.calls, *args)
        count_one_change(self, before)
        return
    _run_kernel_in_place(op, args)


def _run_kernel_in_place(op: Op, args: tuple[Any, ...]) -> None:
    self = args[0]
    if op.base is None:
        assert op.kernel is not None
        if type(self._a) is not MetaArray:
            op.kernel(*[unwrap(v) for v in args])
        bump(self)
        return
    check_in_place(op.base, args[0], args[1:])
    results = compute(op.base, args)
    r = as_array(results)
    if r.shape != self._a.shape:
        raise RuntimeError(
            f"output with shape {shape_text(self._a.shape)} doesn't match the broadcast shape {shape_text(r.shape)}"
        )
    _require_cast(FROM_NUMPY[r.dtype], self.dtype)
    if type(self._a) is not MetaArray:
        np.copyto(self._a, r, casting="unsafe")
    bump(self)
