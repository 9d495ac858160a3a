"""Activation functions: the operators with torch's signatures, most with an `inplace` switch."""

from __future__ import annotations

import warnings
from typing import Any

from ...core.device import contiguous_format
from ...core.tensor import Tensor
from ...ops.creation.fill import empty_like, zeros_like
from ...ops.creation.random_fills import exponential_
from ...ops.network import activation as rows
from ...ops.network import glu as gates
from ...ops.network import softmax as soft

hardshrink = rows.hardshrink.function
softshrink = rows.softshrink.function
softplus = rows.softplus.function
gelu = rows.gelu.function
logsigmoid = gates.log_sigmoid.function
prelu = gates.prelu.function
relu_ = rows.relu_.function
threshold_ = rows.threshold_.function
leaky_relu_ = rows.leaky_relu_.function
hardtanh_ = rows.hardtanh_.function
elu_ = rows.elu_.function
selu_ = rows.selu_.function
celu_ = rows.celu_.function
rrelu_ = gates.rrelu_.function

_relu, _relu6, _relu6_ = rows.relu.function, rows.relu6.function, rows.relu6_.function
_threshold, _leaky_relu, _hardtanh = rows.threshold.function, rows.leaky_relu.function, rows.hardtanh.function
_elu, _selu, _celu, _rrelu = rows.elu.function, rows.selu.function, rows.celu.function, gates.rrelu.function
_hardsigmoid, _hardsigmoid_ = rows.hardsigmoid.function, rows.hardsigmoid_.function
_hardswish, _hardswish_ = rows.hardswish.function, rows.hardswish_.function
_silu, _silu_, _mish, _mish_ = rows.silu.function, rows.silu_.function, rows.mish.function, rows.mish_.function
_glu = gates.glu.function


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return relu_(input) if inplace else _relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
    return _relu6_(input) if inplace else _relu6(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where it exceeds the threshold, else a value."""
    return threshold_(input, threshold, value) if inplace else _threshold(input, threshold, value)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """max(x, 0) plus a small slope below zero."""
    return (leaky_relu_ if inplace else _leaky_relu)(input, negative_slope)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x between two bounds."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return (hardtanh_ if inplace else _hardtanh)(input, min_val, max_val)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, or alpha * (exp(x) - 1) below zero."""
    return (elu_ if inplace else _elu)(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Scaled elu whose constants keep mean 0 and variance 1."""
    return selu_(input) if inplace else _selu(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))."""
    return (celu_ if inplace else _celu)(input, alpha)


def rrelu(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False,
          inplace: bool = False) -> Tensor:  # fmt: skip
    """leaky_relu with a random slope while training."""
    return (rrelu_ if inplace else _rrelu)(input, lower, upper, training)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """A piecewise linear sigmoid."""
    return _hardsigmoid_(input) if inplace else _hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x times its hardsigmoid."""
    return _hardswish_(input) if inplace else _hardswish(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x times its sigmoid."""
    return _silu_(input) if inplace else _silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x times tanh(softplus(x))."""
    return _mish_(input) if inplace else _mish(input)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """One half of the input times the sigmoid of the other."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return _glu(input, dim)


def tanh(input: Any) -> Tensor:
    """The hyperbolic tangent."""
    return input.tanh()


def sigmoid(input: Any) -> Tensor:
    """1 / (1 + exp(-x))."""
    return input.sigmoid()


def tanhshrink(input: Any) -> Tensor:
    """x - tanh(x)."""
    return input - input.tanh()


def softsign(input: Any) -> Tensor:
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


# --- softmax ----------------------------------------------------------------------------------------------------------


def _implicit_dim(name: str, ndim: int, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """exp(x) over its sum along a dimension."""
    if dim is None:
        dim = _implicit_dim("softmax", input.dim(), _stacklevel)
    return soft.softmax(input, dim, dtype)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """softmax(-x)."""
    if dim is None:
        dim = _implicit_dim("softmin", input.dim(), _stacklevel)
    return soft.softmax(-input, dim, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """log(softmax(x)), computed as one."""
    if dim is None:
        dim = _implicit_dim("log_softmax", input.dim(), _stacklevel)
    return soft.log_softmax(input, dim, dtype)


def gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A sample of the Gumbel-softmax distribution; one-hot where `hard`, with the gradient of the soft one."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    gumbels = -exponential_(empty_like(logits, memory_format=contiguous_format)).log()
    soft_sample = softmax((logits + gumbels) / tau, dim)
    if not hard:
        return soft_sample
    index = soft_sample.max(dim, keepdim=True)[1]
    one_hot = zeros_like(logits).scatter_(dim, index, 1.0)
    return one_hot - soft_sample.detach() + soft_sample
