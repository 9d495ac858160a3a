"""torch._C._autograd: the kinds of devices that events ran on, where torch keeps them."""

from ..profiler.record.config import DeviceType, kineto_available

__all__ = ["DeviceType", "kineto_available"]
