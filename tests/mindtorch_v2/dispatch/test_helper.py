"""The compiled recorder and the one in Python fill the same columns."""

import copy
import inspect
import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.autograd.engine import _edges_counted
from mindtorch_v2.core import roles, tap
from mindtorch_v2.core.tensor import Tensor
from mindtorch_v2.profiler.record.memory_roles import _block, _Log

# Prints all that a recording holds, in a process of its own, under a clock that ticks once a reading.
PROGRAM = """
import _thread, itertools, json, sys
import mindtorch_v2 as torch
from mindtorch_v2.core import tap
from mindtorch_v2.profiler import profile, record_function
options = json.loads(sys.argv[1])
ticks = itertools.count(1000, 10)
tap.set_clock(lambda: next(ticks))
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 3)
    def forward(self, x):
        return self.inner(x).relu().sum()
def work(x, model):
    loss = model(x)
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        y = x * 2 + x[0]
        y.add_(1)
    first, rest = torch.split(y, 1)
    parts = torch.max(y, 0)
    del y
    try:
        x @ torch.ones(7, 7)
    except RuntimeError:
        pass
    return torch.cat([first, rest]), parts
def beside():
    work(x, model)
    done.release()
done = _thread.allocate_lock()
done.acquire()
torch.manual_seed(0)
x, model = torch.randn(2, 4), Model()
optimizer = torch.optim.AdamW(model.parameters())
work(x, model)
with profile(**options) as prof:
    with record_function("block"):
        work(x, model)
    # What a Thread does to start and to end hangs on who is first.
    _thread.start_new_thread(beside, ())
    done.acquire()
capture = prof.profiler.newest_capture()
found = []
for track in capture.tracks:
    for row in zip(*(column.tolist() for column in (track.kind, track.seq, track.inputs, track.stack))):
        kind = capture.kinds[row[0]]
        inputs = kind.describe(capture.inputs[row[2]]) if row[2] and kind.describe else None
        found.append([kind.name, row[1], inputs, capture.stacks.read(row[3])])
    found.append(["memory", [abs(n) for n in track.nbytes.tolist()], (track.nbytes > 0).tolist()])
    found.append(["times", len(track), bool((track.end_ns >= track.start_ns).all())])
print(json.dumps({"compiled": tap.HELPER is not None, "rows": found}))
"""

MODES = {
    "plain": {},
    "shapes": {"record_shapes": True},
    "memory": {"profile_memory": True},
    "modules": {"with_modules": True},
    "stacks": {"with_stack": True},
    "all": {"record_shapes": True, "profile_memory": True, "with_stack": True, "with_flops": True},
}


def recorded(options: dict[str, Any], pure: bool, script: Path) -> dict[str, Any]:
    environment = {**os.environ, "MINDTORCH_PURE": "1" if pure else "0"}
    done = subprocess.run(
        [sys.executable, str(script), json.dumps(options)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["compiled"] is not pure
    return found


@pytest.mark.skipif(tap.HELPER is None, reason="the helper is not built here")
@pytest.mark.parametrize("mode", MODES)
def test_both_recorders_write_the_same(mode: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    compiled, pure = (recorded(MODES[mode], pure, script)["rows"] for pure in (False, True))
    assert [row[0] for row in compiled] == [row[0] for row in pure]
    assert compiled == pure


@pytest.mark.skipif(tap.HELPER is None, reason="the helper is not built here")
def test_the_counter_shows_the_time_of_the_monotonic_clock() -> None:
    tap.prepare(0)
    for _ in range(100):
        before, shown, after = time.perf_counter_ns(), tap.HELPER.clock(), time.perf_counter_ns()
        # Its rate is set anew 20 times a second, from readings that are some dozen nanoseconds off.
        assert before - 50_000 <= shown <= after + 50_000


@pytest.mark.skipif(tap.HELPER is None, reason="the helper is not built here")
def test_edges_are_counted_as_in_python() -> None:
    """A graph with a node that is reached twice, one with two outputs, and one of its ends among the starts."""
    x = torch.ones(4, requires_grad=True)
    shared = x * x
    parts = shared.split(2)
    starts = [(parts[0] * parts[1]).grad_fn, shared.grad_fn]
    assert tap.HELPER.count_edges(starts) == _edges_counted(starts)


@pytest.mark.skipif(tap.HELPER is None, reason="the helper is not built here")
def test_views_made_in_c_are_those_made_in_python() -> None:
    base = torch.ones(2, 3)
    view = tap.HELPER.look(base, base._a[1])
    inner = tap.HELPER.look(view, view._a[1:])
    assert inner._view.base is base
    assert (inner._view.version, inner._view.replay) == (0, None)
    assert inner._v is base._v
    base.add_(1)
    assert tap.HELPER.look(base, base._a)._view.version == 1
    with torch.no_grad():
        assert tap.HELPER.look(base, base._a)._view is None
    with pytest.raises(TypeError, match="got 1 arguments"):
        tap.HELPER.look(base)


@pytest.mark.skipif(tap.HELPER is None, reason="the helper is not built here")
def test_the_place_of_a_view_is_found_in_c_as_in_python() -> None:
    base = torch.ones(2, 3, requires_grad=True) * 2
    view = base[0]
    assert tap.HELPER.live(view) is view._ag
    before = view._ag
    base.mul_(3)
    assert tap.HELPER.live(view) is view._ag is not before
    with pytest.raises(TypeError, match="a view"):
        tap.HELPER.live(torch.ones(2))
    with pytest.raises(TypeError, match="a tensor, got int"):
        tap.HELPER.live(1)


@pytest.mark.parametrize("name", ["shape", "dtype", "ndim", "device", "requires_grad", "is_leaf", "grad", "grad_fn"])
@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_attributes_are_read_as_in_python(name: str) -> None:
    leaf = torch.nn.Parameter(torch.ones(2, 3))
    leaf.sum().backward()
    other = torch.zeros(4, requires_grad=True)
    made = leaf * 2
    detached, meta = made.detach(), torch.empty(2, device="meta")
    read = Tensor.__dict__[name].fget
    in_python = FunctionType(read.__code__, read.__globals__)
    for t in (leaf, other, made[0], detached, detached[0], torch.tensor(1), torch.ones(0, 2).half(), meta):
        assert getattr(t, name) is in_python(t) or getattr(t, name) == in_python(t)
        assert type(getattr(t, name)) is type(in_python(t))


def test_parts_of_sizes_are_sizes() -> None:
    size = torch.ones(2, 3, 4).shape
    assert (size[-1], size[0:2], type(size[:]), type(size[1:1])) == (4, (2, 3), torch.Size, torch.Size)
    with pytest.raises(IndexError, match="out of range"):
        size[3]
    with pytest.raises(TypeError):
        size["a"]


def test_every_part_in_c_is_named_where_it_is_built() -> None:
    """Else a change of it would build nothing."""
    top = Path(__file__).parents[3]
    settings = (top / "pyproject.toml").read_text()
    parts = sorted((top / "src/mindtorch_v2").glob("*/native/*.h"))
    missing = [part.name for part in parts if f'"{part.relative_to(top).as_posix()}"' not in settings]
    assert parts
    assert missing == []


def test_operators_are_methods_like_others() -> None:
    x, kind = torch.ones(2), torch.Tensor
    assert x.__add__(1).tolist() == kind.__add__(x, 1).tolist() == [2, 2]
    assert (x - 1).tolist() == [0, 0]
    assert str(inspect.signature(kind.__sub__)) == "(input, other)"
    before = kind.__add__
    try:
        kind.__add__ = lambda self, other: before(self, other) * 10  # type: ignore[method-assign]
        assert (x + 1).tolist() == [20, 20]
    finally:
        kind.__add__ = before  # type: ignore[method-assign]
    assert (x + 1).tolist() == [2, 2]


@pytest.mark.skipif(tap.HELPER is None, reason="the helper is not built here")
def test_operators_are_copied_as_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    for method in (torch.Tensor.__add__, torch.Tensor.__mod__, torch.Tensor.__iadd__):
        assert copy.deepcopy(method) is pickle.loads(pickle.dumps(method)) is method
    before = torch.Tensor.__add__
    monkeypatch.setattr(torch.Tensor, "__add__", lambda self, other: self)
    with pytest.raises(TypeError, match="no longer has"):
        copy.copy(before)


@pytest.mark.skipif(tap.HELPER is None, reason="the helper is not built here")
@pytest.mark.parametrize("role", range(len(roles.NAMES)))
def test_blocks_are_seen_in_a_role_as_in_python(role: int) -> None:
    base, weight = torch.ones(4, 6), torch.nn.Parameter(torch.ones(2, 3))
    made, changed = weight * 2, torch.zeros(5).add_(1)
    with torch.inference_mode():
        inferred = torch.ones(3)
    seen = [base, base[1:, ::2], weight, weight[0], made, made[0], changed, inferred, torch.empty(0), None, 3, base.t()]
    compiled, pure = tap.HELPER.MemoryRoles(_block, roles.INPUT), _Log()
    for log in (compiled, pure):
        log.see(role, seen)
        log.see(role, {"state": changed}.values())
    found, expected = (np.frombuffer(log.take(), np.int64).reshape(-1, 5)[:, 1:].tolist() for log in (compiled, pure))
    assert found == expected
    assert len(found) > 5
