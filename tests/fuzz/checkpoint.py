"""Fuzzes `torch.load`: the first byte says whether the rest is a file, the pickle of an archive, or one of the older format."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator

import fuzzing  # first: it says where the others are

# isort: split

import checkpoint_mutations
import checkpoints
import hostile_checkpoints
import mindtorch_v2 as torch

# Storages that pickles may name.
STORED = {f"data/{key}": bytes(64) for key in range(8)}


def one(data: bytes) -> None:
    how, rest = data[:1], data[1:]
    if how == b"z":
        rest = hostile_checkpoints.archive(rest, STORED)
    elif how == b"l":
        rest = hostile_checkpoints.legacy(rest)
    try:
        value = torch.load(io.BytesIO(rest))
    except checkpoints.EXPECTED as error:
        checkpoints.check_error(error)
        return
    checkpoints.use(value)


def begin() -> Iterator[bytes]:
    whole, older = checkpoint_mutations.sample(), checkpoint_mutations.sample(legacy=True)
    yield from (b"f" + whole, b"f" + older)
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        text = next(archive.read(name) for name in archive.namelist() if name.endswith("data.pkl"))
    yield from (b"z" + text[2:-1], b"l" + text[2:-1])
    yield from (b"z" + value for value in checkpoints.VALUES if len(value) < 300)
    for data in hostile_checkpoints.HOSTILE.values():
        if len(data) < 2000:
            yield b"f" + data


if __name__ == "__main__":
    fuzzing.watch("mindtorch_v2.serialization", "mindtorch_v2.core.brief", "zipfile")
    fuzzing.run(one, begin)
