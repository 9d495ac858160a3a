"""Switches of torch.serialization that programs set and read back, and how a storage finds its device."""

from __future__ import annotations

import contextlib
import enum
import sys
from collections.abc import Iterator
from mmap import MAP_PRIVATE
from typing import Any


class LoadEndianness(enum.Enum):
    """The order of bytes that files without a mark are read in."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_values: dict[str, Any] = {"endianness": None, "crc32": True, "mmap": MAP_PRIVATE}


def get_default_load_endianness() -> LoadEndianness | None:
    return _values["endianness"]


def set_default_load_endianness(endianness: Any) -> None:
    """Say what order of bytes files have that carry no mark of theirs."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(f"Invalid argument type in function set_default_load_endianness: {type(endianness).__name__}")
    _values["endianness"] = endianness


def load_byte_order() -> str:
    """The order of bytes of files without a mark, by its name."""
    default = get_default_load_endianness()
    return sys.byteorder if default in (None, LoadEndianness.NATIVE) else default.name.lower()


def get_crc32_options() -> bool:
    return bool(_values["crc32"])


def set_crc32_options(compute_crc32: bool) -> None:
    """Remember whether checksums are wanted; files always have them."""
    _values["crc32"] = compute_crc32


def get_default_mmap_options() -> int:
    return int(_values["mmap"])


@contextlib.contextmanager
def set_default_mmap_options(flags: int) -> Iterator[None]:
    """Remember how files are mapped; they are mapped for this process alone."""
    before = _values["mmap"]
    _values["mmap"] = flags
    try:
        yield
    finally:
        _values["mmap"] = before


def location_tag(storage: Any) -> str:
    """The device a storage would be saved with."""
    return str(storage.device)


def default_restore_location(storage: Any, location: str) -> Any:
    """A storage on the device it was saved from: the CPU, or an error that names the way to load it here."""
    kind = location.partition(":")[0]
    if kind in ("cpu", "meta"):
        return storage
    raise RuntimeError(
        f"Attempting to deserialize object on a {kind.upper()} device but torch.cuda.is_available() is False. If you are "
        "running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages "
        "to the CPU."
    )
