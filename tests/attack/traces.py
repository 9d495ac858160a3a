"""Traces with every kind of value in every place: each is read, and what can be read is written in every format and
read back.

    python tests/attack/traces.py [--seed N] [--seconds S]

A finding is anything but the reader's own error, a file that is not valid in its format, an escape sequence on a
terminal, or more than a few seconds. Each finding names the seed and number that repeat it.
"""

from __future__ import annotations

import contextlib
import copy
import csv
import gzip
import html.parser
import io
import json
import random
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1] / "mindtorch_v2"))

import protobuf_files  # noqa: E402
from mindtorch_v2 import cli  # noqa: E402
from mindtorch_v2.profiler import export, load  # noqa: E402
from mindtorch_v2.profiler.report import pack  # noqa: E402
from options import run_files  # noqa: E402

SLOW_S = 5.0
_DEEP: Any = []
for _ in range(60):
    _DEEP = [_DEEP]
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 7, 1.5, -0.0, 1e-9, 1e300, float("nan"), float("inf"), -float("inf"),
    2**15, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**61, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**400,
    "", "x", "1", "True", "nan", "\ud800", "a\udfffb", "\x1b[31mred\x1b[0m", "\x00", "\n", "\r\n", "\t", "\x7f", "\x9b2J",
    "\u202e", "\ufeff", "a" * 10_000, "</script><script>alert(1)</script>", "<!--", "=1+1", "@x", "a;b c", '"', "\\", "[1, 2]",
    "[" * 2000 + "]" * 2000, "9" * 5000, "1" + ", 1" * 500, "[" + "1, " * 300 + "1]", "é🎉", "aten::add.out", "ProfilerStep#1",
    "ProfilerStep#x", "file.py(12): f", "file.py(99999999999999999999): f", "[memory]", "Trace", "thread 1 (\ud800)",
    [], [[]], [None], [1, 2], [[1, 2], [3]], [[-1]], [2**70], [[2**70]], ["\ud800"], {}, {"a": 1}, {"\ud800": [float("nan")]},
    _DEEP,
]  # fmt: skip
TEXTS = [value for value in VALUES if isinstance(value, str)]
WHOLE = [value for value in VALUES if type(value) is int and abs(value) < 2**62] + TEXTS
TIMES = [value for value in VALUES if isinstance(value, (int, float)) and abs(value) < 2**52] + [123.456, 10**12]
# Values that a field is likely to be read with.
SORTS = ("X", "B", "E", "b", "e", "n", "i", "I", "M", "s", "t", "f", "C", "O", "x", "")
CATEGORIES = (
    "cpu_op", "user_annotation", "python_function", "kernel", "gpu_memcpy", "gpu_user_annotation", "cuda_runtime", "cuda_driver",
    "cpu_instant_event", "ac2g", "fwdbwd", "Trace", "overhead", "xpu_runtime", "hpu_op",
)  # fmt: skip
BYTES = (b"\xff", b"\x80", b"\xc3", b"\x00", b" ", b"}", b"]", b'"', b"", b"-", b"e")
KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args", "bp", "s")
ARGUMENTS = (
    "External id", "Sequence number", "Fwd thread id", "correlation", "stream", "device", "Call stack", "Python id",
    "Python parent id", "Python module id", "Module path", "Input Dims", "Input type", "Input Strides", "Concrete Inputs",
    "Bytes", "Addr", "Device Type", "Device Id", "Total Allocated", "Total Reserved", "Ev Idx", "labels", "name", "Role",
)  # fmt: skip


# --- traces -----------------------------------------------------------------------------------------------------------


def _event(
    ph: str, cat: str, name: str, ts: float, dur: float | None = None, tid: int = 11, **more: Any
) -> dict[str, Any]:
    found: dict[str, Any] = {"ph": ph, "cat": cat, "name": name, "pid": 10, "tid": tid, "ts": ts}
    if dur is not None:
        found["dur"] = dur
    return {**found, **more}


def sample() -> dict[str, Any]:
    """A trace with something of every sort."""
    inputs = {"Input Dims": [[2, 3], []], "Input type": ["float", "Scalar"], "Input Strides": [[3, 1], []]}
    args = {"External id": 5, "Sequence number": 3, "Fwd thread id": 0, **inputs, "Concrete Inputs": ["", "1"]}
    memory = {"Bytes": 64, "Addr": 4096, "Device Id": -1, "Device Type": 0, "Total Allocated": 64, "Total Reserved": 0}
    device = {"stream": 7, "device": 0, "correlation": 9, "External id": 5}
    module = {"Python id": 1, "Python parent id": None, "Python module id": 0, "Module path": "net.0"}
    events = [
        {"ph": "M", "name": "process_name", "pid": 10, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_name", "pid": 10, "tid": 11, "args": {"name": "thread 11 (main)"}},
        _event("X", "user_annotation", "ProfilerStep#1", 0, 1000, args={"External id": 1}),
        _event("X", "python_function", "nn.Module: Linear_0", 1, 500, args=module),
        _event("X", "cpu_op", "aten::add", 10.5, 100.25, args=args),
        _event("X", "cpu_op", "aten::empty", 20, 5, args={"External id": 6, "Call stack": "a.py(1): f;b.py(2): g;"}),
        _event("X", "cuda_runtime", "cudaLaunchKernel", 30, 5, args={"External id": 5, "correlation": 9}),
        _event("X", "kernel", "add_kernel", 40, 50, 7, args=device),
        _event("X", "cpu_op", "crossing", 100, 950, args={}),
        _event("i", "cpu_instant_event", "[memory]", 25, s="t", args=memory),
        _event("i", "cpu_instant_event", "[memory]", 45, s="t", args={**memory, "Device Type": 1, "Device Id": 0}),
        _event("i", "cpu_instant_event", "[memory]", 95, s="t", args={**memory, "Bytes": -64}),
        _event("s", "ac2g", "ac2g", 31, id=9),
        _event("f", "ac2g", "ac2g", 41, tid=7, id=9, bp="e"),
        _event("B", "cpu_op", "open", 300),
        _event("E", "cpu_op", "open", 310),
        _event("b", "cpu_op", "async", 320, id="1"),
        _event("e", "cpu_op", "async", 330, id="1"),
        _event("X", "Trace", "PyTorch Profiler (0)", 0, 1200),
    ]
    flags = {"record_shapes": 1, "profile_memory": 1, "with_stack": 1}
    return {"schemaVersion": 1, **flags, "baseTimeNanoseconds": 1_700_000_000_000_000_000, "traceEvents": events}


def _places(value: Any, found: list[tuple[Any, Any]] | None = None) -> list[tuple[Any, Any]]:
    """All (container, key) of a JSON value."""
    found = [] if found is None else found
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        found.append((value, key))
        _places(inner, found)
    return found


def _likely(key: Any, draw: random.Random) -> Any:
    """A value for a field: any at all, or more often one that is read further."""
    fitting = {"ph": SORTS, "cat": CATEGORIES, "name": TEXTS, "pid": WHOLE, "tid": WHOLE, "ts": TIMES, "dur": TIMES}
    if draw.random() < 0.7:
        return draw.choice(fitting.get(key, VALUES))
    return copy.deepcopy(draw.choice(VALUES))


def mutate(document: Any, draw: random.Random) -> Any:
    """The trace with a few of its values changed, dropped, doubled, moved or added."""
    for _ in range(draw.choice((1, 1, 2, 3, 6))):
        held, key = draw.choice(_places(document))
        kind = draw.randrange(7)
        if kind <= 2:
            held[key] = _likely(key, draw)
        elif kind == 3:
            del held[key]
        elif kind == 4 and isinstance(held, list):
            held.insert(draw.randrange(len(held) + 1), copy.deepcopy(held[key]))
        elif kind == 5 and isinstance(held, dict):
            names = ARGUMENTS if "ph" not in held else KEYS
            name = draw.choice((*names, "\ud800", "\x1b]0;x\x07", ""))
            held[name] = _likely(name, draw)
        else:
            other, name = draw.choice(_places(document))
            held[key], other[name] = copy.deepcopy(other[name]), copy.deepcopy(held[key])
        if not _places(document):
            return document
    return document


def written(document: Any, draw: random.Random) -> bytes:
    """The trace as a file: in one of several layouts, rarely cut or with a few wrong bytes, sometimes compressed."""
    layout = draw.randrange(4)
    options: dict[str, Any] = [{}, {"separators": (",", ":")}, {"indent": 2}, {"separators": (", ", ":")}][layout]
    if isinstance(document, dict) and draw.random() < 0.1:
        document = document.get("traceEvents")
    data = bytearray(json.dumps(document, ensure_ascii=draw.random() < 0.5, **options).encode("utf-8", "surrogatepass"))
    for _ in range(draw.choice((*[0] * 16, 1, 3))):
        at = draw.randrange(len(data))
        data[at : at + draw.randrange(2)] = draw.choice(BYTES)
    if draw.random() < 0.05:
        data = data[: draw.randrange(len(data))]
    if draw.random() < 0.05:
        data = bytearray(b"\xef\xbb\xbf") + data
    return gzip.compress(bytes(data), 1) if draw.random() < 0.2 else bytes(data)


def traces(seed: int) -> Iterator[bytes]:
    """Endless mutated traces; the same for the same seed."""
    draw = random.Random(seed)
    base = sample()
    while True:
        yield written(mutate(copy.deepcopy(base), draw), draw)


# --- what is valid ----------------------------------------------------------------------------------------------------


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def strict_json(data: bytes) -> Any:
    return json.loads(data.decode("utf-8"), parse_constant=_no_constant)


def _chrome(path: Path) -> None:
    data = path.read_bytes()
    strict_json(gzip.decompress(data) if path.name.endswith(".gz") else data)
    load(path)


def _speedscope(path: Path) -> None:
    document = strict_json(path.read_bytes())
    count = len(document["shared"]["frames"])
    for profile in document["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= frame < count for frames in profile["samples"] for frame in frames)


def _collapsed(path: Path) -> None:
    lines = path.read_bytes().decode("utf-8").split("\n")
    assert lines.pop() == ""
    for line in lines:
        assert re.fullmatch(r"\S* \d+", line), line[:100]


def _pprof(path: Path) -> None:
    profile = protobuf_files.grouped(gzip.decompress(path.read_bytes()))
    for text in profile[6]:
        text.decode("utf-8")
    assert profile[6][0] == b""


def _csv(path: Path) -> None:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.name.endswith(".gz") else data).decode("utf-8")
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert len({len(row) for row in rows}) == 1, "rows of different lengths"


def _parquet(path: Path) -> None:
    import pyarrow.parquet  # noqa: PLC0415

    pyarrow.parquet.read_table(str(path)).to_pylist()


class _Page(html.parser.HTMLParser):
    """Counts scripts, and takes what is in them."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.scripts += tag == "script"


def check_report(path: Path, scripts: int) -> None:
    text = path.read_bytes().decode("utf-8")
    page = _Page()
    page.feed(text)
    assert page.scripts == scripts, f"{page.scripts} scripts in the report"
    held = re.search(r'id="?data"?[^>]*>([A-Za-z0-9+/=]+)<', text)
    assert held is not None, "the report holds no data"
    pack.unpack(held[1])


def _pftrace(path: Path) -> None:
    protobuf_files.Perfetto(path)


CHECKS: dict[str, Callable[[Path], None]] = {
    ".json": _chrome,
    ".json.gz": _chrome,
    ".pftrace": _pftrace,
    ".speedscope.json": _speedscope,
    ".collapsed": _collapsed,
    ".folded": _collapsed,
    ".pb.gz": _pprof,
    ".csv": _csv,
    ".csv.gz": _csv,
    ".parquet": _parquet,
}


class _Terminal(io.StringIO):
    """Takes what a command prints, as a terminal."""

    def isatty(self) -> bool:
        return True


_COMMANDS = (
    ("table",), ("table", "--csv"), ("table", "--json"), ("table", "--markdown"), ("table", "--by", "shape"),
    ("table", "--by", "stack", "--python"), ("info",), ("info", "--json"), ("diff",), ("diff", "--markdown"), ("diff", "--json"),
)  # fmt: skip
# Colours are the command's own.
_COLOUR = re.compile(r"\x1b\[\d*m")
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def show(path: Path, command: tuple[str, ...]) -> None:
    """Run a command as on a terminal; what it prints must not steer the terminal."""
    screen, talk = _Terminal(), _Terminal()
    files = (str(path), str(path)) if command[0] == "diff" else (str(path),)
    with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(talk):
        code = cli.main([*command, *files])
    assert code in (0, 2), f"{command} ended with {code}"
    assert code == 0 or command == ("table", "--by", "stack", "--python") or "cannot read" not in talk.getvalue(), (
        talk.getvalue()
    )
    for text in (screen.getvalue(), talk.getvalue()):
        rest = _STEERING.search(_COLOUR.sub("", text))
        assert rest is None, f"{command} wrote {rest[0]!r} to a terminal" if rest else ""
    if "--json" in command and code == 0:
        json.loads(screen.getvalue(), parse_constant=_no_constant)


# --- the attack -------------------------------------------------------------------------------------------------------


def formats() -> list[str]:
    """The formats that can be written here; Parquet needs pyarrow."""
    try:
        import pyarrow  # noqa: F401, PLC0415
    except ImportError:
        return [suffix for suffix in export.FORMATS if suffix != ".parquet"]
    return list(export.FORMATS)


def check_message(text: str) -> None:
    assert len(text) < 2000, "a long error"
    assert _STEERING.search(text) is None, "an error with control characters"


def try_trace(data: bytes, folder: Path, scripts: int, suffixes: list[str]) -> bool:
    """Whether a trace could be read; everything that can be done with it is done then. Anything wrong is raised."""
    path = folder / "trace.json"
    path.write_bytes(data)
    try:
        found = load(path)
    except ValueError as error:
        check_message(str(error))
        return False
    for suffix in suffixes:
        out = folder / f"out{suffix}"
        found.export(out)
        CHECKS[suffix](out)
    found.report(folder / "out.html")
    check_report(folder / "out.html", scripts)
    found.events().export_chrome_trace(str(folder / "events.json"))
    strict_json((folder / "events.json").read_bytes())
    found.export_stacks(folder / "stacks.txt")
    for averages in (found.key_averages(), found.key_averages(True, 3, True, True)):
        averages.table(row_limit=20)
        averages.to_csv()
        json.loads(averages.to_json(), parse_constant=_no_constant)
    for command in _COMMANDS:
        show(path, command)
    return True


def number_of_scripts(folder: Path) -> int:
    """Of a report that nobody attacked."""
    (folder / "plain.json").write_text(json.dumps(sample()))
    load(folder / "plain.json").report(folder / "plain.html")
    page = _Page()
    page.feed((folder / "plain.html").read_text(encoding="utf-8"))
    return page.scripts


def main(seed: int = 0, seconds: float = 60.0, only: int | None = None, most: int = 20) -> list[str]:
    """Attack for so many seconds; what was found, a text each."""
    findings: list[str] = []
    end = time.monotonic() + seconds
    tried = loaded = 0
    with tempfile.TemporaryDirectory() as name:
        folder, suffixes = Path(name), formats()
        scripts = number_of_scripts(folder)
        for number, data in enumerate(traces(seed)):
            if time.monotonic() > end or len(findings) >= most or (only is not None and number > only):
                break
            if only is not None and number != only:
                continue
            began = time.monotonic()
            tried += 1
            try:
                loaded += try_trace(data, folder, scripts, suffixes)
            except Exception:
                findings.append(
                    f"trace {number} of seed {seed}:\n{traceback.format_exc(limit=-6, chain=False)[-2000:]}"
                )
                Path(tempfile.gettempdir(), f"trace_{seed}_{number}.json").write_bytes(data)
            took = time.monotonic() - began
            if took > SLOW_S:
                findings.append(f"trace {number} of seed {seed} took {took:.1f} s")
    print(f"traces: seed {seed}, {tried} tried, {loaded} read, {len(findings)} findings")
    return findings


if __name__ == "__main__":
    run_files(__doc__, main)
