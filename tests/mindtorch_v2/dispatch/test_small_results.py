"""Small calls by spellings that go the fast way too: `axis=`, and results for tensors that are there."""

from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.core import tap
from mindtorch_v2.kernels.compiled import C
from mindtorch_v2.nn import functional as F


def refused(*args: Any) -> Any:
    raise AssertionError("the slow path was taken")


@pytest.mark.parametrize(
    ("ident", "call"),
    [
        ("cat", lambda x, **dim: torch.cat((x, x), **dim)),
        ("stack", lambda x, **dim: torch.stack((x, x), **dim)),
        ("argmax", lambda x, **dim: x.argmax(**dim)),
        ("index_select", lambda x, **dim: torch.index_select(x, index=torch.tensor([1, 0]), **dim)),
        ("amax", lambda x, **dim: x.amax(**dim)),
    ],
)
def test_numpys_spellings_take_the_fast_path(ident: str, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    wanted = call(x, dim=1)
    monkeypatch.setitem(tap.NAMESPACE, f"S_{ident}", refused)
    assert torch.equal(call(x, axis=1), wanted)


OUTS = [
    lambda x, y, **out: torch.add(x, y, **out),
    lambda x, y, **out: torch.mul(x, y, **out),
    lambda x, y, **out: torch.div(x, y, **out),
    lambda x, y, **out: torch.log(x, **out),
    lambda x, y, **out: torch.clamp(x, 0, 1, **out),
    lambda x, y, **out: torch.matmul(x, y, **out),
    lambda x, y, **out: torch.cat((x, y), **out),
    lambda x, y, **out: torch.softmax(x, 1, **out),
    lambda x, y, **out: torch.cumsum(x, 0, **out),
    lambda x, y, **out: torch.cumsum(x, axis=0, **out),
    lambda x, y, **out: torch.gt(x, y, **out),
]


@pytest.mark.parametrize("call", OUTS)
def test_results_for_tensors_that_are_there(call: Any) -> None:
    x, y = torch.tensor([[-1.0, 0.5], [2.0, 3.0]]), torch.tensor([[0.0, 2.0], [1.0, 3.0]])
    wanted = call(x, y)
    out = torch.zeros_like(wanted)
    version, held = out._version, out.numpy()
    assert call(x, y, out=out) is out
    assert np.array_equal(out.numpy(), wanted.numpy(), equal_nan=True)
    assert held is out.numpy() or np.shares_memory(held, out.numpy())
    assert out._version > version
    # A view, and a tensor of another shape or layout.
    rows = torch.zeros(3, *wanted.shape, dtype=wanted.dtype)
    call(x, y, out=rows[1])
    assert np.array_equal(rows[1].numpy(), wanted.numpy(), equal_nan=True)
    assert not rows[0].any()
    assert not rows[2].any()
    turned = torch.zeros(wanted.shape[::-1], dtype=wanted.dtype).t()
    call(x, y, out=turned)
    assert np.array_equal(turned.numpy(), wanted.numpy(), equal_nan=True)
    resized = torch.empty(0, dtype=wanted.dtype)
    call(x, y, out=resized)
    assert np.array_equal(resized.numpy(), wanted.numpy(), equal_nan=True)
    if wanted.dtype is torch.bool:
        return
    # Nothing that is differentiated.
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        call(x.clone().requires_grad_(), y, out=out)
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        call(x, y, out=torch.zeros(wanted.shape, requires_grad=True))


def test_results_on_an_operand() -> None:
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
    assert torch.mul(x, y, out=x) is x
    assert x.tolist() == [3, 10]
    torch.sub(y, x.detach(), out=x)
    assert x.tolist() == [0, -5]
    square = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    torch.matmul(square, square, out=square)
    assert square.tolist() == [[7, 10], [15, 22]]
    memory = np.arange(3.0)
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.exp(torch.from_numpy(memory[:2]), out=torch.from_numpy(memory[1:]))


def test_results_of_another_dtype() -> None:
    x = torch.tensor([1.5, 2.5])
    assert torch.add(x, x, out=torch.zeros(2, dtype=torch.float64)).tolist() == [3, 5]
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.add(x, x, out=torch.zeros(2, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        torch.mm(x[None], x[:, None], out=torch.zeros(1, 1, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(2, 4), (3, 4, 2), (4,), (2, 4, 6)])
def test_gates_and_slopes_of_few_elements(dtype: Any, shape: tuple[int, ...]) -> None:
    x = torch.arange(-3.0, torch.Size(shape).numel() - 3, dtype=dtype).reshape(shape) / 4
    for dim in (-1, 0, len(shape) - 1):
        if shape[dim] % 2 == 0:
            first, gate = np.split(x.numpy().astype(np.float64), 2, dim)
            np.testing.assert_allclose(F.glu(x, dim).numpy(), first / (1 + np.exp(-gate)), 1e-6)
        else:
            with pytest.raises(RuntimeError, match="Halving dimension must be even"):
                F.glu(x, dim)
    with pytest.raises(IndexError):
        F.glu(x, 7)
    assert F.glu(x.to("meta")[..., :2], -1).shape == (*shape[:-1], 1)
    far = torch.tensor([[1.0, -1000.0], [2.0, 1000.0]], dtype=dtype)
    assert F.glu(far).tolist() == [[0], [2]]
    assert F.glu(far.t(), 0).tolist() == [[0, 2]]
    assert F.glu(far.half()).tolist() == [[0], [2]]
    for weight in ([0.25], [-2.0], [0.5, -1.0, 2.0, 0.0]):
        slopes = np.array(weight)
        if len(weight) > 1 and len(shape) == 1:
            with pytest.raises(RuntimeError, match="Mismatch of parameter numbers"):
                F.prelu(x, torch.tensor(weight, dtype=dtype))
            continue
        by_channel = slopes.reshape(-1, *[1] * (len(shape) - 2)) if len(weight) > 1 else slopes
        wanted = np.where(x.numpy() > 0, x.numpy(), x.numpy() * by_channel)
        given = torch.tensor(weight, dtype=dtype)
        np.testing.assert_allclose(F.prelu(x, given).numpy(), wanted, 1e-6)
        np.testing.assert_allclose(F.prelu(x.requires_grad_(), given).detach().numpy(), wanted, 1e-6)
        x = x.detach()
    with pytest.raises(RuntimeError, match="Type promoting not supported"):
        F.prelu(x, torch.ones(1, dtype=torch.float16))


@pytest.mark.skipif(C is None, reason="the kernels are not built here")
def test_what_the_small_loops_do_not_take() -> None:
    x, whole = np.ones((2, 4), np.float32), np.ones((2, 4), np.int64)
    assert C.glu(x, 2) is None
    assert C.glu(x, -3) is None
    assert C.glu(x, 1 << 70) is None
    assert C.glu(x[:, :3].copy(), 1) is None
    assert C.glu(whole, 1) is None
    assert C.glu(x.T, 0) is None
    assert C.prelu(x, np.ones(2, np.float32)) is None
    assert C.prelu(x, np.ones(4)) is None
    assert C.prelu(x[0], np.ones(4, np.float32)) is None
    assert C.prelu(x, np.ones(0, np.float32)) is None
    assert C.isin(x, whole, False) is None
    assert C.isin(x.T, x, False) is None


def test_few_elements_among_others() -> None:
    for dtype in (torch.float32, torch.float64, torch.int64, torch.int32):
        x = torch.tensor([[0, 1], [2, 3]], dtype=dtype)
        assert torch.isin(x, torch.tensor([3, 0], dtype=dtype)).tolist() == [[True, False], [False, True]]
        assert torch.isin(x.t(), torch.tensor(1, dtype=dtype), invert=True).tolist() == [[True, True], [False, True]]
        assert not torch.isin(x, torch.tensor([], dtype=dtype)).any()
    assert not torch.isin(torch.tensor([float("nan")]), torch.tensor([float("nan")])).any()


def test_rows_are_pooled_as_windows_of_one_row() -> None:
    x = torch.tensor([[1.0, 5.0, 2.0, float("nan"), 3.0, 0.0, 4.0]])
    assert F.max_pool1d(x, 2, 1)[:, :2].tolist() == [[5, 5]]
    assert F.max_pool1d(x[:, 4:], 2, 2, 1).tolist() == [[3, 4]]
    assert F.max_pool1d(x[:, 4:], 2, ceil_mode=True).tolist() == [[3, 4]]
    assert F.max_pool1d(x[:, :3].unsqueeze(0), 2, 1, dilation=2).tolist() == [[[2]]]
    assert torch.max_pool1d(x[:, 4:], (2,), (1,), [0], [1]).tolist() == [[3, 4]]
    assert F.avg_pool1d(x[:, :3], 2, 1).tolist() == [[3, 3.5]]
    assert F.avg_pool1d(x[:, :3], 2, 2, 1).tolist() == [[0.5, 3.5]]
    assert F.avg_pool1d(x[:, :3], 2, 2, 1, count_include_pad=False).tolist() == [[1, 3.5]]
    for dims in ((4,), (2, 2, 2, 4)):
        with pytest.raises(RuntimeError):
            F.max_pool1d(torch.zeros(dims), 9)
    for call in (F.max_pool1d, F.avg_pool1d):
        tracked = x[:, :3].clone().requires_grad_()
        call(tracked, 2, 1).sum().backward()
        assert torch.equal(call(tracked, 2, 1), call(tracked.detach(), 2, 1))
        assert tracked.grad is not None


def test_few_elements_mirrored() -> None:
    x = torch.arange(6).reshape(1, 2, 3)
    for dtype in (torch.float32, torch.int64):
        given = x.to(dtype)
        assert F.pad(given, (1, 2), mode="reflect")[0].tolist() == [[1, 0, 1, 2, 1, 0], [4, 3, 4, 5, 4, 3]]
        assert F.pad(given, (1, 0), mode="replicate")[0].tolist() == [[0, 0, 1, 2], [3, 3, 4, 5]]
        assert F.pad(given, (9, 0), mode="replicate").shape == (1, 2, 12)
        assert F.pad(given, (-1, 1), mode="replicate")[0].tolist() == [[1, 2, 2], [4, 5, 5]]
    with pytest.raises(RuntimeError, match="Padding size should be less"):
        F.pad(x.float(), (3, 0), mode="reflect")
    tracked = x.float().requires_grad_()
    F.pad(tracked, (1, 2), mode="reflect").sum().backward()
    assert tracked.grad is not None
    assert tracked.grad[0, 0].tolist() == [2, 3, 1]


def test_sequences_of_several_lengths() -> None:
    short, long = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0, 5.0])
    pad = torch.nn.utils.rnn.pad_sequence
    assert pad([short, long], True).tolist() == [[1, 2, 0], [3, 4, 5]]
    assert pad([short, long], padding_value=9).tolist() == [[1, 3], [2, 4], [9, 5]]
    assert pad([short, long], True, -1.0, "left").tolist() == [[-1, 1, 2], [3, 4, 5]]
    assert pad([short, long]).is_contiguous()
    assert pad([short, long.double()], True).dtype is torch.float32
    tracked = short.clone().requires_grad_()
    pad([tracked, long], True).sum().backward()
    assert tracked.grad is not None
    with pytest.raises(RuntimeError):
        pad([torch.ones(2, 2), torch.ones(3, 3)])


def test_few_columns_selected() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    for dim in (1, -1):
        assert x.index_select(dim, torch.tensor([2, 0])).tolist() == [[2, 0], [5, 3]]
        assert x.t().index_select(dim, torch.tensor([1])).tolist() == [[3], [4], [5]]
        for index in ([3], [-1]):
            with pytest.raises(RuntimeError, match="out of DATA bounds"):
                x.index_select(dim, torch.tensor(index))
        with pytest.raises(IndexError, match="supposed to be a vector"):
            x.index_select(dim, torch.tensor([[0]]))
    with pytest.raises(IndexError):
        x.index_select(2, torch.tensor([0]))
    assert torch.tensor(5.0).index_select(-1, torch.tensor([0])).tolist() == 5


def test_small_matrices_with_ones_on_the_diagonal() -> None:
    for n, m in ((1, 1), (3, 3), (2, 4), (4, 2), (0, 2), (70, 3)):
        made = torch.eye(n, m)
        assert np.array_equal(made.numpy(), np.eye(n, m, dtype=np.float32))
        assert made.dtype is torch.float32
    assert torch.eye(2, dtype=torch.bool).tolist() == [[True, False], [False, True]]
    assert torch.eye(2, requires_grad=True).requires_grad
    assert torch.eye(2, device="meta").is_meta
    with pytest.raises(RuntimeError):
        torch.eye(-1)


@pytest.mark.parametrize("slope", [-2.0, 0.25, 3.0])
def test_prelu_of_a_single_number(slope: float) -> None:
    x = torch.tensor([-3.0, 2.0])
    results = [torch.nn.functional.prelu(part, torch.tensor([slope])).item() for part in x]
    assert results == [-3.0 * slope, 2.0]


@pytest.mark.parametrize("slope", [-2.0, 0.25])
def test_slopes_of_more_dimensions_than_the_input_widen_the_result(slope: float) -> None:
    made = torch._prelu_kernel(torch.tensor([-4.0, 2.0]), torch.tensor([[slope]]))
    assert made.tolist() == [[-4.0 * slope, 2.0]]
