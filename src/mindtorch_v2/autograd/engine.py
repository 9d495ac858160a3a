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

from .. import _roles, _tap
from .._floating import quiet
from .._tensor import Tensor
from . import anomaly, grad_mode
from .node import FREED, LEAF_SEQ, AccumulateGrad, Node, Output, output_number, target

# The few operators the engine needs; filled in by the op table: add, sum_to, cast, detach, clone, add_.
door = SimpleNamespace()

_state = threading.local()
_numbers = itertools.count()
_HELPER = _tap.HELPER


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
    """Propagate the gradients in `roots` (edge, gradient). With `captures` (edges) only paths to those are walked;
    what arrives at them is returned, and leaves among them accumulate only if `accumulate` is set."""
    # The engine is no code of the user's, and need not be traced.
    found: list[Any] = _tap.quietly(_run_task, _Task(retain_graph, create_graph, captures, accumulate), roots)
    return found


def _run_task(task: _Task, roots: list[tuple[Any, Tensor]]) -> list[Any]:
    outer, building = _running(), grad_mode.is_grad_enabled()
    # All switches lie inside of `try`, the last of which is a call: an interrupt, which comes after one, leaves nothing.
    try:
        _state.task = task
        grad_mode.set_enabled(task.create)
        with quiet():
            task.execute(roots)
        for callback in task.callbacks:
            _tap.aloud(callback)
    finally:
        _state.task = outer
        grad_mode.set_enabled(building)
    return task.captured


def current_run() -> int:
    """The number of the backward pass that is under way in this thread."""
    task = _running()
    return -1 if task is None else task.number


def is_whole() -> bool:
    """Whether the backward pass under way goes to all leaves rather than to chosen inputs."""
    task = _running()
    return task is None or task.wanted is None


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
    _roles.announce(_roles.PARAMETER, (node.variable,))
    _roles.announce(_roles.GRADIENT, (node.grad,))


if _HELPER is not None:
    _HELPER.connect_engine(_roles.LISTENERS, _announce, Node.release, heapq.heappush, heapq.heappop)


class _Task:
    """One backward pass: gradients under way and how many contributions each node still waits for."""

    __slots__ = (
        "keep", "create", "wanted", "captured", "needed", "accumulate", "waiting", "buffers", "heap", "number", "callbacks",
    )  # fmt: skip

    def __init__(self, keep: bool, create: bool, captures: list[Any] | None, accumulate: bool) -> None:
        self.keep = bool(keep)
        self.create = bool(create)
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
        self.number = next(_numbers)
        # What the user wants to have called at the end.
        self.callbacks: list[Any] = []

    def execute(self, roots: list[tuple[Any, Tensor]]) -> None:
        starts = [target(edge) for edge, _ in roots]
        self.waiting = _count_edges(starts)
        if self.wanted is not None:
            self._find_needed(starts)
        if len(roots) > 1 and _tap.SLOT.recorder is not None:
            self._deliver_recorded(roots)
        while roots:
            self._deliver(*roots.pop(0))
        for node in dict.fromkeys(starts):
            if not self.waiting.get(node):
                self._push(node)
        self._run_all()

    def _deliver_recorded(self, roots: list[tuple[Any, Tensor]]) -> None:
        """Hand several roots their gradients, for which torch has a node of its own. What that node itself would do, to
        hold them, has no counterpart here, and no event."""
        event = _tap.event_id("autograd::engine::evaluate_function: torch::autograd::GraphRoot")
        with _tap.region(event, _tap.sequence_number(True)):
            while roots:
                self._deliver(*roots.pop(0))

    def _run_all(self) -> None:
        """Run the nodes that are ready, newest first, until none is left."""
        buffers, namespace, plain = self.buffers, _tap.NAMESPACE, self.wanted is None
        while (node := self._next()) is not None:
            # A gradient travels in a list of one, so that no frame on its way keeps a reference to it.
            holder = [buffers.pop(node, None)]
            unasked = holder[0] is None and node.takes_nothing
            if unasked or not plain or node.hooks is not None or namespace["SAVING"] is not None:
                _tap.aloud(self._evaluate, node, holder)
            elif not namespace["HOOK"]:
                self._run_plainly(node, holder)
            elif namespace["RECORDING"]:
                self._run_recorded(node, holder)
            else:
                _tap.aloud(self._evaluate, node, holder)

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
        if self.create or sys.getrefcount(there) != ALONE or type(there) is not Tensor or not _is_own(there):
            return door.add(there, gradient)
        return door.add_(there, gradient)

    def _run_plainly(self, node: Node, holder: list[Any]) -> None:
        """Run one node that nobody watches."""
        arrived = holder[0]
        if arrived is None:
            self._pass_on(node, [])
        elif type(node) is AccumulateGrad:
            del arrived
            store(node, holder, self.create)
        else:
            if node.saved is None:
                raise RuntimeError(FREED)
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
                    if _roles.LISTENERS:
                        _announce(node)
            finally:
                _close(outer)
            return
        arrived = holder.pop()
        outer = _open(evaluate, node.seq)
        try:
            results: list[Any] = []
            if arrived is not None:
                if node.saved is None:
                    raise RuntimeError(FREED)
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
        if not _tap.NAMESPACE["HOOK"]:
            self._pass_on(node, list(self._step(node, holder)))
            return
        evaluate, inner, _ = node.event_ids()
        with _shown_region(evaluate, node.seq if node.seq < LEAF_SEQ else -1):
            self._pass_on(node, list(self._step(node, holder, inner)))

    def _step(self, node: Node, holder: list[Any], event: int | None = None) -> tuple[Any, ...]:
        if self.needed is not None and node not in self.needed:
            return ()
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
            grads = _before(node, grads)
        if self.wanted is not None and node in self.wanted:
            self._capture(node, grads)
            if not any(e is not None and (self.needed is None or target(e) in self.needed) for e in node.edges):
                return ()
        if node.saved is None:
            raise RuntimeError(FREED)
        if all(g is None for g in grads) and not node.takes_nothing:
            results: tuple[Any, ...] = (None,) * len(node.edges)
        elif event is None:
            results = self._run(node, grads)
        else:
            with _shown_region(event, node.seq, node.differentiable(grads)):
                if _tap.SLOT.watcher is not None:
                    _tap.SLOT.watcher.given(grads)
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
            return anomaly.run(node, grads)
        return node.run(grads)

    def _pass_on(self, node: Node, results: list[Any]) -> None:
        """Hand the results on, and keep none of them."""
        waiting, needed = self.waiting, self.needed
        if needed is None and _HELPER is not None:
            for following in _HELPER.pass_on(node.edges, results, waiting, self.buffers, self._deliver):
                self._push(following)
            return
        given = len(results)
        for position, edge in enumerate(node.edges):
            if edge is not None:
                if position < given and results[position] is not None:
                    gradient, results[position] = results[position], None
                    self._deliver(edge, gradient)
                    del gradient
                following = edge.node if type(edge) is Output else edge
                left = waiting[following] - 1
                waiting[following] = left
                if left == 0 and (needed is None or following in needed):
                    self._push(following)

    def _accumulate(self, node: AccumulateGrad, holder: list[Any], event: int | None) -> None:
        if node.hooks is not None and holder[0] is not None:
            holder[0] = _before(node, (holder[0],))[0]
        if self.wanted is not None and node in self.wanted:
            self._capture(node, (holder[0],))
            if not self.accumulate:
                return
        if holder[0] is None:
            return
        if event is None:
            store(node, holder, self.create)
        else:
            with _shown_region(event, -1, (holder[0],)):
                if _tap.SLOT.watcher is not None:
                    _tap.SLOT.watcher.given(holder)
                store(node, holder, self.create)
            if _roles.LISTENERS:
                _announce(node)
        if node.hooks is not None:
            for hook in list(node.hooks.accumulated.values()):
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


def store(node: AccumulateGrad, holder: list[Any], create_graph: bool) -> None:
    """Add a gradient to what a leaf has; keep it without copying where nobody else can see it."""
    gradient = holder.pop()
    there = node.grad
    if there is not None:
        if create_graph or there._ag is not None:
            node.grad = door.add(there, gradient)
        else:
            door.add_(there, gradient)
    elif create_graph:
        node.grad = door.clone(gradient)
    # Nobody but the name `gradient` holds it. The storage has two references: its slot and the argument of getrefcount.
    elif (
        sys.getrefcount(gradient) == ALONE
        and (gradient._v is None or sys.getrefcount(gradient._v) == 2)
        and gradient._a.flags.c_contiguous
    ):
        node.grad = door.detach(gradient)
    else:
        node.grad = door.copy_like(gradient, node)


def _shown_region(event: int, seq: int, grads: tuple[Any, ...] = ()) -> _tap.region:
    """The region of a node, with the shapes of what arrives if a recorder wants them."""
    return _tap.region(event, seq, door.intern_tensors(grads) if grads and _tap.SLOT.flags & _tap.SHAPES else 0)


def _begin_region(event: int, seq: int, grads: tuple[Any, ...] = ()) -> _tap.region:
    return _shown_region(event, seq, grads).__enter__()


# Begins the region of a node where a recorder is all that looks on; what it gives is for `_close`.
_open: Any = _begin_region if _HELPER is None else _HELPER.enter
_close: Any = _tap.region.__exit__ if _HELPER is None else _HELPER.end


def _before(node: Node, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensor hooks, then retained grads, then pre-hooks of the node."""
    hooks = node.hooks
    if hooks is None:
        return grads
    values = list(grads)
    for nr, registered in hooks.tensor.items():
        for hook in list(registered.values()):
            if values[nr] is not None:
                values[nr] = _checked(hook, hook(values[nr]), values[nr])
    for nr, reference in hooks.retain.items():
        tensor = reference()
        if tensor is not None and values[nr] is not None:
            kept = tensor.__dict__.get("_grad")
            # A copy: the value itself goes on through the graph, and may be a view or somebody else's gradient too.
            tensor.__dict__["_grad"] = door.clone(values[nr]) if kept is None else door.add(kept, values[nr])
    result = tuple(values)
    for hook in list(hooks.pre.values()):
        changed = hook(result)
        if changed is not None:
            result = _same_count(hook, changed, len(result))
    return result


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
