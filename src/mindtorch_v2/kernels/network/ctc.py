"""Owns the connectionist temporal classification loss and its gradient, all samples of a batch at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..checks import not_implemented, type_name
from ..totals import Array

WHERE = "(while checking arguments for ctc_loss_allocate_outputs)"


def ctc_loss(
    log_probs: Array,
    targets: Array,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    blank: int = 0,
) -> tuple[Array, Array]:
    """Minus the log likelihood of each sample's target, and the forward variables ``log_alpha``.

    ``log_probs`` is (time, batch, classes); ``targets`` is (batch, longest) or all targets one after another.
    """
    _check_ctc(log_probs, targets, input_lengths, target_lengths, blank)
    labels, skips = _extended(targets, target_lengths, blank)
    emitted = _emissions(log_probs, labels)
    steps, batch, width = emitted.shape
    alpha = np.full((steps, batch, width), -math.inf, log_probs.dtype)
    alpha[0, :, :2] = emitted[0, :, :2]
    for t in range(1, steps):
        alpha[t] = _step(alpha[t - 1], skips) + emitted[t]
    ends = np.asarray(target_lengths) * 2
    lengths = np.asarray(input_lengths)
    lines = np.arange(batch)
    final = alpha[np.maximum(lengths - 1, 0), lines]
    last, before = final[lines, ends], np.where(ends > 0, final[lines, ends - 1], -math.inf)
    loss = -np.logaddexp(last, before)
    # Nothing was read: only the empty target is certain.
    loss = np.where(lengths == 0, np.where(ends == 0, 0.0, math.inf), loss)
    return loss.astype(log_probs.dtype), np.ascontiguousarray(alpha.transpose(1, 0, 2))


def ctc_loss_backward(
    grad: Array,
    log_probs: Array,
    targets: Array,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    neg_log_likelihood: Array,
    log_alpha: Array,
    blank: int = 0,
    zero_infinity: bool = False,
) -> Array:
    """Gradient of ``ctc_loss`` with respect to ``log_probs``, from what the forward call returned."""
    labels, skips = _extended(targets, target_lengths, blank)
    emitted = _emissions(log_probs, labels)
    steps, batch, classes = log_probs.shape
    beta = _backward_variables(emitted, skips, input_lengths, target_lengths)
    # The share of all paths that pass each place at each time; alpha and beta both count its emission.
    share = log_alpha.transpose(1, 0, 2) + beta
    share += neg_log_likelihood[:, None]
    share -= emitted
    np.exp(share, out=share)
    share[np.isneginf(beta)] = 0
    share[:, np.arange(labels.shape[1]) > 2 * np.asarray(target_lengths)[:, None]] = 0
    where = np.arange(steps * batch).reshape(steps, batch, 1) * classes + labels
    passed = np.bincount(where.reshape(-1), weights=share.reshape(-1), minlength=log_probs.size)
    result = np.exp(log_probs) - passed.reshape(log_probs.shape)
    result *= grad[:, None]
    # A target that cannot be reached has no gradient.
    result[:, np.isposinf(neg_log_likelihood)] = 0 if zero_infinity else math.nan
    result[np.arange(steps)[:, None] >= np.asarray(input_lengths)] = 0
    return result.astype(log_probs.dtype, copy=False)


def _backward_variables(
    emitted: Array, skips: Array, input_lengths: Sequence[int], target_lengths: Sequence[int]
) -> Array:
    """Log probability of the rest of each target from every place and time, its own emission included."""
    steps, _, width = emitted.shape
    beta = np.full(emitted.shape, -math.inf, emitted.dtype)
    ends = np.asarray(target_lengths) * 2
    lengths = np.asarray(input_lengths)
    place = np.arange(width)
    final = (place == ends[:, None]) | (place == ends[:, None] - 1)
    # Read backwards, a place may be skipped to from two places before it.
    skips_back = np.zeros_like(skips)
    skips_back[:, :-2] = skips[:, 2:]
    for t in range(steps - 1, -1, -1):
        if t + 1 < steps:
            beta[t] = _step(beta[t + 1][:, ::-1], skips_back[:, ::-1])[:, ::-1] + emitted[t]
        ending = lengths - 1 == t
        beta[t][ending] = np.where(final[ending], emitted[t][ending], -math.inf)
    return beta


def _step(previous: Array, skips: Array) -> Array:
    """Sum, in log space, over staying, moving on by one, and skipping the blank between different labels."""
    moved = np.full_like(previous, -math.inf)
    moved[:, 1:] = previous[:, :-1]
    skipped = np.full_like(previous, -math.inf)
    skipped[:, 2:] = np.where(skips[:, 2:], previous[:, :-2], -math.inf)
    peak = np.maximum(np.maximum(previous, moved), skipped)
    base = np.where(np.isneginf(peak), previous.dtype.type(0), peak)
    summed = np.exp(previous - base) + np.exp(moved - base) + np.exp(skipped - base)
    return np.asarray(np.log(summed, out=np.full_like(summed, -math.inf), where=summed > 0) + base)


def _extended(targets: Array, target_lengths: Sequence[int], blank: int) -> tuple[Array, Array]:
    """Each target with blanks around and between its labels, and the places that may be reached over a blank."""
    lengths = np.asarray(target_lengths)
    batch, longest = lengths.size, int(lengths.max()) if lengths.size else 0
    padded = np.full((batch, longest), blank, np.int64)
    inside = np.arange(longest) < lengths[:, None]
    if targets.ndim == 1:
        padded[inside] = targets[: int(lengths.sum())]
    else:
        padded[inside] = targets[:, :longest][inside]
    labels = np.full((batch, 2 * longest + 1), blank, np.int64)
    labels[:, 1::2] = padded
    skips = np.zeros(labels.shape, np.bool_)
    skips[:, 3::2] = padded[:, 1:] != padded[:, :-1]
    return labels, skips


def _emissions(log_probs: Array, labels: Array) -> Array:
    """Log probability of each extended label at each time: (time, batch, places)."""
    steps, batch, classes = log_probs.shape
    where = np.arange(steps * batch).reshape(steps, batch, 1) * classes + labels
    return np.asarray(log_probs.reshape(-1).take(where))


def _check_ctc(
    log_probs: Array, targets: Array, input_lengths: Sequence[int], target_lengths: Sequence[int], blank: int
) -> None:
    if log_probs.size == 0:
        raise RuntimeError("log_probs tensor must not be empty")
    if log_probs.dtype not in (np.float32, np.float64):
        raise not_implemented("ctc_loss_cpu", log_probs.dtype)
    if targets.dtype not in (np.int64, np.int32):
        raise RuntimeError(f"expected scalar type Long but found {type_name(targets.dtype)}")
    steps, batch, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    if len(input_lengths) != batch:
        raise RuntimeError("input_lengths must be of size batch_size")
    if len(target_lengths) != batch:
        raise RuntimeError("target_lengths must be of size batch_size")
    for name, lengths in (("target_lengths", target_lengths), ("input_lengths", input_lengths)):
        low = min(lengths)
        if low < 0:
            raise RuntimeError(f"Expected {name} to have value at least 0, but got value {low} {WHERE}")
    if targets.ndim == 1:
        if targets.size != sum(target_lengths):
            raise _target_size_error(str(sum(target_lengths)), 0, targets.shape[0])
    else:
        if targets.shape[0] != batch:
            raise _target_size_error(str(batch), 0, targets.shape[0])
        if targets.shape[1] < max(target_lengths):
            raise _target_size_error(f"at least {max(target_lengths)}", 1, targets.shape[1])
    if max(input_lengths) > steps:
        raise RuntimeError(
            f"Expected input_lengths to have value at most {steps}, but got value {max(input_lengths)} {WHERE}"
        )


def _target_size_error(wanted: str, dim: int, got: int) -> RuntimeError:
    return RuntimeError(
        f"Expected tensor to have size {wanted} at dimension {dim}, but got size {got} for argument #2 'targets' "
        + WHERE
    )
