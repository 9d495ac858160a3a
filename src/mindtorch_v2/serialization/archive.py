"""Checkpoints as zip archives: their entries, read without trust in what the archive says of itself."""

from __future__ import annotations

import contextlib
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..core.brief import brief, brief_text

# What every element begins at a multiple of.
_ALIGNED = 16


@contextlib.contextmanager
def _zip_errors() -> Iterator[None]:
    """What zipfile raises for damaged archives, as one exception that says so."""
    try:
        yield
    except (
        zipfile.BadZipFile,
        OSError,
        EOFError,
        NotImplementedError,
        ValueError,
        OverflowError,
        LookupError,
    ) as error:
        raise RuntimeError(f"damaged checkpoint: {brief_text(str(error))}") from error
    except (struct.error, zlib.error) as error:
        raise RuntimeError(f"damaged checkpoint: {brief_text(str(error))}") from error


class Archive:
    """The entries of a checkpoint, without the folder they all lie in."""

    def __init__(self, file: Any, mapped: str | None) -> None:
        self.file = file
        with _zip_errors():
            self.zip = zipfile.ZipFile(file)
        self.entries: dict[str, zipfile.ZipInfo] = {}
        for info in self.zip.infolist():
            self.entries[info.filename.partition("/")[2]] = info
        self.size = file.seek(0, os.SEEK_END)
        if sum(info.file_size for info in self.entries.values()) > self.size:
            raise RuntimeError("damaged checkpoint: its entries are larger than the file, or lie in each other")
        self.map = np.memmap(mapped, np.uint8, "c") if mapped is not None else None

    def _info(self, name: str) -> zipfile.ZipInfo:
        info = self.entries.get(name)
        if info is None:
            raise RuntimeError(f"damaged checkpoint: the archive has no entry {brief(name)}")
        if info.compress_type != zipfile.ZIP_STORED:
            raise RuntimeError(
                f"entry {brief(name)} of the archive is compressed, which torch.save never does; unpack the archive and "
                "pack it again without compression (zip -0)"
            )
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
                    raise RuntimeError(f"damaged checkpoint: entry {brief(name)} ends early")
                at += count
        return array

    def _mapped(self, info: zipfile.ZipInfo) -> Any:
        with _zip_errors():
            self.file.seek(info.header_offset)
            header = self.file.read(30)
        if len(header) < 30 or header[:4] != b"PK\x03\x04":
            raise RuntimeError("damaged checkpoint: an entry has no header")
        name_length, extra_length = struct.unpack("<HH", header[26:30])
        start = info.header_offset + 30 + name_length + extra_length
        assert self.map is not None
        if start + info.file_size > self.map.size:
            raise RuntimeError("damaged checkpoint: an entry reaches beyond the file")
        found = np.asarray(self.map[start : start + info.file_size])
        # torch aligns its entries; others may not, and computing needs elements where the machine reads them.
        return found if start % _ALIGNED == 0 else found.copy()


class PyTorchFileReader:
    """The entries of a checkpoint as bytes, for those who read it themselves."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._names = self._read(lambda archive: list(archive.entries))

    def _read(self, what: Callable[[Archive], Any]) -> Any:
        if not isinstance(self._file, (str, os.PathLike)):
            return what(Archive(self._file, None))
        with open(self._file, "rb") as file:
            return what(Archive(file, None))

    def get_all_records(self) -> list[str]:
        return list(self._names)

    def has_record(self, name: str) -> bool:
        return name in self._names

    def get_record(self, name: str) -> Any:
        return self._read(lambda archive: archive.read(name))
