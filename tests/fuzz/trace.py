"""Fuzzes `profiler.api.load` on traces; what can be read is written in two formats, one of which is read again."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import fuzzing  # first: it says where the others are

# isort: split

import traces
from mindtorch_v2.profiler import load

FOLDER = Path(tempfile.mkdtemp(prefix="fuzz-trace-"))


def one(data: bytes) -> None:
    path = FOLDER / "trace.json"
    path.write_bytes(data)
    try:
        found = load(path)
    except ValueError as error:
        traces.check_message(str(error))
        return
    for suffix in (".json", ".pftrace"):
        found.export(FOLDER / f"out{suffix}")
        traces.CHECKS[suffix](FOLDER / f"out{suffix}")


def begin() -> Iterator[bytes]:
    document = traces.sample()
    yield json.dumps(document).encode()
    yield gzip.compress(json.dumps(document).encode())
    yield json.dumps(document["traceEvents"], indent=1).encode()
    for event in document["traceEvents"]:
        yield json.dumps([event, event], separators=(",", ":")).encode()
    yield from (data for data in islice(traces.traces(seed=1), 60) if len(data) < 5000)


if __name__ == "__main__":
    reading = ("jsonstream", "kineto", "regions", "arguments", "arrows", "texts", "metrics", "export")
    fuzzing.watch(*(f"mindtorch_v2.profiler.{module}" for module in reading))
    fuzzing.run(one, begin)
