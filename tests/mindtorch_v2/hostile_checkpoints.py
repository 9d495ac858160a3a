"""Checkpoints that somebody made to harm whoever loads them: small files that would take memory, time or the process.

Each is built by hand from pickle opcodes; `HOSTILE` holds them by name.
"""

import io
import pickle
import struct
import zipfile
from collections.abc import Mapping

MEMO, GET = b"q\x01", b"h\x01"  # put the top of the stack at place 1; get it from there
MARK, TUPLE, REDUCE, BUILD, STOP = b"(", b"t", b"R", b"b", b"."
FLOATS = b"ctorch\nFloatStorage\n"
REBUILD = b"ctorch._utils\n_rebuild_%b\n"
LAYOUT = b"ctorch.serialization\n_get_layout\n" + b"X\x10\x00\x00\x00torch.sparse_coo" + b"\x85R"
ORDERED = b"ccollections\nOrderedDict\n"
# 26 tuples, each twice in the next: 2**26 when they are written out.
SHARED = b")" + b"q\x07h\x07\x86" * 26
DEEP = b")" + b"\x85" * 150_000


def archive(text: bytes, entries: Mapping[str, bytes] | None = None) -> bytes:
    """A checkpoint whose pickle is `text`, with other entries beside it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("archive/data.pkl", b"\x80\x02" + text + STOP)
        for name, data in (entries or {}).items():
            made.writestr(f"archive/{name}", data)
    return buffer.getvalue()


def number(value: int) -> bytes:
    return b"\x8a\x08" + struct.pack("<q", value)


def text(value: bytes) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value


def storage(count: int = 4, kind: bytes = FLOATS, key: bytes = b"0") -> bytes:
    return MARK + text(b"storage") + kind + text(key) + text(b"cpu") + number(count) + TUPLE + b"Q"


def tensor(size: bytes = b"K\x04\x85", stride: bytes = b"K\x01\x85", held: bytes | None = None) -> bytes:
    """The opcodes of a tensor; sizes and strides are opcodes as well."""
    return (
        REBUILD % b"tensor_v2" + MARK + (held or storage()) + b"K\x00" + size + stride + b"\x89" + b"N" + TUPLE + REDUCE
    )


def called(function: bytes, *args: bytes) -> bytes:
    return function + MARK + b"".join(args) + TUPLE + REDUCE


def repeated(function: bytes, args: bytes, times: int = 100_000) -> bytes:
    """One call many times, with arguments that are made once: five bytes each."""
    return function + b"q\x02" + args + b"q\x03" + b"h\x02h\x03R0" * times + b"N"


STORED = {"data/0": bytes(16)}
LONG_LIST = b"](" + b"N" * 100_000 + b"e"
LONG_DICT = b"}(" + b"".join(text(b"%d" % n) + b"N" for n in range(50_000)) + b"u"
LARGE_NUMBER = b"\x8b" + struct.pack("<i", 1_000_000) + b"\x01" * 1_000_000
NAMES = b"tensor tensor_v2 tensor_v3 meta_tensor_no_storage device_tensor_from_numpy device_tensor_from_cpu_tensor"


def _same_hash(count: int, then: bytes = b"") -> bytes:
    """Numbers whose hash is 0, all of them, each followed by something."""
    modulus = (1 << 61) - 1
    return b"".join(b"\x8a\x11" + (n * modulus).to_bytes(17, "little", signed=True) + then for n in range(count))


def _rebuilt_from(value: bytes) -> dict[str, bytes]:
    """Every function that rebuilds tensors, with a value in the place of each of its arguments."""
    found = {}
    for name in (*NAMES.split(), b"parameter", b"parameter_with_state", b"sparse_tensor"):
        for count in (1, 2, 4, 6, 7):
            args = [value] * count
            found[f"_rebuild_{name.decode()} of {count}"] = archive(called(REBUILD % name, *args), STORED)
    return found


def _overlapping() -> bytes:
    """An archive in which a thousand entries are the same megabyte."""
    buffer = io.BytesIO()
    calls = b"".join(storage(1, key=b"%d" % n) + b"0" for n in range(1000))
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("archive/data.pkl", b"\x80\x02" + calls + b"N.")
        made.writestr("archive/data/0", bytes(1 << 20))
        whole = made.getinfo("archive/data/0")
        for place in range(1, 1000):
            copy = zipfile.ZipInfo(f"archive/data/{place}")
            copy.header_offset, copy.CRC = whole.header_offset, whole.CRC
            copy.file_size = copy.compress_size = whole.file_size
            made.filelist.append(copy)
        made._didModify = True
    return buffer.getvalue()


def legacy(body: bytes, keys: bytes = b"].", rest: bytes = b"") -> bytes:
    """A file of the older format with a pickle by hand."""
    parts = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
    head = b"".join(pickle.dumps(part, 2) for part in parts)
    return head + b"\x80\x02" + body + STOP + keys + rest


HOSTILE: dict[str, bytes] = {
    "layout nested deeply": archive(called(REBUILD % b"sparse_tensor", DEEP, b")")),
    "layout that unfolds": archive(called(REBUILD % b"sparse_tensor", SHARED, b")")),
    "data that unfolds": archive(
        called(REBUILD % b"device_tensor_from_numpy", SHARED, b"ctorch\nfloat32\n", b"N", b"\x89")
    ),
    "size that unfolds": archive(tensor(size=SHARED), STORED),
    "persistent id that unfolds": archive(SHARED + b"Q"),
    "storage key that unfolds": archive(MARK + text(b"storage") + FLOATS + SHARED + text(b"cpu") + b"K\x01tQ"),
    "call that unfolds": archive(SHARED + b")R"),
    "object that unfolds": archive(SHARED + b")\x81"),
    "state that unfolds": archive(ORDERED + b")R" + SHARED + b"b"),
    "list that unfolds as size": archive(tensor(size=b"]" + b"q\x07h\x07\x86\x85" * 40), STORED),
    "lists that unfold as size": archive(tensor(size=b"]q\x05" + b"](h\x05h\x05eq\x05" * 60), STORED),
    "key nested deeply": archive(b"}" + DEEP + b"Ns"),
    "key that unfolds": archive(b"}" + SHARED + b"Ns"),
    "frozen sets nested deeply": archive(b"(\x91" + (b"q\x04(h\x04\x91") * 100_000),
    "keys with the same hash": archive(b"}(" + _same_hash(20_000, b"N") + b"u"),
    "set with the same hashes": archive(b"\x8f(" + _same_hash(20_000) + b"\x90"),
    "one long list as many OrderedDicts": archive(repeated(ORDERED, b"](" + b"K\x01N\x86" * 50_000 + b"e\x85")),
    "one long list as many sets": archive(repeated(b"cbuiltins\nset\n", LONG_LIST + b"\x85")),
    "one long dict as many Counters": archive(repeated(b"ccollections\nCounter\n", LONG_DICT + b"\x85")),
    "one long text as many bytes": archive(
        repeated(b"c_codecs\nencode\n", text(bytes(1_000_000)) + text(b"latin1") + b"\x86")
    ),
    "one long text as many bytearrays": archive(
        repeated(b"cbuiltins\nbytearray\n", b"B" + struct.pack("<I", 1_000_000) + bytes(1_000_000) + b"\x85")
    ),
    "one long list as many sizes": archive(repeated(b"ctorch\nSize\n", LONG_LIST.replace(b"N", b"K\x01") + b"\x85")),
    "one state for many OrderedDicts": archive(LONG_DICT + b"q\x03" + (ORDERED + b")Rh\x03b0") * 20_000 + b"N"),
    "one long key many times": archive(
        b"}q\x02(" + b"K\x01" * 999 + b"tq\x030" + b"h\x02h\x03Ns0" * 50_000 + b"N"
    ),
    "sparse tensor of a few bytes": archive(
        called(
            REBUILD % b"sparse_tensor",
            LAYOUT,
            MARK
            + tensor(b"K\x01" + number(1 << 40) + b"\x86", b"K\x00K\x00\x86", storage(kind=b"ctorch\nLongStorage\n", count=2))
            + tensor(number(1 << 40) + b"\x85", b"K\x00\x85", storage(kind=b"ctorch\nLongStorage\n", count=2))
            + number(8)
            + b"\x85\x88t",
        ),
        STORED,
    ),
    "conjugate of a few bytes": archive(
        called(
            REBUILD % b"tensor_v2",
            storage(2, b"ctorch\nComplexFloatStorage\n"),
            b"K\x00" + number(1 << 40) + b"\x85K\x00\x85\x89N}(" + text(b"conj") + b"\x88" + text(b"neg") + b"\x88u",
        ),
        STORED,
    ),
    "OrderedDict of a large tensor": archive(
        called(ORDERED, tensor(number(1 << 40) + b"\x85", b"K\x00\x85")),
        STORED,
    ),
    "meta tensor beyond all memory": archive(
        called(
            REBUILD % b"meta_tensor_no_storage", b"ctorch\nfloat64\n", number(1 << 61) + number(1 << 61) + b"\x86", b")", b"\x89"
        )
    ),
    "name without an end": archive(b"c" + b"a" * 5_000_000),
    "name of five megabytes": archive(text(b"a" * 5_000_000) + text(b"b") + b"\x93"),
    "name with escapes": archive(text(b"\x1b[2J") + text(b"b\x9b31m") + b"\x93"),
    "device of a megabyte": archive(called(b"ctorch\ndevice\n", text(b"x" * 1_000_000))),
    "layout of a megabyte": archive(called(b"ctorch.serialization\n_get_layout\n", text(b"x" * 1_000_000))),
    "number of a megabyte as count": archive(
        MARK + text(b"storage") + FLOATS + text(b"0") + text(b"cpu") + LARGE_NUMBER + TUPLE + b"Q", STORED
    ),
    "storage larger than the file": archive(storage(1 << 40), STORED),
    "storage that is not there": archive(storage(1, key=b"1")),
    "tensor without a storage": archive(called(REBUILD % b"tensor", b"N", b"K\x00", b")", b")")),
    "entries that lie in each other": _overlapping(),
    "legacy: storages larger than the file": legacy(b"".join(storage(200, key=b"%d" % n) + b"0" for n in range(999)) + b"N"),
    "legacy: storage that is not listed": legacy(tensor(b"K\x04\x85", b"K\x01\x85", storage(4))),
    "legacy: list that unfolds": legacy(b"N", keys=b"\x80\x02" + SHARED + b"."),
    "legacy: view that unfolds": legacy(
        MARK + text(b"storage") + FLOATS + text(b"0") + text(b"cpu") + b"K\x01" + SHARED + b"tQ"
    ),
    "legacy: version that unfolds": b"".join(
        [pickle.dumps(0x1950A86A20F9469CFC6C, 2), b"\x80\x02" + SHARED + b".", pickle.dumps({}, 2)]
    ),
    "legacy: magic that unfolds": b"\x80\x02" + SHARED + b".",
    "legacy: magic nested deeply": b"\x80\x02" + DEEP + b".",
    **{f"{name}, nested deeply": data for name, data in _rebuilt_from(DEEP).items()},
    **{f"{name}, unfolding": data for name, data in _rebuilt_from(SHARED).items()},
    **{f"{name}, nothing": data for name, data in _rebuilt_from(b"N").items()},
    **{f"{name}, tensors": data for name, data in _rebuilt_from(tensor()).items() if "device" not in name},
}  # fmt: skip
