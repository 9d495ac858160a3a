"""Under autocast each op gives the dtype that torch gives: those it runs in bfloat16, in float32, in the widest of its
inputs', and those it leaves alone.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import mindtorch_v2 as ours

rng = np.random.default_rng(0)
VALUES = {
    "m": rng.random((4, 4), np.float32) + 0.5,
    "v": rng.random(4, np.float32) + 0.5,
    "b3": rng.random((2, 4, 4), np.float32) + 0.5,
    "img": rng.random((2, 3, 8, 8), np.float32) + 0.5,
    "seq": rng.random((2, 3, 8), np.float32) + 0.5,
    "vol": rng.random((2, 3, 4, 4, 4), np.float32) + 0.5,
    "w1": rng.random((5, 3, 3), np.float32),
    "w2": rng.random((5, 3, 3, 3), np.float32),
    "w3": rng.random((5, 3, 2, 2, 2), np.float32),
    "wt2": rng.random((3, 5, 3, 3), np.float32),
    "ids": np.array([0, 1, 2, 3]),
    "p": rng.random((4, 4), np.float32) * 0.8 + 0.1,
}

# Each case takes the package and the tensors by name; the tensor a case calls `h` is `m` in the lower precision.
CASES: dict[str, Callable[[Any, Any], Any]] = {
    "matmul": lambda t, x: t.matmul(x.m, x.m),
    "operator @": lambda t, x: x.m @ x.v,
    "mm": lambda t, x: t.mm(x.m, x.m),
    "mv": lambda t, x: t.mv(x.m, x.v),
    "dot": lambda t, x: t.dot(x.v, x.v),
    "bmm": lambda t, x: t.bmm(x.b3, x.b3),
    "baddbmm": lambda t, x: t.baddbmm(x.b3, x.b3, x.b3),
    "addmm": lambda t, x: t.addmm(x.m, x.m, x.m),
    "addmv": lambda t, x: t.addmv(x.v, x.m, x.v),
    "addr": lambda t, x: t.addr(x.m, x.v, x.v),
    "addbmm": lambda t, x: t.addbmm(x.m, x.b3, x.b3),
    "chain_matmul": lambda t, x: t.linalg.multi_dot([x.m, x.m, x.m]),
    "einsum": lambda t, x: t.einsum("ij,jk->ik", x.m, x.m),
    "tensordot": lambda t, x: t.tensordot(x.m, x.m, 1),
    "linear": lambda t, x: t.nn.functional.linear(x.m, x.m, x.v),
    "bilinear": lambda t, x: t.nn.functional.bilinear(x.m, x.m, x.b3),
    "conv1d": lambda t, x: t.nn.functional.conv1d(x.seq, x.w1),
    "conv2d": lambda t, x: t.nn.functional.conv2d(x.img, x.w2),
    "conv3d": lambda t, x: t.nn.functional.conv3d(x.vol, x.w3),
    "conv_transpose2d": lambda t, x: t.nn.functional.conv_transpose2d(x.img, x.wt2),
    "scaled_dot_product_attention": lambda t, x: t.nn.functional.scaled_dot_product_attention(x.b3, x.b3, x.b3),
    "multi_head_attention": lambda t, x: t.nn.MultiheadAttention(4, 2)(x.b3, x.b3, x.b3)[0],
    "gru": lambda t, x: t.nn.GRU(4, 3)(x.b3)[0],
    "rnn": lambda t, x: t.nn.RNN(4, 3)(x.b3)[0],
    "lstm_cell": lambda t, x: t.nn.LSTMCell(4, 3)(x.m)[0],
    "add": lambda t, x: x.m + x.h,
    "mul": lambda t, x: x.h * x.h,
    "relu of half": lambda t, x: t.relu(x.h),
    "gelu of half": lambda t, x: t.nn.functional.gelu(x.h),
    "sigmoid of half": lambda t, x: t.sigmoid(x.h),
    "tanh of half": lambda t, x: t.tanh(x.h),
    "exp of half": lambda t, x: t.exp(x.h),
    "log of half": lambda t, x: t.log(x.h),
    "pow of half": lambda t, x: t.pow(x.h, 2),
    "sqrt of half": lambda t, x: t.sqrt(x.h),
    "rsqrt of half": lambda t, x: t.rsqrt(x.h),
    "softmax of half": lambda t, x: t.softmax(x.h, -1),
    "log_softmax of half": lambda t, x: t.log_softmax(x.h, -1),
    "functional softmax of half": lambda t, x: t.nn.functional.softmax(x.h, -1),
    "layer_norm of half": lambda t, x: t.nn.functional.layer_norm(x.h, (4,)),
    "rms_norm of half": lambda t, x: t.nn.functional.rms_norm(x.h, (4,)),
    "group_norm of half": lambda t, x: t.nn.functional.group_norm(x.h[None], 2),
    "batch_norm of half": lambda t, x: t.nn.functional.batch_norm(x.h, None, None, training=True),
    "sum of half": lambda t, x: x.h.sum(),
    "mean of half": lambda t, x: x.h.mean(),
    "prod of half": lambda t, x: x.h.prod(),
    "cumsum of half": lambda t, x: x.h.cumsum(0),
    "norm of half": lambda t, x: x.h.norm(),
    "linalg.norm of half": lambda t, x: t.linalg.norm(x.h),
    "linalg.vector_norm of half": lambda t, x: t.linalg.vector_norm(x.h),
    "var of half": lambda t, x: x.h.var(),
    "std of half": lambda t, x: x.h.std(),
    "logsumexp of half": lambda t, x: t.logsumexp(x.h, 0),
    "cosine_similarity of half": lambda t, x: t.nn.functional.cosine_similarity(x.h, x.h),
    "cdist of half": lambda t, x: t.cdist(x.h.float(), x.m),
    "dist of half": lambda t, x: t.dist(x.h, x.h),
    "cross_entropy of half": lambda t, x: t.nn.functional.cross_entropy(x.h, x.ids),
    "nll_loss of half": lambda t, x: t.nn.functional.nll_loss(x.h, x.ids),
    "mse_loss of half": lambda t, x: t.nn.functional.mse_loss(x.h, x.h),
    "l1_loss of half": lambda t, x: t.nn.functional.l1_loss(x.h, x.h),
    "smooth_l1_loss of half": lambda t, x: t.nn.functional.smooth_l1_loss(x.h, x.h),
    "huber_loss of half": lambda t, x: t.nn.functional.huber_loss(x.h, x.h),
    "kl_div of half": lambda t, x: t.nn.functional.kl_div(x.h, x.h, reduction="batchmean"),
    "binary_cross_entropy_with_logits": lambda t, x: t.nn.functional.binary_cross_entropy_with_logits(x.h, x.h),
    "poisson_nll_loss of half": lambda t, x: t.nn.functional.poisson_nll_loss(x.h, x.h),
    "margin_ranking_loss of half": lambda t, x: t.nn.functional.margin_ranking_loss(x.h, x.h, x.h),
    "hinge_embedding_loss of half": lambda t, x: t.nn.functional.hinge_embedding_loss(x.h, x.h.sign()),
    "triplet_margin_loss of half": lambda t, x: t.nn.functional.triplet_margin_loss(x.h, x.h, x.h),
    "cosine_embedding_loss of half": lambda t, x: t.nn.functional.cosine_embedding_loss(x.h, x.h, x.v.sign()),
    "multi_margin_loss of half": lambda t, x: t.nn.functional.multi_margin_loss(x.h, x.ids),
    "embedding": lambda t, x: t.nn.functional.embedding(x.ids, x.m),
    "max_pool2d of half": lambda t, x: t.nn.functional.max_pool2d(x.himg, 2),
    "avg_pool2d of half": lambda t, x: t.nn.functional.avg_pool2d(x.himg, 2),
    "avg_pool3d of half": lambda t, x: t.nn.functional.avg_pool3d(x.hvol, 2),
    "adaptive_avg_pool2d of half": lambda t, x: t.nn.functional.adaptive_avg_pool2d(x.himg, 2),
    "interpolate of half": lambda t, x: t.nn.functional.interpolate(x.himg, scale_factor=2, mode="bilinear"),
    "grid_sample": lambda t, x: t.nn.functional.grid_sample(
        x.img, x.img[:, :, :, :2][:, :2].permute(0, 2, 3, 1), align_corners=False
    ),
    "dropout of half": lambda t, x: t.nn.functional.dropout(x.h, 0.5),
    "cat": lambda t, x: t.cat([x.m, x.h]),
    "stack": lambda t, x: t.stack([x.m, x.h]),
    "index_copy": lambda t, x: t.index_copy(x.m, 0, x.ids, x.m),
    "where": lambda t, x: t.where(x.m > 1, x.m, x.h),
    "addcmul": lambda t, x: t.addcmul(x.m, x.m, x.m),
    "cumprod of half": lambda t, x: x.h.cumprod(0),
    "trace of half": lambda t, x: x.m.trace(),
    "inverse": lambda t, x: t.linalg.inv(x.m),
    "det": lambda t, x: t.linalg.det(x.m),
    "svd": lambda t, x: t.linalg.svd(x.m)[1],
    "qr": lambda t, x: t.linalg.qr(x.m)[0],
    "cholesky": lambda t, x: t.linalg.cholesky(x.m @ x.m.T + 9 * t.eye(4)),
    "fft": lambda t, x: t.fft.rfft(x.m),
    "erfinv of half": lambda t, x: t.erfinv(x.p.bfloat16()),
    "quantile": lambda t, x: t.quantile(x.m, 0.5),
    "softplus of half": lambda t, x: t.nn.functional.softplus(x.h),
    "clamp of half": lambda t, x: x.h.clamp(0, 1),
    "argmax of half": lambda t, x: x.h.argmax(),
    "topk of half": lambda t, x: x.h.topk(2)[0],
    "double input": lambda t, x: t.matmul(x.m.double(), x.m.double()),
    "integer input": lambda t, x: t.matmul(x.ids, x.ids),
    "transformer layer": lambda t, x: t.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)(x.b3),
}


class Tensors:
    """The values as tensors of one package."""

    def __init__(self, package: Any) -> None:
        for name, value in VALUES.items():
            setattr(self, name, package.tensor(value))
        self.h, self.himg, self.hvol = self.m.bfloat16(), self.img.bfloat16(), self.vol.bfloat16()


def answer(package: Any, case: Callable[[Any, Any], Any], dtype: str) -> str:
    """The dtype of the result, or which error it is."""
    package.manual_seed(0)
    x = Tensors(package)
    with package.autocast("cpu", dtype=getattr(package, dtype)):
        try:
            return str(case(package, x).dtype)
        except (RuntimeError, TypeError) as error:
            return type(error).__name__


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", CASES)
def test_the_dtype_is_torchs(name: str, dtype: str) -> None:
    assert answer(ours, CASES[name], dtype) == answer(torch, CASES[name], dtype)
