"""torch.load: reads checkpoints of torch's zip format and of the one before it.

It owns opening files, finding storages and placing them on devices; what pickles may contain is decided in `safe`.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import device
from ..core.brief import brief, brief_text
from ..core.meta import meta
from . import names, safe
from .archive import Archive, PyTorchFileReader
from .limits import Hostile, Refused
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


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "0").lower() in ("1", "y", "yes", "true")


def _weights_only(given: bool | None, pickle_module: Any) -> bool:
    """Whether the file is not to be trusted: what the call says, unless one of torch's variables overrules it."""
    forced, freed = _is_set("TORCH_FORCE_WEIGHTS_ONLY_LOAD"), _is_set("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    if forced and freed:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set, but both "
            "were set."
        )
    wanted = forced or (pickle_module is None if given is None else bool(given))
    if freed and given is None:
        warnings.warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the`weights_only` argument was not "
            "explicitly passed to `torch.load`, forcing weights_only=False.",
            UserWarning,
            stacklevel=3,
        )
        wanted = False
    if wanted and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    return wanted


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
    if isinstance(map_location, (str, device.device)):
        target = str(device.device(map_location))
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
        f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {brief_text(location, 80)}); use "
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


# What reading a damaged pickle can end in besides a refusal.
_MALFORMED = (TypeError, ValueError, OverflowError, struct.error, LookupError, AttributeError, RecursionError)


def _unpickle(
    data: bytes, start: int, find: Callable[[Any], Any], trusted: bool, options: Any, file_size: int | None = None
) -> tuple[Any, int]:
    """The object pickled at `start`, and where its pickle ends."""
    if trusted:
        file = io.BytesIO(data)
        file.seek(start)
        return _Trusting(file, find, options).load(), file.tell()
    try:
        return safe.load(data, start, find, file_size)
    except Hostile as error:
        raise pickle.UnpicklingError(f"damaged or hostile checkpoint: {error}") from None
    except Refused as error:
        raise pickle.UnpicklingError(_FAILED + str(error)) from None
    except _MALFORMED as error:
        raise pickle.UnpicklingError(f"damaged checkpoint: {brief_text(str(error))}") from error


def _fields(pid: Any) -> tuple[StorageType, str, str, int]:
    """The parts of a persistent id, checked."""
    if not isinstance(pid, tuple) or len(pid) < 5 or type(pid[0]) is not str or pid[0] != "storage":
        raise pickle.UnpicklingError(f"damaged checkpoint: unknown persistent id {brief(pid)}")
    kind, key, location, count = pid[1:5]
    if not isinstance(kind, StorageType) or not isinstance(key, str) or not isinstance(location, str):
        raise pickle.UnpicklingError(f"damaged checkpoint: unknown storage {brief(pid)}")
    if type(count) is not int or not 0 <= count < 2**62:
        raise pickle.UnpicklingError(f"damaged checkpoint: a storage of {brief(count)} elements")
    return kind, key, location, count


def _in_our_order(array: Any, kind: StorageType, order: str) -> Any:
    """Bytes in this machine's order."""
    if order == sys.byteorder:
        return array
    unit = kind.dtype.itemsize // 2 if kind.dtype.is_complex else kind.dtype.itemsize
    return array if unit == 1 else array.view(f"u{unit}").byteswap().view(np.uint8)


# --- the zip format ---------------------------------------------------------------------------------------------------


def _load_archive(file: Any, place: Place, trusted: bool, options: dict[str, Any], mapped: str | None) -> Any:
    archive = Archive(file, mapped)
    if "constants.pkl" in archive.entries:
        raise RuntimeError(
            "this is a TorchScript archive, which mindtorch_v2 cannot run; save the module's state_dict with torch.save"
        )
    if "data.pkl" not in archive.entries and ".data/extern_modules" in archive.entries:
        raise RuntimeError(
            "this is an archive of torch.package, which mindtorch_v2 cannot run; save the module's state_dict with "
            "torch.save"
        )
    text = archive.read("data.pkl")
    find = _archive_storages(archive, place, _byte_order(archive))
    return _unpickle(text, 0, find, trusted, options, archive.size)[0]


def _byte_order(archive: Archive) -> str:
    """What the archive says of itself, else what `set_default_load_endianness` said, else this machine's."""
    if "byteorder" not in archive.entries:
        return load_byte_order()
    order = archive.read("byteorder").decode("latin1")
    if order not in ("little", "big"):
        raise ValueError(f"Unknown endianness type: {order[:40]!r}; a checkpoint's is 'little' or 'big'")
    return order


def _archive_storages(archive: Archive, place: Place, order: str) -> Callable[[Any], LoadedStorage]:
    loaded: dict[str, LoadedStorage] = {}

    def find(pid: Any) -> LoadedStorage:
        kind, key, location, count = _fields(pid)
        if key not in loaded:
            array = _in_our_order(archive.array(f"data/{key}"), kind, order)
            if count * kind.dtype.itemsize > array.nbytes:
                raise RuntimeError(
                    f"damaged checkpoint: storage {brief(key)} has {array.nbytes} bytes, {count} elements of {kind} were "
                    "announced"
                )
            loaded[key] = place(LoadedStorage(array, kind.dtype), location)
        found = loaded[key]
        return found.as_type(kind.dtype) if isinstance(found, LoadedStorage) else found

    return find


# --- the format before zip --------------------------------------------------------------------------------------------


def _load_legacy(data: bytes, place: Place, trusted: bool, options: dict[str, Any]) -> Any:
    def none(pid: Any) -> Any:
        raise pickle.UnpicklingError("damaged checkpoint: a storage in the header")

    magic, at = _header(data)
    if type(magic) is not int or magic != MAGIC:
        raise pickle.UnpicklingError("Invalid magic number; corrupt file? Expected a checkpoint that torch.save wrote.")
    version, at = _unpickle(data, at, none, False, {})
    if type(version) is not int or version != PROTOCOL:
        raise pickle.UnpicklingError(f"Invalid protocol version: {brief(version)}")
    about, at = _unpickle(data, at, none, False, {})
    order = "big" if isinstance(about, dict) and about.get("little_endian", True) is False else "little"
    storages = _LegacyStorages(place, len(data))

    def find(pid: Any) -> Any:
        if isinstance(pid, tuple) and len(pid) > 1 and type(pid[0]) is str and pid[0] == "module":
            return pid[1]
        return storages.find(pid)

    result, at = _unpickle(data, at, find, trusted, options)
    keys, at = _unpickle(data, at, none, False, {})
    storages.fill(data, at, keys, order)
    return result


def _header(data: bytes) -> tuple[Any, int]:
    try:
        return safe.load(data, 0, lambda pid: None)
    except (pickle.UnpicklingError, EOFError, RuntimeError, *_MALFORMED):
        if data[257:262] == b"ustar":
            raise RuntimeError(
                "this file has torch's tar format of before version 0.1.10; load it with torch and save it again"
            ) from None
        raise pickle.UnpicklingError(
            "this is no checkpoint: neither a zip archive that torch.save wrote nor a file of its older format"
        ) from None


class _LegacyStorages:
    """The storages of a file whose bytes follow after the pickle; together they are no larger than the file."""

    def __init__(self, place: Place, limit: int) -> None:
        self._place, self._limit, self._left = place, limit, limit
        # By key: as they will be read, and where they go.
        self._blocks: dict[str, LoadedStorage] = {}
        self._placed: dict[str, LoadedStorage] = {}

    def find(self, pid: Any) -> Any:
        """The storage of a persistent id, or the part of it that the id names."""
        kind, key, location, count = _fields(pid)
        if key not in self._blocks:
            self._left -= count * kind.dtype.itemsize
            if self._left < 0:
                raise pickle.UnpicklingError(
                    f"damaged checkpoint: a storage of {count} elements of {kind} in a file of {self._limit} bytes"
                )
            self._blocks[key] = LoadedStorage(np.zeros(count * kind.dtype.itemsize, np.uint8), kind.dtype)
            self._placed[key] = self._place(self._blocks[key], location)
        whole = self._placed[key]
        part = pid[5] if len(pid) > 5 else None
        if part is None or whole.on_meta:
            return whole
        if (
            not isinstance(part, tuple)
            or len(part) != 3
            or not all(type(n) is int and 0 <= n < 2**62 for n in part[1:])
        ):
            raise pickle.UnpicklingError(f"damaged checkpoint: unknown view {brief(part)}")
        return whole.as_type(kind.dtype).part(part[1], part[1] + part[2])

    def fill(self, data: bytes, at: int, keys: Any, order: str) -> None:
        """Read the bytes of each storage into its place."""
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise pickle.UnpicklingError("damaged checkpoint: it does not list its storages")
        if set(keys) != self._blocks.keys():
            raise pickle.UnpicklingError("damaged checkpoint: it lists other storages than it uses")
        for key in keys:
            if at + 8 > len(data):
                raise EOFError("the checkpoint ends before its storages")
            storage = self._blocks[key]
            nbytes = storage._owner.size
            if struct.unpack_from("<q", data, at)[0] * storage.dtype.itemsize != nbytes or at + 8 + nbytes > len(data):
                raise pickle.UnpicklingError(f"damaged checkpoint: storage {brief(key)} has another size than was said")
            raw = np.frombuffer(data, np.uint8, nbytes, at + 8)
            storage.fill(_in_our_order(raw, StorageType("", storage.dtype), order))
            at += 8 + nbytes


__all__ = ["PyTorchFileReader", "load", "placement"]
