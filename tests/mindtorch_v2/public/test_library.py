"""What libraries on top of torch ask for: operators by namespace, operators of their own, storages of files, conditions,
and the marks of models that could be quantized.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.nn.attention.flex_attention import AuxRequest, flex_attention
from mindtorch_v2.profiler import _ExperimentalConfig, profile

# --- torch.ops --------------------------------------------------------------------------------------------------------


def test_operators_are_found_by_namespace_and_overload() -> None:
    x = torch.tensor([1.0, -2.0])
    assert torch.ops.aten.add(x, x).tolist() == torch.ops.aten.add.Tensor(x, x).tolist() == [2.0, -4.0]
    assert torch.ops.aten.relu.default(x).tolist() == [1.0, 0.0]
    assert "Tensor" in torch.ops.aten.add.overloads()
    assert repr(torch.ops.aten.add) == "<OpOverloadPacket(op='aten.add')>"


def test_an_unknown_operator_or_overload_is_named() -> None:
    with pytest.raises(AttributeError, match="'_OpNamespace' 'vision' object has no attribute 'nms'"):
        _ = torch.ops.vision.nms
    with pytest.raises(AttributeError, match=r"'aten.relu' has no overload name 'Scalar'; it has default"):
        _ = torch.ops.aten.relu.Scalar


def test_a_compiled_extension_is_refused_as_one_that_does_not_fit() -> None:
    with pytest.raises(OSError, match=r"_C\.so cannot be loaded: it is compiled for torch"):
        torch.ops.load_library("_C.so")


# --- torch.library ----------------------------------------------------------------------------------------------------


def test_a_custom_op_is_callable_under_its_name_and_differentiable() -> None:
    @torch.library.custom_op("test_library::square", mutates_args=())
    def square(x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return x * x * scale

    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * grad, None

    square.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
    x = torch.tensor([3.0], requires_grad=True)
    y = torch.ops.test_library.square(x)
    y.backward()
    assert (y.item(), x.grad.item()) == (9.0, 6.0)
    assert square(torch.tensor([2.0]), scale=0.5).item() == 2.0


def test_a_library_defines_operators_and_their_kernels_one_by_one() -> None:
    library = torch.library.Library("test_fragment", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match="test_fragment::twice has no kernel"):
        torch.ops.test_fragment.twice(torch.ones(1))
    library.impl("twice", lambda x: x * 3, "CUDA")
    library.impl("twice", lambda x: x * 2, "CPU")
    assert torch.ops.test_fragment.twice(torch.ones(1)).item() == 2.0


def test_names_of_operators_need_a_namespace() -> None:
    with pytest.raises(ValueError, match="`namespace::name`, got 'square'"):
        torch.library.define("square", "(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="operator a::b does not exist"):
        torch.library.register_autograd("a::b", lambda ctx, grad: grad)


# --- storages ---------------------------------------------------------------------------------------------------------


def test_a_storage_of_a_file_can_be_sliced_and_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(8)))
    part = torch.UntypedStorage.from_file(str(path), False, 8)[4:8]
    assert part.nbytes() == 4
    assert torch.asarray(part, dtype=torch.uint8).view(torch.int16).tolist() == [0x0504, 0x0706]


def test_a_typed_storage_has_no_slices() -> None:
    storage = torch.arange(3.0).storage()
    assert storage[1] == 1.0
    with pytest.raises(RuntimeError, match="slices are only supported in UntypedStorage"):
        _ = storage[0:2]


# --- elements ---------------------------------------------------------------------------------------------------------


def test_elements_can_be_replaced_by_a_python_function() -> None:
    x = torch.arange(4.0).view(2, 2)
    x.t().apply_(lambda v: v + 1)
    assert x.map_(torch.ones(2, 2), lambda a, b: 2 * a + b).tolist() == [[3.0, 5.0], [7.0, 9.0]]
    assert x._version == 2
    with pytest.raises(RuntimeError, match=r"Can't call apply_\(\) on Variable that requires grad"):
        torch.ones(1, requires_grad=True).apply_(abs)


# --- conditions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "error"),
    [
        (torch._check, RuntimeError),
        (torch._check_value, ValueError),
        (torch._check_index, IndexError),
        (torch._check_type, TypeError),
        (torch._check_not_implemented, NotImplementedError),
    ],
)
def test_a_condition_that_fails_raises_its_own_error(check: Any, error: type[Exception]) -> None:
    check(True)
    with pytest.raises(error, match="no good"):
        check(False, lambda: "no good")
    with pytest.raises(error, match="Expected cond to be True"):
        check(False)


def test_assertions_and_sizes() -> None:
    torch._assert(True, "fine")
    with pytest.raises(AssertionError, match="wrong"):
        torch._assert(False, "wrong")
    with pytest.raises(RuntimeError, match="Expected cond"):
        torch._check_is_size(-1)
    assert not isinstance(3, torch.SymInt)


# --- models that could be quantized -----------------------------------------------------------------------------------


def test_quantization_marks_pass_values_on_and_quantizing_is_refused() -> None:
    x = torch.tensor([1.0, -2.0])
    assert torch.ao.quantization.QuantStub()(x) is x
    assert torch.nn.quantized.FloatFunctional().add_relu(x, x).tolist() == [2.0, 0.0]
    with pytest.raises(NotImplementedError, match=r"prepare is not provided: .*float32 or bfloat16"):
        torch.ao.quantization.prepare(torch.nn.Linear(1, 1))


def test_flex_attention_returns_what_is_asked_for() -> None:
    q = torch.ones(1, 1, 2, 4)
    out, aux = flex_attention(q, q, q, return_aux=AuxRequest(lse=True))
    assert out.shape == q.shape
    assert aux.lse.flatten().tolist() == pytest.approx([2.6931472, 2.6931472])
    assert aux.max_scores is None


def test_the_older_comparison_is_wider() -> None:
    with pytest.warns(FutureWarning, match="assert_close"):
        torch.testing.assert_allclose([1.0, 2.0], torch.tensor([1.00005, 2.0], dtype=torch.float64))
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match="not close"):
        torch.testing.assert_allclose(torch.ones(1), torch.ones(1) * 1.001)


# --- operators of programs while something records -------------------------------------------------------------------


def recorded(work: Any) -> list[Any]:
    config = _ExperimentalConfig(capture_overload_names=True)
    with profile(record_shapes=True, experimental_config=config) as prof:
        work()
    return list(prof.events())


def test_a_defined_operator_is_an_event_around_the_ops_of_its_kernel() -> None:
    library = torch.library.Library("test_recorded", "DEF")
    library.define("twice(Tensor a) -> Tensor")
    library.define("twice.out(Tensor a, int k, *, Tensor(a!) out) -> Tensor(a!)")
    library.define("first(Tensor[] xs, float s=2.0, str mode='a') -> Tensor")
    library.impl("twice", lambda a: a + a, "CPU")
    library.impl("twice.out", lambda a, k, *, out: out.copy_(a + k), "CPU")
    library.impl("first", lambda xs, s=2.0, mode="a": xs[0] * s, "CPU")
    ops, x, out = torch.ops.test_recorded, torch.ones(2, 3), torch.empty(2, 3)
    whole, inner = recorded(lambda: ops.twice(x))
    assert (whole.name, whole.overload_name, whole.input_shapes) == ("test_recorded::twice", "", [[2, 3]])
    assert (inner.name, inner.cpu_parent.name) == ("aten::add", "test_recorded::twice")
    for call in (ops.twice, ops.twice.out):
        whole = recorded(lambda call=call: call(x, 3, out=out))[0]
        assert (whole.overload_name, whole.concrete_inputs) == ("out", [None, 3, None])
    whole = recorded(lambda: ops.first([x, x], mode="z"))[0]
    assert (whole.input_dtypes, whole.concrete_inputs) == (["TensorList", "Scalar", ""], [None, 2.0, None])
    assert ops.twice.overloads() == ["default", "out"]
    with pytest.raises(AttributeError, match="no overload 'Scalar'"):
        _ = ops.twice.Scalar


def test_a_custom_op_and_its_gradient_are_events() -> None:
    @torch.library.custom_op("test_recorded::scaled", mutates_args=())
    def scaled(a: torch.Tensor, k: int) -> torch.Tensor:
        return a * k

    scaled.register_autograd(lambda ctx, grad: (grad * 2, None))
    x = torch.ones(3, requires_grad=True)
    events = recorded(lambda: scaled(x, k=2).sum().backward())
    assert [event.name for event in events[:3]] == [
        "test_recorded::scaled",
        "GeneratedBackwardFor_test_recorded_scaled_default",
        "aten::mul",
    ]
    assert events[0].concrete_inputs == [None, 2]
    assert "GeneratedBackwardFor_test_recorded_scaled_defaultBackward" in [event.name for event in events]
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_autograd_does_not_look_into_a_custom_op() -> None:
    @torch.library.custom_op("test_library::sine", mutates_args=())
    def sine(x: torch.Tensor) -> torch.Tensor:
        assert not torch.is_grad_enabled()
        return torch.from_numpy(np.sin(x.numpy()))

    x = torch.ones(2, requires_grad=True)
    y = sine(x)
    assert type(y.grad_fn).__name__ == "GeneratedBackwardFor_test_library_sine_defaultBackward"
    with pytest.raises(RuntimeError, match=r"backward through test_library\.sine\.default but no autograd formula"):
        y.sum().backward()
    assert not sine(x.detach()).requires_grad
    assert repr(sine) == "<CustomOpDef(test_library::sine)>"


def test_tensors_in_lists_have_gradients() -> None:
    @torch.library.custom_op("test_library::added", mutates_args=())
    def added(xs: list[torch.Tensor], factor: float) -> torch.Tensor:
        return (xs[0] + xs[1]) * factor

    def setup(ctx, inputs, output):
        ctx.factor = inputs[1]

    added.register_autograd(lambda ctx, g: ([g * ctx.factor, None], None), setup_context=setup)
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    added([a, b], 3.0).sum().backward()
    assert a.grad.tolist() == [3, 3]
    assert b.grad is None


@pytest.mark.parametrize("named", [("x",), ["x"], {"x"}, "unknown"])
def test_arguments_that_an_operator_changes_get_a_new_version(named) -> None:
    def change(x: torch.Tensor, y: torch.Tensor) -> None:
        x.numpy()[...] += 1

    op = torch.library.custom_op("test_library::change", change, mutates_args=named)
    x, y = torch.ones(2, requires_grad=True) * 1, torch.ones(2)
    square = x * x
    op(x, y)
    assert x.tolist() == [2, 2]
    assert (x._version, y._version) == (1, named == "unknown")
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.sum().backward()
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        op.register_autograd(lambda ctx, g: None)


def test_arguments_that_are_changed_are_named_rightly() -> None:
    def change(x: torch.Tensor) -> None: ...

    with pytest.raises(ValueError, match="mutates_args must either be a sequence of the names"):
        torch.library.custom_op("test_library::wrong", change, mutates_args="x")
    with pytest.raises(ValueError, match=r"{'z'} in mutates_args were not found"):
        torch.library.custom_op("test_library::wrong", change, mutates_args=("z",))


def test_operators_keep_their_tags() -> None:
    tag = torch.Tag.pt2_compliant_tag
    op = torch.library.custom_op("test_library::tagged", lambda x: x * 2, mutates_args=(), tags=(tag,))
    assert op.tags == [tag]


def test_kernels_made_of_other_operators_are_taken() -> None:
    library = torch.library.Library("test_library_composed", "DEF")
    library.define("triple(Tensor x) -> Tensor")
    library.impl("triple", lambda x: x * 3, "CompositeImplicitAutograd")
    x = torch.ones(1, requires_grad=True)
    torch.ops.test_library_composed.triple(x).backward()
    assert x.grad.tolist() == [3]
    library.impl("triple", lambda x: x * 30, "CPU")
    library.impl("triple", lambda x: x * 3, "Autograd")
    assert torch.ops.test_library_composed.triple(x).tolist() == [30]
