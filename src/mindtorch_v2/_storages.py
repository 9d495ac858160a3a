"""Storages as users see them: the bytes that tensors look at, and their elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _device
from ._dtype import FROM_NUMPY
from ._meta import MetaArray
from ._tensor import address, memory_owner


class UntypedStorage:
    """The bytes a tensor looks at; two tensors share memory when their storages have the same `data_ptr`."""

    def __init__(self, array: Any) -> None:
        self._owner = memory_owner(array)

    def data_ptr(self) -> int:
        return address(self._owner)

    def nbytes(self) -> int:
        return int(self._owner.size * self._owner.itemsize)

    size = __len__ = nbytes

    @property
    def device(self) -> _device.device:
        return _device.META if isinstance(self._owner, MetaArray) else _device.CPU

    def __repr__(self) -> str:
        values = "".join(f" {v}\n" for v in self._bytes().tolist())
        return f"{values}[torch.storage.{self._title()} of size {len(self)}]"

    def _title(self) -> str:
        return f"UntypedStorage(device={self.device})"

    def _bytes(self) -> Any:
        owner = self._owner
        flat = owner if owner.flags.c_contiguous else owner.T
        return flat.reshape(-1).view(np.uint8)

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> Any:
        """The bytes of a file, read as they are used; changes go to the file only if it is shared."""
        return cls(np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,)).view(np.ndarray))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The bytes themselves, so that `torch.asarray(storage)` looks at them."""
        return np.array(self._bytes(), dtype, copy=copy)

    def __getitem__(self, index: Any) -> Any:
        found = self._bytes()[index]
        if not isinstance(index, slice):
            return found.item()
        part = object.__new__(UntypedStorage)
        part._owner = found
        return part

    def untyped(self) -> UntypedStorage:
        return self

    _untyped = untyped

    def tolist(self) -> list[int]:
        return self._bytes().tolist()

    def resize_(self, nbytes: int) -> None:
        raise RuntimeError("resizing a storage is not supported; make a new tensor of the wanted size")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other.data_ptr() == self.data_ptr()

    def __hash__(self) -> int:
        return hash(self.data_ptr())


class TypedStorage(UntypedStorage):
    """A storage counted in elements."""

    def __init__(self, array: Any) -> None:
        super().__init__(array)
        self.dtype = FROM_NUMPY[array.dtype]

    def size(self) -> int:
        return self.nbytes() // self.dtype.itemsize

    __len__ = size

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return super().__getitem__(index)

    def _title(self) -> str:
        return f"TypedStorage(dtype={self.dtype}, device={self.device})"

    def untyped(self) -> UntypedStorage:
        return UntypedStorage(self._owner)

    _untyped = untyped

    def element_size(self) -> int:
        return self.dtype.itemsize

    def _bytes(self) -> Any:
        return super()._bytes().view(self.dtype.np)
