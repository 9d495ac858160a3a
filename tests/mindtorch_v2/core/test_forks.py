"""Programs that fork while their other threads work: the child, which has none of them, is not left waiting."""

import os
import threading
from typing import Any

import pytest

import mindtorch_v2 as torch
from forked import exit_code, fork
from mindtorch_v2.amp import autocast_mode
from mindtorch_v2.autograd import grad_mode, graph, overrides
from mindtorch_v2.core import tap
from mindtorch_v2.profiler import profile
from mindtorch_v2.profiler.capture import capture
from mindtorch_v2.profiler.record.frames import TRACER

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
LOCKS = {
    "events": lambda: tap._lock,
    "grad mode": lambda: grad_mode._lock,
    "saved tensors": lambda: graph._lock,
    "functions overridden": lambda: overrides._lock,
    "autocast": lambda: autocast_mode._lock,
    "ids of events": lambda: capture._id_lock,
    "tracer": lambda: TRACER._lock,
}


def all_of_it() -> None:
    with torch.autocast("cpu"), torch.no_grad(), profile(with_stack=True) as prof:
        torch.ones(2) + torch.rand(2)
    assert prof.events()


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_that_another_thread_holds_is_free_in_the_child(name: str) -> None:
    lock: Any = LOCKS[name]()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert exit_code(fork(all_of_it)) == 0
    finally:
        done.set()
        thread.join()


def test_a_fork_waits_for_random_numbers_that_another_thread_draws() -> None:
    over = threading.Event()

    def draw() -> None:
        while not over.is_set():
            torch.rand(100_000)

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        for _ in range(10):
            assert exit_code(fork(lambda: torch.rand(2))) == 0
    finally:
        over.set()
        thread.join()
    assert torch.default_generator._engine.lock.acquire(blocking=False)
    torch.default_generator._engine.lock.release()
