"""torch.serialization: saving to and loading from torch's checkpoint files."""

from .names import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from .options import (
    LoadEndianness,
    default_restore_location,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    location_tag,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
)
from .reading import PyTorchFileReader, load
from .writing import save

__all__ = [
    "LoadEndianness",
    "PyTorchFileReader",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "load",
    "location_tag",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
]
