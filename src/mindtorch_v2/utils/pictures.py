"""Pixels as PNG files, and the edges of histograms: what event files show. It does not know event files."""

from __future__ import annotations

import io
import math
import struct
import zlib
from typing import Any

import numpy as np


def laid_out(pixels: np.ndarray[Any, Any], formats: str) -> np.ndarray[Any, Any]:
    """Rows, columns, three (or four) channels; several pictures become one row of them."""
    if len(formats) != pixels.ndim or len(set(formats)) != len(formats) or not set("HW") <= set(formats) <= set("NCHW"):
        raise ValueError(f"size of input tensor and input format are different: {pixels.shape} and {formats!r}")
    if "N" in formats:
        pixels = np.moveaxis(pixels, formats.index("N"), 0)
        rest = formats.replace("N", "")
        return np.concatenate([laid_out(one, rest) for one in pixels], axis=1)
    order = [formats.index(letter) for letter in "HWC" if letter in formats]
    pixels = pixels.transpose(order)
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    """Pixels as a PNG file: eight bits a channel, no filter."""
    height, width, channels = pixels.shape
    if channels not in (3, 4):
        raise ValueError(f"a picture has 1, 3 or 4 channels, got {channels}")
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 6, 0, 0, 0)
    file = io.BytesIO()
    file.write(b"\x89PNG\r\n\x1a\n")
    for kind, body in ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b"")):
        file.write(struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)))
    return file.getvalue()


def default_edges() -> np.ndarray[Any, Any]:
    """Edges that grow by a tenth, to both sides of zero."""
    grown = 1e-12 * 1.1 ** np.arange(775)
    return np.concatenate([-grown[::-1], [0.0], grown])


def on_a_square(pictures: Any) -> Any:
    """Pictures (`NCHW`, from 0 to 1) in rows of as many as there are rows, on a square as wide as a row."""
    count, channels, height, width = pictures.shape
    side = math.ceil(math.sqrt(count))
    cells = np.zeros((side * side, channels, height, width))
    cells[:count] = pictures
    grid = cells.reshape(side, side, channels, height, width).transpose(0, 3, 1, 4, 2)
    square = np.zeros((side * max(height, width), side * max(height, width), channels))
    square[: side * height, : side * width] = grid.reshape(side * height, side * width, channels)
    return np.clip(square * 255, 0, 255).astype(np.uint8)
