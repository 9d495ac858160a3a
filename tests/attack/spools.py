"""Changes spools as damage, mistakes and malice would, and reads them: what is intact comes back, or a clear error.

`python spools.py --seed N --seconds S`. Bits flipped, files cut, chunks swapped, repeated, dropped or put into each other, lengths
and counts changed, JSON replaced by other JSON, with checksums that are right: nothing may crash the reader, take it twenty
seconds or two gigabytes, or end in another error than a ValueError that names the file.
"""

import functools
import json
import random
import resource
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindtorch_v2 as torch
from children import PATIENCE_S, outcome
from mindtorch_v2 import nn
from mindtorch_v2.profiler import load, profile, record_function, schedule
from mindtorch_v2.profiler.analyse import memory
from mindtorch_v2.profiler.analyse.metrics import Metrics
from mindtorch_v2.profiler.capture import spoolfile
from mindtorch_v2.profiler.capture.spoolfile import MAGIC, framed
from mindtorch_v2.profiler.report import make_report
from options import attack_parser

_MOST_BYTES = 2 << 30
Chunk = tuple[bytes, bytes]
_VALUES: list[Any] = [
    None, True, 0, -1, 1, 7, 255, 1 << 31, 1 << 61, (1 << 63) - 1, 1 << 64, -(1 << 63), 1e308, "", "x", "\ud800", "a" * 5000,
    [], [[]], {}, [0] * 50, [1, [2, [3]]], {"window": 1}, {"tuple": [1]}, {"complex": [1, 2, 3]},
]  # fmt: skip


def make_spool(path: Path) -> None:
    """A spool with all sorts of chunks in it, and more than one of most."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters())
    flags = ("record_shapes", "with_stack", "profile_memory", "with_flops", "with_modules")
    options: dict[str, Any] = dict.fromkeys(flags, True)

    def step() -> None:
        with record_function("train", "an argument"):
            nn.functional.cross_entropy(model(torch.ones(3, 4)), torch.tensor([0, 1, 0])).backward()
            optimizer.step()
            optimizer.zero_grad()

    with profile(**options):  # so that all functions are there, and none is recorded while it is compiled
        step()
    prof = profile(**options, schedule=schedule(wait=0, warmup=1, active=2, repeat=2), spool=path, acc_events=True)
    with prof:
        prof.add_metadata("purpose", "an attack")
        for _ in range(6):
            step()
            prof.step()


def chunks_of(path: Path) -> list[Chunk]:
    with spoolfile.opened(path) as data:
        return [(frame.sort, frame.payload) for frame in spoolfile.frames(data) if frame.sort]


def joined(chunks: list[Chunk]) -> bytes:
    return MAGIC + b"".join(framed(sort, payload) for sort, payload in chunks)


# Mutations of bytes, and of chunks whose checksums are made anew


def flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 8, 64])):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def drop(data: bytes, chance: random.Random) -> bytes:
    low = chance.randrange(len(data))
    return data[:low] + data[low + chance.randrange(1, 200) :]


def zeros(data: bytes, chance: random.Random) -> bytes:
    low = chance.randrange(len(data))
    size = chance.choice([16, 4096, 1 << 20])
    return data[:low] + bytes(size) + data[low + (size if chance.random() < 0.5 else 0) :]


def marks(data: bytes, chance: random.Random) -> bytes:
    """Heads of chunks that are none, each of which claims a lot."""
    head = struct.pack("<4sBII", b"\xf5MTC", chance.choice(b"RMGHKO"), chance.choice([0, 13, 1 << 18, 1 << 27]), 0)
    low = chance.randrange(len(data))
    return data[:low] + head * chance.choice([1, 100, 50_000]) + data[low:]


def swapped(chunks: list[Chunk], chance: random.Random) -> list[Chunk]:
    changed = list(chunks)
    one, other = chance.randrange(len(changed)), chance.randrange(len(changed))
    changed[one], changed[other] = changed[other], changed[one]
    return changed


def repeated(chunks: list[Chunk], chance: random.Random) -> list[Chunk]:
    place = chance.randrange(len(chunks))
    return chunks[:place] + [chunks[place]] * chance.choice([2, 2, 50]) + chunks[place:]


def missing(chunks: list[Chunk], chance: random.Random) -> list[Chunk]:
    place = chance.randrange(len(chunks))
    return chunks[:place] + chunks[place + 1 :]


def shuffled(chunks: list[Chunk], chance: random.Random) -> list[Chunk]:
    return chance.sample(chunks, len(chunks))


def nested(chunks: list[Chunk], chance: random.Random) -> list[Chunk]:
    """A whole chunk, or a whole spool, in the place of a payload."""
    place = chance.randrange(len(chunks))
    inner = joined(chunks) if chance.random() < 0.3 else framed(*chance.choice(chunks))
    return [*chunks[:place], (chunks[place][0], inner), *chunks[place + 1 :]]


def relabelled(chunks: list[Chunk], chance: random.Random) -> list[Chunk]:
    place = chance.randrange(len(chunks))
    return [*chunks[:place], (bytes([chance.choice(b"HWOECXTKIFSRMGZ")]), chunks[place][1]), *chunks[place + 1 :]]


def packed(chunks: list[Chunk], chance: random.Random) -> list[Chunk]:
    """Counts, places, widths and bases of packed rows changed."""
    places = [place for place, (sort, _) in enumerate(chunks) if sort in b"RMG"]
    place = chance.choice(places)
    sort, payload = chunks[place]
    changed = bytearray(payload)
    at = chance.choice([0, 4, 8, 16, 20, 21 + 9 * chance.randrange(6), 29 + 9 * chance.randrange(6)])
    at = min(at, len(changed) - 8)
    form, value = chance.choice(
        [
            ("<Q", chance.choice([0, 1, 1 << 20, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])),
            ("<B", chance.randrange(256)),
        ]
    )
    struct.pack_into(form, changed, at, value)
    return [*chunks[:place], (sort, bytes(changed)), *chunks[place + 1 :]]


def rows_of_one_byte(chunks: list[Chunk], chance: random.Random) -> list[Chunk]:
    """As many rows as a chunk has bytes."""
    count = chance.choice([1, 1000, 300_000])
    heads = b"".join(struct.pack("<qB", chance.choice([0, 1, 1 << 40]), 1 if not number else 0) for number in range(6))
    payload = struct.pack("<IIQIB", 1, 1, chance.choice([0, 1 << 40]), count, 6) + heads + bytes(count)
    return [*chunks, (b"R", payload)]


def retold(chunks: list[Chunk], chance: random.Random) -> list[Chunk]:
    """Values in JSON replaced by others."""
    places = [place for place, (sort, _) in enumerate(chunks) if sort not in b"RMG"]
    place = chance.choice(places)
    sort, payload = chunks[place]
    try:
        said = json.loads(payload)
    except (ValueError, RecursionError):  # another change put something else there
        said = None
    for _ in range(chance.choice([1, 1, 3])):
        said = _with_another(said, chance)
    return [*chunks[:place], (sort, json.dumps(said).encode()), *chunks[place + 1 :]]


def _with_another(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        return {**value, key: _with_another(value[key], chance)} if chance.random() < 0.9 else {"other": value}
    if isinstance(value, list) and value and chance.random() < 0.9:
        place = chance.randrange(len(value))
        return [*value[:place], _with_another(value[place], chance), *value[place + 1 :]]
    return chance.choice(_VALUES)


def deep(chunks: list[Chunk], chance: random.Random) -> list[Chunk]:
    sort = bytes([chance.choice(b"HWOETKIFSX")])
    opening = chance.choice([b"[", b'{"a":'])
    return [*chunks, (sort, opening * 100_000)]


BYTES: list[Callable[[bytes, random.Random], bytes]] = [flip, flip, cut, drop, zeros, marks]
CHUNKS: list[Callable[[list[Chunk], random.Random], list[Chunk]]] = [
    swapped, repeated, missing, shuffled, nested, relabelled, packed, packed, packed, rows_of_one_byte, retold, retold,
    retold, retold, deep,
]  # fmt: skip


def mutated(whole: bytes, chunks: list[Chunk], chance: random.Random) -> tuple[str, bytes]:
    """A changed spool, and what was changed."""
    if chance.random() < 0.35:
        change = chance.choice(BYTES)
        return change.__name__, change(whole, chance)
    changes = chance.choices(CHUNKS, k=chance.choice([1, 1, 2]))
    for change_chunks in changes:
        chunks = change_chunks(chunks, chance)
    return "+".join(change.__name__ for change in changes), joined(chunks)


def read(path: Path) -> bool:
    """Read a spool and all that can be asked of it; whether it could be read. ValueErrors name the file."""
    try:
        found = load(path)
    except ValueError as error:
        if path.name not in str(error) and "allocations and frees" not in str(error):
            raise AssertionError(f"an error that does not name the file: {error}") from error
        return False
    if not found.notes:
        raise AssertionError("a spool without a note")
    found.key_averages(group_by_input_shape=True, group_by_stack_n=2)
    metrics = Metrics(found)
    memory.sums(memory.timeline(metrics))
    make_report(found)
    found.export(path.with_suffix(".json"))
    load(path.with_suffix(".json"))
    return True


def batch(path: Path, whole: bytes, chunks: list[Chunk], seeds: list[int]) -> None:
    """In a process of its own: read some changed spools, each with what it does said before."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES + (1 << 30), resource.RLIM_INFINITY))
    for seed in seeds:
        name, data = mutated(whole, chunks, random.Random(seed))
        print(f"{name} {seed}", flush=True)
        path.write_bytes(data)
        began = time.monotonic()
        read(path)
        if time.monotonic() - began > PATIENCE_S:
            raise AssertionError("it took too long")


def main(seed: int, seconds: float) -> int:
    """Change and read spools for so long; how many batches went wrong."""
    chance, deadline = random.Random(seed), time.monotonic() + seconds
    count = failures = 0
    with tempfile.TemporaryDirectory(prefix="spools-") as folder:
        whole_path, path = Path(folder, "whole.mtspool"), Path(folder, "changed.mtspool")
        make_spool(whole_path)
        whole, chunks = whole_path.read_bytes(), chunks_of(whole_path)
        while not count or time.monotonic() < deadline:
            seeds = [chance.randrange(1 << 30) for _ in range(20)]
            words = Path(folder, "words")
            work = functools.partial(batch, path, whole, chunks, seeds)
            wrong = outcome(work, words, len(seeds) * 5 + PATIENCE_S)
            count += len(seeds)
            if wrong:
                failures += 1
                print(f"spools: {wrong}", flush=True)
    print(f"spools: {count} changed spools from seed {seed}, {failures} batches went wrong", flush=True)
    return failures


if __name__ == "__main__":
    options = attack_parser(__doc__).parse_args()
    sys.exit(main(options.seed, options.seconds) > 0)
