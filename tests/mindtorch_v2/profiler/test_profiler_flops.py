"""all_flops: formulas by hand-checked numbers, whole training steps, nothing twice; torch's own column stays as it is."""

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
from mindtorch_v2 import nn
from mindtorch_v2.core import tap
from mindtorch_v2.core.tap import InputRecord
from mindtorch_v2.dispatch import op as _op
from mindtorch_v2.profiler import load, profile, record_function
from mindtorch_v2.profiler.analyse import tree
from mindtorch_v2.profiler.capture.flops import formula_of
from mindtorch_v2.profiler.report.digest import Digest
from mindtorch_v2.profiler.report.pack import unpack
from op_samples import SAMPLES


class T(list[int]):
    """A tensor's shape among the arguments of a call."""


def tensors(*shapes: list[int]) -> list[T]:
    return [T(shape) for shape in shapes]


def record(*arguments: Any) -> InputRecord:
    """Inputs as a recorder describes them: tensors by shape, lists of them, everything else by value."""
    is_list = [isinstance(a, list) and bool(a) and isinstance(a[0], T) for a in arguments]
    is_tensor = [isinstance(a, T) for a in arguments]
    shapes = [list(a) if one or many else [] for a, one, many in zip(arguments, is_tensor, is_list)]
    types = ["float" if one else "TensorList" if many else "" for one, many in zip(is_tensor, is_list)]
    values = [None if one or many else a for a, one, many in zip(arguments, is_tensor, is_list)]
    return InputRecord(shapes, [[] for _ in shapes], types, values)


def count(name: str, *arguments: Any) -> int:
    formula = formula_of(f"aten::{name}")
    assert formula is not None
    return formula(record(*arguments))


A, B, C = T([4, 6]), T([4, 1]), T([6])
IMAGE, FILTERS = T([2, 4, 8, 8]), T([6, 2, 3, 3])

ELEMENTS = [
    ("exp", (A,), 24),
    ("relu", (A,), 24),
    ("neg", (T([]),), 1),
    ("tanh_", (A,), 24),
    ("abs", (A, T([0])), 24),  # out=, not yet resized
    ("mul", (A, C), 24),
    ("mul", (T([4, 1]), T([1, 5])), 20),
    ("mul", (T([0, 3]), T([1, 3])), 0),
    ("div_", (A, 2.0), 24),
    ("pow", (A, 2), 24),
    ("add", (A, A, 1), 24),
    ("add", (A, C, 0.5), 48),
    ("sub", (B, C, 1), 24),
    ("rsub", (A, 1, 1), 24),
    ("maximum", (A, B), 24),
    ("lt", (A, 0.0), 24),
    ("clamp", (A, 0.0, 1.0), 24),
    ("clamp_min", (A, 0), 24),
    ("lerp", (A, A, 0.5), 72),
    ("addcmul", (A, A, C, 1), 48),
    ("addcdiv_", (A, A, A, -0.1), 72),
    ("linalg_cross", (T([4, 3]), T([4, 3]), -1), 36),
    ("silu", (A,), 48),
    ("gelu", (A, None), 120),
    ("elu", (A, 1.0, 1, 1), 72),
    ("glu", (A, -1), 24),
    ("log_sigmoid_forward", (A,), 144),
    ("threshold_backward", (A, A, 0), 24),
    ("tanh_backward", (A, A), 72),
    ("sigmoid_backward", (A, A), 72),
    ("silu_backward", (A, A), 144),
    ("gelu_backward", (A, A, None), 264),
    ("native_dropout", (A, 0.5, True), 48),
]
REDUCTIONS = [
    ("sum", (A, [1], False, None), 24),
    ("mean", (A, None), 25),
    ("mean", (A, [1], False, None), 28),
    ("mean", (A, [-2], True, None), 30),
    ("mean", (A, [0, 1], False, None), 25),
    ("prod", (A, 1, False, None), 24),
    ("amax", (A, [1], False), 24),
    ("aminmax", (A, None, False), 48),
    ("var", (A, [1], 1, False), 4 * 24 + 2 * 4),
    ("std", (A, None, None, False), 4 * 24 + 3),
    ("std", (A, True), 4 * 24 + 3),
    ("logsumexp", (A, [1], False), 4 * 24 + 2 * 4),
    ("linalg_vector_norm", (A, 2, [1], False, None), 2 * 24 + 4),
    ("linalg_vector_norm", (A, math.inf, None, False, None), 48),
    ("norm", (A, 3), 3 * 24 + 1),
    ("cumsum", (A, 1, None), 24),
    ("trace", (T([4, 6]),), 4),
    ("dist", (A, A, 2), 3 * 24 + 1),
    ("_softmax", (A, 1, False), 120),
    ("_log_softmax", (A, 1, False), 124),
    ("_log_softmax", (A, 0, False), 126),
    ("_softmax_backward_data", (A, A, 1, 6), 96),
]
SCATTERED = [
    ("embedding_dense_backward", (T([3, 5]), T([3]), 7, -1, False), 15),
    ("index_add", (T([7, 6]), 0, T([4]), A, 1), 24),
    ("index_add_", (T([7, 6]), 0, T([4]), A, 2), 48),
    ("scatter_add", (T([7, 6]), 0, T([2, 6]), A), 12),
    ("index_put_", (T([5]), None, T([2]), True), 2),
    ("_index_put_impl_", (T([5]), None, T([2]), False, False), 0),
    ("_embedding_bag", (T([5, 3]), T([4]), T([2]), False, 0, False, None), 12),
    ("_embedding_bag", (T([5, 3]), T([4]), T([2]), False, 1, False, None), 12 + 6),
    ("_embedding_bag", (T([5, 3]), T([4]), T([2]), False, 0, False, T([4])), 24),
]
PRODUCTS = [
    ("mm", (T([4, 5]), T([5, 3])), 120),
    ("bmm", (T([2, 4, 5]), T([2, 5, 3])), 240),
    ("mv", (T([4, 5]), T([5])), 40),
    ("dot", (T([5]), T([5])), 10),
    ("addmm", (T([3]), T([4, 5]), T([5, 3]), 1, 1), 120 + 12),
    ("addmm", (T([3]), T([4, 5]), T([5, 3]), 0, 1), 120),
    ("addmm_", (T([4, 3]), T([4, 5]), T([5, 3]), 0.5, 2), 120 + 3 * 12),
    ("baddbmm", (T([2, 4, 3]), T([2, 4, 5]), T([2, 5, 3]), 1, 1), 240 + 24),
    ("addbmm", (T([4, 3]), T([2, 4, 5]), T([2, 5, 3]), 1, 1), 240 + 12),
    ("addmv", (T([4]), T([4, 5]), T([5]), 1, 1), 44),
    ("addr", (T([4, 5]), T([4]), T([5]), 1, 1), 40),
    # x1 (4, 6), weight (3, 6, 5), x2 (4, 5): 4 * 3 * 6 * 5 products and sums, then 4 * 3 * 5.
    ("_trilinear", (A, T([3, 6, 5]), T([4, 5]), [1, 3], [0], [1, 2], [2, 3], 1), 2 * 360 + 2 * 60),
    ("_cdist_forward", (T([4, 6]), T([5, 6]), 2.0, None), 3 * 4 * 5 * 6),
    ("_pdist_forward", (T([4, 6]), 2.0), 3 * 6 * 6),
]
NONE2, ONE2 = [0, 0], [1, 1]
# 6 filters of 2 channels by 3 x 3: 18 products and sums for each of the results.
CONVOLUTIONS = [
    ("_convolution", (IMAGE, FILTERS, T([6]), ONE2, NONE2, ONE2, False, NONE2, 2), 2 * 6 * 36 * (36 + 1)),
    ("_convolution", (IMAGE, FILTERS, None, [2, 2], ONE2, ONE2, False, NONE2, 2), 2 * 6 * 16 * 36),
    ("_convolution", (IMAGE, FILTERS, None, ONE2, NONE2, [2, 2], False, NONE2, 2), 2 * 6 * 16 * 36),
    ("_convolution", (T([2, 4, 8]), T([6, 4, 3]), None, [1], [1], [1], False, [0], 1), 2 * 6 * 8 * 24),
    ("_convolution", (T([1, 2, 4, 4, 4]), T([3, 2, 2, 2, 2]), None, [1] * 3, [0] * 3, [1] * 3, False, [0] * 3, 1),
     3 * 27 * 32),
    # Each of the 512 elements meets 6 filters of 3 x 3; the result is 17 x 17.
    ("_convolution", (IMAGE, T([4, 6, 3, 3]), T([6]), [2, 2], NONE2, ONE2, True, NONE2, 1),
     512 * 2 * 54 + 2 * 6 * 17 * 17),
    ("mkldnn_convolution", (IMAGE, FILTERS, None, ONE2, [2, 2], ONE2, 2), 2 * 6 * 16 * 36),
    ("_slow_conv2d_forward", (IMAGE, T([6, 4, 3, 3]), [3, 3], T([6]), ONE2, NONE2), 2 * 6 * 36 * 73),
    ("slow_conv_transpose2d", (IMAGE, T([4, 6, 3, 3]), [3, 3], None, ONE2, NONE2, NONE2, ONE2), 512 * 108),
    ("convolution_backward", (T([2, 6, 6, 6]), IMAGE, FILTERS, [6], ONE2, NONE2, ONE2, False, NONE2, 2, [True] * 3),
     432 * (36 + 36 + 1)),
    ("convolution_backward",
     (T([2, 6, 6, 6]), IMAGE, FILTERS, None, ONE2, NONE2, ONE2, False, NONE2, 2, [False, True, False]), 432 * 36),
    ("convolution_backward",
     (T([2, 6, 10, 10]), IMAGE, T([4, 6, 3, 3]), [6], ONE2, NONE2, ONE2, True, NONE2, 1, [True, True, False]),
     2 * 512 * 108),
]  # fmt: skip
NETWORKS = [
    ("native_layer_norm", (A, [6], T([6]), T([6]), 1e-5), 7 * 24 + 4 * 4),
    ("native_layer_norm", (A, [6], None, None, 1e-5), 5 * 24 + 4 * 4),
    ("native_layer_norm_backward", (A, A, [6], B, B, T([6]), T([6]), [True] * 3), 13 * 24),
    ("native_layer_norm_backward", (A, A, [6], B, B, None, None, [True, False, False]), 9 * 24),
    ("native_group_norm", (IMAGE, None, None, 2, 4, 64, 2, 1e-5), 5 * 512 + 4 * 4),
    ("native_batch_norm", (IMAGE, T([4]), T([4]), T([4]), T([4]), True, 0.1, 1e-5), 7 * 512 + 4 * 4 + 6 * 4),
    ("native_batch_norm", (IMAGE, T([4]), T([4]), T([4]), T([4]), False, 0.1, 1e-5), 4 * 512 + 2 * 4),
    ("native_batch_norm_backward",
     (IMAGE, IMAGE, T([4]), T([4]), T([4]), T([4]), T([4]), False, 1e-5, [True] * 3), 6 * 512),
    ("_fused_rms_norm", (A, [6], T([6]), None), 4 * 24 + 3 * 4),
    ("max_pool2d_with_indices", (IMAGE, [2, 2], [], NONE2, ONE2, False), 2 * 4 * 16 * 4),
    ("max_pool2d_with_indices", (IMAGE, [3, 3], [2, 2], NONE2, ONE2, True), 2 * 4 * 16 * 9),
    ("max_pool2d_with_indices", (IMAGE, [3, 3], [2, 2], NONE2, ONE2, False), 2 * 4 * 9 * 9),
    ("avg_pool2d", (IMAGE, [2, 2], [], NONE2, False, True, None), 2 * 4 * 16 * 5),
    ("max_pool1d", (T([2, 3, 8]), [2], [], [0], [1], False), 48),
    ("_adaptive_avg_pool2d", (IMAGE, [2, 2]), 512 + 32),
    ("avg_pool2d_backward", (T([2, 4, 4, 4]), IMAGE, [2, 2], [], NONE2, False, True, None), 128 * 5),
    ("max_pool2d_with_indices_backward", (T([2, 4, 4, 4]), IMAGE, [2, 2]), 128),
    ("_adaptive_avg_pool2d_backward", (T([2, 4, 2, 2]), IMAGE), 32 + 512),
    ("upsample_bilinear2d", (IMAGE, [16, 16], False, None, None), 7 * 8 * 256),
    ("upsample_bilinear2d", (IMAGE, None, False, [2.0, 2.0]), 7 * 8 * 256),
    ("upsample_linear1d", (T([2, 3, 8]), [16], False, None), 3 * 96),
    ("upsample_bilinear2d_backward", (T([2, 4, 16, 16]), [16, 16], [2, 4, 8, 8], False, None, None), 8 * 2048),
    ("upsample_nearest2d_backward", (T([2, 4, 16, 16]), [16, 16], [2, 4, 8, 8], None, None), 2048),
    ("affine_grid_generator", (T([2, 2, 3]), [2, 3, 4, 5], False), 2 * 2 * 20 * 6),
    ("_fused_adam_", (tensors([3, 2], [4]), tensors([3, 2], [4]), None, None, None, None, 1e-3, 0.9, 0.99, 0.0), 130),
    ("_fused_sgd_", (tensors([3, 2], [4]), tensors([3, 2], [4]), None, 0.1, 0.9, 0.1), 60),
    ("_foreach_add_", (tensors([3, 2], [4]), tensors([3, 2], [4]), 1), 10),
    ("_foreach_lerp_", (tensors([3, 2], []), tensors([3, 2], []), 0.1), 21),
]  # fmt: skip
LOSSES = [
    ("mse_loss", (A, A, 1), 3 * 24 + 1),
    ("mse_loss", (A, A, 2), 3 * 24),
    ("mse_loss", (A, C, 0), 2 * 24),
    ("smooth_l1_loss", (A, A, 0, 1.0), 6 * 24),
    ("huber_loss", (A, A, 1, 1.0), 6 * 24 + 1),
    ("binary_cross_entropy", (A, A, None, 1), 10 * 24 + 1),
    ("binary_cross_entropy", (A, A, A, 0), 10 * 24),
    ("nll_loss_forward", (A, T([4]), None, 1, -100), 9),
    ("nll_loss_backward", (T([]), A, T([4]), None, 1, -100, T([])), 4),
    ("mse_loss_backward", (T([]), A, A, 1), 72),
    ("smooth_l1_loss_backward", (T([]), A, A, 1, 1.0), 96),
    ("binary_cross_entropy_backward", (T([]), A, A, None, 1), 144),
]
Q, K = T([2, 3, 4, 5]), T([2, 3, 6, 5])
SEQUENCES = [
    ("_fused_attention", (Q, K, K, None, False, 0.4, True), 144 * (4 * 5 + 5)),
    ("_fused_attention_backward", (Q, Q, K, K, T([2, 3, 4, 6]), 0.4), 144 * (8 * 5 + 4)),
    ("_scaled_dot_product_flash_attention_for_cpu", (Q, K, K, 0.0, False), 144 * 25),
    ("_scaled_dot_product_flash_attention_for_cpu_backward", (Q, Q, K, K, Q, T([2, 3, 4])), 144 * (44 + 15)),
    ("_lstm_layer", (T([5, 2, 3]), T([2, 4]), T([2, 4]), T([16, 3]), T([16, 4]), T([16]), T([16]), None, False),
     10 * (2 * 16 * 7 + 17 * 4)),
    ("_lstm_layer", (T([5, 2, 3]), T([2, 4]), T([2, 4]), T([16, 3]), T([16, 4]), None, None, None, False),
     10 * (2 * 16 * 7 + 13 * 4)),
    ("_gru_layer", (T([5, 2, 3]), T([2, 4]), T([12, 3]), T([12, 4]), T([12]), T([12]), None, False),
     10 * (2 * 12 * 7 + 16 * 4)),
    ("_rnn_layer", (T([10, 3]), T([2, 4]), T([4, 3]), T([4, 4]), None, None, T([5]), False, False),
     10 * (2 * 4 * 7 + 2 * 4)),
    ("mkldnn_rnn_layer",
     (T([5, 2, 3]), T([16, 3]), T([16, 4]), T([16]), T([16]), T([2, 4]), T([2, 4]), False, [], 2, 4, 1),
     10 * (2 * 16 * 7 + 17 * 4)),
]  # fmt: skip
ALGEBRA = [
    ("linalg_cholesky_ex", (T([3, 6, 6]), False, False), 3 * 72),
    ("linalg_lu_factor_ex", (T([6, 6]), True, False), 144),
    ("linalg_inv_ex", (T([6, 6]), False), 432),
    ("linalg_solve_ex", (T([6, 6]), T([6, 2]), True, False), 144 + 144),
    ("linalg_solve_ex", (T([6, 6]), T([6]), True, False), 144 + 72),
    ("linalg_solve_triangular", (T([6, 6]), T([6, 2]), True, True, False), 72),
    ("geqrf", (T([9, 6]),), 2 * 36 * 7),
    ("linalg_qr", (T([9, 6]), None), 4 * 36 * 7),
    ("_linalg_svd", (T([9, 6]), False, True, None), 14 * 9 * 36 + 8 * 216),
    ("_linalg_svd", (T([6, 9]), False, False, None), 4 * 9 * 36 - 288),
    ("_linalg_eigh", (T([6, 6]), None, True), 9 * 216),
    ("linalg_eig", (T([6, 6]),), 25 * 216),
    ("_fft_c2c", (T([3, 8]), [1], 0, True), 3 * 5 * 8 * 3),
    ("_fft_r2c", (T([3, 8]), [1], 0, True), 3 * 60),
    ("_fft_r2c", (T([4, 8]), [0, 1], 0, True), 400),
    ("_fft_c2r", (T([3, 5]), [1], 2, 8), 3 * 60),
]


ALL = ELEMENTS + REDUCTIONS + SCATTERED + PRODUCTS + CONVOLUTIONS + NETWORKS + LOSSES + SEQUENCES + ALGEBRA


@pytest.mark.parametrize(("name", "arguments", "expected"), ALL)
def test_formulas(name: str, arguments: tuple[Any, ...], expected: int) -> None:
    assert count(name, *arguments) == expected


@pytest.mark.parametrize(
    "name",
    "matmul linear conv2d convolution softmax layer_norm batch_norm cross_entropy_loss einsum view copy_ cat gather index "
    "empty zero_ fill_ normal_ where sort logical_and bitwise_and t to _to_copy max_pool2d".split(),
)
def test_what_only_calls_others_or_moves_data_has_no_formula(name: str) -> None:
    assert formula_of(f"aten::{name}") is None


def test_only_events_of_ops_have_formulas() -> None:
    assert formula_of("mm") is None
    assert formula_of("AddmmBackward0") is None
    x = torch.ones(2, 3)
    with profile(with_flops=True) as prof, record_function("aten::mm"):
        x * 2
    assert {event.name: event.all_flops for event in prof.events()} == {"aten::mm": 0, "aten::mul": 6}


ODD = [
    InputRecord([], [], [], []),
    InputRecord([[], []], [[], []], ["", ""], [None, None]),
    InputRecord([[[2, 3]]], [[]], ["TensorList"], [None]),
    InputRecord([[]], [[]], [""], ["text"]),
    InputRecord([["x", 3], [None]], [[], []], ["float", "float"], [None, None]),
    InputRecord([[2, 3], [3, 4]], [], [], [None, "a", [None], {}]),
    InputRecord([[-1, 3], [3, 4], [2]], [], ["float"] * 3, []),
    InputRecord([[1 << 40, 1 << 40], [1 << 40, 1 << 40]], [], ["float"] * 2, []),
]


NAMES = sorted(event.removeprefix("aten::") for event in tap.ALL_FLOPS)


@pytest.mark.parametrize("name", NAMES)
def test_odd_records_are_no_errors(name: str) -> None:
    formula = formula_of(f"aten::{name}")
    assert formula is not None
    assert [formula(odd) for odd in ODD[:2]] == [0, 0]
    assert all(0 <= formula(odd) < 1 << 63 for odd in ODD)


def test_formulas_take_what_calls_of_their_ops_record() -> None:
    """A formula that raises counts nothing, which is right for files from outside and hides a mistake in a row."""
    with profile(record_shapes=True) as prof:
        for name, sample in SAMPLES.items():
            args, kwargs = sample()
            _op.OPS[name].function(*args, **kwargs)
    places = {row._event[0]: row.place for row in _op.OPS.values()}
    wrong = []
    for event in prof.events():
        formula = tap.ALL_FLOPS.get(event.name)
        if formula is None:
            continue
        try:
            formula(InputRecord(event.input_shapes, [], [], event.concrete_inputs))
        except Exception as error:
            wrong.append(f"{places[event.name]}: {event.name}: all_flops= raised {error!r} for {event.input_shapes}")
    assert wrong == []


def test_names_are_those_of_ops_here_or_of_torch() -> None:
    known = {op._event[0].removeprefix("aten::") for op in _op.OPS.values()}
    elsewhere = {name for name in NAMES if name not in known and f"{name}_" not in known}
    starts = ("_linalg", "_fused_", "_scaled_dot_product", "mkldnn", "cudnn", "miopen", "_native", "_weight_norm_")
    assert {name for name in elsewhere if not name.startswith(starts)} == {
        "_embedding_bag_forward_only", "slow_conv3d_forward", "native_dropout_backward"
    }  # fmt: skip


# --- whole programs ---------------------------------------------------------------------------------------------------


def events_of(run: Callable[[], Any], **options: Any) -> Any:
    run()  # what is allocated only once, such as gradients
    with profile(with_flops=True, **options) as prof:
        run()
    return prof.events()


def by_name(events: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for event in events:
        if event.all_flops:
            found[event.name] = found.get(event.name, 0) + event.all_flops
    return found


def total(run: Callable[[], Any]) -> int:
    return sum(by_name(events_of(run)).values())


def test_a_step_of_a_perceptron() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    x, y = torch.ones(5, 8), torch.zeros(5, 4)

    def step() -> None:
        model.zero_grad()
        F.mse_loss(model(x), y).backward()

    first, second = 2 * 5 * 8 * 16, 2 * 5 * 16 * 4
    expected = {
        "aten::addmm": first + 5 * 16 + second + 5 * 4,
        "aten::clamp_min": 80,
        "aten::mse_loss": 2 * 20,
        "aten::sum": 20 + 20 + 80,  # the loss, two biases
        "aten::div_": 1,
        "aten::mse_loss_backward": 3 * 20,
        "aten::mm": 2 * second + first,  # the input needs no gradient
        "aten::threshold_backward": 80,
    }
    assert by_name(events_of(step)) == expected


def test_a_step_of_a_convolutional_network() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5)
    )
    x, target = torch.ones(2, 3, 8, 8), torch.tensor([0, 1])

    def step() -> None:
        model.zero_grad()
        F.cross_entropy(model(x), target).backward()

    found = by_name(events_of(step))
    maps, product, linear = 2 * 4 * 36, 2 * 2 * 4 * 36 * 27, 2 * 2 * 36 * 5
    assert found.pop("aten::_slow_conv2d_forward") == product + maps
    assert found.pop("aten::_slow_conv2d_backward") == product  # the input needs no gradient
    assert found.pop("aten::native_batch_norm") == 7 * maps + 10 * 4
    assert found.pop("aten::native_batch_norm_backward") == 13 * maps
    assert found.pop("aten::clamp_min") == found.pop("aten::threshold_backward") == maps
    assert found.pop("aten::max_pool2d_with_indices") == 2 * 4 * 9 * 4
    assert found.pop("aten::max_pool2d_with_indices_backward") == 2 * 4 * 9
    assert found.pop("aten::addmm") == linear + 10
    assert found.pop("aten::mm") == 2 * linear
    assert found.pop("aten::_log_softmax") == 5 * 10 + 2
    assert found.pop("aten::_log_softmax_backward_data") == 4 * 10
    assert found.pop("aten::nll_loss_forward") == 5
    assert found.pop("aten::nll_loss_backward") == 2
    assert found.pop("aten::sum") == maps + 10  # the biases
    assert found.pop("aten::add_") == 1  # batches seen
    assert not found


def test_a_step_of_a_transformer() -> None:
    length, batch, width, hidden, heads = 4, 2, 6, 8, 2
    model = nn.TransformerEncoderLayer(width, heads, hidden, dropout=0.0)
    x = torch.randn(length, batch, width)

    def step() -> None:
        model.zero_grad()
        model(x).sum().backward()

    found = by_name(events_of(step))
    rows, scores = length * batch, batch * heads * length * length
    weights = 3 * width * width + width * width + 2 * width * hidden
    forward = 2 * rows * weights
    assert found.pop("aten::addmm") == forward + rows * (3 * width + width + hidden + width)
    assert found.pop("aten::mm") == 2 * forward - 2 * rows * 3 * width * width  # the input needs no gradient
    assert found.pop("aten::_fused_attention") == scores * (4 * width // heads + 5)
    assert found.pop("aten::_fused_attention_backward") == scores * (8 * width // heads + 4)
    assert found.pop("aten::native_layer_norm") == 2 * (7 * rows * width + 4 * rows)
    assert found.pop("aten::native_layer_norm_backward") == 2 * 13 * rows * width
    assert found.pop("aten::clamp_min") == found.pop("aten::threshold_backward") == rows * hidden
    assert found.pop("aten::add") == 2 * rows * width  # around both blocks
    assert found.pop("aten::add_") == rows * width + 2 * 3 * rows * width  # gradients that meet: one block, q, k and v
    assert found.pop("aten::sum") == rows * (width + 3 * width + width + hidden + width)
    assert not found


def test_a_step_of_an_lstm() -> None:
    model, x = nn.LSTM(3, 4), torch.randn(5, 2, 3)

    def step() -> None:
        model.zero_grad()
        model(x)[0].sum().backward()

    product = 10 * 2 * 16 * 7
    assert by_name(events_of(step)) == {
        "aten::_lstm_layer": product + 10 * 17 * 4,
        "aten::_lstm_layer_backward": 2 * product + 10 * 27 * 4,
        "aten::sum": 40,
    }


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Linear(6, 5, bias=False), (4, 6)),
        (nn.Conv2d(3, 4, 3, bias=False, padding=1, stride=2), (2, 3, 8, 8)),
        (nn.Conv1d(4, 6, 3, bias=False, groups=2), (2, 4, 8)),
        (nn.ConvTranspose2d(3, 4, 3, bias=False, stride=2), (2, 3, 4, 4)),
    ],
)
def test_backward_of_a_product_is_two_of_them(module: Any, shape: tuple[int, ...]) -> None:
    x = torch.randn(*shape, requires_grad=True)
    gradient = torch.ones_like(module(x))

    def step() -> None:
        x.grad = module.weight.grad = None
        module(x).backward(gradient)

    def forward() -> None:
        module(x)

    assert total(step) == 3 * total(forward) > 0


# --- each operation once ----------------------------------------------------------------------------------------------


def test_an_event_keeps_what_those_inside_do_not_account_for() -> None:
    #          0: 100 ┬ 1: unknown ─ 2: 60 ─ 3: 60     4: 30     then 5: 10 with more inside, 6: 8 and 7: 7
    parent = np.array([-1, 0, 1, 2, 0, -1, 5, 5])
    whole = np.array([100, 0, 60, 60, 30, 10, 8, 7])
    own = tree.own_counts(whole, parent)
    assert own.tolist() == [10, 0, 0, 60, 30, 0, 8, 7]
    assert tree.own_counts(whole[:0], parent[:0]).tolist() == []


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (lambda x: x.mean(1), {"aten::sum": 24, "aten::div_": 4}),
        (lambda x: x.relu(), {"aten::clamp_min": 24}),
        (lambda x: x.square(), {"aten::pow": 24}),
        (lambda x: x.abs(), {"aten::abs": 24}),
        (lambda x: x @ x[0], {"aten::addmv_": 48}),
        (lambda x: x.std(1), {"aten::std": 108}),
        (lambda x: x.std(), {"aten::std": 99}),
        (lambda x: F.mse_loss(x, x), {"aten::mse_loss": 48, "aten::sum": 24, "aten::div_": 1}),
        (lambda x: F.rms_norm(x, (6,)), {"aten::pow": 24, "aten::sum": 24, "aten::div_": 4, "aten::add_": 4,
                                        "aten::rsqrt": 4, "aten::mul": 24}),
        (lambda x: torch.outer(x[0], x[1]), {"aten::mul": 36}),
        (lambda x: F.linear(x, x), {"aten::mm": 192}),
        (lambda x: torch._foreach_mul([x, x], 2.0), {"aten::mul": 48}),
        (lambda x: torch.mm(x, x.t(), out=torch.empty(4, 4)), {"aten::mm": 192}),
    ],
)  # fmt: skip
def test_composites_and_their_parts_count_once(run: Callable[[Any], Any], expected: dict[str, int]) -> None:
    x = torch.ones(4, 6)
    assert by_name(events_of(lambda: run(x))) == expected


def test_a_subtree_is_the_sum_of_its_parts() -> None:
    model, x = nn.Conv2d(3, 4, 3), torch.ones(2, 3, 8, 8)
    events = events_of(lambda: model(x))
    (conv,) = [event for event in events if event.name == "aten::conv2d"]

    def below(event: Any) -> int:
        return int(event.all_flops) + sum(below(child) for child in event.cpu_children)

    assert below(conv) == 2 * 2 * 4 * 36 * 27 + 2 * 4 * 36 == sum(event.all_flops for event in events)
    assert conv.all_flops == 0
    assert conv.flops == 2 * 2 * 4 * 36 * 27  # torch's column


# --- where it is shown ------------------------------------------------------------------------------------------------


def products(**options: Any) -> profile:
    a = torch.ones(4, 5)
    with profile(**options) as prof:
        for _ in range(3):
            (a @ torch.ones(5, 3)).exp().sum()
    return prof


def test_averages_and_rows_have_the_sums() -> None:
    prof = products(with_flops=True)
    rows = {row.key: (row.flops, row.all_flops) for row in prof.key_averages()}
    assert (rows["aten::mm"], rows["aten::exp"], rows["aten::sum"]) == ((360, 360), (0, 36), (0, 36))
    assert rows["aten::matmul"] == (0, 0)
    assert prof.key_averages().total_average().all_flops == 432


def test_nothing_is_counted_unless_asked_for() -> None:
    for options in ({}, {"record_shapes": True}):
        assert not any(event.all_flops for event in products(**options).events())


def test_exports_have_the_column(tmp_path: Path) -> None:
    prof = products(with_flops=True)
    rows = prof.key_averages().to_dict()
    assert {row["key"]: row["all_flops"] for row in rows}["aten::exp"] == 36
    prof.events().to_csv(tmp_path / "events.csv")
    with open(tmp_path / "events.csv", newline="") as file:
        assert sum(int(row["all_flops"]) for row in csv.DictReader(file)) == 432


def test_spools_and_traces_read_back_the_same(tmp_path: Path) -> None:
    prof = products(with_flops=True, spool=tmp_path / "run.mtspool")
    prof.export_chrome_trace(str(tmp_path / "run.json"))
    expected = by_name(prof.events())
    assert expected == {"aten::mm": 360, "aten::exp": 36, "aten::sum": 36}
    assert by_name(load(tmp_path / "run.mtspool").events()) == expected
    assert by_name(load(tmp_path / "run.json").events()) == expected


@pytest.mark.parametrize("options", [{"with_flops": True}, {"record_shapes": True}])
def test_the_report_counts_each_operation_once(options: dict[str, bool]) -> None:
    model, x = nn.Conv2d(3, 4, 3), torch.ones(2, 3, 8, 8)
    with profile(**options) as prof:
        model(x).relu()
    tables, columns = unpack(Digest(prof.profiler.newest_capture()).packed("x"))
    flops = [call[4] if len(call) > 4 else 0 for call in tables["calls"]]
    assert sum(flops[call] for call in columns["call"].tolist()) == 2 * 4 * 36 * (2 * 27 + 1 + 1)


TORCH_TREE = [
    # name, start, length, dimensions, values; as torch 2.13 writes a convolution, a loss and their gradients on a CPU.
    ("aten::conv2d", 0, 90, [[2, 4, 8, 8], [6, 4, 3, 3], [6], [], [], [], []],
     ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"]),
    ("aten::convolution", 10, 70, [[2, 4, 8, 8], [6, 4, 3, 3], [6], [], [], [], [], [], []],
     ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1"]),
    ("aten::_convolution", 20, 50, [[2, 4, 8, 8], [6, 4, 3, 3], [6], [], [], [], [], [], [], [], [], [], []],
     ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1", "False", "False", "True", "True"]),
    ("aten::mkldnn_convolution", 30, 30, [[2, 4, 8, 8], [6, 4, 3, 3], [6], [], [], [], []],
     ["", "", "", "[0, 0]", "[1, 1]", "[1, 1]", "1"]),
    ("aten::mse_loss", 100, 90, [[2, 6, 6, 6], [2, 6, 6, 6], []], ["", "", "1"]),
    ("aten::mean", 110, 70, [[2, 6, 6, 6], [], [], [], []], ["", "[]", "False", "", ""]),
    ("aten::sum", 120, 20, [[2, 6, 6, 6], [], [], [], []], ["", "[]", "False", "6", ""]),
    ("aten::div_", 150, 20, [[], []], ["", "432"]),
    ("aten::convolution_backward", 200, 90,
     [[2, 6, 6, 6], [2, 4, 8, 8], [6, 4, 3, 3], [], [], [], [], [], [], [], []],
     ["", "", "", "[6]", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1", "[False, True, True]"]),
    ("aten::_slow_conv2d_backward", 210, 70, [[2, 6, 6, 6], [2, 4, 8, 8], [6, 4, 3, 3], [], [], [], []],
     ["", "", "", "[3, 3]", "[1, 1]", "[0, 0]", "[False, True, False]"]),
    ("aten::sum", 285, 2, [[2, 6, 6, 6], [], [], []], ["", "[0, 2, 3]", "False", ""]),
    ("aten::mm", 300, 10, [], []),
    ("aten::add", 320, 10, [[3], [3], []], []),
]  # fmt: skip


def torch_trace(path: Path) -> Path:
    rows = []
    for name, start, length, dims, values in TORCH_TREE:
        types = ["float" if sizes or not value else "Scalar" for sizes, value in zip(dims, values)]
        args = {"Input Dims": dims, "Concrete Inputs": values, "Input type": types}
        rows.append(
            {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": length, "args": args}
        )
    path.write_text(json.dumps({"schemaVersion": 1, "with_flops": 1, "traceEvents": rows}))
    return path


def test_a_trace_of_torch_counts_each_operation_once(tmp_path: Path) -> None:
    trace = load(torch_trace(tmp_path / "torch.json"))
    product, results = 2 * 432 * 36, 432
    found = {(event.name, event.time_range.start): event.all_flops for event in trace.events() if event.all_flops}
    assert found == {
        ("aten::mkldnn_convolution", 30): product + results,
        ("aten::mse_loss", 100): 2 * results,
        ("aten::sum", 120): results,
        ("aten::div_", 150): 1,
        ("aten::_slow_conv2d_backward", 210): product,
        ("aten::sum", 285): results,
        ("aten::add", 320): 3,
    }
    assert {event.name: event.flops for event in trace.events() if event.flops} == {
        "aten::conv2d": product,
        "aten::add": 3,
    }
