"""The 1,000 torch names that programs use most and the keywords they call them with: which of them mindtorch_v2 lacks.

The areas distributed, jit/compile and cuda are left out: there a torch without that feature is the model.
"""

import csv
import inspect
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.dispatch.op import OPS

DATA = Path(__file__).parent / "data"
EXCEPTED = {"distributed", "jit/compile", "cuda"}
# Of the names after the first 500: what is left out, and why.
LEFT_OUT = {
    "ragged tensors": """torch.nested.nested_tensor torch.jagged Tensor.to_padded_tensor""",
    "tensors with masks": "torch.masked.masked_tensor",
    "what only sparse tensors have": "Tensor.coalesce",
    "graphs of programs": """torch.cond torch._subclasses.fake_tensor.FakeTensorMode torch.utils._triton.has_triton
        torch.profiler._utils._init_for_cuda_graphs""",
    "another's business": """torch.backends.cuda.SDPAParams torch.backends.cuda.SDPBackend Tensor.record_stream
        torch.utils.benchmark.Compare torch.nn.NonDynamicallyQuantizableLinear""",
}

# What a name without `torch.` in front belongs to.
OWNERS = {
    "Tensor": lambda: torch.ones(1),
    "Module": lambda: torch.nn.Linear(1, 1),
    "Optimizer": lambda: torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1),
    "LRScheduler": lambda: torch.optim.lr_scheduler.StepLR(OWNERS["Optimizer"](), 1),
    "Function": lambda: torch.autograd.Function,
    "GradScaler": lambda: torch.amp.GradScaler("cpu"),
    "Profile": lambda: torch.profiler.profile(),
}


def find(name: str) -> Any:
    """What `torch.a.b` or `Tensor.method` stands for; None for a type that a test of its own covers."""
    root, *parts = name.split(".")
    if root != "torch" and root not in OWNERS:
        return None
    found: Any = torch if root == "torch" else OWNERS[root]()
    for part in parts:
        found = getattr(found, part)
    return found


def reachable(name: str) -> bool:
    try:
        find(name)
    except AttributeError as error:
        return "is not installed" in str(error) or "neither is installed" in str(error)
    except (RuntimeError, AssertionError):
        return True  # it is there, and says that it does not apply
    return True


def ranked(first: int, last: int) -> list[str]:
    """The names of these ranks outside the areas left out."""
    with (DATA / "api_rank.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["area"] not in EXCEPTED]
    return [row["name"] for row in rows if first <= int(row["rank"]) <= last]


def missing(names: list[str]) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [name for name in names if not reachable(name)]


def test_the_names_programs_use_most_are_there() -> None:
    assert missing(ranked(1, 500)) == []


def test_of_the_rest_only_what_is_left_out_is_missing() -> None:
    assert sorted(missing(ranked(501, 1000))) == sorted(" ".join(LEFT_OUT.values()).split())


# --- keywords ---------------------------------------------------------------------------------------------------------

# Calls that were counted for a name of the same spelling, such as list.sort and programs' own datasets, and keywords
# that torch 2.13 refuses too.
MISCOUNTED = {
    ("Tensor.sort", "key"),
    ("Tensor.sort", "reverse"),
    ("Tensor.norm", "token_lens"),
    ("Tensor.log", "prog_bar"),
    ("Tensor.backward", "retain_variables"),
    ("torch.utils.data.TensorDataset", "data_tensor"),
    ("torch.utils.data.TensorDataset", "target_tensor"),
}
MISCOUNTED_NAMES = {"torch.utils.data.Dataset"}
# Everywhere an op is.
SPELLINGS = {"out", "axis", "keepdims"}


def used_keywords() -> Iterator[tuple[str, str]]:
    """Callables among the first 300 names, each with a keyword that programs pass it."""
    wanted = set(ranked(1, 300)) - MISCOUNTED_NAMES
    with (DATA / "api_kwargs.csv").open() as file:
        for row in csv.DictReader(file):
            pair = row["callable"], row["keyword"]
            if pair[0] in wanted and pair[1] != "**" and pair not in MISCOUNTED:
                yield pair


def accepts(function: Any, keyword: str) -> bool:
    """Whether a callable takes a keyword; for those that take any, whether a row of that name has it."""
    parameters = inspect.signature(function).parameters
    if keyword in parameters:
        return True
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return False
    rows = [op for op in OPS.values() if op.name == function.__name__]
    return not rows or keyword in SPELLINGS or any(keyword in op.schema.text for op in rows)


@pytest.mark.parametrize(("name", "keyword"), list(used_keywords()))
def test_keywords_that_programs_use_are_accepted(name: str, keyword: str) -> None:
    if name.startswith("torch.utils.tensorboard"):
        pytest.importorskip("tensorboard")
    found = find(name)
    assert found is None or accepts(found, keyword)
