"""torch.save: a zip archive with a pickle of the object and one entry per storage, as torch writes it."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import struct
import sys
import zipfile
from types import FunctionType
from typing import Any

from ..binding.storage import UntypedStorage
from ..core.device import _Constant
from ..core.files import replaced
from ..core.tensor import Tensor
from ..sparse import SparseTensor
from . import names
from .rebuild import (
    Nested,
    Pieces,
    Reference,
    _get_layout,
    reduce_sparse,
    reduce_tensor,
    storage_bytes,
    storage_reference,
)

ALIGNMENT = 64  # of storages in the file, so that they can be mapped into memory
_STANDARD_REDUCE = Tensor.__reduce_ex__
_Pickler: Any = pickle._Pickler


class TorchPickler(_Pickler):
    """Writes our objects under torch's names. The C pickler has no say in names, hence Python's."""

    def __init__(self, file: Any, protocol: int, pieces: Pieces) -> None:
        super().__init__(file, protocol=protocol)
        self.pieces = pieces

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, UntypedStorage):
            obj = storage_reference(obj)
        return self.pieces.storage(obj.array, obj.kind) if type(obj) is Reference else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, SparseTensor):
            return reduce_sparse(obj)
        if isinstance(obj, Tensor) and type(obj).__reduce_ex__ is _STANDARD_REDUCE:
            return reduce_tensor(obj)
        if type(obj) is Nested:
            return obj.function, obj.args
        if names.is_constant(obj):
            return obj.name
        if isinstance(obj, _Constant):
            return _get_layout, (f"torch.{obj.name}",)
        return NotImplemented

    def save_global(self, obj: Any, name: str | None = None) -> None:
        known = names.torch_name(obj)
        if known is None:
            super().save_global(obj, name)
            return
        module, qualified = known
        self.write(pickle.GLOBAL + f"{module}\n{qualified}\n".encode())
        self.memoize(obj)

    dispatch = {**_Pickler.dispatch, FunctionType: save_global}


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object to a file (a path, or an object with `write`) that torch and mindtorch_v2 can load."""
    if not isinstance(f, (str, os.PathLike)) and not hasattr(f, "write"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute, but got "
            f"{type(f).__name__}"
        )
    if not _use_new_zipfile_serialization:
        _save_legacy(obj, f, pickle_protocol)
        return
    pieces, text = _pickled(obj, pickle_protocol)
    if isinstance(f, (str, os.PathLike)):
        stem = os.path.basename(os.fspath(f)).rpartition(".")[0] or os.path.basename(os.fspath(f))
        with replaced(f) as file:
            _write_archive(file, stem or "archive", text, pieces)
    else:
        _write_archive(f, "archive", text, pieces)


def _pickled(obj: Any, protocol: int) -> tuple[Pieces, bytes]:
    pieces, buffer = Pieces(), io.BytesIO()
    TorchPickler(buffer, protocol, pieces).dump(obj)
    return pieces, buffer.getvalue()


def _write_archive(file: Any, root: str, text: bytes, pieces: Pieces) -> None:
    digest = hashlib.sha256(text)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _entry(archive, f"{root}/data.pkl", text)
        _entry(archive, f"{root}/.format_version", b"1")
        _entry(archive, f"{root}/.storage_alignment", str(ALIGNMENT).encode())
        _entry(archive, f"{root}/byteorder", sys.byteorder.encode())
        for number, owner in enumerate(pieces.arrays):
            data = storage_bytes(owner)
            digest.update(struct.pack("<Q", len(data)))
            _entry(archive, f"{root}/data/{number}", data)
        _entry(archive, f"{root}/version", b"3\n")
        identity = f"{int.from_bytes(digest.digest()[:16], 'big'):040d}"[-40:]
        _entry(archive, f"{root}/.data/serialization_id", identity.encode())


def _entry(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    """One stored entry whose data begins at a multiple of the alignment."""
    info = zipfile.ZipInfo(name)
    info.file_size = len(data)
    start = archive.fp.tell() if archive.fp is not None else 0
    begins = start + 30 + len(name.encode()) + 4
    info.extra = b"FB" + struct.pack("<H", -begins % ALIGNMENT) + b"Z" * (-begins % ALIGNMENT)
    with archive.open(info, "w") as entry:
        entry.write(memoryview(data))


# --- the format before zip --------------------------------------------------------------------------------------------

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001


class _LegacyPickler(TorchPickler):
    """Persistent ids of the old format have a sixth field, for views of storages; it is never used."""

    def persistent_id(self, obj: Any) -> Any:
        found = super().persistent_id(obj)
        return None if found is None else (*found, None)


def _save_legacy(obj: Any, f: Any, protocol: int) -> None:
    if isinstance(f, (str, os.PathLike)):
        with replaced(f) as file:
            _save_legacy(obj, file, protocol)
        return
    pieces, buffer = Pieces(), io.BytesIO()
    _LegacyPickler(buffer, protocol, pieces).dump(obj)
    sizes = {"short": 2, "int": 4, "long": 4}
    about = {"protocol_version": PROTOCOL, "little_endian": sys.byteorder == "little", "type_sizes": sizes}
    for part in (MAGIC, PROTOCOL, about):
        f.write(pickle.dumps(part, protocol))
    f.write(buffer.getvalue())
    f.write(pickle.dumps([str(n) for n in range(len(pieces.arrays))], protocol))
    for owner, kind in zip(pieces.arrays, pieces.kinds(), strict=True):
        f.write(struct.pack("<q", owner.nbytes // kind.dtype.itemsize))
        f.write(storage_bytes(owner).tobytes())
