"""Nothing that a program computes depends on whether somebody watches: values, dtypes, strides, gradients, versions, errors
and the random numbers are the same, to the bit, alone and in each way of watching."""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import layer_samples
import mindtorch_v2 as torch
import optimizer_samples
from mindtorch_v2.autograd.overrides import _same
from mindtorch_v2.core import tap
from mindtorch_v2.kernels.compiled import C
from watched_cases import LAYOUTS, NAMES, forms, layer_cases, op_cases, optimizer_cases
from watching import CIRCUMSTANCES, RECORDED, WAYS, Case, Passing, differences, outcomes

# One way that records, and the one that takes the slow path of every op: the others differ in what is kept alone.
FEW = {name: WAYS[name] for name in ("with everything", "under a function mode")}


def check(cases: dict[str, Case], ways: dict[str, Any]) -> None:
    changed = differences(cases, ways)
    assert not changed, f"{len(changed)} of {len(cases) * len(ways)}:\n" + "\n".join(changed[:20])


@pytest.mark.parametrize("way", WAYS)
def test_ops(way: str) -> None:
    check(op_cases(), {way: WAYS[way]})


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ops_on_other_types_and_layouts(layout: str) -> None:
    check(op_cases(dtypes=(torch.float64, torch.bfloat16, torch.complex64), layouts=[layout]), FEW)


# A matrix of 2 x 3 then has more elements than kernels for few take, or so many that threads share them.
@pytest.mark.parametrize(("scale", "layouts"), [(27, ("plain", "turned")), (200, ("plain",))])
def test_ops_on_more_elements(scale: int, layouts: tuple[str, ...]) -> None:
    check(op_cases(layouts=layouts, grads=[True], scales=[scale]), {"recorded": WAYS["recorded"]})


def test_sums_where_few_become_many() -> None:
    """Of 4096 elements kernels for few still take care; everything that adds up must say so alike."""

    def case(rows: int, columns: int) -> Case:
        def run() -> Any:
            x = torch.linspace(-1, 1, rows * columns).reshape(rows, columns).requires_grad_()
            bias = torch.linspace(0, 1, columns).requires_grad_()
            y = (x * 1.1 + bias).sin()
            results = [y.sum(0), y.sum(1), y.mean(0), y.mean((0, 1)), y.var(), y.std(1), y.norm(), y.prod(1)]
            sum(r.sum() for r in results).backward()
            return results, x.grad, bias.grad

        return run

    sizes = [(64, 63), (64, 64), (65, 64), (1, 4096), (4096, 1), (4097, 1), (128, 33), (700, 800)]
    check({f"{n} x {m}": case(n, m) for n, m in sizes}, FEW)


def test_ops_in_place_and_with_out() -> None:
    check(forms(), FEW)


@pytest.mark.parametrize("circumstance", CIRCUMSTANCES)
def test_ops_under_what_a_program_has_around_them(circumstance: str) -> None:
    with CIRCUMSTANCES[circumstance]():
        check(op_cases(), FEW)


def test_layers() -> None:
    check(layer_cases([None]), {"recorded": WAYS["recorded"], "under a function mode": WAYS["under a function mode"]})


def test_layers_in_sixteen_bits() -> None:
    check(layer_cases([torch.bfloat16], grads=[True]), {"with everything": WAYS["with everything"]})


def test_optimizers() -> None:
    check({**optimizer_cases([torch.float32], ["several"]), **optimizer_cases([torch.float64], ["matrices"])}, FEW)


def test_optimizers_on_other_types() -> None:
    cases = optimizer_cases([torch.bfloat16, torch.complex64], ["with a number"], turned=[True])
    check(cases, FEW)


def test_every_optimizer_and_every_layer_is_among_them() -> None:
    optimizers = {name for name, kind in vars(torch.optim).items() if inspect.isclass(kind)} - {"Optimizer"}
    assert optimizers == set(optimizer_samples.OPTIONS)
    layers = {
        name for name, kind in vars(torch.nn).items() if inspect.isclass(kind) and issubclass(kind, torch.nn.Module)
    }
    text = " ".join(sampled.text for sampled in layer_samples.CASES)
    assert {name for name in layers if f"nn.{name}(" not in text and f"nn.{name}." not in text} == {
        "Container", "Module", "ModuleDict", "ModuleList", "NLLLoss2d", "ParameterDict", "ParameterList", "RNNBase", "RNNCellBase",
    }  # fmt: skip


EXAMPLE = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
import torch
from torch.profiler import profile
def losses(program):
    torch.manual_seed(0)
    step = program.make_step()
    return [step().item().hex() for _ in range(2)]
programs = {name: importlib.import_module(name) for name in sys.argv[2:]}
alone = {name: losses(program) for name, program in programs.items()}
with profile(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True):
    recorded = {name: losses(program) for name, program in programs.items()}
json.dump([alone, recorded], sys.stdout)
"""
EXAMPLES = Path(__file__).parents[3] / "examples"


def test_examples(tmp_path: Path) -> None:
    """All in one process, under the launcher."""
    script = tmp_path / "program.py"
    script.write_text(EXAMPLE)
    names = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "session")
    command = [sys.executable, "-m", "mindtorch_v2", str(script), str(EXAMPLES), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    alone, recorded = json.loads(done.stdout)
    assert {name: len(losses) for name, losses in alone.items()} == dict.fromkeys(names, 2)
    assert recorded == alone


def test_repeated_training_ends_alike() -> None:
    """A recurrent net, dropout, batch norm and Adam over several steps: a run and its profiled run give the same losses."""

    def train() -> Any:
        net = torch.nn.GRU(6, 8, num_layers=2, dropout=0.3)
        head = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3))
        params = [*net.parameters(), *head.parameters()]
        optimizer = torch.optim.AdamW(params, lr=0.01)
        losses = []
        for _ in range(4):
            x, y = torch.randn(5, 4, 6), torch.randint(0, 3, (4,))
            optimizer.zero_grad()
            out = net((x - x.mean()) / x.std())[0][-1]
            loss = torch.nn.functional.cross_entropy(head(out), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(params, 1.0)
            optimizer.step()
            losses.append(loss.item())
        return losses, params

    check({"training": train}, WAYS)


# --- what watching must not do, one by one ----------------------------------------------------------------------------


def test_a_mode_is_offered_what_it_can_call() -> None:
    """A function mode calls what it is given with the arguments it is given, whatever row of a name these were for."""
    x = torch.ones(2, 3)
    with Passing():
        assert x.to(torch.float64, memory_format=torch.preserve_format).dtype is torch.float64
        assert x.bool(memory_format=torch.contiguous_format).dtype is torch.bool
        with RECORDED["recorded"]():
            assert x.numpy().shape == (2, 3)


def test_a_mode_is_given_an_argument_that_is_only_equal_to_the_default() -> None:
    """True is equal to 1 and -0.0 to 0.0, but an op tells them apart."""
    with Passing():
        with pytest.raises(RuntimeError, match="Boolean alpha only supported for Boolean results"):
            torch.ones(2).add(torch.ones(2), alpha=True)
        with pytest.raises(RuntimeError, match="Boolean alpha only supported for Boolean results"):
            torch.ones(2).sub_(torch.ones(2), alpha=True)
    assert not _same(-0.0, 0.0)
    assert not _same([True, 1], [1, 1])
    assert _same([1, 0.5], [1, 0.5])


def test_sixteen_bits_keep_the_strides_of_dimensions_of_one_element() -> None:
    """They are computed in 32 bits; the copy back lies as what was computed, whichever way led there."""
    wide = torch.ones(4, 3, 1, 3, dtype=torch.float16)
    turned = torch.ones(3, 1, 3, 1, dtype=torch.float16).permute(3, 2, 1, 0)
    with torch.autocast("cpu", torch.bfloat16):
        assert (wide * turned).stride() == (9, 3, 9, 1)
        with RECORDED["recorded"]():
            assert (wide * turned).stride() == (9, 3, 9, 1)


def test_a_rule_of_its_own_lays_out_an_elementwise_op_under_a_mode_too() -> None:
    x, exponents = torch.ones(3), torch.ones(3, 3).t()
    assert torch.ldexp(x, exponents).stride() == (3, 1)
    with Passing():
        assert torch.ldexp(x, exponents).stride() == (3, 1)


def test_batches_of_rows_times_columns() -> None:
    """A product depends on how its operands lie, in dimensions of one element too."""
    torch.manual_seed(0)
    rows, others = torch.randn(16, 2, 1, 9), torch.randn(16, 2, 1, 9)
    alone = torch.matmul(rows, others.mT)
    with Passing():
        assert torch.equal(torch.matmul(rows, others.mT), alone)
    with RECORDED["recorded"]():
        assert torch.equal(torch.matmul(rows, others.mT), alone)


def test_a_gradient_of_too_many_dimensions_is_refused_alone_too() -> None:
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        torch.ops.aten.select_backward(torch.ones(1, 1, 3), [2, 3], 0, 0)


def alike(case: Case) -> Any:
    """What a case gives, the same alone and in each way of watching."""
    check({"case": case}, WAYS)
    return case()


# Its dimensions of one element have strides of their own, which tell how a result was laid out.
def _odd(dtype: Any = torch.float32) -> Any:
    return torch.ones(24, dtype=dtype).as_strided((1, 4, 6, 1), (1, 1, 4, 24))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_number_counts_as_an_operand_of_a_layout(dtype: Any) -> None:
    for function in (torch.special.xlog1py, torch.xlogy, torch.remainder, torch.fmod, torch.rsub, torch.copysign):
        assert alike(lambda f=function: f(_odd(dtype), 2)).stride() == (1, 1, 4, 24)
    for function in (torch.pow, torch.clamp, torch.clamp_min):  # of one tensor, with a number beside it
        assert alike(lambda f=function: f(_odd(dtype), 2)).stride() == (24, 1, 4, 4)


def test_views_keep_the_strides_of_dimensions_of_one_element() -> None:
    one = torch.ones(1, 1, dtype=torch.complex64)
    assert alike(lambda: one.real.view(1, 1, 1)).stride() == (2, 2, 2)
    assert alike(lambda: torch.ones(9).as_strided((3, 1), (1, 7)).view(3, 1)).stride() == (1, 7)
    assert alike(lambda: torch.ones(9).as_strided((1, 3), (7, 1)).reshape(1, 3)).stride() == (3, 1)


def test_log_sigmoid_without_a_graph_is_in_row_major_order() -> None:
    with torch.inference_mode():
        assert alike(lambda: torch.nn.functional.logsigmoid(torch.ones(3, 4).t())).stride() == (3, 1)


def test_infinities_become_the_greatest_number_of_their_type() -> None:
    assert alike(lambda: torch.tensor([math.inf], dtype=torch.float16).nan_to_num_()).item() == 65504.0


def test_a_real_input_gets_the_real_part_of_a_complex_gradient() -> None:
    def case() -> Any:
        x = torch.ones(1, 1, requires_grad=True)
        torch.fft.fftn(x).abs().sum().backward()
        return x.grad

    assert alike(case).stride() == (2, 2)


def test_the_index_op_takes_no_more_indices_than_dimensions() -> None:
    """`x[mask]` gives a mask without dimensions one; the op itself does not."""
    yes, index, put = torch.tensor(True), torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default
    for way in (contextlib.nullcontext, *WAYS.values()):
        with way():
            with pytest.raises(IndexError, match=r"too many indices for tensor of dimension 0 \(got 2\)"):
                index(torch.tensor(1.0), [yes, yes])
            with pytest.raises(RuntimeError, match="a mask without dimensions does not say which elements"):
                index(torch.ones(3), [yes])
            assert index(torch.ones(3, 2), [torch.tensor(0), yes]).shape == (2,)
            assert put(torch.ones(3), [yes], torch.tensor(7.0)).tolist() == [7, 7, 7]
            assert torch.tensor(1.0)[yes].shape == (1,)


@pytest.mark.parametrize(
    ("shape", "complaint"),
    [((2, 4, 3), r"t\(\) expects a tensor with <= 2 dim"), ((3,), "mat2 must be a matrix, got 1-D")],
)
def test_a_weight_that_is_no_matrix_is_refused_alike(shape: tuple[int, ...], complaint: str) -> None:
    x, weight, bias = torch.ones(2, 3), torch.ones(shape), torch.ones(4)
    for way in (contextlib.nullcontext, *WAYS.values()):
        with way(), torch.inference_mode(), pytest.raises(RuntimeError, match=complaint):
            torch.nn.functional.linear(x, weight, bias)


def test_masks_of_bytes_are_not_filled() -> None:
    mask = torch.tensor([1, 0, 1], dtype=torch.uint8)
    for way in (contextlib.nullcontext, *WAYS.values()):
        with way(), pytest.raises(RuntimeError, match="masked_fill_ only supports boolean masks"):
            torch.index_put(torch.ones(3), (mask,), torch.tensor(7.0))


def test_tensors_made_in_inference_mode_are_inference_tensors_while_memory_is_recorded() -> None:
    with RECORDED["with memory"](), torch.inference_mode():
        made = torch.ones(3) * 2
    assert made.is_inference()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        made.add_(1)


def test_a_parameter_without_a_shape_can_be_traced() -> None:
    with WAYS["with an execution trace"]():
        layer = torch.nn.LazyLinear(3).to(torch.float64)
        assert layer(torch.ones(2, 4, dtype=torch.float64)).shape == (2, 3)


def test_integers_of_a_tensor_with_a_gradient_require_none() -> None:
    x = torch.ones(2, requires_grad=True)
    assert not x.long().requires_grad
    assert not x.sum(dtype=torch.int64).requires_grad


def test_an_expanded_operand_makes_no_graph() -> None:
    target = torch.ones(2, 3)
    target.sub_(torch.ones(2, 1).expand(2, 3))
    assert not target.requires_grad


def test_steps_count_the_changes_of_their_operators() -> None:
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([p])
    p.sum().backward()
    optimizer.step()
    state = optimizer.state[p]
    # The parameter decays and moves; the mean of squares is scaled and added to.
    assert [t._version for t in (p, state["step"], state["exp_avg"], state["exp_avg_sq"])] == [2, 1, 1, 2]


# --- without the recorder in C ----------------------------------------------------------------------------------------

TOLD = """
import json, sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/.."]
from test_recorded_bits import told_of_all
json.dump(told_of_all(), sys.stdout)
"""


def told_of_all() -> dict[str, str]:
    """What many cases come to, alone and recorded, as text."""
    cases = {
        **op_cases(grads=[True]),
        **layer_cases([None], grads=[True]),
        **optimizer_cases([torch.float32], ["several"]),
    }
    alone = outcomes(cases.items())
    with RECORDED["with everything"]():
        recorded = outcomes(cases.items())
    return {
        f"{name}{way}": repr(seen)
        for way, found in (("", alone), (", recorded", recorded))
        for name, seen in found.items()
    }


def _told_elsewhere(without: str) -> dict[str, str]:
    """The same from a process of its own, with parts of the C code switched off."""
    environment = {**os.environ, "MINDTORCH_PURE": without}
    command = [sys.executable, "-W", "ignore", "-c", TOLD, str(Path(__file__).parent)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(C is None, reason="without the compiled kernels values are the same up to rounding")
def test_the_recorder_in_c_changes_nothing() -> None:
    """This process has it, or was told to do without; the other one is the other way round."""
    here = told_of_all()
    other = _told_elsewhere("recorder" if tap.HELPER is not None else "")
    assert len(here) > 2 * len(NAMES)
    assert here.keys() == other.keys()
    changed = [name for name in here if here[name] != other[name]]
    assert not changed, f"{len(changed)} of {len(here)}: {changed[:20]}"
