"""Schedules, steps and what happens between them."""

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mindtorch_v2.autograd import profiler as autograd_profiler
from mindtorch_v2.profiler import (
    KinetoStepTracker,
    ProfilerAction,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)
from profiler_clock import op

LETTERS = {
    "N": ProfilerAction.NONE,
    "W": ProfilerAction.WARMUP,
    "R": ProfilerAction.RECORD,
    "S": ProfilerAction.RECORD_AND_SAVE,
}


def quiet_schedule(**arguments: int) -> Callable[[int], ProfilerAction]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return schedule(**arguments)


def fixed(letters: str) -> Callable[[int], ProfilerAction]:
    return lambda step: LETTERS[letters[step]] if step < len(letters) else ProfilerAction.NONE


@pytest.mark.parametrize(
    ("arguments", "letters"),
    [
        ({"wait": 1, "warmup": 1, "active": 2}, "NWRSNWRSNWRS"),
        ({"wait": 1, "warmup": 1, "active": 2, "repeat": 1}, "NWRSNNNN"),
        ({"wait": 1, "warmup": 1, "active": 2, "repeat": 2, "skip_first": 2}, "NNNWRSNWRSNNN"),
        ({"wait": 2, "warmup": 1, "active": 1, "repeat": 2, "skip_first": 1, "skip_first_wait": 1}, "NWSNNWSNNN"),
        ({"wait": 2, "warmup": 1, "active": 1, "skip_first_wait": -1}, "WSNNWSNN"),
        ({"wait": 0, "warmup": 1, "active": 1}, "WSWSWS"),
        ({"wait": 0, "warmup": 0, "active": 1}, "SSSS"),
        ({"wait": 0, "warmup": 0, "active": 3}, "RRSRRS"),
    ],
)
def test_schedule_gives_the_actions_of_torch(arguments: dict[str, int], letters: str) -> None:
    action = quiet_schedule(**arguments)
    assert [action(step) for step in range(len(letters))] == [LETTERS[letter] for letter in letters]


@pytest.mark.parametrize("wrong", [{"wait": -1}, {"warmup": -1}, {"active": 0}, {"repeat": -1}, {"skip_first": -1}])
def test_schedule_refuses_negative_numbers(wrong: dict[str, int]) -> None:
    with pytest.raises(AssertionError, match=r"wait=.*warmup=.*active=.*repeat=.*skip_first="):
        schedule(**{"wait": 1, "warmup": 1, "active": 1, **wrong})


def test_schedule_refuses_positional_and_missing_arguments() -> None:
    with pytest.raises(TypeError):
        schedule(1, 1, 1)  # type: ignore[misc]
    with pytest.raises(TypeError):
        schedule(wait=1, warmup=1)  # type: ignore[call-arg]
    with pytest.raises(AssertionError, match="non-negative"):
        schedule(wait=1, warmup=1, active=1)(-1)


def test_schedule_without_warmup_warns() -> None:
    with pytest.warns(UserWarning, match="warmup"):
        schedule(wait=1, warmup=0, active=1)


@pytest.mark.parametrize(
    ("warmup", "active", "repeat", "acc_events", "count"),
    [
        (0, 1, 1, True, 1),
        (0, 5, 0, True, 100),
        (0, 5, 10, True, 50),
        (1, 5, 0, True, 83),
        (10, 10, 4, True, 40),
        (50, 1, 0, True, 1),
        (0, 5, 0, False, 0),
        (10, 10, 4, False, 10),
    ],
)
def test_a_hundred_steps_record_as_many_ops_as_in_torch(
    warmup: int, active: int, repeat: int, acc_events: bool, count: int
) -> None:
    plan = quiet_schedule(wait=0, warmup=warmup, active=active, repeat=repeat)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profile(schedule=plan, acc_events=acc_events) as prof:
            for _ in range(100):
                with op("aten::add"):
                    pass
                prof.step()
    assert sum(row.count for row in prof.key_averages() if row.key == "aten::add") == count
    assert sum(event.name == "aten::add" for event in prof.events()) == count


class Spy(profile):
    """Writes down what a profile does between actions."""

    def __init__(self, **arguments: Any) -> None:
        self.done: list[str] = []
        super().__init__(**arguments)

    def prepare_trace(self) -> None:
        self.done.append("P")
        super().prepare_trace()

    def start_trace(self) -> None:
        self.done.append("B")
        super().start_trace()

    def stop_trace(self) -> None:
        self.done.append("E")
        super().stop_trace()

    def _trace_ready(self) -> None:
        self.done.append("H")
        super()._trace_ready()

    def take(self) -> str:
        done, self.done = "".join(self.done), []
        return done


# Before, after, what happens; "-" is the end. torch lacks the P of RW and crashes at the next recording.
TRANSITIONS = """
NN: NW:P NR:PB NS:PB N-: WN:BE WW: WR:B WS:B W-:BE
RN:E RW:EP RR: RS: R-:EH SN:EH SW:EHP SR:EHPB SS:EHPB S-:EH
""".split()


@pytest.mark.parametrize("transition", TRANSITIONS)
@pytest.mark.filterwarnings("ignore")
def test_transitions_are_those_of_torch(transition: str) -> None:
    actions, _, expected = transition.partition(":")
    before, after = actions
    prof = Spy(schedule=fixed(before + after if after != "-" else before))
    prof.start()
    assert prof.take() == {"N": "", "W": "P", "R": "PB", "S": "PB"}[before]
    if after == "-":
        prof.stop()
        assert prof.take() == expected
    else:
        prof.step()
        assert prof.take() == expected
        prof.stop()


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")
@pytest.mark.parametrize("letters", ["WN", "RN", "RW"])
def test_incorrect_schedules_warn_and_go_on(letters: str) -> None:
    names = [LETTERS[letter].name for letter in letters]
    with profile(schedule=fixed(letters + "WRS")) as prof:
        with pytest.warns(UserWarning, match=f"Incorrect schedule: {names[0]} followed by {names[1]}"):
            prof.step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(3):
                prof.step()
                with op("aten::add"):
                    pass
            prof.step()
    assert sum(event.name == "aten::add" for event in prof.events()) == 2


def test_handler_sees_the_finished_cycle_and_the_new_step() -> None:
    seen: list[tuple[int, list[str]]] = []

    def handler(prof: profile) -> None:
        seen.append((prof.step_num, [event.trace_name for event in prof.events()]))

    with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=1), on_trace_ready=handler) as prof:
        for _ in range(6):
            with op("aten::add"):
                pass
            prof.step()
    assert seen == [(4, ["ProfilerStep#2", "aten::add", "ProfilerStep#3", "aten::add"])]


def test_handler_is_called_once_a_cycle() -> None:
    calls = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profile(schedule=schedule(wait=1, warmup=1, active=2), on_trace_ready=calls.append) as prof:
            for _ in range(8):
                prof.step()
    assert len(calls) == 2


def test_steps_are_one_row_and_keep_their_numbers() -> None:
    with profile(schedule=quiet_schedule(wait=0, warmup=0, active=4)) as prof:
        for _ in range(3):
            prof.step()
    assert [event.name for event in prof.events()] == ["ProfilerStep*"] * 4
    assert [event.trace_name for event in prof.events()] == [f"ProfilerStep#{number}" for number in range(4)]
    (row,) = prof.key_averages()
    assert (row.key, row.count) == ("ProfilerStep*", 4)


def test_without_a_schedule_there_are_no_step_events() -> None:
    calls = []
    with profile(on_trace_ready=calls.append) as prof:
        prof.step()
        prof.step()
    assert prof.step_num == 2
    assert len(prof.events()) == 0
    assert calls == [prof]


def test_leaving_in_warmup_gives_no_events_and_no_call() -> None:
    calls = []
    with profile(schedule=fixed("W"), on_trace_ready=calls.append) as prof, op("aten::add"):
        pass
    assert (len(prof.events()), calls) == (0, [])


def test_leaving_before_anything_is_prepared() -> None:
    with profile(schedule=fixed("N")) as prof:
        pass
    with pytest.raises(AssertionError, match="initialized"):
        prof.events()


def test_an_exception_in_the_handler_comes_out() -> None:
    def handler(prof: profile) -> None:
        raise KeyError("from the handler")

    with pytest.raises(KeyError, match="from the handler"), profile(on_trace_ready=handler):
        pass
    assert autograd_profiler._is_profiler_enabled is False


def test_an_exception_in_the_block_keeps_the_data_and_calls_the_handler() -> None:
    calls = []
    prof = profile(on_trace_ready=calls.append)
    with pytest.raises(ZeroDivisionError), prof, record_function("block"):
        _ = 1 / 0
    assert [event.name for event in prof.events()] == ["block"]
    assert calls == [prof]


def test_device_stopped_is_not_a_schedules_to_return() -> None:
    with pytest.raises(ValueError, match="DEVICE_STOPPED"):
        profile(schedule=lambda step: ProfilerAction.DEVICE_STOPPED)
    actions = [ProfilerAction.RECORD, ProfilerAction.DEVICE_STOPPED, ProfilerAction.RECORD]
    prof = profile(schedule=lambda step: actions[step])
    prof.start()
    with pytest.raises(ValueError, match="DEVICE_STOPPED"):
        prof.step()
    assert (prof.step_num, prof.current_action) == (0, ProfilerAction.RECORD)
    prof.stop()


def test_a_schedule_that_returns_numbers_records_nothing() -> None:
    with profile(schedule=lambda step: 2) as prof, op("aten::add"):  # type: ignore[arg-type,return-value]
        pass
    assert prof.profiler is None


def test_a_schedule_must_be_callable() -> None:
    with pytest.raises(TypeError):
        profile(schedule=5)  # type: ignore[arg-type]


def test_step_before_start_needs_a_recording() -> None:
    with pytest.raises(AssertionError, match="initialized"):
        profile(schedule=fixed("SN")).step()


def test_accumulated_events_come_newest_first() -> None:
    prof = profile(acc_events=True)
    for name in ("first", "second"):
        with prof, op(name):
            pass
    assert [event.name for event in prof.events()] == ["second", "first"]
    assert sum(row.count for row in prof.key_averages()) == 2


def test_a_second_run_replaces_the_events() -> None:
    prof = profile()
    with prof, op("first"):
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with prof, op("second"):
            pass
    assert [event.name for event in prof.events()] == ["second"]


def test_steps_are_counted_per_requester(monkeypatch: pytest.MonkeyPatch) -> None:
    before = KinetoStepTracker.current_step()
    monkeypatch.setenv("KINETO_USE_DAEMON", "1")
    with profile(schedule=quiet_schedule(wait=1, warmup=1, active=2)) as prof, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(8):
            prof.step()
    assert KinetoStepTracker.current_step() == before + 8
    KinetoStepTracker.init_step_count("yet another step")
    assert KinetoStepTracker.increment_step("yet another step") == before + 9
    assert KinetoStepTracker.erase_step_count("yet another step")
    assert not KinetoStepTracker.erase_step_count("yet another step")


def test_tensorboard_handler_writes_one_file_a_cycle(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "runs"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = schedule(wait=0, warmup=1, active=1)
        with profile(schedule=plan, on_trace_ready=tensorboard_trace_handler(str(folder), "worker")) as prof:
            for _ in range(4):
                prof.step()
    files = sorted(folder.iterdir())
    assert len(files) == 2
    for file in files:
        worker, stamp, rest = file.name.split(".", 2)
        assert (worker, rest) == ("worker", "pt.trace.json")
        assert int(stamp) > 0
        assert json.loads(file.read_text())["traceEvents"]


def test_tensorboard_handler_names_the_worker_and_compresses(tmp_path: Path) -> None:
    with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path), use_gzip=True)):
        pass
    (file,) = tmp_path.iterdir()
    assert f"_{os.getpid()}." in file.name
    assert file.name.endswith(".pt.trace.json.gz")
    assert file.read_bytes()[:2] == b"\x1f\x8b"


def test_tensorboard_handler_needs_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(RuntimeError, match="Can't create directory"),
        profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path / "file"))),
    ):
        pass
