"""torch.load: reads checkpoints of torch's zip format and of the one before it.

It owns opening files, finding storages and placing them on devices; what pickles may contain is decided in `safe`.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import _device
from .._meta import meta
from . import names, safe
from .options import load_byte_order
from .rebuild import LoadedStorage, StorageType
from .writing import MAGIC, PROTOCOL

_FAILED = (
    "Weights only load failed. This file can still be loaded, to do so you have two options, do those steps only if "
    "you trust the source of the checkpoint.\n\t(1) Re-running `torch.load` with `weights_only` set to `False` will "
    "likely succeed, but it can result in arbitrary code execution.\n\t(2) Alternatively, to load with "
    "`weights_only=True` please check the recommended steps in the following error message.\n\t"
    "WeightsUnpickler error: "
)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read an object that torch.save wrote, by default without trusting the file."""
    trusted = not _weights_only(weights_only, pickle_module)
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _load(file, map_location, trusted, pickle_load_args, os.fspath(f) if mmap else None)
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    if not hasattr(f, "read") or not hasattr(f, "seek"):
        raise AttributeError(
            f"'{type(f).__name__}' object has no attribute 'seek'. You can only torch.load from a file that is "
            "seekable. Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
        )
    return _load(f, map_location, trusted, pickle_load_args, None)


def _weights_only(given: bool | None, pickle_module: Any) -> bool:
    if given is None and os.environ.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0").lower() in ("1", "y", "yes", "true"):
        return False
    if given and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    return pickle_module is None if given is None else bool(given)


def _load(file: Any, map_location: Any, trusted: bool, options: dict[str, Any], mapped: str | None) -> Any:
    start = file.tell()
    magic = file.read(4)
    file.seek(start)
    place = placement(map_location)
    if magic == b"PK\x03\x04":
        return _load_archive(_part(file, start), place, trusted, options, mapped)
    if mapped is not None:
        raise RuntimeError(
            "mmap can only be used with files saved with `torch.save(..., _use_new_zipfile_serialization=True)`; load "
            "this one without mmap and save it again"
        )
    if not magic:
        raise EOFError("Ran out of input: the file is empty")
    return _load_legacy(file.read(), place, trusted, options)


def _part(file: Any, start: int) -> Any:
    """The file from `start` on, as zipfile needs it."""
    return file if start == 0 else io.BytesIO(file.read())


# --- where storages go ------------------------------------------------------------------------------------------------

Place = Callable[[LoadedStorage, str], LoadedStorage]


def placement(map_location: Any) -> Place:
    """How a storage that lay at a location is restored."""
    if map_location is None:
        return _restore
    if isinstance(map_location, dict):
        return lambda storage, location: _restore(storage, str(map_location.get(location, location)))
    if isinstance(map_location, (str, _device.device)):
        target = str(_device.device(map_location))
        return lambda storage, location: _restore(storage, target)
    if not callable(map_location):
        raise TypeError(
            f"map_location must be None, a device, its name, a dict or a callable, got {type(map_location).__name__}"
        )

    def ask(storage: LoadedStorage, location: str) -> LoadedStorage:
        found = map_location(storage, location)
        return _restore(storage, location) if found is None else found

    return ask


def _restore(storage: LoadedStorage, location: str) -> LoadedStorage:
    kind = location.partition(":")[0]
    if kind == "cpu":
        return storage
    if kind == "meta":
        return LoadedStorage(meta((storage.nbytes(),), np.dtype(np.uint8)), storage.dtype)
    if kind == "cuda":
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are "
            "running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your "
            "storages to the CPU."
        )
    raise RuntimeError(
        f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location:.80}); use "
        "torch.load with map_location='cpu'"
    )


# --- unpickling -------------------------------------------------------------------------------------------------------


class _Trusting(pickle.Unpickler):
    """Unpickles anything, with torch's names meaning ours."""

    def __init__(self, file: Any, persistent_load: Callable[[Any], Any], options: dict[str, Any]) -> None:
        super().__init__(file, **options)
        self._persistent_load = persistent_load

    def persistent_load(self, pid: Any) -> Any:
        return self._persistent_load(pid)

    def find_class(self, module: str, name: str) -> Any:
        return names.resolve(module, name) if names.is_torch(module) else super().find_class(module, name)


def _unpickle(data: bytes, start: int, find: Callable[[Any], Any], trusted: bool, options: Any) -> tuple[Any, int]:
    """The object pickled at `start`, and where its pickle ends."""
    if trusted:
        file = io.BytesIO(data)
        file.seek(start)
        return _Trusting(file, find, options).load(), file.tell()
    try:
        return safe.load(data, start, find)
    except safe.Refused as error:
        raise pickle.UnpicklingError(_FAILED + str(error)) from None
    except (TypeError, ValueError, OverflowError, struct.error, KeyError) as error:
        raise pickle.UnpicklingError(f"damaged checkpoint: {error}") from error


def _fields(pid: Any) -> tuple[StorageType, str, str, int]:
    """The parts of a persistent id, checked."""
    if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
        raise pickle.UnpicklingError(f"damaged checkpoint: unknown persistent id {pid!r:.80}")
    kind, key, location, count = pid[1:5]
    if not isinstance(kind, StorageType) or not isinstance(key, str) or not isinstance(location, str):
        raise pickle.UnpicklingError(f"damaged checkpoint: unknown storage {pid!r:.80}")
    if type(count) is not int or not 0 <= count < 2**62:
        raise pickle.UnpicklingError(f"damaged checkpoint: a storage of {count!r:.40} elements")
    return kind, key, location, count


def _in_our_order(array: Any, kind: StorageType, order: str) -> Any:
    """Bytes in this machine's order."""
    if order == sys.byteorder:
        return array
    unit = kind.dtype.itemsize // 2 if kind.dtype.is_complex else kind.dtype.itemsize
    return array if unit == 1 else array.view(f"u{unit}").byteswap().view(np.uint8)


# --- the zip format ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _zip_errors() -> Iterator[None]:
    """What zipfile raises for damaged archives, as one exception that says so."""
    try:
        yield
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, struct.error, zlib.error) as error:
        raise RuntimeError(f"damaged checkpoint: {error}") from error


class _Archive:
    """The entries of a checkpoint, without the folder they all lie in."""

    def __init__(self, file: Any, mapped: str | None) -> None:
        self.file = file
        with _zip_errors():
            self.zip = zipfile.ZipFile(file)
        self.entries: dict[str, zipfile.ZipInfo] = {}
        for info in self.zip.infolist():
            self.entries[info.filename.partition("/")[2]] = info
        self.size = file.seek(0, os.SEEK_END)
        self.map = np.memmap(mapped, np.uint8, "c") if mapped is not None else None

    def _info(self, name: str) -> zipfile.ZipInfo:
        info = self.entries.get(name)
        if info is None:
            raise RuntimeError(f"damaged checkpoint: the archive has no entry {name:.80}")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size > self.size:
            raise RuntimeError(f"damaged checkpoint: entry {name:.80} is not stored as torch stores it")
        return info

    def read(self, name: str) -> bytes:
        with _zip_errors():
            return self.zip.read(self._info(name))

    def array(self, name: str) -> Any:
        """The bytes of an entry as an array of their own, or of the mapped file."""
        info = self._info(name)
        if self.map is not None:
            return self._mapped(info)
        array = np.empty(info.file_size, np.uint8)
        with _zip_errors(), self.zip.open(info) as entry:
            view, at = array.data, 0
            while at < len(view):
                count = entry.readinto(view[at:])  # type: ignore[attr-defined]
                if not count:
                    raise RuntimeError(f"damaged checkpoint: entry {name:.80} ends early")
                at += count
        return array

    def _mapped(self, info: zipfile.ZipInfo) -> Any:
        self.file.seek(info.header_offset)
        header = self.file.read(30)
        if len(header) < 30 or header[:4] != b"PK\x03\x04":
            raise RuntimeError("damaged checkpoint: an entry has no header")
        name_length, extra_length = struct.unpack("<HH", header[26:30])
        start = info.header_offset + 30 + name_length + extra_length
        assert self.map is not None
        if start + info.file_size > self.map.size:
            raise RuntimeError("damaged checkpoint: an entry reaches beyond the file")
        return np.asarray(self.map[start : start + info.file_size])


class PyTorchFileReader:
    """The entries of a checkpoint as bytes, for those who read it themselves."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._names = self._read(lambda archive: list(archive.entries))

    def _read(self, what: Callable[[_Archive], Any]) -> Any:
        if not isinstance(self._file, (str, os.PathLike)):
            return what(_Archive(self._file, None))
        with open(self._file, "rb") as file:
            return what(_Archive(file, None))

    def get_all_records(self) -> list[str]:
        return list(self._names)

    def has_record(self, name: str) -> bool:
        return name in self._names

    def get_record(self, name: str) -> Any:
        return self._read(lambda archive: archive.read(name))


def _load_archive(file: Any, place: Place, trusted: bool, options: dict[str, Any], mapped: str | None) -> Any:
    archive = _Archive(file, mapped)
    if "constants.pkl" in archive.entries:
        raise RuntimeError(
            "this is a TorchScript archive, which mindtorch_v2 cannot run; save the module's state_dict with torch.save"
        )
    text = archive.read("data.pkl")
    return _unpickle(text, 0, _archive_storages(archive, place, _byte_order(archive)), trusted, options)[0]


def _byte_order(archive: _Archive) -> str:
    """What the archive says of itself, else what `set_default_load_endianness` said, else this machine's."""
    if "byteorder" not in archive.entries:
        return load_byte_order()
    order = archive.read("byteorder").decode("latin1")
    if order not in ("little", "big"):
        raise ValueError(f"Unknown endianness type: {order[:40]!r}; a checkpoint's is 'little' or 'big'")
    return order


def _archive_storages(archive: _Archive, place: Place, order: str) -> Callable[[Any], LoadedStorage]:
    loaded: dict[str, LoadedStorage] = {}

    def find(pid: Any) -> LoadedStorage:
        kind, key, location, count = _fields(pid)
        if key not in loaded:
            array = _in_our_order(archive.array(f"data/{key}"), kind, order)
            if count * kind.dtype.itemsize > array.nbytes:
                raise RuntimeError(
                    f"damaged checkpoint: storage {key:.40} has {array.nbytes} bytes, {count} elements of {kind} were "
                    "announced"
                )
            loaded[key] = place(LoadedStorage(array, kind.dtype), location)
        found = loaded[key]
        return found if found.dtype is kind.dtype else LoadedStorage(found._owner, kind.dtype)

    return find


# --- the format before zip --------------------------------------------------------------------------------------------


def _load_legacy(data: bytes, place: Place, trusted: bool, options: dict[str, Any]) -> Any:
    def none(pid: Any) -> Any:
        raise pickle.UnpicklingError("damaged checkpoint: a storage in the header")

    magic, at = _header(data)
    if magic != MAGIC:
        raise pickle.UnpicklingError("Invalid magic number; corrupt file? Expected a checkpoint that torch.save wrote.")
    version, at = _unpickle(data, at, none, False, {})
    if version != PROTOCOL:
        raise pickle.UnpicklingError(f"Invalid protocol version: {version!r:.40}")
    about, at = _unpickle(data, at, none, False, {})
    order = "little" if not isinstance(about, dict) or about.get("little_endian", True) else "big"
    blocks: dict[str, LoadedStorage] = {}
    placed: dict[Any, LoadedStorage] = {}

    def find(pid: Any) -> Any:
        if isinstance(pid, tuple) and len(pid) > 1 and pid[0] == "module":
            return pid[1]
        return _legacy_storage(pid, blocks, placed, place, len(data))

    result, at = _unpickle(data, at, find, trusted, options)
    keys, at = _unpickle(data, at, none, False, {})
    _fill(data, at, keys, blocks, order)
    return result


def _header(data: bytes) -> tuple[Any, int]:
    try:
        return safe.load(data, 0, lambda pid: None)
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, struct.error, KeyError):
        raise pickle.UnpicklingError(
            "this is no checkpoint: neither a zip archive that torch.save wrote nor a file of its older format"
        ) from None


def _legacy_storage(
    pid: Any, blocks: dict[str, LoadedStorage], placed: dict[Any, LoadedStorage], place: Place, limit: int
) -> LoadedStorage:
    """A storage whose bytes follow after the pickle; `limit` is how many there can be."""
    kind, key, location, count = _fields(pid)
    if count * kind.dtype.itemsize > limit:
        raise pickle.UnpicklingError(f"damaged checkpoint: a storage of {count} elements in a file of {limit} bytes")
    if key not in blocks:
        blocks[key] = LoadedStorage(np.zeros(count * kind.dtype.itemsize, np.uint8), kind.dtype)
        placed[key] = place(blocks[key], location)
    whole = placed[key]
    part = pid[5] if len(pid) > 5 else None
    if part is None or whole.on_meta:
        return whole
    if not isinstance(part, tuple) or len(part) != 3 or not all(type(n) is int and n >= 0 for n in part[1:]):
        raise pickle.UnpicklingError(f"damaged checkpoint: unknown view {part!r:.80}")
    size = kind.dtype.itemsize
    return LoadedStorage(whole._owner[part[1] * size : (part[1] + part[2]) * size], kind.dtype)


def _fill(data: bytes, at: int, keys: Any, blocks: dict[str, LoadedStorage], order: str) -> None:
    """Read the bytes of each storage into its place."""
    if not isinstance(keys, list) or not all(isinstance(key, str) and key in blocks for key in keys):
        raise pickle.UnpicklingError("damaged checkpoint: it lists storages that it does not use")
    for key in keys:
        if at + 8 > len(data):
            raise EOFError("the checkpoint ends before its storages")
        storage = blocks[key]
        nbytes = storage._owner.size
        if struct.unpack_from("<q", data, at)[0] * storage.dtype.itemsize != nbytes or at + 8 + nbytes > len(data):
            raise pickle.UnpicklingError(f"damaged checkpoint: storage {key:.40} has another size than was said")
        raw = np.frombuffer(data, np.uint8, nbytes, at + 8)
        storage._owner[:] = _in_our_order(raw, StorageType("", storage.dtype), order)
        at += 8 + nbytes
