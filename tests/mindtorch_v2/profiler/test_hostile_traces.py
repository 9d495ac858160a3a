"""Traces with wrong values in every place: refused with a short error, or read and written as valid files."""

import codecs
import csv
import gzip
import io
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import protobuf_files
from mindtorch_v2.cli import main
from mindtorch_v2.profiler import TraceError, export, load
from mindtorch_v2.profiler.analyse import metrics, tree
from mindtorch_v2.profiler.analyse.arrows import ends_of_arrows
from mindtorch_v2.profiler.export import paths, perfetto
from mindtorch_v2.profiler.export.texts import json_text, writable
from mindtorch_v2.profiler.read import jsonstream, kineto
from mindtorch_v2.profiler.read.jsonstream import JsonStream

sys.path.insert(0, str(Path(__file__).parents[2] / "attack"))

import traces

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 5, "dur": 2.0, "args": {}}
SUFFIXES = [suffix for suffix in export.FORMATS if suffix != ".parquet"]
HALF = "a\ud800b"


def write(path: Path, *events: Any, **fields: Any) -> Path:
    path.write_text(json.dumps({**fields, "traceEvents": list(events)}))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def scripts(folder: Path) -> int:
    return traces.number_of_scripts(folder)


@pytest.mark.parametrize("field", ["pid", "tid"])
@pytest.mark.parametrize("value", [True, False, None, 1.5, float("nan"), [1], {"a": 1}, 2**62])
def test_what_is_no_process_or_thread_is_refused(tmp_path: Path, field: str, value: object) -> None:
    """Python takes true for 1: it would share the thread of the event before it, or be written as True."""
    for events in ([{**EVENT, field: value}, EVENT], [EVENT, {**EVENT, field: value}]):
        with pytest.raises(TraceError, match="as pid and tid"):
            load(write(tmp_path / "a.json", *events))


def test_whole_numbers_with_a_point_are_the_same_process(tmp_path: Path) -> None:
    assert len(load(write(tmp_path / "a.json", {**EVENT, "pid": 1.0}, EVENT)).tracks) == 1


@pytest.mark.parametrize("number", range(60))
def test_mutated_traces_are_refused_or_written_in_every_format(number: int, tmp_path: Path, scripts: int) -> None:
    data = next(itertools.islice(traces.traces(seed=99), number, None))
    is_read = traces.try_trace(data, tmp_path, scripts, SUFFIXES)
    written = {path.name for path in tmp_path.iterdir()} - {"trace.json"}
    outputs = {*(f"out{suffix}" for suffix in SUFFIXES), "out.html", "events.json", "stacks.txt"}
    assert written == (outputs if is_read else set())


@pytest.mark.parametrize("suffix", export.FORMATS)
def test_halves_of_pairs_can_be_written(tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    args = {"Input type": [HALF], "Input Dims": [[1]], "Concrete Inputs": [HALF], HALF: HALF, "Call stack": f"{HALF};"}
    named = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": HALF}}
    path = write(tmp_path / "a.json", named, {**EVENT, "name": HALF, "args": args}, host_name=HALF)
    written = tmp_path / f"b{suffix}"
    load(path).export(written)
    traces.CHECKS[suffix](written)
    assert written.stat().st_size


def test_json_has_no_halves_and_no_nan() -> None:
    assert json_text([HALF, {HALF: float("nan")}, "\\ud800", "é🎉"]) == json.dumps(
        ["a\ufffdb", {"a\ufffdb": "nan"}, "\\ud800", "é🎉"]
    )
    assert writable("é🎉") == "é🎉"


def test_arguments_that_json_has_no_word_for(tmp_path: Path) -> None:
    load(write(tmp_path / "a.json", {**EVENT, "args": {"x": {"y": [float("inf")]}}})).export(tmp_path / "b.json")
    text = (tmp_path / "b.json").read_text()
    assert '"x":{"y":["inf"]}' in text


# --- text that is no UTF-8 --------------------------------------------------------------------------------------------

GARBLED = json.dumps([{**EVENT, "name": "aten::@"}]).encode()


def names_and_notes(path: Path) -> tuple[list[str], list[str]]:
    found = load(path)
    return [event.name for event in found.events()], found.notes


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 1 << 20])
def test_bytes_that_are_not_utf8_are_replaced_and_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(jsonstream, "_CHUNK", chunk)
    path = tmp_path / "a.json"
    path.write_bytes(GARBLED.replace(b"@", "é".encode() + b"\xd0B\xf2\x8b\x86" + "🎉".encode()))
    names, notes = names_and_notes(path)
    assert names == ["aten::é�B���🎉"]
    assert notes == ["4 bytes in names or stacks were not UTF-8 and were replaced by �"]


def test_a_replacement_that_the_file_itself_has_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(GARBLED.replace(b"@", "�".encode()))
    assert names_and_notes(tmp_path / "a.json") == (["aten::�"], [])


def test_control_characters_in_names_are_kept(tmp_path: Path) -> None:
    """Kineto writes names as they come, those of C++ frames included."""
    (tmp_path / "a.json").write_bytes(GARBLED.replace(b"@", b"\x01\x7f\x00"))
    assert names_and_notes(tmp_path / "a.json") == (["aten::\x01\x7f\x00"], [])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_named(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.json").write_text(json.dumps([EVENT]), encoding=encoding)
    with pytest.raises(TraceError, match=rf"the text is in {encoding[:6].upper()}; write it in UTF-8"):
        load(tmp_path / "a.json")


def test_a_mark_of_utf8_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(codecs.BOM_UTF8 + GARBLED)
    assert names_and_notes(tmp_path / "a.json") == (["aten::@"], [])


# --- bombs ------------------------------------------------------------------------------------------------------------

BOMBS = {
    "white space": (b"[", b" "),
    "white space before all": (b"", b"\n"),
    "a text": (b'{"a": "', b"a"),
    "a number": (b'{"a": ', b"1"),
    "lists": (b'{"a": [', b"[],"),
    "lists in arguments": (b'[{"ph": "X", "name": "a", "ts": 1, "args": {"Input Dims": [', b"[],"),
    "events": (b"[", json.dumps(EVENT).encode() + b","),
    "arguments of one event": (json.dumps([EVENT])[:-3].encode(), b'"Python id":1,'),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_known_by_their_first_megabytes(tmp_path: Path, name: str) -> None:
    begin, unit = BOMBS[name]
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(begin + unit * ((48 << 20) // len(unit)), 6))
    with JsonStream(path) as stream:
        reader = kineto._Reader(stream)
        with pytest.raises(TraceError, match="times its size"):
            list(_reading(stream, reader))
        assert stream._read <= 16 << 20


def _reading(stream: JsonStream, reader: Any) -> Iterator[None]:
    if stream.peek() == "[":
        reader.read_events()
    for key in stream.fields():
        reader.read_field(key)
        yield


@pytest.mark.parametrize(
    ("text", "limit", "reason"),
    [
        (b"[" + b" " * 5000 + b"]", "_LARGEST", "white space"),
        (b'[{"ph": "x"}' + b',{"ph": "x"}' * 500 + b"]", "_MOST_IDLE", "without one event"),
        (b'[{"ph": "M", "name": "x"}' + b',{"ph": "M", "name": "x"}' * 500 + b"]", "_MOST_IDLE", "without one event"),
        (b'[{"ph": "B"}' + b',{"ph": "B"}' * 2000 + b"]", "_MOST_OPEN", "open at once"),
        (b"{" + b"".join(b'"%d": 1, ' % n for n in range(2000)) + b'"b": 1}', "_MOST_FIELDS", "no event"),
        (b'{"a": "' + b"a" * 5000 + b'"}', "_MOST_SAID", "no event"),
    ],
)
def test_much_that_says_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, limit: str, reason: str
) -> None:
    monkeypatch.setattr(jsonstream, "_CHUNK", 100)
    monkeypatch.setattr(jsonstream if limit == "_LARGEST" else kineto, limit, 1000)
    (tmp_path / "a.json").write_bytes(text)
    with pytest.raises(TraceError, match=reason):
        load(tmp_path / "a.json")


def test_events_that_say_something_end_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto, "_MOST_IDLE", 1000)
    quiet = [{"ph": "C", "name": "counter"}] * 20
    events = [event for ts in range(10) for event in (*quiet, {**EVENT, "ts": ts})]
    assert len(load(write(tmp_path / "a.json", *events)).events()) == 10


def test_texts_of_lists_in_lists_stay_texts(tmp_path: Path) -> None:
    deep = "[" * 2000 + "]" * 2000
    args = {"Input Dims": [[]], "Concrete Inputs": [deep]}
    (event,) = load(write(tmp_path / "a.json", {**EVENT, "args": args})).events()
    assert event.concrete_inputs == [[deep[1:-1]]]


@pytest.mark.parametrize("base", [-1, 2**61, "x", None, True])
def test_a_base_time_that_makes_no_sense_is_noted(tmp_path: Path, base: object) -> None:
    found = load(write(tmp_path / "a.json", EVENT, baseTimeNanoseconds=base))
    assert found.epoch_ns == 5000
    assert "makes no sense" in found.notes[0]


def test_errors_are_short_and_printable(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as caught:
        load(write(tmp_path / "a.json", {**EVENT, "ts": "\x1b[2J" * 100_000}))
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_csv_through_a_pipe_steers_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.json", {**EVENT, "name": "red\x1b[31m\rover\x9b2J\nnext"})
    assert main(["table", str(path), "--csv"]) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out, newline="")))
    assert rows[1][0] == "red\\x1b[31m\\rover\\x9b2J\nnext"
    load(path).export(tmp_path / "faithful.csv")
    assert "red\x1b[31m\rover\x9b2J\nnext".encode() in (tmp_path / "faithful.csv").read_bytes()


# --- nesting, threads and arrows that would grow as a square -----------------------------------------------------------


def region(name: str, ts: float, dur: float, **more: Any) -> dict[str, Any]:
    return {**EVENT, "name": name, "ts": ts, "dur": dur, **more}


def test_paths_of_very_deep_nesting_end_in_one_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "DEEPEST_STACK", 2)
    load(write(tmp_path / "a.json", *(region(f"n{n}", n, 10 - 2 * n) for n in range(5)))).export(tmp_path / "b.folded")
    assert (tmp_path / "b.folded").read_text() == "n0 2\nn0;n1 2\nn0;n1;[deeper_frames] 6\n"


def test_stacks_of_very_deep_nesting_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "DEEPEST_STACK", 2)
    events = (region(f"f.py({n}): f", n, 10 - 2 * n, cat="python_function") for n in range(5))
    found = metrics.Metrics(load(write(tmp_path / "a.json", *events)))
    assert [found.python_stack(place) for place in (0, 1, 4)] == [[], ["f.py(0): f"], ["f.py(3): f", "f.py(2): f"]]


def test_arrows_belong_to_the_innermost_event_around_them(tmp_path: Path) -> None:
    events = [region("outer", 0, 100), *(region("inner", n, 0.5) for n in range(1, 50))]
    ends = [
        {**EVENT, "ph": "s", "cat": "ac2g", "name": "ac2g", "ts": ts, "id": n} for n, ts in enumerate((7.2, 60, 200))
    ]
    found = metrics.Metrics(load(write(tmp_path / "a.json", *events, *ends)))
    names = [found.kind_of(int(found.kind[event])).name for event, _, _ in ends_of_arrows(found)]
    assert names == ["inner", "outer"]


def test_arrows_look_at_few_events(tmp_path: Path) -> None:
    """Each of many late arrows once went through all events before it."""
    events = [region("one", n, 0.5) for n in range(200)]
    ends = [{**EVENT, "ph": "s", "cat": "ac2g", "name": "ac2g", "ts": 1000 + n, "id": n} for n in range(200)]
    found = metrics.Metrics(load(write(tmp_path / "a.json", *events, *ends)))

    class Counted:
        looks = 0

        def __init__(self, values: Any) -> None:
            self._values = values

        def __getitem__(self, place: Any) -> Any:
            Counted.looks += 1
            value = self._values[place]
            return Counted(value) if isinstance(value, np.ndarray) else value

    columns = {name: getattr(found, name) for name in ("capture", "track", "is_mark", "start_ns", "parent")}
    watched: Any = SimpleNamespace(**columns, end_ns=Counted(found.end_ns))
    assert list(ends_of_arrows(watched)) == []
    assert Counted.looks <= 400


@pytest.mark.parametrize("chunk", [1, 3, 8192])
def test_perfetto_holds_all_slices_of_many_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(perfetto, "_CHUNK", chunk)
    events = [region("op", n, 2, tid=n % 7) for n in range(40)]
    load(write(tmp_path / "a.json", *events, region("crossing", 0.5, 3, tid=0))).export(tmp_path / "b.pftrace")
    read = protobuf_files.Perfetto(tmp_path / "b.pftrace")
    assert sorted(name for _, name, *_ in read.slices) == ["PyTorch Profiler (0)", "crossing", *["op"] * 40]


def test_depths_of_nested_events() -> None:
    assert tree.depths(np.array([-1, 0, 1, 1, 3, -1])).tolist() == [0, 1, 2, 2, 3, 0]
    assert tree.depths(np.arange(-1, 99_999)).max() == 99_999
    assert tree.own_counts(np.ones(50_000, np.int64), np.arange(-1, 49_999)).sum() == 1
