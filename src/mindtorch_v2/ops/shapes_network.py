"""Shapes of the results of the operators of networks on the meta device: windows, norms, losses, tables, layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._errors import wrap_dim
from .._meta import Rule, meta
from ..kernels import conv, fold, pool_shape, resample
from .shapes import INT64, Shape, asked, broadcast, like, like_nth, plain, register, sized
from .sizes import expanded


def filled(like_: Any, *wanted: Any) -> Any:
    """Gradients of these shapes, an empty one for each that was not asked for."""
    return [meta((0,), like_.dtype) if shape is None else meta(shape, like_.dtype) for shape in wanted]


# --- gates ------------------------------------------------------------------------------------------------------------


def _glu(a: Any, dim: int) -> Shape:
    axis = wrap_dim(dim, a.ndim)
    if a.shape[axis] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {axis} is size {a.shape[axis]}")
    return (*a.shape[:axis], a.shape[axis] // 2, *a.shape[axis + 1 :])


register(plain(lambda a, dim: meta(_glu(a, dim), a.dtype)), "glu")
register(like_nth(1), "glu_backward log_sigmoid_backward")
register(plain(lambda a: (like(a), meta((0,), a.dtype))), "log_sigmoid_forward")
register(
    plain(lambda g, a, weight: (like(a), meta(broadcast(a.shape, weight.shape), a.dtype))), "_prelu_kernel_backward"
)
register(like_nth(0), "_masked_softmax")


# --- losses -----------------------------------------------------------------------------------------------------------


def _loss(n: int) -> Rule:
    """One number, or one for each element where the n-th argument asks for no reduction."""

    def shape(a: Any, target: Any, *rest: Any) -> Shape:
        return broadcast(a.shape, target.shape) if (a, target, *rest)[n] == 0 else ()

    return asked(shape)


register(_loss(2), "mse_loss smooth_l1_loss huber_loss soft_margin_loss")
register(_loss(3), "binary_cross_entropy")
register(_loss(4), "binary_cross_entropy_with_logits")
register(like_nth(1), "smooth_l1_loss_backward huber_loss_backward binary_cross_entropy_backward nll_loss_backward")
register(
    like_nth(1), "nll_loss2d_backward multi_margin_loss_backward multilabel_margin_loss_backward _ctc_loss_backward"
)
register(plain(lambda g, a, target, reduction: meta(broadcast(a.shape, target.shape), a.dtype)), "mse_loss_backward")


def _nll(a: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    return meta(target.shape if reduction == 0 and a.ndim > 1 else (), a.dtype), meta((), a.dtype)


def _multilabel(a: Any, target: Any, reduction: int) -> Any:
    return meta(a.shape[:-1] if reduction == 0 else (), a.dtype), meta(target.shape, a.dtype)


def _ctc(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *rest: Any) -> Any:
    batch = log_probs.shape[1]
    longest = max(target_lengths, default=0)
    return meta((batch,), log_probs.dtype), meta((batch, log_probs.shape[0], 2 * longest + 1), log_probs.dtype)


register(plain(_nll), "nll_loss_forward nll_loss2d_forward")
register(
    plain(lambda a, t, p, margin, weight, reduction: meta(t.shape if reduction == 0 else (), a.dtype)),
    "multi_margin_loss",
)
register(plain(_multilabel), "multilabel_margin_loss_forward")
register(plain(_ctc), "_ctc_loss")


# --- normalization ----------------------------------------------------------------------------------------------------


def _layer_norm(x: Any, normalized_shape: Any, *rest: Any) -> Any:
    lead = x.ndim - len(normalized_shape)
    stat = meta(x.shape[:lead] + (1,) * len(normalized_shape), x.dtype)
    return like(x), stat, stat


def _layer_norm_backward(g: Any, x: Any, shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any, mask: Any) -> Any:
    own = tuple(shape)
    return filled(x, x.shape if mask[0] else None, own if mask[1] else None, own if mask[2] else None)


def _channel_gradients(g: Any, x: Any, *rest: Any) -> Any:
    mask, channels = rest[-1], (x.shape[1],)
    return filled(x, x.shape if mask[0] else None, *(channels if wanted else None for wanted in mask[1:]))


def _batch_norm(x: Any, *rest: Any) -> Any:
    return like(x), meta((x.shape[1],), x.dtype), meta((x.shape[1],), x.dtype)


def _group_norm(x: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float) -> Any:
    return like(x), meta((N, group), x.dtype), meta((N, group), x.dtype)


register(plain(_layer_norm), "native_layer_norm")
register(plain(_layer_norm_backward), "native_layer_norm_backward")
register(plain(_batch_norm), "native_batch_norm")
register(plain(_group_norm), "native_group_norm")
register(plain(_channel_gradients), "native_batch_norm_backward native_group_norm_backward")


# --- attention --------------------------------------------------------------------------------------------------------


def _attention(q: Any, k: Any, v: Any, bias: Any, causal: bool, scale: float, keep: bool) -> Any:
    return like(q), meta((*q.shape[:3], k.shape[2]) if keep else (0,), q.dtype)


register(plain(_attention), "_fused_attention")
register(plain(lambda g, q, k, v, *rest: (like(q), like(k), like(v))), "_fused_attention_backward")


# --- convolutions -----------------------------------------------------------------------------------------------------


def _convolution(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
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


def _convolution_backward(g: Any, x: Any, weight: Any, *rest: Any) -> Any:
    wanted = zip((x.shape, weight.shape, (g.shape[1],)), rest[-1], strict=True)
    return filled(x, *(shape if asked_for else None for shape, asked_for in wanted))


def _one_group(transposed: bool) -> Rule:
    def rule(x: Any, weight: Any, kernel_size: Any, bias: Any, stride: Any, padding: Any, *rest: Any) -> Any:
        extra = rest[0] if transposed else 0
        dilation = rest[-1] if rest else 1
        return _convolution(x, weight, bias, stride, padding, dilation, transposed, extra, 1)

    return plain(rule)


register(plain(_convolution), "convolution")
register(plain(_convolution_backward), "convolution_backward")
register(_one_group(False), "slow_conv3d slow_conv_dilated2d slow_conv_dilated3d")
register(_one_group(True), "slow_conv_transpose2d slow_conv_transpose3d")


# --- windows ----------------------------------------------------------------------------------------------------------


def window_sizes(ndim: int, kernel_size: Any, stride: Any, *rest: Any) -> list[Shape]:
    """Each size once per dimension; stride is the kernel's size unless given."""
    step = kernel_size if isinstance(stride, (list, tuple)) and not stride else stride
    return [expanded(v, ndim) for v in (kernel_size, step, *rest)]


def _max_pool(ndim: int) -> Rule:
    def rule(x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
        kernel, step, pad, apart = window_sizes(ndim, kernel_size, stride, padding, dilation)
        space = pool_shape.check_pool(f"max_pool{ndim}d", x.shape, kernel, step, pad, apart, ceil_mode)
        shape = (*x.shape[:-ndim], *space)
        return meta(shape, x.dtype), meta(shape, INT64)

    return plain(rule)


def _avg_pool(ndim: int) -> Rule:
    def rule(x: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, *rest: Any) -> Any:
        kernel, step, pad, apart = window_sizes(ndim, kernel_size, stride, padding, 1)
        space = pool_shape.check_pool(f"avg_pool{ndim}d", x.shape, kernel, step, pad, apart, ceil_mode)
        return meta((*x.shape[:-ndim], *space), x.dtype)

    return plain(rule)


def _adaptive(ndim: int, name: str) -> Rule:
    def rule(x: Any, output_size: Any) -> Any:
        space = expanded(output_size, ndim)
        pool_shape.check_adaptive(name, x.shape, space)
        shape = (*x.shape[:-ndim], *space)
        return (meta(shape, x.dtype), meta(shape, INT64)) if "max" in name else meta(shape, x.dtype)

    return plain(rule)


for _n in (2, 3):
    register(_max_pool(_n), f"max_pool{_n}d_with_indices")
    register(_avg_pool(_n), f"avg_pool{_n}d")
    register(_adaptive(_n, f"adaptive_max_pool{_n}d"), f"adaptive_max_pool{_n}d")
    register(_adaptive(_n, f"adaptive_avg_pool{_n}d"), f"_adaptive_avg_pool{_n}d")
    register(
        like_nth(1),
        f"max_pool{_n}d_with_indices_backward avg_pool{_n}d_backward adaptive_max_pool{_n}d_backward "
        f"_adaptive_avg_pool{_n}d_backward fractional_max_pool{_n}d_backward",
    )


def _fractional(x: Any, kernel_size: Any, output_size: Any, random_samples: Any) -> Any:
    ndim = random_samples.shape[-1]
    shape = (*x.shape[:-ndim], *expanded(output_size, ndim))
    return meta(shape, x.dtype), meta(shape, INT64)


def _unpool(ndim: int) -> Rule:
    return plain(lambda x, indices, size, *rest: meta((*x.shape[:-ndim], *expanded(size, ndim)), x.dtype))


register(plain(_fractional), "fractional_max_pool2d fractional_max_pool3d")
register(_unpool(2), "max_unpool2d")
register(_unpool(3), "max_unpool3d")


def _padded(a: Any, pad: Any, *rest: Any) -> Any:
    pairs = fold.pad_pairs(pad)
    lead = a.ndim - len(pairs)
    space = tuple(n + lo + hi for n, (lo, hi) in zip(a.shape[lead:], pairs, strict=True))
    if any(n < 0 for n in space):
        raise RuntimeError(f"The input size {list(a.shape[lead:])}, plus negative padding, resulted in a negative size")
    return meta((*a.shape[:lead], *space), a.dtype)


def _mirrored(mode: str) -> Rule:
    def rule(a: Any, padding: Any) -> Any:
        fold.check_pad(a.shape, fold.pad_pairs(padding), mode)
        return _padded(a, padding)

    return plain(rule)


register(plain(_padded), "constant_pad_nd")
register(_mirrored("reflect"), "reflection_pad1d reflection_pad2d reflection_pad3d")
register(_mirrored("replicate"), "replication_pad1d replication_pad2d replication_pad3d")
register(like_nth(1), "reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward")
register(like_nth(1), "replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward")


def _im2col(a: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    kernel, apart, pad, step = (expanded(v, 2) for v in (kernel_size, dilation, padding, stride))
    space = fold.check_unfold(a.shape, kernel, step, pad, apart)
    columns = a.shape[-3] * kernel[0] * kernel[1]
    return meta((*a.shape[:-3], columns, space[0] * space[1]), a.dtype)


def _col2im(a: Any, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    size, kernel, apart, pad, step = (expanded(v, 2) for v in (output_size, kernel_size, dilation, padding, stride))
    fold.check_fold(a.shape, size, kernel, step, pad, apart)
    return meta((*a.shape[:-2], a.shape[-2] // (kernel[0] * kernel[1]), *size), a.dtype)


register(plain(_im2col), "im2col")
register(plain(_col2im), "col2im")


# --- images -----------------------------------------------------------------------------------------------------------


def _upsampled(x: Any, output_size: Any, *rest: Any) -> Any:
    space = resample.output_space(x.shape[2:], rest[-1]) if output_size is None else tuple(map(int, output_size))
    resample.check_upsample(x.shape, space)
    return meta((*x.shape[:2], *space), x.dtype)


_UPSAMPLINGS = (
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d "
    "_upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d "
    "_upsample_bilinear2d_aa _upsample_bicubic2d_aa _upsample_lanczos2d_aa"
)
register(plain(_upsampled), _UPSAMPLINGS)
register(sized(2), " ".join(f"{name}_backward" for name in _UPSAMPLINGS.split()))


def _grid_gradients(g: Any, x: Any, grid: Any, mode: int, padding: int, corners: bool, mask: Any) -> Any:
    return meta(x.shape if mask[0] else (0,), x.dtype), meta(grid.shape, grid.dtype)


def _affine_grid(theta: Any, size: Any, align_corners: bool) -> Any:
    return meta((size[0], *size[2:], len(size) - 2), theta.dtype)


def _shuffled(a: Any, factor: int) -> Any:
    *lead, channels, height, width = a.shape
    return meta((*lead, channels // factor**2, height * factor, width * factor), a.dtype)


def _unshuffled(a: Any, factor: int) -> Any:
    *lead, channels, height, width = a.shape
    return meta((*lead, channels * factor**2, height // factor, width // factor), a.dtype)


register(
    plain(lambda x, grid, *rest: meta((*x.shape[:2], *grid.shape[1:-1]), x.dtype)), "grid_sampler_2d grid_sampler_3d"
)
register(plain(_grid_gradients), "grid_sampler_2d_backward grid_sampler_3d_backward")
register(plain(_affine_grid), "affine_grid_generator")
register(
    plain(lambda g, size, align_corners: meta((size[0], len(size) - 2, len(size) - 1), g.dtype)),
    "affine_grid_generator_backward",
)
register(plain(_shuffled), "pixel_shuffle")
register(plain(_unshuffled), "pixel_unshuffle")


# --- tables -----------------------------------------------------------------------------------------------------------


def _bags(weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool, mode: int, sparse: bool,
          per_sample_weights: Any, include_last_offset: bool, padding_idx: int) -> Any:  # fmt: skip
    bags = offsets.size - 1 if include_last_offset else offsets.size
    winners: Shape = (bags, weight.shape[1]) if mode == 2 else (0,)
    shapes = ((bags, weight.shape[1]), weight.dtype), (indices.shape, INT64), ((bags,), INT64), (winners, INT64)
    return [meta(shape, dtype) for shape, dtype in shapes]


register(plain(lambda weight, indices, *rest: meta(indices.shape + weight.shape[1:], weight.dtype)), "embedding")
register(
    plain(lambda g, indices, num_weights, *rest: meta((num_weights, g.shape[-1]), g.dtype)), "embedding_dense_backward"
)
register(plain(_bags), "_embedding_bag")
register(
    plain(lambda g, i, of, sizes, winners, num_weights, *rest: meta((num_weights, g.shape[-1]), g.dtype)),
    "_embedding_bag_dense_backward",
)
register(
    plain(lambda g, weight, indices, *rest: meta(indices.shape, g.dtype)), "_embedding_bag_per_sample_weights_backward"
)


# --- layers -----------------------------------------------------------------------------------------------------------


def _lstm(x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, *rest: Any) -> Any:
    hidden = w_hh.shape[1]
    rows = int(np.prod(x.shape[:-1]))
    output = meta((*x.shape[:-1], hidden), x.dtype)
    return output, like(h), like(c), meta((rows, 4 * hidden), x.dtype), meta((rows, hidden), x.dtype)


def _lstm_backward(g: Any, gh: Any, gc: Any, x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, *rest: Any) -> Any:
    return like(x), like(h), like(c), like(w_ih), like(w_hh), meta((w_hh.shape[0],), x.dtype)


def _gru(x: Any, h: Any, w_ih: Any, w_hh: Any, *rest: Any) -> Any:
    hidden = w_hh.shape[1]
    rows = int(np.prod(x.shape[:-1]))
    output = meta((*x.shape[:-1], hidden), x.dtype)
    states = meta((rows, hidden), x.dtype)
    return output, like(h), states, meta((rows, 3 * hidden), x.dtype), states


def _rnn(x: Any, h: Any, w_ih: Any, w_hh: Any, *rest: Any) -> Any:
    hidden = w_hh.shape[1]
    rows = int(np.prod(x.shape[:-1]))
    return meta((*x.shape[:-1], hidden), x.dtype), like(h), meta((rows, hidden), x.dtype)


def _rnn_backward(biases: int) -> Any:
    def shapes(g: Any, gh: Any, x: Any, h: Any, w_ih: Any, w_hh: Any, *rest: Any) -> Any:
        return like(x), like(h), like(w_ih), like(w_hh), *(meta((w_hh.shape[0],), x.dtype) for _ in range(biases))

    return shapes


def _heads(qkv: Any, bias: Any, num_heads: int) -> Any:
    batch, length, width = qkv.shape
    return [meta((batch, num_heads, length, width // 3 // num_heads), qkv.dtype)] * 3


register(plain(_lstm), "_lstm_layer")
register(plain(_lstm_backward), "_lstm_layer_backward")
register(plain(_gru), "_gru_layer")
register(plain(_rnn_backward(2)), "_gru_layer_backward")
register(plain(_rnn), "_rnn_layer")
register(plain(_rnn_backward(1)), "_rnn_layer_backward")
register(plain(_heads), "_transform_bias_rescale_qkv")
register(sized(1), "_pack_padded_sequence_backward")
