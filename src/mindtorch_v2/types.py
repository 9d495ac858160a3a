"""torch.types: names for annotations."""

from __future__ import annotations

import os
from typing import IO, Any, TypeAlias

from .binding.storage import UntypedStorage as Storage
from .core.device import device
from .core.dtype import dtype
from .core.size import Size
from .core.tensor import Tensor

Number: TypeAlias = int | float | bool
Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
IntLikeType: TypeAlias = int
FloatLikeType: TypeAlias = float
BoolLikeType: TypeAlias = bool
_dtype: TypeAlias = dtype
_device: TypeAlias = device
_int, _float, _bool, _size = int, float, bool, Size | list[int] | tuple[int, ...]
_TensorOrTensors: TypeAlias = Tensor | tuple[Tensor, ...] | list[Tensor]
_symint: Any = int

__all__ = ["BoolLikeType", "Device", "FileLike", "FloatLikeType", "IntLikeType", "Number", "Size", "Storage", "Tensor"]
