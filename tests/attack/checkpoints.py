"""Checkpoints whose pickles are changed opcode by opcode, so that the unpickler sees damage that makes sense.

    python tests/attack/checkpoints.py [--seed N] [--seconds S]

A finding is anything but the errors that `torch.load` documents, code that a file could run, a result that cannot be
used or saved again, or more than a few seconds. A file that takes for ever ends the process with its stack. Each finding
names the seed and number that repeat it.
"""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import io
import itertools
import pickletools
import random
import resource
import struct
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1] / "mindtorch_v2"))

import checkpoint_mutations  # noqa: E402
import hostile_checkpoints as hostile  # noqa: E402
import mindtorch_v2 as torch  # noqa: E402
from options import run_files  # noqa: E402

SLOW_S, HANGING_S, MOST_BYTES = 5.0, 20.0, 4 << 30
# What a load may raise; of the first ValueErrors of its own: an order of bytes that is none.
EXPECTED = (*checkpoint_mutations.EXPECTED, ValueError)
_ELEMENTS = 100_000
_FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "subprocess.Popen",
    "os.remove",
    "os.rename",
    "socket.connect",
    "pty.spawn",
)
ALLOWED = [name.encode().rpartition(b".")[::2] for name in torch.serialization.names.SAFE]
REFUSED = [
    (b"builtins", b"exec"), (b"builtins", b"eval"), (b"os", b"system"), (b"__builtin__", b"getattr"), (b"torch", b"load"),
    (b"numpy", b"zeros"), (b"torch.nn", b"Linear"), (b"mindtorch_v2", b"load"), (b"builtins", b"list"), (b"builtins", b"type"),
]  # fmt: skip
CODE = hostile.text(b"import builtins; builtins.ATTACKED = True") + b"\x85R"
# Values by their opcodes, each of which pushes one.
VALUES: list[bytes] = [
    b"N", b"\x88", b"\x89", b"K\x00", b"K\x01", b"K\xff", b"J\xff\xff\xff\xff", hostile.number(1 << 40), hostile.number(-1),
    b"\x8a\x10" + bytes(15) + b"\x40", b"\x8b" + struct.pack("<i", 3000) + b"\x7f" * 3000, b"G" + struct.pack(">d", float("nan")),
    b"G" + struct.pack(">d", 1e300), hostile.text(b""), hostile.text(b"storage"), hostile.text(b"cpu"), hostile.text(b"cuda:0"),
    hostile.text(b"x" * 5000), hostile.text(b"\x1b[2J"), hostile.text(b"torch.sparse_coo"), hostile.text(b"_metadata"),
    hostile.text(b"\xed\xa0\x80"), b"B\x03\x00\x00\x00abc", b"]", b"}", b")", b"\x8f", b"(\x91", b"]q\x63h\x63a",
    b"K\x01\x85", b"K\x02K\x03\x86", b"(K\x01K\x01K\x01K\x01t", hostile.number(1 << 61) + b"\x85", hostile.SHARED,
    b")" + b"\x85" * 2000, b"](" + b"K\x01" * 100 + b"e", b"}K\x01K\x02s", hostile.tensor(), hostile.storage(),
    hostile.tensor(b"K\x00\x85"), hostile.tensor(hostile.number(1 << 40) + b"\x85", b"K\x00\x85"),
    hostile.storage(4, b"ctorch\nBoolStorage\n"), hostile.storage(2, b"ctorch\nComplexFloatStorage\n"), hostile.LAYOUT,
    *(b"c%b\n%b\n" % pair for pair in ALLOWED[:12]), b"cbuiltins\nexec\n" + CODE, b"cbuiltins\neval\n",
]  # fmt: skip
BARE = [bytes([code]) for code in b"(012NR]}tqab)Q\x81\x85\x86\x87\x88\x89\x90\x91\x93\x94seudl\x8f"]


def _opcodes(text: bytes) -> list[bytes]:
    """The pickle, opcode by opcode."""
    places = [at for _, _, at in pickletools.genops(text) if at is not None]
    return [text[low:high] for low, high in zip(places, [*places[1:], len(text)])]


def _changed(piece: bytes, draw: random.Random) -> bytes:
    """An opcode like this one."""
    code = piece[:1]
    if code == b"c":
        return b"c%b\n%b\n" % draw.choice(ALLOWED if draw.random() < 0.7 else REFUSED)
    if code in b"KMJ\x8aGX\x8cBCN\x88\x89":
        return draw.choice(VALUES)
    if code in b"qh":
        return code + bytes([draw.randrange(32)])
    return draw.choice(BARE)


def mutate(text: bytes, draw: random.Random) -> bytes:
    """The pickle with a few opcodes changed, dropped, doubled, moved or added."""
    pieces = _opcodes(text)
    for _ in range(draw.choice((1, 1, 2, 3, 5))):
        at = draw.randrange(1, len(pieces))
        kind = draw.randrange(8)
        if kind <= 2:
            pieces[at] = _changed(pieces[at], draw)
        elif kind == 3:
            pieces.insert(at, draw.choice(VALUES))
        elif kind == 4:
            pieces.insert(at, draw.choice(BARE))
        elif kind == 5:
            del pieces[at : at + draw.randint(1, 3)]
        elif kind == 6:
            end = at + draw.randint(1, 20)
            pieces[at:at] = pieces[at:end] * draw.randint(1, 3)
        else:
            other = draw.randrange(1, len(pieces))
            pieces[at], pieces[other % len(pieces)] = pieces[other % len(pieces)], pieces[at]
        if len(pieces) < 2:
            break
    return b"".join(pieces)


def _packed(entries: dict[str, bytes], draw: random.Random) -> bytes:
    """An archive of these entries, a few of which may be wrong."""
    if draw.random() < 0.1:
        name = draw.choice(list(entries))
        change = draw.randrange(4)
        if change == 0:
            del entries[name]
        elif change == 1:
            entries[name] = entries[name][: draw.randrange(len(entries[name]) + 1)]
        elif change == 2:
            entries["archive/byteorder"] = draw.choice((b"big", b"middle", b"", b"little\n"))
        else:
            entries[name] += bytes(draw.randrange(5000))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED if draw.random() < 0.01 else zipfile.ZIP_STORED) as made:
        for name, data in entries.items():
            made.writestr(name, data)
    data = bytearray(buffer.getvalue())
    for _ in range(draw.choice((*[0] * 20, 1, 4))):
        data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


def files(seed: int) -> Iterator[bytes]:
    """Endless mutated checkpoints, the same for the same seed: archives, and files of the older format in between."""
    draw = random.Random(seed)
    with zipfile.ZipFile(io.BytesIO(checkpoint_mutations.sample())) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    (name,) = (name for name in entries if name.endswith("data.pkl"))
    older = checkpoint_mutations.sample(legacy=True)
    cuts = [0]
    for _ in range(5):
        cuts.append(cuts[-1] + next(at for op, _, at in pickletools.genops(older[cuts[-1] :]) if op.name == "STOP") + 1)
    parts = [older[low:high] for low, high in itertools.pairwise(cuts)]
    while True:
        if draw.random() < 0.75:
            yield _packed({**entries, name: mutate(entries[name], draw)}, draw)
        else:
            which = draw.choice((0, 1, 2, 3, 3, 3, 3, 4))
            yield b"".join([*parts[:which], mutate(parts[which], draw), *parts[which + 1 :], older[cuts[-1] :]])


# --- what is done with them -------------------------------------------------------------------------------------------


def _tensors(value: Any, found: list[Any] | None = None) -> list[Any]:
    """Tensors among the first few thousand parts of a value."""
    found, pending, seen = [] if found is None else found, [value], 0
    while pending and seen < 2000:
        part = pending.pop()
        seen += 1
        if isinstance(part, torch.Tensor):
            found.append(part)
        elif isinstance(part, dict):
            pending.extend(list(part.values())[:100])
        elif isinstance(part, (list, tuple)):
            pending.extend(part[:100])
    return found


def use(value: Any) -> None:
    """Compute with the tensors of a result; a hostile one must not crash what comes after the load."""
    for t in _tensors(value):
        if t.layout is not torch.strided or t.is_meta or t.numel() > _ELEMENTS:
            continue
        with contextlib.suppress(RuntimeError, TypeError, NotImplementedError, ValueError):
            t.clone().sum()
        if t.dtype is torch.bool and t.dim() == 1:
            t.nonzero()
            torch.arange(t.numel())[t]
        str(t)


def try_file(data: bytes, folder: Path, mapped: bool) -> bool:
    """Whether a checkpoint could be loaded. Anything wrong is raised."""
    try:
        if mapped:
            path = folder / "file.pt"
            path.write_bytes(data)
            value = torch.load(path, mmap=True)
        else:
            value = torch.load(io.BytesIO(data))
    except EXPECTED as error:
        check_error(error)
        return False
    use(value)
    return True


def check_error(error: BaseException) -> None:
    text = str(error)
    assert not isinstance(error, ValueError) or "endianness" in text, f"a ValueError: {text[:200]}"
    assert len(text) < 3000, "a long error"
    assert "\x1b" not in text, "an error with control characters"


_watching: list[str] = []


def _watch(event: str, _: Any) -> None:
    if _watching and event in _FORBIDDEN:
        _watching.append(event)


def main(seed: int = 0, seconds: float = 60.0, only: int | None = None, most: int = 20) -> list[str]:
    """Attack for so many seconds; what was found, a text each."""
    findings: list[str] = []
    sys.addaudithook(_watch)
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, before[1]))
    end, tried, loaded = time.monotonic() + seconds, 0, 0
    try:
        with tempfile.TemporaryDirectory() as name:
            for number, data in enumerate(files(seed)):
                if time.monotonic() > end or len(findings) >= most or (only is not None and number > only):
                    break
                if only is not None and number != only:
                    continue
                began, tried = time.monotonic(), tried + 1
                faulthandler.dump_traceback_later(HANGING_S, exit=True)
                _watching[:] = ["on"]
                try:
                    loaded += try_file(data, Path(name), number % 5 == 0)
                    assert _watching == ["on"], f"the file did {_watching[1:]}"
                    assert not hasattr(builtins, "ATTACKED"), "the file ran code"
                except Exception:
                    text = traceback.format_exc(limit=-6, chain=False)[-2000:]
                    findings.append(f"checkpoint {number} of seed {seed}:\n{text}")
                    Path(tempfile.gettempdir(), f"checkpoint_{seed}_{number}.pt").write_bytes(data)
                finally:
                    _watching.clear()
                    faulthandler.cancel_dump_traceback_later()
                if time.monotonic() - began > SLOW_S:
                    findings.append(f"checkpoint {number} of seed {seed} took {time.monotonic() - began:.1f} s")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    print(f"checkpoints: seed {seed}, {tried} tried, {loaded} loaded, {len(findings)} findings")
    return findings


if __name__ == "__main__":
    run_files(__doc__, main)
