"""Recurrent networks as composites: a cell is a step, a layer runs a cell over time, a stack runs layers.

The input of a layer meets its weights in one product for all time steps; what depends on the step before follows one
step at a time. A layer is an operator of its own, whoever watches; it is made of plain ones where autocast is to change
those, and for types that the operator does not take. Layouts of weights and states are those of `nn.RNNBase`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...autograd.entry import grad
from ...autograd.grad_mode import is_grad_enabled
from ...core import tap
from ...core.tensor import Tensor
from ...dispatch.front import front
from ...dispatch.op import Op, composite, op
from ...kernels.network import gru as gru_kernels
from ...kernels.network import lstm as kernels
from .. import flops
from ..creation.fill import zeros_like
from ..linalg.matmul import matmul
from ..meta import network as shapes_network
from ..pointwise.arithmetic import refuse
from ..shape.join import cat, stack
from ..shape.permute import t
from ..shape.slice import narrow
from ..shape.split import _unsafe_chunk as unsafe_chunk
from ..shape.split import unbind
from .dropout import dropout
from .linear import linear

State = tuple[Tensor, ...]  # the hidden state, and the cell's of an LSTM


class Weights(NamedTuple):
    """The parameters of one direction of a layer."""

    ih: Any
    hh: Any
    bias_ih: Any = None
    bias_hh: Any = None
    projection: Any = None

    def of_input(self, x: Any) -> Any:
        """What the input contributes to the gates."""
        return linear(x, self.ih, self.bias_ih)

    def of_hidden(self, h: Any) -> Any:
        """What the hidden state contributes to the gates."""
        return linear(h, self.hh, self.bias_hh)


# --- cells: gates of the input, state and weights give the next state -------------------------------------------------


def _lstm_step(gates: Any, state: Any, weights: Weights) -> State:
    hidden, cell = state
    parts = unsafe_chunk.function(weights.of_hidden(hidden).add_(gates), 4, 1)
    enter, forget, fresh, leave = parts[0].sigmoid_(), parts[1].sigmoid_(), parts[2].tanh_(), parts[3].sigmoid_()
    cell = (forget * cell).add_(enter * fresh)
    hidden = leave * cell.tanh()
    if weights.projection is not None:
        hidden = matmul(hidden, t(weights.projection))
    return hidden, cell


def _gru_step(gates: Any, state: Any, weights: Weights) -> State:
    (hidden,) = state
    inputs = unsafe_chunk.function(gates, 3, 1)
    parts = unsafe_chunk.function(weights.of_hidden(hidden), 3, 1)
    reset = parts[0].add_(inputs[0]).sigmoid_()
    keep = parts[1].add_(inputs[1]).sigmoid_()
    fresh = inputs[2].add(parts[2].mul_(reset)).tanh_()
    return ((hidden - fresh).mul_(keep).add_(fresh),)


def _tanh_step(gates: Any, state: Any, weights: Weights) -> State:
    return (weights.of_hidden(state[0]).add_(gates).tanh(),)


def _relu_step(gates: Any, state: Any, weights: Weights) -> State:
    return (weights.of_hidden(state[0]).add_(gates).relu(),)


Step = Callable[[Any, Any, Weights], State]


# --- layers -----------------------------------------------------------------------------------------------------------


def _over_time(step: Step, x: Any, state: State, weights: Weights, backwards: bool) -> tuple[Any, State]:
    """Run a cell over a (time, batch, feature) input; outputs stay in the order of time."""
    gates = unbind(weights.of_input(x), 0)
    outputs = []
    for gate in reversed(gates) if backwards else gates:
        state = step(gate, state, weights)
        outputs.append(state[0])
    if backwards:
        outputs.reverse()
    return stack(outputs, 0), state


def _over_packed(
    sizes: Sequence[int], step: Step, x: Any, state: State, weights: Weights, backwards: bool
) -> tuple[Any, State]:
    """Run a cell over packed steps, the batch of step `i` being the first `sizes[i]` sequences."""
    gates = weights.of_input(x)
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    order = range(len(sizes))
    return (_shrinking if not backwards else _growing)(step, gates, state, weights, sizes, starts, order)


def _shrinking(step: Step, gates: Any, state: State, weights: Weights, sizes: Any, starts: Any, order: Any) -> Any:
    """Forwards: sequences that end leave the batch with their last state."""
    outputs, ended = [], []
    for i in order:
        size, before = sizes[i], state[0]._a.shape[0]
        if size < before:
            ended.append(tuple(narrow(s, 0, size, before - size) for s in state))
            state = tuple(narrow(s, 0, 0, size) for s in state)
        state = step(narrow(gates, 0, starts[i], size), state, weights)
        outputs.append(state[0])
    ended.append(state)
    return cat(outputs, 0), _joined(reversed(ended))


def _growing(step: Step, gates: Any, first: State, weights: Weights, sizes: Any, starts: Any, order: Any) -> Any:
    """Backwards: sequences enter the batch, with their first state, where they end."""
    state = tuple(narrow(s, 0, 0, sizes[-1]) for s in first)
    outputs = []
    for i in reversed(order):
        size, before = sizes[i], state[0]._a.shape[0]
        if size > before:
            state = _joined([state, tuple(narrow(s, 0, before, size - before) for s in first)])
        state = step(narrow(gates, 0, starts[i], size), state, weights)
        outputs.append(state[0])
    outputs.reverse()
    return cat(outputs, 0), state


def _joined(states: Any) -> State:
    parts = list(zip(*states, strict=True))
    return tuple(p[0] if len(p) == 1 else cat(list(p), 0) for p in parts)


# --- a layer as one operator ------------------------------------------------------------------------------------------


def _sizes(shape: Any, batch_sizes: Any) -> Any:
    """Rows of each step; input of two dimensions that is not packed is one step."""
    if batch_sizes is not None:
        return batch_sizes.tolist()
    return [shape[-2]] * (shape[0] if len(shape) == 3 else 1)


def _as_rows(a: Any, batch_sizes: Any) -> Any:
    return a if batch_sizes is not None else a.reshape(math.prod(a.shape[:-1]), a.shape[-1])


def _gradients_by_steps(
    step: Step, grads: Any, x: Any, state: State, weights: Weights, batch_sizes: Any, reverse: bool
) -> Any:
    """The layer's gradients where they are to be differentiated again: those of the cell over time."""
    inputs = [x, *state, *(w for w in weights if w is not None)]
    requested = [t.requires_grad for t in inputs]
    wanted = [t if yes else t.detach().requires_grad_() for t, yes in zip(inputs, requested, strict=True)]
    whole, state = Weights(*wanted[1 + len(state) :]), tuple(wanted[1 : 1 + len(state)])
    if batch_sizes is not None:
        outputs, ends = _over_packed(batch_sizes.tolist(), step, wanted[0], state, whole, reverse)
    elif x._a.ndim == 3:
        outputs, ends = _over_time(step, wanted[0], state, whole, reverse)
    else:
        ends = step(whole.of_input(wanted[0]), state, whole)
        outputs = ends[0]
    found = grad((outputs, *ends), wanted, grads, create_graph=True, allow_unused=True)
    without = (None, None) if weights.bias_ih is None else ()
    return *(f if yes else None for f, yes in zip(found, requested, strict=True)), *without


def _or_zeros(grads: Any, likes: Any) -> list[Any]:
    return [zeros_like(like) if g is None else g for g, like in zip(grads, likes, strict=True)]


def _again(*tensors: Any) -> bool:
    """Whether gradients that depend on these are to be differentiated again."""
    return is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def _layer_gradients(grads: Any, input: Any, hx: Any, cx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any,
                     batch_sizes: Any, reverse: bool, result0: Any, result3: Any, result4: Any) -> Any:  # fmt: skip
    given, weights = _or_zeros(grads[:3], (result0, hx, cx)), Weights(w_ih, w_hh, b_ih, b_hh)
    if _again(*given, input, hx, cx, *weights):
        return _gradients_by_steps(_lstm_step, given, input, (hx, cx), weights, batch_sizes, reverse)
    *found, bias = _lstm_layer_backward.function(
        *given, input, hx, cx, w_ih, w_hh, batch_sizes, reverse, result0, result3, result4
    )
    return *found, *_both(b_ih, bias)


def _both(given: Any, gradient: Any) -> Any:
    """The gradient of two biases that are added up; there are none of them where there are no biases."""
    return (None, None) if given is None else (gradient, gradient)


@op(
    "_lstm_layer(Tensor input, Tensor hx, Tensor cx, Tensor w_ih, Tensor w_hh, Tensor? b_ih, Tensor? b_hh, "
    "Tensor? batch_sizes, bool reverse) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    all_flops=flops.recurrent_layer(0, 3, 13, bias=5, biased=4),
    meta=shapes_network.lstm,
    input__hx__cx__w_ih__w_hh__b_ih__b_hh=_layer_gradients,
    nondiff=(3, 4),
    out=False,
    method=False,
)
def _lstm_layer(
    x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, batch_sizes: Any, reverse: bool
) -> Any:
    """Output, last states, and what backward needs: the gates and the cells of all steps."""
    bias = None if b_ih is None else b_ih + b_hh
    sizes = _sizes(x.shape, batch_sizes)
    outputs, h, c, gates, cells = kernels.forward(_as_rows(x, batch_sizes), h, c, w_ih, w_hh, bias, sizes, reverse)
    return outputs.reshape(*x.shape[:-1], outputs.shape[1]), h, c, gates, cells


@op(
    "_lstm_layer_backward(Tensor grad, Tensor grad_hx, Tensor grad_cx, Tensor input, Tensor hx, Tensor cx, Tensor w_ih, "
    "Tensor w_hh, Tensor? batch_sizes, bool reverse, Tensor output, Tensor gates, Tensor cells) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    all_flops=flops.recurrent_layer(3, 6, 23, passes=2, biased=4),
    meta=shapes_network.lstm_backward,
    grad=refuse("_lstm_layer_backward"),
    out=False,
    method=False,
)
def _lstm_layer_backward(g: Any, gh: Any, gc: Any, x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, batch_sizes: Any,
                         reverse: bool, output: Any, gates: Any, cells: Any) -> Any:  # fmt: skip
    sizes = _sizes(x.shape, batch_sizes)
    rows = [_as_rows(a, batch_sizes) for a in (g, x, output)]
    dx, *rest = kernels.backward(rows[0], gh, gc, rows[1], h, c, w_ih, w_hh, rows[2], gates, cells, sizes, reverse)
    return dx.reshape(x.shape), *rest


def _gru_gradients(grads: Any, input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, batch_sizes: Any,
                   reverse: bool, result2: Any, result3: Any, result4: Any) -> Any:  # fmt: skip
    given, weights = (
        _or_zeros(grads[:2], (result2.view(*input.shape[:-1], result2.shape[1]), hx)),
        Weights(w_ih, w_hh, b_ih, b_hh),
    )
    if _again(*given, input, hx, *weights):
        return _gradients_by_steps(_gru_step, given, input, (hx,), weights, batch_sizes, reverse)
    *found, by_ih, by_hh = _gru_layer_backward.function(
        *given, input, hx, w_ih, w_hh, batch_sizes, reverse, result2, result3, result4
    )
    return *found, *((None, None) if b_ih is None else (by_ih, by_hh))


@op(
    "_gru_layer(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih, Tensor? b_hh, Tensor? batch_sizes, "
    "bool reverse) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    all_flops=flops.recurrent_layer(0, 2, 10, bias=4, biased=6),
    meta=shapes_network.gru,
    input__hx__w_ih__w_hh__b_ih__b_hh=_gru_gradients,
    nondiff=(2, 3, 4),
    out=False,
    method=False,
)
def _gru_layer(x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, batch_sizes: Any, reverse: bool) -> Any:
    """Output, last state, and what backward needs: states, gates and inner sums of all steps.

    The states are the output once more, which its owner may change.
    """
    rows, sizes = _as_rows(x, batch_sizes), _sizes(x.shape, batch_sizes)
    outputs, h, gates, inner = gru_kernels.forward(rows, h, w_ih, w_hh, b_ih, b_hh, sizes, reverse)
    return outputs.copy().reshape(*x.shape[:-1], outputs.shape[1]), h, outputs, gates, inner


@op(
    "_gru_layer_backward(Tensor grad, Tensor grad_hx, Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, "
    "Tensor? batch_sizes, bool reverse, Tensor states, Tensor gates, Tensor inner) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    all_flops=flops.recurrent_layer(2, 4, 17, passes=2, biased=6),
    meta=shapes_network.rnn_backward(2),
    grad=refuse("_gru_layer_backward"),
    out=False,
    method=False,
)
def _gru_layer_backward(g: Any, gh: Any, x: Any, h: Any, w_ih: Any, w_hh: Any, batch_sizes: Any, reverse: bool,
                        states: Any, gates: Any, inner: Any) -> Any:  # fmt: skip
    sizes = _sizes(x.shape, batch_sizes)
    rows = _as_rows(g, batch_sizes), _as_rows(x, batch_sizes)
    dx, *rest = gru_kernels.backward(rows[0], gh, rows[1], h, w_ih, w_hh, states, gates, inner, sizes, reverse)
    return dx.reshape(x.shape), *rest


def _rnn_gradients(grads: Any, input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, batch_sizes: Any,
                   reverse: bool, relu: bool, result2: Any) -> Any:  # fmt: skip
    given, weights = (
        _or_zeros(grads[:2], (result2.view(*input.shape[:-1], result2.shape[1]), hx)),
        Weights(w_ih, w_hh, b_ih, b_hh),
    )
    if _again(*given, input, hx, *weights):
        step = _relu_step if relu else _tanh_step
        return _gradients_by_steps(step, given, input, (hx,), weights, batch_sizes, reverse)
    *found, bias = _rnn_layer_backward.function(*given, input, hx, w_ih, w_hh, batch_sizes, reverse, relu, result2)
    return *found, *_both(b_ih, bias)


@op(
    "_rnn_layer(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih, Tensor? b_hh, Tensor? batch_sizes, "
    "bool reverse, bool relu) -> (Tensor, Tensor, Tensor)",
    all_flops=flops.recurrent_layer(0, 2, 2, bias=4, biased=1),
    meta=shapes_network.rnn,
    input__hx__w_ih__w_hh__b_ih__b_hh=_rnn_gradients,
    nondiff=(2,),
    out=False,
    method=False,
)
def _rnn_layer(
    x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, batch_sizes: Any, reverse: bool, relu: bool
) -> Any:
    """Output, last state, and for backward the states of all steps."""
    bias = None if b_ih is None else b_ih + b_hh
    rows, sizes = _as_rows(x, batch_sizes), _sizes(x.shape, batch_sizes)
    outputs, h = gru_kernels.plain_forward(rows, h, w_ih, w_hh, bias, sizes, reverse, relu)
    return outputs.copy().reshape(*x.shape[:-1], outputs.shape[1]), h, outputs


@op(
    "_rnn_layer_backward(Tensor grad, Tensor grad_hx, Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, "
    "Tensor? batch_sizes, bool reverse, bool relu, Tensor states) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    all_flops=flops.recurrent_layer(2, 4, 4, passes=2, biased=1),
    meta=shapes_network.rnn_backward(1),
    grad=refuse("_rnn_layer_backward"),
    out=False,
    method=False,
)
def _rnn_layer_backward(g: Any, gh: Any, x: Any, h: Any, w_ih: Any, w_hh: Any, batch_sizes: Any, reverse: bool,
                        relu: bool, states: Any) -> Any:  # fmt: skip
    sizes = _sizes(x.shape, batch_sizes)
    rows = _as_rows(g, batch_sizes), _as_rows(x, batch_sizes)
    dx, *rest = gru_kernels.plain_backward(rows[0], gh, rows[1], h, w_ih, w_hh, states, sizes, reverse, relu)
    return dx.reshape(x.shape), *rest


def _fits(x: Any, state: Any, weights: Weights) -> bool:
    """Whether a layer can be computed as one operator: one floating point type, no projection."""
    tensors = (x, *state, *(w for w in weights if w is not None))
    return weights.projection is None and x._a.dtype.char in "fd" and all(w._a.dtype is x._a.dtype for w in tensors)


def _as_one(step: Step, x: Any, state: State, weights: Weights, batch_sizes: Any, backwards: bool) -> Any:
    """A layer by its operator: output and last states."""
    if step is _lstm_step:
        output, h, c, _, _ = _lstm_layer.function(x, *state, *weights[:4], batch_sizes, backwards)
        return output, (h, c)
    if step is _gru_step:
        output, h, _, _, _ = _gru_layer.function(x, *state, *weights[:4], batch_sizes, backwards)
    else:
        output, h, _ = _rnn_layer.function(x, *state, *weights[:4], batch_sizes, backwards, step is _relu_step)
    return output, (h,)


def _is_one(step: Step) -> bool:
    """Whether a layer may be one operator: in torch only that of an LSTM is, and autocast reaches the products in others."""
    return step is _lstm_step or not tap.NAMESPACE["CASTING"]()


def _runner(batch_sizes: Any, stepwise: Any) -> Any:
    """What runs a layer: the operator, or a cell over time where that does not fit."""

    def run(step: Step, x: Any, state: State, weights: Weights, backwards: bool) -> tuple[Any, State]:
        if _is_one(step) and _fits(x, state, weights):
            made: tuple[Any, State] = _as_one(step, x, state, weights, batch_sizes, backwards)
            return made
        return stepwise(step, x, state, weights, backwards)

    return run


# --- stacks of layers -------------------------------------------------------------------------------------------------


class _Options(NamedTuple):
    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool


def _grouped(params: Sequence[Any], options: _Options, projected: bool) -> list[Weights]:
    """The flat list of parameters, by layer and direction."""
    each = 2 + 2 * options.has_biases + projected
    runs = options.num_layers * (2 if options.bidirectional else 1)
    if len(params) != each * runs:
        raise RuntimeError(
            f"got an incorrect number of RNN parameters: {len(params)} instead of {each * runs} ({each} for each of "
            f"{runs} layers and directions)"
        )
    groups = []
    for i in range(0, len(params), each):
        ih, hh, *rest = params[i : i + each]
        bias_ih, bias_hh = rest[:2] if options.has_biases else (None, None)
        groups.append(Weights(ih, hh, bias_ih, bias_hh, rest[-1] if projected else None))
    return groups


def _stack(run: Any, step: Step, x: Any, states: list[State], groups: list[Weights], options: _Options) -> Any:
    """All layers, one after the other; the last state of each direction of each."""
    directions = 2 if options.bidirectional else 1
    ends: list[State] = []
    for layer in range(options.num_layers):
        outputs = []
        for direction in range(directions):
            k = layer * directions + direction
            output, end = run(step, x, states[k], groups[k], direction == 1)
            outputs.append(output)
            ends.append(end)
        x = outputs[0] if directions == 1 else cat(outputs, outputs[0]._a.ndim - 1)
        if options.dropout and options.train and layer < options.num_layers - 1:
            x = dropout(x, options.dropout, True)
    return x, tuple(stack(list(s), 0) for s in zip(*ends, strict=True))


def _by_layer(hx: Sequence[Any]) -> list[State]:
    return list(zip(*(unbind(h, 0) for h in hx), strict=True))


def _padded(step: Step, x: Any, hx: Sequence[Any], params: Any, options: _Options, batch_first: bool) -> Any:
    x = x.transpose(0, 1) if batch_first else x
    if x._a.shape[0] == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    projected = len(hx) == 2 and hx[0]._a.shape[2] != hx[1]._a.shape[2]
    groups = _grouped(params, options, projected)
    output, ends = _stack(_runner(None, _over_time), step, x, _by_layer(hx), groups, options)
    return (output.transpose(0, 1) if batch_first else output, *ends)


def _packed(step: Step, data: Any, batch_sizes: Any, hx: Sequence[Any], params: Any, options: _Options) -> Any:
    sizes = batch_sizes._a.tolist()

    def stepwise(*given: Any) -> Any:
        return _over_packed(sizes, *given)

    run = _runner(batch_sizes, stepwise)
    projected = len(hx) == 2 and hx[0]._a.shape[2] != hx[1]._a.shape[2]
    output, ends = _stack(run, step, data, _by_layer(hx), _grouped(params, options, projected), options)
    return (output, *ends)


# --- rows -------------------------------------------------------------------------------------------------------------

_REST = "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"


def _rows(name: str, step: Step) -> tuple[Op, Op]:
    """The two overloads of a network with one hidden state: padded and packed."""

    def padded(input: Any, hx: Any, params: Any, *options: Any) -> Any:
        return _padded(step, input, [hx], params, _Options(*options[:5]), options[5])

    def packed(data: Any, batch_sizes: Any, hx: Any, params: Any, *options: Any) -> Any:
        return _packed(step, data, batch_sizes, [hx], params, _Options(*options))

    return (
        composite(f"{name}.input(Tensor input, Tensor hx, {_REST}, bool batch_first) -> (Tensor, Tensor)")(padded),
        composite(f"{name}.data(Tensor data, Tensor batch_sizes, Tensor hx, {_REST}) -> (Tensor, Tensor)")(packed),
    )


gru_input, gru_data = _rows("gru", _gru_step)
rnn_tanh_input, rnn_tanh_data = _rows("rnn_tanh", _tanh_step)
rnn_relu_input, rnn_relu_data = _rows("rnn_relu", _relu_step)


@composite(f"lstm.input(Tensor input, Tensor[] hx, {_REST}, bool batch_first) -> (Tensor, Tensor, Tensor)")
def lstm_input(input: Any, hx: Any, params: Any, *options: Any) -> Any:
    _check_two(hx)
    return _padded(_lstm_step, input, hx, params, _Options(*options[:5]), options[5])


@composite(f"lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, {_REST}) -> (Tensor, Tensor, Tensor)")
def lstm_data(data: Any, batch_sizes: Any, hx: Any, params: Any, *options: Any) -> Any:
    _check_two(hx)
    return _packed(_lstm_step, data, batch_sizes, hx, params, _Options(*options))


def _check_two(hx: Any) -> None:
    if len(hx) != 2:
        raise RuntimeError("lstm expects two hidden states")


def _front(name: str, padded: Op, packed: Op) -> Any:
    """One public function for both overloads, told apart by where the list of parameters stands."""

    def public(*args: Any, **kwargs: Any) -> Any:
        is_packed = (
            "data" in kwargs or "batch_sizes" in kwargs or (len(args) > 3 and isinstance(args[3], (list, tuple)))
        )
        return (packed if is_packed else padded).function(*args, **kwargs)

    public.__name__ = public.__qualname__ = name
    return front(name)(public)


lstm = _front("lstm", lstm_input, lstm_data)
gru = _front("gru", gru_input, gru_data)
rnn_tanh = _front("rnn_tanh", rnn_tanh_input, rnn_tanh_data)
rnn_relu = _front("rnn_relu", rnn_relu_input, rnn_relu_data)


# --- cells ------------------------------------------------------------------------------------------------------------


def _check_cell(input: Any, hx: Sequence[Any], w_ih: Any, w_hh: Any) -> None:
    x = input._a.shape
    if x[1] != w_ih._a.shape[1]:
        raise RuntimeError(f"input has inconsistent input_size: got {x[1]} expected {w_ih._a.shape[1]}")
    for i, state in enumerate(hx):
        h = state._a.shape
        if x[0] != h[0]:
            raise RuntimeError(f"Input batch size {x[0]} doesn't match hidden{i} batch size {h[0]}")
        if h[1] != w_hh._a.shape[1]:
            raise RuntimeError(f"hidden{i} has inconsistent hidden_size: got {h[1]}, expected {w_hh._a.shape[1]}")


_CELL = "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None"


@composite(f"lstm_cell(Tensor input, Tensor[] hx, {_CELL}) -> (Tensor, Tensor)")
def lstm_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    _check_two(hx)
    _check_cell(input, hx, w_ih, w_hh)
    return _one_step(_lstm_step, input, tuple(hx), Weights(w_ih, w_hh, b_ih, b_hh))


def _one_step(step: Step, x: Any, state: State, weights: Weights) -> State:
    """The state after one step, by one operator where that takes it."""
    if not tap.NAMESPACE["CASTING"]() and _fits(x, state, weights):
        after: State = _as_one(step, x, state, weights, None, False)[1]
        return after
    return step(weights.of_input(x), state, weights)


def _cell(name: str, step: Step) -> Op:
    def body(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
        _check_cell(input, [hx], w_ih, w_hh)
        return _one_step(step, input, (hx,), Weights(w_ih, w_hh, b_ih, b_hh))[0]

    return composite(f"{name}(Tensor input, Tensor hx, {_CELL}) -> Tensor")(body)


gru_cell = _cell("gru_cell", _gru_step)
rnn_tanh_cell = _cell("rnn_tanh_cell", _tanh_step)
rnn_relu_cell = _cell("rnn_relu_cell", _relu_step)
