"""torch.utils.benchmark."""

from .measurement import Measurement
from .timing import Timer, timer

__all__ = ["Measurement", "Timer", "timer"]
