"""Damaged checkpoints: files with a few bytes of a good one changed, cut, doubled or moved, by a seeded generator."""

import io
import pickle
import random
import zipfile
from collections import OrderedDict
from collections.abc import Iterator

import mindtorch_v2 as torch

# What a load may raise for a damaged file; anything else is a bug.
EXPECTED = (pickle.UnpicklingError, RuntimeError, EOFError)


def sample(legacy: bool = False) -> bytes:
    """A checkpoint with most of what checkpoints hold."""
    x = torch.arange(6.0).reshape(2, 3)
    state = OrderedDict(weight=x, bias=x.t(), half=torch.ones(3, dtype=torch.bfloat16))
    held = {"model": state, "step": 3, "lr": [0.1, (None, True)], "size": torch.Size([1, 2]), "names": {"a", "b"}}
    held |= {"graph": torch.eye(2).to_sparse(), "rows": torch.eye(2).to_sparse_csr()}
    buffer = io.BytesIO()
    torch.save(held, buffer, _use_new_zipfile_serialization=not legacy)
    return buffer.getvalue()


def _mutate(data: bytearray, draw: random.Random) -> bytes:
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(data))
        kind = draw.randrange(5)
        if kind == 0:
            data[at] = draw.randrange(256)
        elif kind == 1:
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 2:
            del data[at : at + draw.randint(1, 8)]
        elif kind == 3:
            data[at:at] = bytes(draw.randrange(256) for _ in range(draw.randint(1, 8)))
        else:
            other = draw.randrange(len(data))
            data[at : at + 4] = data[other : other + 4]
    return bytes(data)


def _repacked(archive: bytes, draw: random.Random) -> bytes:
    """The archive with its pickle damaged but its checksums right, so that the unpickler sees the damage."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(buffer, "w") as made:
        for name in old.namelist():
            data = old.read(name)
            made.writestr(name, _mutate(bytearray(data), draw) if name.endswith("data.pkl") else data)
    return buffer.getvalue()


def mutations(count: int, seed: int) -> Iterator[bytes]:
    """`count` damaged files: whole archives, pickles inside archives, and files of the older format by turns."""
    draw = random.Random(seed)
    archive, legacy = sample(), sample(legacy=True)
    for number in range(count):
        if number % 3 == 0:
            yield _mutate(bytearray(archive), draw)
        elif number % 3 == 1:
            yield _repacked(archive, draw)
        else:
            yield _mutate(bytearray(legacy), draw)


def load_damaged(data: bytes) -> bool:
    """Load a damaged file; whether it could be loaded all the same. Errors that are not expected come out of it."""
    try:
        torch.load(io.BytesIO(data))
    except EXPECTED:
        return False
    return True
