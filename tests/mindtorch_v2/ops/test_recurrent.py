"""Recurrent networks: torch's numbers, the ways in, and that layers as one operator agree with their cells."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.kernels.network import gru as gru_kernels
from mindtorch_v2.nn.utils import rnn
from mindtorch_v2.ops.network import recurrent


def close(t: Any, values: list[float]) -> None:
    assert t.detach().flatten().tolist() == pytest.approx(values, abs=2e-6)


def test_gru_as_torch() -> None:
    torch.manual_seed(0)
    net = nn.GRU(1, 1)
    close(net(torch.ones(2, 1, 1))[0], [-0.20315, -0.348165])


def test_lstm_as_torch() -> None:
    torch.manual_seed(0)
    net = nn.LSTM(1, 2)
    output, (_, cell) = net(torch.ones(3, 1, 1))
    close(output, [-0.14363, 0.233287, -0.205242, 0.269981, -0.227887, 0.282049])
    close(cell, [-0.457023, 0.347602])
    output.sum().backward()
    close(net.weight_hh_l0.grad[0], [0.031346, -0.045804])


def stepwise(net: Any, cell: Any, x: Any, state: Any) -> list[Any]:
    """A layer computed with its cell."""
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        setattr(cell, name, getattr(net, f"{name}_l0"))
    outputs = []
    for step in x:
        state = cell(step, state)
        outputs.append(state[0] if isinstance(state, tuple) else state)
    return outputs


@pytest.mark.parametrize(("layer", "cell"), [(nn.LSTM, nn.LSTMCell), (nn.GRU, nn.GRUCell), (nn.RNN, nn.RNNCell)])
def test_a_layer_is_its_cell_over_time(layer: Any, cell: Any) -> None:
    torch.manual_seed(1)
    net = layer(3, 4)
    x = torch.randn(5, 2, 3)
    expected = torch.stack(stepwise(net, cell(3, 4), x, None))
    close(net(x)[0], expected.detach().flatten().tolist())


def gradients(net: Any, run: Any, x: Any) -> list[Any]:
    x = x.clone().requires_grad_()
    run(x).sin().sum().backward()
    found = [x.grad, *(p.grad for p in net.parameters())]
    net.zero_grad()
    return found


KINDS = [(nn.GRU, {}), (nn.RNN, {}), (nn.RNN, {"nonlinearity": "relu"}), (nn.LSTM, {})]


def derivatives(net: Any, x: Any, packed: bool, again: bool) -> list[Any]:
    """Outputs, gradients, and gradients of those gradients if wanted."""
    given = rnn.pack_padded_sequence(x, torch.tensor([4, 2, 1])) if packed else x
    output, hidden = net(given)
    hidden = hidden[0].sin() + hidden[1].sum() if isinstance(hidden, tuple) else hidden.sin()
    loss = (output.data if packed else output).square().sum() + hidden.sum()
    inputs = [x, *net.parameters()]
    first = torch.autograd.grad(loss, inputs, create_graph=again)
    if not again:
        return [output.data if packed else output, *first]
    return [*first, *torch.autograd.grad(sum(g.square().sum() for g in first), inputs)]


@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shape", [{"bidirectional": True}, {"bias": False, "num_layers": 2}])
@pytest.mark.parametrize("again", [False, True])
def test_a_layer_is_the_same_whether_watched_or_not(
    kind: Any, options: Any, packed: bool, shape: Any, again: bool
) -> None:
    torch.manual_seed(4)
    net = kind(3, 4, **options, **shape).double()
    x = torch.randn(4, 3, 3, dtype=torch.double, requires_grad=True)
    found = derivatives(net, x, packed, again)
    with torch.autograd.profiler.profile():
        expected = derivatives(net, x, packed, again)
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shape", [{"bidirectional": True}, {"bias": False, "num_layers": 2}])
@pytest.mark.parametrize("again", [False, True])
def test_a_layer_is_what_its_cell_gives_step_by_step(
    kind: Any, options: Any, packed: bool, shape: Any, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(4)
    net = kind(3, 4, **options, **shape).double()
    x = torch.randn(4, 3, 3, dtype=torch.double, requires_grad=True)
    found = derivatives(net, x, packed, again)
    monkeypatch.setattr(recurrent, "_is_one", lambda step: False)
    for a, b in zip(found, derivatives(net, x, packed, again), strict=True):
        torch.testing.assert_close(a, b)


def test_a_recorded_layer_is_the_operator_that_ran() -> None:
    net, x = nn.GRU(2, 3), torch.randn(4, 1, 2)
    with torch.autograd.profiler.profile() as recorded:
        net(x)[0].sum().backward()
    names = {event.name for event in recorded.function_events}
    assert {"aten::gru", "aten::_gru_layer", "GruLayerBackward0", "aten::_gru_layer_backward"} <= names
    assert not any("sigmoid" in name.lower() for name in names)


@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN])
def test_outputs_may_be_changed_in_place(kind: Any) -> None:
    torch.manual_seed(5)
    net, x = kind(2, 3), torch.randn(4, 1, 2)
    (net(x)[0] * 2).sum().backward()
    expected = net.weight_hh_l0.grad
    net.zero_grad()
    net(x)[0].mul_(2).sum().backward()
    close(net.weight_hh_l0.grad, expected.flatten().tolist())


@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN, nn.LSTM])
def test_no_sequences_and_no_steps(kind: Any) -> None:
    assert kind(2, 3)(torch.zeros(4, 0, 2))[0].shape == (4, 0, 3)
    with pytest.raises(RuntimeError, match="sequence length to be larger than 0"):
        kind(2, 3)(torch.zeros(0, 2, 2))


@pytest.mark.parametrize("cell", [nn.GRUCell, nn.RNNCell, nn.LSTMCell])
def test_cells_have_slopes_as_gradients(cell: Any) -> None:
    torch.manual_seed(6)
    net = cell(2, 3).double()
    x, *state = (torch.randn(2, n, dtype=torch.double, requires_grad=True) for n in (2, 3, 3))

    def run(x: Any, *state: Any) -> Any:
        return net(x, state if cell is nn.LSTMCell else state[0])

    given = (x, *(state if cell is nn.LSTMCell else state[:1]))
    assert torch.autograd.gradcheck(run, given)
    assert torch.autograd.gradgradcheck(run, given)


def test_gradients_of_an_lstm_layer_are_those_of_its_cell() -> None:
    torch.manual_seed(2)
    net, cell = nn.LSTM(3, 4), nn.LSTMCell(3, 4)
    x = torch.randn(5, 2, 3)
    fused = gradients(net, lambda x: net(x)[0], x)
    by_cell = gradients(net, lambda x: torch.stack(stepwise(net, cell, x, None)), x)
    for a, b in zip(fused, by_cell, strict=True):
        close(a, b.flatten().tolist())


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_packed_sequences_are_each_sequence_alone(kind: Any, bidirectional: bool) -> None:
    torch.manual_seed(3)
    net = kind(2, 3, num_layers=2, bidirectional=bidirectional)
    sequences = [torch.randn(n, 2) for n in (2, 4, 1)]
    output, hidden = net(rnn.pack_sequence(sequences, enforce_sorted=False))
    last = hidden[0] if isinstance(hidden, tuple) else hidden
    for i, (sequence, result) in enumerate(zip(sequences, rnn.unpack_sequence(output), strict=True)):
        alone, state = net(sequence)
        close(result, alone.detach().flatten().tolist())
        state = state[0] if isinstance(state, tuple) else state
        close(last[:, i], state.detach().flatten().tolist())


def test_batch_first_and_unbatched_input() -> None:
    net = nn.LSTM(2, 3, batch_first=True)
    assert net(torch.ones(4, 5, 2))[0].shape == (4, 5, 3)
    output, (hidden, cell) = net(torch.ones(5, 2))
    assert (output.shape, hidden.shape, cell.shape) == ((5, 3), (1, 3), (1, 3))


def test_projections_shorten_the_state() -> None:
    output, (hidden, cell) = nn.LSTM(2, 4, proj_size=3, bidirectional=True)(torch.ones(5, 1, 2))
    assert (output.shape, hidden.shape, cell.shape) == ((5, 1, 6), (2, 1, 3), (2, 1, 4))


def test_double_and_half_precision() -> None:
    assert nn.LSTM(2, 3).double()(torch.ones(1, 1, 2).double())[0].dtype is torch.float64
    assert nn.LSTM(2, 3).bfloat16()(torch.ones(1, 1, 2).bfloat16())[0].dtype is torch.bfloat16


def test_dropout_between_layers_only_while_training() -> None:
    net = nn.GRU(2, 16, num_layers=2, dropout=0.5)
    x = torch.ones(2, 1, 2)
    assert (net.eval()(x)[0] == net(x)[0]).all()
    torch.manual_seed(0)
    assert (net.train()(x)[0] != net(x)[0]).any()


def test_a_replaced_weight_is_used() -> None:
    net = nn.RNN(1, 1, bias=False)
    for name in ("weight_ih_l0", "weight_hh_l0"):
        setattr(net, name, nn.Parameter(torch.zeros(1, 1)))
    assert net(torch.ones(2, 1, 1))[0].flatten().tolist() == [0, 0]
    assert [n for n, _ in net.named_parameters()] == ["weight_ih_l0", "weight_hh_l0"]


def test_what_does_not_fit_is_named() -> None:
    net = nn.LSTM(2, 3)
    with pytest.raises(RuntimeError, match=r"Expected hidden\[1\] size \(1, 1, 3\), got \[1, 1, 4\]"):
        net(torch.ones(2, 1, 2), (torch.ones(1, 1, 3), torch.ones(1, 1, 4)))
    with pytest.raises(RuntimeError, match=r"Expected 2, got 5"):
        net(torch.ones(2, 1, 5))
    with pytest.raises(ValueError, match="RNN input dtype"):
        net(torch.ones(2, 1, 2).double())
    with pytest.raises(RuntimeError, match="Input batch size 2 doesn't match hidden0 batch size 1"):
        nn.GRUCell(2, 3)(torch.ones(2, 2), torch.ones(1, 3))


def test_functions_take_both_forms() -> None:
    net = nn.GRU(2, 3)
    x, h = torch.ones(4, 1, 2), torch.zeros(1, 1, 3)
    weights = list(net.parameters())
    padded = torch.gru(x, h, weights, True, 1, 0.0, False, False, False)[0]
    packed = torch.gru(x[:, 0], torch.ones(4).long(), h, weights, True, 1, 0.0, False, False)[0]
    close(padded, packed.detach().flatten().tolist())
    with pytest.raises(RuntimeError, match="incorrect number of RNN parameters: 3 instead of 4"):
        torch.gru(x, h, weights[:3], True, 1, 0.0, False, False, False)


# --- second derivatives -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "bias": False}])
def test_an_lstm_is_differentiated_twice(packed: bool, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    layer = torch.nn.LSTM(2, 3, **options).double()
    names = [name for name, _ in layer.named_parameters()]
    x = torch.randn(3, 2, 2, dtype=torch.double, requires_grad=True)

    def run(x: Any, *weights: Any) -> Any:
        given = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2])) if packed else x
        out, (h, c) = torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (given,))
        return (out.data if packed else out), h, c

    assert torch.autograd.gradgradcheck(run, (x, *layer.parameters()))


def test_backward_of_a_gru_makes_no_copy_of_its_gradients() -> None:
    rows, hidden, batch = 640, 32, 8
    x, h0 = np.ones((rows, 16), np.float32), np.zeros((batch, hidden), np.float32)
    w_ih, w_hh = np.ones((3 * hidden, 16), np.float32), np.ones((3 * hidden, hidden), np.float32)
    sizes = [batch] * (rows // batch)
    outputs, _, gates, inner = gru_kernels.forward(x, h0, w_ih, w_hh, None, None, sizes, False)
    tracemalloc.start()
    gru_kernels.backward(outputs, h0, x, h0, w_ih, w_hh, outputs, gates, inner, sizes, False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * gates.nbytes
