"""How tensors sit in the graph: edges, views and in-place changes, and hooks on what is saved.

A view keeps only its base; when the base (or another view of it) changed since, its place in the graph is found again
from its strides. An in-place change of a view becomes a change of part of the base.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import tap
from ..core.errors import shape_text
from ..core.fork import free_in_children
from ..core.layouts import like
from ..core.meta import MetaArray
from ..core.storage import OfFunction, OneOfMany, Storage, Unwatched, View, view_version
from ..core.tensor import Tensor, alias, bump, make, new, storage_of
from ..kernels.result_layout import blank, strides_of
from . import anomaly, deeper, grad_mode
from .engine import current_run, door
from .memory.resize import resize
from .mode_exit import leaving
from .node import FREED, AccumulateGrad, Node, Nowhere, Output, Packed, output_number, target

shared = alias


def edge(value: Any) -> Any:
    """What a node that takes `value` as input has as edge: None unless it is a tensor that requires grad."""
    if not isinstance(value, Tensor):
        return None
    return value._ag if value._view is None else live(value)


def edges(values: Any) -> list[Any]:
    """`edge` of each of several values; most often there is none."""
    for value in values:
        if isinstance(value, Tensor) and (value._ag is not None or value._view is not None):
            return [edge(value) for value in values]
    return [None] * len(values)


def live(t: Tensor) -> Any:
    """The present place of a view in the graph, found again if its base changed since it was last looked up."""
    view = t._view
    assert view is not None
    base = view.base
    storage = t._v
    if storage is None or (base._ag is None and t._ag is None):
        return t._ag
    building = grad_mode.is_grad_enabled()
    if view_version(storage) == view.version:
        # A view that no op of the graph made requires grad as its base does; what is computed of it does too.
        return Nowhere(t) if t._ag is None and building else t._ag
    if type(view) is not View:
        if building:
            raise _forbidden(t, "its base or another view of its base has been")
        return t._ag
    if t._ag is None or type(base._ag) is not AccumulateGrad:
        if view.replay is not None:
            remade = grad_mode.within(True, view.replay, base)
        else:
            remade = grad_mode.within(True, door.as_strided, base, *Geometry(t))
        # The base may have left its graph, and then there is no way to it any more.
        take_place(t, Nowhere(t) if remade._ag is None else remade._ag)
    view.version = storage.version
    return t._ag


def is_watched(t: Tensor) -> bool:
    """Whether a graph has a part in `t` or in what it is a view of."""
    return edge(t) is not None or (t._view is not None and t._view.base._ag is not None)


def untracked(t: Tensor) -> bool:
    """Whether a view without a place in the graph may be changed in place without more ado."""
    view = t._view
    assert view is not None
    return view.base._ag is None and 0 not in t._a.strides


def make_view(t: Tensor, source: Tensor, replay: Callable[[Tensor], Tensor] | None, kind: type[View] = View) -> None:
    """Say that `t` is a differentiable view of `source`."""
    before = source._view
    version = view_version(storage_of(source))
    if before is None:
        t._view = kind(source, version, replay)
        return
    if replay is None and before.replay is not None:
        replay = composed(before.replay, t, source)
    t._view = (kind if type(before) is View else type(before))(before.base, version, replay)


def views_of(source: Tensor, arrays: Any) -> tuple[Tensor, ...]:
    """Tensors on views of one tensor that came from one op."""
    if tap.HELPER is not None and type(arrays[0]) is np.ndarray:
        kind = OneOfMany if source._ag is not None or grad_mode.is_grad_enabled() else None
        seen: tuple[Tensor, ...] = tap.HELPER.look_at_parts(source, arrays, kind)
        return seen
    storage = source._v
    if storage is None:
        storage = storage_of(source)
    tensors = tuple([alias(a, storage) for a in arrays])
    before: View | None = source._view
    view: View | None = None
    if source._ag is not None or grad_mode.is_grad_enabled():
        if before is None:
            view = OneOfMany(source, storage.version if type(storage) is Storage else view_version(storage))
        else:
            make_view(tensors[0], source, None, OneOfMany)
            view = tensors[0]._view
    # Such views never find their place in the graph again, so they can do with one record.
    for t in tensors:
        t._v = storage
        t._view = view
    if before is not None and before.replay is not None and view is not None:
        for t in tensors:
            make_view(t, source, None, OneOfMany)
    return tensors


def unwatched(t: Tensor, source: Tensor) -> None:
    """Say that `t` is a view of `source` made in no_grad mode, if that is in a graph."""
    if source._ag is not None or (source._view is not None and source._view.base._ag is not None):
        make_view(t, source, None, Unwatched)


class Replay:
    """How a view is remade from its base, where strides alone do not tell: what was done, last step first.

    A step is a function of a tensor, or a geometry; the offset of that is counted from where the tensor begins that it is
    a view of, since a gradient laid out like the base has memory of its own.
    """

    __slots__ = ("before", "step")

    def __init__(self, before: Replay | None, step: Any) -> None:
        self.before, self.step = before, step

    def __call__(self, base: Tensor) -> Tensor:
        steps: list[Any] = []
        replay: Replay | None = self
        while replay is not None:
            steps.append(replay.step)
            replay = replay.before
        t = base
        for step in reversed(steps):
            if type(step) is Geometry:
                t = door.as_strided(t, step[0], step[1], t.storage_offset() + step[2])
            else:
                t = step(t)
        return t


def _strided_step(t: Tensor, source: Tensor) -> Geometry:
    """How `t` is found in a tensor that begins where `source` does."""
    return Geometry(t, source.storage_offset())


def composed(outer: Replay, t: Tensor, source: Tensor) -> Replay:
    """How a view is remade from the base when it is a strided view of `source`, which `outer` remakes."""
    return Replay(outer, _strided_step(t, source))


def replaying(function: Callable[[Tensor], Tensor]) -> Callable[..., Replay]:
    """The `replay` of a view op whose results strides alone cannot remake: call it again on what it is a view of."""

    def prepare(outer: View | None, first: Tensor) -> Replay:
        if outer is None:
            return Replay(None, function)
        return Replay(outer.replay or Replay(None, _strided_step(first, outer.base)), function)

    return prepare


def check_in_place(t: Tensor) -> None:
    """Refuse what would break a leaf, and changes of views whose part in the graph would be unclear."""
    view = t._view
    if view is not None:
        if type(view) is not View:
            raise _forbidden(t, "is being")
        base = view.base._ag
        if type(base) is AccumulateGrad or (base is None and t._ag is not None):
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    if type(t._ag) is AccumulateGrad:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


def _forbidden(t: Tensor, what: str) -> RuntimeError:
    node = target(t._ag)
    known = node is not None and type(node) is not AccumulateGrad
    name = (
        f"Output {output_number(t._ag)} of {node.name().rstrip('0123456789').removesuffix('Backward')}" if known else ""
    )
    if known and type(t._view) is not Unwatched:
        start = f"{name} is a view and {what} modified inplace. "
    else:
        made = f"{name} is a view of a view which was" if known else "A view was"
        start = f"{made} created in no_grad mode and {what} modified inplace with grad mode enabled. "
    if type(t._view) is OneOfMany:
        return RuntimeError(
            start
            + "This view is the output of a function that returns multiple views. Such functions do not allow the "
            "output views to be modified inplace. You should replace the inplace operation by an out-of-place one."
        )
    if type(t._view) is OfFunction:
        return RuntimeError(
            start + "This view was created inside a custom Function (or because an input was returned as-is) and the "
            "autograd logic to handle view+inplace would override the custom backward associated with the custom "
            "Function, leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the "
            "output of the custom Function."
        )
    return RuntimeError(
        start + "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by "
        "moving both the view and the inplace either both inside the no_grad block (if you don't want the inplace to "
        "be tracked) or both outside (if you want the inplace to be tracked)."
    )


class Geometry(tuple[Any, ...]):
    """Shape, element strides and offset of a tensor within its storage, or from some place there."""

    __slots__ = ()

    def __new__(cls, t: Tensor, start: int = 0) -> Geometry:
        return tuple.__new__(cls, (t._a.shape, t.stride(), t.storage_offset() - start))


class CopySlices(Node):
    """The node of a base of which a part was changed in place by another node.

    Backward is done on a copy of the gradient laid out as the base is, so that the part can be found by its strides.
    """

    __slots__ = ("inner", "base", "part", "replay")

    def __init__(self, base: Tensor, part: Tensor, inner: Node) -> None:
        view = part._view
        assert view is not None
        self.inner, self.base, self.part, self.replay = inner, Geometry(base), Geometry(part), view.replay
        self.edges = (base._ag, *inner.edges[1 if _takes_self(inner) else 0 :])
        self.saved = ()
        self.seq = tap.NAMESPACE["SEQ"]
        tap.NAMESPACE["SEQ"] += 1
        self.shape, self.dtype, self.hooks = base._a.shape, base._a.dtype, None

    def run(self, grads: tuple[Any, ...], edges: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
        if self.saved is None:
            raise RuntimeError(FREED)
        unseen = not (tap.NAMESPACE["HOOK"] or grad_mode.is_grad_enabled())
        plain = self.replay is None and type(grads[0]) is Tensor and type(grads[0]._a) is np.ndarray
        return (self._run_on_arrays if unseen and plain else self._run_as_ops)(grads)

    def _run_on_arrays(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Where nobody sees the operators: the same on the arrays."""
        whole = grads[0]._a.copy()
        size = whole.itemsize
        shape, strides, offset = self.part
        if whole.strides != tuple([stride * size for stride in self.base[1]]) or 0 in strides or not whole.size:
            return self._run_as_ops(grads)
        steps = tuple([stride * size for stride in strides])
        part = np.ndarray(shape, whole.dtype, whole, (offset - self.base[2]) * size, steps)
        results = self.inner.run((make(_copied(part)),))
        if not _takes_self(self.inner):
            results = (None, *results)
        if self.edges[0] is None:
            return (None, *results[1:])
        part[...] = 0 if results[0] is None else results[0]._a
        return (make(whole), *results[1:])

    def _run_as_ops(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        shape, strides, offset = self.base
        whole = door.copy_strided(grads[0], shape, strides)
        if self.replay is not None:
            part = self.replay(whole)
        else:
            part = door.as_strided(whole, *self.part[:2], self.part[2] - offset)
        results = self._run_inner(door.clone(part))
        if not _takes_self(self.inner):
            results = (None, *results)
        if self.edges[0] is None:
            return (None, *results[1:])
        if results[0] is None:
            door.zero_(part)
        else:
            door.copy_(part, results[0])
        if not grad_mode.is_grad_enabled():
            storage_of(whole).version = 0  # a gradient that nobody has changed yet
        return (whole, *results[1:])

    def _run_inner(self, gradient: Tensor) -> tuple[Any, ...]:
        if tap.SLOT.recorder is None:
            return self.inner.run((gradient,))
        with tap.region(self.inner.event_ids()[1], self.inner.seq, door.intern_tensors((gradient,))):
            return self.inner.run((gradient,))

    def release(self) -> None:
        self.saved = None
        self.inner.release()


def _takes_self(node: Node) -> bool:
    """Whether the first edge of an in-place op's node is the changed tensor itself."""
    op = getattr(type(node), "op", None)
    return op is None or op.differentiable[:1] == ["self"]


def _copied(a: Any) -> Any:
    """What `clone` makes of an array."""
    if a.flags.c_contiguous or type(a) is MetaArray:
        return a.copy()
    made = blank(a.shape, a.dtype, like(a.shape, strides_of(a)))
    np.copyto(made, a)
    return made


def before_change(t: Tensor, keep: bool) -> Tensor:
    """A stand-in for a tensor that is no view and is about to change in place; its values are copied to be kept."""
    stand_in = new(Tensor)
    stand_in._a = _copied(t._a) if keep else t._a
    stand_in._ag = t._ag
    stand_in._v = stand_in._view = None
    return stand_in


def cloned_before_change(t: Tensor, keep: bool) -> Tensor:
    """`before_change`, the copy being an op that is recorded."""
    stand_in = before_change(t, False)
    if keep:
        stand_in._a = grad_mode.without_graph(door.clone, t)._a
    return stand_in


def rebase(t: Tensor, node: Node | None) -> None:
    """Give `t`, just changed in place, its new place in the graph."""
    if node is None:
        t._ag = None
        return
    view = t._view
    if view is None:
        take_place(t, node)
        return
    base = view.base
    take_place(base, CopySlices(base, t, node))
    view.version = -1
    live(t)


def take_place(t: Tensor, place: Any) -> None:
    """Give a tensor another place in the graph; if it keeps its gradient, it keeps the one that arrives there."""
    before, t._ag = t._ag, place
    hooks = None if before is None else before.hooks
    if hooks is not None and hooks.retain:
        reference = hooks.retain.get(output_number(before))
        if reference is not None and reference() is t:
            del hooks.retain[output_number(before)]
            target(place)._hooks().retain[output_number(place)] = reference


def resize_out(t: Tensor, result: Any) -> None:
    """Give `out=` the shape of the result, and the order in memory that it has, on the memory of its own."""
    shape = result.shape
    if t._a.size:
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {shape_text(t._a.shape)}, which does "
            f"not match the required output shape {shape_text(shape)}. This behavior is deprecated, and in a future "
            "PyTorch release outputs will not be resized unless they have zero elements. You can explicitly reuse an "
            "out tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
            stacklevel=2,
        )
    resize(t, shape, like(shape, strides_of(result)))


# --- hooks on saved tensors -------------------------------------------------------------------------------------------

_hooks = deeper.carry(threading.local())
_active = 0
_lock = free_in_children(threading.Lock())


def _stack() -> list[Any]:
    stack: list[Any] | None = getattr(_hooks, "stack", None)
    if stack is None:
        stack = _hooks.stack = []
    return stack


def active_hooks() -> Any:
    """The pack and unpack hooks of this thread, or None."""
    stack = _stack()
    return stack[-1] if stack and not isinstance(stack[-1], str) else None


def update_saving() -> None:
    """Tell generated code whether new nodes must be looked at."""
    tap.NAMESPACE["SAVING"] = _node_made if _active or anomaly.is_enabled() else None


anomaly.tell_changes_to(update_saving)


def _node_made(node: Any) -> None:
    if anomaly.is_enabled():
        anomaly.remember(node)
    hooks = active_hooks()
    if hooks is not None:
        pack_saved(node, *hooks)


def pack_saved(node: Any, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
    """Send what a node saved through a pack hook."""
    saved: list[Any] = []
    for item in node.saved:
        if isinstance(item, Tensor):
            saved.append(_packed(item, pack, unpack))
        elif isinstance(item, tuple) and any(isinstance(x, Tensor) for x in item):
            saved.append(tuple(_packed(x, pack, unpack) if isinstance(x, Tensor) else x for x in item))
        elif isinstance(item, np.ndarray):
            saved.append(_packed(alias(item, storage_of(alias(item, None))), pack, unpack))  # type: ignore[arg-type]
        else:
            saved.append(item)
    node.saved = tuple(saved)


def _packed(t: Tensor, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> Packed:
    return Packed(grad_mode.without_graph(tap.call_traced, pack, t), unpack, edge(t))


def _drop_hooks(context: object) -> None:
    del _hooks.stack[-1]


class saved_tensors_hooks:
    """Inside, what ops save for backward goes through `pack_hook`, and comes back through `unpack_hook`."""

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        message = next((h for h in reversed(_stack()) if isinstance(h, str)), None)
        if message is not None:
            raise RuntimeError(message)
        _enter((self.pack_hook, self.unpack_hook))

    __exit__ = leaving(_drop_hooks, lambda self: _count_active(-1))


def _enter(hooks: Any) -> None:
    """An interrupt, which comes after a call, may leave the count too high, which takes a little time, but no hooks."""
    _count_active(1)
    stack = _stack()
    stack += [hooks]


def _count_active(change: int) -> None:
    global _active
    with _lock:
        _active += change
        update_saving()


class save_on_cpu(saved_tensors_hooks):
    """Keeps saved tensors on the CPU, where they already are."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda t: t, lambda t: t)


class disable_saved_tensors_hooks:
    """Inside, entering saved-tensor hooks is an error that says `error_message`."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __enter__(self) -> None:
        _enter(self.error_message)

    __exit__ = leaving(_drop_hooks, lambda self: _count_active(-1))


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """Inside, what ops save may be changed in place afterwards: they keep copies."""

    def __init__(self) -> None:
        super().__init__(lambda t: door.clone(t), lambda t: t)


def increment_version(tensor: Any) -> None:
    """Count a change of a tensor (or several) that the counter has not seen."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        bump(t)


def register_multi_grad_hook(tensors: Any, fn: Callable[..., None], *, mode: str = "all") -> MultiHandle:
    """Call `fn` with the gradients of several tensors when all of them (mode "all") or the first ("any") has come."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    wanted = [t for t in tensors if edge(t) is not None]
    runs: list[int] = [-1]
    grads: list[Any] = []

    def arrived(position: int, gradient: Any) -> None:
        first = runs[0] != current_run()
        if first:
            runs[0] = current_run()
            grads[:] = [None] * len(wanted)
        grads[position] = gradient
        if mode == "any":
            if first:
                fn(gradient)
        elif all(g is not None for g in grads):
            fn(list(grads))

    return MultiHandle(tuple(t.register_hook(functools.partial(arrived, i)) for i, t in enumerate(wanted)))


class MultiHandle:
    """Removes the hooks of several tensors."""

    def __init__(self, handles: tuple[Any, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> MultiHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def get_gradient_edge(tensor: Tensor) -> Any:
    """The (node, output number) whose gradient is that of `tensor`."""
    if edge(tensor) is None:
        raise RuntimeError("It is not possible to get the gradient edge of a Tensor that does not require gradients")
    found = edge(tensor)
    return GradientEdge(found.node, found.nr) if type(found) is Output else GradientEdge(found, 0)


class GradientEdge(tuple[Any, ...]):
    """A node and the number of one of its outputs."""

    def __new__(cls, node: Any, output_nr: int) -> GradientEdge:
        return super().__new__(cls, (node, output_nr))

    @property
    def node(self) -> Any:
        return self[0]

    @property
    def output_nr(self) -> int:
        return int(self[1])
