"""PyTorch's API on NumPy, with PyTorch's profiler: `import mindtorch_v2 as torch`.

This module only gives names; what they stand for lives in the modules named below.
"""

from __future__ import annotations

import math as _math
import os as _os
import sys as _sys

from . import ops
from .autograd import methods as _autograd_methods
from .autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .binding import operators as _operators
from .binding import public as _bind
from .binding.methods import from_dlpack
from .binding.storage import TypedStorage, UntypedStorage
from .core.allocator import keep_freed_memory as _keep_freed_memory
from .core.asserts import (
    _assert,
    _check,
    _check_index,
    _check_is_size,
    _check_not_implemented,
    _check_type,
    _check_value,
)
from .core.device import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    device,
    layout,
    memory_format,
    preserve_format,
    set_default_device,
    sparse_coo,
    sparse_csr,
    strided,
)
from .core.device import default_device as get_default_device
from .core.dtype import (
    bfloat16,
    can_cast,
    complex64,
    complex128,
    dtype,
    finfo,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .core.errors import OutOfMemoryError
from .core.printing import set_printoptions
from .core.size import (
    Size,
    SymBool,
    SymFloat,
    SymInt,
    sym_float,
    sym_int,
    sym_ite,
    sym_max,
    sym_min,
    sym_not,
    sym_sqrt,
    sym_sum,
)
from .core.tensor import Parameter as _Parameter
from .core.tensor import Tensor
from .kernels.floating import silence_own_warnings as _silence_own_warnings
from .ops.creation.seeds import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

float = float32
double = float64
half = float16
short = int16
int = int32
long = int64
cfloat = complex64
cdouble = complex128
from .core.dtype import bool_ as bool

legacy_contiguous_format = contiguous_format

e, inf, nan, pi = _math.e, _math.inf, _math.nan, _math.pi
newaxis = None

_public = _bind.public_functions()
globals().update(_public)
_bind.bind_methods(_public)
_operators.bind_operators()

from . import amp, autograd, random, sparse, version
from .binding import legacy as _legacy
from .binding import reductions as _reductions
from .compat.compiler import compile
from .core import missing as _missing
from .kernels import settings as _settings
from .kernels.settings import *  # noqa: F403
from .torch_version import TorchVersion as TorchVersion

sparse.bind()
globals().update(_legacy.NAMES)
globals().update(amp.autocast_mode.NAMES)

_reductions.init_reductions()
_silence_own_warnings("mindtorch_v2")
_keep_freed_memory()

__version__ = TorchVersion(version.__version__)

_missing.install()
_missing.cover_all()
# Submodules (nn, optim, profiler, …) are imported when first asked for, and so are these names.
_ELSEWHERE = {
    "GradScaler": "amp",
    "PyTorchFileReader": "serialization",
    "ScriptFunction": "jit",
    "sparse_coo_tensor": "sparse",
    "sparse_csr_tensor": "sparse",
    "spmm": "sparse",
    "ScriptModule": "jit",
    "Tag": "library",
    "get_device_module": "accelerator",
    "is_anomaly_enabled": "autograd",
    "load": "serialization",
    "save": "serialization",
    "vmap": "func",
}
__getattr__ = _missing.attribute_finder(__name__, _ELSEWHERE)


def __dir__() -> list[str]:
    return sorted({*globals(), *_ELSEWHERE, *_missing.submodules(_sys.modules[__name__])})


if _os.environ.get("MINDTORCH_FLIGHT", "0") not in ("", "0"):
    from .profiler.flight_recorder import of_environment as _of_environment

    _of_environment()
