"""Automatic differentiation: torch.autograd's names."""

from .anomaly import detect_anomaly, is_enabled as is_anomaly_enabled, set_detect_anomaly
from .entry import backward, grad
from .function import Function
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .._tensor import Tensor as Variable
from .gradcheck import GradcheckError, gradcheck, gradgradcheck
from . import function, functional, grad_mode, graph

__all__ = ["Function", "GradcheckError", "functional", "gradcheck", "gradgradcheck", "Variable", "backward", "detect_anomaly", "enable_grad", "function", "grad", "grad_mode", "graph", "inference_mode", "is_anomaly_enabled", "no_grad", "set_detect_anomaly", "set_grad_enabled"]
