"""Compiled loops over values: compared, filled, converted, multiplied, and put along a dimension; what they refuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.kernels.compiled import C
from mindtorch_v2.kernels.indexing import gather_scatter
from mindtorch_v2.kernels.network import conv, normalize, small
from mindtorch_v2.ops.creation import ranges

needs_compiled = pytest.mark.skipif(C is None, reason="the compiled kernels are not built")
TYPES = [np.float32, np.float64, np.int64, np.int32, np.bool_]


def counted(*shape: int, dtype: Any = np.float32) -> Any:
    return np.arange(math.prod(shape)).reshape(shape).astype(dtype)


# --- same -------------------------------------------------------------------------------------------------------------


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_])
def test_same(dtype: Any) -> None:
    a = counted(3, 4, dtype=dtype)
    other = a.copy()
    assert C.same(a, other) is True
    other[2, 3] = not other[2, 3]
    assert C.same(a, other) is False
    assert C.same(a[:0], other[:0]) is True


@needs_compiled
def test_same_knows_nan_and_refuses_the_rest() -> None:
    a = np.array([np.nan], np.float32)
    assert C.same(a, a) is False
    square = counted(2, 2)
    for given in (
        (square, square.T),
        (square, counted(4)),
        (square, square.astype(np.float64)),
        (square, 1),
        (square,),
    ):
        assert C.same(*given) is None
    assert C.same(counted(2, dtype=np.int16), counted(2, dtype=np.int16)) is None


def test_equal_of_tensors() -> None:
    x = torch.tensor([1.0, -0.0])
    assert torch.equal(x, torch.tensor([1.0, 0.0]))
    assert not torch.equal(x, torch.tensor([1.0, float("nan")]))
    assert torch.equal(torch.ones(2, 3).T, torch.ones(3, 2))
    assert torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2], dtype=torch.int32)) is True


# --- filled -----------------------------------------------------------------------------------------------------------


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 4), (1, 1, 4), (1, 3, 4), (4,)])
def test_filled(dtype: Any, shape: tuple[int, ...]) -> None:
    a, mask = counted(2, 3, 4, dtype=dtype), counted(*shape, dtype=np.int64) % 3 == 0
    expected = np.where(mask, np.array(7, dtype), a)
    np.testing.assert_array_equal(C.filled(a, mask, 7, False), expected)
    target = a.copy()
    assert C.filled(target, mask, 7, True) is target
    np.testing.assert_array_equal(target, expected)


@needs_compiled
def test_filled_refuses() -> None:
    a, mask = counted(2, 3), np.ones((2, 3), np.bool_)
    for given in (
        (a, mask.astype(np.int64), 1.0, False),
        (a, np.ones((2, 1), np.bool_), 1.0, False),  # spreads inside
        (a, np.ones((4, 2, 3), np.bool_), 1.0, False),  # the result would be larger
        (a, np.ones((), np.bool_), 1.0, False),
        (a.T, mask.T, 1.0, False),
        (a, mask, 1e39, False),
        (a, mask, 3.4028235677973366e38, False),
        (a, mask, True, False),
        (a, mask, 2**70, False),
        (a, mask, None, False),
        (counted(2, 3, dtype=np.int64), mask, 1.5, False),
        (counted(2, 3, dtype=np.int64), mask, 2**64, False),
        (a, mask, 1.0),
    ):
        assert C.filled(*given) is None
    a.flags.writeable = False
    assert C.filled(a, mask, 1.0, True) is None
    np.testing.assert_array_equal(a, counted(2, 3))


def test_masked_fill_keeps_its_errors() -> None:
    x, mask = torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool)
    with pytest.raises(RuntimeError, match="without overflow"):
        x.masked_fill(mask, 1e39)
    with pytest.raises(RuntimeError, match="boolean masks"):
        x.masked_fill(mask.long(), 1.0)
    with pytest.raises(RuntimeError, match="must match"):
        x.masked_fill(torch.ones(2, dtype=torch.bool), 1.0)
    with pytest.raises(TypeError, match="invalid combination"):
        x.masked_fill(mask, "1")
    assert x.masked_fill(torch.ones(4, 2, 3, dtype=torch.bool), 5).shape == (4, 2, 3)
    assert x.T.masked_fill(mask.T, 5).tolist() == [[5.0, 5.0]] * 3
    version = x._version
    assert x.masked_fill_(mask, -math.inf).tolist() == [[-math.inf] * 3] * 2
    assert x._version == version + 1


# --- chosen -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_where_with_a_number(dtype: torch.dtype) -> None:
    x = torch.arange(6).reshape(2, 3).to(dtype)
    mask = x > 2
    assert torch.where(mask, x, 0).tolist() == (x * mask).tolist()
    assert torch.where(mask, 0, x).dtype is dtype
    assert torch.where(mask, torch.tensor(9, dtype=dtype), x).tolist() == x.masked_fill(mask, 9).tolist()
    assert torch.where(mask[0], x, 0).shape == (2, 3)
    assert torch.where(mask, x, 0.5).dtype is (torch.float32 if dtype is torch.int64 else dtype)
    with pytest.raises(TypeError):
        torch.where(mask, x, 0.5, out=x)


def test_where_with_a_number_goes_backward() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    torch.where(x > 1, x * 3, 0.0).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 3.0]


# --- converted --------------------------------------------------------------------------------------------------------


@needs_compiled
@pytest.mark.parametrize("to", TYPES)
@pytest.mark.parametrize("of", TYPES)
def test_converted(of: Any, to: Any) -> None:
    a = (counted(3, 5) - 4).astype(of)
    made = C.converted(a, np.dtype(to))
    assert made.dtype == to
    assert made.shape == a.shape
    assert not np.may_share_memory(made, a)
    np.testing.assert_array_equal(made, a.astype(to))


@needs_compiled
def test_converted_refuses() -> None:
    a = counted(2, 3)
    for given in ((a.T, np.dtype(np.int64)), (a, np.dtype(np.int16)), (a, np.int64), (a, None), ([1.0], a.dtype), (a,)):
        assert C.converted(*given) is None


@pytest.mark.filterwarnings("error")
def test_conversions_of_what_does_not_fit() -> None:
    x = torch.tensor([float("nan"), float("inf"), 3e9, -1.5])
    assert x.long().tolist() == [-(2**63), -(2**63), 3000000000, -1]
    assert x.int().tolist() == [-(2**31), -(2**31), -(2**31), -1]
    assert torch.tensor([1e300], dtype=torch.float64).float().tolist() == [math.inf]
    assert x.bool().tolist() == [True] * 4
    assert torch.tensor([2**40 + 1]).int().tolist() == [1]


# --- products ---------------------------------------------------------------------------------------------------------


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shapes", [((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 2, 3, 1), (2, 2, 1, 5)), ((3, 4), (4, 2))]
)
def test_product(dtype: Any, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    turned = [np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) for x in (a, b)]
    for left in (a, turned[0]):
        for right in (b, turned[1]):
            made = C.product(left, right)
            assert made.flags.c_contiguous
            np.testing.assert_allclose(made, np.matmul(a, b), rtol=1e-5, atol=1e-6)


@needs_compiled
def test_product_of_steps_and_of_nothing() -> None:
    a, b = counted(2, 4, 8)[::-1, ::2, ::-2], counted(4, 6)[:, ::2]
    np.testing.assert_array_equal(C.product(a, b), np.matmul(a, b))
    assert C.product(counted(0, 3, 4), counted(4, 5)).shape == (0, 3, 5)
    spread = np.broadcast_to(counted(1, 3, 4), (2, 3, 4))
    np.testing.assert_array_equal(C.product(spread, counted(4, 2)), np.matmul(spread, counted(4, 2)))


@needs_compiled
def test_product_refuses() -> None:
    for a, b in (
        (counted(2, 3, 4), counted(5, 2)),
        (counted(2, 3, 4), counted(3, 4, 2)),
        (counted(2, 3, 0), counted(0, 2)),
        (counted(4), counted(4, 2)),
        (counted(2, 4), counted(2, 4, 2)),
        (counted(2, 4), counted(4, 2, dtype=np.float64)),
        (counted(2, 4, dtype=np.int64), counted(4, 2, dtype=np.int64)),
        (counted(64, 64), counted(64, 64)),
        (counted(2, 2).astype(">f4"), counted(2, 2)),
    ):
        assert C.product(a, b) is None
    for given in ((), (1, 2), (counted(2, 2),)):
        assert C.product(*given) is None


# --- along a dimension ------------------------------------------------------------------------------------------------


def test_gather_and_scatter_along_all_dimensions() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    for dim in (-3, -2, -1, 0, 1, 2):
        index = (torch.arange(12).reshape(2, 3, 2) * 7) % x.shape[dim]
        places = list(np.indices(index.shape))
        places[dim] = index.numpy()
        np.testing.assert_array_equal(x.gather(dim, index).numpy(), x.numpy()[tuple(places)])
        expected = x.numpy().copy()
        np.add.at(expected, tuple(places), 1)
        np.testing.assert_array_equal(x.scatter_add(dim, index, torch.ones(2, 3, 3)).numpy(), expected)
        expected = x.numpy().copy()
        expected[tuple(places)] = -1
        np.testing.assert_array_equal(x.scatter(dim, index, -1).numpy(), expected)


def test_scatter_takes_the_last_of_several() -> None:
    x = torch.zeros(1, 3, dtype=torch.int64)
    x.scatter_(1, torch.tensor([[1, 1, 1]]), torch.tensor([[5, 6, 7]]))
    assert x.tolist() == [[0, 7, 0]]
    assert x._version == 1


def test_places_outside_are_refused_with_nothing_written() -> None:
    x, index = torch.zeros(2, 2), torch.tensor([[0, 2]])
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.gather(0, index)
    for call in (lambda: x.scatter_(0, index, 1.0), lambda: x.scatter_add_(0, index, torch.ones(1, 2))):
        with pytest.raises(RuntimeError, match="out of bounds"):
            call()
    with pytest.raises(IndexError):
        x.index_fill_(0, torch.tensor([0, 2]), 1.0)
    assert x.tolist() == [[0.0, 0.0], [0.0, 0.0]]


@needs_compiled
def test_put_refuses_what_it_does_not_know() -> None:
    a, index = counted(2, 3), np.zeros((1, 3), np.int64)
    row, vector = np.ones((1, 3), np.float32), np.array([1])
    for given in (
        (a, 2, index, row, False),
        (a, True, index, row, False),
        (a, 2**80, index, row, False),
        (a, 0, index.astype(np.int32), row, False),
        (a, 0, index[:, :2].T, row, False),
        (a, 0, np.zeros((1, 4), np.int64), row, False),
        (a, 0, index, row[:, :2], False),
        (a, 0, index, row.astype(np.float64), False),
        (a, 0, index, a[:1], False),  # its own memory
        (a, 0, index, None, False),
        (a, 0, index - 1, row, False),
        (a.T, 0, index, row, False),
        (a.astype(np.int16), 0, index, row, False),
        (np.array(1.0, np.float32), 0, np.array(0), 1.0, False),
        (a, 0, index, row),
    ):
        assert C.put_along_axis(*given) is False
    for given in (
        (a, 0, index, row, False),
        (a, 0, vector, counted(2, 3), False),
        (a, 0, vector, counted(1, 2), False),
        (a, 0, vector, counted(3), False),
        (a, 0, vector + 1, row, False),
        (a, 5, vector, row, False),
        (a, 0, vector, a[:1], True),
        (a, 0, vector, "1", True),
    ):
        assert C.put_slices(*given) is False
    np.testing.assert_array_equal(a, counted(2, 3))
    assert C.take_along_axis(a, 0, np.zeros((1, 4), np.int64)) is None
    assert C.take_along_axis(a, 0, np.zeros(1, np.int64)) is None
    assert C.take_along_axis(a, 1, np.full((2, 1), 3)) is None
    assert C.take_along_axis(a, 1, np.empty((2, 0), np.int64)).shape == (2, 0)


@needs_compiled
def test_slices_agree_with_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    a, index = counted(2, 3, 4), np.array([2, 0, 2])
    calls = [
        lambda: gather_scatter.index_add(a, 1, index, counted(2, 3, 4)),
        lambda: gather_scatter.index_copy(a, -2, index, counted(2, 3, 4) + 100),
        lambda: gather_scatter.index_fill(a, 1, index, 9),
        lambda: gather_scatter.scatter(a, 2, counted(2, 3, 4, dtype=np.int64) % 3, counted(2, 3, 4) + 50),
        lambda: gather_scatter.gather(a, 0, counted(2, 2, 4, dtype=np.int64) % 2),
    ]
    made = [call() for call in calls]
    monkeypatch.setattr(gather_scatter, "C", None)
    for call, result in zip(calls, made, strict=True):
        np.testing.assert_array_equal(call(), result)
    np.testing.assert_array_equal(a, counted(2, 3, 4))


def test_scatter_of_its_own_memory() -> None:
    x = torch.arange(4.0)
    assert x.index_add_(0, torch.tensor([3, 2, 1, 0]), x.clone()).tolist() == [3.0, 3.0, 3.0, 3.0]


# --- convolutions and pooling -----------------------------------------------------------------------------------------


@needs_compiled
@pytest.mark.parametrize("space", [(5,), (5, 6)])
@pytest.mark.parametrize("taps", [1, 2])
def test_few_products_agree_with_many(monkeypatch: pytest.MonkeyPatch, space: tuple[int, ...], taps: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 4, *space)).astype(np.float32)
    w = rng.standard_normal((6, 2, *(taps,) * len(space))).astype(np.float32)
    bias = rng.standard_normal(6).astype(np.float32)
    ones, nothing = (1,) * len(space), (0,) * len(space)
    for stride in (1, 2):
        for padding in (ones, nothing):
            geometry = (stride,) * len(space), padding, ones, 2
            made = conv.conv_few(x, w, *geometry, bias)
            monkeypatch.setattr(conv, "C", None)
            np.testing.assert_allclose(made, conv.conv_forward(x, w, *geometry, bias), rtol=1e-4, atol=1e-5)
            monkeypatch.undo()
    assert conv.conv_few(np.asfortranarray(x), w, ones, nothing, ones, 2, bias) is None


def test_convolutions_keep_their_errors() -> None:
    x, w = torch.ones(1, 2, 4, 4), torch.ones(3, 2, 3, 3)
    functional: Any = torch.nn.functional
    with pytest.raises(RuntimeError, match="non-positive stride"):
        functional.conv2d(x, w, stride=0)
    with pytest.raises(RuntimeError, match="to have 2 channels"):
        functional.conv2d(torch.ones(1, 3, 4, 4), w)
    with pytest.raises(RuntimeError, match="bias"):
        functional.conv2d(x, w, torch.ones(2))
    with pytest.raises(RuntimeError, match=r"Expected 3D .unbatched. or 4D .batched. input to conv2d"):
        functional.conv2d(torch.ones(4, 4), w)
    assert functional.conv2d(x[0], w).shape == (3, 2, 2)
    assert functional.conv2d(x, w, stride=(2, 2), padding=[1, 1]).shape == (1, 3, 2, 2)


def test_means_of_whole_windows_and_of_others() -> None:
    functional: Any = torch.nn.functional
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    assert functional.avg_pool2d(x, 2).tolist() == [[[[2.5, 4.5], [10.5, 12.5]]]]
    assert functional.avg_pool2d(x, 2, 1).shape == (1, 1, 3, 3)
    assert functional.avg_pool2d(x, 3, ceil_mode=True).tolist() == [[[[5.0, 7.0], [13.0, 15.0]]]]
    assert functional.avg_pool2d(x, 2, divisor_override=1).tolist() == [[[[10.0, 18.0], [42.0, 50.0]]]]
    assert functional.avg_pool2d(x[0], (2, 4)).tolist() == [[[3.5], [11.5]]]
    with pytest.raises(RuntimeError, match="divisor"):
        functional.avg_pool2d(x, 2, divisor_override=0)


# --- out= -------------------------------------------------------------------------------------------------------------


def test_results_go_into_what_is_there() -> None:
    x, y, out = torch.ones(2, 2), torch.full((2, 2), 3.0), torch.empty(2, 2)
    version = out._version
    assert torch.add(x, y, alpha=2, out=out) is out
    assert out.tolist() == [[7.0, 7.0], [7.0, 7.0]]
    assert out._version == version + 1
    assert torch.mm(x, y, out=out).tolist() == [[6.0, 6.0], [6.0, 6.0]]
    assert torch.cat([x, y], out=torch.empty(0)).shape == (4, 2)
    assert torch.matmul(x, y, out=torch.empty(0)).shape == (2, 2)
    wide = torch.empty(2, 2, dtype=torch.float64)
    assert torch.exp(x, out=wide).dtype is torch.float64
    assert torch.sum(x, 0, out=torch.empty(2, dtype=torch.float64)).tolist() == [2.0, 2.0]


def test_results_refuse_what_torch_refuses() -> None:
    x, out = torch.ones(2, 2), torch.empty(2, 2)
    with pytest.raises(RuntimeError, match="dtype"):
        torch.mm(x, x, out=torch.empty(2, 2, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.add(x, x, out=torch.empty(2, 2, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        torch.add(x, x.clone().requires_grad_(), out=out)
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        torch.add(x, x, out=out.requires_grad_())
    with torch.no_grad():
        assert torch.add(x, x, out=out).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    memory = torch.arange(4.0)
    with pytest.raises(RuntimeError, match="memory"):
        torch.add(memory[:3], 1, out=memory[1:])
    same = torch.ones(3)
    assert torch.add(same, 1, out=same).tolist() == [2.0, 2.0, 2.0]
    shared = torch.ones(3)
    assert torch.add(shared, 1, out=shared.detach()).tolist() == [2.0, 2.0, 2.0]


def test_results_are_offered_to_subclasses() -> None:
    class Seen(torch.Tensor):
        names: list[str] = []

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            cls.names.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    torch.add(torch.ones(2), torch.ones(2), out=torch.empty(2).as_subclass(Seen))
    assert "add" in Seen.names


# --- views ------------------------------------------------------------------------------------------------------------


@needs_compiled
def test_strides_stay_inside() -> None:
    a = counted(3, 4)
    assert C.stride(a, (2, 2), (1, 10)).tolist() == [[0.0, 10.0], [1.0, 11.0]]
    assert C.stride(a, (), ()).tolist() == 0.0
    assert C.stride(a, (5, 2), (0, 1)).strides == (0, 4)
    assert C.stride(a, (1,), (10**12,)).strides == (4 * 10**12,)
    for given in (
        (a, (2, 2), (1, 11)),
        (a, (13,), (1,)),
        (a, (2, 0), (1, 1)),
        (a, (2,), (-1,)),
        (a, (2**62, 2**62), (2**62, 2**62)),
        (a, (2,), (2**70,)),
        (a, (2,), (1, 1)),
        (a, [2], [1]),
        (a[1:], (2,), (1,)),
        (a.T, (2,), (1,)),
        (a[:0].copy(), (1,), (1,)),
        (a.astype(np.int16), (2,), (1,)),
    ):
        assert C.stride(*given) is None


def test_views_by_strides_go_backward() -> None:
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    view = (x * 1).as_strided((2, 2), (1, 2))
    assert view.tolist() == [[0.0, 2.0], [1.0, 3.0]]
    view.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]
    with pytest.raises(RuntimeError, match="out of bounds"):
        torch.zeros(4).as_strided((5,), (1,))


# --- losses and pads --------------------------------------------------------------------------------------------------


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logarithms_in_losses(dtype: Any) -> None:
    p = np.array([0.0, 1e-30, 0.25, 0.5, 1.0], dtype)
    target = np.array([0.5, 1.0, 0.25, 0.0, 0.5], dtype)
    with np.errstate(divide="ignore"):
        right, wrong = np.maximum(np.log(p), -100), np.maximum(np.log1p(-p), -100)
    np.testing.assert_allclose(C.binary_losses(p, target), (target - 1) * wrong - target * right, rtol=1e-6)
    for bad in (-0.1, 1.1, np.nan):
        assert C.binary_losses(np.array([0.5, bad], dtype), np.ones(2, dtype)) is None
    x, y = np.array([0, 0, 0, 2, -1, np.nan], dtype), np.array([0, np.nan, np.inf, 3, 0, 1], dtype)
    expected = np.array([0, np.nan, 0, 2 * np.log(3), np.inf, np.nan], dtype)
    np.testing.assert_allclose(C.x_log_y(x, y), expected, rtol=1e-6)


@needs_compiled
def test_logarithms_refuse() -> None:
    a = counted(4)
    for function in (C.binary_losses, C.x_log_y):
        for given in (
            (a, a[::2]),
            (a, counted(2, 2)),
            (a, a.astype(np.float64)),
            (a, 1.0),
            (1.0, a),
            (a,),
            (counted(2000),) * 2,
        ):
            assert function(*given) is None


def test_binary_cross_entropy_keeps_its_errors() -> None:
    functional: Any = torch.nn.functional
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        functional.binary_cross_entropy(torch.tensor([1.5]), torch.ones(1))
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        functional.binary_cross_entropy(torch.tensor([0.5]), torch.ones(1, dtype=torch.float64))
    weighed = functional.binary_cross_entropy(torch.full((2,), 0.5), torch.ones(2), torch.tensor([1.0, 3.0]))
    assert weighed.item() == pytest.approx(2 * math.log(2))
    assert math.isnan(functional.binary_cross_entropy(torch.ones(0), torch.ones(0)).item())


def test_pads_of_integers_and_pads_that_crop() -> None:
    functional: Any = torch.nn.functional
    k = torch.arange(6).reshape(2, 3)
    assert functional.pad(k, (1, 0)).tolist() == [[0, 0, 1, 2], [0, 3, 4, 5]]
    assert functional.pad(k, (0, 1), value=7).dtype is torch.int64
    assert functional.pad(k, (-1, -1)).tolist() == [[1], [4]]
    assert functional.pad(k, (-1, 1, 0, -1)).tolist() == [[1, 2, 0]]
    x = torch.ones(2, 3, requires_grad=True)
    functional.pad(x, (1, 1), value=4.0).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[1.0] * 3] * 2
    with pytest.raises(RuntimeError):
        functional.pad(k, (-2, -2))


@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 2, 3), (1, 1, 2, 3), (1, 1, 1, 2, 3)])
def test_sums_over_all_dimensions(shape: tuple[int, ...]) -> None:
    for dtype in (torch.float32, torch.int64):
        x = torch.arange(6).reshape(shape).to(dtype)
        dims = tuple(range(len(shape)))
        assert x.sum(dims).tolist() == 15
        assert x.sum(dims, keepdim=True).shape == (1,) * len(shape)
        assert x.sum(dims).dtype is dtype
    tracked = torch.ones(shape, requires_grad=True)
    tracked.sum(dims).backward()
    assert tracked.grad is not None
    assert tracked.grad.shape == shape


# --- new tensors ------------------------------------------------------------------------------------------------------


@needs_compiled
@pytest.mark.parametrize("steps", [2, 3, 5, 64])
@pytest.mark.parametrize("bounds", [(0, 1), (-3.5, 2), (1e-3, 7), (5, 5)])
def test_steps_are_those_of_numpy(monkeypatch: pytest.MonkeyPatch, steps: int, bounds: tuple[float, float]) -> None:
    made = torch.linspace(*bounds, steps)
    monkeypatch.setattr(ranges, "C", None)
    assert made.tolist() == torch.linspace(*bounds, steps).tolist()


@needs_compiled
def test_evenly_refuses() -> None:
    for steps in (0, 1, 5000, 2.0, True, None):
        assert C.linspace(0.0, 1.0, steps) is None
    for given in (("0", 1.0, 3), (None, 1.0, 3), (0.0, 1.0, 2**70)):
        assert C.linspace(*given) is None


def test_integers_however_they_are_asked_for() -> None:
    def drawn(*args: Any, **kwargs: Any) -> Any:
        torch.manual_seed(3)
        return torch.randint(*args, **kwargs).tolist()

    expected = drawn(2, 9, (2, 3))
    assert drawn(2, 9, size=(2, 3)) == drawn(low=2, high=9, size=(2, 3)) == drawn(2, high=9, size=[2, 3]) == expected
    assert drawn(9, (4,)) == drawn(high=9, size=(4,)) == drawn(0, 9, torch.Size([4])) == drawn(0, 9, (4,))
    assert drawn(-5, 1 << 40, (3,)) == drawn(-5, 1 << 40, (3,), dtype=torch.int64)
    assert drawn(0, 9, (0,)) == []
    with pytest.raises(RuntimeError, match="from=5 >= to=5"):
        torch.randint(5, 5, (2,))
    with pytest.raises(RuntimeError):
        torch.randint(0, 5, (-2,))


def test_normal_and_uniform_numbers_draw_what_new_tensors_draw() -> None:
    for dtype in (torch.float32, torch.float64):
        for size in (3, 16, 40):
            x = torch.empty(size, dtype=dtype)
            for fill, new in ((x.normal_, torch.randn), (x.uniform_, torch.rand)):
                torch.manual_seed(1)
                made = new(size, dtype=dtype).tolist()
                torch.manual_seed(1)
                assert fill().tolist() == made
                torch.manual_seed(1)
                assert torch.empty(2 * size, dtype=dtype)[::2].shape == x.shape
                like = torch.rand_like if new is torch.rand else torch.randn_like
                assert like(x).tolist() == made
    spread = torch.empty(64).uniform_(-2, 3)
    assert -2 <= spread.min() < -1
    assert 2 < spread.max() < 3
    version = x._version
    x.normal_(1, 0)
    assert x.tolist() == [1.0] * 40
    assert x._version == version + 1
    with pytest.raises(RuntimeError, match="std >= 0"):
        x.normal_(0, -1)
    with pytest.raises(RuntimeError, match="from=2 > to=1"):
        x.uniform_(2, 1)
    assert torch.randint_like(torch.zeros(2, dtype=torch.int64), 3).dtype is torch.int64


def test_tensors_of_numbers_in_a_dtype() -> None:
    assert torch.tensor([1, 2], dtype=torch.float32).tolist() == [1.0, 2.0]
    assert torch.tensor([1.5, 2], dtype=torch.int64).tolist() == [1, 2]
    assert torch.tensor([[1.5], [2.5]], dtype=torch.float32).dtype is torch.float32
    assert torch.tensor(7, dtype=torch.float32).dtype is torch.float32
    with pytest.raises(ValueError, match="Overflow"):
        torch.tensor([2**70], dtype=torch.int64)


def test_likes_of_other_dtypes() -> None:
    x = torch.ones(2, 3)
    for like, value in ((torch.zeros_like, 0), (torch.ones_like, 1)):
        made = like(x, dtype=torch.int64, device="cpu")
        assert made.dtype is torch.int64
        assert made.tolist() == [[value] * 3] * 2
        assert like(x.T, dtype=torch.bool).stride() == (1, 3)
        assert like(x, dtype=torch.float64, requires_grad=True).requires_grad
    assert torch.zeros_like(x, device="meta").is_meta
    with pytest.raises(TypeError):
        torch.full_like(x, dtype=torch.int64)
    assert x.to(x.device) is x
    assert x.type_as(torch.ones(1)) is x
    assert x.type_as(torch.ones(1, dtype=torch.int64)).dtype is torch.int64


def test_parts_of_sequences() -> None:
    layers = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())
    assert [type(layers[i]).__name__ for i in (0, 1, -1, -2)] == ["ReLU", "Tanh", "Tanh", "ReLU"]
    with pytest.raises(IndexError):
        layers[2]
    assert len(layers[:1]) == 1
    assert isinstance(layers[np.int64(1)], torch.nn.Tanh)


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighed", [True, False])
def test_gradients_of_few_groups_agree_with_many(dtype: Any, weighed: bool) -> None:
    rng = np.random.default_rng(2)
    grad, x = (rng.standard_normal((2, 6, 3, 2)).astype(dtype) for _ in range(2))
    weight = rng.standard_normal(6).astype(dtype) if weighed else None
    for groups in (1, 2, 6):
        _, mean, rstd = normalize.group_norm(x, groups, weight, None, 1e-5)
        made = small.group_norm_backward(grad, x, mean, rstd, weight, groups, (True, True, True))
        expected = normalize.group_norm_backward(grad, x, mean, rstd, weight, groups)
        assert made is not None
        for mine, other in zip(made, expected, strict=True):
            assert mine.dtype == dtype
            np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)
    assert small.group_norm_backward(grad, x, mean, rstd, weight, 6, (False, False, True))[0] is None
    assert small.group_norm_backward(grad, x, mean, rstd, np.ones(6, np.float16), 6, (True, True, True)) is None


def test_one_hot_keeps_its_errors() -> None:
    functional: Any = torch.nn.functional
    index = torch.tensor([[0, 2], [1, 0]])
    made = functional.one_hot(index, 3)
    assert made.tolist() == [[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [1, 0, 0]]]
    assert functional.one_hot(index).shape == (2, 2, 3)
    assert functional.one_hot(index.T, 3).tolist() == made.transpose(0, 1).tolist()
    assert functional.one_hot(torch.tensor(1), 2).tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        functional.one_hot(index, 2)
    with pytest.raises(RuntimeError, match="non-negative"):
        functional.one_hot(index - 1, 3)
