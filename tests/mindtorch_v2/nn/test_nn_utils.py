"""nn.utils: clipping, packing, normalised weights, parametrisations, pruning, fusing, other parameters for a call."""

import copy
import pickle
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.nn.utils import parametrize, prune, rnn


def with_gradients(*values: float) -> list[Any]:
    made = [nn.Parameter(torch.zeros(1)) for _ in values]
    for p, v in zip(made, values, strict=True):
        p.grad = torch.tensor([v])
    return made


# --- gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("foreach", [None, True, False])
def test_gradients_are_scaled_to_a_norm(foreach: Any) -> None:
    parameters = with_gradients(3.0, 4.0)
    assert nn.utils.clip_grad_norm_(parameters, 1.0, foreach=foreach).item() == 5
    assert [p.grad.item() for p in parameters] == pytest.approx([0.6, 0.8], abs=1e-5)


def test_small_gradients_stay() -> None:
    parameters = with_gradients(0.3, 0.4)
    nn.utils.clip_grad_norm_(parameters, 1.0)
    assert [p.grad.item() for p in parameters] == pytest.approx([0.3, 0.4])


def test_other_norms() -> None:
    assert nn.utils.clip_grad_norm_(with_gradients(3.0, 4.0), 1.0, norm_type=1).item() == 7
    assert nn.utils.clip_grad_norm_(with_gradients(3.0, -4.0), 1.0, norm_type=float("inf")).item() == 4


def test_a_norm_that_is_no_number_can_be_refused() -> None:
    with pytest.raises(RuntimeError, match="non-finite, so it cannot be clipped"):
        nn.utils.clip_grad_norm_(with_gradients(float("nan")), 1.0, error_if_nonfinite=True)


@pytest.mark.parametrize("foreach", [None, False])
def test_gradients_are_cut_off(foreach: Any) -> None:
    parameters = with_gradients(3.0, -4.0, 0.5)
    nn.utils.clip_grad_value_(parameters, 1.0, foreach=foreach)
    assert [p.grad.item() for p in parameters] == [1, -1, 0.5]


def test_parameters_as_one_vector() -> None:
    net = nn.Linear(2, 1)
    vector = nn.utils.parameters_to_vector(net.parameters())
    nn.utils.vector_to_parameters(vector.detach() * 0 + torch.arange(3.0), net.parameters())
    assert net.weight.tolist() == [[0, 1]]
    assert net.bias.tolist() == [2]


# --- lists of tensors -------------------------------------------------------------------------------------------------


def test_lists_of_tensors_change_together() -> None:
    a, b = torch.ones(2), torch.ones(1)
    torch._foreach_add_([a, b], 1)
    torch._foreach_mul_([a, b], [2.0, 3.0])
    torch._foreach_addcmul_([a, b], [a, b], [a, b], 0.5)
    assert (a.tolist(), b.tolist()) == ([12, 12], [24])
    assert [t.tolist() for t in torch._foreach_sqrt([torch.full((1,), 9.0)])] == [[3]]


def test_lists_must_be_as_long() -> None:
    with pytest.raises(RuntimeError, match="same number of tensors, got 1 and 2"):
        torch._foreach_add([torch.ones(1)], [torch.ones(1), torch.ones(1)])


# --- sequences --------------------------------------------------------------------------------------------------------


def test_packing_leaves_padding_out() -> None:
    x = torch.arange(6.0).reshape(3, 2)
    packed = rnn.pack_padded_sequence(x, [1, 3], enforce_sorted=False)
    assert packed.data.tolist() == [1, 0, 3, 5]
    assert packed.batch_sizes.tolist() == [2, 1, 1]
    padded, lengths = rnn.pad_packed_sequence(packed, padding_value=-1)
    assert padded.tolist() == [[0, 1], [-1, 3], [-1, 5]]
    assert lengths.tolist() == [1, 3]


def test_packing_hands_gradients_back() -> None:
    x = torch.zeros(2, 2, requires_grad=True)
    (rnn.pack_padded_sequence(x, [2, 1]).data * torch.arange(1.0, 4.0)).sum().backward()
    assert x.grad.tolist() == [[1, 2], [3, 0]]


def test_lengths_are_checked() -> None:
    with pytest.raises(RuntimeError, match="must be sorted in decreasing order"):
        rnn.pack_padded_sequence(torch.zeros(3, 2), [1, 3])
    with pytest.raises(RuntimeError, match="greater than 0"):
        rnn.pack_padded_sequence(torch.zeros(3, 2), [3, 0])


def test_padding_on_either_side() -> None:
    sequences = [torch.ones(1), torch.ones(2)]
    assert rnn.pad_sequence(sequences, batch_first=True, padding_value=7.0).tolist() == [[1, 7], [1, 1]]
    assert rnn.pad_sequence(sequences, batch_first=True, padding_side="left").tolist() == [[0, 1], [1, 1]]


# --- normalised weights -----------------------------------------------------------------------------------------------


def test_weight_norm_both_ways() -> None:
    plain = nn.Linear(2, 1)
    x = torch.ones(1, 2)
    with pytest.warns(FutureWarning, match="deprecated in favor of"):
        old = nn.utils.weight_norm(copy.deepcopy(plain))
    new = nn.utils.parametrizations.weight_norm(copy.deepcopy(plain))
    assert list(old.state_dict()) == ["bias", "weight_g", "weight_v"]
    assert list(new.state_dict()) == [
        "bias", "parametrizations.weight.original0", "parametrizations.weight.original1",
    ]  # fmt: skip
    new.load_state_dict(old.state_dict())
    for net in (old, new, nn.utils.remove_weight_norm(old)):
        assert net(x).item() == pytest.approx(plain(x).item(), abs=1e-6)


def test_spectral_norm_divides_by_the_largest_singular_value() -> None:
    torch.manual_seed(0)
    net = nn.utils.parametrizations.spectral_norm(nn.Linear(2, 2))
    assert net.weight.flatten().tolist() == pytest.approx([-0.00642, 0.460015, -0.705784, -0.631088], abs=1e-5)
    assert torch.linalg.matrix_norm(net.weight, 2).item() == pytest.approx(1, abs=1e-3)


def test_old_spectral_norm_iterates_while_training_only() -> None:
    net = nn.utils.spectral_norm(nn.Linear(3, 2))
    net(torch.ones(1, 3))
    before = net.weight_u.tolist()
    net.eval()(torch.ones(1, 3))
    assert net.weight_u.tolist() == before
    assert isinstance(nn.utils.remove_spectral_norm(net).weight, nn.Parameter)


@pytest.mark.parametrize("how", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_orthogonal_weights(how: str, shape: tuple[int, int]) -> None:
    net = nn.utils.parametrizations.orthogonal(nn.Linear(*shape, bias=False), orthogonal_map=how)
    w = net.weight
    gram = w @ w.mT if w.shape[0] <= w.shape[1] else w.mT @ w
    assert (gram - torch.eye(min(shape))).abs().max() < 1e-5


# --- parametrisations -------------------------------------------------------------------------------------------------


class Positive(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.exp()

    def right_inverse(self, y: Any) -> Any:
        return y.log()


def test_a_parametrised_tensor_is_computed_when_read() -> None:
    net = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        net.weight.fill_(2.0)
    parametrize.register_parametrization(net, "weight", Positive())
    assert type(net).__name__ == "ParametrizedLinear"
    assert net.weight.item() == pytest.approx(2)
    net.weight = torch.full((1, 1), 3.0)
    assert net.parametrizations.weight.original.exp().item() == pytest.approx(3)
    net(torch.ones(1, 1)).backward()
    assert net.parametrizations.weight.original.grad.item() == pytest.approx(3)


def test_caching_computes_once() -> None:
    net = nn.Linear(1, 1)
    parametrize.register_parametrization(net, "bias", Positive(), unsafe=True)
    with parametrize.cached():
        assert net.bias is net.bias
    assert net.bias is not net.bias


@pytest.mark.parametrize("leave", [True, False])
def test_removing_a_parametrisation(leave: bool) -> None:
    net = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        net.weight.fill_(2.0)
    parametrize.register_parametrization(net, "weight", Positive())
    parametrize.remove_parametrizations(net, "weight", leave_parametrized=leave)
    value = net.weight if leave else net.weight.exp()
    assert value.item() == pytest.approx(2)
    assert type(net) is nn.Linear


def test_copies_of_a_parametrised_module_are_parametrised() -> None:
    net = parametrize.register_parametrization(nn.Linear(1, 1), "bias", Positive(), unsafe=True)
    other = copy.deepcopy(net)
    with torch.no_grad():
        other.parametrizations.bias.original.fill_(0.0)
    assert other.bias.item() == 1
    assert net.bias.item() != 1


def test_a_parametrised_module_is_not_pickled() -> None:
    net = parametrize.register_parametrization(nn.Linear(1, 1), "weight", nn.Identity())
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(net)


def test_a_parametrisation_keeps_the_shape() -> None:
    with pytest.raises(ValueError, match="may not change the shape of the tensor"):
        parametrize.register_parametrization(nn.Linear(2, 2), "weight", nn.Flatten(0))


# --- pruning ----------------------------------------------------------------------------------------------------------


def test_the_smallest_entries_are_pruned() -> None:
    net = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[3.0, -1.0, 2.0]]))
    prune.l1_unstructured(net, "weight", amount=1)
    assert net.weight.tolist() == [[3, 0, 2]]
    prune.l1_unstructured(net, "weight", amount=0.5)
    assert net.weight.tolist() == [[3, 0, 0]]
    assert list(net.state_dict()) == ["weight_orig", "weight_mask"]
    assert prune.is_pruned(net)
    prune.remove(net, "weight")
    assert not prune.is_pruned(net)
    assert list(net.state_dict()) == ["weight"]


def test_channels_are_pruned_by_norm() -> None:
    net = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, 9.0], [2.0, 8.0]]))
    prune.ln_structured(net, "weight", amount=1, n=2, dim=1)
    assert net.weight.tolist() == [[0, 9], [0, 8]]


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_fusing_batch_norm_into_a_convolution() -> None:
    conv, bn = nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3)
    x = torch.randn(4, 2, 5)
    bn(conv(x))
    fused = nn.utils.fuse_conv_bn_eval(conv.eval(), bn.eval())
    assert (fused(x) - bn(conv(x))).abs().max() < 1e-5


def test_calling_with_other_parameters() -> None:
    net = nn.Linear(1, 1)
    weight = net.weight
    given = {"weight": torch.full((1, 1), 5.0, requires_grad=True), "bias": torch.zeros(1)}
    with pytest.warns(FutureWarning, match="functional_call"):
        out = nn.utils.stateless.functional_call(net, given, torch.ones(1, 1))
    out.backward()
    assert out.item() == 5
    assert given["weight"].grad.item() == 1
    assert net.weight is weight


def test_data_parallel_is_the_module_one_level_down() -> None:
    net = nn.DataParallel(nn.Linear(1, 1))
    assert list(net.state_dict()) == ["module.weight", "module.bias"]
    assert net(torch.ones(1, 1)).shape == (1, 1)
