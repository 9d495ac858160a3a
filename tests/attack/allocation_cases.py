"""Calls of the recorder's compiled part, for `allocations`: each of its functions, and small programs recorded with every
option."""

from __future__ import annotations

import _thread
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import mindtorch_v2 as torch
from allocations import Attacked, Case
from mindtorch_v2.autograd.node import Node
from mindtorch_v2.core import roles, tap
from mindtorch_v2.profiler import profile, record_function
from mindtorch_v2.profiler.record.memory_roles import _block
from mindtorch_v2.profiler.record.recorder import RECORDER

HELPER: Any = tap.HELPER

MODES: dict[str, dict[str, Any]] = {
    "plain": {},
    "shapes": {"record_shapes": True},
    "memory": {"profile_memory": True},
    "stacks": {"with_stack": True},
    "modules": {"with_modules": True},
    "all": dict.fromkeys(("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules"), True),
}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 3)
        self.second = torch.nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        return self.second(torch.relu(self.first(x)))


class Programs:
    """What is recorded. Each gives what it computes as numbers; what it changes it puts back, so that it can be repeated."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.x = torch.randn(2, 4)
        self.w = torch.ones(4, 3, requires_grad=True)
        self.model = Model()
        self.optimizers = [kind(self.model.parameters(), lr=0.0) for kind in (torch.optim.SGD, torch.optim.AdamW)]
        self.model(self.x).sum().backward()
        self.other: Any = None

    def op(self) -> Any:
        return (self.x + self.x).tolist()

    def views(self) -> Any:
        parts = torch.split(self.x.t(), 2)
        return [self.x[0].tolist(), self.x[:, torch.tensor([1, 0])].tolist(), *(part.tolist() for part in parts)]

    def change(self) -> Any:
        y = self.x.clone()
        y[0].add_(1)
        return [y.tolist(), y.data.shape, torch.cat([y, self.x]).sum(1).tolist()]

    def matrices(self) -> Any:
        return torch.nn.functional.linear(self.x, self.w.detach().t()).tolist()

    def fresh(self) -> Any:
        """On shapes that nobody has seen."""
        return torch.ones(3, 5, 7).transpose(0, 2).sum().tolist()

    def graph(self) -> Any:
        y = (self.x @ self.w).sum()
        return [y.tolist(), y.requires_grad, y.grad_fn is not None]

    def backward(self) -> Any:
        self.w.grad = None
        first, second = torch.split(self.x @ self.w, 1)
        (first * second).sum().backward()
        return self.w.grad.tolist()

    def added(self) -> Any:
        self.w.grad = None
        for _ in range(2):
            (self.w * self.w).sum().backward()
        return self.w.grad.tolist()

    def module(self) -> Any:
        return self.model(self.x).tolist()

    def step(self) -> Any:
        for optimizer in self.optimizers:
            optimizer.step()
        return [parameter.sum().tolist() for parameter in self.model.parameters()]

    def region(self) -> Any:
        with record_function("region"):
            return torch.max(self.x, 0).indices.tolist()

    def refused(self) -> Any:
        try:
            self.x @ self.x
        except RuntimeError as error:
            if "can't allocate" in str(error):
                raise
            return "refused"
        return "done"

    def modes(self) -> Any:
        with torch.no_grad():
            first = (self.w * 2).requires_grad
        with torch.inference_mode():
            second = torch.ones(2).is_inference()
        return [first, second, torch.is_grad_enabled(), torch.is_inference_mode_enabled()]

    def beside(self) -> Any:
        """In the other thread, if there is one."""
        if self.other is None:
            return [self.op()]
        begin, end, found = self.other
        found.clear()
        begin.release()
        end.acquire()
        if isinstance(found[0], BaseException):
            raise found[0]
        return list(found)

    def _start(self) -> None:
        begin, end = _thread.allocate_lock(), _thread.allocate_lock()
        begin.acquire()
        end.acquire()
        found: list[Any] = []
        self.other = begin, end, found

        def work() -> None:
            while True:
                begin.acquire()
                try:
                    found.append(self.op())
                except BaseException as error:
                    found.append(error)
                finally:
                    end.release()

        _thread.start_new_thread(work, ())


NAMES = [name for name in vars(Programs) if not name.startswith("_")]
# While Python functions are timed, the interpreter makes an object of the frame of each function it enters, that of an
# `__exit__` as well: where that fails nothing of the function has run.
LEAVES_MODES = "modes"


def events_of(prof: Any) -> list[list[Any]]:
    """What a recording holds, thread by thread: name, inputs, whether there is a stack and whether it is a Python function."""
    capture = prof.profiler.newest_capture()
    found = []
    for track in capture.tracks:
        columns = (track.start_ns, -track.end_ns, track.kind, track.inputs, track.stack)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for _, _, kind, inputs, stack in sorted(rows, key=lambda row: row[:2]):
            described = capture.kinds[kind]
            shown = described.describe(capture.inputs[inputs]) if inputs and described.describe else None
            found.append([described.name, None if shown is None else list(shown), bool(stack), described.is_function])
    return found


def lost_by(prof: Any) -> bool:
    return any("no memory" in note for note in prof.profiler.newest_capture().notes)


def recorded(mode: str, name: str, warm: bool) -> Case:
    """One program while a recording with such options runs, for the first time in it or not."""

    def prepare() -> Attacked:
        programs = Programs()
        program: Callable[[], Any] = getattr(programs, name)
        with profile(**MODES[mode]):
            if name == "fresh":
                torch.ones(3).transpose(0, 0).sum().tolist()
            else:
                program()  # has all code generated: the compiler of Python itself does not stand it if memory is short
        prof = profile(**MODES[mode])
        prof.start()
        if warm:
            program()

        def after() -> Any:
            programs.other = None
            with record_function("after"):
                again = program()
            prof.stop()
            events = events_of(prof)
            place = next(i for i, event in enumerate(events) if event[0] == "after")
            state = [torch.is_grad_enabled(), sys.getprofile() is None, tap.NAMESPACE["HOOK"], RECORDER.sessions == []]
            known = [event for event in events[:place] if not event[-1]]  # functions are those of `allocations`, too
            return [again, events[place:], state], None if lost_by(prof) else known

        return Attacked(program, after, programs._start if name == "beside" else lambda: None)

    return Case(f"recorded {mode}{'' if warm else ', first'}: {name}", prepare)


def entry(name: str, make: Callable[[], Callable[[], Any]]) -> Case:
    """One function of the helper, or a few that belong together, called directly while all is recorded. It must work again
    afterwards."""

    def prepare() -> Attacked:
        prof = profile(**MODES["all"])
        prof.start()
        call = make()
        call()

        def after() -> Any:
            again = call()
            prof.stop()
            return [again, torch.is_grad_enabled(), sys.getprofile() is None, RECORDER.sessions == []], None

        return Attacked(call, after)

    return Case(f"helper: {name}", prepare)


def shape_of(tensor: Any) -> list[int]:
    return list(tensor.shape)


def _event() -> int:
    return tap.event_id("an event")


def _ops() -> Callable[[], Any]:
    x = torch.ones(3, 2)

    def call() -> Any:
        HELPER.begin_with(1, x, [1, 2.5, None, "text"], torch.float32)
        return HELPER.end(_event())

    return call


def _unseen_inputs() -> Callable[[], Any]:
    numbers = iter(range(1000, 10**6))

    def call() -> Any:
        HELPER.begin_with(1, next(numbers), torch.ones(1))
        return HELPER.end(_event())

    return call


def _looks() -> Callable[[], Any]:
    base = torch.ones(4, 6, requires_grad=True) * 2

    def call() -> Any:
        parts = HELPER.look_at_parts(base, [base._a[0], base._a[1]], type(base[0]._view))
        view = HELPER.look(base, base._a[1:])
        return [shape_of(part) for part in (*parts, HELPER.look(view, view._a[0]), view.data)]

    return call


def _nodes() -> Callable[[], Any]:
    leaf = torch.ones(2, requires_grad=True)

    def call() -> Any:
        made = HELPER.node(Node, (leaf.grad_fn,), (), 7, (2,), np.dtype(np.float32))
        HELPER.attach(made, (torch.ones(2), torch.ones(3)))
        out = (leaf * 2 + leaf).grad_fn
        return [
            made.seq,
            len(made.shape),
            sorted(HELPER.count_edges([out]).values()),
            HELPER.live((leaf * 2)[0]) is not None,
        ]

    return call


def _tokens() -> Callable[[], Any]:
    array = np.ones((3, 4), np.float32)

    def call() -> Any:
        return [HELPER.count(array).nbytes, shape_of(HELPER.wrap(array)), shape_of(HELPER.wrap_counted(array))]

    return call


def _regions() -> Callable[[], Any]:
    def call() -> Any:
        opened = HELPER.open_region(_event(), -1, 0)
        HELPER.close_region(opened[0], opened[1])
        return [len(opened[1]), len(opened[0].open)]

    return call


def _modules() -> Callable[[], Any]:
    model, x = Model(), torch.ones(1, 4)
    return lambda: shape_of(HELPER.call_module(model, (x,), {}, None, None))


def _lanes() -> Callable[[], Any]:
    lane = RECORDER.own_lane()

    def call() -> Any:
        lane.write((1, 2, 3, -1, 0, 0))
        lane.note((1, 5, 7))
        rows, marks = lane.take()
        return [len(rows) > 0, len(marks) > 0, type(lane.frames).__name__, HELPER.stack() >= 0]

    return call


def _memory_roles() -> Callable[[], Any]:
    tensors = [torch.ones(2), torch.ones(3).data, None, 1]

    def call() -> Any:
        log = HELPER.MemoryRoles(_block, roles.INPUT)
        log.see(roles.PARAMETER, tensors)
        return len(log.take())

    return call


def _laid() -> Callable[[], Any]:
    x = torch.ones(3, 4).t()
    return lambda: shape_of(HELPER.wrap_laid(np.ones(2, np.float32), lambda array, *more: array, [x, 1], x))


def _modes() -> Callable[[], Any]:
    def call() -> Any:
        HELPER.set_grad(False)
        HELPER.set_grad(True)
        return HELPER.without_graph(torch.is_grad_enabled)

    return call


def _reads() -> Callable[[], Any]:
    x = torch.ones(3, 4)
    index = (slice(0, 2), torch.tensor([1, 2]))
    names = ("shape", "dtype", "ndim", "device", "requires_grad", "grad", "is_leaf", "nbytes", "itemsize")

    def call() -> Any:
        view, taken, axis = HELPER.split_index(index, 2)
        values = [str(getattr(x, name)) for name in names]
        return [str(view), len(taken), axis, values, x.stride(), x.size(), x.numel(), list(x.shape[1:])]

    return call


ENTRIES: dict[str, Callable[[], Callable[[], Any]]] = {
    "begin_with, end": _ops,
    "begin_with for inputs not seen before": _unseen_inputs,
    "look, look_at_parts, data": _looks,
    "node, attach, count_edges, live": _nodes,
    "count, wrap, wrap_counted": _tokens,
    "open_region, close_region": _regions,
    "call_module": _modules,
    "lanes and stacks": _lanes,
    "MemoryRoles": _memory_roles,
    "lay, wrap_laid": _laid,
    "set_grad, without_graph": _modes,
    "readers, split_index": _reads,
    "clock": lambda: lambda: HELPER.clock() > 0,
}

CASES = [] if HELPER is None else [entry(name, make) for name, make in ENTRIES.items()]
# From 3.12 on the interpreter frees the code of a function too often where there is no memory for the function, as of a
# lambda or a generator expression, and crashes the next time: no program of several functions can be tried there.
if sys.version_info < (3, 12):
    CASES += [
        recorded(mode, name, warm)
        for mode in MODES
        for name in NAMES
        for warm in (True, False)
        if not (name == LEAVES_MODES and "with_stack" in MODES[mode])
    ]
