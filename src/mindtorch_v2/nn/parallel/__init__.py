"""torch.nn.parallel."""

from .data_parallel import DataParallel as DataParallel
from .data_parallel import data_parallel as data_parallel

__all__ = ["DataParallel", "data_parallel"]
