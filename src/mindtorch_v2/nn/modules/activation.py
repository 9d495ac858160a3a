"""Activation functions as layers. MultiheadAttention, which torch keeps here too, is in `attention`."""

from __future__ import annotations

import warnings
from typing import Any

from ...ops.creation.fill import empty
from ...ops.pointwise.transcendental import sigmoid, tanh
from .. import functional as F
from ..init import constant_
from ..parameter import Parameter
from .attention import MultiheadAttention
from .module import Module
from .utils import shown

MultiheadAttention.__module__ = __name__  # where torch has it, hence where pickles look for it


class _InPlace(Module):
    """An activation that may overwrite its input; `_shown` names what else `repr` gives."""

    __constants__ = ["inplace"]
    _shown: tuple[str, ...] = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        parts = [shown(self, *self._shown)] if self._shown else []
        return ", ".join(parts + ["inplace=True"] * self.inplace)


class Threshold(_InPlace):
    """Another value for everything up to a threshold."""

    __constants__ = ["threshold", "value", "inplace"]
    _shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold, self.value = threshold, value

    def forward(self, input: Any) -> Any:
        return F.threshold(input, self.threshold, self.value, self.inplace)


class ReLU(_InPlace):
    """`max(0, x)`."""

    def forward(self, input: Any) -> Any:
        return F.relu(input, inplace=self.inplace)


class RReLU(_InPlace):
    """LeakyReLU with a random slope while training."""

    __constants__ = ["lower", "upper", "inplace"]
    _shown = ("lower", "upper")

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower, self.upper = lower, upper

    def forward(self, input: Any) -> Any:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardtanh(_InPlace):
    """`x` cut off at both ends."""

    __constants__ = ["min_val", "max_val", "inplace"]
    _shown: tuple[str, ...] = ("min_val", "max_val")

    def __init__(
        self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False, min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(inplace)
        for old, given in (("min_val", min_value), ("max_val", max_value)):
            if given is not None:
                warnings.warn(
                    f"keyword argument `{old}ue` is deprecated and renamed to `{old}`", FutureWarning, stacklevel=2
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input: Any) -> Any:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ReLU6(Hardtanh):
    """`min(max(0, x), 6)`."""

    _shown = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class Sigmoid(Module):
    """`1 / (1 + exp(-x))`."""

    def forward(self, input: Any) -> Any:
        return sigmoid.function(input)


class Hardsigmoid(_InPlace):
    """A sigmoid made of three straight lines."""

    def forward(self, input: Any) -> Any:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Any) -> Any:
        return tanh.function(input)


class SiLU(_InPlace):
    """`x * sigmoid(x)`."""

    def forward(self, input: Any) -> Any:
        return F.silu(input, inplace=self.inplace)


class Mish(_InPlace):
    """`x * tanh(softplus(x))`."""

    def forward(self, input: Any) -> Any:
        return F.mish(input, inplace=self.inplace)


class Hardswish(_InPlace):
    """`x * hardsigmoid(x)`."""

    def forward(self, input: Any) -> Any:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class ELU(_InPlace):
    """`x`, exponential below zero."""

    __constants__ = ["alpha", "inplace"]
    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Any) -> Any:
        return F.elu(input, self.alpha, self.inplace)


class CELU(_InPlace):
    """ELU whose slope goes on without a kink."""

    __constants__ = ["alpha", "inplace"]
    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Any) -> Any:
        return F.celu(input, self.alpha, self.inplace)


class SELU(_InPlace):
    """ELU scaled so that it keeps mean and variance."""

    def forward(self, input: Any) -> Any:
        return F.selu(input, self.inplace)


class GLU(Module):
    """One half times the sigmoid of the other."""

    __constants__ = ["dim"]

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return shown(self, "dim")


class GELU(Module):
    """`x` times the normal distribution up to `x`."""

    __constants__ = ["approximate"]

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class _Shrink(Module):
    """Zero within `lambd` of zero."""

    __constants__ = ["lambd"]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Hardshrink(_Shrink):
    """Zero near zero."""

    def forward(self, input: Any) -> Any:
        return F.hardshrink(input, self.lambd)


class LeakyReLU(_InPlace):
    """`x`, less steep below zero."""

    __constants__ = ["inplace", "negative_slope"]
    _shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Any) -> Any:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class LogSigmoid(Module):
    """The logarithm of the sigmoid."""

    def forward(self, input: Any) -> Any:
        return F.logsigmoid(input)


class Softplus(Module):
    """`log(1 + exp(x))`, straight where that is large."""

    __constants__ = ["beta", "threshold"]

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Any) -> Any:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return shown(self, "beta", "threshold")


class Softshrink(_Shrink):
    """Pulled towards zero, zero near it."""

    def forward(self, input: Any) -> Any:
        return F.softshrink(input, self.lambd)


class PReLU(Module):
    """LeakyReLU whose slope is learned."""

    __constants__ = ["num_parameters"]

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(empty((num_parameters,), device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The slope it began with."""
        constant_(self.weight, self.init)

    def forward(self, input: Any) -> Any:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return shown(self, "num_parameters")


class Softsign(Module):
    """`x / (1 + |x|)`."""

    def forward(self, input: Any) -> Any:
        return F.softsign(input)


class Tanhshrink(Module):
    """`x - tanh(x)`."""

    def forward(self, input: Any) -> Any:
        return F.tanhshrink(input)


class _AlongDim(Module):
    """An activation over one dimension."""

    __constants__ = ["dim"]

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def extra_repr(self) -> str:
        return shown(self, "dim")


class Softmin(_AlongDim):
    """The softmax of `-x`."""

    def forward(self, input: Any) -> Any:
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax(_AlongDim):
    """Positive numbers that add up to one."""

    def forward(self, input: Any) -> Any:
        return F.softmax(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """The softmax over the channels of images."""

    def forward(self, input: Any) -> Any:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """The logarithm of the softmax."""

    def forward(self, input: Any) -> Any:
        return F.log_softmax(input, self.dim, _stacklevel=5)


__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]  # fmt: skip
