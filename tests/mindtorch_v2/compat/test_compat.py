"""What usual programs ask beside tensors: devices that are not there, switches, legacy types, names, autocast."""

import importlib
import subprocess
import sys
import warnings
from typing import Any

import pytest

import mindtorch_v2 as torch

# --- missing names ----------------------------------------------------------------------------------------------------


def test_a_missing_name_is_explained() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = torch.matmull
    assert str(caught.value) == (
        "module 'torch' has no attribute 'matmull': mindtorch_v2 does not provide torch.matmull. "
        "The nearest name that is there: torch.matmul"
    )


@pytest.mark.parametrize(("place", "name", "nearest"), [("nn", "Linaer", "Linear"), ("optim", "AdamV", "Adam")])
def test_submodules_explain_too(place: str, name: str, nearest: str) -> None:
    with pytest.raises(AttributeError, match=f"torch.{place}.{name}.*torch.{place}.{nearest}$"):
        getattr(getattr(torch, place), name)


def test_a_module_imported_by_statement_explains_too() -> None:
    program = "import mindtorch_v2.nn\nmindtorch_v2.nn.Linaer"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "The nearest name that is there: torch.nn.Linear" in done.stderr


def test_a_missing_module_is_explained() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"torch\.optin.*torch\.optim$") as caught:
        importlib.import_module("mindtorch_v2.optin")
    assert caught.value.name == "mindtorch_v2.optin"


def test_hasattr_and_find_spec_stay_quiet() -> None:
    assert not hasattr(torch, "no_such_name")
    assert importlib.util.find_spec("mindtorch_v2.no_such_module") is None


# --- devices ----------------------------------------------------------------------------------------------------------


def test_cuda_is_not_available() -> None:
    assert not torch.cuda.is_available()
    assert torch.cuda.device_count() == 0
    torch.cuda.manual_seed_all(1)
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == torch.cuda.max_memory_allocated() == 0
    assert torch.version.cuda is None
    assert (torch.has_cuda, torch.has_cudnn, torch.has_mps) == (False, False, False)


@pytest.mark.parametrize("name", "synchronize current_device get_device_name get_device_properties".split())
def test_cuda_functions_raise_as_without_cuda(name: str) -> None:
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        getattr(torch.cuda, name)()


def test_cuda_classes_raise_as_without_cuda() -> None:
    with pytest.raises(RuntimeError, match="Tried to instantiate dummy base class Event"):
        torch.cuda.Event(enable_timing=True)
    with pytest.raises(TypeError, match="Torch not compiled with CUDA enabled"):
        torch.cuda.FloatTensor(2)


def test_other_devices() -> None:
    assert not torch.backends.mps.is_available()
    assert not torch.xpu.is_available()
    assert torch.accelerator.current_accelerator() is None
    with pytest.raises(RuntimeError, match="none is available"):
        torch.accelerator.synchronize()
    with torch.device("meta"):
        assert torch.ones(2).is_meta


def test_distributed_is_not_initialized() -> None:
    assert not torch.distributed.is_available()
    assert not torch.distributed.is_initialized()
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        torch.distributed.get_rank()


# --- switches ---------------------------------------------------------------------------------------------------------


def test_switches_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    assert torch.backends.cudnn.benchmark
    with torch.backends.cudnn.flags(benchmark=False):
        assert not torch.backends.cudnn.benchmark
    assert torch.backends.cudnn.benchmark
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    assert torch.get_num_threads() == 3
    torch.set_num_threads(before)
    with pytest.raises(RuntimeError, match="positive integer"):
        torch.set_num_threads(0)


def test_determinism_and_precision() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.get_deterministic_debug_mode() == 1
    torch.use_deterministic_algorithms(False)
    assert not torch.are_deterministic_algorithms_enabled()
    torch.set_float32_matmul_precision("high")
    assert torch.get_float32_matmul_precision() == "high"
    torch.set_float32_matmul_precision("highest")


def test_compiling_is_the_identity() -> None:
    def f(x: Any) -> Any:
        return x + 1

    assert torch.compile(f) is f
    assert torch.compile(mode="reduce-overhead")(f) is f
    assert not torch.compiler.is_compiling()
    torch._dynamo.config.cache_size_limit = 64
    torch._inductor.config.triton.unique_kernel_names = True
    assert torch._dynamo.config.cache_size_limit == 64


def test_scripting_warns_once() -> None:
    torch.jit._warned.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert torch.jit.script(len) is len
        torch.jit.script(len)
    assert len(caught) == 1
    assert not torch.jit.is_scripting()
    assert torch.jit.ignore(len) is len


# --- legacy types -----------------------------------------------------------------------------------------------------


def test_old_tensor_types() -> None:
    assert torch.LongTensor([1, 2]).dtype is torch.int64
    assert torch.FloatTensor(2, 3).shape == (2, 3)
    assert isinstance(torch.ones(1), torch.FloatTensor)
    assert not isinstance(torch.ones(1), torch.DoubleTensor)
    assert not isinstance(torch.ones(1), torch.cuda.FloatTensor)
    assert torch.ones(1).type(torch.DoubleTensor).dtype is torch.float64
    with pytest.raises(TypeError, match="int64"):
        torch.LongTensor(torch.ones(2))


def test_default_tensor_type() -> None:
    with pytest.warns(UserWarning, match="deprecated"):
        torch.set_default_tensor_type("torch.DoubleTensor")
    assert torch.ones(1).dtype is torch.float64
    torch.set_default_dtype(torch.float32)


def test_small_questions() -> None:
    x = torch.ones(2, 3)
    assert torch.is_tensor(x)
    assert not torch.is_tensor(1)
    assert torch.is_storage(x.untyped_storage())
    assert (torch.numel(x), torch.typename(x), torch.is_floating_point(x)) == (6, "torch.FloatTensor", True)
    assert isinstance(x.max(0), torch.return_types.max)


# --- autocast ---------------------------------------------------------------------------------------------------------


def test_autocast_lowers_products_and_raises_losses() -> None:
    x, w = torch.ones(2, 3), torch.nn.Parameter(torch.ones(4, 3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.nn.functional.linear(x, w)
        loss = torch.nn.functional.mse_loss(y, torch.zeros(2, 4))
        assert (y.dtype, (x @ w.t()).dtype) == (torch.bfloat16, torch.bfloat16)
        assert loss.dtype is torch.float32
        assert torch.is_autocast_enabled("cpu")
        with torch.autocast("cpu", enabled=False):
            assert (x @ w.t()).dtype is torch.float32
    assert (x @ w.t()).dtype is torch.float32
    loss.backward()
    assert w.grad.dtype is torch.float32


def test_autocast_casts_a_parameter_once() -> None:
    x, w = torch.ones(2, 3), torch.nn.Parameter(torch.ones(3, 3))
    with torch.profiler.profile() as profile, torch.autocast("cpu"):
        for _ in range(3):
            torch.mm(x.bfloat16(), w)
    counts = {row.key: row.count for row in profile.key_averages()}
    assert counts["aten::_to_copy"] == 4  # x three times, w once


def test_autocast_for_cuda_is_off() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available"):
        context = torch.autocast("cuda")
    with context:
        assert torch.mm(torch.ones(1, 1), torch.ones(1, 1)).dtype is torch.float32


def test_the_scaler_skips_steps_that_overflow() -> None:
    p = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([p], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
    scaler.scale(p * 0.5).sum().backward()
    assert p.grad.item() == 4
    scaler.step(optimizer)
    scaler.update()
    assert (p.item(), scaler.get_scale()) == (0.5, 16.0)
    p.grad.fill_(float("inf"))
    scaler.step(optimizer)
    scaler.update()
    assert (p.item(), scaler.get_scale()) == (0.5, 8.0)
    other = torch.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 8.0


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_assert_close_names_the_difference() -> None:
    torch.testing.assert_close([torch.ones(2)], [torch.ones(2) + 1e-6])
    with pytest.raises(AssertionError, match=r"Mismatched elements: 1 / 3 \(33.3%\)"):
        torch.testing.assert_close(torch.ones(3), torch.tensor([1.0, 1.0, 2.0]))
    with pytest.raises(AssertionError, match="attribute 'dtype'"):
        torch.testing.assert_close(torch.ones(1), torch.ones(1, dtype=torch.float64))


def test_trees_go_apart_and_together() -> None:
    from_module = importlib.import_module("mindtorch_v2.utils._pytree")
    leaves, spec = from_module.tree_flatten({"b": [1, (2, 3)], "a": None})
    assert leaves == [1, 2, 3, None]
    assert spec.unflatten([4, 5, 6, 7]) == {"b": [4, (5, 6)], "a": 7}
    assert from_module.tree_map(lambda x, y: x + y, [1, (2,)], [10, (20,)]) == [11, (22,)]


def test_nothing_is_downloaded() -> None:
    with pytest.raises(RuntimeError, match="downloads nothing"):
        torch.hub.load_state_dict_from_url("example.invalid/weights.pth", model_dir="nowhere")


def test_a_timer_measures() -> None:
    benchmark = importlib.import_module("mindtorch_v2.utils.benchmark")
    ticks = iter(range(1000))
    found = benchmark.Timer("x + 1", globals={"x": 1}, timer=lambda: float(next(ticks))).timeit(10)
    assert (found.number_per_run, found.median) == (10, 0.1)


def test_modules_know_torch_as_torchs_do() -> None:
    assert torch.sparse.torch is torch
    assert torch.nn.functional.torch is torch


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("_C", "_TensorMeta"),
        ("_C._nn", "_parse_to"),
        ("_dynamo.eval_frame", "OptimizedModule"),
        ("_higher_order_ops.associative_scan", "associative_scan"),
        ("distributed._tensor", "DTensor"),
        ("distributed.device_mesh", "DeviceMesh"),
        ("distributed.nn.functional", "all_gather"),
        ("distributed.tensor", "DTensor"),
        ("distributed.tensor.parallel", "ColwiseParallel"),
        ("utils.checkpoint", "get_device_states"),
        ("utils.flop_counter", "FlopCounterMode"),
    ],
)
def test_private_paths_that_libraries_import_are_there(path: str, name: str) -> None:
    assert hasattr(importlib.import_module(f"mindtorch_v2.{path}"), name)


def test_modules_of_another_path_are_attributes_too() -> None:
    assert not isinstance(torch.nn.Linear(1, 1), torch._dynamo.eval_frame.OptimizedModule)


def test_nothing_is_spread_over_processes() -> None:
    assert not isinstance(torch.ones(1), torch.distributed.tensor.DTensor)
    with pytest.raises(RuntimeError, match=r"distribute_tensor is not provided.*is_available"):
        torch.distributed.tensor.distribute_tensor(torch.ones(1))


def test_the_arguments_of_to_are_told_apart() -> None:
    parsed = torch._C._nn._parse_to("cpu", torch.float64, non_blocking=True)
    assert parsed == (torch.device("cpu"), torch.float64, True, None)


def test_tensors_become_a_flat_one_and_views_of_it() -> None:
    tensors = [torch.ones(2, 2), torch.zeros(3)]
    flat = torch._utils._flatten_dense_tensors(tensors)
    first, second = torch._utils._unflatten_dense_tensors(flat.mul_(2), tensors)
    assert flat.tolist() == [2.0] * 4 + [0.0] * 3
    assert (first.tolist(), second.shape) == ([[2.0, 2.0], [2.0, 2.0]], (3,))
    groups = torch._utils._take_tensors([*tensors, torch.ones(1, dtype=torch.float64)], 20)
    assert [[t.numel() for t in group] for group in groups] == [[4], [3], [1]]


@pytest.mark.parametrize(("reverse", "expected"), [(False, [1.0, 3.0, 6.0]), (True, [6.0, 5.0, 3.0])])
def test_a_scan_combines_each_slice_with_those_before(reverse: bool, expected: list[float]) -> None:
    scan = torch._higher_order_ops.associative_scan
    x = torch.tensor([1.0, 2.0, 3.0])
    sums, products = scan(lambda a, b: (a[0] + b[0], a[1] * b[1]), (x, x), 0, reverse)
    assert sums.tolist() == expected
    assert products[0 if reverse else 2].item() == 6.0
