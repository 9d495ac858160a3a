"""Arguments, states and options of profilers, and what is refused."""

import copy
import logging
import pickle
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.autograd.profiler as autograd_profiler
from mindtorch_v2.autograd import profiler_legacy
from mindtorch_v2.profiler import (
    DeviceType,
    ProfilerAction,
    ProfilerActivity,
    RecordScope,
    _ExperimentalConfig,
    _KinetoProfile,
    itt,
    kineto_available,
    profile,
    record_function,
    supported_activities,
)
from mindtorch_v2.profiler.api.execution_trace import _ITraceObserver
from profiler_clock import Clock, clock, op  # noqa: F401

CPU, CUDA = ProfilerActivity.CPU, ProfilerActivity.CUDA


@pytest.mark.parametrize(
    ("activities", "error"),
    [
        ([], AssertionError),
        (["cpu"], AssertionError),
        ([CPU, "cpu"], TypeError),
        ([CPU, CPU], ValueError),
        ([CPU, {CPU: []}], ValueError),
        (5, TypeError),
        (CPU, TypeError),
    ],
)
def test_wrong_activities_are_refused(activities: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        profile(activities=activities)


def test_a_generator_of_activities_works() -> None:
    with profile(activities=(activity for activity in [CPU])) as prof, op("aten::add"):
        pass
    assert prof.activities == {CPU}
    assert len(prof.events()) == 1


def test_cuda_without_cuda_warns_and_profiles_the_cpu() -> None:
    prof = profile(activities=[CPU, CUDA])
    with pytest.warns(UserWarning, match="CUDA is not available"), prof, op("aten::add"):
        pass
    assert [event.name for event in prof.events()] == ["aten::add"]
    assert prof.key_averages().table(sort_by="cuda_time_total", row_limit=10).count("aten::add") == 1


def test_cuda_alone_without_cuda_is_refused_at_start() -> None:
    prof = profile(activities=[CUDA])
    with pytest.warns(UserWarning, match="CUDA is not available"), pytest.raises(AssertionError, match="activities"):
        prof.start()


def test_activity_filters_are_checked_at_start() -> None:
    for accepted in ([], ["CPU_OP"]):
        with profile(activities=[{CPU: accepted}]) as prof, op("aten::add"):
            pass
        assert len(prof.events()) == 1
    with pytest.raises(RuntimeError, match="Unknown or non-member activity type name: 'cpu_op'"):
        profile(activities=[{CPU: ["cpu_op"]}]).start()


def test_use_cuda_is_deprecated_and_without_effect() -> None:
    with pytest.warns(FutureWarning, match="use_cuda"):
        assert profile(use_cuda=True).activities == {CPU}


def test_timeouts() -> None:
    with pytest.raises(ValueError, match="non-negative"):
        profile(post_processing_timeout_s=-1).start()
    for limit in (None, 1000.0):
        with profile(post_processing_timeout_s=limit) as prof, op("aten::add"):
            pass
        assert len(prof.events()) == 1


def test_no_time_gives_partial_results_and_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with profile(post_processing_timeout_s=0) as prof, op("aten::add"):
        pass
    with caplog.at_level(logging.WARNING):
        assert len(prof.events()) == 0
    assert "timed out" in caplog.text
    assert "partial results" in caplog.text


def test_trace_only_gives_a_trace_but_no_events(tmp_path: Path) -> None:
    with profile(experimental_config=_ExperimentalConfig(trace_only=True)) as prof, op("aten::add"):
        pass
    for read in (prof.events, prof.key_averages):
        with pytest.raises(RuntimeError, match="trace_only"):
            read()
    prof.export_chrome_trace(tmp_path / "trace.json")
    assert "aten::add" in (tmp_path / "trace.json").read_text()


def test_trace_only_gives_way_to_stacks() -> None:
    config = _ExperimentalConfig(trace_only=True)
    with pytest.warns(UserWarning, match="trace_only"):
        prof = profile(experimental_config=config, with_stack=True)
    assert prof.experimental_config is not config
    assert config.trace_only
    with prof, op("aten::add"):
        pass
    assert any(event.name == "aten::add" for event in prof.events())


def test_experimental_config_can_be_copied_and_pickled() -> None:
    config = _ExperimentalConfig(verbose=True, custom_profiler_config="{}", profiler_metrics=["a"])
    for twin in (copy.copy(config), pickle.loads(pickle.dumps(config))):
        assert vars(twin) == vars(config)


def test_before_the_start() -> None:
    prof = profile()
    for use in (prof.events, prof.key_averages, prof.stop, lambda: prof.export_chrome_trace("x")):
        with pytest.raises(AssertionError, match="initialized"):
            use()
    assert prof.get_trace_id() is None
    prof.toggle_collection_dynamic(False, [CPU])
    prof.add_metadata("key", "has no effect yet")


def test_while_running(tmp_path: Path) -> None:
    with profile() as prof:
        with op("aten::add"):
            pass
        assert prof.events() == []
        assert prof.key_averages() == []
        with pytest.raises(AttributeError):
            prof.export_chrome_trace(tmp_path / "trace.json")
    assert len(prof.events()) == 1


def test_enabled_flag_follows_the_recording() -> None:
    assert not autograd_profiler._is_profiler_enabled
    prof = profile(
        schedule=lambda step: [ProfilerAction.WARMUP, ProfilerAction.RECORD_AND_SAVE, ProfilerAction.NONE][step]
    )
    prof.start()
    flags = [autograd_profiler._is_profiler_enabled]
    for _ in range(2):
        prof.step()
        flags.append(autograd_profiler._is_profiler_enabled)
    prof.stop()
    assert flags == [False, True, False]


def test_start_and_stop_twice() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prof = profile()
        prof.start()
        prof.start()
        with op("aten::add"):
            pass
        prof.stop()
    assert len(prof.events()) == 1
    prof.stop()
    assert len(prof.events()) == 0
    assert not autograd_profiler._is_profiler_enabled


def test_a_thousand_sessions_leave_nothing_behind() -> None:
    recorder = profile.__init__.__globals__["run"].RECORDER
    for _ in range(1000):
        with profile(record_shapes=True, profile_memory=True), op("aten::add", [(2, 2)]):
            pass
    assert recorder.sessions == []
    assert recorder._held == set()
    assert not any(recorder.own_lane().take())
    assert len(recorder.stacks.keys) == 1


def test_stats_are_lazy() -> None:
    with profile() as prof, op("aten::add"):
        pass
    stats = prof._stats()
    assert stats is not None
    assert stats.profiling_window_duration_sec > 0
    assert (stats.number_of_events, stats.function_events_build_tree_call_duration_us) == (0, 0)
    prof.events()
    assert stats.number_of_events == 1


def test_overhead_is_reported() -> None:
    with profile() as prof:
        for _ in range(10):
            with op("aten::add"):
                pass
    overhead = prof.overhead()
    assert overhead.events == 10
    assert overhead.total_ns == pytest.approx(10 * overhead.per_event_ns)
    assert overhead.share > 0


def test_trace_ids() -> None:
    prof = profile()
    with prof:
        first = prof.get_trace_id()
    assert first is not None
    assert len(first) == 32
    assert first == first.upper()
    prof.set_custom_trace_id_callback(lambda: "mine")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with prof:
            assert prof.get_trace_id() == "mine"


def test_toggling_stops_ops_and_starts_them_again() -> None:
    with profile() as prof:
        for name, enabled in (("on", None), ("off", False), ("on again", True)):
            if enabled is not None:
                prof.toggle_collection_dynamic(enabled, [CPU])
            with op(name):
                pass
        prof.toggle_collection_dynamic(True, [CUDA])
    assert [event.name for event in prof.events()] == ["on", "on again"]


@pytest.mark.parametrize("base", [object, _ITraceObserver])
def test_any_object_with_the_three_methods_is_an_observer(base: Any) -> None:
    calls: list[str] = []

    class Observer(base):
        def start(self) -> None:
            calls.append("start")

        def stop(self) -> None:
            calls.append("stop")

        def cleanup(self) -> None:
            calls.append("cleanup")

    with profile(execution_trace_observer=Observer()):
        calls.append("run")
    assert calls == ["start", "run", "stop", "cleanup"]


def test_the_lower_level_profile() -> None:
    prof = _KinetoProfile(record_shapes=True)
    assert not hasattr(prof, "step")
    assert not hasattr(prof, "__enter__")
    prof.start()
    with op("aten::add", [(2, 2)]):
        pass
    prof.stop()
    assert prof.events()[0].input_shapes == [[2, 2]]


# autograd.profiler


def test_autograd_profile_is_for_one_use() -> None:
    with autograd_profiler.profile() as prof, op("aten::add"):
        pass
    assert [event.name for event in prof.function_events] == ["aten::add"]
    with pytest.raises(RuntimeError, match="reentrant"), prof:
        pass


def test_autograd_profile_disabled_does_nothing() -> None:
    with autograd_profiler.profile(False) as prof, op("aten::add"):
        assert not autograd_profiler._is_profiler_enabled
    assert prof is None


def test_autograd_profile_prints_itself(clock: Clock) -> None:  # noqa: F811
    prof = autograd_profiler.profile()
    assert str(prof) == repr(prof) == "<unfinished torch.autograd.profile>"
    with prof, op("aten::add"):
        clock.advance(5)
    assert str(prof) == prof.table() == prof.function_events.table()
    assert repr(prof).startswith("[<FunctionEvent id=")
    assert prof.self_cpu_time_total == 5.0
    assert prof.total_average().count == 1


def test_autograd_profile_refuses_what_it_cannot_do() -> None:
    with pytest.raises(AssertionError, match="Kineto"):
        autograd_profiler.profile(use_cpu=False)
    with pytest.raises(AssertionError, match="activities"):
        autograd_profiler.profile(use_cpu=False, use_kineto=True)
    with pytest.warns(UserWarning, match="bogus is not a valid device option"):
        assert autograd_profiler.profile(use_device="bogus").use_device is None
    with pytest.warns(FutureWarning, match="use_cuda"), pytest.warns(UserWarning, match="CUDA is not available"):
        autograd_profiler.profile(use_cuda=True)


def test_flops_need_shapes() -> None:
    assert autograd_profiler.profile(with_flops=True).record_shapes
    assert not profile(with_flops=True).record_shapes


def test_legacy_profile(tmp_path: Path) -> None:
    prof = profiler_legacy.profile(record_shapes=True)
    assert repr(prof) == "<unfinished profiler_legacy.profile>"
    with pytest.raises(RuntimeError, match="finish"):
        prof.key_averages()
    with prof, op("aten::add", [(2, 2)]):
        pass
    assert [(row.key, row.is_legacy) for row in prof.key_averages()] == [("aten::add", True)]
    prof.export_chrome_trace(tmp_path / "trace.json")
    with profiler_legacy.profile(False) as disabled:
        assert disabled is None


def test_legacy_events_know_what_the_oldest_interface_knew() -> None:
    w = torch.ones(2, 2, requires_grad=True)
    with profiler_legacy.profile(profile_memory=True, record_shapes=True) as prof:
        with record_function("block"):
            y = w * w
        y.sum().backward()
        del y
    events = prof.function_events
    memory = [event for event in events if event.name == "[memory]"]
    assert events[: len(memory)] == memory != []
    assert {(event.thread, event.time_range.start, event.trace_name, event.flops) for event in memory} == {
        (0, 0, None, None)
    }
    known = {event.name: event for event in reversed(events)}
    mul, block, leaf = (known[name] for name in ("aten::mul", "block", "torch::autograd::AccumulateGrad"))
    assert mul.cpu_parent is block
    assert (mul.input_shapes, mul.cpu_memory_usage, mul.is_legacy) == ([[2, 2], [2, 2]], 16, True)
    for name in "overload_name activity_type kwinputs concrete_inputs input_dtypes flow_id".split():
        assert getattr(mul, name) is None
    assert (mul.device_index, mul.external_id, mul.device_resource_id) == (0, 0, mul.thread)
    assert (block.is_user_annotation, block.scope, leaf.fwd_thread) == (False, 7, 1)
    assert prof.key_averages()[0].key == "[memory]"
    assert prof.total_average().count == len(events)
    assert prof.self_cpu_time_total == pytest.approx(sum(event.self_cpu_time_total for event in events))


def test_emit_itt_keeps_torchs_manners() -> None:
    context = autograd_profiler.emit_itt(record_shapes=True)
    with context as entered, op("aten::add", [(2, 2)]):
        assert entered is context
        assert autograd_profiler._is_profiler_enabled
    with pytest.raises(RuntimeError, match="reentrant"), context:
        pass
    with autograd_profiler.emit_itt(enabled=False) as disabled:
        assert disabled is None


def test_emit_nvtx_needs_cuda() -> None:
    with pytest.raises(AssertionError, match="CUDA"), autograd_profiler.emit_nvtx():
        pass
    with autograd_profiler.emit_nvtx(enabled=False) as disabled:
        assert disabled is None


def test_itt_says_that_it_is_not_there() -> None:
    assert not itt.is_available()
    for use in (lambda: itt.range_push("x"), itt.range_pop, lambda: itt.mark("x"), lambda: itt.range("x").__enter__()):
        with pytest.raises(RuntimeError, match="ITT"):
            use()


def test_unique_keys() -> None:
    unique = autograd_profiler.EnforceUnique()
    unique.see("a", 1)
    unique.see("a", 2)
    with pytest.raises(RuntimeError, match="duplicate"):
        unique.see("a", 1)


# Enumerations


def test_enums_are_numbered_but_not_numbers() -> None:
    assert supported_activities() == {CPU}
    assert kineto_available()
    assert (repr(CPU), str(CPU), CPU.name, int(CUDA)) == ("<ProfilerActivity.CPU: 0>", "ProfilerActivity.CPU", "CPU", 2)
    assert CPU != 0
    assert (int(DeviceType.PrivateUse1), int(RecordScope.USER_SCOPE)) == (20, 7)
    assert len({*ProfilerAction}) == 5


# record_function


def test_record_function_costs_nothing_and_does_nothing_alone() -> None:
    with record_function("alone") as block:
        assert block.name == "alone"


@pytest.mark.parametrize("arguments", [(5,), ("name", 5)])
def test_record_function_wants_text(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(RuntimeError, match="expected a str"), record_function(*arguments):
        pass


def test_record_function_exit_needs_enter() -> None:
    with pytest.raises(AssertionError):
        record_function("never entered").__exit__(None, None, None)


def test_record_function_args_show_as_one_opaque_input() -> None:
    with profile(record_shapes=True) as prof, record_function("block", "some args"):
        pass
    (event,) = prof.events()
    assert (event.input_shapes, event.concrete_inputs, event.input_dtypes) == ([[]], [None], [""])
    assert (event.scope, event.sequence_nr, event.is_user_annotation) == (7, -1, True)
    assert event.activity_type == "user_annotation"


def test_record_function_decorates_recursive_functions(clock: Clock) -> None:  # noqa: F811
    @record_function("deeper")
    def deeper(levels: int) -> None:
        clock.advance(10)
        if levels:
            deeper(levels - 1)
            with op("aten::add"):
                clock.advance(1)

    with profile() as prof:
        deeper(2)
    assert [event.cpu_time_total for event in prof.events() if event.name == "deeper"] == [32.0, 21.0, 10.0]


def test_record_function_may_be_entered_inside_of_itself(clock: Clock) -> None:  # noqa: F811
    block = record_function("block")
    with profile() as prof:
        with block:
            with block:
                clock.advance(2)
            with op("aten::mul"):
                clock.advance(3)
        with op("aten::add"):
            clock.advance(4)
    assert [(event.name, event.cpu_time_total, event.cpu_parent is None) for event in prof.events()] == [
        ("block", 5.0, True),
        ("block", 2.0, False),
        ("aten::mul", 3.0, False),
        ("aten::add", 4.0, True),
    ]


def test_record_function_may_run_on_two_threads_at_once(clock: Clock) -> None:  # noqa: F811
    block = record_function("block")
    entered, left = threading.Event(), threading.Event()

    def beside() -> None:
        with block:
            entered.set()
            left.wait()
            with op("aten::mul"):
                clock.advance(2)
        with op("aten::sub"):
            clock.advance(3)

    with profile(all_threads=True) as prof:
        thread = threading.Thread(target=beside)
        with block:
            thread.start()
            entered.wait()
            with op("aten::add"):
                clock.advance(1)
        left.set()
        thread.join()
    rows = {event.name: event for event in prof.events() if event.name != "block"}
    here, there = rows["aten::add"].cpu_parent, rows["aten::mul"].cpu_parent
    assert (here.name, here.cpu_time_total, there.name, there.cpu_time_total) == ("block", 1.0, "block", 3.0)
    assert here.thread == rows["aten::add"].thread != there.thread
    assert rows["aten::sub"].cpu_parent is None


def test_record_function_left_where_nothing_was_recorded_ends_nothing(clock: Clock) -> None:  # noqa: F811
    block = record_function("block")
    block.__enter__()
    with profile(all_threads=True) as prof:
        entered, left = threading.Event(), threading.Event()

        def beside() -> None:
            with block:
                entered.set()
                left.wait()
                clock.advance(5)

        thread = threading.Thread(target=beside)
        thread.start()
        entered.wait()
        block.__exit__(None, None, None)
        left.set()
        thread.join()
    assert [(event.name, event.cpu_time_total) for event in prof.events()] == [("block", 5.0)]


def test_record_function_that_is_dropped_ends_there(clock: Clock) -> None:  # noqa: F811
    def dropped() -> None:
        block = record_function("dropped")
        block.__enter__()
        clock.advance(1)

    with profile() as prof:
        dropped()
        with op("aten::add"):
            clock.advance(2)
    assert [(event.name, event.cpu_parent) for event in prof.events()] == [("dropped", None), ("aten::add", None)]


def test_record_function_that_is_not_made_leaves_nothing_to_say(recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(TypeError):
        record_function()  # type: ignore[call-arg]
    assert not recwarn.list


def test_record_function_takes_bytes_as_text() -> None:
    with profile() as prof, record_function(b"block"):  # type: ignore[arg-type]
        pass
    assert [event.name for event in prof.events()] == ["block"]


def test_record_function_opened_before_the_start_is_not_recorded(clock: Clock) -> None:  # noqa: F811
    early = record_function("early")
    early.__enter__()
    with profile() as prof:
        clock.advance(1)
        early.__exit__(None, None, None)
        late = record_function("late")
        late.__enter__()
        clock.advance(5)
    late.__exit__(None, None, None)
    assert [(event.name, event.cpu_time_total) for event in prof.events()] == [("late", 5.0)]


def test_record_function_may_last_until_a_future_completes(clock: Clock) -> None:  # noqa: F811
    class Future:
        def then(self, callback: Any) -> str:
            self.callback = callback
            return "another future"

        def value(self) -> int:
            return 42

    future = Future()
    with profile() as prof:
        with record_function("lasting") as block:
            assert block._call_end_callbacks_on_future(future) == "another future"
            with pytest.raises(RuntimeError, match="only be called once"):
                block._call_end_callbacks_on_future(future)
        clock.advance(70)
        assert future.callback(future) == 42
    assert prof.events()[0].cpu_time_total == 70.0
