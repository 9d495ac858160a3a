"""Fuzzes `profiler.api.recover` on spools. The input is a list of chunks (sort, length, payload) that are framed with right
checksums, so that the reader sees what is in them; if it begins with a spool's own mark it is a file as it is."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import fuzzing  # first: it says where the others are

# isort: split

import mindtorch_v2 as torch
import traces
from mindtorch_v2.profiler import profile, record_function, recover
from mindtorch_v2.profiler.capture import spoolfile

FOLDER = Path(tempfile.mkdtemp(prefix="fuzz-spool-"))
CHUNK = struct.Struct("<BH")


def framed(data: bytes) -> bytes:
    """The spool with these chunks."""
    if data.startswith(spoolfile.MAGIC):
        return data
    found, place = [spoolfile.MAGIC], 0
    while place + CHUNK.size <= len(data):
        sort, length = CHUNK.unpack_from(data, place)
        payload = data[place + CHUNK.size : place + CHUNK.size + length]
        head = spoolfile._HEAD.pack(spoolfile._MARK, sort, len(payload), spoolfile._checksum(sort, payload))
        found += [head, payload]
        place += CHUNK.size + length
    return b"".join(found)


def one(data: bytes) -> None:
    path = FOLDER / "run.mtspool"
    path.write_bytes(framed(data))
    try:
        found = recover(path)
    except ValueError as error:
        traces.check_message(str(error))
        return
    found.export(FOLDER / "out.json")
    traces.CHECKS[".json"](FOLDER / "out.json")


def begin() -> Iterator[bytes]:
    path = FOLDER / "seed.mtspool"
    for options in ({}, {"record_shapes": True, "with_stack": True, "profile_memory": True, "with_modules": True}):
        with profile(spool=path, **options), record_function("outer", "argument"):
            torch.ones(3, requires_grad=True).mul(2).sum().backward()
        yield path.read_bytes()
        with spoolfile.opened(path) as data:
            chunks = [(frame.sort, frame.payload) for frame in spoolfile.frames(data) if len(frame.payload) < 1 << 16]
        whole = [CHUNK.pack(sort[0], len(payload)) + payload for sort, payload in chunks]
        yield b"".join(whole)
        for place in range(1, len(whole)):
            yield b"".join(whole[:place])


if __name__ == "__main__":
    reading = ("spoolfile", "stored", "chunks", "tracks", "recover", "children", "trace")
    fuzzing.watch(*(f"mindtorch_v2.profiler.{module}" for module in reading))
    fuzzing.run(one, begin)
