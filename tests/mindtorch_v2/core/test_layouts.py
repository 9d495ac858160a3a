"""How results lie in memory: strides on the meta device as on the CPU, and results that torch makes contiguous."""

from __future__ import annotations

import copy
import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
from mindtorch_v2.core import layouts
from mindtorch_v2.kernels import result_layout
from mindtorch_v2.profiler import profile

Function = Callable[[torch.Tensor], torch.Tensor]

VIEWS: list[Function] = [
    lambda x: x.transpose(1, 3),
    lambda x: x.permute(3, 1, 0, 2),
    lambda x: x[:, 1:, ::2],
    lambda x: x[1, :, 0],
    lambda x: x[:1].expand(4, 3, 2, 4),
    lambda x: x.unfold(3, 2, 1),
    lambda x: x.diagonal(1, 0, 3),
    lambda x: x.mT.unflatten(0, (1, 2)),
    lambda x: x.as_strided((3, 3), (1, 2), 2),
    lambda x: x.contiguous(memory_format=torch.channels_last),
    lambda x: x.split(2, 3)[1],
    lambda x: torch.complex(x, x).imag,
    lambda x: x.view(torch.int32).mT,
]
ELEMENTWISE: list[Function] = [
    lambda x: x.mT + 1,
    lambda x: x.mT * x.mT,
    lambda x: torch.exp(x.permute(3, 1, 0, 2)),
    lambda x: x.permute(1, 0, 2, 3) + torch.ones(2, 4, device=x.device),
    lambda x: torch.where(x.mT > 1, x.mT, -x.mT),
    lambda x: x.contiguous(memory_format=torch.channels_last).relu(),
    lambda x: x.mT.to(torch.float64),
    lambda x: torch.zeros_like(x.mT),
    lambda x: torch.rand_like(x.mT),
    lambda x: x.mT.clone(),
    lambda x: x.mT.clamp(0, 5),
    lambda x: x.mT.logical_not(),
    lambda x: x[:, :, :, ::2] * 2,
]


def geometry(t: torch.Tensor) -> tuple[object, ...]:
    return tuple(t.shape), t.stride(), t.storage_offset(), t.is_contiguous(), t.dtype


@pytest.mark.parametrize("function", [*VIEWS, *ELEMENTWISE])
def test_meta_tensors_lie_as_real_ones_would(function: Function) -> None:
    x = torch.arange(48.0).reshape(2, 3, 2, 4)
    assert geometry(function(x.to("meta"))) == geometry(function(x))


def test_moving_to_meta_keeps_the_order_of_dimensions() -> None:
    x = torch.ones(2, 3).t()
    assert x.to("meta").stride() == (1, 3)
    assert torch.empty_like(x, device="meta").stride() == (1, 3)
    assert torch.empty_strided((2, 2), (1, 7), device="meta").stride() == (1, 7)


def test_a_view_that_strides_forbid_is_refused_on_meta_too() -> None:
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        torch.empty(2, 3, device="meta").t().view(6)


def test_meta_storage_has_the_size_of_the_tensor() -> None:
    x = torch.empty(4, 5, device="meta")
    assert x[1:].untyped_storage().nbytes() == 80


def test_meta_tensors_beyond_any_memory_can_be_made() -> None:
    x = torch.empty(1 << 40, 1 << 10, device="meta")
    assert (x + x).shape == (1 << 40, 1 << 10)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.mT.softmax(-1),
        lambda x: F.log_softmax(x.mT, 1),
        lambda x: x.mT.cumsum(0),
        lambda x: x.mT.cumprod(1),
        lambda x: x.permute(3, 2, 1, 0).sum(0),
        lambda x: x.mT.max(0)[0],
        lambda x: x.mT.amax(1),
        lambda x: x.mT.prod(0),
        lambda x: x.mT.var(0),
        lambda x: x.mT.norm(dim=0),
        lambda x: x.mT.logsumexp(0),
        lambda x: x.mT.all(0),
        lambda x: x.mT.count_nonzero(0),
        lambda x: x.mT.masked_fill(x.mT > 3, 1.0),
        lambda x: x.mT.roll(1, 0),
        lambda x: F.layer_norm(x.mT, (2,)),
        lambda x: x.mT.renorm(2, 0, 1.0),
    ],
)
def test_results_that_are_contiguous_in_torch_can_be_viewed(function: Function) -> None:
    made = function(torch.arange(48.0).reshape(2, 3, 2, 4))
    assert made.is_contiguous()
    assert made.view(-1).numel() == made.numel()


def test_random_numbers_follow_memory() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3, 4)
    torch.manual_seed(0)
    made = torch.rand_like(torch.zeros(3, 4).t())
    assert made.stride() == (1, 4)
    assert made.t().tolist() == expected.tolist()
    torch.manual_seed(0)
    assert torch.rand(4, 3, out=torch.zeros(3, 4).t()).t().tolist() == expected.tolist()


CONTIGUOUS: list[Callable[[], torch.Tensor]] = [
    lambda: torch.ones(3, 4).t().masked_fill(torch.ones(4, 3) > 0, 2.0),
    lambda: torch.ones(2, 8) @ torch.ones(17, 8, 3, 2).permute(3, 2, 1, 0),
    lambda: torch.ones(17, 8, 3, 2).permute(3, 2, 0, 1) @ torch.ones(8, 40),
]


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("make", CONTIGUOUS)
def test_results_are_contiguous_whether_recorded_or_not(make: Callable[[], torch.Tensor], recorded: bool) -> None:
    if not recorded:
        assert make().is_contiguous()
        return
    with torch.profiler.profile():
        result = make()
    assert result.is_contiguous()


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8, torch.bfloat16])
@pytest.mark.parametrize(
    "call", [torch.sin, torch.erf, torch.lgamma, torch.sign, lambda x: x / 2, lambda x: x + torch.ones(5)]
)
def test_results_of_expanded_tensors_are_contiguous(call: Function, dtype: torch.dtype) -> None:
    x = torch.ones(5, dtype=dtype).expand(4, 5)
    assert call(x).is_contiguous()


# --- while something records ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", "abs isinf isfinite logical_not rot90".split())
def test_recorded_ops_keep_a_turned_layout(name: str) -> None:
    x = torch.rand(4, 4).t()
    plain = getattr(torch, name)(x).stride()
    with profile():
        assert getattr(torch, name)(x).stride() == plain
    assert plain == ((4, 1) if name == "rot90" else (1, 4))


def test_an_op_that_writes_into_memory_of_its_own_has_it_counted_once() -> None:
    with profile(profile_memory=True) as prof:
        kept = torch.logical_and(torch.rand(3, 4), torch.rand(3, 4))
    events = [event for event in prof.events() if event.name == "aten::logical_and"]
    assert [event.self_cpu_memory_usage for event in events] == [0, kept.nbytes]


# --- channels_last ----------------------------------------------------------------------------------------------------

LAST = (16, 1, 8, 2)  # strides of (2, 2, 2, 4) in channels_last

KEEP_FORMAT: list[Function] = [
    lambda x: F.conv2d(x, torch.ones(3, 2, 1, 1)),
    lambda x: F.conv2d(x, torch.ones(2, 1, 3, 3), padding=1, groups=2),
    lambda x: F.conv_transpose2d(x, torch.ones(2, 3, 2, 2), torch.ones(3)),
    lambda x: F.max_pool2d(x, 2),
    lambda x: F.avg_pool2d(x, 2),
    lambda x: F.adaptive_avg_pool2d(x, 2),
    lambda x: F.adaptive_avg_pool2d(x, 1),
    lambda x: F.adaptive_max_pool2d(x, 2),
    lambda x: F.interpolate(x, scale_factor=2),
    lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    lambda x: F.pad(x, (1, 1, 1, 1)),
    lambda x: F.pad(x, (1, 1, 1, 1), "reflect"),
    lambda x: torch.cat([x, x], 1),
    lambda x: F.batch_norm(x, None, None, training=True),
    lambda x: F.batch_norm(x, torch.zeros(2), torch.ones(2)),
    lambda x: F.group_norm(x, 2),
    lambda x: F.pixel_unshuffle(x, 2),
    lambda x: F.pixel_shuffle(torch.cat([x, x], 1), 2),
    lambda x: F.channel_shuffle(x, 2),
    lambda x: torch.roll(x, 1, 2),
    lambda x: F.dropout(x, 0.5).relu() * 2,
    lambda x: x + torch.ones(2, 2, 2, 4),
]


def images(requires_grad: bool = False) -> torch.Tensor:
    x = torch.arange(32.0).reshape(2, 2, 2, 4).contiguous(memory_format=torch.channels_last)
    return x.requires_grad_(requires_grad)


def on(x: torch.Tensor, function: Function) -> torch.Tensor:
    """What a function gives on the device of `x`."""
    with torch.device(x.device):
        return function(x)


@pytest.mark.parametrize("place", ["cpu", "recorded", "meta"])
@pytest.mark.parametrize("function", KEEP_FORMAT)
def test_images_stay_channels_last(function: Function, place: str) -> None:
    x = images().to("meta") if place == "meta" else images()
    if place == "recorded":
        with profile():
            made = function(x)
    else:
        made = on(x, function)
    assert x.stride() == LAST
    assert made.is_contiguous(memory_format=torch.channels_last)
    assert made.stride(1) == 1


@pytest.mark.parametrize("function", KEEP_FORMAT)
def test_gradients_of_a_leaf_lie_as_it_does(function: Function) -> None:
    x = images(requires_grad=True)
    made = function(x)
    made.backward(torch.ones(made.shape))
    assert x.grad.stride() == LAST


def test_a_weight_in_channels_last_makes_a_convolution_so() -> None:
    weight = torch.ones(3, 2, 2, 2).to(memory_format=torch.channels_last)
    assert F.conv2d(torch.ones(2, 2, 4, 4), weight).stride() == (27, 1, 9, 3)


def test_volumes_stay_channels_last() -> None:
    x = torch.ones(2, 2, 3, 3, 3).to(memory_format=torch.channels_last_3d)
    assert F.conv3d(x, torch.ones(4, 2, 1, 1, 1)).is_contiguous(memory_format=torch.channels_last_3d)
    assert F.max_pool3d(x, 2).stride() == (2, 1, 2, 2, 2)


def test_modules_convert_their_parameters() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.Linear(2, 2)).to(memory_format=torch.channels_last)
    assert model[0].weight.stride() == (18, 1, 6, 2)
    assert model[1].weight.stride() == (2, 1)
    out = model[0](torch.ones(1, 2, 4, 4))
    out.sum().backward()
    assert out.stride() == (12, 1, 6, 3)
    assert model[0].weight.grad.stride() == (18, 1, 6, 2)


def test_converting_looks_at_what_strides_suggest() -> None:
    x = images()
    assert x[:, :1].to(memory_format=torch.channels_last).stride() == (16, 1, 8, 2)  # with gaps, the same memory
    assert x.to(memory_format=torch.contiguous_format).is_contiguous()
    assert torch.empty(2, 3, 4, 5, memory_format=torch.channels_last).stride() == (60, 1, 15, 3)


# --- the order of an elementwise result -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "strides"),
    [
        (lambda t, p: t + p, (1, 3)),  # the first operand that tells dimensions apart
        (lambda t, p: p + t, (5, 1)),
        (lambda t, p: t[:1] + t, (1, 3)),
        (lambda t, p: p[0].expand(3, 5) * t, (1, 3)),
        (lambda t, p: torch.where(t > 0, p, p), (1, 3)),
        (lambda t, p: torch.lerp(p, t, 0.5), (5, 1)),
        (lambda t, p: t + p.double(), (1, 3)),
        (lambda t, p: torch.add(t, p, out=torch.empty(0)), (1, 3)),
        (lambda t, p: t.sum(0, keepdim=True), (5, 1)),
        (lambda t, p: t.amax(1, keepdim=True), (1, 1)),
        (lambda t, p: t.sort(0)[0], (1, 3)),
        (lambda t, p: 2**t, (5, 1)),
    ],
)
def test_results_of_turned_and_plain_operands(function: Callable[..., torch.Tensor], strides: tuple[int, ...]) -> None:
    turned, plain = torch.arange(15.0).reshape(5, 3).t(), torch.arange(15.0).reshape(3, 5)
    assert function(turned, plain).stride() == strides
    with profile():
        assert function(turned, plain).stride() == strides


ORDERS: list[Callable[[Any], Any]] = [
    lambda a: a,
    lambda a: a.transpose(2, 0, 1).copy().transpose(1, 2, 0),
    lambda a: a.copy("F"),
    lambda a: a.repeat(2, axis=1)[:, ::2],
    lambda a: np.broadcast_to(a[:1], a.shape),
    lambda a: np.broadcast_to(a[0, 0, 0], a.shape),
    lambda a: a[:, :1].copy("F"),
    lambda a: a[0, 0],
]


@pytest.mark.skipif(result_layout.C is None, reason="nothing is compiled")
@pytest.mark.parametrize("dtype", ["f4", "i8", "i2"])
@pytest.mark.parametrize("shape", [(2, 4, 6), (2, 1, 6), (4, 4, 4)])
def test_compiled_code_lays_results_out_as_the_rule_says(shape: tuple[int, ...], dtype: str) -> None:
    whole = np.arange(math.prod(shape), dtype=dtype).reshape(shape)
    for orders in itertools.product(ORDERS, repeat=2):
        first, second = (order(whole) for order in orders)
        made = np.add(first, second)
        settled = result_layout.C.settle(made.copy(), first, second)
        assert settled.tolist() == made.tolist()
        operands = tuple((a.shape, result_layout.strides_of(a)) for a in (first, second))
        assert result_layout.strides_of(settled) == layouts.elementwise(made.shape, operands)


@pytest.mark.skipif(result_layout.C is None, reason="nothing is compiled")
@pytest.mark.parametrize(
    "function",
    [
        lambda t, p: p + t,
        lambda t, p: t + p,
        lambda t, p: p.sum().expand(3, 5) * p,
        lambda t, p: p.sum().expand(3, 5).relu(),
        lambda t, p: torch.where(p > 1, t, p),
    ],
)
def test_the_rule_is_not_asked_where_the_first_operand_settles_the_order(function: Callable[..., Any]) -> None:
    turned, plain = torch.arange(15.0).reshape(5, 3).t(), torch.arange(15.0).reshape(3, 5)
    asked = []
    try:
        result_layout.C.lay_out_by(lambda *given: asked.append(given) or result_layout.elementwise(*given))
        function(turned, plain)
    finally:
        result_layout.C.lay_out_by(result_layout.elementwise)
    assert not asked


def test_dimensions_of_one_element_have_the_strides_that_torch_gives_them() -> None:
    x = torch.ones(2, 1, 5, 6).to(memory_format=torch.channels_last)
    assert x.stride() == (30, 1, 6, 1)
    assert (x * 2).stride() == (30, 1, 6, 1)
    assert x.relu().stride() == (30, 30, 6, 1)
    assert x[..., ::2].relu().stride() == (15, 1, 3, 1)
    assert F.conv2d(x, torch.ones(4, 1, 1, 1)).stride() == (120, 1, 24, 4)  # the strides tell


def test_random_numbers_follow_memory_in_every_format() -> None:
    x = images()
    for draw in (
        lambda t: torch.rand_like(t),
        lambda t: torch.randint_like(t, 9),
        lambda t: torch.empty_like(t).random_(9),
    ):
        torch.manual_seed(0)
        expected = draw(torch.empty(2, 2, 4, 2))
        torch.manual_seed(0)
        assert draw(x).permute(0, 2, 3, 1).tolist() == expected.tolist()
    torch.manual_seed(0)
    mask = torch.native_dropout(torch.ones(2, 2, 4, 2), 0.5, True)[1]
    torch.manual_seed(0)
    assert torch.native_dropout(torch.ones_like(x), 0.5, True)[1].permute(0, 2, 3, 1).tolist() == mask.tolist()


PROGRAM = """
import mindtorch_v2 as torch
import test_layouts
import sys
x, t = test_layouts.images(), torch.arange(15.0).reshape(5, 3).t()
made = [f(x) for f in test_layouts.KEEP_FORMAT] + [f(torch.ones(2, 3, 2, 4)) for f in test_layouts.ELEMENTWISE]
made += [t + t.contiguous(), t.sum(0, keepdim=True), x[:, :1] + 1, (x[..., ::2]).exp(), t.unsqueeze(2), t.unsqueeze(0) * 1]
print([m.stride() for m in made])
"""


def test_strides_are_the_same_without_compiled_code() -> None:
    here = Path(__file__).parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(here), str(here.parents[2] / "src")])}
    runs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment | more, capture_output=True, text=True, check=True
        )
        for more in ({}, {"MINDTORCH_PURE": "1"})
    ]
    assert runs[0].stdout == runs[1].stdout


def test_indexing_keeps_the_order_of_the_dimensions_it_leaves_alone() -> None:
    x = torch.arange(24.0).reshape(4, 3, 2).permute(2, 1, 0)
    assert x[:, torch.tensor([0, 2])].stride() == (1, 2, 4)
    assert x[torch.ones(2, 3, dtype=torch.uint8) > 0].stride() == (4, 1)
    with pytest.warns(UserWarning, match="uint8"):
        assert x[torch.ones(2, 3, dtype=torch.uint8)].shape == (6, 4)


def test_a_mask_on_meta_is_refused() -> None:
    x = torch.empty(2, 3, device="meta")
    with pytest.raises(NotImplementedError, match="no values"):
        x[x > 0]


def test_copies_of_meta_tensors_keep_their_strides() -> None:
    assert copy.deepcopy(torch.empty(4, 6, device="meta")[:, ::2]).stride() == (6, 2)


def test_a_result_in_row_major_order_has_those_strides_in_dimensions_of_one_element_under_autocast_too() -> None:
    def solved() -> tuple[int, ...]:
        with torch.autocast("cpu", torch.bfloat16):
            return torch.linalg.solve_triangular(
                torch.ones(2, 1, 1), torch.ones(2, 64, 1), upper=False, left=False
            ).stride()

    alone = solved()
    with profile():
        assert solved() == alone == (64, 1, 1)
