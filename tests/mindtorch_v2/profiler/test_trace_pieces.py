"""Traces are read in pieces, by a fast parser or the standard library: what is found never depends on which, or where."""

import json
from pathlib import Path
from typing import Any

import pytest

from device_traces import training_step
from mindtorch_v2.profiler import TraceError, load
from mindtorch_v2.profiler.read import events, jsonstream

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 5, "dur": 2.0, "args": {}}


def everything(path: Path) -> list[Any]:
    """All that is known of the events of a trace, in words."""
    found = load(path)
    rows = []
    for track in found.tracks:
        columns = (track.start_ns, track.end_ns, track.seq, track.link, track.correlation, track.kind, track.inputs)
        for start, end, seq, link, correlation, kind, inputs in zip(*(column.tolist() for column in columns)):
            name = found.kinds[kind][:4]
            rows.append((track.native_id, start, end, seq, link, correlation, name, found.inputs[inputs]))
        rows.append((track.device_memory is None, None if track.arrows is None else track.arrows[:, :3].tolist()))
    return rows


def reordered(document: dict[str, Any]) -> dict[str, Any]:
    reversed_events = [dict(reversed(event.items())) for event in document["traceEvents"]]
    return {"traceEvents": reversed_events, **{key: document[key] for key in document if key != "traceEvents"}}


FORMS = {
    "one line": json.dumps,
    "pretty": lambda document: json.dumps(document, indent=4),
    "keys in another order": lambda document: json.dumps(reordered(document)),
    "events first": lambda document: json.dumps({"traceEvents": document.pop("traceEvents"), **document}),
    "bare": lambda document: json.dumps(document["traceEvents"]),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunk", [7, 300, 1 << 16])
@pytest.mark.parametrize("is_fast", [True, False])
def test_what_is_read_does_not_depend_on_form_pieces_or_parser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, chunk: int, is_fast: bool
) -> None:
    expected = everything(training_step().write(tmp_path / "a.json"))
    assert len(expected) > 20
    monkeypatch.setattr(jsonstream, "_CHUNK", chunk)
    if not is_fast:
        monkeypatch.setattr(events, "decode", None)
    (tmp_path / "b.json").write_text(FORMS[form](training_step().trace()))
    assert everything(tmp_path / "b.json") == expected


ODD = {
    "a list of objects among the arguments": {**EVENT, "args": {"x": [{"a": 1}, {"b": [{"c": 2}, {"d": 3}]}]}},
    "what looks like the end of an event": {**EVENT, "name": '}, {"ph": "X"}], {'},
    "a half of a pair": {**EVENT, "name": "a\ud800b"},
    "a number that is none": {**EVENT, "args": {"x": float("nan")}},
    "a time with all digits": {**EVENT, "ts": 1.5},
    "a process with a name": {**EVENT, "pid": "host", "id": {"a": 1}},
    "no arguments": {key: value for key, value in EVENT.items() if key != "args"},
    "a large number": {**EVENT, "args": {"x": 10**30, "correlation": 2**70}},
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("chunk", [16, 1 << 16])
def test_odd_events_among_others_are_read_alike_by_both_parsers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, chunk: int
) -> None:
    document = [{**EVENT, "ts": 1}, ODD[name], {**EVENT, "ts": 9}, ODD[name]]
    (tmp_path / "a.json").write_text(json.dumps(document))
    monkeypatch.setattr(jsonstream, "_CHUNK", chunk)
    found = repr(everything(tmp_path / "a.json"))
    monkeypatch.setattr(events, "decode", None)
    assert repr(everything(tmp_path / "a.json")) == found
    assert found.count("aten::add") + found.count('"X"') >= 2


@pytest.mark.parametrize("is_fast", [True, False])
def test_the_place_of_an_error_is_told_in_later_pieces_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_fast: bool
) -> None:
    monkeypatch.setattr(jsonstream, "_CHUNK", 200)
    if not is_fast:
        monkeypatch.setattr(events, "decode", None)
    lines = [json.dumps({**EVENT, "name": "é", "ts": ts}, ensure_ascii=False) for ts in range(50)]
    lines[40] = json.dumps({**EVENT, "name": 7})
    text = "\ufeff[" + ",\n".join(lines) + "]"
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(TraceError, match=r"line 41, .*expected a text, got 7") as caught:
        load(tmp_path / "a.json")
    assert text[1:][caught.value.position :].startswith(lines[40])


def test_equal_arguments_are_kept_once(tmp_path: Path) -> None:
    rows = [{**EVENT, "args": {"External id": n, "Input Dims": [[2, n % 3]]}} for n in range(1, 100)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    found = load(tmp_path / "a.json")
    (track,) = found.tracks
    assert len(set(track.inputs.tolist())) == 3
    assert {tuple(found.inputs[number].shapes[0]) for number in track.inputs.tolist()} == {(2, 0), (2, 1), (2, 2)}


def test_zstandard_is_read_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json.zst"
    # A frame with one raw block, as the format defines it.
    text = json.dumps([EVENT]).encode()
    path.write_bytes(b"\x28\xb5\x2f\xfd\x20" + bytes([len(text)]) + (1 | len(text) << 3).to_bytes(3, "little") + text)
    if jsonstream.zstandard is not None:
        assert [event.name for event in load(path).events()] == ["aten::add"]
    monkeypatch.setattr(jsonstream, "zstandard", None)
    with pytest.raises(ImportError, match=r"mindtorch_v2\[zst\]"):
        load(path)
