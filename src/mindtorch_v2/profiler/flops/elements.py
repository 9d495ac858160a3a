"""Formulas of ops that go over elements: functions and their gradients, reductions, scattered sums, losses."""

from __future__ import annotations

import math

from ..._tap import InputRecord
from .table import Formula, broadcast, define, has, is_not_one, numel, value

# --- element by element -----------------------------------------------------------------------------------------------


def _each(operations: int, tensors: int) -> Formula:
    """So many operations for each element of the first so many inputs, broadcast."""
    return lambda record: operations * broadcast(record.shapes[:tensors])


_FUNCTIONS = """
abs absolute neg sign sgn positive floor ceil round trunc frac reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p
sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid erf erfc erfinv lgamma digamma polygamma mvlgamma i0
sinc deg2rad rad2deg angle nan_to_num isneginf isposinf relu hardtanh threshold hardshrink
special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1 special_entr special_erfcx
special_i0e special_i1 special_i1e special_log_ndtr special_ndtri special_modified_bessel_i0 special_modified_bessel_i1
special_modified_bessel_k0 special_modified_bessel_k1 special_scaled_modified_bessel_k0
special_scaled_modified_bessel_k1 special_spherical_bessel_j0
"""
define(_FUNCTIONS, _each(1, 1))
define("silu leaky_relu softshrink native_dropout", _each(2, 1))
define("elu celu hardsigmoid logit", _each(3, 1))
define("hardswish mish", _each(4, 1))
define("gelu softplus", _each(5, 1))
define("log_sigmoid_forward", _each(6, 1))

_OF_TWO = """
mul div floor_divide fmod remainder pow atan2 hypot maximum minimum fmax fmin copysign nextafter heaviside ldexp
logaddexp logaddexp2 gcd lcm igamma igammac eq ne lt le gt ge clamp_min clamp_max special_zeta
special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v
special_chebyshev_polynomial_w special_hermite_polynomial_h special_hermite_polynomial_he
special_laguerre_polynomial_l special_legendre_polynomial_p special_shifted_chebyshev_polynomial_t
special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w
"""
define(_OF_TWO, _each(1, 2))
define("xlogy special_xlog1py _prelu_kernel rrelu_with_noise", _each(2, 2))
define("linalg_cross", _each(3, 2))
define("polar", _each(4, 2))
define("clamp", _each(1, 3))
define("lerp", _each(3, 3))

# Gradients, whose first input is that of the result.
define("threshold_backward hardtanh_backward hardshrink_backward softshrink_backward", _each(1, 1))
define("leaky_relu_backward hardsigmoid_backward rrelu_with_noise_backward native_dropout_backward", _each(2, 1))
define("tanh_backward sigmoid_backward logit_backward", _each(3, 1))
define("elu_backward hardswish_backward _prelu_kernel_backward", _each(4, 1))
define("silu_backward softplus_backward log_sigmoid_backward glu_backward", _each(6, 1))
define("mish_backward", _each(10, 1))
define("gelu_backward", _each(11, 1))


def _scaled_sum(record: InputRecord) -> int:
    return (1 + is_not_one(record, 2)) * broadcast(record.shapes[:2])


def _scaled_product_sum(record: InputRecord) -> int:
    return (2 + is_not_one(record, 3)) * broadcast(record.shapes[:3])


define("add sub rsub", _scaled_sum)
define("addcmul addcdiv", _scaled_product_sum)
define("glu", lambda record: numel(record))  # sigmoid and product, for each element of a half


# --- reductions -------------------------------------------------------------------------------------------------------


def _results(record: InputRecord, place: int = 1) -> int:
    """How many elements a reduction over the dimensions at a place leaves."""
    shape, dims = record.shapes[0], value(record, place)
    if not isinstance(dims, (list, tuple)) or not dims:
        return 1
    reduced = {int(dim) % len(shape) for dim in dims} if shape else set()
    return math.prod(size for dim, size in enumerate(shape) if dim not in reduced)


def _reduction(operations: int, result: int = 0) -> Formula:
    return lambda record: operations * numel(record) + (result * _results(record) if result else 0)


def _norm(record: InputRecord) -> int:
    order, count = value(record, 1, 2), numel(record)
    if order in (0, 1, math.inf, -math.inf):
        return 2 * count
    return (2 if order == 2 else 3) * count + _results(record, 2)


define("sum prod amax amin max min argmax argmin cumsum cumprod cummax cummin logcumsumexp", _reduction(1))
define("nansum aminmax", _reduction(2))
define("mean", _reduction(1, 1))
define("var var_mean", _reduction(4, 2))
define("std std_mean", _reduction(4, 3))
define("logsumexp", _reduction(4, 2))
define("renorm", _reduction(3))
define("norm linalg_vector_norm", _norm)
define("dist", lambda record: 3 * broadcast(record.shapes[:2]) + 1)
define("trace", lambda record: min(record.shapes[0]))
define("_softmax _safe_softmax _masked_softmax", _reduction(5))
define("_softmax_backward_data _log_softmax_backward_data", _reduction(4))
define("_log_softmax", lambda record: 5 * numel(record) + _lines(record))


def _lines(record: InputRecord) -> int:
    """How many lines along the dimension at place 1 a tensor has."""
    shape = record.shapes[0]
    return numel(record) // max(int(shape[value(record, 1, -1)]), 1) if shape else 1


# --- scattered sums ---------------------------------------------------------------------------------------------------


def _index_put(record: InputRecord) -> int:
    return numel(record, 2) if value(record, 3) is True else 0


def _embedding_bag(record: InputRecord) -> int:
    """Rows taken are added up, or the largest is found; a mean is divided, weights are multiplied with."""
    width, rows = record.shapes[0][1], numel(record, 1)
    return width * (rows * (1 + has(record, 6)) + (numel(record, 2) if value(record, 4, 0) == 1 else 0))


define("embedding_dense_backward col2im unfold_backward", _each(1, 1))
define("reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward", _each(1, 1))
define("replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward", _each(1, 1))
define("index_add", lambda record: (1 + is_not_one(record, 4)) * numel(record, 3))
define("index_reduce", lambda record: numel(record, 3))
define("scatter_add", lambda record: numel(record, 2))
define("scatter_reduce", lambda record: numel(record, 2))
define("index_put _index_put_impl put", _index_put)
define("_embedding_bag _embedding_bag_forward_only", _embedding_bag)
define("_embedding_bag_per_sample_weights_backward", lambda record: 2 * numel(record, 2) * record.shapes[1][1])
define("_embedding_bag_dense_backward", lambda record: numel(record, 1) * record.shapes[0][1])


# --- losses -----------------------------------------------------------------------------------------------------------


def _loss(operations: int, reduction: int, weight: int = -1) -> Formula:
    """So many operations an element, then the reduction whose number is at a place: none, mean or sum."""

    def formula(record: InputRecord) -> int:
        count, how = broadcast(record.shapes[:2]), value(record, reduction, 1)
        weighted = weight >= 0 and has(record, weight)
        return (operations + weighted + bool(how)) * count + (how == 1)

    return formula


def _nll_loss(record: InputRecord) -> int:
    targets, how = numel(record, 1), value(record, 3, 1)
    return targets * (1 + has(record, 2) + bool(how)) + (how == 1)


define("mse_loss", _loss(2, 2))
define("soft_margin_loss", _loss(4, 2))
define("huber_loss", _loss(5, 2))
define("smooth_l1_loss", _loss(6, 2))
define("binary_cross_entropy", _loss(9, 3, weight=2))
define("binary_cross_entropy_with_logits", _loss(9, 4, weight=2))
define("multi_margin_loss", lambda record: 4 * numel(record))
define("nll_loss_forward nll_loss2d_forward", _nll_loss)
define("nll_loss_backward nll_loss2d_backward", lambda record: numel(record, 2))
define("mse_loss_backward huber_loss_backward", lambda record: 3 * broadcast(record.shapes[1:3]))
define("smooth_l1_loss_backward", lambda record: 4 * broadcast(record.shapes[1:3]))
define("binary_cross_entropy_backward", lambda record: 6 * broadcast(record.shapes[1:3]))
define("multi_margin_loss_backward", lambda record: 3 * numel(record, 1))
