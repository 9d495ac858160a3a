"""One LSTM layer over all its steps, forwards and backwards, on arrays.

Rows of all steps lie one after the other; step `i` has `sizes[i]` rows, those of the first sequences of the batch. So
padded input (equal sizes) and packed input (falling sizes) are one case. Gates come in the order input, forget, cell,
output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..compiled import C, tanh
from ..linalg.packed import multiplier


def steps(sizes: Sequence[int], reverse: bool) -> Iterator[tuple[int, int]]:
    """First row and number of rows of each step, in the order they run."""
    bounds = []
    start = 0
    for size in sizes:
        bounds.append((start, size))
        start += size
    return reversed(bounds) if reverse else iter(bounds)


def _halves(hidden: int, dtype: Any) -> tuple[Any, Any]:
    """Scale and shift with which one tanh over all gates gives the sigmoid of three: s(x) = tanh(x / 2) / 2 + 1 / 2."""
    scale = np.full(4 * hidden, 0.5, dtype)
    scale[2 * hidden : 3 * hidden] = 1
    return scale, 1 - scale


def forward(
    x: Any, h0: Any, c0: Any, w_ih: Any, w_hh: Any, bias: Any, sizes: Sequence[int], reverse: bool
) -> tuple[Any, Any, Any, Any, Any]:
    """Outputs, last states, and for backward the gates and cells of all rows."""
    hidden = w_hh.shape[1]
    scale, shift = _halves(hidden, x.dtype)
    gates = x.dot((w_ih * scale[:, None]).T)
    if bias is not None:
        gates += bias * scale
    recurrent = multiplier((w_hh * scale[:, None]).T, sizes)
    outputs = np.empty((x.shape[0], hidden), x.dtype)
    cells = np.empty_like(outputs)
    h, c = h0.copy(), c0.copy()
    for start, size in steps(sizes, reverse):
        g = gates[start : start + size]
        added = recurrent(h[:size])
        cell, out = cells[start : start + size], outputs[start : start + size]
        if C is not None and C.lstm_step(g, added, c[:size], cell, out):
            h[:size] = out
            c[:size] = cell
            continue
        g += added
        np.tanh(g, out=g)
        g *= scale
        g += shift
        np.multiply(g[:, hidden : 2 * hidden], c[:size], out=cell)
        cell += g[:, :hidden] * g[:, 2 * hidden : 3 * hidden]
        np.tanh(cell, out=out)
        out *= g[:, 3 * hidden :]
        h[:size] = out
        c[:size] = cell
    return outputs, h, c, gates, cells


def states_before(states: Any, first: Any, sizes: Sequence[int], reverse: bool) -> Any:
    """The state each row started from."""
    result = np.empty_like(states)
    state = first.copy()
    for start, size in steps(sizes, reverse):
        result[start : start + size] = state[:size]
        state[:size] = states[start : start + size]
    return result


def _slopes(gates: Any, hidden: int) -> Any:
    """Derivatives of the gates, in terms of their values: s (1 - s), and 1 - t² for the cell's."""
    slopes = gates - gates * gates
    fresh = gates[:, 2 * hidden : 3 * hidden]
    np.subtract(1, fresh * fresh, out=slopes[:, 2 * hidden : 3 * hidden])
    return slopes


def backward(
    grad: Any, grad_h: Any, grad_c: Any, x: Any, h0: Any, c0: Any, w_ih: Any, w_hh: Any, outputs: Any, gates: Any,
    cells: Any, sizes: Sequence[int], reverse: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Gradients of input, first states, both weights and the bias."""
    hidden = w_hh.shape[1]
    bounded = tanh(cells)
    to_cell = gates[:, 3 * hidden :] * (1 - bounded * bounded)
    earlier = states_before(cells, c0, sizes, reverse)
    slopes = _slopes(gates, hidden)
    dgates = np.empty_like(gates)
    dh, dc = grad_h.copy(), grad_c.copy()
    to_state = multiplier(w_hh, sizes)
    for start, size in steps(sizes, not reverse):
        rows = slice(start, start + size)
        dhs, dcs, dg, g = dh[:size], dc[:size], dgates[rows], gates[rows]
        dhs += grad[rows]
        dcs += dhs * to_cell[rows]
        np.multiply(dcs, g[:, 2 * hidden : 3 * hidden], out=dg[:, :hidden])
        np.multiply(dcs, earlier[rows], out=dg[:, hidden : 2 * hidden])
        np.multiply(dcs, g[:, :hidden], out=dg[:, 2 * hidden : 3 * hidden])
        np.multiply(dhs, bounded[rows], out=dg[:, 3 * hidden :])
        dg *= slopes[rows]
        dcs *= g[:, hidden : 2 * hidden]
        dhs[:] = to_state(dg)
    dw_hh = dgates.T.dot(states_before(outputs, h0, sizes, reverse))
    return dgates.dot(w_ih), dh, dc, dgates.T.dot(x), dw_hh, np.ones(x.shape[0], x.dtype).dot(dgates)
