"""Names under torch's own paths: modules that live elsewhere here, names that are missing, versions, private names that
programs use.
"""

import importlib
import subprocess
import sys
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.core.addresses import ADDRESSES

# --- modules ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ADDRESSES)
def test_torchs_path_leads_to_our_module(path: str) -> None:
    home = ADDRESSES[path]
    assert importlib.import_module(f"mindtorch_v2.{path}") is importlib.import_module(
        f"mindtorch_v2.{home}".rstrip(".")
    )


def test_a_module_under_two_paths_keeps_its_name() -> None:
    module = importlib.import_module("mindtorch_v2.optim.adamw")
    assert (module.__name__, module.__spec__.name, module.AdamW) == ("mindtorch_v2.optim.adam",) * 2 + (
        torch.optim.AdamW,
    )


def test_a_module_under_torchs_path_is_an_attribute() -> None:
    assert torch.utils.data.dataloader.default_collate is torch.utils.data.default_collate


# --- missing names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("from mindtorch_v2 import catt", "cannot import name 'catt' from 'torch': .*: torch.cat$"),
        ("from mindtorch_v2.nn import Linaer", "'Linaer' from 'torch.nn': .*: torch.nn.Linear$"),
        ("from mindtorch_v2.nn.init import unifrom_", "'unifrom_' from 'torch.nn.init': .*: torch.nn.init.uniform_$"),
    ],
)
def test_an_import_of_a_missing_name_is_explained(statement: str, text: str) -> None:
    with pytest.raises(ImportError, match=text):
        exec(statement)


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.fx.symbolic_trace(torch.nn.Linear(1, 1)),
        lambda: torch.fx.GraphModule(torch.nn.Linear(1, 1), None),
        lambda: torch.fx.Tracer(),
        lambda: torch.onnx.export(torch.nn.Linear(1, 1), (torch.ones(1),), "model.onnx"),
        lambda: torch.export.export(torch.nn.Linear(1, 1), (torch.ones(1),)),
    ],
)
def test_what_needs_a_graph_names_the_remedy(call: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"torch\.(fx|onnx|export)\.\w+ is not provided: .*torch\.profiler"):
        call()


def test_fx_wrap_gives_the_function_back() -> None:
    assert torch.fx.wrap(len) is len
    with pytest.raises(RuntimeError, match="Must be either a callable or string name"):
        torch.fx.wrap(1)


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("comparison", "expected"),
    [
        (torch.__version__ >= "2.9", True),
        (torch.__version__ >= (1, 8), True),
        (torch.__version__ < (2, 13, 1), True),
        (torch.__version__ > "2.13.0", True),
        (torch.__version__ >= "2.13.0a0", True),
        (torch.__version__ < "2.14.0.dev20260101", True),
        (torch.__version__ == "2.13", False),
        (torch.__version__ == "2.13.0+mindtorch", True),
        (torch.__version__ != (1,), True),
        (torch.__version__ == "not a version", False),
        (torch.TorchVersion("1.0rc1") < "1.0", True),
        (torch.TorchVersion("1.0.dev1") < "1.0a1", True),
    ],
)
def test_versions_compare_as_versions(comparison: Any, expected: bool) -> None:
    assert comparison is expected


# --- private names ----------------------------------------------------------------------------------------------------


def test_the_profilers_settings_have_their_private_name() -> None:
    config = torch._C._profiler._ExperimentalConfig(verbose=True)
    assert isinstance(config, torch.profiler._ExperimentalConfig)
    assert config.verbose


def test_a_compilers_switches_stay_off() -> None:
    assert torch._C._jit_set_profiling_executor(True) is False
    assert torch._C._log_api_usage_once("a.b") is None
    assert torch._C._get_tracing_state() is None


# --- names that say little and are asked for ---------------------------------------------------------------------------


def test_devices_have_modules() -> None:
    assert torch.get_device_module() is torch.get_device_module("cpu") is torch.cpu
    assert torch.get_device_module("cuda:0") is torch.cuda
    with pytest.raises(RuntimeError, match=r"does not have a corresponding module registered as 'torch\.abacus'"):
        torch.get_device_module("abacus")


def test_autocast_can_be_turned_on_outside_a_block() -> None:
    x = torch.ones(2, 2)
    torch.set_autocast_enabled("cpu", True)
    try:
        assert (x @ x).dtype == torch.bfloat16
        with torch.autocast("cpu", enabled=False):
            assert (x @ x).dtype == torch.float32
    finally:
        torch.set_autocast_enabled("cpu", False)
    assert (x @ x).dtype == torch.float32


def test_weights_are_cast_anew_outside_a_block() -> None:
    weight = torch.nn.Parameter(torch.ones(1, 1))
    torch.set_autocast_cpu_enabled(True)
    try:
        before = torch.nn.functional.linear(torch.ones(1, 1), weight).item()
        weight.data.fill_(3.0)
        after = torch.nn.functional.linear(torch.ones(1, 1), weight).item()
    finally:
        torch.set_autocast_cpu_enabled(False)
    assert (before, after) == (1.0, 3.0)


def test_numbers_that_could_be_unknown_are_plain() -> None:
    assert (torch.sym_max(2, 3), torch.sym_min(2, 3), torch.sym_int(2.5), torch.sym_float(2)) == (3, 2, 2, 2.0)
    assert (torch.sym_not(1), torch.sym_ite(True, 1, 2), torch.sym_sqrt(4), torch.sym_sum([1, 2])) == (False, 1, 2.0, 3)


def test_switches_of_serialization_are_remembered() -> None:
    options = torch.serialization
    assert options.get_crc32_options() is True
    options.set_crc32_options(False)
    assert options.get_crc32_options() is False
    options.set_crc32_options(True)
    with options.set_default_mmap_options(1):
        assert options.get_default_mmap_options() == 1
    options.set_default_load_endianness(options.LoadEndianness.LITTLE)
    assert options.get_default_load_endianness() is options.LoadEndianness.LITTLE
    options.set_default_load_endianness(None)
    with pytest.raises(TypeError, match="Invalid argument type"):
        options.set_default_load_endianness("little")


def test_a_storage_of_another_device_says_how_to_load_it() -> None:
    storage = torch.ones(1).untyped_storage()
    assert torch.serialization.default_restore_location(storage, torch.serialization.location_tag(storage)) is storage
    with pytest.raises(RuntimeError, match=r"on a CUDA device but .*map_location=torch\.device\('cpu'\)"):
        torch.serialization.default_restore_location(storage, "cuda:0")


def test_switches_that_change_nothing_are_blocks() -> None:
    checkpoint = importlib.import_module("mindtorch_v2.utils.checkpoint")
    x = torch.ones(2, requires_grad=True)
    with (
        checkpoint.set_checkpoint_early_stop(False),
        checkpoint.set_checkpoint_debug_enabled(True),
        torch.autograd.set_multithreading_enabled(False),
    ):
        checkpoint.checkpoint(torch.sin, x, use_reentrant=False, context_fn=checkpoint.noop_context_fn).sum().backward()
    assert x.grad.tolist() == pytest.approx([0.5403023, 0.5403023])
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint.check_backward_validity([torch.ones(1)])


IN_TORCHS_PLACE = """
import sys, mindtorch_v2
sys.modules["torch"] = mindtorch_v2
import torch.nn.functional
from torch.utils.data import DataLoader
assert torch.nn.functional is sys.modules["mindtorch_v2.nn.functional"]
assert DataLoader is sys.modules["mindtorch_v2.utils.data"].DataLoader
assert "torch._tensor" not in sys.modules
"""


def test_a_package_put_in_torchs_place_is_there_once() -> None:
    done = subprocess.run([sys.executable, "-c", IN_TORCHS_PLACE], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
