"""One GRU layer, or one of a plain recurrent network, over all its steps, forwards and backwards, on arrays.

Rows of all steps lie one after the other, as in `lstm`; gates of a GRU come in the order reset, keep, fresh.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..compiled import C, tanh
from ..linalg.packed import multiplier
from .lstm import states_before, steps


def _step(gates: Any, added: Any, bias: Any, before: Any, inner: Any, out: Any) -> None:
    """The next state of some rows. ``gates`` hold what the input adds, those of reset and keep with the sign changed;
    they become the values of the gates. ``inner`` becomes what the state adds to the fresh one."""
    hidden = out.shape[1]
    if C is not None and C.gru_step(gates, np.ascontiguousarray(added), bias, before, inner, out):
        return
    both, fresh = gates[:, : 2 * hidden], gates[:, 2 * hidden :]
    both += added[:, : 2 * hidden]
    np.exp(both, out=both)
    both += 1
    np.divide(1, both, out=both)  # np.reciprocal takes twice as long
    np.copyto(inner, added[:, 2 * hidden :])
    if bias is not None:
        inner += bias
    fresh += inner * both[:, :hidden]
    np.tanh(fresh, out=fresh)
    np.subtract(before, fresh, out=out)
    out *= both[:, hidden:]
    out += fresh


def forward(
    x: Any, h0: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, sizes: Sequence[int], reverse: bool
) -> tuple[Any, Any, Any, Any]:
    """Outputs, the last state, and for backward the gates and the inner sums of all rows."""
    hidden = w_hh.shape[1]
    sign = np.full(3 * hidden, -1, x.dtype)
    sign[2 * hidden :] = 1
    gates = x.dot((w_ih * sign[:, None]).T)
    bias = None
    if b_ih is not None:
        whole = b_ih * sign
        whole[: 2 * hidden] -= b_hh[: 2 * hidden]
        gates += whole
        bias = np.ascontiguousarray(b_hh[2 * hidden :])
    recurrent = multiplier((w_hh * sign[:, None]).T, sizes)
    outputs = np.empty((x.shape[0], hidden), x.dtype)
    inner = np.empty_like(outputs)
    h = h0.copy()
    for start, size in steps(sizes, reverse):
        rows = slice(start, start + size)
        _step(gates[rows], recurrent(h[:size]), bias, h[:size], inner[rows], outputs[rows])
        h[:size] = outputs[rows]
    return outputs, h, gates, inner


def backward(
    grad: Any, grad_h: Any, x: Any, h0: Any, w_ih: Any, w_hh: Any, outputs: Any, gates: Any, inner: Any,
    sizes: Sequence[int], reverse: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Gradients of input, first state, both weights and both biases."""
    hidden = w_hh.shape[1]
    reset, keep = gates[:, :hidden], gates[:, hidden : 2 * hidden]
    earlier = states_before(outputs, h0, sizes, reverse)
    slots = _slopes(gates, inner, earlier)
    by_state, by_reset, by_keep, by_fresh = (slots[:, i * hidden : (i + 1) * hidden] for i in range(4))
    of_state, of_input = slots[:, : 3 * hidden], slots[:, hidden:]
    recurrent = multiplier(np.roll(w_hh, hidden, 0), sizes)
    dh = grad_h.copy()
    for start, size in steps(sizes, not reverse):
        rows = slice(start, start + size)
        dhs = dh[:size]
        dhs += grad[rows]
        by_fresh[rows] *= dhs
        by_reset[rows] *= by_fresh[rows]
        by_keep[rows] *= dhs
        np.multiply(by_fresh[rows], reset[rows], out=by_state[rows])
        dhs *= keep[rows]
        dhs += recurrent(of_state[rows])
    ones = np.ones(x.shape[0], x.dtype)
    return (
        of_input @ w_ih,
        dh,
        of_input.T @ x,
        np.roll(of_state.T @ earlier, -hidden, 0),
        ones @ of_input,
        np.roll(ones @ of_state, -hidden),
    )


def _slopes(gates: Any, inner: Any, earlier: Any) -> Any:
    """Room for the gradients of the gates of all rows, filled with what they are multiples of.

    Columns are fresh (by way of the state, not yet known), reset, keep and fresh again (by way of the input): the first
    three belong to the state, the last three to the input, so that neither needs an array of its own.
    """
    hidden = inner.shape[1]
    slots = np.empty((len(gates), 4 * hidden), gates.dtype)
    left, by_reset, by_keep, by_fresh = (slots[:, i * hidden : (i + 1) * hidden] for i in range(4))
    reset, keep, fresh = (gates[:, i * hidden : (i + 1) * hidden] for i in range(3))
    np.subtract(1, keep, out=left)
    np.multiply(fresh, fresh, out=by_fresh)
    np.subtract(1, by_fresh, out=by_fresh)
    by_fresh *= left
    np.subtract(earlier, fresh, out=by_keep)
    by_keep *= keep
    by_keep *= left
    np.subtract(1, reset, out=by_reset)
    by_reset *= reset
    by_reset *= inner
    return slots


def plain_forward(
    x: Any, h0: Any, w_ih: Any, w_hh: Any, bias: Any, sizes: Sequence[int], reverse: bool, relu: bool
) -> tuple[Any, Any]:
    """Outputs and the last state of a layer whose state is tanh or relu of what input and state add up to."""
    outputs = x.dot(w_ih.T)
    if bias is not None:
        outputs += bias
    h = h0.copy()
    recurrent = multiplier(w_hh.T, sizes)
    for start, size in steps(sizes, reverse):
        out = outputs[start : start + size]
        out += recurrent(h[:size])
        if relu:
            np.maximum(out, 0, out=out)
        else:
            tanh(out, out=out)
        h[:size] = out
    return outputs, h


def plain_backward(
    grad: Any, grad_h: Any, x: Any, h0: Any, w_ih: Any, w_hh: Any, outputs: Any, sizes: Sequence[int], reverse: bool,
    relu: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Gradients of input, first state, both weights and the bias."""
    sums = (~(outputs <= 0)).astype(x.dtype) if relu else 1 - outputs * outputs
    dh = grad_h.copy()
    to_state = multiplier(w_hh, sizes)
    for start, size in steps(sizes, not reverse):
        rows = slice(start, start + size)
        dhs = dh[:size]
        dhs += grad[rows]
        sums[rows] *= dhs
        dhs[:] = to_state(sums[rows])
    dw_hh = sums.T.dot(states_before(outputs, h0, sizes, reverse))
    return sums.dot(w_ih), dh, sums.T.dot(x), dw_hh, np.ones(x.shape[0], x.dtype).dot(sums)
