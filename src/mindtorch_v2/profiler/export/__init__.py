"""The formats a capture is written in, by the end of a file's name: one file a format, one line each here."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from ..analyse.metrics import Metrics
from ..capture.capture import Capture
from ..record import environment
from ..record.config import TRACE_FLAGS
from .chrome import write_trace
from .collapsed import write_collapsed
from .csv import write_csv
from .parquet import write_parquet
from .perfetto import write_perfetto
from .pprof import write_pprof
from .speedscope import write_speedscope
from .texts import json_text

Path = str | os.PathLike[str]


class Format(NamedTuple):
    """A way to write a capture, and what opens the file."""

    title: str
    write: Callable[[Capture, Path], None]


def write_chrome(capture: Capture, path: Path) -> None:
    """Write a capture as a Chrome trace, with the metadata it has; `.gz` is compressed."""
    flags = {flag: "1" for flag, option in TRACE_FLAGS.items() if getattr(capture.options, option)}
    said = {key: json_text(value) for key, value in capture.metadata.items() if key != "trace_id"}
    # In the order in which a profiler says it.
    metadata = {key: text for key, text in said.items() if key == environment.METADATA} | flags | said
    write_trace(Metrics(capture, echoes=True), path, str(capture.metadata.get("trace_id", "")), metadata)


CHROME = Format("Chrome trace: Perfetto, chrome://tracing, HTA, TensorBoard", write_chrome)
_PERFETTO = Format("Perfetto's own format: ui.perfetto.dev and its SQL engine", write_perfetto)
_SPEEDSCOPE = Format("speedscope: flame graphs by own time", write_speedscope)
_COLLAPSED = Format("collapsed stacks: flamegraph.pl, inferno, speedscope", write_collapsed)
_PPROF = Format("pprof", write_pprof)
_CSV = Format("all events as CSV", write_csv)
_PARQUET = Format("all events as Parquet (needs pyarrow)", write_parquet)

FORMATS: dict[str, Format] = {
    ".json": CHROME,
    ".json.gz": CHROME,
    ".pftrace": _PERFETTO,
    ".speedscope.json": _SPEEDSCOPE,
    ".collapsed": _COLLAPSED,
    ".folded": _COLLAPSED,
    ".pb.gz": _PPROF,
    ".csv": _CSV,
    ".csv.gz": _CSV,
    ".parquet": _PARQUET,
}


def format_of(path: Path) -> Format:
    """The format a file's name asks for; of several suffixes that fit, the longest."""
    name = os.fspath(path)
    fitting = [suffix for suffix in FORMATS if name.lower().endswith(suffix)]
    if not fitting:
        accepted = ", ".join(sorted(FORMATS))
        raise ValueError(f"cannot tell the format of {name!r} from its name: end it with one of {accepted}")
    return FORMATS[max(fitting, key=len)]


def write(capture: Capture, path: Path) -> None:
    """Write a capture in the format that the end of the path names."""
    format_of(path).write(capture, path)
