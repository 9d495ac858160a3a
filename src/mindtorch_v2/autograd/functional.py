"""torch.autograd.functional: products with Jacobians and Hessians, and the matrices themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor, make
from .engine import door
from .entry import grad as _grad
from .grad_mode import enable_grad
from .jacobians import pushed, rows_of, units

_INPUTS, _OUTPUTS = "inputs", "outputs of the user-provided function"


def _tuple(value: Any, name: str, caller: str) -> tuple[bool, tuple[Any, ...]]:
    """Whether a tuple was given, and the values as a tuple."""
    given = isinstance(value, tuple)
    values = value if given else (value,)
    for position, v in enumerate(values):
        if not isinstance(v, Tensor):
            what = f"value at index {position} of the given {name}" if given else f"given {name}"
            raise TypeError(
                f"The {name} given to {caller} must be either a Tensor or a tuple of Tensors but the {what} has type "
                f"{type(v)}."
            )
    return given, values


def _require_graph(outputs: tuple[Any, ...], strict: bool) -> None:
    """In strict mode, every output is to come from the inputs."""
    for position, o in enumerate(outputs):
        if strict and not o.requires_grad:
            raise RuntimeError(
                f"Output {position} of the user-provided function does not require gradients. The outputs must be "
                "computed in a differentiable manner from the input when running in strict mode."
            )


def _prepared(values: tuple[Any, ...], create_graph: bool, need_graph: bool = True) -> tuple[Any, ...]:
    """Inputs that may be differentiated without touching the caller's graph (or joined to it)."""
    made = []
    for v in values:
        if create_graph:
            made.append(v.view_as(v) if v.requires_grad else v.clone())
        else:
            made.append(v.detach().requires_grad_(need_graph))
    return tuple(m.requires_grad_() if need_graph and not m.requires_grad else m for m in made)


def _finished(values: tuple[Any, ...], given: bool, create_graph: bool) -> Any:
    result = tuple(v if create_graph or v is None else v.detach() for v in values)
    return result if given else result[0]


def _zero_filled(grads: Any, refs: tuple[Any, ...], strict: bool, what: str) -> tuple[Any, ...]:
    """Zeros for what does not depend on an input; in strict mode an error, with the input's number for `{}`."""
    made = []
    for position, (g, ref) in enumerate(zip(grads, refs, strict=True)):
        if g is None:
            if strict:
                raise RuntimeError(what.format(position))
            g = door.zeros_like(ref)
        made.append(g)
    return tuple(made)


def _differentiated(outputs: Any, inputs: Any, grad_outputs: Any, create_graph: bool) -> tuple[Any, ...]:
    outputs, grad_outputs = tuple(outputs), tuple(grad_outputs)
    kept = [(o, g) for o, g in zip(outputs, grad_outputs, strict=True) if o is not None and o.requires_grad]
    if not kept:
        return (None,) * len(inputs)
    return _grad([o for o, _ in kept], inputs, [g for _, g in kept], retain_graph=True, create_graph=create_graph,
                 allow_unused=True)  # fmt: skip


_FUNCTION_RETURNS, _INPUT_IS = "user-provided function returns", "input to the user-provided function is"


def _vectors(v: Any, refs: tuple[Any, ...], given: bool, whose: str, caller: str) -> tuple[Any, ...]:
    if v is None:
        if len(refs) != 1 or refs[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if the {whose} a single Tensor with a single element.")
        return tuple(door.ones_like(r) for r in refs)
    _, vectors = _tuple(v, "v", caller)
    if len(vectors) != len(refs):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(refs)} but got {len(vectors)}.")
    for position, (a, b) in enumerate(zip(vectors, refs, strict=True)):
        if a.shape != b.shape:
            entry = f"Entry {position} in " if given else ""
            raise RuntimeError(f"{entry}v has invalid size: should be {b.shape} but got {a.shape}.")
    return vectors


_INDEPENDENT = "Output {} of the user-provided function is independent of input {}. This is not allowed in strict mode."
_ALL_INDEPENDENT = (
    "The output of the user-provided function is independent of input {}. This is not allowed in strict mode."
)
_LINEAR = (
    "While computing the hessian, found that the jacobian of the user-provided function with respect to input {} is "
    "independent of the input. This is not allowed in strict mode. You should ensure that your function is twice "
    "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for example)."
)


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """func(inputs), and the product of a vector with its Jacobian."""
    with enable_grad():
        given, values = _tuple(inputs, _INPUTS, "vjp")
        values = _prepared(values, create_graph)
        out_given, outputs = _tuple(func(*values), _OUTPUTS, "vjp")
        _require_graph(outputs, strict)
        vectors = _vectors(v, outputs, out_given, _FUNCTION_RETURNS, "vjp")
        grads = _differentiated(outputs, values, vectors, create_graph)
        result = _zero_filled(grads, values, strict, _ALL_INDEPENDENT)
    return _finished(outputs, out_given, create_graph), _finished(result, given, create_graph)


def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """func(inputs), and the product of its Jacobian with a vector (by differentiating twice)."""
    with enable_grad():
        given, values = _tuple(inputs, _INPUTS, "jvp")
        values = _prepared(values, create_graph)
        vectors = _vectors(v, values, given, _INPUT_IS, "jvp")
        out_given, outputs = _tuple(func(*values), _OUTPUTS, "jvp")
        _require_graph(outputs, strict)
        dummies = tuple(door.zeros_like(o).requires_grad_() for o in outputs)
        first = _differentiated(outputs, values, dummies, True)
        first = _zero_filled(first, values, strict, _ALL_INDEPENDENT)
        second = _differentiated(first, dummies, vectors, create_graph)
        result = _zero_filled(second, outputs, strict, _ALL_INDEPENDENT)
    return _finished(outputs, out_given, create_graph), _finished(result, out_given, create_graph)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of func at inputs, one block per (output, input): by rows, or in forward mode by columns. That a
    backward pass takes one row at a time is so with `vectorize` too."""
    _check_strategy(strategy, vectorize, create_graph, strict)
    if strategy == "forward-mode":
        return _jacobian_forward(func, inputs)
    with enable_grad():
        given, values = _tuple(inputs, _INPUTS, "jacobian")
        values = _prepared(values, create_graph)
        out_given, outputs = _tuple(func(*values), _OUTPUTS, "jacobian")
        _require_graph(outputs, strict)
        rows = tuple(_jacobian_rows(nr, o, values, create_graph, strict) for nr, o in enumerate(outputs))
    if not create_graph:
        rows = tuple(tuple(block.detach() for block in row) for row in rows)
    if out_given:
        return rows if given else tuple(row[0] for row in rows)
    return rows[0] if given else rows[0][0]


def _check_strategy(strategy: str, vectorize: bool, create_graph: bool, strict: bool) -> None:
    """Which strategies there are, and what each of them does not go together with."""
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(f'Expected strategy to be either "forward-mode" or "reverse-mode", got {strategy!r}.')
    name = "torch.autograd.functional.jacobian"
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                f'{name}: `create_graph=True` and `strategy="forward-mode"` are not supported together (yet). Please either '
                'set `create_graph=False` or `strategy="reverse-mode"`.'
            )
        if strict:
            raise RuntimeError(
                f'{name}: `strict=True` and `strategy="forward-mode"` are not supported together (yet). Please either set '
                '`strict=False` or `strategy="reverse-mode"`.'
            )
        if not vectorize:
            raise NotImplementedError(
                "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for "
                "`vectorize=True`."
            )
    elif vectorize and strict:
        raise RuntimeError(
            f"{name}: `strict=True` and `vectorized=True` are not supported together. Please either set `strict=False` or "
            "`vectorize=False`."
        )


def _jacobian_forward(func: Callable[..., Any], inputs: Any) -> Any:
    with enable_grad():
        given, values = _tuple(inputs, _INPUTS, "jacobian")
        values = _prepared(values, False)
        out_given, outputs = _tuple(func(*values), _OUTPUTS, "jacobian")
        columns = [
            rows_of(pushed(lambda *x: _tuple(func(*x), _OUTPUTS, "jacobian")[1], values, place, units(x._a)), outputs)
            for place, x in enumerate(values)
        ]
    rows = tuple(
        tuple(make(block[nr].T.copy()).view((*o.shape, *x.shape)) for block, x in zip(columns, values, strict=True))
        for nr, o in enumerate(outputs)
    )
    if out_given:
        return rows if given else tuple(row[0] for row in rows)
    return rows[0] if given else rows[0][0]


def _jacobian_rows(nr: int, output: Any, values: tuple[Any, ...], create_graph: bool, strict: bool) -> tuple[Any, ...]:
    what = _INDEPENDENT.format(nr, "{}")
    columns: tuple[list[Any], ...] = tuple([] for _ in values)
    for j in range(output.numel()):
        element = output.reshape(-1)[j]
        grads = _differentiated((element,), values, (door.ones_like(element),), create_graph)
        for column, g in zip(columns, _zero_filled(grads, values, strict, what), strict=True):
            column.append(g)
    return tuple(
        (door.stack(column) if column else output.new_zeros((0, *x.shape))).view((*output.shape, *x.shape))
        for column, x in zip(columns, values, strict=True)
    )


def _scalar(output: Any, caller: str = "hessian") -> Any:
    if isinstance(output, tuple):
        raise RuntimeError(f"The function given to {caller} should return a single Tensor")
    if output.numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {caller} should contain a single element")
    return output.squeeze()


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a scalar function: the Jacobian, by `outer_jacobian_strategy`, of its gradient."""
    _check_strategy(outer_jacobian_strategy, vectorize, create_graph, strict)
    given, values = _tuple(inputs, _INPUTS, "hessian")

    def gradient(*x: Any) -> Any:
        got = jacobian(lambda *y: _scalar(func(*y)), x, create_graph=True, strict=strict)
        return tuple(got) if given else got[0]

    return jacobian(gradient, values if given else values[0], create_graph=create_graph, strict=strict,
                    vectorize=vectorize, strategy=outer_jacobian_strategy)  # fmt: skip


def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """func(inputs), and the product of a vector with its Hessian."""
    return _hessian_product("vhp", func, inputs, v, create_graph, strict)


def _hessian_product(
    caller: str, func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool
) -> Any:
    with enable_grad():
        given, values = _tuple(inputs, _INPUTS, caller)
        values = _prepared(values, create_graph)
        vectors = _vectors(v, values, given, _INPUT_IS, caller)
        output = _scalar(func(*values), caller)
        _require_graph((output,), strict)
        first = _differentiated((output,), values, (door.ones_like(output),), True)
        first = _zero_filled(first, values, strict, _ALL_INDEPENDENT)
        if strict:
            first = tuple(f if f.requires_grad else None for f in first)
            _zero_filled(first, values, strict, _LINEAR)
        second = _differentiated(first, values, vectors, create_graph)
        result = _zero_filled(second, values, strict, _LINEAR)
    return (output if create_graph else output.detach()), _finished(result, given, create_graph)


def hvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """func(inputs), and the product of its Hessian with a vector (the Hessian is symmetric)."""
    return _hessian_product("hvp", func, inputs, v, create_graph, strict)
