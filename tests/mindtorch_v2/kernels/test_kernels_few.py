"""Compiled loops for few numbers, where calls cost more than the arithmetic: convolutions, pads, attention, lines of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mindtorch_v2.kernels.compiled import C
from mindtorch_v2.kernels.network import attention, conv

needs_compiled = pytest.mark.skipif(C is None, reason="the compiled kernels are not built")
F32 = np.float32


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


CONVOLUTIONS = [
    ((2, 4, 6, 5), (3, 4, 3, 2), (1, 1), (0, 0), (1, 1), 1),
    ((1, 4, 7, 7), (6, 2, 3, 3), (2, 3), (1, 2), (2, 1), 2),
    ((2, 4, 5, 5), (5, 4, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((3, 4, 9), (4, 1, 3), (2,), (1,), (1,), 4),
]


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "kernel", "stride", "padding", "dilation", "groups"), CONVOLUTIONS)
def test_small_convolutions(shape: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int, dtype: Any,
                            monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    x, w, bias = (normal(*s, seed=i).astype(dtype) for i, s in enumerate([shape, kernel, kernel[:1]]))
    back = normal(kernel[1] * groups, seed=4).astype(dtype)
    geometry = stride, padding, dilation, groups
    none = (0,) * len(stride)

    def results() -> list[Any]:
        out = conv.conv_forward(x, w, *geometry, bias)
        return [
            out,
            conv.conv_backward_input(out, w, shape, *geometry),
            conv.conv_backward_weight(out, x, kernel, *geometry),
            conv.conv_transpose_forward(out, w, stride, padding, none, dilation, groups, back),
        ]

    fused = results()
    monkeypatch.setattr(conv, "C", None)
    for got, wanted in zip(fused, results(), strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 if dtype is np.float32 else 1e-12)


@needs_compiled
def test_maps_leave_the_rest_to_numpy() -> None:
    x, out, places = normal(2, 3), np.empty((2, 2), F32), np.array([[0, 3]])
    assert C.map_axis(x, places, None, 1, out)
    np.testing.assert_array_equal(out, np.stack([x[:, 0], np.zeros(2, F32)], 1))  # the place behind the last is a zero
    assert not C.map_axis(x, places + 1, None, 1, out)
    assert not C.map_axis(x, places, None, 2, out)
    assert not C.map_axis(x, places, np.ones((1, 2)), 1, out)


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_of_few(masked: bool, causal: bool, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (normal(2, n, 3, 4, seed=n).astype(dtype).swapaxes(1, 2) for n in (5, 6, 6))
    mask = normal(5, 6, seed=9).astype(dtype) if masked else None
    if mask is not None:
        mask[1] = -np.inf  # a query that may look nowhere
    fused = attention.attention(q, k, v, mask, causal, 0.5, True)
    monkeypatch.setattr(attention, "C", None)
    for got, wanted in zip(fused, attention.attention(q, k, v, mask, causal, 0.5, True), strict=True):
        assert got.strides == wanted.strides
        np.testing.assert_allclose(got, wanted, rtol=1e-4 if dtype is np.float32 else 1e-12, atol=1e-6)


@needs_compiled
@pytest.mark.parametrize("shape", [(2, 2, 3, 3), (50, 2, 3, 3), (3, 2, 3, 2)])
def test_gradients_of_a_weight_that_does_not_fit_are_not_written(shape: tuple[int, ...]) -> None:
    plane, made = ((1, 1), (0, 0), (1, 1), normal(1, 2, 4, 4), normal(1, 3, 2, 2)), np.full(shape, 7, F32)
    assert not C.convolve((3, 3), *plane, made, None, 1, conv.LEARN)
    assert (made == 7).all()


@needs_compiled
def test_convolutions_need_a_stride_and_as_many_images_and_biases_as_there_are() -> None:
    x, out, w = normal(1, 2, 4, 4), normal(1, 3, 2, 2), normal(3, 2, 3, 3)
    steps = (0, 0), (1, 1)
    assert C.convolve((3, 3), (1, 1), *steps, x, out, w, normal(3), 1, conv.GATHER)
    assert not C.convolve((3, 3), (0, 1), *steps, x, out, w, None, 1, conv.GATHER)
    assert not C.convolve((3, 3), (1, 1), *steps, normal(2, 2, 4, 4), out, w, None, 1, conv.GATHER)
    assert not C.convolve((3, 3), (1, 1), *steps, x, out, w, normal(2), 1, conv.GATHER)


@needs_compiled
def test_arrays_are_lined_up_and_laid_out_again() -> None:
    arrays = [normal(2, 3), normal(4, seed=1)]
    line = C.line_up(arrays, None)
    np.testing.assert_array_equal(line, np.concatenate([a.ravel() for a in arrays]))
    assert C.lay_out(line * 2, arrays)
    np.testing.assert_array_equal(arrays[1], line[6:] * 2)
    assert C.line_up(arrays, [np.empty((3, 2), F32), arrays[1]]) is None
    assert C.line_up([arrays[0], arrays[0]], None) is None  # the same memory twice
    assert C.line_up([arrays[0], arrays[1].astype(float)], None) is None
    assert not C.lay_out(line[1:], arrays)


@needs_compiled
@pytest.mark.parametrize("count", [2, 16, 17, 1000])
def test_however_many_arrays_are_lined_up_unless_two_share_memory(count: int) -> None:
    memory = normal(4 * count)
    parts = [memory[4 * k : 4 * k + 4] for k in range(count)][::-1]
    np.testing.assert_array_equal(C.line_up(parts, None), np.concatenate(parts))
    empty = memory[1:1]
    assert C.line_up([*parts, empty], None) is not None
    assert C.line_up([*parts[:-1], empty, memory[:5]], None) is None  # by one element, with nothing in between
