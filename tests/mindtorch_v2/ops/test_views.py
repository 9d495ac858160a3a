"""Views, joins and splits: values, shared memory, version counters, and gradients through in-place changes of views."""

import numpy as np
import pytest

import mindtorch_v2 as torch


def grid(*shape):
    return torch.arange(float(np.prod(shape))).reshape(*shape)


def shares(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


VIEWS = {
    "view": (lambda x: x.view(4, 3), (4, 3), (3, 1)),
    "view inferred": (lambda x: x.view(2, -1), (2, 6), (6, 1)),
    "reshape": (lambda x: x.reshape(12), (12,), (1,)),
    "view_as": (lambda x: x.view_as(torch.zeros(6, 2)), (6, 2), (2, 1)),
    "flatten": (lambda x: x.flatten(), (12,), (1,)),
    "unflatten": (lambda x: x.unflatten(1, (2, 2)), (3, 2, 2), (4, 2, 1)),
    "ravel": (lambda x: x.ravel(), (12,), (1,)),
    "transpose": (lambda x: x.transpose(0, 1), (4, 3), (1, 4)),
    "t": (lambda x: x.t(), (4, 3), (1, 4)),
    "T": (lambda x: x.T, (4, 3), (1, 4)),
    "mT": (lambda x: x.mT, (4, 3), (1, 4)),
    "permute": (lambda x: x.permute(1, 0), (4, 3), (1, 4)),
    "movedim": (lambda x: x.movedim(0, 1), (4, 3), (1, 4)),
    "swapaxes": (lambda x: x.swapaxes(0, 1), (4, 3), (1, 4)),
    "unsqueeze": (lambda x: x.unsqueeze(1), (3, 1, 4), (4, 4, 1)),
    "unsqueeze last": (lambda x: x.unsqueeze(-1), (3, 4, 1), (4, 1, 1)),
    "squeeze": (lambda x: x.view(3, 1, 4, 1).squeeze(), (3, 4), (4, 1)),
    "squeeze one": (lambda x: x.view(1, 3, 1, 4).squeeze(2), (1, 3, 4), (12, 4, 1)),
    "squeeze some": (lambda x: x.view(1, 3, 1, 4).squeeze((0, 2)), (3, 4), (4, 1)),
    "expand": (lambda x: x.expand(2, 3, 4), (2, 3, 4), (0, 4, 1)),
    "expand as is": (lambda x: x[:, :1].expand(-1, 5), (3, 5), (4, 0)),
    "broadcast_to": (lambda x: x.broadcast_to((2, 3, 4)), (2, 3, 4), (0, 4, 1)),
    "select": (lambda x: x.select(1, 2), (3,), (4,)),
    "narrow": (lambda x: x.narrow(1, 1, 2), (3, 2), (4, 1)),
    "diagonal": (lambda x: x.diagonal(1), (3,), (5,)),
    "unfold": (lambda x: x.unfold(1, 2, 2), (3, 2, 2), (4, 2, 1)),
    "as_strided": (lambda x: x.as_strided((2, 3), (1, 4), 1), (2, 3), (1, 4)),
    "split": (lambda x: x.split(2)[1], (1, 4), (4, 1)),
    "chunk": (lambda x: x.chunk(2, 1)[1], (3, 2), (4, 1)),
    "unbind": (lambda x: x.unbind(1)[1], (3,), (4,)),
    "detach": (lambda x: x.detach(), (3, 4), (4, 1)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory(name):
    make, shape, strides = VIEWS[name]
    x = grid(3, 4)
    view = make(x)
    assert tuple(view.shape) == shape
    assert view.stride() == strides
    assert shares(view, x)
    view[(0,) * view.dim()] = 100.0
    assert 100.0 in x.tolist()[0] + x.tolist()[1] + x.tolist()[2]
    assert x._version == view._version == 1


def test_values_of_views():
    x = grid(2, 3)
    assert x.t().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert x.unfold(1, 2, 1).tolist() == [[[0, 1], [1, 2]], [[3, 4], [4, 5]]]
    assert x.diagonal(1).tolist() == [1, 5]
    assert grid(2, 2, 2).movedim((0, 1), (2, 0)).tolist() == [[[0, 4], [1, 5]], [[2, 6], [3, 7]]]
    assert x.as_strided((2, 2), (1, 2)).tolist() == [[0, 2], [1, 3]]


def test_reshape_copies_where_it_must():
    x = grid(2, 3)
    flat = x.t().reshape(6)
    assert not shares(flat, x)
    assert flat.tolist() == [0, 3, 1, 4, 2, 5]
    with pytest.raises(RuntimeError, match=r"Use \.reshape"):
        x.t().view(6)


def test_view_of_another_dtype_reads_the_same_bytes():
    x = torch.tensor([1.0, -2.0])
    assert x.view(torch.int32).tolist() == [0x3F800000, -0x40000000]
    assert x.view(torch.uint8).shape == (8,)
    assert shares(x.view(torch.int32), x)
    with pytest.raises(RuntimeError, match="divisible by 2 to view Float as Double"):
        torch.zeros(3).view(torch.float64)


def test_complex_parts_are_views():
    z = torch.tensor([1 + 2j, 3 - 4j])
    assert torch.view_as_real(z).tolist() == [[1, 2], [3, -4]]
    z.real[0] = 5.0
    z.imag[1] = 0.0
    assert z.tolist() == [5 + 2j, 3 + 0j]
    assert torch.view_as_complex(torch.tensor([[1.0, 2.0]])).tolist() == [1 + 2j]


def test_gradients_through_complex_parts():
    z = torch.tensor([1 + 2j, 3 - 4j], requires_grad=True)
    (2 * z.real + 3 * z.imag).sum().backward()
    assert z.grad.tolist() == [2 + 3j, 2 + 3j]


def test_in_place_change_of_a_real_part_reaches_the_base():
    z = torch.tensor([1 + 2j, 3 - 4j], requires_grad=True)
    y = z * 1
    y.real.mul_(5.0)
    torch.view_as_real(y).sum().backward()
    assert z.grad.tolist() == [5 + 1j, 5 + 1j]


def test_contiguous_is_itself_or_a_copy():
    x = grid(2, 3)
    assert x.contiguous() is x
    y = x.t().contiguous()
    assert y.stride() == (2, 1)
    assert not shares(x, y)


def test_channels_last():
    x = grid(2, 3, 4, 5)
    y = x.contiguous(memory_format=torch.channels_last)
    assert y.stride() == (60, 1, 15, 3)
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert not y.is_contiguous()
    assert y.clone().stride() == y.stride()
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    with pytest.raises(RuntimeError, match="required rank 4 tensor"):
        grid(2, 3).contiguous(memory_format=torch.channels_last)


def test_clone_keeps_the_order_of_dimensions():
    assert grid(2, 3, 4).transpose(0, 1).clone().stride() == (4, 12, 1)
    assert torch.ones(1, 4).expand(3, 4).clone().stride() == (4, 1)


# --- changes of a tensor's own shape ----------------------------------------------------------------------------------


def test_shape_changes_in_place():
    x = grid(2, 3)
    assert x.unsqueeze_(0).shape == (1, 2, 3)
    assert x.squeeze_(0).t_().shape == (3, 2)
    assert x.transpose_(0, 1).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x._version == 4


def test_shape_changes_in_place_have_gradients():
    leaf = grid(2, 3).requires_grad_()
    x = leaf * 2
    x.t_()
    (x * grid(3, 2)).sum().backward()
    assert leaf.grad.tolist() == [[0, 4, 8], [2, 6, 10]]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.t_()


def test_resize():
    x = torch.arange(6)
    x.resize_(2, 2)
    assert x.tolist() == [[0, 1], [2, 3]]
    x.resize_(6)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    assert x.resize_(3, 3).shape == (3, 3)
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        torch.zeros(3, requires_grad=True).resize_(2)


def test_set_looks_at_other_memory():
    x, y = torch.zeros(2), grid(2, 3)
    x.set_(y)
    assert shares(x, y)
    assert x.shape == (2, 3)
    x.set_(y, 1, (2,), (2,))
    assert x.tolist() == [1, 3]


# --- gradients --------------------------------------------------------------------------------------------------------


def test_in_place_on_a_view_changes_the_gradient_of_its_base():
    leaf = torch.ones(3, 2, requires_grad=True)
    base = leaf * 2
    view = base[1]
    view.mul_(10)
    assert base.tolist() == [[2, 2], [20, 20], [2, 2]]
    assert type(base.grad_fn).__name__ == "CopySlices"
    assert type(view.grad_fn).__name__ == "AsStridedBackward0"
    base.sum().backward()
    assert leaf.grad.tolist() == [[2, 2], [20, 20], [2, 2]]


def test_a_view_follows_its_base():
    leaf = torch.ones(4, requires_grad=True)
    base = leaf * 1
    view = base[1:3]
    base.mul_(3)
    view.sum().backward()
    assert leaf.grad.tolist() == [0, 3, 3, 0]


def test_views_of_views_see_each_others_changes():
    leaf = torch.ones(2, 3, requires_grad=True)
    base = leaf * 1
    row, column = base[0], base.t()[1]
    corner = row[1:2]
    column.mul_(2)
    corner.mul_(3)
    (base.sum() + 10 * row.sum() + 100 * corner.sum()).backward()
    assert leaf.grad.tolist() == [[11, 666, 11], [1, 2, 1]]


def test_values_written_into_a_view_get_their_gradient():
    leaf, value = torch.ones(3, requires_grad=True), torch.ones(2, requires_grad=True)
    base = leaf * 1
    base[1:].copy_(value)
    (base * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert leaf.grad.tolist() == [1, 0, 0]
    assert value.grad.tolist() == [2, 3]


def test_a_base_without_grad_takes_it_from_what_is_written():
    base, value = torch.zeros(3), torch.ones((), requires_grad=True)
    view = base[0]
    base[1].add_(value)
    assert base.requires_grad
    assert view.requires_grad
    (base * 5).sum().backward()
    assert value.grad.item() == 5


def test_second_derivative_through_a_changed_view():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * x
    y[1].mul_(x[2])
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [2, 12, 10]
    (h,) = torch.autograd.grad(g.sum(), x)
    assert h.tolist() == [2, 10, 6]


def test_second_derivative_of_as_strided():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x**3).as_strided((2, 2), (1, 1))
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [3, 24, 27]
    (h,) = torch.autograd.grad(g.sum(), x)
    assert h.tolist() == [6, 24, 18]


def test_old_uses_of_a_view_survive_a_change_of_its_base():
    leaf = torch.ones(2, requires_grad=True)
    base = leaf * 1
    view = base[0]
    before = view + 1
    base.add_(1)
    after = view * 2
    (before + after).backward()
    assert leaf.grad.tolist() == [3, 0]


def test_a_saved_value_that_changed_is_refused():
    leaf = torch.ones(2, requires_grad=True)
    base = leaf * 1
    product = base * base
    base[0].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


# --- what must not be changed in place --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("take", "name"),
    [
        (lambda x: x.split(2), "Split"),
        (lambda x: x.split([1, 3]), "SplitWithSizes"),
        (lambda x: x.chunk(2), "Split"),
        (lambda x: x.unbind(), "Unbind"),
    ],
)
def test_one_of_many_views_is_not_changed_in_place(take, name):
    parts = take(torch.ones(4, 2, requires_grad=True) * 1)
    with pytest.raises(RuntimeError, match=f"Output 1 of {name} is a view and is being modified inplace"):
        parts[1].mul_(2)


def test_one_of_many_views_may_change_without_a_graph():
    x = torch.ones(4)
    first, _ = x.split(2)
    first.mul_(2)
    assert x.tolist() == [2, 2, 1, 1]


def test_one_of_many_views_is_stale_once_its_base_changed():
    base = torch.ones(4, requires_grad=True) * 1
    first, _ = base.chunk(2)
    base.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        first.sum()


def test_tensor_split_may_be_changed():
    leaf = torch.ones(4, requires_grad=True)
    base = leaf * 1
    base.tensor_split(2)[1].mul_(3)
    base.sum().backward()
    assert leaf.grad.tolist() == [1, 1, 3, 3]


def test_a_view_from_no_grad_is_not_changed_with_grad():
    base = torch.ones(4, requires_grad=True) * 1
    with torch.no_grad():
        view = base[:2]
        view.zero_()
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        view.mul_(2)


def test_a_view_of_a_leaf_is_not_changed():
    leaf = torch.ones(4, requires_grad=True)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        leaf[0].mul_(2)
    with torch.no_grad():
        leaf[0].mul_(2)
    assert leaf.tolist() == [2, 1, 1, 1]


def test_expanded_memory_is_not_written():
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.ones(3).expand(2, 3).add_(1)


# --- joins and splits -------------------------------------------------------------------------------------------------


def test_cat_promotes_and_skips_empty_vectors():
    joined = torch.cat([torch.zeros(0), torch.ones(2, 2, dtype=torch.int64), torch.ones(1, 2)])
    assert joined.dtype is torch.float32
    assert joined.shape == (3, 2)
    assert torch.cat([torch.ones(2, dtype=torch.int32), torch.ones(1, dtype=torch.int64)]).dtype is torch.int64


@pytest.mark.parametrize(
    ("shapes", "dim", "error", "text"),
    [
        ([], 0, ValueError, "expected a non-empty list of Tensors"),
        ([(2,), (2, 2)], 0, RuntimeError, "Tensors must have same number of dimensions: got 1 and 2"),
        ([(2, 3), (2, 4)], 0, RuntimeError, "Expected size 3 but got size 4 for tensor number 1 in the list"),
        ([(2,), ()], 0, RuntimeError, r"zero-dimensional tensor \(at position 1\)"),
        ([(2,), (2,)], 1, IndexError, "Dimension out of range"),
    ],
)
def test_cat_says_what_does_not_fit(shapes, dim, error, text):
    with pytest.raises(error, match=text):
        torch.cat([torch.zeros(shape) for shape in shapes], dim)


def test_stacks():
    a, b = torch.tensor([1, 2]), torch.tensor([3, 4])
    assert torch.stack([a, b], 1).tolist() == [[1, 3], [2, 4]]
    assert torch.hstack([a, b]).tolist() == [1, 2, 3, 4]
    assert torch.vstack([a, b]).tolist() == [[1, 2], [3, 4]]
    assert torch.dstack([a, b]).tolist() == [[[1, 3], [2, 4]]]
    assert torch.column_stack([a, b]).tolist() == [[1, 3], [2, 4]]
    assert torch.block_diag(a, b).tolist() == [[1, 2, 0, 0], [0, 0, 3, 4]]


def test_gradients_of_parts_that_were_not_used():
    x = grid(5).requires_grad_()
    x.split(2)[1].sum().backward()
    assert x.grad.tolist() == [0, 0, 1, 1, 0]
    y = grid(2, 2).requires_grad_()
    (y.unbind(1)[1] * 3).sum().backward()
    assert y.grad.tolist() == [[0, 3], [0, 3]]


def test_splits():
    assert [tuple(t.shape) for t in grid(5).split(2)] == [(2,), (2,), (1,)]
    assert [t.tolist() for t in grid(5).tensor_split(3)] == [[0, 1], [2, 3], [4]]
    assert [t.tolist() for t in grid(4).tensor_split((1, 3))] == [[0], [1, 2], [3]]
    assert [tuple(t.shape) for t in torch.zeros(0).chunk(3)] == [(0,)] * 3
    assert torch.zeros(0, 2).unbind() == ()
    with pytest.raises(RuntimeError, match="sum exactly to 5"):
        grid(5).split([1, 2])


def test_repeats():
    x = torch.tensor([[1, 2]])
    assert x.repeat(2, 2).tolist() == [[1, 2, 1, 2], [1, 2, 1, 2]]
    assert x.tile(2).tolist() == [[1, 2, 1, 2]]
    assert x.repeat_interleave(2, 1).tolist() == [[1, 1, 2, 2]]
    assert torch.tensor([7, 8, 9]).repeat_interleave(torch.tensor([1, 0, 2])).tolist() == [7, 9, 9]
    y = torch.ones(2, requires_grad=True)
    (y.repeat(3, 2) * grid(3, 4)).sum().backward()
    assert y.grad.tolist() == [30, 36]


def test_turns():
    x = torch.tensor([[1, 2], [3, 4]])
    assert x.flip(0).tolist() == [[3, 4], [1, 2]]
    assert x.rot90().tolist() == [[2, 4], [1, 3]]
    assert x.roll(1).tolist() == [[4, 1], [2, 3]]
    assert x.roll((1, 1), (0, 1)).tolist() == [[4, 3], [2, 1]]


def test_grids():
    x, y = torch.meshgrid(torch.tensor([1, 2]), torch.tensor([3, 4, 5]), indexing="xy")
    assert x.tolist() == [[1, 2]] * 3
    assert y.tolist() == [[3, 3], [4, 4], [5, 5]]
    assert torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3, 4])).tolist() == [[1, 3], [1, 4], [2, 3], [2, 4]]
    assert torch.combinations(torch.tensor([1, 2, 3])).tolist() == [[1, 2], [1, 3], [2, 3]]


def test_broadcasting():
    a, b = torch.broadcast_tensors(torch.ones(3, 1), torch.ones(4))
    assert a.shape == b.shape == (3, 4)
    assert torch.broadcast_shapes((3, 1), (4,), 1) == (3, 4)
    with pytest.raises(RuntimeError, match="at non-singleton dimension 0"):
        torch.broadcast_tensors(torch.ones(3), torch.ones(4))


def test_copies_of_views_have_memory_of_their_own():
    x = grid(2, 3)
    for copy in (torch.t_copy(x), torch.diagonal_copy(x), torch.select_copy(x, 0, 1), torch.view_copy(x, (6,))):
        assert not shares(copy, x)


def test_scatters_replace_a_part():
    x = torch.zeros(2, 2)
    assert x.select_scatter(torch.ones(2), 0, 1).tolist() == [[0, 0], [1, 1]]
    assert x.slice_scatter(torch.ones(2, 1), 1, 0, 1).tolist() == [[1, 0], [1, 0]]
    assert x.diagonal_scatter(torch.ones(2)).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(RuntimeError, match="expected src to have a size equal to the slice"):
        x.select_scatter(torch.ones(3), 0, 1)


def test_as_strided_finds_nothing_in_memory_of_nothing():
    with pytest.raises(RuntimeError, match="requiring a storage size of 12 are out of bounds for storage of size 0"):
        torch.zeros(0, 4).as_strided((3,), (1,))
    assert torch.zeros(0, 4).as_strided((2, 0), (1, 1)).shape == (2, 0)
