"""Owns losses against class indices: negative log likelihood and the multi-class and multi-label margins.

``reduction`` is 0 (none), 1 (mean) or 2 (sum).
"""

from __future__ import annotations

import math

import numpy as np

from ...core.errors import shape_text
from ..checks import is_float, not_implemented, type_name
from ..precision import narrow, wide
from ..totals import Array, total
from .softmax import row_log_sums

INT64 = np.dtype(np.int64)
NONE, MEAN, SUM = 0, 1, 2


# ---------------------------------------------------------------------------------------------------- nll_loss


def nll_loss(
    x: Array, target: Array, weight: Array | None = None, reduction: int = MEAN, ignore_index: int = -100
) -> tuple[Array, Array]:
    """Minus ``x[i, target[i]]``, weighted by class, and the total weight; ``x`` is (classes) or (batch, classes)."""
    _check_nll(x, target, weight)
    rows = x.reshape(-1, x.shape[-1], 1)
    loss, weights = _nll(rows, target.reshape(-1, 1), weight, ignore_index)
    return _reduced_nll(loss.reshape(x.shape[:-1]), weights, reduction, x)


def nll_loss2d(
    x: Array, target: Array, weight: Array | None = None, reduction: int = MEAN, ignore_index: int = -100
) -> tuple[Array, Array]:
    """``nll_loss`` at every place of a (batch, classes, height, width) array, and the total weight."""
    _check_nll2d(x, target, weight)
    planes = x.reshape(x.shape[0], x.shape[1], math.prod(x.shape[2:]))
    loss, weights = _nll(planes, target.reshape(x.shape[0], math.prod(x.shape[2:])), weight, ignore_index)
    return _reduced_nll(loss.reshape(target.shape), weights, reduction, x)


def cross_entropy(x: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int) -> Array | None:
    """``nll_loss`` of the ``log_softmax`` of a matrix, without making all of that: one of its values for each row is wanted.
    None where there are too few for that to pay, or where sums leave their bounds."""
    _check_nll(x, target, weight)
    sums = row_log_sums(x)
    if sums is None:
        return None
    where, weights = _targets((*x.shape, 1), x, target.reshape(-1, 1), weight, ignore_index)
    selected = x.reshape(-1).take(where[:, 0])
    selected -= sums
    loss = np.where(target == ignore_index, x.dtype.type(0), -selected * weights[:, 0])
    return _reduced_nll(loss, weights, reduction, x)[0]


def _nll(x: Array, target: Array, weight: Array | None, ignore_index: int) -> tuple[Array, Array]:
    """Losses of a (batch, classes, places) array and the weight of each."""
    where, weights = _targets(x.shape, x, target, weight, ignore_index)
    selected = wide(x.reshape(-1).take(where)) if x.size else np.zeros(target.shape, weights.dtype)
    # What is ignored counts nothing even where the input is infinite.
    return np.where(target == ignore_index, weights.dtype.type(0), -selected * weights), weights


def _targets(
    shape: tuple[int, ...], x: Array, target: Array, weight: Array | None, ignore_index: int
) -> tuple[Array, Array]:
    """Flat positions of the target classes and their weights; ignored targets stand at class 0 with weight 0."""
    batch, classes, positions = shape
    ignored = target == ignore_index
    kept = np.where(ignored, 0, target).astype(INT64, copy=False)
    bad = (kept < 0) | (kept >= classes)
    if bad.any():
        raise IndexError(f"Target {kept[bad][0]} is out of bounds.")
    where = kept * positions
    where += np.arange(batch)[:, None] * (classes * positions) + np.arange(positions)
    dtype = np.dtype(np.float64) if x.dtype == np.float64 else np.dtype(np.float32)
    weights = np.ones(target.shape, dtype) if weight is None else wide(weight).take(kept)
    return where, np.where(ignored, dtype.type(0), weights)


def _reduced_nll(loss: Array, weights: Array, reduction: int, x: Array) -> tuple[Array, Array]:
    if reduction == NONE:
        return narrow(loss, x.dtype), np.zeros((), x.dtype)
    summed, weight = total(loss), total(weights)
    if reduction == MEAN:
        summed = np.asarray(np.divide(summed, weight) if weight else summed * math.nan)
    return narrow(summed, x.dtype), narrow(weight, x.dtype)


def nll_loss_backward(
    grad: Array,
    x: Array,
    target: Array,
    weight: Array | None,
    reduction: int,
    ignore_index: int,
    total_weight: Array,
) -> Array:
    """Gradient of ``nll_loss``."""
    _check_nll(x, target, weight)
    _check_nll_grad(grad, reduction, (x.shape[0],) if x.ndim == 2 else (), total_weight)
    shape = (x.size // x.shape[-1] if x.size else 0, x.shape[-1], 1)
    return _nll_backward(grad, x, shape, target.reshape(-1, 1), weight, reduction, ignore_index, total_weight)


def nll_loss2d_backward(
    grad: Array,
    x: Array,
    target: Array,
    weight: Array | None,
    reduction: int,
    ignore_index: int,
    total_weight: Array,
) -> Array:
    """Gradient of ``nll_loss2d``."""
    _check_nll2d(x, target, weight)
    _check_nll_grad(grad, reduction, target.shape, total_weight)
    shape = (x.shape[0], x.shape[1], math.prod(x.shape[2:]))
    positions = target.reshape(shape[0], shape[2])
    return _nll_backward(grad, x, shape, positions, weight, reduction, ignore_index, total_weight)


def _nll_backward(
    grad: Array,
    x: Array,
    shape: tuple[int, int, int],
    target: Array,
    weight: Array | None,
    reduction: int,
    ignore_index: int,
    total_weight: Array,
) -> Array:
    where, weights = _targets(shape, x, target, weight, ignore_index)
    g = wide(grad).reshape(target.shape if reduction == NONE else ())
    if reduction == MEAN:
        g = g / wide(total_weight) if total_weight else g * 0
    result = np.zeros(x.size, x.dtype)
    result[where.reshape(-1)] = narrow(-weights * g, x.dtype).reshape(-1)
    return result.reshape(x.shape)


def _require_class_indices(target: Array) -> None:
    if target.dtype not in (INT64, np.uint8):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {type_name(target.dtype)}")


def _require_float(kernel: str, x: Array, weight: Array | None) -> None:
    if not is_float(x.dtype):
        raise not_implemented(kernel, x.dtype)
    if weight is not None and weight.dtype != x.dtype:
        raise RuntimeError(f"expected scalar type {type_name(x.dtype)} but found {type_name(weight.dtype)}")


def _check_nll(x: Array, target: Array, weight: Array | None) -> None:
    if x.ndim not in (1, 2):
        raise RuntimeError("input tensor should be 1D or 2D")
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if (x.shape[0] if x.ndim == 2 else 1) != target.size:
        raise RuntimeError(f"size mismatch (got input: {shape_text(x.shape)}, target: {shape_text(target.shape)})")
    _require_class_indices(target)
    classes = x.shape[-1]
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of "
            f"shape: {shape_text(weight.shape)}"
        )
    _require_float("nll_loss_out_frame", x, weight)


def _check_nll2d(x: Array, target: Array, weight: Array | None) -> None:
    if target.ndim != 3:
        raise RuntimeError(
            f"only batches of spatial targets supported (3D tensors) but got targets of dimension: {target.ndim}"
        )
    if x.ndim != 4:
        raise RuntimeError(
            f"only batches of spatial inputs supported (4D tensors), but got input of dimension: {x.ndim}"
        )
    if weight is not None and weight.size != x.shape[1]:
        raise RuntimeError("weight tensor should be defined either for all or no classes")
    if (x.shape[0], *x.shape[2:]) != target.shape:
        raise RuntimeError(f"size mismatch (got input: {shape_text(x.shape)} , target: {shape_text(target.shape)}")
    _require_class_indices(target)
    _require_float("nll_loss2d_forward_out_frame", x, weight)


def _check_nll_grad(grad: Array, reduction: int, shape: tuple[int, ...], total_weight: Array) -> None:
    if total_weight.size != 1:
        raise RuntimeError(
            f"expected total_weight to be a  single element tensor, got: {shape_text(total_weight.shape)} "
            f"({total_weight.size} elements)"
        )
    if reduction != NONE:
        if grad.size != 1:
            raise RuntimeError(f"Expected a single element grad_output tensor, but got: {shape_text(grad.shape)}")
    elif shape and grad.shape != shape:
        raise RuntimeError(
            f"Expected a tensor of dimension {len(shape)} and tensor.size[0] == {shape[0]} but got: dimension "
            f"{grad.ndim} and tensor.size[0] = {grad.shape[0] if grad.ndim else 0}"
        )


# ---------------------------------------------------------------------------------------------------- margins


def _reduced(loss: Array, reduction: int) -> Array:
    if reduction == NONE:
        return loss
    summed = total(loss)
    return summed / loss.dtype.type(max(loss.size, 1)) if reduction == MEAN else summed


def _require_rows(x: Array) -> None:
    if x.ndim > 2 or (x.ndim and x.shape[-1] == 0):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {shape_text(x.shape)}"
        )


def _as_rows(x: Array) -> Array:
    return x if x.ndim == 2 else x.reshape(1, -1)


def _check_multi_margin(x: Array, target: Array, p: int, weight: Array | None) -> None:
    if p not in (1, 2):
        raise RuntimeError("only p == 1 and p == 2 supported")
    _require_rows(x)
    rows = x.shape[0] if x.ndim == 2 else 1
    if target.ndim > 1 or target.size != rows:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch "
            f"size). Expected target size [{rows}], but got {shape_text(target.shape)}. Input has shape "
            f"{shape_text(x.shape)}."
        )
    classes = x.shape[-1] if x.ndim else 1
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {shape_text(weight.shape)}")
    if x.dtype not in (np.float32, np.float64):
        raise not_implemented("multi_margin_loss_cpu_kernel", x.dtype)
    if target.dtype != INT64:
        raise RuntimeError(f"expected scalar type Long but found {type_name(target.dtype)}")
    if weight is not None and weight.dtype != x.dtype:
        raise RuntimeError(f"expected scalar type {type_name(x.dtype)} but found {type_name(weight.dtype)}")
    if target.size and (target.min() < 0 or target.max() >= classes):
        raise RuntimeError("target out of range")


def _margins(x: Array, target: Array, margin: float) -> tuple[Array, Array, Array]:
    """By how much each class comes within ``margin`` of the target's score (zero for the target), rows and targets."""
    rows, classes = _as_rows(x), target.reshape(-1)
    lines = np.arange(rows.shape[0])
    gaps = rows - rows[lines, classes][:, None]
    gaps += x.dtype.type(margin)
    np.maximum(gaps, 0, out=gaps)
    gaps[lines, classes] = 0
    return gaps, lines, classes


def multi_margin_loss(
    x: Array, target: Array, p: int = 1, margin: float = 1.0, weight: Array | None = None, reduction: int = MEAN
) -> Array:
    """Mean over the classes of ``max(0, margin - x[target] + x[class]) ** p``, weighted by target class."""
    _check_multi_margin(x, target, p, weight)
    gaps, _, classes = _margins(x, target, margin)
    if p == 2:
        gaps *= gaps
    loss = total(gaps, (1,)) / x.dtype.type(gaps.shape[1])
    if weight is not None:
        loss *= weight[classes]
    return np.asarray(_reduced(loss.reshape(target.shape if x.ndim < 2 else loss.shape), reduction))


def multi_margin_loss_backward(
    grad: Array,
    x: Array,
    target: Array,
    p: int = 1,
    margin: float = 1.0,
    weight: Array | None = None,
    reduction: int = MEAN,
) -> Array:
    """Gradient of ``multi_margin_loss``."""
    _check_multi_margin(x, target, p, weight)
    gaps, lines, classes = _margins(x, target, margin)
    slopes = gaps * 2 if p == 2 else (gaps > 0).astype(x.dtype)
    if weight is not None:
        slopes *= weight[classes][:, None]
    slopes /= gaps.shape[1]
    slopes[lines, classes] = -total(slopes, (1,))
    return _times_grad(slopes, grad, reduction).reshape(x.shape)


def _times_grad(slopes: Array, grad: Array, reduction: int) -> Array:
    g = grad.reshape(-1, 1)
    return np.asarray(slopes * (g / max(slopes.shape[0], 1) if reduction == MEAN else g))


def _check_multilabel(x: Array, target: Array) -> None:
    _require_rows(x)
    if target.shape != x.shape and not (x.ndim == 0 and target.size == 1):
        raise RuntimeError(
            f"inconsistent target size: {shape_text(target.shape)} for input of size: {shape_text(x.shape)}"
        )
    if target.size and (target.min() < -1 or target.max() >= (x.shape[-1] if x.ndim else 1)):
        raise RuntimeError("argument #2 'target' is out of range")
    if x.dtype not in (np.float32, np.float64):
        raise not_implemented("multilabel_margin_loss_forward_out_frame", x.dtype)
    if target.dtype != INT64:
        raise RuntimeError(f"expected scalar type Long but found {type_name(target.dtype)}")


def _labels(target: Array) -> tuple[Array, Array]:
    """Targets as rows, each cut at its first -1: the classes (0 where cut) and which of them count."""
    rows = _as_rows(target)
    counts = np.logical_and.accumulate(rows >= 0, axis=1)
    return np.where(counts, rows, 0), counts


def multilabel_margin_loss(x: Array, target: Array, reduction: int = MEAN) -> tuple[Array, Array]:
    """Mean over the classes of ``max(0, 1 - x[label] + x[other])`` summed over labels, and which classes are labels."""
    _check_multilabel(x, target)
    rows = _as_rows(x)
    labels, counts = _labels(target)
    lines = np.arange(rows.shape[0])
    is_target = np.zeros(rows.shape, x.dtype)
    np.maximum.at(is_target, (lines[:, None], labels), counts.astype(x.dtype))
    loss = np.zeros(rows.shape[0], x.dtype)
    for nth in range(labels.shape[1] if counts.any() else 0):
        gaps = np.maximum(1 - rows[lines, labels[:, nth]][:, None] + rows, 0) * (1 - is_target)
        loss += total(gaps, (1,)) * counts[:, nth]
    loss /= rows.shape[1]
    shaped = loss.reshape(x.shape[:-1])
    return np.asarray(_reduced(shaped, reduction)), is_target.reshape(target.shape)


def multilabel_margin_loss_backward(grad: Array, x: Array, target: Array, reduction: int, is_target: Array) -> Array:
    """Gradient of ``multilabel_margin_loss``."""
    _check_multilabel(x, target)
    rows = _as_rows(x)
    labels, counts = _labels(target)
    lines = np.arange(rows.shape[0])
    others = 1 - _as_rows(is_target)
    slopes = np.zeros(rows.shape, x.dtype)
    for nth in range(labels.shape[1] if counts.any() else 0):
        active = ((1 - rows[lines, labels[:, nth]][:, None] + rows) > 0) * others * counts[:, nth, None]
        slopes += active
        slopes[lines, labels[:, nth]] -= total(active, (1,))
    slopes /= rows.shape[1]
    return _times_grad(slopes, grad, reduction).reshape(x.shape)
