"""Backward: walks the graph from the outputs, newest node first, and hands each gradient on when it is complete.

It sees operators only through `door`, and the profiler only through the tap.
"""

from __future__ import annotations

import heapq
import itertools
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..core import roles, tap
from ..core.fork import free_in_children, one_at_a_time
from ..core.tensor import Tensor
from ..kernels.floating import quiet
from ..kernels.result_layout import lies_as_leaf
from . import anomaly, deeper, grad_mode
from .node import LEAF_SEQ, AccumulateGrad, Hooks, Node, Output, output_number, target

# The few operators the engine needs; filled in by the op table: add, sum_to, cast, detach, clone, add_.
door = SimpleNamespace()

_state = deeper.carry(threading.local())
_numbers = itertools.count()
_HELPER = tap.HELPER


def queue_callback(callback: Any) -> None:
    """Run `callback` when the backward pass that is running on this thread ends."""
    task = _running()
    if task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    task.callbacks.append(callback)


def is_running() -> bool:
    """Whether this thread is inside a backward pass."""
    return _running() is not None


def _running() -> _Task | None:
    """The backward pass under way in this thread."""
    return getattr(_state, "task", None)


def run(
    roots: list[tuple[Any, Tensor]],
    *,
    retain_graph: bool,
    create_graph: bool,
    captures: list[Any] | None = None,
    accumulate: bool = True,
) -> list[Any]:
    """Propagate the gradients in `roots` (edge, gradient). With `captures` (edges) only paths to those are walked. What
    arrives at them is returned; or, with `accumulate`, their nodes run, so that leaves among them add it to their own."""
    # The engine is no code of the user's, and need not be traced.
    task = _Task(retain_graph, create_graph, captures, accumulate)
    outer = _running()
    if outer is None:
        tap.call_untraced(_run_task, task, roots, None)
    else:
        task.level = outer.level + 1
        deeper.call(task.level, tap.call_untraced, _run_task, task, roots, outer)
    return task.captured


def _run_task(task: _Task, roots: list[tuple[Any, Tensor]], outer: _Task | None) -> None:
    try:
        _state.task = task
        grad_mode.within(task.create, _execute, task, roots)
    finally:
        _state.task = outer


def _execute(task: _Task, roots: list[tuple[Any, Tensor]]) -> None:
    with quiet():
        task.execute(roots)
    for callback in task.callbacks:
        tap.call_traced(callback)


def current_run() -> int:
    """The number of the backward pass that is under way in this thread."""
    task = _running()
    return -1 if task is None else task.number


def is_whole() -> bool:
    """Whether the backward pass under way goes to all leaves rather than to chosen inputs."""
    task = _running()
    return task is None or task.ends is None


def _edges_counted(starts: list[Node]) -> dict[Node, int]:
    """How many edges lead to each node that can be reached."""
    waiting: dict[Node, int] = {}
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
    return waiting


_count_edges: Callable[[list[Node]], dict[Node, int]] = _edges_counted if _HELPER is None else _HELPER.count_edges

# How many nodes have ever been ready: among nodes of the same number the first to be ready runs first.
_order = itertools.count()


def _announce(node: AccumulateGrad) -> None:
    """Tell whoever sorts memory what a leaf and its gradient are."""
    roles.announce(roles.PARAMETER, (node.variable,))
    roles.announce(roles.GRADIENT, (node.grad,))


if _HELPER is not None:
    _HELPER.connect_engine(roles.LISTENERS, _announce, Node.release, Node.keep, heapq.heappush, heapq.heappop)


class _Task:
    """One backward pass: gradients under way and how many contributions each node still waits for."""

    __slots__ = (
        "keep", "create", "ends", "wanted", "captured", "needed", "waiting", "buffers", "heap", "number", "callbacks",
        "level",
    )  # fmt: skip

    def __init__(self, keep: bool, create: bool, captures: list[Any] | None, accumulate: bool) -> None:
        self.keep = bool(keep)
        self.create = bool(create)
        # The nodes that the pass is to reach; None for all.
        self.ends = None if captures is None else [target(edge) for edge in captures]
        # Those at which something is to be handed over: which output of theirs, and where it belongs in `captured`.
        self.wanted: dict[Node, list[tuple[int, int]]] | None = None
        self.captured: list[Any] = []
        if captures is not None and not accumulate:
            self.wanted = {}
            self.captured = [None] * len(captures)
            for position, edge in enumerate(captures):
                self.wanted.setdefault(target(edge), []).append((output_number(edge), position))
        self.needed: set[Node] | None = None
        self.waiting: dict[Node, int] = {}
        self.buffers: dict[Node, Any] = {}
        self.heap: list[tuple[int, int, Node]] = []
        self.number = next(_numbers)
        self.level = 0  # how many other passes it runs inside of
        # What the user wants to have called at the end.
        self.callbacks: list[Any] = []

    def execute(self, roots: list[tuple[Any, Tensor]]) -> None:
        starts = [target(edge) for edge, _ in roots]
        self.waiting = _count_edges(starts)
        if self.ends is not None:
            self._find_needed(starts)
            roots = [root for root in roots if self._is_requested(root[0])]
        if len(roots) > 1 and tap.SLOT.recorder is not None:
            self._deliver_recorded(roots)
        while roots:
            self._deliver(*roots.pop(0))
        for node in dict.fromkeys(starts):
            if not self.waiting.get(node) and (self.needed is None or node in self.needed):
                self._push(node)
        self._run_all()

    def _deliver_recorded(self, roots: list[tuple[Any, Tensor]]) -> None:
        """Hand several roots their gradients, for which torch has a node of its own. What that node itself would do, to
        hold them, has no counterpart here, and no event."""
        event = tap.event_id("autograd::engine::evaluate_function: torch::autograd::GraphRoot")
        with tap.region(event, tap.sequence_number(True)):
            while roots:
                self._deliver(*roots.pop(0))

    def _run_all(self) -> None:
        """Run the nodes that are ready, newest first, until none is left."""
        buffers, namespace, plain = self.buffers, tap.NAMESPACE, self.wanted is None
        while (node := self._next()) is not None:
            # A gradient travels in a list of one, so that no frame on its way keeps a reference to it.
            holder = [buffers.pop(node, None)]
            unasked = holder[0] is None and node.takes_nothing
            if unasked or not plain or node.hooks is not None or namespace["SAVING"] is not None:
                tap.call_traced(self._evaluate, node, holder)
            elif not namespace["HOOK"]:
                self._run_plainly(node, holder)
            elif namespace["RECORDING"]:
                self._run_recorded(node, holder)
            else:
                tap.call_traced(self._evaluate, node, holder)

    def _next(self) -> Node | None:
        """The newest node that is ready; the helper runs those itself that nothing but a recorder watches."""
        if _HELPER is not None:
            found: Node | None = _HELPER.walk(
                self.heap, self.buffers, self.waiting, _order, self._deliver, store, self.needed, self.wanted, self.keep,
                self.create,
            )  # fmt: skip
            return found
        return heapq.heappop(self.heap)[2] if self.heap else None

    def _find_needed(self, starts: list[Node]) -> None:
        """Which nodes lie on a path to a capture: those whose any edge leads to a needed node."""
        needed = set(self.ends or ())
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

    def _is_requested(self, edge: Any) -> bool:
        """Whether an edge leads to what somebody asked for."""
        return edge is not None and (self.needed is None or target(edge) in self.needed)

    def _requested(self, node: Node) -> tuple[Any, ...]:
        """The edges of a node, with None for those that lead nowhere anybody asked for."""
        if self.needed is None:
            return node.edges
        return tuple([edge if self._is_requested(edge) else None for edge in node.edges])

    def _push(self, node: Node) -> None:
        heapq.heappush(self.heap, (-node.seq, next(_order), node))

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
            if node in buffers:
                gradient = self._sum([buffers.pop(node)], gradient)
            buffers[node] = gradient
            return
        slots = buffers.get(node)
        if slots is None:
            slots = buffers[node] = [None] * node.outputs
        there, slots[nr] = [slots[nr]], None
        slots[nr] = gradient if there[0] is None else self._sum(there, gradient)

    def _sum(self, holder: list[Any], gradient: Any) -> Any:
        """What has arrived and a further gradient, added into the former where nobody else can see it."""
        there = holder.pop()
        if type(there) is not Tensor and there.is_sparse:
            there, gradient = gradient, there  # it is added to the new one, which may be dense
        if self.create or sys.getrefcount(there) != ALONE or type(there) is not Tensor or not _is_own(there):
            return door.add(there, gradient)
        # Who else refers to a tensor hangs on who watches; so that nobody can tell, the sum is as new as one made apart.
        before = 0 if there._v is None else there._v.version
        door.add_(there, gradient)._v.version = before
        return there

    def _run_plainly(self, node: Node, holder: list[Any]) -> None:
        """Run one node that nobody watches."""
        arrived = holder[0]
        if arrived is None:
            self._pass_on(node, [])
        elif type(node) is AccumulateGrad:
            del arrived
            store(node, holder, self.create)
        else:
            results = list(node.run((arrived,) if node.outputs == 1 else tuple(arrived)))
            if not self.keep:
                node.release()
            self._pass_on(node, results)

    def _run_recorded(self, node: Node, holder: list[Any]) -> None:
        """Run one node that only a recorder watches."""
        evaluate, event, _ = node.event_ids()
        if type(node) is AccumulateGrad:
            outer = _open(evaluate, -1)
            try:
                if holder[0] is not None:
                    inner = _open(event, -1, (holder[0],))
                    try:
                        store(node, holder, self.create)
                    finally:
                        _close(inner)
                    if roles.LISTENERS:
                        _announce(node)
            finally:
                _close(outer)
            return
        arrived = holder.pop()
        outer = _open(evaluate, node.seq)
        try:
            results: list[Any] = []
            if arrived is not None:
                grads = (arrived,) if node.outputs == 1 else tuple(arrived)
                inner = _open(event, node.seq, node.differentiable(grads) if node.nondiff else grads)
                try:
                    results = list(node.run(grads))
                finally:
                    _close(inner)
                if not self.keep:
                    node.release()
                # What arrived goes before the results are handed on, and while the event lasts.
                del grads
            del arrived
            self._pass_on(node, results)
        finally:
            _close(outer)

    def _evaluate(self, node: Node, holder: list[Any]) -> None:
        """Run one node with all its hooks and captures (as an event of its own) and pass its results on."""
        if not tap.NAMESPACE["HOOK"]:
            self._pass_on(node, list(self._step(node, holder)))
            return
        evaluate, inner, _ = node.event_ids()
        with _shown_region(evaluate, node.seq if node.seq < LEAF_SEQ else -1):
            self._pass_on(node, list(self._step(node, holder, inner)))

    def _step(self, node: Node, holder: list[Any], event: int | None = None) -> tuple[Any, ...]:
        if type(node) is AccumulateGrad:
            self._accumulate(node, holder, event)
            return ()
        arrived = holder.pop()
        if arrived is None:
            grads: tuple[Any, ...] = (None,) * node.outputs
        else:
            grads = (arrived,) if node.outputs == 1 else tuple(arrived)
        del arrived
        if node.hooks is not None:
            grads = _seen_by_tensors(node.hooks, grads)
        if self.wanted is not None and node in self.wanted:
            self._capture(node, grads)
            if not any(self._is_requested(edge) for edge in node.edges):
                return ()
        if node.hooks is not None:
            grads = _seen_by_node(node.hooks, grads)
        if all(g is None for g in grads) and not node.takes_nothing:
            results: tuple[Any, ...] = (None,) * len(node.edges)
        elif event is None:
            results = self._run(node, grads)
        else:
            with _shown_region(event, node.seq, node.differentiable(grads)):
                if tap.SLOT.watcher is not None:
                    tap.SLOT.watcher.given(grads)
                results = self._run(node, grads)
        if node.hooks is not None and node.hooks.post:
            results = _after(node, results, grads)
        if not self.keep:
            node.release()
        return results

    def _capture(self, node: Node, grads: tuple[Any, ...]) -> None:
        assert self.wanted is not None
        for nr, position in self.wanted[node]:
            self.captured[position] = grads[nr]

    def _run(self, node: Node, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        if anomaly.is_enabled():
            return anomaly.run(node, grads, self._requested(node))
        return node.run(grads, self._requested(node))

    def _pass_on(self, node: Node, results: list[Any]) -> None:
        """Hand the results on, and keep none of them."""
        waiting, edges = self.waiting, self._requested(node)
        if _HELPER is not None:
            for following in _HELPER.pass_on(edges, results, waiting, self.buffers, self._deliver):
                self._push(following)
            return
        given = len(results)
        for position, edge in enumerate(edges):
            if edge is not None:
                if position < given and results[position] is not None:
                    gradient, results[position] = results[position], None
                    self._deliver(edge, gradient)
                    del gradient
                following = edge.node if type(edge) is Output else edge
                left = waiting[following] - 1
                waiting[following] = left
                if left == 0:
                    self._push(following)

    def _accumulate(self, node: AccumulateGrad, holder: list[Any], event: int | None) -> None:
        hooks = node.hooks
        if hooks is not None and holder[0] is not None:
            holder[0] = _seen_by_tensors(hooks, (holder[0],))[0]
        if self.wanted is not None and node in self.wanted:
            self._capture(node, (holder[0],))
            return
        if holder[0] is None:
            return
        if hooks is not None:
            holder[0] = _seen_by_node(hooks, (holder[0],))[0]
            tensor = node.ref()
            if tensor is not None and tensor._ag is not node:  # it does not require grad any more
                return
        if event is None:
            store(node, holder, self.create)
        else:
            with _shown_region(event, -1, (holder[0],)):
                if tap.SLOT.watcher is not None:
                    tap.SLOT.watcher.given(holder)
                store(node, holder, self.create)
            if roles.LISTENERS:
                _announce(node)
        if hooks is not None:
            for hook in list(hooks.accumulated.values()):
                if hook(node.variable) is not None:
                    raise RuntimeError("Tensor post accumulate grad hooks should return None.")
            _after(node, (), (node.grad,))


def _count_of_local() -> int:
    """What `sys.getrefcount` says of an object that one local name holds: 2, or 1 where Python lends locals to calls."""
    local = object()
    return sys.getrefcount(local)


ALONE = _count_of_local()


def _is_own(t: Tensor) -> bool:
    """Whether a tensor is all that holds its memory; a reference of a slot and the argument of getrefcount make two."""
    a = t._a
    if type(a) is not np.ndarray or not a.flags.c_contiguous or not (t._v is None or sys.getrefcount(t._v) == 2):
        return False
    del a
    return sys.getrefcount(t._a) == 2 and (t._a.base is None or sys.getrefcount(t._a.base) == 2)


# Held while a gradient is added to what a leaf has: several threads may do so at once. Re-entrant, as a finalizer may run
# backward, too.
_storing = free_in_children(threading.RLock())


def store(node: AccumulateGrad, holder: list[Any], create_graph: bool) -> None:
    """Add a gradient to what a leaf has; keep it without copying where nobody else can see it."""
    one_at_a_time(_storing, _store, node, holder, create_graph)


def _store(node: AccumulateGrad, holder: list[Any], create_graph: bool) -> None:
    if node.grad is not None:
        _add(node, holder.pop(), create_graph)
        return
    kept = _own(node, holder, create_graph)
    # The helper gives leaves their first gradient without the lock.
    if not _keep(node, kept):
        _add(node, kept, create_graph)


def _add(node: AccumulateGrad, gradient: Any, create_graph: bool) -> None:
    there: Any = node.grad
    if type(there) is not Tensor and there.is_sparse and not gradient.is_sparse:
        node.grad = door.add(gradient, there)
    elif create_graph or there._ag is not None:
        node.grad = door.add(there, gradient)
    else:
        door.add_(there, gradient)


def _kept_in_python(node: AccumulateGrad, gradient: Any) -> bool:
    node.grad = gradient
    return True


_keep: Callable[[AccumulateGrad, Any], bool] = _kept_in_python if _HELPER is None else _HELPER.keep_grad


def _own(node: AccumulateGrad, holder: list[Any], create_graph: bool) -> Any:
    """A gradient as a leaf keeps it."""
    gradient = holder.pop()
    if create_graph:
        return door.clone_like(gradient, node)
    # Nobody but the name `gradient` holds it. The storage has two references: its slot and the argument of getrefcount.
    if (
        sys.getrefcount(gradient) == ALONE
        and (gradient._v is None or sys.getrefcount(gradient._v) == 2)
        and lies_as_leaf(gradient._a, node.array)
    ):
        return door.detach(gradient)
    return door.copy_like(gradient, node)


def _shown_region(event: int, seq: int, grads: tuple[Any, ...] = ()) -> tap.region:
    """The region of a node, with the shapes of what arrives if a recorder wants them."""
    return tap.region(event, seq, door.intern_tensors(grads) if grads and tap.SLOT.flags & tap.SHAPES else 0)


def _begin_region(event: int, seq: int, grads: tuple[Any, ...] = ()) -> tap.region:
    return _shown_region(event, seq, grads).__enter__()


# Begins the region of a node where a recorder is all that looks on; what it gives is for `_close`.
_open: Any = _begin_region if _HELPER is None else _HELPER.enter
_close: Any = tap.region.__exit__ if _HELPER is None else _HELPER.end


def _seen_by_tensors(hooks: Hooks, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Gradients as the hooks of tensors leave them; those that keep their gradients get them."""
    values = list(grads)
    for nr, registered in hooks.tensor.items():
        for hook in list(registered.values()):
            if values[nr] is not None:
                values[nr] = _checked(hook, hook(values[nr]), values[nr])
    for nr, reference in hooks.retain.items():
        tensor = reference()
        if tensor is not None and values[nr] is not None:
            kept = tensor.__dict__.get("_kept_grad")
            # A copy: the value itself goes on through the graph, and may be a view or somebody else's gradient too.
            tensor.__dict__["_kept_grad"] = door.clone(values[nr]) if kept is None else door.add(kept, values[nr])
    return tuple(values)


def _seen_by_node(hooks: Hooks, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Gradients as the hooks leave them that a node has before it runs."""
    for hook in list(hooks.pre.values()):
        changed = hook(grads)
        if changed is not None:
            grads = _same_count(hook, changed, len(grads))
    return grads


def _same_count(hook: Any, changed: Any, count: int) -> tuple[Any, ...]:
    """What a hook of a node returned: as many gradients as it was given."""
    if not isinstance(changed, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(changed).__name__}'")
    if len(changed) != count:
        name = getattr(hook, "__name__", "<unknown>")
        raise RuntimeError(
            f"hook '{name}' has returned an incorrect number of values (got {len(changed)}, but expected {count})"
        )
    return changed


def _checked(hook: Any, new: Any, old: Any) -> Any:
    if new is None:
        return old
    if not isinstance(new, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(new).__name__}'")
    if new._a.shape != old._a.shape:
        raise RuntimeError(f"hook '{getattr(hook, '__name__', '<unknown>')}' has changed the size of value")
    if new._a.dtype != old._a.dtype:
        raise RuntimeError(
            f"hook '{getattr(hook, '__name__', '<unknown>')}' has changed the type of value (was {old.dtype} got "
            f"{new.dtype})"
        )
    return new


def _after(node: Node, results: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    hooks = node.hooks
    if hooks is not None:
        for hook in list(hooks.post.values()):
            changed = hook(results, grads)
            if changed is not None:
                pairs = zip(_same_count(hook, changed, len(results)), results, strict=True)
                results = tuple(new if old is None else _checked(hook, new, old) for new, old in pairs)
    return results
