"""The compiled recorder keeps nothing over Python code that could take it away, and stands it if memory is short."""

import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.core import tap
from mindtorch_v2.dispatch.recording import CALLS, MAKES
from mindtorch_v2.profiler import profile
from mindtorch_v2.profiler.record.recorder import RECORDER

HELPER: Any = tap.HELPER
NAMESPACE = tap.NAMESPACE
ATTACK = Path(__file__).parents[2] / "attack"

pytestmark = pytest.mark.skipif(HELPER is None, reason="the helper is not built here")


class Row:
    """As much of an op's row as the helper asks for."""

    numbered = True

    def __init__(self, name: str) -> None:
        self.event = tap.register_event(name)


class Meddler:
    """An argument that the helper does not know, so that it is asked for its hash, in Python; then it does something."""

    def __init__(self, meddle: Any) -> None:
        self.meddle = meddle

    def __hash__(self) -> int:
        self.meddle()
        return 1


def rows_of(prof: Any, event: int) -> list[int]:
    """The sequence numbers of an event's rows."""
    return [seq for track in prof.profiler.newest_capture().tracks for seq in track.seq[track.kind == event].tolist()]


def test_a_sequence_number_outlives_its_name() -> None:
    """Another thread that builds a graph replaces SEQ while the inputs of an op are asked for."""
    row = Row("numbered op")
    op = HELPER.inside(row, None, lambda value: 7, CALLS, False, False, None, None, tuple)
    others = []

    def replace() -> None:
        NAMESPACE["SEQ"] += 1
        others.extend([10**9 + i for i in range(100)])  # where the number lay something else lies now

    before = NAMESPACE["SEQ"] = 5_000_000
    with profile(record_shapes=True) as prof:
        assert op(Meddler(replace)) == 7
    assert others
    assert rows_of(prof, row.event) == [before]


def test_a_list_that_gets_shorter_while_its_arrays_are_taken() -> None:
    """On the Pythons that collect garbage inside of allocations, a finalizer may do that."""
    op = HELPER.inside(
        Row("listed op"), None, lambda arrays: np.float32(len(arrays)), MAKES, False, False, None, None, tuple
    )
    tensors = [torch.ones(2) for _ in range(500)]

    class Last:
        def __del__(self) -> None:
            del tensors[1:]

    def cycle() -> None:
        last = Last()
        last.itself = last  # type: ignore[attr-defined]

    gc.collect()
    gc.disable()
    try:
        cycle()
        before = gc.get_threshold()
        gc.set_threshold(1)
        gc.enable()
        with profile():
            found = op(tensors)
    finally:
        gc.set_threshold(*before)
        gc.enable()
    assert found.item() in (1, 500)


def test_what_an_op_inside_is_given_is_made_once_for_all_threads() -> None:
    """One thread asks for it while another has got it already, and is not done yet."""
    made = []

    def make() -> tuple[int, ...]:
        made.append(threading.get_ident())
        if len(made) == 1:  # as if another thread came in between
            HELPER_OP(torch.ones(2, 3))
        return (0, 1)

    row = Row("outer op")
    HELPER_OP = HELPER.inside(row, None, lambda a, *more: a.T, MAKES, False, False, None, Row("inner op"), make)
    with profile(record_shapes=True) as prof:
        assert list(HELPER_OP(torch.ones(2, 3)).shape) == [3, 2]
    assert len(rows_of(prof, row.event)) == 2


def test_lists_that_hold_themselves_are_looked_into_only_so_far() -> None:
    endless: list[Any] = [torch.ones(2, 3).t()]
    endless.append(endless)
    array = np.ones(2)
    assert HELPER.lay(array, lambda result, *arguments: result, endless) is array
    del endless[0]
    assert HELPER.lay(array, lambda result, *arguments: None, endless) is array


def test_a_class_that_compares_in_its_own_way_is_not_asked() -> None:
    class Meta(type):
        def __eq__(cls, other: object) -> bool:
            raise AssertionError("compared")

        __hash__ = type.__hash__

    class Value(metaclass=Meta):
        pass

    with profile(record_shapes=True):
        HELPER.begin_with(-1, Value())
        HELPER.end(tap.event_id("compared"))


def test_a_clock_may_open_regions_of_its_own() -> None:
    """So many that the open ones move to another place."""
    event = tap.event_id("clocked")
    state = {"time": 0, "depth": 0}

    def clock() -> int:
        state["time"] += 1
        if state["depth"] < 200:
            state["depth"] += 1
            HELPER.begin(-1)
            HELPER.end(event)
        return state["time"]

    with profile() as prof:
        state["time"] = HELPER.clock()
        tap.set_clock(clock)
        try:
            torch.ones(2)
        finally:
            tap.set_clock(HELPER.clock)
    assert len(rows_of(prof, event)) == 200


def test_an_interrupt_while_recording_reaches_the_program() -> None:
    def clock() -> int:
        tap.set_clock(HELPER.clock)
        raise KeyboardInterrupt

    def work() -> None:
        for _ in range(1000):
            torch.ones(2)

    with profile():
        tap.set_clock(clock)
        with pytest.raises(KeyboardInterrupt):
            work()


@pytest.mark.parametrize(
    "call",
    [
        lambda: HELPER.begin("a"), lambda: HELPER.begin_with(), lambda: HELPER.begin_with("a"), lambda: HELPER.end(None),
        lambda: HELPER.enter(1, "a"), lambda: HELPER.look(1, 2), lambda: HELPER.look_at_parts(1, [], None),
        lambda: HELPER.node(), lambda: HELPER.attach(1, (1, 2)), lambda: HELPER.count_edges([1]),
        lambda: HELPER.pass_on(1, 2, 3, 4, 5), lambda: HELPER.walk(*range(10)), lambda: HELPER.call_traced(),
        lambda: HELPER.call_untraced(), lambda: HELPER.without_graph(), lambda: HELPER.adopt(1), lambda: HELPER.trace(1),
        lambda: HELPER.untrace(1), lambda: HELPER.open_region(None, 1, 1), lambda: HELPER.close_region(1, [1] * 5),
        lambda: HELPER.close_region(RECORDER.own_lane(), ["a"] * 5), lambda: HELPER.keep_grad(1, 2),
        lambda: setattr(RECORDER.own_lane(), "frames", 1), lambda: setattr(RECORDER.own_lane(), "frames", ["a"]),
        lambda: HELPER.MemoryRoles(print, 1).see("a", []),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_an_error(call: Any) -> None:
    with pytest.raises(TypeError):
        call()


def test_a_tensor_without_a_version_is_an_error() -> None:
    """Nobody but a program that looks for trouble has one."""
    base = torch.ones(2, 2)
    base[0]
    del base._v.version
    with pytest.raises(AttributeError):
        base[0]
    bare = object.__new__(torch.Tensor)
    with profile(record_shapes=True, profile_memory=True), pytest.raises(AttributeError):
        torch.cat([bare, bare]) + bare.t()


def test_a_thread_lets_go_of_its_lane() -> None:
    lanes: list[Any] = []

    def work() -> None:
        torch.ones(2) + 1
        lanes.append(weakref.ref(tap.LANES.lane))

    with profile():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    gc.collect()
    assert [lane() for lane in lanes] == [None]


def test_gradients_of_one_leaf_from_several_threads_add_up() -> None:
    leaf = torch.zeros(100_000, requires_grad=True)
    before = sys.getswitchinterval()

    def work() -> None:
        for _ in range(20):
            (leaf * 2).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    sys.setswitchinterval(1e-6)
    try:
        with profile(record_shapes=True, all_threads=True):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(before)
    assert leaf.grad.tolist() == [160.0] * 100_000


def test_a_leaf_is_given_its_first_gradient_once() -> None:
    """Of two threads that find none there, the second one adds its own."""
    leaf = torch.ones(3, requires_grad=True)
    edge = (leaf * 2).grad_fn.edges[0]
    assert HELPER.keep_grad(edge, torch.ones(3))
    assert not HELPER.keep_grad(edge, torch.full((3,), 5.0))
    assert leaf.grad.tolist() == [1, 1, 1]


def attack(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ATTACK / script), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "case", ["helper:", "recorded all, first: op", "recorded shapes, first: fresh", "recorded memory: modes"]
)
def test_any_allocation_may_fail(case: str) -> None:
    told = attack("allocations.py", "--seconds", "0", "--only", case)
    if "not tried" in told or " 0 cases" in told:
        pytest.skip("this Python does not stand it itself")
    assert ", 0 problems" in told.splitlines()[-1]


def test_threads_are_recorded_whatever_the_options() -> None:
    assert "4 rounds, 0 problems" in attack("threads.py", "--rounds", "4")


def test_functions_are_compiled_by_one_thread_at_a_time() -> None:
    """In a process of its own, where no op has been called yet."""
    program = """
import threading
import mindtorch_v2 as torch
from mindtorch_v2.dispatch import codegen, functions
found = []
usual = codegen.backward_source
def in_the_midst(op):
    other = threading.Thread(target=lambda: found.append(functions._making.acquire(blocking=False)))
    other.start()
    other.join()
    return usual(op)
codegen.backward_source = in_the_midst
print((torch.ones(2, requires_grad=True) * 2).requires_grad, set(found))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True {False}\n", "")


def test_lost_rows_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with profile() as prof:
        torch.ones(2)
        monkeypatch.setattr(type(RECORDER), "_lost", lambda self, session: 3)
    assert prof.profiler.newest_capture().notes == ["3 events are missing, for which there was no memory"]
