"""Automatic differentiation: torch.autograd's names."""

from .._tensor import Tensor as Variable
from . import function, functional, grad_mode, graph
from .anomaly import detect_anomaly, set_detect_anomaly
from .anomaly import is_enabled as is_anomaly_enabled
from .entry import backward, grad
from .function import Function
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = [
    "Function",
    "GradcheckError",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]
