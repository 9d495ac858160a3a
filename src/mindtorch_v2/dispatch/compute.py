"""From arguments to results, whatever they are: promotion, numbers, meta tensors, and the tensors and nodes of results.

It does not know events, overrides, `out=` or changes in place.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..autograd import grad_mode, graph
from ..autograd.node import Node, Output
from ..core import tap
from ..core.dtype import FROM_NUMPY, bfloat16, combine, dtype, float16, float32, get_default_dtype, number_type
from ..core.errors import broadcast_error
from ..core.meta import MetaArray, meta
from ..core.tensor import LAZY, Tensor, alias, as_array, make, storage_of
from ..kernels.checks import not_implemented
from ..kernels.passes import FLOATS
from ..kernels.precision import cast
from ..kernels.result_layout import elementwise, laid, laid_ufunc, leave_open
from . import codegen, forward
from .fast_parts import ALL_KINDS
from .schema import Argument

if TYPE_CHECKING:
    from .op import Op


# What torch calls numbers in a schema.
_NUMBERS = {"Scalar": "Number", "float": "float", "int": "int", "bool": "bool"}
_TEXT = (str, bytes, bytearray)  # which Python makes numbers of, and torch does not


_FLAGS = (int, np.bool_, type(None))


def _check_number(op: Op, position: int, argument: Argument, value: Any) -> None:
    """TypeError for text where numbers are wanted, and for what only has a truth value where a bool is."""
    kind, of_many, _ = argument.type.rstrip("?").partition("[")
    if kind not in _NUMBERS:
        return
    values = value if of_many and isinstance(value, (list, tuple)) else (value,)
    wrong = [v for v in values if isinstance(v, _TEXT) or (kind == "bool" and not isinstance(v, _FLAGS))]
    if wrong:
        where = "" if argument.kwarg_only else f" (position {position})"
        wanted = f"tuple of {_NUMBERS[kind]}s" if of_many else _NUMBERS[kind]
        found = type(wrong[0]).__name__
        raise TypeError(f"{op.name}(): argument '{argument.python_name}'{where} must be {wanted}, not {found}")


def check_arguments(op: Op, args: tuple[Any, ...]) -> None:
    """TypeError, in torch's words, for what cannot be a tensor where one is needed, and for text in place of numbers."""
    for position, (argument, value) in enumerate(zip(op.schema.arguments, args, strict=True), 1):
        _check_number(op, position, argument, value)
        if argument.type == "Tensor" and not isinstance(value, Tensor):
            if op.takes_numbers and isinstance(value, (int, float, complex, bool, np.number, np.bool_)):
                continue
            raise TypeError(
                f"{op.name}(): argument '{argument.python_name}' (position {position}) must be Tensor, "
                f"not {type(value).__name__}"
            )
        if argument.is_tensor_list:
            if isinstance(value, Tensor) or not isinstance(value, Iterable):
                raise TypeError(
                    f"{op.name}(): argument '{argument.python_name}' (position {position}) must be tuple of "
                    f"Tensors, not {type(value).__name__}"
                )
            for i, element in enumerate(value):
                if not isinstance(element, Tensor) and not (element is None and argument.type == "Tensor?[]"):
                    raise TypeError(
                        f"expected Tensor as element {i} in argument {position - 1}, but got {type(element).__name__}"
                    )
    if op.takes_numbers and not any(isinstance(value, Tensor) for value in args):
        kinds = ", ".join(type(value).__name__ for value in args[:2])
        raise TypeError(
            f"{op.name}() received an invalid combination of arguments - got ({kinds}), but at least one of them must "
            "be a Tensor"
        )


def compute(op: Op, args: tuple[Any, ...]) -> Any:
    """Arrays (or a plain value) from arguments."""
    if any(type(v) in LAZY for v in args):
        args = tuple(_settled(v) if type(v) in LAZY else v for v in args)
    if op.rule is None and op.kernel is not None and op.takes_tensors and op.kind != "value" and on_meta(args):
        return _meta_results(op, args)
    if op.rule is not None and (op.calls is None or tap.SLOT.recorder is None):
        try:
            return compute_elementwise(op, args)
        except REFUSALS:
            if op.calls is None or on_meta(args):
                raise
        elementwise_types(op, args)
        return _by_ops(op, args)  # which say what is wrong
    if (op.rule is None and op.kernel is None) or (op.calls is not None and tap.SLOT.recorder is not None):
        if op.rule is not None:
            elementwise_types(op, args)  # the ops it consists of may take what it does not
        return _by_ops(op, args)
    assert op.kernel is not None
    if op.dense:
        array = args[0]._a
        if not (op.dense(array) if callable(op.dense) else array.flags.c_contiguous):
            args = (dense(args[0]), *args[1:])
    if op.rule is None and op.kind == "kernel" and (op.fast is not None or op.asked is not None):
        found = _quickly(op, args)
        if found is not None:
            return found
    try:
        return op.kernel(*[unwrap(v) for v in args])
    except REFUSALS:
        if op.calls is None:
            raise
    return _by_ops(op, args)  # which say what is wrong


def _by_ops(op: Op, args: tuple[Any, ...]) -> Any:
    """What the ops give that an op is made of."""
    assert op.calls is not None
    got = run_body(op.calls, *args)
    results = got._a if isinstance(got, Tensor) else [t._a for t in got]
    return results if op.layout is None else lay_all(op.layout, results, *args)


# What a kernel raises for arguments that it does not take.
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError)
tap.NAMESPACE["REFUSALS"] = REFUSALS


def _quickly(op: Op, args: tuple[Any, ...]) -> Any:
    """What the fast paths give, so that a value is the same whichever way led to it; None where they do not take it."""
    if op.quickly is None:
        tap.NAMESPACE[f"Q_{op.ident}"] = None if op.fast is None else op.fast[1]
        tap.NAMESPACE[f"A_{op.ident}"] = op.asked
        op.quickly = codegen.compile_function(forward.quick_source(op), f"{op.qualified}, quickly")
    return op.quickly(*args)


def run_body(body: Callable[..., Any], *args: Any) -> Any:
    """The ops that an op is made of: no graph is built of them, and autocast, which has seen the op itself, changes none."""
    if tap.NAMESPACE["CASTING"]():
        return tap.NAMESPACE["UNCAST"](grad_mode.without_graph, body, *args)
    return grad_mode.without_graph(body, *args)


def lay_all(rule: Callable[..., Any], results: Any, *args: Any) -> Any:
    """Results of a body as the row's rule lays them out."""
    arrays = [unwrap(v) for v in args]
    return results if leave_open(arrays) else rule(results, *arrays)


def dense(t: Tensor) -> Tensor:
    """A tensor laid out in memory in order, by an op that no graph knows of."""
    laid_out: Tensor = grad_mode.without_graph(t.contiguous)
    return laid_out


def _settled(t: Tensor) -> Tensor:
    """The values of a lazy tensor in memory of their own."""
    settled = alias(t._a, storage_of(t))
    settled._ag = graph.edge(t)
    return settled


def on_meta(values: Iterable[Any]) -> bool:
    return any(
        type(v._a) is MetaArray if isinstance(v, Tensor) else isinstance(v, (list, tuple)) and on_meta(v)
        for v in values
    )


def _meta_results(op: Op, args: tuple[Any, ...]) -> Any:
    """Shapes and dtypes of an op's results, as arrays without memory."""
    assert op.kernel is not None
    arrays = [unwrap(v) for v in args]
    by_argument = dict(zip(op.arguments, args, strict=True))
    if op.kind == "view" or by_argument.get("device") is not None:  # the kernel knows where its result is to live
        return op.kernel(*arrays)
    if op.meta is None:
        raise NotImplementedError(
            f"{op.name}() cannot run on the meta device: its row ({op.place}) has no option meta=, a rule for shapes as "
            "those of ops/meta"
        )
    results = op.meta(op.kernel, *arrays)
    return results if op.layout is None else op.layout(results, *arrays)


def unwrap(value: Any) -> Any:
    """An argument as kernels take it."""
    if isinstance(value, Tensor):
        return value._a
    if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
        return [unwrap(v) for v in value]
    return value


def operand_rank(value: Any) -> tuple[int, dtype]:
    """How an operand takes part in promotion."""
    if isinstance(value, Tensor):
        return (2 if value._a.ndim else 1), FROM_NUMPY[value._a.dtype]
    return 0, number_type(value)


def compute_elementwise(op: Op, args: tuple[Any, ...]) -> Any:
    """Promote the operands, compute, and give the result its dtype."""
    types = common, compute, result = elementwise_types(op, args)
    pairs = zip(op.schema.arguments, args, strict=True)
    values = [prepared(op, v, types) if a.is_tensor or a.name in op.promotes else v for a, v in pairs]
    r = _call_elementwise(op, values, common)
    return cast(r, result.np) if compute is not result and r.dtype == compute.np else r


def elementwise_types(op: Op, args: tuple[Any, ...]) -> tuple[dtype, dtype, dtype]:
    """As `promoted`, once the op has checked its arguments."""
    if op.check is not None:
        op.check(*args)
    pairs = zip(op.schema.arguments, args, strict=True)
    return promoted(op, [v for a, v in pairs if a.is_tensor or a.name in op.promotes])


def promoted(op: Op, operands: list[Any]) -> tuple[dtype, dtype, dtype]:
    """The common type of operands, the one an elementwise op computes in, and the one it gives."""
    common = combine(operand_rank(v) for v in operands if v is not None)
    if ALL_KINDS[common.category] not in op.takes:
        raise not_implemented(op.label, common.np)
    result = get_default_dtype() if op.rule == "float" and common.category < 2 else common
    return common, (float32 if op.widen and result in (float16, bfloat16) else result), result


def laying_out(op: Op) -> Any:
    """The kernel of an elementwise op, which lays out its results; what stands in a row for a ufunc does not."""
    kernel = op.kernel if op.kernel is not None else op.ufunc
    if op.kernel is not None and not isinstance(kernel, np.ufunc):
        return kernel
    return laid_ufunc(kernel) if op.layout in (None, elementwise) else laid(kernel, op.layout)


def _call_elementwise(op: Op, values: list[Any], common: dtype) -> Any:
    kernel = op.kernel if op.kernel is not None else op.ufunc
    assert kernel is not None
    arrays = [v for v in values if isinstance(v, np.ndarray)]
    try:
        if not isinstance(kernel, np.ufunc) and any(type(v) is MetaArray for v in arrays):
            return _meta_result(kernel, values, op.layout)
        return as_array(laying_out(op)(*values))
    except TypeError as error:
        if isinstance(kernel, np.ufunc):
            raise not_implemented(op.label, common.np) from None
        raise error
    except ValueError:
        shapes = [v.shape for v in arrays if v.ndim] or [()]
        first = next((s for s in shapes[1:] if s != shapes[0]), shapes[0])
        if first == shapes[0]:
            raise
        raise broadcast_error(shapes[0], first) from None


def _meta_result(kernel: Callable[..., Any], values: list[Any], layout: Any) -> Any:
    """The shape of the operands together, and the dtype the kernel gives on one element."""
    shape = np.broadcast_shapes(*(v.shape for v in values if isinstance(v, np.ndarray)))
    sample = kernel(*(np.ones((), v.dtype) if isinstance(v, np.ndarray) else v for v in values))
    result = meta(shape, as_array(sample).dtype)
    return result if layout is None else layout(result, *values)


def prepared(op: Op, value: Any, types: tuple[dtype, dtype, dtype]) -> Any:
    """An operand in the type that is computed in. Where its own is of 16 bits, operands are rounded to those; but products
    and quotients take numbers as they are."""
    common, compute, result = types
    if common is not result or result is compute or value is None:
        return operand(value, compute)
    is_number = not isinstance(value, Tensor) or not value._a.ndim
    if is_number and op.ufunc in (np.multiply, np.true_divide):
        return operand(value, compute)
    return _widened(operand(value, common), compute.np)


def _widened(a: Any, to: Any) -> Any:
    """An operand in a wider type, repeated where it was, so that results lie in memory as they would without this."""
    if not a.ndim or 0 not in a.strides:
        return cast(a, to)
    once = a[tuple([slice(None) if stride else slice(0, 1) for stride in a.strides])]
    return np.broadcast_to(cast(once, to), a.shape)


def operand(value: Any, d: dtype) -> Any:
    if value is None:
        return None
    if isinstance(value, Tensor):
        a = value._a
        return a if a.dtype is d.np or a.dtype == d.np else cast(a, d.np)
    if type(value) is float and d.np in FLOATS:
        return FLOATS[d.np][value]
    if d.category == 1 and not isinstance(value, (bool, np.bool_)):
        return np.asarray(int(value)).astype(d.np)  # wraps around as torch does
    return np.asarray(value).astype(d.np)


def wrap(op: Op, args: tuple[Any, ...], results: Any) -> Any:
    """Fresh tensors from arrays, with their node."""
    arrays = [results] if len(op.schema.returns) == 1 else list(results)
    tensors = [make(as_array(a)) for a in arrays]
    attach_node(op, args, tensors)
    if len(tensors) == 1:
        return tensors[0]
    return result_type(op)(*tensors) if op.schema.result_names else tuple(tensors)


def attach_node(op: Op, args: tuple[Any, ...], tensors: list[Tensor]) -> None:
    """Join results to the graph if an input asks for it."""
    if op.differentiable and grad_mode.is_grad_enabled() and any_edge(op, args):
        node = op.make_node(*args, *tensors)
        attach_outputs(node, tensors, op.nondiff)


def any_edge(op: Op, args: tuple[Any, ...]) -> bool:
    for argument, value in zip(op.schema.arguments, args, strict=True):
        if argument.name in op.differentiable and value is not None:
            for v in value if argument.is_tensor_list else (value,):
                if graph.edge(v) is not None:
                    return True
    return False


def attach_outputs(node: Node, tensors: Iterable[Tensor], nondiff: tuple[int, ...] = ()) -> None:
    """Make tensors the outputs of a node; integer and bool ones take no part."""
    for nr, t in enumerate(tensors):
        if nr in nondiff or t._a.dtype.kind in "iub":
            continue
        t._ag = node if nr == 0 else Output(node, nr)


def wrap_view(op: Op, args: tuple[Any, ...], array: Any) -> Tensor:
    first = args[0]
    t = alias(array, storage_of(first))
    if grad_mode.is_grad_enabled():
        graph.make_view(t, first, None if op.replay is None else op.replay(first._view, *args))
        if op.differentiable and any_edge(op, args):
            t._ag = op.make_node(*args, t)
    else:
        graph.unwatched(t, first)
    return t


def list_wrapper(op: Op) -> Callable[..., Any]:
    """Wraps a list of arrays: views of the first argument for view ops, fresh ones otherwise."""
    views = op.kind == "view"
    count = len(op.schema.arguments)
    of_first = op.differentiable == [op.schema.arguments[0].name]

    def wrap_list(arrays: Any, *args: Any) -> Any:
        if not arrays:
            return ()
        first = args[0]
        tensors = graph.views_of(first, arrays) if views else tuple([make(as_array(a)) for a in arrays])
        if of_first and (first._ag if first._view is None else graph.edge(first)) is None:
            return tensors
        args = args[:count]
        if op.differentiable and grad_mode.is_grad_enabled() and (of_first or any_edge(op, args)):
            node = _list_node(op, args, tensors)
            attach_outputs(node, tensors)
        return tensors

    return wrap_list


def _list_node(op: Op, args: tuple[Any, ...], tensors: tuple[Tensor, ...]) -> Node:
    """The node of an op with a list of results; its class knows how many there are."""
    node: Node = op.make_node(*args, tensors[0])
    count = len(tensors)
    node.__class__ = SIZED[type(node), count]
    if count > 1:
        node.shape = tuple([t._a.shape for t in tensors])
        node.dtype = (node.dtype,) * count
    return node


class _Sized(dict[tuple[type, int], type]):
    """Classes of nodes by the class of their op and the number of their outputs, made when first asked for."""

    def __missing__(self, key: tuple[type, int]) -> type:
        cls, count = key
        made = self[key] = type(cls.__name__, (cls,), {"__slots__": (), "outputs": count})
        return made


SIZED = _Sized()


RETURN_TYPES: dict[str, Any] = {}


def result_type(op: Op) -> Any:
    """The named tuple of an op with several named results, as `torch.return_types.max`."""
    name = op.name
    key = f"{name}:{','.join(op.schema.result_names)}"
    found = RETURN_TYPES.get(key)
    if found is None:
        base = namedtuple(name, op.schema.result_names)  # type: ignore[misc]

        def __repr__(self: Any) -> str:
            fields = ",\n".join(f"{f}={v!r}" for f, v in zip(self._fields, self, strict=True))
            return f"torch.return_types.{name}(\n{fields})"

        def __new__(cls: Any, *values: Any) -> Any:
            """From the fields, or from one sequence of them as torch's types are made."""
            return tuple.__new__(cls, values[0] if len(values) == 1 < len(cls._fields) else values)

        count = len(op.schema.result_names)
        found = type(
            name,
            (base,),
            {
                "__repr__": __repr__,
                "__new__": __new__,
                "__slots__": (),
                "__module__": "torch.return_types",
                "n_fields": count,
                "n_sequence_fields": count,
                "n_unnamed_fields": 0,
            },
        )
        RETURN_TYPES[key] = found
        RETURN_TYPES.setdefault(name, found)
    return found
