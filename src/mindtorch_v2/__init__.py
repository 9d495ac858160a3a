"""PyTorch's API on NumPy, with PyTorch's profiler.  `import mindtorch_v2 as torch`."""

from __future__ import annotations

from . import _bind
from ._tensor import Parameter, Tensor
from .ops import arithmetic, convert, creation, door, join, matrix, reduce, view
from .autograd import methods as _methods

globals().update(_bind.public_functions())
_bind.bind_methods(_bind.public_functions())
Tensor.__add__ = Tensor.__radd__ = add
Tensor.__mul__ = Tensor.__rmul__ = mul
Tensor.__sub__ = sub
Tensor.__neg__ = neg
Tensor.__matmul__ = matmul
