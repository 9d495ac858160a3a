"""Events of less common calls: what is at the top level of a profile, which nodes run in backward, what inputs show."""

from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.nn import functional as F
from mindtorch_v2.profiler import _ExperimentalConfig, profile

X = torch.arange(9.0).reshape(3, 3)
EVALUATE = "autograd::engine::evaluate_function: "
OVERLOADS = _ExperimentalConfig(capture_overload_names=True)


def top(call: Any) -> list[str]:
    """The events of a call that lie in no other."""
    with profile() as prof:
        call()
    return [event.name.removeprefix("aten::") for event in prof.events() if event.cpu_parent is None]


def nodes(call: Any) -> list[str]:
    """The nodes that backward runs through for the sum of what a call gives, the sum and the leaves left out."""
    with profile() as prof:
        call().sum().backward()
    names = [e.name.removeprefix(EVALUATE) for e in prof.events() if e.name.startswith(EVALUATE)]
    return [name for name in names[1:] if "AccumulateGrad" not in name]


def leaf() -> Any:
    return (X + 1).requires_grad_()


# --- one event at the top ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "name", "overload"),
    [
        (lambda: torch.linalg.pinv(X), "linalg_pinv", "atol_rtol_tensor"),
        (lambda: torch.linalg.pinv(X, 1e-3), "linalg_pinv", ""),
        (lambda: torch.linalg.pinv(X, atol=1e-3), "linalg_pinv", "atol_rtol_float"),
        (lambda: torch.linalg.matrix_rank(X), "linalg_matrix_rank", "atol_rtol_tensor"),
        (lambda: torch.linalg.matrix_rank(X, 0.1), "linalg_matrix_rank", ""),
        (lambda: torch.trapezoid(X), "trapezoid", "dx"),
        (lambda: torch.trapezoid(X, X), "trapezoid", "x"),
        (lambda: torch.trapz(X), "trapz", "dx"),
        (lambda: torch.cumulative_trapezoid(X), "cumulative_trapezoid", "dx"),
        (lambda: torch.fft.fftfreq(4), "fft_fftfreq", ""),
        (lambda: torch.fft.rfftfreq(4), "fft_rfftfreq", ""),
        (lambda: torch.stft(X.view(-1), 4, center=False, return_complex=True), "stft", ""),
        (lambda: torch.special.softmax(X, 0), "special_softmax", ""),
        (lambda: torch.special.log_softmax(X, 0), "special_log_softmax", ""),
        (lambda: torch.special.logsumexp(X, 0), "special_logsumexp", ""),
        (lambda: torch.quantile(X, 0.5), "quantile", "scalar"),
        (lambda: torch.hann_window(8), "hann_window", ""),
        (lambda: torch.hann_window(8, False), "hann_window", "periodic"),
        (lambda: torch.hamming_window(8, True, 0.5), "hamming_window", "periodic_alpha"),
        (lambda: torch.kaiser_window(8, True, 5.0), "kaiser_window", "beta"),
        (lambda: torch.argsort(X, stable=False), "argsort", "stable"),
        (lambda: torch.count_nonzero(X, (0, 1)), "count_nonzero", "dim_IntList"),
        (lambda: torch.gradient(X, dim=(0, 1)), "gradient", "array"),
        (lambda: torch.gradient(X, spacing=[1.0, 2.0]), "gradient", "scalarrayint"),
        (lambda: X.type_as(X), "type_as", ""),
        (lambda: X.new_empty_strided((2,), (1,)), "new_empty_strided", ""),
        (lambda: torch.empty_permuted((2, 3), (1, 0)), "empty_permuted", ""),
        (lambda: torch.as_tensor(X), "to", "device"),
        (lambda: torch.as_tensor(np.ones(2)), "to", "device"),
    ],
)
def test_one_event_holds_all_that_a_call_runs(call: Any, name: str, overload: str) -> None:
    with profile(experimental_config=OVERLOADS) as prof:
        call()
    events = [event for event in prof.events() if event.cpu_parent is None and event.name != "aten::view"]
    assert [(event.name, event.overload_name) for event in events] == [(f"aten::{name}", overload)]


@pytest.mark.parametrize("name", ["ones", "zeros", "empty", "rand", "randn"])
def test_factories_that_write_into_a_tensor_have_an_overload_of_their_own(name: str) -> None:
    target = torch.empty(0)
    with profile(record_shapes=True, experimental_config=OVERLOADS) as prof:
        getattr(torch, name)(3, out=target)
    event = prof.events()[0]
    assert (event.name, event.overload_name, event.input_shapes[-1]) == (f"aten::{name}", "out", [0])
    assert target.shape == (3,)


@pytest.mark.parametrize(
    ("call", "overload"),
    [
        (lambda out: torch.clamp(X, X, out=out), "Tensor_out"),
        (lambda out: torch.mean(X, out=out), "dtype_out"),
        (lambda out: torch.all(X, out=torch.empty(0, dtype=torch.bool)), "all_out"),
        (lambda out: torch.max(X, X, out=out), "out"),
        (lambda out: torch.xlogy(X, X, out=out), "OutTensor"),
        (lambda out: torch.linalg.eigh(X, out=(out, torch.empty(0))), "eigvals"),
        (lambda out: torch.linalg.svd(X, out=(out, torch.empty(0), torch.empty(0))), "U"),
        (lambda out: torch.norm(X, "nuc", out=out), "str_ord_out"),
        (lambda out: torch.expand_copy(X, (2, 3, 3), out=out), "out"),
        (lambda out: torch.eye(3, out=out), "out"),
        (lambda out: torch.eye(3, 2, out=out), "m_out"),
        (lambda out: torch.randint(5, (2,), out=out), "out"),
        (lambda out: torch.randint(1, 5, (2,), generator=torch.Generator(), out=out), "low_generator_out"),
        (lambda out: torch.normal(0.0, 1.0, (2,), out=out), "float_float_out"),
    ],
)
def test_overloads_that_write_into_tensors_have_torchs_names(call: Any, overload: str) -> None:
    with profile(experimental_config=OVERLOADS) as prof:
        call(torch.empty(0))
    last = [event for event in prof.events() if event.cpu_parent is None][-1]
    assert last.overload_name == overload


def test_the_nuclear_norm_is_written_where_it_is_wanted() -> None:
    out = torch.empty(())
    assert torch.norm(torch.eye(3), "nuc", out=out) is out
    assert out == 3


def test_bounds_that_are_tensors_are_inputs() -> None:
    with profile(record_shapes=True, experimental_config=OVERLOADS) as prof:
        torch.linspace(X[0, 0], 1, 3)
    event = next(event for event in prof.events() if event.name == "aten::linspace")
    assert (event.overload_name, event.input_dtypes[:2]) == ("Tensor_Scalar", ["float", "Scalar"])


# --- several events at the top ----------------------------------------------------------------------------------------


def test_parameters_are_detached_from_what_they_are_made_of() -> None:
    assert top(lambda: nn.Parameter(X)) == ["detach"]
    assert top(lambda: nn.Linear(2, 3)) == ["empty", "detach", "empty", "detach", "uniform_", "uniform_"]


def test_a_tensor_of_a_tensor_is_a_converted_copy() -> None:
    with pytest.warns(UserWarning, match="copy construct"):
        assert top(lambda: torch.tensor(X)) == ["detach", "to", "detach_"]


def test_numbers_are_assigned_as_tensors() -> None:
    held = X.clone()
    assert top(lambda: held.__setitem__((0, 1), 2.0)) == ["select", "select", "copy_"]
    with profile(experimental_config=OVERLOADS) as prof:
        held[1] = 5
    assert [(e.name, e.overload_name) for e in prof.events()][-1] == ("aten::fill_", "Tensor")
    assert held[:2].tolist() == [[0, 2, 2], [5, 5, 5]]


def test_small_unsigned_numbers_wrap_around_when_assigned() -> None:
    held = torch.zeros(2, 2, dtype=torch.uint8)
    with profile():
        held[0] = -1
    assert held.tolist() == [[255, 255], [0, 0]]


def test_formatting_reads_the_number() -> None:
    number = X[1, 1]
    assert top(lambda: f"{number:.1f}") == ["detach", "item"]
    assert f"{number:.1f}" == "4.0"


def test_an_array_as_index_is_converted() -> None:
    assert top(lambda: X[np.array([0, 1])]) == ["to", "index"]


def test_distributions_check_and_draw_as_torchs() -> None:
    mean, deviation = torch.zeros(3), torch.ones(3)
    normal = torch.distributions.Normal(mean, deviation)
    assert top(lambda: torch.distributions.Normal(mean, deviation))[-2:] == ["_is_all_true", "is_nonzero"]
    assert top(lambda: normal.rsample()) == ["empty", "normal_", "mul", "add"]
    assert top(lambda: normal.log_prob(mean))[3:5] == ["pow", "log"]


def test_norms_of_gradients_are_those_of_an_overload() -> None:
    model = nn.Linear(2, 2)
    model(torch.ones(1, 2)).sum().backward()
    with profile(experimental_config=OVERLOADS) as prof:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert (prof.events()[0].name, prof.events()[0].overload_name) == ("aten::_foreach_norm", "Scalar")


# --- inputs -----------------------------------------------------------------------------------------------------------


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, *others: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2, None


@pytest.mark.parametrize(
    ("given", "dtype", "value"),
    [
        (2, "Scalar", 2),
        (True, "Scalar", True),
        (0.5, "Scalar", 0.5),
        (1j, "Scalar", 1j),
        (None, "", None),
        ([1, 2], "ScalarList", [1, 2]),
        ([1.5, None], "ScalarList", [1.5, None]),
        ([None, 1], "", None),
        ([[1, 2]], "", None),
        ((1, 2.5), "", None),
        ((), "", None),
    ],
)
def test_custom_functions_show_numbers_and_lists_of_them(given: Any, dtype: str, value: Any) -> None:
    with profile(record_shapes=True) as prof:
        Scaled.apply(X, given)
    event = prof.events()[0]
    assert (event.input_shapes, event.input_dtypes) == ([[3, 3], []], ["float", dtype])
    assert event.concrete_inputs == [None, value]


@pytest.mark.parametrize(
    "given", ["text", {}, [X], ["a"], (X, 1), [], [1, 2.5], len, torch.float32, np.ones(2), object()]
)
def test_custom_functions_leave_out_what_is_no_number(given: Any) -> None:
    with profile(record_shapes=True) as prof:
        Scaled.apply(X, given, X)
    assert prof.events()[0].input_shapes == [[3, 3], [3, 3]]


def test_a_list_of_tensors_where_numbers_are_usual_is_described() -> None:
    with profile(record_shapes=True) as prof:
        torch.gradient(X, spacing=[torch.arange(3.0), torch.arange(3.0)])
    event = next(event for event in prof.events() if event.name == "aten::gradient")
    assert (event.input_dtypes[1], event.structured_input_shapes[1]) == ("TensorList", [[3], [3]])


def test_empty_tensors_have_strides() -> None:
    with profile(record_shapes=True) as prof:
        torch.empty(2, 0, 3) + 1
    event = next(event for event in prof.events() if event.name == "aten::add")
    assert event.structured_input_strides[0] == [3, 3, 1]


def test_the_gradient_that_backward_begins_with_keeps_the_format() -> None:
    root = leaf().sum()
    with profile(record_shapes=True) as prof:
        root.backward()
    assert prof.events()[0].concrete_inputs == [None, None, None, None, False, 1]


@pytest.mark.parametrize(("given", "value"), [(torch.preserve_format, 1), (torch.contiguous_format, 0)])
def test_conversions_show_the_memory_format(given: Any, value: int) -> None:
    with profile(record_shapes=True) as prof:
        X.double(memory_format=given)
    assert prof.events()[0].concrete_inputs == [None, 7, False, False, value]


def test_conversions_follow_the_memory_format() -> None:
    image = torch.ones(1, 2, 3, 4)
    assert image.double(memory_format=torch.channels_last).stride() == (24, 1, 8, 2)
    assert image.to(memory_format=torch.channels_last).is_contiguous(memory_format=torch.channels_last)
    assert X.t().double(memory_format=torch.contiguous_format).is_contiguous()
    with pytest.raises(RuntimeError, match="required rank 4"):
        X.to(memory_format=torch.channels_last)


# --- recording changes nothing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(0, 5, 0), (5, 0), (2, 0, 3)])
def test_random_numbers_for_no_elements_are_recorded(size: tuple[int, ...]) -> None:
    with profile():
        assert torch.rand(size).shape == size
        assert torch.randint(0, 5, size).shape == size
        assert torch.zeros(size).normal_().shape == size


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_several_roots_begin_at_a_node_of_their_own() -> None:
    x = leaf()
    first, second = x.sum(), (x * 2).sum()
    with profile() as prof:
        torch.autograd.backward([first, second])
    names = [event.name for event in prof.events() if event.cpu_parent is None]
    assert names[2:4] == [f"{EVALUATE}torch::autograd::GraphRoot", f"{EVALUATE}SumBackward0"]
    assert x.grad.tolist() == [[3.0] * 3] * 3


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2]), label_smoothing=0.1), ["AddBackward0", "MulBackward1"]),
        (lambda x: F.cross_entropy(x, X.softmax(1)), ["DivBackward1", "NegBackward0"]),
        (lambda x: F.rms_norm(x, (3,)).neg(), ["NegBackward0", "MulBackward0", "RsqrtBackward0", "AddBackward1"]),
        (lambda x: F.pairwise_distance(x, X), ["NormBackward1", "AddBackward1", "SubBackward0"]),
        (lambda x: F.margin_ranking_loss(x, X, X), ["MeanBackward0", "ClampMinBackward0", "AddBackward1"]),
        (lambda x: torch.dist(x, X), ["DistBackward0"]),
        (lambda x: torch.diag(x), ["DiagonalBackward0_copy"]),
        (lambda x: torch.expand_copy(x, (2, 3, 3)), ["ExpandBackward0_copy"]),
        (lambda x: torch.sort(x, stable=True)[0], ["SortBackward1"]),
        (lambda x: torch.special.ndtr(x), ["MulBackward1", "AddBackward1", "ErfBackward0", "MulBackward1"]),
        (lambda x: F.channel_shuffle(x.view(1, 1, 3, 3), 1), ["ChannelShuffleBackward0", "ViewBackward0"]),
        (lambda x: torch.fft.fft(x, n=5).abs(), ["AbsBackward0", "FftR2CBackward0", "ConstantPadNdBackward0"]),
        (lambda x: torch.trapezoid(x), ["MulBackward1", "SubBackward0", "SumBackward1", "MulBackward1"]),
    ],
)
def test_composites_make_the_nodes_of_torchs(call: Any, expected: list[str]) -> None:
    x = leaf()
    found = nodes(lambda: call(x))
    assert found[: len(expected)] == expected


def test_numbers_inside_composites_have_the_gradient_of_numbers() -> None:
    x = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(torch.special.ndtr, x)
    assert torch.autograd.gradcheck(lambda t: torch.dist(t, torch.zeros_like(t)), x)
    assert torch.autograd.gradcheck(lambda t: torch.trapezoid(t, dx=2), x)
    assert torch.autograd.gradcheck(lambda t: torch.as_strided_copy(t, (2, 2), (1, 0)), x)


def test_second_derivatives_of_powers_pass_numbers() -> None:
    x = leaf()
    (slope,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
    assert nodes(lambda: slope)[:2] == ["MulBackward0", "MulBackward1"]


def test_each_row_of_a_jacobian_takes_its_element_once() -> None:
    x = torch.ones(2)
    with profile() as prof:
        torch.autograd.functional.jacobian(torch.sin, x)
    names = [event.name for event in prof.events() if event.cpu_parent is None]
    assert [names.count(f"aten::{name}") for name in ("reshape", "select", "ones_like")] == [2, 2, 2]


def test_cross_entropy_asks_for_log_probabilities_of_its_own_dtype() -> None:
    with profile(record_shapes=True) as prof:
        F.cross_entropy(X, torch.tensor([0, 1, 2]))
    event = next(event for event in prof.events() if event.name == "aten::log_softmax")
    assert event.concrete_inputs == [None, 1, 6]
