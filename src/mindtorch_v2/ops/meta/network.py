"""Shapes of the results of the operators of networks on the meta device: windows, norms, losses, tables, layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import wrap_dim
from ...core.meta import Rule, meta
from ...kernels.network import conv, fold, pool_shape, resample
from ..sizes import expanded
from .shapes import INT64, Shape, broadcast, like, result_rule, shape_rule


def filled(like_: Any, *wanted: Any) -> Any:
    """Gradients of these shapes, an empty one for each that was not asked for."""
    return [meta((0,), like_.dtype) if shape is None else meta(shape, like_.dtype) for shape in wanted]


# --- gates ------------------------------------------------------------------------------------------------------------


def halved(a: Any, dim: int) -> Shape:
    axis = wrap_dim(dim, a.ndim)
    if a.shape[axis] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {axis} is size {a.shape[axis]}")
    return (*a.shape[:axis], a.shape[axis] // 2, *a.shape[axis + 1 :])


# --- losses -----------------------------------------------------------------------------------------------------------


def loss(n: int) -> Rule:
    """One number, or one for each element where the n-th argument asks for no reduction."""

    def shape(a: Any, target: Any, *rest: Any) -> Shape:
        return broadcast(a.shape, target.shape) if (a, target, *rest)[n] == 0 else ()

    return shape_rule(shape)


@result_rule
def nll_loss(a: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    return meta(target.shape if reduction == 0 and a.ndim > 1 else (), a.dtype), meta((), a.dtype)


@result_rule
def multilabel_margin_loss(a: Any, target: Any, reduction: int) -> Any:
    return meta(a.shape[:-1] if reduction == 0 else (), a.dtype), meta(target.shape, a.dtype)


@result_rule
def ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *rest: Any) -> Any:
    batch = log_probs.shape[1]
    longest = max(target_lengths, default=0)
    return meta((batch,), log_probs.dtype), meta((batch, log_probs.shape[0], 2 * longest + 1), log_probs.dtype)


# --- normalization ----------------------------------------------------------------------------------------------------


@result_rule
def layer_norm(x: Any, normalized_shape: Any, *rest: Any) -> Any:
    lead = x.ndim - len(normalized_shape)
    stat = meta(x.shape[:lead] + (1,) * len(normalized_shape), x.dtype)
    return like(x), stat, stat


@result_rule
def layer_norm_backward(g: Any, x: Any, shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any, mask: Any) -> Any:
    own = tuple(shape)
    return filled(x, x.shape if mask[0] else None, own if mask[1] else None, own if mask[2] else None)


@result_rule
def channel_gradients(g: Any, x: Any, *rest: Any) -> Any:
    mask, channels = rest[-1], (x.shape[1],)
    return filled(x, x.shape if mask[0] else None, *(channels if wanted else None for wanted in mask[1:]))


@result_rule
def batch_norm(x: Any, *rest: Any) -> Any:
    return like(x), meta((x.shape[1],), x.dtype), meta((x.shape[1],), x.dtype)


@result_rule
def group_norm(x: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float) -> Any:
    return like(x), meta((N, group), x.dtype), meta((N, group), x.dtype)


# --- attention --------------------------------------------------------------------------------------------------------


@result_rule
def attention(q: Any, k: Any, v: Any, bias: Any, causal: bool, scale: float, keep: bool) -> Any:
    return like(q), meta((*q.shape[:3], k.shape[2]) if keep else (0,), q.dtype)


# --- convolutions -----------------------------------------------------------------------------------------------------


def convolution(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
                 output_padding: Any, groups: int) -> Any:  # fmt: skip
    stride, padding, dilation, extra = (
        expanded(v, weight.ndim - 2) for v in (stride, padding, dilation, output_padding)
    )
    conv.check_conv(
        x.shape, weight.shape, None if bias is None else bias.shape, stride, padding, dilation, groups,
        transposed=transposed, output_padding=extra if transposed else None,
    )  # fmt: skip
    if transposed:
        shape = conv.conv_transpose_output_shape(x.shape, weight.shape, stride, padding, extra, dilation, groups)
    else:
        shape = conv.conv_output_shape(x.shape, weight.shape, stride, padding, dilation)
    return meta(shape, x.dtype)


@result_rule
def convolution_backward(g: Any, x: Any, weight: Any, *rest: Any) -> Any:
    wanted = zip((x.shape, weight.shape, (g.shape[1],)), rest[-1], strict=True)
    return filled(x, *(shape if asked_for else None for shape, asked_for in wanted))


def one_group(transposed: bool) -> Rule:
    def rule(x: Any, weight: Any, kernel_size: Any, bias: Any, stride: Any, padding: Any, *rest: Any) -> Any:
        extra = rest[0] if transposed else 0
        dilation = rest[-1] if rest else 1
        return convolution(x, weight, bias, stride, padding, dilation, transposed, extra, 1)

    return result_rule(rule)


# --- windows ----------------------------------------------------------------------------------------------------------


def window_sizes(ndim: int, kernel_size: Any, stride: Any, *rest: Any) -> list[Shape]:
    """Each size once per dimension; stride is the kernel's size unless given."""
    step = kernel_size if isinstance(stride, (list, tuple)) and not stride else stride
    return [expanded(v, ndim) for v in (kernel_size, step, *rest)]


def max_pool(ndim: int) -> Rule:
    def rule(x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
        kernel, step, pad, apart = window_sizes(ndim, kernel_size, stride, padding, dilation)
        space = pool_shape.check_pool(f"max_pool{ndim}d", x.shape, kernel, step, pad, apart, ceil_mode)
        shape = (*x.shape[:-ndim], *space)
        return meta(shape, x.dtype), meta(shape, INT64)

    return result_rule(rule)


def avg_pool(ndim: int) -> Rule:
    def rule(x: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, *rest: Any) -> Any:
        kernel, step, pad, apart = window_sizes(ndim, kernel_size, stride, padding, 1)
        space = pool_shape.check_pool(f"avg_pool{ndim}d", x.shape, kernel, step, pad, apart, ceil_mode)
        return meta((*x.shape[:-ndim], *space), x.dtype)

    return result_rule(rule)


def adaptive_pool(ndim: int, name: str) -> Rule:
    def rule(x: Any, output_size: Any) -> Any:
        space = expanded(output_size, ndim)
        pool_shape.check_adaptive(name, x.shape, space)
        shape = (*x.shape[:-ndim], *space)
        return (meta(shape, x.dtype), meta(shape, INT64)) if "max" in name else meta(shape, x.dtype)

    return result_rule(rule)


@result_rule
def fractional_max_pool(x: Any, kernel_size: Any, output_size: Any, random_samples: Any) -> Any:
    ndim = random_samples.shape[-1]
    shape = (*x.shape[:-ndim], *expanded(output_size, ndim))
    return meta(shape, x.dtype), meta(shape, INT64)


def max_unpool(ndim: int) -> Rule:
    return result_rule(lambda x, indices, size, *rest: meta((*x.shape[:-ndim], *expanded(size, ndim)), x.dtype))


def padded(a: Any, pad: Any, *rest: Any) -> Any:
    pairs = fold.pad_pairs(pad)
    lead = a.ndim - len(pairs)
    space = tuple(n + lo + hi for n, (lo, hi) in zip(a.shape[lead:], pairs, strict=True))
    if any(n < 0 for n in space):
        raise RuntimeError(f"The input size {list(a.shape[lead:])}, plus negative padding, resulted in a negative size")
    return meta((*a.shape[:lead], *space), a.dtype)


def mirrored(mode: str) -> Rule:
    def rule(a: Any, padding: Any) -> Any:
        fold.check_pad(a.shape, fold.pad_pairs(padding), mode)
        return padded(a, padding)

    return result_rule(rule)


@result_rule
def im2col(a: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    kernel, apart, pad, step = (expanded(v, 2) for v in (kernel_size, dilation, padding, stride))
    space = fold.check_unfold(a.shape, kernel, step, pad, apart)
    columns = a.shape[-3] * kernel[0] * kernel[1]
    return meta((*a.shape[:-3], columns, space[0] * space[1]), a.dtype)


@result_rule
def col2im(a: Any, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    size, kernel, apart, pad, step = (expanded(v, 2) for v in (output_size, kernel_size, dilation, padding, stride))
    fold.check_fold(a.shape, size, kernel, step, pad, apart)
    return meta((*a.shape[:-2], a.shape[-2] // (kernel[0] * kernel[1]), *size), a.dtype)


# --- images -----------------------------------------------------------------------------------------------------------


@result_rule
def upsampled(x: Any, output_size: Any, *rest: Any) -> Any:
    space = resample.output_space(x.shape[2:], rest[-1]) if output_size is None else tuple(map(int, output_size))
    resample.check_upsample(x.shape, space)
    return meta((*x.shape[:2], *space), x.dtype)


_UPSAMPLINGS = (
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d "
    "_upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d "
    "_upsample_bilinear2d_aa _upsample_bicubic2d_aa _upsample_lanczos2d_aa"
)


@result_rule
def grid_gradients(g: Any, x: Any, grid: Any, mode: int, padding: int, corners: bool, mask: Any) -> Any:
    return meta(x.shape if mask[0] else (0,), x.dtype), meta(grid.shape, grid.dtype)


@result_rule
def affine_grid(theta: Any, size: Any, align_corners: bool) -> Any:
    return meta((size[0], *size[2:], len(size) - 2), theta.dtype)


@result_rule
def pixel_shuffle(a: Any, factor: int) -> Any:
    *lead, channels, height, width = a.shape
    return meta((*lead, channels // factor**2, height * factor, width * factor), a.dtype)


@result_rule
def pixel_unshuffle(a: Any, factor: int) -> Any:
    *lead, channels, height, width = a.shape
    return meta((*lead, channels * factor**2, height // factor, width // factor), a.dtype)


# --- tables -----------------------------------------------------------------------------------------------------------


@result_rule
def embedding_bag(weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool, mode: int, sparse: bool,
          per_sample_weights: Any, include_last_offset: bool, padding_idx: int) -> Any:  # fmt: skip
    bags = offsets.size - 1 if include_last_offset else offsets.size
    winners: Shape = (bags, weight.shape[1]) if mode == 2 else (0,)
    shapes = ((bags, weight.shape[1]), weight.dtype), (indices.shape, INT64), ((bags,), INT64), (winners, INT64)
    return [meta(shape, dtype) for shape, dtype in shapes]


# --- layers -----------------------------------------------------------------------------------------------------------


@result_rule
def lstm(x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, *rest: Any) -> Any:
    hidden = w_hh.shape[1]
    rows = int(np.prod(x.shape[:-1]))
    output = meta((*x.shape[:-1], hidden), x.dtype)
    return output, like(h), like(c), meta((rows, 4 * hidden), x.dtype), meta((rows, hidden), x.dtype)


@result_rule
def lstm_backward(g: Any, gh: Any, gc: Any, x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, *rest: Any) -> Any:
    return like(x), like(h), like(c), like(w_ih), like(w_hh), meta((w_hh.shape[0],), x.dtype)


@result_rule
def gru(x: Any, h: Any, w_ih: Any, w_hh: Any, *rest: Any) -> Any:
    hidden = w_hh.shape[1]
    rows = int(np.prod(x.shape[:-1]))
    output = meta((*x.shape[:-1], hidden), x.dtype)
    states = meta((rows, hidden), x.dtype)
    return output, like(h), states, meta((rows, 3 * hidden), x.dtype), states


@result_rule
def rnn(x: Any, h: Any, w_ih: Any, w_hh: Any, *rest: Any) -> Any:
    hidden = w_hh.shape[1]
    rows = int(np.prod(x.shape[:-1]))
    return meta((*x.shape[:-1], hidden), x.dtype), like(h), meta((rows, hidden), x.dtype)


def rnn_backward(biases: int) -> Rule:
    def shapes(g: Any, gh: Any, x: Any, h: Any, w_ih: Any, w_hh: Any, *rest: Any) -> Any:
        return like(x), like(h), like(w_ih), like(w_hh), *(meta((w_hh.shape[0],), x.dtype) for _ in range(biases))

    return result_rule(shapes)


@result_rule
def heads(qkv: Any, bias: Any, num_heads: int) -> Any:
    batch, length, width = qkv.shape
    return [meta((batch, num_heads, length, width // 3 // num_heads), qkv.dtype)] * 3


grid_sampler = result_rule(lambda x, grid, *rest: meta((*x.shape[:2], *grid.shape[1:-1]), x.dtype))
