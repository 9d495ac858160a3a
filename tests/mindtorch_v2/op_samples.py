"""One sample call per operator row, by qualified row name. A new row gets one line here and is put through every axis.

`F(...)` makes a float tensor, `I(...)` an integer one, `B(...)` a bool one; values are fixed, so runs repeat exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mindtorch_v2 as torch


def F(*shape: int, positive: bool = False) -> Any:
    """Floats in (-1, 1), or in (0.25, 1.25) where the op wants positive ones."""
    values = np.sin(np.arange(1, int(np.prod(shape)) + 1) * 1.7).reshape(shape)
    return torch.from_numpy((values * 0.5 + 0.75 if positive else values).astype(np.float32))


def I(*shape: int, high: int = 3) -> Any:  # noqa: E743
    return torch.from_numpy((np.arange(int(np.prod(shape))) * 7 % high).reshape(shape))


def B(*shape: int) -> Any:
    return torch.from_numpy((np.arange(int(np.prod(shape))) % 2 == 0).reshape(shape))


# name -> a function that makes (args, kwargs)
SAMPLES: dict[str, Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    # elementwise
    "add.Tensor": lambda: ((F(2, 3), F(3)), {}),
    "sub.Tensor": lambda: ((F(2, 3), F(2, 1)), {}),
    "mul.Tensor": lambda: ((F(2, 3), F(2, 3)), {}),
    "div.Tensor": lambda: ((F(2, 3), F(2, 3, positive=True)), {}),
    "neg": lambda: ((F(2, 3),), {}),
    "exp": lambda: ((F(2, 3),), {}),
    "log": lambda: ((F(2, 3, positive=True),), {}),
    "sqrt": lambda: ((F(2, 3, positive=True),), {}),
    "sigmoid": lambda: ((F(2, 3),), {}),
    "tanh": lambda: ((F(2, 3),), {}),
    "relu": lambda: ((F(2, 3),), {}),
    "maximum": lambda: ((F(2, 3), F(1, 3)), {}),
    "eq.Tensor": lambda: ((I(2, 3), I(2, 3)), {}),
    "logical_not": lambda: ((B(2, 3),), {}),
    # views
    "view": lambda: ((F(2, 6), (3, 4)), {}),
    "transpose.int": lambda: ((F(2, 3), 0, 1), {}),
    "t": lambda: ((F(2, 3),), {}),
    "permute": lambda: ((F(2, 3, 4), (2, 0, 1)), {}),
    "expand": lambda: ((F(1, 3), (2, 3)), {}),
    "unsqueeze": lambda: ((F(2, 3), 1), {}),
    "select.int": lambda: ((F(2, 3), 1, 2), {}),
    "reshape": lambda: ((F(2, 6), (4, 3)), {}),
    "clone": lambda: ((F(2, 3),), {}),
    "flatten.using_ints": lambda: ((F(2, 3, 4), 1), {}),
    "unflatten.int": lambda: ((F(2, 6), 1, (2, 3)), {}),
    "movedim.int": lambda: ((F(2, 3, 4), 0, 2), {}),
    "swapaxes": lambda: ((F(2, 3), 0, 1), {}),
    "squeeze": lambda: ((F(2, 1, 3),), {}),
    "squeeze.dim": lambda: ((F(2, 1, 3), 1), {}),
    "broadcast_to": lambda: ((F(3), (2, 3)), {}),
    "slice.Tensor": lambda: ((F(5, 3), 0, 1, 4, 2), {}),
    "narrow": lambda: ((F(5, 3), 0, 1, 2), {}),
    "narrow_copy": lambda: ((F(5, 3), 0, 1, 2), {}),
    "diagonal": lambda: ((F(3, 4), 1), {}),
    "unfold": lambda: ((F(5), 0, 3, 1), {}),
    "select_scatter": lambda: ((F(2, 3), F(3), 0, 1), {}),
    "slice_scatter": lambda: ((F(4, 3), F(2, 3), 0, 1, 3), {}),
    "diagonal_scatter": lambda: ((F(3, 3), F(3)), {}),
    "diagonal_copy": lambda: ((F(3, 4),), {}),
    # joining and taking apart
    "cat": lambda: (([F(2, 3), F(1, 3)], 0), {}),
    "stack": lambda: (([F(2, 3), F(2, 3)], 1), {}),
    "unbind.int": lambda: ((F(2, 3), 0), {}),
    "hstack": lambda: (([F(2, 3), F(2, 1)],), {}),
    "split.Tensor": lambda: ((F(5, 2), 2), {}),
    "split_with_sizes": lambda: ((F(5, 2), [1, 4]), {}),
    "chunk": lambda: ((F(5, 2), 2), {}),
    "tensor_split.sections": lambda: ((F(5, 2), 2), {}),
    "unsafe_split.Tensor": lambda: ((F(5, 2), 2), {}),
    "repeat": lambda: ((F(2, 3), (2, 1, 2)), {}),
    "tile": lambda: ((F(2, 3), (2,)), {}),
    "repeat_interleave.self_int": lambda: ((F(2, 3), 2, 1), {}),
    "roll": lambda: ((F(2, 3), (1,), (1,)), {}),
    "flip": lambda: ((F(2, 3), (0, 1)), {}),
    "rot90": lambda: ((F(2, 3), 1, (0, 1)), {}),
    "block_diag": lambda: (([F(2, 3), F(1, 2)],), {}),
    "combinations": lambda: ((F(4), 2), {}),
    # indexing
    "index.Tensor": lambda: ((F(3, 4), [I(2), I(2)]), {}),
    "index_put": lambda: ((F(3, 4), [I(2)], F(2, 4)), {}),
    "gather": lambda: ((F(3, 4), 1, I(3, 2)), {}),
    "scatter.src": lambda: ((F(3, 4), 1, I(3, 2), F(3, 2)), {}),
    "scatter.value": lambda: ((F(3, 4), 1, I(3, 2), 2.0), {}),
    "scatter_add": lambda: ((F(3, 4), 1, I(3, 2), F(3, 2)), {}),
    "scatter_reduce.two": lambda: ((F(3, 4), 1, I(3, 2), F(3, 2), "amax"), {}),
    "index_select": lambda: ((F(3, 4), 0, I(2)), {}),
    "index_add": lambda: ((F(3, 4), 0, I(2), F(2, 4)), {}),
    "index_copy": lambda: ((F(3, 4), 0, I(2), F(2, 4)), {}),
    "index_fill.int_Scalar": lambda: ((F(3, 4), 0, I(2), 1.5), {}),
    "index_reduce": lambda: ((F(3, 4), 0, I(2), F(2, 4), "mean"), {}),
    "take": lambda: ((F(3, 4), I(2, 2)), {}),
    "put": lambda: ((F(3, 4), I(2), F(2)), {}),
    "masked_fill.Scalar": lambda: ((F(2, 3), B(2, 3), 0.5), {}),
    "masked_select": lambda: ((F(2, 3), B(2, 3)), {}),
    "masked_scatter": lambda: ((F(2, 3), B(2, 3), F(6)), {}),
    "where.self": lambda: ((B(2, 3), F(2, 3), F(3)), {}),
    "nonzero": lambda: ((B(2, 3),), {}),
    "diag_embed": lambda: ((F(2, 3),), {}),
    "diag": lambda: ((F(3),), {}),
    "tril": lambda: ((F(3, 3),), {}),
    "triu": lambda: ((F(3, 3), 1), {}),
    "trace": lambda: ((F(3, 4),), {}),
    "one_hot": lambda: ((I(4), 3), {}),
    # reductions and order
    "sum": lambda: ((F(2, 3),), {}),
    "sum.dim_IntList": lambda: ((F(2, 3), (0,)), {}),
    "mean": lambda: ((F(2, 3),), {}),
    "mean.dim": lambda: ((F(2, 3), (1,), True), {}),
    "prod": lambda: ((F(2, 3),), {}),
    "amax": lambda: ((F(2, 3), (1,)), {}),
    "max.dim": lambda: ((F(2, 3), 1), {}),
    "argmax": lambda: ((F(2, 3), 1), {}),
    "var.correction": lambda: ((F(2, 3), (1,)), {"correction": 1}),
    "logsumexp": lambda: ((F(2, 3), (1,)), {}),
    "cumsum": lambda: ((F(2, 3), 1), {}),
    "cumprod": lambda: ((F(2, 3), 1), {}),
    "sort": lambda: ((F(2, 3), 1), {}),
    "topk": lambda: ((F(2, 5), 2), {}),
    "all": lambda: ((B(2, 3),), {}),
    # products
    "mm": lambda: ((F(2, 3), F(3, 4)), {}),
    "bmm": lambda: ((F(2, 2, 3), F(2, 3, 4)), {}),
    "addmm": lambda: ((F(2, 4), F(2, 3), F(3, 4)), {}),
    "matmul": lambda: ((F(2, 3), F(3, 4)), {}),
}

# Functions of one tensor, by where they are smooth.
_ANYWHERE = """sgn square exp2 expm1 sin cos tan asin acos atan sinh cosh asinh frac sinc erf erfc deg2rad rad2deg nan_to_num
    selu celu elu gelu silu mish softplus leaky_relu relu6 hardtanh hardswish hardsigmoid softshrink hardshrink log_sigmoid
    special_ndtr special_erfcx special_i0e special_i1 absolute special_expit isnan isfinite signbit"""
_POSITIVE = """abs sign rsqrt reciprocal log2 log10 log1p logit digamma lgamma i0 special_entr special_log_ndtr ceil floor
    trunc round clone angle"""
# Functions of two tensors.
_PAIRS = """atan2 hypot copysign.Tensor fmax fmin minimum logaddexp logaddexp2 remainder.Tensor fmod.Tensor
    rsub.Tensor xlogy.Tensor special_xlog1py nextafter ldexp.Tensor pow.Tensor_Tensor gt.Tensor logical_and
    clamp_min.Tensor clamp_max.Tensor isclose multiply.Tensor _prelu_kernel"""


def _sample(shapes: list[tuple[int, ...]], *numbers: Any, positive: bool = True, **kwargs: Any) -> Any:
    return lambda: ((*[F(*shape, positive=positive) for shape in shapes], *numbers), kwargs)


SAMPLES.update({name: _sample([(2, 3)], positive=False) for name in _ANYWHERE.split()})
SAMPLES.update({name: _sample([(2, 3)]) for name in _POSITIVE.split()})
SAMPLES.update({name: _sample([(2, 3), (3,)]) for name in _PAIRS.split()})
SAMPLES.update(
    {
        "acosh": lambda: ((F(2, 3, positive=True) + 1,), {}),
        "atanh": lambda: ((F(2, 3) * 0.5,), {}),
        "erfinv": lambda: ((F(2, 3) * 0.5,), {}),
        "special_ndtri": lambda: ((F(2, 3) * 0.25 + 0.5,), {}),
        "div.Tensor_mode": _sample([(2, 3), (3,)], rounding_mode="trunc"),
        "pow.Tensor_Scalar": _sample([(2, 3)], 3),
        "remainder.Scalar": _sample([(2, 3)], 0.3),
        "rsub.Scalar": _sample([(2, 3)], 2),
        "addcmul": _sample([(2, 3), (3,), (2, 1)], value=0.5),
        "addcdiv": _sample([(2, 3), (3,), (2, 1)], value=0.5),
        "lerp.Scalar": _sample([(2, 3), (3,)], 0.25),
        "lerp.Tensor": _sample([(2, 3), (3,), (2, 1)]),
        "clamp": _sample([(2, 3)], -0.5, 0.5, positive=False),
        "threshold": _sample([(2, 3)], 0.1, 2.0, positive=False),
        "mvlgamma": lambda: ((F(2, 3, positive=True) + 2, 2), {}),
        "round.decimals": _sample([(2, 3)], decimals=1),
        "frexp.Tensor": _sample([(2, 3)]),
        "glu": _sample([(2, 4)], 1, positive=False),
        "prelu": lambda: ((F(2, 3), F(3, positive=True)), {}),
        "bitwise_and.Tensor": lambda: ((I(2, 3), I(3)), {}),
        "bitwise_not": lambda: ((I(2, 3),), {}),
        "bitwise_left_shift.Tensor": lambda: ((I(2, 3), I(3)), {}),
        "gcd": lambda: ((I(2, 3), I(3)), {}),
    }
)

# Operators of networks.
_IMAGE, _WINDOW = (2, 2, 4, 4), ((2, 2), (2, 2), (0, 0))
SAMPLES.update(
    {
        "mv": lambda: ((F(2, 3), F(3)), {}),
        "dot": lambda: ((F(3), F(3)), {}),
        "vdot": lambda: ((F(3), F(3)), {}),
        "outer": lambda: ((F(2), F(3)), {}),
        "inner": lambda: ((F(2, 3), F(4, 3)), {}),
        "addmv": lambda: ((F(2), F(2, 3), F(3)), {"beta": 0.5, "alpha": 2}),
        "addr": lambda: ((F(2, 3), F(2), F(3)), {"beta": 0.5}),
        "baddbmm": lambda: ((F(2, 2, 4), F(2, 2, 3), F(2, 3, 4)), {}),
        "addbmm": lambda: ((F(2, 4), F(2, 2, 3), F(2, 3, 4)), {}),
        "linear": lambda: ((F(2, 3), F(4, 3), F(4)), {}),
        "bilinear": lambda: ((F(2, 3), F(2, 4), F(5, 3, 4), F(5)), {}),
        "einsum": lambda: (("ij,jk->ik", [F(2, 3), F(3, 4)]), {}),
        "tensordot": lambda: ((F(2, 3), F(3, 4), [1], [0]), {}),
        "kron": lambda: ((F(2, 3), F(2, 2)), {}),
        "linalg_multi_dot": lambda: (([F(2, 3), F(3, 4), F(4, 2)],), {}),
        "matrix_power": lambda: ((F(3, 3), 3), {}),
        "cross": lambda: ((F(2, 3), F(2, 3)), {}),
        "cdist": lambda: ((F(2, 3), F(4, 3) * 2), {}),
        "pdist": lambda: ((F(4, 3),), {}),
        "pairwise_distance": lambda: ((F(2, 3), F(2, 3) * 2), {}),
        "cosine_similarity": lambda: ((F(2, 3), F(2, 3) * F(2, 3)), {}),
        "softmax.int": lambda: ((F(2, 3), 1), {}),
        "log_softmax.int": lambda: ((F(2, 3), 0), {}),
        "_safe_softmax": lambda: ((F(2, 3), -1), {}),
        "scaled_dot_product_attention": lambda: ((F(2, 3, 4), F(2, 5, 4), F(2, 5, 4)), {}),
        "mse_loss": lambda: ((F(2, 3), F(2, 3) * 2), {}),
        "l1_loss": lambda: ((F(2, 3), F(2, 3) * 2, 0), {}),
        "smooth_l1_loss": lambda: ((F(2, 3), F(2, 3) * 2, 2, 0.5), {}),
        "huber_loss": lambda: ((F(2, 3), F(2, 3) * 2, 1, 0.5), {}),
        "kl_div": lambda: ((F(2, 3), F(2, 3, positive=True)), {}),
        "binary_cross_entropy": lambda: ((F(2, 3) * 0.4 + 0.5, F(2, 3, positive=True)), {}),
        "binary_cross_entropy_with_logits": lambda: ((F(2, 3), F(2, 3, positive=True)), {}),
        "soft_margin_loss": lambda: ((F(2, 3), I(2, 3, high=2) * 2 - 1), {}),
        "margin_ranking_loss": lambda: ((F(3), F(3) * 2, F(3).sign(), 0.1), {}),
        "hinge_embedding_loss": lambda: ((F(2, 3), I(2, 3, high=2) * 2 - 1), {}),
        "cosine_embedding_loss": lambda: ((F(2, 3), F(2, 3) * F(2, 3), I(2, high=2) * 2 - 1), {}),
        "triplet_margin_loss": lambda: ((F(2, 3), F(2, 3) * 2, F(2, 3) * 3), {}),
        "poisson_nll_loss": lambda: ((F(2, 3), F(2, 3, positive=True), True, False, 1e-8, 1), {}),
        "nll_loss_nd": lambda: ((F(4, 3), I(4)), {}),
        "nll_loss2d": lambda: ((F(2, 3, 2, 2), I(2, 2, 2)), {}),
        "cross_entropy_loss": lambda: ((F(4, 3), I(4), None, 1, -100, 0.1), {}),
        "multi_margin_loss": lambda: ((F(4, 3), I(4)), {}),
        "multilabel_margin_loss": lambda: ((F(2, 3), I(2, 3)), {}),
        "_ctc_loss": lambda: ((F(4, 2, 3), I(2, 2, high=2) + 1, [4, 4], [2, 1]), {}),
        "native_layer_norm": lambda: ((F(2, 3), (3,), F(3), F(3), 1e-5), {}),
        "native_batch_norm": lambda: ((F(4, 3), F(3), F(3), None, None, True, 0.1, 1e-5), {}),
        "native_group_norm": lambda: ((F(2, 4, 3), F(4), F(4), 2, 4, 3, 2, 1e-5), {}),
        "instance_norm": lambda: ((F(2, 3, 4), F(3), F(3), None, None, True, 0.1, 1e-5, True), {}),
        "rms_norm": lambda: ((F(2, 3), (3,), F(3)), {}),
        "_weight_norm": lambda: ((F(2, 3), F(2, 1)), {}),
        "convolution": lambda: ((F(2, 2, 5), F(3, 2, 2), F(3), (2,), (1,), (1,), False, (0,), 1), {}),
        "conv2d": lambda: ((F(2, 2, 4, 4), F(3, 2, 3, 3), F(3)), {}),
        "conv_transpose2d.input": lambda: ((F(2, 2, 3, 3), F(2, 3, 2, 2), F(3)), {}),
        "conv_tbc": lambda: ((F(4, 2, 2), F(2, 2, 3), F(3)), {}),
        "constant_pad_nd": lambda: ((F(2, 3), (1, 2), 0.5), {}),
        "reflection_pad1d": lambda: ((F(2, 4), (1, 2)), {}),
        "replication_pad2d": lambda: ((F(2, 4, 4), (1, 2, 0, 1)), {}),
        "_pad_circular": lambda: ((F(2, 2, 4), (1, 2)), {}),
        "im2col": lambda: ((F(*_IMAGE), (2, 2), (1, 1), (0, 0), (1, 1)), {}),
        "col2im": lambda: ((F(2, 8, 4), (4, 4), (2, 2), (1, 1), (0, 0), (2, 2)), {}),
        "max_pool2d_with_indices": lambda: ((F(*_IMAGE), *_WINDOW), {}),
        "max_pool2d": lambda: ((F(*_IMAGE), *_WINDOW), {}),
        "avg_pool2d": lambda: ((F(*_IMAGE), *_WINDOW), {}),
        "avg_pool1d": lambda: ((F(2, 2, 4), (2,)), {}),
        "adaptive_avg_pool2d": lambda: ((F(*_IMAGE), (3, 2)), {}),
        "adaptive_max_pool2d": lambda: ((F(*_IMAGE), (3, 2)), {}),
        "max_unpool2d": lambda: ((F(2, 2, 1, 1), I(2, 2, 1, 1, high=4), (2, 2)), {}),
        "upsample_nearest2d.vec": lambda: ((F(*_IMAGE), (6, 3), None), {}),
        "upsample_bilinear2d.vec": lambda: ((F(*_IMAGE), (6, 3), False, None), {}),
        "grid_sampler": lambda: ((F(*_IMAGE), F(2, 3, 3, 2), 0, 0, False), {}),
        "affine_grid_generator": lambda: ((F(2, 2, 3), (2, 1, 3, 4), False), {}),
        "pixel_shuffle": lambda: ((F(2, 4, 2, 2), 2), {}),
        "pixel_unshuffle": lambda: ((F(*_IMAGE), 2), {}),
        "channel_shuffle": lambda: ((F(2, 4, 2, 2), 2), {}),
        "embedding": lambda: ((F(5, 3), I(2, 2)), {}),
        "_embedding_bag": lambda: ((F(5, 3), I(4), I(2, high=1)), {}),
        "bincount": lambda: ((I(6), F(6)), {}),
        "histc": lambda: ((F(2, 5), 4), {}),
        "histogram.bin_ct": lambda: ((F(2, 5), 4), {"density": True}),
        "histogram.bins_tensor": lambda: ((F(2, 5), torch.tensor([-1.0, 0.0, 2.0])), {"weight": F(2, 5)}),
        "_histogramdd_from_bin_cts": lambda: ((F(5, 2), [2, 3]), {}),
        "_histogramdd_bin_edges": lambda: ((F(5, 2), [2, 3]), {"range": [-1.0, 1.0, -2.0, 2.0]}),
        "renorm": lambda: ((F(2, 3), 2, 0, 0.5), {}),
        "gradient.scalarint": lambda: ((F(4, 3),), {"spacing": 2.0}),
        "hash_tensor": lambda: ((F(4, 3), 1), {}),
    }
)

# Rows whose shape depends on values.
NO_META: set[str] = {"bincount", "masked_select", "nonzero", "one_hot"}
