"""Ops that run inside of others: the same events, tensors and errors as by their public functions."""

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.core import tap
from mindtorch_v2.dispatch.inside import inside
from mindtorch_v2.dispatch.op import OPS
from mindtorch_v2.dispatch.recording import VIEWS, in_helper
from mindtorch_v2.profiler import profile


def tree(prof):
    """Names of events with the depth at which they lie, in order."""
    found = []
    for event in prof.events():
        depth, outer = 0, event.cpu_parent
        while outer is not None:
            depth, outer = depth + 1, outer.cpu_parent
        found.append((depth, event.name))
    return found


def test_a_kernel_is_run_in_an_event_of_its_row():
    empty = inside(OPS["empty.memory_format"])
    with profile() as prof:
        made = empty((2, 3), torch.int64, None, None, False, None)
    assert tree(prof) == [(0, "aten::empty")]
    assert made.shape == (2, 3)
    assert made.dtype is torch.int64


def test_inputs_are_those_of_the_schema():
    select = inside(OPS["select.int"])
    with torch.no_grad(), profile(record_shapes=True) as prof:
        select(torch.zeros(2, 3), 1, 2)
    (event,) = [e for e in prof.events() if e.name == "aten::select"]
    assert event.input_shapes == [[2, 3], [], []]
    assert event.concrete_inputs[1:] == [1, 2]


def test_views_share_the_version_of_what_they_look_at():
    x = torch.zeros(4)
    view = inside(OPS["view"])
    with torch.no_grad(), profile():
        part = view(x, (2, 2))
    part.fill_(3)
    assert x.tolist() == [3, 3, 3, 3]
    assert x._version == part._version == 1


def test_a_change_in_place_is_counted():
    x = torch.ones(2)
    zero_ = inside(OPS["zero_"])
    with torch.no_grad(), profile() as prof:
        assert zero_(x) is x
    assert x.tolist() == [0, 0]
    assert x._version == 1
    assert tree(prof) == [(0, "aten::zero_")]


def test_graphs_lead_through_the_public_function():
    x = torch.ones(2, 2, requires_grad=True)
    view = inside(OPS["view"])
    with profile() as prof:
        view(x, (4,)).sum().backward()
    assert x.grad.tolist() == [[1, 1], [1, 1]]
    assert (0, "aten::view") in tree(prof)


@pytest.mark.skipif(tap.HELPER is None, reason="the helper is not built here")
def test_views_that_a_graph_takes_part_in_are_left_to_others():
    leaf = torch.ones(2, 3, requires_grad=True)
    t = in_helper(OPS["t"], None, OPS["t"].kernel, VIEWS, None)
    with profile(record_shapes=True) as prof:
        assert t(leaf) is None
        watched = t(leaf.detach())
        with torch.no_grad():
            unwatched = t(leaf)
    assert unwatched._view.base is leaf
    assert watched.shape == unwatched.shape == (3, 2)
    assert tree(prof)[-4:] == [(0, "aten::t"), (1, "aten::transpose")] * 2
    assert prof.events()[-1].concrete_inputs == [None, 0, 1]
    with torch.no_grad():
        assert t(leaf).shape == (3, 2)  # nobody watches


def test_nothing_is_recorded_where_nothing_records():
    assert inside(OPS["view"])(torch.zeros(4), (2, 2)).shape == (2, 2)


def test_tensors_on_meta_take_the_public_function():
    view = inside(OPS["view"])
    with torch.no_grad(), profile():
        assert view(torch.zeros(4, device="meta"), (2, 2)).is_meta
        assert torch.zeros(3, device="meta").is_meta


def test_what_is_made_in_inference_mode_is_marked():
    with torch.inference_mode(), profile():
        assert torch.zeros(2).is_inference()
        assert torch.stack([torch.zeros(2)]).is_inference()


def test_subclasses_take_the_public_function():
    class Own(torch.Tensor):
        pass

    view = inside(OPS["view"])
    with torch.no_grad(), profile():
        assert type(view(torch.zeros(4).as_subclass(Own), (2, 2))) is Own


def test_an_error_ends_the_event_and_goes_on():
    view = inside(OPS["view"])
    with torch.no_grad(), profile() as prof:
        with pytest.raises(RuntimeError, match="invalid for input of size 4"):
            view(torch.zeros(4), (3, 3))
        torch.ones(1)
    assert [name for depth, name in tree(prof) if depth == 0] == ["aten::zeros", "aten::view", "aten::ones"]


def test_no_memory_is_told_in_the_words_of_torch():
    with (
        profile(profile_memory=True) as prof,
        pytest.raises(RuntimeError, match="you tried to allocate 70368744177664 bytes"),
    ):
        torch.zeros(1 << 44)
    assert "[OutOfMemory]" in {event.name for event in prof.events()}


def test_graphs_are_built_again_after_an_error_in_a_body():
    with profile(), pytest.raises(RuntimeError):
        torch.stack([torch.zeros(2), torch.zeros(3)])
    assert torch.is_grad_enabled()


def test_results_of_a_body_are_counted_once():
    x, w = torch.ones(1, 1, 4, 4), torch.ones(2, 1, 3, 3, requires_grad=True)
    loss = torch.nn.functional.conv2d(x, w).sum()
    with profile(profile_memory=True) as prof:
        loss.backward()
    (event,) = [e for e in prof.events() if e.name == "aten::convolution_backward"]
    assert event.cpu_memory_usage == w.numel() * 4


@pytest.mark.parametrize("shape", [(2, 3, 6, 6), (9, 4, 24, 24)])
def test_gradients_of_a_convolution_are_the_same_to_the_last_bit(shape):
    torch.manual_seed(0)
    x, seed = torch.randn(shape), torch.randn(shape[0], 5, shape[2], shape[3])
    weight, bias = torch.randn(5, shape[1], 3, 3), torch.randn(5)

    def gradients():
        leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
        torch.nn.functional.conv2d(*leaves, padding=1).backward(seed)
        return [t.grad.numpy() for t in leaves]

    plain = gradients()
    with profile():
        for recorded, expected in zip(gradients(), plain, strict=True):
            np.testing.assert_array_equal(recorded, expected)


def test_rows_of_a_table_get_their_gradients_recorded_as_not():
    indices = torch.tensor([[1, 2], [1, 0]])

    def gradient(**options):
        table = torch.arange(8.0).reshape(4, 2).requires_grad_()
        (torch.nn.functional.embedding(indices, table, **options) * torch.arange(1.0, 3.0)).sum().backward()
        return table.grad.numpy()

    for options in ({}, {"padding_idx": 2}, {"scale_grad_by_freq": True}):
        plain = gradient(**options)
        with profile():
            np.testing.assert_array_equal(gradient(**options), plain)


def test_a_row_with_rules_of_its_own_is_refused():
    if torch.core.tap.HELPER is None:
        pytest.skip("without the helper every row is run by its public function")
    with pytest.raises(ValueError, match=r"add\.Tensor"):
        inside(OPS["add.Tensor"])


def test_bodies_are_not_seen_among_python_functions():
    x = torch.ones(2)
    with profile(with_stack=True) as prof:
        torch.nn.functional.mse_loss(x, x)
    names = [event.name for event in prof.events()]
    assert "aten::broadcast_tensors" in names
    assert not [name for name in names if "functional/loss.py" in name and name.endswith("<lambda>")]


def test_a_list_that_holds_itself_is_an_error_like_any_other():
    endless = [torch.zeros(2)]
    endless.append(endless)
    cat = inside(OPS["cat"])
    with torch.no_grad(), profile(), pytest.raises((TypeError, AttributeError, ValueError, RuntimeError)):
        cat(endless, 0)
