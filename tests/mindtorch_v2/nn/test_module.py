"""Modules: what they collect, how they are walked, called, moved, saved and copied."""

import copy
import pickle
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.core import tap


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.last = nn.Sequential(nn.ReLU(), nn.Linear(3, 1))
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)

    def forward(self, x: Any) -> Any:
        return self.last(self.first(x)) * self.scale


# --- registration -----------------------------------------------------------------------------------------------------


def test_parameters_buffers_and_modules_are_collected() -> None:
    net = Net()
    assert [n for n, _ in net.named_parameters()] == [
        "scale", "first.weight", "first.bias", "last.1.weight", "last.1.bias",
    ]  # fmt: skip
    assert [n for n, _ in net.named_buffers()] == ["seen", "scratch"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "last", "last.0", "last.1"]
    assert [n for n, _ in net.named_children()] == ["first", "last"]


def test_a_shared_parameter_is_found_once() -> None:
    net = Net()
    net.tied = net.first
    assert len(list(net.parameters())) == 5
    assert len(list(net.named_parameters(remove_duplicate=False))) == 7


def test_none_stands_in_for_a_member() -> None:
    net = Net()
    net.scale = None
    assert net.scale is None
    assert "scale" not in dict(net.named_parameters())


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        (
            "scale",
            torch.ones(1),
            r"cannot assign 'torch.FloatTensor' as parameter 'scale' \(torch.nn.Parameter or None",
        ),
        ("first", 4, r"cannot assign 'int' as child module 'first' \(torch.nn.Module or None expected\)"),
        ("seen", "x", r"cannot assign 'str' as buffer 'seen'"),
    ],
)
def test_a_member_keeps_its_kind(name: str, value: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        setattr(Net(), name, value)


@pytest.mark.parametrize("name", ["a.b", "", "forward"])
def test_names_that_cannot_be_used(name: str) -> None:
    with pytest.raises(KeyError):
        Net().register_parameter(name, None)


def test_a_result_of_a_graph_is_no_parameter() -> None:
    marked = nn.Parameter(torch.ones(1))
    result = marked * 2
    result._is_param = True
    with pytest.raises(ValueError, match="Cannot assign non-leaf Tensor to parameter 'x'"):
        Net().register_parameter("x", result)


def test_members_need_init_first() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.child = nn.ReLU()

    with pytest.raises(AttributeError, match="cannot assign module before"):
        Early()


def test_a_missing_attribute_is_named() -> None:
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'missing'"):
        _ = Net().missing


def test_buffers_by_mark() -> None:
    net = Net()
    net.extra = nn.Buffer(torch.ones(2), persistent=False)
    assert "extra" in dict(net.named_buffers())
    assert "extra" not in net.state_dict()
    assert isinstance(net.extra, nn.Buffer)
    assert type(net.extra) is torch.Tensor


# --- parameters -------------------------------------------------------------------------------------------------------


def test_a_parameter_is_a_leaf_on_the_same_memory() -> None:
    x = torch.ones(2)
    p = nn.Parameter(x)
    x[0] = 5
    assert p[0] == 5
    assert p.requires_grad
    assert p.is_leaf
    assert type(p * 2) is torch.Tensor


def test_a_marked_subclass_counts_as_a_parameter() -> None:
    class Mine(torch.Tensor):
        pass

    p = nn.Parameter(torch.ones(2).as_subclass(Mine))
    assert type(p) is Mine
    assert isinstance(p, nn.Parameter)
    assert not isinstance(torch.ones(2), nn.Parameter)


def test_copies_of_parameters_drop_gradient_and_notes() -> None:
    p = nn.Parameter(torch.ones(2))
    (p * 2).sum().backward()
    p.note = 1
    c = copy.deepcopy(p)
    assert c.grad is None
    assert not hasattr(c, "note")
    assert type(pickle.loads(pickle.dumps(p))) is nn.Parameter


def test_what_is_no_tensor_is_no_parameter() -> None:
    with pytest.raises(AttributeError, match=r"Parameter takes a Tensor; make one with torch\.tensor"):
        nn.Parameter([1.0])


# --- changes to the whole ---------------------------------------------------------------------------------------------


def test_modes_reach_every_module() -> None:
    net = Net().eval()
    assert not any(m.training for m in net.modules())
    assert all(m.training for m in net.train().modules())


def test_casts_keep_the_parameters() -> None:
    net = Net()
    weight = net.first.weight
    net(torch.ones(1, 2)).sum().backward()
    net.double()
    assert net.first.weight is weight
    assert weight.dtype is torch.float64
    assert weight.grad.dtype is torch.float64
    with pytest.raises(TypeError, match="only accepts floating point or complex dtypes"):
        net.to(torch.int64)


def test_integer_buffers_keep_their_dtype() -> None:
    assert nn.BatchNorm1d(2).half().num_batches_tracked.dtype is torch.int64


def test_memory_comes_later() -> None:
    net = nn.Linear(2, 3, device="meta")
    assert net.weight.is_meta
    made = net.to_empty(device="cpu")
    assert not made.weight.is_meta
    assert isinstance(made.weight, nn.Parameter)
    assert not nn.utils.skip_init(nn.Linear, 2, 3).weight.is_meta


def test_gradients_are_forgotten() -> None:
    net = Net()
    net(torch.ones(1, 2)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert all((p.grad == 0).all() for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_apply_goes_bottom_up() -> None:
    seen: list[str] = []
    Net().apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Net"]


# --- text -------------------------------------------------------------------------------------------------------------


def test_text_of_a_module() -> None:
    assert repr(Net()) == (
        "Net(\n"
        "  (first): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (last): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Linear(in_features=3, out_features=1, bias=True)\n"
        "  )\n"
        ")"
    )


def test_equal_neighbours_of_a_list_are_counted() -> None:
    text = repr(nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()]))
    assert text == "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n)"


# --- state dicts ------------------------------------------------------------------------------------------------------


def test_a_state_dict_holds_what_is_to_be_kept() -> None:
    net = Net()
    state = net.state_dict()
    assert list(state) == ["scale", "seen", "first.weight", "first.bias", "last.1.weight", "last.1.bias"]
    assert not state["scale"].requires_grad
    assert state["first.weight"].data_ptr() == net.first.weight.data_ptr()
    assert state._metadata[""] == {"version": 1}


def test_loading_copies_values() -> None:
    a, b = Net(), Net()
    assert repr(a.load_state_dict(b.state_dict())) == "<All keys matched successfully>"
    assert (a.first.weight == b.first.weight).all()
    assert a.first.weight is not b.first.weight


def test_loading_says_all_that_is_wrong() -> None:
    state = Net().state_dict()
    del state["scale"]
    state["more"] = torch.ones(1)
    state["first.bias"] = torch.ones(9)
    with pytest.raises(RuntimeError) as caught:
        Net().load_state_dict(state)
    assert str(caught.value) == (
        'Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "scale". \n\tUnexpected key(s) in '
        'state_dict: "more". \n\tsize mismatch for first.bias: copying a param with shape torch.Size([9]) from '
        "checkpoint, the shape in current model is torch.Size([3])."
    )


def test_loading_by_assignment() -> None:
    state = {k: v.clone() for k, v in Net().state_dict().items()}
    net = Net()
    net.load_state_dict(state, assign=True)
    assert net.seen is state["seen"]
    assert net.scale.data_ptr() == state["scale"].data_ptr()
    assert isinstance(net.scale, nn.Parameter)


def test_extra_state_travels_along() -> None:
    class Counting(nn.Module):
        count = 0

        def get_extra_state(self) -> int:
            return self.count

        def set_extra_state(self, state: int) -> None:
            self.count = state

    net = Counting()
    net.count = 4
    other = Counting()
    other.load_state_dict(net.state_dict())
    assert other.count == 4


def test_counts_of_batches_may_be_missing_in_old_states() -> None:
    net = nn.BatchNorm1d(2)
    state = {k: v for k, v in net.state_dict().items() if k != "num_batches_tracked"}
    assert repr(net.load_state_dict(state)) == "<All keys matched successfully>"


# --- copies -----------------------------------------------------------------------------------------------------------


def test_copies_share_nothing_and_keep_ties() -> None:
    net = Net()
    net.tied = net.first
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net.last))):
        assert all(a is not b for a in other.parameters() for b in net.parameters())
    assert copy.deepcopy(net).tied is not net.first
    c = copy.deepcopy(net)
    assert c.tied is c.first


# --- containers -------------------------------------------------------------------------------------------------------


def test_a_sequence_can_be_edited() -> None:
    net = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))
    net.append(nn.ELU()).insert(0, nn.Sigmoid())
    del net[1]
    assert [type(m).__name__ for m in net] == ["Sigmoid", "Tanh", "ELU"]
    assert list(net._modules) == ["0", "1", "2"]
    assert [type(m).__name__ for m in net[1:]] == ["Tanh", "ELU"]
    with pytest.raises(IndexError, match="index 7 is out of range"):
        _ = net[7]


def test_dictionaries_of_modules_and_parameters() -> None:
    modules = nn.ModuleDict({"b": nn.ReLU(), "a": nn.Tanh()})
    assert list(modules) == ["b", "a"]
    values = nn.ParameterDict({"b": torch.ones(1), "a": torch.ones(1)})
    assert list(values) == ["a", "b"]
    assert isinstance(values["b"], nn.Parameter)


def test_lists_of_parameters_show_their_sizes() -> None:
    text = repr(nn.ParameterList([torch.ones(2, 3)]))
    assert text == "ParameterList(  (0): Parameter containing: [torch.float32 of size 2x3])"


# --- lazy modules -----------------------------------------------------------------------------------------------------


def test_a_lazy_module_learns_its_sizes() -> None:
    net = nn.LazyLinear(3)
    assert repr(net) == "LazyLinear(in_features=0, out_features=3, bias=True)"
    assert repr(net.weight) == "<UninitializedParameter>"
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter"):
        _ = net.weight.shape
    net(torch.ones(2, 5))
    assert type(net) is nn.Linear
    assert tuple(net.weight.shape) == (3, 5)
    assert not net._forward_pre_hooks


def test_a_lazy_module_takes_shapes_from_a_state_dict() -> None:
    net = nn.LazyLinear(3)
    net.load_state_dict(nn.Linear(4, 3).state_dict())
    assert tuple(net.weight.shape) == (3, 4)


def test_nothing_can_be_computed_with_a_waiting_parameter() -> None:
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        nn.UninitializedParameter() + 1


# --- recording --------------------------------------------------------------------------------------------------------


class Listening(tap.Recorder):
    flags = tap.MODULES

    def __init__(self) -> None:
        self.called: list[str] = []

    def lane_for_thread(self) -> tap.Lane:
        return tap.Lane(0)

    def module(self, module: Any) -> tap.region:
        self.called.append(type(module).__name__)
        return tap.region(tap.event_id(type(module).__name__))


@pytest.fixture
def recorder() -> Iterator[Listening]:
    before = getattr(tap.LANES, "lane", None)
    tap.settle(None)
    listening = Listening()
    tap.install(listening)
    yield listening
    tap.install(None)
    tap.settle(before)


def test_a_recorder_sees_every_call_of_a_module(recorder: Listening) -> None:
    nn.Sequential(nn.Linear(2, 2), nn.ReLU())(torch.ones(1, 2))
    assert recorder.called == ["Sequential", "Linear", "ReLU"]
