"""Backward: walks the graph from the outputs, newest node first, and hands each gradient on when it is complete.

It sees operators only through `door`, and the profiler only through the tap.
"""

from __future__ import annotations

import heapq
import sys
import threading
from types import SimpleNamespace
from typing import Any

from .. import _tap
from .._tensor import Tensor
from . import anomaly, grad_mode
from .node import FREED, AccumulateGrad, Node, Output, output_number, target

# The few operators the engine needs; filled in by the op table: add, sum_to, cast, detach, clone, add_.
door = SimpleNamespace()

_state = threading.local()


def queue_callback(callback: Any) -> None:
    """Run `callback` when the backward pass that is running on this thread ends."""
    callbacks = getattr(_state, "callbacks", None)
    if callbacks is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    callbacks.append(callback)


def is_running() -> bool:
    """Whether this thread is inside a backward pass."""
    return getattr(_state, "callbacks", None) is not None


def run(
    roots: list[tuple[Any, Tensor]],
    *,
    retain_graph: bool,
    create_graph: bool,
    captures: list[Any] | None = None,
    accumulate: bool = True,
) -> list[Any]:
    """Propagate the gradients in `roots` (edge, gradient). With `captures` (edges) only paths to those are walked;
    what arrives at them is returned, and leaves among them accumulate only if `accumulate` is set."""
    task = _Task(retain_graph, create_graph, captures, accumulate)
    outer = getattr(_state, "callbacks", None)
    _state.callbacks = []
    token = grad_mode.set_enabled(create_graph)
    try:
        task.execute(roots)
        for callback in _state.callbacks:
            callback()
    finally:
        grad_mode.reset_enabled(token)
        _state.callbacks = outer
    return task.captured


class _Task:
    """One backward pass: gradients under way and how many contributions each node still waits for."""

    __slots__ = ("keep", "create", "wanted", "captured", "needed", "accumulate", "waiting", "buffers", "heap", "count")

    def __init__(self, keep: bool, create: bool, captures: list[Any] | None, accumulate: bool) -> None:
        self.keep = keep
        self.create = create
        self.accumulate = accumulate
        self.wanted: dict[Node, list[tuple[int, int]]] | None = None
        self.captured: list[Any] = []
        if captures is not None:
            self.wanted = {}
            self.captured = [None] * len(captures)
            for position, edge in enumerate(captures):
                self.wanted.setdefault(target(edge), []).append((output_number(edge), position))
        self.needed: set[Node] | None = None
        self.waiting: dict[Node, int] = {}
        self.buffers: dict[Node, Any] = {}
        self.heap: list[tuple[int, int, Node]] = []
        self.count = 0

    def execute(self, roots: list[tuple[Any, Tensor]]) -> None:
        starts = [target(edge) for edge, _ in roots]
        self._count_edges(starts)
        if self.wanted is not None:
            self._find_needed(starts)
        for edge, gradient in roots:
            self._deliver(edge, gradient)
        for node in dict.fromkeys(starts):
            if not self.waiting.get(node):
                self._push(node)
        heap = self.heap
        while heap:
            node = heapq.heappop(heap)[2]
            self._evaluate(node, self.buffers.pop(node, None))

    def _count_edges(self, starts: list[Node]) -> None:
        """How many edges lead to each node that can be reached."""
        waiting = self.waiting
        seen = set(starts)
        stack = list(seen)
        while stack:
            for edge in stack.pop().edges:
                if edge is None:
                    continue
                node = edge.node if type(edge) is Output else edge
                waiting[node] = waiting.get(node, 0) + 1
                if node not in seen:
                    seen.add(node)
                    stack.append(node)

    def _find_needed(self, starts: list[Node]) -> None:
        """Which nodes lie on a path to a capture: those whose any edge leads to a needed node."""
        needed = set(self.wanted or ())
        done: set[Node] = set()
        stack: list[tuple[Node, bool]] = [(node, False) for node in starts]
        while stack:
            node, expanded = stack.pop()
            if expanded:
                if any(e is not None and target(e) in needed for e in node.edges):
                    needed.add(node)
            elif node not in done:
                done.add(node)
                stack.append((node, True))
                stack.extend((target(e), False) for e in node.edges if e is not None)
        self.needed = needed

    def _push(self, node: Node) -> None:
        self.count += 1
        heapq.heappush(self.heap, (-node.seq, self.count, node))

    def _deliver(self, edge: Any, gradient: Any) -> None:
        """Add a gradient to what has arrived at an edge's target, in the target's shape and dtype."""
        if type(edge) is Output:
            node, nr = edge.node, edge.nr
        else:
            node, nr = edge, 0
        if node.outputs == 1:
            if type(node) is AccumulateGrad:
                shape, dtype = node.array.shape, node.array.dtype
            else:
                shape, dtype = node.shape, node.dtype
        else:
            shape, dtype = node.shape[nr], node.dtype[nr]
        a = gradient._a
        if a.shape != shape:
            gradient = door.sum_to(gradient, shape, node, nr)
        if a.dtype is not dtype and a.dtype != dtype:
            gradient = door.cast(gradient, dtype)
        buffers = self.buffers
        if node.outputs == 1:
            there = buffers.get(node)
            buffers[node] = gradient if there is None else door.add(there, gradient)
            return
        slots = buffers.get(node)
        if slots is None:
            slots = buffers[node] = [None] * node.outputs
        slots[nr] = gradient if slots[nr] is None else door.add(slots[nr], gradient)

    def _evaluate(self, node: Node, arrived: Any) -> None:
        """Run one node (as an event of its own) and pass its results on."""
        if not _tap.NAMESPACE["HOOK"]:
            self._pass_on(node, self._step(node, arrived))
            return
        evaluate, inner = node.event_ids()
        forward = node.seq if node.seq < AccumulateGrad_SEQ else -1
        with _tap.region(evaluate, forward):
            self._pass_on(node, self._step(node, arrived, inner))

    def _step(self, node: Node, arrived: Any, event: int | None = None) -> tuple[Any, ...]:
        if self.needed is not None and node not in self.needed:
            return ()
        if arrived is None:
            grads: tuple[Any, ...] = (None,) * node.outputs
        else:
            grads = (arrived,) if node.outputs == 1 else tuple(arrived)
        del arrived
        if node.hooks is not None:
            grads = _before(node, grads)
        if self.wanted is not None and node in self.wanted:
            for nr, position in self.wanted[node]:
                self.captured[position] = grads[nr]
            if not self.accumulate and type(node) is AccumulateGrad:
                return ()
            if not any(e is not None and (self.needed is None or target(e) in self.needed) for e in node.edges):
                if type(node) is not AccumulateGrad:
                    return ()
        if type(node) is AccumulateGrad:
            gradient = grads[0]
            grads = ()
            return self._accumulate(node, gradient, event)
        if node.saved is None:
            raise RuntimeError(FREED)
        if grads.count(None) == len(grads):
            results: tuple[Any, ...] = (None,) * len(node.edges)
        elif event is None:
            results = self._run(node, grads)
        else:
            with _tap.region(event, node.seq, _inputs(grads)):
                results = self._run(node, grads)
        if node.hooks is not None and node.hooks.post:
            results = _after(node, results, grads)
        if not self.keep:
            node.release()
        return results

    def _run(self, node: Node, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        if anomaly.is_enabled():
            return anomaly.run(node, grads)
        return node.run(grads)

    def _pass_on(self, node: Node, results: tuple[Any, ...]) -> None:
        waiting = self.waiting
        for position, edge in enumerate(node.edges):
            if edge is None:
                continue
            gradient = results[position] if position < len(results) else None
            if gradient is not None:
                self._deliver(edge, gradient)
            following = edge.node if type(edge) is Output else edge
            left = waiting[following] = waiting[following] - 1
            if left == 0 and (self.needed is None or following in self.needed):
                self._push(following)

    def _accumulate(self, node: AccumulateGrad, gradient: Any, event: int | None) -> tuple[Any, ...]:
        if gradient is None:
            return ()
        if event is None:
            store(node, gradient, self.create)
        else:
            with _tap.region(event, -1, _inputs((gradient,))):
                store(node, gradient, self.create)
        if node.hooks is not None:
            for hook in list(node.hooks.accumulated.values()):
                hook(node.variable)
        return ()


AccumulateGrad_SEQ = 1 << 62


def store(node: AccumulateGrad, gradient: Tensor, create_graph: bool) -> None:
    """Add a gradient to what a leaf has; keep it without copying where nobody else can see it."""
    there = node.grad
    if there is not None:
        if create_graph or there._ag is not None:
            node.grad = door.add(there, gradient)
        else:
            door.add_(there, gradient)
    elif create_graph:
        node.grad = door.clone(gradient)
    elif _only_ours(gradient) and gradient._a.flags.c_contiguous:
        node.grad = door.detach(gradient)
    else:
        node.grad = door.copy_like(gradient, node)


# References to a gradient that only the engine holds, as seen inside `_only_ours` below: measured, not guessed, since
# it depends on the interpreter.
_OWN_REFERENCES = 0


def _only_ours(gradient: Tensor) -> bool:
    """Whether no one but the engine refers to this gradient or its memory."""
    storage = gradient._v
    return sys.getrefcount(gradient) <= _OWN_REFERENCES and (storage is None or sys.getrefcount(storage) <= 3)


def measure_own_references(make: Any) -> None:
    """Learn how many references a gradient has when only the engine holds it, by sending one through the engine."""
    global _OWN_REFERENCES
    seen = []

    def probe(gradient: Tensor) -> bool:
        seen.append(sys.getrefcount(gradient))
        return False

    leaf = make()
    node = AccumulateGrad(leaf)
    global _only_ours
    real, _only_ours = _only_ours, probe
    try:
        run([(_Source(node, make), make())], retain_graph=True, create_graph=False)
    finally:
        _only_ours = real
    _OWN_REFERENCES = seen[0]


class _Source(Node):
    """Sends a fresh gradient to one edge."""

    __slots__ = ("make",)

    def __init__(self, edge: Any, make: Any) -> None:
        self.edges, self.saved, self.seq, self.hooks, self.make = (edge,), (), 0, None, make
        sample = make()
        self.shape, self.dtype = sample._a.shape, sample._a.dtype

    def run(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self.make(),)


def _inputs(grads: Any) -> int:
    """Interned shapes of gradients, when a recorder wants them."""
    if not _tap.SLOT.flags & _tap.SHAPES or grads is None:
        return 0
    return int(door.intern_tensors((grads,) if isinstance(grads, Tensor) else tuple(grads)))


def _before(node: Node, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensor hooks, then retained grads, then pre-hooks of the node."""
    hooks = node.hooks
    if hooks is None:
        return grads
    values = list(grads)
    for nr, registered in hooks.tensor.items():
        for hook in list(registered.values()):
            if values[nr] is not None:
                values[nr] = _checked(hook(values[nr]), values[nr])
    for nr, reference in hooks.retain.items():
        tensor = reference()
        if tensor is not None and values[nr] is not None:
            kept = tensor.__dict__.get("_grad")
            tensor.__dict__["_grad"] = values[nr] if kept is None else door.add(kept, values[nr])
    result = tuple(values)
    for hook in list(hooks.pre.values()):
        changed = hook(result)
        if changed is not None:
            result = changed if isinstance(changed, tuple) else (changed,)
    return result


def _checked(new: Any, old: Any) -> Any:
    if new is None:
        return old
    if not isinstance(new, Tensor):
        raise TypeError(f"expected Tensor, but hook returned '{type(new).__name__}'")
    if new._a.shape != old._a.shape:
        raise RuntimeError(
            f"hook '<hook>' has changed the size of value: {list(old._a.shape)} became {list(new._a.shape)}"
        )
    return new


def _after(node: Node, results: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    hooks = node.hooks
    if hooks is not None:
        for hook in list(hooks.post.values()):
            changed = hook(results, grads)
            if changed is not None:
                results = changed if isinstance(changed, tuple) else (changed,)
    return results
