"""Attention: computed in one piece where the inputs allow it, with the results of the formula op by op."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from mindtorch_v2.backends import cuda

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
from mindtorch_v2.kernels.network import attention as kernels
from mindtorch_v2.nn.attention import SDPBackend, sdpa_kernel
from mindtorch_v2.profiler import profile

BATCH, HEADS, QUERIES, KEYS, WIDTH = 2, 3, 5, 40, 4
RANDOM = np.random.default_rng(7)


def noise(*shape: int, dtype: Any = np.float32) -> Any:
    return torch.from_numpy(RANDOM.standard_normal(shape).astype(dtype))


def inputs(dtype: Any = np.float32, apart: bool = False) -> list[Any]:
    """Query, key and value; heads taken apart of one row for each place if asked to."""
    made = []
    for places in (QUERIES, KEYS, KEYS):
        x = noise(BATCH, places, HEADS, WIDTH, dtype=dtype).transpose(1, 2) if apart else None
        made.append((noise(BATCH, HEADS, places, WIDTH, dtype=dtype) if x is None else x).requires_grad_())
    return made


MASKS: dict[str, Any] = {
    "no mask": lambda dtype: None,
    "numbers": lambda dtype: noise(QUERIES, KEYS, dtype=dtype),
    "truths": lambda dtype: noise(BATCH, HEADS, QUERIES, KEYS) > 0,
    "one for all heads": lambda dtype: noise(BATCH, 1, QUERIES, KEYS, dtype=dtype),
    "a row": lambda dtype: noise(1, KEYS) > 0,
}


def result_and_gradients(given: list[Any], **options: Any) -> list[Any]:
    result = F.scaled_dot_product_attention(*given, **options)
    return [result, *torch.autograd.grad((result * result).sum(), given)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(("mask", "causal"), [*itertools.product(MASKS, [False]), ("no mask", True)])
def test_one_piece_gives_what_the_formula_gives(dtype: Any, apart: bool, mask: str, causal: bool) -> None:
    given = inputs(dtype, apart)
    options = {"attn_mask": MASKS[mask](dtype), "is_causal": causal, "scale": -0.7}
    fused = result_and_gradients(given, **options)
    with sdpa_kernel(SDPBackend.MATH):
        by_formula = result_and_gradients(given, **options)
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    for one, other in zip(fused, by_formula, strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=tolerance, atol=tolerance)


def test_a_mask_may_come_on_top_of_causality() -> None:
    q, k, v = inputs()
    mask = noise(QUERIES, KEYS)
    hidden = torch.ones(QUERIES, KEYS).tril() == 0
    both = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=True)
    one = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.masked_fill(hidden, -math.inf))
    assert torch.equal(both, one)


def test_it_is_taken_apart_for_second_gradients() -> None:
    given = [x.detach()[:1, :2, :3, :2].requires_grad_() for x in inputs(np.float64)]
    function = lambda *x: F.scaled_dot_product_attention(*x, is_causal=True)  # noqa: E731
    assert torch.autograd.gradcheck(function, given)
    assert torch.autograd.gradgradcheck(function, given)


def test_a_query_that_may_look_nowhere_gives_zeros() -> None:
    q, k, v = (x.detach() for x in inputs())
    mask = torch.zeros(QUERIES, KEYS)
    mask[2] = -math.inf
    found = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert not found[:, :, 2].any()
    assert found[:, :, [0, 1, 3, 4]].all()


def test_nan_spreads_over_its_row_alone() -> None:
    q, k, v = (x.detach() for x in inputs())
    mask = torch.full((QUERIES, KEYS), -math.inf)
    mask[0, 3] = math.nan
    found = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert found[:, :, 0].isnan().all()
    assert not found[:, :, 1:].any()


def test_results_lie_in_memory_as_queries_do() -> None:
    plain = F.scaled_dot_product_attention(*inputs())
    apart = F.scaled_dot_product_attention(*inputs(apart=True))
    assert plain.is_contiguous()
    assert apart.transpose(1, 2).is_contiguous()


@pytest.mark.parametrize("keep", [False, True])
def test_large_batches_go_part_by_part(keep: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (x.detach().numpy() for x in inputs())
    mask = noise(BATCH, 1, QUERIES, KEYS).numpy()
    whole, weights = kernels.attention(q, k, v, mask, False, 0.5, True)
    back = kernels.attention_backward(whole, q, k, v, weights, 0.5)
    monkeypatch.setattr(kernels, "BLOCK", 1)
    found, kept = kernels.attention(q, k, v, mask, False, 0.5, keep)
    np.testing.assert_array_equal(found, whole)
    np.testing.assert_array_equal(kept, weights if keep else np.empty(0, np.float32))
    for one, other in zip(kernels.attention_backward(whole, q, k, v, weights, 0.5), back, strict=True):
        np.testing.assert_array_equal(one, other)


def names(run: Any) -> list[str]:
    with profile() as prof:
        run()
    return [event.name for event in prof.events()]


def test_events_are_those_of_one_piece() -> None:
    given = inputs()
    assert names(lambda: F.scaled_dot_product_attention(*given)) == [
        "aten::scaled_dot_product_attention",
        "aten::_fused_attention",
    ]
    result = F.scaled_dot_product_attention(*given)
    assert "aten::_fused_attention_backward" in names(result.sum().backward)


def test_gradients_are_copied_only_where_products_need_it() -> None:
    joined = F.scaled_dot_product_attention(*inputs(apart=True)).transpose(1, 2).reshape(-1)
    assert "aten::contiguous" not in names(lambda: (joined * joined).sum().backward())
    spread = F.scaled_dot_product_attention(*inputs())
    assert "aten::contiguous" in names(spread.sum().backward)


@pytest.mark.parametrize(
    "call",
    [
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.5),
        lambda q, k, v: F.scaled_dot_product_attention(q[0], k[0], v[0]),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v[..., :2]),
        lambda q, k, v: F.scaled_dot_product_attention(q, k[:, :1], v[:, :1], enable_gqa=True),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.zeros(QUERIES, KEYS, requires_grad=True)),
        lambda q, k, v: F.scaled_dot_product_attention(q.bfloat16(), k.bfloat16(), v.bfloat16()),
    ],
)
def test_what_does_not_suit_goes_by_the_formula(call: Any) -> None:
    given = [x.detach() for x in inputs()]
    found = names(lambda: call(*given))
    assert "aten::_scaled_dot_product_attention_math" in found
    assert "aten::_fused_attention" not in found


def test_the_way_can_be_chosen_and_is_as_before_afterwards() -> None:
    given = inputs()
    with sdpa_kernel([SDPBackend.MATH]):
        assert (cuda.flash_sdp_enabled(), cuda.math_sdp_enabled()) == (False, True)
        assert "aten::_fused_attention" not in names(lambda: F.scaled_dot_product_attention(*given))
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        assert "aten::_fused_attention" in names(lambda: F.scaled_dot_product_attention(*given))
        with pytest.raises(RuntimeError, match="No viable backend for scaled_dot_product_attention"):
            F.scaled_dot_product_attention(*(x[0] for x in given))
    with cuda.sdp_kernel(enable_flash=False, enable_math=False), pytest.raises(RuntimeError, match="No viable backend"):
        F.scaled_dot_product_attention(*given)
    assert all((cuda.flash_sdp_enabled(), cuda.math_sdp_enabled()))
