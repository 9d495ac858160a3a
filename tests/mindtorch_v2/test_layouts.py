"""How results lie in memory: strides on the meta device as on the CPU, and results that torch makes contiguous."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
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
