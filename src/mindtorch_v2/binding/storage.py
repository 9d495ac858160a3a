"""Storages as users see them: the bytes that tensors look at, and their elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..autograd.memory.holders import StorageBase, root_of
from ..core import device as _device
from ..core import segments
from ..core.dtype import FROM_NUMPY, get_default_dtype, uint8
from ..core.dtype import dtype as DType
from ..core.meta import MetaArray, meta
from ..core.segments import Segment, segment_of
from ..core.storage import Storage
from ..core.tensor import address, memory_owner
from . import aliases


class UntypedStorage(StorageBase):
    """The bytes a tensor looks at; two tensors share memory when their storages have the same `data_ptr`."""

    dtype = uint8  # of what an index names

    def __init__(self, given: Any = 0, /, *, device: Any = None) -> None:
        """So many bytes, which are not set, or these bytes."""
        on_meta = device is not None and _device.usable(device).type == "meta"
        if isinstance(given, (int, np.integer)):
            if given < 0:
                raise RuntimeError(f"Storage size must not be negative, got {given}")
            self._owner = meta((int(given),), np.uint8) if on_meta else np.empty(int(given), np.uint8)
        else:
            self._owner = np.array(list(given), np.uint8)
        self._token = Storage()

    @classmethod
    def _on(cls, array: Any, token: Any) -> Any:
        """The storage that an array looks at, shared by the tensors that have the token."""
        made = object.__new__(cls)
        made._owner, made._token = memory_owner(array), root_of(token)
        return made

    def _like_this(self, array: Any) -> Any:
        """A storage of its kind on other memory."""
        made = type(self)._on(array, Storage())
        made.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("_owner", "_token")})
        return made

    def data_ptr(self) -> int:
        return address(self._owner) if len(self) else 0

    def nbytes(self) -> int:
        return int(self._owner.size * self._owner.itemsize)

    size = __len__ = nbytes

    @property
    def device(self) -> _device.device:
        return _device.META if isinstance(self._owner, MetaArray) else _device.CPU

    @property
    def is_cuda(self) -> bool:
        return False

    is_hpu = is_cuda

    def element_size(self) -> int:
        return self.dtype.itemsize

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def __repr__(self) -> str:
        values = "...\n" if self.device is _device.META else "".join(f" {v}\n" for v in self._bytes().tolist())
        return f"{values}[torch.storage.{self._title()} of size {len(self)}]"

    def _title(self) -> str:
        return f"UntypedStorage(device={self.device})"

    def _bytes(self) -> Any:
        owner = self._owner
        flat = owner if owner.flags.c_contiguous else owner.T
        return flat.reshape(-1).view(np.uint8)

    # --- elements -----------------------------------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The bytes themselves, so that `torch.asarray(storage)` looks at them."""
        return np.array(self._bytes(), dtype, copy=copy)

    def __getitem__(self, index: Any) -> Any:
        found = self._bytes()[index]
        if not isinstance(index, slice):
            return found.item()
        part = object.__new__(UntypedStorage)
        part._owner, part._token = found, self._token
        return part

    def __setitem__(self, index: Any, value: Any) -> None:
        self._bytes()[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        return self._bytes().tolist()

    def fill_(self, value: Any) -> Any:
        self._bytes()[...] = value
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> Any:
        """Take over the bytes of another storage of this size."""
        if self.nbytes() != source.nbytes():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes"
            )
        self._bytes()[...] = source._bytes().view(self.dtype.np)
        return self

    def clone(self) -> Any:
        return self._like_this(self._bytes().view(np.uint8).copy())

    __copy__ = clone

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return memo.setdefault(id(self), self.clone())

    def __reduce__(self) -> Any:
        rest = {k: v for k, v in self.__dict__.items() if k not in ("_owner", "_token")}
        return _rebuilt, (type(self), self._bytes().view(np.uint8), rest)

    def cpu(self) -> Any:
        return self

    def untyped(self) -> UntypedStorage:
        return self

    _untyped = untyped

    def resizable(self) -> bool:
        return False

    def resize_(self, nbytes: int) -> None:
        raise RuntimeError("Trying to resize storage that is not resizable; make a new tensor of the wanted size")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other.data_ptr() == self.data_ptr()

    def __hash__(self) -> int:
        return hash(self.data_ptr())

    # --- shared memory ------------------------------------------------------------------------------------------------

    def share_memory_(self) -> Any:
        """Move the bytes to shared memory, with all tensors that look at them."""
        aliases.share((self,))
        return self

    def is_shared(self) -> bool:
        """Whether the bytes are mapped; as in torch this counts the private mapping of a file too."""
        return segment_of(memory_owner(self._owner)) is not None

    def _segment(self) -> Segment:
        aliases.share((self,))
        found = segment_of(memory_owner(self._owner))
        assert found is not None
        return found

    def _share_fd_cpu_(self) -> tuple[int, int]:
        """A descriptor of the shared memory, which stays this storage's, and the size."""
        segment = self._segment()
        if segment.path is not None:
            raise RuntimeError("the memory was shared with the strategy 'file_system' and has no descriptor")
        return segments.descriptor(segment), len(self)

    def _share_filename_cpu_(self) -> tuple[bytes, bytes, int]:
        """Nobody's manager, a name of the shared memory that is the caller's to remove, and the size."""
        segment = self._segment()
        if segment.path is None:
            raise RuntimeError("the memory was shared with the strategy 'file_descriptor' and has no name")
        return b"", segments.send_name(segment).encode(), len(self)

    @classmethod
    def _new_shared(cls, size: int, *, device: Any = "cpu") -> Any:
        """So many bytes of fresh shared memory."""
        return cls._on_segment(segments.create(int(size)))

    _new_using_fd_cpu = _new_using_filename_cpu = _new_shared

    @classmethod
    def _on_segment(cls, segment: Segment) -> Any:
        return cls._on(segment.array(), aliases.token_on(segment))

    @classmethod
    def _new_shared_fd_cpu(cls, fd: int, size: int) -> Any:
        """The memory of a descriptor, which stays the caller's."""
        return cls._on_segment(segments.attach_descriptor(segments.duplicate(fd), int(size)))

    @classmethod
    def _new_shared_filename_cpu(cls, manager: Any, handle: bytes, size: int) -> Any:
        """The memory of a name, which is taken over."""
        return cls._on_segment(segments.attach_name(handle.decode(), int(size)))

    @property
    def filename(self) -> str | None:
        """The file that is mapped, with shared=True."""
        segment = segment_of(memory_owner(self._owner))
        return None if segment is None else segment.filename

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> Any:
        """The bytes of a file, read as they are used; changes go to the file only if it is shared."""
        return cls._on_segment(segments.map_file(filename, bool(shared), int(nbytes)))


class TypedStorage(UntypedStorage):
    """A storage counted in elements."""

    dtype: DType

    @classmethod
    def _on(cls, array: Any, token: Any) -> Any:
        made = super()._on(array, token)
        made.dtype = FROM_NUMPY[array.dtype]
        return made

    def __init__(
        self, given: Any = 0, /, *, wrap_storage: Any = None, dtype: Any = None, device: Any = None, _internal: bool = False
    ) -> None:  # fmt: skip
        """So many elements, which are not set, these elements, or those of a storage."""
        self.dtype = dtype = get_default_dtype() if dtype is None else dtype
        if wrap_storage is not None:
            self._owner, self._token = wrap_storage._owner, wrap_storage._token
        elif isinstance(given, (int, np.integer)):
            super().__init__(int(given) * dtype.itemsize, device=device)
        else:
            self._owner, self._token = np.array(list(given), dtype.np), Storage()

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
        return UntypedStorage._on(self._owner, self._token)

    _untyped = untyped

    @property
    def _untyped_storage(self) -> UntypedStorage:
        return self.untyped()

    def _bytes(self) -> Any:
        return super()._bytes().view(self.dtype.np)

    def _new_shared(self, size: int, *, device: Any = None) -> Any:  # type: ignore[override]
        """So many elements of fresh shared memory."""
        return self._like_this(segments.create(int(size) * self.dtype.itemsize).array())

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> Any:
        raise RuntimeError("from_file can only be called on derived classes; use torch.UntypedStorage.from_file")


def _rebuilt(kind: Any, array: Any, attributes: dict[str, Any]) -> Any:
    made = object.__new__(kind)
    made._owner, made._token = array, Storage()
    made.__dict__.update(attributes)
    return made
