"""Formulas of ops that torch alone has, by their names: the traces that it writes are counted, too."""

from __future__ import annotations

from ...core import tap
from .algebra import factored, lu, solved
from .elements import each, embedding_bag
from .inputs import Formula, numel
from .network import adam, batch_norm, sgd
from .products import attention, convolution, onednn_layer

_KINDS = ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")
_FORMULAS: list[tuple[str, Formula]] = [
    ("native_dropout_backward", each(2, 1)),
    ("_embedding_bag_forward_only", embedding_bag),
    ("mkldnn_convolution", convolution(2, stride=4, padding=3, dilation=5)),
    ("slow_conv3d_forward", convolution(3, stride=4, padding=5)),
    ("mkldnn_rnn_layer", onednn_layer(1, {2: 13, 3: 10}, 9)),
    ("mkldnn_rnn_layer_backward", onednn_layer(2, {2: 23, 3: 17}, 14)),
    ("_native_batch_norm_legit cudnn_batch_norm miopen_batch_norm", batch_norm),
    ("cudnn_batch_norm_backward miopen_batch_norm_backward", each(13, 1)),
    ("_weight_norm_interface", lambda record: 3 * numel(record) + 2 * numel(record, 1)),
    ("_weight_norm_interface_backward", each(5, 1)),
    ("_fused_adam _fused_adamw", adam),
    ("_fused_sgd", sgd),
    ("_linalg_det _linalg_slogdet", factored(lu)),
    ("_linalg_solve_ex", solved(0, 1, lambda n, k: 2 * n**3 / 3 + 2 * n**2 * k)),
    *[(f"_scaled_dot_product_{kind}", attention(0)) for kind in _KINDS],
    *[(f"_scaled_dot_product_{kind}_backward", attention(1, backward=True, again=True)) for kind in _KINDS],
]
tap.ALL_FLOPS.update({f"aten::{name}": formula for names, formula in _FORMULAS for name in names.split()})
