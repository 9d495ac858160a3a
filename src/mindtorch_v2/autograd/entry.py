"""The public ways into the engine: `backward` and `grad`."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from typing import Any

from ..core import tap
from ..core.device import preserve_format
from ..core.tensor import Tensor
from . import engine
from .engine import door
from .graph import GradientEdge, edge
from .node import AccumulateGrad, Output, output_number, target


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, (Tensor, GradientEdge)) else tuple(value)


def _edge_of(output: Any) -> Any:
    if isinstance(output, GradientEdge):
        return output.node if output.output_nr == 0 else Output(output.node, output.output_nr)
    return edge(output)


def _make_grads(outputs: Sequence[Any], grads: Sequence[Any], batched: bool = False) -> list[Any]:
    """The gradients to start from: given ones checked, implicit ones for scalars."""
    made = []
    for output, gradient in zip(outputs, grads, strict=True):
        if gradient is None:
            if isinstance(output, GradientEdge):
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            made.append(_implicit(output) if edge(output) is not None else None)
            continue
        if not isinstance(gradient, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
        if isinstance(output, Tensor) and gradient._a.shape != output._a.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{len(made)}] has a shape of {gradient.shape} and "
                f"output[{len(made)}] has a shape of {output.shape}."
            )
        if isinstance(output, Tensor) and output.dtype.is_complex != gradient.dtype.is_complex:
            raise RuntimeError(
                "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
                f"dtype: grad_output[{len(made)}] has a dtype of {gradient.dtype} and output[{len(made)}] has a dtype "
                f"of {output.dtype}."
            )
        made.append(gradient)
    return made


def _implicit(output: Tensor) -> Tensor:
    """The gradient of an output with respect to itself, which is to be one real number."""
    if output._a.size != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    if not output.dtype.is_floating_point:
        raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {output.dtype}")
    one: Tensor
    if tap.SLOT.recorder is None:
        one = door.ones_like(output)
    else:
        one = door.ones_like(output, memory_format=preserve_format)
    return one


def _grads_for(outputs: Sequence[Any], grads: Any) -> list[Any]:
    given = _as_tuple(grads) if grads is not None else (None,) * len(outputs)
    if len(given) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(given)} gradients")
    return _make_grads(outputs, given)


def _roots(outputs: Sequence[Any], grads: Sequence[Any]) -> list[tuple[Any, Any]]:
    roots = []
    for position, (output, gradient) in enumerate(zip(outputs, grads, strict=True)):
        place = _edge_of(output)
        if place is None:
            raise RuntimeError(f"element {position} of tensors does not require grad and does not have a grad_fn")
        roots.append((place, gradient))
    return roots


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Accumulate the gradients of `tensors` into the leaves they depend on (or only into `inputs`)."""
    if grad_variables is not None:
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        grad_tensors = grad_variables
    if inputs is not None and not _as_tuple(inputs):
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    if grad_tensors is None and type(tensors) is Tensor and edge(tensors) is not None:
        roots = [(edge(tensors), _implicit(tensors))]
    else:
        outputs = _as_tuple(tensors)
        roots = _roots(outputs, _grads_for(outputs, grad_tensors))
    captures = None
    if inputs is not None:
        wanted = _as_tuple(inputs)
        for x in wanted:
            if _edge_of(x) is None:
                raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
            if isinstance(x, Tensor):
                retain_grad(x)
        captures = [_input_edge(x) for x in wanted]
    keep = create_graph if retain_graph is None else retain_graph
    if create_graph:
        _warn_create_graph()
    # The gradients it begins with last as long as the pass, as torch's do.
    engine.run(list(roots), retain_graph=keep, create_graph=create_graph, captures=captures)


def _warn_create_graph() -> None:
    warnings.warn(
        "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient "
        "which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you "
        "have to use this function, make sure to reset the .grad fields of your parameters to None after use to break "
        "the cycle and avoid the leak.",
        stacklevel=3,
    )


def retain_grad(tensor: Tensor) -> None:
    """Keep the gradient of this non-leaf in `.grad`."""
    place = edge(tensor)
    if place is None:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if type(place) is not AccumulateGrad:
        target(place)._hooks().retain[output_number(place)] = weakref.ref(tensor)
        tensor.__dict__["_retains"] = True


def _input_edge(value: Any) -> Any:
    place = _edge_of(value)
    if place is None:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    return place


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs` with respect to `inputs`."""
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for other "
            "parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    outs, wanted = _as_tuple(outputs), _as_tuple(inputs)
    if not wanted:
        raise ValueError("grad requires non-empty inputs.")
    if is_grads_batched:
        return _batched(outs, wanted, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads)
    roots = _roots(outs, _grads_for(outs, grad_outputs))
    captures = [_input_edge(x) for x in wanted]
    keep = create_graph if retain_graph is None else retain_graph
    found = engine.run(list(roots), retain_graph=keep, create_graph=create_graph, captures=captures, accumulate=False)
    return tuple(
        _finished(position, gradient, tensor, bool(allow_unused), materialize_grads)
        for position, (gradient, tensor) in enumerate(zip(found, wanted, strict=True))
    )


def _finished(position: int, gradient: Any, tensor: Any, allow_unused: bool, materialize: bool) -> Any:
    if gradient is not None:
        return gradient
    if materialize:
        return door.zeros_like(tensor)
    if not allow_unused:
        raise RuntimeError(
            f"The differentiated Tensor at index {position} appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior."
        )
    return None


def _batched(
    outs: Any, wanted: Any, grads: Any, retain: Any, create: bool, unused: Any, materialize: bool
) -> tuple[Any, ...]:
    """One backward pass per entry of the gradients' leading dimension, stacked."""
    batches = list(_as_tuple(grads))
    for position, (batch, output) in enumerate(zip(batches, outs, strict=True)):
        if batch[0].shape != output.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. "
                "The sizes of the remaining dimensions are expected to match the shape of corresponding output, but a "
                f"mismatch was detected: grad_output[{position}] has a shape of {batch[0].shape} and output[{position}] "
                f"has a shape of {output.shape}. If you only want some tensors in `grad_output` to be considered batched, "
                "consider using vmap."
            )
    rows = []
    for i in range(len(batches[0])):
        picked = tuple(b[i] for b in batches)
        rows.append(grad(outs, wanted, picked, True, create, True, unused, False, materialize))
    del retain
    return tuple(None if column[0] is None else door.stack(list(column)) for column in zip(*rows, strict=True))
