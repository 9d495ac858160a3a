"""Numbers and tables in one compressed block: a JSON header, then integer columns byte plane by byte plane.

It knows arrays and bytes only, nothing of events. `static/data.js` reads what this writes.
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..export.texts import json_encoder


def _plain(value: Any) -> Any:
    """Numbers of NumPy as JSON's; anything else as text."""
    return value.item() if isinstance(value, np.generic) else str(value)


_json = json_encoder(separators=(",", ":"), default=_plain)


class Packer:
    """Collects columns; `packed` gives them and the header as base64 text."""

    def __init__(self) -> None:
        self._columns: dict[str, dict[str, Any]] = {}
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, name: str, values: NDArray[Any], *, delta: bool = False) -> None:
        """Add a column of whole numbers; `delta` keeps the steps from one to the next, which is best for times."""
        numbers = np.ascontiguousarray(values, np.int64)
        count = len(numbers)
        if delta:
            numbers = np.diff(numbers, prepend=np.int64(0))
        signed = bool(count) and int(numbers.min()) < 0
        if signed:
            # Zigzag: small numbers of either sign stay small.
            numbers = (numbers << 1) ^ (numbers >> 63)
        width = (int(numbers.max()).bit_length() + 7) // 8 if count else 0
        planes = numbers.view(np.uint8).reshape(count, 8)[:, :width].T
        data = np.ascontiguousarray(planes).tobytes()
        self._columns[name] = {
            "at": self._size,
            "count": count,
            "width": width,
            "delta": delta,
            "signed": signed,
        }
        self._parts.append(data)
        self._size += len(data)

    def packed(self, tables: dict[str, Any]) -> str:
        """The tables (as JSON has them) and all columns."""
        header = _json({**tables, "columns": self._columns}).encode()
        body = b"".join([len(header).to_bytes(4, "little"), header, *self._parts])
        return base64.b64encode(gzip.compress(body, 6, mtime=0)).decode("ascii")


def unpack(text: str) -> tuple[dict[str, Any], dict[str, NDArray[np.int64]]]:
    """What `Packer.packed` was given: tables and columns by name."""
    body = gzip.decompress(base64.b64decode(text))
    length = int.from_bytes(body[:4], "little")
    tables: dict[str, Any] = json.loads(body[4 : 4 + length])
    columns = {name: _column(body[4 + length :], row) for name, row in tables.pop("columns").items()}
    return tables, columns


def _column(data: bytes, row: dict[str, Any]) -> NDArray[np.int64]:
    count, width = row["count"], row["width"]
    planes = np.frombuffer(data, np.uint8, count * width, row["at"]).reshape(width, count)
    whole = np.zeros((count, 8), np.uint8)
    whole[:, :width] = planes.T
    numbers = whole.view(np.int64).reshape(count)
    if row["signed"]:
        numbers = (numbers >> 1) ^ -(numbers & 1)
    return np.cumsum(numbers) if row["delta"] else numbers
