"""Automatic differentiation: torch.autograd's names."""

from .._tensor import Tensor as Variable
from ..profiler.config import DeviceType, ProfilerActivity, ProfilerState, kineto_available
from ..profiler.config import supported_activities as _supported_activities
from ..profiler.run import is_profiling as _profiler_enabled
from . import function, functional, grad_mode, graph, profiler, profiler_legacy, profiler_util
from .anomaly import detect_anomaly, set_detect_anomaly
from .anomaly import is_enabled as is_anomaly_enabled
from .entry import backward, grad
from .function import Function
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = [
    "DeviceType",
    "Function",
    "GradcheckError",
    "ProfilerActivity",
    "ProfilerState",
    "Variable",
    "_profiler_enabled",
    "_supported_activities",
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
    "kineto_available",
    "no_grad",
    "profiler",
    "profiler_legacy",
    "profiler_util",
    "set_detect_anomaly",
    "set_grad_enabled",
]
