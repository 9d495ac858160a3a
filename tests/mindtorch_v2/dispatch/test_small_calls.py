"""Short ways for small tensors give what the long ways give: values, dtypes, strides, places in the graph, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.dispatch import fast_parts
from mindtorch_v2.dispatch.op import OPS, Op
from mindtorch_v2.kernels import compiled
from mindtorch_v2.kernels.random import continuous, permutation
from mindtorch_v2.kernels.random.engine import Engine
from mindtorch_v2.kernels.reduction import moments


def in_place_rows() -> list[Op]:
    """Elementwise rows in place with several tensors, whose kernel writes into the first of them."""
    found = []
    for op in OPS.values():
        if op.kind != "mutate" or op.base is None or op.base.rule in (None, "compare"):
            continue
        kernel = op.base.ufunc if op.base.ufunc is not None else op.base.kernel
        if fast_parts.takes_out(kernel) and sum(a.is_tensor for a in op.schema.arguments) > 1:
            found.append(op)
    return found


@pytest.mark.parametrize("op", in_place_rows(), ids=lambda op: op.qualified)
@pytest.mark.parametrize("size", [3, 3000])
def test_a_tensor_may_be_its_own_operand(op: Op, size: int) -> None:
    """The kernel has read an element for the last time before it writes it."""
    dtype = torch.float32 if "f" in op.base.takes else torch.int64  # type: ignore[union-attr]
    start = torch.linspace(1, 9, size).to(dtype)
    numbers = [0.75 for a in op.schema.arguments if a.type in ("Scalar", "float")]
    positional = [a for a in op.schema.arguments[1:] if not a.kwarg_only]
    named = {a.python_name: 0.75 for a in op.schema.arguments if a.kwarg_only}

    def run(t: Any, operand: Any) -> Any:
        values = iter(numbers)
        return op.function(t, *(operand if a.is_tensor else next(values) for a in positional), **named)

    alone, apart = start.clone(), start.clone()
    assert run(alone, alone) is alone
    run(apart, start.clone())
    assert torch.equal(alone, apart)
    assert alone._version == 1


def test_a_tensor_that_is_its_own_operand_keeps_its_place_in_the_graph() -> None:
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    y = x * 1
    y.add_(y, alpha=2)
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


INTEGERS: list[tuple[Callable[[Any], Any], list[Any]]] = [
    (lambda k: k % 3, [1, 2, 0, 1, 2]),
    (lambda k: k**2, [4, 1, 0, 1, 4]),
    (lambda k: k**0, [1, 1, 1, 1, 1]),
    (lambda k: k.clamp(-1, 1), [-1, -1, 0, 1, 1]),
    (lambda k: k.clamp(min=0), [0, 0, 0, 1, 2]),
    (lambda k: k / 2, [-1.0, -0.5, 0.0, 0.5, 1.0]),
    (lambda k: k + 0.5, [-1.5, -0.5, 0.5, 1.5, 2.5]),
    (lambda k: k * 1.5, [-3.0, -1.5, 0.0, 1.5, 3.0]),
    (lambda k: k.min(), -2),
    (lambda k: k.max(), 2),
    (lambda k: k.sum(), 0),
]  # fmt: skip


@pytest.mark.parametrize(("call", "expected"), INTEGERS)
def test_integers_and_numbers(call: Callable[[Any], Any], expected: Any) -> None:
    k = torch.arange(-2, 3)
    got = call(k)
    assert got.tolist() == expected
    assert got.dtype is (torch.float32 if isinstance(np.ravel(expected)[0], np.floating) else torch.int64)
    assert call(torch.arange(-3, 3)[1:]).tolist() == expected  # a view


def test_integers_meet_numbers_in_the_default_dtype() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert (torch.arange(3) + 0.1).tolist() == [0.1, 1.1, 2.1]
    finally:
        torch.set_default_dtype(torch.float32)


def test_integers_without_short_way_say_what_they_said() -> None:
    k = torch.arange(4)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        k % 0
    with pytest.raises(RuntimeError, match="negative integer powers"):
        k**-1
    with pytest.raises(RuntimeError, match="At least one of 'min' or 'max'"):
        k.clamp()
    with pytest.raises(RuntimeError, match="without overflow"):
        k + 2**63


def test_a_scaled_sum_is_that_of_the_long_way() -> None:
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
    assert torch.add(x, y, alpha=2).tolist() == [7.0, 12.0]
    assert torch.sub(x, y, alpha=0.5).tolist() == [-0.5, -0.5]
    assert torch.add(torch.ones(2, 1), y, alpha=2).tolist() == [[7.0, 11.0]] * 2
    with pytest.raises(RuntimeError, match="must match the size"):
        torch.add(x, torch.ones(3), alpha=2)
    with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
        torch.add(torch.arange(2), torch.arange(2), alpha=0.5)


def test_bounds_keep_nan() -> None:
    got = torch.tensor([float("nan"), 2.0, -3.0]).clamp(0, 1)
    assert got[0].isnan()
    assert got[1:].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [4, 2000])
def test_signs_roots_and_bounds_of_floats(dtype: Any, size: int) -> None:
    x = torch.tensor([-4.0, -0.0, 0.25, float("nan")], dtype=dtype).repeat(size // 4)
    for t in (x, x.repeat_interleave(2)[::2]):
        assert t.sign()[:4].tolist() == [-1.0, 0.0, 1.0, 0.0]
        assert t.rsqrt()[1:3].tolist() == [-float("inf"), 2.0]
        assert t.clamp(-1, 0.125)[:3].tolist() == [-1.0, 0.0, 0.125]
        assert t.relu()[:3].tolist() == [0.0, 0.0, 0.25]
        assert t.clamp(max=0).isnan().sum() == size // 4
    assert torch.tensor(-2.0, dtype=dtype).sign().item() == -1.0


def test_memory_is_cleared_in_place() -> None:
    for dtype in (torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64, torch.int8):
        x = torch.ones(3, 4).to(dtype)
        assert x[:, 1].zero_().tolist() == [0, 0, 0]
        assert x.sum().item() == 9
        assert x.zero_() is x
        assert x.tolist() == torch.zeros(3, 4).to(dtype).tolist()
    assert torch.empty(0).zero_().shape == (0,)
    assert torch.ones(9000).zero_().sum() == 0


def test_truth_values_change_in_place() -> None:
    x, y = torch.tensor([True, True, False]), torch.tensor([True, False, False])
    assert x.logical_and_(y) is x
    assert x.tolist() == [True, False, False]
    assert x.logical_or_(torch.tensor([True])).tolist() == [True, True, True]
    assert x.eq_(y).tolist() == [True, False, False]
    assert torch.tensor([1.0, 0.0]).logical_and_(torch.tensor([True, True])).tolist() == [1.0, 0.0]
    assert x._version == 3


@pytest.mark.parametrize("number", [np.float64(2), np.float32(2), np.int64(2), np.uint8(2)])
def test_numbers_of_numpy_are_numbers(number: Any) -> None:
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    y = x * number / number + number
    assert y.dtype is torch.float32
    assert y.tolist() == [3.0, 5.0]
    assert (number - x).tolist() == [1.0, -1.0]
    assert (x < number).tolist() == [True, False]
    assert (x * number).grad_fn._saved_other == 2


def test_attributes_read_as_methods() -> None:
    x = torch.zeros(3, 4, dtype=torch.int16)
    part = x[1:, ::2].t()
    assert (part.stride(), part.stride(0), part.storage_offset(), part.is_contiguous()) == ((2, 4), 2, 4, False)
    assert (part.size(), part.size(-1), part.dim(), part.ndimension()) == ((2, 2), 2, 2, 2)
    assert (part.numel(), part.nelement(), part.element_size(), part.is_cuda) == (4, 4, 2, False)
    assert part.data_ptr() == x.data_ptr() + 8
    assert (torch.empty(2, 0).stride(), torch.empty(0).data_ptr(), torch.ones(()).stride()) == ((1, 1), 0, ())
    assert torch.Tensor.stride(x) == (4, 1)
    assert torch.ones(2, 2, device="meta").stride() == (2, 1)


RANGES: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((5,), {}), ((0,), {}), ((2, 7), {}), ((2, 9, 3), {}), ((2.5,), {}), ((0, 1, 0.25), {}), ((1.0, 4), {}),
    ((5,), {"dtype": torch.float32}), ((1, 5), {"dtype": torch.int32}), ((5,), {"dtype": torch.bfloat16}),
    ((5, 0, -2), {}), ((5,), {"device": "cpu"}), ((True,), {}),
]  # fmt: skip


@pytest.mark.parametrize(("args", "options"), RANGES)
def test_short_ranges_are_those_of_the_long_way(args: tuple[Any, ...], options: dict[str, Any]) -> None:
    short = torch.arange(*args, **options)
    given = dict(zip(("start", "end", "step") if len(args) > 1 else ("end",), args, strict=False))
    long = torch.arange(**given, **options)
    assert short.dtype is long.dtype
    assert torch.equal(short, long)


def test_new_tensors_of_all_spellings() -> None:
    x = torch.zeros(2, 3)
    for made in (
        torch.zeros((2, 3)), torch.zeros(2, 3, device="cpu"), torch.zeros([2, 3]), torch.zeros(x.shape),
        torch.zeros_like(x), x.new_zeros(2, 3), x.new_zeros((2, 3)), x.new_full((2, 3), 0.0), torch.full((2, 3), 0.0),
        torch.zeros(torch.tensor(2), 3), torch.full_like(x, 0), torch.zeros(2, 3, dtype=torch.float32),
    ):  # fmt: skip
        assert made.dtype is torch.float32
        assert torch.equal(made, x)
    assert torch.full((2,), 3).dtype is torch.int64
    assert torch.full((2,), True).dtype is torch.bool
    assert x.new_ones(2, dtype=torch.int64).tolist() == [1, 1]
    assert x.long().new_full((2,), 7).tolist() == [7, 7]
    assert torch.ones_like(x.t()).stride() == (1, 3)
    with pytest.raises(RuntimeError, match="negative dimension"):
        torch.zeros(-1)
    with pytest.raises(TypeError):
        torch.zeros(1.5)


def test_new_tensors_live_where_the_default_says() -> None:
    with torch.device("meta"):
        assert torch.zeros(2).is_meta
        assert torch.arange(3).is_meta
        assert torch.full((2,), 1.0).is_meta
    assert torch.ones(2, device="meta").is_meta


def test_parts_are_views_of_the_whole() -> None:
    x = torch.arange(12).reshape(3, 4)
    for part, expected in (
        (x.split(2)[1], x[2:]), (x.split(3, 1)[1], x[:, 3:]), (x.chunk(2, -1)[0], x[:, :2]), (x.unbind()[2], x[2]),
        (x.chunk(5)[2], x[2:]), (x.split(9)[0], x),
    ):  # fmt: skip
        assert torch.equal(part, expected)
        assert part.data_ptr() == expected.data_ptr()
        assert part._is_view()
    assert len(torch.zeros(0, 2).split(2)) == 1
    with pytest.raises(RuntimeError, match="greater than 0"):
        x.chunk(0)


def test_expanded_and_strided_views() -> None:
    b = torch.tensor([[1.0, 2.0, 3.0]])
    for wide in (b.expand(2, 3), b.expand(2, -1), b.expand((2, 3)), b.expand_as(torch.zeros(2, 3))):
        assert wide.tolist() == [[1.0, 2.0, 3.0]] * 2
        assert wide.stride() == (0, 1)
        assert wide.data_ptr() == b.data_ptr()
    assert b.t().expand(-1, 2).tolist() == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    with pytest.raises(RuntimeError, match="must match the existing size"):
        b.expand(2, 4)
    with pytest.raises(RuntimeError, match="non-existing dimension"):
        b.expand(-1, 1, 3)
    x = torch.arange(6.0)
    assert x.as_strided((2, 2), (3, 1)).tolist() == [[0.0, 1.0], [3.0, 4.0]]
    with pytest.raises(RuntimeError, match="out of bounds for storage"):
        x.as_strided((2, 4), (3, 1))


def test_conversions_to_what_a_tensor_is_already() -> None:
    x = torch.ones(2)
    assert x.to("cpu") is x
    assert x.to(torch.device("cpu")) is x
    assert x.to(torch.float32) is x
    assert x.float() is x
    assert x.cpu() is x
    assert x.contiguous() is x
    assert x.double().dtype is x.to(torch.float64).dtype is torch.float64
    assert x.to(torch.float32, copy=True) is not x
    y = torch.ones(2, requires_grad=True)
    y.double().sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]


SHAPES = [(1,), (7,), (2, 9), (3, 1), (5, 130), (4, 3, 8), (2, 3, 4, 5)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_have_the_bits_of_numpy(shape: tuple[int, ...], dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a = (rng.standard_normal(shape) * 10 ** rng.uniform(-3, 3, shape)).astype(dtype)
    for axis in range(-a.ndim, a.ndim):
        for x in (a, np.full(shape, -0.0, dtype)):
            for keepdim in (False, True):
                expected = np.add.reduce(x, axis, keepdims=keepdim)
                got = torch.from_numpy(x).sum(axis, keepdim=keepdim).numpy()
                if x.ndim > 1:
                    assert got.tobytes() == np.asarray(expected).tobytes()
                assert got.shape == np.shape(expected)


@pytest.mark.skipif(compiled.C is None, reason="the compiled kernels are not built")
def test_the_compiled_sum_refuses_what_it_does_not_take() -> None:
    x = np.ones((2, 3), np.float32)
    assert compiled.C.add_up(x, 1, False).tolist() == [3.0, 3.0]
    assert compiled.C.add_up(x.T, 0, False) is None
    assert compiled.C.add_up(x, 2, False) is None
    assert compiled.C.add_up(x, (0,), False) is None
    assert compiled.C.add_up(np.ones((129, 2), np.float32), 0, False) is None
    assert compiled.C.add_up(np.ones((0, 2), np.float32), 0, False) is None
    assert compiled.C.add_up(x.astype(np.int32), 1, False) is None


REDUCED = [(), (1,), (5,), (4, 3), (2, 3, 4), (3, 1, 5), (3, 200)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_])
@pytest.mark.parametrize("shape", REDUCED, ids=str)
def test_reductions_of_a_few_are_those_of_numpy(shape: tuple[int, ...], dtype: Any) -> None:
    a = np.asarray(np.random.default_rng(1).uniform(-2, 2, shape)).astype(dtype)
    x = torch.tensor(a)
    functions: dict[str, Any] = {"sum": np.sum, "all": np.all, "any": np.any, "amax": np.max, "amin": np.min}
    if dtype is not np.bool_:
        functions |= {"prod": np.prod, "argmax": np.argmax, "argmin": np.argmin}
    if dtype in (np.float32, np.float64):
        functions |= {
            "mean": np.mean,
            "norm": lambda a, axis=None, keepdims=False: np.sqrt(np.sum(a * a, axis, keepdims=keepdims)),
        }
    for name, expected in functions.items():
        np.testing.assert_allclose(getattr(x, name)().numpy(), expected(a), rtol=1e-5, atol=1e-6)
        for dim in range(-a.ndim, a.ndim):
            for keepdim in (False, True):
                got, wanted = getattr(x, name)(dim=dim, keepdim=keepdim), expected(a, axis=dim, keepdims=keepdim)
                assert got.shape == wanted.shape
                assert got.is_contiguous()
                np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5, atol=1e-6)
        with pytest.raises(IndexError):
            getattr(x, name)(dim=max(a.ndim, 1))
    if not shape:
        assert x.sum(-1).shape == x.amax(0).shape == x.max(0).indices.shape == ()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_])
@pytest.mark.parametrize("shape", [(), (5,), (4, 3), (2, 33, 3), (2, 100), (1, 1030)], ids=str)
def test_few_in_order(shape: tuple[int, ...], dtype: Any) -> None:
    a = np.asarray(np.random.default_rng(2).integers(-9, 9, shape)).astype(dtype)
    x = torch.tensor(a)
    for dim in range(-a.ndim, a.ndim):
        order = np.argsort(a, axis=dim, kind="stable")
        values, places = x.sort(dim)
        assert np.array_equal(places.numpy(), order)
        assert np.array_equal(values.numpy(), np.take_along_axis(a, order, dim))
        down = x.sort(dim, descending=True)
        assert np.array_equal(down.values.numpy(), np.flip(values.numpy(), dim))
        assert np.array_equal(np.take_along_axis(a, down.indices.numpy(), dim), down.values.numpy())
        assert np.array_equal(
            x.cumsum(dim).numpy(), np.cumsum(a, dim, dtype=None if dtype is not np.bool_ else np.int64)
        )
        if dtype is np.bool_:
            continue
        n = a.shape[dim]
        for k in (1, (n + 1) // 2):
            assert np.array_equal(x.topk(k, dim)[1].numpy(), down.indices.narrow(dim, 0, k).numpy())
            assert np.array_equal(x.kthvalue(k, dim)[0].numpy(), values.numpy().take(k - 1, dim))
        middle = x.median(dim, keepdim=True)
        assert np.array_equal(middle.values.numpy(), values.numpy().take([(n - 1) // 2], dim))
        assert np.array_equal(np.take_along_axis(a, middle.indices.numpy(), dim), middle.values.numpy())
    if dtype is not np.bool_:
        assert x.median().item() == np.sort(a.reshape(-1))[(a.size - 1) // 2]
    if not shape:
        assert (x.sort()[1].item(), x.cumsum(0).item()) == (0, int(a))
    with pytest.raises(RuntimeError):
        x.topk(2000)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_, np.int32])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (4, 3), (2, 3, 4), (3, 2000), (2, 0)], ids=str)
def test_places_of_what_is_not_zero(shape: tuple[int, ...], dtype: Any) -> None:
    a = np.asarray(np.random.default_rng(3).integers(0, 2, shape)).astype(dtype)
    for x, held in ((torch.tensor(a), a), (torch.tensor(a.T.copy()).permute(*range(a.ndim)[::-1]), a)) if shape else ():
        assert x.nonzero().tolist() == np.argwhere(held).tolist()
        assert [t.tolist() for t in torch.nonzero(x, as_tuple=True)] == [p.tolist() for p in held.nonzero()]
    if not shape:
        assert torch.tensor(a).nonzero().shape == (int(a), 0)


def test_a_vector_before_a_matrix() -> None:
    v, a = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert (v.detach() @ a).tolist() == (v @ a).tolist() == [9.0, 12.0, 15.0]
    assert (v @ a).grad_fn.name() == "SqueezeBackward4"
    (v @ a).sum().backward()
    assert v.grad.tolist() == [6.0, 15.0]
    with pytest.raises(RuntimeError):
        v.detach() @ torch.ones(3, 2)


def test_tensors_of_lists_of_lists() -> None:
    assert torch.tensor([[1.5, 2.0], [3.0, 4.0]]).tolist() == [[1.5, 2.0], [3.0, 4.0]]
    for data, dtype in (
        ([[1, 2]], torch.int64),
        ([[1, 2.5]], torch.float32),
        ([[True]], torch.bool),
        ([[], []], torch.float32),
    ):
        assert torch.tensor(data).dtype is dtype
    assert torch.tensor([[torch.tensor(1.0), 2.0]]).tolist() == [[1.0, 2.0]]
    with pytest.raises(ValueError, match="expected sequence of length 1"):
        torch.tensor([[1.0], [1.0, 2.0]])
    with pytest.raises(ValueError, match="Overflow"):
        torch.tensor([[2**63]])


def test_full_tensors_of_all_options() -> None:
    made = torch.full((2,), 1.5, dtype=torch.float64, requires_grad=True)
    assert (made.dtype, made.requires_grad, made.tolist()) == (torch.float64, True, [1.5, 1.5])
    assert torch.full((2,), 2, device="cpu").dtype is torch.int64
    assert torch.full((1,), 1.5, dtype=torch.int64).tolist() == [1]
    assert torch.full((1,), 2, dtype=torch.bool).tolist() == [True]
    assert torch.zeros([2, 3]).shape == (2, 3)
    m = torch.tensor([True, False])
    assert torch.where(m, 1.0, -2.0).tolist() == [1.0, -2.0]
    assert torch.where(m, 1.0, -2.0).dtype is torch.float32
    assert torch.where(m, 1, 2).dtype is torch.int64
    x = torch.ones(2, 2)
    assert torch.vstack([x, x[0]]).shape == (3, 2)
    assert torch.hstack([x, x]).shape == (2, 4)
    assert torch.ones(2, 3, 4).movedim(0, -1).shape == (3, 4, 2)


def test_nan_in_order() -> None:
    nan = float("nan")
    x = torch.tensor([2.0, nan, 1.0, nan, 3.0])
    assert x.sort()[1].tolist() == [2, 0, 4, 1, 3]
    assert x.sort(descending=True)[1].tolist() == [1, 3, 4, 0, 2]
    assert x.topk(2)[1].tolist() == [1, 3]
    assert x.median(0)[1].item() == 1
    assert x.median().isnan()
    assert x.kthvalue(3)[0].item() == 3.0


def test_rolled_and_turned() -> None:
    x = torch.arange(6).reshape(2, 3)
    assert x.roll(1).tolist() == [[5, 0, 1], [2, 3, 4]]
    assert x.roll(-1, 1).tolist() == [[1, 2, 0], [4, 5, 3]]
    assert x.roll((1, 2), (0, -1)).tolist() == [[4, 5, 3], [1, 2, 0]]
    assert x.t().roll(1).tolist() == [[5, 0], [3, 1], [4, 2]]
    assert x.roll(10**30).tolist() == x.roll(10**30 % 6).tolist()
    assert torch.empty(0, 3).roll(1).shape == (0, 3)
    assert x.flip(0, -1).tolist() == x.flip([1, 0]).tolist() == [[5, 4, 3], [2, 1, 0]]
    for call in (lambda: x.flip(2), lambda: x.roll(1, 2)):
        with pytest.raises(IndexError):
            call()


def test_log_sums_of_exponentials() -> None:
    inf = float("inf")
    x = torch.tensor([[1000.0, 1000.0], [-inf, -inf], [inf, 0.0], [0.0, float("nan")]])
    for dtype in (torch.float32, torch.float64):
        got = x.to(dtype).logsumexp(1)
        assert got.dtype is dtype
        assert got[0].item() == pytest.approx(1000 + np.log(2))
        assert got[1:3].tolist() == [-inf, inf]
        assert got[3].isnan()
        assert x.to(dtype).logsumexp(0, keepdim=True).shape == (1, 2)


@pytest.mark.parametrize("least", [False, True])
def test_the_first_nan_is_the_extreme_and_its_place(least: bool) -> None:
    nan = float("nan")
    x = torch.tensor([[1.0, nan, 3.0, nan], [2.0, 2.0, 1.0, 1.0]]).repeat(1, 30)
    values, places = x.min(1) if least else x.max(1)
    assert values[0].isnan()
    assert places.tolist() == [1, 2 if least else 0]
    assert (x.argmin(0) if least else x.argmax(0))[:4].tolist() == [0 if least else 1, 0, 1 if least else 0, 0]
    assert (x.argmin() if least else x.argmax()).item() == 1


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4)])
def test_moments_are_those_of_the_long_way(shape: tuple[int, ...]) -> None:
    a = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for dim, axis in ((None, None), (-1, -1), (a.ndim - 1, -1), (0, 0)):
        for keepdim in (False, True):
            got = moments.var(a, dim, 1, keepdim)
            expected = np.var(a, axis, ddof=1, keepdims=keepdim)
            assert got.shape == np.shape(expected)
            np.testing.assert_allclose(got, expected, 1e-5)


def test_extremes_and_truth_of_a_few() -> None:
    x = torch.tensor([[1.0, float("nan"), -2.0], [4.0, 0.0, 4.0]])
    assert x.min().isnan()
    assert x.amax(1)[0].isnan()
    assert x.amin(0, keepdim=True).shape == (1, 3)
    values, indices = x.max(1)
    assert indices.tolist() == [1, 0]
    assert values[1] == 4
    assert x.min(-1, keepdim=True).indices.tolist() == [[1], [1]]
    assert (x > 0).any(1).tolist() == [True, True]
    assert (x > 0).all(dim=0, keepdim=True).tolist() == [[True, False, False]]
    assert x.any()
    assert not x.all()
    assert torch.zeros(0).all()
    assert torch.ones(2, dtype=torch.uint8).all().dtype is torch.uint8
    with pytest.raises(IndexError):
        x.max(2)
    with pytest.raises(RuntimeError, match="numel\\(\\) == 0"):
        torch.zeros(0).min()


def test_numbers_drawn_in_pieces_are_those_drawn_at_once() -> None:
    sizes = [1, 3, 16, 5, 300, 311, 700, 2, 1024, 1, 1500, 7]
    engine, other = Engine(3), Engine(3)
    pieces = np.concatenate([engine.words32(n) for n in sizes])
    assert np.array_equal(pieces, other.words32(sum(sizes)))
    assert engine.save().tobytes() == other.save().tobytes()
    assert np.array_equal(engine.words64(1100), other.words64(1100))
    engine.words32(1)  # what was read ahead is odd now
    other.words32(1)
    assert np.array_equal(engine.words64(2000), np.concatenate([other.words64(n) for n in (3, 1024, 973)]))
    assert engine.save().tobytes() == other.save().tobytes()


def test_a_state_is_that_of_what_was_handed_out() -> None:
    """Words that were only read ahead count as not drawn."""
    engine = Engine(5)
    engine.floats(7)
    saved = engine.save()
    following = engine.doubles(9)
    engine.load(saved)
    assert np.array_equal(engine.doubles(9), following)
    fresh = Engine(5)
    fresh.words32(7)
    assert fresh.save().tobytes() == saved.tobytes()


@pytest.mark.skipif(compiled.C is None, reason="the compiled kernels are not built")
def test_the_compiled_stream() -> None:
    numpys = np.random.RandomState(7)
    words = numpys.randint(0, 1 << 32, 2000, np.uint32).astype(np.int64)
    stream, drawn = np.zeros(316, np.int64), np.empty(1500, np.int64)
    single, twice = np.empty(100, np.float32), np.empty((4, 50))
    assert compiled.C.seed_words(stream, 7) is True
    assert stream[312:315].tolist() == [624, 0, 0]
    assert compiled.C.random_words(stream, drawn) is True
    assert stream[312:315].tolist() == [1500 - 2 * 624, 1, 0]
    assert np.array_equal(drawn, words[:1500])
    assert compiled.C.random_words(stream, single) is True
    assert single.tolist() == [(w & 0xFFFFFF) * 2.0**-24 for w in words[1500:1600].tolist()]
    assert compiled.C.random_words(stream, twice) is True
    assert stream[312] == 2000 - 3 * 624
    pairs = words[1600:].reshape(-1, 2).tolist()
    assert twice.reshape(-1).tolist() == [((high & 0x1FFFFF) << 32 | low) * 2.0**-53 for high, low in pairs]
    for place in (-1, 625):
        stream[312] = place
        assert compiled.C.random_words(stream, single) is False
    assert compiled.C.random_words(stream[:-1], single) is False


@pytest.mark.skipif(compiled.C is None, reason="the kernels are not built here")
def test_what_is_poured_is_what_is_drawn_word_by_word() -> None:
    poured, drawn = Engine(3), Engine(3)
    drawn._block = None
    for n in (1, 7, 624, 2000):
        whole = np.empty(n, np.int64)
        assert poured.pour_integers(whole, -2, 9)
        assert (whole == drawn.words(n) % 9 - 2).all()
        order = np.empty(n + 1, np.int64)
        assert poured.pour_order(order)
        targets = drawn.words32(n) % np.arange(n + 1, 1, -1, dtype=np.uint32) + np.arange(n, dtype=np.uint32)
        assert (order == permutation.apply_swaps(n + 1, targets)).all()
    for n in (1, 2, 15):
        few = np.empty(n)
        assert poured.pour_normal(few)
        assert few.tolist() == continuous.standard_normals(drawn, n).tolist()
        assert poured.next_normal == drawn.next_normal
    assert (poured.save() == drawn.save()).all()
    assert not poured.pour_normal(np.empty(0))
    assert not poured.pour_uniform(np.empty(0, np.float32))


def test_random_tensors_of_every_spelling() -> None:
    def seeded(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        torch.manual_seed(0)
        return function(*args, **kwargs)

    for function in (torch.rand, torch.randn):
        wanted = seeded(function, [2, 3])
        assert torch.equal(seeded(function, 2, 3), wanted)
        assert torch.equal(seeded(function, (2, 3)), wanted)
        assert torch.equal(seeded(function, size=(2, 3)), wanted)
        assert torch.equal(function(2, 3, generator=torch.Generator().manual_seed(0)), wanted)
        assert function(()).shape == ()
        assert function(0, 3).shape == (0, 3)
        assert function(2, requires_grad=True).requires_grad
        assert function(2, dtype=torch.float64).dtype is torch.float64
        with pytest.raises(RuntimeError, match="negative dimension"):
            function(-1)
        with pytest.raises(TypeError):
            function(2.5)
    wanted = seeded(torch.randint, 0, 9, [3])
    assert torch.equal(seeded(torch.randint, 9, (3,)), wanted)
    assert torch.equal(torch.randint(9, (3,), generator=torch.Generator().manual_seed(0)), wanted)
    with pytest.raises(RuntimeError, match="negative dimension"):
        torch.randint(9, (-1,))
    assert sorted(torch.randperm(5).tolist()) == [0, 1, 2, 3, 4]
    assert torch.randperm(3, dtype=torch.float32).dtype is torch.float32
    assert torch.normal(2.0, 0.0, (3,)).tolist() == [2.0, 2.0, 2.0]


def test_an_index_with_none() -> None:
    x = torch.arange(24).reshape(2, 3, 4)
    for index, shape, stride in (
        ((slice(None), None), (2, 1, 3, 4), (12, 12, 4, 1)),
        ((Ellipsis, None), (2, 3, 4, 1), (12, 4, 1, 1)),
        ((0, slice(1, 3), None), (2, 1, 4), (4, 4, 1)),
        ((None, Ellipsis), (1, 2, 3, 4), (24, 12, 4, 1)),
        ((slice(None), -1, None, slice(None)), (2, 1, 4), (12, 4, 1)),
    ):
        got = x[index]
        assert got.shape == shape
        assert got.stride() == stride
        assert np.array_equal(got.numpy(), x.numpy()[index])
    with pytest.raises(IndexError, match="too many indices"):
        x[..., None, :, :, :, :]


def test_an_index_of_tensors_and_arrays() -> None:
    a = np.arange(24).reshape(2, 3, 4)
    i, j, m = np.array([1, 0]), np.array([-1]), np.array([True, False, True])
    tensors = {id(i): torch.tensor(i), id(j): torch.tensor(j, dtype=torch.int32), id(m): torch.tensor(m)}
    cases: list[tuple[Any, ...]] = [
        (i,), (i, i), (slice(None), i), (Ellipsis, i), (i, Ellipsis, i), (slice(1), slice(None), j), (i, slice(None), i),
        (slice(None), m), (slice(None), m, slice(0, 2)), (slice(None), m, Ellipsis), (i[:, None], j), (slice(None, None, 2), i),
    ]  # fmt: skip
    for case in cases:
        for convert in (lambda part: tensors.get(id(part), part), lambda part: part):
            x, wanted = torch.tensor(a), a.copy()
            index = tuple(convert(part) for part in case)
            got = x[index]
            assert got.tolist() == a[case].tolist()
            assert got.is_contiguous()
            assert not got._is_view()
            x[index] = 7
            wanted[case] = 7
            assert x.tolist() == wanted.tolist()
            assert x._version == 1
    x = torch.tensor(a)
    assert x[torch.tensor(1), torch.tensor([0, 2])].tolist() == a[1][[0, 2]].tolist()
    assert (
        x[0, :, torch.tensor([1, 2])].tolist() == a[0][:, [1, 2]].tolist()
    )  # where NumPy would put the new dimension first
    assert x[torch.tensor(1)]._is_view()
    for wrong in ((torch.tensor([5]),), (torch.tensor([True]),), (torch.tensor([0]),) * 4):
        with pytest.raises(IndexError):
            x[wrong]
        with pytest.raises(IndexError):
            x[wrong] = 0
    assert x._version == 0


def test_one_hot_codes_padding_and_logic_of_a_few() -> None:
    one_hot, pad = torch.nn.functional.one_hot, torch.nn.functional.pad
    assert one_hot(torch.tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert one_hot(torch.tensor([[1]]), 2).tolist() == [[[0, 1]]]
    for bad, text in ((torch.tensor([-1]), "non-negative"), (torch.tensor([2]), "smaller than num_classes")):
        with pytest.raises(RuntimeError, match=text):
            one_hot(bad, 2)
    x = torch.ones(2, 2)
    assert pad(x, (1, 0), value=3.0).tolist() == [[3.0, 1.0, 1.0]] * 2
    assert pad(x, (0, -1)).shape == (2, 1)
    assert pad(x, (0, 0, 1, 1)).shape == (4, 2)
    c = torch.tensor([True, False])
    assert (c & ~c).tolist() == (c ^ c).tolist() == [False, False]
    assert (torch.tensor([1, 2]) & 1).tolist() == [1, 0]
    assert (c | c.long()).dtype is torch.int64
    with pytest.raises(TypeError):
        c & "text"
    assert torch.equal(x, x.clone())
    assert not torch.equal(x, torch.full((2, 2), float("nan")))
    assert not torch.equal(x, torch.ones(2))


def test_masked_fills_of_one_shape() -> None:
    x, mask = torch.arange(4.0).reshape(2, 2), torch.tensor([[True, False], [False, True]])
    assert x.masked_fill(mask, -1).tolist() == [[-1.0, 1.0], [2.0, -1.0]]
    assert x.t().masked_fill_(mask, float("inf")).tolist() == [[float("inf"), 2.0], [1.0, float("inf")]]
    assert x.masked_fill(mask[0], 9.0).tolist() == [[9.0, 1.0], [9.0, float("inf")]]
    with pytest.raises(RuntimeError, match="boolean masks"):
        x.masked_fill(x, 0)


def test_in_place_by_way_of_the_functional_form_writes_through_views() -> None:
    x = torch.arange(16.0).reshape(4, 4)
    half = x[:, :2]
    version = x._version
    assert half.tril_() is half
    assert x[:, :2].tolist() == torch.arange(16.0).reshape(4, 4)[:, :2].tril().tolist()
    assert x[0, 3] == 3.0
    assert x._version == version + 1


def test_in_place_on_repeated_memory_is_refused() -> None:
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.ones(4).expand(4, 4).cumsum_(0)


def test_in_place_by_way_of_the_functional_form_joins_the_graph() -> None:
    x = torch.ones(2, 2, requires_grad=True)
    y = (x * 1.0).cumsum_(0)
    y.sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0], [1.0, 1.0]]


@pytest.mark.parametrize("out", [torch.float32, torch.float64])
def test_out_of_views_that_share_no_memory(out: torch.dtype) -> None:
    x = torch.arange(16.0).reshape(4, 4)
    into = torch.zeros(4, 4, dtype=out)
    assert torch.cat((x[2:], x[:2]), out=into) is into
    assert into.tolist() == [*x[2:].tolist(), *x[:2].tolist()]


def test_several_outs_are_written() -> None:
    x = torch.tensor([[1.0, 3.0], [4.0, 2.0]])
    values, places = torch.empty(2), torch.empty(2, dtype=torch.int64)
    found = torch.max(x, 1, out=(values, places))
    assert found.values is values
    assert found.indices is places
    assert values.tolist() == [3.0, 4.0]
    assert places.tolist() == [1, 0]


def test_sums_are_computed_in_the_dtype_of_out() -> None:
    x = torch.full((3,), 100, dtype=torch.uint8)
    assert torch.sum(x, 0, out=torch.empty((), dtype=torch.uint8)).item() == 44
    assert torch.sum(x, 0, out=torch.empty((), dtype=torch.float32)).item() == 300.0


def test_a_number_and_out() -> None:
    x, out = torch.tensor([1.0, 2.0]), torch.empty(2)
    assert torch.div(x, 0.0, out=out).tolist() == [float("inf")] * 2
    assert torch.mul(x, 2, out=x).tolist() == [2.0, 4.0]
    with pytest.raises(RuntimeError):
        torch.mul(torch.ones(2, requires_grad=True), 2, out=out)


def test_setting_attributes_to_what_they_are() -> None:
    x = torch.ones(2)
    x.requires_grad = False
    assert not x.requires_grad
    x.requires_grad = True
    leaf = x._ag
    x.requires_grad = True
    assert x._ag is leaf
    x.grad = torch.ones(2)
    x.grad = None
    assert x.grad is None
    with pytest.raises(RuntimeError, match="leaf"):
        (x * 2).requires_grad = False


def test_sizes_and_dimensions_may_be_lists() -> None:
    assert torch.Size([2, 3]) == torch.Size((2, 3))
    assert torch.zeros(2, 3, 4).amax([1, 2]).shape == (2,)
    assert torch.ones(2, 3, 4).sum([0, 2]).tolist() == [8.0] * 3
    assert torch.ones(2, 3).amax(()).item() == 1.0
    with pytest.raises(RuntimeError, match="multiple times"):
        torch.ones(2, 3).sum((0, 0))


@pytest.mark.parametrize("function", ["matmul", "add", "exp", "softmax"])
def test_under_autocast_ops_are_run_by_the_rules_with_a_graph(function: str) -> None:
    x = torch.ones(2, 2, requires_grad=True)
    given = {"matmul": (x, x), "add": (x, 1), "exp": (x,), "softmax": (x, 1)}[function]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = getattr(torch, function)(*given)
    assert made.dtype is (torch.bfloat16 if function == "matmul" else torch.float32)
    made.float().sum().backward()
    assert x.grad.dtype is torch.float32


def test_autocast_offers_subclasses_their_calls() -> None:
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func.__name__

    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.add(torch.ones(2).as_subclass(Loud), 1) == "add"
        assert torch.matmul(torch.ones(2, 2).as_subclass(Loud), torch.ones(2, 2)) == "matmul"


def test_floats_are_filled_with_the_integers_that_integers_are() -> None:
    torch.manual_seed(5)
    whole = torch.empty(20, dtype=torch.int64).random_(-3, 9)
    torch.manual_seed(5)
    assert torch.empty(20).random_(-3, 9).tolist() == whole.tolist()


def test_diagonals_and_their_matrices() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.diag(x).tolist() == [0.0, 4.0]
    assert torch.diag(x, 1).tolist() == [1.0, 5.0]
    assert torch.diag(torch.tensor([1.0, 2.0])).tolist() == [[1.0, 0.0], [0.0, 2.0]]
    assert torch.diag(torch.empty(0)).shape == (0, 0)
    assert torch.outer(x[0], x[1]).tolist() == [[0.0, 0.0, 0.0], [3.0, 4.0, 5.0], [6.0, 8.0, 10.0]]
    assert torch.tril_indices(2, 3, dtype=torch.int32).tolist() == [[0, 1, 1], [0, 0, 1]]
