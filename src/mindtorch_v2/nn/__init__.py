"""torch.nn: modules, their parameters, and what is around them."""

from . import attention as attention
from . import functional as functional
from . import init as init
from . import modules as modules
from . import parallel as parallel
from . import parameter as parameter
from . import utils as utils
from .modules import *  # noqa: F403
from .modules import __all__ as _layers
from .parallel import DataParallel as DataParallel
from .parameter import Buffer as Buffer
from .parameter import Parameter as Parameter
from .parameter import UninitializedBuffer as UninitializedBuffer
from .parameter import UninitializedParameter as UninitializedParameter

__all__ = [
    *_layers, "Buffer", "DataParallel", "Parameter", "UninitializedBuffer", "UninitializedParameter", "attention",
    "functional", "init", "modules", "parallel", "parameter", "utils",
]  # fmt: skip
