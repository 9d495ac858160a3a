"""`autograd.Function`: operators whose forward and backward users write themselves."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from ..core import tap
from ..core.errors import shape_text
from ..core.storage import OfFunction, OneOfMany
from ..core.tensor import Tensor, alias, new, storage_of
from . import grad_mode, graph
from .engine import door
from .node import (
    FREED,
    AccumulateGrad,
    Node,
    Output,
    Packed,
    changed,
    leaf_shape,
    output_number,
    target,
    unpack,
    version_of,
)

# Whether a backward pass is under way whose results only serve to be differentiated by what it began with, as forward
# mode does to find tangents. A user's function then answers by its `jvp`.
PUSHING: ContextVar[bool] = ContextVar("PUSHING", default=False)


class FunctionCtx:
    """What forward and backward of a Function share."""

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for backward, where they appear as `saved_tensors`."""
        for position, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {position} is of type {type(t).__name__}"
                )
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for jvp, where they appear as `saved_tensors`."""
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs forward changed in place."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (True) or None for outputs nobody used."""
        self.materialize_grads = value


class FunctionNode(Node, FunctionCtx):
    """The node of one call of a Function; also its `ctx`."""

    # Users hang attributes of their own onto a ctx.
    takes_nothing = True
    _forward_cls: Any = None
    to_save: tuple[Any, ...] = ()
    saved_for_forward: tuple[Any, ...] = ()
    dirty_tensors: tuple[Any, ...] = ()
    non_differentiable: tuple[Any, ...] = ()
    materialize_grads = True
    needs_input_grad: tuple[bool, ...] = ()

    def name(self) -> str:
        return type(self).__name__

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        if PUSHING.get():
            return self.saved_for_forward
        if self.saved is None:
            raise RuntimeError(FREED)
        return tuple(self._unpacked(item) for item in self.saved)

    saved_variables = saved_tensors

    def _unpacked(self, item: Any) -> Any:
        if item is None or isinstance(item, Tensor):
            return item
        if type(item) is Packed:
            return item.unpacked(item.edge)
        kept, version, nr = item
        if nr is None:
            return unpack(self, kept, version)
        array, storage = kept
        t: Tensor = new(Tensor)
        t._a, t._v, t._view = array, storage, None
        t._ag = self if nr == 0 else Output(self, nr)
        if storage.version != version:
            raise changed(t, version)
        return t

    def run(self, grads: tuple[Any, ...], edges: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
        if PUSHING.get():
            return self._pushing(grads)
        if self.materialize_grads:
            grads = tuple(self._zeros(nr) if g is None and nr not in self._silent else g for nr, g in enumerate(grads))
        given = tap.call_traced(self._forward_cls.backward, self, *grads)
        results = given if isinstance(given, tuple) else tuple(given) if isinstance(given, list) else (given,)
        return self._checked(results)

    _silent: frozenset[int] = frozenset()  # outputs that are no tensors

    def _zeros(self, nr: int) -> Tensor:
        shape, dtype = (self.shape, self.dtype) if self.outputs == 1 else (self.shape[nr], self.dtype[nr])
        return door.zeros(shape, dtype)

    def _checked(self, results: tuple[Any, ...]) -> tuple[Any, ...]:
        expected = len(self.edges)
        if len(results) > expected and all(r is None for r in results[expected:]):
            results = results[:expected]
        if len(results) != expected:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected {expected}, got "
                f"{len(results)})"
            )
        for position, (gradient, edge) in enumerate(zip(results, self.edges, strict=True)):
            if gradient is None:
                continue
            if not isinstance(gradient, Tensor):
                raise RuntimeError(f"expected Variable or None (got {type(gradient).__name__})")
            if edge is not None:
                self._check_shape(position, gradient, edge)
            elif not self.is_tensor[position]:
                raise RuntimeError(
                    f"function {self.name()} returned a gradient different than None at position {position + 1}, but "
                    "the corresponding forward input was not a Variable"
                )
        return results

    is_tensor: tuple[bool, ...] = ()

    def _pushing(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Zeros that depend on `grads` as the inputs' gradients do, which is what `jvp` tells: it is the transpose."""
        node: _Pushed = new(_Pushed.of(len(self.edges)))
        node.edges = tuple(None if g is None else graph.edge(g) for g in grads)
        node.saved, node.hooks, node.seq = (self,), None, tap.NAMESPACE["SEQ"]
        tap.NAMESPACE["SEQ"] += 1
        metas = [((), None) if e is None else _meta_of(e) for e in self.edges]
        single = len(metas) == 1
        node.shape = metas[0][0] if single else tuple(shape for shape, _ in metas)
        node.dtype = metas[0][1] if single else tuple(dtype for _, dtype in metas)
        made: list[Any] = []
        for nr, (edge, (shape, dtype)) in enumerate(zip(self.edges, metas, strict=True)):
            zeros = None if edge is None else door.zeros(shape, dtype)
            if zeros is not None:
                zeros._ag = node if nr == 0 else Output(node, nr)
            made.append(zeros)
        return tuple(made)

    def push(self, tangents: tuple[Any, ...]) -> tuple[Any, ...]:
        """The outputs' tangents from those of the inputs, by the user's `jvp`."""
        given = list(tangents)
        for nr, (tangent, meta) in enumerate(zip(tangents, self.inputs, strict=False)):
            if tangent is None and meta is not None and self.materialize_grads:
                given[nr] = door.zeros(*meta)
        token = PUSHING.set(True)
        try:
            found = self._forward_cls.jvp(self, *given)
        finally:
            PUSHING.reset(token)
        results = found if isinstance(found, tuple) else tuple(found) if isinstance(found, list) else (found,)
        if len(results) != self.outputs:
            raise RuntimeError(
                f"Function's jvp returned an invalid number of forward gradients (expected {self.outputs} but got "
                f"{len(results)})"
            )
        for nr, tangent in enumerate(results):
            if tangent is not None:
                self._check_tangent(nr, tangent)
        return results

    # Shape and dtype of each input that is a tensor, for classes that have a jvp.
    inputs: tuple[tuple[Any, Any] | None, ...] = ()

    def _check_tangent(self, nr: int, tangent: Any) -> None:
        if not isinstance(tangent, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(tangent).__name__}) for grad output {nr}.")
        shape = self.shape if self.outputs == 1 else self.shape[nr]
        if tangent._a.shape != shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
                f"supported. Tensor is of size {list(shape)} while the given forward gradient is of size "
                f"{list(tangent._a.shape)}."
            )

    def _check_shape(self, position: int, gradient: Tensor, edge: Any) -> None:
        shape, have = _meta_of(edge)[0], gradient._a.shape
        lead = len(have) - len(shape)
        if lead < 0 or any(n not in (1, have[lead + i]) for i, n in enumerate(shape)):
            raise RuntimeError(
                f"Function {self.name()} returned an invalid gradient at index {position} - got {shape_text(have)} but "
                f"expected shape compatible with {shape_text(shape)}"
            )


def _meta_of(edge: Any) -> tuple[Any, Any]:
    """Shape and dtype of the tensor that an edge leads to."""
    node = target(edge)
    if type(node) is AccumulateGrad:
        return leaf_shape(node), node.array.dtype
    if node.outputs == 1:
        return node.shape, node.dtype
    nr = output_number(edge)
    return node.shape[nr], node.dtype[nr]


class _Pushed(Node):
    """Stands behind what a function gave for its gradients in forward mode; going back through it is going forward."""

    __slots__ = ()
    sized: dict[int, type[_Pushed]] = {}

    @classmethod
    def of(cls, outputs: int) -> type[_Pushed]:
        """The class for a function with so many inputs."""
        if outputs not in cls.sized:
            cls.sized[outputs] = type(cls.__name__, (cls,), {"outputs": outputs, "__slots__": ()})
        return cls.sized[outputs]

    def run(self, grads: tuple[Any, ...], edges: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
        if self.saved is None:
            raise RuntimeError(FREED)
        return self.saved[0].push(grads)


class _FunctionMeta(type):
    """Gives every Function class a node class of its own."""

    def __init__(cls, name: str, bases: Any, body: dict[str, Any]) -> None:
        super().__init__(name, bases, body)
        cls._backward_cls = type(f"{name}Backward", (FunctionNode,), {"_forward_cls": cls, "outputs": 1})
        cls._sized: dict[int, Any] = {1: cls._backward_cls}

    def node_class(cls, outputs: int) -> Any:
        found = cls._sized.get(outputs)
        if found is None:
            base = cls._backward_cls
            found = cls._sized[outputs] = type(base.__name__, (base,), {"outputs": outputs})
        return found


class Function(metaclass=_FunctionMeta):
    """Base of custom operators: subclass it, write `forward` and `backward`, call `apply`."""

    generate_vmap_rule = False

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with "
                                  "forward mode AD.")  # fmt: skip

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and join its result to the graph."""
        if cls.setup_context is not Function.setup_context:
            args = _bound(cls, args, kwargs)
            kwargs = {}
        if tap.SLOT.recorder is None:
            return _apply(cls, args, kwargs)
        inputs = door.intern_arguments(args) if tap.SLOT.flags & tap.SHAPES else 0
        seq = tap.sequence_number(grad_mode.is_grad_enabled())
        with tap.region(tap.event_id(cls.__name__), seq, inputs):
            return _apply(cls, args, kwargs)


def _bound(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Defaults of forward filled in, as setup_context sees all inputs."""
    bound = inspect.signature(cls.forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def _apply(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    edges = tuple([graph.edge(a) for a in args])
    building = grad_mode.is_grad_enabled() and edges.count(None) != len(edges)
    node = cls._backward_cls.__new__(cls._backward_cls)
    node.edges, node.saved, node.hooks = edges, (), None
    node.is_tensor = tuple([isinstance(a, Tensor) for a in args])
    node.needs_input_grad = tuple([building and e is not None for e in edges])
    if cls.jvp is not Function.jvp:
        node.inputs = tuple((a._a.shape, a._a.dtype) if isinstance(a, Tensor) else None for a in args)
    output = grad_mode.without_graph(_forward, cls, node, args, kwargs)
    outputs = list(output) if isinstance(output, tuple) else [output]
    silent = node.non_differentiable
    unwatched = {nr for nr, o in enumerate(outputs) if _is_one_of(o, silent)} if silent else set()
    outputs = [_own(node, o, args, building) for o in outputs]
    if building:
        _join(cls, node, outputs, unwatched, args)
    else:
        node.saved = None
    return tuple(outputs) if isinstance(output, tuple) else outputs[0]


def _forward(cls: Any, node: FunctionNode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the user's own code makes of the arguments."""
    if cls.setup_context is Function.setup_context:
        return cls.forward(node, *args, **kwargs)
    output = cls.forward(*args)
    cls.setup_context(node, args, output)
    return output


def _is_one_of(value: Any, values: Sequence[Any]) -> bool:
    """Whether it is among them, rather than equal to one."""
    return id(value) in map(id, values)


def _own(node: FunctionNode, output: Any, args: tuple[Any, ...], building: bool) -> Any:
    """An output that may be joined to the graph: an input handed through gets a tensor of its own."""
    if not isinstance(output, Tensor):
        return output
    if not building:
        handed_on = _is_one_of(output, args) and not _is_one_of(output, node.dirty_tensors)
        return output.view_as(output) if handed_on else output
    if _is_one_of(output, node.dirty_tensors):
        if type(output._ag) is AccumulateGrad:
            raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
        graph.check_in_place(output)
        return output
    if output._ag is not None or _is_one_of(output, args):
        return alias(output._a, storage_of(output))
    return output


def _lies_in(output: Tensor, args: tuple[Any, ...]) -> Tensor | None:
    """The argument whose memory an output looks at."""
    for a in args:
        if isinstance(a, Tensor) and a._v is not None and a._v is output._v:
            return a
    return None


def _join(cls: Any, node: FunctionNode, outputs: list[Any], unwatched: set[int], args: tuple[Any, ...]) -> None:
    if len(outputs) > 1:
        node.__class__ = cls.node_class(len(outputs))
    node.seq = tap.NAMESPACE["SEQ"]
    tap.NAMESPACE["SEQ"] += 1
    metas = [(o._a.shape, o._a.dtype) if isinstance(o, Tensor) else ((), None) for o in outputs]
    if len(outputs) == 1:
        node.shape, node.dtype = metas[0]
    else:
        node.shape, node.dtype = tuple(m[0] for m in metas), tuple(m[1] for m in metas)
    for nr, o in enumerate(outputs):
        if not isinstance(o, Tensor) or nr in unwatched or o._a.dtype.kind in "iub":
            continue
        if _is_one_of(o, node.dirty_tensors):
            _rebase_dirty(node, o, nr)
        else:
            o._ag = node if nr == 0 else Output(node, nr)
            o._view = None
            base = None if o._v is None else _lies_in(o, args)
            if base is not None:
                graph.make_view(o, base, None, OfFunction if len(outputs) == 1 else OneOfMany)
    silent = [nr for nr, o in enumerate(outputs) if not isinstance(o, Tensor)]
    if silent:
        node._silent = frozenset(silent)
    _save(node, outputs)


def _rebase_dirty(node: FunctionNode, o: Tensor, nr: int) -> None:
    if o._view is not None:
        graph.rebase(o, node)
    else:
        graph.take_place(o, node if nr == 0 else Output(node, nr))
    storage_of(o).version += 1


def _save(node: FunctionNode, outputs: list[Any]) -> None:
    """Keep what was handed to save_for_backward; outputs without the cycle through their own node."""
    saved: list[Any] = []
    for t in node.to_save:
        if t is None:
            saved.append(None)
        elif t._ag is None or type(t._ag) is AccumulateGrad or not _is_one_of(t, outputs):
            saved.append((t, version_of(t), None))
        else:
            storage = storage_of(t)
            saved.append(((t._a, storage), storage.version, next(nr for nr, o in enumerate(outputs) if o is t)))
    node.saved = tuple(saved)
    for name in ("to_save", "dirty_tensors", "non_differentiable"):
        node.__dict__.pop(name, None)
    hooks = graph.active_hooks()
    if hooks is not None:
        node.saved = tuple(_pack(item, *hooks) for item in saved)


def _pack(item: Any, pack: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> Any:
    if item is None or item[2] is not None:
        return item
    return Packed(tap.call_traced(pack, item[0]), unpack_hook, graph.edge(item[0]))


class _NotTwice(Node):
    """Stands behind the results of a backward that may not be differentiated again."""

    __slots__ = ()

    def run(self, grads: tuple[Any, ...], edges: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(function: Any) -> Any:
    """Mark a backward that is not itself differentiable."""

    @functools.wraps(function)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with grad_mode.no_grad():
            outputs = function(ctx, *args)
        if not grad_mode.is_grad_enabled() or all(graph.edge(a) is None for a in args):
            return outputs
        single = not isinstance(outputs, tuple)
        made: list[Any] = []
        for o in (outputs,) if single else outputs:
            if o is None:
                made.append(None)
                continue
            node: Node = new(_NotTwice)
            node.edges = tuple(graph.edge(a) for a in args)
            node.saved, node.hooks, node.shape, node.dtype = (), None, o._a.shape, o._a.dtype
            node.seq = tap.NAMESPACE["SEQ"]
            tap.NAMESPACE["SEQ"] += 1
            t = alias(o._a, storage_of(o))
            t._ag = node
            made.append(t)
        return made[0] if single else tuple(made)

    return wrapper


class InplaceFunction(Function):
    """The base of functions of the older style that may change their input; kept for programs that derive from it."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace
