"""How recorded children end: by signals, by handlers of their own, in the middle of things; nothing recorded is lost."""

import _thread
import ctypes
import importlib
import os
import signal
import sys
from typing import Any

import pytest

from forked import exit_code, fork
from mindtorch_v2.profiler import profile
from mindtorch_v2.profiler.record import endings
from profiler_clock import op

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
TERM = signal.SIGTERM


def names_in_children(prof: profile) -> list[str]:
    assert prof.profiler is not None
    capture = prof.profiler._recordings[0].capture()
    return [capture.kinds[kind].name for track in capture.tracks if track.pid for kind in track.kind.tolist()]


def record(name: str) -> None:
    with op(name):
        pass


def killed_in_a_call_that_never_returns() -> None:
    """SIGTERM comes when the main thread has left Python for good: a mutex it holds already is locked again."""
    record("before")
    lock = ctypes.CDLL(None).pthread_mutex_lock
    mutex = ctypes.create_string_buffer(256)
    lock(mutex)
    # The other thread gets its turn when this one lets go of Python, which is for the call.
    sys.setswitchinterval(1000)
    _thread.start_new_thread(os.kill, (os.getpid(), TERM))
    lock(mutex)


blocking = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a mutex of zeros is Linux's")


@blocking
def test_a_signal_ends_a_child_whose_main_thread_waits_outside_python() -> None:
    with profile(workers=True) as prof:
        assert exit_code(fork(killed_in_a_call_that_never_returns)) == -TERM
    assert names_in_children(prof) == ["before"]


@blocking
def test_a_signal_ends_a_child_of_a_program_that_uses_asyncio() -> None:
    """Which takes the wakeup descriptor away in children, since Python 3.12."""
    importlib.import_module("asyncio")
    with profile(workers=True) as prof:
        assert exit_code(fork(killed_in_a_call_that_never_returns)) == -TERM
    assert names_in_children(prof) == ["before"]


@blocking
def test_a_signal_ends_a_grandchild_alone() -> None:
    def work() -> None:
        assert exit_code(fork(killed_in_a_call_that_never_returns)) == -TERM
        record("after")

    with profile(workers=True) as prof:
        assert exit_code(fork(work)) == 0
    assert sorted(names_in_children(prof)) == ["after", "before"]


@pytest.mark.parametrize("takes_descriptor", [False, True])
def test_a_signal_ends_a_child_that_runs_python(takes_descriptor: bool) -> None:
    """Also where the program has taken the wakeup descriptor away."""

    def work() -> None:
        record("before")
        if takes_descriptor:
            signal.set_wakeup_fd(-1)
        os.kill(os.getpid(), TERM)
        while True:
            signal.getsignal(TERM)

    with profile(workers=True) as prof:
        assert exit_code(fork(work)) == -TERM
    assert names_in_children(prof) == ["before"]


def test_a_signal_in_the_middle_of_the_end_waits_for_it() -> None:
    def work() -> None:
        record("before")
        finish = endings._finish
        assert finish is not None

        def late() -> None:
            os.kill(os.getpid(), TERM)
            finish()

        endings._finish = late

    with profile(workers=True) as prof:
        assert exit_code(fork(work)) in (0, -TERM)
    assert names_in_children(prof) == ["before"]


def test_a_childs_own_handler_has_the_signal_to_itself() -> None:
    def work() -> None:
        seen: list[int] = []
        signal.signal(TERM, lambda number, frame: seen.append(number))
        os.kill(os.getpid(), TERM)
        while not seen:
            signal.getsignal(TERM)
        record("survived")

    with profile(workers=True) as prof:
        assert exit_code(fork(work)) == 0
    assert names_in_children(prof) == ["survived"]


def test_a_childs_own_handler_may_go_on_to_the_one_before_it() -> None:
    def work() -> None:
        before: Any = signal.getsignal(TERM)

        def handler(number: int, frame: object) -> None:
            record("handler")
            before(number, frame)

        signal.signal(TERM, handler)
        os.kill(os.getpid(), TERM)
        while True:
            signal.getsignal(TERM)

    with profile(workers=True) as prof:
        assert exit_code(fork(work)) == -TERM
    assert names_in_children(prof) == ["handler"]


def test_a_handler_of_the_parents_is_the_childs_too() -> None:
    seen: list[int] = []
    before = signal.signal(TERM, lambda number, frame: seen.append(number))

    def work() -> None:
        os.kill(os.getpid(), TERM)
        while not seen:
            signal.getsignal(TERM)
        record("survived")

    try:
        with profile(workers=True) as prof:
            assert exit_code(fork(work)) == 0
    finally:
        signal.signal(TERM, before)
    assert names_in_children(prof) == ["survived"]
    assert seen == []


def test_other_signals_still_reach_the_wakeup_descriptor_of_the_program() -> None:
    ears, voice = os.pipe()
    os.set_blocking(voice, False)

    def work() -> None:
        signal.signal(signal.SIGUSR1, lambda number, frame: None)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert os.read(ears, 1)[0] == signal.SIGUSR1

    before = signal.set_wakeup_fd(voice)
    try:
        with profile(workers=True):
            assert exit_code(fork(work)) == 0
    finally:
        assert signal.set_wakeup_fd(before) == voice
        os.close(ears)
        os.close(voice)


def test_forks_leave_the_signal_mask_as_it_was() -> None:
    def masked() -> bool:
        return TERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def work() -> None:
        assert not masked()

    with profile(workers=True):
        assert exit_code(fork(work)) == 0
        assert not masked()
        signal.pthread_sigmask(signal.SIG_BLOCK, {TERM})
        try:
            assert exit_code(fork(lambda: None if masked() else os._exit(2))) == 0
            assert masked()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {TERM})


def test_children_start_without_the_handlers_a_profiled_process_was_given() -> None:
    def work() -> None:
        assert signal.getsignal(TERM) is signal.SIG_DFL

    with endings.guest_handler(lambda number, frame: None):
        assert signal.getsignal(TERM) is not signal.SIG_DFL
        assert exit_code(fork(work)) == 0
    assert signal.getsignal(TERM) is signal.SIG_DFL


@blocking
def test_children_with_a_guest_handler_in_the_parent_bring_their_recording_home() -> None:
    with endings.guest_handler(lambda number, frame: None), profile(workers=True) as prof:
        assert exit_code(fork(killed_in_a_call_that_never_returns)) == -TERM
    assert names_in_children(prof) == ["before"]


def written_until_interrupted(steps: str) -> list[str]:
    """Of a block of steps, those that were done; `!` is Ctrl-C."""
    written: list[str] = []

    def block() -> None:
        with endings.interrupts_held("files are being written"):
            for step in steps:
                if step == "!":
                    signal.raise_signal(signal.SIGINT)
                else:
                    written.append(step)

    with pytest.raises(KeyboardInterrupt):
        block()
    return written


def test_an_interrupt_waits_for_files_that_belong_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert written_until_interrupted("a!b") == ["a", "b"]
    assert "files are being written; Ctrl-C once more gives it up" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_does_not_wait() -> None:
    assert written_until_interrupted("!a!b") == ["a"]


def test_a_programs_own_handler_of_interrupts_stays() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with endings.interrupts_held("files are being written"):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]
