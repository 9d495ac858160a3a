"""Where results are written: into the memory that `out=` has, and never where elements would overwrite one another."""

import copy
import gc

import pytest

import mindtorch_v2 as torch

SHARED = "more than one element of the written-to tensor refers to a single memory location"
CHANGES = {
    "index_add_": lambda x: x.index_add_(0, torch.tensor([0, 1]), torch.ones(2)),
    "index_copy_": lambda x: x.index_copy_(0, torch.tensor([0, 1]), torch.ones(2)),
    "index_reduce_": lambda x: x.index_reduce_(0, torch.tensor([0, 1]), torch.ones(2), "amax"),
    "scatter_": lambda x: x.scatter_(0, torch.tensor([0, 1]), torch.ones(2)),
    "scatter_add_": lambda x: x.scatter_add_(0, torch.tensor([0, 1]), torch.ones(2)),
    "scatter_reduce_": lambda x: x.scatter_reduce_(0, torch.tensor([0, 1]), torch.ones(2), "sum"),
    "masked_scatter_": lambda x: x.masked_scatter_(torch.tensor([True, False, True]), torch.ones(2)),
    "put_": lambda x: x.put_(torch.tensor([0, 1]), torch.ones(2)),
    "random_": lambda x: x.random_(5),
    "slice": lambda x: x.__setitem__(slice(0, 2), torch.ones(2)),
    "linspace": lambda x: torch.linspace(0, 1, 3, out=x),
    "randint": lambda x: torch.randint(3, (3,), out=x),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_expanded_tensor_is_not_written_to(name):
    memory = torch.zeros(1)
    with pytest.raises(RuntimeError, match=SHARED):
        CHANGES[name](memory.expand(3))
    assert memory.tolist() == [0]


def test_a_source_in_the_same_memory_is_refused():
    memory = torch.arange(6.0)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        memory[:4].index_add_(0, torch.tensor([0, 1]), memory[2:4])
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        memory[0:3] = memory[1:4]
    memory[0:3] = memory[3:6]
    assert memory.tolist() == [3, 4, 5, 3, 4, 5]


@pytest.mark.parametrize("call", [torch.linspace, torch.logspace])
def test_a_range_is_written_in_a_line_through_a_view_of_another_shape(call):
    whole = torch.zeros(4, 4)
    part = whole[:2]
    call(0, 1, 8, out=part)
    assert part.shape == (2, 4)
    assert torch.equal(whole[:2].flatten(), call(0, 1, 8))
    assert not whole[2:].any()


def test_out_of_another_size_lies_in_the_memory_it_had():
    whole = torch.zeros(4, 4)
    part = whole[1:3, :2]
    torch.randn(5, out=part)
    assert part.shape == (5,)
    assert torch.equal(whole.flatten()[4:9], part)


def test_memory_that_several_tensors_share_grows_for_all_of_them():
    whole = torch.arange(6.0)
    first, last, data = whole[:2], whole.view(2, 3)[1], whole.data
    with pytest.warns(UserWarning, match="was resized since it had shape"):
        torch.add(torch.arange(9.0), 10, out=last)
    assert last.tolist() == [10, 11, 12, 13, 14, 15, 16, 17, 18]
    assert whole.tolist() == data.tolist() == [0, 1, 2, 10, 11, 12]
    first.fill_(7)
    last[0] = -1
    assert whole.tolist() == data.tolist() == [7, 7, 2, -1, 11, 12]


def test_an_empty_out_grows_alone():
    gc.disable()
    try:
        out = torch.empty(0)
        assert torch.arange(4.0, out=out).tolist() == [0, 1, 2, 3]
        assert copy.deepcopy(out).tolist() == [0, 1, 2, 3]
    finally:
        gc.enable()


def test_integers_are_drawn_in_the_order_of_memory():
    torch.manual_seed(0)
    plain = torch.empty(2, 3).random_(100)
    torch.manual_seed(0)
    turned = torch.empty(2, 3).t().random_(100)
    assert torch.equal(turned.t(), plain)


@pytest.mark.parametrize("frozen", [False, True])
def test_memory_grows_for_all_that_look_at_it(frozen: bool) -> None:
    x = torch.ones(4)
    view, apart, storage = x[1:], x.data, x.untyped_storage()
    if frozen:  # as servers do before they fork; the collector then knows of none of these
        gc.freeze()
    try:
        x.resize_(100)
    finally:
        gc.unfreeze()
    x[1] = 5
    assert (view[0].item(), apart[1].item()) == (5, 5)
    assert (storage.nbytes(), storage.data_ptr()) == (400, x.data_ptr())
