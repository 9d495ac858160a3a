"""What changes tensors that are there already: `out=`, and ops in place under autograd."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _tap
from ._codegen import COMPUTED_IN_OUT, requires_dtype
from ._compute import any_edge, compute, elementwise_types, result_type, unwrap
from ._dtype import FROM_NUMPY, can_cast, dtype
from ._errors import refuse_overlap, refuse_shared, shape_text
from ._meta import MetaArray
from ._storage import Storage
from ._tensor import LAZY, Tensor, as_array, bump, make, storage_of, write_lazily
from .autograd import grad_mode, graph
from .autograd.engine import door
from .autograd.node import version_of
from .kernels.compiled import put

if TYPE_CHECKING:
    from ._op import Op


def evaluate_out(op: Op, given: tuple[Any, ...], out: Any) -> Any:
    outs = _written(op, out)
    _refuse_graph(op, any_edge(op, given), outs)
    if op.rule is not None:
        _refuse_shared_inputs(outs[0], given)
    if op.name in COMPUTED_IN_OUT:
        given = tuple(
            outs[0].dtype if a.name == "dtype" and v is None else v
            for a, v in zip(op.schema.arguments, given, strict=True)
        )
    results = compute(op, given)
    arrays = [as_array(a) for a in ([results] if len(op.schema.returns) == 1 else results)]
    if requires_dtype(op):
        _require_dtypes(outs, arrays)
    if op.strict_out:
        _require_own_memory(given, outs)
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


def _refuse_shared_inputs(out: Tensor, given: tuple[Any, ...]) -> None:
    """Refuse to write where part of an operand lies."""
    if type(out._a) is not MetaArray:
        for value in given:
            if isinstance(value, Tensor) and value is not out:
                refuse_shared(out._a, value._a)


def _require_dtypes(outs: list[Tensor], arrays: Iterable[Any]) -> None:
    """Refuse `out=` tensors that are not of the dtypes of the results."""
    for o, a in zip(outs, arrays, strict=True):
        if o._a.dtype != a.dtype:
            names = (FROM_NUMPY[x.dtype].cpp_name for x in (a, o._a))
            raise RuntimeError("Expected out tensor to have dtype {}, but got {} instead".format(*names))


def _require_own_memory(given: tuple[Any, ...], outs: list[Tensor]) -> None:
    """Refuse `out=` tensors that lie in the memory of an input."""
    inputs = [v for value in given for v in (value if isinstance(value, (list, tuple)) else (value,))]
    for o in outs:
        for v in inputs:
            if isinstance(v, Tensor) and _overlap(v._a, o._a):
                raise RuntimeError(
                    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
                    "single memory location. Please clone() the tensor before performing the operation."
                )


def _overlap(a: Any, b: Any) -> bool:
    """Whether two arrays without gaps lie in common memory; for others torch does not ask."""
    dense = a.flags.c_contiguous and b.flags.c_contiguous and a.size and b.size
    return bool(dense) and np.may_share_memory(a, b)


def write_result(out: Tensor, made: Tensor, strict: bool) -> Tensor:
    """`out` with the result of an op on tensors whose memory it does not share; `strict` asks for its dtype."""
    if put(out._a, made._a):
        bump(out)
        return out
    if strict:
        _require_dtypes([out], [made._a])
    write_out(out, made._a)
    return out


def composite_out(op: Op, result: Any, out: Any) -> Any:
    results, outs = _written(op, result), _written(op, out)
    _refuse_graph(op, any(r._ag is not None for r in results), outs)
    for o, r in zip(outs, results, strict=True):
        write_out(o, r._a)
    return out


def write_out(out: Tensor, array: Any) -> None:
    """Store a result into `out`, resizing it as torch does."""
    to, from_ = out.dtype, FROM_NUMPY[array.dtype]
    if not can_cast(from_, to):
        raise RuntimeError(f"result type {type_name(from_)} can't be cast to the desired output type {type_name(to)}")
    if type(out._a) is not MetaArray:
        refuse_overlap(out._a)
    if out._a.shape != array.shape:
        graph.resize(out, array.shape)
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


def mutate(op: Op, given: tuple[Any, ...]) -> Tensor:
    """Run an in-place op, with its part in the graph."""
    self: Tensor = given[0]
    building = grad_mode.is_grad_enabled() and (any_edge(op, given) or graph.is_watched(self))
    if not building:
        run_in_place(op, given)
        bump(self)
        return self
    graph.check_in_place(self)
    original = self
    if _saves_self(op, given):
        try:
            grad_mode.set_enabled(False)
            original = door.clone(self)
        finally:
            grad_mode.set_enabled(True)
        original._ag = graph.edge(self)
    before = graph.edge(self)
    run_in_place(op, given)
    bump(self)
    stand_in = original
    if original is self:
        stand_in = graph.shared(self._a, storage_of(self))
        stand_in._ag = before
    result = graph.shared(self._a, storage_of(self))
    others = [_stale(v) if isinstance(v, Tensor) and v._v is self._v else v for v in given[1:]]
    node = op.make_node(stand_in, *others, result) if op.differentiable else None
    for v, stale in zip(given[1:], others, strict=True):
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


def _saves_self(op: Op, given: tuple[Any, ...]) -> bool:
    """Whether backward needs the tensor as it was before an in-place op changes it."""
    first = op.schema.arguments[0].name
    by_name = {a.name: v for a, v in zip(op.schema.arguments, given, strict=True)}
    return any(
        first in parameters and any(graph.edge(by_name[name]) is not None for name in names.split())
        for names, parameters in op.formula_parameters.items()
    )


def _require_places(base: Op, given: tuple[Any, ...]) -> None:
    """Refuse to write where elements, or elements and inputs, share memory."""
    self = given[0]
    if type(self._a) is not MetaArray:
        refuse_overlap(self._a)
    if base.rule is not None:
        _refuse_shared_inputs(self, given[1:])


def _require_cast(from_: dtype, to: dtype) -> None:
    if not can_cast(from_, to):
        raise RuntimeError(f"result type {type_name(from_)} can't be cast to the desired output type {type_name(to)}")


def _check_in_place(base: Op, given: tuple[Any, ...]) -> None:
    """Refuse what the ops that an in-place op consists of would do, but it does not."""
    _require_places(base, given)
    result = elementwise_types(base, given)[2]
    if base.rule != "compare":
        _require_cast(result, given[0].dtype)


def run_in_place(op: Op, given: tuple[Any, ...]) -> None:
    self = given[0]
    if type(self) in LAZY:
        values = make(self._a)
        run_in_place(op, (values, *given[1:]))
        write_lazily(self, values._a)
        return
    if op.calls is not None and _tap.SLOT.recorder is not None:
        if op.base is not None and op.rule is not None:
            _check_in_place(op.base, given)
        grad_mode.without_graph(op.calls, *given)
        return
    if op.base is None:
        assert op.kernel is not None
        if type(self._a) is not MetaArray:
            op.kernel(*[unwrap(v) for v in given])
        return
    _require_places(op.base, given)
    results = compute(op.base, given)
    r = as_array(results)
    if r.shape != self._a.shape:
        raise RuntimeError(
            f"output with shape {shape_text(self._a.shape)} doesn't match the broadcast shape {shape_text(r.shape)}"
        )
    _require_cast(FROM_NUMPY[r.dtype], self.dtype)
    if type(self._a) is not MetaArray:
        np.copyto(self._a, r, casting="unsafe")
