"""The events of operators of networks: what runs inside what, as a recorder sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
from mindtorch_v2.profiler import profile


def tree(event: Any) -> str:
    """`linear(t(transpose) addmm(expand))`, without memory and copies."""
    name = event.name.removeprefix("aten::")
    inside = " ".join(filter(None, (tree(child) for child in event.cpu_children)))
    if name in ("empty", "empty_like", "empty_strided", "as_strided", "fill_", "zero_", "copy_", "to", "_to_copy"):
        return inside
    return f"{name}({inside})" if inside else name


def trees(run: Callable[[], Any]) -> str:
    with profile() as prof:
        run()
    return " ".join(filter(None, (tree(event) for event in prof.events() if event.cpu_parent is None)))


LABELS = torch.zeros(2, dtype=torch.int64)

# What is called, the shapes of what it is called with, and the tree.
CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], str]] = {
    "matmul of matrices": (torch.matmul, [(2, 3), (3, 4)], "matmul(mm)"),
    "matmul of vectors": (torch.matmul, [(3,), (3,)], "matmul(dot)"),
    "matmul by a vector": (torch.matmul, [(2, 3), (3,)], "matmul(mv(addmv_))"),
    "matmul by a matrix": (torch.matmul, [(2, 3, 4), (4, 5)], "matmul(reshape(view) mm _unsafe_view)"),
    "matmul of batches": (
        torch.matmul,
        [(2, 3, 4), (2, 4, 5)],
        "matmul(expand reshape(view) expand reshape(view) bmm _unsafe_view)",
    ),
    "linear": (F.linear, [(2, 3), (4, 3), (4,)], "linear(t(transpose) addmm(expand))"),
    "linear without bias": (F.linear, [(2, 3), (4, 3)], "linear(t(transpose) matmul(mm))"),
    "linear of a batch": (
        F.linear,
        [(2, 2, 3), (4, 3), (4,)],
        "linear(view t(transpose) addmm(expand) view)",
    ),
    "softmax": (lambda x: F.softmax(x, 1), [(2, 3)], "softmax(_softmax)"),
    "cross_entropy": (
        lambda x: F.cross_entropy(x, LABELS),
        [(2, 3)],
        "cross_entropy_loss(log_softmax(_log_softmax) nll_loss_nd(nll_loss(nll_loss_forward)))",
    ),
    "dropout": (F.dropout, [(2, 3)], "dropout(bernoulli_ div_ mul)"),
    "conv2d": (
        F.conv2d,
        [(1, 2, 4, 4), (3, 2, 2, 2), (3,)],
        "conv2d(convolution(_convolution(thnn_conv2d(_slow_conv2d_forward(view reshape(view))))))",
    ),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), [(1, 2, 4, 4)], "max_pool2d(max_pool2d_with_indices)"),
    "layer_norm": (lambda x: F.layer_norm(x, (3,)), [(2, 3)], "layer_norm(native_layer_norm)"),
    "batch_norm": (
        lambda x: F.batch_norm(x, None, None, training=True),
        [(2, 3)],
        "batch_norm(_batch_norm_impl_index(native_batch_norm))",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_events_nest_as_they_run(name: str) -> None:
    function, shapes, expected = CASES[name]
    operands = [torch.ones(shape) for shape in shapes]
    assert trees(lambda: function(*operands)) == expected


def test_attention_op_by_op_is_named_after_the_mathematics_it_is() -> None:
    q = torch.ones(1, 2, 3)
    names = trees(lambda: F.scaled_dot_product_attention(q, q, q))
    assert names.startswith("scaled_dot_product_attention(_scaled_dot_product_attention_math(mul transpose mul matmul(")
    assert "flash" not in names


def flops(run: Callable[[], Any]) -> dict[str, int]:
    with profile(with_flops=True) as prof:
        run()
    return {event.name: event.flops for event in prof.events() if event.flops}


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, 23328), ({"stride": 2, "padding": 1}, 10368), ({"dilation": 2}, 10368), ({"padding": "valid"}, 0)],
)
def test_operations_of_a_convolution_are_counted(options: dict[str, Any], expected: int) -> None:
    counted = flops(lambda: F.conv2d(torch.ones(2, 3, 8, 8), torch.ones(6, 3, 3, 3), **options))
    assert counted.get("aten::conv2d", 0) == expected


def test_operations_of_products_are_counted() -> None:
    a, b, c, d, e = (torch.ones(s) for s in ((3, 4), (4, 5), (2, 3, 4), (2, 4, 5), (5,)))
    assert flops(lambda: torch.mm(a, b)) == {"aten::mm": 120}
    assert flops(lambda: torch.addmm(e, a, b))["aten::addmm"] == 120
    assert flops(lambda: torch.bmm(c, d))["aten::bmm"] == 240
    assert flops(lambda: torch.baddbmm(e, c, d))["aten::baddbmm"] == 240


@pytest.mark.parametrize("needs_grad", [False, True])
def test_addmm_expands_ahead_of_its_product(needs_grad: bool) -> None:
    x, w, b = torch.randn(8, 4), torch.randn(4, 3, requires_grad=needs_grad), torch.randn(3, requires_grad=needs_grad)
    with profile(record_shapes=True, profile_memory=True) as prof:
        made = torch.addmm(b, x, w)
    outer, inner = (e for e in prof.events() if e.name.startswith("aten::"))
    assert (outer.name, inner.name, inner.cpu_parent) == ("aten::addmm", "aten::expand", outer)
    assert (inner.concrete_inputs, inner.cpu_memory_usage) == ([None, [8, 3], False], 0)
    assert outer.cpu_memory_usage == 8 * 3 * 4
    assert (made.grad_fn is not None) == needs_grad


def test_addmm_of_a_whole_matrix_expands_nothing() -> None:
    with profile() as prof:
        torch.addmm(torch.ones(2, 2), torch.ones(2, 2), torch.ones(2, 2))
    assert [e.name for e in prof.events() if "expand" in e.name] == []
