"""Indexing: what an index means, what is written where, gradients, errors; and reading and writing along a dimension."""

import numpy as np
import pytest

import mindtorch_v2 as torch


def grid(*shape):
    return torch.arange(float(np.prod(shape))).reshape(*shape)


READS = {
    "int": (lambda x: x[1], [4, 5, 6, 7]),
    "negative": (lambda x: x[-1, -2], 10),
    "slice": (lambda x: x[1:, ::2], [[4, 6], [8, 10]]),
    "slice beyond": (lambda x: x[2:9, 3:], [[11]]),
    "ellipsis": (lambda x: x[..., 0], [0, 4, 8]),
    "none": (lambda x: x[0, None, :2], [[0, 1]]),
    "true": (lambda x: x[True, 0, 0], [0]),
    "false": (lambda x: x[False, 0, 0], []),
    "list": (lambda x: x[[0, 2], 1], [1, 9]),
    "empty list": (lambda x: x[[]], []),
    "tensor": (lambda x: x[torch.tensor([[0], [2]]), torch.tensor([1, 3])], [[1, 3], [9, 11]]),
    "int32": (lambda x: x[torch.tensor([1, 1], dtype=torch.int32), 0], [4, 4]),
    "numpy": (lambda x: x[np.array([2, 0]), np.int64(1)], [9, 1]),
    "scalar tensor": (lambda x: x[torch.tensor(1), 2], 6),
    "mask": (lambda x: x[x > 8], [9, 10, 11]),
    "mask of rows": (lambda x: x[torch.tensor([True, False, True]), 1], [1, 9]),
    "mask and slice": (lambda x: x[torch.tensor([False, True, False]), 1:3], [[5, 6]]),
    "mask as list": (lambda x: x[[False, False, True]], [[8, 9, 10, 11]]),
    "separate": (lambda x: x.reshape(3, 2, 2)[[0, 1], :, [1, 0]], [[1, 3], [4, 6]]),
    "slice by tensor": (lambda x: x[torch.tensor(2) :, 0], [8]),
    "range": (lambda x: x[range(2), 0], [0, 4]),
}


@pytest.mark.parametrize("name", READS)
def test_reading(name):
    read, expected = READS[name]
    assert read(grid(3, 4)).tolist() == expected


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        (3, IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
        ((0, -5), IndexError, "index -5 is out of bounds for dimension 1 with size 4"),
        ((0, 0, 0), IndexError, "too many indices for tensor of dimension 2"),
        (slice(None, None, -1), ValueError, "step must be greater than zero"),
        (slice(None, None, 0), ValueError, "slice step cannot be zero"),
        ((torch.tensor([0]), slice(None, None, -1)), ValueError, "step must be greater than zero"),
        ((torch.tensor([0]), slice(None, None, 0)), ValueError, "slice step cannot be zero"),
        (1.5, IndexError, r"only integers, slices .* are valid indices \(got float\)"),
        ("a", TypeError, "invalid data type 'str'"),
        ([0, 3], IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
        ([[0, 1], [0, 1, 2]], IndexError, r"could not be broadcast together with shapes \[2\], \[3\]"),
    ],
)
@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_what_cannot_be_read(index, error, text):
    with pytest.raises(error, match=text):
        grid(3, 4)[index]


def test_masks_and_indices_of_other_kinds_are_refused():
    x = grid(3, 4)
    with pytest.raises(IndexError, match="long, int, byte or bool"):
        x[torch.tensor([0.0])]
    with pytest.raises(IndexError, match="long, int, byte or bool"):
        x[torch.tensor([0], dtype=torch.int16)]
    with pytest.raises(IndexError, match=r"The shape of the mask \[2\] at index 0 does not match"):
        x[torch.tensor([True, False])]
    with pytest.warns(UserWarning, match="torch.uint8 is now deprecated"):
        assert x[torch.tensor([0, 1, 0], dtype=torch.uint8)].tolist() == [[4, 5, 6, 7]]


def test_a_scalar_is_indexed_by_nothing_only():
    x = torch.tensor(3.0)
    assert x[...].item() == x[()].item() == 3
    assert x[None].shape == (1,)
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        x[0]
    with pytest.raises(IndexError, match=r"slice\(\) cannot be applied to a 0-dim tensor"):
        x[:]


def test_simple_indices_give_views_and_others_copies():
    x = grid(3, 4)
    for index in (0, slice(1, 2), (0, 1), (slice(None), 2), None, Ellipsis, (), (0, None)):
        assert x[index]._base is x._base
    for index in ([0], torch.tensor([0]), x > 3, True):
        assert not x[index]._is_view()


WRITES = {
    "int": (0, 9.0, [[9, 9, 9], [3, 4, 5]]),
    "element": ((1, 2), 9, [[0, 1, 2], [3, 4, 9]]),
    "row": (1, [7.0, 8.0, 9.0], [[0, 1, 2], [7, 8, 9]]),
    "column": ((slice(None), 1), 9.0, [[0, 9, 2], [3, 9, 5]]),
    "broadcast": (slice(None), [[1.0], [2.0]], [[1, 1, 1], [2, 2, 2]]),
    "leading ones": (0, [[[7.0, 8.0, 9.0]]], [[7, 8, 9], [3, 4, 5]]),
    "ellipsis": (Ellipsis, 1.0, [[1, 1, 1], [1, 1, 1]]),
    "none": (None, 1.0, [[1, 1, 1], [1, 1, 1]]),
    "nothing": (False, 1.0, [[0, 1, 2], [3, 4, 5]]),
    "list": ([1], 9.0, [[0, 1, 2], [9, 9, 9]]),
    "pairs": (([0, 1], [2, 0]), [7.0, 8.0], [[0, 1, 7], [8, 4, 5]]),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("tracked", [False, True])
def test_writing(name, tracked):
    index, value, expected = WRITES[name]
    x = grid(2, 3).requires_grad_() * 1 if tracked else grid(2, 3)
    x[index] = torch.tensor(value) if isinstance(value, list) else value
    assert x.tolist() == expected
    assert x._version == (0 if name == "nothing" else 1)


def test_writing_by_mask():
    x = grid(2, 3)
    x[x > 3] = 0
    assert x.tolist() == [[0, 1, 2], [3, 0, 0]]
    x[x == 0] = torch.tensor([7.0, 8.0, 9.0])
    assert x.tolist() == [[7, 1, 2], [3, 8, 9]]
    x[torch.tensor([True, False])] = torch.tensor(5)
    assert x.tolist() == [[5, 5, 5], [3, 8, 9]]


@pytest.mark.parametrize(
    ("index", "value", "error", "text"),
    [
        (0, [1, 2], TypeError, "can't assign a list to a torch.FloatTensor"),
        (0, np.ones(3), TypeError, "can't assign a numpy.ndarray"),
        (0, torch.ones(2), RuntimeError, r"The expanded size of the tensor \(3\) must match the existing size \(2\)"),
        ([0], torch.ones(2), RuntimeError, "cannot be broadcast to indexing result of shape"),
        ([0], torch.ones(3, dtype=torch.int64), RuntimeError, "source and destination dtypes match, got Float"),
        (0, 1j, RuntimeError, "value cannot be converted to type float without overflow"),
        (5, 1.0, IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        ((0, 0, 0), 1.0, IndexError, "too many indices"),
    ],
)
def test_what_cannot_be_written(index, value, error, text):
    with pytest.raises(error, match=text):
        grid(2, 3)[index] = value


def test_numbers_are_cast_to_the_tensors_type():
    x = torch.zeros(3, dtype=torch.int8)
    x[0], x[1] = 1.9, True
    assert x.tolist() == [1, 1, 0]
    with pytest.raises(RuntimeError, match="value cannot be converted to type int8_t without overflow"):
        x[0] = 300


# --- gradients --------------------------------------------------------------------------------------------------------


def test_gradient_of_repeated_indices_adds_up():
    x = grid(3).requires_grad_()
    (x[[0, 2, 0]] * torch.tensor([1.0, 2.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [5, 0, 2]


def test_gradient_of_a_mask():
    x = grid(2, 2).requires_grad_()
    (x[x > 1] * torch.tensor([3.0, 5.0])).sum().backward()
    assert x.grad.tolist() == [[0, 0], [3, 5]]


def test_gradient_of_what_is_overwritten_and_of_what_is_written():
    x, value = grid(3).requires_grad_(), torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y[[0, 2]] = value * 3
    (y * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [0, 20, 0]
    assert value.grad.tolist() == [3, 300]


def test_gradient_of_a_broadcast_value():
    value = torch.ones((), requires_grad=True)
    x = torch.zeros(2, 3)
    x[:, 1] = value
    (x * 4).sum().backward()
    assert value.grad.item() == 8


def test_second_derivative_of_an_index():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (g,) = torch.autograd.grad((x[[0, 1, 1]] ** 3).sum(), x, create_graph=True)
    assert g.tolist() == [3, 24]
    (h,) = torch.autograd.grad(g.sum(), x)
    assert h.tolist() == [6, 24]


def test_index_put_accumulates_and_takes_none():
    x = torch.zeros(2, 3)
    added = x.index_put((None, torch.tensor([1, 1])), torch.ones(2, 2), accumulate=True)
    assert added.tolist() == [[0, 2, 0], [0, 2, 0]]
    assert x.index_put_((torch.tensor([0]),), torch.tensor(5.0)) is x
    assert x.tolist() == [[5, 5, 5], [0, 0, 0]]


# --- subclasses and modes ---------------------------------------------------------------------------------------------


class Seen(torch.Tensor):
    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Seen.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("index", [(0, 1), slice(0, 1), [0], None])
def test_subclasses_see_indexing(index):
    x = grid(2, 2).as_subclass(Seen)
    Seen.calls.clear()
    assert type(x[index]) is Seen
    x[index] = 1.0
    assert Seen.calls == ["__getitem__", "__setitem__"]


# --- along a dimension ------------------------------------------------------------------------------------------------


def test_gather_and_scatter():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    index = torch.tensor([[0, 0], [1, 0]])
    picked = x.gather(1, index)
    assert picked.tolist() == [[1, 1], [4, 3]]
    picked.sum().backward()
    assert x.grad.tolist() == [[2, 0], [1, 1]]
    zeros = torch.zeros(2, 2)
    assert zeros.scatter(1, index, 5.0).tolist() == [[5, 0], [5, 5]]
    assert zeros.scatter_add(1, index, torch.ones(2, 2)).tolist() == [[2, 0], [1, 1]]
    assert torch.ones(2, 2).scatter(1, index, torch.full((2, 2), 3.0), reduce="multiply").tolist() == [[9, 1], [3, 3]]
    assert zeros.tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("reduce", "expected", "own", "sent"),
    [
        ("sum", [[4, 2]], [[1, 1]], [[1, 1]]),
        ("prod", [[2, 2]], [[2, 1]], [[2, 1]]),
        ("mean", [[4 / 3, 2]], [[1 / 3, 1]], [[1 / 3, 1 / 3]]),
        ("amax", [[2, 2]], [[0, 1]], [[0, 1]]),
        ("amin", [[1, 2]], [[0.5, 1]], [[0.5, 0]]),
    ],
)
def test_scatter_reduce(reduce, expected, own, sent):
    x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    src = torch.tensor([[1.0, 2.0]], requires_grad=True)
    result = x.scatter_reduce(1, torch.tensor([[0, 0]]), src, reduce)
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-6)
    result.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), own, rtol=1e-6)
    np.testing.assert_allclose(src.grad.numpy(), sent, rtol=1e-6)


def test_slices_by_index():
    x, index = torch.zeros(3, 2), torch.tensor([0, 2])
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert grid(3, 2).index_select(0, index).tolist() == [[0, 1], [4, 5]]
    assert x.index_add(0, index, rows, alpha=2).tolist() == [[2, 4], [0, 0], [6, 8]]
    assert x.index_copy(0, index, rows).tolist() == [[1, 2], [0, 0], [3, 4]]
    assert x.index_fill(0, index, 7.0).tolist() == [[7, 7], [0, 0], [7, 7]]
    assert torch.ones(3, 2).index_reduce(0, index, rows, "prod").tolist() == [[1, 2], [1, 1], [3, 4]]
    assert x.index_add_(0, index, rows) is x
    assert x.tolist() == [[1, 2], [0, 0], [3, 4]]


def test_in_place_writes_reach_views_with_strides():
    base = torch.zeros(2, 3)
    base.t().index_fill_(0, torch.tensor([1]), 5.0)
    base.t().scatter_(0, torch.tensor([[2, 0]]), 7.0)
    base.t().index_add_(0, torch.tensor([0]), torch.tensor([[1.0, 1.0]]))
    assert base.tolist() == [[1, 5, 7], [8, 5, 0]]


def test_flat_positions():
    x = grid(2, 2)
    assert x.take(torch.tensor([3, -4])).tolist() == [3, 0]
    assert x.put(torch.tensor([0, 0]), torch.tensor([1.0, 2.0]), accumulate=True).tolist() == [[3, 1], [2, 3]]
    assert x.take_along_dim(torch.tensor([[1], [0]]), 1).tolist() == [[1], [2]]
    assert [t.tolist() for t in torch.unravel_index(torch.tensor([3, 5]), (2, 3))] == [[1, 1], [0, 2]]


def test_out_of_range_is_refused():
    x = grid(2, 2)
    with pytest.raises(RuntimeError, match="index 2 is out of bounds for dimension 1 with size 2"):
        x.gather(1, torch.tensor([[2], [0]]))
    with pytest.raises(IndexError, match="index out of range in self"):
        x.index_select(0, torch.tensor([2]))
    with pytest.raises(IndexError, match="out of range: tried to access index 9"):
        x.take(torch.tensor([9]))


# --- masks ------------------------------------------------------------------------------------------------------------


def test_masked():
    x, mask = grid(2, 2).requires_grad_(), torch.tensor([[True, False], [False, True]])
    assert x.masked_select(mask).tolist() == [0, 3]
    filled = x.masked_fill(mask, float("-inf"))
    assert filled.tolist() == [[float("-inf"), 1], [2, float("-inf")]]
    source = torch.tensor([7.0, 8.0], requires_grad=True)
    scattered = x.masked_scatter(mask, source)
    assert scattered.tolist() == [[7, 1], [2, 8]]
    (scattered * grid(2, 2)).sum().backward()
    assert x.grad.tolist() == [[0, 1], [2, 0]]
    assert source.grad.tolist() == [0, 3]
    with pytest.raises(RuntimeError, match="only supports boolean masks"):
        x.masked_fill(mask.int(), 0)


def test_where():
    mask = torch.tensor([True, False])
    x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor(3.0, requires_grad=True)
    chosen = torch.where(mask, x, y)
    assert chosen.tolist() == [1, 3]
    chosen.sum().backward()
    assert x.grad.tolist() == [1, 0]
    assert y.grad.item() == 1
    assert torch.where(mask, 1, 0).dtype is torch.int64
    assert torch.where(mask, torch.tensor([1, 2]), 0.5).dtype is torch.float32
    assert x.where(mask, 0).tolist() == [1, 0]
    assert [t.tolist() for t in torch.where(mask)] == [[0]]


def test_positions():
    x = torch.tensor([[0, 1], [2, 0]])
    assert x.nonzero().tolist() == torch.argwhere(x).tolist() == [[0, 1], [1, 0]]
    assert [t.tolist() for t in x.nonzero(as_tuple=True)] == [[0, 1], [1, 0]]
    assert torch.tensor(5).nonzero().shape == (1, 0)


# --- diagonals, triangles, lookups ------------------------------------------------------------------------------------


def test_diagonals_and_triangles():
    x = torch.tensor([[1, 2], [3, 4]])
    assert x.diag().tolist() == [1, 4]
    assert torch.tensor([1, 2]).diag(1).tolist() == [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
    assert torch.tensor([[1, 2]]).diag_embed().tolist() == [[[1, 0], [0, 2]]]
    assert x.tril().tolist() == [[1, 0], [3, 4]]
    assert x.triu(1).tolist() == [[0, 2], [0, 0]]
    assert x.trace().item() == 5
    assert torch.tril_indices(2, 2).tolist() == [[0, 1, 1], [0, 0, 1]]
    assert torch.zeros(2, 2).fill_diagonal_(3).tolist() == [[3, 0], [0, 3]]


def test_lookups():
    bounds = torch.tensor([1.0, 3.0, 5.0])
    assert torch.searchsorted(bounds, torch.tensor([3.0, 4.0])).tolist() == [1, 2]
    assert torch.bucketize(torch.tensor([3.0]), bounds, right=True).tolist() == [2]
    values, inverse, counts = torch.unique(torch.tensor([3, 1, 3]), return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([1, 3], [1, 0, 1], [1, 2])
    assert torch.unique_consecutive(torch.tensor([1, 1, 2, 1])).tolist() == [1, 2, 1]
    assert torch.isin(torch.tensor([1, 2]), torch.tensor([2, 3])).tolist() == [False, True]
    assert torch.nn.functional.one_hot(torch.tensor([1, 0]), 3).tolist() == [[0, 1, 0], [1, 0, 0]]


def test_meta_tensors_know_the_shape_of_what_is_indexed():
    x = torch.empty(3, 4, device="meta")
    index = torch.tensor([0, 2])
    assert x[0].shape == (4,)
    assert x[:, None, 1:].shape == (3, 1, 3)
    assert x[index].shape == (2, 4)
    assert x[:, index].is_meta
    x[0] = 1.0
    x[index] = 2.0
    assert x.gather(1, torch.zeros(3, 2, dtype=torch.int64, device="meta")).shape == (3, 2)


def test_a_mask_of_bytes_over_nothing() -> None:
    with pytest.warns(UserWarning, match="uint8"):
        assert torch.zeros(0, 1)[torch.zeros(0, 1, dtype=torch.uint8)].shape == (0,)
