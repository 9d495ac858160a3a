"""Automatic differentiation: torch.autograd's names."""

from ..core.missing import attribute_finder as _attribute_finder
from . import forward_ad, function, grad_mode, graph
from .anomaly import detect_anomaly, set_detect_anomaly
from .anomaly import is_enabled as is_anomaly_enabled
from .entry import backward, grad
from .function import Function
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled, set_multithreading_enabled
from .gradcheck import GradcheckError, gradcheck, gradgradcheck
from .variable import Variable

# The profiler's names are imported when first asked for.
_ELSEWHERE = {
    "DeviceType": "profiler.record.config",
    "ProfilerActivity": "profiler.record.config",
    "ProfilerState": "profiler.record.config",
    "_profiler_enabled": "autograd.profiler",
    "_supported_activities": "autograd.profiler",
    "kineto_available": "profiler.record.config",
}
__getattr__ = _attribute_finder(__name__, _ELSEWHERE)

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
    "forward_ad",
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
    "set_multithreading_enabled",
]
