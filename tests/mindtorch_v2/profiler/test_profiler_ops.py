"""The profiler over real tensors: names, shapes, sequence numbers, memory and FLOPs of what really ran."""

import random
import sys
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.dispatch.functions import _codes
from mindtorch_v2.profiler import _ExperimentalConfig, profile, record_function


def tree_of(prof: profile) -> list[Any]:
    def node(event: Any) -> Any:
        children = [node(child) for child in event.cpu_children]
        return (event.name, children) if children else event.name

    return [node(event) for event in prof.events() if event.cpu_parent is None]


def test_forward_and_backward_nest_as_in_torch() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    with profile() as prof:
        (x * x).sum().backward()
    names = [event.name for event in prof.events() if event.cpu_parent is None]
    assert names == [
        "aten::mul",
        "aten::sum",
        "aten::ones_like",
        "autograd::engine::evaluate_function: SumBackward0",
        "autograd::engine::evaluate_function: MulBackward0",
        "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
    ]
    events = {event.name: event for event in prof.events()}
    node = events["MulBackward0"]
    assert node.cpu_parent is events["autograd::engine::evaluate_function: MulBackward0"]
    assert (node.scope, node.fwd_thread) == (1, 1)
    assert node.sequence_nr == prof.events()[0].sequence_nr >= 0
    assert [child.name for child in node.cpu_children] == ["aten::mul", "aten::mul"]


def test_shapes_types_and_values_of_inputs() -> None:
    x = torch.ones(2, 3)
    with profile(record_shapes=True) as prof:
        torch.add(x, x, alpha=2)
        torch.cat([x, x])
    add, cat = prof.events()[0], next(event for event in prof.events() if event.name == "aten::cat")
    assert (add.input_shapes, add.input_dtypes) == ([[2, 3], [2, 3], []], ["float", "float", "Scalar"])
    assert (add.concrete_inputs, add.structured_input_strides) == ([None, None, 2], [[3, 1], [3, 1], []])
    assert (cat.input_shapes, cat.structured_input_shapes) == ([[], []], [[[2, 3], [2, 3]], []])
    assert cat.input_dtypes[0] == "TensorList"


def test_numbers_that_are_equal_but_not_the_same_are_told_apart() -> None:
    x = torch.ones(2)
    with profile(record_shapes=True) as prof:
        torch.add(x, x, alpha=1)
        torch.add(x, x, alpha=1.0)
    assert [repr(event.concrete_inputs[2]) for event in prof.events()] == ["1", "1.0"]


def test_flops_are_counted_as_torch_counts_them() -> None:
    with profile(with_flops=True) as prof:
        torch.mm(torch.ones(3, 4), torch.ones(4, 5))
        torch.ones(2, 3) * torch.ones(2, 3)
    flops = {event.name: event.flops for event in prof.events() if event.flops}
    assert flops == {"aten::mm": 120, "aten::mul": 6}
    assert "Total FLOPs" in prof.key_averages().table()
    with profile() as prof:
        torch.mm(torch.ones(3, 4), torch.ones(4, 5))
    assert all(event.flops == 0 for event in prof.events())


def test_memory_is_attributed_and_given_back() -> None:
    x = torch.ones(100)
    with profile(profile_memory=True) as prof:
        with record_function("block"):
            y = x + x
        del y
    rows = {row.key: row for row in prof.key_averages()}
    assert (rows["block"].cpu_memory_usage, rows["block"].self_cpu_memory_usage) == (400, 0)
    assert rows["aten::add"].self_cpu_memory_usage == 400
    assert rows["[memory]"].cpu_memory_usage == -400


def test_views_allocate_nothing() -> None:
    x = torch.ones(4, 4)
    with profile(profile_memory=True) as prof:
        x.view(16).t()
    assert all(event.cpu_memory_usage == 0 for event in prof.events())


def test_a_tensor_from_before_frees_nothing() -> None:
    x = torch.ones(100)
    with profile(profile_memory=True):
        y = torch.ones(10)
    with profile(profile_memory=True) as prof:
        del x, y
    assert prof.events() == []


def test_ops_without_grad_have_no_sequence_number() -> None:
    x = torch.ones(2, requires_grad=True)
    with profile() as prof:
        x * x
        with torch.no_grad():
            x * x
    assert [event.sequence_nr >= 0 for event in prof.events()] == [True, False]


def test_overloads_are_kept_when_asked_for() -> None:
    x = torch.ones(2)
    config = _ExperimentalConfig(capture_overload_names=True)
    with profile(experimental_config=config) as prof:
        x + x
    assert prof.events()[0].overload_name == "Tensor"
    assert [row.overload_name for row in prof.key_averages(group_by_overload_name=True)] == ["Tensor"]
    assert prof.key_averages()[0].overload_name == ""
    with profile() as prof:
        x + x
    assert prof.events()[0].overload_name == ""


def test_stacks_of_ops_name_the_line_that_called_them() -> None:
    def double(x: Any) -> Any:
        return x + x

    with profile(with_stack=True) as prof:
        double(torch.ones(2))
    add = next(event for event in prof.events() if event.name == "aten::add")
    assert add.stack[0].endswith(f"({double.__code__.co_firstlineno + 1}): double")
    assert add.cpu_parent is not None
    assert add.cpu_parent.name.endswith(f"({double.__code__.co_firstlineno}): double")
    assert not [name for name in (event.name for event in prof.events()) if "mindtorch_v2/_" in name]


def test_backward_ops_have_the_stack_of_their_forward_op() -> None:
    def forward(x: Any) -> Any:
        return (x * x).sum()

    x = torch.ones(2, requires_grad=True)
    with profile(with_stack=True) as prof:
        forward(x).backward()
    node = next(event for event in prof.events() if event.name == "MulBackward0")
    assert node.stack[0].endswith(": forward")
    assert node.cpu_children[-1].stack == node.stack


def test_an_op_that_fails_is_recorded_and_leaves_nothing_open() -> None:
    with profile(with_stack=True) as prof:
        with pytest.raises(RuntimeError):
            torch.mm(torch.ones(2, 3), torch.ones(2, 3))
        torch.ones(2) + 1
    names = [event.name for event in prof.events()]
    assert "aten::add" in names


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("aten::bmm", lambda: torch.bmm(torch.ones(2, 3, 4), torch.ones(2, 3, 4))),
        ("aten::logsumexp", lambda: torch.ones(2, 3).t().logsumexp(0)),
    ],
)
def test_an_op_that_is_no_quick_case_after_all_is_recorded_once(name: str, call: Any) -> None:
    with profile() as prof:
        try:
            call()
        except RuntimeError:
            assert name == "aten::bmm"
    assert [event.name for event in prof.events()].count(name) == 1


def test_a_gradient_laid_out_for_a_kernel_is_freed_in_its_event() -> None:
    x, layer = torch.ones(64, 32, requires_grad=True), torch.nn.LayerNorm(32)
    with profile(profile_memory=True) as prof:
        layer(x).sum().backward()
    backward = next(event for event in prof.events() if event.name == "aten::native_layer_norm_backward")
    assert [child.name for child in backward.cpu_children] == ["aten::contiguous"]
    assert backward.cpu_memory_usage == 4 * (64 * 32 + 32 + 32)


def test_profiling_changes_no_result() -> None:
    def work() -> Any:
        x = torch.ones(3, 3, requires_grad=True)
        y = (x * 2 + x).sum()
        y.backward()
        return y.item(), x.grad.tolist()

    plain = work()
    for options in ({}, {"record_shapes": True}, {"profile_memory": True}, {"with_stack": True, "with_flops": True}):
        with profile(**options):
            assert work() == plain
    assert work() == plain


def test_the_memory_of_an_op_that_is_another_belongs_to_the_inner_one() -> None:
    x = torch.ones(4, 4)
    with profile(profile_memory=True, record_shapes=True) as prof:
        kept = [torch.relu(x), x.t()]
    rows = {event.name: event for event in prof.events()}
    assert [child.name for child in rows["aten::relu"].cpu_children] == ["aten::clamp_min"]
    assert [rows[f"aten::{name}"].self_cpu_memory_usage for name in ("relu", "clamp_min", "t")] == [0, 64, 0]
    assert rows["aten::clamp_min"].concrete_inputs == [None, 0]
    assert rows["aten::transpose"].concrete_inputs == [None, 0, 1]
    assert (rows["aten::relu"].sequence_nr >= 0, rows["aten::clamp_min"].sequence_nr) == (True, -1)
    assert kept[0].equal(x)


@pytest.mark.parametrize("graph", [False, True])
def test_views_are_recorded_whether_a_graph_is_built_or_not(graph: bool) -> None:
    x = torch.ones(2, 3, requires_grad=graph) * 1
    with profile(record_shapes=True) as prof:
        x.t().unsqueeze(0)
        with pytest.raises(RuntimeError, match="invalid for input of size 6"):
            x.view(4)
        x.view(6)
    assert tree_of(prof) == [("aten::t", ["aten::transpose"]), "aten::unsqueeze", "aten::view", "aten::view"]
    inner = prof.events()[1]
    assert (inner.input_shapes, inner.concrete_inputs) == ([[2, 3], [], []], [None, 0, 1])
    numbers = [event.sequence_nr - prof.events()[0].sequence_nr for event in prof.events()]
    assert [number for number in numbers if number >= 0] == ([0, 1, 2, 2] if graph else [0, 0, 0, 0])


def test_an_op_inside_another_ends_where_it_fails() -> None:
    with profile() as prof, pytest.raises(RuntimeError, match="3D"):
        torch.ones(2, 2, 2).t()
    assert tree_of(prof)[-1] == ("aten::t", ["aten::transpose"])


def test_memory_of_ops_made_of_ops_is_counted_once() -> None:
    with profile(profile_memory=True) as prof:
        x = torch.ones(100)
        y = torch.ones_like(x)
    rows = {row.key: row for row in prof.key_averages()}
    assert (rows["aten::ones"].cpu_memory_usage, rows["aten::ones"].self_cpu_memory_usage) == (400, 0)
    assert rows["aten::ones_like"].cpu_memory_usage == 400
    assert "[memory]" not in rows
    del x, y


def test_modules_and_optimizers_are_named_as_in_torch() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with profile(with_stack=True) as prof:
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    names = [event.name for event in prof.events()]
    modules = [name for name in names if name.startswith("nn.Module: ")]
    assert modules == [f"nn.Module: {name}" for name in ("Sequential_0", "Linear_0", "ReLU_0", "Linear_1")]
    assert "Optimizer.zero_grad#SGD.zero_grad" in names
    assert "Optimizer.step#SGD.step" in names
    linear = next(event for event in prof.events() if event.name == "aten::linear")
    assert "nn.Module: Linear_0" in linear.stack
    assert linear.stack.index("nn.Module: Linear_0") < linear.stack.index("nn.Module: Sequential_0")


def test_ops_in_use_are_made_ready_before_the_window_opens() -> None:
    x = torch.ones(2)
    x + x
    with profile(record_shapes=True, with_stack=True):
        pass
    assert ("add.Tensor", 3) in _codes


def test_autograd_knows_whether_something_records() -> None:
    assert not torch.autograd._profiler_enabled()
    with profile():
        assert torch.autograd._profiler_enabled()
    assert torch.autograd.kineto_available()
    assert torch.autograd.ProfilerActivity is torch.profiler.ProfilerActivity


def test_nodes_show_the_gradients_of_differentiable_outputs_only():
    x = torch.ones(3, 4, requires_grad=True)
    loss = x.max(1)[0].sum()
    with profile(record_shapes=True) as prof:
        loss.backward()
    assert [e.input_shapes for e in prof.events() if e.name == "MaxBackward0"] == [[[3]]]


def test_new_tensors_have_no_sequence_number_and_one_dim_is_a_list():
    x = torch.ones(3, 4)
    with profile(record_shapes=True) as prof:
        torch.ones_like(x)
        x.sum(1)
    made, summed = (next(e for e in prof.events() if e.name == name) for name in ("aten::ones_like", "aten::sum"))
    assert made.sequence_nr == -1
    assert summed.concrete_inputs[1] == [1]


def _sums(program: Any) -> list[str]:
    """Which additions the engine makes where gradients meet, accumulating into leaves included."""
    program()
    with profile() as prof:
        program()
    backward = [event for event in prof.events() if event.cpu_parent is not None]
    return [event.name.removeprefix("aten::") for event in backward if event.name in ("aten::add", "aten::add_")]


def test_gradients_that_meet_are_added_in_place_where_nobody_else_holds_them() -> None:
    x = torch.ones(2, 3, requires_grad=True)

    def twice(y: torch.Tensor) -> None:
        (y.exp() + y.sin()).sum().backward()

    assert _sums(lambda: (x / x).sum().backward()) == ["add_", "add_"]
    assert _sums(lambda: twice(x * 2)) == ["add_", "add_"]
    # Both inputs of an addition get the very same gradient.
    assert _sums(lambda: (x + x).sum().backward()) == ["add", "add_"]
    assert _sums(lambda: (x.exp() + x).sum().backward()) == ["add", "add_"]


@pytest.mark.parametrize("keep", [lambda g: g, lambda g: g.view(-1), lambda g: g.numpy(), lambda g: g.t()])
def test_gradients_that_somebody_holds_are_left_alone(keep: Any) -> None:
    x = torch.ones(2, 3, requires_grad=True)
    kept: list[Any] = []
    y = x * 2
    first = y * 3
    first.register_hook(lambda g: kept.append(keep(g)))
    (first * 5 + y.exp()).sum().backward()
    z = x * 2
    both = z + z.sin()
    both.register_hook(lambda g: kept.append(keep(g)))
    (both * 7).sum().backward()
    assert [float(values.min()) for values in kept] == [float(values.max()) for values in kept] == [5.0, 7.0]


def recorded(work: Any, **options: Any) -> Any:
    config = _ExperimentalConfig(capture_overload_names=True)
    with profile(experimental_config=config, **options) as prof:
        work()
    return prof.events()


@pytest.mark.parametrize(
    ("arguments", "overload", "values"),
    [
        ({}, "correction", [None, None, None, False]),
        ({"dim": 1}, "dim", [None, [1], True, False]),
        ({"dim": (0, 1), "unbiased": False, "keepdim": True}, "dim", [None, [0, 1], False, True]),
        ({"unbiased": False}, "", [None, False]),
        ({"dim": 1, "correction": 2}, "correction", [None, [1], 2, False]),
    ],
)
@pytest.mark.parametrize("name", ["std", "var", "std_mean", "var_mean"])
def test_variances_have_the_overload_their_arguments_ask_for(name: str, arguments: Any, overload: str, values: Any):
    x = torch.arange(6.0).reshape(2, 3)
    event = recorded(lambda: getattr(torch, name)(x, **arguments), record_shapes=True)[0]
    assert (event.name, event.overload_name, event.concrete_inputs) == (f"aten::{name}", overload, values)


def ops_of(optimizer: Any, **options: Any) -> list[str]:
    """The ops of an optimizer's second step."""
    p = torch.ones(3, requires_grad=True)
    p.grad = torch.ones(3)
    steps = optimizer([p], lr=0.1, **options)
    steps.step()
    (step,) = [event for event in recorded(steps.step) if event.cpu_parent is None]
    return [event.name.removeprefix("aten::") for event in step.cpu_children]


def test_optimizers_do_their_ops_in_the_order_of_torchs() -> None:
    nadam = "add_ item mul_ lerp_ mul_ addcmul_ div sqrt item add_ item addcdiv_ addcdiv_"
    asgd = "neg add_ add item mul_ add_ item copy_ item empty to copy_ empty to copy_"
    rprop = (
        "add_ mul sign gt index_put_ lt index_put_ eq index_put_ mul_ clamp_ clone eq index_put_ sign addcmul_ copy_"
    )
    assert ops_of(torch.optim.NAdam) == nadam.split()
    assert ops_of(torch.optim.ASGD, weight_decay=0.1, maximize=True) == asgd.split()
    assert ops_of(torch.optim.Rprop) == rprop.split()


def names_at_the_top(work: Any) -> list[str]:
    return [event.name.removeprefix("aten::") for event in recorded(work) if event.cpu_parent is None]


def test_a_normal_loss_clamps_without_another_view() -> None:
    x, variance = torch.ones(3), torch.ones(3, requires_grad=True)
    names = names_at_the_top(lambda: torch.nn.functional.gaussian_nll_loss(x, x, variance))
    assert names == "lt any is_nonzero clone clamp_ log sub pow div add mul mean".split()


def test_retained_gradients_are_copies() -> None:
    x = torch.ones(3, requires_grad=True)
    first = x * 1
    second = first + torch.zeros(3)
    first.retain_grad()
    second.retain_grad()
    total = second.sum()
    events = recorded(total.backward)
    assert sum(event.name == "aten::clone" for event in events) == 2
    assert first.grad.stride() == (1,)
    second.grad.zero_()
    assert first.grad.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: torch.tensor([1.0]), "empty to detach_"),
        (lambda: torch.as_tensor([1.0]), "empty to"),
        (lambda: torch.asarray([1.0]), "empty to"),
        (lambda: torch.Tensor([1.0]), "empty to"),
        (lambda: torch.LongTensor([1]), "empty to"),
        (lambda: torch.Tensor(2, 3), "empty"),
        (lambda: torch.Tensor(), "empty"),
        (lambda: torch.tensor(np.ones(2)), "to detach_"),
        (lambda: torch.as_tensor(np.ones(2)), "to"),
        (lambda: torch.asarray(np.ones(2)), ""),
        (lambda: torch.asarray(np.ones(2), copy=True), "clone"),
    ],
)
def test_tensors_from_data_are_recorded_step_by_step(make: Any, names: str) -> None:
    assert names_at_the_top(make) == names.split()


@pytest.mark.parametrize("options", [{}, {"dtype": torch.float64}, {"requires_grad": True}])
def test_a_tensor_from_a_tensor_is_recorded_step_by_step(options: dict[str, Any]) -> None:
    source = torch.ones(2, 3).t().requires_grad_()
    with profile() as prof, pytest.warns(UserWarning, match="recommended to use sourceTensor"):
        made = torch.tensor(source, **options)
    assert tree_of(prof) == ["aten::detach", ("aten::to", ["aten::_to_copy"]), "aten::detach_"]
    assert (made.is_leaf, made.stride()) == (True, (1, 3))


@pytest.mark.parametrize("name", ["std", "var"])
@pytest.mark.parametrize(
    ("options", "shape", "overload"),
    [
        ({}, (), "correction_out"),
        ({"correction": 0}, (), "correction_out"),
        ({"dim": 0}, (3,), "out"),
        ({"dim": (0,), "unbiased": False}, (3,), "out"),
        ({"dim": 0, "correction": 2}, (3,), "correction_out"),
    ],
)
def test_moments_written_into_a_tensor_have_the_overload_of_their_arguments(
    name: str, options: dict[str, Any], shape: tuple[int, ...], overload: str
) -> None:
    x, out = torch.arange(12.0).reshape(4, 3), torch.empty(shape)
    with profile(experimental_config=_ExperimentalConfig(capture_overload_names=True)) as prof:
        assert getattr(torch, name)(x, out=out, **options) is out
    assert (prof.events()[0].name, prof.events()[0].overload_name) == (f"aten::{name}", overload)
    torch.testing.assert_close(out, getattr(torch, name)(x, **options))


def nodes_behind(tensor: Any) -> list[str]:
    """Names of the nodes of a graph, each once, first edges first."""
    found: dict[Any, str] = {}
    waiting = [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found[node] = node.name().rpartition("::")[2].replace("Backward", "")
            waiting.extend(edge for edge, _ in reversed(node.next_functions))
    return list(found.values())


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda a, b: a * b, "Mul0 AccumulateGrad"),
        (lambda a, b: a / b, "Div0 AccumulateGrad"),
        (lambda a, b: b / a, "Mul0 Div0 Div0 AccumulateGrad AccumulateGrad"),
        (lambda a, b: a**3, "Mul0 Mul1 Pow0 AccumulateGrad"),
        (lambda a, b: 2**a, "Mul0 Mul1 Pow2 AccumulateGrad"),
        (lambda a, b: a**b, "Where0 Mul0 Mul0 AccumulateGrad Pow1 AccumulateGrad Sub1"),
        (lambda a, b: (b - a) ** 2, "Neg0 Mul0 Mul1 Pow0 Sub0 AccumulateGrad AccumulateGrad"),
        (lambda a, b: torch.sub(b, a, alpha=2) ** 2, "Mul1 Neg0 Mul0 Mul1 Pow0 Sub0 AccumulateGrad AccumulateGrad"),
        (lambda a, b: a @ b, "Mm0 T0 AccumulateGrad"),
        (lambda a, b: a.sqrt(), "Div0 Mul1 Sqrt0 AccumulateGrad"),
        (lambda a, b: a.var(), "Mul0 Sub0 AccumulateGrad Mean0"),
    ],
)
def test_nodes_of_gradients_are_named_as_in_torch(function: Any, names: str) -> None:
    a, b = torch.full((3, 3), 2.0, requires_grad=True), torch.ones(3, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(function(a, b).sum(), [a], create_graph=True)
    assert nodes_behind(gradient) == names.split()


def test_gradients_multiply_by_numbers_with_the_overload_for_them() -> None:
    x = torch.ones(3, requires_grad=True)
    y = (x**3).sum()
    with profile(experimental_config=_ExperimentalConfig(capture_overload_names=True), with_flops=True) as prof:
        y.backward()
    products = [event for event in prof.events() if event.name == "aten::mul"]
    assert [(event.overload_name, event.flops) for event in products] == [("Scalar", 3), ("Tensor", 3)]


@pytest.mark.parametrize("function", [torch.mean, torch.sum, torch.rad2deg, torch.deg2rad])
@pytest.mark.parametrize("count", [7, 700, 7000])
def test_a_profile_changes_no_bit(function: Any, count: int) -> None:
    x = torch.arange(count) / 7
    plain = function(x)
    with profile():
        recorded = function(x)
    assert torch.equal(plain, recorded)


def test_memory_of_tensors_made_the_old_way_is_noted() -> None:
    with profile(profile_memory=True) as prof:
        kept = torch.Tensor(2, 3)
    (event,) = [event for event in prof.events() if event.name == "aten::empty"]
    assert event.cpu_memory_usage == 24
    assert kept.shape == (2, 3)


def _lines_above() -> list[str]:
    """The functions that run, from the caller on, each with its line; that of the caller is taken to be the next one."""
    frame, found = sys._getframe(1), []
    while frame is not None:
        found.append(f"({frame.f_lineno + (not found)}): {frame.f_code.co_name}")
        frame = frame.f_back
    return found


@pytest.mark.parametrize("seed", range(6))
def test_every_stack_is_that_of_its_moment(seed: int) -> None:
    draw, x = random.Random(seed), torch.ones(2)
    expected: list[list[str]] = []

    def wander(depth: int) -> None:
        for _ in range(5):
            choice = draw.randrange(4)
            if (choice == 0 and depth) or (choice == 1 and depth):
                wander(depth - 1)
            else:
                expected.extend([_lines_above()] * 2)
                for _ in range(2): x + x  # noqa: E701  # fmt: skip

    with profile(with_stack=True) as prof:
        wander(6)
    stacks = [event.stack for event in prof.events() if event.name == "aten::add"]
    assert len(stacks) == len(expected) > 4
    for stack, lines in zip(stacks, expected, strict=True):
        depth = sum("wander" in line for line in lines)
        assert [entry[entry.rindex("(") :] for entry in stack[:depth]] == lines[:depth]
