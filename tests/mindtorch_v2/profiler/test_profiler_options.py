"""Options and arguments of the wrong kind: the errors that torch raises, with a word on what is wanted."""

from collections.abc import Callable
from typing import Any

import pytest

import mindtorch_v2.autograd.profiler as autograd_profiler
from mindtorch_v2.profiler import ProfilerActivity, _ExperimentalConfig, profile, schedule
from profiler_clock import op

CPU = ProfilerActivity.CPU


@pytest.mark.parametrize("value", ["yes", "", None, [], 1.5])
@pytest.mark.parametrize("option", ["record_shapes", "with_flops"])
def test_shapes_and_flops_are_on_or_off(option: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"{option} expects True or False"):
        profile(**{option: value}).start()


@pytest.mark.parametrize("value", ["yes", "", []])
@pytest.mark.parametrize("option", ["profile_memory", "with_stack", "with_modules"])
def test_other_options_take_what_has_a_truth_value(option: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"{option} expects True or False"):
        profile(**{option: value}).start()
    for good in (None, 0, 1, 1.5):
        with profile(**{option: good}):
            pass


def in_recording(call: Callable[[Any], Any], **options: Any) -> Any:
    with profile(**options) as prof:
        return call(prof)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda prof: prof.add_metadata("key", 5), AttributeError),
        (lambda prof: prof.add_metadata("key", None), AttributeError),
        (lambda prof: prof.add_metadata(5, "text"), TypeError),
        (lambda prof: prof.add_metadata_json("key", 5), TypeError),
        (lambda prof: prof.add_metadata_json(5, "5"), TypeError),
        (lambda prof: prof.toggle_collection_dynamic(False, ["cpu"]), TypeError),
        (lambda prof: prof.toggle_collection_dynamic(False, "cpu"), TypeError),
        (lambda prof: prof.toggle_collection_dynamic(False, CPU), TypeError),
        (lambda prof: prof.toggle_collection_dynamic(False, None), TypeError),
        (lambda prof: prof.toggle_collection_dynamic("no", [CPU]), TypeError),
    ],
)
def test_what_is_said_while_recording_is_checked(call: Callable[[Any], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        in_recording(call)


def test_metadata_is_checked_before_the_start_too() -> None:
    with pytest.raises(AttributeError, match="add_metadata_json"):
        profile().add_metadata("key", 5)
    prof = profile()
    prof.preset_metadata_json("key", 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"json\.dumps"):
        prof.start()
    prof.stop()


@pytest.mark.parametrize("given", [5, None, b"id"])
def test_trace_ids_are_text(given: Any) -> None:
    with pytest.raises(TypeError, match="expects a str"):
        profile(custom_trace_id_callback=lambda: given).start()


@pytest.mark.parametrize(
    ("activities", "error"),
    [
        ("cpu", AssertionError),
        ([None], AssertionError),
        ([0], AssertionError),
        ([{}], AssertionError),
        ([[CPU]], AssertionError),
        ([{CPU: None}], TypeError),
        ([{CPU: 5}], TypeError),
        ([{CPU: [1]}], TypeError),
        ([{CPU: "CPU_OP"}], RuntimeError),
        ([CPU, None], TypeError),
        ([ProfilerActivity.MTIA], AssertionError),
        ([CPU, ProfilerActivity.MTIA], AssertionError),
    ],
)
def test_activities_of_the_wrong_kind(activities: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        profile(activities=activities).start()


@pytest.mark.parametrize("device", ["XPU", "HPU", "CUDA"])
def test_other_devices_are_left_out_with_a_warning(device: str) -> None:
    with (
        pytest.warns(UserWarning, match=f"{device} is not available, disabling {device} profiling"),
        profile(activities=[CPU, ProfilerActivity[device]]),
    ):
        pass


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"wait": "1", "warmup": 1, "active": 1}, TypeError),
        ({"wait": None, "warmup": 1, "active": 1}, TypeError),
        ({"wait": 1, "warmup": 1, "active": 1, "repeat": None}, TypeError),
        ({"wait": 1, "warmup": 1, "active": 1, "repeat": -1}, AssertionError),
        ({"wait": 1, "warmup": 1, "active": 1, "skip_first": -1}, AssertionError),
        ({"wait": 1, "warmup": 1, "active": 1, "more": 1}, TypeError),
    ],
)
def test_schedules_of_the_wrong_kind(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        schedule(**arguments)


def test_collection_goes_on_with_what_was_not_named() -> None:
    with profile() as prof:
        prof.toggle_collection_dynamic(False, [ProfilerActivity.CUDA])
        with op("seen"):
            pass
        prof.toggle_collection_dynamic(False, {CPU})
        with op("unseen"):
            pass
        prof.toggle_collection_dynamic(True, (CPU,))
        with op("seen again"):
            pass
    assert [event.name for event in prof.events()] == ["seen", "seen again"]


def test_autograd_profile_checks_when_entered() -> None:
    prof = autograd_profiler.profile(with_stack="yes")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="with_stack"):
        prof.__enter__()
    with pytest.raises(TypeError, match="record_shapes"):
        autograd_profiler.profile(record_shapes="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        {"verbose": "yes"},
        {"trace_only": []},
        {"profiler_metrics": 5},
        {"performance_events": [1]},
        {"custom_profiler_config": 5},
        {"unknown": True},
    ],
)
def test_experimental_settings_of_the_wrong_kind(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        _ExperimentalConfig(**given)
