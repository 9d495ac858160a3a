"""Names under torch's own paths: modules that live elsewhere here, names that are missing, versions, private names that
programs use.
"""

import importlib
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2._addresses import ADDRESSES

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
