"""Threads of the kernels: results do not depend on them, children have their own, and BLAS follows."""

from __future__ import annotations

import ctypes
import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.kernels import threads
from mindtorch_v2.kernels.compiled import C

needs_compiled = pytest.mark.skipif(C is None, reason="the compiled kernels are not built")
LARGE = 1 << 21  # enough for every loop to be shared


@pytest.fixture(autouse=True)
def same_number_afterwards() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def images() -> Any:
    return torch.linspace(-4, 4, LARGE).view(4, 8, 256, 256)


def normalized() -> Any:
    x = images().requires_grad_()
    y = torch.nn.functional.batch_norm(x, None, None, training=True)
    y.backward(x.detach().sin())
    return torch.cat([y.detach(), x.grad])


def placed() -> Any:
    x = images().view(64, -1)
    index = torch.arange(x.shape[1]).flip(0).expand(64, -1).contiguous()
    return x.gather(1, index).scatter_add(1, index, x)


CASES = {
    "gelu": lambda: torch.nn.functional.gelu(images()),
    "relu": lambda: torch.relu(images()),
    "exp": lambda: torch.exp(images()),
    "softmax": lambda: torch.softmax(images().view(-1, 500 + 12), 1),
    "few rows": lambda: torch.log_softmax(images().view(2, -1), 1),
    "short rows": lambda: torch.softmax(images().view(-1, 8), 1),
    "layer_norm": lambda: torch.nn.functional.layer_norm(images(), (256,)),
    "batch_norm": normalized,
    "places": placed,
    "depthwise": lambda: torch.nn.functional.conv2d(images(), torch.ones(8, 1, 3, 3), padding=1, groups=8),
}


@needs_compiled
@pytest.mark.parametrize("name", CASES)
def test_results_do_not_depend_on_the_number_of_threads(name: str) -> None:
    found = []
    for number in (1, 2, 5):
        torch.set_num_threads(number)
        found.append(CASES[name]().numpy())
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


@needs_compiled
def test_python_threads_share_at_the_same_time() -> None:
    torch.set_num_threads(2)
    x = images()
    expected, found = torch.exp(x), [None] * 4

    def work(place: int) -> None:
        for _ in range(5):
            found[place] = torch.exp(x)

    workers = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(torch.equal(expected, result) for result in found)


FORK = """
import os, warnings
warnings.simplefilter("ignore")
import mindtorch_v2 as torch
torch.set_num_threads(2)
x = torch.linspace(-4, 4, 1 << 21)
expected = torch.exp(x)
child = os.fork()
if not child:
    os._exit(0 if torch.equal(expected, torch.exp(x)) else 1)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), torch.equal(expected, torch.exp(x)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_forked_children_compute() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], check=True, timeout=120, stdout=subprocess.PIPE, text=True)
    assert done.stdout == "0 True\n"


@pytest.mark.parametrize(("asked", "number"), [("1", 1), ("3", 3), ("4,2", 4)])
def test_the_environment_sets_the_number(monkeypatch: pytest.MonkeyPatch, asked: str, number: int) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert threads.default_threads() == number


@pytest.mark.parametrize("asked", ["", "0", "many", "-1"])
def test_else_there_is_one_for_each_processor(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert threads.default_threads() == allowed


def test_blas_follows() -> None:
    library = ctypes.CDLL(importlib.import_module("numpy._core._multiarray_umath").__file__)
    if not hasattr(library, "scipy_openblas_get_num_threads64_"):
        pytest.skip("NumPy has another BLAS")
    torch.set_num_threads(1)
    assert library.scipy_openblas_get_num_threads64_() == 1
    torch.set_num_threads(2)
    assert library.scipy_openblas_get_num_threads64_() == min(2, os.cpu_count() or 1)
