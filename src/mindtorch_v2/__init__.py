"""PyTorch's API on NumPy, with PyTorch's profiler: `import mindtorch_v2 as torch`.

This module only gives names; what they stand for lives in the modules named below.
"""

from __future__ import annotations

import math as _math
import sys as _sys

from . import _bind, _operators, ops
from ._allocator import keep_freed_memory as _keep_freed_memory
from ._asserts import (
    _assert,
    _check,
    _check_index,
    _check_is_size,
    _check_not_implemented,
    _check_type,
    _check_value,
)
from ._device import (
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
from ._device import default_device as get_default_device
from ._dtype import (
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
from ._errors import OutOfMemoryError
from ._floating import silence_own_warnings as _silence_own_warnings
from ._methods import from_dlpack
from ._size import (
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
from ._storages import TypedStorage, UntypedStorage
from ._tensor import Parameter as _Parameter
from ._tensor import Tensor
from ._tensor_str import set_printoptions
from .autograd import methods as _autograd_methods
from .autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .ops.seeds import Generator, default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

float = float32
double = float64
half = float16
short = int16
int = int32
long = int64
cfloat = complex64
cdouble = complex128
from ._dtype import bool_ as bool

legacy_contiguous_format = contiguous_format

e, inf, nan, pi = _math.e, _math.inf, _math.nan, _math.pi
newaxis = None

_public = _bind.public_functions()
globals().update(_public)
_bind.bind_methods(_public)
_operators.bind_operators()

from . import _legacy, _missing, _settings, amp, autograd, random, sparse, version
from ._settings import *  # noqa: F403
from .compiler import compile
from .torch_version import TorchVersion as TorchVersion

sparse.bind()
globals().update(_legacy.NAMES)
globals().update(amp.autocast_mode.NAMES)

_silence_own_warnings()
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
