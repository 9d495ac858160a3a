"""The 500 torch names that programs use most: which of them mindtorch_v2 lacks.

The areas distributed, jit/compile and cuda are left out: there a torch without that feature is the model.
"""

import csv
import warnings
from pathlib import Path
from typing import Any

import mindtorch_v2 as torch

RANKED = Path(__file__).parent / "data" / "api_rank.csv"
EXCEPTED = {"distributed", "jit/compile", "cuda"}
# How many may be missing; to be lowered when names are added.
MAY_BE_MISSING = 3

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


def reachable(name: str) -> bool:
    """Whether `torch.a.b` or `Tensor.method` can be read."""
    root, *parts = name.split(".")
    if root != "torch" and root not in OWNERS:
        return True  # a type of a module that a test of its own covers
    found: Any = torch if root == "torch" else OWNERS[root]()
    for part in parts:
        try:
            found = getattr(found, part)
        except AttributeError:
            return False
        except (RuntimeError, AssertionError):
            return True  # it is there, and says that it does not apply
    return True


def missing() -> list[str]:
    with RANKED.open() as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = list(csv.DictReader(file))
        return [row["name"] for row in rows if row["area"] not in EXCEPTED and not reachable(row["name"])]


def test_the_names_programs_use_are_there() -> None:
    names = missing()
    assert len(names) <= MAY_BE_MISSING, f"{len(names)} of the first 500 names are missing: {', '.join(names)}"
