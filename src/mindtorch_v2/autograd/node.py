"""The graph: nodes, the edges between them, and what a node keeps for backward.

A node knows how to turn gradients of its outputs into gradients of its inputs. It knows no operator; those bring their
own subclasses.
"""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from ..core import tap
from ..core.storage import Storage
from ..core.tensor import Tensor, alias, new

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)


def _weakly(hooks: dict[int, Any]) -> Callable[[], dict[int, Any] | None]:
    """A reference to a dictionary of hooks; plain dictionaries, which are a node's own, can only be held fast."""
    return weakref.ref(hooks) if isinstance(hooks, OrderedDict) else lambda: hooks


class RemovableHandle:
    """Removes a hook from the dictionary it was put into."""

    next_id = 0

    def __init__(self, hooks: dict[int, Any], *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = _weakly(hooks)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extra = [extra_dict] if isinstance(extra_dict, dict) else extra_dict or []
        self.extra_dict_ref = tuple(_weakly(d) for d in extra)

    def remove(self) -> None:
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, ...]:
        return (self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref))

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        hooks, self.id, *extra = state
        self.hooks_dict_ref = _weakly(OrderedDict() if hooks is None else hooks)
        self.extra_dict_ref = tuple(_weakly(d) for d in (extra[0] if extra else ()) or ())
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class Hooks:
    """Everything users hang onto a node; made when the first hook arrives."""

    __slots__ = ("tensor", "pre", "post", "retain", "accumulated", "metadata", "trace")

    def __init__(self) -> None:
        self.tensor: dict[int, dict[int, Any]] = {}  # output number -> hooks on that output's gradient
        self.pre: dict[int, Any] = {}
        self.post: dict[int, Any] = {}
        self.retain: dict[int, Any] = {}  # output number -> weak reference to the tensor that keeps its grad
        self.accumulated: dict[int, Any] = {}  # post-accumulate hooks of a leaf
        self.metadata: dict[Any, Any] = {}
        self.trace: Any = None  # where forward ran (anomaly mode)

    def are_none(self) -> bool:
        return not any(getattr(self, name) for name in self.__slots__)


def add_hook(hooks: dict[int, Any], hook: Any) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


_KINDS_OF_TWO = ("input", "list")


def _saved_places(saves: tuple[tuple[str, str], ...]) -> Iterator[tuple[int, str, str]]:
    """Where each saved item begins in `saved`, with its kind and torch's name for it."""
    position = 0
    for kind, name in saves:
        label = {"sizes": f"{name}_sym_sizes", "dtype": f"{name}_scalar_type", "strides": f"{name}_sym_strides"}
        yield position, kind, label.get(kind, name)
        position += 3 if kind == "result" else 2 if kind in _KINDS_OF_TWO else 1


def _saved_value(kind: str, label: str, position: int, node: Node) -> Any:
    saved = node.saved
    if saved is None:
        raise RuntimeError(FREED)
    if kind == "input":
        return unpack(node, saved[position], saved[position + 1])
    if kind == "list":
        return tuple(unpack(node, x, y) for x, y in zip(saved[position], saved[position + 1], strict=True))
    if kind == "result":
        array, storage, version = saved[position : position + 3]
        return unpack_result(node, array, storage, version, int(label[6:] or 0))
    return saved[position]


class Node:
    """One step of the graph.

    `edges` holds, for each input, None or what the input's tensor had as `_ag`; `saved` what backward needs (None once
    freed); `seq` its number; `shape` and `dtype` those of the output (tuples of them for several outputs).
    """

    __slots__ = ("edges", "saved", "seq", "shape", "dtype", "hooks", "__weakref__")

    edges: tuple[Any, ...]
    saved: Any
    seq: int
    shape: Any
    dtype: Any
    hooks: Hooks | None

    outputs = 1
    # Numbers of outputs that no gradient comes back from.
    nondiff: tuple[int, ...] = ()
    # Whether it runs though no gradient has arrived: users' functions decide themselves what to make of that.
    takes_nothing = False
    # Event ids, evaluate_function and the node itself, and the class they belong to; subclasses have their own.
    events: tuple[int, int, type] | None = None
    # What a kind of node saves, in order: (kind, name), where the name is that of an argument or a result.
    saves: tuple[tuple[str, str], ...] = ()

    def run(self, grads: tuple[Any, ...], edges: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
        """Gradients of the inputs from gradients of the outputs (some may be None). `edges` are those of the node, with
        None for inputs whose gradients nobody asks for."""
        raise NotImplementedError

    def differentiable(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """The gradients of those outputs that can have one."""
        if not self.nondiff:
            return grads
        return tuple(gradient for nr, gradient in enumerate(grads) if nr not in self.nondiff)

    def release(self) -> None:
        """Drop what backward needs."""
        self.saved = None

    def keep(self) -> None:
        """The `release` of nodes that save no tensors: they can run any number of times."""

    def __init_subclass__(cls) -> None:
        """What nodes of this kind save can be read under torch's names: `_saved_self`, `_saved_result`, …

        A `__getattr__` for all kinds would make every look at any attribute of a node take many times as long.
        """
        for position, kind, label in _saved_places(cls.saves):
            setattr(cls, f"_saved_{label}", property(functools.partial(_saved_value, kind, label, position)))

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A place in a graph is neither copied nor stored: all that leads there would have to come along."""
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    def name(self) -> str:
        return event_name(type(self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        return tuple((None if type(e) is Nowhere else target(e), output_number(e)) for e in self.edges)

    def _hooks(self) -> Hooks:
        if self.hooks is None:
            self.hooks = Hooks()
        return self.hooks

    @property
    def metadata(self) -> dict[Any, Any]:
        return self._hooks().metadata

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(grad_inputs, grad_outputs)` after the node ran; may return other grad_inputs."""
        return add_hook(self._hooks().post, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(grad_outputs)` before the node runs; may return other grad_outputs."""
        return add_hook(self._hooks().pre, hook)

    def _sequence_nr(self) -> int:
        return self.seq

    def _input_metadata(self) -> list[tuple[Any, Any]]:
        if self.outputs == 1:
            return [(self.shape, self.dtype)]
        return list(zip(self.shape, self.dtype, strict=True))

    def event_ids(self) -> tuple[int, int, type]:
        """Ids of the two events of this kind of node, and the kind."""
        known = self.events
        kind = type(self)
        if known is None or known[2] is not kind:
            label = event_name(kind)
            evaluate = tap.event_id(f"autograd::engine::evaluate_function: {label}")
            known = kind.events = (evaluate, tap.event_id(label, tap.BACKWARD_FUNCTION), kind)
        return known


def event_name(cls: type) -> str:
    """How the profiler names a kind of node."""
    return f"torch::autograd::{cls.__name__}" if cls.__name__ in _ENGINES_OWN else cls.__name__


# Kinds of nodes that belong to the engine rather than to an operator.
_ENGINES_OWN = frozenset(("AccumulateGrad", "CopyBackwards", "CopySlices"))


class Output:
    """What a tensor that is not the first output of its node has as `_ag`."""

    __slots__ = ("node", "nr")

    def __init__(self, node: Node, nr: int) -> None:
        self.node = node
        self.nr = nr

    @property
    def hooks(self) -> Hooks | None:
        return self.node.hooks


def target(edge: Any) -> Any:
    """The node an edge leads to."""
    return edge.node if type(edge) is Output else edge


def output_number(edge: Any) -> int:
    """The output of the target that an edge feeds."""
    return edge.nr if type(edge) is Output else 0


# AccumulateGrad runs as soon as its gradient is complete.
LEAF_SEQ = 1 << 62


class AccumulateGrad(Node):
    """Where the gradient of a leaf arrives and is kept."""

    __slots__ = ("array", "grad", "ref")

    def __init__(self, tensor: Tensor) -> None:
        self.edges = ()
        self.saved = ()
        self.seq = LEAF_SEQ
        self.hooks = None
        self.array = tensor._a
        self.grad: Tensor | None = None
        self.ref = weakref.ref(tensor)

    @property
    def variable(self) -> Tensor:
        """The leaf; remade on the same memory if nobody holds the original any more."""
        tensor = self.ref()
        if tensor is None:
            tensor = alias(self.array, Storage())
            tensor._ag = self
            self.ref = weakref.ref(tensor)
        return tensor

    def release(self) -> None:
        """A leaf has nothing to free."""


class Nowhere(Node):
    """Where gradients end that nobody keeps: those of views that require grad as their base does, without a way to it."""

    __slots__ = ()

    def __init__(self, tensor: Tensor) -> None:
        self.edges = self.saved = ()
        self.seq = LEAF_SEQ
        self.hooks = None
        self.shape, self.dtype = tensor._a.shape, tensor._a.dtype

    def run(self, grads: tuple[Any, ...], edges: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
        return ()

    release = Node.keep


def leaf_shape(node: AccumulateGrad) -> tuple[int, ...]:
    shape: tuple[int, ...] = node.array.shape
    return shape


def version_of(tensor: Tensor) -> int:
    return 0 if tensor._v is None else tensor._v.version


class Packed:
    """A saved tensor that went through a pack hook, and the place in the graph that what comes back takes."""

    __slots__ = ("value", "unpack_hook", "edge")

    def __init__(self, value: Any, unpack_hook: Callable[[Any], Any], edge: Any = None) -> None:
        self.value = value
        self.unpack_hook = unpack_hook
        self.edge = edge

    def unpacked(self, edge: Any) -> Tensor:
        value = tap.call_traced(self.unpack_hook, self.value)
        if not isinstance(value, Tensor):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(value).__name__}"
            )
        if edge is None or value._ag is edge:
            return value
        tensor = alias(value._a, Storage())
        tensor._ag = edge
        return tensor


def unpack(node: Node, tensor: Any, version: Any) -> Any:
    """A saved input as backward may use it; an error if it changed since."""
    if isinstance(tensor, Tensor):
        if (0 if tensor._v is None else tensor._v.version) != version:
            raise changed(tensor, version)
        return tensor
    if type(tensor) is Packed:
        return tensor.unpacked(tensor.edge)
    return tensor  # None, or a Python number in place of a tensor


def unpack_result(node: Node, array: Any, storage: Any, version: int, nr: int = 0) -> Any:
    """A saved output, joined to its node again."""
    if type(array) is Packed:
        return array.unpacked(node if nr == 0 else Output(node, nr))
    tensor = new(Tensor)
    tensor._a = array
    tensor._v = storage
    tensor._view = None
    tensor._ag = node if nr == 0 else Output(node, nr)
    if storage.version != version:
        raise changed(tensor, version)
    return tensor


def changed(tensor: Any, version: int) -> RuntimeError:
    """The error for a saved tensor that was changed in place."""
    kind = {"float32": "Float", "float64": "Double", "int64": "Long"}.get(tensor.dtype.name, tensor.dtype.name.title())
    origin = ""
    node = target(tensor._ag)
    if node is not None and not isinstance(node, AccumulateGrad):
        name = node.name().rstrip("0123456789").removesuffix("Backward")
        origin = f", which is output {output_number(tensor._ag)} of {name},"
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[torch.{kind}Tensor {list(tensor.shape)}]{origin} is at version {tensor._version}; expected version {version} "
        "instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
        "torch.autograd.set_detect_anomaly(True, check_nan=False)."
    )
